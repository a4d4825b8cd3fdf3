/* pod_kit - a controller's configuration, two Services and pods with annotations, for tests of what
 * becomes of them. Include once per binary, after cmocka; pod_begin and pod_end are setup and
 * teardown. */
#ifndef FL_TESTS_POD_KIT_H
#define FL_TESTS_POD_KIT_H

#include <stdlib.h>
#include <string.h>

#include "common/codec/config_yaml.h"
#include "common/codec/state_json.h"
#include "common/codec/yaml.h"
#include "common/model/config_check.h"
#include "common/model/directives_table.h"
#include "controller/codec/pod_config.h"
#include "controller/decide/compose.h"
#include "controller/decide/membership.h"

static const char pod_config_text[] =
    "backends:\n"
    "  minio:\n"
    "    service: {namespace: storage, name: minio, port: s3}\n"
    "    probe: {access_key_file: /keys/id, secret_key_file: /keys/secret}\n"
    "  web: {protocol: http, peers: [{address: '10.3.0.1:80'}]}\n"
    "  archive: {peers: [{address: '10.4.0.1:9000'}]}\n"
    "routes: {common: archive, 'a@b': web}\n";

static struct fl_controller_config *pod_controller;
static struct fl_verdict_table pod_verdicts;
static struct fl_findings pod_findings;

static int pod_begin(void **state)
{
    (void)state;
    fl_findings_init(&pod_findings, "");
    fl_verdict_table_init(&pod_verdicts, 1);
    pod_controller =
        fl_controller_config_yaml_load("c.yaml", FL_SPAN(pod_config_text), &pod_findings);
    assert_non_null(pod_controller);
    fl_findings_done(&pod_findings);
    fl_findings_init(&pod_findings, "");
    return 0;
}

static int pod_end(void **state)
{
    (void)state;
    fl_controller_config_free(pod_controller);
    fl_verdict_table_done(&pod_verdicts);
    fl_findings_done(&pod_findings);
    return 0;
}

/* Any service called minio has two members on ports s3 and 9000, which tell its namespace. */
static enum fl_members_found pod_members(const void *arg, const struct fl_service_ref *ref,
                                         struct fl_arena *arena, struct fl_members *ret)
{
    static const char *const spaces[] = {"storage", "shop", "other"};
    size_t space = 0;
    (void)arg;
    while (space < FL_COUNTOF(spaces) && strcmp(spaces[space], ref->namespace) != 0) {
        space++;
    }
    if (strcmp(ref->name, "minio") != 0 || space == FL_COUNTOF(spaces)) {
        return FL_MEMBERS_NO_SERVICE;
    }
    if (strcmp(ref->port, "s3") != 0 && strcmp(ref->port, "9000") != 0) {
        return FL_MEMBERS_NO_PORT;
    }
    struct fl_peer_conf *peers = fl_arena_array(arena, 2, sizeof(*peers));
    assert_non_null(peers);
    uint64_t given = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "address"));
    for (unsigned i = 0; i < 2; i++) {
        peers[i] =
            (struct fl_peer_conf){.fallback_address = "", .zone = "", .weight = 1, .set = given};
        peers[i].address = fl_arena_printf(arena, "10.%u.0.%u:9000", (unsigned)space + 1, i + 1);
        assert_non_null(peers[i].address);
    }
    *ret = (struct fl_members){peers, 2};
    return FL_MEMBERS_FOUND;
}

static const struct fl_membership pod_membership = {.members = pod_members};

/* Reads a pod of namespace shop; its annotations are the keys of a YAML mapping of texts. */
static struct fl_pod_overlay *pod_read_in(const char *namespace, const char *yaml)
{
    struct fl_arena tree;
    struct fl_findings said;
    static struct fl_kube_annotation annotations[4096];
    uint32_t count = 0;
    fl_arena_init(&tree, (size_t)16 << 20);
    fl_findings_init(&said, "");
    const struct fl_node *root = fl_yaml_parse(fl_span_of(yaml), &tree, &said);
    if (root == NULL) {
        fail_msg("the test's own YAML: %s", said.first->text);
        return NULL;
    }
    for (const struct fl_node *n = root->first; n != NULL; n = n->next) {
        assert_true(count < FL_COUNTOF(annotations));
        assert_int_equal(n->kind == FL_NODE_NULL ? FL_NODE_SCALAR : n->kind, FL_NODE_SCALAR);
        annotations[count++] = (struct fl_kube_annotation){n->key.ptr, n->text.ptr};
    }
    struct fl_pod_overlay *o = fl_pod_config_read(pod_controller, namespace, annotations, count);
    fl_arena_done(&tree);
    fl_findings_done(&said);
    assert_non_null(o);
    return o;
}

static struct fl_pod_overlay *pod_read(const char *yaml)
{
    return pod_read_in("shop", yaml);
}

static struct fl_state *pod_compose(const struct fl_pod_overlay *o)
{
    struct fl_state *s =
        fl_compose_state(pod_controller, &pod_membership, o, &pod_verdicts, 10000, &pod_findings);
    assert_non_null(s);
    return s;
}

/* What a sidecar without a configuration of its own makes of the state: it must take it. */
static struct fl_config *pod_overlaid(struct fl_state *s)
{
    struct fl_findings said;
    size_t len;
    fl_findings_init(&said, "");
    s->epoch = s->seq = 1;
    char *text = fl_state_json_text(s, &len);
    assert_non_null(text);
    struct fl_state *taken = fl_state_json_decode((struct fl_span){text, len}, &said);
    if (taken == NULL) {
        print_error("%s\n", text);
        fail_msg("not decoded: %s", said.first->text);
        return NULL;
    }
    struct fl_config *file = fl_config_new(), *c = NULL;
    assert_non_null(file);
    c = fl_state_overlay(file, taken, &said);
    if (c == NULL) {
        print_error("%s\n", text);
        fail_msg("not taken: %s", said.first->text);
    }
    free(text);
    fl_config_free(file);
    fl_state_free(taken);
    fl_findings_done(&said);
    return c;
}

#endif
