/* Inside of `doorbell step`: one session of looking at a simulated card. Cards'
 * threads call it one at a time, while the main thread waits (sim_step.h). */
#ifndef BELL_TOOLS_STEP_STEP_H
#define BELL_TOOLS_STEP_STEP_H

#include <stdio.h>

#include "hcq/hcq.h"
#include "ioctl/sim_step.h"
#include "hcq/decode/decode_amd.h"
#include "hcq/decode/decode_nv.h"
#include "base/json.h"

#define STEP_BREAKS_MAX     32
#define STEP_SEMAPHORES_MAX 64

/* A kernel's name, or an address of code or packets. */
struct step_break {
    char name[HCQ_NAME_MAX]; /* "": the address */
    uint64_t va;
};

struct step {
    FILE *commands;
    bool prompts;           /* somebody types */
    struct json *json;      /* NULL: text */
    struct hcq_device *dev; /* whose programs have names; NULL: none has */
    struct decode_nv nv;
    struct decode_amd amd;
    const struct sim_place *place; /* where the card is held; NULL: nowhere */
    char kernel[HCQ_NAME_MAX];     /* the last that began; "": not known */
    struct step_break breaks[STEP_BREAKS_MAX];
    size_t n_breaks;
    uint64_t semaphores[STEP_SEMAPHORES_MAX]; /* addresses, as seen */
    size_t n_semaphores;
    uint32_t sem_addr[2]; /* of NVIDIA's host methods, so far */
    enum sim_stop target; /* what it runs to */
    int64_t n_left;       /* so often */
    bool is_free;         /* to breakpoints alone */
    bool is_pending;      /* a command runs, and is told of when it stops */
    bool has_ended, has_quit;
    unsigned n_bad; /* commands that were none, or could not be done */
    uint64_t n_stops;
};

/* The card is held here, or goes on at once. */
void step_come_to(struct step *step, const struct sim_place *place);
/* Words are read as these do. */
void step_use_decoders(struct step *step, const struct decode_nv *nv,
                       const struct decode_amd_chip *amd_chip);
/* From a cassette's first submission to its last (step_replay.c). */
BELL_MUST_CHECK bell_status step_replay(struct step *step, const char *path);

/* What a place is, with its words decoded (step_show.c). */
void step_show_place(struct step *step);
/* Registers whose names begin with `pattern`; "": all. */
void step_show_registers(struct step *step, const char *pattern);
void step_show_memory(struct step *step, uint64_t va, uint32_t n_dw);
void step_show_semaphores(struct step *step);
/* Keeps the addresses that a packet waits for or signals. */
void step_note_semaphores(struct step *step, const struct sim_place *place);
/* The place's kernel, by its name or else ""; of a wave the last that began. */
const char *step_kernel(struct step *step, const struct sim_place *place);

#endif
