/* json_walk - reads a JSON text in place, value by value, without a tree: for documents of which
 * little is wanted. The caller steps through the members that it knows and skips the others.
 *
 *   if (fl_json_walk_object(&w)) {
 *       while (fl_json_walk_member(&w, &key)) {
 *           ... exactly one of text, raw, int, bool, object, list or skip ...
 *       }
 *   }
 *
 * A fault (not JSON, a value of another kind, no memory) is sticky: every later step says "nothing
 * more", so it is asked for once, at the end. null is the same as an absent value. What is skipped
 * is checked for its brackets and strings only. No fds. */
#ifndef FL_CONTROLLER_CODEC_JSON_WALK_H
#define FL_CONTROLLER_CODEC_JSON_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/span.h"

struct fl_json_walk {
    const char *at, *end;
    bool fresh;      /* just inside a bracket: no comma is due */
    bool spares_nul; /* the caller's: a NUL becomes U+FFFD too */
    int fault;       /* 0, -EBADMSG, -ENOMEM */
    struct fl_arena *arena;
};

/* The arena owns the texts that are read; NULL when none will be. */
struct fl_json_walk fl_json_walk_of(struct fl_span text, struct fl_arena *arena);
/* The caller's own fault: nothing more follows. */
void fl_json_walk_fail(struct fl_json_walk *w, int fault);
/* Enters an object or a list; false for null and faults. */
bool fl_json_walk_object(struct fl_json_walk *w);
bool fl_json_walk_list(struct fl_json_walk *w);
/* The next one; false behind the last, which is left then. Keys are as written between the quotes.
 */
bool fl_json_walk_member(struct fl_json_walk *w, struct fl_span *ret_key);
bool fl_json_walk_element(struct fl_json_walk *w);
void fl_json_walk_skip(struct fl_json_walk *w);
/* A string as written between the quotes, escapes as they are; empty for null and faults. */
struct fl_span fl_json_walk_raw(struct fl_json_walk *w);
/* A string, or what raw gave, unescaped; a \u of half a pair becomes U+FFFD, a NUL is a fault
 * unless it is spared. "" for null and faults. */
const char *fl_json_walk_text(struct fl_json_walk *w);
const char *fl_json_walk_unescape(struct fl_json_walk *w, struct fl_span raw);
/* A whole number. 0 for null and faults. */
int64_t fl_json_walk_int(struct fl_json_walk *w);
/* Anything but null stands here; nothing is taken. */
bool fl_json_walk_given(struct fl_json_walk *w);
/* true or false into *ret; false, and *ret as it was, for null and faults. */
bool fl_json_walk_bool(struct fl_json_walk *w, bool *ret);
/* Elements of the list that stands here; nothing is taken. */
uint32_t fl_json_walk_count(const struct fl_json_walk *w);
/* Room in the arena, zeroed; NULL: count is 0, or no memory, which is a fault then. */
void *fl_json_walk_room(struct fl_json_walk *w, uint32_t count, size_t size);
/* The fault; -EBADMSG also when something stands behind the value. */
FL_MUST_USE int fl_json_walk_end(struct fl_json_walk *w);

#endif
