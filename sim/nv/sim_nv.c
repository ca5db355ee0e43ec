/* The form: files, mappings, and the machines that processes share. */
#include "sim/nv/sim_nv.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/log.h"
#include "base/map.h"
#include "base/process.h"
#include "ioctl/nv_tables.h"
#include "sim/links.h"
#include "sim/nv/rm/rm.h"
#include "sim/text.h"

#define FILE_BYTES     ((off_t)1 << 56)    /* of offsets, not of memory */
#define FIRST_PAGE     ((uint64_t)4 << 30) /* an address like any other */
#define FIRST_BUS      0x41u
#define BUS_STEP       0x10u
#define DEFAULT_BRANCH "580"

/* The machines that are there: they stand for the hardware and the kernel,
 * which are one for all processes. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rm_machine *registry;

/* A child has its parent's machines without their threads: it makes its own. */
static void
nvsim_forget_machines(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    registry = NULL;
}

__attribute__((constructor)) static void
nvsim_watch_forks(void)
{
    process_in_child(nvsim_forget_machines);
}

/* Which driver each branch (ioctl/nv_abi.h) is played as. */
static const char *const versions[NV_N_BRANCHES] = {
    "535.183.01", "545.29.06", "550.163.01", "555.58.02",
    "560.35.03",  "565.77",    "570.195.03", "575.64.05",
    "580.159.04", "590.48.01", "595.45.04",  "610.43.03",
};

/* ---- machines ---- */

static int
make_memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd >= 0 && ftruncate(fd, FILE_BYTES) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void
nvsim_machine_destroy(struct rm_machine *machine)
{
    uint32_t i;

    rm_exports_drop(machine);
    for (i = 0; i < machine->n_cards; i++) {
        if (machine->cards[i].gpu)
            nvgpu_destroy(machine->cards[i].gpu);
        if (machine->cards[i].vidmem_fd >= 0)
            close(machine->cards[i].vidmem_fd);
    }
    if (machine->sysmem_fd >= 0)
        close(machine->sysmem_fd);
    sim_links_destroy(machine->traffic);
    pthread_mutex_destroy(&machine->lock);
    host_free(machine);
}

/* Numbers that a card's index makes; the same from run to run. */
static void
name_card(struct rm_machine *machine, uint32_t idx)
{
    struct rm_card *card = &machine->cards[idx];
    uint32_t i;

    assert(idx < RM_MAX_CARDS);
    card->machine = machine;
    card->index = idx;
    card->vidmem_fd = -1;
    card->next_byte = RM_HUGE_BYTES; /* the kernel has what is before */
    card->bus = (uint8_t)(FIRST_BUS + BUS_STEP * idx);
    card->gpu_id = (uint32_t)card->bus << 8;
    card->bar0_base = 0xa0000000ull + ((uint64_t)idx << 26);
    card->bar1_base = ((uint64_t)(idx + 1)) << 40;
    for (i = 0; i < sizeof(card->uuid); i++)
        card->uuid[i] = (uint8_t)(0xbe + 17 * i + 29 * idx + machine->chip->sm);
}

static bell_status
make_cards(struct rm_machine *machine)
{
    uint32_t i;

    BELL_TRY(sim_links_create(machine->n_cards, &machine->traffic));
    for (i = 0; i < machine->n_cards; i++) {
        struct rm_card *card = &machine->cards[i];
        card->vidmem_fd = make_memory_file("simulated video memory");
        if (card->vidmem_fd < 0)
            return bell_fail_errno(
                BELL_E_NO_MEMORY, errno,
                "out of memory for simulated video memory: %s",
                strerror(errno));
        BELL_TRY(nvgpu_create(machine->chip, &card->gpu));
        nvgpu_join(card->gpu, machine->traffic, i);
    }
    machine->sysmem_fd = make_memory_file("simulated system memory");
    if (machine->sysmem_fd < 0)
        return bell_fail_errno(BELL_E_NO_MEMORY, errno,
                               "out of memory for simulated system memory: %s",
                               strerror(errno));
    return BELL_OK;
}

/* What a SPEC says. */
struct plan {
    const struct nvgpu_chip *chip;
    const struct chip *product; /* that the chip is made as large as; or NULL */
    uint32_t n_cards, n_sm;     /* n_sm 0: the chip's */
    uint32_t bar1_mib;          /* likewise */
    uint32_t flip_every;        /* nvgpu_chip's */
    uint32_t sm_version;        /* that the driver tells; 0: the chip's */
    bool confidential;
    bool ordered; /* rings in BAR0 stay behind stores through BAR1 */
    bool lenient; /* nvgpu_chip's */
    uint32_t hidden, denied, gone; /* rm_machine's, as first_is_old */
    uint32_t compute_mode;
    bool first_is_old;
    uint8_t links[RM_MAX_CARDS][RM_MAX_CARDS]; /* rm_machine's */
    uint32_t n_nvlinks;
    bool no_fabric;
    const char *version;
};

/* A real chip's number of SMs, in GPCs of at most this many TPCs; the driver
 * tells of both by masks of 32 bits. GH100 has 9: observed: H100, 2026-11-22 */
#define TPCS_PER_GPC 9u
#define MAX_SMS      512u
#define MAX_BAR1_MIB (1u << 18) /* a power of two, as BARs are */

static void
resize_chip(struct nvgpu_chip *chip, uint32_t n_sm)
{
    assert(n_sm > 0 && n_sm % 2 == 0);
    chip->n_tpc = n_sm / chip->n_sm_per_tpc;
    chip->n_tpc_per_gpc =
        chip->n_tpc < TPCS_PER_GPC ? chip->n_tpc : TPCS_PER_GPC;
    chip->n_gpc = (uint32_t)div_up(chip->n_tpc, chip->n_tpc_per_gpc);
    chip->tpc_masks = NULL;
}

/* A product of that chip. Its memory is all there for programs, and what BAR1
 * shows. guess: a real one keeps some for itself. */
static void
nvsim_become_product(struct nvgpu_chip *chip, const struct chip *product)
{
    chip->board = product->board;
    chip->pci_device = product->pci_device;
    chip->l2_bytes = (uint32_t)product->l2_bytes;
    chip->vidmem_bytes = product->memory_bytes;
    chip->ram_bytes = chip->usable_bytes = 0;
    for (chip->bar1_bytes = 1; chip->bar1_bytes < product->memory_bytes;)
        chip->bar1_bytes *= 2;
    resize_chip(chip, product->n_units);
}

static bell_status
nvsim_machine_create(const struct plan *plan, const char *spec,
                     struct rm_machine **out_machine)
{
    struct rm_machine *machine = host_calloc(1, sizeof(*machine));
    bell_status status;
    uint32_t i;

    if (!machine)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a machine");
    if (pthread_mutex_init(&machine->lock, NULL) != 0) {
        host_free(machine);
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a machine's lock");
    }
    machine->confidential = plan->confidential;
    machine->hidden = plan->hidden;
    machine->denied = plan->denied;
    machine->gone = plan->gone;
    machine->first_is_old = plan->first_is_old;
    machine->compute_mode = plan->compute_mode;
    memcpy(machine->links, plan->links, sizeof(machine->links));
    machine->n_nvlinks = plan->n_nvlinks;
    machine->no_fabric = plan->no_fabric;
    machine->own_chip = *plan->chip;
    if (plan->product)
        nvsim_become_product(&machine->own_chip, plan->product);
    if (!machine->own_chip.ram_bytes)
        machine->own_chip.ram_bytes = machine->own_chip.vidmem_bytes;
    if (!machine->own_chip.usable_bytes)
        machine->own_chip.usable_bytes = machine->own_chip.vidmem_bytes;
    machine->own_chip.bar0_overtakes &= !plan->ordered;
    machine->own_chip.flip_every = plan->flip_every;
    machine->own_chip.is_lenient = plan->lenient;
    if (plan->sm_version)
        machine->own_chip.sm_version = plan->sm_version;
    if (plan->n_sm)
        resize_chip(&machine->own_chip, plan->n_sm);
    if (plan->bar1_mib)
        machine->own_chip.bar1_bytes = (uint64_t)plan->bar1_mib << 20;
    machine->chip = &machine->own_chip;
    machine->n_cards = plan->n_cards;
    machine->sysmem_fd = -1;
    machine->sysmem_next_byte = FIRST_PAGE;
    snprintf(machine->spec, sizeof(machine->spec), "%s", spec);
    for (i = 0; i < machine->n_cards; i++)
        name_card(machine, i);
    status = nv_abi_parse(plan->version, &machine->abi);
    if (status == BELL_OK)
        status = make_cards(machine);
    if (status != BELL_OK) {
        nvsim_machine_destroy(machine);
        return status;
    }
    *out_machine = machine;
    return BELL_OK;
}

/* ---- specs ---- */

static bell_status
unknown_nv_spec(const char *spec)
{
    char chips[300], branches[96] = "";
    const char *branch;
    size_t n = 0;
    uint32_t i;

    chip_list("NV", chips, sizeof(chips));
    for (i = 0; (branch = nv_branch_name(i)) && n < sizeof(branches); i++)
        n += (size_t)snprintf(
            branches + n, sizeof(branches) - n, "%s%s%s", i ? ", " : "", branch,
            strcmp(branch, DEFAULT_BRANCH) == 0 ? " (default)" : "");
    return bell_fail(
        BELL_E_NO_DEVICE,
        "no simulated NV machine '%.60s'; known: CHIP[*1..%u]"
        "[,branch=N][,sms=N][,sm=0xVERSION][,bar1=MIB][,cc][,ordered]"
        "[,lenient][,flip=N][,hide=N][,deny=N][,gone=N][,first=sm_70][,link=[A-"
        "B:]KIND]"
        "[,fabric=absent][,mode=M], chips %s, branches %s",
        spec, RM_MAX_CARDS, chips, branches);
}

static bool
has_link(const struct plan *plan, enum rm_link link)
{
    uint32_t i, k;

    for (i = 0; i < plan->n_cards; i++) {
        for (k = 0; k < i; k++) {
            if (plan->links[i][k] == link)
                return true;
        }
    }
    return false;
}

/* An option that would change nothing of this machine. */
static bell_status
check_effects(const char *spec, const struct plan *plan)
{
    const uint32_t absent =
        (plan->hidden | plan->denied | plan->gone) >> plan->n_cards;
    char word[24];

    if (sim_option_twice(spec, word, sizeof(word)))
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated NV machine '%.60s': '%s' is given twice",
                         spec, word);
    if (absent)
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated NV machine '%.60s': hide, deny or gone "
                         "names a card beyond the last, %u",
                         spec, plan->n_cards - 1);
    if (plan->ordered && !plan->chip->bar0_overtakes)
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated NV machine '%.60s': 'ordered' has no "
                         "effect: no ring of %s overtakes stores",
                         spec, plan->chip->name);
    if (plan->no_fabric && !has_link(plan, RM_LINK_NVLINK))
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated NV machine '%.60s': 'fabric' has no "
                         "effect: no two of its cards have NVLink",
                         spec);
    if (plan->confidential && plan->chip->sm < 90)
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated NV machine '%.60s': 'cc': %s has no "
                         "confidential computing",
                         spec, plan->chip->name);
    return BELL_OK;
}

static const char *
nvsim_find_version(const char *branch)
{
    const char *name;
    uint32_t i;

    for (i = 0; (name = nv_branch_name(i)) != NULL; i++) {
        if (strcmp(branch, name) == 0)
            return versions[i];
    }
    return NULL;
}

/* "KEY" and the number of a card, which is added to the set. */
static bool
parse_card(const char *word, const char *key, uint32_t *set)
{
    size_t n = strlen(key);

    if (strncmp(word, key, n) != 0 || word[n] < '0' ||
        word[n] >= '0' + RM_MAX_CARDS || word[n + 1])
        return false;
    *set |= 1u << (word[n] - '0');
    return true;
}

static bool
find_link(const char *kind, uint8_t *out_link)
{
    static const char *const kinds[] = {
        [RM_LINK_NONE] = "none",
        [RM_LINK_PCIE] = "pcie",
        [RM_LINK_BAR1] = "bar1",
        [RM_LINK_NVLINK] = "nvlink",
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i], kind) != 0)
            continue;
        *out_link = (uint8_t)i;
        return true;
    }
    return false;
}

static void
set_all_links(struct plan *plan, uint8_t link)
{
    memset(plan->links, link, sizeof(plan->links));
}

/* "KIND" of all pairs, "A-B:KIND" of one. */
static bool
parse_link(const char *text, struct plan *plan)
{
    uint8_t link;
    uint32_t a, b;

    if (text[0] < '0' || text[0] > '9') {
        if (!find_link(text, &link))
            return false;
        set_all_links(plan, link);
        return true;
    }
    if (text[1] != '-' || text[2] < '0' || text[2] > '9' || text[3] != ':' ||
        !find_link(text + 4, &link))
        return false;
    a = (uint32_t)(text[0] - '0');
    b = (uint32_t)(text[2] - '0');
    if (a == b || a >= plan->n_cards || b >= plan->n_cards)
        return false;
    plan->links[a][b] = plan->links[b][a] = link;
    return true;
}

/* As the product is sold. */
static void
plan_links(struct plan *plan)
{
    const struct chip_link *row =
        chip_link_find(plan->product ? plan->product->name : plan->chip->name);
    uint8_t link = RM_LINK_NONE;

    if (row && find_link(row->kind, &link))
        plan->n_nvlinks = row->n_links;
    if (!plan->n_nvlinks)
        plan->n_nvlinks = 4; /* of a bridge. guess: with link=nvlink */
    set_all_links(plan, link);
}

/* What may follow the chip, between commas. */
static bool
parse_option(const char *text, size_t n, struct plan *plan)
{
    char word[20] = "", *end;

    if (n >= sizeof(word))
        return false;
    memcpy(word, text, n);
    if (strncmp(word, "branch=", 7) == 0) {
        plan->version = nvsim_find_version(word + 7);
        return plan->version != NULL;
    }
    if (strncmp(word, "sms=", 4) == 0 && word[4] >= '1' && word[4] <= '9') {
        plan->n_sm = (uint32_t)strtoul(word + 4, &end, 10);
        return *end == '\0' && plan->n_sm % 2 == 0 && plan->n_sm <= MAX_SMS;
    }
    if (strncmp(word, "bar1=", 5) == 0 && word[5] >= '1' && word[5] <= '9') {
        plan->bar1_mib = (uint32_t)strtoul(word + 5, &end, 10);
        return *end == '\0' && plan->bar1_mib <= MAX_BAR1_MIB &&
               (plan->bar1_mib & (plan->bar1_mib - 1)) == 0;
    }
    if (strncmp(word, "flip=", 5) == 0 && word[5] >= '1' && word[5] <= '9') {
        plan->flip_every = (uint32_t)strtoul(word + 5, &end, 10);
        return *end == '\0';
    }
    if (parse_card(word, "hide=", &plan->hidden) ||
        parse_card(word, "deny=", &plan->denied) ||
        parse_card(word, "gone=", &plan->gone))
        return true;
    if (strncmp(word, "link=", 5) == 0)
        return parse_link(word + 5, plan);
    if (strcmp(word, "fabric=absent") == 0) {
        plan->no_fabric = true;
        return true;
    }
    if (strcmp(word, "mode=prohibited") == 0) {
        plan->compute_mode = RM_MODE_PROHIBITED;
        return true;
    }
    if (strcmp(word, "mode=exclusive") == 0) {
        plan->compute_mode = RM_MODE_EXCLUSIVE_PROCESS;
        return true;
    }
    if (strcmp(word, "first=sm_70") == 0) {
        plan->first_is_old = true;
        return true;
    }
    if (strncmp(word, "sm=0x", 5) == 0 && word[5]) {
        plan->sm_version = (uint32_t)strtoul(word + 5, &end, 16);
        return *end == '\0' && plan->sm_version && plan->sm_version <= 0xffff;
    }
    plan->confidential |= strcmp(word, "cc") == 0;
    plan->ordered |= strcmp(word, "ordered") == 0;
    plan->lenient |= strcmp(word, "lenient") == 0;
    return strcmp(word, "cc") == 0 || strcmp(word, "ordered") == 0 ||
           strcmp(word, "lenient") == 0;
}

static bell_status
parse_spec(const char *spec, struct plan *out_plan)
{
    struct plan plan = {.n_cards = 1};
    char chip[32] = "";
    size_t n = strcspn(spec, "*,");
    const char *rest = spec + n;
    char *end;

    if (n == 0 || n >= sizeof(chip))
        return unknown_nv_spec(spec);
    memcpy(chip, spec, n);
    plan.chip = nvgpu_chip_find(chip, 0);
    plan.product = plan.chip ? NULL : chip_find(chip);
    if (plan.product)
        plan.chip = nvgpu_chip_find(plan.product->arch, 0);
    if (*rest == '*') {
        if (rest[1] < '1' || rest[1] > '9')
            return unknown_nv_spec(spec);
        plan.n_cards = (uint32_t)strtoul(rest + 1, &end, 10);
        rest = end;
        if (plan.n_cards > RM_MAX_CARDS)
            return unknown_nv_spec(spec);
    }
    plan.version = nvsim_find_version(DEFAULT_BRANCH);
    if (plan.chip)
        plan_links(&plan);
    while (*rest == ',') {
        rest++;
        n = strcspn(rest, ",");
        if (!parse_option(rest, n, &plan))
            return unknown_nv_spec(spec);
        rest += n;
    }
    if (!plan.chip || *rest || plan.n_cards < 1 || plan.n_cards > RM_MAX_CARDS)
        return unknown_nv_spec(spec);
    BELL_TRY(check_effects(spec, &plan));
    *out_plan = plan;
    return BELL_OK;
}

/* The registered machine of a plan, made if need be; counted. */
static bell_status
nvsim_machine_get(const struct plan *plan, struct rm_machine **out_machine)
{
    struct rm_machine *m;
    char spec[sizeof(m->spec)];

    snprintf(
        spec, sizeof(spec),
        "%s*%u,%s,%u,%x,%u,%u,%d,%d,%d,%x,%x,%x,%d,%u,%d,%llx",
        plan->product ? plan->product->name : plan->chip->name, plan->n_cards,
        plan->version, plan->n_sm, plan->sm_version, plan->bar1_mib,
        plan->flip_every, plan->confidential, plan->ordered, plan->lenient,
        plan->hidden, plan->denied, plan->gone, plan->first_is_old,
        plan->compute_mode, plan->no_fabric,
        (unsigned long long)hash_bytes(plan->links, sizeof(plan->links), 0));
    for (m = registry; m; m = m->next) {
        if (strcmp(m->spec, spec) == 0)
            break;
    }
    if (!m) {
        BELL_TRY(nvsim_machine_create(plan, spec, &m));
        m->next = registry;
        registry = m;
    }
    m->refs++;
    *out_machine = m;
    return BELL_OK;
}

static void
machine_put(struct rm_machine *machine)
{
    struct rm_machine **link = &registry;

    if (--machine->refs > 0)
        return;
    while (*link != machine)
        link = &(*link)->next;
    *link = machine->next;
    nvsim_machine_destroy(machine);
}

/* ---- files ---- */

static struct rm_process *
nvsim_enter(struct kio *kio)
{
    struct rm_process *process = (struct rm_process *)kio;

    rm_why_clear();
    pthread_mutex_lock(&process->machine->lock);
    return process;
}

static int
nvsim_leave(struct rm_process *process, int result)
{
    pthread_mutex_unlock(&process->machine->lock);
    return result;
}

/* The kind of a path's file, and its card; NONE: there is no such file. */
static enum rm_file_kind
nvsim_find_node(struct rm_machine *machine, const char *path,
                struct rm_card **out_card)
{
    static const char node[] = "/dev/nvidia";
    char *end;
    unsigned long minor;

    *out_card = NULL;
    if (strcmp(path, "/dev/nvidiactl") == 0)
        return RM_FILE_CTL;
    if (strcmp(path, "/dev/nvidia-uvm") == 0)
        return RM_FILE_UVM;
    if (strncmp(path, node, sizeof(node) - 1) != 0 ||
        path[sizeof(node) - 1] < '0' || path[sizeof(node) - 1] > '9')
        return RM_FILE_NONE;
    minor = strtoul(path + sizeof(node) - 1, &end, 10);
    if (*end || minor >= machine->n_cards || machine->hidden >> minor & 1)
        return RM_FILE_NONE;
    *out_card = &machine->cards[minor];
    return RM_FILE_GPU;
}

/* The lowest number that is free, as in a process. */
static int
new_file(struct rm_process *process)
{
    size_t i;

    for (i = 0; i < process->n_files; i++) {
        if (process->files[i].kind == RM_FILE_NONE)
            return (int)i;
    }
    if (host_grow((void **)&process->files, &process->cap_files,
                  process->n_files + 1, sizeof(*process->files)) < 0)
        return -1;
    process->files[process->n_files] = (struct rm_file){.ctl = -1};
    return (int)process->n_files++;
}

/* What stands before the driver: folders, and the rules of a container's
 * cgroup. */
static int
check_node(const struct rm_machine *machine, enum rm_file_kind kind,
           const struct rm_card *card, const char *path)
{
    if (kind == RM_FILE_NONE)
        return rm_fail(ENOENT, "the simulated machine has no %s", path);
    if (card && machine->denied >> card->index & 1)
        return -EPERM;
    return 0;
}

static int
nvsim_open_locked(struct rm_process *process, const char *path)
{
    struct rm_card *card;
    enum rm_file_kind kind = nvsim_find_node(process->machine, path, &card);
    struct rm_file *file;
    int idx, result;

    result = check_node(process->machine, kind, card, path);
    if (result < 0)
        return result;
    if (card && process->machine->gone >> card->index & 1)
        return rm_fail(ENXIO, "%s: the card fell off the bus", path);
    idx = new_file(process);
    if (idx < 0)
        return rm_fail(ENOMEM, "no memory for a file");
    file = &process->files[idx];
    *file = (struct rm_file){.ctl = -1, .card = card};
    if (kind == RM_FILE_UVM) {
        file->uvm = rm_uvm_create();
        if (!file->uvm)
            return rm_fail(ENOMEM, "no memory for a UVM space");
    }
    if (card)
        card->n_attached++;
    file->kind = kind;
    return RM_FIRST_FD + idx;
}

static int
nvsim_kio_open(struct kio *kio, const char *path, int flags)
{
    struct rm_process *process = nvsim_enter(kio);

    (void)flags;
    return nvsim_leave(process, nvsim_open_locked(process, path));
}

static int
nvsim_kio_may_open(struct kio *kio, const char *path)
{
    struct rm_process *process = nvsim_enter(kio);
    struct rm_card *card;
    enum rm_file_kind kind = nvsim_find_node(process->machine, path, &card);

    return nvsim_leave(process, check_node(process->machine, kind, card, path));
}

static int
nvsim_kio_close(struct kio *kio, int fd)
{
    struct rm_process *process = nvsim_enter(kio);
    int idx;

    if (!rm_file_of(process, fd, &idx))
        return nvsim_leave(process, rm_fail(EBADF, "file %d is not open", fd));
    rm_file_close(process, idx);
    return nvsim_leave(process, 0);
}

static int
nvsim_kio_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct rm_process *process = nvsim_enter(kio);
    int idx;

    if (!rm_file_of(process, fd, &idx))
        return nvsim_leave(process, rm_fail(EBADF, "file %d is not open", fd));
    return nvsim_leave(process, rm_ioctl(process, idx, request, arg));
}

/* OS events are not simulated: a file never has anything to say. */
static int
nvsim_kio_poll(struct kio *kio, int fd, short events, int timeout_ms,
               short *out_revents)
{
    struct rm_process *process = nvsim_enter(kio);
    bool is_open = rm_file_of(process, fd, NULL) != NULL;
    struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

    (void)events;
    (void)nvsim_leave(process, 0);
    *out_revents = is_open ? 0 : POLLNVAL;
    if (!is_open)
        return 1;
    if (timeout_ms < 0)
        return rm_fail(EDEADLK, "poll of file %d without end: no event comes",
                       fd);
    if (timeout_ms > 0 && nanosleep(&pause, NULL) < 0)
        return -errno;
    return 0;
}

static int
nvsim_kio_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    struct rm_process *process = nvsim_enter(kio);

    return nvsim_leave(process, rm_read_file(process->machine, path, buf, cap));
}

/* By where they are on PCI. */
static const struct rm_card *
card_at(const struct rm_machine *machine, uint32_t place)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++) {
        if (kio_pci_place(0, machine->cards[i].bus, 0) == place)
            return &machine->cards[i];
    }
    return NULL;
}

static bool
nvsim_kio_link_bytes(struct kio *kio, uint32_t card, uint32_t owner,
                     struct kio_link_bytes *out_bytes)
{
    struct rm_process *process = nvsim_enter(kio);
    const struct rm_card *a = card_at(process->machine, card);
    const struct rm_card *b = card_at(process->machine, owner);

    if (a && b)
        sim_links_get(process->machine->traffic, a->index, b->index, out_bytes);
    (void)nvsim_leave(process, 0);
    return a && b;
}

/* ---- mappings ---- */

static bool
add_mapping(struct rm_process *process, void *addr, size_t size_bytes,
            struct rm_mem *mem, uint64_t offset_bytes)
{
    if (host_grow((void **)&process->mappings, &process->cap_mappings,
                  process->n_mappings + 1, sizeof(*process->mappings)) < 0)
        return false;
    process->mappings[process->n_mappings++] =
        (struct rm_mapping){addr, size_bytes, mem, offset_bytes};
    return true;
}

/* Cuts [addr, addr + size) out of what is known to be mapped. */
static bool
cut_mappings(struct rm_process *process, uint8_t *addr, size_t size_bytes)
{
    uint8_t *end = addr + size_bytes;
    size_t i = process->n_mappings;

    while (i-- > 0) {
        struct rm_mapping *m = &process->mappings[i];
        uint8_t *m_end = m->addr + m->size_bytes;
        if (m->addr >= end || m_end <= addr)
            continue;
        if (m_end > end) {
            struct rm_mapping rest = *m;
            rest.offset_bytes += (uint64_t)(end - m->addr);
            if (m->addr < addr) {
                m->size_bytes = (uint64_t)(addr - m->addr);
                if (!add_mapping(process, end, (size_t)(m_end - end), rest.mem,
                                 rest.offset_bytes))
                    return false;
                continue;
            }
            m->addr = end;
            m->offset_bytes = rest.offset_bytes;
            m->size_bytes = (uint64_t)(m_end - end);
        } else if (m->addr < addr) {
            m->size_bytes = (uint64_t)(addr - m->addr);
        } else {
            *m = process->mappings[--process->n_mappings];
        }
    }
    return true;
}

/* The context that RM_MAP_MEMORY left on a file.
 * src: docs/hardware/nvidia-kernel.md, "CPU mappings" */
static int
check_file_view(const struct rm_file *file, int fd, size_t size_bytes,
                int flags, uint64_t offset)
{
    if (!file->has_view)
        return rm_fail(EINVAL, "file %d has no mapping context", fd);
    if (!file->mem)
        return rm_fail(EINVAL, "the memory that file %d maps is gone", fd);
    if (offset != 0)
        return rm_fail(EINVAL, "mmap of file %d at offset 0x%llx, not 0", fd,
                       (unsigned long long)offset);
    if (!(flags & MAP_SHARED))
        return rm_fail(EINVAL, "mmap of file %d: not MAP_SHARED", fd);
    if (file->is_bar ? size_bytes != file->view_bytes
                     : size_bytes > align_up(file->view_bytes, RM_PAGE_BYTES))
        return rm_fail(ENXIO,
                       "mmap of %zu bytes of file %d, which was set up for "
                       "%llu",
                       size_bytes, fd, (unsigned long long)file->view_bytes);
    return 0;
}

static int
nvsim_mmap_locked(struct rm_process *process, void **addr, size_t size_bytes,
                  int prot, int flags, int fd, uint64_t offset)
{
    const struct rm_file *file = fd < 0 ? NULL : rm_file_of(process, fd, NULL);
    struct rm_mem *mem = NULL;
    void *p;
    int result;

    if (fd >= 0 && !file)
        return rm_fail(EBADF, "file %d is not open", fd);
    if (file && file->kind == RM_FILE_UVM) {
        /* The offset is the address. src: open-gpu-kernel-modules 580.142,
         * uvm_mmap */
        mem = rm_uvm_pool(file->uvm, offset, size_bytes);
        if (!mem || (uintptr_t)*addr != offset || !(flags & MAP_FIXED) ||
            !(flags & MAP_SHARED))
            return rm_fail(EINVAL, "no semaphore pool is to be mapped at %p",
                           *addr);
        fd = rm_mem_file(mem, &offset);
    } else if (file) {
        result = check_file_view(file, fd, size_bytes, flags, offset);
        if (result < 0)
            return result;
        mem = file->mem;
        fd = rm_mem_file(mem, &offset);
        offset += file->view_offset;
    }
    if (flags & MAP_FIXED)
        nvgpu_bar_unmap(*addr, size_bytes);
    p = mmap(*addr, size_bytes, prot, flags, mem ? fd : -1, (off_t)offset);
    if (p == MAP_FAILED)
        return -errno;
    if (!cut_mappings(process, p, size_bytes) ||
        !add_mapping(process, p, size_bytes, mem,
                     mem ? file->view_offset : 0)) {
        munmap(p, size_bytes);
        return rm_fail(ENOMEM, "no memory to keep a mapping");
    }
    rm_channels_mapped(process->machine,
                       &process->mappings[process->n_mappings - 1]);
    *addr = p;
    return 0;
}

static int
nvsim_kio_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot,
               int flags, int fd, uint64_t offset)
{
    struct rm_process *process = nvsim_enter(kio);

    return nvsim_leave(process, nvsim_mmap_locked(process, addr, size_bytes,
                                                  prot, flags, fd, offset));
}

static int
nvsim_kio_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    struct rm_process *process = nvsim_enter(kio);

    nvgpu_bar_unmap(addr, size_bytes);
    if (munmap(addr, size_bytes) < 0)
        return nvsim_leave(process, -errno);
    if (!cut_mappings(process, addr, size_bytes))
        return nvsim_leave(process,
                           rm_fail(ENOMEM, "no memory to keep a mapping"));
    return nvsim_leave(process, 0);
}

static const char *
nvsim_kio_explain(struct kio *kio)
{
    (void)kio;
    return rm_why()[0] ? rm_why() : NULL;
}

/* ---- life ---- */

/* As when a process ends: its files are closed and its mappings of devices
 * go. */
static void
end_process(struct rm_process *process)
{
    struct rm_machine *machine = process->machine;
    struct rm_process **link = &machine->processes;
    size_t i;

    for (i = 0; i < process->n_files; i++) {
        if (process->files[i].kind != RM_FILE_NONE)
            rm_file_close(process, (int)i);
    }
    for (i = 0; i < machine->n_cards; i++) {
        if (process->attached & 1u << i)
            machine->cards[i].n_attached--;
    }
    for (i = 0; i < process->n_mappings; i++) {
        const struct rm_mapping *m = &process->mappings[i];
        if (!m->mem)
            continue;
        nvgpu_bar_unmap(m->addr, m->size_bytes);
        munmap(m->addr, m->size_bytes);
    }
    while (*link != process)
        link = &(*link)->next;
    *link = process->next;
}

static void
nvsim_kio_destroy(struct kio *kio)
{
    struct rm_process *process = nvsim_enter(kio);
    struct rm_machine *machine = process->machine;

    end_process(process);
    (void)nvsim_leave(process, 0);
    host_free(process->files);
    host_free(process->mappings);
    host_free(process);
    pthread_mutex_lock(&registry_lock);
    machine_put(machine);
    pthread_mutex_unlock(&registry_lock);
}

static const struct kio_ops sim_ops = {
    .name = "sim",
    .destroy = nvsim_kio_destroy,
    .open = nvsim_kio_open,
    .close = nvsim_kio_close,
    .ioctl = nvsim_kio_ioctl,
    .mmap = nvsim_kio_mmap,
    .munmap = nvsim_kio_munmap,
    .poll = nvsim_kio_poll,
    .read_file = nvsim_kio_read_file,
    .may_open = nvsim_kio_may_open,
    .explain = nvsim_kio_explain,
    .link_bytes = nvsim_kio_link_bytes,
};

bell_status
sim_nv_create(const char *spec, struct kio **out_kio)
{
    struct rm_process *process;
    struct plan plan;
    bell_status status;

    BELL_TRY(parse_spec(spec, &plan));
    process = host_calloc(1, sizeof(*process));
    if (!process)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a process");
    pthread_mutex_lock(&registry_lock);
    status = nvsim_machine_get(&plan, &process->machine);
    pthread_mutex_unlock(&registry_lock);
    if (status != BELL_OK) {
        host_free(process);
        return status;
    }
    process->kio = (struct kio){
        .ops = &sim_ops,
        .branch = process->machine->abi.branch,
        .gives_descriptors = true,
    };
    pthread_mutex_lock(&process->machine->lock);
    process->next = process->machine->processes;
    process->machine->processes = process;
    pthread_mutex_unlock(&process->machine->lock);
    *out_kio = &process->kio;
    return BELL_OK;
}

/* ---- counts ---- */

static void
count_files(const struct rm_process *process, struct sim_nv_usage *usage)
{
    size_t i;

    for (i = 0; i < process->n_files; i++)
        usage->files += process->files[i].kind != RM_FILE_NONE;
    usage->mappings += (uint32_t)process->n_mappings;
}

/* The machine that a stack ends in; NULL: it ends in something else. */
static struct rm_machine *
machine_of(const struct kio *stack)
{
    while (stack && stack->below)
        stack = stack->below;
    if (!stack || stack->ops != &sim_ops)
        return NULL;
    return ((const struct rm_process *)stack)->machine;
}

void
sim_nv_usage(const struct kio *stack, struct sim_nv_usage *out_usage)
{
    struct sim_nv_usage usage = {0};
    const struct rm_process *p;
    const struct rm_client *c;
    const struct rm_vas *vas;
    struct rm_machine *machine = machine_of(stack);

    if (machine) {
        pthread_mutex_lock(&machine->lock);
        rm_exports_sweep(machine);
        for (p = machine->processes; p; p = p->next)
            count_files(p, &usage);
        for (c = machine->clients; c; c = c->next) {
            usage.clients++;
            usage.objects += (uint32_t)c->n_objects;
        }
        for (vas = machine->spaces; vas; vas = vas->next)
            usage.va_mapped_bytes += nvgpu_space_mapped(vas->space);
        usage.memory_bytes = machine->memory_bytes;
        pthread_mutex_unlock(&machine->lock);
    }
    *out_usage = usage;
}

bool
sim_nv_bell_error(const struct kio *stack, char *text, size_t size_bytes)
{
    struct rm_machine *machine = machine_of(stack);
    uint32_t i;

    for (i = 0; machine && i < machine->n_cards; i++) {
        if (nvgpu_bell_error(machine->cards[i].gpu, text, size_bytes))
            return true;
    }
    return false;
}

bool
sim_nv_machine_exists(void)
{
    bool exists;

    pthread_mutex_lock(&registry_lock);
    exists = registry != NULL;
    pthread_mutex_unlock(&registry_lock);
    return exists;
}

void
sim_nv_after_fork(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    registry = NULL;
}
