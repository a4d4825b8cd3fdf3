#include "tests/support/origin_ledger.h"

#include <inttypes.h>
#include <stdlib.h>

struct fl_origin_ledger {
    size_t max;
    uint64_t last_seq, last_id, cleared_seq, cleared_id;
    struct fl_origin_entry *entries; /* at seq % max */
    struct fl_origin_visit *visits;  /* at id % max */
};

struct fl_origin_ledger *fl_origin_ledger_new(size_t max_entries)
{
    struct fl_origin_ledger *l = calloc(1, sizeof(*l));
    if (l) {
        l->max = max_entries;
        l->entries = calloc(max_entries, sizeof(*l->entries));
        l->visits = calloc(max_entries, sizeof(*l->visits));
    }
    if (!l || !l->entries || !l->visits) {
        abort();
    }
    return l;
}

static void drop_entry(struct fl_origin_entry *e)
{
    free(e->head);
    free(e->trailers);
    free(e->body_start);
    free(e->rule);
    *e = (struct fl_origin_entry){0};
}

void fl_origin_ledger_clear(struct fl_origin_ledger *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->max;
         i++) { /* what is still open stays: its end is yet to be written */
        if (l->entries[i].end_us) {
            drop_entry(&l->entries[i]);
        }
        if (l->visits[i].end_us) {
            l->visits[i] = (struct fl_origin_visit){0};
        }
    }
    l->cleared_seq = l->last_seq;
    l->cleared_id = l->last_id;
}

struct fl_origin_ledger *fl_origin_ledger_free(struct fl_origin_ledger *l)
{
    for (size_t i = 0; l && i < l->max; i++) {
        drop_entry(&l->entries[i]);
    }
    if (l) {
        free(l->entries);
        free(l->visits);
        free(l);
    }
    return NULL;
}

struct fl_origin_entry *fl_origin_ledger_open(struct fl_origin_ledger *l, uint64_t seq)
{
    if (!l) {
        return NULL;
    }
    struct fl_origin_entry *e = &l->entries[seq % l->max];
    drop_entry(e);
    e->seq = seq;
    l->last_seq = seq;
    return e;
}

struct fl_origin_entry *fl_origin_ledger_entry(struct fl_origin_ledger *l, uint64_t seq)
{
    struct fl_origin_entry *e = l && seq ? &l->entries[seq % l->max] : NULL;
    return e && e->seq == seq ? e : NULL;
}

struct fl_origin_visit *fl_origin_ledger_arrive(struct fl_origin_ledger *l, uint64_t id)
{
    if (!l) {
        return NULL;
    }
    struct fl_origin_visit *v = &l->visits[id % l->max];
    *v = (struct fl_origin_visit){.id = id};
    l->last_id = id;
    return v;
}

struct fl_origin_visit *fl_origin_ledger_visit(struct fl_origin_ledger *l, uint64_t id)
{
    struct fl_origin_visit *v = l && id ? &l->visits[id % l->max] : NULL;
    return v && v->id == id ? v : NULL;
}

static void print_entry(const struct fl_origin_entry *e, struct fl_origin_buf *out)
{
    fl_origin_buf_printf(
        out,
        "{\"seq\":%" PRIu64 ",\"conn\":%" PRIu64 ",\"ordinal\":%" PRIu64 ",\"at_us\":%" PRId64
        ",\"end_us\":%" PRId64 ",\"body_bytes\":%" PRIu64 ",\"complete\":%s,\"status\":%d"
        ",\"sent_bytes\":%" PRIu64 ",\"end\":\"%s\",\"sha256\":\"",
        e->seq, e->conn, e->ordinal, e->at_us, e->end_us, e->body_bytes,
        e->complete ? "true" : "false", e->status, e->sent_bytes, e->end ? e->end : "open");
    if (e->has_sha256) {
        fl_origin_buf_hex(out, e->sha256, sizeof(e->sha256));
    }
    fl_origin_buf_text(out, "\",\"rule\":");
    fl_origin_buf_json(out, fl_span_of(e->rule));
    fl_origin_buf_text(out, ",\"head\":");
    fl_origin_buf_base64(out, (struct fl_span){e->head, e->head_len});
    fl_origin_buf_text(out, ",\"trailers\":");
    fl_origin_buf_base64(out, (struct fl_span){e->trailers, e->trailers_len});
    fl_origin_buf_text(out, ",\"body_start\":");
    fl_origin_buf_base64(out, (struct fl_span){e->body_start, e->body_start_len});
    fl_origin_buf_text(out, "}");
}

static void print_visit(const struct fl_origin_visit *v, struct fl_origin_buf *out)
{
    fl_origin_buf_printf(out,
                         "{\"id\":%" PRIu64 ",\"at_us\":%" PRId64 ",\"end_us\":%" PRId64
                         ",\"requests\":%" PRIu64 ",\"bytes_in\":%" PRIu64
                         ",\"late_bytes\":%" PRIu64 ",\"end\":\"%s\",\"peer\":\"%s\"}",
                         v->id, v->at_us, v->end_us, v->requests, v->bytes_in, v->late_bytes,
                         v->end ? v->end : "open", v->peer);
}

void fl_origin_ledger_print(const struct fl_origin_ledger *l, uint64_t since,
                            struct fl_origin_buf *out)
{
    const char *comma = "";
    fl_origin_buf_text(out, "\"requests\":[");
    uint64_t first = since > l->cleared_seq ? since : l->cleared_seq;
    uint64_t oldest = l->last_seq > l->max ? l->last_seq - l->max : 0;
    for (uint64_t seq = (first > oldest ? first : oldest) + 1; seq <= l->last_seq; seq++) {
        if (l->entries[seq % l->max].seq == seq) {
            fl_origin_buf_text(out, comma);
            print_entry(&l->entries[seq % l->max], out);
            comma = ",\n";
        }
    }
    comma = "";
    fl_origin_buf_text(out, "],\"connections\":[");
    oldest = l->last_id > l->max ? l->last_id - l->max : 0;
    for (uint64_t id = (l->cleared_id > oldest ? l->cleared_id : oldest) + 1; id <= l->last_id;
         id++) {
        if (l->visits[id % l->max].id == id) {
            fl_origin_buf_text(out, comma);
            print_visit(&l->visits[id % l->max], out);
            comma = ",\n";
        }
    }
    fl_origin_buf_printf(out, "],\"next\":%" PRIu64 ",\"dropped\":%s", l->last_seq,
                         l->last_seq - l->cleared_seq > l->max ? "true" : "false");
}
