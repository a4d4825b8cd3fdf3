#include "common/model/cause.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/model/tls_fault.h"

/* Own texts: strerror is neither thread-safe nor free of the locale, and the sentence must be
 * byte-equal everywhere. */
static const struct {
    int err;
    const char *code, *text;
} errnos[] = {
    {ECONNREFUSED, "connect_refused", "Connection refused"},
    {ECONNRESET, "reset", "Connection reset by peer"},
    {EPIPE, "reset", "Broken pipe"},
    {ECONNABORTED, "reset", "Software caused connection abort"},
    {ETIMEDOUT, "timeout", "Connection timed out"},
    {EHOSTUNREACH, "host_unreachable", "No route to host"},
    {EHOSTDOWN, "host_unreachable", "Host is down"},
    {ENETUNREACH, "network_unreachable", "Network is unreachable"},
    {ENETDOWN, "network_unreachable", "Network is down"},
    {EADDRNOTAVAIL, "no_local_port", "Cannot assign requested address"},
    {EADDRINUSE, "address_in_use", "Address already in use"},
    {EMFILE, "no_descriptors", "Too many open files"},
    {ENFILE, "no_descriptors", "Too many open files in system"},
    {ENOBUFS, "no_memory", "No buffer space available"},
    {ENOMEM, "no_memory", "Cannot allocate memory"},
    {EACCES, "not_permitted", "Permission denied"},
    {EPERM, "not_permitted", "Operation not permitted"},
    {ENOENT, "not_found", "No such file or directory"},
    {ENOSPC, "no_space", "No space left on device"},
    {EROFS, "not_permitted", "Read-only file system"},
    {EISDIR, "not_a_file", "Is a directory"},
    {ENOTDIR, "not_a_file", "Not a directory"},
    {EFBIG, "too_large", "File too large"},
    {EIO, "io_error", "Input/output error"},
    {EINVAL, "invalid", "Invalid argument"},
    {EPROTO, "protocol_error", "Protocol error"},
    {EBADMSG, "protocol_error", "Bad message"},
    {EMSGSIZE, "too_large", "Message too long"},
    {EAFNOSUPPORT, "no_such_family", "Address family not supported by protocol"},
    {EAGAIN, "try_again", "Resource temporarily unavailable"},
};

const char *fl_cause_errno_code(int err)
{
    for (size_t i = 0; i < FL_COUNTOF(errnos); i++) {
        if (errnos[i].err == err) {
            return errnos[i].code;
        }
    }
    return fl_tls_fault_is(err) ? fl_tls_fault_code(err) : "os_error";
}

const char *fl_cause_errno_text(int err)
{
    for (size_t i = 0; i < FL_COUNTOF(errnos); i++) {
        if (errnos[i].err == err) {
            return errnos[i].text;
        }
    }
    if (fl_tls_fault_is(err)) {
        return fl_tls_fault_text(err);
    }
#ifdef __GLIBC__
    const char *text = strerrordesc_np(err); /* untranslated constants */
    if (text) {
        return text;
    }
#endif
    return "Unknown system error";
}

static void keep_printable(char *text)
{
    for (; *text; text++) {
        if (*text < 0x20 || *text >= 0x7f) {
            *text = '?';
        }
    }
}

void fl_cause_set(struct fl_cause *c, const char *code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    struct fl_cause made; /* the old text may be an argument */
    int n = snprintf(made.code, sizeof(made.code), "%s", code);
    n = n < 0 ? n : vsnprintf(made.text, sizeof(made.text), fmt, args);
    va_end(args);
    if (n < 0) {
        made.text[0] = '\0';
    }
    keep_printable(made.code);
    keep_printable(made.text);
    *c = made;
}
