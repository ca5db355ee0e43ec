/* The functions of OpenCL that we call, by pointers: libOpenCL.so.1 is loaded
 * when the first device is asked for, so nothing needs it.
 *
 * Calls go through OCL and OCL_NEW, of which a test can make the n-th fail
 * (`CL:0@fault:N`). Calls that give something back are used directly: they do
 * not fail.
 */
#ifndef BELL_HCQ_CL_OCL_API_H
#define BELL_HCQ_CL_OCL_API_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define OCL_FN(name) __typeof__(&name) name

/* Immutable once loaded, but for the count of calls. Any thread. */
struct ocl_api {
    OCL_FN(clGetPlatformIDs);
    OCL_FN(clGetPlatformInfo);
    OCL_FN(clGetDeviceIDs);
    OCL_FN(clGetDeviceInfo);
    OCL_FN(clCreateContext);
    OCL_FN(clReleaseContext);
    OCL_FN(clCreateCommandQueue);
    OCL_FN(clReleaseCommandQueue);
    OCL_FN(clCreateBuffer);
    OCL_FN(clReleaseMemObject);
    OCL_FN(clCreateProgramWithSource);
    OCL_FN(clCreateProgramWithBinary);
    OCL_FN(clBuildProgram);
    OCL_FN(clGetProgramBuildInfo);
    OCL_FN(clReleaseProgram);
    OCL_FN(clCreateKernel);
    OCL_FN(clGetKernelInfo);
    OCL_FN(clGetKernelWorkGroupInfo);
    OCL_FN(clSetKernelArg);
    OCL_FN(clReleaseKernel);
    OCL_FN(clEnqueueNDRangeKernel);
    OCL_FN(clEnqueueCopyBuffer);
    OCL_FN(clEnqueueFillBuffer);
    OCL_FN(clEnqueueReadBuffer);
    OCL_FN(clEnqueueWriteBuffer);
    OCL_FN(clEnqueueMapBuffer);
    OCL_FN(clEnqueueUnmapMemObject);
    OCL_FN(clEnqueueMarkerWithWaitList);
    OCL_FN(clGetEventInfo);
    OCL_FN(clGetEventProfilingInfo);
    OCL_FN(clWaitForEvents);
    OCL_FN(clReleaseEvent);
    OCL_FN(clFlush);
    OCL_FN(clFinish);
    uint64_t fail_at; /* the number of a call, from 1; 0: none fails */
    _Atomic uint64_t n_calls;
};

#define OCL_FAULT CL_OUT_OF_RESOURCES /* what a call fails with */

static inline bool
ocl_call_fails(struct ocl_api *api)
{
    return __builtin_expect(api->fail_at != 0, 0) &&
           atomic_fetch_add(&api->n_calls, 1) + 1 == api->fail_at;
}

/* OCL(api, clFinish, queue): the call's result. */
#define OCL(api, fn, ...)                                                      \
    (ocl_call_fails(api) ? OCL_FAULT : (api)->fn(__VA_ARGS__))
/* The same of a function whose last argument is where the error goes. */
#define OCL_NEW(api, err, fn, ...)                                             \
    (ocl_call_fails(api) ? (*(err) = OCL_FAULT, NULL)                          \
                         : (api)->fn(__VA_ARGS__, err))

/* Loads the library. BELL_E_NO_DEVICE: it is not there, and what to install. It
 * stays loaded: implementations of OpenCL have threads of their own. */
BELL_MUST_CHECK bell_status ocl_api_load(struct ocl_api *out_api);

/* "CL_OUT_OF_RESOURCES"; "?" for numbers that are not an error of OpenCL
 * 1.2. */
const char *ocl_error_name(cl_int error);

/* Raises a failed call's error: BELL_E_NO_MEMORY where that is what it says,
 * else BELL_E_KERNEL. `who` is the device or queue. */
bell_status ocl_fail(const char *who, const char *call, cl_int error);

#endif
