/* Contexts and batches of the simulated kernels for Adreno. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "ioctl/qcom_uapi.h"
#include "sim/qcom/kernel/qk.h"

/* How often a destroyed context's batch is looked at. */
#define DESTROY_LOOK_NS 10000000u

uint64_t
qk_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int
qk_context_create(struct qk_machine *m, uint32_t id, uint32_t flags,
                  uint32_t owner, struct qk_context **out_context)
{
    struct qk_context *c = host_calloc(1, sizeof(*c));

    if (!c || host_grow((void **)&m->contexts, &m->cap_contexts,
                        m->n_contexts + 1, sizeof(*m->contexts)) != 0) {
        host_free(c);
        return qk_fail(ENOMEM, "no memory for a context");
    }
    c->id = id;
    c->flags = flags;
    c->owner = owner;
    m->contexts[m->n_contexts++] = c;
    *out_context = c;
    return 0;
}

struct qk_context *
qk_find_context(struct qk_machine *m, uint32_t id, uint32_t owner)
{
    size_t i;

    for (i = 0; i < m->n_contexts; i++) {
        if (m->contexts[i]->id == id && m->contexts[i]->owner == owner &&
            !m->contexts[i]->is_gone)
            return m->contexts[i];
    }
    return NULL;
}

/* Sleeps until something ends, or the deadline is there: then false. */
static bool
sleep_until(struct qk_machine *m, uint64_t deadline_ns)
{
    struct timespec t;

    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(&m->retired, &m->lock) == 0;
    t.tv_sec = (time_t)(deadline_ns / 1000000000u);
    t.tv_nsec = (long)(deadline_ns % 1000000000u);
    return pthread_cond_timedwait(&m->retired, &m->lock, &t) != ETIMEDOUT;
}

/* src: docs/hardware/adreno-kernel.md, "KGSL faults", "msm" */
static uint64_t
batch_limit_ns(const struct qk_machine *m)
{
    return m->is_msm ? 500000000u : 2000000000u;
}

void
qk_context_destroy(struct qk_machine *m, struct qk_context *c)
{
    uint64_t now;
    size_t i;

    c->is_gone = true;
    while (c->n_queued) {
        now = qk_now_ns();
        if (m->running == c && now - m->running_since_ns >= batch_limit_ns(m))
            qsim_stop_running(m->gpu);
        (void)sleep_until(m, now + DESTROY_LOOK_NS);
    }
    for (i = 0; m->contexts[i] != c; i++) {
    }
    m->contexts[i] = m->contexts[--m->n_contexts];
    host_free(c);
}

struct qk_batch *
qk_batch_create(uint32_t n_ranges)
{
    struct qk_batch *batch =
        host_calloc(1, sizeof(*batch) + n_ranges * sizeof(batch->ranges[0]));

    if (batch)
        batch->n_ranges = n_ranges;
    return batch;
}

/* From the card's thread. */
static bool
begin_batch(void *user, struct qsim_batch *b)
{
    struct qk_batch *batch = (struct qk_batch *)b;
    struct qk_machine *m = batch->machine;
    struct qk_context *c = user;
    bool runs;

    pthread_mutex_lock(&m->lock);
    runs = !c->is_gone && !c->is_invalid;
    if (runs) {
        m->running = c;
        m->running_since_ns = qk_now_ns();
    }
    if (runs && m->rd && b->n_ibs)
        qk_rd_submission(m->rd, m->bufs, m->n_bufs, b);
    pthread_mutex_unlock(&m->lock);
    return runs;
}

static void
keep_fault(struct qk_machine *m, struct qk_context *c, const struct qk_batch *b,
           const struct qsim_result *r)
{
    uint32_t bits;

    m->n_faults++;
    c->n_faults++;
    snprintf(m->fault_text, sizeof(m->fault_text), "%s", r->text);
    if (m->is_msm) /* the next batches go on */
        return;
    c->is_invalid = c->tells_fault = c->is_guilty = true;
    c->fault_timestamp = b->timestamp;
    if (r->fault == QSIM_PAGE_FAULT && c->n_kept < QK_MAX_FAULTS) {
        bits = r->is_write ? KGSL_PAGEFAULT_WRITE : KGSL_PAGEFAULT_READ;
        bits |= r->is_permission ? KGSL_PAGEFAULT_PERMISSION
                                 : KGSL_PAGEFAULT_TRANSLATION;
        c->faults[c->n_kept++] = (struct qk_fault){r->va, bits};
    }
}

/* What is to be freed when this has passed. */
static void
free_what_waits(struct qk_machine *m, const struct qk_context *c)
{
    size_t i = m->n_bufs;

    while (i-- > 0) {
        if (m->bufs[i]->free_context == c->id &&
            (c->is_gone || c->is_invalid ||
             qk_has_passed(c->retired, m->bufs[i]->free_timestamp)))
            qk_drop_buf(m, m->bufs[i]);
    }
}

static void
end_batch(void *user, struct qsim_batch *b, const struct qsim_result *result)
{
    struct qk_batch *batch = (struct qk_batch *)b;
    struct qk_machine *m = batch->machine;
    struct qk_context *c = user;

    pthread_mutex_lock(&m->lock);
    m->running = NULL;
    if (result->fault != QSIM_OK)
        keep_fault(m, c, batch, result);
    if (!c->is_invalid && !c->is_gone)
        c->retired = batch->timestamp;
    c->n_queued--;
    m->n_done++;
    free_what_waits(m, c);
    pthread_cond_broadcast(&m->retired);
    pthread_mutex_unlock(&m->lock);
    host_free(batch);
}

void
qk_submit(struct qk_machine *m, struct qk_context *c, struct qk_batch *batch,
          uint32_t n_ibs, bool is_bounded)
{
    batch->machine = m;
    batch->context = c->id;
    batch->timestamp = ++c->queued;
    batch->serial = ++m->n_submitted;
    batch->b.space = m->space;
    batch->b.ibs = batch->ranges;
    batch->b.n_ibs = n_ibs;
    if (is_bounded) {
        batch->b.only = batch->ranges + n_ibs;
        batch->b.n_only = batch->n_ranges - n_ibs;
    }
    batch->b.begin = begin_batch;
    batch->b.done = end_batch;
    batch->b.user = c;
    c->n_queued++;
    qsim_submit(m->gpu, &batch->b);
}

int
qk_wait(struct qk_machine *m, uint32_t context, uint32_t owner,
        uint32_t timestamp, uint64_t deadline_ns)
{
    struct qk_context *c;

    for (;;) {
        c = qk_find_context(m, context, owner);
        if (!c)
            return qk_fail(ENOENT, "context %u is gone", context);
        if (qk_has_passed(c->retired, timestamp))
            return 0;
        if (c->tells_fault) {
            c->tells_fault = false;
            return qk_fail(EPROTO, "%s", m->fault_text);
        }
        if (c->is_invalid)
            return qk_fail(EDEADLK, "the context was invalidated: %s",
                           m->fault_text);
        if (!sleep_until(m, deadline_ns))
            return qk_fail(ETIMEDOUT, "timestamp %u has not passed", timestamp);
    }
}

int
qk_wait_serial(struct qk_machine *m, uint64_t serial, uint64_t deadline_ns)
{
    while (m->n_done < serial) {
        if (!sleep_until(m, deadline_ns))
            return qk_fail(ETIMEDOUT, "it is still used");
    }
    return 0;
}
