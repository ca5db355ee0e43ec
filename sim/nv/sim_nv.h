/* A simulated NVIDIA machine behind struct kio: cards of one chip and the
 * kernel driver for them.
 *
 * Each form that kio_sim_create("NV", SPEC) makes is a process of its own
 * with its own files. All forms of the same SPEC in this program stand on one
 * machine (cards and kernel), which is made with the first and goes with the
 * last. SPEC is CHIP[*CARDS] and options between commas: "sm_90",
 * "sm_80*2,branch=535", "sm_90,sms=132".
 *   branch=N     of the driver
 *   sms=N        so many SMs, an even number; eight if not said
 *   bar1=N       MiB of BAR1
 *   flip=N       a bit of what every N-th kernel or copy wrote turns over
 *   cc           confidential computing is on
 *   ordered      rings in BAR0 stay behind stores through BAR1
 *   lenient      no traps for what real machines may let pass: fresh memory is
 *                zeros, and a QMD that changed is sent again as it is
 *   hide=N       card N's node is not there, as in a container
 *   deny=N       a container's rules forbid card N's node: EPERM
 *   gone=N       card N fell off the bus: ENXIO
 *   mode=WORD    compute mode: exclusive (to a process), prohibited
 *   first=sm_70  the first card is one that no driver here is for
 *   link=KIND    how its cards reach each other: nvlink, bar1, pcie, none;
 *                as the product is sold (base/chip.h) if not said
 *   link=A-B:KIND  the same of two of them
 *   fabric=absent  nobody has configured the switches of NVLink
 *
 * Not simulated: OS events (poll waits and says nothing), managed memory and
 * page faults of UVM, partitions, dma-buf export, several subdevices.
 *
 * Threads: any. src: docs/hardware/nvidia.md and the pages that it names;
 * ioctl/nv.uapi.
 */
#ifndef BELL_SIM_NV_SIM_NV_H
#define BELL_SIM_NV_SIM_NV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kio;

/* What a machine holds at this moment, of all its processes. */
struct sim_nv_usage {
    uint32_t clients;         /* of the resource manager */
    uint32_t objects;         /* below the clients */
    uint32_t files;           /* open device nodes */
    uint32_t mappings;        /* CPU mappings made through kio_mmap */
    uint64_t memory_bytes;    /* video, system and pinned memory */
    uint64_t va_mapped_bytes; /* in the cards' address spaces */
};

/* kio_sim_create for backend "NV". BELL_E_NO_DEVICE, with what is known, for
 * a SPEC that is none. */
BELL_MUST_CHECK bell_status sim_nv_create(const char *spec,
                                          struct kio **out_kio);

/* Usage of the machine that a stack of backends ends in. All 0 where it ends in
 * something else. */
void sim_nv_usage(const struct kio *stack, struct sim_nv_usage *out_usage);

/* Whether a doorbell of the machine was rung with a word that is not a
 * channel's token, and which, in `text`. */
bool sim_nv_bell_error(const struct kio *stack, char *text, size_t size_bytes);

/* Whether any simulated machine is there: for after the last close. */
bool sim_nv_machine_exists(void);

/* In a forked child: see kio_sim_after_fork. */
void sim_nv_after_fork(void);

#endif
