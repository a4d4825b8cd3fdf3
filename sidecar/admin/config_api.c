#include "sidecar/admin/config_api.h"

#include <stdlib.h>

#include "common/base/units.h"
#include "common/model/directives.h"
#include "sidecar/admin/control_inner.h"
#include "sidecar/admin/tap.h"

/* Without resolved names: what is shown loads to the same configuration. */
void fl_config_get(struct fl_mhd_call *call, void *arg)
{
    struct fl_control *c = arg;
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_config *config = fl_control_effective(c, c->file, c->pushed, &f);
    char *text = config != NULL ? fl_directives_show_text(config) : NULL;
    if (text != NULL) {
        char hash[32];
        struct fl_fmt h = fl_fmt_of(hash, sizeof(hash));
        fl_fmt_printf(&h, "\"%016llx\"", (unsigned long long)config->hash);
        fl_mhd_add_field(call, "ETag", hash);
        fl_mhd_reply(call, 200, "application/yaml", fl_span_of(text));
    } else {
        fl_mhd_problem(call, 503, "local_resource", "out of memory");
    }
    free(text);
    fl_config_free(config);
    fl_findings_done(&f);
}

void fl_config_tap(struct fl_mhd_call *call, void *arg)
{
    const struct fl_control *c = arg;
    fl_tap_open(c->conf.tap, call);
}

struct since {
    const struct fl_control *c;
    uint64_t version;
};

static void write_events(struct fl_fmt *out, void *arg)
{
    const struct since *s = arg;
    fl_events_write(s->c->events, s->version, out);
}

void fl_config_events(struct fl_mhd_call *call, void *arg)
{
    struct since s = {arg, 0};
    char text[32];
    struct fl_span value;
    if (fl_mhd_query(call, "since", 0, text, sizeof(text), &value) &&
        !fl_units_uint(value, &s.version)) {
        fl_mhd_problem(call, 400, "bad_request", "since must be a number");
        return;
    }
    fl_mhd_reply_written(call, 200, "application/json", write_events, &s);
}
