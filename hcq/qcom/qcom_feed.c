/* The way of indirect buffers to the kernel.
 *
 * The kernel runs what it is given one after the other, for all contexts, and
 * resets the chip when one does not end within seconds. So what waits for
 * a signal is not given to it before the signal is there. The queue's own
 * thread hands over what may go at once; what may not, and all behind it, waits
 * in a ring for the feed's thread, which looks at the gates.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/qcom/qcom.h"

/* A look at a closed gate; then naps from the first to the last. */
#define SPIN_NS      20000u
#define NAP_FIRST_NS 20000u
#define NAP_LAST_NS  200000u

/* The CPU's copy of it may be older than the chip's stores. */
static void
renew_qcom(struct qcom_device *dev, const struct qcom_gate *gate)
{
    const struct qcom_mem mem = {.handle = gate->handle};
    struct bell_error_hold hold;

    assert(gate->is_stale);
    bell_error_hold(&hold);
    if (dev->kernel->mem_sync(dev, &mem, gate->offset_bytes & ~63ull, 64,
                              false) != BELL_OK)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
}

static bool
is_open(struct qcom_device *dev, const struct qcom_gate *gate)
{
    if (!gate->at)
        return true;
    if (gate->is_stale)
        renew_qcom(dev, gate);
    if (gate->mask)
        return (__atomic_load_n((const volatile uint32_t *)gate->at,
                                __ATOMIC_ACQUIRE) &
                gate->mask) == (uint32_t)gate->value;
    return __atomic_load_n((const volatile uint64_t *)gate->at,
                           __ATOMIC_ACQUIRE) >= gate->value;
}

/* Gives the kernel what may go; the lock is held. */
static bell_status
feed_run(struct qcom_feed *feed)
{
    struct qcom_ib ibs[QCOM_SUBMIT_IBS];
    uint32_t n;

    assert(feed->put - feed->get <= QCOM_FEED_PIECES);
    while (feed->get != feed->put) {
        for (n = 0; n < QCOM_SUBMIT_IBS && feed->get + n != feed->put; n++) {
            const struct qcom_piece *piece =
                &feed->pieces[(feed->get + n) % QCOM_FEED_PIECES];

            if (!is_open(feed->dev, &piece->gate))
                break;
            ibs[n] = piece->ib;
        }
        if (n == 0)
            return BELL_OK;
        if (kio_watches(feed->dev->kio))
            qcom_watch_submit(feed->dev, ibs, n);
        hcq_flush_writes();
        BELL_TRY(feed->dev->kernel->submit(feed->dev, &feed->context, ibs, n,
                                           &feed->stamp));
        feed->get += n;
        if (kio_watches(feed->dev->kio))
            qcom_watch_settle(feed->dev, &feed->context, feed->stamp);
    }
    return BELL_OK;
}

/* What waited cannot be given to the kernel any more. The lock is not held. */
static void
lose(struct qcom_feed *feed)
{
    struct hcq_fault fault = {.kind = HCQ_FAULT_STREAM,
                              .last_group = UINT64_MAX};

    hcq_fault_add(&fault, "the kernel takes no more: %.180s",
                  bell_error_last()->message);
    qcom_fault_check(&feed->dev->base); /* may know more */
    hcq_device_set_lost(&feed->dev->base, &fault);
}

/* Until there is something, or the end; the lock is held. Packets that are put
 * without it are seen here, or whoever put it sees that nobody is awake. */
static bool
wait_for_more(struct qcom_feed *feed)
{
    while (feed->get == feed->put && !feed->quits) {
        feed->is_awake = false;
        if (feed->get == feed->put)
            pthread_cond_wait(&feed->more, &feed->lock);
        feed->is_awake = true;
    }
    return !feed->quits;
}

static void
nap(uint64_t *nap_ns, uint64_t start_ns)
{
    struct timespec time = {.tv_nsec = (long)*nap_ns};

    if (time_now_ns() - start_ns < SPIN_NS) {
        thread_relax();
        return;
    }
    nanosleep(&time, NULL);
    *nap_ns = *nap_ns * 2 < NAP_LAST_NS ? *nap_ns * 2 : NAP_LAST_NS;
}

/* Without waiting in the kernel, from where the queue's thread would have to
 * wake it. */
static void
take_lock(struct qcom_feed *feed)
{
    uint64_t nap_ns = NAP_FIRST_NS, start_ns = time_now_ns();

    while (pthread_mutex_trylock(&feed->lock) != 0)
        nap(&nap_ns, start_ns);
}

static void *
feed_main(void *user)
{
    struct qcom_feed *feed = user;
    uint64_t nap_ns = NAP_FIRST_NS, start_ns = 0, seen = UINT64_MAX;
    bell_status status;

    take_lock(feed);
    while (wait_for_more(feed)) {
        if (feed->get != seen) {
            seen = feed->get;
            nap_ns = NAP_FIRST_NS;
            start_ns = time_now_ns();
        }
        status = feed_run(feed);
        if (status != BELL_OK)
            feed->get = feed->put;
        pthread_mutex_unlock(&feed->lock);
        if (status != BELL_OK)
            lose(feed);
        nap(&nap_ns, start_ns);
        take_lock(feed);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

/* ---- the queue's side ---------------------------------------------------- */

bell_status
qcom_feed_push(struct qcom_feed *feed, uint64_t n)
{
    uint64_t first, got;
    bell_status status;

    assert(n > 0 && n <= QCOM_FEED_PIECES);
    first = feed->put;
    if (pthread_mutex_trylock(&feed->lock) != 0) {
        /* a record has what each thread calls in the same order in each run */
        if (!kio_watches(feed->dev->kio)) {
            feed->put = first + n;
            if (feed->is_awake)
                return BELL_OK;
        }
        pthread_mutex_lock(&feed->lock);
    }
    feed->put = first + n;
    status = feed_run(feed);
    got = feed->get;
    if (status != BELL_OK)
        feed->put =
            got <= first ? first : got; /* the feed's thread drops them */
    if (feed->get != feed->put)
        pthread_cond_signal(&feed->more);
    pthread_mutex_unlock(&feed->lock);
    if (status == BELL_OK)
        return BELL_OK;
    if (got > first)
        lose(feed);
    else
        qcom_fault_check(&feed->dev->base); /* EPROTO, EDEADLK: a fault of
                                             * what was submitted before */
    return hcq_device_is_lost(&feed->dev->base)
               ? hcq_lost_report(&feed->dev->base)
               : status;
}

bell_status
qcom_feed_restart(struct qcom_feed *feed)
{
    bell_status status;

    pthread_mutex_lock(&feed->lock);
    feed->get = feed->put;
    if (feed->context.is_made)
        feed->dev->kernel->context_drop(feed->dev, &feed->context);
    status = feed->dev->kernel->context_make(feed->dev, &feed->context);
    pthread_mutex_unlock(&feed->lock);
    return status;
}

void
qcom_feed_stop(struct qcom_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->get = feed->put;
    if (feed->context.is_made)
        feed->dev->kernel->context_drop(feed->dev, &feed->context);
    pthread_mutex_unlock(&feed->lock);
}

/* The application's signals are not for our threads. */
static int
start_thread(struct qcom_feed *feed)
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&feed->thread, NULL, feed_main, feed);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

bell_status
qcom_feed_init(struct qcom_feed *feed, struct qcom_device *dev)
{
    int error;

    assert(!feed->has_thread && !feed->dev);
    feed->dev = dev;
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->more, NULL);
    feed->pieces = host_calloc(QCOM_FEED_PIECES, sizeof(feed->pieces[0]));
    if (!feed->pieces)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         dev->base.info.name);
    BELL_TRY(dev->kernel->context_make(dev, &feed->context));
    feed->is_awake = true;
    error = start_thread(feed);
    if (error)
        return thread_fail(dev->base.info.name, error);
    feed->has_thread = true;
    return BELL_OK;
}

void
qcom_feed_fini(struct qcom_feed *feed)
{
    if (!feed->dev)
        return;
    if (feed->has_thread) {
        pthread_mutex_lock(&feed->lock);
        feed->quits = true;
        pthread_cond_signal(&feed->more);
        pthread_mutex_unlock(&feed->lock);
        pthread_join(feed->thread, NULL);
    }
    if (feed->context.is_made)
        feed->dev->kernel->context_drop(feed->dev, &feed->context);
    pthread_cond_destroy(&feed->more);
    pthread_mutex_destroy(&feed->lock);
    host_free(feed->pieces);
}

/* ---- gates --------------------------------------------------------------- */

struct qcom_gate
qcom_gate_of(struct qcom_device *dev, const struct hcq_packet *packet)
{
    bool is_poll = packet->head.op == HCQ_OP_POLL;
    struct qcom_gate gate = {
        .value = is_poll ? packet->word[2] : packet->word[1],
        .mask = is_poll ? (uint32_t)packet->word[1] : 0,
    };
    struct qcom_mem mem;
    uint8_t *cpu;

    assert(is_poll || packet->head.op == HCQ_OP_WAIT);
    if (packet->word[0] >= QCOM_VA_HOST) {
        gate.at = (const void *)(uintptr_t)(packet->word[0] - QCOM_VA_HOST);
    } else if (qcom_mem_find(dev, packet->word[0], is_poll ? 4 : 8, &mem,
                             &cpu) &&
               (!is_poll || gate.mask)) {
        gate.at = cpu;
        gate.is_stale = mem.is_stale;
        gate.handle = mem.handle;
        gate.offset_bytes = packet->word[0] - mem.va;
    }
    return gate;
}
