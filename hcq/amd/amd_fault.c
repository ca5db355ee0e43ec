/* Faults and recovery: the kernel's events, queues made anew.
 * src: hw/amd/BRINGUP.md 4, 12. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hcq/amd/amd_kfd.h"

/* ---- reports ------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void
append(char *text, size_t size_bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size_bytes - used, format, args);
    va_end(args);
}

/* The queue after `queue` in the device's list, or NULL. */
static struct amd_queue *
next_queue(struct amd_device *dev, const struct amd_queue *queue)
{
    struct hcq_link *link =
        queue ? queue->base.link.next : dev->base.queues.next;

    return link == &dev->base.queues
               ? NULL
               : amd_queue_of(HCQ_CONTAINER(link, struct hcq_queue, link));
}

/* The queue that was at work when the fault came: the kernel names the card
 * only, so it is the first busy one, a compute queue before others. */
static struct amd_queue *
find_suspect(struct amd_device *dev)
{
    struct amd_queue *queue, *found = NULL;

    for (queue = next_queue(dev, NULL); queue; queue = next_queue(dev, queue)) {
        if (hcq_ring_busy(&queue->base) &&
            (!found || found->base.kind != HCQ_QUEUE_COMPUTE))
            found = queue;
    }
    return found;
}

static void
fill_fault(struct amd_device *dev, const struct amd_fault_record *record,
           struct hcq_fault *fault)
{
    struct amd_queue *queue = find_suspect(dev);
    char busy[160] = "";

    memset(fault, 0, sizeof(*fault));
    if (queue) {
        snprintf(fault->queue, sizeof(fault->queue), "%s", queue->base.name);
        hcq_ring_describe(&queue->base, busy, sizeof(busy));
        fault->last_group = UINT64_MAX;
        (void)hcq_ring_find_exec(&queue->base, NULL, fault->program,
                                 &fault->last_group);
    }
    if (record->is_memory) {
        fault->kind = HCQ_FAULT_MEMORY;
        fault->va = record->va;
        append(fault->text, sizeof(fault->text), "memory fault at 0x%llx (%s)",
               (unsigned long long)record->va,
               record->not_present  ? "not mapped"
               : record->read_only  ? "read only"
               : record->no_execute ? "not executable"
                                    : "no reason given");
    } else {
        fault->kind =
            fault->program[0] ? HCQ_FAULT_INSTRUCTION : HCQ_FAULT_STREAM;
        append(fault->text, sizeof(fault->text),
               "the card stopped the queue (cause %u)", record->reset_cause);
    }
    if (fault->program[0])
        append(fault->text, sizeof(fault->text), " in '%s'", fault->program);
    if (fault->queue[0])
        append(fault->text, sizeof(fault->text), " on %s; %s", fault->queue,
               busy);
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

    if (hcq_device_is_lost(&dev->base))
        return;
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
    fill_fault(dev, &record, &fault);
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

/* After a fault the kernel runs none of them again before all are gone. */
bell_status
amd_fault_stop(struct hcq_device *base)
{
    struct amd_device *dev = amd_device_of(base);
    struct amd_queue *queue;

    amd_read_stop(dev);
    for (queue = next_queue(dev, NULL); queue; queue = next_queue(dev, queue))
        BELL_TRY(amd_channel_stop(&queue->channel));
    amd_fault_forget(dev);
    for (queue = next_queue(dev, NULL); queue; queue = next_queue(dev, queue))
        BELL_TRY(amd_channel_rebuild(&queue->channel));
    return BELL_OK;
}

void
amd_fault_resume(struct hcq_device *base)
{
    struct amd_device *dev = amd_device_of(base);
    struct amd_queue *queue;

    for (queue = next_queue(dev, NULL); queue; queue = next_queue(dev, queue))
        amd_queue_restart(queue);
}
