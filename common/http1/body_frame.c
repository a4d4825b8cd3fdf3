#include "common/http1/body_frame.h"

#include "common/http1/scan.h"
#include "common/http1/trailer.h"

enum state {
    LENGTH,      /* left bytes of data */
    CLOSE,       /* data until the stream ends */
    SIZE_FIRST,  /* chunk-size, no digit yet */
    SIZE,        /* chunk-size */
    SIZE_BLANK,  /* white space: must lead to ';' */
    EXT,         /* after ';': the name of an extension */
    EXT_NAME,    /* in it */
    EXT_BLANK,   /* behind it */
    VALUE,       /* after '=' */
    VALUE_TOKEN, /* in a token */
    VALUE_BLANK, /* behind the value: must lead to ';' */
    QUOTED,      /* in a quoted string */
    QUOTED_PAIR, /* after its backslash */
    QUOTED_END,  /* after its closing quote */
    LINE_LF,     /* LF of the chunk-size line */
    DATA,        /* left bytes of chunk data */
    DATA_CR,     /* CRLF behind them */
    DATA_LF,
    TRAILERS, /* trailer lines and the empty line */
    ENDED,
    FAILED,
};

void fl_body_frame_init(struct fl_body_frame *f, enum fl_http_framing framing,
                        uint64_t content_length, uint32_t trailer_limit_bytes)
{
    *f = (struct fl_body_frame){.overhead_left = FL_BODY_OVERHEAD_MAX,
                                .trailer_left = trailer_limit_bytes};
    switch (framing) {
    case FL_FRAMING_NONE:
        f->state = ENDED;
        return;
    case FL_FRAMING_LENGTH:
        f->state = LENGTH;
        f->left = content_length;
        return;
    case FL_FRAMING_CHUNKED:
        f->state = SIZE_FIRST;
        return;
    case FL_FRAMING_UNTIL_CLOSE:
        f->state = CLOSE;
        return;
    }
    FL_IMPOSSIBLE("framing");
}

static enum state fail(struct fl_body_frame *f, enum fl_http_error error)
{
    f->error = (uint8_t)error;
    return FAILED;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* By hand: library converters take signs, blanks and "0x" (four CVEs of others). */
static enum state take_digit(struct fl_body_frame *f, int digit)
{
    if (f->left == 0 && f->state == SIZE && digit == 0) { /* leading zeros are free text too */
        if (f->overhead_left-- == 0) {
            return fail(f, FL_HTTP_ERR_CHUNK_OVERHEAD);
        }
    }
    if (f->left >> 59 != 0) { /* the next digit would reach 2^63 */
        return fail(f, FL_HTTP_ERR_CHUNK_LARGE);
    }
    f->left = f->left << 4 | (unsigned)digit;
    return SIZE;
}

static enum state size_byte(struct fl_body_frame *f, char c)
{
    int digit = hex_value(c);
    if (digit >= 0 && f->state != SIZE_BLANK) {
        return take_digit(f, digit);
    }
    if (f->state == SIZE_FIRST) {
        return fail(f, FL_HTTP_ERR_CHUNK_SIZE);
    }
    if (c == '\r' && f->state == SIZE) {
        return LINE_LF;
    }
    if (c == ';') {
        return EXT;
    }
    return c == ' ' || c == '\t' ? SIZE_BLANK : fail(f, FL_HTTP_ERR_CHUNK_SIZE);
}

static enum state after_part(struct fl_body_frame *f, char c, enum state blank)
{
    if (c == ' ' || c == '\t') {
        return blank;
    }
    if (c == ';') {
        return EXT;
    }
    if (c == '\r' && f->state != EXT_BLANK && f->state != VALUE_BLANK) {
        return LINE_LF;
    }
    return fail(f, FL_HTTP_ERR_CHUNK_EXTENSION);
}

/* chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ), thrown away. */
static enum state extension_byte(struct fl_body_frame *f, char c)
{
    if (f->overhead_left == 0) {
        return fail(f, FL_HTTP_ERR_CHUNK_OVERHEAD);
    }
    f->overhead_left--;
    bool token = fl_scan_is(c, FL_SCAN_TOKEN);
    bool blank = c == ' ' || c == '\t';
    switch (f->state) {
    case EXT:
        return token ? EXT_NAME : blank ? EXT : fail(f, FL_HTTP_ERR_CHUNK_EXTENSION);
    case EXT_NAME:
    case EXT_BLANK:
        if (token && f->state == EXT_NAME) {
            return EXT_NAME;
        }
        return c == '=' ? VALUE : after_part(f, c, EXT_BLANK);
    case VALUE:
        if (blank) {
            return VALUE;
        }
        return token ? VALUE_TOKEN : c == '"' ? QUOTED : fail(f, FL_HTTP_ERR_CHUNK_EXTENSION);
    case VALUE_TOKEN:
        return token ? VALUE_TOKEN : after_part(f, c, VALUE_BLANK);
    case QUOTED:
        if (fl_scan_is_control(c) && c != '\t') {
            return fail(f, FL_HTTP_ERR_CHUNK_EXTENSION);
        }
        return c == '"' ? QUOTED_END : c == '\\' ? QUOTED_PAIR : QUOTED;
    case QUOTED_PAIR:
        return fl_scan_is_control(c) && c != '\t' ? fail(f, FL_HTTP_ERR_CHUNK_EXTENSION) : QUOTED;
    default: /* VALUE_BLANK, QUOTED_END */
        return after_part(f, c, VALUE_BLANK);
    }
}

/* One byte of framing around the chunks. */
static enum state frame_byte(struct fl_body_frame *f, char c)
{
    switch (f->state) {
    case SIZE_FIRST:
    case SIZE:
    case SIZE_BLANK:
        return size_byte(f, c);
    case LINE_LF:
        if (c != '\n') {
            return fail(f, FL_HTTP_ERR_BARE_CR);
        }
        return f->left ? DATA : TRAILERS;
    case DATA_CR:
        return c == '\r' ? DATA_LF : fail(f, FL_HTTP_ERR_CHUNK_END);
    case DATA_LF:
        return c == '\n' ? SIZE_FIRST : fail(f, FL_HTTP_ERR_CHUNK_END);
    default:
        return extension_byte(f, c);
    }
}

static enum fl_body_piece take_data(struct fl_body_frame *f, const char *in, size_t len,
                                    size_t *used, struct fl_span *ret_data)
{
    size_t n = len - *used;
    if (f->state != CLOSE) {
        n = n < f->left ? n : (size_t)f->left;
        f->left -= n;
        if (f->left == 0) {
            f->state = f->state == DATA ? DATA_CR : ENDED;
        }
    }
    *ret_data = (struct fl_span){in + *used, n};
    *used += n;
    return FL_BODY_DATA;
}

/* Length of the trailer line at p with its CRLF, 0 when it is not complete, -1 when it is bad. */
static ptrdiff_t trailer_line(const char *p, const char *end)
{
    const char *q = p;
    while ((q = fl_scan_control(q, end)) < end && *q == '\t') {
        q++;
    }
    if (q == end || (*q == '\r' && q + 1 == end)) {
        return 0;
    }
    return q[0] == '\r' && q[1] == '\n' ? q + 2 - p : -1;
}

static enum fl_body_piece take_trailers(struct fl_body_frame *f, const char *in, size_t len,
                                        size_t *used, struct fl_span *ret_data)
{
    while (*used < len) {
        size_t limit =
            f->trailer_left < FL_BODY_TRAILER_LINE_MAX ? f->trailer_left : FL_BODY_TRAILER_LINE_MAX;
        limit = limit > 2 ? limit : 2; /* the empty line is always welcome */
        size_t size = len - *used < limit ? len - *used : limit;
        ptrdiff_t n = trailer_line(in + *used, in + *used + size);
        if (n < 0) {
            f->state = (uint8_t)fail(f, FL_HTTP_ERR_TRAILER);
            return FL_BODY_ERROR;
        }
        if (n == 0 && size == limit) {
            f->state = (uint8_t)fail(f, FL_HTTP_ERR_TRAILER_LARGE);
            return FL_BODY_ERROR;
        }
        if (n == 0) {
            break;
        }
        size = (size_t)n;
        struct fl_span line = {in + *used, size - 2};
        *used += size;
        if (line.len == 0) {
            f->state = ENDED;
            return FL_BODY_END;
        }
        f->trailer_left -= (uint32_t)size;
        enum fl_trailer_kind kind = fl_trailer_judge(line);
        if (kind == FL_TRAILER_MALFORMED) {
            f->state = (uint8_t)fail(f, FL_HTTP_ERR_TRAILER);
            return FL_BODY_ERROR;
        }
        if (kind == FL_TRAILER_ALLOWED) {
            *ret_data = line;
            return FL_BODY_TRAILER;
        }
    }
    return FL_BODY_MORE;
}

enum fl_body_piece fl_body_frame_next(struct fl_body_frame *f, const char *in, size_t len,
                                      size_t *ret_used, struct fl_span *ret_data)
{
    size_t used = 0;
    enum fl_body_piece piece = FL_BODY_MORE;
    *ret_data = (struct fl_span){in, 0};
    if (f->state == LENGTH && f->left == 0) {
        f->state = ENDED;
    }
    while (used < len && f->state != DATA && f->state != LENGTH && f->state != CLOSE &&
           f->state < TRAILERS) {
        f->state = (uint8_t)frame_byte(f, in[used]);
        used += f->state != FAILED;
    }
    if (f->state == ENDED) {
        piece = FL_BODY_END;
    } else if (f->state == FAILED) {
        piece = FL_BODY_ERROR;
    } else if (f->state == TRAILERS) {
        piece = take_trailers(f, in, len, &used, ret_data);
    } else if (used < len) {
        piece = take_data(f, in, len, &used, ret_data);
    }
    *ret_used = used;
    return piece;
}

bool fl_body_frame_eof(const struct fl_body_frame *f)
{
    return f->state == CLOSE || fl_body_frame_ended(f);
}

bool fl_body_frame_ended(const struct fl_body_frame *f)
{
    return f->state == ENDED || (f->state == LENGTH && f->left == 0);
}

uint64_t fl_body_frame_remaining(const struct fl_body_frame *f)
{
    return f->state == LENGTH ? f->left : 0;
}

void fl_body_frame_skip(struct fl_body_frame *f, uint64_t n)
{
    FL_MUST(f->state == LENGTH && n <= f->left);
    f->left -= n;
}

size_t fl_chunk_head(char out[FL_CHUNK_HEAD_BYTES], size_t n)
{
    size_t digits = 1;
    while (digits < 16 && n >> (4 * digits) != 0) {
        digits++;
    }
    for (size_t i = 0; i < digits; i++) {
        out[i] = "0123456789abcdef"[n >> (4 * (digits - 1 - i)) & 15];
    }
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
