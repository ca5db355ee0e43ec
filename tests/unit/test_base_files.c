/* base/file.c, new_file.c and once.c: what is read and written whole, what is
 * left when that fails, and addresses that are used once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "base/new_file.h"
#include "base/once.h"
#include "tests/unit/expect.h"

static char folder[] = "/tmp/bell-files-XXXXXX";
static char path[64];

static int
make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static unsigned
count_files(void)
{
    DIR *dir = opendir(folder);
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2; /* . and .. */
}

static int
remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static unsigned
count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void
expect_content(const char *want, size_t n)
{
    struct file_bytes file;

    expect_ok(file_read(path, &file));
    assert_int_equal(file.size_bytes, n);
    assert_memory_equal(file.data, want, n);
    file_bytes_fini(&file);
    assert_null(file.data);
    assert_int_equal(file.size_bytes, 0);
}

static void
test_parts(void **state)
{
    const struct file_part parts[] = {{"ab", 2}, {NULL, 0}, {"cdefg", 4}};
    unsigned n_fds = count_fds();
    struct stat st;

    (void)state;
    expect_ok(file_write(path, parts, 3));
    expect_content("abcdef", 6);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0600, 0600);
    expect_ok(file_write(path, parts, 1));
    expect_content("ab", 2);
    expect_ok(file_write(path, parts, 0));
    expect_content("", 0);
    assert_int_equal(count_files(), 1);
    assert_int_equal(count_fds(), n_fds);
}

/* A program without standard input, where a file may get number 0. */
static void
test_number_zero(void **state)
{
    const struct file_part part = {"zero", 4};
    int own = dup(STDIN_FILENO);

    (void)state;
    close(STDIN_FILENO);
    expect_ok(file_write(path, &part, 1));
    expect_content("zero", 4);
    assert_int_equal(next_fd(), STDIN_FILENO);
    assert_int_equal(dup2(own, STDIN_FILENO), STDIN_FILENO);
    close(own);
}

/* The old file stays, nothing else is left, and every file is closed. */
static void
test_failures(void **state)
{
    const struct file_part good = {"good", 4};
    char *big = calloc(1, 1 << 20);
    const struct file_part bad = {big, 1 << 20};
    struct file_bytes file = {NULL, 7};
    unsigned n_fds = count_fds();

    (void)state;
    assert_non_null(big);
    expect_ok(file_write(path, &good, 1));
    /* at once, and only when it is closed */
    expect_fails(file_write("/dev/full", &bad, 1), BELL_E_IO,
                 "/dev/full: cannot write");
    expect_fails(file_write("/dev/full", &good, 1), BELL_E_IO,
                 "/dev/full: cannot write");
    expect_fails(file_write("/dev/no/such", &good, 1), BELL_E_IO,
                 "/dev/no/such: cannot create");
    expect_fails(file_write(folder, &good, 1), BELL_E_IO, "cannot create");
    expect_fails(file_read("/dev/zero", &file), BELL_E_IO, "is a device");
    expect_fails(file_read(folder, &file), BELL_E_IO, "cannot read");
    expect_fails(file_read("/dev/no/such", &file), BELL_E_IO, "cannot open");
    assert_int_equal(file.size_bytes, 7);
    host_fail_after(1, 1);
    expect_fails(file_read(path, &file), BELL_E_NO_MEMORY,
                 "out of memory for 5");
    host_fail_after(0, 0);
    expect_content("good", 4);
    assert_int_equal(count_files(), 1);
    assert_int_equal(count_fds(), n_fds);
    free(big);
}

static void *
write_to_pipe(void *arg)
{
    char block[1000];
    int i, *fd = arg;

    memset(block, 'x', sizeof(block));
    for (i = 0; i < 150; i++) {
        if (write(*fd, block, sizeof(block)) != sizeof(block))
            break;
    }
    close(*fd);
    return NULL;
}

/* More than is read at once, from what does not say how much it has. */
static void
test_pipe(void **state)
{
    struct file_bytes file;
    char name[32];
    pthread_t thread;
    int fds[2];
    size_t i;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    snprintf(name, sizeof(name), "/dev/fd/%d", fds[0]);
    assert_int_equal(pthread_create(&thread, NULL, write_to_pipe, &fds[1]), 0);
    expect_ok(file_read(name, &file));
    pthread_join(thread, NULL);
    close(fds[0]);
    assert_int_equal(file.size_bytes, 150000);
    for (i = 0; i < file.size_bytes; i++)
        assert_int_equal(((char *)file.data)[i], 'x');
    file_bytes_fini(&file);
}

static void
test_writable(void **state)
{
    (void)state;
    expect_ok(file_check_writable(path));
    expect_ok(file_check_writable("/dev/null"));
    expect_ok(file_check_writable("bell-no-such-file"));
    expect_fails(file_check_writable(folder), BELL_E_IO, "is a folder");
    expect_fails(file_check_writable("/proc/no/x"), BELL_E_IO,
                 "/proc/no/x: cannot be written");
    assert_int_equal(access("bell-no-such-file", F_OK), -1);
}

static void
test_new_files(void **state)
{
    static struct new_file a, b;
    char name[NEW_FILE_PATH_MAX + 8];
    const struct file_part part = {"old", 3};

    (void)state;
    expect_ok(file_write(path, &part, 1));
    expect_ok(new_file_create(path, &a));
    expect_ok(new_file_create(path, &b));
    assert_string_not_equal(a.temp, b.temp);
    assert_int_equal(write(a.fd, "a", 1), 1);
    assert_int_equal(write(b.fd, "b", 1), 1);
    assert_int_equal(pread(a.fd, name, 1, 0), 1); /* open for both */
    assert_int_equal(name[0], 'a');
    expect_content("old", 3);
    assert_int_equal(count_files(), 3);
    new_file_drop(&a);
    close(a.fd);
    expect_content("old", 3);
    expect_ok(new_file_keep(&b));
    expect_content("b", 1);
    assert_int_equal(count_files(), 1);
    expect_fails(new_file_keep(&b), BELL_E_IO, "cannot rename to it");
    close(b.fd);
    expect_fails(new_file_create(folder, &a), BELL_E_IO,
                 "is not a regular file");
    expect_fails(new_file_create("/proc/no/x", &a), BELL_E_IO, "cannot create");
    /* names up to what leaves room for the ending */
    memset(name, 'x', sizeof(name));
    name[NEW_FILE_PATH_MAX - 32] = '\0';
    expect_fails(new_file_create(name, &a), BELL_E_IO, "too long");
    name[NEW_FILE_PATH_MAX - 33] = '\0';
    expect_fails(new_file_create(name, &a), BELL_E_IO, "xxxx");
    assert_false(strstr(bell_error_last()->message, "too long"));
}

/* Each has memory of its own, zeros; what ended reads as zeros and its
 * addresses do not come again. */
static void
test_once(void **state)
{
    static const size_t sizes[] = {1,      100,        4096,       4097,
                                   262144, 262144 + 1, 64u * 4096, 8};
    uint8_t *at[8 * 40];
    size_t i, k, n = ARRAY_LEN(at);

    (void)state;
    once_end(NULL, 10);
    for (i = 0; i < n; i++) {
        size_t size = sizes[i % 8];
        at[i] = once_alloc(size, 1, NULL);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % 4096, 0);
        for (k = 0; k < size; k++)
            assert_int_equal(at[i][k], 0);
        memset(at[i], (int)(i % 255) + 1, size);
        if (i % 3 == 0) {
            once_end(at[i], size);
            assert_int_equal(at[i][0], 0);
            assert_int_equal(at[i][size - 1], 0);
        }
    }
    for (i = 0; i < n; i++) {
        size_t size = sizes[i % 8];
        assert_int_equal(at[i][0], i % 3 ? i % 255 + 1 : 0);
        assert_int_equal(at[i][size - 1], i % 3 ? i % 255 + 1 : 0);
        for (k = 0; k < i; k++)
            assert_true(at[k] + sizes[k % 8] <= at[i] || at[i] + size <= at[k]);
        once_end(at[i], size);
    }
    /* 64 pages come with one region: then there is room for 63 more */
    once_end(once_alloc(65 * 4096, 1, NULL), 65 * 4096);
    once_end(once_alloc(1, 1, NULL), 1);
    n = host_alloc_count();
    for (i = 0; i < 63; i++)
        once_end(once_alloc(4096, 1, NULL), 4096);
    assert_int_equal(host_alloc_count(), n);
    once_end(once_alloc(1, 1, NULL), 1);
    assert_int_equal(host_alloc_count(), n + 2);
    for (i = 1; i < 3; i++) {
        host_fail_after(i, 1);
        assert_null(once_alloc(65 * 4096, 1, NULL));
        host_fail_after(0, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_failures),
        cmocka_unit_test(test_number_zero), cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_writable),    cmocka_unit_test(test_new_files),
        cmocka_unit_test(test_once),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
