#include "controller/codec/micro_time.h"

#include "controller/codec/rfc3339.h"

void fl_micro_time_write(struct fl_fmt *out, int64_t unix_us)
{
    int64_t us = unix_us % 1000, ms = unix_us / 1000;
    char text[32];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    if (us < 0) { /* before 1970 */
        us += 1000;
        ms--;
    }
    fl_fmt_rfc3339(&f, ms); /* ends in three digits and Z */
    fl_fmt_printf(out, "%.*s%03dZ", (int)f.len - 1, text, (int)us);
}

const char *fl_micro_time_text(int64_t unix_us, char text[FL_MICRO_TIME_MAX])
{
    struct fl_fmt f = fl_fmt_of(text, FL_MICRO_TIME_MAX);
    fl_micro_time_write(&f, unix_us);
    return text;
}

bool fl_micro_time_parse(struct fl_span text, int64_t *ret_unix_us)
{
    static const int unit[] = {0, 0, 0, 100, 10, 1};
    ptrdiff_t dot = fl_span_find(text, '.');
    struct fl_span rest = fl_span_from(text, dot < 0 ? text.len : (size_t)dot + 1);
    int64_t ms, us = 0;
    if (!fl_rfc3339_parse(text, &ms)) {
        return false;
    }
    for (size_t i = 0; i < rest.len && i < FL_COUNTOF(unit); i++) {
        if (rest.ptr[i] < '0' || rest.ptr[i] > '9') {
            break;
        }
        us += (rest.ptr[i] - '0') * unit[i];
    }
    *ret_unix_us = ms * 1000 + us;
    return true;
}
