/* access_kit - a folder of files that a test makes and that are gone afterwards, a log whose lines
 * the test reads, and access to a scripted server by way of a kubeconfig. Included once per test
 * binary, after script_kit.h. */
#ifndef FL_TESTS_UNIT_CONTROLLER_KUBE_ACCESS_KIT_H
#define FL_TESTS_UNIT_CONTROLLER_KUBE_ACCESS_KIT_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/log.h"
#include "controller/kube/kube_access.h"

static struct kit {
    char folder[64];
    struct fl_log log;
    struct fl_log_writer *writer;
    int log_fd;
} kit;

static inline const char *kit_path(const char *name)
{
    static char paths[16][512];
    static unsigned turn;
    char *p = paths[turn++ % 16];
    (void)snprintf(p, sizeof(paths[0]), "%s/%s", kit.folder, name);
    return p;
}

static inline void kit_write(const char *name, const char *text)
{
    FILE *f = fopen(kit_path(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline void kit_begin(void)
{
    (void)snprintf(kit.folder, sizeof(kit.folder), "/tmp/fl-kube-XXXXXX");
    assert_non_null(mkdtemp(kit.folder));
    kit.log_fd = open(kit_path("log"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(kit.log_fd >= 0);
    assert_int_equal(fl_log_writer_new(&kit.writer, kit.log_fd, kit.log_fd), 0);
    kit.log = (struct fl_log){.ring = fl_log_ring_new(kit.writer, 1 << 20), .level = FL_LOG_DEBUG};
    assert_non_null(kit.log.ring);
}

static inline void kit_end(void)
{
    fl_log_writer_stop(kit.writer);
    close(kit.log_fd);
    DIR *d = opendir(kit.folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.') {
            assert_int_equal(unlink(kit_path(e->d_name)), 0);
        }
    }
    closedir(d);
    assert_int_equal(rmdir(kit.folder), 0);
}

/* How often this is in what was logged so far. */
static inline unsigned kit_logged(const char *words)
{
    static char text[1 << 18];
    unsigned n = 0;
    fl_log_writer_drain(kit.writer);
    ssize_t len = pread(kit.log_fd, text, sizeof(text) - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        n++;
    }
    return n;
}

/* user: lines of the user, indented by six. */
static inline void kit_config(const char *server, const char *cluster, const char *user)
{
    static char text[16384];
    (void)snprintf(text, sizeof(text),
                   "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
                   "contexts:\n  - name: there\n    context: {cluster: none, user: none}\n"
                   "  - name: here\n    context: {cluster: c, user: u, namespace: shop}\n"
                   "clusters:\n  - name: c\n    cluster:\n      server: %s\n%s"
                   "users:\n  - name: u\n    user:\n      unknown: 1\n%s",
                   server, cluster, user);
    kit_write("config", text);
}

static inline int kit_access(int64_t now_ms, struct fl_kube_access **ret, struct fl_cause *cause)
{
    const struct fl_kube_where where = {.kubeconfig = kit_path("config")};
    *cause = (struct fl_cause){.code = ""};
    return fl_kube_access_new(&where, &kit.log, now_ms, ret, cause);
}

#endif
