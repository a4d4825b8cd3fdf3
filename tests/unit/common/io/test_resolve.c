#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "common/io/resolve.h"
#include "common/io/resolve_srv.h"

struct answer {
    struct fl_resolver *rs;
    int calls, err, count;
    struct fl_addr addrs[FL_RESOLVE_MAX];
    bool frees;
};

static void on_answer(void *arg, int err, const struct fl_addr *addrs, int count)
{
    struct answer *a = arg;
    a->calls++;
    a->err = err;
    a->count = count;
    for (int i = 0; i < count; i++) {
        a->addrs[i] = addrs[i];
    }
    if (a->frees) {
        a->rs = fl_resolver_free(a->rs);
    }
}

static void wait_for(struct fl_reactor *r, const struct answer *a)
{
    int64_t until = fl_reactor_now_ms(r) + 10000;
    while (a->calls == 0 && fl_reactor_now_ms(r) < until) {
        fl_reactor_turn(r, 100);
    }
    assert_int_equal(a->calls, 1);
}

static void test_localhost(void **state)
{
    (void)state;
    struct fl_reactor *r;
    static struct answer a, literal, bad;
    assert_int_equal(fl_reactor_new(&r), 0);
    assert_int_equal(fl_resolver_new(r, &a.rs), 0);
    assert_int_equal(fl_resolver_ask(a.rs, "localhost", 9000, on_answer, &a), 0);
    assert_int_equal(fl_resolver_ask(a.rs, "10.1.2.3", 80, on_answer, &literal), 0);
    assert_int_equal(fl_resolver_ask(a.rs, "no..name", 80, on_answer, &bad), 0);
    assert_int_equal(a.calls, 0); /* never from within ask */
    wait_for(r, &a);
    assert_int_equal(a.err, 0);
    assert_true(a.count >= 1);
    for (int i = 0; i < a.count; i++) {
        assert_true(fl_addr_is_loopback(&a.addrs[i]));
        assert_int_equal(a.addrs[i].port, 9000);
        for (int k = 0; k < i; k++) {
            assert_false(fl_addr_eq(&a.addrs[i], &a.addrs[k]));
            assert_true(a.addrs[k].family <= a.addrs[i].family);
        }
    }
    wait_for(r, &literal);
    assert_int_equal(literal.count, 1);
    assert_int_equal(literal.addrs[0].ip[3], 3);
    wait_for(r, &bad);
    assert_int_not_equal(bad.err, 0);
    assert_int_equal(bad.count, 0);
    assert_non_null(gai_strerror(bad.err));
    char longer[300];
    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(fl_resolver_ask(a.rs, longer, 1, on_answer, &bad), -ENAMETOOLONG);
    fl_resolver_free(a.rs);
    fl_reactor_free(r);
}

/* Pending answers are never delivered, whether the look-up waits, runs or is done. */
static void test_free_with_pending(void **state)
{
    (void)state;
    struct fl_reactor *r;
    assert_int_equal(fl_reactor_new(&r), 0);
    struct answer a = {0};
    for (int round = 0; round < 20; round++) {
        assert_int_equal(fl_resolver_new(r, &a.rs), 0);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(fl_resolver_ask(a.rs, "localhost", 1, on_answer, &a), 0);
        }
        if (round % 2) {
            usleep(1000);
        }
        assert_null(fl_resolver_free(a.rs));
        fl_reactor_turn(r, 0);
    }
    assert_int_equal(a.calls, 0);
    assert_int_equal(fl_resolver_new(r, &a.rs), 0);
    assert_null(fl_resolver_free(a.rs)); /* nothing was ever asked */
    assert_null(fl_resolver_free(NULL));
    fl_reactor_free(r);
}

static void test_free_from_answer(void **state)
{
    (void)state;
    struct fl_reactor *r;
    struct answer a = {.frees = true};
    assert_int_equal(fl_reactor_new(&r), 0);
    assert_int_equal(fl_resolver_new(r, &a.rs), 0);
    assert_int_equal(fl_resolver_ask(a.rs, "127.0.0.1", 1, on_answer, &a), 0);
    assert_int_equal(fl_resolver_ask(a.rs, "127.0.0.2", 1, on_answer, &a), 0);
    usleep(100000); /* both are answered: the first one to be delivered ends it for the second */
    wait_for(r, &a);
    fl_reactor_turn(r, 50);
    assert_int_equal(a.calls, 1);
    assert_null(a.rs);
    fl_reactor_free(r);
}

/* id 1, answer, 1 question, 3 answers (CNAME, SRV, SRV with a compressed target), 1 additional that
 * is not looked at */
static const uint8_t packet[] =
    "\x00\x01\x81\x80\x00\x01\x00\x03\x00\x00\x00\x01"
    "\x03_s3\x04_tcp\x02ns\x00\x00\x21\x00\x01"
    "\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x05\x00\x04\x01x\xc0\x15"
    "\xc0\x0c\x00\x21\x00\x01\x00\x00\x00\x05\x00\x0d\x00\x00\x00\x64\x23\x28\x02p0\x02ns\x00"
    "\xc0\x0c\x00\x21\x00\x01\x00\x00\x00\x05\x00\x0b\x00\x00\x00\x64\x23\x29\x02p1\xc0\x15"
    "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x01\x02\x03\x04";

static void test_srv_packet(void **state)
{
    (void)state;
    struct fl_srv srv[8];
    const size_t len = sizeof(packet) - 1;
    assert_int_equal(fl_resolve_srv(packet, len, srv, 8), 2);
    assert_int_equal(srv[0].port, 9000);
    assert_string_equal(srv[0].target, "p0.ns");
    assert_int_equal(srv[1].port, 9001);
    assert_string_equal(srv[1].target, "p1.ns");
    assert_int_equal(fl_resolve_srv(packet, len, srv, 1), 1);
    for (size_t cut = 0; cut < len - 16; cut++) { /* torn anywhere before the additional record */
        uint8_t *copy = test_malloc(cut + 1);     /* exact size, so that ASan sees a read beyond */
        memcpy(copy, packet, cut);
        assert_int_equal(fl_resolve_srv(copy, cut, srv, 8), -EBADMSG);
        test_free(copy);
    }
    for (size_t i = 0; i < len;
         i++) { /* every byte damaged: any answer but a crash or an overrun */
        uint8_t copy[sizeof(packet)];
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(copy, packet, sizeof(packet));
            copy[i] ^= (uint8_t)(1u << bit);
            assert_true(fl_resolve_srv(copy, len, srv, 8) <= 3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_localhost),
        cmocka_unit_test(test_free_with_pending),
        cmocka_unit_test(test_free_from_answer),
        cmocka_unit_test(test_srv_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
