/* From what follows the '@' of a device's name to a stack of kio forms.
 *
 * "" is the real kernel. Otherwise forms with '@' between, the top one first:
 *   record:FILE   writes a cassette of everything below it
 *   fault:PLAN    makes chosen calls fail (kio_fault.h)
 *   pages:BYTES   makes it a kernel of larger pages (kio_pages.h)
 *   replay:FILE   answers from a cassette; stands at the bottom
 *   sim:SPEC      a simulated kernel and cards ("sim:sm_90*2"); at the bottom
 * A stack whose last form is not one of the bottom ones stands on the real
 * kernel: "record:a.cas", "fault:ioctl:7=ENOMEM@sim:sm_90". A file name holds
 * no '@'. The driver half alone has `fault` only.
 */
#ifndef BELL_IOCTL_KIO_INTERFACE_H
#define BELL_IOCTL_KIO_INTERFACE_H

#include <stdbool.h>

#include "base/status.h"

struct kio;

/* BELL_E_NO_DEVICE for a form that is not known or not in this build, with
 * those that are; otherwise what making the form says. `backend` ("NV") tells
 * a simulator what to be. Destroyed with kio_destroy. */
BELL_MUST_CHECK bell_status kio_open_interface(const char *backend,
                                               const char *interface,
                                               struct kio **out_kio);

/* Whether the stack's bottom is a simulated kernel; the real one. */
bool kio_interface_is_sim(const char *interface);
bool kio_interface_is_real(const char *interface);

/* The file by which a simulated kernel that is shown to a whole program
 * (`doorbell sim`) tells that it is one; no kernel has it. NULL: the backend is
 * not shown so. */
const char *kio_interface_marker(const char *backend);

/* The forms of this build, for messages: "sim, record, replay, fault". */
const char *kio_interface_list(void);

/* Made by sim/: a process on a simulated machine, which ends with the form.
 * All that name the same `spec` share the machine. */
BELL_MUST_CHECK bell_status kio_sim_create(const char *backend,
                                           const char *spec,
                                           struct kio **out_kio);
/* The same for what no form stands on: this program's own process at that
 * machine. Where a kernel keeps state for a process, not for its files, all
 * such forms share it until the program exits; kio_outlives says so. */
BELL_MUST_CHECK bell_status kio_sim_join(const char *backend, const char *spec,
                                         struct kio **out_kio);

#endif
