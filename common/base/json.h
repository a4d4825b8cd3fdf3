/* json - writing a JSON document value by value; commas are its business. Everything else is struct
 * fl_fmt's. Reading one is common/codec/json_parse's. */
#ifndef FL_COMMON_BASE_JSON_H
#define FL_COMMON_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"

struct fl_json {
    struct fl_fmt *out;
    bool comma;
};

/* key: NULL within a list (and for the document itself). open: '{' or '['. */
void fl_json_open(struct fl_json *j, const char *key, char open);
void fl_json_close(struct fl_json *j, char close);
void fl_json_text(struct fl_json *j, const char *key, const char *value);
void fl_json_span(struct fl_json *j, const char *key, struct fl_span value);
void fl_json_int(struct fl_json *j, const char *key, int64_t value);
void fl_json_uint(struct fl_json *j, const char *key, uint64_t value);
void fl_json_bool(struct fl_json *j, const char *key, bool value);
void fl_json_null(struct fl_json *j, const char *key);
void fl_json_secs(struct fl_json *j, const char *key, int64_t ms);      /* 1.234 */
void fl_json_time(struct fl_json *j, const char *key, int64_t unix_ms); /* RFC 3339; null when 0 */

#endif
