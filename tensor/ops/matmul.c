/* Matrix products: a broadcast multiplication and a sum over one axis. */
#include "tensor/ops/matmul.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/ops/elementwise.h"
#include "tensor/core/rules.h"
#include "tensor/ops/reduce.h"

const struct uop *
tn_sum_product_wide(struct bell_context *ctx, const struct uop *a,
                    const struct uop *b, uint32_t axis_mask)
{
    enum uop_dtype dtype = a->dtype;
    enum uop_dtype sum = dtype;

    assert(tn_bad(a) || tn_bad(b) || a->dtype == b->dtype);
    if (uop_dtype_is_small(dtype))
        sum = UOP_F32;
    else if (dtype == UOP_I8 || dtype == UOP_U8)
        sum = UOP_I32; /* as matrix instructions do; the same modulo 2^8 */
    a = tn_cast(ctx, a, sum);
    b = tn_cast(ctx, b, sum);
    a = tn_reduce(ctx, UOP_ADD, tn_mul(ctx, a, b), axis_mask);
    return uop_dtype_is_small(dtype) ? a : tn_cast(ctx, a, dtype);
}

const struct uop *
tn_sum_product(struct bell_context *ctx, const struct uop *a,
               const struct uop *b, uint32_t axis_mask)
{
    return tn_cast(ctx, tn_sum_product_wide(ctx, a, b, axis_mask), a->dtype);
}

/* A tensor's values as that dtype has them; floats of 8 and 16 bits are then
 * float32. */
static const struct uop *
widened(struct bell_context *ctx, struct bell_tensor *t, enum uop_dtype dtype)
{
    return tn_widen(ctx, tn_cast(ctx, tensor_node(t), dtype));
}

/* Is it a softmax along its last axis, converted perhaps? */
static bool
is_softmax(const struct bell_context *ctx, const struct uop *u)
{
    const struct tensor_rule *rule;

    while (u->op == UOP_CAST)
        u = u->src[0];
    rule = tensor_rule_find(ctx, u);
    return rule && rule->kind == TENSOR_RULE_SOFTMAX &&
           rule->p[0] == tn_rank(ctx, u) - 1;
}

/* tn_matmul; `wide`: without the rounding of floats of 8 and 16 bits. */
static const struct uop *
multiply(struct bell_context *ctx, const struct uop *a, const struct uop *b,
         bool wide)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_ATTEND, .a = a, .b = b};
    bool attends;
    uint32_t rank;

    if (tn_bad(a) || tn_bad(b))
        return &uop_failed;
    attends = is_softmax(ctx, a);
    b = tn_swap(ctx, b, tn_rank(ctx, b) - 2, tn_rank(ctx, b) - 1);
    a = tn_unsqueeze(ctx, a, tn_rank(ctx, a) - 1);
    b = tn_unsqueeze(ctx, b, tn_rank(ctx, b) - 2);
    if (tn_bad(a) || tn_bad(b))
        return &uop_failed;
    rank =
        tn_rank(ctx, a) > tn_rank(ctx, b) ? tn_rank(ctx, a) : tn_rank(ctx, b);
    a = wide ? tn_sum_product_wide(ctx, a, b, tn_axis_bit(rank - 1))
             : tn_sum_product(ctx, a, b, tn_axis_bit(rank - 1));
    a = tn_squeeze(ctx, a, tn_axis_bit(rank - 1));
    return attends && !wide ? tensor_rule_add(ctx, a, &rule) : a;
}

const struct uop *
tn_matmul(struct bell_context *ctx, const struct uop *a, const struct uop *b)
{
    return multiply(ctx, a, b, false);
}

/* Whether the batch axes (all but the last two) of two shapes broadcast. */
static bool
batches_agree(const struct uop_dims *a, const struct uop_dims *b)
{
    uint32_t i;

    for (i = 2; i < a->n && i < b->n; i++) {
        int64_t x = a->d[a->n - 1 - i], y = b->d[b->n - 1 - i];
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

#define SIZE_TEXT 64

/* A size in a message. */
static const char *
size_text(const struct bell_context *ctx, int64_t size, char text[SIZE_TEXT])
{
    dim_print(ctx->dims, size, text, SIZE_TEXT);
    return text;
}

/* A vector is a row on the left and a column on the right, and its axis goes
 * again afterwards, as NumPy's @ has it. */
static struct bell_tensor *
matmul_call(const char *call, struct bell_tensor *x, struct bell_tensor *y)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    const struct uop *a, *b, *u;
    struct bell_context *ctx;
    enum uop_dtype dtype;
    int64_t inner_x, inner_y;
    char text[2][SIZE_TEXT];
    uint32_t rank;

    if (!tensor_takes2(call, x, y, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (tensor_at(x)->shape->n == 0 || tensor_at(y)->shape->n == 0)
        return tensor_fail(ctx, call, BELL_BAD_SHAPE,
                           "%s @ %s: a scalar has no inner axis", SHAPE_OF(x),
                           SHAPE_OF(y));
    inner_x = tensor_at(x)->shape->d[tensor_at(x)->shape->n - 1];
    inner_y =
        tensor_at(y)
            ->shape
            ->d[tensor_at(y)->shape->n > 1 ? tensor_at(y)->shape->n - 2 : 0];
    if (inner_x != inner_y)
        return tensor_fail(ctx, call, BELL_BAD_SHAPE,
                           "%s @ %s: inner sizes %s and %s differ", SHAPE_OF(x),
                           SHAPE_OF(y), size_text(ctx, inner_x, text[0]),
                           size_text(ctx, inner_y, text[1]));
    if (!batches_agree(tensor_at(x)->shape, tensor_at(y)->shape))
        return tensor_fail(ctx, call, BELL_BAD_SHAPE,
                           "%s @ %s: batch sizes do not broadcast", SHAPE_OF(x),
                           SHAPE_OF(y));
    dtype = tensor_wide_dtype(tensor_result_dtype(both, 2, NULL));
    a = tn_cast(ctx, tensor_node(x), dtype);
    b = tn_cast(ctx, tensor_node(y), dtype);
    if (tensor_at(x)->shape->n == 1)
        a = tn_unsqueeze(ctx, a, 0);
    if (tensor_at(y)->shape->n == 1)
        b = tn_unsqueeze(ctx, b, 1);
    u = tn_matmul(ctx, a, b);
    rank = tn_rank(ctx, u);
    if (!tn_bad(u) && tensor_at(y)->shape->n == 1)
        u = tn_squeeze(ctx, u, tn_axis_bit(rank - 1));
    if (!tn_bad(u) && tensor_at(x)->shape->n == 1)
        u = tn_squeeze(ctx, u, tn_axis_bit(rank - 2));
    return tensor_new(ctx, call, u);
}

struct bell_tensor *
bell_matmul(struct bell_tensor *x, struct bell_tensor *y)
{
    return matmul_call(__func__, x, y);
}

struct bell_tensor *
bell_dot(struct bell_tensor *x, struct bell_tensor *y)
{
    struct bell_tensor *out;

    if (!tensor_takes2(__func__, x, y, &out))
        return out;
    if (tensor_at(x)->shape->n != 1 || tensor_at(y)->shape->n != 1)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_SHAPE,
                           "%s and %s; one axis each is needed", SHAPE_OF(x),
                           SHAPE_OF(y));
    return matmul_call(__func__, x, y);
}

struct bell_tensor *
bell_bmm(struct bell_tensor *x, struct bell_tensor *y)
{
    struct bell_tensor *out;

    if (!tensor_takes2(__func__, x, y, &out))
        return out;
    if (tensor_at(x)->shape->n != 3 || tensor_at(y)->shape->n != 3 ||
        tensor_at(x)->shape->d[0] != tensor_at(y)->shape->d[0])
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_SHAPE,
                           "%s and %s; three axes each and one batch size are "
                           "needed",
                           SHAPE_OF(x), SHAPE_OF(y));
    return matmul_call(__func__, x, y);
}

struct bell_tensor *
bell_outer(struct bell_tensor *x, struct bell_tensor *y)
{
    struct bell_tensor *both[2] = {x, y}, *out;
    struct bell_context *ctx;
    const struct uop *a, *b;
    enum uop_dtype dtype;

    if (!tensor_takes2(__func__, x, y, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (tensor_at(x)->shape->n != 1 || tensor_at(y)->shape->n != 1)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%s and %s; one axis each is needed", SHAPE_OF(x),
                           SHAPE_OF(y));
    dtype = tensor_wide_dtype(tensor_result_dtype(both, 2, NULL));
    /* the gradients are sums of products: those are not rounded either */
    a = widened(ctx, x, dtype);
    b = widened(ctx, y, dtype);
    a = tn_mul(ctx, tn_unsqueeze(ctx, a, 1), tn_unsqueeze(ctx, b, 0));
    return tensor_new(ctx, __func__, tn_cast(ctx, a, dtype));
}

struct bell_tensor *
bell_linear(struct bell_tensor *x, struct bell_tensor *weight,
            struct bell_tensor *bias)
{
    struct bell_tensor *all[3] = {x, weight, bias}, *out;
    uint32_t n = bias ? 3 : 2;
    struct bell_context *ctx;
    enum uop_dtype dtype;
    const struct uop *u, *w;
    uint32_t rank;

    if (!tensor_takes_n(__func__, all, n, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(weight)->shape->n;
    if ((rank != 2 && (rank != 1 || bias)) || tensor_at(x)->shape->n == 0 ||
        tensor_at(x)->shape->d[tensor_at(x)->shape->n - 1] !=
            tensor_at(weight)->shape->d[rank - 1])
        return tensor_fail(
            ctx, __func__, BELL_BAD_SHAPE,
            "x of shape %s by a weight of shape %s: expected as many columns, "
            "in a weight of 2 axes, or of 1 without a bias",
            SHAPE_OF(x), SHAPE_OF(weight));
    if (bias &&
        (tensor_at(bias)->shape->n != 1 ||
         tensor_at(bias)->shape->d[0] != tensor_at(weight)->shape->d[0]))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "a bias of shape %s with a weight of shape %s: "
                           "expected one element for each row",
                           SHAPE_OF(bias), SHAPE_OF(weight));
    dtype = tensor_wide_dtype(tensor_result_dtype(all, n, NULL));
    u = tn_cast(ctx, tensor_node(x), dtype);
    w = tn_cast(ctx, tensor_node(weight), dtype);
    if (rank == 1)
        w = tn_unsqueeze(ctx, w, 0);
    if (tensor_at(x)->shape->n == 1)
        u = tn_unsqueeze(ctx, u, 0);
    u = multiply(ctx, u, tn_swap(ctx, w, 0, 1), bias != NULL);
    if (tensor_at(x)->shape->n == 1)
        u = tn_squeeze(ctx, u, 1);
    if (rank == 1 && !tn_bad(u))
        u = tn_squeeze(ctx, u, tn_axis_bit(tn_rank(ctx, u) - 1));
    if (bias)
        u = tn_add(ctx, u, widened(ctx, bias, dtype));
    return tensor_new(ctx, __func__, tn_cast(ctx, u, dtype));
}

/* Can it be broadcast to (rows, columns)? */
static bool
expands_to(const struct uop_dims *shape, int64_t rows, int64_t columns)
{
    int64_t last = shape->n > 0 ? shape->d[shape->n - 1] : 1;
    int64_t first = shape->n > 1 ? shape->d[shape->n - 2] : 1;

    return shape->n <= 2 && (last == 1 || last == columns) &&
           (first == 1 || first == rows);
}

struct bell_tensor *
bell_addmm(struct bell_tensor *x, struct bell_tensor *a, struct bell_tensor *b,
           double beta, double alpha)
{
    struct bell_tensor *all[3] = {x, a, b}, *out;
    const struct uop_dims *left, *right;
    struct bell_context *ctx;
    enum uop_dtype dtype;
    const struct uop *u, *v;
    char text[2][SIZE_TEXT];

    if (!tensor_takes_n(__func__, all, 3, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    left = tensor_at(a)->shape;
    right = tensor_at(b)->shape;
    if (left->n != 2 || right->n != 2 || left->d[1] != right->d[0])
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%s @ %s: expected [n, k] @ [k, m]", SHAPE_OF(a),
                           SHAPE_OF(b));
    dtype = tensor_wide_dtype(tensor_result_dtype(all, 3, NULL));
    if (!uop_dtype_infos[dtype].is_float &&
        (beta != trunc(beta) || alpha != trunc(alpha)))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "beta %g and alpha %g of integers; both must be "
                           "whole",
                           beta, alpha);
    if (!expands_to(tensor_at(x)->shape, left->d[0], right->d[1]))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%s is not broadcast to (%s, %s)", SHAPE_OF(x),
                           size_text(ctx, left->d[0], text[0]),
                           size_text(ctx, right->d[1], text[1]));
    u = multiply(ctx, tn_cast(ctx, tensor_node(a), dtype),
                 tn_cast(ctx, tensor_node(b), dtype), true);
    if (alpha != 1)
        u = tn_mul_c(ctx, u, alpha);
    v = widened(ctx, x, dtype);
    if (beta != 1)
        v = tn_mul_c(ctx, v, beta);
    if (beta != 0)
        u = tn_add(ctx, u, v);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, dtype));
}

/* ---- einsum ---- */

#define EINSUM_NAMES   52
#define EINSUM_LETTERS (EINSUM_NAMES + BELL_MAX_RANK) /* those of "..." too */

struct einsum {
    struct bell_context *ctx;
    int64_t size[EINSUM_LETTERS];   /* -1: not used */
    uint32_t times[EINSUM_LETTERS]; /* occurrences in the operands */
    int axis[EINSUM_LETTERS];       /* its axis in the common order, or -1 */
    uint32_t n_axes;
    uint32_t n_dots; /* axes that "..." stands for: the last so many letters */
    int out[EINSUM_LETTERS]; /* letters of the result, in order */
    uint32_t n_out;
};

/* a-z are 0..25, A-Z 26..51; -1 for anything else. */
static int
letter_number(char c)
{
    if (c >= 'a' && c <= 'z')
        return c - 'a';
    return c >= 'A' && c <= 'Z' ? c - 'A' + 26 : -1;
}

static bool
fail_formula(struct bell_context *ctx, const char *formula, const char *at,
             const char *what)
{
    tensor_fail(ctx, "bell_einsum", BELL_BAD_VALUE, "\"%s\", column %d: %s",
                formula, (int)(at - formula) + 1, what);
    return false;
}

/* The letters of the operand at `at`. */
static uint32_t
count_letters(const char *at)
{
    uint32_t n = 0;

    for (; *at && *at != ',' && *at != '-'; at++)
        n += letter_number(*at) >= 0;
    return n;
}

/* Is the letter of that size, or may it be, as one of both is 1? */
static bool
take_size(struct einsum *e, int letter, int64_t size)
{
    int64_t *known = &e->size[letter];

    if (*known >= 0 && *known != 1 && size != 1 && size != *known)
        return false;
    if (*known < 0 || *known == 1)
        *known = size;
    return true;
}

/* The axes of t from `from` on that "..." stands for there, `n` of them. */
static bool
read_dots(struct einsum *e, const char *formula, const char *at,
          const struct bell_tensor *t, uint32_t from, uint32_t n, int *letters)
{
    uint32_t i;

    e->n_dots = n > e->n_dots ? n : e->n_dots;
    for (i = 0; i < n; i++) {
        int c = (int)(EINSUM_LETTERS - n + i);
        int64_t size = tensor_at(t)->shape->d[from + i];
        if (!take_size(e, c, size))
            return fail_formula(e->ctx, formula, at,
                                "the axes do not broadcast with others");
        letters[i] = c;
    }
    return true;
}

/* Reads the letters of operand t at *at; false after a failure. */
static bool
read_operand(struct einsum *e, const char *formula, const char **at,
             const struct bell_tensor *t, int letters[BELL_MAX_RANK])
{
    uint32_t k = 0, named = count_letters(*at), i;
    bool dots = false;
    int64_t size;

    for (;; (*at)++) {
        int c = letter_number(**at);
        if (**at == ' ')
            continue;
        if (strncmp(*at, "...", 3) == 0) {
            uint32_t n = tensor_at(t)->shape->n;
            if (dots || named > n)
                return fail_formula(e->ctx, formula, *at,
                                    dots ? "\"...\" again"
                                         : "more letters than the operand has "
                                           "axes");
            n -= named;
            if (!read_dots(e, formula, *at, t, k, n, letters + k))
                return false;
            dots = true;
            k += n;
            *at += 2;
            continue;
        }
        if (c < 0)
            break;
        if (k == tensor_at(t)->shape->n)
            return fail_formula(e->ctx, formula, *at,
                                "more letters than the operand has axes");
        size = tensor_at(t)->shape->d[k];
        for (i = 0;
             i < k && (letters[i] != c || tensor_at(t)->shape->d[i] == size);
             i++)
            continue;
        if (i < k || !take_size(e, c, size))
            return fail_formula(e->ctx, formula, *at,
                                "the letter has another size before");
        e->times[c]++;
        letters[k++] = c;
    }
    if (k < tensor_at(t)->shape->n)
        return fail_formula(e->ctx, formula, *at,
                            **at && **at != ',' && **at != '-'
                                ? "not a letter, \",\" or \"->\""
                                : "fewer letters than the operand has axes");
    return true;
}

static void
add_dots(struct einsum *e)
{
    int c;

    for (c = (int)(EINSUM_LETTERS - e->n_dots); c < EINSUM_LETTERS; c++)
        e->out[e->n_out++] = c;
}

/* The result's letters: after "->", or those that occur once. */
static bool
read_result(struct einsum *e, const char *formula, const char *at)
{
    bool used[EINSUM_LETTERS] = {false}, dots = false;
    int c;

    if (*at == '\0') {
        add_dots(e);
        for (c = 0; c < EINSUM_NAMES; c++) {
            /* Alphabetical order as in ASCII: A-Z, then a-z. */
            int l = (c + 26) % EINSUM_NAMES;
            if (e->times[l] == 1)
                e->out[e->n_out++] = l;
        }
        return true;
    }
    if (at[0] != '-' || at[1] != '>')
        return fail_formula(e->ctx, formula, at,
                            "not a letter, \",\" or "
                            "\"->\"");
    for (at += 2; *at; at++) {
        if (*at == ' ')
            continue;
        if (strncmp(at, "...", 3) == 0 && !dots) {
            add_dots(e);
            dots = true;
            at += 2;
            continue;
        }
        c = letter_number(*at);
        if (c < 0)
            return fail_formula(e->ctx, formula, at, "not a letter");
        if (e->size[c] < 0)
            return fail_formula(e->ctx, formula, at,
                                "the letter is in no operand");
        if (used[c])
            return fail_formula(e->ctx, formula, at,
                                "the letter is in the result already");
        used[c] = true;
        e->out[e->n_out++] = c;
    }
    return true;
}

/* The common order of axes: the result's letters, then the summed ones. */
static bool
order_letters(struct einsum *e, const char *formula)
{
    uint32_t i;
    int c;

    for (i = 0; i < e->n_out; i++)
        e->axis[e->out[i]] = (int)e->n_axes++;
    for (c = 0; c < EINSUM_LETTERS; c++) {
        if (e->size[c] >= 0 && e->axis[c] < 0)
            e->axis[c] = (int)e->n_axes++;
    }
    if (e->n_axes <= BELL_MAX_RANK)
        return true;
    tensor_fail(e->ctx, "bell_einsum", BELL_BAD_VALUE,
                "\"%s\": %u letters, more than %d", formula, e->n_axes,
                BELL_MAX_RANK);
    return false;
}

/* An operand with its axes in the common order, those it lacks of size 1. A
 * letter that occurs twice takes the diagonal. */
static const struct uop *
arrange_operand(struct einsum *e, const struct uop *u, int *letters)
{
    struct bell_context *ctx = e->ctx;
    uint32_t rank = tn_rank(ctx, u), i, j, n = 0;
    int64_t order[BELL_MAX_RANK], d[BELL_MAX_RANK];

    for (i = 0; i < rank; i++) {
        for (j = i + 1; j < rank && letters[j] != letters[i]; j++)
            continue;
        if (j == rank)
            continue;
        /* Axes i and j go to the end and become one there. */
        u = tn_move_axis(ctx, u, j, rank - 1);
        u = tn_move_axis(ctx, u, i, rank - 2);
        u = tn_diagonal(ctx, u, tn_size(ctx, u, rank - 1));
        n = (uint32_t)letters[i];
        memmove(letters + j, letters + j + 1, (rank - 1 - j) * sizeof(int));
        memmove(letters + i, letters + i + 1, (rank - 2 - i) * sizeof(int));
        letters[rank - 2] = (int)n;
        rank--;
        i = UINT32_MAX; /* look again from the first */
    }
    for (i = n = 0; i < e->n_axes; i++) {
        d[i] = 1;
        for (j = 0; j < rank; j++) {
            if (e->axis[letters[j]] == (int)i) {
                order[n++] = j;
                d[i] = tn_size(ctx, u, j);
            }
        }
    }
    return tn_reshape(ctx, tn_permute(ctx, u, order), d, e->n_axes);
}

struct bell_tensor *
bell_einsum(const char *formula, struct bell_tensor *const *tensors, uint32_t n)
{
    int letters[8][BELL_MAX_RANK];
    const struct uop *u = NULL, *v;
    const char *at = formula;
    struct einsum e = {0};
    struct bell_tensor *out;
    enum uop_dtype dtype;
    uint32_t i, mask;
    int c;

    if (n == 0 || !formula) {
        (void)bell_fail(BELL_BAD_MISSING, "bell_einsum: no %s",
                        formula ? "operands" : "formula");
        return NULL;
    }
    if (!tensor_takes_n(__func__, tensors, n, &out))
        return out;
    e.ctx = tensor_at(tensors[0])->ctx;
    if (n > 8)
        return tensor_fail(e.ctx, __func__, BELL_BAD_VALUE,
                           "%u operands, more than 8", n);
    for (c = 0; c < EINSUM_LETTERS; c++)
        e.size[c] = e.axis[c] = -1;
    for (i = 0; i < n; i++) {
        if (!read_operand(&e, formula, &at, tensors[i], letters[i]))
            return e.ctx->error_tensor;
        if (i + 1 < n && *at++ != ',') {
            fail_formula(e.ctx, formula, at - 1, "fewer operands than tensors");
            return e.ctx->error_tensor;
        }
    }
    if (*at == ',') {
        fail_formula(e.ctx, formula, at, "more operands than tensors");
        return e.ctx->error_tensor;
    }
    if (!read_result(&e, formula, at) || !order_letters(&e, formula))
        return e.ctx->error_tensor;
    dtype = tensor_wide_dtype(tensor_result_dtype(tensors, n, NULL));
    mask = tn_axes_below(e.n_axes) & ~tn_axes_below(e.n_out);
    for (i = 0; i < n; i++) {
        v = tn_cast(e.ctx, tensor_node(tensors[i]), dtype);
        v = n > 2 ? tn_widen(e.ctx, v) : v; /* products are rounded once */
        v = arrange_operand(&e, v, letters[i]);
        if (i + 1 < n || !u)
            u = u ? tn_mul(e.ctx, u, v) : v;
    }
    u = n == 1 ? tn_sum(e.ctx, u, mask) : tn_sum_product(e.ctx, u, v, mask);
    u = tn_cast(e.ctx, u, dtype);
    return tensor_new(e.ctx, __func__, tn_squeeze(e.ctx, u, mask));
}

/* ---- attention ---- */

/* What a masked score is: as good as -inf beside any that is seen, but a row of
 * nothing else has a softmax. */
#define UNSEEN -0x1p127

/* Scores with what may not be seen set to UNSEEN, or a float mask added;
 * causally to -inf, as each row sees its first key. */
static const struct uop *
mask_scores(struct bell_context *ctx, const struct uop *scores,
            const struct uop *mask, bool causal)
{
    const struct uop *low = tn_const(ctx, scores->dtype, -(double)INFINITY);
    uint32_t rank = tn_rank(ctx, scores);
    const struct uop *later;

    if (tn_bad(scores))
        return scores;
    if (mask && mask->dtype == UOP_BOOL)
        return tn_where(ctx, mask, scores,
                        tn_const(ctx, scores->dtype, UNSEEN));
    if (mask) {
        mask = tn_cast(ctx, mask, scores->dtype);
        mask = tn_where(ctx, tn_eq(ctx, mask, low),
                        tn_const(ctx, scores->dtype, UNSEEN), mask);
        return tn_add(ctx, scores, mask);
    }
    if (!causal)
        return scores;
    later = tn_lt(
        ctx,
        tn_iota(ctx, rank, rank - 2, tn_size(ctx, scores, rank - 2), UOP_I64),
        tn_iota(ctx, rank, rank - 1, tn_size(ctx, scores, rank - 1), UOP_I64));
    return tn_where(ctx, later, low, scores);
}

/* 0 in rows that see nothing. */
static const struct uop *
clear_unseen(struct bell_context *ctx, const struct uop *out,
             const struct uop *mask)
{
    uint32_t rank = tn_rank(ctx, mask);
    const struct uop *seen = mask;

    if (tn_bad(out) || tn_bad(mask))
        return &uop_failed;
    if (mask->dtype != UOP_BOOL)
        seen = tn_ne(ctx, mask, tn_const(ctx, mask->dtype, -(double)INFINITY));
    if (rank)
        seen = tn_reduce(ctx, UOP_ADD, seen, tn_axis_bit(rank - 1));
    return tn_where(ctx, seen, out, tn_const(ctx, out->dtype, 0));
}

/* Heads, axis -3, of u for `heads` of the queries: each head of u serves as
 * many of them, one after the other. A view, which is not stored. */
static const struct uop *
share_heads(struct bell_context *ctx, const struct uop *u, int64_t heads)
{
    int64_t d[TN_MAX_RANK], own;
    uint32_t rank = tn_rank(ctx, u), axis = rank - 3;

    if (tn_bad(u) || rank < 3)
        return u;
    own = tn_size(ctx, u, axis);
    if (own < 2 || own == heads || heads == 0 || dim_is_expr(own) ||
        dim_is_expr(heads) || heads % own != 0)
        return u;
    u = tn_unsqueeze(ctx, u, axis + 1);
    if (tn_bad(u))
        return u;
    memcpy(d, tn_shape(ctx, u)->d, (rank + 1) * sizeof(*d));
    d[axis + 1] = heads / own;
    return tn_merge_axes(ctx, tn_expand(ctx, u, d), axis, 2);
}

/* Heads are shared already: batch sizes broadcast between all three, of which
 * each pair is asked for itself. */
static bool
check_attention(struct bell_context *ctx, const struct uop *q,
                const struct uop *k, const struct uop *v)
{
    const struct uop_dims *qs = tn_shape(ctx, q), *ks = tn_shape(ctx, k);
    const struct uop_dims *vs = tn_shape(ctx, v);

    return qs->n >= 2 && ks->n >= 2 && vs->n >= 2 &&
           qs->d[qs->n - 1] == ks->d[ks->n - 1] &&
           ks->d[ks->n - 2] == vs->d[vs->n - 2] && batches_agree(qs, ks) &&
           batches_agree(qs, vs) && batches_agree(ks, vs);
}

struct bell_tensor *
bell_scaled_dot_product_attention(struct bell_tensor *q, struct bell_tensor *k,
                                  struct bell_tensor *v,
                                  struct bell_tensor *mask, double dropout_p,
                                  bool causal, double scale)
{
    struct bell_tensor *all[4] = {q, k, v, mask}, *out;
    const struct uop *uq, *uk, *uv, *scores, *rounded;
    const struct uop_dims *shapes[2];
    struct bell_context *ctx;
    int64_t d[TN_MAX_RANK], heads;
    enum uop_dtype dtype;
    uint32_t rank;

    if (!tensor_takes_n(__func__, all, mask ? 4 : 3, &out) ||
        (scale == 0 && tensor_at(q)->shape->n &&
         !tensor_plain_axes(__func__, q, 1u << (tensor_at(q)->shape->n - 1),
                            "give a scale, which is of its root", &out)))
        return out;
    ctx = tensor_at(q)->ctx;
    dtype = tensor_wide_dtype(tensor_result_dtype(all, 3, NULL));
    rank = tensor_at(q)->shape->n;
    heads = rank < 3 ? 1 : tensor_at(q)->shape->d[rank - 3];
    uq = tensor_node(q);
    uk = share_heads(ctx, tensor_node(k), heads);
    uv = share_heads(ctx, tensor_node(v), heads);
    if (tn_bad(uk) || tn_bad(uv))
        return tensor_new(ctx, __func__, &uop_failed);
    if (!check_attention(ctx, uq, uk, uv) || !uop_dtype_infos[dtype].is_float)
        return tensor_fail(
            ctx, __func__,
            uop_dtype_infos[dtype].is_float ? BELL_BAD_SHAPE : BELL_BAD_DTYPE,
            "q %s, k %s, v %s of %s: expected floats, [.., n, d], [.., m, d] "
            "and [.., m, e]",
            SHAPE_OF(q), SHAPE_OF(k), SHAPE_OF(v), uop_dtype_infos[dtype].name);
    if ((mask && causal) || !(dropout_p >= 0 && dropout_p <= 1))
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           mask && causal
                               ? "a mask cannot be given to causal attention"
                               : "the dropout probability is %g; expected 0 "
                                 "to 1",
                           dropout_p);
    uq = tn_widen(ctx, tn_cast(ctx, uq, dtype));
    uk = tn_widen(ctx, tn_cast(ctx, uk, dtype));
    uv = tn_widen(ctx, tn_cast(ctx, uv, dtype));
    if (scale == 0)
        scale = 1 / sqrt((double)tensor_at(q)->shape->d[rank - 1]);
    rank = tensor_at(k)->shape->n;
    scores = tn_matmul(ctx, uq, tn_swap(ctx, uk, rank - 2, rank - 1));
    /* their adjoints are factors of what q and k are */
    rounded = tn_widen(ctx, tn_cast(ctx, scores, dtype));
    if (rounded != scores && scale != 1)
        scores = tensor_surrogate(ctx, tn_mul_c(ctx, scores, scale),
                                  tn_mul_c(ctx, rounded, scale));
    else
        scores = tn_mul_c(ctx, scores, scale);
    if (mask && !tn_bad(scores)) {
        shapes[0] = tn_shape(ctx, scores);
        shapes[1] = tensor_at(mask)->shape;
        if (!tn_broadcast_shape(shapes, 2, d, &rank) ||
            uop_dims(&ctx->graph, d, rank) != shapes[0])
            return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                               "a mask of shape %s with q %s and k %s: it must "
                               "broadcast to [.., queries, keys]",
                               SHAPE_OF(mask), SHAPE_OF(q), SHAPE_OF(k));
    }
    scores =
        mask_scores(ctx, scores, mask ? tensor_wide_node(mask) : NULL, causal);
    scores = tn_softmax(ctx, scores, tn_rank(ctx, scores) - 1);
    scores = tn_dropout(__func__, ctx, scores, dropout_p);
    if (!scores)
        return ctx->error_tensor;
    /* as a product's factor they are what q, k and v are */
    scores = tn_widen(ctx, tn_cast(ctx, scores, dtype));
    scores = tn_cast(ctx, tn_matmul(ctx, scores, uv), dtype);
    if (mask)
        scores = clear_unseen(ctx, scores, tensor_wide_node(mask));
    return tensor_new(ctx, __func__, scores);
}
