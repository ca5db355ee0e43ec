/* ELF files that have to be refused, whoever is to load them. */
#include "broken.h"

#include <stdlib.h>
#include <string.h>

unsigned char cts_broken[256u << 10];

Elf64_Ehdr *
cts_copy_binary(const void *data, size_t size_bytes, const char *entry,
                struct cts_bad *out)
{
    if (size_bytes > sizeof(cts_broken))
        abort();
    memcpy(cts_broken, data, size_bytes);
    out->data = cts_broken;
    out->size_bytes = size_bytes;
    out->entry = entry;
    return (Elf64_Ehdr *)(void *)cts_broken;
}

void
cts_break_file(unsigned idx, struct cts_bad *out)
{
    static const char *const expect[CTS_N_BROKEN_FILES][2] = {
        {"empty", "no binary"},         {"shorter than a header", "truncated"},
        {"cut off", "truncated"},       {"not ELF", "not an ELF file"},
        {"another machine", "machine"}, {"32-bit", "64-bit"},
    };
    Elf64_Ehdr *hdr = (void *)cts_broken;

    out->what = expect[idx][0];
    out->expect = expect[idx][1];
    if (idx == 0)
        out->size_bytes = 0;
    else if (idx == 1)
        out->size_bytes = 20;
    else if (idx == 2)
        out->size_bytes /= 2;
    else if (idx == 3)
        cts_broken[0] = 'P';
    else if (idx == 4)
        hdr->e_machine = EM_S390; /* nobody's here */
    else
        hdr->e_ident[EI_CLASS] = ELFCLASS32;
}

Elf64_Shdr *
cts_find_section(const char *name)
{
    const Elf64_Ehdr *head = (const void *)cts_broken;
    Elf64_Shdr *s = (void *)(cts_broken + head->e_shoff);
    const char *names =
        (const char *)cts_broken + s[head->e_shstrndx].sh_offset;
    uint32_t i;

    for (i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + s[i].sh_name, name) == 0)
            return &s[i];
    }
    abort();
}

Elf64_Sym *
cts_find_symbol(const char *name)
{
    const Elf64_Shdr *s = cts_find_section(".symtab");
    const char *names =
        (const char *)cts_broken + cts_find_section(".strtab")->sh_offset;
    Elf64_Sym *sym = (void *)(cts_broken + s->sh_offset);
    uint64_t i;

    for (i = 0; i < s->sh_size / sizeof(*sym); i++) {
        if (strcmp(names + sym[i].st_name, name) == 0)
            return &sym[i];
    }
    abort();
}
