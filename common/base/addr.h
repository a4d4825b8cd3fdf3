/* addr - an IP address and port, or a unix socket path, as a value. Pure: no name look-ups.
 * Text forms: "10.0.0.1:9000", "[::1]:9000", "unix:/run/x.sock". */
#ifndef FL_COMMON_BASE_ADDR_H
#define FL_COMMON_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"
#include "common/base/span.h"

enum fl_addr_family { FL_ADDR_NONE, FL_ADDR_V4, FL_ADDR_V6, FL_ADDR_UNIX };

struct fl_addr {
    enum fl_addr_family family;
    uint16_t port;
    uint8_t ip[16]; /* network order; v4 in the first four bytes */
    char path[108]; /* unix only, NUL-terminated */
};

#define FL_ADDR_TEXT_MAX 116

/* false: not of the forms above (a host name, say) */
bool fl_addr_parse(struct fl_span text, struct fl_addr *ret);
void fl_addr_print(const struct fl_addr *a, struct fl_fmt *f);
/* without port and brackets; "unix:" for unix */
void fl_addr_print_ip(const struct fl_addr *a, struct fl_fmt *f);
bool fl_addr_eq(const struct fl_addr *a, const struct fl_addr *b);
bool fl_addr_is_loopback(const struct fl_addr *a); /* 127/8, ::1, unix */
bool fl_addr_is_any(const struct fl_addr *a);      /* 0.0.0.0 or [::] */
/* "name:port", "name:portname" or "[v6]:port" (host without the brackets): false when there is no
 * port part. Does not say that the host is a literal. */
bool fl_addr_split_host(struct fl_span text, struct fl_span *ret_host, struct fl_span *ret_port);

#endif
