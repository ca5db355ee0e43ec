/* A simulated AMD machine behind struct kio: cards of one chip and the kernel
 * driver (KFD and the render nodes) for them.
 *
 * All forms of the same SPEC in this program stand on one machine: one kernel
 * with its cards. SPEC is CHIP[*CARDS] and options between commas: "gfx1100",
 * "gfx942*2", "gfx1100,kfd=1.11".
 *   kfd=1.N       the version of KFD
 *   flip=N        a bit of what every N-th kernel or copy wrote turns over
 *   reset=N       each card resets once, with the N-th submission to it
 *   waits=block   a queue that stands in a plain WAIT_REG_MEM cannot be
 *                 preempted
 *   cpx           each die of a GPU is a card by itself, as MI300 in CPX
 *   vf            cards are virtual functions: no MMIO page, no sensors; stores
 *                 through the window wait for a read or a queue's flush
 *   bar=MIB       the window shows so much of a card's memory: no resizable BAR
 *   link=KIND     cards are in one hive of XGMI (xgmi), are peers over PCIe
 *                 (pcie), or the kernel knows no such peers (none)
 *   hive=N        N GPUs are a hive; between hives there is PCIe
 *   p2p=off       amdgpu's parameter pcie_p2p is off
 *   acs=redirect  an IOMMU translates, and ACS sends all to it: no PCIe peers
 *   hide=N        card N's render node is not there, as in a container
 *   deny=N        a container's rules forbid card N: EPERM, also in sysfs
 *   first=gfx90c  the first card is one that no driver here is for
 *   kernel=5.15   KFD does not tell the chip (gfx_target_version)
 *   dump=DIR      a folder of each submission (dump.h)
 *
 * KFD keeps what it has for a process until that exits, whatever files it
 * closes. A form of sim_amd_join is this program, which is one process at a
 * machine as long as it runs; so is then the machine. A form of
 * sim_amd_create is a process of its own, which exits with the form; a machine
 * that has only such ones goes with the last.
 *
 * Not simulated: shared virtual memory, debugging,
 * checkpoints.
 *
 * Threads: any. src: docs/hardware/amd.md and the pages that it names;
 * ioctl/amdkfd.uapi.
 */
#ifndef BELL_SIM_AMD_SIM_AMD_H
#define BELL_SIM_AMD_SIM_AMD_H

#include <stdint.h>

#include "base/status.h"

struct kio;

/* What processes have at this moment. */
struct sim_amd_usage {
    uint32_t processes; /* that have a file open */
    uint32_t files, spaces, queues, events;
    uint32_t buffers;      /* memory objects */
    uint64_t memory_bytes; /* of those */
    uint64_t va_mapped_bytes;
    uint32_t engines; /* copy engines that have queues, as bits, of any card */
};

/* kio_sim_create and kio_sim_join for backend "AMD". BELL_E_NO_DEVICE, with
 * what is known, for a SPEC that is none. */
BELL_MUST_CHECK bell_status sim_amd_create(const char *spec,
                                           struct kio **out_kio);
BELL_MUST_CHECK bell_status sim_amd_join(const char *spec,
                                         struct kio **out_kio);

/* Usage of all processes at the machine that a stack of backends ends in. All 0
 * where it ends in something else. */
void sim_amd_usage(const struct kio *stack, struct sim_amd_usage *out_usage);
/* The same of all machines. */
void sim_amd_usage_all(struct sim_amd_usage *out_usage);

/* From now on what the CPU stores through the window of a virtual function
 * arrives at once. For programs whose calls are not seen: they unmap and map
 * where windows were. */
void sim_amd_hold_no_stores(void);

/* In a forked child: see kio_sim_after_fork. */
void sim_amd_after_fork(void);

/* The text of the last fault of the process's queues, for tests; "". */
void sim_amd_fault_text(const struct kio *stack, char *text, uint32_t cap);

#endif
