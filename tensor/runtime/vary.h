/* What may differ from one run of a plan to the next: the numbers of a graph,
 * its sizes, and where its slices begin and its paddings end.
 *
 * A graph is known by its structure, in which each of these is a value
 * (number.c). The first plan of a structure and its sizes has them as
 * constants, so that a program that runs once is as fast as can be; but for a
 * few in small graphs, which cost kernels nothing (rt_vary_guess). When these
 * come again with other numbers and offsets they get a plan in which those that
 * changed are arguments of its kernels. Results are the same to the bit.
 *
 * Stays a constant, whatever it is: an exponent, which decides how a power is
 * made; a bool; a number that arithmetic knows (vary.c lists them). So does a
 * size, but in plans for any size (sizes.h).
 *
 * Wide accesses need an offset whose factor of two is known: an argument is
 * the offset divided by it, and a plan is for the offsets that it divides.
 */
#ifndef BELL_TENSOR_RUNTIME_VARY_H
#define BELL_TENSOR_RUNTIME_VARY_H

#include "base/status.h"
#include "uops/uop.h"

struct rt_plan;
struct tensor_runtime;
struct dim_table;
struct uop_dims;

/* Nodes of a graph in which arguments are guessed: what takes longest in a
 * greater one is not its numbers' work. */
#define RT_MAX_GUESSED 24

/* One of them, as it is in one graph. */
struct rt_value {
    uint64_t bits;    /* of the number; or an offset or size, in elements */
    uint8_t dtype;    /* enum uop_dtype of the number; VOID: not a number */
    uint8_t max_step; /* offset: log2 of the factor that can matter */
    bool is_fixed;    /* stays a constant, from what it is used for */
    bool is_size;
    int64_t code; /* a size of symbols (uops/dim.h): of the program's, always an
                   * argument; in a plan for any size, in its place; or 0 */
    /* An offset on a mesh is always an argument: `bits` times the place's
     * coordinate, place / coord_stride % n_coords. 0: the same everywhere. */
    uint16_t n_coords, coord_stride;
};

/* What has been found in the graph that is being looked up. */
struct rt_values {
    struct rt_value *list;
    size_t n, cap;
    uint64_t sizes_hash;    /* of those that are sizes */
    bool has_product;       /* is added up */
    struct dim_table *dims; /* the context's; NULL: it has no symbols */
    uint32_t n_codes;       /* values with one, and offsets on a mesh */
    uint32_t symbols;       /* whose sizes tensors have, bit by number: the last
                       * values, in their order */
    const char *odd;        /* why there is no plan for that; or NULL */
};

/* What stands for value i among the sizes of a structure. */
static inline int64_t
rt_size_of(uint32_t value)
{
    return -2 - (int64_t)value;
}

static inline bool
rt_is_size(int64_t d)
{
    return d < -1;
}

static inline uint32_t
rt_size_value(int64_t d)
{
    return (uint32_t)(-2 - d);
}

/* What was only moved or converted. */
static inline const struct uop *
rt_vary_peel(const struct uop *u)
{
    while (uop_has(u, UOP_FLAG_MOVE) || u->op == UOP_CAST)
        u = u->src[0];
    return u;
}

/* Is the plan one for the values of the graph that is looked up? */
bool rt_vary_fits(const struct tensor_runtime *rt, const struct rt_plan *plan);

/* May the number be an argument, from what it is and is used for? */
bool rt_vary_may(const struct rt_value *v);

/* Fills in which values are to be arguments of a new plan that follows those
 * from number `first` on (RT_NO_PLAN: none), for the values looked up. */
BELL_MUST_CHECK bell_status rt_vary_choose(struct tensor_runtime *rt,
                                           uint32_t first,
                                           struct rt_plan *plan);

/* Makes all of them constants. */
void rt_vary_fix(struct rt_plan *plan);

/* Makes arguments of those of a structure's first plan, all of them constants,
 * that a loop is likely to change and that kernels are as good with. False:
 * there is none. */
bool rt_vary_guess(const struct tensor_runtime *rt, struct rt_plan *plan);

/* The size of the plan that d is in its structure. */
int64_t rt_vary_place(const struct rt_plan *plan, int64_t d);

/* Makes the plan's graph in `g`, which is empty, from its structure in `from`,
 * with only those as VARs that are arguments of the plan. Where sizes vary,
 * they are expressions of g->sizes. roots[] has room for those of
 * plan->sink. */
BELL_MUST_CHECK bell_status rt_vary_build(const struct rt_plan *plan,
                                          const struct uop_graph *from,
                                          struct uop_graph *g,
                                          const struct uop **roots);

/* The argument word for value `i` of the graph that is looked up. */
uint64_t rt_vary_word(const struct tensor_runtime *rt,
                      const struct rt_plan *plan, uint32_t i);
/* The same at a place of a mesh. */
uint64_t rt_vary_word_at(const struct tensor_runtime *rt,
                         const struct rt_plan *plan, uint32_t i,
                         uint32_t place);

/* BELL_DEBUG=plan: says why plan number `number` is new; and once, without
 * being asked, that a program keeps compiling. */
void rt_vary_explain(struct tensor_runtime *rt, uint32_t number);

#endif
