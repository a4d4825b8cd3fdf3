/* bed_rules - inside of the bed: what it reads from the log, and what must hold while a scenario
 * runs and when it is over. */
#ifndef FL_TESTS_SCENARIOS_BED_RULES_H
#define FL_TESTS_SCENARIOS_BED_RULES_H

#include "tests/sim/scenarios/bed.h"

void bed_watch_logs(struct bed *b); /* NULL: no longer */
void bed_rules_running(struct bed *b);
/* Who is still there, on stderr. */
void bed_rules_show(const struct bed *b);
/* Everybody has left and everything idle has timed out. */
void bed_rules_over(struct bed *b);
/* The part of it that holds even when everything was cut. */
void bed_rules_left(const struct bed *b);

#endif
