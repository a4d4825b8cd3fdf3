/* tls - one TLS connection as client, over a connected non-blocking socket: the verbs of sock
 * (recv, sendv, close) and a handshake before them. It reads and writes through common/io/sock
 * only, so tests/sim can stand in.
 *
 * Edges. The owner registers the fd edge-triggered and says fl_tls_edge on each event. Bytes may
 * then lie decrypted, or undecrypted in the read-ahead, without any further event: after a call
 * that gave bytes, fl_tls_readable says whether another may give more. -EAGAIN from either verb
 * waits for the next event of any kind where fl_tls_crossed is true (a read that must write first,
 * or the other way round: alerts, key updates), else for its own kind.
 *
 * One thread at a time; the terms may be shared. */
#ifndef FL_COMMON_TLS_TLS_H
#define FL_COMMON_TLS_TLS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/base/addr.h"
#include "common/base/check.h"

struct fl_tls;
struct fl_tls_terms;

#define FL_TLS_NO_LANE                                                                             \
    ((unsigned)-1) /* no session is resumed or kept: probes look anew each time */

struct fl_tls_peer {
    const struct fl_addr *addr;
    const char *name; /* sent (SNI) and verified; "" or NULL: the address is, where it must be */
    unsigned lane;    /* of the data thread, or FL_TLS_NO_LANE */
};

/* Holds the terms. The fd stays the caller's: close the TLS connection before it. 0, -ENOMEM. */
FL_MUST_USE int fl_tls_open(struct fl_tls_terms *terms, int fd, const struct fl_tls_peer *peer,
                            struct fl_tls **ret);
/* An event came for the fd. at_end: the other side has finished sending, or an error is pending. */
void fl_tls_edge(struct fl_tls *t, bool at_end);
/* Goes as far as it can: 0 done, -EAGAIN: call again after the next event; else the negative of an
 * errno or of a fault (common/model/tls_fault.h), and nothing of use was or will be sent. */
FL_MUST_USE int fl_tls_handshake(struct fl_tls *t);

/* Up to n bytes, of as many records as are there. > 0; 0: the peer has ended in good order
 * (close_notify); -EAGAIN; else -errno or -fault: FL_TLS_CUT when the connection ended without
 * close_notify, so that what came may not be all (RFC 8446 section 6.1). */
ssize_t fl_tls_recv(struct fl_tls *t, void *into, size_t n);
/* Bytes taken, or -EAGAIN, -errno, -fault. Small slices share a record, and so a send. After fewer
 * bytes than asked, or -EAGAIN, the next call must begin with the same bytes and not be shorter
 * (part of their record may be under way). */
ssize_t fl_tls_sendv(struct fl_tls *t, const struct iovec *iov, int count);
bool fl_tls_readable(const struct fl_tls *t); /* a recv may give something before the next event */
bool fl_tls_crossed(const struct fl_tls *t);
bool fl_tls_resumed(const struct fl_tls *t); /* an abbreviated handshake; after it */

/* Says close_notify where that is still in order, frees, gives the terms back. *t = NULL; NULL is
 * fine. */
void fl_tls_close(struct fl_tls **t);

#endif
