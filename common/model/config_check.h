/* config_check - rules across keys: unknown backend, duplicate address, reserved bucket, hold
 * without a queue, server_name needed, a peer that is our own listener, limits. Pure. */
#ifndef FL_COMMON_MODEL_CONFIG_CHECK_H
#define FL_COMMON_MODEL_CONFIG_CHECK_H

#include <stdbool.h>

#include "common/model/config.h"
#include "common/model/findings.h"

#define FL_PEERS_MAX 1024 /* per backend */

bool fl_config_check(struct fl_config *c,
                     struct fl_findings *f); /* after finish; false when any error; sets c->hash */

/* Parts of it, for the controller's configuration. */
struct fl_own_listener {
    const char *name, *address; /* "listen.admin", "127.0.0.1:8421" */
};
/* Two listeners on one address. */
void fl_config_check_listen(const struct fl_config *c, const struct fl_own_listener *own,
                            size_t count, struct fl_findings *f);
/* Backends and routes; no peer may be one of the listeners. */
void fl_config_check_backends(const struct fl_config *c, const struct fl_own_listener *own,
                              size_t count, struct fl_findings *f);
void fl_config_check_routes(const struct fl_config *c, struct fl_findings *f);
/* A finding at a key: its line where the document had it, else `line`. */
void fl_config_check_say(const struct fl_config *c, struct fl_findings *f, enum fl_severity s,
                         const char *place, int line, const char *fmt, ...) FL_PRINTF(6, 7);

#endif
