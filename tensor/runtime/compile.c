/* The kernel cache: scheduled kernels to loaded programs.
 *
 * Kernels that are asked for together are compiled by as many threads as the
 * process may use; each works in a graph of its own.
 */
#include "tensor/runtime/runtime.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "tensor/runtime/classes.h"
#include "tensor/runtime/ir.h"
#include "tensor/runtime/mesh_places.h"
#include "tensor/runtime/profile.h"
#include "tensor/runtime/search.h"
#include "tensor/core/tensor_internal.h"

/* Time for one operation or byte: on a processor, and by one thread of a GPU,
 * which may wait for memory each time. guess: 10 to 1000 times what is seen */
#define CPU_NS        20.0
#define GPU_THREAD_NS 500.0
/* Launches of less than this are within any limit. guess: */
#define LONG_NS 1e7

/* Jobs that threads take one by one. */
struct pool {
    struct rt_job *const *jobs;
    uint32_t n;
    _Atomic uint32_t next;
};

/* Who asks to see what cannot be shown (a program that prints machine code is
 * not there) is told so: a tool by an error, a person by a line. */
static bell_status
log_source(const struct lower_program *program, const struct rt_target *target)
{
    const struct rt_compiler *compiler = target->compiler;
    bell_status status;
    char *text;

    if (LOG_ON(LOG_RENDER)) {
        BELL_TRY(compiler->text(target, program, &text));
        log_text(LOG_RENDER, program->name, text);
        host_free(text);
    }
    if (!LOG_ON(LOG_ASM))
        return BELL_OK;
    status = compiler->assembly(target, program, &text);
    if (status == BELL_E_UNSUPPORTED && !log_has_writer()) {
        log_text(LOG_ASM, program->name, bell_error_last()->message);
        bell_error_clear();
        return BELL_OK;
    }
    BELL_TRY(status);
    log_text(LOG_ASM, program->name, text);
    host_free(text);
    return BELL_OK;
}

/* Grids are given by lowering; a device takes no larger ones than it says. */
static bell_status
check_grid(const struct lower_program *p, const struct rt_target *target)
{
    const uint32_t *max = target->max_grid;

    if (p->grid[0] <= max[0] && p->grid[1] <= max[1] && p->grid[2] <= max[2])
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: a grid of %u x %u x %u work-groups; the device "
                     "takes %u x %u x %u",
                     p->name, p->grid[0], p->grid[1], p->grid[2], max[0],
                     max[1], max[2]);
}

/* hcq_program_desc.max_steps: what has no loop takes each op once. */
static uint32_t
count_steps(const struct lower_program *program)
{
    uint32_t n = 0, i;

    for (i = 0; i < program->n_ops; i++) {
        if (program->ops[i]->op == UOP_RANGE ||
            program->ops[i]->op == UOP_LOCAL ||
            program->ops[i]->op == UOP_TILE_MATMUL)
            return 0;
        n += program->ops[i]->lanes;
    }
    return n;
}

/* Lowers and compiles the kernel under `sink`, a node of `g`. */
static bell_status
compile_sink(struct uop_graph *g, const struct uop *sink, struct rt_job *job)
{
    struct lower_program program;
    uint64_t start = time_now_ns();
    bell_status status = lower_kernel_by(g, sink, &job->target->lower,
                                         job->told, job->made, &program);

    job->start_ns = start;
    job->thread = (uint32_t)gettid();
    job->lower_ns = time_now_ns() - start;
    if (status == BELL_OK) {
        job->n_ops = program.n_ops;
        if (job->max_ops && program.n_ops > job->max_ops)
            status = bell_fail(BELL_E_UNSUPPORTED, "%s: %u ops, of %u at most",
                               program.name, program.n_ops, job->max_ops);
    }
    if (status == BELL_OK)
        status = log_source(&program, job->target);
    if (status == BELL_OK) {
        start = time_now_ns();
        status =
            job->target->compiler->compile(job->target, &program, &job->binary);
        job->render_start_ns = start;
        job->render_ns = time_now_ns() - start;
    }
    if (status == BELL_OK)
        status = check_grid(&program, job->target);
    if (status == BELL_OK) {
        job->name = host_strdup(program.name);
        if (!job->name)
            status = bell_fail(BELL_E_NO_MEMORY, "out of memory compiling %s",
                               program.name);
        job->facts.n_params = program.n_params;
        job->facts.n_vars = program.n_vars;
        memcpy(job->facts.grid, program.grid, sizeof(program.grid));
        memcpy(job->facts.local, program.local, sizeof(program.local));
        job->facts.max_steps = count_steps(&program);
        job->facts.n_flops = program.n_flops;
        job->facts.n_bytes = program.n_bytes;
    }
    return status;
}

/* Each job lowers in a graph of its own: the runtime's graphs are read by all
 * threads and written by none of them. */
bell_status
rt_compile_job(struct rt_job *job)
{
    struct uop_graph g;
    const struct uop *sink;
    bell_status status;

    if (job->given)
        return rt_compile_given(job);
    uop_graph_init(&g);
    status = uop_graph_copy(job->sink, &g, &sink);
    if (status == BELL_OK)
        status = compile_sink(&g, sink, job);
    uop_graph_fini(&g);
    return status;
}

void
rt_job_fini(struct rt_job *job)
{
    render_binary_fini(&job->binary.file);
    host_free(job->name);
    memset(&job->binary, 0, sizeof(job->binary));
    job->name = NULL;
}

/* A thread's error record is its own: the job carries it to the thread that
 * waits. */
static void *
run_jobs(void *arg)
{
    struct pool *pool = arg;
    uint32_t i;

    while ((i = atomic_fetch_add(&pool->next, 1)) < pool->n) {
        struct rt_job *job = pool->jobs[i];
        job->status = rt_compile_job(job);
        if (job->status == BELL_E_INVALID && job->told && !job->made) {
            job->told = NULL; /* the rules' is always one */
            job->status = rt_compile_job(job);
        }
        if (job->status != BELL_OK)
            job->error = *bell_error_last();
    }
    return NULL;
}

/* The caller's thread works as well; without threads it does all of it. */
void
rt_compile_jobs(struct rt_job *const *jobs, uint32_t n_jobs)
{
    struct pool pool = {.jobs = jobs, .n = n_jobs};
    pthread_t threads[64];
    uint32_t n = thread_cpu_count(), started = 0;

    if (log_mask & LOG_COMPILING)
        n = 1; /* what is printed of a kernel stays together, and in order */
    if (n > n_jobs)
        n = n_jobs;
    if (n > 64)
        n = 64;
    while (started + 1 < n &&
           pthread_create(&threads[started], NULL, run_jobs, &pool) == 0)
        started++;
    run_jobs(&pool);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* hcq_program_desc.group_ns: by the operations and bytes that lowering counted,
 * at rates far below any device's, as what a wait allows must never be too
 * short. 0: the launch takes less than LONG_NS even so. */
static uint64_t
guess_group_ns(struct tensor_runtime *rt, const struct rt_facts *facts)
{
    double n_groups = (double)facts->grid[0] * facts->grid[1] * facts->grid[2];
    double n_threads =
        (double)facts->local[0] * facts->local[1] * facts->local[2];
    double ns = rt->target.lower.is_gpu ? GPU_THREAD_NS / n_threads : CPU_NS;

    ns *= (facts->n_flops + facts->n_bytes) / n_groups;
    if (ns * ceil(n_groups / rt->info.n_units) < LONG_NS)
        return 0;
    return ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18;
}

bell_status
rt_create_program(struct tensor_runtime *rt, const struct rt_job *job,
                  struct hcq_program **out_program)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = job->name,
        .entry = job->name,
        .binary = job->binary.file.data,
        .binary_size_bytes = job->binary.file.size_bytes,
        .shared_bytes = job->binary.shared_bytes,
        .n_bufs = job->facts.n_params,
        .n_vals = job->facts.n_vars,
        .max_steps = job->facts.max_steps,
        .group_ns = guess_group_ns(rt, &job->facts),
    };

    memcpy(desc.local, job->binary.local, sizeof(desc.local));
    return hcq_program_create(rt->dev, &desc, out_program);
}

void
rt_kernel_fini(struct rt_kernel *kernel)
{
    hcq_program_destroy(kernel->program);
    rt_classes_free(kernel->classes);
    mesh_unload(kernel);
    render_binary_fini(&kernel->binary.file);
    host_free(kernel->entry);
}

static bell_status
keep_binary(const struct rt_job *job, struct rt_kernel *kernel)
{
    kernel->binary = job->binary;
    kernel->binary.file.data = host_alloc(job->binary.file.size_bytes);
    kernel->entry = host_strdup(job->name);
    if (!kernel->binary.file.data || !kernel->entry)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory keeping %s",
                         job->name);
    memcpy(kernel->binary.file.data, job->binary.file.data,
           job->binary.file.size_bytes);
    return BELL_OK;
}

/* Programs are loaded by one thread, in the order of the kernels, so that
 * their numbers do not depend on who was faster. One from the disk that the
 * device refuses is compiled after all. */
static bell_status
load_job(struct tensor_runtime *rt, struct rt_job *job,
         const struct cache_entry *entry)
{
    struct bell_error_hold hold;
    struct rt_kernel *kernel;
    bell_status status;

    if (job->status != BELL_OK) {
        status = bell_error_set(&job->error);
        bell_error_prefix("compiling a kernel");
        return status;
    }
    if (host_grow((void **)&rt->kernel_list, &rt->cap_kernels,
                  rt->n_kernels + 1, sizeof(*rt->kernel_list)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory loading %s",
                         job->name);
    kernel = &rt->kernel_list[rt->n_kernels];
    memset(kernel, 0, sizeof(*kernel));
    kernel->sink = job->sink;
    bell_error_hold(&hold);
    status = rt_create_program(rt, job, &kernel->program);
    if (job->is_found &&
        (status == BELL_E_INVALID || status == BELL_E_UNSUPPORTED)) {
        rt_kept_drop(rt, entry);
        bell_error_release(&hold);
        job->is_found = false;
        rt_job_fini(job);
        BELL_TRY(rt_compile_job(job));
        status = rt_create_program(rt, job, &kernel->program);
    }
    BELL_TRY(status);
    kernel->facts = job->facts;
    kernel->values = job->given ? job->given->values : NULL;
    kernel->binary_bytes = job->binary.file.size_bytes;
    kernel->lower_ns = job->lower_ns;
    kernel->compile_ns = job->render_ns;
    status = rt->keeps_binaries ? keep_binary(job, kernel) : BELL_OK;
    if (status == BELL_OK && rt->places)
        status = mesh_load(rt, job, kernel);
    if (status == BELL_OK &&
        map_put(&rt->kernel_of, rt_key(rt, job->sink), rt->n_kernels) != 0)
        status =
            bell_fail(BELL_E_NO_MEMORY, "out of memory loading %s", job->name);
    if (status != BELL_OK) {
        rt_kernel_fini(kernel);
        return status;
    }
    rt->n_kernels++;
    if (job->is_found)
        rt->stats.n_kernels_found++;
    else
        rt->stats.n_kernels_compiled++;
    rt_profile_job(rt->profile, job);
    rt->stats.lower_ns += job->lower_ns;
    rt->stats.compile_ns += job->render_ns;
    if (!job->is_found)
        LOG(LOG_TIME, "%s: lowered in %.3f ms, machine code in %.3f ms",
            job->name, (double)job->lower_ns * 1e-6,
            (double)job->render_ns * 1e-6);
    return BELL_OK;
}

/* The kernels that are not compiled yet, each once. */
static bell_status
collect_jobs(struct tensor_runtime *rt, const struct uop *const *sinks,
             uint32_t n, struct rt_job *jobs, uint32_t *out_n)
{
    bell_status status = BELL_OK;
    struct map seen;
    uint32_t i;

    map_init(&seen);
    for (i = 0; i < n && status == BELL_OK; i++) {
        if (map_get(&rt->kernel_of, rt_key(rt, sinks[i])) ||
            map_get(&seen, sinks[i]->id))
            continue;
        if (map_put(&seen, sinks[i]->id, 1) != 0)
            status = bell_fail(BELL_E_NO_MEMORY, "out of memory compiling");
        jobs[*out_n].sink = sinks[i];
        jobs[*out_n].given = rt_given_of(rt, sinks[i]);
        jobs[*out_n].told = rt_schedule_of(rt, sinks[i]);
        jobs[(*out_n)++].target = &rt->target;
    }
    map_fini(&seen);
    return status;
}

/* A failure leaves what was loaded before it: the next attempt begins there. */
bell_status
rt_compile(struct tensor_runtime *rt, const struct uop *const *sinks,
           uint32_t n, uint32_t *out_kernels)
{
    struct rt_job *jobs = host_calloc(n, sizeof(*jobs));
    struct rt_job **missing = host_calloc(n, sizeof(*missing));
    uint32_t i, n_jobs = 0, n_missing = 0, n_loaded = 0;
    struct cache_entry *entries = NULL;
    bell_status status;
    uint64_t start;

    status = jobs && missing
                 ? collect_jobs(rt, sinks, n, jobs, &n_jobs)
                 : bell_fail(BELL_E_NO_MEMORY, "out of memory compiling");
    if (status == BELL_OK)
        rt_kept_find(rt, jobs, n_jobs, &entries);
    for (i = 0; status == BELL_OK && i < n_jobs; i++) {
        if (!jobs[i].is_found)
            missing[n_missing++] = &jobs[i];
    }
    if (n_missing) {
        start = time_now_ns();
        rt_compile_jobs(missing, n_missing);
        rt->stats.compile_wall_ns += time_now_ns() - start;
    }
    while (status == BELL_OK && n_loaded < n_jobs) {
        status =
            load_job(rt, &jobs[n_loaded], entries ? &entries[n_loaded] : NULL);
        n_loaded += status == BELL_OK;
    }
    rt_kept_end(rt, jobs, n_loaded, entries, n_jobs);
    for (i = 0; i < n_jobs; i++)
        rt_job_fini(&jobs[i]);
    host_free(jobs);
    host_free(missing);
    BELL_TRY(status);
    for (i = 0; i < n; i++)
        out_kernels[i] =
            (uint32_t)*map_get(&rt->kernel_of, rt_key(rt, sinks[i]));
    return BELL_OK;
}

/* The text's mistakes are those of who wrote it. */
static bell_status
blame_text(bell_status status)
{
    struct bell_error error = *bell_error_last();

    if (status != BELL_E_INTERNAL)
        return status;
    error.status = BELL_E_INVALID;
    error.reason = BELL_REASON_VALUE;
    return bell_error_set(&error);
}

static bell_status
compile_parse_kernel(struct uop_graph *g, const char *text,
                     const struct uop **out_sink)
{
    const struct uop **roots;
    bell_status status;
    size_t n;

    BELL_TRY(uop_parse(g, text, &roots, &n));
    if (n == 1)
        status = blame_text(lower_check(g, roots[0]));
    else
        status = bell_fail(BELL_BAD_VALUE, "a kernel has one root, not %zu", n);
    *out_sink = n ? roots[0] : NULL;
    host_free(roots);
    return status;
}

static void
fill_ir(const char *name, const struct rt_facts *facts, uint64_t binary_bytes,
        uint64_t lower_ns, uint64_t compile_ns, struct tensor_ir *out_ir)
{
    *out_ir = (struct tensor_ir){.n_params = facts->n_params,
                                 .n_vars = facts->n_vars,
                                 .binary_bytes = binary_bytes,
                                 .lower_ns = lower_ns,
                                 .compile_ns = compile_ns,
                                 .n_flops = facts->n_flops,
                                 .n_bytes = facts->n_bytes};
    snprintf(out_ir->name, sizeof(out_ir->name), "%s", name);
    memcpy(out_ir->grid, facts->grid, sizeof(out_ir->grid));
    memcpy(out_ir->local, facts->local, sizeof(out_ir->local));
}

/* Terms of sums and products that are looked into, one below the other. */
#define INDEX_DEPTH 6

/* The most that `x` is where `gate` holds, as its comparisons with constants
 * say it. */
static int64_t
max_by_gate(const struct uop *gate, const struct uop *x, int depth)
{
    int64_t a, b;

    if (gate->op == UOP_AND && depth < 2 * INDEX_DEPTH) {
        a = max_by_gate(gate->src[0], x, depth + 1);
        b = max_by_gate(gate->src[1], x, depth + 1);
        return a < b ? a : b;
    }
    if (gate->op == UOP_CMPLT && gate->src[0] == x &&
        gate->src[1]->op == UOP_CONST && x->dtype != UOP_U64 &&
        gate->src[1]->arg.i > INT64_MIN)
        return gate->src[1]->arg.i - 1;
    return INT64_MAX;
}

/* The most that an index is where its access is made: what is loaded and
 * bounded by a gate alone has no bounds of its own. */
static int64_t
max_index(const struct uop_graph *g, const struct uop *index,
          const struct uop *gate, int depth)
{
    int64_t max = uop_bounds(g, index).max, parts[2], sum = INT64_MAX, by_gate;

    by_gate = max_by_gate(gate, index, 0);
    if (by_gate < max)
        max = by_gate;
    if (depth == INDEX_DEPTH || (index->op != UOP_ADD && index->op != UOP_MUL))
        return max;
    parts[0] = max_index(g, index->src[0], gate, depth + 1);
    parts[1] = max_index(g, index->src[1], gate, depth + 1);
    if (index->op == UOP_ADD
            ? __builtin_add_overflow(parts[0], parts[1], &sum)
            : uop_bounds(g, index->src[0]).min < 0 ||
                  uop_bounds(g, index->src[1]).min < 0 ||
                  __builtin_mul_overflow(parts[0], parts[1], &sum))
        return max;
    return sum < max ? sum : max;
}

/* What the kernel's loads and stores say of its parameters. */
static void
find_params(const struct uop_graph *g, struct tensor_ir *out_ir)
{
    bool is_open[TENSOR_IR_PARAMS] = {false};
    size_t i;

    for (i = 0; i < g->n_nodes; i++) {
        const struct uop *u = g->nodes[i], *memory;
        int64_t max;
        uint64_t n;

        if (u->op == UOP_VAR && u->arg.i >= out_ir->n_params &&
            u->arg.i - out_ir->n_params < TENSOR_IR_PARAMS)
            out_ir->is_float_var[u->arg.i - out_ir->n_params] =
                uop_dtype_infos[u->dtype].is_float;
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        memory = uop_memory(u->src[0]);
        if (memory->op != UOP_PARAM || memory->arg.i >= TENSOR_IR_PARAMS)
            continue;
        max = u->n_src == 4 ? max_index(g, u->src[1], u->src[3], 0)
                            : uop_bounds(g, u->src[1]).max;
        n = max < 0 ? 1 : (uint64_t)max + 1; /* below 0: it is never made */
        is_open[memory->arg.i] |= n > INT64_MAX / 8;
        n *= uop_dtype_infos[memory->dtype].size_bytes;
        if (n > out_ir->param_bytes[memory->arg.i])
            out_ir->param_bytes[memory->arg.i] = n;
    }
    for (i = 0; i < TENSOR_IR_PARAMS; i++) {
        if (is_open[i])
            out_ir->param_bytes[i] = 0;
    }
}

/* out_program NULL: it is not loaded. */
static bell_status
compile_text(struct bell_context *ctx, const char *text,
             struct tensor_ir *out_ir, struct hcq_program **out_program)
{
    struct tensor_runtime *rt = ctx->runtime;
    struct rt_job job = {.target = &rt->target};
    const struct uop *sink;
    struct uop_graph g;
    bell_status status;

    uop_graph_init(&g);
    status = compile_parse_kernel(&g, text, &sink);
    if (status == BELL_OK)
        status = compile_sink(&g, sink, &job);
    if (status == BELL_OK) {
        fill_ir(job.name, &job.facts, job.binary.file.size_bytes, job.lower_ns,
                job.render_ns, out_ir);
        find_params(&g, out_ir);
    }
    if (status == BELL_OK && out_program)
        status = rt_create_program(rt, &job, out_program);
    rt_job_fini(&job);
    uop_graph_fini(&g);
    return status;
}

bell_status
tensor_compile_ir(struct bell_context *ctx, const char *text,
                  struct tensor_ir *out_ir)
{
    BELL_TRY(compile_text(ctx, text, out_ir, NULL));
    return BELL_OK;
}

bell_status
tensor_load_ir(struct bell_context *ctx, const char *text,
               struct tensor_ir *out_ir, struct hcq_program **out_program)
{
    BELL_TRY(compile_text(ctx, text, out_ir, out_program));
    return BELL_OK;
}

bool
tensor_kernel_at(const struct bell_context *ctx, size_t number,
                 struct tensor_ir *out_ir)
{
    const struct tensor_runtime *rt = ctx->runtime;
    const struct rt_kernel *kernel = &rt->kernel_list[number];

    if (number >= rt->n_kernels)
        return false;
    fill_ir(kernel->program->name, &kernel->facts, kernel->binary_bytes,
            kernel->lower_ns, kernel->compile_ns, out_ir);
    return true;
}

/* Which of the chip's rates its matrix instructions run at, by what they
 * multiply and not by what they sum. */
static enum chip_rate
rate_of(enum uop_dtype dtype, bool is_tf32)
{
    switch (uop_dtype_infos[dtype].size_bytes) {
    case 1:
        return CHIP_MATRIX_8;
    case 2:
        return CHIP_MATRIX_F16;
    case 4:
        return is_tf32 ? CHIP_MATRIX_TF32 : CHIP_MATRIX_F32;
    default:
        return CHIP_MATRIX_F64;
    }
}

static void
find_matrix(const struct lower_program *p, const struct lower_target *target,
            struct tensor_usage *out)
{
    uint32_t i;

    for (i = 0; i < p->n_ops && !out->has_matrix; i++) {
        const struct uop *u = p->ops[i];

        out->has_matrix = u->op == UOP_WMMA || uop_is_wgmma(u);
        if (out->has_matrix)
            out->matrix_rate =
                rate_of(u->src[uop_is_wgmma(u)]->dtype, target->is_tf32);
    }
}

/* What the assembler says of registers and shared memory; where there is none
 * for the target, an estimate that says that it is one. */
static bell_status
measure(struct uop_graph *g, const struct uop *sink,
        const struct rt_target *target, const struct lower_schedule *told,
        struct tensor_usage *out)
{
    struct lower_program program;
    bell_status status;

    BELL_TRY(lower_kernel_by(g, sink, &target->lower, told, NULL, &program));
    find_matrix(&program, &target->lower, out);
    status = target->compiler->usage(target, &program, &out->usage);
    if (status != BELL_E_UNSUPPORTED)
        return status;
    bell_error_clear();
    out->is_estimated = true;
    return render_estimate_usage(&program, &out->usage);
}

bell_status
tensor_kernel_usage(const struct bell_context *ctx, size_t number,
                    struct tensor_usage *out_usage)
{
    const struct tensor_runtime *rt = ctx->runtime;
    const struct uop *sink;
    struct uop_graph g;
    bell_status status;

    if (!rt->target.compiler->usage)
        return bell_fail(BELL_E_UNSUPPORTED, "%s is not a GPU",
                         hcq_device_name(rt->dev));
    if (rt_given_of(rt, rt->kernel_list[number].sink))
        return bell_fail(BELL_E_UNSUPPORTED, "%s was given, not compiled here",
                         rt->kernel_list[number].program->name);
    memset(out_usage, 0, sizeof(*out_usage));
    uop_graph_init(&g);
    status = uop_graph_copy(rt->kernel_list[number].sink, &g, &sink);
    if (status == BELL_OK)
        status = measure(&g, sink, &rt->target,
                         rt_schedule_of(rt, rt->kernel_list[number].sink),
                         out_usage);
    uop_graph_fini(&g);
    return status;
}
