/* base/alloc: counting, failing on demand, growing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/alloc.h"

static void
test_counts(void **state)
{
    uint64_t before = host_alloc_count();
    void *a = host_alloc(0), *b = host_calloc(3, 5);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(host_alloc_count() - before, 2);
    host_free(a);
    host_free(b);
    host_free(NULL);
    assert_int_equal(host_alloc_count() - before, 2);
}

static void
test_fails_from_nth(void **state)
{
    void *first;

    (void)state;
    host_fail_after(2, 0);
    first = host_alloc(8);
    assert_non_null(first);
    assert_null(host_alloc(8));
    assert_null(host_calloc(1, 8));
    assert_null(host_strdup("x"));
    assert_null(host_aligned(64, 8));
    assert_null(host_realloc(first, 64));
    host_fail_after(0, 0);
    host_free(first);
    first = host_alloc(8);
    assert_non_null(first);
    host_free(first);
}

static void
test_fails_once(void **state)
{
    void *after;

    (void)state;
    host_fail_after(1, 1);
    assert_null(host_alloc(8));
    after = host_alloc(8);
    assert_non_null(after);
    host_free(after);
    host_fail_after(0, 0);
}

/* BELL_FAIL_ALLOC is read when a program begins: this one, started again, says
 * how many of its next three allocations fail. */
static void
test_fails_as_told(void **state)
{
    static const struct {
        const char *value;
        int n_failed;
    } rows[] = {{"1", 3}, {"2", 2}, {"1,once", 1}, {"3,once", 1},
                {"4", 0}, {"0", 0}, {"0,once", 0}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status = -1;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            setenv("BELL_FAIL_ALLOC", rows[i].value, 1);
            execl("/proc/self/exe", "test_alloc", "count", (char *)NULL);
            _exit(99);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) != rows[i].n_failed)
            fail_msg("BELL_FAIL_ALLOC=%s: %d failed", rows[i].value,
                     WEXITSTATUS(status));
    }
}

static int
count_failed(void)
{
    int i, n_failed = 0;

    for (i = 0; i < 3; i++) {
        void *ptr = host_alloc(8);

        n_failed += !ptr;
        host_free(ptr);
    }
    return n_failed;
}

static void
test_aligned(void **state)
{
    size_t align;

    (void)state;
    for (align = sizeof(void *); align <= 4096; align *= 2) {
        void *ptr = host_aligned(align, 3);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % align, 0);
        host_free(ptr);
    }
}

static void
test_calloc_overflow(void **state)
{
    (void)state;
    assert_null(host_calloc(SIZE_MAX / 2, 3));
}

static void *
allocate_spared(void *arg)
{
    void **out = arg;

    host_fail_spare_thread();
    out[0] = host_alloc(8);
    out[1] = host_calloc(2, 8);
    return NULL;
}

static void
test_spared_thread(void **state)
{
    void *got[2] = {NULL, NULL};
    uint64_t before = host_alloc_count();
    pthread_t thread;

    (void)state;
    host_fail_after(1, 0);
    assert_int_equal(pthread_create(&thread, NULL, allocate_spared, got), 0);
    pthread_join(thread, NULL);
    assert_non_null(got[0]);
    assert_non_null(got[1]);
    assert_int_equal(host_alloc_count(), before);
    assert_null(host_alloc(8));
    host_fail_after(0, 0);
    host_free(got[0]);
    host_free(got[1]);
}

static void
test_grow(void **state)
{
    uint32_t *items = NULL;
    size_t cap = 0, i, n_grown = 0;

    (void)state;
    for (i = 0; i < 100000; i++) {
        size_t old = cap;
        assert_int_equal(
            host_grow((void **)&items, &cap, i + 1, sizeof(*items)), 0);
        n_grown += cap != old;
        items[i] = (uint32_t)i;
    }
    assert_true(n_grown <= 20);
    for (i = 0; i < 100000; i++)
        assert_int_equal(items[i], i);
    host_free(items);
}

static void
test_grow_failure_keeps_array(void **state)
{
    uint64_t *items = NULL;
    size_t cap = 0, old;

    (void)state;
    assert_int_equal(host_grow((void **)&items, &cap, 4, 8), 0);
    items[3] = 77;
    old = cap;
    host_fail_after(1, 0);
    assert_int_equal(host_grow((void **)&items, &cap, old + 1, 8), -1);
    host_fail_after(0, 0);
    assert_int_equal(cap, old);
    assert_int_equal(items[3], 77);
    assert_int_equal(host_grow((void **)&items, &cap, SIZE_MAX, 8), -1);
    assert_int_equal(host_grow((void **)&items, &cap, SIZE_MAX / 4, 8), -1);
    assert_int_equal(cap, old);
    host_free(items);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_fails_from_nth),
        cmocka_unit_test(test_fails_once),
        cmocka_unit_test(test_fails_as_told),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_calloc_overflow),
        cmocka_unit_test(test_spared_thread),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_grow_failure_keeps_array),
    };

    if (argc == 2 && strcmp(argv[1], "count") == 0)
        return count_failed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
