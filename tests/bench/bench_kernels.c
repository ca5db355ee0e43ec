/* Kernels as the scheduler would make them, from lowering to running on the
 * CPU queue: what the optimisation rules choose, and how fast it is.
 *
 * usage: bench_kernels [bench options]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "hcq/hcq.h"
#include "render/render.h"
#include "tests/bench/bench.h"
#include "tests/unit/lower_kernels.h"

#define N_COMPILES 15

struct work {
    const char *name, *kernel;
    int64_t d[3];
};

/* clang-format off */
static const struct work works[] = {
    {"matmul 512",             "matmul-nn", {512, 512, 512}},
    {"matmul 1024",            "matmul-nn", {1024, 1024, 1024}},
    {"matmul 1024, b.T",       "matmul-nt", {1024, 1024, 1024}},
    {"matmul 1024, a.T",       "matmul-tn", {1024, 1024, 1024}},
    {"matmul 1000",            "matmul-nn", {1000, 1000, 1000}},
    {"matmul 512x10x512",      "matmul-nn", {512, 10, 512}},
    {"matmul 512x512x10, b.T", "matmul-nt", {512, 512, 10}},
    {"conv 3x3 64x56x56 to 5", "conv",      {64, 56, 56}},
    {"softmax 4096x4096",      "softmax",   {4096, 4096, 1}},
    {"softmax 512x10",         "softmax",   {512, 10, 1}},
    {"softmax 512x1000",       "softmax",   {512, 1000, 1}},
    {"layernorm 4096x4096",    "layernorm", {4096, 4096, 1}},
    {"sum rows 4096x4096",     "sum-rows",  {4096, 4096, 1}},
    {"sum rows 256x262144",    "sum-rows",  {256, 262144, 1}},
    {"max columns 4096x4096",  "max-cols",  {4096, 4096, 1}},
    {"max columns 512x512",    "max-cols",  {512, 512, 1}},
    {"add 64Mi",               "add",       {8192, 8192, 1}},
    {"broadcast 4096x4096",    "broadcast", {4096, 4096, 1}},
    {"transpose 2048x2048",    "transpose", {2048, 2048, 1}},
    {"gather 4096x512",        "gather",    {4096, 512, 1}},
};
/* clang-format on */

struct device {
    struct lower_target target;
    struct hcq_device *dev;
    struct hcq_queue *queue;
};

/* One kernel, ready to run. */
struct job {
    const struct device *device;
    struct lk k;
    struct lower_program p;
    struct hcq_program *prog;
    struct hcq_buffer *bufs[LK_MAX_BUFS];
    uint64_t args[LK_MAX_BUFS];
    double lower_ms, code_ms;
};

static void
must(bell_status status)
{
    if (status == BELL_OK)
        return;
    fprintf(stderr, "%s\n", bell_error_last()->message);
    exit(1);
}

static const struct lk_case *
find_case(const char *name)
{
    size_t i;

    for (i = 0; i < lk_n_cases; i++) {
        if (!strcmp(lk_cases[i].name, name))
            return &lk_cases[i];
    }
    exit(2);
}

/* Lowers and compiles; keeps the median times. */
static void
compile(struct job *job, const struct work *w)
{
    const struct lower_target *target = &job->device->target;
    double lower_ms[N_COMPILES], code_ms[N_COMPILES];
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct render_binary binary;
    int i;

    for (i = 0; i < N_COMPILES; i++) {
        uint64_t start, lowered;
        lk_build(&job->k, find_case(w->kernel), w->d);
        start = time_now_ns();
        must(lower_kernel(&job->k.g, job->k.sink, target, &job->p));
        lowered = time_now_ns();
        must(render_host(&job->p, target, &binary));
        lower_ms[i] = (double)(lowered - start) * 1e-6;
        code_ms[i] = (double)(time_now_ns() - lowered) * 1e-6;
        if (i + 1 == N_COMPILES)
            break;
        render_binary_fini(&binary);
        lk_fini(&job->k);
    }
    desc.name = job->p.name;
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    desc.n_bufs = (uint32_t)job->k.n_bufs;
    must(hcq_program_create(job->device->dev, &desc, &job->prog));
    render_binary_fini(&binary);
    job->lower_ms = bench_median(lower_ms, N_COMPILES);
    job->code_ms = bench_median(code_ms, N_COMPILES);
}

/* Inputs are small numbers of each dtype; row numbers for a gather. */
static void
fill_bufs(struct job *job)
{
    size_t b, i;

    for (b = 0; b < job->k.n_bufs; b++) {
        const struct p_buf *buf = &job->k.bufs[b];
        size_t size = uop_dtype_infos[buf->dtype].size_bytes;
        must(hcq_buffer_create(job->device->dev, buf->n_elems * size,
                               HCQ_MEM_HOST_VISIBLE, &job->bufs[b]));
        job->args[b] = job->bufs[b]->va;
        if (buf->dtype == UOP_F32) {
            float *x = job->bufs[b]->host;
            for (i = 0; i < buf->n_elems; i++)
                x[i] = (float)(i * 7919 % 1009) / 512 - 1;
        } else {
            memset(job->bufs[b]->host, 0, buf->n_elems * size);
        }
    }
}

static int
run_job(void *user)
{
    struct job *job = user;
    struct hcq_cs *cs;
    uint64_t value;

    must(hcq_queue_begin(job->device->queue, &cs));
    hcq_cs_exec(cs, job->prog, job->args, (uint32_t)job->k.n_bufs, job->p.grid,
                NULL);
    must(hcq_cs_submit(cs, &value));
    must(hcq_signal_wait(hcq_queue_timeline(job->device->queue), value,
                         HCQ_TIMEOUT_NS));
    return 0;
}

static void
put_time(struct bench *bench, const char *name, const char *what, double ms)
{
    char label[96];

    snprintf(label, sizeof(label), "%s, %s", name, what);
    json_object(&bench->json, NULL);
    json_str(&bench->json, "name", label);
    json_num(&bench->json, "time_ms", ms);
    json_end(&bench->json);
}

static void
bench_work(struct bench *bench, const struct device *device,
           const struct work *w)
{
    struct job job = {.device = device};
    struct bench_case c = {.name = w->name, .ours = run_job, .user = &job};
    size_t b;

    if (!bench_wants(bench, w->name))
        return;
    compile(&job, w);
    fill_bufs(&job);
    c.n_flops = job.p.n_flops;
    c.n_bytes = job.p.n_bytes;
    bench_run(bench, &c);
    put_time(bench, w->name, "lowering", job.lower_ms);
    put_time(bench, w->name, "machine code", job.code_ms);
    for (b = 0; b < job.k.n_bufs; b++)
        hcq_buffer_destroy(job.bufs[b]);
    hcq_program_destroy(job.prog);
    lk_fini(&job.k);
}

int
main(int argc, char **argv)
{
    struct bench bench;
    struct device device;
    size_t i;

    bench_begin(&bench, argc, argv);
    must(render_host_target(&device.target));
    must(hcq_device_open("CPU", &device.dev));
    must(hcq_queue_create(device.dev, HCQ_QUEUE_COMPUTE, &device.queue));
    for (i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        bench_work(&bench, &device, &works[i]);
    hcq_queue_destroy(device.queue);
    hcq_device_close(device.dev);
    return bench_end(&bench);
}
