/* The tables that uapigen.py makes from nv.uapi. Private to ioctl/: use
 * nv_abi.h. Constant data.
 */
#ifndef BELL_IOCTL_NV_TABLES_H
#define BELL_IOCTL_NV_TABLES_H

#include "ioctl/kio_desc.h"

#define NV_N_BRANCHES 12

/* By enum nv_struct_id (nv_uapi.h). */
extern const struct kio_structs nv_structs;

/* Sorted by number; an escape number may occur once per argument size. */
extern const struct kio_number nv_escape_rows[], nv_uvm_rows[],
    nv_control_rows[], nv_class_rows[];
extern const uint32_t nv_n_escape_rows, nv_n_uvm_rows, nv_n_control_rows,
    nv_n_class_rows;

#endif
