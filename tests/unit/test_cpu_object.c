/* hcq/cpu/cpu_object.c on an object made here by hand: every field at the
 * border of what is taken, what each relocation writes, and what is mapped how.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/cpu/cpu_object.h"
#include "tests/unit/outcomes.h"

#ifndef PR_SET_MDWE /* src: Linux 6.3, prctl.h */
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define REL32   R_X86_64_PC32
#define TLS     R_X86_64_TPOFF32
#define OTHER_MACHINE                                                          \
    {                                                                          \
        FIELD(head.e_machine), MACHINE, EM_AARCH64,                            \
            "for AArch64 (machine 183)"                                        \
    }
#define TLS_REFUSED   "relocation type 23 is not supported"
#define REL32_REFUSED "relocation of type 2 at 8 does"
#define EVERY_BYTE    0x8ceedc86cb903248
#else
#define MACHINE EM_AARCH64
#define REL32   R_AARCH64_PREL32
#define TLS     R_AARCH64_TLSLE_ADD_TPREL_LO12
#define OTHER_MACHINE                                                          \
    {                                                                          \
        FIELD(head.e_machine), MACHINE, EM_X86_64, "for x86-64 (machine 62)"   \
    }
#define TLS_REFUSED   "relocation type 550 is not supported"
#define REL32_REFUSED "relocation of type 261 at 8 does"
#define EVERY_BYTE    0x4ae71823c1172685
#endif

enum {
    TEXT = 1,
    RODATA,
    DATA,
    BSS,
    RELA,
    SYMBOLS,
    STRINGS,
    NAMES,
    N_SECTIONS,
};

enum {
    SYM_KERNEL = 1,
    SYM_THING, /* what is relocated to */
    N_SYMBOLS,
};

#define TEXT_BYTES 64u
#define PAGE       ((size_t)sysconf(_SC_PAGESIZE))
#define MAX_BYTES  (256u << 20) /* of a file, and of what it loads */

/* An object, whose last bytes are the section headers. */
static struct object {
    Elf64_Ehdr head;
    uint8_t text[TEXT_BYTES], rodata[16], data[16];
    Elf64_Rela rela[1];
    Elf64_Sym symbols[N_SYMBOLS];
    char strings[14], names[10];
    Elf64_Shdr sections[N_SECTIONS];
} object;

#define BYTES(member)                                                          \
    .sh_offset = offsetof(struct object, member),                              \
    .sh_size = sizeof(object.member)

static void
begin(void)
{
    object = (struct object){
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB,
                             EV_CURRENT},
                 .e_type = ET_REL,
                 .e_machine = MACHINE,
                 .e_shoff = offsetof(struct object, sections),
                 .e_shentsize = sizeof(Elf64_Shdr),
                 .e_shnum = N_SECTIONS,
                 .e_shstrndx = NAMES},
        .rela = {{.r_offset = 8,
                  .r_info = ELF64_R_INFO(SYM_THING, REL32),
                  .r_addend = 4}},
        .symbols = {[SYM_KERNEL] = {.st_name = 7,
                                    .st_info = STT_FUNC,
                                    .st_shndx = TEXT,
                                    .st_value = 16},
                    [SYM_THING] = {.st_name = 1,
                                   .st_info = STT_OBJECT,
                                   .st_shndx = DATA,
                                   .st_value = 8}},
        .strings = "\0thing\0kernel", /* ends with the last one's 0 */
        .names = ".eh_frame",
        .sections =
            {
                [TEXT] = {.sh_type = SHT_PROGBITS,
                          .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                          .sh_name = 1,
                          BYTES(text)},
                [RODATA] = {.sh_type = SHT_PROGBITS,
                            .sh_flags = SHF_ALLOC,
                            .sh_name = 1,
                            BYTES(rodata)},
                [DATA] = {.sh_type = SHT_PROGBITS,
                          .sh_flags = SHF_ALLOC | SHF_WRITE,
                          .sh_name = 1,
                          BYTES(data)},
                [BSS] = {.sh_type = SHT_NOBITS,
                         .sh_flags = SHF_ALLOC | SHF_WRITE,
                         .sh_name = 1,
                         .sh_addralign = 32,
                         .sh_offset = UINT64_MAX, /* counts for nothing */
                         .sh_size = 100},
                [RELA] = {.sh_type = SHT_RELA,
                          .sh_link = SYMBOLS,
                          .sh_info = TEXT,
                          .sh_entsize = sizeof(Elf64_Rela),
                          BYTES(rela)},
                [SYMBOLS] = {.sh_type = SHT_SYMTAB,
                             .sh_link = STRINGS,
                             .sh_entsize = sizeof(Elf64_Sym),
                             BYTES(symbols)},
                [STRINGS] = {.sh_type = SHT_STRTAB, BYTES(strings)},
                [NAMES] = {.sh_type = SHT_STRTAB, BYTES(names)},
            },
    };
    memset(object.text, 0x90, sizeof(object.text));
    memset(object.rodata, 0x11, sizeof(object.rodata));
    memset(object.data, 0x22, sizeof(object.data));
}

static void
load_ok(struct cpu_object *out)
{
    if (cpu_object_load(&object, sizeof(object), "k", "kernel", out) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
refused(size_t size_bytes, const char *entry, const char *part)
{
    struct cpu_object loaded;

    assert_int_equal(cpu_object_load(&object, size_bytes, "k", entry, &loaded),
                     BELL_E_INVALID);
    if (strncmp(bell_error_last()->message, "program 'k': object: ", 21) != 0 ||
        !strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

/* ---- borders ------------------------------------------------------------- */

/* A field as it may just be, and as it may just not be. */
struct border {
    size_t offset, n_bytes;
    uint64_t good, bad;
    const char *part; /* of the refusal */
};

#define FIELD(member) offsetof(struct object, member), sizeof(object.member)
#define SECTION(i, member)                                                     \
    offsetof(struct object, sections) + (i) * sizeof(Elf64_Shdr) +             \
        offsetof(Elf64_Shdr, member),                                          \
        sizeof(object.sections[0].member)
#define SYMBOL(i, member)                                                      \
    offsetof(struct object, symbols) + (i) * sizeof(Elf64_Sym) +               \
        offsetof(Elf64_Sym, member),                                           \
        sizeof(object.symbols[0].member)
#define THING(type) ELF64_R_INFO(SYM_THING, type)

static const struct border borders[] = {
    {FIELD(head.e_ident[0]), 0x7f, 0x7e, "not an ELF file"},
    {FIELD(head.e_ident[3]), 'F', 'G', "not an ELF file"},
    {FIELD(head.e_ident[EI_CLASS]), ELFCLASS64, ELFCLASS32, "not 64-bit"},
    {FIELD(head.e_ident[EI_DATA]), ELFDATA2LSB, ELFDATA2MSB, "not 64-bit"},
    {FIELD(head.e_ident[EI_VERSION]), EV_CURRENT, 2, "not 64-bit"},
    {FIELD(head.e_machine), MACHINE, EM_386, "for i386 (machine 3), this"},
    OTHER_MACHINE,
    {FIELD(head.e_machine), MACHINE, EM_CUDA, "for CUDA (machine 190)"},
    {FIELD(head.e_machine), MACHINE, EM_AMDGPU, "for AMDGPU (machine 224)"},
    {FIELD(head.e_machine), MACHINE, EM_RISCV, "for RISC-V (machine 243)"},
    {FIELD(head.e_machine), MACHINE, 1, "another machine (machine 1)"},
    {FIELD(head.e_type), ET_REL, ET_EXEC, "type 2, not relocatable"},
    {FIELD(head.e_shentsize), 64, 63, "section headers of 63 bytes"},
    {FIELD(head.e_shnum), N_SECTIONS, 0, "no sections"},
    {FIELD(head.e_shnum), N_SECTIONS, N_SECTIONS + 1, "truncated: 10 section"},
    {FIELD(head.e_shoff), offsetof(struct object, sections),
     offsetof(struct object, sections) + 1, "truncated: 9 section headers"},
    {FIELD(head.e_shoff), offsetof(struct object, sections), UINT64_MAX,
     "truncated: 9 section headers"},
    {FIELD(head.e_shstrndx), N_SECTIONS, 0, NULL}, /* names matter little */
    {SECTION(RODATA, sh_offset), sizeof(object) - 16, sizeof(object) - 15,
     "truncated: section 2 has bytes"},
    {SECTION(RODATA, sh_offset), 0, UINT64_MAX, "truncated: section 2"},
    {SECTION(0, sh_offset), UINT64_MAX, 0, NULL},
    {SECTION(SYMBOLS, sh_entsize), 24, 25, "symbols of 25 bytes"},
    {SECTION(SYMBOLS, sh_size), 24 * N_SYMBOLS, 24 * N_SYMBOLS + 1,
     "symbols of 24 bytes"},
    {SECTION(SYMBOLS, sh_link), STRINGS, RODATA, "string table is section 2"},
    {SECTION(SYMBOLS, sh_link), STRINGS, N_SECTIONS, "table is section 9"},
    {SECTION(SYMBOLS, sh_type), SHT_SYMTAB, SHT_STRTAB, "no symbol table"},
    {SECTION(RELA, sh_entsize), 24, 16, "section 5: relocations of 16 bytes"},
    {SECTION(RELA, sh_size), 24, 23, "section 5: relocations of 24 bytes"},
    {SECTION(RELA, sh_info), N_SECTIONS - 1, N_SECTIONS,
     "relocations of section 9 with symbols of section 6"},
    {SECTION(RELA, sh_link), SYMBOLS, STRINGS,
     "relocations of section 1 with symbols of section 7"},
    {SECTION(RELA, sh_type), SHT_RELA, SHT_REL, "relocations without addends"},
    {SECTION(RELA, sh_info), TEXT, BSS, "section 5: relocations of zeros"},
    {FIELD(rela[0].r_offset), TEXT_BYTES - 4, TEXT_BYTES - 3,
     "relocation at 61 of a section of 64 bytes"},
    {FIELD(rela[0].r_offset), 0, TEXT_BYTES + 1, "relocation at 65"},
    {FIELD(rela[0].r_info), THING(0), THING(TLS), TLS_REFUSED},
    {FIELD(rela[0].r_info), ELF64_R_INFO(SYM_KERNEL, REL32),
     ELF64_R_INFO(N_SYMBOLS, REL32), "symbol 3 of 3"},
    {FIELD(rela[0].r_addend), 0, UINT32_MAX, REL32_REFUSED},
    {SYMBOL(SYM_THING, st_shndx), TEXT, SHN_UNDEF, "undefined symbol 'thing'"},
    {SYMBOL(SYM_THING, st_shndx), BSS, N_SECTIONS,
     "symbol 'thing' is at 8 of section 9, which is not loaded"},
    {SYMBOL(SYM_THING, st_shndx), RODATA, SYMBOLS, "of section 6, which is"},
    {SYMBOL(SYM_THING, st_value), 16, 17, "symbol 'thing' is at 17 of"},
    {SYMBOL(SYM_THING, st_info), STT_NOTYPE, STT_GNU_IFUNC, "is of type 10"},
    {SYMBOL(SYM_THING, st_info), STT_FUNC, STT_TLS, "is of type 6"},
    {SYMBOL(SYM_KERNEL, st_value), TEXT_BYTES - 1, TEXT_BYTES,
     "entry 'kernel' is not code"},
    {SYMBOL(SYM_KERNEL, st_shndx), TEXT, RODATA, "entry 'kernel' is not code"},
    {SYMBOL(SYM_KERNEL, st_shndx), TEXT, SYMBOLS, "entry 'kernel' is not code"},
    {SYMBOL(SYM_KERNEL, st_shndx), TEXT, N_SECTIONS, "no entry 'kernel'"},
    {SYMBOL(SYM_KERNEL, st_shndx), TEXT, SHN_UNDEF, "no entry 'kernel'"},
    {SYMBOL(SYM_KERNEL, st_name), 7, 8, "no entry 'kernel'"},
    {SYMBOL(SYM_KERNEL, st_name), 7, 14, "no entry 'kernel'"},
    {SYMBOL(SYM_KERNEL, st_name), 7, UINT32_MAX, "no entry 'kernel'"},
    {SECTION(STRINGS, sh_size), 14, 13, "no entry 'kernel'"},
    {SECTION(RODATA, sh_type), SHT_NOTE, SHT_INIT_ARRAY,
     "section 2 of type 14 cannot be loaded"},
    {SECTION(RODATA, sh_type), SHT_X86_64_UNWIND, SHT_DYNAMIC, "cannot be"},
    {SECTION(RODATA, sh_flags), SHF_ALLOC, SHF_ALLOC | SHF_TLS,
     "section 2 is thread-local"},
    {SECTION(RODATA, sh_flags), SHF_TLS | SHF_COMPRESSED, /* not loaded */
     SHF_ALLOC | SHF_COMPRESSED, "section 2 is compressed"},
    {SECTION(TEXT, sh_flags), SHF_ALLOC | SHF_EXECINSTR,
     SHF_ALLOC | SHF_EXECINSTR | SHF_WRITE, "writable and executable"},
    {SECTION(TEXT, sh_flags), SHF_ALLOC | SHF_EXECINSTR, 0, "no code"},
    {SECTION(TEXT, sh_addralign), 4096, 8192, "section 1 is aligned to 8192"},
    {SECTION(TEXT, sh_addralign), 1, 3, "section 1 is aligned to 3"},
    {SECTION(TEXT, sh_addralign), 2, 6, "section 1 is aligned to 6"},
    {SECTION(BSS, sh_size), 0, MAX_BYTES + 1,
     "section 4 has 268435457 bytes, 268435456 are possible"},
    /* behind a page of code, one of constants, and the data */
    {SECTION(BSS, sh_size), MAX_BYTES - 8192 - 32, MAX_BYTES - 8192 - 31,
     "more than 268435456 bytes to load"},
};

static void
set_field(const struct border *row, uint64_t value)
{
    begin();
    memcpy((uint8_t *)&object + row->offset, &value, row->n_bytes);
}

static void
test_borders(void **state)
{
    struct cpu_object loaded;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(borders); i++) {
        set_field(&borders[i], borders[i].good);
        if (cpu_object_load(&object, sizeof(object), "k", "kernel", &loaded) !=
            BELL_OK)
            fail_msg("row %zu: %s", i, bell_error_last()->message);
        cpu_object_unload(&loaded);
        set_field(&borders[i], borders[i].bad);
        if (borders[i].part) {
            refused(sizeof(object), "kernel", borders[i].part);
        } else {
            load_ok(&loaded);
            cpu_object_unload(&loaded);
        }
    }
}

static void
test_whole(void **state)
{
    struct cpu_object loaded;

    (void)state;
    begin();
    refused(MAX_BYTES + 1, "kernel", "268435457 bytes, 268435456 are possible");
    refused(63, "kernel", "truncated: 63 bytes, an ELF header has 64");
    refused(64, "kernel", "truncated: 9 section headers");
    refused(sizeof(object) - 1, "kernel", "truncated: 9 section headers");
    refused(sizeof(object), "kerne", "no entry 'kerne'");
    refused(sizeof(object), "kernels", "no entry 'kernels'");
    object.sections[RODATA] = object.sections[SYMBOLS];
    refused(sizeof(object), "kernel", "two symbol tables, sections 2 and 6");
    begin();
    host_fail_after(1, 1);
    assert_int_equal(
        cpu_object_load(&object, sizeof(object), "k", "kernel", &loaded),
        BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
}

/* Bytes that are not text are not told as they stand. */
static void
test_names(void **state)
{
    (void)state;
    begin();
    object.symbols[SYM_THING].st_shndx = SHN_UNDEF;
    memcpy(object.strings + 1, "\x1f~\x7f\x80 ", 5);
    refused(sizeof(object), "kernel", "undefined symbol '?~?? '");
    object.symbols[SYM_THING].st_name = 13; /* the last byte: no letters */
    refused(sizeof(object), "kernel", "undefined symbol ''");
    object.symbols[SYM_THING].st_name = 14;
    refused(sizeof(object), "kernel", "undefined symbol '?'");
    object.symbols[SYM_THING].st_name = 7;
    object.strings[13] = '!'; /* never ends */
    refused(sizeof(object), "kernel", "undefined symbol '?'");
}

/* ---- what is loaded ------------------------------------------------------ */

static uint64_t
load_word(const void *at, size_t n_bytes)
{
    uint64_t value = 0;

    memcpy(&value, at, n_bytes);
    return value;
}

/* The rights of the page, as /proc says them. */
static void
read_rights(const void *page, char got[8])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uintptr_t at = (uintptr_t)page;
    unsigned long from, to;

    strcpy(got, "none");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        char text[8];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, text) == 3 && at >= from &&
            at < to)
            memcpy(got, text, sizeof(text));
    }
    fclose(maps);
}

/* Whether /proc tells neighbours apart that may be executed and may not: qemu's
 * of a program for another processor does not. */
static bool
maps_tell(void)
{
    uint8_t *at =
        mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char first[8], second[8];

    assert_true(at != MAP_FAILED);
    assert_int_equal(mprotect(at, PAGE, PROT_READ | PROT_EXEC), 0);
    read_rights(at, first);
    read_rights(at + PAGE, second);
    munmap(at, 2 * PAGE);
    return strcmp(first, "r-xp") == 0 && strcmp(second, "r--p") == 0;
}

static void
check_rights(const void *page, const char *rights)
{
    char got[8];

    read_rights(page, got);
    if (maps_tell())
        assert_string_equal(got, rights);
}

/* Code, constants and data, in this order, each from a page of its own on. */
static void
test_layout(void **state)
{
    static const uint8_t zeros[100];
    struct cpu_object loaded;
    const uint8_t *map;

    (void)state;
    begin();
    load_ok(&loaded);
    map = loaded.map;
    assert_ptr_equal(loaded.entry, map + 16);
    assert_int_equal(loaded.map_bytes, 3 * PAGE);
    assert_int_equal(loaded.text_bytes, PAGE);
    assert_memory_equal(map, object.text, 8);
    assert_memory_equal(map + 12, object.text + 12, TEXT_BYTES - 12);
    assert_memory_equal(map + PAGE, object.rodata, 16);
    assert_memory_equal(map + 2 * PAGE, object.data, 16);
    assert_memory_equal(map + 2 * PAGE + 32, zeros, 100);
    check_rights(map, "r-xp");
    check_rights(map + PAGE, "r--p");
    check_rights(map + 2 * PAGE, "rw-p");
    assert_int_equal(cpu_object_set_executable(&loaded, false), 0);
    check_rights(map, "---p");
    check_rights(map + PAGE, "r--p");
    assert_int_equal(cpu_object_set_executable(&loaded, true), 0);
    check_rights(map, "r-xp");
    cpu_object_unload(&loaded);
    assert_null(loaded.map);
    cpu_object_unload(&loaded);
    /* Without constants; unwinding tables are none. */
    begin();
    object.sections[RODATA].sh_name = 0;
    load_ok(&loaded);
    assert_int_equal(loaded.map_bytes, 2 * PAGE);
    check_rights((uint8_t *)loaded.map + PAGE, "rw-p");
    cpu_object_unload(&loaded);
    /* A name table that is none, or too short, names nothing. */
    object.sections[NAMES].sh_size--;
    load_ok(&loaded);
    assert_int_equal(loaded.map_bytes, 3 * PAGE);
    cpu_object_unload(&loaded);
    object.sections[NAMES].sh_size++;
    object.sections[NAMES].sh_type = SHT_NOTE;
    load_ok(&loaded);
    assert_int_equal(loaded.map_bytes, 3 * PAGE);
    cpu_object_unload(&loaded);
    /* Code alone, a page of it and a byte of another section. */
    begin();
    object.sections[RODATA].sh_flags |= SHF_EXECINSTR;
    object.sections[RODATA].sh_addralign = 4096;
    object.sections[DATA].sh_flags = object.sections[BSS].sh_flags = 0;
    object.sections[RELA].sh_size = 0;
    load_ok(&loaded);
    assert_int_equal(loaded.text_bytes, align_up(4096 + 16, PAGE));
    assert_int_equal(loaded.map_bytes, loaded.text_bytes);
    assert_memory_equal((uint8_t *)loaded.map + 4096, object.rodata, 16);
    cpu_object_unload(&loaded);
}

/* ---- relocations --------------------------------------------------------- */

static const struct {
    uint32_t type, n_bytes;
    bool is_relative, is_got;
} types[] = {
#if defined(__aarch64__)
    {R_AARCH64_ABS64, 8, false, false},
    {R_AARCH64_PREL64, 8, true, false},
    {R_AARCH64_PREL32, 4, true, false},
#else
    {R_X86_64_64, 8, false, false},
    {R_X86_64_PC64, 8, true, false},
    {R_X86_64_PC32, 4, true, false},
    {R_X86_64_PLT32, 4, true, false},
    {R_X86_64_32, 4, false, false},
    {R_X86_64_32S, 4, false, false},
    {R_X86_64_GOTPCREL, 4, true, true},
    {R_X86_64_GOTPCRELX, 4, true, true},
    {R_X86_64_REX_GOTPCRELX, 4, true, true},
#endif
};

static void
test_relocations(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(types); i++) {
        const uint32_t n_bytes = types[i].n_bytes;
        const uint64_t mask = n_bytes == 4 ? UINT32_MAX : UINT64_MAX;
        struct cpu_object loaded;
        const uint8_t *map, *at;
        uint64_t got;

        begin();
        object.rela[0].r_info = THING(types[i].type);
        load_ok(&loaded);
        map = loaded.map;
        at = map + 8;
        got = load_word(at, n_bytes) - 4; /* without its addend */
        got += types[i].is_relative ? (uintptr_t)at : 0;
        if (types[i].is_got) { /* a slot behind the constants */
            assert_int_equal(got & mask, ((uintptr_t)map + PAGE + 16) & mask);
            got = load_word(map + PAGE + 16, 8);
            assert_int_equal(got, (uintptr_t)map + 2 * PAGE + 8);
        }
        if ((got & mask) != (((uintptr_t)map + 2 * PAGE + 8) & mask))
            fail_msg("type %u: 0x%llx", types[i].type, (unsigned long long)got);
        assert_int_equal(at[-1], 0x90);
        assert_int_equal(at[n_bytes], 0x90);
        cpu_object_unload(&loaded);
        /* as near to the end as its bytes may be */
        object.rela[0].r_offset = TEXT_BYTES - n_bytes;
        load_ok(&loaded);
        cpu_object_unload(&loaded);
        object.rela[0].r_offset++;
        refused(sizeof(object), "kernel", "of a section of 64 bytes");
    }
}

/* Two relocations, as the text's first bytes, and constants of a page but for
 * one slot. */
static void
begin_two(uint64_t first, uint64_t second)
{
    Elf64_Rela rela[2] = {{.r_offset = 48, .r_info = first},
                          {.r_offset = 56, .r_info = second}};

    begin();
    memcpy(object.text, rela, sizeof(rela));
    object.sections[RELA].sh_offset = offsetof(struct object, text);
    object.sections[RELA].sh_size = sizeof(rela);
    object.sections[RODATA].sh_type = SHT_NOBITS;
    object.sections[RODATA].sh_size = PAGE - 8;
}

#if defined(__aarch64__)

#define GOT_PAGE  R_AARCH64_ADR_GOT_PAGE
#define GOT_LOW12 R_AARCH64_LD64_GOT_LO12_NC

/* The slot that an instruction and the next say together is one and the same,
 * also as the first slot of two pages. */
static void
test_slots(void **state)
{
    static const uint32_t insns[3] = {0x90000003 /* adrp x3, 0 */, 0,
                                      0xf9400063 /* ldr x3, [x3] */};
    struct cpu_object loaded;
    uint64_t page, low, slot;
    uint32_t got[3];

    (void)state;
    begin_two(THING(GOT_PAGE), THING(GOT_LOW12));
    memcpy(object.text + 48, insns, sizeof(insns));
    load_ok(&loaded);
    memcpy(got, loaded.map + 48, sizeof(got));
    page = ((uint64_t)(got[0] >> 5 & 0x7ffff) << 2 | (got[0] >> 29 & 3)) << 12;
    low = (uint64_t)(got[2] >> 10 & 0xfff) << 3;
    slot = ((uintptr_t)loaded.map & ~(uintptr_t)4095) + page + low;
    assert_int_equal(slot, (uintptr_t)loaded.map + 2 * PAGE - 8);
    assert_int_equal(load_word((void *)(uintptr_t)slot, 8),
                     (uintptr_t)loaded.map + loaded.map_bytes - PAGE + 8);
    cpu_object_unload(&loaded);
}

static void
test_absolute(void **state)
{
    (void)state;
    skip(); /* see test_cpu_reloc */
}

static void
test_several(void **state)
{
    (void)state;
    skip(); /* no relocation wants a place below 2 GiB */
}

#else

/* Who asks for the same symbol has the same slot. */
static void
test_slots(void **state)
{
    struct cpu_object loaded;
    const uint8_t *map;
    size_t k;

    (void)state;
    begin_two(THING(R_X86_64_GOTPCREL), THING(R_X86_64_GOTPCRELX));
    load_ok(&loaded);
    map = loaded.map;
    for (k = 0; k < 2; k++)
        assert_int_equal(load_word(map + 48 + 8 * k, 4),
                         2 * PAGE - 8 - (48 + 8 * k));
    cpu_object_unload(&loaded);
}

/* The second relocation counts as the first does: for whether the object has to
 * lie below 2 GiB, and for how many slots are behind the constants. */
static void
test_several(void **state)
{
    static const uint32_t pairs[][2] = {
        {R_X86_64_PC32, R_X86_64_32},
        {R_X86_64_PC32, R_X86_64_32S},
        {R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX},
    };
    struct cpu_object loaded;
    const uint8_t *map;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(pairs); i++) {
        bool is_got = pairs[i][0] == R_X86_64_GOTPCREL;

        begin_two(THING(pairs[i][0]), ELF64_R_INFO(SYM_KERNEL, pairs[i][1]));
        load_ok(&loaded);
        map = loaded.map;
        assert_int_equal(loaded.map_bytes, is_got ? 4 * PAGE : 3 * PAGE);
        map += loaded.map_bytes - PAGE;
        assert_memory_equal(map, object.data, 16);
        if (is_got) {
            assert_int_equal(load_word(map - PAGE - 8, 8), (uintptr_t)map + 8);
            assert_int_equal(load_word(map - PAGE, 8),
                             (uintptr_t)loaded.map + 16);
        }
        cpu_object_unload(&loaded);
    }
}

/* Numbers that are not addresses: those that fit in 32 bits, with a sign and
 * without.
 */
static void
test_absolute(void **state)
{
    static const struct {
        uint32_t type;
        uint64_t good, bad;
    } rows[] = {
        {R_X86_64_32, UINT32_MAX, 1ull << 32},
        {R_X86_64_32, 0, UINT64_MAX},
        {R_X86_64_32S, INT32_MAX, 1ull << 31},
        {R_X86_64_32S, UINT64_MAX << 31, (UINT64_MAX << 31) - 1},
    };
    struct cpu_object loaded;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        begin();
        object.rela[0].r_info = THING(rows[i].type);
        object.rela[0].r_addend = 0;
        object.symbols[SYM_THING].st_shndx = SHN_ABS;
        object.symbols[SYM_THING].st_value = rows[i].good;
        load_ok(&loaded);
        assert_int_equal(load_word((uint8_t *)loaded.map + 8, 4),
                         rows[i].good & UINT32_MAX);
        cpu_object_unload(&loaded);
        object.symbols[SYM_THING].st_value = rows[i].bad;
        refused(sizeof(object), "kernel", "at 8 does not fit");
    }
}

#endif

/* ---- every byte ---------------------------------------------------------- */

/* The type of relocations is left: the result of some depends on the
 * address. */
static void
look_at_loaded(struct outcomes *o, const uint8_t *data, size_t n)
{
    const Elf64_Rela *rela =
        &((const struct object *)(const void *)data)->rela[0];
    uint8_t *copy = malloc(n ? n : 1);
    struct cpu_object loaded;
    size_t used;

    memcpy(copy, data, n);
    if (n == sizeof(object) && ELF64_R_TYPE(rela->r_info) != REL32) {
        free(copy);
        return;
    }
    if (cpu_object_load(copy, n, "k", "kernel", &loaded) != BELL_OK) {
        outcome(o, "%s", bell_error_last()->message);
        free(copy);
        return;
    }
    used = loaded.map_bytes < 1 << 16 ? loaded.map_bytes : 1 << 16;
    outcome(o, "%zu %zu +%zd %llx", loaded.map_bytes, loaded.text_bytes,
            (uint8_t *)loaded.entry - loaded.map,
            (unsigned long long)outcomes_hash(loaded.map, used, 0));
    cpu_object_unload(&loaded);
    free(copy);
}

static void
test_every_byte(void **state)
{
    struct outcomes o = {0};

    (void)state;
    begin();
    outcomes_vary(&object, sizeof(object), look_at_loaded, &o);
    outcomes_are(&o, EVERY_BYTE);
}

/* ---- as it lies in a file ------------------------------------------------ */

/* Code that refers to constants alone. */
static void
begin_relative(void)
{
    begin();
    object.symbols[SYM_THING].st_shndx = RODATA;
    object.sections[DATA].sh_size = object.sections[BSS].sh_size = 0;
    object.sections[DATA].sh_offset = 0;
}

/* The object in a file of its own, whose first page it begins in; the page may
 * be executed, and never was written. */
static void
map_file(uint64_t at, struct hcq_code_file *out)
{
    int fd = memfd_create("object", MFD_CLOEXEC);
    void *map;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
    assert_int_equal(pwrite(fd, &object, sizeof(object), (off_t)at),
                     sizeof(object));
    map = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    assert_true(map != MAP_FAILED);
    *out = (struct hcq_code_file){.map = map, .fd = fd};
}

static bool
use(uint64_t at, struct cpu_object *out, struct hcq_code_file *file)
{
    const uint8_t *data;

    map_file(at, file);
    data = (const uint8_t *)file->map + at;
    return cpu_object_use(file, data, sizeof(object), "k", "kernel", out);
}

static void
drop(struct cpu_object *object_in_use, struct hcq_code_file *file)
{
    if (object_in_use)
        cpu_object_unload(object_in_use);
    assert_int_equal(munmap((void *)(uintptr_t)file->map, PAGE), 0);
    close(file->fd);
}

static void
test_in_place(void **state)
{
    const int32_t distance = (int32_t)(offsetof(struct object, rodata) + 8 + 4 -
                                       (offsetof(struct object, text) + 8));
    struct hcq_code_file file;
    struct cpu_object used, loaded;
    const uint8_t *text;
    int32_t seen;
    uint64_t at;

    (void)state;
    for (at = 0; at <= 128; at += 64) {
        begin_relative();
        assert_false(use(at, &used, &file)); /* not linked */
        drop(NULL, &file);
        assert_true(cpu_object_prelink(&object, sizeof(object), at));
        assert_true(use(at, &used, &file));
        text = (const uint8_t *)file.map + at + offsetof(struct object, text);
        assert_ptr_equal(used.entry, text + 16);
        assert_true(used.is_borrowed);
        assert_true(cpu_object_has_text(&used, (uintptr_t)used.entry));
        memcpy(&seen, text + 8, sizeof(seen));
        assert_int_equal(seen, distance);
        /* taken away and given back, as an endless kernel's is */
        assert_int_equal(cpu_object_set_executable(&used, false), 0);
        assert_int_equal(cpu_object_set_executable(&used, true), 0);
        assert_int_equal(text[16], 0x90);
        drop(&used, &file);
        /* it is an object to be loaded as before, and by who knows no better */
        load_ok(&loaded);
        assert_false(loaded.is_borrowed);
        cpu_object_unload(&loaded);
    }
}

/* What cannot be used as it lies: rows of what is changed before it is linked,
 * or after. */
static void
test_not_in_place(void **state)
{
    static const struct {
        size_t offset, n_bytes;
        uint64_t value;
        bool after;
    } rows[] = {
        {SECTION(BSS, sh_size), 8, false},
        {SECTION(DATA, sh_size), 8, false},
        {SECTION(RODATA, sh_addralign), 4096, false},
        {SECTION(TEXT, sh_addralign), 1024, false},
        {FIELD(rela[0].r_info), THING(TLS), false},
#if defined(__x86_64__)
        {FIELD(rela[0].r_info), THING(R_X86_64_64), false},
        {FIELD(rela[0].r_info), THING(R_X86_64_32), false},
        {FIELD(rela[0].r_info), THING(R_X86_64_GOTPCREL), false},
#else
        {FIELD(rela[0].r_info), THING(R_AARCH64_ABS64), false},
        {FIELD(rela[0].r_info), THING(R_AARCH64_LD64_GOT_LO12_NC), false},
#endif
        {FIELD(text[8]), 0x77, true},
        {FIELD(text[11]), 0x77, true},
        {FIELD(rela[0].r_addend), 5, true},
        {SYMBOL(SYM_THING, st_value), 9, true},
        {SYMBOL(SYM_KERNEL, st_name), 8, true},
        {SYMBOL(SYM_KERNEL, st_value), TEXT_BYTES, true},
        {FIELD(head.e_machine), EM_386, true},
    };
    struct hcq_code_file file;
    struct cpu_object used;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        begin_relative();
        if (!rows[i].after)
            memcpy((uint8_t *)&object + rows[i].offset, &rows[i].value,
                   rows[i].n_bytes);
        if (cpu_object_prelink(&object, sizeof(object), 64) != rows[i].after)
            fail_msg("row %zu is %slinked", i, rows[i].after ? "not " : "");
        if (rows[i].after)
            memcpy((uint8_t *)&object + rows[i].offset, &rows[i].value,
                   rows[i].n_bytes);
        if (use(64, &used, &file))
            fail_msg("row %zu is used", i);
        drop(NULL, &file);
    }
    /* no room for its tables: it is loaded, or not, as ever */
    begin_relative();
    assert_true(cpu_object_prelink(&object, sizeof(object), 64));
    host_fail_after(1, 1);
    assert_false(use(64, &used, &file));
    host_fail_after(0, 0);
    drop(NULL, &file);
}

/* Where memory may not become executable, it is mapped so. In a child, for
 * which this stays; 77: the kernel has no such rule. */
static int
run_refused(void)
{
    struct hcq_code_file file;
    struct cpu_object loaded, used;

    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        return 77;
    begin_relative();
    load_ok(&loaded);
    if (*((uint8_t *)loaded.entry + 40) != 0x90 ||
        mprotect(loaded.map, PAGE, PROT_READ) != 0 ||
        mprotect(loaded.map, PAGE, PROT_READ | PROT_EXEC) == 0)
        return 1;
    if (cpu_object_set_executable(&loaded, false) != 0 ||
        cpu_object_set_executable(&loaded, true) != 0 ||
        *((uint8_t *)loaded.entry + 40) != 0x90)
        return 2;
    cpu_object_unload(&loaded);
    if (!cpu_object_prelink(&object, sizeof(object), 0) ||
        !use(0, &used, &file) || cpu_object_set_executable(&used, false) != 0 ||
        cpu_object_set_executable(&used, true) != 0 ||
        *((uint8_t *)used.entry + 40) != 0x90)
        return 3;
    drop(&used, &file);
    return 0;
}

static void
test_refused_memory(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(run_refused());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Every byte changed: what is used has its entry in the object, and nothing
 * beyond its last byte is touched, which the sanitizer sees. */
static void
test_in_place_bytes(void **state)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x10};
    uint8_t *copy = aligned_alloc(64, align_up(sizeof(object), 64));
    const uint8_t *end = copy + sizeof(object);
    uint64_t at = (uint64_t)(uintptr_t)copy;
    struct hcq_code_file file = {.map = copy, .fd = -1};
    struct cpu_object used;
    size_t i, n_used = 0;

    (void)state;
    assert_non_null(copy);
    begin_relative();
    for (i = 0; i < sizeof(object) * ARRAY_LEN(flips); i++) {
        memcpy(copy, &object, sizeof(object));
        copy[i / ARRAY_LEN(flips)] ^= flips[i % ARRAY_LEN(flips)];
        (void)cpu_object_prelink(copy, sizeof(object), at);
        if (!cpu_object_use(&file, copy, sizeof(object), "k", "kernel", &used))
            continue;
        assert_true((uint8_t *)used.entry >= copy);
        assert_true((uint8_t *)used.entry < end);
        n_used++;
    }
    assert_true(n_used > 100);
    free(copy);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_relocations),
        cmocka_unit_test(test_absolute),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_not_in_place),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_in_place_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
