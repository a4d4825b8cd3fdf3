#include "common/http1/host.h"

#include "common/http1/scan.h"

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Length of the host part, 0 when it is malformed. */
static size_t literal_len(struct fl_span host) /* "[v6]" */
{
    size_t i = 1;
    unsigned colons = 0;
    while (i < host.len && (is_hex(host.ptr[i]) || host.ptr[i] == ':' || host.ptr[i] == '.')) {
        colons += host.ptr[i] == ':';
        i++;
    }
    return i < host.len && host.ptr[i] == ']' && colons >= 2 && i <= 46 ? i + 1 : 0;
}

static size_t name_len(struct fl_span host)
{
    size_t i = 0;
    for (;;) {
        while (i < host.len && fl_scan_is(host.ptr[i], FL_SCAN_HOST)) {
            i++;
        }
        if (i == host.len || host.ptr[i] == ':') {
            return i;
        }
        if (host.len - i < 3 || host.ptr[i] != '%' || !is_hex(host.ptr[i + 1]) ||
            !is_hex(host.ptr[i + 2])) {
            return 0;
        }
        i += 3;
    }
}

static bool port_is_valid(struct fl_span port)
{
    unsigned value = 0;
    if (port.len == 0 || port.len > 5) {
        return false;
    }
    for (size_t i = 0; i < port.len; i++) {
        if (port.ptr[i] < '0' || port.ptr[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(port.ptr[i] - '0');
    }
    return value <= 65535;
}

bool fl_host_is_valid(struct fl_span host)
{
    if (host.len == 0) {
        return false;
    }
    size_t len = host.ptr[0] == '[' ? literal_len(host) : name_len(host);
    if (len == 0) {
        return false;
    }
    return len == host.len || (host.ptr[len] == ':' && port_is_valid(fl_span_from(host, len + 1)));
}
