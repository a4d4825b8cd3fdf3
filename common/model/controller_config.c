#include "common/model/controller_config.h"

#include <stdlib.h>

#include "common/base/addr.h"
#include "common/model/config_check.h"
#include "common/model/directives.h"
#include "common/model/directives_scope.h"
#include "common/model/directives_show.h"

struct fl_controller_config *fl_controller_config_new(void)
{
    struct fl_controller_config *c = calloc(1, sizeof(*c));
    struct fl_config *cluster = c ? fl_config_new() : NULL;
    if (!cluster) {
        free(c);
        return NULL;
    }
    c->cluster = cluster;
    fl_scope_default(&cluster->arena, FL_SCOPE_CONTROLLER, false, c);
    return c;
}

struct fl_controller_config *fl_controller_config_free(struct fl_controller_config *c)
{
    if (c) {
        fl_config_free(c->cluster);
        free(c);
    }
    return NULL;
}

bool fl_controller_config_read(const struct fl_node *root, struct fl_controller_config *c,
                               struct fl_findings *f)
{
    struct fl_reading r = {c->cluster, &c->cluster->arena, f, FL_ORIGIN_FILE, FL_IN_CONTROLLER};
    unsigned before = f->errors;
    if (!root) {
        return false;
    }
    if (root->kind != FL_NODE_NULL) {
        fl_scope_read(&r, NULL, FL_SCOPE_CONTROLLER, root, c);
    }
    return f->errors == before;
}

void fl_controller_config_default_probe(const struct fl_controller_config *c,
                                        struct fl_backend_conf *b)
{
    uint64_t interval = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PROBE, "interval"));
    uint64_t timeout = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PROBE, "timeout"));
    uint64_t probe = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_BACKEND, "probe"));
    b->probe.interval_ms =
        b->probe.set & interval ? b->probe.interval_ms : c->probe_defaults.interval_ms;
    b->probe.timeout_ms =
        b->probe.set & timeout ? b->probe.timeout_ms : c->probe_defaults.timeout_ms;
    b->probe.set |= interval | timeout;
    b->set |= probe;
}

void fl_controller_config_finish(struct fl_controller_config *c)
{
    fl_directives_finish(c->cluster);
    for (uint32_t i = 0; i < c->cluster->backend_count; i++) {
        fl_controller_config_default_probe(c, &c->cluster->backends[i]);
    }
}

static void check_source(const struct fl_controller_config *c, struct fl_findings *f)
{
    const struct fl_config *k = c->cluster;
    if (!c->source_file[0] && c->sidecar_count > 0) {
        fl_config_check_say(k, f, FL_SEVERITY_WARNING, "sidecars", 0,
                            "means nothing with source kubernetes, where labelled pods are found");
    }
    if (!c->source_file[0] && k->route_count > 0) {
        fl_config_check_say(
            k, f, FL_SEVERITY_WARNING, "routes", 0,
            "means nothing with source kubernetes, where pods bring their own in annotations");
    }
    if (c->source_file[0] && c->sidecar_count == 0) {
        fl_config_check_say(k, f, FL_SEVERITY_WARNING, "sidecars", 0,
                            "there are none, so nothing is pushed");
    }
    if (c->source_file[0] &&
        !c->push.signing_key_file[0]) { /* in a cluster the key is made and kept in a Secret */
        fl_config_check_say(k, f, FL_SEVERITY_WARNING, "push.signing_key_file", 0,
                            "is empty, so nothing can be pushed");
    }
    for (uint32_t i = 0; i < c->sidecar_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (c->sidecars[i].address[0] &&
                strcmp(c->sidecars[i].address, c->sidecars[j].address) == 0) {
                fl_config_check_say(k, f, FL_SEVERITY_ERROR, "sidecars", 0,
                                    "\"%s\" is listed twice", c->sidecars[i].address);
                break;
            }
        }
    }
}

static void write_document(const void *what, struct fl_fmt *out)
{
    const struct fl_controller_config *c = what;
    fl_show_document(FL_SCOPE_CONTROLLER, c, c->cluster, false, out);
}

bool fl_controller_config_check(struct fl_controller_config *c, struct fl_findings *f)
{
    const struct fl_own_listener own[] = {{"listen.admin", c->listen.admin},
                                          {"listen.status", c->listen.status},
                                          {"listen.webhook", c->listen.webhook}};
    unsigned before = f->errors;
    fl_config_check_listen(c->cluster, own, FL_COUNTOF(own), f);
    check_source(c, f);
    fl_config_check_backends(c->cluster, own, FL_COUNTOF(own), f);
    fl_config_check_routes(c->cluster, f);
    c->hash = fl_show_hash_of(write_document, c, FL_SHOW_ABOUT);
    if (c->hash == 0) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "out of memory");
    }
    return f->errors == before;
}

void fl_controller_config_show(const struct fl_controller_config *c, struct fl_fmt *out)
{
    write_document(c, out);
}
