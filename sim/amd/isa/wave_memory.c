/* Memory instructions: scalar loads, global, flat and scratch accesses, LDS.
 *
 * Loads and stores of vectors may have any alignment: the kernel driver sets
 * the alignment mode of every process so (SH_MEM_CONFIG: unaligned), and LLVM
 * counts on it (unaligned-access-mode, on by default for amdhsa). Scalar loads
 * and atomics may not.
 * src: docs/hardware/amd-code.md, "Memory instructions"; the alignment mode:
 * lead. */
#include <assert.h>
#include <string.h>

#include "sim/amd/isa/wave_internal.h"

static void *
global_at(struct wave *w, const struct isa_insn *in, uint64_t va,
          uint32_t n_bytes, enum amd_access access, uint32_t lane)
{
    const struct amd_memory *memory = &w->group->launch->memory;
    void *at;

    assert(n_bytes > 0 && n_bytes <= 64 && lane < WAVE_LANES_MAX);
    w->group->report->lane = lane;
    w->group->report->va = va;
    w->group->report->is_write = amd_access_writes(access);
    at = memory->at(memory->user, va, n_bytes, access);
    if (!at)
        wave_fail(w, AMD_WAVE_UNMAPPED, "%s of %u bytes at 0x%llx",
                  isa_op_name(in->op), n_bytes, (unsigned long long)va);
    return at;
}

/* An access may go over the end of a page: then it is done in two. */
#define PAGE_BYTES 4096u
#define WIDEST_DW  16u

static bool
crosses_page(uint64_t va, uint32_t n_bytes)
{
    return (va & (PAGE_BYTES - 1)) + n_bytes > PAGE_BYTES;
}

static const void *
gather(struct wave *w, const struct isa_insn *in, uint64_t va,
       enum amd_access access, uint32_t lane, uint32_t words[WIDEST_DW])
{
    uint32_t first = PAGE_BYTES - (uint32_t)(va & (PAGE_BYTES - 1));
    const void *from;

    assert(in->bytes <= 4 * WIDEST_DW);
    if (!crosses_page(va, in->bytes))
        return global_at(w, in, va, in->bytes, access, lane);
    from = global_at(w, in, va, first, access, lane);
    if (!from)
        return NULL;
    memcpy(words, from, first);
    from = global_at(w, in, va + first, in->bytes - first, access, lane);
    if (!from)
        return NULL;
    memcpy((char *)words + first, from, in->bytes - first);
    return words;
}

bool
wave_cache(struct wave *w, const struct isa_insn *in)
{
    const struct amd_memory *memory = &w->group->launch->memory;

    if (memory->fence)
        memory->fence(memory->user, in->mem_flags);
    return true;
}

/* ---- the values ---- */

static uint32_t
registers_of(const struct isa_insn *in)
{
    return in->bytes <= 4 ? 1 : in->bytes / 4u;
}

/* What a load of `bytes` bytes leaves in the register. */
static uint32_t
extend(const struct isa_insn *in, const void *from, uint32_t old)
{
    uint32_t value = 0;

    assert(in->bytes > 0 && in->bytes <= 4);
    memcpy(&value, from, in->bytes);
    if (in->mem_flags & ISA_MEM_SIGNED)
        value =
            in->bytes == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
    if (in->mem_flags & ISA_MEM_LOW)
        return (old & 0xffff0000) | (value & 0xffff);
    if (in->mem_flags & ISA_MEM_HIGH)
        return (old & 0xffff) | value << 16;
    return value;
}

/* ---- scalar loads ---- */

/* Elements beyond the buffer are 0. */
static bool
scalar_buffer(struct wave *w, const struct isa_insn *in, uint32_t offset)
{
    const uint32_t *d = w->s + in->src[0];
    uint64_t size = d[2], stride = d[1] >> 16 & 0x3fff;
    uint64_t base = d[0] | (uint64_t)(d[1] & 0xffff) << 32;
    struct isa_insn part = *in;
    uint32_t i, value;

    if (in->src[0] > 124)
        return wave_fail(w, AMD_WAVE_ILLEGAL, "descriptor at s%u", in->src[0]);
    size *= stride ? stride : 1;
    part.bytes = in->bytes < 4 ? in->bytes : 4;
    for (i = 0; i < in->bytes; i += part.bytes) {
        uint64_t at = (offset & ~(uint32_t)(part.bytes - 1)) + (uint64_t)i;
        const void *from;

        value = 0;
        if (at + part.bytes <= size) {
            from =
                global_at(w, in, base + at, part.bytes, AMD_ACCESS_SCALAR, 0);
            if (!from)
                return false;
            value = extend(&part, from, 0);
        }
        wave_write_scalar(w, in->sdst + i / 4, value);
    }
    return !w->group->failed;
}

bool
wave_smem(struct wave *w, const struct isa_insn *in)
{
    uint32_t words[WIDEST_DW];
    uint64_t va;
    uint32_t i, offset = 0;
    const void *from;

    if (in->op == ISA_M_CACHE)
        return wave_cache(w, in);
    if (in->op == ISA_S_NOP)
        return true;
    if (in->op == ISA_S_MEMTIME || in->op == ISA_S_MEMREALTIME) {
        wave_write_scalar64(w, in->sdst, w->group->report->n_insns);
        return !w->group->failed;
    }
    if (in->src[1] != ISA_NO_SOURCE)
        offset = wave_read_scalar(w, in, in->src[1]);
    if (in->op == ISA_S_BUFFER_LOAD)
        return scalar_buffer(w, in, offset + (uint32_t)in->offset);
    va = wave_read_scalar64(w, in, in->src[0]) + offset +
         (uint64_t)(int64_t)in->offset;
    va &= ~(uint64_t)((in->bytes < 4 ? in->bytes : 4u) - 1);
    from = gather(w, in, va, AMD_ACCESS_SCALAR, 0, words);
    if (!from)
        return false;
    if (in->bytes < 4) /* gfx12 */
        wave_write_scalar(w, in->sdst, extend(in, from, 0));
    for (i = 0; i < in->bytes / 4; i++) {
        uint32_t value;
        memcpy(&value, (const char *)from + 4 * i, 4);
        wave_write_scalar(w, in->sdst + i, value);
    }
    return !w->group->failed;
}

/* ---- vectors ---- */

static void
load_lane(struct wave *w, const struct isa_insn *in, uint32_t reg,
          uint32_t lane, const void *from)
{
    uint32_t i;

    assert(lane < w->group->n_lanes);
    if (in->bytes < 4) {
        w->v[reg][lane] = extend(in, from, w->v[reg][lane]);
        return;
    }
    for (i = 0; i < in->bytes / 4u; i++)
        memcpy(&w->v[reg + i][lane], (const char *)from + 4 * i, 4);
}

static void
store_lane(struct wave *w, const struct isa_insn *in, uint32_t reg,
           uint32_t lane, void *to)
{
    uint32_t i, value;

    assert(lane < w->group->n_lanes);
    if (in->bytes < 4) {
        value = w->v[reg][lane];
        if (in->mem_flags & ISA_MEM_HIGH)
            value >>= 16;
        memcpy(to, &value, in->bytes);
        return;
    }
    for (i = 0; i < in->bytes / 4u; i++)
        memcpy((char *)to + 4 * i, &w->v[reg + i][lane], 4);
}

static enum amd_access
load_access(const struct isa_insn *in)
{
    return in->mem_flags & ISA_MEM_PAST    ? AMD_ACCESS_LOAD_PAST
           : in->mem_flags & ISA_MEM_FRESH ? AMD_ACCESS_LOAD_FRESH
                                           : AMD_ACCESS_LOAD;
}

static enum amd_access
store_access(const struct isa_insn *in)
{
    return in->mem_flags & ISA_MEM_PAST ? AMD_ACCESS_STORE_PAST
                                        : AMD_ACCESS_STORE;
}

static bool
load_global(struct wave *w, const struct isa_insn *in, uint64_t va,
            uint32_t reg, uint32_t lane)
{
    uint32_t words[WIDEST_DW];
    const void *from = gather(w, in, va, load_access(in), lane, words);

    assert(lane < w->group->n_lanes);
    if (from)
        load_lane(w, in, reg, lane, from);
    return from != NULL;
}

static bool
store_global(struct wave *w, const struct isa_insn *in, uint64_t va,
             uint32_t reg, uint32_t lane)
{
    uint32_t first = PAGE_BYTES - (uint32_t)(va & (PAGE_BYTES - 1));
    uint32_t words[WIDEST_DW];
    enum amd_access access = store_access(in);
    void *to;

    assert(lane < w->group->n_lanes);
    if (!crosses_page(va, in->bytes)) {
        to = global_at(w, in, va, in->bytes, access, lane);
        if (to)
            store_lane(w, in, reg, lane, to);
        return to != NULL;
    }
    store_lane(w, in, reg, lane, words);
    to = global_at(w, in, va, first, access, lane);
    if (!to)
        return false;
    memcpy(to, words, first);
    to = global_at(w, in, va + first, in->bytes - first, access, lane);
    if (!to)
        return false;
    memcpy(to, (char *)words + first, in->bytes - first);
    return true;
}

/* ---- atomics ---- */

static uint64_t
atomic_add_float(uint32_t type, uint64_t a, uint64_t b)
{
    uint32_t lo, hi;

    switch (type) {
    case ISA_F32:
        return wave_u32(wave_f32((uint32_t)a) + wave_f32((uint32_t)b));
    case ISA_F64:
        return wave_u64(wave_f64(a) + wave_f64(b));
    case ISA_PK_F16:
        lo = wave_float_to_half(wave_half_to_float((uint32_t)a & 0xffff) +
                                wave_half_to_float((uint32_t)b & 0xffff));
        hi = wave_float_to_half(wave_half_to_float((uint32_t)a >> 16) +
                                wave_half_to_float((uint32_t)b >> 16));
        return lo | hi << 16;
    default: /* ISA_PK_BF16 */
        lo = wave_float_to_bf16(wave_f32((uint32_t)a << 16) +
                                wave_f32((uint32_t)b << 16));
        hi = wave_float_to_bf16(wave_f32((uint32_t)a & 0xffff0000) +
                                wave_f32((uint32_t)b & 0xffff0000));
        return lo | hi << 16;
    }
}

static bool
atomic_is_less(uint32_t type, uint64_t a, uint64_t b)
{
    switch (type) {
    case ISA_F32:
        return wave_f32((uint32_t)a) < wave_f32((uint32_t)b);
    case ISA_F64:
        return wave_f64(a) < wave_f64(b);
    case ISA_I32:
        return (int32_t)a < (int32_t)b;
    case ISA_I64:
        return (int64_t)a < (int64_t)b;
    default:
        return a < b;
    }
}

/* The new value; `compare` is of compare-and-swap. */
static uint64_t
atomic_combine(const struct isa_insn *in, uint64_t old, uint64_t data,
               uint64_t compare)
{
    bool is_float = in->type == ISA_F32 || in->type == ISA_F64 ||
                    in->type == ISA_PK_F16 || in->type == ISA_PK_BF16;

    assert(in->bytes == 4 || in->bytes == 8);
    switch (in->op) {
    case ISA_M_ATOMIC_ADD:
        return is_float ? atomic_add_float(in->type, old, data) : old + data;
    case ISA_M_ATOMIC_SUB:
        return old - data;
    case ISA_M_ATOMIC_RSUB:
        return data - old;
    case ISA_M_ATOMIC_INC:
        return old >= data ? 0 : old + 1;
    case ISA_M_ATOMIC_DEC:
        return old == 0 || old > data ? data : old - 1;
    case ISA_M_ATOMIC_MIN:
        return atomic_is_less(in->type, data, old) ? data : old;
    case ISA_M_ATOMIC_MAX:
        return atomic_is_less(in->type, old, data) ? data : old;
    case ISA_M_ATOMIC_AND:
        return old & data;
    case ISA_M_ATOMIC_OR:
        return old | data;
    case ISA_M_ATOMIC_XOR:
        return old ^ data;
    case ISA_M_ATOMIC_CMPSWAP:
        return old == compare ? data : old;
    default: /* M_ATOMIC_SWAP */
        return data;
    }
}

static uint64_t
register_value(const struct wave *w, uint32_t reg, uint32_t lane,
               uint32_t bytes)
{
    uint64_t value = w->v[reg][lane];

    assert(lane < WAVE_LANES_MAX && (bytes <= 4 || bytes == 8));
    if (bytes == 8)
        value |= (uint64_t)w->v[reg + 1][lane] << 32;
    return value;
}

static void
set_lane_register(struct wave *w, uint32_t reg, uint32_t lane, uint32_t bytes,
                  uint64_t value)
{
    assert(lane < WAVE_LANES_MAX && (bytes <= 4 || bytes == 8));
    w->v[reg][lane] = (uint32_t)value;
    if (bytes == 8)
        w->v[reg + 1][lane] = (uint32_t)(value >> 32);
}

/* Atomic against everyone else who has the memory. */
static uint64_t
atomic_update(const struct isa_insn *in, void *at, uint64_t data,
              uint64_t compare)
{
    assert(in->bytes == 4 || in->bytes == 8);
    if (in->bytes == 8) {
        uint64_t *p = at, old = __atomic_load_n(p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
            p, &old, atomic_combine(in, old, data, compare), true,
            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        }
        return old;
    } else {
        uint32_t *p = at, old = __atomic_load_n(p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
            p, &old, (uint32_t)atomic_combine(in, old, data, compare), true,
            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        }
        return old;
    }
}

static bool
atomic_lane(struct wave *w, const struct isa_insn *in, uint64_t va,
            uint32_t data, uint32_t lane)
{
    uint64_t compare = 0, old;
    void *at;

    assert(lane < w->group->n_lanes);
    if (va & (in->bytes - 1u)) {
        w->group->report->va = va;
        return wave_fail(w, AMD_WAVE_MISALIGNED, "%s at 0x%llx",
                         isa_op_name(in->op), (unsigned long long)va);
    }
    at = global_at(w, in, va, in->bytes, AMD_ACCESS_ATOMIC, lane);
    if (!at)
        return false;
    if (in->op == ISA_M_ATOMIC_CMPSWAP)
        compare = register_value(w, data + in->bytes / 4u, lane, in->bytes);
    old = atomic_update(in, at, register_value(w, data, lane, in->bytes),
                        compare);
    if (in->mem_flags & ISA_MEM_RETURN)
        set_lane_register(w, in->dst, lane, in->bytes, old);
    return true;
}

/* Whether the registers of an access's data are there. */
static bool
has_data(struct wave *w, const struct isa_insn *in)
{
    uint32_t n = registers_of(in), data = in->src[1] - ISA_VGPR;

    assert(in->bytes > 0);
    if (in->op == ISA_M_LOAD)
        return wave_has_registers(w, in->dst, n);
    if (in->mem_flags & ISA_MEM_RETURN && !wave_has_registers(w, in->dst, n))
        return false;
    return wave_has_registers(w, data,
                              in->op == ISA_M_ATOMIC_CMPSWAP ? 2 * n : n);
}

/* An access of one lane to memory. */
static bool
access_lane(struct wave *w, const struct isa_insn *in, uint64_t va,
            uint32_t lane)
{
    assert(lane < WAVE_LANES_MAX);
    if (__builtin_expect(w->group->counts != NULL, 0))
        wave_count_lane(w->group->counts, va, false);
    if (in->op == ISA_M_LOAD)
        return load_global(w, in, va, in->dst, lane);
    if (in->op == ISA_M_STORE)
        return store_global(w, in, va, in->src[1] - ISA_VGPR, lane);
    return atomic_lane(w, in, va, in->src[1] - ISA_VGPR, lane);
}

/* ---- runs of lanes ---- */

/* Lanes whose elements follow one another in memory are served together: in
 * pieces that no page, and no line of a cache, begins or ends in. */
#define PIECE_BYTES 64u

static bool
access_run(struct wave *w, const struct isa_insn *in, uint64_t va,
           uint32_t first, uint32_t n)
{
    const struct amd_memory *memory = &w->group->launch->memory;
    bool is_load = in->op == ISA_M_LOAD;
    enum amd_access access = is_load ? load_access(in) : store_access(in);
    uint32_t reg = is_load ? in->dst : in->src[1] - ISA_VGPR, i;
    uint8_t *at = memory->at(memory->user, va, n * in->bytes, access);

    assert(first + n <= w->group->n_lanes);
    for (i = 0; i < n && !at; i++) { /* the first that fails is told */
        if (!access_lane(w, in, va + i * in->bytes, first + i))
            return false;
    }
    if (!at)
        return true;
    w->group->report->lane = first + n - 1;
    w->group->report->va = va + (n - 1) * in->bytes;
    w->group->report->is_write = !is_load;
    for (i = 0; i < n && w->group->counts; i++)
        wave_count_lane(w->group->counts, va + i * in->bytes, false);
    if (is_load && in->bytes == 4)
        memcpy(&w->v[reg][first], at, n * 4);
    else if (in->bytes == 4)
        memcpy(at, &w->v[reg][first], n * 4);
    for (i = 0; i < n && in->bytes != 4; i++) {
        if (is_load)
            load_lane(w, in, reg, first + i, at + i * in->bytes);
        else
            store_lane(w, in, reg, first + i, at + i * in->bytes);
    }
    return true;
}

/* ---- global, flat, scratch ---- */

/* The address without the lane's own part. */
static uint64_t
flat_base(struct wave *w, const struct isa_insn *in)
{
    uint64_t base = (uint64_t)(int64_t)in->offset;

    if (in->src[2] != ISA_NO_SOURCE)
        base += in->segment == ISA_SEG_SCRATCH
                    ? wave_read_scalar(w, in, in->src[2])
                    : wave_read_scalar64(w, in, in->src[2]);
    return base;
}

/* Where FLAT_SCRATCH is an address of memory, lanes take turns in it by
 * dwords, as in a scratch buffer. */
static bool
flat_scratch_lane(struct wave *w, const struct isa_insn *in, uint32_t at,
                  uint32_t lane)
{
    uint64_t base = isa_is_gfx9(w->group->gen)
                        ? w->s[102] | (uint64_t)w->s[103] << 32
                        : w->flat;
    struct isa_insn part = *in;
    uint32_t i;

    assert(lane < WAVE_LANES_MAX);
    part.bytes = in->bytes < 4 ? in->bytes : 4;
    if (at % 4 + part.bytes > 4)
        return wave_fail(w, AMD_WAVE_MISALIGNED, "%u bytes at %u of scratch",
                         in->bytes, at);
    for (i = 0; i * 4 < in->bytes; i++) {
        uint64_t va = base +
                      (uint64_t)((at & ~3u) + 4 * i) * w->group->n_lanes +
                      lane * 4 + at % 4;

        part.dst = in->dst + i;
        part.src[1] = in->src[1] + i;
        if (!access_lane(w, &part, va, lane))
            return false;
    }
    return true;
}

/* An access of one lane to its scratch. */
static bool
scratch_lane(struct wave *w, const struct isa_insn *in, uint32_t at,
             uint32_t lane)
{
    uint32_t size = w->group->launch->scratch_bytes;
    uint8_t *p;

    assert(lane < WAVE_LANES_MAX);
    w->group->report->lane = lane;
    w->group->report->va = at;
    if (size < in->bytes || at > size - in->bytes)
        return wave_fail(w, AMD_WAVE_RANGE, "scratch of %u bytes, access at %u",
                         size, at);
    if (!w->scratch)
        return flat_scratch_lane(w, in, at, lane);
    p = w->scratch + (size_t)lane * size + at;
    if (in->op == ISA_M_LOAD)
        load_lane(w, in, in->dst, lane, p);
    else if (in->op == ISA_M_STORE)
        store_lane(w, in, in->src[1] - ISA_VGPR, lane, p);
    else
        return wave_fail(w, AMD_WAVE_ILLEGAL, "%s of scratch",
                         isa_op_name(in->op));
    return true;
}

static bool
scratch_access(struct wave *w, const struct isa_insn *in)
{
    uint64_t exec = wave_exec(w), base = flat_base(w, in);
    uint32_t l;

    if (!has_data(w, in) ||
        (in->sve && !wave_has_registers(w, in->src[0] - ISA_VGPR, 1)))
        return false;
    for (l = 0; l < w->group->n_lanes; l++) {
        uint32_t at = (uint32_t)base;

        if (!(exec >> l & 1))
            continue;
        if (in->sve)
            at += w->v[in->src[0] - ISA_VGPR][l];
        if (!scratch_lane(w, in, at, l))
            return false;
    }
    return true;
}

static uint64_t
vmem_lane_address(const struct wave *w, const struct isa_insn *in,
                  uint64_t base, uint32_t lane)
{
    uint32_t reg = in->src[0] - ISA_VGPR;

    assert(lane < WAVE_LANES_MAX);
    if (in->src[2] != ISA_NO_SOURCE)
        return base + w->v[reg][lane];
    return base + register_value(w, reg, lane, 8);
}

/* How many lanes from `first` on are a run; 1: it is alone. */
static uint32_t
count_run(const struct wave *w, const struct isa_insn *in, uint64_t base,
          uint64_t va, uint32_t first)
{
    uint64_t exec = wave_exec(w), left = PIECE_BYTES - va % PIECE_BYTES;
    uint32_t n = 1;

    if (in->op != ISA_M_LOAD && in->op != ISA_M_STORE)
        return 1;
    while (first + n < w->group->n_lanes && exec >> (first + n) & 1 &&
           (uint64_t)(n + 1) * in->bytes <= left &&
           vmem_lane_address(w, in, base, first + n) == va + n * in->bytes)
        n++;
    return n;
}

/* ---- buffers ---- */

/* A descriptor, taken apart. src: docs/hardware/amd-queues.md, "Scratch";
 * AMD's CDNA 2 and RDNA 2 instruction set guides, buffer resource descriptor.
 */
struct buffer {
    uint64_t base;
    uint32_t n_records, stride;
    uint32_t element_bytes; /* 0: not swizzled */
    uint32_t index_stride;
    bool add_tid, level; /* gfx10: RESOURCE_LEVEL, which has to be 1 */
};

static bool
read_buffer_descriptor(struct wave *w, const struct isa_insn *in,
                       struct buffer *b)
{
    enum isa_gen gen = w->group->gen;
    const uint32_t *d = w->s + in->sdst;
    uint32_t kind;

    if (in->sdst > 124)
        return wave_fail(w, AMD_WAVE_ILLEGAL, "descriptor at s%u", in->sdst);
    b->base = d[0] | (uint64_t)(d[1] & 0xffff) << 32;
    b->stride = d[1] >> 16 & 0x3fff;
    b->n_records = d[2];
    b->index_stride = 8u << (d[3] >> 21 & 3);
    b->add_tid = d[3] >> 23 & 1;
    b->level = !isa_is_gfx10(gen) || d[3] >> 24 & 1;
    kind = d[1] >> 30;
    if (gen >= ISA_GFX11)
        b->element_bytes = kind ? 2u << kind : 0;
    else if (isa_is_gfx10(gen))
        b->element_bytes = kind & 2 ? 4 : 0;
    else
        b->element_bytes = kind & 2 ? 2u << (d[3] >> 19 & 3) : 0;
    if (isa_is_gfx9(gen) && b->add_tid) /* the data format is of the stride */
        b->stride |= (d[3] >> 15 & 15) << 14;
    return true;
}

/* A descriptor that counts lanes is the kernel's scratch, which is in dwords of
 * all lanes in turn: no lane may leave its own part of it. */
static bool
check_scratch(struct wave *w, const struct isa_insn *in, const struct buffer *b,
              uint32_t at, uint32_t lane)
{
    uint32_t size = w->group->launch->scratch_bytes;

    assert(lane < WAVE_LANES_MAX);
    w->group->report->lane = lane;
    w->group->report->va = at;
    if (b->element_bytes != 4 || b->index_stride != w->group->n_lanes ||
        !b->level)
        return wave_fail(w, AMD_WAVE_ILLEGAL,
                         "a scratch descriptor with elements of %u bytes, an "
                         "index stride of %u and level %d in waves of %u",
                         b->element_bytes, b->index_stride, b->level,
                         w->group->n_lanes);
    if (size < in->bytes || at > size - in->bytes)
        return wave_fail(w, AMD_WAVE_RANGE, "scratch of %u bytes, access at %u",
                         size, at);
    return true;
}

/* One element of a lane's access, not larger than a swizzled element. */
static bool
buffer_element(struct wave *w, const struct isa_insn *in,
               const struct buffer *b, uint32_t index, uint32_t offset,
               uint32_t lane)
{
    static const uint32_t zeros[4];
    uint64_t at = offset, soffset;
    bool outside;

    assert(lane < WAVE_LANES_MAX);
    if (b->element_bytes) {
        uint32_t e = b->element_bytes, s = b->index_stride;

        if (offset % e + in->bytes > e)
            return wave_fail(w, AMD_WAVE_MISALIGNED,
                             "%u bytes at %u of a swizzled buffer", in->bytes,
                             offset);
        at = ((uint64_t)(index / s) * b->stride + offset / e * e) * s +
             index % s * e + offset % e;
    } else {
        at += (uint64_t)index * b->stride;
    }
    soffset = wave_read_scalar(w, in, in->src[2]);
    outside = b->stride && !b->add_tid
                  ? index >= b->n_records ||
                        (!b->element_bytes && offset + in->bytes > b->stride)
                  : at + soffset + in->bytes > b->n_records;
    if (!outside)
        return !w->group->failed &&
               access_lane(w, in, b->base + soffset + at, lane);
    /* loads give 0, nothing is stored */
    if (in->op == ISA_M_LOAD)
        load_lane(w, in, in->dst, lane, zeros);
    else if (in->mem_flags & ISA_MEM_RETURN)
        set_lane_register(w, in->dst, lane, in->bytes, 0);
    return true;
}

static bool
buffer_lane(struct wave *w, const struct isa_insn *in, const struct buffer *b,
            uint32_t index, uint32_t offset, uint32_t lane)
{
    struct isa_insn part;
    uint32_t i;

    if (b->add_tid && !check_scratch(w, in, b, offset, lane))
        return false;
    if (!b->element_bytes || in->bytes <= b->element_bytes ||
        (in->op != ISA_M_LOAD && in->op != ISA_M_STORE))
        return buffer_element(w, in, b, index, offset, lane);
    part = *in;
    part.bytes = 4;
    for (i = 0; i < in->bytes / 4u; i++) {
        part.dst = in->dst + i;
        part.src[1] = in->src[1] + i;
        if (!buffer_element(w, &part, b, index, offset + 4 * i, lane))
            return false;
    }
    return true;
}

bool
wave_buffer(struct wave *w, const struct isa_insn *in)
{
    uint32_t address = in->src[0] - ISA_VGPR, l;
    uint64_t exec = wave_exec(w);
    struct buffer b;

    if (!read_buffer_descriptor(w, in, &b) || !has_data(w, in) ||
        ((in->offen || in->idxen) &&
         !wave_has_registers(w, address, in->offen && in->idxen ? 2 : 1)))
        return false;
    for (l = 0; l < w->group->n_lanes; l++) {
        uint32_t offset = (uint32_t)in->offset;
        uint32_t index = b.add_tid ? l : 0;

        if (!(exec >> l & 1))
            continue;
        if (in->idxen)
            index += w->v[address][l];
        if (in->offen)
            offset += w->v[address + (in->idxen ? 1 : 0)][l];
        if (!buffer_lane(w, in, &b, index, offset, l))
            return false;
    }
    return true;
}

/* ---- LDS ---- */

static void *
lds_at(struct wave *w, const struct isa_insn *in, uint32_t at, uint32_t lane)
{
    struct wave_group *g = w->group;

    assert(lane < WAVE_LANES_MAX);
    if (g->lds_bytes >= in->bytes && at <= g->lds_bytes - in->bytes)
        return g->lds + at;
    g->report->lane = lane;
    g->report->va = at;
    wave_fail(w, AMD_WAVE_RANGE, "LDS of %u bytes, %u bytes at %u",
              g->lds_bytes, in->bytes, at);
    return NULL;
}

static bool
between_lanes(struct wave *w, const struct isa_insn *in)
{
    uint32_t n = w->group->n_lanes, l, address = in->src[0] - ISA_VGPR;
    uint32_t data = in->src[1] - ISA_VGPR;
    uint64_t exec = wave_exec(w);
    wave_row r = {0};

    if (in->op == ISA_DS_SWIZZLE_B32)
        data = address;
    if (!wave_has_registers(w, address, 1) || !wave_has_registers(w, data, 1) ||
        !wave_has_registers(w, in->dst, 1))
        return false;
    for (l = 0; l < n; l++) {
        uint32_t from, at = w->v[address][l] + (uint32_t)in->offset;
        if (!(exec >> l & 1))
            continue;
        if (in->op == ISA_DS_PERMUTE_B32) {
            r[at / 4 & (n - 1)] = w->v[data][l];
            continue;
        }
        from = at / 4 & (n - 1);
        if (in->op == ISA_DS_SWIZZLE_B32 && in->offset & 0x8000)
            from = (l & ~3u) | (in->offset >> 2 * (l & 3) & 3);
        else if (in->op == ISA_DS_SWIZZLE_B32)
            from = (l & ~31u) | ((((l & 31) & (uint32_t)(in->offset & 31)) |
                                  (in->offset >> 5 & 31)) ^
                                 (in->offset >> 10 & 31));
        if (exec >> from & 1)
            r[l] = w->v[data][from];
    }
    for (l = 0; l < n; l++) {
        if (exec >> l & 1)
            w->v[in->dst][l] = r[l];
    }
    return true;
}

/* One element of an access to LDS. */
static bool
lds_lane(struct wave *w, const struct isa_insn *in, uint32_t at, uint32_t reg,
         uint32_t lane)
{
    void *p = lds_at(w, in, at, lane);
    uint32_t n = in->bytes / 4u;
    uint64_t old = 0, data, compare = 0;

    assert(lane < w->group->n_lanes);
    if (!p)
        return false;
    if (__builtin_expect(w->group->counts != NULL, 0))
        wave_count_lane(w->group->counts, at, true);
    if (in->op == ISA_M_LOAD) {
        load_lane(w, in, reg, lane, p);
        return true;
    }
    if (in->op == ISA_M_STORE) {
        store_lane(w, in, reg, lane, p);
        return true;
    }
    if (at & (in->bytes - 1u))
        return wave_fail(w, AMD_WAVE_MISALIGNED, "LDS, %s at %u",
                         isa_op_name(in->op), at);
    memcpy(&old, p, in->bytes);
    data = register_value(w, reg, lane, in->bytes);
    if (in->op == ISA_M_ATOMIC_CMPSWAP) {
        /* gfx11 swaps the order of the two that older chips have */
        uint32_t second = in->src[2] - ISA_VGPR;
        if (!wave_has_registers(w, second, n))
            return false;
        compare = register_value(w, second, lane, in->bytes);
        if (w->group->gen <= ISA_GFX10) {
            uint64_t swap = data;
            data = compare;
            compare = swap;
        }
    }
    data = atomic_combine(in, old, data, compare);
    memcpy(p, &data, in->bytes);
    if (in->mem_flags & ISA_MEM_RETURN)
        set_lane_register(w, in->dst, lane, in->bytes, old);
    return true;
}

/* A flat address of LDS. */
static bool
flat_lds_lane(struct wave *w, const struct isa_insn *in, uint32_t at,
              uint32_t lane)
{
    struct isa_insn local = *in;

    assert(lane < WAVE_LANES_MAX);
    if (in->op == ISA_M_LOAD)
        return lds_lane(w, in, at, in->dst, lane);
    if (in->op == ISA_M_ATOMIC_CMPSWAP) { /* the pair, as lds_lane has it */
        local.src[2] = in->src[1] + in->bytes / 4u;
        if (w->group->gen <= ISA_GFX10) {
            local.src[1] = local.src[2];
            local.src[2] = in->src[1];
        }
    }
    return lds_lane(w, &local, at, local.src[1] - ISA_VGPR, lane);
}

bool
wave_flat(struct wave *w, const struct isa_insn *in)
{
    uint32_t l, n, address = in->src[0] - ISA_VGPR;
    uint64_t exec = wave_exec(w), base;

    if (in->op == ISA_M_CACHE) /* gfx12 */
        return wave_cache(w, in);
    if (in->segment == ISA_SEG_SCRATCH)
        return scratch_access(w, in);
    base = flat_base(w, in);
    if (w->group->failed ||
        !wave_has_registers(w, address, in->src[2] == ISA_NO_SOURCE ? 2 : 1) ||
        !has_data(w, in))
        return false;
    for (l = 0; l < w->group->n_lanes; l += n) {
        uint64_t va = vmem_lane_address(w, in, base, l);
        bool good;

        n = 1;
        if (!(exec >> l & 1))
            continue;
        if (in->segment == ISA_SEG_FLAT && va >> 32 == WAVE_FLAT_LDS)
            good = flat_lds_lane(w, in, (uint32_t)va, l);
        else if (in->segment == ISA_SEG_FLAT && va >> 32 == WAVE_FLAT_SCRATCH)
            good = scratch_lane(w, in, (uint32_t)va, l);
        else if ((n = count_run(w, in, base, va, l)) > 1)
            good = access_run(w, in, va, l, n);
        else
            good = access_lane(w, in, va, l);
        if (!good)
            return false;
    }
    return true;
}

bool
wave_ds(struct wave *w, const struct isa_insn *in)
{
    uint32_t n = registers_of(in), address = in->src[0] - ISA_VGPR, l;
    uint32_t first = in->op == ISA_M_LOAD ? in->dst : in->src[1] - ISA_VGPR;
    uint32_t second =
        in->op == ISA_M_LOAD ? in->dst + n : in->src[2] - ISA_VGPR;
    uint32_t scale = in->mem_flags & ISA_MEM_ST64 ? in->bytes * 64u : in->bytes;
    bool two = in->mem_flags & ISA_MEM_TWO;
    uint64_t exec = wave_exec(w);

    if (in->op == ISA_DS_BPERMUTE_B32 || in->op == ISA_DS_PERMUTE_B32 ||
        in->op == ISA_DS_SWIZZLE_B32)
        return between_lanes(w, in);
    if (!wave_has_registers(w, address, 1) ||
        !wave_has_registers(w, first, n) ||
        (two && !wave_has_registers(w, second, n)) ||
        ((in->mem_flags & ISA_MEM_RETURN) &&
         !wave_has_registers(w, in->dst, n)))
        return false;
    for (l = 0; l < w->group->n_lanes; l++) {
        uint32_t at = w->v[address][l];
        if (!(exec >> l & 1))
            continue;
        if (!two) {
            if (!lds_lane(w, in, at + (uint32_t)in->offset, first, l))
                return false;
        } else if (!lds_lane(w, in, at + (uint32_t)in->offset * scale, first,
                             l) ||
                   !lds_lane(w, in, at + (uint32_t)in->offset1 * scale, second,
                             l)) {
            return false;
        }
    }
    return true;
}
