#include "common/probe/probe_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"

#define KEY_MAX       1024
#define UNHEALTHY_MAX 100

struct fl_probe_counts { /* outlives membership: counters must not fall */
    uint64_t by_status[5];
    char backend[];
};

/* ---- all of them ---- */

void fl_probe_watches_init(struct fl_probe_watches *all, struct fl_reactor *r, uint64_t seed)
{
    all->reactor = r;
    all->round = 0;
    fl_list_init(&all->list);
    fl_smap_init(&all->by_key, seed);
    fl_smap_init(&all->by_backend, seed);
}

void fl_probe_watches_done(struct fl_probe_watches *all)
{
    size_t at = 0;
    for (struct fl_probe_counts *c; (c = fl_smap_next(&all->by_backend, &at, NULL)) != NULL;) {
        free(c);
    }
    fl_smap_done(&all->by_key);
    fl_smap_done(&all->by_backend);
}

void fl_probe_watches_unwant(struct fl_probe_watches *all)
{
    fl_list_each (it, &all->list) {
        fl_container_of(it, struct fl_probe_watch, node)->wanted = false;
    }
}

struct fl_probe_watch *fl_probe_watches_find(const struct fl_probe_watches *all,
                                             const char *backend, const char *address)
{
    char key[KEY_MAX];
    struct fl_fmt f = fl_fmt_of(key, sizeof(key));
    fl_fmt_printf(&f, "%s\n%s", backend, address);
    return f.cut ? NULL : fl_smap_get(&all->by_key, (struct fl_span){f.base, f.len});
}

bool fl_probe_watches_asked(const struct fl_probe_watches *all, const char *backend,
                            uint64_t ticket)
{
    fl_list_each (it, &all->list) {
        const struct fl_probe_watch *w = fl_container_of(it, struct fl_probe_watch, node);
        if (w->round <= ticket && fl_probe_watch_busy(w) &&
            (backend == NULL || strcmp(w->backend, backend) == 0)) {
            return true;
        }
    }
    return false;
}

bool fl_probe_watches_counts(const struct fl_probe_watches *all, const char *backend,
                             uint64_t ret[5])
{
    const struct fl_probe_counts *c = fl_smap_get(&all->by_backend, fl_span_of(backend));
    if (c != NULL) {
        memcpy(ret, c->by_status, sizeof(c->by_status));
    }
    return c != NULL;
}

static struct fl_probe_counts *counts_of(struct fl_probe_watches *all, const char *backend)
{
    struct fl_probe_counts *c = fl_smap_get(&all->by_backend, fl_span_of(backend));
    if (c != NULL) {
        return c;
    }
    size_t n = strlen(backend) + 1;
    c = calloc(1, sizeof(*c) + n);
    if (c == NULL) {
        return NULL;
    }
    memcpy(c->backend, backend, n);
    if (fl_smap_put(&all->by_backend, (struct fl_span){c->backend, n - 1}, c) < 0) {
        free(c);
        return NULL;
    }
    return c;
}

/* ---- one ---- */

/* One block: "backend\naddress\0backend\0"; the address is the end of the key. */
static char *names_of(const char *backend, const char *address)
{
    size_t nb = strlen(backend), na = strlen(address), size = 2 * nb + na + 3;
    char *names = nb + na + 2 <= KEY_MAX ? malloc(size) : NULL;
    if (names != NULL) {
        struct fl_fmt f = fl_fmt_of(names, size);
        fl_fmt_printf(&f, "%s\n%s", backend, address);
        memcpy(names + nb + na + 2, backend, nb + 1);
    }
    return names;
}

int fl_probe_watch_open(struct fl_probe_watch *w, struct fl_probe_watches *all, const char *backend,
                        const char *address, fl_probe_done_fn *done,
                        void (*next)(struct fl_timer *t))
{
    struct fl_probe_counts *counts = counts_of(all, backend);
    char *key = counts != NULL ? names_of(backend, address) : NULL;
    struct fl_probe_run *run = NULL;
    if (key == NULL || fl_probe_run_new(all->reactor, done, w, &run) < 0 ||
        fl_smap_put(&all->by_key, fl_span_of(key), w) < 0) {
        fl_probe_run_free(run);
        free(key);
        return -ENOMEM;
    }
    *w = (struct fl_probe_watch){.all = all,
                                 .counts = counts,
                                 .run = run,
                                 .backend = key + strlen(key) + 1,
                                 .address = key + strlen(backend) + 1,
                                 .key = key};
    fl_timer_init(&w->next, next);
    fl_list_append(&all->list, &w->node);
    return 0;
}

void fl_probe_watch_close(struct fl_probe_watch *w)
{
    (void)fl_smap_remove(&w->all->by_key, fl_span_of(w->key));
    fl_timer_remove(w->all->reactor, &w->next);
    fl_probe_run_free(w->run);
    fl_list_remove(&w->node);
    fl_tls_terms_give(w->terms);
    free(w->target);
    free(w->key);
}

int fl_probe_watch_define(struct fl_probe_watch *w, const struct fl_probe_target *t)
{
    bool other = w->target == NULL || w->target->fingerprint != t->fingerprint;
    if (!other && fl_probe_target_same(w->target, t)) {
        return 0;
    }
    struct fl_probe_target *copy = fl_probe_target_copy(t);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(w->target);
    w->target = copy;
    (void)fl_tls_terms_take(t->terms);
    fl_tls_terms_give(w->terms);
    w->terms = t->terms;
    return other;
}

bool fl_probe_watch_begin(struct fl_probe_watch *w)
{
    if (!fl_probe_run_start(w->run, w->target)) {
        return false;
    }
    fl_timer_off(&w->next);
    w->round = ++w->all->round;
    return true;
}

void fl_probe_watch_count(struct fl_probe_watch *w, enum fl_verdict_status s)
{
    w->unhealthy = s == FL_VERDICT_HEALTHY ? 0 : w->unhealthy + (w->unhealthy < UNHEALTHY_MAX);
    w->counts->by_status[s]++;
}
