/* What a launch costs the host on the queues of a device: nanoseconds of the
 * calling thread, while the device stands still and so takes nothing away.
 *
 * usage: bench_launch [DEVICE]        (default: NV@sim:sm_90)
 *
 * The suites of the issue ask for at most 300 ns for a fresh exec and submit,
 * and 100 ns for a launch in a bound stream, on the simulated card's memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "bench.h"
#include "hcq/hcq_graph.h"
#include "render/llvm/amdgpu.h"
#include "render/ptx/nv_container.h"
#include "render/ptx/ptx.h"

#define ROUNDS  200 /* each on a device that was held and let go */
#define REPEATS 100 /* in a round */
#define LONG_NS (60ull * 1000000000)

#define N_SLOTS 64 /* of a graph, each of one command */

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_signal *go;
    uint64_t go_value;
    struct hcq_stream *one, *many, *copies;
    uint32_t arg, grid, dst;
    uint32_t turn;
    struct hcq_graph *graphs[3]; /* of n_commands */
};

static const uint32_t n_commands[] = {1, N_SLOTS, 4096};

static void
must(bell_status status)
{
    if (status == BELL_OK)
        return;
    fprintf(stderr, "%s\n", bell_error_last()->message);
    exit(1);
}

/* A kernel that does nothing with its four arguments. */
static bell_status
build_nv(const struct hcq_device_info *info, struct render_binary *out)
{
    static const char body[] =
        ".address_size 64\n.visible .entry nop(.param .u64 a, .param .u64 b, "
        ".param .u64 c, .param .u64 d)\n{\n\tret;\n}\n";
    struct nv_container_desc d = {.entry = "nop", .n_params = 4, .n_regs = 16};
    struct ptx_target target;
    char text[512];

    target.sm = d.sm = (uint32_t)strtoul(info->arch + strlen("sm_"), NULL, 10);
    snprintf(text, sizeof(text), ".version %s\n.target sm_%u\n%s",
             d.sm >= 100 ? "8.7" : "7.8", d.sm, body);
    d.text = text;
    return info->flags & HCQ_DEVICE_SIMULATED
               ? render_nv_container(&d, out)
               : render_ptxas(text, &target, out);
}

static bell_status
build_amd(const char *arch, struct render_binary *out)
{
    static const char text[] =
        "define amdgpu_kernel void @nop(i64 %a, i64 %b, i64 %c, i64 %d) #0 {\n"
        "  ret void\n}\n"
        "attributes #0 = { nounwind \"amdgpu-no-dispatch-ptr\" "
        "\"amdgpu-no-queue-ptr\" \"amdgpu-no-dispatch-id\" "
        "\"amdgpu-no-implicitarg-ptr\" \"amdgpu-no-flat-scratch-init\" }\n";
    struct amdgpu_target target = {{0}, 0};

    snprintf(target.gfx, sizeof(target.gfx), "%.15s", arch);
    return render_amdgpu_ir(text, "nop", &target, out);
}

static struct hcq_program *
load(struct hcq_device *dev)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "nop",
        .n_bufs = 2,
        .n_vals = 2,
    };
    struct render_binary binary;
    struct hcq_program *prog;

    hcq_device_info(dev, &info);
    if (info.flags & HCQ_DEVICE_HOST_MEMORY)
        return NULL;
    must(strcmp(info.backend, "AMD") == 0 ? build_amd(info.arch, &binary)
                                          : build_nv(&info, &binary));
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    must(hcq_program_create(dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

static void
exec(struct hcq_cs *cs, struct rig *r)
{
    const uint64_t args[] = {r->buf->va, r->buf->va + 64, r->turn, 1};
    const uint32_t grid[] = {1, 1, 1};

    hcq_cs_exec(cs, r->prog, args, ARRAY_LEN(args), grid, NULL);
}

static struct hcq_stream *
new_stream(struct rig *r, const char *name, unsigned n)
{
    struct hcq_stream *stream;
    unsigned i;

    must(hcq_stream_create(r->queue, name, &stream));
    r->arg = hcq_stream_patch_point(stream, "arg");
    r->grid = hcq_stream_patch_point(stream, "grid");
    for (i = 0; i < n; i++) {
        exec(hcq_stream_cs(stream), r);
        if (i > 0)
            continue;
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG + 2, r->arg, 0);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_GRID, r->grid, 0);
    }
    must(hcq_stream_end(stream));
    return stream;
}

/* Kernels, or copies where there are none; the words of the first N_SLOTS, or
 * what they copy, are slots. */
static struct hcq_graph *
new_graph(struct rig *r, uint32_t n)
{
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "replay",
        .queues = &r->queue,
        .n_queues = 1,
    };
    const uint32_t grid[] = {1, 1, 1};
    struct hcq_graph *graph;
    char name[16];
    uint32_t i;

    must(hcq_graph_create(&desc, &graph));
    for (i = 0; i < n; i++) {
        uint32_t slot = HCQ_SLOT_NONE;
        struct hcq_graph_arg from, args[4];

        snprintf(name, sizeof(name), "slot %u", i);
        if (i < N_SLOTS)
            slot = hcq_graph_slot(graph, name, 64);
        from = slot == HCQ_SLOT_NONE
                   ? hcq_graph_memory(r->buf->va, 64, HCQ_ACCESS_READ)
                   : hcq_graph_in_slot(slot, 0, 64, HCQ_ACCESS_READ);
        args[0] = hcq_graph_memory(r->buf->va + 2048, 64, HCQ_ACCESS_WRITE);
        args[1] = from;
        args[2] = args[3] = hcq_graph_word(1);
        if (r->prog)
            hcq_graph_exec(graph, r->prog, args, 4, grid, NULL);
        else
            hcq_graph_copy(graph, NULL, &args[0], &from, 64);
    }
    must(hcq_graph_end(graph));
    for (i = 0; i < n && i < N_SLOTS; i++)
        must(hcq_graph_set(graph, i, r->buf->va));
    return graph;
}

static void
open_rig(struct rig *r, const char *name)
{
    size_t i;

    memset(r, 0, sizeof(*r));
    must(hcq_device_open(name, &r->dev));
    must(hcq_queue_create(r->dev, HCQ_QUEUE_COMPUTE, &r->queue));
    must(hcq_buffer_create(r->dev, 4096, 0, &r->buf));
    must(hcq_signal_create(r->dev, 0, &r->go));
    r->prog = load(r->dev);
    for (i = 0; i < ARRAY_LEN(r->graphs); i++)
        r->graphs[i] = new_graph(r, n_commands[i]);
    if (!r->prog)
        return;
    r->one = new_stream(r, "one", 1);
    r->many = new_stream(r, "many", 1000);
    must(hcq_stream_create(r->queue, "copies", &r->copies));
    r->dst = hcq_stream_patch_point(r->copies, "dst");
    hcq_cs_copy(hcq_stream_cs(r->copies), r->buf->va, r->buf->va + 2048, 64);
    hcq_cs_patch(hcq_stream_cs(r->copies), HCQ_FIELD_DST, r->dst, 0);
    must(hcq_stream_end(r->copies));
    must(hcq_stream_submit(r->one, NULL));
    must(hcq_queue_wait(r->queue, LONG_NS));
}

/* ---- cases --------------------------------------------------------------- */

static void
exec_and_submit(struct rig *r)
{
    struct hcq_cs *cs;

    must(hcq_queue_begin(r->queue, &cs));
    exec(cs, r);
    must(hcq_cs_submit(cs, NULL));
}

static void
exec_4_and_submit(struct rig *r)
{
    struct hcq_cs *cs;
    int i;

    must(hcq_queue_begin(r->queue, &cs));
    for (i = 0; i < 4; i++)
        exec(cs, r);
    must(hcq_cs_submit(cs, NULL));
}

static void
signal_and_submit(struct rig *r)
{
    struct hcq_cs *cs;

    must(hcq_queue_begin(r->queue, &cs));
    hcq_cs_signal(cs, r->go, r->go_value);
    must(hcq_cs_submit(cs, NULL));
}

static void
submit_one(struct rig *r)
{
    must(hcq_stream_submit(r->one, NULL));
}

static void
patch_arg(struct rig *r)
{
    must(hcq_stream_patch(r->one, r->arg, r->turn));
}

static void
patch_grid(struct rig *r)
{
    must(hcq_stream_patch(r->one, r->grid, r->turn % 100 + 1));
}

static void
patch_copy(struct rig *r)
{
    must(hcq_stream_patch(r->copies, r->dst, r->buf->va + r->turn % 64));
}

static const struct bench_launch_case {
    const char *name;
    void (*run)(struct rig *r);
    unsigned n_launches; /* of one run; 0: none */
    double limit_ns;     /* the goal; 0: none */
} cases[] = {
    {"exec and submit", exec_and_submit, 1, 300},
    {"4 execs and submit", exec_4_and_submit, 4, 0},
    {"signal and submit", signal_and_submit, 0, 0},
    {"submit a stream of 1", submit_one, 1, 100},
    {"patch an argument", patch_arg, 0, 0},
    {"patch a grid", patch_grid, 0, 0},
    {"patch a copy", patch_copy, 0, 0},
};

struct result {
    double median_ns, best_ns; /* of one run; the best on a busy machine */
};

static struct result
sum_up(double *ns, size_t n)
{
    struct result result = {.median_ns = bench_median(ns, n)};
    size_t i;

    result.best_ns = ns[0];
    for (i = 1; i < n; i++)
        result.best_ns = ns[i] < result.best_ns ? ns[i] : result.best_ns;
    return result;
}

/* The queue waits for the host meanwhile. */
static struct result
time_case(struct rig *r, const struct bench_launch_case *c)
{
    static double ns[ROUNDS];
    struct hcq_cs *cs;
    int round, i;

    for (round = 0; round < ROUNDS; round++) {
        uint64_t start_ns;

        must(hcq_queue_begin(r->queue, &cs));
        hcq_cs_wait(cs, r->go, ++r->go_value);
        must(hcq_cs_submit(cs, NULL));
        start_ns = time_now_ns();
        for (i = 0; i < REPEATS; i++, r->turn++)
            c->run(r);
        ns[round] = (double)(time_now_ns() - start_ns) / REPEATS;
        hcq_signal_set(r->go, r->go_value);
        must(hcq_queue_wait(r->queue, LONG_NS));
    }
    return sum_up(ns, ROUNDS);
}

/* A thousand kernels in a stream: what the host pays for each. The queue waits
 * for the host meanwhile; how long a card took before, and what of the host's
 * caches was left by then, is not what is asked. */
static struct result
time_many(struct rig *r)
{
    static double ns[ROUNDS];
    struct hcq_cs *cs;
    int round, i;

    for (round = 0; round < 20; round++) {
        uint64_t start_ns;

        must(hcq_queue_begin(r->queue, &cs));
        hcq_cs_wait(cs, r->go, ++r->go_value);
        must(hcq_cs_submit(cs, NULL));
        must(hcq_stream_submit(r->many, NULL));
        start_ns = time_now_ns();
        for (i = 0; i < 4; i++)
            must(hcq_stream_submit(r->many, NULL));
        ns[round] = (double)(time_now_ns() - start_ns) / 4000;
        hcq_signal_set(r->go, r->go_value);
        must(hcq_queue_wait(r->queue, LONG_NS));
    }
    return sum_up(ns, 20);
}

/* The queue waits meanwhile for the host: N_SLOTS set to what changes, or
 * not, and a submission. One before brings what it reads into the host's
 * caches. */
static uint64_t
replay(struct rig *r, struct hcq_graph *graph, uint32_t n_changes)
{
    struct hcq_cs *cs;
    uint64_t start_ns;
    uint32_t i;

    must(hcq_queue_begin(r->queue, &cs));
    hcq_cs_wait(cs, r->go, ++r->go_value);
    must(hcq_cs_submit(cs, NULL));
    must(hcq_graph_submit(graph, NULL));
    start_ns = time_now_ns();
    for (i = 0; i < n_changes; i++)
        must(hcq_graph_set(graph, i, r->buf->va + 64 + r->turn % 16 * 8));
    must(hcq_graph_submit(graph, NULL));
    start_ns = time_now_ns() - start_ns;
    r->turn++;
    hcq_signal_set(r->go, r->go_value);
    must(hcq_graph_wait(graph, LONG_NS));
    return start_ns;
}

static struct result
time_replays(struct rig *r, struct hcq_graph *graph, int n_rounds)
{
    static double ns[ROUNDS];
    int round;

    for (round = 0; round < n_rounds; round++)
        ns[round] = (double)replay(r, graph, 0);
    return sum_up(ns, (size_t)n_rounds);
}

/* The third replay in a row with as many changes: each of both copies of the
 * graph has only those to catch up with. */
static double
replay_changed(struct rig *r, struct hcq_graph *graph, uint32_t n_changes)
{
    replay(r, graph, n_changes);
    replay(r, graph, n_changes);
    return (double)replay(r, graph, n_changes);
}

/* A replay in which one slot changed, and what each further one adds: its
 * setting, the look at overlaps, its patch. */
static void
time_slots(struct rig *r, struct hcq_graph *graph, struct result *out_one,
           struct result *out_each)
{
    static double one[ROUNDS], each[ROUNDS];
    int round;

    for (round = 0; round < ROUNDS; round++) {
        double all = replay_changed(r, graph, N_SLOTS);

        one[round] = replay_changed(r, graph, 1);
        each[round] = (all - one[round]) / (N_SLOTS - 1);
    }
    *out_one = sum_up(one, ROUNDS);
    *out_each = sum_up(each, ROUNDS);
}

static void
put_case(struct json *json, const char *name, struct result result,
         unsigned n_launches, double limit_ns)
{
    json_object(json, NULL);
    json_str(json, "name", name);
    json_num(json, "time_ns", result.median_ns);
    json_num(json, "best_ns", result.best_ns);
    if (n_launches)
        json_num(json, "launch_ns", result.median_ns / n_launches);
    if (limit_ns > 0)
        json_num(json, "goal_ns", limit_ns);
    json_end(json);
}

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "NV@sim:sm_90";
    struct result one, each;
    struct json json;
    const char *text;
    struct rig r;
    size_t i;

    if (argc > 2 || name[0] == '-') {
        fprintf(stderr, "usage: %s [DEVICE]\n", argv[0]);
        return 2;
    }
    open_rig(&r, name);
    json_init(&json);
    json_str(&json, "device", hcq_device_name(r.dev));
    json_array(&json, "results");
    for (i = 0; i < ARRAY_LEN(cases) && r.prog; i++)
        put_case(&json, cases[i].name, time_case(&r, &cases[i]),
                 cases[i].n_launches, cases[i].limit_ns);
    if (r.prog)
        put_case(&json, "submit a stream of 1000, each", time_many(&r), 1, 100);
    put_case(&json, "replay a graph of 1", time_replays(&r, r.graphs[0], 200),
             0, 1000);
    put_case(&json, "replay a graph of 64", time_replays(&r, r.graphs[1], 200),
             0, 1000);
    put_case(&json, "replay a graph of 4096", time_replays(&r, r.graphs[2], 8),
             0, 1000);
    time_slots(&r, r.graphs[1], &one, &each);
    put_case(&json, "replay a graph of 64, one slot changed", one, 0, 1000);
    put_case(&json, "another changed slot", each, 0, 20);
    for (i = 0; i < ARRAY_LEN(r.graphs); i++)
        hcq_graph_destroy(r.graphs[i]);
    json_end(&json);
    text = json_text(&json);
    fputs(text ? text : "", stdout);
    json_fini(&json);
    hcq_device_close(r.dev);
    return text ? 0 : 1;
}
