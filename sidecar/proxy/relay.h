/* relay - the response on its way to the client: head as slices of the original bytes, body by
 * copy, or by splice where it is large and its reader fast, with back-pressure (the upstream is
 * read only when everything before has left), framing from the parsed model. Own data thread only.
 */
#ifndef FL_SIDECAR_PROXY_RELAY_H
#define FL_SIDECAR_PROXY_RELAY_H

#include <stdbool.h>

struct fl_exchange;
struct fl_response_head;

enum fl_relay_step {
    FL_RELAY_WAIT,
    FL_RELAY_DONE,
    FL_RELAY_CLIENT_GONE,
    FL_RELAY_TRUNCATED, /* the upstream ended too early, or broke its framing */
    FL_RELAY_NO_MEMORY, /* nothing was sent yet */
};

/* The final head is in attempt.in and parsed in worker.response: prepares head and first body bytes
 * for the client. */
enum fl_relay_step fl_relay_begin(struct fl_exchange *x);
enum fl_relay_step fl_relay_run(struct fl_exchange *x);
/* Sends what is prepared. True when all has left; else waits for the client, or client_gone is set.
 */
bool fl_relay_flush(struct fl_exchange *x);
/* Sends an interim answer at once; false: nothing could be prepared (it is left out). */
bool fl_relay_interim(struct fl_exchange *x, const char *bytes,
                      const struct fl_response_head *head);
/* More has not come within FL_PATIENCE_MS: what is there goes on with the next run. */
void fl_relay_hurry(struct fl_exchange *x);
/* Our own 100 Continue, after the backend was silent. */
void fl_relay_continue(struct fl_exchange *x);

#endif
