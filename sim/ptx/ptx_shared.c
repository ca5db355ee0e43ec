/* How shared memory is used: a byte that one warp writes and another reads or
 * writes without a barrier of the whole block between is an error, and so is
 * reading what nobody has written, or what a copy is still to write.
 *
 * Two bytes are kept for every byte: who wrote it and who read it since the
 * last barrier. A kernel whose threads may wait for each other in other ways
 * (atomics, barriers of some, ordered accesses) is not judged but for bytes
 * never written. Writing a byte that holds that value already is let pass.
 */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

#define NOBODY    0 /* 1 to 32: that warp's number plus 1 */
#define SEVERAL   253
#define PROMISED  254 /* by cp.async */
#define UNWRITTEN 255

#define EACH_BYTE 0x0101010101010101ull

void
px_shared_begin(struct px_run *r)
{
    /* what a block finds in shared memory is not its own: make it ugly */
    memset(r->shared, 0xa5, r->shared_bytes);
    memset(r->writer, UNWRITTEN, r->shared_bytes + 16u);
    memset(r->reader, NOBODY, r->shared_bytes + 16u);
    r->touched_begin = r->shared_bytes;
    r->touched_end = 0;
    r->judges_races = !r->kernel->has_shared_sync && r->n_warps > 1;
}

void
px_shared_barrier(struct px_run *r)
{
    uint32_t i;

    px_bulk_barrier(r);
    if (r->touched_begin >= r->touched_end)
        return;
    for (i = r->touched_begin; i < r->touched_end; i++)
        r->writer[i] = r->writer[i] < SEVERAL ? NOBODY : r->writer[i];
    memset(r->reader + r->touched_begin, NOBODY,
           r->touched_end - r->touched_begin);
    r->touched_begin = r->shared_bytes;
    r->touched_end = 0;
}

static void
touch(struct px_run *r, uint32_t begin, uint32_t end)
{
    assert(begin <= end && end <= r->shared_bytes);
    if (begin < r->touched_begin)
        r->touched_begin = begin;
    if (end > r->touched_end)
        r->touched_end = end;
}

static bool
bad_access(struct px_run *r, const struct px_span *s, uint32_t lane,
           uint32_t at, enum sim_ptx_fault fault, const char *what)
{
    assert(lane < PX_LANES);
    r->report->is_write = s->is_write;
    px_fault(r, s->w, lane, s->in, fault, at, what);
    return false;
}

/* Do the bytes all say `a` or all say `b`? */
static inline bool
all_are(const uint8_t *p, uint32_t n, unsigned a, unsigned b)
{
    uint64_t v, x = a * EACH_BYTE, y = b * EACH_BYTE;
    uint32_t v32;

    switch (n) {
    case 4:
        memcpy(&v32, p, 4);
        return v32 == (uint32_t)x || v32 == (uint32_t)y;
    case 8:
        memcpy(&v, p, 8);
        return v == x || v == y;
    case 16:
        return all_are(p, 8, a, b) && all_are(p + 8, 8, a, b);
    case 2:
        return (p[0] == a || p[0] == b) && (p[1] == a || p[1] == b);
    default:
        return p[0] == a || p[0] == b;
    }
}

static bool
check_writer(struct px_run *r, const struct px_span *s, uint32_t lane,
             uint32_t at, unsigned mine)
{
    uint32_t i;

    assert(lane < PX_LANES);
    for (i = at; i < at + s->n_bytes; i++) {
        unsigned who = r->writer[i];
        if (who == PROMISED)
            return bad_access(r, s, lane, i, SIM_PTX_RACE,
                              "shared memory that a copy is still to write");
        if (who == UNWRITTEN && !s->is_write)
            return bad_access(r, s, lane, i, SIM_PTX_UNDEFINED,
                              "shared memory that nobody has written");
        if (who != NOBODY && who != mine && who != UNWRITTEN && r->judges_races)
            return bad_access(
                r, s, lane, i, SIM_PTX_RACE,
                "shared memory that another warp has written since the "
                "last barrier");
    }
    return true;
}

/* One lane's read, where it is not simply fine. */
static bool
read_lane(struct px_run *r, const struct px_span *s, uint32_t lane, uint32_t at,
          unsigned mine)
{
    uint8_t *reader = r->reader + at;
    uint32_t i;

    assert(lane < PX_LANES);
    if (!all_are(r->writer + at, s->n_bytes, NOBODY, mine) &&
        !check_writer(r, s, lane, at, mine))
        return false;
    if (!r->judges_races)
        return true;
    touch(r, at, at + s->n_bytes);
    if (all_are(reader, s->n_bytes, mine, SEVERAL))
        return true;
    for (i = 0; i < s->n_bytes; i++)
        reader[i] =
            reader[i] == NOBODY || reader[i] == mine ? (uint8_t)mine : SEVERAL;
    return true;
}

/* Bytes that nobody else writes and that this warp has read before need no
 * second look; n is a constant where this is inlined. */
static inline bool
read_lanes(struct px_run *r, const struct px_span *s,
           const uint64_t at[PX_LANES], uint32_t n)
{
    unsigned mine = s->w->number + 1;
    uint64_t before = UINT64_MAX;
    uint32_t left, lane;

    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        if (at[lane] == before)
            continue;
        before = at[lane];
        if (all_are(r->writer + before, n, NOBODY, mine) &&
            (!r->judges_races || all_are(r->reader + before, n, mine, SEVERAL)))
            continue;
        if (!read_lane(r, s, lane, (uint32_t)before, mine))
            return false;
    }
    return true;
}

bool
px_shared_read(struct px_run *r, const struct px_span *s,
               const uint64_t at[PX_LANES])
{
    uint32_t left;

    for (left = r->written_by ? s->mask : 0; left; left &= left - 1) {
        if (!px_bulk_read(r, s, px_first(left), (uint32_t)at[px_first(left)]))
            return false;
    }
    switch (s->n_bytes) {
    case 16:
        return read_lanes(r, s, at, 16);
    case 8:
        return read_lanes(r, s, at, 8);
    case 4:
        return read_lanes(r, s, at, 4);
    default:
        return read_lanes(r, s, at, s->n_bytes);
    }
}

/* Would a store of the instruction leave these bytes as they are? */
static bool
is_same(struct px_run *r, const struct px_span *s, uint32_t lane, uint32_t at)
{
    const struct px_ref *refs = px_operands(r, s->in);
    uint32_t size = px_types[s->in->type].bits / 8u, i;
    uint64_t v;

    assert(lane < PX_LANES);
    if (s->in->op != PX_ST)
        return false;
    for (i = 0; i < s->in->n_vec; i++) {
        const void *from = px_read(r, s->w, s->in, refs[i], s->mask);
        if (!from)
            return false;
        v = px_get(from, refs[i].bits, lane);
        if (memcmp(&v, r->shared + at + i * size, size) != 0)
            return false;
    }
    return true;
}

static bool
check_readers(struct px_run *r, const struct px_span *s, uint32_t lane,
              uint32_t at, unsigned mine)
{
    uint32_t i;

    assert(lane < PX_LANES);
    for (i = at; i < at + s->n_bytes; i++) {
        if (r->reader[i] != NOBODY && r->reader[i] != mine)
            return bad_access(
                r, s, lane, i, SIM_PTX_RACE,
                "shared memory that another warp has read since the "
                "last barrier");
    }
    return true;
}

static bool
may_write(struct px_run *r, const struct px_span *s, uint32_t lane, uint32_t at,
          unsigned mine)
{
    bool fresh = all_are(r->writer + at, s->n_bytes, UNWRITTEN, mine) ||
                 all_are(r->writer + at, s->n_bytes, NOBODY, mine);
    bool unread = all_are(r->reader + at, s->n_bytes, NOBODY, mine);

    assert(lane < PX_LANES);
    if ((fresh && unread) || (r->judges_races && is_same(r, s, lane, at)))
        return true;
    if (!fresh && !check_writer(r, s, lane, at, mine))
        return false;
    return !r->judges_races || check_readers(r, s, lane, at, mine);
}

void
px_shared_land(struct px_run *r, const struct px_warp *w, uint32_t at,
               uint32_t n_bytes)
{
    assert((uint64_t)at + n_bytes <= r->shared_bytes);
    memset(r->writer + at, r->judges_races ? (int)(w->number + 1) : NOBODY,
           n_bytes);
    touch(r, at, at + n_bytes);
    px_bulk_write(r, at, n_bytes);
}

void
px_shared_settle(struct px_run *r, uint32_t at, uint32_t n_bytes)
{
    assert((uint64_t)at + n_bytes <= r->shared_bytes);
    memset(r->writer + at, NOBODY, n_bytes);
}

bool
px_shared_write(struct px_run *r, const struct px_span *s,
                const uint64_t at[PX_LANES])
{
    unsigned mine = s->w->number + 1;
    uint32_t left, lane;

    for (left = s->mask; left; left &= left - 1) {
        lane = px_first(left);
        if (!may_write(r, s, lane, (uint32_t)at[lane], mine))
            return false;
        if (!px_wgmma_write(r, (uint32_t)at[lane], s->n_bytes))
            return bad_access(r, s, lane, (uint32_t)at[lane], SIM_PTX_RACE,
                              "shared memory that a wgmma may still read");
        px_shared_land(r, s->w, (uint32_t)at[lane], s->n_bytes);
    }
    return true;
}

bool
px_shared_promise(struct px_run *r, const struct px_span *s, uint32_t lane,
                  uint32_t at, bool by_threads)
{
    assert(lane < PX_LANES);
    if (!may_write(r, s, lane, at, s->w->number + 1))
        return false;
    if (by_threads ? !px_wgmma_write(r, at, s->n_bytes)
                   : !px_wgmma_bulk_write(r, at, s->n_bytes))
        return bad_access(r, s, lane, at, SIM_PTX_RACE,
                          "shared memory that a wgmma may still read, or that "
                          "threads wrote without a fence.proxy.async");
    memset(r->writer + at, PROMISED, s->n_bytes);
    return true;
}
