/* Matching and replacing. */
#include "uops/rewrite.h"

#include <assert.h>

#include "uops/rewrite_internal.h"
#include "uops/uops_internal.h"

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

/* Captures are bound from left to right; what a failed attempt has bound is
 * not undone, since the whole row has failed then. Literals look through a
 * BROADCAST. */
static bool
match_pat(const struct rw_set *set, uint16_t at, const struct uop *u,
          struct rw_match *m)
{
    const struct rw_pat *pat = &set->pats[at];
    const struct uop *c;
    union uop_arg arg;
    uint8_t i;

    assert(at < set->n_pats);
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
};

static const struct uop *make_to(const struct maker *mk, uint16_t at,
                                 const struct uop *like);

/* A literal, of the dtype and width of `like`. */
static const struct uop *
make_literal(const struct maker *mk, const struct rw_pat *pat,
             const struct uop *like)
{
    union uop_arg arg;

    assert(pat->kind == RW_INT || pat->kind == RW_FLOAT);
    if (uop_is_float(like))
        arg.f = uop_round_float(
            like->dtype, pat->kind == RW_FLOAT ? pat->f : (double)pat->i);
    else
        arg.i = uop_wrap_int(like->dtype, pat->i);
    return uop_make_const(mk->g, like->dtype, like->lanes, arg);
}

/* Literals of a replacement have no dtype of their own. They take that of the
 * first source that has one; of a WHERE of its second, because the first is a
 * truth value. */
static const struct uop *
make_op(const struct maker *mk, const struct rw_pat *pat)
{
    const struct uop *src[RW_MAX_CHILD], *like = NULL;
    const struct uop *root = mk->m->root;
    enum uop_dtype dtype = root->dtype;
    union uop_arg none = {.bits = 0};
    uint8_t i;

    assert(pat->kind == RW_OP);
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
    return uop_make(mk->g, pat->op, dtype, root->lanes, none, src,
                    pat->n_child);
}

static const struct uop *
make_to(const struct maker *mk, uint16_t at, const struct uop *like)
{
    const struct rw_pat *pat = &mk->set->pats[at];

    assert(at < mk->set->n_pats);
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
    struct maker mk = {g, set, NULL};
    struct rw_match m;
    uint8_t i;

    assert(row->n_vars <= RW_MAX_VARS);
    for (i = 0; i < row->n_vars; i++)
        m.v[i] = NULL;
    m.root = u;
    if (!match_pat(set, row->pat, u, &m))
        return NULL;
    if (rule->build)
        return rule->build(g, &m);
    mk.m = &m;
    return make_to(&mk, row->to, u);
}

/* What rows may ask of source i. */
struct glance {
    uint8_t op, or_const; /* RW_NEED_ANY: nothing more */
    uint8_t classes;      /* bits of those of its dtype */
};

static struct glance
glance_at(const struct uop *u, uint32_t i)
{
    const struct uop *src = i < u->n_src ? u->src[i] : NULL;
    struct glance glance = {RW_NEED_ANY, RW_NEED_ANY, 0};
    const struct uop_dtype_info *info;

    if (!src)
        return glance;
    glance.op = src->op;
    if (uop_scalar_const(src))
        glance.or_const = RW_NEED_CONST;
    info = &uop_dtype_infos[src->dtype];
    glance.classes =
        (uint8_t)(info->is_int << RW_CLASS_INT |
                  (info->is_int && info->is_signed) << RW_CLASS_SINT |
                  (src->dtype == UOP_BOOL) << RW_CLASS_BOOL |
                  info->is_float << RW_CLASS_FLOAT);
    return glance;
}

/* Most rows fail here, before anything is bound. */
static bool
may_match(const struct rw_row *row, unsigned i, const struct glance *src)
{
    uint8_t need = row->need[i];

    return (need == RW_NEED_ANY || need == src->op || need == src->or_const) &&
           !(row->class[i] & ~src->classes);
}

const struct uop *
rw_apply(struct uop_graph *g, struct rw_set *set, const struct uop *u,
         const struct rw_rule **out_rule)
{
    struct glance first = glance_at(u, 0), second = glance_at(u, 1);
    uint16_t i, end;

    if (!atomic_load_explicit(&set->ready, memory_order_acquire))
        rw_set_parse(set);
    end = set->first[u->op + 1];
    for (i = set->first[u->op]; i < end; i++) {
        const struct rw_row *row = &set->rows[i];
        const struct uop *r;
        if (row->n_src != u->n_src || !may_match(row, 1, &second) ||
            !may_match(row, 0, &first))
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
