/* Memory accesses of a warp, lane by lane. */
#include "sim/nv/ptx_exec.h"

#include <string.h>

#define WINDOW_BYTES ((uint64_t)1 << 24)

/* One lane's access. */
struct access {
    struct px_warp *w;
    const struct px_insn *in;
    uint32_t lane, n_bytes;
    uint64_t va;
    bool is_write;
};

static void
fault_at(struct px_run *r, const struct access *a, enum sim_ptx_fault fault,
         const char *what)
{
    r->report->is_write = a->is_write;
    px_fault(r, a->w, a->lane, a->in, fault, a->va, what);
}

/* Bytes at..at+n-1 of a block of memory; NULL after a fault. */
static void *
inside(struct px_run *r, const struct access *a, uint8_t *base, uint64_t size,
       uint64_t at, const char *what)
{
    if (at > size || a->n_bytes > size - at) {
        fault_at(r, a, SIM_PTX_OUT_OF_RANGE, what);
        return NULL;
    }
    return base + at;
}

static void *
in_shared(struct px_run *r, const struct access *a, uint64_t at)
{
    return inside(r, a, r->shared, r->shared_bytes, at,
                  "outside of shared memory");
}

static void *
in_local(struct px_run *r, const struct access *a, uint64_t at)
{
    uint32_t size = r->kernel->local_bytes;

    return inside(r, a, a->w->local + (size_t)a->lane * size, size, at,
                  "outside of local memory");
}

static void *
in_global(struct px_run *r, const struct access *a)
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    void *ptr =
        mem->at ? mem->at(mem->user, a->va, a->n_bytes, a->is_write) : NULL;

    if (!ptr)
        fault_at(r, a, SIM_PTX_UNMAPPED, "no memory there");
    return ptr;
}

static bool
in_window(uint64_t va, uint64_t window)
{
    return window && va >= window && va - window < WINDOW_BYTES;
}

static void *
find_memory(struct px_run *r, const struct access *a)
{
    const struct sim_ptx_launch *l = r->launch;
    uint64_t va = a->va;

    if (va & (a->n_bytes - 1)) {
        fault_at(r, a, SIM_PTX_MISALIGNED, "a misaligned address");
        return NULL;
    }
    switch (a->in->mod[PX_MOD_SPACE]) {
    case PX_SHARED:
        return in_shared(r, a, va);
    case PX_LOCAL:
        return in_local(r, a, va);
    case PX_PARAM:
        /* loads only: the parser sees to it */
        return inside(r, a, (uint8_t *)(uintptr_t)l->args, l->args_bytes, va,
                      "outside of the parameters");
    case PX_GENERIC:
        if (in_window(va, l->shared_window_va))
            return in_shared(r, a, va - l->shared_window_va);
        if (in_window(va, l->local_window_va))
            return in_local(r, a, va - l->local_window_va);
        return in_global(r, a);
    default:
        return in_global(r, a);
    }
}

/* ---- */

static void
load(struct px_run *r, struct access *a, const uint64_t *addr, uint32_t mask)
{
    const struct px_type_info *type = &px_types[a->in->type];
    uint32_t size = type->bits / 8, i;
    uint64_t *out[PX_MAX_VEC];

    for (i = 0; i < a->in->n_vec; i++)
        out[i] = a->w->rows[a->in->vec[i]];
    for (a->lane = 0; a->lane < PX_LANES; a->lane++) {
        const uint8_t *ptr;
        if (!(mask >> a->lane & 1))
            continue;
        a->va = addr[a->lane] + (uint64_t)a->in->offset;
        ptr = find_memory(r, a);
        if (!ptr)
            return;
        for (i = 0; i < a->in->n_vec; i++) {
            uint64_t v = 0;
            memcpy(&v, ptr + i * size, size);
            if (type->kind == 's')
                v = (uint64_t)px_sign_extend(v, type->bits);
            out[i][a->lane] = v & px_mask(a->in->dst_bits);
        }
    }
    for (i = 0; i < a->in->n_vec; i++)
        a->w->defined[a->in->vec[i]] |= mask;
}

static void
store(struct px_run *r, struct access *a, const uint64_t *addr, uint32_t mask)
{
    uint32_t size = px_types[a->in->type].bits / 8u, i;
    const uint64_t *from[PX_MAX_VEC];

    a->is_write = true;
    for (i = 0; i < a->in->n_vec; i++) {
        from[i] = px_read(r, a->w, a->in, a->in->vec[i], mask);
        if (!from[i])
            return;
    }
    for (a->lane = 0; a->lane < PX_LANES; a->lane++) {
        uint8_t *ptr;
        if (!(mask >> a->lane & 1))
            continue;
        a->va = addr[a->lane] + (uint64_t)a->in->offset;
        ptr = find_memory(r, a);
        if (!ptr)
            return;
        for (i = 0; i < a->in->n_vec; i++)
            memcpy(ptr + i * size, &from[i][a->lane], size);
    }
}

static void
atomic(struct px_run *r, struct access *a, const uint64_t *addr, uint32_t mask)
{
    uint32_t size = a->n_bytes;
    const uint64_t *b, *c = addr;
    px_row old;

    a->is_write = true;
    b = px_read(r, a->w, a->in, a->in->src[1], mask);
    if (b && a->in->src[2] != PX_NO_ROW)
        c = px_read(r, a->w, a->in, a->in->src[2], mask);
    if (!b || !c)
        return;
    for (a->lane = 0; a->lane < PX_LANES; a->lane++) {
        uint64_t v;
        void *ptr;
        if (!(mask >> a->lane & 1))
            continue;
        a->va = addr[a->lane] + (uint64_t)a->in->offset;
        ptr = find_memory(r, a);
        if (!ptr)
            return;
        old[a->lane] = 0;
        memcpy(&old[a->lane], ptr, size);
        v = px_eval_atom(a->in, old[a->lane], b[a->lane], c[a->lane]);
        memcpy(ptr, &v, size);
        if (a->in->op == PX_ATOM)
            px_write(a->w, a->in->dst, 1u << a->lane)[a->lane] = old[a->lane];
    }
}

void
px_access(struct px_run *r, struct px_warp *w, const struct px_insn *in,
          uint32_t mask)
{
    uint32_t n_vec = in->n_vec ? in->n_vec : 1;
    struct access a = {
        .w = w, .in = in, .n_bytes = px_types[in->type].bits / 8u * n_vec};
    const uint64_t *addr = px_read(r, w, in, in->src[0], mask);
    px_row copy;

    if (!addr)
        return;
    /* the destination may be the address */
    memcpy(copy, addr, sizeof(copy));
    if (in->op == PX_LD)
        load(r, &a, copy, mask);
    else if (in->op == PX_ST)
        store(r, &a, copy, mask);
    else
        atomic(r, &a, copy, mask);
}
