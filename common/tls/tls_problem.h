/* tls_problem - a file of ours that TLS cannot use: which key named it, and why. A plain value. */
#ifndef FL_COMMON_TLS_TLS_PROBLEM_H
#define FL_COMMON_TLS_TLS_PROBLEM_H

#include "common/base/check.h"

struct fl_tls_problem {
    const char *key; /* ca_file, cert_file or key_file */
    char text[320];  /* names the file: "cannot read /etc/ca.pem (No such file or directory)" */
};

/* Returns -EINVAL, so that a caller can end with it. */
int fl_tls_problem_set(struct fl_tls_problem *p, const char *key, const char *fmt, ...)
    FL_PRINTF(3, 4);

#endif
