/* Shared by hcq_collective*.c: what a collective does, as steps, before any
 * memory is mapped.
 */
#ifndef BELL_HCQ_HCQ_COLLECTIVE_INTERNAL_H
#define BELL_HCQ_HCQ_COLLECTIVE_INTERNAL_H

#include "base/map.h"
#include "hcq/hcq_collective.h"

#define RANKS_MAX HCQ_COLLECTIVE_RANKS_MAX

/* Memory of a rank. */
enum coll_space {
    COLL_IN,
    COLL_OUT,
    COLL_COPY,  /* of the device: a copy of the input, or what passes by */
    COLL_PART,  /* of the device: partial sums */
    COLL_TEAM,  /* of the device: its share of a team's memory */
    COLL_STAGE, /* pinned host memory that the rank writes and others read */
    COLL_SPACE_COUNT
};

struct coll_ref {
    enum coll_space space;
    uint32_t rank;
    uint64_t at; /* bytes from its begin on */
};

/* A command of one rank's device: a copy of n_bytes, or a sum of `count`
 * elements. Steps of one phase need nothing of each other. */
struct coll_step {
    uint32_t rank, phase;
    uint32_t n_terms; /* of a sum; 0: a copy */
    bool wide_first, wide_result;
    bool is_team;   /* a sum by the team's address, written to all `from` */
    uint64_t count; /* elements, or bytes of a copy */
    struct coll_ref to;
    size_t first_from; /* in plan->from: the terms, or what is copied */
};

/* A part of a rank's memory that is in pinned host memory, too. */
struct coll_staged {
    struct coll_ref of;
    uint64_t n_bytes, at;
    uint32_t phase; /* that it is there from */
};

struct coll_plan {
    enum hcq_collective_algorithm algorithm;
    struct coll_step *steps; /* owned; in order of phases once it is made */
    size_t n_steps, cap_steps;
    struct coll_ref *from; /* owned */
    size_t n_from, cap_from;
    struct coll_staged *staged; /* owned */
    size_t n_staged, cap_staged;
    struct map staged_of; /* hash of what it is a copy of -> index */
    uint64_t space_bytes[COLL_SPACE_COUNT][RANKS_MAX]; /* but IN and OUT */
    bool is_short;                                     /* of host memory */
};

/* What is to be done, and what the links allow. */
struct coll_task {
    enum hcq_collective_kind kind;
    enum hcq_dtype dtype;
    uint64_t count, elem_bytes;
    uint32_t n, root, target;
    bool in_place[RANKS_MAX];
    bool in_pairs;     /* sums */
    bool has_root_out; /* of a broadcast */
    bool has_team;     /* the devices may form one */
    bool is_near;      /* signals lie in the memory of who waits */
    /* [a][b]: a's device accesses b's memory */
    bool reads[RANKS_MAX][RANKS_MAX], writes[RANKS_MAX][RANKS_MAX];
    bool is_posted[RANKS_MAX][RANKS_MAX]; /* writes are faster than reads */
    double rate[RANKS_MAX][RANKS_MAX];    /* bytes a ns, of a direct link */
    double port_rate[RANKS_MAX];          /* of all its links, one direction */
    double host_rate[RANKS_MAX];
    bool is_assumed[RANKS_MAX][RANKS_MAX]; /* of a direct link's rate */
    bool is_host_assumed[RANKS_MAX];
};

/* Bytes of a rank's input and output; 0: it has none. */
uint64_t coll_in_bytes(const struct coll_task *task, uint32_t rank);
uint64_t coll_out_bytes(const struct coll_task *task, uint32_t rank);

/* Whether a team's memory can be added up in elements of that type. */
bool coll_team_adds(enum hcq_dtype dtype);
bool coll_has(enum hcq_collective_kind kind, enum hcq_collective_algorithm by);
/* Whether the kind has such an algorithm, and the links allow it. */
bool coll_can(const struct coll_task *task, enum hcq_collective_algorithm by);

/* The steps. Freed by coll_plan_fini, also after a failure. */
BELL_MUST_CHECK bell_status coll_plan_make(const struct coll_task *task,
                                           enum hcq_collective_algorithm by,
                                           struct coll_plan *out_plan);
void coll_plan_fini(struct coll_plan *plan);

/* Memory that a step reads. */
static inline uint32_t
coll_n_from(const struct coll_step *step)
{
    return step->n_terms ? step->n_terms : 1;
}

static inline const struct coll_ref *
coll_from(const struct coll_plan *plan, const struct coll_step *step,
          uint32_t term)
{
    return &plan->from[step->first_from + term];
}

/* ---- the model (hcq_collective_model.c) --------------------------------- */

/* Asks for the links of the ranks' devices. */
BELL_MUST_CHECK bell_status coll_find_links(
    const struct hcq_collective_rank *ranks, struct coll_task *task);

/* The links of a box, between task->n ranks. */
void coll_make_links(struct coll_task *task,
                     const struct hcq_collective_box *box);

/* Whether the devices may form a team: BELL_E_UNSUPPORTED says why not. */
BELL_MUST_CHECK bell_status
coll_check_team(const struct hcq_collective_rank *ranks, uint32_t n);

/* Chunks that a ring of `n_bytes` goes in. */
uint64_t coll_ring_chunks(const struct coll_task *task, uint64_t n_bytes);

/* What moves in a phase, in bytes. */
struct coll_traffic {
    uint64_t link[RANKS_MAX][RANKS_MAX]; /* from, to */
    uint64_t up[RANKS_MAX], down[RANKS_MAX];
    uint32_t n_commands[RANKS_MAX];
    bool has_sum, has_copy, is_shared;
    /* By a team's address: elements' bytes that the rank sums; what the cards
     * count of it is in link, and no switch moves as much. */
    uint64_t team[RANKS_MAX];
    bool has_team;
};

/* What the plan moves, and how long that takes. Fields from n_sums to
 * predicted_ns and those behind times_ns. `traffic` is overwritten. */
void coll_measure(const struct coll_task *task, const struct coll_plan *plan,
                  struct coll_traffic *traffic,
                  struct hcq_collective_info *info);

/* ---- what was added ------------------------------------------------------ */

/* Memory of a rank, as each rank's device has it. */
struct coll_memory {
    struct hcq_buffer *buf; /* owned but of IN and OUT; NULL: pinned, or none */
    uint64_t offset;
    void *pages; /* owned; of STAGE */
    uint64_t n_bytes;
    /* buf itself, or owned: a peer's or pinned. NULL: not needed */
    struct hcq_buffer *views[RANKS_MAX];
    bool is_slot;              /* IN and OUT only; buf is NULL then */
    uint32_t slots[RANKS_MAX]; /* as each device has it, or HCQ_SLOT_NONE */
};

struct hcq_collective {
    struct coll_task task;
    struct hcq_collective_rank ranks[RANKS_MAX];
    char name[HCQ_NAME_MAX];
    struct coll_plan plan;
    struct hcq_collective_info info;
    struct coll_memory memory[COLL_SPACE_COUNT][RANKS_MAX];
    struct hcq_team *team;       /* owned; or NULL */
    uint64_t team_va[RANKS_MAX]; /* as each rank's device has it */
};

#endif
