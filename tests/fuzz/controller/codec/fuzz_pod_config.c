/* Any annotations: findings, never a crash; the state that comes of them is one that a sidecar
 * decodes and takes; and one annotation never changes the route of another. The input is
 * KEY=VALUE, with a NUL byte between two. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/config_yaml.h"
#include "common/codec/state_json.h"
#include "common/model/directives_show.h"
#include "controller/codec/pod_config.h"
#include "controller/decide/annotation_key.h"
#include "controller/decide/compose.h"
#include "controller/decide/membership.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ANNOTATIONS_MAX 24

static const char cluster_text[] =
    "backends:\n"
    "  minio: {service: {namespace: storage, name: minio, port: s3}}\n"
    "  web: {protocol: http, peers: [{address: '10.3.0.1:80'}]}\n"
    "  archive: {peers: [{address: '10.4.0.1:9000'}]}\n"
    "routes: {common: archive, 'a@b': web, '*': minio}\n";
static const char services_text[] =
    "services:\n"
    "  storage/minio: {ports: {s3: 9000}, endpoints: [{address: 10.1.0.1}, {address: 10.1.0.2}]}\n"
    "  shop/minio: {ports: {s3: 9000}, endpoints: [{address: 10.2.0.1}, {address: 'fd00::1'}]}\n";

static struct fl_controller_config *controller;
static struct fl_services *services;
static struct fl_verdict_table verdicts;

struct annotations {
    char *text; /* a NUL at each '=' and at the end */
    struct fl_kube_annotation items[ANNOTATIONS_MAX];
    uint32_t count;
};

static void load_once(void)
{
    struct fl_findings f;
    if (controller != NULL) {
        return;
    }
    fl_findings_init(&f, "fuzz");
    controller = fl_controller_config_yaml_load("c", FL_SPAN(cluster_text), &f);
    services = fl_services_yaml_load(FL_SPAN(services_text), &f);
    FL_MUST(controller != NULL && services != NULL);
    fl_verdict_table_init(&verdicts, 1);
    fl_findings_done(&f);
}

static struct annotations split(const uint8_t *data, size_t size)
{
    struct annotations a = {.text = malloc(size + 2)};
    FL_MUST(a.text != NULL);
    memcpy(a.text, data, size);
    a.text[size] = a.text[size + 1] = '\0';
    for (size_t at = 0; at < size && a.count < ANNOTATIONS_MAX;) {
        char *key = a.text + at, *equals = strchr(key, '=');
        at += strlen(key) + 1;
        if (equals != NULL) {
            *equals = '\0';
            a.items[a.count++] = (struct fl_kube_annotation){key, equals + 1};
        }
    }
    return a;
}

static struct fl_pod_overlay *read_pod(const struct fl_kube_annotation *items, uint32_t count)
{
    struct fl_pod_overlay *o = fl_pod_config_read(controller, "shop", items, count);
    FL_MUST(o != NULL);
    FL_MUST(o->errors + o->warnings == 0 || o->first != NULL);
    return o;
}

static struct fl_state *compose(const struct fl_pod_overlay *o)
{
    struct fl_membership m = fl_membership_of_services(services);
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_state *s = fl_compose_state(controller, &m, o, &verdicts, 0, &f);
    FL_MUST(s != NULL);
    fl_findings_done(&f);
    return s;
}

/* As a sidecar without a configuration of its own. */
static void try_sidecar(struct fl_state *s)
{
    struct fl_findings f;
    size_t len;
    fl_findings_init(&f, "");
    s->epoch = s->seq = 1;
    char *json = fl_state_json_text(s, &len);
    FL_MUST(json != NULL);
    struct fl_state *taken = fl_state_json_decode((struct fl_span){json, len}, &f);
    FL_MUST(taken != NULL && f.errors == 0);
    FL_MUST(taken->hash == fl_state_json_hash(s));
    struct fl_config *file = fl_config_new();
    FL_MUST(file != NULL);
    struct fl_config *c = fl_state_overlay(file, taken, &f);
    FL_MUST(c != NULL && c->route_count == s->route_count);
    fl_config_free(c);
    fl_config_free(file);
    fl_state_free(taken);
    fl_findings_done(&f);
    free(json);
}

static void write_route(const void *what, struct fl_fmt *out)
{
    const struct fl_route_conf *r = what;
    fl_fmt_text(out, r->invalid);
    fl_fmt_char(out, '\n');
    fl_show_given(FL_SCOPE_ROUTE, r, out);
}

static const struct fl_route_conf *find(const struct fl_state *s, const char *bucket)
{
    for (uint32_t i = 0; i < s->route_count; i++) {
        if (strcmp(s->routes[i].bucket, bucket) == 0) {
            return &s->routes[i];
        }
    }
    return NULL;
}

static void must_be_same(const struct fl_route_conf *r, const struct fl_state *there)
{
    const struct fl_route_conf *other = find(there, r->bucket);
    FL_MUST(other != NULL);
    FL_MUST(fl_show_hash_of(write_route, r, FL_SHOW_ABOUT) ==
            fl_show_hash_of(write_route, other, FL_SHOW_ABOUT));
}

/* Without the one annotation, all that is not about it must be as it was. */
static void try_without(const struct annotations *a, uint32_t left_out,
                        const struct fl_pod_overlay *o, const struct fl_state *s)
{
    struct fl_kube_annotation rest[ANNOTATIONS_MAX];
    struct fl_annotation_key key;
    uint32_t count = 0;
    fl_annotation_key_read(a->items[left_out].key, &key);
    if (key.kind == FL_ANNOTATION_DOCUMENT ||
        (key.kind == FL_ANNOTATION_BACKEND_OF && fl_config_backend(o->own, key.name) != NULL)) {
        return; /* others may depend on it, and rightly so */
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (i != left_out) {
            rest[count++] = a->items[i];
        }
    }
    struct fl_pod_overlay *o2 = read_pod(rest, count);
    struct fl_state *s2 = compose(o2);
    for (uint32_t i = 0; i < s->route_count; i++) {
        const struct fl_route_conf *r = &s->routes[i];
        bool own = key.kind == FL_ANNOTATION_ROUTE && strcmp(r->bucket, key.name) == 0;
        bool closed = key.kind == FL_ANNOTATION_BACKEND_OF && r->invalid[0] != '\0';
        if (!own && !closed) {
            must_be_same(r, s2);
        }
    }
    fl_state_free(s2);
    fl_pod_overlay_free(o2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load_once();
    struct annotations a = split(data, size);
    struct fl_pod_overlay *o = read_pod(a.items, a.count);
    struct fl_state *s = compose(o);
    try_sidecar(s);
    for (uint32_t i = 0; i < a.count; i++) {
        try_without(&a, i, o, s);
    }
    fl_state_free(s);
    fl_pod_overlay_free(o);
    free(a.text);
    return 0;
}
