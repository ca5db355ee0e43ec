/* Checks of a whole graph: stages and source counts, ranges, and in a program
 * the order. What one node demands is in validate_ops.c. */
#include "uops/validate.h"
#include "uops/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

bell_status
uop_bad(const struct uop *u, const char *fmt, ...)
{
    char node[160], what[120], name[24], type[16] = "";
    va_list args;
    size_t n;
    uint32_t i;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    uop_op_name(u->op, name);
    if (u->lanes != 1)
        snprintf(type, sizeof(type), "x%u", u->lanes);
    n = (size_t)snprintf(node, sizeof(node), "%%%u = %s.%s%s", u->id, name,
                         uop_dtype_infos[u->dtype].short_name, type);
    for (i = 0; i < u->n_src && i < 4; i++)
        n += (size_t)snprintf(node + n, sizeof(node) - n,
                              i ? ", %%%u" : " %%%u", u->src[i]->id);
    uop_expr_str(u, node + n + 2, sizeof(node) - n - 3);
    node[n] = ' ';
    node[n + 1] = '(';
    strcat(node, ")");
    return bell_fail(BELL_E_INTERNAL, "%s: %s", node, what);
}

/* State of one validation. Arrays are by place in `list`. */
struct check {
    const struct uop_graph *g;
    enum uop_stage stage;
    const struct uop **list;
    size_t n;
    uint32_t *place;    /* by id: place in list */
    uint64_t *free_set; /* ranges a node depends on, n_words each */
    size_t n_words;
    const struct uop **ranges;
    size_t n_ranges, cap_ranges;
    const struct uop **open; /* RANGEs and IFs around the present op */
    size_t n_open, cap_open;
    uint8_t *seen; /* the op was listed */
};

static bell_status
validate_no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "validating a graph: out of memory");
}

/* What the table of ops says of every node: the stage it may occur in and how
 * many sources it takes. Tensor graphs have shapes and no lanes, kernels the
 * reverse. */
static bell_status
check_basics(const struct check *c, const struct uop *u)
{
    const struct uop_op_info *info = &uop_op_infos[u->op];

    if (!(info->flags & (unsigned)c->stage))
        return uop_bad(u, "must not occur in stage %s",
                       c->stage == UOP_STAGE_T   ? "T"
                       : c->stage == UOP_STAGE_K ? "K"
                                                 : "P");
    if (u->n_src < info->min_src ||
        (info->max_src != 255 && u->n_src > info->max_src))
        return uop_bad(u, "takes %u to %u sources, not %u", info->min_src,
                       info->max_src, u->n_src);
    if (u->lanes == 0 || (c->stage == UOP_STAGE_T && u->lanes != 1))
        return uop_bad(u, "has %u lanes", u->lanes);
    if (c->stage == UOP_STAGE_T && u->op != UOP_CONST && u->op != UOP_SINK &&
        !uop_shape(c->g, u))
        return uop_bad(u, "has no shape");
    return BELL_OK;
}

/* A RANGE is known by its id: two nodes with one id would be two loops that a
 * renderer takes for one. */
static bell_status
find_open_ranges(struct check *c)
{
    size_t i, k;

    for (i = 0; i < c->n; i++) {
        const struct uop *u = c->list[i];
        if (u->op != UOP_RANGE)
            continue;
        for (k = 0; k < c->n_ranges; k++) {
            if (uop_range_id(c->ranges[k]) == uop_range_id(u))
                return uop_bad(u, "another RANGE, %%%u, has this id",
                               c->ranges[k]->id);
        }
        if (host_grow((void **)&c->ranges, &c->cap_ranges, c->n_ranges + 1,
                      sizeof(*c->ranges)) != 0)
            return validate_no_memory();
        c->ranges[c->n_ranges++] = u;
    }
    c->n_words = (c->n_ranges + 63) / 64;
    return BELL_OK;
}

/* Kernels have a dozen ranges: no map is faster. */
static size_t
range_number(const struct check *c, const struct uop *range)
{
    size_t i = 0;

    while (c->ranges[i] != range)
        i++;
    return i;
}

static uint64_t *
set_of(const struct check *c, const struct uop *u)
{
    return c->free_set + c->place[u->id] * c->n_words;
}

/* The ranges that u depends on and no REDUCE or SORT under it binds. */
static void
collect_free(const struct check *c, const struct uop *u)
{
    uint64_t *set = set_of(c, u);
    uint32_t i;
    size_t k, w;

    for (i = 0; i < u->n_src; i++) {
        const uint64_t *from = set_of(c, u->src[i]);
        for (w = 0; w < c->n_words; w++)
            set[w] |= from[w];
    }
    if (u->op == UOP_RANGE) {
        k = range_number(c, u);
        set[k / 64] |= (uint64_t)1 << (k % 64);
    }
    for (i = 1; u->op == UOP_REDUCE && i < u->n_src; i++) {
        if (u->src[i]->op != UOP_RANGE)
            continue;
        k = range_number(c, u->src[i]);
        set[k / 64] &= ~((uint64_t)1 << (k % 64));
    }
    if (u->op == UOP_SORT && u->src[1]->op == UOP_RANGE) {
        k = range_number(c, u->src[1]);
        set[k / 64] &= ~((uint64_t)1 << (k % 64));
    }
}

/* A reduction's loop must be bound by a REDUCE. */
static bell_status
check_bound(const struct check *c, const struct uop *store)
{
    const uint64_t *set = set_of(c, store);
    size_t k;

    for (k = 0; k < c->n_ranges; k++) {
        enum uop_axis axis = uop_range_axis(c->ranges[k]);
        if ((set[k / 64] >> (k % 64) & 1) &&
            (axis == UOP_AXIS_REDUCE || axis == UOP_AXIS_UNROLL ||
             axis == UOP_AXIS_GROUP))
            return uop_bad(store, "RANGE %u of a reduction is not bound",
                           uop_range_id(c->ranges[k]));
    }
    return BELL_OK;
}

static bell_status
check_kernel_ranges(struct check *c)
{
    size_t i;

    BELL_TRY(find_open_ranges(c));
    if (c->n_ranges == 0)
        return BELL_OK;
    c->free_set = host_calloc(c->n * c->n_words, sizeof(*c->free_set));
    if (!c->free_set)
        return validate_no_memory();
    for (i = 0; i < c->n; i++) {
        collect_free(c, c->list[i]);
        if (c->list[i]->op == UOP_STORE)
            BELL_TRY(check_bound(c, c->list[i]));
    }
    return BELL_OK;
}

/* One op of a program, in order. */
static bell_status
check_listed(struct check *c, const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (!c->seen[c->place[u->src[i]->id]])
            return uop_bad(u, "comes before its source %u", i);
    }
    if (c->seen[c->place[u->id]])
        return uop_bad(u, "is listed twice");
    c->seen[c->place[u->id]] = 1;
    if (u->op == UOP_RANGE || u->op == UOP_IF) {
        if (host_grow((void **)&c->open, &c->cap_open, c->n_open + 1,
                      sizeof(*c->open)) != 0)
            return validate_no_memory();
        c->open[c->n_open++] = u;
    } else if (u->op == UOP_END || u->op == UOP_ENDIF) {
        if (c->n_open == 0 || c->open[c->n_open - 1] != u->src[0])
            return uop_bad(u, "closes a loop that is not the innermost");
        c->n_open--;
    }
    return BELL_OK;
}

/* Several roots of stage P are the whole program, in order. */
static bell_status
check_order(struct check *c, const struct uop *const *roots, size_t n_roots)
{
    size_t i;

    c->seen = host_calloc(c->n, 1);
    if (!c->seen)
        return validate_no_memory();
    for (i = 0; i < n_roots; i++)
        BELL_TRY(check_listed(c, roots[i]));
    if (c->n_open)
        return uop_bad(c->open[c->n_open - 1], "is not closed");
    return BELL_OK;
}

static bell_status
check_all(struct check *c, const struct uop *const *roots, size_t n_roots)
{
    size_t i;

    c->place = host_alloc((c->n ? c->list[c->n - 1]->id + 1u : 1u) *
                          sizeof(*c->place));
    if (!c->place)
        return validate_no_memory();
    for (i = 0; i < c->n; i++) {
        c->place[c->list[i]->id] = (uint32_t)i;
        BELL_TRY(check_basics(c, c->list[i]));
        BELL_TRY(uop_check_node(c->g, c->list[i], c->stage));
    }
    if (c->stage == UOP_STAGE_K)
        return check_kernel_ranges(c);
    if (c->stage == UOP_STAGE_P && n_roots > 1)
        return check_order(c, roots, n_roots);
    return BELL_OK;
}

bell_status
uop_validate(const struct uop_graph *g, const struct uop *const *roots,
             size_t n_roots, enum uop_stage stage)
{
    struct check c = {.g = g, .stage = stage};
    bell_status status;

    BELL_TRY(uop_toposort(g, roots, n_roots, &c.list, &c.n));
    status = check_all(&c, roots, n_roots);
    host_free(c.list);
    host_free(c.place);
    host_free(c.free_set);
    host_free(c.ranges);
    host_free(c.open);
    host_free(c.seen);
    if (status != BELL_OK)
        bell_error_frame(__func__);
    return status;
}

bell_status
uop_validate_pass(const struct uop_graph *g, const struct uop *const *roots,
                  size_t n_roots, enum uop_stage stage, const char *pass)
{
    bell_status status;

    BELL_TRY(uop_graph_status(g));
#ifdef NDEBUG
    (void)roots, (void)n_roots, (void)stage, (void)pass;
    status = BELL_OK;
#else
    status = uop_validate(g, roots, n_roots, stage);
    if (status != BELL_OK)
        bell_error_prefix("after %s", pass);
#endif
    return status;
}
