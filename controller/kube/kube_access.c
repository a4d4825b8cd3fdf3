#include "controller/kube/kube_access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/base64.h"
#include "common/base/fmt.h"
#include "common/io/read_file.h"
#include "controller/kube/kube_config.h"

#define SERVER_MAX    512
#define NAMESPACE_MAX 64 /* a DNS label has 63 */
#define TOKEN_MAX     ((size_t)64 << 10)
#define CA_MAX        ((size_t)1 << 20)
#define CONFIG_MAX    ((size_t)16 << 20)
#define LOOK_AGAIN_MS 60000
#define PROC_FD       "/proc/self/fd/"
#define CA_BEGIN      "-----BEGIN CERTIFICATE-----"
#define CA_END        "-----END CERTIFICATE-----"

/* Bytes that libcurl is to read as a file: in memory, gone with the process. */
struct blob {
    int fd; /* -1: none */
    char path[sizeof(PROC_FD) + 11];
};

/* A file that is looked at once a minute. */
struct watched {
    char *path; /* NULL: there is none */
    int64_t looked_ms;
    bool ailing; /* the last look found nothing good, and that was said */
};

struct fl_kube_access {
    const struct fl_log *log;
    char server[SERVER_MAX], namespace[NAMESPACE_MAX];
    struct watched token, ca;
    char *bearer; /* "Bearer …" */
    char *ca_bytes;
    size_t ca_len;
    struct blob ca_blob, ca_before, cert_blob, key_blob;
    char *cert_path, *key_path; /* used when there is no blob */
    bool verify, ca_changed;
};

/* ---- bytes as files ---- */

static int make_blob(const char *name, struct fl_span bytes, struct blob *ret)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    for (size_t at = 0; at < bytes.len;) {
        ssize_t n = write(fd, bytes.ptr + at, bytes.len - at);
        if (n <= 0) {
            int rc = n < 0 ? -errno : -EIO;
            close(fd);
            return rc;
        }
        at += (size_t)n;
    }
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
    *ret = (struct blob){.fd = fd};
    (void)snprintf(ret->path, sizeof(ret->path), PROC_FD "%d", fd);
    return 0;
}

static void drop_blob(struct blob *b)
{
    if (b->fd >= 0) {
        close(b->fd);
    }
    *b = (struct blob){.fd = -1};
}

/* ---- certificates of authorities ---- */

static bool is_der_in_base64(struct fl_span text)
{
    char *bare = malloc(text.len + 1), *der = malloc(text.len + 1);
    size_t n = 0;
    ssize_t len = -1;
    if (bare != NULL && der != NULL) {
        for (size_t i = 0; i < text.len; i++) {
            if (strchr("\r\n \t", text.ptr[i]) == NULL) {
                bare[n++] = text.ptr[i];
            }
        }
        len = fl_base64_decode((struct fl_span){bare, n}, der, text.len + 1);
    }
    bool good = len > 1 && (unsigned char)der[0] == 0x30; /* a SEQUENCE */
    free(bare);
    free(der);
    return good;
}

/* At least one certificate, and none of them cut off: what a file that is just being written, or an
 * empty one, is not. */
static bool are_certificates(const char *text)
{
    unsigned count = 0;
    const char *at = text;
    while ((at = strstr(at, CA_BEGIN)) != NULL) {
        at += sizeof(CA_BEGIN) - 1;
        const char *end = strstr(at, CA_END);
        if (end == NULL || !is_der_in_base64((struct fl_span){at, (size_t)(end - at)})) {
            return false;
        }
        count++;
        at = end;
    }
    return count > 0;
}

/* ---- files that are looked at again ---- */

static void say_ailing(struct fl_kube_access *a, struct watched *w, const char *what,
                       const char *cause)
{
    struct fl_log_line l;
    if (!w->ailing) {
        fl_log_begin(a->log, &l, FL_LOG_WARN, what);
        fl_log_text(&l, "file", w->path);
        fl_log_text(&l, "cause", cause);
        fl_log_end(a->log, &l);
    }
    w->ailing = true;
}

/* "Bearer …" from the token's bytes, or NULL: empty, or not to be put into a head. */
static char *bearer_of(struct fl_span token)
{
    while (token.len > 0 && strchr(" \t\r\n", token.ptr[token.len - 1]) != NULL) {
        token.len--;
    }
    for (size_t i = 0; i < token.len; i++) {
        if (token.ptr[i] <= ' ' || token.ptr[i] > '~') {
            return NULL;
        }
    }
    size_t cap = sizeof("Bearer ") + token.len;
    char *made = token.len > 0 ? malloc(cap) : NULL;
    if (made != NULL) {
        struct fl_fmt f = fl_fmt_of(made, cap);
        fl_fmt_text(&f, "Bearer ");
        fl_fmt_span(&f, token);
    }
    return made;
}

/* 0, or -errno and the old one stays. */
static int read_token(struct fl_kube_access *a)
{
    char *text = NULL, *bearer = NULL;
    size_t len = 0;
    int rc = fl_read_file(a->token.path, TOKEN_MAX, &text, &len);
    if (rc == 0) {
        bearer = bearer_of((struct fl_span){text, len});
        rc = bearer != NULL ? 0 : -EINVAL;
    }
    free(text);
    if (rc == 0) {
        free(a->bearer);
        a->bearer = bearer;
    }
    return rc;
}

static int read_ca(struct fl_kube_access *a)
{
    char *text = NULL;
    size_t len = 0;
    struct blob fresh = {.fd = -1};
    int rc = fl_read_file(a->ca.path, CA_MAX, &text, &len);
    if (rc == 0 && a->ca_bytes != NULL && len == a->ca_len && memcmp(text, a->ca_bytes, len) == 0) {
        free(text);
        return 0;
    }
    rc = rc < 0 ? rc : are_certificates(text) ? 0 : -EBADMSG;
    rc = rc < 0 ? rc : make_blob("fairlead-ca", (struct fl_span){text, len}, &fresh);
    if (rc < 0) {
        free(text);
        return rc;
    }
    a->ca_changed = a->ca_bytes != NULL;
    free(a->ca_bytes);
    a->ca_bytes = text;
    a->ca_len = len;
    drop_blob(&a->ca_before);
    a->ca_before = a->ca_blob; /* a call that was just started may not have read it yet */
    a->ca_blob = fresh;
    return 0;
}

static const char *words_of(int rc)
{
    return rc == -EBADMSG  ? "it holds no whole PEM certificates"
           : rc == -EINVAL ? "it is empty, or no token"
                           : fl_cause_errno_text(-rc);
}

/* Looks when it is time to, or must; the verdict is said once. */
static void look(struct fl_kube_access *a, struct watched *w, int64_t now_ms, bool must,
                 int (*read)(struct fl_kube_access *a), const char *trouble)
{
    if (w->path == NULL || (!must && now_ms - w->looked_ms < LOOK_AGAIN_MS)) {
        return;
    }
    w->looked_ms = now_ms;
    int rc = read(a);
    if (rc < 0) {
        say_ailing(a, w, trouble, words_of(rc));
    } else {
        w->ailing = false;
    }
}

const char *fl_kube_access_bearer(struct fl_kube_access *a, int64_t now_ms, bool again)
{
    look(a, &a->token, now_ms, again, read_token,
         "the token of the Kubernetes API cannot be read again, the old one stays");
    return a->bearer != NULL ? a->bearer : "";
}

bool fl_kube_access_ca_changed(struct fl_kube_access *a, int64_t now_ms)
{
    look(a, &a->ca, now_ms, false, read_ca,
         "the authorities of the Kubernetes API cannot be read again, the old ones stay");
    bool changed = a->ca_changed;
    a->ca_changed = false;
    return changed;
}

void fl_kube_access_ca_doubted(struct fl_kube_access *a)
{
    a->ca.looked_ms = INT64_MIN / 2;
}

/* ---- where and who: a pod ---- */

static char *join(const char *dir, const char *name)
{
    size_t cap = strlen(dir) + strlen(name) + 2;
    char *made = malloc(cap);
    if (made != NULL) {
        struct fl_fmt f = fl_fmt_of(made, cap);
        fl_fmt_text(&f, dir);
        fl_fmt_char(&f, '/');
        fl_fmt_text(&f, name);
    }
    return made;
}

static int refuse(struct fl_cause *cause, const char *path, int rc, const char *remedy)
{
    fl_cause_set(cause, "kube_access", "%s: %s; %s", path, words_of(rc), remedy);
    return rc;
}

static int read_namespace(struct fl_kube_access *a, const char *dir)
{
    char *path = join(dir, "namespace"), *text = NULL;
    size_t len = 0;
    if (path == NULL) {
        return -ENOMEM;
    }
    if (fl_read_file(path, NAMESPACE_MAX, &text, &len) == 0) {
        struct fl_fmt f = fl_fmt_of(a->namespace, sizeof(a->namespace));
        while (len > 0 && strchr(" \r\n", text[len - 1]) != NULL) {
            len--;
        }
        fl_fmt_span(&f, (struct fl_span){text, len}); /* too long: none */
    }
    free(text);
    free(path);
    return 0;
}

static int from_pod(struct fl_kube_access *a, const struct fl_kube_where *w, struct fl_cause *cause)
{
    const char *dir =
        w->account_dir != NULL && w->account_dir[0] ? w->account_dir : FL_KUBE_ACCOUNT_DIR;
    bool v6 = strchr(w->service_host, ':') != NULL;
    struct fl_fmt f = fl_fmt_of(a->server, sizeof(a->server));
    fl_fmt_printf(&f, "https://%s%s%s:%s", v6 ? "[" : "", w->service_host, v6 ? "]" : "",
                  w->service_port);
    a->token.path = join(dir, "token");
    a->ca.path = join(dir, "ca.crt");
    if (f.cut || a->token.path == NULL || a->ca.path == NULL || read_namespace(a, dir) < 0) {
        fl_cause_set(cause, "kube_access", "KUBERNETES_SERVICE_HOST is too long, or no memory");
        return -ENOMEM;
    }
    int rc = read_token(a);
    if (rc < 0) {
        return refuse(cause, a->token.path, rc,
                      "is a service account mounted (automountServiceAccountToken)?");
    }
    rc = read_ca(a);
    return rc < 0 ? refuse(cause, a->ca.path, rc, "is the ConfigMap kube-root-ca.crt there?") : 0;
}

/* ---- where and who: a kubeconfig ---- */

static int keep_path(const char *path, char **ret, struct fl_cause *cause)
{
    if (path[0] == '\0') {
        return 0;
    }
    if (access(path, R_OK) < 0) {
        return refuse(cause, path, -errno, "KUBECONFIG names it");
    }
    *ret = strdup(path);
    return *ret != NULL ? 0 : -ENOMEM;
}

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_loopback(const char *host)
{
    size_t n = strcspn(host, ":/");
    return starts_with(host, "127.") || starts_with(host, "[::1]") ||
           (n == 9 && starts_with(host, "localhost"));
}

static int take_server(struct fl_kube_access *a, const struct fl_kube_config *c,
                       struct fl_cause *cause)
{
    bool plain = starts_with(c->server, "http://");
    struct fl_fmt f = fl_fmt_of(a->server, sizeof(a->server));
    fl_fmt_text(&f, c->server);
    while (f.len > 0 && f.base[f.len - 1] == '/') {
        f.base[--f.len] = '\0';
    }
    if (f.cut || strpbrk(c->server, "?#@ ") != NULL ||
        !(plain || starts_with(c->server, "https://")) || f.len < sizeof("http://")) {
        fl_cause_set(cause, "kubeconfig", "server '%s' of KUBECONFIG is no http(s)://HOST[:PORT]",
                     c->server);
        return -EINVAL;
    }
    if (plain && (c->token[0] || c->token_file[0]) && !is_loopback(c->server + 7)) {
        fl_cause_set(cause, "kubeconfig",
                     "server '%s' of KUBECONFIG is not https: a token is not sent there",
                     c->server);
        return -EINVAL;
    }
    return 0;
}

static int take_token(struct fl_kube_access *a, const struct fl_kube_config *c,
                      struct fl_cause *cause)
{
    int rc = keep_path(c->token_file, &a->token.path, cause);
    if (rc < 0) {
        return rc;
    }
    if (a->token.path != NULL) {
        rc = read_token(a);
        return rc < 0 ? refuse(cause, a->token.path, rc, "KUBECONFIG names it") : 0;
    }
    a->bearer = c->token[0] ? bearer_of(fl_span_of(c->token)) : NULL;
    if (c->token[0] && a->bearer == NULL) {
        fl_cause_set(cause, "kubeconfig", "the token of KUBECONFIG is none");
        return -EINVAL;
    }
    return 0;
}

static int take_data(const char *name, struct fl_span data, const char *file, struct blob *blob,
                     char **path, struct fl_cause *cause)
{
    return data.len > 0 ? make_blob(name, data, blob) : keep_path(file, path, cause);
}

static int take_config(struct fl_kube_access *a, const struct fl_kube_config *c,
                       struct fl_cause *cause)
{
    struct fl_fmt f = fl_fmt_of(a->namespace, sizeof(a->namespace));
    fl_fmt_text(&f, c->namespace);
    a->verify = !c->unverified;
    int rc = take_server(a, c, cause);
    rc = rc < 0 ? rc : take_token(a, c, cause);
    if (rc == 0 && c->ca.len > 0 && !are_certificates(c->ca.ptr)) {
        fl_cause_set(cause, "kubeconfig",
                     "certificate-authority-data of KUBECONFIG holds no whole PEM certificates");
        return -EBADMSG;
    }
    rc = rc < 0 ? rc : take_data("fairlead-ca", c->ca, c->ca_file, &a->ca_blob, &a->ca.path, cause);
    if (rc == 0 && a->ca.path != NULL) {
        rc = read_ca(a);
        rc = rc < 0 ? refuse(cause, a->ca.path, rc, "KUBECONFIG names it") : 0;
    }
    rc = rc < 0 ? rc
                : take_data("fairlead-cert", c->cert, c->cert_file, &a->cert_blob, &a->cert_path,
                            cause);
    return rc < 0
               ? rc
               : take_data("fairlead-key", c->key, c->key_file, &a->key_blob, &a->key_path, cause);
}

static int from_config(struct fl_kube_access *a, const char *path, struct fl_cause *cause)
{
    struct fl_arena arena;
    struct fl_kube_config c;
    fl_arena_init(&arena, CONFIG_MAX);
    int rc = fl_kube_config_read(path, &arena, &c, cause);
    rc = rc < 0 ? rc : take_config(a, &c, cause);
    fl_arena_done(&arena);
    return rc;
}

/* ---- life ---- */

int fl_kube_access_new(const struct fl_kube_where *where, const struct fl_log *log, int64_t now_ms,
                       struct fl_kube_access **ret, struct fl_cause *ret_cause)
{
    struct fl_cause cause = {.code = ""};
    struct fl_kube_access *a = calloc(1, sizeof(*a));
    int rc = -ENOENT;
    if (a == NULL) {
        return -ENOMEM;
    }
    a->log = log;
    a->verify = true;
    a->ca_blob.fd = a->ca_before.fd = a->cert_blob.fd = a->key_blob.fd = -1;
    a->token.looked_ms = a->ca.looked_ms = now_ms;
    if (where->service_host != NULL && where->service_host[0] && where->service_port != NULL &&
        where->service_port[0]) {
        rc = from_pod(a, where, &cause);
    } else if (where->kubeconfig != NULL && where->kubeconfig[0]) {
        rc = from_config(a, where->kubeconfig, &cause);
    } else {
        fl_cause_set(&cause, "kube_access",
                     "no Kubernetes API is known: this is no pod (KUBERNETES_SERVICE_HOST, _PORT) "
                     "and KUBECONFIG is not set; `source: file:PATH` needs none");
    }
    if (rc < 0) {
        if (cause.code[0] == '\0') {
            fl_cause_set(&cause, "kube_access", "%s", fl_cause_errno_text(-rc));
        }
        *ret_cause = cause;
        fl_kube_access_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

struct fl_kube_access *fl_kube_access_free(struct fl_kube_access *a)
{
    if (a != NULL) {
        drop_blob(&a->ca_blob);
        drop_blob(&a->ca_before);
        drop_blob(&a->cert_blob);
        drop_blob(&a->key_blob);
        free(a->token.path);
        free(a->ca.path);
        free(a->bearer);
        free(a->ca_bytes);
        free(a->cert_path);
        free(a->key_path);
        free(a);
    }
    return NULL;
}

const char *fl_kube_access_server(const struct fl_kube_access *a)
{
    return a->server;
}

const char *fl_kube_access_namespace(const struct fl_kube_access *a)
{
    return a->namespace;
}

const char *fl_kube_access_ca_file(const struct fl_kube_access *a)
{
    return a->ca_blob.path; /* a copy of what was good */
}

const char *fl_kube_access_cert_file(const struct fl_kube_access *a)
{
    return a->cert_path != NULL ? a->cert_path : a->cert_blob.path;
}

const char *fl_kube_access_key_file(const struct fl_kube_access *a)
{
    return a->key_path != NULL ? a->key_path : a->key_blob.path;
}

bool fl_kube_access_verify(const struct fl_kube_access *a)
{
    return a->verify;
}
