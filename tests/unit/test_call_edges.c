/* Calls by name, written as text, at the ends of what arguments can be: tensors
 * of rank 0.
 *
 * A call is a name and its arguments, separated by blanks: x y z b tensors of
 * rank 0, Y Z v q of floats, i I J of indices; D the axis; nN an int, fN a
 * float, bN a bool, 'S' a string, ( .. ) a list; NAME=ARG. A result is its shape
 * and its elements; results are separated by "; ". */
#include "tests/unit/tensor_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "doorbell/functions.h"

/* ---- calls as text ---- */

#define MAX_WORDS 24

struct text_call {
    char text[160]; /* cut into words */
    int64_t axis;   /* what D is */
    struct bell_arg args[BELL_MAX_PARAMS];
    struct bell_value items[MAX_WORDS]; /* of lists */
    uint32_t n_items;
    struct bell_call call;
};

static struct bell_tensor *
make_leaf(char letter)
{
    static const struct {
        char letter;
        enum bell_dtype dtype;
        uint32_t rank;
        int64_t n;
        double v[3];
    } leaves[] = {
        {'x', BELL_FLOAT32, 0, 1, {2.5}},
        {'y', BELL_FLOAT32, 0, 1, {7}},
        {'z', BELL_FLOAT32, 0, 1, {0}},
        {'Y', BELL_FLOAT32, 1, 1, {7}},
        {'Z', BELL_FLOAT32, 1, 2, {7, 8}},
        {'v', BELL_FLOAT32, 1, 3, {1, 2, 3}},
        {'q', BELL_FLOAT32, 1, 2, {0.25, 0.5}},
        {'b', BELL_BOOL, 0, 1, {1}},
        {'i', BELL_INT64, 0, 1, {0}},
        {'I', BELL_INT64, 1, 1, {0}},
        {'J', BELL_INT64, 1, 2, {0, 0}},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(leaves); i++) {
        if (leaves[i].letter == letter)
            return bell_cast(
                tensor_of(leaves[i].v, &leaves[i].n, leaves[i].rank),
                leaves[i].dtype);
    }
    fail_msg("no tensor '%c'", letter);
    return NULL;
}

static struct bell_value
make_value(const struct text_call *t, char *word)
{
    if (word[0] == 'D')
        return bell_of_int(t->axis);
    if (word[0] == 'n')
        return bell_of_int(strtoll(word + 1, NULL, 10));
    if (word[0] == 'f')
        return bell_of_float(strtod(word + 1, NULL));
    if (word[0] == 'b' && word[1])
        return bell_of_bool(word[1] == '1');
    if (word[0] == '\'') {
        word[strlen(word) - 1] = 0;
        return bell_of_str(word + 1);
    }
    return bell_of_tensor(make_leaf(word[0]));
}

/* Reads and calls. */
static bell_status
call_text(struct text_call *t, const char *text, int64_t axis)
{
    char *word, *rest, *equals;

    assert_true(strlen(text) < sizeof(t->text));
    memset(t, 0, sizeof(*t));
    memcpy(t->text, text, strlen(text) + 1);
    t->axis = axis;
    word = strtok_r(t->text, " ", &rest);
    t->call.function = bell_function_find(word);
    t->call.args = t->args;
    if (!t->call.function)
        fail_msg("no function '%s'", word);
    while ((word = strtok_r(NULL, " ", &rest))) {
        struct bell_arg *arg = &t->args[t->call.n_args++];
        const struct bell_value *first = &t->items[t->n_items];
        equals = word[0] == '\'' ? NULL : strchr(word, '=');
        if (equals) {
            *equals = 0;
            arg->name = word;
            word = equals + 1;
        }
        if (word[0] != '(') {
            arg->value = make_value(t, word);
            continue;
        }
        while ((word = strtok_r(NULL, " ", &rest)) && word[0] != ')')
            t->items[t->n_items++] = make_value(t, word);
        arg->value =
            bell_of_list(first, (uint32_t)(&t->items[t->n_items] - first));
    }
    return bell_function_call(ctx, &t->call);
}

/* "(2) 1 2; () 3" */
static void
print_results(const struct bell_call *call, char *text, size_t size)
{
    double v[16];
    size_t used = 0, n, k;
    uint32_t r, i;

    text[0] = 0;
    for (r = 0; r < call->n_results; r++) {
        struct bell_tensor *t = call->results[r];
        used += (size_t)snprintf(text + used, size - used, r ? "; (" : "(");
        for (i = 0; i < bell_ndim(t); i++)
            used += (size_t)snprintf(text + used, size - used, i ? " %d" : "%d",
                                     (int)bell_shape(t)[i]);
        used += (size_t)snprintf(text + used, size - used, ")");
        n = bell_numel(t);
        assert_true(n <= ARRAY_LEN(v));
        assert_int_equal(bell_read_f64(t, v, n), BELL_OK);
        for (k = 0; k < n; k++)
            used += (size_t)snprintf(text + used, size - used,
                                     isnan(v[k]) ? " nan" : " %g", v[k]);
    }
}

/* ---- rank 0 ---- */

/* As PyTorch 2.15 has it with axis 0 and -1, unless `differs`. */
/* clang-format off */
static const struct {
    const char *call, *want;
    bool differs;
} rank_0[] = {
    {"sum x D", "() 2.5"},
    {"prod x D", "() 2.5"},
    {"mean x D", "() 2.5"},
    {"any x D", "() 1"},
    {"all x D", "() 1"},
    {"count_nonzero x D", "() 1"},
    {"var x D", "() nan"},
    {"std x D", "() nan"},
    {"var_mean x D", "() nan; () 2.5"},
    {"std_mean x D", "() nan; () 2.5"},
    {"var x D correction=n0", "() 0"},
    {"norm x n2 D", "() 2.5"},
    {"logsumexp x D", "() 2.5"},
    {"argmax x D", "() 0"},
    {"argmin x D", "() 0"},
    {"argmax x D keepdim=b1", "() 0"},
    {"softmax x D", "() 1"},
    {"log_softmax x D", "() 0"},
    {"softmin x D", "() 1"},
    {"normalize x n2 D", "() 1"},
    {"cumsum x D", "() 2.5"},
    {"cumprod x D", "() 2.5"},
    {"sort x D", "() 2.5; () 0"},
    {"argsort x D", "() 0"},
    {"msort x", "() 2.5"},
    {"topk x n1 D", "() 2.5; () 0"},
    {"topk x n0 D", "(0); (0)", .differs = true},
    {"topk x n2 D", "refused"},
    {"rfft x dim=D", "refused"},
    {"permute x ( )", "() 2.5"},
    {"transpose x D D", "() 2.5"},
    {"squeeze x D", "() 2.5"},
    {"squeeze x", "() 2.5"},
    {"unsqueeze x D", "(1) 2.5"},
    {"flatten x D D", "(1) 2.5"},
    {"flatten x", "(1) 2.5"},
    {"unflatten x D ( n1 n1 )", "refused"},
    {"flip x ( D )", "() 2.5"},
    {"fliplr x", "refused"},
    {"flipud x", "() 2.5", .differs = true},
    {"flip x ( )", "() 2.5"},
    {"roll x n1 D", "() 2.5", .differs = true},
    {"roll x n1", "() 2.5"},
    {"repeat_interleave x n3 D", "refused"},
    {"repeat_interleave x n3", "(3) 2.5 2.5 2.5"},
    {"repeat_interleave x I D", "refused"},
    {"repeat_interleave x I", "(0)"},
    {"diagonal x n0 D D", "refused"},
    {"unfold x D n1 n1", "(1) 2.5"},
    {"cat ( x x ) D", "refused"},
    {"stack ( x x ) D", "(2) 2.5 2.5"},
    {"split x n1 D", "refused"},
    {"chunk x n2 D", "refused"},
    {"unbind x D", "refused"},
    {"select x D n0", "refused"},
    {"narrow x D n0 n1", "refused"},
    {"gather x D i", "() 2.5"},
    {"gather x D I", "(1) 2.5"},
    {"gather x D J", "(2) 2.5 2.5"},
    {"gather v D i", "() 1"},
    {"index_select x D i", "() 2.5"},
    {"index_select x D I", "() 2.5"},
    {"index_select x D J", "refused"},
    {"index_select v D i", "(1) 1"},
    {"scatter x D i y", "() 7"},
    {"scatter x D I Y", "() 7"},
    {"scatter x D i Y", "() 7"},
    {"scatter x D I y", "() 7"},
    {"scatter x D J Z", "() 8"},
    {"scatter v D i y", "(3) 7 2 3"},
    {"scatter x D i f7.0", "() 7"},
    {"scatter_add x D i y", "() 9.5"},
    {"scatter_add x D I Y", "() 9.5"},
    {"scatter_add x D J Z", "() 17.5"},
    {"scatter_reduce x D i y 'sum'", "() 9.5"},
    {"scatter_reduce x D I Y 'prod'", "() 17.5"},
    {"index_add x D i y", "() 9.5"},
    {"index_add x D I y", "() 9.5"},
    {"index_add x D I Y", "() 9.5", .differs = true},
    {"index_add x D J Z", "() 17.5", .differs = true},
    {"index_add v D i y", "(3) 8 2 3", .differs = true},
    {"index_add v D I y", "(3) 8 2 3", .differs = true},
    {"index_copy x D i y", "() 7"},
    {"index_copy x D I y", "() 7"},
    {"index_copy x D I Y", "() 7"},
    {"index_copy v D i y", "(3) 7 2 3"},
    {"take x i", "() 2.5"},
    {"take x I", "(1) 2.5"},
    {"take x J", "(2) 2.5 2.5"},
    {"take_along_dim x i D", "() 2.5", .differs = true},
    {"take_along_dim x I D", "(1) 2.5", .differs = true},
    {"take_along_dim x i", "(1) 2.5"},
    {"take_along_dim x I", "(1) 2.5"},
    {"max x D", "() 2.5; () 0"},
    {"min x D", "() 2.5; () 0"},
    {"amax x D", "() 2.5"},
    {"amin x D", "() 2.5"},
    {"aminmax x D", "() 2.5; () 2.5"},
    {"max x D keepdim=b1", "() 2.5; () 0"},
    {"cummax x D", "() 2.5; () 0"},
    {"cummin x D", "() 2.5; () 0"},
    {"median x D", "() 2.5; () 0"},
    {"nanmedian x D", "() 2.5; () 0"},
    {"median x", "() 2.5"},
    {"mode x D", "() 2.5; () 0"},
    {"kthvalue x n1 D", "() 2.5; () 0"},
    {"kthvalue x n2 D", "refused"},
    {"quantile x f0.5 D", "() 2.5"},
    {"nanquantile x f0.5 D", "() 2.5"},
    {"quantile x q D", "(2) 2.5 2.5"},
    {"logcumsumexp x D", "() 2.5"},
    {"unique x", "(1) 2.5"},
    {"unique x return_inverse=b1 return_counts=b1", "(1) 2.5; () 0; (1) 1"},
    {"unique_consecutive x return_inverse=b1 return_counts=b1", "(1) 2.5; () 0; (1) 1"},
    {"nonzero x", "(1 0)"},
    {"nonzero z", "(0 0)"},
    {"masked_select x b", "(1) 2.5"},
    {"searchsorted v x", "() 2"},
    {"searchsorted x v", "refused"},
    {"bucketize x v", "() 2"},
    {"take v i", "() 1"},
};
/* clang-format on */

/* Its parameters that are axes, by their names. */
static bool
takes_axis(const struct bell_function *f)
{
    static const char *const names[] = {"dim",  "dims",      "dim0",
                                        "dim1", "start_dim", "dimension"};
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n = bell_function_params(f, params), k, i;

    for (k = 0; k < n; k++) {
        for (i = 0; i < ARRAY_LEN(names); i++) {
            if (strcmp(params[k].name, names[i]) == 0)
                return true;
        }
    }
    return false;
}

/* What takes an axis takes axis 0 and -1 of a scalar, or refuses both; it
 * refuses 1 and -2. */
static void
test_rank_0(void **state)
{
    static const int64_t axes[] = {0, -1, 1, -2};
    struct text_call t;
    uint32_t k, i, n_bad = 0;
    char have[160];

    (void)state;
    for (k = 0; k < ARRAY_LEN(rank_0); k++) {
        bool has_axis = strstr(rank_0[k].call, "D") != NULL;
        for (i = 0; i < (has_axis ? ARRAY_LEN(axes) : 1u); i++) {
            const char *want = i < 2 ? rank_0[k].want : "refused";
            assert_int_equal(bell_scope_begin(ctx), BELL_OK);
            if (call_text(&t, rank_0[k].call, axes[i]) == BELL_OK) {
                print_results(&t.call, have, sizeof(have));
            } else {
                snprintf(have, sizeof(have), "refused");
                bell_error_clear();
            }
            if (strcmp(have, want) != 0) {
                print_message("%s, axis %d: %s, not %s\n", rank_0[k].call,
                              (int)axes[i], have, want);
                n_bad++;
            }
            assert_int_equal(bell_scope_end(ctx), BELL_OK);
        }
    }
    assert_int_equal(n_bad, 0);
}

/* No function that takes an axis is missing in the table. */
static void
test_all_axes(void **state)
{
    static const char *const elsewhere[] = {
        "fft",       "ifft", "rfft", "irfft", /* refuse scalars: test_fft */
        "tensordot", "tile",                  /* dims are no axes of a scalar */
    };
    uint32_t k, n_missing = 0;
    size_t i, len;

    (void)state;
    for (i = 0; i < bell_function_count(); i++) {
        const struct bell_function *f = bell_function_at(i);
        bool found = !takes_axis(f);
        len = strlen(f->name);
        for (k = 0; k < ARRAY_LEN(rank_0) && !found; k++)
            found = strncmp(rank_0[k].call, f->name, len) == 0 &&
                    rank_0[k].call[len] == ' ';
        for (k = 0; k < ARRAY_LEN(elsewhere) && !found; k++)
            found = strcmp(elsewhere[k], f->name) == 0;
        if (!found) {
            print_message("%s is not in the table\n", f->name);
            n_missing++;
        }
    }
    assert_int_equal(n_missing, 0);
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_rank_0),
        TEST(test_all_axes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
