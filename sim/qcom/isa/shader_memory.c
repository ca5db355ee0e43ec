/* Memory of Adreno's shaders: global, of the work-group, of a thread, behind
 * slots.
 *
 * src: docs/hardware/adreno-code.md, "Global memory", "Local and private
 * memory", "Descriptors"; docs/hardware/adreno-queues.md, "Private memory"
 */
#include <string.h>

#include "sim/qcom/isa/shader_internal.h"

#define LINE 64u

static uint32_t
bytes_of(uint32_t type)
{
    return type == SHADER_U8 || type == SHADER_U8_32 ? 1
           : shader_type_is_half(type)               ? 2
                                                     : 4;
}

static bool
is_private(const struct shader_insn *in)
{
    return in->op == SHADER_LDP || in->op == SHADER_STP;
}

static bool
is_store(const struct shader_insn *in)
{
    return in->layout == SHADER_AS_STG || in->layout == SHADER_AS_STG_A6 ||
           in->layout == SHADER_AS_STG_A7 || in->layout == SHADER_AS_STL ||
           in->op == SHADER_STIB_B;
}

/* The host's bytes of a component. */
static void *
host_at(struct shader_wave *w, const struct shader_insn *in, uint64_t va,
        uint32_t n_bytes, enum shader_access access)
{
    const struct shader_memory *m = &w->group->launch->memory;
    void *p;

    if (va & (n_bytes - 1)) {
        (void)shader_fail(w, in, "0x%llx is not aligned to %u",
                          (unsigned long long)va, n_bytes);
        return NULL;
    }
    p = va >> 49 ? NULL : m->at(m->user, va, n_bytes, access);
    if (!p)
        (void)shader_fail_memory(w, in, va, access != SHADER_LOAD);
    return p;
}

/* Where a thread's private byte lies. Groups run one after the other: the last
 * places of the last processor are used as well as the first ones. */
static uint64_t
private_at(struct shader_wave *w, uint32_t lane, uint32_t offset)
{
    const struct shader_group *g = w->group;
    const struct shader_launch *l = g->launch;
    uint32_t n_held = g->n_waves * l->lanes;
    uint32_t sp = l->n_sps - 1 - g->number % l->n_sps;
    uint32_t first = g->number / l->n_sps % 2 || n_held > l->sp_threads
                         ? 0
                         : l->sp_threads - n_held;
    uint64_t va = l->private_va + (uint64_t)sp * l->private_sp_bytes;

    first += w->index * l->lanes;
    if (l->private_by_wave)
        return va + (uint64_t)first * l->private_bytes +
               (offset / 4 * l->lanes + lane) * 4u + offset % 4;
    return va + (uint64_t)(first + lane) * l->private_bytes + offset;
}

static bool
check_private(struct shader_wave *w, const struct shader_insn *in,
              int64_t offset, uint32_t n_bytes)
{
    const struct shader_launch *l = w->group->launch;

    if (!l->private_bytes)
        return shader_fail(w, in, "the launch has no private memory");
    if (offset < 0 || offset + n_bytes > l->private_bytes)
        return shader_fail(w, in, "private byte %lld of %u", (long long)offset,
                           l->private_bytes);
    if (l->private_by_wave && in->n > 1)
        return shader_fail(w, in, "several words where they lie by waves");
    return true;
}

/* A lane's component: read to *value, or written. */
static inline void
move_value(const struct shader_insn *in, uint8_t *p, uint32_t n_bytes,
           uint32_t *value)
{
    uint16_t half;

    if (n_bytes == 4 && is_store(in)) {
        memcpy(p, value, 4);
    } else if (n_bytes == 4) {
        memcpy(value, p, 4);
    } else if (is_store(in)) {
        memcpy(p, value, n_bytes);
    } else if (n_bytes == 2) {
        memcpy(&half, p, 2);
        *value = half;
    } else {
        *value = *p;
    }
}

struct plan {
    uint32_t n_bytes;              /* of a component */
    uint64_t at[SHADER_MAX_LANES]; /* addresses, or offsets */
    uint32_t data[4][SHADER_MAX_LANES];
};

static bool
access_shared(struct shader_wave *w, const struct shader_insn *in,
              struct plan *p)
{
    struct shader_group *g = w->group;
    uint32_t i, c;

    for (i = 0; i < w->n_lanes; i++) {
        if (!shader_lane_on(&w->active, i))
            continue;
        if (p->at[i] % p->n_bytes)
            return shader_fail(w, in, "local byte %llu is not aligned",
                               (unsigned long long)p->at[i]);
        if (p->at[i] + (uint64_t)p->n_bytes * in->n > g->launch->shared_bytes)
            return shader_fail(w, in, "local byte %lld of %u",
                               (long long)p->at[i], g->launch->shared_bytes);
        for (c = 0; c < in->n; c++)
            move_value(in, g->shared + p->at[i] + c * p->n_bytes, p->n_bytes,
                       &p->data[c][i]);
    }
    return true;
}

/* A lane's components that lie in one line: all at once. */
static bool
access_line(struct shader_wave *w, const struct shader_insn *in, struct plan *p,
            uint32_t lane, uint8_t **host, uint64_t *host_va)
{
    enum shader_access access = is_store(in) ? SHADER_STORE : SHADER_LOAD;
    const struct shader_memory *m = &w->group->launch->memory;
    uint64_t va = p->at[lane];
    uint32_t c;

    if (va & (p->n_bytes - 1))
        return shader_fail(w, in, "0x%llx is not aligned to %u",
                           (unsigned long long)va, p->n_bytes);
    /* neighbours often read the same */
    if (!*host || access == SHADER_STORE || va != *host_va)
        *host =
            va >> 49 ? NULL : m->at(m->user, va, p->n_bytes * in->n, access);
    *host_va = va;
    if (!*host)
        return shader_fail_memory(w, in, va, access == SHADER_STORE);
    for (c = 0; c < in->n; c++)
        move_value(in, *host + c * p->n_bytes, p->n_bytes, &p->data[c][lane]);
    return true;
}

static bool
access_global(struct shader_wave *w, const struct shader_insn *in,
              struct plan *p)
{
    enum shader_access access = is_store(in) ? SHADER_STORE : SHADER_LOAD;
    uint8_t *host, *last = NULL;
    uint64_t last_va = 0;
    uint32_t i, c;

    for (i = 0; i < w->n_lanes; i++) {
        uint64_t va = p->at[i];
        if (!shader_lane_on(&w->active, i))
            continue;
        if (!is_private(in) && va % LINE + p->n_bytes * in->n <= LINE) {
            if (!access_line(w, in, p, i, &last, &last_va))
                return false;
            continue;
        }
        for (c = 0; c < in->n; c++) {
            if (is_private(in))
                va = private_at(w, i, (uint32_t)p->at[i] + c * p->n_bytes);
            host = host_at(w, in, va, p->n_bytes, access);
            if (!host)
                return false;
            move_value(in, host, p->n_bytes, &p->data[c][i]);
            va += p->n_bytes;
        }
    }
    return true;
}

static void
count_access(struct shader_wave *w, const struct shader_insn *in,
             const struct plan *p)
{
    uint64_t at[SHADER_MAX_LANES];
    uint32_t n = 0, i;

    for (i = 0; i < w->n_lanes; i++) {
        if (shader_lane_on(&w->active, i))
            at[n++] = p->at[i];
    }
    if (in->layout == SHADER_AS_LDL || in->layout == SHADER_AS_STL) {
        if (!is_private(in))
            sim_count_shared(w->group->counts, at, n, p->n_bytes * in->n);
    } else {
        sim_count_global(w->group->counts, at, n, p->n_bytes * in->n,
                         is_store(in));
    }
}

/* ---- addresses ---- */

static bool
wide_address(struct shader_wave *w, const struct shader_insn *in, uint64_t *at)
{
    uint32_t lo[SHADER_MAX_LANES], hi[SHADER_MAX_LANES], i;
    struct shader_operand next = in->src[0];

    next.v++;
    if (!shader_source(w, in, &in->src[0], 0, lo) ||
        !shader_source(w, in, &next, 0, hi))
        return false;
    for (i = 0; i < w->n_lanes; i++)
        at[i] = (uint64_t)hi[i] << 32 | lo[i];
    return true;
}

/* With an index in a register; whether that has a sign is not known. */
static bool
indexed_address(struct shader_wave *w, const struct shader_insn *in,
                uint64_t *at)
{
    bool is_a6xx =
        in->layout == SHADER_AS_LDG_A6 || in->layout == SHADER_AS_STG_A6;
    uint32_t index[SHADER_MAX_LANES], i;

    if (!wide_address(w, in, at) ||
        !shader_source(w, in, &in->src[1], 0, index))
        return false;
    for (i = 0; i < w->n_lanes; i++) {
        if (shader_lane_on(&w->active, i) && (int32_t)index[i] < 0)
            return shader_fail(w, in, "an index of %d", (int32_t)index[i]);
        if (!is_a6xx)
            at[i] += index[i] + (uint32_t)in->imm;
        else if (in->shift)
            at[i] += ((uint64_t)index[i] << (2 + in->shift)) +
                     ((uint32_t)in->imm << 2);
        else
            at[i] += ((uint64_t)index[i] + (uint32_t)in->imm) << 2;
    }
    return true;
}

static bool
narrow_address(struct shader_wave *w, const struct shader_insn *in,
               uint64_t *at)
{
    uint32_t base[SHADER_MAX_LANES], i;

    if (!shader_source(w, in, &in->src[0], 0, base))
        return false;
    for (i = 0; i < w->n_lanes; i++) {
        at[i] = (uint32_t)(base[i] + (uint32_t)in->imm);
        if (is_private(in) && shader_lane_on(&w->active, i) &&
            !check_private(w, in, (int64_t)at[i], bytes_of(in->type) * in->n))
            return false;
    }
    return true;
}

/* The number of a descriptor, which may be in a register. */
static bool
slot_number(struct shader_wave *w, const struct shader_insn *in, uint32_t *out)
{
    uint32_t slots[SHADER_MAX_LANES], i;
    bool has = false;

    *out = in->slot;
    if (!in->slot_mode)
        return true;
    if (!shader_get(w, in, in->slot, false, slots))
        return false;
    for (i = 0; i < w->n_lanes; i++) {
        if (!shader_lane_on(&w->active, i))
            continue;
        if (has && slots[i] != *out)
            return shader_fail(w, in, "threads differ in the slot");
        *out = slots[i];
        has = true;
    }
    return true;
}

static const struct shader_slot *
slot_of(struct shader_wave *w, const struct shader_insn *in)
{
    const struct shader_launch *l = w->group->launch;
    uint32_t slot;

    if (!slot_number(w, in, &slot))
        return NULL;
    if (slot >= l->n_slots || !l->slots[slot].n_elems) {
        (void)shader_fail(w, in, "slot %u is empty", slot);
        return NULL;
    }
    return &l->slots[slot];
}

static bool
slot_address(struct shader_wave *w, const struct shader_insn *in, uint64_t *at)
{
    const struct shader_slot *slot = slot_of(w, in);
    uint32_t index[SHADER_MAX_LANES], i;

    if (!slot || !shader_source(w, in, &in->src[0], 0, index))
        return false;
    if (in->typed || in->dims != 1 || in->has_offset)
        return shader_fail(w, in, "only plain buffers are known here");
    for (i = 0; i < w->n_lanes; i++) {
        if (shader_lane_on(&w->active, i) &&
            (uint64_t)index[i] + in->n > slot->n_elems)
            return shader_fail(w, in, "element %u of %u", index[i],
                               slot->n_elems);
        at[i] = slot->va + (uint64_t)index[i] * slot->elem_bytes;
    }
    return true;
}

/* Words of a buffer of constants: some of 16 bytes, by their number. Whether
 * what lies beyond its end is 0 is not known. */
static bool
ubo_address(struct shader_wave *w, const struct shader_insn *in, uint64_t *at)
{
    const struct shader_launch *l = w->group->launch;
    uint32_t index[SHADER_MAX_LANES], slot, i;

    if (!slot_number(w, in, &slot) ||
        !shader_source(w, in, &in->src[0], 0, index))
        return false;
    if (slot >= l->n_ubos || !l->ubos[slot].n_vec4)
        return shader_fail(w, in, "there is no buffer %u of constants", slot);
    if (in->comp1 + in->n > 4)
        return shader_fail(w, in, "words of two constants");
    for (i = 0; i < w->n_lanes; i++) {
        if (shader_lane_on(&w->active, i) && index[i] >= l->ubos[slot].n_vec4)
            return shader_fail(w, in, "constant %u of the %u in buffer %u",
                               index[i], l->ubos[slot].n_vec4, slot);
        at[i] = l->ubos[slot].va + 16ull * index[i] + 4u * in->comp1;
    }
    return true;
}

static bool
addresses(struct shader_wave *w, const struct shader_insn *in, uint64_t *at)
{
    uint32_t i;

    switch ((int)in->layout) {
    case SHADER_AS_LDG:
    case SHADER_AS_STG:
        if (!wide_address(w, in, at))
            return false;
        for (i = 0; i < w->n_lanes; i++)
            at[i] += (uint64_t)(int64_t)in->imm;
        return true;
    case SHADER_AS_LDG_A6:
    case SHADER_AS_LDG_A7:
    case SHADER_AS_STG_A6:
    case SHADER_AS_STG_A7:
        return indexed_address(w, in, at);
    case SHADER_AS_BY_SLOT:
        return slot_address(w, in, at);
    case SHADER_AS_LDC:
        return ubo_address(w, in, at);
    case SHADER_AS_ATOMIC_AT:
        if (in->word >> 52 & 1)
            return wide_address(w, in, at);
        return narrow_address(w, in, at);
    default:
        return narrow_address(w, in, at);
    }
}

/* ---- atomics ---- */

static bool
atomic_op(struct shader_wave *w, const struct shader_insn *in, uint32_t old,
          uint32_t value, uint32_t other, uint32_t *out)
{
    bool is_signed = in->type == SHADER_S32;

    switch ((int)in->op) {
    case SHADER_ATOMIC_ADD:
    case SHADER_ATOMIC_G_ADD:
    case SHADER_ATOMIC_B_ADD:
        *out = old + value;
        return true;
    case SHADER_ATOMIC_SUB:
    case SHADER_ATOMIC_G_SUB:
    case SHADER_ATOMIC_B_SUB:
        *out = old - value;
        return true;
    case SHADER_ATOMIC_XCHG:
    case SHADER_ATOMIC_G_XCHG:
    case SHADER_ATOMIC_B_XCHG:
        *out = value;
        return true;
    case SHADER_ATOMIC_CMPXCHG:
    case SHADER_ATOMIC_G_CMPXCHG:
        *out = old == other ? value : old;
        return true;
    case SHADER_ATOMIC_MIN:
    case SHADER_ATOMIC_G_MIN:
    case SHADER_ATOMIC_B_MIN:
        *out = (is_signed ? (int32_t)value < (int32_t)old : value < old) ? value
                                                                         : old;
        return true;
    case SHADER_ATOMIC_MAX:
    case SHADER_ATOMIC_G_MAX:
    case SHADER_ATOMIC_B_MAX:
        *out = (is_signed ? (int32_t)value > (int32_t)old : value > old) ? value
                                                                         : old;
        return true;
    case SHADER_ATOMIC_AND:
    case SHADER_ATOMIC_G_AND:
    case SHADER_ATOMIC_B_AND:
        *out = old & value;
        return true;
    case SHADER_ATOMIC_OR:
    case SHADER_ATOMIC_G_OR:
    case SHADER_ATOMIC_B_OR:
        *out = old | value;
        return true;
    case SHADER_ATOMIC_XOR:
    case SHADER_ATOMIC_G_XOR:
    case SHADER_ATOMIC_B_XOR:
        *out = old ^ value;
        return true;
    }
    return shader_fail(w, in, "is not known here");
}

static bool
run_atomic(struct shader_wave *w, const struct shader_insn *in)
{
    bool by_slot = in->layout == SHADER_AS_BY_SLOT;
    bool is_local = !by_slot && !(in->word >> 52 & 1);
    uint32_t value[SHADER_MAX_LANES], other[SHADER_MAX_LANES] = {0};
    uint32_t first = in->src[2].v + (by_slot ? 1 : 0), next, i;
    struct plan p = {.n_bytes = 4};
    uint8_t *host;

    if (in->type != SHADER_U32 && in->type != SHADER_S32)
        return shader_fail(w, in, "only of 32 bits");
    if (!addresses(w, in, p.at) || !shader_get(w, in, first, false, value))
        return false;
    if ((in->op == SHADER_ATOMIC_CMPXCHG ||
         in->op == SHADER_ATOMIC_G_CMPXCHG) &&
        !shader_get(w, in, first + 1, false, other))
        return false;
    for (i = 0; i < w->n_lanes; i++) {
        if (!shader_lane_on(&w->active, i))
            continue;
        if (is_local && p.at[i] % 4 == 0 &&
            p.at[i] + 4 <= w->group->launch->shared_bytes)
            host = w->group->shared + p.at[i];
        else if (is_local)
            return shader_fail(w, in, "local byte %llu",
                               (unsigned long long)p.at[i]);
        else
            host = host_at(w, in, p.at[i], 4, SHADER_ATOMIC);
        if (!host)
            return false;
        memcpy(&p.data[0][i], host, 4);
        if (!atomic_op(w, in, p.data[0][i], value[i], other[i], &next))
            return false;
        memcpy(host, &next, 4);
    }
    if (in->dst == SHADER_NO_REG)
        return true;
    return shader_put(w, in, in->dst, false, p.data[0]);
}

bool
shader_memory(struct shader_wave *w, const struct shader_insn *in)
{
    struct plan p = {.n_bytes = bytes_of(in->type)};
    bool is_local = in->op == SHADER_LDL || in->op == SHADER_STL;
    uint32_t c;

    if (in->layout == SHADER_AS_INFO) {
        if (in->op != SHADER_RESINFO_B)
            return shader_fail(w, in, "is not known here");
        if (in->slot >= w->group->launch->n_slots)
            return shader_fail(w, in, "slot %u is empty", in->slot);
        for (c = 0; c < w->n_lanes; c++)
            p.data[0][c] = w->group->launch->slots[in->slot].n_elems;
        return in->dst == SHADER_NO_REG ||
               shader_put(w, in, in->dst, in->dst_half, p.data[0]);
    }
    if (in->layout == SHADER_AS_ATOMIC_AT ||
        (in->layout == SHADER_AS_BY_SLOT && in->op != SHADER_LDIB_B &&
         in->op != SHADER_STIB_B))
        return run_atomic(w, in);
    if (!addresses(w, in, p.at))
        return false;
    for (c = 0; is_store(in) && c < in->n; c++) {
        if (!shader_get(w, in, in->src[2].v + c, in->src[2].is_half, p.data[c]))
            return false;
    }
    if (is_local ? !access_shared(w, in, &p) : !access_global(w, in, &p))
        return false;
    if (w->group->counts && in->op != SHADER_LDC)
        count_access(w, in, &p);
    for (c = 0; !is_store(in) && c < in->n; c++) {
        if (!shader_put(w, in, in->dst + c, in->dst_half, p.data[c]))
            return false;
    }
    return true;
}
