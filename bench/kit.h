/* kit - the few socket and time helpers that relay, origin and load share.
 * A benchmark tool that cannot go on says why on stderr and exits 1; nothing here returns an error
 * to recover from, unless the comment says so. One thread. */
#ifndef FL_BENCH_KIT_H
#define FL_BENCH_KIT_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define FL_KIT_PATTERN_BYTES 65536 /* the body pattern repeats after this many bytes */

int64_t fl_kit_now_ns(void); /* CLOCK_MONOTONIC */
_Noreturn void fl_kit_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Decimal number with an optional k, m or g (powers of 1024). */
uint64_t fl_kit_number(const char *text);
/* "127.0.0.1:8000"; numeric IPv4 only. */
struct sockaddr_in fl_kit_address(const char *text);

/* Non-blocking, NODELAY (accepted sockets inherit it), backlog 4096. */
int fl_kit_listen(const char *address);
/* Starts a non-blocking connect. The fd, or -errno. */
int fl_kit_dial(const struct sockaddr_in *to);
/* Does not pace what it sends (reno instead of, say, BBR), nor do the connections it accepts. */
void fl_kit_unpaced(int fd);
/* The next waiting connection, non-blocking, or -errno (-EAGAIN: none). */
int fl_kit_accept(int listener);

int fl_kit_epoll(void);
/* Level-triggered IN, for listeners. */
void fl_kit_watch_listener(int epoll, int fd, void *arg);
/* Registers once, edge-triggered, for IN|OUT|RDHUP. */
void fl_kit_watch(int epoll, int fd, void *arg);

/* Fills n bytes with the body pattern, as if at the start of a body. */
void fl_kit_pattern(uint8_t *to, size_t n);
/* Descriptors as many as allowed, SIGPIPE ignored. */
void fl_kit_prepare_process(void);

#endif
