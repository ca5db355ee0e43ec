/* base/map: against a plain array, and without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/map.h"

#define N_KEYS 50000

static void
test_many_keys(void **state)
{
    struct map map;
    uint64_t i;

    (void)state;
    memset(&map, 0xff, sizeof(map)); /* whatever was there */
    map_init(&map);
    assert_null(map_get(&map, 0));
    for (i = 0; i < N_KEYS; i++)
        assert_int_equal(map_put(&map, i * 0x10001, i), 0);
    for (i = 0; i < N_KEYS; i++)
        assert_int_equal(*map_get(&map, i * 0x10001), i);
    assert_null(map_get(&map, 1));
    assert_int_equal(map.n_used, N_KEYS);
    map_fini(&map);
}

static void
test_replace(void **state)
{
    struct map map;

    (void)state;
    map_init(&map);
    assert_int_equal(map_put(&map, UINT64_MAX, 1), 0);
    assert_int_equal(map_put(&map, UINT64_MAX, 2), 0);
    assert_int_equal(*map_get(&map, UINT64_MAX), 2);
    assert_int_equal(map.n_used, 1);
    map_fini(&map);
}

static void
test_clear(void **state)
{
    struct map map;
    uint64_t i;

    (void)state;
    map_init(&map);
    map_clear(&map);
    for (i = 0; i < 100; i++)
        assert_int_equal(map_put(&map, i, i), 0);
    map_clear(&map);
    for (i = 0; i < 100; i++)
        assert_null(map_get(&map, i));
    assert_int_equal(map_put(&map, 5, 6), 0);
    assert_int_equal(*map_get(&map, 5), 6);
    map_fini(&map);
}

static void
test_no_memory_keeps_map(void **state)
{
    struct map map;
    uint64_t i, n = 0;

    (void)state;
    map_init(&map);
    for (i = 0; i < 10; i++)
        assert_int_equal(map_put(&map, i, i), 0);
    host_fail_after(1, 0);
    for (n = 10; n < 10000; n++) {
        if (map_put(&map, n, n) != 0)
            break;
    }
    host_fail_after(0, 0);
    assert_true(n < 10000);
    assert_null(map_get(&map, n));
    for (i = 0; i < n; i++)
        assert_int_equal(*map_get(&map, i), i);
    assert_int_equal(map_put(&map, n, n), 0);
    map_fini(&map);
}

static void
test_hash_bytes(void **state)
{
    const char text[] = "0123456789abcdefghij";
    uint64_t seen[sizeof(text) * 2];
    size_t n = 0, i, j;

    (void)state;
    for (i = 0; i < sizeof(text); i++) {
        seen[n++] = hash_bytes(text, i, 0);
        seen[n++] = hash_bytes(text, i, 1);
    }
    for (i = 0; i < n; i++) {
        for (j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
    assert_true(hash_bytes(text, 9, 3) == hash_bytes("012345678", 9, 3));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_no_memory_keeps_map),
        cmocka_unit_test(test_hash_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
