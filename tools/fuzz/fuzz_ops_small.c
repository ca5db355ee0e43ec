/* The fuzzer's ops: small matrices, Fourier transforms, draws. */
#include "tools/fuzz/fuzz_gen.h"

#include "base/bits.h"
#include "doorbell/fft.h"
#include "doorbell/linalg.h"

/* ---- products and distances ------------------------------------------- */

/* Two small ones. */
static bool
gen_kron(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    uint32_t rank = (uint32_t)between(g, 1, 2), i;
    int64_t shape[2];

    for (i = 0; i < 2; i++) {
        shape[0] = between(g, 1, 5);
        shape[1] = between(g, 1, 5);
        if (!take(n, fuzz_leaf(g, dtype, shape, rank, FUZZ_DATA_NORMAL, 0)))
            return false;
    }
    return true;
}

/* x[i, k], y[j, k], the norm. */
static bool
gen_cdist(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t k = between(g, 1, 6), x[2] = {between(g, 1, 6), k},
            y[2] = {between(g, 1, 6), k};

    n->f[0] = (double)between(g, 1, 3);
    return take(n, fuzz_leaf(g, dtype, x, 2, FUZZ_DATA_NORMAL, 0)) &&
           take(n, fuzz_leaf(g, dtype, y, 2, FUZZ_DATA_NORMAL, 0));
}

/* ---- transforms ------------------------------------------------------- */

/* A length and an axis. */
static bool
gen_rfft(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[0] = between(g, 1, 9);
    n->i[1] = fuzz_random_axis(g, rank_of(g, g->x));
    return true;
}

/* A signal, and what its windows are multiplied by. */
static bool
gen_stft(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 3), 0}, n_fft = between(g, 2, 8);

    shape[1] = n_fft + between(g, 0, 12);
    n->i[0] = n_fft;
    return take(n, fuzz_leaf(g, fuzz_random_float(g), shape, 2,
                             FUZZ_DATA_NORMAL, 0)) &&
           take(n, fuzz_leaf(g, BELL_FLOAT32, &n_fft, 1, FUZZ_DATA_UNIT, 0));
}

/* clang-format off */
HELPER(fuzz_rfft,
static struct bell_tensor *
fuzz_rfft(struct bell_tensor *x, int64_t n, int axis)
{
    return bell_rfft(x, n, axis, NULL);
})

HELPER(fuzz_filter,
static struct bell_tensor *
fuzz_filter(struct bell_tensor *x, int64_t n, int axis)
{
    x = bell_fft(bell_rfft(x, n, axis, "ortho"), n, axis, NULL);
    return bell_irfft(bell_ifft(x, 0, axis, NULL), n, axis, "forward");
})

HELPER(fuzz_stft,
static struct bell_tensor *
fuzz_stft(struct bell_tensor *x, struct bell_tensor *window, int64_t n_fft)
{
    struct bell_stft_options options = {.struct_size = sizeof(options), .hop_length = (n_fft + 2) / 3,
                                        .window = window};

    return bell_stft(x, n_fft, &options);
})
/* clang-format on */

/* ---- factors ---------------------------------------------------------- */

/* A few small square matrices. */
static int
square(struct fuzz_gen *g, enum bell_dtype dtype, int64_t size)
{
    int64_t shape[3] = {between(g, 1, 3), size, size};
    uint32_t batched = fuzz_one_in(&g->rng, 2);

    return fuzz_leaf(g, dtype, shape + !batched, 2 + batched, FUZZ_DATA_NORMAL,
                     0);
}

static bool
gen_square(struct fuzz_gen *g, struct fuzz_node *n)
{
    n->i[0] = between(g, 0, 1);
    return take(n, square(g, fuzz_random_float(g), between(g, 1, 4)));
}

/* A square one, and the right side: vectors or matrices. */
static bool
gen_solve(struct fuzz_gen *g, struct fuzz_node *n)
{
    enum bell_dtype dtype = fuzz_random_float(g);
    int64_t shape[2] = {between(g, 1, 4), between(g, 1, 3)};

    n->i[0] = between(g, 0, 1);
    n->i[1] = between(g, 0, 1);
    return take(n, square(g, dtype, shape[0])) &&
           take(n, fuzz_leaf(g, dtype, shape, 2, FUZZ_DATA_NORMAL, 0));
}

static bool
gen_any_matrix(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 5), between(g, 1, 5)};

    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 2, FUZZ_DATA_NORMAL, 0));
}

/* Diagonals are kept away from 0, where quotients say nothing. */
/* clang-format off */
HELPER(fuzz_cholesky,
static struct bell_tensor *
fuzz_cholesky(struct bell_tensor *x, bool upper)
{
    x = bell_matmul(x, bell_transpose(x, -2, -1));
    return bell_cholesky(bell_add(x, bell_eye(bell_context_of(x),
        bell_size(x, -1), bell_size(x, -1), bell_dtype_of(x))), upper);
})

HELPER(fuzz_triangle,
static struct bell_tensor *
fuzz_triangle(struct bell_tensor *x, struct bell_tensor *b, bool upper,
              bool unit)
{
    x = bell_add(x, bell_mul_scalar(bell_eye(bell_context_of(x),
        bell_size(x, -1), bell_size(x, -1), bell_dtype_of(x)), 8.0));
    return bell_solve_triangular(x, b, upper, unit);
})

HELPER(fuzz_r_of_qr,
static struct bell_tensor *
fuzz_r_of_qr(struct bell_tensor *x)
{
    struct bell_tensor *q, *r;

    bell_qr(x, &q, &r);
    return r;
})

HELPER(fuzz_singular_values,
static struct bell_tensor *
fuzz_singular_values(struct bell_tensor *x)
{
    struct bell_tensor *u, *s, *vh;

    bell_svd(x, &u, &s, &vh);
    return s;
})

HELPER(fuzz_eigenvalues,
static struct bell_tensor *
fuzz_eigenvalues(struct bell_tensor *x, bool upper)
{
    struct bell_tensor *values, *v;

    bell_eigh(x, upper, &values, &v);
    return bell_add(values, bell_eigvalsh(x, !upper));
})

HELPER(fuzz_regular,
static struct bell_tensor *
fuzz_regular(struct bell_tensor *x, bool hermitian)
{
    struct bell_tensor *sign, *size, *rank;

    x = bell_add(x, bell_mul_scalar(bell_eye(bell_context_of(x),
        bell_size(x, -1), bell_size(x, -1), bell_dtype_of(x)), 8.0));
    bell_slogdet(x, &sign, &size);
    rank = bell_matrix_rank(x, -1, hermitian);
    size = bell_add(bell_add(size, sign), rank);
    size = bell_unsqueeze(bell_unsqueeze(size, -1), -1);
    return bell_add(size, bell_pinv(x, -1, hermitian));
})
/* clang-format on */

/* ---- draws ------------------------------------------------------------ */

/* How many, and the seed. */
static bool
gen_multinomial(struct fuzz_gen *g, struct fuzz_node *n)
{
    int64_t shape[2] = {between(g, 1, 3), between(g, 1, 9)};

    n->i[0] = between(g, 0, 1000);
    n->i[1] = between(g, 1, shape[1]);
    n->i[2] = between(g, 0, 1);
    return take(
        n, fuzz_leaf(g, fuzz_random_float(g), shape, 2, FUZZ_DATA_UNIT, 0));
}

#define ROW(code, function, args, gen, weight, diff)                           \
    {                                                                          \
        FN(code, bell_##function), args, gen_##gen, NULL, 0, 0, weight, diff,  \
            FUZZ_DATA_NORMAL                                                   \
    }
#define HELPED(code, function, args, gen, fits, low, high, weight, diff)       \
    {                                                                          \
        FN(code, fuzz_##function), args, gen_##gen, fits, low, high, weight,   \
            diff, FUZZ_DATA_NORMAL, fuzz_##function##_text                     \
    }

/* clang-format off */
static const struct fuzz_op rows[] = {
    ROW(tt, kron, "01", kron, 2, true),
    ROW(ttf, cdist, "01x", cdist, 2, true),
    HELPED(tia, rfft, "0ab", rfft, fuzz_is_float, 1, 4, 3, true),
    HELPED(tia, filter, "0ab", rfft, fuzz_is_float, 1, 3, 2, true),
    HELPED(tti, stft, "01a", stft, NULL, 0, 0, 2, true),
    HELPED(tb, cholesky, "0a", square, NULL, 0, 0, 1, true),
    HELPED(ttbb, triangle, "01ab", solve, NULL, 0, 0, 1, true),
    ROW(tt, solve, "01", solve, 1, false),
    ROW(t, det, "0", square, 1, false),
    HELPED(t, r_of_qr, "0", any_matrix, NULL, 0, 0, 1, false),
    HELPED(t, singular_values, "0", any_matrix, NULL, 0, 0, 1, false),
    ROW(t, svdvals, "0", any_matrix, 1, false),
    HELPED(tb, eigenvalues, "0a", square, NULL, 0, 0, 1, false),
    HELPED(tb, regular, "0a", square, NULL, 0, 0, 1, false),
    {FN(tib, bell_multinomial), "0bc", gen_multinomial, .weight = 1,
     .seeded = true},
};
/* clang-format on */

const struct fuzz_op_table fuzz_ops_small = {rows, ARRAY_LEN(rows)};
