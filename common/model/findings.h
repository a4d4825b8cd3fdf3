/* findings - what is wrong with a configuration: place, key, remedy; several at once, in document
 * order. */
#ifndef FL_COMMON_MODEL_FINDINGS_H
#define FL_COMMON_MODEL_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/fmt.h"

enum fl_severity { FL_SEVERITY_ERROR, FL_SEVERITY_WARNING };

struct fl_finding {
    enum fl_severity severity;
    int line; /* 0 = the whole document */
    const char *text;
    struct fl_finding *next;
};

struct fl_findings {
    struct fl_arena arena;
    const char *file; /* shown before the line; "" none */
    struct fl_finding *first, *last;
    unsigned errors, warnings;
};

void fl_findings_init(struct fl_findings *f, const char *file);
void fl_findings_done(struct fl_findings *f);
void fl_findings_add(struct fl_findings *f, enum fl_severity s, int line, const char *fmt, ...)
    FL_PRINTF(4, 5);
/* "FILE:LINE: error: text" (contract.md section 2); prints one finding without newline. */
void fl_findings_print(const struct fl_findings *f, const struct fl_finding *one,
                       struct fl_fmt *out);

#endif
