/* tls_bio - the socket as OpenSSL sees it: fl_sock calls, with what they tell of the next edge kept
 * in the connection. OpenSSL's own socket BIO would raise SIGPIPE and ask the kernel again after
 * each short read. */
#include <errno.h>

#include "common/io/sock.h"
#include "common/model/tls_fault.h"
#include "common/tls/tls_inner.h"

static _Atomic(BIO_METHOD *) method; /* made once, kept for the life of the process */

static int read_socket(BIO *b, char *into, int n)
{
    struct fl_tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (t->recv_errno != 0) {
        return -1;
    }
    ssize_t got = t->drained ? -EAGAIN : fl_sock_recv(t->fd, into, (size_t)n);
    if (got > 0) {
        t->drained = got < n && !t->at_end;
        return (int)got;
    }
    if (got == -EAGAIN) {
        t->drained = true;
        BIO_set_retry_read(b);
    } else {
        t->recv_errno = got == 0 ? FL_TLS_CUT : (int)-got;
    }
    return -1;
}

/* A broken connection looks like a full one to OpenSSL, so that it can still read what came before
 * the end: an alert, an answer. */
static int write_socket(BIO *b, const char *from, int n)
{
    struct fl_tls *t = BIO_get_data(b);
    struct iovec iov = {.iov_base = (char *)(uintptr_t)from, .iov_len = (size_t)n}; /* only read */
    BIO_clear_retry_flags(b);
    ssize_t sent = -EAGAIN;
    if (!t->full && t->send_errno == 0) {
        sent = fl_sock_sendv(t->fd, &iov, 1);
    }
    t->full = sent < n;
    if (sent > 0) {
        return (int)sent;
    }
    if (sent < 0 && sent != -EAGAIN) {
        t->send_errno = (int)-sent;
    }
    BIO_set_retry_write(b);
    return -1;
}

static long control(BIO *b, int what, long n, void *arg)
{
    (void)b;
    (void)n;
    (void)arg;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

/* Terms are made by the control thread and by tests, possibly at once: the loser frees its own. */
static BIO_METHOD *method_of_all(void)
{
    BIO_METHOD *known = atomic_load(&method);
    if (known != NULL) {
        return known;
    }
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "fairlead socket");
    if (m == NULL) {
        return NULL;
    }
    (void)BIO_meth_set_read(m, read_socket);
    (void)BIO_meth_set_write(m, write_socket);
    (void)BIO_meth_set_ctrl(m, control);
    if (!atomic_compare_exchange_strong(&method, &known, m)) {
        BIO_meth_free(m);
        m = known;
    }
    return m;
}

BIO *fl_tls_bio_new(struct fl_tls *t)
{
    BIO_METHOD *m = method_of_all();
    BIO *b = m != NULL ? BIO_new(m) : NULL;
    if (b != NULL) {
        BIO_set_data(b, t);
        BIO_set_init(b, 1);
    }
    return b;
}
