/* A Lease from anywhere: what is read is bounded, and what replaces it is read back as it was
 * meant, with everything else as it stood. The same bytes as an access review: an answer, or none.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/arena.h"
#include "controller/codec/lease_json.h"
#include "controller/codec/review_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_replace(struct fl_span json, const struct fl_lease_record *old)
{
    const struct fl_lease_record ours = {.holder = "me \"1\"",
                                         .duration_s = 15,
                                         .transitions = 7,
                                         .acquire_us = 1,
                                         .renew_us = INT64_C(1796030507000123)};
    struct fl_lease_record back;
    struct fl_span made, again;
    struct fl_arena a;
    fl_arena_init(&a, (size_t)64 << 20);
    FL_MUST(fl_lease_json_replace(json, &ours, &a, &made) == 0);
    FL_MUST(fl_lease_json_decode(made, &back) == 0);
    FL_MUST(strcmp(back.holder, ours.holder) == 0 && back.duration_s == ours.duration_s &&
            back.transitions == ours.transitions && back.acquire_us == ours.acquire_us &&
            back.renew_us == ours.renew_us);
    FL_MUST(strcmp(back.uid, old->uid) == 0 && back.version == old->version);
    FL_MUST(fl_lease_json_replace(made, &ours, &a, &again) == 0 && fl_span_eq(made, again));
    fl_arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fl_span json = {(const char *)data, size};
    struct fl_lease_record r = {.transitions = 77};
    bool allowed = false;
    if (fl_lease_json_decode(json, &r) == 0) {
        FL_MUST(memchr(r.holder, '\0', sizeof(r.holder)) != NULL && r.version >= 0);
        must_replace(json, &r);
    } else {
        FL_MUST(r.transitions == 77);
    }
    FL_MUST(fl_review_json_decode(json, &allowed) == 0 || !allowed);
    return 0;
}
