#include "common/base/units.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit durations[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {
    {"GiB", 1u << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}, {"", 1}};

bool fl_units_uint(struct fl_span s, uint64_t *ret)
{
    uint64_t v = 0;
    if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9' || __builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.ptr[i] - '0'), &v)) {
            return false;
        }
    }
    *ret = v;
    return true;
}

/* Digits, then exactly one of the units. */
static bool scaled(struct fl_span s, const struct unit *units, size_t count, uint64_t *ret)
{
    size_t n = 0;
    uint64_t v;
    while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9') {
        n++;
    }
    if (!fl_units_uint(fl_span_first(s, n), &v)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (fl_span_is(fl_span_from(s, n), units[i].name)) {
            if (__builtin_mul_overflow(v, units[i].factor, &v)) {
                return false;
            }
            *ret = v;
            return true;
        }
    }
    return false;
}

bool fl_units_duration_ms(struct fl_span s, int64_t *ret)
{
    uint64_t v = 0;
    if (!fl_span_is(s, "0") &&
        (!scaled(s, durations, FL_COUNTOF(durations), &v) || v > INT64_MAX)) {
        return false;
    }
    *ret = (int64_t)v;
    return true;
}

bool fl_units_size_bytes(struct fl_span s, uint64_t *ret)
{
    return scaled(s, sizes, FL_COUNTOF(sizes), ret);
}

static bool suffixed(struct fl_span s, char suffix, uint32_t max, uint32_t *ret)
{
    uint64_t v;
    if (s.len == 0 || s.ptr[s.len - 1] != suffix ||
        !fl_units_uint(fl_span_first(s, s.len - 1), &v) || v > max) {
        return false;
    }
    *ret = (uint32_t)v;
    return true;
}

bool fl_units_percent(struct fl_span s, uint32_t *ret)
{
    return suffixed(s, '%', 100, ret);
}

bool fl_units_multiple(struct fl_span s, uint32_t *ret)
{
    return suffixed(s, 'x', UINT32_MAX, ret);
}

/* Number and unit in one piece, so that a buffer too small never shows a number without its unit.
 */
static void print(struct fl_fmt *f, uint64_t v, bool negative, const struct unit *u)
{
    char text[32];
    struct fl_fmt whole = fl_fmt_of(text, sizeof text);
    fl_fmt_text(&whole, negative ? "-" : "");
    fl_fmt_uint(&whole, v / u->factor);
    fl_fmt_text(&whole, u->name);
    fl_fmt_span(f, (struct fl_span){text, whole.len});
}

void fl_units_print_duration(struct fl_fmt *f, int64_t ms)
{
    uint64_t v = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    size_t i = v == 0 ? 2 : 0; /* nothing at all is "0s" */
    while (v % durations[i].factor != 0) {
        i++;
    }
    print(f, v, ms < 0, &durations[i]);
}

void fl_units_print_size(struct fl_fmt *f, uint64_t bytes)
{
    size_t i = bytes == 0 ? FL_COUNTOF(sizes) - 1 : 0;
    while (bytes % sizes[i].factor != 0) {
        i++;
    }
    print(f, bytes, false, &sizes[i]);
}
