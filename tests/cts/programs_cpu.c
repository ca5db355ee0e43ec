/* The suite's kernels for the CPU: objects that the build made, position
 * independent and not, and ways to break them. */
#include "broken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT_MAX (256u << 10)

struct object {
    const char *path;
    unsigned char data[OBJECT_MAX];
    size_t size_bytes;
};

static struct object objects[] = {
    {.path = CTS_OBJECT_PIC},
    {.path = CTS_OBJECT_STATIC},
};
static struct object undefined = {.path = CTS_OBJECT_UNDEFINED};

static const char *const names[CTS_KERNEL_COUNT] = {
    [CTS_NOP] = "nop",           [CTS_ADD_ONE] = "add_one",
    [CTS_IDS] = "ids",           [CTS_VALUES] = "values",
    [CTS_MANY] = "many",         [CTS_SPIN] = "spin",
    [CTS_WORK] = "work",         [CTS_POKE] = "poke",
    [CTS_DIVIDE] = "divide",     [CTS_TRAP] = "trap",
    [CTS_SECTIONS] = "sections", [CTS_STACK] = "stack",
};

static void
load(struct object *object)
{
    FILE *file;

    if (object->size_bytes)
        return;
    file = fopen(object->path, "rb");
    if (!file) {
        perror(object->path);
        exit(1);
    }
    object->size_bytes = fread(object->data, 1, OBJECT_MAX, file);
    fclose(file);
}

static bool
find(enum cts_kernel kernel, unsigned variant, struct hcq_program_desc *desc)
{
#if !defined(__x86_64__)
    if (kernel == CTS_DIVIDE)
        return false; /* division by zero does not trap everywhere */
#endif
    if (!names[kernel])
        return false; /* there are no work-groups of several items */
    load(&objects[variant]);
    desc->binary = objects[variant].data;
    desc->binary_size_bytes = objects[variant].size_bytes;
    desc->entry = names[kernel];
    return true;
}

static bool
bad(unsigned idx, struct cts_bad *out)
{
    Elf64_Ehdr *hdr;

    load(&objects[0]);
    hdr = cts_copy_binary(objects[0].data, objects[0].size_bytes, "nop", out);
    if (idx < CTS_N_BROKEN_FILES) {
        cts_break_file(idx, out);
        return true;
    }
    switch (idx) {
    case 6:
        out->what = "a shared object";
        hdr->e_type = ET_DYN;
        out->expect = "not relocatable";
        return true;
    case 7:
        out->what = "no entry";
        out->entry = "nowhere";
        out->expect = "no entry 'nowhere'";
        return true;
    case 8:
        out->what = "the entry is data";
        out->entry = "cts_counter";
        out->expect = "is not code";
        return true;
    case 9:
        load(&undefined);
        out->what = "undefined symbol";
        out->data = undefined.data;
        out->size_bytes = undefined.size_bytes;
        out->entry = "undefined";
        out->expect = "undefined symbol 'outside'";
        return true;
    default:
        return false;
    }
}

const struct cts_provider cts_cpu_provider = {
    .backend = "CPU",
    .find = find,
    .n_variants = sizeof(objects) / sizeof(objects[0]),
    .bad = bad,
};
