/* The suite's kernels for NVIDIA: packed for simulated cards, assembled by
 * ptxas for others; and ways to break such binaries. */
#include "broken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "kernels_nv.h"

static struct ptx_target target;
static bool is_simulated;
static struct render_binary binaries[CTS_KERNEL_COUNT]; /* made when needed */

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
    return cts_copy_binary(desc.binary, desc.binary_size_bytes, desc.entry,
                           out);
}

/* Turns the attributes of that code into ones that nobody knows. */
static void
hide_attr(const char *section, unsigned code)
{
    const Elf64_Shdr *s = cts_find_section(section);
    unsigned char *p = cts_broken + s->sh_offset, *end = p + s->sh_size;

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
    copy_binary(idx < 10 ? CTS_ADD_ONE : CTS_SECTIONS, out);
    if (idx < CTS_N_BROKEN_FILES) {
        cts_break_file(idx, out);
        return true;
    }
    switch (idx) {
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
        cts_find_symbol("counter")->st_shndx = SHN_UNDEF;
        out->expect = "'counter'";
        return true;
    case 12:
        out->what = "relocation outside of its section";
        memset(cts_broken + cts_find_section(target.sm >= 90
                                                 ? ".rela.nv.constant4"
                                                 : ".rel.nv.constant4")
                                ->sh_offset,
               0xff, 8);
        out->expect = "relocation";
        return true;
    default:
        return false;
    }
}

/* GeForce cards have no peers by NVIDIA's driver; who knows about real ones? */
static unsigned
also_lacks(const struct hcq_device_info *info)
{
    return !(info->flags & HCQ_DEVICE_SIMULATED) ||
                   strstr(info->name, "link=none") ||
                   strstr(info->name, "@sim:rtx")
               ? CTS_LACK_PEERS
               : 0;
}

const struct cts_provider cts_nv_provider = {
    .backend = "NV",
    .lacks = CTS_LACK_IMPORTS,
    .also_lacks = also_lacks,
    .setup = setup,
    .find = find,
    .n_variants = 1,
    .bad = bad,
};
