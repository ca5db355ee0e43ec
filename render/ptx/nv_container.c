/* Writes the file in two passes over one list of sections: contents and names
 * first, each section in a buffer of its own, then the file around them. */
#include "render/ptx/nv_container.h"

#include <assert.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/growing_bytes.h"
#include "base/bits.h"
#include "render/ptx/ptx_internal.h"

/* src: docs/hardware/nvidia-code.md, "Cubin container", "Attributes" */
enum {
    MACHINE = 0xBE,
    OS_ABI = 0x41,
    ABI_VERSION = 8,
    TOOLKIT = 130,
    SHT_INFO = 0x70000000,
    R_64 = 2,
    ATTR_NONE = 1,
    ATTR_U8,
    ATTR_U16,
    ATTR_BYTES,
    ATTR_PARAM_CBANK = 0x0A,
    ATTR_REQNTID = 0x10,
    ATTR_FRAME_SIZE = 0x11,
    ATTR_MIN_STACK_SIZE = 0x12,
    ATTR_KPARAM_INFO = 0x17,
    ATTR_CBANK_PARAM_SIZE = 0x19,
    ATTR_MAXREG_COUNT = 0x1B,
    ATTR_REGCOUNT = 0x2F,
    ATTR_CUDA_API_VERSION = 0x37,
    ATTR_NUM_BARRIERS = 0x4C,
};

#define MAX_TEXT_BYTES     (64u << 20)
#define MAX_VAR_BYTES      (1u << 30)
#define MAX_BANK_BYTES     65536u
#define SHARED_START_BYTES 0x400u /* of sm_90 and later: reserved */
#define TEXT_HEAD_BYTES    16u

/* One architecture's differences. */
struct arch {
    uint32_t sm, flags_low, param_base;
    bool has_rela, has_shared_start, regs_in_section;
};

static const struct arch archs[] = {
    {80, 4, 0x160, false, false, true}, {86, 4, 0x160, false, false, true},
    {89, 4, 0x160, false, false, true}, {90, 4, 0x210, true, true, false},
    {100, 2, 0x380, true, true, false}, {120, 2, 0x380, true, true, false},
};

/* Places in the section table: those that are always there come first. */
enum {
    S_NULL,
    S_SHSTRTAB,
    S_STRTAB,
    S_SYMTAB,
    S_INFO,
    S_INFO_ENTRY,
    S_CONST0,
    S_TEXT,
    S_SHARED,
    S_CONST3,
    S_CONST4,
    S_REL_CONST4,
    S_GLOBAL_INIT,
    S_GLOBAL,
    S_COUNT
};

struct section {
    Elf64_Shdr hdr;
    struct bytes bytes; /* empty for NOBITS */
    uint32_t number;    /* in the file */
    bool is_present;
};

struct writer {
    const struct nv_container_desc *desc;
    const struct arch *arch;
    struct section s[S_COUNT];
    uint32_t n_locals; /* symbols before the first global one */
    bool failed;       /* out of memory */
};

/* ---- bytes ---- */

static void
put_bytes(struct writer *w, struct bytes *b, const void *data, size_t n)
{
    bytes_add(b, data, n);
    w->failed |= b->failed;
}

static void
put_u32(struct writer *w, struct bytes *b, uint32_t value)
{
    unsigned char le[4] = {
        (unsigned char)value,
        (unsigned char)(value >> 8),
        (unsigned char)(value >> 16),
        (unsigned char)(value >> 24),
    };

    put_bytes(w, b, le, sizeof(le));
}

static void
pad_to(struct writer *w, struct bytes *b, size_t n)
{
    assert(w->failed || n >= b->n);
    if (n > b->n)
        put_bytes(w, b, NULL, n - b->n);
}

/* A string of a table; its offset. */
static uint32_t
put_name(struct writer *w, unsigned table, const char *prefix, const char *name)
{
    struct bytes *b = &w->s[table].bytes;
    size_t at = b->n;

    assert(table == S_SHSTRTAB || table == S_STRTAB);
    put_bytes(w, b, prefix, strlen(prefix));
    put_bytes(w, b, name, strlen(name) + 1);
    return (uint32_t)at;
}

/* ---- sections and symbols ---- */

static struct bytes *
add_section(struct writer *w, unsigned which, const char *prefix,
            const char *name, uint32_t type, uint64_t flags, uint64_t align)
{
    struct section *s = &w->s[which];

    assert(which < S_COUNT && !s->is_present && is_pow2(align));
    s->is_present = true;
    s->hdr.sh_name = put_name(w, S_SHSTRTAB, prefix, name);
    s->hdr.sh_type = type;
    s->hdr.sh_flags = flags;
    s->hdr.sh_addralign = align;
    return &s->bytes;
}

static void
number_sections(struct writer *w)
{
    uint32_t i, n = 0;

    assert(w->s[S_NULL].is_present);
    for (i = 0; i < S_COUNT; i++) {
        if (w->s[i].is_present)
            w->s[i].number = n++;
    }
}

/* A symbol; its index. */
static uint32_t
add_symbol(struct writer *w, const char *name, unsigned info, unsigned other,
           unsigned which, uint64_t value, uint64_t size)
{
    struct bytes *b = &w->s[S_SYMTAB].bytes;
    Elf64_Sym sym = {
        .st_name = *name ? put_name(w, S_STRTAB, "", name) : 0,
        .st_info = (unsigned char)info,
        .st_other = (unsigned char)other,
        .st_shndx = (Elf64_Section)w->s[which].number,
        .st_value = value,
        .st_size = size,
    };
    uint32_t index = (uint32_t)(b->n / sizeof(sym));

    assert(w->s[which].is_present);
    put_bytes(w, b, &sym, sizeof(sym));
    return index;
}

/* ---- attributes ---- */

static void
put_attr(struct writer *w, unsigned which, unsigned format, unsigned code,
         uint32_t value)
{
    assert(format >= ATTR_NONE && format <= ATTR_BYTES && code <= UINT8_MAX);
    assert(value <= UINT16_MAX);
    put_u32(w, &w->s[which].bytes, format | code << 8 | value << 16);
}

static void
put_attr_words(struct writer *w, unsigned which, unsigned code,
               const uint32_t *words, uint32_t n)
{
    uint32_t i;

    put_attr(w, which, ATTR_BYTES, code, n * 4);
    for (i = 0; i < n; i++)
        put_u32(w, &w->s[which].bytes, words[i]);
}

static void
put_attrs(struct writer *w, uint32_t entry_sym, uint32_t const0_sym)
{
    const struct nv_container_desc *d = w->desc;
    uint32_t total = d->n_params * 8, i;

    put_attr_words(w, S_INFO, ATTR_REGCOUNT, (uint32_t[]){entry_sym, d->n_regs},
                   2);
    put_attr_words(w, S_INFO, ATTR_FRAME_SIZE,
                   (uint32_t[]){entry_sym, d->stack_bytes}, 2);
    put_attr_words(w, S_INFO, ATTR_MIN_STACK_SIZE,
                   (uint32_t[]){entry_sym, d->stack_bytes}, 2);

    put_attr_words(w, S_INFO_ENTRY, ATTR_CUDA_API_VERSION,
                   (uint32_t[]){TOOLKIT}, 1);
    if (total) {
        put_attr_words(
            w, S_INFO_ENTRY, ATTR_PARAM_CBANK,
            (uint32_t[]){const0_sym, w->arch->param_base | total << 16}, 2);
        put_attr(w, S_INFO_ENTRY, ATTR_U16, ATTR_CBANK_PARAM_SIZE, total);
    }
    for (i = d->n_params; i > 0; i--)
        put_attr_words(
            w, S_INFO_ENTRY, ATTR_KPARAM_INFO,
            (uint32_t[]){0, (i - 1) | (i - 1) * 8 << 16, 8u << 18 | 0x1F000},
            3);
    put_attr(w, S_INFO_ENTRY, ATTR_U16, ATTR_MAXREG_COUNT, 0xFF);
    if (d->n_barriers)
        put_attr(w, S_INFO_ENTRY, ATTR_U8, ATTR_NUM_BARRIERS, d->n_barriers);
    if (d->reqntid[0])
        put_attr_words(w, S_INFO_ENTRY, ATTR_REQNTID, d->reqntid, 3);
}

/* ---- variables ---- */

/* .global variables stay together: with values if any of them has one. */
static unsigned
var_section(const struct writer *w, const struct nv_container_var *var)
{
    uint32_t i;

    if (var->is_const)
        return S_CONST3;
    for (i = 0; i < w->desc->n_vars; i++) {
        if (!w->desc->vars[i].is_const && w->desc->vars[i].init)
            return S_GLOBAL_INIT;
    }
    return S_GLOBAL;
}

static void
declare_vars(struct writer *w)
{
    static const struct {
        const char *name;
        uint32_t type;
        uint64_t flags;
    } rows[S_COUNT] = {
        [S_CONST3] = {".nv.constant3", SHT_PROGBITS, SHF_ALLOC},
        [S_GLOBAL_INIT] = {".nv.global.init", SHT_PROGBITS,
                           SHF_ALLOC | SHF_WRITE},
        [S_GLOBAL] = {".nv.global", SHT_NOBITS, SHF_ALLOC | SHF_WRITE},
    };
    uint32_t i;

    for (i = 0; i < w->desc->n_vars; i++) {
        const struct nv_container_var *var = &w->desc->vars[i];
        unsigned which = var_section(w, var);
        struct section *s = &w->s[which];
        if (!s->is_present)
            add_section(w, which, rows[which].name, "", rows[which].type,
                        rows[which].flags, 1);
        if (s->hdr.sh_addralign < var->align_bytes)
            s->hdr.sh_addralign = var->align_bytes;
        if (var->is_const || w->s[S_CONST4].is_present)
            continue;
        add_section(w, S_CONST4, ".nv.constant4", "", SHT_PROGBITS, SHF_ALLOC,
                    8);
        add_section(
            w, S_REL_CONST4,
            w->arch->has_rela ? ".rela.nv.constant4" : ".rel.nv.constant4", "",
            w->arch->has_rela ? SHT_RELA : SHT_REL, SHF_INFO_LINK, 8);
    }
}

static void
put_address(struct writer *w, uint32_t sym)
{
    struct bytes *at = &w->s[S_CONST4].bytes, *rel = &w->s[S_REL_CONST4].bytes;
    Elf64_Rela rela = {
        .r_offset = at->n,
        .r_info = ELF64_R_INFO(sym, R_64),
    };

    assert(w->s[S_REL_CONST4].is_present);
    put_bytes(w, rel, &rela,
              w->arch->has_rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel));
    put_bytes(w, at, NULL, 8);
}

/* Contents, symbols and addresses. Zeros of .nv.global are not stored: its
 * size alone grows. */
static void
put_vars(struct writer *w)
{
    uint32_t i, sym;

    for (i = 0; i < w->desc->n_vars; i++) {
        const struct nv_container_var *var = &w->desc->vars[i];
        unsigned which = var_section(w, var);
        struct section *s = &w->s[which];
        uint64_t at = align_up(s->hdr.sh_size, var->align_bytes);

        s->hdr.sh_size = at + var->size_bytes;
        if (which != S_GLOBAL) {
            pad_to(w, &s->bytes, at);
            put_bytes(w, &s->bytes, var->init, var->size_bytes);
        }
        sym = add_symbol(w, var->name, ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 0,
                         which, at, var->size_bytes);
        if (!var->is_const)
            put_address(w, sym);
    }
}

/* ---- the file ---- */

static void
declare_sections(struct writer *w)
{
    const struct nv_container_desc *d = w->desc;

    w->s[S_NULL].is_present = true;
    put_name(w, S_SHSTRTAB, "", "");
    put_name(w, S_STRTAB, "", "");
    add_section(w, S_SHSTRTAB, ".shstrtab", "", SHT_STRTAB, 0, 1);
    add_section(w, S_STRTAB, ".strtab", "", SHT_STRTAB, 0, 1);
    add_section(w, S_SYMTAB, ".symtab", "", SHT_SYMTAB, 0, 8);
    add_section(w, S_INFO, ".nv.info", "", SHT_INFO, 0, 4);
    add_section(w, S_INFO_ENTRY, ".nv.info.", d->entry, SHT_INFO, SHF_INFO_LINK,
                4);
    add_section(w, S_CONST0, ".nv.constant0.", d->entry, SHT_PROGBITS,
                SHF_ALLOC | SHF_INFO_LINK, 4);
    add_section(w, S_TEXT, ".text.", d->entry, SHT_PROGBITS,
                SHF_ALLOC | SHF_EXECINSTR, 128);
    if (d->shared_bytes || (d->has_dynamic && w->arch->has_shared_start)) {
        add_section(w, S_SHARED, ".nv.shared.", d->entry, SHT_NOBITS,
                    SHF_ALLOC | SHF_WRITE | SHF_INFO_LINK, 16);
        w->s[S_SHARED].hdr.sh_size =
            d->shared_bytes +
            (w->arch->has_shared_start ? SHARED_START_BYTES : 0);
    }
    declare_vars(w);
    number_sections(w);
}

static void
put_text(struct writer *w)
{
    struct bytes *b = &w->s[S_TEXT].bytes;
    uint32_t n = (uint32_t)strlen(w->desc->text);

    put_bytes(w, b, "BELL PTX", 8);
    put_u32(w, b, 1);
    put_u32(w, b, n);
    put_bytes(w, b, w->desc->text, n);
    pad_to(w, b, align_up(TEXT_HEAD_BYTES + (uint64_t)n, 128));
}

static void
put_contents(struct writer *w)
{
    const struct nv_container_desc *d = w->desc;
    uint32_t text, const0, i;

    assert(w->s[S_CONST0].is_present && w->s[S_TEXT].is_present);
    put_text(w);
    put_bytes(w, &w->s[S_CONST0].bytes, NULL,
              w->arch->param_base + (size_t)d->n_params * 8);
    put_bytes(w, &w->s[S_SYMTAB].bytes, NULL, sizeof(Elf64_Sym));
    for (i = S_CONST0; i < S_COUNT; i++) {
        if (w->s[i].is_present && i != S_REL_CONST4)
            add_symbol(w, "", ELF64_ST_INFO(STB_LOCAL, STT_SECTION), 0, i, 0,
                       0);
    }
    const0 = 1; /* the first of them */
    put_vars(w);
    w->n_locals = (uint32_t)(w->s[S_SYMTAB].bytes.n / sizeof(Elf64_Sym));
    text = add_symbol(w, d->entry, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10,
                      S_TEXT, 0, w->s[S_TEXT].bytes.n);
    put_attrs(w, text, const0);
}

static void
link_sections(struct writer *w)
{
    uint32_t symtab = w->s[S_SYMTAB].number, text = w->s[S_TEXT].number;

    w->s[S_SYMTAB].hdr.sh_link = w->s[S_STRTAB].number;
    w->s[S_SYMTAB].hdr.sh_info = w->n_locals;
    w->s[S_SYMTAB].hdr.sh_entsize = sizeof(Elf64_Sym);
    w->s[S_INFO].hdr.sh_link = symtab;
    w->s[S_INFO_ENTRY].hdr.sh_link = symtab;
    w->s[S_INFO_ENTRY].hdr.sh_info = text;
    w->s[S_CONST0].hdr.sh_info = text;
    w->s[S_SHARED].hdr.sh_info = text;
    w->s[S_TEXT].hdr.sh_link = symtab;
    w->s[S_TEXT].hdr.sh_info = w->n_locals;
    if (w->arch->regs_in_section)
        w->s[S_TEXT].hdr.sh_info |= w->desc->n_regs << 24;
    w->s[S_REL_CONST4].hdr.sh_link = symtab;
    w->s[S_REL_CONST4].hdr.sh_info = w->s[S_CONST4].number;
    w->s[S_REL_CONST4].hdr.sh_entsize =
        w->arch->has_rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
}

/* Gives every section its place; returns where the section table goes. */
static uint64_t
place_sections(struct writer *w, uint32_t *out_n)
{
    uint64_t at = sizeof(Elf64_Ehdr);
    uint32_t i, n = 0;

    for (i = S_NULL + 1; i < S_COUNT; i++) {
        struct section *s = &w->s[i];
        if (!s->is_present)
            continue;
        at = align_up(at, s->hdr.sh_addralign);
        s->hdr.sh_offset = at;
        if (s->hdr.sh_type != SHT_NOBITS)
            s->hdr.sh_size = s->bytes.n;
        at += s->bytes.n;
        n = s->number;
    }
    *out_n = n + 1;
    return align_up(at, 8);
}

static void
put_file(struct writer *w, struct bytes *out)
{
    uint32_t n_sections = 0, i;
    uint64_t table = place_sections(w, &n_sections);
    Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                    EV_CURRENT, OS_ABI, ABI_VERSION},
        .e_type = ET_EXEC,
        .e_machine = MACHINE,
        .e_version = EV_CURRENT,
        .e_shoff = table,
        .e_flags = 0x06u << 24 | w->arch->sm << 8 | w->arch->flags_low,
        .e_ehsize = sizeof(head),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (Elf64_Half)n_sections,
        .e_shstrndx = (Elf64_Half)w->s[S_SHSTRTAB].number,
    };

    put_bytes(w, out, &head, sizeof(head));
    for (i = S_NULL + 1; i < S_COUNT; i++) {
        if (!w->s[i].is_present)
            continue;
        pad_to(w, out, w->s[i].hdr.sh_offset);
        put_bytes(w, out, w->s[i].bytes.data, w->s[i].bytes.n);
    }
    pad_to(w, out, table);
    for (i = 0; i < S_COUNT; i++) {
        if (w->s[i].is_present)
            put_bytes(w, out, &w->s[i].hdr, sizeof(Elf64_Shdr));
    }
}

/* ---- checks ---- */

/* Whether the first .entry of the text is `entry`. */
static bool
has_entry(const char *text, const char *entry)
{
    const char *at = strstr(text, ".entry");
    size_t n = strlen(entry);

    if (!at)
        return false;
    at += strlen(".entry");
    at += strspn(at, " \t\r\n");
    return strncmp(at, entry, n) == 0 && strchr(" \t\r\n(", at[n]);
}

static bell_status
check_vars(const struct nv_container_desc *d)
{
    uint64_t n_const = 0, n_global = 0;
    uint32_t i;

    for (i = 0; i < d->n_vars; i++) {
        const struct nv_container_var *var = &d->vars[i];
        if (!is_pow2(var->align_bytes) || var->align_bytes > 256 ||
            !var->size_bytes || var->size_bytes > MAX_VAR_BYTES)
            return bell_fail(
                BELL_E_INVALID, "%s: variable %s has %u bytes, aligned to %u",
                d->entry, var->name, var->size_bytes, var->align_bytes);
        if (var->is_const)
            n_const = align_up(n_const, var->align_bytes) + var->size_bytes;
        else
            n_global += 8;
    }
    if (n_const > MAX_BANK_BYTES || n_global > MAX_BANK_BYTES)
        return bell_fail(BELL_E_INVALID,
                         "%s: %llu bytes of constants, addresses of %llu "
                         "variables; a bank holds %u bytes",
                         d->entry, (unsigned long long)n_const,
                         (unsigned long long)n_global / 8, MAX_BANK_BYTES);
    return BELL_OK;
}

static bell_status
check(const struct nv_container_desc *d, const struct arch *arch)
{
    if (!d->entry[0] || !has_entry(d->text, d->entry))
        return bell_fail(BELL_E_INVALID, "the PTX's kernel is not '%s'",
                         d->entry);
    if (strlen(d->text) > MAX_TEXT_BYTES)
        return bell_fail(BELL_E_INVALID, "%s: %zu bytes of PTX", d->entry,
                         strlen(d->text));
    if (d->n_regs < 1 || d->n_regs > 255 || d->n_barriers > 16 ||
        d->shared_bytes > (1u << 20) || d->stack_bytes > (1u << 24))
        return bell_fail(BELL_E_INVALID,
                         "%s: %u registers, %u barriers, %u bytes of shared "
                         "memory, %u of stack",
                         d->entry, d->n_regs, d->n_barriers, d->shared_bytes,
                         d->stack_bytes);
    if (d->n_params > (MAX_BANK_BYTES - 8 - arch->param_base) / 8)
        return bell_fail(BELL_E_INVALID, "%s: %u parameters", d->entry,
                         d->n_params);
    if ((d->reqntid[0] || d->reqntid[1] || d->reqntid[2]) &&
        (!d->reqntid[0] || !d->reqntid[1] || !d->reqntid[2]))
        return bell_fail(BELL_E_INVALID, "%s: blocks of %u x %u x %u threads",
                         d->entry, d->reqntid[0], d->reqntid[1], d->reqntid[2]);
    return check_vars(d);
}

static bell_status
find_arch(uint32_t sm, const struct arch **out_arch)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(archs); i++) {
        if (archs[i].sm == sm) {
            *out_arch = &archs[i];
            return BELL_OK;
        }
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no binaries for sm_%u; known: sm_80 sm_86 sm_89 sm_90 "
                     "sm_100 sm_120",
                     sm);
}

bell_status
render_nv_container(const struct nv_container_desc *desc,
                    struct render_binary *out_binary)
{
    struct writer w = {.desc = desc};
    struct bytes file = {0};
    uint32_t i;

    BELL_TRY(find_arch(desc->sm, &w.arch));
    BELL_TRY(check(desc, w.arch));
    declare_sections(&w);
    put_contents(&w);
    link_sections(&w);
    put_file(&w, &file);
    for (i = 0; i < S_COUNT; i++)
        host_free(w.s[i].bytes.data);
    if (w.failed) {
        host_free(file.data);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory packing %s",
                         desc->entry);
    }
    out_binary->data = file.data;
    out_binary->size_bytes = file.n;
    return BELL_OK;
}

/* ---- programs ---- */

/* Registers as the text declares them, each of 32 bits, and some for
 * addresses; no more than a block of so many threads can have. Values live
 * shorter than the text's registers, so this is on the safe side. */
static uint32_t
estimate_regs(const char *text, uint64_t n_threads)
{
    const char *at = text;
    uint64_t n = 16, most = n_threads ? 65536 / n_threads & ~7ull : 255;

    while ((at = strstr(at, ".reg ."))) {
        unsigned bits = 0, count = 0;
        if (sscanf(at, ".reg .%*c%u %%%*[a-z]<%u>", &bits, &count) == 2)
            n += (uint64_t)count * (bits == 64 ? 2 : 1);
        at += 6;
    }
    if (most > 255)
        most = 255;
    n = align_up(n, 8);
    return (uint32_t)(n < most ? n : most);
}

/* The maps of its TMA_COPYs as variables, in the arena. */
static bell_status
add_maps(struct nv_container_desc *desc, const struct lower_program *program,
         struct arena *arena)
{
    struct nv_container_var *vars;
    struct ptx_map *maps;
    uint32_t i;

    BELL_TRY(ptx_box_maps(program, arena, &maps, &desc->n_vars));
    vars = arena_calloc(arena, desc->n_vars + 1, sizeof(*vars));
    for (i = 0; vars && i < desc->n_vars; i++) {
        vars[i] = (struct nv_container_var){arena_printf(arena, "map%u", i),
                                            sizeof(maps[i]), sizeof(maps[i]),
                                            &maps[i], false};
    }
    desc->vars = vars;
    return arena->failed
               ? bell_fail(BELL_E_NO_MEMORY,
                           "%s: out of memory for %u maps of TMA_COPYs",
                           program->name, desc->n_vars)
               : BELL_OK;
}

bell_status
render_nv_container_program(const struct lower_program *program,
                            const struct ptx_target *target,
                            struct render_binary *out_binary)
{
    uint64_t n_threads =
        (uint64_t)program->local[0] * program->local[1] * program->local[2];
    struct nv_container_desc desc = {
        .entry = program->name,
        .sm = target->sm,
        .n_params = program->n_params + program->n_vars,
        .shared_bytes = render_ptx_static_bytes(program),
        .has_dynamic = render_ptx_dynamic_bytes(program) > 0,
    };
    struct arena arena;
    bell_status status;
    char *text = NULL;
    uint32_t i;

    for (i = 0; i < program->n_ops; i++) {
        if (program->ops[i]->op == UOP_PINGPONG)
            desc.n_barriers = ptx_n_barriers(program);
        else if (program->ops[i]->op == UOP_BARRIER && !desc.n_barriers)
            desc.n_barriers = 1;
    }
    memcpy(desc.reqntid, program->local, sizeof(desc.reqntid));
    arena_init(&arena);
    status = add_maps(&desc, program, &arena);
    if (status == BELL_OK)
        status = render_ptx(program, target, &text);
    if (status == BELL_OK) {
        desc.text = text;
        desc.n_regs = estimate_regs(text, n_threads);
        status = render_nv_container(&desc, out_binary);
    }
    host_free(text);
    arena_fini(&arena);
    return status;
}

/* ---- text that somebody else wrote ---- */

/* Bytes of what is declared behind each `space`: ".align 4 .b8 name[64];",
 * one behind the other. False: its size is not there to read. */
static bool
declared_bytes(const char *text, const char *space, uint32_t *out_bytes)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = {{"8 ", 1}, {"16 ", 2}, {"32 ", 4}, {"64 ", 8}};
    const char *at = text, *end, *type, *open;
    uint64_t bytes = 0, n;
    unsigned align;
    size_t i;

    while ((at = strstr(at, space))) {
        char before = at == text ? ' ' : at[-1];
        at += strlen(space);
        /* .extern is dynamic, ld.shared an instruction */
        if ((before != ' ' && before != '\t' && before != '\n') ||
            (*at != ' ' && *at != '\t'))
            continue;
        end = strchr(at, ';');
        type = strstr(at, " .");
        if (type && strncmp(type, " .align ", 8) == 0) {
            align = (unsigned)strtoul(type + 8, NULL, 10);
            type = strstr(type + 8, " .");
        } else {
            align = 1;
        }
        if (!end || !type || type > end || align == 0 || align > 4096)
            return false;
        for (i = 0; i < ARRAY_LEN(types); i++) {
            if (strncmp(type + 3, types[i].name, strlen(types[i].name)) == 0)
                break;
        }
        if (i == ARRAY_LEN(types))
            return false;
        open = strchr(type, '[');
        n = open && open < end ? strtoull(open + 1, NULL, 10) : 1;
        if (n == 0) /* [] */
            continue;
        bytes =
            align_up(bytes, align > types[i].bytes ? align : types[i].bytes);
        if (n > UINT32_MAX / 8)
            return false;
        bytes += n * types[i].bytes;
        if (bytes > UINT32_MAX / 2)
            return false;
    }
    *out_bytes = (uint32_t)bytes;
    return true;
}

bell_status
render_nv_container_text(const char *text, const char *entry, uint32_t sm,
                         uint32_t n_params, struct render_binary *out_binary)
{
    struct nv_container_desc desc = {
        .text = text,
        .entry = entry,
        .sm = sm,
        .n_params = n_params,
        .has_dynamic = strstr(text, ".extern .shared") != NULL,
        .n_barriers = strstr(text, "bar.") || strstr(text, "barrier.") ? 1 : 0,
    };
    const char *at = strstr(text, ".reqntid");
    unsigned n[3] = {0, 1, 1};

    if (strstr(text, "\n.global") || strstr(text, "\n.const") ||
        strstr(text, "\n.visible .global"))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: variables of a module are not for simulated "
                         "cards",
                         entry);
    if (!declared_bytes(text, ".shared", &desc.shared_bytes) ||
        !declared_bytes(text, ".local", &desc.stack_bytes))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: .shared or .local memory of a size that is not "
                         "written as a number",
                         entry);
    desc.stack_bytes = (uint32_t)align_up(desc.stack_bytes, 16);
    if (at && sscanf(at + 8, "%u , %u , %u", &n[0], &n[1], &n[2]) >= 1) {
        desc.reqntid[0] = n[0];
        desc.reqntid[1] = n[1];
        desc.reqntid[2] = n[2];
    }
    desc.n_regs = estimate_regs(text, (uint64_t)n[0] * n[1] * n[2]);
    return render_nv_container(&desc, out_binary);
}
