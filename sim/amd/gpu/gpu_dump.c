/* What queues tell the dump form (dump.h): turns, the memory they change, and
 * where one folder ends and the next begins. Nothing of this happens without
 * a dump. */
#include <string.h>

#include "sim/amd/gpu/dump.h"
#include "sim/amd/gpu/gpu_internal.h"

static const char *const kinds[] = {
    [AMDSIM_QUEUE_PM4] = "pm4",
    [AMDSIM_QUEUE_AQL] = "aql",
    [AMDSIM_QUEUE_SDMA] = "sdma",
};

static bool
dump_check(struct amdsim_queue *q, bell_status status)
{
    return status == BELL_OK ||
           amdsim_fail(q, "%s", bell_error_last()->message);
}

/* ---- memory ---- */

static bool
dump_is_open(const struct amdsim_queue *q)
{
    return amd_dump_folder_is_open(q->dump.folder);
}

/* The read pointer is the queue's own: telling of it changes no memory that
 * anything depends on. */
static bool
is_rptr(const struct amdsim_queue *q, uint64_t va)
{
    return va - q->desc.rptr_va < 8;
}

/* What the kernel stored last: at the next call it is there. */
static bool
flush_stores(struct amdsim_queue *q)
{
    uint32_t n = q->dump.n_pending;

    q->dump.n_pending = 0;
    return n == 0 || dump_check(q, amd_dump_folder_store(q->dump.folder,
                                                         q->dump.pending_va,
                                                         q->dump.pending, n));
}

bool
amdsim_dump_before(struct amdsim_queue *q, uint64_t va)
{
    if (!q->dump.folder)
        return true;
    if (!flush_stores(q))
        return false;
    return dump_is_open(q) || is_rptr(q, va) ||
           dump_check(q, amd_dump_folder_begin(q->dump.folder));
}

bool
amdsim_dump_after(struct amdsim_queue *q, uint64_t va, const void *data,
                  uint64_t n_bytes)
{
    if (!q->dump.folder || !dump_is_open(q))
        return true;
    return dump_check(q,
                      amd_dump_folder_store(q->dump.folder, va, data, n_bytes));
}

bool
amdsim_dump_kernel(struct amdsim_queue *q, uint64_t va, const void *at,
                   uint32_t n_bytes)
{
    if (!amdsim_dump_before(q, va))
        return false;
    q->dump.pending = at;
    q->dump.pending_va = va;
    q->dump.n_pending = n_bytes;
    return true;
}

bool
amdsim_dump_kernel_end(struct amdsim_queue *q)
{
    return !q->dump.folder || flush_stores(q);
}

bool
amdsim_dump_time(struct amdsim_queue *q, uint64_t va, uint64_t n_bytes)
{
    return !q->dump.folder ||
           dump_check(q, amd_dump_folder_ignore(q->dump.folder, va, n_bytes));
}

/* ---- folders ---- */

/* The pointer's present value, and what a reader need not agree with: the
 * pointer, and the headers that an AQL queue marks as done, when all dies are;
 * the host may have stopped it before that. */
static bell_status
note_pointers(struct amdsim_queue *q, uint64_t wptr)
{
    struct amd_dump_folder *folder = q->dump.folder;
    uint64_t i, n, *rptr;
    uint32_t flags;

    rptr = sim_walk_span(&q->walk, q->desc.rptr_va, &n, &flags);
    if (rptr && n >= 8)
        BELL_TRY(amd_dump_folder_store(folder, q->desc.rptr_va, rptr, 8));
    BELL_TRY(amd_dump_folder_ignore(folder, q->desc.rptr_va, 8));
    if (q->desc.kind != AMDSIM_QUEUE_AQL)
        return BELL_OK;
    n = q->desc.ring_bytes / 64;
    for (i = q->dump.rptr; i < wptr; i++)
        BELL_TRY(
            amd_dump_folder_ignore(folder, q->desc.ring_va + i % n * 64, 4));
    return BELL_OK;
}

/* `wptr`: where this folder's part of the queue ends. */
static bell_status
end_folder(struct amdsim_queue *q, uint64_t wptr, const char *fault)
{
    struct amd_dump_run run = {
        .kind = kinds[q->desc.kind],
        .base = q->desc.ring_va,
        .size_bytes = q->desc.ring_bytes,
        .rptr = q->dump.rptr,
        .wptr = wptr,
        .waited = q->dump.waited,
        .fault = fault,
    };

    q->dump.waited = false;
    if (!dump_is_open(q))
        BELL_TRY(amd_dump_folder_begin(q->dump.folder));
    BELL_TRY(note_pointers(q, wptr));
    BELL_TRY(amd_dump_folder_end(q->dump.folder, &run));
    q->dump.rptr = q->get;
    return BELL_OK;
}

bool
amdsim_dump_start(struct amdsim_queue *q)
{
    if (!q->dump.folder)
        return true;
    q->dump.has_turn = amd_dump_take(q->gpu->dump, &q->stop);
    q->dump.rptr = q->get;
    q->dump.waited = false;
    return q->dump.has_turn;
}

void
amdsim_dump_end(struct amdsim_queue *q, uint64_t wptr)
{
    if (!q->dump.folder || !q->dump.has_turn)
        return;
    if (amdsim_dump_kernel_end(q))
        (void)dump_check(q,
                         end_folder(q, wptr, q->failed ? q->dump.fault : NULL));
    amd_dump_give(q->gpu->dump);
    q->dump.has_turn = false;
}

/* A wait in the ring itself ends the folder: what comes behind it is one of
 * its own. */
static bool
is_in_ring(const struct amdsim_queue *q)
{
    return q->place.va - q->desc.ring_va < q->desc.ring_bytes;
}

bool
amdsim_dump_wait(struct amdsim_queue *q)
{
    bool good = true;

    if (!q->dump.folder || !q->dump.has_turn)
        return true;
    if (dump_is_open(q) && is_in_ring(q))
        good = dump_check(q, end_folder(q, q->get, NULL));
    else if (dump_is_open(q))
        q->dump.waited = true;
    amd_dump_give(q->gpu->dump);
    q->dump.has_turn = false;
    return good;
}

bool
amdsim_dump_resume(struct amdsim_queue *q)
{
    if (q->dump.folder)
        q->dump.has_turn = amd_dump_take(q->gpu->dump, &q->stop);
    return !q->dump.folder || q->dump.has_turn;
}
