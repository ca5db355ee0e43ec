/* src: docs/hardware/amd-code.md, "Objects", "Kernel descriptor". */
#include "amd_object.h"

#include <assert.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(cond)                                                             \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);         \
            abort();                                                           \
        }                                                                      \
    } while (0)

void
memory_init(struct arena_memory *m, size_t size_bytes)
{
    m->bytes = calloc(1, size_bytes);
    NEED(m->bytes);
    m->size_bytes = size_bytes;
    m->used = 0;
}

void
memory_fini(struct arena_memory *m)
{
    free(m->bytes);
}

uint64_t
memory_put(struct arena_memory *m, const void *data, size_t size_bytes)
{
    uint64_t va;

    m->used = (m->used + 255) & ~(size_t)255;
    NEED(size_bytes <= m->size_bytes - m->used);
    va = ARENA_VA + m->used;
    if (data)
        memcpy(m->bytes + m->used, data, size_bytes);
    m->used += size_bytes;
    return va;
}

void *
memory_at(const struct arena_memory *m, uint64_t va)
{
    return m->bytes + (va - ARENA_VA);
}

static void *
access_at(void *user, uint64_t va, uint32_t n_bytes, enum amd_access access)
{
    struct arena_memory *m = user;

    (void)access;
    if (va < ARENA_VA || va - ARENA_VA > m->size_bytes - n_bytes)
        return NULL;
    return memory_at(m, va);
}

struct amd_memory
memory_access(struct arena_memory *m)
{
    return (struct amd_memory){.at = access_at, .user = m};
}

static const Elf64_Shdr *
sections(const struct amd_object *o, unsigned *out_n)
{
    const Elf64_Ehdr *header = (const void *)o->file;

    *out_n = header->e_shnum;
    return (const void *)(o->file + header->e_shoff);
}

/* Writes one of the three relocations that kernels come with. */
static void
relocate(struct amd_object *o, uint64_t place, uint32_t type, uint64_t value)
{
    uint32_t word = (uint32_t)(type == 11 ? value >> 32 : value);

    if (type == 5) {
        memcpy(memory_at(o->memory, place), &value, 8);
        return;
    }
    NEED(type == 10 || type == 11);
    memcpy(memory_at(o->memory, place), &word, 4);
}

static void
relocate_all(struct amd_object *o)
{
    unsigned n, i;
    const Elf64_Shdr *s = sections(o, &n);

    for (i = 0; i < n; i++) {
        const Elf64_Rela *rela = (const void *)(o->file + s[i].sh_offset);
        const Elf64_Sym *symbols;
        size_t k;

        if (s[i].sh_type != SHT_RELA || !o->section_va[s[i].sh_info])
            continue;
        symbols = (const void *)(o->file + s[s[i].sh_link].sh_offset);
        for (k = 0; k < s[i].sh_size / sizeof(*rela); k++) {
            const Elf64_Sym *to = &symbols[ELF64_R_SYM(rela[k].r_info)];
            uint64_t at = o->section_va[s[i].sh_info] + rela[k].r_offset;

            relocate(o, at, (uint32_t)ELF64_R_TYPE(rela[k].r_info),
                     o->section_va[to->st_shndx] + to->st_value +
                         (uint64_t)rela[k].r_addend - at);
        }
    }
}

void
object_load_data(struct amd_object *o, struct arena_memory *m, const void *data,
                 size_t size_bytes)
{
    const Elf64_Shdr *s;
    unsigned n, i;

    memset(o, 0, sizeof(*o));
    o->memory = m;
    o->file = malloc(size_bytes);
    NEED(o->file);
    memcpy(o->file, data, size_bytes);
    s = sections(o, &n);
    NEED(n <= 64);
    for (i = 0; i < n; i++) {
        if ((s[i].sh_flags & SHF_ALLOC) && s[i].sh_type == SHT_PROGBITS)
            o->section_va[i] =
                memory_put(m, o->file + s[i].sh_offset, s[i].sh_size);
    }
    relocate_all(o);
}

void
object_load(struct amd_object *o, struct arena_memory *m, const char *path)
{
    FILE *file = fopen(path, "rb");
    void *data;
    long size;

    NEED(file && fseek(file, 0, SEEK_END) == 0);
    size = ftell(file);
    data = malloc((size_t)size);
    NEED(data);
    rewind(file);
    NEED(fread(data, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    object_load_data(o, m, data, (size_t)size);
    free(data);
}

void
object_free(struct amd_object *o)
{
    free(o->file);
}

uint64_t
object_section(const struct amd_object *o, const char *name, size_t *out_bytes)
{
    const Elf64_Ehdr *header = (const void *)o->file;
    unsigned n, i;
    const Elf64_Shdr *s = sections(o, &n);
    const char *names = (const char *)o->file + s[header->e_shstrndx].sh_offset;

    for (i = 0; i < n; i++) {
        if (strcmp(names + s[i].sh_name, name) == 0) {
            *out_bytes = s[i].sh_size;
            return o->section_va[i];
        }
    }
    *out_bytes = 0;
    return 0;
}

/* The address of a symbol. */
static uint64_t
find_symbol(const struct amd_object *o, const char *name)
{
    unsigned n, i;
    const Elf64_Shdr *s = sections(o, &n);
    size_t k;

    for (i = 0; i < n; i++) {
        const Elf64_Sym *symbols = (const void *)(o->file + s[i].sh_offset);
        const char *names;

        if (s[i].sh_type != SHT_SYMTAB)
            continue;
        names = (const char *)o->file + s[s[i].sh_link].sh_offset;
        for (k = 0; k < s[i].sh_size / sizeof(*symbols); k++) {
            if (strcmp(names + symbols[k].st_name, name) == 0)
                return o->section_va[symbols[k].st_shndx] + symbols[k].st_value;
        }
    }
    fprintf(stderr, "no symbol %s\n", name);
    abort();
}

uint32_t
object_kernel(const struct amd_object *o, const char *name,
              struct amd_launch *launch)
{
    unsigned char kd[64];
    char symbol[80];
    uint32_t lds;
    int64_t entry;
    uint16_t properties;
    uint64_t va;

    snprintf(symbol, sizeof(symbol), "%s.kd", name);
    va = find_symbol(o, symbol);
    memcpy(kd, memory_at(o->memory, va), sizeof(kd));
    memcpy(&lds, kd, 4);
    memcpy(&launch->scratch_bytes, kd + 4, 4);
    memcpy(&entry, kd + 16, 8);
    memcpy(&launch->rsrc3, kd + 44, 4);
    memcpy(&launch->rsrc1, kd + 48, 4);
    memcpy(&launch->rsrc2, kd + 52, 4);
    memcpy(&properties, kd + 56, 2);
    launch->rsrc2 |= (lds + 511) / 512 << 15;
    launch->pc = va + (uint64_t)entry;
    return properties;
}

/* src: docs/hardware/amd-code.md, "Start of a wave";
 * docs/hardware/amd-queues.md, "Scratch" (descriptor of waves of 64 on gfx9, of
 * 32 on gfx10) */
void
object_user_data(struct amd_object *o, enum isa_gen gen, uint32_t properties,
                 uint64_t args_va, struct amd_launch *launch)
{
    uint32_t *at = launch->user_data, n_bytes;
    uint64_t scratch;

    launch->scratch_waves = 32;
    launch->scratch_wave_bytes = launch->scratch_bytes * 64;
    n_bytes = launch->scratch_wave_bytes * launch->scratch_waves;
    NEED((properties & ~0x429u) == 0);
    if (properties & 1) {
        scratch = memory_put(o->memory, NULL, n_bytes + 64);
        *at++ = (uint32_t)scratch;
        *at++ = (uint32_t)(scratch >> 32) | 1u << 31;
        *at++ = n_bytes;
        *at++ = isa_is_gfx9(gen) ? 0x00ea4fac : 0x21c14fac;
    }
    *at++ = (uint32_t)args_va;
    *at++ = (uint32_t)(args_va >> 32);
    if (properties >> 5 & 1) {
        NEED(properties & 1);
        *at++ = launch->user_data[0];
        *at++ = launch->user_data[1] & 0xffff;
    }
}
