/* The OpenCL device: what the conformance suite has no way to ask. Skipped
 * where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/cl/ocl.h"

#define LONG_NS HCQ_TIMEOUT_NS

#define OK(call)                                                               \
    do {                                                                       \
        if ((call) != BELL_OK)                                                 \
            fail_msg("%s: %s", #call, bell_error_last()->message);             \
    } while (0)

static const char add_source[] =
    "kernel void add(global uchar *b0, ulong o0, global uchar *b1, ulong o1,\n"
    "                long n)\n"
    "{\n"
    "    global int *x = (global int *)(b1 + o1);\n"
    "    global int *y = (global int *)(b0 + o0);\n"
    "    size_t i = get_global_id(0);\n\n"
    "    if (i < n)\n"
    "        y[i] = x[i] + 1;\n"
    "}\n";

/* Ends when the first word is not 0. */
static const char spin_source[] =
    "kernel void spin(global uchar *b0, ulong o0)\n"
    "{\n"
    "    volatile global int *x = (volatile global int *)(b0 + o0);\n\n"
    "    while (*x == 0)\n"
    "        ;\n"
    "}\n";

static struct hcq_device *
open_cl(const char *name)
{
    struct hcq_device *dev;
    bell_status status;

    status = hcq_device_open(name, &dev);
    if (status == BELL_E_NO_DEVICE || status == BELL_E_UNSUPPORTED) {
        print_message("%s\n", bell_error_last()->message);
        skip();
    }
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    return dev;
}

static bell_status
load(struct hcq_device *dev, const char *name, const void *binary, size_t n,
     uint32_t n_bufs, uint32_t n_vals, struct hcq_program **out)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = name,
        .binary = binary,
        .binary_size_bytes = n,
        .n_bufs = n_bufs,
        .n_vals = n_vals,
    };

    return hcq_program_create(dev, &desc, out);
}

/* ---- a life, of which any call may fail ---- */

/* Everything once: adds 1 twice, copies, fills; memory of the host in between.
 * Returns the first failure. */
static bell_status
whole_life(const char *name)
{
    static const uint32_t grid[3] = {2, 1, 1}, local[3] = {4, 1, 1};
    static int32_t pinned_memory[16];
    struct hcq_buffer *buf, *seen, *pinned;
    struct hcq_device *dev = NULL;
    struct hcq_program *prog;
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_cs *cs;
    bell_status status;
    int32_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int i;

#define TRY(expr)                                                              \
    do {                                                                       \
        if ((status = (expr)) != BELL_OK)                                      \
            goto out;                                                          \
    } while (0)
    TRY(hcq_device_open(name, &dev));
    TRY(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    TRY(hcq_buffer_create(dev, 64, 0, &buf));
    TRY(hcq_buffer_create(dev, 64, HCQ_MEM_HOST_VISIBLE, &seen));
    TRY(hcq_buffer_create_pinned(dev, pinned_memory, sizeof(pinned_memory),
                                 &pinned));
    TRY(hcq_signal_create(dev, 0, &sig));
    TRY(load(dev, "add", add_source, strlen(add_source), 2, 1, &prog));
    TRY(hcq_buffer_write(buf, 0, words, sizeof(words)));
    TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_timestamp(cs, sig);
    hcq_cs_exec(cs, prog, (const uint64_t[]){seen->va, buf->va, 8}, 3, grid,
                local);
    hcq_cs_exec(cs, prog, (const uint64_t[]){pinned->va, seen->va, 8}, 3, grid,
                local);
    hcq_cs_copy(cs, buf->va, pinned->va, 32);
    hcq_cs_fill(cs, pinned->va + 32, 0x07070707, 11);
    hcq_cs_write(cs, buf->va + 32, UINT64_MAX, 64);
    hcq_cs_timestamp(cs, sig);
    TRY(hcq_cs_submit(cs, NULL));
    TRY(hcq_queue_wait(queue, LONG_NS));
    TRY(hcq_device_status(dev));
    TRY(hcq_buffer_read(buf, 0, words, sizeof(words)));
    for (i = 0; i < 8; i++) {
        assert_int_equal(words[i], i + 3);
        assert_int_equal(((int32_t *)seen->host)[i], i + 2);
        assert_int_equal(pinned_memory[i], i + 3);
    }
    assert_int_equal(pinned_memory[9], 0x07070707);
    assert_int_equal(pinned_memory[10] & 0xffffff, 0x070707);
#undef TRY
out:
    hcq_device_close(dev);
    return status;
}

/* What is named in the errors of whole_life, call for call, once the device is
 * found: '!' where the device is lost, '*' with the kernel. */
#define OPENED " CreateContext CreateCommandQueue CreateCommandQueue"
#define LOADED                                                                 \
    " CreateProgramWithSource BuildProgram CreateKernel GetKernelInfo"         \
    " GetKernelWorkGroupInfo GetKernelWorkGroupInfo GetKernelWorkGroupInfo"    \
    " EnqueueWriteBuffer"
#define KERNEL                                                                 \
    " !CreateCommandQueue *CreateKernel *SetKernelArg *SetKernelArg"           \
    " *SetKernelArg *SetKernelArg *SetKernelArg"
#define FILLED                                                                 \
    " !EnqueueFillBuffer !EnqueueFillBuffer !EnqueueFillBuffer"                \
    " !EnqueueFillBuffer"
#define FINISHED                                                               \
    " !EnqueueMarkerWithWaitList !Flush !WaitForEvents EnqueueReadBuffer"
#define CALLS                                                                  \
    OPENED " CreateBuffer CreateBuffer CreateBuffer" LOADED KERNEL             \
           " *EnqueueNDRangeKernel *SetKernelArg *SetKernelArg"                \
           " *EnqueueNDRangeKernel !EnqueueCopyBuffer" FILLED                  \
           " !EnqueueFillBuffer" FINISHED
#define CALLS_APART                                                            \
    OPENED                                                                     \
    " CreateBuffer CreateBuffer EnqueueMapBuffer CreateBuffer"                 \
    " EnqueueMapBuffer" LOADED KERNEL                                          \
    " !EnqueueUnmapMemObject *EnqueueNDRangeKernel *EnqueueMapBuffer"          \
    " *SetKernelArg *SetKernelArg *EnqueueUnmapMemObject"                      \
    " *EnqueueUnmapMemObject *EnqueueNDRangeKernel *EnqueueMapBuffer"          \
    " *EnqueueMapBuffer *EnqueueUnmapMemObject !EnqueueCopyBuffer"             \
    " !EnqueueMapBuffer !EnqueueUnmapMemObject" FILLED                         \
    " !EnqueueMapBuffer !EnqueueFillBuffer" FINISHED

/* Only the first wait is noted: how many there are, and whether one comes
 * after the read, depends on how busy the machine is. */
static void
note_call(char *calls, size_t size, const char *message)
{
    static const char wait[] = " !WaitForEvents";
    const char *end = strstr(message, ": CL_OUT"), *at = end;
    size_t n = strlen(calls);

    while (at[-1] != ' ')
        at--;
    if (strncmp(at, "clGetPlatform", 13) == 0 ||
        strncmp(at, "clGetDevice", 11) == 0)
        return;
    snprintf(calls + n, size - n, " %s%.*s",
             strstr(message, "kernel 'add' on CL:0@") ? "*"
             : strstr(message, "is lost: a command")  ? "!"
                                                      : "",
             (int)(end - at - 2), at + 2);
    if (strcmp(calls + n, wait) == 0 && strstr(calls, wait) < calls + n)
        calls[n] = '\0';
}

/* Call 1, 2, 3, ... of OpenCL fails: an error that names it, or none where it
 * can be done without. */
static void
test_calls_fail(void **state)
{
    static const char *const forms[] = {"", "apart,"};
    const char *want[] = {CALLS, CALLS_APART};
    struct hcq_device *dev = open_cl("CL:0");
    unsigned n, n_failed, in_a_row;
    char name[64], calls[4096];
    size_t i;

    (void)state;
    if (ocl_device(dev)->is_apart)
        want[0] = want[1];
    hcq_device_close(dev);
    for (i = 0; i < ARRAY_LEN(forms); i++) {
        n_failed = in_a_row = 0;
        calls[0] = '\0';
        for (n = 1; in_a_row < 8; n++) {
            snprintf(name, sizeof(name), "CL:0@%sfault:%u", forms[i], n);
            if (whole_life(name) == BELL_OK) {
                in_a_row++;
                continue;
            }
            in_a_row = 0;
            n_failed++;
            if (!strstr(bell_error_last()->message, "CL_OUT_OF_RESOURCES"))
                fail_msg("%s: %s", name, bell_error_last()->message);
            note_call(calls, sizeof(calls), bell_error_last()->message);
            assert_true(n < 1000);
        }
        print_message("%s%u calls failed\n", forms[i], n_failed);
        assert_string_equal(calls, want[i]);
        assert_true(n_failed > 30);
        OK(whole_life(i ? "CL:0@apart" : "CL:0"));
    }
}

/* ---- programs ---- */

/* What OpenCL makes of the source for the device; the caller's to free. */
static void *
make_binary(struct hcq_device *base, const char *text, size_t *out_n)
{
    struct ocl_device *dev = ocl_device(base);
    __typeof__(&clGetProgramInfo) get_info;
    void *lib = dlopen("libOpenCL.so.1", RTLD_NOW), *sym;
    unsigned char *binary;
    cl_program program;
    cl_int err;

    assert_non_null(lib);
    sym = dlsym(lib, "clGetProgramInfo");
    memcpy(&get_info, &sym, sizeof(get_info));
    program =
        dev->api.clCreateProgramWithSource(dev->context, 1, &text, NULL, &err);
    assert_int_equal(err, CL_SUCCESS);
    assert_int_equal(dev->api.clBuildProgram(program, 1, &dev->found.id,
                                             dev->options, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(
        get_info(program, CL_PROGRAM_BINARY_SIZES, sizeof(*out_n), out_n, NULL),
        CL_SUCCESS);
    binary = malloc(*out_n);
    assert_non_null(binary);
    assert_int_equal(
        get_info(program, CL_PROGRAM_BINARIES, sizeof(binary), &binary, NULL),
        CL_SUCCESS);
    dev->api.clReleaseProgram(program);
    return binary;
}

static void
test_binary(void **state)
{
    static const uint32_t grid[3] = {8, 1, 1};
    struct hcq_device *dev = open_cl("CL:0");
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    int32_t word = 41;
    void *binary;
    size_t n = 0;

    (void)state;
    binary = make_binary(dev, add_source, &n);
    OK(load(dev, "add", binary, n, 2, 1, &prog));
    OK(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    OK(hcq_buffer_create(dev, 64, 0, &buf));
    OK(hcq_buffer_write(buf, 0, &word, 4));
    OK(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, (const uint64_t[]){buf->va, buf->va, 1}, 3, grid,
                NULL);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_queue_wait(queue, LONG_NS));
    OK(hcq_buffer_read(buf, 0, &word, 4));
    assert_int_equal(word, 42);
    memset(binary, 0x5a, n < 64 ? n : 64); /* text in front of what is none */
    assert_int_equal(load(dev, "add", binary, n, 2, 1, &prog), BELL_E_INVALID);
    free(binary);
    hcq_device_close(dev);
}

/* ---- faults ---- */

/* Addresses of no buffer, of one that is gone, behind one. */
static void
test_addresses(void **state)
{
    static const uint32_t grid[3] = {3, 1, 1};
    struct hcq_device *dev = open_cl("CL:0");
    struct hcq_buffer *buf, *gone;
    struct hcq_program *prog;
    struct hcq_queue *queue;
    struct hcq_fault fault;
    struct hcq_cs *cs;
    uint64_t bad[4];
    size_t i;

    (void)state;
    OK(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    OK(load(dev, "add", add_source, strlen(add_source), 2, 1, &prog));
    OK(hcq_buffer_create(dev, 64, 0, &buf));
    OK(hcq_buffer_create(dev, 64, 0, &gone));
    bad[0] = 0x1234;
    bad[1] = gone->va;
    bad[2] = buf->va + 65;
    bad[3] = UINT64_MAX;
    hcq_buffer_destroy(gone);
    hcq_memory_trim(dev);
    for (i = 0; i < ARRAY_LEN(bad); i++) {
        OK(hcq_queue_begin(queue, &cs));
        hcq_cs_exec(cs, prog, (const uint64_t[]){buf->va, bad[i], 1}, 3, grid,
                    NULL);
        OK(hcq_cs_submit(cs, NULL));
        assert_int_equal(hcq_queue_wait(queue, LONG_NS), BELL_E_DEVICE_LOST);
        hcq_device_fault(dev, &fault);
        assert_int_equal(fault.kind, HCQ_FAULT_MEMORY);
        assert_true(fault.va == bad[i] && fault.last_group == 3);
        assert_string_equal(fault.program, "add");
        assert_non_null(strstr(fault.text, "kernel 'add' on CL:0/compute0"));
        OK(hcq_device_recover(dev));
    }
    /* An address of 0 is not a buffer; a kernel may be given it. */
    OK(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, (const uint64_t[]){buf->va, 0, 0}, 3, grid, NULL);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_queue_wait(queue, LONG_NS));
    hcq_device_close(dev);
}

/* A kernel that does not end: waits time out and name it, recovery says that it
 * cannot; both work again when it ends after all. */
static void
test_hang(void **state)
{
    static const uint32_t grid[3] = {1, 1, 1};
    struct hcq_device *dev = open_cl("CL:0");
    struct hcq_program *prog;
    struct hcq_buffer *flag;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    bell_status status;

    (void)state;
    OK(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    OK(load(dev, "spin", spin_source, strlen(spin_source), 1, 0, &prog));
    OK(hcq_buffer_create(dev, 64, HCQ_MEM_HOST_VISIBLE, &flag));
    memset(flag->host, 0, 64);
    OK(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, &flag->va, 1, grid, NULL);
    OK(hcq_cs_submit(cs, NULL));
    do { /* it may have to be compiled first */
        status = hcq_queue_wait(queue, 20000000);
        assert_int_equal(status, BELL_E_TIMEOUT);
    } while (!strstr(bell_error_last()->message, "exec 'spin'"));
    assert_int_equal(hcq_device_recover(dev), BELL_E_DEVICE_LOST);
    assert_non_null(
        strstr(bell_error_last()->message, "OpenCL cannot end a kernel"));
    __atomic_store_n((int *)flag->host, 1, __ATOMIC_RELEASE);
    OK(hcq_device_recover(dev));
    OK(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, &flag->va, 1, grid, NULL);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_queue_wait(queue, LONG_NS));
    hcq_device_close(dev);
}

/* ---- time, and other devices ---- */

static void
test_timestamps(void **state)
{
    static const uint32_t grid[3] = {64, 1, 1};
    uint64_t before_ns = time_now_ns(), at_ns[3], after_ns;
    struct hcq_device *dev = open_cl("CL:0");
    struct hcq_signal *sig[3];
    struct hcq_program *prog;
    struct hcq_buffer *buf;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    int i;

    (void)state;
    OK(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    OK(load(dev, "add", add_source, strlen(add_source), 2, 1, &prog));
    OK(hcq_buffer_create(dev, 256, 0, &buf));
    OK(hcq_queue_begin(queue, &cs));
    for (i = 0; i < 3; i++) {
        OK(hcq_signal_create(dev, 0, &sig[i]));
        hcq_cs_timestamp(cs, sig[i]);
        hcq_cs_exec(cs, prog, (const uint64_t[]){buf->va, buf->va, 64}, 3, grid,
                    NULL);
    }
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_queue_wait(queue, LONG_NS));
    after_ns = time_now_ns();
    for (i = 0; i < 3; i++)
        at_ns[i] = hcq_timestamp_to_ns(dev, hcq_signal_timestamp(sig[i]));
    assert_true(before_ns < at_ns[0] && at_ns[0] <= at_ns[1] &&
                at_ns[1] <= at_ns[2] && at_ns[2] < after_ns);
    hcq_device_close(dev);
}

/* Two openings, and the CPU, wait for each other's signals. */
static void
test_other_devices(void **state)
{
    struct hcq_device *dev[3] = {open_cl("CL:0"), open_cl("CL:0"), NULL};
    struct hcq_queue *queue[3];
    struct hcq_signal *sig[3];
    struct hcq_cs *cs;
    int i, round;

    (void)state;
    OK(hcq_device_open("CPU", &dev[2]));
    for (i = 0; i < 3; i++) {
        OK(hcq_queue_create(dev[i], HCQ_QUEUE_COPY, &queue[i]));
        OK(hcq_signal_create(dev[i], 0, &sig[i]));
    }
    for (round = 1; round <= 20; round++) {
        for (i = 0; i < 3; i++) {
            OK(hcq_queue_begin(queue[i], &cs));
            hcq_cs_wait(cs, sig[(i + 2) % 3],
                        (uint64_t)(i == 0 ? round - 1 : round));
            hcq_cs_signal(cs, sig[i], (uint64_t)round);
            OK(hcq_cs_submit(cs, NULL));
        }
    }
    OK(hcq_signal_wait(sig[2], 20, LONG_NS));
    for (i = 0; i < 3; i++)
        OK(hcq_queue_wait(queue[i], LONG_NS));
    for (i = 0; i < 3; i++)
        hcq_device_close(dev[i]);
}

/* ---- names ---- */

static void
test_names(void **state)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev = open_cl("CL:0"), *same;
    char name[96];
    size_t i;

    (void)state;
    hcq_device_info(dev, &info);
    snprintf(name, sizeof(name), "CL:%.12s", info.model);
    for (i = 3; name[i]; i++)
        name[i] =
            (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
    OK(hcq_device_open(name, &same));
    assert_string_equal(hcq_device_name(same), "CL:0");
    hcq_device_close(same);
    hcq_device_close(dev);
    assert_int_equal(hcq_device_open("CL:no such card", &dev),
                     BELL_E_NO_DEVICE);
    assert_non_null(strstr(bell_error_last()->message, info.model));
    assert_int_equal(hcq_device_open("CL:0@what", &dev), BELL_E_NO_DEVICE);
    assert_non_null(strstr(bell_error_last()->message, "fault:N"));
}

static void
test_error_names(void **state)
{
    (void)state;
    assert_string_equal(ocl_error_name(CL_SUCCESS), "CL_SUCCESS");
    assert_string_equal(ocl_error_name(CL_BUILD_PROGRAM_FAILURE),
                        "CL_BUILD_PROGRAM_FAILURE");
    assert_string_equal(ocl_error_name(CL_KERNEL_ARG_INFO_NOT_AVAILABLE),
                        "CL_KERNEL_ARG_INFO_NOT_AVAILABLE");
    assert_string_equal(ocl_error_name(CL_INVALID_VALUE), "CL_INVALID_VALUE");
    assert_string_equal(ocl_error_name(CL_INVALID_KERNEL_ARGS),
                        "CL_INVALID_KERNEL_ARGS");
    assert_string_equal(ocl_error_name(CL_INVALID_PROPERTY),
                        "CL_INVALID_PROPERTY");
    assert_string_equal(ocl_error_name(-25), "?");
    assert_string_equal(ocl_error_name(7), "?");
    assert_string_equal(ocl_error_name(INT32_MIN), "?");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_names),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_timestamps),
        cmocka_unit_test(test_calls_fail),
        cmocka_unit_test(test_other_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
