#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/io/bridge/curl_inner.h"

#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_PACE_S 10
#define KEEPALIVE_PROBES 3
#define USER_TIMEOUT_MS  45000
#define SYSTEM_CA_LIFE_S 300L /* libcurl would keep the system's authorities for a day */

/* ---- kept connections ---- */

static struct fl_curl_kept *take_kept(struct fl_curl *c)
{
    if (c->kept == NULL) {
        struct fl_curl_kept *made = calloc(1, sizeof(*made));
        CURLSH *share = made != NULL ? curl_share_init() : NULL;
        if (share == NULL ||
            curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT) != CURLSHE_OK) {
            (void)curl_share_cleanup(share); /* accepts NULL */
            free(made);
            return NULL;
        }
        *made = (struct fl_curl_kept){.share = share, .holders = 1};
        c->kept = made;
    }
    c->kept->holders++;
    return c->kept;
}

void fl_curl_kept_give(struct fl_curl_kept **kept)
{
    struct fl_curl_kept *k = *kept;
    *kept = NULL;
    if (k != NULL && --k->holders == 0) {
        (void)curl_share_cleanup(k->share); /* closes them */
        free(k);
    }
}

/* ---- ends ---- */

struct fl_curl_call *fl_curl_call_free(struct fl_curl_call *k)
{
    if (k != NULL) {
        fl_list_remove(&k->node);
        if (k->easy != NULL) {
            (void)curl_multi_remove_handle(k->owner->multi, k->easy); /* harmless if not added */
            curl_easy_cleanup(k->easy);
        }
        fl_curl_kept_give(&k->kept);
        curl_slist_free_all(k->fields);
        free(k->body);
        free(k);
    }
    return NULL;
}

static bool was_connected(const struct fl_curl_call *k)
{
    curl_off_t connected_us = 0, begun_us = 0; /* the second also on a kept connection */
    (void)curl_easy_getinfo(k->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    (void)curl_easy_getinfo(k->easy, CURLINFO_PRETRANSFER_TIME_T, &begun_us);
    return connected_us > 0 || begun_us > 0;
}

static bool is_tls(CURLcode code)
{
    switch ((int)code) { /* of libcurl's hundred codes a few concern us */
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CLIENTCERT:
        return true;
    default:
        return false;
    }
}

static enum fl_curl_fault fault_of(const struct fl_curl_call *k, CURLcode code)
{
    if (k->too_long) {
        return FL_CURL_TOO_LONG;
    }
    if (k->refused) {
        return FL_CURL_OTHER;
    }
    switch ((int)code) {
    case CURLE_OK:
        return FL_CURL_NONE;
    case CURLE_COULDNT_RESOLVE_HOST:
        return FL_CURL_RESOLVE;
    case CURLE_COULDNT_CONNECT:
        return FL_CURL_CONNECT;
    case CURLE_OPERATION_TIMEDOUT:
        return was_connected(k) ? FL_CURL_TIMEOUT : FL_CURL_CONNECT_TIMEOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return FL_CURL_ENDED;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9 and other strangers */
    case CURLE_BAD_CONTENT_ENCODING:
        return FL_CURL_NOT_HTTP;
    default:
        return is_tls(code) ? FL_CURL_CONNECT : FL_CURL_OTHER;
    }
}

/* A handshake that the network broke is the network's fault, any other TLS's. */
static int errno_of_connect(CURLcode code, int os_errno)
{
    bool network = os_errno == ECONNRESET || os_errno == EPIPE || os_errno == ETIMEDOUT;
    return !is_tls(code) || (code == CURLE_SSL_CONNECT_ERROR && network) ? os_errno : EPROTO;
}

enum fl_curl_fault fl_curl_call_fault(const struct fl_curl_call *k, CURLcode code, int *ret_errno)
{
    long os_errno = 0;
    enum fl_curl_fault fault = fault_of(k, code);
    (void)curl_easy_getinfo(k->easy, CURLINFO_OS_ERRNO, &os_errno);
    *ret_errno = fault == FL_CURL_NONE      ? 0
                 : fault == FL_CURL_CONNECT ? errno_of_connect(code, (int)os_errno)
                                            : (int)os_errno;
    return fault;
}

int64_t fl_curl_retry_after_ms(const struct fl_curl_call *call)
{
    curl_off_t seconds = 0;
    int64_t ms = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &seconds);
    return seconds <= 0 ? 0 : __builtin_mul_overflow((int64_t)seconds, 1000, &ms) ? INT64_MAX : ms;
}

/* ---- what libcurl hands us ---- */

static void hear(struct fl_curl_call *k)
{
    if (k->stall_ms > 0) {
        k->heard_ms = fl_reactor_now_ms(k->owner->reactor); /* the timer looks when it fires */
    }
}

static long status_of(const struct fl_curl_call *k)
{
    long status = 0;
    (void)curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static bool take_some(struct fl_curl_call *k, struct fl_span bytes)
{
    if (k->cancelled || !k->some(k->arg, bytes)) {
        k->refused = true;
    }
    return !k->refused;
}

static size_t on_field(char *bytes, size_t size, size_t count, void *arg)
{
    struct fl_curl_call *k = arg;
    size_t n = size * count;
    struct fl_span line = {bytes, n};
    hear(k);
    while (line.len > 0 && (line.ptr[line.len - 1] == '\r' || line.ptr[line.len - 1] == '\n')) {
        line.len--;
    }
    ptrdiff_t colon = fl_span_find(line, ':');
    if (line.len == 0 && !k->head_came && status_of(k) >= 200) { /* not of a trailer */
        k->head_came = true;
        bool streams = k->some != NULL && status_of(k) < 300;
        return streams && !take_some(k, (struct fl_span){"", 0}) ? 0 : n;
    }
    if (colon > 0 && k->field != NULL && !k->cancelled) {
        k->field(k->arg, fl_span_first(line, (size_t)colon),
                 fl_span_trim(fl_span_from(line, (size_t)colon + 1)));
    }
    return k->cancelled ? 0 : n;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct fl_curl_call *k = arg;
    size_t n = size * count; /* size is 1 (CURLOPT_WRITEFUNCTION) */
    hear(k);
    if (k->some != NULL && status_of(k) / 100 == 2) {
        return take_some(k, (struct fl_span){bytes, n}) ? n : 0;
    }
    if (n > k->body_max - k->body_len) {
        k->too_long = true;
        return 0;
    }
    if (n > k->body_cap - k->body_len) {
        size_t cap = k->body_len + n > 4096 ? 2 * (k->body_len + n) : 4096;
        char *grown = realloc(k->body, cap);
        if (grown == NULL) {
            return 0;
        }
        k->body = grown;
        k->body_cap = cap;
    }
    memcpy(k->body + k->body_len, bytes, n);
    k->body_len += n;
    return n;
}

/* libcurl knows neither the number of probes (before 8.9) nor the user timeout. */
static int on_socket_made(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    const struct {
        int level, name, value;
    } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_PACE_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
                   {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS}};
    (void)arg;
    (void)purpose;
    for (size_t i = 0; i < FL_COUNTOF(options); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof(options[i].value));
    }
    return CURL_SOCKOPT_OK;
}

/* ---- making one ---- */

static bool add_fields(struct fl_curl_call *k, const char *const *fields)
{
    /* libcurl would wait a second for a 100 before it sends a body */
    static const char *const no_expect[] = {"Expect:", NULL};
    const char *const *lists[] = {no_expect, fields};
    for (size_t i = 0; i < FL_COUNTOF(lists); i++) {
        for (const char *const *f = lists[i]; f != NULL && *f != NULL; f++) {
            struct curl_slist *grown = curl_slist_append(k->fields, *f);
            if (grown == NULL) {
                return false;
            }
            k->fields = grown;
        }
    }
    return true;
}

#define SET(option, value)                                                                         \
    do {                                                                                           \
        rc = rc == CURLE_OK ? curl_easy_setopt(e, option, value) : rc;                             \
    } while (0)

static CURLcode set_tls(CURL *e, const struct fl_curl_tls *tls)
{
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, tls->unverified ? 0L : 1L);
    SET(CURLOPT_SSL_VERIFYHOST, tls->unverified ? 0L : 2L);
    if (tls->ca_file != NULL && tls->ca_file[0] != '\0') {
        SET(CURLOPT_CAINFO, tls->ca_file);
        SET(CURLOPT_CAPATH, NULL); /* or the system's authorities count as well */
        SET(CURLOPT_CA_CACHE_TIMEOUT, 0L);
    } else {
        SET(CURLOPT_CA_CACHE_TIMEOUT, SYSTEM_CA_LIFE_S);
    }
    if (tls->cert_file != NULL && tls->cert_file[0] != '\0') {
        SET(CURLOPT_SSLCERT, tls->cert_file);
    }
    if (tls->key_file != NULL && tls->key_file[0] != '\0') {
        SET(CURLOPT_SSLKEY, tls->key_file);
    }
    return rc;
}

static CURLcode set_extras(struct fl_curl_call *k, const struct fl_curl_conf *conf)
{
    CURL *e = k->easy;
    CURLcode rc = CURLE_OK;
    if (conf->some != NULL || conf->field != NULL || conf->stall_ms > 0) {
        SET(CURLOPT_HEADERFUNCTION, on_field);
        SET(CURLOPT_HEADERDATA, k);
    }
    if (conf->keepalive) {
        SET(CURLOPT_SOCKOPTFUNCTION, on_socket_made);
    }
    if (conf->reuse) {
        SET(CURLOPT_SHARE, k->kept->share);
    } else {
        SET(CURLOPT_FRESH_CONNECT, 1L);
        SET(CURLOPT_FORBID_REUSE, 1L);
    }
    return rc;
}

/* false: an option was refused, or no memory */
static bool set_options(struct fl_curl_call *k, const struct fl_curl_conf *conf)
{
    CURL *e = k->easy;
    CURLcode rc = curl_easy_setopt(e, CURLOPT_URL, conf->url);
    SET(CURLOPT_PROTOCOLS_STR, conf->tls != NULL ? "http,https" : "http");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* or the environment's http_proxy is taken */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TIMEOUT_MS, (long)conf->timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        (long)(conf->connect_ms > 0 ? conf->connect_ms : conf->timeout_ms));
    SET(CURLOPT_CUSTOMREQUEST, conf->method);
    SET(CURLOPT_HTTPHEADER, k->fields);
    if (conf->body.len > 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)conf->body.len);
        SET(CURLOPT_POSTFIELDS, conf->body.ptr);
    }
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, k);
    SET(CURLOPT_ERRORBUFFER, k->text);
    SET(CURLOPT_PRIVATE, k);
    rc = rc == CURLE_OK && conf->tls != NULL ? set_tls(e, conf->tls) : rc;
    return rc == CURLE_OK && set_extras(k, conf) == CURLE_OK;
}
#undef SET

int fl_curl_call_new(struct fl_curl *c, const struct fl_curl_conf *conf, struct fl_curl_call **ret)
{
    FL_MUST(conf->timeout_ms > 0 && conf->done != NULL);
    struct fl_curl_call *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return -ENOMEM;
    }
    fl_list_init(&k->node);
    k->owner = c;
    k->done = conf->done;
    k->some = conf->some;
    k->field = conf->field;
    k->arg = conf->arg;
    k->body_max = conf->answer_max_bytes;
    k->stall_ms = conf->stall_ms;
    k->heard_ms = fl_reactor_now_ms(c->reactor);
    k->easy = curl_easy_init();
    k->kept = conf->reuse ? take_kept(c) : NULL;
    if (k->easy == NULL || (conf->reuse && k->kept == NULL) || !add_fields(k, conf->fields)) {
        fl_curl_call_free(k);
        return -ENOMEM;
    }
    if (!set_options(k, conf)) {
        fl_curl_call_free(k);
        return -EINVAL;
    }
    *ret = k;
    return 0;
}
