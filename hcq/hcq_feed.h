/* Queues that a thread of this process feeds from: a ring of packets
 * (hcq_packet.h), which the host writes and the thread runs in order. The
 * backend does the packets' work; how threads run is too.
 *
 * The host writes whole submissions and then advances `write`; the thread
 * advances `read` behind each packet, so that words it works on cannot be
 * overwritten. Both count words for ever; an offset is the count modulo the
 * ring's size. Signals are slots (hcq_slot.h), a signal's address is its
 * slot's.
 *
 * Where `runs_here` is set and the ring is empty, who submits runs the packets
 * himself, up to one that may have to wait or takes long: it and what follows
 * go through the ring. So either the thread has packets or the submitter has,
 * and what they work on needs no lock; `here` keeps the thread from parking
 * meanwhile.
 */
#ifndef BELL_HCQ_HCQ_FEED_H
#define BELL_HCQ_HCQ_FEED_H

#include "hcq/hcq_packet.h"
#include "hcq/hcq_slot.h"

/* Words of 64 bits of a packet, at most. */
#define HCQ_FEED_PACKET_WORDS (HCQ_EXEC_DW / 2 + HCQ_ARGS_MAX)

struct hcq_feed;

/* All but `evict` and `progress` are called by the queue's thread, and those
 * said to be by the submitter as well. */
struct hcq_feed_ops {
    /* Runs a packet, no CALL. False: the queue does not go on, since it has to
     * stop or the device is lost. The submitter, too. */
    bool (*run)(struct hcq_feed *feed, const struct hcq_packet *packet);
    /* The submitter: whether the packet, no CALL, waits for nothing now and is
     * done soon; and what to do before the first that it runs (NULL: nothing),
     * and behind the last. NULL where runs_here is never set. */
    bool (*is_short)(struct hcq_feed *feed, const struct hcq_packet *packet);
    bool knows_steps; /* a launch whose program's steps are 0 is not short */
    void (*begin_here)(struct hcq_feed *feed);
    void (*end_here)(struct hcq_feed *feed);
    /* The ring is empty: a part of what packets left to do, the submitter's
     * too. False as above; *out_more: there may be more. NULL: they leave
     * nothing. */
    bool (*finish)(struct hcq_feed *feed, bool *out_more);
    /* The queue parks, what packets left to do is dropped. NULL: as above. */
    void (*drop)(struct hcq_feed *feed);
    /* Ends the kernel that runs, and once the thread has parked (`on` is
     * false) undoes what that took. NULL: nothing can. */
    void (*evict)(struct hcq_feed *feed, const struct hcq_program_base *prog,
                  bool on);
    /* What a report says behind the name of a kernel that runs. */
    void (*progress)(struct hcq_feed *feed, char *text, size_t size_bytes);
    uint64_t stop_limit_ns; /* a stop that takes longer has failed */
    const char *stop_note;  /* what its message ends in */
};

/* How the thread sleeps: until something is in the ring, for a while; or until
 * there is something at all. */
enum hcq_feed_sleep {
    HCQ_FEED_AWAKE,
    HCQ_FEED_NAPS,
    HCQ_FEED_SLEEPS
};

/* What the thread does now, for reports. Relaxed atomics. */
struct hcq_feed_now {
    _Atomic uint32_t op; /* enum hcq_op; 0: idle */
    _Atomic(const struct hcq_program_base *) prog;
    _Atomic uint64_t a, b, c; /* operands of a wait or poll */
};

/* Base of a backend's queue, which it aligns to 64 bytes. Host and thread run
 * on different cores: what one writes often is on a cache line that the other
 * seldom reads. */
struct hcq_feed {
    struct hcq_queue base;
    const struct hcq_feed_ops *ops;
    uint64_t *ring; /* owned */
    uint64_t n_ring_words;
    bool has_membarrier;                     /* see submit_words */
    bool runs_here;                          /* the backend's; see above */
    uint64_t scratch[HCQ_FEED_PACKET_WORDS]; /* a packet that wraps; thread */
    const uint64_t *call_end; /* of the bound stream, or of what the submitter
                               * runs; NULL; who runs packets */
    uint64_t n_here_seen;     /* thread */
    struct hcq_feed_now now;
    struct hcq_spinner spinner; /* the thread's, when there is nothing to do */

    _Alignas(64) _Atomic uint64_t write;    /* words ever written; host */
    _Atomic uint64_t n_here;                /* submissions run here; host */
    _Atomic uint32_t here;                  /* one is run; host */
    _Alignas(64) uint64_t read_seen;        /* host's last look at `read` */
    _Alignas(64) _Atomic uint64_t read;     /* words ever consumed */
    _Alignas(64) _Atomic uint32_t sleeping; /* enum hcq_feed_sleep */
    _Atomic uint32_t doorbell;              /* futex: bumped to wake */
    _Atomic uint32_t stop;                  /* park at the next command */
    pthread_mutex_t lock;                   /* parked, quit */
    pthread_cond_t cond;
    bool parked, quit;
};

static inline struct hcq_feed *
hcq_feed(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct hcq_feed, base);
}

/* Asks the kernel to let queues' threads fence all of the process; false: it
 * does not. The first time in a process that takes 10 to 30 ms if there are
 * other threads, and nothing if there are none: a device that starts threads
 * asks before it does. observed: Linux 6.18, 2 CPUs, 2026-11-26 */
bool hcq_feed_prepare(void);

/* Makes ring and base of a queue that is all zeros. Its thread is the
 * backend's to start and, when hcq_feed_quit has told it to end, to join. */
BELL_MUST_CHECK bell_status hcq_feed_init(struct hcq_feed *feed,
                                          struct hcq_device *dev,
                                          const struct hcq_queue_desc *desc,
                                          const struct hcq_feed_ops *ops);
void hcq_feed_fini(struct hcq_feed *feed);

/* ---- the queue's thread ---- */

/* Runs packets until hcq_feed_quit. May be left by a jump out of `run`, and
 * begun again. */
void hcq_feed_run(struct hcq_feed *feed);
/* What comes behind the packet that is run (enum hcq_op); 0: nobody knows yet.
 * The timeline's signal is behind each submission. */
unsigned hcq_feed_next_op(const struct hcq_feed *feed,
                          const struct hcq_packet *packet);
/* Waits for a signal's value; false: the queue has to stop. */
bool hcq_feed_wait(struct hcq_feed *feed, struct hcq_slot *slot,
                   uint64_t value);
/* Sleeps at most max_ns, until there is something in the ring, or a wake. */
void hcq_feed_nap(struct hcq_feed *feed, uint64_t max_ns);
/* A packet that cannot be decoded: the device is lost. Returns false. */
bool hcq_feed_lose_stream(struct hcq_feed *feed,
                          const struct hcq_packet *packet);

/* Whether the queue's thread has to park. */
static inline bool
hcq_feed_must_stop(struct hcq_feed *feed)
{
    return atomic_load_explicit(&feed->stop, memory_order_relaxed) ||
           atomic_load_explicit(&feed->base.dev->lost, memory_order_relaxed);
}

/* ---- any thread ---- */

/* Wakes the thread if it naps or sleeps. */
void hcq_feed_wake(struct hcq_feed *feed);

/* Stops the queue and tells the thread to end; false: it did not park. */
bool hcq_feed_quit(struct hcq_feed *feed);

/* hcq_device_ops of a device all of whose queues are such ones. */
BELL_MUST_CHECK bell_status hcq_feed_submit(struct hcq_queue *queue,
                                            uint64_t value);
BELL_MUST_CHECK bell_status hcq_feed_stream_bind(struct hcq_stream *stream);
void hcq_feed_stream_unbind(struct hcq_stream *stream);
BELL_MUST_CHECK bell_status hcq_feed_stream_submit(struct hcq_stream *stream,
                                                   uint64_t value);
BELL_MUST_CHECK bell_status hcq_feed_stop(struct hcq_device *dev);
void hcq_feed_resume(struct hcq_device *dev);
void hcq_feed_describe(struct hcq_device *dev, char *text, size_t size_bytes);
/* Packets that its queues have consumed. */
uint64_t hcq_feed_progress(struct hcq_device *dev);

#endif
