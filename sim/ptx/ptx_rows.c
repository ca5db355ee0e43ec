/* Which instructions are done on all lanes at once, and by which loops. */
#define PX_ROW_SET px_rows_plain
#include "sim/ptx/ptx_rows.inc"

const struct px_row_set *
px_row_set(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &px_rows_avx2;
#endif
    return &px_rows_plain;
}

/* Registers must be as wide as the types say. */
static bool
widths_agree(const struct px_insn *in)
{
    unsigned to = px_types[in->type].bits, from = px_types[in->type2].bits;

    return in->op != PX_CVT || ((in->dst.bits == 64) == (to == 64) &&
                                (in->src[0].bits == 64) == (from == 64));
}

static bool
rounds_plainly(const struct px_insn *in)
{
    bool to_int = px_types[in->type].kind != 'f';
    unsigned round = in->mod[PX_MOD_ROUND];

    if (in->op == PX_CVT && to_int)
        return round == 0 || round == PX_RZI;
    return round <= PX_RN;
}

px_rows_fn
px_find_rows(const struct px_insn *in)
{
    const struct px_row_set *set = px_row_set();
    unsigned aux = in->op == PX_CVT ? in->type2 : in->mod[PX_MOD_HALF];
    size_t i;

    if (in->mod[PX_MOD_FTZ] || in->mod[PX_MOD_SAT] || in->mod[PX_MOD_APPROX] ||
        !rounds_plainly(in) || !widths_agree(in))
        return NULL;
    if (in->op == PX_MIN || in->op == PX_MAX)
        aux = in->mod[PX_MOD_NAN];
    for (i = 0; i < set->n_ops; i++) {
        const struct px_row_op *op = &set->ops[i];
        if (op->op == in->op && op->type == in->type && op->aux == aux)
            return op->fn;
    }
    return NULL;
}

px_test_fn
px_find_test(const struct px_insn *in)
{
    const struct px_row_set *set = px_row_set();
    unsigned type = in->op == PX_SET ? in->type2 : in->type;
    size_t i;

    if (in->mod[PX_MOD_FTZ])
        return NULL;
    for (i = 0; i < set->n_tests; i++) {
        const struct px_row_test *t = &set->tests[i];
        if (t->type == type && t->cmp == in->mod[PX_MOD_CMP] - 1)
            return t->fn;
    }
    return NULL;
}

void
px_blend(void *dst, const void *src, uint32_t mask, bool wide)
{
    const lane_u32 *s = src;
    const lane_u64 *s64 = src;
    lane_u32 *d = dst;
    lane_u64 *d64 = dst;

    if (wide) {
        LANES_LOOP
        d64[i] = mask & lane_bits[i] ? s64[i] : d64[i];
    } else {
        LANES_LOOP
        d[i] = mask & lane_bits[i] ? s[i] : d[i];
    }
}
