/* Shared by attention by mma.sync (attention_nv.c) and by WGMMA
 * (attention_wgmma.c): what a thread has of the scores and results is the
 * same in both.
 */
#ifndef BELL_LOWER_ATTENTION_ATTENTION_NV_H
#define BELL_LOWER_ATTENTION_ATTENTION_NV_H

#include "lower/attention/attention_code.h"

#define ATTEND_NV_TALL  2   /* tiles of rows. observed: H100, 2026-11-23 */
#define ATTEND_NV_STEPS 16  /* of q: 256 elements */
#define ATTEND_NV_TILE  128 /* keys */
#define ATTEND_NV_TILES (ATTEND_NV_TILE / 8)
#define ATTEND_NV_COLS  32 /* tiles of v's columns */

/* k, v or k2. */
struct attend_nv_side {
    const struct uop *value; /* what lies there */
    uint32_t range;          /* along which neighbours lie: c or the columns */
    int64_t n, wide;         /* its size; with zeros, a multiple of 16 */
    int64_t stride;          /* of a key in LOCAL memory */
    const struct uop *array, *memory;  /* in LOCAL memory, as it is now */
    const struct uop *half;            /* where the tile begins */
    const struct attend_nv_side *same; /* which lies there already, or NULL */
};

/* q or q2: the parts of a warp's rows. */
struct attend_nv_rows {
    const struct uop *value;
    uint32_t range;
    const struct uop *part[ATTEND_NV_TALL][ATTEND_NV_STEPS];
};

struct attend_nv {
    struct attend_code c;
    uint32_t warps;                        /* of a work-group */
    uint32_t tall;                         /* tiles of 16 rows of a warp */
    struct attend_nv_side k, v, k2;        /* k2.value NULL: there is none */
    const struct uop *g4, *t4;             /* thread / 4, % 4, of its warp */
    const struct uop *row0;                /* first row of the warp */
    const struct uop *begin, *last;        /* rows of the work-group */
    const struct uop *range, *first, *now; /* loop over tiles; the first tile,
                                            * the present one */
    struct attend_nv_rows q, q2;
    /* by tile of rows, and half of it */
    const struct uop *max[ATTEND_NV_TALL][2], *sum[ATTEND_NV_TALL][2];
    const struct uop *out[ATTEND_NV_TALL][ATTEND_NV_COLS]; /* ACCs */
    /* of the present tile of keys */
    const struct uop *score[ATTEND_NV_TALL][ATTEND_NV_TILES];
    const struct uop *score2[ATTEND_NV_TALL][ATTEND_NV_TILES];
    const struct uop *x[ATTEND_NV_TALL][ATTEND_NV_TILES][4];
    const struct uop *new_max[ATTEND_NV_TALL][2], *safe[ATTEND_NV_TALL][2];
    const struct uop *scale[ATTEND_NV_TALL][2], *new_sum[ATTEND_NV_TALL][2];
};

static inline const struct uop *
attend_nv_lane(const struct attend_nv *w, const struct uop *u, uint32_t i)
{
    union uop_arg arg = {.i = i};

    return uop_make(w->c.g, UOP_LANE, u->dtype, 1, arg, &u, 1);
}

static inline const struct uop *
attend_nv_lanes(const struct attend_nv *w, const struct uop *const *u,
                uint16_t n)
{
    return uop_make(w->c.g, UOP_LANES, u[0]->dtype, n,
                    (union uop_arg){.bits = 0}, u, n);
}

/* What lies there, without a place yet. */
void attend_nv_init_side(struct attend_nv *w, struct attend_nv_side *s,
                         const struct uop *value, uint32_t range);
/* May a COPY take 16 bytes as they lie? */
bool attend_nv_is_copied(const struct attend_nv *w,
                         const struct attend_nv_side *s);

/* Work-groups of w->warps warps: tiles of rows, and the batch. */
BELL_MUST_CHECK bell_status attend_nv_map_groups(struct attend_nv *w,
                                                 struct lower_program *p);

/* The warps' parts of q or q2, which is as `side` is. */
void attend_nv_load_queries(struct attend_nv *w, struct attend_nv_rows *rows,
                            const struct attend_nv_side *side);

/* w->x[tall]: what the function of the scores gives; past the last key -inf,
 * of W 0. */
void attend_nv_see_scores(struct attend_nv *w, uint32_t tall);
/* The maximum of a half's rows so far, and what that makes of what was added
 * up with the one before. */
void attend_nv_raise_max(struct attend_nv *w, uint32_t tall, uint32_t half,
                         const struct uop *old);
/* w->x[tall] becomes E, and is added up by each thread. */
void attend_nv_make_exps(struct attend_nv *w, uint32_t tall,
                         const struct uop *const old[2]);

/* The SINK of what is stored after the loop's `end`, of 8 columns' results
 * each as `get` gives them. */
BELL_MUST_CHECK bell_status attend_nv_make_stores(
    struct attend_nv *w, const struct uop *end,
    const struct uop *(*get)(const struct attend_nv *w, uint32_t tall,
                             uint32_t col, const struct uop *end),
    const struct uop **out_sink);

/* The form by WGMMA; *out_fits false: it is not for these sizes, nothing was
 * made. */
BELL_MUST_CHECK bell_status expand_attend_wgmma(struct kernel *k,
                                                const struct attend *a,
                                                const struct uop **out_sink,
                                                struct lower_program *program,
                                                bool *out_fits);

#endif
