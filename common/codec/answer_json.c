#include "common/codec/answer_json.h"

#include "common/base/units.h"
#include "common/codec/json_parse.h"
#include "common/model/directives_scope.h"

void fl_answer_json_encode(const struct fl_push_answer *a, struct fl_fmt *out)
{
    fl_fmt_printf(out, "{\"epoch\":%lld,\"seq\":%lld,\"hash\":\"%016llx\",\"observations\":[",
                  (long long)a->epoch, (long long)a->seq, (unsigned long long)a->hash);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct fl_observation *o = &a->observations[i];
        fl_fmt_text(out, i ? ",{\"backend\":\"" : "{\"backend\":\"");
        fl_fmt_json(out, fl_span_of(o->backend));
        fl_fmt_text(out, "\",\"peer\":\"");
        fl_fmt_json(out, fl_span_of(o->peer));
        fl_fmt_text(out, "\",\"code\":\"");
        fl_fmt_json(out, fl_span_of(o->cause.code));
        fl_fmt_text(out, "\",\"cause\":\"");
        fl_fmt_json(out, fl_span_of(o->cause.text));
        fl_fmt_printf(out, "\",\"since\":%lld,\"failures\":%llu,\"requests\":%llu}",
                      (long long)o->since_unix_ms, (unsigned long long)o->failures,
                      (unsigned long long)o->requests);
    }
    fl_fmt_text(out, "]}");
}

static bool number_of(const struct fl_node *map, const char *name, uint64_t *ret)
{
    const struct fl_node *n = fl_node_get(map, name);
    return n && n->kind == FL_NODE_SCALAR && !n->quoted && fl_units_uint(n->text, ret) &&
           *ret <= INT64_MAX;
}

static const char *text_of(const struct fl_node *map, const char *name, struct fl_arena *arena)
{
    const struct fl_node *n = fl_node_get(map, name);
    return n && n->kind == FL_NODE_SCALAR && n->quoted ? fl_arena_text(arena, n->text) : NULL;
}

static bool parse_hash(const struct fl_node *root, uint64_t *ret)
{
    const struct fl_node *n = fl_node_get(root, "hash");
    uint64_t v = 0;
    if (!n) {
        *ret = 0;
        return true;
    }
    for (size_t i = 0; i < n->text.len; i++) {
        char c = n->text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
        v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *ret = v;
    return n->kind == FL_NODE_SCALAR && n->text.len == 16;
}

static bool decode_one(const struct fl_node *n, struct fl_arena *arena, struct fl_observation *ret)
{
    const char *code = text_of(n, "code", arena), *cause = text_of(n, "cause", arena);
    uint64_t since = 0;
    ret->backend = text_of(n, "backend", arena);
    ret->peer = text_of(n, "peer", arena);
    bool good = code && cause && ret->backend && ret->peer && number_of(n, "since", &since) &&
                number_of(n, "failures", &ret->failures) &&
                number_of(n, "requests", &ret->requests);
    if (good) {
        fl_cause_set(&ret->cause, code, "%s", cause);
        ret->since_unix_ms = (int64_t)since;
    }
    return good;
}

static bool decode(const struct fl_node *root, struct fl_arena *arena, struct fl_push_answer *ret,
                   struct fl_findings *f)
{
    const struct fl_node *list = fl_node_get(root, "observations");
    uint64_t epoch, seq;
    size_t count = 0;
    if (!number_of(root, "epoch", &epoch) || !number_of(root, "seq", &seq) ||
        !parse_hash(root, &ret->hash) || (list && list->kind != FL_NODE_LIST)) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0,
                        "this is not the answer to a push: epoch, seq and hash");
        return false;
    }
    for (const struct fl_node *i = list ? list->first : NULL; i; i = i->next) {
        count++;
    }
    struct fl_observation *items = fl_arena_array(arena, count, sizeof(*items));
    ret->count = 0;
    for (const struct fl_node *i = items && list ? list->first : NULL; i; i = i->next) {
        if (!decode_one(i, arena, &items[ret->count])) {
            fl_findings_add(f, FL_SEVERITY_ERROR, 0,
                            "observations[%u]: a member is missing or not of its type", ret->count);
            return false;
        }
        ret->count++;
    }
    ret->epoch = (int64_t)epoch;
    ret->seq = (int64_t)seq;
    ret->observations = items;
    return items != NULL;
}

bool fl_answer_json_decode(struct fl_span body, struct fl_arena *arena, struct fl_push_answer *ret,
                           struct fl_findings *f)
{
    struct fl_arena tree;
    struct fl_push_answer made = {0};
    fl_arena_init(&tree, (size_t)32 << 20);
    const struct fl_node *root = fl_json_parse(body, &tree, f);
    bool good = root && decode(root, arena, &made, f);
    fl_arena_done(&tree);
    if (good) {
        *ret = made;
    }
    return good;
}
