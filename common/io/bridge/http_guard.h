/* http_guard - may a mutating call be what it seems? (contract.md section 6). A browser page of
 * another origin can send simple requests, and a rebound DNS name can reach a loopback port; so a
 * mutating call must carry a media type that makes browsers ask first, name this machine as Host,
 * and come, if from a browser, from a page of the same origin. */
#ifndef FL_COMMON_IO_BRIDGE_HTTP_GUARD_H
#define FL_COMMON_IO_BRIDGE_HTTP_GUARD_H

#include <stdbool.h>

#include "common/base/span.h"

/* application/json or application/yaml, parameters ignored. */
bool fl_http_guard_media_type(struct fl_span content_type);
/* Host names an address of loopback or "localhost" (any port: port-forward picks one). Without
 * loopback_only any literal address is good too: only names can be rebound. */
bool fl_http_guard_host(struct fl_span host, bool loopback_only);
/* Absent (not a browser), or scheme://Host of this very request. */
bool fl_http_guard_origin(struct fl_span origin, struct fl_span host);

#endif
