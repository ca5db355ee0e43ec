/* base/arena: alignment, marks, failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"

static void
test_sizes_and_alignment(void **state)
{
    struct arena arena;
    size_t size;

    (void)state;
    memset(&arena, 0xff, sizeof(arena)); /* whatever was there */
    arena_init(&arena);
    for (size = 1; size < 100000; size = size * 3 / 2 + 1) {
        uint8_t *ptr = arena_alloc(&arena, size);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % 16, 0);
        memset(ptr, 0x5a, size);
    }
    assert_false(arena.failed);
    arena_fini(&arena);
}

static void
test_neighbours_do_not_overlap(void **state)
{
    struct arena arena;
    uint8_t *ptrs[1000];
    size_t i, j;

    (void)state;
    arena_init(&arena);
    for (i = 0; i < 1000; i++) {
        ptrs[i] = arena_alloc(&arena, i % 37 + 1);
        memset(ptrs[i], (int)(i & 0xff), i % 37 + 1);
    }
    for (i = 0; i < 1000; i++) {
        for (j = 0; j < i % 37 + 1; j++)
            assert_int_equal(ptrs[i][j], i & 0xff);
    }
    arena_fini(&arena);
}

static void
test_calloc_copy_printf(void **state)
{
    struct arena arena;
    uint32_t *zeros, i;

    (void)state;
    arena_init(&arena);
    zeros = arena_calloc(&arena, 100, sizeof(*zeros));
    for (i = 0; i < 100; i++)
        assert_int_equal(zeros[i], 0);
    assert_memory_equal(arena_copy(&arena, "abc", 4), "abc", 4);
    assert_string_equal(arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
    arena_fini(&arena);
}

static void
test_failure_is_sticky(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena);
    host_fail_after(1, 0);
    assert_null(arena_alloc(&arena, 100));
    host_fail_after(0, 0);
    assert_true(arena.failed);
    assert_non_null(arena_alloc(&arena, 100));
    assert_true(arena.failed);
    arena_fini(&arena);
}

static void
test_overflow(void **state)
{
    struct arena arena;
    size_t i;

    (void)state;
    arena_init(&arena);
    for (i = 3; i <= 67; i += 4) /* rounded up, and with a block's head */
        assert_null(arena_alloc(&arena, SIZE_MAX - i));
    assert_true(arena.failed);
    arena_fini(&arena);
    assert_null(arena_alloc(&arena, SIZE_MAX)); /* not as a rounded size */
    assert_true(arena.failed);
    arena_fini(&arena);
    assert_null(arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_true(arena.failed);
    arena_fini(&arena);
}

/* Blocks double from 4 KiB to 1 MiB; what is larger has one of its own. */
static void
test_blocks(void **state)
{
    struct arena arena;
    size_t size, used = 0, k;
    uint8_t *first, *next;

    (void)state;
    arena_init(&arena);
    for (size = 4096; size <= 4u << 20; size *= 2) {
        size_t n = size < 1u << 20 ? size : 1u << 20;

        first = arena_alloc(&arena, 1);
        assert_int_equal(arena.end - first, n);
        for (k = 1; k < n / 16; k++) {
            next = arena_alloc(&arena, k % 16 + 1);
            assert_ptr_equal(next, first + 16 * k);
        }
        assert_ptr_equal(arena.cur, arena.end);
        used += n;
        assert_int_equal(arena.used_bytes, used);
    }
    first = arena_alloc(&arena, (1u << 20) + 16);
    assert_ptr_equal(first + (1u << 20) + 16, arena.end);
    memset(first, 1, (1u << 20) + 16);
    first = arena_alloc(&arena, 3u << 20);
    memset(first, 1, 3u << 20);
    first = arena_alloc(&arena, 1);
    assert_int_equal(arena.end - first, 1u << 20);
    host_fail_after(1, 0);
    assert_null(arena_calloc(&arena, 1u << 18, 8));
    assert_null(arena_copy(&arena, "", 2u << 20));
    assert_null(arena_printf(&arena, "%2097152d", 1));
    host_fail_after(0, 0);
    assert_non_null(arena_copy(&arena, NULL, 0));
    assert_true(arena.failed);
    arena_fini(&arena);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_alignment),
        cmocka_unit_test(test_neighbours_do_not_overlap),
        cmocka_unit_test(test_calloc_copy_printf),
        cmocka_unit_test(test_failure_is_sticky),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
