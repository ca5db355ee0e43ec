/* Code objects: relocatable ELF64 with AMD's kernel descriptors. */
#include "hcq/amd/amd_object.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/amd/amd_meta.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/hcq_elf.h"

#define MACHINE_AMDGPU 224u
#define OSABI_HSA      64u
/* EI_ABIVERSION of code objects 4 to 6. */
#define ABI_FIRST 2u
#define ABI_LAST  4u
#define MACH_MASK 0xffu

/* 32-bit offsets reach so far. */
#define IMAGE_MAX INT32_MAX
/* Code is fetched ahead of where a kernel ends. src: docs/hardware/amd-code.md,
 * "Objects" */
#define CODE_SLACK_BYTES 256u
#define DATA_ALIGN       64u

/* src: docs/hardware/amd-code.md, "Objects" */
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
    struct hcq_elf elf;
};

/* A part of the image: what relocations are applied to. */
struct window {
    uint8_t *bytes;
    uint64_t offset, size_bytes;
};

#define refuse(r, ...) hcq_elf_refuse(&(r)->elf, __VA_ARGS__)

/* ---- the file ------------------------------------------------------------ */

/* Sections whose bytes the image has. Notes are for who reads the file. */
static bool
is_loaded_section(const Elf64_Shdr *s)
{
    return (s->sh_flags & SHF_ALLOC) &&
           (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS);
}

static bool
is_code(const Elf64_Shdr *s)
{
    return is_loaded_section(s) && (s->sh_flags & SHF_EXECINSTR);
}

static bell_status
check_object_header(const struct reader *r)
{
    const Elf64_Ehdr *head = &r->elf.head;
    uint32_t abi = head->e_ident[EI_ABIVERSION];

    if (head->e_ident[EI_OSABI] != OSABI_HSA)
        return refuse(r, "for system %u, not HSA's %u", head->e_ident[EI_OSABI],
                      OSABI_HSA);
    if (abi < ABI_FIRST || abi > ABI_LAST)
        return refuse(r, "code object version %u; %u to %u are known", abi + 2,
                      ABI_FIRST + 2, ABI_LAST + 2);
    if (head->e_type != ET_REL)
        return refuse(r,
                      "ELF type %u: only relocatable objects (%u) are loaded",
                      head->e_type, ET_REL);
    return BELL_OK;
}

static bell_status
open_object_file(struct reader *r)
{
    static const struct hcq_elf_machine machine = {MACHINE_AMDGPU, "AMDGPU"};
    uint32_t i;

    BELL_TRY(hcq_elf_open(r->o->name, r->o->data, r->o->size_bytes, machine,
                          &r->elf));
    BELL_TRY(check_object_header(r));
    for (i = 0; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if (is_code(&s) && s.sh_type == SHT_NOBITS)
            return refuse(r, "section '%s': code without bytes",
                          hcq_elf_section_name(&r->elf, &s));
        if (is_loaded_section(&s) && (s.sh_flags & (SHF_COMPRESSED | SHF_TLS)))
            return refuse(r, "section '%s': flags 0x%llx cannot be loaded",
                          hcq_elf_section_name(&r->elf, &s),
                          (unsigned long long)s.sh_flags);
    }
    return BELL_OK;
}

/* ---- the image ----------------------------------------------------------- */

static bell_status
place_object_part(struct reader *r, bool code, uint64_t align)
{
    uint32_t i;

    assert(is_pow2(align) && align <= AMD_OBJECT_ALIGN);
    for (i = 1; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if (is_loaded_section(&s) && is_code(&s) == code)
            BELL_TRY(hcq_elf_place(&r->elf, i, align, AMD_OBJECT_ALIGN,
                                   IMAGE_MAX, r->o->places,
                                   &r->o->image_bytes));
    }
    return BELL_OK;
}

/* Code first, then what is read and written. */
static bell_status
lay_out_object(struct reader *r)
{
    struct amd_object *o = r->o;

    BELL_TRY(hcq_elf_places(&r->elf, &o->places));
    BELL_TRY(place_object_part(r, true, AMD_OBJECT_KERNEL_CODE_ALIGN));
    o->image_bytes = align_up(o->image_bytes + CODE_SLACK_BYTES,
                              AMD_OBJECT_KERNEL_CODE_ALIGN);
    o->code_bytes = o->image_bytes;
    BELL_TRY(place_object_part(r, false, DATA_ALIGN));
    return BELL_OK;
}

/* ---- relocations --------------------------------------------------------- */

/* Bytes that a type writes; 0: unknown. */
static uint32_t
object_patch_bytes(uint32_t type)
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

    assert(object_patch_bytes(type));
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
    uint32_t n = object_patch_bytes(type);
    uint64_t value, at;

    if (n == 0)
        return refuse(r, "relocation type %u in '%s' is not supported", type,
                      hcq_elf_section_name(&r->elf, to));
    if (rela->r_offset > to->sh_size || to->sh_size - rela->r_offset < n)
        return refuse(r,
                      "relocation at 0x%llx of section '%s', which has %llu "
                      "bytes",
                      (unsigned long long)rela->r_offset,
                      hcq_elf_section_name(&r->elf, to),
                      (unsigned long long)to->sh_size);
    BELL_TRY(hcq_elf_address(&r->elf, r->o->places,
                             (uint32_t)ELF64_R_SYM(rela->r_info), va, &value));
    at = place + rela->r_offset;
    if (at < w->offset || at - w->offset + n > w->size_bytes)
        return BELL_OK;
    if (!patch_value(type, value + (uint64_t)rela->r_addend, va + at, &value))
        return refuse(r,
                      "relocation at 0x%llx of section '%s': 0x%llx does not "
                      "fit in 32 bits",
                      (unsigned long long)rela->r_offset,
                      hcq_elf_section_name(&r->elf, to),
                      (unsigned long long)value);
    memcpy(w->bytes + (at - w->offset), &value, n);
    return BELL_OK;
}

static bell_status
apply_object_section(const struct reader *r, const Elf64_Shdr *s, uint64_t va,
                     const struct window *w)
{
    Elf64_Shdr to = hcq_elf_section(&r->elf, s->sh_info);
    Elf64_Rela rela;
    uint64_t i;

    if (s->sh_type != SHT_RELA || s->sh_entsize != sizeof(rela) ||
        s->sh_size % sizeof(rela) || s->sh_link != r->elf.symbols_idx)
        return refuse(r,
                      "section '%s': type %u, %llu bytes of relocations of "
                      "%llu, symbols in section %u",
                      hcq_elf_section_name(&r->elf, s), s->sh_type,
                      (unsigned long long)s->sh_size,
                      (unsigned long long)s->sh_entsize, s->sh_link);
    if (to.sh_type == SHT_NOBITS)
        return refuse(r, "relocation in section '%s', which has no bytes",
                      hcq_elf_section_name(&r->elf, &to));
    for (i = 0; i < s->sh_size / sizeof(rela); i++) {
        memcpy(&rela, r->o->data + s->sh_offset + i * sizeof(rela),
               sizeof(rela));
        BELL_TRY(apply_rela(r, &rela, &to, r->o->places[s->sh_info], va, w));
    }
    return BELL_OK;
}

/* All relocations of what is loaded. */
static bell_status
apply_object_relocations(const struct reader *r, uint64_t va,
                         const struct window *w)
{
    uint32_t i;

    for (i = 1; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if ((s.sh_type != SHT_REL && s.sh_type != SHT_RELA) ||
            s.sh_info >= r->elf.n_sections ||
            r->o->places[s.sh_info] == HCQ_ELF_NOT_LOADED)
            continue;
        BELL_TRY(apply_object_section(r, &s, va, w));
    }
    return BELL_OK;
}

/* ---- the kernel ---------------------------------------------------------- */

/* The length of the name of the kernel whose descriptor a symbol is; 0: it is
 * none's. */
static size_t
kernel_name_bytes(const struct reader *r, const Elf64_Sym *sym)
{
    static const char suffix[] = ".kd";
    const char *name = hcq_elf_symbol_name(&r->elf, sym);
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
    for (i = 0; i < r->elf.n_symbols && used < size_bytes; i++) {
        Elf64_Sym sym = hcq_elf_symbol(&r->elf, i);
        size_t n = kernel_name_bytes(r, &sym);

        if (n)
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%.*s",
                                     used ? ", " : "",
                                     (int)(n < size_bytes ? n : size_bytes),
                                     hcq_elf_symbol_name(&r->elf, &sym));
    }
}

/* The symbol of the kernel's descriptor. */
static bell_status
find_kernel(const struct reader *r, Elf64_Sym *out_sym)
{
    uint32_t i, n_found = 0;
    char names[160];

    for (i = 0; i < r->elf.n_symbols; i++) {
        Elf64_Sym sym = hcq_elf_symbol(&r->elf, i);
        size_t n = kernel_name_bytes(r, &sym);

        if (!n ||
            (r->entry &&
             (strlen(r->entry) != n ||
              memcmp(r->entry, hcq_elf_symbol_name(&r->elf, &sym), n) != 0)))
            continue;
        n_found++;
        *out_sym = sym;
    }
    if (n_found == 1)
        return BELL_OK;
    list_kernels(r, names, sizeof(names));
    if (!names[0])
        return refuse(r, "no kernels in it");
    if (n_found)
        return refuse(r, "%u kernels, and none is chosen: %s", n_found, names);
    return refuse(r, "no kernel '%s'; there are: %s", r->entry, names);
}

/* Whether there is code at an offset of the image. */
static bool
has_code(const struct reader *r, uint64_t offset)
{
    uint32_t i;

    for (i = 1; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if (is_code(&s) && offset >= r->o->places[i] &&
            offset - r->o->places[i] < s.sh_size)
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

    assert(o->descriptor_offset + sizeof(*d) <= o->image_bytes);
    if (!is_zero(d->pad0, sizeof(d->pad0)) ||
        !is_zero(d->pad1, sizeof(d->pad1)) ||
        !is_zero(d->pad2, sizeof(d->pad2)))
        return refuse(r, "'%s': reserved words are not zero", name);
    o->entry_offset = o->descriptor_offset + d->entry_offset;
    if (o->entry_offset % AMD_OBJECT_KERNEL_CODE_ALIGN ||
        !has_code(r, o->entry_offset))
        return refuse(r,
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

/* The metadata must agree with the descriptor. */
static bell_status
check_meta(const struct reader *r, const struct amd_meta *meta,
           const char *name)
{
    const struct amd_object *o = r->o;
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
            return refuse(r, "'%s' has %u %s, and %u in the notes", name,
                          rows[i].has, rows[i].what, rows[i].said);
    }
    if (meta->max_group == 0)
        return refuse(r, "'%s': groups of no work-items in the notes", name);
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

    for (i = 1; i < r->elf.n_sections; i++) {
        Elf64_Shdr s = hcq_elf_section(&r->elf, i);

        if (s.sh_type != SHT_NOTE)
            continue;
        if (!amd_meta_read(o->data + s.sh_offset, s.sh_size, name, strlen(name),
                           &meta, &at))
            return refuse(r, "section '%s': malformed at 0x%llx of %llu bytes",
                          hcq_elf_section_name(&r->elf, &s),
                          (unsigned long long)at,
                          (unsigned long long)s.sh_size);
        BELL_TRY(check_meta(r, &meta, name));
        if (meta.max_group != AMD_META_NONE)
            o->max_group = meta.max_group;
    }
    return BELL_OK;
}

/* Finds the kernel, and reads its descriptor as relocations make it. */
static bell_status
read_kernel_note(struct reader *r)
{
    struct amd_object *o = r->o;
    struct amd_object_descriptor d;
    struct window w = {.bytes = (uint8_t *)&d, .size_bytes = sizeof(d)};
    Elf64_Shdr s;
    Elf64_Sym sym;

    BELL_TRY(find_kernel(r, &sym));
    if (sym.st_shndx >= r->elf.n_sections ||
        o->places[sym.st_shndx] == HCQ_ELF_NOT_LOADED)
        return refuse(r, "'%s' is in section %u, which is not loaded",
                      hcq_elf_symbol_name(&r->elf, &sym), sym.st_shndx);
    s = hcq_elf_section(&r->elf, sym.st_shndx);
    if (s.sh_type == SHT_NOBITS || sym.st_value > s.sh_size ||
        s.sh_size - sym.st_value < sizeof(d) || sym.st_size != sizeof(d) ||
        (o->places[sym.st_shndx] + sym.st_value) % sizeof(d))
        return refuse(
            r,
            "'%s' is %llu bytes at 0x%llx of section '%s', which "
            "has %llu: no descriptor",
            hcq_elf_symbol_name(&r->elf, &sym), (unsigned long long)sym.st_size,
            (unsigned long long)sym.st_value, hcq_elf_section_name(&r->elf, &s),
            (unsigned long long)s.sh_size);
    o->descriptor_offset = o->places[sym.st_shndx] + sym.st_value;
    w.offset = o->descriptor_offset;
    memcpy(&d, o->data + s.sh_offset + sym.st_value, sizeof(d));
    BELL_TRY(apply_object_relocations(r, 0, &w));
    BELL_TRY(read_descriptor(r, &d, hcq_elf_symbol_name(&r->elf, &sym)));
    BELL_TRY(read_notes(r, hcq_elf_symbol_name(&r->elf, &sym)));
    return BELL_OK;
}

/* ---- all of it ----------------------------------------------------------- */

static bell_status
read_object(struct reader *r)
{
    BELL_TRY(open_object_file(r));
    r->o->machine = r->elf.head.e_flags & MACH_MASK;
    BELL_TRY(lay_out_object(r));
    BELL_TRY(read_kernel_note(r));
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
    bell_status status = read_object(&r);

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

bell_status
amd_object_link(const struct amd_object *object, uint64_t va, uint32_t filler,
                uint8_t *image)
{
    struct amd_object copy = *object;
    struct reader r = {.o = &copy};
    struct window w = {image, 0, object->image_bytes};
    uint64_t at;

    assert(va % AMD_OBJECT_ALIGN == 0);
    assert(object->places && object->code_bytes <= object->image_bytes);
    BELL_TRY(open_object_file(&r)); /* as when it was opened */
    for (at = 0; at < object->code_bytes; at += sizeof(filler))
        memcpy(image + at, &filler, sizeof(filler));
    memset(image + at, 0, (size_t)(object->image_bytes - at));
    hcq_elf_copy(&r.elf, object->places, image);
    BELL_TRY(apply_object_relocations(&r, va, &w));
    if (memcmp(image + object->descriptor_offset, object->descriptor,
               sizeof(object->descriptor)) != 0)
        return refuse(&r,
                      "the descriptor at 0x%llx of the image is another one at "
                      "address 0x%llx",
                      (unsigned long long)object->descriptor_offset,
                      (unsigned long long)va);
    return BELL_OK;
}
