/* What tests of hcq/amd on simulated kernels share. */
#include "tests/unit/amd_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hcq/amd/amd_kfd.h"
#include "tests/unit/expect.h"

struct hcq_device *
open_amd(const char *name)
{
    struct hcq_device *dev = NULL;

    expect_ok(hcq_device_open(name, &dev));
    return dev;
}

struct kio *
kio_of(struct hcq_device *dev)
{
    return amd_device_of(dev)->process->kio;
}

/* The tests' own kernels for a chip; NULL: LLVM's tools are not here. */
static void *
read_object(const char *arch, uint64_t *out_bytes)
{
#ifdef AMD_OBJECTS
    uint8_t *data = malloc(1u << 16);
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/control_%s.o", AMD_OBJECTS, arch);
    file = fopen(path, "rb");
    assert_non_null(file);
    *out_bytes = fread(data, 1, 1u << 16, file);
    fclose(file);
    return data;
#else
    (void)arch;
    *out_bytes = 0;
    return NULL;
#endif
}

bell_status
load_kernel_as(struct hcq_device *dev, const char *name, const char *entry,
               uint32_t n_bufs, struct hcq_program **out_prog)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = name,
        .entry = entry,
        .n_bufs = n_bufs,
        .n_vals = 2 - n_bufs,
    };
    bell_status status;
    void *object;

    object = read_object(dev->info.arch, &desc.binary_size_bytes);
    desc.binary = object;
    status = hcq_program_create(dev, &desc, out_prog);
    free(object);
    return status;
}

bell_status
load_kernel(struct hcq_device *dev, const char *entry, uint32_t n_bufs,
            struct hcq_program **out_prog)
{
    return load_kernel_as(dev, entry, entry, n_bufs, out_prog);
}

bool
has_kernels(void)
{
#ifdef AMD_OBJECTS
    return true;
#else
    return false;
#endif
}

void
launch(struct hcq_queue *queue, const struct hcq_program *prog, uint64_t a,
       uint64_t b, uint32_t n)
{
    const uint32_t grid[3] = {1, 1, 1}, local[3] = {n, 1, 1};
    const uint64_t args[2] = {a, b};
    struct hcq_cs *cs;

    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, args, 2, grid, local);
    expect_ok(hcq_cs_submit(cs, NULL));
}

void
same_usage(const char *name, unsigned n, const struct sim_amd_usage *a,
           const struct sim_amd_usage *b)
{
    if (memcmp(a, b, sizeof(*a)) == 0)
        return;
    fail_msg("%s, call %u: files %u to %u, queues %u to %u, events %u to %u, "
             "buffers %u to %u, memory %llu to %llu, mapped %llu to %llu",
             name, n, a->files, b->files, a->queues, b->queues, a->events,
             b->events, a->buffers, b->buffers,
             (unsigned long long)a->memory_bytes,
             (unsigned long long)b->memory_bytes,
             (unsigned long long)a->va_mapped_bytes,
             (unsigned long long)b->va_mapped_bytes);
}
