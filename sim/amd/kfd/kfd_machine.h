/* The simulated machines of this program, by what their SPECs say (sim_amd.h).
 * Threads: any.
 */
#ifndef BELL_SIM_AMD_KFD_KFD_MACHINE_H
#define BELL_SIM_AMD_KFD_KFD_MACHINE_H

#include "base/status.h"

struct kfd_machine;

/* The machine of a SPEC, made if need be: the same text is the same machine.
 * It goes when it was put as often as it was got. BELL_E_NO_DEVICE, with what
 * is known, for a SPEC that is none. */
BELL_MUST_CHECK bell_status kfd_machine_get(const char *spec,
                                            struct kfd_machine **out_machine);
void kfd_machine_put(struct kfd_machine *machine);

/* Calls it for each that there is. */
void kfd_machine_each(void (*fn)(void *user, struct kfd_machine *machine),
                      void *user);

#endif
