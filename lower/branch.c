/* A WHERE computes both of its values. Where the first is much that nothing
 * else takes, such as the reduction of great angles, the program
 *     v = where(c, first, second)
 * becomes
 *     acc = second
 *     if any lane of c:
 *         acc = where(c, first, second), and all that is only for `first`
 *     v = acc
 * WHEREs of one condition that follow each other share the branch.
 */
#include "lower/branch.h"

#include <assert.h>

#define MIN_COST   24   /* ops that a branch must save, for it to pay */
#define MAX_BEHIND 1024 /* places before a WHERE that are looked at */
#define MAX_APART  8    /* places between WHEREs that share a branch */
#define MAX_SHARED 4    /* WHEREs that do */
#define NO_GROUP   UINT32_MAX
#define FIRST_ACC  ((int64_t)1 << 30) /* arg of our ACCs */

/* WHEREs that share a branch, by place. */
struct group {
    uint32_t where[MAX_SHARED], n;
};

/* A program under examination; arrays are by place in the list but where they
 * are by id. */
struct branches {
    struct uop_graph *g;
    uint32_t *place;       /* by id */
    const struct uop **to; /* by id: what the node has become */
    const struct uop *const *ops;
    uint32_t n_ops;
    uint32_t *home; /* innermost loop around: place of its RANGE + 1 */
    uint32_t *n_uses, *inner; /* uses; 0, or those in the group looked at */
    uint32_t *used, *own;     /* places, see use_inner */
    uint32_t n_used, n_own;
    uint32_t *group_of;     /* where it is computed; NO_GROUP: where it was */
    const struct uop **any; /* by id: `to` of a condition, of a vector whether
                               * some lane holds */
    bool *is_condition;     /* of a group's WHEREs */
    struct group *groups;
    uint32_t n_groups;
    const struct uop **out;
    uint32_t n_out;
    const struct uop *last; /* END or ENDIF in the list: it tells IFs apart */
    int64_t n_accs;
};

static uint32_t
branch_place_of(const struct branches *b, const struct uop *u)
{
    return b->place[u->id];
}

static void
look_forward(struct branches *b)
{
    uint32_t loop = 0, i, j;

    for (i = 0; i < b->n_ops; i++) {
        const struct uop *u = b->ops[i];
        if (u->op == UOP_END && loop)
            loop = b->home[loop - 1];
        b->place[u->id] = i;
        b->home[i] = loop;
        b->group_of[i] = NO_GROUP;
        for (j = 0; j < u->n_src; j++)
            b->n_uses[branch_place_of(b, u->src[j])]++;
        if (u->op == UOP_RANGE)
            loop = i + 1;
    }
}

static bool
uses_member(const struct branches *b, const struct group *group,
            const struct uop *u)
{
    uint32_t i, j;

    for (i = 0; i < u->n_src; i++) {
        for (j = 0; j < group->n; j++) {
            if (u->src[i] == b->ops[group->where[j]])
                return true;
        }
    }
    return false;
}

/* The WHERE at place `last`, and those of its condition a little before it that
 * nothing in between takes; the last comes first. */
static void
collect(const struct branches *b, uint32_t last, struct group *out)
{
    const struct uop *cond = b->ops[last]->src[0];
    uint32_t i, k;

    out->where[0] = last;
    out->n = 1;
    for (i = last; i-- > 0 && last - i <= MAX_APART && out->n < MAX_SHARED;) {
        const struct uop *u = b->ops[i];
        bool used = false;
        if (b->home[i] != b->home[last])
            break;
        if (u->op != UOP_WHERE || u->src[0] != cond ||
            b->group_of[i] != NO_GROUP)
            continue;
        out->where[out->n++] = i;
        for (k = i + 1; k <= last && !used; k++)
            used = uses_member(b, out, b->ops[k]);
        out->n -= used;
    }
}

static bool
is_pure(const struct uop *u)
{
    return uop_has(u, UOP_FLAG_ALU) || u->op == UOP_CAST ||
           u->op == UOP_BITCAST || u->op == UOP_BROADCAST;
}

/* One use more by what is the group's: the last makes it the group's, too, if
 * it can be. Used ranges are in used[], the group's alone in own[]. */
static void
use_inner(struct branches *b, const struct uop *u, const struct group *group)
{
    uint32_t at = branch_place_of(b, u), last = group->where[0];

    if (b->inner[at]++ == 0)
        b->used[b->n_used++] = at;
    if (b->inner[at] == b->n_uses[at] && at + MAX_BEHIND >= last &&
        is_pure(u) && b->home[at] == b->home[last] &&
        b->group_of[at] == NO_GROUP && !b->is_condition[at])
        b->own[b->n_own++] = at;
}

/* Counts, for the group's branch, what only its WHEREs' first values take; with
 * `take` it also becomes the group's. */
static uint32_t
cost(struct branches *b, const struct group *group, bool take)
{
    uint32_t i, j, n = 0;

    b->n_used = b->n_own = 0;
    for (j = 0; j < group->n; j++)
        use_inner(b, b->ops[group->where[j]]->src[1], group);
    for (i = 0; i < b->n_own; i++) {
        const struct uop *u = b->ops[b->own[i]];
        n += u->op != UOP_BROADCAST;
        if (take)
            b->group_of[b->own[i]] = b->n_groups;
        for (j = 0; j < u->n_src; j++)
            use_inner(b, u->src[j], group);
    }
    for (i = 0; i < b->n_used; i++)
        b->inner[b->used[i]] = 0;
    return n;
}

/* Inner ones first: what is in a branch is in no other. */
static void
find_groups(struct branches *b)
{
    uint32_t i, j;

    for (i = 0; i < b->n_ops; i++) {
        struct group *group = &b->groups[b->n_groups];
        const struct uop *u = b->ops[i];
        if (u->op != UOP_WHERE || b->group_of[i] != NO_GROUP ||
            !is_pure(u->src[1]))
            continue;
        collect(b, i, group);
        if (cost(b, group, false) < MIN_COST)
            continue;
        (void)cost(b, group, true);
        for (j = 0; j < group->n; j++)
            b->group_of[group->where[j]] = b->n_groups;
        b->is_condition[branch_place_of(b, u->src[0])] = true;
        b->n_groups++;
    }
}

/* ---- the list ---- */

static const struct uop *
put(struct branches *b, const struct uop *u)
{
    return b->out[b->n_out++] = u;
}

static const struct uop *
put_new(struct branches *b, enum uop_op op, const struct uop *like, int64_t arg,
        const struct uop *const *src, uint32_t n_src)
{
    return put(b, uop_new(b->g, op, like ? like->dtype : UOP_VOID,
                          like ? like->lanes : 1, (union uop_arg){.i = arg},
                          src, n_src));
}

/* The node on what its sources have become. */
static void
put_same(struct branches *b, const struct uop *u, const struct uop **buf)
{
    bool changed = false;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        buf[i] = b->to[u->src[i]->id];
        changed |= buf[i] != u->src[i];
    }
    b->to[u->id] = put(b, changed ? uop_new(b->g, (enum uop_op)u->op,
                                            (enum uop_dtype)u->dtype, u->lanes,
                                            u->arg, buf, u->n_src)
                                  : u);
}

/* Behind a condition, once for all its branches. */
static void
put_any(struct branches *b, const struct uop *cond)
{
    const struct uop *c = b->to[cond->id];
    union uop_arg arg = {.i = UOP_OR};

    b->any[cond->id] =
        c->lanes == 1
            ? c
            : put(b, uop_new(b->g, UOP_LANES_REDUCE, UOP_BOOL, 1, arg, &c, 1));
}

static void
put_group(struct branches *b, uint32_t number, const struct uop **buf)
{
    const struct group *group = &b->groups[number];
    const struct uop *acc[MAX_SHARED], *src[MAX_SHARED + 1], *begin;
    uint32_t n = group->n, i;

    for (i = 0; i < n; i++) {
        const struct uop *u = b->ops[group->where[i]];
        const struct uop *second = b->to[u->src[2]->id];
        acc[i] = put_new(b, UOP_ACC, u, FIRST_ACC + b->n_accs++, &second, 1);
    }
    src[0] = b->any[b->ops[group->where[0]]->src[0]->id];
    src[1] = b->last;
    begin = put_new(b, UOP_IF, NULL, 0, src, b->last ? 2 : 1);
    for (i = 0; i <= group->where[0]; i++) {
        if (b->group_of[i] == number)
            put_same(b, b->ops[i], buf);
    }
    for (i = 0; i < n; i++) {
        const struct uop *set[2] = {acc[i], b->to[b->ops[group->where[i]]->id]};
        src[1 + i] = put_new(b, UOP_ACC_SET, NULL, 0, set, 2);
    }
    src[0] = begin;
    b->last = put_new(b, UOP_ENDIF, NULL, 0, src, n + 1);
    for (i = 0; i < n; i++) {
        const struct uop *u = b->ops[group->where[i]];
        const struct uop *get[2] = {acc[i], b->last};
        b->to[u->id] = put_new(b, UOP_ACC_GET, u, 0, get, 2);
    }
}

static bell_status
put_all(struct branches *b)
{
    uint32_t i, max_src = 1;
    const struct uop **buf;

    for (i = 0; i < b->n_ops; i++)
        max_src = b->ops[i]->n_src > max_src ? b->ops[i]->n_src : max_src;
    buf = arena_alloc(&b->g->arena, max_src * sizeof(const struct uop *));
    b->out = arena_alloc(&b->g->arena,
                         (b->n_ops + b->n_groups * (3 * MAX_SHARED + 3)) *
                             sizeof(const struct uop *));
    if (!buf || !b->out)
        return bell_fail(BELL_E_NO_MEMORY, "branches of %u ops: out of memory",
                         b->n_ops);
    for (i = 0; i < b->n_ops; i++) {
        uint32_t group = b->group_of[i];
        if (group == NO_GROUP)
            put_same(b, b->ops[i], buf);
        else if (b->groups[group].where[0] == i)
            put_group(b, group, buf);
        if (b->is_condition[i])
            put_any(b, b->ops[i]);
        if (b->ops[i]->op == UOP_END)
            b->last = b->to[b->ops[i]->id];
    }
    return uop_graph_status(b->g);
}

static bool
has_where(const struct uop *const *ops, uint32_t n_ops)
{
    uint32_t i;

    for (i = 0; i < n_ops && ops[i]->op != UOP_WHERE; i++)
        ;
    return i < n_ops && n_ops > MIN_COST;
}

bell_status
lower_branch(struct uop_graph *g, const struct uop *const *ops, uint32_t n_ops,
             const struct uop ***out_ops, uint32_t *out_n_ops)
{
    struct branches b = {.g = g, .ops = ops, .n_ops = n_ops};
    struct arena *a = &g->arena;

    if (!has_where(ops, n_ops))
        return BELL_OK;
    b.place = arena_alloc(a, g->n_nodes * sizeof(*b.place));
    b.home = arena_alloc(a, n_ops * sizeof(*b.home));
    b.n_uses = arena_calloc(a, n_ops, sizeof(*b.n_uses));
    b.inner = arena_calloc(a, n_ops, sizeof(*b.inner));
    b.used = arena_alloc(a, n_ops * sizeof(*b.used));
    b.own = arena_alloc(a, n_ops * sizeof(*b.own));
    b.group_of = arena_alloc(a, n_ops * sizeof(*b.group_of));
    b.groups = arena_alloc(a, n_ops / MIN_COST * sizeof(*b.groups) +
                                  sizeof(*b.groups));
    b.is_condition = arena_calloc(a, n_ops, sizeof(*b.is_condition));
    b.to = arena_alloc(a, g->n_nodes * sizeof(const struct uop *));
    b.any = arena_alloc(a, g->n_nodes * sizeof(const struct uop *));
    if (a->failed)
        return bell_fail(BELL_E_NO_MEMORY, "branches of %u ops: out of memory",
                         n_ops);
    look_forward(&b);
    find_groups(&b);
    if (!b.n_groups)
        return BELL_OK;
    BELL_TRY(put_all(&b));
    assert(b.n_out > n_ops);
    *out_ops = b.out;
    *out_n_ops = b.n_out;
    return BELL_OK;
}
