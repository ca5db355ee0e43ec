/* Creation, movement and indexing: values, shapes, messages. */
#include "tests/unit/tensor_host.h"

/* 0, 1, 2, ... in a shape. */
static struct bell_tensor *
count(const int64_t *shape, uint32_t ndim)
{
    int64_t n = 1;
    uint32_t i;

    for (i = 0; i < ndim; i++)
        n *= shape[i];
    return bell_reshape(bell_arange(ctx, 0, (double)n, 1, BELL_FLOAT64), shape,
                        ndim);
}
#define COUNT(...) count(BELL_DIMS(__VA_ARGS__))

/* ---- creation ---- */

static void
test_creation(void **state)
{
    struct bell_tensor *t;

    (void)state;
    EXPECT(bell_full(ctx, BELL_DIMS(2), 2.5, BELL_DEFAULT), 2.5, 2.5);
    EXPECT(bell_full(ctx, BELL_DIMS(2), -1.5, BELL_INT32), -1, -1);
    EXPECT(bell_full(ctx, BELL_DIMS(2), 300, BELL_UINT8), 255, 255);
    EXPECT(bell_full(ctx, BELL_DIMS(1), 0.5, BELL_BOOL), 1);
    t = bell_full_int(ctx, BELL_NO_DIMS, (1ll << 53) + 1, BELL_DEFAULT);
    {
        int64_t v;
        assert_int_equal(bell_item_i64(t, &v), BELL_OK);
        assert_true(v == (1ll << 53) + 1);
    }
    EXPECT(bell_arange(ctx, 1, 8, 3, BELL_DEFAULT), 1, 4, 7);
    EXPECT(bell_arange(ctx, 5, 0, -2, BELL_DEFAULT), 5, 3, 1);
    assert_int_equal(bell_dtype_of(bell_arange(ctx, 0, 3, 1, BELL_DEFAULT)),
                     BELL_INT64);
    EXPECT(bell_arange(ctx, 0, 1, 0.25, BELL_FLOAT64), 0, 0.25, 0.5, 0.75);
    EXPECT_SHAPE(bell_arange(ctx, 3, 3, 1, BELL_DEFAULT), 0);
    /* Exact beyond 2^53: told apart by what is taken off. */
    t = bell_arange(ctx, 0x1p60, 0x1p60 + 1024, 256, BELL_DEFAULT);
    EXPECT(bell_sub(t, bell_scalar_int(ctx, 1ll << 60)), 0, 256, 512, 768);
    t = bell_arange(ctx, 0x1p53, 0x1p53 + 4, 1, BELL_INT64);
    EXPECT(bell_sub(t, bell_scalar_int(ctx, 1ll << 53)), 0, 1, 2, 3);
    t = bell_arange(ctx, -0x1p62, 0x1p62, 0x1p61, BELL_DEFAULT);
    EXPECT(t, -0x1p62, -0x1p61, 0, 0x1p61);
    t = bell_arange(ctx, 1e8 + 0.5, 1e8 + 2, 1, BELL_INT32);
    EXPECT(t, 1e8, 1e8 + 1);
    EXPECT_ERROR(bell_arange(ctx, 0, 0x1p65, 0x1p63, BELL_INT64),
                 "bell_arange: int64 from 0 to 3.68935e+19: int64 ends before "
                 "2^63");
    t = bell_scalar(ctx, 1);
    EXPECT(bell_linspace(ctx, -1, 1, 5, BELL_FLOAT64), -1, -0.5, 0, 0.5, 1);
    EXPECT(bell_linspace(ctx, 3, 9, 1, BELL_DEFAULT), 3);
    EXPECT(bell_linspace(ctx, 0, 10, 4, BELL_INT32), 0, 3, 6, 10);
    EXPECT(bell_eye(ctx, 2, 3, BELL_DEFAULT), 1, 0, 0, 0, 1, 0);
    EXPECT(bell_ones_like(t, BELL_FLOAT16), 1);
    EXPECT(bell_zeros_like(COUNT(3), BELL_DEFAULT), 0, 0, 0);
    EXPECT(bell_full_like(COUNT(2), 4, BELL_INT8), 4, 4);
    EXPECT_SHAPE(bell_empty_like(COUNT(2, 3), BELL_DEFAULT), 2, 3);
    EXPECT(bell_one_hot(hidden(I(V(1, 0, 3), 3)), 3), 0, 1, 0, 1, 0, 0, 0, 0,
           0);
    EXPECT_ERROR(bell_arange(ctx, 0, 1, 0, BELL_DEFAULT),
                 "bell_arange: int64 from 0 to 1 by 0: the step must lead from "
                 "start to end, and the dtype not be bool");
    EXPECT_ERROR(bell_arange(ctx, 0, 1, -1, BELL_DEFAULT),
                 "bell_arange: int64 from 0 to 1 by -1: the step must lead "
                 "from start to end, and the dtype not be bool");
    EXPECT_ERROR(bell_linspace(ctx, 0, 1, -1, BELL_DEFAULT),
                 "bell_linspace: -1 steps of float32 from 0 to 1: expected 0 "
                 "steps or more, finite ends, and not bool");
    EXPECT_ERROR(bell_eye(ctx, -1, 2, BELL_DEFAULT),
                 "bell_eye: shape (-1, 2) has a negative size");
    EXPECT_ERROR(bell_one_hot(COUNT(2), 3),
                 "bell_one_hot: float64 (2,) into 3 classes: expected "
                 "integers, 0 classes or more, and fewer than 32 axes");
}

/* ---- shapes ---- */

static void
test_reshape(void **state)
{
    struct bell_tensor *x = COUNT(2, 3, 4);

    (void)state;
    EXPECT_SHAPE(bell_reshape(x, BELL_DIMS(4, -1)), 4, 6);
    EXPECT_SHAPE(bell_reshape(bell_scalar(ctx, 1), BELL_DIMS(1, 1)), 1, 1);
    EXPECT_SHAPE(
        bell_squeeze(bell_reshape(x, BELL_DIMS(1, 24, 1)), BELL_NO_DIMS), 24);
    EXPECT_SHAPE(
        bell_squeeze(bell_reshape(x, BELL_DIMS(1, 24, 1)), BELL_DIMS(0, 1)), 24,
        1);
    EXPECT_SHAPE(bell_unsqueeze(x, -1), 2, 3, 4, 1);
    EXPECT_SHAPE(bell_unsqueeze(x, 0), 1, 2, 3, 4);
    EXPECT_SHAPE(bell_flatten(x, 0, -1), 24);
    EXPECT_SHAPE(bell_flatten(x, 1, 2), 2, 12);
    EXPECT_SHAPE(bell_flatten(bell_scalar(ctx, 1), 0, -1), 1);
    EXPECT_SHAPE(bell_unflatten(x, -1, BELL_DIMS(2, -1)), 2, 3, 2, 2);
    EXPECT_SHAPE(bell_reshape(bell_zeros(ctx, BELL_DIMS(0, 3), BELL_INT8),
                              BELL_DIMS(3, 0, 7)),
                 3, 0, 7);
    EXPECT_ERROR(bell_reshape(x, BELL_DIMS(5, -1)),
                 "bell_reshape: (2, 3, 4) to (5, -1): both must have the same "
                 "number of elements, and one size at most may be -1");
    EXPECT_ERROR(bell_reshape(x, BELL_DIMS(-1, -1)),
                 "bell_reshape: (2, 3, 4) to (-1, -1): both must have the same "
                 "number of elements, and one size at most may be -1");
    EXPECT_ERROR(bell_reshape(x, BELL_DIMS(2, 11)),
                 "bell_reshape: (2, 3, 4) to (2, 11): both must have the same "
                 "number of elements, and one size at most may be -1");
    EXPECT_ERROR(
        bell_unsqueeze(x, 4),
        "bell_unsqueeze: axis 4 of a tensor of 4 axes; expected -4 to 3");
    EXPECT_ERROR(bell_flatten(x, 2, 1),
                 "bell_flatten: axes 2 to 1 of (2, 3, 4): the first must not "
                 "come after the last");
    EXPECT_ERROR(bell_squeeze(x, BELL_DIMS(1, -2)),
                 "bell_squeeze: axis 1 is listed twice");
    EXPECT_ERROR(bell_unflatten(x, 1, BELL_DIMS(2, 2)),
                 "bell_unflatten: (2, 3, 4) to (2, 2): both must have the same "
                 "number of elements, and one size at most may be -1");
}

/* As many axes as there can be, most of them of one element, ten of two in
 * reverse order, so that none can be merged with the next. */
static void
test_most_axes(void **state)
{
    int64_t shape[BELL_MAX_RANK], order[BELL_MAX_RANK], odd[5];
    struct bell_tensor *x = COUNT(1024), *y, *g;
    double values[1024], want[32] = {0};
    uint32_t i, k;

    (void)state;
    for (i = 0; i < BELL_MAX_RANK; i++) {
        shape[i] = i >= 5 && i < 15 ? 2 : 1;
        order[i] = BELL_MAX_RANK - 1 - i;
    }
    x = bell_requires_grad(bell_cast(x, BELL_FLOAT32), true);
    y = bell_permute(bell_reshape(x, shape, BELL_MAX_RANK), order,
                     BELL_MAX_RANK);
    for (i = 0; i < 5; i++)
        odd[i] = BELL_MAX_RANK - 1 - (5 + 2 * i);
    y = bell_sum(y, odd, 5, false);
    assert_int_equal(bell_ndim(y), BELL_MAX_RANK - 5);
    for (i = 0; i < 1024; i++) { /* bits 8, 6, 4, 2, 0 stay, reversed */
        uint32_t at = 0;
        for (k = 0; k < 5; k++)
            at |= (i >> 2 * k & 1) << (4 - k);
        want[at] += i;
    }
    g = bell_sum(bell_mul(y, y), NULL, 0, false);
    assert_int_equal(bell_gradient(g, &x, 1, &x), BELL_OK);
    y = bell_reshape(y, BELL_DIMS(32));
    expect_values(__FILE__, __LINE__, y, want, 32, 0);
    for (i = 0; i < 1024; i++) {
        uint32_t at = 0;
        for (k = 0; k < 5; k++)
            at |= (i >> 2 * k & 1) << (4 - k);
        values[i] = 2 * want[at];
    }
    expect_values(__FILE__, __LINE__, x, values, 1024, 0);
    y = bell_ones(ctx, shape, BELL_MAX_RANK, BELL_INT32);
    EXPECT(bell_sum(y, NULL, 0, false), 1024);
    EXPECT_ERROR(
        bell_unsqueeze(y, 0),
        "bell_unsqueeze: of a tensor of 32 axes, the most there can be");
    for (i = 0; i < BELL_MAX_RANK; i++)
        order[i] = 1;
    EXPECT_ERROR(bell_repeat(y, order, BELL_MAX_RANK),
                 "bell_repeat: 64 axes, more than 32");
    EXPECT_ERROR(bell_cumprod(bell_flip(y, (int64_t[]){5}, 1), 5),
                 "bell_cumprod: 33 axes, more than 32");
}

static void
test_order(void **state)
{
    struct bell_tensor *x = COUNT(2, 3), *y = COUNT(2, 2, 2);

    (void)state;
    EXPECT(bell_t(x), 0, 3, 1, 4, 2, 5);
    EXPECT(bell_t(bell_t(x)), 0, 1, 2, 3, 4, 5);
    EXPECT(bell_permute(y, BELL_DIMS(-1, 0, 1)), 0, 2, 4, 6, 1, 3, 5, 7);
    EXPECT(bell_transpose(y, 0, -1), 0, 4, 2, 6, 1, 5, 3, 7);
    EXPECT_SHAPE(bell_movedim(COUNT(2, 3, 4), 0, -1), 3, 4, 2);
    EXPECT_SHAPE(bell_movedim(COUNT(2, 3, 4), 2, 0), 4, 2, 3);
    EXPECT(bell_flip(x, BELL_DIMS(1)), 2, 1, 0, 5, 4, 3);
    EXPECT(bell_flip(x, BELL_NO_DIMS), 5, 4, 3, 2, 1, 0);
    EXPECT(bell_flip(bell_flip(x, BELL_DIMS(0)), BELL_DIMS(1)), 5, 4, 3, 2, 1,
           0);
    EXPECT_ERROR(bell_permute(x, BELL_DIMS(0)),
                 "bell_permute: order (0,) for a tensor of 2 axes: expected "
                 "each axis once");
    EXPECT_ERROR(bell_permute(x, BELL_DIMS(0, 0)),
                 "bell_permute: axis 0 is listed twice");
    EXPECT_ERROR(
        bell_transpose(x, 0, 2),
        "bell_transpose: axis 2 of a tensor of 2 axes; expected -2 to 1");
}

static void
test_sizes(void **state)
{
    struct bell_tensor *x = COUNT(2, 3);

    (void)state;
    EXPECT(bell_expand(COUNT(2, 1), BELL_DIMS(2, -1, 2)), 0, 0, 1, 1, 0, 0, 1,
           1);
    EXPECT(bell_pad(x, BELL_DIMS(0, 1, 1, 0), 9), 9, 9, 9, 9, 0, 1, 2, 9, 3, 4,
           5, 9);
    EXPECT(bell_pad(x, BELL_DIMS(1, -2, -1, 0), 0), 0, 3);
    EXPECT(bell_pad(bell_zeros(ctx, BELL_DIMS(0), BELL_FLOAT32),
                    BELL_DIMS(1, 1), 3),
           3, 3);
    EXPECT(bell_pad(x, BELL_DIMS(1, 0), 9), 9, 0, 1, 2, 9, 3, 4, 5);
    EXPECT(bell_shrink(x, BELL_DIMS(1, 2, 0, 2)), 3, 4);
    EXPECT(bell_repeat(x, BELL_DIMS(2, 1, 2)), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4,
           5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    EXPECT(bell_repeat_interleave(x, 2, 0), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
    EXPECT(bell_roll(COUNT(5), 2, 0), 3, 4, 0, 1, 2);
    EXPECT(bell_roll(COUNT(5), -11, 0), 1, 2, 3, 4, 0);
    EXPECT(bell_tril(bell_ones(ctx, BELL_DIMS(2, 3), BELL_INT32), 0), 1, 0, 0,
           1, 1, 0);
    EXPECT(bell_triu(x, 1), 0, 1, 2, 0, 0, 5);
    EXPECT(bell_tril(x, -1), 0, 0, 0, 3, 0, 0);
    EXPECT(bell_triu(x, INT64_MIN), 0, 1, 2, 3, 4, 5);
    EXPECT(bell_diag(COUNT(2)), 0, 0, 0, 1);
    EXPECT(bell_diag(x), 0, 4);
    EXPECT(bell_diagonal(x, 1, 0, 1), 1, 5);
    EXPECT(bell_diagonal(x, -1, 0, 1), 3);
    EXPECT_SHAPE(bell_diagonal(x, 7, 0, 1), 0);
    EXPECT(bell_diagonal(COUNT(2, 2, 2), 0, 2, 0), 0, 5, 2, 7);
    EXPECT(bell_unfold(COUNT(5), 0, 3, 1), 0, 1, 2, 1, 2, 3, 2, 3, 4);
    EXPECT(bell_unfold(COUNT(7), 0, 2, 3), 0, 1, 3, 4);
    EXPECT(bell_unfold(COUNT(7), 0, 3, 2), 0, 1, 2, 2, 3, 4, 4, 5, 6);
    EXPECT(bell_unfold(COUNT(3), 0, 1, 2), 0, 2);
    EXPECT_SHAPE(bell_unfold(x, 1, 0, 2), 2, 2, 0);
    EXPECT_SHAPE(bell_unfold(COUNT(0), 0, 0, 1), 1, 0);
    EXPECT(bell_unfold(bell_select(COUNT(3), 0, 2), 0, 1, 1), 2);
    EXPECT_SHAPE(bell_unfold(bell_select(COUNT(3), 0, 2), -1, 1, 1), 1);
    EXPECT_SHAPE(bell_unfold(bell_select(COUNT(3), 0, 2), 0, 0, 1), 0);
    EXPECT_ERROR(bell_unfold(x, 1, -1, 1),
                 "bell_unfold: windows of -1 by 1 along axis 1 of (2, 3): a "
                 "window must fit, and the step must be 1 or more");
    EXPECT_ERROR(bell_expand(x, BELL_DIMS(4, 3)),
                 "bell_expand: (2, 3) to (4, 3): an axis must be 1 or have "
                 "this size already; -1 keeps it");
    EXPECT_ERROR(bell_pad(x, BELL_DIMS(1, 1, 1), 0),
                 "bell_pad: (2, 3) by (1, 1, 1): expected a pair for each of "
                 "the last axes, and no axis cut below 0");
    EXPECT_ERROR(bell_pad(x, BELL_DIMS(0, 0, -2, -1), 0),
                 "bell_pad: (2, 3) by (0, 0, -2, -1): expected a pair for each "
                 "of the last axes, and no axis cut below 0");
    EXPECT_ERROR(bell_pad(x, BELL_DIMS(0, 0, 0, 0, 1, 1), 0),
                 "bell_pad: (2, 3) by (0, 0, 0, 0, 1, 1): expected a pair for "
                 "each of the last axes, and no axis cut below 0");
    EXPECT_ERROR(bell_shrink(x, BELL_DIMS(0, 3, 0, 1)),
                 "bell_shrink: (2, 3) to the bounds (0, 3, 0, 1): expected 0 "
                 "<= begin <= end <= size for each axis");
    EXPECT_ERROR(bell_repeat(x, BELL_DIMS(2)),
                 "bell_repeat: (2, 3) times (2,): expected a count of 0 or "
                 "more for each axis; more counts go in front");
    EXPECT_ERROR(bell_tril(COUNT(3), 0),
                 "bell_tril: of shape (3,); two axes are needed");
    EXPECT_ERROR(bell_unfold(x, 1, 4, 1),
                 "bell_unfold: windows of 4 by 1 along axis 1 of (2, 3): a "
                 "window must fit, and the step must be 1 or more");
}

/* A tensor without axes has axes 0 and -1 where an axis is asked for. */
static void
test_no_axes(void **state)
{
    struct bell_tensor *x = bell_full(ctx, BELL_NO_DIMS, 3, BELL_FLOAT64);

    (void)state;
    EXPECT(bell_sum(x, BELL_DIMS(0), false), 3);
    EXPECT(bell_max(x, BELL_DIMS(-1), true), 3);
    EXPECT(bell_mean(x, BELL_DIMS(0), false), 3);
    EXPECT(bell_flip(x, BELL_DIMS(0)), 3);
    EXPECT(bell_squeeze(x, BELL_DIMS(0)), 3);
    EXPECT(bell_transpose(x, 0, -1), 3);
    EXPECT(bell_permute(x, NULL, 0), 3);
    EXPECT(bell_roll(x, 1, 0), 3);
    EXPECT(bell_expand(x, BELL_DIMS(2)), 3, 3);
    EXPECT(bell_pad(x, NULL, 0, 1), 3);
    EXPECT(bell_repeat(x, BELL_DIMS(3)), 3, 3, 3);
    EXPECT(bell_index(x, BELL_ITEMS(bell_new_axis())), 3);
    assert_int_equal(bell_ndim(bell_sum(x, BELL_DIMS(0), true)), 0);
    EXPECT_ERROR(bell_narrow(x, 0, 0, 0),
                 "bell_narrow: 0 from 0 is out of bounds for axis 0 of ()");
    EXPECT_ERROR(bell_index(x, BELL_ITEMS(bell_at(0))),
                 "bell_index: too many indices: 1 for ()");
    EXPECT_ERROR(bell_sum(x, BELL_DIMS(1), false),
                 "bell_sum: axis 1 of a tensor of 0 axes; expected -1 to 0");
}

/* Windows with every step and dilation against the definition. */
static void
test_windows(void **state)
{
    int64_t n, size, step, k, w;

    (void)state;
    for (n = 1; n < 12; n++) {
        for (size = 1; size <= n; size++) {
            for (step = 1; step < 6; step++) {
                int64_t count_w = (n - size) / step + 1;
                double want[200];
                for (w = 0; w < count_w; w++) {
                    for (k = 0; k < size; k++)
                        want[w * size + k] = (double)(w * step + k);
                }
                expect_values(__FILE__, __LINE__,
                              bell_unfold(COUNT(n), 0, size, step), want,
                              (size_t)(count_w * size), 0);
            }
        }
    }
}

static void
test_joining(void **state)
{
    struct bell_tensor *x = COUNT(2, 2), *parts[4], *grid[2];

    (void)state;
    EXPECT(bell_cat(BELL_TENSORS(x, COUNT(1, 2), x), 0), 0, 1, 2, 3, 0, 1, 0, 1,
           2, 3);
    EXPECT(bell_cat(BELL_TENSORS(x, COUNT(2, 1)), -1), 0, 1, 0, 2, 3, 1);
    EXPECT(bell_cat(
               BELL_TENSORS(bell_zeros(ctx, BELL_DIMS(0, 2), BELL_INT8), x), 0),
           0, 1, 2, 3);
    EXPECT(bell_stack(BELL_TENSORS(x, x), -1), 0, 0, 1, 1, 2, 2, 3, 3);
    EXPECT(
        bell_stack(BELL_TENSORS(bell_scalar(ctx, 1), bell_scalar(ctx, 2)), 0),
        1, 2);
    assert_int_equal(
        bell_dtype_of(bell_cat(BELL_TENSORS(I(V(1), 1), T(V(2), 1)), 0)),
        BELL_FLOAT64);
    bell_split(COUNT(5), (int64_t[]){2, 0, 3}, 3, 0, parts);
    EXPECT(parts[0], 0, 1);
    EXPECT_SHAPE(parts[1], 0);
    EXPECT(parts[2], 2, 3, 4);
    assert_int_equal(bell_chunk(COUNT(5), 4, 0, parts), 3);
    EXPECT(parts[2], 4);
    assert_true(bell_is_error(parts[3]));
    bell_meshgrid(BELL_TENSORS(COUNT(2), COUNT(3)), grid);
    EXPECT(grid[0], 0, 0, 0, 1, 1, 1);
    EXPECT(grid[1], 0, 1, 2, 0, 1, 2);
    bell_meshgrid(BELL_TENSORS(bell_scalar(ctx, 7), COUNT(2)), grid);
    EXPECT(grid[0], 7, 7);
    EXPECT_SHAPE(grid[1], 1, 2);
    EXPECT_ERROR(bell_cat(BELL_TENSORS(x, COUNT(3)), 0),
                 "bell_cat: (2, 2) and (3,) (tensor 1) along axis 0: there "
                 "must be such an axis, and the others must be equal");
    EXPECT_ERROR(bell_stack(BELL_TENSORS(x, COUNT(3)), 0),
                 "bell_stack: (2, 2) and (3,) (tensor 1): all must have one "
                 "shape, of fewer than 32 axes");
    bell_split(COUNT(5), (int64_t[]){2, 2}, 2, 0, parts);
    EXPECT_ERROR(parts[1], "bell_split: parts of (2, 2) along axis 0 of (5,): "
                           "they must add up to the size of the axis");
    assert_int_equal(bell_chunk(x, 0, 0, parts), 0);
    EXPECT_STATUS(bell_context_status(ctx),
                  "bell_chunk: (2, 2) into 0 parts: expected an axis, and one "
                  "part at least");
    assert_null(bell_cat(NULL, 0, 0));
    assert_string_equal(
        bell_error_last()->message,
        "bell_cat: the list is empty; expected one tensor at least");
}

/* ---- indexing ---- */

#define AT(x, ...) bell_index(x, BELL_ITEMS(__VA_ARGS__))

static void
test_slices(void **state)
{
    const int64_t none = BELL_NONE;
    struct bell_tensor *x = COUNT(2, 3, 4), *v = COUNT(7);

    (void)state;
    EXPECT(AT(x, bell_at(1), bell_at(-1)), 20, 21, 22, 23);
    EXPECT(AT(x, bell_ellipsis(), bell_at(0)), 0, 4, 8, 12, 16, 20);
    EXPECT_SHAPE(AT(x, bell_new_axis(), bell_ellipsis(), bell_new_axis(),
                    bell_slice(1, 3, 1)),
                 1, 2, 3, 1, 2);
    EXPECT_SHAPE(bell_index(x, NULL, 0), 2, 3, 4);
    EXPECT(AT(v, bell_slice(none, none, 2)), 0, 2, 4, 6);
    EXPECT(AT(v, bell_slice(1, none, 3)), 1, 4);
    EXPECT(AT(v, bell_slice(none, none, -1)), 6, 5, 4, 3, 2, 1, 0);
    EXPECT(AT(v, bell_slice(5, 1, -2)), 5, 3);
    EXPECT(AT(v, bell_slice(-2, none, -2)), 5, 3, 1);
    EXPECT(AT(v, bell_slice(-100, 100, 4)), 0, 4);
    EXPECT(AT(v, bell_slice(100, -100, -4)), 6, 2);
    EXPECT(AT(v, bell_slice(2, 3, 100)), 2);
    EXPECT(AT(v, bell_slice(none, none, INT64_MIN)), 6);
    EXPECT_SHAPE(AT(v, bell_slice(4, 2, 1)), 0);
    EXPECT_SHAPE(AT(v, bell_slice(2, 4, -1)), 0);
    EXPECT(bell_select(x, 1, -1), 8, 9, 10, 11, 20, 21, 22, 23);
    EXPECT(bell_narrow(v, 0, -3, 2), 4, 5);
    EXPECT_ERROR(
        AT(v, bell_at(7)),
        "bell_index: item 0: index 7 is out of bounds for an axis of size 7");
    EXPECT_ERROR(AT(v, bell_slice(0, 1, 0)),
                 "bell_index: item 0: the step must not be 0");
    EXPECT_ERROR(AT(v, bell_at(0), bell_at(0)),
                 "bell_index: too many indices: 2 for (7,)");
    EXPECT_ERROR(AT(x, bell_ellipsis(), bell_ellipsis()),
                 "bell_index: item 1: a second one; an index has a single "
                 "ellipsis at most");
    EXPECT_ERROR(bell_select(v, 0, 7),
                 "bell_select: index 7 is out of bounds for axis 0 of (7,)");
    EXPECT_ERROR(bell_narrow(v, 0, 5, 3),
                 "bell_narrow: 3 from 5 is out of bounds for axis 0 of (7,)");
}

static void
test_tensor_index(void **state)
{
    struct bell_tensor *x = COUNT(2, 3, 4), *i = I(V(2, 0), 2);

    (void)state;
    EXPECT(AT(x, bell_at(0), bell_by(i), bell_slice(0, 2, 1)), 8, 9, 0, 1);
    EXPECT(AT(COUNT(5), bell_by(hidden(I(V(-1, 7, 1, -6), 2, 2)))), 4, 0, 1, 0);
    /* two that lie together keep their place, apart they go in front */
    EXPECT_SHAPE(AT(x, bell_whole(), bell_by(i), bell_by(I(V(1, 2, 3), 3, 1))),
                 2, 3, 2);
    EXPECT_SHAPE(AT(x, bell_by(I(V(1, 1), 2)), bell_whole(), bell_by(i)), 2, 3);
    EXPECT(AT(x, bell_by(I(V(1, 0), 2)), bell_whole(), bell_by(i)), 14, 18, 22,
           0, 4, 8);
    EXPECT(AT(x, bell_by(I(V(1, 0), 2)), bell_by(i), bell_by(I(V(3), 1))), 23,
           3);
    /* any of them out of range gives 0 */
    EXPECT(AT(COUNT(2, 3), bell_by(hidden(I(V(1, 0, 2), 3))),
              bell_by(hidden(I(V(3, 1, 0), 3)))),
           0, 1, 0);
    EXPECT_ERROR(AT(x, bell_by(COUNT(2))),
                 "bell_index: item 0: a tensor of float64; an index is of "
                 "integers");
    EXPECT_ERROR(AT(x, bell_by(i), bell_by(I(V(1, 2, 3), 3))),
                 "bell_index: the index tensors' shapes do not broadcast, (2,) "
                 "the first");
}

static void
test_gather(void **state)
{
    struct bell_tensor *x = COUNT(2, 3), *w = COUNT(4, 2);

    (void)state;
    EXPECT(bell_gather(x, 1, hidden(I(V(2, 0, -1, 3), 2, 2))), 2, 0, 5, 0);
    EXPECT(bell_gather(x, 0, I(V(1, 0), 1, 2)), 3, 1);
    EXPECT(bell_gather(bell_scalar(ctx, 5), 0, bell_scalar_int(ctx, 0)), 5);
    EXPECT(bell_index_select(x, -1, I(V(2, 2), 2)), 2, 2, 5, 5);
    EXPECT(bell_take(x, hidden(I(V(5, -1, 0, 9), 2, 2))), 5, 5, 0, 0);
    EXPECT(bell_embedding(I(V(3, 0), 2), w), 6, 7, 0, 1);
    EXPECT_SHAPE(bell_embedding(I(V(1, 2, 3, 0), 2, 2), w), 2, 2, 2);
    EXPECT(bell_gather(bell_zeros(ctx, BELL_DIMS(0), BELL_FLOAT32), 0,
                       hidden(I(V(0, 1), 2))),
           0, 0);
    EXPECT_ERROR(bell_gather(x, 1, I(V(0, 0, 0), 3, 1)),
                 "bell_gather: an index of shape (3, 1) into (2, 3) along axis "
                 "1: expected as many axes, and no other one longer");
    EXPECT_ERROR(bell_gather(x, 1, x),
                 "bell_gather: the index is float64, not an integer dtype");
    EXPECT_ERROR(
        bell_embedding(I(V(0), 1), COUNT(3)),
        "bell_embedding: indices of shape (1,) into a weight of shape (3,): "
        "expected a weight of 2 axes, and fewer than 32 axes of indices");
}

static void
test_scatter(void **state)
{
    struct bell_tensor *x = COUNT(2, 3), *i = hidden(I(V(1, 1, -1, 7), 2, 2));
    struct bell_tensor *src = T(V(10, 20, 30, 40), 2, 2);

    (void)state;
    EXPECT(bell_scatter(x, 1, i, src), 0, 20, 2, 3, 4, 30);
    EXPECT(bell_scatter_add(x, 1, i, src), 0, 31, 2, 3, 4, 35);
    EXPECT(bell_scatter(x, 0, I(V(1), 1, 1), T(V(9), 1, 1)), 0, 1, 2, 9, 4, 5);
    /* Elements of src beyond the index are not read. */
    src = T(V(10, 20, -1, 30, 40, -1, -1, -1, -1), 3, 3);
    EXPECT(bell_scatter(x, 1, i, src), 0, 20, 2, 3, 4, 30);
    EXPECT(bell_scatter_add(x, 1, i, src), 0, 31, 2, 3, 4, 35);
    EXPECT_ERROR(bell_scatter(x, 1, i, T(V(1, 2, 3), 3, 1)),
                 "bell_scatter: (2, 3) by an index of shape (2, 2) from (3, "
                 "1): the source must cover the index");
    EXPECT_ERROR(bell_scatter(x, 1, i, T(V(1), 1)),
                 "bell_scatter: (2, 3) by an index of shape (2, 2) from (1,): "
                 "the source must cover the index");
    EXPECT_ERROR(bell_scatter_add(x, 1, i, i),
                 "bell_scatter_add: values of int64 into a tensor of float64: "
                 "the dtypes must be equal; see bell_cast");
}

static void
test_index_put(void **state)
{
    struct bell_tensor *x = COUNT(2, 3), *v = COUNT(7);

    (void)state;
    EXPECT(bell_index_put(x, BELL_ITEMS(bell_at(1)), bell_scalar(ctx, 9)), 0, 1,
           2, 9, 9, 9);
    EXPECT(bell_index_put(v, BELL_ITEMS(bell_slice(BELL_NONE, BELL_NONE, -3)),
                          T(V(10, 20, 30), 3)),
           30, 1, 2, 20, 4, 5, 10);
    EXPECT(bell_index_put(v, BELL_ITEMS(bell_slice(1, 6, 4)), T(V(10, 20), 2)),
           0, 10, 2, 3, 4, 20, 6);
    EXPECT(bell_index_put(x,
                          BELL_ITEMS(bell_new_axis(), bell_whole(), bell_at(0)),
                          T(V(7, 8), 1, 2)),
           7, 1, 2, 8, 4, 5);
    EXPECT(
        bell_index_put(v, BELL_ITEMS(bell_slice(3, 3, 1)), bell_scalar(ctx, 1)),
        0, 1, 2, 3, 4, 5, 6);
    EXPECT_ERROR(bell_index_put(x, BELL_ITEMS(bell_at(1)), COUNT(2)),
                 "bell_index_put: a value of shape (2,) into (3,): it must "
                 "broadcast to that");
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_creation),     TEST(test_reshape), TEST(test_most_axes),
        TEST(test_order),        TEST(test_sizes),   TEST(test_windows),
        TEST(test_no_axes),      TEST(test_joining), TEST(test_slices),
        TEST(test_tensor_index), TEST(test_gather),  TEST(test_scatter),
        TEST(test_index_put),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
