/* base/new_file.c and the temporaries of writers that were killed: which are
 * removed by the next writer of that path, and which never.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/new_file.h"
#include "tests/unit/expect.h"

#define CONTENT_BYTES (4u << 20)

static char folder[] = "/tmp/bell-new-XXXXXX";
static char path[64];

static int
make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/run.bin", folder);
    return 0;
}

static int
remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
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

static void
save(unsigned char value)
{
    unsigned char *data = malloc(CONTENT_BYTES);
    const struct file_part part = {data, CONTENT_BYTES};

    assert_non_null(data);
    memset(data, value, CONTENT_BYTES);
    expect_ok(file_write(path, &part, 1));
    free(data);
}

/* All of one save, and of one only. */
static void
expect_whole(void)
{
    struct file_bytes file;
    size_t i;

    expect_ok(file_read(path, &file));
    assert_int_equal(file.size_bytes, CONTENT_BYTES);
    for (i = 1; i < file.size_bytes; i++) {
        if (((unsigned char *)file.data)[i] != ((unsigned char *)file.data)[0])
            fail_msg("torn at byte %zu", i);
    }
    file_bytes_fini(&file);
}

/* A process that saves until it is killed. */
static pid_t
start_saver(void)
{
    pid_t child = fork();
    unsigned char value = 0;

    assert_true(child >= 0);
    while (child == 0)
        save(++value);
    return child;
}

static void
end_killed(pid_t child)
{
    int status;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void
sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* However many are killed, one temporary is left at most, the last one's, and
 * none after a save that is not killed. */
static void
test_killed(void **state)
{
    unsigned seed = 7, n_left = 0, i;

    (void)state;
    save(0);
    for (i = 0; i < 60; i++) {
        pid_t child = start_saver();
        sleep_us(500 + rand_r(&seed) % 20000);
        end_killed(child);
        expect_whole();
        assert_true(count_files() <= 2);
        n_left += count_files() - 1;
    }
    print_message("# 60 killed, %u of them left a file for the next\n", n_left);
    assert_true(n_left > 0);
    save(0);
    assert_int_equal(count_files(), 1);
}

/* Several at once, each of them sweeping: no file of a writer that lives is
 * taken from it. */
static void
test_many_writers(void **state)
{
    pid_t children[4];
    unsigned i, k;
    int status;

    (void)state;
    save(0);
    for (i = 0; i < ARRAY_LEN(children); i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        for (k = 0; children[i] == 0 && k < 2000; k++) {
            const struct file_part part = {"word", 4};
            if (file_write(path, &part, 1) != BELL_OK) {
                fprintf(stderr, "%s\n", bell_error_last()->message);
                _exit(1);
            }
        }
        if (children[i] == 0)
            _exit(0);
    }
    for (i = 0; i < ARRAY_LEN(children); i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(), 1);
}

/* What lies beside the path under a temporary's name. */
enum kind {
    PLAIN,
    LOCKED, /* by a writer that lives */
    LINK,   /* symbolic, to a file of ours */
    SECOND, /* name of a file of ours */
    FIFO,
    FOLDER,
    ANOTHERS, /* another user's file */
};

static int
plant(const char *name, const char *target, enum kind kind, unsigned age_h)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_h * 3600l}};
    int fd = -1;

    times[1] = times[0];
    switch (kind) {
    case LINK:
        assert_int_equal(symlink(target, name), 0);
        break;
    case SECOND:
        assert_int_equal(link(target, name), 0);
        break;
    case FIFO:
        assert_int_equal(mkfifo(name, 0600), 0);
        break;
    case FOLDER:
        assert_int_equal(mkdir(name, 0700), 0);
        break;
    case PLAIN:
    case LOCKED:
    case ANOTHERS:
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        if (kind == ANOTHERS)
            assert_int_equal(fchown(fd, 65534, 65534), 0);
        if (kind == LOCKED) {
            assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
            break;
        }
        close(fd);
        fd = -1;
        break;
    }
    assert_int_equal(utimensat(AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW), 0);
    return fd;
}

static void
test_what_is_swept(void **state)
{
    static struct new_file own;
    static const struct {
        const char *ending; /* %.8s: the number of this boot */
        enum kind kind;
        unsigned age_h;
        bool goes;
    } rows[] = {
        {".part-%.8s00000001", PLAIN, 0, true},
        {".part-%.8s00000001", PLAIN, 100, true},
        {".part-%.8s00000001", LOCKED, 100, false},
        {".part-%.8s00000001", LINK, 100, false},
        {".part-%.8s00000001", SECOND, 100, false},
        {".part-%.8s00000001", FIFO, 100, false},
        {".part-%.8s00000001", FOLDER, 100, false},
        {".part-%.8s00000001", ANOTHERS, 100, false},
        /* of another machine, or before this one started */
        {".part-0123456700000001", PLAIN, 0, false},
        {".part-0123456700000001", PLAIN, 23, false},
        {".part-0123456700000001", PLAIN, 25, true},
        {".part-0123456700000001", LOCKED, 25, false},
        {".part-0000000000000001", PLAIN, 0, false},
        /* other names */
        {".part-%.8s0000001", PLAIN, 100, false},
        {".part-%.8s000000010", PLAIN, 100, false},
        {".part-%.8s0000000X", PLAIN, 100, false},
        {".part-%.8s00000001.bak", PLAIN, 100, false},
        {"2.part-%.8s00000001", PLAIN, 100, false},
        {".part", PLAIN, 100, false},
    };
    char target[96], name[NEW_FILE_PATH_MAX], ending[64], boot[9];
    size_t i;

    (void)state;
    expect_ok(new_file_create(path, &own));
    snprintf(boot, sizeof(boot), "%.8s", strrchr(own.temp, '-') + 1);
    expect_ok(new_file_keep(&own));
    close(own.fd);
    snprintf(target, sizeof(target), "%s/target", folder);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct stat st;
        int fd;
        if (rows[i].kind == ANOTHERS && geteuid() != 0)
            continue;
        close(open(target, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(ending, sizeof(ending), rows[i].ending, boot);
#pragma GCC diagnostic pop
        snprintf(name, sizeof(name), "%s%s", path, ending);
        fd = plant(name, target, rows[i].kind, rows[i].age_h);
        expect_ok(new_file_create(path, &own));
        new_file_drop(&own);
        close(own.fd);
        if ((lstat(name, &st) != 0) != rows[i].goes)
            fail_msg("row %zu, %s: %s", i, ending,
                     rows[i].goes ? "stayed" : "was removed");
        assert_int_equal(access(target, F_OK), 0);
        if (fd >= 0)
            close(fd);
        (void)remove(name);
        unlink(target);
    }
}

/* Paths without a folder are swept in the current one. */
static void
test_here(void **state)
{
    static struct new_file own;
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(chdir(folder), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!new_file_create("here", &own);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(count_files(), 2);
    expect_ok(new_file_create("here", &own));
    assert_int_equal(count_files(), 2);
    new_file_drop(&own);
    close(own.fd);
    assert_int_equal(count_files(), 1);
    assert_int_equal(fchdir(before), 0);
    close(before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_many_writers),
        cmocka_unit_test(test_what_is_swept),
        cmocka_unit_test(test_here),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
