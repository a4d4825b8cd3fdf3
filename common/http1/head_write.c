#include "common/http1/head_write.h"

#include "common/http1/headers.h"

/* Where line i begins, or behind the last one. */
static uint32_t line_off(const struct fl_http_head *head, unsigned i)
{
    return i < head->count ? head->fields[i].name_off : head->length - 2;
}

struct fl_slice fl_head_line(const struct fl_http_head *head, unsigned i)
{
    FL_MUST(i < head->count);
    uint32_t start = line_off(head, i);
    return (struct fl_slice){start, line_off(head, i + 1) - start};
}

/* A list of slices under construction: each new run either lengthens the last one or starts one. */
struct slices {
    struct fl_slice *out;
    int count, cap;
    bool full;
};

static void add(struct slices *s, uint32_t start, uint32_t end)
{
    struct fl_slice *last = s->count ? &s->out[s->count - 1] : NULL;
    if (last && last->off + last->len == start) {
        last->len = end - last->off;
    } else if (s->count == s->cap) {
        s->full = true;
    } else if (end > start) {
        s->out[s->count++] = (struct fl_slice){start, end - start};
    }
}

/* A line that does not go on, or not as it is. */
static void add_odd(struct slices *s, const char *buf, const struct fl_http_head *head, unsigned i,
                    uint8_t drop)
{
    const struct fl_http_field *f = &head->fields[i];
    if ((f->flags & drop) != 0) {
        return;
    }
    uint32_t colon = f->name_off + f->name_len; /* RFC 9112 section 5.1: the blanks must go */
    add(s, f->name_off, colon);
    while (buf[colon] != ':') {
        colon++;
    }
    add(s, colon, line_off(head, i + 1));
}

int fl_head_slices(const char *buf, const struct fl_http_head *head, uint8_t drop, bool with_start,
                   struct fl_slice *out, int cap)
{
    struct slices s = {out, 0, cap, false};
    if (with_start) {
        add(&s, head->start_off, head->fields_off);
    }
    const uint8_t odd = drop | FL_FIELD_SPACED;
    unsigned next;
    for (unsigned i = 0; i < head->count; i = next) {
        for (next = i; next < head->count && (head->fields[next].flags & odd) == 0;) {
            next++;
        }
        if (next > i) { /* a run of lines that go on as they are */
            add(&s, head->fields[i].name_off, line_off(head, next));
        }
        if (next < head->count) {
            add_odd(&s, buf, head, next++, drop);
        }
    }
    return s.full ? -1 : s.count;
}

void fl_head_copy(struct fl_fmt *f, const char *buf, const struct fl_http_head *head, uint8_t drop,
                  bool with_start)
{
    struct fl_slice slices[FL_HEAD_SLICES_MAX];
    int n = fl_head_slices(buf, head, drop, with_start, slices, FL_HEAD_SLICES_MAX);
    FL_MUST(n >= 0);
    for (int i = 0; i < n; i++) {
        fl_fmt_span(f, (struct fl_span){buf + slices[i].off, slices[i].len});
    }
}

void fl_head_write_request_line(struct fl_fmt *f, const char *buf, const struct fl_request_head *r)
{
    struct fl_span path = {buf + r->path_off, r->path_len};
    fl_fmt_span(f, (struct fl_span){buf + r->head.start_off, r->method_len});
    fl_fmt_char(f, ' ');
    if (r->form == FL_TARGET_ASTERISK) {
        fl_fmt_char(f, '*');
    } else {
        if (path.len == 0 || path.ptr[0] != '/') {
            fl_fmt_char(f, '/');
        }
        fl_fmt_span(f, path);
    }
    fl_fmt_text(f, " HTTP/1.1\r\n");
    if (r->host_len > 0 && r->host_off < r->head.fields_off) { /* the authority of the target */
        fl_head_write_field(f, "Host", (struct fl_span){buf + r->host_off, r->host_len});
    }
}

void fl_head_write_status_line(struct fl_fmt *f, const char *buf, const struct fl_response_head *r)
{
    fl_fmt_text(f, "HTTP/1.1 ");
    fl_fmt_uint(f, r->status);
    fl_fmt_char(f, ' ');
    fl_fmt_span(f, (struct fl_span){buf + r->reason_off, r->reason_len});
    fl_fmt_text(f, "\r\n");
}

void fl_head_write_field(struct fl_fmt *f, const char *name, struct fl_span value)
{
    fl_fmt_text(f, name);
    fl_fmt_text(f, ": ");
    fl_fmt_header(f, value);
    fl_fmt_text(f, "\r\n");
}

void fl_head_write_uint(struct fl_fmt *f, const char *name, uint64_t value)
{
    fl_fmt_text(f, name);
    fl_fmt_text(f, ": ");
    fl_fmt_uint(f, value);
    fl_fmt_text(f, "\r\n");
}
