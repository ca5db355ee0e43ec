/* The tables that uapigen.py makes from amdkfd.uapi. Private to ioctl/.
 * Constant data.
 */
#ifndef BELL_IOCTL_AMDKFD_TABLES_H
#define BELL_IOCTL_AMDKFD_TABLES_H

#include "ioctl/kio_desc.h"

/* By enum amdkfd_struct_id (amdkfd_uapi.h); KFD has one branch. */
extern const struct kio_structs amdkfd_structs;

/* Calls of /dev/kfd and of the render node, sorted by number. */
extern const struct kio_number amdkfd_kfd_rows[], amdkfd_drm_rows[];
extern const uint32_t amdkfd_n_kfd_rows, amdkfd_n_drm_rows;

#endif
