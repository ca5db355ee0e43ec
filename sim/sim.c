/* Simulated kernels by backend. */
#include "ioctl/kio_interface.h"

bell_status
kio_sim_create(const char *backend, const char *spec, struct kio **out_kio)
{
    (void)out_kio;
    return bell_fail(BELL_E_NO_DEVICE, "no simulated %s devices ('%.60s')",
                     backend, spec);
}
