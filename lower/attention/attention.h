/* Attention in one kernel: softmax(q @ k.T ...) @ v with an online softmax.
 *
 * The kernel is written as if the scores were computed for each of three
 * reductions over the keys j, which share that RANGE:
 *
 *   S = sum of q * k over c        x = any function of S and of i, j
 *   M = max of x over j            E = exp2((x - M) * constant)
 *   L = sum of E over j            O = sum of W * v over j
 *
 * where W is E or float32(half(E)), and stores any function of O, L and M. Here
 * it becomes one loop over tiles of keys with running M, L and O: when M grows,
 * L and O are multiplied by what E makes of the difference. A row of scores
 * that are all -inf gives NaN, as it does when they are reduced one after the
 * other. Beside O, L and M may be stored.
 *
 * Gradients are products of the same kind without M and L of their own:
 *
 *   S = sum of q * k over c        O = sum of W * v over j
 *   T = sum of q2 * k2 over c2     W = any function of S, T, i, j, rounded
 *
 * where T need not be there, and i may be keys and j queries.
 */
#ifndef BELL_LOWER_ATTENTION_ATTENTION_H
#define BELL_LOWER_ATTENTION_ATTENTION_H

#include "lower/kernel/kernel.h"

#define ATTEND_NO_ROW UINT32_MAX
#define ATTEND_ONE_TILE                                                        \
    64                     /* keys, of LOWER_ATTENDS_SMALL: with so few any
                            * number of queries is attention */
#define ATTEND_FEW_ROWS 8  /* of a work-group. guess: registers */
#define ATTEND_FEW_KEYS 32 /* guess: joining fewer does not pay */

/* A kernel that is attention. Numbers are of ranges. */
struct attend {
    const struct uop *store;
    const struct uop *score, *max, *sum, *out; /* S, M, L, O: REDUCEs */
    const struct uop *seen, *exp, *diff;       /* x, E, x - M */
    const struct uop *weight;                  /* E, rounded */
    const struct uop *q, *k, *v;               /* before they are widened */
    uint32_t row, key, in, col;                /* i, j, c, columns of v */
    /* Not MIN_ROWS in `row`, which may be NO_ROW, or no more than a form for
     * few takes at once: rows are then those of few_rows, the ranges that k and
     * v have not, of which the last counts fastest. */
    bool is_few;
    uint64_t few_rows;
    uint64_t batch;            /* other output ranges */
    const struct uop *kept[2]; /* STOREs of L and M; NULL: there is none */
    /* A gradient: max, sum, exp and diff are NULL, seen is W. */
    bool is_back;
    const struct uop *score2, *q2, *k2; /* T's; NULL: there is none */
    uint32_t in2;
};

/* Is it, of such sizes that expand_attend makes it for targets that attend to
 * these kinds (lower_attends)? */
bool attend_find(const struct kernel *k, uint32_t kinds, struct attend *out);

/* Takes output ranges apart of which k and v see a part only, as heads do that
 * share keys, so that few rows are those of all that share; *a is what is found
 * then. Nothing where rows are not few. */
BELL_MUST_CHECK bell_status attend_group(struct kernel *k, uint32_t kinds,
                                         struct attend *a);

/* Ranges whose size is only known when the kernel runs count to the greatest
 * that it can be (attend_end says what it is), and *a is what is found then:
 * each form keeps what lies behind it out. */
BELL_MUST_CHECK bell_status attend_bound(struct kernel *k, uint32_t kinds,
                                         struct attend *a);

/* The range's size, or the greatest that it can be. */
int64_t attend_most(const struct kernel *k, uint32_t r);
/* Behind attend_bound: the range's size, at least 1, where only a run knows
 * it; NULL: it counts to its end. */
const struct uop *attend_end(const struct kernel *k, uint32_t r);

/* May functions be approximate? If E is rounded to halves and there is no other
 * but 1 / L, which is correct to a unit in the last place. */
bool attend_is_approx(const struct kernel *k, const struct attend *a);

/* In place of expand_kernel. */
BELL_MUST_CHECK bell_status expand_attend(struct kernel *k,
                                          const struct attend *a,
                                          const struct uop **out_sink,
                                          struct lower_program *program);

/* Its forms: halves by mma.sync, other GPUs and dtypes, the host; and few
 * queries on a GPU. */
BELL_MUST_CHECK bell_status expand_attend_nv(struct kernel *k,
                                             const struct attend *a,
                                             const struct uop **out_sink,
                                             struct lower_program *program);
BELL_MUST_CHECK bell_status expand_attend_gpu(struct kernel *k,
                                              const struct attend *a,
                                              const struct uop **out_sink,
                                              struct lower_program *program);
BELL_MUST_CHECK bell_status expand_attend_host(struct kernel *k,
                                               const struct attend *a,
                                               const struct uop **out_sink,
                                               struct lower_program *program);
BELL_MUST_CHECK bell_status expand_attend_few(struct kernel *k,
                                              const struct attend *a,
                                              const struct uop **out_sink,
                                              struct lower_program *program);
/* Are the sizes such that this can be? */
bool attend_few_fits(const struct kernel *k, const struct attend *a);

#endif
