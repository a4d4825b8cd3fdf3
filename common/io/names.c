#include "common/io/names.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/io/resolve.h"

#define AGAIN_MS 30000
#define FIRST_MS 1000
#define HOST_MAX 254

struct name {
    struct fl_list node;
    struct fl_names *names;
    struct fl_timer again;
    struct fl_addr *addrs;
    int count, err;
    bool asked, pending, wanted;
    unsigned failures; /* in a row, while it has no address */
    uint16_t port;
    char host[];
};

struct fl_names {
    struct fl_reactor *reactor;
    struct fl_resolver *resolver; /* made with the first name: most sidecars have none */
    struct fl_list all;
    struct fl_list gone;          /* forgotten, but their answer is still to come */
    const struct fl_names *elder; /* whose addresses are taken over now; NULL: nobody's */
    void (*changed)(void *arg);
    void *arg;
};

int fl_names_new(struct fl_reactor *r, void (*changed)(void *arg), void *arg, struct fl_names **ret)
{
    struct fl_names *n = calloc(1, sizeof(*n));
    if (n == NULL) {
        return -ENOMEM;
    }
    n->reactor = r;
    n->changed = changed;
    n->arg = arg;
    fl_list_init(&n->all);
    fl_list_init(&n->gone);
    *ret = n;
    return 0;
}

static void free_name(struct name *one)
{
    fl_timer_remove(one->names->reactor, &one->again);
    fl_list_remove(&one->node);
    free(one->addrs);
    free(one);
}

struct fl_names *fl_names_free(struct fl_names *n)
{
    if (n == NULL) {
        return NULL;
    }
    fl_resolver_free(n->resolver); /* first: no answer comes after it */
    struct fl_list *lists[] = {&n->all, &n->gone};
    for (size_t i = 0; i < FL_COUNTOF(lists); i++) {
        fl_list_each_safe (it, next, lists[i]) {
            free_name(fl_container_of(it, struct name, node));
        }
    }
    free(n);
    return NULL;
}

static void plan_next(struct name *one)
{
    int64_t wait_ms = AGAIN_MS;
    if (one->count == 0 && one->failures > 0 && one->failures < 6) {
        wait_ms = (int64_t)FIRST_MS << (one->failures - 1);
    }
    struct fl_reactor *r = one->names->reactor;
    fl_timer_set(r, &one->again, fl_reactor_now_ms(r) + wait_ms);
}

/* True when what users of the name see is different now. */
static bool take_answer(struct name *one, int err, const struct fl_addr *addrs, int count)
{
    bool first = !one->asked;
    one->asked = true;
    one->err = err;
    if (err != 0 || count <= 0) {
        one->failures += one->failures < 100;
        return first;
    }
    one->failures = 0;
    bool same = count == one->count;
    for (int i = 0; same && i < count; i++) {
        same = fl_addr_eq(&addrs[i], &one->addrs[i]);
    }
    if (same) {
        return first;
    }
    struct fl_addr *copy = calloc((size_t)count, sizeof(*copy));
    if (copy == NULL) {
        return first; /* the old ones go on, the next answer may fit */
    }
    memcpy(copy, addrs, (size_t)count * sizeof(*copy));
    free(one->addrs);
    one->addrs = copy;
    one->count = count;
    return true;
}

static void on_answer(void *arg, int err, const struct fl_addr *addrs, int count)
{
    struct name *one = arg;
    struct fl_names *n = one->names;
    one->pending = false;
    if (!one->wanted) {
        free_name(one);
        return;
    }
    bool changed = take_answer(one, err, addrs, count);
    plan_next(one);
    if (changed) {
        n->changed(n->arg);
    }
}

static void ask(struct name *one)
{
    struct fl_names *n = one->names;
    if (one->pending) {
        return;
    }
    int rc = n->resolver != NULL ? 0 : fl_resolver_new(n->reactor, &n->resolver);
    if (rc == 0) {
        rc = fl_resolver_ask(n->resolver, one->host, one->port, on_answer, one);
    }
    one->pending = rc == 0;
    if (rc < 0) {
        plan_next(one);
    }
}

static void on_again(struct fl_timer *t)
{
    ask(fl_container_of(t, struct name, again));
}

static struct name *find(const struct fl_names *n, struct fl_span host, uint16_t port)
{
    fl_list_each (it, &n->all) {
        struct name *one = fl_container_of(it, struct name, node);
        if (one->port == port && fl_span_is(host, one->host)) {
            return one;
        }
    }
    return NULL;
}

static struct name *add(struct fl_names *n, struct fl_span host, uint16_t port)
{
    struct name *one =
        host.len > 0 && host.len < HOST_MAX ? calloc(1, sizeof(*one) + host.len + 1) : NULL;
    if (one == NULL) {
        return NULL;
    }
    one->names = n;
    one->port = port;
    one->wanted = true;
    memcpy(one->host, host.ptr, host.len);
    fl_timer_init(&one->again, on_again);
    fl_list_append(&n->all, &one->node);
    const struct name *from = n->elder != NULL ? find(n->elder, host, port) : NULL;
    if (from != NULL && from->count > 0 && take_answer(one, 0, from->addrs, from->count) &&
        one->count > 0) {
        plan_next(one);
    } else {
        ask(one);
    }
    return one;
}

void fl_names_learn(struct fl_names *n, const struct fl_names *other)
{
    n->elder = other;
}

void fl_names_begin(struct fl_names *n)
{
    fl_list_each (it, &n->all) {
        fl_container_of(it, struct name, node)->wanted = false;
    }
}

bool fl_names_want(struct fl_names *n, struct fl_span host, uint16_t port,
                   struct fl_name_answer *ret)
{
    struct name *one = find(n, host, port);
    if (one == NULL) {
        one = add(n, host, port);
    }
    if (one == NULL) {
        return false;
    }
    one->wanted = true;
    *ret = (struct fl_name_answer){one->addrs, one->count, one->err, one->asked};
    return true;
}

bool fl_names_look(const struct fl_names *n, struct fl_span host, uint16_t port,
                   struct fl_name_answer *ret)
{
    const struct name *one = find(n, host, port);
    if (one != NULL) {
        *ret = (struct fl_name_answer){one->addrs, one->count, one->err, one->asked};
    }
    return one != NULL;
}

void fl_names_end(struct fl_names *n)
{
    fl_list_each_safe (it, next, &n->all) {
        struct name *one = fl_container_of(it, struct name, node);
        if (!one->wanted && one->pending) {
            fl_timer_off(&one->again);
            fl_list_remove(&one->node);
            fl_list_append(&n->gone, &one->node);
        } else if (!one->wanted) {
            free_name(one);
        }
    }
}

unsigned fl_names_unanswered(const struct fl_names *n)
{
    unsigned count = 0;
    fl_list_each (it, &n->all) {
        count += !fl_container_of(it, struct name, node)->asked;
    }
    return count;
}
