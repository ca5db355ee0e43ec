/* Shared by the forms of attention in one kernel (lower/attention/attention.h):
 * short forms of nodes, and the kernel's expressions at places.
 */
#ifndef BELL_LOWER_ATTENTION_ATTENTION_CODE_H
#define BELL_LOWER_ATTENTION_ATTENTION_CODE_H

#include "lower/attention/attention.h"
#include "lower/expand/expand_internal.h"

/* What every form begins with. */
struct attend_code {
    struct expand *e;
    struct uop_graph *g;
    const struct attend *a;
    int64_t n_rows, n_keys, tile; /* tile: of keys */
    const struct uop *valid;      /* are there rows of the work-group, in its
                                   * batch? NULL: always */
    bool is_whole; /* the present tile and the next have a key everywhere */
    const struct uop *from[KERNEL_MAX_RANGES + 8], *to[KERNEL_MAX_RANGES + 8];
    uint32_t n_pairs;
    /* Where x is S * c, or where it is: that node; E of 0 or less is then
     * exp2(S * factor - M * factor), of the maximum of S. Else NULL. */
    const struct uop *scaled, *factor;
    /* exp2((S - M) * factor) instead: an instruction more, and right where M *
     * factor is so large that its rounding shows, from 2^31 on. */
    bool is_exact;
    double scale; /* that c; else 1 */
};

/* ---- short forms ---- */

static inline const struct uop *
num(const struct attend_code *w, int64_t value)
{
    return uop_const_int(w->g, UOP_I64, value);
}

static inline const struct uop *
op2(const struct attend_code *w, enum uop_op op, const struct uop *a, int64_t b)
{
    return uop_alu2(w->g, op, a, num(w, b));
}

static inline const struct uop *
add(const struct attend_code *w, const struct uop *a, const struct uop *b)
{
    return uop_alu2(w->g, UOP_ADD, a, b);
}

/* a + b * c */
static inline const struct uop *
step(const struct attend_code *w, const struct uop *a, const struct uop *b,
     int64_t c)
{
    return add(w, a, op2(w, UOP_MUL, b, c));
}

/* The least float: nothing was seen. */
static inline const struct uop *
low(const struct attend_code *w)
{
    return uop_identity(w->g, UOP_MAX, UOP_F32);
}

/* ---- the kernel's expressions at places (attention_code.c) ---- */

/* Until the next value: `from` is `to`; and the range is that. */
void attend_let(struct attend_code *w, const struct uop *from,
                const struct uop *to);
void attend_let_range(struct attend_code *w, uint32_t r, const struct uop *to);

/* The expression with what was let; only the first n of that hold further. */
const struct uop *attend_value(struct attend_code *w, const struct uop *u,
                               uint32_t n);

/* The expression with what was let, and range r from `at` on: a value a lane,
 * of loads that are as wide where they can be. What was let stays so. */
const struct uop *attend_lanes(struct attend_code *w, const struct uop *u,
                               uint32_t r, const struct uop *at,
                               uint16_t lanes);

/* Tiles of keys for rows `begin` to `last`, from *out_first on: those that they
 * see some of where all others' W is 0. */
const struct uop *attend_count_tiles(const struct attend_code *w,
                                     const struct uop *begin,
                                     const struct uop *last,
                                     const struct uop **out_first);

/* Is what lies there, by range r, what `other` is by its range s? */
bool attend_is_same(const struct attend_code *w, const struct uop *value,
                    uint32_t r, const struct uop *other, uint32_t s);

/* STOREs of the row's L and M where `gate` holds, to out[]; how many. */
uint32_t attend_store_kept(struct attend_code *w, const struct uop *row,
                           const struct uop *sum, const struct uop *max,
                           const struct uop *gate, const struct uop **out);

/* Finds w->scaled and w->factor: the maximum is then used for nothing else. */
void attend_find_factor(struct attend_code *w);

/* Row `row` is let, or the last there is: its range, or those of few rows. */
void attend_let_row(struct attend_code *w, const struct uop *row);

/* The value of range r, which may be behind the last by less than a multiple of
 * `tile`, or anywhere where the size is not known, as one of its values. And is
 * it one? NULL: always. */
const struct uop *attend_clamp(const struct attend_code *w, uint32_t r,
                               const struct uop *u, int64_t tile);
const struct uop *attend_inside(const struct attend_code *w, uint32_t r,
                                const struct uop *u, int64_t tile);
/* The same of number `row` of few rows. */
const struct uop *attend_few_inside(struct attend_code *w,
                                    const struct uop *row, int64_t tile);

/* Both conditions, which may be NULL: it always holds. */
const struct uop *attend_both(const struct attend_code *w, const struct uop *a,
                              const struct uop *b);

/* A work-group for each tile of `rows`, for each of the batch, whose ranges are
 * let; *out_row is its first row. Where rows see the keys up to their own,
 * those with the most begin. Behind the end of a batch the last is let;
 * w->valid does not hold there, nor behind the last row. */
BELL_MUST_CHECK bell_status attend_map_groups(struct attend_code *w,
                                              int64_t rows,
                                              struct lower_program *p,
                                              const struct uop **out_row);

/* The last of `rows` rows from `begin` on, or the last there is. */
const struct uop *attend_last(const struct attend_code *w,
                              const struct uop *begin, int64_t rows);

/* Where only a run knows how many keys there are: how many of `tiles`, from
 * `first` on, have a key everywhere, and so has the next: all, or all but the
 * last two. Else NULL: tiles are all made alike. */
const struct uop *attend_whole_tiles(const struct attend_code *w,
                                     const struct uop *first,
                                     const struct uop *tiles);

/* Tiles of all keys. */
const struct uop *attend_all_tiles(const struct attend_code *w);

/* The SINK of a GPU's program, which does nothing where w->valid does not
 * hold. */
const struct uop *attend_sink(const struct attend_code *w,
                              const struct uop *const *effects, uint32_t n);

/* E of a difference; `max` is attend_safe's. */
const struct uop *attend_exp(struct attend_code *w, const struct uop *x,
                             const struct uop *max);

/* The factor of sums of E when `old`, their maximum, becomes `max`, which is
 * attend_safe's. Exactly 1 where that is the same one: S * factor rounds as in
 * what was subtracted then. */
const struct uop *attend_rescale(struct attend_code *w, const struct uop *old,
                                 const struct uop *max);

/* What is subtracted for this maximum: nothing for -inf, of which nothing was
 * seen; times the factor and negative where there is one that
 * is not exact. */
const struct uop *attend_safe(const struct attend_code *w,
                              const struct uop *max);

/* A coordinate. */
const struct uop *attend_special(const struct attend_code *w, int64_t which,
                                 int64_t extent);
/* `all` work-groups of one thread in one dimension, and which of them this is.
 * BELL_E_UNSUPPORTED: the target has not so many. */
BELL_MUST_CHECK bell_status attend_grid(const struct attend_code *w,
                                        int64_t all, struct lower_program *p,
                                        const struct uop **out_group);

/* ---- memory and variables ---- */

/* n variables behind an effect. */
void attend_behind(const struct attend_code *w, const struct uop **accs,
                   uint32_t n, const struct uop *effect);

/* The memory behind n effects. */
const struct uop *attend_after(const struct attend_code *w,
                               const struct uop *memory,
                               const struct uop *const *effects, uint32_t n);

/* A variable that is set inside the bodies of n loops. */
const struct uop *attend_acc(struct attend_code *w, const struct uop *first,
                             const struct uop *const *loops, uint32_t n);
const struct uop *attend_get(const struct attend_code *w, const struct uop *acc,
                             const struct uop *when);
const struct uop *attend_set(const struct attend_code *w, const struct uop *acc,
                             const struct uop *value);

#endif
