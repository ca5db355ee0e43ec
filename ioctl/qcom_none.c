/* Adreno's tables for an appliance without its driver: nothing is known of the
 * calls then.
 */
#include "ioctl/kgsl_tables.h"
#include "ioctl/msm_tables.h"

const struct kio_structs kgsl_structs = {NULL, NULL, 0};
const struct kio_structs msm_structs = {NULL, NULL, 0};

const struct kio_number kgsl_kgsl_rows[] = {{0, -1, false, "none"}};
const struct kio_number msm_render_rows[] = {{0, -1, false, "none"}};
const uint32_t kgsl_n_kgsl_rows = 0, msm_n_render_rows = 0;
