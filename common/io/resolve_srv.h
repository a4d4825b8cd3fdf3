/* resolve_srv - the SRV records of one DNS answer (RFC 1035 section 4.1, RFC 2782). Pure; the bytes
 * are untrusted. */
#ifndef FL_COMMON_IO_RESOLVE_SRV_H
#define FL_COMMON_IO_RESOLVE_SRV_H

#include <stddef.h>
#include <stdint.h>

struct fl_srv {
    uint16_t port;
    char target[256];
};

/* The number of records (at most max, the rest is left out), or -EBADMSG. */
int fl_resolve_srv(const uint8_t *answer, size_t len, struct fl_srv *into, int max);

#endif
