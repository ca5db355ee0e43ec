/* The pass that leaves only what a target can do (see lower.h for the list).
 *
 * Goes through the nodes once, sources first, and rebuilds each on its new
 * sources. An op's replacement is made from ops that stay; only where
 * simplification brought a decomposed op back is there another round.
 */
#include "lower/decompose/decompose_internal.h"

#include <assert.h>

#include "base/alloc.h"

#define MAX_ROUNDS 4

/* ---- shorthands ---- */

static const struct uop *
with_lanes(const struct dec *d, const struct uop *like, const struct uop *c)
{
    union uop_arg none = {.bits = 0};

    if (like->lanes == 1)
        return c;
    return uop_new(d->g, UOP_BROADCAST, c->dtype, like->lanes, none, &c, 1);
}

const struct uop *
dec_int(const struct dec *d, const struct uop *like, enum uop_dtype dtype,
        int64_t value)
{
    return with_lanes(d, like, uop_const_int(d->g, dtype, value));
}

bool
dec_const_int(const struct uop *u, int64_t *out_value)
{
    if (u->op == UOP_BROADCAST)
        u = u->src[0];
    if (u->op != UOP_CONST)
        return false;
    *out_value = u->arg.i;
    return true;
}

const struct uop *
dec_float(const struct dec *d, const struct uop *like, enum uop_dtype dtype,
          double value)
{
    return with_lanes(d, like, uop_const_float(d->g, dtype, value));
}

const struct uop *
dec_bits(const struct dec *d, const struct uop *a, enum uop_dtype dtype)
{
    union uop_arg none = {.bits = 0};

    if (a->dtype == dtype)
        return a;
    return uop_make(d->g, UOP_BITCAST, dtype, a->lanes, none, &a, 1);
}

const struct uop *
dec_madd(const struct dec *d, const struct uop *a, const struct uop *b,
         const struct uop *c)
{
    if (d->target->has_fma)
        return uop_alu3(d->g, UOP_MULACC, a, b, c);
    return dec_op2(d, UOP_ADD, dec_op2(d, UOP_MUL, a, b), c);
}

const struct uop *
dec_poly(const struct dec *d, const struct uop *x, enum uop_dtype dtype,
         const double *c, unsigned n)
{
    const struct uop *p = dec_float(d, x, dtype, c[n - 1]);

    assert(n > 0);
    assert(x->dtype == dtype || d->g->failed);
    while (--n > 0)
        p = dec_madd(d, p, x, dec_float(d, x, dtype, c[n - 1]));
    return p;
}

/* ---- one op ---- */

/* Arithmetic on small floats that the target does as it is. It gives what F32,
 * rounded, would. */
static bool
is_native_small(const struct dec *d, const struct uop *u)
{
    if (!(d->target->small_math >> u->src[0]->dtype & 1))
        return false;
    switch (u->op) {
    case UOP_ADD:
    case UOP_SUB:
    case UOP_MUL:
    case UOP_MAX:
    case UOP_MIN:
    case UOP_NEG:
    case UOP_CMPLT:
    case UOP_CMPEQ:
    case UOP_CMPNE:
        return true;
    default:
        return false;
    }
}

static bool
is_native_approx(const struct dec *d, const struct uop *u)
{
    if (map_get(d->kept, u->id))
        return true;
    return d->target->is_approx && u->dtype == UOP_F32 &&
           (u->op == UOP_EXP2 || u->op == UOP_LOG2 || u->op == UOP_SIN ||
            u->op == UOP_COS || u->op == UOP_RECIP);
}

/* True for what must not remain. */
static bool
must_go(const struct dec *d, const struct uop *u)
{
    switch (u->op) {
    case UOP_EXP2:
    case UOP_LOG2:
    case UOP_SIN:
    case UOP_COS:
    case UOP_RECIP:
        return !is_native_approx(d, u);
    case UOP_POW:
    case UOP_FMOD:
    case UOP_FFLOORDIV:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return true;
    default:
        break;
    }
    return uop_has(u, UOP_FLAG_ALU) && u->op != UOP_WHERE &&
           uop_dtype_is_small(u->src[0]->dtype) && !is_native_small(d, u);
}

/* x where u is max(x, -x) + 0; else NULL. */
static const struct uop *
find_abs(const struct uop *u)
{
    const struct uop *max = u->src[0], *zero = u->src[1];

    if (zero->op == UOP_BROADCAST)
        zero = zero->src[0];
    if (zero->op != UOP_CONST || zero->arg.f != 0 || max->op != UOP_MAX)
        return NULL;
    if (max->src[1]->op == UOP_NEG && max->src[1]->src[0] == max->src[0])
        return max->src[0];
    if (max->src[0]->op == UOP_NEG && max->src[0]->src[0] == max->src[1])
        return max->src[1];
    return NULL;
}

/* Absolute values, written as maxima, become one operation on bits. */
static const struct uop *
decompose_sum(const struct dec *d, const struct uop *u)
{
    const struct uop *x = find_abs(u);
    bool is_f64 = u->dtype == UOP_F64;

    if (!x)
        return u;
    x = dec_bits(d, x, is_f64 ? UOP_U64 : UOP_U32);
    x = dec_opi(d, UOP_AND, x, is_f64 ? INT64_MAX : INT32_MAX);
    return dec_bits(d, x, u->dtype);
}

static const struct uop *
decompose_function(const struct dec *d, const struct uop *u)
{
    assert(u->n_src > 0 && uop_is_float(u->src[0]));
    if (is_native_approx(d, u))
        return u;
    switch (u->op) {
    case UOP_EXP2:
        return dec_exp2(d, u->src[0]);
    case UOP_LOG2:
        return dec_log2(d, u->src[0]);
    case UOP_SIN:
    case UOP_COS:
        return dec_sin_or_cos(d, u->op, u->src[0]);
    case UOP_POW:
        return dec_pow(d, u->src[0], u->src[1]);
    case UOP_FMOD:
        return dec_fmod(d, u->src[0], u->src[1]);
    case UOP_FFLOORDIV:
        return dec_ffloordiv(d, u->src[0], u->src[1]);
    case UOP_RECIP:
        return dec_op2(d, UOP_FDIV, dec_float(d, u, u->dtype, 1), u->src[0]);
    case UOP_MULACC:
        return dec_madd(d, u->src[0], u->src[1], u->src[2]);
    case UOP_ADD:
        return decompose_sum(d, u);
    default:
        return u;
    }
}

/* An ALU op on floats that are not small. */
static const struct uop *
make_function(const struct dec *d, const struct uop *u,
              const struct uop *const *src)
{
    enum uop_dtype dtype = (u->dtype == UOP_BOOL) ? UOP_BOOL : src[0]->dtype;

    return uop_make(d->g, u->op, dtype, u->lanes, u->arg, src, u->n_src);
}

/* NEG where it only flips a bit. */
static const struct uop *
negate_small(const struct dec *d, const struct uop *u)
{
    bool is_byte = uop_dtype_is_f8(u->dtype);
    const struct uop *r = dec_bits(d, u->src[0], is_byte ? UOP_U8 : UOP_U16);

    r = dec_opi(d, UOP_XOR, r, is_byte ? 0x80 : 0x8000);
    return dec_bits(d, r, u->dtype);
}

/* In F32, rounded after. */
static const struct uop *
decompose_small(const struct dec *d, const struct uop *u)
{
    const struct uop *src[3], *r;
    uint32_t i;

    assert(u->n_src <= 3);
    if (u->op == UOP_NEG && uop_dtype_infos[u->dtype].has_minus_zero)
        return negate_small(d, u);
    for (i = 0; i < u->n_src; i++)
        src[i] = dec_cast(d, u->src[i], UOP_F32);
    r = make_function(d, u, src);
    if (uop_has(r, UOP_FLAG_ALU))
        r = decompose_function(d, r);
    return dec_cast(d, r, u->dtype);
}

/* The lanes are joined in F32 and rounded once. */
static const struct uop *
reduce_small(const struct dec *d, const struct uop *u)
{
    const struct uop *wide = dec_cast(d, u->src[0], UOP_F32);

    wide = uop_make(d->g, UOP_LANES_REDUCE, UOP_F32, 1, u->arg, &wide, 1);
    return dec_cast(d, wide, u->dtype);
}

static const struct uop *
decompose_alu(const struct dec *d, const struct uop *u)
{
    const struct uop *r;

    if (u->op == UOP_WHERE)
        return u;
    if (uop_dtype_is_small(u->src[0]->dtype))
        return is_native_small(d, u) ? u : decompose_small(d, u);
    if (uop_is_float(u->src[0]))
        return decompose_function(d, u);
    if (u->src[0]->dtype == UOP_BOOL) {
        r = dec_bool(d, u);
        return r ? r : u;
    }
    switch (u->op) {
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return dec_div(d, u->op, u->src[0], u->src[1]);
    case UOP_SHL:
    case UOP_SHR:
        return dec_shift(d, u->op, u->src[0], u->src[1]);
    default:
        return u;
    }
}

/* The number is in the low bits of the argument. */
static const struct uop *
decompose_var(const struct dec *d, const struct uop *u)
{
    static const enum uop_dtype words[] = {0, UOP_U8, UOP_U16, 0,      UOP_U32,
                                           0, 0,      0,       UOP_I64};
    const struct uop *word;

    if (u->dtype == UOP_I64)
        return u;
    word = uop_new(d->g, UOP_VAR, UOP_I64, 1, u->arg, NULL, 0);
    if (!uop_is_float(u))
        return uop_cast(d->g, word, u->dtype);
    word = uop_cast(d->g, word, words[uop_dtype_infos[u->dtype].size_bytes]);
    return dec_bits(d, word, u->dtype);
}

/* After the first round everything has been seen, so that guards are not put
 * around guarded ops again. */
static const struct uop *
decompose_one(const struct dec *d, const struct uop *u, bool first,
              bool is_rounded)
{
    const struct uop *r = is_rounded ? dec_approximate(d, u) : NULL;

    if (r || (!first && !must_go(d, u)))
        return r ? r : u;
    if (u->op == UOP_VAR)
        return decompose_var(d, u);
    if (u->op == UOP_CAST)
        return dec_cast(d, u->src[0], u->dtype);
    if (u->op == UOP_LANES_REDUCE && uop_dtype_is_small(u->dtype))
        return reduce_small(d, u);
    if (uop_has(u, UOP_FLAG_ALU))
        return decompose_alu(d, u);
    return u;
}

/* ---- the pass ---- */

/* `u` on its new sources; to[] is by id. */
static const struct uop *
rebuild(const struct dec *d, const struct uop *u, const struct uop *const *to,
        const struct uop **buf)
{
    bool changed = false;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        buf[i] = to[u->src[i]->id];
        changed |= buf[i] != u->src[i];
    }
    if (!changed)
        return u;
    return uop_make(d->g, u->op, u->dtype, u->lanes, u->arg, buf, u->n_src);
}

/* *out_left: whether something that must go has stayed or been made, under the
 * roots or not. rounded: by id, of the first round; else NULL. */
static bell_status
run_dec_round(const struct dec *d, const struct uop **roots, size_t n_roots,
              const struct uop *const *list, size_t n, const uint8_t *rounded,
              bool *out_left)
{
    size_t n_before = d->g->n_nodes, i;
    const struct uop **to, **buf;
    uint32_t max_src = 1;

    *out_left = false;

    for (i = 0; i < n; i++)
        max_src = list[i]->n_src > max_src ? list[i]->n_src : max_src;
    to = host_calloc(n ? (size_t)list[n - 1]->id + 1 : 1, sizeof(*to));
    buf = host_alloc(max_src * sizeof(*buf));
    if (to && buf) {
        for (i = 0; i < n; i++) {
            const struct uop *u = list[i];
            to[u->id] = decompose_one(d, rebuild(d, u, to, buf), rounded,
                                      rounded && rounded[u->id]);
            *out_left |= to[u->id] == u && must_go(d, u);
        }
        for (i = n_before; i < d->g->n_nodes && !*out_left; i++)
            *out_left = must_go(d, d->g->nodes[i]);
        for (i = 0; i < n_roots; i++)
            roots[i] = to[roots[i]->id];
    } else {
        d->g->failed = true;
    }
    host_free(buf);
    host_free(to);
    return uop_graph_status(d->g);
}

/* True if something is left that must go. */
static bool
find_left(const struct dec *d, const struct uop *const *list, size_t n)
{
    size_t i;

    assert(list);
    for (i = 0; i < n; i++) {
        if (must_go(d, list[i]))
            return true;
    }
    return false;
}

static bell_status
run_rounds(const struct dec *d, const struct uop **roots, size_t n_roots)
{
    uint8_t *rounded = NULL;
    const struct uop **list;
    bell_status status;
    size_t n, round;
    bool left;

    BELL_TRY(uop_toposort(d->g, roots, n_roots, &list, &n));
    for (round = 0; round < MAX_ROUNDS; round++) {
        status = round ? BELL_OK : dec_find_rounded(list, n, &rounded);
        if (status == BELL_OK)
            status = run_dec_round(d, roots, n_roots, list, n, rounded, &left);
        host_free(rounded);
        rounded = NULL;
        host_free(list);
        if (status != BELL_OK || !left)
            return status;
        BELL_TRY(uop_toposort(d->g, roots, n_roots, &list, &n));
        if (!find_left(d, list, n)) {
            host_free(list);
            return BELL_OK;
        }
    }
    host_free(list);
    return bell_fail(BELL_E_INTERNAL,
                     "decomposed ops come back after %d rounds", MAX_ROUNDS);
}

bell_status
lower_decompose(struct uop_graph *g, const struct uop **roots, size_t n_roots,
                const struct lower_target *target)
{
    struct map kept;
    struct dec d = {g, target, &kept};
    bell_status status;

    assert(n_roots > 0 && target);
    map_init(&kept);
    status = run_rounds(&d, roots, n_roots);
    map_fini(&kept);
    return status;
}
