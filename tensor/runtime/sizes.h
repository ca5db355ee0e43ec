/* Plans for any size: a graph that comes again with other sizes.
 *
 * The form of a graph is its structure without sizes, offsets and numbers.
 * When a form comes for the second time, reduces no floats, and all that
 * differs from the first time is a * n + b of one size n, its sizes become
 * expressions of n, a symbol of a table of its own (uops/dim.h), and it gets
 * the plan that it would have if the program had said so (vary.h). Results are
 * those of constants to the bit: graphs that reduce floats, in an order that is
 * that of a kernel's sizes, have a plan for each size.
 */
#ifndef BELL_TENSOR_RUNTIME_SIZES_H
#define BELL_TENSOR_RUNTIME_SIZES_H

#include "base/status.h"
#include "lower/schedule/schedule.h"
#include "uops/uop.h"

struct rt_plan;
struct rt_value;
struct rt_values;
struct tensor_runtime;

/* What a graph is without what may differ, and its sizes and offsets, in the
 * order of its nodes. */
struct rt_form {
    uint64_t *words;
    int64_t *sizes;
    uint32_t *numbers; /* of its values, those that are numbers */
    size_t n_words, cap_words, n_sizes, cap_sizes, n_numbers, cap_numbers;
    uint64_t hash;
};

/* What a size of the form is: a * n + b. */
struct rt_extent {
    int64_t a, b;
};

/* A plan for any size. Its values are the numbers of the graph, then n. */
struct rt_sized {
    uint32_t plan; /* its number */
    uint64_t key;  /* of form and math */
    struct rt_form form;
    struct rt_extent *places; /* by size of the form */
    size_t first;             /* of these, one that is n */
    struct dim_table *table;  /* owned: n is its symbol 0 */
    struct uop_graph words;   /* while it is made: the structure with sizes of
                               * the table, */
    const struct uop *sink;   /* under this one */
};

/* The form of the graph under `sink`, of `g`, whose values are these. Owned:
 * rt_form_fini, also after a failure. */
BELL_MUST_CHECK bell_status rt_form_of(const struct uop_graph *g,
                                       const struct uop *sink,
                                       const struct rt_values *values,
                                       struct rt_form *out_form);
void rt_form_fini(struct rt_form *form);

/* Is a plan for any size one for the graph of this form, whose values were
 * looked up? They become those of the plan. RT_NO_PLAN: there is none. */
BELL_MUST_CHECK bell_status rt_sizes_find(struct tensor_runtime *rt,
                                          const struct rt_form *form,
                                          uint32_t *out_plan);

/* Makes the structure of a plan for any size that the graph of this form,
 * plan->sink, is one of, and fills in the plan's values; plan->any_size is
 * false where nothing comes of it. `out` is of rt_sized_init, and owned. */
BELL_MUST_CHECK bell_status rt_sizes_build(struct tensor_runtime *rt,
                                           const struct rt_form *form,
                                           struct rt_plan *plan,
                                           struct rt_sized *out);
void rt_sized_init(struct rt_sized *sized);
void rt_sized_fini(struct rt_sized *sized);

/* Prepares the plan for sizes of the table. */
BELL_MUST_CHECK bell_status rt_sizes_count(struct rt_plan *plan,
                                           struct dim_table *table);
/* Takes the symbols' values, the last of values[]. */
void rt_sizes_take_symbols(struct rt_plan *plan, const struct rt_value *values,
                           size_t n);
/* Gives the plan's buffers the sizes that were looked up, and a place in
 * scratch memory if they have not been so great. */
BELL_MUST_CHECK bell_status rt_sizes_place(struct rt_plan *plan);
/* Those of a plan of symbols become what they can be at most. */
BELL_MUST_CHECK bell_status rt_sizes_place_most(struct rt_plan *plan);

#endif
