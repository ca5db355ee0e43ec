/* Code objects: relocatable ELF64 with AMD's kernel descriptors. */
#include "hcq/amd/amd_object.h"

#include <assert.h>
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/amd/amd_meta.h"
#include "hcq/amd/regs/amd_object.h"

#define MACHINE_AMDGPU 224u
#define OSABI_HSA      64u
/* EI_ABIVERSION of code objects 4 to 6. */
#define ABI_FIRST 2u
#define ABI_LAST  4u
#define MACH_MASK 0xffu

#define NOT_LOADED UINT64_MAX
/* 32-bit offsets reach so far. */
#define IMAGE_MAX INT32_MAX
/* Code is fetched ahead of where a kernel ends. src: CODEOBJ.md 3, 9.11 */
#define CODE_SLACK_BYTES 256u
#define DATA_ALIGN       64u

/* What stands behind the last instruction. src: CODEOBJ.md 3 */
#define S_NOP      0xbf800000u /* gfx9 */
#define S_CODE_END 0xbf9f0000u

/* src: hw/amd/CODEOBJ.md 3 */
enum {
    R_ABS32_LO = 1,
    R_ABS32_HI = 2,
    R_ABS64 = 3,
    R_REL32 = 4,
    R_REL64 = 5,
    R_ABS32 = 6,
    R_REL32_LO = 10,
    R_REL32_HI = 11,
};

/* An object while it is read. */
struct reader {
    struct amd_object *o;
    const char *entry; /* NULL: the only one */
    uint64_t shoff;
    Elf64_Shdr names, symbols, symbol_names; /* bounds are checked */
    uint32_t n_symbols, symbols_idx;
};

/* A part of the image: what relocations are applied to. */
struct window {
    uint8_t *bytes;
    uint64_t offset, size_bytes;
};

#define refuse(o, ...)                                                         \
    (bell_fail(BELL_E_INVALID, __VA_ARGS__), prefix_program(o))

static bell_status
prefix_program(const struct amd_object *o)
{
    bell_error_prefix("program '%s'", o->name);
    return BELL_E_INVALID;
}

/* ---- sections, names, symbols ------------------------------------------------ */

/* Whether [offset, offset + size) is inside of the object. */
static bool
is_inside(const struct amd_object *o, uint64_t offset, uint64_t size_bytes)
{
    return offset <= o->size_bytes && size_bytes <= o->size_bytes - offset;
}

/* idx is below n_sections. */
static Elf64_Shdr
section_at(const struct reader *r, uint32_t idx)
{
    Elf64_Shdr s;

    memcpy(&s, r->o->data + r->shoff + idx * sizeof(s), sizeof(s));
    return s;
}

/* The string at an offset of a table, which ends with a zero; "" where there
 * is none. */
static const char *
string_at(const struct amd_object *o, const Elf64_Shdr *table, uint64_t offset)
{
    return offset < table->sh_size
               ? (const char *)o->data + table->sh_offset + offset
               : "";
}

static const char *
section_name(const struct reader *r, const Elf64_Shdr *s)
{
    return string_at(r->o, &r->names, s->sh_name);
}

/* idx is below n_symbols. */
static Elf64_Sym
symbol_at(const struct reader *r, uint32_t idx)
{
    Elf64_Sym sym;

    memcpy(&sym, r->o->data + r->symbols.sh_offset + idx * sizeof(sym),
           sizeof(sym));
    return sym;
}

static const char *
symbol_name(const struct reader *r, const Elf64_Sym *sym)
{
    return string_at(r->o, &r->symbol_names, sym->st_name);
}

/* Sections whose bytes the image has. Notes are for who reads the file. */
static bool
is_loaded(const Elf64_Shdr *s)
{
    return (s->sh_flags & SHF_ALLOC) &&
           (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS);
}

static bool
is_code(const Elf64_Shdr *s)
{
    return is_loaded(s) && (s->sh_flags & SHF_EXECINSTR);
}

static bell_status
check_bytes(const struct reader *r, const Elf64_Shdr *s)
{
    if (s->sh_type == SHT_NOBITS || s->sh_type == SHT_NULL ||
        is_inside(r->o, s->sh_offset, s->sh_size))
        return BELL_OK;
    return refuse(r->o,
                  "truncated: section '%s' is %llu bytes at 0x%llx, the "
                  "object has %llu",
                  section_name(r, s), (unsigned long long)s->sh_size,
                  (unsigned long long)s->sh_offset,
                  (unsigned long long)r->o->size_bytes);
}

/* A table of names. */
static bell_status
check_strings(const struct reader *r, uint32_t idx, const Elf64_Shdr *s)
{
    if (s->sh_type == SHT_STRTAB && is_inside(r->o, s->sh_offset, s->sh_size) &&
        s->sh_size && r->o->data[s->sh_offset + s->sh_size - 1] == '\0')
        return BELL_OK;
    return refuse(r->o,
                  "truncated: section %u should hold names, %llu bytes at "
                  "0x%llx, the object has %llu",
                  idx, (unsigned long long)s->sh_size,
                  (unsigned long long)s->sh_offset,
                  (unsigned long long)r->o->size_bytes);
}

/* ---- the object's header -------------------------------------------------------- */

static bell_status
check_ident(const struct amd_object *o, const Elf64_Ehdr *head)
{
    uint32_t abi = head->e_ident[EI_ABIVERSION];

    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(o, "not an ELF file: it begins with %02x %02x %02x %02x",
                      head->e_ident[0], head->e_ident[1], head->e_ident[2],
                      head->e_ident[3]);
    if (head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_ident[EI_DATA] != ELFDATA2LSB)
        return refuse(o, "not a 64-bit little-endian ELF file");
    if (head->e_machine != MACHINE_AMDGPU)
        return refuse(o, "for machine %u, not AMDGPU's %u", head->e_machine,
                      MACHINE_AMDGPU);
    if (head->e_ident[EI_OSABI] != OSABI_HSA)
        return refuse(o, "for system %u, not HSA's %u", head->e_ident[EI_OSABI],
                      OSABI_HSA);
    if (abi < ABI_FIRST || abi > ABI_LAST)
        return refuse(o, "code object version %u; %u to %u are known", abi + 2,
                      ABI_FIRST + 2, ABI_LAST + 2);
    if (head->e_type != ET_REL)
        return refuse(o,
                      "ELF type %u: only relocatable objects (%u) are "
                      "loaded",
                      head->e_type, ET_REL);
    return BELL_OK;
}

static bell_status
read_header(struct reader *r)
{
    struct amd_object *o = r->o;
    Elf64_Ehdr head;

    if (o->size_bytes < sizeof(head))
        return refuse(o, "truncated: %llu bytes, a header has %zu",
                      (unsigned long long)o->size_bytes, sizeof(head));
    memcpy(&head, o->data, sizeof(head));
    BELL_TRY(check_ident(o, &head));
    o->machine = head.e_flags & MACH_MASK;
    if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum == 0 ||
        head.e_shstrndx >= head.e_shnum)
        return refuse(o, "%u section headers of %u bytes, names in number %u",
                      head.e_shnum, head.e_shentsize, head.e_shstrndx);
    if (!is_inside(o, head.e_shoff, head.e_shnum * sizeof(Elf64_Shdr)))
        return refuse(o,
                      "truncated: %u section headers at 0x%llx, the object has "
                      "%llu bytes",
                      head.e_shnum, (unsigned long long)head.e_shoff,
                      (unsigned long long)o->size_bytes);
    o->n_sections = head.e_shnum;
    r->shoff = head.e_shoff;
    r->names = section_at(r, head.e_shstrndx);
    BELL_TRY(check_strings(r, head.e_shstrndx, &r->names));
    return BELL_OK;
}

static bell_status
read_symbols(struct reader *r, uint32_t idx, const Elf64_Shdr *s)
{
    if (r->symbols_idx || s->sh_link >= r->o->n_sections ||
        s->sh_entsize != sizeof(Elf64_Sym) || s->sh_size % sizeof(Elf64_Sym))
        return refuse(r->o,
                      "section '%s': %s, %llu bytes of symbols of %llu, names "
                      "in section %u",
                      section_name(r, s),
                      r->symbols_idx ? "a second table of symbols"
                                     : "a table of symbols",
                      (unsigned long long)s->sh_size,
                      (unsigned long long)s->sh_entsize, s->sh_link);
    r->symbols_idx = idx;
    r->symbols = *s;
    r->symbol_names = section_at(r, s->sh_link);
    BELL_TRY(check_strings(r, s->sh_link, &r->symbol_names));
    if (s->sh_size / sizeof(Elf64_Sym) > UINT32_MAX)
        return refuse(r->o, "section '%s': too many symbols",
                      section_name(r, s));
    r->n_symbols = (uint32_t)(s->sh_size / sizeof(Elf64_Sym));
    return BELL_OK;
}

/* All sections are inside of the object; the table of symbols is found. */
static bell_status
read_sections(struct reader *r)
{
    uint32_t i;

    for (i = 1; i < r->o->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        BELL_TRY(check_bytes(r, &s));
        if (is_loaded(&s) && (s.sh_flags & (SHF_COMPRESSED | SHF_TLS)))
            return refuse(r->o, "section '%s': flags 0x%llx cannot be loaded",
                          section_name(r, &s), (unsigned long long)s.sh_flags);
        if (s.sh_type == SHT_SYMTAB)
            BELL_TRY(read_symbols(r, i, &s));
    }
    if (!r->symbols_idx)
        return refuse(r->o, "no symbols");
    return BELL_OK;
}

/* ---- the image -------------------------------------------------------------------- */

static bell_status
place_section(struct reader *r, uint32_t idx, const Elf64_Shdr *s,
              uint64_t align)
{
    struct amd_object *o = r->o;

    if (s->sh_addralign > align)
        align = s->sh_addralign;
    if (!is_pow2(align) || align > AMD_OBJECT_ALIGN)
        return refuse(o, "section '%s' is aligned to %llu bytes",
                      section_name(r, s), (unsigned long long)align);
    o->places[idx] = align_up(o->image_bytes, align);
    if (s->sh_size > IMAGE_MAX || o->places[idx] + s->sh_size > IMAGE_MAX)
        return refuse(o, "section '%s' of %llu bytes: images are below 2 GiB",
                      section_name(r, s), (unsigned long long)s->sh_size);
    o->image_bytes = o->places[idx] + s->sh_size;
    return BELL_OK;
}

static bell_status
place_part(struct reader *r, bool code, uint64_t align)
{
    uint32_t i;

    for (i = 1; i < r->o->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        if (is_loaded(&s) && is_code(&s) == code)
            BELL_TRY(place_section(r, i, &s, align));
    }
    return BELL_OK;
}

/* Code first, then what is read and written. */
static bell_status
lay_out(struct reader *r)
{
    struct amd_object *o = r->o;

    o->places = host_alloc(o->n_sections * sizeof(o->places[0]));
    if (!o->places)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': no memory for %u sections", o->name,
                         o->n_sections);
    memset(o->places, 0xff, o->n_sections * sizeof(o->places[0]));
    BELL_TRY(place_part(r, true, AMD_OBJECT_KERNEL_CODE_ALIGN));
    o->image_bytes = align_up(o->image_bytes + CODE_SLACK_BYTES,
                              AMD_OBJECT_KERNEL_CODE_ALIGN);
    o->code_bytes = o->image_bytes;
    BELL_TRY(place_part(r, false, DATA_ALIGN));
    return BELL_OK;
}

/* ---- relocations ---------------------------------------------------------------------- */

/* The address of a symbol in an image at `va`. */
static bell_status
symbol_address(const struct reader *r, uint32_t idx, uint64_t va,
               uint64_t *out_address)
{
    Elf64_Sym sym;
    Elf64_Shdr s;

    if (idx >= r->n_symbols)
        return refuse(r->o, "a relocation with symbol %u of %u", idx,
                      r->n_symbols);
    sym = symbol_at(r, idx);
    if (sym.st_shndx == SHN_UNDEF)
        return refuse(r->o, "undefined symbol '%s'", symbol_name(r, &sym));
    if (sym.st_shndx >= r->o->n_sections ||
        r->o->places[sym.st_shndx] == NOT_LOADED)
        return refuse(r->o,
                      "a relocation with symbol '%s', whose section %u is not "
                      "loaded",
                      symbol_name(r, &sym), sym.st_shndx);
    s = section_at(r, sym.st_shndx);
    if (sym.st_value > s.sh_size)
        return refuse(r->o,
                      "symbol '%s' is at 0x%llx of section '%s', which has "
                      "%llu bytes",
                      symbol_name(r, &sym), (unsigned long long)sym.st_value,
                      section_name(r, &s), (unsigned long long)s.sh_size);
    *out_address = va + r->o->places[sym.st_shndx] + sym.st_value;
    return BELL_OK;
}

/* Bytes that a type writes; 0: unknown. */
static uint32_t
patch_bytes(uint32_t type)
{
    switch (type) {
    case R_ABS64:
    case R_REL64:
        return 8;
    case R_ABS32_LO:
    case R_ABS32_HI:
    case R_REL32:
    case R_ABS32:
    case R_REL32_LO:
    case R_REL32_HI:
        return 4;
    default:
        return 0;
    }
}

/* What a type writes for symbol + addend = `target` at address `at`. False: it
 * does not fit. */
static bool
patch_value(uint32_t type, uint64_t target, uint64_t at, uint64_t *out_value)
{
    uint64_t distance = target - at;

    switch (type) {
    case R_ABS32_HI:
        *out_value = target >> 32;
        return true;
    case R_REL32_HI:
        *out_value = distance >> 32;
        return true;
    case R_REL64:
    case R_REL32_LO:
        *out_value = distance;
        return true;
    case R_REL32:
        *out_value = distance;
        return distance + (1ull << 31) < 1ull << 32;
    case R_ABS32:
        *out_value = target;
        return target <= UINT32_MAX;
    default: /* ABS32_LO, ABS64 */
        *out_value = target;
        return true;
    }
}

/* One relocation of section `to` at `place` of the image; it is checked, and
 * done where the window has all of it. */
static bell_status
apply_rela(const struct reader *r, const Elf64_Rela *rela, const Elf64_Shdr *to,
           uint64_t place, uint64_t va, const struct window *w)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    uint32_t n = patch_bytes(type);
    uint64_t value, at;

    if (n == 0)
        return refuse(r->o, "relocation type %u in '%s' is not supported", type,
                      section_name(r, to));
    if (rela->r_offset > to->sh_size || to->sh_size - rela->r_offset < n)
        return refuse(r->o,
                      "relocation at 0x%llx of section '%s', which has %llu "
                      "bytes",
                      (unsigned long long)rela->r_offset, section_name(r, to),
                      (unsigned long long)to->sh_size);
    BELL_TRY(
        symbol_address(r, (uint32_t)ELF64_R_SYM(rela->r_info), va, &value));
    at = place + rela->r_offset;
    if (at < w->offset || at - w->offset + n > w->size_bytes)
        return BELL_OK;
    if (!patch_value(type, value + (uint64_t)rela->r_addend, va + at, &value))
        return refuse(r->o,
                      "relocation at 0x%llx of section '%s': 0x%llx does not "
                      "fit in 32 bits",
                      (unsigned long long)rela->r_offset, section_name(r, to),
                      (unsigned long long)value);
    memcpy(w->bytes + (at - w->offset), &value, n);
    return BELL_OK;
}

static bell_status
apply_section(const struct reader *r, const Elf64_Shdr *s, uint64_t va,
              const struct window *w)
{
    Elf64_Shdr to = section_at(r, s->sh_info);
    Elf64_Rela rela;
    uint64_t i;

    if (s->sh_type != SHT_RELA || s->sh_entsize != sizeof(rela) ||
        s->sh_size % sizeof(rela) || s->sh_link != r->symbols_idx)
        return refuse(r->o,
                      "section '%s': type %u, %llu bytes of relocations of "
                      "%llu, symbols in section %u",
                      section_name(r, s), s->sh_type,
                      (unsigned long long)s->sh_size,
                      (unsigned long long)s->sh_entsize, s->sh_link);
    if (to.sh_type == SHT_NOBITS)
        return refuse(r->o, "relocation in section '%s', which has no bytes",
                      section_name(r, &to));
    for (i = 0; i < s->sh_size / sizeof(rela); i++) {
        memcpy(&rela, r->o->data + s->sh_offset + i * sizeof(rela),
               sizeof(rela));
        BELL_TRY(apply_rela(r, &rela, &to, r->o->places[s->sh_info], va, w));
    }
    return BELL_OK;
}

/* All relocations of what is loaded. */
static bell_status
apply_all(const struct reader *r, uint64_t va, const struct window *w)
{
    uint32_t i;

    for (i = 1; i < r->o->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        if ((s.sh_type != SHT_REL && s.sh_type != SHT_RELA) ||
            s.sh_info >= r->o->n_sections ||
            r->o->places[s.sh_info] == NOT_LOADED)
            continue;
        BELL_TRY(apply_section(r, &s, va, w));
    }
    return BELL_OK;
}

/* ---- the kernel ------------------------------------------------------------------- */

/* The length of the name of the kernel whose descriptor a symbol is; 0: it is
 * none's. */
static size_t
kernel_name_bytes(const struct reader *r, const Elf64_Sym *sym)
{
    static const char suffix[] = ".kd";
    const char *name = symbol_name(r, sym);
    size_t n = strlen(name);

    if (ELF64_ST_TYPE(sym->st_info) != STT_OBJECT ||
        sym->st_shndx == SHN_UNDEF || n < sizeof(suffix) ||
        strcmp(name + n - (sizeof(suffix) - 1), suffix) != 0)
        return 0;
    return n - (sizeof(suffix) - 1);
}

/* The names of all kernels, as far as they fit. */
static void
list_kernels(const struct reader *r, char *text, size_t size_bytes)
{
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < r->n_symbols && used < size_bytes; i++) {
        Elf64_Sym sym = symbol_at(r, i);
        size_t n = kernel_name_bytes(r, &sym);

        if (n)
            used += (size_t)snprintf(
                text + used, size_bytes - used, "%s%.*s", used ? ", " : "",
                (int)(n < size_bytes ? n : size_bytes), symbol_name(r, &sym));
    }
}

/* The symbol of the kernel's descriptor. */
static bell_status
find_kernel(const struct reader *r, Elf64_Sym *out_sym)
{
    uint32_t i, n_found = 0;
    char names[160];

    for (i = 0; i < r->n_symbols; i++) {
        Elf64_Sym sym = symbol_at(r, i);
        size_t n = kernel_name_bytes(r, &sym);

        if (!n ||
            (r->entry && (strlen(r->entry) != n ||
                          memcmp(r->entry, symbol_name(r, &sym), n) != 0)))
            continue;
        n_found++;
        *out_sym = sym;
    }
    if (n_found == 1)
        return BELL_OK;
    list_kernels(r, names, sizeof(names));
    if (!names[0])
        return refuse(r->o, "no kernels in it");
    if (n_found)
        return refuse(r->o, "%u kernels, and none is chosen: %s", n_found,
                      names);
    return refuse(r->o, "no kernel '%s'; there are: %s", r->entry, names);
}

/* Whether there is code at an offset of the image. */
static bool
has_code(const struct reader *r, uint64_t offset)
{
    uint32_t i;

    for (i = 1; i < r->o->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        if (is_code(&s) && s.sh_type == SHT_PROGBITS &&
            offset >= r->o->places[i] && offset - r->o->places[i] < s.sh_size)
            return true;
    }
    return false;
}

static bool
is_zero(const uint8_t *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

static bell_status
read_descriptor(struct reader *r, const struct amd_object_descriptor *d,
                const char *name)
{
    struct amd_object *o = r->o;

    if (!is_zero(d->pad0, sizeof(d->pad0)) ||
        !is_zero(d->pad1, sizeof(d->pad1)) ||
        !is_zero(d->pad2, sizeof(d->pad2)))
        return refuse(o, "'%s': reserved words are not zero", name);
    o->entry_offset = o->descriptor_offset + d->entry_offset;
    if (o->entry_offset % AMD_OBJECT_KERNEL_CODE_ALIGN ||
        !has_code(r, o->entry_offset))
        return refuse(o,
                      "'%s': its code is at 0x%llx of the image, which has "
                      "%llu bytes: no kernel begins there",
                      name, (unsigned long long)o->entry_offset,
                      (unsigned long long)o->image_bytes);
    memcpy(o->descriptor, d, sizeof(o->descriptor));
    o->rsrc1 = d->rsrc1;
    o->rsrc2 = d->rsrc2;
    o->rsrc3 = d->rsrc3;
    o->properties = d->properties;
    o->lds_bytes = d->group_segment_bytes;
    o->scratch_bytes = d->private_segment_bytes;
    o->kernarg_bytes = d->kernarg_bytes;
    o->kernarg_preload = d->kernarg_preload;
    return BELL_OK;
}

/* What is said twice is the same. */
static bell_status
check_meta(const struct amd_object *o, const struct amd_meta *meta,
           const char *name)
{
    const struct {
        const char *what;
        uint32_t said, has;
    } rows[] = {
        {"bytes of arguments", meta->kernarg_bytes, o->kernarg_bytes},
        {"bytes of LDS", meta->lds_bytes, o->lds_bytes},
        {"bytes of scratch", meta->scratch_bytes, o->scratch_bytes},
        {"lanes of a wave", meta->wave_lanes,
         amd_unpack_object_properties(o->properties).wave32 ? 32 : 64},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].said != AMD_META_NONE && rows[i].said != rows[i].has)
            return refuse(o, "'%s' has %u %s, and %u in the notes", name,
                          rows[i].has, rows[i].what, rows[i].said);
    }
    if (meta->max_group == 0)
        return refuse(o, "'%s': groups of no work-items in the notes", name);
    return BELL_OK;
}

/* What the notes say of the kernel. Without them it is what it was. */
static bell_status
read_notes(struct reader *r, const char *name)
{
    struct amd_object *o = r->o;
    struct amd_meta meta;
    uint64_t at;
    uint32_t i;

    for (i = 1; i < o->n_sections; i++) {
        Elf64_Shdr s = section_at(r, i);

        if (s.sh_type != SHT_NOTE)
            continue;
        if (!amd_meta_read(o->data + s.sh_offset, s.sh_size, name, strlen(name),
                           &meta, &at))
            return refuse(o, "section '%s': malformed at 0x%llx of %llu bytes",
                          section_name(r, &s), (unsigned long long)at,
                          (unsigned long long)s.sh_size);
        BELL_TRY(check_meta(o, &meta, name));
        if (meta.max_group != AMD_META_NONE)
            o->max_group = meta.max_group;
    }
    return BELL_OK;
}

/* Finds the kernel, and reads its descriptor as relocations make it. */
static bell_status
read_kernel(struct reader *r)
{
    struct amd_object *o = r->o;
    struct amd_object_descriptor d;
    struct window w = {(uint8_t *)&d, 0, sizeof(d)};
    Elf64_Shdr s;
    Elf64_Sym sym;

    BELL_TRY(find_kernel(r, &sym));
    if (sym.st_shndx >= o->n_sections || o->places[sym.st_shndx] == NOT_LOADED)
        return refuse(o, "'%s' is in section %u, which is not loaded",
                      symbol_name(r, &sym), sym.st_shndx);
    s = section_at(r, sym.st_shndx);
    if (s.sh_type == SHT_NOBITS || sym.st_value > s.sh_size ||
        s.sh_size - sym.st_value < sizeof(d) || sym.st_size != sizeof(d) ||
        (o->places[sym.st_shndx] + sym.st_value) % sizeof(d))
        return refuse(o,
                      "'%s' is %llu bytes at 0x%llx of section '%s', which "
                      "has %llu: no descriptor",
                      symbol_name(r, &sym), (unsigned long long)sym.st_size,
                      (unsigned long long)sym.st_value, section_name(r, &s),
                      (unsigned long long)s.sh_size);
    o->descriptor_offset = o->places[sym.st_shndx] + sym.st_value;
    w.offset = o->descriptor_offset;
    memcpy(&d, o->data + s.sh_offset + sym.st_value, sizeof(d));
    BELL_TRY(apply_all(r, 0, &w));
    BELL_TRY(read_descriptor(r, &d, symbol_name(r, &sym)));
    BELL_TRY(read_notes(r, symbol_name(r, &sym)));
    return BELL_OK;
}

/* ---- all of it --------------------------------------------------------------------------- */

static bell_status
read_all(struct reader *r)
{
    BELL_TRY(read_header(r));
    BELL_TRY(read_sections(r));
    BELL_TRY(lay_out(r));
    BELL_TRY(read_kernel(r));
    return BELL_OK;
}

bell_status
amd_object_open(const void *data, uint64_t size_bytes, const char *name,
                const char *entry, struct amd_object *out_object)
{
    struct amd_object object = {
        .name = name,
        .data = data,
        .size_bytes = size_bytes,
    };
    struct reader r = {.o = &object, .entry = entry};
    bell_status status = read_all(&r);

    if (status != BELL_OK) {
        amd_object_close(&object);
        return status;
    }
    *out_object = object;
    return BELL_OK;
}

void
amd_object_close(struct amd_object *object)
{
    host_free(object->places);
    object->places = NULL;
}

/* What may follow the code of a chip. src: CODEOBJ.md 1 and 3; the numbers of
 * gfx900 to 90c and of the generic gfx9 are LLVM's */
static uint32_t
filler(uint32_t machine)
{
    bool gfx9 = (machine >= 0x2c && machine <= 0x32) || machine == 0x3f ||
                machine == 0x40 || machine == 0x4b || machine == 0x4c ||
                machine == 0x4f || machine == 0x51 || machine == 0x5f;

    return gfx9 ? S_NOP : S_CODE_END;
}

bell_status
amd_object_link(const struct amd_object *object, uint64_t va, uint8_t *image)
{
    struct amd_object copy = *object;
    struct reader r = {.o = &copy};
    struct window w = {image, 0, object->image_bytes};
    uint32_t i, fill = filler(object->machine);
    uint64_t at;

    assert(va % AMD_OBJECT_ALIGN == 0);
    /* As when it was opened; nothing is placed anew. */
    BELL_TRY(read_header(&r));
    BELL_TRY(read_sections(&r));
    for (at = 0; at < object->code_bytes; at += sizeof(fill))
        memcpy(image + at, &fill, sizeof(fill));
    memset(image + at, 0, (size_t)(object->image_bytes - at));
    for (i = 1; i < object->n_sections; i++) {
        Elf64_Shdr s = section_at(&r, i);

        if (object->places[i] == NOT_LOADED)
            continue;
        if (s.sh_type == SHT_NOBITS)
            memset(image + object->places[i], 0, (size_t)s.sh_size);
        else
            memcpy(image + object->places[i], object->data + s.sh_offset,
                   (size_t)s.sh_size);
    }
    BELL_TRY(apply_all(&r, va, &w));
    if (memcmp(image + object->descriptor_offset, object->descriptor,
               sizeof(object->descriptor)) != 0)
        return refuse(object,
                      "the descriptor at 0x%llx of the image is another one at "
                      "address 0x%llx",
                      (unsigned long long)object->descriptor_offset,
                      (unsigned long long)va);
    return BELL_OK;
}
