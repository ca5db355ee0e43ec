/* The ELF loader: see cpu_object.h. */
#include "hcq/cpu/cpu_object.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/status.h"
#include "hcq/cpu/cpu_reloc.h"

#define OBJECT_MAX_BYTES (256u << 20) /* of the file, and of what it loads */
#define ALIGN_MAX        4096u
#define NOT_LOADED       UINT64_MAX

#ifndef SHT_X86_64_UNWIND /* musl's elf.h. src: AMD64 supplement, 4.2 */
#define SHT_X86_64_UNWIND 0x70000001u
#endif
#ifndef MFD_EXEC /* src: Linux 6.3, memfd.h */
#define MFD_EXEC 0x10u
#endif

/* What becomes of an object. */
enum use {
    USE_COPY,    /* it is laid out in memory of its own */
    USE_CHECK,   /* it can be executed as it lies, or not */
    USE_PRELINK, /* it is made so that it can */
};

enum part {
    PART_TEXT,
    PART_RODATA,
    PART_DATA,
    PART_COUNT
};

struct section {
    Elf64_Shdr hdr;
    uint64_t offset; /* in the mapping, or NOT_LOADED */
};

/* A load in progress. Lives on the loader's stack. */
struct loader {
    const uint8_t *data;
    uint64_t size_bytes;
    const char *name;
    struct section *sections; /* owned */
    uint32_t n_sections;
    uint32_t symtab_idx;   /* 0: none */
    const uint8_t *strtab; /* of the symbols */
    uint64_t strtab_bytes, n_symbols;
    const uint8_t *names; /* of the sections */
    uint64_t names_bytes;
    uint64_t part_at[PART_COUNT + 1]; /* page-aligned offsets */
    uint64_t got_at, n_got, got_used; /* 8-byte slots in PART_RODATA */
    uint32_t *got_of;                 /* owned: a symbol's slot, from 1 */
    bool needs_low;                   /* 32-bit absolute addresses */
    enum use use;
    unsigned machine; /* e_machine */
    uint8_t *map;     /* `data` itself, but where it is copied */
    uint64_t va;      /* that `map` is taken to be at */
};

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#else
#define HOST_MACHINE EM_NONE
#endif

#define REFUSE(ld, ...) refuse_object(ld, __VA_ARGS__)

static bell_status refuse_object(const struct loader *ld, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bell_status
refuse_object(const struct loader *ld, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return bell_fail(BELL_E_INVALID, "program '%s': object: %s", ld->name,
                     text);
}

static const char *
machine_name(unsigned machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "AArch64";
    case EM_RISCV:
        return "RISC-V";
    case EM_386:
        return "i386";
    case EM_CUDA:
        return "CUDA";
    case EM_AMDGPU:
        return "AMDGPU";
    default:
        return "another machine";
    }
}

/* `count` things of `each` bytes at `offset` lie inside the file. */
static bool
in_file(const struct loader *ld, uint64_t offset, uint64_t count, uint64_t each)
{
    assert(each > 0);
    return offset <= ld->size_bytes &&
           count <= (ld->size_bytes - offset) / each;
}

/* A string of a table as printable text; "?" when it is not one. */
static const char *
get_string(const uint8_t *table, uint64_t table_bytes, uint64_t offset,
           char *out, size_t out_bytes)
{
    size_t i;

    if (!table || offset >= table_bytes ||
        !memchr(table + offset, 0, (size_t)(table_bytes - offset)))
        return "?";
    for (i = 0; i + 1 < out_bytes && table[offset + i]; i++) {
        uint8_t c = table[offset + i];
        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[i] = '\0';
    return out;
}

static bool
section_is_named(const struct loader *ld, const struct section *sec,
                 const char *name)
{
    uint64_t at = sec->hdr.sh_name, len = strlen(name) + 1;

    return ld->names && at < ld->names_bytes && len <= ld->names_bytes - at &&
           memcmp(ld->names + at, name, (size_t)len) == 0;
}

static bell_status
check_elf_header(struct loader *ld, Elf64_Ehdr *hdr)
{
    if (ld->size_bytes < sizeof(*hdr))
        return REFUSE(ld, "truncated: %llu bytes, an ELF header has %zu",
                      (unsigned long long)ld->size_bytes, sizeof(*hdr));
    memcpy(hdr, ld->data, sizeof(*hdr));
    if (memcmp(hdr->e_ident, ELFMAG, SELFMAG) != 0)
        return REFUSE(ld, "not an ELF file");
    if (hdr->e_ident[EI_CLASS] != ELFCLASS64 ||
        hdr->e_ident[EI_DATA] != ELFDATA2LSB ||
        hdr->e_ident[EI_VERSION] != EV_CURRENT)
        return REFUSE(ld, "not 64-bit little-endian ELF");
    ld->machine = hdr->e_machine;
    if (hdr->e_machine != HOST_MACHINE && ld->use != USE_PRELINK)
        return REFUSE(ld, "for %s (machine %u), this host is %s",
                      machine_name(hdr->e_machine), hdr->e_machine,
                      machine_name(HOST_MACHINE));
    if (hdr->e_type != ET_REL)
        return REFUSE(ld, "type %u, not relocatable (ET_REL)", hdr->e_type);
    if (hdr->e_shentsize != sizeof(Elf64_Shdr))
        return REFUSE(ld, "section headers of %u bytes", hdr->e_shentsize);
    if (hdr->e_shnum == 0)
        return REFUSE(ld, "no sections (or more than 65279)");
    if (!in_file(ld, hdr->e_shoff, hdr->e_shnum, sizeof(Elf64_Shdr)))
        return REFUSE(ld, "truncated: %u section headers at %llu", hdr->e_shnum,
                      (unsigned long long)hdr->e_shoff);
    return BELL_OK;
}

static bell_status
read_object_sections(struct loader *ld, const Elf64_Ehdr *hdr)
{
    uint32_t i;

    ld->n_sections = hdr->e_shnum;
    ld->sections = host_calloc(ld->n_sections, sizeof(*ld->sections));
    if (!ld->sections)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': out of memory for %u sections",
                         ld->name, ld->n_sections);
    for (i = 0; i < ld->n_sections; i++) {
        struct section *sec = &ld->sections[i];

        memcpy(&sec->hdr, ld->data + hdr->e_shoff + i * sizeof(sec->hdr),
               sizeof(sec->hdr));
        sec->offset = NOT_LOADED;
        if (sec->hdr.sh_type == SHT_NULL || sec->hdr.sh_type == SHT_NOBITS)
            continue;
        if (!in_file(ld, sec->hdr.sh_offset, sec->hdr.sh_size, 1))
            return REFUSE(ld, "truncated: section %u has bytes %llu+%llu", i,
                          (unsigned long long)sec->hdr.sh_offset,
                          (unsigned long long)sec->hdr.sh_size);
    }
    if (hdr->e_shstrndx < ld->n_sections &&
        ld->sections[hdr->e_shstrndx].hdr.sh_type == SHT_STRTAB) {
        const Elf64_Shdr *names = &ld->sections[hdr->e_shstrndx].hdr;
        ld->names = ld->data + names->sh_offset;
        ld->names_bytes = names->sh_size;
    }
    return BELL_OK;
}

static bell_status
read_object_symbols(struct loader *ld)
{
    uint32_t i;

    for (i = 0; i < ld->n_sections; i++) {
        const Elf64_Shdr *hdr = &ld->sections[i].hdr;
        const Elf64_Shdr *str;

        if (hdr->sh_type != SHT_SYMTAB)
            continue;
        if (ld->symtab_idx)
            return REFUSE(ld, "two symbol tables, sections %u and %u",
                          ld->symtab_idx, i);
        if (hdr->sh_entsize != sizeof(Elf64_Sym) ||
            hdr->sh_size % sizeof(Elf64_Sym))
            return REFUSE(ld, "symbols of %llu bytes",
                          (unsigned long long)hdr->sh_entsize);
        if (hdr->sh_link >= ld->n_sections ||
            ld->sections[hdr->sh_link].hdr.sh_type != SHT_STRTAB)
            return REFUSE(ld, "the symbols' string table is section %u",
                          hdr->sh_link);
        str = &ld->sections[hdr->sh_link].hdr;
        ld->strtab = ld->data + str->sh_offset;
        ld->strtab_bytes = str->sh_size;
        ld->n_symbols = hdr->sh_size / sizeof(Elf64_Sym);
        ld->symtab_idx = i;
    }
    if (!ld->symtab_idx)
        return REFUSE(ld, "no symbol table");
    return BELL_OK;
}

static Elf64_Sym
get_symbol(const struct loader *ld, uint64_t idx)
{
    Elf64_Sym sym;

    assert(idx < ld->n_symbols);
    memcpy(&sym,
           ld->data + ld->sections[ld->symtab_idx].hdr.sh_offset +
               idx * sizeof(sym),
           sizeof(sym));
    return sym;
}

/* ---- layout -------------------------------------------------------------- */

/* Which part a section goes to; PART_COUNT: it is not loaded. */
static bell_status
find_part(const struct loader *ld, uint32_t idx, enum part *out_part)
{
    const struct section *sec = &ld->sections[idx];
    uint64_t flags = sec->hdr.sh_flags;

    *out_part = PART_COUNT;
    if (!(flags & SHF_ALLOC) || sec->hdr.sh_type == SHT_NOTE ||
        sec->hdr.sh_type == SHT_X86_64_UNWIND ||
        section_is_named(ld, sec, ".eh_frame"))
        return BELL_OK;
    if (sec->hdr.sh_type != SHT_PROGBITS && sec->hdr.sh_type != SHT_NOBITS)
        return REFUSE(ld, "section %u of type %u cannot be loaded", idx,
                      sec->hdr.sh_type);
    if (flags & SHF_TLS)
        return REFUSE(ld, "section %u is thread-local", idx);
    if (flags & SHF_COMPRESSED)
        return REFUSE(ld, "section %u is compressed", idx);
    if ((flags & SHF_EXECINSTR) && (flags & SHF_WRITE))
        return REFUSE(ld, "section %u is writable and executable", idx);
    if (sec->hdr.sh_addralign &&
        (!is_pow2(sec->hdr.sh_addralign) || sec->hdr.sh_addralign > ALIGN_MAX))
        return REFUSE(ld, "section %u is aligned to %llu", idx,
                      (unsigned long long)sec->hdr.sh_addralign);
    if (sec->hdr.sh_size > OBJECT_MAX_BYTES)
        return REFUSE(ld, "section %u has %llu bytes, %u are possible", idx,
                      (unsigned long long)sec->hdr.sh_size, OBJECT_MAX_BYTES);
    *out_part = flags & SHF_EXECINSTR ? PART_TEXT
                : flags & SHF_WRITE   ? PART_DATA
                                      : PART_RODATA;
    return BELL_OK;
}

static bell_status
lay_out_pages(struct loader *ld)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = 0;
    uint32_t i;
    int part;

    for (part = 0; part < PART_COUNT; part++) {
        at = align_up(at, page_bytes);
        ld->part_at[part] = at;
        for (i = 0; i < ld->n_sections; i++) {
            struct section *sec = &ld->sections[i];
            enum part wanted;

            BELL_TRY(find_part(ld, i, &wanted));
            if ((int)wanted != part)
                continue;
            if (sec->hdr.sh_addralign > 1)
                at = align_up(at, sec->hdr.sh_addralign);
            sec->offset = at;
            at += sec->hdr.sh_size;
            if (at > OBJECT_MAX_BYTES)
                return REFUSE(ld, "more than %u bytes to load",
                              OBJECT_MAX_BYTES);
        }
        if (part == PART_RODATA) {
            at = align_up(at, 8);
            ld->got_at = at;
            at += ld->n_got * 8;
        }
    }
    ld->part_at[PART_COUNT] = align_up(at, page_bytes);
    if (ld->part_at[PART_RODATA] == 0)
        return REFUSE(ld, "no code");
    return BELL_OK;
}

/* ---- relocations --------------------------------------------------------- */

static Elf64_Rela
get_rela(const struct loader *ld, const Elf64_Shdr *hdr, uint64_t idx)
{
    Elf64_Rela rela;

    memcpy(&rela, ld->data + hdr->sh_offset + idx * sizeof(rela), sizeof(rela));
    return rela;
}

/* Which slot each symbol's address has, from 1. */
static bell_status
make_slots(struct loader *ld)
{
    ld->got_of = host_calloc(ld->n_symbols, sizeof(*ld->got_of));
    if (!ld->got_of)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': out of memory for %llu symbols",
                         ld->name, (unsigned long long)ld->n_symbols);
    return BELL_OK;
}

/* Checks the relocation sections and finds out what they need. */
static bell_status
scan_relocations(struct loader *ld)
{
    uint64_t k;
    uint32_t i;

    for (i = 0; i < ld->n_sections; i++) {
        const Elf64_Shdr *hdr = &ld->sections[i].hdr;

        if (hdr->sh_type == SHT_REL)
            return REFUSE(ld, "section %u: relocations without addends", i);
        if (hdr->sh_type != SHT_RELA)
            continue;
        if (hdr->sh_entsize != sizeof(Elf64_Rela) ||
            hdr->sh_size % sizeof(Elf64_Rela))
            return REFUSE(ld, "section %u: relocations of %llu bytes", i,
                          (unsigned long long)hdr->sh_entsize);
        if (hdr->sh_info >= ld->n_sections || hdr->sh_link != ld->symtab_idx)
            return REFUSE(ld,
                          "section %u: relocations of section %u with "
                          "symbols of section %u",
                          i, hdr->sh_info, hdr->sh_link);
        for (k = 0; k < hdr->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela rela = get_rela(ld, hdr, k);
            const struct cpu_reloc *reloc = cpu_reloc_find(
                ld->machine, (uint32_t)ELF64_R_TYPE(rela.r_info));

            ld->n_got += reloc && reloc->is_got;
            ld->needs_low |= reloc && reloc->is_low;
        }
    }
    return ld->n_got ? make_slots(ld) : BELL_OK;
}

static bell_status
find_address(const struct loader *ld, uint64_t idx, uint64_t *out_va)
{
    char text[80];
    const char *name;
    Elf64_Sym sym;

    if (idx >= ld->n_symbols)
        return REFUSE(ld, "symbol %llu of %llu", (unsigned long long)idx,
                      (unsigned long long)ld->n_symbols);
    sym = get_symbol(ld, idx);
    name = get_string(ld->strtab, ld->strtab_bytes, sym.st_name, text,
                      sizeof(text));
    if (sym.st_shndx == SHN_UNDEF)
        return REFUSE(ld, "undefined symbol '%s'", name);
    if (sym.st_shndx == SHN_ABS) {
        *out_va = sym.st_value;
        return BELL_OK;
    }
    if (ELF64_ST_TYPE(sym.st_info) == STT_GNU_IFUNC ||
        ELF64_ST_TYPE(sym.st_info) == STT_TLS)
        return REFUSE(ld, "symbol '%s' is of type %u", name,
                      ELF64_ST_TYPE(sym.st_info));
    if (sym.st_shndx >= ld->n_sections ||
        ld->sections[sym.st_shndx].offset == NOT_LOADED ||
        sym.st_value > ld->sections[sym.st_shndx].hdr.sh_size)
        return REFUSE(ld,
                      "symbol '%s' is at %llu of section %u, which is "
                      "not loaded or smaller",
                      name, (unsigned long long)sym.st_value, sym.st_shndx);
    *out_va = ld->va + ld->sections[sym.st_shndx].offset + sym.st_value;
    return BELL_OK;
}

/* The slot that holds a symbol's address: one for all who ask, since an
 * instruction may have half of the slot's own address, and the next the
 * rest. */
static uint64_t
find_slot(struct loader *ld, uint64_t symbol, uint64_t va)
{
    uint8_t *slots = ld->map + ld->got_at;

    assert(ld->use == USE_COPY);
    assert(ld->got_of[symbol] || ld->got_used < ld->n_got);
    if (!ld->got_of[symbol]) {
        memcpy(slots + ld->got_used * 8, &va, sizeof(va));
        ld->got_of[symbol] = (uint32_t)++ld->got_used;
    }
    return (uint64_t)(uintptr_t)(slots + (ld->got_of[symbol] - 1) * 8);
}

static bell_status
relocate(struct loader *ld, const struct section *target,
         const Elf64_Rela *rela)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    const struct cpu_reloc *reloc = cpu_reloc_find(ld->machine, type);
    uint64_t symbol = ELF64_R_SYM(rela->r_info), va = 0, at;
    uint8_t copy[8], *place;

    if (!reloc)
        return REFUSE(ld, "relocation type %u is not supported", type);
    if (reloc->field == CPU_RELOC_NOTHING)
        return BELL_OK;
    if (rela->r_offset > target->hdr.sh_size ||
        reloc->n_bytes > target->hdr.sh_size - rela->r_offset)
        return REFUSE(ld, "relocation at %llu of a section of %llu bytes",
                      (unsigned long long)rela->r_offset,
                      (unsigned long long)target->hdr.sh_size);
    at = target->offset + rela->r_offset;
    BELL_TRY(find_address(ld, symbol, &va));
    if (reloc->is_got)
        va = find_slot(ld, symbol, va);
    assert(reloc->n_bytes <= sizeof(copy));
    place = ld->map + at;
    memcpy(copy, place, reloc->n_bytes);
    if (!cpu_reloc_apply(reloc, copy, ld->va + at,
                         va + (uint64_t)rela->r_addend))
        return REFUSE(ld, "relocation of type %u at %llu does not fit", type,
                      (unsigned long long)rela->r_offset);
    if (ld->use != USE_CHECK)
        memcpy(place, copy, reloc->n_bytes);
    else if (memcmp(place, copy, reloc->n_bytes) != 0)
        return REFUSE(ld, "relocation at %llu is not made",
                      (unsigned long long)rela->r_offset);
    return BELL_OK;
}

static bell_status
relocate_all(struct loader *ld)
{
    uint64_t k;
    uint32_t i;

    for (i = 0; i < ld->n_sections; i++) {
        const Elf64_Shdr *hdr = &ld->sections[i].hdr;
        const struct section *target;

        if (hdr->sh_type != SHT_RELA)
            continue;
        target = &ld->sections[hdr->sh_info];
        if (target->offset == NOT_LOADED)
            continue;
        if (target->hdr.sh_type == SHT_NOBITS && hdr->sh_size)
            return REFUSE(ld, "section %u: relocations of zeros", i);
        for (k = 0; k < hdr->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela rela = get_rela(ld, hdr, k);
            BELL_TRY(relocate(ld, target, &rela));
        }
    }
    return BELL_OK;
}

/* ---- the whole ----------------------------------------------------------- */

static bell_status
find_function(const struct loader *ld, const char *entry, void **out_entry)
{
    size_t len = strlen(entry) + 1;
    uint64_t i;

    for (i = 1; i < ld->n_symbols; i++) {
        Elf64_Sym sym = get_symbol(ld, i);
        const struct section *sec;

        if (sym.st_name >= ld->strtab_bytes ||
            len > ld->strtab_bytes - sym.st_name ||
            memcmp(ld->strtab + sym.st_name, entry, len) != 0 ||
            sym.st_shndx == SHN_UNDEF || sym.st_shndx >= ld->n_sections)
            continue;
        sec = &ld->sections[sym.st_shndx];
        if (sec->offset == NOT_LOADED || !(sec->hdr.sh_flags & SHF_EXECINSTR) ||
            sym.st_value >= sec->hdr.sh_size)
            return REFUSE(ld, "entry '%s' is not code", entry);
        *out_entry = ld->map + sec->offset + sym.st_value;
        return BELL_OK;
    }
    return REFUSE(ld, "no entry '%s'", entry);
}

static bell_status
map_object(struct loader *ld)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *map;
    uint32_t i;

    assert(!ld->map && ld->part_at[PART_COUNT] > 0);
#ifdef MAP_32BIT
    if (ld->needs_low)
        flags |= MAP_32BIT;
#endif
    map = mmap(NULL, (size_t)ld->part_at[PART_COUNT], PROT_READ | PROT_WRITE,
               flags, -1, 0);
    if (map == MAP_FAILED)
        return bell_fail_errno(
            BELL_E_NO_MEMORY, errno,
            "program '%s': out of memory for %llu bytes of code: %s", ld->name,
            (unsigned long long)ld->part_at[PART_COUNT], strerror(errno));
    ld->map = map;
    ld->va = (uint64_t)(uintptr_t)map;
    for (i = 0; i < ld->n_sections; i++) {
        const struct section *sec = &ld->sections[i];

        if (sec->offset != NOT_LOADED && sec->hdr.sh_type != SHT_NOBITS &&
            sec->hdr.sh_size)
            memcpy(ld->map + sec->offset, ld->data + sec->hdr.sh_offset,
                   (size_t)sec->hdr.sh_size);
    }
    return BELL_OK;
}

/* Puts a copy of these pages, which may be read, in their place: pages of a
 * file that are executable from the start, where memory may not become it
 * (systemd's MemoryDenyWriteExecute, PR_SET_MDWE). */
static int
map_from_file(uint8_t *map, size_t size_bytes)
{
    int fd = memfd_create("kernel", MFD_CLOEXEC | MFD_EXEC);
    size_t n = 0;
    void *at = MAP_FAILED;

    if (fd < 0 && errno == EINVAL) /* Linux before 6.3 */
        fd = memfd_create("kernel", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    while (n < size_bytes) {
        ssize_t now = write(fd, map + n, size_bytes - n);

        if (now <= 0 && (now == 0 || errno != EINTR))
            break;
        n += now > 0 ? (size_t)now : 0;
    }
    if (n == size_bytes)
        at = mmap(map, size_bytes, PROT_READ | PROT_EXEC,
                  MAP_PRIVATE | MAP_FIXED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? -1 : 0;
}

static int
protect_parts(const struct loader *ld)
{
    const uint64_t *at = ld->part_at;
    size_t ro_bytes = (size_t)(at[PART_DATA] - at[PART_RODATA]);

    assert(at[PART_RODATA] > 0 && at[PART_RODATA] <= at[PART_DATA]);
    __builtin___clear_cache((char *)ld->map, (char *)ld->map + at[PART_RODATA]);
    if (mprotect(ld->map, (size_t)at[PART_RODATA], PROT_READ | PROT_EXEC) !=
            0 &&
        map_from_file(ld->map, (size_t)at[PART_RODATA]) != 0)
        return -1;
    if (ro_bytes == 0)
        return 0;
    return mprotect(ld->map + at[PART_RODATA], ro_bytes, PROT_READ);
}

/* What every use begins with: the file's own structure is sound. */
static bell_status
read_cpu_object(struct loader *ld)
{
    Elf64_Ehdr hdr;

    if (ld->size_bytes > OBJECT_MAX_BYTES)
        return REFUSE(ld, "%llu bytes, %u are possible",
                      (unsigned long long)ld->size_bytes, OBJECT_MAX_BYTES);
    BELL_TRY(check_elf_header(ld, &hdr));
    BELL_TRY(read_object_sections(ld, &hdr));
    BELL_TRY(read_object_symbols(ld));
    return scan_relocations(ld);
}

static bell_status
load_object(struct loader *ld, const char *entry, struct cpu_object *out)
{
    void *entry_ptr = NULL;

    BELL_TRY(read_cpu_object(ld));
    BELL_TRY(lay_out_pages(ld));
    BELL_TRY(map_object(ld));
    BELL_TRY(relocate_all(ld));
    BELL_TRY(find_function(ld, entry, &entry_ptr));
    if (protect_parts(ld) != 0)
        return bell_fail(BELL_E_KERNEL,
                         "program '%s': the system refuses executable memory "
                         "(MemoryDenyWriteExecute) and memfd_create; a bundle "
                         "that this version saves needs neither, where files "
                         "may be executed (no noexec mount)",
                         ld->name);
    *out = (struct cpu_object){
        .map = ld->map,
        .map_bytes = (size_t)ld->part_at[PART_COUNT],
        .text_bytes = (size_t)ld->part_at[PART_RODATA],
        .entry = entry_ptr,
    };
    return BELL_OK;
}

static void
end_loader(struct loader *ld)
{
    host_free(ld->got_of);
    host_free(ld->sections);
}

bell_status
cpu_object_load(const void *data, size_t size_bytes, const char *name,
                const char *entry, struct cpu_object *out)
{
    struct loader ld = {.data = data, .size_bytes = size_bytes, .name = name};
    bell_status status = load_object(&ld, entry, out);

    end_loader(&ld);
    if (status != BELL_OK && ld.map)
        munmap(ld.map, (size_t)ld.part_at[PART_COUNT]);
    return status;
}

/* ---- as it lies in a file ------------------------------------------------ */

/* Every section that is loaded is where the file has it: it is to be read
 * alone, and aligned. */
static bell_status
lay_out_in_place(struct loader *ld)
{
    uint32_t i;

    if (ld->n_got || ld->needs_low)
        return REFUSE(ld, "it has addresses in it");
    for (i = 0; i < ld->n_sections; i++) {
        struct section *sec = &ld->sections[i];
        enum part part;

        BELL_TRY(find_part(ld, i, &part));
        if (part == PART_COUNT || sec->hdr.sh_size == 0)
            continue;
        if (part == PART_DATA || sec->hdr.sh_type == SHT_NOBITS ||
            (sec->hdr.sh_addralign &&
             (ld->va + sec->hdr.sh_offset) % sec->hdr.sh_addralign))
            return REFUSE(ld, "section %u cannot be used as it lies", i);
        sec->offset = sec->hdr.sh_offset;
    }
    return BELL_OK;
}

/* Whether all relocations give the same wherever the file is mapped. */
static bell_status
check_relative(const struct loader *ld)
{
    uint64_t k;
    uint32_t i;

    for (i = 0; i < ld->n_sections; i++) {
        const Elf64_Shdr *hdr = &ld->sections[i].hdr;

        if (hdr->sh_type != SHT_RELA ||
            ld->sections[hdr->sh_info].offset == NOT_LOADED)
            continue;
        for (k = 0; k < hdr->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela rela = get_rela(ld, hdr, k);
            const struct cpu_reloc *reloc = cpu_reloc_find(
                ld->machine, (uint32_t)ELF64_R_TYPE(rela.r_info));

            if (reloc && reloc->field != CPU_RELOC_NOTHING &&
                reloc->value == CPU_RELOC_ABSOLUTE)
                return REFUSE(ld, "it has addresses in it");
        }
    }
    return BELL_OK;
}

static bell_status
link_in_place(struct loader *ld)
{
    BELL_TRY(read_cpu_object(ld));
    BELL_TRY(lay_out_in_place(ld));
    BELL_TRY(check_relative(ld));
    return relocate_all(ld);
}

bool
cpu_object_prelink(void *data, size_t size_bytes, uint64_t at)
{
    struct loader ld = {.data = data,
                        .size_bytes = size_bytes,
                        .name = "",
                        .use = USE_PRELINK,
                        .map = data,
                        .va = at};
    struct bell_error_hold hold;
    bool done;

    bell_error_hold(&hold);
    done = link_in_place(&ld) == BELL_OK;
    bell_error_release(&hold);
    end_loader(&ld);
    return done;
}

bool
cpu_object_use(const struct hcq_code_file *file, const void *data,
               size_t size_bytes, const char *name, const char *entry,
               struct cpu_object *out)
{
    struct loader ld = {.data = data,
                        .size_bytes = size_bytes,
                        .name = name,
                        .use = USE_CHECK,
                        .map = (uint8_t *)(uintptr_t)data,
                        .va = (uint64_t)(uintptr_t)data};
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = ld.va / page_bytes * page_bytes;
    struct bell_error_hold hold;
    bool done;

    bell_error_hold(&hold);
    done = link_in_place(&ld) == BELL_OK &&
           find_function(&ld, entry, &out->entry) == BELL_OK;
    bell_error_release(&hold);
    end_loader(&ld);
    if (!done)
        return false;
    out->map = (uint8_t *)(uintptr_t)begin;
    out->map_bytes = out->text_bytes =
        (size_t)(align_up(ld.va + size_bytes, page_bytes) - begin);
    out->is_borrowed = true;
    out->file = *file;
    out->file.offset_bytes += begin - (uint64_t)(uintptr_t)file->map;
    return true;
}

/* ---- its end ------------------------------------------------------------- */

void
cpu_object_unload(struct cpu_object *object)
{
    if (object->map && !object->is_borrowed)
        munmap(object->map, object->map_bytes);
    object->map = NULL;
}

/* Back from PROT_NONE, where memory may not become executable either. */
static int
map_again(const struct cpu_object *object)
{
    void *at;

    assert(object->text_bytes <= object->map_bytes);
    if (!object->is_borrowed)
        return mprotect(object->map, object->text_bytes, PROT_READ) != 0
                   ? -1
                   : map_from_file(object->map, object->text_bytes);
    at = mmap(object->map, object->text_bytes, PROT_READ | PROT_EXEC,
              MAP_PRIVATE | MAP_FIXED, object->file.fd,
              (off_t)object->file.offset_bytes);
    if (at != MAP_FAILED)
        return 0;
    LOG(LOG_EXEC, "code at %p stays away: %s", (void *)object->map,
        strerror(errno));
    return -1;
}

int
cpu_object_set_executable(const struct cpu_object *object, bool on)
{
    assert(object->map && object->text_bytes > 0);
    if (!on)
        return mprotect(object->map, object->text_bytes, PROT_NONE);
    if (mprotect(object->map, object->text_bytes, PROT_READ | PROT_EXEC) == 0)
        return 0;
    return map_again(object);
}
