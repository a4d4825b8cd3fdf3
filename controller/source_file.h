/* source_file - membership without a cluster: the document behind `source: file:PATH`, read at the
 * start and again whenever it changes.
 *
 * A change is seen by inotify on the directory (a file that was written and closed, a rename over
 * it, a link that was swapped, also the `..data` link of a mounted ConfigMap), and by a look every
 * 5 s in any case, which takes a change only when it has come to rest. A file that is being written
 * is not read.
 *
 * A document that is broken, or a file that is gone, changes nothing: the last good one stays in
 * force, its age grows, and each distinct fault is logged once. One thread: the reactor's; reading
 * blocks. */
#ifndef FL_CONTROLLER_SOURCE_FILE_H
#define FL_CONTROLLER_SOURCE_FILE_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/model/services.h"

struct fl_source_file;

#define FL_SOURCE_FILE_LOOK_MS 5000

struct fl_source_file_conf {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    const char *path; /* must outlive the source */
    int64_t look_ms;  /* FL_SOURCE_FILE_LOOK_MS; tests have less time */
    /* Another good document is in force. Never called from within new. */
    void (*changed)(void *arg);
    void *arg;
};

/* Nothing is read yet. Without inotify (no more instances, say) the look every 5 s has to do, which
 * is logged. 0 or -ENOMEM. */
FL_MUST_USE int fl_source_file_new(const struct fl_source_file_conf *conf,
                                   struct fl_source_file **ret);
struct fl_source_file *
fl_source_file_free(struct fl_source_file *s);      /* accepts NULL, returns NULL */
void fl_source_file_look(struct fl_source_file *s); /* reads now, whether it changed or not */

/* The last good document; NULL: there was none so far. Lives until the next changed has returned.
 */
const struct fl_services *fl_source_file_services(const struct fl_source_file *s);
/* Since the document in force was last seen to be what the file says; at most about 5 s while all
 * is well; since new when there is none. */
int64_t fl_source_file_age_ms(const struct fl_source_file *s);
int64_t fl_source_file_read_unix_ms(const struct fl_source_file *s); /* 0: never */
const char *fl_source_file_fault(const struct fl_source_file *s);    /* "" while all is well */

#endif
