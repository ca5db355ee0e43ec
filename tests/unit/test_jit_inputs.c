/* What a captured function does to its inputs: each function of a table is run
 * plainly and as a jit, in two contexts, with inputs of several kinds. All that
 * can be seen of the two is the same to the bit after each call, or the jit
 * refuses the function at its first call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/dim.h"
#include "doorbell/jit.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"

#define N     4
#define CALLS 5
#define MOST  3 /* inputs, and outputs */

static const char *const devices[] = {"CPU", "NV@sim:sm_90", "AMD@sim:gfx1100"};

/* A context in which a function runs, plainly or as a jit. */
struct world {
    struct bell_context *ctx;
    struct bell_tensor *p, *q;   /* from outside; p requires a gradient */
    struct bell_optimizer *opt;  /* of p */
    struct bell_optimizer *mine; /* of the first input of the first call */
    struct bell_jit *inner;      /* bump */
    struct bell_tensor *in[MOST], *out[MOST];
    uint32_t call;
};

typedef bell_status fn_type(struct bell_context *ctx, void *user,
                            struct bell_tensor *const *in,
                            struct bell_tensor **out);

static const struct row *now;
static const char *where;
static uint32_t now_fed;

static void expect_ok(bell_status status);

static struct bell_tensor *
total(struct bell_tensor *x)
{
    return bell_sum(x, BELL_NO_DIMS, false);
}

/* ---- functions ---- */

#define FN(name)                                                               \
    static bell_status name(struct bell_context *ctx, void *user,              \
                            struct bell_tensor *const *in,                     \
                            struct bell_tensor **out)
#define UNUSED ((void)ctx, (void)user, (void)out)

FN(bump)
{
    UNUSED;
    bell_assign(in[0], bell_add_scalar(in[0], 1));
    out[0] = bell_mul(in[0], in[1]);
    return BELL_OK;
}

FN(bump_two)
{
    UNUSED;
    bell_assign(in[0], bell_add(in[0], in[1]));
    bell_assign(in[1], bell_mul(in[0], in[1]));
    out[0] = bell_sub(in[0], in[1]);
    return BELL_OK;
}

FN(bump_twice)
{
    UNUSED;
    bell_assign(in[0], bell_add(in[0], in[1]));
    out[0] = bell_alias(in[0]);
    bell_assign(in[0], bell_mul_scalar(in[0], 0.5));
    return BELL_OK;
}

FN(bump_realized)
{
    UNUSED;
    bell_assign(in[0], bell_add(in[0], in[1]));
    if (bell_realize1(in[0]) != BELL_OK)
        return bell_error_last()->status;
    bell_assign(in[0], bell_mul_scalar(in[0], 0.5));
    out[0] = bell_neg(in[0]);
    return bell_realize(out, 1);
}

FN(exchange)
{
    struct bell_tensor *old = bell_alias(in[0]);

    UNUSED;
    bell_assign(in[0], in[1]);
    bell_assign(in[1], old);
    out[0] = bell_sub(in[0], old);
    return BELL_OK;
}

FN(copy_over)
{
    UNUSED;
    bell_assign(in[0], in[1]);
    out[0] = in[0];
    return BELL_OK;
}

FN(give_back)
{
    UNUSED;
    bell_assign(in[0], bell_add(in[0], in[1]));
    out[0] = in[0];
    return BELL_OK;
}

FN(give_old)
{
    UNUSED;
    out[0] = bell_alias(in[0]);
    bell_assign(in[0], bell_add(in[0], in[1]));
    return BELL_OK;
}

FN(give_same)
{
    UNUSED;
    out[0] = in[0];
    return BELL_OK;
}

FN(to_itself)
{
    UNUSED;
    bell_assign(in[0], in[0]);
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(to_zeros)
{
    UNUSED;
    out[0] = bell_neg(in[0]);
    bell_assign(in[0], bell_zeros(ctx, BELL_DIMS(N), BELL_FLOAT32));
    return BELL_OK;
}

FN(to_data)
{
    static const float data[N] = {3, 1, 4, 1};

    UNUSED;
    bell_assign(in[0], bell_from_data(ctx, BELL_DIMS(N), BELL_FLOAT32, data));
    out[0] = bell_mul(in[0], in[1]);
    return BELL_OK;
}

FN(to_written)
{
    static const float data[N] = {2, 7, 1, 8};

    UNUSED;
    out[0] = bell_mul(in[0], in[1]);
    return bell_write(in[0], data, sizeof(data));
}

FN(to_outside)
{
    struct world *w = user;

    UNUSED;
    bell_assign(in[0], w->q);
    out[0] = bell_add(in[0], in[1]);
    return BELL_OK;
}

FN(through_outside)
{
    struct world *w = user;

    UNUSED;
    bell_assign(w->q, bell_add(w->q, in[0]));
    bell_assign(in[0], bell_mul(w->q, in[1]));
    out[0] = bell_add(w->q, in[0]);
    return BELL_OK;
}

FN(exchange_outside)
{
    struct world *w = user;
    struct bell_tensor *old = bell_alias(in[0]);

    UNUSED;
    bell_assign(in[0], w->q);
    bell_assign(w->q, old);
    out[0] = bell_sub(in[0], w->q);
    return BELL_OK;
}

FN(put_slice)
{
    UNUSED;
    bell_assign_slice(in[0], BELL_DIMS(1), bell_narrow(in[1], 0, 0, 2));
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(put_slices)
{
    UNUSED;
    bell_assign_slice(in[0], BELL_DIMS(1), bell_narrow(in[0], 0, 0, 2));
    bell_assign_slice(
        in[0], BELL_DIMS(3),
        bell_add(bell_narrow(in[0], 0, 1, 1), bell_narrow(in[1], 0, 1, 1)));
    bell_assign_slice(in[1], BELL_DIMS(0), bell_narrow(in[0], 0, 2, 2));
    out[0] = in[0];
    return BELL_OK;
}

FN(put_mixed)
{
    UNUSED;
    bell_assign(in[0], bell_add(in[0], in[1]));
    bell_assign_slice(in[0], BELL_DIMS(2), bell_narrow(in[1], 0, 0, 1));
    bell_assign(in[0], bell_mul_scalar(in[0], 0.5));
    out[0] = bell_alias(in[0]);
    bell_assign_slice(in[0], BELL_DIMS(0), bell_narrow(in[1], 0, 3, 1));
    return BELL_OK;
}

/* A view has the values that there were when it was made. */
FN(see_views)
{
    struct bell_tensor *view = bell_narrow(in[0], 0, 1, 2),
                       *turned = bell_flip(in[0], BELL_DIMS(0));

    UNUSED;
    bell_assign_slice(in[0], BELL_DIMS(0), bell_mul_scalar(view, 2));
    out[0] = bell_add(turned, in[0]);
    bell_assign_slice(in[0], BELL_DIMS(2), view);
    return BELL_OK;
}

FN(randomly)
{
    UNUSED;
    bell_assign(in[0],
                bell_add(in[0], bell_rand(ctx, BELL_DIMS(N), BELL_FLOAT32)));
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(in_inner)
{
    struct world *w = user;

    UNUSED;
    bell_assign(in[1], bell_mul_scalar(in[1], 0.5));
    return bell_jit_call(w->inner, in, out);
}

/* One element, which may be given as a number. */
FN(count_up)
{
    UNUSED;
    bell_assign(in[0], bell_add(in[0], bell_narrow(in[1], 0, 0, 1)));
    out[0] = bell_mul(in[0], in[1]);
    return BELL_OK;
}

FN(count_ints)
{
    UNUSED;
    bell_assign(in[0], bell_add_scalar(in[0], 3));
    bell_assign_slice(in[0], BELL_DIMS(1), bell_narrow(in[0], 0, 0, 2));
    out[0] = bell_cast(in[0], BELL_FLOAT32);
    return BELL_OK;
}

FN(take_gradient)
{
    UNUSED;
    return bell_gradient(total(bell_mul(in[0], bell_mul(in[0], in[1]))), in, 2,
                         out);
}

FN(leave_gradient)
{
    UNUSED;
    bell_requires_grad(in[0], true);
    out[0] = total(bell_mul(in[0], bell_mul(in[0], in[1])));
    return bell_backward(out[0]);
}

FN(leave_two)
{
    UNUSED;
    bell_requires_grad(in[1], true);
    bell_requires_grad(in[0], true);
    out[0] = total(bell_mul(in[0], in[1]));
    if (bell_backward(out[0]) != BELL_OK ||
        bell_backward(total(bell_sin(in[1]))) != BELL_OK)
        return bell_error_last()->status;
    out[0] = bell_mul_scalar(bell_grad(in[0]), 2);
    return BELL_OK;
}

FN(leave_fresh)
{
    UNUSED;
    bell_zero_grad(in[0]);
    bell_requires_grad(in[0], true);
    out[0] = total(bell_mul(in[0], bell_mul(in[0], in[1])));
    return bell_backward(out[0]);
}

/* The caller has said whether it requires one: there is one at each call. */
FN(leave_if_asked)
{
    struct world *w = user;
    bell_status status;

    UNUSED;
    bell_optimizer_zero_grad(w->opt);
    out[0] = total(bell_mul(bell_mul(in[0], in[0]), bell_mul(w->p, in[1])));
    status = bell_backward(out[0]);
    return status == BELL_OK ? bell_optimizer_step(w->opt, out, 1) : status;
}

FN(leave_and_drop)
{
    UNUSED;
    bell_requires_grad(in[0], true);
    out[0] = total(bell_mul(in[0], bell_mul(in[0], in[1])));
    if (bell_backward(out[0]) != BELL_OK)
        return bell_error_last()->status;
    out[0] = bell_alias(bell_grad(in[0]));
    bell_zero_grad(in[0]);
    bell_requires_grad(in[0], false);
    return BELL_OK;
}

FN(descend)
{
    struct bell_tensor *grad;

    UNUSED;
    bell_requires_grad(in[0], true);
    bell_zero_grad(in[0]);
    out[0] = total(bell_mul(in[0], bell_mul(in[0], in[1])));
    if (bell_backward(out[0]) != BELL_OK)
        return bell_error_last()->status;
    grad = bell_mul_scalar(bell_grad(in[0]), 0.0625);
    bell_assign(in[0], bell_detach(bell_sub(in[0], grad)));
    return BELL_OK;
}

FN(mark)
{
    UNUSED;
    bell_requires_grad(in[0], true);
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(unmark)
{
    UNUSED;
    bell_requires_grad(in[0], false);
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(drop_gradient)
{
    UNUSED;
    bell_zero_grad(in[0]);
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(double_gradient)
{
    UNUSED;
    out[0] = bell_neg(in[0]);
    if (bell_grad(in[0])) {
        bell_assign(bell_grad(in[0]), bell_mul_scalar(bell_grad(in[0]), 2));
        out[0] = bell_mul(bell_grad(in[0]), in[1]);
    }
    return BELL_OK;
}

FN(use_mine)
{
    struct world *w = user;
    bell_status status;

    UNUSED;
    out[0] = total(bell_mul(in[0], bell_mul(in[0], in[1])));
    bell_optimizer_zero_grad(w->mine);
    status = bell_backward(out[0]);
    return status == BELL_OK ? bell_optimizer_step(w->mine, out, 1) : status;
}

FN(change_outside)
{
    struct world *w = user;

    UNUSED;
    bell_assign(w->q, bell_add(in[0], in[1]));
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

FN(see_outside)
{
    struct world *w = user;

    UNUSED;
    bell_assign(in[0], bell_add_scalar(in[0], 1));
    out[0] = bell_add(w->q, in[0]);
    return BELL_OK;
}

FN(read_outside)
{
    struct world *w = user;

    UNUSED;
    out[0] = bell_add(w->q, in[0]);
    return BELL_OK;
}

FN(end_input)
{
    UNUSED;
    out[0] = bell_neg(in[0]);
    bell_tensor_release(in[0]);
    return BELL_OK;
}

FN(keep_input)
{
    UNUSED;
    out[0] = bell_neg(in[0]);
    bell_keep_forever(in[0]);
    return BELL_OK;
}

/* ---- rows ---- */

enum given {
    GIVEN_PLAIN,
    GIVEN_TWICE,   /* the first two are one tensor */
    GIVEN_ALIAS,   /* the second is an alias of the first */
    GIVEN_VIEW,    /* the second is the first, turned around */
    GIVEN_MARKED,  /* the first requires a gradient */
    GIVEN_GRADED,  /* and has one */
    GIVEN_OUTSIDE, /* the first is the tensor from outside */
    GIVEN_MINE,    /* the first is a parameter of the optimiser */
    GIVEN_ONE,     /* the first has one element */
    GIVEN_NUMBER,  /* and is a bell_scalar */
    GIVEN_INTS     /* the first is int32 */
};

static const struct row {
    const char *name;
    fn_type *fn;
    enum given given;
    uint32_t n_out;
    const char *refused; /* NULL: it is as without the jit */
} rows[] = {
#define ROW(fn, given, n_out)                                                  \
    {                                                                          \
#fn, fn, given, n_out, NULL                                            \
    }
    ROW(bump, GIVEN_PLAIN, 1),
    ROW(bump, GIVEN_TWICE, 1),
    ROW(bump, GIVEN_ALIAS, 1),
    ROW(bump, GIVEN_VIEW, 1),
    ROW(bump, GIVEN_MARKED, 1),
    ROW(bump_two, GIVEN_PLAIN, 1),
    ROW(bump_two, GIVEN_TWICE, 1),
    ROW(bump_two, GIVEN_ALIAS, 1),
    ROW(bump_twice, GIVEN_PLAIN, 1),
    ROW(bump_twice, GIVEN_TWICE, 1),
    ROW(bump_realized, GIVEN_PLAIN, 1),
    ROW(exchange, GIVEN_PLAIN, 1),
    ROW(exchange, GIVEN_TWICE, 1),
    ROW(exchange, GIVEN_ALIAS, 1),
    ROW(copy_over, GIVEN_PLAIN, 1),
    ROW(give_back, GIVEN_PLAIN, 1),
    ROW(give_old, GIVEN_PLAIN, 1),
    ROW(give_same, GIVEN_PLAIN, 1),
    ROW(to_itself, GIVEN_PLAIN, 1),
    ROW(to_zeros, GIVEN_PLAIN, 1),
    ROW(to_data, GIVEN_PLAIN, 1),
    ROW(to_written, GIVEN_PLAIN, 1),
    ROW(to_outside, GIVEN_PLAIN, 1),
    ROW(through_outside, GIVEN_PLAIN, 1),
    ROW(exchange_outside, GIVEN_PLAIN, 1),
    ROW(put_slice, GIVEN_PLAIN, 1),
    ROW(put_slice, GIVEN_TWICE, 1),
    ROW(put_slice, GIVEN_ALIAS, 1),
    ROW(put_slices, GIVEN_PLAIN, 1),
    ROW(put_slices, GIVEN_TWICE, 1),
    ROW(put_slices, GIVEN_VIEW, 1),
    ROW(put_mixed, GIVEN_PLAIN, 1),
    ROW(see_views, GIVEN_PLAIN, 1),
    ROW(see_views, GIVEN_VIEW, 1),
    ROW(randomly, GIVEN_PLAIN, 1),
    ROW(in_inner, GIVEN_PLAIN, 1),
    ROW(in_inner, GIVEN_TWICE, 1),
    ROW(count_up, GIVEN_ONE, 1),
    ROW(count_ints, GIVEN_INTS, 1),
    ROW(take_gradient, GIVEN_PLAIN, 2),
    ROW(take_gradient, GIVEN_TWICE, 2),
    ROW(leave_gradient, GIVEN_PLAIN, 1),
    ROW(leave_gradient, GIVEN_TWICE, 1),
    ROW(leave_gradient, GIVEN_MARKED, 1),
    ROW(leave_gradient, GIVEN_GRADED, 1),
    ROW(leave_two, GIVEN_PLAIN, 1),
    ROW(leave_two, GIVEN_TWICE, 1),
    ROW(leave_two, GIVEN_GRADED, 1),
    ROW(leave_fresh, GIVEN_PLAIN, 1),
    ROW(leave_fresh, GIVEN_GRADED, 1),
    ROW(leave_if_asked, GIVEN_PLAIN, 1),
    ROW(leave_if_asked, GIVEN_MARKED, 1),
    ROW(leave_if_asked, GIVEN_GRADED, 1),
    ROW(leave_and_drop, GIVEN_PLAIN, 1),
    ROW(leave_and_drop, GIVEN_GRADED, 1),
    ROW(descend, GIVEN_PLAIN, 1),
    ROW(descend, GIVEN_GRADED, 1),
    ROW(mark, GIVEN_PLAIN, 1),
    ROW(mark, GIVEN_ONE, 1),
    ROW(unmark, GIVEN_MARKED, 1),
    ROW(drop_gradient, GIVEN_PLAIN, 1),
    ROW(drop_gradient, GIVEN_GRADED, 1),
    ROW(double_gradient, GIVEN_PLAIN, 1),
    ROW(double_gradient, GIVEN_GRADED, 1),
    ROW(read_outside, GIVEN_OUTSIDE, 1),
#undef ROW
    {"use_mine", use_mine, GIVEN_MINE, 1, "from outside"},
    {"change_outside", change_outside, GIVEN_OUTSIDE, 1, "from outside"},
    {"see_outside", see_outside, GIVEN_OUTSIDE, 1, "from outside"},
    {"end_input", end_input, GIVEN_PLAIN, 1, "ends input 0"},
    {"keep_input", keep_input, GIVEN_PLAIN, 1, "keeps input 0"},
    {"bump", bump, GIVEN_NUMBER, 1, "a bell_scalar"},
};

/* How the inputs of a call come to be. */
enum feeding {
    FEED_SAME,    /* those of the first call, with the values that they have */
    FEED_WRITTEN, /* those, with other values */
    FEED_NEW,     /* others in each call */
    FEED_LAZY,    /* others that are not computed yet */
    FEED_NUMBERS, /* others, the same in each element */
    FEED_CUT,     /* others; a part of all that a call gave is written then */
    N_FEEDINGS
};

static struct bell_tensor *
make_input(struct world *w, enum feeding feeding, enum given given, uint32_t i)
{
    bool one = i == 0 && (given == GIVEN_ONE || given == GIVEN_NUMBER);
    float first = (float)(w->call + 1) * 0.5f + (float)i, data[N];
    struct bell_tensor *t;
    int64_t n = one ? 1 : N;
    int k;

    if (i == 0 && given == GIVEN_NUMBER)
        return bell_scalar(w->ctx, (double)first);
    for (k = 0; k < N; k++)
        data[k] = feeding == FEED_NUMBERS ? first : first + (float)k * 0.25f;
    if (i == 0 && given == GIVEN_INTS) {
        int32_t ints[N] = {1, (int32_t)w->call, 3, 4};
        t = feeding == FEED_NUMBERS
                ? bell_full_int(w->ctx, &n, 1, (int64_t)w->call, BELL_INT32)
                : bell_from_data(w->ctx, &n, 1, BELL_INT32, ints);
    } else if (feeding == FEED_NUMBERS) {
        t = bell_full(w->ctx, &n, 1, (double)first, BELL_FLOAT32);
    } else {
        t = bell_from_data(w->ctx, &n, 1, BELL_FLOAT32, data);
    }
    if (feeding == FEED_LAZY)
        t = bell_add(t, t);
    return t;
}

static void
give(struct world *w, enum feeding feeding, const struct row *row)
{
    static const float ones[N] = {1, 2, 3, 4};
    bool same = w->call && (feeding == FEED_SAME || feeding == FEED_WRITTEN);
    struct bell_tensor *fresh;
    uint32_t i;

    for (i = 0; i < 2; i++) {
        if (w->call == 0 || !same)
            w->in[i] = make_input(w, feeding, row->given, i);
        else if (feeding == FEED_WRITTEN && row->given != GIVEN_TWICE &&
                 row->given != GIVEN_NUMBER) {
            fresh = make_input(w, FEED_NEW, row->given, i);
            bell_assign(w->in[i], bell_detach(fresh));
        }
    }
    if (same)
        return;
    if (row->given == GIVEN_OUTSIDE)
        w->in[0] = w->q;
    if (row->given == GIVEN_MINE) {
        const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd),
                                             .lr = 0.5};
        if (w->call == 0) {
            w->in[2] = bell_requires_grad(w->in[0], true);
            expect_ok(bell_sgd_create(w->in, 1, &sgd, &w->mine));
        }
        w->in[0] = w->in[2];
    }
    if (row->given == GIVEN_TWICE)
        w->in[1] = w->in[0];
    if (row->given == GIVEN_ALIAS)
        w->in[1] = bell_alias(w->in[0]);
    if (row->given == GIVEN_VIEW)
        w->in[1] = bell_flip(w->in[0], BELL_DIMS(0));
    if (row->given == GIVEN_MARKED || row->given == GIVEN_GRADED)
        bell_requires_grad(w->in[0], true);
    if (row->given == GIVEN_GRADED) {
        fresh = bell_from_data(w->ctx, BELL_DIMS(N), BELL_FLOAT32, ones);
        expect_ok(bell_backward(total(bell_mul(w->in[0], fresh))));
    }
}

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s: %s, given %d, fed %u: %s", where, now->name,
                 (int)now->given, now_fed, bell_error_last()->message);
}

static void
expect_same(const char *what, struct bell_tensor *a, struct bell_tensor *b,
            uint32_t call)
{
    uint8_t x[64], y[64];
    size_t size;

    if (!a != !b)
        fail_msg("%s: %s, given %d, fed %d, call %u: %s is %s, jitted %s",
                 where, now->name, (int)now->given, (int)now_fed, call, what,
                 a ? "there" : "NULL", b ? "there" : "NULL");
    if (!a)
        return;
    size = bell_nbytes(a);
    assert_true(size <= sizeof(x));
    assert_int_equal(bell_nbytes(b), size);
    expect_ok(bell_read(a, x, size));
    expect_ok(bell_read(b, y, size));
    if (memcmp(x, y, size) != 0) {
        float u, v;
        memcpy(&u, x, sizeof(u));
        memcpy(&v, y, sizeof(v));
        fail_msg("%s: %s, given %d, fed %d, call %u: %s begins with %g, "
                 "jitted %g",
                 where, now->name, (int)now->given, (int)now_fed, call, what,
                 (double)u, (double)v);
    }
}

static void
expect_same_worlds(struct world *a, struct world *b)
{
    char what[32];
    uint32_t i;

    for (i = 0; i < now->n_out; i++) {
        snprintf(what, sizeof(what), "output %u", i);
        expect_same(what, a->out[i], b->out[i], a->call);
    }
    for (i = 0; i < 2; i++) {
        snprintf(what, sizeof(what), "input %u", i);
        expect_same(what, a->in[i], b->in[i], a->call);
        snprintf(what, sizeof(what), "gradient %u", i);
        expect_same(what, bell_grad(a->in[i]), bell_grad(b->in[i]), a->call);
    }
    expect_same("p", a->p, b->p, a->call);
    expect_same("q", a->q, b->q, a->call);
}

/* Whether it requires a gradient: one comes to be. */
static bool
is_marked(struct bell_tensor *t)
{
    bool marked;

    if (bell_dtype_of(t) != BELL_FLOAT32)
        return false;
    bell_zero_grad(t);
    marked = bell_backward(total(bell_mul(t, t))) == BELL_OK;
    bell_error_clear();
    bell_zero_grad(t);
    return marked;
}

static void
open_world(struct world *w, struct bell_context *ctx)
{
    static const float p[N] = {0.5f, -1, 2, 0.25f}, q[N] = {3, 2, -1, 0.5f};
    const struct bell_sgd_options sgd = {
        .struct_size = sizeof(sgd), .lr = 0.25, .momentum = 0.5};
    struct bell_jit_desc desc = {sizeof(desc), "inner", bump, w, 2, 1};

    memset(w, 0, sizeof(*w));
    w->ctx = ctx;
    expect_ok(bell_scope_begin(ctx));
    bell_manual_seed(ctx, 7);
    w->p = bell_requires_grad(
        bell_from_data(ctx, BELL_DIMS(N), BELL_FLOAT32, p), true);
    w->q = bell_from_data(ctx, BELL_DIMS(N), BELL_FLOAT32, q);
    expect_ok(bell_sgd_create(&w->p, 1, &sgd, &w->opt));
    expect_ok(bell_jit_create(ctx, &desc, &w->inner));
}

static void
close_world(struct world *w)
{
    bell_jit_destroy(w->inner);
    bell_optimizer_destroy(w->opt);
    if (w->mine)
        bell_optimizer_destroy(w->mine);
    expect_ok(bell_scope_end(w->ctx));
}

static void
cut(struct bell_context *ctx, struct bell_tensor *t)
{
    float zero = 0;
    bool marked = bell_grad(t) != NULL;

    if (bell_dtype_of(t) != BELL_FLOAT32 || bell_ndim(t) != 1 || marked)
        return;
    bell_assign_slice(t, BELL_DIMS(0),
                      bell_from_data(ctx, BELL_DIMS(1), BELL_FLOAT32, &zero));
    bell_error_clear();
}

/* Writes a part of each: nothing else is to see it. */
static void
cut_all(struct world *w)
{
    uint32_t i;

    for (i = 0; i < now->n_out; i++)
        cut(w->ctx, w->out[i]);
    for (i = 0; i < 2; i++)
        cut(w->ctx, w->in[i]);
    if (bell_context_status(w->ctx) != BELL_OK)
        bell_error_clear(); /* it requires a gradient */
}

static void
expect_refused(struct world *w, struct bell_jit *jit, struct bell_context *ctx)
{
    struct bell_context_info before = {.struct_size = sizeof(before)},
                             after = {.struct_size = sizeof(after)};
    struct world plain;
    bell_status status;

    bell_context_get_info(w->ctx, &before);
    status = bell_jit_call(jit, w->in, w->out);
    if (status != BELL_E_INVALID ||
        !strstr(bell_error_last()->message, now->refused))
        fail_msg("%s: %s, given %d: %d '%s', not '%s'", where, now->name,
                 (int)now->given, (int)status, bell_error_last()->message,
                 now->refused);
    bell_error_clear();
    bell_context_get_info(w->ctx, &after);
    assert_int_equal(after.n_tensors, before.n_tensors);
    if (w->call)
        return;
    /* nothing has changed */
    open_world(&plain, ctx);
    give(&plain, now_fed, now);
    if (now->given != GIVEN_NUMBER)
        expect_same("input 0", plain.in[0], w->in[0], 0);
    expect_same("input 1", plain.in[1], w->in[1], 0);
    expect_same("q", plain.q, w->q, 0);
    close_world(&plain);
}

static void
run_row(struct bell_context *const ctx[2], const struct row *row,
        enum feeding feeding)
{
    struct bell_jit_desc desc = {sizeof(desc), row->name, row->fn,
                                 NULL,         2,         row->n_out};
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct world plain, jitted;
    struct bell_jit *jit;
    bell_status status = BELL_OK;
    uint32_t i;

    now = row;
    now_fed = feeding;
    open_world(&plain, ctx[0]);
    open_world(&jitted, ctx[1]);
    desc.user = &jitted;
    expect_ok(bell_jit_create(ctx[1], &desc, &jit));
    for (i = 0; i < CALLS; i++) {
        plain.call = jitted.call = i;
        give(&jitted, feeding, row);
        if (row->refused) {
            expect_refused(&jitted, jit, ctx[0]);
            continue;
        }
        give(&plain, feeding, row);
        status = row->fn(ctx[0], &plain, plain.in, plain.out);
        if (status != BELL_OK && feeding == FEED_NUMBERS)
            break; /* a constant has no gradient: what a jit is given has */
        expect_ok(status);
        if (bell_jit_call(jit, jitted.in, jitted.out) != BELL_OK)
            fail_msg("%s: %s, given %d, fed %d: %s", where, row->name,
                     (int)row->given, (int)feeding, bell_error_last()->message);
        expect_same_worlds(&plain, &jitted);
        if (feeding == FEED_CUT) {
            cut_all(&plain);
            cut_all(&jitted);
            expect_same_worlds(&plain, &jitted);
        }
    }
    bell_jit_get_info(jit, &info);
    if (!row->refused && status == BELL_OK) {
        /* once more where it found a gradient or a mark of its own */
        assert_in_range(info.n_captures, 1, 3);
        for (i = 0; i < 2; i++) {
            bool a = is_marked(plain.in[i]), b = is_marked(jitted.in[i]);
            if (a != b)
                fail_msg("%s: %s: input %u is marked %d, jitted %d", where,
                         row->name, i, a, b);
        }
    }
    bell_error_clear();
    bell_jit_destroy(jit);
    close_world(&plain);
    close_world(&jitted);
}

static void
test_rows(void **state)
{
    struct bell_context *ctx[2];
    uint32_t k, i, f;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        where = devices[k];
        expect_ok(bell_context_create(where, &ctx[0]));
        expect_ok(bell_context_create(where, &ctx[1]));
        for (i = 0; i < ARRAY_LEN(rows); i++) {
            for (f = 0; f < N_FEEDINGS; f++)
                run_row(ctx, &rows[i], (enum feeding)f);
        }
        bell_context_destroy(ctx[0]);
        bell_context_destroy(ctx[1]);
    }
}

/* ---- which inputs are one tensor, and which are marked, changes ---- */

#define N_POOL 3

/* Gives two of the pool in every order. */
static void
run_orders(struct bell_context *const ctx[2], const struct row *row)
{
    struct bell_jit_desc desc = {sizeof(desc), row->name, row->fn,
                                 NULL,         2,         row->n_out};
    struct bell_tensor *pool[2][N_POOL];
    struct world w[2];
    struct bell_jit *jit;
    uint32_t rng = 12345, i, k, n;
    bell_status status;

    now = row;
    for (k = 0; k < 2; k++) {
        open_world(&w[k], ctx[k]);
        for (i = 0; i < N_POOL; i++) {
            w[k].call = i;
            pool[k][i] = make_input(&w[k], FEED_NEW, GIVEN_PLAIN, 0);
        }
    }
    desc.user = &w[1];
    expect_ok(bell_jit_create(ctx[1], &desc, &jit));
    for (n = 0; n < 24; n++) {
        rng = rng * 1664525 + 1013904223;
        for (k = 0; k < 2; k++) {
            w[k].call = n;
            w[k].in[0] = pool[k][(rng >> 10) % N_POOL];
            w[k].in[1] = pool[k][(rng >> 16) % N_POOL];
            if (rng >> 24 & 1 && row->given == GIVEN_MARKED)
                bell_requires_grad(pool[k][0], rng >> 25 & 1);
            if ((rng >> 26) % 4 == 0)
                bell_zero_grad(pool[k][rng >> 28 & 1]);
            if ((rng >> 29) % 4 == 0)
                bell_assign(pool[k][1], bell_detach(bell_tanh(pool[k][2])));
            status = k ? bell_jit_call(jit, w[k].in, w[k].out)
                       : row->fn(ctx[k], &w[k], w[k].in, w[k].out);
            expect_ok(status);
        }
        expect_same_worlds(&w[0], &w[1]);
        for (i = 0; i < N_POOL; i++) {
            expect_same("one of the pool", pool[0][i], pool[1][i], n);
            expect_same("a gradient of the pool", bell_grad(pool[0][i]),
                        bell_grad(pool[1][i]), n);
        }
    }
    bell_jit_destroy(jit);
    close_world(&w[0]);
    close_world(&w[1]);
}

static void
test_orders(void **state)
{
    static const struct row list[] = {
        {"bump_two", bump_two, GIVEN_MARKED, 1, NULL},
        {"exchange", exchange, GIVEN_PLAIN, 1, NULL},
        {"copy_over", copy_over, GIVEN_PLAIN, 1, NULL},
        {"put_slices", put_slices, GIVEN_PLAIN, 1, NULL},
        {"in_inner", in_inner, GIVEN_MARKED, 1, NULL},
        {"take_gradient", take_gradient, GIVEN_MARKED, 2, NULL},
        {"leave_two", leave_two, GIVEN_MARKED, 1, NULL},
        {"leave_fresh", leave_fresh, GIVEN_MARKED, 1, NULL},
        {"leave_and_drop", leave_and_drop, GIVEN_MARKED, 1, NULL},
        {"descend", descend, GIVEN_MARKED, 1, NULL},
        {"double_gradient", double_gradient, GIVEN_MARKED, 1, NULL},
    };
    struct bell_context *ctx[2];
    uint32_t k, i;

    (void)state;
    for (k = 0; k < ARRAY_LEN(devices); k++) {
        where = devices[k];
        expect_ok(bell_context_create(where, &ctx[0]));
        expect_ok(bell_context_create(where, &ctx[1]));
        for (i = 0; i < ARRAY_LEN(list); i++)
            run_orders(ctx, &list[i]);
        bell_context_destroy(ctx[0]);
        bell_context_destroy(ctx[1]);
    }
}

/* ---- out of memory ---- */

/* Every allocation fails in turn: inputs and gradients are as they were, or as
 * behind a call. */
static void
test_no_memory(void **state)
{
    static const struct row list[] = {
        {"put_slices", put_slices, GIVEN_PLAIN, 1, NULL},
        {"leave_two", leave_two, GIVEN_PLAIN, 1, NULL},
        {"descend", descend, GIVEN_GRADED, 1, NULL},
    };
    struct bell_context *ctx[2];
    struct world plain, jitted;
    uint64_t at;
    uint32_t i, k;

    (void)state;
    where = "CPU";
    expect_ok(bell_context_create(where, &ctx[0]));
    expect_ok(bell_context_create(where, &ctx[1]));
    for (i = 0; i < ARRAY_LEN(list); i++) {
        bell_status status = BELL_E_NO_MEMORY;

        now = &list[i];
        for (at = 1; status != BELL_OK; at++) {
            struct bell_jit_desc desc = {sizeof(desc), now->name, now->fn,
                                         &jitted,      2,         now->n_out};
            struct bell_jit *jit;

            open_world(&plain, ctx[0]);
            open_world(&jitted, ctx[1]);
            expect_ok(bell_jit_create(ctx[1], &desc, &jit));
            for (k = 0; k < 2; k++) {
                plain.call = jitted.call = k;
                give(&plain, FEED_SAME, now);
                give(&jitted, FEED_SAME, now);
                expect_ok(bell_realize(jitted.in, 2));
                host_fail_after(k ? at / 4 + 1 : at, 1);
                status = bell_jit_call(jit, jitted.in, jitted.out);
                host_fail_after(0, 0);
                if (status != BELL_OK) {
                    assert_int_equal(status, BELL_E_NO_MEMORY);
                    bell_error_clear();
                    expect_ok(bell_context_status(ctx[1]));
                    plain.out[0] = jitted.out[0] = NULL;
                } else {
                    expect_ok(now->fn(ctx[0], &plain, plain.in, plain.out));
                }
                expect_same_worlds(&plain, &jitted);
            }
            bell_jit_destroy(jit);
            close_world(&plain);
            close_world(&jitted);
        }
    }
    bell_context_destroy(ctx[0]);
    bell_context_destroy(ctx[1]);
}

/* ---- symbols and bundles ---- */

FN(bump_only)
{
    UNUSED;
    out[0] = bell_neg(in[0]);
    bell_assign(in[0], out[0]);
    return BELL_OK;
}

/* Nothing assigns to a tensor with a symbol's size, which the capture says. */
static void
test_symbols(void **state)
{
    struct bell_jit_desc desc = {sizeof(desc), "bump", bump_only, NULL, 1, 1};
    float data[N] = {1, 2, 3, 4}, got[N];
    struct bell_tensor *x, *part, *y;
    struct bell_context *ctx;
    struct bell_jit *jit;
    struct bell_dim n;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    n = bell_symbol(ctx, "n", 1, N);
    x = bell_from_data(ctx, BELL_DIMS(N), BELL_FLOAT32, data);
    part = bell_narrow(x, 0, 0, n);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    assert_int_equal(bell_jit_call(jit, &part, &y), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "bell_assign"));
    bell_error_clear();
    expect_ok(bell_jit_call(jit, &x, &y));
    expect_ok(bell_read(x, got, sizeof(got)));
    assert_true(got[3] == -4);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
}

/* A bundle's inputs are only read. */
static void
test_bundles(void **state)
{
    static const struct {
        fn_type *fn;
        enum given given;
        const char *text; /* NULL: it is saved */
    } list[] = {
        {bump, GIVEN_PLAIN, "'left'"},
        {exchange, GIVEN_PLAIN, "'left'"},
        {put_slice, GIVEN_PLAIN, "'left'"},
        {leave_gradient, GIVEN_PLAIN, "'left'"},
        {leave_if_asked, GIVEN_MARKED, "'left'"},
        {mark, GIVEN_PLAIN, "'left'"},
        {take_gradient, GIVEN_PLAIN, NULL},
        {give_same, GIVEN_TWICE, NULL},
        {to_itself, GIVEN_GRADED, NULL},
    };
    static const char *const targets[] = {"CPU"}, *const names[] = {"left",
                                                                    "right"};
    const struct bell_jit_save_desc save = {.struct_size = sizeof(save),
                                            .targets = targets,
                                            .n_targets = 1,
                                            .in_names = names};
    char path[] = "/tmp/bell-inputs-XXXXXX";
    int fd = mkstemp(path);
    struct bell_context *ctx;
    uint32_t i, k;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    where = "CPU";
    expect_ok(bell_context_create(where, &ctx));
    for (i = 0; i < ARRAY_LEN(list); i++) {
        struct row row = {"saved", list[i].fn, list[i].given, 2, NULL};
        struct bell_jit_desc desc = {
            sizeof(desc), row.name, row.fn,
            NULL,         2,        row.fn == take_gradient ? 2 : 1};
        struct bell_jit *jit;
        struct world w;

        now = &row;
        open_world(&w, ctx);
        desc.user = &w;
        expect_ok(bell_jit_create(ctx, &desc, &jit));
        give(&w, FEED_NEW, &row);
        for (k = 0; k < 2; k++) {
            bell_status status = bell_jit_save(jit, w.in, &save, path);
            if (!list[i].text || (k && row.fn == mark)) /* it is by now */
                expect_ok(status);
            else if (status != BELL_E_UNSUPPORTED ||
                     !strstr(bell_error_last()->message, list[i].text))
                fail_msg("function %u: %s", i, bell_error_last()->message);
            bell_error_clear();
            expect_ok(bell_jit_call(jit, w.in, w.out));
        }
        bell_jit_destroy(jit);
        close_world(&w);
    }
    bell_context_destroy(ctx);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_orders),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_bundles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
