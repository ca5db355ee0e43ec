/* NVIDIA's tables for an appliance without its driver: they are most of what
 * such a one would not need, and nothing is known of the calls then.
 */
#include "ioctl/nv_tables.h"

const struct kio_structs nv_structs = {NULL, NULL, 0};

const struct kio_number nv_escape_rows[] = {{0, -1, false, "none"}};
const struct kio_number nv_uvm_rows[] = {{0, -1, false, "none"}};
const struct kio_number nv_control_rows[] = {{0, -1, false, "none"}};
const struct kio_number nv_class_rows[] = {{0, -1, false, "none"}};
const uint32_t nv_n_escape_rows = 0, nv_n_uvm_rows = 0, nv_n_control_rows = 0,
               nv_n_class_rows = 0;
