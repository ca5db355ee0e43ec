/* Whose is it: told apart from what a child inherited by fork.
 *
 * Fork copies this process's memory, but nothing that hardware, threads or
 * another process know of an object; so an object that stands for such things
 * carries a mark, and a child that finds a foreign mark leaves it alone. The
 * mark is a word in a page that the kernel empties in every child, whichever
 * call made it (src: madvise(2), MADV_WIPEONFORK): looking is one load.
 */
#ifndef BELL_BASE_PROCESS_H
#define BELL_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Made and ended by the process that it is a mark of; any thread looks. */
struct process_mark {
    const volatile uint32_t *word; /* owned page; 0: see `pid` */
    int32_t pid;
    bool wiped; /* by the kernel, in children; else the number decides */
};

BELL_MUST_CHECK bell_status process_mark_init(struct process_mark *out_mark);
void process_mark_fini(struct process_mark *mark);
/* process_mark_is_ours where the word is 0. */
bool process_mark_ask(const struct process_mark *mark);

/* Has fn run in every child of fork, before anything else: for locks and lists
 * at file scope. */
void process_in_child(void (*fn)(void));

/* Whether the program has no dynamic linker: it was linked with -static, and
 * dlopen would bring a second C library in. */
bool process_is_static(void);

/* Whether the calling process made the mark. */
static inline bool
process_mark_is_ours(const struct process_mark *mark)
{
    return __builtin_expect(*mark->word != 0, 1) || process_mark_ask(mark);
}

#endif
