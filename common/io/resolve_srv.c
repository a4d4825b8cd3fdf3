#include "common/io/resolve_srv.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <resolv.h>

#define RECORD_HEAD 10 /* type, class, ttl, length of the data */
#define SRV_HEAD    6  /* priority, weight, port */

static unsigned get16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

int fl_resolve_srv(const uint8_t *answer, size_t len, struct fl_srv *into, int max)
{
    if (len < NS_HFIXEDSZ) {
        return -EBADMSG;
    }
    const uint8_t *p = answer + NS_HFIXEDSZ, *end = answer + len;
    for (unsigned n = get16(answer + 4); n > 0; n--) { /* questions */
        int skip = dn_skipname(p, end);
        if (skip < 0 || end - p < skip + NS_QFIXEDSZ) {
            return -EBADMSG;
        }
        p += skip + NS_QFIXEDSZ;
    }
    int count = 0;
    for (unsigned n = get16(answer + 6); n > 0; n--) {
        int skip = dn_skipname(p, end);
        if (skip < 0 || end - p < skip + RECORD_HEAD) {
            return -EBADMSG;
        }
        p += skip;
        unsigned type = get16(p), size = get16(p + 8);
        p += RECORD_HEAD;
        if (end - p < (ptrdiff_t)size) {
            return -EBADMSG;
        }
        if (type == ns_t_srv && count < max) {
            struct fl_srv *srv = &into[count];
            int used = size > SRV_HEAD
                           ? dn_expand(answer, end, p + SRV_HEAD, srv->target, sizeof(srv->target))
                           : -1;
            if (used < 0 || SRV_HEAD + (unsigned)used > size) {
                return -EBADMSG;
            }
            srv->port = (uint16_t)get16(p + 4);
            count += srv->target[0] != '\0'; /* "." : the service is decidedly not there */
        }
        p += size;
    }
    return count;
}
