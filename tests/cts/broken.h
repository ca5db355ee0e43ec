/* A copy of a good ELF file, to be broken: what all backends' loaders refuse
 * alike, and the means to break what only one of them has. */
#ifndef BELL_TESTS_CTS_BROKEN_H
#define BELL_TESTS_CTS_BROKEN_H

#include "programs.h"

#include <elf.h>

#define CTS_N_BROKEN_FILES 6 /* ways that cts_break_file knows */

extern unsigned char cts_broken[256u << 10];

/* Copies the file there; *out is what it is before it is broken. */
Elf64_Ehdr *cts_copy_binary(const void *data, size_t size_bytes,
                            const char *entry, struct cts_bad *out);

/* Breaks the copy in way `idx`. */
void cts_break_file(unsigned idx, struct cts_bad *out);

/* The section or symbol of that name in the copy; it is there. */
Elf64_Shdr *cts_find_section(const char *name);
Elf64_Sym *cts_find_symbol(const char *name);

#endif
