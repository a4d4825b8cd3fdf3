#include "common/model/findings.h"

#include <stdarg.h>
#include <stdio.h>

#define MEMORY_MAX   ((size_t)1 << 20)
#define FINDINGS_MAX 200 /* shown; all are counted */

void fl_findings_init(struct fl_findings *f, const char *file)
{
    *f = (struct fl_findings){.file = ""};
    fl_arena_init(&f->arena, MEMORY_MAX);
    const char *copy = file ? fl_arena_text(&f->arena, fl_span_of(file)) : NULL;
    f->file = copy ? copy : "";
}

void fl_findings_done(struct fl_findings *f)
{
    fl_arena_done(&f->arena);
    *f = (struct fl_findings){.file = ""};
}

/* Document order: the whole document's findings (line 0) come last, equal lines in the order they
 * were found. */
static void insert(struct fl_findings *f, struct fl_finding *one)
{
    struct fl_finding **at = &f->first;
    if (f->last && (one->line == 0 || (f->last->line != 0 && f->last->line <= one->line))) {
        at = &f->last->next;
    } else {
        while (*at && (*at)->line != 0 && (one->line == 0 || (*at)->line <= one->line)) {
            at = &(*at)->next;
        }
    }
    one->next = *at;
    *at = one;
    if (!one->next) {
        f->last = one;
    }
}

/* Keys and values come from outside: nothing of them may steer a terminal or break a log line. */
static void keep_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

void fl_findings_add(struct fl_findings *f, enum fl_severity s, int line, const char *fmt, ...)
{
    unsigned *count = s == FL_SEVERITY_ERROR ? &f->errors : &f->warnings;
    ++*count;
    if (f->errors + f->warnings > FINDINGS_MAX) {
        return;
    }
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n < 0) {
        text[0] = '\0';
    }
    keep_printable(text);
    struct fl_finding *one = fl_arena_alloc(&f->arena, sizeof(*one));
    const char *copy = fl_arena_text(&f->arena, fl_span_of(text));
    if (!one || !copy) {
        return; /* counted, so the document is refused all the same */
    }
    *one = (struct fl_finding){s, line, copy, NULL};
    insert(f, one);
}

void fl_findings_print(const struct fl_findings *f, const struct fl_finding *one,
                       struct fl_fmt *out)
{
    if (f->file[0]) {
        fl_fmt_text(out, f->file);
        fl_fmt_char(out, ':');
        if (one->line > 0) {
            fl_fmt_int(out, one->line);
            fl_fmt_char(out, ':');
        }
        fl_fmt_char(out, ' ');
    } else if (one->line > 0) {
        fl_fmt_printf(out, "line %d: ", one->line);
    }
    fl_fmt_text(out, one->severity == FL_SEVERITY_ERROR ? "error: " : "warning: ");
    fl_fmt_text(out, one->text);
}
