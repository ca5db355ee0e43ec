/* Realizes that are noted, and replayed. */
#include "tensor/runtime/capture.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "lower/schedule/overwrite.h"
#include "tensor/runtime/mesh_bucket.h"
#include "tensor/runtime/mesh_tape.h"
#include "tensor/runtime/named.h"
#include "tensor/runtime/place.h"
#include "tensor/runtime/profile.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/tape.h"
#include "tensor/core/trace.h"

#define N_FEEDS     4 /* replays that the host may have given words to */
#define ARENA_ALIGN 256u
#define NO_KERNEL   UINT32_MAX

/* A realize. */
struct step {
    uint32_t plan;
    struct tensor_buffer **bufs; /* by buffer of the plan, references; NULL:
                                  * in the plan's scratch memory */
    uint64_t *words;             /* by value of the plan, and by place */
    int64_t *codes;              /* the same: of a symbol; or 0 */
    struct sched_item *items;    /* of the plan, or in place of them */
    uint32_t *kernels;           /* by item; NO_KERNEL: not compiled yet */
    const char **texts;          /* by item: what it computes; or NULL */
    uint32_t n_items;
    uint32_t scratch; /* number of its span */
};

struct rt_capture {
    struct bell_context *ctx;
    struct tensor_runtime *rt;
    bool saves; /* nothing has an address */
    /* until the end: */
    struct arena notes; /* what steps point to */
    struct step *steps;
    size_t n_steps, cap_steps;
    struct rt_span *spans; /* memory in the arena; items are launches */
    struct tensor_buffer **span_bufs; /* whose it is; NULL: a step's scratch */
    size_t n_spans, cap_spans, cap_span_bufs;
    uint32_t n_launches;

    struct tensor_buffer **kept; /* made of the host's data; references */
    size_t n_kept, cap_kept;
    struct rt_tape *tape;
    uint32_t n_places;
    struct mesh_tape *mesh; /* with several places, in place of a tape */
    struct hcq_buffer *arena, *feeds; /* or NULL */
    struct hcq_buffer **other_feeds;  /* owned; of places 1, 2, ..; or NULL */
    uint64_t arena_va, arena_bytes;
    void *staged; /* where the host does not see the feeds' memory */
    size_t feed_bytes;
    uint32_t feed_slot, feed; /* number of the feed that is next */
    uint64_t fed_until[N_FEEDS];
    int64_t *codes; /* of symbols: a slot each, from first_code on */
    size_t n_codes, cap_codes;
    uint32_t first_code;
};

bell_status
rt_capture_create(struct bell_context *ctx, struct tensor_runtime *saves,
                  struct rt_capture **out)
{
    struct rt_capture *cap = host_calloc(1, sizeof(*cap));

    if (!cap)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a capture");
    arena_init(&cap->notes);
    cap->ctx = ctx;
    cap->rt = saves ? saves : ctx->runtime;
    cap->saves = saves != NULL;
    cap->n_places = cap->rt->places ? cap->rt->places->n : 1;
    *out = cap;
    return BELL_OK;
}

struct tensor_runtime *
rt_capture_runtime(const struct rt_capture *cap)
{
    return cap->rt;
}

static void
drop_notes(struct rt_capture *cap)
{
    uint32_t i;
    size_t s;

    for (s = 0; s < cap->n_steps; s++) {
        const struct step *step = &cap->steps[s];

        for (i = 0; step->bufs && i < cap->rt->plans[step->plan].sched.n_bufs;
             i++) {
            if (step->bufs[i])
                tensor_buffer_release(step->bufs[i]);
        }
    }
    arena_fini(&cap->notes);
    host_free(cap->steps);
    host_free(cap->spans);
    host_free(cap->span_bufs);
    cap->steps = NULL;
    cap->spans = NULL;
    cap->span_bufs = NULL;
    cap->n_steps = cap->n_spans = 0;
}

void
rt_capture_destroy(struct rt_capture *cap)
{
    size_t i;

    if (!cap)
        return;
    drop_notes(cap);
    for (i = 0; i < cap->n_kept; i++) {
        cap->kept[i]->n_kept--;
        tensor_buffer_release(cap->kept[i]);
    }
    host_free(cap->kept);
    host_free(cap->codes);
    rt_tape_destroy(cap->tape);
    mesh_tape_destroy(cap->mesh);
    for (i = 1; cap->other_feeds && i < cap->n_places; i++)
        rt_bury(cap->rt->places->list[i], cap->other_feeds[i - 1]);
    host_free(cap->other_feeds);
    rt_bury(cap->rt, cap->arena);
    rt_bury(cap->rt, cap->feeds);
    host_free(cap->staged);
    host_free(cap);
}

/* ---- noting ---- */

/* The run's leaves and stand-ins for its results, each with a reference. */
static bell_status
note_buffers(struct rt_run *run, const struct rt_plan *plan, struct step *step)
{
    const struct sched_plan *sched = &plan->sched;
    struct tensor_trace *trace = run->ctx->trace;
    uint32_t i;

    for (i = 0; i < sched->n_bufs; i++) {
        const struct sched_buf *buf = &sched->bufs[i];
        if (buf->leaf >= 0)
            step->bufs[i] = run->leaves[buf->leaf];
        else if (buf->root >= 0) {
            struct tensor_part parts[BELL_MESH_AXES] = {{0, 0}};
            uint64_t n = run->rt->places
                             ? mesh_result_parts(run, plan, i, parts)
                             : buf->n_elems;

            BELL_TRY(tensor_stand_in(run->ctx, buf->dtype, n, TENSOR_MADE,
                                     trace->n_made++, parts, &run->results[i]));
            step->bufs[i] = run->results[i];
        } else
            continue;
        tensor_buffer_retain(step->bufs[i]);
    }
    return BELL_OK;
}

static void
mark_buffers(const struct rt_plan *plan, const struct step *step)
{
    uint32_t i, j;

    for (i = 0; i < plan->sched.n_items; i++) {
        const struct sched_item *item = &plan->sched.items[i];
        for (j = 0; j < item->n_bufs; j++) {
            struct tensor_buffer *buf = step->bufs[item->bufs[j]];
            if (!buf)
                continue;
            buf->is_used = true;
            buf->is_written |= j < item->n_outs;
        }
    }
}

static uint32_t
find_code(const struct rt_capture *cap, int64_t code)
{
    uint32_t i;

    for (i = 0; i < cap->n_codes && cap->codes[i] != code; i++)
        continue;
    return i;
}

static bell_status
add_code(struct rt_capture *cap, int64_t code)
{
    if (!code || find_code(cap, code) < cap->n_codes)
        return BELL_OK;
    if (host_grow((void **)&cap->codes, &cap->cap_codes, cap->n_codes + 1,
                  sizeof(*cap->codes)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory capturing");
    cap->codes[cap->n_codes++] = code;
    return BELL_OK;
}

bell_status
rt_capture_run(struct rt_run *run, uint32_t number)
{
    struct rt_capture *cap = run->ctx->trace->capture;
    struct rt_plan *plan = &run->rt->plans[number];
    uint32_t n = plan->sched.n_items, i, p;
    struct arena *notes = &cap->notes;
    struct step *step;

    if (plan->symbols)
        BELL_TRY(rt_sizes_place_most(plan));
    for (i = 0; i < run->n_leaves; i++) {
        if (!run->leaves[i]->device_mem && run->leaves[i]->role == TENSOR_GONE)
            return tensor_fail_gone("bell_realize");
    }
    if (host_grow((void **)&cap->steps, &cap->cap_steps, cap->n_steps + 1,
                  sizeof(*step)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory capturing");
    step = &cap->steps[cap->n_steps++];
    *step = (struct step){
        .plan = number,
        .n_items = n,
        .bufs =
            arena_calloc(notes, plan->sched.n_bufs + 1, sizeof(*step->bufs)),
        .words = arena_calloc(notes, (size_t)plan->n_values * cap->n_places + 1,
                              sizeof(*step->words)),
        .codes = arena_calloc(notes, plan->n_values + 1, sizeof(*step->codes)),
        .items = arena_copy(notes, plan->sched.items, n * sizeof(*step->items)),
        .kernels = arena_copy(notes, plan->kernels, n * sizeof(*step->kernels)),
        .texts = arena_calloc(notes, n + 1, sizeof(*step->texts)),
    };
    run->results = host_calloc(plan->sched.n_bufs + 1, sizeof(*run->results));
    if (notes->failed || !run->results)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory capturing");
    for (i = 0; i < n && cap->n_places == 1; i++)
        step->texts[i] = rt_named_kernel(run->rt, plan, &step->items[i]);
    BELL_TRY(note_buffers(run, plan, step));
    for (i = 0; i < plan->n_values; i++) {
        for (p = 0; plan->steps[i] && p < cap->n_places; p++)
            step->words[i * cap->n_places + p] =
                rt_vary_word_at(run->rt, plan, i, p);
        step->codes[i] = run->rt->values.list[i].code;
        BELL_TRY(add_code(cap, step->codes[i]));
    }
    mark_buffers(plan, step);
    cap->n_launches += plan->sched.n_items;
    return rt_replay_results(run, plan);
}

/* ---- in place ---- */

/* Where the launches use two buffers. */
struct use {
    uint32_t n_old, last_old;    /* uses, and the launch of the last one */
    uint32_t n_last;             /* uses in that one */
    uint32_t n_made, first_made; /* the launch that makes it */
    struct step *step;           /* of that */
    uint32_t item, out, in;      /* slots there; in: of old, if it reads it */
};

static void
find_uses(struct rt_capture *cap, const struct tensor_buffer *old,
          const struct tensor_buffer *made, struct use *use)
{
    uint32_t at = 0, i, j;
    size_t s;

    *use = (struct use){.in = UINT32_MAX};
    for (s = 0; s < cap->n_steps; s++) {
        struct step *step = &cap->steps[s];
        for (i = 0; i < step->n_items; i++, at++) {
            for (j = 0; j < step->items[i].n_bufs; j++) {
                const struct tensor_buffer *buf =
                    step->bufs[step->items[i].bufs[j]];
                if (buf == made && use->n_made++ == 0) {
                    use->first_made = at;
                    use->step = step;
                    use->item = i;
                    use->out = j;
                }
                if (buf == old) {
                    use->n_last = use->n_old++ && use->last_old == at
                                      ? use->n_last + 1
                                      : 1;
                    use->last_old = at;
                    use->in = j;
                }
            }
        }
    }
}

bell_status
rt_capture_overwrite(struct rt_capture *cap, struct tensor_buffer *old,
                     struct tensor_buffer *made, bool *out_done)
{
    struct uop_graph *k = &cap->rt->kernels;
    struct sched_item *item;
    struct use use;
    bool may = false;

    *out_done = false;
    find_uses(cap, old, made, &use);
    if (old->is_written || old->n_elems != made->n_elems ||
        old->dtype != made->dtype || use.n_made == 0 ||
        memcmp(old->parts, made->parts, sizeof(old->parts)) != 0 ||
        (use.n_old && use.last_old > use.first_made))
        return BELL_OK;
    item = &use.step->items[use.item];
    assert(use.out < item->n_outs);
    if (use.n_old && use.last_old == use.first_made) {
        if (use.n_last != 1 || use.in < item->n_outs ||
            use.step->kernels[use.item] == RT_COLLECTIVE)
            return BELL_OK;
        BELL_TRY(sched_may_overwrite(k, item->sink, use.out, use.in, &may));
        if (!may)
            return BELL_OK;
        BELL_TRY(sched_overwrite(k, item, use.out, use.in));
        use.step->kernels[use.item] = NO_KERNEL;
    }
    old->is_used = old->is_written = true;
    *out_done = true;
    return BELL_OK;
}

/* The kernels that are others now. */
static bell_status
compile_changed(struct rt_capture *cap)
{
    const struct uop **sinks = host_calloc(cap->n_launches + 1, sizeof(*sinks));
    uint32_t *kernels = host_calloc(cap->n_launches + 1, sizeof(*kernels));
    bell_status status = BELL_OK;
    uint32_t n = 0, i;
    size_t s;

    if (!sinks || !kernels)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory capturing");
    for (s = 0; status == BELL_OK && s < cap->n_steps; s++) {
        for (i = 0; i < cap->steps[s].n_items; i++) {
            if (cap->steps[s].kernels[i] == NO_KERNEL)
                sinks[n++] = cap->steps[s].items[i].sink;
        }
    }
    if (status == BELL_OK && n)
        status = rt_compile(cap->rt, sinks, n, kernels);
    n = 0;
    for (s = 0; status == BELL_OK && s < cap->n_steps; s++) {
        for (i = 0; i < cap->steps[s].n_items; i++) {
            if (cap->steps[s].kernels[i] == NO_KERNEL)
                cap->steps[s].kernels[i] = kernels[n++];
        }
    }
    host_free(sinks);
    host_free(kernels);
    return status;
}

/* ---- memory ---- */

static bell_status
add_span(struct rt_capture *cap, struct tensor_buffer *buf, uint64_t size_bytes,
         uint32_t at)
{
    if (host_grow((void **)&cap->spans, &cap->cap_spans, cap->n_spans + 1,
                  sizeof(*cap->spans)) != 0 ||
        host_grow((void **)&cap->span_bufs, &cap->cap_span_bufs,
                  cap->n_spans + 1, sizeof(struct tensor_buffer *)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a span");
    cap->span_bufs[cap->n_spans] = buf;
    cap->spans[cap->n_spans++] = (struct rt_span){
        .size_bytes = align_up(size_bytes + !size_bytes, ARENA_ALIGN),
        .first = at,
        .last = at};
    return BELL_OK;
}

/* The span of a result that nobody outside sees; its number is its slot_bytes
 * until it has a place. */
static bell_status
touch_result(struct rt_capture *cap, struct tensor_buffer *buf, uint32_t at)
{
    if (!buf || buf->role != TENSOR_MADE || buf->slot != RT_SLOT_NONE)
        return BELL_OK;
    if (buf->slot_bytes == 0) {
        BELL_TRY(add_span(cap, buf,
                          cap->n_places > 1
                              ? mesh_place_bytes(cap->ctx->mesh, buf)
                              : buf->size_bytes,
                          at));
        buf->slot_bytes = cap->n_spans;
    }
    cap->spans[buf->slot_bytes - 1].last = at;
    return BELL_OK;
}

static bell_status
find_capture_spans(struct rt_capture *cap)
{
    uint32_t at = 0, i, j;
    size_t s;

    for (s = 0; s < cap->n_steps; s++) {
        struct step *step = &cap->steps[s];
        struct rt_plan *plan = &cap->rt->plans[step->plan];
        if (plan->symbols)
            BELL_TRY(rt_sizes_place_most(plan));
        step->scratch = (uint32_t)cap->n_spans;
        if (plan->scratch_bytes)
            BELL_TRY(add_span(cap, NULL, plan->scratch_bytes, at));
        for (i = 0; i < step->n_items; i++, at++) {
            const struct sched_item *item = &step->items[i];
            for (j = 0; j < item->n_bufs; j++)
                BELL_TRY(touch_result(cap, step->bufs[item->bufs[j]], at));
        }
        if (plan->scratch_bytes)
            cap->spans[step->scratch].last = at - 1;
    }
    return BELL_OK;
}

static bell_status
make_arena(struct rt_capture *cap)
{
    uint64_t busy_until;
    size_t i;

    BELL_TRY(find_capture_spans(cap));
    BELL_TRY(rt_place_spans(cap->spans, (uint32_t)cap->n_spans, cap->n_launches,
                            &cap->arena_bytes));
    if (cap->arena_bytes && !cap->saves && cap->n_places == 1)
        BELL_TRY(rt_memory_create(cap->rt, cap->arena_bytes, &cap->arena,
                                  &busy_until));
    cap->arena_va = cap->arena ? cap->arena->va : 0;
    for (i = 0; i < cap->n_spans; i++) {
        if (cap->span_bufs[i])
            cap->span_bufs[i]->slot_bytes =
                cap->arena_va + cap->spans[i].offset;
    }
    return BELL_OK;
}

static bell_status
make_feeds_at(struct rt_capture *cap, struct tensor_runtime *rt,
              struct hcq_buffer **out)
{
    struct bell_error_hold hold;
    bell_status status;

    bell_error_hold(&hold);
    status = hcq_buffer_create(rt->dev, N_FEEDS * cap->feed_bytes,
                               HCQ_MEM_HOST_VISIBLE, out);
    if (status != BELL_E_UNSUPPORTED)
        return status;
    bell_error_release(&hold);
    if (!cap->staged)
        cap->staged = host_calloc(1, cap->feed_bytes);
    if (!cap->staged)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for feeds");
    return hcq_buffer_create(rt->dev, N_FEEDS * cap->feed_bytes, HCQ_MEM_DEVICE,
                             out);
}

/* The host writes what is fed to every place. */
static bell_status
make_other_feeds(struct rt_capture *cap)
{
    uint32_t p;

    cap->staged = host_calloc(1, cap->feed_bytes);
    cap->other_feeds = host_calloc(cap->n_places, sizeof(struct hcq_buffer *));
    if (!cap->staged || !cap->other_feeds)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for feeds");
    for (p = 1; p < cap->n_places; p++)
        BELL_TRY(make_feeds_at(cap, cap->rt->places->list[p],
                               &cap->other_feeds[p - 1]));
    return BELL_OK;
}

static bell_status
make_feeds(struct rt_capture *cap, uint32_t slot, size_t size_bytes)
{
    cap->feed_slot = slot;
    cap->feed_bytes = align_up(size_bytes, ARENA_ALIGN);
    if (size_bytes == 0 || cap->saves)
        return BELL_OK;
    if (cap->n_places > 1)
        BELL_TRY(make_other_feeds(cap));
    return make_feeds_at(cap, cap->rt, &cap->feeds);
}

/* ---- the tape ---- */

static bell_status
keep_buffer(struct rt_capture *cap, struct tensor_buffer *buf)
{
    if (host_grow((void **)&cap->kept, &cap->cap_kept, cap->n_kept + 1,
                  sizeof(struct tensor_buffer *)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory capturing");
    tensor_buffer_retain(buf);
    buf->n_kept++;
    cap->kept[cap->n_kept++] = buf;
    return BELL_OK;
}

static bell_status
memory_arg(struct rt_capture *cap, const struct step *step, uint32_t buf,
           struct rt_arg *out)
{
    const struct rt_plan *plan = &cap->rt->plans[step->plan];
    const struct sched_buf *of = &plan->sched.bufs[buf];
    struct tensor_buffer *tensor = step->bufs[buf];

    out->slot = cap->saves ? RT_SLOT_ARENA : RT_SLOT_NONE;
    out->size_bytes = of->n_elems * uop_dtype_infos[of->dtype].size_bytes;
    if (!tensor) {
        out->value = cap->arena_va + cap->spans[step->scratch].offset +
                     plan->offsets[buf];
        return BELL_OK;
    }
    if (tensor->role == TENSOR_MEMORY) {
        out->buf = tensor;
        out->value = cap->saves || cap->n_places > 1 ? 0 /* of it */
                                                     : tensor->device_mem->va;
        if (cap->saves)
            out->slot = RT_SLOT_KEPT + (uint32_t)cap->n_kept;
        return keep_buffer(cap, tensor);
    }
    if (tensor->slot != RT_SLOT_NONE)
        out->slot = tensor->slot;
    out->value = tensor->slot_bytes;
    return BELL_OK;
}

/* Those of the kernel, or of a step in which places exchange data. */
static bell_status
find_args(struct rt_capture *cap, const struct step *step, uint32_t i,
          struct rt_arg *args, uint32_t *out_n)
{
    const struct sched_item *item = &step->items[i];
    const struct rt_kernel *kernel =
        step->kernels[i] == RT_COLLECTIVE
            ? NULL
            : &cap->rt->kernel_list[step->kernels[i]];
    const int64_t *values = kernel ? kernel->values : NULL;
    uint32_t n = values ? rt_n_args(kernel) : item->n_bufs + item->n_vars, j;

    assert(n <= SCHED_MAX_PARAMS);
    for (j = 0; j < n; j++) {
        uint32_t var =
            values || j < item->n_bufs ? 0 : item->vars[j - item->n_bufs];

        args[j] = (struct rt_arg){.slot = RT_SLOT_NONE,
                                  .is_written = j < item->n_outs};
        if (j < item->n_bufs) {
            BELL_TRY(memory_arg(cap, step, item->bufs[j], &args[j]));
        } else if (values) {
            args[j].value = (uint64_t)values[j - item->n_bufs];
        } else if (step->codes[var]) {
            args[j].slot = cap->first_code + find_code(cap, step->codes[var]);
        } else {
            args[j].words = &step->words[var * cap->n_places];
            args[j].value = *args[j].words;
        }
    }
    *out_n = n;
    return BELL_OK;
}

static bell_status
add_launch(struct rt_capture *cap, const struct step *step, uint32_t i)
{
    struct rt_arg args[SCHED_MAX_PARAMS];
    uint32_t n;

    BELL_TRY(find_args(cap, step, i, args, &n));
    return rt_tape_add(cap->tape, step->kernels[i], step->texts[i], args, n);
}

/* ---- on a mesh ---- */

static bell_status
mesh_item(struct rt_capture *cap, const struct step *step, uint32_t i,
          bool only_notes)
{
    const struct sched_item *item = &step->items[i];
    const struct sched_buf *bufs = cap->rt->plans[step->plan].sched.bufs;
    bool is_call = step->kernels[i] == RT_COLLECTIVE;
    struct rt_arg args[SCHED_MAX_PARAMS];
    struct mesh_call call;
    uint32_t n, j;

    BELL_TRY(find_args(cap, step, i, args, &n));
    if (!is_call)
        n = rt_n_args(&cap->rt->kernel_list[step->kernels[i]]);
    for (j = 0; only_notes && j < n; j++)
        mesh_tape_note(cap->mesh, &args[j]);
    if (only_notes)
        return BELL_OK;
    if (!is_call)
        return mesh_tape_kernel(cap->mesh, step->kernels[i], args, n);
    call = mesh_call_of(item->sink->src[0]->arg.i);
    return mesh_tape_exchange(cap->mesh, &call,
                              (enum uop_dtype)bufs[item->bufs[0]].dtype,
                              bufs[item->bufs[1]].n_elems,
                              bufs[item->bufs[0]].n_elems, &args[1], &args[0]);
}

/* Items i to i + n - 1, which are one exchange. */
static bell_status
mesh_bucket(struct rt_capture *cap, const struct step *step, uint32_t i,
            uint32_t n)
{
    const struct sched_item *items = &step->items[i];
    const struct sched_buf *bufs = cap->rt->plans[step->plan].sched.bufs;
    struct rt_arg ins[MESH_BUCKET_PARTS], outs[MESH_BUCKET_PARTS];
    struct mesh_call call = mesh_call_of(items[0].sink->src[0]->arg.i);
    struct rt_arg args[SCHED_MAX_PARAMS];
    uint32_t k, n_args;

    assert(n <= MESH_BUCKET_PARTS);
    for (k = 0; k < n; k++) {
        BELL_TRY(find_args(cap, step, i + k, args, &n_args));
        outs[k] = args[0];
        ins[k] = args[1];
    }
    return mesh_tape_bucket(cap->mesh, &call,
                            (enum uop_dtype)bufs[items[0].bufs[0]].dtype, ins,
                            outs, n);
}

static bell_status
mesh_step(struct rt_capture *cap, const struct step *step, bool only_notes)
{
    const struct sched_buf *bufs = cap->rt->plans[step->plan].sched.bufs;
    uint32_t i, n;

    for (i = 0; i < step->n_items; i += n) {
        n = only_notes
                ? 1
                : mesh_bucket_length(&step->items[i], step->n_items - i, bufs);
        BELL_TRY(n > 1 ? mesh_bucket(cap, step, i, n)
                       : mesh_item(cap, step, i, only_notes));
    }
    return BELL_OK;
}

static bell_status
end_mesh(struct rt_capture *cap, uint32_t n_slots)
{
    uint32_t pass;
    size_t s;

    BELL_TRY(mesh_tape_create(cap->rt, n_slots, cap->arena_bytes, &cap->mesh));
    for (pass = 0; pass < 2; pass++) {
        if (pass)
            BELL_TRY(mesh_tape_begin(cap->mesh));
        for (s = 0; s < cap->n_steps; s++)
            BELL_TRY(mesh_step(cap, &cap->steps[s], pass == 0));
    }
    drop_notes(cap);
    return mesh_tape_end(cap->mesh);
}

bell_status
rt_capture_end(struct rt_capture *cap, uint32_t n_slots, uint32_t feed_slot,
               size_t feed_bytes)
{
    size_t s;
    uint32_t i;

    BELL_TRY(compile_changed(cap));
    BELL_TRY(make_arena(cap));
    BELL_TRY(make_feeds(cap, feed_slot, feed_bytes));
    cap->first_code = n_slots;
    if (cap->n_places > 1)
        return end_mesh(cap, n_slots);
    BELL_TRY(rt_tape_create(cap->rt, n_slots + (uint32_t)cap->n_codes,
                            cap->n_codes > 0, &cap->tape));
    for (s = 0; s < cap->n_steps; s++) {
        const struct step *step = &cap->steps[s];
        for (i = 0; i < step->n_items; i++)
            BELL_TRY(add_launch(cap, step, i));
    }
    drop_notes(cap);
    return BELL_OK;
}

/* ---- replaying ---- */

bell_status
rt_capture_feed(struct rt_capture *cap, void **out_host)
{
    *out_host = NULL;
    if (!cap->feeds)
        return BELL_OK;
    BELL_TRY(rt_wait(cap->rt, cap->fed_until[cap->feed]));
    BELL_TRY(rt_capture_set_feed(cap, cap->feed_slot, 0));
    *out_host = cap->staged
                    ? cap->staged
                    : (uint8_t *)cap->feeds->host + cap->feed * cap->feed_bytes;
    return BELL_OK;
}

static struct hcq_buffer *
feeds_at(const struct rt_capture *cap, uint32_t place)
{
    return place ? cap->other_feeds[place - 1] : cap->feeds;
}

bell_status
rt_capture_set(struct rt_capture *cap, uint32_t slot,
               const struct tensor_buffer *buf)
{
    uint32_t p;

    if (cap->n_places == 1)
        rt_tape_set(cap->tape, slot, buf->device_mem->va);
    for (p = 0; cap->n_places > 1 && p < cap->n_places; p++)
        BELL_TRY(mesh_tape_set(cap->mesh, slot, p,
                               p ? buf->others[p - 1] : buf->device_mem, 0));
    return BELL_OK;
}

bell_status
rt_capture_set_feed(struct rt_capture *cap, uint32_t slot, size_t offset_bytes)
{
    uint64_t at = cap->feed * cap->feed_bytes + offset_bytes;
    uint32_t p;

    if (cap->n_places == 1)
        rt_tape_set(cap->tape, slot, cap->feeds->va + at);
    for (p = 0; cap->n_places > 1 && p < cap->n_places; p++)
        BELL_TRY(mesh_tape_set(cap->mesh, slot, p, feeds_at(cap, p), at));
    return BELL_OK;
}

/* The host gives every place what the next replay is fed with. */
static bell_status
send_feeds(struct rt_capture *cap)
{
    uint64_t at = cap->feed * cap->feed_bytes;
    uint32_t p;

    for (p = 0; cap->feeds && p < cap->n_places; p++) {
        struct hcq_buffer *feeds = feeds_at(cap, p);

        if (cap->staged && !feeds->host) {
            BELL_TRY(hcq_buffer_write(feeds, at, cap->staged, cap->feed_bytes));
            continue;
        }
        if (cap->staged)
            memcpy((uint8_t *)feeds->host + at, cap->staged, cap->feed_bytes);
        BELL_TRY(hcq_buffer_wrote(feeds, at, cap->feed_bytes));
    }
    return BELL_OK;
}

bell_status
rt_capture_replay(struct rt_capture *cap)
{
    struct tensor_runtime *rt = cap->rt;
    uint64_t start = time_now_ns();
    size_t i;

    rt_profile_call(rt->profile);
    for (i = 0; i < cap->n_codes; i++)
        rt_tape_set(cap->tape, cap->first_code + (uint32_t)i,
                    (uint64_t)dim_value(cap->ctx->dims, cap->codes[i], NULL));
    BELL_TRY(send_feeds(cap));
    BELL_TRY(cap->mesh ? mesh_tape_submit(cap->mesh)
                       : rt_tape_submit(cap->tape));
    cap->fed_until[cap->feed] = rt->last_value;
    cap->feed = (cap->feed + 1) % N_FEEDS;
    rt_profile_span(rt->profile, RT_PROFILE_CALL, "replay of a jit", start, 0);
    rt->stats.submit_ns += time_now_ns() - start;
    rt->stats.n_realizes++;
    return BELL_OK;
}

void
rt_capture_info(const struct rt_capture *cap, struct rt_capture_info *out_info)
{
    size_t i;

    *out_info = (struct rt_capture_info){.n_launches = cap->n_launches};
    if (cap->arena || cap->mesh)
        out_info->n_bytes += cap->arena_bytes * cap->n_places;
    if (cap->feeds)
        out_info->n_bytes += cap->feeds->size_bytes * cap->n_places;
    for (i = 0; i < cap->n_kept; i++)
        out_info->n_bytes += cap->kept[i]->size_bytes;
}

bell_status
rt_capture_status(const struct bell_context *ctx)
{
    if (ctx->runtime->places)
        return mesh_status(ctx->runtime->places);
    return hcq_device_status(ctx->runtime->dev);
}

bell_status
rt_capture_find_parts(const struct bell_context *ctx,
                      const struct uop *const *nodes, size_t n,
                      struct tensor_part (*parts)[BELL_MESH_AXES])
{
    return mesh_parts_of(ctx, nodes, n, parts);
}

void
rt_capture_parts(const struct rt_capture *cap,
                 struct rt_capture_parts *out_parts)
{
    *out_parts = (struct rt_capture_parts){
        .tape = cap->tape,
        .kept = cap->kept,
        .n_kept = cap->n_kept,
        .codes = cap->codes,
        .n_codes = cap->n_codes,
        .arena_bytes = cap->arena_bytes,
    };
}
