/* Memory: what a work-group shares, addresses, loads and stores. */
#include "render/cl/cl_internal.h"

#include <assert.h>
#include <inttypes.h>

#include "base/bits.h"

#define MAX_PIECE 16u /* lanes of the largest vector */

/* ---- LOCAL memory ---- */

static const struct uop_local *
local_info(const struct uop *u)
{
    return u->arg.data;
}

static struct cl_opnd
shared_of(const struct uop *u)
{
    return (struct cl_opnd){.kind = CL_SHARED,
                            .dtype = u->dtype,
                            .space = CL_LOCAL,
                            .number = local_info(u)->id};
}

/* Aligned as each is in program->shared_bytes. */
bell_status
cl_declare_locals(struct cl_emit *e)
{
    struct map seen;
    bool failed = false;
    uint32_t i;

    map_init(&seen);
    for (i = 0; i < e->prog->n_ops && !failed; i++) {
        const struct uop *u = e->prog->ops[i];

        if (u->op != UOP_LOCAL || map_get(&seen, u->id))
            continue;
        failed = map_put(&seen, u->id, 1) < 0;
        render_put(&e->header,
                   "    local %s m%u[%u] __attribute__((aligned(16)));\n",
                   cl_memory_type(u->dtype), local_info(u)->id,
                   local_info(u)->n_elems);
    }
    map_fini(&seen);
    return failed ? cl_no_memory(e) : BELL_OK;
}

/* ---- addresses ---- */

/* Where memory begins, as `u` displaces it. */
static bell_status
find_cl_base(struct cl_emit *e, const struct uop *u, struct cl_opnd *out)
{
    const struct uop *index = uop_index_of(u), *memory = uop_memory(u);
    struct cl_value v;

    if (memory->op != UOP_PARAM && memory->op != UOP_LOCAL)
        return cl_refuse(e, u, "it is not memory");
    if (memory->op == UOP_LOCAL && !index) {
        *out = shared_of(memory);
        return BELL_OK;
    }
    BELL_TRY(cl_value_of(e, index ? index : memory, &v));
    *out = v.lanes[0];
    return BELL_OK;
}

bell_status
cl_emit_index(struct cl_emit *e, const struct uop *u, struct cl_opnd *out)
{
    const struct uop *memory = uop_memory(u);
    struct cl_opnd base;
    struct cl_value v;

    assert(u->op == UOP_INDEX && u->src[1]->lanes == 1);
    BELL_TRY(find_cl_base(e, u->src[0], &base));
    BELL_TRY(cl_value_of(e, u->src[1], &v));
    *out = cl_new(e, memory->dtype,
                  memory->op == UOP_LOCAL ? CL_LOCAL : CL_GLOBAL);
    CL_OP(e, "% = % + %", *out, base, v.lanes[0]);
    return BELL_OK;
}

/* One access, taken apart. Lane i is element first + i * step from `base` on,
 * or, where the index has lanes, what they say. */
struct cl_access {
    const struct uop *u;
    unsigned dtype;
    uint32_t n_lanes;
    struct cl_opnd base;
    bool is_fixed; /* by first and step */
    int64_t first, step;
    struct cl_value indices;
    uint32_t n_indices;
    const struct uop *gate_node; /* or NULL */
    struct cl_value gate;
};

static bell_status
take_cl_apart(struct cl_emit *e, const struct uop *u, struct cl_access *a)
{
    const struct uop *index = u->src[1];
    int64_t last;

    assert(u->op == UOP_LOAD || u->op == UOP_STORE);
    *a = (struct cl_access){.u = u,
                            .dtype = u->src[0]->dtype,
                            .n_lanes = u->op == UOP_STORE ? u->src[2]->lanes
                                                          : u->lanes,
                            .n_indices = index->lanes,
                            .gate_node = u->n_src > 3 ? u->src[3] : NULL};
    if (index->lanes != 1 && index->lanes != a->n_lanes)
        return cl_refuse(e, u, "its index has other lanes");
    BELL_TRY(find_cl_base(e, u->src[0], &a->base));
    if (a->gate_node)
        BELL_TRY(cl_value_of(e, a->gate_node, &a->gate));
    a->is_fixed = uop_index_steps(index, &a->first, &a->step) &&
                  !__builtin_mul_overflow(a->step, a->n_lanes, &last) &&
                  !__builtin_add_overflow(a->first, last, &last);
    if (a->is_fixed)
        return BELL_OK;
    BELL_TRY(cl_value_of(e, index, &a->indices));
    a->first = 0;
    a->step = 1;
    return BELL_OK;
}

/* How many lanes from this one on are one vector in memory. */
static uint32_t
piece_size(const struct cl_access *a, uint32_t lane)
{
    uint32_t n = MAX_PIECE;

    assert(lane < a->n_lanes);
    if ((!a->is_fixed && a->n_indices > 1) || a->step != 1 ||
        (a->gate_node && a->gate_node->lanes > 1))
        return 1;
    while (n > a->n_lanes - lane)
        n /= 2;
    return n;
}

/* "p0_f32 + r3 + 4": where a lane is. */
static void
put_cl_address(struct cl_emit *e, const struct cl_access *a, uint32_t lane)
{
    int64_t at = a->n_indices > 1 && !a->is_fixed
                     ? 0
                     : a->first + (int64_t)lane * a->step;

    assert(a->is_fixed || a->n_indices == 1 || lane < a->n_indices);
    cl_put_opnd(&e->body, a->base);
    if (!a->is_fixed) {
        render_put(&e->body, " + ");
        cl_put_opnd(&e->body, a->indices.lanes[a->n_indices > 1 ? lane : 0]);
    }
    if (at)
        render_put(&e->body, " %c %" PRIu64 "L", at < 0 ? '-' : '+',
                   at < 0 ? 0 - (uint64_t)at : (uint64_t)at);
}

static struct cl_opnd
gate_of(const struct cl_access *a, uint32_t lane)
{
    return a->gate.lanes[a->gate_node->lanes > 1 ? lane : 0];
}

static void
open_gate(struct cl_emit *e, const struct cl_access *a, uint32_t lane)
{
    cl_indent(e);
    if (a->gate_node) {
        render_put(&e->body, "if (");
        cl_put_opnd(&e->body, gate_of(a, lane));
        render_put(&e->body, ") ");
    }
    render_put(&e->body, "{\n");
    e->depth++;
}

/* "*(p0_f32 + 4)" */
static void
put_element(struct cl_emit *e, const struct cl_access *a, uint32_t lane)
{
    render_put(&e->body, "*(");
    put_cl_address(e, a, lane);
    render_put(&e->body, ")");
}

/* ---- loads and stores ---- */

static void
store_one(struct cl_emit *e, const struct cl_access *a, uint32_t lane,
          struct cl_opnd value)
{
    cl_indent(e);
    if (a->gate_node) {
        render_put(&e->body, "if (");
        cl_put_opnd(&e->body, gate_of(a, lane));
        render_put(&e->body, ") ");
    }
    put_element(e, a, lane);
    render_put(&e->body, " = ");
    cl_put_opnd(&e->body, value);
    render_put(&e->body, ";\n");
}

static void
store_piece(struct cl_emit *e, const struct cl_access *a, uint32_t lane,
            uint32_t n, const struct cl_opnd *values)
{
    const char *type = cl_memory_type(a->dtype);
    uint32_t i;

    assert(n > 1 && n <= MAX_PIECE && is_pow2(n));
    cl_indent(e);
    if (a->gate_node) {
        render_put(&e->body, "if (");
        cl_put_opnd(&e->body, gate_of(a, lane));
        render_put(&e->body, ") ");
    }
    render_put(&e->body, "vstore%u((%s%u)(", n, type, n);
    for (i = 0; i < n; i++) {
        render_put(&e->body, "%s%s", i ? ", " : "",
                   a->dtype == UOP_BOOL ? "(uchar)" : "");
        cl_put_opnd(&e->body, values[i]);
    }
    render_put(&e->body, "), 0, ");
    put_cl_address(e, a, lane);
    render_put(&e->body, ");\n");
}

bell_status
cl_emit_store(struct cl_emit *e, const struct uop *u)
{
    struct cl_value v;
    struct cl_access a;
    uint32_t lane, n;

    BELL_TRY(take_cl_apart(e, u, &a));
    BELL_TRY(cl_value_of(e, u->src[2], &v));
    for (lane = 0; lane < a.n_lanes; lane += n) {
        n = piece_size(&a, lane);
        if (n == 1)
            store_one(e, &a, lane, v.lanes[lane]);
        else
            store_piece(e, &a, lane, n, v.lanes + lane);
    }
    return BELL_OK;
}

static void
load_one(struct cl_emit *e, const struct cl_access *a, uint32_t lane,
         struct cl_opnd to, const struct cl_value *other)
{
    cl_indent(e);
    cl_put_opnd(&e->body, to);
    render_put(&e->body, " = ");
    if (a->gate_node) {
        cl_put_opnd(&e->body, gate_of(a, lane));
        render_put(&e->body, " ? ");
    }
    put_element(e, a, lane);
    if (a->dtype == UOP_BOOL)
        render_put(&e->body, " != 0");
    if (a->gate_node) {
        render_put(&e->body, " : ");
        cl_put_opnd(&e->body, other->lanes[lane]);
    }
    render_put(&e->body, ";\n");
}

static void
load_piece(struct cl_emit *e, const struct cl_access *a, uint32_t lane,
           uint32_t n, const struct cl_opnd *to, const struct cl_value *other)
{
    const char *type = cl_memory_type(a->dtype);
    uint32_t i;

    assert(n > 1 && n <= MAX_PIECE && is_pow2(n));
    for (i = 0; i < n && a->gate_node; i++)
        CL_OP(e, "% = %", to[i], other->lanes[lane + i]);
    open_gate(e, a, lane);
    cl_indent(e);
    render_put(&e->body, "%s%u v = vload%u(0, ", type, n, n);
    put_cl_address(e, a, lane);
    render_put(&e->body, ");\n");
    for (i = 0; i < n; i++) {
        cl_indent(e);
        cl_put_opnd(&e->body, to[i]);
        render_put(&e->body, " = v.s%x%s;\n", i,
                   a->dtype == UOP_BOOL ? " != 0" : "");
    }
    cl_close_block(e);
}

bell_status
cl_emit_load(struct cl_emit *e, const struct uop *u, struct cl_opnd *out)
{
    struct cl_value other = {.lanes = NULL};
    struct cl_access a;
    uint32_t lane, n, i;

    BELL_TRY(take_cl_apart(e, u, &a));
    if (a.gate_node)
        BELL_TRY(cl_value_of(e, u->src[2], &other));
    for (i = 0; i < a.n_lanes; i++)
        out[i] = cl_new(e, a.dtype, CL_VALUE);
    for (lane = 0; lane < a.n_lanes; lane += n) {
        n = piece_size(&a, lane);
        if (n == 1)
            load_one(e, &a, lane, out[lane], &other);
        else
            load_piece(e, &a, lane, n, out + lane, &other);
    }
    return BELL_OK;
}
