#include "controller/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/config_yaml.h"
#include "common/codec/yaml.h"
#include "common/io/read_file.h"
#include "common/model/cause.h"
#include "common/model/config_check.h"

#define KEY_BYTES_MAX 65536

/* What is right by its form, but cannot be run with. */
static void check_runnable(const struct fl_controller_config *c, struct fl_findings *f)
{
    if (c->source_file[0] == '\0' && c->push.signing_key_file[0] == '\0') {
        fl_config_check_say(
            c->cluster, f, FL_SEVERITY_ERROR, "push.signing_key_file", 0,
            "is missing: sidecars take only signed pushes (make a key with `openssl genpkey "
            "-algorithm ed25519`, mount it from a Secret, and give its public half to the "
            "sidecars)");
    }
    if (c->source_file[0] != '\0' && c->sidecar_count > 0 && c->push.signing_key_file[0] == '\0') {
        fl_config_check_say(
            c->cluster, f, FL_SEVERITY_ERROR, "push.signing_key_file", 0,
            "is missing: nothing can be pushed to the %u sidecars without a key (make one with "
            "`openssl genpkey -algorithm ed25519`, and give its public half to the sidecars)",
            c->sidecar_count);
    }
    for (uint32_t i = 0; i < c->sidecar_count; i++) {
        if (c->sidecars[i].id[0] == '\0') {
            fl_config_check_say(c->cluster, f, FL_SEVERITY_WARNING, "sidecars", 0,
                                "\"%s\" has no id; a sidecar accepts only pushes that name its own",
                                c->sidecars[i].address);
        }
    }
}

static struct fl_sign_key *load_key(const struct fl_controller_config *c, struct fl_findings *f)
{
    const char *path = c->push.signing_key_file;
    struct fl_sign_key *key = NULL;
    char *text = NULL;
    size_t len = 0;
    if (path[0] == '\0') {
        return NULL;
    }
    int rc = fl_read_file(path, KEY_BYTES_MAX, &text, &len);
    if (rc < 0) {
        fl_config_check_say(c->cluster, f, FL_SEVERITY_ERROR, "push.signing_key_file", 0,
                            "%s cannot be read (%s)", path, fl_cause_errno_text(-rc));
    } else if ((rc = fl_sign_key_new((struct fl_span){text, len}, &key)) < 0) {
        fl_config_check_say(c->cluster, f, FL_SEVERITY_ERROR, "push.signing_key_file", 0,
                            rc == -ENOMEM ? "%s: out of memory"
                                          : "%s is not an unencrypted ed25519 private key in PEM",
                            path);
    }
    if (text != NULL) {
        explicit_bzero(text, len);
    }
    free(text);
    return key;
}

struct fl_controller_config *fl_load_config(const char *path, struct fl_findings *f,
                                            struct fl_sign_key **ret_key)
{
    char *text = NULL;
    size_t len = 0;
    int rc = fl_read_file(path, FL_YAML_BYTES_MAX, &text, &len);
    if (rc < 0) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "cannot read the configuration (%s)",
                        fl_cause_errno_text(-rc));
        return NULL;
    }
    struct fl_controller_config *c =
        fl_controller_config_yaml_load(path, (struct fl_span){text, len}, f);
    free(text);
    if (c == NULL) {
        return NULL;
    }
    check_runnable(c, f);
    struct fl_sign_key *key = load_key(c, f);
    if (f->errors > 0) {
        fl_sign_key_free(key);
        return fl_controller_config_free(c);
    }
    *ret_key = key;
    return c;
}

void fl_load_check_membership(const char *path, struct fl_findings *f)
{
    char *text = NULL;
    size_t len = 0;
    int rc = fl_read_file(path, FL_YAML_BYTES_MAX, &text, &len);
    if (rc < 0) {
        fl_findings_add(f, FL_SEVERITY_WARNING, 0, "cannot be read now (%s)",
                        fl_cause_errno_text(-rc));
        return;
    }
    fl_services_free(fl_services_yaml_load((struct fl_span){text, len}, f));
    free(text);
}

void fl_load_print(const struct fl_findings *f)
{
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        char text[2048];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(f, one, &out);
        (void)fprintf(stderr, "%s\n", text);
    }
}
