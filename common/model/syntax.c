#include "common/model/syntax.h"

#include <string.h>

#include "common/base/addr.h"
#include "common/base/units.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    char l = fl_ascii_lower(c);
    return is_digit(c) || (l >= 'a' && l <= 'z');
}

/* Every byte alphanumeric or one of `also`. */
static bool made_of(struct fl_span s, const char *also)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_alnum(s.ptr[i]) && (s.ptr[i] == '\0' || !strchr(also, s.ptr[i]))) {
            return false;
        }
    }
    return true;
}

static bool is_label(struct fl_span s)
{
    return s.len >= 1 && s.len <= 63 && s.ptr[0] != '-' && s.ptr[s.len - 1] != '-' &&
           made_of(s, "-_");
}

bool fl_syntax_is_host(struct fl_span s)
{
    if (s.len == 0 || s.len > 253) {
        return false;
    }
    bool digits = true;
    for (size_t i = 0; i < s.len; i++) {
        digits = digits && (is_digit(s.ptr[i]) || s.ptr[i] == '.');
    }
    if (digits) { /* 10.0.1 and 1.2.3.999 are typing errors, not names */
        return fl_syntax_is_endpoint(s);
    }
    while (s.len) {
        ptrdiff_t dot = fl_span_find(s, '.');
        size_t n = dot < 0 ? s.len : (size_t)dot;
        if (!is_label(fl_span_first(s, n))) {
            return false;
        }
        s = fl_span_from(s, n + 1);
        if (dot >= 0 && s.len == 0) {
            return true; /* a trailing dot: fully qualified */
        }
    }
    return true;
}

bool fl_syntax_is_peer(struct fl_span s)
{
    struct fl_span host, port;
    struct fl_addr a;
    uint64_t number;
    if (fl_span_starts(s, FL_SPAN("unix:")) || !fl_addr_split_host(s, &host, &port) ||
        !fl_units_uint(port, &number) || number < 1 || number > UINT16_MAX) {
        return false;
    }
    return s.ptr[0] == '[' ? fl_addr_parse(s, &a) : fl_syntax_is_host(host);
}

bool fl_syntax_is_listen(struct fl_span s, bool unix_too)
{
    struct fl_addr a;
    return fl_addr_parse(s, &a) && (unix_too || a.family != FL_ADDR_UNIX);
}

bool fl_syntax_is_endpoint(struct fl_span s)
{
    char text[80];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct fl_addr a;
    if (fl_addr_parse(s, &a)) {
        return a.family != FL_ADDR_UNIX && a.port != 0;
    }
    bool v6 = fl_span_find(s, ':') >= 0;
    fl_fmt_text(&f, v6 ? "[" : "");
    fl_fmt_span(&f, s);
    fl_fmt_text(&f, v6 ? "]:1" : ":1");
    return !f.cut && fl_addr_parse((struct fl_span){text, f.len}, &a) && a.family != FL_ADDR_UNIX;
}

static bool take_status(struct fl_span s, uint64_t *ret)
{
    return s.len == 3 && fl_units_uint(s, ret) && *ret >= 100 && *ret <= 599;
}

bool fl_syntax_is_statuses(struct fl_span s)
{
    do {
        ptrdiff_t comma = fl_span_find(s, ',');
        struct fl_span one = comma < 0 ? s : fl_span_first(s, (size_t)comma);
        ptrdiff_t dash = fl_span_find(one, '-');
        uint64_t low, high;
        if (!take_status(dash < 0 ? one : fl_span_first(one, (size_t)dash), &low)) {
            return false;
        }
        if (dash >= 0 && (!take_status(fl_span_from(one, (size_t)dash + 1), &high) || high < low)) {
            return false;
        }
        if (comma < 0) {
            return true;
        }
        s = fl_span_from(s, (size_t)comma + 1);
    } while (s.len);
    return false;
}

bool fl_syntax_is_backend(struct fl_span s)
{
    return s.len >= 1 && s.len <= 253 && is_alnum(s.ptr[0]) && made_of(s, "._:-");
}

bool fl_syntax_is_s3_bucket(struct fl_span s)
{
    return s.len >= 1 && s.len <= 255 && is_alnum(s.ptr[0]) && made_of(s, "._-");
}

bool fl_syntax_is_segment(struct fl_span s)
{
    if (s.len == 0 || s.len > 255 || fl_span_is(s, ".") || fl_span_is(s, "..")) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] <= 0x20 || s.ptr[i] == 0x7f || strchr("/?#", s.ptr[i])) {
            return false;
        }
    }
    return true;
}

bool fl_syntax_is_service(struct fl_span s)
{
    bool good = s.len >= 1 && s.len <= 63 && is_alnum(s.ptr[0]) && is_alnum(s.ptr[s.len - 1]);
    for (size_t i = 0; good && i < s.len; i++) {
        good = is_digit(s.ptr[i]) || (s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || s.ptr[i] == '-';
    }
    return good;
}
