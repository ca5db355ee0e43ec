/* Instances of a kernel's values.
 *
 * Each node gets one instance for every combination of the unrolled ranges it
 * varies with, made in dependence order, so nothing is made twice. Indices
 * that move by a fixed step are made once and offset by a constant.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>

#define MAX_INSTANCES (1u << 20)
#define MAX_BYTES     16 /* of an access */
#define MAX_LANES     16

static const union uop_arg no_arg = {.bits = 0};

uint32_t
expand_copy(const struct expand *e, const struct expand_inst *inst)
{
    uint64_t set;
    uint32_t copy = 0;

    assert(!(inst->copied & ~e->copied));
    for (set = inst->copied; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        copy = copy * (uint32_t)e->k->sizes[r] + e->digit[r];
    }
    return copy;
}

void
expand_set_digits(struct expand *e, uint64_t set, uint32_t copy)
{
    while (set) {
        uint32_t r = 63u - (uint32_t)__builtin_clzll(set);
        uint32_t size = (uint32_t)e->k->sizes[r];
        e->digit[r] = copy % size;
        copy /= size;
        set &= ~((uint64_t)1 << r);
    }
}

uint32_t
expand_count(const struct expand *e, uint64_t set)
{
    uint64_t n = 1;

    for (; set && n <= MAX_INSTANCES; set &= set - 1)
        n *= (uint64_t)e->k->sizes[__builtin_ctzll(set)];
    return n > MAX_INSTANCES ? MAX_INSTANCES + 1 : (uint32_t)n;
}

const struct uop *
expand_broadcast(struct expand *e, const struct uop *u, uint16_t lanes)
{
    assert(lanes > 0 && (u->lanes == 1 || u->lanes == lanes));
    if (lanes == 1 || u->lanes == lanes)
        return u;
    return uop_make(e->g, UOP_BROADCAST, u->dtype, lanes, no_arg, &u, 1);
}

static struct expand_inst *
inst_of(const struct expand *e, const struct uop *u)
{
    return &e->inst[kernel_pos(e->k, u)];
}

static const struct uop *
scalar_value(struct expand *e, const struct uop *u)
{
    struct expand_inst *inst = inst_of(e, u);
    return inst->scalar[expand_copy(e, inst)];
}

/* As the node is: a vector if it varies with the VECTOR range. */
static const struct uop *
natural_value(struct expand *e, const struct uop *u)
{
    struct expand_inst *inst = inst_of(e, u);
    const struct uop **from = inst->vec >= 0 ? inst->vector : inst->scalar;
    return from[expand_copy(e, inst)];
}

const struct uop *
expand_value(struct expand *e, const struct uop *u, uint16_t lanes)
{
    return expand_broadcast(e, natural_value(e, u), lanes);
}

/* ---- what is needed ---- */

static bool
is_compare(const struct uop *u)
{
    return u->op == UOP_CMPLT || u->op == UOP_CMPEQ || u->op == UOP_CMPNE;
}

/* Step of the vector index `u` per lane; false where it is not fixed. */
static bool
lane_step(const struct expand *e, const struct uop *u, int32_t vec,
          int64_t *out_step)
{
    *out_step = kernel_coef(e->k, u, (uint32_t)vec);
    return u->dtype == UOP_I64 && *out_step != KERNEL_NONAFFINE;
}

/* Can the vector be made from its first lane? */
static bool
is_ramp(const struct expand *e, const struct uop *u,
        const struct expand_inst *inst)
{
    int64_t step;
    return inst->vec >= 0 && lane_step(e, u, inst->vec, &step);
}

/* A comparison of indices with fixed steps whose difference fits 32 bits
 * after clamping. */
static bool
is_ramp_compare(const struct expand *e, const struct uop *u,
                const struct expand_inst *inst)
{
    int64_t a, b;

    return inst->vec >= 0 && is_compare(u) && u->src[0]->dtype == UOP_I64 &&
           lane_step(e, u->src[0], inst->vec, &a) &&
           lane_step(e, u->src[1], inst->vec, &b) && expand_is_short(a) &&
           expand_is_short(b);
}

/* Are the copies fixed offsets of copy 0? */
static bool
is_offset(const struct expand *e, const struct uop *u,
          const struct expand_inst *inst)
{
    uint64_t set;

    if (!inst->copied || u->dtype != UOP_I64 ||
        !e->k->coefs[kernel_pos(e->k, u)])
        return false;
    for (set = inst->copied; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (kernel_coef(e->k, u, r) == KERNEL_NONAFFINE)
            return false;
    }
    return true;
}

/* A LOAD or STORE of consecutive elements. */
static bool
is_contiguous(const struct expand *e, const struct uop *u,
              const struct expand_inst *inst)
{
    return inst->vec >= 0 &&
           kernel_coef(e->k, u->src[1], (uint32_t)inst->vec) == 1;
}

/* The copied range along which a LOAD that jumps from lane to lane lies in
 * memory, so that 16 bytes or less are loaded at once and exchanged; -1. */
static int32_t
turned_range(const struct expand *e, const struct uop *u,
             const struct expand_inst *inst)
{
    const struct kernel *k = e->k;
    uint64_t set = inst->copied;
    uint32_t most, i;
    int64_t coef;

    if (u->op != UOP_LOAD || inst->vec < 0 || inst->stage || inst->pack ||
        !k->target->is_gpu)
        return -1;
    coef = kernel_coef(k, u->src[1], (uint32_t)inst->vec);
    if (coef == KERNEL_NONAFFINE || coef == 0 || coef == 1)
        return -1;
    most = MAX_BYTES / uop_dtype_infos[u->dtype].size_bytes;
    for (; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        uint64_t both = (uint64_t)1 << r | (uint64_t)1 << inst->vec;
        bool fits = kernel_coef(k, u->src[1], r) == 1 && k->sizes[r] > 1 &&
                    k->sizes[r] <= most && !(k->sizes[r] & (k->sizes[r] - 1));
        for (i = 2; i < u->n_src && fits; i++)
            fits = !(kernel_deps(k, u->src[i]) & both);
        if (fits)
            return (int32_t)r;
    }
    return -1;
}

static void
need_all(struct expand *e, const struct uop *u)
{
    struct expand_inst *inst = inst_of(e, u);
    inst->need |= inst->vec >= 0 ? NEED_VECTOR : NEED_SCALAR;
}

static void
need_sources(struct expand *e, const struct uop *u,
             const struct expand_inst *inst)
{
    unsigned need = inst->need;
    bool access = u->op == UOP_LOAD || u->op == UOP_STORE;
    uint32_t i;

    if (inst->stage || inst->pack ||
        (u->op == UOP_REDUCE &&
         (e->k->matrix.on || e->k->tiled || e->k->digits || e->k->by_rows)))
        return; /* its sources are those of the copy */
    if (need & NEED_VECTOR && is_ramp(e, u, inst)) {
        inst_of(e, u)->need |= NEED_SCALAR;
        need = (need & ~(unsigned)NEED_VECTOR) | NEED_SCALAR;
    }
    if (need & NEED_SCALAR && is_offset(e, u, inst))
        need = (need & ~(unsigned)NEED_SCALAR) | NEED_BASE;
    for (i = 0; i < u->n_src; i++) {
        struct expand_inst *src = inst_of(e, u->src[i]);
        if (u->op == UOP_REDUCE || u->op == UOP_SINK) {
            need_all(e, u->src[i]);
            continue;
        }
        if (need & NEED_VECTOR &&
            !(access && i == 1 &&
              (is_contiguous(e, u, inst) || turned_range(e, u, inst) >= 0)) &&
            !is_ramp_compare(e, u, inst))
            need_all(e, u->src[i]);
        else if (need & NEED_VECTOR)
            src->need |= NEED_SCALAR;
        if (need & NEED_SCALAR)
            src->need |= NEED_SCALAR;
        if (need & NEED_BASE)
            src->need |= src->copied ? NEED_BASE : NEED_SCALAR;
    }
}

/* Instances of which nothing is needed yet. */
static bell_status
begin_insts(struct expand *e)
{
    struct kernel *k = e->k;
    uint64_t total = 0;
    uint32_t i;

    e->inst = arena_calloc(&k->mem, k->n_nodes, sizeof(*e->inst));
    if (!e->inst)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        struct expand_inst *inst = &e->inst[i];
        uint64_t vec = k->deps[i] & e->vectors;
        inst->copied = k->deps[i] & e->copied;
        inst->n_copies = expand_count(e, inst->copied);
        if (vec & (vec - 1))
            return bell_fail(BELL_E_INTERNAL,
                             "a value varies with two vector ranges");
        inst->vec = vec ? __builtin_ctzll(vec) : -1;
        inst->lanes = vec ? (uint16_t)k->sizes[inst->vec] : 1;
        total += inst->n_copies;
    }
    if (total > MAX_INSTANCES)
        return bell_fail(BELL_E_INTERNAL,
                         "a kernel expands to more than %u "
                         "nodes",
                         MAX_INSTANCES);
    return BELL_OK;
}

static bell_status
prepare_insts(struct expand *e)
{
    struct kernel *k = e->k;
    uint32_t i;

    BELL_TRY(begin_insts(e));
    BELL_TRY(expand_find_stages(e));
    expand_find_packs(e);
    expand_find_window(e);
    for (i = k->n_nodes; i-- > 0;)
        need_sources(e, k->nodes[i], &e->inst[i]);
    return BELL_OK;
}

static bell_status
alloc_insts(struct expand *e)
{
    uint32_t i;

    assert(e->inst);
    for (i = 0; i < e->k->n_nodes; i++) {
        struct expand_inst *inst = &e->inst[i];
        size_t size = inst->n_copies * sizeof(*inst->scalar);
        if (inst->need & (NEED_SCALAR | NEED_BASE))
            inst->scalar = arena_alloc(&e->k->mem, size);
        if (inst->need & NEED_VECTOR)
            inst->vector = arena_alloc(&e->k->mem, size);
    }
    if (e->k->mem.failed)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", e->k->n_nodes);
    return BELL_OK;
}

/* ---- making instances ---- */

static const struct uop *
make_like(struct expand *e, const struct uop *u, uint16_t lanes,
          const struct uop *const *src)
{
    return uop_make(e->g, u->op, u->dtype, lanes, u->arg, src, u->n_src);
}

static const struct uop *
make_scalar(struct expand *e, const struct uop *u,
            const struct expand_inst *inst, const struct uop **src)
{
    uint32_t i;

    if (inst->pack)
        return expand_packed_value(e, inst, inst->lanes);
    if (inst->stage) {
        union uop_arg lane = {.i = 0};
        const struct uop *all = expand_staged_value(e, inst);
        return all->lanes == 1
                   ? all
                   : uop_make(e->g, UOP_LANE, u->dtype, 1, lane, &all, 1);
    }
    if (u->op == UOP_RANGE) {
        uint32_t r = kernel_range_no(e->k, u);
        if (e->copied >> r & 1)
            return uop_const_int(e->g, UOP_I64, e->digit[r]);
        return e->base[r];
    }
    if (u->op == UOP_CMPLT && expand_holds(e, u))
        return uop_const_int(e->g, UOP_BOOL, 1);
    for (i = 0; i < u->n_src; i++)
        src[i] = scalar_value(e, u->src[i]);
    return make_like(e, u, 1, src);
}

const struct uop *
expand_ramp(struct expand *e, const struct uop *first, enum uop_dtype dtype,
            uint16_t lanes, int64_t step)
{
    const struct uop *ramp =
        uop_make(e->g, UOP_RAMP, dtype, lanes, no_arg, NULL, 0);

    assert(lanes > 1);
    if (step != 1)
        ramp = uop_alu2(e->g, UOP_MUL, ramp, uop_const_like(e->g, ramp, step));
    if (!first)
        return ramp;
    return uop_alu2(e->g, UOP_ADD, expand_broadcast(e, first, lanes), ramp);
}

/* lane*step OP bound, with the bound cut to what 32 bits hold: lanes compare
 * faster in 32 bits than in 64. */
const struct uop *
expand_ramp_compare(struct expand *e, enum uop_op op, const struct uop *a,
                    const struct uop *b, uint16_t lanes, int64_t step)
{
    const struct uop *bound, *ramp;
    int64_t last = step * (lanes - 1);
    int64_t low = (last < 0 ? last : 0) - 1, high = (last > 0 ? last : 0) + 1;

    if (step == 0)
        return expand_broadcast(e, uop_alu2(e->g, op, a, b), lanes);
    bound = uop_alu2(e->g, UOP_SUB, b, a);
    bound = uop_alu2(e->g, UOP_MAX, bound, uop_const_int(e->g, UOP_I64, low));
    bound = uop_alu2(e->g, UOP_MIN, bound, uop_const_int(e->g, UOP_I64, high));
    bound = uop_cast(e->g, bound, UOP_I32);
    ramp = expand_ramp(e, NULL, UOP_I32, lanes, step);
    return uop_alu2(e->g, op, ramp, expand_broadcast(e, bound, lanes));
}

/* LOAD and STORE: contiguous, or one index a lane. */
static const struct uop *
make_access(struct expand *e, const struct uop *u,
            const struct expand_inst *inst, const struct uop **src)
{
    assert(u->op == UOP_LOAD || u->op == UOP_STORE);
    src[0] = scalar_value(e, u->src[0]);
    src[1] = is_contiguous(e, u, inst)
                 ? scalar_value(e, u->src[1])
                 : expand_value(e, u->src[1], inst->lanes);
    if (u->n_src > 2)
        src[2] = expand_value(e, u->src[2], inst->lanes);
    if (u->n_src > 3)
        src[3] = natural_value(e, u->src[3]);
    return make_like(e, u, u->op == UOP_STORE ? 1 : inst->lanes, src);
}

static const struct uop *
make_vector(struct expand *e, const struct uop *u,
            const struct expand_inst *inst, const struct uop **src)
{
    uint32_t i;

    if (inst->pack)
        return expand_packed_value(e, inst, inst->lanes);
    if (inst->stage)
        return expand_staged_value(e, inst);
    if (u->op == UOP_LOAD || u->op == UOP_STORE)
        return make_access(e, u, inst, src);
    if (is_ramp(e, u, inst))
        return expand_ramp(e, inst->scalar[expand_copy(e, inst)], UOP_I64,
                           inst->lanes,
                           kernel_coef(e->k, u, (uint32_t)inst->vec));
    if (is_ramp_compare(e, u, inst)) {
        uint32_t vec = (uint32_t)inst->vec;
        return expand_ramp_compare(e, u->op, scalar_value(e, u->src[0]),
                                   scalar_value(e, u->src[1]), inst->lanes,
                                   kernel_coef(e->k, u->src[0], vec) -
                                       kernel_coef(e->k, u->src[1], vec));
    }
    for (i = 0; i < u->n_src; i++)
        src[i] = expand_value(e, u->src[i], inst->lanes);
    return make_like(e, u, inst->lanes, src);
}

/* Distance of the copy at digit[] from copy 0. */
static int64_t
copy_offset(const struct expand *e, const struct uop *u, uint64_t set)
{
    int64_t offset = 0;

    assert(!(set & ~e->copied));
    for (; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        offset += kernel_coef(e->k, u, r) * (int64_t)e->digit[r];
    }
    return offset;
}

static void
make_scalars(struct expand *e, const struct uop *u, struct expand_inst *inst,
             const struct uop **src)
{
    bool offset = is_offset(e, u, inst);
    bool all = (inst->need & NEED_SCALAR) != 0;
    uint32_t copy, n = all ? inst->n_copies : 1;

    for (copy = 0; copy < n; copy++) {
        expand_set_digits(e, inst->copied, copy);
        if (offset && copy > 0)
            inst->scalar[copy] = uop_alu2(
                e->g, UOP_ADD, inst->scalar[0],
                uop_const_int(e->g, UOP_I64, copy_offset(e, u, inst->copied)));
        else
            inst->scalar[copy] = make_scalar(e, u, inst, src);
    }
}

/* The STORE, done where its own gate and `gate` hold. */
static const struct uop *
add_gate(struct expand *e, const struct uop *store, const struct uop *gate)
{
    const struct uop *src[4];
    uint32_t i;

    assert(store->op == UOP_STORE || e->g->failed);
    for (i = 0; i < store->n_src; i++)
        src[i] = store->src[i];
    src[3] = gate;
    if (store->n_src > 3)
        src[3] = uop_alu2(e->g, UOP_AND, store->src[3],
                          expand_broadcast(e, gate, store->src[3]->lanes));
    return uop_make(e->g, UOP_STORE, UOP_VOID, 1, store->arg, src, 4);
}

/* The vectors of a LOAD at digit[], and of all values of range r: loaded along
 * r for each lane, then exchanged. */
static void
make_turned(struct expand *e, const struct uop *u, struct expand_inst *inst,
            uint32_t r)
{
    const struct uop *src[4], *row[MAX_LANES], *part[MAX_LANES], *first;
    uint16_t n = (uint16_t)e->k->sizes[r], lane;
    int64_t step = kernel_coef(e->k, u->src[1], (uint32_t)inst->vec);
    uint32_t i;

    assert(inst->lanes <= MAX_LANES && n <= MAX_LANES);
    src[0] = scalar_value(e, u->src[0]);
    first = scalar_value(e, u->src[1]);
    if (u->n_src > 2)
        src[2] = expand_value(e, u->src[2], n);
    if (u->n_src > 3)
        src[3] = natural_value(e, u->src[3]);
    for (lane = 0; lane < inst->lanes; lane++) {
        src[1] = expand_op_num(e, UOP_ADD, first, step * lane);
        row[lane] = make_like(e, u, n, src);
    }
    for (i = 0; i < n; i++) {
        for (lane = 0; lane < inst->lanes; lane++)
            part[lane] = uop_make(e->g, UOP_LANE, u->dtype, 1,
                                  (union uop_arg){.i = i}, &row[lane], 1);
        e->digit[r] = i;
        inst->vector[expand_copy(e, inst)] = uop_make(
            e->g, UOP_LANES, u->dtype, inst->lanes, no_arg, part, inst->lanes);
    }
    e->digit[r] = 0;
}

static bell_status
make_instances(struct expand *e, const struct uop *u, struct expand_inst *inst,
               const struct uop **src)
{
    const struct uop *gate = NULL;
    int32_t turned = turned_range(e, u, inst);
    uint32_t copy;

    if (u->op == UOP_STORE)
        gate = expand_store_gate(e, kernel_deps(e->k, u));
    if (u->op == UOP_STORE && !gate && expand_can_turn(e, u))
        return expand_turn_store(e, u);
    if (u->op != UOP_STORE && inst->scalar)
        make_scalars(e, u, inst, src);
    if (u->op != UOP_STORE && !inst->vector)
        return BELL_OK;
    for (copy = 0; copy < inst->n_copies; copy++) {
        const struct uop *made;
        expand_set_digits(e, inst->copied, copy);
        if (turned >= 0) {
            if (!e->digit[turned])
                make_turned(e, u, inst, (uint32_t)turned);
            continue;
        }
        made = inst->vec >= 0 ? make_vector(e, u, inst, src)
                              : make_scalar(e, u, inst, src);
        if (u->op != UOP_STORE) {
            inst->vector[copy] = made;
            continue;
        }
        if (gate && made->op == UOP_STORE)
            made = add_gate(e, made, gate);
        BELL_TRY(expand_add_store(e, kernel_deps(e->k, u), made));
    }
    return BELL_OK;
}

bell_status
expand_apart(struct expand *e, const struct uop *u,
             struct expand_inst **out_before)
{
    struct kernel *k = e->k;
    uint32_t i, n = kernel_pos(k, u) + 1, widest = 1;
    const struct uop **src;

    *out_before = e->inst;
    BELL_TRY(begin_insts(e));
    need_all(e, u);
    for (i = n; i-- > 0;) {
        widest = k->nodes[i]->n_src > widest ? k->nodes[i]->n_src : widest;
        if (e->inst[i].need)
            need_sources(e, k->nodes[i], &e->inst[i]);
    }
    BELL_TRY(alloc_insts(e));
    src = arena_alloc(&k->mem, widest * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", n);
    for (i = 0; i < n; i++) {
        if (e->inst[i].need)
            BELL_TRY(make_instances(e, k->nodes[i], &e->inst[i], src));
    }
    return BELL_OK;
}

/* ---- the kernel ---- */

/* A loop that ends where nothing is left for its work-group. Where tiles are
 * brought to LOCAL memory ahead, it counts as it is. Sums of whole rows begin
 * with the first rows, which are always taken. */
static bell_status
make_loop(struct expand *e, uint32_t r)
{
    struct kernel *k = e->k;
    const struct uop *range = k->ranges[r], *end = NULL;

    if (k->n_ends && !k->tiled && !k->staged && !k->matrix.on)
        end = kernel_loop_end(k, r);
    e->base[r] = range;
    if (!end)
        return BELL_OK;
    if (k->by_rows && k->reduce_ranges >> r & 1 &&
        uop_bounds(k->g, end).min < 1)
        end = uop_alu2(k->g, UOP_MAX, end, uop_const_int(k->g, UOP_I64, 1));
    BELL_TRY(uop_substitute(e->g, &end, 1, k->ranges, e->base, k->n_ranges));
    e->base[r] = uop_new(k->g, UOP_RANGE, UOP_I64, 1, range->arg, &end, 1);
    return BELL_OK;
}

static bell_status
map_ranges(struct expand *e, struct lower_program *program)
{
    struct kernel *k = e->k;
    uint64_t loops;
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++) {
        uint64_t bit = (uint64_t)1 << r;
        e->base[r] = uop_const_int(e->g, UOP_I64, 0);
        switch (uop_range_axis(k->ranges[r])) {
        case UOP_AXIS_GLOBAL:
            e->globals |= bit;
            break;
        case UOP_AXIS_LOCAL:
        case UOP_AXIS_GROUP:
            e->threads |= bit;
            break;
        case UOP_AXIS_UPCAST:
        case UOP_AXIS_UNROLL:
            e->copied |= bit;
            break;
        case UOP_AXIS_VECTOR:
            e->vectors |= bit;
            break;
        case UOP_AXIS_LOOP:
        case UOP_AXIS_REDUCE:
        case UOP_AXIS_COUNT:
            e->loops |= bit;
            break;
        }
    }
    BELL_TRY(expand_map_threads(e, program));
    for (loops = e->loops; loops; loops &= loops - 1)
        BELL_TRY(make_loop(e, (uint32_t)__builtin_ctzll(loops)));
    return BELL_OK;
}

/* Places of nodes[] ordered by level, then by id. */
static bell_status
order_by_level(struct kernel *k, const uint32_t **out_order,
               uint32_t *out_n_levels)
{
    uint32_t i, n_levels = 1, *start, *order;

    for (i = 0; i < k->n_nodes; i++)
        n_levels = k->levels[i] >= n_levels ? k->levels[i] + 1 : n_levels;
    start = arena_calloc(&k->mem, n_levels + 1, sizeof(*start));
    order = arena_alloc(&k->mem, k->n_nodes * sizeof(*order));
    if (!start || !order)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (i = 0; i < k->n_nodes; i++)
        start[k->levels[i] + 1]++;
    for (i = 0; i < n_levels; i++)
        start[i + 1] += start[i];
    for (i = 0; i < k->n_nodes; i++)
        order[start[k->levels[i]]++] = i;
    *out_order = order;
    *out_n_levels = n_levels;
    return BELL_OK;
}

static bell_status
make_values(struct expand *e)
{
    struct kernel *k = e->k;
    const uint32_t *order = NULL;
    const struct uop **src;
    uint32_t i, level, n_levels = 0, at = 0, group = 0, widest = 1;

    BELL_TRY(order_by_level(k, &order, &n_levels));
    for (i = 0; i < k->n_nodes; i++)
        widest = k->nodes[i]->n_src > widest ? k->nodes[i]->n_src : widest;
    src = arena_alloc(&k->mem, widest * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (level = 0; level < n_levels; level++) {
        for (; group < k->n_groups && k->groups[group].level == level; group++)
            BELL_TRY(expand_group(e, &k->groups[group]));
        for (; at < k->n_nodes && k->levels[order[at]] == level; at++) {
            const struct uop *u = k->nodes[order[at]];
            if (u->op != UOP_REDUCE && u->op != UOP_SINK)
                BELL_TRY(make_instances(e, u, &e->inst[order[at]], src));
        }
    }
    return BELL_OK;
}

bell_status
expand_kernel(struct kernel *k, const struct uop **out_sink,
              struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g};

    assert(kernel_is_canonical(k));
    BELL_TRY(map_ranges(&e, program));
    BELL_TRY(prepare_insts(&e));
    BELL_TRY(alloc_insts(&e));
    BELL_TRY(expand_copy_stages(&e));
    BELL_TRY(expand_fill_packs(&e));
    BELL_TRY(make_values(&e));
    program->shared_bytes = e.shared_bytes;
    return expand_close(&e, out_sink);
}
