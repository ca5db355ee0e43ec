/* Selftest: what goes wrong is reported, and the device works again. */
#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "tools/selftest/selftest.h"

/* Below 2^40, in the range that the driver gives out, from the other end. */
#define NOWHERE_VA 0xff00000000ull
/* How long a kernel that never ends is waited for. */
#define HANG_NS 200000000ull
/* What queues may take to come and go: far less than the 9 s after which the
 * kernel driver gives up. */
#define YIELD_NS 2000000000ull

/* Submits one launch of a single thread. */
static bell_status
start(struct selftest *st, struct hcq_program *prog, uint64_t arg0,
      uint64_t arg1)
{
    const uint64_t args[2] = {arg0, arg1};
    const uint32_t one[3] = {1, 1, 1};
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(st->compute, &cs));
    hcq_cs_exec(cs, prog, args, prog->n_bufs + prog->n_vals, one, one);
    return hcq_cs_submit(cs, NULL);
}

/* Where the kernel's driver runs nothing more of a process that faulted, that
 * has to be said at once; else a kernel runs again. */
static enum selftest_verdict
recover_or_end(struct selftest *st)
{
    bell_status status = hcq_device_recover(st->dev);

    if (status == BELL_OK)
        return selftest_check_alive(st);
    if (status != BELL_E_DEVICE_LOST)
        return selftest_error(st);
    selftest_note(st, "recover: %s", bell_error_last()->message);
    return SELFTEST_PASSED;
}

/* What was just submitted faults: says so with the kernel and the address, if
 * these are given, and of memory if it is to; after recovery a kernel runs. */
static enum selftest_verdict
expect_fault(struct selftest *st, struct hcq_queue *queue, const char *kernel,
             bool of_memory, uint64_t va)
{
    struct hcq_fault fault;
    bell_status status = hcq_queue_wait(queue, SELFTEST_WAIT_NS);

    if (status != BELL_E_DEVICE_LOST)
        return selftest_fail(
            st, "the wait gave '%s'%s%s, no fault", bell_status_name(status),
            status == BELL_OK ? "" : ": ",
            status == BELL_OK ? "" : bell_error_last()->message);
    hcq_device_fault(st->dev, &fault);
    selftest_note(st, "%s", fault.text);
    if ((of_memory && fault.kind != HCQ_FAULT_MEMORY) ||
        (kernel && strcmp(fault.program, kernel) != 0) ||
        (va && fault.va != va))
        return selftest_fail(
            st, "fault of kind %d at 0x%" PRIx64 " in '%s': %s",
            (int)fault.kind, fault.va, fault.program, fault.text);
    if (strcmp(st->backend, "AMD") == 0 && of_memory)
        return recover_or_end(st);
    ST_OK(hcq_device_recover(st->dev));
    return selftest_check_alive(st);
}

static enum selftest_verdict
bad_store(struct selftest *st)
{
    struct hcq_program *prog;

    ST_OK(selftest_need_kernel(st, SELFTEST_STORE, &prog));
    selftest_sent(st, "st_store to 0x%llx, where nothing is mapped",
                  NOWHERE_VA);
    ST_OK(start(st, prog, NOWHERE_VA, 1));
    return expect_fault(st, st->compute, "st_store", true, NOWHERE_VA);
}

static enum selftest_verdict
bad_load(struct selftest *st)
{
    struct hcq_program *prog;
    struct hcq_buffer *buf;

    ST_OK(selftest_need_kernel(st, SELFTEST_LOAD, &prog));
    ST_OK(selftest_buffer(st, 64, 0, &buf));
    selftest_sent(st, "st_load from 0x%llx, where nothing is mapped",
                  NOWHERE_VA);
    ST_OK(start(st, prog, buf->va, NOWHERE_VA));
    return expect_fault(st, st->compute, "st_load", true, NOWHERE_VA);
}

static enum selftest_verdict
misaligned(struct selftest *st)
{
    struct hcq_program *prog;
    struct hcq_buffer *buf;

    ST_OK(selftest_need_kernel(st, SELFTEST_LOAD, &prog));
    ST_OK(selftest_buffer(st, 64, 0, &buf));
    selftest_sent(st, "st_load of 8 bytes from 0x%" PRIx64, buf->va + 4);
    ST_OK(start(st, prog, buf->va, buf->va + 4));
    return expect_fault(st, st->compute, "st_load", false, 0);
}

static enum selftest_verdict
bad_copy_on(struct selftest *st, struct hcq_queue *queue,
            const struct hcq_buffer *buf, uint64_t va)
{
    struct hcq_cs *cs;

    selftest_sent(st, "a copy of %llu bytes to 0x%llx, on %s",
                  (unsigned long long)buf->size_bytes, (unsigned long long)va,
                  hcq_queue_name(queue));
    ST_OK(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, va, buf->va, buf->size_bytes);
    ST_OK(hcq_cs_submit(cs, NULL));
    return expect_fault(st, queue, NULL, true, 0);
}

static enum selftest_verdict
bad_copy(struct selftest *st)
{
    struct hcq_buffer *buf;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, 4096, 0, &buf));
    return bad_copy_on(st, st->copy, buf, NOWHERE_VA);
}

/* As much as may be a kernel's, by a compute queue, to an address beside those
 * of the card's memory. */
static enum selftest_verdict
bad_large_copy(struct selftest *st)
{
    struct hcq_buffer *buf;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_buffer(st, 1u << 20, 0, &buf));
    return bad_copy_on(st, st->compute, buf, buf->va + (48ull << 30));
}

/* A kernel that never ends: the wait ends in time and says what runs. */
static enum selftest_verdict
hung_kernel(struct selftest *st)
{
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    const char *report;
    bell_status status;
    uint32_t zero = 0;

    ST_OK(selftest_need_kernel(st, SELFTEST_SPIN, &prog));
    ST_OK(selftest_buffer(st, 64, 0, &buf));
    ST_OK(hcq_buffer_write(buf, 0, &zero, 4));
    selftest_sent(st, "st_spin, which waits for a word that nobody writes");
    ST_OK(start(st, prog, buf->va, 0));
    status = hcq_queue_wait(st->compute, HANG_NS);
    report = bell_error_last()->message;
    if (status != BELL_E_TIMEOUT)
        return selftest_fail(st, "the wait gave '%s', not a timeout",
                             bell_status_name(status));
    selftest_note(st, "%s", report);
    if (!strstr(report, "st_spin"))
        return selftest_fail(st, "the report does not name the kernel: %s",
                             report);
    ST_OK(hcq_device_recover(st->dev));
    return selftest_check_alive(st);
}

/* A kernel that the host lets go on: a timeout is not the end. */
static enum selftest_verdict
slow_kernel(struct selftest *st)
{
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    bell_status status;
    uint32_t word = 0;

    ST_OK(selftest_need_kernel(st, SELFTEST_SPIN, &prog));
    ST_OK(selftest_buffer(st, 64, HCQ_MEM_HOST_VISIBLE, &buf));
    ST_OK(hcq_buffer_write(buf, 0, &word, 4));
    selftest_sent(st, "st_spin, let go by the host after a timeout");
    ST_OK(start(st, prog, buf->va, 0));
    status = hcq_queue_wait(st->compute, HANG_NS / 4);
    if (status != BELL_E_TIMEOUT)
        return selftest_fail(st, "the wait gave '%s', not a timeout",
                             bell_status_name(status));
    word = 1;
    ST_OK(hcq_buffer_write(buf, 0, &word, 4));
    ST_OK(hcq_queue_wait(st->compute, SELFTEST_WAIT_NS));
    return selftest_check_alive(st);
}

/* Queues come and go while another one waits for a word: where the kernel
 * driver has to take that off the hardware for it, and cannot, it resets the
 * card after seconds. */
static enum selftest_verdict
waits_yield(struct selftest *st)
{
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    uint64_t start_ns, took_ns;

    ST_OK(selftest_need_device(st));
    ST_OK(selftest_signal(st, 0, &sig));
    ST_OK(hcq_queue_begin(st->compute, &cs));
    hcq_cs_wait(cs, sig, 1);
    ST_OK(hcq_cs_submit(cs, NULL));
    if (hcq_queue_wait(st->compute, HANG_NS / 4) != BELL_E_TIMEOUT)
        return selftest_fail(st, "the queue did not wait");
    selftest_sent(st, "%s waits for a word; a queue is created and destroyed",
                  hcq_queue_name(st->compute));
    start_ns = time_now_ns();
    ST_OK(hcq_queue_create(st->dev, HCQ_QUEUE_COMPUTE, &queue));
    hcq_queue_destroy(queue);
    took_ns = time_now_ns() - start_ns;
    selftest_note(st, "that took %.3f ms", (double)took_ns / 1e6);
    ST_OK(hcq_device_status(st->dev));
    hcq_signal_set(sig, 1);
    ST_OK(hcq_queue_wait(st->compute, SELFTEST_WAIT_NS));
    if (took_ns > YIELD_NS)
        return selftest_fail(st, "that took %.1f s", (double)took_ns / 1e9);
    return selftest_check_alive(st);
}

#define LOOK_FAULT                                                             \
    "the notifier's record, NV906F_CTRL_CMD_GET_MMU_FAULT_INFO, the "          \
    "debugger object; the channel that is built anew; dmesg: Xid"

const struct selftest_step selftest_fault_steps[] = {
    {"slow-kernel", SELFTEST_CARD | SELFTEST_SLOW,
     "a wait that times out can be waited for again",
     "stores of the host that a running kernel has to see", slow_kernel},
    {"bad-store", SELFTEST_CARD | SELFTEST_SLOW | SELFTEST_APART,
     "a store to nowhere is reported with address and kernel; the device "
     "recovers, or says that it cannot",
     LOOK_FAULT, bad_store},
    {"bad-load", SELFTEST_CARD | SELFTEST_SLOW | SELFTEST_APART,
     "a load from nowhere is reported with address and kernel; the device "
     "recovers, or says that it cannot",
     LOOK_FAULT, bad_load},
    {"misaligned", SELFTEST_PTX | SELFTEST_SLOW,
     "a misaligned load is reported with the kernel; the device recovers",
     LOOK_FAULT, misaligned},
    {"bad-copy", SELFTEST_CARD | SELFTEST_SLOW | SELFTEST_APART,
     "a copy to nowhere is reported; the device recovers, or says that it "
     "cannot",
     LOOK_FAULT, bad_copy},
    {"bad-large-copy", SELFTEST_CARD | SELFTEST_SLOW | SELFTEST_APART,
     "a large copy to nowhere is reported; the device recovers, or says that "
     "it cannot",
     LOOK_FAULT, bad_large_copy},
    {"hung-kernel", SELFTEST_CARD | SELFTEST_SLOW | SELFTEST_APART,
     "a kernel that never ends is reported in time; the device recovers",
     "freeing a group whose channel runs; a kernel blocks it until the "
     "driver resets the engine",
     hung_kernel},
    {"waits-yield", SELFTEST_AMD | SELFTEST_APART | SELFTEST_ASKED,
     "a queue that waits is preempted where others come and go",
     "dmesg | grep amdgpu: a reset; then once more with "
     "BELL_AMD_WAIT=preemptable",
     waits_yield},
    {NULL, 0, NULL, NULL, NULL},
};
