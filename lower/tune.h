/* Schedules as data: what the rules choose for a kernel, to be printed, parsed,
 * changed and lowered by.
 *
 * A schedule is a list of actions, "upcast 0 12; unroll 2 4". Ranges have the
 * numbers of the kernel in its canonical form, joined and taken apart as the
 * rules do first. What an action leaves open (the rest of a reduction that is
 * not a multiple, accesses, stages) follows from the others. One that no
 * kernel, or not this one, can have is BELL_E_INVALID with the reason.
 */
#ifndef BELL_LOWER_TUNE_H
#define BELL_LOWER_TUNE_H

#include "lower/lower.h"

enum lower_action_kind {
    /* The rules choose, but not these forms, as bits: a CPU's product; a GPU's
     * matrix, tile, team, across. Stands alone. */
    LOWER_WITHOUT,
    /* A CPU's loops, and what they are cut into. */
    LOWER_LOOPS,
    LOWER_PRODUCT, /* of packed operands; 0: columns, 1: rows too, 2: TILE_MATMUL */
    LOWER_FOLD,   /* two ranges of outputs that become one, the second counting
                    * faster; later actions, and folds, have the numbers then */
    LOWER_VECTOR, /* range, lanes */
    LOWER_UPCAST, /* range, copies in registers */
    LOWER_UNROLL, /* range of a reduction, steps */
    LOWER_ORDER,  /* range, place of its loop; outermost first, all or none */
    LOWER_GRID,   /* range, work-groups along it */
    LOWER_PANELS, /* of a product, in a work-group */
    LOWER_PARTS,  /* of the rows, each a work-group's */
    LOWER_HEIGHT, /* tiles of rows, packed together */
    /* A GPU's forms. */
    LOWER_MATRIX, /* warps down, across; tiles of a warp down, across; pieces of
                   * steps in LOCAL memory */
    LOWER_WGMMA,  /* the same */
    LOWER_TILE,   /* height, width; of a thread; steps in LOCAL memory */
    LOWER_TEAM,   /* threads of a row, rows, lanes of rows, 1: keeps its part */
    LOWER_TURN,   /* lanes stored, values across */
    LOWER_ACROSS, /* lanes, threads */
    LOWER_ROWS,   /* lanes, threads */
    LOWER_ACTION_COUNT
};

#define LOWER_ACTION_ARGS 5
#define LOWER_MAX_ACTIONS 96

struct lower_action {
    uint8_t kind;
    int32_t n[LOWER_ACTION_ARGS];
};

struct lower_schedule {
    uint32_t n_actions; /* 0: whatever the rules choose */
    struct lower_action actions[LOWER_MAX_ACTIONS];
};

/* A schedule that a kernel was lowered by, and what others it could have. */
struct lower_made {
    struct lower_schedule schedule; /* empty: it has no choice */
    uint32_t n_ranges;
    int64_t sizes[64]; /* -1: not a constant */
    uint64_t reduce_ranges;
    uint8_t lanes[64];    /* of a CPU's vector along each range, 0: none */
    uint32_t row, column; /* of a product on a CPU */
    bool is_in_place;     /* it loads what it stores */
};

/* As lower_kernel, by that schedule; NULL: the rules'. Fills *out_made (may be
 * NULL), whose schedule makes the same program again. */
BELL_MUST_CHECK bell_status lower_kernel_by(
    struct uop_graph *g, const struct uop *sink,
    const struct lower_target *target, const struct lower_schedule *schedule,
    struct lower_made *out_made, struct lower_program *out_program);

#define LOWER_SCHEDULE_TEXT 2048

/* "rules" where it is empty. `text` has LOWER_SCHEDULE_TEXT bytes. */
void lower_schedule_print(const struct lower_schedule *schedule, char *text);

/* BELL_E_INVALID says which action is none. */
BELL_MUST_CHECK bell_status
lower_schedule_parse(const char *text, struct lower_schedule *out_schedule);

/* The schedules that differ from a kernel's in one action, or little more:
 * fills list[] with up to `cap` and returns how many. Some may turn out
 * invalid, or equal. */
uint32_t lower_neighbours(const struct lower_made *made,
                          const struct lower_target *target,
                          struct lower_schedule *list, uint32_t cap);

/* The rules without one or another form: the same. */
uint32_t lower_alternatives(const struct lower_target *target,
                            struct lower_schedule *list, uint32_t cap);

#endif
