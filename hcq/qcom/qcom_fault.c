/* Faults and recovery: what the kernel says of contexts, which are made anew.
 * src: docs/hardware/adreno-kernel.md, "KGSL faults", "msm". */
#include <stdio.h>
#include <string.h>

#include "hcq/qcom/qcom.h"

/* ---- reports ------------------------------------------------------------- */

static void
fill_fault(struct hcq_queue *queue, const struct qcom_fault_record *record,
           struct hcq_fault *fault)
{
    char busy[160] = "";

    memset(fault, 0, sizeof(*fault));
    snprintf(fault->queue, sizeof(fault->queue), "%s", queue->name);
    hcq_ring_describe(queue, busy, sizeof(busy));
    fault->last_group = UINT64_MAX;
    (void)hcq_ring_find_exec(queue, NULL, fault->program, &fault->last_group);
    if (record->has_address) {
        fault->kind = HCQ_FAULT_MEMORY;
        fault->va = record->va;
        hcq_fault_add(fault, "memory fault at 0x%llx (%s)",
                      (unsigned long long)record->va, record->text);
    } else {
        fault->kind =
            fault->program[0] ? HCQ_FAULT_INSTRUCTION : HCQ_FAULT_STREAM;
        hcq_fault_add(fault, "the kernel reset the chip (%s)", record->text);
    }
    if (fault->program[0])
        hcq_fault_add(fault, " in '%s'", fault->program);
    hcq_fault_add(fault, " on %s; %s", fault->queue, busy);
}

/* Asks the kernel about queues that have something to do; base.lock is held. */
static bool
look(struct qcom_device *dev, struct hcq_fault *fault)
{
    struct qcom_fault_record record;
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(&dev->base, NULL); queue;
         queue = hcq_next_queue(&dev->base, queue)) {
        memset(&record, 0, sizeof(record));
        if (!hcq_ring_busy(queue) ||
            !dev->kernel->faulted(dev, &qcom_queue_of(queue)->feed.context,
                                  &record))
            continue;
        fill_fault(queue, &record, fault);
        return true;
    }
    return false;
}

void
qcom_fault_check(struct hcq_device *base)
{
    struct qcom_device *dev = qcom_device_of(base);
    struct hcq_fault fault;
    const char *why;
    bool is;

    if (hcq_device_is_lost(base))
        return;
    why = kio_broken(dev->kio);
    if (why) {
        hcq_device_set_cut_off(base, why);
        return;
    }
    pthread_mutex_lock(&base->lock);
    is = look(dev, &fault);
    pthread_mutex_unlock(&base->lock);
    if (is)
        hcq_device_set_lost(base, &fault);
}

/* ---- recovery ------------------------------------------------------------ */

bell_status
qcom_fault_stop(struct hcq_device *base)
{
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        BELL_TRY(qcom_feed_restart(&qcom_queue_of(queue)->feed));
    return BELL_OK;
}

void
qcom_fault_resume(struct hcq_device *base)
{
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        hcq_ring_drop(&qcom_queue_of(queue)->ring, 0);
}
