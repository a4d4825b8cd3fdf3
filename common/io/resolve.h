/* resolve - host names to addresses off the loop: one helper thread runs getaddrinfo (and SRV
 * look-ups where asked), started with the first question. Questions are answered one after another,
 * so a dead DNS server delays the next ones. A host that begins with '_' is an SRV name (RFC 2782,
 * "_s3._tcp.store.ns.svc"): the ports are then the records'. Control thread only. */
#ifndef FL_COMMON_IO_RESOLVE_H
#define FL_COMMON_IO_RESOLVE_H

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/io/reactor.h"

#define FL_RESOLVE_MAX 64

struct fl_resolver;

/* err: 0, or a gai error code (EAI_*; gai_strerror gives the text). Addresses are sorted and
 * unique. */
typedef void fl_resolve_fn(void *arg, int err, const struct fl_addr *addrs, int count);

FL_MUST_USE int fl_resolver_new(struct fl_reactor *r, struct fl_resolver **ret);
struct fl_resolver *
fl_resolver_free(struct fl_resolver *rs); /* pending answers are never delivered */
/* Queues one question; done is called once, on the reactor's thread and never from within ask. 0,
 * -ENOMEM, or -EAGAIN (no thread to be had), -ENAMETOOLONG. */
FL_MUST_USE int fl_resolver_ask(struct fl_resolver *rs, const char *host, uint16_t port,
                                fl_resolve_fn *done, void *arg);

#endif
