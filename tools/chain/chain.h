/* Kernels of one instruction: what a device's arithmetic can do where nothing
 * else is in its way. Each thread has a few accumulators in registers, chains,
 * to which the instruction adds the same products again and again.
 *
 * Made by hand, below the compiler: of PTX, of LLVM's IR (AMD's cards, the
 * CPU), OpenCL C or the text of Adreno's assembler. No compiler can take
 * numbers out of a round that it does not know before it runs (factors are
 * arguments of the launch, accumulators begin with the thread's number). The
 * results are known to the bit. Plain data; any thread.
 */
#ifndef BELL_TOOLS_CHAIN_CHAIN_H
#define BELL_TOOLS_CHAIN_CHAIN_H

#include <stdint.h>

#include "hcq/hcq.h"

/* What an AMD kernel by hand does not need of its launch, in LLVM's IR, behind
 * the sizes of its work-group (render/llvm/amdgpu.c says why). */
#define CHAIN_AMD_ATTRIBUTES                                                   \
    "\"amdgpu-no-implicitarg-ptr\" \"amdgpu-no-dispatch-ptr\" "                \
    "\"amdgpu-no-queue-ptr\" \"amdgpu-no-dispatch-id\" "                       \
    "\"amdgpu-no-lds-kernel-id\" \"amdgpu-no-hostcall-ptr\" "                  \
    "\"amdgpu-no-heap-ptr\" \"amdgpu-no-default-queue\" "                      \
    "\"amdgpu-no-completion-action\" "                                         \
    "\"amdgpu-no-flat-scratch-init\" nounwind"

enum chain_kind {
    CHAIN_FMA_F32,   /* c = a b + c, rounded once */
    CHAIN_FMA_F32X2, /* two of them by one instruction */
    CHAIN_FMA_F64,
    CHAIN_FMA_F16,  /* pairs, of most by one instruction */
    CHAIN_FMA_BF16, /* likewise */
    CHAIN_MAD_I32,  /* c = c a + b, the low 32 bits */
    CHAIN_DOT_I8,   /* c += four products of bytes, in 32 bits */
    CHAIN_DOT_F16,  /* c += two products, in float32 */
    CHAIN_DOT_BF16, /* likewise */
    CHAIN_KIND_COUNT
};

/* What a launch of a kernel takes: of groups of n_threads each, along x. */
struct chain {
    enum chain_kind kind;
    char name[32];            /* the kernel's */
    uint32_t n_threads;       /* of a group */
    uint32_t result_bytes;    /* of a thread: 4 or 8 */
    uint32_t n_insns;         /* of a round: times that a chain is added to */
    uint32_t n_lanes;         /* of an instruction, within a thread */
    uint32_t n_chains;        /* of a thread */
    double ops;               /* of a round in a thread: a product added is 2 */
    uint64_t factors[2];      /* arguments: a and b of thread 0 */
    struct hcq_program *prog; /* owned by who made it; NULL: not loaded */
};

/* "fma_f32", and for people: "multiply-adds of registers, float32". */
extern const char *const chain_names[CHAIN_KIND_COUNT];
extern const char *const chain_texts[CHAIN_KIND_COUNT];

/* A binary for devices as `info` says, of *out_size_bytes; host_free it.
 * BELL_E_UNSUPPORTED says why there is none: such devices have no instruction
 * for it, there is no kernel by hand for them, or what makes machine code is
 * missing. */
BELL_MUST_CHECK bell_status chain_binary(const struct hcq_device_info *info,
                                         enum chain_kind kind,
                                         struct chain *out_chain,
                                         void **out_data,
                                         size_t *out_size_bytes);

/* The same, loaded: hcq_program_destroy its prog. Fails also as
 * hcq_program_create does. */
BELL_MUST_CHECK bell_status chain_load(struct hcq_device *dev,
                                       enum chain_kind kind,
                                       struct chain *out_chain);

/* A launch: each thread of each group does n_rounds >= 1 and stores
 * result_bytes at results_va, thread by thread. */
void chain_launch(const struct chain *chain, struct hcq_cs *cs,
                  uint64_t results_va, uint64_t n_rounds, uint32_t n_groups);

/* What that thread of a group stores, in the low result_bytes. There are
 * CHAIN_RESULTS of them, which come again and again. */
#define CHAIN_RESULTS 8u
uint64_t chain_result(const struct chain *chain, uint32_t thread,
                      uint64_t n_rounds);

#endif
