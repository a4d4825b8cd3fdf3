/* state_file - the last good push on disk, so that a restart serves with the controller away
 * (crash-only: behaviour.md section 7). Written atomically (temporary file, fsync, rename); a file
 * that is not whole is told from a good one by its check sum, which guards against accidents, not
 * against somebody who may write there. Control thread; blocks. */
#ifndef FL_SIDECAR_ADMIN_STATE_FILE_H
#define FL_SIDECAR_ADMIN_STATE_FILE_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"

struct fl_saved_state {
    int64_t epoch, seq, saved_unix_ms;
    struct fl_span keys; /* PEM texts in force because a push brought them; empty: none did */
    struct fl_span body; /* of the last accepted push */
    char *memory;        /* what read allocated; keys and body point into it */
};

/* 0 or -errno; the old file stays when it fails. */
FL_MUST_USE int fl_state_file_write(const char *path, const struct fl_saved_state *s);
/* 0, -ENOENT, -EBADMSG (not whole, not ours, a version we do not know), -EFBIG, another -errno. */
FL_MUST_USE int fl_state_file_read(const char *path, struct fl_saved_state *ret);
void fl_saved_state_done(struct fl_saved_state *s);

#endif
