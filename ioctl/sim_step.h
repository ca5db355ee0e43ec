/* Simulated cards that are stepped through: between who looks and sim/. While
 * somebody looks, the thread of a card that comes to what he wants to see calls
 * him and waits there; other threads that come to something wait behind it.
 *
 * One looks at a time. Threads: any.
 */
#ifndef BELL_IOCTL_SIM_STEP_H
#define BELL_IOCTL_SIM_STEP_H

#include <stdbool.h>
#include <stdint.h>

enum sim_stop {
    SIM_STOP_SUBMIT, /* a queue begins with what was submitted */
    SIM_STOP_PACKET, /* before a packet, or a header and its methods */
    SIM_STOP_KERNEL, /* before the first work-group */
    SIM_STOP_WAVE,   /* before a wave's (warp's) first instruction */
    SIM_STOP_INSN,   /* before an instruction of a wave */
    SIM_STOP_COUNT
};

/* What the words of a place are, or its registers. */
enum sim_words {
    SIM_WORDS_NONE,
    SIM_WORDS_NV_RING,
    SIM_WORDS_NV_PUSH,
    SIM_WORDS_PM4,
    SIM_WORDS_SDMA,
    SIM_WORDS_AQL,
    SIM_WORDS_CODE,   /* of an instruction */
    SIM_WORDS_NV_QMD, /* of recordings */
};

#define SIM_STEP_LANES 64
#define SIM_STEP_DW    96 /* of a packet, the first of them */

/* A register; of a queue, of words SIM_WORDS_*, or of a wave. */
struct sim_register {
    char name[32];    /* of a wave's; "" of a queue's */
    uint32_t number;  /* of a queue's: method, register */
    uint32_t slot;    /* NVIDIA: the subchannel whose method it is; its class is
                      * 1's for compute, 4's for copies, where no recording
                      * says otherwise */
    uint32_t n_bits;  /* of each value: 1, 16, 32, 64 */
    uint32_t n_lanes; /* 1: it is scalar */
    uint64_t defined; /* lanes that have a value */
    uint64_t values[SIM_STEP_LANES];
};

/* Where a card is. It and all that it points to are valid during the call. */
struct sim_place {
    enum sim_stop kind;
    const char *queue; /* "channel 0x4" */
    uint64_t va;       /* of the words; of a kernel, its code */
    enum sim_words format;
    const uint32_t *words;
    uint32_t n_words;   /* that are in `words`; */
    uint32_t n_all;     /* that there are */
    const char *kernel; /* name; NULL: the card knows none */
    uint32_t grid[3], local[3];
    uint64_t signals[3]; /* semaphores that the kernel's end writes */
    uint32_t n_signals;
    uint32_t group[3], wave; /* of a wave and an instruction */
    const char *text;        /* of an instruction, to the line's end */
    /* Memory of the queue's address space; false: not all is mapped. */
    bool (*read)(const struct sim_place *place, uint64_t va, void *out,
                 uint32_t n_bytes);
    /* Register `index` from 0 of the place; false: there is none. */
    bool (*find_register)(const struct sim_place *place, uint32_t index,
                          struct sim_register *out_register);
    void *user; /* who tells it: his own */
};

/* Who looks: may change what stops are wanted, by sim_step_want. */
typedef void sim_step_fn(void *user, const struct sim_place *place);

/* From now on `fn` is called at the wanted stops: bits 1u << enum sim_stop. */
void sim_step_begin(sim_step_fn *fn, void *user, uint32_t stops);
void sim_step_want(uint32_t stops);
/* Nobody is called any more when it returns. Not out of `fn`. */
void sim_step_end(void);

/* For sim/. */
bool sim_step_wants(enum sim_stop kind);
void sim_step_tell(const struct sim_place *place);

#endif
