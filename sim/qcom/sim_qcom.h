/* A simulated machine with an Adreno behind struct kio: one card and the kernel
 * driver for it, KGSL or msm.
 *
 * SPEC is CHIP[-msm][,rd=FILE]: "a630", "a740", "a750", "a740-msm". rd: every
 * submission is appended to FILE as freedreno's tools read it (.rd): chip,
 * buffers, streams. Each form is a machine of its own, and one process at it.
 *
 * KGSL's a630 and a750 have memory that is not coherent with the CPU's caches,
 * a740's is if it is asked for: what the CPU wrote to cached memory that is not
 * coherent is seen after a clean, what the card wrote after an invalidation,
 * never before.
 *
 * Not simulated: addresses shared with the CPU (USE_CPU_MAP), dma-buf, fences
 * as files, timelines, performance counters, secure memory, replays of batches
 * that hang (contexts are invalidated).
 *
 * Threads: any. src: docs/hardware/adreno.md and the pages that it names;
 * ioctl/kgsl.uapi, ioctl/msm.uapi.
 */
#ifndef BELL_SIM_QCOM_SIM_QCOM_H
#define BELL_SIM_QCOM_SIM_QCOM_H

#include <stdint.h>

#include "base/status.h"

struct kio;

/* What the process has at this moment. */
struct sim_qcom_usage {
    uint32_t files, contexts, buffers;
    uint64_t memory_bytes, va_mapped_bytes;
};

/* kio_sim_create for backend "QCOM". BELL_E_NO_DEVICE, with what is known, for
 * a SPEC that is none. */
BELL_MUST_CHECK bell_status sim_qcom_create(const char *spec,
                                            struct kio **out_kio);

/* Usage of the machine that a stack of backends ends in. All 0 where it ends in
 * something else. */
void sim_qcom_held(const struct kio *stack, struct sim_qcom_usage *out_usage);

/* The text of the last fault, for tests; "". */
void sim_qcom_fault_text(const struct kio *stack, char *text, uint32_t cap);

#endif
