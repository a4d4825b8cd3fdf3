#include "common/verdict/remedy.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/base/check.h"

/* The first that fits; a code that ends with '_' stands for all that begin so. */
static const struct {
    const char *code, *text;
} rows[] = {
    {"connect_refused", "nobody listens there: start the store, or correct address and port in "
                        "peers; in a cluster look at the Service's endpoints"},
    {"connect_timeout", "packets are dropped: look for a network policy, a firewall or a node that "
                        "is gone"},
    {"host_unreachable", "no way to that host: look for a node that is gone, a route or a network "
                         "policy"},
    {"network_unreachable", "this pod has no route there: look at its network, its node and egress "
                            "rules"},
    {"not_permitted", "the kernel here forbids the connection: look at this pod's egress rules"},
    {"dns_failure", "correct the name in peers or service, or the cluster's DNS"},
    {"no_answer", "the store's process hangs (paused, disk full, locks): look at its log, restart "
                  "it"},
    {"send_timeout", "the store's process hangs: look at its log, restart it"},
    {"premature_close", "the store crashes, or something in front of it refuses us, or one side "
                        "speaks TLS and the other does not: look at its log, and at the key tls"},
    {"reset", "the store crashes, or something in front of it refuses us: look at its log"},
    {"invalid_header", "another service answers on that port: correct address and port in peers"},
    {"tls_expired", "renew the store's certificate"},
    {"tls_not_yet_valid", "the certificate is of the future: compare the clocks, or wait for its "
                          "date"},
    {"tls_wrong_name", "set tls.server_name to a name in the certificate, or have it issued for "
                       "this one"},
    {"tls_self_signed", "put the authority that issued the certificate into tls.ca_file"},
    {"tls_unknown_issuer", "put the authority that issued the certificate into tls.ca_file"},
    {"tls_wrong_version", "the store speaks no TLS there: correct the port, or take the key tls "
                          "away"},
    {"tls_timeout", "the store's process hangs, or packets are dropped: look at its log"},
    {"tls_unavailable", "repair the files that tls.ca_file, tls.cert_file and tls.key_file name"},
    {"tls_alert_certificate", "the store refuses our certificate: look at tls.cert_file and "
                              "tls.key_file"},
    {"tls_", "compare the keys below tls with what the store's TLS wants"},
    {"credentials_rejected", "put the right pair into probe.access_key_file and "
                             "probe.secret_key_file (InvalidAccessKeyId: the key is wrong; "
                             "SignatureDoesNotMatch: the secret is); they are read for each probe. "
                             "Without the two keys the probe is unsigned, and blocks nobody for "
                             "keys"},
    {"clock_skew", "set the clock (NTP) of the store or of this pod's node: compare date -u on "
                   "both; every keyed backend at once means this node"},
    {"wrong_region", "set probe.region, and the clients', to the region that the store expects, or "
                     "use the address of the store of ours"},
    {"not_s3", "something else than the store's S3 API answers (a console, a login page, an "
               "ingress): correct address and port in peers"},
    {"probe_keys", "repair the files that probe.access_key_file and probe.secret_key_file name"},
    {"throttled", "the store is overloaded: take load from it, or give it more peers"},
    {"http_429", "the store is overloaded: take load from it, or give it more peers"},
    {"http_5", "the store answers, with errors of its own: look at its log, its disks and its load "
               "(SlowDown in a client's answer: it is overloaded)"},
    {"http_", "the answer is not what probe.expect wants: look at the store's log, and at "
              "probe.path"},
    {"truncated", "the store breaks off its answers: look at its log"},
    {"stalled", "the store stops in the middle of its answers: look at its log and its disks"},
    {"deadline", "the store is too slow for the route's deadline: look at its load and its disks"},
    {"drained", "an operator took it out: POST .../undrain brings it back"},
    {"down", "take down: true out of the configuration"},
    {"no_members", "the controller has sent no members: look at the Service's endpoints, and at "
                   "the controller"},
    {"no_peers", "give the backend peers: look at the Service's endpoints"},
};

const char *fl_remedy(const char *code)
{
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        size_t n = strlen(rows[i].code);
        bool family = rows[i].code[n - 1] == '_' || strcmp(rows[i].code, "http_5") == 0;
        if (strncmp(rows[i].code, code, n) == 0 && (family || code[n] == '\0')) {
            return rows[i].text;
        }
    }
    return "look at the store's log, and at this sidecar's event log";
}
