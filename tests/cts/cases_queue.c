/* Queues: order, waits, timelines, rings. */
#include "cts.h"

#include <pthread.h>
#include <stdio.h>

static void
signal_and_wait(struct cts *t)
{
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    uint64_t value;
    int i;

    for (i = 0; i < 2; i++) {
        struct hcq_cs *cs = cts_begin(queues[i]);

        hcq_cs_signal(cs, sig, (uint64_t)i * 10 + 5);
        hcq_cs_wait(cs, sig, (uint64_t)i * 10 + 5); /* satisfied */
        hcq_cs_signal(cs, sig, (uint64_t)i * 10 + 6);
        OK(hcq_cs_submit(cs, &value));
        CHECK(value == 1, "%llu", (unsigned long long)value);
        OK(hcq_signal_wait(sig, (uint64_t)i * 10 + 6, LONG_NS));
        OK(hcq_signal_wait(hcq_queue_timeline(queues[i]), value, LONG_NS));
    }
    CHECK(hcq_signal_value(sig) == 16, "value");
}

static void
late_wait(struct cts *t)
{
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    int i;

    for (i = 0; i < 2; i++) {
        struct hcq_signal *go = cts_signal(t, 0), *done = cts_signal(t, 0);
        struct hcq_cs *cs = cts_begin(queues[i]);

        hcq_cs_wait(cs, go, 3);
        hcq_cs_signal(cs, done, 1);
        OK(hcq_cs_submit(cs, NULL));
        /* The report names the queue and what it waits for. */
        HANGS(hcq_signal_wait(done, 1, 30 * MS_NS), hcq_queue_name(queues[i]));
        HANGS(hcq_queue_wait(queues[i], MS_NS), "wait");
        HANGS(hcq_device_synchronize(t->dev, 30 * MS_NS), ">= 3");
        hcq_signal_set(go, 2);
        HANGS(hcq_signal_wait(done, 1, 5 * MS_NS), "is 0");
        hcq_signal_set(go, 9);
        OK(hcq_signal_wait(done, 1, LONG_NS));
        OK(hcq_device_synchronize(t->dev, LONG_NS));
    }
}

/* Two queues hand a counter to and fro. */
static void
ping_pong(struct cts *t)
{
    struct hcq_signal *ping = cts_signal(t, 0), *pong = cts_signal(t, 0);
    uint64_t i;

    for (i = 1; i <= 500; i++) {
        struct hcq_cs *cs = cts_begin(t->queue);

        hcq_cs_wait(cs, pong, i - 1);
        hcq_cs_signal(cs, ping, i);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(t->copy);
        hcq_cs_wait(cs, ping, i);
        hcq_cs_signal(cs, pong, i);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_signal_wait(pong, 500, LONG_NS));
    OK(hcq_device_synchronize(t->dev, LONG_NS));
    CHECK(hcq_signal_value(ping) == 500, "ping");
}

/* A token runs through eight queues in a ring. */
static void
many_queues(struct cts *t)
{
    struct hcq_queue *queues[8];
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct hcq_buffer *buf = cts_ints(t, 16, 0), *tmp = cts_ints(t, 16, 0);
    struct hcq_signal *sig = cts_signal(t, 0);
    uint64_t value = 0;
    int i, round;

    for (i = 0; i < 8; i++)
        OK(hcq_queue_create(t->dev, i & 1 ? HCQ_QUEUE_COPY : HCQ_QUEUE_COMPUTE,
                            &queues[i]));
    for (round = 0; round < 25; round++) {
        for (i = 0; i < 8; i++) {
            struct hcq_cs *cs = cts_begin(queues[i]);

            hcq_cs_wait(cs, sig, value);
            hcq_cs_barrier(cs);
            if (i & 1)
                hcq_cs_copy(cs, buf->va, tmp->va, 64);
            else
                cts_exec(cs, prog, 4, ARGS(tmp->va, buf->va, 4));
            hcq_cs_signal(cs, sig, ++value);
            OK(hcq_cs_submit(cs, NULL));
        }
    }
    OK(hcq_device_synchronize(t->dev, LONG_NS));
    CHECK(cts_int(buf, 0) == 100 && cts_int(buf, 15) == 100, "%d",
          cts_int(buf, 0));
    for (i = 0; i < 8; i++)
        hcq_queue_destroy(queues[i]);
}

static void
queue_limit(struct cts *t)
{
    struct hcq_queue *queues[256];
    size_t n = 0;
    bell_status status = BELL_OK;

    while (n < ARRAY_LEN(queues)) {
        status = hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queues[n]);
        if (status != BELL_OK)
            break;
        n++;
    }
    CHECK(n >= 8, "%zu queues", n);
    /* A small window to the card's memory may be full before. */
    if (n < ARRAY_LEN(queues) && status != BELL_E_NO_MEMORY)
        FAILS(status, BELL_E_UNSUPPORTED, "limit");
    while (n)
        hcq_queue_destroy(queues[--n]);
    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queues[0]));
    hcq_queue_destroy(queues[0]);
    hcq_queue_destroy(NULL);
}

static void
wrong_use(struct cts *t)
{
    struct hcq_queue_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_queue *queue;
    struct hcq_cs *cs, *cs2;
    struct hcq_signal *sig = cts_signal(t, 0);

    FAILS(hcq_queue_create(NULL, HCQ_QUEUE_COPY, &queue), BELL_E_INVALID,
          "NULL");
    FAILS(hcq_queue_create(t->dev, (enum hcq_queue_kind)9, &queue),
          BELL_E_INVALID, "kind 9");
    desc.ring_size_bytes = 5000;
    FAILS(hcq_queue_create_with(t->dev, &desc, &queue), BELL_E_INVALID, "5000");
    desc.struct_size = 4;
    FAILS(hcq_queue_create_with(t->dev, &desc, &queue), BELL_E_INVALID,
          "descriptor");
    FAILS(hcq_queue_begin(NULL, &cs), BELL_E_INVALID, "NULL");
    cs = cts_begin(t->queue);
    FAILS(hcq_queue_begin(t->queue, &cs2), BELL_E_INVALID, "open already");
    hcq_cs_discard(cs);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "without a begin");
    FAILS(hcq_cs_submit(NULL, NULL), BELL_E_INVALID, "NULL");
    /* The first error stays, and nothing of the stream is run. */
    cs = cts_begin(t->queue);
    hcq_cs_signal(cs, sig, 1);
    hcq_cs_wait(cs, NULL, 1);
    hcq_cs_write(cs, 2, 1, 32);
    hcq_cs_signal(cs, sig, 2);
    CHECK(strstr(bell_error_last()->message, "signal is NULL"), "'%s'",
          bell_error_last()->message);
    FAILS(hcq_cs_end(cs), BELL_E_INVALID, "signal is NULL");
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "signal is NULL");
    OK(hcq_device_synchronize(t->dev, LONG_NS));
    CHECK(hcq_signal_value(sig) == 0, "it was run");
    /* The queue goes on. */
    cs = cts_begin(t->queue);
    hcq_cs_signal(cs, sig, 3);
    OK(hcq_cs_end(cs));
    cts_finish(t->queue, cs);
    CHECK(hcq_signal_value(sig) == 3, "value");
    /* An empty submission is one, too. */
    cts_finish(t->queue, cts_begin(t->queue));
    cs = cts_begin(t->queue);
    hcq_cs_discard(cs);
    hcq_cs_signal(cs, sig, 9);
    cts_finish(t->queue, cts_begin(t->queue));
    CHECK(hcq_signal_value(sig) == 3, "discarded command");
}

/* Queues in turn: each waits for what the one before signals. */
static void
run_timeline(struct cts *t, struct hcq_signal *line, int n)
{
    struct hcq_queue *queues[2] = {t->queue, t->copy};
    uint64_t v = hcq_signal_value(line);
    int i;

    for (i = 0; i < n; i++) {
        struct hcq_cs *cs = cts_begin(queues[i % 2]);

        hcq_cs_wait(cs, line, v++);
        hcq_cs_signal(cs, line, v);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_signal_wait(line, v, LONG_NS));
    CHECK(hcq_signal_value(line) == v, "past it");
    /* The last value is there before its queue is idle: a copy engine writes
     * the upper half behind the lower one. */
    OK(hcq_device_synchronize(t->dev, LONG_NS));
}

static void
timeline(struct cts *t)
{
    run_timeline(t, cts_signal(t, 0), 100);
}

static void
timeline_past_32_bits(struct cts *t)
{
    struct hcq_signal *line = cts_signal(t, 0xfffffff0ull);

    run_timeline(t, line, 100);
    CHECK(hcq_signal_value(line) == 0xfffffff0ull + 100, "%llu",
          (unsigned long long)hcq_signal_value(line));
    hcq_signal_set(line, 0x7ffffffffffffff0ull);
    run_timeline(t, line, 50);
}

static struct hcq_queue *
small_queue(struct cts *t, uint64_t timeout_ns)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COMPUTE,
        .ring_size_bytes = 4096,
        .submit_timeout_ns = timeout_ns,
    };
    struct hcq_queue *queue;

    OK(hcq_queue_create_with(t->dev, &desc, &queue));
    return queue;
}

/* Submissions of every length start at every offset of a small ring. */
static void
ring_wraps(struct cts *t)
{
    struct hcq_queue *queue = small_queue(t, 0);
    struct hcq_program *prog = cts_program(t, CTS_VALUES);
    struct hcq_buffer *buf = cts_buffer(t, 64);
    struct hcq_signal *sig = cts_signal(t, 0);
    uint64_t n = 0, count = 0;
    int64_t seen;
    int i, k;

    for (i = 0; i < 3000; i++) {
        struct hcq_cs *cs = cts_begin(queue);

        for (k = 0; k < i % 23; k++)
            hcq_cs_signal(cs, sig, ++count);
        if (i % 3 == 0)
            hcq_cs_barrier(cs);
        if (i % 2 == 0)
            hcq_cs_timestamp(cs, sig);
        n = (uint64_t)i;
        cts_exec(cs, prog, 1, ARGS(buf->va, n, n, (uint64_t) - (int64_t)n));
        OK(hcq_cs_submit(cs, NULL));
        if (i % 100 == 99) {
            OK(hcq_queue_wait(queue, LONG_NS));
            OK(hcq_buffer_read(buf, 0, &seen, 8));
            CHECK(seen == -(int64_t)n, "%lld after %d", (long long)seen, i);
            CHECK(hcq_signal_value(sig) == count, "lost commands");
        }
    }
    for (i = 0; i < 40 && t->info.max_args == HCQ_ARGS_MAX; i++) {
        uint64_t args[HCQ_ARGS_MAX] = {buf->va};
        struct hcq_cs *cs = cts_begin(queue);

        args[HCQ_ARGS_MAX - 1] = (uint64_t)i;
        cts_exec(cs, cts_program(t, CTS_MANY), 1, HCQ_ARGS_MAX, args);
        cts_finish(queue, cs);
        OK(hcq_buffer_read(buf, 0, &seen, 8));
        CHECK(seen == (HCQ_ARGS_MAX - 1) * i, "%lld", (long long)seen);
    }
    hcq_queue_destroy(queue);
}

static void
ring_oversubscribed(struct cts *t)
{
    struct hcq_queue *queue = small_queue(t, 500 * MS_NS);
    struct hcq_signal *go = cts_signal(t, 0), *count = cts_signal(t, 0);
    struct hcq_cs *cs = cts_begin(queue);
    uint64_t n = 0, value;
    bell_status status = BELL_OK;

    hcq_cs_wait(cs, go, 1);
    OK(hcq_cs_submit(cs, NULL));
    while (status == BELL_OK && n < 100000) {
        cs = cts_begin(queue);
        hcq_cs_signal(cs, count, n + 1);
        status = hcq_cs_submit(cs, &value);
        n += status == BELL_OK;
    }
    FAILS(status, BELL_E_TIMEOUT, "no room");
    FAILS(status, BELL_E_TIMEOUT, "wait for signal");
    CHECK(n > 10 && n < 4096, "%llu", (unsigned long long)n);
    hcq_signal_set(go, 1);
    /* Accepted work is done, refused work is not, and the queue goes on. */
    OK(hcq_queue_wait(queue, LONG_NS));
    CHECK(hcq_signal_value(count) == n, "%llu of %llu",
          (unsigned long long)hcq_signal_value(count), (unsigned long long)n);
    cs = cts_begin(queue);
    hcq_cs_signal(cs, count, 1u << 20);
    OK(hcq_cs_submit(cs, &value));
    OK(hcq_signal_wait(hcq_queue_timeline(queue), value, LONG_NS));
    CHECK(hcq_signal_value(count) == 1u << 20, "afterwards");
    hcq_queue_destroy(queue);
}

/* The host runs ahead of a slow device: submissions wait for room. */
static void
ring_backpressure(struct cts *t)
{
    struct hcq_queue *queue = small_queue(t, LONG_NS);
    struct hcq_program *prog = cts_program(t, CTS_WORK);
    struct hcq_buffer *buf = cts_buffer(t, 64);
    struct hcq_signal *sig = cts_signal(t, 0);
    const uint64_t n = CTS_TIMES(2000);
    uint64_t i;

    for (i = 1; i <= n; i++) {
        struct hcq_cs *cs = cts_begin(queue);

        cts_exec(cs, prog, 1, ARGS(buf->va, 2000));
        hcq_cs_signal(cs, sig, i);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_queue_wait(queue, LONG_NS));
    CHECK(hcq_signal_value(sig) == n, "value");
    hcq_queue_destroy(queue);
}

static void
stream_too_large(struct cts *t)
{
    struct hcq_queue *queue = small_queue(t, 0);
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_cs *cs = cts_begin(queue);
    int i;

    for (i = 0; i < 10000; i++)
        hcq_cs_signal(cs, sig, 1);
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "larger than the ring");
    OK(hcq_queue_wait(queue, LONG_NS));
    CHECK(hcq_signal_value(sig) == 0, "part of it was run");
    /* The largest that fits does run, twice. */
    for (i = 0; i < 2; i++) {
        int n = 0;

        cs = cts_begin(queue);
        while (hcq_cs_end(cs) == BELL_OK && ++n)
            hcq_cs_barrier(cs);
        hcq_cs_discard(cs);
        cs = cts_begin(queue);
        while (--n > 0)
            hcq_cs_barrier(cs);
        cts_finish(queue, cs);
    }
    hcq_queue_destroy(queue);
}

struct thread_arg {
    struct cts *t;
    struct hcq_queue *queue;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    bool ok;
};

static void *
launch_500(void *arg)
{
    struct thread_arg *a = arg;
    int i;

    for (i = 0; i < 500; i++) {
        struct hcq_cs *cs;
        uint64_t value;

        if (hcq_queue_begin(a->queue, &cs) != BELL_OK)
            return NULL;
        cts_exec(cs, a->prog, 8, ARGS(a->buf->va, a->buf->va, 8));
        if (hcq_cs_submit(cs, &value) != BELL_OK)
            return NULL;
        if (i % 7 == 0 && hcq_signal_wait(hcq_queue_timeline(a->queue), value,
                                          LONG_NS) != BELL_OK)
            return NULL;
    }
    a->ok = hcq_queue_wait(a->queue, LONG_NS) == BELL_OK;
    return NULL;
}

static void
threads_on_queues(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE);
    struct thread_arg args[4];
    pthread_t threads[4];
    int i;

    for (i = 0; i < 4; i++) {
        args[i] = (struct thread_arg){
            .t = t,
            .prog = prog,
            .buf = cts_ints(t, 64, i),
        };
        OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &args[i].queue));
    }
    for (i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, launch_500, &args[i]) == 0,
              "thread");
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (i = 0; i < 4; i++) {
        CHECK(args[i].ok, "thread %d", i);
        CHECK(cts_int(args[i].buf, 0) == i + 500 &&
                  cts_int(args[i].buf, 63) == i + 500,
              "%d", cts_int(args[i].buf, 0));
    }
}

/* Destroying a queue waits for its work. */
static void
destroy_waits(struct cts *t)
{
    struct hcq_program *prog = cts_program(t, CTS_WORK);
    struct hcq_buffer *buf = cts_ints(t, 4, 0);
    struct hcq_queue *queue;
    struct hcq_signal *sig = cts_signal(t, 0);
    struct hcq_cs *cs;

    OK(hcq_queue_create(t->dev, HCQ_QUEUE_COMPUTE, &queue));
    cs = cts_begin(queue);
    cts_exec(cs, prog, 4, ARGS(buf->va, cts_steps(t, 2000000)));
    hcq_cs_signal(cs, sig, 1);
    OK(hcq_cs_submit(cs, NULL));
    hcq_queue_destroy(queue);
    CHECK(hcq_signal_value(sig) == 1, "it did not wait");
}

const struct cts_case cts_queue_cases[] = {
    {"queue signal and wait", signal_and_wait},
    {"queue late wait", late_wait},
    {"queue ping-pong of two", ping_pong},
    {"queue token through eight", many_queues},
    {"queue limit", queue_limit},
    {"queue wrong use", wrong_use},
    {"queue threads", threads_on_queues},
    {"queue destroy waits", destroy_waits},
    {"timeline", timeline},
    {"timeline past 32 bits", timeline_past_32_bits},
    {"ring wraps at every offset", ring_wraps},
    {"ring oversubscribed", ring_oversubscribed},
    {"ring back-pressure", ring_backpressure},
    {"ring too small for a stream", stream_too_large},
    {NULL, NULL},
};
