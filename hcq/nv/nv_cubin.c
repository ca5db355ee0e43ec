/* Cubins: ELF64 with NVIDIA's sections, attributes and relocations. */
#include "hcq/nv/nv_cubin.h"

#include <elf.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MACHINE_CUDA 190u
#define NOT_LOADED   UINT64_MAX

/* Instructions are fetched ahead of where a kernel ends. */
#define CODE_SLACK_BYTES 4096u
/* Modules are below 4 GiB. */
#define TOTAL_MAX UINT32_MAX

/* Attributes. src: hw/nv/CUBIN.md section 3 */
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

/* Relocations. src: hw/nv/CUBIN.md section 8 */
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
    uint64_t shoff;
    Elf64_Shdr names, symbols, symbol_names; /* bounds are checked */
    uint32_t n_symbols;
    uint32_t entry_symbol, entry_section;
    bool has_cbank, has_regs;
    uint32_t cbank_bytes; /* CBANK_PARAM_SIZE; 0: not said */
};

#define refuse(c, ...)                                                         \
    (bell_fail(BELL_E_INVALID, __VA_ARGS__), prefix_program(c))

static bell_status
prefix_program(const struct nv_cubin *c)
{
    bell_error_prefix("program '%s'", c->name);
    return BELL_E_INVALID;
}

/* ---- sections, names, symbols ------------------------------------------------ */

/* Whether [offset, offset + size) is inside of the file. */
static bool
is_inside(const struct nv_cubin *c, uint64_t offset, uint64_t size_bytes)
{
    return offset <= c->data_bytes && size_bytes <= c->data_bytes - offset;
}

/* idx is below n_sections. */
static Elf64_Shdr
section_at(const struct reader *r, uint32_t idx)
{
    Elf64_Shdr s;

    memcpy(&s, r->c->data + r->shoff + idx * sizeof(s), sizeof(s));
    return s;
}

/* The string at an offset of a table, which ends with a zero; "" where there
 * is none. */
static const char *
string_at(const struct nv_cubin *c, const Elf64_Shdr *table, uint64_t offset)
{
    return offset < table->sh_size
               ? (const char *)c->data + table->sh_offset + offset
               : "";
}

static const char *
section_name(const struct reader *r, const Elf64_Shdr *s)
{
    return string_at(r->c, &r->names, s->sh_name);
}

/* idx is below n_symbols. */
static Elf64_Sym
symbol_at(const struct reader *r, uint32_t idx)
{
    Elf64_Sym sym;

    memcpy(&sym, r->c->data + r->symbols.sh_offset + idx * sizeof(sym),
           sizeof(sym));
    return sym;
}

static const char *
symbol_name(const struct reader *r, uint32_t idx)
{
    Elf64_Sym sym;

    if (idx >= r->n_symbols)
        return "";
    sym = symbol_at(r, idx);
    return string_at(r->c, &r->symbol_names, sym.st_name);
}

static bell_status
check_bytes(const struct reader *r, const Elf64_Shdr *s)
{
    if (s->sh_type == SHT_NOBITS || is_inside(r->c, s->sh_offset, s->sh_size))
        return BELL_OK;
    return refuse(r->c,
                  "truncated: section '%s' is %llu bytes at 0x%llx, the file "
                  "has %llu",
                  section_name(r, s), (unsigned long long)s->sh_size,
                  (unsigned long long)s->sh_offset,
                  (unsigned long long)r->c->data_bytes);
}

/* A table of names. */
static bell_status
check_strings(const struct reader *r, uint32_t idx, const Elf64_Shdr *s)
{
    if (s->sh_type != SHT_NOBITS && is_inside(r->c, s->sh_offset, s->sh_size) &&
        s->sh_size && r->c->data[s->sh_offset + s->sh_size - 1] == '\0')
        return BELL_OK;
    return refuse(r->c,
                  "truncated: section %u should hold names, %llu bytes at "
                  "0x%llx, the file has %llu",
                  idx, (unsigned long long)s->sh_size,
                  (unsigned long long)s->sh_offset,
                  (unsigned long long)r->c->data_bytes);
}

/* ---- the file's header ---------------------------------------------------------- */

static bell_status
check_ident(const struct nv_cubin *c, const Elf64_Ehdr *head)
{
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(c, "not an ELF file: it begins with %02x %02x %02x %02x",
                      head->e_ident[0], head->e_ident[1], head->e_ident[2],
                      head->e_ident[3]);
    if (head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_ident[EI_DATA] != ELFDATA2LSB)
        return refuse(c, "not a 64-bit little-endian ELF file");
    if (head->e_machine != MACHINE_CUDA)
        return refuse(c, "for machine %u, not CUDA's %u", head->e_machine,
                      MACHINE_CUDA);
    if (head->e_type != ET_EXEC && head->e_type != ET_REL)
        return refuse(c, "ELF type %u is no cubin's", head->e_type);
    return BELL_OK;
}

static bell_status
read_header(struct reader *r)
{
    struct nv_cubin *c = r->c;
    Elf64_Ehdr head;
    uint32_t flags;

    if (c->data_bytes < sizeof(head))
        return refuse(c, "truncated: %llu bytes, a header has %zu",
                      (unsigned long long)c->data_bytes, sizeof(head));
    memcpy(&head, c->data, sizeof(head));
    BELL_TRY(check_ident(c, &head));
    flags = head.e_flags;
    c->sm = head.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xff : flags & 0xff;
    if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum == 0 ||
        head.e_shstrndx >= head.e_shnum)
        return refuse(c, "%u section headers of %u bytes, names in number %u",
                      head.e_shnum, head.e_shentsize, head.e_shstrndx);
    if (!is_inside(c, head.e_shoff, head.e_shnum * sizeof(Elf64_Shdr)))
        return refuse(c,
                      "truncated: %u section headers at 0x%llx, the file has "
                      "%llu bytes",
                      head.e_shnum, (unsigned long long)head.e_shoff,
                      (unsigned long long)c->data_bytes);
    c->n_sections = head.e_shnum;
    r->shoff = head.e_shoff;
    r->names = section_at(r, head.e_shstrndx);
    BELL_TRY(check_strings(r, head.e_shstrndx, &r->names));
    return BELL_OK;
}

/* All sections are inside of the file; the table of symbols is found. */
static bell_status
read_sections(struct reader *r)
{
    bool has_symbols = false;
    uint32_t i;

    for (i = 0; i < r->c->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        BELL_TRY(check_bytes(r, &s));
        if (s.sh_type != SHT_SYMTAB)
            continue;
        if (has_symbols || s.sh_link >= r->c->n_sections)
            return refuse(r->c, "section '%s': %s", section_name(r, &s),
                          has_symbols ? "a second table of symbols"
                                      : "no names of symbols");
        has_symbols = true;
        r->symbols = s;
        r->symbol_names = section_at(r, s.sh_link);
        BELL_TRY(check_strings(r, s.sh_link, &r->symbol_names));
        r->n_symbols = (uint32_t)(s.sh_size / sizeof(Elf64_Sym));
    }
    if (!has_symbols)
        return refuse(r->c, "no symbols");
    return BELL_OK;
}

/* ---- the image -------------------------------------------------------------------- */

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
    const char *name = section_name(r, s);
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

static bell_status
place_section(struct reader *r, uint32_t idx, const Elf64_Shdr *s,
              uint64_t align)
{
    struct nv_cubin *c = r->c;

    if (s->sh_addralign > align)
        align = s->sh_addralign;
    if (!is_pow2(align) || align > NV_CUBIN_ALIGN)
        return refuse(c, "section '%s' is aligned to %llu bytes",
                      section_name(r, s), (unsigned long long)align);
    c->places[idx] = align_up(c->total_bytes, align);
    if (s->sh_size > TOTAL_MAX || c->places[idx] + s->sh_size > TOTAL_MAX)
        return refuse(c, "section '%s' of %llu bytes: modules are below 4 GiB",
                      section_name(r, s), (unsigned long long)s->sh_size);
    c->total_bytes = c->places[idx] + s->sh_size;
    return BELL_OK;
}

/* Places all sections of one kind. */
static bell_status
place_part(struct reader *r, enum part part, uint64_t align)
{
    struct nv_cubin *c = r->c;
    uint32_t i, bank = 0;

    for (i = 0; i < c->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        if (part_of(r, &s, &bank) != part)
            continue;
        BELL_TRY(place_section(r, i, &s, align));
        if (part != PART_BANK)
            continue;
        if (c->banks[bank].size_bytes)
            return refuse(c, "section '%s': a second one for bank %u",
                          section_name(r, &s), bank);
        if (s.sh_size > 65536)
            return refuse(c, "section '%s' of %llu bytes: a bank has 65536",
                          section_name(r, &s), (unsigned long long)s.sh_size);
        c->banks[bank] =
            (struct nv_cubin_part){(uint32_t)c->places[i], (uint32_t)s.sh_size};
    }
    return BELL_OK;
}

/* Code first, then what launches read whole multiples of 16 bytes of, then
 * variables; what is zero is behind the image. */
static bell_status
lay_out(struct reader *r)
{
    struct nv_cubin *c = r->c;
    uint64_t code_end;

    c->places = host_alloc(c->n_sections * sizeof(c->places[0]));
    if (!c->places)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': no memory for %u "
                         "sections",
                         c->name, c->n_sections);
    memset(c->places, 0xff, c->n_sections * sizeof(c->places[0]));
    BELL_TRY(place_part(r, PART_TEXT, 128));
    code_end = c->total_bytes + CODE_SLACK_BYTES;
    BELL_TRY(place_part(r, PART_BANK, 256));
    BELL_TRY(place_part(r, PART_INIT, 256));
    c->total_bytes = align_up(c->total_bytes, 256);
    if (c->total_bytes < code_end)
        c->total_bytes = align_up(code_end, 256);
    c->image_bytes = c->total_bytes;
    BELL_TRY(place_part(r, PART_ZERO, 256));
    return BELL_OK;
}

static bell_status
find_entry(struct reader *r)
{
    struct nv_cubin *c = r->c;
    uint32_t i;

    for (i = 0; i < r->n_symbols; i++) {
        Elf64_Sym sym = symbol_at(r, i);
        Elf64_Shdr s;

        if (sym.st_name == 0 || strcmp(symbol_name(r, i), r->entry) != 0)
            continue;
        if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC ||
            sym.st_shndx >= c->n_sections)
            return refuse(c, "'%s' is not a function", r->entry);
        s = section_at(r, sym.st_shndx);
        if (!is_text_name(section_name(r, &s)) ||
            c->places[sym.st_shndx] == NOT_LOADED || sym.st_value % 16 ||
            sym.st_value >= s.sh_size)
            return refuse(c,
                          "'%s' is at 0x%llx of section '%s', where no code "
                          "is",
                          r->entry, (unsigned long long)sym.st_value,
                          section_name(r, &s));
        r->entry_symbol = i;
        r->entry_section = sym.st_shndx;
        c->entry_offset = c->places[sym.st_shndx] + sym.st_value;
        return BELL_OK;
    }
    return refuse(c, "no entry '%s'", r->entry);
}

/* Static shared memory of the entry. */
static bell_status
read_shared(struct reader *r)
{
    static const char prefix[] = ".nv.shared.";
    uint32_t i;

    for (i = 0; i < r->c->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);
        const char *name = section_name(r, &s);

        if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 ||
            strcmp(name + sizeof(prefix) - 1, r->entry) != 0)
            continue;
        if (s.sh_size > 1u << 20)
            return refuse(r->c, "%llu bytes of static shared memory",
                          (unsigned long long)s.sh_size);
        r->c->shared_bytes = (uint32_t)s.sh_size;
    }
    return BELL_OK;
}

/* ---- attributes --------------------------------------------------------------------- */

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
        return refuse(c,
                      "KPARAM_INFO: parameter %u of %u bytes; %u parameters "
                      "are possible",
                      ordinal, size_bytes, NV_CUBIN_PARAMS_MAX);
    if (c->params[ordinal].size_bytes)
        return refuse(c, "KPARAM_INFO: parameter %u twice", ordinal);
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
            return refuse(c, "a block of %ux%ux%u threads", a->word[0],
                          a->word[1], a->word[2]);
        threads *= a->word[i];
    }
    if (threads > 1024)
        return refuse(c, "a block of %ux%ux%u threads", a->word[0], a->word[1],
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
    return refuse(r->c, "clusters of %ux%ux%u blocks are not supported",
                  a->word[0], a->word[1], a->word[2]);
}

/* Of the kernel's own section. */
static bell_status
read_kernel_attr(struct reader *r, const struct attr *a)
{
    struct nv_cubin *c = r->c;

    switch (a->code) {
    case ATTR_PARAM_CBANK:
        if (a->n_bytes < 8)
            return refuse(c, "PARAM_CBANK of %u bytes", a->n_bytes);
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
        return refuse(c, "it uses '%s', which nobody defines",
                      symbol_name(r, a->word[0]));
    case ATTR_SYSCALL_OFFSETS:
        return refuse(c, "it makes system calls");
    case ATTR_NUM_BARRIERS:
        c->n_barriers = a->x & 0xff;
        if (c->n_barriers > 16)
            return refuse(c, "NUM_BARRIERS: %u, a block has 16", c->n_barriers);
        return BELL_OK;
    default:
        return BELL_OK;
    }
}

/* Of the module's section, where records name their symbol. */
static bell_status
read_module_attr(struct reader *r, const struct attr *a)
{
    struct nv_cubin *c = r->c;

    if (a->n_bytes < 8 || a->word[0] != r->entry_symbol)
        return BELL_OK;
    if (a->code == ATTR_MIN_STACK_SIZE) {
        if (a->word[1] >= 1u << 20)
            return refuse(c, "MIN_STACK_SIZE: %u bytes", a->word[1]);
        c->stack_bytes = a->word[1];
    } else if (a->code == ATTR_REGCOUNT) {
        if (a->word[1] == 0 || a->word[1] > 255)
            return refuse(c, "REGCOUNT: %u registers", a->word[1]);
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
                return refuse(r->c,
                              "section '%s': attribute 0x%02x of %u bytes is "
                              "cut off at 0x%llx",
                              section_name(r, s), a.code, a.n_bytes,
                              (unsigned long long)(at - r->c->data));
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
        return refuse(r->c, "no PARAM_CBANK: where parameters go is not said");
    for (i = 0; i < r->c->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);
        const char *text = section_name(r, &s);

        if (strncmp(text, name, sizeof(name) - 1) != 0 ||
            strcmp(text + sizeof(name) - 1, r->entry) != 0)
            continue;
        if (s.sh_size > 65536)
            return refuse(r->c, "%s has 0x%llx bytes", text,
                          (unsigned long long)s.sh_size);
        r->c->param_offset = (uint32_t)align_up(s.sh_size, 8);
        return BELL_OK;
    }
    return refuse(r->c, "neither PARAM_CBANK nor %s%s", name, r->entry);
}

static bell_status
check_params(struct reader *r)
{
    struct nv_cubin *c = r->c;
    uint32_t i;

    if (!r->has_cbank)
        BELL_TRY(end_bank0(r));
    if (!r->has_regs)
        return refuse(c, "no REGCOUNT of '%s'", r->entry);
    if (r->cbank_bytes && r->cbank_bytes != c->param_bytes)
        return refuse(c,
                      "%u bytes of parameters in PARAM_CBANK, %u in "
                      "CBANK_PARAM_SIZE",
                      c->param_bytes, r->cbank_bytes);
    if (c->param_offset % 8 || c->param_offset + c->param_bytes > 65536)
        return refuse(c, "%u bytes of parameters at 0x%x of constant bank 0",
                      c->param_bytes, c->param_offset);
    for (i = 0; i < c->n_params; i++) {
        if (c->params[i].size_bytes == 0 ||
            c->params[i].size_bytes > c->param_bytes ||
            c->params[i].offset > c->param_bytes - c->params[i].size_bytes)
            return refuse(c, "parameter %u: %u bytes at %u of %u", i,
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

    for (i = 0; i < r->c->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);
        const char *text = section_name(r, &s);

        if (s.sh_type == SHT_NOBITS ||
            strncmp(text, name, sizeof(name) - 1) != 0)
            continue;
        text += sizeof(name) - 1;
        if (text[0] == '\0')
            BELL_TRY(read_attrs(r, &s, false));
        else if (text[0] == '.' && strcmp(text + 1, r->entry) == 0)
            BELL_TRY(read_attrs(r, &s, true));
    }
    BELL_TRY(check_params(r));
    return BELL_OK;
}

/* ---- relocations ---------------------------------------------------------------------- */

/* The address of a symbol in a module at `va`. */
static bell_status
symbol_address(const struct reader *r, uint32_t idx, uint64_t va,
               uint64_t *out_address)
{
    Elf64_Sym sym;

    if (idx >= r->n_symbols)
        return refuse(r->c, "a relocation with symbol %u of %u", idx,
                      r->n_symbols);
    sym = symbol_at(r, idx);
    if (sym.st_shndx == SHN_UNDEF)
        return refuse(r->c, "undefined symbol '%s'", symbol_name(r, idx));
    if (sym.st_shndx >= r->c->n_sections ||
        r->c->places[sym.st_shndx] == NOT_LOADED)
        return refuse(r->c,
                      "a relocation with symbol '%s', whose section %u is not "
                      "loaded",
                      symbol_name(r, idx), sym.st_shndx);
    *out_address = va + r->c->places[sym.st_shndx] + sym.st_value;
    return BELL_OK;
}

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
patch_bytes(uint32_t type, uint32_t *out_skip)
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
    uint32_t skip, n = patch_bytes(p->type, &skip);
    uint64_t value, there = 0;

    if (n == 0)
        return refuse(r->c, "relocation type %u in '%s' is not known", p->type,
                      section);
    if (p->offset > limit || limit - p->offset < skip + n)
        return refuse(r->c,
                      "relocation at 0x%llx of section '%s', which has %llu "
                      "bytes",
                      (unsigned long long)p->offset, section,
                      (unsigned long long)limit);
    BELL_TRY(symbol_address(r, p->symbol, va, &value));
    if (!bytes)
        return BELL_OK;
    bytes += p->offset + skip;
    memcpy(&there, bytes, n);
    value += p->has_addend ? (uint64_t)p->addend : there;
    if (p->type == R_CUDA_ABS32_HI_32)
        value >>= 32;
    if ((p->type == R_CUDA_32 || p->type == R_CUDA_G32) && value > UINT32_MAX)
        return refuse(r->c,
                      "relocation at 0x%llx of section '%s': 0x%llx does not "
                      "fit in 32 bits",
                      (unsigned long long)p->offset, section,
                      (unsigned long long)value);
    memcpy(bytes, &value, n);
    return BELL_OK;
}

static bell_status
apply_section(const struct reader *r, const Elf64_Shdr *s, uint64_t va,
              uint8_t *image)
{
    bool has_addend = s->sh_type == SHT_RELA;
    size_t step = has_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    Elf64_Shdr to = section_at(r, s->sh_info);
    uint8_t *bytes = image ? image + r->c->places[s->sh_info] : NULL;
    uint64_t i;

    if (to.sh_type == SHT_NOBITS)
        return refuse(r->c, "relocation in section '%s', which has no bytes",
                      section_name(r, &to));
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
        BELL_TRY(
            apply_patch(r, &p, section_name(r, &to), to.sh_size, va, bytes));
    }
    return BELL_OK;
}

/* All relocations of what is loaded. */
static bell_status
apply_all(const struct reader *r, uint64_t va, uint8_t *image)
{
    uint32_t i;

    for (i = 0; i < r->c->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        if ((s.sh_type != SHT_REL && s.sh_type != SHT_RELA) ||
            s.sh_info >= r->c->n_sections ||
            r->c->places[s.sh_info] == NOT_LOADED)
            continue;
        BELL_TRY(apply_section(r, &s, va, image));
    }
    return BELL_OK;
}

/* ---- all of it --------------------------------------------------------------------------- */

static bell_status
read_all(struct reader *r)
{
    BELL_TRY(read_header(r));
    BELL_TRY(read_sections(r));
    BELL_TRY(lay_out(r));
    BELL_TRY(find_entry(r));
    BELL_TRY(read_shared(r));
    BELL_TRY(read_info(r));
    BELL_TRY(apply_all(r, 0, NULL));
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
    bell_status status = read_all(&r);

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
    uint32_t i;

    /* As when it was opened; nothing is placed anew. */
    BELL_TRY(read_header(&r));
    BELL_TRY(read_sections(&r));
    memset(image, 0, (size_t)cubin->image_bytes);
    for (i = 0; i < cubin->n_sections; i++) {
        Elf64_Shdr s = section_at(&r, i);

        if (cubin->places[i] != NOT_LOADED && s.sh_type != SHT_NOBITS)
            memcpy(image + cubin->places[i], cubin->data + s.sh_offset,
                   (size_t)s.sh_size);
    }
    BELL_TRY(apply_all(&r, va, image));
    return BELL_OK;
}
