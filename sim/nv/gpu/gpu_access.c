/* What engines do with memory: reads, writes and semaphores, through the page
 * tables. Words that others wait for are written and read atomically. */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <string.h>

/* ---- plain ---- */

bool
nvgpu_read(struct nvgpu_chan *chan, uint64_t va, void *out, uint64_t bytes,
           const char *who)
{
    uint8_t *to = out;

    assert(out && who);
    while (bytes > 0) {
        uint64_t n;
        const void *from = nvgpu_span(chan, va, false, &n);

        if (!from)
            return nvgpu_fail_mmu(chan, va, NVGPU_READ, who);
        n = n < bytes ? n : bytes;
        memcpy(to, from, n);
        nvgpu_count_data(chan, va, n, false, false);
        to += n;
        va += n;
        bytes -= n;
    }
    return true;
}

bool
nvgpu_write(struct nvgpu_chan *chan, uint64_t va, const void *data,
            uint64_t bytes, const char *who)
{
    const uint8_t *from = data;

    assert(data && who);
    while (bytes > 0) {
        uint64_t n;
        void *to = nvgpu_span(chan, va, true, &n);

        if (!to)
            return nvgpu_fail_mmu(chan, va, NVGPU_WRITE, who);
        n = n < bytes ? n : bytes;
        memcpy(to, from, n);
        nvgpu_count_data(chan, va, n, true, false);
        chan->last_written = (uint8_t *)to + n - 1;
        from += n;
        va += n;
        bytes -= n;
    }
    return true;
}

/* Behind a kernel or a copy: memory that is not as good as it should be. */
void
nvgpu_decay(struct nvgpu_chan *chan)
{
    uint32_t every = chan->gpu->chip->flip_every, n;

    if (!every || !chan->last_written)
        return;
    n = atomic_fetch_add(&chan->gpu->n_writers, 1) + 1;
    if (n % every == 0)
        *chan->last_written ^= (uint8_t)(1u << n / every % 8);
}

/* ---- words ---- */

bool
nvgpu_load_word(struct nvgpu_chan *chan, uint64_t va, uint32_t n_bytes,
                uint64_t *out_value, const char *who)
{
    uint64_t n;
    void *at = nvgpu_span(chan, va, false, &n);

    assert(n_bytes == 4 || n_bytes == 8);
    if (!at)
        return nvgpu_fail_mmu(chan, va, NVGPU_READ, who);
    if (n_bytes == 8)
        *out_value =
            atomic_load_explicit((_Atomic uint64_t *)at, memory_order_acquire);
    else
        *out_value =
            atomic_load_explicit((_Atomic uint32_t *)at, memory_order_acquire);
    return true;
}

/* INC: old >= limit ? 0 : old + 1; DEC: old == 0 or above ? limit : old - 1,
 * as CUDA's atomicInc and atomicDec. guess: hosts do the same. */
static uint64_t
reduce(const struct nvgpu_sem *sem, uint64_t old)
{
    unsigned shift = 64 - 8 * sem->n_bytes;
    uint64_t b = sem->payload << shift >> shift;
    bool less = sem->is_signed ? (int64_t)(old << shift) < (int64_t)(b << shift)
                               : old < b;

    assert(sem->n_bytes == 4 || sem->n_bytes == 8);
    switch (sem->op) {
    case NVGPU_RED_MIN:
        return less ? old : b;
    case NVGPU_RED_MAX:
        return less ? b : old;
    case NVGPU_RED_XOR:
        return old ^ b;
    case NVGPU_RED_AND:
        return old & b;
    case NVGPU_RED_OR:
        return old | b;
    case NVGPU_RED_ADD:
        return old + b;
    case NVGPU_RED_INC:
        return old >= b ? 0 : old + 1;
    case NVGPU_RED_DEC:
        return old == 0 || old > b ? b : old - 1;
    case NVGPU_RED_COUNT:
        break;
    }
    return old;
}

static void
store_word(const struct nvgpu_sem *sem, void *at)
{
    assert((uintptr_t)at % sem->n_bytes == 0);
    if (sem->n_bytes == 8) {
        _Atomic uint64_t *word = at;
        uint64_t old = atomic_load(word);
        if (!sem->reduction)
            atomic_store(word, sem->payload);
        while (sem->reduction &&
               !atomic_compare_exchange_weak(word, &old, reduce(sem, old)))
            ;
    } else {
        _Atomic uint32_t *word = at;
        uint32_t old = atomic_load(word);
        if (!sem->reduction)
            atomic_store(word, (uint32_t)sem->payload);
        while (sem->reduction && !atomic_compare_exchange_weak(
                                     word, &old, (uint32_t)reduce(sem, old)))
            ;
    }
}

bool
nvgpu_sem_write(struct nvgpu_chan *chan, const struct nvgpu_sem *sem,
                uint32_t code, const char *who)
{
    uint32_t align = sem->timestamp ? 16 : sem->n_bytes;
    uint64_t n;
    uint8_t *at;

    assert(sem->n_bytes == 4 || sem->n_bytes == 8);
    if (sem->va & (align - 1))
        return nvgpu_fail(chan, code,
                          "%s: the semaphore at 0x%llx is not a multiple of %u",
                          who, (unsigned long long)sem->va, align);
    at = nvgpu_span(chan, sem->va, true, &n);
    if (!at)
        return nvgpu_fail_mmu(chan, sem->va,
                              sem->reduction ? NVGPU_ATOMIC : NVGPU_WRITE, who);
    if (sem->timestamp) {
        if (sem->n_bytes == 4)
            atomic_store((_Atomic uint32_t *)(void *)(at + 4), 0);
        atomic_store((_Atomic uint64_t *)(void *)(at + 8),
                     nvgpu_time_ns(chan->gpu));
    }
    store_word(sem, at);
    return true;
}

enum nvgpu_reduction
nvgpu_class_reduction(uint32_t op)
{
    /* src: open-gpu-doc, clc6c0.h, SET_REPORT_SEMAPHORE_D_REDUCTION_OP */
    static const enum nvgpu_reduction ops[8] = {
        NVGPU_RED_ADD, NVGPU_RED_MIN, NVGPU_RED_MAX, NVGPU_RED_INC,
        NVGPU_RED_DEC, NVGPU_RED_AND, NVGPU_RED_OR,  NVGPU_RED_XOR,
    };

    return ops[op & 7];
}
