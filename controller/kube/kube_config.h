/* kube_config - a kubeconfig file (v1 Config) as far as we follow it: the cluster and the user of
 * its current context. What would need a program or another identity (exec, auth-provider, user
 * name and password, impersonation, tls-server-name, proxy-url) is refused with a sentence, not
 * ignored. Reads one file; any thread. */
#ifndef FL_CONTROLLER_KUBE_KUBE_CONFIG_H
#define FL_CONTROLLER_KUBE_KUBE_CONFIG_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/span.h"
#include "common/model/cause.h"

struct fl_kube_config { /* texts are never NULL; paths are made absolute as the file's folder wants
                         */
    const char *server, *namespace;
    const char *ca_file, *cert_file, *key_file, *token_file;
    struct fl_span ca, cert,
        key; /* of the -data fields, decoded, a NUL behind each; they win over the files */
    const char *token;
    bool unverified; /* insecure-skip-tls-verify */
};

/* The arena owns the texts. 0, or -errno with a cause that names the file. */
FL_MUST_USE int fl_kube_config_read(const char *path, struct fl_arena *a,
                                    struct fl_kube_config *ret, struct fl_cause *ret_cause);

#endif
