#include "controller/codec/json_scan.h"

static bool open_bracket(struct fl_json_scan *s, bool object)
{
    if (s->depth == FL_JSON_SCAN_DEPTH_MAX) {
        return false;
    }
    s->kinds = s->kinds << 1 | (object ? 1u : 0u);
    s->depth++;
    return true;
}

static bool close_bracket(struct fl_json_scan *s, bool object)
{
    if (s->depth == 0 || (s->kinds & 1u) != (object ? 1u : 0u)) {
        return false;
    }
    s->kinds >>= 1;
    s->depth--;
    return true;
}

/* The inside of a string up to and with its closing quote, or all bytes. */
static const char *pass_text(struct fl_json_scan *s, const char *p, const char *end)
{
    if (s->escaped && p < end) {
        s->escaped = false;
        p++;
    }
    for (; p < end; p++) {
        if (*p == '"') {
            s->in_text = false;
            return p + 1;
        }
        if (*p == '\\' && ++p == end) {
            s->escaped = true;
            return p;
        }
    }
    return p;
}

enum fl_json_scan_step fl_json_scan_run(struct fl_json_scan *s, struct fl_span bytes,
                                        size_t *ret_taken)
{
    const char *p = bytes.ptr, *end = bytes.len ? bytes.ptr + bytes.len : p;
    bool good = true;
    *ret_taken = bytes.len;
    while (p < end) {
        if (s->in_text) {
            p = pass_text(s, p, end);
            continue;
        }
        char c = *p++;
        if (c == '"') {
            s->in_text = true;
            good = s->depth > 0;
        } else if (c == '{' || c == '[') {
            good = open_bracket(s, c == '{');
        } else if (c == '}' || c == ']') {
            good = close_bracket(s, c == '}');
            if (good && s->depth == 0) {
                *ret_taken = (size_t)(p - bytes.ptr);
                return FL_JSON_SCAN_DONE;
            }
        }
        if (!good) {
            *ret_taken = (size_t)(p - 1 - bytes.ptr);
            return FL_JSON_SCAN_BAD;
        }
    }
    return FL_JSON_SCAN_MORE;
}
