/* curl_inner - what curl_bridge.c (the multi handle, its sockets and timers, ends) and curl_call.c
 * (one call: options, what libcurl hands us) share. */
#ifndef FL_COMMON_IO_BRIDGE_CURL_INNER_H
#define FL_COMMON_IO_BRIDGE_CURL_INNER_H

#include <curl/curl.h>
#include <stdbool.h>

#include "common/base/list.h"
#include "common/io/bridge/curl_bridge.h"

/* Kept connections, counted: by the owner while new calls may use them, and by each call. */
struct fl_curl_kept {
    CURLSH *share;
    unsigned holders;
    struct fl_curl_kept *next; /* of those that were dropped from within libcurl */
};

struct fl_curl_call {
    struct fl_list node;
    struct fl_curl *owner;
    CURL *easy;
    struct curl_slist *fields;
    struct fl_curl_kept *kept; /* NULL: a connection of its own */
    fl_curl_fn *done;
    fl_curl_some_fn *some;
    fl_curl_field_fn *field;
    void *arg;
    char *body;
    size_t body_len, body_cap, body_max;
    int64_t stall_ms, heard_ms; /* the last byte */
    bool added;                 /* to the multi handle */
    bool cancelled;             /* from within libcurl: freed when that has returned */
    bool head_came, too_long, refused;
    char text[CURL_ERROR_SIZE];
};

struct fl_curl {
    struct fl_reactor *reactor;
    CURLM *multi;
    struct fl_io nest;
    struct fl_timer timeout, stall;
    struct fl_task soon;
    struct fl_list calls;
    struct fl_curl_kept *kept; /* for the next call; NULL: none yet */
    struct fl_curl_kept *dropped;
    bool inside;  /* libcurl is at work: it takes no calls now */
    bool put_off; /* something is to be added or freed when it is not */
};

/* Everything but adding it to the multi handle. 0, -ENOMEM, -EINVAL. */
FL_MUST_USE int fl_curl_call_new(struct fl_curl *c, const struct fl_curl_conf *conf,
                                 struct fl_curl_call **ret);
struct fl_curl_call *fl_curl_call_free(struct fl_curl_call *k); /* accepts NULL, returns NULL */
enum fl_curl_fault fl_curl_call_fault(const struct fl_curl_call *k, CURLcode code, int *ret_errno);
void fl_curl_kept_give(struct fl_curl_kept **kept); /* one holder less */

#endif
