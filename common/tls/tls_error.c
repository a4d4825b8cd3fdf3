/* tls_error - what OpenSSL says of a failure, as one of our faults. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include "common/model/tls_fault.h"
#include "common/tls/tls_inner.h"

struct pair {
    int theirs, ours;
};

static const struct pair verify_results[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, FL_TLS_EXPIRED},
    {X509_V_ERR_CERT_NOT_YET_VALID, FL_TLS_NOT_YET_VALID},
    {X509_V_ERR_HOSTNAME_MISMATCH, FL_TLS_HOSTNAME_MISMATCH},
    {X509_V_ERR_IP_ADDRESS_MISMATCH, FL_TLS_ADDRESS_MISMATCH},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, FL_TLS_SELF_SIGNED},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, FL_TLS_SELF_SIGNED_CHAIN},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, FL_TLS_UNKNOWN_ISSUER},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, FL_TLS_UNKNOWN_ISSUER},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, FL_TLS_UNKNOWN_ISSUER},
    {X509_V_ERR_CERT_UNTRUSTED, FL_TLS_UNKNOWN_ISSUER},
    {X509_V_ERR_CERT_REVOKED, FL_TLS_REVOKED},
    {X509_V_ERR_EE_KEY_TOO_SMALL, FL_TLS_WEAK},
    {X509_V_ERR_CA_KEY_TOO_SMALL, FL_TLS_WEAK},
    {X509_V_ERR_CA_MD_TOO_WEAK, FL_TLS_WEAK},
    {X509_V_ERR_INVALID_PURPOSE, FL_TLS_PURPOSE},
    {X509_V_ERR_OUT_OF_MEM, ENOMEM},
};

static const struct pair reasons[] = {
    {SSL_R_WRONG_VERSION_NUMBER, FL_TLS_WRONG_VERSION},
    {SSL_R_HTTP_REQUEST, FL_TLS_WRONG_VERSION},
    {SSL_R_UNSUPPORTED_PROTOCOL, FL_TLS_UNSUPPORTED},
    {SSL_R_NO_PROTOCOLS_AVAILABLE, FL_TLS_UNSUPPORTED},
    {SSL_R_NO_CIPHERS_AVAILABLE, FL_TLS_UNSUPPORTED},
    {SSL_R_WRONG_CIPHER_RETURNED, FL_TLS_UNSUPPORTED},
    {SSL_R_UNKNOWN_CIPHER_RETURNED, FL_TLS_UNSUPPORTED},
    {SSL_R_UNSAFE_LEGACY_RENEGOTIATION_DISABLED, FL_TLS_UNSUPPORTED},
    {SSL_R_DH_KEY_TOO_SMALL, FL_TLS_WEAK},
    {ERR_R_MALLOC_FAILURE, ENOMEM},
};

/* By number (RFC 8446 section 6, RFC 5246 section 7.2). */
static const struct pair alerts[] = {
    {SSL_AD_UNEXPECTED_MESSAGE, FL_TLS_ALERT_UNEXPECTED},
    {SSL_AD_BAD_RECORD_MAC, FL_TLS_ALERT_RECORD},
    {SSL_AD_HANDSHAKE_FAILURE, FL_TLS_ALERT_HANDSHAKE},
    {SSL_AD_BAD_CERTIFICATE, FL_TLS_ALERT_BAD_CERT},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, FL_TLS_ALERT_UNSUPPORTED},
    {SSL_AD_CERTIFICATE_REVOKED, FL_TLS_ALERT_REVOKED},
    {SSL_AD_CERTIFICATE_EXPIRED, FL_TLS_ALERT_EXPIRED},
    {SSL_AD_CERTIFICATE_UNKNOWN, FL_TLS_ALERT_UNKNOWN_CERT},
    {SSL_AD_UNKNOWN_CA, FL_TLS_ALERT_UNKNOWN_CA},
    {SSL_AD_ACCESS_DENIED, FL_TLS_ALERT_ACCESS},
    {SSL_AD_DECRYPT_ERROR, FL_TLS_ALERT_DECRYPT},
    {SSL_AD_PROTOCOL_VERSION, FL_TLS_ALERT_VERSION},
    {SSL_AD_INSUFFICIENT_SECURITY, FL_TLS_ALERT_SECURITY},
    {SSL_AD_INTERNAL_ERROR, FL_TLS_ALERT_INTERNAL},
    {SSL_AD_UNRECOGNIZED_NAME, FL_TLS_ALERT_NAME},
    {SSL_AD_CERTIFICATE_REQUIRED, FL_TLS_ALERT_WANTS_CERT},
    {SSL_AD_NO_APPLICATION_PROTOCOL, FL_TLS_ALERT_PROTOCOL},
};

static int look_up(const struct pair *table, size_t n, int theirs, int otherwise)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].theirs == theirs) {
            return table[i].ours;
        }
    }
    return otherwise;
}

/* The first error of the queue that is TLS's own: what stands before it is its cause in detail. */
static int first_reason(void)
{
    int found = 0;
    for (unsigned long e; (e = ERR_get_error()) != 0;) {
        int reason = ERR_GET_REASON(e);
        if (reason == ERR_R_MALLOC_FAILURE) {
            found = reason;
        } else if (found == 0 && ERR_GET_LIB(e) == ERR_LIB_SSL) {
            found = reason;
        }
    }
    return found;
}

int fl_tls_error_of(const SSL *ssl)
{
    int reason = first_reason();
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        return look_up(verify_results, FL_COUNTOF(verify_results), (int)SSL_get_verify_result(ssl),
                       FL_TLS_NOT_VERIFIED);
    }
    if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255) {
        return look_up(alerts, FL_COUNTOF(alerts), reason - SSL_AD_REASON_OFFSET,
                       FL_TLS_ALERT_OTHER);
    }
    return look_up(reasons, FL_COUNTOF(reasons), reason, FL_TLS_PROTOCOL);
}
