#include "sidecar/await.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "common/base/units.h"
#include "common/io/sock.h"

#define START_WAIT_MS 5000
#define MARGIN_MS     1000
#define PAUSE_MS      10
#define ANSWER_MS     1000 /* of one question: a sidecar that starts may be slow once */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static bool wait_for(int fd, short events, int64_t until_ms)
{
    struct pollfd p = {fd, events, 0};
    int64_t left_ms = until_ms - now_ms();
    return left_ms > 0 && poll(&p, 1, (int)left_ms) == 1;
}

/* The whole answer, or as much as came in time. */
static size_t ask(const struct fl_addr *at, char *text, size_t cap, int64_t until_ms)
{
    static const char request[] =
        "GET /_/started HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    int fd = -1;
    size_t n = 0;
    if (fl_sock_connect(at, 0, &fd) < 0) {
        return 0;
    }
    struct iovec out = {(void *)(uintptr_t)request, sizeof(request) - 1};
    if (wait_for(fd, POLLOUT, until_ms) && fl_sock_sendv(fd, &out, 1) == (ssize_t)out.iov_len) {
        while (n + 1 < cap && wait_for(fd, POLLIN, until_ms)) {
            ssize_t got = fl_sock_recv(fd, text + n, cap - 1 - n);
            if (got == 0 || (got < 0 && got != -EAGAIN)) {
                break;
            }
            n += got > 0 ? (size_t)got : 0;
        }
    }
    fl_sock_close(fd);
    return n;
}

/* The number behind "start_wait_ms": in the answer's body. */
static int64_t start_wait_of(const char *text)
{
    static const char key[] = "\"start_wait_ms\":";
    const char *at = strstr(text, key);
    uint64_t ms = 0;
    size_t digits = at != NULL ? strspn(at + sizeof(key) - 1, "0123456789") : 0;
    bool good = digits > 0 && digits < 10 &&
                fl_units_uint((struct fl_span){at + sizeof(key) - 1, digits}, &ms);
    return good ? (int64_t)ms : START_WAIT_MS;
}

bool fl_await_started(const struct fl_addr *at)
{
    int64_t began_ms = now_ms(), end_ms = began_ms + START_WAIT_MS + MARGIN_MS;
    while (now_ms() < end_ms) {
        char text[4096];
        int64_t until_ms = now_ms() + ANSWER_MS;
        size_t n = ask(at, text, sizeof(text), until_ms < end_ms ? until_ms : end_ms);
        text[n] = '\0';
        if (strncmp(text, "HTTP/1.1 200 ", 13) == 0) {
            return true;
        }
        if (n > 0) {
            end_ms = began_ms + start_wait_of(text) + MARGIN_MS;
        }
        (void)poll(NULL, 0, PAUSE_MS);
    }
    return false;
}
