/* state - the document a controller pushes: the whole state for one sidecar configuration
 * (contract-cluster.md section 4). Idempotent; newest (epoch, seq) wins. Decoded by
 * common/codec/state_json. Pure. */
#ifndef FL_COMMON_MODEL_STATE_H
#define FL_COMMON_MODEL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/model/config.h"
#include "common/model/findings.h"
#include "common/model/verdict.h"

struct fl_state_verdict {
    const char *address;
    enum fl_verdict_status status;
    struct fl_cause cause;
    char step[16];
    int64_t age_ms;
};

struct fl_state_backend {
    const char *name;
    bool has_peers; /* "peers" was there, even if empty */
    bool owns; /* other keys than peers and verdicts are there: the controller defines this backend
                */
    struct fl_backend_conf conf; /* peers in conf.peers; the other keys only when owns */
    struct fl_state_verdict *verdicts;
    uint32_t verdict_count;
};

struct fl_state {
    struct fl_config *conf; /* arena owner of all strings; its backends and routes are not used */
    int64_t epoch, seq;
    struct fl_state_backend *backends;
    uint32_t backend_count;
    struct fl_route_conf *routes;
    uint32_t route_count;
    struct fl_strings keys; /* PEM texts; count 0 = not given */
    uint64_t hash;          /* of the set without epoch, seq and verdicts */
};

FL_MUST_USE struct fl_state *
fl_state_new(void); /* empty, with conf for its strings; NULL = no memory */
struct fl_state *fl_state_free(struct fl_state *s);
void fl_state_sort(struct fl_state *s); /* names and verdict addresses in byte order: the canonical
                                           order of encode and hash */
/* The effective configuration: the file's, overlaid by name with what the push defines; finish and
 * check applied. A backend with peers and verdicts only gets those members beside its written peers
 * (same address: the pushed keys win) and stays the file's; where the file has no such backend it
 * is the controller's, with defaults. Pushed peers and definitions carry FL_OWNER_CONTROLLER.
 * pushed may be NULL. NULL with findings when the result is invalid (nothing changes then). */
FL_MUST_USE struct fl_config *fl_state_overlay(const struct fl_config *file,
                                               const struct fl_state *pushed,
                                               struct fl_findings *f);
/* (epoch, seq) strictly newer than the pair in force? */
bool fl_state_newer(int64_t epoch, int64_t seq, int64_t have_epoch, int64_t have_seq);
/* May a configuration that a person sends replace the file's (PUT config, SIGHUP)? Backends and
 * routes that are the controller's in the one in force must be absent, as in it, or as in the file
 * so far: those as in force are taken out of `proposed` (they stay the controller's). Else a
 * finding names the owner, and false: answer 409, nothing changes. All three are finished. */
bool fl_state_settle_owners(const struct fl_config *file, const struct fl_config *in_force,
                            struct fl_config *proposed, struct fl_findings *f);

#endif
