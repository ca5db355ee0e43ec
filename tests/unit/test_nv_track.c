/* Following what a program does with NVIDIA's driver: calls made here by hand,
 * memory of our own for what the card would read, and what a look at the rings
 * then finds, to the byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/kio_capture.h"
#include "ioctl/nv_abi.h"
#include "ioctl/nv_track.h"
#include "ioctl/nv_uapi.h"

#define BRANCH   NV_BRANCH_NEWEST
#define CLIENT   0xc1d00001u
#define USERD    0x5c000001u
#define MEMORY   0x5c000002u
#define CHANNEL  0x5c000003u
#define RING_VA  0x1000000000ull
#define PUSH_VA  (RING_VA + 0x1000)
#define USERD_AT 0x200u /* in its memory */
#define RING_LEN 8u

/* What the card would see: a ring, and behind it pushes and descriptors. */
static struct card {
    uint64_t ring[512];
    uint32_t push[1024];
    uint8_t userd[4096];
} card;

/* What the GPU sees of it. */
#define CARD_BYTES offsetof(struct card, userd)

/* What the last look told. */
static struct {
    uint32_t n_calls, channel, n;
    struct kio_region regions[256];
} seen;

static void
keep(void *user, uint32_t channel, const struct kio_region *regions,
     uint32_t n_regions)
{
    assert_ptr_equal(user, &seen);
    assert_true(n_regions <= ARRAY_LEN(seen.regions));
    seen.n_calls++;
    seen.channel = channel;
    seen.n = n_regions;
    memcpy(seen.regions, regions, n_regions * sizeof(*regions));
}

static void
look(struct nv_track *track)
{
    memset(&seen, 0, sizeof(seen));
    nv_track_sample(track, keep, &seen);
}

static void
check_region(uint32_t i, uint32_t kind, const void *cpu, uint64_t va,
             uint64_t n)
{
    assert_true(i < seen.n);
    assert_int_equal(seen.regions[i].kind, kind);
    assert_ptr_equal((const void *)seen.regions[i].cpu, cpu);
    assert_int_equal(seen.regions[i].va, va);
    assert_int_equal(seen.regions[i].size_bytes, n);
}

/* ---- calls --------------------------------------------------------------- */

static void
call(struct nv_track *track, enum kio_dev dev, unsigned long request, void *arg)
{
    struct kio_capture capture;

    kio_capture_init(&capture);
    assert_int_equal(
        kio_capture_call(&capture, dev, BRANCH, request, arg, NULL, NULL),
        BELL_OK);
    nv_track_ioctl(track, &capture);
    kio_capture_fini(&capture);
}

/* The next mapping of the file shows the memory from the offset on. */
static void
map_for_cpu(struct nv_track *track, int fd, uint32_t memory, uint64_t offset,
            void *addr, size_t size_bytes)
{
    struct nv_os33_fd args = {
        .params = {.hClient = CLIENT, .hMemory = memory, .offset = offset},
        .fd = fd};

    call(track, KIO_DEV_NV_CTL, nv_request(NV_ESC_RM_MAP_MEMORY, sizeof(args)),
         &args);
    nv_track_mmap(track, fd, addr, size_bytes);
}

static void
map_for_gpu(struct nv_track *track, uint32_t memory, uint64_t offset,
            uint64_t va, uint64_t size_bytes, uint32_t status)
{
    struct nv_os46 args = {.hClient = CLIENT,
                           .hMemory = memory,
                           .offset = offset,
                           .length = size_bytes,
                           .dmaOffset = va,
                           .status = status};

    call(track, KIO_DEV_NV_CTL,
         nv_request(NV_ESC_RM_MAP_MEMORY_DMA, sizeof(args)), &args);
}

static void
make_channel(struct nv_track *track, uint32_t class_id, uint32_t handle,
             uint32_t n_entries)
{
    struct nv_channel_alloc params = {.gpFifoOffset = RING_VA,
                                      .gpFifoEntries = n_entries,
                                      .hUserdMemory = {USERD},
                                      .userdOffset = {USERD_AT}};
    struct nv_os64 args = {.hRoot = CLIENT,
                           .hObjectNew = handle,
                           .hClass = class_id,
                           .pAllocParms = (uintptr_t)&params,
                           .paramsSize = sizeof(params)};

    call(track, KIO_DEV_NV_CTL, nv_request(NV_ESC_RM_ALLOC, sizeof(args)),
         &args);
}

static void
free_object(struct nv_track *track, uint32_t handle)
{
    struct nv_os00 args = {.hRoot = CLIENT, .hObjectOld = handle};

    call(track, KIO_DEV_NV_CTL, nv_request(NV_ESC_RM_FREE, sizeof(args)),
         &args);
}

/* A channel whose ring, pushes and USERD are mapped for both. */
static struct nv_track *
begin(void)
{
    struct nv_track *track = nv_track_create();

    memset(&card, 0, sizeof(card));
    assert_non_null(track);
    make_channel(track, HOPPER_CHANNEL_GPFIFO_A, CHANNEL, RING_LEN);
    map_for_cpu(track, 7, MEMORY, 0, &card, CARD_BYTES);
    map_for_cpu(track, 7, USERD, 0, card.userd, sizeof(card.userd));
    map_for_gpu(track, MEMORY, 0, RING_VA, CARD_BYTES, 0);
    return track;
}

/* Rings: entries up to, and not with, this one are there. */
static void
put(uint32_t n)
{
    memcpy(card.userd + USERD_AT + 0x8c, &n, sizeof(n));
}

static uint64_t
entry(uint64_t va, uint32_t n_dw)
{
    return va | (uint64_t)n_dw << 42;
}

/* ---- looks --------------------------------------------------------------- */

static void
test_sample(void **state)
{
    struct nv_track *track = begin();

    (void)state;
    look(track); /* nothing was submitted */
    assert_int_equal(seen.n_calls, 0);
    card.ring[0] = entry(PUSH_VA, 4);
    card.ring[1] = entry(PUSH_VA + 16, 1);
    put(1);
    look(track);
    assert_int_equal(seen.n_calls, 1);
    assert_int_equal(seen.channel, CHANNEL);
    assert_int_equal(seen.n, 3);
    check_region(0, KIO_REGION_CONTROL, card.userd + USERD_AT, 0, 512);
    check_region(1, KIO_REGION_RING, card.ring, RING_VA, 8);
    check_region(2, KIO_REGION_PUSH, card.push, PUSH_VA, 16);
    look(track); /* the same work is not told twice */
    assert_int_equal(seen.n_calls, 0);
    put(2);
    look(track);
    assert_int_equal(seen.n, 3);
    check_region(1, KIO_REGION_RING, card.ring + 1, RING_VA + 8, 8);
    check_region(2, KIO_REGION_PUSH, card.push + 4, PUSH_VA + 16, 4);
    /* around the ring's end */
    put(1);
    look(track);
    assert_int_equal(seen.n, 1 + 7 + 1); /* six of them are empty */
    check_region(7, KIO_REGION_RING, card.ring, RING_VA, 8);
    check_region(8, KIO_REGION_PUSH, card.push, PUSH_VA, 16);
    put(RING_LEN); /* no place of the ring */
    look(track);
    assert_int_equal(seen.n_calls, 0);
    put(RING_LEN - 1);
    look(track);
    assert_int_equal(seen.n_calls, 1);
    nv_track_destroy(track);
}

/* A program unmaps its memory past all that is seen of it: what is left is
 * told, and nothing is read that is not there. */
static void
test_gone(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t va = RING_VA + 0x100000;
    struct nv_track *track = begin();
    uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(memory, MAP_FAILED);
    map_for_cpu(track, 7, 77, 0, memory, 2 * page);
    map_for_gpu(track, 77, 0, va, 2 * page, 0);
    card.ring[0] = entry(va, 4);
    card.ring[1] = entry(va + page - 8, 4);
    card.ring[2] = entry(va, 4);
    put(1);
    look(track);
    assert_int_equal(seen.n, 3);
    check_region(2, KIO_REGION_PUSH, memory, va, 16);
    assert_int_equal(munmap(memory + page, page), 0);
    put(3);
    look(track);
    assert_int_equal(seen.n, 1 + 2 + 1);
    check_region(3, KIO_REGION_PUSH, memory, va, 16);
    assert_int_equal(munmap(memory, page), 0);
    put(1);
    look(track);
    assert_int_equal(seen.n, 1 + 6);
    nv_track_destroy(track);
}

/* Entries that name more than is mapped are told without what they name. */
static void
test_borders(void **state)
{
    const uint64_t end = RING_VA + CARD_BYTES;
    struct nv_track *track = begin();

    (void)state;
    card.ring[0] = entry(end - 16, 4);
    card.ring[1] = entry(end - 16, 5);
    card.ring[2] = entry(end, 1);
    card.ring[3] = entry(RING_VA - 4, 1);
    card.ring[4] = entry(RING_VA, 1);
    put(5);
    look(track);
    assert_int_equal(seen.n, 1 + 5 + 2);
    check_region(2, KIO_REGION_PUSH, card.push + 1020, end - 16, 16);
    check_region(7, KIO_REGION_PUSH, card.ring, RING_VA, 4);
    card.ring[5] = entry(RING_VA, CARD_BYTES / 4); /* all that is mapped */
    put(6);
    look(track);
    assert_int_equal(seen.n, 3);
    check_region(2, KIO_REGION_PUSH, &card, RING_VA, CARD_BYTES);
    nv_track_destroy(track);
}

/* The same addresses for CPU and GPU, as UVM has them: no call told of the
 * second, the mapping itself does. */
static void
test_same_addresses(void **state)
{
    struct nv_track *track = begin();
    /* Entries have 40 bits, and of those AddressSanitizer leaves these. */
    const uint64_t va = 0x50000000;
    uint8_t *own = mmap((void *)(uintptr_t)va, 4096, PROT_READ,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_int_equal((uintptr_t)own, va);
    nv_track_mmap(track, 9, own, 4096);
    card.ring[0] = entry(va, 1024);
    card.ring[1] = entry(va, 1025);
    card.ring[2] = entry(va + 4092, 1);
    card.ring[3] = entry(va + 4092, 2);
    put(1);
    look(track);
    assert_int_equal(seen.n, 3);
    check_region(2, KIO_REGION_PUSH, own, va, 4096);
    put(2);
    look(track);
    assert_int_equal(seen.n, 2);
    put(4);
    look(track);
    assert_int_equal(seen.n, 1 + 2 + 1);
    check_region(2, KIO_REGION_PUSH, own + 4092, va + 4092, 4);
    nv_track_destroy(track);
    munmap(own, 4096);
}

/* Launches in a pushbuffer: the descriptor's address is the value of one
 * method, however it is counted there. */
static void
test_descriptors(void **state)
{
    static const struct {
        uint32_t op, method, count, at; /* which of `count` values it is */
    } rows[] = {
        {1, 0x2b4, 1, 0}, {1, 0x2ac, 4, 2}, {3, 0x2b4, 1, 0},
        {5, 0x2b0, 2, 1}, {5, 0x2b0, 4, 2}, {5, 0x2b4, 1, 0},
    };
    /* Methods of every kind in front, whose values look like no headers. */
    static const uint32_t lead[] = {
        1u << 29 | 2 << 16 | 1 << 13 | 0x100,
        0,
        0,
        3u << 29 | 1 << 16 | 4 << 13 | 0x100,
        0,
        5u << 29 | 3 << 16 | 1 << 13 | 0x100,
        0,
        0,
        0,
    };
    const uint64_t qmd = PUSH_VA + 0x400;
    uint32_t first;
    size_t i;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        uint32_t op = rows[i / 2].op, count = rows[i / 2].count;
        struct nv_track *track = begin();

        memcpy(card.push, lead, sizeof(lead));
        first = i % 2 ? ARRAY_LEN(lead) : 0;
        card.push[first] = 4u << 29 | 0x2b4 >> 2; /* immediate: no launch */
        card.push[first + 1] = op << 29 | count << 16 | rows[i / 2].method >> 2;
        card.push[first + 2 + rows[i / 2].at] = (uint32_t)(qmd >> 8);
        card.ring[0] = entry(PUSH_VA, first + 2 + count);
        put(1);
        look(track);
        if (seen.n != 4 && !(op == 5 && count == 4))
            fail_msg("row %zu: %u regions", i, seen.n);
        check_region(3, KIO_REGION_DESCRIPTOR, card.push + 0x100, qmd, 384);
        /* cut off before the value */
        card.ring[1] = entry(PUSH_VA, first + 2 + rows[i / 2].at);
        put(2);
        look(track);
        assert_int_equal(seen.n, 3);
        nv_track_destroy(track);
    }
}

/* Pushbuffers above 40 bits: an entry without words carries the upper part
 * for the next one alone. */
static void
test_extended(void **state)
{
    const uint64_t high = 1ull << 40 | PUSH_VA;
    struct nv_track *track = begin();

    (void)state;
    map_for_gpu(track, MEMORY, 4096, high, 4096, 0);
    card.ring[0] = 4ull << 32 | 1 << 8;
    card.ring[1] = entry(PUSH_VA, 2);
    card.ring[2] = entry(PUSH_VA, 2);
    card.ring[3] = 3ull << 32 | 1 << 8; /* another command */
    card.ring[4] = entry(PUSH_VA, 3);
    put(5);
    look(track);
    assert_int_equal(seen.n, 1 + 5 + 3);
    check_region(3, KIO_REGION_PUSH, card.push, high, 8);
    check_region(5, KIO_REGION_PUSH, card.push, PUSH_VA, 8);
    check_region(8, KIO_REGION_PUSH, card.push, PUSH_VA, 12);
    nv_track_destroy(track);
}

/* ---- what calls tell ----------------------------------------------------- */

/* Both mappings have offsets of their own into the memory, and end where the
 * last byte is read. */
static void
test_offsets(void **state)
{
    struct nv_track *track = nv_track_create();

    (void)state;
    memset(&card, 0, sizeof(card));
    assert_non_null(track);
    make_channel(track, HOPPER_CHANNEL_GPFIFO_A, CHANNEL, RING_LEN);
    map_for_cpu(track, 7, MEMORY, 0x3000, card.ring, 4096);
    map_for_gpu(track, MEMORY, 0x3000 - 64, RING_VA - 64, 128, 0);
    map_for_cpu(track, 8, USERD, 0, card.userd, USERD_AT + 511);
    put(1);
    look(track);
    assert_int_equal(seen.n_calls, 0);
    nv_track_munmap(track, card.userd, 1);
    map_for_cpu(track, 8, USERD, 0x40, card.userd + 0x40, USERD_AT + 448);
    look(track);
    assert_int_equal(seen.n, 2);
    check_region(0, KIO_REGION_CONTROL, card.userd + USERD_AT, 0, 512);
    check_region(1, KIO_REGION_RING, card.ring, RING_VA, 8);
    nv_track_destroy(track);
}

/* Calls that failed tell nothing, nor do channels of other classes, sizes that
 * no ring has, and files that were closed. */
static void
test_not_followed(void **state)
{
    static const struct {
        uint32_t class_id, n_entries;
        bool is_followed;
    } rows[] = {
        {HOPPER_CHANNEL_GPFIFO_A, RING_LEN, true},
        {HOPPER_CHANNEL_GPFIFO_A, 0, false},
        {HOPPER_CHANNEL_GPFIFO_A, 1u << 20, true},
        {HOPPER_CHANNEL_GPFIFO_A, (1u << 20) + 1, false},
        {HOPPER_USERMODE_A, RING_LEN, false},
    };
    static uint8_t big[(1u << 23) + 8];
    struct nv_track *track;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        track = nv_track_create();
        memset(&card, 0, sizeof(card));
        make_channel(track, rows[i].class_id, CHANNEL, rows[i].n_entries);
        map_for_cpu(track, 7, USERD, 0, card.userd, sizeof(card.userd));
        map_for_cpu(track, 7, MEMORY, 0, big, sizeof(big));
        map_for_gpu(track, MEMORY, 0, RING_VA, sizeof(big), 0);
        put(1);
        look(track);
        if (seen.n_calls != rows[i].is_followed)
            fail_msg("row %zu: %u calls", i, seen.n_calls);
        nv_track_destroy(track);
    }
    track = nv_track_create();
    make_channel(track, HOPPER_CHANNEL_GPFIFO_A, CHANNEL, RING_LEN);
    map_for_cpu(track, 7, USERD, 0, card.userd, sizeof(card.userd));
    map_for_cpu(track, 7, MEMORY, 0, card.ring, 4096);
    map_for_gpu(track, MEMORY, 0, RING_VA, 4096, 0x1f);
    put(1);
    look(track);
    assert_int_equal(seen.n_calls, 0);
    map_for_gpu(track, MEMORY, 0, RING_VA, 4096, 0);
    look(track);
    assert_int_equal(seen.n_calls, 1);
    nv_track_destroy(track);
}

/* Objects that were freed: the channel, its memory, or the client with all. */
static void
test_freed(void **state)
{
    static const uint32_t freed[] = {CHANNEL, MEMORY, CLIENT};
    struct nv_track *track;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(freed); i++) {
        track = begin();
        free_object(track, 0x5c0000ff); /* nobody's */
        put(1);
        look(track);
        assert_int_equal(seen.n_calls, 1);
        free_object(track, freed[i]);
        put(2);
        look(track);
        assert_int_equal(seen.n_calls, 0);
        nv_track_destroy(track);
    }
}

/* A file shows what it was last asked for, until it is closed. */
static void
test_files(void **state)
{
    struct nv_os02_fd args = {.params = {.hRoot = CLIENT, .hObjectNew = USERD},
                              .fd = 9};
    struct nv_os33_fd other = {
        .params = {.hClient = CLIENT, .hMemory = 0x5c0000ff}, .fd = 9};
    struct nv_track *track = nv_track_create();

    (void)state;
    memset(&card, 0, sizeof(card));
    make_channel(track, HOPPER_CHANNEL_GPFIFO_A, CHANNEL, RING_LEN);
    map_for_cpu(track, 7, MEMORY, 0, card.ring, 4096);
    map_for_gpu(track, MEMORY, 0, RING_VA, 4096, 0);
    call(track, KIO_DEV_NV_CTL,
         nv_request(NV_ESC_RM_ALLOC_MEMORY, sizeof(args)), &args);
    nv_track_mmap(track, 8, card.userd, sizeof(card.userd));
    put(1);
    look(track); /* that was another file */
    assert_int_equal(seen.n_calls, 0);
    nv_track_close(track, 8);
    nv_track_mmap(track, 9, card.userd, sizeof(card.userd));
    look(track);
    assert_int_equal(seen.n_calls, 1);
    nv_track_munmap(track, card.userd, sizeof(card.userd));
    put(2);
    look(track);
    assert_int_equal(seen.n_calls, 0);
    nv_track_close(track, 9);
    nv_track_mmap(track, 9, card.userd, sizeof(card.userd));
    look(track);
    assert_int_equal(seen.n_calls, 0);
    /* asked for twice: the latter counts */
    call(track, KIO_DEV_NV_CTL,
         nv_request(NV_ESC_RM_ALLOC_MEMORY, sizeof(args)), &args);
    call(track, KIO_DEV_NV_CTL, nv_request(NV_ESC_RM_MAP_MEMORY, sizeof(other)),
         &other);
    nv_track_mmap(track, 9, card.userd, sizeof(card.userd));
    look(track);
    assert_int_equal(seen.n_calls, 0);
    nv_track_destroy(track);
}

/* UVM maps memory of RM's at addresses of its own. */
static void
test_uvm(void **state)
{
    struct uvm_map_external_alloc args = {.base = PUSH_VA + 0x10000,
                                          .length = 4096,
                                          .offset = 4096,
                                          .hClient = CLIENT,
                                          .hMemory = MEMORY};
    struct nv_track *track = begin();

    (void)state;
    call(track, KIO_DEV_NV_UVM, UVM_MAP_EXTERNAL_ALLOCATION, &args);
    card.ring[0] = entry(PUSH_VA + 0x10000 + 8, 2);
    put(1);
    look(track);
    assert_int_equal(seen.n, 3);
    check_region(2, KIO_REGION_PUSH, card.push + 2, PUSH_VA + 0x10008, 8);
    nv_track_destroy(track);
}

/* A program's mappings are followed to the byte: neighbours are not met, and a
 * mapping of which a part goes is forgotten. */
static void
test_overlaps(void **state)
{
    struct nv_track *track = nv_track_create();
    uint8_t *at = (uint8_t *)0x100000;

    (void)state;
    assert_non_null(track);
    assert_false(nv_track_overlaps(track, at, 0x1000));
    nv_track_mmap(track, 5, at, 0x1000);
    nv_track_mmap(track, 5, at + 0x2000, 0x1000);
    assert_true(nv_track_overlaps(track, at, 0x1000));
    assert_true(nv_track_overlaps(track, at + 0xfff, 1));
    assert_true(nv_track_overlaps(track, at + 0x1fff, 2));
    assert_true(nv_track_overlaps(track, at - 1, 2));
    assert_false(nv_track_overlaps(track, at - 1, 1));
    assert_false(nv_track_overlaps(track, at + 0x1000, 0x1000));
    assert_false(nv_track_overlaps(track, at + 0x3000, 0x1000));
    nv_track_munmap(track, at + 0x1000, 0x1000);
    nv_track_munmap(track, at - 0x1000, 0x1000);
    assert_true(nv_track_overlaps(track, at, 1));
    assert_true(nv_track_overlaps(track, at + 0x2000, 1));
    nv_track_munmap(track, at + 0xff0, 0x10);
    assert_false(nv_track_overlaps(track, at, 0x1000));
    assert_true(nv_track_overlaps(track, at + 0x2fff, 1));
    nv_track_munmap(track, at + 0x1000, 0x1001);
    assert_false(nv_track_overlaps(track, at, 0x10000));
    nv_track_destroy(track);
}

/* Without memory things are forgotten, and nothing else happens. */
static void
test_no_memory(void **state)
{
    struct nv_track *track = begin();

    (void)state;
    put(1);
    host_fail_after(1, 0);
    look(track);
    assert_int_equal(seen.n_calls, 0);
    assert_null(nv_track_create());
    host_fail_after(0, 0);
    look(track);
    assert_int_equal(seen.n_calls, 1);
    nv_track_destroy(track);
    nv_track_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_same_addresses),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_extended),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_not_followed),
        cmocka_unit_test(test_freed),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_uvm),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
