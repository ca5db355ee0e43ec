/* Programs of one launch: a program of several parts.
 *
 * Work-groups below some number do the first part, those from there on the
 * second, and so on: an IF each, whose condition is the same for all threads
 * of a work-group. Parts whose threads work together keep their number of
 * threads, the others take any. LOCAL memory is each part's in turn.
 */
#include "lower/pack.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MAX_PACK_OPS 24000 /* code grows, and the time to compile it */
#define MIN_SHARED   16384 /* LOCAL bytes that a pack may have in any case */
#define UNLIKE       2     /* of ops, between long parts. guess */

/* ---- what goes together ---- */

static bool
needs_its_threads(const struct uop *u)
{
    return u->op == UOP_LOCAL || u->op == UOP_BARRIER ||
           u->op == UOP_PINGPONG || u->op == UOP_SHUFFLE ||
           u->op == UOP_QUAD_TRANSPOSE || u->op == UOP_WMMA ||
           u->op == UOP_WMMA_ROWS || uop_is_wgmma(u) || u->op == UOP_COPY ||
           u->op == UOP_TMA_COPY || u->op == UOP_COMMIT;
}

/* Makes room for n_elems in the nth LOCAL of that dtype, from 0. Its number of
 * all; LOWER_FORM_LOCALS: there are too many. */
static uint32_t
make_room(struct lower_form *form, enum uop_dtype dtype, uint32_t nth,
          uint32_t n_elems)
{
    uint32_t i;

    for (i = 0; i < form->n_locals; i++) {
        if (form->locals[i].dtype == dtype && nth-- == 0)
            break;
    }
    if (i == LOWER_FORM_LOCALS)
        return i;
    if (i == form->n_locals) {
        form->locals[i].dtype = dtype;
        form->locals[i].n_elems = 0;
        form->n_locals++;
    }
    if (form->locals[i].n_elems < n_elems)
        form->locals[i].n_elems = n_elems;
    return i;
}

static uint64_t
local_bytes(const struct lower_form *form)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < form->n_locals; i++)
        n += align_up(
            form->locals[i].n_elems *
                (uint64_t)uop_dtype_infos[form->locals[i].dtype].size_bytes,
            16);
    return n;
}

static uint32_t
n_elems_of(const struct uop *u)
{
    return ((const struct uop_local *)u->arg.data)->n_elems;
}

/* The greatest first, whatever the order in which a program has them: what is
 * as great shares room. */
static void
sort_locals(struct lower_form *form)
{
    uint32_t i, k;

    for (i = 1; i < form->n_locals; i++) {
        struct lower_form_local local = form->locals[i];
        for (k = i; k > 0 && form->locals[k - 1].n_elems < local.n_elems; k--)
            form->locals[k] = form->locals[k - 1];
        form->locals[k] = local;
    }
}

/* Which LOCAL of its dtype it is in a form. */
static uint32_t
rank_of(const struct lower_program *prog, const struct uop *local)
{
    uint32_t i, rank = 0, n = n_elems_of(local);
    bool is_before = true;

    for (i = 0; i < prog->n_ops; i++) {
        const struct uop *u = prog->ops[i];
        is_before &= u != local;
        if (u->op == UOP_LOCAL && u->dtype == local->dtype)
            rank += n_elems_of(u) > n || (is_before && n_elems_of(u) == n);
    }
    return rank;
}

bool
lower_form_of(const struct lower_program *p, const struct lower_target *target,
              struct lower_form *out_form)
{
    uint32_t i, nth[UOP_DTYPE_COUNT] = {0};
    struct lower_form form = {
        .n_threads = p->local[0],
        .n_ops = p->n_ops,
        .least_ops = p->n_ops,
        .most_ops = p->n_ops,
    };

    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];
        form.is_bound |= needs_its_threads(u);
        form.has_matrix |= u->op == UOP_WMMA || uop_is_wgmma(u);
        form.has_wgmma |= uop_is_wgmma(u);
        if (u->op == UOP_LOCAL && make_room(&form, u->dtype, nth[u->dtype]++,
                                            n_elems_of(u)) == LOWER_FORM_LOCALS)
            return false;
    }
    sort_locals(&form);
    form.n_groups = (uint64_t)p->grid[0] * p->grid[1] * p->grid[2];
    *out_form = form;
    return target->is_gpu && p->is_approx == target->is_approx &&
           p->local[1] == 1 && p->local[2] == 1 &&
           (p->local[0] & (p->local[0] - 1)) == 0;
}

bool
lower_form_join(struct lower_form *form, const struct lower_form *part,
                const struct lower_target *target)
{
    struct lower_form both = *form;
    uint32_t i, nth[UOP_DTYPE_COUNT] = {0};
    uint64_t most = local_bytes(form);

    if (form->has_matrix != part->has_matrix ||
        form->has_wgmma != part->has_wgmma ||
        (form->is_bound && part->is_bound &&
         form->n_threads != part->n_threads))
        return false;
    if (part->is_bound ||
        (!form->is_bound && part->n_threads > form->n_threads))
        both.n_threads = part->n_threads;
    both.is_bound |= part->is_bound;
    both.n_ops += part->n_ops;
    both.is_long |= part->is_long;
    if (part->least_ops < both.least_ops)
        both.least_ops = part->least_ops;
    if (part->most_ops > both.most_ops)
        both.most_ops = part->most_ops;
    /* all have the registers that the greediest needs */
    if (both.is_long && both.most_ops > UNLIKE * both.least_ops)
        return false;
    both.n_groups += part->n_groups;
    for (i = 0; i < part->n_locals; i++) {
        enum uop_dtype dtype = part->locals[i].dtype;
        if (make_room(&both, dtype, nth[dtype]++, part->locals[i].n_elems) ==
            LOWER_FORM_LOCALS)
            return false;
    }
    most = most > MIN_SHARED ? most : MIN_SHARED;
    most = most > local_bytes(part) ? most : local_bytes(part);
    /* a part that gets fewer threads gets so many times more work-groups */
    if (both.n_ops > MAX_PACK_OPS || local_bytes(&both) > most ||
        both.n_groups * target->max_threads > target->max_grid[0])
        return false;
    *form = both;
    return true;
}

/* ---- the program ---- */

struct ops {
    const struct uop **list;
    size_t n, cap;
};

struct packer {
    struct uop_graph *g;
    struct lower_form form;
    const struct uop *locals[LOWER_FORM_LOCALS]; /* of the pack */
    const struct uop **to; /* by id of a part's node: the pack's */
    uint64_t n_groups;     /* of the pack */
    uint32_t part;         /* the present one's number */
    struct ops *bodies;    /* by part */
    struct ops *heads;     /* by part: what its condition is made of, and it */
    const struct uop **begin; /* by part: its IF */
    struct ops *at;           /* where new nodes go */
    struct ops out;
    bool failed;
};

static void
push_op(struct packer *p, struct ops *ops, const struct uop *u)
{
    if (host_grow((void **)&ops->list, &ops->cap, ops->n + 1,
                  sizeof(*ops->list)) != 0)
        p->failed = true;
    else
        ops->list[ops->n++] = u;
}

static const struct uop *
index_op(struct packer *p, enum uop_op op, enum uop_dtype dtype,
         const struct uop *a, const struct uop *b)
{
    const struct uop *src[2] = {a, b};
    const struct uop *u =
        uop_new(p->g, op, dtype, 1, (union uop_arg){.bits = 0}, src, 2);

    push_op(p, p->at, u);
    return u;
}

static const struct uop *
index_const(struct packer *p, enum uop_dtype dtype, uint64_t n)
{
    const struct uop *u = uop_const_int(p->g, dtype, (int64_t)n);

    push_op(p, p->at, u);
    return u;
}

static const struct uop *
index_by(struct packer *p, enum uop_op op, const struct uop *a, uint64_t n)
{
    return index_op(p, op, a->dtype, a, index_const(p, a->dtype, n));
}

static const struct uop *
packed_special(struct packer *p, int64_t which, enum uop_dtype dtype,
               uint64_t extent)
{
    const struct uop *size = index_const(p, dtype, extent);
    const struct uop *u = uop_new(p->g, UOP_SPECIAL, dtype, 1,
                                  (union uop_arg){.i = which}, &size, 1);

    push_op(p, p->at, u);
    return u;
}

/* Work-groups of `n_threads` that do the program. */
static uint64_t
groups_of(const struct lower_program *prog, uint32_t n_threads)
{
    uint64_t n = (uint64_t)prog->grid[0] * prog->grid[1] * prog->grid[2];

    return n_threads > prog->local[0] ? (n + n_threads / prog->local[0] - 1) /
                                            (n_threads / prog->local[0])
                                      : n * (prog->local[0] / n_threads);
}

/* Where a part's work-groups and threads are among the pack's. */
struct pack_place {
    uint64_t first, n;  /* work-groups of the pack */
    uint64_t more;      /* of the part's in each of the pack's, */
    uint64_t less;      /* of the pack's for each of the part's: one is 1 */
    uint64_t n_groups;  /* the part's */
    uint32_t n_threads; /* its own of a work-group */
};

/* The number of the part's work-group, and *out_thread in it. */
static const struct uop *
find_group(struct packer *p, const struct pack_place *at, enum uop_dtype dtype,
           const struct uop **out_thread)
{
    const struct uop *group = packed_special(p, 0, dtype, p->n_groups);
    const struct uop *thread = packed_special(p, 4, dtype, p->form.n_threads),
                     *rest;

    group = index_by(p, UOP_SUB, group, at->first);
    if (at->less > 1) {
        rest = index_by(p, UOP_IMOD, group, at->less);
        group = index_by(p, UOP_IDIV, group, at->less);
        rest = index_by(p, UOP_MUL, rest, p->form.n_threads);
        thread = index_op(p, UOP_ADD, dtype, thread, rest);
    } else if (at->more > 1) {
        rest = index_by(p, UOP_IDIV, thread, at->n_threads);
        thread = index_by(p, UOP_IMOD, thread, at->n_threads);
        group = index_by(p, UOP_MUL, group, at->more);
        group = index_op(p, UOP_ADD, dtype, group, rest);
    }
    *out_thread = thread;
    return group;
}

/* The thread as a node of this part alone, where it uses LOCAL memory: what it
 * does there is no other part's, even where it is the same. */
static const struct uop *
own_thread(struct packer *p, const struct lower_program *prog,
           const struct uop *thread)
{
    uint32_t i = 0;

    while (i < prog->n_ops && prog->ops[i]->op != UOP_LOCAL)
        i++;
    if (!p->part || i == prog->n_ops)
        return thread;
    assert(prog->local[0] == p->form.n_threads); /* they work together */
    return index_by(p, UOP_MIN, thread, p->form.n_threads + p->part - 1);
}

/* What stands for SPECIAL `u` of the part. */
static const struct uop *
place_special(struct packer *p, const struct pack_place *at,
              const struct lower_program *prog, const struct uop *u)
{
    const struct uop *thread, *group = find_group(p, at, u->dtype, &thread);

    switch (u->arg.i) {
    case 0:
        if (at->n_groups > prog->grid[0])
            group = index_by(p, UOP_IMOD, group, prog->grid[0]);
        return group;
    case 1:
        group = index_by(p, UOP_IDIV, group, prog->grid[0]);
        return index_by(p, UOP_IMOD, group, prog->grid[1]);
    case 2:
        return index_by(p, UOP_IDIV, group,
                        (uint64_t)prog->grid[0] * prog->grid[1]);
    case 4:
        return own_thread(p, prog, thread);
    default: /* one of one */
        return index_const(p, u->dtype, 0);
    }
}

/* When a thread of the pack does the part. */
static const struct uop *
place_gate(struct packer *p, const struct pack_place *at)
{
    const struct uop *group = packed_special(p, 0, UOP_I32, p->n_groups),
                     *thread;
    const struct uop *gate =
        index_op(p, UOP_CMPLT, UOP_BOOL, group,
                 index_const(p, UOP_I32, at->first + at->n));

    if (at->first)
        gate =
            index_op(p, UOP_AND, UOP_BOOL, gate,
                     index_op(p, UOP_CMPLT, UOP_BOOL,
                              index_const(p, UOP_I32, at->first - 1), group));
    if (at->n * at->more > at->n_groups) {
        group = find_group(p, at, UOP_I32, &thread);
        gate = index_op(p, UOP_AND, UOP_BOOL, gate,
                        index_op(p, UOP_CMPLT, UOP_BOOL, group,
                                 index_const(p, UOP_I32, at->n_groups)));
    }
    return gate;
}

/* The node of the part as the pack has it. RANGEs, ACCs and IFs are each part's
 * own. */
static const struct uop *
move_node(struct packer *p, const struct pack_place *at,
          const struct lower_program *prog, const struct uop *u)
{
    const struct uop *small[16], **src = small;
    union uop_arg arg = u->arg;
    uint32_t n_src = u->n_src, i;

    if (u->op == UOP_SPECIAL)
        return place_special(p, at, prog, u);
    if (u->op == UOP_LOCAL)
        return p->locals[make_room(&p->form, u->dtype, rank_of(prog, u), 0)];
    if (u->op == UOP_RANGE)
        arg.i =
            uop_range_arg(uop_range_id(u) + (p->part << 8), uop_range_axis(u));
    else if (u->op == UOP_ACC)
        arg.i = u->arg.i + ((int64_t)p->part << 32);
    if (u->n_src > ARRAY_LEN(small))
        src = arena_alloc(&p->g->arena, u->n_src * sizeof(*src));
    if (!src)
        return &uop_failed;
    for (i = 0; i < u->n_src; i++)
        src[i] = p->to[u->src[i]->id];
    if (u->op == UOP_IF) {
        assert(n_src < ARRAY_LEN(small));
        src[n_src++] = p->begin[p->part];
    }
    return uop_new(p->g, u->op, u->dtype, u->lanes, arg, src, n_src);
}

static void
move_part(struct packer *p, const struct lower_program *prog, uint64_t *first)
{
    uint32_t n_threads = p->form.n_threads;
    struct pack_place at = {.first = *first, .more = 1, .less = 1};
    const struct uop *gate;
    uint32_t i;

    at.n_threads = prog->local[0];
    at.n_groups = (uint64_t)prog->grid[0] * prog->grid[1] * prog->grid[2];
    if (n_threads > at.n_threads)
        at.more = n_threads / at.n_threads;
    else
        at.less = at.n_threads / n_threads;
    at.n = groups_of(prog, n_threads);
    *first += at.n;
    p->at = &p->heads[p->part];
    gate = place_gate(p, &at);
    p->begin[p->part] = uop_new(p->g, UOP_IF, UOP_VOID, 1,
                                (union uop_arg){.bits = 0}, &gate, 1);
    p->at = &p->bodies[p->part];
    for (i = 0; i < prog->n_ops && !p->g->failed && !p->failed; i++) {
        const struct uop *u = prog->ops[i];
        p->to[u->id] = move_node(p, &at, prog, u);
        push_op(p, p->at, p->to[u->id]);
    }
}

/* Notes by id who has the nodes: 0 nobody yet, who + 1, or SHARED. */
#define SHARED UINT32_MAX

static void
note_owner(const struct ops *ops, uint32_t who, uint32_t *owner)
{
    size_t i;

    for (i = 0; i < ops->n; i++) {
        uint32_t *by = &owner[ops->list[i]->id];
        *by = *by == 0 || *by == who + 1 ? who + 1 : SHARED;
    }
}

#define LISTED (UINT32_MAX - 1)

/* Adds those to the program that are not in it yet; all, or what is shared. */
static void
list_ops(struct packer *p, const struct ops *ops, uint32_t *owner, bool all)
{
    size_t i;

    for (i = 0; i < ops->n; i++) {
        uint32_t *by = &owner[ops->list[i]->id];
        if (*by == LISTED || (!all && *by != SHARED))
            continue;
        *by = LISTED;
        push_op(p, &p->out, ops->list[i]);
    }
}

/* The parts one after the other, behind what several of them have. */
static bell_status
list_parts(struct packer *p, uint32_t n)
{
    uint32_t *owner, i;

    BELL_TRY(uop_graph_status(p->g));
    owner = host_calloc(p->g->n_nodes, sizeof(*owner));
    if (!owner || p->failed) {
        host_free(owner);
        return bell_fail(BELL_E_NO_MEMORY, "packing %u programs: out of memory",
                         n);
    }
    for (i = 0; i < n; i++) {
        note_owner(&p->bodies[i], 2 * i, owner);
        note_owner(&p->heads[i], 2 * i + 1, owner);
    }
    for (i = 0; i < n; i++) {
        list_ops(p, &p->bodies[i], owner, false);
        list_ops(p, &p->heads[i], owner, false);
    }
    for (i = 0; i < n; i++) {
        const struct uop *begin = p->begin[i];
        union uop_arg none = {.bits = 0};
        list_ops(p, &p->heads[i], owner, true);
        push_op(p, &p->out, begin);
        list_ops(p, &p->bodies[i], owner, true);
        push_op(p, &p->out,
                uop_new(p->g, UOP_ENDIF, UOP_VOID, 1, none, &begin, 1));
    }
    host_free(owner);
    BELL_TRY(uop_graph_status(p->g));
    return p->failed ? bell_fail(BELL_E_NO_MEMORY,
                                 "packing %u programs: out of memory", n)
                     : BELL_OK;
}

static bell_status
make_locals(struct packer *p)
{
    uint32_t i;

    for (i = 0; i < p->form.n_locals; i++) {
        struct uop_local *local = arena_alloc(&p->g->arena, sizeof(*local));
        union uop_arg arg = {.data = local};
        if (!local)
            return bell_fail(BELL_E_NO_MEMORY,
                             "packing programs: out of memory");
        local->id = i;
        local->n_elems = p->form.locals[i].n_elems;
        p->locals[i] =
            uop_new(p->g, UOP_LOCAL, p->form.locals[i].dtype, 1, arg, NULL, 0);
    }
    return uop_graph_status(p->g);
}

static bell_status
pack_parts(struct packer *p, const struct lower_program *parts, uint32_t n,
           struct lower_program *out)
{
    uint32_t n_args = 0, i;
    uint64_t first = 0;

    BELL_TRY(make_locals(p));
    for (i = 0; i < n; i++)
        p->n_groups += groups_of(&parts[i], p->form.n_threads);
    for (i = 0; i < n; i++) {
        p->part = i;
        move_part(p, &parts[i], &first);
        out->n_params = parts[i].n_params > out->n_params ? parts[i].n_params
                                                          : out->n_params;
        n_args = parts[i].n_params + parts[i].n_vars > n_args
                     ? parts[i].n_params + parts[i].n_vars
                     : n_args;
        out->n_flops += parts[i].n_flops;
        out->n_bytes += parts[i].n_bytes;
    }
    assert(p->g->failed || p->failed || first == p->n_groups);
    out->n_vars = n_args - out->n_params; /* they come after all buffers */
    BELL_TRY(list_parts(p, n));
    out->ops =
        arena_copy(&p->g->arena, p->out.list, p->out.n * sizeof(*p->out.list));
    out->n_ops = (uint32_t)p->out.n;
    out->grid[0] = (uint32_t)p->n_groups;
    out->local[0] = p->form.n_threads;
    out->grid[1] = out->grid[2] = out->local[1] = out->local[2] = 1;
    out->shared_bytes = (uint32_t)local_bytes(&p->form);
    out->is_approx = parts[0].is_approx;
    out->want_regs = 0;
    out->name = arena_printf(&p->g->arena, "%s_and_%u", parts[0].name, n - 1);
    return out->ops && out->name
               ? BELL_OK
               : bell_fail(BELL_E_NO_MEMORY,
                           "packing %u programs: out of memory", n);
}

/* So many ids at least as any part has. */
static size_t
most_nodes(const struct lower_program *parts, uint32_t n)
{
    size_t most = 1;
    uint32_t i, k;

    for (i = 0; i < n; i++) {
        for (k = 0; k < parts[i].n_ops; k++) {
            if (parts[i].ops[k]->id >= most)
                most = (size_t)parts[i].ops[k]->id + 1;
        }
    }
    return most;
}

bell_status
lower_pack(struct uop_graph *g, const struct lower_program *parts, uint32_t n,
           const struct lower_target *target, struct lower_program *out_program)
{
    struct packer p = {.g = g};
    struct lower_program out = {0};
    struct lower_form form;
    bell_status status;
    uint32_t i;

    assert(n > 0);
    for (i = 0; i < n; i++) {
        if (!lower_form_of(&parts[i], target, i ? &form : &p.form) ||
            (i && !lower_form_join(&p.form, &form, target)))
            return bell_fail(BELL_E_UNSUPPORTED, "%s takes no part in a launch",
                             parts[i].name);
    }
    p.to = host_alloc(most_nodes(parts, n) * sizeof(*p.to));
    p.bodies = host_calloc(n, sizeof(*p.bodies));
    p.heads = host_calloc(n, sizeof(*p.heads));
    p.begin = arena_alloc(&g->arena, n * sizeof(*p.begin));
    if (p.to && p.bodies && p.heads && p.begin)
        status = pack_parts(&p, parts, n, &out);
    else
        status = bell_fail(BELL_E_NO_MEMORY,
                           "packing %u programs: out of memory", n);
    for (i = 0; i < n; i++) {
        if (p.bodies)
            host_free(p.bodies[i].list);
        if (p.heads)
            host_free(p.heads[i].list);
    }
    host_free(p.bodies);
    host_free(p.heads);
    host_free(p.to);
    host_free(p.out.list);
    BELL_TRY(status);
    *out_program = out;
    return BELL_OK;
}
