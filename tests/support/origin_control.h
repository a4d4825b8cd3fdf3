/* origin_control - the HTTP control port; the commands are listed in origin_control.c. */
#ifndef FL_TESTS_ORIGIN_CONTROL_H
#define FL_TESTS_ORIGIN_CONTROL_H

#include "tests/support/origin.h"

void fl_origin_control_accept(struct fl_origin *o, int fd);
bool fl_origin_control_set(struct fl_origin *o,
                           struct fl_span line); /* "name=value" of fl_origin_settings */

#endif
