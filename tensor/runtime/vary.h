/* What may differ from one run of a plan to the next: the numbers of a graph,
 * and where its slices begin and its paddings end.
 *
 * A graph is known by its structure, in which each of these is a VAR. The
 * first plan of a structure has them as constants, so that a program that runs
 * once is as fast as can be; but for a few in small graphs, which cost kernels
 * nothing (rt_vary_guess). A structure that comes again with other values gets
 * a plan in which those that changed are arguments of its kernels. Results are
 * the same to the bit.
 *
 * Stays a constant, whatever it is: an exponent, which decides how a power is
 * made; a bool; a number that arithmetic knows (vary.c lists them).
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
    uint64_t bits;    /* of the number; or an offset, in elements */
    uint8_t dtype;    /* enum uop_dtype of the number; VOID: an offset */
    uint8_t max_step; /* offset: log2 of the factor that can matter */
    bool is_fixed;    /* stays a constant, from what it is used for */
    int64_t code; /* a size of symbols (uops/dim.h): always an argument; or 0 */
};

/* What has been found in the graph that is being looked up. */
struct rt_values {
    struct rt_value *list;
    size_t n, cap;
    bool has_product;       /* is added up */
    struct dim_table *dims; /* the context's; NULL: it has no symbols */
    uint32_t n_codes;       /* values with one */
    uint32_t symbols;       /* whose sizes tensors have, bit by number: the last
                       * values, in their order */
    const char *odd;        /* why there is no plan for that; or NULL */
};

/* The VAR in place of a CONST, a node of rt->into. */
const struct uop *rt_vary_number(struct tensor_runtime *rt,
                                 const struct uop *u);

/* The arg of a PAD or SHRINK with what varies of it as VARs, in rt->into;
 * NULL when out of memory. */
const struct uop_dims *rt_vary_move(struct tensor_runtime *rt,
                                    const struct uop *u,
                                    const struct uop_dims *from);

/* Notes the symbols of a node's shape. */
void rt_vary_shape(struct tensor_runtime *rt, const struct uop_dims *shape);
/* Adds the symbols' values to those of the graph, after all nodes. Fails where
 * there is no plan for such sizes. */
BELL_MUST_CHECK bell_status rt_vary_symbols(struct tensor_runtime *rt);

/* Notes what the use of `src`, sources of such an op in rt->into, says of
 * them. */
void rt_vary_note(struct tensor_runtime *rt, enum uop_op op,
                  const struct uop *const *src);

/* Is the plan one for the values of the graph that is looked up? */
bool rt_vary_fits(const struct tensor_runtime *rt, const struct rt_plan *plan);

/* May the number be an argument, from what it is and is used for? */
bool rt_vary_may(const struct rt_value *v);

/* May value v of the graph be an argument that is divided so (as in
 * rt_plan.steps)? */
bool rt_vary_takes(const struct tensor_runtime *rt, const struct rt_value *v,
                   uint32_t step);

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

/* Makes the plan's graph in `g`, which is empty, with only those as VARs that
 * are arguments of the plan. `from` is the graph of plan->sink, or one of its
 * own with the structure under `sink`. Where sizes vary, they are expressions
 * of g->sizes. roots[] has room for those of the sink. */
BELL_MUST_CHECK bell_status rt_vary_build(const struct rt_plan *plan,
                                          const struct uop_graph *from,
                                          const struct uop *sink,
                                          struct uop_graph *g,
                                          const struct uop **roots);

/* The argument word for value `i` of the graph that is looked up. */
uint64_t rt_vary_word(const struct tensor_runtime *rt,
                      const struct rt_plan *plan, uint32_t i);

/* BELL_DEBUG=plan: says why plan number `number` is new; and once, without
 * being asked, that a program keeps compiling. */
void rt_vary_explain(struct tensor_runtime *rt, uint32_t number);

#endif
