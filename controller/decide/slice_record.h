/* slice_record - one EndpointSlice as slices.h keeps it: a single block that never changes,
 * counted, since members that are held keep the slices they came from. Pure. */
#ifndef FL_CONTROLLER_DECIDE_SLICE_RECORD_H
#define FL_CONTROLLER_DECIDE_SLICE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/decide/kube_objects.h"

struct fl_slice_endpoint {
    uint8_t ip[16];           /* as in fl_addr */
    uint64_t target;          /* of the uid, to compare it quickly */
    uint32_t uid_at, zone_at; /* texts of the record */
    uint8_t rank;             /* which of two targets has an address: the higher one */
    uint8_t tier;             /* enum fl_tier */
    bool usable, ready;       /* is a member at all; nil means ready */
};

struct fl_slice_port {
    uint32_t name_at;
    uint16_t number;
};

/* texts follow the ports, which follow the endpoints. */
struct fl_slice_record {
    uint32_t refs;
    uint32_t size_bytes; /* of all that follows this field; two records are equal byte by byte */
    int64_t trigger_unix_ms;
    enum fl_addr_family family;
    uint32_t service_at;
    uint32_t endpoint_count, usable_count, ready_count, port_count;
    struct fl_slice_endpoint endpoints[];
};

/* Endpoints whose address is none of the slice's family are left out. NULL: no memory. */
FL_MUST_USE struct fl_slice_record *fl_slice_record_new(const struct fl_kube_slice *from);
struct fl_slice_record *fl_slice_record_take(struct fl_slice_record *r); /* one more reference */
/* One less; accepts NULL, returns NULL. */
struct fl_slice_record *fl_slice_record_give(struct fl_slice_record *r);
bool fl_slice_record_eq(const struct fl_slice_record *a, const struct fl_slice_record *b);

const struct fl_slice_port *fl_slice_record_ports(const struct fl_slice_record *r);
const char *fl_slice_record_text(const struct fl_slice_record *r, uint32_t at);
struct fl_addr fl_slice_record_addr(const struct fl_slice_record *r,
                                    const struct fl_slice_endpoint *e, uint16_t port);

#endif
