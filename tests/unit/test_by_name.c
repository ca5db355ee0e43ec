/* Calls by name: parameters that are parsed once, rows that are none, results
 * that are new handles. */
#include "tests/unit/tensor_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "doorbell/functions.h"
#include "doorbell/ops.h"

static struct bell_context *second;

/* ---- rows ---- */

static bell_status
call_with(struct bell_context *c, const struct bell_function *f,
          struct bell_tensor *x, struct bell_tensor **out)
{
    struct bell_arg arg = {NULL, bell_of_tensor(x)};
    struct bell_call call = {.function = f, .args = &arg, .n_args = 1};
    bell_status status = bell_function_call(c, &call);

    *out = status == BELL_OK ? call.results[0] : NULL;
    return status;
}

/* A row is found by its address, in every context, and a copy of one is
 * none. */
static void
test_rows(void **state)
{
    const struct bell_function *last =
        bell_function_at(bell_function_count() - 1);
    struct bell_function copy = *bell_function_find("neg");
    struct bell_tensor *x, *y;
    struct bell_call call = {.function = NULL};
    int i;

    (void)state;
    assert_int_equal(bell_context_create("CPU", &second), BELL_OK);
    for (i = 0; i < 3; i++) {
        x = bell_full(ctx, BELL_DIMS(2), i, BELL_FLOAT64);
        assert_int_equal(call_with(ctx, bell_function_find("neg"), x, &y),
                         BELL_OK);
        EXPECT(y, -i, -i);
        x = bell_full(second, BELL_DIMS(2), i, BELL_FLOAT64);
        assert_int_equal(call_with(second, bell_function_find("relu"), x, &y),
                         BELL_OK);
        EXPECT(y, i, i);
    }
    bell_context_destroy(second);
    x = tensor_of((double[]){1}, BELL_DIMS(1));
    EXPECT_STATUS(call_with(ctx, &copy, x, &y),
                  "bell_function_call: the function is not a row of the table");
    EXPECT_STATUS(
        call_with(ctx, (const struct bell_function *)0x77777777777, x, &y),
        "bell_function_call: the function is not a row of the table");
    EXPECT_STATUS(call_with(ctx, (const void *)((const char *)last + 8), x, &y),
                  "bell_function_call: the function is not a row of the table");
    EXPECT_STATUS(bell_function_call(ctx, &call),
                  "bell_function_call: the function is NULL");
    assert_false(bell_function_c(&copy, &(struct bell_function_c){0}));
}

/* Lists that find room in the call, and those that do not. */
static void
test_long_lists(void **state)
{
    struct bell_tensor *t[100], *x = tensor_of((double[]){1, 2}, BELL_DIMS(2));
    struct bell_value items[100];
    struct bell_arg args[2] = {{NULL, bell_of_list(items, 100)},
                               {"dim", bell_of_int(0)}};
    struct bell_call call = {
        .function = bell_function_find("cat"), .args = args, .n_args = 2};
    uint32_t n;

    (void)state;
    for (n = 0; n < 100; n++) {
        t[n] = n % 2 ? x : bell_neg(x);
        items[n] = bell_of_tensor(t[n]);
    }
    for (n = 1; n <= 100; n += 33) {
        args[0].value = bell_of_list(items, n);
        assert_int_equal(bell_function_call(ctx, &call), BELL_OK);
        EXPECT_SHAPE(call.results[0], 2 * (int64_t)n);
        EXPECT(bell_narrow(call.results[0], 0, 0, 2), -1, -2);
    }
}

/* ---- new handles ---- */

#define MAX_TRIES 3

/* Values for a parameter, try by try: small, and such that they change
 * nothing where that is possible. */
static struct bell_value
value_for(const struct bell_param *param, uint32_t try, struct bell_tensor *x)
{
    static const struct bell_value zero = {
        .kind = BELL_VALUE_INT, .n_items = 0, .i = 0};
    static struct bell_value tensors[2];

    tensors[0] = tensors[1] = bell_of_tensor(x);
    switch (param->kind) {
    case BELL_PARAM_TENSOR:
        return bell_of_tensor(x);
    case BELL_PARAM_TENSORS:
    case BELL_PARAM_TENSORS_SPREAD:
        return bell_of_list(tensors, try % 2 + 1);
    case BELL_PARAM_INT:
        return bell_of_int(try);
    case BELL_PARAM_FLOAT:
    case BELL_PARAM_NUMBER:
        return bell_of_float(try);
    case BELL_PARAM_BOOL:
        return bell_of_bool(try % 2);
    case BELL_PARAM_INTS:
    case BELL_PARAM_INTS_SPREAD:
        return bell_of_list(&zero, try % 2);
    case BELL_PARAM_DTYPE:
        return bell_of_dtype(bell_dtype_of(x));
    case BELL_PARAM_FLOATS:
        return bell_of_float(try + 1);
    case BELL_PARAM_INTS_OR_STR:
    case BELL_PARAM_STR:
    case BELL_PARAM_DATA:
        break;
    }
    return param->fallback;
}

/* Calls a function with all its parameters, or with those that it needs. Which
 * results are arguments? */
static int
call_and_compare(const struct bell_function *f, struct bell_tensor *x,
                 uint32_t try, bool all, int *n_calls)
{
    struct bell_param params[BELL_MAX_PARAMS];
    struct bell_arg args[BELL_MAX_PARAMS];
    struct bell_call call = {.function = f, .args = args};
    uint32_t n = bell_function_params(f, params), k;
    int n_same = 0;

    for (k = 0; k < n; k++) {
        if (all || params[k].required)
            args[call.n_args++] = (struct bell_arg){
                params[k].name, value_for(&params[k], try, x)};
    }
    if (bell_function_call(ctx, &call) != BELL_OK) {
        bell_error_clear();
        return 0;
    }
    ++*n_calls;
    for (k = 0; k < call.n_results; k++)
        n_same += call.results[k] == x;
    if (n_same)
        fprintf(stderr, "%s (%s) gives its argument\n", f->name, f->params);
    return n_same;
}

static void
test_new_handles(void **state)
{
    static const enum bell_dtype dtypes[] = {BELL_BOOL, BELL_INT64,
                                             BELL_FLOAT32, BELL_FLOAT64};
    int64_t shapes[][3] = {{0}, {1}, {3}, {0, 2}, {2, 2}, {1, 1, 1}};
    const uint32_t ranks[] = {0, 1, 1, 2, 2, 3};
    int n_calls = 0, n_same = 0;
    size_t f, s, d;
    uint32_t try;

    (void)state;
    for (f = 0; f < bell_function_count(); f++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        for (s = 0; s < ARRAY_LEN(ranks); s++) {
            for (d = 0; d < ARRAY_LEN(dtypes); d++) {
                struct bell_tensor *x =
                    bell_ones(ctx, shapes[s], ranks[s], dtypes[d]);
                for (try = 0; try < MAX_TRIES; try++) {
                    n_same += call_and_compare(bell_function_at(f), x, try,
                                               true, &n_calls);
                    n_same += call_and_compare(bell_function_at(f), x, try,
                                               false, &n_calls);
                }
            }
        }
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    printf("%d calls\n", n_calls);
    assert_true(n_calls > 5000);
    assert_int_equal(n_same, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, make_context, end_context),
        cmocka_unit_test_setup_teardown(test_long_lists, make_context,
                                        end_context),
        cmocka_unit_test_setup_teardown(test_new_handles, make_context,
                                        end_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
