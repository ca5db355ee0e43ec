/* The simulated card of ioctl/template_uapi.h, with the kernel driver in front
 * of it. */
#ifndef BELL_SIM_TEMPLATE_SIM_TEMPLATE_H
#define BELL_SIM_TEMPLATE_SIM_TEMPLATE_H

#include "ioctl/kio.h"

/* A machine with one card; `spec` is its chip, "template1". Forms share
 * nothing. BELL_E_NO_DEVICE: no such chip, with what is known. */
BELL_MUST_CHECK bell_status sim_template_create(const char *spec,
                                                struct kio **out_kio);

#endif
