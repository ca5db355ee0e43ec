/* Memory accesses of a warp: addresses of all lanes, where they lie in host
 * memory, and the data. */
#include "sim/ptx/ptx_exec.h"

#include <string.h>

#include "sim/ptx/ptx_rows.h"

#define WINDOW_BYTES ((uint64_t)1 << 24)

/* ---- addresses ---- */

bool
px_addresses(struct px_run *r, const struct px_span *s, struct px_ref ref,
             int64_t offset, uint64_t out[PX_LANES])
{
    const void *a = px_read(r, s->w, s->in, ref, s->mask);
    uint32_t i;

    if (!a)
        return false;
    if (ref.bits == 64) {
        for (i = 0; i < PX_LANES; i++)
            out[i] = ((const uint64_t *)a)[i] + (uint64_t)offset;
    } else {
        for (i = 0; i < PX_LANES; i++)
            out[i] = ((const uint32_t *)a)[i] + (uint64_t)offset;
    }
    return true;
}

static void
fault_at(struct px_run *r, const struct px_span *s, uint32_t lane,
         enum sim_ptx_fault fault, uint64_t va, const char *what)
{
    r->report->is_write = s->is_write;
    px_fault(r, s->w, lane, s->in, fault, va, what);
}

/* The first lane whose access is wrong is the one that is told of. */
static bool
fault_misaligned(struct px_run *r, const struct px_span *s,
                 const uint64_t *addr)
{
    uint32_t left;

    for (left = s->mask; left; left &= left - 1) {
        if (addr[px_first(left)] & (s->n_bytes - 1))
            break;
    }
    fault_at(r, s, px_first(left), SIM_PTX_MISALIGNED, addr[px_first(left)],
             "a misaligned address");
    return false;
}

/* In a block of memory that all lanes share, or of which each has its own
 * `stride` bytes further on. */
static bool
in_block(struct px_run *r, const struct px_span *s, uint8_t *base,
         uint64_t size, size_t stride, const uint64_t *addr,
         uint8_t *out[PX_LANES], const char *what)
{
    uint32_t lane;

    for (lane = 0; lane < PX_LANES; lane++) {
        if (addr[lane] > size || s->n_bytes > size - addr[lane]) {
            fault_at(r, s, s->mask >> lane & 1 ? lane : px_first(s->mask),
                     SIM_PTX_OUT_OF_RANGE, addr[lane], what);
            return false;
        }
        out[lane] = base + lane * stride + addr[lane];
    }
    return true;
}

static bool
in_shared(struct px_run *r, const struct px_span *s, const uint64_t *addr,
          uint8_t *out[PX_LANES])
{
    if (!in_block(r, s, r->shared, r->shared_bytes, 0, addr, out,
                  "outside of shared memory"))
        return false;
    r->judges_races &= s->is_judged;
    if (__builtin_expect(r->counts != NULL, 0))
        px_count_access(r->counts, s, addr, true);
    return s->is_write ? px_shared_write(r, s, addr)
                       : px_shared_read(r, s, addr);
}

static bool
in_local(struct px_run *r, const struct px_span *s, const uint64_t *addr,
         uint8_t *out[PX_LANES])
{
    uint32_t size = r->kernel->local_bytes;

    return in_block(r, s, s->w->local, size, size, addr, out,
                    "outside of local memory");
}

/* ---- global memory ---- */

/* What `at` says, remembered for a page; NULL: nothing there. */
static uint8_t *
find_global(struct px_run *r, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    uint64_t page = va >> r->page_log2;
    struct px_tlb *t = &r->tlb[page % PX_TLB_SIZE];
    uint8_t *p;

    if (mem->page_bytes && t->host && t->page == page &&
        (t->is_writable || !is_write))
        return t->host + (va - (page << r->page_log2));
    p = mem->at ? mem->at(mem->user, va, n_bytes, is_write) : NULL;
    if (p && mem->page_bytes)
        *t = (struct px_tlb){page, p - (va - (page << r->page_log2)), is_write};
    return p;
}

/* src: PTX ISA, ld: what ld.global.nc reads is read-only for the whole launch;
 * its cache does not see who writes. */
static bool
judge_nc(struct px_run *r, const struct px_span *s, const uint64_t *addr)
{
    bool is_nc =
        !s->is_write && s->in->op == PX_LD && s->in->mod[PX_MOD_CACHE] == 2;
    uint32_t left, i;

    for (left = is_nc || s->is_write ? s->mask : 0; left; left &= left - 1) {
        for (i = 0; i < s->n_bytes; i++) {
            uint64_t va = addr[px_first(left)] + i;
            uint64_t *was = map_get(&r->nc, va >> 4);
            uint64_t read = (uint64_t)1 << (va & 15), wrote = read << 16;
            uint64_t now = (was ? *was : 0) | (is_nc ? read : wrote);
            if ((now & read) && (now & wrote)) {
                fault_at(r, s, px_first(left), SIM_PTX_RACE, va,
                         "memory that ld.global.nc reads and the launch "
                         "writes");
                return false;
            }
            if (map_put(&r->nc, va >> 4, now) != 0) {
                px_exhausted(r);
                return false;
            }
        }
    }
    return true;
}

/* Some memory of the launch is another card's: each lane's access counts,
 * neighbours to one page together. */
static void
count_crossing(const struct px_run *r, const struct px_span *s,
               const uint64_t *addr)
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    uint32_t left, n_bytes = 0;
    uint64_t first = 0;

    for (left = s->mask; left; left &= left - 1) {
        uint64_t va = addr[px_first(left)];

        if (n_bytes &&
            (!mem->page_bytes || va >> r->page_log2 != first >> r->page_log2)) {
            mem->count(mem->user, first, n_bytes, s->is_write);
            n_bytes = 0;
        }
        first = n_bytes ? first : va;
        n_bytes += s->n_bytes;
    }
    mem->count(mem->user, first, n_bytes, s->is_write);
}

static bool
in_global(struct px_run *r, const struct px_span *s, const uint64_t *addr,
          uint64_t min, uint64_t max, uint8_t *out[PX_LANES])
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    uint32_t lane, first = px_first(s->mask);
    uint8_t *p = find_global(r, addr[first], s->n_bytes, s->is_write);

    if (__builtin_expect(r->counts != NULL, 0))
        px_count_access(r->counts, s, addr, false);
    if (__builtin_expect(r->kernel->has_nc, 0) && !judge_nc(r, s, addr))
        return false;
    if (p && r->page_log2 && min >> r->page_log2 == max >> r->page_log2) {
        for (lane = 0; lane < PX_LANES; lane++)
            out[lane] = p + (int64_t)(addr[lane] - addr[first]);
        if (__builtin_expect(mem->count && *mem->crosses, 0))
            count_crossing(r, s, addr);
        return true;
    }
    for (lane = 0; lane < PX_LANES; lane++) {
        out[lane] = p;
        if (addr[lane] != addr[first])
            out[lane] = find_global(r, addr[lane], s->n_bytes, s->is_write);
        if (!out[lane]) {
            fault_at(r, s, s->mask >> lane & 1 ? lane : first, SIM_PTX_UNMAPPED,
                     addr[lane], "no memory there");
            return false;
        }
    }
    if (__builtin_expect(mem->count && *mem->crosses, 0))
        count_crossing(r, s, addr);
    return true;
}

static bool
in_window(uint64_t va, uint64_t window)
{
    return window && va >= window && va - window < WINDOW_BYTES;
}

/* Generic addresses of several kinds: lane by lane. */
static bool
in_mixed(struct px_run *r, const struct px_span *s, const uint64_t *addr,
         uint8_t *out[PX_LANES])
{
    uint64_t alone[PX_LANES];
    uint8_t *found[PX_LANES];
    struct px_span one = *s;
    uint32_t left, lane, i;

    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        one.mask = 1u << lane;
        for (i = 0; i < PX_LANES; i++)
            alone[i] = addr[lane];
        if (!px_resolve(r, &one, alone, found))
            return false;
        out[lane] = found[lane];
    }
    for (lane = 0; lane < PX_LANES; lane++) {
        if (!(s->mask >> lane & 1))
            out[lane] = out[px_first(s->mask)];
    }
    return true;
}

static bool
in_generic(struct px_run *r, const struct px_span *s, uint64_t *addr,
           uint64_t min, uint64_t max, uint8_t *out[PX_LANES])
{
    uint64_t shared = r->launch->shared_window_va;
    uint64_t local = r->launch->local_window_va, window;
    bool to_shared = in_window(min, shared), to_local = in_window(min, local);
    uint32_t lane;

    if (in_window(max, shared) != to_shared ||
        in_window(max, local) != to_local)
        return in_mixed(r, s, addr, out);
    window = to_shared ? shared : to_local ? local : 0;
    for (lane = 0; lane < PX_LANES; lane++)
        addr[lane] -= window;
    if (to_shared)
        return in_shared(r, s, addr, out);
    if (to_local)
        return in_local(r, s, addr, out);
    /* a window may lie between them */
    if ((min < shared && max > shared) || (min < local && max > local)) {
        for (lane = 0; lane < PX_LANES; lane++) {
            if (in_window(addr[lane], shared) || in_window(addr[lane], local))
                return in_mixed(r, s, addr, out);
        }
    }
    return in_global(r, s, addr, min, max, out);
}

bool
px_resolve(struct px_run *r, const struct px_span *s, uint64_t addr[PX_LANES],
           uint8_t *out[PX_LANES])
{
    const struct sim_ptx_launch *l = r->launch;
    uint64_t any = 0, min = UINT64_MAX, max = 0;
    uint32_t lane;

    if (s->mask != PX_FULL) {
        uint64_t first = addr[px_first(s->mask)];
        for (lane = 0; lane < PX_LANES; lane++)
            addr[lane] = s->mask >> lane & 1 ? addr[lane] : first;
    }
    for (lane = 0; lane < PX_LANES; lane++) {
        any |= addr[lane];
        min = addr[lane] < min ? addr[lane] : min;
        max = addr[lane] > max ? addr[lane] : max;
    }
    if (any & (s->n_bytes - 1))
        return fault_misaligned(r, s, addr);
    switch (s->space) {
    case PX_SHARED:
        return in_shared(r, s, addr, out);
    case PX_LOCAL:
        return in_local(r, s, addr, out);
    case PX_PARAM:
        /* loads only: the parser sees to it, of constants too */
        return in_block(r, s, (uint8_t *)(uintptr_t)l->args, l->args_bytes, 0,
                        addr, out, "outside of the parameters");
    case PX_CONST:
        return in_block(r, s, (uint8_t *)(uintptr_t)l->const_bank,
                        l->const_bytes, 0, addr, out,
                        "outside of the constants");
    case PX_GENERIC:
        return in_generic(r, s, addr, min, max, out);
    default:
        return in_global(r, s, addr, min, max, out);
    }
}

/* ---- loads ---- */

/* What lies at `p` in a register; `order`: others may write it meanwhile. */
static inline uint64_t
fetch(const uint8_t *p, unsigned n_bytes, bool order)
{
    uint64_t v64;
    uint32_t v32;
    uint16_t v16;

    switch (n_bytes) {
    case 1:
        return order ? __atomic_load_n(p, __ATOMIC_ACQUIRE) : *p;
    case 2:
        if (order)
            return __atomic_load_n((const uint16_t *)p, __ATOMIC_ACQUIRE);
        memcpy(&v16, p, sizeof(v16));
        return v16;
    case 4:
        if (order)
            return __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
        memcpy(&v32, p, sizeof(v32));
        return v32;
    default:
        if (order)
            return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
        memcpy(&v64, p, sizeof(v64));
        return v64;
    }
}

/* Words into words, which most loads are. */
static void
load_words(uint8_t *const ptr[PX_LANES], uint32_t at, uint32_t *out)
{
    uint32_t lane;

    for (lane = 0; lane < PX_LANES; lane++)
        memcpy(&out[lane], ptr[lane] + at, 4);
}

static void
load_any(const struct px_insn *in, uint8_t *const ptr[PX_LANES], uint32_t at,
         unsigned bits, void *out)
{
    const struct px_type_info *type = &px_types[in->type];
    bool order = in->mod[PX_MOD_ORDER] != 0;
    uint32_t lane, size = type->bits / 8u;
    uint64_t v;

    for (lane = 0; lane < PX_LANES; lane++) {
        v = fetch(ptr[lane] + at, size, order);
        if (type->kind == 's')
            v = (uint64_t)px_sign_extend(v, type->bits) & px_mask(bits);
        px_set(out, bits, lane, v);
    }
}

/* Four words of each lane. */
static void
load_quads(uint8_t *const ptr[PX_LANES], uint32_t *const out[4])
{
    uint32_t t[4], lane, i;

    for (lane = 0; lane < PX_LANES; lane++) {
        memcpy(t, ptr[lane], sizeof(t));
        for (i = 0; i < 4; i++)
            out[i][lane] = t[i];
    }
}

/* All lanes load words, as most loads do; false where they do not. */
static bool
load_all_words(struct px_run *r, const struct px_span *s,
               uint8_t *const ptr[PX_LANES])
{
    const struct px_insn *in = s->in;
    const struct px_ref *refs = px_operands(r, in);
    uint32_t *out[PX_MAX_VEC], i;

    if (s->mask != PX_FULL || px_types[in->type].bits != 32 ||
        in->mod[PX_MOD_ORDER])
        return false;
    for (i = 0; i < in->n_vec; i++) {
        if (refs[i].bits != 32)
            return false;
        out[i] = px_write(s->w, refs[i], PX_FULL);
    }
    if (in->n_vec == 4) {
        load_quads(ptr, out);
        return true;
    }
    for (i = 0; i < in->n_vec; i++)
        load_words(ptr, i * 4, out[i]);
    return true;
}

static void
load_thread(struct px_run *r, const struct px_span *s,
            uint8_t *const ptr[PX_LANES])
{
    const struct px_insn *in = s->in;
    const struct px_ref *refs = px_operands(r, in);
    uint32_t size = px_types[in->type].bits / 8u, i;
    uint64_t scratch[PX_LANES];
    void *dst, *to;

    if (load_all_words(r, s, ptr))
        return;
    for (i = 0; i < in->n_vec; i++) {
        dst = px_write(s->w, refs[i], s->mask);
        to = s->mask == PX_FULL ? dst : scratch;
        load_any(in, ptr, i * size, refs[i].bits, to);
        if (to != dst)
            px_blend(dst, to, s->mask, refs[i].bits == 64);
    }
}

/* ---- stores ---- */

static inline void
put_bytes(uint8_t *p, unsigned n_bytes, bool order, uint64_t v)
{
    uint32_t v32 = (uint32_t)v;
    uint16_t v16 = (uint16_t)v;

    switch (n_bytes) {
    case 1:
        if (order)
            __atomic_store_n(p, (uint8_t)v, __ATOMIC_RELEASE);
        else
            *p = (uint8_t)v;
        break;
    case 2:
        if (order)
            __atomic_store_n((uint16_t *)p, v16, __ATOMIC_RELEASE);
        else
            memcpy(p, &v16, sizeof(v16));
        break;
    case 4:
        if (order)
            __atomic_store_n((uint32_t *)p, v32, __ATOMIC_RELEASE);
        else
            memcpy(p, &v32, sizeof(v32));
        break;
    default:
        if (order)
            __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
        else
            memcpy(p, &v, sizeof(v));
        break;
    }
}

/* All lanes store four words each; false where they do not. */
static bool
store_quads(struct px_run *r, const struct px_span *s,
            const void *const from[PX_MAX_VEC], uint8_t *const ptr[PX_LANES])
{
    const struct px_ref *refs = px_operands(r, s->in);
    const uint32_t *rows[4];
    uint32_t t[4], lane, i;

    if (s->mask != PX_FULL || px_types[s->in->type].bits != 32 ||
        s->in->n_vec != 4 || s->in->mod[PX_MOD_ORDER])
        return false;
    for (i = 0; i < 4; i++) {
        if (refs[i].bits != 32)
            return false;
        rows[i] = from[i];
    }
    for (lane = 0; lane < PX_LANES; lane++) {
        for (i = 0; i < 4; i++)
            t[i] = rows[i][lane];
        memcpy(ptr[lane], t, sizeof(t));
    }
    return true;
}

static void
store(struct px_run *r, const struct px_span *s,
      const void *const from[PX_MAX_VEC], uint8_t *const ptr[PX_LANES])
{
    const struct px_ref *refs = px_operands(r, s->in);
    uint32_t size = px_types[s->in->type].bits / 8u, left, lane, i;
    bool order = s->in->mod[PX_MOD_ORDER] != 0;

    if (store_quads(r, s, from, ptr))
        return;
    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        for (i = 0; i < s->in->n_vec; i++)
            put_bytes(ptr[lane] + i * size, size, order,
                      px_get(from[i], refs[i].bits, lane));
    }
}

/* What a misaligned store to global memory leaves behind: the fault comes too
 * late to hold it back, and the low bits of its address are dropped. observed:
 * H100, 2026-11-22, with 32 bits by one lane; guess: all widths and lanes. */
static void
store_rounded(struct px_run *r, const struct px_span *s,
              const void *const from[PX_MAX_VEC], const uint64_t *addr)
{
    const struct sim_ptx_launch *l = r->launch;
    bool is_generic = s->space == PX_GENERIC;
    struct px_span one = *s;
    uint8_t *ptr[PX_LANES];
    uint32_t left, lane;
    uint64_t va;

    if (s->space != PX_GLOBAL && !is_generic)
        return;
    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        va = addr[lane] & ~(uint64_t)(s->n_bytes - 1);
        if (is_generic && (in_window(va, l->shared_window_va) ||
                           in_window(va, l->local_window_va)))
            continue;
        ptr[lane] = find_global(r, va, s->n_bytes, true);
        one.mask = 1u << lane;
        if (ptr[lane])
            store(r, &one, from, ptr);
    }
}

/* ---- atomics ---- */

uint64_t
px_exchange(uint8_t *p, unsigned n_bytes, const struct px_insn *in, uint64_t b,
            uint64_t c)
{
    uint64_t old = fetch(p, n_bytes, true), v;
    uint16_t old16;
    uint32_t old32;
    bool done;

    do {
        v = px_eval_atom(in, old, b, c);
        old16 = (uint16_t)old;
        old32 = (uint32_t)old;
        if (n_bytes == 2) {
            done = __atomic_compare_exchange_n(
                (uint16_t *)p, &old16, (uint16_t)v, false, __ATOMIC_SEQ_CST,
                __ATOMIC_SEQ_CST);
            old = old16;
        } else if (n_bytes == 4) {
            done = __atomic_compare_exchange_n(
                (uint32_t *)p, &old32, (uint32_t)v, false, __ATOMIC_SEQ_CST,
                __ATOMIC_SEQ_CST);
            old = old32;
        } else {
            done =
                __atomic_compare_exchange_n((uint64_t *)p, &old, v, false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        }
    } while (!done);
    return old;
}

static void
atomic_lanes(struct px_run *r, const struct px_span *s,
             uint8_t *const ptr[PX_LANES])
{
    const struct px_insn *in = s->in;
    const void *b = px_read(r, s->w, in, in->src[1], s->mask), *c = b;
    uint32_t left, lane;
    uint64_t old[PX_LANES];
    void *dst;

    if (b && in->src[2].row != PX_NO_ROW)
        c = px_read(r, s->w, in, in->src[2], s->mask);
    if (!b || !c)
        return;
    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        old[lane] = px_exchange(ptr[lane], s->n_bytes, in,
                                px_get(b, in->src[1].bits, lane),
                                px_get(c, in->src[c == b ? 1 : 2].bits, lane));
    }
    if (in->op == PX_RED)
        return;
    dst = px_write(s->w, in->dst, s->mask);
    for (left = s->mask; left; left &= left - 1)
        px_set(dst, in->dst.bits, px_first(left), old[px_first(left)]);
}

/* ---- */

/* A parameter or constant at an address that is the same for all: most are. */
static bool
load_uniform(struct px_run *r, struct px_warp *w, const struct px_insn *in,
             uint32_t mask)
{
    const struct sim_ptx_launch *l = r->launch;
    bool is_param = in->mod[PX_MOD_SPACE] == PX_PARAM;
    const struct px_ref *refs = px_operands(r, in);
    uint32_t size = px_types[in->type].bits / 8u, left;
    uint64_t at, end = is_param ? l->args_bytes : l->const_bytes, v;
    const uint8_t *base = is_param ? l->args : l->const_bank;
    void *dst;

    if (in->op != PX_LD || in->src[0].row >= 0 || in->n_vec != 1 ||
        (!is_param && in->mod[PX_MOD_SPACE] != PX_CONST))
        return false;
    at = *(const uint64_t *)r->consts[2 * (size_t)~in->src[0].row] +
         (uint64_t)in->offset;
    if (at > end || size > end - at || at & (size - 1))
        return false; /* a fault: found again */
    v = fetch(base + at, size, false);
    if (px_types[in->type].kind == 's')
        v = (uint64_t)px_sign_extend(v, size * 8) & px_mask(refs[0].bits);
    dst = px_write(w, refs[0], mask);
    for (left = mask; left; left &= left - 1)
        px_set(dst, refs[0].bits, px_first(left), v);
    return true;
}

void
px_access(struct px_run *r, struct px_warp *w, const struct px_insn *in,
          uint32_t mask)
{
    bool is_atomic = in->op == PX_ATOM || in->op == PX_RED;
    uint32_t n_vec = is_atomic ? 1 : in->n_vec, i;
    unsigned order = in->mod[PX_MOD_ORDER];
    struct px_span s = {
        .w = w,
        .in = in,
        .mask = mask,
        .n_bytes = px_types[in->type].bits / 8u * n_vec,
        .space = in->mod[PX_MOD_SPACE],
        .is_write = in->op != PX_LD,
        .is_judged = !is_atomic && (!order || order == PX_WEAK),
    };
    const void *from[PX_MAX_VEC];
    uint64_t addr[PX_LANES];
    uint8_t *ptr[PX_LANES];

    if (load_uniform(r, w, in, mask) ||
        !px_addresses(r, &s, in->src[0], in->offset, addr))
        return;
    for (i = 0; in->op == PX_ST && i < n_vec; i++) {
        from[i] = px_read(r, w, in, px_operands(r, in)[i], mask);
        if (!from[i])
            return;
    }
    if (!px_resolve(r, &s, addr, ptr)) {
        if (in->op == PX_ST && r->report->fault == SIM_PTX_MISALIGNED)
            store_rounded(r, &s, from, addr);
        return;
    }
    if (in->op == PX_LD)
        load_thread(r, &s, ptr);
    else if (in->op == PX_ST)
        store(r, &s, from, ptr);
    else
        atomic_lanes(r, &s, ptr);
}
