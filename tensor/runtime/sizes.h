/* Plans for any size: a graph that comes again and again with other sizes.
 *
 * The form of a graph is its structure without sizes, offsets and numbers.
 * When a form comes for the second time (the third, if it adds floats up; the
 * seventh, if its kernels have much to do) with sizes that no plan is for, and
 * all that differs from an earlier one is a * n + b of one size n, a plan is
 * made in which n is an argument of the kernels, up to a bound. A small graph
 * that takes the first few rows of a tensor has such a plan at once, if it adds
 * no floats up (rows.h). What it makes is what constants make, but for sums of
 * floats: the order in which they add up is the plan's, not that which a kernel
 * for one size would have.
 *
 * The graph of such a plan has numbers for what varies which nothing else in
 * it has (struct sched_sizes); scheduling turns them into index arithmetic.
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

/* What a size of the form is: a * n + b, and the value of an offset. */
struct rt_extent {
    int64_t a, b;
    uint32_t offset; /* 1 + its number; 0: none */
};

#define RT_MAX_OFFSETS 8

/* A plan for any size. Its values are the numbers of the graph, then n, then
 * the offsets. */
struct rt_sized {
    uint32_t plan; /* its number */
    uint64_t key;  /* of form and math */
    struct rt_form form;
    struct rt_extent *places; /* by size of the form */
    struct sched_sizes sizes;
    struct dim_table *table; /* owned: n is its symbol 0 */
    uint32_t n_offsets;
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

/* Makes in `g` the graph of a plan for any size that the graph under `sink` is
 * one of, from what it has been before, and fills in the plan's values; roots[]
 * has room for those of the sink. `out` is owned (rt_sized_fini); out->sizes.n
 * is 0 where nothing comes of it. */
BELL_MUST_CHECK bell_status rt_sizes_build(
    struct tensor_runtime *rt, const struct rt_form *form, struct rt_plan *plan,
    struct uop_graph *g, const struct uop **roots, struct rt_sized *out);

/* The same for a graph that comes for the first time, if it is small and takes
 * rows of tensors: how many they are is the size, where they begin are offsets.
 * `first` is its plan with what rt_vary_guess found. */
BELL_MUST_CHECK bell_status rt_sizes_guess(struct tensor_runtime *rt,
                                           const struct rt_plan *first,
                                           struct rt_plan *plan,
                                           struct uop_graph *g,
                                           const struct uop **roots,
                                           struct rt_sized *out);
/* The values that were looked up become those that the plan was made with. */
BELL_MUST_CHECK bell_status rt_sizes_take(struct tensor_runtime *rt,
                                          const struct rt_plan *plan);
void rt_sized_fini(struct rt_sized *sized);

/* Prepares the plan for sizes of the table. */
BELL_MUST_CHECK bell_status rt_sizes_count(struct rt_plan *plan,
                                           const struct sched_sizes *sizes);
/* Takes the symbols' values, the last of values[]. */
void rt_sizes_take_symbols(struct rt_plan *plan, const struct rt_value *values,
                           size_t n);
/* Gives the plan's buffers the sizes that were looked up, and a place in
 * scratch memory if they have not been so great. */
BELL_MUST_CHECK bell_status rt_sizes_place(struct rt_plan *plan);
/* Those of a plan of symbols become what they can be at most. */
BELL_MUST_CHECK bell_status rt_sizes_place_most(struct rt_plan *plan);

#endif
