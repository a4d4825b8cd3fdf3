/* probe_keys - the keys of a signed probe, out of the two files that the configuration names. Read
 * anew for each probe: a rotated Secret counts at once. Blocks for two small reads; the control
 * thread. */
#ifndef FL_COMMON_PROBE_PROBE_KEYS_H
#define FL_COMMON_PROBE_PROBE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sign/s3_sign.h"

#define FL_PROBE_ACCESS_MAX 128

struct fl_probe_keys {
    char access_key[FL_PROBE_ACCESS_MAX + 1]; /* "": none, the probe is anonymous */
    char secret_key[FL_S3_SECRET_MAX + 1];
    uint64_t hash; /* of both; 0 when there are none */
};

/* White space around a key is not part of it. False: a file cannot be read, or holds no key; then
 * there are none, and why is a text for people ("secret_key_file: No such file or directory"). No
 * names, or only empty ones, is no fault. */
bool fl_probe_keys_read(const char *access_key_file, const char *secret_key_file,
                        struct fl_probe_keys *ret, char why[96]);
void fl_probe_keys_forget(struct fl_probe_keys *k); /* wipes them */

#endif
