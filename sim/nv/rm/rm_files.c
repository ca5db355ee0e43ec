/* The procfs and sysfs files that drivers read.
 * src: docs/hardware/nvidia-kernel.md, "Device files"; the version's line:
 * observed: H100, 2026-11-22, but for who built it; the files' other lines are
 * as they have long been seen on machines with the driver (lead).
 */
#include "sim/nv/rm/rm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "sim/dmabuf.h"
#include "sim/text.h"

#define UVM_MAJOR 511 /* dynamic: any number */
#define BDF_BYTES 16

/* ---- the driver's ---- */

static void
put_version(struct sim_text *text, const struct rm_machine *machine)
{
    sim_text_put(
        text,
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release "
        "Build  (simulated@)  \n",
        machine->abi.version);
    sim_text_put(text,
                 "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n");
}

static void
put_params(struct sim_text *text)
{
    sim_text_put(text, "ResmanDebugLevel: 4294967295\n");
    sim_text_put(text, "ModifyDeviceFiles: 1\n");
    sim_text_put(text, "DeviceFileUID: 0\n");
    sim_text_put(text, "DeviceFileGID: 0\n");
    sim_text_put(text, "DeviceFileMode: 438\n");
    sim_text_put(text, "EnableGpuFirmware: 18\n");
}

static void
put_devices(struct sim_text *text)
{
    sim_text_put(text,
                 "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n");
    sim_text_put(text, "%d nvidia-uvm\n\nBlock devices:\n", UVM_MAJOR);
}

static void
put_information(struct sim_text *text, const struct rm_card *card)
{
    const uint8_t *u = card->uuid;

    sim_text_put(text, "Model: \t\t %s\n", card->machine->chip->board);
    sim_text_put(text, "IRQ:   \t\t %u\n", 100 + card->index);
    sim_text_put(text,
                 "GPU UUID: \t GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
                 "%02x%02x%02x%02x%02x%02x\n",
                 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
                 u[10], u[11], u[12], u[13], u[14], u[15]);
    sim_text_put(text, "Video BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n");
    sim_text_put(text, "DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n");
    sim_text_put(text, "Bus Location: \t 0000:%02x:00.0\n", card->bus);
    sim_text_put(text, "Device Minor: \t %u\n", card->index);
    sim_text_put(text, "GPU Firmware: \t %s\nGPU Excluded:\t No\n",
                 card->machine->abi.version);
}

/* ---- PCI ---- */

static void
put_resource(struct sim_text *text, const struct rm_card *card)
{
    uint64_t bar0_end = card->bar0_base + (16ull << 20) - 1;
    uint64_t bar1_end = card->bar1_base + card->machine->chip->bar1_bytes - 1;

    sim_text_put(text, "0x%016llx 0x%016llx 0x0000000000040200\n",
                 (unsigned long long)card->bar0_base,
                 (unsigned long long)bar0_end);
    sim_text_put(text, "0x%016llx 0x%016llx 0x000000000014220c\n",
                 (unsigned long long)card->bar1_base,
                 (unsigned long long)bar1_end);
}

/* A file of the card's sysfs folder; false: there is none of that name. */
static bool
put_pci_files(struct sim_text *text, const struct rm_card *card,
              const char *name)
{
    const struct {
        const char *name, *value;
    } fixed[] = {
        {"vendor", "0x10de\n"},
        {"subsystem_vendor", "0x10de\n"},
        {"subsystem_device", "0x16c1\n"},
        {"class", "0x030200\n"},
        {"revision", "0xa1\n"},
        {"numa_node", "-1\n"},
        {"current_link_speed", "32.0 GT/s PCIe\n"},
        {"max_link_speed", "32.0 GT/s PCIe\n"},
        {"current_link_width", "16\n"},
        {"max_link_width", "16\n"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(fixed); i++) {
        if (strcmp(name, fixed[i].name) == 0) {
            sim_text_put(text, "%s", fixed[i].value);
            return true;
        }
    }
    if (strcmp(name, "device") == 0)
        sim_text_put(text, "0x%04x\n", card->machine->chip->pci_device);
    else if (strcmp(name, "resource") == 0)
        put_resource(text, card);
    else
        return false;
    return true;
}

/* ---- paths ---- */

/* What follows FOLDER/0000:BUS:00.0/ for one of the cards; NULL: nothing. */
static const char *
below_card(const struct rm_machine *machine, const char *path,
           const char *folder, const struct rm_card **out_card)
{
    size_t n = strlen(folder);
    char bdf[BDF_BYTES];
    uint32_t i;

    if (strncmp(path, folder, n) != 0)
        return NULL;
    for (i = 0; i < machine->n_cards; i++) {
        snprintf(bdf, sizeof(bdf), "0000:%02x:00.0/", machine->cards[i].bus);
        if (strncmp(path + n, bdf, strlen(bdf)) != 0)
            continue;
        *out_card = &machine->cards[i];
        return path + n + strlen(bdf);
    }
    return NULL;
}

static bool
put_proc_file(struct sim_text *text, const struct rm_machine *machine,
              const char *path)
{
    const struct rm_card *card;
    const char *name;

    if (strcmp(path, "/proc/driver/nvidia/version") == 0) {
        put_version(text, machine);
        return true;
    }
    if (strcmp(path, "/proc/driver/nvidia/params") == 0) {
        put_params(text);
        return true;
    }
    if (strcmp(path, "/proc/devices") == 0) {
        put_devices(text);
        return true;
    }
    name = below_card(machine, path, "/proc/driver/nvidia/gpus/", &card);
    if (name && strcmp(name, "information") == 0) {
        put_information(text, card);
        return true;
    }
    name = below_card(machine, path, "/sys/bus/pci/devices/", &card);
    return name && put_pci_files(text, card, name);
}

int
rm_read_file(const struct rm_machine *machine, const char *path, char *buf,
             size_t cap)
{
    struct sim_text text = {buf, cap, 0};
    int n = sim_dmabuf_read_info(path, buf, cap);

    if (n != -ENOENT)
        return n;
    if (!put_proc_file(&text, machine, path))
        return rm_fail(ENOENT, "the simulated machine has no file %s", path);
    return (int)text.n;
}
