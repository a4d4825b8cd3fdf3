/* lease_json - a Lease (coordination.k8s.io/v1) from and to JSON (json-c). No fds.
 *
 * What the API server insists on: times with exactly six digits of a fraction (else 400), and in a
 * replacement the resourceVersion that was read (absent: 422; an old one: 409). */
#ifndef FL_CONTROLLER_CODEC_LEASE_JSON_H
#define FL_CONTROLLER_CODEC_LEASE_JSON_H

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"
#include "controller/decide/lease.h"

#define FL_LEASE_JSON_BYTES_MAX ((size_t)1 << 20)

/* 0, -EBADMSG (no Lease, or a field of a wrong kind), -ENOMEM. *ret is touched on 0 only. A time
 * that cannot be read counts as absent. */
FL_MUST_USE int fl_lease_json_decode(struct fl_span json, struct fl_lease_record *ret);

/* A new one. */
void fl_lease_json_new(const char *namespace, const char *name, const struct fl_lease_record *r,
                       struct fl_fmt *out);
/* The object as it was read, with r's fields in the place of its own; labels, annotations,
 * resourceVersion and what we do not know stay. In the arena. 0, -EBADMSG, -ENOMEM. */
FL_MUST_USE int fl_lease_json_replace(struct fl_span last, const struct fl_lease_record *r,
                                      struct fl_arena *a, struct fl_span *ret);

#endif
