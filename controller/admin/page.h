/* page - a JSON document written value by value; commas are its business. */
#ifndef FL_CONTROLLER_ADMIN_PAGE_H
#define FL_CONTROLLER_ADMIN_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"

struct fl_page {
    struct fl_fmt *out;
    bool comma;
};

/* key: NULL within a list, and for the document itself. open: '{' or '['. */
void fl_page_open(struct fl_page *p, const char *key, char open);
void fl_page_close(struct fl_page *p, char close);
void fl_page_text(struct fl_page *p, const char *key, const char *value);
void fl_page_int(struct fl_page *p, const char *key, int64_t value);
void fl_page_bool(struct fl_page *p, const char *key, bool value);
void fl_page_secs(struct fl_page *p, const char *key, int64_t ms);      /* 1.234 */
void fl_page_time(struct fl_page *p, const char *key, int64_t unix_ms); /* RFC 3339; null when 0 */

#endif
