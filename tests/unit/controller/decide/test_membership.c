#include "controller/decide/membership.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "controller/decide/slices.h"

static void either_source_answers_through_the_same_door(void **state)
{
    (void)state;
    struct fl_service_port ports[] = {{"s3", 9000}};
    struct fl_service_endpoint endpoints[] = {{"10.0.0.1", "", true, true, false}};
    struct fl_service services[] = {{"storage", "minio", ports, 1, endpoints, 1}};
    struct fl_services document = {.items = services, .count = 1};
    struct fl_kube_slice_port port = {"s3", 9000};
    struct fl_kube_endpoint endpoint = {.address = "10.0.0.1", .target_uid = "", .zone = ""};
    struct fl_kube_slice slice = {.meta = {"storage", "minio-1", "", ""},
                                  .service = "minio",
                                  .family = FL_ADDR_V4,
                                  .ports = &port,
                                  .port_count = 1,
                                  .endpoints = &endpoint,
                                  .endpoint_count = 1};
    struct fl_slices *slices = fl_slices_new(1);
    assert_non_null(slices);
    assert_int_equal(fl_slices_put(slices, &slice, 0), 0);
    struct fl_membership both[] = {fl_membership_of_services(&document),
                                   fl_membership_of_slices(slices)};
    struct fl_service_ref ref = {"storage", "minio", "s3"}, none = {"storage", "ceph", "s3"};
    struct fl_arena arena;
    fl_arena_init(&arena, (size_t)1 << 20);
    for (unsigned i = 0; i < 2; i++) {
        struct fl_members m = {0};
        assert_int_equal(both[i].members(both[i].arg, &ref, &arena, &m), FL_MEMBERS_FOUND);
        assert_int_equal(m.count, 1);
        assert_string_equal(m.peers[0].address, "10.0.0.1:9000");
        assert_int_equal(both[i].members(both[i].arg, &none, &arena, &m), FL_MEMBERS_NO_SERVICE);
    }
    fl_arena_done(&arena);
    fl_slices_free(slices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_source_answers_through_the_same_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
