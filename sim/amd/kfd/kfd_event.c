/* Events: slots in a page that queues write to, and exceptions.
 * src: docs/hardware/amd-kernel.md, "Events", "Recovery". */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/kfd/kfd.h"

#define UNSIGNALLED UINT64_MAX

static struct kfd_event *
find_event(struct kfd_process *p, uint32_t id)
{
    size_t i;

    for (i = 0; i < p->n_events; i++) {
        if (p->events[i]->id == id)
            return p->events[i];
    }
    return NULL;
}

/* The first event names the page that all slots are in. */
static int
set_page(struct kfd_process *p, uint64_t handle)
{
    struct kfd_buffer *buf;
    uint32_t i;

    if (handle == 0) /* src: Linux 7.3, kfd_event_create */
        return p->event_page
                   ? 0
                   : kfd_fail(p->machine->kfd_minor >= 18 ? ENOMEM : EINVAL,
                              "no event page yet");
    if (p->event_page)
        return kfd_fail(EINVAL, "the event page is set already");
    buf = kfd_find_handle(p, handle);
    if (!buf)
        return kfd_fail(EINVAL, "no memory has handle 0x%llx",
                        (unsigned long long)handle);
    if (buf->size_bytes < KFD_MAX_EVENTS * 8)
        return kfd_fail(EINVAL, "event page of %llu bytes",
                        (unsigned long long)buf->size_bytes);
    buf->is_event_page = true;
    p->event_page = buf->host;
    for (i = 0; i < KFD_MAX_EVENTS; i++)
        __atomic_store_n(&p->event_page[i], UNSIGNALLED, __ATOMIC_RELEASE);
    return 0;
}

int
kfd_do_create_event(struct kfd_process *p, void *arg)
{
    struct kfd_create_event *args = arg;
    bool is_signal = args->type == KFD_EVENT_SIGNAL;
    struct kfd_event *event;
    int result = 0;

    if (args->type != KFD_EVENT_SIGNAL && args->type != KFD_EVENT_MEMORY &&
        args->type != KFD_EVENT_HW_EXCEPTION)
        return kfd_fail(EINVAL, "event type %u", args->type);
    if (args->page_offset || is_signal)
        result = set_page(p, args->page_offset);
    if (result < 0)
        return result;
    if (is_signal && p->next_event + 1 >= KFD_MAX_EVENTS)
        return kfd_fail(ENOSPC, "all events are in use");
    event = host_calloc(1, sizeof(*event));
    pthread_mutex_lock(&p->event_lock);
    if (!event || host_grow((void **)&p->events, &p->cap_events,
                            p->n_events + 1, sizeof(*p->events)) != 0) {
        pthread_mutex_unlock(&p->event_lock);
        host_free(event);
        return kfd_fail(ENOMEM, "no memory for an event");
    }
    event->type = args->type;
    event->auto_reset = args->auto_reset != 0;
    event->age = 1;
    event->id =
        is_signal ? ++p->next_event : KFD_EXCEPTION_FIRST + p->next_exception++;
    p->events[p->n_events++] = event;
    pthread_mutex_unlock(&p->event_lock);
    args->event_id = event->id;
    args->trigger_data = event->id;
    args->slot = is_signal ? event->id : 0;
    return 0;
}

int
kfd_do_destroy_event(struct kfd_process *p, void *arg)
{
    const struct kfd_event_ref *args = arg;
    struct kfd_event *event;
    size_t i;

    pthread_mutex_lock(&p->event_lock);
    event = find_event(p, args->event_id);
    for (i = 0; event && i < p->n_events; i++) {
        if (p->events[i] == event)
            p->events[i] = p->events[--p->n_events];
    }
    pthread_mutex_unlock(&p->event_lock);
    if (!event)
        return kfd_fail(EINVAL, "no event 0x%x", args->event_id);
    host_free(event);
    return 0;
}

int
kfd_do_set_event(struct kfd_process *p, void *arg, bool set)
{
    const struct kfd_event_ref *args = arg;
    struct kfd_event *event;

    pthread_mutex_lock(&p->event_lock);
    event = find_event(p, args->event_id);
    if (event)
        event->is_set = set;
    if (event && set)
        event->age++;
    pthread_cond_broadcast(&p->event_cond);
    pthread_mutex_unlock(&p->event_lock);
    return event ? 0 : kfd_fail(EINVAL, "no event 0x%x", args->event_id);
}

/* ---- waiting ---- */

static void
fill_data(const struct kfd_process *p, const struct kfd_event *event,
          struct kfd_event_data *data)
{
    uint32_t gpu_id = p->machine->cards[event->gpu_index].gpu_id;

    assert(event->gpu_index < p->machine->n_cards);
    if (event->type == KFD_EVENT_MEMORY) {
        struct kfd_memory_exception *m = &data->u.memory;
        m->not_present = event->not_present;
        m->read_only = event->read_only;
        m->va = event->va;
        m->gpu_id = gpu_id;
    } else if (event->type == KFD_EVENT_HW_EXCEPTION) {
        data->u.hw.reset_cause = 0; /* a hang */
        data->u.hw.memory_lost = event->memory_lost;
        data->u.hw.gpu_id = gpu_id;
    }
}

/* An age that is not the event's says that it was set since, whoever took it.
 * src: Linux 6.12, init_event_waiter; KFD 1.14 and later */
static bool
knows_age(const struct kfd_process *p, const struct kfd_event *event,
          const struct kfd_event_data *data)
{
    return event->type == KFD_EVENT_SIGNAL && p->machine->kfd_minor >= 14 &&
           data->u.last_age != 0;
}

static bool
is_set(const struct kfd_process *p, const struct kfd_event *event,
       const struct kfd_event_data *data)
{
    return event->is_set ||
           (knows_age(p, event, data) && data->u.last_age != event->age);
}

/* How many of the events are set; -1: one does not exist. */
static int
count_set(struct kfd_process *p, struct kfd_event_data *data, uint32_t n)
{
    uint32_t i;
    int set = 0;

    for (i = 0; i < n; i++) {
        const struct kfd_event *event = find_event(p, data[i].event_id);
        if (!event)
            return -1;
        set += is_set(p, event, &data[i]);
    }
    return set;
}

static void
take_set(struct kfd_process *p, struct kfd_event_data *data, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct kfd_event *event = find_event(p, data[i].event_id);
        if (!is_set(p, event, &data[i]))
            continue;
        if (knows_age(p, event, &data[i]))
            data[i].u.last_age = event->age;
        fill_data(p, event, &data[i]);
        if (event->auto_reset)
            event->is_set = false;
    }
}

static struct timespec
deadline(uint32_t timeout_ms)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

int
kfd_do_wait(struct kfd_process *p, void *arg)
{
    struct kfd_wait_events *args = arg;
    struct kfd_event_data *data =
        (struct kfd_event_data *)(uintptr_t)args->events;
    struct timespec until = deadline(args->timeout_ms);
    int want = args->wait_for_all ? (int)args->n : 1, set = 0;
    int error = 0;

    pthread_mutex_lock(&p->event_lock);
    if (args->n == 0 || !data) {
        p->n_waiters--;
        pthread_mutex_unlock(&p->event_lock);
        return kfd_fail(EINVAL, "no events to wait for");
    }
    for (;;) {
        set = count_set(p, data, args->n);
        if (set < 0 || set >= want || args->timeout_ms == 0 ||
            error == ETIMEDOUT || p->is_ending)
            break;
        if (args->timeout_ms == UINT32_MAX)
            error = pthread_cond_wait(&p->event_cond, &p->event_lock);
        else
            error =
                pthread_cond_timedwait(&p->event_cond, &p->event_lock, &until);
    }
    if (set >= want)
        take_set(p, data, args->n);
    p->n_waiters--;
    pthread_cond_broadcast(&p->event_cond);
    pthread_mutex_unlock(&p->event_lock);
    if (set < 0)
        return kfd_fail(EINVAL, "an event that does not exist");
    args->result = set >= want ? KFD_WAIT_COMPLETE : KFD_WAIT_TIMEOUT;
    return 0;
}

/* ---- from queues ---- */

/* The slot's value is what counts; the kernel takes it back. */
static bool
signal_slot(struct kfd_process *p, struct kfd_event *event)
{
    if (event->type != KFD_EVENT_SIGNAL || !p->event_page ||
        __atomic_exchange_n(&p->event_page[event->id], UNSIGNALLED,
                            __ATOMIC_ACQ_REL) == UNSIGNALLED)
        return false;
    event->is_set = true;
    event->age++;
    return true;
}

/* An id whose slot says nothing is taken for none: all slots are looked at.
 * src: Linux 6.12, kfd_signal_event_interrupt */
void
kfd_interrupt(void *user, uint32_t context_id)
{
    struct kfd_queue *queue = user;
    struct kfd_process *p = queue->process;
    struct kfd_event *event;
    size_t i;

    pthread_mutex_lock(&p->event_lock);
    event = context_id ? find_event(p, context_id) : NULL;
    if (!event || !signal_slot(p, event)) {
        for (i = 0; i < p->n_events; i++)
            (void)signal_slot(p, p->events[i]);
    }
    pthread_cond_broadcast(&p->event_cond);
    pthread_mutex_unlock(&p->event_lock);
}

/* Memory of the process, as it has it mapped: what it may not touch the kernel
 * cannot either. */
static bool
move_user(uint64_t user, void *here, size_t n, bool is_write)
{
    struct iovec local = {here, n}, remote = {(void *)(uintptr_t)user, n};
    ssize_t moved = is_write
                        ? process_vm_writev(getpid(), &local, 1, &remote, 1, 0)
                        : process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

    return moved == (ssize_t)n;
}

static void
set_events(struct kfd_process *p, uint32_t type, uint32_t id,
           const struct kfd_event *what)
{
    size_t i;

    for (i = 0; i < p->n_events; i++) {
        struct kfd_event *event = p->events[i];
        if (event->type != type || (id && event->id != id))
            continue;
        event->is_set = true;
        event->age++;
        event->gpu_index = what->gpu_index;
        event->va = what->va;
        event->not_present = what->not_present;
        event->read_only = what->read_only;
        event->memory_lost = what->memory_lost;
    }
}

/* A packet's exception, where the process asked for them. src: Linux 6.12,
 * kfd_set_dbg_ev_from_interrupt, send_exception_work_handler */
static void
tell_exception(const struct kfd_queue *queue, uint32_t exception)
{
    static const struct kfd_event nothing;
    struct kfd_process *p = queue->process;
    struct kfd_save_header header;
    uint64_t word;

    if (!p->has_runtime || !queue->save_va ||
        !move_user(queue->save_va, &header, sizeof(header), false) ||
        !move_user(header.exception_va, &word, sizeof(word), false))
        return;
    word |= 1ull << (exception - 1);
    if (move_user(header.exception_va, &word, sizeof(word), true))
        set_events(p, KFD_EVENT_SIGNAL, header.event_id, &nothing);
}

/* A fault of an address space evicts the process, which is told; for one of a
 * packet see above. Other faults of a wave (illegal instructions, LDS) are not
 * reported: the first level of the trap handler halts it, and the queue stands.
 * src: Linux 6.12, cwsr_trap_handler_gfx9.asm and gfx10.asm, L_NO_NEXT_TRAP */
void
kfd_queue_fault(void *user, const struct amdsim_fault *fault)
{
    struct kfd_queue *queue = user;
    struct kfd_process *p = queue->process;
    struct kfd_event what = {.gpu_index = queue->card,
                             .va = fault->va,
                             .not_present = fault->not_present,
                             .read_only = fault->read_only};

    /* A fault of the address space is counted for the process and the card, and
     * nothing takes it back before the process exits: queues that are made
     * later are there and never run. src: Linux 6.12, kfd_dqm_evict_pasid;
     * create_queue_cpsch, is_evicted = !!qpd->evicted */
    if (fault->kind == AMDSIM_FAULT_MEMORY)
        amdsim_space_evict(p->vms[queue->card].space);
    pthread_mutex_lock(&p->event_lock);
    snprintf(p->fault_text, sizeof(p->fault_text), "%s", fault->text);
    if (fault->kind == AMDSIM_FAULT_MEMORY)
        set_events(p, KFD_EVENT_MEMORY, 0, &what);
    else if (fault->exception)
        tell_exception(queue, fault->exception);
    pthread_cond_broadcast(&p->event_cond);
    pthread_mutex_unlock(&p->event_lock);
}

/* The content of the card's memory is gone. */
static void
poison_memory(struct kfd_process *p, uint32_t card)
{
    size_t i;

    for (i = 0; i < p->n_buffers; i++) {
        struct kfd_buffer *buf = p->buffers[i];
        if (buf->card == card && buf->flags & KFD_MEM_VRAM)
            memset(buf->host, 0xdb, buf->size_bytes);
    }
}

/* All processes that there are stay evicted, and are told. src: Linux 6.12,
 * kgd2kfd_pre_reset, kgd2kfd_post_reset, kfd_signal_reset_event */
void
kfd_card_reset_locked(struct kfd_card *card)
{
    struct kfd_event what = {.gpu_index = card->index, .memory_lost = true};
    struct kfd_process *p;

    for (p = card->machine->processes; p; p = p->next) {
        struct kfd_vm *vm = &p->vms[card->index];

        vm->is_evicted = true;
        if (vm->space)
            amdsim_space_evict(vm->space);
        poison_memory(p, card->index);
        pthread_mutex_lock(&p->event_lock);
        set_events(p, KFD_EVENT_HW_EXCEPTION, 0, &what);
        pthread_cond_broadcast(&p->event_cond);
        pthread_mutex_unlock(&p->event_lock);
    }
    atomic_fetch_add(&card->n_losses, 1);
}

void
kfd_card_reset(void *user)
{
    struct kfd_card *card = user;

    pthread_mutex_lock(&card->machine->lock);
    kfd_card_reset_locked(card);
    pthread_mutex_unlock(&card->machine->lock);
}
