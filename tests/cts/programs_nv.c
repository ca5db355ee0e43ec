/* The suite's kernels for NVIDIA: packed for simulated cards, assembled by
 * ptxas for others; and ways to break such binaries. */
#include "programs.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kernels_nv.h"

static struct ptx_target target;
static bool is_simulated;
static struct render_binary binaries[CTS_KERNEL_COUNT]; /* made when needed */
static unsigned char broken[64u << 10];

static bool
setup(const struct hcq_device_info *info, char *why, size_t size)
{
    char path[256];

    target.sm = (uint32_t)strtoul(info->arch + strlen("sm_"), NULL, 10);
    is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) != 0;
    if (is_simulated || render_ptxas_find(path, sizeof(path)) == BELL_OK)
        return true;
    snprintf(why, size, "%s", bell_error_last()->message);
    return false;
}

static void
must(bell_status status, const char *what)
{
    if (status == BELL_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, bell_error_last()->message);
    exit(1);
}

/* A binary of the kernel for that chip, machine code or PTX. */
static void
build(enum cts_kernel kernel, const struct ptx_target *to,
      struct render_binary *out)
{
    struct nv_container_desc desc;
    char *text;

    if (!nv_kernel(kernel, to->sm, &desc, &text))
        abort(); /* asked for without a look */
    must(is_simulated ? render_nv_container(&desc, out)
                      : render_ptxas(text, to, out),
         desc.entry);
    free(text);
}

static bool
find(enum cts_kernel kernel, unsigned variant, struct hcq_program_desc *desc)
{
    (void)variant;
    if (!nv_kernel_name(kernel))
        return false;
    if (!binaries[kernel].data)
        build(kernel, &target, &binaries[kernel]);
    desc->binary = binaries[kernel].data;
    desc->binary_size_bytes = binaries[kernel].size_bytes;
    desc->entry = nv_kernel_name(kernel);
    return true;
}

/* ---- what has to be refused ---- */

/* A copy of a good binary, to be broken. */
static Elf64_Ehdr *
copy_binary(enum cts_kernel kernel, struct cts_bad *out)
{
    struct hcq_program_desc desc;

    find(kernel, 0, &desc);
    if (desc.binary_size_bytes > sizeof(broken))
        abort();
    memcpy(broken, desc.binary, desc.binary_size_bytes);
    out->data = broken;
    out->size_bytes = desc.binary_size_bytes;
    out->entry = desc.entry;
    return (Elf64_Ehdr *)(void *)broken;
}

/* The section of that name; it is there. */
static Elf64_Shdr *
find_section(const char *name)
{
    const Elf64_Ehdr *head = (const void *)broken;
    Elf64_Shdr *s = (void *)(broken + head->e_shoff);
    const char *names = (const char *)broken + s[head->e_shstrndx].sh_offset;
    uint32_t i;

    for (i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + s[i].sh_name, name) == 0)
            return &s[i];
    }
    abort();
}

static Elf64_Sym *
find_symbol(const char *name)
{
    const Elf64_Shdr *s = find_section(".symtab");
    const char *names =
        (const char *)broken + find_section(".strtab")->sh_offset;
    Elf64_Sym *sym = (void *)(broken + s->sh_offset);
    uint64_t i;

    for (i = 0; i < s->sh_size / sizeof(*sym); i++) {
        if (strcmp(names + sym[i].st_name, name) == 0)
            return &sym[i];
    }
    abort();
}

/* Turns the attributes of that code into ones that nobody knows. */
static void
hide_attr(const char *section, unsigned code)
{
    const Elf64_Shdr *s = find_section(section);
    unsigned char *p = broken + s->sh_offset, *end = p + s->sh_size;

    for (; p < end; p += 4 + (p[0] == 4 ? p[2] + p[3] * 256u : 0)) {
        if (p[1] == code)
            p[1] = 0x1E;
    }
}

/* For a chip whose machine code this one cannot run. */
static void
build_other(struct cts_bad *out)
{
    static struct render_binary other;
    struct ptx_target to = {.sm = target.sm < 90 ? 90 : 80};

    if (!other.data)
        build(CTS_NOP, &to, &other);
    out->data = other.data;
    out->size_bytes = other.size_bytes;
}

static bool
bad(unsigned idx, struct cts_bad *out)
{
    Elf64_Ehdr *hdr = copy_binary(idx < 10 ? CTS_ADD_ONE : CTS_SECTIONS, out);

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
        hdr->e_machine = EM_X86_64;
        out->expect = "machine";
        return true;
    case 5:
        out->what = "32-bit";
        hdr->e_ident[EI_CLASS] = ELFCLASS32;
        out->expect = "64-bit";
        return true;
    case 6:
        out->what = "another chip";
        build_other(out);
        out->entry = "nop";
        out->expect = target.sm < 90 ? "sm_90" : "sm_80";
        return true;
    case 7:
        out->what = "no entry";
        out->entry = "nowhere";
        out->expect = "'nowhere'";
        return true;
    case 8:
        out->what = "no place for parameters";
        hide_attr(".nv.info.add_one", 0x0A);
        out->expect = "PARAM_CBANK";
        return true;
    case 9:
        out->what = "no register count";
        hide_attr(".nv.info", 0x2F);
        out->expect = "REGCOUNT";
        return true;
    case 10:
        out->what = "the entry is data";
        out->entry = "counter";
        out->expect = "'counter'";
        return true;
    case 11:
        out->what = "undefined symbol";
        find_symbol("counter")->st_shndx = SHN_UNDEF;
        out->expect = "'counter'";
        return true;
    case 12:
        out->what = "relocation outside of its section";
        memset(broken + find_section(target.sm >= 90 ? ".rela.nv.constant4"
                                                     : ".rel.nv.constant4")
                            ->sh_offset,
               0xff, 8);
        out->expect = "relocation";
        return true;
    default:
        return false;
    }
}

const struct cts_provider cts_nv_provider = {
    .backend = "NV",
    .setup = setup,
    .find = find,
    .n_variants = 1,
    .bad = bad,
};
