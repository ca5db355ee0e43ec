/* See hcq_slot.h. */
#include "hcq/hcq_slot.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

void
hcq_futex_wait(void *word, uint32_t seen, uint64_t max_ns)
{
    struct timespec time = {
        .tv_sec = (time_t)(max_ns / 1000000000u),
        .tv_nsec = (long)(max_ns % 1000000000u),
    };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen,
            max_ns == UINT64_MAX ? NULL : &time, NULL, 0);
}

void
hcq_futex_wake(void *word, int n_threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n_threads, NULL, NULL, 0);
}

void
hcq_nap(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)ns};

    assert(ns < 1000000000u);
    nanosleep(&time, NULL);
}

/* The low half of the value, as a futex word. */
static void *
slot_word(struct hcq_slot *slot)
{
    return (unsigned char *)&slot->value +
           (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0);
}

void
hcq_slot_wake(struct hcq_slot *slot)
{
    /* The waiter counts itself and then looks at the value; the caller has
     * stored the value, sequentially consistent, and we look at the count. */
    if (__atomic_load_n(&slot->n_waiters, __ATOMIC_SEQ_CST))
        hcq_futex_wake(slot_word(slot), INT_MAX);
}

void
hcq_slot_sleep(struct hcq_slot *slot, uint64_t seen, uint64_t max_ns)
{
    __atomic_fetch_add(&slot->n_waiters, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&slot->value, __ATOMIC_SEQ_CST) == seen)
        hcq_futex_wait(slot_word(slot), (uint32_t)seen, max_ns);
    __atomic_fetch_sub(&slot->n_waiters, 1, __ATOMIC_SEQ_CST);
}

bell_status
hcq_slot_alloc(struct hcq_device *dev, uint64_t *out_va, uint64_t **out_host)
{
    struct hcq_slot *slot = host_aligned(64, sizeof(*slot));

    if (!slot)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a signal",
                         dev->info.name);
    memset(slot, 0, sizeof(*slot));
    *out_va = (uint64_t)(uintptr_t)slot;
    *out_host = &slot->value;
    return BELL_OK;
}

static struct hcq_slot *
get_slot(const struct hcq_signal *sig)
{
    return (struct hcq_slot *)(uintptr_t)sig->va;
}

void
hcq_slot_free(struct hcq_device *dev, struct hcq_signal *sig)
{
    (void)dev;
    host_free(get_slot(sig));
}

void
hcq_slot_signal_wake(struct hcq_signal *sig)
{
    hcq_slot_wake(get_slot(sig));
}

void
hcq_slot_signal_sleep(struct hcq_signal *sig, uint64_t seen, uint64_t max_ns)
{
    hcq_slot_sleep(get_slot(sig), seen, max_ns);
}

bell_status
hcq_slot_map(struct hcq_device *dev, const struct hcq_signal *sig,
             uint64_t *out_va)
{
    if (sig->dev->ops->signal_map != hcq_slot_map)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a signal of %s",
                         dev->info.name, sig->dev->info.name);
    *out_va = sig->va;
    return BELL_OK;
}
