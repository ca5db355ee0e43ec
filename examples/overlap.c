/* Data that does not fit at once goes through the device in pieces: first one
 * step after the other, then with a loader, which makes and copies the next
 * piece while kernels work on this one. */
#include <doorbell/jit.h>
#include <doorbell/loader.h>
#include <doorbell/ops.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROW = 4096,
    N_ROWS = 256, /* of a piece: 4 MiB */
    N_PIECES = 24
};

static double
seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What stands for reading and decoding: -1, 0 or 1, by the row and the
 * place. */
static bell_status
make_row(void *user, int64_t row, void *const *out)
{
    uint32_t x = (uint32_t)row * 2654435761u + 1;
    float *values = out[0];

    (void)user;
    for (int i = 0; i < ROW; i++) {
        x = x * 1664525 + 1013904223;
        values[i] = (float)(x >> 16) / 32768 - 1 > 0 ? 1 : -1;
    }
    values[row % ROW] = 0;
    return BELL_OK;
}

/* How often neighbours are alike, of a piece. */
static bell_status
count(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    struct bell_tensor *left = bell_narrow(in[0], 1, 0, ROW - 1);
    struct bell_tensor *right = bell_narrow(in[0], 1, 1, ROW - 1);

    (void)ctx;
    (void)user;
    out[0] = bell_sum(bell_cast(bell_eq(left, right), BELL_INT64), BELL_NO_DIMS,
                      false);
    return BELL_OK;
}

/* The next piece, without a loader. */
static struct bell_tensor *
make_piece(struct bell_context *ctx, int piece)
{
    static float values[N_ROWS][ROW];

    for (int i = 0; i < N_ROWS; i++) {
        void *row = values[i];

        (void)make_row(NULL, piece * N_ROWS + i, &row);
    }
    return bell_from_data(ctx, BELL_DIMS(N_ROWS, ROW), BELL_FLOAT32, values);
}

/* Sums what the pieces give; `loader` or NULL. */
static bell_status
run(struct bell_context *ctx, struct bell_jit *jit, struct bell_loader *loader,
    const char *what)
{
    struct bell_tensor *piece, *part,
        *sum = bell_zeros(ctx, BELL_NO_DIMS, BELL_INT64);
    double start = seconds();
    bell_status status = BELL_OK;
    int64_t n, total;

    for (int i = 0; i < N_PIECES && status == BELL_OK; i++) {
        bell_scope_begin(ctx);
        if (loader)
            status = bell_loader_next(loader, &piece, &n);
        else
            piece = make_piece(ctx, i);
        if (status == BELL_OK)
            status = bell_jit_call(jit, &piece, &part);
        if (status == BELL_OK)
            bell_assign(sum, bell_add(sum, part));
        if (bell_scope_end(ctx) != BELL_OK)
            status = bell_error_last()->status;
    }
    if (status == BELL_OK)
        status = bell_read(sum, &total, sizeof(total));
    if (status == BELL_OK) {
        printf("%s: %lld\n", what, (long long)total);
        fprintf(stderr, "%s: %.1f ms\n", what, 1e3 * (seconds() - start));
    }
    return status;
}

int
main(void)
{
    static const struct bell_loader_field field = {
        BELL_FLOAT32, 1, {ROW}, NULL};
    const struct bell_loader_desc pieces = {.struct_size = sizeof(pieces),
                                            .n_items = N_PIECES * N_ROWS,
                                            .n_batch = N_ROWS,
                                            .fields = &field,
                                            .n_fields = 1,
                                            .fill = make_row,
                                            .n_threads = 2};
    const struct bell_jit_desc counts = {sizeof(counts), "count", count,
                                         NULL,           1,       1};
    struct bell_context *ctx = NULL;
    struct bell_loader *loader = NULL;
    struct bell_jit *jit = NULL;
    struct bell_tensor *first;
    bell_status status = bell_context_create(NULL, &ctx);

    if (status == BELL_OK)
        status = bell_jit_create(ctx, &counts, &jit);
    if (status == BELL_OK) { /* compiles */
        first = make_piece(ctx, 0);
        status = bell_jit_call(jit, &first, &first);
    }
    if (status == BELL_OK)
        status = run(ctx, jit, NULL, "one after the other");
    if (status == BELL_OK)
        status = bell_loader_create(ctx, &pieces, &loader);
    if (status == BELL_OK)
        status = run(ctx, jit, loader, "with a loader");
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_loader_destroy(loader);
    bell_jit_destroy(jit);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
