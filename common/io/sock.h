/* sock - non-blocking sockets as values and -errno. The second half of the seam that tests/sim
 * replaces. No call blocks, logs or retries, except that EINTR is absorbed. */
#ifndef FL_COMMON_IO_SOCK_H
#define FL_COMMON_IO_SOCK_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/base/addr.h"
#include "common/base/check.h"

/* Bound and listening, or -errno. [::] is dual-stack, and 0.0.0.0 on a kernel without IPv6; a stale
 * unix socket file is replaced. Options that accepted sockets inherit (NODELAY, keepalive,
 * NOTSENT_LOWAT 128 KiB; at a loopback address reno, which does not pace) are set here. */
FL_MUST_USE int fl_sock_listen(const struct fl_addr *at, int backlog, int *ret_fd);
/* The bound address (port 0 resolved). */
int fl_sock_local(int fd, struct fl_addr *ret);
/* One waiting connection: fd >= 0, or -EAGAIN, -EMFILE, -ENFILE, -ECONNABORTED … ret_peer may be
 * NULL. */
FL_MUST_USE int fl_sock_accept(int listen_fd, struct fl_addr *ret_peer);
/* 0: under way or done (writability tells, the first send returns the error); else -errno and no
 * fd. user_timeout_ms: TCP_USER_TIMEOUT, 0 = none. To a loopback address without pacing. */
FL_MUST_USE int fl_sock_connect(const struct fl_addr *to, int user_timeout_ms, int *ret_fd);
int fl_sock_error(int fd); /* SO_ERROR as -errno, 0 when none; clears it */

ssize_t fl_sock_recv(int fd, void *into, size_t n); /* > 0, 0 = EOF, -EAGAIN, -errno */
/* Bytes taken by the kernel, or -errno. */
ssize_t fl_sock_sendv(int fd, const struct iovec *iov, int count);
/* A pipe that holds about `bytes`, for fl_sock_splice. 0, or -errno (-ENOSYS: this world has none).
 */
FL_MUST_USE int fl_sock_pipe(size_t bytes, int *ret_from, int *ret_into);
/* Moves up to n bytes from a socket into a pipe or from a pipe into a socket without their passing
 * through here (splice(2); SIGPIPE is to be ignored). > 0, 0 = EOF, -EAGAIN, -errno. A short count
 * from a socket does not say that it is empty, one from a pipe says that the socket is full. */
ssize_t fl_sock_splice(int from, int into, size_t n);
/* The receive buffer stays at `bytes` (the kernel doubles it for its own overhead). False: this
 * kernel (before 5.15) could not let it grow again, and nothing was changed. */
bool fl_sock_hold_window(int fd, int bytes);
/* The receive buffer is larger from now on; grows: that is where it begins to grow by itself again.
 * (It would not from where it was held: the kernel waits for a round trip that brings more than the
 * one before.) */
void fl_sock_widen_window(int fd, int bytes, bool grows);
/* An edge for reading only when so many bytes are there, or an end (0: any, as in the beginning;
 * SO_RCVLOWAT). What fewer there are can be read all the same. The kernel widens a receive buffer
 * that would not hold them, and tells sooner where that is not to be had. */
void fl_sock_wake_at(int fd, int bytes);
void fl_sock_finish(int fd);         /* shutdown(WR): FIN after what was sent */
void fl_sock_reset_on_close(int fd); /* the next close sends RST */
void fl_sock_close(int fd);          /* of a socket that no reactor holds */
bool fl_errno_is_local(int err);     /* EMFILE ENFILE EADDRNOTAVAIL ENOBUFS ENOMEM (positive): our
                                        exhaustion, not the peer's */

#endif
