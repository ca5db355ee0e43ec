/* Random programs with sizes of symbols: which there are, and what of a node
 * is one.
 *
 * A node is chosen with the numbers that its sizes are in the first run. A
 * number that is one of the program's sizes then, or one of an axis that an
 * earlier node has, stands for that size: so operands that fit in the first run
 * fit in all. The API decides; it builds each node with symbols too. */
#include "tools/fuzz/fuzz_gen.h"

#include <string.h>

#include "base/bits.h"

/* Sizes of a program, at least in the first run. */
#define LEAST          2
#define MOST_OF_BOUNDS 200000 /* elements of a node, if symbols are greatest */

static void
know(struct fuzz_gen *g, int64_t value, uint16_t size)
{
    uint32_t i;

    for (i = 0; i < g->n_known && g->known[i].value != value; i++)
        ;
    if (i < g->n_known || i == FUZZ_MAX_KNOWN || value < LEAST)
        return;
    g->known[i].value = value;
    g->known[i].size = size;
    g->n_known++;
}

static uint16_t
find_known(const struct fuzz_gen *g, int64_t value)
{
    uint32_t i;

    for (i = 0; i < g->n_known; i++) {
        if (g->known[i].value == value)
            return g->known[i].size;
    }
    return 0;
}

/* Bounds, and three values of which the first is like other sizes; the ends of
 * the bounds now and then. */
static void
choose_symbol(struct fuzz_gen *g, struct fuzz_symbol *s)
{
    static const int64_t spans[] = {1, 3, 7, 12, 15, 30, 31, 60, 100};
    int64_t span = spans[fuzz_below(&g->rng, ARRAY_LEN(spans))];
    uint32_t i;

    s->min = fuzz_one_in(&g->rng, 3) ? 1 + (int64_t)fuzz_below(&g->rng, 5) : 1;
    s->max = s->min + span;
    for (i = 0; i < FUZZ_N_VALUES; i++) {
        int64_t low = i == 0 && s->min < LEAST ? LEAST : s->min;
        int64_t high = i == 0 && s->max > 20 ? 20 : s->max;

        s->value[i] = fuzz_one_in(&g->rng, 5) ? low
                      : fuzz_one_in(&g->rng, 5)
                          ? high
                          : low + (int64_t)fuzz_below(
                                      &g->rng, (uint64_t)(high - low) + 1);
    }
}

/* The symbols, and one or two expressions of them. */
static void
choose_sizes(struct fuzz_gen *g)
{
    struct fuzz_program *p = g->prog;
    uint32_t i;

    for (i = 0; i < p->n_symbols; i++)
        p->sizes[p->n_sizes++].by[i] = 1;
    p->sizes[p->n_sizes].by[0] = 1 + (int64_t)fuzz_below(&g->rng, 2);
    p->sizes[p->n_sizes++].plus = (int64_t)fuzz_below(&g->rng, 4);
    if (p->n_symbols > 1) {
        struct fuzz_size *s = &p->sizes[p->n_sizes++];

        s->both = (int64_t)fuzz_below(&g->rng, 2);
        s->by[0] = s->both ? 0 : 1;
        s->by[1] = s->both ? 0 : 1;
    }
}

bell_status
fuzz_sizes_begin(struct fuzz_gen *g)
{
    struct fuzz_program *p = g->prog;
    uint32_t i;

    p->n_symbols = 1 + (uint32_t)fuzz_below(&g->rng, FUZZ_MAX_SYMBOLS);
    for (i = 0; i < p->n_symbols; i++)
        choose_symbol(g, &p->symbols[i]);
    if (p->n_symbols > 1 && p->symbols[0].value[0] == p->symbols[1].value[0]) {
        p->symbols[1].value[0]++; /* two numbers for two sizes */
        if (p->symbols[1].max < p->symbols[1].value[0])
            p->symbols[1].max = p->symbols[1].value[0];
    }
    choose_sizes(g);
    BELL_TRY(fuzz_declare(g->ctx, p, g->symbols, g->sizes));
    for (i = 0; i < p->n_sizes; i++) {
        int64_t now;

        BELL_TRY(bell_dim_now(g->ctx, g->sizes[i], &now));
        know(g, now, (uint16_t)(1 + i));
    }
    return BELL_OK;
}

int64_t
fuzz_some_size(struct fuzz_gen *g)
{
    uint64_t n = g->prog->n_sizes < g->n_known ? g->prog->n_sizes : g->n_known;
    uint64_t at = fuzz_below(&g->rng, n);

    /* the symbols themselves more often than what is made of them */
    if (at >= g->prog->n_symbols && fuzz_one_in(&g->rng, 2))
        at = 0;
    return n ? g->known[at].value : LEAST;
}

/* Calls whose numbers may be sizes or offsets: those of i, or of the list, how
 * many belong together, and the first of them; offsets become sizes by half. */
static const struct {
    const char *name;
    uint8_t first, n, each;
    bool is_list, is_offset;
} takers[] = {
    {"bell_reshape", 0, 1, 1, true, false},
    {"bell_expand", 0, 1, 1, true, false},
    {"bell_repeat", 0, 1, 1, true, true},
    {"bell_rand", 0, 1, 1, true, false},
    {"bell_randn", 0, 1, 1, true, false},
    {"bell_randint", 0, 1, 1, true, false},
    {"bell_pad", 0, 1, 1, true, true},
    {"bell_shrink", 0, 1, 1, true, true},
    {"bell_narrow", 1, 2, 0, false, true},
    {"bell_select", 1, 1, 0, false, true},
    {"bell_index", 1, 2, FUZZ_ITEM_NUMBERS, true, true},
    {"bell_index_put", 1, 2, FUZZ_ITEM_NUMBERS, true, true},
};

static uint16_t
place(struct fuzz_gen *g, int64_t value, bool is_offset)
{
    return is_offset && fuzz_one_in(&g->rng, 2) ? 0 : find_known(g, value);
}

static void
mark_call(struct fuzz_gen *g, struct fuzz_node *node)
{
    const char *name = fuzz_op_at(node->op)->to.name;
    size_t t;
    uint32_t k;

    for (t = 0; t < ARRAY_LEN(takers) && name; t++) {
        uint32_t first = takers[t].first, end = first + takers[t].n;

        if (strcmp(name, takers[t].name) != 0)
            continue;
        for (k = 0; takers[t].is_list && k < node->n_list; k++) {
            uint32_t at = k % takers[t].each;
            if (at >= first && at < end)
                node->list_size[k] =
                    place(g, node->list[k], takers[t].is_offset);
        }
        for (k = first; !takers[t].is_list && k < end; k++)
            node->i_size[k] = place(g, node->i[k], takers[t].is_offset);
    }
}

static void
mark_leaf(struct fuzz_gen *g, struct fuzz_node *node)
{
    uint32_t k;

    for (k = 0; k < node->n_list; k++)
        node->list_size[k] = find_known(g, node->list[k]);
    if (node->i[0] == FUZZ_DATA_INDEX || node->i[0] == FUZZ_DATA_CLASS)
        node->i_size[1] = find_known(g, node->i[1]);
}

static struct bell_tensor *
build_node(struct fuzz_gen *g, uint32_t at)
{
    struct bell_tensor *t;
    struct fuzz_node node;

    if (!fuzz_place_sizes(g->prog, at, g->sizes, g->sized, &node))
        return NULL;
    t = node.op != 0 ? fuzz_call(g->ctx, &node, g->sized)
                     : bell_zeros(g->ctx, node.list, node.n_list,
                                  (enum bell_dtype)node.dtype);
    if (bell_context_status(g->ctx) != BELL_OK || bell_is_error(t))
        return NULL;
    return t;
}

/* The least and the most elements that it has in a run. */
static bool
bound_numel(struct fuzz_gen *g, struct bell_tensor *t, uint64_t *out_least,
            uint64_t *out_most)
{
    uint32_t run = FUZZ_N_VALUES;

    *out_least = UINT64_MAX;
    *out_most = 0;
    while (run-- > 0) { /* and the first run's values stay */
        uint64_t n;

        if (fuzz_set_symbols(g->ctx, g->prog, g->symbols, run) != BELL_OK)
            return false;
        n = bell_numel(t);
        *out_least = n < *out_least ? n : *out_least;
        *out_most = n > *out_most ? n : *out_most;
    }
    return true;
}

int64_t
fuzz_least_numel(struct fuzz_gen *g, int node)
{
    uint64_t least, most;

    if (!fuzz_has_sizes(g))
        return (int64_t)bell_numel(g->tensors[node]);
    return bound_numel(g, g->sized[node], &least, &most) ? (int64_t)least : 0;
}

bool
fuzz_indices_fit(const struct fuzz_gen *g, int64_t number, int node, int axis)
{
    struct bell_dim size = bell_dim_of(number);
    uint16_t known = find_known(g, number);

    if (!fuzz_has_sizes(g))
        return true;
    if (node < 0)
        return known == 0;
    if (known)
        size = g->sizes[known - 1];
    return bell_dim_at(g->sized[node], axis).word == size.word;
}

bool
fuzz_may_be_one(const struct fuzz_gen *g, int node)
{
    int64_t min, max;
    uint32_t i;

    for (i = 0; fuzz_has_sizes(g) && i < bell_ndim(g->sized[node]); i++) {
        if (bell_dim_bounds(g->ctx, bell_dim_at(g->sized[node], (int)i), &min,
                            &max) != BELL_OK ||
            (min <= 1 && max > min))
            return true;
    }
    return false;
}

/* Threads exist for the bounds, which a simulated card goes through. */
static bool
has_small_bounds(struct fuzz_gen *g, const struct bell_tensor *t)
{
    uint64_t n = 1;
    int64_t min, max;
    uint32_t i;

    for (i = 0; i < bell_ndim(t); i++) {
        if (bell_dim_bounds(g->ctx, bell_dim_at(t, (int)i), &min, &max) !=
                BELL_OK ||
            __builtin_mul_overflow(n, (uint64_t)max, &n))
            return false;
    }
    return n <= MOST_OF_BOUNDS;
}

bool
fuzz_sizes_append(struct fuzz_gen *g)
{
    uint32_t at = g->prog->n_nodes - 1, i;
    struct fuzz_node *node = &g->prog->nodes[at];
    struct bell_tensor *t;
    uint64_t least, most;
    int64_t now;

    if (node->op == 0)
        mark_leaf(g, node);
    else
        mark_call(g, node);
    t = build_node(g, at);
    if (!t && node->op != 0) {
        memset(node->list_size, 0, sizeof(node->list_size));
        memset(node->i_size, 0, sizeof(node->i_size));
        t = build_node(g, at);
    }
    if (!t || !bound_numel(g, t, &least, &most) || most > 4 * g->max_elems ||
        !has_small_bounds(g, t))
        return false;
    g->sized[at] = t;
    for (i = 0; i < bell_ndim(t); i++) {
        struct bell_dim size = bell_dim_at(t, (int)i);

        if (bell_dim_now(g->ctx, size, &now) == BELL_OK && size.word != now)
            know(g, now, FUZZ_AXIS(at, i));
    }
    return true;
}
