#include "sidecar/admin/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/units.h"
#include "sidecar/policy/route.h"

#define BLOCK_BYTES                                                                                \
    FL_TAP_WATCHER_BYTES /* lines between two turns of the control thread: the writer naps for 50  \
                            ms */

struct block {
    char *text;
    size_t len;
    uint64_t lost;
};

struct fl_tap {
    struct fl_reactor *reactor;
    struct fl_log_writer *writer;
    struct fl_list watchers;
    unsigned count;

    pthread_mutex_t lock;
    _Atomic bool watched;
    struct block filling; /* the writer's; text NULL: nobody watches */
    bool told;            /* the control thread knows that there is something */
    struct block taken;   /* the control thread's */
};

struct watcher {
    struct fl_list node;
    struct fl_tap *tap;
    struct fl_mhd_call *call;
    char bucket[256]; /* "": all */
    int status_from, status_to;
    uint64_t lost;
    size_t begin, len;
    char text[FL_TAP_WATCHER_BYTES];
};

/* ---- the writer thread ---- */

static void on_line(void *arg, enum fl_log_stream s, struct fl_span line)
{
    struct fl_tap *t = arg;
    if (s == FL_LOG_STDERR || !atomic_load_explicit(&t->watched, memory_order_acquire)) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    struct block *b = &t->filling;
    if (b->text != NULL && line.len <= BLOCK_BYTES - b->len) {
        memcpy(b->text + b->len, line.ptr, line.len);
        b->len += line.len;
    } else {
        b->lost++;
    }
    if (b->text != NULL && !t->told) { /* within the lock: without watchers nobody is woken */
        t->told = true;
        fl_reactor_wake(t->reactor);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- what a watcher wants ---- */

/* What stands behind `"name":` up to the next quote, or comma. Quotes within values are escaped, so
 * no value looks like a name. */
static struct fl_span value_of(struct fl_span line, struct fl_span name, char end)
{
    char *at = memmem(line.ptr, line.len, name.ptr, name.len);
    if (at == NULL) {
        return (struct fl_span){0};
    }
    struct fl_span rest = fl_span_from(line, (size_t)(at - line.ptr) + name.len);
    ptrdiff_t n = fl_span_find(rest, end);
    return n < 0 ? (struct fl_span){0} : fl_span_first(rest, (size_t)n);
}

static int status_of(struct fl_span line)
{
    uint64_t n = 0;
    return fl_units_uint(value_of(line, FL_SPAN("\"status\":"), ','), &n) && n < 1000 ? (int)n : 0;
}

/* The absolute form carries the host itself. */
static void split_target(struct fl_span uri, struct fl_route_ask *ask)
{
    static const struct fl_span scheme = {"http://", 7};
    if (fl_span_starts(uri, scheme)) {
        uri = fl_span_from(uri, scheme.len);
        ptrdiff_t slash = fl_span_find(uri, '/');
        ask->host = slash < 0 ? uri : fl_span_first(uri, (size_t)slash);
        uri = slash < 0 ? FL_SPAN("/") : fl_span_from(uri, (size_t)slash);
    }
    ptrdiff_t mark = fl_span_find(uri, '?');
    ask->path = mark < 0 ? uri : fl_span_first(uri, (size_t)mark);
    ask->query = mark < 0 ? (struct fl_span){0} : fl_span_from(uri, (size_t)mark + 1);
}

struct subject { /* what filters look at, of one line */
    struct fl_span line, bucket;
    int status;
    char scratch[FL_ROUTE_SCRATCH];
};

static void look_at(struct subject *s, const struct fl_snapshot *current)
{
    struct fl_route_ask ask = {.host = value_of(s->line, FL_SPAN("\"host\":\""), '"')};
    struct fl_routed routed = {0};
    split_target(value_of(s->line, FL_SPAN("\"uri\":\""), '"'), &ask);
    if (ask.path.len > 0) {
        fl_route_find(current, &ask, s->scratch, &routed);
    }
    s->bucket = routed.bucket;
    s->status = status_of(s->line);
}

static bool wants(const struct watcher *w, const struct subject *s)
{
    return s->status >= w->status_from && s->status <= w->status_to &&
           (w->bucket[0] == '\0' || fl_span_is(s->bucket, w->bucket));
}

/* ---- to the watchers ---- */

static bool append(struct watcher *w, struct fl_span line)
{
    if (line.len > sizeof(w->text) - w->len) {
        return false;
    }
    if (w->begin > 0 && line.len > sizeof(w->text) - w->begin - w->len) {
        memmove(w->text, w->text + w->begin, w->len);
        w->begin = 0;
    }
    memcpy(w->text + w->begin + w->len, line.ptr, line.len);
    w->len += line.len;
    return true;
}

static void hand_over(struct watcher *w, struct fl_span line)
{
    char note[48];
    struct fl_fmt f = fl_fmt_of(note, sizeof(note));
    fl_fmt_printf(&f, "{\"dropped\":%llu}\n", (unsigned long long)w->lost);
    bool room = line.len + f.len <= sizeof(w->text) - w->len;
    if (w->lost > 0 && room && append(w, (struct fl_span){f.base, f.len})) {
        w->lost = 0;
    }
    if (w->lost > 0 || !append(w, line)) {
        w->lost++;
    }
}

static void hand_out(struct fl_tap *t, const struct fl_snapshot *current)
{
    struct subject s;
    struct fl_span rest = {t->taken.text, t->taken.len};
    while (rest.len > 0) {
        ptrdiff_t end = fl_span_find(rest, '\n');
        s.line = fl_span_first(rest, end < 0 ? rest.len : (size_t)end + 1);
        rest = fl_span_from(rest, s.line.len);
        look_at(&s, current);
        fl_list_each (it, &t->watchers) {
            struct watcher *w = fl_container_of(it, struct watcher, node);
            if (wants(w, &s)) {
                hand_over(w, s.line);
            }
        }
    }
    fl_list_each (it, &t->watchers) {
        struct watcher *w = fl_container_of(it, struct watcher, node);
        w->lost += t->taken.lost;
        if (w->len > 0) {
            fl_mhd_stream_more(w->call);
        }
    }
}

void fl_tap_turn(struct fl_tap *t, const struct fl_snapshot *current)
{
    if (t == NULL || t->count == 0) {
        return;
    }
    pthread_mutex_lock(&t->lock);
    bool any = t->told;
    if (any) {
        struct block b = t->filling;
        t->taken.len = t->taken.lost = 0;
        t->filling = t->taken;
        t->taken = b;
        t->told = false;
    }
    pthread_mutex_unlock(&t->lock);
    if (any) {
        hand_out(t, current);
    }
}

static size_t more(void *arg, char *into, size_t cap)
{
    struct watcher *w = arg;
    size_t n = w->len < cap ? w->len : cap;
    memcpy(into, w->text + w->begin, n);
    w->len -= n;
    w->begin = w->len > 0 ? w->begin + n : 0;
    return n;
}

/* ---- coming and going ---- */

static void drop_blocks(struct fl_tap *t)
{
    fl_log_writer_listen(t->writer, false);
    atomic_store_explicit(&t->watched, false, memory_order_release);
    pthread_mutex_lock(&t->lock);
    free(t->filling.text);
    free(t->taken.text);
    t->filling = t->taken = (struct block){0};
    t->told = false;
    pthread_mutex_unlock(&t->lock);
}

static bool make_blocks(struct fl_tap *t)
{
    char *a = malloc(BLOCK_BYTES), *b = malloc(BLOCK_BYTES);
    if (a == NULL || b == NULL) {
        free(a);
        free(b);
        return false;
    }
    pthread_mutex_lock(&t->lock);
    t->filling = (struct block){.text = a};
    t->taken = (struct block){.text = b};
    pthread_mutex_unlock(&t->lock);
    atomic_store_explicit(&t->watched, true, memory_order_release);
    fl_log_writer_listen(t->writer, true);
    return true;
}

static void on_ended(void *arg)
{
    struct watcher *w = arg;
    struct fl_tap *t = w->tap;
    fl_list_remove(&w->node);
    free(w);
    if (--t->count == 0) {
        drop_blocks(t);
    }
}

/* "503" or "5xx"; absent: all. */
static bool read_status(struct fl_mhd_call *call, struct watcher *w)
{
    char text[8];
    struct fl_span s;
    uint64_t n;
    w->status_to = 999;
    if (!fl_mhd_query(call, "status", 0, text, sizeof(text), &s)) {
        return true;
    }
    if (s.len == 3 && fl_span_ieq(fl_span_from(s, 1), FL_SPAN("xx")) && s.ptr[0] >= '1' &&
        s.ptr[0] <= '5') {
        w->status_from = (s.ptr[0] - '0') * 100;
        w->status_to = w->status_from + 99;
        return true;
    }
    if (s.len != 3 || !fl_units_uint(s, &n) || n < 100 || n > 599) {
        return false;
    }
    w->status_from = w->status_to = (int)n;
    return true;
}

static void begin(struct fl_tap *t, struct fl_mhd_call *call, struct watcher *w)
{
    const struct fl_mhd_stream stream = {more, on_ended, w};
    w->tap = t;
    w->call = call;
    fl_list_append(&t->watchers, &w->node);
    t->count++;
    fl_mhd_reply_stream(call, "application/x-ndjson", &stream);
}

void fl_tap_open(struct fl_tap *t, struct fl_mhd_call *call)
{
    struct fl_span bucket = {0};
    if (t != NULL && t->count == FL_TAP_WATCHERS_MAX) {
        fl_mhd_problem(call, 503, "overload", "there are 4 watchers already");
        return;
    }
    struct watcher *w = t != NULL ? calloc(1, sizeof(*w)) : NULL;
    if (w == NULL || (t->count == 0 && !make_blocks(t))) {
        free(w);
        fl_mhd_problem(call, 503, "local_resource", "out of memory");
        return;
    }
    if (!read_status(call, w)) {
        fl_mhd_problem(call, 400, "bad_request", "status must be like 503, or like 5xx");
    } else if (fl_mhd_query(call, "bucket", 0, w->bucket, sizeof(w->bucket), &bucket) &&
               bucket.len == 0) {
        fl_mhd_problem(call, 400, "bad_request", "bucket must be a name");
    } else {
        begin(t, call, w);
        return;
    }
    free(w);
    if (t->count == 0) {
        drop_blocks(t);
    }
}

struct fl_tap *fl_tap_new(struct fl_reactor *r, struct fl_log_writer *w)
{
    struct fl_tap *t = calloc(1, sizeof(*t));
    if (t != NULL) {
        t->reactor = r;
        t->writer = w;
        fl_list_init(&t->watchers);
        FL_MUST(pthread_mutex_init(&t->lock, NULL) == 0);
        fl_log_writer_watch(w, on_line, t);
    }
    return t;
}

struct fl_tap *fl_tap_free(struct fl_tap *t)
{
    if (t != NULL) {
        FL_MUST(t->count == 0);
        (void)pthread_mutex_destroy(&t->lock);
        free(t);
    }
    return NULL;
}
