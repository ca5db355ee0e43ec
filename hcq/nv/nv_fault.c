/* Faults and recovery: error notifiers, what the driver tells of a fault, and
 * channels made anew.
 *
 * src: docs/hardware/nvidia-queues.md, "Errors". After an error the
 * channel's group is off: its pointer is ignored and its semaphores never
 * arrive, so waits look at the notifiers while they sleep.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/regs/nv_mem.h"
#include "ioctl/nv_uapi.h"

/* Low 16 bits of a warp's error state: the reason. 0x10 is what a buffer in
 * the shared window gives. src: docs/hardware/nvidia-queues.md, "Errors" */
#define WARP_ESR_ERROR_MASK 0xffffu

/* What is found out about one error. Plain data. */
struct report {
    struct nv_queue *queue;
    uint32_t code; /* robust-channel code: the Xid */
    bool has_va, has_access;
    uint64_t va; /* that was accessed */
    uint32_t access;
    char reason[33]; /* the driver's words, or "" */
    bool has_pc;
    uint64_t pc;
    uint32_t esr;
    char program[HCQ_NAME_MAX]; /* "" when not known */
    uint64_t n_groups;          /* of the launch; 0: not known */
};

/* ---- notifiers ----------------------------------------------------------- */

/* The error record's code, or 0 while it is not filled. */
static uint32_t
notifier_code(const struct nv_channel *channel)
{
    const volatile struct nv_mem_notifier *record;

    if (!channel->notifier)
        return 0;
    record = (const volatile struct nv_mem_notifier *)(const volatile void *)
                 channel->notifier;
    if (record[NV_MEM_NOTIFIER_INDEX_ERROR].status == 0)
        return 0;
    hcq_order_reads(); /* the status is written last */
    return record[NV_MEM_NOTIFIER_INDEX_ERROR].info32;
}

/* The queue whose channel reports an error, or NULL; base.lock is held. A
 * removal (45) is the consequence of another channel's error. */
static struct nv_queue *
find_faulty(struct nv_device *dev, uint32_t *out_code)
{
    struct nv_queue *found = NULL;
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(&dev->base, NULL); queue;
         queue = hcq_next_queue(&dev->base, queue)) {
        uint32_t code = notifier_code(&nv_queue_of(queue)->channel);

        if (!code || (found && code == NV_MEM_RC_PREEMPTIVE_REMOVAL))
            continue;
        found = nv_queue_of(queue);
        *out_code = code;
        if (code != NV_MEM_RC_PREEMPTIVE_REMOVAL)
            break;
    }
    return found;
}

/* ---- what the driver tells ----------------------------------------------- */

/* The channel's MMU fault. */
static void
ask_mmu(struct nv_device *dev, struct report *report)
{
    const struct nv_channel *channel = &report->queue->channel;
    struct nv906f_get_mmu_fault_info info = {0};

    if (nv_rm_control(dev->rm, channel->channel,
                      NV906F_CTRL_CMD_GET_MMU_FAULT_INFO,
                      NV_S_NV906F_GET_MMU_FAULT_INFO, &info) != BELL_OK)
        return;
    report->va = (uint64_t)info.addrHi << 32 | info.addrLo;
    report->has_va = true;
    snprintf(report->reason, sizeof(report->reason), "%.*s",
             (int)sizeof(info.faultString), info.faultString);
    if (info.shaderProgramVA[0]) {
        report->pc = info.shaderProgramVA[0];
        report->has_pc = true;
    }
}

/* The debugger's list of MMU faults: address and access. */
static void
ask_debugger_mmu(struct nv_device *dev, struct report *report)
{
    struct nv83de_debug_read_mmu_fault_info info = {0};

    if (nv_rm_control(dev->rm, report->queue->channel.debugger,
                      NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO,
                      NV_S_NV83DE_DEBUG_READ_MMU_FAULT_INFO,
                      &info) != BELL_OK ||
        !info.count)
        return;
    report->va = info.mmuFaultInfoList[0].faultAddress;
    report->access = info.mmuFaultInfoList[0].accessType;
    report->has_va = report->has_access = true;
}

/* The first SM with an error: reason, and where its warp was. A call tells of
 * 100 SMs at most. */
static void
ask_sms(struct nv_device *dev, struct report *report)
{
    const struct nv_channel *channel = &report->queue->channel;
    struct nv83de_debug_read_all_sm_error_states states;
    struct nv83de_debug_clear_all_sm_error_states clear = {
        .hTargetChannel = channel->channel,
        .numSMsToClear = dev->chip.n_sm,
    };
    uint32_t first, i, n;

    assert(channel->debugger);
    for (first = 0; first < dev->chip.n_sm && !report->esr; first += n) {
        n = dev->chip.n_sm - first;
        if (n > ARRAY_LEN(states.smErrorStateArray))
            n = ARRAY_LEN(states.smErrorStateArray);
        memset(&states, 0, sizeof(states));
        states.hTargetChannel = channel->channel;
        states.startingSM = first;
        states.numSMsToRead = n;
        if (nv_rm_control(dev->rm, channel->debugger,
                          NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
                          NV_S_NV83DE_DEBUG_READ_ALL_SM_ERROR_STATES,
                          &states) != BELL_OK)
            return;
        for (i = 0; i < n && !states.smErrorStateArray[i].hwwWarpEsr; i++)
            continue;
        if (i == n)
            continue;
        report->esr = states.smErrorStateArray[i].hwwWarpEsr;
        report->pc = states.smErrorStateArray[i].hwwWarpEsrPc64;
        report->has_pc = true;
        if (!report->has_va && states.smErrorStateArray[i].hwwEsrAddr) {
            report->va = states.smErrorStateArray[i].hwwEsrAddr;
            report->has_va = true;
        }
    }
    if (nv_rm_control(dev->rm, channel->debugger,
                      NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES,
                      NV_S_NV83DE_DEBUG_CLEAR_ALL_SM_ERROR_STATES,
                      &clear) != BELL_OK)
        LOG(LOG_SYNC, "SM error states stay: %s", bell_error_last()->message);
}

/* The kernel: by the warp's position, or the one that is in flight, whose grid
 * the queue's packets tell. */
static void
find_program(struct nv_device *dev, struct report *report)
{
    const struct nv_program *program =
        report->has_pc ? nv_program_at(dev, report->pc) : NULL;

    if (program)
        snprintf(report->program, sizeof(report->program), "%s",
                 program->base.pub.name);
    if (report->code != NV_MEM_RC_PBDMA_ERROR)
        (void)hcq_ring_find_exec(&report->queue->base,
                                 program ? &program->base : NULL,
                                 report->program, &report->n_groups);
}

/* The text of a warp's error number. src: docs/hardware/nvidia-queues.md,
 * "Errors" (0xf, 0x10). guess: the others, as kernel logs name them. */
static const char *
warp_error(const struct report *report, enum hcq_fault_kind *kind)
{
    switch (report->has_pc ? report->esr & WARP_ESR_ERROR_MASK : 0) {
    case 0xe:
        *kind = HCQ_FAULT_MEMORY;
        return ": address out of range";
    case 0xf:
        *kind = HCQ_FAULT_MEMORY;
        return ": misaligned address";
    case 0x10:
        *kind = HCQ_FAULT_MEMORY;
        return ": address in a window of shared or local memory";
    default:
        return "";
    }
}

/* ---- the fault as hcq has it --------------------------------------------- */

/* What a code means, and of what kind it is. */
static enum hcq_fault_kind
explain(const struct report *report, const char **out_text)
{
    static const struct {
        uint32_t code;
        enum hcq_fault_kind kind;
        const char *text;
    } codes[] = {
        {NV_MEM_RC_GR_EXCEPTION, HCQ_FAULT_INSTRUCTION, "kernel error"},
        {NV_MEM_RC_MMU_FAULT, HCQ_FAULT_MEMORY, "memory fault"},
        {NV_MEM_RC_PBDMA_ERROR, HCQ_FAULT_STREAM, "bad pushbuffer"},
        {NV_MEM_RC_CE0_ERROR, HCQ_FAULT_STREAM, "copy engine error"},
        {NV_MEM_RC_CE1_ERROR, HCQ_FAULT_STREAM, "copy engine error"},
        {NV_MEM_RC_CE2_ERROR, HCQ_FAULT_STREAM, "copy engine error"},
        {NV_MEM_RC_CE3_ERROR, HCQ_FAULT_STREAM, "copy engine error"},
        {NV_MEM_RC_CE4_ERROR, HCQ_FAULT_STREAM, "copy engine error"},
        {NV_MEM_RC_CE5_ERROR, HCQ_FAULT_STREAM, "copy engine error"},
        {NV_MEM_RC_RESET_VERIF_ERROR, HCQ_FAULT_STREAM, "engine was reset"},
        {NV_MEM_RC_GR_FAULT_DURING_CTXSW, HCQ_FAULT_STREAM,
         "error in a context switch"},
        {NV_MEM_RC_PREEMPTIVE_REMOVAL, HCQ_FAULT_STREAM,
         "removed because of another error"},
        {NV_MEM_RC_ECC_DBE, HCQ_FAULT_MEMORY, "memory bit error"},
        {NV_MEM_RC_GR_CLASS_ERROR, HCQ_FAULT_STREAM,
         "bad method or launch descriptor"},
        {NV_MEM_RC_FELL_OFF_BUS, HCQ_FAULT_STREAM, "the card is off the bus"},
        {NV_MEM_RC_CONTAINED_ECC, HCQ_FAULT_MEMORY, "memory bit error"},
        {NV_MEM_RC_UNCONTAINED_ECC, HCQ_FAULT_MEMORY, "memory bit error"},
        {NV_MEM_RC_CTXSW_TIMEOUT, HCQ_FAULT_STREAM, "context switch timed out"},
        {NV_MEM_RC_GSP_RPC_TIMEOUT, HCQ_FAULT_STREAM,
         "the card's firmware does not answer"},
        {NV_MEM_RC_GSP_ERROR, HCQ_FAULT_STREAM, "the card's firmware failed"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(codes); i++) {
        if (codes[i].code == report->code) {
            *out_text = codes[i].text;
            return codes[i].kind;
        }
    }
    *out_text = "error";
    return HCQ_FAULT_STREAM;
}

static const char *
access_name(uint32_t access)
{
    static const char *const names[] = {" (read)", " (write)", " (atomic)"};

    return access < ARRAY_LEN(names) ? names[access] : "";
}

static void
nv_fill_fault(const struct report *report, const char *busy,
              struct hcq_fault *fault)
{
    const char *what, *why;

    assert(report->code);
    memset(fault, 0, sizeof(*fault));
    fault->kind = explain(report, &what);
    why = warp_error(report, &fault->kind);
    fault->va = report->has_va ? report->va : report->pc;
    fault->last_group = report->n_groups ? report->n_groups : UINT64_MAX;
    snprintf(fault->program, sizeof(fault->program), "%s", report->program);
    snprintf(fault->queue, sizeof(fault->queue), "%s",
             report->queue->base.name);
    snprintf(fault->text, sizeof(fault->text), "%s%s", what, why);
    if (report->has_va)
        hcq_fault_add(fault, " at 0x%llx%s", (unsigned long long)report->va,
                      report->has_access ? access_name(report->access) : "");
    if (report->reason[0])
        hcq_fault_add(fault, " (%s)", report->reason);
    if (report->program[0])
        hcq_fault_add(fault, " in '%s'", report->program);
    if (report->has_pc)
        hcq_fault_add(fault, " at 0x%llx", (unsigned long long)report->pc);
    if (report->esr & WARP_ESR_ERROR_MASK)
        hcq_fault_add(fault, ", ESR 0x%x", report->esr & WARP_ESR_ERROR_MASK);
    hcq_fault_add(fault, " on %s, code %u", report->queue->base.name,
                  report->code);
    if (busy[0])
        hcq_fault_add(fault, "; %s", busy);
}

/* Finds out what can be found out; base.lock is held. */
static void
decode_fault(struct nv_device *dev, struct report *report,
             struct hcq_fault *out_fault)
{
    char busy[160] = "";

    if (report->code == NV_MEM_RC_MMU_FAULT)
        ask_mmu(dev, report);
    if (report->queue->channel.debugger) {
        if (report->code == NV_MEM_RC_MMU_FAULT)
            ask_debugger_mmu(dev, report);
        ask_sms(dev, report);
    }
    hcq_ring_describe(&report->queue->base, busy, sizeof(busy));
    find_program(dev, report);
    nv_fill_fault(report, busy, out_fault);
}

void
nv_check_faults(struct nv_device *dev)
{
    struct report report = {0};
    struct hcq_fault fault;
    const char *why;

    if (hcq_device_is_lost(&dev->base))
        return;
    why = kio_broken(dev->kio);
    if (why) {
        hcq_device_set_cut_off(&dev->base, why);
        return;
    }
    pthread_mutex_lock(&dev->base.lock);
    report.queue = find_faulty(dev, &report.code);
    if (report.queue)
        decode_fault(dev, &report, &fault);
    pthread_mutex_unlock(&dev->base.lock);
    if (report.queue)
        hcq_device_set_lost(&dev->base, &fault);
}

void
nv_fault_check(struct hcq_device *base)
{
    nv_check_faults(nv_device_of(base));
}

/* ---- recovery ------------------------------------------------------------ */

void
nv_queue_reset(struct nv_queue *queue)
{
    if (hcq_signal_value(queue->base.timeline) < queue->base.n_submitted &&
        !notifier_code(&queue->channel))
        nv_channel_reset(&queue->channel);
}

/* Ends what all queues do. Recovering excludes all other use, so the list does
 * not change. */
static void
reset_all(struct nv_device *dev)
{
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(&dev->base, NULL); queue;
         queue = hcq_next_queue(&dev->base, queue))
        nv_queue_reset(nv_queue_of(queue));
}

bell_status
nv_fault_stop(struct hcq_device *base)
{
    struct nv_device *dev = nv_device_of(base);
    struct hcq_queue *queue;

    reset_all(dev);
    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        BELL_TRY(nv_channel_rebuild(&nv_queue_of(queue)->channel));
    return BELL_OK;
}

void
nv_fault_end(struct nv_device *dev)
{
    struct hcq_queue *queue;

    reset_all(dev);
    for (queue = hcq_next_queue(&dev->base, NULL); queue;
         queue = hcq_next_queue(&dev->base, queue))
        nv_channel_stop(&nv_queue_of(queue)->channel);
}

void
nv_fault_resume(struct hcq_device *base)
{
    struct hcq_queue *queue;

    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        nv_queue_restart(nv_queue_of(queue));
}
