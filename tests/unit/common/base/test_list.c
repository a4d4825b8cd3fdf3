#include "common/base/list.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int value;
    struct fl_list link;
};

static int at(struct fl_list *l)
{
    return fl_container_of(l, struct item, link)->value;
}

static void push_is_lifo_and_append_fifo(void **state)
{
    (void)state;
    struct item one = {.value = 1}, two = {.value = 2}, three = {.value = 3};
    struct fl_list head;
    fl_list_init(&head);
    assert_true(fl_list_empty(&head));
    assert_null(fl_list_first(&head));
    assert_null(fl_list_last(&head));

    fl_list_push(&head, &one.link);
    fl_list_push(&head, &two.link);
    fl_list_append(&head, &three.link);
    assert_false(fl_list_empty(&head));
    assert_int_equal(at(fl_list_first(&head)), 2);
    assert_int_equal(at(fl_list_last(&head)), 3);

    int seen = 0;
    fl_list_each (it, &head) {
        seen = seen * 10 + at(it);
    }
    assert_int_equal(seen, 213);
}

static void removal_during_a_walk_and_twice(void **state)
{
    (void)state;
    struct item items[5];
    struct fl_list head;
    fl_list_init(&head);
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        fl_list_append(&head, &items[i].link);
    }
    fl_list_each_safe (it, tmp, &head) {
        if (at(it) % 2 == 0) {
            fl_list_remove(it);
        }
    }
    int seen = 0;
    fl_list_each (it, &head) {
        seen = seen * 10 + at(it);
    }
    assert_int_equal(seen, 13);
    fl_list_remove(&items[0].link); /* already out */
    assert_true(fl_list_empty(&items[0].link));
    fl_list_push(&head, &items[0].link);
    assert_int_equal(at(fl_list_first(&head)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(push_is_lifo_and_append_fifo),
        cmocka_unit_test(removal_during_a_walk_and_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
