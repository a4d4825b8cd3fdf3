/* probe_target - what is probed and how: a peer's definition as a probe needs it, apart from the
 * configuration that it comes from. A plain value; its texts belong to whoever made it. */
#ifndef FL_COMMON_PROBE_PROBE_TARGET_H
#define FL_COMMON_PROBE_PROBE_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/model/config.h"
#include "common/model/verdict.h"
#include "common/tls/tls_terms.h"

#define FL_PROBE_HOST_MAX 640 /* NUL included: a service and a namespace, or what the file says */

struct fl_probe_target { /* a text that is NULL counts as "" */
    struct fl_addr addr;
    enum fl_probe_type type; /* not NONE */
    int64_t timeout_ms;      /* of one attempt's wait for an answer */
    uint64_t fingerprint;    /* of the definition; goes into the verdict */
    bool tls;
    struct fl_tls_terms *terms; /* whoever starts a probe holds them; NULL: none are to be had */
    const char *tls_name;       /* sent and verified; "": the address */
    const char *host;           /* Host sent and signed; "": the address */
    const char *path, *expect;  /* http */
    const char *bucket;         /* s3: of HeadBucket; "": ListBuckets */
    const char *region;         /* s3 */
    const char *access_key_file, *secret_key_file; /* s3: "" = anonymous */
};

/* As the configuration says; the texts stay the configuration's, and that of host. A peer that was
 * found by a name is called by that name. False: its address is no literal. fingerprint is left 0,
 * terms NULL. */
bool fl_probe_target_of(const struct fl_config *c, const struct fl_backend_conf *b,
                        const struct fl_peer_conf *peer, char host[FL_PROBE_HOST_MAX],
                        struct fl_probe_target *ret);
/* The bucket that an s3 probe asks for: probe.bucket, else the first one that is routed to b by
 * name; "": none is. */
const char *fl_probe_target_bucket(const struct fl_config *c, const struct fl_backend_conf *b);

/* The verdict on a peer that is written as a name which gives no address. err: EAI_*, 0: an empty
 * answer. Times are left 0. */
void fl_probe_target_unresolved(const char *address, int err, struct fl_verdict *ret);

/* Of the definition that is probed: protocol, address, probe and tls keys. Never 0. What was learnt
 * under another one is no evidence. */
uint64_t fl_probe_target_fingerprint(const struct fl_backend_conf *b, const char *address);

/* A copy in one block, for free(); no text is NULL. NULL = no memory. */
FL_MUST_USE struct fl_probe_target *fl_probe_target_copy(const struct fl_probe_target *t);
/* Two that are the same in every respect but the fingerprint. */
bool fl_probe_target_same(const struct fl_probe_target *a, const struct fl_probe_target *b);

#endif
