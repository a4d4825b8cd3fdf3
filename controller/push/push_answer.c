#include "controller/push/push_answer.h"

#include <errno.h>
#include <string.h>

#include "controller/codec/json_walk.h"

enum { EPOCH = 1, SEQ = 2, PAIR = EPOCH | SEQ };
enum { SINCE = 1, FAILURES = 2, REQUESTS = 4, BACKEND = 8, PEER = 16, CODE = 32, CAUSE = 64 };
enum { WHOLE = SINCE | FAILURES | REQUESTS | BACKEND | PEER | CODE | CAUSE };

static bool is(struct fl_span key, const char *name)
{
    return fl_span_eq(key, fl_span_of(name));
}

/* A whole number that is not negative; the bit, or 0 for null. */
static unsigned take_number(struct fl_json_walk *w, unsigned bit, int64_t *to)
{
    bool given = fl_json_walk_given(w);
    *to = fl_json_walk_int(w);
    if (*to < 0) {
        fl_json_walk_fail(w, -EBADMSG);
    }
    return given ? bit : 0;
}

static unsigned take_text(struct fl_json_walk *w, unsigned bit, struct fl_span *to)
{
    bool given = fl_json_walk_given(w);
    *to = fl_json_walk_raw(w);
    return given ? bit : 0;
}

static void take_hash(struct fl_json_walk *w, uint64_t *to)
{
    if (!fl_json_walk_given(w)) {
        fl_json_walk_skip(w);
        return;
    }
    struct fl_span text = fl_json_walk_raw(w);
    uint64_t v = 0;
    bool good = text.len == 16;
    for (size_t i = 0; good && i < text.len; i++) {
        char c = text.ptr[i];
        good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *to = v;
    if (!good) {
        fl_json_walk_fail(w, -EBADMSG);
    }
}

struct texts { /* of one observation, as they stand there */
    struct fl_span backend, peer, code, cause;
};

/* *ret has the numbers. */
static void take_observation(struct fl_json_walk *w, struct texts *t, struct fl_observation *ret)
{
    struct fl_span key;
    unsigned seen = 0;
    int64_t failures = 0, requests = 0;
    if (!fl_json_walk_object(w)) {
        fl_json_walk_fail(w, -EBADMSG);
    }
    while (fl_json_walk_member(w, &key)) {
        if (is(key, "backend")) {
            seen |= take_text(w, BACKEND, &t->backend);
        } else if (is(key, "peer")) {
            seen |= take_text(w, PEER, &t->peer);
        } else if (is(key, "code")) {
            seen |= take_text(w, CODE, &t->code);
        } else if (is(key, "cause")) {
            seen |= take_text(w, CAUSE, &t->cause);
        } else if (is(key, "since")) {
            seen |= take_number(w, SINCE, &ret->since_unix_ms);
        } else if (is(key, "failures")) {
            seen |= take_number(w, FAILURES, &failures);
        } else if (is(key, "requests")) {
            seen |= take_number(w, REQUESTS, &requests);
        } else {
            fl_json_walk_skip(w);
        }
    }
    ret->failures = (uint64_t)failures;
    ret->requests = (uint64_t)requests;
    if (seen != WHOLE) {
        fl_json_walk_fail(w, -EBADMSG);
    }
}

static const char *text_of(struct fl_json_walk *w, struct fl_span raw)
{
    return raw.len > 0 ? fl_json_walk_unescape(w, raw) : "";
}

static void keep(struct fl_json_walk *w, const struct texts *t, struct fl_observation *to)
{
    to->backend = text_of(w, t->backend);
    to->peer = text_of(w, t->peer);
    fl_cause_set(&to->cause, text_of(w, t->code), "%s", text_of(w, t->cause));
}

static void take_observations(struct fl_json_walk *w, struct fl_push_answer *ret)
{
    uint32_t room = fl_json_walk_count(w);
    struct fl_observation *items = fl_json_walk_room(w, room, sizeof(*items));
    ret->observations = items;
    if (!fl_json_walk_list(w)) {
        return;
    }
    while (fl_json_walk_element(w) && ret->count < room) {
        struct texts t = {0};
        take_observation(w, &t, &items[ret->count]);
        keep(w, &t, &items[ret->count++]);
    }
}

static bool read_answer(struct fl_span body, struct fl_arena *arena, struct fl_push_answer *ret)
{
    struct fl_json_walk w = fl_json_walk_of(body, arena);
    struct fl_push_answer made = {0};
    struct fl_span key;
    unsigned seen = 0;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            if (is(key, "epoch")) {
                seen |= take_number(&w, EPOCH, &made.epoch);
            } else if (is(key, "seq")) {
                seen |= take_number(&w, SEQ, &made.seq);
            } else if (is(key, "hash")) {
                take_hash(&w, &made.hash);
            } else if (is(key, "observations") && arena != NULL) {
                take_observations(&w, &made);
            } else {
                fl_json_walk_skip(&w);
            }
        }
    }
    if (fl_json_walk_end(&w) < 0 || seen != PAIR) {
        return false;
    }
    *ret = made;
    return true;
}

bool fl_push_answer_read(struct fl_span body, struct fl_push_answer *ret)
{
    return read_answer(body, NULL, ret);
}

bool fl_push_answer_read_all(struct fl_span body, struct fl_arena *arena,
                             struct fl_push_answer *ret)
{
    return read_answer(body, arena, ret);
}
