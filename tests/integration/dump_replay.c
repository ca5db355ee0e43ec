/* Runs what a folder of the dump form holds on a fresh simulated card and
 * compares the memory that it leaves with after.bin.
 *
 * usage: dump_replay CHIP FOLDER < LINES
 *
 * LINES is image.json for a program without a parser: "segment VA SIZE OFFSET",
 * "queue KIND BASE SIZE RPTR WPTR", "ignore VA SIZE", numbers in decimal. Exits
 * with 1 where bytes differ that are not to be ignored, and says which.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "sim/amd/gpu/gpu_internal.h"

#define MAX_SEGMENTS 4096
#define OWN_VA       0x10000u /* pointers of the queue: below every segment */
#define PATIENCE_MS  20000

struct segment {
    uint64_t va, size_bytes, offset;
};

struct replay {
    struct segment segments[MAX_SEGMENTS], ignored[MAX_SEGMENTS];
    size_t n_segments, n_ignored;
    char kind[8];
    uint64_t base, ring_bytes, rptr, wptr;
    uint8_t *memory; /* the image, as the card changes it */
    const uint8_t *after;
    uint64_t size_bytes;
    _Atomic uint32_t failed;
};

static int
fail(const char *what)
{
    fprintf(stderr, "dump_replay: %s\n", what);
    exit(2);
}

static void
read_lines(struct replay *r)
{
    char line[256];
    struct segment s;

    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "segment %" SCNu64 " %" SCNu64 " %" SCNu64, &s.va,
                   &s.size_bytes, &s.offset) == 3 &&
            r->n_segments < MAX_SEGMENTS)
            r->segments[r->n_segments++] = s;
        else if (sscanf(line, "ignore %" SCNu64 " %" SCNu64, &s.va,
                        &s.size_bytes) == 2 &&
                 r->n_ignored < MAX_SEGMENTS)
            r->ignored[r->n_ignored++] = s;
        else if (sscanf(line,
                        "queue %7s %" SCNu64 " %" SCNu64 " %" SCNu64
                        " %" SCNu64,
                        r->kind, &r->base, &r->ring_bytes, &r->rptr,
                        &r->wptr) != 5)
            fail("a line is none of segment, ignore, queue");
    }
}

static void *
map_file(const char *folder, const char *name, uint64_t *out_bytes)
{
    char path[4096];
    off_t n;
    void *at;
    int file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = open(path, O_RDONLY);
    n = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    if (n <= 0)
        fail("a file is missing or empty");
    at = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    close(file);
    if (at == MAP_FAILED)
        fail("no memory");
    *out_bytes = (uint64_t)n;
    return at;
}

static void
on_interrupt(void *user, uint32_t context_id)
{
    (void)user;
    (void)context_id;
}

static void
on_fault(void *user, const struct amdsim_fault *fault)
{
    struct replay *r = user;

    fprintf(stderr, "dump_replay: %s\n", fault->text);
    atomic_store(&r->failed, 1);
}

static void
wait_for_end(struct replay *r, struct amdsim_queue *q, const uint64_t *rptr)
{
    struct timespec nap = {0, 1000000};
    uint64_t end = r->wptr, mask = UINT64_MAX;
    uint32_t i;

    if (strcmp(r->kind, "pm4") == 0) { /* 32 bits, of the ring */
        mask = UINT32_MAX;
        end %= r->ring_bytes / 4;
    }
    for (i = 0; i < PATIENCE_MS && !atomic_load(&r->failed) &&
                (__atomic_load_n(rptr, __ATOMIC_ACQUIRE) & mask) != end;
         i++)
        nanosleep(&nap, NULL);
    if (i == PATIENCE_MS)
        fail("it does not end");
    amdsim_queue_destroy(q);
}

static void
run(struct replay *r, const struct amdsim_chip *chip)
{
    static _Alignas(4096) uint64_t own[512]; /* pointers, at OWN_VA */
    static uint64_t doorbell = UINT64_MAX;
    struct amdsim_queue_desc desc = {
        .ring_va = r->base,
        .ring_bytes = (uint32_t)r->ring_bytes,
        .rptr_va = OWN_VA,
        .wptr_va = OWN_VA + 8,
        .eop_va = OWN_VA,
        .doorbell = &doorbell,
        .interrupt = on_interrupt,
        .fault = on_fault,
        .user = r,
    };
    bool is_aql = strcmp(r->kind, "aql") == 0;
    uint32_t flags = AMDSIM_MAP_WRITABLE | AMDSIM_MAP_EXECUTABLE;
    struct amdsim *gpu;
    struct amdsim_queue *q;
    size_t i;

    desc.kind = is_aql                         ? AMDSIM_QUEUE_AQL
                : strcmp(r->kind, "sdma") == 0 ? AMDSIM_QUEUE_SDMA
                                               : AMDSIM_QUEUE_PM4;
    if (amdsim_create(chip, &gpu) != BELL_OK ||
        amdsim_space_create(gpu, &desc.space) != BELL_OK ||
        amdsim_space_map(desc.space, OWN_VA, own, sizeof(own), flags, -1) !=
            BELL_OK)
        fail("no card");
    for (i = 0; i < r->n_segments; i++) {
        const struct segment *s = &r->segments[i];
        if (s->offset + s->size_bytes > r->size_bytes ||
            amdsim_space_map(desc.space, s->va, r->memory + s->offset,
                             s->size_bytes, flags, -1) != BELL_OK)
            fail("a segment cannot be mapped");
    }
    if (amdsim_queue_create(gpu, &desc, &q) != BELL_OK)
        fail("no queue");
    pthread_mutex_lock(&q->lock); /* its thread waits for the doorbell */
    q->get = r->rptr;
    pthread_mutex_unlock(&q->lock);
    own[0] = UINT64_MAX;
    own[1] = r->wptr;
    if (r->wptr != r->rptr) {
        __atomic_store_n(&doorbell, is_aql ? r->wptr - 1 : r->wptr,
                         __ATOMIC_RELEASE);
        wait_for_end(r, q, own);
    } else {
        amdsim_queue_destroy(q);
    }
    amdsim_space_destroy(desc.space);
    amdsim_destroy(gpu);
}

static bool
is_ignored(const struct replay *r, uint64_t va)
{
    size_t i;

    for (i = 0; i < r->n_ignored; i++) {
        if (va - r->ignored[i].va < r->ignored[i].size_bytes)
            return true;
    }
    return false;
}

static int
compare(const struct replay *r)
{
    uint64_t at, n_different = 0;
    size_t i;

    for (i = 0; i < r->n_segments; i++) {
        const struct segment *s = &r->segments[i];
        if (memcmp(r->memory + s->offset, r->after + s->offset,
                   s->size_bytes) == 0)
            continue;
        for (at = 0; at < s->size_bytes; at++) {
            uint8_t now = r->memory[s->offset + at];
            uint8_t then = r->after[s->offset + at];
            if (now == then || is_ignored(r, s->va + at))
                continue;
            if (n_different++ < 8)
                printf("0x%" PRIx64 ": %02x in after.bin, %02x now\n",
                       s->va + at, then, now);
        }
    }
    printf("%" PRIu64 " bytes differ\n", n_different);
    return n_different ? 1 : 0;
}

int
main(int argc, char **argv)
{
    static struct replay r;
    struct amdsim_chip chip;
    uint64_t after_bytes;

    if (argc != 3)
        fail("usage: dump_replay CHIP FOLDER");
    if (!amdsim_chip_make(argv[1], &chip))
        fail("no such chip");
    read_lines(&r);
    r.memory = map_file(argv[2], "image.bin", &r.size_bytes);
    r.after = map_file(argv[2], "after.bin", &after_bytes);
    if (after_bytes != r.size_bytes)
        fail("the two images have other sizes");
    run(&r, &chip);
    if (atomic_load(&r.failed))
        return 2;
    return compare(&r);
}
