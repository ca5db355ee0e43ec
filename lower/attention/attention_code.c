/* What the forms of attention share (lower/attention/attention_code.h). */
#include "lower/attention/attention_code.h"

#include <string.h>

#define MAX_DEPTH 8 /* of expressions that are made of vectors */
#define MAX_LANES 64

static const union uop_arg no_arg = {.bits = 0};

/* ---- the kernel's expressions at places ---- */

void
attend_let(struct attend_code *w, const struct uop *from, const struct uop *to)
{
    assert(w->n_pairs < sizeof(w->from) / sizeof(w->from[0]));
    w->from[w->n_pairs] = from;
    w->to[w->n_pairs++] = to;
}

void
attend_let_range(struct attend_code *w, uint32_t r, const struct uop *to)
{
    attend_let(w, w->e->k->ranges[r], to);
}

const struct uop *
attend_value(struct attend_code *w, const struct uop *u, uint32_t n)
{
    if (!w->g->failed &&
        uop_substitute(w->g, &u, 1, w->from, w->to, w->n_pairs) != BELL_OK)
        w->g->failed = true;
    w->n_pairs = n;
    return w->g->failed ? &uop_failed : u;
}

/* ---- ends ---- */

const struct uop *
attend_clamp(const struct attend_code *w, uint32_t r, const struct uop *u,
             int64_t tile)
{
    const struct kernel *k = w->e->k;
    const struct uop *end = attend_end(k, r);

    if (w->is_whole && r == w->a->key)
        return u;
    if (end)
        return uop_alu2(w->g, UOP_MIN, u, op2(w, UOP_ADD, end, -1));
    return k->sizes[r] % tile ? op2(w, UOP_MIN, u, k->sizes[r] - 1) : u;
}

const struct uop *
attend_inside(const struct attend_code *w, uint32_t r, const struct uop *u,
              int64_t tile)
{
    const struct kernel *k = w->e->k;
    const struct uop *end = attend_end(k, r);

    if (w->is_whole && r == w->a->key)
        return NULL;
    if (end)
        return uop_alu2(w->g, UOP_CMPLT, u, end);
    return k->sizes[r] % tile ? op2(w, UOP_CMPLT, u, k->sizes[r]) : NULL;
}

const struct uop *
attend_both(const struct attend_code *w, const struct uop *a,
            const struct uop *b)
{
    return a && b ? uop_alu2(w->g, UOP_AND, a, b) : a ? a : b;
}

/* One number of several ranges, the last of which counts fastest, or the last
 * values that there are. Is it one that there is? NULL: always. */
static const struct uop *
let_ranges(struct attend_code *w, uint64_t set, const struct uop *all)
{
    const struct kernel *k = w->e->k;
    const struct uop *at, *inside = NULL;

    while (set) {
        uint32_t r = 63u - (uint32_t)__builtin_clzll(set);
        set &= ~((uint64_t)1 << r);
        at = set ? op2(w, UOP_FLOORMOD, all, k->sizes[r]) : all;
        inside = attend_both(w, inside, attend_inside(w, r, at, 1));
        attend_let_range(w, r, attend_clamp(w, r, at, 1));
        all = op2(w, UOP_FLOORDIV, all, k->sizes[r]);
    }
    return inside;
}

void
attend_let_row(struct attend_code *w, const struct uop *row)
{
    if (w->a->is_few)
        let_ranges(w, w->a->few_rows, row);
    else
        attend_let_range(w, w->a->row, row);
}

const struct uop *
attend_few_inside(struct attend_code *w, const struct uop *row, int64_t tile)
{
    uint32_t n_pairs = w->n_pairs;
    const struct uop *inside = let_ranges(w, w->a->few_rows, row);

    w->n_pairs = n_pairs;
    return attend_both(
        w, inside, w->n_rows % tile ? op2(w, UOP_CMPLT, row, w->n_rows) : NULL);
}

/* attend_lanes, a value after the other. */
static const struct uop *
single_lanes(struct attend_code *w, const struct uop *u, uint32_t r,
             const struct uop *at, uint16_t lanes)
{
    const struct uop *part[MAX_LANES];
    uint32_t i, n_pairs = w->n_pairs;

    assert(lanes <= MAX_LANES);
    for (i = 0; i < lanes; i++) {
        attend_let_range(w, r, op2(w, UOP_ADD, at, i));
        part[i] = attend_value(w, u, n_pairs);
    }
    return uop_make(w->g, UOP_LANES, u->dtype, lanes, no_arg, part, lanes);
}

static const struct uop *
wide_lanes(struct attend_code *w, const struct uop *u, uint32_t r,
           const struct uop *at, uint16_t lanes, uint32_t depth)
{
    const struct kernel *k = w->e->k;
    const struct uop *src[3];
    uint32_t i, n_pairs = w->n_pairs;

    if (!(kernel_deps(k, u) >> r & 1))
        return expand_broadcast(w->e, attend_value(w, u, n_pairs), lanes);
    if (u->op == UOP_LOAD && u->n_src == 2 &&
        kernel_coef(k, u->src[1], r) == 1) {
        attend_let_range(w, r, at);
        src[0] = u->src[0];
        src[1] = attend_value(w, u->src[1], n_pairs);
        return uop_make(w->g, UOP_LOAD, u->dtype, lanes, u->arg, src, 2);
    }
    if (depth == MAX_DEPTH || u->n_src > 3 ||
        (u->op != UOP_CAST && !uop_has(u, UOP_FLAG_ALU)))
        return single_lanes(w, u, r, at, lanes);
    for (i = 0; i < u->n_src; i++)
        src[i] = wide_lanes(w, u->src[i], r, at, lanes, depth + 1);
    return uop_make(w->g, u->op, u->dtype, lanes, u->arg, src, u->n_src);
}

const struct uop *
attend_lanes(struct attend_code *w, const struct uop *u, uint32_t r,
             const struct uop *at, uint16_t lanes)
{
    if (lanes == 1) {
        uint32_t n_pairs = w->n_pairs;
        attend_let_range(w, r, at);
        return attend_value(w, u, n_pairs);
    }
    return wide_lanes(w, u, r, at, lanes, 0);
}

const struct uop *
attend_special(const struct attend_code *w, int64_t which, int64_t extent)
{
    const struct uop *size = num(w, extent);

    return uop_new(w->g, UOP_SPECIAL, UOP_I64, 1, (union uop_arg){.i = which},
                   &size, 1);
}

bell_status
attend_grid(const struct attend_code *w, int64_t all, struct lower_program *p,
            const struct uop **out_group)
{
    const struct lower_target *t = w->e->k->target;
    int64_t most = t->is_gpu ? t->max_grid[0] : UINT32_MAX;
    uint32_t i;

    if (all > most)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a grid of more than %lld work-groups",
                         (long long)most);
    for (i = 0; i < 3; i++)
        p->grid[i] = p->local[i] = 1;
    p->grid[0] = (uint32_t)all;
    *out_group = attend_special(w, 0, all);
    return BELL_OK;
}

bell_status
attend_map_groups(struct attend_code *w, int64_t rows, struct lower_program *p,
                  const struct uop **out_row)
{
    const struct kernel *k = w->e->k;
    int64_t tiles = (w->n_rows + rows - 1) / rows, all = tiles;
    const struct uop *left, *tile;
    uint64_t set;

    for (set = w->a->batch; set; set &= set - 1) {
        if (__builtin_mul_overflow(all, k->sizes[__builtin_ctzll(set)], &all))
            all = INT64_MAX;
    }
    BELL_TRY(attend_grid(w, all, p, &left));
    tile = op2(w, UOP_FLOORMOD, left, tiles);
    tile = uop_alu2(w->g, UOP_SUB, num(w, tiles - 1), tile);
    w->valid = let_ranges(w, w->a->batch, op2(w, UOP_FLOORDIV, left, tiles));
    *out_row = op2(w, UOP_MUL, tile, rows);
    if (!w->a->is_few)
        w->valid =
            attend_both(w, w->valid, attend_inside(w, w->a->row, *out_row, 1));
    return BELL_OK;
}

const struct uop *
attend_last(const struct attend_code *w, const struct uop *begin, int64_t rows)
{
    const struct uop *end = attend_end(w->e->k, w->a->row);

    end = end ? op2(w, UOP_ADD, end, -1) : num(w, w->n_rows - 1);
    return uop_alu2(w->g, UOP_MIN, op2(w, UOP_ADD, begin, rows - 1), end);
}

const struct uop *
attend_whole_tiles(const struct attend_code *w, const struct uop *first,
                   const struct uop *tiles)
{
    const struct uop *end = attend_end(w->e->k, w->a->key), *n;

    if (!end)
        return NULL;
    n = uop_alu2(w->g, UOP_SUB, op2(w, UOP_FLOORDIV, end, w->tile), first);
    n = uop_alu2(w->g, UOP_MIN, tiles, n); /* all, or all but the last */
    n = uop_alu2(w->g, UOP_SUB, op2(w, UOP_MUL, n, 2), tiles);
    /* what is loaded in one turn, or none, is loaded before it */
    return uop_bounds(w->g, n).max > 1 ? op2(w, UOP_MAX, n, 0) : NULL;
}

const struct uop *
attend_all_tiles(const struct attend_code *w)
{
    const struct uop *n = attend_end(w->e->k, w->a->key);

    n = n ? n : num(w, w->n_keys);
    return op2(w, UOP_FLOORDIV, op2(w, UOP_ADD, n, w->tile - 1), w->tile);
}

const struct uop *
attend_sink(const struct attend_code *w, const struct uop *const *effects,
            uint32_t n)
{
    const struct uop *src[2] = {NULL, NULL}, *end;

    end = uop_new(w->g, UOP_SINK, UOP_VOID, 1, no_arg, effects, n);
    if (!w->valid)
        return end;
    src[0] = uop_new(w->g, UOP_IF, UOP_VOID, 1, no_arg, &w->valid, 1);
    src[1] = end;
    end = uop_new(w->g, UOP_ENDIF, UOP_VOID, 1, no_arg, src, 2);
    return uop_new(w->g, UOP_SINK, UOP_VOID, 1, no_arg, &end, 1);
}

/* A condition under which u, of scores, is 0, or x is -inf; or NULL. */
static const struct uop *
zero_where(const struct attend_code *w, const struct uop *u)
{
    const struct uop *cond;

    for (;;) {
        if (u->op == UOP_MUL && (cond = zero_where(w, u->src[1])))
            return cond;
        if (u->op == UOP_CAST || u->op == UOP_MUL) {
            u = u->src[0];
        } else if (u->op == UOP_EXP2) {
            u = u->src[0];
            if (u->op == UOP_MUL && u->src[1]->op == UOP_CONST)
                u = u->src[0];
            u = u->op == UOP_SUB ? u->src[0] : u;
            return u->op == UOP_WHERE && u->src[1] == low(w) ? u->src[0] : NULL;
        } else {
            return u->op == UOP_WHERE && u->src[1]->op == UOP_CONST &&
                           u->src[1]->arg.bits == 0
                       ? u->src[0]
                       : NULL;
        }
    }
}

const struct uop *
attend_count_tiles(const struct attend_code *w, const struct uop *begin,
                   const struct uop *last, const struct uop **out_first)
{
    const struct kernel *k = w->e->k;
    const struct uop *key = k->ranges[w->a->key], *x = w->a->seen, *row, *cond,
                     *n;

    n = attend_all_tiles(w);
    *out_first = num(w, 0);
    if (w->a->is_back)
        cond = zero_where(w, x);
    else
        cond = x->op == UOP_WHERE && x->src[1] == low(w) ? x->src[0] : NULL;
    if (!cond || cond->op != UOP_CMPLT || w->a->row == ATTEND_NO_ROW)
        return n;
    row = k->ranges[w->a->row];
    if (cond->src[0] == row && cond->src[1] == key) {
        last = op2(w, UOP_ADD, op2(w, UOP_FLOORDIV, last, w->tile), 1);
        return uop_alu2(w->g, UOP_MIN, last, n);
    }
    if (cond->src[0] == key && cond->src[1] == row) {
        begin = op2(w, UOP_FLOORDIV, begin, w->tile);
        *out_first = uop_alu2(w->g, UOP_MIN, begin, op2(w, UOP_ADD, n, -1));
        return uop_alu2(w->g, UOP_SUB, n, *out_first);
    }
    return n;
}

bool
attend_is_same(const struct attend_code *w, const struct uop *value, uint32_t r,
               const struct uop *other, uint32_t s)
{
    const struct kernel *k = w->e->k;

    return k->sizes[r] == k->sizes[s] &&
           uop_substitute(w->g, &value, 1, &k->ranges[r], &k->ranges[s], 1) ==
               BELL_OK &&
           value == other;
}

uint32_t
attend_store_kept(struct attend_code *w, const struct uop *row,
                  const struct uop *sum, const struct uop *max,
                  const struct uop *gate, const struct uop **out)
{
    const struct uop *src[4] = {NULL, NULL, sum, gate}, *store;
    uint32_t n_pairs = w->n_pairs, i, n = 0;

    for (i = 0; i < 2; i++) {
        store = w->a->kept[i];
        if (!store)
            continue;
        attend_let_row(w, row);
        src[0] = store->src[0];
        src[1] = attend_value(w, store->src[1], n_pairs);
        if (i == 1)
            src[2] = w->scale == 1
                         ? max
                         : uop_alu2(w->g, UOP_MUL, max,
                                    uop_const_float(w->g, UOP_F32, w->scale));
        out[n++] = uop_make(w->g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
    }
    return n;
}

/* ---- scaling ---- */

/* Is `u` S times a positive number, or S? *out_by: that number. */
static bool
is_scaled(const struct attend_code *w, const struct uop *u, double *out_by)
{
    *out_by = 1;
    if (u == w->a->score)
        return true;
    if (u->op != UOP_MUL || u->src[0] != w->a->score ||
        u->src[1]->op != UOP_CONST || !(u->src[1]->arg.f > 0))
        return false;
    *out_by = u->src[1]->arg.f;
    return true;
}

void
attend_find_factor(struct attend_code *w)
{
    const struct kernel *k = w->e->k;
    const struct uop *u = w->a->seen, *e = w->a->exp->src[0];
    double by, in_exp = e == w->a->diff ? 1 : e->src[1]->arg.f;
    uint32_t i, j;

    w->scale = 1;
    if (u->op == UOP_WHERE && u->src[1] == low(w))
        u = u->src[2];
    if (!is_scaled(w, u, &by) || !(in_exp > 0) || !(by * in_exp < 1e30))
        return;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *user = k->nodes[i];
        for (j = 0; j < user->n_src; j++) {
            if (user->src[j] == w->a->max && user != w->a->diff &&
                user != w->a->kept[1])
                return;
        }
    }
    w->scaled = u;
    w->scale = by;
    w->factor = uop_const_float(w->g, UOP_F32, by * in_exp);
}

/* The scalar in as many lanes as `like` has. */
static const struct uop *
as_wide(const struct attend_code *w, const struct uop *u,
        const struct uop *like)
{
    return expand_broadcast(w->e, u, like->lanes);
}

const struct uop *
attend_exp(struct attend_code *w, const struct uop *x, const struct uop *max)
{
    const struct uop *u = w->a->exp->src[0], *diff;

    if (w->factor && !w->is_exact)
        return uop_alu1(
            w->g, UOP_EXP2,
            uop_alu3(w->g, UOP_MULACC, x, as_wide(w, w->factor, x), max));
    diff = uop_alu2(w->g, UOP_SUB, x, max);
    if (w->factor)
        diff = uop_alu2(w->g, UOP_MUL, diff, as_wide(w, w->factor, x));
    else if (u != w->a->diff)
        diff = uop_alu2(w->g, UOP_MUL, diff, as_wide(w, u->src[1], x));
    return uop_alu1(w->g, UOP_EXP2, diff);
}

const struct uop *
attend_rescale(struct attend_code *w, const struct uop *old,
               const struct uop *max)
{
    if (!w->factor || w->is_exact)
        return attend_exp(w, old, max);
    old = uop_alu2(w->g, UOP_MUL, old, as_wide(w, w->factor, old));
    return uop_alu1(w->g, UOP_EXP2, uop_alu2(w->g, UOP_ADD, old, max));
}

const struct uop *
attend_safe(const struct attend_code *w, const struct uop *max)
{
    const struct uop *x, *zero = uop_const_float(w->g, UOP_F32, 0);

    x = uop_alu2(w->g, UOP_CMPEQ, max, as_wide(w, low(w), max));
    x = uop_alu3(w->g, UOP_WHERE, x, as_wide(w, zero, max), max);
    if (!w->factor || w->is_exact)
        return x;
    x = uop_alu1(w->g, UOP_NEG, x);
    return uop_alu2(w->g, UOP_MUL, x, as_wide(w, w->factor, max));
}

/* ---- memory and variables ---- */

const struct uop *
attend_after(const struct attend_code *w, const struct uop *memory,
             const struct uop *const *effects, uint32_t n)
{
    const struct uop *src[4] = {memory};

    assert(n < 4);
    memcpy(src + 1, effects, n * sizeof(*effects));
    return uop_new(w->g, UOP_AFTER, memory->dtype, memory->lanes, no_arg, src,
                   n + 1);
}

void
attend_behind(const struct attend_code *w, const struct uop **accs, uint32_t n,
              const struct uop *effect)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        accs[i] = attend_after(w, accs[i], &effect, 1);
}

const struct uop *
attend_acc(struct attend_code *w, const struct uop *first,
           const struct uop *const *loops, uint32_t n)
{
    const struct uop *src[4] = {first};
    union uop_arg arg = {.i = w->e->n_accs++};

    assert(n < 4);
    if (n)
        memcpy(src + 1, loops, n * sizeof(*loops));
    return uop_new(w->g, UOP_ACC, first->dtype, first->lanes, arg, src, n + 1);
}

const struct uop *
attend_get(const struct attend_code *w, const struct uop *acc,
           const struct uop *when)
{
    const struct uop *src[2] = {acc, when};

    return uop_new(w->g, UOP_ACC_GET, acc->dtype, acc->lanes, no_arg, src, 2);
}

const struct uop *
attend_set(const struct attend_code *w, const struct uop *acc,
           const struct uop *value)
{
    const struct uop *src[2] = {acc, value};

    return uop_new(w->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, src, 2);
}
