/* directives_field - a row's field in its struct: width, load, store, and the numbers behind its
 * text. For the files of this folder. Pure. */
#ifndef FL_COMMON_MODEL_DIRECTIVES_FIELD_H
#define FL_COMMON_MODEL_DIRECTIVES_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/span.h"
#include "common/model/directives_table.h"

enum fl_parsed { FL_PARSED, FL_NOT_OF_TYPE, FL_NOT_IN_RANGE };

static inline void *fl_field_of(void *base, size_t offset)
{
    return (char *)base + offset;
}

static inline const void *fl_field_at(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

static inline bool fl_field_is_text(enum fl_type t) /* const char * */
{
    return t >= FL_TYPE_TEXT && t <= FL_TYPE_SOURCE;
}

static inline bool fl_field_is_texts(enum fl_type t) /* struct fl_strings */
{
    return t == FL_TYPE_TEXTS || t == FL_TYPE_LISTENS;
}

size_t fl_field_width(enum fl_type t); /* of plain types */
/* Numbers, truth values, words and masks. */
int64_t fl_field_load(const struct fl_directive *d, const void *base);
void fl_field_store(const struct fl_directive *d, void *base, int64_t v);
enum fl_parsed fl_field_parse(const struct fl_directive *d, struct fl_span s, bool quoted,
                              int64_t *ret);
/* `off`, also as YAML 1.1 writes it back: as a bare `false`. */
bool fl_field_is_off(struct fl_span s, bool quoted);
/* One word of a condition list to its FL_ON_* bit; 0: unknown. */
uint32_t fl_field_condition(struct fl_span word);

#endif
