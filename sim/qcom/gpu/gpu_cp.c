/* The command processor of the simulated Adreno.
 *
 * src: docs/hardware/adreno-queues.md, "Packets", "Completion"; Mesa 25.0,
 * adreno_pm4.xml
 */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "sim/qcom/gpu/gpu_internal.h"

#define CP_NOP                   0x10u
#define CP_WAIT_MEM_WRITES       0x12u
#define CP_WAIT_FOR_ME           0x13u
#define CP_WAIT_MEM_GTE          0x14u
#define CP_THREAD_CONTROL        0x17u
#define CP_WAIT_FOR_IDLE         0x26u
#define CP_RUN_OPENCL            0x31u
#define CP_EXEC_CS               0x33u
#define CP_LOAD_STATE6_FRAG      0x34u
#define CP_LOAD_STATE6           0x36u
#define CP_CCHE_INVALIDATE       0x3au
#define CP_WAIT_REG_MEM          0x3cu
#define CP_MEM_WRITE             0x3du
#define CP_REG_TO_MEM            0x3eu
#define CP_INDIRECT_BUFFER       0x3fu
#define CP_EXEC_CS_INDIRECT      0x41u
#define CP_MEM_TO_REG            0x42u
#define CP_EVENT_WRITE           0x46u
#define CP_INDIRECT_BUFFER_CHAIN 0x57u
#define CP_SET_MARKER            0x65u
#define CP_MEM_TO_MEM            0x73u

#define EVENT_CACHE_FLUSH_TS 4u
#define EVENT_RB_DONE_TS     22u
#define EVENT_6_INVALIDATE   49u
#define EVENT_7_CLEAN        49u
#define EVENT_7_FLUSH        50u
#define EVENT_7_INVALIDATE   51u
#define EVENT_LABEL          63u
#define REG_ALWAYS_ON        0x0980u
#define STATE_OF_CS          (1u << 5)
#define MAX_DEPTH            3u
#define MODE_COMPUTE         8u

struct packet {
    uint64_t va;
    uint32_t op, n;
    const uint32_t *p; /* n words */
};

static bool
is_a7xx(const struct qsim *gpu)
{
    return gpu->chip->gen == SHADER_A7XX;
}

static uint32_t
odd_parity(uint32_t v)
{
    return !(__builtin_popcount(v) & 1);
}

static uint64_t
pair(const uint32_t *p)
{
    return (uint64_t)p[1] << 32 | p[0];
}

static bool
bad_packet(struct qsim *gpu, const struct packet *pk, const char *what)
{
    return qsim_fail(gpu, QSIM_BAD_STREAM, "opcode 0x%02x of %u words: %s",
                     pk->op, pk->n, what);
}

static bool
needs_words(struct qsim *gpu, const struct packet *pk, uint32_t n)
{
    return pk->n == n || bad_packet(gpu, pk, "a wrong count");
}

static bool
is_aligned(struct qsim *gpu, const struct packet *pk, uint64_t va,
           uint32_t align)
{
    return va % align == 0 || bad_packet(gpu, pk, "an address not aligned");
}

/* ---- registers ---- */

static bool
write_register(struct qsim *gpu, uint32_t reg, uint32_t value)
{
    struct qsim_state *s = gpu->state;
    uint32_t invalidate = is_a7xx(gpu) ? 0xab1f : 0xbb08;

    if (!qsim_may_write(gpu->chip, reg))
        return qsim_fail(gpu, QSIM_BAD_STREAM,
                         "register 0x%04x is protected, or is none", reg);
    s->regs[reg] = value;
    s->written[reg / 8] |= (uint8_t)(1u << (reg & 7));
    if (reg == invalidate && (value & STATE_OF_CS)) {
        s->has_state = true;
        s->code_va = 0;
        memset(s->consts_set, 0, sizeof(s->consts_set));
        memset(s->ubos, 0, sizeof(s->ubos));
    }
    return true;
}

static bool
read_register(struct qsim *gpu, uint32_t reg, uint32_t *out)
{
    uint64_t now = qsim_clock();

    if (reg == REG_ALWAYS_ON || reg == REG_ALWAYS_ON + 1)
        *out = (uint32_t)(reg == REG_ALWAYS_ON ? now : now >> 32);
    else if (reg < QSIM_N_REGS && qsim_was_written(gpu->state, reg))
        *out = gpu->state->regs[reg];
    else
        return qsim_fail(gpu, QSIM_BAD_STREAM,
                         "register 0x%04x is read and was not written", reg);
    return true;
}

/* ---- memory ---- */

static bool
write_words(struct qsim *gpu, const struct packet *pk)
{
    uint64_t va = pair(pk->p);
    uint32_t n;

    if (pk->n < 3)
        return bad_packet(gpu, pk, "a wrong count");
    if (!is_aligned(gpu, pk, va, 4))
        return false;
    n = pk->n - 2;
    if (n == 2 && va % 8 == 0)
        return qsim_write(gpu, va, pk->p + 2, 8);
    return qsim_write(gpu, va, pk->p + 2, n * 4);
}

static bool
register_to_memory(struct qsim *gpu, const struct packet *pk)
{
    uint32_t reg, n, values[64], i;
    uint64_t va;

    if (!needs_words(gpu, pk, 3))
        return false;
    reg = pk->p[0] & 0x3ffff;
    n = pk->p[0] >> 18 & 0xfff;
    va = pair(pk->p + 1);
    if (n == 0)
        n = 1;
    if (pk->p[0] >> 31 || n > ARRAY_LEN(values) ||
        ((pk->p[0] >> 30 & 1) && n % 2))
        return bad_packet(gpu, pk, "fields that are not known here");
    if (!is_aligned(gpu, pk, va, pk->p[0] >> 30 & 1 ? 8 : 4))
        return false;
    for (i = 0; i < n; i++) {
        if (!read_register(gpu, reg + i, &values[i]))
            return false;
    }
    if (reg == REG_ALWAYS_ON && n == 2) {
        uint64_t now = qsim_clock();
        return qsim_write(gpu, va, &now, 8);
    }
    return qsim_write(gpu, va, values, n * 4);
}

static bool
memory_to_register(struct qsim *gpu, const struct packet *pk)
{
    uint32_t n, i, value;
    uint64_t va;

    if (!needs_words(gpu, pk, 3))
        return false;
    n = pk->p[0] >> 19 & 0x7ff;
    va = pair(pk->p + 1);
    if (pk->p[0] >> 30 || !is_aligned(gpu, pk, va, 4))
        return bad_packet(gpu, pk, "fields that are not known here");
    for (i = 0; i < n; i++) {
        if (!qsim_read(gpu, va + 4 * i, &value, 4) ||
            !write_register(gpu, (pk->p[0] & 0x3ffff) + i, value))
            return false;
    }
    return true;
}

static bool
memory_to_memory(struct qsim *gpu, const struct packet *pk)
{
    bool is_double = pk->n && (pk->p[0] >> 29 & 1);
    uint32_t n_bytes = is_double ? 8 : 4, i;
    uint64_t sum = 0, value;

    if (pk->n < 5 || pk->n > 9 || pk->n % 2 == 0)
        return bad_packet(gpu, pk, "a wrong count");
    if (pk->p[0] & 0x9ffffff8u)
        return bad_packet(gpu, pk, "fields that are not known here");
    for (i = 0; i < (pk->n - 3) / 2; i++) {
        value = 0;
        if (!is_aligned(gpu, pk, pair(pk->p + 3 + 2 * i), n_bytes) ||
            !qsim_read(gpu, pair(pk->p + 3 + 2 * i), &value, n_bytes))
            return false;
        sum += pk->p[0] >> i & 1 ? 0 - value : value;
    }
    return is_aligned(gpu, pk, pair(pk->p + 1), n_bytes) &&
           qsim_write(gpu, pair(pk->p + 1), &sum, n_bytes);
}

/* ---- waits ---- */

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool
holds(uint32_t func, uint32_t value, uint32_t ref)
{
    switch (func) {
    case 0:
        return true;
    case 1:
        return value < ref;
    case 2:
        return value <= ref;
    case 3:
        return value == ref;
    case 4:
        return value != ref;
    case 5:
        return value >= ref;
    default:
        return value > ref;
    }
}

/* Until a word of memory, or a register, compares so; too long is a hang. */
static bool
poll_word(struct qsim *gpu, bool in_memory, uint64_t at, uint32_t func,
          uint32_t ref, uint32_t mask)
{
    const struct timespec pause = {0, 20000};
    uint64_t end = now_ns() + QSIM_HANG_NS;
    uint32_t value, i;

    for (i = 0;; i++) {
        if (in_memory ? !qsim_read(gpu, at, &value, 4)
                      : !read_register(gpu, (uint32_t)at, &value))
            return false;
        if (holds(func, value & mask, ref))
            return true;
        if (atomic_load(&gpu->stop) || now_ns() > end)
            return qsim_fail(gpu, QSIM_HANG,
                             "waits for 0x%llx, which is 0x%x and not 0x%x",
                             (unsigned long long)at, value & mask, ref);
        qsim_memory_unlock(gpu);
        if (i > 100)
            nanosleep(&pause, NULL);
        qsim_memory_lock(gpu);
    }
}

static bool
wait_word(struct qsim *gpu, const struct packet *pk)
{
    uint32_t dw = pk->p[0], poll;

    if (!needs_words(gpu, pk, 6))
        return false;
    poll = dw >> 4 & 3;
    if ((dw & ~0x37u) || (dw & 7) == 7 || poll > 1)
        return bad_packet(gpu, pk, "fields that are not known here");
    if (!is_aligned(gpu, pk, pair(pk->p + 1), poll ? 4 : 1))
        return false;
    return poll_word(gpu, poll == 1, pair(pk->p + 1), dw & 7, pk->p[3],
                     pk->p[4]);
}

/* ---- events ---- */

static bool
event_6(struct qsim *gpu, const struct packet *pk)
{
    struct qsim_space *space = gpu->batch->space;
    uint32_t dw, event;
    uint64_t now;

    if (pk->n != 1 && pk->n != 4)
        return bad_packet(gpu, pk, "a wrong count");
    dw = pk->p[0];
    event = dw & 0xff;
    if (dw & ~0x400000ffu)
        return bad_packet(gpu, pk, "fields that are not a user's");
    if ((event == EVENT_CACHE_FLUSH_TS || event == EVENT_RB_DONE_TS) !=
        (pk->n == 4))
        return bad_packet(gpu, pk, "an event with, or without, an address");
    switch (event) {
    case EVENT_CACHE_FLUSH_TS:
        qsim_flush(space);
        break;
    case EVENT_6_INVALIDATE:
        qsim_invalidate(space);
        break;
    case EVENT_LABEL:
        gpu->state->has_label = true;
        break;
    case EVENT_RB_DONE_TS:
    case 0x18: /* of the colour and depth caches */
    case 0x19:
    case 0x1c:
    case 0x1d:
        break;
    default:
        return bad_packet(gpu, pk, "an event that is not known");
    }
    if (pk->n == 1)
        return true;
    if (dw >> 30 & 1) {
        now = qsim_clock();
        return is_aligned(gpu, pk, pair(pk->p + 1), 8) &&
               qsim_write(gpu, pair(pk->p + 1), &now, 8);
    }
    return is_aligned(gpu, pk, pair(pk->p + 1), 4) &&
           qsim_write(gpu, pair(pk->p + 1), pk->p + 3, 4);
}

static bool
event_7(struct qsim *gpu, const struct packet *pk)
{
    /* words with an address, by what is written */
    static const uint32_t counts[] = {4, 5, 0, 3};
    struct qsim_space *space = gpu->batch->space;
    uint32_t dw, src;
    bool writes;
    uint64_t va, now;

    if (pk->n == 0)
        return bad_packet(gpu, pk, "a wrong count");
    dw = pk->p[0];
    src = dw >> 20 & 7;
    writes = dw >> 27 & 1;
    if (dw & ~0x087000ffu)
        return bad_packet(gpu, pk, "fields that are not a user's");
    if (writes ? src >= ARRAY_LEN(counts) || pk->n != counts[src]
               : pk->n != 1 || src)
        return bad_packet(gpu, pk, "a wrong count for what it writes");
    switch (dw & 0xff) {
    case EVENT_7_CLEAN:
        qsim_flush(space);
        break;
    case EVENT_7_FLUSH:
        qsim_flush(space);
        qsim_invalidate(space);
        break;
    case EVENT_7_INVALIDATE:
        qsim_invalidate(space);
        break;
    case EVENT_LABEL:
        gpu->state->has_label = true;
        break;
    case EVENT_CACHE_FLUSH_TS: /* what it is for on 7xx is not known */
        return bad_packet(gpu, pk, "an event of 6xx");
    case EVENT_RB_DONE_TS:
    case 0x18:
    case 0x19:
    case 0x1c:
    case 0x1d:
        break;
    default:
        return bad_packet(gpu, pk, "an event that is not known");
    }
    if (!writes)
        return true;
    va = pair(pk->p + 1);
    if (src == 0)
        return is_aligned(gpu, pk, va, 4) && qsim_write(gpu, va, pk->p + 3, 4);
    if (!is_aligned(gpu, pk, va, 8))
        return false;
    if (src == 1)
        return qsim_write(gpu, va, pk->p + 3, 8);
    now = qsim_clock();
    return qsim_write(gpu, va, &now, 8);
}

/* ---- state and launches ---- */

static bool
load_constants(struct qsim *gpu, const struct packet *pk, uint32_t dst,
               uint32_t n, bool is_direct)
{
    struct qsim_state *s = gpu->state;
    uint32_t i;

    /* Nobody is known to do it. src: docs/hardware/adreno-queues.md,
     * "Constants and descriptors" */
    if (gpu->chip->lacks_loads)
        return bad_packet(gpu, pk, "this chip's constants come from memory");
    if (n == 0 || dst + n > gpu->chip->n_consts)
        return bad_packet(gpu, pk, "constants beyond the file");
    if (is_direct) {
        if (pk->n != 3 + 4 * n || pk->p[1] || pk->p[2])
            return bad_packet(gpu, pk, "a wrong count of constants");
        memcpy(s->consts + 4 * dst, pk->p + 3, n * 16);
    } else {
        if (!needs_words(gpu, pk, 3) ||
            !is_aligned(gpu, pk, pair(pk->p + 1), 16) ||
            !qsim_cached_read(gpu, pair(pk->p + 1), s->consts + 4 * dst,
                              n * 16))
            return false;
    }
    for (i = dst; i < dst + n; i++)
        s->consts_set[i / 64] |= 1ull << i % 64;
    return true;
}

/* Buffers of constants: an address of 49 bits, 15 bits of a count of 16 bytes.
 * 64 are what Vulkan's driver for these chips asks of an offset. */
static bool
load_ubos(struct qsim *gpu, const struct packet *pk, uint32_t dst, uint32_t n)
{
    uint32_t i;

    if (n == 0 || dst + n > QSIM_N_UBOS)
        return bad_packet(gpu, pk, "more buffers of constants than are known");
    if (pk->n != 3 + 2 * n || pk->p[1] || pk->p[2])
        return bad_packet(gpu, pk, "a wrong count of descriptors");
    for (i = 0; i < n; i++) {
        uint64_t ubo = pair(pk->p + 3 + 2 * i), va = ubo << 15 >> 15;

        if (!is_aligned(gpu, pk, va, 64))
            return false;
        gpu->state->ubos[dst + i] =
            (struct shader_ubo){va, (uint32_t)(ubo >> 49)};
    }
    return true;
}

static bool
load_state(struct qsim *gpu, const struct packet *pk)
{
    struct qsim_state *s = gpu->state;
    uint32_t dw, type, src, n;

    if (pk->n < 3)
        return bad_packet(gpu, pk, "a wrong count");
    dw = pk->p[0];
    type = dw >> 14 & 3;
    src = dw >> 16 & 3;
    n = dw >> 22;
    if ((dw >> 18 & 15) != 0xd || (src != 0 && src != 2) || type > 2 ||
        (type == 2 && src != 0))
        return bad_packet(gpu, pk, "state that is not known here");
    if (!s->has_state)
        return bad_packet(gpu, pk, "the state of shaders was not invalidated");
    if (type == 1)
        return load_constants(gpu, pk, dw & 0x3fff, n, src == 0);
    if (type == 2)
        return load_ubos(gpu, pk, dw & 0x3fff, n);
    if (src != 2 || !needs_words(gpu, pk, 3))
        return bad_packet(gpu, pk, "code is loaded from memory");
    if (!is_aligned(gpu, pk, pair(pk->p + 1), 128))
        return false;
    if (n == 0 || n > gpu->chip->n_icache || (dw & 0x3fff))
        return bad_packet(gpu, pk, "more code than the cache holds");
    s->code_va = pair(pk->p + 1);
    s->code_units = n;
    return true;
}

static bool
execute_groups(struct qsim *gpu, const struct packet *pk)
{
    uint32_t first = gpu->chip->gen == SHADER_A7XX ? 0xa9dc : 0xb999;
    uint32_t groups[3], i, local;

    switch (pk->op) {
    case CP_RUN_OPENCL:
        if (!needs_words(gpu, pk, 1))
            return false;
        for (i = 0; i < 3; i++) {
            if (!read_register(gpu, first + i, &groups[i]))
                return false;
        }
        break;
    case CP_EXEC_CS:
        if (!needs_words(gpu, pk, 4))
            return false;
        memcpy(groups, pk->p + 1, 12);
        break;
    default:
        if (!needs_words(gpu, pk, 4) ||
            !is_aligned(gpu, pk, pair(pk->p + 1), 4) ||
            !qsim_read(gpu, pair(pk->p + 1), groups, 12))
            return false;
        local = gpu->state->regs[is_a7xx(gpu) ? 0xa9d4 : 0xb990];
        if ((pk->p[3] ^ local) & ~3u)
            return bad_packet(gpu, pk, "sizes of groups that differ");
    }
    if (pk->p[0])
        return bad_packet(gpu, pk, "a first word that is not 0");
    if (!gpu->state->is_compute)
        return bad_packet(gpu, pk, "no CP_SET_MARKER to compute");
    return qsim_launch(gpu, groups);
}

/* ---- streams ---- */

static bool
run_packet(struct qsim *gpu, const struct packet *pk, unsigned depth)
{
    switch (pk->op) {
    case CP_NOP:
        return true;
    case CP_WAIT_MEM_WRITES:
    case CP_WAIT_FOR_ME:
    case CP_WAIT_FOR_IDLE:
        return needs_words(gpu, pk, 0);
    case CP_WAIT_MEM_GTE:
        return needs_words(gpu, pk, 4) &&
               (pk->p[0] == 0 || bad_packet(gpu, pk, "not known here")) &&
               is_aligned(gpu, pk, pair(pk->p + 1), 4) &&
               poll_word(gpu, true, pair(pk->p + 1), 5, pk->p[3], UINT32_MAX);
    case CP_THREAD_CONTROL:
        if (!is_a7xx(gpu) || !needs_words(gpu, pk, 1))
            return bad_packet(gpu, pk, "not known on this chip");
        return (pk->p[0] & ~0x88000000u) == 1 ||
               bad_packet(gpu, pk, "threads that do not compute");
    case CP_CCHE_INVALIDATE:
        return is_a7xx(gpu) ? needs_words(gpu, pk, 0)
                            : bad_packet(gpu, pk, "not known on this chip");
    case CP_RUN_OPENCL:
    case CP_EXEC_CS:
    case CP_EXEC_CS_INDIRECT:
        return execute_groups(gpu, pk);
    case CP_LOAD_STATE6_FRAG:
    case CP_LOAD_STATE6:
        return load_state(gpu, pk);
    case CP_WAIT_REG_MEM:
        return wait_word(gpu, pk);
    case CP_MEM_WRITE:
        return write_words(gpu, pk);
    case CP_REG_TO_MEM:
        return register_to_memory(gpu, pk);
    case CP_MEM_TO_REG:
        return memory_to_register(gpu, pk);
    case CP_MEM_TO_MEM:
        return memory_to_memory(gpu, pk);
    case CP_EVENT_WRITE:
        return is_a7xx(gpu) ? event_7(gpu, pk) : event_6(gpu, pk);
    case CP_SET_MARKER:
        if (!needs_words(gpu, pk, 1))
            return false;
        if (pk->p[0] != MODE_COMPUTE)
            return bad_packet(gpu, pk, "a mode that is not known here");
        gpu->state->is_compute = true;
        return true;
    case CP_INDIRECT_BUFFER:
    case CP_INDIRECT_BUFFER_CHAIN:
        if (!needs_words(gpu, pk, 3) || !is_aligned(gpu, pk, pair(pk->p), 4))
            return false;
        if (pk->p[2] == 0 || pk->p[2] >> 20)
            return bad_packet(gpu, pk, "a size that is not possible");
        return qsim_run_stream(gpu, pair(pk->p), pk->p[2], depth + 1);
    }
    return bad_packet(gpu, pk, "not known");
}

/* One packet of at most n words; how many it was goes to *out_n. */
static bool
step(struct qsim *gpu, const uint32_t *words, uint32_t n, uint64_t va,
     unsigned depth, uint32_t *out_n)
{
    uint32_t head = words[0], count, reg, i;
    struct packet pk;

    gpu->at_va = va;
    if (head >> 28 == 4) {
        count = head & 0x7f;
        reg = head >> 8 & 0x3ffff;
        if ((head >> 7 & 1) != odd_parity(count) ||
            (head >> 27 & 1) != odd_parity(reg))
            return qsim_fail(gpu, QSIM_BAD_STREAM, "0x%08x: a wrong parity",
                             head);
        if (count == 0 || count >= n)
            return qsim_fail(gpu, QSIM_BAD_STREAM,
                             "0x%08x: %u words, %u are left", head, count,
                             n - 1);
        for (i = 0; i < count; i++) {
            if (!write_register(gpu, reg + i, words[1 + i]))
                return false;
        }
        *out_n = 1 + count;
        return true;
    }
    if (head >> 28 != 7)
        return qsim_fail(gpu, QSIM_BAD_STREAM, "0x%08x is not a packet", head);
    pk = (struct packet){va, head >> 16 & 0x7f, head & 0x3fff, words + 1};
    if ((head >> 15 & 1) != odd_parity(pk.n) ||
        (head >> 23 & 1) != odd_parity(pk.op) || (head & 0x0f004000u))
        return qsim_fail(gpu, QSIM_BAD_STREAM, "0x%08x: a wrong parity", head);
    if (pk.n >= n)
        return qsim_fail(gpu, QSIM_BAD_STREAM, "0x%08x: %u words, %u are left",
                         head, pk.n, n - 1);
    *out_n = 1 + pk.n;
    if (pk.op == CP_INDIRECT_BUFFER_CHAIN && *out_n != n)
        return bad_packet(gpu, &pk, "not the last of its stream");
    return run_packet(gpu, &pk, depth);
}

bool
qsim_run_stream(struct qsim *gpu, uint64_t va, uint32_t n_dw, unsigned depth)
{
    uint32_t *words, at = 0, n = 0;
    bool ok;

    if (depth >= MAX_DEPTH)
        return qsim_fail(gpu, QSIM_BAD_STREAM, "streams nested too deeply");
    words = host_alloc((size_t)n_dw * 4);
    if (!words)
        return qsim_fail(gpu, QSIM_BAD_STREAM, "no memory for a stream");
    ok = qsim_read(gpu, va, words, n_dw * 4);
    for (at = 0; ok && at < n_dw; at += n) {
        if (atomic_load(&gpu->stop))
            ok = qsim_fail(gpu, QSIM_HANG, "it was stopped");
        ok = ok && step(gpu, words + at, n_dw - at, va + 4ull * at, depth, &n);
    }
    host_free(words);
    return ok;
}
