/* mhd_stream - answers that go on. While there is nothing to send the connection is suspended, or
 * MHD would ask in circles; a suspended one is not watched by MHD, so its end is looked for here.
 */
#include <errno.h>
#include <sys/socket.h>

#include "common/io/bridge/mhd_inner.h"

#define BLOCK_BYTES 4096

static ssize_t on_more(void *cls, uint64_t position, char *into, size_t cap)
{
    (void)position;
    struct fl_mhd_call *c = cls;
    if (c->mhd->closing) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = c->stream.more(c->stream.arg, into, cap);
    if (n > 0) {
        return (ssize_t)n;
    }
    if (c->stream_over) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    c->suspended = true;
    fl_list_append(&c->mhd->suspended, &c->node);
    MHD_suspend_connection(c->connection);
    return 0;
}

void fl_mhd_reply_stream(struct fl_mhd_call *c, const char *type, const struct fl_mhd_stream *s)
{
    c->stream = *s;
    fl_mhd_call_answer(
        c, 200, type,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_more, c, NULL));
}

static void go_on(struct fl_mhd_call *c)
{
    if (c->suspended) {
        fl_list_remove(&c->node);
        c->suspended = false;
        MHD_resume_connection(c->connection);
        fl_mhd_kick(c->mhd);
    }
}

void fl_mhd_stream_more(struct fl_mhd_call *c)
{
    go_on(c);
}

void fl_mhd_stream_end(struct fl_mhd_call *c)
{
    c->stream_over = true;
    go_on(c);
}

void fl_mhd_call_look(struct fl_mhd_call *c, int fd)
{
    char byte;
    if (c->stream.more == NULL || !c->queued) {
        return;
    }
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        fl_mhd_stream_end(c);
    }
}
