/* json_scan - where a JSON object or list ends, in bytes that come split anywhere. Reads strings,
 * escapes and nesting and nothing else: what lies between is not looked at, which makes passing
 * over a subtree cheap. No fds. */
#ifndef FL_CONTROLLER_CODEC_JSON_SCAN_H
#define FL_CONTROLLER_CODEC_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/span.h"

#define FL_JSON_SCAN_DEPTH_MAX 64u

struct fl_json_scan { /* zeroed: before the first byte, which must be '{' or '[' */
    uint64_t kinds;   /* a bit per open bracket, the innermost lowest: 1 an object */
    unsigned depth;
    bool in_text, escaped;
};

enum fl_json_scan_step {
    FL_JSON_SCAN_MORE, /* all bytes are its, and it goes on */
    FL_JSON_SCAN_DONE,
    FL_JSON_SCAN_BAD, /* brackets that do not match, or too deep */
};

/* *ret_taken: how many of the bytes belong to the value; of a bad one, those before the fault. */
enum fl_json_scan_step fl_json_scan_run(struct fl_json_scan *s, struct fl_span bytes,
                                        size_t *ret_taken);

#endif
