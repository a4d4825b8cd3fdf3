/* findings_kit - the findings of one test of a decoder, and their text. Include once per binary,
 * after cmocka; begin and end are setup and teardown. */
#ifndef FL_TESTS_FINDINGS_KIT_H
#define FL_TESTS_FINDINGS_KIT_H

#include "common/model/findings.h"

static struct fl_findings f;

static int begin(void **state)
{
    (void)state;
    fl_findings_init(&f, "f");
    return 0;
}

static int end(void **state)
{
    (void)state;
    fl_findings_done(&f);
    return 0;
}

static const char *findings(void)
{
    static char said[8192];
    struct fl_fmt out = fl_fmt_of(said, sizeof(said));
    for (const struct fl_finding *i = f.first; i; i = i->next) {
        fl_findings_print(&f, i, &out);
        fl_fmt_char(&out, '\n');
    }
    return said;
}

#endif
