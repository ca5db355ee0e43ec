/* What differs between generations of NVIDIA cards: chips, classes and launch
 * descriptors, each a constant row of nv_gen.c. Nothing else compares versions
 * or class numbers.
 *
 * src: docs/hardware/nvidia-kernel.md, "Classes", "Queries";
 * docs/hardware/nvidia-queues.md, "Doorbell", "Launch descriptors";
 * docs/hardware/nvidia-code.md, "Shared memory", "Stacks",
 * "Constant bank 0".
 */
#ifndef BELL_HCQ_NV_NV_GEN_H
#define BELL_HCQ_NV_NV_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A version of the launch descriptor and of constant bank 0 (nv_qmd.h). */
struct nv_launch {
    uint8_t gen;            /* enum nv_qmd_gen */
    uint8_t qmd_type;       /* enum nv_qmd_type, where there is one */
    uint8_t group;          /* QMD_GROUP_ID */
    uint8_t bank0_prefetch; /* enum nv_qmd_cbuf_prefetch */
    uint32_t action;        /* of SEND_SIGNALING_PCAS2_B */
    uint32_t shared_align;  /* of SHARED_MEMORY_SIZE */
    bool caches_global;     /* SM_GLOBAL_CACHING_ENABLE */
    bool reserve_in_static; /* a cubin's static shared memory holds the 1 KiB
                             * that the hardware keeps */
    bool has_sass_version;  /* the descriptor names the machine code's */
    bool has_textures;      /* and invalidates caches of textures */
    bool releases;          /* it may store a value at its end */
    /* One that schedules another needs a membar of the card only, and the
     * next may be set up meanwhile. */
    bool chases;
    uint32_t bank_bytes;   /* of bank 0 in front of the parameters */
    uint32_t ntid, nctaid; /* offsets in it: three words each */
    uint32_t shared_window, local_window;               /* 64 bits each */
    uint32_t stack, dynamic_shared, total_shared, n_sm; /* words */
    uint32_t param_address; /* 64 bits; 0: there is none */
};

enum nv_class_kind {
    NV_CLASS_HOST, /* channels */
    NV_CLASS_COMPUTE,
    NV_CLASS_COPY,
    NV_CLASS_USERMODE, /* doorbells */
    NV_CLASS_KIND_COUNT
};

/* A class of the kernel's objects that is known. */
struct nv_class {
    uint32_t number; /* 0xc86f */
    uint8_t gen;     /* dialect of its methods: enum nv_host_gen,
                      * nv_compute_gen, nv_ce_gen */
    uint8_t va_bits; /* HOST, COPY: of addresses */
    bool has_mem_op; /* HOST: does membars */
    bool polls_bits; /* HOST: waits for some bits of a word */
    bool unproven;   /* HOST: nobody is known to have run what we send it */
    bool has_bar1;   /* USERMODE: a doorbell in BAR1, which needs it: the one
                      * in BAR0 overtakes stores through BAR1 */
    const struct nv_launch *launch; /* COMPUTE */
};

/* The best class of a kind that is among these; NULL: none is known. */
const struct nv_class *nv_class_best(enum nv_class_kind kind,
                                     const uint32_t *numbers, uint32_t n);

/* A chip, by the revision of its SMs that the driver tells and its compute
 * class. */
struct nv_gen {
    uint32_t sm_version; /* 0x900; 0x802 for A100 */
    uint32_t compute_class;
    uint32_t sm;             /* 90: compute capability times ten */
    uint32_t code_sm;        /* that code is made for */
    uint32_t max_shared_kib; /* of a block, without the 1 KiB reserve */
};

/* A version that is not known (*out_known) is taken as the lowest chip of its
 * class: code for that one runs on all of them. */
const struct nv_gen *nv_gen_find(uint32_t sm_version, uint32_t compute_class,
                                 bool *out_known);

/* Which cards have a compute class of the list that is too old for us: a
 * sentence. NULL: none has one. */
const char *nv_gen_too_old(const uint32_t *numbers, uint32_t n);
/* Whether machine code for one chip runs on another: the same major version,
 * at least the minor. */
bool nv_gen_runs(uint32_t code_sm, uint32_t chip_sm);

#endif
