/* load - load generator: closed loop (N connections, each with one request in flight) or open loop
 * (--rate: latency counts from the moment a request was due, so a stall is not hidden). Prints one
 * JSON line.
 *
 * With --pause it prints "ready" after the warm-up and waits for a line on stdin, so that whoever
 * measures the proxy can read its CPU time around exactly the requests that follow; with no
 * --requests and --seconds it only holds its connections open meanwhile. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "bench/client.h"
#include "bench/kit.h"

enum { BATCH = 256, SLOW_TICK_MS = 20, EXPIRY_CHECK_MS = 250 };

struct options {
    const char *to, *method, *path, *host, *expect;
    uint64_t size, connections, requests, seconds, rate, warmup, spread, read_rate, timeout_s;
    uint64_t expect_body;
    bool chunked, pause, new_connections, verify;
};

static struct options opt = {
    .method = "GET",
    .path = "/b/1k",
    .host = "s3.internal:8420",
    .expect = "200",
    .connections = 1,
    .timeout_s = 10,
    .expect_body = UINT64_MAX,
};
static struct fl_client_plan plan;
static struct fl_client_tally tally;
static struct fl_client *clients;
static uint64_t *idle; /* ring of indices: the connection idle for longest goes first */
static uint64_t idle_first, idle_count, in_flight;

static void usage(void)
{
    fl_kit_die(
        "usage: bench-load --to IP:PORT [--method GET] [--path /b/1k] [--host NAME] [--size BYTES] "
        "[--chunked]\n"
        "  [--connections N] [--requests N] [--seconds N] [--rate PER_SECOND] [--warmup REQUESTS] "
        "[--pause]\n"
        "  [--spread N]         at most N requests in flight in the warm-up, in turn over the "
        "connections\n"
        "  [--new-connections]  a connection per request, closed by this side\n"
        "  [--read-rate BYTES]  slow readers: bytes per second and connection; needs --seconds\n"
        "  [--expect 200,503] [--expect-body BYTES] [--verify] [--timeout SECONDS]");
}

struct number_option {
    const char *name;
    uint64_t *to;
};
struct text_option {
    const char *name;
    const char **to;
};
struct switch_option {
    const char *name;
    bool *to;
};

static const struct number_option numbers[] = {
    {"--size", &opt.size},         {"--connections", &opt.connections},
    {"--requests", &opt.requests}, {"--seconds", &opt.seconds},
    {"--rate", &opt.rate},         {"--warmup", &opt.warmup},
    {"--spread", &opt.spread},     {"--read-rate", &opt.read_rate},
    {"--timeout", &opt.timeout_s}, {"--expect-body", &opt.expect_body},
};
static const struct text_option texts[] = {
    {"--to", &opt.to},     {"--method", &opt.method}, {"--path", &opt.path},
    {"--host", &opt.host}, {"--expect", &opt.expect},
};
static const struct switch_option switches[] = {
    {"--chunked", &opt.chunked},
    {"--pause", &opt.pause},
    {"--new-connections", &opt.new_connections},
    {"--verify", &opt.verify},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* How many arguments the option at argv[0] took; 0: unknown. */
static int read_option(char **argv, bool more)
{
    for (size_t i = 0; i < COUNT(switches); i++) {
        if (strcmp(argv[0], switches[i].name) == 0) {
            *switches[i].to = true;
            return 1;
        }
    }
    for (size_t i = 0; more && i < COUNT(numbers); i++) {
        if (strcmp(argv[0], numbers[i].name) == 0) {
            *numbers[i].to = fl_kit_number(argv[1]);
            return 2;
        }
    }
    for (size_t i = 0; more && i < COUNT(texts); i++) {
        if (strcmp(argv[0], texts[i].name) == 0) {
            *texts[i].to = argv[1];
            return 2;
        }
    }
    return 0;
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        int took = read_option(argv + i, i + 1 < argc);
        if (took == 0) {
            usage();
        }
        i += took;
    }
    if (opt.to == NULL || opt.connections == 0 || opt.connections > 60000 || opt.size > (1 << 30) ||
        (opt.read_rate > 0 && opt.seconds == 0)) {
        usage();
    }
}

/* The head an S3 client would send: a proxy that parses must get something to parse. */
static size_t write_head(char *to, size_t size)
{
    int n = snprintf(
        to, size,
        "%s %s HTTP/1.1\r\nHost: %s\r\n"
        "User-Agent: aws-sdk-go-v2/1.30.3 os/linux lang/go#1.22.5 md/GOOS#linux md/GOARCH#amd64 "
        "api/s3#1.58.2\r\n"
        "Accept-Encoding: identity\r\n"
        "Amz-Sdk-Invocation-Id: 0d9a1a52-6d6c-4f0e-8f0a-5b7c7a1f9e11\r\n"
        "Amz-Sdk-Request: attempt=1; max=3\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=BENCHKEY/20260101/us-east-1/s3/aws4_request, "
        "SignedHeaders=accept-encoding;amz-sdk-invocation-id;amz-sdk-request;host;x-amz-content-"
        "sha256;x-amz-date, "
        "Signature=2f0c3a9d5b7e1f60819a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70\r\n"
        "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n"
        "X-Amz-Date: 20260101T000000Z\r\n",
        opt.method, opt.path, opt.host);
    if (n < 0 || (size_t)n + 128 > size) {
        fl_kit_die("the request head is too long");
    }
    size_t used = (size_t)n;
    if (strcmp(opt.method, "PUT") == 0 && opt.chunked) {
        n = snprintf(to + used, size - used, "Transfer-Encoding: chunked\r\n\r\n");
    } else if (strcmp(opt.method, "PUT") == 0) {
        n = snprintf(to + used, size - used, "Content-Length: %llu\r\n\r\n",
                     (unsigned long long)opt.size);
    } else {
        n = snprintf(to + used, size - used, "\r\n");
    }
    return used + (size_t)n;
}

static size_t write_chunked(uint8_t *to, const uint8_t *body, size_t size)
{
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        size_t len = size - at < 65536 ? size - at : 65536;
        used += (size_t)snprintf((char *)to + used, 16, "%zx\r\n", len);
        memcpy(to + used, body + at, len);
        memcpy(to + used + len, "\r\n", 2);
        used += len + 2;
        at += len;
    }
    memcpy(to + used, "0\r\n\r\n", 5);
    return used + 5;
}

static void make_request(void)
{
    char head[4096];
    size_t head_bytes = write_head(head, sizeof(head));
    size_t size = strcmp(opt.method, "PUT") == 0 ? (size_t)opt.size : 0;
    uint8_t *body = malloc(size + 1);
    uint8_t *wire = malloc(head_bytes + size + size / 4096 + 64);
    if (body == NULL || wire == NULL) {
        fl_kit_die("out of memory");
    }
    fl_kit_pattern(body, size);
    memcpy(wire, head, head_bytes);
    if (size > 0 && opt.chunked) {
        plan.request_bytes = head_bytes + write_chunked(wire + head_bytes, body, size);
    } else {
        memcpy(wire + head_bytes, body, size);
        plan.request_bytes = head_bytes + size;
    }
    free(body);
    plan.request = wire;
}

static void make_plan(void)
{
    plan.to = fl_kit_address(opt.to);
    plan.epoll = fl_kit_epoll();
    plan.is_head = strcmp(opt.method, "HEAD") == 0;
    plan.new_connections = opt.new_connections;
    plan.verify = opt.verify;
    plan.body_bytes = opt.expect_body;
    plan.read_at_most = opt.read_rate * SLOW_TICK_MS / 1000;
    plan.receive_buffer = opt.read_rate > 0 ? 65536 : 0;
    const char *text = opt.expect;
    for (size_t i = 0; i < COUNT(plan.expect) && *text != '\0'; i++) {
        char *end = NULL;
        plan.expect[i] = (unsigned)strtoul(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    make_request();
}

static void on_done(struct fl_client *c)
{
    in_flight--;
    idle[(idle_first + idle_count++) % opt.connections] = (uint64_t)(c - clients);
}

static void make_clients(void)
{
    clients = calloc(opt.connections, sizeof(*clients));
    idle = calloc(opt.connections, sizeof(*idle));
    if (clients == NULL || idle == NULL) {
        fl_kit_die("out of memory");
    }
    for (uint64_t i = 0; i < opt.connections; i++) {
        fl_client_init(&clients[i], &plan, &tally, on_done);
        idle[idle_count++] = i;
    }
}

struct phase {
    uint64_t requests, most_in_flight, rate, issued;
    int64_t start_ns, stop_ns; /* stop_ns: no new request from then on */
};

static bool may_issue(const struct phase *p, int64_t now_ns, int64_t *due_ns)
{
    if (p->issued >= p->requests || now_ns >= p->stop_ns) {
        return false;
    }
    *due_ns = now_ns;
    if (p->rate > 0) {
        *due_ns = p->start_ns + (int64_t)(p->issued * 1000000000 / p->rate);
    }
    return *due_ns <= now_ns;
}

static void issue(struct phase *p)
{
    int64_t due_ns = 0;
    /* Only those idle now: a refused connection is idle again at once and must not keep us here. */
    for (uint64_t n = idle_count; n > 0 && in_flight < p->most_in_flight; n--) {
        int64_t now_ns = fl_kit_now_ns();
        if (!may_issue(p, now_ns, &due_ns)) {
            return;
        }
        struct fl_client *c = &clients[idle[idle_first]];
        idle_first = (idle_first + 1) % opt.connections;
        idle_count--;
        in_flight++;
        p->issued++;
        fl_client_start(c, due_ns);
    }
}

static void expire(int64_t now_ns)
{
    for (uint64_t i = 0; i < opt.connections; i++) {
        if (clients[i].busy && now_ns - clients[i].start_ns > (int64_t)opt.timeout_s * 1000000000) {
            fl_client_expire(&clients[i]);
        }
    }
}

static struct timespec wait_time(const struct phase *p, int64_t now_ns)
{
    int64_t wait_ns = (int64_t)EXPIRY_CHECK_MS * 1000000;
    if (opt.read_rate > 0) {
        wait_ns = (int64_t)SLOW_TICK_MS * 1000000;
    } else if (p->rate > 0 && p->issued < p->requests && idle_count > 0) {
        int64_t due_ns = p->start_ns + (int64_t)(p->issued * 1000000000 / p->rate);
        wait_ns = due_ns - now_ns < wait_ns ? due_ns - now_ns : wait_ns;
    } else if (idle_count > 0 && p->issued < p->requests && in_flight < p->most_in_flight) {
        wait_ns = 0; /* everything was refused: go on with the next */
    }
    if (wait_ns < 0) {
        wait_ns = 0;
    }
    return (struct timespec){.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
}

static void run(struct phase *p)
{
    p->start_ns = fl_kit_now_ns();
    int64_t checked_ns = p->start_ns;
    int64_t tick_ns = p->start_ns;
    for (;;) {
        issue(p);
        int64_t now_ns = fl_kit_now_ns();
        bool all_issued = p->issued >= p->requests || now_ns >= p->stop_ns;
        if (all_issued && (in_flight == 0 || opt.read_rate > 0)) {
            return;
        }
        struct epoll_event events[BATCH];
        struct timespec wait = wait_time(p, now_ns);
        int n = epoll_pwait2(plan.epoll, events, BATCH, &wait, NULL);
        for (int i = 0; i < n; i++) {
            fl_client_event(events[i].data.ptr, events[i].events);
        }
        now_ns = fl_kit_now_ns();
        if (opt.read_rate > 0 && now_ns - tick_ns >= (int64_t)SLOW_TICK_MS * 1000000) {
            tick_ns = now_ns;
            for (uint64_t i = 0; i < opt.connections; i++) {
                fl_client_read_more(&clients[i]);
            }
        }
        if (opt.read_rate == 0 && now_ns - checked_ns > (int64_t)EXPIRY_CHECK_MS * 1000000) {
            checked_ns = now_ns;
            expire(now_ns);
        }
    }
}

/* Latency at quantile q, interpolated within its bucket. */
static double quantile_us(double q)
{
    uint64_t total = atomic_load(&tally.latency.count);
    double rank = q * (double)total;
    double seen = 0;
    for (unsigned i = 0; i < FL_HIST_BUCKETS; i++) {
        double here = (double)atomic_load(&tally.latency.bucket[i]);
        if (here > 0 && seen + here >= rank) {
            unsigned top = i / FL_HIST_SUB + 3;
            double low = i < FL_HIST_SUB
                             ? (double)i
                             : (double)((uint64_t)(FL_HIST_SUB + i % FL_HIST_SUB) << (top - 4));
            double width = i < FL_HIST_SUB ? 1.0 : (double)(1ull << (top - 4));
            return low + width * (rank - seen) / here;
        }
        seen += here;
    }
    return 0;
}

static void print_result(double seconds)
{
    static const char *const fault_names[FL_CLIENT_FAULTS] = {
        [FL_CLIENT_CONNECT] = "connect", [FL_CLIENT_CLOSED] = "closed",
        [FL_CLIENT_STATUS] = "status",   [FL_CLIENT_BODY] = "body",
        [FL_CLIENT_FRAMING] = "framing", [FL_CLIENT_TIMEOUT] = "timeout",
    };
    uint64_t errors = 0;
    for (unsigned i = FL_CLIENT_CONNECT; i < FL_CLIENT_FAULTS; i++) {
        errors += tally.faults[i];
    }
    printf("{\"requests\":%llu,\"errors\":%llu,\"faults\":{",
           (unsigned long long)(tally.answers + errors), (unsigned long long)errors);
    for (unsigned i = FL_CLIENT_CONNECT; i < FL_CLIENT_FAULTS; i++) {
        printf("%s\"%s\":%llu", i > FL_CLIENT_CONNECT ? "," : "", fault_names[i],
               (unsigned long long)tally.faults[i]);
    }
    printf("},\"status\":{");
    const char *comma = "";
    for (unsigned i = 0; i < 600; i++) {
        if (tally.status[i] > 0) {
            printf("%s\"%u\":%llu", comma, i, (unsigned long long)tally.status[i]);
            comma = ",";
        }
    }
    uint64_t count = atomic_load(&tally.latency.count);
    double mean = count > 0 ? (double)atomic_load(&tally.latency.sum_us) / (double)count : 0;
    printf("},\"bytes\":%llu,\"connects\":%llu,\"seconds\":%.6f,\"rps\":%.1f,\"mean_us\":%.1f,"
           "\"p50_us\":%.1f,"
           "\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f}\n",
           (unsigned long long)tally.bytes, (unsigned long long)tally.connects, seconds,
           seconds > 0 ? (double)tally.answers / seconds : 0, mean, quantile_us(0.5),
           quantile_us(0.9), quantile_us(0.99), quantile_us(0.999), quantile_us(1.0));
    (void)fflush(stdout);
}

static void warm_up(void)
{
    struct phase p = {.requests = opt.warmup, .stop_ns = INT64_MAX};
    p.most_in_flight = opt.spread > 0 ? opt.spread : UINT64_MAX;
    uint64_t read_rate = opt.read_rate;
    opt.read_rate = 0;
    run(&p);
    opt.read_rate = read_rate;
    uint64_t answers = tally.answers;
    memset(&tally, 0, sizeof(tally));
    if (answers < opt.warmup) {
        fl_kit_die("warm-up: %llu of %llu requests failed",
                   (unsigned long long)(opt.warmup - answers), (unsigned long long)opt.warmup);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    fl_kit_prepare_process();
    make_plan();
    make_clients();
    if (opt.warmup > 0) {
        warm_up();
    }
    if (opt.pause) {
        printf("ready\n");
        (void)fflush(stdout);
        char line[16];
        if (fgets(line, sizeof(line), stdin) == NULL) {
            return 1;
        }
    }
    struct phase p = {.requests = opt.requests, .rate = opt.rate, .most_in_flight = UINT64_MAX};
    p.stop_ns = INT64_MAX;
    if (opt.seconds > 0) {
        p.stop_ns = fl_kit_now_ns() + (int64_t)opt.seconds * 1000000000;
        p.requests = opt.requests > 0 ? opt.requests : UINT64_MAX;
    }
    int64_t start_ns = fl_kit_now_ns();
    run(&p);
    print_result((double)(fl_kit_now_ns() - start_ns) / 1e9);
    while (opt.pause &&
           getchar() != EOF) { /* whoever counts is done before the connections close */
    }
    return 0;
}
