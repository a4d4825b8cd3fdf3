#include "controller/codec/rfc3339.h"

/* n digits at the front of *at, which moves on; -1: they are not. */
static int digits(struct fl_span *at, unsigned n)
{
    int v = 0;
    if (at->len < n) {
        return -1;
    }
    for (unsigned i = 0; i < n; i++) {
        char c = at->ptr[i];
        if (c < '0' || c > '9') {
            return -1;
        }
        v = v * 10 + (c - '0');
    }
    *at = fl_span_from(*at, n);
    return v;
}

static bool mark(struct fl_span *at, char wanted)
{
    if (at->len == 0 || fl_ascii_lower(at->ptr[0]) != wanted) {
        return false;
    }
    *at = fl_span_from(*at, 1);
    return true;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Days since 1970-01-01; years begin in March, so that the leap day is the last of one. */
static int64_t days_since_1970(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year, m = (month + 9) % 12;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static int fraction_ms(struct fl_span *at)
{
    int v = 0;
    unsigned n = 0;
    for (int d; (d = digits(at, 1)) >= 0; n++) {
        v = n < 3 ? v * 10 + d : v;
    }
    for (unsigned i = n; i < 3; i++) {
        v *= 10;
    }
    return n ? v : -1;
}

/* "Z" or "+01:00" up to the end, in minutes. */
static bool offset(struct fl_span at, int *ret)
{
    *ret = 0;
    if (mark(&at, 'z')) {
        return at.len == 0;
    }
    bool east = mark(&at, '+');
    if (!east && !mark(&at, '-')) {
        return false;
    }
    int hours = digits(&at, 2);
    int minutes = mark(&at, ':') ? digits(&at, 2) : -1;
    *ret = (hours * 60 + minutes) * (east ? 1 : -1);
    return hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60 && at.len == 0;
}

bool fl_rfc3339_parse(struct fl_span text, int64_t *ret_unix_ms)
{
    static const char between[] = {'-', '-', 't', ':', ':', '\0'};
    int v[6], ms = 0, minutes;
    for (unsigned i = 0; i < 6; i++) {
        v[i] = digits(&text, i == 0 ? 4 : 2);
        if (v[i] < 0 || (between[i] && !mark(&text, between[i]))) {
            return false;
        }
    }
    if (mark(&text, '.')) {
        ms = fraction_ms(&text);
    }
    if (ms < 0 || !offset(text, &minutes) || v[0] < 1 || v[1] < 1 || v[1] > 12 || v[2] < 1 ||
        v[2] > days_of_month(v[0], v[1]) || v[3] > 23 || v[4] > 59 || v[5] > 60) {
        return false;
    }
    int64_t seconds = days_since_1970(v[0], v[1], v[2]) * 86400 + v[3] * 3600 + v[4] * 60 + v[5];
    *ret_unix_ms = (seconds - (int64_t)minutes * 60) * 1000 + ms;
    return true;
}
