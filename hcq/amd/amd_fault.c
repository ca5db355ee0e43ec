/* Faults and recovery: the kernel's events, queues made anew.
 * src: hw/amd/BRINGUP.md 4, 12. */
#include <stdio.h>
#include <string.h>

#include "hcq/amd/amd_kfd.h"

/* ---- reports ------------------------------------------------------------------------ */

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
                      record->not_present  ? "not mapped"
                      : record->read_only  ? "read only"
                      : record->no_execute ? "not executable"
                                           : "no reason given");
    } else {
        fault->kind =
            fault->program[0] ? HCQ_FAULT_INSTRUCTION : HCQ_FAULT_STREAM;
        hcq_fault_add(fault, "the card stopped the queue (cause %u)",
                      record->reset_cause);
    }
    if (fault->program[0])
        hcq_fault_add(fault, " in '%s'", fault->program);
    if (fault->queue[0])
        hcq_fault_add(fault, " on %s", fault->queue);
    keep_first(dev, fault);
    if (record->is_memory)
        hcq_fault_add(fault,
                      "; KFD 1.%u runs nothing more of this process on this "
                      "card: start the program anew",
                      dev->process->minor);
    if (busy[0])
        hcq_fault_add(fault, "; %s", busy);
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
    if (!is_new)
        return;
    pthread_mutex_lock(&dev->base.lock);
    amd_fill_fault(dev, &record, &fault);
    pthread_mutex_unlock(&dev->base.lock);
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

/* ---- recovery -------------------------------------------------------------------------- */

/* Queues that hang are made anew. After a memory fault that would help nobody:
 * the kernel makes them and runs none. */
bell_status
amd_fault_stop(struct hcq_device *base)
{
    struct amd_device *dev = amd_device_of(base);
    struct hcq_queue *queue;

    amd_check_faults(dev);
    BELL_TRY(amd_card_check(dev->process, dev->card));
    amd_read_stop(dev);
    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        BELL_TRY(amd_channel_stop(&amd_queue_of(queue)->channel));
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
