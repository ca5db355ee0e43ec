/* wgmma: matrix instructions of four warps, whose operands lie in shared
 * memory, and which go on while the warps do. src: PTX ISA, Asynchronous
 * Warpgroup Level Matrix Instructions; what it leaves open, from an H100.
 *
 * What it computes is known at once. Until wgmma.wait_group its accumulators
 * are not to be touched and what it reads, registers too, is not to be written:
 * both are errors here. It reads by the async proxy, so what threads have
 * written, also by cp.async, needs a fence.proxy.async first. Each batch needs
 * a wgmma.fence. Only descriptors with swizzles of 128 bytes are known. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/ptx/ptx_rows.h"

#define GROUP_WARPS 4
#define CHUNK       16 /* bytes that swizzles keep together */
#define HELD_WORDS  4  /* of A, of 2-byte elements, in a thread */

/* An operand in shared memory. */
struct operand {
    uint32_t at, lead, stride; /* bytes; of a descriptor */
    bool turned;
    uint8_t type;
    uint32_t first, n, k; /* rows of A or columns of B; steps */
};

static bool
bad_wgmma(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
          enum sim_ptx_fault fault, uint64_t at, const char *what)
{
    px_fault(r, w, 0, in, fault, at, what);
    return false;
}

/* ---- operands ---- */

static uint32_t
type_bytes(unsigned type)
{
    return type == PX_TF32 ? 4 : px_types[type].bits / 8u;
}

/* A descriptor, the same in all lanes. */
static bool
take_descriptor(struct px_run *r, const struct px_warp *w,
                const struct px_insn *in, uint32_t which, struct operand *out)
{
    const uint64_t *row = px_read(r, w, in, in->src[which], PX_FULL);
    uint64_t d;
    uint32_t lane;

    assert(which < 2);
    if (!row)
        return false;
    d = row[0];
    for (lane = 1; lane < PX_LANES; lane++) {
        if (row[lane] != d)
            return bad_wgmma(r, w, in, SIM_PTX_UNDEFINED, row[lane],
                             "lanes have different descriptors");
    }
    if (d >> 62 != 1 || d & 0x3fffc000c000c000u)
        return bad_wgmma(r, w, in, SIM_PTX_BAD_LAUNCH, d,
                         "only descriptors of 128-byte swizzles are known");
    out->at = (uint32_t)(d & 0x3fff) * CHUNK;
    out->lead = (uint32_t)(d >> 16 & 0x3fff) * CHUNK;
    out->stride = (uint32_t)(d >> 32 & 0x3fff) * CHUNK;
    out->turned = in->offset >> which & 1;
    out->type = which ? in->type2 : in->type;
    out->k = 32 / type_bytes(out->type);
    if (out->at & 0x380)
        return bad_wgmma(r, w, in, SIM_PTX_MISALIGNED, out->at,
                         "the matrix begins within a swizzle");
    return true;
}

/* Where element (i, step) lies, i being its row in A or column in B. */
static uint32_t
place(const struct operand *o, uint32_t i, uint32_t step)
{
    uint32_t bytes = type_bytes(o->type), at = o->at;

    if (o->turned)
        at += i / 64 * o->lead + step / 8 * o->stride + step % 8 * 128 +
              i % 64 * bytes;
    else
        at += i / 8 * o->stride + i % 8 * 128 + step * bytes;
    return at ^ (at >> 3 & 0x70);
}

/* Calls for each chunk of an operand; false: stop. */
static bool
for_chunks(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           const struct operand *o,
           bool (*fn)(struct px_run *r, struct px_warp *w,
                      const struct px_insn *in, uint32_t at))
{
    uint32_t each = CHUNK / type_bytes(o->type), i, step;
    uint32_t by_row = o->turned ? each : 1, by_step = o->turned ? 1 : each;

    for (i = o->first; i < o->first + o->n; i += by_row) {
        for (step = 0; step < o->k; step += by_step) {
            if (!fn(r, w, in, place(o, i, step)))
                return false;
        }
    }
    return true;
}

static bool
begin_read(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t at)
{
    struct px_span s = {.w = w,
                        .in = in,
                        .mask = 1,
                        .n_bytes = CHUNK,
                        .space = PX_SHARED,
                        .is_judged = true};
    uint64_t place_of[PX_LANES] = {at};
    uint32_t i;

    if (at + CHUNK > r->shared_bytes)
        return bad_wgmma(r, w, in, SIM_PTX_OUT_OF_RANGE, at,
                         "outside of shared memory");
    if (!px_shared_read(r, &s, place_of))
        return false;
    for (i = at; i < at + CHUNK; i++) {
        if (r->unfenced[i])
            return bad_wgmma(
                r, w, in, SIM_PTX_RACE, i,
                "shared memory written without a fence.proxy.async");
    }
    r->async_reads[at / CHUNK]++;
    return true;
}

static bool
end_read(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t at)
{
    (void)w;
    (void)in;
    r->async_reads[at / CHUNK]--;
    return true;
}

static bool
is_held(const struct px_insn *in)
{
    return in->offset & PX_WGMMA_HELD;
}

/* The registers of A that threads hold. */
static const struct px_ref *
held_refs(const struct px_run *r, const struct px_insn *in)
{
    return px_operands(r, in) + in->target / 2;
}

/* A that threads hold: that all of it is there. Nothing of it lies in shared
 * memory. */
static bool
take_held(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
          struct operand *out)
{
    const struct px_ref *refs = held_refs(r, in);
    uint32_t i;

    for (i = 0; i < HELD_WORDS; i++) {
        if (!px_read(r, w, in, refs[i], PX_FULL))
            return false;
    }
    *out = (struct operand){.type = in->type, .k = 32 / type_bytes(in->type)};
    return true;
}

/* A's 16 rows of this warp, and B. */
static bool
wgmma_operands(struct px_run *r, const struct px_warp *w,
               const struct px_insn *in, struct operand o[2])
{
    if (is_held(in) ? !take_held(r, w, in, &o[0])
                    : !take_descriptor(r, w, in, 0, &o[0]))
        return false;
    if (!take_descriptor(r, w, in, 1, &o[1]))
        return false;
    if (!is_held(in)) {
        o[0].first = w->number % GROUP_WARPS * 16;
        o[0].n = 16;
    }
    o[1].first = 0;
    o[1].n = in->target;
    return true;
}

/* The element of row i and that step, as mma.sync has its A of 2-byte
 * elements. */
static double
held_element(const struct px_insn *in, const px_row *held, uint32_t i,
             uint32_t step)
{
    uint32_t word = held[i / 8 + 2 * (step / 8)][i % 8 * 4 + step % 8 / 2];

    return px_decode(in->type, word >> 16 * (step % 2) & 0xffff);
}

static double
wgmma_element(const struct px_run *r, const struct operand *o, uint32_t i,
              uint32_t step)
{
    uint32_t at = place(o, i, step), v = 0;

    memcpy(&v, r->shared + at, type_bytes(o->type));
    return px_decode(o->type, v);
}

/* ---- accumulators ---- */

/* All warps of a group do the same. */
static bool
is_in_step(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           const struct operand o[2])
{
    struct px_wgmma_group *g = &r->wgmma_groups[w->number / GROUP_WARPS];
    uint64_t key = hash_add(hash_add((uintptr_t)in, o[0].at), o[1].at);
    uint32_t at = w->n_wgmma++;

    if (r->n_warps % GROUP_WARPS)
        return bad_wgmma(r, w, in, SIM_PTX_BARRIER, 0,
                         "the block's warps are not groups of four");
    if (at == g->n) {
        g->keys[g->n++ % PX_WGMMA_KEYS] = key;
        return true;
    }
    if (at + PX_WGMMA_KEYS >= g->n && g->keys[at % PX_WGMMA_KEYS] != key)
        return bad_wgmma(r, w, in, SIM_PTX_BARRIER, 0,
                         "the warps of a group do not do the same");
    return true;
}

/* Accumulators that are under way may be added to; others must have been
 * written. */
static bool
take_acc(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         struct px_ref ref)
{
    if (!w->under_way[ref.row])
        return px_read(r, w, in, ref, PX_FULL) != NULL;
    return w->defined[ref.row] == 0 ||
           bad_wgmma(r, w, in, SIM_PTX_RACE, 0,
                     "an accumulator was written before wgmma.wait_group");
}

static void
multiply_wgmma(struct px_run *r, struct px_warp *w, const struct px_insn *in,
               const struct operand o[2], const px_row *held, bool adds)
{
    const struct px_ref *refs = px_operands(r, in);
    double a[16][PX_MAX_K], b[PX_MAX_K][8], c[16][8];
    uint32_t i, k, j, lane;
    float f;

    memset(a, 0, sizeof(a));
    for (i = 0; i < 16; i++) {
        for (k = 0; k < o[0].k; k++)
            a[i][k] = is_held(in) ? held_element(in, held, i, k)
                                  : wgmma_element(r, &o[0], o[0].first + i, k);
    }
    for (j = 0; j < in->target; j += 8) {
        for (k = 0; k < o[1].k; k++) {
            for (i = 0; i < 8; i++)
                b[k][i] = wgmma_element(r, &o[1], j + i, k);
        }
        for (i = 0; i < 4; i++) {
            const uint32_t *row = w->rows[refs[j / 2 + i].row];
            for (lane = 0; lane < PX_LANES; lane++) {
                memcpy(&f, &row[lane], sizeof(f));
                c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2] =
                    adds ? (double)f : 0;
            }
        }
        px_row_set()->multiply(c[0], a[0], b[0], o[0].k, false);
        for (i = 0; i < 4; i++) {
            uint32_t *row = w->rows[refs[j / 2 + i].row];
            for (lane = 0; lane < PX_LANES; lane++) {
                f = (float)c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
                memcpy(&row[lane], &f, sizeof(f));
                if (f != f)
                    row[lane] = 0x7fffffffu;
            }
        }
    }
}

static void
put_under_way(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    const struct px_ref *refs = px_operands(r, in);
    uint32_t i;

    assert(w->under_way);
    for (i = 0; i < in->target / 2; i++) {
        w->under_way[refs[i].row] = true;
        w->defined[refs[i].row] = 0;
    }
}

static void
do_wgmma(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    const struct px_ref *refs = px_operands(r, in);
    const uint32_t *p = px_read(r, w, in, in->src[2], PX_FULL);
    struct px_wgmma *entry;
    struct operand o[2];
    bool adds;
    uint32_t i;

    assert(in->op == PX_WGMMA);
    if (!p || !wgmma_operands(r, w, in, o) || !is_in_step(r, w, in, o))
        return;
    adds = *p & 1;
    if (!w->is_wgmma_fenced) {
        bad_wgmma(r, w, in, SIM_PTX_RACE, 0, "there was no wgmma.fence");
        return;
    }
    for (i = 0; i < in->target / 2; i++) {
        if ((adds || w->under_way[refs[i].row]) && !take_acc(r, w, in, refs[i]))
            return;
    }
    if (!for_chunks(r, w, in, &o[0], begin_read) ||
        !for_chunks(r, w, in, &o[1], begin_read))
        return;
    if (host_grow((void **)&w->wgmmas, &w->cap_wgmmas, w->n_wgmmas + 1,
                  sizeof(*w->wgmmas)) < 0) {
        px_exhausted(r);
        return;
    }
    entry = &w->wgmmas[w->n_wgmmas++];
    entry->in = in;
    entry->group = w->n_wgmma_commits;
    for (i = is_held(in) ? 1 : 0; i < 2; i++) {
        const uint64_t *d = px_read(r, w, in, in->src[i], PX_FULL);
        entry->descriptor[i] = d ? d[0] : 0;
    }
    for (i = 0; i < HELD_WORDS && is_held(in); i++)
        memcpy(entry->held[i], px_read(r, w, in, held_refs(r, in)[i], PX_FULL),
               sizeof(entry->held[i]));
    if (r->counts)
        px_count_matrix(r->counts, o[0].type, 2.0 * 16 * in->target * o[0].k);
    multiply_wgmma(r, w, in, o, (const px_row *)entry->held, adds);
    put_under_way(r, w, in);
}

/* ---- waiting ---- */

/* The memory that the entry reads may be written again, and its accumulators be
 * read. */
static bool
finish_wgmma(struct px_run *r, struct px_warp *w, const struct px_wgmma *entry)
{
    const struct px_ref *refs = px_operands(r, entry->in);
    struct operand o[2];
    uint32_t i;

    for (i = 0; i < HELD_WORDS && is_held(entry->in); i++) {
        const uint32_t *now =
            px_read(r, w, entry->in, held_refs(r, entry->in)[i], PX_FULL);
        if (now && memcmp(now, entry->held[i], sizeof(px_row)))
            return bad_wgmma(r, w, entry->in, SIM_PTX_RACE, 0,
                             "A was written before wgmma.wait_group");
    }
    for (i = is_held(entry->in) ? 1 : 0; i < 2; i++) {
        uint64_t d = entry->descriptor[i];
        o[i].at = (uint32_t)(d & 0x3fff) * CHUNK;
        o[i].lead = (uint32_t)(d >> 16 & 0x3fff) * CHUNK;
        o[i].stride = (uint32_t)(d >> 32 & 0x3fff) * CHUNK;
        o[i].turned = entry->in->offset >> i & 1;
        o[i].type = i ? entry->in->type2 : entry->in->type;
        o[i].k = 32 / type_bytes(o[i].type);
        o[i].first = i ? 0 : w->number % GROUP_WARPS * 16;
        o[i].n = i ? entry->in->target : 16;
        (void)for_chunks(r, w, entry->in, &o[i], end_read);
    }
    for (i = 0; i < entry->in->target / 2; i++) {
        int32_t row = refs[i].row;
        if (w->under_way[row] && w->defined[row])
            return bad_wgmma(
                r, w, entry->in, SIM_PTX_RACE, 0,
                "an accumulator was written before wgmma.wait_group");
        w->under_way[row] = false;
        w->defined[row] = PX_FULL;
    }
    return true;
}

static void
await_wgmma(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    size_t n = 0, i;

    assert(in->op == PX_WGMMA_AWAIT);
    for (i = 0; i < w->n_wgmmas; i++) {
        const struct px_wgmma *entry = &w->wgmmas[i];
        if (entry->group + (uint64_t)in->offset >= w->n_wgmma_commits)
            w->wgmmas[n++] = *entry;
        else if (!finish_wgmma(r, w, entry))
            return;
        else
            w->is_wgmma_fenced = false;
    }
    w->n_wgmmas = n;
    for (i = 0; i < n; i++)
        put_under_way(r, w, w->wgmmas[i].in);
}

void
px_do_wgmma(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    switch (in->op) {
    case PX_WGMMA:
        do_wgmma(r, w, in);
        break;
    case PX_WGMMA_FENCE:
        w->is_wgmma_fenced = true;
        break;
    case PX_WGMMA_COMMIT:
        w->n_wgmma_commits++;
        break;
    default:
        await_wgmma(r, w, in);
        break;
    }
}

/* ---- the state ---- */

bool
px_wgmma_alloc(struct px_run *r)
{
    uint32_t i;
    bool ok;

    if (!r->kernel->has_wgmma)
        return true;
    r->unfenced = host_calloc(r->shared_bytes + 16u, 1);
    r->async_reads =
        host_calloc(r->shared_bytes / CHUNK + 1u, sizeof(*r->async_reads));
    r->wgmma_groups =
        host_calloc(r->n_warps / GROUP_WARPS + 1, sizeof(*r->wgmma_groups));
    ok = r->unfenced && r->async_reads && r->wgmma_groups;
    for (i = 0; i < r->n_warps && ok; i++) {
        r->warps[i].under_way =
            host_calloc(r->kernel->n_rows + 1, sizeof(*r->warps[i].under_way));
        ok = r->warps[i].under_way != NULL;
    }
    return ok;
}

void
px_wgmma_free(struct px_run *r)
{
    uint32_t i;

    for (i = 0; i < r->n_warps && r->warps; i++) {
        host_free(r->warps[i].under_way);
        host_free(r->warps[i].wgmmas);
    }
    host_free(r->unfenced);
    host_free(r->async_reads);
    host_free(r->wgmma_groups);
}

void
px_wgmma_begin(struct px_run *r)
{
    const struct px_kernel *k = r->kernel;
    uint32_t i;

    if (!k->has_wgmma)
        return;
    memset(r->unfenced, 0, r->shared_bytes);
    memset(r->async_reads, 0,
           (r->shared_bytes / CHUNK + 1u) * sizeof(*r->async_reads));
    memset(r->wgmma_groups, 0,
           (r->n_warps / GROUP_WARPS + 1) * sizeof(*r->wgmma_groups));
    r->unfenced_begin = r->shared_bytes;
    r->unfenced_end = 0;
    for (i = 0; i < r->n_warps; i++) {
        struct px_warp *w = &r->warps[i];
        memset(w->under_way, 0, k->n_rows * sizeof(*w->under_way));
        w->n_wgmmas = 0;
        w->n_wgmma = w->n_wgmma_commits = 0;
        w->is_wgmma_fenced = false;
    }
}

/* ---- what threads write ---- */

bool
px_wgmma_write(struct px_run *r, uint32_t at, uint32_t n_bytes)
{
    uint32_t i;

    assert((uint64_t)at + n_bytes <= r->shared_bytes);
    if (!r->unfenced)
        return true;
    for (i = at / CHUNK; i <= (at + n_bytes - 1) / CHUNK; i++) {
        if (r->async_reads[i])
            return false;
    }
    memset(r->unfenced + at, 1, n_bytes);
    r->unfenced_begin = at < r->unfenced_begin ? at : r->unfenced_begin;
    if (at + n_bytes > r->unfenced_end)
        r->unfenced_end = at + n_bytes;
    return true;
}

bool
px_wgmma_bulk_write(struct px_run *r, uint32_t at, uint32_t n_bytes)
{
    uint32_t i;

    assert((uint64_t)at + n_bytes <= r->shared_bytes);
    for (i = at; r->unfenced && i < at + n_bytes; i++) {
        if (r->async_reads[i / CHUNK] || r->unfenced[i])
            return false;
    }
    return true;
}

/* This warp's stores are fenced, and those that it can see behind a barrier. */
void
px_proxy_fence(struct px_run *r, const struct px_warp *w)
{
    uint32_t i, left = 0;

    if (!r->unfenced || r->unfenced_begin >= r->unfenced_end)
        return;
    for (i = r->unfenced_begin; i < r->unfenced_end; i++) {
        if (r->writer[i] == 0 || r->writer[i] == w->number + 1)
            r->unfenced[i] = 0;
        left += r->unfenced[i];
    }
    if (left)
        return;
    r->unfenced_begin = r->shared_bytes;
    r->unfenced_end = 0;
}
