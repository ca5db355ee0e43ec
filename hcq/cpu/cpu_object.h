/* Loads an ELF64 relocatable object into executable memory.
 *
 * The object may come from a file or a bundle, so every field of it is taken
 * for hostile. No symbol comes from outside: an undefined one that is used is
 * an error. Memory is writable or executable, never both. What it does not
 * do: check what the code does.
 *
 * src: System V ABI, chapter 4 (object files); System V ABI AMD64
 * supplement, 4.4 (relocation).
 */
#ifndef BELL_HCQ_CPU_CPU_OBJECT_H
#define BELL_HCQ_CPU_CPU_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "hcq/hcq_backend.h"

/* A loaded object: text, read-only and writable parts in one mapping, each
 * from a page boundary. Owned by whoever loaded it. */
struct cpu_object {
    uint8_t *map;
    size_t map_bytes;
    size_t text_bytes; /* whole pages; text comes first */
    void *entry;
    bool is_borrowed; /* it lies in a file's pages, whose owner unmaps them */
    struct hcq_code_file file; /* then: where `map` is in it */
};

/* Loads `size_bytes` bytes at `data` (which may be freed afterwards); `name`
 * is for messages, `entry` the symbol that becomes out->entry. */
BELL_MUST_CHECK bell_status cpu_object_load(const void *data, size_t size_bytes,
                                            const char *name, const char *entry,
                                            struct cpu_object *out);
/* Makes the relocations of an object for where it lies in a file whose pages,
 * `at` bytes behind its beginning, will be mapped: code and constants refer to
 * each other by distance. The object may be of any processor, and of the
 * caller's own making. False: it cannot be used so, and stays an object to be
 * loaded. */
bool cpu_object_prelink(void *data, size_t size_bytes, uint64_t at);

/* Takes an object of a mapped file as it lies there, without a copy. False: its
 * relocations are not made for that, or it is not sound; cpu_object_load then
 * says what is wrong with it, if something is. `data` lies in file->map. */
bool cpu_object_use(const struct hcq_code_file *file, const void *data,
                    size_t size_bytes, const char *name, const char *entry,
                    struct cpu_object *out);
void cpu_object_unload(struct cpu_object *object);

/* Takes the right to execute away from the text, or gives it back. A thread
 * that executes it then faults at its next instruction. Returns 0 or -1. */
int cpu_object_set_executable(const struct cpu_object *object, bool on);

/* Whether the address is in the text. */
static inline bool
cpu_object_has_text(const struct cpu_object *object, uint64_t va)
{
    return va - (uint64_t)(uintptr_t)object->map < object->text_bytes;
}

#endif
