/* Indexing: x[...], gather and its relatives, scatter. */
#include "tensor/ops/elementwise.h"
#include "tensor/ops/select.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

/* ---- x[items] ---- */

/* What is done to one axis of x, in order of x's axes. */
struct axis_step {
    int64_t begin, step, count; /* elements begin, begin + step, ... */
    bool drop;                  /* an integer: the axis goes */
};

struct index_plan {
    struct bell_context *ctx;
    const struct uop *u;
    struct axis_step steps[BELL_MAX_RANK];
    /* by axis of the result: an axis of x, or -1 for a new one */
    int axes[2 * BELL_MAX_RANK];
    uint32_t n_axes;
    /* tensor items: the axis of the result that each indexes */
    struct bell_tensor *index[BELL_MAX_RANK];
    uint32_t index_at[BELL_MAX_RANK];
    uint32_t n_index;
};

/* The same where a size is of a symbol: nothing is clamped. False: it may be
 * out of bounds, or empty. */
static bool
resolve_varying(struct dim_table *t, const struct bell_index_item *item,
                int64_t size, struct axis_step *out)
{
    int64_t begin = item->begin == BELL_NONE ? 0 : item->begin;
    int64_t end = item->end == BELL_NONE ? size : item->end, length;
    bool back = item->step < 0;

    if (back && (item->begin != BELL_NONE || item->end != BELL_NONE))
        return false;
    if (dim_is_number(begin) && begin < 0)
        begin = dim_add(t, size, begin);
    if (dim_is_number(end) && end < 0)
        end = dim_add(t, size, end);
    if (dim_at_most(t, size, end) == DIM_ALWAYS)
        end = size;
    length = dim_sub(t, end, begin);
    if (!dims_is_slice(t, begin, length, size) || length < 1)
        return false;
    out->step = item->step;
    length = dim_add(t, length, (back ? -item->step : item->step) - 1);
    out->count = dim_floordiv(t, length, back ? -item->step : item->step);
    out->begin = back ? dim_sub(t, size, 1) : begin;
    out->drop = false;
    return out->count != DIM_BAD;
}

/* begin:end:step over a size, clamped as Python does. */
static void
resolve_slice(const struct bell_index_item *item, int64_t size,
              struct axis_step *out)
{
    int64_t low = item->step < 0 ? -1 : 0;
    int64_t high = item->step < 0 ? size - 1 : size;
    int64_t begin = item->begin, end = item->end;

    assert(size >= 0);
    if (begin == BELL_NONE)
        begin = item->step < 0 ? high : low;
    else if (begin < 0)
        begin = begin + size < low ? low : begin + size;
    else
        begin = begin > high ? high : begin;
    if (end == BELL_NONE)
        end = item->step < 0 ? low : high;
    else if (end < 0)
        end = end + size < low ? low : end + size;
    else
        end = end > high ? high : end;
    out->begin = begin;
    out->step = item->step > TN_MAX_NUMEL    ? TN_MAX_NUMEL
                : item->step < -TN_MAX_NUMEL ? -TN_MAX_NUMEL
                                             : item->step;
    out->drop = false;
    if (item->step > 0)
        out->count = end > begin ? (int64_t)div_up((uint64_t)(end - begin),
                                                   (uint64_t)item->step)
                                 : 0;
    else
        out->count = begin > end ? (int64_t)div_up((uint64_t)(begin - end),
                                                   0 - (uint64_t)item->step)
                                 : 0;
}

static struct bell_tensor *
fail_item(const struct index_plan *p, const char *call, uint32_t i,
          const char *what)
{
    return tensor_fail(p->ctx, call, BELL_BAD_VALUE, "item %u: %s", i, what);
}

/* Takes one item for axis `axis` of x; false after a failure. */
static bool
plan_item(struct index_plan *p, const char *call,
          const struct bell_index_item *item, uint32_t i, uint32_t axis,
          int64_t size)
{
    struct axis_step *step = &p->steps[axis];
    char text[2][64];

    assert(axis < BELL_MAX_RANK);
    step->begin = 0;
    step->step = 1;
    step->count = size;
    step->drop = item->kind == BELL_INDEX_INT;
    if (item->kind == BELL_INDEX_SLICE) {
        if (item->step == 0) {
            fail_item(p, call, i, "the step must not be 0");
            return false;
        }
        if (!dim_is_expr(item->begin) && !dim_is_expr(item->end) &&
            !dim_is_expr(size)) {
            resolve_slice(item, size, step);
        } else if (!resolve_varying(p->ctx->dims, item, size, step)) {
            fail_item(p, call, i,
                      "it may be empty, or out of bounds, by the values of "
                      "symbols");
            return false;
        }
    } else if (item->kind == BELL_INDEX_INT) {
        int64_t at = item->begin;
        if (dim_is_number(at) && at < 0)
            at = dim_add(p->ctx->dims, at, size);
        if (!dims_is_slice(p->ctx->dims, at, 1, size)) {
            tensor_fail(
                p->ctx, call, BELL_BAD_INDEX,
                "item %u: index %s is out of bounds for an axis of size %s", i,
                (dim_print(p->ctx->dims, item->begin, text[0], sizeof(text[0])),
                 text[0]),
                (dim_print(p->ctx->dims, size, text[1], sizeof(text[1])),
                 text[1]));
            return false;
        }
        step->begin = at;
        step->count = 1;
        return true;
    } else {
        const struct tensor *t = handle_find(item->tensor);
        if (!t && item->tensor) {
            char fate[HANDLE_FATE];
            tensor_fail(p->ctx, call, BELL_BAD_STATE, "item %u: the tensor %s",
                        i, handle_fate(item->tensor, fate, sizeof(fate)));
            return false;
        }
        if (!t || t->ctx != p->ctx) {
            fail_item(p, call, i,
                      t ? "a tensor of another context" : "the tensor is NULL");
            return false;
        }
        if (!(t->flags & TENSOR_ERROR) && !uop_dtype_infos[t->dtype].is_int) {
            tensor_fail(p->ctx, call, BELL_BAD_DTYPE,
                        "item %u: a tensor of %s; an index is of integers", i,
                        bell_dtype_name((enum bell_dtype)t->dtype));
            return false;
        }
        p->index[p->n_index] = item->tensor;
        p->index_at[p->n_index++] = p->n_axes;
    }
    p->axes[p->n_axes++] = (int)axis;
    return true;
}

/* Distributes the items over x's axes. */
static bool
make_index_plan(struct index_plan *p, const char *call, struct bell_tensor *x,
                const struct bell_index_item *items, uint32_t n)
{
    const struct bell_index_item whole = bell_whole();
    uint32_t rank = tensor_at(x)->shape->n, used = 0, axis = 0, i;
    bool seen = false;

    if (n && !items) {
        tensor_fail(p->ctx, call, BELL_BAD_MISSING,
                    "the list of items is NULL");
        return false;
    }
    for (i = 0; i < n; i++)
        used += items[i].kind != BELL_INDEX_NEW_AXIS &&
                items[i].kind != BELL_INDEX_ELLIPSIS;
    if (used > rank || n > 2 * BELL_MAX_RANK) {
        tensor_fail(p->ctx, call, BELL_BAD_INDEX, "too many indices: %u for %s",
                    used, SHAPE_OF(x));
        return false;
    }
    for (i = 0; i <= n; i++) {
        bool fill = i == n || items[i].kind == BELL_INDEX_ELLIPSIS;
        if (i < n && items[i].kind == BELL_INDEX_NEW_AXIS) {
            if (p->n_axes == BELL_MAX_RANK) {
                fail_item(p, call, i, "too many axes");
                return false;
            }
            p->axes[p->n_axes++] = -1;
            continue;
        }
        if (i < n && fill && seen) {
            fail_item(p, call, i,
                      "a second one; an index has a single ellipsis at most");
            return false;
        }
        if (!fill) {
            if (!plan_item(p, call, &items[i], i, axis,
                           tensor_at(x)->shape->d[axis]))
                return false;
            axis++;
            continue;
        }
        seen = true;
        for (; used < rank; used++, axis++) {
            if (!plan_item(p, call, &whole, i, axis,
                           tensor_at(x)->shape->d[axis]))
                return false;
        }
    }
    if (p->n_axes > BELL_MAX_RANK) {
        tensor_fail(p->ctx, call, BELL_BAD_SHAPE,
                    "the result has more than %d axes", BELL_MAX_RANK);
        return false;
    }
    return true;
}

/* Slices and integers, then new axes. */
static void
apply_slices(struct index_plan *p)
{
    struct bell_context *ctx = p->ctx;
    int64_t d[2 * BELL_MAX_RANK];
    uint32_t rank = tn_rank(ctx, p->u), i;

    for (i = 0; i < rank; i++) {
        const struct axis_step *s = &p->steps[i];
        int64_t size = tn_size(ctx, p->u, i), begin = s->begin, step = s->step;
        if (s->count == size && step == 1)
            continue;
        if (s->count == 0) {
            p->u = tn_shrink_axis(ctx, p->u, i, 0, 0);
            continue;
        }
        if (step < 0) {
            p->u = tn_flip(ctx, p->u, 1u << i);
            begin = dim_sub(ctx->dims, dim_sub(ctx->dims, size, 1), begin);
            step = s->count == 1 ? 1 : -step;
        }
        p->u = tn_stride_axis(ctx, p->u, i, begin, s->count == 1 ? 1 : step,
                              s->count);
    }
    for (i = 0; i < p->n_axes; i++)
        d[i] = p->axes[i] < 0 ? 1 : p->steps[p->axes[i]].count;
    p->u = tn_reshape(ctx, p->u, d, p->n_axes);
}

/* A row-major index into axes sizes[0..n-1] made from one index for each;
 * one that is out of range gives a number out of range. */
static const struct uop *
flat_index(struct bell_context *ctx, const struct uop *const *index,
           const int64_t *sizes, uint32_t n)
{
    const struct uop *flat = NULL, *ok = NULL, *zero = tn_int(ctx, UOP_I64, 0);
    int64_t total = 1;
    uint32_t k;

    assert(n > 0);
    for (k = 0; k < n; k++) {
        const struct uop *size = tn_count(ctx, sizes[k]), *i, *in;
        total = dim_mul(ctx->dims, total, sizes[k]);
        i = tn_where(ctx, tn_lt(ctx, index[k], zero),
                     tn_add(ctx, index[k], size), index[k]);
        in = tn_and(ctx, tn_not(ctx, tn_lt(ctx, i, zero)), tn_lt(ctx, i, size));
        ok = ok ? tn_and(ctx, ok, in) : in;
        flat = flat ? tn_add(ctx, tn_mul(ctx, flat, size), i) : i;
    }
    return tn_where(ctx, ok, flat, tn_count(ctx, total));
}

const struct uop *
tn_gather_axis(struct bell_context *ctx, const struct uop *u, uint32_t at,
               const struct uop *index)
{
    const struct uop_dims *shape = tn_shape(ctx, index);
    int64_t d[TN_MAX_RANK], final[TN_MAX_RANK];
    uint32_t rank = tn_rank(ctx, u), i, n = 0;

    assert(tn_bad(u) || tn_bad(index) || at < tn_rank(ctx, u));
    if (tn_bad(u) || tn_bad(index))
        return &uop_failed;
    for (i = 0; i < rank; i++) {
        d[i] = i == at ? tn_elems(ctx, index) : 1;
        if (i == at) {
            memcpy(final + n, shape->d, shape->n * sizeof(*d));
            n += shape->n;
        } else {
            final[n++] = tn_size(ctx, u, i);
        }
    }
    index = tn_reshape(ctx, index, d, rank);
    for (i = 0; i < rank; i++)
        d[i] = i == at ? d[i] : tn_size(ctx, u, i);
    return tn_reshape(ctx, tn_gather(ctx, u, at, tn_expand(ctx, index, d)),
                      final, n);
}

/* How many axes of the result come before those of the tensor items. Tensors of
 * rank 0 have none: like integers they leave the others where they are. */
static uint32_t
place_tensors(const struct index_plan *p)
{
    uint32_t before = 0, between = 0, i, k = 0;
    bool found = false;

    assert(p->n_index > 0);
    for (i = 0; i < p->n_axes; i++) {
        if (k == p->n_index || p->index_at[k] != i) {
            if (found)
                between++;
            else
                before++;
        } else if (tensor_at(p->index[k++])->shape->n > 0) {
            if (found && between)
                return 0;
            found = true;
        }
    }
    return found ? before : 0;
}

/* The tensor items: their axes are brought together, made one, and gathered
 * from by one flat index. */
static const struct uop *
apply_tensors(struct index_plan *p)
{
    struct bell_context *ctx = p->ctx;
    const struct uop *index[BELL_MAX_RANK], *flat;
    int64_t order[TN_MAX_RANK], sizes[BELL_MAX_RANK];
    uint32_t first = place_tensors(p), rank = p->n_axes, i, j, at = 0;

    for (i = 0; i < p->n_index; i++) {
        index[i] = tn_cast(ctx, tensor_at(p->index[i])->uop, UOP_I64);
        sizes[i] = tn_size(ctx, p->u, p->index_at[i]);
    }
    for (i = 0; i < rank; i++) {
        bool is_index = false;
        if (at == first) {
            for (j = 0; j < p->n_index; j++)
                order[at++] = p->index_at[j];
        }
        for (j = 0; j < p->n_index; j++)
            is_index = is_index || p->index_at[j] == i;
        if (!is_index)
            order[at++] = i;
    }
    if (at == first) {
        for (j = 0; j < p->n_index; j++)
            order[at++] = p->index_at[j];
    }
    flat =
        p->n_index == 1 ? index[0] : flat_index(ctx, index, sizes, p->n_index);
    p->u = tn_permute(ctx, p->u, order);
    p->u = tn_merge_axes(ctx, p->u, first, p->n_index);
    return tn_gather_axis(ctx, p->u, first, flat);
}

/* Checks that the tensor items broadcast; false with *out set. */
static bool
check_tensors(const struct index_plan *p, const char *call,
              struct bell_tensor **out)
{
    const struct uop_dims *shapes[BELL_MAX_RANK];
    int64_t d[TN_MAX_RANK];
    uint32_t i, rank = 0;

    for (i = 0; i < p->n_index; i++) {
        if (tensor_at(p->index[i])->flags & TENSOR_ERROR) {
            *out = p->index[i];
            return false;
        }
        shapes[i] = tensor_at(p->index[i])->shape;
    }
    if (!tn_broadcast_shape(shapes, p->n_index, d, &rank) ||
        p->n_axes - p->n_index + rank > BELL_MAX_RANK) {
        *out = tensor_fail(p->ctx, call, BELL_BAD_SHAPE,
                           "the index tensors' shapes do not broadcast, %s "
                           "the first",
                           SHAPE_OF(p->index[0]));
        return false;
    }
    return true;
}

/* ---- bool items ---- */

/* Items with integer tensors in place of bool ones. */
struct index_items {
    struct bell_index_item list[2 * BELL_MAX_RANK];
    uint32_t n;
    struct bell_tensor *made[BELL_MAX_RANK];
    uint32_t n_made;
};

static void
free_items(struct index_items *it)
{
    while (it->n_made)
        bell_tensor_release(it->made[--it->n_made]);
}

static bool
is_mask(const struct bell_index_item *item)
{
    const struct tensor *t = NULL;

    if (item->kind == BELL_INDEX_TENSOR)
        t = handle_find(item->tensor);
    return t && !(t->flags & TENSOR_ERROR) && t->dtype == UOP_BOOL;
}

/* Axes of x that items take. */
static uint32_t
axes_of_items(const struct bell_index_item *items, uint32_t n)
{
    uint32_t used = 0, i;

    for (i = 0; i < n; i++) {
        if (is_mask(&items[i]))
            used += tensor_at(items[i].tensor)->shape->n;
        else
            used += items[i].kind != BELL_INDEX_NEW_AXIS &&
                    items[i].kind != BELL_INDEX_ELLIPSIS;
    }
    return used;
}

/* The axis of x that item i of n begins at. */
static uint32_t
axis_of_item(const struct bell_tensor *x, const struct bell_index_item *items,
             uint32_t n, uint32_t i)
{
    uint32_t axis = axes_of_items(items, i), k;
    bool after_ellipsis = false;

    for (k = 0; k < i; k++)
        after_ellipsis |= items[k].kind == BELL_INDEX_ELLIPSIS;
    if (after_ellipsis) {
        k = axes_of_items(items + i, n - i);
        axis = k > tensor_at(x)->shape->n ? tensor_at(x)->shape->n
                                          : tensor_at(x)->shape->n - k;
    }
    return axis;
}

/* Whether the mask, item i of n, has the shape of x's axes from *out_axis on.
 */
static bool
mask_fits(const char *call, struct bell_tensor *x,
          const struct bell_index_item *items, uint32_t n, uint32_t i,
          uint32_t *out_axis)
{
    struct bell_tensor *mask = items[i].tensor;
    uint32_t axis = axis_of_item(x, items, n, i), k;
    bool fits;

    fits = tensor_at(mask)->ctx == tensor_at(x)->ctx &&
           axis + tensor_at(mask)->shape->n <= tensor_at(x)->shape->n;
    for (k = 0; fits && k < tensor_at(mask)->shape->n; k++)
        fits = tensor_at(mask)->shape->d[k] == tensor_at(x)->shape->d[axis + k];
    if (!fits)
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "item %u: a mask of shape %s for axis %u of %s: the sizes "
                    "must be equal",
                    i, SHAPE_OF(mask), axis, SHAPE_OF(x));
    *out_axis = axis;
    return fits;
}

/* Items without masks of shape (): such a mask is one of shape (1) for a new
 * axis of size 1. */
struct scalar_masks {
    struct bell_tensor *x;
    struct bell_index_item list[2 * BELL_MAX_RANK];
    struct bell_tensor *made[4 * BELL_MAX_RANK];
    uint32_t n_made;
};

static bool
is_scalar_mask(const struct bell_index_item *item)
{
    return is_mask(item) && tensor_at(item->tensor)->shape->n == 0;
}

/* Whether there is one among items that can be counted. */
static bool
has_scalar_mask(const struct bell_index_item *items, uint32_t n)
{
    uint32_t i;

    for (i = 0; items && i < n && n <= 2 * BELL_MAX_RANK; i++) {
        if (is_scalar_mask(&items[i]))
            return true;
    }
    return false;
}

static void
expand_scalar_masks(struct bell_tensor *x, const struct bell_index_item *items,
                    uint32_t n, struct scalar_masks *out)
{
    uint32_t i, axis;

    out->x = x;
    out->n_made = 0;
    memcpy(out->list, items, n * sizeof(*items));
    for (i = 0; i < n; i++) {
        if (!is_scalar_mask(&items[i]))
            continue;
        axis = axis_of_item(out->x, out->list, n, i);
        out->x = bell_unsqueeze(out->x, (int)axis);
        out->made[out->n_made++] = out->x;
        out->list[i] =
            bell_by(bell_reshape(items[i].tensor, (int64_t[]){1}, 1));
        out->made[out->n_made++] = out->list[i].tensor;
    }
}

static void
free_scalar_masks(struct scalar_masks *s)
{
    while (s->n_made)
        bell_tensor_release(s->made[--s->n_made]);
}

/* Masks of sizes of symbols are not counted. */
static bool
check_items(const char *call, struct bell_tensor *x,
            const struct bell_index_item *items, uint32_t n)
{
    uint32_t i;

    for (i = 0; items && i < n; i++) {
        const struct tensor *t = items[i].kind == BELL_INDEX_TENSOR
                                     ? handle_find(items[i].tensor)
                                     : NULL;
        if (t && t->ctx == tensor_at(x)->ctx && t->flags & TENSOR_VARIES &&
            is_mask(&items[i])) {
            tensor_fail(t->ctx, call, BELL_BAD_SHAPE,
                        "item %u: a mask of shape %s: how many are taken "
                        "depends on values; bell_masked_select_sized and "
                        "bell_where take sizes of symbols",
                        i, SHAPE_OF(items[i].tensor));
            return false;
        }
    }
    return true;
}

/* The places of what is true in a mask, an item for each of its axes. */
static bool
add_mask_items(const char *call, struct index_items *it,
               struct bell_tensor *mask)
{
    struct bell_context *ctx = tensor_at(mask)->ctx;
    struct bell_tensor *places = tensor_find_true(call, mask);
    int64_t inner = (int64_t)tensor_numel(mask);
    uint32_t k;

    for (k = 0; places && k < tensor_at(mask)->shape->n; k++) {
        int64_t size = tensor_at(mask)->shape->d[k];
        const struct uop *u = tensor_at(places)->uop;
        inner = size ? inner / size : 0;
        u = tn_alu2(ctx, UOP_IDIV, u, tn_int(ctx, UOP_I64, inner ? inner : 1));
        u = tn_alu2(ctx, UOP_IMOD, u, tn_int(ctx, UOP_I64, size ? size : 1));
        it->made[it->n_made] = tensor_new(ctx, call, u);
        it->list[it->n++] = bell_by(it->made[it->n_made++]);
    }
    bell_tensor_release(places);
    return places != NULL;
}

/* Replaces the masks; false after a failure. Values may be read: a safe point.
 */
static bool
count_masks(const char *call, struct bell_tensor *x,
            const struct bell_index_item *items, uint32_t n,
            struct index_items *it)
{
    uint32_t i, axis;

    if (n && !items) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_MISSING,
                    "the list of items is NULL");
        return false;
    }
    if (n > 2 * BELL_MAX_RANK ||
        axes_of_items(items, n) > tensor_at(x)->shape->n) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_INDEX,
                    "too many indices: %u for %s", axes_of_items(items, n),
                    SHAPE_OF(x));
        return false;
    }
    for (i = 0; i < n; i++) {
        if (!is_mask(&items[i])) {
            if (it->n == 2 * BELL_MAX_RANK) {
                tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_INDEX,
                            "too many items");
                return false;
            }
            it->list[it->n++] = items[i];
            continue;
        }
        if (!mask_fits(call, x, items, n, i, &axis) ||
            it->n + tensor_at(items[i].tensor)->shape->n > 2 * BELL_MAX_RANK ||
            !add_mask_items(call, it, items[i].tensor))
            return false;
    }
    return true;
}

/* Whether the elements of `index`, as far as they are known, name places of an
 * axis of this size. A safe point. */
static bool
index_in_range(const char *call, struct bell_tensor *index, int axis,
               int64_t size)
{
    int64_t least = size, most = size;

    if (dim_is_expr(size)) /* out of range for all values */
        dim_bounds(tensor_at(index)->ctx->dims, size, &least, &most);
    return tensor_check_range(call, index, "index", axis, -most, most,
                              TENSOR_IGNORE_NONE);
}

/* The items as a plan; false with *out set. */
static bool
begin_index(const char *call, struct bell_tensor *x,
            const struct bell_index_item *items, uint32_t n,
            struct index_items *it, struct index_plan *p,
            struct bell_tensor **out)
{
    uint32_t i;

    *out = tensor_at(x)->ctx->error_tensor;
    it->n = it->n_made = p->n_axes = p->n_index =
        0; /* the rest as it is used */
    if (!check_items(call, x, items, n) || !count_masks(call, x, items, n, it))
        return false;
    p->ctx = tensor_at(x)->ctx;
    if (!make_index_plan(p, call, x, it->list, it->n) ||
        (p->n_index && !check_tensors(p, call, out)))
        return false;
    for (i = 0; i < p->n_index; i++) {
        int axis = p->axes[p->index_at[i]];
        int64_t size = tensor_at(x)->shape->d[axis];
        if (!index_in_range(call, p->index[i], axis, size))
            return false;
    }
    p->u = tensor_node(x);
    return true;
}

static struct bell_tensor *
index_call(const char *call, struct bell_tensor *x,
           const struct bell_index_item *items, uint32_t n)
{
    struct index_plan plan;
    struct index_items it;
    struct bell_tensor *out;

    if (tensor_at(x)->flags & TENSOR_ERROR)
        return x;
    if (begin_index(call, x, items, n, &it, &plan, &out)) {
        apply_slices(&plan);
        if (plan.n_index)
            plan.u = apply_tensors(&plan);
        out = tensor_new(tensor_at(x)->ctx, call, plan.u);
    }
    free_items(&it);
    return out;
}

struct bell_tensor *
bell_index(struct bell_tensor *x, const struct bell_index_item *items,
           uint32_t n)
{
    struct scalar_masks masks;
    struct bell_tensor *out;

    if (!tensor_takes(__func__, x, &out))
        return out;
    if (!has_scalar_mask(items, n))
        return index_call(__func__, x, items, n);
    expand_scalar_masks(x, items, n, &masks);
    out = index_call(__func__, masks.x, masks.list, n);
    free_scalar_masks(&masks);
    return out;
}

/* Lays `value` (of the shape that the slices give) out over x's shape: the
 * inverse of apply_slices, zeros elsewhere. */
static const struct uop *
spread_value(const struct index_plan *p, const struct uop_dims *shape,
             const struct uop *value)
{
    struct bell_context *ctx = p->ctx;
    int64_t d[BELL_MAX_RANK];
    uint32_t i;

    for (i = 0; i < shape->n; i++)
        d[i] = p->steps[i].count;
    value = tn_reshape(ctx, value, d, shape->n);
    for (i = 0; i < shape->n; i++) {
        const struct axis_step *s = &p->steps[i];
        int64_t step = s->step < 0 ? -s->step : s->step, low, used;
        if (tn_bad(value))
            return value;
        used = dim_sub(ctx->dims, dim_mul(ctx->dims, s->count, step), step);
        low = s->step < 0 ? dim_sub(ctx->dims, s->begin, used) : s->begin;
        if (s->step < 0)
            value = tn_flip(ctx, value, 1u << i);
        if (s->count > 1)
            value = tn_stuff_axis(ctx, value, i, step);
        used = s->count > 1 ? dim_add(ctx->dims, used, 1) : s->count;
        used = dim_add(ctx->dims, low, used);
        value = tn_pad_axis(ctx, value, i, low,
                            dim_sub(ctx->dims, shape->d[i], used));
    }
    return value;
}

/* x with value in the part that the slices give, added where `add`. */
static const struct uop *
put_slices(struct index_plan *p, struct bell_tensor *x, const struct uop *v,
           const int64_t *d, bool add)
{
    struct bell_context *ctx = p->ctx;
    const struct uop *mask;

    v = spread_value(p, tensor_at(x)->shape,
                     tn_broadcast(ctx, v, d, p->n_axes));
    if (add)
        return tn_add(ctx, p->u, v);
    mask = tn_full(ctx, tn_int(ctx, UOP_BOOL, 1), d, p->n_axes);
    mask = spread_value(p, tensor_at(x)->shape, mask);
    return tn_where(ctx, mask, v, p->u);
}

/* Which element of x each of x[items] is, from 1 on; 0: none. */
static const struct uop *
number_elements(struct index_plan *p, struct bell_tensor *x)
{
    const struct uop *u = p->u;

    p->u = tn_iota(p->ctx, 1, 0, tn_elems(p->ctx, u), UOP_I64);
    p->u = tn_add(p->ctx, p->u, tn_int(p->ctx, UOP_I64, 1));
    p->u = tn_reshape(p->ctx, p->u, tensor_at(x)->shape->d,
                      tensor_at(x)->shape->n);
    apply_slices(p);
    return apply_tensors(p);
}

static const struct uop *
put_places(struct bell_context *ctx, const struct uop *u, const struct uop *v,
           const struct uop *places, bool add)
{
    const struct uop_dims *shape = tn_shape(ctx, places);
    int64_t size = tn_elems(ctx, u), n = tn_elems(ctx, places);
    const struct uop *x = tn_flat(ctx, u), *count, *none;

    if (tn_bad(places) || n == 0)
        return tn_bad(places) ? places : u;
    v = tn_reshape(ctx, tn_broadcast(ctx, v, shape->d, shape->n), &n, 1);
    places = tn_reshape(ctx, places, &n, 1);
    none = tn_eq(ctx, places, tn_int(ctx, UOP_I64, 0));
    places = tn_where(ctx, none, tn_count(ctx, size),
                      tn_add(ctx, places, tn_int(ctx, UOP_I64, -1)));
    if (add) {
        x = tn_add(ctx, x, tn_scatter(ctx, TN_COMBINE_SUM, v, 0, places, size));
    } else {
        count = tn_scatter_count(ctx, 0, places, size);
        v = tn_scatter(ctx, TN_COMBINE_LAST, v, 0, places, size);
        x = tn_where(ctx, tn_lt(ctx, tn_int(ctx, UOP_I64, 0), count), v, x);
    }
    shape = tn_shape(ctx, u);
    return tn_reshape(ctx, x, shape->d, shape->n);
}

/* Checks that a value broadcasts to a shape. */
static bool
check_value(const char *call, struct bell_tensor *value, const int64_t *d,
            uint32_t n)
{
    bool bad = tensor_at(value)->shape->n > n;
    uint32_t skip = bad ? 0 : n - tensor_at(value)->shape->n, i;
    char text[TENSOR_SHAPE_STR];

    for (i = 0; i < tensor_at(value)->shape->n && !bad; i++)
        bad = tensor_at(value)->shape->d[i] != 1 &&
              tensor_at(value)->shape->d[i] != d[skip + i];
    if (bad)
        tensor_fail(tensor_at(value)->ctx, call, BELL_BAD_SHAPE,
                    "a value of shape %s into %s: it must broadcast to that",
                    SHAPE_OF(value),
                    tensor_sizes_str(tensor_at(value)->ctx->dims, d, n, text,
                                     sizeof(text)));
    return !bad;
}

/* x[mask] = one value: nothing needs to be counted. */
static const struct uop *
put_mask(struct bell_tensor *x, struct bell_tensor *mask, const struct uop *v,
         bool add)
{
    const struct uop *u = tensor_node(x), *m = tensor_node(mask);
    int64_t d[BELL_MAX_RANK];
    uint32_t i;

    for (i = 0; i < tensor_at(x)->shape->n; i++)
        d[i] = i < tensor_at(mask)->shape->n ? tensor_at(mask)->shape->d[i] : 1;
    m = tn_reshape(tensor_at(x)->ctx, m, d, tensor_at(x)->shape->n);
    v = tn_reshape(tensor_at(x)->ctx, v, NULL, 0);
    return tn_where(tensor_at(x)->ctx, m,
                    add ? tn_add(tensor_at(x)->ctx, u, v) : v, u);
}

static struct bell_tensor *
put_call(const char *call, struct bell_tensor *x,
         const struct bell_index_item *items, uint32_t n,
         struct bell_tensor *value, bool add)
{
    const struct uop *v, *u = NULL, *places;
    struct index_plan plan;
    struct index_items it;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t d[2 * BELL_MAX_RANK];
    uint32_t i;

    if (!tensor_takes2(call, x, value, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    if (!tensor_fits_number(call, value, tensor_at(x)->dtype))
        return ctx->error_tensor;
    if (n == 1 && items && is_mask(items) && tensor_numel(value) == 1 &&
        !(tensor_at(value)->flags & TENSOR_VARIES) &&
        tensor_at(value)->shape->n <= 1) {
        if (!mask_fits(call, x, items, n, 0, &i))
            return ctx->error_tensor;
        v = tn_cast(ctx, tensor_at(value)->uop, tensor_node(x)->dtype);
        return tensor_new(ctx, call, put_mask(x, items->tensor, v, add));
    }
    if (has_scalar_mask(items, n)) {
        struct scalar_masks masks;
        struct bell_tensor *put;

        expand_scalar_masks(x, items, n, &masks);
        put = put_call(call, masks.x, masks.list, n, value, add);
        free_scalar_masks(&masks);
        out = bell_reshape(put, tensor_at(x)->shape->d, tensor_at(x)->shape->n);
        bell_tensor_release(put);
        return out;
    }
    if (begin_index(call, x, items, n, &it, &plan, &out)) {
        v = tn_cast(ctx, tensor_at(value)->uop, plan.u->dtype);
        for (i = 0; i < plan.n_axes; i++)
            d[i] = plan.axes[i] < 0 ? 1 : plan.steps[plan.axes[i]].count;
        if (plan.n_index) {
            const struct uop_dims *shape;
            places = number_elements(&plan, x);
            shape = tn_shape(ctx, places);
            if (tn_bad(places) || check_value(call, value, shape->d, shape->n))
                u = put_places(ctx, tensor_node(x), v, places, add);
        } else if (check_value(call, value, d, plan.n_axes)) {
            u = dims_most(ctx->dims, d, plan.n_axes) == 0
                    ? plan.u
                    : put_slices(&plan, x, v, d, add);
        }
        out = u ? tensor_new(ctx, call, u) : ctx->error_tensor;
    }
    free_items(&it);
    return out;
}

struct bell_tensor *
bell_index_put(struct bell_tensor *x, const struct bell_index_item *items,
               uint32_t n, struct bell_tensor *value)
{
    return put_call(__func__, x, items, n, value, false);
}

struct bell_tensor *
bell_index_put_add(struct bell_tensor *x, const struct bell_index_item *items,
                   uint32_t n, struct bell_tensor *value)
{
    return put_call(__func__, x, items, n, value, true);
}

struct bell_tensor *
bell_narrow(struct bell_tensor *x, int axis, int64_t begin, int64_t length)
{
    struct dim_table *dims;
    struct bell_tensor *out;
    char text[2][64];
    int64_t size;
    int at;

    if (!tensor_takes(__func__, x, &out))
        return out;
    at = tensor_axis(tensor_at(x)->ctx, __func__, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return tensor_at(x)->ctx->error_tensor;
    dims = tensor_at(x)->ctx->dims;
    size = tensor_at(x)->shape->n ? tensor_at(x)->shape->d[at] : 0;
    if (begin < 0 && begin >= -size)
        begin += size;
    if (tensor_at(x)->shape->n == 0 ||
        !dims_is_slice(dims, begin, length, size)) {
        dim_print(dims, length, text[0], sizeof(text[0]));
        dim_print(dims, begin, text[1], sizeof(text[1]));
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_INDEX,
                           "%s from %s is out of bounds for axis %d of %s",
                           text[0], text[1], at, SHAPE_OF(x));
    }
    return tensor_new(tensor_at(x)->ctx, __func__,
                      tn_shrink_axis(tensor_at(x)->ctx, tensor_node(x),
                                     (uint32_t)at, begin,
                                     dim_add(dims, begin, length)));
}

struct bell_tensor *
bell_select(struct bell_tensor *x, int axis, int64_t i)
{
    struct bell_tensor *out;
    char text[64];
    const struct uop *u;
    int64_t size;
    int at;

    if (!tensor_takes(__func__, x, &out))
        return out;
    at = tensor_axis(tensor_at(x)->ctx, __func__, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return tensor_at(x)->ctx->error_tensor;
    size = tensor_at(x)->shape->n ? tensor_at(x)->shape->d[at] : 0;
    i = i < 0 && i >= -size ? i + size : i;
    if (!dims_is_slice(tensor_at(x)->ctx->dims, i, 1, size)) {
        dim_print(tensor_at(x)->ctx->dims, i, text, sizeof(text));
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_INDEX,
                           "index %s is out of bounds for axis %d of %s", text,
                           at, SHAPE_OF(x));
    }
    u = tn_shrink_axis(tensor_at(x)->ctx, tensor_node(x), (uint32_t)at, i,
                       dim_add(tensor_at(x)->ctx->dims, i, 1));
    return tensor_new(tensor_at(x)->ctx, __func__,
                      tn_squeeze(tensor_at(x)->ctx, u, tn_axis_bit(at)));
}

/* ---- gather and its relatives ---- */

/* Checks an integer index; false with *out set. */
static bool
check_index_node(const char *call, struct bell_tensor *x,
                 struct bell_tensor *index, struct bell_tensor **out)
{
    if (!tensor_takes2(call, x, index, out))
        return false;
    if (uop_dtype_infos[tensor_at(index)->dtype].is_int)
        return true;
    *out =
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_DTYPE,
                    "the index is %s, not an integer dtype", DTYPE_OF(index));
    return false;
}

/* Number of axes, of a scalar 1: here it counts as one element. */
static uint32_t
rank_of(const struct bell_tensor *t)
{
    return tensor_at(t)->shape->n ? tensor_at(t)->shape->n : 1;
}

/* A scalar as one element. */
static const struct uop *
as_vector(struct bell_context *ctx, const struct uop *u)
{
    const int64_t one = 1;

    return tn_bad(u) || tn_rank(ctx, u) ? u : tn_reshape(ctx, u, &one, 1);
}

/* The axis, after a check that index fits into x but along it; -1 after a
 * failure. */
static int
gather_axis_arg(const char *call, struct bell_tensor *x,
                struct bell_tensor *index, int axis)
{
    int at = tensor_axis(tensor_at(x)->ctx, call, axis, tensor_at(x)->shape->n);
    bool bad = rank_of(x) != rank_of(index);
    uint32_t i;

    if (at < 0)
        return -1;
    for (i = 0; !bad && rank_of(x) > 1 && i < tensor_at(x)->shape->n; i++)
        bad =
            (int)i != at &&
            dim_at_most(tensor_at(x)->ctx->dims, tensor_at(index)->shape->d[i],
                        tensor_at(x)->shape->d[i]) != DIM_ALWAYS;
    if (bad) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "an index of shape %s into %s along axis %d: expected as "
                    "many axes, and no other one longer",
                    SHAPE_OF(index), SHAPE_OF(x), at);
        return -1;
    }
    return at;
}

struct bell_tensor *
bell_gather(struct bell_tensor *x, int axis, struct bell_tensor *index)
{
    int64_t bounds[2 * BELL_MAX_RANK];
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u, *i64;
    uint32_t i;
    int at;

    if (!check_index_node(__func__, x, index, &out))
        return out;
    at = gather_axis_arg(__func__, x, index, axis);
    if (at < 0 || !index_in_range(
                      __func__, index, at,
                      tensor_at(x)->shape->n ? tensor_at(x)->shape->d[at] : 1))
        return tensor_at(x)->ctx->error_tensor;
    ctx = tensor_at(x)->ctx;
    u = tensor_node(x);
    i64 = tn_cast(ctx, tensor_node(index), UOP_I64);
    if (rank_of(x) == 1) {
        u = tn_gather(ctx, as_vector(ctx, u), 0, as_vector(ctx, i64));
        return tensor_new(ctx, __func__,
                          tn_reshape(ctx, u, tensor_at(index)->shape->d,
                                     tensor_at(index)->shape->n));
    }
    for (i = 0; i < tensor_at(x)->shape->n; i++) {
        bounds[2 * i] = 0;
        bounds[2 * i + 1] = (int)i == at ? tensor_at(x)->shape->d[i]
                                         : tensor_at(index)->shape->d[i];
    }
    u = tn_shrink(ctx, u, bounds);
    return tensor_new(ctx, __func__, tn_gather(ctx, u, (uint32_t)at, i64));
}

struct bell_tensor *
bell_index_select(struct bell_tensor *x, int axis, struct bell_tensor *index)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    bool is_scalar;
    int64_t n;
    int at;

    if (!check_index_node(__func__, x, index, &out))
        return out;
    at = tensor_axis(tensor_at(x)->ctx, __func__, axis, tensor_at(x)->shape->n);
    if (at < 0)
        return tensor_at(x)->ctx->error_tensor;
    ctx = tensor_at(x)->ctx;
    is_scalar = tensor_at(x)->shape->n == 0;
    n = tensor_at(index)->shape->n ? tensor_at(index)->shape->d[0] : 1;
    if (tensor_at(index)->shape->n > 1 || (is_scalar && n != 1))
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "an index of shape %s into %s: expected one axis at "
                           "most, and one element for a tensor without axes",
                           SHAPE_OF(index), SHAPE_OF(x));
    if (!index_in_range(__func__, index, at,
                        is_scalar ? 1 : tensor_at(x)->shape->d[at]))
        return ctx->error_tensor;
    u = tn_cast(ctx, tn_reshape(ctx, tensor_node(index), &n, 1), UOP_I64);
    u = tn_gather_axis(ctx, as_vector(ctx, tensor_node(x)), (uint32_t)at, u);
    return tensor_new(ctx, __func__,
                      is_scalar ? tn_reshape(ctx, u, NULL, 0) : u);
}

struct bell_tensor *
bell_take(struct bell_tensor *x, struct bell_tensor *index)
{
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;

    if (!check_index_node(__func__, x, index, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    u = tensor_node(x);
    if (!index_in_range(__func__, index, 0, tn_elems(ctx, u)))
        return ctx->error_tensor;
    u = tn_gather_axis(ctx, tn_flat(ctx, u), 0,
                       tn_cast(ctx, tensor_node(index), UOP_I64));
    return tensor_new(ctx, __func__, u);
}

struct bell_tensor *
bell_embedding(struct bell_tensor *x, struct bell_tensor *weight)
{
    struct bell_tensor *out;

    if (!check_index_node(__func__, weight, x, &out))
        return out;
    if (tensor_at(weight)->shape->n != 2 ||
        tensor_at(x)->shape->n + 1 > BELL_MAX_RANK)
        return tensor_fail(
            tensor_at(x)->ctx, __func__, BELL_BAD_SHAPE,
            "indices of shape %s into a weight of shape %s: expected a weight "
            "of 2 axes, and fewer than %d axes of indices",
            SHAPE_OF(x), SHAPE_OF(weight), BELL_MAX_RANK);
    if (!index_in_range(__func__, x, 0, tensor_at(weight)->shape->d[0]))
        return tensor_at(x)->ctx->error_tensor;
    return tensor_new(
        tensor_at(x)->ctx, __func__,
        tn_gather_axis(tensor_at(x)->ctx, tensor_at(weight)->uop, 0,
                       tn_cast(tensor_at(x)->ctx, tensor_at(x)->uop, UOP_I64)));
}

/* ---- scatter ---- */

/* Nothing after each axis but `axis`, to x's sizes. */
static const struct uop *
pad_index_to(struct bell_context *ctx, const struct uop *u,
             const struct uop_dims *shape, uint32_t axis)
{
    uint32_t i;

    assert(tn_bad(u) || tn_rank(ctx, u) == shape->n);
    for (i = 0; i < shape->n && !tn_bad(u); i++) {
        if (i != axis)
            u = tn_pad_axis(
                ctx, u, i, 0,
                dim_sub(ctx->dims, shape->d[i], tn_size(ctx, u, i)));
    }
    return u;
}

/* Whether src has an element for each of the index. */
static bool
covers(const struct bell_tensor *src, const struct bell_tensor *index)
{
    uint32_t i;

    if (rank_of(src) != rank_of(index))
        return false;
    for (i = 0; i < rank_of(src); i++) {
        int64_t n =
            tensor_at(index)->shape->n ? tensor_at(index)->shape->d[i] : 1;
        int64_t have =
            tensor_at(src)->shape->n ? tensor_at(src)->shape->d[i] : 1;
        if (dim_at_most(tensor_at(src)->ctx->dims, n, have) != DIM_ALWAYS)
            return false;
    }
    return true;
}

/* A scatter on its way: u is x, wide, v and index what goes into it. */
struct scatter {
    struct bell_context *ctx;
    const struct uop_dims *shape; /* x's; a scalar's is [1] */
    uint32_t axis;
    const struct uop *u, *v, *index;
};

static bool
begin_scatter(const char *call, struct bell_tensor *x, int axis,
              struct bell_tensor *index, struct bell_tensor *src,
              struct scatter *s, struct bell_tensor **out)
{
    uint32_t rank, i;
    int at;

    if (!tensor_takes_n(call, (struct bell_tensor *[]){x, index, src}, 3,
                        out) ||
        !check_index_node(call, x, index, out))
        return false;
    *out = tensor_at(x)->ctx->error_tensor;
    at = gather_axis_arg(call, x, index, axis);
    if (at < 0)
        return false;
    rank = rank_of(x);
    if (rank == BELL_MAX_RANK || !covers(src, index)) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_SHAPE,
                    "%s by an index of shape %s from %s: the source must cover "
                    "the index",
                    SHAPE_OF(x), SHAPE_OF(index), SHAPE_OF(src));
        return false;
    }
    if (tensor_at(src)->dtype != tensor_at(x)->dtype &&
        !(tensor_at(src)->flags & TENSOR_WEAK)) {
        tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_DTYPE,
                    "values of %s into a tensor of %s: the dtypes must be "
                    "equal; see bell_cast",
                    DTYPE_OF(src), DTYPE_OF(x));
        return false;
    }
    s->ctx = tensor_at(x)->ctx;
    s->u = as_vector(s->ctx, tensor_node(x));
    s->index = as_vector(s->ctx, tensor_node(index));
    if (tn_bad(s->u) || tn_bad(s->index)) {
        *out = tensor_new(s->ctx, call, &uop_failed);
        return false;
    }
    s->shape = tn_shape(s->ctx, s->u);
    if (!index_in_range(call, index, at, s->shape->d[at]))
        return false;
    s->axis = (uint32_t)at;
    s->u = tn_widen(s->ctx, s->u);
    s->v = as_vector(s->ctx, tensor_at(src)->uop);
    s->v = tn_cast(s->ctx, s->v, s->u->dtype);
    for (i = 0; i < rank && !tn_bad(s->v); i++)
        s->v = tn_shrink_axis(s->ctx, s->v, i, 0, tn_size(s->ctx, s->index, i));
    s->index = tn_cast(s->ctx, s->index, UOP_I64);
    return true;
}

/* Makes x's own elements the first to be scattered. */
static void
scatter_self(struct scatter *s)
{
    struct bell_context *ctx = s->ctx;
    int64_t size = s->shape->d[s->axis], n = tn_size(ctx, s->v, s->axis);
    const struct uop *self, *own = s->u, *is_own;
    uint32_t i;

    for (i = 0; i < s->shape->n; i++) {
        if (i != s->axis)
            own = tn_shrink_axis(ctx, own, i, 0, tn_size(ctx, s->v, i));
    }
    self = tn_iota(ctx, s->shape->n, s->axis, dim_add(ctx->dims, size, n),
                   UOP_I64);
    is_own = tn_lt(ctx, self, tn_count(ctx, size));
    s->index = tn_pad_axis(ctx, s->index, s->axis, size, 0);
    s->v = tn_pad_axis(ctx, s->v, s->axis, size, 0);
    own = tn_pad_axis(ctx, own, s->axis, 0, n);
    s->index = tn_where(ctx, is_own, self, s->index);
    s->v = tn_where(ctx, is_own, own, s->v);
}

static const struct uop *
scatter_whole(const struct scatter *s, enum tn_combine combine)
{
    const struct uop *u = tn_scatter(s->ctx, combine, s->v, s->axis, s->index,
                                     s->shape->d[s->axis]);

    return pad_index_to(s->ctx, u, s->shape, s->axis);
}

/* How many go to each element of x. */
static const struct uop *
scatter_counts(const struct scatter *s)
{
    const struct uop *u =
        tn_scatter_count(s->ctx, s->axis, s->index, s->shape->d[s->axis]);

    return pad_index_to(s->ctx, u, s->shape, s->axis);
}

/* sum / n; integers are rounded down. */
static const struct uop *
divide_mean(struct bell_context *ctx, const struct uop *sum,
            const struct uop *n)
{
    if (tn_bad(sum) || tn_bad(n))
        return &uop_failed;
    n = tn_max(ctx, n, tn_int(ctx, UOP_I64, 1));
    n = tn_cast(ctx, n, sum->dtype);
    return tn_is_float(sum) ? tn_fdiv(ctx, sum, n)
                            : tn_alu2(ctx, UOP_FLOORDIV, sum, n);
}

static const struct uop *
scatter_combined(struct scatter *s, enum bell_combine combine,
                 bool include_self)
{
    struct bell_context *ctx = s->ctx;
    const struct uop *n = scatter_counts(s), *v, *u = s->u, *any;

    any = tn_lt(ctx, tn_int(ctx, UOP_I64, 0), n);
    switch (combine) {
    case BELL_COMBINE_LAST:
        return tn_where(ctx, any, scatter_whole(s, TN_COMBINE_LAST), u);
    case BELL_COMBINE_SUM:
        v = scatter_whole(s, TN_COMBINE_SUM);
        return include_self ? tn_add(ctx, u, v) : tn_where(ctx, any, v, u);
    case BELL_COMBINE_PROD:
        v = scatter_whole(s, TN_COMBINE_PROD);
        return tn_where(ctx, any, include_self ? tn_mul(ctx, u, v) : v, u);
    case BELL_COMBINE_MEAN:
        v = scatter_whole(s, TN_COMBINE_SUM);
        if (include_self) {
            v = tn_add(ctx, u, v);
            n = tn_add(ctx, n, tn_int(ctx, UOP_I64, 1));
        }
        return tn_where(ctx, any, divide_mean(ctx, v, n), u);
    case BELL_COMBINE_AMAX:
    case BELL_COMBINE_AMIN:
        if (include_self && !tn_bad(s->v))
            scatter_self(s);
        v = scatter_whole(s, combine == BELL_COMBINE_AMAX ? TN_COMBINE_MAX
                                                          : TN_COMBINE_MIN);
        return tn_where(ctx, any, v, u);
    }
    return &uop_failed;
}

static struct bell_tensor *
scatter_call(const char *call, struct bell_tensor *x, int axis,
             struct bell_tensor *index, struct bell_tensor *src,
             enum bell_combine combine, bool include_self)
{
    struct bell_tensor *out;
    const struct uop *u;
    struct scatter s;

    if (!begin_scatter(call, x, axis, index, src, &s, &out))
        return out;
    if ((unsigned)combine > BELL_COMBINE_AMIN)
        return tensor_fail(s.ctx, call, BELL_BAD_VALUE,
                           "%d is not a way to combine", (int)combine);
    if (tensor_at(x)->dtype == UOP_BOOL && combine == BELL_COMBINE_MEAN)
        return tensor_fail(s.ctx, call, BELL_BAD_DTYPE,
                           "bool has no mean; see bell_cast");
    if (tn_bad(s.index) || tn_numel(s.ctx, s.index) == 0)
        return tensor_new(s.ctx, call, tensor_node(x));
    if (tensor_at(x)->dtype == UOP_BOOL && combine >= BELL_COMBINE_AMAX) {
        s.u = tn_cast(s.ctx, s.u, UOP_U8);
        s.v = tn_cast(s.ctx, s.v, UOP_U8);
    }
    u = scatter_combined(&s, combine, include_self);
    u = tn_reshape(s.ctx, u, tensor_at(x)->shape->d, tensor_at(x)->shape->n);
    return tensor_new(s.ctx, call, tn_cast(s.ctx, u, tensor_node(x)->dtype));
}

struct bell_tensor *
bell_scatter(struct bell_tensor *x, int axis, struct bell_tensor *index,
             struct bell_tensor *src)
{
    return scatter_call(__func__, x, axis, index, src, BELL_COMBINE_LAST, true);
}

struct bell_tensor *
bell_scatter_add(struct bell_tensor *x, int axis, struct bell_tensor *index,
                 struct bell_tensor *src)
{
    return scatter_call(__func__, x, axis, index, src, BELL_COMBINE_SUM, true);
}

struct bell_tensor *
bell_scatter_reduce(struct bell_tensor *x, int axis, struct bell_tensor *index,
                    struct bell_tensor *src, enum bell_combine combine,
                    bool include_self)
{
    return scatter_call(__func__, x, axis, index, src, combine, include_self);
}
