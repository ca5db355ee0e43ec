/* The tables that uapigen.py makes from msm.uapi. Private to ioctl/. Constant
 * data.
 */
#ifndef BELL_IOCTL_MSM_TABLES_H
#define BELL_IOCTL_MSM_TABLES_H

#include "ioctl/kio_desc.h"

/* By enum msm_struct_id (msm_uapi.h); there is one branch. */
extern const struct kio_structs msm_structs;

/* Calls, sorted by their whole request. */
extern const struct kio_number msm_render_rows[];
extern const uint32_t msm_n_render_rows;

#endif
