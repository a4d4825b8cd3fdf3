#include "common/io/bridge/http_guard.h"

#include "common/base/addr.h"
#include "common/base/units.h"

bool fl_http_guard_media_type(struct fl_span content_type)
{
    ptrdiff_t end = fl_span_find(content_type, ';');
    struct fl_span type =
        fl_span_trim(end < 0 ? content_type : fl_span_first(content_type, (size_t)end));
    return fl_span_ieq(type, FL_SPAN("application/json")) ||
           fl_span_ieq(type, FL_SPAN("application/yaml"));
}

static bool is_port(struct fl_span text)
{
    uint64_t port;
    return text.len <= 5 && fl_units_uint(text, &port) && port > 0 && port <= UINT16_MAX;
}

bool fl_http_guard_host(struct fl_span host, bool loopback_only)
{
    /* cut a port off: the last colon that is not inside brackets */
    struct fl_span name = host;
    for (size_t i = host.len; i > 0 && host.ptr[i - 1] != ']'; i--) {
        if (host.ptr[i - 1] == ':') {
            name = fl_span_first(host, i - 1);
            if (!is_port(fl_span_from(host, i))) {
                return false;
            }
            break;
        }
    }
    if (fl_span_ieq(name, FL_SPAN("localhost"))) {
        return true;
    }
    char text[FL_ADDR_TEXT_MAX];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_fmt_span(&f, name);
    fl_fmt_text(&f, ":1"); /* the parser wants a port */
    struct fl_addr a;
    return !f.cut && fl_addr_parse((struct fl_span){f.base, f.len}, &a) &&
           a.family != FL_ADDR_UNIX && (!loopback_only || fl_addr_is_loopback(&a));
}

bool fl_http_guard_origin(struct fl_span origin, struct fl_span host)
{
    if (origin.len == 0) {
        return true;
    }
    static const struct fl_span schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (fl_span_starts(origin, schemes[i])) {
            return host.len > 0 && fl_span_ieq(fl_span_from(origin, schemes[i].len), host);
        }
    }
    return false; /* "null" and everything else */
}
