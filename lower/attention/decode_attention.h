/* Shared by the forms of attention of few queries on a GPU
 * (lower/attention/attention.h): who has which rows, and what warps that have
 * seen keys of their own have to join in the end.
 */
#ifndef BELL_LOWER_ATTENTION_DECODE_ATTENTION_H
#define BELL_LOWER_ATTENTION_DECODE_ATTENTION_H

#include "lower/attention/attention_code.h"

struct attend_few {
    struct attend_code c;
    uint32_t rows, threads;  /* of a work-group */
    uint32_t wave;           /* threads of it that exchange */
    uint32_t cols;           /* of v */
    const struct uop *row0;  /* the first row */
    const struct uop *lane;  /* thread % wave */
    const struct uop *warp;  /* thread / wave */
    const struct uop *state; /* LOCAL memory: attend_few_place */
    /* For the variants by matrix instructions, whose warps have keys of their
     * own. */
    uint32_t keys;           /* of a warp in a step */
    const struct uop *range; /* the loop of steps */
};

/* Rows of one k and v. */
int64_t attend_few_count(const struct kernel *k, const struct attend *a);

/* Counts rows and keys. */
void attend_few_init(struct attend_few *f, struct expand *e,
                     const struct attend *a);

/* Rows of a work-group, at most `most`: of tiles that are as many, those that
 * differ least. */
uint32_t attend_few_rows(const struct attend_few *f, int64_t most);

/* Work-groups for all rows of the batch; and LOCAL memory for what they
 * join. */
BELL_MUST_CHECK bell_status attend_few_map_groups(struct attend_few *f,
                                                  struct lower_program *p);

/* Number `row` of the work-group's rows, or the last that there is. */
const struct uop *attend_few_row(const struct attend_few *f,
                                 const struct uop *row);

/* The key that is `at` behind the warp's first of this step, or the last that
 * there is. */
const struct uop *attend_few_key(const struct attend_few *f,
                                 const struct uop *at);

/* The function of the score of that key and the row that is let; the lowest
 * number where there is no such key. */
const struct uop *attend_few_seen(struct attend_few *f, const struct uop *score,
                                  const struct uop *at, uint32_t n_pairs);

/* Lane i of a vector; a vector of n. */
const struct uop *attend_few_lane(const struct attend_few *f,
                                  const struct uop *u, uint32_t i);
const struct uop *attend_few_lanes(const struct attend_few *f,
                                   const struct uop *const *u, uint32_t n);

/* Words of LOCAL memory that warps join in. */
uint32_t attend_few_words(const struct attend_few *f);

/* Where the warp puts M of its row; L is attend_few_states further, O from
 * attend_few_out on. */
const struct uop *attend_few_place(const struct attend_few *f,
                                   const struct uop *row);
uint32_t attend_few_states(const struct attend_few *f);
const struct uop *attend_few_out(const struct attend_few *f,
                                 const struct uop *place);

/* The SINK of what is stored of all rows and columns, behind a BARRIER. */
const struct uop *attend_few_stores(struct attend_few *f,
                                    const struct uop *barrier);

/* ---- by matrix instructions (decode_attention_matrix.c) ---- */

#define ATTEND_FEW_MATRIX 16 /* rows of a work-group, at most */

/* Fragments of an instruction that multiplies queries with keys, and E with
 * values: which thread has which elements. For thread `lane` of a warp
 *   row  = lane / row_every % span
 *   part = lane / part_every % parts
 * and the thread has
 *   scores, results: element each * h + i is query span * h + row with key (or
 *                    column) each * part + i of a tile of `span`
 *   queries, E:      these elements of `tiles` tiles of keys, in order
 *   keys, values:    the same without h, of key (or column) `row`
 * tests/unit/test_fragments.c compares this with uop_wmma_place. */
struct attend_fragments {
    struct uop_wmma shape;
    uint8_t row_every, span, part_every, parts;
    uint8_t halves, each, tiles; /* h < halves, i < each */
    uint8_t keys, wide_keys;     /* of a warp in a step; of wide elements */
    bool is_swapped;             /* A is keys or columns, B queries */
};

/* NULL: there is none of that layout. */
const struct attend_fragments *
attend_few_fragments(enum uop_wmma_layout layout);

bool attend_few_fits_matrix(const struct kernel *k, const struct attend *a);
BELL_MUST_CHECK bell_status expand_attend_few_matrix(
    struct kernel *k, const struct attend *a, const struct uop **out_sink,
    struct lower_program *program);

#endif
