/* Batches of a dataset, filled by threads and sent ahead.
 *
 * Batches are numbered through all epochs; batch k has slot k modulo their
 * number. A thread takes the next number when its slot is free, and fills it.
 * All else is the caller's thread's: it sends what is full, and frees a slot
 * when its batch was given out and its copy is done. The lock guards slots'
 * states and n_taken; what a slot holds belongs to whom the state says.
 */
#include "doorbell/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/once.h"
#include "base/thread.h"
#include "tensor/runtime/stage.h"
#include "tensor/core/tensor_internal.h"

#define MAX_THREADS 64
#define MAX_AHEAD   64
#define N_ROUNDS    8 /* of a permutation */

enum slot_state {
    SLOT_FREE,
    SLOT_FILLING, /* a thread's */
    SLOT_FULL,
    SLOT_SENT, /* to bufs */
    SLOT_GIVEN /* what it was sent to is tensors */
};

struct loader_slot {
    enum slot_state state;
    int64_t n; /* items */
    bell_status status;
    struct bell_error error;
    uint64_t value; /* of the stage */
    struct tensor_buffer *bufs[BELL_LOADER_MAX_FIELDS];
};

/* At an address that is never used again (base/once.h). */
struct bell_loader {
    bool is_live;
    struct bell_context *ctx; /* NULL: it has ended */
    struct bell_loader *next; /* of the context's */
    struct bell_loader_desc desc;
    char name[48];
    struct bell_loader_field fields[BELL_LOADER_MAX_FIELDS];
    uint64_t item_bytes[BELL_LOADER_MAX_FIELDS];
    uint64_t offsets[BELL_LOADER_MAX_FIELDS]; /* in a place of the stage */
    int64_t n_batches;                        /* of an epoch */
    struct rt_stage *stage;
    struct loader_slot *slots; /* owned */
    uint32_t n_slots;
    int64_t n_given;   /* the number of the next batch */
    int64_t n_sent;    /* of the next to be sent */
    bool told_the_end; /* of the epoch before that */
    pthread_t threads[MAX_THREADS];
    uint32_t n_threads;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t n_taken; /* the number of the next batch to be filled */
    bool is_ending;
};

/* ---- orders ---- */

static uint64_t
mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Where a permutation of 0..n-1 that `key` chooses puts i: a Feistel network
 * on as many bits as n needs, again and again until it comes to less than n. */
static int64_t
permute(uint64_t key, int64_t n, int64_t i)
{
    uint32_t half = 1, round;
    uint64_t x = (uint64_t)i, mask, left, right, last;

    while (half < 31 && (uint64_t)n > 1ull << 2 * half)
        half++;
    mask = (1ull << half) - 1;
    do {
        left = x >> half;
        right = x & mask;
        for (round = 0; round < N_ROUNDS; round++) {
            last = right;
            right = left ^ (mix(key + round + mix(right + 1)) >> 32 & mask);
            left = last;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* The item at a place of batch `number`. */
static int64_t
find_item(const struct bell_loader *loader, int64_t number, int64_t place)
{
    int64_t epoch = number / loader->n_batches;
    int64_t at = number % loader->n_batches * loader->desc.n_batch + place;

    if (!loader->desc.shuffled)
        return at;
    return permute(mix(loader->desc.seed + mix((uint64_t)epoch + 1)),
                   loader->desc.n_items, at);
}

/* ---- threads ---- */

static bell_status
fill_item(const struct bell_loader *loader, uint8_t *memory, int64_t item,
          int64_t place)
{
    void *out[BELL_LOADER_MAX_FIELDS];
    uint32_t f;

    for (f = 0; f < loader->desc.n_fields; f++) {
        uint64_t n = loader->item_bytes[f];
        uint8_t *to = memory + loader->offsets[f] + (uint64_t)place * n;
        const uint8_t *data = loader->fields[f].data;

        out[f] = data ? NULL : to;
        if (data)
            memcpy(to, data + (uint64_t)item * n, n);
    }
    return loader->desc.fill ? loader->desc.fill(loader->desc.user, item, out)
                             : BELL_OK;
}

static void
fill_slot(const struct bell_loader *loader, uint32_t at, int64_t number)
{
    struct loader_slot *slot = &loader->slots[at];
    uint8_t *memory = rt_stage_memory(loader->stage, at);
    int64_t left = loader->desc.n_items -
                   number % loader->n_batches * loader->desc.n_batch;
    int64_t i, item = 0;

    slot->n = left < loader->desc.n_batch ? left : loader->desc.n_batch;
    slot->status = BELL_OK;
    for (i = 0; i < slot->n && slot->status == BELL_OK; i++) {
        item = find_item(loader, number, i);
        slot->status = fill_item(loader, memory, item, i);
    }
    if (slot->status == BELL_OK)
        return;
    if (bell_error_last()->status != slot->status)
        (void)bell_fail(slot->status, "it has failed");
    bell_error_prefix("'%s': item %lld", loader->name, (long long)item);
    slot->error = *bell_error_last();
    bell_error_clear();
}

static void *
run_thread(void *arg)
{
    struct bell_loader *loader = arg;
    int64_t number;
    uint32_t at;

    pthread_mutex_lock(&loader->lock);
    while (!loader->is_ending) {
        number = loader->n_taken;
        at = (uint32_t)(number % loader->n_slots);
        if (loader->slots[at].state != SLOT_FREE) {
            pthread_cond_wait(&loader->changed, &loader->lock);
            continue;
        }
        loader->n_taken++;
        loader->slots[at].state = SLOT_FILLING;
        pthread_mutex_unlock(&loader->lock);
        fill_slot(loader, at, number);
        pthread_mutex_lock(&loader->lock);
        loader->slots[at].state = SLOT_FULL;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static void
stop_threads(struct bell_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->is_ending = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    while (loader->n_threads > 0)
        pthread_join(loader->threads[--loader->n_threads], NULL);
    loader->is_ending = false;
}

static bell_status
start_threads(struct bell_loader *loader)
{
    uint32_t n = loader->desc.n_threads;
    int error = 0;

    while (loader->n_threads < n && !error) {
        error = pthread_create(&loader->threads[loader->n_threads], NULL,
                               run_thread, loader);
        loader->n_threads += !error;
    }
    return loader->n_threads > 0 ? BELL_OK : thread_fail(loader->name, error);
}

/* ---- life ---- */

/* With the loader's context, or before it. */
static void
drop_slot(struct bell_loader *loader, struct loader_slot *slot)
{
    uint32_t f;

    if ((slot->state == SLOT_SENT || slot->state == SLOT_GIVEN) &&
        rt_stage_wait(loader->stage, slot->value) != BELL_OK)
        bell_error_clear(); /* of a device that is lost */
    for (f = 0; f < loader->desc.n_fields && slot->state == SLOT_SENT; f++)
        tensor_buffer_release(slot->bufs[f]);
    slot->state = SLOT_FREE;
}

/* Nothing is under way afterwards. */
static void
stop(struct bell_loader *loader)
{
    struct bell_error_hold hold;
    uint32_t i;

    stop_threads(loader);
    bell_error_hold(&hold);
    for (i = 0; i < loader->n_slots; i++)
        drop_slot(loader, &loader->slots[i]);
    bell_error_release(&hold);
}

/* Ends all that is of the context. */
static void
end(struct bell_loader *loader)
{
    struct bell_error_hold hold;

    stop(loader);
    bell_error_hold(&hold);
    rt_stage_destroy(loader->stage);
    bell_error_release(&hold);
    host_free(loader->slots);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    loader->stage = NULL;
    loader->slots = NULL;
    loader->n_slots = 0;
    loader->ctx = NULL;
}

static void
end_loaders(struct bell_context *ctx)
{
    struct bell_loader *loader, *next;

    for (loader = ctx->loaders; loader; loader = next) {
        next = loader->next;
        end(loader);
    }
    ctx->loaders = NULL;
}

static bell_status
check_field(struct bell_loader *loader, uint32_t f, uint64_t *n_bytes)
{
    const struct bell_loader_field *field = &loader->fields[f];
    uint64_t size, all;
    uint32_t i;

    if (field->dtype <= BELL_DEFAULT || field->dtype >= BELL_DTYPE_COUNT)
        return bell_fail(BELL_BAD_DTYPE,
                         "bell_loader_create: field %u: dtype %d is not an "
                         "enum bell_dtype of values",
                         f, (int)field->dtype);
    size = bell_dtype_size(field->dtype);
    if (field->ndim >= BELL_MAX_RANK)
        return bell_fail(
            BELL_BAD_SHAPE,
            "bell_loader_create: field %u has %u axes; expected fewer than %d",
            f, field->ndim, BELL_MAX_RANK);
    for (i = 0; i < field->ndim; i++) {
        if (field->shape[i] < 0 ||
            __builtin_mul_overflow(size, (uint64_t)field->shape[i], &size))
            return bell_fail(
                BELL_BAD_SHAPE,
                "bell_loader_create: field %u has an axis of %lld; expected 0 "
                "or more, and fewer bytes than 2^64",
                f, (long long)field->shape[i]);
    }
    if (!field->data && !loader->desc.fill)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_loader_create: field %u has no data, and there "
                         "is no function to fill it",
                         f);
    loader->item_bytes[f] = size;
    loader->offsets[f] = *n_bytes;
    if (__builtin_mul_overflow(size, (uint64_t)loader->desc.n_batch, &all) ||
        __builtin_add_overflow(*n_bytes, all, n_bytes) || *n_bytes > 1ull << 40)
        return bell_fail(BELL_BAD_SIZE,
                         "bell_loader_create: field %u: a batch of %lld items "
                         "of %llu bytes is more than 2^40 bytes",
                         f, (long long)loader->desc.n_batch,
                         (unsigned long long)size);
    *n_bytes = (*n_bytes + 63) & ~(uint64_t)63;
    return BELL_OK;
}

static bell_status
check_loader_desc(const struct bell_loader_desc *d)
{
    if (!d)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_loader_create: the description is NULL");
    BELL_TRY(tensor_desc_size("bell_loader_create", d->struct_size, sizeof(*d),
                              sizeof(*d)));
    if (d->n_items < 1 || d->n_batch < 1 || d->n_items > INT64_MAX / 4 ||
        (d->drop_last && d->n_batch > d->n_items))
        return bell_fail(
            BELL_BAD_VALUE,
            "bell_loader_create: batches of %lld of %lld items; expected 1 or "
            "more, and a whole batch where the last is dropped",
            (long long)d->n_batch, (long long)d->n_items);
    if (d->n_fields < 1 || d->n_fields > BELL_LOADER_MAX_FIELDS || !d->fields)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_loader_create: %u fields; expected 1 to %d",
                         d->fields ? d->n_fields : 0, BELL_LOADER_MAX_FIELDS);
    if (d->n_threads > MAX_THREADS || d->n_ahead > MAX_AHEAD)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_loader_create: %u threads, %u batches ahead; up "
                         "to %d and %d are possible",
                         d->n_threads, d->n_ahead, MAX_THREADS, MAX_AHEAD);
    return BELL_OK;
}

/* Takes the description, which was checked, into *loader. */
static bell_status
take_desc(struct bell_loader *loader, const struct bell_loader_desc *desc,
          uint64_t *out_bytes)
{
    struct bell_loader_desc *d = &loader->desc;
    uint32_t f;

    *d = *desc;
    memcpy(loader->fields, d->fields, d->n_fields * sizeof(*d->fields));
    d->fields = NULL;
    if (d->n_batch > d->n_items)
        d->n_batch = d->n_items;
    d->n_threads = d->n_threads ? d->n_threads : 1;
    loader->n_slots = (d->n_ahead ? d->n_ahead : 2) + 1;
    loader->n_batches = (d->n_items - 1) / d->n_batch + 1;
    if (d->drop_last)
        loader->n_batches = d->n_items / d->n_batch;
    loader->told_the_end = true;
    snprintf(loader->name, sizeof(loader->name), "%s",
             d->name ? d->name : "loader");
    *out_bytes = 0;
    for (f = 0; f < d->n_fields; f++)
        BELL_TRY(check_field(loader, f, out_bytes));
    return BELL_OK;
}

static bell_status
begin_loader(struct bell_loader *loader, struct bell_context *ctx,
             const struct bell_loader_desc *desc)
{
    uint64_t n_bytes;
    bell_status status;

    BELL_TRY(take_desc(loader, desc, &n_bytes));
    loader->slots = host_calloc(loader->n_slots, sizeof(*loader->slots));
    if (!loader->slots)
        return bell_fail(BELL_E_NO_MEMORY, "bell_loader_create: out of memory");
    status = rt_stage_create(ctx, loader->n_slots, n_bytes, &loader->stage);
    if (status != BELL_OK) {
        host_free(loader->slots);
        return status;
    }
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->changed, NULL);
    loader->ctx = ctx;
    status = start_threads(loader);
    if (status != BELL_OK)
        end(loader);
    return status;
}

bell_status
bell_loader_create(struct bell_context *ctx,
                   const struct bell_loader_desc *desc,
                   struct bell_loader **out_loader)
{
    struct bell_loader *loader;
    bell_status status;

    if (!out_loader)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_loader_create: the result is NULL");
    *out_loader = NULL;
    BELL_TRY(tensor_context_usable(__func__, ctx));
    BELL_TRY(check_loader_desc(desc));
    loader = once_alloc(sizeof(*loader), TENSOR_IS_LOADER, ctx);
    if (!loader)
        return bell_fail(BELL_E_NO_MEMORY, "bell_loader_create: out of memory");
    status = begin_loader(loader, ctx, desc);
    if (status != BELL_OK) {
        once_end(loader, sizeof(*loader));
        return status;
    }
    loader->is_live = true;
    loader->next = ctx->loaders;
    ctx->loaders = loader;
    ctx->end_loaders = end_loaders;
    *out_loader = loader;
    return BELL_OK;
}

/* Not NULL, nor destroyed. */
static bell_status
check_live(const char *call, const struct bell_loader *loader)
{
    if (loader && loader->is_live)
        return BELL_OK;
    return bell_fail_at(call, loader ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the loader %s", call,
                        loader ? "was destroyed" : "is NULL");
}

/* Nor is its context. */
static bell_status
loader_usable(const char *call, const struct bell_loader *loader)
{
    BELL_TRY(check_live(call, loader));
    if (!loader->ctx)
        return bell_fail_at(call, BELL_BAD_STATE,
                            "%s: the context of '%s' was destroyed", call,
                            loader->name);
    if (tensor_device_is_inherited(loader->ctx))
        return bell_fail_at(call, BELL_BAD_PROCESS,
                            "%s: '%s' is the parent process's", call,
                            loader->name);
    return tensor_report(loader->ctx);
}

void
bell_loader_destroy(struct bell_loader *loader)
{
    struct bell_loader **at;

    if (!loader || check_live(__func__, loader) != BELL_OK ||
        (loader->ctx && tensor_device_is_inherited(loader->ctx)))
        return;
    if (loader->ctx) {
        for (at = &loader->ctx->loaders; *at != loader; at = &(*at)->next)
            continue;
        *at = loader->next;
        end(loader);
    }
    once_end(loader, sizeof(*loader));
}

/* ---- batches ---- */

/* Memory on the device for what a full slot holds, and the way there. */
static bell_status
send(struct bell_loader *loader, uint32_t at)
{
    struct loader_slot *slot = &loader->slots[at];
    bell_status status = BELL_OK;
    uint32_t f, n = 0;

    for (f = 0; f < loader->desc.n_fields && status == BELL_OK; f++) {
        const struct bell_loader_field *field = &loader->fields[f];
        uint64_t n_elems = (uint64_t)slot->n * loader->item_bytes[f] /
                           bell_dtype_size(field->dtype);

        status = tensor_buffer_create(loader->ctx, (enum uop_dtype)field->dtype,
                                      n_elems, &slot->bufs[f]);
        n += status == BELL_OK;
    }
    if (status == BELL_OK)
        status = rt_stage_send(loader->stage, at, slot->bufs, loader->offsets,
                               n, &slot->value);
    while (status != BELL_OK && n > 0)
        tensor_buffer_release(slot->bufs[--n]);
    return status;
}

static enum slot_state
state_of(struct bell_loader *loader, const struct loader_slot *slot)
{
    enum slot_state state;

    pthread_mutex_lock(&loader->lock);
    state = slot->state;
    pthread_mutex_unlock(&loader->lock);
    return state;
}

static void
set_state(struct bell_loader *loader, struct loader_slot *slot,
          enum slot_state state)
{
    pthread_mutex_lock(&loader->lock);
    slot->state = state;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
}

/* Frees what was given and is copied; waits for that of the slot that the next
 * batch is to have. */
static bell_status
free_loader_given(struct bell_loader *loader)
{
    uint32_t i, next = (uint32_t)(loader->n_given % loader->n_slots);

    for (i = 0; i < loader->n_slots; i++) {
        struct loader_slot *slot = &loader->slots[i];

        if (state_of(loader, slot) != SLOT_GIVEN)
            continue;
        if (i == next)
            BELL_TRY(rt_stage_wait(loader->stage, slot->value));
        if (rt_stage_is_done(loader->stage, slot->value))
            set_state(loader, slot, SLOT_FREE);
    }
    return BELL_OK;
}

/* Sends the next batch, once it is full, and those behind it that are full by
 * now; what is wrong with these is told when they are next. */
static bell_status
send_ahead(struct bell_loader *loader)
{
    for (; loader->n_sent < loader->n_given + loader->n_slots;
         loader->n_sent++) {
        uint32_t at = (uint32_t)(loader->n_sent % loader->n_slots);
        struct loader_slot *slot = &loader->slots[at];
        bool is_next = loader->n_sent == loader->n_given;

        if (is_next) {
            pthread_mutex_lock(&loader->lock);
            while (slot->state != SLOT_FULL)
                pthread_cond_wait(&loader->changed, &loader->lock);
            pthread_mutex_unlock(&loader->lock);
            if (slot->status != BELL_OK)
                return bell_error_set(&slot->error);
        } else if (state_of(loader, slot) != SLOT_FULL ||
                   slot->status != BELL_OK) {
            break;
        }
        BELL_TRY(send(loader, at));
        set_state(loader, slot, SLOT_SENT);
    }
    return BELL_OK;
}

static struct bell_tensor *
give_tensor(struct bell_loader *loader, const struct loader_slot *slot,
            uint32_t f)
{
    const struct bell_loader_field *field = &loader->fields[f];
    struct bell_context *ctx = loader->ctx;
    int64_t shape[BELL_MAX_RANK];

    shape[0] = slot->n;
    memcpy(shape + 1, field->shape, field->ndim * sizeof(*shape));
    return tensor_new(
        ctx, "bell_loader_next",
        tensor_buffer_node(ctx, slot->bufs[f],
                           uop_dims(&ctx->graph, shape, field->ndim + 1)));
}

/* A slot that was sent, as tensors: all of them, or none. */
static bell_status
give(struct bell_loader *loader, struct loader_slot *slot,
     struct bell_tensor **out)
{
    uint32_t f, n = loader->desc.n_fields;
    bool failed = false;

    BELL_TRY(rt_stage_join(loader->stage, slot->value));
    for (f = 0; f < n; f++) {
        out[f] = give_tensor(loader, slot, f);
        failed = failed || bell_is_error(out[f]);
    }
    if (failed) {
        for (f = 0; f < n; f++) {
            if (!bell_is_error(out[f]))
                bell_tensor_release(out[f]);
            out[f] = NULL;
        }
        return tensor_report(loader->ctx);
    }
    for (f = 0; f < n; f++)
        tensor_buffer_release(slot->bufs[f]);
    set_state(loader, slot, SLOT_GIVEN);
    return BELL_OK;
}

bell_status
bell_loader_next(struct bell_loader *loader, struct bell_tensor **out,
                 int64_t *out_n)
{
    struct loader_slot *slot;

    if (!out || !out_n)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_loader_next: the room for %s is NULL",
                         out ? "the number of items" : "a batch");
    *out_n = 0;
    BELL_TRY(loader_usable(__func__, loader));
    memset(out, 0, loader->desc.n_fields * sizeof(struct bell_tensor *));
    if (loader->ctx->trace)
        return bell_fail(BELL_BAD_STATE,
                         "bell_loader_next: '%s' is used inside a captured "
                         "function: its batches are inputs of that",
                         loader->name);
    if (loader->n_given % loader->n_batches == 0 && !loader->told_the_end) {
        loader->told_the_end = true;
        return BELL_OK;
    }
    if (loader->n_threads == 0)
        BELL_TRY(start_threads(loader));
    BELL_TRY(free_loader_given(loader));
    BELL_TRY(send_ahead(loader));
    slot = &loader->slots[loader->n_given % loader->n_slots];
    BELL_TRY(give(loader, slot, out));
    *out_n = slot->n;
    loader->n_given++;
    loader->told_the_end = false;
    return BELL_OK;
}

bell_status
bell_loader_seek(struct bell_loader *loader, int64_t epoch, int64_t batch)
{
    int64_t number;

    BELL_TRY(loader_usable(__func__, loader));
    if (epoch < 0 || batch < 0 || batch >= loader->n_batches ||
        __builtin_mul_overflow(epoch, loader->n_batches, &number) ||
        number > INT64_MAX / 2)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_loader_seek: batch %lld of epoch %lld; '%s' has "
                         "%lld an epoch",
                         (long long)batch, (long long)epoch, loader->name,
                         (long long)loader->n_batches);
    stop(loader);
    loader->n_given = loader->n_sent = loader->n_taken = number + batch;
    loader->told_the_end = true;
    return start_threads(loader);
}

void
bell_loader_get_info(const struct bell_loader *loader,
                     struct bell_loader_info *out_info)
{
    struct bell_loader_info info = {0};

    if (!out_info || check_live(__func__, loader) != BELL_OK) {
        tensor_no_info(__func__, out_info, sizeof(*out_info));
        return;
    }
    info.n_batches = loader->n_batches;
    info.epoch = loader->n_given / loader->n_batches;
    info.batch = loader->n_given % loader->n_batches;
    tensor_give_info(__func__, &info, sizeof(info), sizeof(info), out_info);
}
