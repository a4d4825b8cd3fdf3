#include "controller/codec/kube_stream.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/base/arena.h"
#include "controller/codec/json_scan.h"
#include "controller/codec/json_walk.h"

#define ROOM_FIRST   ((size_t)8 << 10)
#define METADATA_MAX ((size_t)32 << 10)
#define WORD_MAX     16u /* longer than every key and type that we know */

/* Where the next byte belongs: the outermost object, its members, and the elements of items. What
 * is deeper is json_scan's. */
enum at {
    AT_TOP, /* before the object */
    AT_KEY_OR_END,
    AT_KEY,
    AT_KEY_TEXT,
    AT_COLON,
    AT_VALUE,
    AT_TEXT,
    AT_SCALAR,
    AT_NESTED,
    AT_NEXT, /* behind a value: a comma or the end */
    AT_ITEM_OR_END,
    AT_ITEM,
    AT_NEXT_ITEM,
    AT_END, /* behind a list */
};

enum role { ROLE_OTHER, ROLE_METADATA, ROLE_ITEMS, ROLE_TYPE, ROLE_OBJECT, ROLE_ITEM };

struct fl_kube_stream {
    enum fl_kube_form form;
    size_t object_max;
    fl_kube_object_fn *object;
    void *arg;
    int fault;
    enum at at;
    enum role role;      /* of the value that is being read */
    unsigned seen;       /* roles that this object had: a bit each */
    bool escaped;        /* in a string of the outermost object */
    char word[WORD_MAX]; /* a key, a type or a scalar, while it is read */
    size_t word_len;     /* WORD_MAX + 1: too long to be one of ours */
    enum fl_kube_event event;
    struct fl_json_scan scan;
    char *kept; /* the text of a value that is wanted whole; its room stays for the next one */
    size_t kept_len, room;
    struct fl_arena metadata;
    const char *version, *next;
};

struct fl_kube_stream *fl_kube_stream_new(enum fl_kube_form form, size_t object_max,
                                          fl_kube_object_fn *object, void *arg)
{
    struct fl_kube_stream *s = calloc(1, sizeof(*s));
    if (s) {
        s->form = form;
        s->object_max = object_max;
        s->object = object;
        s->arg = arg;
        s->version = s->next = "";
        fl_arena_init(&s->metadata, METADATA_MAX);
    }
    return s;
}

struct fl_kube_stream *fl_kube_stream_free(struct fl_kube_stream *s)
{
    if (s) {
        fl_arena_done(&s->metadata);
        free(s->kept);
        free(s);
    }
    return NULL;
}

bool fl_kube_stream_whole(const struct fl_kube_stream *s)
{
    return s->fault == 0 && s->at == (s->form == FL_KUBE_LIST ? AT_END : AT_TOP);
}

const char *fl_kube_stream_version(const struct fl_kube_stream *s)
{
    return s->version;
}

const char *fl_kube_stream_continue(const struct fl_kube_stream *s)
{
    return s->next;
}

static int keep(struct fl_kube_stream *s, const char *from, size_t n)
{
    if (n > s->object_max - s->kept_len) {
        return -EMSGSIZE;
    }
    if (n > s->room - s->kept_len) {
        size_t room = s->room ? s->room : ROOM_FIRST;
        while (room - s->kept_len < n) {
            room = room > s->object_max / 2 ? s->object_max : room * 2;
        }
        char *grown = realloc(s->kept, room);
        if (!grown) {
            return -ENOMEM;
        }
        s->kept = grown;
        s->room = room;
    }
    memcpy(s->kept + s->kept_len, from, n);
    s->kept_len += n;
    return 0;
}

static void add_to_word(struct fl_kube_stream *s, char c)
{
    if (s->word_len < WORD_MAX) {
        s->word[s->word_len] = c;
    }
    s->word_len = s->word_len < WORD_MAX ? s->word_len + 1 : WORD_MAX + 1;
}

static bool word_is(const struct fl_kube_stream *s, const char *text)
{
    return s->word_len <= WORD_MAX && fl_span_is((struct fl_span){s->word, s->word_len}, text);
}

static enum role role_of_key(const struct fl_kube_stream *s)
{
    if (s->form == FL_KUBE_WATCH) {
        return word_is(s, "type") ? ROLE_TYPE : word_is(s, "object") ? ROLE_OBJECT : ROLE_OTHER;
    }
    return word_is(s, "metadata") ? ROLE_METADATA : word_is(s, "items") ? ROLE_ITEMS : ROLE_OTHER;
}

static enum fl_kube_event event_of_word(const struct fl_kube_stream *s)
{
    static const char *const names[] = {
        [FL_KUBE_ADDED] = "ADDED",     [FL_KUBE_MODIFIED] = "MODIFIED",
        [FL_KUBE_DELETED] = "DELETED", [FL_KUBE_BOOKMARK] = "BOOKMARK",
        [FL_KUBE_ERROR] = "ERROR",
    };
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (word_is(s, names[i])) {
            return (enum fl_kube_event)i;
        }
    }
    return FL_KUBE_UNKNOWN;
}

static int hand_on(struct fl_kube_stream *s, enum fl_kube_event event)
{
    struct fl_span text = {s->kept, s->kept_len};
    s->kept_len = 0;
    return s->object(s->arg, event, text) ? 0 : -ECANCELED;
}

static int read_metadata(struct fl_kube_stream *s)
{
    struct fl_json_walk w = fl_json_walk_of((struct fl_span){s->kept, s->kept_len}, &s->metadata);
    struct fl_span key;
    s->kept_len = 0;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            if (fl_span_is(key, "resourceVersion")) {
                s->version = fl_json_walk_text(&w);
            } else if (fl_span_is(key, "continue")) {
                s->next = fl_json_walk_text(&w);
            } else {
                fl_json_walk_skip(&w);
            }
        }
    }
    return fl_json_walk_end(&w);
}

/* A value has ended. */
static int settle(struct fl_kube_stream *s)
{
    enum role role = s->role;
    s->at = role == ROLE_ITEM ? AT_NEXT_ITEM : AT_NEXT;
    switch (role) {
    case ROLE_OTHER:
    case ROLE_ITEMS:
    case ROLE_OBJECT:
        return 0;
    case ROLE_METADATA:
        return s->kept_len ? read_metadata(s) : 0; /* 0: it was null */
    case ROLE_TYPE:
        s->event = event_of_word(s);
        return 0;
    case ROLE_ITEM:
        return hand_on(s, FL_KUBE_ADDED);
    }
    FL_IMPOSSIBLE("role");
}

/* The closing brace of the outermost object. */
static int close_object(struct fl_kube_stream *s)
{
    unsigned wanted =
        s->form == FL_KUBE_LIST ? 1u << ROLE_ITEMS : 1u << ROLE_TYPE | 1u << ROLE_OBJECT;
    if ((s->seen & wanted) != wanted) {
        return -EBADMSG; /* a Status, say: it must not pass for a list without items */
    }
    s->seen = 0;
    s->at = s->form == FL_KUBE_LIST ? AT_END : AT_TOP;
    return s->form == FL_KUBE_LIST ? 0 : hand_on(s, s->event);
}

static bool is_scalar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

static bool is_kept(enum role role)
{
    return role == ROLE_METADATA || role == ROLE_OBJECT || role == ROLE_ITEM;
}

static int begin_nested(struct fl_kube_stream *s, char c)
{
    size_t taken;
    s->at = AT_NESTED;
    s->scan = (struct fl_json_scan){0};
    fl_json_scan_run(&s->scan, (struct fl_span){&c, 1}, &taken);
    return is_kept(s->role) ? keep(s, &c, 1) : 0;
}

/* The first byte of a value: its role says what it may be. */
static int begin_value(struct fl_kube_stream *s, char c)
{
    enum role role = s->role;
    bool any = role == ROLE_OTHER;
    s->word_len = 0;
    if (c == '[' && role == ROLE_ITEMS) {
        s->at = AT_ITEM_OR_END;
        return 0;
    }
    if ((c == '{' || c == '[') && (any || (c == '{' && is_kept(role)))) {
        return begin_nested(s, c);
    }
    if (c == '"' && (any || role == ROLE_TYPE)) {
        s->at = AT_TEXT;
        return 0;
    }
    if (is_scalar(c) && (any || role == ROLE_METADATA || role == ROLE_ITEMS)) {
        s->at = AT_SCALAR;
        add_to_word(s, c);
        return 0;
    }
    return -EBADMSG;
}

static int begin_item(struct fl_kube_stream *s, char c)
{
    s->role = ROLE_ITEM;
    return begin_value(s, c);
}

static int begin_key(struct fl_kube_stream *s, char c)
{
    s->word_len = 0;
    s->at = AT_KEY_TEXT;
    return c == '"' ? 0 : -EBADMSG;
}

static int colon(struct fl_kube_stream *s)
{
    s->role = role_of_key(s);
    if (s->role != ROLE_OTHER && (s->seen & 1u << s->role)) {
        return -EBADMSG; /* the key twice */
    }
    s->seen |= 1u << s->role;
    s->at = AT_VALUE;
    return 0;
}

static int after_value(struct fl_kube_stream *s, char c)
{
    s->at = AT_KEY;
    return c == '}' ? close_object(s) : c == ',' ? 0 : -EBADMSG;
}

static int end_items(struct fl_kube_stream *s)
{
    s->role = ROLE_ITEMS;
    return settle(s);
}

static int after_item(struct fl_kube_stream *s, char c)
{
    s->at = AT_ITEM;
    return c == ']' ? end_items(s) : c == ',' ? 0 : -EBADMSG;
}

/* One byte between the values of the outermost object, not white space. */
static int structure(struct fl_kube_stream *s, char c)
{
    switch (s->at) {
    case AT_TOP:
        s->at = AT_KEY_OR_END;
        return c == '{' ? 0 : -EBADMSG;
    case AT_KEY_OR_END:
        return c == '}' ? close_object(s) : begin_key(s, c);
    case AT_KEY:
        return begin_key(s, c);
    case AT_COLON:
        return c == ':' ? colon(s) : -EBADMSG;
    case AT_VALUE:
        return begin_value(s, c);
    case AT_NEXT:
        return after_value(s, c);
    case AT_ITEM_OR_END:
        return c == ']' ? end_items(s) : begin_item(s, c);
    case AT_ITEM:
        return begin_item(s, c);
    case AT_NEXT_ITEM:
        return after_item(s, c);
    case AT_END:
        return -EBADMSG;
    case AT_KEY_TEXT:
    case AT_TEXT:
    case AT_SCALAR:
    case AT_NESTED:
        break;
    }
    FL_IMPOSSIBLE("these are not between values");
}

static int take_structure(struct fl_kube_stream *s, const char **p)
{
    char c = *(*p)++;
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' ? 0 : structure(s, c);
}

/* A key or a string of the outermost object: as much of it as is there. */
static int take_text(struct fl_kube_stream *s, const char **p, const char *end)
{
    while (*p < end) {
        char c = *(*p)++;
        if ((unsigned char)c < 0x20) {
            return -EBADMSG;
        }
        if (c == '"' && !s->escaped) {
            if (s->at == AT_TEXT) {
                return settle(s);
            }
            s->at = AT_COLON;
            return 0;
        }
        s->escaped = c == '\\' && !s->escaped;
        add_to_word(s, c);
    }
    return 0;
}

/* The byte behind a scalar is not its. */
static int take_scalar(struct fl_kube_stream *s, const char **p, const char *end)
{
    for (; *p < end; (*p)++) {
        if (!is_scalar(**p)) {
            return s->role == ROLE_OTHER || word_is(s, "null") ? settle(s) : -EBADMSG;
        }
        add_to_word(s, **p);
    }
    return 0;
}

static int take_nested(struct fl_kube_stream *s, const char **p, const char *end)
{
    struct fl_span bytes = {*p, (size_t)(end - *p)};
    size_t taken;
    enum fl_json_scan_step step = fl_json_scan_run(&s->scan, bytes, &taken);
    int err = is_kept(s->role) ? keep(s, *p, taken) : 0; /* too large before it went bad? */
    *p += taken;
    if (err != 0 || step == FL_JSON_SCAN_MORE) {
        return err;
    }
    return step == FL_JSON_SCAN_DONE ? settle(s) : -EBADMSG;
}

int fl_kube_stream_feed(struct fl_kube_stream *s, struct fl_span bytes)
{
    const char *p = bytes.ptr, *end = bytes.len ? p + bytes.len : p;
    while (p < end && s->fault == 0) {
        if (s->at == AT_NESTED) {
            s->fault = take_nested(s, &p, end);
        } else if (s->at == AT_SCALAR) {
            s->fault = take_scalar(s, &p, end);
        } else if (s->at == AT_KEY_TEXT || s->at == AT_TEXT) {
            s->fault = take_text(s, &p, end);
        } else {
            s->fault = take_structure(s, &p);
        }
    }
    return s->fault;
}
