/* A build without libpci: PCI devices have numbers alone. */
#include "tools/machine/machine.h"

struct machine_names *
machine_names_open(void)
{
    return NULL;
}

void
machine_names_close(struct machine_names *names)
{
    (void)names;
}

void
machine_names_find(struct machine_names *names, struct machine_gpu *gpu)
{
    (void)names;
    (void)gpu;
}
