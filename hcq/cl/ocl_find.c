/* Which OpenCL devices there are, what they are, and what they lack. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/cl/ocl.h"

#define PLATFORMS_MAX 16u

/* ---- asking ---- */

bell_status
ocl_text(struct ocl_api *api, cl_device_id id, cl_device_info what, char *text,
         size_t size_bytes)
{
    char all[4096];
    size_t n = 0;
    cl_int err = OCL(api, clGetDeviceInfo, id, what, sizeof(all), all, &n);

    if (err != CL_SUCCESS)
        return ocl_fail(OCL_BACKEND, "clGetDeviceInfo", err);
    if (n == 0 || n > sizeof(all))
        n = 1;
    all[n - 1] = '\0';
    snprintf(text, size_bytes, "%s", all + strspn(all, " "));
    return BELL_OK;
}

/* Asks for a number of 4 bytes or 8: a cl_uint, cl_bool, size_t, cl_ulong or
 * bits. */
bell_status
ocl_number(struct ocl_api *api, cl_device_id id, cl_device_info what,
           uint64_t *out)
{
    uint64_t value = 0;
    uint32_t half;
    size_t n = 0;
    cl_int err = OCL(api, clGetDeviceInfo, id, what, sizeof(value), &value, &n);

    if (err != CL_SUCCESS)
        return ocl_fail(OCL_BACKEND, "clGetDeviceInfo", err);
    memcpy(&half, &value, sizeof(half));
    *out = n == sizeof(half) ? half : value;
    return BELL_OK;
}

/* ---- listing ---- */

/* Adds a platform's devices behind *n. */
static bell_status
add_devices(struct ocl_api *api, cl_platform_id platform,
            struct ocl_found *list, uint32_t *n)
{
    cl_device_id ids[OCL_FOUND_MAX];
    cl_uint n_ids = 0, i;
    uint64_t type;
    cl_int err;

    err = OCL(api, clGetDeviceIDs, platform, CL_DEVICE_TYPE_ALL, OCL_FOUND_MAX,
              ids, &n_ids);
    if (err == CL_DEVICE_NOT_FOUND)
        return BELL_OK;
    if (err != CL_SUCCESS)
        return ocl_fail(OCL_BACKEND, "clGetDeviceIDs", err);
    for (i = 0; i < n_ids && *n < OCL_FOUND_MAX; i++) {
        BELL_TRY(ocl_number(api, ids[i], CL_DEVICE_TYPE, &type));
        list[(*n)++] = (struct ocl_found){platform, ids[i],
                                          (type & CL_DEVICE_TYPE_CPU) != 0};
    }
    return BELL_OK;
}

/* The host's processor last; the order is else kept. */
static void
sort_found(struct ocl_found *list, uint32_t n)
{
    struct ocl_found sorted[OCL_FOUND_MAX];
    uint32_t i, k = 0, pass;

    for (pass = 0; pass < 2; pass++) {
        for (i = 0; i < n; i++) {
            if (list[i].is_host == (pass == 1))
                sorted[k++] = list[i];
        }
    }
    memcpy(list, sorted, n * sizeof(*list));
}

bell_status
ocl_find(struct ocl_api *api, struct ocl_found *out_list, uint32_t *out_n)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint n_platforms = 0, i;
    uint32_t n = 0;
    cl_int err;

    err = OCL(api, clGetPlatformIDs, PLATFORMS_MAX, platforms, &n_platforms);
    if (err != CL_SUCCESS && err != -1001) /* CL_PLATFORM_NOT_FOUND_KHR */
        return ocl_fail(OCL_BACKEND, "clGetPlatformIDs", err);
    if (err != CL_SUCCESS)
        n_platforms = 0;
    for (i = 0; i < n_platforms && i < PLATFORMS_MAX; i++)
        BELL_TRY(add_devices(api, platforms[i], out_list, &n));
    if (n == 0)
        return bell_fail(BELL_E_NO_DEVICE,
                         "OpenCL has no device: no implementation is installed "
                         "(/etc/OpenCL/vendors): the card's maker has one, "
                         "Debian's mesa-opencl-icd, intel-opencl-icd or, for "
                         "the processor, pocl-opencl-icd");
    sort_found(out_list, n);
    *out_n = n;
    return BELL_OK;
}

/* ---- what it lacks ---- */

static bell_status
lacks(const char *what)
{
    return bell_fail(BELL_E_UNSUPPORTED, "this OpenCL device lacks %s", what);
}

static bool
has_extension(const char *list, const char *name)
{
    const char *at = list;
    size_t n = strlen(name);

    while ((at = strstr(at, name)) != NULL) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
        at += n;
    }
    return false;
}

bell_status
ocl_check(struct ocl_api *api, cl_device_id id)
{
    unsigned major = 0, minor = 0;
    char text[4096];
    uint64_t value;

    BELL_TRY(ocl_text(api, id, CL_DEVICE_VERSION, text, sizeof(text)));
    if (sscanf(text, "OpenCL %u.%u", &major, &minor) != 2 ||
        major * 10 + minor < 12)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "this device's OpenCL is '%.40s', not 1.2 or later",
                         text);
    BELL_TRY(ocl_number(api, id, CL_DEVICE_AVAILABLE, &value));
    if (!value)
        return lacks("its hardware: it is not available");
    BELL_TRY(ocl_number(api, id, CL_DEVICE_COMPILER_AVAILABLE, &value));
    if (!value)
        return lacks("a compiler");
    BELL_TRY(ocl_number(api, id, CL_DEVICE_ENDIAN_LITTLE, &value));
    if (!value)
        return lacks("little-endian memory");
    BELL_TRY(ocl_text(api, id, CL_DEVICE_PROFILE, text, sizeof(text)));
    if (strcmp(text, "EMBEDDED_PROFILE") == 0) {
        BELL_TRY(ocl_text(api, id, CL_DEVICE_EXTENSIONS, text, sizeof(text)));
        if (!has_extension(text, "cles_khr_int64"))
            return lacks("integers of 64 bits (cles_khr_int64)");
    }
    BELL_TRY(ocl_number(api, id, CL_DEVICE_SINGLE_FP_CONFIG, &value));
    if (!(value & CL_FP_ROUND_TO_NEAREST))
        return lacks("rounding to nearest");
    if (!(value & CL_FP_INF_NAN))
        return lacks("infinities and NaN");
    return BELL_OK;
}

/* ---- what it is ---- */

static uint32_t
at_most(uint64_t value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

/* "cl12+fma+fp64": what code may use, as render/cl reads it. */
static bell_status
fill_arch(struct ocl_device *dev)
{
    struct ocl_api *api = &dev->api;
    cl_device_id id = dev->found.id;
    uint64_t single, wide = 0;

    BELL_TRY(ocl_number(api, id, CL_DEVICE_SINGLE_FP_CONFIG, &single));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_DOUBLE_FP_CONFIG, &wide));
    snprintf(dev->base.info.arch, sizeof(dev->base.info.arch), "cl12%s%s",
             (single & CL_FP_FMA) && !(single & CL_FP_SOFT_FLOAT) ? "+fma" : "",
             wide ? "+fp64" : "");
    snprintf(dev->options, sizeof(dev->options), "-cl-std=CL1.2%s",
             single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                 ? " -cl-fp32-correctly-rounded-divide-sqrt"
                 : "");
    return BELL_OK;
}

bell_status
ocl_fill_info(struct ocl_device *dev)
{
    struct hcq_device_info *info = &dev->base.info;
    struct ocl_api *api = &dev->api;
    cl_device_id id = dev->found.id;
    uint64_t units, bits, shared, args, buffer, total;
    size_t sizes[8] = {1, 1, 1};
    cl_int err;
    int i;

    if (dev->found.is_host)
        info->flags |= HCQ_DEVICE_HOST_CPU;
    BELL_TRY(fill_arch(dev));
    BELL_TRY(
        ocl_text(api, id, CL_DEVICE_NAME, info->model, sizeof(info->model)));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_MAX_COMPUTE_UNITS, &units));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_ADDRESS_BITS, &bits));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_LOCAL_MEM_SIZE, &shared));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_MAX_PARAMETER_SIZE, &args));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &buffer));
    BELL_TRY(
        ocl_number(api, id, CL_DEVICE_GLOBAL_MEM_SIZE, &info->memory_bytes));
    BELL_TRY(ocl_number(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, &total));
    err = OCL(api, clGetDeviceInfo, id, CL_DEVICE_MAX_WORK_ITEM_SIZES,
              sizeof(sizes), sizes, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(OCL_BACKEND, "clGetDeviceInfo", err);
    info->n_units = at_most(units, UINT32_MAX);
    info->max_local_total = at_most(total, 1u << 16);
    info->max_shared_bytes = at_most(shared, INT32_MAX);
    info->max_buffer_bytes = buffer < 1ull << (OCL_OFFSET_BITS - 1)
                                 ? buffer
                                 : 1ull << (OCL_OFFSET_BITS - 1);
    for (i = 0; i < 3; i++) {
        info->max_local[i] = at_most(sizes[i], info->max_local_total);
        /* work-items are counted in a size_t of the device */
        info->max_grid[i] =
            bits >= 64 ? (i ? 65535u : INT32_MAX)
                       : at_most(UINT32_MAX / info->max_local_total, 65535u);
    }
    info->timestamp_hz = 1000000000u;
    /* a buffer takes two words */
    info->max_args = at_most(args / (8 + bits / 8), HCQ_ARGS_MAX);
    return BELL_OK;
}
