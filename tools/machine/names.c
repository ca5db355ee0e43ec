/* Names of PCI devices, from the list of libpci. Nothing else of that library
 * is used: where its ways to the devices fail, it ends the program. */
#include "tools/machine/machine.h"

#include <pci/pci.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tools.h"

/* What it has to say, which pci_init would send to the terminal. */
static void
be_quiet(char *text, ...)
{
    (void)text;
}

/* Called where its memory is out, and may not return. */
static void __attribute__((noreturn)) give_up(char *text, ...)
{
    tool_eprintf("doorbell: names of PCI devices: %s\n", text);
    exit(1);
}

struct machine_names *
machine_names_open(void)
{
    struct pci_access *access = pci_alloc();

    if (access) {
        access->debug = access->warning = be_quiet;
        access->error = give_up;
        /* udev's list is the same, and udev leaks */
        (void)pci_set_param(access, "hwdb.disable", "1");
    }
    return (struct machine_names *)access;
}

void
machine_names_close(struct machine_names *names)
{
    if (names)
        pci_cleanup((struct pci_access *)names);
}

void
machine_names_find(struct machine_names *names, struct machine_gpu *gpu)
{
    struct pci_access *access = (struct pci_access *)names;
    const int flags = PCI_LOOKUP_NO_NUMBERS;
    char text[128];
    const char *name;

    name = pci_lookup_name(access, text, sizeof(text),
                           flags | PCI_LOOKUP_VENDOR, (int)gpu->vendor);
    snprintf(gpu->vendor_name, sizeof(gpu->vendor_name), "%.63s",
             name ? name : "");
    name =
        pci_lookup_name(access, text, sizeof(text), flags | PCI_LOOKUP_DEVICE,
                        (int)gpu->vendor, (int)gpu->device);
    snprintf(gpu->device_name, sizeof(gpu->device_name), "%.95s",
             name ? name : "");
    name = pci_lookup_name(access, text, sizeof(text),
                           flags | PCI_LOOKUP_SUBSYSTEM | PCI_LOOKUP_DEVICE,
                           (int)gpu->vendor, (int)gpu->device,
                           (int)gpu->sub_vendor, (int)gpu->sub_device);
    snprintf(gpu->sub_name, sizeof(gpu->sub_name), "%.95s", name ? name : "");
}
