/* Orders between the host's memory accesses and those of a device. C11's
 * orders hold among processors alone: those of AArch64 reach the inner
 * shareable domain, and a card is an observer outside it. Not for the layers
 * above.
 *
 * src: Linux 6.12, arch/arm64/include/asm/barrier.h (wmb, dma_wmb, dma_rmb, mb)
 * and io.h (__io_ar); rdma-core, util/udma_barrier.h: the same from userspace.
 * x86: Intel 64 and IA-32 Software Developer's Manual, volume 3, memory
 * ordering.
 */
#ifndef BELL_HCQ_HCQ_ORDER_H
#define BELL_HCQ_HCQ_ORDER_H

/* Writes through the card's window are on their way when this returns, before
 * what is stored next: write-combined stores wait in the CPU until then, and a
 * doorbell is another kind of memory. On AArch64 a read that follows does not
 * find a store of before in the CPU. */
static inline void
hcq_flush_writes(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#elif defined(__aarch64__)
    __asm__ volatile("dsb st" : : : "memory");
#else
    __sync_synchronize();
#endif
}

/* A device that sees the next stores sees the earlier ones, both in memory. x86
 * keeps that order. */
static inline void
hcq_order_writes(void)
{
#if defined(__aarch64__)
    __asm__ volatile("dmb oshst" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* The next loads are not older than the earlier ones, also where a device
 * stored both. x86 keeps that order. */
static inline void
hcq_order_reads(void)
{
#if defined(__aarch64__)
    __asm__ volatile("dmb oshld" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Everything before, also loads, is done before what follows. */
static inline void
hcq_order_all(void)
{
#if defined(__aarch64__)
    __asm__ volatile("dsb sy" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
