/* Any body as a push and as an answer: findings, never a crash; a state that is taken has one
 * canonical text, and what it makes of a file's configuration can be shown and loaded. */
#include <stdint.h>
#include <stdlib.h>

#include "common/codec/answer_json.h"
#include "common/codec/config_yaml.h"
#include "common/codec/state_json.h"
#include "common/model/directives.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char file_text[] =
    "backends:\n"
    "  minio: {service: {namespace: s, name: m, port: s3}, peers: [{address: '10.0.0.1:1'}]}\n"
    "  web: {protocol: http, peers: [{address: '10.0.0.2:1'}]}\n"
    "routes: {a: minio, b: {backend: web, paths: {/x: {backend: minio}}}}\n";

static void try_overlay(const struct fl_state *s, struct fl_findings *f)
{
    struct fl_config *file = fl_config_yaml_load("file", FL_SPAN(file_text), NULL, 0, f);
    FL_MUST(file);
    struct fl_config *c = fl_state_overlay(file, s, f);
    char *shown = c ? fl_directives_show_text(c) : NULL;
    if (shown) {
        struct fl_config *again = fl_config_yaml_load("again", fl_span_of(shown), NULL, 0, f);
        FL_MUST(again);
        FL_MUST(
            fl_state_settle_owners(file, c, again, f)); /* GET config, sent back, is no change */
        fl_config_free(again);
    }
    free(shown);
    fl_config_free(c);
    fl_config_free(file);
}

static void try_state(struct fl_span body)
{
    struct fl_findings f;
    size_t len;
    fl_findings_init(&f, "fuzz");
    struct fl_state *s = fl_state_json_decode(body, &f);
    FL_MUST(!s == (f.errors > 0));
    char *text = s ? fl_state_json_text(s, &len) : NULL;
    if (text && len <= (size_t)1 << 20) {
        struct fl_state *again = fl_state_json_decode((struct fl_span){text, len}, &f);
        FL_MUST(again && again->hash == s->hash);
        char *twice = fl_state_json_text(again, &len);
        FL_MUST(twice && strcmp(text, twice) == 0);
        free(twice);
        fl_state_free(again);
    }
    if (s) {
        try_overlay(s, &f);
    }
    free(text);
    fl_state_free(s);
    fl_findings_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fl_span body = {(const char *)data, size};
    struct fl_findings f;
    struct fl_arena arena;
    struct fl_push_answer answer;
    try_state(body);
    fl_findings_init(&f, "fuzz");
    fl_arena_init(&arena, (size_t)8 << 20);
    bool good = fl_answer_json_decode(body, &arena, &answer, &f);
    FL_MUST(good == (f.errors == 0));
    fl_arena_done(&arena);
    fl_findings_done(&f);
    return 0;
}
