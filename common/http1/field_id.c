#include "common/http1/field_id.h"

#include "common/base/check.h"

#define X(id, name, flags) (flags),
static const uint8_t flags_of[] = {FL_HTTP_IDS(X)};
#undef X

/* Field names are tokens: for them c | 0x20 equals a letter, digit or '-' only when c is that
 * character in either case ('_' becomes 0x7f). */
static inline uint64_t word8(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof(w));
    return w | 0x2020202020202020u;
}

static inline uint64_t word4(const char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof(w));
    return w | 0x20202020u;
}

/* lower is a literal, so the length is known and the branches and loops fold: a few words, of which
 * the last overlaps the one before. */
static inline __attribute__((always_inline)) bool same(const char *name, const char *lower,
                                                       size_t len)
{
    if (len < 4) {
        return (name[0] | 0x20) == lower[0] && (name[1] | 0x20) == lower[1];
    }
    if (len < 8) {
        return ((word4(name) ^ word4(lower)) | (word4(name + len - 4) ^ word4(lower + len - 4))) ==
               0;
    }
    uint64_t differ = word8(name + len - 8) ^ word8(lower + len - 8);
    for (size_t i = 0; i + 8 < len; i += 8) {
        differ |= word8(name + i) ^ word8(lower + i);
    }
    return differ == 0;
}

#define IS(lower, id) (same(p, lower, sizeof(lower) - 1) ? (id) : FL_HTTP_OTHER)

static bool look_alike(const char *p, size_t len, const char *lower, size_t dash)
{
    if (p[dash] != '_') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (i != dash && fl_ascii_lower(p[i]) != lower[i]) {
            return false;
        }
    }
    return true;
}

static enum fl_http_id amz(struct fl_span name)
{
    const char *p = name.ptr;
    if (name.len == 17 && same(p, "x-amz-copy-source", 17)) {
        return FL_HTTP_X_AMZ_COPY_SOURCE;
    }
    if (name.len > 21 && same(p, "x-amz-copy-source-if-", 21)) {
        return FL_HTTP_X_AMZ_COPY_SOURCE_IF;
    }
    if (name.len > 15 && same(p, "x-amz-if-match-", 15)) {
        return FL_HTTP_X_AMZ_IF_MATCH;
    }
    if (name.len == 24 && same(p, "x-amz-write-offset-bytes", 24)) {
        return FL_HTTP_X_AMZ_WRITE_OFFSET_BYTES;
    }
    if (name.len == 28 && same(p, "x-amz-decoded-content-length", 28)) {
        return FL_HTTP_X_AMZ_DECODED_CONTENT_LENGTH;
    }
    return FL_HTTP_X_AMZ_OTHER;
}

static enum fl_http_id short_name(const char *p, size_t len, char first)
{
    switch (len) {
    case 2:
        return IS("te", FL_HTTP_TE);
    case 4:
        return first == 'h' ? IS("host", FL_HTTP_HOST) : IS("date", FL_HTTP_DATE);
    case 5:
        return IS("range", FL_HTTP_RANGE);
    case 6:
        return first == 'e'   ? IS("expect", FL_HTTP_EXPECT)
               : first == 'c' ? IS("cookie", FL_HTTP_COOKIE)
                              : IS("server", FL_HTTP_SERVER);
    case 7:
        return first == 't' ? IS("trailer", FL_HTTP_TRAILER) : IS("upgrade", FL_HTTP_UPGRADE);
    case 8:
        return (p[3] | 0x20) == 'm' ? IS("if-match", FL_HTTP_IF_MATCH)
                                    : IS("if-range", FL_HTTP_IF_RANGE);
    case 10:
        return first == 'c' ? IS("connection", FL_HTTP_CONNECTION)
                            : IS("keep-alive", FL_HTTP_KEEP_ALIVE);
    case 11:
        return first == 'c' ? IS("content-md5", FL_HTTP_CONTENT_MD5)
                            : IS("retry-after", FL_HTTP_RETRY_AFTER);
    default:
        return FL_HTTP_OTHER;
    }
}

static enum fl_http_id long_name(const char *p, size_t len, char first)
{
    switch (len) {
    case 12:
        return first == 'c'   ? IS("content-type", FL_HTTP_CONTENT_TYPE)
               : first == 'x' ? IS("x-request-id", FL_HTTP_X_REQUEST_ID)
                              : IS("max-forwards", FL_HTTP_MAX_FORWARDS);
    case 13:
        return first == 'a' ? IS("authorization", FL_HTTP_AUTHORIZATION)
                            : IS("if-none-match", FL_HTTP_IF_NONE_MATCH);
    case 14:
        return look_alike(p, len, "content-length", 7)
                   ? FL_HTTP_LOOK_ALIKE
                   : IS("content-length", FL_HTTP_CONTENT_LENGTH);
    case 16:
        return first == 'c' ? IS("content-encoding", FL_HTTP_CONTENT_ENCODING)
                            : IS("proxy-connection", FL_HTTP_PROXY_CONNECTION);
    case 17:
        return look_alike(p, len, "transfer-encoding", 8) ? FL_HTTP_LOOK_ALIKE
               : first == 't' ? IS("transfer-encoding", FL_HTTP_TRANSFER_ENCODING)
                              : IS("if-modified-since", FL_HTTP_IF_MODIFIED_SINCE);
    case 19:
        return IS("if-unmodified-since", FL_HTTP_IF_UNMODIFIED_SINCE);
    default:
        return FL_HTTP_OTHER;
    }
}

enum fl_http_id fl_field_id_of(struct fl_span name)
{
    if (name.len < 2) {
        return FL_HTTP_OTHER;
    }
    char first = (char)(name.ptr[0] | 0x20);
    if (first == 'x' && name.len >= 6 && same(name.ptr, "x-amz-", 6)) {
        return amz(name);
    }
    return name.len < 12 ? short_name(name.ptr, name.len, first)
                         : long_name(name.ptr, name.len, first);
}

uint8_t fl_field_id_flags(enum fl_http_id id)
{
    FL_MUST((unsigned)id < FL_HTTP_ID_COUNT);
    return flags_of[id];
}
