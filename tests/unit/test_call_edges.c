/* Calls by name, written as text, at the ends of what arguments can be: tensors
 * of rank 0, integers that no double is, doubles that no float32 is.
 *
 * A call is a name and its arguments, separated by blanks: x y z b tensors of
 * rank 0, Y Z v q p of floats, i I J of indices; D the axis, or the integer, E
 * and F the one after and before it; tensors of one element: k that integer, o
 * 1, O 0, t true, T false, and u 1, m 0 of two axes; nN an int, fN a
 * float, bN a bool, 'S' a string, ( .. ) a list; NAME=ARG. A result is its
 * shape and its elements; results are separated by "; ". */
#include "tests/unit/tensor_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "doorbell/functions.h"
#include "tests/unit/expect.h"

/* ---- calls as text ---- */

#define MAX_WORDS 24

struct text_call {
    char text[160]; /* cut into words */
    int64_t number; /* what D is */
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
        double v[4];
        int64_t n_columns; /* of two axes; 0: 1 */
    } leaves[] = {
        {'x', BELL_FLOAT32, 0, 1, {2.5}},
        {'y', BELL_FLOAT32, 0, 1, {7}},
        {'z', BELL_FLOAT32, 0, 1, {0}},
        {'Y', BELL_FLOAT32, 1, 1, {7}},
        {'Z', BELL_FLOAT32, 1, 2, {7, 8}},
        {'v', BELL_FLOAT32, 1, 3, {1, 2, 3}},
        {'q', BELL_FLOAT32, 1, 2, {0.25, 0.5}},
        {'p', BELL_FLOAT32, 2, 2, {1, 0, 0, 2}, .n_columns = 2},
        {'b', BELL_BOOL, 0, 1, {1}},
        {'i', BELL_INT64, 0, 1, {0}},
        {'I', BELL_INT64, 1, 1, {0}},
        {'J', BELL_INT64, 1, 2, {0, 0}},
        {'o', BELL_INT64, 1, 1, {1}},
        {'O', BELL_INT64, 1, 1, {0}},
        {'t', BELL_BOOL, 1, 1, {1}},
        {'T', BELL_BOOL, 1, 1, {0}},
        {'m', BELL_INT64, 2, 1, {0}},
        {'u', BELL_INT64, 2, 1, {1}},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(leaves); i++) {
        if (leaves[i].letter == letter)
            return bell_cast(
                tensor_of(leaves[i].v,
                          (int64_t[]){leaves[i].n, leaves[i].n_columns
                                                       ? leaves[i].n_columns
                                                       : 1},
                          leaves[i].rank),
                leaves[i].dtype);
    }
    fail_msg("no tensor '%c'", letter);
    return NULL;
}

static struct bell_value
make_value(const struct text_call *t, char *word)
{
    if (word[0] >= 'D' && word[0] <= 'F')
        return bell_of_int(t->number + (word[0] == 'E') - (word[0] == 'F'));
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
    if (word[0] == 'k')
        return bell_of_tensor(I(V(t->number), 1));
    return bell_of_tensor(make_leaf(word[0]));
}

/* Reads and calls. */
static bell_status
call_text(struct text_call *t, const char *text, int64_t number)
{
    char *word, *rest, *equals;

    assert_true(strlen(text) < sizeof(t->text));
    memset(t, 0, sizeof(*t));
    memcpy(t->text, text, strlen(text) + 1);
    t->number = number;
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

/* A function of an axis takes axis 0 and -1 of a scalar, or refuses both; it
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
        "tensordot", "tile",                  /* a scalar does not have such
                                               * axes */
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

/* ---- 0 where None is the default ---- */

/* Zero is a value, or refused: it never means None. */
/* clang-format off */
static const struct {
    const char *call, *want;
} zeros[] = {
    {"fft p", "(2 2) 1 2 1 -2"},
    {"fft p n=n0", "refused"},
    {"ifft p n=n0", "refused"},
    {"rfft v n=n0", "refused"},
    {"irfft p", "(2) 0.5 0.5"},
    {"irfft p n=n0", "refused"},
    {"stft v n4 hop_length=n0", "refused"},
    {"stft v n2 n1 win_length=n0 center=b0", "refused"},
    {"istft p n4 hop_length=n0", "refused"},
    {"istft p n2 n1 win_length=n0 center=b0", "refused"},
    {"istft p n2 n1 length=n0 center=b0", "refused"},
    {"scaled_dot_product_attention p p p scale=f0", "(2 2) 0.5 1 0.5 1"},
    {"scaled_dot_product_attention p p p scale=f-0.0", "(2 2) 0.5 1 0.5 1"},
    {"rms_norm Y ( n1 ) eps=f0", "(1) 1"},
    {"pinv p rtol=f0", "(2 2) 1 0 0 0.5"},
    {"matrix_rank p rtol=f0", "() 2"},
    {"nonzero v size=n0", "(0 1)"},
    {"masked_select v b size=n0", "(0)"},
    {"repeat_interleave q J output_size=n0", "(0)"},
    {"eye n2 m=n0", "(2 0)"},
};
/* clang-format on */

static void
test_zeros(void **state)
{
    struct text_call t;
    uint32_t k, n_bad = 0;
    char have[160];

    (void)state;
    for (k = 0; k < ARRAY_LEN(zeros); k++) {
        assert_int_equal(bell_scope_begin(ctx), BELL_OK);
        if (call_text(&t, zeros[k].call, 0) == BELL_OK) {
            print_results(&t.call, have, sizeof(have));
        } else {
            snprintf(have, sizeof(have), "refused");
            bell_error_clear();
        }
        if (strcmp(have, zeros[k].want) != 0) {
            print_message("%s: %s, not %s\n", zeros[k].call, have,
                          zeros[k].want);
            n_bad++;
        }
        assert_int_equal(bell_scope_end(ctx), BELL_OK);
    }
    assert_int_equal(n_bad, 0);
}

/* Every number whose default is None is in the table, axes apart. */
static void
test_all_defaults(void **state)
{
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n, k, row, n_missing = 0;
    char given[40];
    size_t i, len;

    (void)state;
    for (i = 0; i < bell_function_count(); i++) {
        const struct bell_function *f = bell_function_at(i);
        n = bell_function_params(f, params);
        len = strlen(f->name);
        for (k = 0; k < n; k++) {
            bool found = (params[k].kind != BELL_PARAM_INT &&
                          params[k].kind != BELL_PARAM_FLOAT) ||
                         params[k].required ||
                         params[k].fallback.kind != BELL_VALUE_NONE ||
                         strcmp(params[k].name, "dim") == 0;
            snprintf(given, sizeof(given), " %.23s=", params[k].name);
            for (row = 0; row < ARRAY_LEN(zeros) && !found; row++)
                found = strncmp(zeros[row].call, f->name, len) == 0 &&
                        zeros[row].call[len] == ' ' &&
                        strstr(zeros[row].call, given);
            if (!found) {
                print_message("%s:%s is not in the table\n", f->name, given);
                n_missing++;
            }
        }
    }
    assert_int_equal(n_missing, 0);
}

/* ---- integers above 2^53 ---- */

/* What the first element of the last result is: the integer itself, or the
 * number given. */
/* clang-format off */
static const struct {
    const char *call;
    bool is_itself;
    int64_t want;
} wide[] = {
    {"full ( n1 ) D", true},
    {"full_like O D", true},
    {"add O D", true},
    {"add O o alpha=D", true},
    {"sub k D", false, 0},
    {"sub k o alpha=D", false, 0},
    {"mul o D", true},
    {"addcmul O o o value=D", true},
    {"addmm m u u alpha=D", true},
    {"addmm u m u beta=D", true},
    {"floor_divide k D", false, 1},
    {"remainder k D", false, 0},
    {"fmod k D", false, 0},
    {"pow D o", true},
    {"bitwise_and k D", true},
    {"bitwise_or O D", true},
    {"bitwise_xor k D", false, 0},
    {"maximum k D", true},
    {"minimum k D", true},
    {"clamp O D D", true},
    {"clamp k min=D", true},
    {"clamp k max=D", true},
    {"eq k D", false, 1},
    {"ne k D", false, 0},
    {"lt k D", false, 0},
    {"le k D", false, 1},
    {"gt k D", false, 0},
    {"ge k D", false, 1},
    {"where t D O", true},
    {"masked_fill O t D", true},
    {"masked_select o T size=n1 fill_value=D", true},
    {"nonzero O size=n1 fill_value=D", true},
    {"pad O ( n1 n0 ) value=D", true},
    {"index_add O n0 I o alpha=D", true},
    {"index_put O ( I ) D", true},
    {"scatter O n0 I D", true},
    {"searchsorted k D", false, 0},
    {"tensor D", true},
    {"tensor ( D )", true},
    {"randint D E ( n1 )", true},
    {"arange D E", true},
    {"arange D F n-1", true},
};
/* clang-format on */

static const int64_t integers[] = {(1ll << 53) + 1, -(1ll << 53) - 1,
                                   (1ll << 62) + 3, INT64_MAX, INT64_MIN};

static void
test_wide_integers(void **state)
{
    struct text_call t;
    uint32_t k, i, n_bad = 0;
    int64_t want, have[8];

    (void)state;
    for (k = 0; k < ARRAY_LEN(wide); k++) {
        for (i = 0; i < ARRAY_LEN(integers); i++) {
            struct bell_tensor *out;
            if ((strstr(wide[k].call, " E") && integers[i] == INT64_MAX) ||
                (strstr(wide[k].call, " F") && integers[i] == INT64_MIN))
                continue;
            assert_int_equal(bell_scope_begin(ctx), BELL_OK);
            want = wide[k].is_itself ? integers[i] : wide[k].want;
            if (call_text(&t, wide[k].call, integers[i]) != BELL_OK) {
                print_message("%s, %lld: %s\n", wide[k].call,
                              (long long)integers[i],
                              bell_error_last()->message);
                n_bad++;
            } else {
                out = t.call.results[t.call.n_results - 1];
                assert_true(bell_numel(out) <= ARRAY_LEN(have));
                assert_int_equal(bell_read_i64(out, have, bell_numel(out)),
                                 BELL_OK);
                if (have[0] != want) {
                    print_message("%s, %lld: %lld\n", wide[k].call,
                                  (long long)integers[i], (long long)have[0]);
                    n_bad++;
                }
            }
            assert_int_equal(bell_scope_end(ctx), BELL_OK);
        }
    }
    assert_int_equal(n_bad, 0);
}

/* Functions of a number are in the table; a float parameter refuses an integer
 * that no float is. */
static void
test_all_numbers(void **state)
{
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n, k, n_missing = 0;
    size_t i, len, row;

    (void)state;
    for (i = 0; i < bell_function_count(); i++) {
        const struct bell_function *f = bell_function_at(i);
        bool found = true;
        n = bell_function_params(f, params);
        for (k = 0; k < n; k++)
            found = found && params[k].kind != BELL_PARAM_NUMBER;
        len = strlen(f->name);
        for (row = 0; row < ARRAY_LEN(wide) && !found; row++)
            found = strncmp(wide[row].call, f->name, len) == 0 &&
                    wide[row].call[len] == ' ';
        if (!found) {
            print_message("%s is not in the table\n", f->name);
            n_missing++;
        }
    }
    assert_int_equal(n_missing, 0);
}

/* In C, where a number is a double. */
static void
test_wide_in_c(void **state)
{
    struct bell_tensor *zero = I(V(0), 1), *v, *all[8];
    struct bell_tensor *mask = bell_ones(ctx, BELL_DIMS(1), BELL_BOOL);
    int64_t have;
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(integers); i++) {
        v = bell_scalar_int(ctx, integers[i]);
        all[0] = bell_add(zero, v);
        all[1] = bell_clamp(zero, v, v);
        all[2] = bell_where(mask, v, zero);
        all[3] = bell_full_int(ctx, BELL_DIMS(1), integers[i], BELL_INT64);
        all[4] = bell_masked_fill_by(zero, mask, v);
        all[5] =
            bell_shrink(bell_pad_by(zero, BELL_DIMS(0, 1), v), BELL_DIMS(1, 2));
        all[6] = bell_maximum(I(V(integers[i]), 1), v);
        all[7] = integers[i] == INT64_MAX
                     ? bell_arange_int(ctx, integers[i], integers[i] - 1, -1,
                                       BELL_DEFAULT)
                     : bell_arange_int(ctx, integers[i], integers[i] + 1, 1,
                                       BELL_DEFAULT);
        for (k = 0; k < ARRAY_LEN(all); k++) {
            assert_int_equal(bell_item_i64(all[k], &have), BELL_OK);
            assert_true(have == integers[i]);
        }
    }
    EXPECT_SHAPE(
        bell_arange_int(ctx, INT64_MIN, INT64_MAX, INT64_MAX, BELL_DEFAULT), 3);
    EXPECT_SHAPE(
        bell_arange_int(ctx, INT64_MAX, INT64_MIN, INT64_MIN, BELL_DEFAULT), 2);
    EXPECT(bell_arange_int(ctx, 3, -4, -3, BELL_FLOAT64), 3, 0, -3);
    EXPECT_SHAPE(bell_arange_int(ctx, 3, 3, 5, BELL_DEFAULT), 0);
    EXPECT_ERROR(bell_arange_int(ctx, 3, 4, 0, BELL_DEFAULT),
                 "bell_arange_int: int64 from 3 to 4 by 0: the step must lead "
                 "from start to end, and the dtype not be bool");
    EXPECT_ERROR(bell_arange_int(ctx, 4, 3, 1, BELL_DEFAULT),
                 "bell_arange_int: int64 from 4 to 3 by 1: the step must lead "
                 "from start to end, and the dtype not be bool");
    EXPECT_ERROR(
        bell_masked_fill_by(zero, mask, T(V(1, 2), 2)),
        "bell_masked_fill_by: the value has shape (2,); expected one element");
    EXPECT_ERROR(bell_pad_by(zero, BELL_DIMS(0, 1), T(V(1, 2), 2)),
                 "bell_pad_by: the value has shape (2,); expected one element");
}

/* A number beside float64 is as exact as a double. */
static void
test_doubles(void **state)
{
    struct bell_tensor *tenth = bell_scalar(ctx, 0.1), *zero = T(V(0), 1);
    struct bell_tensor *mask = bell_ones(ctx, BELL_DIMS(1), BELL_BOOL), *t[8];
    double have;
    size_t i;

    (void)state;
    t[0] = bell_masked_fill_by(zero, mask, tenth);
    t[1] = bell_pad_by(T(V(0), 0), BELL_DIMS(1, 0), tenth);
    t[2] = bell_masked_select_sized(zero, bell_logical_not(mask), 1, tenth);
    t[3] = bell_quantile(T(V(0, 1), 2), tenth, 0, false, BELL_LINEAR);
    t[4] = bell_where(mask, tenth, zero);
    t[5] = bell_index_put(zero, BELL_ITEMS(bell_at(0)), tenth);
    t[6] = bell_clamp(zero, tenth, NULL);
    t[7] = bell_add(zero, tenth);
    for (i = 0; i < ARRAY_LEN(t); i++) {
        assert_int_equal(bell_item_f64(t[i], &have), BELL_OK);
        assert_true(have == 0.1);
    }
    EXPECT(bell_searchsorted(T(V(0.1), 1), tenth, false), 0);
}

/* A function of a list of tensors, called with an empty one, fails and says so,
 * though no tensor has a context that could. */
static void
test_empty_lists(void **state)
{
    static struct bell_value item;
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n_rows = 0;
    size_t i;

    (void)state;
    for (i = 0; i < bell_function_count(); i++) {
        struct bell_arg arg = {
            .value = {.kind = BELL_VALUE_LIST, .items = &item, .n_items = 0}};
        struct bell_call call = {.args = &arg, .n_args = 1};

        call.function = bell_function_at(i);
        if (bell_function_params(call.function, params) == 0 ||
            params[0].kind != BELL_PARAM_TENSORS ||
            (bell_function_params(call.function, params) > 1 &&
             params[1].required))
            continue;
        bell_error_clear();
        expect_fails(bell_function_call(ctx, &call), BELL_E_INVALID,
                     call.function->name);
        n_rows++;
    }
    assert_true(n_rows >= 2);
}

/* Every function of a tensor alone, with the most axes: a result or an error,
 * also of those that add axes on their way. */
static void
test_most_axes_everywhere(void **state)
{
    struct bell_param params[BELL_MAX_PARAMS];
    int64_t shape[BELL_MAX_RANK];
    struct bell_arg args[2] = {{0}};
    size_t i;
    uint32_t n, k, last;

    (void)state;
    for (k = 0; k < BELL_MAX_RANK; k++)
        shape[k] = k % 8 ? 1 : 2;
    args[0].value =
        bell_of_tensor(bell_ones(ctx, shape, BELL_MAX_RANK, BELL_FLOAT32));
    args[1].value = bell_of_int(BELL_MAX_RANK - 1);
    for (i = 0; i < bell_function_count(); i++) {
        const struct bell_function *function = bell_function_at(i);

        n = bell_function_params(function, params);
        if (n == 0 || params[0].kind != BELL_PARAM_TENSOR ||
            (n > 1 && params[1].required && params[1].kind != BELL_PARAM_INT) ||
            (n > 2 && params[2].required))
            continue;
        last = n > 1 && params[1].kind == BELL_PARAM_INT;
        for (k = n > 1 && params[1].required; k <= last; k++) {
            struct bell_call call = {
                .function = function, .args = args, .n_args = 1 + k};

            assert_int_equal(bell_scope_begin(ctx), BELL_OK);
            if (bell_function_call(ctx, &call) != BELL_OK ||
                bell_realize(call.results, call.n_results) != BELL_OK) {
                assert_true(bell_error_last()->message[0]);
                assert_int_not_equal(bell_error_last()->status,
                                     BELL_E_INTERNAL);
                (void)!bell_context_status(ctx);
                bell_error_clear();
            }
            assert_int_equal(bell_scope_end(ctx), BELL_OK);
        }
    }
}

int
main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)
    const struct CMUnitTest tests[] = {
        TEST(test_rank_0),        TEST(test_all_axes),
        TEST(test_wide_integers), TEST(test_all_numbers),
        TEST(test_wide_in_c),     TEST(test_doubles),
        TEST(test_zeros),         TEST(test_all_defaults),
        TEST(test_empty_lists),   TEST(test_most_axes_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
