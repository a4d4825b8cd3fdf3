/* kube_relist - what a list of a large cluster costs the controller: 10,000 pods of some 20 KB and
 * 50,000 endpoints in 500 slices, made as they are fed (16 KiB at a time, as from a socket) through
 * kube_stream, kube_decode and the stores; first into empty stores, then as a relist that changes
 * nothing, then as one that changes every object. The making alone is measured too, to be taken
 * off. Usage: bench-kube_relist [PODS [SLICES [SERVICES]]] */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/kit.h"
#include "common/base/arena.h"
#include "common/base/fmt.h"
#include "controller/codec/kube_decode.h"
#include "controller/codec/kube_stream.h"
#include "controller/decide/pods.h"
#include "controller/decide/slices.h"

#define PIECE_BYTES    (16u << 10)
#define ENDPOINTS      100u
#define ARENA_BYTES    ((size_t)4 << 20)
#define POD_ENV_COUNT  70u
#define MANAGED_FIELDS 2u

/* A document while it is made: full pieces go to the stream, or nowhere. */
struct sink {
    char piece[PIECE_BYTES];
    size_t len;
    uint64_t bytes;
    struct fl_kube_stream *to; /* NULL: only made */
};

struct world {
    unsigned pods, slices, services;
    unsigned edition; /* texts that change with it make every object another one */
    struct fl_pods *pod_store;
    struct fl_slices *slice_store;
    uint64_t objects, changed;
};

static void flush(struct sink *s)
{
    if (s->to && fl_kube_stream_feed(s->to, (struct fl_span){s->piece, s->len}) != 0) {
        fl_kit_die("the stream was refused");
    }
    s->bytes += s->len;
    s->len = 0;
}

static void put(struct sink *s, const char *text, size_t n)
{
    while (n > 0) {
        size_t take = n < PIECE_BYTES - s->len ? n : PIECE_BYTES - s->len;
        memcpy(s->piece + s->len, text, take);
        s->len += take;
        text += take;
        n -= take;
        if (s->len == PIECE_BYTES) {
            flush(s);
        }
    }
}

static void say(struct sink *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct sink *s, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(text)) {
        fl_kit_die("a text of the bench is too long");
    }
    put(s, text, (size_t)n);
}

// ---- the documents -----------------------------------------------------------------------------

static void make_managed_fields(struct sink *s)
{
    static const char fields[] =
        "{\"f:metadata\":{\"f:annotations\":{\".\":{},\"f:route.fairlead.dev/releases\":{}},"
        "\"f:labels\":{\".\":{},\"f:app\":{},\"f:pod-template-hash\":{}},\"f:ownerReferences\":{"
        "\".\":{},\"k:{\\\"uid\\\":\\\"0b7e8a3a-16cf-4b7e-9f38-1f1f7a3ad8b1\\\"}\":{}}},\"f:spec\":"
        "{"
        "\"f:containers\":{\"k:{\\\"name\\\":\\\"app\\\"}\":{\".\":{},\"f:env\":{\".\":{}";
    put(s, "\"managedFields\":[", 17);
    for (unsigned m = 0; m < MANAGED_FIELDS; m++) {
        say(s,
            "%s{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\",\"apiVersion\":"
            "\"v1\",\"time\":\"2026-11-30T09:21:47Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":",
            m ? "," : "");
        put(s, fields, sizeof(fields) - 1);
        for (unsigned i = 0; i < POD_ENV_COUNT / 2; i++) {
            say(s,
                ",\"k:{\\\"name\\\":\\\"SETTING_NUMBER_%u\\\"}\":{\".\":{},\"f:name\":{},"
                "\"f:value\":{}}",
                i);
        }
        say(s, "},\"f:image\":{},\"f:imagePullPolicy\":{},\"f:resources\":{}}},\"f:dnsPolicy\":{},"
               "\"f:restartPolicy\":{}}}}");
    }
    put(s, "]", 1);
}

static void make_pod_status(struct sink *s, unsigned i)
{
    static const char *const types[] = {"PodReadyToStartContainers", "Initialized", "Ready",
                                        "ContainersReady", "PodScheduled"};
    say(s, "\"status\":{\"phase\":\"Running\",\"conditions\":[");
    for (unsigned k = 0; k < FL_COUNTOF(types); k++) {
        say(s,
            "%s{\"type\":\"%s\",\"status\":\"True\",\"lastProbeTime\":null,"
            "\"lastTransitionTime\":\"2026-11-30T09:21:47Z\",\"observedGeneration\":1}",
            k ? "," : "", types[k]);
    }
    say(s,
        "],\"hostIP\":\"192.168.%u.%u\",\"podIP\":\"10.%u.%u.%u\",\"podIPs\":[{\"ip\":"
        "\"10.%u.%u.%u\"}],\"startTime\":\"2026-11-30T09:20:00Z\",",
        i >> 8 & 255, i & 255, i >> 16 & 255, i >> 8 & 255, i & 255, i >> 16 & 255, i >> 8 & 255,
        i & 255);
    for (unsigned k = 0; k < 2; k++) {
        say(s,
            "\"%s\":[{\"name\":\"%s\",\"state\":{\"running\":{\"startedAt\":"
            "\"2026-11-30T09:20:01Z\"}},\"lastState\":{},\"ready\":true,\"restartCount\":0,"
            "\"image\":\"registry.example.com/shop/app:1.2.3\",\"imageID\":\"sha256:"
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"started\":true}"
            "],",
            k ? "containerStatuses" : "initContainerStatuses", k ? "app" : "fairlead");
    }
    say(s, "\"qosClass\":\"Burstable\"}");
}

static void make_pod(struct sink *s, const struct world *w, unsigned i)
{
    say(s,
        "{\"metadata\":{\"name\":\"web-5d4f8c7b9-%05u\",\"generateName\":\"web-5d4f8c7b9-\","
        "\"namespace\":\"shop-%u\",\"uid\":\"%08x-16cf-4b7e-9f38-1f1f7a3ad8b1\","
        "\"resourceVersion\":\"%u\",\"creationTimestamp\":\"2026-11-30T09:20:00Z\",\"labels\":{"
        "\"app\":\"web\",\"fairlead.dev/injected\":\"true\",\"pod-template-hash\":\"5d4f8c7b9\"},"
        "\"annotations\":{\"fairlead.dev/bootstrap\":\"",
        i, i % 40, i, 1000 + i + w->edition);
    for (unsigned k = 0; k < 24; k++) {
        say(s, "- {address: \\\"10.8.%u.%u:9000\\\", tier: primary, zone: eu-central-1a}\\n", k, k);
    }
    say(s,
        "\",\"fairlead.dev/injected-hash\":\"%08x\",\"route.fairlead.dev/releases\":\"minio%s\"},"
        "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":"
        "\"web-5d4f8c7b9\",\"uid\":\"0b7e8a3a-16cf-4b7e-9f38-1f1f7a3ad8b1\",\"controller\":true}"
        "],",
        i % 40, w->edition > 1 ? "-b" : "");
    make_managed_fields(s);
    say(s, "},\"spec\":{\"volumes\":[{\"name\":\"kube-api-access\",\"projected\":{\"sources\":[{"
           "\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":\"token\"}}]}}],"
           "\"containers\":[{\"name\":\"app\",\"image\":\"registry.example.com/shop/app:1.2.3\","
           "\"env\":[");
    for (unsigned k = 0; k < POD_ENV_COUNT; k++) {
        say(s,
            "%s{\"name\":\"SETTING_NUMBER_%u\",\"value\":\"the value of this setting, as long as "
            "such values tend to be: %u\"}",
            k ? "," : "", k, k * 7919);
    }
    say(s,
        "],\"resources\":{\"requests\":{\"cpu\":\"100m\"}}}],\"nodeName\":\"node-%u\","
        "\"serviceAccountName\":\"default\",\"tolerations\":[{\"key\":"
        "\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\"}]},",
        i % 300);
    make_pod_status(s, i);
    put(s, "}", 1);
}

static void make_slice(struct sink *s, const struct world *w, unsigned i)
{
    unsigned service = i % w->services;
    say(s,
        "{\"metadata\":{\"name\":\"store-%u-%05u\",\"namespace\":\"storage\",\"uid\":\"%08x-aaaa\","
        "\"resourceVersion\":\"%u\",\"labels\":{\"endpointslice.kubernetes.io/managed-by\":"
        "\"endpointslice-controller.k8s.io\",\"kubernetes.io/service-name\":\"store-%u\"},"
        "\"annotations\":{\"endpoints.kubernetes.io/last-change-trigger-time\":"
        "\"2026-11-30T09:%02u:47Z\"},",
        service, i, i, 1000 + i + w->edition, service, 20 + (w->edition > 1 ? w->edition : 0));
    make_managed_fields(s);
    say(s, "},\"addressType\":\"IPv4\",\"endpoints\":[");
    for (unsigned k = 0; k < ENDPOINTS; k++) {
        unsigned n = i * ENDPOINTS + k;
        say(s,
            "%s{\"addresses\":[\"10.%u.%u.%u\"],\"conditions\":{\"ready\":true,\"serving\":true,"
            "\"terminating\":false},\"nodeName\":\"node-%u\",\"targetRef\":{\"kind\":\"Pod\","
            "\"name\":\"store-%u\",\"namespace\":\"storage\",\"uid\":"
            "\"%08x-16cf-4b7e-9f38-1f1f7a3ad8b1\"},\"zone\":\"eu-central-1%c\"}",
            k ? "," : "", n >> 16 & 255, n >> 8 & 255, n & 255, n % 300, n, n, "abc"[n % 3]);
    }
    say(s, "],\"ports\":[{\"name\":\"s3\",\"port\":9000,\"protocol\":\"TCP\"}]}");
}

static void make_list(struct sink *s, const struct world *w, const char *kind, unsigned count,
                      void (*item)(struct sink *, const struct world *, unsigned))
{
    say(s,
        "{\"kind\":\"%s\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"99\"},"
        "\"items\":[",
        kind);
    for (unsigned i = 0; i < count; i++) {
        if (i) {
            put(s, ",", 1);
        }
        item(s, w, i);
    }
    put(s, "]}\n", 3);
    flush(s);
}

// ---- what the controller does with them --------------------------------------------------------

static bool take_pod(void *arg, enum fl_kube_event event, struct fl_span text)
{
    struct world *w = arg;
    struct fl_arena a;
    struct fl_kube_pod pod;
    bool changed = false;
    (void)event;
    fl_arena_init(&a, ARENA_BYTES);
    if (fl_kube_decode_pod(text, &a, &pod) != 0 || fl_pods_put(w->pod_store, &pod, &changed) != 0) {
        fl_kit_die("a pod was refused");
    }
    fl_arena_done(&a);
    w->objects++;
    w->changed += changed;
    return true;
}

static bool take_slice(void *arg, enum fl_kube_event event, struct fl_span text)
{
    struct world *w = arg;
    struct fl_arena a;
    struct fl_kube_slice slice;
    (void)event;
    fl_arena_init(&a, ARENA_BYTES);
    if (fl_kube_decode_slice(text, &a, &slice) != 0 ||
        fl_slices_put(w->slice_store, &slice, 0) != 0) {
        fl_kit_die("a slice was refused");
    }
    fl_arena_done(&a);
    w->objects++;
    return true;
}

static uint64_t list_once(struct world *w, bool pods, bool take)
{
    static struct sink s;
    struct fl_kube_stream *stream =
        fl_kube_stream_new(FL_KUBE_LIST, FL_KUBE_OBJECT_MAX_BYTES, pods ? take_pod : take_slice, w);
    if (!stream) {
        fl_kit_die("out of memory");
    }
    s.len = 0;
    s.bytes = 0;
    s.to = take ? stream : NULL;
    if (pods) {
        make_list(&s, w, "PodList", w->pods, make_pod);
    } else {
        make_list(&s, w, "EndpointSliceList", w->slices, make_slice);
    }
    if (take && !fl_kube_stream_whole(stream)) {
        fl_kit_die("the list is not whole");
    }
    fl_kube_stream_free(stream);
    return s.bytes;
}

// ---- measures ----------------------------------------------------------------------------------

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* A line "Name:  123 kB" of a file of /proc, in KiB. */
static unsigned long proc_kib(const char *path, const char *name)
{
    char line[256];
    unsigned long kib = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtoul(line + strlen(name), NULL, 10);
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

static void reset_peak(void) /* of VmHWM */
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

static void report(const char *what, double seconds, uint64_t bytes)
{
    printf("%-34s cpu %6.2f s  %7.1f MB  rss %6lu KiB  peak %6lu KiB  private dirty %6lu KiB\n",
           what, seconds, (double)bytes / 1e6, proc_kib("/proc/self/status", "VmRSS:"),
           proc_kib("/proc/self/status", "VmHWM:"),
           proc_kib("/proc/self/smaps_rollup", "Private_Dirty:"));
    fflush(stdout);
    reset_peak();
}

static void pass(struct world *w, const char *what)
{
    double began = cpu_s();
    w->changed = 0;
    w->objects = 0;
    fl_pods_begin(w->pod_store);
    uint64_t bytes = list_once(w, true, true);
    (void)fl_pods_end(w->pod_store);
    fl_slices_begin(w->slice_store);
    bytes += list_once(w, false, true);
    fl_slices_end(w->slice_store, 0);
    report(what, cpu_s() - began, bytes);
    printf("  %llu objects, %llu pods changed\n", (unsigned long long)w->objects,
           (unsigned long long)w->changed);
}

/* One slice of a service changes, and its members are made anew: what one event costs. */
static void one_change(struct world *w)
{
    struct fl_service_ref ref = {"storage", "store-0", "s3"};
    enum { ROUNDS = 200 };
    double put_s = 0, members_s = 0;
    uint32_t count = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct fl_kube_slice_port port = {"s3", 9000};
        struct fl_kube_endpoint e = {.address = "10.200.0.1", .target_uid = "x", .zone = "z"};
        struct fl_kube_slice slice = {.meta = {"storage", "extra", "", ""},
                                      .service = "store-0",
                                      .trigger_unix_ms = i,
                                      .family = FL_ADDR_V4,
                                      .ports = &port,
                                      .port_count = 1,
                                      .endpoints = &e,
                                      .endpoint_count = 1};
        struct fl_members m = {0};
        struct fl_arena a;
        fl_arena_init(&a, (size_t)64 << 20);
        double began = cpu_s();
        if (fl_slices_put(w->slice_store, &slice, 0) != 0) {
            fl_kit_die("out of memory");
        }
        double put_at = cpu_s();
        if (fl_slices_members(w->slice_store, &ref, &a, &m) != FL_MEMBERS_FOUND) {
            fl_kit_die("no members");
        }
        members_s += cpu_s() - put_at;
        put_s += put_at - began;
        count = m.count;
        fl_arena_done(&a);
    }
    printf("one change of a service of %u members: put %.0f us, members %.0f us\n", count,
           put_s / ROUNDS * 1e6, members_s / ROUNDS * 1e6);
}

int main(int argc, char **argv)
{
    struct world w = {
        .pods = argc > 1 ? (unsigned)fl_kit_number(argv[1]) : 10000,
        .slices = argc > 2 ? (unsigned)fl_kit_number(argv[2]) : 500,
        .services = argc > 3 ? (unsigned)fl_kit_number(argv[3]) : 50,
        .pod_store = fl_pods_new(1),
        .slice_store = fl_slices_new(1),
    };
    if (!w.pod_store || !w.slice_store || w.services == 0) {
        fl_kit_die("usage: bench-kube_relist [PODS [SLICES [SERVICES]]]");
    }
    printf("%u pods, %u endpoints in %u slices of %u services\n", w.pods, w.slices * ENDPOINTS,
           w.slices, w.services);
    double began = cpu_s();
    uint64_t bytes = list_once(&w, true, false) + list_once(&w, false, false);
    report("made only", cpu_s() - began, bytes);
    pass(&w, "first list");
    w.edition = 1;
    pass(&w, "relist, nothing new");
    w.edition = 2;
    pass(&w, "relist, every object another");
    one_change(&w);
    w.pod_store = fl_pods_free(w.pod_store);
    w.slice_store = fl_slices_free(w.slice_store);
    return 0;
}
