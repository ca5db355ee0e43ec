/* Teams of cards behind a switch: an object whose addresses stand for memory of
 * each card. What is read there is a sum over the cards, what is written is
 * written to all.
 *
 * A team is made for a number of cards. Each is attached, by a file of its node
 * that is registered with no client. The last one asks the fabric manager for
 * addresses, and the call returns before that has answered: until then all but
 * attaching cards is NOT_READY. The answer comes after a number of such calls
 * here, so that a driver that does not wait fails each time. Then memory is
 * attached, and the object is mapped.
 *
 * src: docs/hardware/nvidia-kernel.md, "Multicast";
 * NVIDIA/open-gpu-kernel-modules 595.45.04: mem_multicast_fabric.c, escape.c
 * (NV_ESC_RM_CONTROL), fabric_vaspace.c (fabricvaspaceMapPhysMemdesc_IMPL),
 * mem_mgr_ga100.c. lead: memory that overlaps attached memory of the same card
 * (INSERT_DUPLICATE_NAME). guess: a card of the team without memory at an
 * address faults who uses it.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/nv_uapi.h"

#define TEAM_PAGE_BYTES (512ull << 20)
#define USE_PACKET      1u /* allocFlags: another machine's */
#define CALLS_NOT_READY 3u /* until the fabric manager has answered */

/* Memory that is or was attached. */
struct rm_attached {
    struct rm_mem *mem;             /* counted */
    const struct rm_object *memory; /* NULL: detached */
};

struct rm_team {
    struct rm_team *next; /* of the machine's */
    uint64_t size_bytes;
    uint32_t n_max, n_attached;
    uint32_t
        n_waits; /* calls that are answered NOT_READY; the last card is in */
    struct nvgpu_team pages;
    struct rm_attached *attached; /* owned; beside pages.pieces */
    size_t cap_pieces, cap_attached;
};

/* ---- life ---- */

/* Addresses for the pages' marks, of which each touches one page of the
 * host's. */
static enum rm_status
reserve_pages(struct rm_team *team, uint8_t **out_pages)
{
    size_t room = team->size_bytes + NVGPU_TEAM_PAGE_BYTES;
    uint8_t *base = mmap(NULL, room, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *at;
    uint64_t i;

    if (base == MAP_FAILED)
        return rm_refuse(RM_NO_MEMORY, "reserving %zu bytes: %s", room,
                         strerror(errno));
    at = (uint8_t *)(uintptr_t)align_up((uintptr_t)base, NVGPU_TEAM_PAGE_BYTES);
    if (at > base)
        munmap(base, (size_t)(at - base));
    munmap(at + team->size_bytes,
           (size_t)(base + room - (at + team->size_bytes)));
    for (i = 0; i < team->size_bytes; i += NVGPU_TEAM_PAGE_BYTES)
        *(struct nvgpu_team_page *)(void *)(at + i) =
            (struct nvgpu_team_page){&team->pages, i};
    *out_pages = at;
    return RM_OK;
}

void
rm_team_destroy(struct rm_mem *mem)
{
    struct rm_team *team = mem->team, **link = &mem->machine->teams;
    size_t i;

    while (*link != team)
        link = &(*link)->next;
    *link = team->next;
    for (i = 0; i < team->pages.n_pieces; i++)
        rm_mem_release(team->attached[i].mem);
    munmap(mem->host, mem->size_bytes);
    pthread_rwlock_destroy(&team->pages.lock);
    host_free(team->pages.pieces);
    host_free(team->attached);
    host_free(team);
}

static enum rm_status
check_params(struct nv00fd_alloc *p)
{
    uint64_t page = p->pageSize | (uint64_t)p->pageSizeHigh << 32;

    page = page ? page : TEAM_PAGE_BYTES;
    if (p->allocFlags & USE_PACKET)
        return rm_refuse(RM_INSUFFICIENT_PERMISSIONS,
                         "a team of another machine: no IMEX channel");
    if (p->alignment && p->alignment != page)
        return rm_refuse(RM_INVALID_ARGUMENT, "alignment 0x%llx, pages 0x%llx",
                         (unsigned long long)p->alignment,
                         (unsigned long long)page);
    if (p->allocSize % page || !p->allocSize)
        return rm_refuse(
            RM_INVALID_ARGUMENT, "a team of 0x%llx bytes in pages of 0x%llx",
            (unsigned long long)p->allocSize, (unsigned long long)page);
    if (p->numGpus == 0 || p->numGpus == UINT32_MAX)
        return rm_refuse(RM_INVALID_ARGUMENT, "a team of %u cards", p->numGpus);
    if (page != TEAM_PAGE_BYTES) /* lead: told when a card is attached */
        return rm_refuse(RM_INVALID_ARGUMENT, "pages of 0x%llx",
                         (unsigned long long)page);
    p->alignment = page;
    return RM_OK;
}

enum rm_status
rm_alloc_team(struct rm_alloc *a)
{
    struct nv00fd_alloc *p = a->params;
    enum rm_status status = check_params(p);
    struct rm_team *team;
    struct rm_mem *mem;

    if (status != RM_OK)
        return status;
    team = host_calloc(1, sizeof(*team));
    mem = host_calloc(1, sizeof(*mem));
    if (!team || !mem) {
        host_free(team);
        host_free(mem);
        return RM_NO_MEMORY;
    }
    team->size_bytes = p->allocSize;
    team->n_max = p->numGpus;
    *mem = (struct rm_mem){.machine = a->machine,
                           .refs = 1,
                           .kind = RM_MEM_TEAM,
                           .size_bytes = p->allocSize,
                           .page_bytes = RM_HUGE_BYTES,
                           .fd = -1,
                           .team = team};
    status = reserve_pages(team, &mem->host);
    if (status != RM_OK) {
        host_free(team);
        host_free(mem);
        return status;
    }
    pthread_rwlock_init(&team->pages.lock, NULL);
    team->next = a->machine->teams;
    a->machine->teams = team;
    a->object->mem = mem;
    return RM_OK;
}

/* ---- readiness ---- */

static enum rm_status
check_ready(struct rm_team *team)
{
    if (team->n_attached < team->n_max)
        return rm_refuse(RM_NOT_READY, "%u of %u cards are in the team",
                         team->n_attached, team->n_max);
    if (team->n_waits == 0)
        return RM_OK;
    team->n_waits--;
    return rm_refuse(RM_NOT_READY, "the fabric manager has not answered");
}

enum rm_status
rm_team_check(const struct rm_mem *mem, const struct rm_card *card)
{
    enum rm_status status;

    if (!mem->team)
        return RM_OK;
    status = check_ready(mem->team);
    if (status == RM_OK && !(mem->team->pages.cards & 1u << card->index))
        return rm_refuse(RM_INVALID_STATE, "card %u is not in the team",
                         card->index);
    return status;
}

/* The team that the control is for. */
static enum rm_status
find_team(const struct rm_control *c, struct rm_team **out_team)
{
    if (!c->object->mem->team)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "control 0x%x of an object of class 0x%x", c->command,
                         c->object->nv_class);
    *out_team = c->object->mem->team;
    return RM_OK;
}

/* ---- cards ---- */

/* A file of the card's node: registered with a client it belongs to that. */
static enum rm_status
hold_node(struct rm_control *c, int fd, const struct rm_card *card)
{
    int idx;
    struct rm_file *file = rm_file_of(c->process, fd, &idx);

    if (!file || file->kind != RM_FILE_GPU)
        return rm_refuse(RM_INVALID_DEVICE, "file %d is not a card's node", fd);
    if (file->ctl >= 0)
        return rm_refuse(RM_IN_USE, "file %d is registered", fd);
    if (file->card != card)
        return rm_refuse(RM_INVALID_DEVICE, "file %d is card %u's node, not %u",
                         fd, file->card->index, card->index);
    file->is_team_member = true;
    return RM_OK;
}

static enum rm_status
check_card(const struct rm_control *c, const struct rm_team *team,
           const struct rm_card *card)
{
    const struct rm_machine *machine = c->machine;
    uint32_t i;

    if (team->n_attached == team->n_max)
        return rm_refuse(RM_INVALID_OPERATION, "the team has its %u cards",
                         team->n_max);
    if (machine->confidential)
        return rm_refuse(RM_NOT_SUPPORTED, "teams in confidential computing");
    if (team->pages.cards & 1u << card->index)
        return rm_refuse(RM_INSERT_DUPLICATE, "card %u is in the team",
                         card->index);
    if (machine->chip->sm < 90 || !rm_has_nvlink(machine, card->index) ||
        machine->no_fabric)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "card %u is behind no switch, or nobody has "
                         "configured it",
                         card->index);
    for (i = 0; i < machine->n_cards; i++) {
        if ((team->pages.cards & 1u << i) && i != card->index &&
            rm_link_of(machine, i, card->index) != RM_LINK_NVLINK)
            return rm_refuse(RM_INVALID_DEVICE,
                             "cards %u and %u are of different cliques", i,
                             card->index);
    }
    return RM_OK;
}

static enum rm_status
attach_gpu(struct rm_control *c)
{
    const struct nv00fd_attach_gpu *p = c->params;
    const struct rm_object *subdevice =
        rm_find_kind(c->object->client, p->hSubdevice, RM_KIND_SUBDEVICE);
    struct rm_team *team;
    enum rm_status status = find_team(c, &team);

    if (status != RM_OK)
        return status;
    if (!subdevice)
        return rm_refuse(RM_INVALID_DEVICE, "0x%x is not a subdevice",
                         p->hSubdevice);
    if (p->flags)
        return rm_refuse(RM_INVALID_ARGUMENT, "flags 0x%x", p->flags);
    status = check_card(c, team, subdevice->card);
    if (status == RM_OK)
        status = hold_node(c, p->devDescriptor, subdevice->card);
    if (status != RM_OK)
        return status;
    pthread_rwlock_wrlock(&team->pages.lock);
    team->pages.cards |= 1u << subdevice->card->index;
    pthread_rwlock_unlock(&team->pages.lock);
    if (++team->n_attached == team->n_max)
        team->n_waits = CALLS_NOT_READY;
    return RM_OK;
}

static enum rm_status
get_info(struct rm_control *c)
{
    struct nv00fd_get_info *p = c->params;
    struct rm_team *team;
    enum rm_status status = find_team(c, &team);

    if (status == RM_OK)
        status = check_ready(team);
    if (status != RM_OK)
        return status;
    *p = (struct nv00fd_get_info){.alignment = TEAM_PAGE_BYTES,
                                  .allocSize = team->size_bytes,
                                  .pageSize = (uint32_t)TEAM_PAGE_BYTES,
                                  .numMaxGpus = team->n_max,
                                  .numAttachedGpus = team->n_attached};
    return RM_OK;
}

/* ---- memory ---- */

static enum rm_status
check_memory(const struct rm_team *team, const struct nv00fd_attach_mem *p,
             const struct rm_object *memory, const struct rm_card *card)
{
    const struct rm_mem *mem = memory->mem;
    size_t i;

    if (mem->kind != RM_MEM_VIDEO || mem->card != card)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "memory 0x%x is not card %u's own", p->hMemory,
                         card->index);
    if (mem->page_bytes != RM_HUGE_BYTES)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "memory 0x%x has pages of 0x%x, not 2 MiB", p->hMemory,
                         mem->page_bytes);
    if ((p->offset | p->mapOffset | p->mapLength) % RM_HUGE_BYTES ||
        !p->mapLength || p->mapLength > mem->size_bytes ||
        p->mapOffset > mem->size_bytes - p->mapLength ||
        p->mapLength > team->size_bytes ||
        p->offset > team->size_bytes - p->mapLength)
        return rm_refuse(
            RM_INVALID_ARGUMENT,
            "0x%llx bytes at 0x%llx of memory of 0x%llx to 0x%llx "
            "of a team of 0x%llx",
            (unsigned long long)p->mapLength, (unsigned long long)p->mapOffset,
            (unsigned long long)mem->size_bytes, (unsigned long long)p->offset,
            (unsigned long long)team->size_bytes);
    for (i = 0; i < team->pages.n_pieces; i++) {
        const struct nvgpu_team_piece *piece = &team->pages.pieces[i];

        if (piece->host && piece->card == card->index &&
            rm_ranges_meet(piece->offset, piece->size_bytes, p->offset,
                           p->mapLength))
            return rm_refuse(RM_INSERT_DUPLICATE,
                             "card %u has memory at 0x%llx of the team",
                             card->index, (unsigned long long)piece->offset);
    }
    return RM_OK;
}

/* What kernels of the cards look at is changed under the lock. */
static enum rm_status
add_piece(struct rm_team *team, const struct nv00fd_attach_mem *p,
          const struct rm_object *memory, const struct rm_card *card)
{
    struct nvgpu_team *pages = &team->pages;
    size_t n = pages->n_pieces;
    enum rm_status status = RM_OK;

    pthread_rwlock_wrlock(&pages->lock);
    if (host_grow((void **)&pages->pieces, &team->cap_pieces, n + 1,
                  sizeof(*pages->pieces)) != 0 ||
        host_grow((void **)&team->attached, &team->cap_attached, n + 1,
                  sizeof(*team->attached)) != 0) {
        status = RM_NO_MEMORY;
    } else {
        pages->pieces[n] = (struct nvgpu_team_piece){
            p->offset, p->mapLength, memory->mem->host + p->mapOffset,
            card->index};
        team->attached[n] = (struct rm_attached){memory->mem, memory};
        rm_mem_retain(memory->mem);
        pages->n_pieces++;
    }
    pthread_rwlock_unlock(&pages->lock);
    return status;
}

static enum rm_status
attach_mem(struct rm_control *c)
{
    const struct nv00fd_attach_mem *p = c->params;
    struct rm_client *client = c->object->client;
    const struct rm_object *subdevice, *memory;
    struct rm_team *team;
    enum rm_status status = find_team(c, &team);

    if (status == RM_OK)
        status = check_ready(team);
    if (status != RM_OK)
        return status;
    subdevice = rm_find_kind(client, p->hSubdevice, RM_KIND_SUBDEVICE);
    memory = rm_find_kind(client, p->hMemory, RM_KIND_MEMORY);
    if (p->flags || !subdevice)
        return rm_refuse(p->flags ? RM_INVALID_ARGUMENT : RM_INVALID_DEVICE,
                         "flags 0x%x; subdevice 0x%x", p->flags, p->hSubdevice);
    if (!memory)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE, "0x%x is not memory",
                         p->hMemory);
    if (!(team->pages.cards & 1u << subdevice->card->index))
        return rm_refuse(RM_INVALID_DEVICE, "card %u is not in the team",
                         subdevice->card->index);
    status = check_memory(team, p, memory, subdevice->card);
    return status == RM_OK ? add_piece(team, p, memory, subdevice->card)
                           : status;
}

static void
detach(struct rm_team *team, size_t i)
{
    pthread_rwlock_wrlock(&team->pages.lock);
    team->pages.pieces[i].host = NULL;
    team->attached[i].memory = NULL;
    pthread_rwlock_unlock(&team->pages.lock);
}

static enum rm_status
detach_mem(struct rm_control *c)
{
    const struct nv00fd_detach_mem *p = c->params;
    const struct rm_object *subdevice =
        rm_find_kind(c->object->client, p->hSubdevice, RM_KIND_SUBDEVICE);
    struct rm_team *team;
    enum rm_status status = find_team(c, &team);
    size_t i;

    if (status == RM_OK)
        status = check_ready(team);
    if (status != RM_OK)
        return status;
    if (p->flags || !subdevice)
        return rm_refuse(p->flags ? RM_INVALID_ARGUMENT : RM_INVALID_DEVICE,
                         "flags 0x%x; subdevice 0x%x", p->flags, p->hSubdevice);
    for (i = 0; i < team->pages.n_pieces; i++) {
        if (team->pages.pieces[i].host &&
            team->pages.pieces[i].card == subdevice->card->index &&
            team->pages.pieces[i].offset == p->offset) {
            detach(team, i);
            return RM_OK;
        }
    }
    return rm_refuse(RM_OBJECT_NOT_FOUND, "card %u has nothing at 0x%llx",
                     subdevice->card->index, (unsigned long long)p->offset);
}

void
rm_teams_forget(struct rm_machine *machine, const struct rm_object *memory)
{
    struct rm_team *team;
    size_t i;

    for (team = machine->teams; team; team = team->next) {
        for (i = 0; i < team->pages.n_pieces; i++) {
            if (team->attached[i].memory == memory)
                detach(team, i);
        }
    }
}

/* clang-format off */
const struct rm_control_row rm_team_controls[] = {
    {NV00FD_CTRL_CMD_GET_INFO, NV_S_NV00FD_GET_INFO, 1u << RM_KIND_MEMORY, get_info},
    {NV00FD_CTRL_CMD_ATTACH_GPU, NV_S_NV00FD_ATTACH_GPU, 1u << RM_KIND_MEMORY, attach_gpu},
    {NV00FD_CTRL_CMD_ATTACH_MEM, NV_S_NV00FD_ATTACH_MEM, 1u << RM_KIND_MEMORY, attach_mem},
    {NV00FD_CTRL_CMD_DETACH_MEM, NV_S_NV00FD_DETACH_MEM, 1u << RM_KIND_MEMORY, detach_mem},
};
/* clang-format on */
const size_t rm_n_team_controls = ARRAY_LEN(rm_team_controls);
