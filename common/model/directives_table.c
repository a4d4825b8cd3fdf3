#include "common/model/directives_table.h"

#include <string.h>

#include "common/base/check.h"
#include "common/model/config_check.h"
#include "common/model/controller_config.h"
#include "common/model/services.h"

#define G(member) offsetof(struct fl_config, member)
#define B(member) offsetof(struct fl_backend_conf, member)
#define E(member) offsetof(struct fl_peer_conf, member)
#define R(member) offsetof(struct fl_route_conf, member)
#define P(member) offsetof(struct fl_policy_conf, member)
#define A(member) offsetof(struct fl_path_conf, member)
#define C(member) offsetof(struct fl_controller_config, member)
#define S(member) offsetof(struct fl_service, member)
#define N(member) offsetof(struct fl_service_endpoint, member)

#define DAY_MS (24 * 3600 * INT64_C(1000))
#define KIB    (INT64_C(1) << 10)
#define MIB    (INT64_C(1) << 20)
#define GIB    (INT64_C(1) << 30)

#define MS      .min = 10, .max = DAY_MS
#define SLOW_MS .min = 100, .max = DAY_MS

static const char *const protocols[] = {"s3", "http", NULL};
static const char *const balances[] = {"round_robin", "least_conn", "random_two", NULL};
static const char *const profiles[] = {"none", "read", "write", "report", NULL};
static const char *const tiers[] = {"primary", "last_resort", "backup", NULL};
static const char *const probe_types[] = {"none", "tcp", "http", "s3", NULL};
static const char *const verdict_policies[] = {"confirm", "trust", "ignore", NULL};
static const char *const replays[] = {"never", "reset", "always", NULL};
static const char *const boot_probes[] = {"enforce", "warn", "off", NULL};
static const char *const access_logs[] = {"all", "errors", "off", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const repairs[] = {"report", "evict", NULL};

// clang-format off
#define ROW(s, n, t, at, ...) {.scope = FL_SCOPE_##s, .name = n, .type = FL_TYPE_##t, .offset = at, __VA_ARGS__}
#define MAP(s, n, c, ...) {.scope = FL_SCOPE_##s, .name = n, .type = FL_TYPE_MAP, .child = FL_SCOPE_##c, __VA_ARGS__}

/* Rows of one scope stand together; their order is the order of --show-config and of the reference page. */
static const struct fl_directive rows[] = {
    MAP(ROOT, "listen", LISTEN, .flags = FL_D_PRIVATE | FL_D_INLINE, .nginx = "listen", .doc = "The sockets of the sidecar."),
    ROW(ROOT, "id", TEXT, G(id), .fallback = "", .max = 128, .flags = FL_D_PRIVATE, .doc = "The pod's uid in a cluster; pushes must name it."),
    ROW(ROOT, "threads", THREADS, G(threads), .fallback = "auto", .min = 1, .max = FL_THREADS_MAX, .nginx = "worker_processes", .doc = "Data threads; `auto` follows the cgroup CPU quota, at most 4, and is 1 without a quota or under 2 CPUs."),
    ROW(ROOT, "hosts", TEXTS, G(hosts), .fallback = "s3.internal", .max = 253, .doc = "Base domains of bucket-in-host addressing (`bucket.s3.internal`)."),
    ROW(ROOT, "boot_probe", ENUM, G(boot_probe), .fallback = "enforce", .words = boot_probes, .doc = "When every backend is down at start: `enforce` exits with 1, `warn` logs and runs, `off` does not probe."),
    ROW(ROOT, "start_wait", DURATION, G(start_wait_ms), .fallback = "5s", MS, .doc = "How long `/_/started` waits for the members of service-backed backends."),
    ROW(ROOT, "drain_timeout", DURATION, G(drain_timeout_ms), .fallback = "25s", MS, .nginx = "worker_shutdown_timeout", .doc = "The longest time between SIGTERM and the end."),
    ROW(ROOT, "log_level", ENUM, G(log_level), .fallback = "info", .words = log_levels, .nginx = "error_log", .doc = "Level of the event log on stderr."),
    ROW(ROOT, "access_log", ENUM, G(access_log), .fallback = "all", .words = access_logs, .nginx = "access_log", .doc = "Access log on stdout: `all`, `errors` (status 500 and above, retried or slow) or `off`."),
    ROW(ROOT, "slow_request", DURATION, G(slow_request_ms), .fallback = "5s", MS, .doc = "A request whose first response byte takes longer, plus 1 s per MiB uploaded, is logged as slow."),
    ROW(ROOT, "header_limit", SIZE, G(header_limit_bytes), .fallback = "64KiB", .min = 4 * KIB, .max = 64 * KIB, .nginx = "large_client_header_buffers", .doc = "Longest head of a request or response."),
    ROW(ROOT, "max_connections", UINT, G(max_connections), .fallback = "4096", .min = 1, .max = 1000000, .nginx = "worker_connections", .doc = "Client connections at once."),
    ROW(ROOT, "buffer_memory", SIZE, G(buffer_memory_bytes), .fallback = "16MiB", .min = 256 * KIB, .max = 64 * GIB, .doc = "Heads and bodies in flight, all threads; when it is spent, reading pauses."),
    MAP(ROOT, "client", CLIENT, .flags = FL_D_INLINE, .doc = "Time limits towards the application."),
    ROW(ROOT, "replay_memory", SIZE, G(replay_memory_bytes), .fallback = "8MiB", .max = 64 * GIB, .doc = "Total of all request bodies kept for a second try; when it is spent, bodies stream without replay."),
    ROW(ROOT, "state_file", TEXT, G(state_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .doc = "Where the last good membership and verdicts are kept for the next start."),
    MAP(ROOT, "push", PUSH, .flags = FL_D_PRIVATE | FL_D_INLINE, .doc = "Whose pushes are accepted."),
    ROW(ROOT, "backends", BACKENDS, 0, .child = FL_SCOPE_BACKEND, .max = 4096, .nginx = "upstream", .doc = "Named pools of peers."),
    ROW(ROOT, "routes", ROUTES, 0, .child = FL_SCOPE_ROUTE, .max = 4096, .nginx = "location", .doc = "Which bucket goes to which backend, and how: a bucket name, `*` for every other bucket, `/` for requests that name none (else `*`). `releases: minio` is short for `releases: {backend: minio}`."),

    ROW(LISTEN, "data", LISTENS, G(listen.data), .fallback = "127.0.0.1:8420", .nginx = "listen", .doc = "Where the application connects: `address:port` or `unix:PATH`, several allowed."),
    ROW(LISTEN, "admin", LISTEN, G(listen.admin), .fallback = "127.0.0.1:8421", .doc = "UI and admin API."),
    ROW(LISTEN, "status", LISTEN, G(listen.status), .fallback = "[::]:8422", .doc = "Ready, metrics and the push API."),

    ROW(CLIENT, "head_timeout", DURATION, G(client.head_timeout_ms), .fallback = "10s", MS, .nginx = "client_header_timeout", .doc = "Whole request head, from its first byte."),
    ROW(CLIENT, "idle_timeout", DURATION, G(client.idle_timeout_ms), .fallback = "60s", MS, .nginx = "keepalive_timeout", .doc = "Idle time of a kept connection."),
    ROW(CLIENT, "body_timeout", DURATION, G(client.body_timeout_ms), .fallback = "30s", MS, .nginx = "client_body_timeout", .doc = "Stall between two reads of a request body."),
    ROW(CLIENT, "write_timeout", DURATION, G(client.write_timeout_ms), .fallback = "60s", MS, .nginx = "send_timeout", .doc = "Stall between two writes of a response."),

    ROW(PUSH, "public_key_file", TEXT, G(push.public_key_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .doc = "PEM file of the controller's public keys; without it every push is refused."),

    ROW(BACKEND, "protocol", ENUM, B(protocol), .fallback = "s3", .words = protocols, .doc = "What the backend speaks; several defaults depend on it."),
    ROW(BACKEND, "peers", LIST, B(peers), .count_offset = B(peer_count), .child = FL_SCOPE_PEER, .max = FL_PEERS_MAX, .nginx = "server", .doc = "Its members, when they are known here."),
    MAP(BACKEND, "service", SERVICE, .flags = FL_D_HIDE | FL_D_INLINE, .doc = "Its Kubernetes Service, instead of, or besides, peers: membership is pushed."),
    ROW(BACKEND, "balance", ENUM, B(balance), .fallback = "round_robin", .words = balances, .nginx = "least_conn, random two", .doc = "How a peer is chosen: smooth weighted round robin, fewest requests in flight by weight, or the less loaded of two random ones."),
    ROW(BACKEND, "profile", ENUM, B(profile), .fallback = "none", .words = profiles, .doc = "Numbers of a known shape for `balance`, `max_fails` and `fail_timeout`; keys beside it override."),
    ROW(BACKEND, "max_fails", UINT, B(max_fails), .fallback = "1", .max = 32, .nginx = "max_fails", .doc = "Failures within `fail_timeout` that take a peer out; 0 disables. Default of its peers."),
    ROW(BACKEND, "fail_timeout", DURATION, B(fail_timeout_ms), .fallback = "10s", SLOW_MS, .nginx = "fail_timeout", .doc = "The window in which failures count, and how long a peer then stays out. Default of its peers."),
    ROW(BACKEND, "quarantine_max", MULTIPLE, B(quarantine_max), .fallback = "1x", .min = 1, .max = 8, .doc = "How far the time out may double at each failed trial, in multiples of `fail_timeout`."),
    ROW(BACKEND, "slow_start", DURATION, B(slow_start_ms), .fallback = "0s", MS, .flags = FL_D_ZERO, .nginx = "slow_start", .doc = "Ramp of a readmitted peer's share; 0s: at once."),
    ROW(BACKEND, "max_conns", UINT, B(max_conns), .fallback = "1024", .max = 1000000, .nginx = "max_conns", .doc = "Requests in flight per peer; 0: no limit. Default of its peers."),
    MAP(BACKEND, "queue", QUEUE, .flags = FL_D_INLINE, .nginx = "queue", .doc = "Where requests wait while every peer is full."),
    MAP(BACKEND, "keepalive", KEEPALIVE, .flags = FL_D_INLINE, .nginx = "keepalive", .doc = "Kept connections to peers."),
    MAP(BACKEND, "retry_budget", RETRY_BUDGET, .flags = FL_D_INLINE, .doc = "Token bucket that bounds retries when much fails at once."),
    ROW(BACKEND, "panic_threshold", PERCENT, B(panic_threshold_percent), .fallback = "0%", .max = 100, .doc = "Below this share of usable peers quarantine is ignored; 0%: never."),
    ROW(BACKEND, "same_store", BOOL, B(same_store), .fallback = "false", .doc = "Backups hold the same objects: they take writes and their 404 counts."),
    MAP(BACKEND, "tls", TLS, .flags = FL_D_PRESENCE, .count_offset = B(tls.on), .nginx = "proxy_ssl", .doc = "TLS to the peers; the mapping being there turns it on."),
    MAP(BACKEND, "probe", PROBE, .nginx = "health_check", .doc = "Active probing."),
    ROW(BACKEND, "verdicts", ENUM, B(verdicts), .fallback = "confirm", .words = verdict_policies, .doc = "How a pushed `unreachable` is taken: `confirm` it by an own probe, `trust` or `ignore` it."),
    ROW(BACKEND, "verdict_policy", ENUM, B(verdicts), .fallback = "confirm", .words = verdict_policies, .flags = FL_D_PUSH, .doc = "The key `verdicts` in a push, where that name holds the pushed verdicts."),

    ROW(SERVICE, "namespace", TEXT, B(service.namespace), .fallback = "", .max = 63, .flags = FL_D_REQUIRED, .doc = "Namespace of the Service."),
    ROW(SERVICE, "name", TEXT, B(service.name), .fallback = "", .max = 63, .flags = FL_D_REQUIRED, .doc = "Name of the Service."),
    ROW(SERVICE, "port", TEXT, B(service.port), .fallback = "", .max = 63, .flags = FL_D_REQUIRED, .doc = "Name or number of its port."),

    ROW(QUEUE, "size", UINT, B(queue.size), .fallback = "0", .max = 100000, .nginx = "queue", .doc = "Requests that may wait; 0: none, they are refused with 503."),
    ROW(QUEUE, "timeout", DURATION, B(queue.timeout_ms), .fallback = "250ms", MS, .nginx = "queue timeout", .doc = "The longest wait for a peer with room."),
    ROW(QUEUE, "hold", DURATION, B(queue.hold_ms), .fallback = "0s", MS, .flags = FL_D_ZERO, .doc = "Wait also while nobody is usable, up to this long (bridges a restart); needs a `size`."),

    ROW(KEEPALIVE, "idle", UINT, B(keepalive.idle), .fallback = "16", .max = 10000, .nginx = "keepalive", .doc = "Idle connections kept per peer and thread."),
    ROW(KEEPALIVE, "timeout", DURATION, B(keepalive.timeout_ms), .fallback = "30s", MS, .nginx = "keepalive_timeout", .doc = "How long an idle connection is kept."),

    ROW(RETRY_BUDGET, "ratio", PERCENT, B(retry_budget.ratio_percent), .fallback = "20%", .max = 100, .doc = "Retries as a share of requests."),
    ROW(RETRY_BUDGET, "min_per_second", UINT, B(retry_budget.min_per_second), .fallback = "3", .max = 100000, .doc = "Retries that are always allowed."),

    ROW(TLS, "ca_file", TEXT, B(tls.ca_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .nginx = "proxy_ssl_trusted_certificate", .doc = "PEM file of trusted authorities; empty: the system's. Read again within 5 s when it changes, as the other two are."),
    ROW(TLS, "server_name", TEXT, B(tls.server_name), .fallback = "", .max = 253, .nginx = "proxy_ssl_name", .doc = "Name sent (SNI) and verified; required when `verify` is on and a peer is an address."),
    ROW(TLS, "cert_file", TEXT, B(tls.cert_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .nginx = "proxy_ssl_certificate", .doc = "PEM file of the client certificate."),
    ROW(TLS, "key_file", TEXT, B(tls.key_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .nginx = "proxy_ssl_certificate_key", .doc = "PEM file of its key."),
    ROW(TLS, "verify", BOOL, B(tls.verify), .fallback = "true", .nginx = "proxy_ssl_verify", .doc = "Verify the peer's certificate."),

    ROW(PROBE, "type", ENUM, B(probe.type), .fallback = "s3", .fallback_http = "tcp", .words = probe_types, .doc = "`none` (no verdict, passive handling alone), `tcp` (connect), `http` (status) or `s3` (HeadBucket, then ListBuckets)."),
    ROW(PROBE, "host", TEXT, B(probe.host), .fallback = "", .max = 260, .doc = "Host sent and signed; empty: `tls.server_name`, else `<service>.<namespace>.svc:<port>`, else the peer's address."),
    ROW(PROBE, "interval", DURATION, B(probe.interval_ms), .fallback = "30s", SLOW_MS, .nginx = "health_check interval", .doc = "Time between probes, with jitter."),
    ROW(PROBE, "timeout", DURATION, B(probe.timeout_ms), .fallback = "30s", MS, .doc = "How long a probe waits; as long as a data request would."),
    ROW(PROBE, "path", TEXT, B(probe.path), .fallback = "/", .max = 1024, .nginx = "health_check uri", .doc = "Target of an `http` probe."),
    ROW(PROBE, "expect", STATUSES, B(probe.expect), .fallback = "200-399", .max = 128, .nginx = "match status", .doc = "Statuses that an `http` probe takes for healthy."),
    ROW(PROBE, "bucket", TEXT, B(probe.bucket), .fallback = "", .max = 255, .doc = "Bucket that an `s3` probe asks for; empty: one that is routed here."),
    ROW(PROBE, "region", TEXT, B(probe.region), .fallback = "us-east-1", .max = 63, .doc = "Region that a signed `s3` probe names."),
    ROW(PROBE, "access_key_file", TEXT, B(probe.access_key_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .doc = "File of the access key id; without keys the probe is anonymous and proves reachability only."),
    ROW(PROBE, "secret_key_file", TEXT, B(probe.secret_key_file), .fallback = "", .max = 4096, .flags = FL_D_PRIVATE, .doc = "File of the secret access key."),
    ROW(PROBE, "secret", TEXT, B(probe.secret), .fallback = "", .max = 253, .flags = FL_D_ANNOTATION | FL_D_HIDE, .doc = "Pod annotations only: a Secret of the pod's own namespace that holds the probe keys."),

    ROW(PEER, "address", ADDRESS, E(address), .fallback = "", .max = 260, .flags = FL_D_REQUIRED, .nginx = "server", .doc = "`10.0.1.10:9000`, `[::1]:9000` or `name:9000`."),
    ROW(PEER, "weight", UINT, E(weight), .fallback = "1", .min = 1, .max = 100, .flags = FL_D_PUSH_ZERO, .nginx = "weight", .doc = "Share of the load."),
    ROW(PEER, "max_fails", UINT, E(max_fails), .max = 32, .nginx = "max_fails", .doc = "As on the backend."),
    ROW(PEER, "fail_timeout", DURATION, E(fail_timeout_ms), SLOW_MS, .nginx = "fail_timeout", .doc = "As on the backend."),
    ROW(PEER, "max_conns", UINT, E(max_conns), .max = 1000000, .nginx = "max_conns", .doc = "As on the backend."),
    ROW(PEER, "backup", BACKUP, E(tier), .fallback = "false", .nginx = "backup", .doc = "Takes traffic only when no primary is usable."),
    ROW(PEER, "down", BOOL, E(down), .fallback = "false", .nginx = "down", .doc = "Out for good."),
    ROW(PEER, "tier", ENUM, E(tier), .fallback = "primary", .words = tiers, .flags = FL_D_PUSH, .doc = "Order in which peers are tried: primaries, terminating ones that still serve, backups."),
    ROW(PEER, "zone", TEXT, E(zone), .fallback = "", .max = 63, .flags = FL_D_PUSH, .doc = "Topology zone."),
    ROW(PEER, "fallback_address", ADDRESS, E(fallback_address), .fallback = "", .max = 260, .flags = FL_D_PUSH, .doc = "The same target's address of the other family."),

    ROW(ROUTE, "backend", TEXT, R(backend), .fallback = "", .max = 253, .flags = FL_D_REQUIRED, .nginx = "proxy_pass", .doc = "Where the requests go."),
    ROW(ROUTE, "profile", ENUM, R(profile), .fallback = "none", .words = profiles, .doc = "Numbers of a known shape for the keys below; keys beside it override."),
    ROW(ROUTE, "paths", PATHS, R(paths), .count_offset = R(path_count), .child = FL_SCOPE_PATH, .max = 1024, .nginx = "location", .doc = "Other keys for a part: the longest prefix under the bucket (under `*` of the whole path) wins, `= /x` is exact."),
    ROW(ROUTE, "invalid", TEXT, R(invalid), .fallback = "", .max = 512, .flags = FL_D_PUSH, .doc = "Why the route's annotation is invalid; requests are answered 503 `bad_route`."),

    ROW(POLICY, "next_upstream", CONDITIONS, P(next_upstream), .fallback = "error timeout", .nginx = "proxy_next_upstream", .doc = "Which outcomes of a try may move the request to the next peer; also `http_500 http_502 http_503 http_504 http_403 http_404 http_429` and `non_idempotent` (lifts every class limit), or `off`."),
    ROW(POLICY, "next_upstream_tries", UINT, P(next_upstream_tries), .fallback = "2", .max = 1000, .nginx = "proxy_next_upstream_tries", .doc = "Tries in all; 0: every peer once."),
    ROW(POLICY, "next_upstream_timeout", DURATION, P(next_upstream_timeout_ms), .fallback = "0s", .fallback_http = "3s", MS, .flags = FL_D_ZERO, .nginx = "proxy_next_upstream_timeout", .doc = "No further try starts after this, and later tries are clipped to what is left; it never cuts the first; 0s: no limit."),
    ROW(POLICY, "connect_timeout", DURATION, P(connect_timeout_ms), .fallback = "1s", MS, .nginx = "proxy_connect_timeout", .doc = "Connecting to one peer."),
    ROW(POLICY, "send_timeout", DURATION, P(send_timeout_ms), .fallback = "10s", MS, .nginx = "proxy_send_timeout", .doc = "Between two writes to the peer."),
    ROW(POLICY, "read_timeout", DURATION, P(read_timeout_ms), .fallback = "10s", .fallback_http = "15s", MS, .nginx = "proxy_read_timeout", .doc = "Between two reads, and for the head of one try (on s3 routes only of safe reads)."),
    ROW(POLICY, "deadline", DURATION, P(deadline_ms), .fallback = "30s", .fallback_http = "off", MS, .flags = FL_D_OFF, .doc = "The whole exchange up to the first response byte, plus 1 s per MiB uploaded."),
    ROW(POLICY, "long_deadline", DURATION, P(long_deadline_ms), .fallback = "300s", MS, .flags = FL_D_OFF, .doc = "The same for server-side work (complete, copy, delete many, select, restore)."),
    ROW(POLICY, "count_failures", CONDITIONS, P(count_failures), .fallback = "error timeout invalid_header", .nginx = "proxy_next_upstream", .doc = "What `max_fails` counts; by default these and the http_5xx that `next_upstream` lists."),
    ROW(POLICY, "replay_body", SIZE, P(replay_body_bytes), .fallback = "64KiB", .max = GIB, .doc = "Longest request body kept for a second try."),
    ROW(POLICY, "replay_after_send", ENUM, P(replay_after_send), .fallback = "never", .fallback_http = "always", .words = replays, .doc = "May an idempotent write be repeated once it was fully sent: `never`, after a `reset` (not after a timeout), `always`."),
    ROW(POLICY, "expect_gate", SIZE, P(expect_gate_bytes), .fallback = "off", .min = 1, .max = 1024 * GIB, .flags = FL_D_OFF, .doc = "Ask the backend first (Expect: 100-continue) for bodies longer than this."),

    ROW(PATH, "backend", TEXT, A(backend), .fallback = "", .max = 253, .flags = FL_D_HIDE, .nginx = "proxy_pass", .doc = "Another backend than the route's."),

    ROW(CONTROLLER, "source", SOURCE, C(source_file), .fallback = "kubernetes", .max = 4096, .doc = "Where membership comes from: `kubernetes`, or `file:PATH` (re-read on change)."),
    MAP(CONTROLLER, "listen", CONTROLLER_LISTEN, .flags = FL_D_INLINE, .doc = "The sockets of the controller."),
    MAP(CONTROLLER, "probe_defaults", PROBE_DEFAULTS, .flags = FL_D_INLINE, .doc = "Probe times of backends that give none; `interval` is also the time between two refreshing pushes."),
    MAP(CONTROLLER, "probe", CONTROLLER_PROBE, .flags = FL_D_INLINE, .doc = "What the controller probes."),
    MAP(CONTROLLER, "push", CONTROLLER_PUSH, .flags = FL_D_INLINE, .doc = "Pushing to the sidecars."),
    MAP(CONTROLLER, "leader_election", ELECTION, .flags = FL_D_INLINE, .doc = "Which replica probes, pushes and patches."),
    MAP(CONTROLLER, "injection", INJECTION, .flags = FL_D_INLINE, .doc = "Adding the sidecar to pods."),
    ROW(CONTROLLER, "sidecars", LIST, C(sidecars), .count_offset = C(sidecar_count), .child = FL_SCOPE_SIDECAR, .max = 4096, .doc = "With a file source: whom to push to."),
    ROW(CONTROLLER, "backends", BACKENDS, 0, .child = FL_SCOPE_BACKEND, .max = 4096, .nginx = "upstream", .doc = "Cluster-wide backends, with the keys of the sidecar's."),
    ROW(CONTROLLER, "routes", ROUTES, 0, .child = FL_SCOPE_ROUTE, .max = 4096, .nginx = "location", .doc = "With a file source: routes pushed to every sidecar of the list."),

    ROW(CONTROLLER_LISTEN, "admin", LISTEN, C(listen.admin), .fallback = "127.0.0.1:8431", .doc = "UI and admin API."),
    ROW(CONTROLLER_LISTEN, "status", LISTEN, C(listen.status), .fallback = "[::]:8432", .doc = "Ready and metrics."),
    ROW(CONTROLLER_LISTEN, "webhook", LISTEN, C(listen.webhook), .fallback = "[::]:8443", .doc = "HTTPS for the API server."),

    ROW(PROBE_DEFAULTS, "interval", DURATION, C(probe_defaults.interval_ms), .fallback = "30s", SLOW_MS, .doc = "Time between probes, with jitter."),
    ROW(PROBE_DEFAULTS, "timeout", DURATION, C(probe_defaults.timeout_ms), .fallback = "30s", MS, .doc = "How long a probe waits."),

    ROW(CONTROLLER_PROBE, "namespaces", NAMESPACES, C(probe.mode), .count_offset = C(probe.names), .fallback = "own", .max = 63, .doc = "Services of which namespaces a pod's annotation may have probed: `own` (the pod's), `all`, or a list."),

    ROW(CONTROLLER_PUSH, "signing_key_file", TEXT, C(push.signing_key_file), .fallback = "", .max = 4096, .doc = "PEM file of the ed25519 key that signs pushes."),
    ROW(CONTROLLER_PUSH, "concurrency", UINT, C(push.concurrency), .fallback = "64", .min = 1, .max = 4096, .doc = "Pushes under way at once."),
    ROW(CONTROLLER_PUSH, "timeout", DURATION, C(push.timeout_ms), .fallback = "5s", MS, .doc = "How long one push may take."),
    ROW(CONTROLLER_PUSH, "settle", DURATION, C(push.settle_ms), .fallback = "50ms", MS, .flags = FL_D_ZERO, .doc = "How long additions are gathered before they are pushed; removals go out at once."),

    ROW(ELECTION, "enabled", BOOL, C(leader_election.enabled), .fallback = "true", .doc = "Elect one leader by a Lease; `false` for a single replica."),
    ROW(ELECTION, "namespace", TEXT, C(leader_election.namespace), .fallback = "fairlead", .max = 63, .doc = "Namespace of the Lease."),
    ROW(ELECTION, "name", TEXT, C(leader_election.name), .fallback = "fairlead-controller", .max = 253, .doc = "Name of the Lease."),

    ROW(INJECTION, "image", TEXT, C(injection.image), .fallback = "", .max = 512, .doc = "Image of the injected sidecar."),
    ROW(INJECTION, "repair", ENUM, C(injection.repair), .fallback = "report", .words = repairs, .doc = "A labelled pod without the sidecar is reported, or evicted (owned pods, rate-limited)."),

    ROW(SIDECAR, "address", ADDRESS, offsetof(struct fl_sidecar_conf, address), .fallback = "", .max = 260, .flags = FL_D_REQUIRED, .doc = "Its status listener."),
    ROW(SIDECAR, "id", TEXT, offsetof(struct fl_sidecar_conf, id), .fallback = "", .max = 128, .doc = "The `id` of its configuration."),

    ROW(SERVICES, "services", SERVICES, offsetof(struct fl_services, items), .count_offset = offsetof(struct fl_services, count), .child = FL_SCOPE_SERVICE_ENTRY, .max = 4096, .flags = FL_D_REQUIRED, .doc = "Services by `namespace/name`."),

    ROW(SERVICE_ENTRY, "ports", PORTS, S(ports), .count_offset = S(port_count), .max = 64, .flags = FL_D_REQUIRED, .doc = "Port numbers by name."),
    ROW(SERVICE_ENTRY, "endpoints", LIST, S(endpoints), .count_offset = S(endpoint_count), .child = FL_SCOPE_ENDPOINT, .max = FL_PEERS_MAX, .doc = "Its members."),

    ROW(ENDPOINT, "address", ENDPOINT, N(address), .fallback = "", .max = 64, .flags = FL_D_REQUIRED, .doc = "IP address; with a port (`127.0.0.1:9001`) that one instead of the service's."),
    ROW(ENDPOINT, "ready", BOOL, N(ready), .fallback = "true", .doc = "As in an EndpointSlice."),
    ROW(ENDPOINT, "serving", BOOL, N(serving), .fallback = "true", .doc = "As in an EndpointSlice."),
    ROW(ENDPOINT, "terminating", BOOL, N(terminating), .fallback = "false", .doc = "As in an EndpointSlice."),
    ROW(ENDPOINT, "zone", TEXT, N(zone), .fallback = "", .max = 63, .doc = "Topology zone."),
};

#define PLAIN(title, where, in) {title, where, 0, FL_NO_SET, FL_SCOPE_NONE, 0, in}
#define BOTH (FL_IN_SIDECAR | FL_IN_CONTROLLER)
static const struct fl_scope_row scopes[] = {
    [FL_SCOPE_ROOT] = {"Top level", "", 0, G(set), FL_SCOPE_NONE, 0, FL_IN_SIDECAR},
    [FL_SCOPE_LISTEN] = PLAIN("Listeners", "listen", FL_IN_SIDECAR),
    [FL_SCOPE_CLIENT] = PLAIN("Client limits", "client", FL_IN_SIDECAR),
    [FL_SCOPE_PUSH] = PLAIN("Pushes", "push", FL_IN_SIDECAR),
    [FL_SCOPE_BACKEND] = {"Backend", "backends.NAME", sizeof(struct fl_backend_conf), B(set), FL_SCOPE_NONE, 0, BOTH},
    [FL_SCOPE_SERVICE] = PLAIN("Service of a backend", "backends.NAME.service", BOTH),
    [FL_SCOPE_QUEUE] = PLAIN("Queue of a backend", "backends.NAME.queue", BOTH),
    [FL_SCOPE_KEEPALIVE] = PLAIN("Kept connections of a backend", "backends.NAME.keepalive", BOTH),
    [FL_SCOPE_RETRY_BUDGET] = PLAIN("Retry budget of a backend", "backends.NAME.retry_budget", BOTH),
    [FL_SCOPE_TLS] = PLAIN("TLS of a backend", "backends.NAME.tls", BOTH),
    [FL_SCOPE_PROBE] = {"Probe of a backend", "backends.NAME.probe", 0, B(probe.set), FL_SCOPE_NONE, 0, BOTH},
    [FL_SCOPE_PEER] = {"Peer", "backends.NAME.peers[]", sizeof(struct fl_peer_conf), E(set), FL_SCOPE_NONE, 0, BOTH},
    [FL_SCOPE_ROUTE] = {"Route", "routes.BUCKET", sizeof(struct fl_route_conf), FL_NO_SET, FL_SCOPE_POLICY, R(policy), BOTH},
    [FL_SCOPE_POLICY] = {"Policy, of a route or of one of its paths", "routes.BUCKET", 0, P(set), FL_SCOPE_NONE, 0, BOTH},
    [FL_SCOPE_PATH] = {"Path of a route", "routes.BUCKET.paths.PREFIX", sizeof(struct fl_path_conf), FL_NO_SET, FL_SCOPE_POLICY, A(policy), BOTH},
    [FL_SCOPE_CONTROLLER] = PLAIN("Top level", "", FL_IN_CONTROLLER),
    [FL_SCOPE_CONTROLLER_LISTEN] = PLAIN("Listeners", "listen", FL_IN_CONTROLLER),
    [FL_SCOPE_PROBE_DEFAULTS] = PLAIN("Probe defaults", "probe_defaults", FL_IN_CONTROLLER),
    [FL_SCOPE_CONTROLLER_PROBE] = PLAIN("Probing", "probe", FL_IN_CONTROLLER),
    [FL_SCOPE_CONTROLLER_PUSH] = PLAIN("Pushing", "push", FL_IN_CONTROLLER),
    [FL_SCOPE_ELECTION] = PLAIN("Leader election", "leader_election", FL_IN_CONTROLLER),
    [FL_SCOPE_INJECTION] = PLAIN("Injection", "injection", FL_IN_CONTROLLER),
    [FL_SCOPE_SIDECAR] = {"Sidecar of a file source", "sidecars[]", sizeof(struct fl_sidecar_conf), FL_NO_SET, FL_SCOPE_NONE, 0, FL_IN_CONTROLLER},
    [FL_SCOPE_SERVICES] = PLAIN("Top level", "", FL_IN_SERVICES),
    [FL_SCOPE_SERVICE_ENTRY] = {"Service", "services.NAMESPACE/NAME", sizeof(struct fl_service), FL_NO_SET, FL_SCOPE_NONE, 0, FL_IN_SERVICES},
    [FL_SCOPE_ENDPOINT] = {"Endpoint of a service", "services.NAMESPACE/NAME.endpoints[]", sizeof(struct fl_service_endpoint), FL_NO_SET, FL_SCOPE_NONE, 0, FL_IN_SERVICES},
};
// clang-format on

_Static_assert(FL_COUNTOF(scopes) == FL_SCOPE_COUNT, "a row per scope");

const struct fl_scope_row *fl_scope_row(enum fl_scope s)
{
    FL_MUST((unsigned)s < FL_SCOPE_COUNT);
    return &scopes[s];
}

/* The first row of this scope or a later one: they stand in the order of the scopes. Halved, since
 * whoever shows thousands of peers asks for each of them. */
static size_t first_of(unsigned s)
{
    size_t low = 0, high = FL_COUNTOF(rows);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((unsigned)rows[middle].scope < s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct fl_directive *fl_scope_rows(enum fl_scope s, unsigned *count)
{
    size_t first = first_of(s);
    *count = (unsigned)(first_of((unsigned)s + 1) - first);
    return &rows[*count > 0 ? first : 0];
}

const struct fl_directive *fl_scope_find(enum fl_scope s, const char *name)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(d[i].name, name) == 0) {
            return &d[i];
        }
    }
    return NULL;
}

unsigned fl_directive_bit(const struct fl_directive *d)
{
    const struct fl_directive *first = d;
    while (first > rows && first[-1].scope == d->scope) {
        first--;
    }
    return (unsigned)(d - first);
}
