/* lease - one leader by a Lease (coordination.k8s.io/v1), as client-go's leaderelection does it,
 * with epochs that fence. A pure machine: the caller carries out what `take` hands out and reports
 * with `answered`.
 *
 *                ┌── free: PUT, holder = me, transitions + 1 ──▶ LEADING ── PUT every 2 s ──┐
 *   CANDIDATE ───┤ held: look again in 2 to 4.4 s                 │  ▲──────────────────────┘
 *       ▲        └── none: POST a Lease without a holder          │
 *       └───────── another holder, or no success for 10 s ────────┘
 *
 * - A record counts as held for its recorded duration from the moment *we* saw it change, by our
 *   monotonic clock. What time it says is never compared with ours (client-go #448), and a record
 *   without a renewTime is held as any other (ray #63773).
 * - A term is valid for FL_LEASE_RENEW_MS from before the successful write was sent; every call
 *   ends within it (noobaa #9765). Others wait FL_LEASE_MS from after they saw that write: so there
 *   are no two leaders at once. Who was paused finds its term over at its first look at the clock.
 * - The epoch of a term is its leaseTransitions, 1 or more. Unlike client-go's, it rises by every
 *   acquisition, also by the one that led before: it is one above the highest that this process has
 *   seen in any record, led with or was told of (`raise`). A leader never writes a lower one.
 * - A Lease that does not exist is made without a holder and with transitions 0. The first epoch of
 *   such a one (whoever made it) is also above its resourceVersion: that rises with every write in
 *   the cluster, so with every term, and is not forgotten when a Lease is deleted. So the new
 *   Lease starts above all epochs of the old one, even if nobody remembers it.
 * - A resourceVersion that is no number or does not fit (above FL_LEASE_RAISE_MAX) cannot do that:
 *   then a new Lease may be taken only after it was seen unchanged for FL_LEASE_MS, when no leader
 *   of an old one can be left. What it starts below, a sidecar that knows better raises.
 * - A leader whose Lease was deleted makes it anew with its own epoch; others who saw it lead give
 *   it the time to. Only when the holder is edited by hand, or the Lease is deleted and a candidate
 *   has not seen its last holder (it was cut off, or has just started), two may lead until the
 *   older one's next renewal, FL_LEASE_RENEW_MS at most: with different epochs, the newer one's
 *   being higher (or raised as soon as it pushes), which fences.
 * - A released Lease (no holder, transitions above 0) is free at once.
 *
 * Pure; now_ms is monotonic, unix_us the wall clock, which is only written. One thread. */
#ifndef FL_CONTROLLER_DECIDE_LEASE_H
#define FL_CONTROLLER_DECIDE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/rng.h"

#define FL_LEASE_MS         15000 /* leaseDurationSeconds */
#define FL_LEASE_RENEW_MS   10000
#define FL_LEASE_RETRY_MS   2000 /* candidates: up to 1.2 times that on top, at random */
#define FL_LEASE_CALL_MS    3000
#define FL_LEASE_RELEASE_MS 2000
#define FL_LEASE_ROUND_MAX  6 /* calls without a pause, whatever the answers are */
#define FL_LEASE_HOLDER_MAX 320
#define FL_LEASE_UID_MAX    64
/* leaseTransitions is an int32; what others tell may not spend the last million of it. */
#define FL_LEASE_RAISE_MAX (INT32_MAX - 1000000)

struct fl_lease_record {
    char uid[FL_LEASE_UID_MAX];       /* of the object; not written */
    char holder[FL_LEASE_HOLDER_MAX]; /* "" nobody; a longer one is cut */
    int32_t duration_s, transitions;  /* 0: absent */
    int64_t acquire_us, renew_us;     /* since 1970; 0: absent */
    int64_t version;                  /* metadata.resourceVersion; 0: no number; not written */
};

enum fl_lease_step {
    FL_LEASE_WAIT,
    FL_LEASE_GET,
    FL_LEASE_POST,
    FL_LEASE_PUT, /* over the object that came last, with its resourceVersion */
    FL_LEASE_END, /* of a release: nothing will be asked for any more */
};

enum fl_lease_answer {
    FL_LEASE_OK,       /* with the record as the server has it now */
    FL_LEASE_GONE,     /* 404 */
    FL_LEASE_CONFLICT, /* 409 */
    FL_LEASE_FAILED,   /* anything else: also a write that may have been carried out */
};

struct fl_lease { /* embedded in the caller's; the fields are the machine's */
    char identity[FL_LEASE_HOLDER_MAX];
    struct fl_rng rng;
    enum fl_lease_step step;
    int64_t wake_ms;  /* of WAIT */
    int64_t round_ms; /* when this round of calls began */
    unsigned calls;   /* in it */
    struct {
        enum fl_lease_step step; /* WAIT: none is under way */
        int64_t sent_ms;
        int32_t transitions; /* that it writes */
        bool acquires, gives_back;
    } call;
    bool known; /* record is what the server had when we last heard */
    struct fl_lease_record record;
    int64_t observed_ms; /* since when we know it unchanged */
    int64_t held_to_ms;  /* until then another one may lead, as far as we have seen */
    int64_t top;         /* the highest epoch that we know of */
    bool leads;
    int64_t epoch, until_ms, acquired_us; /* of the term */
    bool releases;
    int64_t release_by_ms;
};

/* identity: not empty, unique to this process, shorter than FL_LEASE_HOLDER_MAX. */
void fl_lease_init(struct fl_lease *l, const char *identity, uint64_t seed, int64_t now_ms);

struct fl_lease_call {
    enum fl_lease_step step; /* GET, POST, PUT */
    int64_t timeout_ms;
    struct fl_lease_record record; /* to write */
};
/* What to do now; the caller does it and then calls `answered`, once. False: nothing now. */
bool fl_lease_take(struct fl_lease *l, int64_t now_ms, int64_t unix_us, struct fl_lease_call *ret);
/* record: of OK. retry_after_ms: what the server asked for; 0 nothing. */
void fl_lease_answered(struct fl_lease *l, enum fl_lease_answer answer,
                       const struct fl_lease_record *record, int64_t retry_after_ms,
                       int64_t now_ms);
void fl_lease_run(struct fl_lease *l, int64_t now_ms); /* time has passed; take does it, too */
int64_t fl_lease_next_ms(const struct fl_lease *l);    /* when to run; INT64_MAX: never */
int64_t fl_lease_epoch(const struct fl_lease *l,
                       int64_t now_ms); /* of our term; 0: we do not lead */

/* Somebody knows of this epoch. False: it is nonsense (0 or less, above FL_LEASE_RAISE_MAX). */
bool fl_lease_raise(struct fl_lease *l, int64_t above, int64_t now_ms);
/* Leads no more from here on. Goes on with `take` until the step is END, at most
 * FL_LEASE_RELEASE_MS; a call that is under way then has no meaning any more. */
void fl_lease_release(struct fl_lease *l, int64_t now_ms);
/* leaseTransitions is at its end: nobody with this memory can lead. */
bool fl_lease_spent(const struct fl_lease *l);

#endif
