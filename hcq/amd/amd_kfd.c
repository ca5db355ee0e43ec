/* The process's state at the kernel driver: opening, cards, memory, events.
 * src: docs/hardware/amd-kernel.md, "Opening", "Memory", "Events".
 */
#include "hcq/amd/amd_kfd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/process.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/kio_interface.h"

#define BIG_BYTES   ((uint64_t)2 << 20)
#define EVENT_BYTES 0x8000u
#define MAX_BYTES   ((uint64_t)1 << 46)

#define DEVICE_FLAGS                                                           \
    (KFD_MEM_WRITABLE | KFD_MEM_EXECUTABLE | KFD_MEM_NO_SUBSTITUTE)

/* The states that exist. The kernel keeps one for the process until that
 * exits, whatever is closed, and gives its parts to nobody twice: what we need
 * to go on with it can hang on nothing that ends before. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct amd_process *processes;

/* The kernel's state is the parent's: a child opens its own. */
static void
forget_processes(void)
{
    pthread_mutex_init(&list_lock, NULL);
    processes = NULL;
}

__attribute__((constructor)) static void
amd_watch_forks(void)
{
    process_in_child(forget_processes);
}

/* ---- calls --------------------------------------------------------------- */

bell_status
amd_call(struct amd_process *process, unsigned long request, void *arg)
{
    BELL_TRY(kio_ioctl(&process->kfd, request, arg));
    return BELL_OK;
}

void
amd_call_or_log(struct amd_process *process, unsigned long request, void *arg)
{
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    if (amd_call(process, request, arg) != BELL_OK)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
}

/* ---- memory -------------------------------------------------------------- */

static uint32_t
memory_flags(enum amd_mem_kind kind, bool is_user)
{
    if (is_user)
        return KFD_MEM_USERPTR | KFD_MEM_PUBLIC | KFD_MEM_COHERENT |
               KFD_MEM_UNCACHED | DEVICE_FLAGS;
    if (kind == AMD_MEM_GTT)
        return KFD_MEM_GTT | KFD_MEM_COHERENT | KFD_MEM_UNCACHED |
               KFD_MEM_PUBLIC | DEVICE_FLAGS;
    if (kind == AMD_MEM_NEAR)
        return KFD_MEM_VRAM | KFD_MEM_COHERENT | KFD_MEM_UNCACHED |
               KFD_MEM_PUBLIC | DEVICE_FLAGS;
    return KFD_MEM_VRAM | DEVICE_FLAGS |
           (kind == AMD_MEM_VISIBLE ? KFD_MEM_PUBLIC : 0);
}

/* Address space of the process, at a multiple of 2 MiB where it pays. */
static bell_status
reserve(struct amd_process *process, uint64_t size_bytes, void **out_at)
{
    uint64_t slack = size_bytes >= BIG_BYTES ? BIG_BYTES : 0, begin, end;
    void *at;

    assert(size_bytes % process->page_bytes == 0);
    BELL_TRY(kio_mmap(process->kio, NULL, NULL, size_bytes + slack, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0, &at));
    begin = align_up((uintptr_t)at, slack ? slack : process->page_bytes);
    end = (uintptr_t)at + size_bytes + slack;
    if (begin > (uintptr_t)at)
        kio_munmap(process->kio, at, begin - (uintptr_t)at);
    if (begin + size_bytes < end)
        kio_munmap(process->kio, (void *)(uintptr_t)(begin + size_bytes),
                   end - begin - size_bytes);
    *out_at = (void *)(uintptr_t)begin;
    return BELL_OK;
}

bell_status
amd_memory_map(struct amd_process *process, struct amd_mem *mem, uint32_t card)
{
    uint32_t gpu_id = process->cards[card].topology.gpu_id;
    struct kfd_map_memory map = {
        .handle = mem->held->handle, .gpu_ids = (uintptr_t)&gpu_id, .n = 1};

    assert(card < process->n_cards && mem->held);
    if (mem->held->mapped >> card & 1)
        return BELL_OK;
    BELL_TRY(amd_call(process, KFD_MAP_MEMORY, &map));
    mem->held->mapped |= 1ull << card;
    return BELL_OK;
}

void
amd_memory_unmap(struct amd_process *process, struct amd_mem *mem,
                 uint32_t card)
{
    uint32_t gpu_id = process->cards[card].topology.gpu_id;
    struct kfd_map_memory map = {
        .handle = mem->held->handle, .gpu_ids = (uintptr_t)&gpu_id, .n = 1};

    assert(card < process->n_cards && mem->held);
    if (!(mem->held->mapped >> card & 1))
        return;
    amd_call_or_log(process, KFD_UNMAP_MEMORY, &map);
    mem->held->mapped &= ~(1ull << card);
}

static bell_status
unmap(struct amd_process *process, struct amd_mem *mem)
{
    uint32_t ids[AMD_MAX_CARDS], n = 0, i;
    struct kfd_map_memory map = {.handle = mem->held->handle,
                                 .gpu_ids = (uintptr_t)ids};

    for (i = 0; i < process->n_cards; i++) {
        if (mem->held->mapped >> i & 1)
            ids[n++] = process->cards[i].topology.gpu_id;
    }
    map.n = n;
    return n ? amd_call(process, KFD_UNMAP_MEMORY, &map) : BELL_OK;
}

static void
note_held(struct amd_process *process, struct amd_held *held)
{
    pthread_mutex_lock(&process->lock);
    held->next = process->held;
    if (held->next)
        held->next->prev = held;
    process->held = held;
    pthread_mutex_unlock(&process->lock);
}

static void
forget_held(struct amd_process *process, struct amd_held *held)
{
    pthread_mutex_lock(&process->lock);
    assert(held->prev || process->held == held);
    if (held->next)
        held->next->prev = held->prev;
    if (held->prev)
        held->prev->next = held->next;
    else
        process->held = held->next;
    pthread_mutex_unlock(&process->lock);
    host_free(held);
}

/* Asks the kernel for memory at an address; mem->held is new. */
static bell_status
ask_for(struct amd_process *process, uint32_t card,
        struct kfd_alloc_memory *alloc, struct amd_mem *mem)
{
    struct amd_held *held = host_calloc(1, sizeof(*held));
    bell_status status;

    assert(!mem->held && alloc->va == mem->va);
    if (!held)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory to note an allocation");
    status = amd_call(process, KFD_ALLOC_MEMORY, alloc);
    if (status != BELL_OK) {
        host_free(held);
        return status;
    }
    held->handle = alloc->handle;
    held->va = alloc->va;
    held->card = card;
    held->is_user = alloc->flags & KFD_MEM_USERPTR;
    held->stays = alloc->flags & KFD_MEM_MMIO;
    note_held(process, held);
    mem->held = held;
    return BELL_OK;
}

/* Ends it as far as it is there, and says so in `mem`. Once no card has it
 * mapped its addresses are free: KFD looks at them only to map. What is then
 * left, if freeing fails, is the handle.
 * src: Linux 6.12, amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu, which compares
 * addresses with none, and amdgpu_vm_bo_map, which does */
static bell_status
give_back(struct amd_process *process, struct amd_mem *mem)
{
    struct kfd_free_memory back = {mem->held->handle};

    assert(mem->held);
    if (mem->held->mapped)
        BELL_TRY(unmap(process, mem));
    mem->held->mapped = 0;
    if (mem->va)
        kio_munmap(process->kio, (void *)(uintptr_t)mem->va, mem->size_bytes);
    mem->va = 0;
    BELL_TRY(amd_call(process, KFD_FREE_MEMORY, &back));
    forget_held(process, mem->held);
    memset(mem, 0, sizeof(*mem));
    return BELL_OK;
}

/* A call that timed out has ended the queue, too; then it is not known.
 * src: Linux 6.12, pqm_destroy_queue */
static bell_status
end_left(struct amd_process *process, struct amd_left *left)
{
    if (!left->is_queue)
        return give_back(process, &left->mem);
    if (amd_queue_end(process, left->card, left->queue_id) != BELL_OK &&
        bell_error_last()->sys_errno != EINVAL)
        return bell_error_last()->status;
    return BELL_OK;
}

/* How many failures a retry takes before it leaves the rest alone. */
#define LEFT_TRIES 4

/* left_lock is held. Memory that was freed after a queue may be in its
 * commands. */
static void
retry_left(struct amd_process *process)
{
    struct amd_left **link = &process->left;
    int n_tries = 0;

    while (*link && n_tries < LEFT_TRIES) {
        struct amd_left *left = *link;

        if (end_left(process, left) == BELL_OK) {
            *link = left->next;
            host_free(left);
            continue;
        }
        LOG(LOG_MEM, "goes on: %s", bell_error_last()->message);
        if (left->is_queue)
            return;
        link = &left->next;
        n_tries++;
    }
}

void
amd_left_retry(struct amd_process *process)
{
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    pthread_mutex_lock(&process->left_lock);
    retry_left(process);
    pthread_mutex_unlock(&process->left_lock);
    bell_error_release(&hold);
}

/* Without memory to note it in, it stays as it is for good. */
static void
note_left(struct amd_process *process, const struct amd_left *what)
{
    struct amd_left **link = &process->left, *left = host_alloc(sizeof(*left));

    if (!left) {
        LOG(LOG_MEM, "no memory to note what the kernel keeps");
        return;
    }
    *left = *what;
    left->next = NULL;
    while (*link)
        link = &(*link)->next;
    *link = left;
}

/* Whether a queue may still use memory that is freed now. */
static bool
waits_for_queue(const struct amd_process *process)
{
    const struct amd_left *left = process->left;

    while (left && !left->is_queue)
        left = left->next;
    return left != NULL;
}

void
amd_memory_destroy(struct amd_process *process, struct amd_mem *mem)
{
    struct amd_left left = {.mem = *mem};
    struct bell_error_hold hold;

    if (!mem->held)
        return;
    bell_error_hold(&hold);
    pthread_mutex_lock(&process->left_lock);
    retry_left(process);
    if (waits_for_queue(process)) {
        note_left(process, &left);
    } else if (give_back(process, &left.mem) != BELL_OK) {
        LOG(LOG_MEM, "goes on: %s", bell_error_last()->message);
        note_left(process, &left);
    }
    pthread_mutex_unlock(&process->left_lock);
    bell_error_release(&hold);
    memset(mem, 0, sizeof(*mem));
}

void
amd_queue_count_out(struct amd_process *process, uint32_t number)
{
    pthread_mutex_lock(&process->lock);
    assert(process->cards[number].n_queues > 0);
    process->cards[number].n_queues--;
    pthread_mutex_unlock(&process->lock);
}

bell_status
amd_queue_end(struct amd_process *process, uint32_t card, uint32_t queue_id)
{
    struct kfd_queue_ref ref = {queue_id, 0};

    BELL_TRY(amd_call(process, KFD_DESTROY_QUEUE, &ref));
    amd_queue_count_out(process, card);
    return BELL_OK;
}

void
amd_queue_leave(struct amd_process *process, uint32_t card, uint32_t queue_id)
{
    struct amd_left left = {
        .is_queue = true, .card = card, .queue_id = queue_id};

    pthread_mutex_lock(&process->left_lock);
    note_left(process, &left);
    pthread_mutex_unlock(&process->left_lock);
}

/* Maps it for the CPU, over what was reserved, and for the card. */
static bell_status
map_both(struct amd_process *process, uint32_t card, void *user,
         uint64_t mmap_offset, struct amd_mem *mem)
{
    void *at = (void *)(uintptr_t)mem->va;

    assert(mem->va);
    if (user) {
        mem->cpu = user;
    } else if (mem->kind != AMD_MEM_VRAM) {
        BELL_TRY(kio_mmap(process->kio, &process->cards[card].drm, at,
                          mem->size_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, mmap_offset, &at));
        mem->cpu = at;
    }
    return amd_memory_map(process, mem, card);
}

bell_status
amd_memory_create(struct amd_process *process, uint32_t card,
                  uint64_t size_bytes, enum amd_mem_kind kind, void *user,
                  struct amd_mem *out_mem)
{
    struct kfd_alloc_memory alloc = {
        .gpu_id = process->cards[card].topology.gpu_id,
    };
    struct amd_mem mem = {
        .size_bytes =
            align_up(size_bytes ? size_bytes : 1, process->page_bytes),
        .kind = user ? AMD_MEM_GTT : kind,
    };
    bell_status status;
    void *at;

    assert(card < process->n_cards);
    if (user && process->is_renewed)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "memory of the process cannot be pinned after a "
                         "recovery: KFD has it in a first state alone");
    /* src: Linux 6.12, kfd_ioctl_alloc_memory_of_gpu: a small window shows
     * none */
    if (mem.kind == AMD_MEM_VISIBLE && !process->cards[card].topology.large_bar)
        mem.kind = AMD_MEM_VRAM;
    alloc.flags = memory_flags(mem.kind, user != NULL);
    if (size_bytes > MAX_BYTES)
        return bell_fail(
            BELL_E_NO_MEMORY,
            "out of memory: more than the %llu bytes of a process's addresses",
            (unsigned long long)MAX_BYTES);
    amd_left_retry(process);
    BELL_TRY(reserve(process, mem.size_bytes, &at));
    mem.va = alloc.va = (uintptr_t)at;
    alloc.mmap_offset = (uintptr_t)user;
    alloc.size_bytes = mem.size_bytes;
    status = ask_for(process, card, &alloc, &mem);
    if (status != BELL_OK) {
        if (status == BELL_E_NO_MEMORY &&
            process->cards[card].topology.has_host_memory)
            bell_error_prefix("the card's memory is the host's, and the kernel "
                              "lends a part (ttm.pages_limit)");
        kio_munmap(process->kio, at, mem.size_bytes);
        return status;
    }
    status = map_both(process, card, user, alloc.mmap_offset, &mem);
    if (status != BELL_OK) {
        amd_memory_destroy(process, &mem);
        return status;
    }
    *out_mem = mem;
    return BELL_OK;
}

bell_status
amd_memory_import(struct amd_process *process, uint32_t card, int fd,
                  uint64_t size_bytes, struct amd_mem *out_mem)
{
    struct kfd_import_dmabuf import = {
        .gpu_id = process->cards[card].topology.gpu_id, .fd = (uint32_t)fd};
    struct amd_mem mem = {.size_bytes =
                              align_up(size_bytes, process->page_bytes)};
    struct amd_held *held;
    bell_status status;
    void *at;

    assert(card < process->n_cards && size_bytes > 0);
    amd_left_retry(process);
    held = host_calloc(1, sizeof(*held));
    if (!held)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory to note an allocation");
    status = reserve(process, mem.size_bytes, &at);
    if (status != BELL_OK) {
        host_free(held);
        return status;
    }
    mem.va = import.va = (uintptr_t)at;
    status = amd_call(process, KFD_IMPORT_DMABUF, &import);
    if (status != BELL_OK) {
        kio_munmap(process->kio, at, mem.size_bytes);
        host_free(held);
        return status;
    }
    held->handle = import.handle;
    held->va = mem.va;
    held->card = card;
    note_held(process, held);
    mem.held = held;
    *out_mem = mem;
    return BELL_OK;
}

/* ---- events -------------------------------------------------------------- */

bell_status
amd_event_create(const struct kio_file *kfd, uint32_t type, uint64_t page,
                 uint32_t *out_id)
{
    struct kfd_create_event event = {
        .page_offset = page, .type = type, .auto_reset = 1};

    BELL_TRY(kio_ioctl(kfd, KFD_CREATE_EVENT, &event));
    /* Its slot lies in the page, its number in packets. src: Linux 6.12,
     * kfd_ioctl.h, KFD_SIGNAL_EVENT_LIMIT */
    if (type == KFD_EVENT_SIGNAL && event.event_id >= 4096)
        return bell_fail(BELL_E_KERNEL, "KFD gave signal event %u of 4096",
                         event.event_id);
    *out_id = event.event_id;
    return BELL_OK;
}

/* The first event brings the page, which all later ones are in. The kernel has
 * it also where that event then failed, and refuses it from then on. Refused
 * without the page too, the first refusal says why.
 * src: Linux 6.12, kfd_ioctl_create_event, kfd_kmap_event_page */
static bell_status
create_signal_event(struct amd_process *process)
{
    uint64_t page = process->event_page.held->handle;
    struct bell_error_hold hold;
    bell_status status = amd_event_create(&process->kfd, KFD_EVENT_SIGNAL, page,
                                          &process->signal_event);

    if (status == BELL_OK || bell_error_last()->sys_errno != EINVAL)
        return status;
    bell_error_hold(&hold);
    status = amd_event_create(&process->kfd, KFD_EVENT_SIGNAL, 0,
                              &process->signal_event);
    if (bell_error_last()->sys_errno == EINVAL)
        bell_error_release(&hold);
    return status;
}

/* The exceptions are what we look at. */
static bell_status
open_events(struct amd_process *process, uint32_t card)
{
    if (!process->event_page.held)
        BELL_TRY(amd_memory_create(process, card, EVENT_BYTES, AMD_MEM_GTT,
                                   NULL, &process->event_page));
    BELL_TRY(amd_memory_map(process, &process->event_page, card));
    if (!process->signal_event)
        BELL_TRY(create_signal_event(process));
    if (!process->memory_event)
        BELL_TRY(amd_event_create(&process->kfd, KFD_EVENT_MEMORY, 0,
                                  &process->memory_event));
    if (!process->hardware_event)
        BELL_TRY(amd_event_create(&process->kfd, KFD_EVENT_HW_EXCEPTION, 0,
                                  &process->hardware_event));
    return BELL_OK;
}

/* An age that is not the event's ends the wait at once: what came between the
 * caller's look at its signal and this is not missed. Before KFD 1.14 there is
 * none, and 0 says so; then it may be missed.
 * src: Linux 6.12, init_event_waiter */
void
amd_wait_signal(struct amd_process *process, uint64_t age, uint32_t timeout_ms)
{
    struct kfd_event_data data = {.pad = 0};
    struct kfd_wait_events wait = {.events = (uintptr_t)&data,
                                   .n = 1,
                                   .timeout_ms = timeout_ms,
                                   .result = KFD_WAIT_TIMEOUT};
    struct bell_error_hold hold;
    struct kio_file kfd;

    pthread_mutex_lock(&process->lock); /* recovery may change them */
    kfd = process->kfd;
    data.event_id = process->signal_event;
    pthread_mutex_unlock(&process->lock);
    data.u.last_age = process->minor >= 14 ? age : 0;
    bell_error_hold(&hold);
    if (kio_ioctl(&kfd, KFD_WAIT_EVENTS, &wait) != BELL_OK)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
    if (wait.result == KFD_WAIT_COMPLETE && data.u.last_age)
        atomic_store(&process->signal_age, data.u.last_age);
}

static struct amd_card *
card_of(struct amd_process *process, uint32_t gpu_id)
{
    uint32_t i;

    for (i = 0; gpu_id && i < process->n_cards; i++) {
        if (process->cards[i].topology.gpu_id == gpu_id)
            return &process->cards[i];
    }
    return NULL;
}

static void
take_memory_fault(struct amd_process *process,
                  const struct kfd_memory_exception *m)
{
    struct amd_card *card = card_of(process, m->gpu_id);
    struct amd_fault_record *record;

    if (!card)
        return;
    /* src: Linux 6.12, kfd_dqm_evict_pasid: counted as an eviction "before its
     * terminated"; queues are made with is_evicted = !!qpd->evicted */
    card->is_stopped = true;
    record = &card->fault;
    record->serial++;
    record->is_memory = true;
    record->va = m->va;
    record->not_present = m->not_present != 0;
    record->read_only = m->read_only != 0;
}

static void
take_hardware_fault(struct amd_process *process,
                    const struct kfd_hw_exception *h)
{
    struct amd_card *card = card_of(process, h->gpu_id);
    struct amd_fault_record *record;

    if (!card)
        return;
    process->was_reset = true;
    /* Also of a reset of queues alone, where memory_lost is said as well: the
     * event does not tell them apart. src: Linux 6.12, kfd_signal_reset_event;
     * existing processes stay evicted: kgd2kfd_post_reset */
    card->is_stopped = card->is_reset = true;
    record = &card->fault;
    record->serial++;
    record->is_memory = false;
    record->reset_cause = h->reset_cause;
}

static bell_status
read_losses(const struct amd_card *card, uint32_t *out_n)
{
    struct amdgpu_info info = {
        .return_pointer = (uintptr_t)out_n,
        .return_bytes = sizeof(*out_n),
        .query = AMDGPU_INFO_VRAM_LOST_COUNTER,
    };

    *out_n = 0;
    return kio_ioctl(&card->drm, AMDGPU_INFO_REQUEST, &info);
}

/* Where there are several cards: the event names the last one that was reset,
 * and forgets those before it that nobody has taken yet. It comes before the
 * memory is lost, so this goes on after the first. The lock is held.
 * src: Linux 6.12, kfd_signal_reset_event (one hw_exception_data an event);
 * kgd2kfd_pre_reset, amdgpu_do_asic_reset (amdgpu_inc_vram_lost) */
static void
find_losses(struct amd_process *process)
{
    struct kfd_hw_exception h = {.reset_cause = KFD_CAUSE_NOT_TOLD};
    uint32_t i, n;

    for (i = 0; i < process->n_cards; i++) {
        struct amd_card *card = &process->cards[i];

        if (!card->knows_losses || card->is_reset ||
            read_losses(card, &n) != BELL_OK || n == card->n_losses)
            continue;
        h.gpu_id = card->topology.gpu_id;
        take_hardware_fault(process, &h);
    }
}

void
amd_poll_faults(struct amd_process *process)
{
    struct kfd_event_data data[2];
    struct kfd_wait_events wait = {.events = (uintptr_t)data, .n = 2};
    struct bell_error_hold hold;

    bell_error_hold(&hold); /* a look that fails is not a failure of the
                             * waiter */
    pthread_mutex_lock(&process->lock);
    memset(data, 0, sizeof(data));
    data[0].event_id = process->memory_event;
    data[1].event_id = process->hardware_event;
    if (process->hardware_event &&
        amd_call(process, KFD_WAIT_EVENTS, &wait) == BELL_OK &&
        wait.result == KFD_WAIT_COMPLETE) {
        take_memory_fault(process, &data[0].u.memory);
        take_hardware_fault(process, &data[1].u.hw);
    }
    if (process->was_reset)
        find_losses(process);
    pthread_mutex_unlock(&process->lock);
    bell_error_release(&hold);
}

bell_status
amd_card_ask(struct amd_process *process, uint32_t number, bool *out_must_renew)
{
    const struct amd_card *card = &process->cards[number];
    char first[sizeof(card->stopped_by)];
    bool is_stopped, is_reset;

    assert(number < process->n_cards);
    amd_poll_faults(process);
    pthread_mutex_lock(&process->lock);
    is_stopped = card->is_stopped;
    is_reset = card->is_reset;
    snprintf(first, sizeof(first), "%s", card->stopped_by);
    pthread_mutex_unlock(&process->lock);
    *out_must_renew = is_stopped;
    if (!is_stopped || (!is_reset && amd_process_can_renew(process)))
        return BELL_OK;
    return bell_fail(BELL_E_DEVICE_LOST,
                     "KFD 1.%u runs nothing more of this process on this card: "
                     "start the program anew; the first fault: %s",
                     process->minor, first[0] ? first : "not known");
}

bell_status
amd_card_check(struct amd_process *process, uint32_t number)
{
    bool must_renew;

    BELL_TRY(amd_card_ask(process, number, &must_renew));
    if (must_renew)
        return bell_fail(BELL_E_DEVICE_LOST,
                         "a memory fault stopped what this process has on the "
                         "card: recover the device that has it open");
    return BELL_OK;
}

/* ---- cards --------------------------------------------------------------- */

/* The counter's frequency is at offset 28, in kHz.
 * src: docs/hardware/amd-queues.md, "PM4" */
static bell_status
read_clock_rate(struct amd_card *card)
{
    struct amdgpu_device_info device = {0};
    struct amdgpu_info info = {
        .return_pointer = (uintptr_t)&device,
        .return_bytes = sizeof(device),
        .query = AMDGPU_INFO_DEV_INFO,
    };

    BELL_TRY(kio_ioctl(&card->drm, AMDGPU_INFO_REQUEST, &info));
    if (device.gpu_counter_khz == 0)
        return bell_fail(BELL_E_KERNEL, "the card's clock has no frequency");
    card->clock_hz = (uint64_t)device.gpu_counter_khz * 1000;
    return BELL_OK;
}

/* It can do without: then a reset that its event does not name is not seen. */
static void
note_losses(struct amd_process *process, struct amd_card *card)
{
    struct bell_error_hold hold;
    bool is_known;
    uint32_t n;

    if (process->n_cards < 2)
        return;
    bell_error_hold(&hold);
    is_known = read_losses(card, &n) == BELL_OK;
    if (!is_known)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
    pthread_mutex_lock(&process->lock);
    card->knows_losses = is_known;
    card->n_losses = n;
    pthread_mutex_unlock(&process->lock);
}

/* The kernel then tells why the card stopped a queue; without it, nothing. Once
 * for the process, and before its first queue. src: Linux 6.12,
 * kfd_set_dbg_ev_from_interrupt; EBUSY, EEXIST: runtime_enable */
static void
enable_runtime(struct amd_process *process)
{
    struct kfd_runtime_enable enable = {.mode = KFD_RUNTIME_ON};
    struct bell_error_hold hold;

    if (process->minor < 14 || process->has_runtime)
        return;
    bell_error_hold(&hold);
    process->has_runtime =
        amd_call(process, KFD_RUNTIME_ENABLE, &enable) == BELL_OK;
    if (!process->has_runtime)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
}

bell_status
amd_drm_open(struct amd_process *process, uint32_t card,
             struct kio_file *out_drm)
{
    char path[64];

    amd_render_path(&process->cards[card].topology, path, sizeof(path));
    return kio_open(process->kio, path, O_RDWR, out_drm);
}

/* The address space, which is the file's from here on and for good. */
static bell_status
acquire(struct amd_process *process, uint32_t number)
{
    struct amd_card *card = &process->cards[number];
    struct kfd_acquire_vm vm = {.gpu_id = card->topology.gpu_id};
    bell_status status;

    BELL_TRY(amd_drm_open(process, number, &card->drm));
    vm.drm_fd = (uint32_t)card->drm.fd;
    status = amd_call(process, KFD_ACQUIRE_VM, &vm);
    if (status != BELL_OK) {
        kio_close(&card->drm);
        return status;
    }
    enable_runtime(process);
    return BELL_OK;
}

/* The page through which writes to the card's memory are pushed on; old cards
 * have none. src: docs/hardware/amd-kernel.md, "HDP" */
static void
open_flush_page(struct amd_process *process, struct amd_card *card)
{
    struct kfd_alloc_memory alloc = {
        .size_bytes = process->page_bytes,
        .gpu_id = card->topology.gpu_id,
        .flags = KFD_MEM_MMIO | KFD_MEM_WRITABLE | KFD_MEM_COHERENT,
    };
    struct amd_mem mem = {.size_bytes = process->page_bytes};
    void *at;

    if (reserve(process, process->page_bytes, &at) != BELL_OK)
        return;
    mem.va = alloc.va = (uintptr_t)at;
    if (ask_for(process, (uint32_t)(card - process->cards), &alloc, &mem) !=
        BELL_OK) {
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
        kio_munmap(process->kio, at, process->page_bytes);
        return;
    }
    if (kio_mmap(process->kio, &process->kfd, at, process->page_bytes,
                 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 alloc.mmap_offset, &at) != BELL_OK)
        amd_memory_destroy(process, &mem);
    else
        card->hdp = at;
}

static bell_status
open_card(struct amd_process *process, uint32_t number)
{
    struct amd_card *card = &process->cards[number];

    assert(number < process->n_cards);
    amd_left_retry(process);
    if (card->drm.fd < 0)
        BELL_TRY(acquire(process, number));
    if (!card->hdp && !card->topology.has_host_memory)
        open_flush_page(process, card);
    if (card->is_open)
        return BELL_OK;
    BELL_TRY(read_clock_rate(card));
    note_losses(process, card);
    BELL_TRY(open_events(process, number));
    card->is_open = true;
    return BELL_OK;
}

bell_status
amd_card_open(struct amd_process *process, uint32_t card)
{
    bell_status status;

    pthread_mutex_lock(&process->open_lock);
    status = open_card(process, card);
    pthread_mutex_unlock(&process->open_lock);
    return status;
}

/* ---- the process --------------------------------------------------------- */

/* The kernel has nothing of it, or ends with it: so do mappings of cards. */
static void
process_free(struct amd_process *process)
{
    uint32_t i;

    for (i = 0; i < process->n_cards; i++) {
        if (process->cards[i].doorbells)
            kio_munmap(process->kio, process->cards[i].doorbells, 0x2000);
        if (process->cards[i].hdp)
            kio_munmap(process->kio, process->cards[i].hdp,
                       process->page_bytes);
        kio_close(&process->cards[i].drm);
    }
    kio_close(&process->kfd);
    while (process->held) {
        struct amd_held *held = process->held;

        process->held = held->next;
        host_free(held);
    }
    while (process->left) {
        struct amd_left *left = process->left;

        process->left = left->next;
        if (left->mem.va)
            kio_munmap(process->kio, (void *)(uintptr_t)left->mem.va,
                       left->mem.size_bytes);
        host_free(left);
    }
    if (process->event_page.held)
        kio_munmap(process->kio, process->event_page.cpu,
                   process->event_page.size_bytes);
    kio_destroy(process->kio);
    pthread_mutex_destroy(&process->lock);
    pthread_mutex_destroy(&process->left_lock);
    pthread_mutex_destroy(&process->open_lock);
    pthread_mutex_destroy(&process->share_lock);
    host_free(process->interface);
    host_free(process);
}

static bell_status
open_kfd(struct amd_process *process, const char *interface)
{
    struct amd_topology list[AMD_MAX_CARDS];
    struct kfd_version version = {0, 0};
    uint32_t i, n = 0;

    BELL_TRY(kio_open_interface("AMD", interface, &process->kio));
    process->page_bytes = kio_page_bytes(process->kio);
    BELL_TRY(kio_open(process->kio, "/dev/kfd", O_RDWR, &process->kfd));
    BELL_TRY(amd_call(process, KFD_GET_VERSION, &version));
    if (version.major != 1)
        return bell_fail(BELL_E_UNSUPPORTED, "KFD %u.%u; known: 1.x",
                         version.major, version.minor);
    process->minor = version.minor;
    BELL_TRY(amd_topology_list(process->kio, list, AMD_MAX_CARDS, &n));
    for (i = 0; i < n; i++)
        process->cards[i].topology = list[i];
    process->n_cards = n;
    return BELL_OK;
}

static bell_status
process_create(const char *interface, struct amd_process **out_process)
{
    struct amd_process *process = host_calloc(1, sizeof(*process));
    bell_status status;
    uint32_t i;

    if (!process)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for a process of KFD");
    pthread_mutex_init(&process->open_lock, NULL);
    pthread_mutex_init(&process->left_lock, NULL);
    pthread_mutex_init(&process->lock, NULL);
    pthread_mutex_init(&process->share_lock, NULL);
    process->signal_age = 1; /* of a new event */
    process->round = 1;
    for (i = 0; i < AMD_MAX_CARDS; i++)
        process->cards[i].drm.fd = -1;
    process->interface = host_strdup(interface);
    status =
        process->interface ? open_kfd(process, interface)
                           : bell_fail(BELL_E_NO_MEMORY,
                                       "out of memory for '%.40s'", interface);
    if (status != BELL_OK) {
        process_free(process);
        return status;
    }
    *out_process = process;
    return BELL_OK;
}

/* This process's state at the interface's kernel; NULL: none yet. The real
 * kernel has one, whatever forms it is seen through. */
static struct amd_process *
find_process(const char *interface)
{
    bool is_real = kio_interface_is_real(interface);
    struct amd_process *process;

    for (process = processes; process; process = process->next) {
        if (strcmp(process->interface, interface) == 0 ||
            (is_real && kio_interface_is_real(process->interface)))
            break;
    }
    return process;
}

bell_status
amd_process_get(const char *interface, struct amd_process **out_process)
{
    struct amd_process *process;
    bell_status status = BELL_OK;

    pthread_mutex_lock(&list_lock);
    process = find_process(interface);
    if (!process) {
        status = process_create(interface, &process);
        if (status == BELL_OK) {
            process->next = processes;
            processes = process;
        }
    } else if (strcmp(process->interface, interface) != 0) {
        status = bell_fail(BELL_E_INVALID,
                           "this process has KFD open as '%s%.60s', which the "
                           "kernel keeps until the process ends",
                           process->interface[0] ? "AMD@" : "AMD",
                           process->interface);
    }
    if (status == BELL_OK) {
        process->refs++;
        *out_process = process;
    }
    pthread_mutex_unlock(&list_lock);
    return status;
}

uint32_t
amd_process_openings(struct amd_process *process)
{
    uint32_t n;

    pthread_mutex_lock(&list_lock);
    n = process->refs;
    pthread_mutex_unlock(&list_lock);
    return n;
}

/* Whether the kernel has something of it from now on: from the first address
 * space on. */
static bool
is_for_good(const struct amd_process *process)
{
    uint32_t i;

    for (i = 0; i < process->n_cards; i++) {
        if (process->cards[i].drm.fd >= 0)
            return kio_outlives(process->kio);
    }
    return false;
}

void
amd_process_put(struct amd_process *process)
{
    struct amd_process **link = &processes;

    pthread_mutex_lock(&list_lock);
    assert(process->refs > 0);
    if (--process->refs == 0 && !is_for_good(process)) {
        while (*link != process)
            link = &(*link)->next;
        *link = process->next;
        process_free(process);
    }
    pthread_mutex_unlock(&list_lock);
}

/* A recording of the real kernel ends with the program. A child has none. */
__attribute__((destructor)) static void
end_processes(void)
{
    struct amd_process *process;

    for (process = processes; process; process = process->next) {
        if (process->refs == 0)
            kio_destroy(process->kio);
    }
}
