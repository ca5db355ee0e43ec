/* Driver branches of NVIDIA and their layouts.
 * src: docs/hardware/nvidia-kernel.md, "Calls", "Layouts", "Bring-up" (step 2);
 * docs/hardware/nvidia-queues.md, "Status numbers".
 */
#include "ioctl/nv_abi.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/env.h"
#include "ioctl/kio.h"
#include "ioctl/nv_tables.h"
#include "ioctl/nv_uapi.h"

static const struct {
    uint32_t major;
    const char *name;
} branches[NV_N_BRANCHES] = {
    {535, "535"}, {545, "545"}, {550, "550"}, {555, "555"},
    {560, "560"}, {565, "565"}, {570, "570"}, {575, "575"},
    {580, "580"}, {590, "590"}, {595, "595"}, {610, "610"},
};

const char *
nv_branch_name(uint32_t branch)
{
    return branch < NV_N_BRANCHES ? branches[branch].name : NULL;
}

/* All of them, with commas between. */
static const char *
known_branches(char text[96])
{
    const char *name;
    size_t used = 0;
    uint32_t i;

    for (i = 0; (name = nv_branch_name(i)) != NULL; i++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%s", i ? ", " : "",
                                 name);
    assert(used < 96);
    return text;
}

/* ---- finding the branch ----------------------------------------------- */

static bool
abi_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The first NNN.N... in the text: its start, and its length in *out_len. */
static const char *
find_version(const char *text, size_t *out_len)
{
    const char *p;

    for (p = text; *p; p++) {
        size_t n = 0;
        bool inside = p > text && (abi_is_digit(p[-1]) || p[-1] == '.' ||
                                   p[-1] == '_' || p[-1] == 'x');
        if (inside || !abi_is_digit(p[0]) || !abi_is_digit(p[1]) ||
            !abi_is_digit(p[2]) || p[3] != '.' || !abi_is_digit(p[4]))
            continue;
        while (abi_is_digit(p[n]) || (p[n] == '.' && abi_is_digit(p[n + 1])))
            n++;
        *out_len = n;
        return p;
    }
    return NULL;
}

static bool
find_branch(uint32_t major, uint32_t *out_branch)
{
    uint32_t i;

    for (i = 0; i < NV_N_BRANCHES; i++) {
        if (branches[i].major == major) {
            *out_branch = i;
            return true;
        }
    }
    return false;
}

bell_status
nv_abi_parse(const char *version, struct nv_abi *out_abi)
{
    struct nv_abi abi = {0};
    char known[96];
    size_t len = 0;
    const char *found = find_version(version, &len);

    if (!found)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "no NVIDIA driver version in '%.80s'; known "
                         "branches: %s; BELL_NV_BRANCH=580 forces one",
                         version, known_branches(known));
    abi.major = (uint32_t)strtoul(found, NULL, 10);
    len = len < sizeof(abi.version) - 1 ? len : sizeof(abi.version) - 1;
    memcpy(abi.version, found, len);
    if (!find_branch(abi.major, &abi.branch))
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "NVIDIA driver %s is of no branch that we have the "
            "structs of; known: %s. BELL_NV_BRANCH=N uses those of "
            "branch N; a wrong one fails in odd ways",
            abi.version, known_branches(known));
    *out_abi = abi;
    return BELL_OK;
}

static bell_status
parse_forced(const char *text, struct nv_abi *out_abi)
{
    struct nv_abi abi = {.forced = true};
    char known[96], *end;

    abi.major = (uint32_t)strtoul(text, &end, 10);
    if (end == text || *end || !find_branch(abi.major, &abi.branch))
        return bell_fail(BELL_E_INVALID,
                         "BELL_NV_BRANCH=%s: no such branch; known: %s", text,
                         known_branches(known));
    *out_abi = abi;
    return BELL_OK;
}

/* Asks on a client for the build's version with one size of the struct. */
static bell_status
query_version(const struct kio_file *ctl, uint32_t client, uint32_t branch,
              struct nv_abi *out_abi)
{
    struct nv0000_system_get_build_version_v2 answer = {0};
    struct nv_os54 call = {
        .hClient = client,
        .hObject = client,
        .cmd = NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2,
        .params = (uintptr_t)&answer,
        .paramsSize = nv_struct(branch, NV_S_NV0000_SYSTEM_GET_BUILD_VERSION_V2)
                          ->size_bytes,
    };

    BELL_TRY(
        kio_ioctl(ctl, nv_request(NV_ESC_RM_CONTROL, sizeof(call)), &call));
    answer.driverVersionBuffer[sizeof(answer.driverVersionBuffer) - 1] = '\0';
    return nv_abi_parse(answer.driverVersionBuffer, out_abi);
}

/* The version through a client of its own, made and freed here. */
static bell_status
ask_driver(struct kio *kio, struct nv_abi *out_abi)
{
    struct nv_os64 alloc = {.hClass = NV01_ROOT_CLIENT};
    struct nv_os00 release = {0};
    struct kio_file ctl;
    uint32_t vendor;
    bell_status status;

    BELL_TRY(kio_open(kio, "/dev/nvidiactl", O_RDWR, &ctl));
    status =
        kio_ioctl(&ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc);
    if (status != BELL_OK)
        goto done;
    status = query_version(&ctl, alloc.hObjectNew, NV_BRANCH_NEWEST, out_abi);
    if (status == BELL_E_KERNEL)
        status = query_version(&ctl, alloc.hObjectNew, 0, out_abi);
    release.hRoot = release.hObjectOld = alloc.hObjectNew;
    if (status == BELL_OK)
        status =
            kio_ioctl_status(&ctl, nv_request(NV_ESC_RM_FREE, sizeof(release)),
                             &release, &vendor);
done:
    kio_close(&ctl);
    return status;
}

bell_status
nv_abi_detect(struct kio *kio, struct nv_abi *out_abi)
{
    const char *forced = env_get("BELL_NV_BRANCH");
    char text[512];
    size_t n;

    if (forced && *forced) {
        BELL_TRY(parse_forced(forced, out_abi));
    } else if (kio_read_file(kio, NV_VERSION_PATH, text, sizeof(text), &n) ==
               BELL_OK) {
        BELL_TRY(nv_abi_parse(text, out_abi));
    } else {
        BELL_TRY(ask_driver(kio, out_abi));
    }
    kio_set_branch(kio, out_abi->branch);
    return BELL_OK;
}

/* ---- layouts ---------------------------------------------------------- */

const struct kio_struct *
nv_struct(uint32_t branch, uint32_t struct_id)
{
    return kio_struct_of(&nv_structs, struct_id, branch);
}

uint32_t
nv_wire_bytes(const struct nv_abi *abi, uint32_t struct_id)
{
    return nv_struct(abi->branch, struct_id)->size_bytes;
}

void
nv_wire_pack(const struct nv_abi *abi, uint32_t struct_id, const void *newest,
             void *wire)
{
    kio_struct_convert(nv_struct(NV_BRANCH_NEWEST, struct_id), newest,
                       nv_struct(abi->branch, struct_id), wire);
}

void
nv_wire_unpack(const struct nv_abi *abi, uint32_t struct_id, const void *wire,
               void *newest)
{
    kio_struct_convert(nv_struct(abi->branch, struct_id), wire,
                       nv_struct(NV_BRANCH_NEWEST, struct_id), newest);
}

unsigned long
nv_request(uint32_t escape, uint32_t size_bytes)
{
    return 0xc0004600ul | (unsigned long)size_bytes << 16 | escape;
}

/* ---- names ------------------------------------------------------------ */

static const struct {
    uint32_t status;
    const char *name;
} statuses[] = {
    {0x02, "BUFFER_TOO_SMALL"},
    {0x03, "BUSY_RETRY"},
    {0x0f, "GPU_IS_LOST"},
    {0x16, "ILLEGAL_ACTION"},
    {0x17, "IN_USE"},
    {0x19, "INSERT_DUPLICATE_NAME"},
    {0x1a, "INSUFFICIENT_RESOURCES"},
    {0x1b, "INSUFFICIENT_PERMISSIONS"},
    {0x1e, "INVALID_ADDRESS"},
    {0x1f, "INVALID_ARGUMENT"},
    {0x21, "INVALID_CHANNEL"},
    {0x22, "INVALID_CLASS"},
    {0x23, "INVALID_CLIENT"},
    {0x26, "INVALID_DEVICE"},
    {0x29, "INVALID_FLAGS"},
    {0x2e, "INVALID_LIMIT"},
    {0x31, "INVALID_OBJECT"},
    {0x33, "INVALID_OBJECT_HANDLE"},
    {0x36, "INVALID_OBJECT_PARENT"},
    {0x37, "INVALID_OFFSET"},
    {0x3a, "INVALID_PARAM_STRUCT"},
    {0x3b, "INVALID_PARAMETER"},
    {0x40, "INVALID_STATE"},
    {0x51, "NO_MEMORY"},
    {0x55, "NOT_READY"},
    {0x56, "NOT_SUPPORTED"},
    {0x57, "OBJECT_NOT_FOUND"},
    {0x5b, "OUT_OF_RANGE"},
    {0x63, "STATE_IN_USE"},
    {0x65, "TIMEOUT"},
    {0x68, "UVM_ADDRESS_IN_USE"},
    {0x7a, "FABRIC_MANAGER_NOT_PRESENT"},
    {0x81, "NVLINK_FABRIC_NOT_READY"},
    {0x10006, "WARN_NOTHING_TO_DO"},
};

const char *
nv_status_name(uint32_t status)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].name;
    }
    return "";
}

bool
nv_status_is_no_memory(unsigned long request, const void *arg, uint32_t status)
{
    const struct nv_os64 *alloc = arg;

    /* No memory lies behind virtual memory: its addresses were not free. */
    if (status == 0x1a &&
        request == nv_request(NV_ESC_RM_ALLOC, sizeof(*alloc)))
        return alloc->hClass != NV50_MEMORY_VIRTUAL;
    return status == 0x51 || status == 0x1a;
}

static const char *
abi_name_of(const struct kio_number *rows, uint32_t n_rows, uint32_t number)
{
    uint32_t i;

    for (i = 0; i < n_rows; i++) {
        if (rows[i].number == number)
            return rows[i].name;
    }
    return NULL;
}

const char *
nv_class_name(uint32_t nv_class)
{
    return abi_name_of(nv_class_rows, nv_n_class_rows, nv_class);
}

const char *
nv_control_name(uint32_t command)
{
    return abi_name_of(nv_control_rows, nv_n_control_rows, command);
}
