/* `doorbell fuzz --vary`: the same program with other numbers, offsets and
 * sizes.
 *
 * Each program runs three times, the numbers of its calls changed in between
 * where all shapes stay, and once more as it was. A context that has seen the
 * others must give what a fresh one gives, to the bit; NaN is equal to NaN.
 * Then one of its sizes grows, step by step, where the calls allow it: the same
 * is true of each.
 */
#include "tools/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define N_VARIANTS 3
#define N_SIZES    5

/* Calls `what` with the program's nodes, built in a scope. */
static BELL_MUST_CHECK bell_status
with_nodes(struct bell_context *ctx, const struct fuzz_program *prog,
           bell_status (*what)(const struct fuzz_program *prog,
                               struct bell_tensor **nodes, void *user),
           void *user)
{
    struct bell_tensor *nodes[FUZZ_MAX_NODES];
    bell_status status, end;

    BELL_TRY(bell_scope_begin(ctx));
    status = fuzz_build(ctx, prog, nodes);
    if (status == BELL_OK)
        status = what(prog, nodes, user);
    end = bell_scope_end(ctx);
    return status == BELL_OK ? end : status;
}

/* ---- other numbers ---- */

/* The shapes of all nodes, one after the other. */
struct shapes {
    uint64_t hash;
};

static bell_status
hash_shapes(const struct fuzz_program *prog, struct bell_tensor **nodes,
            void *user)
{
    struct shapes *s = user;
    uint32_t i;

    for (i = 0; i < prog->n_nodes; i++) {
        s->hash = hash_add(s->hash, (uint64_t)bell_dtype_of(nodes[i]));
        s->hash = hash_bytes(bell_shape(nodes[i]),
                             bell_ndim(nodes[i]) * sizeof(int64_t), s->hash);
    }
    return BELL_OK;
}

static bool
keeps_shapes(struct bell_context *ctx, const struct fuzz_program *prog,
             uint64_t hash)
{
    struct shapes s = {0};

    if (with_nodes(ctx, prog, hash_shapes, &s) == BELL_OK)
        return s.hash == hash;
    bell_error_clear();
    return false;
}

/* Calls of whose numbers some are offsets: which of i, or how many of the list
 * belong together. */
static const struct {
    const char *name;
    uint8_t i, of_list;
} offsets[] = {
    {"bell_narrow", 1, 0},    {"bell_select", 1, 0}, {"bell_roll", 1, 0},
    {"bell_tril", 0, 0},      {"bell_triu", 0, 0},   {"bell_diagonal", 0, 0},
    {"bell_shrink", 0, 2},    {"bell_pad", 0, 2},    {"bell_index", 0, 4},
    {"bell_index_put", 0, 4},
};

/* The ends of all numbers stand for something else, such as an open range. */
static void
move(int64_t *x, int64_t by)
{
    if (*x > INT64_MIN / 2 && *x < INT64_MAX / 2)
        *x += by;
}

static void
change_node(struct fuzz_rng *rng, struct fuzz_node *node)
{
    int64_t by = (int64_t)fuzz_below(rng, 9) - 4, *list;
    const char *name = fuzz_op_at(node->op)->to.name;
    size_t k;

    if (fuzz_one_in(rng, 2)) {
        /* both, where they are the ends of a range */
        node->f[0] += 0.25 * (double)by;
        node->f[1] += 0.25 * (double)by;
        return;
    }
    for (k = 0; k < ARRAY_LEN(offsets) && name; k++) {
        uint32_t each = offsets[k].of_list;

        if (strcmp(name, offsets[k].name) != 0)
            continue;
        if (!each) {
            move(&node->i[offsets[k].i], by);
            return;
        }
        /* begin and end, behind the kind of an index */
        list = node->list + each * fuzz_below(rng, node->n_list / each);
        move(&list[each / 4], by);
        move(&list[each / 4 + 1], strcmp(name, "bell_pad") == 0 ? -by : by);
        return;
    }
}

/* Changes what can be without changing shapes. */
static void
change_numbers(struct bell_context *ctx, uint64_t seed, uint64_t hash,
               struct fuzz_program *prog)
{
    struct fuzz_rng rng = fuzz_rng(seed);
    uint32_t i, tries;

    for (i = 0; i < prog->n_nodes; i++) {
        for (tries = 0; tries < 8 && prog->nodes[i].op != 0; tries++) {
            struct fuzz_node was = prog->nodes[i];

            change_node(&rng, &prog->nodes[i]);
            if (!keeps_shapes(ctx, prog, hash))
                prog->nodes[i] = was;
        }
    }
}

/* ---- comparing ---- */

/* A float, or an integer of 64 bits. */
static double
to_double(enum uop_dtype dtype, const double *x)
{
    int64_t n;

    memcpy(&n, x, sizeof(n));
    return uop_dtype_infos[dtype].is_float ? *x : (double)n;
}

bool
fuzz_find_difference(enum uop_dtype dtype, size_t n, const void *a,
                     const void *b, size_t *out_at, double *out_a,
                     double *out_b)
{
    size_t each = uop_dtype_infos[dtype].size_bytes, k;
    const uint8_t *x = a, *y = b;
    double vx, vy;

    if (memcmp(x, y, n * each) == 0)
        return false;
    for (k = 0; k < n; k++, x += each, y += each) {
        struct ref_array one = {.dtype = dtype, .n = 1};

        if (memcmp(x, y, each) == 0)
            continue;
        *out_at = k;
        one.data = &vx;
        ref_from_bytes(&one, x);
        one.data = &vy;
        ref_from_bytes(&one, y);
        *out_a = to_double(dtype, &vx);
        *out_b = to_double(dtype, &vy);
        if (!uop_dtype_infos[dtype].is_float)
            return true;
        if (!isnan(vx) || !isnan(vy))
            return true;
    }
    return false;
}

static void
compare_varied(const struct fuzz_result *got, const struct fuzz_result *fresh,
               unsigned variant, struct fuzz_verdict *out)
{
    double x, y;
    uint32_t i;
    size_t at;

    for (i = 0; i < got->n && !out->failed; i++) {
        out->n_compared += got->n_elems[i];
        if (!fuzz_find_difference(got->dtype[i], got->n_elems[i], got->bytes[i],
                                  fresh->bytes[i], &at, &x, &y))
            continue;
        out->failed = true;
        out->root = i;
        snprintf(out->what, sizeof(out->what),
                 "root %u, element %zu: run %u gives %.17g, alone %.17g", i, at,
                 variant, x, y);
    }
}

static BELL_MUST_CHECK bell_status
run_variant(struct bell_context *ctx, const struct fuzz_program *prog,
            unsigned variant, struct fuzz_verdict *out)
{
    struct fuzz_result got = {0}, want = {0};
    struct bell_context *fresh = NULL;
    bell_status status = fuzz_fresh_context(&fresh, bell_context_device(ctx));

    if (status == BELL_OK) {
        if (fuzz_run_once(fresh, prog, &want) != BELL_OK)
            fuzz_note_failure(out, prog, "a fresh context");
        else if (fuzz_run_once(ctx, prog, &got) != BELL_OK)
            fuzz_note_failure(out, prog, "a context that has seen the others");
        else
            compare_varied(&got, &want, variant, out);
    }
    fuzz_result_fini(&got);
    fuzz_result_fini(&want);
    bell_context_destroy(fresh);
    return status;
}

/* ---- other sizes ---- */

/* Axes of leaves that are `size` long become longer, and with `calls` so do
 * such numbers of calls. */
static void
grow(struct fuzz_program *prog, int64_t size, int64_t by, bool calls)
{
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        struct fuzz_node *node = &prog->nodes[i];

        for (k = 0; k < node->n_list && (calls || node->op == 0); k++)
            node->list[k] += node->list[k] == size ? by : 0;
    }
}

/* A size of some leaf that is more than one; 0: there is none. */
static int64_t
pick_size(const struct fuzz_program *prog)
{
    struct fuzz_rng rng = fuzz_rng(hash_add(prog->seed, N_VARIANTS));
    int64_t found = 0;
    uint32_t i, k, n = 0;

    for (i = 0; i < prog->n_nodes; i++) {
        const struct fuzz_node *node = &prog->nodes[i];

        for (k = 0; k < node->n_list && node->op == 0; k++) {
            if (node->list[k] > 1 && fuzz_one_in(&rng, ++n))
                found = node->list[k];
        }
    }
    return found;
}

static bool
can_build(struct bell_context *ctx, const struct fuzz_program *prog)
{
    struct shapes s = {0};

    if (with_nodes(ctx, prog, hash_shapes, &s) == BELL_OK)
        return true;
    bell_error_clear();
    return false;
}

static BELL_MUST_CHECK bell_status
run_sizes(struct bell_context *ctx, const struct fuzz_program *prog,
          struct fuzz_program *changed, struct fuzz_verdict *out)
{
    int64_t size = pick_size(prog), by;
    unsigned run = N_VARIANTS;
    bool calls;

    for (by = 1; size && by <= N_SIZES && !out->failed; by++) {
        for (calls = false;; calls = true) {
            *changed = *prog;
            grow(changed, size, by, calls);
            if (can_build(ctx, changed)) {
                BELL_TRY(run_variant(ctx, changed, ++run, out));
                break;
            }
            if (calls)
                break;
        }
    }
    return BELL_OK;
}

bell_status
fuzz_check_vary(struct bell_context *ctx, const struct fuzz_program *prog,
                struct fuzz_verdict *out)
{
    struct fuzz_program *changed = host_alloc(sizeof(*changed));
    struct shapes shapes = {0};
    bell_status status = BELL_OK;
    unsigned v;

    memset(out, 0, sizeof(*out));
    if (!changed)
        return bell_fail(BELL_E_NO_MEMORY, "a fuzz program: out of memory");
    out->invalid = with_nodes(ctx, prog, hash_shapes, &shapes) != BELL_OK;
    for (v = 0;
         v <= N_VARIANTS && !out->invalid && !out->failed && status == BELL_OK;
         v++) {
        *changed = *prog;
        if (v % N_VARIANTS)
            change_numbers(ctx, hash_add(prog->seed, v), shapes.hash, changed);
        status = run_variant(ctx, changed, v, out);
    }
    if (status == BELL_OK && !out->invalid && !out->failed)
        status = run_sizes(ctx, prog, changed, out);
    host_free(changed);
    return status;
}
