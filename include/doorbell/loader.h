/* Batches of a dataset, made and copied to the device ahead of their use.
 *
 *     const struct bell_loader_field fields[] = {
 *         {BELL_UINT8, 2, {28, 28}, images},
 *         {BELL_UINT8, 0, {0}, labels},
 *     };
 *     struct bell_loader_desc desc = {sizeof(desc), .n_items = 60000,
 *         .n_batch = 100, .shuffled = true, .fields = fields, .n_fields = 2};
 *     status = bell_loader_create(ctx, &desc, &loader);
 *     do
 *         status = bell_loader_next(loader, batch, &n);
 *     while (status == BELL_OK && n > 0 && step(batch) == BELL_OK);
 *
 * Threads of the loader fill memory that the device reads; a copy queue brings
 * it over while kernels work on the batch before. Nothing waits for a copy but
 * the kernels that use it.
 *
 * The order of an epoch follows from the seed and its number alone. So does
 * each batch: bell_loader_seek goes to any of them at once, and a training that
 * is resumed sees what it would have seen.
 *
 * Threads: as the context, but for `fill`.
 */
#ifndef BELL_DOORBELL_LOADER_H
#define BELL_DOORBELL_LOADER_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_loader;

#define BELL_LOADER_MAX_FIELDS 16

/* One of the tensors that a batch is of. */
struct bell_loader_field {
    enum bell_dtype dtype;
    uint32_t ndim; /* of one item, less than BELL_MAX_RANK */
    int64_t shape[BELL_MAX_RANK];
    /* The dataset's values, [n_items, shape..] in row-major order, which stay
     * as they are while the loader lives (mapped files: bell_file_data); or
     * NULL: `fill` makes them. */
    const void *data;
};

struct bell_loader_desc {
    uint32_t struct_size; /* sizeof(struct bell_loader_desc) */
    const char *name;     /* for messages; NULL: "loader" */
    int64_t n_items;      /* of the dataset */
    int64_t n_batch;      /* items of a batch */
    bool shuffled;        /* each epoch in an order of its own */
    bool drop_last;       /* the items that make no whole batch are left out;
                           * else an epoch's last batch is smaller */
    uint64_t seed;
    const struct bell_loader_field *fields; /* copied */
    uint32_t n_fields;
    /* Writes an item: out[f] is where the elements of field f go, NULL for a
     * field that has data. Called by the loader's threads, by several at once
     * if n_threads is more than 1, each with another `out`; it calls nothing of
     * the library for this context. What it returns but BELL_OK,
     * bell_loader_next does. NULL: all fields have data. */
    bell_status (*fill)(void *user, int64_t item, void *const *out);
    void *user;
    uint32_t n_threads; /* up to 64; 0: 1 */
    uint32_t n_ahead;   /* batches made ahead, up to 64; 0: 2 */
};

/* A loader of `desc`, which is copied; it begins to fill at once. */
BELL_API BELL_MUST_CHECK bell_status bell_loader_create(
    struct bell_context *ctx, const struct bell_loader_desc *desc,
    struct bell_loader **out_loader);
/* Waits for calls of `fill` and copies that are under way, and for work that
 * was queued before the last batch. Before or after its context; tensors stay.
 * NULL is allowed. */
BELL_API void bell_loader_destroy(struct bell_loader *loader);

/* The next batch: out[f] are new tensors [n, shape..] of the innermost scope,
 * and *out_n is n. At the end of an epoch out[] is NULL and *out_n 0: the next
 * call begins the next one. Waits until the batch is filled. Not inside a
 * captured function: batches are its inputs. After a failure of `fill` every
 * call fails so, until bell_loader_seek. */
BELL_API BELL_MUST_CHECK bell_status bell_loader_next(
    struct bell_loader *loader, struct bell_tensor **out, int64_t *out_n);

/* The next batch is number `batch` of that epoch (both from 0 on). */
BELL_API BELL_MUST_CHECK bell_status
bell_loader_seek(struct bell_loader *loader, int64_t epoch, int64_t batch);

/* Plain data. */
struct bell_loader_info {
    uint32_t struct_size; /* sizeof(struct bell_loader_info) */
    int64_t n_batches;    /* of an epoch */
    int64_t epoch, batch; /* of the next batch */
};
/* Where it is. */
BELL_API void bell_loader_get_info(const struct bell_loader *loader,
                                   struct bell_loader_info *out_info);

#ifdef __cplusplus
}
#endif
#endif
