/* Cubins: ELF64 with NVIDIA's sections, attributes and relocations. */
#include "hcq/nv/nv_cubin.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq_elf.h"

#define MACHINE_CUDA 190u

/* Instructions are fetched ahead of where a kernel ends. */
#define CODE_SLACK_BYTES 4096u
/* Modules are below 4 GiB. */
#define TOTAL_MAX UINT32_MAX

/* src: docs/hardware/nvidia-code.md, "Attributes" */
enum {
    ATTR_MAX_THREADS = 0x05,
    ATTR_PARAM_CBANK = 0x0a,
    ATTR_EXTERNS = 0x0f,
    ATTR_REQNTID = 0x10,
    ATTR_MIN_STACK_SIZE = 0x12,
    ATTR_KPARAM_INFO = 0x17,
    ATTR_CBANK_PARAM_SIZE = 0x19,
    ATTR_REGCOUNT = 0x2f,
    ATTR_CTA_PER_CLUSTER = 0x3d,
    ATTR_KPARAM_INFO_V2 = 0x45,
    ATTR_SYSCALL_OFFSETS = 0x46,
    ATTR_NUM_BARRIERS = 0x4c,
};

/* src: docs/hardware/nvidia-code.md, "Relocations" */
enum {
    R_CUDA_32 = 1,
    R_CUDA_64 = 2,
    R_CUDA_G32 = 3,
    R_CUDA_G64 = 4,
    R_CUDA_ABS32_LO_32 = 56,
    R_CUDA_ABS32_HI_32 = 57,
};

/* A cubin while it is read. */
struct reader {
    struct nv_cubin *c;
    const char *entry;
    struct hcq_elf elf;
    uint32_t entry_symbol, entry_section;
    bool has_cbank, has_regs;
    uint32_t cbank_bytes; /* CBANK_PARAM_SIZE; 0: not said */
};

#define refuse(r, ...) hcq_elf_refuse(&(r)->elf, __VA_ARGS__)

static bell_status
open_cubin_file(struct reader *r)
{
    static const struct hcq_elf_machine machine = {MACHINE_CUDA, "CUDA"};
    const Elf64_Ehdr *head = &r->elf.head;

    BELL_TRY(hcq_elf_open(r->c->name, r->c->data, r->c->data_bytes, machine,
                          &r->elf));
    if (head->e_type != ET_EXEC && head->e_type != ET_REL)
        return refuse(r, "ELF type %u is not a cubin's", head->e_type);
    return BELL_OK;
}

/* The chip that the machine code is for. */
static uint32_t
get_sm(const Elf64_Ehdr *head)
{
    uint32_t flags = head->e_flags;

    return (head->e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 : flags) & 0xff;
}

/* ---- the image ----------------------------------------------------------- */

enum part {
    PART_NONE,
    PART_TEXT,
    PART_BANK,
    PART_INIT, /* variables with values */
    PART_ZERO, /* and without */
};

static bool
is_text_name(const char *name)
{
    return strncmp(name, ".text.", 6) == 0;
}

/* What a section is; *out_bank of a bank. Banks with a kernel's name are that
 * kernel's alone. */
static enum part
part_of(const struct reader *r, const Elf64_Shdr *s, uint32_t *out_bank)
{
    static const char bank[] = ".nv.constant";
    const char *name = hcq_elf_section_name(&r->elf, s);
    char digit;

    if (s->sh_type == SHT_NOBITS)
        return strcmp(name, ".nv.global") == 0 ? PART_ZERO : PART_NONE;
    if (s->sh_type != SHT_PROGBITS)
        return PART_NONE;
    if (is_text_name(name))
        return PART_TEXT;
    if (strcmp(name, ".nv.global.init") == 0)
        return PART_INIT;
    if (strncmp(name, bank, sizeof(bank) - 1) != 0)
        return PART_NONE;
    digit = name[sizeof(bank) - 1];
    name += sizeof(bank);
    if (digit < '1' || digit >= '0' + (int)NV_CUBIN_BANKS)
        return PART_NONE; /* bank 0 is made by launches */
    if (name[0] && (name[0] != '.' || strcmp(name + 1, r->entry) != 0))
        return PART_NONE;
    *out_bank = (uint32_t)(digit - '0');
    return PART_BANK;
}

/* Places all sections of one kind. */
static bell_status
place_cubin_part(struct reader *r, enum part part, uint64_t align)
{
    struct nv_cubin *c = r->c;
    uint32_t i, bank = 0;

    for (i = 0; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if (part_of(r, &s, &bank) != part)
            continue;
        BELL_TRY(hcq_elf_place(&r->elf, i, align, NV_CUBIN_ALIGN, TOTAL_MAX,
                               c->places, &c->total_bytes));
        if (part != PART_BANK)
            continue;
        if (c->banks[bank].size_bytes)
            return refuse(r, "section '%s': a second one for bank %u",
                          hcq_elf_section_name(&r->elf, &s), bank);
        if (s.sh_size > 65536)
            return refuse(r, "section '%s' of %llu bytes: a bank has 65536",
                          hcq_elf_section_name(&r->elf, &s),
                          (unsigned long long)s.sh_size);
        c->banks[bank] =
            (struct nv_cubin_part){(uint32_t)c->places[i], (uint32_t)s.sh_size};
    }
    return BELL_OK;
}

/* Code first, then what launches read whole multiples of 16 bytes of, then
 * variables; what is zero is behind the image. */
static bell_status
lay_out_cubin(struct reader *r)
{
    struct nv_cubin *c = r->c;
    uint64_t code_end;

    BELL_TRY(hcq_elf_places(&r->elf, &c->places));
    BELL_TRY(place_cubin_part(r, PART_TEXT, 128));
    code_end = c->total_bytes + CODE_SLACK_BYTES;
    BELL_TRY(place_cubin_part(r, PART_BANK, 256));
    BELL_TRY(place_cubin_part(r, PART_INIT, 256));
    c->total_bytes = align_up(c->total_bytes, 256);
    if (c->total_bytes < code_end)
        c->total_bytes = align_up(code_end, 256);
    c->image_bytes = c->total_bytes;
    BELL_TRY(place_cubin_part(r, PART_ZERO, 256));
    return BELL_OK;
}

static bell_status
find_kernel_entry(struct reader *r)
{
    struct nv_cubin *c = r->c;
    uint32_t i;

    for (i = 0; i < r->elf.n_symbols; i++) {
        Elf64_Sym sym = hcq_elf_symbol(&r->elf, i);
        Elf64_Shdr s;

        if (sym.st_name == 0 ||
            strcmp(hcq_elf_symbol_name(&r->elf, &sym), r->entry) != 0)
            continue;
        if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC ||
            sym.st_shndx >= r->elf.n_sections)
            return refuse(r, "'%s' is not a function", r->entry);
        s = hcq_elf_section(&r->elf, sym.st_shndx);
        if (!is_text_name(hcq_elf_section_name(&r->elf, &s)) ||
            c->places[sym.st_shndx] == HCQ_ELF_NOT_LOADED ||
            sym.st_value % 16 || sym.st_value >= s.sh_size)
            return refuse(r,
                          "'%s' is at 0x%llx of section '%s', where no code "
                          "is",
                          r->entry, (unsigned long long)sym.st_value,
                          hcq_elf_section_name(&r->elf, &s));
        r->entry_symbol = i;
        r->entry_section = sym.st_shndx;
        c->entry_offset = c->places[sym.st_shndx] + sym.st_value;
        return BELL_OK;
    }
    return refuse(r, "no entry '%s'", r->entry);
}

/* Static shared memory of the entry. */
static bell_status
read_shared(struct reader *r)
{
    static const char prefix[] = ".nv.shared.";
    uint32_t i;

    for (i = 0; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);
        const char *name = hcq_elf_section_name(&r->elf, &s);

        if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 ||
            strcmp(name + sizeof(prefix) - 1, r->entry) != 0)
            continue;
        if (s.sh_size > 1u << 20)
            return refuse(r, "%llu bytes of static shared memory",
                          (unsigned long long)s.sh_size);
        r->c->shared_bytes = (uint32_t)s.sh_size;
    }
    return BELL_OK;
}

/* ---- attributes ---------------------------------------------------------- */

/* One record; the payload's first words are copied, absent ones are 0. */
struct attr {
    uint32_t format, code, x;
    const uint8_t *payload;
    uint32_t n_bytes;
    uint32_t word[4];
};

static bell_status
read_kparam(struct reader *r, const struct attr *a)
{
    struct nv_cubin *c = r->c;
    uint32_t ordinal = a->word[1] & 0xffff, offset = a->word[1] >> 16;
    uint32_t size_bytes =
        a->code == ATTR_KPARAM_INFO ? a->word[2] >> 18 : a->word[2];

    if (a->n_bytes < 12 || ordinal >= NV_CUBIN_PARAMS_MAX || size_bytes == 0)
        return refuse(r,
                      "KPARAM_INFO: parameter %u of %u bytes; %u parameters "
                      "are possible",
                      ordinal, size_bytes, NV_CUBIN_PARAMS_MAX);
    if (c->params[ordinal].size_bytes)
        return refuse(r, "KPARAM_INFO: parameter %u twice", ordinal);
    c->params[ordinal] = (struct nv_cubin_part){offset, size_bytes};
    if (c->n_params <= ordinal)
        c->n_params = ordinal + 1;
    return BELL_OK;
}

static bell_status
read_block(struct reader *r, const struct attr *a)
{
    struct nv_cubin *c = r->c;
    uint64_t threads = 1;
    uint32_t i;

    for (i = 0; i < 3; i++) {
        if (a->n_bytes < 12 || a->word[i] == 0 || a->word[i] > 1024)
            return refuse(r, "a block of %ux%ux%u threads", a->word[0],
                          a->word[1], a->word[2]);
        threads *= a->word[i];
    }
    if (threads > 1024)
        return refuse(r, "a block of %ux%ux%u threads", a->word[0], a->word[1],
                      a->word[2]);
    if (!c->max_threads || threads < c->max_threads)
        c->max_threads = (uint32_t)threads;
    if (a->code == ATTR_REQNTID)
        memcpy(c->local, a->word, sizeof(c->local));
    return BELL_OK;
}

static bell_status
read_cluster(struct reader *r, const struct attr *a)
{
    if (a->word[0] <= 1 && a->word[1] <= 1 && a->word[2] <= 1)
        return BELL_OK;
    return refuse(r, "clusters of %ux%ux%u blocks are not supported",
                  a->word[0], a->word[1], a->word[2]);
}

static const char *
name_of_symbol(const struct reader *r, uint32_t idx)
{
    Elf64_Sym sym;

    if (idx >= r->elf.n_symbols)
        return "";
    sym = hcq_elf_symbol(&r->elf, idx);
    return hcq_elf_symbol_name(&r->elf, &sym);
}

/* Reads an attribute of the kernel's own section. */
static bell_status
read_kernel_attr(struct reader *r, const struct attr *a)
{
    struct nv_cubin *c = r->c;

    switch (a->code) {
    case ATTR_PARAM_CBANK:
        if (a->n_bytes < 8)
            return refuse(r, "PARAM_CBANK of %u bytes", a->n_bytes);
        c->param_offset = a->word[1] & 0xffff;
        c->param_bytes = a->word[1] >> 16;
        r->has_cbank = true;
        return BELL_OK;
    case ATTR_CBANK_PARAM_SIZE:
        r->cbank_bytes = a->x;
        return BELL_OK;
    case ATTR_KPARAM_INFO:
    case ATTR_KPARAM_INFO_V2:
        return read_kparam(r, a);
    case ATTR_MAX_THREADS:
    case ATTR_REQNTID:
        return read_block(r, a);
    case ATTR_CTA_PER_CLUSTER:
        return read_cluster(r, a);
    case ATTR_EXTERNS:
        return refuse(r, "it uses '%s', which nobody defines",
                      name_of_symbol(r, a->word[0]));
    case ATTR_SYSCALL_OFFSETS:
        return refuse(r, "it makes system calls");
    case ATTR_NUM_BARRIERS:
        c->n_barriers = a->x & 0xff;
        if (c->n_barriers > 16)
            return refuse(r, "NUM_BARRIERS: %u, a block has 16", c->n_barriers);
        return BELL_OK;
    default:
        return BELL_OK;
    }
}

/* Reads an attribute of the module's section, where records name their
 * symbol. */
static bell_status
read_module_attr(struct reader *r, const struct attr *a)
{
    struct nv_cubin *c = r->c;

    if (a->n_bytes < 8 || a->word[0] != r->entry_symbol)
        return BELL_OK;
    if (a->code == ATTR_MIN_STACK_SIZE) {
        if (a->word[1] >= 1u << 20)
            return refuse(r, "MIN_STACK_SIZE: %u bytes", a->word[1]);
        c->stack_bytes = a->word[1];
    } else if (a->code == ATTR_REGCOUNT) {
        if (a->word[1] == 0 || a->word[1] > 255)
            return refuse(r, "REGCOUNT: %u registers", a->word[1]);
        c->n_regs = a->word[1];
        r->has_regs = true;
    }
    return BELL_OK;
}

static bell_status
read_attrs(struct reader *r, const Elf64_Shdr *s, bool of_kernel)
{
    const uint8_t *at = r->c->data + s->sh_offset, *end = at + s->sh_size;

    while (end - at >= 4) {
        struct attr a = {
            .format = at[0],
            .code = at[1],
            .x = at[2] | (uint32_t)at[3] << 8,
        };

        at += 4;
        if (a.format == 4) {
            a.payload = at;
            a.n_bytes = a.x;
            if (a.n_bytes > (uint64_t)(end - at))
                return refuse(r,
                              "section '%s': attribute 0x%02x of %u bytes is "
                              "cut off at 0x%llx",
                              hcq_elf_section_name(&r->elf, s), a.code,
                              a.n_bytes, (unsigned long long)(at - r->c->data));
            memcpy(a.word, at,
                   a.n_bytes < sizeof(a.word) ? a.n_bytes : sizeof(a.word));
            at += a.n_bytes;
        }
        BELL_TRY(of_kernel ? read_kernel_attr(r, &a) : read_module_attr(r, &a));
    }
    return BELL_OK;
}

/* A kernel without parameters has no PARAM_CBANK; the image of its bank 0 ends
 * where they would go. src: observed of ptxas 13.0.88 */
static bell_status
end_bank0(struct reader *r)
{
    static const char name[] = ".nv.constant0.";
    uint32_t i;

    if (r->c->n_params || r->cbank_bytes)
        return refuse(r, "no PARAM_CBANK: where parameters go is not said");
    for (i = 0; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);
        const char *text = hcq_elf_section_name(&r->elf, &s);

        if (strncmp(text, name, sizeof(name) - 1) != 0 ||
            strcmp(text + sizeof(name) - 1, r->entry) != 0)
            continue;
        if (s.sh_size > 65536)
            return refuse(r, "%s has 0x%llx bytes", text,
                          (unsigned long long)s.sh_size);
        r->c->param_offset = (uint32_t)align_up(s.sh_size, 8);
        return BELL_OK;
    }
    return refuse(r, "neither PARAM_CBANK nor %s%s", name, r->entry);
}

static bell_status
check_cubin_params(struct reader *r)
{
    struct nv_cubin *c = r->c;
    uint32_t i;

    if (!r->has_cbank)
        BELL_TRY(end_bank0(r));
    if (!r->has_regs)
        return refuse(r, "no REGCOUNT of '%s'", r->entry);
    if (r->cbank_bytes && r->cbank_bytes != c->param_bytes)
        return refuse(r,
                      "%u bytes of parameters in PARAM_CBANK, %u in "
                      "CBANK_PARAM_SIZE",
                      c->param_bytes, r->cbank_bytes);
    if (c->param_offset % 8 || c->param_offset + c->param_bytes > 65536)
        return refuse(r, "%u bytes of parameters at 0x%x of constant bank 0",
                      c->param_bytes, c->param_offset);
    for (i = 0; i < c->n_params; i++) {
        if (c->params[i].size_bytes == 0 ||
            c->params[i].size_bytes > c->param_bytes ||
            c->params[i].offset > c->param_bytes - c->params[i].size_bytes)
            return refuse(r, "parameter %u: %u bytes at %u of %u", i,
                          c->params[i].size_bytes, c->params[i].offset,
                          c->param_bytes);
    }
    return BELL_OK;
}

static bell_status
read_info(struct reader *r)
{
    static const char name[] = ".nv.info";
    uint32_t i;

    for (i = 0; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);
        const char *text = hcq_elf_section_name(&r->elf, &s);

        if (s.sh_type == SHT_NOBITS ||
            strncmp(text, name, sizeof(name) - 1) != 0)
            continue;
        text += sizeof(name) - 1;
        if (text[0] == '\0')
            BELL_TRY(read_attrs(r, &s, false));
        else if (text[0] == '.' && strcmp(text + 1, r->entry) == 0)
            BELL_TRY(read_attrs(r, &s, true));
    }
    BELL_TRY(check_cubin_params(r));
    return BELL_OK;
}

/* ---- relocations --------------------------------------------------------- */

/* One relocation; r_addend counts with has_addend, else it is what is there.
 * Where it goes is inside of the section, whose image is `bytes`. */
struct patch {
    uint64_t offset;
    uint32_t type, symbol;
    int64_t addend;
    bool has_addend;
};

/* Bytes that a type patches, at which distance from its offset; 0: unknown. */
static uint32_t
cubin_patch_bytes(uint32_t type, uint32_t *out_skip)
{
    *out_skip = 0;
    switch (type) {
    case R_CUDA_32:
    case R_CUDA_G32:
        return 4;
    case R_CUDA_64:
    case R_CUDA_G64:
        return 8;
    case R_CUDA_ABS32_LO_32:
    case R_CUDA_ABS32_HI_32:
        *out_skip = 4; /* bits 63:32 of an instruction */
        return 4;
    default:
        return 0;
    }
}

/* `section` is the name of what is patched, `limit` its size; without an
 * image it is only checked. */
static bell_status
apply_patch(const struct reader *r, const struct patch *p, const char *section,
            uint64_t limit, uint64_t va, uint8_t *bytes)
{
    uint32_t skip, n = cubin_patch_bytes(p->type, &skip);
    uint64_t value, there = 0;

    if (n == 0)
        return refuse(r, "relocation type %u in '%s' is not known", p->type,
                      section);
    if (p->offset > limit || limit - p->offset < skip + n)
        return refuse(r,
                      "relocation at 0x%llx of section '%s', which has %llu "
                      "bytes",
                      (unsigned long long)p->offset, section,
                      (unsigned long long)limit);
    BELL_TRY(hcq_elf_address(&r->elf, r->c->places, p->symbol, va, &value));
    if (!bytes)
        return BELL_OK;
    bytes += p->offset + skip;
    memcpy(&there, bytes, n);
    value += p->has_addend ? (uint64_t)p->addend : there;
    if (p->type == R_CUDA_ABS32_HI_32)
        value >>= 32;
    if ((p->type == R_CUDA_32 || p->type == R_CUDA_G32) && value > UINT32_MAX)
        return refuse(r,
                      "relocation at 0x%llx of section '%s': 0x%llx does not "
                      "fit in 32 bits",
                      (unsigned long long)p->offset, section,
                      (unsigned long long)value);
    memcpy(bytes, &value, n);
    return BELL_OK;
}

static bell_status
apply_cubin_section(const struct reader *r, const Elf64_Shdr *s, uint64_t va,
                    uint8_t *image)
{
    bool has_addend = s->sh_type == SHT_RELA;
    size_t step = has_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    Elf64_Shdr to = hcq_elf_section(&r->elf, s->sh_info);
    uint8_t *bytes = image ? image + r->c->places[s->sh_info] : NULL;
    uint64_t i;

    if (to.sh_type == SHT_NOBITS)
        return refuse(r, "relocation in section '%s', which has no bytes",
                      hcq_elf_section_name(&r->elf, &to));
    for (i = 0; i < s->sh_size / step; i++) {
        Elf64_Rela rela = {0};
        struct patch p;

        memcpy(&rela, r->c->data + s->sh_offset + i * step, step);
        p = (struct patch){
            .offset = rela.r_offset,
            .type = (uint32_t)ELF64_R_TYPE(rela.r_info),
            .symbol = (uint32_t)ELF64_R_SYM(rela.r_info),
            .addend = rela.r_addend,
            .has_addend = has_addend,
        };
        BELL_TRY(apply_patch(r, &p, hcq_elf_section_name(&r->elf, &to),
                             to.sh_size, va, bytes));
    }
    return BELL_OK;
}

/* All relocations of what is loaded. */
static bell_status
apply_cubin_relocations(const struct reader *r, uint64_t va, uint8_t *image)
{
    uint32_t i;

    for (i = 0; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if ((s.sh_type != SHT_REL && s.sh_type != SHT_RELA) ||
            s.sh_info >= r->elf.n_sections ||
            r->c->places[s.sh_info] == HCQ_ELF_NOT_LOADED)
            continue;
        BELL_TRY(apply_cubin_section(r, &s, va, image));
    }
    return BELL_OK;
}

/* ---- all of it ----------------------------------------------------------- */

static bell_status
read_cubin(struct reader *r)
{
    BELL_TRY(open_cubin_file(r));
    r->c->sm = get_sm(&r->elf.head);
    BELL_TRY(lay_out_cubin(r));
    BELL_TRY(find_kernel_entry(r));
    BELL_TRY(read_shared(r));
    BELL_TRY(read_info(r));
    BELL_TRY(apply_cubin_relocations(r, 0, NULL));
    return BELL_OK;
}

bell_status
nv_cubin_open(const void *data, size_t data_bytes, const char *name,
              const char *entry, struct nv_cubin *out_cubin)
{
    struct nv_cubin cubin = {
        .data = data,
        .data_bytes = data_bytes,
        .name = name,
    };
    struct reader r = {.c = &cubin, .entry = entry};
    bell_status status = read_cubin(&r);

    if (status != BELL_OK) {
        nv_cubin_close(&cubin);
        return status;
    }
    *out_cubin = cubin;
    return BELL_OK;
}

void
nv_cubin_close(struct nv_cubin *cubin)
{
    host_free(cubin->places);
    cubin->places = NULL;
}

bell_status
nv_cubin_link(const struct nv_cubin *cubin, uint64_t va, uint8_t *image)
{
    struct nv_cubin copy = *cubin;
    struct reader r = {.c = &copy, .entry = ""};

    BELL_TRY(open_cubin_file(&r)); /* as when it was opened */
    memset(image, 0, (size_t)cubin->image_bytes);
    hcq_elf_copy(&r.elf, cubin->places, image);
    BELL_TRY(apply_cubin_relocations(&r, va, image));
    return BELL_OK;
}
