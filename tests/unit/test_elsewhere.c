/* Kernels that others' compilers make, launched by the driver half alone: the
 * examples of docs/reference/kernel-interface.md, each where its compiler is.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hcq/hcq.h"

#define N      64
#define GROUPS 4

static const char cpu_source[] =
    "#include <stdint.h>\n"
    "void axpy(const uint64_t *args, const uint32_t grid[3], uint64_t first,\n"
    "          uint64_t last)\n"
    "{\n"
    "    float *y = (float *)args[0];\n"
    "    const float *x = (const float *)args[1];\n"
    "    for (uint64_t i = first * args[2]; i < last * args[2]; i++)\n"
    "        y[i] += 2 * x[i];\n"
    "}\n";

static const char amd_source[] =
    "#define G __attribute__((address_space(1)))\n"
    "__attribute__((amdgpu_kernel)) void axpy(G float *y, const G float *x,\n"
    "                                         long n)\n"
    "{\n"
    "    long i = __builtin_amdgcn_workgroup_id_x() * n +\n"
    "             __builtin_amdgcn_workitem_id_x();\n"
    "    y[i] += 2 * x[i];\n"
    "}\n";

static const char nv_source[] =
    "extern \"C\" __global__ void axpy(float *y, const float *x, long n)\n"
    "{\n"
    "    long i = blockIdx.x * n + threadIdx.x;\n"
    "    y[i] += 2 * x[i];\n"
    "}\n";

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

/* Compiles in a folder of its own: `command` has %s for it, twice. */
static uint8_t *
compile(const char *source, const char *name, const char *command,
        size_t *out_n)
{
    char folder[] = "/tmp/bell_elsewhere_XXXXXX", text[512], path[128];
    uint8_t *data = NULL;
    FILE *file;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(source, file);
    fclose(file);
    snprintf(text, sizeof(text), command, folder, folder);
    if (system(text) == 0) {
        snprintf(path, sizeof(path), "%s/out", folder);
        file = fopen(path, "rb");
        assert_non_null(file);
        data = malloc(1 << 20);
        assert_non_null(data);
        *out_n = fread(data, 1, 1 << 20, file);
        fclose(file);
    }
    snprintf(text, sizeof(text), "rm -r %s", folder);
    assert_int_equal(system(text), 0);
    return data;
}

static struct hcq_program *
load(struct hcq_device *dev, const uint8_t *data, size_t n, uint32_t local)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "axpy",
        .binary = data,
        .binary_size_bytes = n,
        .n_bufs = 2,
        .n_vals = 1,
        .local = {local, 1, 1},
    };
    struct hcq_program *prog;

    expect_ok(hcq_program_create(dev, &desc, &prog));
    return prog;
}

static void
launch(const char *device, const uint8_t *data, size_t n, uint32_t local)
{
    static const uint32_t grid[3] = {GROUPS, 1, 1};
    float x[N * GROUPS], y[N * GROUPS];
    struct hcq_buffer *bufs[2];
    struct hcq_program *prog;
    struct hcq_queue *queue;
    struct hcq_device *dev;
    struct hcq_cs *cs;
    uint64_t args[3];
    int i;

    for (i = 0; i < N * GROUPS; i++) {
        x[i] = (float)i;
        y[i] = (float)(1000 - i);
    }
    expect_ok(hcq_device_open(device, &dev));
    prog = load(dev, data, n, local);
    expect_ok(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    for (i = 0; i < 2; i++) {
        expect_ok(hcq_buffer_create(dev, sizeof(x), 0, &bufs[i]));
        expect_ok(hcq_buffer_write(bufs[i], 0, i ? x : y, sizeof(x)));
        args[i] = bufs[i]->va;
    }
    args[2] = N;
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, args, 3, grid, NULL);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, HCQ_TIMEOUT_NS));
    expect_ok(hcq_buffer_read(bufs[0], 0, y, sizeof(y)));
    for (i = 0; i < N * GROUPS; i++)
        assert_true(y[i] == (float)(1000 - i) + 2 * x[i]);
    hcq_queue_destroy(queue);
    hcq_program_destroy(prog);
    hcq_buffer_destroy(bufs[0]);
    hcq_buffer_destroy(bufs[1]);
    hcq_device_close(dev);
}

static void
test_cpu(void **state)
{
    size_t n;
    uint8_t *data = compile(cpu_source, "axpy.c",
                            "gcc -O3 -c -ffreestanding -fno-stack-protector "
                            "-fno-builtin %s/axpy.c -o %s/out 2>/dev/null",
                            &n);

    (void)state;
    if (!data)
        skip();
    launch("CPU", data, n, 1);
    free(data);
}

static void
test_amd(void **state)
{
    static const char *const chips[] = {"gfx942", "gfx1100"};
    char command[256], device[32];
    uint8_t *data;
    size_t n, i;

    (void)state;
    for (i = 0; i < 2; i++) {
        snprintf(command, sizeof(command),
                 "clang-19 -target amdgcn-amd-amdhsa -mcpu=%s -O2 -nogpulib "
                 "-c %%s/axpy.c -o %%s/out 2>/dev/null",
                 chips[i]);
        data = compile(amd_source, "axpy.c", command, &n);
        if (!data)
            skip();
        snprintf(device, sizeof(device), "AMD@sim:%s", chips[i]);
        launch(device, data, n, N);
        free(data);
    }
}

/* A simulated card runs no machine code: it is loaded, and that is all. */
static void
test_nv(void **state)
{
    size_t n;
    uint8_t *data = compile(nv_source, "axpy.cu",
                            "PATH=$PATH:/usr/local/cuda/bin nvcc -arch=sm_90 "
                            "-cubin %s/axpy.cu -o %s/out 2>/dev/null",
                            &n);
    struct hcq_program *prog;
    struct hcq_device *dev;

    (void)state;
    if (!data)
        skip();
    expect_ok(hcq_device_open("NV@sim:sm_90", &dev));
    prog = load(dev, data, n, N);
    hcq_program_destroy(prog);
    hcq_device_close(dev);
    free(data);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_amd),
        cmocka_unit_test(test_nv),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
