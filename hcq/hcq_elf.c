/* ELF files of programs: see hcq_elf.h. */
#include "hcq/hcq_elf.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

bell_status
hcq_elf_prefix(const struct hcq_elf *elf)
{
    bell_error_prefix("program '%s'", elf->program);
    return BELL_E_INVALID;
}

/* Whether [offset, offset + size) is inside of the file. */
static bool
is_inside(const struct hcq_elf *elf, uint64_t offset, uint64_t size_bytes)
{
    return offset <= elf->size_bytes && size_bytes <= elf->size_bytes - offset;
}

Elf64_Shdr
hcq_elf_section(const struct hcq_elf *elf, uint32_t idx)
{
    Elf64_Shdr s;

    assert(idx < elf->n_sections);
    memcpy(&s, elf->data + elf->head.e_shoff + idx * sizeof(s), sizeof(s));
    return s;
}

/* The string at an offset of a table, which ends with a zero. */
static const char *
string_at(const struct hcq_elf *elf, const Elf64_Shdr *table, uint64_t offset)
{
    return offset < table->sh_size
               ? (const char *)elf->data + table->sh_offset + offset
               : "";
}

const char *
hcq_elf_section_name(const struct hcq_elf *elf, const Elf64_Shdr *section)
{
    return string_at(elf, &elf->names, section->sh_name);
}

Elf64_Sym
hcq_elf_symbol(const struct hcq_elf *elf, uint32_t idx)
{
    Elf64_Sym sym;

    assert(idx < elf->n_symbols);
    memcpy(&sym, elf->data + elf->symbols.sh_offset + idx * sizeof(sym),
           sizeof(sym));
    return sym;
}

const char *
hcq_elf_symbol_name(const struct hcq_elf *elf, const Elf64_Sym *symbol)
{
    return string_at(elf, &elf->symbol_names, symbol->st_name);
}

/* ---- opening ------------------------------------------------------------- */

static bell_status
check_ident(const struct hcq_elf *elf, struct hcq_elf_machine machine)
{
    const Elf64_Ehdr *head = &elf->head;

    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return hcq_elf_refuse(
            elf, "not an ELF file: it begins with %02x %02x %02x %02x",
            head->e_ident[0], head->e_ident[1], head->e_ident[2],
            head->e_ident[3]);
    if (head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_ident[EI_DATA] != ELFDATA2LSB)
        return hcq_elf_refuse(elf, "not a 64-bit little-endian ELF file");
    if (head->e_machine != machine.number)
        return hcq_elf_refuse(elf, "for machine %u, not %s's %u",
                              head->e_machine, machine.name, machine.number);
    return BELL_OK;
}

/* A table of names. */
static bell_status
check_strings(const struct hcq_elf *elf, uint32_t idx, const Elf64_Shdr *s)
{
    if (s->sh_type == SHT_STRTAB && is_inside(elf, s->sh_offset, s->sh_size) &&
        s->sh_size && elf->data[s->sh_offset + s->sh_size - 1] == '\0')
        return BELL_OK;
    return hcq_elf_refuse(elf,
                          "truncated: section %u should hold names, %llu bytes "
                          "at 0x%llx, the file has %llu",
                          idx, (unsigned long long)s->sh_size,
                          (unsigned long long)s->sh_offset,
                          (unsigned long long)elf->size_bytes);
}

static bell_status
read_elf_header(struct hcq_elf *elf, struct hcq_elf_machine machine)
{
    Elf64_Ehdr *head = &elf->head;

    if (elf->size_bytes < sizeof(*head))
        return hcq_elf_refuse(elf, "truncated: %llu bytes, a header has %zu",
                              (unsigned long long)elf->size_bytes,
                              sizeof(*head));
    memcpy(head, elf->data, sizeof(*head));
    BELL_TRY(check_ident(elf, machine));
    if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shnum == 0 ||
        head->e_shstrndx >= head->e_shnum)
        return hcq_elf_refuse(elf,
                              "%u section headers of %u bytes, names in number "
                              "%u",
                              head->e_shnum, head->e_shentsize,
                              head->e_shstrndx);
    if (!is_inside(elf, head->e_shoff, head->e_shnum * sizeof(Elf64_Shdr)))
        return hcq_elf_refuse(elf,
                              "truncated: %u section headers at 0x%llx, the "
                              "file has %llu bytes",
                              head->e_shnum, (unsigned long long)head->e_shoff,
                              (unsigned long long)elf->size_bytes);
    elf->n_sections = head->e_shnum;
    elf->names = hcq_elf_section(elf, head->e_shstrndx);
    BELL_TRY(check_strings(elf, head->e_shstrndx, &elf->names));
    return BELL_OK;
}

static bell_status
read_symbols(struct hcq_elf *elf, uint32_t idx, const Elf64_Shdr *s)
{
    if (elf->symbols_idx || s->sh_link >= elf->n_sections ||
        s->sh_entsize != sizeof(Elf64_Sym) || s->sh_size % sizeof(Elf64_Sym) ||
        s->sh_size / sizeof(Elf64_Sym) > UINT32_MAX)
        return hcq_elf_refuse(
            elf,
            "section '%s': %s, %llu bytes of symbols of %llu, names in section "
            "%u",
            hcq_elf_section_name(elf, s),
            elf->symbols_idx ? "a second table of symbols"
                             : "a table of symbols",
            (unsigned long long)s->sh_size, (unsigned long long)s->sh_entsize,
            s->sh_link);
    elf->symbols_idx = idx;
    elf->symbols = *s;
    elf->symbol_names = hcq_elf_section(elf, s->sh_link);
    BELL_TRY(check_strings(elf, s->sh_link, &elf->symbol_names));
    elf->n_symbols = (uint32_t)(s->sh_size / sizeof(Elf64_Sym));
    return BELL_OK;
}

static bell_status
read_sections(struct hcq_elf *elf)
{
    uint32_t i;

    for (i = 0; i < elf->n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(elf, i);

        if (s.sh_type != SHT_NOBITS && !is_inside(elf, s.sh_offset, s.sh_size))
            return hcq_elf_refuse(
                elf,
                "truncated: section '%s' is %llu bytes at 0x%llx, the file has "
                "%llu",
                hcq_elf_section_name(elf, &s), (unsigned long long)s.sh_size,
                (unsigned long long)s.sh_offset,
                (unsigned long long)elf->size_bytes);
        if (s.sh_type == SHT_SYMTAB)
            BELL_TRY(read_symbols(elf, i, &s));
    }
    if (!elf->symbols_idx)
        return hcq_elf_refuse(elf, "no symbols");
    return BELL_OK;
}

bell_status
hcq_elf_open(const char *program, const void *data, uint64_t size_bytes,
             struct hcq_elf_machine machine, struct hcq_elf *out_elf)
{
    struct hcq_elf elf = {
        .program = program,
        .data = data,
        .size_bytes = size_bytes,
    };

    BELL_TRY(read_elf_header(&elf, machine));
    BELL_TRY(read_sections(&elf));
    *out_elf = elf;
    return BELL_OK;
}

/* ---- images -------------------------------------------------------------- */

bell_status
hcq_elf_places(const struct hcq_elf *elf, uint64_t **out_places)
{
    uint64_t *places = host_alloc(elf->n_sections * sizeof(*places));
    uint32_t i;

    if (!places)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': out of memory for %u sections",
                         elf->program, elf->n_sections);
    for (i = 0; i < elf->n_sections; i++)
        places[i] = HCQ_ELF_NOT_LOADED;
    *out_places = places;
    return BELL_OK;
}

bell_status
hcq_elf_place(const struct hcq_elf *elf, uint32_t idx, uint64_t align,
              uint64_t max_align, uint64_t max_bytes, uint64_t *places,
              uint64_t *end_bytes)
{
    Elf64_Shdr s = hcq_elf_section(elf, idx);
    uint64_t place;

    assert(is_pow2(max_align) && places[idx] == HCQ_ELF_NOT_LOADED);
    if (s.sh_addralign > align)
        align = s.sh_addralign;
    if (!is_pow2(align) || align > max_align)
        return hcq_elf_refuse(elf, "section '%s' is aligned to %llu bytes",
                              hcq_elf_section_name(elf, &s),
                              (unsigned long long)align);
    place = align_up(*end_bytes, align);
    if (s.sh_size > max_bytes || place + s.sh_size > max_bytes)
        return hcq_elf_refuse(elf,
                              "section '%s' of %llu bytes: images have at most "
                              "%llu",
                              hcq_elf_section_name(elf, &s),
                              (unsigned long long)s.sh_size,
                              (unsigned long long)max_bytes);
    places[idx] = place;
    *end_bytes = place + s.sh_size;
    return BELL_OK;
}

bell_status
hcq_elf_address(const struct hcq_elf *elf, const uint64_t *places,
                uint32_t symbol, uint64_t va, uint64_t *out_address)
{
    const char *name;
    Elf64_Shdr s;
    Elf64_Sym sym;

    if (symbol >= elf->n_symbols)
        return hcq_elf_refuse(elf, "a relocation with symbol %u of %u", symbol,
                              elf->n_symbols);
    sym = hcq_elf_symbol(elf, symbol);
    name = hcq_elf_symbol_name(elf, &sym);
    if (sym.st_shndx == SHN_UNDEF)
        return hcq_elf_refuse(elf, "undefined symbol '%s'", name);
    if (sym.st_shndx >= elf->n_sections ||
        places[sym.st_shndx] == HCQ_ELF_NOT_LOADED)
        return hcq_elf_refuse(elf,
                              "a relocation with symbol '%s', whose section %u "
                              "is not loaded",
                              name, sym.st_shndx);
    s = hcq_elf_section(elf, sym.st_shndx);
    if (sym.st_value > s.sh_size)
        return hcq_elf_refuse(elf,
                              "symbol '%s' is at 0x%llx of section '%s', which "
                              "has %llu bytes",
                              name, (unsigned long long)sym.st_value,
                              hcq_elf_section_name(elf, &s),
                              (unsigned long long)s.sh_size);
    *out_address = va + places[sym.st_shndx] + sym.st_value;
    return BELL_OK;
}

void
hcq_elf_copy(const struct hcq_elf *elf, const uint64_t *places, uint8_t *image)
{
    uint32_t i;

    for (i = 0; i < elf->n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(elf, i);

        if (places[i] != HCQ_ELF_NOT_LOADED && s.sh_type != SHT_NOBITS)
            memcpy(image + places[i], elf->data + s.sh_offset,
                   (size_t)s.sh_size);
    }
}
