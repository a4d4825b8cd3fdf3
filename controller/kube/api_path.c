#include "controller/kube/api_path.h"

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* RFC 3986 section 2.3; ".." and "." alone would be steps of the path. */
static void segment(struct fl_fmt *out, const char *text)
{
    bool steps = strcmp(text, ".") == 0 || strcmp(text, "..") == 0;
    fl_fmt_char(out, '/');
    for (; *text; text++) {
        if (plain(*text) && !steps) {
            fl_fmt_char(out, *text);
        } else {
            fl_fmt_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
        }
    }
}

void fl_api_path(struct fl_fmt *out, const char *prefix, const char *namespace,
                 const char *resource, const char *name)
{
    fl_fmt_text(out, prefix);
    fl_fmt_text(out, "/namespaces");
    segment(out, namespace);
    segment(out, resource);
    if (name != NULL) {
        segment(out, name);
    }
}
