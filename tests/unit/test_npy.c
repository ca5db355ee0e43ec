/* .npy files: every dtype, order and version; what is malformed is refused,
 * whatever the bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/files/npy.h"

/* A file in memory. */
struct image {
    uint8_t bytes[1024];
    size_t n;
};

/* Version `major`, the header's text, then elements. */
static struct image
make_image(int major, const char *header, const void *data, size_t n_data)
{
    struct image image = {.n = 0};
    size_t n = strlen(header);

    memcpy(image.bytes, "\x93NUMPY", 6);
    image.bytes[6] = (uint8_t)major;
    image.bytes[8] = (uint8_t)(n & 0xff);
    image.bytes[9] = (uint8_t)(n >> 8);
    image.n = major == 1 ? 10 : 12;
    memcpy(image.bytes + image.n, header, n);
    image.n += n;
    if (n_data)
        memcpy(image.bytes + image.n, data, n_data);
    image.n += n_data;
    return image;
}

static struct host_array
parse(const struct image *image)
{
    struct host_array array;
    bell_status status = npy_parse(image->bytes, image->n, &array);

    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    return array;
}

static void
refuses(int major, const char *header, size_t n_data, const char *what)
{
    static const uint8_t zeros[64];
    struct image image = make_image(major, header, zeros, n_data);
    struct host_array array;

    assert_int_not_equal(npy_parse(image.bytes, image.n, &array), BELL_OK);
    if (!strstr(bell_error_last()->message, what))
        fail_msg("\"%s\" does not say \"%s\"", bell_error_last()->message,
                 what);
}

static void
test_plain(void **state)
{
    static const float data[] = {1, 2, 3, 4, 5, -6.5f};
    struct image image = make_image(
        1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
        data, sizeof(data));
    struct host_array array = parse(&image);

    (void)state;
    assert_int_equal(array.dtype, BELL_FLOAT32);
    assert_int_equal(array.ndim, 2);
    assert_int_equal(array.shape[0], 2);
    assert_int_equal(array.shape[1], 3);
    assert_int_equal(array.n_elems, 6);
    assert_memory_equal(array.data, data, sizeof(data));
    host_array_fini(&array);
}

static void
test_versions_and_spelling(void **state)
{
    static const char *const headers[] = {
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }",
        "{\"shape\":(2L,),\"descr\":\"<i2\",\"fortran_order\":False}",
        "{ 'fortran_order' : False ,\n 'shape' : ( 2 , ) , 'descr' : 'i2' }",
        "{'descr': '=i2', 'fortran_order': True, 'shape': (2,), }\n\n ",
    };
    static const int16_t data[] = {-3, 300};
    size_t i;
    int major;

    (void)state;
    for (i = 0; i < ARRAY_LEN(headers); i++) {
        for (major = 1; major <= 3; major++) {
            struct image image =
                make_image(major, headers[i], data, sizeof(data));
            struct host_array array = parse(&image);
            assert_int_equal(array.dtype, BELL_INT16);
            assert_memory_equal(array.data, data, sizeof(data));
            host_array_fini(&array);
        }
    }
}

static void
test_orders(void **state)
{
    static const uint8_t big[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};
    static const uint8_t fortran[] = {0, 3, 1, 4, 2, 5};
    static const uint8_t swapped[] = {0, 1, 0, 2, 0, 3, 0, 4};
    static const uint8_t want[] = {0, 1, 2, 3, 4, 5};
    struct image image;
    struct host_array array;

    (void)state;
    image = make_image(
        1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", big,
        sizeof(big));
    array = parse(&image);
    assert_true(((float *)array.data)[0] == 1);
    assert_true(((float *)array.data)[1] == -2);
    host_array_fini(&array);

    image = make_image(
        1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
        fortran, sizeof(fortran));
    array = parse(&image);
    assert_memory_equal(array.data, want, sizeof(want));
    host_array_fini(&array);

    image = make_image(
        1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2), }",
        swapped, sizeof(swapped));
    array = parse(&image);
    assert_int_equal(((uint16_t *)array.data)[0], 1);
    assert_int_equal(((uint16_t *)array.data)[1], 3);
    assert_int_equal(((uint16_t *)array.data)[2], 2);
    host_array_fini(&array);
}

static void
test_scalar_bool_empty(void **state)
{
    static const uint8_t bools[] = {0, 1, 255};
    double value = 2.5;
    struct image image =
        make_image(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
                   &value, sizeof(value));
    struct host_array array = parse(&image);

    (void)state;
    assert_int_equal(array.ndim, 0);
    assert_int_equal(array.n_elems, 1);
    assert_memory_equal(array.data, &value, sizeof(value));
    host_array_fini(&array);
    image = make_image(
        1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", bools,
        3);
    array = parse(&image);
    assert_int_equal(array.dtype, BELL_BOOL);
    assert_memory_equal(array.data, "\0\1\1", 3);
    host_array_fini(&array);
    image = make_image(
        1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0, 2), }",
        NULL, 0);
    array = parse(&image);
    assert_int_equal(array.n_elems, 0);
    host_array_fini(&array);
}

#define D    "'descr': '<f4', "
#define F    "'fortran_order': False, "
#define S(s) "'shape': " s
static void
test_refused(void **state)
{
    (void)state;
    refuses(0, "{" D F S("(1,)") "}", 4, "version");
    refuses(4, "{" D F S("(1,)") "}", 4, "version");
    refuses(1, "", 0, "not a dictionary");
    refuses(1, "{" D F S("(4,)") "}", 15, "truncated: 15 bytes");
    refuses(1, "{" D F "}", 4, "'shape' is missing");
    refuses(1, "{" F S("(1,)") "}", 4, "'descr' is missing");
    refuses(1, "{" D S("(1,)") "}", 4, "'fortran_order' is missing");
    refuses(1, "{" D D F S("(1,)") "}", 4, "twice");
    refuses(1, "{" D F S("(1,)") ", 'x': 1}", 4, "'x' is unknown");
    refuses(1, "{" D F S("(1)") "}", 4, "not a tuple");
    refuses(1, "{" D F S("[1]") "}", 4, "not a tuple");
    refuses(1, "{" D F S("(-1,)") "}", 4, "tuple of sizes");
    refuses(1, "{" D F S("(1 2)") "}", 4, "tuple of sizes");
    refuses(1, "{" D F S("(99999999999999999999,)") "}", 4, "tuple of sizes");
    refuses(1, "{" D F S("(4294967296, 4294967296)") "}", 4, "more elements");
    refuses(1, "{" D F S("(9223372036854775807,)") "}", 4, "more elements");
    refuses(1,
            "{" D F S("(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                      "1,1,1,1,1,1,1,1)") "}",
            4, "more than 32 axes");
    refuses(1, "{" D F S("(1,)") "} x", 4, "text after");
    refuses(1, "{" D F S("(1,)"), 0, "comma");
    refuses(1, "{'descr': 5, " F S("(1,)") "}", 4, "not a string");
    refuses(1, "{'descr': [('a', '<f4')], " F S("(1,)") "}", 4, "structured");
    refuses(1, "{'descr': '<c8', " F S("(1,)") "}", 8, "'<c8' is not one of");
    refuses(1, "{'descr': '|O', " F S("(1,)") "}", 8, "'|O' is not one of");
    refuses(1, "{'descr': '<U3', " F S("(1,)") "}", 12, "'<U3' is not one of");
    refuses(1, "{'descr': '<V2', " F S("(1,)") "}", 12, "'<V2' is not one of");
    refuses(1, "{'descr': '<f16', " F S("(1,)") "}", 16, "not one of");
    refuses(1, "{'descr': 'f', " F S("(1,)") "}", 16, "not one of");
    refuses(1, "{" D "'fortran_order': 0, " S("(1,)") "}", 4, "not True");
}

static void
test_not_npy(void **state)
{
    struct host_array array;
    char path[] = "/tmp/bell_npy_XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(npy_parse("", 0, &array), BELL_E_IO);
    assert_int_equal(npy_parse("PK\3\4 a zip file", 14, &array), BELL_E_IO);
    assert_int_equal(npy_parse("\x93NUMPY\1\0\xff\xff", 10, &array), BELL_E_IO);
    assert_int_equal(npy_parse("\x93NUMPY\2\0\xff\xff", 10, &array), BELL_E_IO);
    assert_int_equal(npy_read("/nonexistent/x.npy", &array), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "/nonexistent/x.npy"));
    assert_int_equal(npy_read("/tmp", &array), BELL_E_IO);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "junk", 4), 4);
    close(fd);
    assert_int_equal(npy_read(path, &array), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, path));
    unlink(path);
}

/* Any byte changed, any length cut: an answer, and no harm. */
static void
test_mutations(void **state)
{
    static const float data[] = {1, 2, 3, 4, 5, 6};
    struct image image = make_image(
        2, "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }", data,
        sizeof(data));
    static const uint8_t values[] = {0, 1, '9', '(', ')', '{', 0x7f, 0xff};
    struct host_array array;
    size_t i, k, n_ok = 0;

    (void)state;
    for (i = 0; i < image.n; i++) {
        uint8_t *exact = malloc(i ? i : 1); /* so that ASan sees the end */
        memcpy(exact, image.bytes, i);
        assert_int_not_equal(npy_parse(exact, i, &array), BELL_OK);
        free(exact);
        for (k = 0; k < ARRAY_LEN(values); k++) {
            uint8_t before = image.bytes[i];
            image.bytes[i] = values[k];
            if (npy_parse(image.bytes, image.n, &array) == BELL_OK) {
                host_array_fini(&array);
                n_ok++;
            }
            image.bytes[i] = before;
        }
    }
    assert_true(n_ok >= 24 * ARRAY_LEN(values)); /* the elements' bytes */
}

static void
test_write_and_read(void **state)
{
    static const enum bell_dtype dtypes[] = {
        BELL_BOOL,   BELL_INT8,    BELL_UINT8,   BELL_INT16,
        BELL_UINT16, BELL_INT32,   BELL_UINT32,  BELL_INT64,
        BELL_UINT64, BELL_FLOAT16, BELL_FLOAT32, BELL_FLOAT64,
    };
    static const int64_t shapes[][3] = {{2, 3, 1}, {6, 1, 1}, {1, 1, 6}};
    char dir[] = "/tmp/bell_npy_XXXXXX", path[64];
    uint8_t bytes[48];
    size_t i, k;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a.npy", dir);
    for (i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 % 2);
    for (i = 0; i < ARRAY_LEN(dtypes) * 4; i++) {
        struct host_array out = {.dtype = dtypes[i / 4],
                                 .ndim = (uint32_t)(i % 4)},
                          in;
        out.n_elems = 1;
        for (k = 0; k < out.ndim; k++) {
            out.shape[k] = shapes[out.ndim - 1][k];
            out.n_elems *= (uint64_t)out.shape[k];
        }
        out.size_bytes = (size_t)out.n_elems * bell_dtype_size(out.dtype);
        out.data = bytes;
        assert_int_equal(npy_write(path, &out), BELL_OK);
        assert_int_equal(npy_read(path, &in), BELL_OK);
        assert_int_equal(in.dtype, out.dtype);
        assert_int_equal(in.ndim, out.ndim);
        assert_memory_equal(in.shape, out.shape, out.ndim * sizeof(int64_t));
        assert_int_equal(in.size_bytes, out.size_bytes);
        assert_memory_equal(in.data, bytes, out.size_bytes);
        host_array_fini(&in);
    }
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* no temporary file stays */
}

static void
test_write_failures(void **state)
{
    struct host_array out = {.dtype = BELL_BFLOAT16};

    (void)state;
    assert_int_equal(npy_write("/tmp/x.npy", &out), BELL_E_UNSUPPORTED);
    out.dtype = BELL_FLOAT32;
    out.n_elems = 1;
    out.size_bytes = 4;
    out.data = &(float){1};
    assert_int_equal(npy_write("/dev/null/x.npy", &out), BELL_E_IO);
    assert_int_equal(npy_write("/dev/full", &out), BELL_E_IO);
    assert_int_equal(npy_write("/dev/null", &out), BELL_OK);
}

static void
test_no_memory(void **state)
{
    static const float data[] = {1, 2};
    struct image image = make_image(
        1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data,
        sizeof(data));
    struct host_array array;

    (void)state;
    host_fail_after(1, 1);
    assert_int_equal(npy_parse(image.bytes, image.n, &array), BELL_E_NO_MEMORY);
    host_fail_after(1, 1);
    assert_int_equal(npy_read("/proc/self/status", &array), BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_versions_and_spelling),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_scalar_bool_empty),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_npy),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_write_failures),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
