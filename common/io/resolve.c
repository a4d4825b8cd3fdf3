#include "common/io/resolve.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/list.h"
#include "common/io/resolve_srv.h"
#include "common/io/thread.h"

#define STACK_BYTES                                                                                \
    ((size_t)256 * 1024) /* getaddrinfo and what it loads take more than the usual */
#define ANSWER_BYTES 16384
#define HOST_MAX     255

struct question {
    struct fl_list node;
    fl_resolve_fn *done;
    void *arg;
    uint16_t port;
    int err, count;
    struct fl_addr addrs[FL_RESOLVE_MAX];
    char host[HOST_MAX + 1];
};

/* What the two threads share. It outlives the resolver when that goes while a look-up is under way,
 * since nothing can interrupt getaddrinfo. */
struct shared {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct fl_list asked, answered;
    int wake_fd;
    bool closing; /* under the lock from here on, wake_fd is not to be used any more */
    bool busy;
    struct fl_srv srv[FL_RESOLVE_MAX]; /* helper thread only, as the next */
    uint8_t answer[ANSWER_BYTES];
};

struct fl_resolver {
    struct fl_io io;
    struct fl_reactor *r;
    struct shared *s;
    pthread_t thread;
    bool running;
    bool delivering,
        gone; /* an answer may free the resolver: its memory then goes after the delivery */
};

static void free_questions(struct fl_list *list)
{
    for (struct fl_list *n; (n = fl_list_first(list)) != NULL;) {
        fl_list_remove(n);
        free(fl_container_of(n, struct question, node));
    }
}

static void free_shared(struct shared *s)
{
    free_questions(&s->asked);
    free_questions(&s->answered);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void add_address(struct question *q, const struct sockaddr *sa, uint16_t port)
{
    struct fl_addr a = {.port = port};
    if (sa->sa_family == AF_INET) {
        a.family = FL_ADDR_V4;
        memcpy(a.ip, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        a.family = FL_ADDR_V6;
        memcpy(a.ip, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
    } else {
        return;
    }
    for (int i = 0; i < q->count; i++) {
        if (fl_addr_eq(&q->addrs[i], &a)) {
            return;
        }
    }
    if (q->count < FL_RESOLVE_MAX) {
        q->addrs[q->count++] = a;
    }
}

static int look_up_host(struct question *q, const char *host, uint16_t port)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    int err = getaddrinfo(host, NULL, &hints, &found);
    for (const struct addrinfo *ai = found; ai != NULL; ai = ai->ai_next) {
        add_address(q, ai->ai_addr, port);
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    return err;
}

static int look_up_srv(struct shared *s, struct question *q)
{
    struct __res_state rs;
    memset(&rs, 0, sizeof(rs));
    if (res_ninit(&rs) < 0) {
        return EAI_FAIL;
    }
    int len = res_nsearch(&rs, q->host, ns_c_in, ns_t_srv, s->answer, sizeof(s->answer));
    int why = rs.res_h_errno;
    res_nclose(&rs);
    if (len < 0) {
        return why == TRY_AGAIN ? EAI_AGAIN : why == NO_RECOVERY ? EAI_FAIL : EAI_NONAME;
    }
    size_t size = (size_t)len < sizeof(s->answer) ? (size_t)len : sizeof(s->answer);
    int count = fl_resolve_srv(s->answer, size, s->srv, FL_RESOLVE_MAX);
    int err = count < 0 ? EAI_FAIL : EAI_NONAME;
    for (int i = 0; i < count; i++) {
        int one = look_up_host(q, s->srv[i].target, s->srv[i].port);
        err = q->count > 0 ? 0 : one; /* a target without an address does not spoil the others */
    }
    return err;
}

static int by_value(const void *a, const void *b)
{
    const struct fl_addr *x = a, *y = b;
    if (x->family != y->family) {
        return x->family < y->family ? -1 : 1;
    }
    int ip = memcmp(x->ip, y->ip, sizeof(x->ip));
    return ip != 0 ? ip : (int)x->port - (int)y->port;
}

static void answer(struct shared *s, struct question *q)
{
    q->err = q->host[0] == '_' ? look_up_srv(s, q) : look_up_host(q, q->host, q->port);
    if (q->err == 0 && q->count == 0) {
        q->err = EAI_NONAME;
    }
    qsort(q->addrs, (size_t)q->count, sizeof(q->addrs[0]), by_value);
}

static void *run(void *arg)
{
    struct shared *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        struct fl_list *n = fl_list_first(&s->asked);
        if (n == NULL) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        struct question *q = fl_container_of(n, struct question, node);
        fl_list_remove(n);
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        answer(s, q);
        pthread_mutex_lock(&s->lock);
        fl_list_append(&s->answered, &q->node);
        if (s->closing) { /* nobody waits for this thread: see fl_resolver_free */
            pthread_mutex_unlock(&s->lock);
            free_shared(s);
            return NULL;
        }
        s->busy = false;
        uint64_t one = 1;
        (void)!write(s->wake_fd, &one, sizeof(one));
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct question *take_answer(struct shared *s)
{
    pthread_mutex_lock(&s->lock);
    struct fl_list *n = fl_list_first(&s->answered);
    if (n != NULL) {
        fl_list_remove(n);
    }
    pthread_mutex_unlock(&s->lock);
    return n != NULL ? fl_container_of(n, struct question, node) : NULL;
}

static void on_answers(struct fl_io *io, unsigned events)
{
    (void)events;
    struct fl_resolver *rs = fl_container_of(io, struct fl_resolver, io);
    uint64_t wakes;
    (void)!read(io->fd, &wakes, sizeof(wakes));
    rs->delivering = true;
    for (struct question *q; !rs->gone && (q = take_answer(rs->s)) != NULL;) {
        q->done(q->arg, q->err, q->addrs, q->err == 0 ? q->count : 0);
        free(q);
    }
    rs->delivering = false;
    if (rs->gone) {
        free(rs);
    }
}

static struct shared *new_shared(void)
{
    struct shared *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->work, NULL);
        fl_list_init(&s->asked);
        fl_list_init(&s->answered);
    }
    return s;
}

int fl_resolver_new(struct fl_reactor *r, struct fl_resolver **ret)
{
    struct fl_resolver *rs = calloc(1, sizeof(*rs));
    struct shared *s = new_shared();
    int rc = rs != NULL && s != NULL ? 0 : -ENOMEM;
    int fd = -1;
    if (rc == 0) {
        fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        rc = fd < 0 ? -errno : 0;
    }
    if (rc == 0) {
        *rs = (struct fl_resolver){.r = r, .s = s, .io = {.fd = -1, .on_event = on_answers}};
        s->wake_fd = fd;
        rc = fl_reactor_add_level(r, &rs->io, fd);
    }
    if (rc == 0) {
        *ret = rs;
        return 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (s != NULL) {
        free_shared(s);
    }
    free(rs);
    return rc;
}

struct fl_resolver *fl_resolver_free(struct fl_resolver *rs)
{
    if (rs == NULL) {
        return NULL;
    }
    struct shared *s = rs->s;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    bool leave = s->busy; /* then the thread frees what it shares, when the look-up has ended */
    fl_reactor_close(rs->r, &rs->io);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (rs->running && leave) {
        pthread_detach(rs->thread);
    } else {
        if (rs->running) {
            pthread_join(rs->thread, NULL);
        }
        free_shared(s);
    }
    if (rs->delivering) {
        rs->gone = true;
    } else {
        free(rs);
    }
    return NULL;
}

static int start(struct fl_resolver *rs)
{
    int rc = fl_thread_start(&rs->thread, STACK_BYTES, run, rs->s);
    rs->running = rc == 0;
    return rc;
}

int fl_resolver_ask(struct fl_resolver *rs, const char *host, uint16_t port, fl_resolve_fn *done,
                    void *arg)
{
    size_t len = strlen(host);
    if (len > HOST_MAX) {
        return -ENAMETOOLONG;
    }
    int rc = rs->running ? 0 : start(rs);
    if (rc < 0) {
        return rc;
    }
    struct question *q = malloc(sizeof(*q));
    if (q == NULL) {
        return -ENOMEM;
    }
    q->done = done;
    q->arg = arg;
    q->port = port;
    q->err = q->count = 0;
    memcpy(q->host, host, len + 1);
    pthread_mutex_lock(&rs->s->lock);
    fl_list_append(&rs->s->asked, &q->node);
    pthread_cond_signal(&rs->s->work);
    pthread_mutex_unlock(&rs->s->lock);
    return 0;
}
