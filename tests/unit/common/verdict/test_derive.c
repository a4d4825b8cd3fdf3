#include "common/verdict/derive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"

/* One letter a peer: H healthy, N healthy with a note, U unreachable, A auth-rejected, E erroring,
 * ? unknown, 0 no verdict at all, d down. Addresses are given from the end, so that the first by
 * address is the last letter. */
struct row {
    const char *peers;
    enum fl_verdict_status status;
    int cause;        /* position of the peer whose cause is repeated, -1 none */
    const char *down; /* peers_down */
    const char *note;
};

static const struct row rows[] = {
    {"", FL_VERDICT_UNKNOWN, -1, "", ""},
    {"?", FL_VERDICT_UNKNOWN, -1, "", ""},
    {"0", FL_VERDICT_UNKNOWN, -1, "", ""},
    {"d", FL_VERDICT_UNKNOWN, -1, "", ""},
    {"H", FL_VERDICT_HEALTHY, -1, "", ""},
    {"HHH", FL_VERDICT_HEALTHY, -1, "", ""},
    {"HN", FL_VERDICT_HEALTHY, -1, "", "note of 1"},
    {"NNH", FL_VERDICT_HEALTHY, -1, "", "note of 1"},
    {"HUU", FL_VERDICT_HEALTHY, -1, "2/3", "fault of 2"},
    {"UUH", FL_VERDICT_HEALTHY, -1, "2/3", "fault of 1"},
    {"HA", FL_VERDICT_HEALTHY, -1, "1/2", "fault of 1"},
    {"HE", FL_VERDICT_HEALTHY, -1, "", ""},
    {"U?H", FL_VERDICT_HEALTHY, -1, "1/3", "fault of 0"},
    {"U", FL_VERDICT_UNREACHABLE, 0, "1/1", ""},
    {"UUU", FL_VERDICT_UNREACHABLE, 2, "3/3", ""},
    {"UdU", FL_VERDICT_UNREACHABLE, 2, "2/2", ""},
    {"UUd", FL_VERDICT_UNREACHABLE, 1, "2/2", ""},
    {"U?", FL_VERDICT_UNKNOWN, -1, "1/2", ""},
    {"U0", FL_VERDICT_UNKNOWN, -1, "1/2", ""},
    {"E", FL_VERDICT_ERRORING, 0, "", ""},
    {"EU", FL_VERDICT_ERRORING, 0, "1/2", ""},
    {"UEE", FL_VERDICT_ERRORING, 2, "1/3", ""},
    {"E?", FL_VERDICT_ERRORING, 0, "", ""},
    {"EA", FL_VERDICT_ERRORING, 0, "1/2", ""},
    {"A", FL_VERDICT_AUTH_REJECTED, 0, "1/1", ""},
    {"AU", FL_VERDICT_AUTH_REJECTED, 0, "2/2", ""},
    {"A?", FL_VERDICT_AUTH_REJECTED, 0, "1/2", ""},
};

static enum fl_verdict_status status_of(char c)
{
    return c == 'H' || c == 'N' ? FL_VERDICT_HEALTHY
           : c == 'U'           ? FL_VERDICT_UNREACHABLE
           : c == 'A'           ? FL_VERDICT_AUTH_REJECTED
           : c == 'E'           ? FL_VERDICT_ERRORING
                                : FL_VERDICT_UNKNOWN;
}

static void the_table(void **state)
{
    (void)state;
    static const char *const addresses[] = {"10.0.0.9:1", "10.0.0.8:1", "10.0.0.7:1"};
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_verdict v[3];
        struct fl_derive_peer peers[3];
        uint32_t n = (uint32_t)strlen(rows[i].peers);
        for (uint32_t p = 0; p < n; p++) {
            char c = rows[i].peers[p];
            v[p] = (struct fl_verdict){.status = c == 'd' ? FL_VERDICT_UNREACHABLE : status_of(c),
                                       .at_ms = 100 + p};
            if (fl_verdict_blocks(v[p].status) || c == 'E') {
                fl_cause_set(&v[p].cause, "x", "fault of %u", p);
            }
            if (c == 'N') {
                memcpy(v[p].note, "note of x", 10);
                v[p].note[8] = (char)('0' + p);
            }
            peers[p] = (struct fl_derive_peer){addresses[p], c == '0' ? NULL : &v[p], c == 'd'};
        }
        struct fl_derived d;
        fl_derive_backend(peers, n, &d);
        char cause[16] = "";
        if (rows[i].cause >= 0) {
            memcpy(cause, "fault of x", 11);
            cause[9] = (char)('0' + rows[i].cause);
        }
        if (d.verdict.status != rows[i].status || strcmp(d.verdict.cause.text, cause) != 0 ||
            strcmp(d.peers_down, rows[i].down) != 0 || strcmp(d.verdict.note, rows[i].note) != 0) {
            fail_msg("%s: %s cause '%s' down '%s' note '%s'", rows[i].peers,
                     fl_verdict_status_name(d.verdict.status), d.verdict.cause.text, d.peers_down,
                     d.verdict.note);
        }
    }
}

/* The order in which peers stand in a list, which differs between the processes, changes nothing.
 */
static void the_order_of_the_list_does_not_matter(void **state)
{
    (void)state;
    struct fl_verdict a = {.status = FL_VERDICT_UNREACHABLE, .at_ms = 5}, b = a, c = a;
    fl_cause_set(&a.cause, "a", "a");
    fl_cause_set(&b.cause, "b", "b");
    c.at_ms = 9;
    const struct fl_derive_peer one[] = {
        {"10.0.0.1:1", &a, false}, {"10.0.0.2:1", &b, false}, {"10.0.0.3:1", &c, false}};
    const struct fl_derive_peer two[] = {one[2], one[1], one[0]};
    struct fl_derived x, y;
    fl_derive_backend(one, 3, &x);
    fl_derive_backend(two, 3, &y);
    assert_string_equal(x.verdict.cause.text, "a");
    assert_string_equal(y.verdict.cause.text, "a");
    assert_int_equal(x.verdict.at_ms, 9); /* as fresh as the freshest */
    assert_int_equal(y.verdict.at_ms, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(the_order_of_the_list_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
