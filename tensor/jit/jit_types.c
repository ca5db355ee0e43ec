/* The types of a jit's inputs, and what symbols their sizes make. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "tensor/core/node.h"
#include "tensor/jit/jit_internal.h"

/* ---- types ---- */

/* The dtype that a value of `t` has in memory. */
static enum uop_dtype
settled_dtype(const struct tensor *t)
{
    if (!(t->flags & TENSOR_WEAK))
        return t->dtype;
    return uop_dtype_infos[t->dtype].is_float ? UOP_F32 : UOP_I64;
}

void
tensor_jit_type(struct jit_type *type, const struct bell_tensor *t)
{
    assert(tensor_at(t)->shape->n <= BELL_MAX_RANK);
    type->dtype = settled_dtype(tensor_at(t));
    type->n = tensor_at(t)->shape->n;
    memcpy(type->d, tensor_at(t)->shape->d, type->n * sizeof(*type->d));
}

bool
jit_has_type(const struct tensor *t, const struct jit_type *type)
{
    return settled_dtype(t) == type->dtype && t->shape->n == type->n &&
           memcmp(t->shape->d, type->d, type->n * sizeof(*type->d)) == 0;
}

bool
jit_may_have_type(const struct tensor *t, const struct jit_type *type)
{
    uint32_t i;

    if (settled_dtype(t) != type->dtype || t->shape->n != type->n)
        return false;
    for (i = 0; i < type->n; i++) {
        if (t->shape->d[i] != type->d[i] &&
            (!dim_is_expr(type->d[i]) || dim_is_expr(t->shape->d[i])))
            return false;
    }
    return true;
}

bell_status
tensor_jit_check_inputs(const struct bell_jit *jit,
                        struct bell_tensor *const *in)
{
    struct jit_type type;
    uint32_t i;

    for (i = 0; i < jit->desc.n_in; i++) {
        BELL_TRY(tensor_usable("bell_jit_call", in[i]));
        if (tensor_at(in[i])->ctx != jit->ctx)
            return bell_fail(BELL_BAD_CONTEXT,
                             "bell_jit_call: input %u of '%s' is of another "
                             "context",
                             i, jit->name);
        if (jit->n_captures &&
            !jit_may_have_type(tensor_at(in[i]), &jit->inputs[i].type)) {
            tensor_jit_type(&type, in[i]);
            return bell_fail(
                type.dtype != jit->inputs[i].type.dtype ? BELL_BAD_DTYPE
                                                        : BELL_BAD_SHAPE,
                "bell_jit_call: input %u of '%s' is %s %s; it was captured "
                "with %s %s",
                i, jit->name, JIT_TYPE_STR(&type),
                JIT_TYPE_STR(&jit->inputs[i].type));
        }
    }
    return BELL_OK;
}

/* ---- sizes that inputs decide ---- */

static bell_status
fail_axis(const struct bell_jit *jit, uint32_t i, uint32_t axis, int64_t is)
{
    const struct dim_table *dims = jit->ctx->dims;
    int64_t word = jit->inputs[i].type.d[axis], min, max;
    char text[64];

    dim_bounds(dims, word, &min, &max);
    dim_print(dims, word, text, sizeof(text));
    if (is < min || is > max)
        return bell_fail(BELL_BAD_SHAPE,
                         "bell_jit_call: input %u of '%s', axis %u: %" PRId64
                         " elements; %s goes from %" PRId64 " to %" PRId64,
                         i, jit->name, axis, is, text, min, max);
    return bell_fail(
        BELL_BAD_SHAPE,
        "bell_jit_call: input %u of '%s', axis %u: %" PRId64
        " elements; %s is %" PRId64
        " with the other axes, and goes from %" PRId64 " to %" PRId64,
        i, jit->name, axis, is, text, dim_value(dims, word, NULL), min, max);
}

/* Symbols get the values that axes say, those of a * symbol + b. */
static void
solve_axis(struct dim_table *dims, int64_t word, int64_t is)
{
    struct dim_symbol *s;
    uint32_t symbol;
    int64_t a, b;

    if (!dim_is_linear(dims, word, &symbol, &a, &b) || (is - b) % a)
        return;
    s = &dims->symbols[symbol];
    if ((is - b) / a >= s->min && (is - b) / a <= s->max)
        s->value = (is - b) / a;
}

bell_status
jit_bind_sizes(struct bell_jit *jit, struct bell_tensor *const *in,
               const int64_t *was)
{
    struct dim_table *dims = jit->ctx->dims;
    uint32_t i, k;

    for (i = 0; i < jit->desc.n_in; i++) {
        const struct jit_type *type = &jit->inputs[i].type;
        for (k = 0; k < type->n; k++) {
            int64_t is = tensor_at(in[i])->shape->d[k];
            if (is != type->d[k])
                solve_axis(dims, type->d[k], is);
        }
    }
    for (i = 0; i < jit->desc.n_in; i++) {
        const struct jit_type *type = &jit->inputs[i].type;
        for (k = 0; k < type->n; k++) {
            int64_t is = tensor_at(in[i])->shape->d[k];
            is = dim_is_expr(is) ? dim_value(dims, is, was) : is;
            if (is != dim_value(dims, type->d[k], NULL))
                return fail_axis(jit, i, k, is);
        }
    }
    return BELL_OK;
}
