/* fanout_inner - the fan-out, as the files of this folder see it. Nobody outside includes this. */
#ifndef FL_CONTROLLER_PUSH_FANOUT_INNER_H
#define FL_CONTROLLER_PUSH_FANOUT_INNER_H

#include "common/base/arena.h"
#include "common/base/smap.h"
#include "controller/decide/push_plan.h"
#include "controller/push/edition.h"
#include "controller/push/fanout.h"
#include "controller/push/key_ring.h"
#include "controller/push/push_answer.h"
#include "controller/push/push_head.h"
#include "controller/push/push_judge.h"
#include "controller/push/push_line.h"
#include "controller/push/push_signer.h"

#define FL_SIDECAR_ANSWER_MAX_BYTES ((size_t)8 << 20)

/* The state of one configuration; its targets are in the group. */
struct fl_configuration {
    struct fl_push_group group;
    struct fl_state *state;     /* the newest; NULL: none was offered */
    int64_t aged_at_ms;         /* when the ages of its verdicts were right */
    struct fl_edition *edition; /* the last one made */
    char key[];
};

struct fl_sidecar {
    struct fl_push_target target;
    struct fl_fanout *owner;
    struct fl_configuration *configuration;
    const char *address, *id, *namespace, *name, *node; /* into text */
    struct fl_span key;                                 /* address, NUL, id */
    uint32_t at;                                        /* in fl_fanout.sidecars */
    uint64_t mark;                                      /* of the list that it was last in */
    uint64_t signer;            /* serial of the key that it is known to take */
    struct fl_edition *edition; /* of the push in flight */
    struct fl_push_job *job;    /* its head, to the end of it */
    struct fl_push_line *line;  /* NULL: none is open */
    bool reached;               /* ever */
    bool told;                  /* people were told that it is unreachable */

    /* of the last good answer */
    int64_t acked_epoch, acked_seq, acked_unix_ms;
    char *answer; /* its bytes; observations are made of them for who looks, and live for a turn */
    size_t answer_len, answer_cap;
    struct fl_list looked; /* of fl_fanout.looked: `arena` has the observations */
    struct fl_arena arena;
    struct fl_push_answer seen;

    /* of the failures in a row */
    struct fl_cause *error; /* NULL: none, or no memory for it; thousands are well */
    const char *hint;
    int64_t failing_since_ms;
    char text[];
};

struct fl_fanout {
    struct fl_fanout_conf conf;
    struct fl_push_signer *signer;
    struct fl_push_lines *lines;
    struct fl_push_plan plan;
    struct fl_timer timer;
    struct fl_task turn_end, forget;
    struct fl_list looked; /* sidecars whose observations somebody has seen in this turn */
    struct fl_task met;    /* tells of `used` */
    int64_t timeout_ms;
    int64_t drop_kept_ms; /* when kept lines are closed; INT64_MAX: there are none */
    uint32_t keep_most;
    int64_t told_epoch; /* the highest that epoch_met was called with */
    struct fl_key_ring ring;
    int64_t teach_until_ms, teach_look_ms; /* the latter INT64_MAX: not teaching */
    struct fl_smap configurations;         /* by key, "" too */
    struct fl_configuration *plain;        /* ""; always there */
    struct fl_smap by_key;                 /* sidecars */
    struct fl_sidecar **sidecars;
    uint32_t count, cap;
    uint64_t mark;
    uint64_t totals[FL_PUSH_RESULT_COUNT];
};

/* Never NULL; empty while the last push was good. */
static inline const struct fl_cause *fl_sidecar_error(const struct fl_sidecar *s)
{
    static const struct fl_cause none;
    return s->error != NULL ? s->error : &none;
}

static inline int64_t fl_fanout_now_ms(const struct fl_fanout *f)
{
    return fl_reactor_now_ms(f->conf.reactor);
}

/* At the end of this turn: sends what may be sent then, and sets the timer. */
void fl_fanout_drive_later(struct fl_fanout *f);
/* Breaks off the push in flight, if any; nothing is reported for it. */
void fl_fanout_break_off(struct fl_sidecar *s);
void fl_fanout_fill_view(const struct fl_sidecar *s, struct fl_fanout_view *ret);
void fl_fanout_free_targets(struct fl_fanout *f); /* all of them */
/* Keeps the bytes of its last good answer; without memory for them it has said nothing. */
void fl_fanout_keep_answer(struct fl_sidecar *s, struct fl_span body);
void fl_fanout_forget_looked(struct fl_fanout *f); /* the observations that were made for a look */

/* Makes it where it is not known. NULL: no memory. */
struct fl_configuration *fl_fanout_take_configuration(struct fl_fanout *f, const char *key);
struct fl_configuration *fl_fanout_find_configuration(const struct fl_fanout *f, const char *key);
/* Forgets it if it has no target and is not "". */
void fl_fanout_let_go(struct fl_fanout *f, struct fl_configuration *c);
void fl_fanout_sweep_configurations(struct fl_fanout *f);
void fl_fanout_free_configurations(struct fl_fanout *f);
/* The body of the group's newest edition; NULL: no memory. */
struct fl_edition *fl_fanout_edition(struct fl_fanout *f, struct fl_configuration *c);

/* Keeps the cause, and tells people what is worth telling, once. `sent` is the epoch of the push.
 */
void fl_fanout_say(const struct fl_log *log, struct fl_sidecar *s,
                   const struct fl_push_judgement *j, enum fl_push_lesson lesson, int64_t sent,
                   int64_t now_ms);

#endif
