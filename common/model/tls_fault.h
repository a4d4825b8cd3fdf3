/* tls_fault - why TLS with a peer failed, as one more kind of errno: the numbers lie above every
 * errno of the kernel (4095), so a fault travels where an errno does (attempt, peer health, probe,
 * log) and fl_cause_errno_text and _code put it into words. One table for traffic and probes, so
 * one fault has one sentence. Pure. */
#ifndef FL_COMMON_MODEL_TLS_FAULT_H
#define FL_COMMON_MODEL_TLS_FAULT_H

#include <stdbool.h>

// clang-format off
/* id, code (metric label), text, refusal: the peer's word that it does not take the client in. With TLS 1.3 that comes
 * after the client's side of the handshake has ended, and then nothing that was sent has been looked at (RFC 8446
 * section 4.4.2.4, 6.2). */
#define FL_TLS_FAULTS(X)                                                                                               \
    /* the peer's certificate, as we see it */                                                                         \
    X(EXPIRED,            "tls_expired",          "certificate has expired",                              false)        \
    X(NOT_YET_VALID,      "tls_not_yet_valid",    "certificate is not yet valid",                         false)        \
    X(HOSTNAME_MISMATCH,  "tls_wrong_name",       "hostname mismatch",                                    false)        \
    X(ADDRESS_MISMATCH,   "tls_wrong_name",       "IP address mismatch",                                  false)        \
    X(SELF_SIGNED,        "tls_self_signed",      "self-signed certificate",                              false)        \
    X(SELF_SIGNED_CHAIN,  "tls_self_signed",      "self-signed certificate in certificate chain",         false)        \
    X(UNKNOWN_ISSUER,     "tls_unknown_issuer",   "unable to get local issuer certificate",               false)        \
    X(REVOKED,            "tls_revoked",          "certificate revoked",                                  false)        \
    X(WEAK,               "tls_weak",             "certificate key or signature is too weak",             false)        \
    X(PURPOSE,            "tls_purpose",          "certificate is not one of a server",                   false)        \
    X(NOT_VERIFIED,       "tls_not_verified",     "certificate verify failed",                            false)        \
    /* the protocol */                                                                                                 \
    X(WRONG_VERSION,      "tls_wrong_version",    "wrong version number, perhaps not a TLS port",         false)        \
    X(UNSUPPORTED,        "tls_unsupported",      "no TLS version or cipher in common",                   false)        \
    X(PROTOCOL,           "tls_protocol",         "TLS protocol error",                                   false)        \
    X(TIMEOUT,            "tls_timeout",          "handshake timed out",                                  false)        \
    X(CLOSED,             "tls_closed",           "closed during the handshake",                          false)        \
    X(CUT,                "tls_cut",              "ended without close_notify",                           false)        \
    X(UNAVAILABLE,        "tls_unavailable",      "its files could not be loaded, see the log",           false)        \
    /* alerts that the peer sent (RFC 8446 section 6) */                                                               \
    X(ALERT_UNEXPECTED,   "tls_alert",            "alert received: unexpected message",                   false)        \
    X(ALERT_RECORD,       "tls_alert",            "alert received: bad record mac",                       false)        \
    X(ALERT_HANDSHAKE,    "tls_alert",            "alert received: handshake failure",                    true)         \
    X(ALERT_BAD_CERT,     "tls_alert_certificate","alert received: bad certificate",                      true)         \
    X(ALERT_UNSUPPORTED,  "tls_alert_certificate","alert received: unsupported certificate",              true)         \
    X(ALERT_REVOKED,      "tls_alert_certificate","alert received: certificate revoked",                  true)         \
    X(ALERT_EXPIRED,      "tls_alert_certificate","alert received: certificate expired",                  true)         \
    X(ALERT_UNKNOWN_CERT, "tls_alert_certificate","alert received: certificate unknown",                  true)         \
    X(ALERT_UNKNOWN_CA,   "tls_alert_certificate","alert received: unknown CA",                           true)         \
    X(ALERT_ACCESS,       "tls_alert_certificate","alert received: access denied",                        true)         \
    X(ALERT_DECRYPT,      "tls_alert_certificate","alert received: decrypt error",                        true)         \
    X(ALERT_VERSION,      "tls_alert",            "alert received: protocol version",                     false)        \
    X(ALERT_SECURITY,     "tls_alert",            "alert received: insufficient security",                false)        \
    X(ALERT_INTERNAL,     "tls_alert",            "alert received: internal error",                       false)        \
    X(ALERT_NAME,         "tls_alert_name",       "alert received: unrecognized name",                    false)        \
    X(ALERT_WANTS_CERT,   "tls_alert_certificate","alert received: certificate required",                 true)         \
    X(ALERT_PROTOCOL,     "tls_alert",            "alert received: no application protocol",              false)        \
    X(ALERT_OTHER,        "tls_alert",            "alert received",                                       false)
// clang-format on

#define X(id, ...) FL_TLS_##id,
enum fl_tls_fault { FL_TLS_FAULT_BASE = 5000, FL_TLS_FAULTS(X) FL_TLS_FAULT_END };
#undef X

bool fl_tls_fault_is(int err); /* one of them, not an errno of the kernel */
/* NULL when it is none. */
const char *fl_tls_fault_code(int err);
const char *fl_tls_fault_text(int err);
/* Did the peer refuse the client as such? See above. */
bool fl_tls_fault_is_refusal(int err);

#endif
