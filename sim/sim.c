/* Simulated kernels by backend. */
#include "sim/sim.h"

#include <string.h>

#include "ioctl/kio_interface.h"
#include "sim/amd/sim_amd.h"
#include "sim/nv/sim_nv.h"
#include "sim/qcom/sim_qcom.h"

static bell_status
unknown_backend(const char *backend, const char *spec)
{
    return bell_fail(BELL_E_NO_DEVICE,
                     "no simulated %s devices ('%.60s'); known: NV, AMD, QCOM",
                     backend, spec);
}

bell_status
kio_sim_create(const char *backend, const char *spec, struct kio **out_kio)
{
    if (strcmp(backend, "NV") == 0)
        return sim_nv_create(spec, out_kio);
    if (strcmp(backend, "AMD") == 0)
        return sim_amd_create(spec, out_kio);
    if (strcmp(backend, "QCOM") == 0)
        return sim_qcom_create(spec, out_kio);
    return unknown_backend(backend, spec);
}

/* RM's, KGSL's and msm's objects hang on files, KFD's on the process. */
bell_status
kio_sim_join(const char *backend, const char *spec, struct kio **out_kio)
{
    if (strcmp(backend, "AMD") == 0)
        return sim_amd_join(spec, out_kio);
    return kio_sim_create(backend, spec, out_kio);
}

void
kio_sim_after_fork(void)
{
    sim_nv_after_fork();
    sim_amd_after_fork();
}
