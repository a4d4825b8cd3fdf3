#include "sidecar/proxy/access_log.h"

#include <stdint.h>
#include <string.h>

#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/worker.h"

enum { URI_MAX = 8192 };

struct attempt_part {
    int64_t connect_us, header_us, response_us;
    int32_t status;
    uint32_t address_len;
};

/* What is static text is kept as a pointer; what lives in buffers or snapshots is copied behind the
 * struct, in the order of the lengths. */
struct record {
    int64_t wall_ms, request_us;
    uint64_t bytes_in, bytes_out;
    const char *operation, *retry_reason, *error, *class; /* tokens: nothing in them to escape */
    int32_t status;
    uint32_t tries, attempts;
    uint32_t from_len, host_len, method_len, uri_len, id_len, route_len, backend_len, cause_len;
    struct attempt_part attempt[FL_ATTEMPTS_LOGGED];
};

static uint32_t shown_of(const struct record *r)
{
    return r->attempts < FL_ATTEMPTS_LOGGED ? r->attempts : FL_ATTEMPTS_LOGGED;
}

/* Of the struct as far as it is used: attempts that were not made are not copied. */
static size_t size_of(const struct record *r)
{
    return offsetof(struct record, attempt) + shown_of(r) * sizeof r->attempt[0];
}

static struct fl_span take(const char **at, uint32_t len)
{
    struct fl_span s = {*at, len};
    *at += len;
    return s;
}

static bool is_secret(struct fl_span name)
{
    static const char *const names[] = {"X-Amz-Signature", "X-Amz-Credential",
                                        "X-Amz-Security-Token", "Signature", "AWSAccessKeyId"};
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (fl_span_ieq(name, fl_span_of(names[i]))) {
            return true;
        }
    }
    return false;
}

void fl_access_log_mask(struct fl_fmt *out, struct fl_span target)
{
    ptrdiff_t q = fl_span_find(target, '?');
    if (q < 0) {
        fl_fmt_json(out, target);
        return;
    }
    fl_fmt_json(out, fl_span_first(target, (size_t)q + 1));
    struct fl_span rest = fl_span_from(target, (size_t)q + 1);
    while (rest.len > 0) {
        ptrdiff_t amp = fl_span_find(rest, '&');
        struct fl_span pair = fl_span_first(rest, amp < 0 ? rest.len : (size_t)amp + 1);
        ptrdiff_t eq = fl_span_find(pair, '=');
        if (eq >= 0 && is_secret(fl_span_first(pair, (size_t)eq))) {
            fl_fmt_json(out, fl_span_first(pair, (size_t)eq + 1));
            fl_fmt_text(out, amp < 0 ? "***" : "***&");
        } else {
            fl_fmt_json(out, pair);
        }
        rest = fl_span_from(rest, pair.len);
    }
}

static void print_us(struct fl_fmt *f, int64_t us)
{
    if (us < 0) {
        fl_fmt_char(f, '-');
    } else {
        fl_fmt_secs(f, us);
    }
}

enum column { ADDR, STATUS, CONNECT, HEADER, RESPONSE };

static void print_column(struct fl_fmt *f, const struct record *r, const char *addresses,
                         enum column what)
{
    uint32_t shown = shown_of(r);
    for (uint32_t i = 0; i < shown; i++) {
        const struct attempt_part *a = &r->attempt[i];
        if (i > 0) {
            fl_fmt_text(f, ", ");
        }
        if (what == ADDR) {
            fl_fmt_json(f, take(&addresses, a->address_len));
        } else if (what == STATUS && a->status > 0) {
            fl_fmt_uint(f, (uint64_t)a->status);
        } else {
            print_us(f, what == CONNECT    ? a->connect_us
                        : what == HEADER   ? a->header_us
                        : what == RESPONSE ? a->response_us
                                           : -1);
        }
    }
    if (shown == 0) {
        fl_fmt_char(f, '-');
    }
}

static void print_attempts(struct fl_fmt *out, const struct record *r, const char *addresses)
{
    fl_fmt_text(out, "\",\"upstream_addr\":\"");
    print_column(out, r, addresses, ADDR);
    fl_fmt_text(out, "\",\"upstream_status\":\"");
    print_column(out, r, addresses, STATUS);
    fl_fmt_text(out, "\",\"upstream_connect_time\":\"");
    print_column(out, r, addresses, CONNECT);
    fl_fmt_text(out, "\",\"upstream_header_time\":\"");
    print_column(out, r, addresses, HEADER);
    fl_fmt_text(out, "\",\"upstream_response_time\":\"");
    print_column(out, r, addresses, RESPONSE);
    fl_fmt_text(out, "\"}\n");
}

/* The constant text between two values is one piece: half of what a line costs is calls. */
void fl_access_log_format(const void *record, size_t len, struct fl_fmt *out)
{
    struct record r FL_UNCLEARED;
    FL_MUST(len >= offsetof(struct record, attempt));
    memcpy(&r, record, offsetof(struct record, attempt));
    FL_MUST(len >= size_of(&r));
    memcpy(&r, record, size_of(&r));
    const char *at = (const char *)record + size_of(&r);
    fl_fmt_text(out, "{\"ts\":\"");
    fl_fmt_rfc3339(out, r.wall_ms);
    fl_fmt_text(out, "\",\"remote_addr\":\"");
    fl_fmt_json(out, take(&at, r.from_len));
    fl_fmt_text(out, "\",\"host\":\"");
    fl_fmt_json(out, take(&at, r.host_len));
    fl_fmt_text(out, "\",\"method\":\"");
    fl_fmt_json(out, take(&at, r.method_len));
    fl_fmt_text(out, "\",\"uri\":\"");
    fl_access_log_mask(out, take(&at, r.uri_len));
    fl_fmt_text(out, "\",\"status\":");
    fl_fmt_uint(out, (uint64_t)r.status);
    fl_fmt_text(out, ",\"request_time\":");
    fl_fmt_secs(out, r.request_us);
    fl_fmt_text(out, ",\"bytes_in\":");
    fl_fmt_uint(out, r.bytes_in);
    fl_fmt_text(out, ",\"bytes_out\":");
    fl_fmt_uint(out, r.bytes_out);
    fl_fmt_text(out, ",\"request_id\":\"");
    fl_fmt_json(out, take(&at, r.id_len));
    fl_fmt_text(out, "\",\"route\":\"");
    fl_fmt_json(out, take(&at, r.route_len));
    fl_fmt_text(out, "\",\"backend\":\"");
    fl_fmt_json(out, take(&at, r.backend_len));
    fl_fmt_text(out, "\",\"operation\":\"");
    fl_fmt_text(out, r.operation);
    fl_fmt_text(out, "\",\"tries\":");
    fl_fmt_uint(out, r.tries);
    fl_fmt_text(out, ",\"retry_reason\":\"");
    fl_fmt_text(out, r.retry_reason);
    fl_fmt_text(out, "\",\"error\":\"");
    fl_fmt_text(out, r.error);
    fl_fmt_text(out, "\",\"cause\":\"");
    fl_fmt_json(out, take(&at, r.cause_len));
    fl_fmt_text(out, "\",\"class\":\"");
    fl_fmt_text(out, r.class);
    print_attempts(out, &r, at);
}

static bool wanted(const struct fl_exchange *x, int64_t request_us)
{
    switch (x->snapshot->config->access_log) {
    case FL_ACCESS_ALL:
        return true;
    case FL_ACCESS_OFF:
        return false;
    case FL_ACCESS_ERRORS:
        break;
    }
    return x->status >= 500 || x->attempts > 1 ||
           request_us >= x->snapshot->config->slow_request_ms * 1000;
}

static void fill(const struct fl_exchange *x, struct record *r)
{
    r->wall_ms = fl_reactor_wall_ms(x->worker->reactor);
    r->bytes_in = x->body.body_bytes + (x->malformed ? 0 : x->request.head.length);
    r->bytes_out = x->relay.sent_bytes;
    r->operation = x->policy != NULL ? fl_s3_operation_name(x->operation.op) : "";
    r->retry_reason = x->retry_note != NULL ? x->retry_note : "";
    r->error = fl_answer_row(x->answer)->token;
    r->class = x->class != NULL ? x->class : fl_outcome_row(x->ended)->class;
    r->status = x->status;
    r->tries = x->tries;
    r->attempts = x->attempts;
    for (uint32_t i = 0; i < shown_of(r); i++) {
        const struct fl_attempt_record *a = &x->records[i];
        r->attempt[i] = (struct attempt_part){a->connect_us, a->header_us, a->response_us,
                                              a->status, (uint32_t)strlen(a->peer->address)};
    }
}

void fl_access_log_write(struct fl_exchange *x)
{
    int64_t request_us = fl_reactor_now_us(x->worker->reactor) - x->began_us;
    struct fl_log_ring *ring = x->worker->access_ring;
    bool written = wanted(x, request_us);
    if (ring == NULL || (!written && !fl_log_watched(ring))) {
        return;
    }
    struct record r FL_UNCLEARED;
    r.request_us = request_us;
    fill(x, &r);
    char from_text[FL_ADDR_TEXT_MAX];
    struct fl_fmt from = fl_fmt_of(from_text, sizeof from_text);
    fl_client_print_from(x->client, &from);
    const char *head = x->head != NULL ? x->head->bytes + x->head_off : "";
    struct fl_span parts[8] = {
        {from_text, from.len},
        x->target.host,
        {head + x->request.head.start_off, x->request.method_len},
        fl_span_first((struct fl_span){head + x->request.target_off, x->request.target_len},
                      URI_MAX),
        fl_span_of(x->request_id),
        fl_span_of(x->policy != NULL ? x->policy->route : ""),
        fl_span_of(x->backend != NULL ? x->backend->conf->name : ""),
        fl_span_of(x->cause.text)};
    uint32_t *lengths[8] = {&r.from_len, &r.host_len,  &r.method_len,  &r.uri_len,
                            &r.id_len,   &r.route_len, &r.backend_len, &r.cause_len};
    size_t fixed = size_of(&r), size = fixed;
    for (unsigned i = 0; i < 8; i++) {
        *lengths[i] = (uint32_t)parts[i].len;
        size += parts[i].len;
    }
    uint32_t shown = shown_of(&r);
    for (uint32_t i = 0; i < shown; i++) {
        size += r.attempt[i].address_len;
    }
    char *at =
        fl_log_reserve(ring, written ? FL_LOG_STDOUT : FL_LOG_WATCHERS, fl_access_log_format, size);
    if (at == NULL) {
        return; /* counted by the ring */
    }
    memcpy(at, &r, fixed);
    at += fixed;
    for (unsigned i = 0; i < 8; i++) {
        memcpy(at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
    }
    for (uint32_t i = 0; i < shown; i++) {
        memcpy(at, x->records[i].peer->address, r.attempt[i].address_len);
        at += r.attempt[i].address_len;
    }
    fl_log_commit(x->worker->access_ring, size);
}
