/* Masks; and results whose size depends on values: what is true in a mask, what
 * is different, how often what occurs.
 *
 * A running count of what is chosen is realized, and its last number read. The
 * k-th that is chosen is then the first place where the count is k, found by
 * bisection.
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/ops/elementwise.h"
#include "tensor/ops/select.h"

/* What was chosen of n elements; the caller frees it (end_choice). */
struct choice {
    struct bell_context *ctx;
    struct bell_tensor *running; /* how many up to each, I32 or I64 */
    int64_t n;                   /* in all */
};

static void
end_choice(struct choice *c)
{
    bell_tensor_release(c->running);
}

/* How many of `chosen` (rank 1, not empty) are true up to each place, I32 or
 * I64. */
static const struct uop *
running_count(struct bell_context *ctx, const struct uop *chosen)
{
    int64_t n = tn_bad(chosen) ? 1 : tn_numel(ctx, chosen); /* at most */

    chosen = tn_cast(ctx, chosen, n < INT32_MAX ? UOP_I32 : UOP_I64);
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_scan(ctx, UOP_ADD, chosen, 0));
}

/* The first n places where `running` grows, I64; its size where it does not. */
static const struct uop *
places_where_it_grows(struct bell_context *ctx, const struct uop *running,
                      int64_t n)
{
    const struct uop *k = tn_iota(ctx, 1, 0, n, UOP_I64);

    k = tn_cast(ctx, tn_add(ctx, k, tn_int(ctx, UOP_I64, 1)), running->dtype);
    return tn_wrap(ctx, UOP_CONTIGUOUS, tn_search(ctx, running, k, false));
}

/* Counts what is true in `chosen`, of rank 1, and realizes `also` (n_also
 * tensors) with it. False after a failure of `call`. A safe point. */
static bool
choose(const char *call, struct bell_context *ctx, const struct uop *chosen,
       struct bell_tensor *const *also, uint32_t n_also, struct choice *c)
{
    struct bell_tensor *list[4], *last;
    const struct uop *u = chosen;
    bell_status status;
    uint32_t i;

    assert(n_also <= 2);
    *c = (struct choice){.ctx = ctx};
    if (ctx->trace) {
        tensor_fail(ctx, call, BELL_BAD_STATE,
                    "in a function that is captured: the result's size depends "
                    "on values");
        return false;
    }
    if (!tn_bad(u)) {
        int64_t n = tn_numel(ctx, u);
        u = running_count(ctx, u);
        chosen = n ? tn_shrink_axis(ctx, u, 0, n - 1, n) : u;
    }
    list[0] = c->running = tensor_new(ctx, call, u);
    list[1] = last = tensor_new(ctx, call, chosen);
    for (i = 0; i < n_also; i++)
        list[2 + i] = also[i];
    status = tensor_realize_list(call, list, 2 + n_also);
    if (status == BELL_OK && tensor_numel(last))
        status = bell_item_i64(last, &c->n);
    bell_tensor_release(last);
    if (status == BELL_OK)
        return true;
    tensor_fail_last(ctx, call);
    end_choice(c);
    return false;
}

/* The places that were chosen, I64. */
static const struct uop *
chosen_places(const struct choice *c)
{
    return places_where_it_grows(c->ctx, tensor_at(c->running)->uop, c->n);
}

/* ---- masks ---- */

struct bell_tensor *
tensor_find_true(const char *call, struct bell_tensor *mask)
{
    struct bell_context *ctx = tensor_at(mask)->ctx;
    struct bell_tensor *places;
    struct choice c;

    if (!choose(call, ctx, tn_flat(ctx, tn_bool(ctx, tensor_node(mask))), NULL,
                0, &c))
        return NULL;
    places = tensor_new(ctx, call, chosen_places(&c));
    end_choice(&c);
    return places;
}

/* The indices of places[n] in x, a row each; `valid`: where a place is one, and
 * what is in the other rows (NULL: all are). */
static const struct uop *
rows_of_places(struct bell_context *ctx, const struct uop *places,
               const struct uop_dims *shape, const struct uop *valid,
               const struct uop *fill)
{
    struct dim_table *t = ctx->dims;
    int64_t inner, d[2];
    const struct uop *rows, *column;
    bool empty = false;
    uint32_t k;

    for (k = 0; k < shape->n; k++)
        empty = empty || shape->d[k] == 0;
    d[0] = tn_bad(places) ? 0 : tn_numel(ctx, places);
    d[1] = shape->n;
    rows = tn_full(ctx, fill, d, 2);
    for (k = 0; k < shape->n && d[0] > 0 && !empty; k++) {
        inner = dim_product(t, shape->d + k + 1, shape->n - k - 1);
        column = tn_alu2(ctx, UOP_IDIV, places, tn_count(ctx, inner));
        column = tn_alu2(ctx, UOP_IMOD, column, tn_count(ctx, shape->d[k]));
        if (valid)
            column = tn_where(ctx, valid, column, fill);
        column = tn_unsqueeze(ctx, column, 1);
        rows = tn_where(ctx,
                        tn_eq(ctx, tn_iota(ctx, 2, 1, shape->n, UOP_I64),
                              tn_int(ctx, UOP_I64, k)),
                        column, rows);
    }
    return rows;
}

struct bell_tensor *
bell_nonzero(struct bell_tensor *x)
{
    struct bell_tensor *out, *places;
    struct bell_context *ctx;

    if (!tensor_check(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    places = tensor_find_true(__func__, x);
    if (!places)
        return ctx->error_tensor;
    out = tensor_new(ctx, __func__,
                     rows_of_places(ctx, tensor_at(places)->uop,
                                    tensor_at(x)->shape, NULL,
                                    tn_int(ctx, UOP_I64, 0)));
    bell_tensor_release(places);
    return out;
}

/* The first `size` places of what is true in u, I64, and which of them there
 * are; both NULL where u is empty. */
struct sized {
    const struct uop *places, *valid;
};

static struct sized
find_sized(struct bell_context *ctx, const struct uop *u, int64_t size)
{
    const struct uop *running, *count;
    struct sized s = {NULL, NULL};
    int64_t n = tn_bad(u) ? 0 : tn_elems(ctx, u);

    if (n == 0)
        return s;
    running = running_count(ctx, tn_flat(ctx, tn_bool(ctx, u)));
    if (tn_bad(running))
        return s;
    count = tn_shrink_axis(ctx, running, 0, dim_sub(ctx->dims, n, 1), n);
    count = tn_cast(ctx, count, UOP_I64);
    s.places = places_where_it_grows(ctx, running, size);
    s.valid = tn_lt(ctx, tn_iota(ctx, 1, 0, size, UOP_I64), count);
    return s;
}

struct bell_tensor *
bell_nonzero_sized(struct bell_tensor *x, int64_t size, int64_t fill)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    struct sized s;
    int64_t d[2] = {size, 0};

    if (!tensor_takes(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (size < 0)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "the size is %lld; expected 0 or more",
                           (long long)size);
    s = find_sized(ctx, tensor_node(x), size);
    if (s.places)
        return tensor_new(ctx, __func__,
                          rows_of_places(ctx, s.places, tensor_at(x)->shape,
                                         s.valid, tn_int(ctx, UOP_I64, fill)));
    d[1] = tensor_at(x)->shape->n;
    return tensor_new(ctx, __func__,
                      tn_full(ctx, tn_int(ctx, UOP_I64, fill), d, 2));
}

/* The shape that x and a mask broadcast to, which is x's if it is to `stay` so;
 * false after a failure of `call`. */
static bool
mask_shape(const char *call, struct bell_tensor *x, struct bell_tensor *mask,
           bool stay, int64_t d[TN_MAX_RANK], uint32_t *out_rank,
           struct bell_tensor **out)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    const struct uop_dims *shapes[2];
    bool is_mask = tensor_at(mask)->dtype == UOP_BOOL;

    shapes[0] = tensor_at(x)->shape;
    shapes[1] = tensor_at(mask)->shape;
    if (is_mask && tn_broadcast_shape(shapes, 2, d, out_rank) &&
        (!stay || uop_dims(&ctx->graph, d, *out_rank) == shapes[0]))
        return true;
    *out = tensor_fail(ctx, call, is_mask ? BELL_BAD_SHAPE : BELL_BAD_DTYPE,
                       "a mask of %s %s for %s: expected bool, and %s",
                       DTYPE_OF(mask), SHAPE_OF(mask), SHAPE_OF(x),
                       stay ? "a shape that broadcasts to that"
                            : "shapes that broadcast");
    return false;
}

/* x and a mask, broadcast; false after a failure of `call`. */
static bool
broadcast_mask(const char *call, struct bell_tensor *x,
               struct bell_tensor *mask, const struct uop **out_x,
               const struct uop **out_mask, struct bell_tensor **out)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    int64_t d[TN_MAX_RANK];
    uint32_t rank;

    if (!mask_shape(call, x, mask, false, d, &rank, out))
        return false;
    *out_x = tn_broadcast(ctx, tensor_node(x), d, rank);
    *out_mask = tn_broadcast(ctx, tensor_node(mask), d, rank);
    return true;
}

struct bell_tensor *
bell_masked_select(struct bell_tensor *x, struct bell_tensor *mask)
{
    struct bell_tensor *out, *places, *wide;
    const struct uop *u, *m;
    struct bell_context *ctx;

    if (!tensor_check2(__func__, x, mask, &out) ||
        !broadcast_mask(__func__, x, mask, &u, &m, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    wide = tensor_new(ctx, __func__, m);
    places = tensor_at(wide)->flags & TENSOR_ERROR
                 ? NULL
                 : tensor_find_true(__func__, wide);
    bell_tensor_release(wide);
    if (!places)
        return ctx->error_tensor;
    u = tn_gather(ctx, tn_flat(ctx, u), 0, tensor_at(places)->uop);
    out = tensor_new(ctx, __func__, u);
    bell_tensor_release(places);
    return out;
}

struct bell_tensor *
bell_masked_select_sized(struct bell_tensor *x, struct bell_tensor *mask,
                         int64_t size, struct bell_tensor *fill)
{
    struct bell_tensor *all[3] = {x, mask, fill}, *out;
    const struct uop *u, *m, *rest;
    struct bell_context *ctx;
    struct sized s;

    if (!tensor_takes_n(__func__, all, fill ? 3 : 2, &out) ||
        !broadcast_mask(__func__, x, mask, &u, &m, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (size < 0 || (fill && (tensor_numel(fill) != 1 ||
                              tensor_at(fill)->flags & TENSOR_VARIES)))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "size %lld, a fill value of shape %s: expected 0 or "
                           "more, and one element",
                           (long long)size, fill ? SHAPE_OF(fill) : "()");
    rest = fill ? tn_reshape(ctx, tensor_at(fill)->uop, NULL, 0)
                : tn_int(ctx, UOP_BOOL, 0);
    rest = tn_broadcast(ctx, tn_cast(ctx, rest, u->dtype), &size, 1);
    s = find_sized(ctx, m, size);
    if (!s.places)
        return tensor_new(ctx, __func__, tn_bad(u) || tn_bad(m) ? u : rest);
    u = tn_gather(ctx, tn_flat(ctx, u), 0, s.places);
    return tensor_new(ctx, __func__, tn_where(ctx, s.valid, u, rest));
}

struct bell_tensor *
bell_masked_fill(struct bell_tensor *x, struct bell_tensor *mask, double value)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t d[TN_MAX_RANK];
    const struct uop *u;
    uint32_t rank;

    if (!tensor_takes2(__func__, x, mask, &out) ||
        !mask_shape(__func__, x, mask, true, d, &rank, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    u = tensor_node(x);
    u = tn_where(ctx, tensor_at(mask)->uop, tn_const(ctx, u->dtype, value), u);
    return tensor_new(ctx, __func__, u);
}

struct bell_tensor *
bell_masked_fill_by(struct bell_tensor *x, struct bell_tensor *mask,
                    struct bell_tensor *value)
{
    struct bell_tensor *all[3] = {x, mask, value}, *out;
    struct bell_context *ctx;
    int64_t d[TN_MAX_RANK];
    const struct uop *u, *c;
    uint32_t rank;

    if (!tensor_takes_n(__func__, all, 3, &out) ||
        !mask_shape(__func__, x, mask, true, d, &rank, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (tensor_numel(value) != 1 || tensor_at(value)->flags & TENSOR_VARIES)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "the value has shape %s; expected one element",
                           SHAPE_OF(value));
    u = tensor_node(x);
    if (!tensor_fits_number(__func__, value, u->dtype))
        return ctx->error_tensor;
    c = tn_reshape(ctx, tensor_at(value)->uop, NULL, 0);
    c = tn_cast(ctx, c, u->dtype);
    u = tn_where(ctx, tensor_at(mask)->uop, c, u);
    return tensor_new(ctx, __func__, u);
}

/* ---- what is different ---- */

/* Where an element differs from the one before it; the first does. */
static const struct uop *
starts_of_runs(struct bell_context *ctx, const struct uop *u)
{
    int64_t n = tn_numel(ctx, u);
    const struct uop *before;

    if (tn_bad(u) || n == 0)
        return tn_cast(ctx, u, UOP_BOOL);
    before = tn_pad_axis(ctx, tn_shrink_axis(ctx, u, 0, 0, n - 1), 0, 1, 0);
    return tn_or(
        ctx, tn_ne(ctx, u, before),
        tn_eq(ctx, tn_iota(ctx, 1, 0, n, UOP_I64), tn_int(ctx, UOP_I64, 0)));
}

/* The number of elements from each place of `starts` to the next, to n at the
 * end. */
static const struct uop *
lengths_of_runs(struct bell_context *ctx, const struct uop *starts, int64_t n)
{
    int64_t count = tn_bad(starts) ? 0 : tn_numel(ctx, starts);
    const struct uop *next;

    if (count == 0)
        return starts;
    next = tn_pad_axis(ctx, tn_shrink_axis(ctx, starts, 0, 1, count), 0, 0, 1);
    next = tn_where(ctx,
                    tn_eq(ctx, tn_iota(ctx, 1, 0, count, UOP_I64),
                          tn_int(ctx, UOP_I64, count - 1)),
                    tn_int(ctx, UOP_I64, n), next);
    return tn_sub(ctx, next, starts);
}

static void
unique_call(const char *call, struct bell_tensor *x, bool in_order,
            struct bell_tensor **out_values, struct bell_tensor **out_inverse,
            struct bell_tensor **out_counts)
{
    struct bell_tensor **const room[] = {out_values,
                                         out_inverse ? out_inverse : out_values,
                                         out_counts ? out_counts : out_values};
    struct bell_tensor *out, *also[2] = {NULL, NULL};
    const struct uop *u, *order = NULL, *starts, *inverse;
    struct bell_context *ctx;
    struct choice c;
    int64_t n;

    if (!tensor_has_room(call, x, room, ARRAY_LEN(room)))
        return;
    if (tensor_check(call, x, &out)) {
        out = tensor_at(x)->ctx->error_tensor;
    } else {
        x = NULL;
    }
    *out_values = out;
    if (out_inverse)
        *out_inverse = out;
    if (out_counts)
        *out_counts = out;
    if (!x)
        return;
    ctx = tensor_at(x)->ctx;
    u = tn_flat(ctx, tensor_node(x));
    n = (int64_t)tensor_numel(x);
    if (in_order && n > TN_MAX_ORDERED) {
        tensor_fail(ctx, call, BELL_BAD_SHAPE, "%s has more than 2^32 elements",
                    SHAPE_OF(x));
        return;
    }
    if (in_order) {
        order = tn_order_axis(ctx, u, 0, false, n);
        order = tn_wrap(ctx, UOP_CONTIGUOUS, order);
        u = tn_wrap(ctx, UOP_CONTIGUOUS, tn_gather(ctx, u, 0, order));
        also[1] = tensor_new(ctx, call, order);
    }
    also[0] = tensor_new(ctx, call, u);
    if (choose(call, ctx, starts_of_runs(ctx, u), also, in_order ? 2 : 1, &c)) {
        starts = chosen_places(&c);
        *out_values = tensor_new(
            ctx, call, tn_gather(ctx, tensor_at(also[0])->uop, 0, starts));
        if (out_counts)
            *out_counts =
                tensor_new(ctx, call, lengths_of_runs(ctx, starts, n));
        if (out_inverse) {
            inverse = tn_cast(ctx, tensor_at(c.running)->uop, UOP_I64);
            inverse = tn_add(ctx, inverse, tn_int(ctx, UOP_I64, -1));
            if (in_order && n > 0) {
                order = tn_cast(ctx, tensor_at(also[1])->uop,
                                n < INT32_MAX ? UOP_I32 : UOP_I64);
                order = tn_order_axis(ctx, order, 0, false, n);
                inverse = tn_gather(ctx, inverse, 0, order);
            }
            inverse = tn_reshape(ctx, inverse, tensor_at(x)->shape->d,
                                 tensor_at(x)->shape->n);
            *out_inverse = tensor_new(ctx, call, inverse);
        }
        end_choice(&c);
    }
    bell_tensor_release(also[0]);
    bell_tensor_release(also[1]);
}

void
bell_unique(struct bell_tensor *x, struct bell_tensor **out_values,
            struct bell_tensor **out_inverse, struct bell_tensor **out_counts)
{
    unique_call(__func__, x, true, out_values, out_inverse, out_counts);
}

void
bell_unique_consecutive(struct bell_tensor *x, struct bell_tensor **out_values,
                        struct bell_tensor **out_inverse,
                        struct bell_tensor **out_counts)
{
    unique_call(__func__, x, false, out_values, out_inverse, out_counts);
}

/* ---- counts of repetitions ---- */

/* The last of `running` and the least of `counts`, read; false after a failure
 * of `call`. A safe point. */
static bool
read_counts(const char *call, struct bell_context *ctx,
            const struct uop *running, const struct uop *counts,
            int64_t *out_total, int64_t *out_least)
{
    struct bell_tensor *both[2];
    bell_status status;
    int64_t n;

    if (ctx->trace) {
        tensor_fail(ctx, call, BELL_BAD_STATE,
                    "in a function that is captured: the result's size depends "
                    "on values");
        return false;
    }
    n = tn_bad(running) ? 1 : tn_numel(ctx, running);
    both[0] = tensor_new(ctx, call, tn_shrink_axis(ctx, running, 0, n - 1, n));
    both[1] = tensor_new(ctx, call, tn_reduce(ctx, UOP_MIN, counts, 1));
    status = tensor_realize_list(call, both, 2);
    if (status == BELL_OK)
        status = bell_item_i64(both[0], out_total);
    if (status == BELL_OK)
        status = bell_item_i64(both[1], out_least);
    bell_tensor_release(both[0]);
    bell_tensor_release(both[1]);
    if (status != BELL_OK)
        tensor_fail_last(ctx, call);
    return status == BELL_OK;
}

/* u with each of axis at's places as often as counts[n] says. */
static struct bell_tensor *
repeat_places(const char *call, struct bell_context *ctx, const struct uop *u,
              uint32_t at, const struct uop *counts, int64_t size)
{
    int64_t least = 0;
    const struct uop *running;

    running = tn_wrap(ctx, UOP_CONTIGUOUS, tn_scan(ctx, UOP_ADD, counts, 0));
    if (size < 0 && !read_counts(call, ctx, running, counts, &size, &least))
        return ctx->error_tensor;
    if (least < 0 || size > TN_MAX_NUMEL)
        return tensor_fail(ctx, call, BELL_BAD_VALUE,
                           "a count of %lld, %lld in all: expected counts of 0 "
                           "or more, and fewer in all",
                           (long long)least, (long long)size);
    if (tn_bad(running))
        return tensor_new(ctx, call, running);
    running = places_where_it_grows(ctx, running, size);
    return tensor_new(ctx, call, tn_gather_axis(ctx, u, at, running));
}

struct bell_tensor *
bell_repeat_interleave_by(struct bell_tensor *x, struct bell_tensor *counts,
                          int axis, int64_t size)
{
    const struct uop *u, *c;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t d[TN_MAX_RANK], n;
    int at = 0;

    if (!tensor_check2(__func__, x, counts, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    u = tensor_node(x);
    if (axis == BELL_FLAT)
        u = tn_flat(ctx, u);
    else
        at = tensor_axis(ctx, __func__, axis, tensor_at(x)->shape->n);
    if (at < 0 || tn_bad(u))
        return tensor_new(ctx, __func__, at < 0 ? &uop_failed : u);
    n = (int64_t)tensor_numel(counts);
    if (!uop_dtype_infos[tensor_at(counts)->dtype].is_int)
        return tensor_fail(ctx, __func__, BELL_BAD_DTYPE,
                           "the counts are %s, not an integer dtype",
                           DTYPE_OF(counts));
    if (tensor_at(counts)->shape->n > 1 || tn_rank(ctx, u) == 0 ||
        (n != 1 && n != tn_size(ctx, u, (uint32_t)at)))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "counts of shape %s for axis %d of %s: expected one "
                           "count, or one for each element of the axis",
                           SHAPE_OF(counts), at, SHAPE_OF(x));
    memcpy(d, tn_shape(ctx, u)->d, tn_rank(ctx, u) * sizeof(*d));
    c = tn_cast(ctx, tn_flat(ctx, tensor_node(counts)), UOP_I64);
    c = tn_broadcast(ctx, c, &d[at], 1);
    if (d[at] > 0)
        return repeat_places(__func__, ctx, u, (uint32_t)at, c, size);
    d[at] = size < 0 ? 0 : size;
    return tensor_new(
        ctx, __func__,
        tn_full(ctx, tn_const(ctx, u->dtype, 0), d, tn_rank(ctx, u)));
}

/* ---- how often ---- */

/* The least and greatest of x, which has elements, read; false after a failure
 * of `call`. A safe point. */
static bool
read_extremes(const char *call, struct bell_tensor *x, int64_t *out_low,
              int64_t *out_high)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    struct bell_tensor *both[2];
    bell_status status;

    if (ctx->trace) {
        tensor_fail(ctx, call, BELL_BAD_STATE,
                    "in a function that is captured: the result's size depends "
                    "on values");
        return false;
    }
    both[0] = bell_min(x, BELL_NO_DIMS, false);
    both[1] = bell_max(x, BELL_NO_DIMS, false);
    status = tensor_realize_list(call, both, 2);
    if (status == BELL_OK)
        status = bell_item_i64(both[0], out_low);
    if (status == BELL_OK)
        status = bell_item_i64(both[1], out_high);
    bell_tensor_release(both[0]);
    bell_tensor_release(both[1]);
    if (status != BELL_OK)
        tensor_fail_last(ctx, call);
    return status == BELL_OK;
}

struct bell_tensor *
bell_bincount(struct bell_tensor *x, struct bell_tensor *weights,
              int64_t min_length)
{
    int64_t low = 0, high = -1;
    const struct uop *u, *index;
    struct bell_context *ctx;
    struct bell_tensor *out;

    if (weights ? !tensor_check2(__func__, x, weights, &out)
                : !tensor_check(__func__, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (tensor_at(x)->shape->n != 1 ||
        !uop_dtype_infos[tensor_at(x)->dtype].is_int ||
        (weights && tensor_at(weights)->shape != tensor_at(x)->shape) ||
        min_length < 0)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "of %s %s, weights %s, at least %lld long; rank 1 "
                           "of integers is needed",
                           DTYPE_OF(x), SHAPE_OF(x),
                           weights ? SHAPE_OF(weights) : "NULL",
                           (long long)min_length);
    if (tensor_numel(x) && !read_extremes(__func__, x, &low, &high))
        return ctx->error_tensor;
    if (low < 0 || high >= TN_MAX_NUMEL)
        return tensor_fail(ctx, __func__, BELL_BAD_INDEX,
                           "%lld is not a place to count at",
                           (long long)(low < 0 ? low : high));
    high = high + 1 > min_length ? high + 1 : min_length;
    index = tn_cast(ctx, tensor_node(x), UOP_I64);
    if (!weights)
        return tensor_new(ctx, __func__, tn_scatter_count(ctx, 0, index, high));
    u = tensor_wide_node(weights);
    if (!tn_is_float(u))
        u = tn_cast(ctx, u, UOP_F64);
    u = tn_scatter(ctx, TN_COMBINE_SUM, u, 0, index, high);
    return tensor_new(ctx, __func__, u);
}
