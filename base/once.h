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

#include <stddef.h>

/* Zeros; NULL when out of memory. */
void *once_alloc(size_t size_bytes);
/* Ends the object, of that size; NULL is allowed. */
void once_end(void *object, size_t size_bytes);

#endif
