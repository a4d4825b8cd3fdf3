#include "controller/decide/pods.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"

/* A pod and all its texts, in one block. */
struct row {
    struct fl_kube_pod pod;
    bool seen;
    struct fl_kube_annotation annotations[];
};

struct fl_pods {
    struct row **rows; /* in the order of (namespace, name) */
    uint32_t count, room;
};

struct fl_pods *fl_pods_new(uint64_t seed)
{
    (void)seed; /* rows are found by their order: there is nothing to collide */
    return calloc(1, sizeof(struct fl_pods));
}

struct fl_pods *fl_pods_free(struct fl_pods *p)
{
    if (p) {
        for (uint32_t i = 0; i < p->count; i++) {
            free(p->rows[i]);
        }
        free(p->rows);
        free(p);
    }
    return NULL;
}

static bool is_by_injector(const char *key)
{
    static const char *const ours[] = {"fairlead.dev/bootstrap", "fairlead.dev/injected-hash",
                                       "fairlead.dev/injected-version"};
    for (size_t i = 0; i < FL_COUNTOF(ours); i++) {
        if (fl_span_ieq(fl_span_of(key), fl_span_of(ours[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_kept(const struct fl_kube_annotation *a)
{
    return !fl_span_ieq(fl_span_of(a->key), FL_SPAN("fairlead.dev/bootstrap"));
}

// ---- rows --------------------------------------------------------------------------------------

static int order(const struct fl_kube_meta *m, const char *namespace, const char *name)
{
    int c = strcmp(m->namespace, namespace);
    return c != 0 ? c : strcmp(m->name, name);
}

/* The first row that is not before (namespace, name); *ret_is: it is that pod's. */
static uint32_t find(const struct fl_pods *p, const char *namespace, const char *name, bool *ret_is)
{
    uint32_t low = 0, high = p->count;
    *ret_is = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int c = order(&p->rows[middle]->pod.meta, namespace, name);
        if (c == 0) {
            *ret_is = true;
            return middle;
        }
        if (c < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The copy of the text; *at moves behind it. */
static const char *put_text(char **at, const char *text)
{
    size_t n = strlen(text) + 1;
    char *from = memcpy(*at, text, n);
    *at += n;
    return from;
}

static size_t texts_of(const struct fl_kube_pod *p)
{
    const char *const texts[] = {p->meta.namespace, p->meta.name, p->meta.uid,
                                 p->node,           p->ip,        p->phase};
    size_t n = 0;
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        n += strlen(texts[i]) + 1;
    }
    for (uint32_t i = 0; i < p->annotation_count; i++) {
        if (is_kept(&p->annotations[i])) {
            n += strlen(p->annotations[i].key) + strlen(p->annotations[i].value) + 2;
        }
    }
    return n;
}

static struct row *row_new(const struct fl_kube_pod *from)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < from->annotation_count; i++) {
        kept += is_kept(&from->annotations[i]);
    }
    struct row *r = malloc(sizeof(*r) + kept * sizeof(r->annotations[0]) + texts_of(from));
    if (!r) {
        return NULL;
    }
    char *at = (char *)(r->annotations + kept);
    r->seen = true;
    r->pod = *from;
    r->pod.meta = (struct fl_kube_meta){
        put_text(&at, from->meta.namespace),
        put_text(&at, from->meta.name),
        put_text(&at, from->meta.uid),
        "",
    };
    r->pod.node = put_text(&at, from->node);
    r->pod.ip = put_text(&at, from->ip);
    r->pod.phase = put_text(&at, from->phase);
    r->pod.annotations = r->annotations;
    r->pod.annotation_count = 0;
    for (uint32_t i = 0; i < from->annotation_count; i++) {
        if (is_kept(&from->annotations[i])) {
            r->annotations[r->pod.annotation_count++] = (struct fl_kube_annotation){
                put_text(&at, from->annotations[i].key), put_text(&at, from->annotations[i].value)};
        }
    }
    return r;
}

/* Of the same pod; both as they are kept. */
static bool same(const struct fl_kube_pod *a, const struct fl_kube_pod *b)
{
    if (strcmp(a->meta.uid, b->meta.uid) != 0 || strcmp(a->node, b->node) != 0 ||
        strcmp(a->ip, b->ip) != 0 || strcmp(a->phase, b->phase) != 0 ||
        a->deleting != b->deleting || a->started != b->started || a->gate != b->gate ||
        a->annotation_count != b->annotation_count) {
        return false;
    }
    for (uint32_t i = 0; i < a->annotation_count; i++) {
        if (strcmp(a->annotations[i].key, b->annotations[i].key) != 0 ||
            strcmp(a->annotations[i].value, b->annotations[i].value) != 0) {
            return false;
        }
    }
    return true;
}

// ---- changes -----------------------------------------------------------------------------------

static bool make_room(struct fl_pods *p)
{
    if (p->count < p->room) {
        return true;
    }
    uint32_t room = p->room ? p->room + p->room / 2 : 64;
    struct row **rows = realloc(p->rows, room * sizeof(struct row *));
    if (!rows) {
        return false;
    }
    p->rows = rows;
    p->room = room;
    return true;
}

int fl_pods_put(struct fl_pods *p, const struct fl_kube_pod *pod, bool *ret_changed)
{
    bool known;
    uint32_t at = find(p, pod->meta.namespace, pod->meta.name, &known);
    struct row *r = row_new(pod);
    if (!r || (!known && !make_room(p))) {
        free(r);
        return -ENOMEM;
    }
    if (known && same(&p->rows[at]->pod, &r->pod)) {
        free(r);
        p->rows[at]->seen = true;
        *ret_changed = false;
        return 0;
    }
    if (known) {
        free(p->rows[at]);
    } else {
        memmove(p->rows + at + 1, p->rows + at, (p->count - at) * sizeof(struct row *));
        p->count++;
    }
    p->rows[at] = r;
    *ret_changed = true;
    return 0;
}

bool fl_pods_remove(struct fl_pods *p, const char *namespace, const char *name)
{
    bool known;
    uint32_t at = find(p, namespace, name, &known);
    if (known) {
        free(p->rows[at]);
        p->count--;
        memmove(p->rows + at, p->rows + at + 1, (p->count - at) * sizeof(struct row *));
    }
    return known;
}

void fl_pods_begin(struct fl_pods *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        p->rows[i]->seen = false;
    }
}

bool fl_pods_end(struct fl_pods *p)
{
    uint32_t kept = 0, before = p->count;
    for (uint32_t i = 0; i < before; i++) {
        if (p->rows[i]->seen) {
            p->rows[kept++] = p->rows[i];
        } else {
            free(p->rows[i]);
        }
    }
    p->count = kept;
    return kept < before;
}

// ---- reading -----------------------------------------------------------------------------------

uint32_t fl_pods_count(const struct fl_pods *p)
{
    return p->count;
}

const struct fl_kube_pod *fl_pods_next(const struct fl_pods *p, const struct fl_kube_pod *before)
{
    uint32_t at = 0;
    if (before) {
        bool is;
        at = find(p, before->meta.namespace, before->meta.name, &is);
        at += is;
    }
    return at < p->count ? &p->rows[at]->pod : NULL;
}

bool fl_pods_is_target(const struct fl_kube_pod *pod)
{
    return pod->ip[0] != '\0' && pod->started && strcmp(pod->phase, "Succeeded") != 0 &&
           strcmp(pod->phase, "Failed") != 0;
}

/* Two hashes of 64 bits side by side, each text with its NUL. */
static void mix(uint64_t h[2], const char *text)
{
    for (;; text++) {
        h[0] = (h[0] ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
        h[1] = (h[1] ^ (uint8_t)*text) * UINT64_C(0x9e3779b97f4a7c15);
        h[1] ^= h[1] >> 29;
        if (*text == '\0') {
            return;
        }
    }
}

void fl_pods_configuration(const struct fl_kube_pod *pod, char key[FL_POD_CONFIGURATION_MAX])
{
    uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x6c62272e07bb0142)};
    bool some = false;
    struct fl_fmt f = fl_fmt_of(key, FL_POD_CONFIGURATION_MAX);
    mix(h, pod->meta.namespace);
    for (uint32_t i = 0; i < pod->annotation_count; i++) {
        if (!is_by_injector(pod->annotations[i].key)) {
            mix(h, pod->annotations[i].key);
            mix(h, pod->annotations[i].value);
            some = true;
        }
    }
    if (some) {
        fl_fmt_printf(&f, "%016llx%016llx.", (unsigned long long)h[0], (unsigned long long)h[1]);
        fl_fmt_text(&f, pod->meta.namespace);
    }
}
