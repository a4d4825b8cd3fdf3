/* event_json - Events (events.k8s.io/v1) as the API server takes them: eventTime with six digits,
 * metadata.namespace equal to regarding.namespace ("default" for what belongs to no namespace), a
 * series from two on. No fds. */
#ifndef FL_CONTROLLER_CODEC_EVENT_JSON_H
#define FL_CONTROLLER_CODEC_EVENT_JSON_H

#include "common/base/fmt.h"
#include "controller/decide/event_series.h"

#define FL_EVENT_CONTROLLER   "fairlead.dev/controller" /* reportingController */
#define FL_EVENT_INSTANCE_MAX 128                       /* bytes; the API server's limit */
#define FL_EVENT_JSON_MAX     ((size_t)16 << 10)        /* room enough for any */

const char *fl_event_json_namespace(const struct fl_event_write *w);
/* instance: not empty; the first 128 bytes of it. */
void fl_event_json_new(const struct fl_event_write *w, const char *instance, struct fl_fmt *out);
void fl_event_json_patch(const struct fl_event_write *w, struct fl_fmt *out); /* a merge patch */

#endif
