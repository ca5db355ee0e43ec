/* The oracle's runner: makes a row's calls, runs them on a device and compares
 * what comes out with the row's definition. */
#include "tools/fuzz/oracle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/ops.h"
#include "tools/fuzz/fuzz.h"
#include "tools/tools.h"

#define MAX_LEAVES  ORACLE_MAX_LEAVES
#define MAX_SHOWN   3 /* differences of a call */
#define RANDOM_SEED 40

/* ---- special values --------------------------------------------------- */

/* Beside those that depend on the dtype; each with both signs. */
static const double plain[] = {
    0,
    1e-10,
    1e-4,
    1e-3,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    1.5,
    2,
    2.5,
    3,
    3.5,
    7,
    10,
    11.5,
    12.5,
    30,
    52,
    88,
    89,
    95,
    100,
    104,
    127,
    128,
    129,
    300,
    600,
    709.5,
    710.2,
    745,
    3000,
    4096.5,
    65504,
    65520,
    1e5,
    1e10,
    8388609,
    16777216,
    0x1p31,
    0x1p32,
    0x1p63,
    0x1p64,
    1e20,
    1e38,
    1e100,
    1e300,
    3.14159265358979,
    1.57079632679490,
    0.41421356237,
    2.41421356237,
};
static const double few[] = {0,  1e-4, 0.1, 0.5,  1,   1.5,  2,    3,   5,
                             10, 88,   300, 3000, 1e5, 1e10, 1e20, 1e38};
static const double fewest[] = {0, 0.5, 1, 3, 300};
static const int64_t ints[] = {
    0,   1,   2,   3,    5,     7,     10,       63,         64,
    100, 127, 255, 1000, 32767, 65535, 16777217, 2147483647, 9007199254740993};

struct pool {
    enum bell_dtype dtype;
    long double v[256];
    uint32_t n;
};

static void
add_oracle_value(struct pool *pool, long double v)
{
    uint32_t i;

    for (i = 0; i < pool->n; i++) {
        if (pool->v[i] == v ? !signbit(pool->v[i]) == !signbit(v)
                            : isnan(v) && isnan(pool->v[i]))
            return;
    }
    if (pool->n < ARRAY_LEN(pool->v))
        pool->v[pool->n++] = v;
}

/* With both signs, rounded to the dtype. */
static void
add_both(struct pool *pool, long double v)
{
    add_oracle_value(pool, oracle_round(pool->dtype, v));
    add_oracle_value(pool, oracle_round(pool->dtype, -v));
}

static void
add_borders(struct pool *pool, uint32_t level)
{
    const struct oracle_dtype *t = oracle_dtype(pool->dtype);
    long double least = oracle_ulp(pool->dtype, 0);
    long double normal = ldexpl(1, t->min_exp), eps = ldexpl(1, 1 - t->digits);

    add_both(pool, least);
    add_both(pool, normal);
    add_both(pool, t->max);
    if (t->has_inf)
        add_both(pool, (long double)INFINITY);
    add_oracle_value(pool, (long double)NAN);
    if (level == 3)
        return;
    add_both(pool, normal - least);
    add_both(pool, 1 + eps);
    add_both(pool, 1 - eps / 2);
    if (level == 2)
        return;
    add_both(pool, 3 * least);
    add_both(pool, normal / 2);
    add_both(pool, eps);
    add_both(pool, eps / 2);
    add_both(pool, 0.5L + eps / 2);
    add_both(pool, 0.5L - eps / 4);
    add_both(pool, t->max / 2);
    add_both(pool, sqrtl(t->max));
    add_both(pool, ldexpl(1, t->digits) + 1);
    add_both(pool, ldexpl(1, t->digits) - 0.5L);
}

/* level 1: all of them; 2: for pairs; 3: for triples. */
static void
fill_pool(struct pool *pool, uint32_t level)
{
    const struct oracle_dtype *t = oracle_dtype(pool->dtype);
    long double high = ldexpl(1, 8 * t->size_bytes - t->is_signed) - 1;
    size_t i;

    pool->n = 0;
    if (t->is_float) {
        const double *list = level == 1 ? plain : level == 2 ? few : fewest;
        size_t n = level == 1   ? ARRAY_LEN(plain)
                   : level == 2 ? ARRAY_LEN(few)
                                : ARRAY_LEN(fewest);
        for (i = 0; i < n; i++)
            add_both(pool, list[i]);
        add_borders(pool, level);
        return;
    }
    if (pool->dtype == BELL_BOOL) {
        add_oracle_value(pool, 0);
        add_oracle_value(pool, 1);
        return;
    }
    for (i = 0; i < ARRAY_LEN(ints); i += level == 3 ? 4 : 1) {
        if ((long double)ints[i] > high)
            break;
        add_oracle_value(pool, ints[i]);
        if (t->is_signed && ints[i])
            add_oracle_value(pool, -(long double)ints[i]);
    }
    add_oracle_value(pool, high);
    add_oracle_value(pool, truncl(high / 2) + 1);
    if (t->is_signed) {
        add_oracle_value(pool, -high);
        add_oracle_value(pool, -high - 1);
    }
}

/* ---- leaves ----------------------------------------------------------- */

struct oracle_job {
    struct oracle_run *run;
    const struct oracle_row *row;
    const char *text; /* the case */
    size_t text_len;
    struct oracle o;
    long double scale;
    struct oracle_array *leaves[MAX_LEAVES];
    struct bell_tensor *tensors[MAX_LEAVES];
    uint32_t n_leaves;
    struct bell_call call;
    struct bell_arg args[BELL_MAX_PARAMS + ORACLE_MAX_EXTRA];
    uint32_t n_shown;
    bool failed;
    struct oracle_gradient *gradients; /* for the dump; NULL: there is none */
    uint32_t n_gradients;
};

static long double
oracle_draw(uint64_t *state, long double low, long double high)
{
    *state += 0x9e3779b97f4a7c15ull;
    return low +
           (high - low) * (long double)(hash_mix(*state) >> 11) * 0x1p-53L;
}

static long double
mixed_value(uint64_t *state)
{
    static const double list[] = {
        0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 1, -1, 2};
    uint64_t k = (uint64_t)oracle_draw(state, 0, 24);

    return k < ARRAY_LEN(list) ? list[k] : oracle_draw(state, -4, 4);
}

static void
fill_special(struct oracle_job *job, struct oracle_array *t, char kind)
{
    struct pool pool = {.dtype = t->dtype};
    size_t i, step = 1, count = 1;
    uint32_t level = kind == 'x' ? 1 : kind == 'X' || kind == 'Y' ? 2 : 3;

    fill_pool(&pool, level);
    t->rank = 1;
    for (i = 0; i < level; i++)
        count *= pool.n;
    if (kind == 'Y' || kind == 'V')
        step = pool.n;
    if (kind == 'W')
        step = (size_t)pool.n * pool.n;
    t->d[0] = (int64_t)count;
    t->n = count;
    t->v = arena_calloc(job->o.arena, count, sizeof(*t->v));
    for (i = 0; i < count && t->v; i++)
        t->v[i] = pool.v[i / step % pool.n];
}

/* Random numbers, with the size on the diagonals; symmetric if asked for. */
static void
fill_matrices(struct oracle_job *job, struct oracle_array *t, bool symmetric,
              uint64_t state)
{
    size_t n = (size_t)t->d[t->rank - 1], i, row, column;

    for (i = 0; i < t->n; i++) {
        row = i / n % n;
        column = i % n;
        t->v[i] =
            oracle_draw(&state, -1, 1) + (row == column ? (long double)n : 0);
        t->v[i] *= oracle_is_float(t->dtype) ? job->scale : 9;
        if (!oracle_is_float(t->dtype))
            t->v[i] = truncl(t->v[i]);
        t->v[i] = oracle_round(t->dtype, t->v[i]);
        if (symmetric && column < row)
            t->v[i] = t->v[i - (row - column) * (n - 1)];
    }
}

static void
fill_oracle_random(struct oracle_job *job, struct oracle_array *t, char kind,
                   int64_t bound)
{
    uint64_t state = 77 + job->n_leaves * 1000003ull + hash_mix(t->n);
    size_t i, last = t->rank ? (size_t)t->d[t->rank - 1] : 1;

    for (i = 0; i < t->n; i++) {
        long double v = 0;
        switch (kind) {
        case 'n':
            v = oracle_draw(&state, -1, 1) * job->scale;
            break;
        case 'p':
            v = oracle_draw(&state, 0.1L, 1.1L) * job->scale;
            break;
        case 'u':
            v = oracle_draw(&state, 0.05L, 0.95L);
            break;
        case 'c':
            v = floorl(oracle_draw(&state, -2, 3));
            break;
        case 'e':
            v = 1.5L * job->scale;
            break;
        case 'q':
            v = mixed_value(&state);
            break;
        case 'i':
            v = floorl(oracle_draw(&state, 0, bound));
            break;
        case 'w':
            v = floorl(oracle_draw(&state, -bound, bound));
            break;
        case 'b':
            v = oracle_draw(&state, 0, 1) < 0.6L;
            break;
        case 'a':
            v = i;
            break;
        case 's': /* a permutation of 0..bound-1, its first ones */
            v = (long double)((i % last * 7 + i / last * 3) %
                              (bound > 0 ? (size_t)bound : 1));
            break;
        default:
            job->failed = true;
        }
        if (!oracle_is_float(t->dtype) && t->dtype != BELL_BOOL)
            v = isfinite(v) ? truncl(v * (kind == 'n' ? 9 : 1)) + 0.0L : 0;
        t->v[i] = oracle_round(t->dtype, v);
    }
}

/* "@KIND:SIZES/D" */
static void
parse_leaf(struct oracle_job *job, const char *word, struct oracle_arg *arg)
{
    const char *slash = strchr(word, '/'), *colon = strchr(word, ':');
    int64_t d[BELL_MAX_RANK], bound = 0;
    enum bell_dtype dtype = slash ? oracle_letter(slash[1]) : job->o.dtype;
    struct oracle_array *t;
    uint32_t rank = 0;
    char *end;

    if (word[2] >= '0' && word[2] <= '9')
        bound = strtoll(word + 2, NULL, 10);
    if (strchr("iws", word[1]) && !slash)
        dtype = BELL_INT64;
    if (word[1] == 'b' && !slash)
        dtype = BELL_BOOL;
    while (colon && colon[1] >= '0' && rank < BELL_MAX_RANK) {
        d[rank++] = strtoll(colon + 1, &end, 10);
        colon = *end == ',' ? end : NULL;
    }
    t = oracle_new(&job->o, dtype, d, rank);
    arg->kind = BELL_VALUE_TENSOR;
    arg->t = t;
    if (!t || job->n_leaves == MAX_LEAVES) {
        job->failed = true;
        return;
    }
    if (strchr("xXYUVW", word[1]))
        fill_special(job, t, word[1]);
    else if (strchr("my", word[1]))
        fill_matrices(job, t, word[1] == 'y', 77 + hash_mix(t->n));
    else
        fill_oracle_random(job, t, word[1], bound);
    job->leaves[job->n_leaves++] = t;
}

/* ---- arguments -------------------------------------------------------- */

static void
parse_oracle_number(const char *word, struct oracle_arg *arg)
{
    arg->kind = word[0] == 'i'   ? BELL_VALUE_INT
                : word[0] == 'b' ? BELL_VALUE_BOOL
                                 : BELL_VALUE_FLOAT;
    arg->f = word[0] == 'f' ? strtold(word + 1, NULL)
                            : (long double)strtoll(word + 1, NULL, 10);
    arg->i = word[0] == 'f' ? 0 : strtoll(word + 1, NULL, 10);
}

static void
parse_ints(struct oracle_job *job, const char *word, struct oracle_arg *arg)
{
    char *end = NULL;

    arg->kind = BELL_VALUE_LIST;
    arg->items = arena_calloc(job->o.arena, 16, sizeof(*arg->items));
    for (word++; *word && arg->items && arg->n < 16;
         word = *end ? end + 1 : end) {
        struct oracle_arg *item = &arg->items[arg->n++];
        item->given = true;
        item->kind = BELL_VALUE_INT;
        item->i = strtoll(word, &end, 10);
        item->f = (long double)item->i;
    }
}

/* The next word; false at the end of the case. */
static bool
next_word(const char **text, const char *end, char *word, size_t size)
{
    size_t n = 0;

    while (*text < end && **text == ' ')
        (*text)++;
    while (*text < end && **text != ' ' && n + 1 < size)
        word[n++] = *(*text)++;
    word[n] = 0;
    return n > 0;
}

/* Without the quote behind it; '~' stands for a blank. */
static const char *
copy_string(struct oracle_job *job, const char *word)
{
    size_t n = strlen(word), i;
    char *str = arena_copy(job->o.arena, word, n + 1);

    for (i = 0; str && i < n; i++)
        str[i] = word[i] == '~' ? ' ' : word[i];
    if (str && n)
        str[n - 1] = 0;
    return str;
}

static void
parse_arg(struct oracle_job *job, const char *word, struct oracle_arg *arg)
{
    arg->given = word[0] != '-';
    switch (word[0]) {
    case '-':
        arg->kind = BELL_VALUE_NONE;
        break;
    case '@':
        parse_leaf(job, word, arg);
        break;
    case 'i':
    case 'f':
    case 'b':
        parse_oracle_number(word, arg);
        break;
    case 'l':
        parse_ints(job, word, arg);
        break;
    case 's':
        arg->kind = BELL_VALUE_STR;
        arg->str = copy_string(job, word + 2);
        break;
    case 'y':
        arg->kind = BELL_VALUE_DTYPE;
        arg->dtype = bell_dtype_find(word + 1);
        break;
    default:
        job->failed = true;
    }
}

/* A list that begins with "(". */
static void
parse_list(struct oracle_job *job, const char **text, const char *end,
           struct oracle_arg *arg)
{
    struct oracle_arg *open[8] = {arg};
    uint32_t depth = 1;
    char word[64];

    arg->given = true;
    arg->kind = BELL_VALUE_LIST;
    arg->items = arena_calloc(job->o.arena, 16, sizeof(*arg->items));
    while (depth && arg->items && next_word(text, end, word, sizeof(word))) {
        struct oracle_arg *list = open[depth - 1], *item;
        if (word[0] == ')') {
            depth--;
            continue;
        }
        if (list->n == 16 || depth == ARRAY_LEN(open))
            break;
        item = &list->items[list->n++];
        if (word[0] == '(') {
            item->given = true;
            item->kind = BELL_VALUE_LIST;
            item->items = arena_calloc(job->o.arena, 16, sizeof(*item->items));
            open[depth++] = item;
        } else {
            parse_arg(job, word, item);
        }
    }
    job->failed |= depth > 0;
}

/* The parameter that a word is for: the next one, or what it names. */
static uint32_t
find_param(const struct bell_param *params, uint32_t n, char *word,
           uint32_t next)
{
    char *equals = strchr(word, '=');
    uint32_t k;

    if (!equals || word[0] == '@' || (word[0] == 's' && word[1] == '\''))
        return next;
    *equals = 0;
    for (k = 0; k < n && strcmp(params[k].name, word) != 0; k++)
        ;
    memmove(word, equals + 1, strlen(equals + 1) + 1);
    return k;
}

static void
take_default(struct oracle_job *job, const struct bell_param *param,
             struct oracle_arg *arg)
{
    const struct bell_value *v = &param->fallback;

    arg->given = v->kind != BELL_VALUE_NONE;
    arg->kind = v->kind;
    arg->i = v->kind == BELL_VALUE_BOOL  ? v->b
             : v->kind == BELL_VALUE_INT ? v->i
                                         : 0;
    arg->f =
        v->kind == BELL_VALUE_FLOAT ? (long double)v->f : (long double)arg->i;
    if (v->kind == BELL_VALUE_STR)
        arg->str = arena_copy(job->o.arena, param->fallback_str,
                              sizeof(param->fallback_str));
}

/* "NAME=iN" of no parameter. */
static bool
take_extra(struct oracle_job *job, const char *name, size_t len,
           const char *value)
{
    struct oracle_extra *extra = &job->o.extra[job->o.n_extra];

    if (job->o.n_extra == ORACLE_MAX_EXTRA || len >= sizeof(extra->name))
        return false;
    memcpy(extra->name, name, len);
    extra->value = strtoll(value + 1, NULL, 10);
    job->o.n_extra++;
    return true;
}

/* Reads the case into o.a, and says which parameters were given. */
static void
parse_case(struct oracle_job *job, bool *given)
{
    struct bell_param params[BELL_MAX_PARAMS];
    uint32_t n = bell_function_params(job->call.function, params), k, next = 0;
    const char *text = job->text, *end = text + job->text_len;
    char word[96], name[96];

    while (next_word(&text, end, word, sizeof(word))) {
        memcpy(name, word, sizeof(name));
        k = find_param(params, n, word, next);
        if (k == n && strchr(name, '=') &&
            take_extra(job, name, strcspn(name, "="), word))
            continue;
        if (k >= n) {
            job->failed = true;
            return;
        }
        next = k + 1;
        given[k] = true;
        if (word[0] == '(')
            parse_list(job, &text, end, &job->o.a[k]);
        else
            parse_arg(job, word, &job->o.a[k]);
    }
    for (k = 0; k < n; k++) {
        if (!given[k])
            take_default(job, &params[k], &job->o.a[k]);
    }
}

/* ---- the device's side ------------------------------------------------ */

void
oracle_encode(const struct oracle_array *t, uint8_t *bytes)
{
    const struct oracle_dtype *type = oracle_dtype(t->dtype);
    size_t i, size = type->size_bytes;

    for (i = 0; i < t->n; i++) {
        long double v = t->v[i], a = fabsl(v);
        uint64_t bits, high = 1ull << (8 * size - 1);
        int e;
        if (!type->is_float) {
            bits = oracle_bits(v);
        } else if (isnan(v)) {
            bits = type->letter >= '2' && type->letter <= '3' ? high
                   : type->has_inf ? high - (1ull << (type->digits - 2))
                                   : high - 1;
        } else if (isinf(v)) {
            bits = high - (1ull << (type->digits - 1));
        } else {
            frexpl(a, &e);
            e = a == 0 || e - 1 < type->min_exp ? type->min_exp : e - 1;
            bits = (uint64_t)ldexpl(a, type->digits - 1 - e);
            bits += (uint64_t)(e + type->bias - 1) << (type->digits - 1);
            if (a == 0)
                bits = 0;
        }
        if (type->is_float && signbit(v) && !isnan(v) &&
            !(a == 0 && type->letter >= '2' && type->letter <= '3'))
            bits |= high;
        memcpy(bytes + i * size, &bits, size);
    }
}

static void
decode_oracle(struct oracle_array *t, const uint8_t *bytes)
{
    const struct oracle_dtype *type = oracle_dtype(t->dtype);
    size_t i, size = type->size_bytes;

    for (i = 0; i < t->n; i++) {
        uint64_t bits = 0, high = 1ull << (8 * size - 1), rest;
        long double v;
        memcpy(&bits, bytes + i * size, size);
        if (!type->is_float) {
            t->v[i] = type->is_signed && (bits & high)
                          ? (long double)bits - 2 * (long double)high
                          : (long double)bits;
            continue;
        }
        rest = bits & (high - 1);
        if (rest >> (type->digits - 1) == 0)
            v = ldexpl((long double)rest, type->min_exp - type->digits + 1);
        else
            v = ldexpl(
                (long double)((rest & ((1ull << (type->digits - 1)) - 1)) |
                              1ull << (type->digits - 1)),
                (int)(rest >> (type->digits - 1)) - type->bias - type->digits +
                    1);
        if (type->has_inf && rest >= high - (1ull << (type->digits - 1)))
            v = rest == high - (1ull << (type->digits - 1))
                    ? (long double)INFINITY
                    : (long double)NAN;
        if (!type->has_inf &&
            (type->letter >= '2' ? bits == high : rest == high - 1))
            v = (long double)NAN;
        t->v[i] = bits & high ? -v : v;
    }
}

static BELL_MUST_CHECK bell_status
make_oracle_leaf(struct oracle_job *job, uint32_t i)
{
    const struct oracle_array *t = job->leaves[i];
    uint8_t *bytes = arena_calloc(job->o.arena, t->n + 1, 8);

    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu numbers",
                         t->n);
    oracle_encode(t, bytes);
    job->tensors[i] =
        bell_from_data(job->run->ctx, t->d, t->rank, t->dtype, bytes);
    return BELL_OK;
}

static struct bell_value
to_value(struct oracle_job *job, const struct oracle_arg *arg)
{
    struct bell_value *items, v = bell_of_none();
    uint32_t i;

    switch (arg->kind) {
    case BELL_VALUE_TENSOR:
        for (i = 0; job->leaves[i] != arg->t; i++)
            ;
        return bell_of_tensor(job->tensors[i]);
    case BELL_VALUE_INT:
        return bell_of_int(arg->i);
    case BELL_VALUE_BOOL:
        return bell_of_bool(arg->i != 0);
    case BELL_VALUE_FLOAT:
        return bell_of_float((double)arg->f);
    case BELL_VALUE_STR:
        return bell_of_str(arg->str);
    case BELL_VALUE_DTYPE:
        return bell_of_dtype(arg->dtype);
    case BELL_VALUE_NONE:
        return v;
    case BELL_VALUE_LIST:
        break;
    }
    items = arena_calloc(job->o.arena, arg->n + 1u, sizeof(*items));
    for (i = 0; items && i < arg->n; i++) /* nested as deep as a case is */
        items[i] = to_value(job, &arg->items[i]);
    return bell_of_list(items, arg->n);
}

static BELL_MUST_CHECK bell_status
make_call(struct oracle_job *job, const bool *given)
{
    struct bell_param *params =
        arena_calloc(job->o.arena, BELL_MAX_PARAMS, sizeof(*params));
    uint32_t n, k;

    if (!params)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a call");
    n = bell_function_params(job->call.function, params);
    for (k = 0; k < job->n_leaves; k++)
        BELL_TRY(make_oracle_leaf(job, k));
    job->call.args = job->args;
    for (k = 0; k < n; k++) {
        struct bell_arg *arg = &job->args[job->call.n_args];
        if (!given[k])
            continue;
        arg->name = params[k].name;
        arg->value = to_value(job, &job->o.a[k]);
        job->call.n_args++;
    }
    for (k = 0; k < job->o.n_extra; k++) {
        struct bell_arg *arg = &job->args[job->call.n_args++];
        arg->name = job->o.extra[k].name;
        arg->value = bell_of_int(job->o.extra[k].value);
    }
    return bell_function_call(job->run->ctx, &job->call);
}

static BELL_MUST_CHECK bell_status
read_oracle_array(struct oracle_job *job, struct bell_tensor *t,
                  struct oracle_array **out)
{
    size_t size = bell_nbytes(t);
    uint8_t *bytes = arena_calloc(job->o.arena, size + 1, 1);

    *out = oracle_new(&job->o, bell_dtype_of(t), bell_shape(t), bell_ndim(t));
    if (!bytes || !*out)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu bytes", size);
    BELL_TRY(bell_read(t, bytes, size));
    decode_oracle(*out, bytes);
    return BELL_OK;
}

/* ---- comparing -------------------------------------------------------- */

struct bound {
    double ulps, half;
    long double scale; /* at least */
    bool any_zero;
};

/* Whether a float is as near as it must be. */
static bool
is_near(enum bell_dtype dtype, long double want, long double got,
        const struct bound *bound, long double scale)
{
    enum bell_dtype wide = dtype == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32;
    const struct oracle_dtype *t = oracle_dtype(dtype);
    long double right = oracle_round(dtype, want), allowed;

    if (want == ORACLE_ANY)
        return true;
    if (isnan(right) || isnan(got))
        return isnan(right) && isnan(got);
    if (got == right &&
        (got != 0 || bound->any_zero || !signbit(got) == !signbit(right)))
        return true;
    /* long double has too few digits to round float64 exactly */
    if (dtype == BELL_FLOAT64 && isfinite(got) && isfinite(want) && got != 0 &&
        fabsl(got - want) <= 0.501L * oracle_ulp(dtype, want))
        return true;
    if (isinf(want) || bound->ulps == 0)
        return false;
    if (scale < fabsl(want))
        scale = fabsl(want);
    allowed =
        bound->ulps * (dtype == BELL_FLOAT64 ? 2 : 1) * oracle_ulp(wide, scale);
    if (dtype != wide) {
        long double rough = bound->half * scale;
        allowed =
            (rough > allowed ? rough : allowed) + oracle_ulp(dtype, want) / 2;
    }
    if (isinf(got) || fabsl(got) == t->max)
        return !signbit(got) == !signbit(want) &&
               fabsl(want) + allowed >= t->max;
    if (got == 0 && right == 0)
        return scale > fabsl(want); /* a zero of the other sign */
    return fabsl(got - want) <= allowed;
}

static void
show_number(char *text, size_t size, enum bell_dtype dtype, long double v)
{
    if (oracle_is_float(dtype))
        snprintf(text, size, "%.9Lg", v);
    else
        snprintf(text, size, "%.0Lf", v);
}

/* The numbers at a place of leaves that have as many. */
static void
show_inputs(const struct oracle_job *job, size_t k, size_t n, char *text,
            size_t size)
{
    size_t used = 0;
    uint32_t i;

    text[0] = 0;
    for (i = 0; i < job->n_leaves && used + 40 < size; i++) {
        const struct oracle_array *t = job->leaves[i];
        if (t->n != n)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s", i ? ", " : "");
        show_number(text + used, size - used, t->dtype, t->v[k]);
        used += strlen(text + used);
    }
}

static void
tell_oracle(struct oracle_job *job, const char *what, const char *detail)
{
    struct oracle_report *report = &job->run->report;
    char text[400], times[24] = "";

    if (job->n_shown++ >= MAX_SHOWN)
        return;
    if (job->scale != 1)
        snprintf(times, sizeof(times), " x %Lg", job->scale);
    snprintf(text, sizeof(text), "%s(%.*s) of %s%s: %s%s", job->row->name,
             (int)job->text_len, job->text, bell_dtype_name(job->o.dtype),
             times, what, detail);
    tool_progress(NULL);
    fprintf(job->run->quiet ? stderr : stdout, "%s\n", text);
    if (!report->first[0])
        memcpy(report->first, text, sizeof(text));
}

static bool
is_subnormal(long double v)
{
    return v != 0 && fabsl(v) < 0x1p-124L; /* or nearly so */
}

/* Whether element k is or is of a subnormal, which the device takes for 0. */
static bool
is_flushed(const struct oracle_job *job, const struct oracle_array *want,
           size_t k)
{
    uint32_t i;

    if (!job->run->flushes)
        return false;
    for (i = 0; i < job->n_leaves; i++) {
        const struct oracle_array *t = job->leaves[i];
        if (t->n == want->n && is_subnormal(t->v[k]))
            return true;
    }
    return is_subnormal(want->v[k]);
}

static void
compare_oracle_values(struct oracle_job *job, const char *what,
                      const struct oracle_array *want,
                      const struct oracle_array *got, const struct bound *bound)
{
    char inputs[120], have[40], right[40], text[300];
    bool same = want->dtype == got->dtype && want->rank == got->rank;
    uint32_t i;
    size_t k;

    for (i = 0; same && i < want->rank; i++)
        same = want->d[i] == got->d[i];
    if (!same) {
        snprintf(text, sizeof(text),
                 " is %s of %u axes, %zu elements, not "
                 "%s of %u, %zu",
                 bell_dtype_name(got->dtype), got->rank, got->n,
                 bell_dtype_name(want->dtype), want->rank, want->n);
        tell_oracle(job, what, text);
        return;
    }
    for (k = 0; k < want->n; k++) {
        long double scale = bound->scale, v = want->v[k];
        if (want->scale && want->scale[k] > scale)
            scale = want->scale[k];
        if (v == ORACLE_ANY || oracle_is_float(want->dtype)
                ? is_near(want->dtype, v, got->v[k], bound, scale)
                : v == got->v[k])
            continue;
        if (is_flushed(job, want, k))
            continue;
        show_inputs(job, k, want->n, inputs, sizeof(inputs));
        show_number(have, sizeof(have), want->dtype, got->v[k]);
        show_number(right, sizeof(right), want->dtype,
                    oracle_round(want->dtype, v));
        snprintf(text, sizeof(text), "[%zu]%s%s%s: %s, not %s", k,
                 inputs[0] ? " (" : "", inputs, inputs[0] ? ")" : "", have,
                 right);
        tell_oracle(job, what, text);
    }
    job->run->report.n_points += want->n;
}

/* ---- elementwise rows ------------------------------------------------- */

/* One value of an elementwise row at numbers of `dtype`. */
static long double
apply_row(const struct oracle_row *row, enum bell_dtype dtype, long double x,
          long double y)
{
    const struct oracle_dtype *t = oracle_dtype(dtype);

    if (row->i2 && !t->is_float) {
        uint64_t r = row->i2(oracle_bits(x), oracle_bits(y), t);
        return row->flags & ORACLE_BOOL ? (long double)r
                                        : oracle_of_bits(dtype, r);
    }
    return row->f1 ? row->f1(x) : row->f2(x, y);
}

static void
define_elementwise(struct oracle *o)
{
    const struct oracle_row *row = o->row;
    struct oracle_array *in[2] = {oracle_t(o, 0),
                                  row->f1 ? NULL : oracle_t(o, 1)};
    int64_t d[BELL_MAX_RANK], at[BELL_MAX_RANK] = {0};
    uint32_t rank = oracle_broadcast(in, 2, d);
    enum bell_dtype dtype = in[0]->dtype, type;
    struct oracle_array *out;
    size_t k = 0;

    if (in[1])
        dtype = oracle_promote(dtype, in[1]->dtype);
    if (!(row->flags & (ORACLE_SAME | ORACLE_BOOL)))
        dtype = oracle_float(dtype);
    type = row->flags & ORACLE_BOOL ? BELL_BOOL : dtype;
    out = oracle_out(o, type, d, rank);
    if (!out || out->n == 0)
        return;
    do {
        long double x = in[0]->v[oracle_spread(in[0], at, rank)], y = 0;
        if (in[1])
            y = in[1]->v[oracle_spread(in[1], at, rank)];
        else if (row->f2)
            y = oracle_num(o, 1);
        if (oracle_is_float(dtype)) {
            x = oracle_round(dtype, x);
            y = in[1] ? oracle_round(dtype, y) : y;
        }
        out->v[k++] = apply_row(row, dtype, x, y);
    } while (oracle_next(at, d, rank));
}

/* ---- gradients -------------------------------------------------------- */

static void
define(struct oracle_job *job, struct oracle *o)
{
    o->n_out = 0;
    if (job->row->define)
        job->row->define(o);
    else
        define_elementwise(o);
}

static long double
weight_of(const struct oracle_row *row, size_t i)
{
    static const double list[] = {1, -0.5, 2, 0.25, -1};

    return row->slope || row->slope_x ? 1 : list[i % ARRAY_LEN(list)];
}

/* Sum of result r by its weights. */
static long double
weighted(struct oracle_job *job, struct oracle *o, uint32_t r)
{
    struct oracle scratch = *o;
    struct arena arena;
    long double sum = 0;
    size_t i;

    arena_init(&arena);
    scratch.arena = &arena;
    define(job, &scratch);
    for (i = 0; scratch.out[r] && i < scratch.out[r]->n; i++)
        sum += weight_of(job->row, i) * scratch.out[r]->v[i];
    arena_fini(&arena);
    return sum;
}

/* By the five-point rule on the definition. */
static void
differentiate_oracle(struct oracle_job *job, uint32_t r,
                     struct oracle_array *leaf, struct oracle_array *out)
{
    long double size = 0, h, at, f[4], most = 0;
    size_t i;

    for (i = 0; i < leaf->n; i++)
        size = fmaxl(size, fabsl(leaf->v[i]));
    h = ldexpl(fmaxl(size, job->scale / 8), -15);
    for (i = 0; i < leaf->n; i++) {
        at = leaf->v[i];
        leaf->v[i] = at + h;
        f[0] = weighted(job, &job->o, r);
        leaf->v[i] = at - h;
        f[1] = weighted(job, &job->o, r);
        leaf->v[i] = at + 2 * h;
        f[2] = weighted(job, &job->o, r);
        leaf->v[i] = at - 2 * h;
        f[3] = weighted(job, &job->o, r);
        leaf->v[i] = at;
        out->v[i] = (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * h);
        most = fmaxl(most, fabsl(out->v[i]));
    }
    oracle_scales(&job->o, out);
    for (i = 0; out->scale && i < out->n; i++)
        out->scale[i] = most;
}

/* The gradient of leaf i by result r; NULL: there is none to compare. */
static struct oracle_array *
right_gradient(struct oracle_job *job, uint32_t r, uint32_t i)
{
    const struct oracle_row *row = job->row;
    struct oracle_array *leaf = job->leaves[i], *out;
    oracle_f2 *of_two = leaf == job->o.a[0].t ? row->slope_x : row->slope_y;
    const struct oracle_array *x = job->o.a[0].t, *y = job->o.a[1].t;
    uint32_t k;
    size_t n;

    if (leaf->gradient)
        return leaf->gradient;
    if (row->back) {
        for (k = 0; k < BELL_MAX_PARAMS; k++) {
            if (job->o.a[k].t == leaf)
                return job->o.gradient[k];
        }
        return NULL;
    }
    if (!row->slope && !of_two && !(row->flags & ORACLE_GRAD))
        return NULL;
    if (job->o.out[r]->n && job->o.out[r]->v[0] == ORACLE_ANY)
        return NULL;
    for (k = 0; row->flags & ORACLE_GRAD && k < job->n_leaves; k++) {
        for (n = 0; n < job->leaves[k]->n; n++) {
            if (!isfinite(job->leaves[k]->v[n])) /* no differences there */
                return NULL;
        }
    }
    out = oracle_like(&job->o, leaf->dtype, leaf);
    if (row->flags & ORACLE_GRAD) {
        differentiate_oracle(job, r, leaf, out);
        return out;
    }
    if (row->f2 && y && x->n != y->n)
        return NULL;
    for (n = 0; n < out->n; n++)
        out->v[n] = row->slope
                        ? row->slope(leaf->v[n])
                        : of_two(x->v[n], y ? y->v[n] : oracle_num(&job->o, 1));
    return out;
}

static bool
has_gradient(const struct oracle_row *row)
{
    return row->slope || row->slope_x || row->slope_y || row->back ||
           row->flags & ORACLE_GRAD;
}

/* All gradients of result r. */
static BELL_MUST_CHECK bell_status
check_gradient(struct oracle_job *job, uint32_t r)
{
    struct oracle_array *w, *want[MAX_LEAVES], *got;
    struct bell_tensor *targets[MAX_LEAVES], *grads[MAX_LEAVES], *seed;
    struct bound bound = {job->row->grad_ulps, job->row->half,
                          job->row->slope_scale, true};
    uint32_t n = 0, i;
    uint8_t *bytes;
    char what[40];

    w = oracle_like(&job->o, job->o.out[r]->dtype, job->o.out[r]);
    bytes = arena_calloc(job->o.arena, w ? w->n + 1 : 1, 8);
    if (!w || !bytes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a gradient");
    for (i = 0; i < w->n; i++)
        w->v[i] = weight_of(job->row, i);
    oracle_encode(w, bytes);
    if (job->row->back) {
        for (i = 0; i < ORACLE_MAX_OUT; i++)
            job->o.adjoint[i] = i == r ? w : NULL;
        memset(job->o.gradient, 0, sizeof(job->o.gradient));
        job->row->back(&job->o);
    }
    for (i = 0; i < job->n_leaves; i++) {
        if (!oracle_is_float(job->leaves[i]->dtype))
            continue;
        want[n] = right_gradient(job, r, i);
        if (job->gradients)
            job->gradients[job->n_gradients].of[n] = i;
        if (want[n])
            targets[n++] = job->tensors[i];
    }
    if (n == 0)
        return BELL_OK;
    seed = bell_from_data(job->run->ctx, w->d, w->rank, w->dtype, bytes);
    BELL_TRY(bell_vjp(job->call.results[r], seed, targets, n, grads));
    for (i = 0; i < n; i++) {
        const struct oracle_dtype *t = oracle_dtype(
            want[i]->dtype == BELL_FLOAT64 ? BELL_FLOAT64 : BELL_FLOAT32);
        /* products and quotients on the way may be subnormal */
        bound.scale =
            fmaxl(job->row->slope_scale, ldexpl(1, t->min_exp + t->digits + 1));
        /* differences of long double are good to about 1e-12 */
        if (job->row->flags & ORACLE_GRAD && t->digits == 53)
            bound.ulps = fmax(job->row->grad_ulps, 0x1p14);
        BELL_TRY(read_oracle_array(job, grads[i], &got));
        snprintf(what, sizeof(what), "gradient %u", i);
        compare_oracle_values(job, what, want[i], got, &bound);
        if (job->gradients)
            job->gradients[job->n_gradients].values[i] = got;
    }
    if (job->gradients) {
        job->gradients[job->n_gradients].result = r;
        job->gradients[job->n_gradients].n = n;
        job->gradients[job->n_gradients++].adjoint = w;
    }
    return BELL_OK;
}

/* ---- a call ----------------------------------------------------------- */

static bool
is_same(const struct oracle_array *a, const struct oracle_array *b)
{
    size_t k;

    for (k = 0; k < a->n && k < b->n; k++) {
        if (a->v[k] != b->v[k] && !(isnan(a->v[k]) && isnan(b->v[k])))
            return false;
    }
    return a->n == b->n;
}

/* The judge's word on what the first seed gave; then the call with that seed
 * again, and with another. */
static BELL_MUST_CHECK bell_status
check_random(struct oracle_job *job)
{
    const struct oracle_array *first = job->o.got[0];
    const char *fault = job->row->judge(&job->o);
    struct oracle_array *again;
    uint64_t seed;
    size_t k = 0;

    if (fault)
        tell_oracle(job, fault, "");
    for (seed = RANDOM_SEED; seed < RANDOM_SEED + 2; seed++) {
        bell_manual_seed(job->run->ctx, seed);
        BELL_TRY(bell_function_call(job->run->ctx, &job->call));
        BELL_TRY(read_oracle_array(job, job->call.results[0], &again));
        if (seed == RANDOM_SEED && !is_same(first, again))
            tell_oracle(job, "a seed gives other numbers the second time", "");
    }
    while (k < first->n && job->o.out[0]->v[k] == ORACLE_ANY)
        k++;
    if (k == first->n && k > 500 && is_same(first, again))
        tell_oracle(job, "another seed gives the same numbers", "");
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_results(struct oracle_job *job)
{
    struct bound bound = {job->row->ulps, job->row->half, job->row->scale,
                          job->row->flags & ORACLE_ZERO};
    struct oracle_array *got[ORACLE_MAX_OUT];
    char what[24], text[80];
    uint32_t r, n = job->call.n_results;

    if (n > ORACLE_MAX_OUT)
        n = ORACLE_MAX_OUT;
    if (n)
        BELL_TRY(bell_realize(job->call.results, n));
    for (r = 0; r < n; r++)
        BELL_TRY(read_oracle_array(job, job->call.results[r], &got[r]));
    define(job, &job->o);
    if (n != job->o.n_out) {
        snprintf(text, sizeof(text), "%u results, not %u", n, job->o.n_out);
        tell_oracle(job, text, "");
        return BELL_OK;
    }
    for (r = 0; r < n; r++) {
        snprintf(what, sizeof(what), n > 1 ? "result %u" : "", r);
        compare_oracle_values(job, what, job->o.out[r], got[r], &bound);
        job->o.got[r] = got[r];
    }
    return job->row->judge && job->n_shown == 0 ? check_random(job) : BELL_OK;
}

/* The call as it came out, for other judges. */
static BELL_MUST_CHECK bell_status
dump_job(struct oracle_job *job, const bool *given)
{
    struct bell_param params[BELL_MAX_PARAMS];
    struct oracle_call *call = arena_calloc(job->o.arena, 1, sizeof(*call));

    if (!call)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a call");
    call->o = &job->o;
    call->text = job->text;
    call->text_len = job->text_len;
    call->n_params = bell_function_params(job->call.function, params);
    call->params = params;
    call->given = given;
    call->n_leaves = job->n_leaves;
    call->n_gradients = job->n_gradients;
    memcpy(call->leaves, job->leaves, sizeof(call->leaves));
    memcpy(call->gradients, job->gradients, sizeof(call->gradients));
    oracle_dump(job->run->dump, call);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
run_oracle_job(struct oracle_job *job)
{
    bool given[BELL_MAX_PARAMS] = {false};
    uint32_t r;

    if (job->run->dump) {
        job->gradients =
            arena_calloc(job->o.arena, ORACLE_MAX_OUT, sizeof(*job->gradients));
        if (!job->gradients)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for gradients");
    }

    parse_case(job, given);
    if (job->failed)
        return bell_fail(BELL_E_INTERNAL, "oracle: %s: cannot read '%.*s'",
                         job->row->name, (int)job->text_len, job->text);
    bell_manual_seed(job->run->ctx, RANDOM_SEED);
    BELL_TRY(make_call(job, given));
    if (has_gradient(job->row) && oracle_is_float(job->o.dtype)) {
        define(job, &job->o);
        for (r = 0; r < job->call.n_results && r < job->o.n_out; r++) {
            if (oracle_is_float(job->o.out[r]->dtype) &&
                bell_ndim(job->call.results[r]) == job->o.out[r]->rank &&
                (size_t)bell_numel(job->call.results[r]) == job->o.out[r]->n)
                BELL_TRY(check_gradient(job, r));
        }
    }
    BELL_TRY(check_results(job));
    return job->run->dump && job->call.n_results == job->o.n_out
               ? dump_job(job, given)
               : BELL_OK;
}

/* NULL: out of memory. */
static struct oracle_job *
make_job(struct oracle_run *run, const struct oracle_row *row, const char *text,
         size_t len, enum bell_dtype dtype, struct arena *arena)
{
    struct oracle_job *job = arena_calloc(arena, 1, sizeof(*job));

    if (!job)
        return NULL;
    job->run = run;
    job->row = row;
    job->text = text;
    job->text_len = len;
    job->scale = 1;
    job->o.row = row;
    job->o.arena = arena;
    job->o.dtype = dtype;
    job->call.function = bell_function_find(row->name);
    return job;
}

/* A failure of a call is a difference; of the device, the end. */
static BELL_MUST_CHECK bell_status
check_call(struct oracle_run *run, const struct oracle_row *row,
           const char *text, size_t len, enum bell_dtype dtype,
           long double scale)
{
    struct arena arena;
    struct oracle_job *job;
    bell_status status;

    arena_init(&arena);
    job = make_job(run, row, text, len, dtype, &arena);
    if (!job) {
        arena_fini(&arena);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a call");
    }
    job->scale = scale;
    status = bell_scope_begin(run->ctx);
    if (status == BELL_OK)
        status = run_oracle_job(job);
    if (bell_scope_end(run->ctx) != BELL_OK && status == BELL_OK)
        status = bell_error_last()->status;
    run->report.n_calls++;
    if (status == BELL_E_UNSUPPORTED && run->lacks_f64) {
        run->report.n_refused++;
        status = BELL_OK;
    } else if (status != BELL_OK && status != BELL_E_INTERNAL &&
               status != BELL_E_DEVICE_LOST && status != BELL_E_NO_MEMORY) {
        tell_oracle(job, "fails: ", bell_error_last()->message);
        status = BELL_OK;
    }
    run->report.n_differ += job->n_shown > 0;
    if (job->n_shown > MAX_SHOWN)
        fprintf(run->quiet ? stderr : stdout, "  and %u more\n",
                job->n_shown - MAX_SHOWN);
    arena_fini(&arena);
    return status;
}

bell_status
oracle_ask_flushes(struct oracle_run *run)
{
    float number = 0x1p-130f, sum = 0;
    struct bell_tensor *x =
        bell_from_data(run->ctx, BELL_DIMS(1), BELL_FLOAT32, &number);

    BELL_TRY(bell_read(bell_add(x, x), &sum, sizeof(sum)));
    run->flushes = sum == 0;
    return BELL_OK;
}

bell_status
oracle_check(struct oracle_run *run, const struct oracle_row *row)
{
    static const long double scales[] = {1, 1e-4L, 300, 3000, 1e20L, 1e-25L};
    const char *letter, *text;

    run->report.n_rows++;
    for (letter = row->dtypes; *letter; letter++) {
        enum bell_dtype dtype = oracle_letter(*letter);
        bool scaled = row->flags & ORACLE_SCALED && oracle_is_float(dtype) &&
                      *letter != 'd';
        bool wide = row->flags & ORACLE_WIDE && scaled && *letter != 'h' &&
                    !run->lacks_f64;
        if (dtype == BELL_FLOAT64 && run->lacks_f64)
            continue;
        for (text = row->cases; *text; text += *text == ';') {
            size_t len, i;
            text += strspn(text, " ");
            len = strcspn(text, ";");
            for (i = 0; i < (wide ? 6u : scaled ? 4u : 1u); i++)
                BELL_TRY(check_call(run, row, text, len, dtype, scales[i]));
            text += len;
        }
    }
    return BELL_OK;
}

/* ---- without memory --------------------------------------------------- */

/* After so many calls in a row that were right, no allocation is left to
 * fail. */
#define GOOD_ENOUGH 4

/* The call and the gradients of its results, as far as there are such. */
static BELL_MUST_CHECK bell_status
make_graph(struct oracle_job *job, const bool *given)
{
    struct bell_tensor *grads[MAX_LEAVES], *targets[MAX_LEAVES];
    uint32_t r, i, n = 0;

    BELL_TRY(make_call(job, given));
    if (!has_gradient(job->row))
        return bell_context_status(job->run->ctx);
    for (i = 0; i < job->n_leaves; i++) {
        if (oracle_is_float(job->leaves[i]->dtype))
            targets[n++] = job->tensors[i];
    }
    for (r = 0; n && r < job->call.n_results; r++) {
        if (oracle_is_float(bell_dtype_of(job->call.results[r])))
            BELL_TRY(
                bell_vjp(job->call.results[r],
                         bell_ones_like(job->call.results[r], BELL_DEFAULT),
                         targets, n, grads));
    }
    return bell_context_status(job->run->ctx);
}

/* The case in a context of its own where allocation `nth` of the call fails,
 * and with `once` that one alone; *out_failed says whether the call did. */
static BELL_MUST_CHECK bell_status
call_without_memory(struct oracle_run *run, const struct oracle_row *row,
                    size_t len, uint64_t nth, bool once, bool *out_failed)
{
    struct oracle_run own = {.quiet = run->quiet};
    bool given[BELL_MAX_PARAMS] = {false};
    struct arena arena;
    struct oracle_job *job;
    bell_status status;

    BELL_TRY(bell_context_create(bell_context_device(run->ctx), &own.ctx));
    arena_init(&arena);
    job = make_job(&own, row, row->cases, len, oracle_letter(row->dtypes[0]),
                   &arena);
    if (job)
        parse_case(job, given);
    status = job && !job->failed ? BELL_OK : BELL_E_NO_MEMORY;
    if (status == BELL_OK) {
        host_fail_after(nth, once);
        status = make_graph(job, given);
        host_fail_after(0, 0);
        *out_failed = status != BELL_OK;
        if (status != BELL_OK && status != BELL_E_NO_MEMORY)
            tell_oracle(
                job, "without memory it fails: ", bell_error_last()->message);
        run->report.n_calls++;
        run->report.n_differ += job->n_shown > 0;
        status = BELL_OK;
    }
    arena_fini(&arena);
    bell_context_destroy(own.ctx);
    return status;
}

bell_status
oracle_check_memory(struct oracle_run *run, const struct oracle_row *row)
{
    size_t len = strcspn(row->cases, ";");
    uint32_t once, n_good;
    uint64_t nth;

    run->report.n_rows++;
    if (run->lacks_f64 && row->dtypes[0] == 'd')
        return BELL_OK;
    for (once = 0; once < 2; once++) {
        for (nth = 1, n_good = 0; n_good < (once ? GOOD_ENOUGH : 1); nth++) {
            bool failed = false;
            BELL_TRY(
                call_without_memory(run, row, len, nth, once != 0, &failed));
            n_good = failed ? 0 : n_good + 1;
        }
    }
    return BELL_OK;
}
