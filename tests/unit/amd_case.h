/* What tests of hcq/amd on simulated kernels share: devices, the tests' own
 * kernels, what the simulated kernel holds. */
#ifndef BELL_TESTS_UNIT_AMD_CASE_H
#define BELL_TESTS_UNIT_AMD_CASE_H

#include <stdbool.h>
#include <stdint.h>

#include "hcq/hcq.h"
#include "sim/amd/sim_amd.h"

#define MIB (1u << 20)
/* A plan of the form "fault" that fails nothing: the device's stack is a
 * process of its own. */
#define NO_PLAN "poll:1000000=EIO"

struct kio;

struct hcq_device *open_amd(const char *name);
struct kio *kio_of(struct hcq_device *dev);

/* Whether LLVM's tools, which make them, are here. */
bool has_kernels(void);
bell_status load_kernel_as(struct hcq_device *dev, const char *name,
                           const char *entry, uint32_t n_bufs,
                           struct hcq_program **out_prog);
bell_status load_kernel(struct hcq_device *dev, const char *entry,
                        uint32_t n_bufs, struct hcq_program **out_prog);
/* One group of n work-items. */
void launch(struct hcq_queue *queue, const struct hcq_program *prog, uint64_t a,
            uint64_t b, uint32_t n);

void same_usage(const char *name, unsigned n, const struct sim_amd_usage *a,
                const struct sim_amd_usage *b);

#endif
