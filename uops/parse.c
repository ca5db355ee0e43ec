/* Reads the text form (see print.c). The text may come from anywhere: every
 * mistake is an error that says line, column and what was expected. */
#include "uops/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

#define MAX_NUMBER 0xffffffffu /* of a node in the text */

struct parser {
    struct uop_graph *g;
    const char *at, *line_start;
    unsigned line;
    struct map nodes;       /* number in the text -> struct uop * */
    struct map locals;      /* id and size -> struct uop_local * */
    bool have_locals;       /* those of the graph are in the map */
    const struct uop **src; /* sources or roots being read; owned */
    size_t n_src, cap_src;
    int64_t *dims; /* owned */
    size_t n_dims, cap_dims;
    const struct uop **roots; /* owned */
    size_t n_roots;
    bool done; /* the roots were read */
};

/* One node being read. */
struct node {
    enum uop_op op;
    enum uop_dtype dtype;
    uint16_t lanes;
    union uop_arg arg;
    const struct uop_dims *shape;
};

#define FAIL(p, ...) fail_here(p, bell_fail(BELL_E_INVALID, __VA_ARGS__))

/* With the line: texts come from users (doorbell kernel --ir). */
static bell_status
fail_here(const struct parser *p, bell_status status)
{
    bell_error_prefix("line %u, column %u", p->line,
                      (unsigned)(p->at - p->line_start) + 1);
    return status;
}

static bell_status
parse_no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "parsing a graph: out of memory");
}

static void
skip_blanks(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
        p->at++;
    if (*p->at == ';') {
        while (*p->at && *p->at != '\n')
            p->at++;
    }
}

static bool
accept(struct parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static bell_status
expect(struct parser *p, char c)
{
    if (accept(p, c))
        return BELL_OK;
    return FAIL(p, "'%c' expected", c);
}

/* A word of letters, digits and '_' into `out` of `size_bytes`. */
static bell_status
read_word(struct parser *p, char *out, size_t size_bytes)
{
    size_t n = 0;

    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
        n++;
    if (n == 0)
        return FAIL(p, "a name expected");
    if (n >= size_bytes)
        return FAIL(p, "a name of %zu letters is too long", n);
    memcpy(out, p->at, n);
    out[n] = '\0';
    p->at += n;
    return BELL_OK;
}

static bell_status
read_int(struct parser *p, int64_t *out)
{
    char *end;

    skip_blanks(p);
    if (!isdigit((unsigned char)*p->at) && *p->at != '-')
        return FAIL(p, "an integer expected");
    errno = 0;
    *out = strtoll(p->at, &end, 10);
    if (end == p->at)
        return FAIL(p, "an integer expected");
    if (errno == ERANGE)
        return FAIL(p, "the integer does not fit in 64 bits");
    p->at = end;
    return BELL_OK;
}

/* An integer in lo..hi. */
static bell_status
read_int_in(struct parser *p, int64_t lo, int64_t hi, int64_t *out)
{
    const char *start;
    int64_t value = 0;

    skip_blanks(p);
    start = p->at;
    BELL_TRY(read_int(p, &value));
    if (value < lo || value > hi) {
        p->at = start;
        return FAIL(p, "%lld is outside of %lld..%lld", (long long)value,
                    (long long)lo, (long long)hi);
    }
    *out = value;
    return BELL_OK;
}

/* Follows a name into the list of ops; the ops' names are in upper case. */
static int
find_op(const char *name)
{
    char have[24];
    int op;

    for (op = 0; op < UOP_OP_COUNT; op++) {
        uop_op_name(op, have);
        if (strcmp(have, name) == 0)
            return op;
    }
    return -1;
}

/* i32x4: the lanes stand with the dtype, as they are printed. Errors point to
 * the word, not behind it. */
static bell_status
read_dtype(struct parser *p, struct node *node)
{
    const char *start = p->at;
    char word[24], *x;
    int64_t lanes = 1;
    int d;

    BELL_TRY(read_word(p, word, sizeof(word)));
    x = strchr(word, 'x');
    if (x) {
        *x = '\0';
        p->at = start + (x + 1 - word);
        BELL_TRY(read_int_in(p, 1, UINT16_MAX, &lanes));
    }
    node->lanes = (uint16_t)lanes;
    for (d = 0; d < UOP_DTYPE_COUNT; d++) {
        if (strcmp(uop_dtype_infos[d].short_name, word) == 0) {
            node->dtype = d;
            return BELL_OK;
        }
    }
    p->at = start;
    return FAIL(p, "no dtype '%s'", word);
}

static bell_status
read_dims(struct parser *p, const struct uop_dims **out)
{
    BELL_TRY(expect(p, '['));
    p->n_dims = 0;
    if (!accept(p, ']')) {
        do {
            if (host_grow((void **)&p->dims, &p->cap_dims, p->n_dims + 1,
                          sizeof(*p->dims)) != 0)
                return parse_no_memory();
            BELL_TRY(read_int(p, &p->dims[p->n_dims]));
            p->n_dims++;
        } while (accept(p, ','));
        BELL_TRY(expect(p, ']'));
    }
    if (p->n_dims > UINT16_MAX)
        return FAIL(p, "a list of %zu integers is too long", p->n_dims);
    *out = uop_dims(p->g, p->dims, (uint32_t)p->n_dims);
    return *out ? BELL_OK : parse_no_memory();
}

/* A float is rounded as the graph would hold it, and every NaN is the one:
 * what is printed and read again is the same node. */
static bell_status
read_const(struct parser *p, struct node *node)
{
    struct uop_bounds b = uop_dtype_bounds(node->dtype);
    char *end;

    skip_blanks(p);
    if (uop_dtype_infos[node->dtype].is_float) {
        double value = strtod(p->at, &end);
        if (end == p->at || isspace((unsigned char)*p->at))
            return FAIL(p, "a number expected");
        p->at = end;
        node->arg.f =
            isnan(value) ? (double)NAN : uop_round_float(node->dtype, value);
        return BELL_OK;
    }
    if (node->dtype != UOP_U64)
        return read_int_in(p, b.min, b.max, &node->arg.i);
    if (!isdigit((unsigned char)*p->at))
        return FAIL(p, "an integer expected");
    errno = 0;
    node->arg.i = (int64_t)strtoull(p->at, &end, 10);
    if (errno == ERANGE)
        return FAIL(p, "the integer does not fit in 64 bits");
    p->at = end;
    return BELL_OK;
}

/* Which op a reduction does is written by its name; a number stands for what
 * has none. */
static bell_status
read_op_arg(struct parser *p, int64_t *out)
{
    const char *start = p->at;
    char word[24];
    int op;

    if (isdigit((unsigned char)*p->at) || *p->at == '-')
        return read_int(p, out);
    BELL_TRY(read_word(p, word, sizeof(word)));
    op = find_op(word);
    if (op < 0) {
        p->at = start;
        return FAIL(p, "no op '%s'", word);
    }
    *out = op;
    return BELL_OK;
}

static bell_status
read_axis(struct parser *p, int64_t id, int64_t *out)
{
    const char *start = p->at;
    char word[24];
    int axis;

    if (id < 0 || id > UINT32_MAX)
        return FAIL(p, "range id %lld is outside of 0..4294967295",
                    (long long)id);
    BELL_TRY(read_word(p, word, sizeof(word)));
    for (axis = 0; axis < UOP_AXIS_COUNT; axis++) {
        if (strcmp(uop_axis_names[axis], word) == 0) {
            *out = uop_range_arg((uint32_t)id, (enum uop_axis)axis);
            return BELL_OK;
        }
    }
    p->at = start;
    return FAIL(p, "no axis type '%s'", word);
}

static bell_status
read_int_arg(struct parser *p, struct node *node)
{
    enum uop_int_arg kind = uop_int_arg_of(node->op);
    int64_t value = 0, mask = 0;

    node->arg.i = 0;
    if ((node->op == UOP_SINK || node->op == UOP_BARRIER) &&
        !(skip_blanks(p), *p->at == '#'))
        return BELL_OK;
    BELL_TRY(expect(p, '#'));
    if (kind == UOP_INT_OP || kind == UOP_INT_OP_MASK)
        BELL_TRY(read_op_arg(p, &value));
    else
        BELL_TRY(read_int(p, &value));
    if (kind == UOP_INT_RANGE && *p->at == ':') {
        p->at++;
        BELL_TRY(read_axis(p, value, &value));
    } else if (kind == UOP_INT_OP_MASK && *p->at == ':') {
        p->at++;
        BELL_TRY(read_int_in(p, 0, UINT32_MAX, &mask));
        value = uop_reduce_arg((value & 0xff), (uint32_t)mask);
    }
    node->arg.i = value;
    return BELL_OK;
}

static uint64_t
local_key(const struct uop_local *local)
{
    return (uint64_t)local->id << 32 | local->n_elems;
}

/* Fills p->locals with what the graph has. */
static bell_status
collect_locals(struct parser *p)
{
    size_t i;

    if (p->have_locals)
        return BELL_OK;
    for (i = 0; i < p->g->n_nodes; i++) {
        const struct uop *u = p->g->nodes[i];
        const struct uop_local *local = u->arg.data;
        if (u->op == UOP_LOCAL && local &&
            map_put(&p->locals, local_key(local), (uintptr_t)local) != 0)
            return parse_no_memory();
    }
    p->have_locals = true;
    return BELL_OK;
}

/* Two lines that name one memory must get one payload, because nodes are the
 * same only if their payload's address is. */
static bell_status
read_local(struct parser *p, struct node *node)
{
    int64_t id = 0, n_elems = 0;
    struct uop_local local, *copy;
    uint64_t *have;

    BELL_TRY(expect(p, '#'));
    BELL_TRY(read_int_in(p, 0, UINT32_MAX, &id));
    BELL_TRY(expect(p, ':'));
    BELL_TRY(read_int_in(p, 0, UINT32_MAX, &n_elems));
    BELL_TRY(collect_locals(p));
    local.id = (uint32_t)id;
    local.n_elems = (uint32_t)n_elems;
    have = map_get(&p->locals, local_key(&local));
    if (have) {
        node->arg.data = (const void *)(uintptr_t)*have;
        return BELL_OK;
    }
    copy = arena_copy(&p->g->arena, &local, sizeof(local));
    if (!copy || map_put(&p->locals, local_key(copy), (uintptr_t)copy) != 0)
        return parse_no_memory();
    node->arg.data = copy;
    return BELL_OK;
}

static bell_status
read_arg(struct parser *p, struct node *node)
{
    switch ((enum uop_argkind)uop_op_infos[node->op].arg_kind) {
    case UOP_ARG_NONE:
        return BELL_OK;
    case UOP_ARG_INT:
        return read_int_arg(p, node);
    case UOP_ARG_CONST:
        return read_const(p, node);
    case UOP_ARG_DIMS:
        return read_dims(p, &node->arg.dims);
    case UOP_ARG_DATA:
        break;
    }
    if (node->op == UOP_LOCAL)
        return read_local(p, node);
    BELL_TRY(expect(p, '#'));
    return read_int(p, &node->arg.i);
}

/* "%7", a node read before. */
static bell_status
read_ref(struct parser *p, const struct uop **out)
{
    int64_t number = 0;
    uint64_t *node;
    const char *start;

    skip_blanks(p);
    start = p->at;
    BELL_TRY(expect(p, '%'));
    BELL_TRY(read_int_in(p, 0, MAX_NUMBER, &number));
    node = map_get(&p->nodes, (uint64_t)number);
    if (!node) {
        p->at = start;
        return FAIL(p, "%%%lld is not defined above", (long long)number);
    }
    *out = (const struct uop *)(uintptr_t)*node;
    return BELL_OK;
}

/* References separated by commas into p->src, possibly none. */
static bell_status
read_refs(struct parser *p)
{
    p->n_src = 0;
    skip_blanks(p);
    if (*p->at != '%')
        return BELL_OK;
    do {
        if (host_grow((void **)&p->src, &p->cap_src, p->n_src + 1,
                      sizeof(*p->src)) != 0)
            return parse_no_memory();
        BELL_TRY(read_ref(p, &p->src[p->n_src]));
        p->n_src++;
    } while (accept(p, ','));
    return BELL_OK;
}

static bell_status
read_op(struct parser *p, struct node *node)
{
    const char *start;
    char word[24];
    int op;

    skip_blanks(p);
    start = p->at;
    BELL_TRY(read_word(p, word, sizeof(word)));
    op = find_op(word);
    if (op < 0) {
        p->at = start;
        return FAIL(p, "no op '%s'", word);
    }
    node->op = op;
    if (*p->at != '.')
        return FAIL(p, "'.' and a dtype expected");
    p->at++;
    return read_dtype(p, node);
}

/* Before the node is made: uop_new takes for granted what the table of ops
 * says. */
static bell_status
check_src_count(struct parser *p, const struct node *node)
{
    const struct uop_op_info *info = &uop_op_infos[node->op];

    if (p->n_src < info->min_src ||
        (info->max_src != 255 && p->n_src > info->max_src))
        return FAIL(p, "%s takes %u to %u sources, not %zu", info->name,
                    info->min_src, info->max_src, p->n_src);
    if (p->n_src > UINT16_MAX)
        return FAIL(p, "%zu sources are too many", p->n_src);
    return BELL_OK;
}

/* %N = op.dtype arg sources [: shape] */
static bell_status
read_node(struct parser *p)
{
    struct node node = {.arg = {.bits = 0}};
    const struct uop *u;
    int64_t number = 0;

    p->at++;
    BELL_TRY(read_int_in(p, 0, MAX_NUMBER, &number));
    if (map_get(&p->nodes, (uint64_t)number))
        return FAIL(p, "%%%lld is defined twice", (long long)number);
    BELL_TRY(expect(p, '='));
    BELL_TRY(read_op(p, &node));
    BELL_TRY(read_arg(p, &node));
    BELL_TRY(read_refs(p));
    BELL_TRY(check_src_count(p, &node));
    if (accept(p, ':'))
        BELL_TRY(read_dims(p, &node.shape));
    if (node.shape && node.lanes != 1)
        return FAIL(p, "a node with a shape has one lane");
    u = node.shape ? uop_new_shaped(p->g, node.op, node.dtype, node.arg, p->src,
                                    (uint32_t)p->n_src, node.shape)
                   : uop_new(p->g, node.op, node.dtype, node.lanes, node.arg,
                             p->src, (uint32_t)p->n_src);
    BELL_TRY(uop_graph_status(p->g));
    if (uop_shape(p->g, u) != node.shape)
        return FAIL(p, "the same node exists with another shape");
    if (map_put(&p->nodes, (uint64_t)number, (uintptr_t)u) != 0)
        return parse_no_memory();
    return BELL_OK;
}

static bell_status
read_roots(struct parser *p)
{
    char word[24];

    BELL_TRY(read_word(p, word, sizeof(word)));
    if (strcmp(word, "roots") != 0) {
        p->at -= strlen(word);
        return FAIL(p, "'%%' or 'roots' expected");
    }
    BELL_TRY(read_refs(p));
    p->roots = p->src;
    p->n_roots = p->n_src;
    p->src = NULL;
    p->n_src = p->cap_src = 0;
    p->done = true;
    return BELL_OK;
}

static bell_status
read_line(struct parser *p)
{
    skip_blanks(p);
    if (*p->at && *p->at != '\n') {
        if (p->done)
            return FAIL(p, "text after the roots");
        if (*p->at == '%')
            BELL_TRY(read_node(p));
        else
            BELL_TRY(read_roots(p));
        skip_blanks(p);
    }
    if (*p->at && *p->at != '\n')
        return FAIL(p, "end of line expected");
    if (*p->at == '\n') {
        p->at++;
        p->line++;
        p->line_start = p->at;
    }
    return BELL_OK;
}

bell_status
uop_parse(struct uop_graph *g, const char *text, const struct uop ***out_roots,
          size_t *out_n_roots)
{
    struct parser p = {.g = g, .at = text, .line_start = text, .line = 1};
    bell_status status = uop_graph_status(g);

    map_init(&p.nodes);
    map_init(&p.locals);
    while (status == BELL_OK && *p.at)
        status = read_line(&p);
    if (status == BELL_OK && !p.done)
        status = FAIL(&p, "'roots' expected");
    if (status == BELL_OK && !p.roots) {
        p.roots = host_alloc(sizeof(*p.roots));
        status = p.roots ? BELL_OK : parse_no_memory();
    }
    map_fini(&p.nodes);
    map_fini(&p.locals);
    host_free(p.src);
    host_free(p.dims);
    if (status != BELL_OK) {
        host_free(p.roots);
        return status;
    }
    *out_roots = p.roots;
    *out_n_roots = p.n_roots;
    return BELL_OK;
}
