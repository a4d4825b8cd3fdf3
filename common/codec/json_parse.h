/* json_parse - a JSON document (RFC 8259) as the same node tree as yaml.h (json-c). Strings are
 * quoted scalars; there are no places, so lines are 0 and messages name paths. A key that stands
 * twice in one object: the last one counts (json-c keeps no other); single quotes for double ones
 * are let pass, as json-c does even when strict. No fds. */
#ifndef FL_COMMON_CODEC_JSON_PARSE_H
#define FL_COMMON_CODEC_JSON_PARSE_H

#include "common/base/arena.h"
#include "common/base/span.h"
#include "common/model/findings.h"
#include "common/model/node.h"

#define FL_JSON_BYTES_MAX   ((size_t)1 << 20)
#define FL_JSON_DEPTH_MAX   16
#define FL_JSON_OBJECTS_MAX 32768u /* objects and arrays: each costs json-c some 700 bytes */

/* The arena owns the tree. NULL: refused, a finding says why. */
struct fl_node *fl_json_parse(struct fl_span text, struct fl_arena *a, struct fl_findings *f);

#endif
