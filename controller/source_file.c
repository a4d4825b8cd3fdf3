#include "controller/source_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/codec/config_yaml.h"
#include "common/codec/yaml.h"
#include "common/io/read_file.h"
#include "common/model/cause.h"
#include "common/model/directives_show.h"

#define REST_SHARE                                                                                 \
    5 /* of look_ms: a change that nobody announced must have been there for so long */
#define PATH_BYTES 4096
#define FAULT_MAX  512
#define WATCHED                                                                                    \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF |       \
     IN_MOVE_SELF)

/* What tells one content of the file from another without reading it. */
struct mark {
    int err; /* of stat; the rest is 0 then */
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec written, changed;
};

struct fl_source_file {
    struct fl_source_file_conf conf;
    struct fl_io io;
    int watch; /* of the directory; -1: none */
    struct fl_timer timer;
    char folder[PATH_BYTES];
    const char *base; /* the file's own name, into conf.path */

    struct fl_services *services;
    uint64_t good_hash; /* of the text in force */
    int64_t seen_good_ms, read_unix_ms;
    struct mark read, last; /* as it was when read, and at the last look */

    bool broken;
    uint64_t fault_hash; /* of what was logged last */
    char fault[FAULT_MAX];
};

static int64_t now_of(const struct fl_source_file *s)
{
    return fl_reactor_now_ms(s->conf.reactor);
}

static struct mark mark_of(const char *path)
{
    struct stat st;
    struct mark m;
    memset(&m, 0, sizeof(m)); /* compared as bytes */
    if (stat(path, &st) < 0) {
        m.err = errno;
        return m;
    }
    m.dev = st.st_dev;
    m.ino = st.st_ino;
    m.size = st.st_size;
    m.written = st.st_mtim;
    m.changed = st.st_ctim;
    return m;
}

static bool same_mark(const struct mark *a, const struct mark *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- one reading ---- */

static void say_fault(struct fl_source_file *s, uint64_t hash)
{
    s->broken = true;
    if (s->fault_hash == hash) {
        return;
    }
    s->fault_hash = hash;
    struct fl_log_line l;
    fl_log_begin(s->conf.log, &l, FL_LOG_ERROR,
                 s->services != NULL ? "membership file is broken, the last good one stays"
                                     : "membership file is broken, nothing is pushed");
    fl_log_text(&l, "file", s->conf.path);
    fl_log_text(&l, "cause", s->fault);
    fl_log_secs(&l, "age_secs", fl_source_file_age_ms(s) * 1000);
    fl_log_end(s->conf.log, &l);
}

static void cannot_read(struct fl_source_file *s, int err)
{
    struct fl_fmt f = fl_fmt_of(s->fault, sizeof(s->fault));
    fl_fmt_printf(&f, "cannot be read (%s)", fl_cause_errno_text(err));
    say_fault(s, (uint64_t)err);
}

/* The first errors, as many as fit. */
static void cannot_take(struct fl_source_file *s, const struct fl_findings *found, uint64_t hash)
{
    struct fl_fmt f = fl_fmt_of(s->fault, sizeof(s->fault));
    for (const struct fl_finding *one = found->first; one != NULL; one = one->next) {
        if (one->severity == FL_SEVERITY_ERROR) {
            fl_fmt_text(&f, f.len > 0 ? "; " : "");
            fl_findings_print(found, one, &f);
        }
    }
    say_fault(s, hash);
}

static void take(struct fl_source_file *s, struct fl_services *fresh, uint64_t hash)
{
    struct fl_services *old = s->services;
    uint64_t endpoints = 0;
    for (uint32_t i = 0; i < fresh->count; i++) {
        endpoints += fresh->items[i].endpoint_count;
    }
    s->services = fresh;
    s->good_hash = hash;
    s->read_unix_ms = fl_reactor_wall_ms(s->conf.reactor);
    struct fl_log_line l;
    fl_log_begin(s->conf.log, &l, FL_LOG_INFO, "membership read");
    fl_log_text(&l, "file", s->conf.path);
    fl_log_int(&l, "services", fresh->count);
    fl_log_int(&l, "endpoints", (int64_t)endpoints);
    fl_log_end(s->conf.log, &l);
    s->conf.changed(s->conf.arg);
    fl_services_free(old);
}

static void is_good(struct fl_source_file *s)
{
    s->seen_good_ms = now_of(s);
    if (s->broken) {
        struct fl_log_line l;
        fl_log_begin(s->conf.log, &l, FL_LOG_INFO, "membership file is good again");
        fl_log_text(&l, "file", s->conf.path);
        fl_log_end(s->conf.log, &l);
    }
    s->broken = false;
    s->fault_hash = 0;
    s->fault[0] = '\0';
}

static void read_text(struct fl_source_file *s, struct fl_span text)
{
    struct fl_findings found;
    uint64_t hash = fl_show_hash(text);
    if (s->services != NULL && hash == s->good_hash) {
        is_good(s);
        return;
    }
    fl_findings_init(&found, s->conf.path);
    struct fl_services *fresh = fl_services_yaml_load(text, &found);
    if (fresh == NULL) {
        cannot_take(s, &found, hash);
    } else {
        is_good(s);
        take(s, fresh, hash);
    }
    fl_findings_done(&found);
}

void fl_source_file_look(struct fl_source_file *s)
{
    char *text = NULL;
    size_t len = 0;
    s->read = s->last = mark_of(s->conf.path); /* before: a change while we read is seen again */
    int rc = fl_read_file(s->conf.path, FL_YAML_BYTES_MAX, &text, &len);
    if (rc < 0) {
        cannot_read(s, -rc);
    } else {
        read_text(s, (struct fl_span){text, len});
    }
    free(text);
}

/* ---- when to read ---- */

/* Is it whole as soon as it appears? A link is; a plain file that somebody creates is not. */
static bool appears_whole(const struct fl_source_file *s)
{
    struct stat st;
    return lstat(s->conf.path, &st) == 0 && (S_ISLNK(st.st_mode) || st.st_nlink > 1);
}

static bool concerns(const struct fl_source_file *s, const struct inotify_event *e)
{
    if (e->len == 0 || strcmp(e->name, "..data") == 0) {
        return true;
    }
    return strcmp(e->name, s->base) == 0 && (!(e->mask & IN_CREATE) || appears_whole(s));
}

static void on_events(struct fl_io *io, unsigned events)
{
    struct fl_source_file *s = fl_container_of(io, struct fl_source_file, io);
    _Alignas(struct inotify_event) char buf[4096];
    bool ours = false;
    ssize_t n;
    (void)events;
    while ((n = read(io->fd, buf, sizeof(buf))) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const struct inotify_event *)(const void *)(buf + at);
            ours = ours || concerns(s, e);
            at += (ssize_t)sizeof(*e) + (ssize_t)e->len;
        }
    }
    if (ours) {
        fl_source_file_look(s);
    }
}

/* The directory may have been made anew under its name: then the watch is on the old one. */
static void renew_watch(struct fl_source_file *s)
{
    if (s->io.fd < 0) {
        return;
    }
    int watch = inotify_add_watch(s->io.fd, s->folder, WATCHED);
    if (watch != s->watch && s->watch >= 0) {
        (void)inotify_rm_watch(s->io.fd, s->watch); /* gone with its directory, perhaps */
    }
    s->watch = watch;
}

static void on_timer(struct fl_timer *t)
{
    struct fl_source_file *s = fl_container_of(t, struct fl_source_file, timer);
    struct mark now = mark_of(s->conf.path);
    int64_t wait_ms = s->conf.look_ms;
    renew_watch(s);
    if (same_mark(&now, &s->read)) {
        s->seen_good_ms = s->broken || s->services == NULL ? s->seen_good_ms : now_of(s);
        if (s->broken && now.err == 0) {
            fl_source_file_look(
                s); /* it may only have been unreadable; a known fault stays quiet */
        }
    } else if (same_mark(&now, &s->last)) {
        fl_source_file_look(s);
    } else {
        wait_ms = s->conf.look_ms / REST_SHARE;
    }
    s->last = now;
    fl_timer_set(s->conf.reactor, &s->timer, now_of(s) + wait_ms);
}

/* ---- life ---- */

static int split_path(struct fl_source_file *s)
{
    const char *slash = strrchr(s->conf.path, '/');
    struct fl_fmt f = fl_fmt_of(s->folder, sizeof(s->folder));
    s->base = slash != NULL ? slash + 1 : s->conf.path;
    if (slash == NULL) {
        fl_fmt_text(&f, ".");
    } else if (slash == s->conf.path) {
        fl_fmt_text(&f, "/");
    } else {
        fl_fmt_span(&f, (struct fl_span){s->conf.path, (size_t)(slash - s->conf.path)});
    }
    return f.cut ? -ENAMETOOLONG : 0;
}

static void watch_folder(struct fl_source_file *s)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    int rc = fd < 0 ? -errno : fl_reactor_add_level(s->conf.reactor, &s->io, fd);
    if (rc < 0) {
        if (fd >= 0) {
            close(fd);
        }
        struct fl_log_line l;
        fl_log_begin(s->conf.log, &l, FL_LOG_WARN, "no inotify, membership is looked at every 5 s");
        fl_log_text(&l, "cause", fl_cause_errno_text(-rc));
        fl_log_end(s->conf.log, &l);
        return;
    }
    renew_watch(s);
}

int fl_source_file_new(const struct fl_source_file_conf *conf, struct fl_source_file **ret)
{
    struct fl_source_file *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->conf = *conf;
    s->io = (struct fl_io){.fd = -1, .on_event = on_events};
    s->watch = -1;
    s->seen_good_ms = now_of(s);
    fl_timer_init(&s->timer, on_timer);
    int rc = split_path(s);
    if (rc < 0) {
        free(s);
        return rc;
    }
    watch_folder(s); /* before the first reading: no change falls between */
    fl_timer_set(conf->reactor, &s->timer, now_of(s) + conf->look_ms);
    *ret = s;
    return 0;
}

struct fl_source_file *fl_source_file_free(struct fl_source_file *s)
{
    if (s != NULL) {
        fl_reactor_close(s->conf.reactor, &s->io);
        fl_timer_remove(s->conf.reactor, &s->timer);
        fl_services_free(s->services);
        free(s);
    }
    return NULL;
}

const struct fl_services *fl_source_file_services(const struct fl_source_file *s)
{
    return s->services;
}

int64_t fl_source_file_age_ms(const struct fl_source_file *s)
{
    return now_of(s) - s->seen_good_ms;
}

int64_t fl_source_file_read_unix_ms(const struct fl_source_file *s)
{
    return s->read_unix_ms;
}

const char *fl_source_file_fault(const struct fl_source_file *s)
{
    return s->broken ? s->fault : "";
}
