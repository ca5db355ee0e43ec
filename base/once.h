/* Memory for objects that programs hold pointers to: no address is used twice.
 *
 * A pointer to an object that ended can be followed still, and what is there
 * reads as zeros, so that every later call can tell. Each object has pages of
 * its own; at its end their memory goes back to the system and their addresses
 * do not, of which there are enough for 2^35 objects. For objects that are few.
 * Thread safe, without locks.
 */
#ifndef BELL_BASE_ONCE_H
#define BELL_BASE_ONCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ONCE_PAGE_BYTES 4096u
#define ONCE_KNOWN      64u

/* Addresses that were asked for last, and their kinds in the bits below a page:
 * what was an object stays one. */
extern _Atomic uintptr_t once_known[ONCE_KNOWN];

/* What the address of an object tells, before its end and after it. */
struct once_mark {
    uint32_t kind; /* its maker's number for its type: 1 to 4095 */
    void *parent;  /* the object that it belongs to; or NULL */
};

/* Zeros; NULL when out of memory. */
void *once_alloc(size_t size_bytes, uint32_t kind, void *parent);
/* Ends the object, of that size; NULL is allowed. */
void once_end(void *object, size_t size_bytes);
/* Looks an address up; nothing is read there. The kind is 0 where no object
 * began. */
struct once_mark once_find(const void *address);

static inline bool
once_is(const void *address, uint32_t kind)
{
    uintptr_t bits = (uintptr_t)address;

    /* Inside of a page the offset's bits could be a kind's. */
    return (bits % ONCE_PAGE_BYTES == 0 &&
            atomic_load_explicit(
                &once_known[bits / ONCE_PAGE_BYTES % ONCE_KNOWN],
                memory_order_relaxed) == (bits | kind)) ||
           once_find(address).kind == kind;
}

#endif
