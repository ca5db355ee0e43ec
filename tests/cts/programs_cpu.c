/* The suite's kernels for the CPU: objects that the build made, position
 * independent and not, and ways to break them. */
#include "programs.h"

#include <elf.h>
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
static unsigned char broken[OBJECT_MAX];

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

static Elf64_Ehdr *
copy_object(struct cts_bad *out)
{
    load(&objects[0]);
    memcpy(broken, objects[0].data, objects[0].size_bytes);
    out->data = broken;
    out->size_bytes = objects[0].size_bytes;
    out->entry = "nop";
    return (Elf64_Ehdr *)(void *)broken;
}

static bool
bad(unsigned idx, struct cts_bad *out)
{
    Elf64_Ehdr *hdr = copy_object(out);

    switch (idx) {
    case 0:
        out->what = "empty";
        out->size_bytes = 0;
        out->expect = "no binary";
        return true;
    case 1:
        out->what = "shorter than a header";
        out->size_bytes = 20;
        out->expect = "truncated";
        return true;
    case 2:
        out->what = "cut off";
        out->size_bytes /= 2;
        out->expect = "truncated";
        return true;
    case 3:
        out->what = "not ELF";
        broken[0] = 'P';
        out->expect = "not an ELF file";
        return true;
    case 4:
        out->what = "another machine";
        hdr->e_machine = hdr->e_machine == EM_RISCV ? EM_X86_64 : EM_RISCV;
        out->expect = "this host is";
        return true;
    case 5:
        out->what = "32-bit";
        hdr->e_ident[EI_CLASS] = ELFCLASS32;
        out->expect = "not 64-bit";
        return true;
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
