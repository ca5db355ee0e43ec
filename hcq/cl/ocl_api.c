/* See ocl_api.h. */
#include "hcq/cl/ocl_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "base/process.h"

#define ROW(fn)                                                                \
    {                                                                          \
#fn, offsetof(struct ocl_api, fn)                                      \
    }

static const struct {
    const char *name;
    size_t offset;
} rows[] = {
    ROW(clGetPlatformIDs),
    ROW(clGetPlatformInfo),
    ROW(clGetDeviceIDs),
    ROW(clGetDeviceInfo),
    ROW(clCreateContext),
    ROW(clReleaseContext),
    ROW(clCreateCommandQueue),
    ROW(clReleaseCommandQueue),
    ROW(clCreateBuffer),
    ROW(clReleaseMemObject),
    ROW(clCreateProgramWithSource),
    ROW(clCreateProgramWithBinary),
    ROW(clBuildProgram),
    ROW(clGetProgramBuildInfo),
    ROW(clReleaseProgram),
    ROW(clCreateKernel),
    ROW(clGetKernelInfo),
    ROW(clGetKernelWorkGroupInfo),
    ROW(clSetKernelArg),
    ROW(clReleaseKernel),
    ROW(clEnqueueNDRangeKernel),
    ROW(clEnqueueCopyBuffer),
    ROW(clEnqueueFillBuffer),
    ROW(clEnqueueReadBuffer),
    ROW(clEnqueueWriteBuffer),
    ROW(clEnqueueMapBuffer),
    ROW(clEnqueueUnmapMemObject),
    ROW(clEnqueueMarkerWithWaitList),
    ROW(clGetEventInfo),
    ROW(clGetEventProfilingInfo),
    ROW(clWaitForEvents),
    ROW(clReleaseEvent),
    ROW(clFlush),
    ROW(clFinish),
};

bell_status
ocl_api_load(struct ocl_api *out_api)
{
    void *lib, *sym;
    size_t i;

    if (process_is_static())
        return bell_fail(BELL_E_NO_DEVICE,
                         "this program is linked statically (-static), and "
                         "OpenCL cannot be loaded into it");
    lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return bell_fail(BELL_E_NO_DEVICE,
                         "OpenCL's loader cannot be loaded: %s; Debian's "
                         "package is ocl-icd-libopencl1",
                         dlerror());
    memset(out_api, 0, sizeof(*out_api));
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        sym = dlsym(lib, rows[i].name);
        if (!sym)
            return bell_fail(BELL_E_NO_DEVICE,
                             "this libOpenCL.so.1 has no %s, which is of "
                             "OpenCL 1.2: install Debian's ocl-icd-libopencl1",
                             rows[i].name);
        memcpy((char *)out_api + rows[i].offset, &sym, sizeof(sym));
    }
    return BELL_OK;
}

/* src: cl.h of Khronos' OpenCL-Headers, error codes of 1.0 to 1.2; -1001:
 * cl_khr_icd */
const char *
ocl_error_name(cl_int error)
{
    static const char *const low[] = {
        "CL_SUCCESS",
        "CL_DEVICE_NOT_FOUND",
        "CL_DEVICE_NOT_AVAILABLE",
        "CL_COMPILER_NOT_AVAILABLE",
        "CL_MEM_OBJECT_ALLOCATION_FAILURE",
        "CL_OUT_OF_RESOURCES",
        "CL_OUT_OF_HOST_MEMORY",
        "CL_PROFILING_INFO_NOT_AVAILABLE",
        "CL_MEM_COPY_OVERLAP",
        "CL_IMAGE_FORMAT_MISMATCH",
        "CL_IMAGE_FORMAT_NOT_SUPPORTED",
        "CL_BUILD_PROGRAM_FAILURE",
        "CL_MAP_FAILURE",
        "CL_MISALIGNED_SUB_BUFFER_OFFSET",
        "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        "CL_COMPILE_PROGRAM_FAILURE",
        "CL_LINKER_NOT_AVAILABLE",
        "CL_LINK_PROGRAM_FAILURE",
        "CL_DEVICE_PARTITION_FAILED",
        "CL_KERNEL_ARG_INFO_NOT_AVAILABLE",
    };
    static const char *const invalid[] = {
        "CL_INVALID_VALUE",           "CL_INVALID_DEVICE_TYPE",
        "CL_INVALID_PLATFORM",        "CL_INVALID_DEVICE",
        "CL_INVALID_CONTEXT",         "CL_INVALID_QUEUE_PROPERTIES",
        "CL_INVALID_COMMAND_QUEUE",   "CL_INVALID_HOST_PTR",
        "CL_INVALID_MEM_OBJECT",      "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
        "CL_INVALID_IMAGE_SIZE",      "CL_INVALID_SAMPLER",
        "CL_INVALID_BINARY",          "CL_INVALID_BUILD_OPTIONS",
        "CL_INVALID_PROGRAM",         "CL_INVALID_PROGRAM_EXECUTABLE",
        "CL_INVALID_KERNEL_NAME",     "CL_INVALID_KERNEL_DEFINITION",
        "CL_INVALID_KERNEL",          "CL_INVALID_ARG_INDEX",
        "CL_INVALID_ARG_VALUE",       "CL_INVALID_ARG_SIZE",
        "CL_INVALID_KERNEL_ARGS",     "CL_INVALID_WORK_DIMENSION",
        "CL_INVALID_WORK_GROUP_SIZE", "CL_INVALID_WORK_ITEM_SIZE",
        "CL_INVALID_GLOBAL_OFFSET",   "CL_INVALID_EVENT_WAIT_LIST",
        "CL_INVALID_EVENT",           "CL_INVALID_OPERATION",
        "CL_INVALID_GL_OBJECT",       "CL_INVALID_BUFFER_SIZE",
        "CL_INVALID_MIP_LEVEL",       "CL_INVALID_GLOBAL_WORK_SIZE",
        "CL_INVALID_PROPERTY",
    };
    size_t at = error <= 0 ? (size_t)(0 - (int64_t)error) : SIZE_MAX;

    if (at < ARRAY_LEN(low))
        return low[at];
    if (at >= 30 && at - 30 < ARRAY_LEN(invalid))
        return invalid[at - 30];
    return at == 1001 ? "CL_PLATFORM_NOT_FOUND_KHR" : "?";
}

bell_status
ocl_fail(const char *who, const char *call, cl_int error)
{
    bool memory = error == CL_OUT_OF_HOST_MEMORY ||
                  error == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                  error == CL_INVALID_BUFFER_SIZE;

    return bell_fail(memory ? BELL_E_NO_MEMORY : BELL_E_KERNEL,
                     "%s: %s: %s%s (%d)", who, call,
                     memory ? "out of memory: " : "", ocl_error_name(error),
                     (int)error);
}
