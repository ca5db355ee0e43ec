/* Programs of one launch: a range of work-groups for each (lower/pack.c). */
#ifndef BELL_LOWER_PACK_H
#define BELL_LOWER_PACK_H

#include "lower/lower.h"

#define LOWER_FORM_LOCALS 12

/* LOCAL memory that a part has at a time. */
struct lower_form_local {
    enum uop_dtype dtype;
    uint32_t n_elems;
};

/* What of a program decides with which others it may share a launch. */
struct lower_form {
    bool has_matrix, has_wgmma;
    bool is_bound;      /* to its number of threads: they work together */
    uint32_t n_threads; /* of a work-group; a power of two */
    uint32_t n_ops, least_ops, most_ops; /* of all parts, of one */
    uint64_t n_groups;
    bool is_long; /* a part keeps the device busy: the caller sets it */
    uint32_t n_locals;
    struct lower_form_local locals[LOWER_FORM_LOCALS];
};

/* False: it shares with none. */
bool lower_form_of(const struct lower_program *p,
                   const struct lower_target *target,
                   struct lower_form *out_form);

/* Adds the part to the form of a pack. False, and nothing changes: they are
 * too different, or too much. */
bool lower_form_join(struct lower_form *form, const struct lower_form *part,
                     const struct lower_target *target);

/* Makes in `g` the program of all parts, programs of any graphs that store to
 * different slots and load none of those. Their forms have been joined, in
 * this order. */
BELL_MUST_CHECK bell_status lower_pack(struct uop_graph *g,
                                       const struct lower_program *parts,
                                       uint32_t n_parts,
                                       const struct lower_target *target,
                                       struct lower_program *out_program);

#endif
