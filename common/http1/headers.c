#include "common/http1/headers.h"

#include "common/http1/head_fields.h"

const struct fl_http_field *fl_headers_find(const struct fl_http_head *head, enum fl_http_id id)
{
    for (unsigned i = 0; i < head->count && id != FL_HTTP_OTHER; i++) {
        if (head->fields[i].id == id) {
            return &head->fields[i];
        }
    }
    return NULL;
}

const struct fl_http_field *fl_headers_find_name(const char *buf, const struct fl_http_head *head,
                                                 struct fl_span name)
{
    for (unsigned i = 0; i < head->count; i++) {
        if (fl_span_ieq(fl_headers_name(buf, &head->fields[i]), name)) {
            return &head->fields[i];
        }
    }
    return NULL;
}

struct fl_span fl_headers_get(const char *buf, const struct fl_http_head *head, enum fl_http_id id)
{
    const struct fl_http_field *f = fl_headers_find(head, id);
    return f ? fl_headers_value(buf, f) : FL_SPAN("");
}

void fl_headers_drop(struct fl_http_head *head, enum fl_http_id id)
{
    for (unsigned i = 0; i < head->count; i++) {
        if (head->fields[i].id == id) {
            head->fields[i].flags |= FL_FIELD_HOP;
        }
    }
}

bool fl_headers_connection_names(const char *buf, const struct fl_http_head *head,
                                 struct fl_span name)
{
    for (unsigned i = 0; i < head->count; i++) {
        if (head->fields[i].id != FL_HTTP_CONNECTION) {
            continue;
        }
        struct fl_span list = fl_headers_value(buf, &head->fields[i]);
        for (struct fl_span option; fl_head_fields_member(&list, &option);) {
            if (fl_span_ieq(option, name)) {
                return true;
            }
        }
    }
    return false;
}

int64_t fl_headers_keep_alive_ms(const char *buf, const struct fl_http_head *head)
{
    struct fl_span list = fl_headers_get(buf, head, FL_HTTP_KEEP_ALIVE);
    for (struct fl_span member; fl_head_fields_member(&list, &member);) {
        ptrdiff_t equals = fl_span_find(member, '=');
        if (equals < 0 ||
            !fl_span_ieq(fl_span_trim(fl_span_first(member, (size_t)equals)), FL_SPAN("timeout"))) {
            continue;
        }
        struct fl_span digits = fl_span_trim(fl_span_from(member, (size_t)equals + 1));
        int64_t seconds = 0;
        for (size_t i = 0; i < digits.len; i++) {
            if (digits.ptr[i] < '0' || digits.ptr[i] > '9' || i == 9) {
                return -1;
            }
            seconds = seconds * 10 + (digits.ptr[i] - '0');
        }
        return digits.len ? seconds * 1000 : -1;
    }
    return -1;
}
