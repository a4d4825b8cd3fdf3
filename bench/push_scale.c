/* push_scale - how long until a change has reached every sidecar, and what it costs the controller.
 *
 * The fan-out runs in this process, the receivers in another. A change is one peer that leaves and
 * one that comes, in the state of every configuration; measured is from just before the states are
 * offered to the last byte of the push at each receiver. One JSON line. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "bench/kit.h"
#include "bench/push_receivers.h"
#include "common/codec/state_json.h"
#include "controller/push/fanout.h"

#define GIVE_UP_MS 10000

struct options {
    uint32_t receivers, configurations, peers, backends, changes, observations, concurrency;
    int64_t pause_ms, idle_ms, interval_ms;
    uint16_t port;
    bool verdicts;
};

struct change {
    double p50_ms, p99_ms, max_ms, cpu_ms;
    uint32_t missed;
};

static struct fl_sign_key *make_key(void)
{
    struct fl_sign_key *key = NULL;
    char *text = NULL;
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    BIO *out = BIO_new(BIO_s_mem());
    if (pair == NULL || out == NULL ||
        PEM_write_bio_PKCS8PrivateKey(out, pair, NULL, NULL, 0, NULL, NULL) != 1) {
        fl_kit_die("no key could be made");
    }
    long n = BIO_get_mem_data(out, &text);
    if (fl_sign_key_new((struct fl_span){text, (size_t)n}, &key) < 0) {
        fl_kit_die("the key is refused");
    }
    BIO_free(out);
    EVP_PKEY_free(pair);
    return key;
}

/* The state after so many changes, as compose makes it: peers with zone, a verdict on each. */
static struct fl_state *make_state(const struct options *o, uint32_t configuration, uint32_t change)
{
    size_t cap = (size_t)o->backends * o->peers * 320 + 4096;
    char *text = malloc(cap);
    struct fl_fmt f = fl_fmt_of(text, cap);
    struct fl_findings said;
    fl_findings_init(&said, "");
    fl_fmt_text(&f, "{\"epoch\":1,\"seq\":1,\"routes\":{},\"backends\":{");
    for (uint32_t b = 0; b < o->backends; b++) {
        fl_fmt_printf(&f, "%s\"service-%02u\":{\"peers\":[", b ? "," : "", configuration + b);
        fl_fmt_printf(&f, "{\"address\":\"" FL_RECEIVERS_MARK "%u.%u:9000\",\"zone\":\"eu-1a\"}",
                      change / 250, change % 250);
        for (uint32_t i = 1; i < o->peers; i++) {
            fl_fmt_printf(&f, ",{\"address\":\"10.%u.%u.%u:9000\",\"zone\":\"eu-1%c\"}",
                          configuration + b, i / 250, 1 + i % 250, 'a' + (int)(i % 3));
        }
        fl_fmt_text(&f, "],\"verdicts\":{");
        for (uint32_t i = 1; o->verdicts && i < o->peers; i++) {
            fl_fmt_printf(&f,
                          "%s\"10.%u.%u.%u:9000\":{\"status\":\"healthy\",\"code\":\"healthy\","
                          "\"cause\":\"\",\"step\":\"read\",\"age_ms\":%u}",
                          i > 1 ? "," : "", configuration + b, i / 250, 1 + i % 250, 100 * i);
        }
        fl_fmt_text(&f, "}}");
    }
    fl_fmt_text(&f, "}}");
    struct fl_state *s = f.cut ? NULL : fl_state_json_decode((struct fl_span){text, f.len}, &said);
    if (s == NULL) {
        fl_kit_die("the state is refused: %s", said.first != NULL ? said.first->text : "too long");
    }
    fl_findings_done(&said);
    free(text);
    return s;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void run_for(struct fl_reactor *r, int64_t ms)
{
    for (int64_t end_ns = fl_kit_now_ns() + ms * 1000000, left;
         (left = end_ns - fl_kit_now_ns()) > 0;) {
        fl_reactor_turn(r, left / 1000000 + 1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static double part(const double *sorted, uint32_t n, double share)
{
    uint32_t at = (uint32_t)(share * n);
    return n == 0 ? 0 : sorted[at < n ? at : n - 1];
}

static uint64_t accepted(const struct fl_fanout *f)
{
    return fl_fanout_total(f, FL_PUSH_OK);
}

static void say_missing(const struct options *o, const struct fl_fanout *f, uint32_t number)
{
    for (unsigned i = 0; i < FL_PUSH_RESULT_COUNT; i++) {
        (void)fprintf(stderr, "%s %llu ", fl_push_result_token((enum fl_push_result)i),
                      (unsigned long long)fl_fanout_total(f, (enum fl_push_result)i));
    }
    (void)fprintf(stderr, "after change %u\n", number);
    for (uint32_t i = 0, said = 0; i < o->receivers && said < 5; i++) {
        struct fl_fanout_view v;
        fl_fanout_view(f, i, &v);
        if (v.lag_ms > 0) {
            said++;
            (void)fprintf(stderr, "  %s lags %lld ms, failures %u: %s\n", v.address,
                          (long long)v.lag_ms, v.failures, v.error->text);
        }
    }
}

/* One change: until every answer is here, or GIVE_UP_MS. */
static struct change run_change(const struct options *o, struct fl_reactor *r, struct fl_fanout *f,
                                struct fl_receivers *to, uint32_t number)
{
    static double took_ms[1 << 16];
    struct fl_state *states[256];
    char key[32];
    for (uint32_t c = 0; c < o->configurations; c++) {
        states[c] = make_state(o, c, number);
    }
    fl_reactor_turn(r, 0);
    uint64_t before = accepted(f);
    int64_t cpu = cpu_ns(), from_ns = fl_kit_now_ns();
    for (uint32_t c = 0; c < o->configurations; c++) {
        (void)snprintf(key, sizeof(key), "configuration-%u", c);
        fl_fanout_offer(f, key, states[c], false); /* a peer is taken away: it does not settle */
    }
    while (accepted(f) < before + o->receivers &&
           fl_kit_now_ns() < from_ns + GIVE_UP_MS * INT64_C(1000000)) {
        fl_reactor_turn(r, 100);
    }
    if (accepted(f) < before + o->receivers) {
        say_missing(o, f, number);
    }
    struct change made = {.cpu_ms = (double)(cpu_ns() - cpu) / 1e6};
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->receivers; i++) {
        int64_t at_ns = to->arrived_ns[(size_t)number * o->receivers + i];
        if (at_ns > 0) {
            took_ms[n++] = (double)(at_ns - from_ns) / 1e6;
        } else {
            made.missed++;
        }
    }
    qsort(took_ms, n, sizeof(took_ms[0]), by_size);
    made.p50_ms = part(took_ms, n, 0.5);
    made.p99_ms = part(took_ms, n, 0.99);
    made.max_ms = part(took_ms, n, 1);
    return made;
}

static struct fl_fanout *make_fanout(const struct options *o, struct fl_reactor *r,
                                     const struct fl_log *log, const struct fl_receivers *to)
{
    const struct fl_fanout_conf conf = {.reactor = r, .log = log, .epoch = 1700000000, .seed = 7};
    struct fl_controller_config *config = fl_controller_config_new();
    struct fl_fanout *f = NULL;
    struct fl_sign_key *key = make_key();
    if (config == NULL || fl_fanout_new(&conf, &f) < 0) {
        fl_kit_die("the fan-out could not be made");
    }
    config->probe_defaults.interval_ms = o->interval_ms;
    config->push.concurrency = o->concurrency;
    config->push.timeout_ms = 5000;
    config->push.settle_ms = 50;
    fl_fanout_set_key(f, &key);
    if (fl_fanout_configure(f, config) < 0) {
        fl_kit_die("configure");
    }
    fl_controller_config_free(config);
    for (uint32_t i = 0; i < o->receivers; i++) {
        char address[64], id[64], key_text[32];
        fl_receivers_address(to, i, address, sizeof(address));
        (void)snprintf(id, sizeof(id), "5f0c7a52-41d1-4d3c-9a57-%012u", i);
        (void)snprintf(key_text, sizeof(key_text), "configuration-%u", i % o->configurations);
        const struct fl_fanout_target t = {address, id, "shop", "web", "node-1", key_text, false};
        if (fl_fanout_put_target(f, &t) < 0) {
            fl_kit_die("target %u", i);
        }
    }
    return f;
}

static void report(const struct options *o, const struct change *all, const struct fl_receivers *to,
                   double idle_cpu_ms)
{
    static double p50[1024], p99[1024], most[1024], cpu[1024];
    uint32_t missed = 0, n = o->changes - 1; /* the first fills them: it is no change */
    for (uint32_t i = 0; i < n; i++) {
        p50[i] = all[i + 1].p50_ms;
        p99[i] = all[i + 1].p99_ms;
        most[i] = all[i + 1].max_ms;
        cpu[i] = all[i + 1].cpu_ms;
        missed += all[i + 1].missed;
    }
    qsort(p50, n, sizeof(p50[0]), by_size);
    qsort(p99, n, sizeof(p99[0]), by_size);
    qsort(most, n, sizeof(most[0]), by_size);
    qsort(cpu, n, sizeof(cpu[0]), by_size);
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    printf("{\"receivers\":%u,\"configurations\":%u,\"peers\":%u,\"changes\":%u,\"concurrency\":%u,"
           "\"body_bytes\":%llu,\"pushes\":%llu,\"connections\":%llu,\"missed\":%u,"
           "\"p50_ms\":%.1f,\"p99_ms\":%.1f,\"p99_worst_ms\":%.1f,\"max_ms\":%.1f,"
           "\"max_worst_ms\":%.1f,\"cpu_ms\":%.1f,\"cpu_us_per_push\":%.1f,"
           "\"refresh_cpu_ms_per_s\":%.2f,\"rss_kib\":%ld}\n",
           o->receivers, o->configurations, o->peers * o->backends, n, o->concurrency,
           (unsigned long long)(to->pushes ? to->bytes / to->pushes : 0),
           (unsigned long long)to->pushes, (unsigned long long)to->connections, missed,
           part(p50, n, 0.5), part(p99, n, 0.5), part(p99, n, 1), part(most, n, 0.5),
           part(most, n, 1), part(cpu, n, 0.5), part(cpu, n, 0.5) * 1000 / o->receivers,
           idle_cpu_ms, use.ru_maxrss);
}

static void read_options(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        uint32_t *to;
    } numbers[] = {{"--receivers", &o->receivers},
                   {"--configurations", &o->configurations},
                   {"--peers", &o->peers},
                   {"--backends", &o->backends},
                   {"--changes", &o->changes},
                   {"--observations", &o->observations},
                   {"--concurrency", &o->concurrency}};
    const struct {
        const char *name;
        int64_t *to;
    } times[] = {{"--pause-ms", &o->pause_ms},
                 {"--idle-ms", &o->idle_ms},
                 {"--interval-ms", &o->interval_ms}};
    for (int i = 1; i + 1 < argc; i += 2) {
        bool known = false;
        for (size_t k = 0; k < FL_COUNTOF(numbers); k++) {
            if (strcmp(argv[i], numbers[k].name) == 0) {
                *numbers[k].to = (uint32_t)fl_kit_number(argv[i + 1]);
                known = true;
            }
        }
        for (size_t k = 0; k < FL_COUNTOF(times); k++) {
            if (strcmp(argv[i], times[k].name) == 0) {
                *times[k].to = (int64_t)fl_kit_number(argv[i + 1]);
                known = true;
            }
        }
        if (strcmp(argv[i], "--port") == 0) {
            o->port = (uint16_t)fl_kit_number(argv[i + 1]);
            known = true;
        }
        if (!known) {
            fl_kit_die("unknown option %s", argv[i]);
        }
    }
    if (o->receivers < 1 || o->receivers > 60000 || o->configurations < 1 ||
        o->configurations > 250 || o->changes < 2 || o->changes > 1000 || o->backends < 1) {
        fl_kit_die(
            "receivers 1 to 60000, configurations 1 to 250, changes 2 to 1000, backends > 0");
    }
}

int main(int argc, char **argv)
{
    struct options o = {.receivers = 1000,
                        .configurations = 1,
                        .peers = 100,
                        .backends = 1,
                        .changes = 11,
                        .observations = 100,
                        .concurrency = 64,
                        .pause_ms = 1000,
                        .idle_ms = 5000,
                        .interval_ms = 30000,
                        .port = 18422,
                        .verdicts = true};
    const struct fl_log log = {.level = FL_LOG_ERROR};
    struct fl_reactor *r = NULL;
    fl_kit_prepare_process();
    read_options(argc, argv, &o);
    size_t n = sizeof(struct fl_receivers) + (size_t)o.changes * o.receivers * sizeof(int64_t);
    struct fl_receivers *to =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct change *all = calloc(o.changes, sizeof(*all));
    if (to == MAP_FAILED || all == NULL || fl_reactor_new(&r) < 0) {
        fl_kit_die("out of memory");
    }
    to->count = o.receivers;
    to->changes = o.changes;
    to->port = o.port;
    to->observations = o.observations;
    to->idle_ms = o.idle_ms;
    pid_t child = fl_receivers_start(to);
    struct fl_fanout *f = make_fanout(&o, r, &log, to);
    for (uint32_t i = 0; i < o.changes; i++) {
        all[i] = run_change(&o, r, f, to, i);
        run_for(r, o.pause_ms);
    }
    int64_t cpu = cpu_ns(), idle_ms = o.pause_ms > 3000 ? o.pause_ms : 3000;
    run_for(r, idle_ms);
    report(&o, all, to, (double)(cpu_ns() - cpu) / 1e3 / (double)idle_ms);
    fl_fanout_free(f);
    fl_reactor_free(r);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    free(all);
    return 0;
}
