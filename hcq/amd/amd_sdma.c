/* Words of copy queues: SDMA packets.
 *
 * Fences write 32 bits and polls compare 32: a signal's lower half is written
 * first, so that nobody takes it for a larger value; see amd_pm4.c for waits. A
 * waiter that sees it may go on, and another engine may have written more than
 * that before the upper half is written: close before a multiple of 2^32 that
 * would take back what it wrote. There the lower half is 0 until the upper one
 * is written, and nothing is written behind the awaited value. guess: that no
 * next value is more than 2^24 larger.
 *
 * Engines of gfx10 and later go through the second level of caches: those are
 * written back and invalidated before work that may read what others wrote,
 * and written back before a signal, as ROCr does.
 * src: docs/hardware/amd-queues.md, "Caches".
 *
 * Unproven without a card: that an empty packet between two commands is enough
 * for the second to see what the first wrote. The sources only tell that
 * a fence comes after the copies before it.
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/regs/amd_sdma.h"

#define POLL_INTERVAL 4u
#define POLL_FOREVER  0xfffu
#define ALL_BITS      0xffffffffu
#define MTYPE_SHIFT   16u

/* The address of a poll that asks for a flush instead: of what the host wrote
 * through the card's window. src: docs/hardware/amd-kernel.md, "HDP" */
#define HDP_FLUSH_ADDRESS 0x8000000000000000ull

/* GCR's bits: write-back and invalidation of all that shaders may hold;
 * write-back of the second level and of scalars. src:
 * docs/hardware/amd-queues.md, "Caches" */
#define GCR_ACQUIRE 0xc3c0u
#define GCR_RELEASE 0x8040u

/* ---- small packets ------------------------------------------------------- */

static void
sdma_poll(struct amd_push *push, uint64_t va, enum amd_sdma_function how,
          uint32_t value, uint32_t mask)
{
    uint32_t words[AMD_SDMA_POLL_REGMEM_DW];

    assert(va % 4 == 0);
    amd_pack_sdma_poll_regmem(push->engine->gen,
                              (struct amd_sdma_poll_regmem){
                                  .function = how,
                                  .is_memory = true,
                                  .address = va,
                                  .value = value,
                                  .mask = mask,
                                  .interval = POLL_INTERVAL,
                                  .retry_count = POLL_FOREVER,
                              },
                              words);
    amd_put(push, words, AMD_SDMA_POLL_REGMEM_DW);
}

static void
sdma_wait64(struct amd_push *push, uint64_t va, uint64_t value)
{
    if (value >> 32)
        sdma_poll(push, va + 4, AMD_SDMA_FUNCTION_GREATER_EQUAL,
                  (uint32_t)(value >> 32), ALL_BITS);
    sdma_poll(push, va, AMD_SDMA_FUNCTION_GREATER_EQUAL, (uint32_t)value,
              ALL_BITS);
}

static void
put_fence(struct amd_push *push, uint64_t va, uint32_t value)
{
    uint32_t words[AMD_SDMA_FENCE_DW];

    assert(va % 4 == 0);
    amd_pack_sdma_fence(
        push->engine->gen,
        (struct amd_sdma_fence){
            .mtype = push->engine->dev->gen->sdma_fence_flags >> MTYPE_SHIFT,
            .address = va,
            .data = value,
        },
        words);
    amd_put(push, words, AMD_SDMA_FENCE_DW);
}

static void
sdma_timestamp(struct amd_push *push, uint64_t va)
{
    uint32_t words[AMD_SDMA_TIMESTAMP_GLOBAL_DW];

    assert(va % 8 == 0);
    amd_pack_sdma_timestamp_global(
        push->engine->gen, (struct amd_sdma_timestamp_global){.address = va},
        words);
    amd_put(push, words, AMD_SDMA_TIMESTAMP_GLOBAL_DW);
}

static void
sdma_write(struct amd_push *push, uint64_t va, uint64_t value, uint32_t n_words)
{
    uint32_t words[AMD_SDMA_WRITE_LINEAR_DW + 2];

    assert(va % 4 == 0 && (n_words == 1 || n_words == 2));
    amd_pack_sdma_write_linear(push->engine->gen,
                               (struct amd_sdma_write_linear){
                                   .dst = va,
                                   .count = n_words - 1,
                               },
                               words);
    words[AMD_SDMA_WRITE_LINEAR_DW] = (uint32_t)value;
    words[AMD_SDMA_WRITE_LINEAR_DW + 1] = (uint32_t)(value >> 32);
    amd_put(push, words, AMD_SDMA_WRITE_LINEAR_DW + n_words);
}

static void
put_gcr(struct amd_push *push, uint32_t control)
{
    uint32_t words[AMD_SDMA_GCR_DW];

    if (!push->engine->dev->gen->has_gcr)
        return;
    amd_pack_sdma_gcr(push->engine->gen,
                      (struct amd_sdma_gcr){.control = control}, words);
    amd_put(push, words, AMD_SDMA_GCR_DW);
}

/* Fences come after the copies before them: the engine waits for its own, and
 * clears the word for the next time. */
static void
sdma_idle(struct amd_push *push)
{
    uint64_t va = push->engine->idle_va;

    assert(va);
    put_fence(push, va, 1);
    sdma_poll(push, va, AMD_SDMA_FUNCTION_EQUAL, 1, ALL_BITS);
    put_fence(push, va, 0);
    sdma_poll(push, va, AMD_SDMA_FUNCTION_EQUAL, 0, ALL_BITS);
}

void
amd_sdma_nothing(struct amd_push *push, uint32_t n_dw)
{
    memset(push->at, 0, n_dw * sizeof(push->at[0])); /* NOPs of one word */
    push->at += n_dw;
}

/* The least words of an operation that hcq uses; 0 for others. */
static uint32_t
size_of(uint32_t op)
{
    static const uint8_t sizes[] = {
        [0] = 1, /* as amd_sdma_nothing has it */
        [1] = AMD_SDMA_COPY_LINEAR_DW,
        [2] = AMD_SDMA_WRITE_LINEAR_DW + 1,
        [5] = AMD_SDMA_FENCE_DW,
        [6] = AMD_SDMA_TRAP_DW,
        [8] = AMD_SDMA_POLL_REGMEM_DW,
        [11] = AMD_SDMA_CONST_FILL_DW,
        [13] = AMD_SDMA_TIMESTAMP_GLOBAL_DW,
        [17] = AMD_SDMA_GCR_DW,
    };

    return op < sizeof(sizes) ? sizes[op] : 0;
}

uint32_t
amd_sdma_size(const uint32_t *words)
{
    uint32_t op = words[0] & 0xff;

    assert(size_of(op));
    return op == 2 ? size_of(op) + words[3] : size_of(op);
}

uint32_t
amd_sdma_whole(const uint32_t *words, uint32_t n_dw)
{
    uint32_t at = 0, size;

    while (at < n_dw) {
        size = size_of(words[at] & 0xff);
        if (!size || size > n_dw - at ||
            ((words[at] & 0xff) == 2 && words[at + 3] > n_dw))
            break;
        size = amd_sdma_size(words + at);
        if (size > n_dw - at)
            break;
        at += size;
    }
    return at;
}

/* ---- copies -------------------------------------------------------------- */

static void
sdma_copy(struct amd_push *push, uint64_t dst, uint64_t src, uint64_t n_bytes)
{
    uint32_t words[AMD_SDMA_COPY_LINEAR_DW];
    uint64_t done, n;

    assert(push->engine->max_bytes <= 1u << 22);
    for (done = 0; done < n_bytes; done += n) {
        n = n_bytes - done;
        if (n > push->engine->max_bytes)
            n = push->engine->max_bytes;
        amd_pack_sdma_copy_linear(push->engine->gen,
                                  (struct amd_sdma_copy_linear){
                                      .count = (uint32_t)(n - 1),
                                      .src = src + done,
                                      .dst = dst + done,
                                  },
                                  words);
        amd_put(push, words, AMD_SDMA_COPY_LINEAR_DW);
    }
}

static void
put_const_fill(struct amd_push *push, uint64_t dst, uint32_t value,
               uint64_t n_bytes)
{
    uint32_t words[AMD_SDMA_CONST_FILL_DW];

    assert(n_bytes > 0 && n_bytes % 4 == 0);
    amd_pack_sdma_const_fill(push->engine->gen,
                             (struct amd_sdma_const_fill){
                                 .fill_size = AMD_SDMA_FILL_SIZE_WORD,
                                 .dst = dst,
                                 .data = value,
                                 .count = (uint32_t)(n_bytes - 1),
                             },
                             words);
    amd_put(push, words, AMD_SDMA_CONST_FILL_DW);
}

/* Whole words from the packet, the rest of a word from memory. */
static void
sdma_fill(struct amd_push *push, uint64_t dst, uint32_t pattern,
          uint64_t n_bytes)
{
    uint64_t whole = n_bytes & ~3ull, done, n;

    assert(dst % 4 == 0);
    for (done = 0; done < whole; done += n) {
        n = whole - done;
        if (n > push->engine->max_bytes)
            n = push->engine->max_bytes;
        put_const_fill(push, dst + done, pattern, n);
    }
    memcpy(push->data, &pattern, sizeof(pattern));
    if (whole < n_bytes)
        sdma_copy(push, dst + whole, (uintptr_t)push->data, n_bytes - whole);
    push->data += AMD_UNIT_BYTES;
}

/* ---- packets ------------------------------------------------------------- */

static uint32_t
flush_dw(const struct amd_engine *engine)
{
    return engine->dev->gen->sdma_keeps_hdp ||
                   engine->dev->topology.has_host_memory
               ? 0
               : AMD_SDMA_POLL_REGMEM_DW;
}

void
amd_sdma_begin(struct amd_push *push)
{
    uint32_t words[AMD_SDMA_POLL_REGMEM_DW];

    amd_pack_sdma_poll_regmem(
        push->engine->gen,
        (struct amd_sdma_poll_regmem){.address = HDP_FLUSH_ADDRESS}, words);
    amd_put(push, words, flush_dw(push->engine));
    put_gcr(push, GCR_ACQUIRE);
}

void
amd_sdma_signal(struct amd_push *push, uint64_t va, uint64_t value)
{
    bool is_close = (uint32_t)value >= AMD_BORDER_FROM;

    assert(va % 8 == 0);
    put_gcr(push, GCR_RELEASE);
    put_fence(push, va, is_close ? 0 : (uint32_t)value);
    put_fence(push, va + 4, (uint32_t)(value >> 32));
    if (is_close)
        put_fence(push, va, (uint32_t)value);
    else /* of one size, whatever a patch puts in */
        amd_sdma_nothing(push, AMD_SDMA_FENCE_DW);
}

void
amd_sdma_finish(struct amd_push *push, uint64_t va, uint64_t value)
{
    assert(va % 8 == 0);
    put_gcr(push, GCR_RELEASE);
    if ((uint32_t)value) { /* the upper half is what it was */
        put_fence(push, va + 4, (uint32_t)(value >> 32));
        put_fence(push, va, (uint32_t)value);
    } else {
        put_fence(push, va, 0);
        put_fence(push, va + 4, (uint32_t)(value >> 32));
    }
}

/* src: docs/hardware/amd-kernel.md, "Events" */
void
amd_sdma_wake(struct amd_push *push, uint64_t slot_va, uint32_t event_id)
{
    uint32_t words[AMD_SDMA_TRAP_DW];

    put_fence(push, slot_va, event_id);
    amd_pack_sdma_trap(push->engine->gen,
                       (struct amd_sdma_trap){.int_context = event_id}, words);
    amd_put(push, words, AMD_SDMA_TRAP_DW);
}

uint32_t
amd_sdma_dw(const struct amd_engine *engine, const struct hcq_packet *packet,
            uint32_t n_copies)
{
    uint32_t gcr = engine->dev->gen->has_gcr ? AMD_SDMA_GCR_DW : 0;
    uint32_t acquire = flush_dw(engine) + gcr;

    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        return 2 * AMD_SDMA_POLL_REGMEM_DW + acquire;
    case HCQ_OP_SIGNAL:
        return gcr + 3 * AMD_SDMA_FENCE_DW;
    case HCQ_OP_TIMESTAMP:
        return AMD_SDMA_TIMESTAMP_GLOBAL_DW;
    case HCQ_OP_BARRIER:
        return 2 * (AMD_SDMA_FENCE_DW + AMD_SDMA_POLL_REGMEM_DW) + acquire;
    case HCQ_OP_COPY:
        return 1 + n_copies * AMD_SDMA_COPY_LINEAR_DW;
    case HCQ_OP_FILL:
        return 1 + n_copies * AMD_SDMA_CONST_FILL_DW + AMD_SDMA_COPY_LINEAR_DW;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        return 1 + AMD_SDMA_WRITE_LINEAR_DW + 2;
    case HCQ_OP_POLL:
        return AMD_SDMA_POLL_REGMEM_DW + acquire;
    case HCQ_OP_WORDS:
        return (uint32_t)packet->word[0];
    case HCQ_OP_EXEC: /* the common layer refuses it */
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        return 0;
    }
}

void
amd_sdma_packet(struct amd_push *push, const struct hcq_packet *packet)
{
    const uint64_t *word = packet->word;
    const uint32_t *words;
    uint32_t n_words;

    assert(packet->head.op != HCQ_OP_EXEC);
    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        sdma_wait64(push, word[0], word[1]);
        amd_sdma_begin(push);
        break;
    case HCQ_OP_SIGNAL:
        amd_sdma_signal(push, word[0], word[1]);
        break;
    case HCQ_OP_TIMESTAMP:
        sdma_timestamp(push, word[0] + 8);
        break;
    case HCQ_OP_BARRIER:
        sdma_idle(push);
        amd_sdma_begin(push);
        break;
    case HCQ_OP_COPY:
        amd_sdma_nothing(push, 1);
        sdma_copy(push, word[0], word[1], word[2]);
        break;
    case HCQ_OP_FILL:
        amd_sdma_nothing(push, 1);
        sdma_fill(push, word[0], (uint32_t)word[1], word[2]);
        break;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        amd_sdma_nothing(push, 1);
        sdma_write(push, word[0], word[1],
                   packet->head.op == HCQ_OP_WRITE32 ? 1 : 2);
        break;
    case HCQ_OP_POLL:
        sdma_poll(push, word[0], AMD_SDMA_FUNCTION_EQUAL, (uint32_t)word[2],
                  (uint32_t)word[1]);
        amd_sdma_begin(push);
        break;
    case HCQ_OP_WORDS:
        words = hcq_packet_words(packet, &n_words);
        amd_put(push, words, n_words);
        break;
    case HCQ_OP_EXEC:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        break;
    }
}
