#include "controller/decide/verdict_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"

#define KEY_MAX 600 /* a backend's name (253), an address (260) */

struct row {
    struct fl_verdict verdict;
    size_t key_len;
    char key[];
};

void fl_verdict_table_init(struct fl_verdict_table *t, uint64_t seed)
{
    fl_smap_init(&t->rows, seed);
}

void fl_verdict_table_done(struct fl_verdict_table *t)
{
    size_t at = 0;
    struct fl_span key;
    for (struct row *r; (r = fl_smap_next(&t->rows, &at, &key)) != NULL;) {
        free(r);
    }
    fl_smap_done(&t->rows);
}

static struct fl_span key_of(const char *backend, const char *address, char text[KEY_MAX])
{
    struct fl_fmt f = fl_fmt_of(text, KEY_MAX);
    fl_fmt_text(&f, backend);
    fl_fmt_char(&f, '\n');
    fl_fmt_text(&f, address);
    FL_MUST(!f.cut); /* the configuration bounds both */
    return (struct fl_span){f.base, f.len};
}

int fl_verdict_table_set(struct fl_verdict_table *t, const char *backend, const char *address,
                         const struct fl_verdict *v)
{
    char text[KEY_MAX];
    struct fl_span key = key_of(backend, address, text);
    struct row *r = fl_smap_get(&t->rows, key);
    if (r != NULL) {
        r->verdict = *v;
        return 0;
    }
    r = calloc(1, sizeof(*r) + key.len);
    if (r == NULL) {
        return -ENOMEM;
    }
    r->verdict = *v;
    r->key_len = key.len;
    memcpy(r->key, key.ptr, key.len);
    int rc = fl_smap_put(&t->rows, (struct fl_span){r->key, r->key_len}, r);
    if (rc < 0) {
        free(r);
    }
    return rc;
}

void fl_verdict_table_drop(struct fl_verdict_table *t, const char *backend, const char *address)
{
    char text[KEY_MAX];
    free(fl_smap_remove(&t->rows, key_of(backend, address, text)));
}

const struct fl_verdict *fl_verdict_table_get(const struct fl_verdict_table *t, const char *backend,
                                              const char *address)
{
    char text[KEY_MAX];
    const struct row *r = fl_smap_get(&t->rows, key_of(backend, address, text));
    return r != NULL ? &r->verdict : NULL;
}
