/* Running a plan at several places: each queue gets the same kernels, with the
 * place's addresses and offsets, and what places exchange in between. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/runtime/mesh_bucket.h"
#include "tensor/runtime/mesh_places.h"
#include "tensor/runtime/named.h"

/* Launches of a place that are one submission. guess */
#define LAUNCHES 32

/* Is root `r` at each place what an earlier one is, but another part of another
 * tensor? A half of eight ones is four ones. */
static bool
clashes(const struct rt_run *run, uint32_t r)
{
    struct tensor_part parts[2][BELL_MESH_AXES];
    uint32_t i;

    for (i = 0; i < r; i++) {
        if (run->nodes[i] != run->nodes[r])
            continue;
        mesh_layout_parts(run->ctx->mesh, tensor_at(run->tensors[i])->shape,
                          &run->layouts[i], parts[0]);
        mesh_layout_parts(run->ctx->mesh, tensor_at(run->tensors[r])->shape,
                          &run->layouts[r], parts[1]);
        if (memcmp(parts[0], parts[1], sizeof(parts[0])) != 0)
            return true;
    }
    return false;
}

bell_status
mesh_run_split(struct rt_run *run, struct mesh_copies *copies)
{
    const struct uop **roots = host_alloc(run->n * sizeof(*roots) + 1);
    struct uop_graph *graph = host_alloc(sizeof(*graph));
    bell_status status;
    uint32_t i;

    run->nodes = host_alloc(run->n * sizeof(*run->nodes) + 1);
    run->layouts = host_alloc(run->n * sizeof(*run->layouts) + 1);
    if (graph) {
        uop_graph_init(graph);
        run->graph = graph;
    }
    if (roots && graph && run->nodes && run->layouts) {
        for (i = 0; i < run->n; i++)
            roots[i] = tensor_at(run->tensors[i])->uop;
        status = mesh_split(run->ctx, roots, run->n, true, graph, run->nodes,
                            run->layouts, copies);
    } else {
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    }
    host_free(roots);
    for (i = 0; i < run->n && status == BELL_OK; i++)
        run->clashes |= clashes(run, i);
    return status == BELL_OK && run->clashes
               ? bell_fail(BELL_E_UNSUPPORTED, "results that are one node")
               : status;
}

void
mesh_run_end(struct rt_run *run)
{
    struct uop_graph *graph = (struct uop_graph *)(uintptr_t)run->graph;
    uint32_t i;

    if (graph && graph != &run->ctx->graph) {
        uop_graph_fini(graph);
        host_free(graph);
    }
    run->graph = NULL;
    host_free(run->nodes);
    host_free(run->layouts);
    for (i = 1; run->scratches && i < run->rt->places->n; i++)
        rt_bury(run->rt->places->list[i], run->scratches[i]);
    host_free(run->scratches);
}

/* The memory of roots that are one buffer is one, and parted alike: they are
 * shapes of the same elements. */
uint64_t
mesh_result_parts(const struct rt_run *run, const struct rt_plan *plan,
                  uint32_t i, struct tensor_part parts[BELL_MESH_AXES])
{
    const struct tensor_mesh *mesh = run->ctx->mesh;
    uint32_t r = 0;

    while (plan->sched.root_bufs[r] != i)
        r++;
    assert(r < run->n);
    mesh_layout_parts(mesh, tensor_at(run->tensors[r])->shape, &run->layouts[r],
                      parts);
    return tensor_numel(run->tensors[r]);
}

bell_status
mesh_result(struct rt_run *run, const struct rt_plan *plan, uint32_t i,
            struct tensor_buffer **out_buf)
{
    struct tensor_part parts[BELL_MESH_AXES];
    uint64_t n_elems = mesh_result_parts(run, plan, i, parts);

    return tensor_buffer_create_split(run->ctx,
                                      (enum uop_dtype)plan->sched.bufs[i].dtype,
                                      n_elems, parts, out_buf);
}

/* ---- launches ------------------------------------------------------------ */

/* Where buffer i of the plan is at a place. */
static struct mesh_side
side_of(const struct rt_run *run, const struct rt_plan *plan, uint32_t i,
        uint32_t place)
{
    const struct sched_buf *buf = &plan->sched.bufs[i];
    const struct tensor_buffer *tensor;

    assert(i < plan->sched.n_bufs);
    if (buf->leaf < 0 && buf->root < 0)
        return (struct mesh_side){run->scratches[place], plan->offsets[i]};
    tensor = buf->leaf >= 0 ? run->leaves[buf->leaf] : run->results[i];
    return (struct mesh_side){
        place ? tensor->others[place - 1] : tensor->device_mem, 0};
}

/* Launches under way at all places. */
struct launching {
    struct rt_run *run;
    const struct rt_plan *plan;
    struct hcq_cs *cs[BELL_MESH_PLACES]; /* of places 1, 2, ..; or NULL */
    struct rt_queue first; /* place 0's: watched and timed as on one device */
    uint32_t n;            /* kernels in each */
};

static bell_status
flush(struct launching *l)
{
    struct rt_places *places = l->run->rt->places;
    uint32_t p;

    BELL_TRY(rt_queue_end(&l->first));
    l->n = 0;
    for (p = 1; p < places->n; p++) {
        struct hcq_cs *cs = l->cs[p];

        l->cs[p] = NULL;
        if (!cs)
            continue;
        BELL_TRY(hcq_cs_submit(cs, &places->list[p]->last_value));
        BELL_TRY(rt_keep_pace(places->list[p]));
    }
    return BELL_OK;
}

static uint32_t
kernel_args(const struct launching *l, uint32_t i, uint32_t place,
            uint64_t *args)
{
    const struct tensor_runtime *rt = l->run->rt;
    const struct sched_item *item = &l->plan->sched.items[i];
    const struct rt_kernel *kernel = &rt->kernel_list[l->plan->kernels[i]];
    uint32_t n = rt_n_args(kernel), j;

    for (j = 0; j < n; j++) {
        if (j < item->n_bufs) {
            struct mesh_side side =
                side_of(l->run, l->plan, item->bufs[j], place);
            args[j] = side.buf->va + side.offset;
        } else if (kernel->values) {
            args[j] = (uint64_t)kernel->values[j - item->n_bufs];
        } else {
            args[j] = rt_vary_word_at(rt, l->plan, item->vars[j - item->n_bufs],
                                      place);
        }
    }
    return n;
}

static bell_status
launch(struct launching *l, uint32_t i)
{
    struct tensor_runtime *rt = l->run->rt;
    const struct rt_kernel *kernel = &rt->kernel_list[l->plan->kernels[i]];
    uint64_t args[SCHED_MAX_PARAMS];
    uint32_t p, n;

    for (p = 1; p < rt->places->n; p++) {
        n = kernel_args(l, i, p, args);
        if (!l->cs[p])
            BELL_TRY(hcq_queue_begin(rt->places->list[p]->queue, &l->cs[p]));
        hcq_cs_exec(l->cs[p], kernel->others[p - 1], args, n,
                    kernel->facts.grid, kernel->facts.local);
    }
    kernel_args(l, i, 0, args);
    BELL_TRY(rt_queue_kernel(
        &l->first, l->plan->kernels[i],
        rt_tells(rt) ? rt_named_kernel(rt, l->plan, &l->plan->sched.items[i])
                     : NULL,
        args));
    rt->stats.n_flops += kernel->facts.n_flops * rt->places->n;
    rt->stats.n_bytes += kernel->facts.n_bytes * rt->places->n;
    rt->stats.n_launches += rt->places->n;
    return ++l->n == LAUNCHES ? flush(l) : BELL_OK;
}

/* Items i to i + n - 1, which are one exchange. */
static bell_status
exchange_items(struct launching *l, uint32_t i, uint32_t n)
{
    const struct sched_item *items = &l->plan->sched.items[i];
    const struct sched_buf *bufs = l->plan->sched.bufs;
    struct rt_places *places = l->run->rt->places;
    struct mesh_call call = mesh_call_of(items[0].sink->src[0]->arg.i);
    enum uop_dtype dtype = (enum uop_dtype)bufs[items[0].bufs[0]].dtype;
    struct mesh_side *ins, *outs;
    uint64_t elems[MESH_BUCKET_PARTS];
    bell_status status;
    uint32_t k, p;

    BELL_TRY(flush(l));
    ins = host_alloc(2 * (size_t)n * places->n * sizeof(*ins));
    if (!ins)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    outs = ins + (size_t)n * places->n;
    for (k = 0; k < n; k++) {
        assert(items[k].n_outs == 1 && items[k].n_bufs == 2);
        elems[k] = bufs[items[k].bufs[0]].n_elems;
        for (p = 0; p < places->n; p++) {
            outs[k * places->n + p] =
                side_of(l->run, l->plan, items[k].bufs[0], p);
            ins[k * places->n + p] =
                side_of(l->run, l->plan, items[k].bufs[1], p);
        }
    }
    status = n > 1 ? mesh_exchange_run_bucket(places, &call, dtype, elems, n,
                                              ins, outs)
                   : mesh_exchange_run(places, &call, dtype,
                                       bufs[items[0].bufs[1]].n_elems, elems[0],
                                       ins, outs);
    host_free(ins);
    return status;
}

static bell_status
take_scratch(struct rt_run *run, const struct rt_plan *plan)
{
    struct rt_places *places = run->rt->places;
    uint64_t busy;
    uint32_t p;

    run->scratches = host_calloc(places->n, sizeof(struct hcq_buffer *));
    if (!run->scratches)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    run->scratches[0] = run->scratch;
    for (p = 1; p < places->n && plan->scratch_bytes; p++)
        BELL_TRY(rt_memory_create(places->list[p], plan->scratch_bytes,
                                  &run->scratches[p], &busy));
    return BELL_OK;
}

/* Streams that were begun are not submitted. */
static void
abandon(struct launching *l)
{
    struct bell_error_hold hold;
    uint32_t p;

    bell_error_hold(&hold);
    if (l->first.n)
        hcq_cs_discard(l->first.cs);
    for (p = 1; p < l->run->rt->places->n; p++)
        hcq_cs_discard(l->cs[p]);
    bell_error_release(&hold);
}

bell_status
mesh_replay(struct rt_run *run, struct rt_plan *plan)
{
    struct launching l = {.run = run, .plan = plan};
    bell_status status = BELL_OK;
    uint32_t i, n;

    BELL_TRY(take_scratch(run, plan));
    rt_queue_begin(run->rt, &l.first);
    for (i = 0; i < plan->sched.n_items && status == BELL_OK; i += n) {
        n = mesh_bucket_length(&plan->sched.items[i], plan->sched.n_items - i,
                               plan->sched.bufs);
        status = plan->kernels[i] == RT_COLLECTIVE ? exchange_items(&l, i, n)
                                                   : launch(&l, i);
    }
    if (status == BELL_OK)
        status = flush(&l);
    if (status != BELL_OK)
        abandon(&l);
    return status;
}
