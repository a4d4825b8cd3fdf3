/* config - the sidecar's configuration as plain structs, immutable after check. Filled by
 * directives.h only. Strings live in the configuration's arena; "" means not given, never NULL.
 * Times in ms, sizes in bytes. Pure. */
#ifndef FL_COMMON_MODEL_CONFIG_H
#define FL_COMMON_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/smap.h"

enum fl_protocol { FL_PROTOCOL_S3, FL_PROTOCOL_HTTP };
enum fl_balance { FL_BALANCE_ROUND_ROBIN, FL_BALANCE_LEAST_CONN, FL_BALANCE_RANDOM_TWO };
enum fl_profile { FL_PROFILE_NONE, FL_PROFILE_READ, FL_PROFILE_WRITE, FL_PROFILE_REPORT };
enum fl_tier {
    FL_TIER_PRIMARY,
    FL_TIER_LAST_RESORT,
    FL_TIER_BACKUP
}; /* in the order they are tried */
enum fl_probe_type { FL_PROBE_NONE, FL_PROBE_TCP, FL_PROBE_HTTP, FL_PROBE_S3 };
enum fl_verdict_policy { FL_VERDICTS_CONFIRM, FL_VERDICTS_TRUST, FL_VERDICTS_IGNORE };
enum fl_replay_after_send { FL_REPLAY_NEVER, FL_REPLAY_RESET, FL_REPLAY_ALWAYS };
enum fl_boot_probe { FL_BOOT_ENFORCE, FL_BOOT_WARN, FL_BOOT_OFF };
enum fl_access_log { FL_ACCESS_ALL, FL_ACCESS_ERRORS, FL_ACCESS_OFF };
enum fl_config_owner { FL_OWNER_FILE, FL_OWNER_CONTROLLER };

struct fl_strings {
    const char **items;
    uint32_t count;
};

struct fl_peer_conf {
    const char *address;          /* "10.0.1.10:9000", "name:9000", "[::1]:9000" */
    const char *fallback_address; /* the other family of the same target; "" none */
    const char *host_name;        /* the name that address was found by; NULL = it was written so */
    const char *zone;
    enum fl_tier tier; /* backup: true sets FL_TIER_BACKUP */
    uint32_t weight;   /* 1..100; 0 only from a push: takes no new work */
    uint32_t max_fails, max_conns;
    int64_t fail_timeout_ms;
    bool down;
    /* FL_OWNER_CONTROLLER: a pushed member, not part of the written configuration */
    enum fl_config_owner owner;
    /* bit per directive of the peer scope: given here, not inherited from the backend */
    uint64_t set;
};

struct fl_probe_conf {
    enum fl_probe_type type;
    const char *host, *path, *expect, *bucket, *region, *access_key_file, *secret_key_file, *secret;
    int64_t interval_ms, timeout_ms;
    uint64_t set;
};

struct fl_tls_conf {
    bool on; /* the tls mapping is there */
    const char *ca_file, *server_name, *cert_file, *key_file;
    bool verify;
};

struct fl_service_ref {
    const char *namespace, *name, *port; /* name "" = no service */
};

struct fl_backend_conf {
    const char *name;
    enum fl_config_owner owner;
    enum fl_protocol protocol;
    struct fl_peer_conf *peers;
    uint32_t peer_count;
    struct fl_service_ref service;
    enum fl_balance balance;
    enum fl_profile profile;
    uint32_t max_fails, max_conns, quarantine_max; /* quarantine_max: 1..8 times fail_timeout */
    int64_t fail_timeout_ms, slow_start_ms;
    struct {
        uint32_t size;
        int64_t timeout_ms, hold_ms;
    } queue;
    struct {
        uint32_t idle;
        int64_t timeout_ms;
    } keepalive;
    struct {
        uint32_t ratio_percent, min_per_second;
    } retry_budget;
    uint32_t panic_threshold_percent;
    bool same_store;
    struct fl_tls_conf tls;
    struct fl_probe_conf probe;
    enum fl_verdict_policy verdicts;
    uint64_t set;
    int line; /* of the file; 0 for a push */
};

/* What a route, or one of its paths, says about one exchange. */
struct fl_policy_conf {
    uint32_t next_upstream;           /* FL_ON_* mask; 0 = off */
    uint32_t count_failures;          /* FL_ON_* mask */
    uint32_t next_upstream_tries;     /* 0 = every peer once */
    int64_t next_upstream_timeout_ms; /* 0 = no limit */
    int64_t connect_timeout_ms, send_timeout_ms, read_timeout_ms;
    int64_t deadline_ms, long_deadline_ms; /* 0 = off */
    uint64_t replay_body_bytes;
    enum fl_replay_after_send replay_after_send;
    uint64_t expect_gate_bytes; /* 0 = off */
    /* bit per directive of the policy scope: given here (before profiles and defaults) */
    uint64_t set;
};

struct fl_path_conf {
    const char *prefix; /* "/payments/"; exact: without the "= " */
    bool exact;
    const char *backend; /* "": the route's */
    struct fl_policy_conf policy;
};

struct fl_route_conf {
    const char *bucket; /* a name, "*" or "/" */
    enum fl_config_owner owner;
    const char *backend;
    const char *invalid; /* reason: answers 503 bad_route; "" = valid */
    enum fl_profile profile;
    struct fl_policy_conf policy;
    struct fl_path_conf *paths;
    uint32_t path_count;
    int line;
};

struct fl_listen_conf {
    struct fl_strings data; /* addresses or unix:PATH */
    const char *admin, *status;
};

#define FL_THREADS_MAX 4 /* data threads */

struct fl_config {
    struct fl_arena arena;
    const char *file;
    struct fl_listen_conf listen;
    const char *id;
    uint32_t threads; /* 0 = auto */
    struct fl_strings hosts;
    enum fl_boot_probe boot_probe;
    int64_t start_wait_ms, drain_timeout_ms, slow_request_ms;
    int log_level; /* enum fl_log_level: 0 error 1 warn 2 info 3 debug */
    enum fl_access_log access_log;
    uint64_t header_limit_bytes, buffer_memory_bytes, replay_memory_bytes;
    uint32_t max_connections;
    struct {
        int64_t head_timeout_ms, idle_timeout_ms, body_timeout_ms, write_timeout_ms;
    } client;
    const char *state_file;
    struct {
        const char *public_key_file;
    } push;
    struct fl_backend_conf *backends;
    uint32_t backend_count;
    struct fl_route_conf *routes;
    uint32_t route_count;
    struct {
        int64_t probe_interval_ms, deadline_ms;
    } override;           /* of the environment, over every backend and s3 route; 0 none */
    struct fl_smap lines; /* "backends.minio.queue.hold" -> line of the file, for messages; empty in
                             an overlay */
    uint64_t set;
    uint64_t hash; /* of the canonical text (--show-config); set by check */
};

FL_MUST_USE struct fl_config *
fl_config_new(void); /* all defaults, nothing in it; NULL = no memory */
struct fl_config *fl_config_free(struct fl_config *c);
const struct fl_backend_conf *fl_config_backend(const struct fl_config *c,
                                                const char *name); /* NULL: unknown */
const struct fl_route_conf *fl_config_route(const struct fl_config *c, const char *bucket);

#endif
