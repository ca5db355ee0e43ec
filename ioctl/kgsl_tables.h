/* The tables that uapigen.py makes from kgsl.uapi. Private to ioctl/. Constant
 * data.
 */
#ifndef BELL_IOCTL_KGSL_TABLES_H
#define BELL_IOCTL_KGSL_TABLES_H

#include "ioctl/kio_desc.h"

/* By enum kgsl_struct_id (kgsl_uapi.h); there is one branch. */
extern const struct kio_structs kgsl_structs;

/* Calls, sorted by their whole request. */
extern const struct kio_number kgsl_kgsl_rows[];
extern const uint32_t kgsl_n_kgsl_rows;

#endif
