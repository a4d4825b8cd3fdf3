/* control_tls - the terms of the backends that want TLS: had from their files when a configuration
 * comes, given to each snapshot, made anew when a file changes.
 *
 * A backend of the file whose files cannot be used makes the configuration an invalid one. One of
 * the controller's does not: the rest of what it pushes must not wait for a file that this pod
 * lacks. Its requests then fail with a cause that says so, and the files are looked at again. */
#include <errno.h>

#include "common/model/config_check.h"
#include "common/model/directives_scope.h"
#include "sidecar/admin/control_inner.h"

#define LOOK_SECONDS 5 /* a file that has changed is taken over within that time */

static void say_problem(const struct fl_config *config, const struct fl_backend_conf *b,
                        const struct fl_tls_problem *problem, struct fl_findings *f)
{
    char place[FL_PLACE_MAX];
    struct fl_fmt out = fl_fmt_of(place, sizeof(place));
    struct fl_place top = fl_place_key(NULL, "backends"), name = fl_place_key(&top, b->name);
    struct fl_place tls = fl_place_key(&name, "tls"), key = fl_place_key(&tls, problem->key);
    fl_place_print(&key, &out);
    fl_config_check_say(config, f, FL_SEVERITY_ERROR, place, b->line, "%s", problem->text);
}

bool fl_control_tls_check(struct fl_control *c, const struct fl_config *config,
                          struct fl_findings *f)
{
    bool good = true;
    for (uint32_t i = 0; i < config->backend_count; i++) {
        const struct fl_backend_conf *b = &config->backends[i];
        struct fl_tls_problem problem;
        struct fl_tls_terms *terms;
        int rc = b->tls.on ? fl_tls_shelf_get(c->tls, &b->tls, &problem, &terms) : 0;
        if (rc == -EINVAL && b->owner == FL_OWNER_FILE) {
            say_problem(config, b, &problem, f);
        }
        good = good && (rc == 0 || (rc == -EINVAL && b->owner != FL_OWNER_FILE));
    }
    return good;
}

static void warn(struct fl_control *c, const char *msg, const char *backend,
                 const struct fl_tls_problem *problem)
{
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_WARN, msg);
    if (backend != NULL) {
        fl_log_text(&l, "backend", backend);
    }
    fl_log_text(&l, "key", problem->key);
    fl_log_text(&l, "cause", problem->text);
    fl_log_end(c->conf.log, &l);
}

/* Once for the same words: a snapshot is built often. */
static void warn_without_terms(struct fl_control *c, const char *backend,
                               const struct fl_tls_problem *problem)
{
    if (strcmp(c->tls_said, problem->text) != 0) {
        struct fl_fmt f = fl_fmt_of(c->tls_said, sizeof(c->tls_said));
        fl_fmt_text(&f, problem->text);
        warn(c, "TLS of a backend cannot be set up", backend, problem);
    }
}

void fl_control_tls_attach(struct fl_control *c, struct fl_snapshot *s)
{
    s->give_tls = fl_tls_terms_give;
    for (uint32_t i = 0; i < s->backend_count; i++) {
        struct fl_snap_backend *b = &s->backends[i];
        struct fl_tls_problem problem;
        struct fl_tls_terms *terms = NULL;
        if (!b->conf->tls.on) {
            continue;
        }
        if (fl_tls_shelf_get(c->tls, &b->conf->tls, &problem, &terms) == -EINVAL) {
            warn_without_terms(c, b->conf->name, &problem);
        }
        b->tls = fl_tls_terms_take(terms);
    }
}

static void on_file(void *arg, const char *file, const struct fl_tls_problem *problem)
{
    struct fl_control *c = arg;
    if (problem != NULL) {
        warn(c, "changed TLS file refused, the old one goes on", NULL, problem);
        return;
    }
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_INFO, "changed TLS file taken over");
    fl_log_text(&l, "file", file[0] != '\0' ? file : "the system's authorities");
    fl_log_end(c->conf.log, &l);
}

/* Is there a backend without terms that could have them now? */
static bool can_be_had(struct fl_control *c)
{
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        struct fl_tls_problem problem;
        struct fl_tls_terms *terms;
        if (b->conf->tls.on && b->tls == NULL &&
            fl_tls_shelf_get(c->tls, &b->conf->tls, &problem, &terms) == 0) {
            return true;
        }
    }
    return false;
}

void fl_control_tls_tick(struct fl_control *c)
{
    if (++c->tls_ticks % LOOK_SECONDS != 0) {
        return;
    }
    bool renewed = fl_tls_shelf_look(c->tls, on_file, c);
    if (can_be_had(c) || renewed) {
        fl_control_changed(c);
    }
}
