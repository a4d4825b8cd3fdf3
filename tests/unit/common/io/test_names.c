/* The resolver is replaced: the test answers. */
#include "common/io/names.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/io/resolve.h"

struct fl_resolver {
    int unused;
};
static struct fl_resolver the_resolver;
static struct {
    char host[64];
    uint16_t port;
    fl_resolve_fn *done;
    void *arg;
} asked[16];
static unsigned ask_count;
static int ask_rc;

int fl_resolver_new(struct fl_reactor *r, struct fl_resolver **ret)
{
    (void)r;
    *ret = &the_resolver;
    return 0;
}

struct fl_resolver *fl_resolver_free(struct fl_resolver *rs)
{
    (void)rs;
    return NULL;
}

int fl_resolver_ask(struct fl_resolver *rs, const char *host, uint16_t port, fl_resolve_fn *done,
                    void *arg)
{
    (void)rs;
    if (ask_rc < 0) {
        return ask_rc;
    }
    assert_true(ask_count < 16);
    (void)snprintf(asked[ask_count].host, sizeof(asked[0].host), "%s", host);
    asked[ask_count].port = port;
    asked[ask_count].done = done;
    asked[ask_count++].arg = arg;
    return 0;
}

static struct fl_reactor *reactor;
static struct fl_names *names;
static unsigned changes;

static void changed(void *arg)
{
    (void)arg;
    changes++;
}

static int set_up(void **state)
{
    (void)state;
    ask_count = changes = 0;
    ask_rc = 0;
    return fl_reactor_new(&reactor) == 0 && fl_names_new(reactor, changed, NULL, &names) == 0 ? 0
                                                                                              : -1;
}

static int tear_down(void **state)
{
    (void)state;
    names = fl_names_free(names);
    reactor = fl_reactor_free(reactor);
    return 0;
}

static void answer(unsigned i, int err, const char *const *texts, int count)
{
    struct fl_addr addrs[4];
    for (int k = 0; k < count; k++) {
        assert_true(fl_addr_parse(fl_span_of(texts[k]), &addrs[k]));
    }
    asked[i].done(asked[i].arg, err, addrs, count);
}

static struct fl_name_answer want(const char *host)
{
    struct fl_name_answer a = {0};
    fl_names_begin(names);
    assert_true(fl_names_want(names, fl_span_of(host), 9000, &a));
    fl_names_end(names);
    return a;
}

static void several_addresses_and_fail_static(void **state)
{
    (void)state;
    struct fl_name_answer a = want("store");
    assert_false(a.asked);
    assert_int_equal(ask_count, 1);
    assert_string_equal(asked[0].host, "store");
    assert_int_equal(asked[0].port, 9000);
    assert_int_equal(fl_names_unanswered(names), 1);
    answer(0, 0, (const char *const[]){"10.0.0.1:9000", "10.0.0.2:9000"}, 2);
    assert_int_equal(changes, 1);
    assert_int_equal(fl_names_unanswered(names), 0);
    a = want("store");
    assert_int_equal(a.count, 2);
    assert_int_equal(ask_count, 1); /* known: not asked again at once */
    /* the same once more says nothing new; a failure keeps what is known */
    answer(0, 0, (const char *const[]){"10.0.0.1:9000", "10.0.0.2:9000"}, 2);
    answer(0, EAI_AGAIN, NULL, 0);
    answer(0, 0, NULL, 0);
    assert_int_equal(changes, 1);
    a = want("store");
    assert_int_equal(a.count, 2);
    assert_int_equal(a.err, 0);
    answer(0, EAI_NONAME, NULL, 0);
    assert_int_equal(want("store").err, EAI_NONAME);
    answer(0, 0, (const char *const[]){"10.0.0.3:9000"}, 1);
    assert_int_equal(changes, 2);
    a = want("store");
    assert_int_equal(a.count, 1);
    assert_int_equal(a.addrs[0].ip[3], 3);
}

static void a_first_failure_is_told_and_asked_again(void **state)
{
    (void)state;
    (void)want("gone");
    answer(0, EAI_NONAME, NULL, 0);
    assert_int_equal(changes, 1);
    struct fl_name_answer a = want("gone");
    assert_true(a.asked);
    assert_int_equal(a.count, 0);
    int64_t start_ms = fl_reactor_now_ms(reactor);
    while (ask_count < 2 && fl_reactor_now_ms(reactor) - start_ms < 3000) {
        fl_reactor_turn(reactor, 100);
    }
    assert_int_equal(ask_count, 2);
    assert_in_range(fl_reactor_now_ms(reactor) - start_ms, 950, 1500);
    answer(1, EAI_NONAME, NULL, 0);
    assert_int_equal(changes, 1); /* nothing new */
}

static void forgotten_names_do_not_come_back(void **state)
{
    (void)state;
    (void)want("old");
    (void)want("new"); /* forgets "old", whose answer is still to come */
    assert_int_equal(ask_count, 2);
    answer(0, 0, (const char *const[]){"10.0.0.1:9000"}, 1);
    assert_int_equal(changes, 0);
    answer(1, 0, (const char *const[]){"10.0.0.2:9000"}, 1);
    assert_int_equal(changes, 1);
    assert_false(want("old").asked); /* asked afresh */
    assert_int_equal(ask_count, 3);
    /* one that is wanted again while its first answer is under way is asked twice, harmlessly */
    fl_names_begin(names);
    fl_names_end(names);
    (void)want("old");
    answer(2, 0, (const char *const[]){"10.0.0.9:9000"}, 1);
    assert_false(want("old").asked);
    answer(3, 0, (const char *const[]){"10.0.0.8:9000"}, 1);
    assert_int_equal(want("old").addrs[0].ip[3], 8);
}

static void what_another_set_knows_is_known_at_once(void **state)
{
    (void)state;
    struct fl_names *other = NULL;
    struct fl_name_answer a;
    assert_int_equal(fl_names_new(reactor, changed, NULL, &other), 0);
    fl_names_begin(other);
    assert_true(fl_names_want(other, FL_SPAN("store"), 9000, &a));
    assert_true(fl_names_want(other, FL_SPAN("gone"), 9000, &a));
    fl_names_end(other);
    answer(0, 0, (const char *const[]){"10.0.0.1:9000", "10.0.0.2:9000"}, 2);
    answer(1, EAI_NONAME, NULL, 0);
    assert_int_equal(ask_count, 2);
    fl_names_learn(names, other);
    a = want("store");
    assert_true(a.asked);
    assert_int_equal(a.count, 2);
    assert_int_equal(ask_count, 2);
    assert_false(want("gone").asked); /* where it failed, it is asked here, too */
    assert_int_equal(ask_count, 3);
    fl_names_learn(names, NULL);
    assert_false(want("store").asked); /* forgotten meanwhile, and nobody to learn from */
    assert_int_equal(ask_count, 4);
    fl_names_free(other);
}

static void what_cannot_be_asked(void **state)
{
    (void)state;
    struct fl_name_answer a;
    char long_name[300];
    memset(long_name, 'a', sizeof(long_name));
    fl_names_begin(names);
    assert_false(fl_names_want(names, (struct fl_span){long_name, sizeof(long_name)}, 1, &a));
    assert_false(fl_names_want(names, (struct fl_span){0}, 1, &a));
    ask_rc = -EAGAIN; /* no thread to be had: planned for later */
    assert_true(fl_names_want(names, FL_SPAN("store"), 1, &a));
    assert_false(a.asked);
    fl_names_end(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_addresses_and_fail_static, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_first_failure_is_told_and_asked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forgotten_names_do_not_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_another_set_knows_is_known_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_asked, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
