/* From lazy tensors to work in the device's queue.
 *
 * The graph under the tensors is copied to its structure (number.c): its plan
 * is looked up by that, not made again, and run (replay.c).
 *
 * Memory goes back to the device only when the queue has passed the last work
 * that could use it; fresh memory is therefore idle.
 */
#include "tensor/runtime/capture.h"
#include "tensor/runtime/classes.h"
#include "tensor/runtime/ir.h"
#include "tensor/runtime/mesh_bucket.h"
#include "tensor/runtime/mesh_places.h"
#include "tensor/runtime/named.h"
#include "tensor/runtime/profile.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/tape.h"
#include "tensor/runtime/search.h"
#include "tensor/core/trace.h"
#include "tensor/core/tensor_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/thread.h"

/* ---- the device ---- */

/* Where convolutions are worth copies with their channels last: by the model,
 * where what they load would go through registers, word by word. */
static double
channel_uses(const struct lower_target *t)
{
    if (!t->is_gpu || !t->matrix_k[UOP_BF16])
        return 0;
    return t->matrix_layout == UOP_WMMA_CDNA ? 256
           : t->matrix_layout == UOP_WMMA_NV ? 1024
                                             : 4096;
}

/* Where channels are not whole steps of matrix instructions: products of copies
 * are 2 to 3 times as fast on CDNA and NVIDIA's chips (by the model, 24 to 104
 * channels); on RDNA 3, 125 channels took 175 us for 148, but see
 * few_filters. */
static double
odd_channel_uses(const struct lower_target *t)
{
    double uses = channel_uses(t);

    return uses > 1024 ? uses : uses / 4;
}

/* Odd channels on RDNA 3 are gathered for each tile, and a tile of 32 filters
 * has no more work than that takes: by the model of an RX 7900 XTX, 3 x 3, 64
 * images of 56 x 56, 31 channels take 84.8 us for 31 filters and 63.3 for 64;
 * with copies 60.2 and 89.1. */
static int64_t
few_filters(const struct lower_target *t)
{
    return channel_uses(t) > 1024 ? 32 : 0;
}

/* Products that take as long as a kernel that copies little, where they are
 * done with channels that are not last. observed: H100, 2026-11-27: 32 images
 * of 64 x 56 x 56, windows of 3 x 3, 3.7e9 of them in 116 us; a launch and what
 * it waits for take 2 to 4. */
static double
channel_products(const struct lower_target *t)
{
    return t->wgmma_k[UOP_BF16] ? 0x1p20 * t->n_units : 0;
}

/* A column that a product packs is at most that part of the second cache, where
 * a panel of 24 lies. observed: EPYC of Zen 3, 512 KiB, 2026-11-29: gradients
 * of 3 x 3 filters by 8 images of 64 x 56 x 56 at 65 GFLOP/s a thread,
 * whichever of 1/256 to 1/32; 62 at 1/16, 27 without parts */
#define PACK_OF_L2 32

/* What kernels are made for. */
static bell_status
set_target(struct tensor_runtime *rt, uint32_t math)
{
    const struct lower_target *t = &rt->target.lower;
    bool turns_rows;

    BELL_TRY(rt_target_init(&rt->info, math, &rt->target));
    turns_rows = t->max_packed_bytes > 0;
    rt->sched_target = (struct sched_target){
        .n_parallel = rt->target.n_parallel,
        .n_shared = rt->target.n_shared,
        .attends = lower_attends(t),
        .packs_for = t->is_gpu && !t->no_packs ? t : NULL,
        .n_word_units = t->is_gpu && !t->matrix_k[UOP_F32] ? t->n_units : 0,
        .turns_words = t->wgmma_k[UOP_F32] > 0,
        .turns_rows = turns_rows,
        .matrix_k = t->is_gpu ? t->matrix_k : NULL,
        .tiles_k = t->is_gpu ? NULL : t->tiles_k,
        .copies = t->copy_bytes > 0,
        .product_bytes = turns_rows ? t->l2_bytes / PACK_OF_L2 : 0,
        .channel_uses = channel_uses(t),
        .odd_channel_uses = odd_channel_uses(t),
        .few_filters = few_filters(t),
        .fills_parts = t->matrix_layout == UOP_WMMA_CDNA,
        .channel_products = channel_products(t),
    };
    return BELL_OK;
}

/* One compute queue: everything of a context runs in order, and only the host
 * waits. */
static bell_status
open_runtime(struct tensor_runtime *rt, const char *name, uint32_t math)
{
    BELL_TRY(hcq_device_open(name, &rt->dev));
    rt->info.struct_size = sizeof(rt->info);
    hcq_device_info(rt->dev, &rt->info);
    BELL_TRY(set_target(rt, math));
    BELL_TRY(rt_search_init(rt));
    return hcq_queue_create(rt->dev, HCQ_QUEUE_COMPUTE, &rt->queue);
}

bell_status
rt_open(const struct bell_context *ctx, const char *name, bool is_place,
        struct tensor_runtime **out_rt)
{
    struct tensor_runtime *rt = host_calloc(1, sizeof(*rt));
    bell_status status;

    if (!rt)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory opening a device");
    uop_graph_init(&rt->graphs);
    uop_graph_init(&rt->kernels);
    map_init(&rt->plan_of);
    map_init(&rt->kernel_of);
    map_init(&rt->schedule_of);
    cache_init(&rt->cache);
    rt->givens = &ctx->givens;
    rt->labels = ctx->labels.is_on
                     ? (struct tensor_labels *)(uintptr_t)&ctx->labels
                     : NULL;
    rt->graphs.has_marks = rt->labels != NULL;
    status = open_runtime(rt, name, ctx->math);
    if (status == BELL_OK && !is_place)
        status = rt_profile_create(rt);
    if (status != BELL_OK) {
        rt_close(rt);
        return status;
    }
    *out_rt = rt;
    return BELL_OK;
}

void
rt_keep_binaries(struct tensor_runtime *rt)
{
    rt->keeps_binaries = true;
    if (!(rt->info.flags & HCQ_DEVICE_NULL) || !rt->target.is_simulated)
        return;
    rt->target.is_simulated = false;
    if (rt->target.tool == RT_TOOL_NONE)
        rt->target.tool = RT_TOOL_PTXAS;
}

bell_status
tensor_device_open(struct bell_context *ctx, const char *name)
{
    if (mesh_is_list(name))
        return mesh_open(ctx, name);
    BELL_TRY(rt_open(ctx, name, false, &ctx->runtime));
    strncpy(ctx->device_name, hcq_device_name(ctx->runtime->dev),
            sizeof(ctx->device_name) - 1);
    return BELL_OK;
}

uint32_t
tensor_device_sort_bits(const struct bell_context *ctx)
{
    const struct lower_target *t = &ctx->runtime->target.lower;
    uint32_t n = UOP_MOST_EXCHANGED;

    while (n > UOP_MOST_IN_REGISTERS &&
           (!t->is_gpu || n * sizeof(int64_t) > t->max_shared_bytes ||
            n / UOP_MOST_IN_REGISTERS > t->max_threads))
        n /= 2;
    return (uint32_t)__builtin_ctz(n);
}

bool
tensor_device_has_f64(const struct bell_context *ctx)
{
    return !ctx->runtime->target.lower.lacks_f64;
}

/* The CPU's kernels load and compute wherever elements lie; those of cards, and
 * all stores, are made for buffers. */
uint32_t
tensor_device_blob_align(const struct bell_context *ctx, uint32_t elem_bytes)
{
    const struct tensor_runtime *rt = ctx->runtime;

    return strcmp(rt->info.backend, "CPU") == 0 ? elem_bytes
                                                : TENSOR_BLOB_ALIGN;
}

/* What of all allowances would change a kernel: asked for with all of them
 * set. */
uint32_t
tensor_device_math(const struct bell_context *ctx)
{
    const struct tensor_runtime *rt = ctx->runtime;
    struct rt_target target;

    if (rt_target_init(&rt->info, UINT32_MAX, &target) != BELL_OK)
        return 0;
    return target.math;
}

bool
tensor_device_is_cpu(const struct bell_context *ctx)
{
    const struct tensor_runtime *rt = ctx->runtime;

    return rt && !rt->target.lower.is_gpu;
}

bell_status
tensor_device_set_math(struct bell_context *ctx, uint32_t math)
{
    return set_target(ctx->runtime, math);
}

void
tensor_device_set_timeout(struct bell_context *ctx, double seconds)
{
    uint64_t ns = seconds > 0 ? (uint64_t)(seconds * 1e9) : HCQ_WAIT_FOREVER;
    const struct rt_places *places = ctx->runtime->places;
    uint32_t i;

    hcq_device_set_timeout(ctx->runtime->dev, ns);
    for (i = 1; places && i < places->n; i++)
        hcq_device_set_timeout(places->list[i]->dev, ns);
}

bell_status
rt_wait(struct tensor_runtime *rt, uint64_t value)
{
    assert(value <= rt->last_value);
    if (rt->n_sent)
        return hcq_transfer_wait(rt->queue, value, rt->sent, rt->n_sent);
    return hcq_signal_wait(hcq_queue_timeline(rt->queue), value,
                           HCQ_WAIT_WHILE_MOVING);
}

/* Kernels under way are waited for, so that what the watcher counts are its
 * own. */
bell_status
tensor_watch_kernels(struct bell_context *ctx,
                     void (*fn)(void *user, size_t number), void *user)
{
    struct tensor_runtime *rt = ctx->runtime;

    rt->watch = fn;
    rt->watch_user = user;
    return rt_wait(rt, rt->last_value);
}

/* Gives back memory that no queued work can use any more. */
static void
reap_dead(struct tensor_runtime *rt)
{
    uint64_t done = hcq_signal_value(hcq_queue_timeline(rt->queue));
    size_t i, kept = 0;

    rt_reap_sent(rt);
    for (i = 0; i < rt->n_dead; i++) {
        if (rt->dead[i].value <= done)
            hcq_buffer_destroy(rt->dead[i].buf);
        else
            rt->dead[kept++] = rt->dead[i];
    }
    rt->n_dead = kept;
}

void
rt_bury(struct tensor_runtime *rt, struct hcq_buffer *buf)
{
    if (!buf)
        return;
    rt_reap_sent(rt);
    if (hcq_signal_value(hcq_queue_timeline(rt->queue)) >= rt->last_value) {
        hcq_buffer_destroy(buf);
        return;
    }
    if (host_grow((void **)&rt->dead, &rt->cap_dead, rt->n_dead + 1,
                  sizeof(*rt->dead)) == 0) {
        rt->dead[rt->n_dead].buf = buf;
        rt->dead[rt->n_dead++].value = rt->last_value;
        return;
    }
    interrupt_hold();
    if (rt_wait(rt, rt->last_value) == BELL_OK)
        hcq_buffer_destroy(buf);
    interrupt_release();
}

static void
free_plan(struct rt_plan *plan)
{
    host_free(plan->kernels);
    host_free(plan->offsets);
    host_free(plan->takes);
    host_free(plan->values);
    host_free(plan->steps);
    if (plan->table)
        dim_table_fini(plan->table);
    host_free(plan->table);
    host_free(plan->counts);
}

/* Copies from and to other devices end before what they use is gone; those that
 * do not, keep nobody. */
static void
end_copies(struct tensor_runtime *rt)
{
    struct bell_error_hold hold;

    if (rt->n_sent == 0 || hcq_device_is_inherited(rt->dev))
        return;
    bell_error_hold(&hold);
    if (rt_wait(rt, rt->last_value) != BELL_OK)
        rt_give_up_sent(rt);
    bell_error_release(&hold);
}

/* The queue ends first: nothing runs while memory and programs go. */
void
rt_close(struct tensor_runtime *rt)
{
    size_t i;

    end_copies(rt);
    if (rt->places)
        mesh_settle(rt->places);
    rt_profile_destroy(rt);
    for (i = 0; i < rt->n_plans; i++)
        rt_tape_destroy(rt->plans[i].tape);
    hcq_queue_destroy(rt->queue);
    rt_end_sent(rt);
    for (i = 0; i < rt->n_dead; i++)
        hcq_buffer_destroy(rt->dead[i].buf);
    for (i = 0; i < rt->n_kernels; i++)
        rt_kernel_fini(&rt->kernel_list[i]);
    for (i = 0; i < rt->n_plans; i++)
        free_plan(&rt->plans[i]);
    host_free(rt->values.list);
    host_free(rt->dead);
    host_free(rt->sent);
    host_free(rt->sent_until);
    host_free(rt->kernel_list);
    host_free(rt->plans);
    host_free(rt->copies);
    host_free(rt->visits);
    host_free(rt->labels_now);
    map_fini(&rt->plan_of);
    map_fini(&rt->kernel_of);
    rt_search_fini(rt);
    uop_graph_fini(&rt->graphs);
    uop_graph_fini(&rt->kernels);
    mesh_close(rt->places);
    hcq_device_close(rt->dev);
    host_free(rt);
}

void
tensor_device_settle(struct bell_context *ctx)
{
    if (ctx->runtime && ctx->end_loaders)
        ctx->end_loaders(ctx);
}

void
tensor_device_close(struct bell_context *ctx)
{
    if (!ctx->runtime)
        return;
    if (ctx->end_jits)
        ctx->end_jits(ctx);
    rt_close(ctx->runtime);
    ctx->runtime = NULL;
}

bool
tensor_device_is_inherited(const struct bell_context *ctx)
{
    const struct tensor_runtime *rt = ctx->runtime;

    return rt && rt->dev && hcq_device_is_inherited(rt->dev);
}

struct hcq_device *
tensor_device(const struct bell_context *ctx)
{
    const struct tensor_runtime *rt = ctx->runtime;

    return rt->dev;
}

bool
tensor_device_is_null(const struct bell_context *ctx)
{
    const struct tensor_runtime *rt = ctx->runtime;

    return (rt->info.flags & HCQ_DEVICE_NULL) != 0;
}

void
bell_context_stats(const struct bell_context *ctx, struct bell_stats *out_stats)
{
    const struct bell_stats *stats;

    if (out_stats && tensor_context_check(__func__, ctx)) {
        stats = &ctx->runtime->stats;
        tensor_give_info(__func__, stats, sizeof(*stats), sizeof(*stats),
                         out_stats);
    } else {
        tensor_no_info(__func__, out_stats, sizeof(*out_stats));
    }
}

/* ---- buffers ---- */

/* Memory of that size that only work in flight still uses, or NULL: what is
 * queued from now on runs after that work. */
static struct hcq_buffer *
take_dead(struct tensor_runtime *rt, uint64_t size_bytes)
{
    struct hcq_buffer *buf;
    size_t i;

    for (i = rt->n_dead; i-- > 0;) {
        buf = rt->dead[i].buf;
        if (buf->size_bytes != size_bytes)
            continue;
        rt->dead[i] = rt->dead[--rt->n_dead];
        return buf;
    }
    return NULL;
}

bell_status
rt_memory_create(struct tensor_runtime *rt, uint64_t size_bytes,
                 struct hcq_buffer **out_buf, uint64_t *out_busy_until)
{
    bell_status status;

    reap_dead(rt);
    *out_busy_until = rt->last_value;
    *out_buf = take_dead(rt, size_bytes);
    if (*out_buf)
        return BELL_OK;
    *out_busy_until = 0;
    status = hcq_buffer_create(rt->dev, size_bytes, HCQ_MEM_DEVICE, out_buf);
    if (status != BELL_E_NO_MEMORY || rt->n_dead == 0)
        return status;
    BELL_TRY(rt_wait(rt, rt->last_value));
    reap_dead(rt);
    hcq_memory_trim(rt->dev);
    return hcq_buffer_create(rt->dev, size_bytes, HCQ_MEM_DEVICE, out_buf);
}

bell_status
tensor_buffer_alloc(struct bell_context *ctx, struct tensor_buffer *buf)
{
    struct hcq_buffer *mem;

    assert(!buf->device_mem);
    if (ctx->runtime->places)
        return mesh_memory_alloc(ctx->runtime->places, buf);
    BELL_TRY(rt_memory_create(ctx->runtime, buf->size_bytes, &mem,
                              &buf->busy_until));
    buf->device_mem = mem;
    return BELL_OK;
}

bell_status
tensor_buffer_pin(struct bell_context *ctx, struct tensor_buffer *buf,
                  void *data)
{
    struct hcq_buffer *mem;

    assert(!buf->device_mem);
    if (ctx->runtime->places) {
        BELL_TRY(mesh_memory_alloc(ctx->runtime->places, buf));
        return tensor_buffer_write(buf, data, buf->size_bytes);
    }
    BELL_TRY(hcq_buffer_create_pinned(ctx->runtime->dev, data, buf->size_bytes,
                                      &mem));
    buf->device_mem = mem;
    buf->is_blob = true;
    return BELL_OK;
}

/* The caller is told once nothing uses its memory, which nothing else may take
 * over; a device that is lost uses nothing. */
static void
free_blob(struct tensor_buffer *buf)
{
    struct tensor_runtime *rt = buf->ctx->runtime;
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    interrupt_hold();
    if (rt_wait(rt, rt->last_value) != BELL_OK)
        bell_error_clear();
    interrupt_release();
    bell_error_release(&hold);
    rt_reap_sent(rt);
    hcq_buffer_destroy(buf->device_mem);
    buf->device_mem = NULL;
    if (buf->release)
        buf->release(buf->release_user);
}

void
tensor_buffer_free(struct tensor_buffer *buf)
{
    struct rt_places *places = buf->ctx->runtime->places;

    if (places) {
        mesh_memory_free(places, buf);
        if (buf->release) /* of a blob, which was copied */
            buf->release(buf->release_user);
        return;
    }
    if (buf->is_blob) {
        free_blob(buf);
        return;
    }
    rt_bury(buf->ctx->runtime, buf->device_mem);
    buf->device_mem = NULL;
}

bell_status
tensor_buffer_write(struct tensor_buffer *buf, const void *src,
                    size_t size_bytes)
{
    struct tensor_runtime *rt = buf->ctx->runtime;
    uint64_t start;

    assert(buf->device_mem && size_bytes == buf->size_bytes);
    if (rt->places)
        return mesh_memory_write(rt->places, buf->ctx->mesh, buf, src);
    BELL_TRY(rt_wait(rt, buf->busy_until));
    start = time_now_ns();
    BELL_TRY(hcq_buffer_write(buf->device_mem, 0, src, size_bytes));
    rt_profile_span(rt->profile, RT_PROFILE_WRITE, "write", start,
                    (double)size_bytes);
    return BELL_OK;
}

bool
tensor_device_is_mesh(const struct bell_context *ctx)
{
    return ctx->runtime->places && ctx->runtime->places->n > 1;
}

bell_status
tensor_buffer_settle(struct tensor_buffer *buf)
{
    return mesh_memory_settle(buf);
}

/* Everything is waited for, not the writer alone: values are read rarely, and
 * then the last one is wanted. */
bell_status
tensor_buffer_read(struct tensor_buffer *buf, void *dst, size_t size_bytes)
{
    struct tensor_runtime *rt = buf->ctx->runtime;
    uint64_t start;

    assert(buf->device_mem && size_bytes == buf->size_bytes);
    if (rt->places)
        return mesh_memory_read(rt->places, buf->ctx->mesh, buf, dst);
    BELL_TRY(rt_wait(rt, rt->last_value));
    start = time_now_ns();
    BELL_TRY(hcq_buffer_read(buf->device_mem, 0, dst, size_bytes));
    rt_profile_span(rt->profile, RT_PROFILE_READ, "read", start,
                    (double)size_bytes);
    return BELL_OK;
}

/* ---- plans ---- */

static bell_status
compile_plan(struct tensor_runtime *rt, struct rt_plan *plan)
{
    uint32_t n_items = plan->sched.n_items, n = 0, i;
    const struct uop **sinks = host_alloc(n_items * sizeof(*sinks) + 1);
    bell_status status;

    plan->kernels = host_alloc(n_items * sizeof(*plan->kernels) + 1);
    if (!sinks || !plan->kernels) {
        host_free(sinks);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory compiling");
    }
    for (i = 0; i < n_items; i++) {
        if (!mesh_is_exchange(&plan->sched.items[i]))
            sinks[n++] = plan->sched.items[i].sink;
    }
    status = rt->tune.beam ? rt_search(rt, plan) : BELL_OK;
    if (status == BELL_OK)
        status = rt_compile(rt, sinks, n, plan->kernels);
    /* to where those are that are kernels, from the last one on */
    for (i = n_items; n < n_items && i-- > 0;)
        plan->kernels[i] = mesh_is_exchange(&plan->sched.items[i])
                               ? RT_COLLECTIVE
                               : plan->kernels[--n];
    if (status == BELL_OK && plan->symbols && !plan->table)
        status = rt_classes_make(rt, plan);
    host_free(sinks);
    return status;
}

/* BELL_DEBUG=graph. */
static bell_status
log_graph(const struct uop_graph *g, const struct uop *const *roots, uint32_t n)
{
    char *text;

    if (!LOG_ON(LOG_GRAPH))
        return BELL_OK;
    BELL_TRY(uop_print(g, roots, n, &text));
    log_text(LOG_GRAPH, "tensors", text);
    host_free(text);
    return BELL_OK;
}

/* Replaces *list by a copy in rt->kernels' arena. */
static void
keep_list(struct tensor_runtime *rt, void *list, size_t size_bytes)
{
    void **at = list;

    if (size_bytes == 0)
        return;
    *at = arena_copy(&rt->kernels.arena, *at, size_bytes);
    rt->kernels.failed |= !*at;
}

/* Moves what is in the arena of the graph that it was made in to rt->kernels,
 * where equal kernels of all plans are one node. */
static bell_status
keep_schedule(struct tensor_runtime *rt, struct sched_plan *sched)
{
    uint32_t i;

    keep_list(rt, &sched->bufs, sched->n_bufs * sizeof(*sched->bufs));
    for (i = 0; i < sched->n_bufs && !rt->kernels.failed; i++)
        keep_list(rt, &sched->bufs[i].marks,
                  sched->bufs[i].n_marks * sizeof(*sched->bufs[i].marks));
    keep_list(rt, &sched->items, sched->n_items * sizeof(*sched->items));
    keep_list(rt, &sched->root_bufs,
              sched->n_roots * sizeof(*sched->root_bufs));
    for (i = 0; i < sched->n_items && !rt->kernels.failed; i++) {
        struct sched_item *item = &sched->items[i];

        keep_list(rt, &item->bufs, item->n_bufs * sizeof(*item->bufs));
        keep_list(rt, &item->vars, item->n_vars * sizeof(*item->vars));
        BELL_TRY(uop_graph_copy(item->sink, &rt->kernels, &item->sink));
    }
    return uop_graph_status(&rt->kernels);
}

/* In a graph of its own: what becomes of it depends on nothing that was planned
 * before. */
static bell_status
schedule_graph(struct tensor_runtime *rt, struct uop_graph *g,
               const struct uop *const *roots,
               const struct sched_target *target, struct rt_plan *plan)
{
    uint32_t n = plan->sink->n_src;
    struct uop_graph kernels;
    bell_status status;

    uop_graph_init(&kernels);
    status = log_graph(g, roots, n);
    rt_named_tell_graph(rt, g, roots, n);
    if (status == BELL_OK)
        status = sched_build(g, roots, n, target, &kernels, &plan->sched);
    if (status == BELL_OK && rt->places)
        status = mesh_bucket_order(&plan->sched);
    if (status == BELL_OK)
        status = keep_schedule(rt, &plan->sched);
    uop_graph_fini(&kernels);
    return status;
}

/* The symbols' values are the last of the plan's. */
static void
for_any_size(const struct rt_plan *plan, struct sched_target *target,
             int64_t *vars)
{
    int64_t n = plan->n_values - __builtin_popcount(plan->symbols);
    uint32_t rest;

    target->size_vars = vars;
    for (rest = plan->symbols; rest; rest &= rest - 1)
        vars[__builtin_ctz(rest)] = n++;
}

static bell_status
schedule_plan(struct tensor_runtime *rt, struct rt_plan *plan)
{
    struct dim_table *dims = plan->table ? plan->table : rt->values.dims;
    struct sched_target target = rt->sched_target;
    int64_t vars[DIM_MAX_SYMBOLS] = {0};
    const struct uop **roots =
        host_alloc(plan->sink->n_src * sizeof(*roots) + 1);
    struct uop_graph g;
    bell_status status;

    if (!roots)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory scheduling");
    uop_graph_init(&g);
    if (plan->symbols) {
        g.sizes = dims;
        for_any_size(plan, &target, vars);
    }
    status = rt_vary_build(plan, &rt->graphs, &g, roots);
    if (status == BELL_OK && plan->symbols)
        status = rt_sizes_count(plan, dims);
    if (status == BELL_OK)
        status = schedule_graph(rt, &g, roots, &target, plan);
    uop_graph_fini(&g);
    host_free(roots);
    return status;
}

/* The same number of kernels, and of such as are attention? */
static bool
is_like(const struct sched_plan *a, const struct sched_plan *b)
{
    return a->n_items == b->n_items && a->n_attends == b->n_attends;
}

/* A graph for which no plan can be made is not a failure: *status is BELL_OK
 * then. */
static bool
is_made(bell_status *status)
{
    bool made = *status == BELL_OK;

    if (*status == BELL_E_UNSUPPORTED) {
        bell_error_clear();
        *status = BELL_OK;
    }
    return made;
}

/* With arguments the kernels must be the same but for them: `like` is a plan
 * of the structure. */
static bell_status
schedule_like(struct tensor_runtime *rt, struct rt_plan *plan,
              const struct rt_plan *like)
{
    bell_status status = schedule_plan(rt, plan);

    if (is_made(&status) && is_like(&plan->sched, &like->sched))
        return BELL_OK;
    if (status != BELL_OK)
        return status;
    rt_vary_fix(plan);
    return schedule_plan(rt, plan);
}

/* With constants, and then with what is an argument at once, unless that makes
 * other kernels. */
static bell_status
schedule_first(struct tensor_runtime *rt, struct rt_plan *plan)
{
    struct sched_plan constant;
    bell_status status;

    BELL_TRY(schedule_plan(rt, plan));
    constant = plan->sched;
    if (!rt_vary_guess(rt, plan))
        return BELL_OK;
    status = schedule_plan(rt, plan);
    if (is_made(&status) && is_like(&plan->sched, &constant))
        return BELL_OK;
    memset(plan->steps, 0, plan->n_values);
    plan->sched = constant;
    return status;
}

/* Counts the plan that takes most memory. */
static void
count_memory(struct bell_stats *stats, const struct rt_plan *plan)
{
    uint64_t peak = plan->result_bytes + plan->scratch_bytes;

    if (peak <= stats->peak_bytes)
        return;
    stats->peak_bytes = peak;
    stats->result_bytes = plan->result_bytes;
    stats->scratch_bytes = plan->scratch_bytes;
    stats->alive_bytes = plan->alive_bytes;
}

/* What is scheduled is placed and compiled. */
static bell_status
finish_plan(struct tensor_runtime *rt, struct rt_plan *plan, uint64_t start)
{
    if (plan->symbols)
        BELL_TRY(rt_sizes_take(rt, plan));
    else
        BELL_TRY(rt_place_buffers(plan, &rt->kernels));
    count_memory(&rt->stats, plan);
    rt_profile_span(rt->profile, RT_PROFILE_SCHEDULE, "schedule", start, 0);
    rt->stats.schedule_ns += time_now_ns() - start;
    rt->stats.n_plans++;
    rt->stats.n_kernels_planned += plan->sched.n_items;
    LOG(LOG_TIME, "scheduled %u kernels in %.3f ms", plan->sched.n_items,
        (double)(time_now_ns() - start) * 1e-6);
    return compile_plan(rt, plan);
}

/* `stays`: no other values are expected. */
static bell_status
make_plan(struct tensor_runtime *rt, struct rt_plan *plan, bool stays)
{
    uint64_t start = time_now_ns();

    BELL_TRY(rt_vary_choose(rt, plan->next, plan));
    if (plan->next != RT_NO_PLAN)
        BELL_TRY(schedule_like(rt, plan, &rt->plans[plan->next]));
    else if (stays)
        BELL_TRY(schedule_plan(rt, plan));
    else
        BELL_TRY(schedule_first(rt, plan));
    return finish_plan(rt, plan, start);
}

/* A plan for any size, where one can be made: plan->table says it, and the plan
 * is as it was where not. */
static bell_status
make_sized(struct tensor_runtime *rt, struct rt_plan *plan)
{
    struct rt_plan was = *plan;
    uint64_t start = time_now_ns();
    size_t n = rt->values.n;
    bell_status status = rt_sizes_make(rt, plan);
    bool is_any;

    if (status == BELL_OK && plan->symbols)
        status = schedule_plan(rt, plan);
    if (status == BELL_OK && plan->symbols)
        status = finish_plan(rt, plan, start);
    is_any = is_made(&status) && plan->symbols;
    if (is_any)
        return BELL_OK;
    rt->values.n = n;
    free_plan(plan);
    *plan = was;
    return status;
}

/* The newest plan of the graph's sizes, or for any. */
static uint32_t
find_newest(struct tensor_runtime *rt, const struct uop *sink, bool any_size)
{
    uint64_t sizes = any_size ? 0 : rt->values.sizes_hash;
    uint64_t *found = map_get(&rt->plan_of, rt_plan_key(rt, sink, sizes));

    return found ? (uint32_t)*found : RT_NO_PLAN;
}

static bell_status
keep_plan(struct tensor_runtime *rt, const struct rt_plan *plan)
{
    uint64_t sizes = plan->table ? 0 : rt->values.sizes_hash;

    if (host_grow((void **)&rt->plans, &rt->cap_plans, rt->n_plans + 1,
                  sizeof(*rt->plans)) != 0 ||
        map_put(&rt->plan_of, rt_plan_key(rt, plan->sink, sizes),
                rt->n_plans) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory keeping a plan");
    rt->plans[rt->n_plans++] = *plan;
    return BELL_OK;
}

/* A new plan: for any size if that can be, else for this one. `stays`: what is
 * captured has the sizes and numbers that it has now. */
static bell_status
add_plan(struct tensor_runtime *rt, const struct uop *sink, bool stays)
{
    struct rt_plan plan = {.sink = sink, .next = find_newest(rt, sink, false)};
    bell_status status = BELL_OK;

    if (plan.next == RT_NO_PLAN && !stays && !rt->values.n_codes)
        status = make_sized(rt, &plan);
    if (plan.table)
        plan.next = find_newest(rt, sink, true);
    else if (status == BELL_OK)
        status = make_plan(rt, &plan, stays);
    if (status == BELL_OK)
        status = keep_plan(rt, &plan);
    if (status != BELL_OK)
        free_plan(&plan);
    return status;
}

/* The plan for the graph under `sink` and its values; RT_NO_PLAN: there is
 * none. What is captured has no plan for any size. */
static uint32_t
find_plan(struct tensor_runtime *rt, const struct uop *sink, bool stays)
{
    uint32_t at;

    for (at = find_newest(rt, sink, false); at != RT_NO_PLAN;
         at = rt->plans[at].next) {
        if (rt_vary_fits(rt, &rt->plans[at]))
            return at;
    }
    at = stays ? RT_NO_PLAN : find_newest(rt, sink, true);
    while (at != RT_NO_PLAN && !rt_sizes_fit(rt, &rt->plans[at]))
        at = rt->plans[at].next;
    return at;
}

/* ---- realising ---- */

/* A lost device is told before anything is built for it. */
static bell_status
plan_graph(struct rt_run *run, uint32_t *out_plan)
{
    struct tensor_runtime *rt = run->rt;
    bool stays = run->ctx->trace != NULL;
    uint64_t start = time_now_ns();
    const struct uop *sink;

    BELL_TRY(rt->places ? mesh_status(rt->places) : hcq_device_status(rt->dev));
    if (rt->places)
        BELL_TRY(mesh_number(run, &sink));
    else
        BELL_TRY(rt_number(run, &sink));
    BELL_TRY(rt_named_run(rt, &rt->graphs, sink));
    *out_plan = find_plan(rt, sink, stays);
    rt->stats.lookup_ns += time_now_ns() - start;
    if (*out_plan != RT_NO_PLAN)
        return rt->plans[*out_plan].symbols
                   ? rt_sizes_take(rt, &rt->plans[*out_plan])
                   : BELL_OK;
    rt_number_trim(rt);
    BELL_TRY(add_plan(rt, sink, stays));
    *out_plan = (uint32_t)rt->n_plans - 1;
    rt_named_tell(rt, &rt->plans[*out_plan]);
    rt_vary_explain(rt, *out_plan);
    return BELL_OK;
}

static bell_status
run_graph(struct rt_run *run, uint32_t *out_plan)
{
    struct tensor_runtime *rt = run->rt;
    uint64_t called = time_now_ns(), start;

    rt_profile_call(rt->profile);
    BELL_TRY(plan_graph(run, out_plan));
    if (run->ctx->trace)
        return rt_capture_run(run, *out_plan);
    start = time_now_ns();
    BELL_TRY(rt_replay(run, &rt->plans[*out_plan]));
    rt->stats.submit_ns += time_now_ns() - start;
    rt_profile_span(rt->profile, RT_PROFILE_CALL, "realize", called, 0);
    rt->stats.n_realizes++;
    return rt_replay_results(run, &rt->plans[*out_plan]);
}

/* The tensors have their own references by now. */
static void
end_run(struct rt_run *run, uint32_t plan)
{
    if (run->results)
        rt_replay_end(run, &run->rt->plans[plan]);
    if (run->rt->places)
        mesh_run_end(run);
    host_free(run->leaves);
    host_free(run->roots);
    host_free(run->tensors);
}

/* Does `what` with those that have work to do, if any. */
static bell_status
do_run(struct bell_context *ctx, struct bell_tensor *const *tensors, size_t n,
       bell_status (*what)(struct rt_run *run, uint32_t *out_plan))
{
    struct rt_run run = {
        .ctx = ctx,
        .graph = &ctx->graph,
        .rt =
            ctx->trace ? rt_capture_runtime(ctx->trace->capture) : ctx->runtime,
    };
    bell_status status = BELL_OK;
    uint32_t plan = RT_NO_PLAN;
    size_t i;

    run.tensors = host_alloc(n * sizeof(*run.tensors) + 1);
    run.roots = host_alloc(n * sizeof(*run.roots) + 1);
    for (i = 0; run.tensors && i < n; i++) {
        if (tensor_at(tensors[i])->uop->op != UOP_BUFFER)
            run.tensors[run.n++] = tensors[i];
    }
    if (!run.tensors || !run.roots)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    else if (run.n)
        status = what(&run, &plan);
    end_run(&run, plan);
    /* what they hold is whole: the next run may find the memory */
    run.rt->graphs.failed = run.rt->kernels.failed = false;
    if (!run.clashes)
        return status;
    bell_error_clear();
    for (i = 0, status = BELL_OK; i < n && status == BELL_OK; i++)
        status = do_run(ctx, &tensors[i], 1, what);
    return status;
}

bell_status
tensor_realize(struct bell_context *ctx, struct bell_tensor *const *tensors,
               size_t n)
{
    return do_run(ctx, tensors, n, run_graph);
}

bell_status
tensor_compile(struct bell_context *ctx, struct bell_tensor *const *tensors,
               size_t n)
{
    return do_run(ctx, tensors, n, plan_graph);
}
