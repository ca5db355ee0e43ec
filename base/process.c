/* Marks of the process that made something. */
#include "base/process.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u

bell_status
process_mark_init(struct process_mark *out_mark)
{
    uint32_t *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return bell_fail_errno(BELL_E_NO_MEMORY, errno,
                               "out of memory for a page: %s", strerror(errno));
    out_mark->word = page;
    out_mark->pid = (int32_t)getpid();
    /* Linux before 4.14 cannot. */
    out_mark->wiped = madvise(page, PAGE_BYTES, MADV_WIPEONFORK) == 0;
    *page = out_mark->wiped;
    return BELL_OK;
}

void
process_mark_fini(struct process_mark *mark)
{
    if (mark->word)
        munmap((void *)(uintptr_t)mark->word, PAGE_BYTES);
    mark->word = NULL;
}

void
process_in_child(void (*fn)(void))
{
    /* Where there is no memory for it, children do without. */
    (void)pthread_atfork(NULL, NULL, fn);
}

bool
process_mark_ask(const struct process_mark *mark)
{
    return !mark->wiped && mark->pid == (int32_t)getpid();
}

/* The program itself comes first; it names its linker, if it has one. */
static int
look_for_linker(struct dl_phdr_info *info, size_t size_bytes, void *out_found)
{
    int i;

    (void)size_bytes;
    for (i = 0; i < info->dlpi_phnum; i++)
        *(bool *)out_found |= info->dlpi_phdr[i].p_type == PT_INTERP;
    return 1;
}

bool
process_is_static(void)
{
    bool found = false;

    (void)dl_iterate_phdr(look_for_linker, &found);
    return !found;
}
