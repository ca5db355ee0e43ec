/* The simulated machines of this program, by what their SPECs say (sim_amd.h).
 * Threads: any.
 */
#ifndef BELL_SIM_AMD_KFD_MACHINE_H
#define BELL_SIM_AMD_KFD_MACHINE_H

#include <stdint.h>

#include "base/status.h"

struct amdgpu_chip;
struct kfd_machine;

/* What a SPEC says. */
struct kfd_plan {
    const struct amdgpu_chip *chip;
    uint32_t n_cards, minor;
    char *dump; /* the directory; NULL: none. The caller frees it, also after an
                   error. */
};

/* BELL_E_NO_DEVICE, with what is known, for a SPEC that is none. */
BELL_MUST_CHECK bell_status kfd_plan_parse(const char *spec,
                                           struct kfd_plan *plan);

/* The machine of a plan, made if need be. It goes when it was put as often as
 * it was got. */
BELL_MUST_CHECK bell_status kfd_machine_get(const struct kfd_plan *plan,
                                            struct kfd_machine **out_machine);
void kfd_machine_put(struct kfd_machine *machine);

#endif
