/* Collectives: from what is asked for to commands of a graph. */
#include "hcq/hcq_collective_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq_graph_internal.h"

#define PAGE_BYTES 4096u

static_assert(RANKS_MAX + 2 <= HCQ_ARGS_MAX, "a sum of all ranks is a launch");
static_assert(RANKS_MAX <= HCQ_GRAPH_QUEUES_MAX, "a queue for each rank");

/* ---- names --------------------------------------------------------------- */

const char *
hcq_collective_kind_name(enum hcq_collective_kind kind)
{
    static const char *const names[HCQ_COLLECTIVE_KIND_COUNT] = {
        "all-reduce", "reduce-scatter", "all-gather", "broadcast",
        "all-to-all", "gather",         "scatter",    "send",
    };

    return kind < HCQ_COLLECTIVE_KIND_COUNT ? names[kind] : "unknown";
}

const char *
hcq_collective_algorithm_name(enum hcq_collective_algorithm by)
{
    static const char *const names[HCQ_COLLECTIVE_ALGORITHM_COUNT] = {
        "auto", "one-shot", "two-shot", "ring", "nvls"};

    return by < HCQ_COLLECTIVE_ALGORITHM_COUNT ? names[by] : "unknown";
}

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[HCQ_DTYPE_COUNT] = {
    [HCQ_DTYPE_BOOL] = {"bool", 1},     [HCQ_DTYPE_I8] = {"int8", 1},
    [HCQ_DTYPE_U8] = {"uint8", 1},      [HCQ_DTYPE_I32] = {"int32", 4},
    [HCQ_DTYPE_I64] = {"int64", 8},     [HCQ_DTYPE_F16] = {"float16", 2},
    [HCQ_DTYPE_BF16] = {"bfloat16", 2}, [HCQ_DTYPE_F32] = {"float32", 4},
    [HCQ_DTYPE_F64] = {"float64", 8},
};

const char *
hcq_dtype_name(enum hcq_dtype dtype)
{
    return dtype < HCQ_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

uint32_t
hcq_dtype_bytes(enum hcq_dtype dtype)
{
    return dtype < HCQ_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

/* ---- what is asked for --------------------------------------------------- */

static bool
is_sum(enum hcq_collective_kind kind)
{
    return kind == HCQ_COLLECTIVE_ALL_REDUCE ||
           kind == HCQ_COLLECTIVE_REDUCE_SCATTER;
}

static bool
has_root(enum hcq_collective_kind kind)
{
    return kind == HCQ_COLLECTIVE_BROADCAST || kind == HCQ_COLLECTIVE_GATHER ||
           kind == HCQ_COLLECTIVE_SCATTER || kind == HCQ_COLLECTIVE_SEND;
}

static bell_status
check_desc(const struct hcq_collective_desc *desc)
{
    uint64_t n_bytes;
    uint32_t r;

    if (!desc || !desc->ranks)
        return bell_fail(BELL_BAD_MISSING, "collective: %s is NULL",
                         desc ? "the list of ranks" : "the descriptor");
    if (desc->struct_size < sizeof(*desc) ||
        desc->kind >= HCQ_COLLECTIVE_KIND_COUNT ||
        desc->algorithm >= HCQ_COLLECTIVE_ALGORITHM_COUNT ||
        desc->dtype >= HCQ_DTYPE_COUNT)
        return bell_fail(BELL_BAD_VALUE,
                         "collective: a descriptor of %u bytes, %zu are known, "
                         "of kind %u, algorithm %u and dtype %u",
                         desc->struct_size, sizeof(*desc), desc->kind,
                         desc->algorithm, desc->dtype);
    if (desc->n_ranks == 0 || desc->n_ranks > RANKS_MAX)
        return bell_fail(BELL_BAD_SIZE, "%s: %u ranks, expected 1 to %u",
                         hcq_collective_kind_name(desc->kind), desc->n_ranks,
                         RANKS_MAX);
    if ((has_root(desc->kind) && desc->root >= desc->n_ranks) ||
        (desc->kind == HCQ_COLLECTIVE_SEND && desc->target >= desc->n_ranks))
        return bell_fail(BELL_BAD_INDEX,
                         "%s: root %u, target %u: there are %u ranks",
                         hcq_collective_kind_name(desc->kind), desc->root,
                         desc->target, desc->n_ranks);
    if (__builtin_mul_overflow(desc->count,
                               (uint64_t)desc->n_ranks *
                                   hcq_dtype_bytes(desc->dtype) * 4,
                               &n_bytes) ||
        n_bytes > INT64_MAX)
        return bell_fail(BELL_BAD_SIZE, "%s: %llu elements are too many",
                         hcq_collective_kind_name(desc->kind),
                         (unsigned long long)desc->count);
    for (r = 0; r < desc->n_ranks; r++) {
        if (!desc->ranks[r].dev)
            return bell_fail(BELL_BAD_MISSING, "%s: rank %u has no device",
                             hcq_collective_kind_name(desc->kind), r);
    }
    return BELL_OK;
}

/* A side of a rank. */
struct coll_side {
    const char *name;
    const struct hcq_buffer *buf; /* NULL: a slot, or none */
    bool is_slot;
    uint32_t slot;
    uint64_t offset;
};

static struct coll_side
side_of(const struct hcq_collective_rank *rank, bool is_out)
{
    struct coll_side in = {"input", rank->in, rank->has_in_slot, rank->in_slot,
                           rank->in_offset};
    struct coll_side out = {"output", rank->out, rank->has_out_slot,
                            rank->out_slot, rank->out_offset};

    return is_out ? out : in;
}

/* A slot: memory of the graph's as the rank's device sees it. Sums need its
 * begin at a multiple of an element. */
static bell_status
check_slot(const struct hcq_collective_desc *desc, struct hcq_graph *graph,
           uint32_t r, const struct coll_side *side, uint64_t n_bytes)
{
    const char *kind = hcq_collective_kind_name(desc->kind);
    const struct graph_slot *slot;

    if (side->slot >= graph->n_slots || !graph->slots[side->slot].has_home ||
        graph->slots[side->slot].dev != desc->ranks[r].dev)
        return bell_fail(BELL_BAD_INDEX,
                         "%s: the %s of rank %u is slot %u, which is not one "
                         "of %s (hcq_graph_slot_on, hcq_graph_view)",
                         kind, side->name, r, side->slot,
                         hcq_device_name(desc->ranks[r].dev));
    slot = &graph->slots[side->slot];
    if (side->buf)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: the %s of rank %u is a buffer and slot '%s'",
                         kind, side->name, r, graph->names[side->slot].text);
    if (side->offset > slot->size_bytes ||
        n_bytes > slot->size_bytes - side->offset)
        return bell_fail(BELL_BAD_SIZE,
                         "%s: the %s of rank %u: %llu bytes from %llu on of "
                         "slot '%s' of %llu",
                         kind, side->name, r, (unsigned long long)n_bytes,
                         (unsigned long long)side->offset,
                         graph->names[side->slot].text,
                         (unsigned long long)slot->size_bytes);
    if (is_sum(desc->kind) && side->offset % hcq_dtype_bytes(desc->dtype) != 0)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: the %s of rank %u begins %llu bytes behind slot "
                         "'%s', which is not a multiple of a %s",
                         kind, side->name, r, (unsigned long long)side->offset,
                         graph->names[side->slot].text,
                         hcq_dtype_name(desc->dtype));
    return BELL_OK;
}

/* One side of a rank: inside of its memory, aligned for sums. */
static bell_status
check_side(const struct hcq_collective_desc *desc, struct hcq_graph *graph,
           uint32_t r, bool is_out, uint64_t n_bytes)
{
    const struct hcq_collective_rank *rank = &desc->ranks[r];
    const struct coll_side side = side_of(rank, is_out);
    const struct hcq_buffer *buf = side.buf;

    if (n_bytes == 0)
        return BELL_OK;
    if (side.is_slot)
        return check_slot(desc, graph, r, &side, n_bytes);
    if (!buf || buf->dev != rank->dev)
        return bell_fail(BELL_BAD_MISSING,
                         "%s: the %s of rank %u is not a "
                         "buffer of %s",
                         hcq_collective_kind_name(desc->kind), side.name, r,
                         hcq_device_name(rank->dev));
    if (side.offset > buf->size_bytes ||
        n_bytes > buf->size_bytes - side.offset)
        return bell_fail(BELL_BAD_SIZE,
                         "%s: the %s of rank %u: %llu bytes from %llu on of a "
                         "buffer of %llu",
                         hcq_collective_kind_name(desc->kind), side.name, r,
                         (unsigned long long)n_bytes,
                         (unsigned long long)side.offset,
                         (unsigned long long)buf->size_bytes);
    if (is_sum(desc->kind) &&
        (buf->va + side.offset) % hcq_dtype_bytes(desc->dtype) != 0)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: the %s of rank %u begins at 0x%llx, which is not "
                         "a multiple of a %s",
                         hcq_collective_kind_name(desc->kind), side.name, r,
                         (unsigned long long)(buf->va + side.offset),
                         hcq_dtype_name(desc->dtype));
    return BELL_OK;
}

/* Where a rank's own block is in the larger one of its sides. */
static uint64_t
own_block(const struct coll_task *t, uint32_t r, bool is_out)
{
    bool in_out = t->kind == HCQ_COLLECTIVE_ALL_GATHER ||
                  t->kind == HCQ_COLLECTIVE_GATHER;
    bool in_in = t->kind == HCQ_COLLECTIVE_REDUCE_SCATTER ||
                 t->kind == HCQ_COLLECTIVE_SCATTER;

    return (is_out ? in_out : in_in) ? r * t->count * t->elem_bytes : 0;
}

/* Where both begin, if that can be compared: in buffers, or in one slot. What
 * else a slot may be set to is looked at when that is known. */
static bool
find_begins(const struct hcq_collective_rank *rank, uint64_t *out_in,
            uint64_t *out_out)
{
    struct coll_side in = side_of(rank, false), out = side_of(rank, true);

    *out_in = in.offset + (in.buf ? in.buf->va : 0);
    *out_out = out.offset + (out.buf ? out.buf->va : 0);
    if (in.is_slot || out.is_slot)
        return in.is_slot && out.is_slot && in.slot == out.slot;
    return in.buf && out.buf;
}

static bell_status
find_in_place(const struct hcq_collective_desc *desc, struct coll_task *t)
{
    uint32_t r;

    for (r = 0; r < t->n; r++) {
        uint64_t n_in = coll_in_bytes(t, r), n_out = coll_out_bytes(t, r);
        uint64_t in, out;

        if (!n_in || !n_out || !find_begins(&desc->ranks[r], &in, &out) ||
            in + n_in <= out || out + n_out <= in)
            continue;
        if (in + own_block(t, r, false) != out + own_block(t, r, true) ||
            t->kind == HCQ_COLLECTIVE_ALL_TO_ALL ||
            (t->kind == HCQ_COLLECTIVE_SEND && t->root == t->target))
            return bell_fail(BELL_BAD_VALUE,
                             "%s: the output of rank %u overlaps its input%s",
                             hcq_collective_kind_name(t->kind), r,
                             in == out ? ", which this kind does not allow"
                                       : " and does not begin where that does");
        t->in_place[r] = true;
    }
    return BELL_OK;
}

/* Whether a switch may add; only who asks for that is told why not. */
static bell_status
find_team(const struct hcq_collective_desc *desc, struct coll_task *t)
{
    bool is_wanted = desc->algorithm == HCQ_COLLECTIVE_NVLS;
    struct bell_error_hold hold;
    bell_status status;

    if (t->kind != HCQ_COLLECTIVE_ALL_REDUCE)
        return BELL_OK; /* other kinds are refused with the plan */
    if (is_wanted && !coll_team_adds(t->dtype))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "all-reduce by nvls: a switch does not add %s",
                         hcq_dtype_name(t->dtype));
    bell_error_hold(&hold);
    status = coll_check_team(desc->ranks, t->n);
    t->has_team = status == BELL_OK;
    if (t->has_team || !is_wanted)
        bell_error_release(&hold);
    else
        bell_error_prefix("all-reduce by nvls");
    return is_wanted ? status : BELL_OK;
}

/* *t is zeroed. */
static bell_status
make_task(const struct hcq_collective_desc *desc, struct coll_task *t)
{
    BELL_TRY(check_desc(desc));
    t->kind = desc->kind;
    t->in_pairs =
        desc->in_pairs && (desc->kind == HCQ_COLLECTIVE_ALL_REDUCE ||
                           desc->kind == HCQ_COLLECTIVE_REDUCE_SCATTER);
    t->dtype = desc->dtype;
    t->count = desc->count;
    t->elem_bytes = hcq_dtype_bytes(desc->dtype);
    t->n = desc->n_ranks;
    t->root = desc->root;
    t->target = desc->target;
    t->has_root_out =
        has_root(desc->kind) &&
        (desc->ranks[desc->root].out || desc->ranks[desc->root].has_out_slot);
    BELL_TRY(find_in_place(desc, t));
    BELL_TRY(coll_find_links(desc->ranks, t));
    return find_team(desc, t);
}

/* ---- plans --------------------------------------------------------------- */

/* A plan's figures while one is chosen: too large for small stacks. */
struct measures {
    struct coll_traffic traffic;
    struct hcq_collective_info one;
};

/* The best plan by the model, or the one that is asked for. */
static bell_status
pick_plan(const struct coll_task *t, enum hcq_collective_algorithm by,
          struct measures *m, struct coll_plan *out_plan,
          struct hcq_collective_info *info)
{
    enum hcq_collective_algorithm i;
    double times_ns[HCQ_COLLECTIVE_ALGORITHM_COUNT] = {0};
    struct coll_plan best = {.steps = NULL}, plan;
    bool found = false;

    for (i = HCQ_COLLECTIVE_ONE_SHOT; i < HCQ_COLLECTIVE_ALGORITHM_COUNT; i++) {
        if (!coll_can(t, i))
            continue;
        if (coll_plan_make(t, i, &plan) != BELL_OK) {
            coll_plan_fini(&plan);
            coll_plan_fini(&best);
            return bell_error_last()->status;
        }
        coll_measure(t, &plan, &m->traffic, &m->one);
        times_ns[i] = m->one.predicted_ns;
        if (by == HCQ_COLLECTIVE_AUTO
                ? i == HCQ_COLLECTIVE_NVLS ||
                      (found && m->one.predicted_ns >= info->predicted_ns)
                : i != by) {
            coll_plan_fini(&plan);
            continue;
        }
        coll_plan_fini(&best);
        best = plan;
        m->one.struct_size = sizeof(m->one);
        *info = m->one;
        found = true;
    }
    if (!found)
        return bell_fail(BELL_E_UNSUPPORTED,
                         coll_has(t->kind, by)
                             ? "%s by %s: two neighbours do not reach each "
                               "other's memory"
                             : "%s: there is no %s algorithm for it",
                         hcq_collective_kind_name(t->kind),
                         hcq_collective_algorithm_name(by));
    memcpy(info->times_ns, times_ns, sizeof(times_ns));
    *out_plan = best;
    return BELL_OK;
}

static bell_status
choose_plan(const struct coll_task *t, enum hcq_collective_algorithm by,
            struct coll_plan *out_plan, struct hcq_collective_info *info)
{
    struct measures *m = host_calloc(1, sizeof(*m));
    bell_status status;

    if (!m)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for the plan of a collective");
    status = pick_plan(t, by, m, out_plan, info);
    host_free(m);
    return status;
}

bell_status
hcq_collective_explain(const struct hcq_collective_desc *desc,
                       struct hcq_collective_info *out_info)
{
    struct hcq_collective *c;
    bell_status status;

    if (!out_info)
        return bell_fail(BELL_BAD_MISSING, "collective: the result is NULL");
    c = host_calloc(1, sizeof(*c));
    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a collective");
    status = make_task(desc, &c->task);
    if (status == BELL_OK)
        status = choose_plan(&c->task, desc->algorithm, &c->plan, &c->info);
    if (status == BELL_OK)
        hcq_give_info(out_info, &c->info, sizeof(c->info));
    coll_plan_fini(&c->plan);
    host_free(c);
    return status;
}

static bell_status
check_box(const struct hcq_collective_box *box, enum hcq_collective_kind kind,
          enum hcq_collective_algorithm by, enum hcq_dtype dtype,
          uint64_t count)
{
    uint64_t n_bytes;

    if (!box)
        return bell_fail(BELL_BAD_MISSING, "collective: the box is NULL");
    if (box->struct_size < sizeof(*box) || box->kind < HCQ_LINK_PCIE ||
        box->kind >= HCQ_LINK_KIND_COUNT || box->bytes_per_s == 0 ||
        kind >= HCQ_COLLECTIVE_KIND_COUNT ||
        by >= HCQ_COLLECTIVE_ALGORITHM_COUNT || dtype >= HCQ_DTYPE_COUNT)
        return bell_fail(BELL_BAD_VALUE,
                         "collective: a box of %u bytes, %zu are known, with "
                         "links of kind %u and %llu bytes/s; collective %u, "
                         "algorithm %u, dtype %u",
                         box->struct_size, sizeof(*box), box->kind,
                         (unsigned long long)box->bytes_per_s, kind, by, dtype);
    if (box->n_ranks == 0 || box->n_ranks > RANKS_MAX)
        return bell_fail(BELL_BAD_SIZE, "%s: %u ranks, expected 1 to %u",
                         hcq_collective_kind_name(kind), box->n_ranks,
                         RANKS_MAX);
    if (__builtin_mul_overflow(
            count, (uint64_t)box->n_ranks * hcq_dtype_bytes(dtype) * 4,
            &n_bytes) ||
        n_bytes > INT64_MAX)
        return bell_fail(BELL_BAD_SIZE, "%s: %llu elements are too many",
                         hcq_collective_kind_name(kind),
                         (unsigned long long)count);
    return BELL_OK;
}

bell_status
hcq_collective_predict(const struct hcq_collective_box *box,
                       enum hcq_collective_kind kind,
                       enum hcq_collective_algorithm by, enum hcq_dtype dtype,
                       uint64_t count, struct hcq_collective_info *out_info)
{
    struct hcq_collective *c;
    struct coll_task *t;
    bell_status status;
    uint32_t r;

    if (!out_info)
        return bell_fail(BELL_BAD_MISSING, "collective: the result is NULL");
    BELL_TRY(check_box(box, kind, by, dtype, count));
    c = host_calloc(1, sizeof(*c));
    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a collective");
    t = &c->task;
    t->kind = kind;
    t->dtype = dtype;
    t->count = count;
    t->elem_bytes = hcq_dtype_bytes(dtype);
    t->n = box->n_ranks;
    t->target = box->n_ranks - 1;
    t->has_root_out = has_root(kind);
    t->has_team = box->has_team && box->n_ranks > 1;
    t->is_near = box->waits_near;
    for (r = 0; r < t->n; r++)
        t->in_place[r] =
            kind != HCQ_COLLECTIVE_ALL_TO_ALL && kind != HCQ_COLLECTIVE_SEND;
    coll_make_links(t, box);
    status = choose_plan(t, by, &c->plan, &c->info);
    if (status == BELL_OK)
        hcq_give_info(out_info, &c->info, sizeof(c->info));
    coll_plan_fini(&c->plan);
    host_free(c);
    return status;
}

void
hcq_collective_get_info(const struct hcq_collective *c,
                        struct hcq_collective_info *out_info)
{
    hcq_give_info(out_info, &c->info, sizeof(c->info));
}

/* ---- memory -------------------------------------------------------------- */

static bool
is_given(unsigned space)
{
    return space == COLL_IN || space == COLL_OUT;
}

static void
free_memory(struct hcq_collective *c)
{
    unsigned space;
    uint32_t r, i;

    if (c->team)
        c->ranks[0].dev->ops->team_destroy(c->team);
    c->team = NULL;
    for (space = 0; space < COLL_SPACE_COUNT; space++) {
        for (r = 0; r < c->task.n; r++) {
            struct coll_memory *m = &c->memory[space][r];

            for (i = 0; i < c->task.n; i++) {
                if (m->views[i] != m->buf)
                    hcq_buffer_destroy(m->views[i]);
            }
            if (!is_given(space))
                hcq_buffer_destroy(m->buf);
            host_free(m->pages);
        }
    }
    memset(c->memory, 0, sizeof(c->memory));
}

static void
take_side(struct coll_memory *m, const struct hcq_collective_rank *rank,
          bool is_out)
{
    uint32_t i;

    m->buf = is_out ? rank->out : rank->in;
    m->offset = is_out ? rank->out_offset : rank->in_offset;
    m->is_slot = is_out ? rank->has_out_slot : rank->has_in_slot;
    for (i = 0; i < RANKS_MAX; i++)
        m->slots[i] = HCQ_SLOT_NONE;
}

static bell_status
take_memory(struct hcq_collective *c)
{
    unsigned space;
    uint32_t r;

    for (r = 0; r < c->task.n; r++) {
        take_side(&c->memory[COLL_IN][r], &c->ranks[r], false);
        take_side(&c->memory[COLL_OUT][r], &c->ranks[r], true);
        for (space = COLL_COPY; space < COLL_SPACE_COUNT; space++) {
            struct coll_memory *m = &c->memory[space][r];

            m->n_bytes = c->plan.space_bytes[space][r];
            if (m->n_bytes == 0)
                continue;
            if (space == COLL_TEAM)
                m->n_bytes = align_up(m->n_bytes, HCQ_TEAM_BYTES) +
                             HCQ_TEAM_BYTES; /* of which some is aligned */
            if (space != COLL_STAGE) {
                BELL_TRY(
                    hcq_buffer_create(c->ranks[r].dev, m->n_bytes, 0, &m->buf));
                if (space == COLL_TEAM)
                    m->offset = -m->buf->va % HCQ_TEAM_BYTES;
                continue;
            }
            m->n_bytes = align_up(m->n_bytes, PAGE_BYTES);
            m->pages = host_aligned(PAGE_BYTES, m->n_bytes);
            if (!m->pages)
                return bell_fail(BELL_E_NO_MEMORY,
                                 "out of memory for %llu bytes that go through "
                                 "the host",
                                 (unsigned long long)m->n_bytes);
        }
    }
    return BELL_OK;
}

/* The memory as the device of `rank` has it. */
static bell_status
map_view(struct hcq_collective *c, const struct coll_ref *ref, uint32_t rank)
{
    struct coll_memory *m = &c->memory[ref->space][ref->rank];
    struct hcq_device *dev = c->ranks[rank].dev;

    if (m->views[rank] || m->is_slot)
        return BELL_OK;
    if (m->pages)
        return hcq_buffer_create_pinned(dev, m->pages, m->n_bytes,
                                        &m->views[rank]);
    assert(m->buf);
    if (m->buf->dev != dev)
        return hcq_buffer_create_peer(dev, m->buf, &m->views[rank]);
    m->views[rank] = m->buf;
    return BELL_OK;
}

/* *out_refused: the rank that cannot reach *out_owner's memory after all. */
static bell_status
map_views(struct hcq_collective *c, uint32_t *out_refused, uint32_t *out_owner)
{
    size_t i;
    uint32_t k;

    *out_refused = *out_owner = RANKS_MAX;
    for (i = 0; i < c->plan.n_steps; i++) {
        const struct coll_step *step = &c->plan.steps[i];
        uint32_t n_from = coll_n_from(step);

        for (k = 0; k <= n_from; k++) {
            const struct coll_ref *ref =
                k < n_from ? coll_from(&c->plan, step, k) : &step->to;
            bell_status status = map_view(c, ref, step->rank);

            if (status == BELL_E_UNSUPPORTED && ref->space != COLL_STAGE) {
                *out_refused = step->rank;
                *out_owner = ref->rank;
            }
            BELL_TRY(status);
        }
    }
    return BELL_OK;
}

/* The memory of COLL_TEAM becomes a team's, if the plan has some. */
static bell_status
form_team(struct hcq_collective *c)
{
    struct hcq_device *devs[RANKS_MAX];
    struct hcq_buffer *bufs[RANKS_MAX];
    uint64_t offsets[RANKS_MAX];
    struct hcq_team_desc desc = {
        .devs = devs, .bufs = bufs, .offsets = offsets, .n = c->task.n};
    uint32_t r;

    if (!c->plan.space_bytes[COLL_TEAM][0])
        return BELL_OK;
    desc.size_bytes =
        align_up(c->plan.space_bytes[COLL_TEAM][0], HCQ_TEAM_BYTES);
    for (r = 0; r < c->task.n; r++) {
        devs[r] = c->ranks[r].dev;
        bufs[r] = c->memory[COLL_TEAM][r].buf;
        offsets[r] = c->memory[COLL_TEAM][r].offset;
    }
    return devs[0]->ops->team_create(&desc, c->team_va, &c->team);
}

/* Plans and maps; what was thought to be reachable and is not goes through the
 * host. */
static bell_status
plan_and_map(struct hcq_collective *c, enum hcq_collective_algorithm by)
{
    uint32_t refused, owner;
    bell_status status;

    for (;;) {
        BELL_TRY(choose_plan(&c->task, by, &c->plan, &c->info));
        BELL_TRY(take_memory(c));
        status = map_views(c, &refused, &owner);
        if (status == BELL_OK)
            return form_team(c);
        if (status != BELL_E_UNSUPPORTED || refused == RANKS_MAX ||
            by == HCQ_COLLECTIVE_NVLS)
            return status;
        bell_error_clear();
        free_memory(c);
        coll_plan_fini(&c->plan);
        c->task.reads[refused][owner] = c->task.writes[refused][owner] = false;
    }
}

/* The slot as the device of `rank` sees it. */
static bell_status
view_slot(struct hcq_collective *c, struct hcq_graph *graph,
          const struct coll_ref *ref, uint32_t rank)
{
    struct coll_memory *m = &c->memory[ref->space][ref->rank];
    const struct hcq_collective_rank *owner = &c->ranks[ref->rank];
    uint32_t slot = ref->space == COLL_OUT ? owner->out_slot : owner->in_slot;

    if (!m->is_slot || m->slots[rank] != HCQ_SLOT_NONE)
        return BELL_OK;
    m->slots[rank] = c->ranks[rank].dev == owner->dev
                         ? slot
                         : hcq_graph_view(graph, slot, c->ranks[rank].dev);
    if (m->slots[rank] == HCQ_SLOT_NONE)
        return bell_error_set(&graph->error);
    if (is_sum(c->task.kind))
        hcq_graph_align_slot(graph, m->slots[rank], c->task.elem_bytes);
    return BELL_OK;
}

/* For each device that uses a slot. */
static bell_status
view_slots(struct hcq_collective *c, struct hcq_graph *graph)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < c->plan.n_steps; i++) {
        const struct coll_step *step = &c->plan.steps[i];

        BELL_TRY(view_slot(c, graph, &step->to, step->rank));
        for (k = 0; k < coll_n_from(step); k++)
            BELL_TRY(
                view_slot(c, graph, coll_from(&c->plan, step, k), step->rank));
    }
    return BELL_OK;
}

uint32_t
hcq_collective_view(const struct hcq_collective *c, uint32_t rank,
                    bool is_output, uint32_t reader)
{
    const struct coll_memory *m;

    if (rank >= c->task.n || reader >= c->task.n)
        return HCQ_SLOT_NONE;
    m = &c->memory[is_output ? COLL_OUT : COLL_IN][rank];
    return m->is_slot ? m->slots[reader] : HCQ_SLOT_NONE;
}

/* ---- commands ------------------------------------------------------------ */

static struct hcq_graph_arg
arg_of(const struct hcq_collective *c, const struct coll_ref *ref,
       uint32_t rank, uint64_t offset, uint64_t n_bytes, uint32_t access)
{
    const struct coll_memory *m = &c->memory[ref->space][ref->rank];

    if (m->is_slot)
        return hcq_graph_in_slot(m->slots[rank], m->offset + ref->at + offset,
                                 n_bytes, access);
    assert(m->views[rank]);
    return hcq_graph_memory(m->views[rank]->va + m->offset + ref->at + offset,
                            n_bytes, access);
}

/* A launch for `count` elements from `first` on. */
static void
emit_launch(const struct hcq_collective *c, struct hcq_graph *graph,
            const struct coll_step *step, const struct hcq_sum_program *program,
            uint64_t first, uint64_t count)
{
    uint64_t elem = c->task.elem_bytes, groups;
    uint64_t to_elem = step->wide_result ? 4 : elem;
    uint32_t grid[3] = {1, 1, 1}, k;
    struct hcq_graph_arg args[RANKS_MAX + 2];

    args[0] = step->is_team ? hcq_graph_word(c->team_va[step->rank] +
                                             step->to.at + first * to_elem)
                            : arg_of(c, &step->to, step->rank, first * to_elem,
                                     count * to_elem, HCQ_ACCESS_WRITE);
    for (k = 0; k < step->n_terms; k++) {
        uint64_t from_elem = step->wide_first && k == 0 ? 4 : elem;

        args[1 + k] = arg_of(c, coll_from(&c->plan, step, k), step->rank,
                             first * from_elem, count * from_elem,
                             step->is_team ? HCQ_ACCESS_READ | HCQ_ACCESS_WRITE
                                           : HCQ_ACCESS_READ);
    }
    args[1 + k] = hcq_graph_word(count);
    groups = (count + program->group_elems - 1) / program->group_elems;
    assert(groups > 0 && groups <= UINT32_MAX);
    grid[0] = (uint32_t)groups;
    hcq_graph_exec(graph, program->prog, args, k + 2, grid,
                   program->local[0] ? program->local : NULL);
}

static bell_status
emit_sum(const struct hcq_collective *c, struct hcq_graph *graph,
         const struct hcq_collective_desc *desc, const struct coll_step *step)
{
    const struct hcq_sum_kernel kernel = {
        .dtype = desc->dtype,
        .n_terms = step->n_terms,
        .wide_first = step->wide_first,
        .wide_result = step->wide_result,
        .is_team = step->is_team,
        .in_pairs = desc->in_pairs && !step->is_team,
    };
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev = c->ranks[step->rank].dev;
    struct hcq_sum_program program = {.prog = NULL};
    uint64_t first, most;

    if (!desc->get_program)
        return bell_fail(BELL_BAD_MISSING, "%s: nobody gives sum kernels",
                         hcq_collective_kind_name(desc->kind));
    BELL_TRY(desc->get_program(desc->user, dev, &kernel, &program));
    if (!program.prog || program.prog->dev != dev || !program.group_elems)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: the sum kernel that was given is not a program "
                         "of %s with elements for each work-group",
                         hcq_collective_kind_name(desc->kind),
                         hcq_device_name(dev));
    hcq_device_info(dev, &info);
    most = (uint64_t)info.max_grid[0] * program.group_elems;
    for (first = 0; first < step->count; first += most)
        emit_launch(c, graph, step, &program, first,
                    step->count - first < most ? step->count - first : most);
    return BELL_OK;
}

static void
emit_copy(const struct hcq_collective *c, struct hcq_graph *graph,
          const struct coll_step *step)
{
    struct hcq_graph_arg to, from;

    to = arg_of(c, &step->to, step->rank, 0, step->count, HCQ_ACCESS_WRITE);
    from = arg_of(c, coll_from(&c->plan, step, 0), step->rank, 0, step->count,
                  HCQ_ACCESS_READ);
    hcq_graph_copy(graph, c->ranks[step->rank].dev, &to, &from, step->count);
}

static bell_status
emit_steps(const struct hcq_collective *c, struct hcq_graph *graph,
           const struct hcq_collective_desc *desc)
{
    size_t i;

    for (i = 0; i < c->plan.n_steps; i++) {
        if (c->plan.steps[i].n_terms)
            BELL_TRY(emit_sum(c, graph, desc, &c->plan.steps[i]));
        else
            emit_copy(c, graph, &c->plan.steps[i]);
    }
    return BELL_OK;
}

/* ---- the calls ----------------------------------------------------------- */

static bell_status
add_to_graph(struct hcq_collective *c, struct hcq_graph *graph,
             const struct hcq_collective_desc *desc)
{
    uint32_t r;

    BELL_TRY(make_task(desc, &c->task));
    for (r = 0; r < c->task.n; r++) {
        BELL_TRY(check_side(desc, graph, r, false, coll_in_bytes(&c->task, r)));
        BELL_TRY(check_side(desc, graph, r, true, coll_out_bytes(&c->task, r)));
    }
    memcpy(c->ranks, desc->ranks, c->task.n * sizeof(*desc->ranks));
    snprintf(c->name, sizeof(c->name), "%s", desc->name ? desc->name : "");
    BELL_TRY(plan_and_map(c, desc->algorithm));
    BELL_TRY(view_slots(c, graph));
    return emit_steps(c, graph, desc);
}

bell_status
hcq_collective_add(struct hcq_graph *graph,
                   const struct hcq_collective_desc *desc,
                   struct hcq_collective **out_collective)
{
    struct hcq_collective *c;
    bell_status status;

    if (!graph || !out_collective)
        return bell_fail(BELL_BAD_MISSING, "collective: %s is NULL",
                         graph ? "the result" : "the graph");
    c = host_calloc(1, sizeof(*c));
    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a collective");
    status = add_to_graph(c, graph, desc);
    if (status != BELL_OK) {
        hcq_collective_destroy(c);
        return status;
    }
    *out_collective = c;
    return BELL_OK;
}

void
hcq_collective_destroy(struct hcq_collective *c)
{
    struct bell_error_hold hold;

    if (!c)
        return;
    bell_error_hold(&hold);
    free_memory(c);
    bell_error_release(&hold);
    coll_plan_fini(&c->plan);
    host_free(c);
}
