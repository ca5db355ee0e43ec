/* Bundles whose kernels are searched for (docs/how-to/tuning.md).
 *
 * A bundle that is tunable has its kernels' IR beside their machine code, which
 * a candidate has to be faster than and to agree with. The IR is as hostile as
 * the rest of the file: it is parsed and checked, and has to fit what the
 * bundle's commands give the kernel.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/regular_file.h"
#include "tensor/runtime/bundle.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/search.h"
#include "tensor/runtime/tune.h"
#include "tensor/core/tensor_internal.h"

struct tuning {
    struct tensor_runtime *rt;
    struct bundle_file file;
    const struct bundle_target *target;
    struct rt_bundle_new *list; /* by kernel of the file */
    struct rt_job *jobs;        /* by kernel of the target: what was found */
    struct rt_bench_args *with;
};

/* ---- what a kernel is launched with ---- */

static bool
meets(const struct bundle_arg *a, const struct bundle_arg *b)
{
    return a->place == b->place && a->value == b->value &&
           a->offset < b->offset + b->size_bytes &&
           b->offset < a->offset + a->size_bytes;
}

/* Why a launch cannot be tried elsewhere; NULL: it can. */
static const char *
why_not_launch(const struct bundle_kernel *k, const struct bundle_arg *args,
               uint32_t n_outs)
{
    uint32_t i, j;

    for (i = 0; i < k->n_bufs; i++) {
        bool is_out = i < n_outs;
        if ((args[i].access & BUNDLE_WRITE) != (is_out ? BUNDLE_WRITE : 0))
            return "what it writes does not come first";
        for (j = 0; is_out && j < k->n_bufs; j++) {
            if (j != i && meets(&args[i], &args[j]))
                return "it writes where it reads";
        }
    }
    return NULL;
}

/* A word that a launch can have: the greatest, where it varies. */
static uint64_t
word_of(const struct bundle_file *f, const struct bundle_arg *a)
{
    return a->place != BUNDLE_TIMES
               ? a->offset
               : a->offset + (uint64_t)(int64_t)a->times *
                                 f->values[a->value].shape[a->times > 0];
}

/* Looks at all launches of the kernel: sizes are the largest, words and the
 * grid those of the first. */
static const char *
find_launches(struct tuning *t, uint32_t number, uint32_t grid[3])
{
    const struct bundle_file *f = &t->file;
    const struct bundle_kernel *k =
        &f->kernels[t->target->first_kernel + number];
    struct rt_bench_args *with = t->with;
    uint64_t bytes[SCHED_MAX_PARAMS] = {0};
    bool is_first = true;
    uint32_t c, i;

    if (k->n_bufs > SCHED_MAX_PARAMS || k->n_vals > HCQ_ARGS_MAX ||
        k->n_bufs + k->n_vals > HCQ_ARGS_MAX)
        return "it has too many arguments";
    for (c = 0; c < t->target->n_commands; c++) {
        const struct bundle_command *command =
            &f->commands[t->target->first_command + c];
        const struct bundle_arg *args = &f->args[command->first_arg];
        const char *why;
        if (command->op != BUNDLE_EXEC || command->kernel != number)
            continue;
        if (is_first) {
            memcpy(grid, command->grid, sizeof(command->grid));
            with->n_bufs = k->n_bufs;
            with->n_words = k->n_vals;
            for (with->n_outs = 0; with->n_outs < k->n_bufs &&
                                   args[with->n_outs].access & BUNDLE_WRITE;)
                with->n_outs++;
            for (i = 0; i < k->n_vals; i++)
                with->words[i] = word_of(f, &args[k->n_bufs + i]);
        }
        is_first = false;
        if (memcmp(grid, command->grid, sizeof(command->grid)) != 0)
            return "its launches have several sizes";
        why = why_not_launch(k, args, with->n_outs);
        if (why)
            return why;
        for (i = 0; i < k->n_bufs; i++)
            bytes[i] =
                args[i].size_bytes > bytes[i] ? args[i].size_bytes : bytes[i];
    }
    if (is_first)
        return "nothing launches it";
    for (i = 0; i < k->n_bufs; i++)
        with->bufs[i].n_elems = bytes[i]; /* of one byte, so far */
    return NULL;
}

/* Do the IR's parameters fit? Their dtypes become those of the buffers. */
static bool
fits(const struct uop *const *list, size_t n, struct rt_bench_args *with)
{
    bool is_seen[SCHED_MAX_PARAMS] = {false};
    size_t i;

    for (i = 0; i < n; i++) {
        const struct uop *u = list[i];
        uint32_t size_bytes = uop_dtype_infos[u->dtype].size_bytes;
        int64_t slot = u->arg.i;
        if (u->op == UOP_VAR &&
            (slot < with->n_bufs || slot >= with->n_bufs + with->n_words))
            return false;
        if (u->op != UOP_PARAM)
            continue;
        if (slot < 0 || slot >= with->n_bufs || is_seen[slot] || !size_bytes ||
            with->bufs[slot].n_elems < size_bytes)
            return false;
        is_seen[slot] = true;
        with->bufs[slot].dtype = (enum uop_dtype)u->dtype;
        with->bufs[slot].n_elems /= size_bytes;
    }
    for (i = 0; i < with->n_bufs; i++) {
        if (!is_seen[i])
            return false;
    }
    return true;
}

static bell_status
fit_params(struct uop_graph *g, const struct uop *sink,
           struct rt_bench_args *with, const char **out_why_not)
{
    const struct uop **list;
    size_t n;

    BELL_TRY(uop_toposort(g, &sink, 1, &list, &n));
    *out_why_not = fits(list, n, with) ? NULL : "its IR has other arguments";
    host_free(list);
    return BELL_OK;
}

/* ---- one kernel ---- */

static void
describe_object(const struct bundle_file *f, const struct bundle_kernel *k,
                struct hcq_program_desc *out)
{
    *out = (struct hcq_program_desc){
        .struct_size = sizeof(*out),
        .name = f->names + k->name,
        .entry = f->names + k->name,
        .binary = f->objects + k->object_offset,
        .binary_size_bytes = k->object_bytes,
        .n_bufs = k->n_bufs,
        .n_vals = k->n_vals,
        .shared_bytes = k->shared_bytes,
    };
    memcpy(out->local, k->local, sizeof(out->local));
}

static bell_status
search_parsed(struct tuning *t, uint32_t number, const struct uop *sink,
              const uint32_t grid[3])
{
    const struct bundle_kernel *k =
        &t->file.kernels[t->target->first_kernel + number];
    struct lower_schedule schedule = {.n_actions = 0};
    struct tensor_tuned tuned = {.name = ""};
    struct rt_search_from from;
    struct rt_job *job = &t->jobs[number];
    struct rt_bundle_new *new = &t->list[t->target->first_kernel + number];

    describe_object(&t->file, k, &from.program);
    memcpy(from.grid, grid, sizeof(from.grid));
    BELL_TRY(rt_search_kernel(t->rt, sink, t->with, &from, &tuned, &schedule));
    if (!schedule.n_actions)
        return BELL_OK;
    *job = (struct rt_job){
        .sink = sink, .target = &t->rt->target, .told = &schedule};
    BELL_TRY(rt_compile_job(job));
    job->told = NULL;
    job->sink = NULL;
    new->binary = &job->binary;
    new->entry = job->name;
    memcpy(new->grid, job->facts.grid, sizeof(new->grid));
    return BELL_OK;
}

static void
tell_not(struct tuning *t, const struct bundle_kernel *k, const char *why)
{
    const struct tensor_tuned tuned = {.name = t->file.names + k->name,
                                       .why_not = why};

    if (t->rt->tune.tell)
        t->rt->tune.tell(t->rt->tune.user, &tuned);
}

static bell_status
tune_kernel(struct tuning *t, uint32_t number)
{
    const struct bundle_kernel *k =
        &t->file.kernels[t->target->first_kernel + number];
    const struct uop **roots = NULL;
    const char *why_not;
    struct uop_graph g;
    bell_status status;
    uint32_t grid[3];
    size_t n_roots;

    if (t->rt->tune.stop && *t->rt->tune.stop)
        return BELL_OK;
    memset(t->with, 0, sizeof(*t->with));
    why_not = k->ir ? find_launches(t, number, grid) : "it has no choice";
    if (why_not) {
        tell_not(t, k, why_not);
        return BELL_OK;
    }
    uop_graph_init(&g);
    status = uop_parse(&g, t->file.ir + k->ir, &roots, &n_roots);
    if (status == BELL_OK && n_roots != 1)
        status = bell_fail(BELL_E_IO, "its IR has %zu roots", n_roots);
    if (status == BELL_OK)
        status = lower_check(&g, roots[0]);
    if (status == BELL_E_INTERNAL || status == BELL_E_INVALID)
        status = bell_fail(BELL_E_IO, "its IR is not a kernel: %.150s",
                           bell_error_last()->message);
    if (status == BELL_OK)
        status = fit_params(&g, roots[0], t->with, &why_not);
    if (status == BELL_OK && why_not)
        tell_not(t, k, why_not);
    else if (status == BELL_OK)
        status = search_parsed(t, number, roots[0], grid);
    host_free(roots);
    uop_graph_fini(&g);
    if (status != BELL_OK)
        bell_error_prefix("bundle: kernel %u, '%.40s'", number,
                          t->file.names + k->name);
    return status;
}

/* ---- the bundle ---- */

static bell_status
tune_file(struct tuning *t, struct bell_context *ctx, const char *out_path,
          uint32_t *out_n_new)
{
    bell_status status = BELL_OK;
    uint32_t number, i;

    if (t->file.ir_bytes <= 1)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "bundle: it was saved without what a search needs "
                         "(is_tunable, doorbell eval --tunable)");
    BELL_TRY(bundle_choose_target(&t->file, &t->rt->info, &number));
    t->target = &t->file.targets[number];
    BELL_TRY(bell_context_set_math(ctx, t->target->math));
    t->list = host_calloc((size_t)t->file.n_kernels + 1, sizeof(*t->list));
    t->jobs = host_calloc((size_t)t->target->n_kernels + 1, sizeof(*t->jobs));
    t->with = host_calloc(1, sizeof(*t->with));
    if (!t->list || !t->jobs || !t->with)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    for (i = 0; status == BELL_OK && i < t->target->n_kernels; i++)
        status = tune_kernel(t, i);
    *out_n_new = 0;
    for (i = 0; i < t->file.n_kernels; i++)
        *out_n_new += t->list[i].binary != NULL;
    return status == BELL_OK ? rt_bundle_rewrite(&t->file, t->list, out_path)
                             : status;
}

bell_status
tensor_tune_bundle(struct bell_context *ctx, const char *path,
                   const char *out_path, uint32_t *out_n_new)
{
    struct tuning t = {.rt = ctx->runtime};
    bell_status status;
    size_t n_bytes;
    uint32_t i;
    void *map;

    BELL_TRY(regular_file_map(path, &map, &n_bytes));
    status = bundle_file_open(map, n_bytes, &t.file);
    if (status == BELL_OK)
        status = rt_wait(t.rt, t.rt->last_value);
    if (status == BELL_OK)
        status = tune_file(&t, ctx, out_path, out_n_new);
    for (i = 0; t.jobs && i < t.target->n_kernels; i++)
        rt_job_fini(&t.jobs[i]);
    host_free(t.list);
    host_free(t.jobs);
    host_free(t.with);
    munmap(map, n_bytes);
    return status;
}
