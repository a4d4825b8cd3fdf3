/* kube_access - where the API server is and who we are there: from the pod's environment
 * (KUBERNETES_SERVICE_HOST and _PORT, the mounted token and ca.crt), else from a kubeconfig for
 * development (current-context; certificate-authority(-data), client-certificate(-data) and
 * client-key(-data), token, tokenFile, insecure-skip-tls-verify; no exec or auth-provider plugins:
 * refused with a sentence).
 *
 * The token file is read again once a minute and after a 401; when that fails the old token stays.
 * The CA file is looked at once a minute and after a failure of TLS, an empty or broken one is
 * ignored with a WARN: who reads ca_file gets a copy of the last good one. Copies, and what a
 * kubeconfig holds as *-data, are in memory (/proc/self/fd/N), so nothing is left behind. A token
 * goes over plain http to loopback only. Small files are read in the calling thread. One thread. */
#ifndef FL_CONTROLLER_KUBE_KUBE_ACCESS_H
#define FL_CONTROLLER_KUBE_KUBE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/model/cause.h"

struct fl_kube_access;

struct fl_kube_where { /* taken from the environment by main.c; NULL or "" = not set */
    const char *service_host, *service_port;
    const char *kubeconfig;  /* KUBECONFIG: one path */
    const char *account_dir; /* /var/run/secrets/kubernetes.io/serviceaccount; tests have another */
};
#define FL_KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* 0, or -errno with a cause that names the place and the remedy. */
FL_MUST_USE int fl_kube_access_new(const struct fl_kube_where *where, const struct fl_log *log,
                                   int64_t now_ms, struct fl_kube_access **ret,
                                   struct fl_cause *ret_cause);
struct fl_kube_access *fl_kube_access_free(struct fl_kube_access *a);

const char *fl_kube_access_server(const struct fl_kube_access *a);    /* "https://10.96.0.1:443" */
const char *fl_kube_access_namespace(const struct fl_kube_access *a); /* ours; "" unknown */
/* The value of the Authorization field, "Bearer …"; "" when certificates say who we are. Lives
 * until the next call. again: read the file now (after a 401). */
const char *fl_kube_access_bearer(struct fl_kube_access *a, int64_t now_ms, bool again);
/* Paths to read from; ca_file's is another after a change. */
const char *fl_kube_access_ca_file(const struct fl_kube_access *a);   /* "" system's */
const char *fl_kube_access_cert_file(const struct fl_kube_access *a); /* "" none */
const char *fl_kube_access_key_file(const struct fl_kube_access *a);
bool fl_kube_access_verify(const struct fl_kube_access *a);
/* The CA file is another than at the last call: kept connections must go. */
bool fl_kube_access_ca_changed(struct fl_kube_access *a, int64_t now_ms);
/* TLS has failed: the next call of that looks at the file, however short ago it did. */
void fl_kube_access_ca_doubted(struct fl_kube_access *a);

#endif
