/* origin_ledger - what the origin got: one entry a request and one a connection, in bounded rings
 * (oldest dropped). Every call accepts a NULL ledger (--no-ledger) and then does nothing. */
#ifndef FL_TESTS_ORIGIN_LEDGER_H
#define FL_TESTS_ORIGIN_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/span.h"
#include "tests/support/origin_buf.h"

#define FL_ORIGIN_BODY_START 256 /* bytes of each body that are kept as they came */

struct fl_origin_entry {
    uint64_t seq, conn, ordinal; /* ordinal: of the request on its connection, from 1 */
    int64_t at_us, end_us;       /* head complete; exchange over (0: not yet) */
    char *head, *trailers, *body_start, *rule;
    size_t head_len, trailers_len, body_start_len;
    uint64_t body_bytes, sent_bytes;
    uint8_t sha256[32];
    bool has_sha256, complete; /* complete: the whole body came */
    int status;                /* answered with; 0: none */
    const char *end;           /* static text: how the exchange ended */
};

struct fl_origin_visit {                         /* a connection */
    uint64_t id, requests, bytes_in, late_bytes; /* late_bytes: arrived after our FIN */
    int64_t at_us, end_us;
    char peer[64];
    const char *end;
};

struct fl_origin_ledger *fl_origin_ledger_new(size_t max_entries);
struct fl_origin_ledger *fl_origin_ledger_free(struct fl_origin_ledger *l);
void fl_origin_ledger_clear(struct fl_origin_ledger *l);
struct fl_origin_entry *fl_origin_ledger_open(struct fl_origin_ledger *l,
                                              uint64_t seq); /* seq grows by one each */
struct fl_origin_entry *fl_origin_ledger_entry(struct fl_origin_ledger *l,
                                               uint64_t seq); /* NULL: dropped */
struct fl_origin_visit *fl_origin_ledger_arrive(struct fl_origin_ledger *l, uint64_t id);
struct fl_origin_visit *fl_origin_ledger_visit(struct fl_origin_ledger *l, uint64_t id);
void fl_origin_ledger_print(const struct fl_origin_ledger *l, uint64_t since,
                            struct fl_origin_buf *out);

#endif
