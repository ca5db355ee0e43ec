/* Sums of products with small integers, by products of bytes.
 *
 * The floats that a block's integers are multiplied by are the same for all
 * rows. It is written once, in a scale of its own for each block, as numbers of
 * 24 bits, and these as three digits of 8 bits, of which 0 is in the middle:
 *
 *     x = scale * (65536 * c + 256 * b + a),    -128 <= a, b, c <= 127
 *
 * Then a row's sum over a block is three sums of products of bytes, which are
 * exact, and one product with both scales. The scale is a power of two such
 * that the greatest x of a block has 22 or 23 bits and a sign: no x is moved by
 * more than 2^-23 of that (rounding to F32 moves it by 2^-24). A block with
 * infinities or NaN has the scale NaN.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

#define LANES      KERNEL_DIGITS_LANES
#define BLOCKS     KERNEL_DIGITS_BLOCKS
#define BYTES      (LANES * BLOCKS) /* of a vector */
#define N_DIGITS   3
#define MAX_PARTS  2
#define MIDDLE     0x808080  /* all digits 128 */
#define HEADROOM   1.0078125 /* a number of 23 bits, times this, may be 2^23 */
#define ONE_BITS   127       /* exponent of 1.0, as F32 has it */
#define DIGIT_BITS 22        /* those of a power of two in digits */
#define EXPONENT   23        /* place in F32 */
#define RAISE      0x1p64
#define MIN_POWER  64 /* exponent of RAISE times 2^-127, as F32 has it */

static const union uop_arg no_arg = {.bits = 0};

/* Arrays in LOCAL memory, filled. */
struct digits {
    struct kernel_digits of;
    int64_t n_parts;
    const struct uop *bytes; /* of vectors of bytes, of parts, of digits */
    const struct uop *first; /* I32: what bias adds, by word of bytes */
    const struct uop *scale; /* F32, by word of bytes */
};

static const struct uop *
splat(struct expand *e, enum uop_dtype dtype, int64_t value, uint16_t lanes)
{
    return expand_broadcast(e, uop_const_int(e->g, dtype, value), lanes);
}

static const struct uop *
shift_left(struct expand *e, const struct uop *x, int64_t n)
{
    return uop_alu2(e->g, UOP_SHL, x, uop_const_like(e->g, x, n));
}

static const struct uop *
bits_as(struct expand *e, const struct uop *x, enum uop_dtype dtype)
{
    return uop_make(e->g, UOP_BITCAST, dtype, x->lanes, no_arg, &x, 1);
}

static const struct uop *
store_to(struct expand *e, const struct uop *memory, const struct uop *index,
         const struct uop *value)
{
    const struct uop *src[3] = {memory, index, value};

    return uop_new(e->g, UOP_STORE, UOP_VOID, 1, no_arg, src, 3);
}

/* The end of the loop `range`, whose effects are src[1..n]. */
static const struct uop *
end_of(struct expand *e, const struct uop *range, const struct uop **src,
       uint32_t n)
{
    src[0] = range;
    return uop_new(e->g, UOP_END, UOP_VOID, 1, no_arg, src, n + 1);
}

/* ---- floats in digits ---- */

/* The product of the factors, by part, at base[]. */
static bell_status
make_factors(struct expand *e, const struct digits *d, const struct uop **out)
{
    struct expand_inst *before;
    uint32_t i;
    int64_t part;

    for (i = 0; i < d->of.n_factors; i++) {
        BELL_TRY(expand_apart(e, d->of.factors[i], &before));
        for (part = 0; part < d->n_parts; part++) {
            const struct uop *x;
            if (d->of.part >= 0)
                e->digit[d->of.part] = (uint32_t)part;
            x = expand_value(e, d->of.factors[i], LANES);
            out[part] = i ? uop_alu2(e->g, UOP_MUL, out[part], x) : x;
        }
        e->inst = before;
    }
    return uop_graph_status(e->g);
}

/* Scale of a block, and two factors that take its x to numbers of digits. Small
 * x are made larger first, since 1/scale may be more than F32 holds; the least
 * scale is the least number there is, of which all x are multiples. */
static const struct uop *
make_scale(struct expand *e, const struct digits *d, const struct uop *const *x,
           const struct uop **out_factors)
{
    const struct uop *most = NULL, *power, *scale, *is_small,
                     *one = uop_const_float(e->g, UOP_F32, 1);
    union uop_arg max = {.i = UOP_MAX};
    int64_t part;

    for (part = 0; part < d->n_parts; part++) {
        const struct uop *u = bits_as(e, x[part], UOP_U32);
        u = uop_alu2(e->g, UOP_AND, u, uop_const_like(e->g, u, 0x7fffffff));
        u = bits_as(e, u, UOP_F32);
        most = most ? uop_alu2(e->g, UOP_MAX, most, u) : u;
    }
    most = uop_make(e->g, UOP_LANES_REDUCE, UOP_F32, 1, max, &most, 1);
    is_small = uop_alu2(e->g, UOP_CMPLT, most, one);
    out_factors[0] = uop_alu3(e->g, UOP_WHERE, is_small,
                              uop_const_float(e->g, UOP_F32, RAISE), one);
    most = uop_alu2(e->g, UOP_MUL, most, out_factors[0]);
    power = bits_as(
        e,
        uop_alu2(e->g, UOP_MUL, most, uop_const_float(e->g, UOP_F32, HEADROOM)),
        UOP_U32);
    power = uop_alu2(e->g, UOP_AND, power,
                     uop_const_int(e->g, UOP_U32, 0x7f800000));
    power = uop_alu2(e->g, UOP_MAX, power,
                     uop_const_int(e->g, UOP_U32, MIN_POWER << EXPONENT));
    out_factors[1] = uop_alu2(
        e->g, UOP_SUB,
        uop_const_int(e->g, UOP_U32,
                      (int64_t)(2 * ONE_BITS + DIGIT_BITS) << EXPONENT),
        power);
    out_factors[1] = bits_as(e, out_factors[1], UOP_F32);
    scale = uop_alu2(e->g, UOP_SUB, power,
                     uop_const_int(e->g, UOP_U32, DIGIT_BITS << EXPONENT));
    scale = uop_alu2(e->g, UOP_MUL, bits_as(e, scale, UOP_F32),
                     uop_alu3(e->g, UOP_WHERE, is_small,
                              uop_const_float(e->g, UOP_F32, 1 / RAISE), one));
    /* NaN, or 0 */
    return uop_alu2(e->g, UOP_ADD, scale, uop_alu2(e->g, UOP_SUB, most, most));
}

/* x in numbers of 24 bits, MIDDLE being 0. */
static const struct uop *
make_number(struct expand *e, const struct uop *x,
            const struct uop *const *factors)
{
    const struct uop *half[3] = {
        uop_alu2(e->g, UOP_CMPLT, x,
                 expand_broadcast(e, uop_const_float(e->g, UOP_F32, 0), LANES)),
        expand_broadcast(e, uop_const_float(e->g, UOP_F32, -0.5), LANES),
        expand_broadcast(e, uop_const_float(e->g, UOP_F32, 0.5), LANES)};
    const struct uop *n =
        uop_alu2(e->g, UOP_MUL, x, expand_broadcast(e, factors[0], LANES));

    n = uop_alu2(e->g, UOP_MUL, n, expand_broadcast(e, factors[1], LANES));
    n = uop_alu2(e->g, UOP_ADD, n,
                 uop_alu3(e->g, UOP_WHERE, half[0], half[1], half[2]));
    n = uop_cast(e->g, n, UOP_I32);
    return uop_alu2(e->g, UOP_ADD, n, splat(e, UOP_I32, MIDDLE, LANES));
}

/* Elements before those of this vector of bytes, part and digit. */
static const struct uop *
bytes_index(struct expand *e, const struct digits *d, const struct uop *vector,
            int64_t part, int64_t digit)
{
    int64_t per_vector = d->n_parts * N_DIGITS * BYTES;

    return expand_op_num(e, UOP_ADD,
                         expand_op_num(e, UOP_MUL, vector, per_vector),
                         (part * N_DIGITS + digit) * BYTES);
}

/* Fills d->bytes and d->scale. `number` is the loop's. */
static bell_status
fill_digits(struct expand *e, struct digits *d, uint32_t number)
{
    int64_t n_blocks = e->k->sizes[d->of.block], part, digit;
    const struct uop *src[2 + MAX_PARTS * N_DIGITS], *end, *x[MAX_PARTS],
        *factors[2], *scale, *block, *vector, *place,
        *base = e->base[d->of.block];
    uint32_t n = 0;

    block = expand_filling_loop(e, number, n_blocks);
    e->base[d->of.block] = block;
    BELL_TRY(make_factors(e, d, x));
    e->base[d->of.block] = base;
    scale = make_scale(e, d, x, factors);
    vector = expand_op_num(e, UOP_FLOORDIV, block, BLOCKS);
    place = expand_op_num(e, UOP_MUL,
                          expand_op_num(e, UOP_FLOORMOD, block, BLOCKS), LANES);
    for (part = 0; part < d->n_parts; part++) {
        const struct uop *u = make_number(e, x[part], factors);
        for (digit = 0; digit < N_DIGITS; digit++) {
            const struct uop *byte =
                uop_alu2(e->g, UOP_SHR, u, uop_const_like(e->g, u, 8 * digit));
            byte =
                uop_alu2(e->g, UOP_XOR, byte, uop_const_like(e->g, byte, 128));
            src[++n] = store_to(e, d->bytes,
                                uop_alu2(e->g, UOP_ADD,
                                         bytes_index(e, d, vector, part, digit),
                                         place),
                                uop_cast(e->g, byte, UOP_I8));
        }
    }
    src[++n] =
        store_to(e, d->scale, expand_op_num(e, UOP_MUL, block, LANES / 4),
                 expand_broadcast(e, scale, LANES / 4));
    end = end_of(e, block, src, n);
    d->bytes = expand_after(e, d->bytes, end);
    d->scale = expand_after(e, d->scale, end);
    return uop_graph_status(e->g);
}

/* ---- products ---- */

/* In each word the sum of products of bytes[], by part, and numbers in digits
 * of the vector, plus `first`. */
static const struct uop *
dot(struct expand *e, const struct digits *d, const struct uop *vector,
    const struct uop *const *bytes, const struct uop *first)
{
    const struct uop *sum = NULL;
    int64_t digit, part;

    for (digit = N_DIGITS - 1; digit >= 0; digit--) {
        const struct uop *src[3] = {digit == 0 ? first
                                               : splat(e, UOP_I32, 0, LANES)};
        for (part = 0; part < d->n_parts; part++) {
            src[1] = bytes[part];
            src[2] = expand_load(e, d->bytes,
                                 bytes_index(e, d, vector, part, digit), BYTES);
            src[0] =
                uop_make(e->g, UOP_BYTE_DOT, UOP_I32, LANES, no_arg, src, 3);
        }
        sum = sum ? uop_alu2(e->g, UOP_ADD, shift_left(e, sum, 8), src[0])
                  : src[0];
    }
    return sum;
}

/* Fills d->first: the numbers' sums times the bias. */
static void
fill_first(struct expand *e, struct digits *d, uint32_t number)
{
    const struct uop *vector =
        expand_filling_loop(e, number, e->k->sizes[d->of.block] / BLOCKS);
    const struct uop *ones[MAX_PARTS], *sum, *src[2];

    ones[0] = ones[1] = splat(e, UOP_U8, 1, BYTES);
    sum = dot(e, d, vector, ones, splat(e, UOP_I32, 0, LANES));
    sum = uop_alu2(e->g, UOP_MUL, sum, uop_const_like(e->g, sum, d->of.bias));
    src[1] =
        store_to(e, d->first, expand_op_num(e, UOP_MUL, vector, LANES), sum);
    d->first = expand_after(e, d->first, end_of(e, vector, src, 1));
}

static bell_status
make_digits(struct expand *e, struct digits *d, uint32_t *number)
{
    int64_t n_blocks = e->k->sizes[d->of.block];

    d->n_parts = d->of.part < 0 ? 1 : e->k->sizes[d->of.part];
    assert(d->n_parts <= MAX_PARTS && n_blocks % BLOCKS == 0);
    d->bytes = expand_local(
        e, UOP_I8, (uint64_t)(n_blocks * d->n_parts * N_DIGITS) * LANES);
    d->first = expand_local(e, UOP_I32, (uint64_t)n_blocks * LANES / 4);
    d->scale = expand_local(e, UOP_F32, (uint64_t)n_blocks * LANES / 4);
    BELL_TRY(fill_digits(e, d, (*number)++));
    fill_first(e, d, (*number)++);
    return uop_graph_status(e->g);
}

/* A member of the group, in the loop over vectors. */
struct member {
    const struct uop *reduce;
    const struct digits *digits;
    struct expand_inst *bits, *scale; /* instances, made for the loop */
    const struct uop **accs;          /* by copy */
};

/* The bits of all bytes of the vector x, at digit[]. */
static const struct uop *
bits_of(struct expand *e, const struct kernel_digits *of, const struct uop *x)
{
    uint32_t i;

    for (i = of->n_chain; i-- > 0;) {
        const struct uop *u = of->chain[i], *by;
        if (u->op == UOP_AND) {
            x = uop_alu2(e->g, UOP_AND, x,
                         uop_const_like(e->g, x, u->src[1]->arg.i & 255));
        } else if (u->op == UOP_SHR) {
            by = uop_cast(e->g, expand_value(e, u->src[1], 1), UOP_U8);
            x = uop_alu2(e->g, UOP_SHR, x, expand_broadcast(e, by, BYTES));
        }
    }
    return x;
}

/* Where the LOAD begins, at digit[] and in lane 0, of instances made apart. */
static const struct uop *
begin_of(struct expand *e, struct expand_inst *insts, const struct uop *load)
{
    const struct expand_inst *inst = &insts[kernel_pos(e->k, load->src[1])];

    return inst->scalar[expand_copy(e, inst)];
}

/* What this vector of a row makes of the sum `acc`, at digit[]. */
static const struct uop *
add_vector(struct expand *e, const struct member *m, const struct uop *vector,
           const struct uop *acc)
{
    const struct digits *d = m->digits;
    const struct uop *load = d->of.scale, *bytes, *bits[MAX_PARTS], *scale,
                     *sum, *at = expand_op_num(e, UOP_MUL, vector, LANES);
    struct expand_inst *before = e->inst;
    union uop_arg repeat = {.i = LANES / 4};
    int64_t part;

    bytes = expand_load(e, d->of.bytes->src[0],
                        begin_of(e, m->bits, d->of.bytes), BYTES);
    e->inst = m->bits;
    for (part = 0; part < d->n_parts; part++) {
        if (d->of.part >= 0)
            e->digit[d->of.part] = (uint32_t)part;
        bits[part] = bits_of(e, &d->of, bytes);
    }
    e->inst = before;
    sum = dot(e, d, vector, bits, expand_load(e, d->first, at, LANES));
    sum = uop_alu2(e->g, UOP_MUL, uop_cast(e->g, sum, UOP_F32),
                   expand_load(e, d->scale, at, LANES));
    if (load->op == UOP_CAST)
        load = load->src[0];
    scale = expand_load(e, load->src[0], begin_of(e, m->scale, load), BLOCKS);
    scale = uop_cast(e->g, scale, UOP_F32);
    scale = uop_make(e->g, UOP_LANES_REPEAT, UOP_F32, LANES, repeat, &scale, 1);
    return uop_alu3(e->g, UOP_MULACC, sum, scale, acc);
}

/* Adds a member's ACC_SETs to effects[]; returns how many there are then. */
static bell_status
make_digits_body(struct expand *e, const struct kernel_group *group,
                 struct member *m, const struct uop *vector,
                 const struct uop **effects, uint32_t *n)
{
    const struct kernel_digits *of = &m->digits->of;
    const struct expand_inst *inst = &e->inst[kernel_pos(e->k, m->reduce)];
    const struct uop *src[1 + KERNEL_MAX_RANGES], *base = e->base[of->block];
    struct expand_inst *before;
    uint32_t copy;

    m->accs = arena_alloc(&e->k->mem, inst->n_copies * sizeof(*m->accs));
    if (!m->accs)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", e->k->n_nodes);
    e->base[of->block] = expand_op_num(e, UOP_MUL, vector, BLOCKS);
    BELL_TRY(expand_apart(e, of->n_chain ? of->chain[0] : of->bytes, &before));
    m->bits = e->inst;
    e->inst = before;
    BELL_TRY(expand_apart(e, of->scale, &before));
    m->scale = e->inst;
    e->inst = before;
    e->base[of->block] = base;
    for (copy = 0; copy < inst->n_copies; copy++) {
        union uop_arg arg = {.i = e->n_accs++};
        expand_set_digits(e, inst->copied, copy);
        src[0] = expand_broadcast(e, uop_const_float(e->g, UOP_F32, 0), LANES);
        m->accs[copy] = uop_new(e->g, UOP_ACC, UOP_F32, LANES, arg, src,
                                expand_add_loops(e, group->context, src, 1));
        src[0] = m->accs[copy];
        src[1] = vector;
        src[1] = uop_new(e->g, UOP_ACC_GET, UOP_F32, LANES, no_arg, src, 2);
        src[1] = add_vector(e, m, vector, src[1]);
        effects[(*n)++] =
            uop_new(e->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, src, 2);
    }
    return uop_graph_status(e->g);
}

/* The sums after the loop. */
static void
finish_sums(struct expand *e, const struct member *m, const struct uop *end)
{
    struct expand_inst *inst = &e->inst[kernel_pos(e->k, m->reduce)];
    union uop_arg add = {.i = UOP_ADD};
    uint32_t copy;

    for (copy = 0; copy < inst->n_copies; copy++) {
        const struct uop *src[2] = {m->accs[copy], end};
        src[0] = uop_new(e->g, UOP_ACC_GET, UOP_F32, LANES, no_arg, src, 2);
        inst->scalar[copy] =
            uop_make(e->g, UOP_LANES_REDUCE, UOP_F32, 1, add, src, 1);
    }
}

/* Are x and y numbers of the same factors, in the same order? */
static bool
are_same(const struct kernel_digits *x, const struct kernel_digits *y)
{
    return x->block == y->block && x->lane == y->lane && x->part == y->part &&
           x->bias == y->bias && x->n_factors == y->n_factors &&
           memcmp(x->factors, y->factors,
                  x->n_factors * sizeof(x->factors[0])) == 0;
}

bell_status
expand_digits(struct expand *e, const struct kernel_group *group)
{
    uint32_t n = group->n_members, i, j, number = 0, n_effects = 0, max = 1;
    struct kernel *k = e->k;
    struct digits *d = arena_calloc(&k->mem, n, sizeof(*d));
    struct member *m = arena_calloc(&k->mem, n, sizeof(*m));
    const struct uop **src, *vector, *end;

    for (i = 0; i < n; i++)
        max += e->inst[kernel_pos(k, group->members[i])].n_copies;
    src = arena_alloc(&k->mem, max * sizeof(*src));
    if (!d || !m || !src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (i = 0; i < n; i++) {
        m[i].reduce = group->members[i];
        if (!kernel_find_digits(k, group, m[i].reduce, &d[i].of))
            return bell_fail(BELL_E_INTERNAL, "a sum is not one of digits");
        for (j = 0; j < i && !are_same(&d[i].of, &d[j].of); j++)
            ;
        if (j == i) {
            BELL_TRY(make_digits(e, &d[i], &number));
        } else {
            struct kernel_digits of = d[i].of;
            d[i] = d[j];
            d[i].of = of;
        }
        m[i].digits = &d[i];
    }
    vector = expand_filling_loop(e, number, k->sizes[d[0].of.block] / BLOCKS);
    for (i = 0; i < n; i++)
        BELL_TRY(
            make_digits_body(e, group, &m[i], vector, src + 1, &n_effects));
    end = end_of(e, vector, src, n_effects);
    for (i = 0; i < n; i++)
        finish_sums(e, &m[i], end);
    return uop_graph_status(e->g);
}
