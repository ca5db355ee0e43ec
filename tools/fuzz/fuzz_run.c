/* Building a program and comparing the device with the reference. */
#include "tools/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doorbell/jit.h"
#include "doorbell/mesh.h"

#define N_NOISY 3 /* evaluations with noise, always */
/* More of them before a mismatch counts. Nine in ten sums whose products
 * overflow in both signs are NaN, as without noise: a device that fuses them
 * has an infinity. */
#define N_NOISY_AGAIN 256
#define N_AT_ONCE     8
#define N_REPLAYS     3 /* of a program that is captured */
#define LOST                                                                   \
    16 /* times what it is that noise changes an element: it is noise */

/* ---- building --------------------------------------------------------- */

struct bell_tensor *
fuzz_build_leaf(struct bell_context *ctx, const struct fuzz_program *prog,
                uint32_t node, const int64_t *shape)
{
    const struct fuzz_node *leaf = &prog->nodes[node];
    struct ref_array array = {.dtype = leaf->dtype, .n = 1};
    struct bell_tensor *t = NULL;
    void *bytes;
    uint32_t i;

    for (i = 0; i < leaf->n_list; i++)
        array.n *= (size_t)leaf->list[i];
    array.data = host_alloc((array.n + 1) * 8);
    bytes = host_alloc((array.n + 1) * 8);
    if (array.data && bytes) {
        fuzz_fill(prog, node, &array);
        ref_to_bytes(&array, bytes);
        t = bell_from_data(ctx, shape, leaf->n_list,
                           (enum bell_dtype)leaf->dtype, bytes);
    }
    host_free(array.data);
    host_free(bytes);
    return t;
}

/* t in the layout that the node asks for. */
static struct bell_tensor *
place_node(const struct fuzz_node *node, struct bell_tensor *t)
{
    uint32_t rank = bell_is_error(t) ? 0 : bell_ndim(t);

    if (node->split[0] && rank)
        t = bell_shard(t, "data", (node->split[0] - 1) % rank);
    if (node->split[1] && rank)
        t = bell_shard(t, "model", (node->split[1] - 1) % rank);
    return t;
}

bell_status
fuzz_build(struct bell_context *ctx, const struct fuzz_program *prog,
           struct bell_tensor **out)
{
    bool refused = false;
    uint32_t i;

    for (i = 0; i < prog->n_nodes; i++) {
        out[i] = prog->nodes[i].op != 0
                     ? fuzz_call(ctx, &prog->nodes[i], out)
                     : fuzz_build_leaf(ctx, prog, i, prog->nodes[i].list);
        if (!out[i])
            return bell_fail(BELL_E_NO_MEMORY, "leaf t%u: out of memory", i);
        out[i] = place_node(&prog->nodes[i], out[i]);
        refused |= bell_is_error(out[i]);
    }
    BELL_TRY(bell_context_status(ctx));
    /* a call by name has told of its failure already */
    return refused ? bell_fail(BELL_BAD_VALUE, "a call is refused") : BELL_OK;
}

bell_status
fuzz_append_grads(const struct fuzz_program *prog,
                  struct bell_tensor *const *nodes, struct bell_tensor **roots,
                  uint32_t *n)
{
    struct bell_tensor *targets[4], *loss;
    uint32_t count = 0, i;

    if (prog->n_grads == 0 || !fuzz_is_float(roots[0]))
        return BELL_OK;
    for (i = 0; i < prog->n_nodes && count < prog->n_grads && count < 4; i++) {
        if (prog->nodes[i].op == 0 && fuzz_is_float(nodes[i]))
            targets[count++] = nodes[i];
    }
    if (count == 0)
        return BELL_OK;
    loss = prog->is_squared ? bell_square(roots[0]) : roots[0];
    loss = bell_sum(loss, BELL_NO_DIMS, false);
    BELL_TRY(bell_gradient(loss, targets, count, roots + *n));
    *n += count;
    return BELL_OK;
}

/* ---- one run ---------------------------------------------------------- */

void
fuzz_result_fini(struct fuzz_result *r)
{
    uint32_t i;

    for (i = 0; i < r->n; i++) {
        host_free(r->bytes[i]);
        host_free(r->undecided[i]);
    }
    memset(r, 0, sizeof(*r));
}

/* A size that is not a number: its word is 2^40 or more (dim.h). */
static bool
has_symbol(const struct bell_tensor *t)
{
    uint32_t i;

    for (i = 0; i < bell_ndim(t); i++) {
        if (bell_dims(t)[i].word >= (int64_t)1 << 40)
            return true;
    }
    return false;
}

bell_status
fuzz_read_roots(const struct fuzz_program *prog,
                struct bell_tensor *const *nodes, struct fuzz_result *out)
{
    struct bell_tensor *roots[FUZZ_MAX_OUT];
    uint32_t n = prog->n_roots, i;

    for (i = 0; i < n; i++)
        roots[i] = nodes[prog->roots[i]];
    BELL_TRY(fuzz_append_grads(prog, nodes, roots, &n));
    BELL_TRY(ref_reduces_floats(roots, n, &out->reduces_floats));
    for (i = 0; i < n; i++)
        out->is_sized |= has_symbol(roots[i]);
    BELL_TRY(bell_realize(roots, n));
    for (i = 0; i < n; i++) {
        out->dtype[i] = (enum uop_dtype)bell_dtype_of(roots[i]);
        out->size_bytes[i] = (size_t)bell_nbytes(roots[i]);
        out->n_elems[i] = (size_t)bell_numel(roots[i]);
        out->bytes[i] = host_alloc(out->size_bytes[i] + 1);
        if (!out->bytes[i])
            return bell_fail(BELL_E_NO_MEMORY, "root %u: out of memory", i);
        out->n++;
        BELL_TRY(bell_read(roots[i], out->bytes[i], out->size_bytes[i]));
    }
    return BELL_OK;
}

bell_status
fuzz_run_once(struct bell_context *ctx, const struct fuzz_program *prog,
              struct fuzz_result *out)
{
    struct bell_tensor *nodes[FUZZ_MAX_NODES];
    bell_status status, end;

    BELL_TRY(bell_scope_begin(ctx));
    status = fuzz_build(ctx, prog, nodes);
    if (status == BELL_OK)
        status = fuzz_read_roots(prog, nodes, out);
    end = bell_scope_end(ctx);
    return status == BELL_OK ? end : status;
}

/* ---- bounds ----------------------------------------------------------- */

#define UNSTABLE 1u /* noise changes what cannot be compared */
#define DIFFERS  2u /* the device's is beyond the first, narrow bounds */

/* What may come out of one root, element by element. */
struct bounds {
    struct ref_array want; /* without noise */
    double *low, *high;    /* of floats */
    uint8_t *unstable;     /* UNSTABLE, DIFFERS */
};

struct fuzz_job {
    struct bell_context *ctx;
    const struct fuzz_program *prog;
    struct fuzz_verdict *verdict;
    struct bell_tensor *nodes[FUZZ_MAX_NODES], *roots[FUZZ_MAX_OUT];
    struct bounds bounds[FUZZ_MAX_OUT];
    uint32_t n_roots;
    struct fuzz_replay *replay; /* the program is captured; or NULL */
};

/* Roots and gradients of the nodes. */
static BELL_MUST_CHECK bell_status
find_roots(struct fuzz_job *job)
{
    uint32_t i;

    job->n_roots = job->prog->n_roots;
    for (i = 0; i < job->n_roots; i++)
        job->roots[i] = job->nodes[job->prog->roots[i]];
    return fuzz_append_grads(job->prog, job->nodes, job->roots, &job->n_roots);
}

static BELL_MUST_CHECK bell_status
build_job(struct fuzz_job *job)
{
    BELL_TRY(fuzz_build(job->ctx, job->prog, job->nodes));
    return find_roots(job);
}

static void
fini_bounds(struct fuzz_job *job)
{
    uint32_t i;

    for (i = 0; i < job->n_roots; i++) {
        ref_array_fini(&job->bounds[i].want);
        host_free(job->bounds[i].low);
        host_free(job->bounds[i].high);
        host_free(job->bounds[i].unstable);
    }
}

static bool
is_float_root(const struct bounds *b)
{
    return uop_dtype_infos[b->want.dtype].is_float;
}

static BELL_MUST_CHECK bell_status
init_bounds(struct fuzz_job *job)
{
    struct ref_array out[FUZZ_MAX_OUT];
    uint32_t i;
    size_t k;

    BELL_TRY(ref_eval_tensors(job->roots, job->n_roots, NULL, out));
    for (i = 0; i < job->n_roots; i++) {
        struct bounds *b = &job->bounds[i];
        b->want = out[i];
        b->unstable = host_calloc(out[i].n + 1, 1);
        b->low = host_alloc((out[i].n + 1) * sizeof(double));
        b->high = host_alloc((out[i].n + 1) * sizeof(double));
    }
    for (i = 0; i < job->n_roots; i++) {
        struct bounds *b = &job->bounds[i];
        if (!b->unstable || !b->low || !b->high)
            return bell_fail(BELL_E_NO_MEMORY,
                             "bounds of root %u: out of memory", i);
        for (k = 0; is_float_root(b) && k < b->want.n; k++)
            b->low[k] = b->high[k] = b->want.f[k];
    }
    return BELL_OK;
}

/* NaN is equal to NaN, an infinity to itself. */
static bool
same_class(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return (isinf(a) || isinf(b)) ? a == b : true;
}

/* Does noise of some units in the last place make anything of an element? A
 * tangent of a great number, which is as likely to be beyond all that was
 * seen. */
static bool
is_lost(const struct bounds *b, size_t k)
{
    double spread = b->high[k] - b->low[k];

    return spread > 1 && spread > LOST * fabs(b->want.f[k]);
}

static void
widen(struct bounds *b, const struct ref_array *noisy)
{
    size_t k;

    for (k = 0; k < b->want.n; k++) {
        if (!is_float_root(b)) {
            b->unstable[k] |= noisy->i[k] != b->want.i[k];
        } else if (!same_class(noisy->f[k], b->want.f[k])) {
            b->unstable[k] |= UNSTABLE;
        } else if (noisy->f[k] < b->low[k]) {
            b->low[k] = noisy->f[k];
        } else if (noisy->f[k] > b->high[k]) {
            b->high[k] = noisy->f[k];
        }
        if (is_float_root(b))
            b->unstable[k] |= is_lost(b, k);
    }
}

static BELL_MUST_CHECK bell_status
widen_all(struct fuzz_job *job, uint64_t first_seed, unsigned n,
          double max_ulps)
{
    struct ref_array noisy[FUZZ_MAX_OUT];
    unsigned r;
    uint32_t i;

    for (r = 0; r < n; r++) {
        struct ref_noise noise = {.seed = first_seed + r,
                                  .ulps = 1 + (max_ulps - 1) * r / n,
                                  .regroups =
                                      job->prog->was_sized && max_ulps > 1};
        BELL_TRY(ref_eval_tensors(job->roots, job->n_roots, &noise, noisy));
        for (i = 0; i < job->n_roots; i++) {
            widen(&job->bounds[i], &noisy[i]);
            ref_array_fini(&noisy[i]);
        }
    }
    return BELL_OK;
}

/* ---- comparing -------------------------------------------------------- */

static double
unit_in_last_place(enum uop_dtype dtype, double value)
{
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];

    return ldexp(fmax(fabs(value), ldexp(1, f->min_exp)), -f->fraction_bits);
}

/* What a device flushes, noise has shown. */
static double
tolerance(const struct bounds *b, size_t k)
{
    return 4 * (b->high[k] - b->low[k]) +
           4 * unit_in_last_place(b->want.dtype, b->want.f[k]);
}

static bool
agrees(const struct bounds *b, const struct ref_array *got, size_t k)
{
    if (b->unstable[k] & UNSTABLE)
        return true;
    if (!is_float_root(b))
        return got->i[k] == b->want.i[k];
    if (!same_class(got->f[k], b->want.f[k]))
        return false;
    return !isfinite(b->want.f[k]) ||
           fabs(got->f[k] - b->want.f[k]) <= tolerance(b, k);
}

static void
describe_fuzz(struct fuzz_job *job, uint32_t root, const struct ref_array *got,
              size_t k)
{
    struct fuzz_verdict *v = job->verdict;
    const struct bounds *b = &job->bounds[root];
    const struct bell_tensor *t = job->roots[root];
    char place[128] = "";
    size_t left = k, n = 0;
    uint32_t i;

    for (i = bell_ndim(t); i-- > 0;) {
        char more[128];
        snprintf(more, sizeof(more), "%zu%s%.100s",
                 left % (size_t)bell_shape(t)[i], *place ? ", " : "", place);
        memcpy(place, more, sizeof(place));
        left /= (size_t)bell_shape(t)[i];
    }
    v->failed = true;
    v->root = root;
    n = (size_t)snprintf(v->what, sizeof(v->what), "root %u, %s", root,
                         uop_dtype_infos[got->dtype].name);
    if (root >= job->prog->n_roots)
        n += (size_t)snprintf(v->what + n, sizeof(v->what) - n, " gradient");
    n += (size_t)snprintf(v->what + n, sizeof(v->what) - n, ", [%s]: ", place);
    if (is_float_root(b))
        snprintf(v->what + n, sizeof(v->what) - n,
                 "device %.9g, reference %.9g, tolerance %.3g", got->f[k],
                 b->want.f[k], tolerance(b, k));
    else
        snprintf(v->what + n, sizeof(v->what) - n,
                 "device %lld, reference %lld", (long long)got->i[k],
                 (long long)b->want.i[k]);
}

/* Reads a root's elements as the device computed them. */
static BELL_MUST_CHECK bell_status
read_root(struct bell_tensor *t, const struct ref_array *like,
          struct ref_array *got)
{
    size_t size = (size_t)bell_nbytes(t);
    void *bytes = host_alloc(size + 1);
    bell_status status = BELL_E_NO_MEMORY;

    *got = *like;
    got->data = host_alloc((like->n + 1) * 8);
    if (bytes && got->data) {
        status = bell_read(t, bytes, size);
        if (status == BELL_OK)
            ref_from_bytes(got, bytes);
    }
    host_free(bytes);
    if (status != BELL_OK)
        ref_array_fini(got);
    return status;
}

/* The first element of any root that disagrees; false if there is none. */
static bool
find_mismatch(struct fuzz_job *job, const struct ref_array *got)
{
    uint32_t i;
    size_t k;

    for (i = 0; i < job->n_roots; i++) {
        for (k = 0; k < got[i].n; k++) {
            if (!agrees(&job->bounds[i], &got[i], k)) {
                describe_fuzz(job, i, &got[i], k);
                return true;
            }
        }
    }
    return false;
}

static void
count_elements(struct fuzz_job *job)
{
    uint32_t i;
    size_t k;

    for (i = 0; i < job->n_roots; i++) {
        for (k = 0; k < job->bounds[i].want.n; k++)
            job->verdict->n_unstable += job->bounds[i].unstable[k] & UNSTABLE;
        job->verdict->n_compared += job->bounds[i].want.n;
    }
}

static void
note_differing(struct fuzz_job *job, const struct ref_array *got)
{
    uint32_t i;
    size_t k;

    for (i = 0; i < job->n_roots; i++) {
        for (k = 0; k < got[i].n; k++) {
            if (!agrees(&job->bounds[i], &got[i], k))
                job->bounds[i].unstable[k] |= DIFFERS;
        }
    }
}

/* Elements that wide bounds alone excuse. Where narrow ones sufficed, it is of
 * no matter that wide ones make them unstable. */
static uint64_t
count_excused(const struct fuzz_job *job)
{
    uint64_t n = 0;
    uint32_t i;
    size_t k;

    for (i = 0; i < job->n_roots; i++) {
        for (k = 0; k < job->bounds[i].want.n; k++)
            n += job->bounds[i].unstable[k] == (UNSTABLE | DIFFERS);
    }
    return n;
}

bell_status
fuzz_ask_f64(struct bell_context *ctx, bool *out_lacks_f64)
{
    struct bell_tensor *sum;
    double one = 1;
    bell_status status;

    sum = bell_from_data(ctx, BELL_DIMS(1), BELL_FLOAT64, &one);
    sum = bell_add(sum, sum);
    status = bell_realize(&sum, 1);
    if (status != BELL_OK && status != BELL_E_UNSUPPORTED)
        return status;
    *out_lacks_f64 = status != BELL_OK;
    return BELL_OK;
}

/* Some functions compute in float64 what is none. */
void
fuzz_note_failure(struct fuzz_verdict *out, const struct fuzz_program *prog,
                  const char *where)
{
    bell_status status = bell_error_last()->status;

    out->refused = prog->lacks_f64 && status == BELL_E_UNSUPPORTED;
    out->invalid = out->refused;
    out->failed = !out->refused;
    out->lost = status == BELL_E_DEVICE_LOST || status == BELL_E_TIMEOUT;
    snprintf(out->what, sizeof(out->what), "%s: %.350s", where,
             bell_error_last()->message);
}

/* More noise, as long as something disagrees: an evaluation of large programs
 * takes a second. */
static BELL_MUST_CHECK bell_status
compare_results(struct fuzz_job *job, const struct ref_array *got)
{
    uint32_t done;

    count_elements(job);
    if (!find_mismatch(job, got))
        return BELL_OK;
    note_differing(job, got);
    /* Realized tensors are memory now; the graph is built again. */
    BELL_TRY(build_job(job));
    for (done = 0; job->verdict->failed && done < N_NOISY_AGAIN;
         done += N_AT_ONCE) {
        job->verdict->failed = false;
        BELL_TRY(widen_all(job, 1000 + done, N_AT_ONCE, 4));
        find_mismatch(job, got);
    }
    job->verdict->n_unstable += count_excused(job);
    return BELL_OK;
}

/* In place of one root, a part of zeros (*whole, or NULL: made here) that it is
 * assigned to: what computes it stores it there. */
static void
assign_root(struct fuzz_job *job, struct bell_tensor **whole)
{
    uint32_t at = job->prog->n_nodes % job->n_roots, i, n;
    struct bell_tensor *root = job->roots[at];
    int64_t shape[BELL_MAX_RANK], begin[BELL_MAX_RANK],
        bounds[2 * BELL_MAX_RANK];

    n = bell_ndim(root);
    for (i = 0; i < n; i++) {
        begin[i] = (job->prog->n_nodes + i) % 3;
        bounds[2 * i] = begin[i];
        bounds[2 * i + 1] = begin[i] + bell_shape(root)[i];
        shape[i] = bounds[2 * i + 1] + i % 2;
    }
    if (!*whole)
        *whole = bell_zeros(job->ctx, shape, n, bell_dtype_of(root));
    job->roots[at] =
        bell_shrink(bell_assign_slice(*whole, begin, n, root), bounds, 2 * n);
}

/* ---- a program that is captured --------------------------------------- */

struct fuzz_replay {
    struct bell_jit *jit;
    struct fuzz_job inner;     /* of the function */
    struct bell_tensor *whole; /* what it assigns a root to */
};

/* Random numbers start again with each call; a jit's go on. */
static bool
is_input(const struct fuzz_node *node)
{
    return node->op == 0 || fuzz_op_at(node->op)->seeded;
}

static uint32_t
list_inputs(const struct fuzz_program *prog, struct bell_tensor *const *nodes,
            struct bell_tensor **in)
{
    uint32_t n = 0, i;

    for (i = 0; i < prog->n_nodes; i++) {
        if (is_input(&prog->nodes[i]))
            in[n++] = nodes ? nodes[i] : NULL;
    }
    return n;
}

static bell_status
call_program(struct bell_context *ctx, void *user,
             struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct fuzz_replay *replay = user;
    struct fuzz_job *job = &replay->inner;
    uint32_t i, n = 0;

    for (i = 0; i < job->prog->n_nodes; i++)
        job->nodes[i] = is_input(&job->prog->nodes[i])
                            ? in[n++]
                            : fuzz_call(ctx, &job->prog->nodes[i], job->nodes);
    BELL_TRY(find_roots(job));
    assign_root(job, &replay->whole);
    memcpy(out, job->roots, job->n_roots * sizeof(struct bell_tensor *));
    return BELL_OK;
}

/* The first time, makes what the others use. */
static BELL_MUST_CHECK bell_status
replay_roots(struct fuzz_job *job)
{
    struct fuzz_replay *replay = job->replay;
    struct bell_tensor *in[FUZZ_MAX_NODES], *kept[FUZZ_MAX_OUT];
    struct bell_jit_desc desc = {
        .struct_size = sizeof(desc),
        .fn = call_program,
        .user = replay,
        .n_in = list_inputs(job->prog, job->nodes, in),
        .n_out = job->n_roots,
    };

    if (!replay->jit) {
        replay->inner.ctx = job->ctx;
        memcpy(kept, job->roots, sizeof(kept));
        assign_root(job, &replay->whole);
        memcpy(job->roots, kept, sizeof(kept));
        BELL_TRY(bell_realize1(replay->whole));
        bell_keep(replay->whole);
        BELL_TRY(bell_jit_create(job->ctx, &desc, &replay->jit));
    }
    return bell_jit_call(replay->jit, in, job->roots);
}

static BELL_MUST_CHECK bell_status
run_fuzz_job(struct fuzz_job *job)
{
    struct ref_array got[FUZZ_MAX_OUT];
    bell_status status = BELL_OK;
    uint32_t i, n;

    if (build_job(job) != BELL_OK) {
        job->verdict->invalid = true;
        return BELL_OK;
    }
    BELL_TRY(init_bounds(job));
    BELL_TRY(widen_all(job, 1, N_NOISY, 1));
    if (job->replay) {
        if (replay_roots(job) != BELL_OK) {
            fuzz_note_failure(job->verdict, job->prog, "bell_jit_call");
            return BELL_OK;
        }
    } else {
        struct bell_tensor *whole = NULL;
        assign_root(job, &whole);
        if (bell_realize(job->roots, job->n_roots) != BELL_OK) {
            fuzz_note_failure(job->verdict, job->prog, "bell_realize");
            return BELL_OK;
        }
    }
    for (n = 0; n < job->n_roots && status == BELL_OK; n++) {
        status = read_root(job->roots[n], &job->bounds[n].want, &got[n]);
        if (status != BELL_OK)
            break;
    }
    if (status != BELL_OK) {
        fuzz_note_failure(job->verdict, job->prog, "bell_read");
        status = BELL_OK;
    } else {
        status = compare_results(job, got);
    }
    for (i = 0; i < n; i++)
        ref_array_fini(&got[i]);
    return status;
}

static BELL_MUST_CHECK bell_status
note_undecided(const struct fuzz_job *job, struct fuzz_result *result)
{
    uint32_t i;
    size_t k;

    for (i = 0; i < job->n_roots; i++) {
        const struct bounds *b = &job->bounds[i];

        result->undecided[i] = host_alloc(b->want.n + 1);
        if (!result->undecided[i])
            return bell_fail(BELL_E_NO_MEMORY, "root %u: out of memory", i);
        for (k = 0; k < b->want.n; k++)
            result->undecided[i][k] = b->unstable[k] & UNSTABLE;
    }
    return BELL_OK;
}

/* `result` in place of a run. */
static BELL_MUST_CHECK bell_status
judge_job(struct fuzz_job *job, struct fuzz_result *result)
{
    struct ref_array got[FUZZ_MAX_OUT];
    bell_status status = BELL_OK;
    uint32_t i, n;

    BELL_TRY(build_job(job));
    BELL_TRY(init_bounds(job));
    BELL_TRY(widen_all(job, 1, N_NOISY, 1));
    for (n = 0; n < job->n_roots && status == BELL_OK; n++) {
        got[n] = job->bounds[n].want;
        got[n].data = NULL;
        if (n >= result->n || result->n_elems[n] != got[n].n ||
            result->dtype[n] != got[n].dtype) {
            job->verdict->failed = true;
            job->verdict->root = n;
            snprintf(job->verdict->what, sizeof(job->verdict->what),
                     "root %u: %zu elements of %s, reference %zu of %s", n,
                     n < result->n ? result->n_elems[n] : 0,
                     n < result->n ? uop_dtype_infos[result->dtype[n]].name
                                   : "nothing",
                     got[n].n, uop_dtype_infos[got[n].dtype].name);
            break;
        }
        got[n].data = host_alloc((got[n].n + 1) * 8);
        if (!got[n].data)
            status = bell_fail(BELL_E_NO_MEMORY, "root %u: out of memory", n);
        else
            ref_from_bytes(&got[n], result->bytes[n]);
    }
    if (status == BELL_OK && !job->verdict->failed)
        status = compare_results(job, got);
    if (status == BELL_OK && !job->verdict->failed)
        status = note_undecided(job, result);
    for (i = 0; i < n; i++)
        ref_array_fini(&got[i]);
    return status;
}

bell_status
fuzz_judge(struct bell_context *ctx, const struct fuzz_program *prog,
           struct fuzz_result *result, struct fuzz_verdict *out)
{
    struct fuzz_job *job = host_calloc(1, sizeof(*job));
    bell_status status, end;

    if (!job)
        return bell_fail(BELL_E_NO_MEMORY, "a fuzz program: out of memory");
    job->ctx = ctx;
    job->prog = prog;
    job->verdict = out;
    status = bell_scope_begin(ctx);
    if (status == BELL_OK) {
        status = judge_job(job, result);
        fini_bounds(job);
        end = bell_scope_end(ctx);
        if (status == BELL_OK)
            status = end;
    }
    host_free(job);
    return status;
}

static BELL_MUST_CHECK bell_status
run_in_scope(struct bell_context *ctx, const struct fuzz_program *prog,
             struct fuzz_replay *replay, struct fuzz_verdict *out)
{
    struct fuzz_job *job = host_calloc(1, sizeof(*job));
    bell_status status, end;

    if (!job)
        return bell_fail(BELL_E_NO_MEMORY, "a fuzz program: out of memory");
    job->ctx = ctx;
    job->prog = prog;
    job->verdict = out;
    job->replay = replay;
    status = bell_scope_begin(ctx);
    if (status == BELL_OK) {
        status = run_fuzz_job(job);
        fini_bounds(job);
        end = bell_scope_end(ctx);
        if (status == BELL_OK && !out->failed && !out->invalid)
            status = end;
    }
    host_free(job);
    return status;
}

bell_status
fuzz_run(struct bell_context *ctx, const struct fuzz_program *prog,
         struct fuzz_verdict *out)
{
    memset(out, 0, sizeof(*out));
    return run_in_scope(ctx, prog, NULL, out);
}

/* Gradients do not go through what is an input. */
static void
settle_program(struct fuzz_program *prog)
{
    uint32_t i;

    for (i = 0; i < prog->n_nodes; i++) {
        if (prog->nodes[i].op != 0 && is_input(&prog->nodes[i]))
            prog->n_grads = 0;
    }
}

bell_status
fuzz_check_jit(struct bell_context *ctx, const struct fuzz_program *prog,
               struct fuzz_verdict *out)
{
    struct fuzz_program *changed = host_alloc(sizeof(*changed));
    struct fuzz_replay *replay = host_calloc(1, sizeof(*replay));
    bell_status status = BELL_OK, end;
    unsigned v;

    memset(out, 0, sizeof(*out));
    if (!changed || !replay) {
        host_free(changed);
        host_free(replay);
        return bell_fail(BELL_E_NO_MEMORY, "a fuzz program: out of memory");
    }
    *changed = *prog;
    settle_program(changed);
    replay->inner.prog = changed;
    status = bell_scope_begin(ctx);
    for (v = 0;
         v < N_REPLAYS && status == BELL_OK && !out->invalid && !out->failed;
         v++) {
        changed->seed = v ? hash_add(prog->seed, v) : prog->seed;
        status = run_in_scope(ctx, changed, replay, out);
    }
    bell_jit_destroy(replay->jit);
    end = bell_scope_end(ctx);
    if (status == BELL_OK && !out->failed && !out->invalid)
        status = end;
    if (status == BELL_OK && !out->failed && !out->invalid) {
        *changed = *prog;
        settle_program(changed);
        status = fuzz_check_inputs(ctx, changed, out);
    }
    host_free(changed);
    host_free(replay);
    return status;
}
