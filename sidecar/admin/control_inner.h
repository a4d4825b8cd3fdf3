/* control_inner - the control state, as the other files of sidecar/admin see it. Nobody outside
 * includes this. */
#ifndef FL_SIDECAR_ADMIN_CONTROL_INNER_H
#define FL_SIDECAR_ADMIN_CONTROL_INNER_H

#include "common/io/bridge/mhd_bridge.h"
#include "common/io/names.h"
#include "common/model/state.h"
#include "common/sign/verify_keys.h"
#include "common/tls/tls_shelf.h"
#include "sidecar/admin/control.h"
#include "sidecar/admin/events.h"
#include "sidecar/admin/prober.h"
#include "sidecar/policy/verdict_merge.h"

#define FL_STALE_INTERVALS 3 /* without an accepted push: membership is stale */

/* What is remembered of a backend between snapshots: transitions are judged against it. */
struct fl_backend_memory {
    struct fl_list node;
    enum fl_verdict_status status;
    int64_t since_unix_ms; /* when status became what it is; 0: unknown from the start */
    int64_t down_since_ms; /* when it stopped being healthy; 0: it is, or was never probed */
    bool seen;
    char name[];
};

/* A peer whose passive health was not "live" when last looked at. */
struct fl_peer_memory {
    struct fl_list node;
    const struct fl_peer *peer;
    char backend[];
};

struct fl_probe_wait { /* a Test connection that waits for its round */
    struct fl_list node;
    struct fl_mhd_call *call;
    uint64_t ticket;
    int64_t until_ms; /* then it is answered with what is known; INT64_MAX: when it is over */
    int64_t known_ms; /* from then on nobody waits for peers that are blocked already; the same */
    char backend[];   /* "*": all */
};

struct fl_control {
    struct fl_control_conf conf;
    struct fl_engine *engine; /* NULL until begin */
    struct fl_config *file;
    int64_t began_ms;

    struct fl_state *pushed; /* in force; NULL: none */
    int64_t epoch, seq;      /* of the last accepted push; also restored */
    int64_t pushed_at_ms;    /* when that was; may lie before our start; 0: never */
    bool restored;           /* it came from the state file */
    bool verdicts_new;       /* its verdicts are not yet with the prober */
    struct fl_verify_keys *keys;
    char *pushed_keys; /* PEM texts a push brought; NULL: the file's are in force */
    int64_t skew_warned_ms;

    struct fl_names *names;
    struct fl_prober *prober;
    struct fl_events *events;
    struct fl_tls_shelf *tls;
    unsigned tls_ticks;
    char tls_said[320];     /* the last warning about a backend without terms */
    struct fl_apply *apply; /* a configuration whose backends are being asked; NULL: none */

    struct fl_mhd *status_server, *admin_server; /* for figures; NULL: not open */

    const struct fl_snapshot *current; /* the newest published */
    struct fl_snapshot *first;         /* built, not yet given to the engine */
    uint64_t generation, membership_generation, health_version;
    struct fl_task rebuild;
    struct fl_timer reclaim, tick, retry, due; /* due: of waits */
    int64_t reclaim_wait_ms;
    struct fl_list backends; /* struct fl_backend_memory */
    struct fl_list peers;    /* struct fl_peer_memory */
    struct fl_list waits;    /* struct fl_probe_wait */

    bool booting; /* the members that it starts with are not all known yet */
    bool boot_decided, draining;
};

/* control.c */
const struct fl_snap_backend *fl_control_find(const struct fl_control *c,
                                              const char *name); /* NULL: unknown */
void fl_control_changed(struct fl_control *c); /* a rebuild at the end of this turn */
void fl_control_rebuild(struct fl_control *c); /* now; not from a callback of prober or names */
int64_t fl_control_now_ms(const struct fl_control *c);
int64_t fl_control_wall_ms(const struct fl_control *c);

/* control_build.c: the effective configuration, and the snapshot of it. */
/* Overlay, names resolved. NULL: refused (findings), or no memory (no findings). */
struct fl_config *fl_control_effective(struct fl_control *c, const struct fl_config *file,
                                       const struct fl_state *pushed, struct fl_findings *f);
/* Builds from what is in force now; NULL as above. */
struct fl_snapshot *fl_control_build(struct fl_control *c, struct fl_findings *f);
/* Names and Services of b become addresses, as far as names knows them; what it does not know is
 * asked for. The peers are then in config's arena. False: no memory. */
bool fl_control_expand(const struct fl_control *c, struct fl_names *names, struct fl_config *config,
                       struct fl_backend_conf *b);
/* Is b, expanded, nothing but names that give no address? Then that is its verdict. */
bool fl_control_unresolved(const struct fl_names *names, const struct fl_backend_conf *b,
                           struct fl_verdict *ret);
/* Own and pushed evidence of one peer to what the data plane is told. False: no such watch. */
bool fl_control_merge(const struct fl_control *c, const struct fl_backend_conf *b,
                      const char *address, struct fl_merged *ret);
/* The derived verdict; a backend all of whose names give no address is unreachable, too. */
void fl_control_backend_verdict(const struct fl_control *c, const struct fl_snap_backend *b,
                                struct fl_verdict *ret);
bool fl_control_by_controller(const struct fl_control *c,
                              const char *backend); /* is probing it the controller's? */

/* control_notice.c: what people are told about a change. */
void fl_control_notice_snapshot(struct fl_control *c, const struct fl_snapshot *old,
                                const struct fl_snapshot *fresh);
/* When the backend's verdict became what it is; 0: unknown from the start. */
int64_t fl_control_since_unix_ms(const struct fl_control *c, const char *backend);
void fl_control_notice_health(struct fl_control *c); /* quarantines and readmissions */
void fl_control_notice_answered(struct fl_control *c, const struct fl_probed *p); /* p->failed */

/* control_tls.c */
/* Can every definition of TLS in it be had? Else false, with findings (none: no memory). Before a
 * configuration is accepted. */
bool fl_control_tls_check(struct fl_control *c, const struct fl_config *config,
                          struct fl_findings *f);
void fl_control_tls_attach(struct fl_control *c,
                           struct fl_snapshot *s); /* before it is published */
void fl_control_tls_tick(struct fl_control *c);    /* each second: have files changed? */

/* boot_gate.c */
void fl_control_boot_gate(struct fl_control *c);

/* push_restore.c: the keys of the file, then what the state file holds. */
int fl_push_read_keys(const struct fl_control *c, const struct fl_config *file,
                      struct fl_findings *f,
                      struct fl_verify_keys **ret); /* 0, -EINVAL; *ret NULL: none are named, or
                                                       pushed ones hold */
void fl_push_take_keys(struct fl_control *c, struct fl_verify_keys *keys); /* NULL: as they were */
void fl_push_restore(struct fl_control *c);
/* waiting: a service-backed backend without members; stale: no push for too long; else ready. */
const char *fl_push_membership(const struct fl_control *c);

/* Test connection: ends those whose round is over. */
void fl_backends_answer_waits(struct fl_control *c);
void fl_backends_due(struct fl_timer *t); /* fl_control.due */

#endif
