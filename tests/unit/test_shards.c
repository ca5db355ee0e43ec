/* Files that an index names: which are opened, once, and which are refused.
 * An alarm ends the program where opening one blocks or never ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/files.h"
#include "tests/unit/expect.h"

#define INDEX     "m.index.json"
#define TIMEOUT_S 60

static char folder[] = "/tmp/bell-shards-XXXXXX";

static const char *
path_of(const char *name)
{
    static char paths[4][128];
    static unsigned at;

    at = (at + 1) % 4;
    snprintf(paths[at], sizeof(paths[at]), "%s/%s", folder, name);
    return paths[at];
}

static void
write_file(const char *name, const void *data, size_t n_bytes)
{
    FILE *file = fopen(path_of(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n_bytes, file), n_bytes);
    fclose(file);
}

/* A file of safetensors with one tensor of one byte. */
static void
write_shard(const char *name, const char *tensor, uint8_t value)
{
    char text[256];
    uint64_t n;

    n = (uint64_t)snprintf(text + 8, sizeof(text) - 8,
                           "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],"
                           "\"data_offsets\":[0,1]}}",
                           tensor);
    memcpy(text, &n, sizeof(n));
    text[8 + n] = (char)value;
    write_file(name, text, 9 + n);
}

/* An index whose tensor t0 is in the first file, t1 in the second, ... */
static void
write_index(const char *name, const char *const *shards, size_t n)
{
    char text[4096];
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"weight_map\":{"), i;

    for (i = 0; i < n; i++)
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len,
                             "%s\"t%zu\":\"%s\"", i ? "," : "", i, shards[i]);
    len += (size_t)snprintf(text + len, sizeof(text) - len, "}}");
    write_file(name, text, len);
}

static void
bind_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s",
             path_of(name));
    assert_int_equal(bind(fd, (void *)&address, sizeof(address)), 0);
    close(fd);
}

static int
remove_files(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* Everything that a name beside an index may lead to. */
static int
make_files(void **state)
{
    static const uint8_t gguf[32] = {'G', 'G', 'U', 'F', 3};
    static const uint8_t zip[] = "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    static const uint8_t idx[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    static const char npy[] = "\x93NUMPY\1\0\x36\0{'descr': '|u1', "
                              "'fortran_order': False, 'shape': (1,), }\n7";
    static const char *const plain[] = {"plain"}, *const itself[] = {INDEX},
                             *const first[] = {"pair-1"},
                             *const second[] = {"pair-2"};

    (void)state;
    alarm(TIMEOUT_S);
    if (!mkdtemp(folder))
        return -1;
    write_shard("plain", "t0", 3);
    write_shard("other", "t1", 4);
    write_index("itself", itself, 1);
    write_index("pair-1", second, 1);
    write_index("pair-2", first, 1);
    write_index("chain", plain, 1);
    write_file("gguf", gguf, sizeof(gguf));
    write_file("zip", zip, sizeof(zip));
    write_file("idx", idx, sizeof(idx));
    write_file("npy", npy, sizeof(npy) - 1);
    write_file("short", "12345678", 8);
    write_file("empty", "", 0);
    write_file("pickle", "\x80\2}.", 4);
    if (mkdir(path_of("folder"), 0700) || mkfifo(path_of("fifo"), 0600) ||
        symlink("/dev/zero", path_of("zero")) ||
        symlink("fifo", path_of("to-fifo")) ||
        symlink("loop", path_of("loop")) ||
        symlink("plain", path_of("symbolic")) ||
        link(path_of("plain"), path_of("hard")))
        return -1;
    bind_socket("socket");
    return 0;
}

struct refusal {
    const char *what, *shard, *message;
};

static const struct refusal refusals[] = {
    {"itself", INDEX, "expected a safetensors file"},
    {"an index that names it", "itself", "expected a safetensors file"},
    {"one of a pair", "pair-1", "expected a safetensors file"},
    {"an index of a plain file", "chain", "expected a safetensors file"},
    {"GGUF", "gguf", "expected a safetensors file"},
    {"an archive", "zip", "expected a safetensors file"},
    {"IDX", "idx", "expected a safetensors file"},
    {".npy", "npy", "expected a safetensors file"},
    {"a pickle", "pickle", "expected a safetensors file"},
    {"eight bytes", "short", "expected a safetensors file"},
    {"an empty file", "empty", "expected a safetensors file"},
    {"a folder", "folder", "expected a regular file, got a folder"},
    {"a FIFO", "fifo", "expected a regular file, got a FIFO"},
    {"a link to one", "to-fifo", "expected a regular file, got a FIFO"},
    {"a socket", "socket", "expected a regular file, got a socket"},
    {"a device", "zero", "expected a regular file, got a device"},
    {"a link to itself", "loop", "cannot open"},
    {"nothing", "nothing", "cannot open"},
    {"no name", "", "is not the name of a file beside it"},
    {"this folder", ".", "expected a regular file, got a folder"},
    {"the folder above", "..", "expected a regular file, got a folder"},
    {"a file above", "../plain", "is not the name of a file beside it"},
    {"an absolute name", "/etc/passwd", "is not the name of a file beside it"},
    {"a name that goes on", "plain\\u0000x",
     "a string must not have a NUL in it"},
    {"a file below", "folder/plain", "is not the name of a file beside it"},
};

static void
check_refusals(void **state)
{
    int fd = next_fd();
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(refusals); i++) {
        struct bell_file *file = NULL;
        bell_status status;

        write_index(INDEX, &refusals[i].shard, 1);
        status = bell_file_open(path_of(INDEX), &file);
        if (status != BELL_E_IO ||
            !strstr(bell_error_last()->message, refusals[i].message))
            fail_msg("%s: status %d: %s", refusals[i].what, status,
                     bell_error_last()->message);
        /* the index is named, since its reader may not know the shard */
        assert_ptr_equal(strstr(bell_error_last()->message, path_of(INDEX)),
                         bell_error_last()->message);
        assert_null(file);
        assert_int_equal(next_fd(), fd);
    }
}

/* Mappings of a file of the folder; a name is not a part of another one. */
static unsigned
count_mappings(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned n = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        line[strcspn(line, "\n")] = '\0';
        n += strstr(line, folder) && strcmp(strrchr(line, '/') + 1, name) == 0;
    }
    fclose(maps);
    return n;
}

static void
expect_byte(const struct bell_file *file, const char *name, uint8_t value)
{
    const uint8_t *data = bell_file_data(file, name);

    assert_non_null(data);
    assert_int_equal(*data, value);
}

/* By links and by their names, each file is mapped once. */
static void
check_links(void **state)
{
    static const char *const shards[][2] = {
        {"plain", "other"},
        {"symbolic", "other"},
        {"hard", "other"},
        {"both", "both"},
        {"both", "both-hard"},
        {"both", "both-symbolic"},
        {"both-symbolic", "both-hard"},
    };
    static const char header[] =
        "{\"t0\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"t1\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    uint8_t both[8 + sizeof(header) + 1] = {sizeof(header) - 1};
    struct bell_file *file;
    size_t i;

    (void)state;
    memcpy(both + 8, header, sizeof(header) - 1);
    both[8 + sizeof(header) - 1] = 3;
    both[8 + sizeof(header)] = 4;
    write_file("both", both, sizeof(both));
    assert_int_equal(symlink("both", path_of("both-symbolic")), 0);
    assert_int_equal(link(path_of("both"), path_of("both-hard")), 0);
    for (i = 0; i < ARRAY_LEN(shards); i++) {
        write_index(INDEX, shards[i], 2);
        expect_ok(bell_file_open(path_of(INDEX), &file));
        assert_int_equal(bell_file_count(file), 2);
        expect_byte(file, "t0", 3);
        expect_byte(file, "t1", 4);
        assert_true(count_mappings("both") + count_mappings("both-hard") +
                        count_mappings("both-symbolic") <=
                    1);
        assert_true(count_mappings("plain") + count_mappings("hard") +
                        count_mappings("symbolic") <=
                    1);
        bell_file_close(file);
    }
}

/* The index may be a link itself: shards are beside the link, not beside what
 * it leads to. */
static void
check_linked_index(void **state)
{
    static const char *const shards[] = {"plain", "other"};
    struct bell_file *file;

    (void)state;
    write_index("folder/" INDEX, shards, 2);
    expect_fails(bell_file_open(path_of("folder/" INDEX), &file), BELL_E_IO,
                 "folder/plain: cannot open");
    assert_int_equal(symlink("folder/" INDEX, path_of("linked")), 0);
    expect_ok(bell_file_open(path_of("linked"), &file));
    expect_byte(file, "t1", 4);
    bell_file_close(file);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_refusals),
        cmocka_unit_test(check_links),
        cmocka_unit_test(check_linked_index),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
