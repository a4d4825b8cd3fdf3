/* push_signer - heads of pushes, signed on a thread of their own: a signature takes as long as all
 * else of a push. Jobs are done in the order in which they were asked for, and their ends told on
 * the reactor's thread, where all functions are called from. */
#ifndef FL_CONTROLLER_PUSH_PUSH_SIGNER_H
#define FL_CONTROLLER_PUSH_PUSH_SIGNER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/io/reactor.h"
#include "common/sign/sign_key.h"
#include "controller/push/push_head.h"

struct fl_push_signer;
struct fl_push_job; /* lives until it is given back */

/* rc: 0 or -errno. */
typedef void fl_push_signed_fn(void *arg, int rc);

FL_MUST_USE int fl_push_signer_new(struct fl_reactor *r, struct fl_push_signer **ret);
/* Waits for the signature that is just being made; all others are never made. Every job was given
 * back. Accepts NULL, returns NULL. */
struct fl_push_signer *fl_push_signer_free(struct fl_push_signer *s);

/* What `of` points to is copied; the key is held until the job has ended. 0, -ENOMEM, -EINVAL (it
 * is too long). */
FL_MUST_USE int fl_push_signer_ask(struct fl_push_signer *s, struct fl_sign_key *key,
                                   const struct fl_push_head *of, fl_push_signed_fn *done,
                                   void *arg, struct fl_push_job **ret);
/* Of a job whose done was called with 0; lives as long as the job. */
struct fl_span fl_push_job_text(const struct fl_push_job *job);
/* Its done is not called any more. *job becomes NULL; it may have been. */
void fl_push_job_give(struct fl_push_job **job);

#endif
