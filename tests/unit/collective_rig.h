/* Devices, queues and memory of collectives under test, and what each
 * collective should give, by plain loops.
 */
#ifndef BELL_TESTS_UNIT_COLLECTIVE_RIG_H
#define BELL_TESTS_UNIT_COLLECTIVE_RIG_H

#include "hcq/hcq_collective.h"
#include "tensor/runtime/sum.h"

#define RIG_POISON    0xa5
#define RIG_GUARD     64 /* bytes before and behind each side */
#define RIG_WAIT_NS   (600ull * 1000000000)
#define RIG_RANKS_MAX HCQ_COLLECTIVE_RANKS_MAX

struct fleet {
    uint32_t n;
    bool is_one;         /* one device for all ranks */
    uint64_t side_bytes; /* of each buffer, guards included */
    struct hcq_device *devs[RIG_RANKS_MAX];
    struct hcq_queue *queues[2 * RIG_RANKS_MAX];
    uint32_t n_queues;
    struct hcq_buffer *in[RIG_RANKS_MAX], *out[RIG_RANKS_MAX];
    /* For slots: other memory for every other submission, and all of it as
     * other devices see it, made when it is needed. */
    struct hcq_buffer *spare_in[RIG_RANKS_MAX], *spare_out[RIG_RANKS_MAX];
    struct rig_peer *peers;
    struct tensor_sums *sums;
    /* Numbers of one dtype, as large as a side, in the host's memory: what is
     * in each input, with its guards, and the sums of all inputs. Whole: see
     * numbers_fill. */
    bool has_numbers, is_whole;
    enum hcq_dtype dtype;
    uint64_t seed;
    uint8_t *inputs[RIG_RANKS_MAX], *sum;
    uint8_t *poison, *got; /* what outputs had before; what came back */
};

/* Opens n devices of the names in `list`, with commas between; one name with
 * ":*" in it is opened n times with the number for the star, "CPU" as it is;
 * "=NAME": one device for all ranks. copy_queues: also one for copies, each. */
void rig_open(struct fleet *rig, const char *list, uint32_t n,
              uint64_t most_bytes, bool copy_queues);
void rig_close(struct fleet *rig);

/* Sides that are slots. */
enum rig_slots {
    RIG_IN_SLOTS = 1,
    RIG_OUT_SLOTS = 2,
};

/* One collective of a kind: where its sides lie. */
struct rig_case {
    enum hcq_collective_kind kind;
    enum hcq_collective_algorithm by;
    enum hcq_dtype dtype;
    uint64_t count;
    uint32_t root, target;
    bool in_place;
    uint64_t offset; /* bytes from the guard on, of both sides */
    uint64_t seed;
    unsigned slots; /* enum rig_slots; in place: none or both */
};

/* Fills in the descriptor; ranks has room for all. */
void rig_describe(struct fleet *rig, const struct rig_case *c,
                  struct hcq_collective_rank *ranks,
                  struct hcq_collective_desc *out_desc);
/* Whether inputs and sums are there of the case's dtype and seed. */
bool rig_has(const struct fleet *rig, const struct rig_case *c);
/* Makes them where they are not; inputs on the devices, poisoned outputs. */
void rig_prepare(struct fleet *rig, const struct rig_case *c);
/* The same inputs once more, and poisoned outputs. */
void rig_write(struct fleet *rig);
/* Poisoned outputs alone, where the inputs are as they were written. */
void rig_poison(struct fleet *rig);
/* The graph with the collective, ended. */
void rig_build(struct fleet *rig, const struct rig_case *c,
               struct hcq_graph **out_graph,
               struct hcq_collective **out_collective);
/* Other memory for slots from now on; rig->in and out are that. */
void rig_swap(struct fleet *rig);
/* Sets all slots to rig->in and out. */
void rig_bind(struct fleet *rig, const struct rig_case *c,
              struct hcq_graph *graph, const struct hcq_collective *collective);
/* Every byte of all memory is as expected; `what` is printed if not. */
void rig_check(struct fleet *rig, const struct rig_case *c, const char *what);

#endif
