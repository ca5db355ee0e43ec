/* Programs: OpenCL C, or a binary that OpenCL made of it for this device. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "hcq/cl/ocl.h"

#define LOG_BYTES_MAX 600 /* of a compiler's words in a message */

/* OpenCL C is text; what OpenCL makes of it is not. */
static bool
is_cl_text(const char *data, uint64_t size_bytes)
{
    uint64_t i;

    for (i = 0; i < size_bytes; i++) {
        unsigned char c = (unsigned char)data[i];

        if (c < 32 && !isspace(c))
            return i + 1 == size_bytes && c == 0;
    }
    return true;
}

/* What the compiler says, from its first line that is not empty. */
static bell_status
build_failed(struct ocl_device *dev, cl_program program, const char *name,
             cl_int error)
{
    bell_status status;
    char *log = NULL;
    size_t n = 0;

    if (dev->api.clGetProgramBuildInfo(program, dev->found.id,
                                       CL_PROGRAM_BUILD_LOG, 0, NULL,
                                       &n) == CL_SUCCESS)
        log = host_calloc(1, n + 1);
    if (log && dev->api.clGetProgramBuildInfo(program, dev->found.id,
                                              CL_PROGRAM_BUILD_LOG, n, log,
                                              NULL) != CL_SUCCESS)
        log[0] = '\0';
    status =
        bell_fail(BELL_E_INVALID, "program '%s': clBuildProgram: %s (%d): %.*s",
                  name, ocl_error_name(error), (int)error, LOG_BYTES_MAX,
                  log ? log + strspn(log, " \n") : "");
    if (log)
        LOG(LOG_RENDER, "program '%s': %s", name, log);
    host_free(log);
    return status;
}

static bell_status
bad_program(const char *name, const char *call, cl_int error)
{
    if (error == CL_OUT_OF_HOST_MEMORY || error == CL_OUT_OF_RESOURCES)
        return ocl_fail(name, call, error);
    return bell_fail(BELL_E_INVALID, "program '%s': %s: %s (%d)", name, call,
                     ocl_error_name(error), (int)error);
}

static bell_status
build(struct ocl_device *dev, const struct hcq_program_desc *desc,
      cl_program *out_program)
{
    const unsigned char *binary = desc->binary;
    const char *text = desc->binary;
    size_t n = (size_t)desc->binary_size_bytes;
    bool is_source = is_cl_text(text, n);
    cl_int err, state = CL_SUCCESS;
    cl_program program;

    if (is_source)
        program = OCL_NEW(&dev->api, &err, clCreateProgramWithSource,
                          dev->context, 1, &text, &n);
    else
        program = OCL_NEW(&dev->api, &err, clCreateProgramWithBinary,
                          dev->context, 1, &dev->found.id, &n, &binary, &state);
    if (err == CL_SUCCESS && state != CL_SUCCESS) {
        dev->api.clReleaseProgram(program);
        err = state;
    }
    if (err != CL_SUCCESS)
        return bad_program(desc->name,
                           is_source ? "clCreateProgramWithSource"
                                     : "clCreateProgramWithBinary",
                           err);
    err = OCL(&dev->api, clBuildProgram, program, 1, &dev->found.id,
              is_source ? dev->options : "", NULL, NULL);
    if (err != CL_SUCCESS) {
        bell_status status =
            err == CL_OUT_OF_HOST_MEMORY || err == CL_OUT_OF_RESOURCES
                ? ocl_fail(desc->name, "clBuildProgram", err)
                : build_failed(dev, program, desc->name, err);

        dev->api.clReleaseProgram(program);
        return status;
    }
    *out_program = program;
    return BELL_OK;
}

/* What the kernel takes, against what the descriptor says and the device
 * has. */
static bell_status
check_kernel(struct ocl_device *dev, const struct hcq_program_desc *desc,
             cl_kernel kernel, uint32_t *out_max_local, bool *out_takes_shared)
{
    uint32_t want = 2 * desc->n_bufs + desc->n_vals;
    cl_device_id id = dev->found.id;
    size_t local[3] = {0}, total = 0;
    cl_ulong shared = 0;
    cl_uint n_args = 0;
    cl_int err;
    int i;

    err = OCL(&dev->api, clGetKernelInfo, kernel, CL_KERNEL_NUM_ARGS,
              sizeof(n_args), &n_args, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(desc->name, "clGetKernelInfo", err);
    *out_takes_shared = desc->shared_bytes && n_args == want + 1;
    if (n_args != want && !*out_takes_shared)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': the kernel has %u arguments, not those "
                         "of %u + %u words: two for a buffer (global pointer, "
                         "ulong offset), a long for a value",
                         desc->name, n_args, desc->n_bufs, desc->n_vals);
    err = OCL(&dev->api, clGetKernelWorkGroupInfo, kernel, id,
              CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof(local), local, NULL);
    if (err == CL_SUCCESS)
        err = OCL(&dev->api, clGetKernelWorkGroupInfo, kernel, id,
                  CL_KERNEL_WORK_GROUP_SIZE, sizeof(total), &total, NULL);
    if (err == CL_SUCCESS)
        err = OCL(&dev->api, clGetKernelWorkGroupInfo, kernel, id,
                  CL_KERNEL_LOCAL_MEM_SIZE, sizeof(shared), &shared, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(desc->name, "clGetKernelWorkGroupInfo", err);
    for (i = 0; i < 3; i++) {
        if (local[0] && local[i] != desc->local[i])
            return bell_fail(BELL_E_INVALID,
                             "program '%s': the kernel is for groups of "
                             "%zux%zux%zu, not %ux%ux%u",
                             desc->name, local[0], local[1], local[2],
                             desc->local[0], desc->local[1], desc->local[2]);
    }
    if (shared + desc->shared_bytes > dev->base.info.max_shared_bytes)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': %llu bytes of shared memory, %s has %u",
                         desc->name,
                         (unsigned long long)shared + desc->shared_bytes,
                         dev->base.info.name, dev->base.info.max_shared_bytes);
    if (total < (uint64_t)desc->local[0] * desc->local[1] * desc->local[2])
        return bell_fail(BELL_E_INVALID,
                         "program '%s': groups of %ux%ux%u; %s runs %zu "
                         "work-items of it in one",
                         desc->name, desc->local[0], desc->local[1],
                         desc->local[2], dev->base.info.name, total);
    if (total && total < *out_max_local)
        *out_max_local = (uint32_t)total;
    return BELL_OK;
}

bell_status
ocl_program_create(struct hcq_device *base, const struct hcq_program_desc *desc,
                   struct hcq_program_base **out_prog)
{
    const char *entry = desc->entry ? desc->entry : desc->name;
    size_t n_words = desc->n_bufs + desc->n_vals, i;
    struct ocl_device *dev = ocl_device(base);
    struct ocl_program *prog;
    cl_kernel kernel;
    bell_status status;
    cl_int err;

    prog = host_calloc(1, sizeof(*prog) +
                              OCL_QUEUES_MAX * n_words * sizeof(*prog->seen));
    if (!prog)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory for it",
                         desc->name);
    for (i = 0; i < OCL_QUEUES_MAX; i++)
        prog->kernels[i].seen = prog->seen + i * n_words;
    hcq_program_init(&prog->base, base, desc);
    snprintf(prog->entry, sizeof(prog->entry), "%s", entry);
    status = build(dev, desc, &prog->program);
    if (status != BELL_OK)
        goto fail_prog;
    kernel = OCL_NEW(&dev->api, &err, clCreateKernel, prog->program, entry);
    if (err == CL_INVALID_KERNEL_NAME)
        status = bell_fail(BELL_E_INVALID, "program '%s': no entry '%s'",
                           desc->name, entry);
    else if (err != CL_SUCCESS)
        status = bad_program(desc->name, "clCreateKernel", err);
    if (status != BELL_OK)
        goto fail_program;
    status = check_kernel(dev, desc, kernel, &prog->base.max_local_total,
                          &prog->takes_shared);
    dev->api.clReleaseKernel(kernel);
    if (status != BELL_OK)
        goto fail_program;
    prog->base.pub.code_size_bytes = desc->binary_size_bytes;
    *out_prog = &prog->base;
    return BELL_OK;

fail_program:
    dev->api.clReleaseProgram(prog->program);
fail_prog:
    host_free(prog);
    return status;
}

void
ocl_program_destroy(struct hcq_program_base *base)
{
    struct ocl_program *prog = ocl_program(base);
    struct ocl_device *dev = ocl_device(base->pub.dev);
    size_t i;

    if (dev->is_stuck)
        return;
    for (i = 0; i < OCL_QUEUES_MAX; i++) {
        if (prog->kernels[i].kernel)
            dev->api.clReleaseKernel(prog->kernels[i].kernel);
    }
    dev->api.clReleaseProgram(prog->program);
    host_free(prog);
}
