/* hcq/amd/amd_object.c on an object made here, whole and damaged, and on
 * LLVM's for five chips where its tools are: what a kernel needs, relocations,
 * what stands behind the code; the image runs in sim/.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/amd/amd_object.h"
#include "sim/amd/isa/wave.h"
#include "tests/unit/outcomes.h"

#define VA 0x7f0012345000ull

/* ---- an object of our own ------------------------------------------------ */

enum {
    TEXT = 1,
    NAMES,
    RODATA,
    RODATA_RELA,
    DATA,
    DATA_RELA,
    BSS,
    SYMBOLS
};
enum {
    S_NULL,
    S_CODE,
    S_KD,
    S_VALUE,
    S_ZEROED,
    S_OUTSIDE,
    N_SYMBOLS
};

#define N_RELAS 2

/* A file: every part at a place of its own. The kernel is the second half of
 * .text. */
struct file {
    Elf64_Ehdr head;
    Elf64_Shdr section[SYMBOLS + 1];
    Elf64_Sym symbol[N_SYMBOLS];
    Elf64_Rela kd_rela, data_rela[N_RELAS];
    uint32_t text[128];
    uint8_t kd[64];
    uint64_t data[8];
    char names[128];
};

static const char names[] =
    "\0.strtab\0.text\0.rodata\0.rela.rodata\0.data\0.rela.data\0.bss\0"
    ".symtab\0kernel\0kernel.kd\0value\0zeroed\0outside\0other.kd";

static uint32_t
name_of(const char *text)
{
    size_t i;

    for (i = 0; i < sizeof(names); i += strlen(names + i) + 1) {
        if (strcmp(names + i, text) == 0)
            return (uint32_t)i;
    }
    fail_msg("no name %s", text);
    return 0;
}

static void
put_section(struct file *f, unsigned i, const char *name, Elf64_Shdr s)
{
    s.sh_name = name_of(name);
    f->section[i] = s;
}

#define PART(member)                                                           \
    .sh_offset = offsetof(struct file, member), .sh_size = sizeof(f->member)

static void
put_sections(struct file *f)
{
    /* The first one is none, whatever it says. */
    put_section(f, 0, ".text",
                (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                             .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                             .sh_addralign = 256,
                             .sh_offset = offsetof(struct file, text),
                             .sh_size = 64});
    put_section(f, NAMES, ".strtab",
                (Elf64_Shdr){.sh_type = SHT_STRTAB, PART(names)});
    put_section(f, TEXT, ".text",
                (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                             .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                             .sh_addralign = 256,
                             PART(text)});
    put_section(f, RODATA, ".rodata",
                (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                             .sh_flags = SHF_ALLOC,
                             .sh_addralign = 64,
                             PART(kd)});
    put_section(f, RODATA_RELA, ".rela.rodata",
                (Elf64_Shdr){.sh_type = SHT_RELA,
                             .sh_link = SYMBOLS,
                             .sh_info = RODATA,
                             .sh_entsize = sizeof(Elf64_Rela),
                             PART(kd_rela)});
    put_section(f, DATA, ".data",
                (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                             .sh_flags = SHF_ALLOC | SHF_WRITE,
                             .sh_addralign = 1024,
                             PART(data)});
    put_section(f, DATA_RELA, ".rela.data",
                (Elf64_Shdr){.sh_type = SHT_RELA,
                             .sh_link = SYMBOLS,
                             .sh_info = DATA,
                             .sh_entsize = sizeof(Elf64_Rela),
                             PART(data_rela)});
    put_section(f, BSS, ".bss",
                (Elf64_Shdr){.sh_type = SHT_NOBITS,
                             .sh_flags = SHF_ALLOC | SHF_WRITE,
                             .sh_offset = UINT64_MAX,
                             .sh_size = 1000});
    put_section(f, SYMBOLS, ".symtab",
                (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                             .sh_link = NAMES,
                             .sh_entsize = sizeof(Elf64_Sym),
                             PART(symbol)});
}

static void
put_symbol(struct file *f, unsigned i, const char *name, unsigned type,
           unsigned section, uint64_t value, uint64_t size_bytes)
{
    f->symbol[i] = (Elf64_Sym){
        .st_name = name_of(name),
        .st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, type),
        .st_shndx = (Elf64_Section)section,
        .st_value = value,
        .st_size = size_bytes,
    };
}

static Elf64_Rela
rela(uint64_t offset, uint64_t symbol, uint32_t type, int64_t addend)
{
    return (Elf64_Rela){offset, ELF64_R_INFO(symbol, type), addend};
}

static void
put_word(struct file *f, unsigned offset, uint32_t value)
{
    memcpy(f->kd + offset, &value, 4);
}

static void
make(struct file *f)
{
    unsigned i;

    memset(f, 0, sizeof(*f));
    memcpy(f->head.e_ident, ELFMAG, SELFMAG);
    f->head.e_ident[EI_CLASS] = ELFCLASS64;
    f->head.e_ident[EI_DATA] = ELFDATA2LSB;
    f->head.e_ident[EI_OSABI] = 64;
    f->head.e_ident[EI_ABIVERSION] = 3;
    f->head.e_type = ET_REL;
    f->head.e_machine = 224;
    f->head.e_flags = 0x54c;
    f->head.e_shoff = offsetof(struct file, section);
    f->head.e_shentsize = sizeof(Elf64_Shdr);
    f->head.e_shnum = SYMBOLS + 1;
    f->head.e_shstrndx = NAMES;
    put_sections(f);
    memcpy(f->names, names, sizeof(names));
    put_symbol(f, S_CODE, "kernel", STT_FUNC, TEXT, 256, 256);
    put_symbol(f, S_KD, "kernel.kd", STT_OBJECT, RODATA, 0, 64);
    put_symbol(f, S_VALUE, "value", STT_OBJECT, DATA, 24, 8);
    put_symbol(f, S_ZEROED, "zeroed", STT_OBJECT, BSS, 16, 8);
    put_symbol(f, S_OUTSIDE, "outside", STT_NOTYPE, SHN_UNDEF, 0, 0);
    f->kd_rela = rela(16, S_CODE, 5, 16);
    for (i = 0; i < N_RELAS; i++)
        f->data_rela[i] = rela(8 * i, S_VALUE, 3, 0);
    for (i = 0; i < ARRAY_LEN(f->text); i++)
        f->text[i] = 0xbf810000 + i;
    for (i = 0; i < ARRAY_LEN(f->data); i++)
        f->data[i] = 0x1111111111111111ull * i;
    put_word(f, 0, 2048);
    put_word(f, 4, 96);
    put_word(f, 8, 40);
    put_word(f, 44, 5);
    put_word(f, 48, 0x00af0041);
    put_word(f, 52, 0x84);
    put_word(f, 56, 0x00020008);
}

/* ---- opening and linking ------------------------------------------------- */

/* Opens a copy of exactly this size, and links it: sanitizers then see every
 * access past the ends. The image is the caller's; NULL: refused. */
static uint8_t *
load(const void *data, size_t size_bytes, uint64_t va,
     struct amd_object *out_object)
{
    uint8_t *copy = malloc(size_bytes ? size_bytes : 1), *image = NULL;

    assert_non_null(copy);
    memcpy(copy, data, size_bytes);
    if (amd_object_open(copy, size_bytes, "test", "kernel", out_object) ==
        BELL_OK) {
        image = malloc((size_t)out_object->image_bytes);
        assert_non_null(image);
        if (amd_object_link(out_object, va, 0xbf9f0000, image) != BELL_OK) {
            free(image);
            image = NULL;
        }
        amd_object_close(out_object);
    }
    free(copy);
    return image;
}

static uint64_t
word_at(const uint8_t *image, uint64_t offset, uint32_t n)
{
    uint64_t value = 0;

    memcpy(&value, image + offset, n);
    return value;
}

static void
test_layout(void **state)
{
    struct amd_object o;
    struct file f;
    uint8_t *image;
    uint64_t i;

    (void)state;
    make(&f);
    image = load(&f, sizeof(f), VA, &o);
    if (!image)
        fail_msg("%s", bell_error_last()->message);
    assert_int_equal(o.machine, 0x4c);
    assert_int_equal(o.entry_offset, 256);
    assert_int_equal(o.code_bytes, 512 + 256);
    assert_int_equal(o.descriptor_offset, 768);
    assert_int_equal(o.image_bytes, 1024 + 64 + 1000);
    assert_int_equal(o.lds_bytes, 2048);
    assert_int_equal(o.scratch_bytes, 96);
    assert_int_equal(o.kernarg_bytes, 40);
    assert_int_equal(o.rsrc3, 5);
    assert_int_equal(o.rsrc1, 0x00af0041);
    assert_int_equal(o.rsrc2, 0x84);
    assert_int_equal(o.properties, 8);
    assert_int_equal(o.kernarg_preload, 2);
    assert_memory_equal(image, f.text, sizeof(f.text));
    for (i = 512; i < 768; i += 4)
        assert_int_equal(word_at(image, i, 4), 0xbf9f0000);
    assert_int_equal((int64_t)word_at(image, 768 + 16, 8), 256 - 768);
    assert_memory_equal(image + 768, o.descriptor, 64);
    for (i = 768 + 64; i < 1024; i++)
        assert_int_equal(image[i], 0);
    assert_memory_equal(image + 1024 + 16, f.data + 2, 48);
    for (i = 1024 + 64; i < o.image_bytes; i++)
        assert_int_equal(image[i], 0);
    free(image);
}

static void
test_code_end(void **state)
{
    struct amd_object o;
    struct file f;
    uint8_t *image;

    (void)state;
    make(&f);
    f.head.e_flags = 0x41;
    image = load(&f, sizeof(f), VA, &o);
    assert_non_null(image);
    assert_int_equal(word_at(image, 512, 4), 0xbf9f0000);
    assert_int_equal(word_at(image, 764, 4), 0xbf9f0000);
    free(image);
}

/* At `place` of .data, which is at 1024 of the image.
 * src: docs/hardware/amd-code.md, "Objects" */
static void
test_relocations(void **state)
{
    static const uint64_t s = VA + 1024 + 24, z = VA + 1024 + 64 + 16;
    static const uint64_t far = 0x123456789ull;
    const struct {
        uint32_t type, symbol;
        int64_t addend;
        uint64_t va, want;
        uint32_t n_bytes;
    } cases[] = {
        {1, S_VALUE, 4, VA, (uint32_t)(s + 4), 4},
        {2, S_VALUE, -8, VA, (s - 8) >> 32, 4},
        {3, S_ZEROED, 5, VA, z + 5, 8},
        {4, S_CODE, 12, VA, (uint32_t)(256 + 12 - 1024 - 12), 4},
        {5, S_CODE, 16, VA, (uint64_t)(256 + 16 - 1024 - 12), 8},
        {6, S_VALUE, 1, 0x10000, 0x10000 + 1024 + 25, 4},
        {10, S_VALUE, (int64_t)far, VA, (uint32_t)(24 + far - 12), 4},
        {11, S_VALUE, (int64_t)far, VA, (24 + far - 12) >> 32, 4},
        {11, S_CODE, 4, VA, UINT32_MAX, 4},
    };
    struct amd_object o;
    struct file f;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t *image;

        make(&f);
        f.data_rela[1] =
            rela(12, cases[i].symbol, cases[i].type, cases[i].addend);
        image = load(&f, sizeof(f), cases[i].va, &o);
        if (!image)
            fail_msg("type %u: %s", cases[i].type, bell_error_last()->message);
        assert_int_equal(word_at(image, 1024 + 12, cases[i].n_bytes),
                         cases[i].want);
        assert_int_equal(word_at(image, 1024 + 12 + cases[i].n_bytes, 4),
                         (uint32_t)f.data[2]);
        free(image);
    }
}

static void
test_names(void **state)
{
    struct amd_object o;
    struct file f;

    (void)state;
    make(&f);
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", NULL, &o), BELL_OK);
    assert_int_equal(o.entry_offset, 256);
    amd_object_close(&o);
    amd_object_close(&o);
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", "kern", &o),
                     BELL_E_INVALID);
    assert_string_equal(bell_error_last()->message,
                        "program 'test': no kernel 'kern'; there are: kernel");
    put_symbol(&f, S_OUTSIDE, "other.kd", STT_OBJECT, RODATA, 0, 64);
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", NULL, &o),
                     BELL_E_INVALID);
    assert_string_equal(
        bell_error_last()->message,
        "program 'test': 2 kernels, and none is chosen: kernel, other");
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", "other", &o),
                     BELL_OK);
    amd_object_close(&o);
}

/* More kernels than a message has room for. */
static void
test_many_names(void **state)
{
    static struct {
        struct file f;
        Elf64_Sym symbols[40];
    } m;
    char want[256];
    struct amd_object o;
    size_t i;

    (void)state;
    make(&m.f);
    put_symbol(&m.f, S_OUTSIDE, "kernel.kd", STT_OBJECT, RODATA, 0, 64);
    for (i = 0; i < ARRAY_LEN(m.symbols); i++)
        m.symbols[i] = m.f.symbol[S_OUTSIDE];
    m.f.section[SYMBOLS].sh_offset = sizeof(m.f);
    m.f.section[SYMBOLS].sh_size = sizeof(m.symbols);
    assert_int_equal(amd_object_open(&m, sizeof(m), "test", NULL, &o),
                     BELL_E_INVALID);
    snprintf(want, sizeof(want), "%s",
             "program 'test': 40 kernels, and none is chosen: ");
    for (i = 0; i < 19; i++)
        strcat(want, "kernel, ");
    strcat(want, "kernel,"); /* 159 letters of names */
    assert_string_equal(bell_error_last()->message, want);
}

/* ---- what is refused ----------------------------------------------------- */

static void
bad_magic(struct file *f)
{
    f->head.e_ident[0] = 'A';
}
static void
bad_class(struct file *f)
{
    f->head.e_ident[EI_CLASS] = ELFCLASS32;
}
static void
bad_machine(struct file *f)
{
    f->head.e_machine = 62;
}
static void
bad_system(struct file *f)
{
    f->head.e_ident[EI_OSABI] = 65;
}
static void
bad_version(struct file *f)
{
    f->head.e_ident[EI_ABIVERSION] = 1;
}
static void
bad_type(struct file *f)
{
    f->head.e_type = ET_DYN;
}
static void
bad_header_size(struct file *f)
{
    f->head.e_shentsize = 40;
}
static void
bad_headers(struct file *f)
{
    f->head.e_shoff = UINT64_MAX - 16;
}
static void
bad_names_index(struct file *f)
{
    f->head.e_shstrndx = 99;
}
static void
bad_names(struct file *f)
{
    memset(f->names, 'x', sizeof(f->names));
}
static void
bad_names_type(struct file *f)
{
    f->section[NAMES].sh_type = SHT_PROGBITS;
}
static void
bad_section(struct file *f)
{
    f->section[TEXT].sh_offset = UINT64_MAX - 100;
}
static void
bad_section_size(struct file *f)
{
    f->section[TEXT].sh_size = UINT64_MAX - 100;
}
static void
two_symbol_tables(struct file *f)
{
    f->section[BSS] = f->section[SYMBOLS];
}
static void
no_symbols(struct file *f)
{
    f->section[SYMBOLS].sh_type = SHT_PROGBITS;
}
static void
bad_symbol_size(struct file *f)
{
    f->section[SYMBOLS].sh_entsize = 16;
}
static void
thread_local_data(struct file *f)
{
    f->section[DATA].sh_flags |= SHF_TLS;
}
static void
odd_alignment(struct file *f)
{
    f->section[DATA].sh_addralign = 96;
}
static void
large_alignment(struct file *f)
{
    f->section[DATA].sh_addralign = 8192;
}
static void
large_section(struct file *f)
{
    f->section[BSS].sh_size = 1ull << 31;
}
static void
larger_section(struct file *f)
{
    f->section[BSS].sh_size = UINT64_MAX - 2000;
}
static void
many_bytes(struct file *f)
{
    f->section[BSS].sh_size = INT32_MAX - 900;
}
static void
got_relocation(struct file *f)
{
    f->data_rela[0] = rela(0, S_VALUE, 7, 0);
}
static void
relative_relocation(struct file *f)
{
    f->data_rela[0] = rela(0, S_VALUE, 13, 0);
}
static void
no_relocation(struct file *f)
{
    f->data_rela[0] = rela(0, S_VALUE, 0, 0);
}
static void
relocation_behind(struct file *f)
{
    f->data_rela[0] = rela(60, S_VALUE, 3, 0);
}
static void
relocation_far(struct file *f)
{
    f->data_rela[0] = rela(UINT64_MAX - 3, S_VALUE, 1, 0);
}
static void
relocation_symbol(struct file *f)
{
    f->data_rela[0] = rela(0, 1000, 3, 0);
}
static void
undefined_symbol(struct file *f)
{
    f->data_rela[0] = rela(0, S_OUTSIDE, 3, 0);
}
static void
symbol_of_lds(struct file *f)
{
    f->data_rela[0] = rela(0, S_VALUE, 1, 0);
    f->symbol[S_VALUE].st_shndx = 0xff00;
}
static void
symbol_not_loaded(struct file *f)
{
    f->symbol[S_VALUE].st_shndx = SYMBOLS;
}
static void
symbol_behind(struct file *f)
{
    f->symbol[S_VALUE].st_value = 65;
}
static void
relocation_of_zeros(struct file *f)
{
    f->section[DATA_RELA].sh_info = BSS;
}
static void
relocation_without_addend(struct file *f)
{
    f->section[DATA_RELA].sh_type = SHT_REL;
}
static void
relocation_size(struct file *f)
{
    f->section[DATA_RELA].sh_entsize = 16;
}
static void
relocation_link(struct file *f)
{
    f->section[DATA_RELA].sh_link = NAMES;
}
static void
absolute_word(struct file *f)
{
    f->data_rela[0] = rela(0, S_VALUE, 6, 0);
}
static void
distant_word(struct file *f)
{
    f->data_rela[0] = rela(0, S_VALUE, 4, 1ll << 31);
}
static void
small_descriptor(struct file *f)
{
    f->symbol[S_KD].st_size = 32;
}
static void
cut_descriptor(struct file *f)
{
    f->symbol[S_KD].st_value = 64;
}
static void
wild_descriptor(struct file *f)
{
    f->symbol[S_KD].st_value = UINT64_MAX - 63;
}
static void
odd_descriptor(struct file *f)
{
    f->symbol[S_KD].st_shndx = TEXT;
    f->symbol[S_KD].st_value = 32;
}
static void
zero_descriptor(struct file *f)
{
    f->symbol[S_KD].st_shndx = BSS;
}
static void
descriptor_not_loaded(struct file *f)
{
    f->symbol[S_KD].st_shndx = SYMBOLS;
}
static void
reserved_word(struct file *f)
{
    put_word(f, 12, 1);
}
static void
reserved_words(struct file *f)
{
    put_word(f, 40, 1);
}
static void
reserved_end(struct file *f)
{
    put_word(f, 60, 1u << 31);
}
static void
odd_entry(struct file *f)
{
    f->symbol[S_CODE].st_value = 128;
}
static void
entry_behind(struct file *f)
{
    f->symbol[S_CODE].st_value = 512;
}
static void
entry_in_data(struct file *f)
{
    f->symbol[S_CODE] = f->symbol[S_VALUE];
    f->symbol[S_CODE].st_value = 0;
}
static void
entry_wild(struct file *f)
{
    f->kd_rela.r_addend = INT64_MAX;
}
static void
entry_in_zeros(struct file *f)
{
    f->section[BSS].sh_flags |= SHF_EXECINSTR;
    f->symbol[S_CODE].st_shndx = BSS;
    f->symbol[S_CODE].st_value = 0;
}
static void
no_kernel(struct file *f)
{
    f->symbol[S_KD].st_info = STT_FUNC;
}
static void
address_in_descriptor(struct file *f)
{
    f->section[DATA_RELA].sh_info = RODATA;
    f->data_rela[0] = f->data_rela[1] = rela(0, S_VALUE, 1, 0);
}

static const struct {
    void (*damage)(struct file *f);
    const char *message;
} refusals[] = {
    {bad_magic, "not an ELF file: it begins with 41 45 4c 46"},
    {bad_class, "not a 64-bit little-endian ELF file"},
    {bad_machine, "for machine 62, not AMDGPU's 224"},
    {bad_system, "for system 65, not HSA's 64"},
    {bad_version, "code object version 3; 4 to 6 are known"},
    {bad_type, "ELF type 3: only relocatable objects (1) are loaded"},
    {bad_header_size, "9 section headers of 40 bytes, names in number 2"},
    {bad_headers, "truncated: 9 section headers at 0xffffffffffffffef"},
    {bad_names_index, "names in number 99"},
    {bad_names, "section 2 should hold names"},
    {bad_names_type, "section 2 should hold names"},
    {bad_section, "truncated: section '.text' is 512 bytes at 0xfff"},
    {bad_section_size, "truncated: section '.text' is 18446744073709551515"},
    {two_symbol_tables, "a second table of symbols"},
    {no_symbols, "no symbols"},
    {bad_symbol_size, "section '.symtab': a table of symbols, 144 bytes of "
                      "symbols of 16"},
    {thread_local_data, "section '.data': flags 0x403 cannot be loaded"},
    {odd_alignment, "section '.data' is aligned to 96 bytes"},
    {large_alignment, "section '.data' is aligned to 8192 bytes"},
    {large_section, "section '.bss' of 2147483648 bytes"},
    {larger_section, "section '.bss' of 18446744073709549615 bytes"},
    {many_bytes,
     "section '.bss' of 2147482747 bytes: images have at most 2147483647"},
    {got_relocation, "relocation type 7 in '.data' is not supported"},
    {relative_relocation, "relocation type 13 in '.data' is not supported"},
    {no_relocation, "relocation type 0 in '.data' is not supported"},
    {relocation_behind, "relocation at 0x3c of section '.data', which has 64"},
    {relocation_far, "relocation at 0xfffffffffffffffc of section '.data'"},
    {relocation_symbol, "a relocation with symbol 1000 of 6"},
    {undefined_symbol, "undefined symbol 'outside'"},
    {symbol_of_lds, "symbol 'value', whose section 65280 is not loaded"},
    {symbol_not_loaded, "symbol 'value', whose section 8 is not loaded"},
    {symbol_behind, "symbol 'value' is at 0x41 of section '.data'"},
    {relocation_of_zeros, "relocation in section '.bss', which has no bytes"},
    {relocation_without_addend, "section '.rela.data': type 9, 48 bytes"},
    {relocation_size, "section '.rela.data': type 4, 48 bytes of relocations "
                      "of 16"},
    {relocation_link, "symbols in section 2"},
    {absolute_word, "relocation at 0x0 of section '.data': 0x7f0012345418 does "
                    "not fit in 32 bits"},
    {distant_word, "0x80000018 does not fit in 32 bits"},
    {small_descriptor, "'kernel.kd' is 32 bytes at 0x0 of section '.rodata'"},
    {cut_descriptor, "'kernel.kd' is 64 bytes at 0x40 of section '.rodata'"},
    {wild_descriptor, "'kernel.kd' is 64 bytes at 0xffffffffffffffc0"},
    {odd_descriptor, "'kernel.kd' is 64 bytes at 0x20 of section '.text'"},
    {zero_descriptor, "'kernel.kd' is 64 bytes at 0x0 of section '.bss'"},
    {descriptor_not_loaded, "'kernel.kd' is in section 8, which is not loaded"},
    {reserved_word, "'kernel.kd': reserved words are not zero"},
    {reserved_words, "'kernel.kd': reserved words are not zero"},
    {reserved_end, "'kernel.kd': reserved words are not zero"},
    {odd_entry, "'kernel.kd': its code is at 0x80 of the image"},
    {entry_behind, "'kernel.kd': its code is at 0x200 of the image"},
    {entry_in_data, "'kernel.kd': its code is at 0x400 of the image"},
    {entry_wild, "'kernel.kd': its code is at 0x80000000000000ef"},
    {entry_in_zeros, "section '.bss': code without bytes"},
    {no_kernel, "no kernels in it"},
    {address_in_descriptor, "the descriptor at 0x300 of the image is another"},
};

static void
test_refusals(void **state)
{
    struct amd_object o;
    struct file f;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(refusals); i++) {
        uint8_t *image;

        make(&f);
        refusals[i].damage(&f);
        bell_error_clear();
        image = load(&f, sizeof(f), VA, &o);
        if (image || !strstr(bell_error_last()->message, refusals[i].message))
            fail_msg("case %zu, '%s': '%s'", i, refusals[i].message,
                     bell_error_last()->message);
        assert_int_equal(bell_error_last()->status, BELL_E_INVALID);
    }
}

/* The largest image, and one of a byte more. */
static void
test_largest(void **state)
{
    struct amd_object o;
    struct file f;

    (void)state;
    make(&f);
    f.section[BSS].sh_size = INT32_MAX - 2000;
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", "kernel", &o),
                     BELL_OK);
    f.section[BSS].sh_size += INT32_MAX - o.image_bytes;
    amd_object_close(&o);
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", "kernel", &o),
                     BELL_OK);
    assert_int_equal(o.image_bytes, INT32_MAX);
    amd_object_close(&o);
    f.section[BSS].sh_size++;
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", "kernel", &o),
                     BELL_E_INVALID);
    assert_non_null(
        strstr(bell_error_last()->message, "images have at most 2147483647"));
}

static void
test_prefixes(void **state)
{
    struct amd_object o;
    struct file f;
    size_t n;

    (void)state;
    make(&f);
    for (n = 0; n < sizeof(f); n++) {
        bell_error_clear();
        assert_null(load(&f, n, VA, &o));
        assert_non_null(strstr(bell_error_last()->message, "program 'test'"));
    }
}

/* Every byte of the file, in a few ways: it is loaded or refused. */
static void
test_damage(void **state)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x10};
    struct amd_object o;
    struct file f;
    size_t i, k, n_loaded = 0;

    (void)state;
    make(&f);
    f.section[BSS].sh_size = 8; /* images stay small */
    for (i = 0; i < sizeof(f); i++) {
        for (k = 0; k < ARRAY_LEN(masks); k++) {
            uint8_t *image;

            ((uint8_t *)&f)[i] ^= masks[k];
            bell_error_clear();
            if (f.section[BSS].sh_size < 1u << 20) {
                image = load(&f, sizeof(f), VA, &o);
                assert_true(image || bell_error_last()->message[0]);
                n_loaded += image != NULL;
                free(image);
            }
            ((uint8_t *)&f)[i] ^= masks[k];
        }
    }
    assert_in_range(n_loaded, sizeof(f.text) * 4, sizeof(f) * 4);
}

static void
test_out_of_memory(void **state)
{
    struct amd_object o;
    struct file f;

    (void)state;
    make(&f);
    host_fail_after(1, 1);
    assert_int_equal(amd_object_open(&f, sizeof(f), "test", NULL, &o),
                     BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
    assert_string_equal(bell_error_last()->message,
                        "program 'test': out of memory for 9 sections");
}

/* ---- LLVM's objects ------------------------------------------------------ */

#ifdef AMD_OBJECTS

/* Register counts belong to the code, not to the format. */
#define RSRC1_COUNTS 0x3ffu

/* A sum, ids of three dims, 272 bytes of stack. src: docs/hardware/amd-code.md,
 * "Compiling", "Kernel descriptor" */
static const struct chip {
    const char *name;
    uint32_t machine, filler;
    uint32_t rsrc1[3], rsrc2[3], properties[3];
    uint32_t add_rsrc3;
} chips[] = {
    {"gfx90a",
     0x3f,
     0xbf800000,
     {0x00af0040, 0x00af0040, 0x00af0081},
     {0x8c, 0xb8c, 0x91},
     {0x9, 0x9, 0x29},
     1},
    {"gfx942",
     0x4c,
     0xbf800000,
     {0x00af0040, 0x00af0080, 0x00af0045},
     {0x84, 0xb84, 0x85},
     {0x8, 0x8, 0x8},
     1},
    {"gfx1030",
     0x36,
     0xbf9f0000,
     {0x60af0040, 0x60af0040, 0x60af0080},
     {0x8c, 0xb8c, 0x91},
     {0x409, 0x409, 0x429},
     0},
    {"gfx1100",
     0x41,
     0xbf9f0000,
     {0x60af0080, 0x60af0080, 0x60af0080},
     {0x9e, 0xb9a, 0x9f},
     {0x408, 0x408, 0x408},
     0},
    {"gfx1201",
     0x4e,
     0xbf9f0000,
     {0x600f0040, 0x600f0000, 0x600f0040},
     {0x84, 0xb84, 0x85},
     {0x408, 0x408, 0x408},
     0},
};

static uint8_t *
read_object(const char *chip, size_t *out_bytes)
{
    uint8_t *data = malloc(1u << 16);
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/loader_%s.o", AMD_OBJECTS, chip);
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_non_null(data);
    *out_bytes = fread(data, 1, 1u << 16, file);
    fclose(file);
    return data;
}

static void
open_ok(const uint8_t *data, size_t size_bytes, const char *entry,
        struct amd_object *out_object)
{
    if (amd_object_open(data, size_bytes, "loader", entry, out_object) !=
        BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
test_descriptors(void **state)
{
    static const char *const kernels[3] = {"add", "ids", "stack"};
    static const uint32_t kernarg[3] = {24, 8, 12}, scratch[3] = {0, 0, 272};
    size_t i, k, size_bytes;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        uint8_t *data = read_object(chips[i].name, &size_bytes);

        for (k = 0; k < 3; k++) {
            struct amd_object o;

            open_ok(data, size_bytes, kernels[k], &o);
            assert_int_equal(o.machine, chips[i].machine);
            assert_int_equal(o.rsrc1 & ~RSRC1_COUNTS,
                             chips[i].rsrc1[k] & ~RSRC1_COUNTS);
            assert_int_equal(o.rsrc2, chips[i].rsrc2[k]);
            assert_int_equal(o.properties, chips[i].properties[k]);
            assert_int_equal(o.kernarg_bytes, kernarg[k]);
            assert_int_equal(o.scratch_bytes, scratch[k]);
            assert_int_equal(o.lds_bytes, 0);
            if (k == 0) {
                assert_int_equal(o.rsrc1, chips[i].rsrc1[0]);
                assert_int_equal(o.rsrc3, chips[i].add_rsrc3);
            }
            amd_object_close(&o);
        }
        free(data);
    }
}

/* Offsets between sections are the same at all addresses, and the kernels of
 * one object share an image. */
static void
test_images(void **state)
{
    size_t i, size_bytes;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        uint8_t *data = read_object(chips[i].name, &size_bytes);
        uint8_t *image[2];
        struct amd_object add, look;

        open_ok(data, size_bytes, "add", &add);
        open_ok(data, size_bytes, "look", &look);
        assert_int_equal(look.lds_bytes, 1024);
        assert_int_equal(add.image_bytes, look.image_bytes);
        assert_int_not_equal(add.entry_offset, look.entry_offset);
        image[0] = malloc(add.image_bytes);
        image[1] = malloc(add.image_bytes);
        assert_int_equal(amd_object_link(&add, VA, chips[i].filler, image[0]),
                         BELL_OK);
        assert_int_equal(
            amd_object_link(&look, 0x1000, chips[i].filler, image[1]), BELL_OK);
        assert_memory_equal(image[0], image[1], add.image_bytes);
        assert_int_equal(word_at(image[0], add.code_bytes - 4, 4),
                         chips[i].filler);
        assert_int_equal(word_at(image[0], add.code_bytes - 256, 4),
                         chips[i].filler);
        free(image[0]);
        free(image[1]);
        amd_object_close(&add);
        amd_object_close(&look);
        free(data);
    }
}

/* Memory of the interpreter: the image, and a page of data behind it. */
struct arena {
    uint8_t *bytes;
    uint64_t size_bytes;
};

static void *
arena_at(void *user, uint64_t va, uint32_t n_bytes, enum amd_access access)
{
    struct arena *a = user;

    (void)access;
    if (va < VA || va - VA > a->size_bytes - n_bytes)
        return NULL;
    return a->bytes + (va - VA);
}

/* look: out[i] = 77 * table[(i ^ 1) & 7], by a call and a table. */
static void
run_look(enum isa_gen gen, const char *chip)
{
    size_t size_bytes;
    uint8_t *data = read_object(chip, &size_bytes);
    struct amd_wave_report report;
    struct amd_launch launch = {.grid = {1, 1, 1}, .local = {256, 1, 1}};
    struct amd_object o;
    struct amd_code *code;
    struct arena arena;
    uint64_t args, out;
    uint32_t i;

    open_ok(data, size_bytes, "look", &o);
    args = align_up(o.image_bytes, 4096);
    out = args + 64;
    arena.size_bytes = out + 1024;
    arena.bytes = calloc(1, arena.size_bytes);
    assert_int_equal(amd_object_link(&o, VA, 0xbf9f0000, arena.bytes), BELL_OK);
    memcpy(arena.bytes + args, &(uint64_t){VA + out}, 8);
    launch.pc = VA + o.entry_offset;
    launch.rsrc1 = o.rsrc1;
    launch.rsrc2 = o.rsrc2 | (o.lds_bytes + 511) / 512 << 15;
    launch.rsrc3 = o.rsrc3;
    launch.wave32 = o.properties >> 10 & 1;
    launch.user_data[0] = (uint32_t)(VA + args);
    launch.user_data[1] = (uint32_t)((VA + args) >> 32);
    launch.memory = (struct amd_memory){.at = arena_at, .user = &arena};
    assert_int_equal(amd_code_create(gen, &code), BELL_OK);
    if (amd_wave_run(code, &launch, &report) != BELL_OK)
        fail_msg("%s: %s", chip, bell_error_last()->message);
    for (i = 0; i < 256; i++)
        assert_int_equal(word_at(arena.bytes, out + 4 * i, 4),
                         77 * 101 * (((i ^ 1) & 7) + 1));
    amd_code_destroy(code);
    amd_object_close(&o);
    free(arena.bytes);
    free(data);
}

static void
test_run(void **state)
{
    (void)state;
    run_look(ISA_GFX942, "gfx942");
    run_look(ISA_GFX11, "gfx1100");
}

#endif

/* ---- every byte ---------------------------------------------------------- */

static void
look_at_object(struct outcomes *o, const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1), *image = NULL;
    uint64_t hash = 0;
    struct amd_object a;

    memcpy(copy, data, n);
    if (amd_object_open(copy, n, "test", "kernel", &a) != BELL_OK) {
        outcome(o, "%s", bell_error_last()->message);
        free(copy);
        return;
    }
    if (a.image_bytes < 1 << 20) {
        image = malloc((size_t)a.image_bytes);
        if (amd_object_link(&a, VA, 0xbf9f0000, image) != BELL_OK)
            outcome(o, "%s", bell_error_last()->message);
        else
            hash = outcomes_hash(image, (size_t)a.image_bytes, 0);
    }
    outcome(o,
            "%llu %llu %llu %llu: %x %x %x %x %x, %u %u %u %x, %u, %llx %llx",
            (unsigned long long)a.code_bytes, (unsigned long long)a.image_bytes,
            (unsigned long long)a.entry_offset,
            (unsigned long long)a.descriptor_offset, a.machine, a.rsrc1,
            a.rsrc2, a.rsrc3, a.properties, a.lds_bytes, a.scratch_bytes,
            a.kernarg_bytes, a.kernarg_preload, a.max_group,
            (unsigned long long)outcomes_hash(a.descriptor, 64, 0),
            (unsigned long long)hash);
    amd_object_close(&a);
    free(image);
    free(copy);
}

static void
test_every_byte(void **state)
{
    struct outcomes o = {0};
    struct file f;

    (void)state;
    make(&f);
    outcomes_vary(&f, sizeof(f), look_at_object, &o);
    outcomes_are(&o, 0xb1c215a55d8a4f4f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_code_end),
        cmocka_unit_test(test_relocations),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_out_of_memory),
#ifdef AMD_OBJECTS
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_run),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
