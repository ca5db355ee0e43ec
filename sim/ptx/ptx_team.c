/* multimem: memory that members of a team have at one address. A load gives
 * the sum, or what else, of all; a store or a reduction goes to all.
 *
 * The order in which members are added is nobody's to rely on: here it starts
 * with another member every 16 bytes.
 * src: PTX ISA 9.0, "multimem"; docs/hardware/nvidia-code.md, "Multicast".
 */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

/* Two halves in float32, `i` of them from the low one on. */
static double
half_of(unsigned type, uint64_t bits, unsigned i)
{
    return px_decode(type, bits >> 16 * i & 0xffff);
}

/* A sum of halves, or of pairs of them, with one rounding. */
static uint64_t
sum_wide(const struct px_insn *in, const uint64_t *values, uint32_t n)
{
    unsigned n_parts = px_types[in->type].bits / 16, i;
    unsigned type =
        in->type == PX_F16 || in->type == PX_F16X2 ? PX_F16 : PX_BF16;
    uint64_t bits = 0;
    uint32_t k;

    for (i = 0; i < n_parts; i++) {
        float sum = (float)half_of(type, values[0], i);

        for (k = 1; k < n; k++)
            sum += (float)half_of(type, values[k], i);
        bits |= (px_encode(type, (double)sum) & 0xffff) << 16 * i;
    }
    return bits;
}

static uint64_t
combine(const struct px_insn *in, const uint64_t *values, uint32_t n)
{
    uint64_t v = values[0];
    uint32_t k;

    if (in->mod[PX_MOD_HALF])
        return sum_wide(in, values, n);
    for (k = 1; k < n; k++)
        v = px_eval_atom(in, v, values[k], 0);
    return v;
}

static void
load_team_lane(struct px_run *r, struct px_warp *w, const struct px_insn *in,
               uint32_t lane, uint64_t va, uint8_t *const *members, uint32_t n)
{
    const struct px_ref *refs = px_operands(r, in);
    uint32_t size = px_types[in->type].bits / 8u, i, k;
    uint64_t values[SIM_PTX_TEAM_MAX];

    for (i = 0; i < in->n_vec; i++) {
        for (k = 0; k < n; k++) {
            values[k] = 0;
            memcpy(&values[k], members[(va / 16 + k) % n] + i * size, size);
        }
        px_set(px_write(w, refs[i], 1u << lane), refs[i].bits, lane,
               combine(in, values, n));
    }
}

static void
put_lane(struct px_run *r, const void *const from[PX_MAX_VEC],
         const struct px_insn *in, uint32_t lane, uint8_t *const *members,
         uint32_t n)
{
    const struct px_ref *refs = px_operands(r, in);
    uint32_t size = px_types[in->type].bits / 8u, i, k;

    for (i = 0; i < in->n_vec; i++) {
        uint64_t v = px_get(from[i], refs[i].bits, lane);

        for (k = 0; k < n; k++) {
            if (in->mod[PX_MOD_BOOL] == PX_TEAM_RED)
                px_exchange(members[k] + i * size, size, in, v, 0);
            else
                memcpy(members[k] + i * size, &v, size);
        }
    }
}

/* The members' memory; 0 after a fault. */
static uint32_t
find_members(struct px_run *r, const struct px_warp *w,
             const struct px_insn *in, uint32_t lane, uint64_t va,
             uint32_t n_bytes, uint8_t *members[SIM_PTX_TEAM_MAX])
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    bool is_write = in->mod[PX_MOD_BOOL] != PX_TEAM_LOAD;
    uint32_t n = 0;

    r->report->is_write = is_write;
    if (va % n_bytes) {
        px_fault(r, w, lane, in, SIM_PTX_MISALIGNED, va,
                 "a misaligned address");
        return 0;
    }
    if (mem->team)
        n = mem->team(mem->user, va, n_bytes, is_write, members);
    if (n == 0)
        px_fault(r, w, lane, in, SIM_PTX_UNMAPPED, va,
                 "no team's memory there");
    return n;
}

void
px_do_team(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask)
{
    bool loads = in->mod[PX_MOD_BOOL] == PX_TEAM_LOAD;
    struct px_span s = {.w = w, .in = in, .mask = mask};
    uint32_t n_bytes = px_types[in->type].bits / 8u * in->n_vec, left, n, i;
    const void *from[PX_MAX_VEC];
    uint8_t *members[SIM_PTX_TEAM_MAX];
    uint64_t addr[PX_LANES];

    assert(in->n_vec >= 1 && in->n_vec <= PX_MAX_VEC);
    if (!px_addresses(r, &s, in->src[0], in->offset, addr))
        return;
    for (i = 0; !loads && i < in->n_vec; i++) {
        from[i] = px_read(r, w, in, px_operands(r, in)[i], mask);
        if (!from[i])
            return;
    }
    for (left = mask; left; left &= left - 1) {
        uint32_t lane = px_first(left);

        n = find_members(r, w, in, lane, addr[lane], n_bytes, members);
        if (n == 0)
            return;
        if (loads)
            load_team_lane(r, w, in, lane, addr[lane], members, n);
        else
            put_lane(r, from, in, lane, members, n);
    }
}
