/* Matching, replacing, and applying rules over a graph. */
#include "uops/rewrite.h"
#include "uops/rewrite_internal.h"
#include "uops/uops_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

static bool
in_class(const struct uop *u, enum rw_class cls)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[u->dtype];

    switch (cls) {
    case RW_CLASS_ALL:
        return true;
    case RW_CLASS_INT:
        return info->is_int;
    case RW_CLASS_SINT:
        return info->is_int && info->is_signed;
    case RW_CLASS_BOOL:
        return u->dtype == UOP_BOOL;
    case RW_CLASS_FLOAT:
        return info->is_float;
    case RW_CLASS_CONST:
        return uop_scalar_const(u) != NULL;
    }
    return false;
}

static bool
match_pat(const struct rw_set *set, uint16_t at, const struct uop *u,
          struct rw_match *m)
{
    const struct rw_pat *pat = &set->pats[at];
    const struct uop *c;
    union uop_arg arg;
    uint8_t i;

    switch ((enum rw_kind)pat->kind) {
    case RW_INT:
        c = uop_scalar_const(u);
        return c && !uop_is_float(c) &&
               c->arg.i == uop_wrap_int(c->dtype, pat->i);
    case RW_FLOAT:
        c = uop_scalar_const(u);
        arg.f = pat->f;
        return c && uop_is_float(c) && c->arg.bits == arg.bits;
    case RW_ANY_OF_OP:
        if (u->op != pat->op)
            return false;
        break;
    case RW_OP:
        if (u->op != pat->op || u->n_src != pat->n_child)
            return false;
        for (i = 0; i < pat->n_child; i++) {
            if (!match_pat(set, pat->child[i], u->src[i], m))
                return false;
        }
        break;
    case RW_ANY:
        break;
    }
    if (pat->cls && !in_class(u, (enum rw_class)pat->cls))
        return false;
    if (pat->var < 0)
        return true;
    if (m->v[pat->var])
        return m->v[pat->var] == u;
    m->v[pat->var] = u;
    return true;
}

/* What a replacement is made with. */
struct maker {
    struct uop_graph *g;
    const struct rw_set *set;
    const struct rw_match *m;
    const struct uop_dims *shape; /* of the root, in the tensor graph */
};

static const struct uop *make_to(const struct maker *mk, uint16_t at,
                                 const struct uop *like);

/* A literal, of the dtype and width of `like`. */
static const struct uop *
make_literal(const struct maker *mk, const struct rw_pat *pat,
             const struct uop *like)
{
    union uop_arg arg;

    if (uop_is_float(like))
        arg.f = uop_round_float(
            like->dtype, pat->kind == RW_FLOAT ? pat->f : (double)pat->i);
    else
        arg.i = uop_wrap_int(like->dtype, pat->i);
    return uop_make_const(mk->g, like->dtype, like->lanes, arg);
}

static const struct uop *
make_op(const struct maker *mk, const struct rw_pat *pat)
{
    const struct uop *src[RW_MAX_CHILD], *like = NULL;
    const struct uop *root = mk->m->root;
    enum uop_dtype dtype = root->dtype;
    union uop_arg none = {.bits = 0};
    uint8_t i;

    for (i = 0; i < pat->n_child; i++) {
        const struct rw_pat *child = &mk->set->pats[pat->child[i]];
        src[i] = NULL;
        if (child->kind == RW_INT || child->kind == RW_FLOAT)
            continue;
        src[i] = make_to(mk, pat->child[i], root);
        if (!like || (pat->op == UOP_WHERE && i == 1))
            like = src[i];
    }
    if (!like)
        like = root;
    for (i = 0; i < pat->n_child; i++) {
        if (!src[i])
            src[i] = make_literal(mk, &mk->set->pats[pat->child[i]], like);
    }
    if (uop_op_infos[pat->op].flags & UOP_FLAG_CMP)
        dtype = UOP_BOOL;
    else if (pat->op != UOP_CAST && pat->op != UOP_BITCAST)
        dtype = like->dtype;
    if (mk->shape)
        return uop_new_shaped(mk->g, pat->op, dtype, none, src, pat->n_child,
                              mk->shape);
    return uop_make(mk->g, pat->op, dtype, root->lanes, none, src,
                    pat->n_child);
}

static const struct uop *
make_to(const struct maker *mk, uint16_t at, const struct uop *like)
{
    const struct rw_pat *pat = &mk->set->pats[at];

    if (pat->kind == RW_ANY)
        return mk->m->v[pat->var];
    if (pat->kind == RW_OP)
        return make_op(mk, pat);
    return make_literal(mk, pat, like);
}

static void
log_rewrite(const struct rw_rule *rule, const struct uop *before,
            const struct uop *after)
{
    char a[400], b[400];

    log_print(LOG_RW, "%s: %s -> %s", rule->name,
              uop_expr_str(before, a, sizeof(a)),
              uop_expr_str(after, b, sizeof(b)));
}

static const struct uop *
apply_row(struct uop_graph *g, const struct rw_set *set,
          const struct rw_row *row, const struct uop *u)
{
    const struct rw_rule *rule = &set->rules[row->rule];
    struct maker mk = {g, set, NULL, NULL};
    struct rw_match m;
    uint8_t i;

    for (i = 0; i < row->n_vars; i++)
        m.v[i] = NULL;
    m.root = u;
    if (!match_pat(set, row->pat, u, &m))
        return NULL;
    if (rule->build)
        return rule->build(g, &m);
    mk.m = &m;
    if (u->id < g->n_nodes && g->nodes[u->id] == u)
        mk.shape = g->shapes[u->id];
    return make_to(&mk, row->to, u);
}

static bool
row_may_match(const struct rw_row *row, const struct uop *u)
{
    return (row->need[0] == UOP_OP_COUNT ||
            (u->n_src > 0 && u->src[0]->op == row->need[0])) &&
           (row->need[1] == UOP_OP_COUNT ||
            (u->n_src > 1 && u->src[1]->op == row->need[1]));
}

const struct uop *
rw_apply(struct uop_graph *g, struct rw_set *set, const struct uop *u,
         const struct rw_rule **out_rule)
{
    uint16_t i, end;

    if (!atomic_load_explicit(&set->ready, memory_order_acquire))
        rw_set_parse(set);
    end = set->first[u->op + 1];
    for (i = set->first[u->op]; i < end; i++) {
        const struct rw_row *row = &set->rows[i];
        const struct uop *r;
        if (!row_may_match(row, u))
            continue;
        r = apply_row(g, set, row, u);
        if (!r || r == u)
            continue;
        if (LOG_ON(LOG_RW))
            log_rewrite(&set->rules[row->rule], u, r);
        if (out_rule)
            *out_rule = &set->rules[row->rule];
        return r;
    }
    return NULL;
}

/* State of rw_graph. */
struct walk {
    struct uop_graph *g;
    struct rw_set *set;
    const struct uop **to; /* by id: what the node became in the end */
    size_t cap_to, n_to;
    const struct uop **stack;
    size_t cap_stack, n_stack;
    const struct uop **next; /* by id: what the node is to become */
    size_t cap_next, n_next;
    const struct uop **src; /* scratch */
    size_t cap_src;
    const struct rw_rule *last; /* the rule used last */
    uint64_t n_left; /* rewrites before we say that rules go in circles */
};

static bell_status
fail_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "rewriting a graph");
}

/* Makes to[] and next[] cover every id, new entries NULL. */
static bell_status
cover_ids(struct walk *w)
{
    size_t n = w->g->n_nodes;

    if (n <= w->n_to)
        return BELL_OK;
    if (host_grow((void **)&w->to, &w->cap_to, n, sizeof(*w->to)) != 0 ||
        host_grow((void **)&w->next, &w->cap_next, n, sizeof(*w->next)) != 0)
        return fail_memory();
    memset(w->to + w->n_to, 0, (n - w->n_to) * sizeof(*w->to));
    memset(w->next + w->n_to, 0, (n - w->n_to) * sizeof(*w->next));
    w->n_to = n;
    return BELL_OK;
}

static bell_status
push(struct walk *w, const struct uop *u)
{
    if (host_grow((void **)&w->stack, &w->cap_stack, w->n_stack + 1,
                  sizeof(*w->stack)) != 0)
        return fail_memory();
    w->stack[w->n_stack++] = u;
    return BELL_OK;
}

/* Pushes the sources that are not done; *out_ready when there are none. */
static bell_status
push_sources(struct walk *w, const struct uop *u, bool *out_ready)
{
    bool ready = true;
    uint32_t i;

    for (i = u->n_src; i-- > 0;) {
        if (!w->to[u->src[i]->id]) {
            BELL_TRY(push(w, u->src[i]));
            ready = false;
        }
    }
    *out_ready = ready;
    return BELL_OK;
}

/* `u` with its sources replaced by what they became. */
static bell_status
renew(struct walk *w, const struct uop *u, const struct uop **out_node)
{
    const struct uop_dims *shape = w->g->shapes[u->id];
    bool changed = false;
    uint32_t i;

    if (host_grow((void **)&w->src, &w->cap_src, u->n_src + 1u,
                  sizeof(*w->src)) != 0)
        return fail_memory();
    for (i = 0; i < u->n_src; i++) {
        w->src[i] = w->to[u->src[i]->id];
        changed |= w->src[i] != u->src[i];
    }
    if (!changed)
        *out_node = u;
    else if (shape)
        *out_node = uop_new_shaped(w->g, u->op, u->dtype, u->arg, w->src,
                                   u->n_src, shape);
    else
        *out_node =
            uop_make(w->g, u->op, u->dtype, u->lanes, u->arg, w->src, u->n_src);
    return uop_graph_status(w->g);
}

static bell_status
fail_endless(const struct uop *u, const struct rw_rule *rule)
{
    char text[200];

    return bell_fail(
        BELL_E_INTERNAL, "rewriting does not end; last rule: %s, at %s",
        rule ? rule->name : "none", uop_expr_str(u, text, sizeof(text)));
}

/* One step for the node on top of the stack: either its sources are pushed,
 * or it is renewed and rewritten once and what it became is pushed, or it is
 * done. */
static bell_status
step(struct walk *w)
{
    const struct uop *u = w->stack[w->n_stack - 1], *r = u, *better;
    const struct rw_rule *rule = NULL;
    bool ready;

    if (!w->to[u->id] && w->next[u->id]) { /* what it became is done */
        w->to[u->id] = w->to[w->next[u->id]->id];
        if (!w->to[u->id]) /* it became something made of itself */
            return fail_endless(u, w->last);
    }
    if (w->to[u->id]) {
        w->n_stack--;
        return BELL_OK;
    }
    BELL_TRY(push_sources(w, u, &ready));
    if (!ready)
        return BELL_OK;
    BELL_TRY(renew(w, u, &r));
    better = rw_apply(w->g, w->set, r, &rule);
    BELL_TRY(uop_graph_status(w->g));
    BELL_TRY(cover_ids(w));
    if (better) {
        r = better;
        w->last = rule;
    }
    if (r == u) {
        w->to[u->id] = u;
        w->n_stack--;
        return BELL_OK;
    }
    if (w->n_left-- == 0 || (w->next[r->id] && !w->to[r->id]))
        return fail_endless(u, w->last);
    w->next[u->id] = r;
    return push(w, r);
}

bell_status
rw_graph(struct uop_graph *g, struct rw_set *set, const struct uop **roots,
         size_t n_roots)
{
    struct walk w = {.g = g, .set = set};
    bell_status status = uop_graph_status(g);
    size_t i;

    w.n_left = 1000 + 64 * (uint64_t)g->n_nodes;
    if (status == BELL_OK)
        status = cover_ids(&w);
    for (i = 0; i < n_roots && status == BELL_OK; i++) {
        status = push(&w, roots[i]);
        while (w.n_stack && status == BELL_OK)
            status = step(&w);
    }
    for (i = 0; i < n_roots && status == BELL_OK; i++)
        roots[i] = w.to[roots[i]->id];
    host_free(w.to);
    host_free(w.next);
    host_free(w.stack);
    host_free(w.src);
    if (status != BELL_OK)
        bell_error_frame(__func__);
    return status;
}
