/* practice - what a sidecar does most of the time, for the compiler to count (cmake/profile.cmake):
 * clients with kept and with new connections, small and large answers and uploads, both protocols.
 * The rules of the bed hold; nothing else is looked at. */
#include "tests/sim/scenarios/bed.h"
#include "tests/sim/scenarios/origin.h"
#include "tests/sim/scenarios/user.h"

enum { CLIENTS = 24, REQUESTS = 100 };

#define CONFIG(protocol)                                                                           \
    "access_log: all\nbackends:\n  store: {protocol: " protocol                                    \
    ", probe: {type: none}, keepalive: {idle: 64}, peers: [{address: \"10.0.0.1:9000\"}, "         \
    "{address: \"10.0.0.2:9000\"}, {address: \"10.0.0.3:9000\"}]}\n"                               \
    "routes:\n  \"*\": {backend: store}\n  \"/\": {backend: store}\n"

/* As the SDKs of S3 write them. */
static const char fields[] =
    "User-Agent: aws-sdk-go-v2/1.30.3 os/linux lang/go#1.22.5 md/GOOS#linux md/GOARCH#amd64\r\n"
    "Accept-Encoding: identity\r\nAmz-Sdk-Invocation-Id: 6f1c2d0e-8c36-4f8e-9a47-0f3c6f8f2c11\r\n"
    "Amz-Sdk-Request: attempt=1; max=3\r\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"
    "20240101/us-east-1/s3/aws4_request, SignedHeaders=accept-encoding;host;x-amz-content-sha256;"
    "x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\r\n"
    "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\nX-Amz-Date: 20240101T000000Z\r\n";

struct kind {
    const char *method, *target;
    uint32_t sends, gets;
    enum plan_body framing;
    unsigned weight; /* in the whole */
};
static const struct kind kinds[] = {
    {"GET", "/bucket/some/key", 0, 1024, PLAN_LENGTH, 60},
    {"HEAD", "/bucket/some/key", 0, 0, PLAN_LENGTH, 6},
    {"PUT", "/bucket/some/key", 2000, 0, PLAN_LENGTH, 10},
    {"GET", "/bucket/a%20key", 0, 60000, PLAN_LENGTH, 8},
    {"GET", "/bucket?list-type=2&prefix=a", 0, 5000, PLAN_CHUNKED, 8},
    {"PUT", "/bucket/some/key", 200000, 0, PLAN_LENGTH, 4},
    {"GET", "/bucket/large", 0, 1 << 20, PLAN_LENGTH, 4},
};

static struct deal *next_deal(struct bed *b, unsigned number)
{
    unsigned at = number * 37 % 100;
    const struct kind *k = kinds;
    while (at >= k->weight) {
        at -= k++->weight;
    }
    struct deal *d = deal_new(b, k->method, k->target);
    d->fields = fields;
    d->class = k->sends > 0 ? DEAL_I : DEAL_S;
    d->body = k->sends > 0 ? DEAL_LENGTH : DEAL_NO_BODY;
    d->body_bytes = k->sends;
    d->plans[d->plan_count++] =
        (struct plan){.body = k->framing, .body_bytes = k->gets, .head_bytes = 300};
    return d;
}

static void practise(uint64_t seed, const char *yaml, unsigned requests)
{
    struct bed *b = bed_new(seed, 1, yaml);
    struct user_script plain = {.path = sim_path_default()};
    for (unsigned i = 0; i < 3; i++) {
        (void)origin_new(b, i);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct deal *deals[REQUESTS];
        for (unsigned k = 0; k < requests; k++) {
            deals[k] = next_deal(b, i * requests + k);
        }
        (void)user_dial(b, &plain, deals, requests);
    }
    bed_run(b);
    bed_end(b);
}

int main(void)
{
    practise(1, CONFIG("s3"), REQUESTS);
    practise(2, CONFIG("http"), REQUESTS);
    practise(3, CONFIG("s3"), 1);
    return 0;
}
