/* remedy - what to do about a cause, by its code: one sentence for whoever is on call. Pure. */
#ifndef FL_COMMON_VERDICT_REMEDY_H
#define FL_COMMON_VERDICT_REMEDY_H

/* Never empty: a code that has no line of its own gets its family's (tls_, http_), else a general
 * one. Constant text. */
const char *fl_remedy(const char *code);

#endif
