/* Every NTH word of every reply that the kernel gives in a card's life, forced
 * to 0 and to all ones: the inputs of fuzz_kernel.c one by one.
 *
 * usage: lie_sweep NTH [FIRST]
 *
 * Which replies there are, and how long, a recording says that is made first.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ioctl/cassette.h"
#include "tests/fuzz/fuzz_kernel.h"

/* Words that come back from a call. */
static uint32_t
reply_words(const struct cas_record *record)
{
    uint32_t n = 0, i;

    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *b = &record->blobs[i];
        if (b->role == CAS_ARG_IN || b->role == CAS_CONTENTS)
            n += (b->size_bytes + 3) / 4;
    }
    return n;
}

static bool
is_call(const struct cas_record *record)
{
    switch (record->kind) {
    case CAS_OPEN:
    case CAS_CLOSE:
    case CAS_IOCTL:
    case CAS_MMAP:
    case CAS_MUNMAP:
    case CAS_POLL:
    case CAS_READ:
        return true;
    default:
        return false;
    }
}

static struct cas_reader *
record_life(void)
{
    char path[] = "/tmp/lie-sweep-XXXXXX", forms[64];
    struct cas_reader *reader;
    int fd = mkstemp(path);

    if (fd < 0 || fuzz_kernel_live("") != BELL_OK) /* makes the kernel */
        return NULL;
    close(fd);
    snprintf(forms, sizeof(forms), "record:%s@", path);
    if (fuzz_kernel_live(forms) != BELL_OK ||
        cas_reader_open(path, &reader) != BELL_OK)
        reader = NULL;
    unlink(path);
    return reader;
}

int
main(int argc, char **argv)
{
    uint32_t every = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    uint32_t first = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t call = 0, n_words = 0, n_lies = 0, n_told = 0, i, word;
    struct cas_reader *reader = record_life();

    if (!reader || !every) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);
        uint32_t n = reply_words(r);
        call += is_call(r);
        for (word = 0; is_call(r) && word < n; word++) {
            char forms[64];
            int ones;
            if (n_words++ % every != first)
                continue;
            for (ones = 0; ones < 2; ones++, n_lies++) {
                snprintf(forms, sizeof(forms), "fault:any:%u=reply=%u:%s@",
                         call, word, ones ? "0xffffffff" : "0");
                n_told += fuzz_kernel_live(forms) != BELL_OK;
            }
        }
    }
    printf("%u calls, %u words, %u lies, %u of them led to an error\n", call,
           n_words, n_lies, n_told);
    cas_reader_close(reader);
    return n_lies == 0;
}
