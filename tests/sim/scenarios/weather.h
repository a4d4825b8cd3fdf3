/* weather - a random scenario out of a seed: configuration, clients, origins, and what befalls
 * them. A kind of weather says what may happen, so that something can be expected. */
#ifndef FL_TESTS_SCENARIOS_WEATHER_H
#define FL_TESTS_SCENARIOS_WEATHER_H

#include "tests/sim/scenarios/bed.h"
#include "tests/sim/scenarios/origin.h"
#include "tests/sim/scenarios/user.h"

enum weather_kind {
    WEATHER_CALM,  /* only the network is rough: every answer is whole */
    WEATHER_CROWD, /* clients are slow, rash and gone, limits are tight: no peer is to blame */
    WEATHER_STORM, /* origins break in every way too */
    WEATHER_KINDS,
};

struct weather {
    struct bed *bed;
    struct fl_rng rng;
    enum weather_kind kind;
    unsigned origins;
    unsigned fault_pct, leave_pct, slow_pct, rough_pct;
    bool s3, tight;
    bool wide;      /* large windows, and now and then a large body */
    bool repeats;   /* class I may be repeated after it was sent */
    bool bed_lifts; /* non_idempotent is listed */
    uint32_t buffer_kib, replay_kib, connections;
    char text[4096]; /* configuration */
};

/* percent */
bool weather_chance(struct weather *w, unsigned pct);
uint32_t weather_below(struct weather *w, uint32_t n);
uint32_t weather_between(struct weather *w, uint32_t from, uint32_t to);
/* Small ones mostly, sometimes up to max. */
uint32_t weather_size(struct weather *w, uint32_t max);
struct sim_path weather_path(struct weather *w);

const char *weather_config(struct weather *w); /* a new one each time; some things stay */
struct deal *weather_deal(struct weather *w);
void weather_user(struct weather *w);
void weather_event(struct weather *w);

/* The whole run; aborts when a rule is broken. Returns how many deals there were. */
unsigned weather_run(uint64_t seed, unsigned users);

#endif
