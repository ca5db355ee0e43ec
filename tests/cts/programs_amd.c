/* The suite's kernels for AMD, compiled by LLVM when they are needed; and ways
 * to break such binaries. */
#include "broken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kernels_amd.h"
#include "render/llvm/amdgpu.h"

static struct amdgpu_target target;
static struct render_binary binaries[CTS_KERNEL_COUNT]; /* made when needed */

static bell_status
build(enum cts_kernel kernel, const struct amdgpu_target *to,
      struct render_binary *out)
{
    char *text = amd_kernel(kernel);
    bell_status status;

    if (!text)
        abort(); /* asked for without a look */
    status = render_amdgpu_ir(text, amd_kernel_name(kernel), to, out);
    free(text);
    return status;
}

static bool
setup(const struct hcq_device_info *info, char *why, size_t size)
{
    snprintf(target.gfx, sizeof(target.gfx), "%.15s", info->arch);
    if (build(CTS_NOP, &target, &binaries[CTS_NOP]) == BELL_OK)
        return true;
    snprintf(why, size, "%s", bell_error_last()->message);
    return false;
}

static bool
find(enum cts_kernel kernel, unsigned variant, struct hcq_program_desc *desc)
{
    (void)variant;
    if (!amd_kernel_name(kernel))
        return false;
    if (!binaries[kernel].data &&
        build(kernel, &target, &binaries[kernel]) != BELL_OK) {
        fprintf(stderr, "%s: %s\n", amd_kernel_name(kernel),
                bell_error_last()->message);
        exit(1);
    }
    desc->binary = binaries[kernel].data;
    desc->binary_size_bytes = binaries[kernel].size_bytes;
    desc->entry = amd_kernel_name(kernel);
    return true;
}

/* ---- what has to be refused ---- */

/* A copy of a good binary, to be broken. */
static Elf64_Ehdr *
copy_binary(enum cts_kernel kernel, struct cts_bad *out)
{
    struct hcq_program_desc desc;

    find(kernel, 0, &desc);
    return cts_copy_binary(desc.binary, desc.binary_size_bytes, desc.entry,
                           out);
}

/* For a chip whose machine code this one cannot run. */
static void
build_other(struct cts_bad *out)
{
    static struct render_binary other;
    bool is_cdna = strcmp(target.gfx, "gfx942") == 0;
    struct amdgpu_target to = {.gfx = "gfx942"};

    if (is_cdna)
        snprintf(to.gfx, sizeof(to.gfx), "gfx1100");
    if (!other.data && build(CTS_NOP, &to, &other) != BELL_OK)
        abort();
    out->data = other.data;
    out->size_bytes = other.size_bytes;
    out->entry = "nop";
    out->expect = is_cdna ? "gfx1100" : "gfx942";
}

/* Breaks the file. */
static bool
break_file(unsigned idx, Elf64_Ehdr *hdr, struct cts_bad *out)
{
    if (idx < CTS_N_BROKEN_FILES) {
        cts_break_file(idx, out);
        return true;
    }
    switch (idx) {
    case 6:
        out->what = "another chip";
        build_other(out);
        return true;
    case 7:
        out->what = "a shared library";
        hdr->e_type = ET_DYN;
        out->expect = "relocatable";
        return true;
    default:
        return false;
    }
}

/* Breaks the kernel. */
static bool
break_kernel(unsigned idx, struct cts_bad *out)
{
    Elf64_Rela *rela;

    switch (idx) {
    case 8:
        out->what = "no entry";
        out->entry = "nowhere";
        out->expect = "'nowhere'";
        return true;
    case 9:
        out->what = "the entry is data";
        out->entry = "counter";
        out->expect = "'counter'";
        return true;
    case 10:
        out->what = "undefined symbol";
        cts_find_symbol("sections")->st_shndx = SHN_UNDEF;
        out->expect = "'sections'";
        return true;
    case 11:
        out->what = "relocation outside of its section";
        rela = (void *)(cts_broken + cts_find_section(".rela.text")->sh_offset);
        rela->r_offset = UINT64_MAX - 8;
        out->expect = "relocation";
        return true;
    case 12:
        out->what = "a descriptor that is cut off";
        cts_find_symbol("sections.kd")->st_size = 32;
        out->expect = "descriptor";
        return true;
    default:
        return false;
    }
}

static bool
bad(unsigned idx, struct cts_bad *out)
{
    Elf64_Ehdr *hdr = copy_binary(idx < 9 ? CTS_ADD_ONE : CTS_SECTIONS, out);

    return break_file(idx, hdr, out) || break_kernel(idx, out);
}

/* Cards that no link connects, and whose windows are closed. Who knows about
 * real ones? */
static unsigned
also_lacks(const struct hcq_device_info *info)
{
    bool by_pcie = strncmp(info->arch, "gfx1", 4) == 0 ||
                   strstr(info->name, "link=pcie") ||
                   strstr(info->name, "hive=");
    bool is_closed = strstr(info->name, ",bar=") ||
                     strstr(info->name, "p2p=off") ||
                     strstr(info->name, "acs=redirect");

    return !(info->flags & HCQ_DEVICE_SIMULATED) ||
                   strstr(info->name, "link=none") || (by_pcie && is_closed)
               ? CTS_LACK_PEERS
               : 0;
}

const struct cts_provider cts_amd_provider = {
    .backend = "AMD",
    /* Cards take any alignment, as their driver has them. */
    .lacks = CTS_LACK_ALIGNMENT | CTS_LACK_RECOVERY | CTS_LACK_TRAPS,
    .also_lacks = also_lacks,
    .setup = setup,
    .find = find,
    .n_variants = 1,
    .bad = bad,
};
