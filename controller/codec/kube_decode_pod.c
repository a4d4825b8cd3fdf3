#include "controller/codec/kube_decode.h"

#include "controller/codec/json_walk.h"
#include "controller/codec/kube_decode_inner.h"

#define OUR_CONTAINER "fairlead"
#define OUR_GATE      "fairlead.dev/backends-ready"

static bool any(struct fl_json_walk *w, bool (*is)(struct fl_json_walk *))
{
    bool found = false;
    if (fl_json_walk_list(w)) {
        while (fl_json_walk_element(w)) {
            found |= is(w);
        }
    }
    return found;
}

/* One of spec.readinessGates. */
static bool asks_our_gate(struct fl_json_walk *w)
{
    struct fl_span key;
    bool is_ours = false;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "conditionType")) {
                is_ours = fl_span_is(fl_json_walk_raw(w), OUR_GATE);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return is_ours;
}

/* *ret_gated: one of the gates is ours. */
static void spec(struct fl_json_walk *w, struct fl_kube_pod *ret, bool *ret_gated)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "nodeName")) {
                ret->node = fl_json_walk_text(w);
            } else if (fl_span_is(key, "readinessGates")) {
                *ret_gated |= any(w, asks_our_gate);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

/* One of status.conditions: is it our gate, and true? */
static bool is_open_gate(struct fl_json_walk *w)
{
    struct fl_span key, type = FL_SPAN(""), status = FL_SPAN("");
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "type")) {
                type = fl_json_walk_raw(w);
            } else if (fl_span_is(key, "status")) {
                status = fl_json_walk_raw(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return fl_span_is(type, OUR_GATE) && fl_span_is(status, "True");
}

/* A state object: {"running":{…}}, {"waiting":{…}} or {"terminated":{…}}. */
static bool runs(struct fl_json_walk *w)
{
    struct fl_span key;
    bool running = false;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            running |= fl_span_is(key, "running") && fl_json_walk_given(w);
            fl_json_walk_skip(w);
        }
    }
    return running;
}

/* One of the container statuses: is it our container, and running? */
static bool is_our_running(struct fl_json_walk *w)
{
    struct fl_span key;
    bool is_ours = false, running = false;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "name")) {
                is_ours = fl_span_is(fl_json_walk_raw(w), OUR_CONTAINER);
            } else if (fl_span_is(key, "state")) {
                running = runs(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return is_ours && running;
}

/* *ret_open: our condition is true. */
static void status(struct fl_json_walk *w, struct fl_kube_pod *ret, bool *ret_open)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "podIP")) {
                ret->ip = fl_json_walk_text(w);
            } else if (fl_span_is(key, "phase")) {
                ret->phase = fl_json_walk_text(w);
            } else if (fl_span_is(key, "conditions")) {
                *ret_open |= any(w, is_open_gate);
            } else if (fl_span_is(key, "initContainerStatuses") ||
                       fl_span_is(key, "containerStatuses")) {
                ret->started |= any(w, is_our_running);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

int fl_kube_decode_pod(struct fl_span json, struct fl_arena *a, struct fl_kube_pod *ret)
{
    struct fl_json_walk w = fl_json_walk_of(json, a);
    struct fl_kube_pod p = {.meta = fl_kube_decode_no_meta(), .node = "", .ip = "", .phase = ""};
    struct fl_span key;
    bool gated = false, open = false;
    if (fl_json_walk_object(&w)) {
        while (fl_json_walk_member(&w, &key)) {
            if (fl_span_is(key, "metadata")) {
                fl_kube_decode_metadata(
                    &w, &p.meta, &(struct fl_kube_meta_more){.deleting = &p.deleting, .ours = &p});
            } else if (fl_span_is(key, "spec")) {
                spec(&w, &p, &gated);
            } else if (fl_span_is(key, "status")) {
                status(&w, &p, &open);
            } else {
                fl_json_walk_skip(&w);
            }
        }
    }
    int fault = fl_kube_decode_end(&w, &p.meta);
    if (fault == 0) {
        p.gate = !gated ? FL_GATE_NONE : open ? FL_GATE_TRUE : FL_GATE_FALSE;
        *ret = p;
    }
    return fault;
}
