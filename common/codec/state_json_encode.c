#include "common/codec/state_json.h"

#include <stdlib.h>

#include "common/model/directives_show.h"

static void text_member(struct fl_fmt *out, const char *name, const char *text)
{
    fl_fmt_char(out, '"');
    fl_fmt_text(out, name);
    fl_fmt_text(out, "\":\"");
    fl_fmt_json(out, fl_span_of(text));
    fl_fmt_char(out, '"');
}

static void name_member(struct fl_fmt *out, const char *comma, const char *name)
{
    fl_fmt_text(out, comma);
    fl_fmt_char(out, '"');
    fl_fmt_json(out, fl_span_of(name));
    fl_fmt_text(out, "\":");
}

static void encode_route(const struct fl_route_conf *r, struct fl_fmt *out)
{
    fl_fmt_char(out, '{');
    if (r->invalid[0]) {
        text_member(out, "invalid", r->invalid);
    } else {
        fl_show_given(FL_SCOPE_ROUTE, r, out);
    }
    fl_fmt_char(out, '}');
}

static void encode_verdicts(const struct fl_state_backend *b, struct fl_fmt *out)
{
    for (uint32_t i = 0; i < b->verdict_count; i++) {
        const struct fl_state_verdict *v = &b->verdicts[i];
        name_member(out, i ? "," : "", v->address);
        fl_fmt_char(out, '{');
        text_member(out, "status", fl_verdict_status_name(v->status));
        fl_fmt_char(out, ',');
        text_member(out, "code", v->cause.code);
        fl_fmt_char(out, ',');
        text_member(out, "cause", v->cause.text);
        fl_fmt_char(out, ',');
        text_member(out, "step", v->step);
        fl_fmt_text(out, ",\"age_ms\":");
        fl_fmt_int(out, v->age_ms);
        fl_fmt_char(out, '}');
    }
}

static void encode_backend(const struct fl_state_backend *b, bool verdicts, struct fl_fmt *out)
{
    bool more = false;
    fl_fmt_char(out, '{');
    if (b->owns) {
        more = fl_show_given(FL_SCOPE_BACKEND, &b->conf, out);
        if (!more) { /* or it would look like members for somebody else's backend */
            text_member(out, "protocol", b->conf.protocol == FL_PROTOCOL_HTTP ? "http" : "s3");
            more = true;
        }
    }
    if (b->has_peers) {
        fl_fmt_text(out, more ? ",\"peers\":[" : "\"peers\":[");
        for (uint32_t i = 0; i < b->conf.peer_count; i++) {
            fl_fmt_text(out, i ? ",{" : "{");
            fl_show_given(FL_SCOPE_PEER, &b->conf.peers[i], out);
            fl_fmt_char(out, '}');
        }
        fl_fmt_char(out, ']');
        more = true;
    }
    if (verdicts && b->verdict_count > 0) {
        fl_fmt_text(out, more ? ",\"verdicts\":{" : "\"verdicts\":{");
        encode_verdicts(b, out);
        fl_fmt_char(out, '}');
    }
    fl_fmt_char(out, '}');
}

static void encode_set(const struct fl_state *s, bool verdicts, struct fl_fmt *out)
{
    fl_fmt_text(out, "\"routes\":{");
    for (uint32_t i = 0; i < s->route_count; i++) {
        name_member(out, i ? "," : "", s->routes[i].bucket);
        encode_route(&s->routes[i], out);
    }
    fl_fmt_text(out, "},\"backends\":{");
    for (uint32_t i = 0; i < s->backend_count; i++) {
        name_member(out, i ? "," : "", s->backends[i].name);
        encode_backend(&s->backends[i], verdicts, out);
    }
    fl_fmt_char(out, '}');
}

void fl_state_json_encode(const struct fl_state *s, struct fl_fmt *out)
{
    fl_fmt_printf(out, "{\"epoch\":%lld,\"seq\":%lld,", (long long)s->epoch, (long long)s->seq);
    encode_set(s, true, out);
    for (uint32_t i = 0; i < s->keys.count; i++) {
        fl_fmt_text(out, i ? "," : ",\"keys\":[");
        fl_fmt_char(out, '"');
        fl_fmt_json(out, fl_span_of(s->keys.items[i]));
        fl_fmt_char(out, '"');
    }
    fl_fmt_text(out, s->keys.count ? "]}" : "}");
}

static void write_state(const void *what, struct fl_fmt *out)
{
    fl_state_json_encode(what, out);
}

static void write_set(const void *what, struct fl_fmt *out)
{
    encode_set(what, false, out);
}

/* Room that will mostly do, so that what a thousand sidecars wait for is written once. */
static size_t about(const struct fl_state *s, bool verdicts)
{
    size_t n = 1024 + (size_t)s->route_count * 256 + (size_t)s->keys.count * 256;
    for (uint32_t i = 0; i < s->backend_count; i++) {
        n += 1024 + (size_t)s->backends[i].conf.peer_count * 96;
        n += verdicts ? (size_t)s->backends[i].verdict_count * 192 : 0;
    }
    return n;
}

char *fl_state_json_text(const struct fl_state *s, size_t *ret_len)
{
    char *text = fl_show_grown(write_state, s, about(s, true), ret_len);
    char *fits = text != NULL ? realloc(text, *ret_len + 1) : NULL;
    return fits != NULL ? fits : text;
}

uint64_t fl_state_json_hash(const struct fl_state *s)
{
    return fl_show_hash_of(write_set, s, about(s, false));
}
