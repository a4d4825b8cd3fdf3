/* kube_objects - what we keep of the Kubernetes objects that we watch, as plain data; decoded by
 * controller/codec/kube_decode. Texts are never NULL, "" means absent; who owns them says the
 * function that hands the struct out. Pure. */
#ifndef FL_CONTROLLER_DECIDE_KUBE_OBJECTS_H
#define FL_CONTROLLER_DECIDE_KUBE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "controller/decide/members.h"

struct fl_kube_meta {
    const char *namespace, *name, *uid, *resource_version;
};

/* discovery.k8s.io/v1 EndpointSlice. Of its ports only those of TCP with a number; the address
 * types IPv4 and IPv6 only (FQDN has no meaning and is decoded without endpoints). */
struct fl_kube_slice_port {
    const char *name; /* "" is a name too: the one of an unnamed port */
    uint16_t number;
};

struct fl_kube_endpoint {
    const char *address;    /* addresses[0]; the others have no meaning */
    const char *target_uid; /* targetRef.uid: the pod */
    const char *zone;
    enum fl_maybe ready, serving, terminating;
};

struct fl_kube_slice {
    struct fl_kube_meta meta;
    const char *service;     /* label kubernetes.io/service-name */
    int64_t trigger_unix_ms; /* endpoints.kubernetes.io/last-change-trigger-time; 0: none */
    enum fl_addr_family family;
    struct fl_kube_slice_port *ports;
    uint32_t port_count;
    struct fl_kube_endpoint *endpoints;
    uint32_t endpoint_count;
};

/* v1 Service: what slices do not say. */
struct fl_kube_service {
    struct fl_kube_meta meta;
    const char *external_name; /* of type ExternalName; else "" */
    struct fl_kube_slice_port *ports;
    uint32_t port_count;
};

/* One annotation of ours (any key under fairlead.dev or a subdomain of it, as it was written). */
struct fl_kube_annotation {
    const char *key, *value;
};

enum fl_gate { FL_GATE_NONE, FL_GATE_FALSE, FL_GATE_TRUE }; /* fairlead.dev/backends-ready */

/* v1 Pod, one that has our sidecar (label fairlead.dev/injected). */
struct fl_kube_pod {
    struct fl_kube_meta meta;
    const char *node, *ip; /* status.podIP */
    const char *phase;
    bool deleting; /* deletionTimestamp is set */
    bool started;  /* the sidecar's container is running: a push can arrive */
    enum fl_gate gate;
    struct fl_kube_annotation *annotations; /* in the order of their keys */
    uint32_t annotation_count;
};

#endif
