/* ioctl/kio_replay.c call by call: what is answered, where mappings come to
 * lie, what the device wrote, and each difference in its words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "ioctl/amdkfd_uapi.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "ioctl/kio_replay.h"
#include "tests/unit/expect.h"

#define PAGE        4096u
#define AT          0x200000000000u /* of recorded mappings */
#define GET_VERSION 0x80084b01u
#define WAIT_EVENTS 0xc0184b0cu
#define ANONYMOUS   (MAP_PRIVATE | MAP_ANONYMOUS)

static struct kio *
replay_of(const struct cas_record *records, uint32_t n)
{
    char path[] = "/tmp/kio_replay_XXXXXX";
    struct cas_writer *writer;
    struct kio *kio;
    uint32_t i;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    expect_ok(cas_writer_create(path, 0, "a=b\n", &writer));
    for (i = 0; i < n; i++)
        expect_ok(cas_write(writer, &records[i]));
    expect_ok(cas_writer_close(writer));
    expect_ok(kio_replay_create(path, &kio));
    unlink(path);
    return kio;
}

/* The same behind the opening of KFD as file 7. */
static struct kio *
replay_opened(const struct cas_record *records, uint32_t n)
{
    const struct cas_blob path = {
        .role = CAS_PATH, .size_bytes = 8, .data = (const uint8_t *)"/dev/kfd"};
    struct cas_record all[8] = {
        {.kind = CAS_OPEN, .fd = 7, .result = 7, .n_blobs = 1, .blobs = &path}};
    struct kio *kio;

    assert_true(n < 8);
    memcpy(all + 1, records, n * sizeof(*records));
    kio = replay_of(all, n + 1);
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", 0), 7);
    return kio;
}

/* From here on everything fails with this. */
static void
expect_broken(struct kio *kio, const char *why)
{
    char finish[512];
    short revents;

    assert_string_equal(kio_broken(kio), why);
    assert_string_equal(kio->ops->explain(kio), why);
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", 2), -EPROTO);
    assert_int_equal(kio->ops->close(kio, 7), -EPROTO);
    assert_int_equal(kio->ops->poll(kio, 7, 1, 1, &revents), -EPROTO);
    assert_string_equal(kio_broken(kio), why);
    snprintf(finish, sizeof(finish), "replay: %s", why);
    expect_fails(kio_replay_finish(kio), BELL_E_INTERNAL, finish);
    kio_destroy(kio);
}

static void
expect_end(struct kio *kio)
{
    assert_null(kio_broken(kio));
    expect_ok(kio_replay_finish(kio));
    kio_destroy(kio);
}

static struct cas_blob
text_blob(uint16_t role, const char *text)
{
    return (struct cas_blob){.role = role,
                             .size_bytes = (uint32_t)strlen(text),
                             .data = (const uint8_t *)text};
}

/* ---- files --------------------------------------------------------------- */

static void
test_open_close(void **state)
{
    const struct cas_blob path = text_blob(CAS_PATH, "/dev/kfd");
    struct cas_record records[] = {
        {.kind = CAS_OPEN,
         .fd = 7,
         .result = 7,
         .args = {2},
         .n_blobs = 1,
         .blobs = &path},
        {.kind = CAS_CLOSE, .fd = 7, .result = -4},
    };
    static const struct {
        const char *path;
        int flags;
        const char *why;
    } opens[] = {
        {"/dev/kfe", 2, "path: recorded /dev/kfd, now /dev/kfe"},
        {"/dev/kf", 2, "path: recorded /dev/kfd, now /dev/kf"},
        {"/dev/kfd0", 2, "path: recorded /dev/kfd, now /dev/kfd0"},
        {"/dev/kfd", 3, "open flags: recorded 0x2, now 0x3"},
    };
    char why[128];
    struct kio *kio;
    size_t i;

    (void)state;
    kio = replay_of(records, 2);
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", 2), 7);
    assert_int_equal(kio->ops->close(kio, 7), -4);
    expect_end(kio);
    for (i = 0; i < ARRAY_LEN(opens); i++) {
        kio = replay_of(records, 2);
        assert_int_equal(kio->ops->open(kio, opens[i].path, opens[i].flags),
                         -EPROTO);
        snprintf(why, sizeof(why), "call 0 of the cassette: %s", opens[i].why);
        expect_broken(kio, why);
    }
    kio = replay_of(records, 2);
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", 2), 7);
    assert_int_equal(kio->ops->close(kio, 8), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: close of file: recorded 0x7, "
                       "now 0x8");
    kio = replay_of(records, 2);
    assert_int_equal(kio->ops->close(kio, 7), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: recorded open, now close");
    kio = replay_of(records, 1);
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", 2), 7);
    assert_int_equal(kio->ops->close(kio, 7), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: close after the end");
    records[0].n_blobs = 0; /* without a path */
    kio = replay_of(records, 1);
    assert_int_equal(kio->ops->open(kio, "/x", 2), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: path: recorded , now /x");
    kio = replay_of(records, 2);
    expect_fails(kio_replay_finish(kio), BELL_E_INTERNAL,
                 "replay: 2 of the recorded calls were not made; the next was "
                 "open");
    kio_destroy(kio);
}

static void
test_reads(void **state)
{
    const struct cas_blob blobs[] = {text_blob(CAS_PATH, "/x"),
                                     text_blob(CAS_CONTENTS, "abcd")};
    struct cas_record record = {
        .kind = CAS_READ, .fd = -1, .result = 4, .n_blobs = 2, .blobs = blobs};
    char got[8] = "--------";
    struct kio *kio;

    (void)state;
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 8), 4);
    assert_memory_equal(got, "abcd----", 8);
    expect_end(kio);
    memset(got, '-', 8);
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 3), 3);
    assert_memory_equal(got, "abc-----", 8);
    expect_end(kio);
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/y", got, 3), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: path: recorded /x, now /y");
    record.n_blobs = 1;
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 3), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: read: the cassette has no "
                       "contents");
    memset(got, '-', 8);
    record.n_blobs = 2;
    record.result = -2;
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 8), -2);
    expect_end(kio);
    record.result = 0;
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 8), 0);
    assert_memory_equal(got, "--------", 8);
    expect_end(kio);
    record.n_blobs = 1; /* of an empty file */
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 8), 0);
    expect_end(kio);
}

/* ---- waits and what the device wrote ------------------------------------- */

static struct cas_record
a_poll(int32_t fd, uint64_t events, int64_t result)
{
    return (struct cas_record){.kind = CAS_POLL,
                               .fd = fd,
                               .result = result,
                               .args = {events, 50, 0x8001}};
}

static void
test_polls(void **state)
{
    const struct cas_record records[] = {
        a_poll(3, 0x8001, 5),
        a_poll(3, 1, 6),
        {.kind = CAS_CLOSE, .fd = 3},
        a_poll(3, 1, 7),
    };
    short revents = 0;
    struct kio *kio;

    (void)state;
    kio = replay_of(records, 4);
    assert_int_equal(kio->ops->poll(kio, 3, (short)-0x7fff, 1, &revents), 5);
    assert_int_equal(revents, (short)0x8001);
    assert_int_equal(kio->ops->close(kio, 3), 0); /* passes by a wait */
    expect_end(kio);                              /* and at the end */
    kio = replay_of(records, 4);
    assert_int_equal(kio->ops->poll(kio, 4, (short)-0x7fff, 1, &revents),
                     -EPROTO);
    expect_broken(kio, "call 0 of the cassette: poll of file: recorded 0x3, "
                       "now 0x4");
    kio = replay_of(records, 4);
    assert_int_equal(kio->ops->poll(kio, 3, 1, 1, &revents), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: poll events: recorded 0x8001, "
                       "now 0x1");
    kio = replay_of(records + 2, 1);
    assert_int_equal(kio->ops->poll(kio, 3, 1, 1, &revents), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: recorded close, now poll");
}

static struct cas_record
an_ioctl(uint32_t dev, uint64_t request, const struct cas_blob *blobs,
         uint32_t n)
{
    return (struct cas_record){.kind = CAS_IOCTL,
                               .fd = 7,
                               .dev = dev,
                               .args = {request},
                               .result = 2,
                               .n_blobs = n,
                               .blobs = blobs};
}

/* Waits of KFD are passed by too, by other calls and other waits alone. */
static void
test_kfd_waits(void **state)
{
    const struct cas_record records[] = {
        an_ioctl(KIO_DEV_KFD, WAIT_EVENTS, NULL, 0),
        a_poll(7, 1, 1),
        an_ioctl(KIO_DEV_KFD, GET_VERSION, NULL, 0),
        an_ioctl(KIO_DEV_NV_CTL, WAIT_EVENTS, NULL, 0),
        {.kind = CAS_CLOSE, .fd = 7},
    };
    struct amdkfd_wait_events wait = {0};
    struct amdkfd_get_version version = {0};
    struct kio *kio;

    (void)state;
    kio = replay_opened(records, 3);
    assert_int_equal(kio->ops->ioctl(kio, 7, WAIT_EVENTS, &wait), 2);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &version), 2);
    expect_end(kio);
    kio = replay_opened(records, 3);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &version), 2);
    expect_end(kio);
    kio = replay_opened(records, 5);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &version), 2);
    assert_int_equal(kio->ops->close(kio, 7), -EPROTO); /* no wait of KFD's */
    expect_broken(kio, "call 4 of the cassette: recorded ioctl, now close");
    kio = replay_opened(records, 1);
    expect_end(kio);
    kio = replay_opened(records + 2, 1);
    assert_int_equal(kio->ops->ioctl(kio, 8, GET_VERSION, &version), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: ioctl on file: recorded 0x7, "
                       "now 0x8");
    kio = replay_opened(records + 2, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION + 1, &version),
                     -EPROTO);
    expect_broken(kio, "call 1 of the cassette: ioctl request: recorded "
                       "0x80084b01, now 0x80084b02");
}

static struct cas_record
an_update(const struct cas_blob *blobs, uint32_t n)
{
    return (struct cas_record){
        .kind = CAS_UPDATE, .fd = -1, .n_blobs = n, .blobs = blobs};
}

static struct cas_record
a_map(uint64_t pages, uint64_t flags, int64_t result)
{
    return (struct cas_record){
        .kind = CAS_MMAP,
        .fd = 7,
        .result = result,
        .args = {0, pages * PAGE, (uint64_t)PROT_READ << 32 | flags, 0x3000}};
}

static void *
map(struct kio *kio, void *wish, size_t pages, int flags)
{
    void *addr = wish;

    assert_int_equal(
        kio->ops->mmap(kio, &addr, pages * PAGE, PROT_READ, flags, 7, 0x3000),
        0);
    return addr;
}

/* Records that are not a call are passed by, though no call is made. */
static void
test_no_calls(void **state)
{
    const struct cas_record records[] = {{.kind = CAS_START, .fd = -1},
                                         {.kind = CAS_NOTE, .fd = -1},
                                         {.kind = CAS_EXIT, .fd = -1}};
    uint32_t n;

    (void)state;
    for (n = 0; n <= ARRAY_LEN(records); n++)
        expect_end(replay_of(records, n));
}

/* The device's writes are there before the call that follows them, where the
 * mapping lies, and nowhere beside it. */
static void
test_updates(void **state)
{
    const struct cas_blob writes[] = {
        {.role = CAS_MEMORY,
         .cpu = AT + PAGE - 4,
         .size_bytes = 4,
         .data = (const uint8_t *)"last"},
        {.role = CAS_MEMORY,
         .cpu = AT,
         .size_bytes = 5,
         .data = (const uint8_t *)"first"},
        {.role = CAS_MEMORY, /* beyond the end, and before the beginning */
         .cpu = AT + PAGE - 3,
         .size_bytes = 4,
         .data = (const uint8_t *)"xxxx"},
        {.role = CAS_MEMORY,
         .cpu = AT - 1,
         .size_bytes = 4,
         .data = (const uint8_t *)"yyyy"},
    };
    const struct cas_record records[] = {
        a_map(1, ANONYMOUS, AT),
        {.kind = CAS_NOTE, .fd = -1},
        an_update(writes, 1),
        a_poll(7, 1, 1),
        an_update(writes + 1, 3),
        {.kind = CAS_SAMPLE, .fd = -1, .n_blobs = 1, .blobs = writes + 2},
        {.kind = CAS_START, .fd = -1},
        {.kind = CAS_EXIT, .fd = -1},
        {.kind = CAS_CLOSE, .fd = 7},
    };
    struct kio *kio = replay_of(records, ARRAY_LEN(records));
    char zeros[PAGE] = {0};
    short revents;
    uint8_t *at;

    (void)state;
    at = map(kio, NULL, 1, ANONYMOUS);
    assert_memory_equal(at + PAGE - 4, "last", 4);
    assert_memory_equal(at, zeros, PAGE - 4);
    assert_int_equal(kio->ops->poll(kio, 7, 1, 0, &revents), 1);
    assert_memory_equal(at, "first", 5);
    assert_memory_equal(at + 5, zeros, PAGE - 9);
    assert_memory_equal(at + PAGE - 4, "last", 4);
    assert_int_equal(kio->ops->close(kio, 7), 0);
    expect_end(kio);
    /* it was passed by, and what came with it is there */
    kio = replay_of(records, ARRAY_LEN(records));
    at = map(kio, NULL, 1, ANONYMOUS);
    assert_int_equal(kio->ops->close(kio, 7), 0);
    assert_memory_equal(at, "first", 5);
    expect_end(kio);
}

/* ---- mappings ------------------------------------------------------------ */

static void
test_maps(void **state)
{
    struct cas_record record = a_map(2, MAP_SHARED, AT);
    static const struct {
        size_t size_bytes;
        int prot, flags, fd;
        uint64_t offset;
        const char *why;
    } rows[] = {
        {2 * PAGE, 1, MAP_SHARED, 8, 0x3000,
         "mmap of file: recorded 0x7, now 0x8"},
        {3 * PAGE, 1, MAP_SHARED, 7, 0x3000,
         "mmap bytes: recorded 0x2000, now 0x3000"},
        {2 * PAGE, 3, MAP_SHARED, 7, 0x3000,
         "mmap flags: recorded 0x100000001, now 0x300000001"},
        {2 * PAGE, 1, MAP_PRIVATE, 7, 0x3000,
         "mmap flags: recorded 0x100000001, now 0x100000002"},
        {2 * PAGE, 1, MAP_SHARED, 7, 0,
         "mmap offset: recorded 0x3000, now 0x0"},
    };
    char why[128];
    struct kio *kio;
    void *addr, *taken;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        kio = replay_of(&record, 1);
        addr = NULL;
        assert_int_equal(kio->ops->mmap(kio, &addr, rows[i].size_bytes,
                                        rows[i].prot, rows[i].flags, rows[i].fd,
                                        rows[i].offset),
                         -EPROTO);
        assert_null(addr);
        snprintf(why, sizeof(why), "call 0 of the cassette: %s", rows[i].why);
        expect_broken(kio, why);
    }
    kio = replay_of(&record, 1);
    addr = map(kio, NULL, 2, MAP_SHARED);
    assert_true(addr == (void *)AT);
    memset(addr, 1, 2 * PAGE);
    expect_end(kio);
    /* the place is taken: then anywhere, and not there */
    taken = mmap((void *)AT, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED_NOREPLACE,
                 -1, 0);
    assert_true(taken == (void *)AT); /* so was it given back */
    kio = replay_of(&record, 1);
    addr = map(kio, NULL, 2, MAP_SHARED);
    assert_true(addr != (void *)AT);
    memset(addr, 1, 2 * PAGE);
    assert_int_equal(*(volatile char *)taken, 0);
    expect_end(kio);
    munmap(taken, PAGE);
    /* no address was recorded */
    record.result = 0;
    kio = replay_of(&record, 1);
    assert_non_null(map(kio, NULL, 2, MAP_SHARED));
    expect_end(kio);
    for (i = 0; i < 2; i++) { /* failures, the lowest one too */
        record.result = i ? -4095 : -1;
        kio = replay_of(&record, 1);
        addr = NULL;
        assert_int_equal(
            kio->ops->mmap(kio, &addr, 2 * PAGE, 1, MAP_SHARED, 7, 0x3000),
            record.result);
        assert_null(addr);
        expect_end(kio);
    }
    record.result = -4096; /* an address, if a strange one */
    kio = replay_of(&record, 1);
    assert_non_null(map(kio, NULL, 2, MAP_SHARED));
    expect_end(kio);
}

/* Fixed mappings replace what they lie on, unmapped parts are forgotten: what
 * the device writes goes to what is left, under its recorded address. */
static void
test_pieces(void **state)
{
    struct cas_blob writes[8];
    struct cas_record records[] = {
        a_map(8, ANONYMOUS, AT),
        {.kind = CAS_MUNMAP, .fd = -1, .args = {0, PAGE}, .result = 0},
        a_map(1, ANONYMOUS | MAP_FIXED, AT + 64 * PAGE),
        {.kind = CAS_MUNMAP, .fd = -1, .args = {0, 2 * PAGE}, .result = -9},
        {.kind = CAS_UPDATE, .fd = -1, .n_blobs = 8, .blobs = writes},
        {.kind = CAS_CLOSE, .fd = 7},
    };
    struct kio *kio;
    uint8_t *at, *fixed;
    uint32_t i;

    (void)state;
    for (i = 0; i < 8; i++)
        writes[i] = (struct cas_blob){.role = CAS_MEMORY,
                                      .cpu = AT + i * PAGE,
                                      .size_bytes = 1,
                                      .data = (const uint8_t *)"12345678" + i};
    writes[6].cpu = AT + 64 * PAGE; /* of the fixed one */
    kio = replay_of(records, ARRAY_LEN(records));
    at = map(kio, NULL, 8, ANONYMOUS);
    assert_int_equal(kio->ops->munmap(kio, at + 3 * PAGE, PAGE), 0);
    fixed = map(kio, at + 5 * PAGE, 1, ANONYMOUS | MAP_FIXED);
    assert_ptr_equal(fixed, at + 5 * PAGE);
    assert_int_equal(kio->ops->munmap(kio, at, 2 * PAGE), -9);
    assert_int_equal(at[2 * PAGE], '3');
    assert_int_equal(at[4 * PAGE], '5');
    assert_int_equal(at[5 * PAGE], '7');
    assert_int_equal(at[6 * PAGE], 0);
    assert_int_equal(at[7 * PAGE], '8');
    assert_int_equal(kio->ops->close(kio, 7), 0);
    expect_end(kio);
    kio = replay_of(records, ARRAY_LEN(records));
    at = map(kio, NULL, 8, ANONYMOUS);
    assert_int_equal(kio->ops->munmap(kio, at + 3 * PAGE, 2 * PAGE), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: munmap bytes: recorded 0x1000, "
                       "now 0x2000");
}

/* ---- arguments and answers ----------------------------------------------- */

#define ARG(role_, value)                                                      \
    {                                                                          \
        .role = role_, .size_bytes = sizeof(value),                            \
        .data = (const uint8_t *)&(value)                                      \
    }

static void
test_answers(void **state)
{
    struct amdkfd_get_version asked = {0}, told = {3, 4}, now;
    uint8_t longer[12] = {0};
    struct cas_blob blobs[] = {ARG(CAS_ARG_IN, asked), ARG(CAS_ARG_OUT, told)};
    struct cas_record record = an_ioctl(KIO_DEV_KFD, GET_VERSION, blobs, 2);
    struct kio *kio;

    (void)state;
    memset(&now, 0, sizeof(now));
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), 2);
    assert_memory_equal(&now, &told, sizeof(now));
    expect_end(kio);
    now = (struct amdkfd_get_version){0, 6};
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), -EPROTO);
    assert_int_equal(now.minor_version, 6);
    expect_broken(kio, "call 1 of the cassette: AMDKFD_IOC_GET_VERSION: "
                       "minor_version: recorded 0x0, now 0x6;");
    /* an answer of another length does not belong to this call */
    blobs[1] = (struct cas_blob)ARG(CAS_ARG_OUT, longer);
    memset(&now, 0, sizeof(now));
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), 2);
    assert_int_equal(now.major_version, 0);
    expect_end(kio);
    blobs[0] = (struct cas_blob)ARG(CAS_ARG_IN, longer);
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: AMDKFD_IOC_GET_VERSION: "
                       "recorded 12 bytes, now 8");
    /* an answer alone: the argument was there */
    blobs[1] = (struct cas_blob)ARG(CAS_ARG_OUT, told);
    record.blobs = blobs + 1;
    record.n_blobs = 1;
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: AMDKFD_IOC_GET_VERSION: "
                       "recorded 0 bytes, now 8");
    record.n_blobs = 0; /* nobody knew that there is one */
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), 2);
    expect_end(kio);
}

/* Pointers stay the caller's; what they lead to is compared and answered. */
static void
test_pointers(void **state)
{
    const uint32_t request = 0xc0184b18;
    uint32_t ids[2] = {21, 22}, ids_told[2] = {31, 32}, ids_now[2];
    struct amdkfd_map_memory was = {
        .handle = 9, .device_ids_array_ptr = 0x1234, .n_devices = 2};
    struct amdkfd_map_memory told = was, now;
    struct cas_blob blobs[] = {ARG(CAS_ARG_IN, was), ARG(CAS_ARG_IN, ids),
                               ARG(CAS_ARG_OUT, told),
                               ARG(CAS_ARG_OUT, ids_told)};
    struct cas_record record = an_ioctl(KIO_DEV_KFD, request, blobs, 4);
    struct kio *kio;

    (void)state;
    told.n_success = 2;
    blobs[1].extra = blobs[3].extra = 1;
    blobs[1].field_offset_bytes = blobs[3].field_offset_bytes = 8;
    now = was;
    now.device_ids_array_ptr = (uintptr_t)ids_now;
    memcpy(ids_now, ids, sizeof(ids));
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, request, &now), 2);
    assert_int_equal(now.n_success, 2);
    assert_int_equal(now.device_ids_array_ptr, (uintptr_t)ids_now);
    assert_memory_equal(ids_now, ids_told, sizeof(ids));
    expect_end(kio);
    now.n_success = 0; /* ids_now are others by now */
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, request, &now), -EPROTO);
    assert_non_null(strstr(kio_broken(kio), "recorded 0x15, now 0x1f;"));
    kio_destroy(kio);
    record.n_blobs = 1; /* it was not followed then */
    now.n_success = 0;
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, request, &now), 2);
    expect_end(kio);
}

/* A call that was recorded on another kind of file has another layout. */
static void
test_kinds_of_files(void **state)
{
    struct amdkfd_get_version now = {0};
    struct cas_record record = an_ioctl(KIO_DEV_NV_CTL, GET_VERSION, NULL, 0);
    struct kio *kio;

    (void)state;
    kio = replay_opened(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), -EPROTO);
    expect_broken(kio, "call 1 of the cassette: ioctl on nvidiactl, now on "
                       "kfd");
    kio = replay_of(&record, 1);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &now), -EPROTO);
    expect_broken(kio, "call 0 of the cassette: ioctl on nvidiactl, now on "
                       "file");
}

/* ---- doorbells ----------------------------------------------------------- */

static void
test_doorbells(void **state)
{
    const struct cas_blob blobs[] = {{.role = CAS_REGION,
                                      .addr = 0x1000,
                                      .size_bytes = 4,
                                      .extra = KIO_REGION_RING,
                                      .data = (const uint8_t *)"ring"},
                                     {.role = CAS_REGION,
                                      .addr = 0x2000,
                                      .size_bytes = 4,
                                      .extra = KIO_REGION_SIGNAL,
                                      .data = (const uint8_t *)"sign"}};
    const struct cas_record record = {.kind = CAS_DOORBELL,
                                      .fd = -1,
                                      .args = {0x55, 77, 8},
                                      .n_blobs = 2,
                                      .blobs = blobs};
    static const struct kio_region good[2] = {
        {"ring", 0x1000, 4, KIO_REGION_RING},
        {"else", 0x2000, 4, KIO_REGION_SIGNAL}};
    struct kio_region regions[3];
    struct kio_bell bell = {
        .value = 77, .value_bytes = 8, .n_regions = 2, .regions = regions};
    static const char *const whys[] = {
        NULL,
        "kind of region: recorded 0x1, now 0x5",
        "address of region: recorded 0x2000, now 0x2001",
        "bytes of region: recorded 0x4, now 0x5",
        "region 0 (kind 1) at 0x1000 + 0x3: recorded 0x67, now 0x66",
        "doorbell value: recorded 0x4d, now 0x4e",
        "regions at a doorbell: recorded 0x2, now 0x3",
        "regions at a doorbell: recorded 0x2, now 0x1",
    };
    char why[128];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(whys); i++) {
        struct kio *kio = replay_of(&record, 1);

        memcpy(regions, good, sizeof(good));
        regions[2] = good[1];
        bell.n_regions = i == 6 ? 3 : i == 7 ? 1 : 2;
        bell.value = i == 5 ? 78 : 77;
        if (i == 1)
            regions[0].kind = KIO_REGION_SIGNAL;
        regions[1].va += i == 2;
        regions[1].size_bytes += i == 3;
        if (i == 4)
            regions[0].cpu = "rinf";
        kio->ops->doorbell(kio, &bell);
        if (!whys[i]) {
            expect_end(kio);
            continue;
        }
        snprintf(why, sizeof(why), "call 0 of the cassette: %s", whys[i]);
        expect_broken(kio, why);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_close),     cmocka_unit_test(test_reads),
        cmocka_unit_test(test_polls),          cmocka_unit_test(test_kfd_waits),
        cmocka_unit_test(test_no_calls),       cmocka_unit_test(test_updates),
        cmocka_unit_test(test_maps),           cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_answers),        cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_kinds_of_files), cmocka_unit_test(test_doorbells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
