/* config_check - rules across keys: unknown backend, duplicate address, reserved bucket, hold without a queue, server_name
 * needed, a peer that is our own listener, limits. Pure. */
#ifndef FL_COMMON_MODEL_CONFIG_CHECK_H
#define FL_COMMON_MODEL_CONFIG_CHECK_H

#include <stdbool.h>

#include "common/model/config.h"
#include "common/model/findings.h"

#define FL_PEERS_MAX 1024 /* per backend */

bool fl_config_check(struct fl_config *c, struct fl_findings *f); /* after finish; false when any error; sets c->hash */

#endif
