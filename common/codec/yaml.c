#include "common/codec/yaml.h"

#include <yaml.h>

struct building {
    struct fl_span text;
    struct fl_arena *a;
    struct fl_findings *f;
    struct fl_node *open[FL_YAML_DEPTH_MAX],
        *last[FL_YAML_DEPTH_MAX]; /* containers not yet closed, their last children */
    int depth;
    struct fl_span key; /* of the next child of an open mapping */
    int key_line;
    bool has_key;
    struct fl_node *root;
    bool done;
};

static bool refuse(struct building *b, int line, const char *text)
{
    fl_findings_add(b->f, FL_SEVERITY_ERROR, line, "%s", text);
    return false;
}

static int line_of(yaml_mark_t mark)
{
    return mark.line < INT32_MAX ? (int)mark.line + 1 : INT32_MAX;
}

static int line_at(struct fl_span text, size_t offset)
{
    int line = 1;
    for (size_t i = 0; i < offset && i < text.len; i++) {
        line += text.ptr[i] == '\n';
    }
    return line;
}

/* The line, without its end, for looking at what stands before a fault. */
static struct fl_span line_text(struct fl_span text, int line)
{
    while (line > 1 && text.len) {
        ptrdiff_t end = fl_span_find(text, '\n');
        text = fl_span_from(text, end < 0 ? text.len : (size_t)end + 1);
        line--;
    }
    ptrdiff_t end = fl_span_find(text, '\n');
    return end < 0 ? text : fl_span_first(text, (size_t)end);
}

static bool indents_by_tab(struct fl_span line)
{
    size_t i = 0;
    while (i < line.len && line.ptr[i] == ' ') {
        i++;
    }
    return i < line.len && line.ptr[i] == '\t';
}

/* What libyaml found, in words that say what to do. */
static bool syntax_fault(struct building *b, const yaml_parser_t *p)
{
    int line = line_of(p->problem_mark);
    const char *problem = p->problem ? p->problem : "syntax error";
    if (p->error == YAML_MEMORY_ERROR) {
        return refuse(b, 0, "out of memory");
    }
    if (p->error == YAML_READER_ERROR) {
        fl_findings_add(b->f, FL_SEVERITY_ERROR, line_at(b->text, p->problem_offset),
                        "this is not UTF-8 text (%s); save the file as UTF-8", problem);
        return false;
    }
    if (indents_by_tab(line_text(b->text, line))) {
        return refuse(b, line, "a tab stands where YAML wants spaces; indent with spaces");
    }
    const char *remedy = "";
    if (strstr(problem, "mapping values are not allowed")) {
        remedy = "; check the indentation, and quote a value that contains \": \"";
    } else if (strstr(problem, "could not find expected ':'")) {
        remedy = "; a key needs \": \" and a value behind it";
    } else if (strstr(problem, "did not find expected key") ||
               strstr(problem, "did not find expected '-' indicator")) {
        remedy = "; check the indentation of this line and the one above";
    } else if (strstr(problem, "cannot start any token")) {
        remedy = "; quote the value";
    } else if (strstr(problem, "unexpected end of stream") || strstr(problem, "expected ',' or")) {
        remedy = "; a bracket or quote is left open";
    }
    fl_findings_add(b->f, FL_SEVERITY_ERROR, line, "this is not valid YAML: %s%s", problem, remedy);
    return false;
}

static struct fl_node *new_node(struct building *b, const yaml_event_t *e, enum fl_node_kind kind)
{
    struct fl_node *n = fl_arena_alloc(b->a, sizeof(*n));
    if (!n) {
        refuse(b, line_of(e->start_mark), "the document is too large");
        return NULL;
    }
    n->kind = kind;
    n->line = line_of(e->start_mark);
    n->column = e->start_mark.column < INT32_MAX ? (int)e->start_mark.column + 1 : INT32_MAX;
    n->key = n->text = FL_SPAN("");
    return n;
}

static bool attach(struct building *b, struct fl_node *n)
{
    if (b->depth == 0) {
        b->root = n;
        return true;
    }
    struct fl_node *parent = b->open[b->depth - 1], **last = &b->last[b->depth - 1];
    if (parent->kind == FL_NODE_MAP) {
        n->key = b->key;
        n->key_line = b->key_line;
        b->has_key = false;
    }
    *(*last ? &(*last)->next : &parent->first) = n;
    *last = n;
    return true;
}

static bool is_null(const yaml_event_t *e)
{
    struct fl_span s = {(const char *)e->data.scalar.value, e->data.scalar.length};
    return e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (s.len == 0 || fl_span_is(s, "~") || fl_span_is(s, "null") || fl_span_is(s, "Null") ||
            fl_span_is(s, "NULL"));
}

static bool on_scalar(struct building *b, const yaml_event_t *e)
{
    struct fl_span s = {(const char *)e->data.scalar.value, e->data.scalar.length};
    int line = line_of(e->start_mark);
    bool in_map = b->depth > 0 && b->open[b->depth - 1]->kind == FL_NODE_MAP;
    if (e->data.scalar.anchor || e->data.scalar.tag) {
        return refuse(b, line, "anchors and tags are not accepted; write the value itself");
    }
    if (s.len && memchr(s.ptr, '\0', s.len)) {
        return refuse(b, line, "a NUL character is not accepted");
    }
    char *copy = fl_arena_text(b->a, s);
    if (!copy) {
        return refuse(b, line, "the document is too large");
    }
    if (in_map && !b->has_key) {
        b->key = (struct fl_span){copy, s.len};
        b->key_line = line;
        b->has_key = true;
        return true;
    }
    struct fl_node *n = new_node(b, e, is_null(e) ? FL_NODE_NULL : FL_NODE_SCALAR);
    if (!n) {
        return false;
    }
    n->text = (struct fl_span){copy, s.len};
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return attach(b, n);
}

static bool on_open(struct building *b, const yaml_event_t *e, bool map)
{
    int line = line_of(e->start_mark);
    bool named = map ? e->data.mapping_start.anchor || e->data.mapping_start.tag
                     : e->data.sequence_start.anchor || e->data.sequence_start.tag;
    if (named) {
        return refuse(b, line, "anchors and tags are not accepted; write the value itself");
    }
    if (b->depth > 0 && b->open[b->depth - 1]->kind == FL_NODE_MAP && !b->has_key) {
        return refuse(
            b, line,
            "a key is one word, not a list or mapping; quote a value that begins with { or [");
    }
    if (b->depth == FL_YAML_DEPTH_MAX) {
        return refuse(b, line, "this is nested too deeply");
    }
    struct fl_node *n = new_node(b, e, map ? FL_NODE_MAP : FL_NODE_LIST);
    if (!n || !attach(b, n)) {
        return false;
    }
    b->open[b->depth] = n;
    b->last[b->depth] = NULL;
    b->depth++;
    return true;
}

static bool on_event(struct building *b, const yaml_event_t *e)
{
    switch ((int)e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return b->root ? refuse(b, line_of(e->start_mark),
                                "a second document starts here; only one is accepted")
                       : true;
    case YAML_ALIAS_EVENT:
        return refuse(b, line_of(e->start_mark),
                      "aliases are not accepted; write the value itself");
    case YAML_SCALAR_EVENT:
        return on_scalar(b, e);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(b, e, false);
    case YAML_MAPPING_START_EVENT:
        return on_open(b, e, true);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return true;
    case YAML_STREAM_END_EVENT:
        b->done = true;
        return true;
    default:
        return true;
    }
}

static bool is_text(struct building *b)
{
    const char *nul = b->text.len ? memchr(b->text.ptr, '\0', b->text.len) : NULL;
    if (nul) {
        return refuse(b, line_at(b->text, (size_t)(nul - b->text.ptr)),
                      "a NUL byte; this is not a text file in UTF-8");
    }
    if (b->text.len > FL_YAML_BYTES_MAX) {
        return refuse(b, 0, "the document is larger than 4 MiB");
    }
    return true;
}

struct fl_node *fl_yaml_parse(struct fl_span text, struct fl_arena *a, struct fl_findings *f)
{
    struct building b = {.text = text, .a = a, .f = f};
    yaml_parser_t parser;
    if (fl_span_starts(text, FL_SPAN("\xef\xbb\xbf"))) {
        b.text = text = fl_span_from(text, 3);
    }
    if (!is_text(&b)) {
        return NULL;
    }
    if (!yaml_parser_initialize(&parser)) {
        refuse(&b, 0, "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
    bool good = true;
    while (good && !b.done) {
        yaml_event_t e;
        if (!yaml_parser_parse(&parser, &e)) {
            good = syntax_fault(&b, &parser);
            break;
        }
        good = on_event(&b, &e);
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&parser);
    if (good && !b.root) {
        b.root = fl_arena_alloc(a, sizeof(*b.root));
        if (!b.root) {
            refuse(&b, 0, "out of memory");
        } else {
            b.root->kind = FL_NODE_NULL;
            b.root->line = 1;
            b.root->key = b.root->text = FL_SPAN("");
        }
    }
    return good ? b.root : NULL;
}
