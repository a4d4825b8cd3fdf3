#include "common/sign/message_signature.h"

#include <errno.h>

#include "common/base/base64.h"
#include "common/base/units.h"

#define LABEL      "sig1"
#define COMPONENTS 5
/* Five components of at most FL_SIG_VALUE_MAX and their names, and the parameters. */
#define BASE_MAX (COMPONENTS * (FL_SIG_VALUE_MAX + 32) + FL_SIG_INPUT_TEXT + 32)

static const struct {
    const char *token, *text;
} errors[] = {
#define X(id, token, text) {token, text},
    FL_SIG_ERRORS(X)
#undef X
};

const char *fl_sig_error_token(enum fl_sig_error e)
{
    FL_MUST(e < FL_SIG_ERROR_COUNT);
    return errors[e].token;
}

const char *fl_sig_error_text(enum fl_sig_error e)
{
    FL_MUST(e < FL_SIG_ERROR_COUNT);
    return errors[e].text;
}

void fl_sig_params(struct fl_fmt *f, const struct fl_sig_component *c, size_t count,
                   int64_t created, struct fl_span keyid)
{
    fl_fmt_char(f, '(');
    for (size_t i = 0; i < count; i++) {
        fl_fmt_text(f, i ? " \"" : "\"");
        fl_fmt_text(f, c[i].name);
        fl_fmt_char(f, '"');
    }
    fl_fmt_text(f, ");created=");
    fl_fmt_int(f, created);
    fl_fmt_text(f, ";keyid=\"");
    fl_fmt_span(f, keyid);
    fl_fmt_char(f, '"');
}

void fl_sig_base(struct fl_fmt *f, const struct fl_sig_component *c, size_t count,
                 struct fl_span params)
{
    for (size_t i = 0; i < count; i++) {
        fl_fmt_char(f, '"');
        fl_fmt_text(f, c[i].name);
        fl_fmt_text(f, "\": ");
        fl_fmt_span(f, c[i].value);
        fl_fmt_char(f, '\n');
    }
    fl_fmt_text(f, "\"@signature-params\": ");
    fl_fmt_span(f, params);
}

/* A value with a line break could pretend to be a further component; one with white space at an
 * end has two serialisations. */
static bool is_plain(struct fl_span v)
{
    if (v.len == 0 || v.len > FL_SIG_VALUE_MAX || fl_span_trim(v).len != v.len) {
        return false;
    }
    for (size_t i = 0; i < v.len; i++) {
        if (v.ptr[i] < 0x20 || v.ptr[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

static bool list_components(const struct fl_sig_request *rq, struct fl_span digest,
                            struct fl_sig_component ret[COMPONENTS])
{
    const struct fl_sig_component c[COMPONENTS] = {
        {"@method", rq->method},           {"@path", rq->path},
        {"content-digest", digest},        {"content-type", rq->content_type},
        {"fairlead-sidecar", rq->sidecar},
    };
    for (size_t i = 0; i < COMPONENTS; i++) {
        if (!is_plain(c[i].value)) {
            return false;
        }
        ret[i] = c[i];
    }
    return true;
}

/* LABEL=params into input, the base into base; false when something did not fit. */
static bool serialise(const struct fl_sig_component *c, int64_t created, struct fl_span keyid,
                      struct fl_fmt *input, struct fl_fmt *base)
{
    fl_fmt_text(input, LABEL "=");
    fl_sig_params(input, c, COMPONENTS, created, keyid);
    struct fl_span params = {input->base + sizeof(LABEL), input->len - sizeof(LABEL)};
    fl_sig_base(base, c, COMPONENTS, params);
    return !input->cut && !base->cut;
}

int fl_message_sign_digest(const struct fl_sign_key *k, const struct fl_sig_request *rq,
                           const char *content_digest, int64_t created, struct fl_sig_fields *ret)
{
    struct fl_sig_component c[COMPONENTS];
    struct fl_span digest = fl_span_of(content_digest);
    if (created <= 0 || !fl_content_digest_is_canonical(digest) ||
        !list_components(rq, digest, c)) {
        return -EINVAL;
    }
    struct fl_sig_fields out;
    char base_text[BASE_MAX];
    struct fl_fmt base = fl_fmt_of(base_text, sizeof(base_text));
    struct fl_fmt input = fl_fmt_of(out.signature_input, sizeof(out.signature_input));
    if (!serialise(c, created, fl_span_of(fl_sign_key_id(k)), &input, &base)) {
        return -EINVAL;
    }
    uint8_t sig[FL_SIGNATURE_BYTES];
    int rc = fl_sign_key_sign(k, (struct fl_span){base.base, base.len}, sig);
    if (rc < 0) {
        return rc;
    }
    struct fl_fmt f = fl_fmt_of(out.signature, sizeof(out.signature));
    fl_fmt_text(&f, LABEL "=:");
    fl_base64_encode(&f, sig, sizeof(sig));
    fl_fmt_char(&f, ':');
    FL_MUST(!f.cut);
    memcpy(out.content_digest, content_digest, FL_CONTENT_DIGEST_TEXT);
    *ret = out;
    return 0;
}

int fl_message_sign(const struct fl_sign_key *k, const struct fl_sig_request *rq,
                    struct fl_span body, int64_t created, struct fl_sig_fields *ret)
{
    char digest[FL_CONTENT_DIGEST_TEXT];
    int rc = fl_content_digest_of(body, digest);
    return rc < 0 ? rc : fl_message_sign_digest(k, rq, digest, created, ret);
}

/* The two values that vary, taken from where the canonical text has them. The rebuilt text is
 * compared afterwards, so what is wrong elsewhere is found there. */
static bool take_parameters(struct fl_span input, int64_t *ret_created, struct fl_span *ret_keyid)
{
    ptrdiff_t end = fl_span_find(input, ')');
    struct fl_span rest = end < 0 ? (struct fl_span){0} : fl_span_from(input, (size_t)end);
    if (!fl_span_starts(rest, FL_SPAN(");created="))) {
        return false;
    }
    rest = fl_span_from(rest, sizeof(");created=") - 1);
    ptrdiff_t stop = fl_span_find(rest, ';');
    uint64_t created = 0;
    if (stop <= 0 || stop > 12 || rest.ptr[0] == '0' ||
        !fl_units_uint(fl_span_first(rest, (size_t)stop), &created)) {
        return false;
    }
    rest = fl_span_from(rest, (size_t)stop);
    const size_t lead = sizeof(";keyid=\"") - 1;
    if (!fl_span_starts(rest, FL_SPAN(";keyid=\"")) || rest.len != lead + FL_KEYID_TEXT) {
        return false;
    }
    *ret_created = (int64_t)created;
    *ret_keyid = fl_span_first(fl_span_from(rest, lead), FL_KEYID_TEXT - 1);
    return true;
}

static bool take_signature(struct fl_span value, uint8_t ret[FL_SIGNATURE_BYTES])
{
    const size_t lead = sizeof(LABEL "=:") - 1;
    if (!fl_span_starts(value, FL_SPAN(LABEL "=:")) || value.len < lead + 1 ||
        value.ptr[value.len - 1] != ':') {
        return false;
    }
    struct fl_span text = fl_span_from(fl_span_first(value, value.len - 1), lead);
    return fl_base64_decode(text, ret, FL_SIGNATURE_BYTES) == FL_SIGNATURE_BYTES;
}

enum fl_sig_error fl_message_verify(const struct fl_verify_keys *k, const struct fl_sig_request *rq,
                                    struct fl_span content_digest, struct fl_span signature_input,
                                    struct fl_span signature, int64_t *ret_created)
{
    if (fl_verify_keys_count(k) == 0) {
        return FL_SIG_NO_KEYS;
    }
    if (content_digest.len == 0 || signature_input.len == 0 || signature.len == 0 ||
        rq->content_type.len == 0 || rq->sidecar.len == 0) {
        return FL_SIG_MISSING;
    }
    if (!fl_content_digest_is_canonical(content_digest)) {
        return FL_SIG_BAD_DIGEST_FORM;
    }
    struct fl_sig_component c[COMPONENTS];
    int64_t created = 0;
    struct fl_span keyid = {0};
    if (!list_components(rq, content_digest, c) ||
        !take_parameters(signature_input, &created, &keyid)) {
        return FL_SIG_BAD_INPUT_FORM;
    }
    char base_text[BASE_MAX], input_text[FL_SIG_INPUT_TEXT];
    struct fl_fmt base = fl_fmt_of(base_text, sizeof(base_text));
    struct fl_fmt input = fl_fmt_of(input_text, sizeof(input_text));
    if (!serialise(c, created, keyid, &input, &base) ||
        !fl_span_eq(signature_input, (struct fl_span){input.base, input.len})) {
        return FL_SIG_BAD_INPUT_FORM;
    }
    uint8_t sig[FL_SIGNATURE_BYTES];
    if (!take_signature(signature, sig)) {
        return FL_SIG_BAD_FORM;
    }
    switch (fl_verify_keys_check(k, keyid, (struct fl_span){base.base, base.len}, sig)) {
    case 0:
        *ret_created = created;
        return FL_SIG_OK;
    case -ENOENT:
        return FL_SIG_UNKNOWN_KEY;
    case -EBADMSG:
        return FL_SIG_BAD_SIGNATURE;
    default:
        return FL_SIG_NO_MEMORY;
    }
}
