#include "common/tls/tls_problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int fl_tls_problem_set(struct fl_tls_problem *p, const char *key, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    p->key = key;
    if (vsnprintf(p->text, sizeof p->text, fmt, args) < 0) {
        p->text[0] = '\0';
    }
    va_end(args);
    return -EINVAL;
}
