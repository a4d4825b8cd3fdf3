#include "controller/codec/kube_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "controller/codec/json_walk.h"
#include "controller/codec/kube_decode_inner.h"

// ---- EndpointSlice and Service -----------------------------------------------------------------

/* One of TCP with a number; the others are not counted. */
static bool port(struct fl_json_walk *w, struct fl_kube_slice_port *ret)
{
    struct fl_span key, protocol = FL_SPAN("");
    int64_t number = 0;
    ret->name = "";
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "name")) {
                ret->name = fl_json_walk_text(w);
            } else if (fl_span_is(key, "protocol")) {
                protocol = fl_json_walk_raw(w);
            } else if (fl_span_is(key, "port")) {
                number = fl_json_walk_int(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    ret->number = number > 0 && number <= UINT16_MAX ? (uint16_t)number : 0;
    return ret->number != 0 && (protocol.len == 0 || fl_span_is(protocol, "TCP"));
}

static void ports(struct fl_json_walk *w, struct fl_kube_slice_port **ret, uint32_t *ret_count)
{
    uint32_t n = fl_json_walk_count(w);
    *ret_count = 0;
    *ret = fl_json_walk_room(w, n, sizeof(**ret));
    if (fl_json_walk_list(w)) {
        while (fl_json_walk_element(w)) {
            *ret_count += port(w, &(*ret)[*ret_count]);
        }
    }
}

static enum fl_maybe condition(struct fl_json_walk *w)
{
    bool value;
    if (!fl_json_walk_bool(w, &value)) {
        return FL_MAYBE_NIL;
    }
    return value ? FL_MAYBE_TRUE : FL_MAYBE_FALSE;
}

static void conditions(struct fl_json_walk *w, struct fl_kube_endpoint *ret)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "ready")) {
                ret->ready = condition(w);
            } else if (fl_span_is(key, "serving")) {
                ret->serving = condition(w);
            } else if (fl_span_is(key, "terminating")) {
                ret->terminating = condition(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

/* The member `name` of an object, all others skipped; "" when it is not there. */
static const char *only_text(struct fl_json_walk *w, const char *name)
{
    struct fl_span key;
    const char *found = "";
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, name)) {
                found = fl_json_walk_text(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return found;
}

static const char *first_text(struct fl_json_walk *w)
{
    const char *found = "";
    if (fl_json_walk_list(w)) {
        for (bool first = true; fl_json_walk_element(w); first = false) {
            if (first) {
                found = fl_json_walk_text(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return found;
}

/* False: it has no address. */
static bool endpoint(struct fl_json_walk *w, struct fl_kube_endpoint *ret)
{
    struct fl_span key;
    *ret = (struct fl_kube_endpoint){.address = "", .target_uid = "", .zone = ""};
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "addresses")) {
                ret->address = first_text(w);
            } else if (fl_span_is(key, "conditions")) {
                conditions(w, ret);
            } else if (fl_span_is(key, "targetRef")) {
                ret->target_uid = only_text(w, "uid");
            } else if (fl_span_is(key, "zone")) {
                ret->zone = fl_json_walk_text(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return ret->address[0] != '\0';
}

static void endpoints(struct fl_json_walk *w, struct fl_kube_slice *ret)
{
    uint32_t n = fl_json_walk_count(w);
    ret->endpoint_count = 0;
    ret->endpoints = fl_json_walk_room(w, n, sizeof(*ret->endpoints));
    if (fl_json_walk_list(w)) {
        while (fl_json_walk_element(w)) {
            ret->endpoint_count += endpoint(w, &ret->endpoints[ret->endpoint_count]);
        }
    }
}

static void slice_member(struct fl_json_walk *w, struct fl_span key, struct fl_kube_slice *ret)
{
    if (fl_span_is(key, "metadata")) {
        fl_kube_decode_metadata(
            w, &ret->meta,
            &(struct fl_kube_meta_more){.service = &ret->service,
                                        .trigger_unix_ms = &ret->trigger_unix_ms});
    } else if (fl_span_is(key, "addressType")) {
        struct fl_span type = fl_json_walk_raw(w);
        ret->family = fl_span_is(type, "IPv4")   ? FL_ADDR_V4
                      : fl_span_is(type, "IPv6") ? FL_ADDR_V6
                                                 : FL_ADDR_NONE;
    } else if (fl_span_is(key, "ports")) {
        ports(w, &ret->ports, &ret->port_count);
    } else if (fl_span_is(key, "endpoints")) {
        endpoints(w, ret);
    } else {
        fl_json_walk_skip(w);
    }
}

int fl_kube_decode_slice(struct fl_span json, struct fl_arena *a, struct fl_kube_slice *ret)
{
    struct fl_json_walk w = fl_json_walk_of(json, a);
    struct fl_kube_slice s = {.meta = fl_kube_decode_no_meta(), .service = ""};
    struct fl_span key;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            slice_member(&w, key, &s);
        }
    }
    int fault = fl_kube_decode_end(&w, &s.meta);
    if (fault == 0) {
        s.endpoint_count = s.family == FL_ADDR_NONE ? 0 : s.endpoint_count;
        *ret = s;
    }
    return fault;
}

static void service_spec(struct fl_json_walk *w, struct fl_kube_service *ret)
{
    struct fl_span key;
    bool external = false;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "type")) {
                external = fl_span_is(fl_json_walk_raw(w), "ExternalName");
            } else if (fl_span_is(key, "externalName")) {
                ret->external_name = fl_json_walk_text(w);
            } else if (fl_span_is(key, "ports")) {
                ports(w, &ret->ports, &ret->port_count);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    ret->external_name = external ? ret->external_name : "";
}

int fl_kube_decode_service(struct fl_span json, struct fl_arena *a, struct fl_kube_service *ret)
{
    struct fl_json_walk w = fl_json_walk_of(json, a);
    struct fl_kube_service s = {.meta = fl_kube_decode_no_meta(), .external_name = ""};
    struct fl_span key;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            if (fl_span_is(key, "metadata")) {
                fl_kube_decode_metadata(&w, &s.meta, &(struct fl_kube_meta_more){0});
            } else if (fl_span_is(key, "spec")) {
                service_spec(&w, &s);
            } else {
                fl_json_walk_skip(&w);
            }
        }
    }
    int fault = fl_kube_decode_end(&w, &s.meta);
    if (fault == 0) {
        *ret = s;
    }
    return fault;
}

// ---- Status ------------------------------------------------------------------------------------

static bool mentions_streaming(struct fl_span raw)
{
    static const char name[] = "sendInitialEvents";
    return raw.len && memmem(raw.ptr, raw.len, name, sizeof(name) - 1) != NULL;
}

static void cause(struct fl_json_walk *w, struct fl_kube_status *ret)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "reason")) {
                ret->version_too_large |=
                    fl_span_is(fl_json_walk_raw(w), "ResourceVersionTooLarge");
            } else if (fl_span_is(key, "field") || fl_span_is(key, "message")) {
                ret->names_initial_events |= mentions_streaming(fl_json_walk_raw(w));
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

static void details(struct fl_json_walk *w, struct fl_kube_status *ret)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "retryAfterSeconds")) {
                ret->retry_after_s = fl_json_walk_int(w);
            } else if (fl_span_is(key, "causes")) {
                if (fl_json_walk_list(w)) {
                    while (fl_json_walk_element(w)) {
                        cause(w, ret);
                    }
                }
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

static void status_member(struct fl_json_walk *w, struct fl_span key, struct fl_kube_status *ret)
{
    if (fl_span_is(key, "code")) {
        int64_t code = fl_json_walk_int(w);
        ret->code = code >= 0 && code <= 999 ? (int)code : 0;
    } else if (fl_span_is(key, "reason")) {
        ret->reason = fl_json_walk_text(w);
    } else if (fl_span_is(key, "message")) {
        ret->message = fl_json_walk_text(w);
        ret->names_initial_events |= mentions_streaming(fl_span_of(ret->message));
    } else if (fl_span_is(key, "details")) {
        details(w, ret);
    } else {
        fl_json_walk_skip(w);
    }
}

int fl_kube_decode_status(struct fl_span json, struct fl_arena *a, struct fl_kube_status *ret)
{
    struct fl_json_walk w = fl_json_walk_of(json, a);
    struct fl_kube_status s = {.reason = "", .message = ""};
    struct fl_span key;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            status_member(&w, key, &s);
        }
    }
    int fault = fl_json_walk_end(&w);
    if (fault == 0) {
        s.names_initial_events = s.names_initial_events && s.code == 422;
        s.retry_after_s = s.retry_after_s > 0 ? s.retry_after_s : 0;
        *ret = s;
    }
    return fault;
}
