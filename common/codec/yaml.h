/* yaml - a YAML document as a node tree with places (libyaml). Only what a configuration needs:
 * anchors, aliases, tags and a second document are refused, as are tabs for indentation, NUL bytes
 * and encodings other than UTF-8; a BOM is skipped. Duplicate keys stay in the tree: whoever reads
 * it knows what a key means. JSON is read too, being YAML. No fds. */
#ifndef FL_COMMON_CODEC_YAML_H
#define FL_COMMON_CODEC_YAML_H

#include "common/base/arena.h"
#include "common/base/span.h"
#include "common/model/findings.h"
#include "common/model/node.h"

#define FL_YAML_BYTES_MAX ((size_t)4 << 20)
#define FL_YAML_DEPTH_MAX 16

/* The arena owns the tree. An empty document is a node of kind FL_NODE_NULL. NULL: refused, a
 * finding says why and where. */
struct fl_node *fl_yaml_parse(struct fl_span text, struct fl_arena *a, struct fl_findings *f);

#endif
