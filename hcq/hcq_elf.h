/* Reads ELF files of programs: sections, symbols, and where sections go in an
 * image. For the loaders of backends.
 *
 * A file may come from anywhere, so every field of it is taken for hostile:
 * once hcq_elf_open has accepted it, every section that has bytes in the file
 * lies inside of it, and every name ends. Nothing is copied, no state: any
 * thread.
 *
 * src: the System V ABI's ELF-64 object file format
 */
#ifndef BELL_HCQ_HCQ_ELF_H
#define BELL_HCQ_HCQ_ELF_H

#include <elf.h>
#include <stdint.h>

#include "base/status.h"

/* The offset of a section that is not in the image. */
#define HCQ_ELF_NOT_LOADED UINT64_MAX

/* An accepted file. It borrows its bytes and the name. */
struct hcq_elf {
    const char *program; /* for messages */
    const uint8_t *data;
    uint64_t size_bytes;
    Elf64_Ehdr head;
    Elf64_Shdr names, symbols, symbol_names;
    uint32_t n_sections, n_symbols;
    uint32_t symbols_idx; /* the section that they are in */
};

/* What is for whom: checked first. */
struct hcq_elf_machine {
    uint32_t number; /* e_machine */
    const char *name;
};

/* BELL_E_INVALID: not 64-bit little-endian ELF for the machine, cut off, no
 * table of symbols or more than one; the message names the program and what
 * is wrong where. */
BELL_MUST_CHECK bell_status hcq_elf_open(const char *program, const void *data,
                                         uint64_t size_bytes,
                                         struct hcq_elf_machine machine,
                                         struct hcq_elf *out_elf);

/* Fails with BELL_E_INVALID: "program 'NAME': " and a message. */
#define hcq_elf_refuse(elf, ...)                                               \
    (bell_fail(BELL_E_INVALID, __VA_ARGS__), hcq_elf_prefix(elf))
bell_status hcq_elf_prefix(const struct hcq_elf *elf);

/* idx is below n_sections. */
Elf64_Shdr hcq_elf_section(const struct hcq_elf *elf, uint32_t idx);
const char *hcq_elf_section_name(const struct hcq_elf *elf,
                                 const Elf64_Shdr *section);
/* idx is below n_symbols. */
Elf64_Sym hcq_elf_symbol(const struct hcq_elf *elf, uint32_t idx);
/* "" where there is none. */
const char *hcq_elf_symbol_name(const struct hcq_elf *elf,
                                const Elf64_Sym *symbol);

/* Offsets of n_sections sections in an image, all HCQ_ELF_NOT_LOADED at first.
 * *out_places is the caller's: host_free. */
BELL_MUST_CHECK bell_status hcq_elf_places(const struct hcq_elf *elf,
                                           uint64_t **out_places);

/* Puts a section behind *end_bytes, which becomes its end: aligned to `align`
 * and as it asks itself, at most to max_align; refused where the image gets
 * larger than max_bytes. */
BELL_MUST_CHECK bell_status hcq_elf_place(const struct hcq_elf *elf,
                                          uint32_t idx, uint64_t align,
                                          uint64_t max_align,
                                          uint64_t max_bytes, uint64_t *places,
                                          uint64_t *end_bytes);

/* The address of a symbol in an image at `va`. */
BELL_MUST_CHECK bell_status hcq_elf_address(const struct hcq_elf *elf,
                                            const uint64_t *places,
                                            uint32_t symbol, uint64_t va,
                                            uint64_t *out_address);

/* Copies the bytes of all sections that are placed. A section without bytes in
 * the file is left as it is. */
void hcq_elf_copy(const struct hcq_elf *elf, const uint64_t *places,
                  uint8_t *image);

#endif
