#include "controller/decide/event_facts.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXTS 9

static bool follows(const unsigned char *p, size_t n, size_t len, unsigned char low,
                    unsigned char high)
{
    if (n < len || p[1] < low || p[1] > high) {
        return false;
    }
    for (size_t i = 2; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return false;
        }
    }
    return true;
}

/* Of the UTF-8 sequence at p (RFC 3629), 0: not one. */
static size_t length_at(const unsigned char *p, size_t n)
{
    unsigned char c = p[0];
    if (c < 0x80) {
        return 1;
    }
    if (c >= 0xc2 && c < 0xe0) {
        return follows(p, n, 2, 0x80, 0xbf) ? 2 : 0;
    }
    if (c >= 0xe0 && c < 0xf0) {
        return follows(p, n, 3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf) ? 3 : 0;
    }
    if (c >= 0xf0 && c < 0xf5) {
        return follows(p, n, 4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf) ? 4 : 0;
    }
    return 0;
}

/* Into to, at most `most` bytes and a NUL; where it ends. */
static char *put(char *to, const char *text, size_t most)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = strlen(text), used = 0;
    while (left > 0) {
        size_t n = length_at(p, left), len = n > 0 ? n : 1;
        if (used + len > most) {
            break;
        }
        if (n > 0) {
            memcpy(to + used, p, n);
        } else {
            to[used] = '?';
        }
        used += len;
        p += len;
        left -= len;
    }
    to[used] = '\0';
    return to + used + 1;
}

char *fl_event_facts_copy(const struct fl_event_facts *f, struct fl_event_facts *ret,
                          size_t *ret_len, size_t *ret_object_len)
{
    const char *action = f->action[0] ? f->action : f->reason;
    const struct {
        const char *from, **to;
        size_t most;
    } text[TEXTS] = {
        {f->api_version, &ret->api_version, 253},
        {f->kind, &ret->kind, 63},
        {f->namespace, &ret->namespace, 63},
        {f->name, &ret->name, FL_EVENT_NAME_MAX},
        {f->uid, &ret->uid, 63},
        {f->type, &ret->type, 63},
        {f->reason, &ret->reason, 128}, /* 128: the API server's limit */
        {action, &ret->action, 128},
        {f->note, &ret->note, FL_EVENT_NOTE_MAX},
    };
    size_t room = 0;
    for (int i = 0; i < TEXTS; i++) {
        size_t n = strlen(text[i].from);
        room += (n < text[i].most ? n : text[i].most) + 1;
    }
    char *base = malloc(room), *at = base;
    if (base == NULL) {
        return NULL;
    }
    for (int i = 0; i < TEXTS; i++) {
        *text[i].to = at;
        at = put(at, text[i].from, text[i].most);
        if (text[i].to == &ret->uid) {
            *ret_object_len = (size_t)(at - base);
        }
    }
    *ret_len = (size_t)(at - base);
    return base;
}

static bool alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

void fl_event_facts_name(const char *object, struct fl_rng *rng, char name[FL_EVENT_NAME_MAX + 1])
{
    size_t most = FL_EVENT_NAME_MAX - 17, n = 0;
    for (; object[n] != '\0' && n < most; n++) {
        char c = fl_ascii_lower(object[n]);
        bool good = alnum(c) || (n > 0 && (c == '-' || c == '.') && name[n - 1] != '.');
        name[n] = good ? c : 'x';
    }
    while (n > 0 && !alnum(name[n - 1])) {
        n--;
    }
    (void)snprintf(name + n, FL_EVENT_NAME_MAX + 1 - n, "%s%016llx", n > 0 ? "." : "",
                   (unsigned long long)fl_rng_next(rng));
}
