#include "common/io/bridge/mhd_bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/io/bridge/mhd_inner.h"
#include "common/io/sock.h"

#define RUN_BURST       16
#define PAUSE_MS        100
#define SWEEP_MS        500
#define REQUEST_FACTOR  6 /* head_ms for the head, six times that for the rest */
#define ACCEPT_BURST    16
#define MHD_SLACK       ACCEPT_BURST /* each of a burst may end one that MHD only lets go of after it */
#define HEAD_POOL_BYTES 8192

/* MHD reads one buffer of a body per run: a few runs per turn, then everybody else's turn. */
static void run(struct fl_mhd *m)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    bool waits = false;
    for (int i = 0; i < RUN_BURST && !waits; i++) {
        m->running = true;
        (void)MHD_run(m->daemon);
        m->running = false;
        if (MHD_get_timeout(m->daemon, &wait_ms) != MHD_YES) {
            fl_timer_off(&m->timeout);
            return;
        }
        waits = wait_ms > 0;
    }
    if (waits) {
        fl_timer_set(m->reactor, &m->timeout, fl_reactor_now_ms(m->reactor) + (int64_t)wait_ms);
    } else {
        fl_mhd_kick(m);
    }
}

void fl_mhd_kick(struct fl_mhd *m)
{
    fl_reactor_soon(m->reactor, &m->soon);
}

static void on_nest(struct fl_io *io, unsigned events)
{
    (void)events;
    run(fl_container_of(io, struct fl_mhd, nest));
}

static void on_timeout(struct fl_timer *t)
{
    run(fl_container_of(t, struct fl_mhd, timeout));
}

static void on_soon(struct fl_task *t)
{
    run(fl_container_of(t, struct fl_mhd, soon));
}

/* MHD sees the end of the stream and lets the connection go in its own time. */
static void end_connection(struct fl_mhd_connection *c)
{
    if (!c->ended) {
        c->ended = true;
        (void)shutdown(c->fd, SHUT_RDWR);
    }
}

static void on_sweep(struct fl_timer *t)
{
    struct fl_mhd *m = fl_container_of(t, struct fl_mhd, sweep);
    int64_t now_ms = fl_reactor_now_ms(m->reactor);
    fl_list_each (it, &m->connections) {
        struct fl_mhd_connection *c = fl_container_of(it, struct fl_mhd_connection, node);
        int64_t limit_ms = m->conf.head_ms * (c->head_whole ? REQUEST_FACTOR : 1);
        bool goes_on = c->call != NULL && (c->call->suspended || c->call->stream.more != NULL);
        if (goes_on) { /* for as long as we let it */
            fl_mhd_call_look(c->call, c->fd);
        } else if (now_ms - c->headless_since_ms >= limit_ms) {
            end_connection(c);
        }
    }
    if (!fl_list_empty(&m->connections)) {
        fl_timer_set(m->reactor, &m->sweep, now_ms + SWEEP_MS);
    }
}

static void fill_reserve(struct fl_mhd *m)
{
    for (size_t i = 0; i < FL_MHD_RESERVE; i++) {
        if (m->reserve[i] < 0) {
            m->reserve[i] = fcntl(m->listener.fd, F_DUPFD_CLOEXEC, 0);
        }
    }
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct fl_mhd *m = cls;
    (void)connection;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = m->arriving;
        m->arriving = NULL;
        return;
    }
    struct fl_mhd_connection *c = *context;
    if (c != NULL) {
        fl_list_remove(&c->node);
        m->connection_count--;
        free(c);
        *context = NULL;
    }
}

struct fl_mhd_connection *fl_mhd_connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static bool same_host(const struct fl_addr *a, const struct fl_addr *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

/* Counts living connections (of one host, or of all) and finds the one that gives way. */
static unsigned count(struct fl_mhd *m, const struct fl_addr *host,
                      struct fl_mhd_connection **ret_oldest_headless)
{
    unsigned n = 0;
    *ret_oldest_headless = NULL;
    fl_list_each (it, &m->connections) {
        struct fl_mhd_connection *c = fl_container_of(it, struct fl_mhd_connection, node);
        if (c->ended || (host != NULL && !same_host(&c->peer, host))) {
            continue;
        }
        n++;
        if (!c->head_whole && (*ret_oldest_headless == NULL ||
                               c->headless_since_ms < (*ret_oldest_headless)->headless_since_ms)) {
            *ret_oldest_headless = c;
        }
    }
    return n;
}

static bool make_room(struct fl_mhd *m, const struct fl_addr *peer)
{
    struct fl_mhd_connection *oldest;
    if (m->conf.max_per_ip > 0 && peer->family != FL_ADDR_UNIX &&
        count(m, peer, &oldest) >= m->conf.max_per_ip) {
        if (oldest == NULL) {
            return false;
        }
        end_connection(oldest);
    }
    if (count(m, NULL, &oldest) >= m->conf.max_connections) {
        if (oldest == NULL) {
            return false;
        }
        end_connection(oldest);
    }
    return m->connection_count < m->conf.max_connections + MHD_SLACK;
}

static void take_connection(struct fl_mhd *m, int fd, const struct fl_addr *peer)
{
    struct fl_mhd_connection *c = make_room(m, peer) ? calloc(1, sizeof(*c)) : NULL;
    if (c == NULL) {
        close(fd);
        return;
    }
    c->mhd = m;
    c->fd = fd;
    c->peer = *peer;
    c->headless_since_ms = fl_reactor_now_ms(m->reactor);
    fl_list_append(&m->connections, &c->node);
    m->connection_count++;
    m->arriving = c;
    /* MHD wants an address and keeps it; ours is in c */
    struct sockaddr_in none = {.sin_family = AF_INET};
    if (MHD_add_connection(m->daemon, fd, (struct sockaddr *)&none, sizeof(none)) != MHD_YES &&
        m->arriving == c) { /* refused before its notification: MHD has closed fd */
        fl_list_remove(&c->node);
        m->connection_count--;
        free(c);
    }
    m->arriving = NULL;
    if (m->sweep.at_ms == INT64_MAX) {
        fl_timer_set(m->reactor, &m->sweep, fl_reactor_now_ms(m->reactor) + SWEEP_MS);
    }
}

/* One descriptor of the reserve for one connection. */
static bool open_reserve(struct fl_mhd *m)
{
    for (size_t i = 0; i < FL_MHD_RESERVE; i++) {
        if (m->reserve[i] >= 0) {
            close(m->reserve[i]);
            m->reserve[i] = -1;
            return true;
        }
    }
    return false;
}

static void on_listener(struct fl_io *io, unsigned events)
{
    (void)events;
    struct fl_mhd *m = fl_container_of(io, struct fl_mhd, listener);
    fill_reserve(m);
    for (int i = 0; i < ACCEPT_BURST; i++) {
        struct fl_addr peer;
        int fd = fl_sock_accept(io->fd, &peer);
        if ((fd == -EMFILE || fd == -ENFILE) && open_reserve(m)) {
            fd = fl_sock_accept(io->fd, &peer);
        }
        if (fd >= 0) {
            take_connection(m, fd, &peer);
        } else if (fd == -EAGAIN) {
            break;
        } else if (fl_errno_is_local(-fd)) {
            fl_reactor_pause(m->reactor, io, true);
            fl_timer_set(m->reactor, &m->pause, fl_reactor_now_ms(m->reactor) + PAUSE_MS);
            break;
        } /* else: that connection is gone already, look at the next */
    }
    run(m);
}

static void on_pause_over(struct fl_timer *t)
{
    struct fl_mhd *m = fl_container_of(t, struct fl_mhd, pause);
    fl_reactor_pause(m->reactor, &m->listener, false);
}

/* MHD would decode "%2F" before we split segments; we decode afterwards. */
static size_t leave_escaped(void *cls, struct MHD_Connection *connection, char *s)
{
    (void)cls;
    (void)connection;
    return strlen(s);
}

static void drop_message(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    (void)fmt;
    (void)ap; /* what it says concerns single clients: nothing for the event log */
}

static struct MHD_Daemon *start(struct fl_mhd *m)
{
    unsigned idle_s = (unsigned)((m->conf.head_ms + 999) / 1000);
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)drop_message, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)(m->conf.max_connections + MHD_SLACK), NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)idle_s, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_POOL_BYTES, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_INCREMENT, 1024, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)fl_mhd_call_completed, m},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, m},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)fl_mhd_call_uri, m},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, fl_mhd_call_access, m, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

static void init(struct fl_mhd *m, struct fl_reactor *r, const struct fl_mhd_conf *conf)
{
    m->reactor = r;
    m->conf = *conf;
    m->listener = (struct fl_io){.fd = -1, .on_event = on_listener};
    m->nest = (struct fl_io){.fd = -1, .on_event = on_nest};
    fl_timer_init(&m->timeout, on_timeout);
    fl_timer_init(&m->sweep, on_sweep);
    fl_timer_init(&m->pause, on_pause_over);
    fl_task_init(&m->soon, on_soon);
    fl_list_init(&m->connections);
    fl_list_init(&m->suspended);
    for (size_t i = 0; i < FL_MHD_RESERVE; i++) {
        m->reserve[i] = -1;
    }
}

int fl_mhd_new(struct fl_reactor *r, const struct fl_mhd_conf *conf, int listen_fd,
               struct fl_mhd **ret)
{
    struct fl_mhd *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        close(listen_fd);
        return -ENOMEM;
    }
    init(m, r, conf);
    int rc = fl_reactor_add_level(r, &m->listener, listen_fd);
    if (rc < 0) {
        close(listen_fd);
    } else {
        m->daemon = start(m);
        const union MHD_DaemonInfo *info =
            m->daemon ? MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
        /* the reactor owns what it is given: MHD closes the original */
        int nest = info != NULL ? fcntl(info->epoll_fd, F_DUPFD_CLOEXEC, 0) : -1;
        rc = nest < 0 ? -ENOMEM : fl_reactor_add_level(r, &m->nest, nest);
        if (rc < 0 && nest >= 0) {
            close(nest);
        }
    }
    if (rc < 0) {
        fl_mhd_free(m);
        return rc;
    }
    fill_reserve(m);
    *ret = m;
    return 0;
}

/* There are copies of this descriptor: the reserve, and maybe another descriptor table's. */
static void stop_listening(struct fl_mhd *m)
{
    int fd = fl_reactor_release(m->reactor, &m->listener);
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR);
        fl_sock_close(fd);
    }
}

struct fl_mhd *fl_mhd_free(struct fl_mhd *m)
{
    if (m == NULL) {
        return NULL;
    }
    FL_MUST(!m->running);
    m->closing = true;
    stop_listening(m);
    if (m->daemon != NULL) {
        fl_list_each_safe (it, next, &m->suspended) {
            fl_mhd_call_abandon(fl_container_of(it, struct fl_mhd_call, node));
        }
        (void)MHD_run(
            m->daemon); /* MHD insists on taking resumed connections back before it stops */
        MHD_stop_daemon(m->daemon);
    }
    fl_reactor_close(m->reactor, &m->nest);
    fl_timer_remove(m->reactor, &m->timeout);
    fl_timer_remove(m->reactor, &m->sweep);
    fl_timer_remove(m->reactor, &m->pause);
    fl_list_remove(&m->soon.node);
    for (size_t i = 0; i < FL_MHD_RESERVE; i++) {
        if (m->reserve[i] >= 0) {
            close(m->reserve[i]);
        }
    }
    free(m);
    return NULL;
}

void fl_mhd_local(const struct fl_mhd *m, struct fl_addr *ret)
{
    if (fl_sock_local(m->listener.fd, ret) < 0) {
        *ret = (struct fl_addr){0};
    }
}

unsigned fl_mhd_connections(const struct fl_mhd *m)
{
    return m->connection_count;
}
