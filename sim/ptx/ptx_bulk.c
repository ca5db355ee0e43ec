/* mbarriers, and cp.async.bulk.tensor, which copies a box of a matrix to shared
 * memory and tells an mbarrier so. src: PTX ISA, mbarrier, tensors and
 * cp.async.bulk.tensor. A tensor map's bits: what ptxas 13.0 makes of each
 * tensormap.replace, and CUDA's maps. observed: H100, 2026-11-23.
 *
 * A copy's source is read at once. It is written as late as it may be: when a
 * thread asks for a phase whose arrivals and bytes are complete. A warp sees it
 * if it has awaited that phase itself, or another has and a barrier of the
 * block came between. Known are tiles without interleaving, with swizzles of
 * 128 bytes or none, and zeros outside. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define CHUNK     16 /* bytes that swizzles keep together */
#define MAX_DIMS  5
#define MAP_WORDS 32
#define MAX_COUNT ((1u << 20) - 1) /* of arrivals, and of bytes */

/* A phase's number in what a chunk was written by; 0: none. */
#define PHASE_BITS 24

struct px_mbarrier {
    uint32_t at; /* in shared memory */
    uint32_t count, pending;
    int64_t n_expected; /* bytes, of this phase */
    uint32_t phase;     /* the one that is not complete */
    uint32_t warp;      /* that has made it, */
    bool is_common;     /* and a barrier came since */
    bool is_fenced;     /* for other proxies */
    uint32_t seen[32];  /* by warp: phases that it knows to be complete */
};

/* A box under way. */
struct px_box {
    uint8_t *data; /* owned */
    uint32_t mbarrier, at, n_bytes;
};

static bool
bad_bulk(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
         uint32_t lane, enum sim_ptx_fault fault, uint64_t at, const char *what)
{
    assert(lane < PX_LANES);
    px_fault(r, w, lane, in, fault, at, what);
    return false;
}

/* ---- mbarriers ---- */

static void
init_mbarrier(struct px_run *r, struct px_warp *w, const struct px_insn *in,
              uint32_t lane, uint32_t at, uint32_t count)
{
    struct px_mbarrier *b = r->mbarriers;
    uint32_t i;

    assert(lane < PX_LANES && r->n_mbarriers <= PX_MAX_MBARRIERS);
    for (i = 0; i < r->n_mbarriers && b[i].at != at; i++)
        ;
    if (i < r->n_mbarriers || i == PX_MAX_MBARRIERS) {
        bad_bulk(r, w, in, lane, SIM_PTX_RACE, at,
                 "an mbarrier that is there already, or too many");
        return;
    }
    if (at % 8 || at + 8 > r->shared_bytes || !count || count > MAX_COUNT) {
        bad_bulk(r, w, in, lane, SIM_PTX_MISALIGNED, at,
                 "no place for an mbarrier, or no count");
        return;
    }
    r->mbarriers[r->n_mbarriers++] = (struct px_mbarrier){
        .at = at, .count = count, .pending = count, .warp = w->number};
}

/* The one at `at` that this warp may use; NULL after a fault. */
static struct px_mbarrier *
find_mbarrier(struct px_run *r, struct px_warp *w, const struct px_insn *in,
              uint32_t lane, uint64_t at)
{
    uint32_t i;

    assert(lane < PX_LANES && r->n_mbarriers <= PX_MAX_MBARRIERS);
    for (i = 0; i < r->n_mbarriers; i++) {
        struct px_mbarrier *b = &r->mbarriers[i];
        if (b->at != at)
            continue;
        if (b->is_common || b->warp == w->number)
            return b;
        bad_bulk(r, w, in, lane, SIM_PTX_RACE, at,
                 "an mbarrier that another warp has made since the last "
                 "barrier");
        return NULL;
    }
    bad_bulk(r, w, in, lane, SIM_PTX_UNDEFINED, at, "there is no mbarrier");
    return NULL;
}

/* Writes the boxes of the mbarrier's phase. */
static void
land(struct px_run *r, const struct px_mbarrier *b)
{
    uint32_t number = (uint32_t)(b - r->mbarriers), i;
    uint32_t id =
        (number + 1) << PHASE_BITS | (b->phase & ((1u << PHASE_BITS) - 1));
    size_t n = 0, k;

    for (k = 0; k < r->n_boxes; k++) {
        struct px_box *box = &r->boxes[k];
        if (box->mbarrier != number) {
            r->boxes[n++] = *box;
            continue;
        }
        memcpy(r->shared + box->at, box->data, box->n_bytes);
        px_shared_settle(r, box->at, box->n_bytes);
        for (i = box->at / CHUNK; i < (box->at + box->n_bytes) / CHUNK; i++)
            r->written_by[i] = id;
        host_free(box->data);
    }
    r->n_boxes = n;
}

static int64_t
bytes_under_way(const struct px_run *r, const struct px_mbarrier *b)
{
    int64_t n = 0;
    size_t i;

    for (i = 0; i < r->n_boxes; i++) {
        if (r->boxes[i].mbarrier == (uint32_t)(b - r->mbarriers))
            n += r->boxes[i].n_bytes;
    }
    return n;
}

/* Ends the phase if all have arrived and all bytes may have come. */
static void
end_phase(struct px_run *r, struct px_mbarrier *b)
{
    if (b->pending || b->n_expected != bytes_under_way(r, b))
        return;
    land(r, b);
    b->phase++;
    b->pending = b->count;
    b->n_expected = 0;
}

static void
expect(struct px_run *r, struct px_warp *w, const struct px_insn *in,
       uint32_t lane, struct px_mbarrier *b, uint32_t n)
{
    assert(lane < PX_LANES);
    if (b->pending == 0)
        bad_bulk(r, w, in, lane, SIM_PTX_RACE, b->at,
                 "an mbarrier whose phase nobody has awaited");
    else if (n > MAX_COUNT || b->n_expected + n > MAX_COUNT)
        bad_bulk(r, w, in, lane, SIM_PTX_OUT_OF_RANGE, b->at,
                 "an mbarrier counts fewer bytes");
    else
        b->n_expected += n;
}

/* Without bytes the phase ends at once; else when somebody asks. */
static void
arrive(struct px_run *r, struct px_warp *w, const struct px_insn *in,
       uint32_t lane, struct px_mbarrier *b)
{
    assert(lane < PX_LANES);
    if (b->pending == 0) {
        bad_bulk(r, w, in, lane, SIM_PTX_RACE, b->at,
                 "an mbarrier whose phase nobody has awaited");
        return;
    }
    b->pending--;
    if (b->n_expected < bytes_under_way(r, b))
        bad_bulk(r, w, in, lane, SIM_PTX_RACE, b->at,
                 "an mbarrier that expects fewer bytes than are copied");
    else if (b->n_expected == 0)
        end_phase(r, b);
}

static bool
try_wait(struct px_run *r, struct px_warp *w, struct px_mbarrier *b,
         uint32_t parity)
{
    assert(parity <= 1);
    if ((b->phase & 1) == parity)
        end_phase(r, b);
    if ((b->phase & 1) == parity)
        return false;
    b->seen[w->number] = b->phase;
    return true;
}

static void
do_mbarrier(struct px_run *r, struct px_warp *w, const struct px_insn *in,
            uint32_t mask)
{
    struct px_span s = {
        .w = w, .in = in, .mask = mask, .n_bytes = 8, .space = PX_SHARED};
    const uint32_t *value = NULL;
    uint64_t at[PX_LANES];
    uint32_t left, lane, yes = 0;

    assert(in->op > PX_MBAR && in->op < PX_BOX);
    if (!px_addresses(r, &s, in->src[0], in->offset, at))
        return;
    if (in->src[1].row != PX_NO_ROW) {
        value = px_read(r, w, in, in->src[1], mask);
        if (!value)
            return;
    }
    for (left = mask; left && !r->failed; left &= left - 1) {
        struct px_mbarrier *b;
        lane = px_first(left);
        if (in->op == PX_MBAR_INIT) {
            init_mbarrier(r, w, in, lane, (uint32_t)at[lane], value[lane]);
            continue;
        }
        b = find_mbarrier(r, w, in, lane, at[lane]);
        if (!b)
            return;
        if (in->op == PX_MBAR_EXPECT)
            expect(r, w, in, lane, b, value[lane]);
        else if (in->op == PX_MBAR_ARRIVE)
            arrive(r, w, in, lane, b);
        else if (try_wait(r, w, b, value[lane] & 1))
            yes |= 1u << lane;
    }
    if (in->op == PX_MBAR_WAIT)
        px_set_pred(w, in->dst, mask, yes);
}

/* ---- tensor maps ---- */

struct tensor_map {
    uint64_t address, n[MAX_DIMS], stride[MAX_DIMS];
    uint32_t n_dims, box[MAX_DIMS], elem_bytes;
    bool is_swizzled;
};

static bool
read_bulk_words(struct px_run *r, struct px_warp *w, const struct px_insn *in,
                uint32_t lane, uint64_t at, uint32_t words[MAP_WORDS])
{
    struct px_span s = {
        .w = w, .in = in, .mask = 0xff, .n_bytes = CHUNK, .space = PX_GENERIC};
    uint64_t addr[PX_LANES];
    uint8_t *ptr[PX_LANES];
    struct sim_counts *counts = r->counts;
    uint32_t i;
    bool ok;

    assert(lane < PX_LANES);
    if (at % 64)
        return bad_bulk(r, w, in, lane, SIM_PTX_MISALIGNED, at,
                        "a tensor map begins at multiples of 64");
    for (i = 0; i < 8; i++)
        addr[i] = at + i * CHUNK;
    r->counts = NULL; /* the same words each time */
    ok = px_resolve(r, &s, addr, ptr);
    r->counts = counts;
    if (!ok)
        return false;
    for (i = 0; i < 8; i++)
        memcpy(&words[4 * i], ptr[i], CHUNK);
    return true;
}

/* NULL, or what is wrong with it. */
static const char *
decode_map(const uint32_t *w, struct tensor_map *m)
{
    static const uint8_t sizes[16] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2};
    uint32_t d;

    m->address = w[0] | (uint64_t)w[1] << 32;
    m->n_dims = (w[2] >> 4 & 7) + 1;
    m->elem_bytes = sizes[w[2] >> 7 & 15];
    m->is_swizzled = (w[2] >> 13 & 3) == 3;
    m->stride[0] = m->elem_bytes;
    if (w[2] & ~0x0007fff0u || w[2] & 1u << 11 || w[2] & 1u << 12 ||
        w[2] & 1u << 15 || (!m->is_swizzled && w[2] & 3u << 13) ||
        w[13] & 0x7fff)
        return "a tensor map with something that is not known";
    if (m->n_dims > MAX_DIMS || !m->elem_bytes || m->address % CHUNK)
        return "a tensor map with a bad rank, type or address";
    for (d = 0; d < m->n_dims; d++) {
        uint32_t at = 13 * 32 + 24 + 8 * d;
        m->n[d] = (uint64_t)w[8 + d] + 1;
        m->box[d] = (w[at / 32] >> at % 32 & 255) + 1;
        if (d)
            m->stride[d] =
                (w[2 + d] | (uint64_t)(w[7] >> 4 * (d - 1) & 15) << 32) * CHUNK;
    }
    if (m->box[0] * m->elem_bytes % CHUNK ||
        (m->is_swizzled && m->box[0] * m->elem_bytes > 128))
        return "a box whose rows are too long, or not of 16 bytes";
    return NULL;
}

/* ---- boxes ---- */

/* Where a box lies partly outside, the device also reads where the matrix
 * begins. observed: H100, 2026-11-23, a fault at address 0. */
static bool
read_begin(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           const struct tensor_map *m)
{
    struct px_span s = {
        .w = w, .in = in, .mask = 1, .n_bytes = CHUNK, .space = PX_GLOBAL};
    uint64_t addr[PX_LANES] = {m->address};
    uint8_t *ptr[PX_LANES];

    return px_resolve(r, &s, addr, ptr);
}

/* One row of a box: what lies inside, then zeros. */
static bool
read_row(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         const struct tensor_map *m, const int32_t *x, bool inside,
         uint8_t *out)
{
    struct px_span s = {.w = w, .in = in, .mask = 1, .space = PX_GLOBAL};
    uint64_t va = m->address, addr[PX_LANES];
    uint8_t *ptr[PX_LANES];
    uint32_t i, d, size = m->elem_bytes;

    memset(out, 0, (size_t)m->box[0] * size);
    if (!inside && !read_begin(r, w, in, m))
        return false;
    for (d = 0; d < m->n_dims; d++)
        va += (uint64_t)(int64_t)x[d] * m->stride[d];
    for (i = 0; i < m->box[0] && inside; i += s.n_bytes / size) {
        int64_t column = (int64_t)x[0] + i;
        bool whole = column >= 0 && column % (CHUNK / size) == 0 &&
                     i % (CHUNK / size) == 0 &&
                     (uint64_t)column + CHUNK / size <= m->n[0] &&
                     (va + i * size) % CHUNK == 0;
        s.n_bytes = whole ? CHUNK : size;
        if (column < 0 || (uint64_t)column >= m->n[0]) {
            if (!read_begin(r, w, in, m))
                return false;
            continue;
        }
        addr[0] = va + (uint64_t)i * size;
        if (!px_resolve(r, &s, addr, ptr))
            return false;
        memcpy(out + i * size, ptr[0], s.n_bytes);
    }
    return true;
}

/* Where byte `n` of the box goes, from its place on. */
static uint32_t
place_of(const struct tensor_map *m, uint32_t to, uint32_t n)
{
    uint32_t at = to + n;

    return m->is_swizzled ? (at ^ (at >> 3 & 0x70)) - to : n;
}

/* A row of a box is counted at once, not as read_row reads it. */
static void
count_row(struct sim_counts *counts, const struct tensor_map *m,
          const int32_t *x)
{
    int64_t begin = x[0] < 0 ? 0 : x[0], end = (int64_t)x[0] + m->box[0];
    uint64_t va = m->address + (uint64_t)begin * m->elem_bytes;
    uint32_t d;

    for (d = 1; d < m->n_dims; d++)
        va += (uint64_t)x[d] * m->stride[d];
    end = end > (int64_t)m->n[0] ? (int64_t)m->n[0] : end;
    if (begin < end)
        sim_count_global(counts, &va, 1,
                         (uint32_t)(end - begin) * m->elem_bytes, false);
}

static bool
read_box(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         const struct tensor_map *m, const int32_t *from, struct px_box *box)
{
    uint32_t row_bytes = m->box[0] * m->elem_bytes, row, d, i;
    struct sim_counts *counts = r->counts;
    uint8_t *line = host_alloc(row_bytes);
    bool ok = line != NULL;

    for (row = 0; row < box->n_bytes / row_bytes && ok; row++) {
        uint32_t rest = row;
        int32_t x[MAX_DIMS] = {from[0]};
        bool inside = true;
        for (d = 1; d < m->n_dims; d++) {
            x[d] = from[d] + (int32_t)(rest % m->box[d]);
            rest /= m->box[d];
            inside = inside && x[d] >= 0 && (uint64_t)x[d] < m->n[d];
        }
        r->counts = NULL;
        ok = read_row(r, w, in, m, x, inside, line);
        r->counts = counts;
        if (counts && inside)
            count_row(counts, m, x);
        for (i = 0; i < row_bytes && ok; i += CHUNK)
            memcpy(box->data + place_of(m, box->at, row * row_bytes + i),
                   line + i, CHUNK);
    }
    host_free(line);
    return ok;
}

/* Is the place free? It is the copy's from now on. */
static bool
take_place(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t lane, const struct px_box *box)
{
    struct px_span s = {.w = w,
                        .in = in,
                        .mask = 1u << lane,
                        .n_bytes = CHUNK,
                        .space = PX_SHARED,
                        .is_write = true,
                        .is_judged = true};
    uint32_t at;

    assert(lane < PX_LANES);
    for (at = box->at; at < box->at + box->n_bytes; at += CHUNK) {
        if (!px_shared_promise(r, &s, lane, at, false))
            return false;
    }
    return true;
}

static void
do_box(struct px_run *r, struct px_warp *w, const struct px_insn *in,
       uint32_t lane, uint64_t to, uint64_t mbarrier)
{
    const struct px_ref *refs = px_operands(r, in);
    const uint64_t *map = px_read(r, w, in, refs[0], 1u << lane);
    uint32_t words[MAP_WORDS], d, row_bytes;
    struct px_box box = {.at = (uint32_t)to};
    struct px_mbarrier *b = find_mbarrier(r, w, in, lane, mbarrier);
    int32_t from[MAX_DIMS] = {0};
    struct tensor_map m;
    const char *wrong;

    assert(lane < PX_LANES && in->op == PX_BOX);
    if (!map || !b || !read_bulk_words(r, w, in, lane, map[lane], words))
        return;
    wrong = decode_map(words, &m);
    if (!wrong && m.n_dims != in->target)
        wrong = "a tensor map of another rank";
    if (wrong || to % 128) {
        bad_bulk(r, w, in, lane, SIM_PTX_BAD_LAUNCH, map[lane],
                 wrong ? wrong : "a box begins at multiples of 128");
        return;
    }
    if (!b->is_fenced || !b->pending) {
        bad_bulk(r, w, in, lane, SIM_PTX_RACE, mbarrier,
                 "an mbarrier without a fence.mbarrier_init, or whose phase "
                 "nobody has awaited");
        return;
    }
    row_bytes = m.box[0] * m.elem_bytes;
    box.n_bytes = row_bytes;
    for (d = 0; d < m.n_dims; d++) {
        const uint32_t *x = px_read(r, w, in, refs[1 + d], 1u << lane);
        if (!x)
            return;
        from[d] = (int32_t)x[lane];
        box.n_bytes *= d ? m.box[d] : 1;
    }
    box.mbarrier = (uint32_t)(b - r->mbarriers);
    if (to + box.n_bytes > r->shared_bytes) {
        bad_bulk(r, w, in, lane, SIM_PTX_OUT_OF_RANGE, to,
                 "outside of shared memory");
        return;
    }
    if (!take_place(r, w, in, lane, &box))
        return;
    box.data = host_alloc(box.n_bytes);
    if (!box.data || host_grow((void **)&r->boxes, &r->cap_boxes,
                               r->n_boxes + 1, sizeof(*r->boxes)) < 0) {
        host_free(box.data);
        px_exhausted(r);
        return;
    }
    r->boxes[r->n_boxes++] = box;
    if (!read_box(r, w, in, &m, from, &box) && !r->failed)
        px_exhausted(r);
}

static void
do_boxes(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    struct px_span s = {
        .w = w, .in = in, .mask = mask, .n_bytes = CHUNK, .space = PX_SHARED};
    const uint64_t *offset = px_read(r, w, in, in->src[3], mask);
    uint64_t to[PX_LANES], mbarrier[PX_LANES];

    if (!px_addresses(r, &s, in->src[0], in->offset, to) ||
        !px_addresses(r, &s, in->src[1], (int64_t)offset[0], mbarrier))
        return;
    for (; mask && !r->failed; mask &= mask - 1)
        do_box(r, w, in, px_first(mask), to[px_first(mask)],
               mbarrier[px_first(mask)]);
}

void
px_do_bulk(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask)
{
    uint32_t i;

    if (in->op == PX_BOX) {
        do_boxes(r, w, in, mask);
    } else if (in->op == PX_MBAR_FENCE) {
        for (i = 0; i < r->n_mbarriers; i++)
            r->mbarriers[i].is_fenced |= r->mbarriers[i].warp == w->number;
    } else {
        do_mbarrier(r, w, in, mask);
    }
}

/* ---- what others see ---- */

bool
px_bulk_read(struct px_run *r, const struct px_span *s, uint32_t lane,
             uint32_t at)
{
    uint32_t i, id;

    assert(lane < PX_LANES && at < r->shared_bytes);
    for (i = at / CHUNK; i <= (at + s->n_bytes - 1) / CHUNK; i++) {
        id = r->written_by[i];
        if (id && r->mbarriers[(id >> PHASE_BITS) - 1].seen[s->w->number] <=
                      (id & ((1u << PHASE_BITS) - 1)))
            return bad_bulk(r, s->w, s->in, lane, SIM_PTX_RACE, at,
                            "shared memory that a bulk copy has written, which "
                            "this warp has not awaited");
    }
    return true;
}

void
px_bulk_write(struct px_run *r, uint32_t at, uint32_t n_bytes)
{
    uint32_t i;

    assert((uint64_t)at + n_bytes <= r->shared_bytes);
    for (i = at / CHUNK; r->written_by && i <= (at + n_bytes - 1) / CHUNK; i++)
        r->written_by[i] = 0;
}

void
px_bulk_barrier(struct px_run *r)
{
    uint32_t i, j, most;

    for (i = 0; i < r->n_mbarriers; i++) {
        struct px_mbarrier *b = &r->mbarriers[i];
        b->is_common = true;
        for (most = 0, j = 0; j < r->n_warps; j++)
            most = b->seen[j] > most ? b->seen[j] : most;
        for (j = 0; j < r->n_warps; j++)
            b->seen[j] = most;
    }
}

/* ---- the state ---- */

bool
px_bulk_alloc(struct px_run *r)
{
    if (!r->kernel->has_bulk)
        return true;
    r->mbarriers = host_calloc(PX_MAX_MBARRIERS, sizeof(*r->mbarriers));
    r->written_by =
        host_calloc(r->shared_bytes / CHUNK + 1, sizeof(*r->written_by));
    return r->mbarriers && r->written_by;
}

void
px_bulk_begin(struct px_run *r)
{
    size_t i;

    for (i = 0; i < r->n_boxes; i++)
        host_free(r->boxes[i].data);
    r->n_boxes = 0;
    r->n_mbarriers = 0;
    if (r->written_by)
        memset(r->written_by, 0,
               (r->shared_bytes / CHUNK + 1) * sizeof(*r->written_by));
}

void
px_bulk_free(struct px_run *r)
{
    px_bulk_begin(r);
    host_free(r->boxes);
    host_free(r->mbarriers);
    host_free(r->written_by);
}
