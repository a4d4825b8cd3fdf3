/* mhd_inner - what mhd_bridge.c (server and connections) and mhd_call.c (requests and answers)
 * share. Nobody else's. */
#ifndef FL_COMMON_IO_BRIDGE_MHD_INNER_H
#define FL_COMMON_IO_BRIDGE_MHD_INNER_H

#include <microhttpd.h>

#include "common/base/list.h"
#include "common/io/bridge/mhd_bridge.h"

#define FL_MHD_SEGMENTS 2
#define FL_MHD_RESERVE  4

struct fl_mhd {
    struct fl_reactor *reactor;
    struct fl_mhd_conf conf;
    struct MHD_Daemon *daemon;
    struct fl_io listener, nest;
    struct fl_timer timeout, sweep, pause;
    struct fl_task soon;
    struct fl_list connections; /* oldest first */
    struct fl_list suspended;   /* calls */
    unsigned connection_count;
    int reserve[FL_MHD_RESERVE]; /* descriptors given up when there are no others; -1: given up */
    bool running, closing;
    struct fl_mhd_connection *arriving; /* MHD is taking this one over */
};

struct fl_mhd_connection {
    struct fl_list node;
    struct fl_mhd *mhd;
    struct fl_addr peer;
    int fd;
    int64_t headless_since_ms; /* opened or last answered; with head_whole: when that was so */
    bool head_whole;           /* in the middle of a request */
    struct fl_mhd_call *call;  /* that request */
    bool ended;                /* shut down by us, MHD has not noticed yet */
};

struct fl_mhd_call {
    struct fl_list node; /* in suspended */
    struct fl_mhd *mhd;
    struct MHD_Connection *connection;
    const struct fl_mhd_handler *handler;
    struct fl_span method, path, query;
    struct fl_span segment[FL_MHD_SEGMENTS];
    char *body;
    size_t body_len, body_cap, discarded;
    int status;
    struct MHD_Response *response; /* the answer, until MHD has it */
    struct {
        char name[32], value[96];
    } fields[2];
    unsigned field_count;
    struct fl_mhd_stream stream; /* more NULL: an answer of one piece */
    bool stream_over;
    bool begun, suspended, queued;
    char uri[]; /* path decoded copies behind it */
};

/* MHD's callbacks that belong to requests. */
void *fl_mhd_call_uri(void *cls, const char *uri, struct MHD_Connection *connection);
enum MHD_Result fl_mhd_call_access(void *cls, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_len, void **context);
void fl_mhd_call_completed(void *cls, struct MHD_Connection *connection, void **context,
                           enum MHD_RequestTerminationCode why);
/* The answer, with the fields that every answer has; response is taken over. */
void fl_mhd_call_answer(struct fl_mhd_call *c, int status, const char *type,
                        struct MHD_Response *response);
/* Ends a suspended call without an answer. */
void fl_mhd_call_abandon(struct fl_mhd_call *c);
/* The client of a waiting stream has left: nobody else would notice. */
void fl_mhd_call_look(struct fl_mhd_call *c, int fd);
/* MHD has something to do that no descriptor will tell: runs in the next turn. */
void fl_mhd_kick(struct fl_mhd *m);
struct fl_mhd_connection *fl_mhd_connection_of(struct MHD_Connection *connection);

#endif
