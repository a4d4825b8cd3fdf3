/* kube_stream - the answers of the Kubernetes API to list and watch, an object at a time: a list's
 * `items`, or a watch's lines {"type":…,"object":…}. Bytes come as they arrive, split anywhere;
 * what is held is one object at most, never the whole list.
 *
 * Only as much JSON is read here as splitting needs (strings, escapes, nesting); each object is
 * handed on as its text and decoded by kube_decode. No fds. */
#ifndef FL_CONTROLLER_CODEC_KUBE_STREAM_H
#define FL_CONTROLLER_CODEC_KUBE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/check.h"
#include "common/base/span.h"

#define FL_KUBE_OBJECT_MAX_BYTES ((size_t)4 << 20)

enum fl_kube_form { FL_KUBE_LIST, FL_KUBE_WATCH };
enum fl_kube_event {
    FL_KUBE_ADDED, /* of a list too */
    FL_KUBE_MODIFIED,
    FL_KUBE_DELETED,
    FL_KUBE_BOOKMARK,
    FL_KUBE_ERROR,   /* the object is a Status */
    FL_KUBE_UNKNOWN, /* a type of the future: skip and count */
};

struct fl_kube_stream;
/* The text lives until the function returns. False: stop here; feed then gives -ECANCELED. */
typedef bool fl_kube_object_fn(void *arg, enum fl_kube_event event, struct fl_span object);

FL_MUST_USE struct fl_kube_stream *fl_kube_stream_new(enum fl_kube_form form, size_t object_max,
                                                      fl_kube_object_fn *object, void *arg);
struct fl_kube_stream *fl_kube_stream_free(struct fl_kube_stream *s);
/* 0, -EBADMSG (not what the API sends), -EMSGSIZE (an object above object_max), -ENOMEM,
 * -ECANCELED. After an error the stream is of no more use. */
FL_MUST_USE int fl_kube_stream_feed(struct fl_kube_stream *s, struct fl_span bytes);
/* A list is whole (its closing brace was seen). A watch is whole between two lines. */
bool fl_kube_stream_whole(const struct fl_kube_stream *s);
/* A list's metadata.resourceVersion and metadata.continue; "" before they were seen (metadata may
 * stand behind the items). */
const char *fl_kube_stream_version(const struct fl_kube_stream *s);
const char *fl_kube_stream_continue(const struct fl_kube_stream *s);

#endif
