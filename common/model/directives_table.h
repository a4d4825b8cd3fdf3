/* directives_table - the rows behind directives.h, for the files of this folder and for generators
 * (annotations, docs). A scope is one mapping of the document; a scope inside another (queue, probe
 * …) addresses the same struct, so its offsets count from the outer struct. Pure. */
#ifndef FL_COMMON_MODEL_DIRECTIVES_TABLE_H
#define FL_COMMON_MODEL_DIRECTIVES_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fl_scope {
    FL_SCOPE_ROOT,
    FL_SCOPE_LISTEN,
    FL_SCOPE_CLIENT,
    FL_SCOPE_PUSH,
    FL_SCOPE_BACKEND,
    FL_SCOPE_SERVICE,
    FL_SCOPE_QUEUE,
    FL_SCOPE_KEEPALIVE,
    FL_SCOPE_RETRY_BUDGET,
    FL_SCOPE_TLS,
    FL_SCOPE_PROBE,
    FL_SCOPE_PEER,
    FL_SCOPE_ROUTE,
    FL_SCOPE_POLICY, /* the keys that a route and each of its paths share */
    FL_SCOPE_PATH,
    FL_SCOPE_CONTROLLER,
    FL_SCOPE_CONTROLLER_LISTEN,
    FL_SCOPE_PROBE_DEFAULTS,
    FL_SCOPE_CONTROLLER_PROBE,
    FL_SCOPE_CONTROLLER_PUSH,
    FL_SCOPE_ELECTION,
    FL_SCOPE_INJECTION,
    FL_SCOPE_SIDECAR,
    FL_SCOPE_SERVICES,
    FL_SCOPE_SERVICE_ENTRY,
    FL_SCOPE_ENDPOINT,
    FL_SCOPE_COUNT,
    FL_SCOPE_NONE = FL_SCOPE_COUNT,
};

/* Value types; the comment is what the field of the struct is. */
enum fl_type {
    FL_TYPE_DURATION,   /* int64_t, ms */
    FL_TYPE_SIZE,       /* uint64_t, bytes */
    FL_TYPE_UINT,       /* uint32_t */
    FL_TYPE_PERCENT,    /* uint32_t */
    FL_TYPE_MULTIPLE,   /* uint32_t */
    FL_TYPE_THREADS,    /* uint32_t, 0 = auto */
    FL_TYPE_BOOL,       /* bool */
    FL_TYPE_BACKUP,     /* enum fl_tier: true = FL_TIER_BACKUP */
    FL_TYPE_ENUM,       /* an enum whose values are the index into words */
    FL_TYPE_CONDITIONS, /* uint32_t, FL_ON_* */
    FL_TYPE_TEXT,       /* const char * */
    FL_TYPE_STATUSES,   /* const char *, "200-399,404" */
    FL_TYPE_LISTEN,     /* const char *, literal address:port */
    FL_TYPE_ADDRESS,    /* const char *, host:port */
    FL_TYPE_ENDPOINT,   /* const char *, address or address:port */
    FL_TYPE_SOURCE,     /* const char *, "" = kubernetes */
    FL_TYPE_TEXTS,      /* struct fl_strings */
    FL_TYPE_LISTENS,    /* struct fl_strings, literal address:port or unix:PATH */
    FL_TYPE_NAMESPACES, /* enum fl_probe_namespaces; the names in the struct fl_strings at
                           count_offset */
    FL_TYPE_MAP,        /* a scope inside this one */
    FL_TYPE_LIST,       /* pointer to structs of the child scope; uint32_t at count_offset */
    FL_TYPE_BACKENDS,   /* into the configuration that is being read */
    FL_TYPE_ROUTES,
    FL_TYPE_PATHS, /* as FL_TYPE_LIST, keyed */
    FL_TYPE_SERVICES,
    FL_TYPE_PORTS,
    FL_TYPE_COUNT,
};

enum fl_directive_flags {
    FL_D_REQUIRED = 1 << 0,
    FL_D_ZERO = 1 << 1,       /* 0 is allowed beside the range */
    FL_D_OFF = 1 << 2,        /* `off` is allowed and means 0 */
    FL_D_PUSH = 1 << 3,       /* only in pushed states */
    FL_D_ANNOTATION = 1 << 4, /* only in pod annotations; a file is warned */
    FL_D_PRIVATE = 1 << 5,    /* refused in pod annotations: its author is not trusted with it */
    FL_D_PRESENCE = 1 << 6,   /* a MAP whose being there is itself a value: bool at count_offset */
    FL_D_HIDE = 1 << 7,       /* --show-config leaves it out while it has its default */
    FL_D_PUSH_ZERO = 1 << 8,  /* 0 is allowed in pushed states */
    FL_D_INLINE = 1 << 9,     /* --show-config writes the mapping on one line */
};

struct fl_directive {
    const char *name;
    enum fl_scope scope;
    enum fl_type type;
    unsigned flags;
    size_t offset, count_offset;
    const char *fallback;      /* the default as one would write it (on s3 where it depends on the
                                  protocol); NULL: none */
    const char *fallback_http; /* where it differs on http; NULL: the same */
    int64_t min, max;          /* of numbers in the field's unit; of texts the length */
    const char *const *words;  /* ENUM, NULL-terminated */
    enum fl_scope child;       /* of MAP, LIST, BACKENDS, ROUTES, PATHS, SERVICES */
    const char *nginx;         /* the nginx directive or parameter of this meaning; NULL: none */
    const char *doc;           /* one sentence */
};

struct fl_scope_row {
    const char *title;   /* of the reference page */
    const char *where;   /* "backends.NAME.queue"; "" = the top level */
    size_t size;         /* of one struct of a list, 0 for scopes inside another */
    size_t set_offset;   /* of the uint64_t of given keys; FL_NO_SET: none */
    enum fl_scope mixin; /* whose keys this scope has too; FL_SCOPE_NONE */
    size_t mixin_offset;
    unsigned document; /* FL_IN_*: which documents have it */
};
#define FL_NO_SET        ((size_t)-1)
#define FL_IN_SIDECAR    1u
#define FL_IN_CONTROLLER 2u
#define FL_IN_SERVICES   4u

const struct fl_scope_row *fl_scope_row(enum fl_scope s);
/* The rows of one scope (its mixin not among them), *count of them; the index within is the bit in
 * `set`. */
const struct fl_directive *fl_scope_rows(enum fl_scope s, unsigned *count);
const struct fl_directive *fl_scope_find(enum fl_scope s,
                                         const char *name); /* without mixin; NULL: absent */
unsigned fl_directive_bit(const struct fl_directive *d);

#endif
