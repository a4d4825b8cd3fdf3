#include "common/tls/tls_shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/base/list.h"

struct trusted { /* one file of authorities, for all definitions that name it */
    struct fl_list node;
    struct fl_tls_authorities *authorities;
    bool fresh; /* read again during this look */
    bool wanted;
};

struct entry {
    struct fl_list node;
    struct trusted *trusted; /* NULL: not verified */
    struct fl_tls_terms *terms;
    struct fl_tls_conf conf; /* its texts stand behind the struct */
    bool wanted;
    bool stale;     /* its authorities are newer than its terms */
    char said[320]; /* the last trouble with a change; "" none */
    char texts[];
};

struct fl_tls_shelf {
    unsigned lanes;
    struct fl_list entries, trusted;
};

struct fl_tls_shelf *fl_tls_shelf_new(unsigned lanes)
{
    struct fl_tls_shelf *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->lanes = lanes;
        fl_list_init(&s->entries);
        fl_list_init(&s->trusted);
    }
    return s;
}

static void drop_entry(struct entry *e)
{
    fl_list_remove(&e->node);
    fl_tls_terms_give(e->terms);
    free(e);
}

static void drop_trusted(struct trusted *t)
{
    fl_list_remove(&t->node);
    fl_tls_authorities_free(t->authorities);
    free(t);
}

static struct entry *entry_of(struct fl_list *n)
{
    return fl_container_of(n, struct entry, node);
}

static struct trusted *trusted_of(struct fl_list *n)
{
    return fl_container_of(n, struct trusted, node);
}

struct fl_tls_shelf *fl_tls_shelf_free(struct fl_tls_shelf *s)
{
    if (s != NULL) {
        fl_tls_shelf_begin(s);
        fl_tls_shelf_end(s);
        free(s);
    }
    return NULL;
}

void fl_tls_shelf_begin(struct fl_tls_shelf *s)
{
    fl_list_each (n, &s->entries) {
        entry_of(n)->wanted = false;
    }
}

void fl_tls_shelf_end(struct fl_tls_shelf *s)
{
    fl_list_each (n, &s->trusted) {
        trusted_of(n)->wanted = false;
    }
    fl_list_each_safe (n, next, &s->entries) {
        struct entry *e = entry_of(n);
        if (!e->wanted) {
            drop_entry(e);
        } else if (e->trusted != NULL) {
            e->trusted->wanted = true;
        }
    }
    fl_list_each_safe (n, next, &s->trusted) {
        if (!trusted_of(n)->wanted) {
            drop_trusted(trusted_of(n));
        }
    }
}

/* ---- making ---- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static bool same_definition(const struct fl_tls_conf *a, const struct fl_tls_conf *b)
{
    return a->verify == b->verify && same_text(a->ca_file, b->ca_file) &&
           same_text(a->server_name, b->server_name) && same_text(a->cert_file, b->cert_file) &&
           same_text(a->key_file, b->key_file);
}

static int trust(struct fl_tls_shelf *s, const char *ca_file, struct fl_tls_problem *problem,
                 struct trusted **ret)
{
    fl_list_each (n, &s->trusted) {
        if (strcmp(fl_tls_authorities_file(trusted_of(n)->authorities), ca_file) == 0) {
            *ret = trusted_of(n);
            return 0;
        }
    }
    struct trusted *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return -ENOMEM;
    }
    int rc = fl_tls_authorities_new(ca_file, problem, &t->authorities);
    if (rc < 0) {
        free(t);
        return rc;
    }
    fl_list_append(&s->trusted, &t->node);
    *ret = t;
    return 0;
}

static const char *keep(struct fl_fmt *f, const char *text)
{
    const char *at = f->base + f->len;
    fl_fmt_text(f, text != NULL ? text : "");
    fl_fmt_span(f, (struct fl_span){"", 1}); /* its NUL, so that the next one stands behind it */
    return at;
}

static struct entry *new_entry(const struct fl_tls_conf *c)
{
    const char *const texts[] = {c->ca_file, c->server_name, c->cert_file, c->key_file};
    size_t bytes = 1; /* of the last NUL that fmt writes */
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        bytes += fl_span_of(texts[i]).len + 1;
    }
    struct entry *e = calloc(1, sizeof *e + bytes);
    if (e == NULL) {
        return NULL;
    }
    struct fl_fmt f = fl_fmt_of(e->texts, bytes);
    e->conf = *c;
    e->conf.ca_file = keep(&f, c->ca_file);
    e->conf.server_name = keep(&f, c->server_name);
    e->conf.cert_file = keep(&f, c->cert_file);
    e->conf.key_file = keep(&f, c->key_file);
    FL_MUST(!f.cut);
    fl_list_init(&e->node);
    return e;
}

static int make(struct fl_tls_shelf *s, struct entry *e, struct fl_tls_problem *problem,
                struct fl_tls_terms **ret)
{
    const struct fl_tls_authorities *authorities = NULL;
    if (e->conf.verify) {
        int rc = e->trusted == NULL ? trust(s, e->conf.ca_file, problem, &e->trusted) : 0;
        if (rc < 0) {
            return rc;
        }
        authorities = e->trusted->authorities;
    }
    return fl_tls_terms_new(&e->conf, authorities, s->lanes, problem, ret);
}

int fl_tls_shelf_get(struct fl_tls_shelf *s, const struct fl_tls_conf *conf,
                     struct fl_tls_problem *problem, struct fl_tls_terms **ret)
{
    FL_MUST(conf->on);
    fl_list_each (n, &s->entries) {
        struct entry *e = entry_of(n);
        if (same_definition(&e->conf, conf)) {
            e->wanted = true;
            *ret = e->terms;
            return 0;
        }
    }
    struct entry *e = new_entry(conf);
    if (e == NULL) {
        return -ENOMEM;
    }
    int rc = make(s, e, problem, &e->terms);
    if (rc < 0) {
        drop_entry(e); /* authorities that nobody else wants go at the next end */
        return rc;
    }
    e->wanted = true;
    fl_list_append(&s->entries, &e->node);
    *ret = e->terms;
    return 0;
}

/* ---- looking again ---- */

static void say(struct entry *e, const char *file, const struct fl_tls_problem *problem,
                fl_tls_shelf_say_fn *fn, void *arg)
{
    if (strcmp(problem->text, e->said) == 0) {
        return;
    }
    struct fl_fmt f = fl_fmt_of(e->said, sizeof e->said);
    fl_fmt_text(&f, problem->text);
    fn(arg, file, problem);
}

/* Reads a changed file of authorities once, however many definitions trust it. */
static void read_again(struct entry *e, fl_tls_shelf_say_fn *fn, void *arg)
{
    struct trusted *t = e->trusted;
    struct fl_tls_problem problem;
    struct fl_tls_authorities *now = NULL;
    if (t == NULL || t->fresh || !fl_tls_authorities_changed(t->authorities)) {
        return;
    }
    int rc = fl_tls_authorities_new(fl_tls_authorities_file(t->authorities), &problem, &now);
    if (rc == 0) {
        fl_tls_authorities_free(t->authorities);
        t->authorities = now;
        t->fresh = true;
    } else if (rc == -EINVAL) {
        say(e, e->conf.ca_file, &problem, fn, arg);
    }
}

/* True: new terms are in force. */
static bool renew(struct fl_tls_shelf *s, struct entry *e, fl_tls_shelf_say_fn *fn, void *arg)
{
    struct fl_tls_problem problem;
    struct fl_tls_terms *now = NULL;
    bool own = fl_tls_terms_changed(e->terms);
    e->stale = e->stale || (e->trusted != NULL && e->trusted->fresh);
    if (!own && !e->stale) {
        return false;
    }
    const char *file = own ? e->conf.cert_file : e->conf.ca_file;
    int rc = make(s, e, &problem, &now);
    if (rc < 0) {
        if (rc == -EINVAL) {
            say(e, file, &problem, fn, arg);
        }
        return false;
    }
    e->stale = false;
    e->said[0] = '\0';
    if (fl_tls_terms_same(now, e->terms)) { /* touched, not changed: its connections may stay */
        fl_tls_terms_restamp(e->terms, now);
        fl_tls_terms_give(now);
        return false;
    }
    fl_tls_terms_give(e->terms);
    e->terms = now;
    fn(arg, file, NULL);
    return true;
}

bool fl_tls_shelf_look(struct fl_tls_shelf *s, fl_tls_shelf_say_fn *say_fn, void *arg)
{
    bool any = false;
    fl_list_each (n, &s->entries) {
        read_again(entry_of(n), say_fn, arg);
    }
    fl_list_each (n, &s->entries) {
        any |= renew(s, entry_of(n), say_fn, arg);
    }
    fl_list_each (n, &s->trusted) {
        trusted_of(n)->fresh = false;
    }
    return any;
}
