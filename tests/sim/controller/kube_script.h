/* kube_script - kube_client's calls, scripted: what is started is recorded, and the test answers.
 * Linked in the place of controller/kube/kube_client, on the simulated reactor. */
#ifndef FL_TESTS_SIM_CONTROLLER_KUBE_SCRIPT_H
#define FL_TESTS_SIM_CONTROLLER_KUBE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/kube/kube_client.h"

struct fl_kube_call {
    struct fl_list node;
    struct fl_kube *kube;
    char *method, *path, *content_type, *body; /* "" none */
    char *verb, *resource;
    int64_t timeout_ms;
    fl_kube_done_fn *done;
    void *arg;
};

struct fl_kube {
    struct fl_list open; /* the oldest first */
    unsigned started, count, most, cancelled;
    int start_fails; /* -errno for every start; 0: none fails */
    void (*on_start)(void *arg, struct fl_kube_call *call); /* answers later; may be NULL */
    void *arg;
};

void script_init(struct fl_kube *k);
void script_done(struct fl_kube *k);                 /* nothing may be open */
struct fl_kube_call *script_only(struct fl_kube *k); /* the one call that is open */
struct fl_kube_call *script_first(struct fl_kube *k);
/* The call is gone when they return. */
void script_answer(struct fl_kube_call *call, int status, const char *body);
void script_answer_later(struct fl_kube_call *call, int status, const char *body,
                         int64_t retry_after_ms);
void script_fail(struct fl_kube_call *call, enum fl_curl_fault fault);

#endif
