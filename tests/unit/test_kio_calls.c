/* System calls of ioctl/ that are interrupted, do a part, or fail: cassettes
 * that are written and read, and small files of the system.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "tests/unit/expect.h"

static char path[64], text_path[64];
static int first_fd; /* that a test found free */

/* ---- the calls ----------------------------------------------------------- */

static bool slow;      /* every other call is interrupted, three bytes a call */
static bool of_writes; /* reads are made as ever */
static uint64_t left;  /* calls before one that fails; UINT64_MAX: none does */
static ssize_t answer; /* of that: -1 with EIO, or 0 */
static uint64_t n_calls;

/* Whether the call is made, then of how many bytes; else the answer. */
static bool
is_made(size_t *n, ssize_t *out_answer)
{
    n_calls++;
    if (left-- == 0) {
        errno = EIO;
        *out_answer = answer;
        return false;
    }
    if (slow && n_calls % 2) {
        errno = EINTR;
        *out_answer = -1;
        return false;
    }
    *n = slow && *n > 3 ? 3 : *n;
    return true;
}

ssize_t __real_read(int fd, void *buf, size_t n);
ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n);
ssize_t __wrap___read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __wrap_write(int fd, const void *buf, size_t n);

ssize_t
__wrap_read(int fd, void *buf, size_t n)
{
    ssize_t result;

    return of_writes || is_made(&n, &result) ? __real_read(fd, buf, n) : result;
}

/* What a build with _FORTIFY_SOURCE calls. */
ssize_t
__wrap___read_chk(int fd, void *buf, size_t n, size_t room)
{
    assert_true(n <= room);
    return __wrap_read(fd, buf, n);
}

ssize_t
__wrap_write(int fd, const void *buf, size_t n)
{
    ssize_t result;

    return is_made(&n, &result) ? __real_write(fd, buf, n) : result;
}

static void
set_calls(bool are_slow, uint64_t n_good, ssize_t then)
{
    slow = are_slow;
    left = n_good;
    answer = then;
    n_calls = 0;
}

static void
usual_calls(void)
{
    set_calls(false, UINT64_MAX, 0);
}

static int
make_paths(void **state)
{
    int fd, other;

    (void)state;
    usual_calls();
    first_fd = next_fd();
    snprintf(path, sizeof(path), "/tmp/kio-calls-XXXXXX");
    snprintf(text_path, sizeof(text_path), "/tmp/kio-text-XXXXXX");
    fd = mkstemp(path);
    other = mkstemp(text_path);
    if (fd < 0 || other < 0 || write(other, "some words", 10) != 10)
        return -1;
    close(fd);
    close(other);
    unlink(path);
    return 0;
}

static int
remove_paths(void **state)
{
    (void)state;
    unlink(path);
    unlink(text_path);
    assert_int_equal(next_fd(), first_fd);
    return 0;
}

/* ---- cassettes ----------------------------------------------------------- */

/* Two records. */
static bell_status
write_cassette(uint32_t flags)
{
    const struct cas_blob blob = {.role = CAS_PATH,
                                  .size_bytes = 9,
                                  .data = (const uint8_t *)"/dev/kfd1"};
    const struct cas_record record = {
        .kind = CAS_OPEN, .fd = 3, .n_blobs = 1, .blobs = &blob};
    struct cas_writer *writer;
    bell_status status;

    BELL_TRY(cas_writer_create(path, flags, "a=b\n", &writer));
    status = cas_write(writer, &record);
    if (status == BELL_OK)
        status = cas_write(writer, &record);
    if (status != BELL_OK) {
        cas_writer_drop(writer);
        return status;
    }
    return cas_writer_close(writer);
}

static void
expect_cassette(void)
{
    struct cas_reader *reader;
    uint32_t i;

    expect_ok(cas_reader_open(path, &reader));
    assert_false(cas_reader_truncated(reader));
    assert_string_equal(cas_reader_identity(reader), "a=b\n");
    assert_int_equal(cas_reader_count(reader), 2);
    for (i = 0; i < 2; i++)
        assert_memory_equal(cas_reader_get(reader, i)->blobs[0].data,
                            "/dev/kfd1", 9);
    cas_reader_close(reader);
}

static void
test_interrupted(void **state)
{
    static const uint32_t flags[] = {0, CAS_COMPRESS, CAS_WRITE_EACH};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(flags); i++) {
        set_calls(true, UINT64_MAX, 0);
        expect_ok(write_cassette(flags[i]));
        assert_true(n_calls > 40);
        usual_calls();
        expect_cassette();
        set_calls(true, UINT64_MAX, 0);
        expect_cassette();
        assert_true(n_calls > 40);
        usual_calls();
        unlink(path);
    }
}

/* A file that is written from record to record keeps out of the low numbers,
 * which a program may count on. */
static void
test_numbers(void **state)
{
    struct cas_writer *writer;

    (void)state;
    expect_ok(cas_writer_create(path, 0, "", &writer));
    assert_int_equal(cas_writer_fd(writer), first_fd);
    cas_writer_drop(writer);
    expect_ok(cas_writer_create(path, CAS_WRITE_EACH, "", &writer));
    assert_true(cas_writer_fd(writer) >= 800);
    assert_int_equal(next_fd(), first_fd);
    cas_writer_drop(writer);
}

/* A program without standard input, where a file may get number 0. */
static void
test_number_zero(void **state)
{
    int own = dup(STDIN_FILENO);
    struct kio *kio;
    char text[32];
    size_t n;

    (void)state;
    close(STDIN_FILENO);
    expect_ok(write_cassette(0));
    expect_cassette();
    unlink(path);
    expect_ok(write_cassette(CAS_WRITE_EACH));
    expect_cassette();
    expect_ok(kio_sys_create(&kio));
    expect_ok(kio_read_file(kio, text_path, text, sizeof(text), &n));
    assert_string_equal(text, "some words");
    kio_destroy(kio);
    assert_int_equal(next_fd(), STDIN_FILENO);
    assert_int_equal(dup2(own, STDIN_FILENO), STDIN_FILENO);
    close(own);
}

/* A writer's calls, each of which fails once. */
static void
test_failing_writes(void **state)
{
    uint64_t nth, n;
    size_t i;

    (void)state;
    of_writes = true;
    for (i = 0; i < 4; i++) {
        uint32_t flags = i & 1 ? CAS_WRITE_EACH : 0;
        ssize_t then = i & 2 ? 0 : -1;

        usual_calls();
        expect_ok(write_cassette(flags));
        n = n_calls;
        unlink(path);
        assert_true(n >= 3);
        for (nth = 0; nth < n; nth++) {
            set_calls(false, nth, then);
            expect_fails(write_cassette(flags), BELL_E_IO,
                         then ? "cannot write to the cassette: Input/output "
                                "error"
                              : "cannot write to the cassette: nothing was "
                                "written");
            usual_calls();
            assert_int_equal(bell_error_last()->sys_errno, EIO);
            assert_int_equal(access(path, F_OK), flags && nth > 1 ? 0 : -1);
            unlink(path);
        }
    }
    of_writes = false;
}

/* A failure is told; where the file ends early, what is missing. */
static void
test_failing_reads(void **state)
{
    struct cas_reader *reader = NULL;
    uint64_t nth;

    (void)state;
    expect_ok(write_cassette(0));
    for (nth = 0; nth < 40; nth += 2) {
        set_calls(true, nth, -1);
        expect_fails(cas_reader_open(path, &reader), BELL_E_IO,
                     "Input/output error");
        assert_int_equal(bell_error_last()->sys_errno, EIO);
    }
    set_calls(false, 0, 0);
    expect_fails(cas_reader_open(path, &reader), BELL_E_IO, "no header");
    usual_calls();
    assert_null(reader);
}

/* ---- small files --------------------------------------------------------- */

static void
test_small_files(void **state)
{
    char text[32];
    struct kio *kio;
    uint64_t nth;
    size_t n;

    (void)state;
    expect_ok(kio_sys_create(&kio));
    set_calls(true, UINT64_MAX, 0);
    expect_ok(kio_read_file(kio, text_path, text, sizeof(text), &n));
    assert_int_equal(n_calls, 10);
    assert_string_equal(text, "some words");
    assert_int_equal(n, 10);
    for (nth = 0; nth < 9; nth += 2) {
        set_calls(true, nth, -1);
        expect_fails(kio_read_file(kio, text_path, text, sizeof(text), &n),
                     BELL_E_IO, "Input/output error");
        assert_int_equal(bell_error_last()->sys_errno, EIO);
        assert_int_equal(n_calls, nth + 1);
    }
    /* the end, though it was longer */
    set_calls(true, 4, 0);
    expect_ok(kio_read_file(kio, text_path, text, sizeof(text), &n));
    assert_string_equal(text, "some w");
    usual_calls();
    kio_destroy(kio);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_interrupted, make_paths,
                                        remove_paths),
        cmocka_unit_test_setup_teardown(test_numbers, make_paths, remove_paths),
        cmocka_unit_test_setup_teardown(test_number_zero, make_paths,
                                        remove_paths),
        cmocka_unit_test_setup_teardown(test_failing_writes, make_paths,
                                        remove_paths),
        cmocka_unit_test_setup_teardown(test_failing_reads, make_paths,
                                        remove_paths),
        cmocka_unit_test_setup_teardown(test_small_files, make_paths,
                                        remove_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
