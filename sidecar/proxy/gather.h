/* gather - bytes waiting to be sent, as slices of memory owned by others, with the progress of
 * partial sends. */
#ifndef FL_SIDECAR_PROXY_GATHER_H
#define FL_SIDECAR_PROXY_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FL_GATHER_MAX = 16 };

struct fl_gather {
    unsigned at, count;
    size_t left; /* bytes not yet taken by the kernel */
    struct iovec iov[FL_GATHER_MAX];
};

static inline void fl_gather_clear(struct fl_gather *g)
{
    g->at = g->count = 0;
    g->left = 0;
}

static inline bool fl_gather_room(const struct fl_gather *g, unsigned slices)
{
    return g->count + slices <= FL_GATHER_MAX;
}

/* The caller has seen to the room. Empty slices are left out; one that begins where the last ends
 * makes that longer. */
void fl_gather_add(struct fl_gather *g, const void *bytes, size_t n);
/* n bytes from the front are gone. */
void fl_gather_advance(struct fl_gather *g, size_t n);
/* One send. Bytes taken (> 0), or -errno; after a short one (left > 0) the socket is full. */
ssize_t fl_gather_send(struct fl_gather *g, int fd);

#endif
