/* Qualcomm's Adreno: chips to compile for (`QCOM@null:a740`). A driver for the
 * cards there is not yet. */
#include "hcq/hcq_backend.h"

static bell_status
qcom_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    (void)idx, (void)out;
    return BELL_E_NO_DEVICE;
}

static bell_status
qcom_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    (void)idx, (void)interface, (void)out_dev;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "there is no driver for Adreno yet; QCOM@null:a740 "
                     "compiles for it");
}

const struct hcq_backend hcq_qcom_backend = {
    .name = "QCOM",
    .interfaces = "",
    .enumerate = qcom_enumerate,
    .open = qcom_open,
};
