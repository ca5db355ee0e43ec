/* Sizes of symbols: checks, and the public calls. */
#include "tensor/core/dims.h"

#include <assert.h>
#include <inttypes.h>

#include "base/bits.h"
#include "tensor/core/node.h"

bool
dims_in(const int64_t *d, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (dim_is_expr(d[i]))
            return true;
    }
    return false;
}

bool
dims_known(const struct dim_table *t, int64_t d)
{
    return dim_is_expr(d) ? dim_number(d) < t->n_exprs : dim_is_number(d);
}

bool
dims_is_slice(struct dim_table *t, int64_t begin, int64_t length, int64_t size)
{
    int64_t min, max, end;

    if (!dims_known(t, begin) || !dims_known(t, length) || !dims_known(t, size))
        return false;
    dim_bounds(t, begin, &min, &max);
    if (min < 0)
        return false;
    dim_bounds(t, length, &min, &max);
    if (min < dim_is_expr(length))
        return false;
    end = dim_add(t, begin, length);
    return end != DIM_BAD && dim_at_most(t, end, size) == DIM_ALWAYS;
}

uint64_t
dims_numel(const struct dim_table *t, const int64_t *d, uint32_t n)
{
    int64_t now[TN_MAX_RANK];
    uint32_t i;

    assert(n <= TN_MAX_RANK);
    for (i = 0; i < n; i++)
        now[i] = dim_value(t, d[i], NULL);
    return (uint64_t)tn_product(now, n);
}

int64_t
dims_most(const struct dim_table *t, const int64_t *d, uint32_t n)
{
    int64_t most[2 * TN_MAX_RANK], min;
    uint32_t i;

    assert(n <= ARRAY_LEN(most));
    for (i = 0; i < n; i++)
        dim_bounds(t, d[i], &min, &most[i]);
    return tn_product(most, n);
}

bool
dims_same_numel(struct dim_table *t, const int64_t *a, uint32_t n_a,
                const int64_t *b, uint32_t n_b)
{
    int64_t x, y;

    if (!dims_in(a, n_a) && !dims_in(b, n_b))
        return tn_product(a, n_a) == tn_product(b, n_b);
    x = dim_product(t, a, n_a);
    y = dim_product(t, b, n_b);
    return x == y && x != DIM_BAD;
}

int64_t
dims_quotient(struct dim_table *t, const int64_t *from, uint32_t n_from,
              const int64_t *d, uint32_t n)
{
    int64_t all = dim_product(t, from, n_from), by = 1, q;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (d[i] != -1)
            by = dim_mul(t, by, d[i]);
    }
    if (all == DIM_BAD || by == DIM_BAD || by == 0)
        return -1;
    q = dim_divide(t, all, by);
    return q == DIM_BAD ? -1 : q;
}

/* ---- the calls ---- */

static const struct bell_dim none = {DIM_BAD};

struct bell_dim
bell_symbol(struct bell_context *ctx, const char *name, int64_t min,
            int64_t max)
{
    struct bell_dim dim = none;

    if (!tensor_context_check(__func__, ctx))
        return none;
    if (min < 0 || max < min || max > BELL_MAX_SYMBOL) {
        tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                    "bounds %" PRId64 " and %" PRId64
                    "; 0 to %d are possible, in this order",
                    min, max, BELL_MAX_SYMBOL);
        return none;
    }
    if (ctx->dims->n_symbols == BELL_MAX_SYMBOLS) {
        tensor_fail(ctx, __func__, BELL_BAD_STATE,
                    "the context has %d symbols, the most there can be",
                    BELL_MAX_SYMBOLS);
        return none;
    }
    dim.word = dim_symbol(ctx->dims, name, min, max);
    if (dim.word == DIM_BAD)
        tensor_fail(ctx, __func__, BELL_E_NO_MEMORY,
                    "out of memory for a symbol");
    return dim;
}

bell_status
bell_symbol_set(struct bell_context *ctx, struct bell_dim symbol, int64_t value)
{
    struct dim_symbol *s;
    int number;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    BELL_TRY(tensor_report(ctx));
    number = dims_known(ctx->dims, symbol.word)
                 ? dim_symbol_of(ctx->dims, symbol.word)
                 : -1;
    if (number < 0)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_symbol_set: it is not a symbol of this context");
    s = &ctx->dims->symbols[number];
    if (value < s->min || value > s->max)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_symbol_set: %s = %" PRId64
                         "; it was declared from %" PRId64 " to %" PRId64,
                         s->name, value, s->min, s->max);
    if (ctx->trace)
        return bell_fail(BELL_BAD_STATE,
                         "bell_symbol_set: %s in a function that is captured: "
                         "set it before the call",
                         s->name);
    s->value = value;
    return BELL_OK;
}

/* Are both sizes of the context? */
static bool
take_dims(struct bell_context *ctx, const char *call, struct bell_dim a,
          struct bell_dim b)
{
    if (!tensor_context_check(call, ctx))
        return false;
    if (dims_known(ctx->dims, a.word) && dims_known(ctx->dims, b.word))
        return true;
    tensor_fail(ctx, call, BELL_BAD_VALUE, "a size is not one of this context");
    return false;
}

static struct bell_dim
combine(struct bell_context *ctx, const char *call, struct bell_dim a,
        struct bell_dim b, int64_t (*op)(struct dim_table *, int64_t, int64_t))
{
    struct bell_dim dim = none;
    char text[2][64];

    if (!take_dims(ctx, call, a, b))
        return none;
    dim.word = op(ctx->dims, a.word, b.word);
    if (dim.word != DIM_BAD)
        return dim;
    dim_print(ctx->dims, a.word, text[0], sizeof(text[0]));
    dim_print(ctx->dims, b.word, text[1], sizeof(text[1]));
    tensor_fail(ctx, call, BELL_BAD_VALUE, "of %s and %s: %s", text[0], text[1],
                dim_why(ctx->dims));
    return dim;
}

struct bell_dim
bell_dim_add(struct bell_context *ctx, struct bell_dim a, struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_add);
}

struct bell_dim
bell_dim_sub(struct bell_context *ctx, struct bell_dim a, struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_sub);
}

struct bell_dim
bell_dim_mul(struct bell_context *ctx, struct bell_dim a, struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_mul);
}

struct bell_dim
bell_dim_floordiv(struct bell_context *ctx, struct bell_dim a,
                  struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_floordiv);
}

struct bell_dim
bell_dim_mod(struct bell_context *ctx, struct bell_dim a, struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_floormod);
}

struct bell_dim
bell_dim_min(struct bell_context *ctx, struct bell_dim a, struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_min);
}

struct bell_dim
bell_dim_max(struct bell_context *ctx, struct bell_dim a, struct bell_dim b)
{
    return combine(ctx, __func__, a, b, dim_max);
}

bell_status
bell_dim_now(struct bell_context *ctx, struct bell_dim dim, int64_t *out_value)
{
    if (!out_value)
        return bell_fail(BELL_BAD_MISSING, "bell_dim_now: the result is NULL");
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (!dims_known(ctx->dims, dim.word))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_dim_now: it is not a size of this context");
    if (ctx->trace && dim_is_expr(dim.word))
        return bell_fail(BELL_BAD_STATE,
                         "bell_dim_now: in a function that is captured, which "
                         "is for all values: bell_dim_value gives it as a "
                         "tensor");
    *out_value = dim_value(ctx->dims, dim.word, NULL);
    return BELL_OK;
}

bell_status
bell_dim_bounds(struct bell_context *ctx, struct bell_dim dim, int64_t *out_min,
                int64_t *out_max)
{
    if (!out_min || !out_max)
        return bell_fail(BELL_BAD_MISSING, "bell_dim_bounds: a result is NULL");
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (!dims_known(ctx->dims, dim.word))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_dim_bounds: it is not a size of this context");
    dim_bounds(ctx->dims, dim.word, out_min, out_max);
    return BELL_OK;
}

bell_status
bell_dim_text(struct bell_context *ctx, struct bell_dim dim, char *text,
              size_t size)
{
    if (!text || size == 0)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_dim_text: the text is NULL, or of 0 bytes; "
                         "expected room for 1 byte at least");
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (!dims_known(ctx->dims, dim.word))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_dim_text: it is not a size of this context");
    dim_print(ctx->dims, dim.word, text, size);
    return BELL_OK;
}

static bell_status
compare(struct bell_context *ctx, const char *call, struct bell_dim a,
        struct bell_dim b, bool *out_answer, const char *sign,
        enum dim_answer (*op)(struct dim_table *, int64_t, int64_t))
{
    enum dim_answer answer;
    char text[2][64];

    if (!out_answer)
        return bell_fail(BELL_BAD_MISSING, "%s: the result is NULL", call);
    BELL_TRY(tensor_context_usable(call, ctx));
    if (!dims_known(ctx->dims, a.word) || !dims_known(ctx->dims, b.word))
        return bell_fail(BELL_BAD_VALUE,
                         "%s: a size is not one of this context", call);
    answer = op(ctx->dims, a.word, b.word);
    *out_answer = answer == DIM_ALWAYS;
    if (answer != DIM_UNKNOWN)
        return BELL_OK;
    dim_print(ctx->dims, a.word, text[0], sizeof(text[0]));
    dim_print(ctx->dims, b.word, text[1], sizeof(text[1]));
    return bell_fail(BELL_BAD_VALUE,
                     "%s: whether %s %s %s depends on the values", call,
                     text[0], sign, text[1]);
}

bell_status
bell_dim_at_most(struct bell_context *ctx, struct bell_dim a, struct bell_dim b,
                 bool *out_answer)
{
    return compare(ctx, __func__, a, b, out_answer, "<=", dim_at_most);
}

bell_status
bell_dim_equal(struct bell_context *ctx, struct bell_dim a, struct bell_dim b,
               bool *out_answer)
{
    return compare(ctx, __func__, a, b, out_answer, "==", dim_equal);
}

/* That of 0, 1, .. which stands there: where a slice begins is an argument, and
 * nothing is stored. */
const struct uop *
tn_count(struct bell_context *ctx, int64_t size)
{
    const struct uop *u;
    int64_t min, max;

    if (!dim_is_expr(size))
        return tn_int(ctx, UOP_I64, size);
    if (!dims_known(ctx->dims, size))
        return &uop_failed;
    dim_bounds(ctx->dims, size, &min, &max);
    u = tn_iota(ctx, 1, 0, max + 1, UOP_I64);
    return tn_squeeze(
        ctx, tn_shrink_axis(ctx, u, 0, size, dim_add(ctx->dims, size, 1)), 1);
}

struct bell_tensor *
bell_dim_value(struct bell_context *ctx, struct bell_dim dim,
               enum bell_dtype dtype)
{
    enum uop_dtype type;
    int64_t min, max;
    char text[64];

    if (!take_dims(ctx, __func__, dim, dim))
        return ctx ? ctx->error_tensor : NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_I64);
    if (type == UOP_VOID)
        return ctx->error_tensor;
    dim_bounds(ctx->dims, dim.word, &min, &max);
    dim_print(ctx->dims, dim.word, text, sizeof(text));
    if (dim_is_expr(dim.word) && (min < 0 || max >= TN_MAX_NUMEL))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%s may be %" PRId64 " to %" PRId64
                           "; sizes are not negative",
                           text, min, max);
    return tensor_new(ctx, __func__,
                      tn_cast(ctx, tn_count(ctx, dim.word), type));
}

const struct bell_dim *
bell_dims(const struct bell_tensor *handle)
{
    const struct tensor *t = tensor_asked(__func__, handle);

    return t ? (const struct bell_dim *)t->shape->d : NULL;
}

struct bell_dim
bell_dim_at(const struct bell_tensor *handle, int axis)
{
    const struct tensor *t = tensor_asked(__func__, handle);
    int n = t ? (int)t->shape->n : 0;

    if (axis < -n || axis >= n)
        return bell_dim_of(-1);
    return bell_dim_of(t->shape->d[axis < 0 ? axis + n : axis]);
}

struct bell_tensor *
bell_arange_dims(struct bell_context *ctx, struct bell_dim begin,
                 struct bell_dim end, enum bell_dtype dtype)
{
    const struct uop *u;
    enum uop_dtype type;
    int64_t n, min, max;

    if (!take_dims(ctx, __func__, begin, end))
        return ctx ? ctx->error_tensor : NULL;
    type = tensor_dtype_arg(ctx, __func__, dtype, UOP_I64);
    if (type == UOP_VOID)
        return ctx->error_tensor;
    n = dim_sub(ctx->dims, end.word, begin.word);
    if (!tensor_takes_shape(ctx, __func__, &n, 1))
        return ctx->error_tensor;
    u = tn_iota(ctx, 1, 0, n, UOP_I64);
    dim_bounds(ctx->dims, begin.word, &min, &max);
    if (dim_is_expr(begin.word) && min < 0)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "it may begin at %" PRId64 ", below 0", min);
    if (begin.word != 0)
        u = tn_add(ctx, u, tn_count(ctx, begin.word));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, type));
}
