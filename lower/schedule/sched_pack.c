/* Kernels that wait for each other in no way are one launch (lower/pack.h).
 *
 * The next kernel is one whose inputs are there and that most others wait for
 * in a row, with all that are alike. One that has waited for long is next, too:
 * its inputs take memory until then. Where memory matters (schedule.c) items
 * come in the order at hand, and a launch takes no more than it may.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "lower/pack.h"

#define MAX_WAIT  8  /* launches */
#define MAX_READY 64 /* kernels looked at */
#define MAX_PARTS 64
#define LONG      16ull /* times as many threads as run at once. guess */

/* A kernel of the plan. */
struct waiting {
    uint32_t height; /* kernels that run after it, in the longest row */
    uint32_t since;  /* launches when its inputs were there */
    bool has_form, shares;
    struct lower_form form;
};

struct launcher {
    struct sched *s;
    struct sched_plan *plan;
    struct waiting *items;
    struct sched_waits waits;
    uint64_t limit_bytes; /* of memory at once; UINT64_MAX: none */
    uint64_t alive_bytes;
    uint32_t *n_touches, *n_left; /* by buffer: items, and those to come */
    uint32_t *ready, n_ready;
    uint32_t n_launches;
    struct sched_item *launches;
};

static bell_status
find_form(struct launcher *l, uint32_t at)
{
    const struct lower_target *target = l->s->target->packs_for;
    struct waiting *w = &l->items[at];
    struct lower_program program;
    const struct uop *sink;
    struct uop_graph g;
    bell_status status;

    assert(at < l->plan->n_items);
    if (w->has_form)
        return BELL_OK;
    if (sched_is_given(&l->plan->items[at])) { /* it has its own launch */
        w->has_form = true;
        return BELL_OK;
    }
    uop_graph_init(&g);
    status = uop_graph_copy(l->plan->items[at].sink, &g, &sink);
    if (status == BELL_OK)
        status = lower_kernel(&g, sink, target, &program);
    if (status == BELL_OK)
        w->shares = lower_form_of(&program, target, &w->form);
    w->form.is_long =
        w->form.n_groups * w->form.n_threads > LONG * l->s->target->n_parallel;
    w->has_form = true;
    uop_graph_fini(&g);
    return status;
}

/* Who waits for whom, and how many in a row. */
static bell_status
find_heights(struct launcher *l)
{
    const struct sched_waits *w = &l->waits;
    uint32_t i, k;

    BELL_TRY(sched_waits_find(l->s, l->plan, &l->waits));
    for (i = l->plan->n_items; i-- > 0;) {
        for (k = w->first_user[i]; k < w->first_user[i + 1]; k++) {
            uint32_t above = l->items[w->users[k]].height + 1;
            if (l->items[i].height < above)
                l->items[i].height = above;
        }
    }
    return BELL_OK;
}

/* Is ready item `a` to be before b? */
static bool
is_sooner(const struct launcher *l, uint32_t a, uint32_t b)
{
    const struct waiting *wa = &l->items[a], *wb = &l->items[b];
    bool late_a = l->n_launches - wa->since >= MAX_WAIT;
    bool late_b = l->n_launches - wb->since >= MAX_WAIT;

    if (l->limit_bytes != UINT64_MAX)
        return a < b;
    if (late_a != late_b)
        return late_a;
    return wa->height != wb->height ? wa->height > wb->height : a < b;
}

/* Arguments of a launch while it is put together. */
struct args {
    uint32_t bufs[SCHED_MAX_PARAMS], vars[SCHED_MAX_PARAMS];
    uint32_t n_bufs, n_vars;
};

static uint32_t
add_new(uint32_t *list, uint32_t n, uint32_t what)
{
    uint32_t i;

    for (i = 0; i < n && list[i] != what; i++)
        ;
    list[i] = what;
    return i == n ? n + 1 : n;
}

/* Adds the kernel's to the launch's; false if they are too many. */
static bool
add_args(struct args *args, const struct sched_item *item)
{
    struct args all = *args;
    uint32_t i;

    if (all.n_bufs + all.n_vars + item->n_bufs + item->n_vars >
        SCHED_MAX_PARAMS)
        return false;
    for (i = 0; i < item->n_bufs; i++)
        all.n_bufs = add_new(all.bufs, all.n_bufs, item->bufs[i]);
    for (i = 0; i < item->n_vars; i++)
        all.n_vars = add_new(all.vars, all.n_vars, item->vars[i]);
    *args = all;
    return true;
}

static uint32_t
slot_of(const uint32_t *list, uint32_t what)
{
    uint32_t i;

    for (i = 0; list[i] != what; i++)
        ;
    return i;
}

/* The kernel, storing to and loading from the slots of its launch; else node by
 * node what it was, as whose form it was chosen. */
static bell_status
move_slots(struct launcher *l, const struct sched_item *item,
           const struct sched_item *launch, const struct uop **out_sink)
{
    const struct uop **list, **moved, **src;
    uint32_t most = 1, k;
    size_t n, i;

    BELL_TRY(uop_toposort(l->s->k, &item->sink, 1, &list, &n));
    for (i = 0; i < n; i++)
        most = list[i]->n_src > most ? list[i]->n_src : most;
    moved = host_alloc(((size_t)item->sink->id + 1) * sizeof(*moved));
    src = host_alloc(most * sizeof(*src));
    for (i = 0; moved && src && i < n; i++) {
        const struct uop *u = list[i];
        union uop_arg arg = u->arg;

        if (u->op == UOP_PARAM)
            arg.i = slot_of(launch->bufs, item->bufs[u->arg.i]);
        else if (u->op == UOP_VAR)
            arg.i = launch->n_bufs +
                    slot_of(launch->vars, item->vars[u->arg.i - item->n_bufs]);
        for (k = 0; k < u->n_src; k++)
            src[k] = moved[u->src[k]->id];
        moved[u->id] =
            uop_new(l->s->k, u->op, u->dtype, u->lanes, arg, src, u->n_src);
    }
    if (moved && src)
        *out_sink = moved[item->sink->id];
    else
        l->s->k->failed = true;
    host_free(list);
    host_free(moved);
    host_free(src);
    return uop_graph_status(l->s->k);
}

/* ---- memory ---- */

static uint64_t
scratch_bytes(const struct sched_plan *plan, uint32_t b)
{
    const struct sched_buf *buf = &plan->bufs[b];

    assert(b < plan->n_bufs);
    return buf->leaf < 0 && buf->root < 0
               ? buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes
               : 0;
}

/* What the item takes that has no memory yet. */
static uint64_t
taken_bytes(const struct launcher *l, uint32_t at)
{
    const struct sched_item *item = &l->plan->items[at];
    uint64_t n = 0;
    uint32_t k;

    for (k = 0; k < item->n_outs; k++) {
        uint32_t b = item->bufs[k];
        n += l->n_left[b] == l->n_touches[b] ? scratch_bytes(l->plan, b) : 0;
    }
    return n;
}

/* Gives back what ready[0..n-1] are the last to touch. */
static void
give_back(struct launcher *l, uint32_t n)
{
    uint32_t i, k;

    for (i = 0; i < n; i++)
        l->alive_bytes += taken_bytes(l, l->ready[i]);
    for (i = 0; i < n; i++) {
        const struct sched_item *item = &l->plan->items[l->ready[i]];
        for (k = 0; k < item->n_bufs; k++) {
            if (--l->n_left[item->bufs[k]] == 0)
                l->alive_bytes -= scratch_bytes(l->plan, item->bufs[k]);
        }
    }
}

static void
count_touches(struct launcher *l)
{
    uint32_t i, k;

    for (i = 0; i < l->plan->n_items; i++) {
        for (k = 0; k < l->plan->items[i].n_bufs; k++)
            l->n_touches[l->plan->items[i].bufs[k]]++;
    }
    memcpy(l->n_left, l->n_touches, l->plan->n_bufs * sizeof(*l->n_left));
}

/* Finds the ready kernels that go into ready[0]'s launch: they come first in
 * ready[] then. *out_n is their number. */
static bell_status
choose_parts(struct launcher *l, struct args *args, uint32_t *out_n)
{
    uint32_t most = l->n_ready < MAX_READY ? l->n_ready : MAX_READY, n = 0, i;
    struct lower_form form = {0};
    uint64_t alive = l->alive_bytes, more;

    *out_n = 1;
    if (most == 1)
        return BELL_OK;
    for (i = 0; i < most && n < MAX_PARTS; i++) {
        uint32_t at = l->ready[i];
        struct lower_form both = form;
        more = taken_bytes(l, at);
        if (n && (alive > l->limit_bytes || more > l->limit_bytes - alive))
            continue;
        BELL_TRY(find_form(l, at));
        if (n == 0)
            both = l->items[at].form;
        if (!l->items[at].shares ||
            (n && !lower_form_join(&both, &l->items[at].form,
                                   l->s->target->packs_for)) ||
            !add_args(args, &l->plan->items[at])) {
            if (n == 0)
                return BELL_OK;
            continue;
        }
        form = both;
        alive += more;
        l->ready[i] = l->ready[n];
        l->ready[n++] = at;
    }
    *out_n = n;
    return BELL_OK;
}

/* The launch's buffers, those that a part stores to first. Their number. */
static uint32_t
sort_bufs(const struct launcher *l, const struct args *args, uint32_t n,
          uint32_t *bufs)
{
    uint32_t n_outs = 0, n_bufs, i, k;

    for (i = 0; i < n; i++) {
        const struct sched_item *part = &l->plan->items[l->ready[i]];
        for (k = 0; k < part->n_outs; k++)
            n_outs = add_new(bufs, n_outs, part->bufs[k]);
    }
    n_bufs = n_outs;
    for (i = 0; i < args->n_bufs; i++)
        n_bufs = add_new(bufs, n_bufs, args->bufs[i]);
    assert(n_bufs == args->n_bufs);
    return n_outs;
}

static bell_status
make_launch(struct launcher *l, const struct args *args, uint32_t n,
            struct sched_item *out)
{
    struct uop_graph *k = l->s->k;
    const struct uop *sinks[MAX_PARTS];
    uint32_t bufs[SCHED_MAX_PARAMS], i;
    union uop_arg none = {.bits = 0};

    *out = l->plan->items[l->ready[0]];
    if (n == 1)
        return BELL_OK;
    *out = (struct sched_item){
        .n_outs = sort_bufs(l, args, n, bufs),
        .n_bufs = args->n_bufs,
        .bufs = arena_copy(&k->arena, bufs, args->n_bufs * sizeof(bufs[0])),
        .n_vars = args->n_vars,
        .vars = arena_copy(&k->arena, args->vars,
                           args->n_vars * sizeof(args->vars[0]) + 1),
    };
    if (!out->bufs || !out->vars)
        return sched_no_memory(l->s);
    for (i = 0; i < n; i++)
        BELL_TRY(move_slots(l, &l->plan->items[l->ready[i]], out, &sinks[i]));
    out->sink = uop_new(k, UOP_SINK, UOP_VOID, 1, none, sinks, n);
    LOG(LOG_SCHED, "launch: %u kernels", n);
    return uop_graph_status(k);
}

static void
make_ready(struct launcher *l, uint32_t at)
{
    assert(at < l->plan->n_items);
    l->items[at].since = l->n_launches;
    l->ready[l->n_ready++] = at;
}

static bell_status
launch_all(struct launcher *l)
{
    const struct sched_plan *plan = l->plan;
    const struct sched_waits *w = &l->waits;
    struct args args;
    uint32_t i, k, n;

    BELL_TRY(find_heights(l));
    count_touches(l);
    for (i = 0; i < plan->n_items; i++) {
        if (l->waits.n_before[i] == 0)
            make_ready(l, i);
    }
    while (l->n_ready) {
        uint32_t most = l->n_ready < MAX_READY ? l->n_ready : MAX_READY;
        for (i = 1; i < most; i++) { /* sorts them: few are new */
            uint32_t at = l->ready[i];
            for (k = i; k > 0 && is_sooner(l, at, l->ready[k - 1]); k--)
                l->ready[k] = l->ready[k - 1];
            l->ready[k] = at;
        }
        args.n_bufs = args.n_vars = 0;
        BELL_TRY(choose_parts(l, &args, &n));
        BELL_TRY(make_launch(l, &args, n, &l->launches[l->n_launches]));
        l->n_launches++;
        give_back(l, n);
        for (i = 0; i < n; i++) {
            uint32_t at = l->ready[i];
            for (k = w->first_user[at]; k < w->first_user[at + 1]; k++) {
                if (--w->n_before[w->users[k]] == 0)
                    make_ready(l, w->users[k]);
            }
        }
        l->n_ready -= n;
        memmove(l->ready, l->ready + n, l->n_ready * sizeof(l->ready[0]));
    }
    return BELL_OK;
}

bell_status
sched_pack(struct sched *s, struct sched_plan *plan, uint64_t limit_bytes)
{
    struct launcher l = {.s = s, .plan = plan, .limit_bytes = limit_bytes};

    l.items = arena_calloc(&s->scratch, plan->n_items + 1, sizeof(*l.items));
    l.ready = sched_numbers(s, plan->n_items);
    l.launches =
        arena_calloc(&s->k->arena, plan->n_items + 1, sizeof(*l.launches));
    l.n_touches =
        arena_calloc(&s->scratch, plan->n_bufs + 1, sizeof(*l.n_touches));
    l.n_left = sched_numbers(s, plan->n_bufs);
    if (!l.items || !l.ready || !l.launches || !l.n_touches || !l.n_left)
        return sched_no_memory(s);
    BELL_TRY(launch_all(&l));
    plan->items = l.launches;
    plan->n_items = l.n_launches;
    return BELL_OK;
}
