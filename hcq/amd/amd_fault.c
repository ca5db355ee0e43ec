/* Faults and recovery: the kernel's events, queues made anew.
 * src: docs/hardware/amd-kernel.md, "Events", "Recovery". */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kfd_uapi.h"

/* ---- reports ------------------------------------------------------------- */

/* The queue that was at work when the fault came: the kernel names the card
 * only, so it is the first busy one, a compute queue before others. */
static struct hcq_queue *
find_suspect(struct amd_device *dev)
{
    struct hcq_queue *queue, *found = NULL;

    for (queue = hcq_next_queue(&dev->base, NULL); queue;
         queue = hcq_next_queue(&dev->base, queue)) {
        if (hcq_ring_busy(queue) &&
            (!found || found->kind != HCQ_QUEUE_COMPUTE))
            found = queue;
    }
    return found;
}

/* What later refusals name. */
static void
keep_first(struct amd_device *dev, const struct hcq_fault *fault)
{
    struct amd_card *card = &dev->process->cards[dev->card];

    pthread_mutex_lock(&dev->process->lock);
    if (card->is_stopped && !card->stopped_by[0])
        snprintf(card->stopped_by, sizeof(card->stopped_by), "%.*s",
                 (int)sizeof(card->stopped_by) - 1, fault->text);
    pthread_mutex_unlock(&dev->process->lock);
}

static void
amd_fill_fault(struct amd_device *dev, const struct amd_fault_record *record,
               struct hcq_fault *fault)
{
    struct hcq_queue *queue = find_suspect(dev);
    char busy[160] = "";

    memset(fault, 0, sizeof(*fault));
    if (queue) {
        snprintf(fault->queue, sizeof(fault->queue), "%s", queue->name);
        hcq_ring_describe(queue, busy, sizeof(busy));
        fault->last_group = UINT64_MAX;
        (void)hcq_ring_find_exec(queue, NULL, fault->program,
                                 &fault->last_group);
    }
    if (record->is_memory) {
        fault->kind = HCQ_FAULT_MEMORY;
        fault->va = record->va;
        hcq_fault_add(fault, "memory fault at 0x%llx (%s)",
                      (unsigned long long)record->va,
                      record->not_present ? "not mapped"
                      : record->read_only ? "read only"
                                          : "no reason given");
    } else {
        fault->kind = HCQ_FAULT_RESET;
        hcq_fault_add(fault, "the card was reset (%s), its memory is lost",
                      record->reset_cause == 0
                          ? "something hung, here or of another process"
                      : record->reset_cause == 1 ? "a memory error"
                                                 : "no cause given");
    }
    if (record->is_memory && fault->program[0])
        hcq_fault_add(fault, " in '%s'", fault->program);
    if (record->is_memory && fault->queue[0])
        hcq_fault_add(fault, " on %s", fault->queue);
    keep_first(dev, fault);
    if (!record->is_memory || !amd_process_can_renew(dev->process))
        hcq_fault_add(fault,
                      "; KFD 1.%u runs nothing more of this process on this "
                      "card: start the program anew",
                      dev->process->minor);
    if (busy[0] && !record->is_memory)
        hcq_fault_add(fault, "; %s was at work: %s", fault->queue, busy);
    else if (busy[0])
        hcq_fault_add(fault, "; %s", busy);
}

/* ---- what stopped one queue ---------------------------------------------- */

/* Why the card stopped a queue, if the kernel told. Faults of waves are
 * reported only where there is a second level of the trap handler; this driver
 * has none. */
static const struct {
    uint32_t exception; /* enum kfd_exception */
    const char *text;
} reasons[] = {
    {KFD_EXCEPTION_WAVE_ABORT, "a wave was aborted"},
    {KFD_EXCEPTION_WAVE_TRAP, "a trap"},
    {KFD_EXCEPTION_WAVE_MATH, "an arithmetic exception"},
    {KFD_EXCEPTION_WAVE_ILLEGAL, "an illegal instruction"},
    {KFD_EXCEPTION_WAVE_MEMORY, "a memory violation"},
    {KFD_EXCEPTION_WAVE_APERTURE, "an aperture violation"},
    {KFD_EXCEPTION_DISPATCH_DIM, "bad dimensions of a dispatch packet"},
    {KFD_EXCEPTION_DISPATCH_LDS, "too much LDS in a dispatch packet"},
    {KFD_EXCEPTION_DISPATCH_CODE, "bad code of a dispatch packet"},
    {KFD_EXCEPTION_PACKET_RESERVED, "a reserved packet"},
    {KFD_EXCEPTION_PACKET_UNSUPPORTED, "an unsupported packet"},
    {KFD_EXCEPTION_DISPATCH_GROUP, "a bad group size in a dispatch packet"},
    {KFD_EXCEPTION_DISPATCH_REGISTER, "too many registers of a dispatch"},
    {KFD_EXCEPTION_PACKET_VENDOR, "an unsupported vendor packet"},
    {KFD_EXCEPTION_PREEMPTION, "it could not be preempted"},
};

static void
fill_stopped(struct hcq_queue *queue, uint64_t bits, struct hcq_fault *fault)
{
    bool is_wave = bits & ((1ull << KFD_EXCEPTION_WAVE_APERTURE) - 1);
    char busy[160];
    size_t i;

    assert(bits);
    memset(fault, 0, sizeof(*fault));
    fault->kind = is_wave ? HCQ_FAULT_INSTRUCTION : HCQ_FAULT_STREAM;
    snprintf(fault->queue, sizeof(fault->queue), "%s", queue->name);
    fault->last_group = UINT64_MAX;
    (void)hcq_ring_find_exec(queue, NULL, fault->program, &fault->last_group);
    hcq_fault_add(fault, "the card stopped %s:", fault->queue);
    for (i = 0; i < ARRAY_LEN(reasons); i++) {
        if (bits >> (reasons[i].exception - 1) & 1)
            hcq_fault_add(fault, " %s,", reasons[i].text);
    }
    hcq_fault_add(fault, " exceptions 0x%llx", (unsigned long long)bits);
    hcq_ring_describe(queue, busy, sizeof(busy));
    if (busy[0])
        hcq_fault_add(fault, "; %s", busy);
}

/* Whether the kernel told of one of the device's queues. */
static bool
find_stopped(struct amd_device *dev, struct hcq_fault *fault)
{
    struct hcq_queue *queue;
    uint64_t bits = 0;

    pthread_mutex_lock(&dev->base.lock);
    for (queue = hcq_next_queue(&dev->base, NULL); queue && !bits;
         queue = hcq_next_queue(&dev->base, queue)) {
        const struct amd_channel *channel = &amd_queue_of(queue)->channel;

        bits = channel->has_queue
                   ? __atomic_load_n(channel->exception, __ATOMIC_ACQUIRE)
                   : 0;
        if (bits)
            fill_stopped(queue, bits, fault);
    }
    pthread_mutex_unlock(&dev->base.lock);
    return bits != 0;
}

void
amd_check_faults(struct amd_device *dev)
{
    struct amd_card *card = &dev->process->cards[dev->card];
    struct amd_control *control = dev->control;
    struct amd_fault_record record;
    struct hcq_fault fault;
    const char *why;
    bool is_new;

    why = kio_broken(dev->process->kio);
    if (why) {
        hcq_device_set_cut_off(&dev->base, why);
        return;
    }
    amd_poll_faults(dev->process);
    pthread_mutex_lock(&dev->process->lock);
    record = card->fault;
    is_new = record.serial != control->fault_serial;
    control->fault_serial = record.serial;
    pthread_mutex_unlock(&dev->process->lock);
    if (is_new) {
        pthread_mutex_lock(&dev->base.lock);
        amd_fill_fault(dev, &record, &fault);
        pthread_mutex_unlock(&dev->base.lock);
    }
    if (is_new || find_stopped(dev, &fault))
        hcq_device_set_lost(&dev->base, &fault);
}

void
amd_fault_check(struct hcq_device *base)
{
    amd_check_faults(amd_device_of(base));
}

void
amd_fault_forget(struct amd_device *dev)
{
    amd_poll_faults(dev->process);
    pthread_mutex_lock(&dev->process->lock);
    dev->control->fault_serial = dev->process->cards[dev->card].fault.serial;
    pthread_mutex_unlock(&dev->process->lock);
}

/* Nobody tells of a wave that was halted, so a wait that timed out says what it
 * can see: a kernel that does not end. */
void
amd_fault_describe(struct hcq_device *base, char *text, size_t size_bytes)
{
    char name[HCQ_NAME_MAX];
    struct hcq_queue *queue;
    unsigned n = 0;
    size_t used = 0;

    pthread_mutex_lock(&base->lock);
    for (queue = hcq_next_queue(base, NULL); queue && !n;
         queue = hcq_next_queue(base, queue))
        n = hcq_ring_find_endless(queue, name);
    pthread_mutex_unlock(&base->lock);
    if (n) {
        snprintf(text, size_bytes, "a kernel does not end: '%s'%s; ", name,
                 n > 1 ? " or one behind it" : "");
        used = strlen(text);
    }
    hcq_ring_describe_all(base, text + used, size_bytes - used);
}

/* ---- recovery ------------------------------------------------------------ */

/* Another opening's recovery waits for this one's, which goes on without it. */
static void
renew_for_others(struct amd_device *dev)
{
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    if (amd_process_renew(dev->process, NULL) != BELL_OK)
        LOG(LOG_SYNC, "%s goes on in the old state: %s", dev->base.info.name,
            bell_error_last()->message);
    bell_error_release(&hold);
}

/* Queues that hang are made anew. After a memory fault that helps only in a
 * fresh state of the process: else the kernel makes them and runs none. */
bell_status
amd_fault_stop(struct hcq_device *base)
{
    struct amd_device *dev = amd_device_of(base);
    struct hcq_queue *queue;
    bool must_renew;

    amd_check_faults(dev);
    BELL_TRY(amd_card_ask(dev->process, dev->card, &must_renew));
    amd_read_stop(dev);
    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        BELL_TRY(amd_channel_stop(&amd_queue_of(queue)->channel));
    if (must_renew)
        BELL_TRY(amd_process_renew(dev->process, dev));
    else if (amd_process_is_awaited(dev))
        renew_for_others(dev);
    amd_process_unpark(dev);
    amd_fault_forget(dev);
    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        BELL_TRY(amd_channel_rebuild(&amd_queue_of(queue)->channel));
    return BELL_OK;
}

void
amd_fault_resume(struct hcq_device *base)
{
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        amd_queue_restart(amd_queue_of(queue));
}
