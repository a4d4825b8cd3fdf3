#include "sidecar/admin/metrics_text.h"

void fl_metrics_family(struct fl_fmt *out, const char *name, const char *type, const char *help)
{
    fl_fmt_printf(out, "# HELP fairlead_%s %s\n# TYPE fairlead_%s %s\n", name, help, name, type);
}

static void put_labels(struct fl_fmt *out, const char *const *labels, const char *le)
{
    const char *lead = "{";
    for (; labels[0] != NULL; labels += 2) {
        fl_fmt_text(out, lead);
        fl_fmt_text(out, labels[0]);
        fl_fmt_text(out, "=\"");
        fl_fmt_prom(out, fl_span_of(labels[1]));
        fl_fmt_char(out, '"');
        lead = ",";
    }
    if (le != NULL) {
        fl_fmt_printf(out, "%sle=\"%s\"", lead, le);
        lead = ",";
    }
    if (lead[0] == ',') {
        fl_fmt_char(out, '}');
    }
}

static void put_name(struct fl_fmt *out, const char *name, const char *suffix,
                     const char *const *labels, const char *le)
{
    fl_fmt_printf(out, "fairlead_%s%s", name, suffix);
    put_labels(out, labels, le);
    fl_fmt_char(out, ' ');
}

void fl_metrics_uint(struct fl_fmt *out, const char *name, const char *const *labels, uint64_t v)
{
    put_name(out, name, "", labels, NULL);
    fl_fmt_uint(out, v);
    fl_fmt_char(out, '\n');
}

void fl_metrics_secs(struct fl_fmt *out, const char *name, const char *const *labels, int64_t us)
{
    put_name(out, name, "", labels, NULL);
    fl_fmt_secs(out, us);
    fl_fmt_char(out, '\n');
}

static const struct fl_latency *at(const struct fl_latency *first, size_t stride, unsigned i)
{
    return (const struct fl_latency *)(const void *)((const char *)first + stride * i);
}

static uint64_t bucket(const struct fl_latency *first, size_t stride, unsigned count, unsigned le)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        n += atomic_load_explicit(&at(first, stride, i)->le[le], memory_order_relaxed);
    }
    return n;
}

uint64_t fl_metrics_latency_count(const struct fl_latency *first, size_t stride, unsigned count)
{
    uint64_t n = 0;
    for (unsigned le = 0; le <= FL_LATENCY_BOUNDS; le++) {
        n += bucket(first, stride, count, le);
    }
    return n;
}

void fl_metrics_latency(struct fl_fmt *out, const char *name, const char *const *labels,
                        const struct fl_latency *first, size_t stride, unsigned count)
{
    uint64_t below = 0, sum_us = 0;
    for (unsigned i = 0; i <= FL_LATENCY_BOUNDS; i++) {
        char le[16] = "+Inf";
        if (i < FL_LATENCY_BOUNDS) { /* 5 -> 0.005, 2500 -> 2.5, 60000 -> 60 */
            struct fl_fmt f = fl_fmt_of(le, sizeof(le));
            fl_fmt_secs(&f, (int64_t)fl_latency_bounds_ms[i] * 1000);
            while (le[f.len - 1] == '0') {
                le[--f.len] = '\0';
            }
            le[f.len - (le[f.len - 1] == '.')] = '\0';
        }
        below += bucket(first, stride, count, i);
        put_name(out, name, "_bucket", labels, le);
        fl_fmt_uint(out, below);
        fl_fmt_char(out, '\n');
    }
    for (unsigned i = 0; i < count; i++) {
        sum_us += atomic_load_explicit(&at(first, stride, i)->sum_us, memory_order_relaxed);
    }
    put_name(out, name, "_sum", labels, NULL);
    fl_fmt_secs(out, (int64_t)sum_us);
    fl_fmt_char(out, '\n');
    put_name(out, name, "_count", labels, NULL);
    fl_fmt_uint(out, below); /* of the same reads as the buckets: they agree */
    fl_fmt_char(out, '\n');
}
