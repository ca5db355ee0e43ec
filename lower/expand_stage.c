/* Tiles in LOCAL memory.
 *
 * What the threads of a work-group load in the steps of a tile is loaded once,
 * by all of them together, and read from LOCAL memory then:
 *
 *   loop over tiles
 *       each thread loads its share of every operand's tile and stores it
 *       BARRIER
 *       loops inside the tile: operands come from LOCAL memory
 *       BARRIER
 *
 * An operand is a LOAD that varies with the tile's steps and not with all
 * threads. Its tile is an array over the ranges that it varies with inside a
 * work-group: those of the reduction first (slowest), then the others in nest
 * order. All sizes are powers of two.
 */
#include "lower/expand_internal.h"

#include <string.h>

#include "base/bits.h"

#define ACCESS_BYTES 16

static const union uop_arg no_arg = {.bits = 0};

static const struct uop *
num(struct expand *e, int64_t value)
{
    return uop_const_int(e->g, UOP_I64, value);
}

static const struct uop *
op_num(struct expand *e, enum uop_op op, const struct uop *a, int64_t b)
{
    return uop_alu2(e->g, op, a, num(e, b));
}

/* ---- what is an operand ---- */

/* Ranges that count inside a work-group while a tile is worked on. */
static uint64_t
tile_ranges(const struct expand *e, uint64_t deps)
{
    return deps & (e->threads | e->copied | e->vectors | e->staged);
}

static bool
are_powers(const struct kernel *k, uint64_t set)
{
    for (; set; set &= set - 1) {
        int64_t size = k->sizes[__builtin_ctzll(set)];
        if (size < 1 || size & (size - 1))
            return false;
    }
    return true;
}

static bool
is_operand(const struct expand *e, uint32_t pos)
{
    const struct kernel *k = e->k;
    const struct uop *u = k->nodes[pos];
    uint64_t set = tile_ranges(e, k->deps[pos]), vector, outputs;
    uint32_t i;

    if (u->op != UOP_LOAD || !(k->deps[pos] & e->staged) || k->levels[pos] ||
        (set & e->threads) == e->threads || !are_powers(k, set))
        return false;
    outputs = set & ~k->reduce_ranges;
    vector = set & e->vectors;
    if (vector && (vector & k->reduce_ranges || vector < (outputs & ~vector)))
        return false; /* it would not be the fastest */
    for (i = 0; i < k->sink->n_src; i++) {
        if (k->sink->src[i]->src[0] == u->src[0])
            return false;
    }
    return true;
}

/* Fills dims, the fastest last, and the strides. `pad` elements lie between
 * rows of the fast direction, against conflicts of banks. Returns the size. */
static int64_t
lay_out(const struct expand *e, struct expand_stage *s, bool reduce_fast,
        int64_t pad)
{
    const struct kernel *k = e->k;
    uint64_t parts[2] = {s->ranges & k->reduce_ranges,
                         s->ranges & ~k->reduce_ranges};
    int64_t stride = 1;
    uint32_t i, n, n_slow = 0;

    s->n_dims = 0;
    for (i = 0; i < 2; i++) {
        uint64_t set = parts[reduce_fast ? 1 - i : i];
        for (; set; set &= set - 1)
            s->dims[s->n_dims++].range = (uint32_t)__builtin_ctzll(set);
        if (i == 0)
            n_slow = s->n_dims;
    }
    for (n = s->n_dims; n-- > 0;) {
        if (n + 1 == n_slow && n_slow < s->n_dims)
            stride += pad;
        s->dims[n].stride = stride;
        stride *= k->sizes[s->dims[n].range];
    }
    return stride;
}

/* ---- the copy ---- */

/* Digits of the elements that a thread copies: dims in copy order, the
 * fastest first, are fields of the element number. */
struct copy {
    const struct expand_stage *stage;
    uint32_t order[KERNEL_MAX_RANGES]; /* places in stage->dims */
    uint32_t taken[KERNEL_MAX_RANGES]; /* log2 of what one access covers */
    uint32_t lanes;                    /* of an access */
    uint32_t n_log2;                   /* of elements, over lanes */
    uint32_t tid_log2;                 /* of threads */
    const struct uop *value[KERNEL_MAX_RANGES]; /* by range */
};

static uint32_t
log2_size(const struct expand *e, uint32_t range)
{
    return log2_floor((uint64_t)e->k->sizes[range]);
}

/* The range along which neighbours lie side by side in the buffer; false if
 * there is none. */
static bool
contiguous_range(const struct expand *e, const struct expand_stage *s,
                 uint32_t *out_range)
{
    uint64_t set;

    for (set = s->ranges; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (kernel_coef(e->k, s->load->src[1], r) == 1) {
            *out_range = r;
            return true;
        }
    }
    return false;
}

static bool
depends_on(const struct expand *e, const struct uop *u, uint32_t range)
{
    return kernel_deps(e->k, u) >> range & 1;
}

/* Does the index move by `step` along the range, and nothing else of the LOAD
 * with it? */
static bool
moves_by(const struct expand *e, const struct uop *u, uint32_t range,
         int64_t step)
{
    return kernel_coef(e->k, u->src[1], range) == step &&
           (u->n_src < 4 || (!depends_on(e, u->src[2], range) &&
                             !depends_on(e, u->src[3], range)));
}

/* The contiguous dim first; dims next to it in the same direction (of the
 * reduction, or not) follow, inner ones first, then the other direction. */
static void
order_copy(const struct expand *e, struct copy *c, uint32_t range)
{
    const struct expand_stage *s = c->stage;
    bool reduce = e->k->reduce_ranges >> range & 1;
    uint32_t i, n = 0, pass;

    for (i = 0; i < s->n_dims; i++) {
        if (s->dims[i].range == range)
            c->order[n++] = i;
    }
    for (pass = 0; pass < 2; pass++) {
        for (i = s->n_dims; i-- > 0;) {
            bool same = (e->k->reduce_ranges >> s->dims[i].range & 1) == reduce;
            if (s->dims[i].range != range && same == (pass == 0))
                c->order[n++] = i;
        }
    }
}

/* Elements that one access may take: along the first dims, as far as they lie
 * side by side in the buffer and evenly in the array. */
static void
choose_lanes(const struct expand *e, struct copy *c)
{
    const struct expand_stage *s = c->stage;
    uint32_t most = ACCESS_BYTES / uop_dtype_infos[s->load->dtype].size_bytes;
    int64_t first = s->dims[c->order[0]].stride;
    uint32_t i;

    c->lanes = 1;
    for (i = 0; i < s->n_dims && c->lanes < most; i++) {
        uint32_t r = s->dims[c->order[i]].range, size = 1;
        if (!moves_by(e, s->load, r, c->lanes) ||
            s->dims[c->order[i]].stride != first * (int64_t)c->lanes)
            return;
        while ((int64_t)size < e->k->sizes[r] && c->lanes < most) {
            size *= 2;
            c->lanes *= 2;
        }
        c->taken[i] = log2_floor(size);
        if ((int64_t)size < e->k->sizes[r])
            return;
    }
}

static void
plan_copy(const struct expand *e, const struct expand_stage *s, uint32_t range,
          struct copy *c)
{
    uint32_t i;

    memset(c, 0, sizeof(*c));
    c->stage = s;
    c->tid_log2 = log2_floor(e->k->n_threads);
    order_copy(e, c, range);
    choose_lanes(e, c);
    for (i = 0; i < s->n_dims; i++)
        c->n_log2 += log2_size(e, s->dims[i].range);
    c->n_log2 -= log2_floor(c->lanes);
}

/* Bits [low, low + n) of step << tid_log2 | tid. */
static const struct uop *
number_field(struct expand *e, const struct copy *c, uint32_t step,
             uint32_t low, uint32_t n)
{
    uint64_t high = ((uint64_t)step << c->tid_log2) >> low;
    const struct uop *v = num(e, (int64_t)(high & (((uint64_t)1 << n) - 1)));
    const struct uop *part = e->tid;

    if (low >= c->tid_log2 || !n)
        return v;
    if (low)
        part = op_num(e, UOP_FLOORDIV, part, (int64_t)1 << low);
    part = op_num(e, UOP_FLOORMOD, part, (int64_t)1 << n);
    return uop_alu2(e->g, UOP_ADD, v, part);
}

/* Values of all ranges for the element that this thread copies in `step`. */
static void
set_values(struct expand *e, struct copy *c, uint32_t step)
{
    const struct expand_stage *s = c->stage;
    uint32_t i, low = 0;

    for (i = 0; i < e->k->n_ranges; i++)
        c->value[i] = e->base[i];
    for (i = 0; i < s->n_dims; i++) {
        uint32_t r = s->dims[c->order[i]].range;
        uint32_t n = log2_size(e, r) - c->taken[i];
        c->value[r] = op_num(e, UOP_MUL, number_field(e, c, step, low, n),
                             (int64_t)1 << c->taken[i]);
        low += n;
    }
}

/* Element of the LOCAL array for the present values. */
static const struct uop *
array_index(struct expand *e, const struct copy *c)
{
    const struct expand_stage *s = c->stage;
    const struct uop *index = num(e, 0);
    uint32_t i;

    for (i = 0; i < s->n_dims; i++)
        index = uop_alu2(
            e->g, UOP_ADD, index,
            op_num(e, UOP_MUL, c->value[s->dims[i].range], s->dims[i].stride));
    return index;
}

/* The operand's LOAD for the present values. */
static bell_status
copy_load(struct expand *e, const struct copy *c, const struct uop **out)
{
    const struct kernel *k = e->k;
    const struct uop *u = c->stage->load, *src[4], *roots[3];
    uint32_t i, n = u->n_src - 1;
    uint16_t lanes = (uint16_t)c->lanes;

    for (i = 0; i < n; i++)
        roots[i] = u->src[1 + i];
    BELL_TRY(uop_substitute(e->g, roots, n, k->ranges, c->value, k->n_ranges));
    src[0] = u->src[0];
    src[1] = roots[0];
    if (n > 2) {
        src[2] = expand_broadcast(e, roots[1], lanes);
        src[3] = roots[2];
    }
    *out = uop_make(e->g, UOP_LOAD, (enum uop_dtype)u->dtype, lanes, no_arg,
                    src, n > 2 ? 4 : 2);
    return BELL_OK;
}

/* Stores what was loaded, at once where it stays side by side. *out_stores
 * get one STORE or one for each lane. */
static uint32_t
copy_store(struct expand *e, const struct copy *c, const struct uop *memory,
           const struct uop *value, const struct uop *gate,
           const struct uop **out_stores)
{
    int64_t stride = c->stage->dims[c->order[0]].stride;
    const struct uop *index = array_index(e, c), *src[4];
    uint32_t i, n = stride == 1 ? 1 : c->lanes;

    src[0] = memory;
    src[3] = gate;
    for (i = 0; i < n; i++) {
        union uop_arg lane = {.i = i};
        src[1] = op_num(e, UOP_ADD, index, (int64_t)i * stride);
        src[2] = value;
        if (n > 1)
            src[2] = uop_make(e->g, UOP_LANE, (enum uop_dtype)value->dtype, 1,
                              lane, &value, 1);
        out_stores[i] =
            uop_make(e->g, UOP_STORE, UOP_VOID, 1, no_arg, src, gate ? 4 : 3);
    }
    return n;
}

/* Copies one operand's tile; the STOREs go to stores[*n] on. */
static bell_status
copy_operand(struct expand *e, struct expand_stage *s,
             const struct uop **stores, uint32_t *n)
{
    const struct uop *u = s->load, *value = NULL, *gate = NULL;
    uint32_t range = 0, step, steps;
    int64_t pad = ACCESS_BYTES / uop_dtype_infos[u->dtype].size_bytes;
    bool along;
    struct copy c;

    s->ranges = tile_ranges(e, kernel_deps(e->k, u));
    if (!contiguous_range(e, s, &range))
        range = 63u - (uint32_t)__builtin_clzll(s->ranges);
    along = e->k->reduce_ranges >> range & 1;
    if (!along && !e->k->matrix.on)
        pad = 0; /* copied as it lies, and read in the same direction */
    s->memory =
        expand_local(e, (enum uop_dtype)u->dtype,
                     (uint64_t)lay_out(e, s, along && e->k->matrix.on, pad));
    plan_copy(e, s, range, &c);
    steps = c.n_log2 > c.tid_log2 ? 1u << (c.n_log2 - c.tid_log2) : 1;
    if (c.n_log2 < c.tid_log2)
        gate = op_num(e, UOP_CMPLT, e->tid, (int64_t)1 << c.n_log2);
    for (step = 0; step < steps; step++) {
        set_values(e, &c, step);
        BELL_TRY(copy_load(e, &c, &value));
        *n += copy_store(e, &c, s->memory, value, gate, stores + *n);
    }
    return BELL_OK;
}

/* STOREs of an operand, at most. */
static uint64_t
count_stores(const struct expand *e, uint32_t pos)
{
    uint64_t set = tile_ranges(e, e->k->deps[pos]), n = 1;

    for (; set; set &= set - 1)
        n *= (uint64_t)e->k->sizes[__builtin_ctzll(set)];
    return n / e->k->n_threads + ACCESS_BYTES;
}

static bell_status
find_operands(struct expand *e, uint64_t *out_n_stores)
{
    struct kernel *k = e->k;
    uint32_t i, n = 0;

    *out_n_stores = 0;
    for (i = 0; i < k->n_nodes; i++)
        n += is_operand(e, i);
    e->stages = arena_calloc(&k->mem, n + 1, sizeof(*e->stages));
    if (!e->stages)
        return bell_fail(BELL_E_NO_MEMORY, "expansion of %u nodes", k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        if (!is_operand(e, i))
            continue;
        e->stages[e->n_stages++].load = k->nodes[i];
        e->inst[i].stage = e->n_stages;
        *out_n_stores += count_stores(e, i);
    }
    return BELL_OK;
}

bell_status
expand_find_stages(struct expand *e)
{
    const struct kernel *k = e->k;
    uint32_t r;

    e->staged = 0;
    for (r = 0; r < k->n_ranges; r++) {
        if (k->staged >> uop_range_id(k->ranges[r]) & 1)
            e->staged |= (uint64_t)1 << r;
    }
    if (!e->staged || !e->tid)
        return BELL_OK;
    return find_operands(e, &e->n_stage_stores);
}

bell_status
expand_copy_stages(struct expand *e)
{
    const struct uop **stores, *src[2];
    uint32_t i, n = 0;

    if (!e->n_stages)
        return BELL_OK;
    stores = arena_alloc(&e->k->mem, e->n_stage_stores * sizeof(*stores));
    if (!stores)
        return bell_fail(BELL_E_NO_MEMORY, "expansion of %u nodes",
                         e->k->n_nodes);
    for (i = 0; i < e->n_stages; i++)
        BELL_TRY(copy_operand(e, &e->stages[i], stores, &n));
    src[1] = uop_new(e->g, UOP_BARRIER, UOP_VOID, 1, no_arg, stores, n);
    for (i = 0; i < e->n_stages; i++) {
        struct expand_stage *s = &e->stages[i];
        src[0] = s->memory;
        s->memory = uop_new(e->g, UOP_AFTER, (enum uop_dtype)src[0]->dtype, 1,
                            no_arg, src, 2);
    }
    if (e->shared_bytes > e->k->target->max_shared_bytes)
        return bell_fail(BELL_E_INTERNAL, "%u bytes of LOCAL memory, of %u",
                         e->shared_bytes, e->k->target->max_shared_bytes);
    return uop_graph_status(e->g);
}

/* ---- the use ---- */

/* The elements that one LOAD takes of those that copies of an operand want:
 * copies along the fastest dim lie side by side. */
static uint32_t
use_lanes(const struct expand *e, const struct expand_stage *s)
{
    uint32_t r = s->dims[s->n_dims - 1].range;
    uint32_t lanes = ACCESS_BYTES / uop_dtype_infos[s->load->dtype].size_bytes;

    if (!(e->copied >> r & 1))
        return 1;
    while ((int64_t)lanes > e->k->sizes[r])
        lanes /= 2;
    return lanes ? lanes : 1;
}

const struct uop *
expand_staged_value(struct expand *e, const struct expand_inst *inst)
{
    const struct expand_stage *s = &e->stages[inst->stage - 1];
    enum uop_dtype dtype = (enum uop_dtype)s->load->dtype;
    uint32_t lanes = inst->vec >= 0 ? inst->lanes : use_lanes(e, s), i;
    const struct uop *src[2] = {s->memory, num(e, 0)}, *value;
    union uop_arg lane = {.i = 0};
    int64_t offset = 0;

    for (i = 0; i < s->n_dims; i++) {
        uint32_t r = s->dims[i].range;
        int64_t stride = s->dims[i].stride;
        if (e->copied >> r & 1)
            offset += (int64_t)e->digit[r] * stride;
        else
            src[1] = uop_alu2(e->g, UOP_ADD, src[1],
                              op_num(e, UOP_MUL, e->base[r], stride));
    }
    if (inst->vec < 0 && lanes > 1) {
        lane.i = e->digit[s->dims[s->n_dims - 1].range] % lanes;
        offset -= lane.i;
    }
    src[1] = op_num(e, UOP_ADD, src[1], offset);
    value = uop_make(e->g, UOP_LOAD, dtype, (uint16_t)lanes, no_arg, src, 2);
    if (inst->vec >= 0 || lanes == 1)
        return value;
    return uop_make(e->g, UOP_LANE, dtype, 1, lane, &value, 1);
}

bool
expand_has_tile(const struct expand *e, uint64_t bound)
{
    return e->n_stages && bound & e->staged;
}
