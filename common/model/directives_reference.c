/* docs/CONFIG.md: one table per scope, nothing in it that is not in the rows. */
#include "common/model/directives.h"
#include "common/model/directives_scope.h"

static const char *type_text(const struct fl_directive *d)
{
    static const char *const texts[] = {
        [FL_TYPE_DURATION] = "duration",
        [FL_TYPE_SIZE] = "size",
        [FL_TYPE_UINT] = "number",
        [FL_TYPE_PERCENT] = "percentage",
        [FL_TYPE_MULTIPLE] = "multiple",
        [FL_TYPE_THREADS] = "number",
        [FL_TYPE_BOOL] = "boolean",
        [FL_TYPE_BACKUP] = "boolean",
        [FL_TYPE_ENUM] = "",
        [FL_TYPE_CONDITIONS] = "conditions, or off",
        [FL_TYPE_TEXT] = "text",
        [FL_TYPE_STATUSES] = "statuses",
        [FL_TYPE_LISTEN] = "address:port",
        [FL_TYPE_ADDRESS] = "host:port",
        [FL_TYPE_ENDPOINT] = "address, or address:port",
        [FL_TYPE_SOURCE] = "`kubernetes`, or `file:PATH`",
        [FL_TYPE_TEXTS] = "list of texts",
        [FL_TYPE_LISTENS] = "list of address:port, unix:PATH",
        [FL_TYPE_NAMESPACES] = "`own`, `all`, or list of names",
        [FL_TYPE_MAP] = "mapping, below",
        [FL_TYPE_LIST] = "list of mappings, below",
        [FL_TYPE_BACKENDS] = "mapping by name, below",
        [FL_TYPE_ROUTES] = "mapping by bucket, below",
        [FL_TYPE_PATHS] = "mapping by path, below",
        [FL_TYPE_SERVICES] = "mapping by namespace/name, below",
        [FL_TYPE_PORTS] = "mapping of names to numbers",
    };
    _Static_assert(FL_COUNTOF(texts) == FL_TYPE_COUNT, "a text per type");
    return texts[d->type];
}

static void show_values(const struct fl_directive *d, struct fl_fmt *out)
{
    char range[96];
    struct fl_fmt f = fl_fmt_of(range, sizeof(range));
    fl_fmt_text(out, type_text(d));
    for (size_t i = 0; d->type == FL_TYPE_ENUM && d->words[i]; i++) {
        fl_fmt_printf(out, "%s`%s`", i ? ", " : "", d->words[i]);
    }
    fl_value_range(d, &f);
    if (f.len) {
        fl_fmt_printf(out, ", %s", range);
    }
}

static void show_default(const struct fl_directive *d, struct fl_fmt *out)
{
    if (d->flags & FL_D_REQUIRED) {
        fl_fmt_text(out, "required");
    } else if (d->fallback && d->fallback[0] == '\0') {
        fl_fmt_text(out, "empty");
    } else if (d->fallback && d->fallback_http) {
        fl_fmt_printf(out, "`%s`; http: `%s`", d->fallback, d->fallback_http);
    } else if (d->fallback) {
        fl_fmt_printf(out, "`%s`", d->fallback);
    } else {
        fl_fmt_text(out, fl_value_is_plain(d->type) ? "the backend's" : "");
    }
}

static void show_row(const struct fl_directive *d, struct fl_fmt *out)
{
    fl_fmt_printf(out, "| `%s` | ", d->name);
    show_values(d, out);
    fl_fmt_text(out, " | ");
    show_default(d, out);
    fl_fmt_printf(out, " | %s", d->doc);
    fl_fmt_text(out, d->flags & FL_D_PUSH ? " Only in pushes." : "");
    fl_fmt_text(out, d->flags & FL_D_PRIVATE ? " Not in pod annotations." : "");
    fl_fmt_printf(out, " | %s%s%s |\n", d->nginx ? "`" : "", d->nginx ? d->nginx : "",
                  d->nginx ? "`" : "");
}

static void show_scope(enum fl_scope s, struct fl_fmt *out)
{
    const struct fl_scope_row *row = fl_scope_row(s);
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    fl_fmt_printf(out, "\n### %s", row->title);
    if (row->where[0]) {
        fl_fmt_printf(out, " (`%s`)", row->where);
    }
    fl_fmt_text(out, "\n\n| key | values | default | meaning | nginx |\n|---|---|---|---|---|\n");
    for (unsigned i = 0; i < count; i++) {
        show_row(&d[i], out);
    }
    if (row->mixin != FL_SCOPE_NONE) {
        fl_fmt_printf(out, "\nAnd the keys of \"%s\".\n", fl_scope_row(row->mixin)->title);
    }
}

static void show_profiles(struct fl_fmt *out)
{
    static const char *const names[] = {"none", "read", "write", "report"};
    static const enum fl_scope scopes[] = {FL_SCOPE_BACKEND, FL_SCOPE_POLICY};
    fl_fmt_text(out,
                "\n## Profiles\n\nA `profile` stands for these numbers; a key beside it overrides. "
                "They are profiles A, B and C of the lesson on passive health checks.\n\n"
                "| key | of | read | write | report |\n|---|---|---|---|---|\n");
    for (size_t s = 0; s < FL_COUNTOF(scopes); s++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows(scopes[s], &count);
        for (unsigned i = 0; i < count; i++) {
            const char *text[FL_COUNTOF(names)] = {NULL};
            bool any = false;
            for (unsigned p = FL_PROFILE_READ; p <= FL_PROFILE_REPORT; p++) {
                text[p] = fl_profile_text((enum fl_profile)p, &d[i]);
                any = any || text[p];
            }
            if (any) {
                fl_fmt_printf(out, "| `%s` | %s | %s | %s | %s |\n", d[i].name,
                              s == 0 ? "backend" : "route", text[1] ? text[1] : "",
                              text[2] ? text[2] : "", text[3] ? text[3] : "");
            }
        }
    }
}

static void show_scopes(unsigned document, struct fl_fmt *out)
{
    for (unsigned s = 0; s < FL_SCOPE_COUNT; s++) {
        if (fl_scope_row((enum fl_scope)s)->document == document) {
            show_scope((enum fl_scope)s, out);
        }
    }
}

void fl_directives_reference(struct fl_fmt *out)
{
    fl_fmt_text(
        out,
        "# Configuration reference\n\n"
        "This page is made from the directive table in `common/model/directives_table.c`; a test "
        "compares them.\n\n"
        "An unknown key, a wrong type, a value out of range and a key given twice are errors that "
        "name file, line "
        "and key. `--check` prints every finding and exits with 0 or 2, `--show-config` prints "
        "what is in "
        "force, defaults included; it can be loaded again.\n\n"
        "- **duration**: `250ms`, `10s`, `5m`, `1h`. **size**: `512`, `64KiB`, `1MiB`, `1GiB`. "
        "**percentage**: `20%`. **multiple**: `1x` to `8x`.\n"
        "- **conditions**: a list of `error`, `timeout`, `invalid_header`, `http_500`, `http_502`, "
        "`http_503`, "
        "`http_504`, `http_403`, `http_404`, `http_429`, `non_idempotent`.\n"
        "- A list of texts may be a single text. Anchors, aliases, tags and a second document are "
        "refused.\n"
        "- The last column names the nginx directive or parameter of the same meaning.\n\n"
        "## Sidecar\n");
    show_scopes(FL_IN_SIDECAR, out);
    fl_fmt_text(out, "\n## Backends and routes, in both configurations\n");
    show_scopes(FL_IN_SIDECAR | FL_IN_CONTROLLER, out);
    show_profiles(out);
    fl_fmt_text(out, "\n## Controller\n");
    show_scopes(FL_IN_CONTROLLER, out);
    fl_fmt_text(out, "\n## Membership file\n\nThe document behind `source: file:PATH`.\n");
    show_scopes(FL_IN_SERVICES, out);
    fl_fmt_text(out, "\n## Environment\n\n"
                     "`FAIRLEAD_BOOT_PROBE`, `FAIRLEAD_SLOW_REQUEST`, `FAIRLEAD_PROBE_INTERVAL` "
                     "(every backend) and "
                     "`FAIRLEAD_DEADLINE` (every s3 route) go over the file. A value that is not "
                     "one, or 0, is refused.\n");
}
