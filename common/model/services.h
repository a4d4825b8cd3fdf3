/* services - membership without a cluster: the document behind `source: file:PATH`
 * (contract-cluster.md section 5). Loaded by common/codec/config_yaml; the arena owns everything.
 * Pure. */
#ifndef FL_COMMON_MODEL_SERVICES_H
#define FL_COMMON_MODEL_SERVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/model/findings.h"
#include "common/model/node.h"

struct fl_service_port {
    const char *name;
    uint32_t number;
};

struct fl_service_endpoint {
    const char *address; /* "10.0.1.10", "fd00::1", or with a port of its own: "127.0.0.1:9001",
                            "[::1]:9001" */
    const char *zone;
    bool ready, serving, terminating; /* ready and serving are true unless said otherwise */
};

struct fl_service {
    const char *namespace, *name;
    struct fl_service_port *ports;
    uint32_t port_count;
    struct fl_service_endpoint *endpoints;
    uint32_t endpoint_count;
};

struct fl_services {
    struct fl_arena arena;
    struct fl_service *items;
    uint32_t count;
};

FL_MUST_USE struct fl_services *fl_services_new(void); /* NULL = no memory */
struct fl_services *fl_services_free(struct fl_services *s);
bool fl_services_read(const struct fl_node *root, struct fl_services *s,
                      struct fl_findings *f); /* false when any error */

#endif
