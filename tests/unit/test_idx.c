/* IDX files, plain and compressed; what is malformed is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if BELL_HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/files/idx.h"

static const uint8_t images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0,
                                 0, 0, 3, 1, 2, 3, 4, 5, 6};

static void
refuses(const void *bytes, size_t n, const char *what)
{
    uint8_t *exact = malloc(n ? n : 1); /* so that ASan sees the end */
    struct host_array array;

    memcpy(exact, bytes, n);
    assert_int_equal(idx_parse(exact, n, &array), BELL_E_IO);
    if (!strstr(bell_error_last()->message, what))
        fail_msg("\"%s\" does not say \"%s\"", bell_error_last()->message,
                 what);
    free(exact);
}

static void
test_plain(void **state)
{
    static const uint8_t shorts[] = {0, 0, 0x0b, 1,    0, 0,
                                     0, 2, 0xff, 0xfe, 1, 0};
    static const uint8_t floats[] = {0, 0, 0x0d, 0, 0x3f, 0x80, 0, 0};
    struct host_array array;

    (void)state;
    assert_int_equal(idx_parse(images, sizeof(images), &array), BELL_OK);
    assert_int_equal(array.dtype, BELL_UINT8);
    assert_int_equal(array.ndim, 2);
    assert_int_equal(array.shape[0], 2);
    assert_int_equal(array.shape[1], 3);
    assert_memory_equal(array.data, "\1\2\3\4\5\6", 6);
    host_array_fini(&array);
    assert_int_equal(idx_parse(shorts, sizeof(shorts), &array), BELL_OK);
    assert_int_equal(array.dtype, BELL_INT16);
    assert_int_equal(((int16_t *)array.data)[0], -2);
    assert_int_equal(((int16_t *)array.data)[1], 256);
    host_array_fini(&array);
    assert_int_equal(idx_parse(floats, sizeof(floats), &array), BELL_OK);
    assert_int_equal(array.ndim, 0);
    assert_true(((float *)array.data)[0] == 1);
    host_array_fini(&array);
}

static void
test_refused(void **state)
{
    static const uint8_t huge[] = {0,    0,    8,    3,    0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff};
    uint8_t bytes[sizeof(images) + 1];
    size_t n;

    (void)state;
    memcpy(bytes, images, sizeof(images));
    bytes[sizeof(images)] = 0;
    for (n = 0; n < 4; n++)
        refuses(images, n, "not an IDX file");
    for (; n < 12; n++)
        refuses(images, n, "truncated");
    for (; n < sizeof(images); n++)
        refuses(images, n, "truncated");
    refuses(bytes, sizeof(bytes), "too long");
    bytes[1] = 1;
    refuses(bytes, sizeof(images), "not an IDX file");
    bytes[1] = 0;
    bytes[2] = 0x0a;
    refuses(bytes, sizeof(images), "type 0x0a");
    bytes[2] = 8;
    bytes[3] = 200;
    refuses(bytes, sizeof(images), "200 axes");
    refuses(huge, sizeof(huge), "more elements");
}

static void
test_files(void **state)
{
    struct host_array array;

    (void)state;
    assert_int_equal(idx_read("/nonexistent/i.gz", &array), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "/nonexistent/i.gz"));
    assert_int_equal(idx_read("/dev/null", &array), BELL_E_IO);
}

#if BELL_HAVE_ZLIB

static size_t
compress_to(const void *data, size_t n, uint8_t *out, size_t cap)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data,
                  .avail_in = (unsigned)n,
                  .next_out = out,
                  .avail_out = (unsigned)cap};

    assert_int_equal(
        deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return cap - z.avail_out;
}

static void
test_compressed(void **state)
{
    uint8_t packed[256], damaged[256];
    size_t n = compress_to(images, sizeof(images), packed, sizeof(packed)), i;
    struct host_array array;

    (void)state;
    assert_int_equal(idx_parse(packed, n, &array), BELL_OK);
    assert_memory_equal(array.data, "\1\2\3\4\5\6", 6);
    host_array_fini(&array);
    for (i = 2; i < n; i++)
        refuses(packed, i, "");
    packed[n] = 7;
    refuses(packed, n + 1, "bytes before the file does");
    for (i = 10; i < n; i++) { /* the data, its checksum, its size */
        memcpy(damaged, packed, n);
        damaged[i] ^= 0x10;
        refuses(damaged, n, "");
    }
}

/* 64 MiB of zeros in 64 KiB: stopped at what the header promises. */
static void
test_bomb(void **state)
{
    size_t n = 64u << 20, cap = 1u << 20;
    uint8_t *plain = calloc(n, 1), *packed = malloc(cap);
    uint64_t before;

    (void)state;
    assert_non_null(plain);
    assert_non_null(packed);
    memcpy(plain, images, sizeof(images));
    cap = compress_to(plain, n, packed, cap);
    free(plain);
    before = host_alloc_count();
    refuses(packed, cap, "unpacks to more");
    assert_true(host_alloc_count() - before < 40);
    free(packed);
}

static void
test_no_memory(void **state)
{
    uint8_t packed[256];
    size_t n = compress_to(images, sizeof(images), packed, sizeof(packed));
    bell_status status = BELL_E_NO_MEMORY;
    struct host_array array;
    uint64_t nth;

    (void)state;
    for (nth = 1; status != BELL_OK; nth++) {
        host_fail_after(nth, 1);
        status = idx_parse(packed, n, &array);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
    }
    assert_true(nth > 3);
    host_array_fini(&array);
}

#endif

/* The real images, where they are. */
static void
test_mnist(void **state)
{
    const char *dir = getenv("BELL_TEST_DATA");
    char path[512];
    struct host_array array;

    (void)state;
    snprintf(path, sizeof(path), "%s/mnist/t10k-images-idx3-ubyte.gz",
             dir ? dir : "../shared/data");
    if (idx_read(path, &array) != BELL_OK) {
        print_message("# no %s\n", path);
        skip();
    }
    assert_int_equal(array.ndim, 3);
    assert_int_equal(array.shape[0], 10000);
    assert_int_equal(array.shape[1], 28);
    assert_int_equal(array.shape[2], 28);
    host_array_fini(&array);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_files),
#if BELL_HAVE_ZLIB
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_no_memory),
#endif
        cmocka_unit_test(test_mnist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
