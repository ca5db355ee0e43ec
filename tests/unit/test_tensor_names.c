/* Axes by name, blocks as channels, against plain loops. */
#include "tests/unit/tensor_host.h"

/* Element k of the inputs. */
static double
element(size_t k)
{
    return 0.25 * (double)((k * 7 + 3) % 17) - 2;
}

static struct bell_tensor *
make_input(const int64_t *d, uint32_t n)
{
    double v[1024];
    size_t size = 1, i;

    for (i = 0; i < n; i++)
        size *= (size_t)d[i];
    assert_true(size <= 1024);
    for (i = 0; i < size; i++)
        v[i] = element(i);
    return bell_from_data(ctx, d, n, BELL_FLOAT64, v);
}
#define INPUT(...) make_input(BELL_DIMS(__VA_ARGS__))

/* ---- rearrange ---- */

static void
test_rearrange(void **state)
{
    struct bell_tensor *x = INPUT(2, 3, 4, 5), *y;
    double got[120];
    size_t a, b, c, d;

    (void)state;
    y = bell_rearrange(x, "a b (c1 c2) d -> a (b d) c2 c1",
                       BELL_SIZES({"c1", 2}));
    assert_int_equal(bell_ndim(y), 4);
    assert_int_equal(bell_size(y, 1), 15);
    assert_int_equal(bell_read(y, got, sizeof(got)), BELL_OK);
    for (a = 0; a < 2; a++)
        for (b = 0; b < 3; b++)
            for (c = 0; c < 4; c++)
                for (d = 0; d < 5; d++)
                    assert_true(
                        got[((a * 15 + b * 5 + d) * 2 + c % 2) * 2 + c / 2] ==
                        element(((a * 3 + b) * 4 + c) * 5 + d));
    y = bell_rearrange(x, "a ... d -> d 1 (...) a", NULL, 0);
    assert_int_equal(bell_size(y, 1), 1);
    assert_int_equal(bell_size(y, 2), 12);
    assert_int_equal(bell_read(y, got, sizeof(got)), BELL_OK);
    for (a = 0; a < 2; a++)
        for (b = 0; b < 12; b++)
            for (d = 0; d < 5; d++)
                assert_true(got[(d * 12 + b) * 2 + a] ==
                            element((a * 12 + b) * 5 + d));
    EXPECT(bell_rearrange(INPUT(1, 2), "1 a -> a", NULL, 0), element(0),
           element(1));
    EXPECT_SHAPE(
        bell_rearrange(INPUT(0, 6), "a (b c) -> c a b", BELL_SIZES({"b", 2})),
        3, 0, 2);
}

static void
test_rearrange_errors(void **state)
{
    struct bell_tensor *x = INPUT(2, 3, 4);

    (void)state;
#define REFUSED(formula, text)                                                 \
    EXPECT_ERROR(bell_rearrange(x, formula, NULL, 0), "bell_rearrange: " text)
    REFUSED("a b -> a b",
            "\"a b -> a b\" has 2 axes on the left; (2, 3, 4) has 3");
    REFUSED("a b c", "\"a b c\", column 6: \"->\" is missing");
    REFUSED("a b a -> a b",
            "\"a b a -> a b\", column 5: the name is there already");
    REFUSED("a b c -> a b",
            "\"a b c -> a b\", column 5: the name is not in the result");
    REFUSED("a b c -> a b c d",
            "\"a b c -> a b c d\", column 16: the name is not on the left "
            "side");
    REFUSED("a b (c d) -> a b c d",
            "\"a b (c d) -> a b c d\", column 8: the size is not known");
    REFUSED("a b 2 -> a b",
            "\"a b 2 -> a b\", column 5: an axis is a name, or 1");
    REFUSED("a b (c -> a b c",
            "\"a b (c -> a b c\", column 8: a parenthesis without its pair");
    REFUSED("a b + -> a b", "\"a b + -> a b\", column 5: not a name, \"(\", "
                            "\")\" or \"->\"");
    REFUSED("a ... -> a", "\"a ... -> a\", column 11: \"...\" is on one side "
                          "only");
#undef REFUSED
    EXPECT_ERROR(
        bell_rearrange(x, "a b (c d) -> a b c d", BELL_SIZES({"c", 3})),
        "bell_rearrange: \"a b (c d) -> a b c d\": axis 2 of "
        "(2, 3, 4) is not made of these sizes");
    EXPECT_ERROR(bell_rearrange(x, "a b c -> a b c", BELL_SIZES({"q", 3})),
                 "bell_rearrange: \"a b c -> a b c\": there is no axis q, of "
                 "size 3");
}

static void
test_pixel_shuffle(void **state)
{
    struct bell_tensor *x = INPUT(2, 8, 1, 3), *y = bell_pixel_shuffle(x, 2);
    double got[48];
    size_t n, c, h, w;

    (void)state;
    EXPECT_SHAPE(y, 2, 2, 2, 6);
    assert_int_equal(bell_read(y, got, sizeof(got)), BELL_OK);
    for (n = 0; n < 2; n++)
        for (c = 0; c < 2; c++)
            for (h = 0; h < 2; h++)
                for (w = 0; w < 6; w++)
                    assert_true(
                        got[((n * 2 + c) * 2 + h) * 6 + w] ==
                        element((n * 8 + c * 4 + h * 2 + w % 2) * 3 + w / 2));
    EXPECT_SHAPE(bell_pixel_unshuffle(y, 2), 2, 8, 1, 3);
    EXPECT(bell_sum(bell_abs(bell_sub(bell_pixel_unshuffle(y, 2), x)),
                    BELL_NO_DIMS, false),
           0);
    EXPECT_SHAPE(bell_pixel_shuffle(INPUT(0, 9, 2, 1), 3), 0, 1, 6, 3);
    EXPECT_ERROR(bell_pixel_shuffle(x, 3),
                 "bell_pixel_shuffle: (2, 8, 1, 3) by 3: the channels must be "
                 "a multiple of its square");
    EXPECT_ERROR(bell_pixel_unshuffle(x, 2),
                 "bell_pixel_unshuffle: (2, 8, 1, 3) by 2: height and width "
                 "must be multiples of it");
    EXPECT_ERROR(bell_pixel_shuffle(x, 0),
                 "bell_pixel_shuffle: (2, 8, 1, 3) by 0: expected 3 axes or "
                 "more, and a factor of 1 to 2^20");
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_rearrange),
        TEST(test_rearrange_errors),
        TEST(test_pixel_shuffle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
