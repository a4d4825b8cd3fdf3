#include "common/probe/probe_target.h"

#include <netdb.h>
#include <stdlib.h>

#include "common/base/fmt.h"
#include "common/base/units.h"

#define TEXTS 8

/* The texts, in one order. */
static void list_texts(const struct fl_probe_target *t, const char *ret[TEXTS])
{
    const char *const all[TEXTS] = {t->host,
                                    t->path,
                                    t->expect,
                                    t->bucket,
                                    t->region,
                                    t->access_key_file,
                                    t->secret_key_file,
                                    t->tls_name};
    for (size_t i = 0; i < TEXTS; i++) {
        ret[i] = all[i] != NULL ? all[i] : "";
    }
}

/* A Service's port may have a name; its number is then nobody's to know, and the peer's own will do
 * in nearly every cluster. */
static void put_service_host(const struct fl_service_ref *s, const struct fl_addr *addr,
                             struct fl_fmt *f)
{
    uint64_t port = addr->port;
    (void)fl_units_uint(fl_span_of(s->port), &port);
    fl_fmt_printf(f, "%s.%s.svc:%u", s->name, s->namespace, (unsigned)port);
}

bool fl_probe_target_of(const struct fl_config *c, const struct fl_backend_conf *b,
                        const struct fl_peer_conf *peer, char host[FL_PROBE_HOST_MAX],
                        struct fl_probe_target *ret)
{
    const struct fl_probe_conf *q = &b->probe;
    struct fl_fmt f = fl_fmt_of(host, FL_PROBE_HOST_MAX);
    *ret = (struct fl_probe_target){
        .type = q->type,
        .timeout_ms = q->timeout_ms,
        .tls = b->tls.on,
        .tls_name = b->tls.server_name[0] != '\0' ? b->tls.server_name : peer->host_name,
        .host = host,
        .path = q->path,
        .expect = q->expect,
        .bucket = fl_probe_target_bucket(c, b),
        .region = q->region,
        .access_key_file = q->access_key_file,
        .secret_key_file = q->secret_key_file,
    };
    if (!fl_addr_parse(fl_span_of(peer->address), &ret->addr)) {
        return false;
    }
    if (q->host[0] != '\0') {
        fl_fmt_text(&f, q->host);
    } else if (b->tls.on && b->tls.server_name[0] != '\0') {
        fl_fmt_text(&f, b->tls.server_name);
    } else if (b->service.name[0] != '\0') {
        put_service_host(&b->service, &ret->addr, &f);
    } else if (peer->host_name != NULL) {
        fl_fmt_printf(&f, "%s:%u", peer->host_name, (unsigned)ret->addr.port);
    }
    return true;
}

void fl_probe_target_unresolved(const char *address, int err, struct fl_verdict *ret)
{
    *ret = (struct fl_verdict){
        .status = FL_VERDICT_UNREACHABLE, .source = FL_VERDICT_OWN, .step = "dns"};
    fl_cause_set(&ret->cause, "dns_failure", "no address for %s (%s)", address,
                 err != 0 ? gai_strerror(err) : "the answer is empty");
}

static bool names_a_bucket(const struct fl_route_conf *r)
{
    return strcmp(r->bucket, "*") != 0 && strcmp(r->bucket, "/") != 0;
}

static bool has_a_path_to(const struct fl_route_conf *r, const char *backend)
{
    for (uint32_t i = 0; i < r->path_count; i++) {
        if (strcmp(r->paths[i].backend, backend) == 0) {
            return true;
        }
    }
    return false;
}

const char *fl_probe_target_bucket(const struct fl_config *c, const struct fl_backend_conf *b)
{
    const char *by_path = "";
    if (b->probe.bucket[0] != '\0') {
        return b->probe.bucket;
    }
    for (uint32_t i = 0; i < c->route_count; i++) {
        const struct fl_route_conf *r = &c->routes[i];
        if (!names_a_bucket(r)) {
            continue;
        }
        if (strcmp(r->backend, b->name) == 0) {
            return r->bucket;
        }
        if (by_path[0] == '\0' && has_a_path_to(r, b->name)) {
            by_path = r->bucket;
        }
    }
    return by_path;
}

struct fl_probe_target *fl_probe_target_copy(const struct fl_probe_target *t)
{
    const char *texts[TEXTS];
    size_t bytes = 0;
    list_texts(t, texts);
    for (size_t i = 0; i < TEXTS; i++) {
        bytes += strlen(texts[i]) + 1;
    }
    struct fl_probe_target *copy = malloc(sizeof(*copy) + bytes);
    if (copy == NULL) {
        return NULL;
    }
    char *at = (char *)(copy + 1);
    for (size_t i = 0; i < TEXTS; i++) {
        size_t n = strlen(texts[i]) + 1;
        memcpy(at, texts[i], n);
        texts[i] = at;
        at += n;
    }
    *copy = *t;
    copy->host = texts[0];
    copy->path = texts[1];
    copy->expect = texts[2];
    copy->bucket = texts[3];
    copy->region = texts[4];
    copy->access_key_file = texts[5];
    copy->secret_key_file = texts[6];
    copy->tls_name = texts[7];
    return copy;
}

bool fl_probe_target_same(const struct fl_probe_target *a, const struct fl_probe_target *b)
{
    const char *x[TEXTS], *y[TEXTS];
    bool same = fl_addr_eq(&a->addr, &b->addr) && a->type == b->type &&
                a->timeout_ms == b->timeout_ms && a->tls == b->tls && a->terms == b->terms;
    list_texts(a, x);
    list_texts(b, y);
    for (size_t i = 0; i < TEXTS; i++) {
        same = same && strcmp(x[i], y[i]) == 0;
    }
    return same;
}

static void mix(uint64_t *h, const char *text)
{
    do { /* FNV-1a, the NUL included: "a","bc" is not "ab","c" */
        *h = (*h ^ (uint8_t)*text) * 0x100000001b3u;
    } while (*text++ != '\0');
}

uint64_t fl_probe_target_fingerprint(const struct fl_backend_conf *b, const char *address)
{
    const struct fl_probe_conf *q = &b->probe;
    char numbers[96];
    struct fl_fmt f = fl_fmt_of(numbers, sizeof(numbers));
    fl_fmt_printf(&f, "%d %d %lld %d %d", (int)b->protocol, (int)q->type, (long long)q->timeout_ms,
                  b->tls.on, b->tls.verify);
    const char *const texts[] = {
        numbers,
        address,
        q->host,
        q->path,
        q->expect,
        q->bucket,
        q->region,
        q->access_key_file,
        q->secret_key_file,
        q->secret,
        b->tls.ca_file,
        b->tls.server_name,
        b->tls.cert_file,
        b->tls.key_file,
    };
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        mix(&h, texts[i] != NULL ? texts[i] : "");
    }
    return h != 0 ? h : 1;
}
