/* The cache on disk: what is found is what was kept, whatever happens to the
 * file and its folder, and nothing fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "cache/cache.h"

#define NOBODY 65534

static char root[64], folder[128], file[192];

static struct {
    unsigned n;
    char last[2048];
} said;

static void
hear(void *user, const char *line)
{
    (void)user;
    said.n++;
    snprintf(said.last, sizeof(said.last), "%s", line);
}

/* A value that its number alone decides. */
static size_t
make_value(uint32_t number, uint8_t *out, size_t size)
{
    size_t n = 100 + hash_mix(number) % (size - 100), i;

    for (i = 0; i < n; i++)
        out[i] = (uint8_t)hash_mix(number * 1000003ull + i);
    return n;
}

static void
keep(struct cache *cache, uint32_t first, uint32_t n)
{
    static uint8_t values[64][4096];
    struct cache_entry entries[64];
    char keys[64][32];
    uint32_t i;

    assert_true(n <= 64);
    for (i = 0; i < n; i++) {
        snprintf(keys[i], sizeof(keys[i]), "the key %u", first + i);
        entries[i] = (struct cache_entry){
            .key = keys[i],
            .key_bytes = strlen(keys[i]),
            .kind = (first + i) % 2 ? "odd" : "even",
            .value = values[i],
            .value_bytes = make_value(first + i, values[i], sizeof(*values)),
        };
    }
    cache_keep(cache, entries, n);
}

/* How many of the numbers are there; each is right. */
static uint32_t
count(struct cache *cache, uint32_t first, uint32_t n)
{
    struct cache_entry entries[64];
    uint8_t expected[4096];
    uint32_t i, found = 0;
    char keys[64][32];

    assert_true(n <= 64);
    for (i = 0; i < n; i++) {
        snprintf(keys[i], sizeof(keys[i]), "the key %u", first + i);
        entries[i] = (struct cache_entry){
            .key = keys[i],
            .key_bytes = strlen(keys[i]),
            .kind = (first + i) % 2 ? "odd" : "even",
        };
    }
    cache_find(cache, entries, n);
    for (i = 0; i < n; i++) {
        if (!entries[i].value)
            continue;
        found++;
        assert_int_equal(entries[i].value_bytes,
                         make_value(first + i, expected, sizeof(expected)));
        assert_memory_equal(entries[i].value, expected, entries[i].value_bytes);
        host_free(entries[i].value);
    }
    return found;
}

static void
run_sql(const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* A folder that is not there yet. */
static int
setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/bell-cache-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof(folder), "%s/a/b", root);
    snprintf(file, sizeof(file), "%s/kernels-1.db", folder);
    setenv("BELL_CACHE", folder, 1);
    log_mask |= LOG_CACHE; /* told each time */
    bell_log_set(hear, NULL);
    said.n = 0;
    return 0;
}

static int
teardown(void **state)
{
    char command[256];

    (void)state;
    bell_log_set(NULL, NULL);
    snprintf(command, sizeof(command), "chmod -R u+w %s; rm -rf %s", root,
             root);
    return system(command);
}

static void
test_keeps(void **state)
{
    struct cache_summary summary;
    struct cache cache, other;
    struct stat st;

    (void)state;
    cache_init(&cache);
    assert_string_equal(cache.folder, folder);
    assert_int_equal(count(&cache, 0, 64), 0);
    keep(&cache, 0, 20);
    assert_int_equal(count(&cache, 0, 64), 20);
    cache_init(&other);
    assert_int_equal(count(&other, 10, 20), 10);
    keep(&other, 0, 64); /* some of them again */
    assert_int_equal(count(&cache, 0, 64), 64);
    assert_int_equal(cache_summarize(&cache, &summary), BELL_OK);
    assert_int_equal(summary.n, 64);
    assert_int_equal(summary.n_kinds, 2);
    assert_int_equal(summary.kinds[0].n + summary.kinds[1].n, 64);
    assert_true(summary.file_bytes >= summary.n_bytes);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(cache_clear(&cache), BELL_OK);
    assert_int_equal(count(&other, 0, 64), 0);
    keep(&other, 5, 1);
    assert_int_equal(count(&cache, 0, 64), 1);
}

/* Two keys of one id: an equal hash is not a proof. */
static void
test_other_key(void **state)
{
    struct cache cache;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 2);
    run_sql("UPDATE kernel SET key=CAST('the key 9' AS BLOB) WHERE kind='odd'");
    assert_int_equal(count(&cache, 0, 10), 1);
    keep(&cache, 0, 2);
    assert_int_equal(count(&cache, 0, 10), 2);
}

/* A row that does not fit its sum is told of and made anew. */
static void
test_damaged_rows(void **state)
{
    static const char *const changes[] = {
        "UPDATE kernel SET sum=sum+1 WHERE kind='odd'",
        "UPDATE kernel SET value=substr(value,2) WHERE kind='odd'",
        "UPDATE kernel SET value=NULL WHERE kind='odd'",
        "UPDATE kernel SET value='text' WHERE kind='odd'",
        "UPDATE kernel SET value=zeroblob(length(value)) WHERE kind='odd'",
        "UPDATE kernel SET sum='text' WHERE kind='odd'",
    };
    struct cache cache;
    size_t i;

    (void)state;
    cache_init(&cache);
    for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        keep(&cache, 0, 10);
        run_sql(changes[i]);
        said.n = 0;
        assert_int_equal(count(&cache, 0, 10), 5);
        assert_int_equal(said.n, 5);
        assert_non_null(strstr(said.last, "damaged"));
    }
    keep(&cache, 0, 10);
    log_mask &= ~(uint32_t)LOG_CACHE;
    run_sql(changes[0]);
    said.n = 0;
    assert_int_equal(count(&cache, 0, 10), 5);
    assert_int_equal(said.n, 0); /* it was told before */
}

static void
test_dropped(void **state)
{
    const struct cache_entry entry = {
        .key = "the key 3", .key_bytes = 9, .kind = "odd"};
    struct cache cache;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 10);
    cache_drop(&cache, &entry);
    assert_int_equal(count(&cache, 0, 10), 9);
}

/* ---- the file ---- */

static size_t
read_file(uint8_t *out, size_t size)
{
    FILE *f = fopen(file, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(out, 1, size, f);
    fclose(f);
    assert_true(n < size);
    return n;
}

static void
write_file(const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(file, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Wherever a bit falls over or the file ends: no wrong value, and a cache that
 * goes on. */
static void
test_flips(void **state)
{
    static uint8_t whole[1 << 20], damaged[1 << 20];
    unsigned rounds = 200, r, survived = 0;
    const char *more = getenv("CACHE_FLIPS");
    uint64_t seed = 1;
    struct cache cache;
    size_t n;

    (void)state;
    if (more)
        rounds = (unsigned)strtoul(more, NULL, 10);
    cache_init(&cache);
    keep(&cache, 0, 40);
    n = read_file(whole, sizeof(whole));
    for (r = 0; r < rounds; r++) {
        uint32_t found;
        unsigned flips = 1, i;
        size_t length = n;
        memcpy(damaged, whole, n);
        seed = hash_mix(seed + r + 1);
        if (r % 5 == 1)
            flips = 100;
        if (r % 5 == 2)
            length = seed % n;
        for (i = 0; i < flips; i++) {
            uint64_t bit = hash_mix(seed + i) % (8 * (r % 5 ? n : 4096));
            damaged[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        if (r % 5 == 4)
            memset(damaged + seed % n / 512 * 512, (int)(seed >> 60), 512);
        write_file(damaged, length);
        cache_init(&cache);
        found = count(&cache, 0, 40);
        survived += found;
        keep(&cache, 0, 40);
        if (count(&cache, 0, 40) != 40) { /* what keeping found is told now */
            cache_init(&cache);
            keep(&cache, 0, 40);
            assert_int_equal(count(&cache, 0, 40), 40);
        }
    }
    print_message("# %u of %u values survived\n", survived, 40 * rounds);
    assert_true(survived > 10 * rounds);
}

static void
test_no_database(void **state)
{
    static const char text[] = "this is no database at all, but it is long "
                               "enough to be looked at by whoever opens it";
    struct cache cache;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 10);
    write_file((const uint8_t *)text, sizeof(text));
    cache_init(&cache);
    said.n = 0;
    assert_int_equal(count(&cache, 0, 10), 0);
    assert_non_null(strstr(said.last, "damaged"));
    keep(&cache, 0, 10);
    assert_int_equal(count(&cache, 0, 10), 10);
    /* one byte, none at all */
    write_file((const uint8_t *)text, 1);
    cache_init(&cache);
    keep(&cache, 0, 10);
    keep(&cache, 0, 10);
    assert_int_equal(count(&cache, 0, 10), 10);
    write_file((const uint8_t *)text, 0);
    keep(&cache, 0, 10);
    assert_int_equal(count(&cache, 0, 10), 10);
}

static void
test_other_version(void **state)
{
    struct cache cache;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 10);
    run_sql("PRAGMA user_version=2");
    assert_int_equal(count(&cache, 0, 10), 0);
    keep(&cache, 0, 10);
    assert_int_equal(count(&cache, 0, 10), 10);
    run_sql("ALTER TABLE kernel RENAME TO other");
    cache_init(&cache);
    keep(&cache, 0, 10);
    keep(&cache, 0, 10);
    assert_int_equal(count(&cache, 0, 10), 10);
}

/* ---- room ---- */

static void
test_cap(void **state)
{
    struct cache cache;
    struct stat st;
    uint32_t i;

    (void)state;
    cache_init(&cache);
    cache.max_bytes = 400 << 10;
    keep(&cache, 0, 16);
    for (i = 1; i < 40; i++) {
        /* all are old, but those that were just looked for */
        run_sql("UPDATE kernel SET used=used-7200");
        assert_int_equal(count(&cache, 0, 16), 16);
        keep(&cache, 100 * i, 32);
        assert_int_equal(stat(file, &st), 0);
        assert_true((uint64_t)st.st_size <= cache.max_bytes + (16 << 10));
    }
    assert_int_equal(count(&cache, 0, 16), 16);
    assert_int_equal(count(&cache, 3900, 32), 32);
    assert_int_equal(count(&cache, 100, 32), 0);
    /* one that is too large for it drives nothing out */
    cache.max_bytes = 8 * 50;
    keep(&cache, 9000, 1);
    assert_int_equal(count(&cache, 0, 16), 16);
    assert_int_equal(count(&cache, 9000, 1), 0);
}

/* A disk that is full, by a limit on files: the signal does not end us, what is
 * there is found, and it is told once. */
static void
test_full(void **state)
{
    struct rlimit was, small = {0};
    struct cache cache;
    uint32_t i;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 30);
    getrlimit(RLIMIT_FSIZE, &was);
    small = was;
    small.rlim_cur = 200 << 10;
    setrlimit(RLIMIT_FSIZE, &small);
    log_mask &= ~(uint32_t)LOG_CACHE;
    said.n = 0;
    for (i = 1; i < 20; i++)
        keep(&cache, 100 * i, 64);
    assert_int_equal(said.n, 1);
    assert_non_null(strstr(said.last, "nothing more is kept"));
    assert_int_equal(count(&cache, 0, 30), 30);
    small.rlim_cur = 0;
    setrlimit(RLIMIT_FSIZE, &small);
    cache_init(&cache);
    assert_true(count(&cache, 0, 30) <= 30);
    keep(&cache, 0, 30);
    setrlimit(RLIMIT_FSIZE, &was);
    cache_init(&cache);
    assert_int_equal(count(&cache, 0, 30), 30);
}

/* ---- whose it is ---- */

static void
expect_off(const char *why)
{
    struct cache cache;

    said.n = 0;
    cache_init(&cache);
    assert_string_equal(cache.folder, "");
    if (!strstr(cache.why_off, why))
        fail_msg("'%s' lacks '%s'", cache.why_off, why);
    assert_int_equal(said.n, 1);
    keep(&cache, 0, 10);
    assert_int_equal(count(&cache, 0, 10), 0);
}

static void
test_folders(void **state)
{
    char path[160], other[160];
    struct cache cache;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 10);
    assert_int_equal(chmod(folder, 0750), 0);
    expect_off("others are let in (mode 750)");
    assert_int_equal(chmod(folder, 0700), 0);
    snprintf(path, sizeof(path), "%s/a", root);
    assert_int_equal(chmod(path, 0777), 0);
    expect_off("can be written by others");
    assert_int_equal(chmod(path, 01777), 0); /* as /tmp */
    cache_init(&cache);
    assert_int_equal(count(&cache, 0, 10), 10);
    snprintf(other, sizeof(other), "%s/link", root);
    assert_int_equal(symlink(folder, other), 0);
    setenv("BELL_CACHE", other, 1);
    expect_off("symbolic link");
    snprintf(other, sizeof(other), "%s/link///", root);
    setenv("BELL_CACHE", other, 1);
    expect_off("symbolic link");
    snprintf(other, sizeof(other), "%s/link/below", root);
    setenv("BELL_CACHE", other, 1); /* what is above may be one */
    cache_init(&cache);
    snprintf(path, sizeof(path), "%s/below", folder);
    assert_string_equal(cache.folder, path);
    setenv("BELL_CACHE", file, 1);
    expect_off("it is not a folder");
    setenv("BELL_CACHE", "/proc/there/is/none", 1);
    expect_off("No such file");
}

static void
test_names(void **state)
{
    char path[160];
    struct cache cache;

    (void)state;
    setenv("BELL_CACHE", "off", 1);
    cache_init(&cache);
    assert_string_equal(cache.folder, "");
    assert_int_equal(count(&cache, 0, 1), 0);
    unsetenv("BELL_CACHE");
    setenv("XDG_CACHE_HOME", root, 1);
    cache_init(&cache);
    snprintf(path, sizeof(path), "%s/doorbell", root);
    assert_string_equal(cache.folder, path);
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    setenv("HOME", root, 1);
    cache_init(&cache);
    snprintf(path, sizeof(path), "%s/.cache/doorbell", root);
    assert_string_equal(cache.folder, path);
    unsetenv("HOME");
    cache_init(&cache);
    assert_string_equal(cache.folder, "");
    assert_int_equal(said.n, 0);
    /* letters that mean something in a URI, or to a shell */
    snprintf(path, sizeof(path), "%s/a?mode=memory#%%41 *", root);
    setenv("BELL_CACHE", path, 1);
    cache_init(&cache);
    keep(&cache, 0, 3);
    assert_string_equal(cache.folder, path);
    assert_int_equal(access(cache.file, F_OK), 0);
    assert_int_equal(count(&cache, 0, 3), 3);
    unsetenv("XDG_CACHE_HOME");
}

/* A file that is a link, or has another name, is not ours: it goes, and what it
 * led to stays. */
static void
test_links(void **state)
{
    char other[160];
    struct cache cache;
    struct stat st;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 10);
    snprintf(other, sizeof(other), "%s/other", root);
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(symlink(other, file), 0);
    assert_int_equal(count(&cache, 0, 10), 0);
    keep(&cache, 0, 5);
    assert_int_equal(lstat(file, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(count(&cache, 0, 10), 5);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(link(other, file), 0);
    assert_int_equal(count(&cache, 0, 10), 0);
    keep(&cache, 0, 5);
    assert_int_equal(chmod(file, 0666), 0);
    assert_int_equal(count(&cache, 0, 10), 0);
}

static void
test_other_users(void **state)
{
    struct cache cache;

    (void)state;
    if (geteuid() != 0)
        skip();
    cache_init(&cache);
    keep(&cache, 0, 10);
    assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    expect_off("belongs to user 65534");
    assert_int_equal(chown(folder, 0, 0), 0);
    assert_int_equal(chown(root, NOBODY, NOBODY), 0);
    expect_off("is another user's");
}

/* A cache that nobody may write is read. */
static void
test_readonly(void **state)
{
    char path[256];
    struct cache cache;
    int status;
    pid_t pid;

    (void)state;
    cache_init(&cache);
    keep(&cache, 0, 10);
    if (geteuid() == 0) {
        snprintf(path, sizeof(path), "chown -R 65534 %s", root);
        assert_int_equal(system(path), 0);
    }
    assert_int_equal(chmod(folder, 0500), 0);
    snprintf(path, sizeof(path), "%s/lock", folder);
    assert_int_equal(unlink(path) == 0 || errno == EACCES, 1);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        uint32_t found;
        if (geteuid() == 0 && setuid(NOBODY) != 0)
            _exit(1);
        cache_init(&cache);
        found = count(&cache, 0, 20);
        said.n = 0;
        keep(&cache, 0, 20);
        keep(&cache, 0, 20);
        _exit(found == 10 && said.n == 1 && count(&cache, 0, 20) == 10 &&
                      strstr(said.last, "cannot be written")
                  ? 0
                  : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- many processes ---- */

/* Looks for things and keeps what is not there, until it is killed. */
static void
work(uint64_t seed)
{
    struct cache cache;

    cache_init(&cache);
    cache.max_bytes = 1 << 20;
    for (;;) {
        uint32_t first = (uint32_t)(hash_mix(seed++) % 400), n;
        n = 1 + first % 16;
        if (count(&cache, first, n) < n)
            keep(&cache, first, n);
        if (seed % 97 == 0 && cache_clear(&cache) != BELL_OK)
            bell_error_clear();
    }
}

static void
test_killed(void **state)
{
    const char *more = getenv("CACHE_ROUNDS");
    unsigned rounds = 5, r, i, n_found = 0, n_damaged = 0;
    struct cache cache;

    (void)state;
    if (more)
        rounds = (unsigned)strtoul(more, NULL, 10);
    for (r = 0; r < rounds; r++) {
        pid_t pids[20];
        for (i = 0; i < 20; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                bell_log_set(NULL, NULL);
                log_mask = 0;
                work(r * 1000 + i * 20); /* a failed assert ends it by itself */
                _exit(3);
            }
        }
        for (i = 0; i < 20; i++) {
            int status;
            usleep((unsigned)(hash_mix(r * 20 + i) % 10000));
            kill(pids[i], SIGKILL);
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        cache_init(&cache);
        said.n = 0;
        for (i = 0; i < 400; i += 40)
            n_found += count(&cache, i, 40);
        n_damaged += said.n;
    }
    print_message("# %u rounds of 20 processes: %u values found right, "
                  "%u complaints\n",
                  rounds, n_found, n_damaged);
    assert_int_equal(n_damaged, 0);
    assert_true(n_found > 0);
    run_sql("CREATE TEMP TABLE t(x CHECK(x='ok')); "
            "INSERT INTO t SELECT * FROM pragma_integrity_check");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keeps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flips, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_database, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readonly, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
