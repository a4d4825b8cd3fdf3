/* What epoll says of a socket, after tcp_poll of Linux (net/ipv4/tcp.c), and when it says so.
 *
 * An edge means: something changed (bytes came, a FIN or RST came, a connect ended, room was asked
 * for and is there, we shut down our side). The state is then looked at once, when the reactor
 * turns; so an edge may carry more than its cause, or a cause that has been used up meanwhile, and
 * an unchanged state gives no second edge. */
#include "tests/sim/sim_in.h"

bool sim_writable(struct sim_end *e)
{
    uint64_t used = e->out->sent - e->out->acked;
    if (!e->choked && used * 3 <= (uint64_t)e->link->path.send_bytes * 2) {
        return true;
    }
    e->nospace = true; /* as SOCK_NOSPACE: the next change for the better makes an edge */
    return false;
}

/* tcp_epollin_ready: so many bytes, or as many as the window lets in. */
bool sim_end_wakes(const struct sim_end *e)
{
    uint64_t there = e->in->arrived - e->in->read;
    return there > 0 && (there >= e->file->wake_at || there >= e->link->path.recv_bytes);
}

unsigned sim_poll(struct sim_file *f)
{
    if (f->listener != NULL) {
        return f->listener->queued > 0 ? FL_IO_READ : 0;
    }
    struct sim_end *e = f->end;
    if (e->state == SIM_CONNECTING && !e->dead) {
        return 0;
    }
    bool rcv_shut = e->dead || e->in->fin_arrived, snd_shut = e->dead || e->snd_shut;
    unsigned events = 0;
    if (rcv_shut) {
        events |= FL_IO_READ | FL_IO_HUP;
    }
    if (sim_end_wakes(e)) {
        events |= FL_IO_READ;
    }
    if (snd_shut || sim_writable(e)) {
        events |= FL_IO_WRITE;
    }
    if (e->err != 0) {
        events |= FL_IO_ERROR;
    }
    return events;
}

struct sim_stuck sim_stuck(const struct sim_world *w, int64_t for_ms, FILE *report)
{
    struct sim_stuck stuck = {0, 0, 0};
    for (unsigned i = 0; i < w->file_count; i++) {
        const struct sim_file *f = w->files[i];
        const struct sim_end *e = f->end;
        int64_t since_us = w->now_us - for_ms * 1000;
        if (e == NULL || f->reactor == NULL) {
            continue;
        }
        bool waits = e->in->arrived > e->in->read || e->in->fin_arrived || e->dead;
        bool unread = waits && !f->queued && f->told_read_us != 0 && f->told_read_us <= since_us;
        bool half_read = !unread && !f->queued && e->in->arrived > e->in->read &&
                         f->half_read_us != 0 && f->half_read_us <= since_us;
        bool unsent = !f->queued && f->told_write_us != 0 && f->told_write_us <= since_us;
        stuck.unread += unread;
        stuck.half_read += half_read;
        stuck.unsent += unsent;
        if (report != NULL && (unread || half_read || unsent)) {
            fprintf(report, "sim: fd %d:%s%s%s, %llu bytes wait to be read\n", f->fd,
                    unread ? " unread" : "", half_read ? " half read" : "", unsent ? " unsent" : "",
                    (unsigned long long)(e->in->arrived - e->in->read));
        }
    }
    return stuck;
}
