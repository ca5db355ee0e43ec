/* Turns on the graphics engine. A card switches from a group's kernels to
 * another group's when they are idle, or have ended the blocks that run where
 * the group's preemption mode is by blocks (CTA). All others wait until then. A
 * channel that keeps them waiting for too long is taken away.
 *
 * observed: H100, driver 580.159.04, 2026-11-22: code 109 after 4 s, a grid of
 * many short blocks too unless by blocks. The mode by instructions (CILP) did
 * no more than the one by blocks: guess: it wants a trap handler, which CUDA
 * installs. Here the kernel's own time counts, so that a busy host takes
 * nothing away; and less of it.
 */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <time.h>

#define PATIENCE_NS UINT64_C(1000000000)

struct nvgpu_waiter {
    struct nvgpu_waiter *next;
};

/* What the threads that run kernels have worked; and how many they are. Locked:
 * gpu->turn_lock. */
static uint64_t
worked_ns(struct nvgpu *gpu, uint32_t *out_n)
{
    struct timespec t;
    uint64_t sum = 0;
    clockid_t id;
    size_t i;

    *out_n = 0;
    pthread_mutex_lock(&gpu->lock);
    for (i = 0; i < gpu->n_chans; i++) {
        if (!gpu->chans[i]->has_turn ||
            pthread_getcpuclockid(gpu->chans[i]->thread, &id) != 0 ||
            clock_gettime(id, &t) != 0)
            continue;
        sum += (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
        ++*out_n;
    }
    pthread_mutex_unlock(&gpu->lock);
    return sum;
}

static void
evict(struct nvgpu *gpu)
{
    size_t i;

    pthread_mutex_lock(&gpu->lock);
    for (i = 0; i < gpu->n_chans; i++) {
        if (!gpu->chans[i]->has_turn)
            continue;
        atomic_store(&gpu->chans[i]->evicted, 1);
        atomic_store(&gpu->chans[i]->stop, 1);
    }
    pthread_mutex_unlock(&gpu->lock);
}

/* First come, first served; a group's kernels run beside one another. */
static bool
take_if_first(struct nvgpu_chan *chan, const struct nvgpu_waiter *first)
{
    struct nvgpu *gpu = chan->gpu;

    if (gpu->turn_waiters != first ||
        (gpu->n_turns && gpu->turn_group != chan->desc.group))
        return false;
    gpu->turn_group = chan->desc.group;
    gpu->n_turns++;
    gpu->turn_changes++;
    chan->has_turn = true;
    return true;
}

/* The lock is held, and let go for a while. */
static void
nap(struct nvgpu_chan *chan)
{
    struct timespec time = {0, 50000};

    pthread_mutex_unlock(&chan->gpu->turn_lock);
    sim_walk_leave(&chan->walk);
    (void)nanosleep(&time, NULL);
    sim_walk_enter(&chan->walk);
    pthread_mutex_lock(&chan->gpu->turn_lock);
}

bool
nvgpu_turn_begin(struct nvgpu_chan *chan)
{
    struct nvgpu *gpu = chan->gpu;
    struct nvgpu_waiter me = {NULL}, **link;
    uint64_t seen = 0, since_ns = 0, now_ns;
    uint32_t n;
    bool ok;

    assert(!chan->has_turn);
    pthread_mutex_lock(&gpu->turn_lock);
    ok = take_if_first(chan, NULL);
    if (!ok) {
        for (link = &gpu->turn_waiters; *link;)
            link = &(*link)->next;
        *link = &me;
        while (!nvgpu_stopped(chan) && !(ok = take_if_first(chan, &me))) {
            now_ns = worked_ns(gpu, &n);
            if (seen != gpu->turn_changes) {
                seen = gpu->turn_changes;
                since_ns = now_ns;
            } else if (n && now_ns - since_ns > n * PATIENCE_NS) {
                evict(gpu);
            }
            nap(chan);
        }
        for (link = &gpu->turn_waiters; *link != &me;)
            link = &(*link)->next;
        *link = me.next;
    }
    pthread_mutex_unlock(&gpu->turn_lock);
    return ok;
}

void
nvgpu_turn_end(struct nvgpu_chan *chan)
{
    /* who was stopped while it let others go first has none */
    pthread_mutex_lock(&chan->gpu->turn_lock);
    chan->gpu->n_turns -= chan->has_turn;
    chan->gpu->turn_changes++;
    chan->has_turn = false;
    pthread_mutex_unlock(&chan->gpu->turn_lock);
}

bool
nvgpu_turn_pass(struct nvgpu_chan *chan)
{
    bool any;

    if (!chan->has_turn ||
        !atomic_load_explicit(&chan->by_block, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&chan->gpu->turn_lock);
    any = chan->gpu->turn_waiters != NULL;
    pthread_mutex_unlock(&chan->gpu->turn_lock);
    if (!any)
        return false;
    nvgpu_turn_end(chan);
    (void)nvgpu_turn_begin(chan); /* or it is stopped */
    return true;
}

void
nvgpu_chan_by_block(struct nvgpu_chan *chan, bool by_block)
{
    atomic_store(&chan->by_block, by_block);
}

bool
nvgpu_chan_wait(struct nvgpu_chan *chan, uint32_t limit_ms)
{
    struct timespec time = {0, 1000000};
    bool runs = true;

    assert(limit_ms > 0);
    for (; runs; limit_ms--) {
        pthread_mutex_lock(&chan->gpu->turn_lock);
        runs = chan->has_turn;
        pthread_mutex_unlock(&chan->gpu->turn_lock);
        if (!runs || limit_ms == 0 || nvgpu_stopped(chan))
            break;
        (void)nanosleep(&time, NULL);
    }
    return !runs;
}
