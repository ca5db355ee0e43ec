/* cp.async: what is copied is read at once, and written to shared memory only
 * when the lane waits for it; until then those bytes must not be touched. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

/* Bytes that are read; the rest is filled with zeros. */
static bool
read_bytes(struct px_run *r, const struct px_span *s, uint32_t size,
           uint32_t out[PX_LANES])
{
    const struct px_insn *in = s->in;
    const uint32_t *n = NULL;
    uint32_t left, lane;

    assert(size <= 16);
    if (in->src[2].row != PX_NO_ROW) {
        n = px_read(r, s->w, in, in->src[2], s->mask);
        if (!n)
            return false;
    }
    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        out[lane] = n ? n[lane] : size;
        if (out[lane] > size) {
            px_fault(r, s->w, lane, in, SIM_PTX_OUT_OF_RANGE, out[lane],
                     "reads more than it copies");
            return false;
        }
    }
    return true;
}

static void
put_copies(struct px_run *r, const struct px_span *s, const uint64_t *to,
           const uint32_t *n_read, uint8_t *const from[PX_LANES])
{
    struct px_warp *w = s->w;
    uint32_t left, lane;

    assert(s->n_bytes > 0 && s->n_bytes <= 16);
    if (host_grow((void **)&w->copies, &w->cap_copies, w->n_copies + PX_LANES,
                  sizeof(*w->copies)) < 0) {
        px_exhausted(r);
        return;
    }
    for (left = s->mask; left; left &= left - 1) {
        struct px_copy *c = &w->copies[w->n_copies++];
        lane = px_first(left);
        memset(c->data, 0, sizeof(c->data));
        if (n_read[lane])
            memcpy(c->data, from[lane], n_read[lane]);
        c->at = (uint32_t)to[lane];
        c->lane = (uint8_t)lane;
        c->group = w->n_committed[lane];
        c->n_bytes = (uint8_t)s->n_bytes;
    }
}

static void
do_copy(struct px_run *r, struct px_warp *w, const struct px_insn *in,
        uint32_t mask)
{
    struct px_span s = {.w = w,
                        .in = in,
                        .mask = mask,
                        .n_bytes = in->target,
                        .space = PX_SHARED,
                        .is_write = true,
                        .is_judged = true};
    const uint64_t *offset = px_read(r, w, in, in->src[3], mask);
    uint64_t to[PX_LANES], from[PX_LANES];
    uint32_t n_read[PX_LANES] = {0}, left;
    uint8_t *ptr[PX_LANES] = {NULL};

    assert(in->op == PX_COPY);
    assert(in->op == PX_COPY);
    if (!px_addresses(r, &s, in->src[0], in->offset, to) ||
        !px_resolve(r, &s, to, ptr) || !read_bytes(r, &s, in->target, n_read))
        return;
    for (left = mask; left; left &= left - 1) {
        uint32_t lane = px_first(left);
        if (!px_shared_promise(r, &s, lane, (uint32_t)to[lane], true))
            return;
        if (n_read[lane] == 0)
            s.mask &= ~(1u << lane); /* the address that it is read from does
                                      * not matter */
    }
    s.is_write = false;
    s.space = PX_GLOBAL;
    if (s.mask && (!px_addresses(r, &s, in->src[1], (int64_t)offset[0], from) ||
                   !px_resolve(r, &s, from, ptr)))
        return;
    s.mask = mask;
    put_copies(r, &s, to, n_read, ptr);
}

/* Writes what lanes of the mask have waited for: all but their last `keep`
 * groups; keep < 0: all, also those of no group. */
static void
await_copies(struct px_run *r, struct px_warp *w, const struct px_insn *in,
             uint32_t mask, int64_t keep)
{
    size_t n = 0, i;

    for (i = 0; i < w->n_copies; i++) {
        const struct px_copy *c = &w->copies[i];
        if (!(mask >> c->lane & 1) ||
            (keep >= 0 && c->group + keep >= w->n_committed[c->lane])) {
            w->copies[n++] = *c;
            continue;
        }
        memcpy(r->shared + c->at, c->data, c->n_bytes);
        px_shared_land(r, w, c->at, c->n_bytes);
    }
    w->n_copies = n;
    (void)in;
}

void
px_do_async(struct px_run *r, struct px_warp *w, const struct px_insn *in,
            uint32_t mask)
{
    uint32_t left;

    if (in->op == PX_COPY) {
        do_copy(r, w, in, mask);
    } else if (in->op == PX_AWAIT) {
        await_copies(r, w, in, mask, in->offset);
    } else {
        for (left = mask; left; left &= left - 1)
            w->n_committed[px_first(left)]++;
    }
}
