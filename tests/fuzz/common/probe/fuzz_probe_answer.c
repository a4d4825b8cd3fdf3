/* Whatever a peer answers, the facts are short printable words, and the verdict follows from them.
 * First byte: which request, and whether it was signed; then the head, up to its end; then the
 * body. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/probe/probe_answer.h"
#include "common/verdict/probe_judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t cap)
{
    FL_MUST(strnlen(text, cap) < cap);
    for (; *text != '\0'; text++) {
        FL_MUST(isprint((unsigned char)*text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum fl_probe_request requests[] = {
        FL_PROBE_REQUEST_GET, FL_PROBE_REQUEST_HEAD_BUCKET, FL_PROBE_REQUEST_LIST_BUCKETS};
    if (size < 1 || size > 65536) {
        return 0;
    }
    enum fl_probe_request request = requests[data[0] % 3];
    bool head_only = request == FL_PROBE_REQUEST_HEAD_BUCKET, keyed = (data[0] & 0x80) != 0;
    char *text = malloc(size); /* so that reading past the end is seen */
    FL_MUST(text != NULL);
    memcpy(text, data + 1, size - 1);
    struct fl_response_head head;
    size_t scan = 0;
    ptrdiff_t end = fl_head_end(text, size - 1, &scan);
    enum fl_http_method method = head_only ? FL_METHOD_HEAD : FL_METHOD_GET;
    if (end > 0 && fl_response_parse(text, (size_t)end, method, &head) == FL_HTTP_ERR_NONE) {
        struct fl_span body = {text + end, head_only ? 0 : size - 1 - (size_t)end};
        const struct fl_probe_answer a = {request, &head, text, body, 1796013751000};
        struct fl_probe_result r = {.outcome = FL_OUTCOME_OK};
        fl_probe_answer_read(&a, &r);
        check_text(r.code, sizeof(r.code));
        check_text(r.detail, sizeof(r.detail));
        FL_MUST(r.status == head.status && strchr(r.code, ' ') == NULL);
        struct fl_probe_plan plan;
        bool http = request == FL_PROBE_REQUEST_GET;
        fl_probe_plan_begin(&plan, http ? FL_PROBE_HTTP : FL_PROBE_S3, head_only);
        (void)fl_probe_plan_take(&plan, &r);
        const struct fl_probe_facts facts = {"10.0.0.1:9000", "200-399", "b", keyed ? "KEY" : ""};
        struct fl_verdict v;
        fl_probe_judge(&facts, &plan, &v);
        check_text(v.cause.text, sizeof(v.cause.text));
        check_text(v.note, sizeof(v.note));
        FL_MUST(v.status != FL_VERDICT_UNKNOWN && v.status != FL_VERDICT_UNREACHABLE);
        FL_MUST(v.status != FL_VERDICT_AUTH_REJECTED || (keyed && r.code[0] != '\0'));
        FL_MUST((v.status == FL_VERDICT_HEALTHY) == (v.cause.code[0] == '\0'));
    }
    free(text);
    return 0;
}
