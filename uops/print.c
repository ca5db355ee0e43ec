/* The text form: one node a line, sources before users.
 *
 *   %3 = add.f32x4 %1, %2
 *   %4 = const.i64 5            %5 = const.f32 0.5
 *   %6 = range.i64 #0:loop %4   (id and axis)
 *   %7 = reduce.f32 #add %3, %6
 *   %8 = reshape.f32 [2, 3] %7 : [2, 3]   (arg, and the shape)
 *   %9 = local.f32 #id:n_elems
 *   roots %7
 *
 * Blank lines and text from ';' to the end of a line say nothing.
 */
#include "uops/text.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "uops/dim.h"

const char *const uop_axis_names[UOP_AXIS_COUNT] = {
    [UOP_AXIS_LOOP] = "loop",     [UOP_AXIS_GLOBAL] = "global",
    [UOP_AXIS_LOCAL] = "local",   [UOP_AXIS_REDUCE] = "reduce",
    [UOP_AXIS_GROUP] = "group",   [UOP_AXIS_UPCAST] = "upcast",
    [UOP_AXIS_UNROLL] = "unroll", [UOP_AXIS_VECTOR] = "vector",
};

void
uop_op_name(enum uop_op op, char *out)
{
    const char *name = uop_op_infos[op].name;

    while (*name)
        *out++ = (char)tolower((unsigned char)*name++);
    *out = '\0';
}

enum uop_int_arg
uop_int_arg_of(enum uop_op op)
{
    switch ((unsigned)op) {
    case UOP_RANGE:
        return UOP_INT_RANGE;
    case UOP_REDUCE:
    case UOP_LANES_REDUCE:
        return UOP_INT_OP;
    case UOP_REDUCE_AXIS:
        return UOP_INT_OP_MASK;
    default:
        return UOP_INT_PLAIN;
    }
}

static void
add_dims(struct text *t, const struct uop_graph *g, const struct uop_dims *dims)
{
    char size[128];
    uint32_t i;

    assert(dims);
    text_add(t, "[");
    for (i = 0; i < dims->n; i++) {
        if (g && g->sizes && dim_is_expr(dims->d[i]))
            dim_print(g->sizes, dims->d[i], size, sizeof(size));
        else
            snprintf(size, sizeof(size), "%lld", (long long)dims->d[i]);
        text_add(t, i ? ", %s" : "%s", size);
    }
    text_add(t, "]");
}

static void
add_op_arg(struct text *t, int64_t op)
{
    char name[24];

    if (op < 0 || op >= UOP_OP_COUNT) {
        text_add(t, " #%lld", (long long)op);
        return;
    }
    uop_op_name(op, name);
    text_add(t, " #%s", name);
}

static void
add_int_arg(struct text *t, const struct uop *u)
{
    enum uop_int_arg kind = uop_int_arg_of(u->op);

    if (kind == UOP_INT_OP) {
        add_op_arg(t, u->arg.i);
    } else if (kind == UOP_INT_RANGE && uop_range_axis(u) < UOP_AXIS_COUNT &&
               u->arg.i == uop_range_arg(uop_range_id(u), uop_range_axis(u))) {
        text_add(t, " #%u:%s", uop_range_id(u),
                 uop_axis_names[uop_range_axis(u)]);
    } else if (kind == UOP_INT_OP_MASK && uop_reduce_op(u) < UOP_OP_COUNT &&
               u->arg.i ==
                   uop_reduce_arg(uop_reduce_op(u), uop_reduce_axes(u))) {
        add_op_arg(t, (int64_t)uop_reduce_op(u));
        text_add(t, ":%u", uop_reduce_axes(u));
    } else if (u->arg.i || (u->op != UOP_SINK && u->op != UOP_BARRIER)) {
        text_add(t, " #%lld", (long long)u->arg.i);
    }
}

/* The shortest decimal that reads back as the same value. */
static void
print_float(struct text *t, const struct uop *u)
{
    char text[40];
    int digits;

    assert(u->op == UOP_CONST && uop_is_float(u));
    for (digits = 6; digits <= 17; digits++) {
        double back;
        snprintf(text, sizeof(text), "%.*g", digits, u->arg.f);
        back = uop_round_float(u->dtype, strtod(text, NULL));
        if (back == u->arg.f)
            break;
    }
    text_add(t, " %s", isnan(u->arg.f) ? "nan" : text);
}

static void
add_arg(struct text *t, const struct uop_graph *g, const struct uop *u)
{
    switch ((enum uop_argkind)uop_op_infos[u->op].arg_kind) {
    case UOP_ARG_NONE:
        break;
    case UOP_ARG_INT:
        add_int_arg(t, u);
        break;
    case UOP_ARG_CONST:
        if (uop_is_float(u))
            print_float(t, u);
        else if (u->dtype == UOP_U64)
            text_add(t, " %llu", (unsigned long long)u->arg.i);
        else
            text_add(t, " %lld", (long long)u->arg.i);
        break;
    case UOP_ARG_DIMS:
        text_add(t, " ");
        add_dims(t, g, u->arg.dims);
        break;
    case UOP_ARG_DATA:
        if (u->op == UOP_LOCAL && u->arg.data) {
            const struct uop_local *local = u->arg.data;
            text_add(t, " #%u:%u", local->id, local->n_elems);
        } else {
            text_add(t, " #%lld", (long long)u->arg.i);
        }
        break;
    }
}

void
uop_text_head(struct text *t, const struct uop_graph *g, const struct uop *u)
{
    char name[24];

    uop_op_name(u->op, name);
    text_add(t, "%s.%s", name, uop_dtype_infos[u->dtype].short_name);
    if (u->lanes != 1)
        text_add(t, "x%u", u->lanes);
    add_arg(t, g, u);
}

static void
print_node(struct text *t, const struct uop_graph *g, const struct uop *u,
           size_t number, const struct map *numbers)
{
    const struct uop_dims *shape = uop_shape(g, u);
    uint32_t i;

    text_add(t, "%%%zu = ", number);
    uop_text_head(t, g, u);
    for (i = 0; i < u->n_src; i++)
        text_add(t, i ? ", %%%llu" : " %%%llu",
                 (unsigned long long)*map_get(numbers, u->src[i]->id));
    if (shape) {
        text_add(t, " : ");
        add_dims(t, g, shape);
    }
    text_add(t, "\n");
}

bell_status
uop_print(const struct uop_graph *g, const struct uop *const *roots,
          size_t n_roots, char **out_text)
{
    const struct uop **list;
    struct text t = {NULL, 0, 0, false};
    struct map numbers;
    size_t n, i;

    BELL_TRY(uop_toposort(g, roots, n_roots, &list, &n));
    map_init(&numbers);
    for (i = 0; i < n && !t.failed; i++) {
        if (map_put(&numbers, list[i]->id, i) != 0)
            t.failed = true;
        else
            print_node(&t, g, list[i], i, &numbers);
    }
    text_add(&t, "roots");
    for (i = 0; i < n_roots && !t.failed; i++)
        text_add(&t, i ? ", %%%llu" : " %%%llu",
                 (unsigned long long)*map_get(&numbers, roots[i]->id));
    text_add(&t, "\n");
    map_fini(&numbers);
    host_free(list);
    return text_finish(&t, out_text);
}
