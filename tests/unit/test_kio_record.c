/* ioctl/kio_record.c on a kernel that answers as it is told: what each call
 * leaves in the cassette, which memory is watched and until when, and what is
 * told when recording fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/amdkfd_uapi.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "ioctl/kio_record.h"
#include "tests/unit/expect.h"

#define GET_VERSION 0x80084b01u
#define WATCHED     4096u /* bytes of a place, at most */

static char path[64];
static int first_fd; /* that a test found free */

static int
make_path(void **state)
{
    int fd;

    (void)state;
    first_fd = next_fd();
    snprintf(path, sizeof(path), "/tmp/kio-record-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int
remove_path(void **state)
{
    (void)state;
    unlink(path);
    assert_int_equal(next_fd(), first_fd);
    return 0;
}

/* ---- the kernel ---------------------------------------------------------- */

static int answer; /* of the next call */
static void *mapped;
static unsigned n_bells, n_calls;

static void
fake_destroy(struct kio *kio)
{
    (void)kio;
}

static int
fake_open(struct kio *kio, const char *name, int flags)
{
    (void)kio, (void)name, (void)flags;
    n_calls++;
    return answer;
}

static int
fake_close(struct kio *kio, int fd)
{
    (void)kio, (void)fd;
    n_calls++;
    return answer;
}

static int
fake_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    (void)kio, (void)fd;
    n_calls++;
    if (request == GET_VERSION && answer >= 0)
        ((struct amdkfd_get_version *)arg)->major_version = 9;
    return answer;
}

static int
fake_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
          int fd, uint64_t offset)
{
    (void)kio, (void)size_bytes, (void)prot, (void)flags, (void)fd;
    (void)offset;
    n_calls++;
    if (answer >= 0)
        *addr = mapped;
    return answer;
}

static int
fake_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio, (void)addr, (void)size_bytes;
    n_calls++;
    return answer;
}

static int
fake_poll(struct kio *kio, int fd, short events, int timeout_ms,
          short *out_revents)
{
    (void)kio, (void)fd, (void)events, (void)timeout_ms;
    n_calls++;
    *out_revents = (short)0x8001;
    return answer;
}

static int
fake_read_file(struct kio *kio, const char *name, void *buf, size_t cap)
{
    (void)kio, (void)name;
    n_calls++;
    memset(buf, 'r', cap);
    return answer;
}

static void
fake_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    (void)kio, (void)bell;
    n_bells++;
}

static const struct kio_ops fake_ops = {.name = "fake",
                                        .destroy = fake_destroy,
                                        .open = fake_open,
                                        .close = fake_close,
                                        .ioctl = fake_ioctl,
                                        .mmap = fake_mmap,
                                        .munmap = fake_munmap,
                                        .poll = fake_poll,
                                        .read_file = fake_read_file,
                                        .doorbell = fake_doorbell};
static struct kio fake = {.ops = &fake_ops};

/* A recording with KFD's node opened as 7. */
static struct kio *
record(void)
{
    struct kio *kio;

    expect_ok(kio_record_create(&fake, path, &kio));
    answer = 7;
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", O_RDWR), 7);
    answer = 0;
    return kio;
}

/* The end of a recording: a line for each record after the first. */
static void
expect_records(struct kio *kio, const char *want)
{
    static char text[65536];
    struct cas_reader *reader;
    uint32_t i, b, k;
    size_t n = 0;

    expect_ok(kio_record_finish(kio));
    kio_destroy(kio);
    expect_ok(cas_reader_open(path, &reader));
    assert_false(cas_reader_truncated(reader));
    text[0] = '\0';
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);

        assert_int_equal(r->pid, getpid());
        assert_int_equal(r->tid, getpid());
        assert_true(r->time_ns != 0);
        if (i == 0) {
            assert_int_equal(r->kind, CAS_OPEN);
            continue;
        }
        n += (size_t)snprintf(
            text + n, sizeof(text) - n,
            "%s %d of %u, %llx %llx %llx %llx: %lld", cas_kind_name(r->kind),
            r->fd, r->dev, (unsigned long long)r->args[0],
            (unsigned long long)r->args[1], (unsigned long long)r->args[2],
            (unsigned long long)r->args[3], (long long)r->result);
        for (b = 0; b < r->n_blobs; b++) {
            const struct cas_blob *blob = &r->blobs[b];
            n += (size_t)snprintf(
                text + n, sizeof(text) - n, " (%u %llx %u %u:", blob->role,
                blob->role == CAS_ARG_IN || blob->role == CAS_ARG_OUT
                    ? 0ull
                    : (unsigned long long)blob->addr,
                blob->size_bytes, blob->extra);
            for (k = 0; k < blob->size_bytes && k < 12; k++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, " %x",
                                      blob->data[k]);
            n += (size_t)snprintf(text + n, sizeof(text) - n, ")");
        }
        n += (size_t)snprintf(text + n, sizeof(text) - n, "\n");
        assert_true(n < sizeof(text));
    }
    cas_reader_close(reader);
    assert_string_equal(text, want);
}

/* ---- calls --------------------------------------------------------------- */

static void
test_files(void **state)
{
    struct amdkfd_get_version version = {0};
    struct kio *kio = record();

    (void)state;
    answer = -ENOENT;
    assert_int_equal(kio->ops->open(kio, "/dev/x", 3), -ENOENT);
    answer = 0; /* a number like others */
    assert_int_equal(kio->ops->open(kio, "/dev/nvidiactl", 2), 0);
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &version), 0);
    answer = -EIO;
    version.major_version = 1;
    assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &version), -EIO);
    assert_int_equal(kio->ops->ioctl(kio, 0, 0x4bff, NULL), -EIO);
    assert_int_equal(kio->ops->ioctl(kio, -ENOENT, 0x4bff, NULL), -EIO);
    answer = 3;
    assert_int_equal(kio->ops->close(kio, 7), 3);
    expect_records(kio,
                   "open -2 of 0, 3 0 0 0: -2 (1 0 6 0: 2f 64 65 76 2f 78)\n"
                   "open 0 of 1, 2 0 0 0: 0 "
                   "(1 0 14 0: 2f 64 65 76 2f 6e 76 69 64 69 61 63)\n"
                   "ioctl 7 of 4, 80084b01 0 0 0: 0 (2 0 8 0: 0 0 0 0 0 0 0 0) "
                   "(3 0 8 0: 9 0 0 0 0 0 0 0)\n"
                   "ioctl 7 of 4, 80084b01 0 0 0: -5 (2 0 8 0: 1 0 0 0 0 0 0 "
                   "0)\n"
                   "ioctl 0 of 1, 4bff 0 0 0: -5\n"
                   "ioctl -2 of 0, 4bff 0 0 0: -5\n"
                   "close 7 of 4, 0 0 0 0: 0\n");
}

static void
test_memory_and_waits(void **state)
{
    struct kio *kio = record();
    void *addr = (void *)0x5000;
    char text[8];
    short revents;

    (void)state;
    mapped = (void *)0x7000;
    assert_int_equal(kio->ops->mmap(kio, &addr, 0x2000, 3, -1, 7, 0x9000), 0);
    assert_ptr_equal(addr, mapped);
    answer = -ENOMEM;
    addr = (void *)0x5000;
    assert_int_equal(kio->ops->mmap(kio, &addr, 1, -1, MAP_FIXED, -1, 2),
                     -ENOMEM);
    assert_int_equal(kio->ops->munmap(kio, addr, 5), -ENOMEM);
    answer = 1;
    assert_int_equal(kio->ops->poll(kio, 7, -2, -1, &revents), 1);
    assert_int_equal(revents, (short)0x8001);
    answer = 0;
    assert_int_equal(kio->ops->poll(kio, 7, 1, 20, &revents), 0);
    answer = -EINTR;
    assert_int_equal(kio->ops->poll(kio, 7, 1, 20, &revents), -EINTR);
    for (answer = -2; answer < 3; answer += 2)
        assert_int_equal(kio->ops->read_file(kio, "/a", text, 8), answer);
    expect_records(kio,
                   "mmap 7 of 4, 5000 2000 3ffffffff 9000: 28672\n"
                   "mmap -1 of 0, 5000 1 ffffffff00000010 2: -12\n"
                   "munmap -1 of 0, 5000 5 0 0: -12\n"
                   "poll 7 of 4, fffe ffffffff 8001 0: 1\n"
                   "poll 7 of 4, 1 14 8001 0: 0\n"
                   "poll 7 of 4, 1 14 0 0: -4\n"
                   "read -1 of 0, 0 0 0 0: -2 (1 0 2 0: 2f 61) (5 0 0 0:)\n"
                   "read -1 of 0, 0 0 0 0: 0 (1 0 2 0: 2f 61) (5 0 0 0:)\n"
                   "read -1 of 0, 0 0 0 0: 2 (1 0 2 0: 2f 61) (5 0 2 0: 72 "
                   "72)\n");
}

/* Memory that a doorbell names is copied wherever it begins and ends, up to a
 * number of places; the bell is passed on to whoever looks. */
static void
test_doorbells(void **state)
{
    static const uint8_t data[32] = {0,  1,  2,  3,  4,  5,  6,  7,
                                     8,  9,  10, 11, 12, 13, 14, 15,
                                     16, 17, 18, 19, 20, 21, 22, 23};
    const struct kio_region regions[] = {
        {data, 0x100, 7, KIO_REGION_RING},
        {data, 0x200, 8, KIO_REGION_PUSH},
        {data, 0x300, 9, KIO_REGION_DATA},
        {data + 1, 0x400, 9, KIO_REGION_DATA},
        {data, 0x500, 0, KIO_REGION_DATA},
    };
    struct kio_bell bell = {.address = (void *)0x6000,
                            .value = 0x123456789a,
                            .value_bytes = 4,
                            .n_regions = ARRAY_LEN(regions),
                            .regions = regions};
    const struct kio_ops deaf_ops = {.name = "deaf", .destroy = fake_destroy};
    struct kio deaf = {.ops = &deaf_ops};
    struct kio *kio = record();

    (void)state;
    n_bells = 0;
    kio->ops->doorbell(kio, &bell);
    assert_int_equal(n_bells, 1);
    bell.n_regions = 0;
    kio->below = &deaf;
    kio->ops->doorbell(kio, &bell);
    expect_records(kio, "doorbell -1 of 0, 6000 123456789a 4 0: 0 "
                        "(4 100 7 1: 0 1 2 3 4 5 6) "
                        "(4 200 8 2: 0 1 2 3 4 5 6 7) "
                        "(4 300 9 0: 0 1 2 3 4 5 6 7 8) "
                        "(4 400 9 0: 1 2 3 4 5 6 7 8 9) "
                        "(4 500 0 0:)\n"
                        "doorbell -1 of 0, 6000 123456789a 4 0: 0\n");
}

static void
test_many_regions(void **state)
{
    static struct kio_region regions[CAS_BLOBS_MAX + 1];
    struct kio_bell bell = {.n_regions = CAS_BLOBS_MAX + 1, .regions = regions};
    struct kio *kio = record();
    struct cas_reader *reader;
    uint32_t i;

    (void)state;
    for (i = 0; i <= CAS_BLOBS_MAX; i++)
        regions[i] = (struct kio_region){&regions[i], i, 1, 0};
    kio->ops->doorbell(kio, &bell);
    bell.n_regions = CAS_BLOBS_MAX;
    kio->ops->doorbell(kio, &bell);
    expect_ok(kio_record_finish(kio));
    kio_destroy(kio);
    expect_ok(cas_reader_open(path, &reader));
    assert_int_equal(cas_reader_count(reader), 3);
    for (i = 1; i < 3; i++) {
        const struct cas_record *r = cas_reader_get(reader, i);

        assert_int_equal(r->n_blobs, CAS_BLOBS_MAX);
        assert_int_equal(r->blobs[CAS_BLOBS_MAX - 1].addr, CAS_BLOBS_MAX - 1);
    }
    cas_reader_close(reader);
}

/* ---- what the device writes ---------------------------------------------- */

static void
watch(struct kio *kio, const volatile void *cpu, uint64_t va, size_t n)
{
    const struct kio_region region = {cpu, va, n, KIO_REGION_SIGNAL};
    const struct kio_bell bell = {.n_regions = 1, .regions = &region};

    kio->ops->doorbell(kio, &bell);
}

/* How many changes of each place a recording has: addresses are their numbers.
 */
static void
count_updates(struct kio *kio, unsigned *n, uint32_t n_places)
{
    struct cas_reader *reader;
    uint32_t i;

    expect_ok(kio_record_finish(kio));
    kio_destroy(kio);
    expect_ok(cas_reader_open(path, &reader));
    memset(n, 0, n_places * sizeof(*n));
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);

        if (r->kind != CAS_UPDATE)
            continue;
        assert_int_equal(r->fd, -1);
        assert_int_equal(r->n_blobs, 1);
        assert_int_equal(r->blobs[0].role, CAS_MEMORY);
        assert_true(r->blobs[0].addr < n_places);
        n[r->blobs[0].addr]++;
    }
    cas_reader_close(reader);
}

/* The first and the last byte of a place, up to so many, and none beside it. */
static void
test_edges_of_places(void **state)
{
    static const uint32_t sizes[] = {1,  7,           8,       9,
                                     17, WATCHED - 1, WATCHED, WATCHED + 1};
    static uint8_t memory[WATCHED + 64];
    size_t i, start;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        for (start = 8; start < 10; start++) {
            uint32_t n = sizes[i] < WATCHED ? sizes[i] : WATCHED;
            struct kio *kio = record();
            unsigned n_updates[8];
            char text[8];

            watch(kio, memory + start, 5, sizes[i]);
            memory[start - 1]++;
            memory[start + n]++;
            kio->ops->read_file(kio, "/a", text, 8);
            memory[start]++;
            kio->ops->read_file(kio, "/a", text, 8);
            kio->ops->read_file(kio, "/a", text, 8);
            memory[start + n - 1]++; /* told when it ends */
            count_updates(kio, n_updates, 8);
            assert_int_equal(n_updates[5], 2);
        }
    }
}

/* What was written, where, and before the call that noticed it. */
static void
test_updates(void **state)
{
    volatile uint8_t memory[16] = {1, 2, 3};
    struct kio *kio = record();
    char want[512];

    (void)state;
    watch(kio, memory + 1, 0x77, 3);
    watch(kio, memory + 1, 0x78, 2); /* known by where it is */
    memory[2] = 9;
    answer = 5;
    kio->ops->close(kio, 7);
    answer = 0;
    snprintf(want, sizeof(want),
             "doorbell -1 of 0, 0 0 0 0: 0 (4 77 3 5: 2 3 0)\n"
             "doorbell -1 of 0, 0 0 0 0: 0 (4 78 2 5: 2 3)\n"
             "update -1 of 0, 0 0 0 0: 0 (7 77 3 0: 2 9 0)\n"
             "close 7 of 4, 0 0 0 0: 0\n");
    expect_records(kio, want);
}

/* Memory that is unmapped, or mapped over, is looked at once more and no longer
 * watched; its neighbours still are. */
static void
test_gone_places(void **state)
{
    static const struct {
        uint32_t start, n;
        bool goes;
    } rows[] = {{0, 64, false},  {0, 65, true},  {64, 16, true}, {79, 20, true},
                {80, 16, false}, {60, 40, true}, {66, 2, true},  {0, 0, false}};
    uint8_t memory[192] = {0};
    uint32_t i, how;

    (void)state;
    for (i = 0; i < 3 * ARRAY_LEN(rows); i++) {
        struct kio *kio = record();
        uint32_t row = i / 3;
        void *at = memory + rows[row].start;
        unsigned n[3];

        how = i % 3;
        watch(kio, memory + 64, 0, 16);
        watch(kio, memory + 160, 1, 8);
        watch(kio, memory + 176, 2, 8);
        memory[64]++;
        mapped = at;
        if (how == 0)
            kio->ops->munmap(kio, at, rows[row].n);
        else
            kio->ops->mmap(kio, &at, rows[row].n, 3,
                           how == 1 ? MAP_FIXED : MAP_SHARED, -1, 0);
        memory[64]++;
        memory[160]++;
        memory[176]++;
        count_updates(kio, n, 3);
        assert_int_equal(n[0], rows[row].goes && how < 2 ? 1 : 2);
        assert_int_equal(n[1], 1);
        assert_int_equal(n[2], 1);
    }
}

/* ---- failures ------------------------------------------------------------ */

/* After its end calls pass unrecorded; without a node there is no file. */
static void
test_ends(void **state)
{
    struct cas_reader *reader;
    struct kio *kio = record();
    char text[8];

    (void)state;
    expect_ok(kio_record_finish(kio));
    n_calls = 0;
    answer = 2;
    assert_int_equal(kio->ops->read_file(kio, "/a", text, 8), 2);
    assert_int_equal(kio->ops->open(kio, "/dev/kfd", 2), 2);
    assert_int_equal(n_calls, 2);
    expect_ok(kio_record_finish(kio));
    kio_destroy(kio);
    expect_ok(cas_reader_open(path, &reader));
    assert_int_equal(cas_reader_count(reader), 1);
    cas_reader_close(reader);

    expect_ok(kio_record_create(&fake, path, &kio));
    answer = -ENOENT;
    (void)kio->ops->open(kio, "/dev/kfd", 2);
    (void)kio->ops->read_file(kio, "/a", text, 8);
    kio_destroy(kio);
    expect_ok(cas_reader_open(path, &reader)); /* that of before */
    assert_int_equal(cas_reader_count(reader), 1);
    cas_reader_close(reader);
}

/* Each allocation that fails alone: what was called works, the rest is
 * recorded, and the first failure is told. */
static void
test_no_memory(void **state)
{
    static struct kio_region regions[2];
    const struct kio_bell bell = {.n_regions = 2, .regions = regions};
    bell_status status = BELL_E_NO_MEMORY;
    struct kio *kio;
    uint64_t nth;

    (void)state;
    regions[0] = (struct kio_region){regions, 0, 8, KIO_REGION_SIGNAL};
    regions[1] =
        (struct kio_region){regions, 8, sizeof(regions), KIO_REGION_DATA};
    for (nth = 1; status != BELL_OK; nth++) {
        struct amdkfd_get_version version = {0};

        assert_true(nth < 100);
        host_fail_after(nth, 1);
        status = kio_record_create(&fake, path, &kio);
        if (status != BELL_OK) {
            host_fail_after(0, 0);
            assert_int_equal(status, BELL_E_NO_MEMORY);
            continue;
        }
        answer = 7;
        assert_int_equal(kio->ops->open(kio, "/dev/kfd", 2), 7);
        answer = 0;
        n_bells = 0;
        assert_int_equal(kio->ops->ioctl(kio, 7, GET_VERSION, &version), 0);
        assert_int_equal(version.major_version, 9);
        kio->ops->doorbell(kio, &bell);
        assert_int_equal(n_bells, 1);
        status = kio_record_finish(kio);
        host_fail_after(0, 0);
        if (status != BELL_OK) {
            expect_fails(status, BELL_E_NO_MEMORY, "memory");
            /* of later failures nothing is told */
            (void)bell_fail(BELL_E_IO, "another");
            expect_fails(kio_record_finish(kio), BELL_E_NO_MEMORY, "memory");
        }
        kio_destroy(kio);
    }
    assert_true(nth > 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_memory_and_waits),
        cmocka_unit_test(test_doorbells),
        cmocka_unit_test(test_many_regions),
        cmocka_unit_test(test_edges_of_places),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_gone_places),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
