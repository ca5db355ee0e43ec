/* Signals, timelines, waiting with a report. */
#include "hcq/hcq_backend.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/hcq_order.h"

/* A sleep never lasts longer: bounds the cost of a wake that got lost (a
 * value that moved by a multiple of 2^32 while a 32-bit futex looked). */
#define SLEEP_SLICE_NS 100000000ull

/* Progress is looked at no more often: that takes a lock. */
#define PROGRESS_EVERY_NS 10000000ull

/* A launch and its completion take about 0.5 us when nobody has to share. */
#define YIELD_AFTER_NS 1000u

/* sched_yield takes 0.2 to 0.6 us when it finds nobody; to another thread and
 * back are two switches, and what that does. observed: EPYC, two threads that
 * hand one element's sum to each other, 2026-11-26: 2.3 -> 1.5 us on two CPUs,
 * 6.7 -> 4.0 us on one */
#define ALONE_NS 1000u
#define CALM_NS  5000u

/* A nap grows from the first to the last; the card's word is a load away, so a
 * step of a sleeper costs little. */
#define NAP_FIRST_NS 2000u
#define NAP_LAST_NS  100000u
/* The caller looks at epochs and time limits at least this often. */
#define NAPS_NS       5000000u
#define LOOK_EVERY_NS 500000u

static BELL_MUST_CHECK bell_status
create_signal(struct hcq_device *dev, bool is_near, uint64_t value,
              struct hcq_signal **out_sig)
{
    struct hcq_signal_node *node = host_calloc(1, sizeof(*node));
    bell_status status;

    if (!node)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a signal",
                         dev->info.name);
    status = (is_near ? dev->ops->signal_alloc_near : dev->ops->signal_alloc)(
        dev, &node->pub.va, &node->pub.host);
    if (status != BELL_OK) {
        host_free(node);
        return status;
    }
    assert((uintptr_t)node->pub.host % 8 == 0);
    node->pub.dev = dev;
    __atomic_store_n(&node->pub.host[0], value, __ATOMIC_RELEASE);
    pthread_mutex_lock(&dev->lock);
    hcq_link_add(&dev->signals, &node->link);
    pthread_mutex_unlock(&dev->lock);
    *out_sig = &node->pub;
    return BELL_OK;
}

bell_status
hcq_signal_create(struct hcq_device *dev, uint64_t value,
                  struct hcq_signal **out_sig)
{
    if (!dev || !out_sig)
        return bell_fail(BELL_BAD_MISSING, "signal create: %s is NULL",
                         dev ? "the result" : "the device");
    BELL_TRY(hcq_check_process(dev));
    BELL_TRY(create_signal(dev, false, value, out_sig));
    return BELL_OK;
}

bell_status
hcq_signal_create_near(struct hcq_device *dev, struct hcq_signal **out_sig)
{
    if (!dev->ops->signal_alloc_near)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s has no memory of its own for signals",
                         dev->info.name);
    BELL_TRY(create_signal(dev, true, 0, out_sig));
    return BELL_OK;
}

void
hcq_signal_destroy(struct hcq_signal *sig)
{
    struct hcq_signal_node *node;
    struct hcq_device *dev;

    if (!sig || sig->owned_by_queue || hcq_is_inherited(sig->dev))
        return;
    node = HCQ_CONTAINER(sig, struct hcq_signal_node, pub);
    dev = sig->dev;
    pthread_mutex_lock(&dev->lock);
    hcq_link_remove(&node->link);
    pthread_mutex_unlock(&dev->lock);
    dev->ops->signal_free(dev, sig);
    host_free(node);
}

uint64_t
hcq_signal_value(const struct hcq_signal *sig)
{
    uint64_t value;

    if (__builtin_expect(hcq_is_inherited(sig->dev), 0))
        return UINT64_MAX;
    value = __atomic_load_n(&sig->host[0], __ATOMIC_ACQUIRE);
    hcq_order_reads();
    return value;
}

uint64_t
hcq_signal_timestamp(const struct hcq_signal *sig)
{
    assert(sig->dev->timestamp_word > 0);
    if (hcq_is_inherited(sig->dev))
        return 0;
    return __atomic_load_n(&sig->host[sig->dev->timestamp_word],
                           __ATOMIC_ACQUIRE);
}

void
hcq_signal_set(struct hcq_signal *sig, uint64_t value)
{
    if (hcq_is_inherited(sig->dev))
        return;
    hcq_order_writes();
    __atomic_store_n(&sig->host[0], value, __ATOMIC_SEQ_CST);
    if (sig->dev->ops->signal_wake)
        sig->dev->ops->signal_wake(sig);
}

bell_status
hcq_timeout_report(struct hcq_device *dev, const char *what)
{
    char busy[320];

    dev->ops->describe(dev, busy, sizeof(busy));
    return bell_fail(BELL_E_TIMEOUT, "%s: %s%s; %s", dev->info.name,
                     interrupt_is_on() ? "the program ended the wait: " : "",
                     what, busy[0] ? busy : "all queues are idle");
}

static bell_status
report_timeout(struct hcq_signal *sig, uint64_t want, uint64_t seen,
               uint64_t waited_ns, const struct hcq_stillness *still)
{
    char what[256];
    int n;

    assert(seen < want);
    n = snprintf(what, sizeof(what),
                 "signal 0x%llx is %llu, waited %.1f ms for %llu",
                 (unsigned long long)sig->va, (unsigned long long)seen,
                 (double)waited_ns / 1e6, (unsigned long long)want);
    if (still->since_ns && n > 0 && (size_t)n < sizeof(what) - 2) {
        what[n++] = ';';
        what[n++] = ' ';
        hcq_stillness_text(sig->dev, still, what + n, sizeof(what) - (size_t)n);
    }
    return hcq_timeout_report(sig->dev, what);
}

/* ---- movement ---- */

/* Changes whenever a device does something; what it may take until then. */
static uint64_t
read_progress(struct hcq_device *dev, uint64_t salt, uint64_t *out_limit_ns)
{
    uint64_t progress = hash_mix(salt + 1), expect_ns = 0, limit_ns, ns;
    struct hcq_queue *queue;

    pthread_mutex_lock(&dev->lock);
    for (queue = hcq_next_queue(dev, NULL); queue;
         queue = hcq_next_queue(dev, queue)) {
        progress = hash_add(progress, hcq_signal_value(queue->timeline));
        ns = atomic_load_explicit(&queue->expect_ns, memory_order_relaxed);
        if (ns > expect_ns)
            expect_ns = ns;
    }
    if (dev->ops->progress)
        progress = hash_add(progress, dev->ops->progress(dev));
    pthread_mutex_unlock(&dev->lock);
    limit_ns = atomic_load_explicit(&dev->still_limit_ns, memory_order_relaxed);
    *out_limit_ns = limit_ns < HCQ_WAIT_FOREVER - expect_ns
                        ? limit_ns + expect_ns
                        : HCQ_WAIT_FOREVER;
    return progress ? progress : 1;
}

/* Notes a look; true: still for longer than that. */
static bool
note_progress(struct hcq_stillness *still, uint64_t progress, uint64_t limit_ns,
              uint64_t *out_left_ns)
{
    uint64_t now_ns = time_now_ns(), still_ns;

    if (!still->since_ns || still->seen != progress) {
        still->seen = progress;
        still->since_ns = now_ns;
    }
    still_ns = now_ns - still->since_ns;
    *out_left_ns = still_ns < limit_ns ? limit_ns - still_ns : 0;
    return limit_ns != HCQ_WAIT_FOREVER && still_ns >= limit_ns;
}

bool
hcq_wait_is_over(struct hcq_device *dev, uint64_t salt, uint64_t timeout_ns,
                 uint64_t waited_ns, struct hcq_stillness *still,
                 uint64_t *out_left_ns)
{
    bool first = !still->since_ns, over = waited_ns >= timeout_ns;
    uint64_t left_ns = over ? 0 : timeout_ns - waited_ns, limit_ns, progress;

    if (interrupt_asked(time_now_ns()))
        return true;
    if (timeout_ns == HCQ_WAIT_WHILE_MOVING &&
        (first || waited_ns - still->looked_ns >= PROGRESS_EVERY_NS)) {
        still->looked_ns = waited_ns;
        progress = read_progress(dev, salt, &limit_ns);
        over = note_progress(still, progress, limit_ns, &left_ns);
        if (first && limit_ns != HCQ_WAIT_FOREVER &&
            progress == atomic_load_explicit(&dev->still_reported,
                                             memory_order_relaxed))
            over = true;
        if (over)
            atomic_store_explicit(&dev->still_reported, progress,
                                  memory_order_relaxed);
    }
    if (out_left_ns)
        *out_left_ns = left_ns;
    return over;
}

void
hcq_look_add(struct hcq_look *look, struct hcq_device *dev)
{
    uint64_t ns;

    look->progress = hash_add(look->progress, read_progress(dev, 0, &ns));
    if (ns > look->limit_ns)
        look->limit_ns = ns;
}

bool
hcq_look_is_still(const struct hcq_look *look, struct hcq_stillness *still)
{
    uint64_t left_ns;

    return note_progress(still, look->progress, look->limit_ns, &left_ns);
}

bool
hcq_all_stand_still(struct hcq_queue *const *queues, uint32_t n_queues,
                    struct hcq_stillness *still)
{
    struct hcq_look look = {0};
    uint32_t i;

    for (i = 0; i < n_queues; i++)
        hcq_look_add(&look, queues[i]->dev);
    return hcq_look_is_still(&look, still);
}

void
hcq_stillness_text(struct hcq_device *dev, const struct hcq_stillness *still,
                   char *text, size_t size_bytes)
{
    double limit = (double)atomic_load_explicit(&dev->still_limit_ns,
                                                memory_order_relaxed) /
                   1e9;
    double still_s = (double)(time_now_ns() - still->since_ns) / 1e9;

    assert(still->since_ns > 0);
    if (still_s < limit)
        snprintf(text, size_bytes,
                 "nothing moved since the report of that (the limit, "
                 "BELL_TIMEOUT, is %g s)",
                 limit);
    else
        snprintf(text, size_bytes,
                 "nothing moved for %.3g s (the limit, BELL_TIMEOUT, is %g s)",
                 still_s, limit);
}

void
hcq_device_set_timeout(struct hcq_device *dev, uint64_t still_ns)
{
    atomic_store_explicit(&dev->still_limit_ns, still_ns, memory_order_relaxed);
    atomic_store_explicit(&dev->still_reported, 0, memory_order_relaxed);
}

/* ---- waiting ---- */

void
hcq_spin(uint64_t spun_ns)
{
    unsigned i, n = spun_ns < YIELD_AFTER_NS ? 1 : 16;

    if (spun_ns >= YIELD_AFTER_NS)
        sched_yield();
    for (i = 0; i < n; i++)
        thread_relax();
}

void
hcq_spinner_turn(struct hcq_spinner *spinner, uint64_t now_ns)
{
    uint64_t end_ns;

    if (now_ns < spinner->yield_ns) {
        thread_relax();
        return;
    }
    sched_yield();
    end_ns = time_now_ns();
    spinner->calm_ns = end_ns - now_ns < ALONE_NS ? CALM_NS : 0;
    spinner->yield_ns = end_ns + spinner->calm_ns;
}

/* How long a wait of the host spins. Spinning pays when the device is about
 * to be done, up to and including the time it takes to wake a sleeping
 * consumer: a shorter spin would put host and consumer to sleep in turn. When
 * waits are long anyway it takes a core from the device's own threads. */
static uint64_t
host_spin_ns(struct hcq_device *dev)
{
    uint64_t last_ns =
        atomic_load_explicit(&dev->last_wait_ns, memory_order_relaxed);

    return last_ns < dev->spin_ns * 3 ? dev->spin_ns * 2 : dev->spin_ns / 8;
}

void
hcq_signal_nap(struct hcq_signal *sig, uint64_t seen, uint64_t max_ns)
{
    struct hcq_device *dev = sig->dev;
    uint64_t start_ns = time_now_ns(), looked_ns = start_ns, now_ns;
    uint64_t nap_ns = NAP_FIRST_NS;

    if (max_ns > NAPS_NS)
        max_ns = NAPS_NS;
    do {
        struct timespec nap = {.tv_nsec = (long)nap_ns};

        nanosleep(&nap, NULL);
        if (hcq_signal_value(sig) != seen || hcq_device_is_lost(dev))
            return;
        now_ns = time_now_ns();
        if (now_ns - looked_ns > LOOK_EVERY_NS) {
            if (dev->ops->check)
                dev->ops->check(dev);
            looked_ns = now_ns;
        }
        nap_ns = nap_ns * 2 < NAP_LAST_NS ? nap_ns * 2 : NAP_LAST_NS;
    } while (now_ns - start_ns < max_ns);
}

/* The part of a wait that is not satisfied at once. */
static bell_status
wait_slowly(struct hcq_signal *sig, uint64_t value, uint64_t timeout_ns)
{
    struct hcq_device *dev = sig->dev;
    uint64_t epoch = atomic_load(&dev->epoch);
    uint64_t start_ns = time_now_ns();
    uint64_t spin_ns = host_spin_ns(dev);
    struct hcq_spinner spinner = {
        .calm_ns =
            atomic_load_explicit(&dev->wait_calm_ns, memory_order_relaxed),
    };
    struct hcq_stillness still = {0};

    hcq_spinner_begin(&spinner, start_ns);
    if (dev->waits_forever && timeout_ns)
        timeout_ns = HCQ_WAIT_FOREVER;
    for (;;) {
        uint64_t seen = hcq_signal_value(sig);
        uint64_t waited_ns, left_ns;

        if (seen >= value) {
            if (atomic_load(&dev->epoch) != epoch)
                return hcq_lost_report(dev);
            atomic_store_explicit(&dev->last_wait_ns, time_now_ns() - start_ns,
                                  memory_order_relaxed);
            atomic_store_explicit(&dev->wait_calm_ns, spinner.calm_ns,
                                  memory_order_relaxed);
            return BELL_OK;
        }
        if (hcq_device_is_lost(dev) || atomic_load(&dev->epoch) != epoch)
            return hcq_lost_report(dev);
        waited_ns = time_now_ns() - start_ns;
        if (waited_ns >= timeout_ns)
            return report_timeout(sig, value, seen, waited_ns, &still);
        if (dev->ops->signal_help)
            dev->ops->signal_help(sig, value, waited_ns >= spin_ns);
        if (waited_ns < spin_ns) {
            hcq_spinner_turn(&spinner, start_ns + waited_ns);
            continue;
        }
        if (hcq_wait_is_over(dev, sig->va, timeout_ns, waited_ns, &still,
                             &left_ns))
            return report_timeout(sig, value, seen, waited_ns, &still);
        dev->ops->signal_sleep(
            sig, seen, left_ns < SLEEP_SLICE_NS ? left_ns : SLEEP_SLICE_NS);
        if (dev->ops->check)
            dev->ops->check(dev);
    }
}

bell_status
hcq_signal_wait(struct hcq_signal *sig, uint64_t value, uint64_t timeout_ns)
{
    if (!sig)
        return bell_fail(BELL_BAD_MISSING, "signal wait: the signal is NULL");
    BELL_TRY(hcq_check_process(sig->dev));
    if (hcq_signal_value(sig) >= value)
        return BELL_OK;
    BELL_TRY(wait_slowly(sig, value, timeout_ns));
    return BELL_OK;
}
