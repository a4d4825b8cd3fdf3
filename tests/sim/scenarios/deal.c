#include "tests/sim/scenarios/deal.h"

#include "tests/sim/scenarios/bed.h"
#include "tests/sim/scenarios/origin.h"

struct deal *deal_new(struct bed *bed, const char *method, const char *target)
{
    struct deal *d = calloc(1, sizeof *d);
    FL_MUST(d != NULL);
    if (bed->deal_count == bed->deal_cap) {
        bed->deal_cap = bed->deal_cap ? bed->deal_cap * 2 : 64;
        bed->deals = realloc(bed->deals, bed->deal_cap * sizeof(struct deal *));
        FL_MUST(bed->deals != NULL);
    }
    d->bed = bed;
    d->number = bed->deal_count;
    d->method = method;
    d->target = target;
    snprintf(d->id, sizeof d->id, "deal-%u", d->number);
    bed->deals[bed->deal_count++] = d;
    return d;
}

void deal_free(struct deal *d)
{
    blob_done(&d->reply);
    free(d);
}

struct deal *deal_find(struct bed *bed, const char *id, size_t len)
{
    if (len < 6 || len > 15 || memcmp(id, "deal-", 5) != 0) {
        return NULL;
    }
    unsigned number = 0;
    for (size_t i = 5; i < len; i++) {
        if (id[i] < '0' || id[i] > '9') {
            return NULL;
        }
        number = number * 10 + (unsigned)(id[i] - '0');
    }
    return number < bed->deal_count ? bed->deals[number] : NULL;
}

const struct plan *deal_plan(const struct deal *d, unsigned nth)
{
    static const struct plan plain;
    if (d->plan_count == 0) {
        return &plain;
    }
    return &d->plans[nth < d->plan_count ? nth : d->plan_count - 1];
}

bool deal_is_head(const struct deal *d)
{
    return strcmp(d->method, "HEAD") == 0;
}

/* ---- bodies ---- */

static char made(uint32_t key, uint64_t i)
{
    return (char)('0' + (key + i * 7 + (i >> 6)) % 75);
}

uint32_t deal_request_key(const struct deal *d)
{
    return d->number * 13 + 5;
}

uint32_t deal_answer_key(unsigned serial)
{
    return serial * 31 + 11;
}

void deal_make(struct blob *out, uint32_t key, uint64_t from, size_t n)
{
    char *at = blob_room(out, n);
    for (size_t i = 0; i < n; i++) {
        at[i] = made(key, from + i);
    }
    out->len += n;
}

bool deal_same(const char *bytes, uint32_t key, uint64_t from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != made(key, from + i)) {
            return false;
        }
    }
    return true;
}

/* ---- the request in wire form ---- */

/* Some requests name a hop-by-hop field of their own, so that the head is forwarded in pieces. */
static bool has_hop(const struct deal *d)
{
    return d->number % 3 == 1;
}

void deal_head(const struct deal *d, struct blob *out)
{
    blob_text(out, d->method);
    blob_text(out, " ");
    blob_text(out, d->target);
    blob_text(out, d->http10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    blob_printf(out, "Host: store.test\r\nx-request-id: %s\r\n", d->id);
    if (has_hop(d)) {
        blob_text(out, "x-hop: not for the origin\r\n");
    }
    blob_text(out, d->fields != NULL ? d->fields : "");
    if (d->close) {
        blob_text(out, has_hop(d) ? "Connection: close, x-hop\r\n" : "Connection: close\r\n");
    } else if (has_hop(d)) {
        blob_text(out, "Connection: x-hop, keep-alive\r\n");
    } else if (d->http10) {
        blob_text(out, "Connection: keep-alive\r\n");
    }
    if (d->body == DEAL_LENGTH) {
        blob_printf(out, "Content-Length: %u\r\n", d->body_bytes);
    } else if (d->body == DEAL_CHUNKED) {
        blob_text(out, "Transfer-Encoding: chunked\r\n");
    }
    if (d->expect != DEAL_NO_EXPECT) {
        blob_text(out, "Expect: 100-continue\r\n");
    }
    blob_text(out, "x-end: \"a  b\" ,c\r\n\r\n");
}

void deal_body_wire(const struct deal *d, struct blob *out)
{
    uint32_t key = deal_request_key(d), piece = d->chunk_bytes;
    if (d->body == DEAL_LENGTH) {
        deal_make(out, key, 0, d->body_bytes);
    }
    if (d->body != DEAL_CHUNKED) {
        return;
    }
    piece = piece == 0 || piece > d->body_bytes ? d->body_bytes : piece;
    for (uint32_t at = 0; at < d->body_bytes; at += piece) {
        uint32_t n = d->body_bytes - at < piece ? d->body_bytes - at : piece;
        blob_printf(out, d->number % 2 ? "%x\r\n" : "%X;a=b\r\n", n);
        deal_make(out, key, at, n);
        blob_text(out, "\r\n");
    }
    blob_text(out, "0\r\n");
    if (d->trailers) {
        blob_printf(out, "x-tail: %s\r\n", d->id);
    }
    blob_text(out, "\r\n");
}

/* ---- rules ---- */

static const char *const classes[] = {"S", "I", "C", "N"};

/* May a request be seen again elsewhere after this visit? Only what the origin received counts
 * here: the sidecar knows less, so it must be at least as careful. */
static bool may_follow(const struct deal *d, const struct visit *v)
{
    bool pending = v->expects && d->body != DEAL_NO_BODY && v->body_bytes == 0;
    bool refused = v->begun && (v->plan->status == 503 || v->plan->status == 429);
    switch (d->class) {
    case DEAL_S:
        return true;
    case DEAL_I:
        return !v->whole || refused || pending || d->repeats || d->bed->lifts;
    case DEAL_C:
    case DEAL_N:
        return pending || d->bed->lifts;
    }
    return false;
}

static void check_visits(const struct deal *d)
{
    for (unsigned i = 0; i + 1 < d->visit_count; i++) {
        const struct visit *v = d->visits[i];
        BED_MUST(may_follow(d, v),
                 "%s (%s %s, class %s) was repeated after origin %u had %s of it, %llu body bytes",
                 d->id, d->method, d->target, classes[d->class], v->origin->index,
                 v->whole ? "all" : "a part", (unsigned long long)v->body_bytes);
    }
    BED_MUST(d->log_lines == 0 || d->visit_count <= d->log_attempts || d->bed->log_capped,
             "%s reached origins %u times, the log knows %u attempts", d->id, d->visit_count,
             d->log_attempts);
}

static void check_answer(const struct deal *d)
{
    const struct visit *v = d->answered_by;
    if (v == NULL) {
        return;
    }
    const struct plan *p = v->plan;
    BED_MUST(v == d->visits[d->visit_count - 1],
             "%s was answered by visit %u, which was not the last", d->id, v->serial);
    bool excused =
        p->fault != PLAN_SOUND || d->abandoned || d->bed->memory_short || d->bed->impatient;
    BED_MUST(d->end != DEAL_TRUNCATED || excused,
             "%s lost its answer, though origin %u sent all of it", d->id, v->origin->index);
    uint64_t whole = p->text != NULL ? strlen(p->text) : p->body_bytes;
    whole = deal_is_head(d) || p->status == 204 || p->status == 304 ? 0 : whole;
    bool clean_cut = p->body == PLAN_UNTIL_CLOSE && p->fault == PLAN_FIN_ANSWER;
    BED_MUST(d->end != DEAL_ANSWERED || d->got_bytes == whole || clean_cut || p->raw != NULL,
             "%s got %llu body bytes of %llu as a whole answer", d->id,
             (unsigned long long)d->got_bytes, (unsigned long long)whole);
}

static void check_log(const struct deal *d)
{
    if (d->raw != NULL) {
        return;
    }
    BED_MUST(d->log_lines <= 1, "%s is in the access log %u times", d->id, d->log_lines);
    bool heard = d->end == DEAL_ANSWERED || d->end == DEAL_TRUNCATED;
    bool unread = d->log_lines == 0 && d->bed->memory_short && strcmp(d->token, "overload") == 0;
    BED_MUST(!heard || unread || d->log_lines == 1, "%s was answered and not logged", d->id);
    if (d->end != DEAL_ANSWERED || unread) {
        return;
    }
    BED_MUST(d->log_status == d->status, "%s was answered %d and logged %d", d->id, d->status,
             d->log_status);
    BED_MUST(strcmp(d->log_error, d->token) == 0, "%s was told '%s' and logged '%s'", d->id,
             d->token, d->log_error);
    BED_MUST(d->log_out == d->wire_bytes, "%s got %llu bytes, logged %llu", d->id,
             (unsigned long long)d->wire_bytes, (unsigned long long)d->log_out);
}

void deal_check(const struct deal *d)
{
    BED_MUST(d->end != DEAL_OPEN, "%s has not ended", d->id);
    check_visits(d);
    check_answer(d);
    check_log(d);
}
