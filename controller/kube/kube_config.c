#include "controller/kube/kube_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/codec/yaml.h"
#include "common/io/read_file.h"

struct reading {
    const char *path;
    struct fl_arena *arena;
    struct fl_cause *cause;
    int rc; /* the first that went wrong */
};

static void refuse(struct reading *r, int rc, const char *what, const char *which)
{
    if (r->rc == 0) {
        r->rc = rc;
        fl_cause_set(r->cause, "kubeconfig", "%s: %s%s", r->path, what, which);
    }
}

static struct fl_span scalar_of(const struct fl_node *map, const char *key)
{
    const struct fl_node *n = map != NULL ? fl_node_get(map, key) : NULL;
    return n != NULL && n->kind == FL_NODE_SCALAR ? n->text : (struct fl_span){"", 0};
}

static const char *text_of(struct reading *r, const struct fl_node *map, const char *key)
{
    char *text = fl_arena_text(r->arena, scalar_of(map, key));
    if (text == NULL) {
        refuse(r, -ENOMEM, "no memory", "");
        return "";
    }
    return text;
}

static const char *path_of(struct reading *r, const struct fl_node *map, const char *key)
{
    const char *text = text_of(r, map, key);
    const char *slash = strrchr(r->path, '/');
    if (text[0] == '\0' || text[0] == '/' || slash == NULL) {
        return text;
    }
    char *joined = fl_arena_printf(r->arena, "%.*s/%s", (int)(slash - r->path), r->path, text);
    if (joined == NULL) {
        refuse(r, -ENOMEM, "no memory", "");
        return "";
    }
    return joined;
}

static struct fl_span bytes_of(struct reading *r, const struct fl_node *map, const char *key)
{
    struct fl_span text = scalar_of(map, key);
    char *bare = fl_arena_alloc(r->arena, text.len + 1);
    char *bytes = fl_arena_alloc(r->arena, text.len + 1);
    size_t n = 0;
    if (bare == NULL || bytes == NULL) {
        refuse(r, -ENOMEM, "no memory", "");
        return (struct fl_span){"", 0};
    }
    for (size_t i = 0; i < text.len; i++) { /* it may be folded */
        if (strchr(" \t\r\n", text.ptr[i]) == NULL) {
            bare[n++] = text.ptr[i];
        }
    }
    ssize_t len = fl_base64_decode((struct fl_span){bare, n}, bytes, text.len + 1);
    if (len < 0) {
        refuse(r, -EINVAL, key, " is not base64");
        return (struct fl_span){"", 0};
    }
    return (struct fl_span){bytes, (size_t)len};
}

/* The map under `inner` of the entry of this name in the list `outer`. */
static const struct fl_node *named(struct reading *r, const struct fl_node *root, const char *outer,
                                   const char *inner, struct fl_span name)
{
    const struct fl_node *list = fl_node_get(root, outer);
    if (list != NULL && list->kind == FL_NODE_LIST) {
        for (const struct fl_node *n = list->first; n != NULL; n = n->next) {
            const struct fl_node *found = fl_node_get(n, inner);
            if (fl_span_eq(scalar_of(n, "name"), name) && found != NULL) {
                return found;
            }
        }
    }
    const char *text = fl_arena_printf(r->arena, "%s named '%.*s'", inner, (int)name.len, name.ptr);
    refuse(r, -ENOENT, "it has no ", text != NULL ? text : inner);
    return NULL;
}

static void refuse_keys(struct reading *r, const struct fl_node *map, const char *const *keys)
{
    for (; map != NULL && *keys != NULL; keys++) {
        const struct fl_node *n = fl_node_get(map, *keys);
        if (n != NULL && n->kind != FL_NODE_NULL &&
            !(n->kind == FL_NODE_SCALAR && n->text.len == 0)) {
            refuse(r, -ENOTSUP, *keys,
                   " is not supported; use a token, tokenFile or a client certificate");
        }
    }
}

static void read_tree(struct reading *r, const struct fl_node *root, struct fl_kube_config *c)
{
    static const char *const no_user[] = {"exec", "auth-provider", "username",  "password",
                                          "as",   "as-uid",        "as-groups", "as-user-extra",
                                          NULL};
    static const char *const no_cluster[] = {"tls-server-name", "proxy-url", NULL};
    struct fl_span current = scalar_of(root, "current-context");
    if (current.len == 0) {
        refuse(r, -EINVAL, "it has no current-context; choose one by `kubectl config use-context`",
               "");
        return;
    }
    const struct fl_node *at = named(r, root, "contexts", "context", current);
    const struct fl_node *cluster =
        at != NULL ? named(r, root, "clusters", "cluster", scalar_of(at, "cluster")) : NULL;
    struct fl_span user_name = scalar_of(at, "user");
    const struct fl_node *user =
        at != NULL && user_name.len > 0 ? named(r, root, "users", "user", user_name) : NULL;
    refuse_keys(r, cluster, no_cluster);
    refuse_keys(r, user, no_user);
    if (r->rc < 0) {
        return;
    }
    *c = (struct fl_kube_config){
        .server = text_of(r, cluster, "server"),
        .namespace = text_of(r, at, "namespace"),
        .ca_file = path_of(r, cluster, "certificate-authority"),
        .cert_file = path_of(r, user, "client-certificate"),
        .key_file = path_of(r, user, "client-key"),
        .token_file = path_of(r, user, "tokenFile"),
        .ca = bytes_of(r, cluster, "certificate-authority-data"),
        .cert = bytes_of(r, user, "client-certificate-data"),
        .key = bytes_of(r, user, "client-key-data"),
        .token = text_of(r, user, "token"),
        .unverified = fl_span_is(scalar_of(cluster, "insecure-skip-tls-verify"), "true"),
    };
}

int fl_kube_config_read(const char *path, struct fl_arena *a, struct fl_kube_config *ret,
                        struct fl_cause *ret_cause)
{
    struct reading r = {.path = path, .arena = a, .cause = ret_cause};
    struct fl_kube_config made = {.server = ""};
    struct fl_findings findings;
    char *text = NULL;
    size_t len = 0;
    int rc = fl_read_file(path, FL_YAML_BYTES_MAX, &text, &len);
    if (rc < 0) {
        fl_cause_set(ret_cause, "kubeconfig", "KUBECONFIG %s cannot be read (%s)%s", path,
                     fl_cause_errno_text(-rc),
                     rc == -ENOENT && strchr(path, ':') != NULL ? "; one path is wanted" : "");
        return rc;
    }
    fl_findings_init(&findings, path);
    const struct fl_node *root = fl_yaml_parse((struct fl_span){text, len}, a, &findings);
    if (root == NULL) {
        refuse(&r, -EINVAL,
               "not YAML as wanted: ", findings.first != NULL ? findings.first->text : "");
    } else {
        read_tree(&r, root, &made);
    }
    fl_findings_done(&findings);
    free(text);
    if (r.rc == 0) {
        *ret = made;
    }
    return r.rc;
}
