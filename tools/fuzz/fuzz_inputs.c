/* `doorbell fuzz --jit`: programs that change their inputs.
 *
 * Between a program's calls some of its inputs are assigned to, wholly or in
 * part; now and then two inputs are one tensor. The function is run plainly and
 * as a jit, with inputs of the same values: outputs and inputs are the same to
 * the bit behind each call. NaN is equal to NaN.
 */
#include "tools/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doorbell/jit.h"
#include "doorbell/mesh.h"

#define N_CALLS 4 /* of each two, the second has what the first left */

/* What a function works with. */
struct changing {
    struct fuzz_program prog;
    uint64_t seed; /* of the changes, the same in each call */
    struct bell_tensor *nodes[FUZZ_MAX_NODES];
    uint32_t n_out, n_in;
};

/* One way of running it. */
struct fuzz_side {
    struct bell_tensor *in[FUZZ_MAX_NODES], *out[FUZZ_MAX_OUT];
};

static bool
is_given(const struct fuzz_node *node)
{
    return node->op == 0 || fuzz_op_at(node->op)->seeded;
}

static bool
is_alike(struct bell_tensor *a, struct bell_tensor *b)
{
    return bell_dtype_of(a) == bell_dtype_of(b) &&
           bell_ndim(a) == bell_ndim(b) &&
           memcmp(bell_shape(a), bell_shape(b),
                  bell_ndim(a) * sizeof(int64_t)) == 0;
}

/* A part of `t`, of a size that another place in it has too, is put there. */
static void
assign_part(struct fuzz_rng *rng, struct bell_tensor *t)
{
    int64_t begin[BELL_MAX_RANK], bounds[2 * BELL_MAX_RANK];
    uint32_t n = bell_ndim(t), i;

    for (i = 0; i < n; i++) {
        uint64_t size = (uint64_t)bell_size(t, (int)i);
        uint64_t count = 1 + fuzz_below(rng, size);
        begin[i] = (int64_t)fuzz_below(rng, size - count + 1);
        bounds[2 * i] = (int64_t)fuzz_below(rng, size - count + 1);
        bounds[2 * i + 1] = bounds[2 * i] + (int64_t)count;
    }
    bell_assign_slice(t, begin, n, bell_shrink(t, bounds, 2 * n));
}

/* Changes one of the inputs, which is among the first n nodes. */
static void
change_input(struct changing *c, struct fuzz_rng *rng, uint32_t n)
{
    uint32_t at = (uint32_t)fuzz_below(rng, n),
             from = (uint32_t)fuzz_below(rng, n);
    struct bell_tensor *t = c->nodes[at], *value = c->nodes[from];

    if (!is_given(&c->prog.nodes[at]) || bell_is_error(t))
        return;
    if (fuzz_one_in(rng, 2) && bell_ndim(t) > 0 && bell_numel(t) > 0)
        assign_part(rng, t);
    else if (!bell_is_error(value) && is_alike(t, value))
        bell_assign(t, value);
    else if (fuzz_is_bool(t))
        bell_assign(t, bell_logical_not(t));
    else if (fuzz_is_float(t))
        bell_assign(t, bell_mul_scalar(t, 0.5));
    else
        bell_assign(t, bell_add_scalar(t, 1));
}

static bell_status
call_changing(struct bell_context *ctx, void *user,
              struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct changing *c = user;
    struct fuzz_rng rng = fuzz_rng(c->seed);
    uint32_t n = 0, i;

    for (i = 0; i < c->prog.n_nodes; i++) {
        c->nodes[i] = is_given(&c->prog.nodes[i])
                          ? in[n++]
                          : fuzz_call(ctx, &c->prog.nodes[i], c->nodes);
        if (fuzz_one_in(&rng, 2))
            change_input(c, &rng, i + 1);
    }
    n = c->prog.n_roots;
    for (i = 0; i < n; i++)
        out[i] = c->nodes[c->prog.roots[i]];
    BELL_TRY(bell_context_status(ctx));
    BELL_TRY(fuzz_append_grads(&c->prog, c->nodes, out, &n));
    c->n_out = n;
    return bell_context_status(ctx);
}

/* Fresh inputs, in memory. Where two are alike they are one tensor now and
 * then, in both sides. */
static BELL_MUST_CHECK bell_status
make_fuzz_inputs(struct bell_context *ctx, struct changing *c,
                 struct fuzz_side *side)
{
    struct fuzz_rng rng = fuzz_rng(hash_add(c->prog.seed, c->seed));
    uint32_t i, k;

    BELL_TRY(fuzz_build(ctx, &c->prog, c->nodes));
    c->n_in = 0;
    for (i = 0; i < c->prog.n_nodes; i++) {
        if (is_given(&c->prog.nodes[i]))
            side->in[c->n_in++] = c->nodes[i];
    }
    BELL_TRY(bell_realize(side->in, c->n_in));
    for (i = 0; i < c->n_in; i++) {
        for (k = 0; k < i; k++) {
            if (is_alike(side->in[i], side->in[k]) && fuzz_one_in(&rng, 4))
                side->in[i] = side->in[k];
        }
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
compare_one(struct bell_tensor *plain, struct bell_tensor *jitted,
            const char *what, uint32_t i, uint32_t call,
            struct fuzz_verdict *out)
{
    size_t size = (size_t)bell_nbytes(plain), at;
    uint8_t *bytes = host_alloc(2 * size + 1);
    bell_status status = BELL_OK;
    double x, y;

    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %s %u", what, i);
    if (bell_read(plain, bytes, size) != BELL_OK ||
        bell_read(jitted, bytes + size, size) != BELL_OK)
        status = bell_error_last()->status;
    out->n_compared += (size_t)bell_numel(plain);
    if (status == BELL_OK &&
        fuzz_find_difference((enum uop_dtype)bell_dtype_of(plain),
                             (size_t)bell_numel(plain), bytes, bytes + size,
                             &at, &x, &y)) {
        out->failed = true;
        snprintf(out->what, sizeof(out->what),
                 "%s %u, element %zu, of a function that changes its inputs: "
                 "call %u gives %.17g, without the jit %.17g",
                 what, i, at, call, y, x);
    }
    host_free(bytes);
    return status;
}

static BELL_MUST_CHECK bell_status
compare_sides(const struct changing *c, const struct fuzz_side *plain,
              const struct fuzz_side *jitted, uint32_t call,
              struct fuzz_verdict *out)
{
    uint32_t i;

    for (i = 0; i < c->n_out && !out->failed; i++)
        BELL_TRY(
            compare_one(plain->out[i], jitted->out[i], "root", i, call, out));
    for (i = 0; i < c->n_in && !out->failed; i++)
        BELL_TRY(
            compare_one(plain->in[i], jitted->in[i], "input", i, call, out));
    return BELL_OK;
}

/* Outputs and inputs are realized at once, as by a jit. False: the function is
 * refused without the jit, which says nothing. */
static bool
run_plainly(struct bell_context *ctx, struct changing *c,
            struct fuzz_side *side)
{
    struct bell_tensor *all[FUZZ_MAX_OUT + FUZZ_MAX_NODES];

    if (call_changing(ctx, c, side->in, side->out) == BELL_OK) {
        memcpy(all, side->out, c->n_out * sizeof(all[0]));
        memcpy(all + c->n_out, side->in, c->n_in * sizeof(all[0]));
        if (bell_realize(all, c->n_out + c->n_in) == BELL_OK)
            return true;
    }
    bell_error_clear();
    return false;
}

/* *t, of which all values have just been written, in the layout of `as`. */
static BELL_MUST_CHECK bell_status
lay_as(struct bell_tensor *as, struct bell_tensor **t)
{
    struct bell_layout layout = {.struct_size = sizeof(layout)};

    BELL_TRY(bell_layout_of(as, &layout));
    if (layout.axes[0] >= 0)
        *t = bell_shard(*t, "data", layout.axes[0]);
    if (layout.axes[1] >= 0)
        *t = bell_shard(*t, "model", layout.axes[1]);
    return BELL_OK;
}

/* Gives each input memory of its own again, in the layout that the jit's has.
 * An assignment may leave two with one, which makes another graph of the next
 * call, with other last bits of its sums; a jit's inputs are apart. Two that
 * are one tensor stay one. */
static BELL_MUST_CHECK bell_status
part_inputs(const struct changing *c, const struct fuzz_side *jitted,
            struct fuzz_side *side)
{
    struct bell_tensor *was[FUZZ_MAX_NODES];
    bell_status status = BELL_OK;
    uint32_t i, k;

    memcpy(was, side->in, c->n_in * sizeof(was[0]));
    for (i = 0; i < c->n_in && status == BELL_OK; i++) {
        size_t size = (size_t)bell_nbytes(side->in[i]);
        void *bytes;

        for (k = 0; k < i && was[k] != was[i];)
            k++;
        if (k < i) {
            side->in[i] = side->in[k];
            continue;
        }
        bytes = host_alloc(size + 1);

        if (!bytes)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for input %u", i);
        status = bell_read(side->in[i], bytes, size);
        if (status == BELL_OK)
            status = bell_write(side->in[i], bytes, size);
        if (status == BELL_OK)
            status = lay_as(jitted->in[i], &side->in[i]);
        host_free(bytes);
    }
    return status == BELL_OK ? bell_realize(side->in, c->n_in) : status;
}

static BELL_MUST_CHECK bell_status
run_calls(struct bell_context *ctx, struct changing *c, struct bell_jit **jit,
          struct fuzz_verdict *out)
{
    struct fuzz_side plain, jitted;
    uint32_t i;

    for (i = 0; i < N_CALLS && !out->failed; i++) {
        if (i % 2 == 0) {
            c->prog.seed = hash_add(c->seed, i);
            BELL_TRY(make_fuzz_inputs(ctx, c, &plain));
            BELL_TRY(make_fuzz_inputs(ctx, c, &jitted));
        } else {
            BELL_TRY(part_inputs(c, &jitted, &plain));
        }
        if (!run_plainly(ctx, c, &plain))
            return BELL_OK;
        if (!*jit) {
            struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                         .fn = call_changing,
                                         .user = c,
                                         .n_in = c->n_in,
                                         .n_out = c->n_out};
            BELL_TRY(bell_jit_create(ctx, &desc, jit));
        }
        BELL_TRY(bell_jit_call(*jit, jitted.in, jitted.out));
        BELL_TRY(compare_sides(c, &plain, &jitted, i, out));
    }
    return BELL_OK;
}

bell_status
fuzz_check_inputs(struct bell_context *ctx, const struct fuzz_program *prog,
                  struct fuzz_verdict *out)
{
    struct changing *c = host_calloc(1, sizeof(*c));
    struct bell_jit *jit = NULL;
    bell_status status;

    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a fuzz program");
    c->prog = *prog;
    c->seed = prog->seed;
    status = bell_scope_begin(ctx);
    if (status == BELL_OK) {
        status = run_calls(ctx, c, &jit, out);
        if (status != BELL_OK)
            fuzz_note_failure(out, prog, "a function that changes its inputs");
        bell_jit_destroy(jit);
        status = bell_scope_end(ctx);
    }
    host_free(c);
    return status;
}
