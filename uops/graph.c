/* The graph: arena, interning, ids and side arrays.
 *
 * hash_node and same_node belong together: what one looks at, the other must.
 */
#include "uops/uop.h"
#include "uops/uops_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"

#define FIRST_NODES 64 /* that a graph has room for once it has one */

#pragma GCC diagnostic push /* flexible arrays with initialisers */
#pragma GCC diagnostic ignored "-Wpedantic"
#define FOUR(x)    x, x, x, x
#define SIXTEEN(x) FOUR(x), FOUR(x), FOUR(x), FOUR(x)
static const struct uop_dims failed_dims = {.d = {SIXTEEN(1), SIXTEEN(1)}};
const struct uop uop_failed = {
    .op = UOP_CONST,
    .dtype = UOP_VOID,
    .lanes = 1,
    .arg = {.dims = &failed_dims},
    .src = {SIXTEEN(&uop_failed), SIXTEEN(&uop_failed), SIXTEEN(&uop_failed),
            SIXTEEN(&uop_failed)},
};
#undef FOUR
#undef SIXTEEN
#pragma GCC diagnostic pop

const struct uop_op_info uop_op_infos[UOP_OP_COUNT] = {
#define T   UOP_FLAG_T
#define K   UOP_FLAG_K
#define P   UOP_FLAG_P
#define ALU UOP_FLAG_ALU
/* clang-format off */
#define COMM   UOP_FLAG_COMM
#define CMP    UOP_FLAG_CMP
#define INT    UOP_FLAG_INT
#define FLT    UOP_FLAG_FLT
#define EFFECT UOP_FLAG_EFFECT
#define MOVE   UOP_FLAG_MOVE
#define UOP(name, min, max, flags, arg, doc) \
    [UOP_##name] = {#name, doc, min, max, UOP_ARG_##arg, flags},
#include "uops/ops.def"
#undef UOP
#undef T
#undef K
#undef P
#undef ALU
#undef COMM
#undef CMP
#undef INT
#undef FLT
#undef EFFECT
#undef MOVE
    /* clang-format on */
};

/* clang-format off */
const struct uop_dtype_info uop_dtype_infos[UOP_DTYPE_COUNT] = {
#define INT(name, short_name, bytes, is_signed)                               \
    {name, short_name, bytes, false, is_signed, true, 0, 0, false, false, 0}
#define FLOAT(name, short_name, bytes, ...)                                   \
    {name, short_name, bytes, true, true, false, __VA_ARGS__}
    [UOP_VOID] = {.name = "void", .short_name = "void"},
    [UOP_BOOL] = {.name = "bool", .short_name = "bool", .size_bytes = 1},
    [UOP_I8]   = INT("int8",     "i8",   1, true),
    [UOP_U8]   = INT("uint8",    "u8",   1, false),
    [UOP_I16]  = INT("int16",    "i16",  2, true),
    [UOP_U16]  = INT("uint16",   "u16",  2, false),
    [UOP_I32]  = INT("int32",    "i32",  4, true),
    [UOP_U32]  = INT("uint32",   "u32",  4, false),
    [UOP_I64]  = INT("int64",    "i64",  8, true),
    [UOP_U64]  = INT("uint64",   "u64",  8, false),
    [UOP_F16]  = FLOAT("float16",  "f16",  2, 10, -14, true, true, 65504),
    [UOP_BF16] = FLOAT("bfloat16", "bf16", 2, 7, -126, true, true, 0x1.fep127),
    [UOP_F32]  = FLOAT("float32",  "f32",  4, 23, -126, true, true,
                       0x1.fffffep127),
    [UOP_F64]  = FLOAT("float64",  "f64",  8, 52, -1022, true, true,
                       0x1.fffffffffffffp1023),
    [UOP_F8E4M3]  = FLOAT("float8_e4m3fn", "f8e4m3", 1, 3, -6, false, true,
                          448),
    [UOP_F8E5M2]  = FLOAT("float8_e5m2", "f8e5m2", 1, 2, -14, true, true,
                          57344),
    [UOP_F8E4M3Z] = FLOAT("float8_e4m3fnuz", "f8e4m3z", 1, 3, -7, false,
                          false, 240),
    [UOP_F8E5M2Z] = FLOAT("float8_e5m2fnuz", "f8e5m2z", 1, 2, -15, false,
                          false, 57344),
#undef INT
#undef FLOAT
};
/* clang-format on */

void
uop_graph_init(struct uop_graph *g)
{
    memset(g, 0, sizeof(*g));
    arena_init(&g->arena);
}

void
uop_graph_fini(struct uop_graph *g)
{
    arena_fini(&g->arena);
    host_free(g->table);
    host_free(g->dims_table);
    host_free(g->nodes);
    host_free(g->shapes);
    host_free(g->bounds);
    host_free(g->marks);
    memset(g, 0, sizeof(*g));
}

bell_status
uop_graph_status(const struct uop_graph *g)
{
    if (g->failed)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory in a graph of %zu "
                         "nodes",
                         g->n_nodes);
    return BELL_OK;
}

/* Sources count by their ids: pointers differ from run to run, and with them
 * the order of everything that goes by hash. */
static uint32_t
hash_node(enum uop_op op, enum uop_dtype dtype, uint16_t lanes,
          union uop_arg arg, const struct uop *const *src, uint32_t n_src)
{
    uint64_t h = (uint64_t)op | (uint64_t)dtype << 8 | (uint64_t)lanes << 16 |
                 (uint64_t)n_src << 32;
    uint32_t i;

    h = (h ^ arg.bits) * 0x9e3779b97f4a7c15ull;
    for (i = 0; i < n_src; i++) {
        h = (h << 23 | h >> 41) ^ src[i]->id;
        h *= 0xbf58476d1ce4e5b9ull;
    }
    h ^= h >> 32;
    h *= 0x94d049bb133111ebull;
    return (uint32_t)(h >> 32);
}

/* Most nodes have one to three: a call to compare them costs more. */
static bool
same_sources(const struct uop *u, const struct uop *const *src)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (u->src[i] != src[i])
            return false;
    }
    return true;
}

static bool
same_node(const struct uop *u, enum uop_op op, enum uop_dtype dtype,
          uint16_t lanes, union uop_arg arg, const struct uop *const *src,
          uint32_t n_src)
{
    return u->op == op && u->dtype == dtype && u->lanes == lanes &&
           u->arg.bits == arg.bits && u->n_src == n_src && same_sources(u, src);
}

/* Open addressing, at most half full. Nodes keep their hash, so nothing is
 * computed again. */
static bool
grow_table(struct uop_graph *g)
{
    size_t n_new = g->n_table ? g->n_table * 2 : 256, i;
    const struct uop **table = host_calloc(n_new, sizeof(*table));

    assert(is_pow2(n_new));
    if (!table)
        return false;
    for (i = 0; i < g->n_table; i++) {
        const struct uop *u = g->table[i];
        size_t at;
        if (!u)
            continue;
        at = u->hash & (n_new - 1);
        while (table[at])
            at = (at + 1) & (n_new - 1);
        table[at] = u;
    }
    host_free(g->table);
    g->table = table;
    g->n_table = n_new;
    return true;
}

/* Out of memory is sticky: what is built from now on is uop_failed, and who
 * asks for the graph's status is told. So building needs no checks. */
static const struct uop *
fail_graph(struct uop_graph *g)
{
    g->failed = true;
    return &uop_failed;
}

/* Arrays by id grow before the node exists: a node in the table has its
 * shape and its bounds. */
static bool
grow_side_arrays(struct uop_graph *g)
{
    size_t need = g->n_nodes ? g->n_nodes + 1 : FIRST_NODES;

    return host_grow((void **)&g->nodes, &g->cap_nodes, need,
                     sizeof(*g->nodes)) == 0 &&
           host_grow((void **)&g->shapes, &g->cap_shapes, need,
                     sizeof(*g->shapes)) == 0;
}

static bool
grow_marks(struct uop_graph *g)
{
    return host_grow((void **)&g->marks, &g->cap_marks,
                     g->n_nodes ? g->n_nodes + 1 : FIRST_NODES,
                     sizeof(*g->marks)) == 0;
}

/* Only where there are some: a great graph of tensors has floats alone. */
static bool
note_bounds(struct uop_graph *g, const struct uop *u)
{
    struct uop_bounds b = uop_compute_bounds(g, u);

    if (b.min == INT64_MIN && b.max == INT64_MAX && u->id >= g->n_bounds)
        return true;
    if (u->id >= g->cap_bounds &&
        host_grow((void **)&g->bounds, &g->cap_bounds,
                  u->id < FIRST_NODES ? FIRST_NODES : (size_t)u->id + 1,
                  sizeof(*g->bounds)) != 0)
        return false;
    while (g->n_bounds < u->id)
        g->bounds[g->n_bounds++] = UOP_ANY_BOUNDS;
    g->bounds[u->id] = b;
    if (g->n_bounds == u->id)
        g->n_bounds++;
    return true;
}

const struct uop *
uop_new_shaped(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
               union uop_arg arg, const struct uop *const *src, uint32_t n_src,
               const struct uop_dims *shape)
{
    size_t n_before = g->n_nodes;
    const struct uop *u = uop_new(g, op, dtype, 1, arg, src, n_src);

    if (g->n_nodes != n_before)
        g->shapes[u->id] = shape;
    return u;
}

const struct uop *
uop_new(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype,
        uint16_t lanes, union uop_arg arg, const struct uop *const *src,
        uint32_t n_src)
{
    uint32_t hash, i;
    struct uop *u;
    size_t at;

    assert(op < UOP_OP_COUNT && dtype < UOP_DTYPE_COUNT && lanes > 0);
    assert(n_src <= UINT16_MAX);
    if (g->failed)
        return &uop_failed;
    for (i = 0; i < n_src; i++) {
        if (src[i] == &uop_failed)
            return fail_graph(g);
        assert(src[i]->id < g->n_nodes && g->nodes[src[i]->id] == src[i]);
    }
    if ((g->n_nodes + 1) * 2 > g->n_table && !grow_table(g))
        return fail_graph(g);
    hash = hash_node(op, dtype, lanes, arg, src, n_src);
    at = hash & (g->n_table - 1);
    while (g->table[at]) {
        const struct uop *old = g->table[at];
        if (old->hash == hash &&
            same_node(old, op, dtype, lanes, arg, src, n_src))
            return old;
        at = (at + 1) & (g->n_table - 1);
    }
    if ((g->n_nodes >= g->cap_nodes || g->n_nodes >= g->cap_shapes) &&
        !grow_side_arrays(g))
        return fail_graph(g);
    if (g->has_marks && g->n_nodes >= g->cap_marks && !grow_marks(g))
        return fail_graph(g);
    u = arena_alloc(&g->arena, sizeof(*u) + n_src * sizeof(*src));
    if (!u)
        return fail_graph(g);
    u->op = (uint8_t)op;
    u->dtype = (uint8_t)dtype;
    u->lanes = lanes;
    u->id = (uint32_t)g->n_nodes;
    u->arg = arg;
    u->n_src = n_src;
    u->hash = hash;
    for (i = 0; i < n_src; i++)
        u->src[i] = src[i];
    if (!note_bounds(g, u))
        return fail_graph(g);
    g->nodes[u->id] = u;
    g->shapes[u->id] = NULL;
    if (g->has_marks)
        g->marks[u->id] = g->mark_of ? g->mark_of(g->mark_user) : g->mark;
    g->table[at] = u;
    g->n_nodes++;
    return u;
}

static bool
grow_dims_table(struct uop_graph *g)
{
    size_t n_new = g->n_dims_table ? g->n_dims_table * 2 : 64, i;
    const struct uop_dims **table = host_calloc(n_new, sizeof(*table));

    assert(is_pow2(n_new));
    if (!table)
        return false;
    for (i = 0; i < g->n_dims_table; i++) {
        const struct uop_dims *dims = g->dims_table[i];
        size_t at;
        if (!dims)
            continue;
        at = dims->hash & (n_new - 1);
        while (table[at])
            at = (at + 1) & (n_new - 1);
        table[at] = dims;
    }
    host_free(g->dims_table);
    g->dims_table = table;
    g->n_dims_table = n_new;
    return true;
}

static bool
is_dims(const struct uop_dims *dims, const int64_t *d, uint32_t n)
{
    uint32_t i;

    for (i = 0; dims->n == n && i < n && dims->d[i] == d[i]; i++)
        ;
    return dims->n == n && i == n;
}

const struct uop_dims *
uop_dims(struct uop_graph *g, const int64_t *d, uint32_t n)
{
    uint64_t slot = 3u * n + (n ? (uint64_t)d[n - 1] : 0);
    const struct uop_dims **last =
        &g->last_dims[slot % ARRAY_LEN(g->last_dims)];
    struct uop_dims *dims;
    uint32_t hash;
    size_t at;

    if (g->failed)
        return NULL;
    if (*last && is_dims(*last, d, n)) /* most calls keep a shape */
        return *last;
    hash = (uint32_t)hash_bytes(d, n * sizeof(*d), n);
    if ((g->n_dims + 1) * 2 > g->n_dims_table && !grow_dims_table(g)) {
        g->failed = true;
        return NULL;
    }
    at = hash & (g->n_dims_table - 1);
    while (g->dims_table[at]) {
        const struct uop_dims *old = g->dims_table[at];
        if (old->hash == hash && is_dims(old, d, n))
            return *last = old;
        at = (at + 1) & (g->n_dims_table - 1);
    }
    dims = arena_alloc(&g->arena, sizeof(*dims) + n * sizeof(*d));
    if (!dims) {
        g->failed = true;
        return NULL;
    }
    dims->n = n;
    dims->hash = hash;
    if (n)
        memcpy(dims->d, d, n * sizeof(*d));
    g->dims_table[at] = dims;
    g->n_dims++;
    return *last = dims;
}

const struct uop *
uop_const_int(struct uop_graph *g, enum uop_dtype dtype, int64_t value)
{
    union uop_arg arg = {.bits = 0};

    assert(dtype != UOP_VOID || g->failed);
    if (uop_dtype_infos[dtype].is_float)
        return uop_const_float(g, dtype, (double)value);
    arg.i = uop_wrap_int(dtype, value);
    return uop_new(g, UOP_CONST, dtype, 1, arg, NULL, 0);
}

const struct uop *
uop_const_float(struct uop_graph *g, enum uop_dtype dtype, double value)
{
    union uop_arg arg = {.bits = 0};

    if (!uop_dtype_infos[dtype].is_float)
        return uop_const_int(g, dtype, (int64_t)value);
    arg.f = isnan(value) ? (double)NAN : uop_round_float(dtype, value);
    return uop_new(g, UOP_CONST, dtype, 1, arg, NULL, 0);
}

const struct uop *
uop_identity(struct uop_graph *g, enum uop_op op, enum uop_dtype dtype)
{
    struct uop_bounds b = uop_dtype_bounds(dtype);
    bool is_float = uop_dtype_infos[dtype].is_float;

    switch ((int)op) {
    case UOP_MUL:
        return uop_const_int(g, dtype, 1);
    case UOP_AND:
        return uop_const_int(g, dtype, dtype == UOP_BOOL ? 1 : -1);
    case UOP_MAX:
        if (is_float)
            return uop_const_float(g, dtype, -(double)__builtin_inff());
        return uop_const_int(g, dtype, b.min);
    case UOP_MIN:
        if (is_float)
            return uop_const_float(g, dtype, (double)__builtin_inff());
        return uop_const_int(g, dtype, dtype == UOP_U64 ? -1 : b.max);
    default:
        assert(op == UOP_ADD || op == UOP_OR || op == UOP_XOR);
        return uop_const_int(g, dtype, 0);
    }
}

const struct uop *
uop_const_like(struct uop_graph *g, const struct uop *like, int64_t i)
{
    const struct uop *c = uop_const_int(g, like->dtype, i);

    if (like->lanes > 1) {
        union uop_arg none = {.bits = 0};
        return uop_new(g, UOP_BROADCAST, like->dtype, like->lanes, none, &c, 1);
    }
    return c;
}

const struct uop *
uop_range(struct uop_graph *g, uint32_t id, enum uop_axis axis, int64_t size)
{
    const struct uop *extent = uop_const_int(g, UOP_I64, size);
    union uop_arg arg = {.i = uop_range_arg(id, axis)};

    assert(size >= 0 && axis < UOP_AXIS_COUNT);
    return uop_new(g, UOP_RANGE, UOP_I64, 1, arg, &extent, 1);
}
