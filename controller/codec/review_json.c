#include "controller/codec/review_json.h"

#include <errno.h>

#include "common/base/arena.h"
#include "common/base/json.h"
#include "controller/codec/json_walk.h"

static void text_if(struct fl_json *j, const char *key, const char *text)
{
    if (text[0] != '\0') {
        fl_json_text(j, key, text);
    }
}

void fl_review_json_new(const struct fl_review *r, struct fl_fmt *out)
{
    struct fl_json j = {.out = out};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "apiVersion", "authorization.k8s.io/v1");
    fl_json_text(&j, "kind", "SelfSubjectAccessReview");
    fl_json_open(&j, "spec", '{');
    fl_json_open(&j, "resourceAttributes", '{');
    fl_json_text(&j, "verb", r->verb);
    text_if(&j, "group", r->group);
    fl_json_text(&j, "resource", r->resource);
    text_if(&j, "subresource", r->subresource);
    text_if(&j, "namespace", r->namespace);
    text_if(&j, "name", r->name);
    fl_json_close(&j, '}');
    fl_json_close(&j, '}');
    fl_json_close(&j, '}');
}

int fl_review_json_decode(struct fl_span json, bool *ret_allowed)
{
    struct fl_json_walk w = fl_json_walk_of(json, NULL);
    struct fl_span key;
    bool allowed = false, kind = false, answered = false;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            if (fl_span_is(key, "kind")) {
                kind = fl_span_is(fl_json_walk_raw(&w), "SelfSubjectAccessReview");
            } else if (fl_span_is(key, "status") && fl_json_walk_object(&w)) {
                while (fl_json_walk_member(&w, &key)) {
                    if (fl_span_is(key, "allowed")) {
                        answered |= fl_json_walk_bool(&w, &allowed);
                    } else {
                        fl_json_walk_skip(&w);
                    }
                }
            } else if (!fl_span_is(key, "status")) {
                fl_json_walk_skip(&w);
            }
        }
    }
    int rc = fl_json_walk_end(&w);
    if (rc != 0 || !kind || !answered) {
        return rc == -ENOMEM ? rc : -EBADMSG;
    }
    *ret_allowed = allowed;
    return 0;
}
