/* What a schedule tells the rules, and what they then make of it
 * (lower/tune.h).
 */
#ifndef BELL_LOWER_OPT_OPT_TOLD_H
#define BELL_LOWER_OPT_OPT_TOLD_H

#include "lower/kernel/kernel.h"
#include "lower/opt/opt.h"
#include "lower/opt/opt_model.h"
#include "lower/tune.h"

struct opt_choice;

/* Forms that LOWER_WITHOUT leaves out, as bits. */
enum opt_form {
    OPT_FORM_PRODUCT = 1, /* of a CPU */
    OPT_FORM_MATRIX = 1,
    OPT_FORM_TILE = 2,
    OPT_FORM_TEAM = 4,
    OPT_FORM_TURN = 8,
    OPT_FORM_ACROSS = 16,
    OPT_FORMS_CPU = OPT_FORM_PRODUCT, /* all of them */
    OPT_FORMS_GPU = 2 * OPT_FORM_ACROSS - 1,
};

/* Is the kernel to be lowered by a schedule, rather than as the rules
 * choose? */
bool opt_is_told(const struct kernel *k);

/* The first action of that kind: its numbers go to n[] (may be NULL). */
bool opt_told(const struct kernel *k, enum lower_action_kind kind, int32_t *n);

/* May a rule for a GPU, that of `kind`, be tried? `form`: its bit, or 0. */
bool opt_may_try(const struct kernel *k, enum lower_action_kind kind,
                 uint32_t form);
bool opt_is_without(const struct kernel *k, uint32_t form);

/* Notes an action that the schedule made consists of. */
void opt_made(const struct kernel *k, enum lower_action_kind kind, int64_t n0,
              int64_t n1, int64_t n2, int64_t n3, int64_t n4);
/* Forgets those noted so far. */
void opt_unmake(const struct kernel *k);

/* Notes what the kernel's ranges are. `m`: a CPU's model, or NULL. */
void opt_made_of(const struct kernel *k, const struct opt_model *m);

/* A CPU: fills the choice in as told, from one without anything. */
BELL_MUST_CHECK bell_status opt_choose_told(const struct opt_model *m,
                                            struct opt_choice *choice);
void opt_made_choice(const struct kernel *k, const struct opt_choice *choice);

/* The order of loops and work-groups; false: nothing is told of them. */
BELL_MUST_CHECK bell_status opt_tell_loops(struct opt_plan *plan,
                                           const uint32_t *loops,
                                           bool *out_told);
void opt_made_loops(const struct opt_plan *plan, const uint32_t *loops);

/* Is the number a power of two from `least` to `most`? */
static inline bool
opt_is_pow2(int64_t n, int64_t least, int64_t most)
{
    return n >= least && n <= most && (n & (n - 1)) == 0;
}

#endif
