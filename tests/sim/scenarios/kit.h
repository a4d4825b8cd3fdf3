/* kit - what the scenario tests share: cmocka, configurations, and a deal in one line. */
#ifndef FL_TESTS_SCENARIOS_KIT_H
#define FL_TESTS_SCENARIOS_KIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/scenarios/bed.h"
#include "tests/sim/scenarios/origin.h"
#include "tests/sim/scenarios/user.h"

/* One backend "store" with peers 10.0.0.1:9000 … and the route "*". The arguments are more keys of
 * the flow mappings: of the backend (", max_fails: 2"), of the first peers, of the route. */
#define KIT_PEER(n, keys) "{address: \"10.0.0." #n ":9000\"" keys "}"
#define KIT(root, protocol, backend_keys, peers, route_keys)                                       \
    root "\nbackends:\n  store: {protocol: " protocol ", probe: {type: none}" backend_keys         \
         ", peers: [" peers "]}\nroutes:\n  \"*\": {backend: store" route_keys "}\n"
#define KIT_S3(backend_keys, peers, route_keys)   KIT("", "s3", backend_keys, peers, route_keys)
#define KIT_HTTP(backend_keys, peers, route_keys) KIT("", "http", backend_keys, peers, route_keys)
#define KIT_ONE                                   KIT_PEER(1, "")
#define KIT_TWO                                   KIT_PEER(1, "") "," KIT_PEER(2, "")
#define KIT_THREE                                 KIT_TWO "," KIT_PEER(3, "")

static inline struct deal *kit_get(struct bed *b)
{
    struct deal *d = deal_new(b, "GET", "/bucket/key");
    d->class = DEAL_S;
    return d;
}

static inline struct deal *kit_put(struct bed *b, uint32_t bytes)
{
    struct deal *d = deal_new(b, "PUT", "/bucket/key");
    d->class = DEAL_I;
    d->body = DEAL_LENGTH;
    d->body_bytes = bytes;
    return d;
}

/* CreateMultipartUpload: a repeat changes state. */
static inline struct deal *kit_post(struct bed *b)
{
    struct deal *d = deal_new(b, "POST", "/bucket/key?uploads");
    d->class = DEAL_N;
    d->body = DEAL_LENGTH;
    return d;
}

static inline struct plan *kit_plan(struct deal *d, struct plan p)
{
    FL_MUST(d->plan_count < DEAL_PLANS);
    d->plans[d->plan_count] = p;
    return &d->plans[d->plan_count++];
}

/* Asks and runs to the end of the client. */
static inline void kit_do(struct bed *b, struct deal *d)
{
    user_ask(b, d);
    bed_run(b);
}

#define kit_answered(d, status_, token_)                                                           \
    do {                                                                                           \
        assert_int_equal((d)->end, DEAL_ANSWERED);                                                 \
        assert_string_equal((d)->token, token_);                                                   \
        assert_int_equal((d)->status, status_);                                                    \
    } while (0)

/* [TEST [-v]]: one test, verbosely. */
#define KIT_MAIN(tests)                                                                            \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        bed_verbose = argc > 2;                                                                    \
        if (argc > 1) {                                                                            \
            cmocka_set_test_filter(argv[1]);                                                       \
        }                                                                                          \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif
