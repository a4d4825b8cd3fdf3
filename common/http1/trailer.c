#include "common/http1/trailer.h"

#include "common/base/check.h"
#include "common/http1/field_id.h"
#include "common/http1/scan.h"

static bool begins(struct fl_span name, struct fl_span prefix)
{
    return fl_span_ieq(fl_span_first(name, prefix.len), prefix);
}

/* Of the x-amz-* fields only checksums and their signature are made for trailers. */
static bool is_store_trailer(struct fl_span name)
{
    return begins(name, FL_SPAN("x-amz-checksum-")) ||
           fl_span_ieq(name, FL_SPAN("x-amz-trailer-signature")) ||
           begins(name, FL_SPAN("x-amz-meta-"));
}

static bool is_denied(struct fl_span name)
{
    static const char *const prefixes[] = {
        "proxy-", "x-forwarded-", "access-control-", "sec-", "x-fairlead-",
    };
    static const char *const names[] = {
        "accept-encoding",
        "age",
        "allow",
        "authentication-info",
        "cache-control",
        "content-disposition",
        "content-language",
        "content-location",
        "content-range",
        "etag",
        "expires",
        "forwarded",
        "last-modified",
        "link",
        "location",
        "origin",
        "pragma",
        "referer",
        "set-cookie",
        "vary",
        "via",
        "warning",
        "www-authenticate",
        "x-http-method-override",
        "x-real-ip",
    };
    for (size_t i = 0; i < FL_COUNTOF(prefixes); i++) {
        if (begins(name, fl_span_of(prefixes[i]))) {
            return true;
        }
    }
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (fl_span_ieq(name, fl_span_of(names[i]))) {
            return true;
        }
    }
    return false;
}

enum fl_trailer_kind fl_trailer_judge(struct fl_span line)
{
    const char *colon = fl_scan_token(line.ptr, line.ptr + line.len);
    struct fl_span name = {line.ptr, (size_t)(colon - line.ptr)};
    if (name.len == 0 || name.len == line.len || *colon != ':') {
        return FL_TRAILER_MALFORMED;
    }
    enum fl_http_id id = fl_field_id_of(name);
    if (id == FL_HTTP_X_AMZ_OTHER) {
        return is_store_trailer(name) ? FL_TRAILER_ALLOWED : FL_TRAILER_DENIED;
    }
    if (id == FL_HTTP_CONTENT_MD5) { /* RFC 1864 was made with trailers in mind */
        return FL_TRAILER_ALLOWED;
    }
    return id != FL_HTTP_OTHER || is_denied(name) ? FL_TRAILER_DENIED : FL_TRAILER_ALLOWED;
}
