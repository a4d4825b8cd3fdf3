#include "common/model/nearest.h"

#include <stdint.h>

#define LENGTH_MAX 64u

/* Both sides in one spelling; returns the length. */
static size_t fold(struct fl_span s, char ret[static LENGTH_MAX])
{
    if (s.len > 6 && fl_span_ieq(fl_span_first(s, 6), FL_SPAN("proxy_"))) {
        s = fl_span_from(s, 6);
    }
    size_t n = s.len < LENGTH_MAX ? s.len : LENGTH_MAX;
    for (size_t i = 0; i < n; i++) {
        ret[i] = s.ptr[i] == '-' ? '_' : fl_ascii_lower(s.ptr[i]);
    }
    return n;
}

static uint8_t least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: insertions, deletions, changes and swaps of neighbours. */
static unsigned distance(const char *a, size_t an, const char *b, size_t bn)
{
    uint8_t rows[3][LENGTH_MAX + 1];
    for (size_t j = 0; j <= bn; j++) {
        rows[0][j] = (uint8_t)j;
    }
    for (size_t i = 1; i <= an; i++) {
        uint8_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *older = rows[(i + 1) % 3];
        now[0] = (uint8_t)i;
        for (size_t j = 1; j <= bn; j++) {
            uint8_t change = (uint8_t)(before[j - 1] + (a[i - 1] != b[j - 1]));
            now[j] = least(change, (uint8_t)(least(before[j], now[j - 1]) + 1));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = least(now[j], (uint8_t)(older[j - 2] + 1));
            }
        }
    }
    return rows[an % 3][bn];
}

struct fl_nearest fl_nearest_to(struct fl_span given)
{
    return (struct fl_nearest){given, NULL, 0};
}

void fl_nearest_offer(struct fl_nearest *n, const char *candidate)
{
    char a[LENGTH_MAX], b[LENGTH_MAX];
    size_t an = fold(n->given, a), bn = fold(fl_span_of(candidate), b);
    size_t longer = an > bn ? an : bn, shorter = an < bn ? an : bn;
    if (n->given.len > LENGTH_MAX || shorter == 0) {
        return;
    }
    unsigned d = distance(a, an, b, bn);
    unsigned enough = longer < 4 ? 1 : (unsigned)longer / 3;
    if (shorter >= 4 && d > 1 && memcmp(a, b, shorter) == 0) {
        d = enough < d ? enough : d; /* one is the beginning of the other: "warning" and "warn" */
    }
    if (d <= enough && d < longer && (!n->best || d < n->distance)) {
        n->best = candidate;
        n->distance = d;
    }
}
