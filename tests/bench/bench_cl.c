/* Kernels and launches on an OpenCL device beside the same OpenCL C given to
 * OpenCL by hand, in the same process.
 *
 * usage: bench_cl [bench options]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/cl/ocl.h"
#include "render/cl/cl.h"
#include "tests/bench/bench.h"
#include "tests/unit/lower_kernels.h"

#define N_LAUNCHES 500

struct work {
    const char *name, *kernel;
    int64_t d[3];
    unsigned n_launches; /* of a run, then a wait */
};

static const struct work works[] = {
    {"500 launches", "add", {4, 4, 1}, N_LAUNCHES},
    {"500 launches, submitted one by one", "add", {4, 4, 1}, N_LAUNCHES},
    {"a launch and a wait", "add", {4, 4, 1}, 1},
    {"matmul 1024", "matmul-nn", {1024, 1024, 1024}, 1},
    {"softmax 4096x1024", "softmax", {4096, 1024, 1}, 1},
};

struct device {
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct ocl_device *ocl;
    struct cl_target target;
    struct lower_target lower;
    cl_command_queue raw;
};

/* One kernel, ready to run both ways. */
struct job {
    const struct device *device;
    const struct work *work;
    bool is_one_by_one;
    struct lk k;
    struct lower_program p;
    struct hcq_program *prog;
    struct hcq_buffer *bufs[LK_MAX_BUFS];
    uint64_t args[LK_MAX_BUFS];
    cl_program raw_program;
    cl_kernel raw_kernel;
    cl_mem raw_bufs[LK_MAX_BUFS];
    size_t global[3], local[3];
};

static void
must(bell_status status)
{
    if (status == BELL_OK)
        return;
    fprintf(stderr, "%s\n", bell_error_last()->message);
    exit(1);
}

static void
cl_must(const char *call, cl_int err)
{
    if (err == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", call, ocl_error_name(err));
    exit(1);
}

static void
open_device(struct device *d)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    cl_int err;

    if (hcq_device_open("CL:0", &d->dev) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        exit(77);
    }
    must(hcq_queue_create(d->dev, HCQ_QUEUE_COMPUTE, &d->queue));
    d->ocl = ocl_device(d->dev);
    hcq_device_info(d->dev, &info);
    if (!render_cl_target(info.arch, &d->target))
        exit(1);
    render_cl_lower_target(&d->target, &d->lower);
    d->lower.n_units = info.n_units;
    d->raw = d->ocl->api.clCreateCommandQueue(d->ocl->context, d->ocl->found.id,
                                              0, &err);
    cl_must("clCreateCommandQueue", err);
}

static void
build_raw(struct job *job, const char *text)
{
    struct ocl_device *ocl = job->device->ocl;
    cl_ulong offset = 0;
    cl_uint i;
    cl_int err;

    job->raw_program =
        ocl->api.clCreateProgramWithSource(ocl->context, 1, &text, NULL, &err);
    cl_must("clCreateProgramWithSource", err);
    cl_must("clBuildProgram",
            ocl->api.clBuildProgram(job->raw_program, 1, &ocl->found.id,
                                    ocl->options, NULL, NULL));
    job->raw_kernel =
        ocl->api.clCreateKernel(job->raw_program, job->p.name, &err);
    cl_must("clCreateKernel", err);
    for (i = 0; i < job->p.n_params; i++) {
        const struct p_buf *buf = &job->k.bufs[i];
        size_t n = buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;

        job->raw_bufs[i] = ocl->api.clCreateBuffer(
            ocl->context, CL_MEM_READ_WRITE, n, NULL, &err);
        cl_must("clCreateBuffer", err);
        cl_must("clEnqueueWriteBuffer",
                ocl->api.clEnqueueWriteBuffer(job->device->raw,
                                              job->raw_bufs[i], CL_TRUE, 0, n,
                                              buf->data, 0, NULL, NULL));
        cl_must("clSetKernelArg",
                ocl->api.clSetKernelArg(job->raw_kernel, 2 * i, sizeof(cl_mem),
                                        &job->raw_bufs[i]));
        cl_must("clSetKernelArg",
                ocl->api.clSetKernelArg(job->raw_kernel, 2 * i + 1,
                                        sizeof(offset), &offset));
    }
    for (i = 0; i < 3; i++) {
        job->local[i] = job->p.local[i];
        job->global[i] = (size_t)job->p.grid[i] * job->p.local[i];
    }
}

static void
make_job(struct job *job, const struct device *d, const struct work *w)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    uint32_t i;
    char *text;

    job->device = d;
    job->work = w;
    job->is_one_by_one = strstr(w->name, "one by one") != NULL;
    lk_init(&job->k, lk_find(w->kernel), w->d, 3);
    must(lower_kernel(&job->k.g, job->k.sink, &d->lower, &job->p));
    must(render_cl(&job->p, &d->target, &text));
    desc.name = job->p.name;
    desc.binary = text;
    desc.binary_size_bytes = strlen(text);
    desc.n_bufs = job->p.n_params;
    memcpy(desc.local, job->p.local, sizeof(desc.local));
    must(hcq_program_create(d->dev, &desc, &job->prog));
    for (i = 0; i < job->p.n_params; i++) {
        const struct p_buf *buf = &job->k.bufs[i];
        size_t n = buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;

        must(hcq_buffer_create(d->dev, n, 0, &job->bufs[i]));
        must(hcq_buffer_write(job->bufs[i], 0, buf->data, n));
        job->args[i] = job->bufs[i]->va;
    }
    build_raw(job, text);
    host_free(text);
}

static void
end_job(struct job *job)
{
    struct ocl_api *api = &job->device->ocl->api;
    uint32_t i;

    for (i = 0; i < job->p.n_params; i++) {
        api->clReleaseMemObject(job->raw_bufs[i]);
        hcq_buffer_destroy(job->bufs[i]);
    }
    api->clReleaseKernel(job->raw_kernel);
    api->clReleaseProgram(job->raw_program);
    hcq_program_destroy(job->prog);
    lk_fini(&job->k);
}

static int
run_ours(void *user)
{
    struct job *job = user;
    struct hcq_queue *queue = job->device->queue;
    struct hcq_cs *cs;
    unsigned i;

    must(hcq_queue_begin(queue, &cs));
    for (i = 0; i < job->work->n_launches; i++) {
        if (i && job->is_one_by_one) {
            must(hcq_cs_submit(cs, NULL));
            must(hcq_queue_begin(queue, &cs));
        }
        hcq_cs_exec(cs, job->prog, job->args, job->p.n_params, job->p.grid,
                    NULL);
    }
    must(hcq_cs_submit(cs, NULL));
    must(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    return 0;
}

static void
run_raw(void *user)
{
    struct job *job = user;
    struct ocl_api *api = &job->device->ocl->api;
    unsigned i;

    for (i = 0; i < job->work->n_launches; i++)
        cl_must("clEnqueueNDRangeKernel",
                api->clEnqueueNDRangeKernel(job->device->raw, job->raw_kernel,
                                            3, NULL, job->global, job->local, 0,
                                            NULL, NULL));
    cl_must("clFinish", api->clFinish(job->device->raw));
}

int
main(int argc, char **argv)
{
    struct bench bench;
    struct device d;
    size_t i;

    bench_begin(&bench, argc, argv);
    open_device(&d);
    for (i = 0; i < ARRAY_LEN(works); i++) {
        struct job job = {.work = NULL};
        struct bench_case c = {
            .name = works[i].name,
            .ours = run_ours,
            .peer = run_raw,
            .peer_name = "OpenCL by hand",
            .user = &job,
        };

        if (!bench_wants(&bench, works[i].name))
            continue;
        make_job(&job, &d, &works[i]);
        bench_run(&bench, &c);
        end_job(&job);
    }
    d.ocl->api.clReleaseCommandQueue(d.raw);
    hcq_device_close(d.dev);
    return bench_end(&bench);
}
