/* The OpenCL device with an OpenCL of our own behind it: platforms, devices and
 * kernels that answer what no implementation on this machine does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/cl/ocl.h"

/* ---- what it answers ---- */

struct fake_reply {
    cl_device_info what;
    size_t n_bytes;
    const void *bytes; /* NULL: the numbers */
    uint64_t numbers[3];
};

/* clang-format off */
#define TEXT(what, text) {what, sizeof(text), text, {0}}
#define N4(what, number) {what, 4, NULL, {number}}
#define N8(what, number) {what, 8, NULL, {number}}
/* clang-format on */
#define DEVICE(number)   ((cl_device_id)(uintptr_t)(0x1000 + (number)))
#define PLATFORM(number) ((cl_platform_id)(uintptr_t)(0x100 + (number)))
#define PROGRAM          ((cl_program)(uintptr_t)0x10)
#define KERNEL           ((cl_kernel)(uintptr_t)0x20)
#define THE_CONTEXT      ((cl_context)(uintptr_t)0x30)

/* All of a card that has everything; a test changes one. */
static const struct fake_reply good[] = {
    TEXT(CL_DEVICE_NAME, "  A card"),
    TEXT(CL_DEVICE_VERSION, "OpenCL 1.2 of somebody"),
    TEXT(CL_DEVICE_PROFILE, "FULL_PROFILE"),
    TEXT(CL_DEVICE_EXTENSIONS, "cl_khr_fp64"),
    N4(CL_DEVICE_AVAILABLE, 1),
    N4(CL_DEVICE_COMPILER_AVAILABLE, 1),
    N4(CL_DEVICE_ENDIAN_LITTLE, 1),
    N8(CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN),
    N8(CL_DEVICE_DOUBLE_FP_CONFIG, 0),
    N4(CL_DEVICE_MAX_COMPUTE_UNITS, 7),
    N4(CL_DEVICE_ADDRESS_BITS, 64),
    N8(CL_DEVICE_LOCAL_MEM_SIZE, 32768),
    N8(CL_DEVICE_MAX_PARAMETER_SIZE, 1024),
    N8(CL_DEVICE_MAX_MEM_ALLOC_SIZE, 1ull << 30),
    N8(CL_DEVICE_GLOBAL_MEM_SIZE, 1ull << 32),
    N8(CL_DEVICE_MAX_WORK_GROUP_SIZE, 256),
    {CL_DEVICE_MAX_WORK_ITEM_SIZES, 24, NULL, {256, 128, 64}},
};

static struct {
    const struct fake_reply *changed;
    size_t n_changed;
    cl_int error; /* of whatever is asked for `what` */
    uint32_t what;
    cl_uint n_platforms, n_devices[20];
    uint64_t types[20][4]; /* of a platform's first devices */
    /* of programs and kernels */
    cl_int create_error, build_error, binary_state, kernel_error;
    const char *log, *options;
    size_t n_args, local[3], total, n_source;
    uint64_t shared;
    int n_programs, n_kernels;
    bool from_binary;
} fake;

static cl_int
answer(const struct fake_reply *reply, size_t room, void *value, size_t *n)
{
    if (value)
        memcpy(value, reply->bytes ? reply->bytes : reply->numbers,
               room < reply->n_bytes ? room : reply->n_bytes);
    if (n)
        *n = reply->n_bytes;
    return CL_SUCCESS;
}

static cl_int
fake_device_info(cl_device_id id, cl_device_info what, size_t room, void *value,
                 size_t *n)
{
    size_t i;

    if (fake.error && what == fake.what)
        return fake.error;
    if (what == CL_DEVICE_TYPE) {
        size_t at = (uintptr_t)id - 0x1000;

        return answer(
            &(struct fake_reply){what, 8, &fake.types[at / 100][at % 100 % 4]},
            room, value, n);
    }
    for (i = 0; i < fake.n_changed; i++) {
        if (fake.changed[i].what == what)
            return answer(&fake.changed[i], room, value, n);
    }
    for (i = 0; i < ARRAY_LEN(good); i++) {
        if (good[i].what == what)
            return answer(&good[i], room, value, n);
    }
    return CL_INVALID_VALUE;
}

static cl_int
fake_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *n)
{
    cl_uint i;

    for (i = 0; i < room && i < fake.n_platforms; i++)
        ids[i] = PLATFORM(i);
    *n = fake.n_platforms; /* whatever it answers */
    return fake.what == CL_PLATFORM_NAME ? fake.error : CL_SUCCESS;
}

static cl_int
fake_device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                cl_device_id *ids, cl_uint *n)
{
    size_t p = (uintptr_t)platform - 0x100;
    cl_uint i;

    assert_true(type == CL_DEVICE_TYPE_ALL && p < fake.n_platforms);
    if (fake.error && fake.what == CL_DEVICE_PLATFORM)
        return fake.error;
    if (fake.n_devices[p] == 0)
        return CL_DEVICE_NOT_FOUND;
    for (i = 0; i < room && i < fake.n_devices[p]; i++)
        ids[i] = DEVICE(100 * p + i);
    *n = fake.n_devices[p];
    return CL_SUCCESS;
}

static cl_program
made(cl_int *err)
{
    *err = fake.create_error;
    if (fake.create_error)
        return NULL;
    fake.n_programs++;
    return PROGRAM;
}

static cl_program
fake_with_source(cl_context context, cl_uint n, const char **texts,
                 const size_t *sizes, cl_int *err)
{
    assert_true(context == THE_CONTEXT && n == 1 && texts[0]);
    fake.n_source = sizes[0];
    fake.from_binary = false;
    return made(err);
}

static cl_program
fake_with_binary(cl_context context, cl_uint n, const cl_device_id *ids,
                 const size_t *sizes, const unsigned char **binaries,
                 cl_int *state, cl_int *err)
{
    assert_true(context == THE_CONTEXT && n == 1 && ids[0] == DEVICE(0));
    assert_non_null(binaries[0]);
    fake.n_source = sizes[0];
    fake.from_binary = true;
    *state = fake.binary_state;
    return made(err);
}

static cl_int
fake_build(cl_program program, cl_uint n, const cl_device_id *ids,
           const char *options, void(CL_CALLBACK *told)(cl_program, void *),
           void *user)
{
    assert_true(program == PROGRAM && n == 1 && ids[0] == DEVICE(0));
    assert_true(!told && !user);
    fake.options = options;
    return fake.build_error;
}

static cl_int
fake_build_info(cl_program program, cl_device_id id, cl_program_build_info what,
                size_t room, void *value, size_t *n)
{
    assert_true(program == PROGRAM && id == DEVICE(0) &&
                what == CL_PROGRAM_BUILD_LOG);
    if (!fake.log)
        return CL_INVALID_VALUE;
    return answer(&(struct fake_reply){what, strlen(fake.log), fake.log}, room,
                  value, n);
}

static cl_int
fake_release_program(cl_program program)
{
    assert_true(program == PROGRAM && fake.n_programs-- > 0);
    return CL_SUCCESS;
}

static cl_kernel
fake_kernel(cl_program program, const char *entry, cl_int *err)
{
    assert_true(program == PROGRAM);
    assert_string_equal(entry, "entry");
    *err = fake.kernel_error;
    if (fake.kernel_error)
        return NULL;
    fake.n_kernels++;
    return KERNEL;
}

static cl_int
fake_release_kernel(cl_kernel kernel)
{
    assert_true(kernel == KERNEL && fake.n_kernels-- > 0);
    return CL_SUCCESS;
}

static cl_int
fake_kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room,
                 void *value, size_t *n)
{
    cl_uint n_args = (cl_uint)fake.n_args;

    assert_true(kernel == KERNEL && what == CL_KERNEL_NUM_ARGS);
    if (fake.error && fake.what == what)
        return fake.error;
    return answer(&(struct fake_reply){what, 4, &n_args}, room, value, n);
}

static cl_int
fake_group_info(cl_kernel kernel, cl_device_id id,
                cl_kernel_work_group_info what, size_t room, void *value,
                size_t *n)
{
    struct fake_reply reply = {what, 8, &fake.total, {0}};

    assert_true(kernel == KERNEL && id == DEVICE(0));
    if (fake.error && fake.what == what)
        return fake.error;
    if (what == CL_KERNEL_COMPILE_WORK_GROUP_SIZE)
        reply = (struct fake_reply){what, 24, fake.local, {0}};
    else if (what == CL_KERNEL_LOCAL_MEM_SIZE)
        reply.bytes = &fake.shared;
    else
        assert_int_equal(what, CL_KERNEL_WORK_GROUP_SIZE);
    return answer(&reply, room, value, n);
}

static struct ocl_api
fake_api(void)
{
    memset(&fake, 0, sizeof(fake));
    return (struct ocl_api){
        .clGetPlatformIDs = fake_platform_ids,
        .clGetDeviceIDs = fake_device_ids,
        .clGetDeviceInfo = fake_device_info,
        .clCreateProgramWithSource = fake_with_source,
        .clCreateProgramWithBinary = fake_with_binary,
        .clBuildProgram = fake_build,
        .clGetProgramBuildInfo = fake_build_info,
        .clReleaseProgram = fake_release_program,
        .clCreateKernel = fake_kernel,
        .clReleaseKernel = fake_release_kernel,
        .clGetKernelInfo = fake_kernel_info,
        .clGetKernelWorkGroupInfo = fake_group_info,
    };
}

static void
fails(bell_status got, bell_status want, const char *word)
{
    assert_int_equal(got, want);
    if (!strstr(bell_error_last()->message, word))
        fail_msg("no '%s' in: %s", word, bell_error_last()->message);
}

/* ---- which devices there are ---- */

static void
test_find(void **state)
{
    struct ocl_found list[OCL_FOUND_MAX + 1];
    struct ocl_api api = fake_api();
    static const struct {
        unsigned platform, device;
        bool is_host;
    } want[] = {{0, 1, false}, {2, 200, false}, {2, 202, false},
                {0, 0, true},  {0, 2, true},    {2, 201, true}};
    uint32_t n = 99, i;

    (void)state;
    fake.n_platforms = 3;
    fake.n_devices[0] = fake.n_devices[2] = 3;
    fake.types[0][0] = fake.types[0][2] = CL_DEVICE_TYPE_CPU;
    fake.types[0][1] = CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT;
    fake.types[2][0] = CL_DEVICE_TYPE_GPU;
    fake.types[2][1] = CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT;
    fake.types[2][2] = CL_DEVICE_TYPE_ACCELERATOR;
    assert_int_equal(ocl_find(&api, list, &n), BELL_OK);
    assert_int_equal(n, ARRAY_LEN(want));
    for (i = 0; i < n; i++) {
        assert_ptr_equal(list[i].platform, PLATFORM(want[i].platform));
        assert_ptr_equal(list[i].id, DEVICE(want[i].device));
        assert_int_equal(list[i].is_host, want[i].is_host);
    }
    fake.what = CL_DEVICE_TYPE;
    fake.error = CL_INVALID_DEVICE;
    fails(ocl_find(&api, list, &n), BELL_E_KERNEL,
          "clGetDeviceInfo: CL_INVALID_DEVICE");
    fake.what = CL_DEVICE_PLATFORM;
    fake.error = CL_OUT_OF_HOST_MEMORY;
    fails(ocl_find(&api, list, &n), BELL_E_NO_MEMORY, "clGetDeviceIDs");
    fake.error = CL_DEVICE_NOT_FOUND;
    fails(ocl_find(&api, list, &n), BELL_E_NO_DEVICE, "OpenCL has no device");
    fake.what = CL_PLATFORM_NAME;
    fake.error = -1001;
    fails(ocl_find(&api, list, &n), BELL_E_NO_DEVICE, "OpenCL has no device");
    fake.error = CL_INVALID_VALUE;
    fails(ocl_find(&api, list, &n), BELL_E_KERNEL, "clGetPlatformIDs");
}

/* More than we have places for, of devices and of platforms. */
static void
test_find_many(void **state)
{
    struct ocl_found list[OCL_FOUND_MAX + 1];
    struct ocl_api api = fake_api();
    uint32_t n = 0, i;

    (void)state;
    memset(list, 0x5a, sizeof(list));
    fake.n_platforms = 20;
    for (i = 0; i < 20; i++)
        fake.n_devices[i] = 1;
    assert_int_equal(ocl_find(&api, list, &n), BELL_OK);
    assert_int_equal(n, 16);
    assert_ptr_equal(list[15].platform, PLATFORM(15));
    fake.n_platforms = 2;
    fake.n_devices[1] = 90;
    assert_int_equal(ocl_find(&api, list, &n), BELL_OK);
    assert_int_equal(n, OCL_FOUND_MAX);
    assert_ptr_equal(list[63].id, DEVICE(100 + 62));
    fake.n_platforms = 1;
    fake.n_devices[0] = 90;
    assert_int_equal(ocl_find(&api, list, &n), BELL_OK);
    assert_int_equal(n, OCL_FOUND_MAX);
    assert_ptr_equal(list[63].id, DEVICE(63));
    assert_int_equal(((uint8_t *)&list[64])[0], 0x5a);
}

static void
test_text(void **state)
{
    static char longer[5000];
    static const struct fake_reply none = {CL_DEVICE_NAME, 0, "x", {0}},
                                   more = {CL_DEVICE_NAME, 4097, longer, {0}},
                                   most = {CL_DEVICE_NAME, 4096, longer, {0}};
    struct ocl_api api = fake_api();
    char text[4200];

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    assert_int_equal(
        ocl_text(&api, DEVICE(0), CL_DEVICE_NAME, text, sizeof(text)), BELL_OK);
    assert_string_equal(text, "A card");
    assert_int_equal(ocl_text(&api, DEVICE(0), CL_DEVICE_NAME, text, 4),
                     BELL_OK);
    assert_string_equal(text, "A c");
    fake.n_changed = 1;
    fake.changed = &none;
    assert_int_equal(
        ocl_text(&api, DEVICE(0), CL_DEVICE_NAME, text, sizeof(text)), BELL_OK);
    assert_string_equal(text, "");
    fake.changed = &more;
    assert_int_equal(
        ocl_text(&api, DEVICE(0), CL_DEVICE_NAME, text, sizeof(text)), BELL_OK);
    assert_string_equal(text, "");
    fake.changed = &most;
    assert_int_equal(
        ocl_text(&api, DEVICE(0), CL_DEVICE_NAME, text, sizeof(text)), BELL_OK);
    assert_int_equal(strlen(text), 4095);
    fails(ocl_text(&api, DEVICE(0), 0x7777, text, sizeof(text)), BELL_E_KERNEL,
          "CL: clGetDeviceInfo: CL_INVALID_VALUE");
}

/* ---- what one lacks ---- */

static void
test_lacks(void **state)
{
    static const struct {
        struct fake_reply changed[2];
        const char *word; /* NULL: it lacks nothing */
    } cases[] = {
        {{TEXT(CL_DEVICE_VERSION, "OpenCL 1.2")}, NULL},
        {{TEXT(CL_DEVICE_VERSION, "OpenCL 3.0 PoCL")}, NULL},
        {{TEXT(CL_DEVICE_VERSION, "OpenCL 2.0")}, NULL},
        {{TEXT(CL_DEVICE_VERSION, "OpenCL 1.1 old")}, "'OpenCL 1.1 old'"},
        {{TEXT(CL_DEVICE_VERSION, "OpenCL 1")}, "1.2 or later"},
        {{TEXT(CL_DEVICE_VERSION, "")}, "1.2 or later"},
        {{N4(CL_DEVICE_AVAILABLE, 0)}, "not available"},
        {{N4(CL_DEVICE_COMPILER_AVAILABLE, 0)}, "a compiler"},
        {{N4(CL_DEVICE_ENDIAN_LITTLE, 0)}, "little-endian"},
        {{TEXT(CL_DEVICE_PROFILE, "EMBEDDED_PROFILE")}, "integers of 64 bits"},
        {{TEXT(CL_DEVICE_PROFILE, "EMBEDDED_PROFILE"),
          TEXT(CL_DEVICE_EXTENSIONS, "cles_khr_int64")},
         NULL},
        {{TEXT(CL_DEVICE_PROFILE, "EMBEDDED_PROFILE"),
          TEXT(CL_DEVICE_EXTENSIONS, "a cles_khr_int64x cles_khr_int64 b")},
         NULL},
        {{TEXT(CL_DEVICE_PROFILE, "EMBEDDED_PROFILE"),
          TEXT(CL_DEVICE_EXTENSIONS, "cles_khr_int64x xcles_khr_int64")},
         "integers of 64 bits"},
        {{TEXT(CL_DEVICE_PROFILE, "EMBEDDED_PROFILE"),
          TEXT(CL_DEVICE_EXTENSIONS, "cles_khr_int64 more")},
         NULL},
        {{N8(CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_INF_NAN | CL_FP_FMA)},
         "rounding to nearest"},
        {{N8(CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_ROUND_TO_NEAREST)},
         "infinities"},
    };
    static const uint32_t asked[] = {
        CL_DEVICE_VERSION,       CL_DEVICE_AVAILABLE,
        CL_DEVICE_PROFILE,       CL_DEVICE_COMPILER_AVAILABLE,
        CL_DEVICE_ENDIAN_LITTLE, CL_DEVICE_SINGLE_FP_CONFIG};
    struct ocl_api api = fake_api();
    size_t i;

    (void)state;
    assert_int_equal(ocl_check(&api, DEVICE(0)), BELL_OK);
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        fake.changed = cases[i].changed;
        fake.n_changed = 2;
        if (cases[i].word)
            fails(ocl_check(&api, DEVICE(0)), BELL_E_UNSUPPORTED,
                  cases[i].word);
        else
            assert_int_equal(ocl_check(&api, DEVICE(0)), BELL_OK);
    }
    fake.n_changed = 0;
    fake.error = CL_INVALID_DEVICE;
    for (i = 0; i < ARRAY_LEN(asked); i++) {
        fake.what = asked[i];
        fails(ocl_check(&api, DEVICE(0)), BELL_E_KERNEL, "CL_INVALID_DEVICE");
    }
}

/* ---- what one is ---- */

static void
expect_info(struct ocl_device *dev, const char *want)
{
    const struct hcq_device_info *info = &dev->base.info;
    char row[512];

    assert_int_equal(ocl_fill_info(dev), BELL_OK);
    snprintf(row, sizeof(row),
             "%s %s '%s': %u, %u %u %u, %u %u %u %u, %u %llu %llu, %u %llu",
             info->arch, info->model, dev->options, info->n_units,
             info->max_grid[0], info->max_grid[1], info->max_grid[2],
             info->max_local[0], info->max_local[1], info->max_local[2],
             info->max_local_total, info->max_shared_bytes,
             (unsigned long long)info->max_buffer_bytes,
             (unsigned long long)info->memory_bytes, info->max_args,
             (unsigned long long)info->timestamp_hz);
    assert_string_equal(row, want);
}

static void
test_info(void **state)
{
    static const struct fake_reply small[] = {
        N8(CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN |
                                           CL_FP_FMA |
                                           CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT),
        N8(CL_DEVICE_DOUBLE_FP_CONFIG, CL_FP_FMA),
        N4(CL_DEVICE_ADDRESS_BITS, 32),
        N4(CL_DEVICE_MAX_PARAMETER_SIZE, 256),
        {CL_DEVICE_MAX_WORK_ITEM_SIZES, 24, NULL, {1024, 256, 255}},
    };
    static const struct fake_reply large[] = {
        N8(CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_FMA | CL_FP_SOFT_FLOAT),
        N8(CL_DEVICE_MAX_WORK_GROUP_SIZE, 1u << 20),
        N4(CL_DEVICE_ADDRESS_BITS, 32),
        N8(CL_DEVICE_LOCAL_MEM_SIZE, 1ull << 40),
        N8(CL_DEVICE_MAX_PARAMETER_SIZE, 1u << 20),
        N8(CL_DEVICE_MAX_MEM_ALLOC_SIZE, 1ull << 45),
        N8(CL_DEVICE_MAX_COMPUTE_UNITS, 1ull << 33),
        {CL_DEVICE_MAX_WORK_ITEM_SIZES,
         24,
         NULL,
         {1u << 20, 65536, 1ull << 40}},
    };
    static const struct fake_reply flat[] = {
        {CL_DEVICE_MAX_WORK_ITEM_SIZES, 16, NULL, {100, 50}},
    };
    static const struct fake_reply line[] = {
        {CL_DEVICE_MAX_WORK_ITEM_SIZES, 8, NULL, {100}},
    };
    struct ocl_device dev = {.api = fake_api(), .found.id = DEVICE(0)};
    size_t i;

    (void)state;
    expect_info(&dev, "cl12 A card '-cl-std=CL1.2': 7, 2147483647 65535 65535, "
                      "256 128 64 256, 32768 1073741824 4294967296, 64 "
                      "1000000000");
    /* what has less than three dimensions has one item in the others */
    fake.n_changed = 1;
    fake.changed = flat;
    expect_info(&dev, "cl12 A card '-cl-std=CL1.2': 7, 2147483647 65535 65535, "
                      "100 50 1 256, 32768 1073741824 4294967296, 64 "
                      "1000000000");
    fake.changed = line;
    expect_info(&dev, "cl12 A card '-cl-std=CL1.2': 7, 2147483647 65535 65535, "
                      "100 1 1 256, 32768 1073741824 4294967296, 64 "
                      "1000000000");
    fake.changed = small;
    fake.n_changed = ARRAY_LEN(small);
    expect_info(&dev, "cl12+fma+fp64 A card '-cl-std=CL1.2 "
                      "-cl-fp32-correctly-rounded-divide-sqrt': 7, 65535 65535 "
                      "65535, 256 256 255 256, 32768 1073741824 4294967296, 21 "
                      "1000000000");
    fake.changed = large;
    fake.n_changed = ARRAY_LEN(large);
    expect_info(&dev, "cl12 A card '-cl-std=CL1.2': 4294967295, 65535 65535 "
                      "65535, 65536 65536 65536 65536, 2147483647 549755813888 "
                      "4294967296, 128 1000000000");
    fake.error = CL_OUT_OF_RESOURCES;
    for (i = 0; i < ARRAY_LEN(good); i++) {
        fake.what = good[i].what;
        if (i == 0 || (i > 6 && i != 16))
            fails(ocl_fill_info(&dev), BELL_E_KERNEL, "clGetDeviceInfo");
    }
    fake.what = CL_DEVICE_MAX_WORK_ITEM_SIZES;
    fails(ocl_fill_info(&dev), BELL_E_KERNEL,
          "CL: clGetDeviceInfo: CL_OUT_OF_RESOURCES (-5)");
}

/* ---- programs ---- */

static bell_status
program_of(struct ocl_device *dev, const void *binary, size_t n,
           uint32_t shared_bytes, struct hcq_program_base **out)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "prog",
        .entry = "entry",
        .binary = binary,
        .binary_size_bytes = n,
        .n_bufs = 2,
        .n_vals = 3,
        .local = {8, 4, 2},
        .shared_bytes = shared_bytes,
    };

    return ocl_program_create(&dev->base, &desc, out);
}

static struct ocl_device
fake_device(void)
{
    struct ocl_device dev = {
        .api = fake_api(), .found.id = DEVICE(0), .context = THE_CONTEXT};

    snprintf(dev.options, sizeof(dev.options), "-options");
    snprintf(dev.base.info.name, sizeof(dev.base.info.name), "CL:0");
    dev.base.info.max_shared_bytes = 1000;
    dev.base.info.max_local_total = 128;
    fake.n_args = 7;
    fake.total = 64;
    return dev;
}

/* Text is built as source, what is none as a binary. */
static void
test_text_or_binary(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool is_binary;
    } cases[] = {{"kernel\t\v\f\r\n", 11, false}, {"kernel", 7, false},
                 {"ker\0nel", 8, true},           {"\1", 1, true},
                 {"kernel\1", 7, true},           {"\x1f", 1, true},
                 {"\xc3\xa4 \x7f", 4, false},     {"a\0", 3, true}};
    struct ocl_device dev = fake_device();
    struct hcq_program_base *prog;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(program_of(&dev, cases[i].bytes, cases[i].n, 0, &prog),
                         BELL_OK);
        assert_int_equal(fake.from_binary, cases[i].is_binary);
        assert_int_equal(fake.n_source, cases[i].n);
        assert_string_equal(fake.options, cases[i].is_binary ? "" : "-options");
        assert_int_equal(fake.n_programs, 1);
        assert_int_equal(fake.n_kernels, 0);
        assert_int_equal(prog->pub.code_size_bytes, cases[i].n);
        assert_int_equal(prog->max_local_total, 64);
        assert_false(ocl_program(prog)->takes_shared);
        assert_string_equal(ocl_program(prog)->entry, "entry");
        /* kernels are made by the queues that run it */
        ocl_program(prog)->kernels[3].kernel = KERNEL;
        fake.n_kernels = 1;
        ocl_program_destroy(prog);
        assert_int_equal(fake.n_programs + fake.n_kernels, 0);
    }
}

/* Each queue has a row of the words that were set last. */
static void
test_rows_of_words(void **state)
{
    struct ocl_device dev = fake_device();
    struct hcq_program_base *base;
    struct ocl_program *prog;
    size_t i;

    (void)state;
    assert_int_equal(program_of(&dev, "x", 1, 0, &base), BELL_OK);
    prog = ocl_program(base);
    for (i = 0; i < OCL_QUEUES_MAX; i++) {
        assert_ptr_equal(prog->kernels[i].seen, prog->seen + 5 * i);
        memset(prog->kernels[i].seen, 1, 5 * sizeof(*prog->seen));
    }
    ocl_program_destroy(base);
    /* of a device whose kernel does not end, everything is left */
    assert_int_equal(program_of(&dev, "x", 1, 0, &base), BELL_OK);
    dev.is_stuck = true;
    ocl_program_destroy(base);
    assert_int_equal(fake.n_programs, 1);
    dev.is_stuck = false;
    ocl_program_destroy(base);
}

static void
test_program_limits(void **state)
{
    struct ocl_device dev = fake_device();
    struct hcq_program_base *prog;
    size_t i;

    (void)state;
    fake.n_args = 8; /* a local pointer behind the words */
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "8 arguments, not those of 2 + 3 words");
    assert_int_equal(program_of(&dev, "x", 1, 16, &prog), BELL_OK);
    assert_true(ocl_program(prog)->takes_shared);
    ocl_program_destroy(prog);
    fake.n_args = 9;
    fails(program_of(&dev, "x", 1, 16, &prog), BELL_E_INVALID, "9 arguments");
    fake.n_args = 6;
    fails(program_of(&dev, "x", 1, 16, &prog), BELL_E_INVALID, "6 arguments");
    fake.n_args = 7;
    assert_int_equal(program_of(&dev, "x", 1, 16, &prog), BELL_OK);
    assert_false(ocl_program(prog)->takes_shared);
    ocl_program_destroy(prog);

    fake.shared = 900;
    assert_int_equal(program_of(&dev, "x", 1, 100, &prog), BELL_OK);
    ocl_program_destroy(prog);
    fails(program_of(&dev, "x", 1, 101, &prog), BELL_E_INVALID,
          "1001 bytes of shared memory, CL:0 has 1000");
    fake.shared = 0;

    for (i = 0; i < 3; i++) {
        fake.local[0] = 8;
        fake.local[1] = 4;
        fake.local[2] = 2;
        assert_int_equal(program_of(&dev, "x", 1, 0, &prog), BELL_OK);
        ocl_program_destroy(prog);
        fake.local[i]++;
        fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
              i == 0   ? "groups of 9x4x2, not 8x4x2"
              : i == 1 ? "groups of 8x5x2, not 8x4x2"
                       : "groups of 8x4x3, not 8x4x2");
    }
    memset(fake.local, 0, sizeof(fake.local));
    fake.total = 63;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "groups of 8x4x2; CL:0 runs 63");
    fake.total = 200;
    assert_int_equal(program_of(&dev, "x", 1, 0, &prog), BELL_OK);
    assert_int_equal(prog->max_local_total, 128);
    ocl_program_destroy(prog);
    fake.total = 127;
    assert_int_equal(program_of(&dev, "x", 1, 0, &prog), BELL_OK);
    assert_int_equal(prog->max_local_total, 127);
    ocl_program_destroy(prog);
    assert_int_equal(fake.n_programs + fake.n_kernels, 0);
}

/* Whatever fails, it is named, and nothing is left. */
static void
test_program_fails(void **state)
{
    static const uint32_t asked[] = {
        CL_KERNEL_NUM_ARGS, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
        CL_KERNEL_WORK_GROUP_SIZE, CL_KERNEL_LOCAL_MEM_SIZE};
    struct ocl_device dev = fake_device();
    struct hcq_program_base *prog;
    char log[2000];
    size_t i;

    (void)state;
    fake.create_error = CL_INVALID_VALUE;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "program 'prog': clCreateProgramWithSource: CL_INVALID_VALUE (-30)");
    fails(program_of(&dev, "\1", 1, 0, &prog), BELL_E_INVALID,
          "program 'prog': clCreateProgramWithBinary: CL_INVALID_VALUE (-30)");
    fake.create_error = CL_OUT_OF_HOST_MEMORY;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_NO_MEMORY,
          "prog: clCreateProgramWithSource: out of memory: "
          "CL_OUT_OF_HOST_MEMORY (-6)");
    fake.create_error = CL_OUT_OF_RESOURCES;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_KERNEL, "(-5)");
    fake.create_error = 0;
    fake.binary_state = CL_INVALID_BINARY;
    fails(program_of(&dev, "\1", 1, 0, &prog), BELL_E_INVALID,
          "clCreateProgramWithBinary: CL_INVALID_BINARY");
    fake.binary_state = 0;

    fake.build_error = CL_BUILD_PROGRAM_FAILURE;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11): ");
    fake.log = " \n\n  line 3: error";
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "(-11): line 3: error");
    memset(log, 'l', sizeof(log) - 1);
    log[sizeof(log) - 1] = '\0';
    fake.log = log;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID, "(-11): lll");
    fake.build_error = CL_OUT_OF_RESOURCES;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_KERNEL,
          "prog: clBuildProgram: CL_OUT_OF_RESOURCES");
    fake.build_error = CL_OUT_OF_HOST_MEMORY;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_NO_MEMORY,
          "prog: clBuildProgram: out of memory: CL_OUT_OF_HOST_MEMORY");
    fake.build_error = 0;

    fake.kernel_error = CL_INVALID_KERNEL_NAME;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "program 'prog': no entry 'entry'");
    fake.kernel_error = CL_INVALID_KERNEL_DEFINITION;
    fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_INVALID,
          "program 'prog': clCreateKernel: CL_INVALID_KERNEL_DEFINITION");
    fake.kernel_error = 0;
    fake.error = CL_INVALID_KERNEL;
    for (i = 0; i < ARRAY_LEN(asked); i++) {
        fake.what = asked[i];
        fails(program_of(&dev, "x", 1, 0, &prog), BELL_E_KERNEL,
              i ? "prog: clGetKernelWorkGroupInfo: CL_INVALID_KERNEL"
                : "prog: clGetKernelInfo: CL_INVALID_KERNEL");
    }
    assert_int_equal(fake.n_programs + fake.n_kernels, 0);
}

/* ---- errors ---- */

static void
test_errors(void **state)
{
    (void)state;
    fails(ocl_fail("who", "clWhat", CL_OUT_OF_HOST_MEMORY), BELL_E_NO_MEMORY,
          "who: clWhat: out of memory: CL_OUT_OF_HOST_MEMORY (-6)");
    fails(ocl_fail("who", "clWhat", CL_MEM_OBJECT_ALLOCATION_FAILURE),
          BELL_E_NO_MEMORY, "(-4)");
    fails(ocl_fail("who", "clWhat", CL_INVALID_BUFFER_SIZE), BELL_E_NO_MEMORY,
          "(-61)");
    fails(ocl_fail("who", "clWhat", CL_OUT_OF_RESOURCES), BELL_E_KERNEL,
          "(-5)");
    assert_string_equal(ocl_error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(ocl_error_name(-1000), "?");
    assert_string_equal(ocl_error_name(-20), "?");
    assert_string_equal(ocl_error_name(-29), "?");
    assert_string_equal(ocl_error_name(-65), "?");
    assert_string_equal(ocl_error_name(1), "?");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_many),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_lacks),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_text_or_binary),
        cmocka_unit_test(test_rows_of_words),
        cmocka_unit_test(test_program_limits),
        cmocka_unit_test(test_program_fails),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
