#include "controller/push/push_signer.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/list.h"
#include "common/io/thread.h"
#include "common/sign/content_digest.h"

#define STACK_BYTES ((size_t)128 * 1024)
#define HEAD_MAX    1152 /* 264 of a host, 128 of an id, and what is signed over them */

struct fl_push_job {
    struct fl_list node; /* in `asked` or `ready`, under the lock, as `dropped` */
    struct fl_push_signer *owner;
    fl_push_signed_fn *done;
    void *arg;
    struct fl_sign_key *key;
    bool dropped; /* while it was in work */
    int rc;
    struct fl_push_head head; /* of the copies behind the text */
    char digest[FL_CONTENT_DIGEST_TEXT];
    size_t len;
    char text[HEAD_MAX];
    char values[]; /* host, NUL, id, NUL */
};

struct fl_push_signer {
    struct fl_reactor *reactor;
    struct fl_io io; /* the thread has something for us */
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;
    struct fl_list asked, ready;
    const struct fl_push_job *in_work;
    bool idle;   /* the thread sleeps */
    bool called; /* io was written to, and not yet read */
    bool closing;
};

/* ---- the thread ---- */

static void sign(struct fl_push_job *job)
{
    struct fl_fmt text = fl_fmt_of(job->text, sizeof(job->text));
    job->rc = fl_push_head_write(&job->head, job->key, &text);
    job->len = text.len;
}

/* With the lock, which is not held meanwhile. */
static void work_on(struct fl_push_signer *s, struct fl_push_job *job)
{
    fl_list_remove(&job->node);
    s->in_work = job;
    pthread_mutex_unlock(&s->lock);
    sign(job);
    pthread_mutex_lock(&s->lock);
    s->in_work = NULL;
    fl_list_append(&s->ready, &job->node);
    if (!s->called) {
        uint64_t one = 1;
        s->called = true;
        (void)!write(s->io.fd, &one, sizeof(one));
    }
}

static void *run(void *arg)
{
    struct fl_push_signer *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        struct fl_list *n = fl_list_first(&s->asked);
        if (n != NULL) {
            work_on(s, fl_container_of(n, struct fl_push_job, node));
            continue;
        }
        s->idle = true;
        pthread_cond_wait(&s->work, &s->lock);
        s->idle = false;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the reactor's thread ---- */

static void free_job(struct fl_push_job *job)
{
    fl_sign_key_free(job->key);
    free(job);
}

/* NULL: none is ready. */
static struct fl_push_job *take_ready(struct fl_push_signer *s)
{
    pthread_mutex_lock(&s->lock);
    struct fl_list *n = fl_list_first(&s->ready);
    struct fl_push_job *job = n != NULL ? fl_container_of(n, struct fl_push_job, node) : NULL;
    if (job != NULL) {
        fl_list_remove(&job->node);
    } else {
        s->called = false;
    }
    pthread_mutex_unlock(&s->lock);
    return job;
}

static void on_ready(struct fl_io *io, unsigned events)
{
    struct fl_push_signer *s = fl_container_of(io, struct fl_push_signer, io);
    uint64_t calls;
    (void)events;
    (void)!read(io->fd, &calls, sizeof(calls));
    for (struct fl_push_job *job; (job = take_ready(s)) != NULL;) {
        if (job->dropped) {
            free_job(job);
        } else {
            job->done(job->arg, job->rc);
        }
    }
}

int fl_push_signer_ask(struct fl_push_signer *s, struct fl_sign_key *key,
                       const struct fl_push_head *of, fl_push_signed_fn *done, void *arg,
                       struct fl_push_job **ret)
{
    size_t host = strlen(of->host) + 1, id = strlen(of->id) + 1, digest = strlen(of->digest) + 1;
    struct fl_push_job *job = calloc(1, sizeof(*job) + host + id);
    if (job == NULL || digest > sizeof(job->digest)) {
        free(job);
        return job == NULL ? -ENOMEM : -EINVAL;
    }
    memcpy(job->values, of->host, host);
    memcpy(job->values + host, of->id, id);
    memcpy(job->digest, of->digest, digest);
    job->head = *of;
    job->head.host = job->values;
    job->head.id = job->values + host;
    job->head.digest = job->digest;
    job->owner = s;
    job->done = done;
    job->arg = arg;
    job->key = fl_sign_key_take(key);
    *ret = job;
    pthread_mutex_lock(&s->lock);
    fl_list_append(&s->asked, &job->node);
    bool wake = s->idle;
    s->idle = false;
    pthread_mutex_unlock(&s->lock);
    if (wake) {
        pthread_cond_signal(&s->work);
    }
    return 0;
}

struct fl_span fl_push_job_text(const struct fl_push_job *job)
{
    return (struct fl_span){job->text, job->len};
}

void fl_push_job_give(struct fl_push_job **job)
{
    struct fl_push_job *j = *job;
    *job = NULL;
    if (j == NULL) {
        return;
    }
    struct fl_push_signer *s = j->owner;
    pthread_mutex_lock(&s->lock);
    j->dropped = s->in_work == j; /* it comes to on_ready */
    if (!j->dropped) {
        fl_list_remove(&j->node);
    }
    pthread_mutex_unlock(&s->lock);
    if (!j->dropped) {
        free_job(j);
    }
}

/* ---- life ---- */

static int open_thread(struct fl_push_signer *s)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int rc = fl_reactor_add_level(s->reactor, &s->io, fd);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    rc = fl_thread_start(&s->thread, STACK_BYTES, run, s);
    if (rc < 0) {
        fl_reactor_close(s->reactor, &s->io);
    }
    return rc;
}

int fl_push_signer_new(struct fl_reactor *r, struct fl_push_signer **ret)
{
    struct fl_push_signer *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->reactor = r;
    s->io = (struct fl_io){.fd = -1, .on_event = on_ready};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    fl_list_init(&s->asked);
    fl_list_init(&s->ready);
    int rc = open_thread(s);
    if (rc < 0) {
        pthread_cond_destroy(&s->work);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

struct fl_push_signer *fl_push_signer_free(struct fl_push_signer *s)
{
    if (s == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_mutex_unlock(&s->lock);
    pthread_cond_signal(&s->work);
    (void)pthread_join(s->thread, NULL);
    for (struct fl_push_job *job; (job = take_ready(s)) != NULL;) {
        free_job(job); /* given back while it was in work */
    }
    FL_MUST(fl_list_empty(&s->asked));
    fl_reactor_close(s->reactor, &s->io);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}
