/* A child process and what it inherited: it is told so at every call, what it
 * destroys is the parent's no less for it, and it can open its own. */
#include "cts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hcq/hcq_graph.h"

#define CHILD_SECONDS 120u /* then a signal ends it */

/* What a test hands to its child. */
struct inherited {
    struct cts *t;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_signal *sig;
    struct hcq_stream *stream; /* built */
    struct hcq_graph *graph;   /* built */
    struct hcq_cs *cs;         /* of t->copy, open, with commands */
};

/* In the child: the number of the first call that was not refused, or 0. */
static int
is_refused(int number, bell_status status)
{
    const struct bell_error *error = bell_error_last();

    if (status == BELL_E_INVALID && strstr(error->message, "before a fork"))
        return 0;
    fprintf(stderr, "child: call %d: %s: %s\n", number,
            bell_status_name(status), status ? error->message : "");
    return number;
}

static int
use_all(struct inherited *in)
{
    struct cts *t = in->t;
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_signal *sig;
    struct hcq_queue *queue;
    struct hcq_stream *stream;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    uint64_t word = 0, live = 1, cached = 1;
    const bell_status got[] = {
        hcq_queue_begin(t->queue, &cs),
        hcq_cs_submit(in->cs, NULL),
        hcq_stream_submit(in->stream, NULL),
        hcq_stream_wait(in->stream, LONG_NS),
        hcq_stream_create(t->queue, "none", &stream),
        hcq_graph_set(in->graph, 0, in->buf->va + 64),
        hcq_graph_submit(in->graph, NULL),
        hcq_graph_wait(in->graph, LONG_NS),
        hcq_queue_wait(t->queue, LONG_NS),
        hcq_queue_create(t->dev, HCQ_QUEUE_COPY, &queue),
        hcq_signal_create(t->dev, 0, &sig),
        hcq_signal_wait(in->sig, 99, LONG_NS),
        hcq_buffer_create(t->dev, 4096, 0, &buf),
        hcq_buffer_create_pinned(t->dev, &word, sizeof(word), &buf),
        hcq_buffer_write(in->buf, 0, &word, sizeof(word)),
        hcq_buffer_read(in->buf, 0, &word, sizeof(word)),
        hcq_program_create(t->dev, &desc, &prog),
        hcq_device_status(t->dev),
        hcq_device_synchronize(t->dev, LONG_NS),
        hcq_device_recover(t->dev),
    };
    int i, bad = 0;

    for (i = 0; i < (int)ARRAY_LEN(got) && !bad; i++)
        bad = got[i] == BELL_E_INVALID ? 0 : i + 1;
    if (bad)
        return is_refused(bad, got[bad - 1]);
    bad = is_refused(50, hcq_device_status(t->dev));
    if (bad)
        return bad;
    hcq_memory_usage(t->dev, &live, &cached);
    hcq_device_fault(t->dev, &fault);
    if (hcq_signal_value(in->sig) != UINT64_MAX || live || cached ||
        fault.kind != HCQ_FAULT_NONE || hcq_stream_busy(in->stream) ||
        hcq_graph_busy(in->graph))
        return 51;
    hcq_signal_set(in->sig, 1000);
    hcq_memory_trim(t->dev);
    return 0;
}

static void
destroy_all(struct inherited *in)
{
    hcq_graph_destroy(in->graph);
    hcq_stream_destroy(in->stream);
    hcq_signal_destroy(in->sig);
    hcq_buffer_destroy(in->buf);
    hcq_program_destroy(in->prog);
    hcq_queue_destroy(in->t->queue);
    hcq_queue_destroy(in->t->copy);
    hcq_device_close(in->t->dev);
}

/* A device of the child's own: opens and copies. */
static int
use_own(const struct cts *t)
{
    struct hcq_buffer *from, *to;
    struct hcq_queue *queue;
    struct hcq_device *dev;
    struct hcq_cs *cs;
    uint32_t words[2] = {0x1234, 0};

    if (hcq_device_open(t->device, &dev) != BELL_OK ||
        hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue) != BELL_OK ||
        hcq_buffer_create(dev, 64, 0, &from) != BELL_OK ||
        hcq_buffer_create(dev, 64, 0, &to) != BELL_OK ||
        hcq_buffer_write(from, 0, &words[0], 4) != BELL_OK ||
        hcq_queue_begin(queue, &cs) != BELL_OK)
        return 60;
    hcq_cs_copy(cs, to->va, from->va, 4);
    if (hcq_cs_submit(cs, NULL) != BELL_OK ||
        hcq_queue_wait(queue, LONG_NS) != BELL_OK ||
        hcq_buffer_read(to, 0, &words[1], 4) != BELL_OK)
        return 61;
    hcq_device_close(dev);
    return words[1] == 0x1234 ? 0 : 62;
}

/* The thread sanitizer lets no child of a process with threads have any. */
static bool
may_open(const struct cts *t)
{
    return (t->info.flags & (HCQ_DEVICE_HOST_MEMORY | HCQ_DEVICE_SIMULATED)) &&
           !CTS_TSAN;
}

static void
reap(pid_t child)
{
    int status = 0;

    CHECK(waitpid(child, &status, 0) == child, "no child");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "the child ended by signal %d, code %d",
          WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
}

/* Zeroes the slot's memory. */
static struct hcq_graph *
make_graph(struct cts *t, const struct hcq_buffer *buf)
{
    struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .queues = &t->queue,
        .n_queues = 1,
    };
    struct hcq_graph *graph;
    struct hcq_graph_arg to;

    OK(hcq_graph_create(&desc, &graph));
    to = hcq_graph_in_slot(hcq_graph_slot(graph, "to", 4), 0, 4, 0);
    hcq_graph_fill(graph, NULL, &to, 0, 4);
    OK(hcq_graph_end(graph));
    OK(hcq_graph_set(graph, 0, buf->va));
    return graph;
}

/* Work in flight, a stream under way, all kinds of objects; then all of them
 * go on. */
static void
fork_anywhere(struct cts *t)
{
    struct inherited in = {.t = t};
    struct hcq_buffer *to = cts_ints(t, 1024, 0);
    struct hcq_cs *cs;
    pid_t child;

    in.prog = cts_program(t, CTS_ADD_ONE);
    in.buf = cts_ints(t, 1024, 3);
    in.sig = cts_signal(t, 5);
    OK(hcq_stream_create(t->queue, "inherited", &in.stream));
    cts_exec(hcq_stream_cs(in.stream), in.prog, 8,
             ARGS(in.buf->va, in.buf->va, 128));
    OK(hcq_stream_end(in.stream));
    OK(hcq_stream_submit(in.stream, NULL));
    OK(hcq_stream_wait(in.stream, LONG_NS));
    in.graph = make_graph(t, in.buf);
    in.cs = cs = cts_begin(t->copy);
    hcq_cs_wait(cs, in.sig, 6);
    hcq_cs_copy(cs, to->va, in.buf->va, 4096);
    fflush(NULL);
    child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        int bad;

        alarm(CHILD_SECONDS);
        bad = use_all(&in);
        destroy_all(&in);
        if (!bad && may_open(t))
            bad = use_own(t);
        if (CTS_ASAN || CTS_TSAN) /* which would find its memory unreachable */
            _exit(bad);
        exit(bad);
    }
    OK(hcq_cs_submit(cs, NULL));
    reap(child);
    CHECK(hcq_signal_value(in.sig) == 5, "the child's store came through");
    hcq_signal_set(in.sig, 6);
    OK(hcq_stream_submit(in.stream, NULL));
    OK(hcq_device_synchronize(t->dev, LONG_NS));
    CHECK(cts_int(to, 9) == 4 || cts_int(to, 9) == 5, "%d", cts_int(to, 9));
    CHECK(cts_int(in.buf, 1023) == 5, "%d", cts_int(in.buf, 1023));
    OK(hcq_graph_submit(in.graph, NULL));
    OK(hcq_graph_wait(in.graph, LONG_NS));
    CHECK(cts_int(in.buf, 0) == 0 && cts_int(in.buf, 1) == 5, "%d",
          cts_int(in.buf, 0));
    hcq_graph_destroy(in.graph);
    hcq_stream_destroy(in.stream);
}

/* A child that the C library knows nothing of. */
static void
raw_clone(struct cts *t)
{
    struct hcq_cs *cs;
    long child;

    fflush(NULL);
    child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    CHECK(child >= 0, "no child");
    if (child == 0) {
        bell_status status = hcq_queue_begin(t->queue, &cs);

        hcq_queue_destroy(t->queue);
        hcq_device_close(t->dev);
        _exit(status == BELL_E_INVALID ? 0 : 1);
    }
    reap((pid_t)child);
    cs = cts_begin(t->queue);
    cts_finish(t->queue, cs);
}

const struct cts_case cts_fork_cases[] = {
    {"fork with everything inherited", fork_anywhere},
    {"fork by the system call", raw_clone},
    {NULL, NULL},
};
