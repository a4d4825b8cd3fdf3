#include "controller/kube/watch_request.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"

#define FIXED_MAX 256 /* names and numbers of the longest query */

static void encode(struct fl_fmt *f, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("-._~", c) != NULL) {
            fl_fmt_char(f, *text);
        } else {
            fl_fmt_char(f, '%');
            fl_fmt_char(f, hex[c >> 4]);
            fl_fmt_char(f, hex[c & 15]);
        }
    }
}

static void list_query(struct fl_fmt *f, const char *version, const char *page)
{
    if (page[0] != '\0') { /* the token knows the version */
        fl_fmt_printf(f, "?limit=%d&continue=", FL_WATCH_PAGE);
        encode(f, page);
    } else if (version[0] == '\0') {
        fl_fmt_printf(f, "?limit=%d", FL_WATCH_PAGE);
    } else {
        fl_fmt_text(f, "?resourceVersion=");
        encode(f, version);
    }
}

char *fl_watch_request(const struct fl_watch_plan *p, const char *path, const char *selector,
                       const char *page)
{
    size_t cap =
        strlen(path) + 3 * (strlen(selector) + strlen(page) + strlen(p->version)) + FIXED_MAX;
    char *text = malloc(cap);
    if (text == NULL) {
        return NULL;
    }
    struct fl_fmt f = fl_fmt_of(text, cap);
    fl_fmt_text(&f, path);
    switch (p->step) {
    case FL_WATCH_DO_LIST:
        list_query(&f, p->version, page);
        break;
    case FL_WATCH_DO_STREAM:
    case FL_WATCH_DO_WATCH:
        fl_fmt_text(&f, "?watch=1&allowWatchBookmarks=true");
        if (p->step == FL_WATCH_DO_STREAM) {
            fl_fmt_text(&f, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        }
        fl_fmt_printf(&f, "&timeoutSeconds=%d&resourceVersion=", p->timeout_s);
        encode(&f, p->version);
        break;
    case FL_WATCH_DO_WAIT:
        FL_IMPOSSIBLE("waiting needs no request");
    }
    if (selector[0] != '\0') {
        fl_fmt_text(&f, "&labelSelector=");
        encode(&f, selector);
    }
    FL_MUST(!f.cut);
    return text;
}
