/* AMD's tables for an appliance without its driver: nothing is known of the
 * calls then.
 */
#include "ioctl/amdkfd_tables.h"

const struct kio_structs amdkfd_structs = {NULL, NULL, 0};

const struct kio_number amdkfd_kfd_rows[] = {{0, -1, false, "none"}};
const struct kio_number amdkfd_drm_rows[] = {{0, -1, false, "none"}};
const uint32_t amdkfd_n_kfd_rows = 0, amdkfd_n_drm_rows = 0;
