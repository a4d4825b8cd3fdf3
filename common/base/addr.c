#include "common/base/addr.h"

#include <arpa/inet.h>

#include "common/base/units.h"

static bool parse_port(struct fl_span text, uint16_t *ret)
{
    uint64_t v;
    if (text.len > 5 || !fl_units_uint(text, &v) || v > UINT16_MAX) {
        return false;
    }
    *ret = (uint16_t)v;
    return true;
}

static bool parse_unix(struct fl_span path, struct fl_addr *ret)
{
    if (path.len == 0 || path.len >= sizeof ret->path || fl_span_find(path, '\0') >= 0) {
        return false;
    }
    *ret = (struct fl_addr){.family = FL_ADDR_UNIX};
    memcpy(ret->path, path.ptr, path.len);
    return true;
}

bool fl_addr_parse(struct fl_span text, struct fl_addr *ret)
{
    char host_text[INET6_ADDRSTRLEN];
    struct fl_addr a = {.family = FL_ADDR_NONE};
    struct fl_span host, port;

    if (fl_span_starts(text, FL_SPAN("unix:"))) {
        return parse_unix(fl_span_from(text, 5), ret);
    }
    if (!fl_addr_split_host(text, &host, &port) || !parse_port(port, &a.port) ||
        host.len >= sizeof host_text || fl_span_find(host, '\0') >= 0) {
        return false;
    }
    memcpy(host_text, host.ptr, host.len);
    host_text[host.len] = '\0';
    a.family = text.ptr[0] == '[' ? FL_ADDR_V6 : FL_ADDR_V4;
    if (inet_pton(a.family == FL_ADDR_V6 ? AF_INET6 : AF_INET, host_text, a.ip) != 1) {
        return false;
    }
    *ret = a;
    return true;
}

/* The address alone into `text`, NUL-terminated. */
static void ip_text(const struct fl_addr *a, char text[static FL_ADDR_TEXT_MAX])
{
    struct fl_fmt f = fl_fmt_of(text, FL_ADDR_TEXT_MAX);
    switch (a->family) {
    case FL_ADDR_V4:
        for (unsigned i = 0; i < 4; i++) {
            if (i > 0) {
                fl_fmt_char(&f, '.');
            }
            fl_fmt_uint(&f, a->ip[i]);
        }
        break;
    case FL_ADDR_V6:
        /* Cannot fail with this much room; RFC 5952 form. */
        FL_MUST(inet_ntop(AF_INET6, a->ip, text, FL_ADDR_TEXT_MAX) != NULL);
        break;
    case FL_ADDR_UNIX:
        fl_fmt_text(&f, "unix:");
        break;
    case FL_ADDR_NONE:
        fl_fmt_char(&f, '-');
        break;
    }
}

void fl_addr_print_ip(const struct fl_addr *a, struct fl_fmt *f)
{
    char text[FL_ADDR_TEXT_MAX];
    ip_text(a, text);
    fl_fmt_text(f, text);
}

void fl_addr_print(const struct fl_addr *a, struct fl_fmt *f)
{
    char ip[FL_ADDR_TEXT_MAX], text[FL_ADDR_TEXT_MAX];
    struct fl_fmt whole = fl_fmt_of(text, sizeof text);
    bool bracket = a->family == FL_ADDR_V6;

    ip_text(a, ip);
    fl_fmt_text(&whole, bracket ? "[" : "");
    fl_fmt_text(&whole, ip);
    fl_fmt_text(&whole, bracket ? "]" : "");
    if (a->family == FL_ADDR_UNIX) {
        fl_fmt_text(&whole, a->path);
    } else if (a->family != FL_ADDR_NONE) {
        fl_fmt_char(&whole, ':');
        fl_fmt_uint(&whole, a->port);
    }
    fl_fmt_span(f, (struct fl_span){text, whole.len});
}

bool fl_addr_eq(const struct fl_addr *a, const struct fl_addr *b)
{
    if (a->family != b->family) {
        return false;
    }
    switch (a->family) {
    case FL_ADDR_V4:
        return a->port == b->port && memcmp(a->ip, b->ip, 4) == 0;
    case FL_ADDR_V6:
        return a->port == b->port && memcmp(a->ip, b->ip, 16) == 0;
    case FL_ADDR_UNIX:
        return strcmp(a->path, b->path) == 0;
    case FL_ADDR_NONE:
        break;
    }
    return true;
}

bool fl_addr_is_loopback(const struct fl_addr *a)
{
    static const uint8_t one[16] = {[15] = 1};
    return a->family == FL_ADDR_UNIX || (a->family == FL_ADDR_V4 && a->ip[0] == 127) ||
           (a->family == FL_ADDR_V6 && memcmp(a->ip, one, 16) == 0);
}

bool fl_addr_is_any(const struct fl_addr *a)
{
    static const uint8_t zero[16];
    return (a->family == FL_ADDR_V4 && memcmp(a->ip, zero, 4) == 0) ||
           (a->family == FL_ADDR_V6 && memcmp(a->ip, zero, 16) == 0);
}

bool fl_addr_split_host(struct fl_span text, struct fl_span *ret_host, struct fl_span *ret_port)
{
    struct fl_span host, rest;
    ptrdiff_t at;

    if (text.len && text.ptr[0] == '[') {
        at = fl_span_find(text, ']');
        if (at < 0) {
            return false;
        }
        host = (struct fl_span){text.ptr + 1, (size_t)at - 1};
        rest = fl_span_from(text, (size_t)at + 1);
    } else {
        at = fl_span_find(text, ':');
        if (at < 0) {
            return false;
        }
        host = fl_span_first(text, (size_t)at);
        rest = fl_span_from(text, (size_t)at);
    }
    /* A second colon means an IPv6 address without brackets: nobody could tell its port. */
    if (host.len == 0 || rest.len < 2 || rest.ptr[0] != ':' ||
        fl_span_find(fl_span_from(rest, 1), ':') >= 0) {
        return false;
    }
    *ret_host = host;
    *ret_port = fl_span_from(rest, 1);
    return true;
}
