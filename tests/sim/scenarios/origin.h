/* origin - a scripted backend: decodes requests with common/http1, does what the deal's plan says,
 * and keeps the ledger. It answers one request at a time; a second one before the end of the first
 * is a broken rule. */
#ifndef FL_TESTS_SCENARIOS_ORIGIN_H
#define FL_TESTS_SCENARIOS_ORIGIN_H

#include "tests/sim/scenarios/bed.h"

/* What befalls a connection before any request is known. */
enum origin_fault {
    ORIGIN_WELL,
    ORIGIN_RST_AFTER, /* so many bytes, 0: at once */
    ORIGIN_DEAF,      /* accepts, reads nothing */
    ORIGIN_CUT,       /* the cable, at once */
    ORIGIN_FIN_IDLE,  /* closes after at ms of idleness */
    ORIGIN_RST_IDLE,
};

struct origin {
    struct bed *bed;
    unsigned index;
    char address[24];
    bool listening;
    enum origin_fault fault;
    uint32_t fault_at;    /* bytes, or ms */
    unsigned fault_times; /* connections that it befalls; 0: none */
    int (*misfortune)(struct origin *o, uint32_t *ret_at); /* or: asked for each connection */
    void *weather;                                         /* for misfortune */
    struct fl_list servings;                               /* open connections */
    unsigned conns, conns_made, requests;
};

/* 10.0.0.<index+1>:9000 */
struct origin *origin_new(struct bed *b, unsigned index);
void origin_stop(struct origin *o); /* refuses from now on; open connections stay */
void origin_start(struct origin *o);
void origin_path(struct origin *o, const struct sim_path *path);
void origin_connect(struct origin *o, enum sim_connect how);
void origin_free(struct origin *o);

#endif
