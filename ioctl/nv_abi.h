/* NVIDIA's driver branches: which one runs, and how its structs are laid out.
 *
 * Drivers fill the newest layout (nv_uapi.h, made from nv.uapi) and convert
 * to the running branch's with nv_wire_*; sizes of controls must be exact.
 * An unknown branch is refused: a wrong layout corrupts silently.
 */
#ifndef BELL_IOCTL_NV_ABI_H
#define BELL_IOCTL_NV_ABI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "ioctl/kio_desc.h"

struct kio;

#define NV_BRANCH_NEWEST     11u   /* index */
#define NV_STATUS_BUSY_RETRY 0x03u /* the call may be made again */
#define NV_VERSION_PATH      "/proc/driver/nvidia/version"

/* The branch a driver is of. Found once per device; plain data. */
struct nv_abi {
    uint32_t branch;  /* index: 0 is the oldest known */
    uint32_t major;   /* 535 to 610 */
    char version[32]; /* the driver's own, "580.159.03"; "" when forced */
    bool forced;      /* by BELL_NV_BRANCH */
};

/* The branch of a version string, "580.159.03" or text that contains one.
 * BELL_E_UNSUPPORTED, listing the known ones and how to force one. */
BELL_MUST_CHECK bell_status nv_abi_parse(const char *version,
                                         struct nv_abi *out_abi);

/* BELL_NV_BRANCH if set, else /proc/driver/nvidia/version, else what the
 * driver answers on /dev/nvidiactl. Tells `kio` the branch. */
BELL_MUST_CHECK bell_status nv_abi_detect(struct kio *kio,
                                          struct nv_abi *out_abi);

/* The name of a branch index, "580"; NULL past the last. */
const char *nv_branch_name(uint32_t branch);

/* The layout of a struct (enum nv_struct_id of nv_uapi.h) on a branch; NULL
 * where the branch lacks it. */
const struct kio_struct *nv_struct(uint32_t branch, uint32_t struct_id);

/* Newest layout to this branch's, and back. The caller's buffer holds at
 * least nv_wire_bytes. The branch has the struct. */
uint32_t nv_wire_bytes(const struct nv_abi *abi, uint32_t struct_id);
void nv_wire_pack(const struct nv_abi *abi, uint32_t struct_id,
                  const void *newest, void *wire);
void nv_wire_unpack(const struct nv_abi *abi, uint32_t struct_id,
                    const void *wire, void *newest);

/* RM's request number for an escape and an argument size. */
unsigned long nv_request(uint32_t escape, uint32_t size_bytes);

/* "INVALID_CLASS"; "" when not known. */
const char *nv_status_name(uint32_t status);
/* Whether the status of that call says that memory is exhausted. */
bool nv_status_is_no_memory(unsigned long request, const void *arg,
                            uint32_t status);

/* The vendor's name of a class or control command; NULL if not known. */
const char *nv_class_name(uint32_t nv_class);
const char *nv_control_name(uint32_t command);

#endif
