/* Joining ranges whose sizes are known when the kernel runs: rows of a batch
 * and of a sequence of any lengths are rows of one product.
 */
#include "lower/kernel/kernel.h"

#include <assert.h>
#include <string.h>

#include "uops/dim.h"

#define MAX_JOINED ((int64_t)1 << 31) /* values that the range may have */

/* The kernel's indices as polynomials. Their leaves are symbols, whose bounds
 * say nothing: ranges, VARs, and other indices that are neither a sum nor a
 * product. */
struct size_merge {
    struct kernel *k;
    struct dim_table dims;
    const struct uop *leaves[DIM_MAX_SYMBOLS]; /* by symbol */
    int64_t *index; /* by place; DIM_BAD: not an index, or too large */
};

static int64_t
make_leaf(struct size_merge *m, const struct uop *u)
{
    uint32_t n = m->dims.n_symbols;
    int64_t d = dim_symbol(&m->dims, "", 0, 1);

    if (d != DIM_BAD)
        m->leaves[n] = u;
    return d;
}

static bool
is_sum_or_product(const struct uop *u)
{
    return u->dtype == UOP_I64 &&
           (u->op == UOP_ADD || u->op == UOP_SUB || u->op == UOP_MUL);
}

static int64_t
index_of(struct size_merge *m, const struct uop *u)
{
    int64_t a, b;

    if (u->dtype != UOP_I64)
        return DIM_BAD;
    if (u->op == UOP_CONST)
        return dim_is_number(u->arg.i) ? u->arg.i : DIM_BAD;
    if (!is_sum_or_product(u))
        return make_leaf(m, u);
    a = m->index[kernel_pos(m->k, u->src[0])];
    b = m->index[kernel_pos(m->k, u->src[1])];
    if (a == DIM_BAD || b == DIM_BAD)
        return DIM_BAD;
    return u->op == UOP_ADD   ? dim_add(&m->dims, a, b)
           : u->op == UOP_SUB ? dim_sub(&m->dims, a, b)
                              : dim_mul(&m->dims, a, b);
}

static bell_status
read_indices(struct size_merge *m)
{
    struct kernel *k = m->k;
    uint32_t i;

    m->index = arena_alloc(&k->mem, k->n_nodes * sizeof(*m->index));
    if (!m->index)
        return bell_fail(BELL_E_NO_MEMORY,
                         "merging ranges of %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_nodes; i++)
        m->index[i] = index_of(m, k->nodes[i]);
    return BELL_OK;
}

/* Is every term of the index that has a range, a or b, that range times what
 * varies with neither, and those with a size(b) times those with b? */
static bool
counts_as_one(struct size_merge *m, int64_t index, uint32_t a, uint32_t b)
{
    struct kernel *k = m->k;
    uint64_t both = (uint64_t)1 << a | (uint64_t)1 << b;
    int64_t of_a = 0, of_b = 0,
            size = m->index[kernel_pos(k, k->ranges[b]->src[0])];
    uint32_t i, j;

    if (index == DIM_BAD || size == DIM_BAD)
        return false;
    if (dim_is_number(index))
        return true;
    for (i = 0; i < m->dims.exprs[dim_number(index)].n; i++) {
        struct dim_term term = m->dims.exprs[dim_number(index)].terms[i];
        int64_t *to = NULL;

        for (j = 0; j < term.n;) {
            const struct dim_atom *atom = &m->dims.atoms[term.atoms[j]];
            const struct uop *leaf = m->leaves[atom->a];

            assert(atom->kind == DIM_SYMBOL);
            if (!(kernel_deps(k, leaf) & both)) {
                j++;
                continue;
            }
            if (to || leaf->op != UOP_RANGE)
                return false;
            to = leaf == k->ranges[a] ? &of_a : &of_b;
            term.n--;
            memmove(term.atoms + j, term.atoms + j + 1,
                    (term.n - j) * sizeof(*term.atoms));
        }
        if (to)
            *to = dim_add(&m->dims, *to, dim_of_term(&m->dims, &term));
        if (of_a == DIM_BAD || of_b == DIM_BAD)
            return false;
    }
    return dim_mul(&m->dims, of_b, size) == of_a;
}

/* The greatest value of a range's size. */
static int64_t
most_of_range(const struct kernel *k, uint32_t r)
{
    return uop_bounds(k->g, k->ranges[r]->src[0]).max;
}

static bool
can_merge_sizes(struct size_merge *m, uint32_t a, uint32_t b)
{
    struct kernel *k = m->k;
    uint64_t both = (uint64_t)1 << a | (uint64_t)1 << b, bound;
    int64_t most;
    uint32_t i, j;

    if (k->sizes[b] >= 0 ||
        uop_range_axis(k->ranges[a]) != uop_range_axis(k->ranges[b]) ||
        __builtin_mul_overflow(most_of_range(k, a), most_of_range(k, b),
                               &most) ||
        most > MAX_JOINED)
        return false;
    for (i = 0; i < k->n_groups; i++) {
        bound = k->groups[i].bound & both;
        if (bound && bound != both)
            return false;
    }
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];

        for (j = 0; j < u->n_src && !is_sum_or_product(u); j++) {
            const struct uop *s = u->src[j];
            bool is_binding = (u->op == UOP_REDUCE || u->op == UOP_SORT) && j;

            if (s->dtype == UOP_I64 && kernel_deps(k, s) & both &&
                (u->op == UOP_SORT || !is_binding) &&
                !counts_as_one(m, m->index[kernel_pos(k, s)], a, b))
                return false;
        }
    }
    return true;
}

static bell_status
merge_sizes(struct kernel *k, uint32_t a, uint32_t b)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    const struct uop *size =
        uop_alu2(k->g, UOP_MUL, k->ranges[a]->src[0], k->ranges[b]->src[0]);
    union uop_arg arg = k->ranges[b]->arg;
    const struct uop *joined =
        uop_new(k->g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++)
        map[r] = (struct kernel_remap){
            .value = k->ranges[r], .n_bound = 1, .bound = &k->ranges[r]};
    map[a].value = uop_const_int(k->g, UOP_I64, 0);
    map[a].n_bound = 0;
    map[b].value = joined;
    map[b].bound = &joined;
    return kernel_remap_ranges(k, map);
}

/* *out_merged: whether a pair was. */
static bell_status
merge_one(struct kernel *k, bool *out_merged)
{
    struct size_merge m = {.k = k};
    bell_status status;
    uint32_t a, b;

    *out_merged = false;
    dim_table_init(&m.dims);
    status = read_indices(&m);
    for (b = 0; status == BELL_OK && b < k->n_ranges && !*out_merged; b++) {
        for (a = 0; a < k->n_ranges && !*out_merged; a++)
            *out_merged = a != b && can_merge_sizes(&m, a, b);
        if (*out_merged)
            status = merge_sizes(k, a - 1, b);
    }
    dim_table_fini(&m.dims);
    return status;
}

bell_status
kernel_merge_sizes(struct kernel *k)
{
    bool merged = false;
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++)
        merged |= k->sizes[r] < 0;
    while (merged)
        BELL_TRY(merge_one(k, &merged));
    return uop_graph_status(k->g);
}
