/* Bundles: loading and running.
 *
 * Weights lie in the file as kernels want them: a device that shares the
 * host's memory reads the file's pages, others get one copy. Every other value
 * has a buffer of its own, and what lies between kernels shares an arena.
 */
#include "hcq/hcq_bundle.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "hcq/hcq_backend.h"
#include "hcq/hcq_bundle_file.h"

#define PER_SUBMIT 32 /* commands: a doorbell costs more than a launch */
#define SIM_ITEMS  (1ull << 26) /* seconds, of small kernels */
#define SIM_LANES  32u

/* A value's memory. */
struct slot {
    struct hcq_bundle_value value;
    struct hcq_buffer *own; /* owned; NULL while unused, and of a weight that
                             * is where the file's are */
    const struct hcq_buffer *bound;
    uint64_t va;            /* of a symbol or a size, what it is now */
    uint64_t most_bytes;    /* what `own` has */
    uint64_t written_bytes; /* of an input, when it was written */
    bool is_set;
    bool is_written; /* an input: its own buffer has what was written */
};

struct hcq_bundle {
    struct hcq_device *dev;
    struct hcq_queue *queue;
    void *map; /* of a file, or NULL */
    size_t map_bytes;
    struct hcq_code_file code; /* of its code, where that is not copied */
    struct bundle_check check;
    struct bundle_file file;
    const struct bundle_target *target;
    struct slot *slots;
    struct hcq_program **programs;
    struct hcq_buffer *weights, *arena;
    uint64_t last_value; /* of the queue's timeline, for all runs */
    bool weights_in_place;
};

/* ---- loading ---- */

/* Makes the pages of the file that have code executable, where this processor
 * runs it. They are it from the start: what was not may not become it in every
 * service (MemoryDenyWriteExecute). False: they may not be executed, as on a
 * file system without that right, or share a page with tables, which a kernel
 * that is ended by taking its pages away would take along. */
static bool
map_code(struct hcq_bundle *b)
{
    const struct bundle_section *s = &b->file.header->sections[BUNDLE_OBJECTS];
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    void *map;

    if (b->code.fd < 0 || !s->size_bytes || s->offset % page_bytes)
        return false;
    map = mmap((uint8_t *)b->map + s->offset, (size_t)s->size_bytes,
               PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, b->code.fd,
               (off_t)s->offset);
    if (map == MAP_FAILED) {
        LOG(LOG_EXEC, "bundle: its code is copied: %s", strerror(errno));
        return false;
    }
    b->code.map = map;
    b->code.offset_bytes = s->offset;
    return true;
}

static bell_status
load_programs(struct hcq_bundle *b)
{
    const struct bundle_file *f = &b->file;
    const struct hcq_code_file *code = map_code(b) ? &b->code : NULL;
    uint32_t n = b->target->n_kernels, i;

    b->programs = host_calloc(n, sizeof(*b->programs));
    if (!b->programs)
        return bell_fail(BELL_E_NO_MEMORY, "bundle: out of memory");
    for (i = 0; i < n; i++) {
        const struct bundle_kernel *k =
            &f->kernels[b->target->first_kernel + i];
        struct hcq_program_desc desc = {
            .struct_size = sizeof(desc),
            .name = f->names + k->name,
            .entry = f->names + k->name,
            .binary = f->objects + k->object_offset,
            .binary_size_bytes = k->object_bytes,
            .n_bufs = k->n_bufs,
            .n_vals = k->n_vals,
            .shared_bytes = k->shared_bytes,
            .max_steps = k->max_steps,
        };

        memcpy(desc.local, k->local, sizeof(desc.local));
        if (hcq_program_create_in(b->dev, &desc, code, &b->programs[i]) !=
            BELL_OK) {
            bell_error_prefix("bundle: kernel %u", i);
            return bell_error_last()->status;
        }
    }
    return BELL_OK;
}

/* In place where the device sees the host's memory. */
static bell_status
load_weights(struct hcq_bundle *b)
{
    uint64_t n = b->file.weight_bytes;
    /* the device reads them alone */
    uint8_t *data = (uint8_t *)(uintptr_t)b->file.data +
                    b->file.header->sections[BUNDLE_DATA].offset;
    struct hcq_device_info info = {.struct_size = sizeof(info)};

    hcq_device_info(b->dev, &info);
    b->weights_in_place = (info.flags & HCQ_DEVICE_HOST_MEMORY) != 0;
    if (b->weights_in_place)
        return hcq_buffer_create_pinned(b->dev, data, n, &b->weights);
    BELL_TRY(hcq_buffer_create(b->dev, n, HCQ_MEM_DEVICE, &b->weights));
    return hcq_buffer_write(b->weights, 0, data, n);
}

static bell_status
write_state(struct hcq_bundle *b, struct slot *slot, uint64_t data_offset)
{
    const uint8_t *data =
        b->file.data + b->file.header->sections[BUNDLE_DATA].offset;
    uint64_t size_bytes = slot->value.size_bytes, at, n = 1u << 20;
    bell_status status = BELL_OK;
    uint8_t *zeros;

    assert(slot->own && slot->value.kind == HCQ_BUNDLE_STATE);
    if (data_offset != BUNDLE_NO_DATA)
        return hcq_buffer_write(slot->own, 0, data + data_offset, size_bytes);
    if (n > size_bytes)
        n = size_bytes;
    zeros = host_calloc(n, 1);
    if (!zeros)
        return bell_fail(BELL_E_NO_MEMORY, "bundle: out of memory");
    for (at = 0; at < size_bytes && status == BELL_OK; at += n)
        status = hcq_buffer_write(slot->own, at, zeros,
                                  n < size_bytes - at ? n : size_bytes - at);
    host_free(zeros);
    return status;
}

/* ---- sizes ---- */

/* What stands for a size, or is one, by now. */
static int64_t
number_now(const struct hcq_bundle *b, uint64_t number)
{
    return (int64_t)(BUNDLE_IS_OF(number) ? b->slots[BUNDLE_NUMBER(number)].va
                                          : number);
}

static bool
is_of_symbols(const struct hcq_bundle *b, uint32_t value, uint32_t axis)
{
    return b->file.header->version >= BUNDLE_SIZES &&
           BUNDLE_IS_OF(b->file.values[value].shape[axis]);
}

/* Sizes from symbols, in the order of their rows; then shapes from sizes. */
static void
settle_sizes(struct hcq_bundle *b)
{
    const struct bundle_file *f = &b->file;
    uint32_t i, k, bytes;

    if (f->header->version < BUNDLE_SIZES)
        return;
    for (i = 0; i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];

        if (v->kind == BUNDLE_SIZE)
            b->slots[i].va = (uint64_t)bundle_size_apply(
                (enum bundle_size_op)v->shape[0], number_now(b, v->shape[1]),
                number_now(b, v->shape[2]));
    }
    for (i = 0; i < f->n_values; i++) {
        struct hcq_bundle_value *value = &b->slots[i].value;

        if (value->kind > HCQ_BUNDLE_OUTPUT)
            continue;
        (void)bundle_dtype(value->dtype, &bytes);
        value->size_bytes = bytes;
        for (k = 0; k < value->ndim; k++) {
            value->shape[k] = (uint64_t)number_now(b, f->values[i].shape[k]);
            value->size_bytes *= value->shape[k];
        }
        assert(value->size_bytes <= f->values[i].size_bytes);
    }
}

const char *
hcq_bundle_axis(const struct hcq_bundle *b, uint32_t value, uint32_t axis,
                uint64_t *out_min, uint64_t *out_max)
{
    const struct bundle_value *v = &b->file.values[value];
    int64_t bounds[2];

    *out_min = *out_max = v->shape[axis];
    if (!is_of_symbols(b, value, axis))
        return NULL;
    bundle_bounds(&b->file, v->shape[axis], bounds);
    *out_min = (uint64_t)bounds[0];
    *out_max = (uint64_t)bounds[1];
    return b->file.names + b->file.values[BUNDLE_NUMBER(v->shape[axis])].name;
}

/* Makes a symbol what a size of it alone says: a sum, or a product, of one that
 * varies and a number. False: no value gives that, or several vary. */
static bool
solve(struct hcq_bundle *b, uint64_t number, int64_t is)
{
    while (BUNDLE_IS_OF(number)) {
        const struct bundle_value *v = &b->file.values[BUNDLE_NUMBER(number)];
        uint64_t side = v->shape[1];
        int64_t by = (int64_t)v->shape[2];

        if (v->kind == BUNDLE_SYMBOL) {
            if (is < (int64_t)v->shape[0] || is > (int64_t)v->shape[1])
                return false;
            b->slots[BUNDLE_NUMBER(number)].va = (uint64_t)is;
            return true;
        }
        if (!BUNDLE_IS_OF(side)) {
            side = v->shape[2];
            by = (int64_t)v->shape[1];
        }
        if (BUNDLE_IS_OF((uint64_t)by))
            return false;
        if (v->shape[0] == BUNDLE_ADD)
            is -= by;
        else if (v->shape[0] == BUNDLE_MUL && by != 0 && is % by == 0)
            is /= by;
        else
            return false;
        number = side;
    }
    return false;
}

/* Why an axis cannot be that long. */
static bell_status
refuse_axis(const struct hcq_bundle *b, uint32_t value, uint32_t axis,
            uint64_t is)
{
    const char *name = b->slots[value].value.name, *size;
    unsigned long long min, max, now = b->slots[value].value.shape[axis];
    uint64_t bounds[2];

    size = hcq_bundle_axis(b, value, axis, &bounds[0], &bounds[1]);
    min = bounds[0];
    max = bounds[1];
    if (!size)
        return bell_fail(BELL_BAD_SHAPE,
                         "bundle: '%.60s', axis %u: %llu elements, not %llu",
                         name, axis, (unsigned long long)is, max);
    if (is < min || is > max)
        return bell_fail(BELL_BAD_SHAPE,
                         "bundle: '%.60s', axis %u: %llu elements; %.60s goes "
                         "from %llu to %llu",
                         name, axis, (unsigned long long)is, size, min, max);
    return bell_fail(BELL_BAD_SHAPE,
                     "bundle: '%.60s', axis %u: %llu elements; %.60s is %llu "
                     "with the other axes, and goes from %llu to %llu",
                     name, axis, (unsigned long long)is, size, now, min, max);
}

/* All of a shape; the axes that differ first. BELL_OK, or why it is not so. */
static bell_status
try_shape(struct hcq_bundle *b, uint32_t number, const uint64_t *shape)
{
    const struct hcq_bundle_value *value = &b->slots[number].value;
    uint32_t i;

    for (i = 0; i < value->ndim; i++) {
        if (is_of_symbols(b, number, i) && shape[i] < (uint64_t)BUNDLE_SIZE_MAX)
            (void)solve(b, b->file.values[number].shape[i], (int64_t)shape[i]);
    }
    settle_sizes(b);
    for (i = 0; i < value->ndim; i++) {
        if (value->shape[i] != shape[i])
            return refuse_axis(b, number, i, shape[i]);
    }
    return BELL_OK;
}

bell_status
hcq_bundle_fit(struct hcq_bundle *b, uint32_t number, const uint64_t *shape,
               uint32_t ndim)
{
    const struct hcq_bundle_value *value = hcq_bundle_value(b, number);
    uint64_t *was;
    bell_status status;
    uint32_t i;

    if (!value || value->kind > HCQ_BUNDLE_OUTPUT)
        return bell_fail(BELL_BAD_INDEX,
                         "bundle: value %u is neither an input nor an output",
                         number);
    if (value->ndim != ndim)
        return bell_fail(BELL_BAD_SHAPE, "bundle: '%.60s' has %u axes, not %u",
                         value->name, value->ndim, ndim);
    if (memcmp(value->shape, shape, ndim * sizeof(*shape)) == 0)
        return BELL_OK;
    was = host_calloc(b->file.n_values, sizeof(*was));
    if (!was)
        return bell_fail(BELL_E_NO_MEMORY, "bundle: out of memory");
    for (i = 0; i < b->file.n_values; i++)
        was[i] = b->slots[i].va;
    status = try_shape(b, number, shape);
    for (i = 0; status != BELL_OK && i < b->file.n_values; i++)
        b->slots[i].va = was[i];
    if (status != BELL_OK)
        settle_sizes(b);
    host_free(was);
    return status;
}

static bell_status
load_values(struct hcq_bundle *b)
{
    const struct bundle_file *f = &b->file;
    uint32_t i;

    assert(b->weights);
    b->slots = host_calloc(f->n_values, sizeof(*b->slots));
    if (!b->slots)
        return bell_fail(BELL_E_NO_MEMORY, "bundle: out of memory");
    for (i = 0; i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];
        struct slot *slot = &b->slots[i];

        slot->value.name = f->names + v->name;
        slot->value.kind = (enum hcq_bundle_kind)v->kind;
        slot->value.dtype = v->dtype;
        slot->value.ndim = v->ndim;
        slot->value.size_bytes = slot->most_bytes = v->size_bytes;
        memcpy(slot->value.shape, v->shape, sizeof(v->shape));
        slot->is_set = v->kind != BUNDLE_INPUT;
        if (v->kind >= BUNDLE_SYMBOL) {
            slot->va = v->shape[0]; /* of a size, until it is settled */
            continue;
        }
        if (v->kind == BUNDLE_WEIGHT) {
            slot->va = b->weights->va + v->data_offset;
            continue;
        }
        BELL_TRY(hcq_buffer_create(b->dev, v->size_bytes, HCQ_MEM_DEVICE,
                                   &slot->own));
        slot->va = slot->own->va;
        if (v->kind == BUNDLE_STATE)
            BELL_TRY(write_state(b, slot, v->data_offset));
    }
    settle_sizes(b);
    return BELL_OK;
}

/* Work-items that a run may have on a simulated card. */
static bell_status
read_items_limit(uint64_t *out_limit)
{
    const char *text = env_get("BELL_SIM_ITEMS");
    char *end;

    *out_limit = SIM_ITEMS;
    if (!text)
        return BELL_OK;
    errno = 0;
    *out_limit = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || !*out_limit)
        return bell_fail(
            BELL_BAD_VALUE,
            "BELL_SIM_ITEMS=%.40s: must be a number of work-items, "
            "1 or more",
            text);
    return BELL_OK;
}

/* Work-items of a launch, UINT64_MAX where they are more. A group has a whole
 * number of SIM_LANES, which is what it takes to simulate. */
static uint64_t
count_items(const struct bundle_command *c, const struct bundle_kernel *k)
{
    uint64_t n = 1;
    int i;

    for (i = 0; i < 3; i++) {
        if (k->local[i] && __builtin_mul_overflow(n, k->local[i], &n))
            return UINT64_MAX;
    }
    if (n > UINT64_MAX - SIM_LANES)
        return UINT64_MAX;
    n = (n + SIM_LANES - 1) / SIM_LANES * SIM_LANES;
    for (i = 0; i < 3; i++) {
        if (__builtin_mul_overflow(n, c->grid[i], &n))
            return UINT64_MAX;
    }
    return n;
}

/* The device takes each grid, and a simulated card all of them together: what a
 * card does in a second would take it days. */
static bell_status
check_grids(const struct hcq_bundle *b, const struct hcq_device_info *info)
{
    const struct bundle_file *f = &b->file;
    uint64_t limit = UINT64_MAX, n_items = 0;
    uint32_t i;
    int axis;

    if (info->flags & HCQ_DEVICE_SIMULATED)
        BELL_TRY(read_items_limit(&limit));
    for (i = 0; i < b->target->n_commands; i++) {
        const struct bundle_command *c =
            &f->commands[b->target->first_command + i];
        const struct bundle_kernel *k;

        if (c->op != BUNDLE_EXEC)
            continue;
        k = &f->kernels[b->target->first_kernel + c->kernel];
        for (axis = 0; axis < 3; axis++) {
            if (c->grid[axis] > info->max_grid[axis])
                return bell_fail(BELL_E_UNSUPPORTED,
                                 "bundle: command %u: '%.40s' with a grid of "
                                 "%ux%ux%u: %s takes at most %u on axis %d",
                                 i, f->names + k->name, c->grid[0], c->grid[1],
                                 c->grid[2], info->name, info->max_grid[axis],
                                 axis);
        }
        if (__builtin_add_overflow(n_items, count_items(c, k), &n_items))
            n_items = UINT64_MAX;
        if (n_items > limit)
            return bell_fail(
                BELL_E_UNSUPPORTED,
                "bundle: command %u: '%.40s' with a grid of %ux%ux%u: %llu "
                "work-items in a run so far; %s takes %llu (BELL_SIM_ITEMS)",
                i, f->names + k->name, c->grid[0], c->grid[1], c->grid[2],
                (unsigned long long)n_items, info->name,
                (unsigned long long)limit);
    }
    return BELL_OK;
}

/* Weights first: what is mapped, or read from the disk, is then in order. */
static bell_status
load(struct hcq_bundle *b, const void *data, uint64_t size_bytes)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    uint32_t target;

    BELL_TRY(bundle_file_open(data, size_bytes, &b->file));
    hcq_device_info(b->dev, &info);
    BELL_TRY(bundle_choose_target(&b->file, &info, &target));
    b->target = &b->file.targets[target];
    BELL_TRY(check_grids(b, &info));
    BELL_TRY(hcq_queue_create(b->dev, HCQ_QUEUE_COMPUTE, &b->queue));
    BELL_TRY(load_programs(b));
    BELL_TRY(load_weights(b));
    BELL_TRY(load_values(b));
    return hcq_buffer_create(b->dev, b->target->arena_bytes, HCQ_MEM_DEVICE,
                             &b->arena);
}

static bell_status
map_bundle(struct hcq_bundle *b, const char *path)
{
    struct regular_file file;
    void *map;
    int error;

    BELL_TRY(regular_file_open(path, &file));
    if (!file.size_bytes) {
        close(file.fd);
        return bell_fail(BELL_E_IO, "%s: is empty", path);
    }
    map =
        mmap(NULL, (size_t)file.size_bytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
    error = errno;
    if (map == MAP_FAILED) {
        close(file.fd);
        return bell_fail_errno(BELL_E_IO, error, "%s: %s", path,
                               strerror(error));
    }
    b->map = map;
    b->map_bytes = (size_t)file.size_bytes;
    if (b->dev->ops->program_use)
        b->code.fd = file.fd;
    else
        close(file.fd);
    return BELL_OK;
}

static bell_status
create(struct hcq_device *dev, const void *data, uint64_t size_bytes,
       const char *path, const struct bundle_check *check,
       struct hcq_bundle **out_bundle)
{
    struct hcq_bundle *b;
    bell_status status = BELL_OK;

    if (!dev || !out_bundle || (!path && !data))
        return bell_fail(BELL_BAD_MISSING, "bundle open: %s is NULL",
                         !dev          ? "the device"
                         : !out_bundle ? "the result"
                                       : "the file");
    b = host_calloc(1, sizeof(*b));
    if (!b)
        return bell_fail(BELL_E_NO_MEMORY, "bundle: out of memory");
    b->dev = dev;
    b->code.fd = -1;
    b->check = *check;
    if (path) {
        status = map_bundle(b, path);
        data = b->map;
        size_bytes = b->map_bytes;
        if (status == BELL_OK && check->fn)
            status = check->fn(check->user, path, data, size_bytes);
    } else if ((uintptr_t)data % BUNDLE_PAGE) {
        status = bell_fail(BELL_BAD_VALUE,
                           "a bundle at %p, which is not a multiple of %u",
                           data, BUNDLE_PAGE);
    }
    if (status == BELL_OK) {
        status = load(b, data, size_bytes);
        if (status != BELL_OK && path)
            bell_error_prefix("%s", path);
    }
    if (status != BELL_OK) {
        hcq_bundle_close(b);
        return status;
    }
    *out_bundle = b;
    return BELL_OK;
}

bell_status
hcq_bundle_open(struct hcq_device *dev, const char *path,
                struct hcq_bundle **out_bundle)
{
    return hcq_bundle_open_checked(dev, path, NULL, NULL, out_bundle);
}

bell_status
hcq_bundle_open_checked(struct hcq_device *dev, const char *path,
                        hcq_bundle_check_fn *check, void *user,
                        struct hcq_bundle **out_bundle)
{
    const struct bundle_check by = {check, user};

    return create(dev, NULL, 0, path, &by, out_bundle);
}

bell_status
hcq_bundle_open_memory(struct hcq_device *dev, const void *data,
                       uint64_t size_bytes, struct hcq_bundle **out_bundle)
{
    const struct bundle_check nobody = {NULL, NULL};

    return create(dev, data, size_bytes, NULL, &nobody, out_bundle);
}

/* The queue ends first: nothing runs while memory and programs go. */
void
hcq_bundle_close(struct hcq_bundle *b)
{
    struct bell_error_hold hold;
    uint32_t i;

    if (!b)
        return;
    bell_error_hold(&hold);
    hcq_queue_destroy(b->queue);
    for (i = 0; b->programs && i < b->target->n_kernels; i++)
        hcq_program_destroy(b->programs[i]);
    for (i = 0; b->slots && i < b->file.n_values; i++)
        hcq_buffer_destroy(b->slots[i].own);
    hcq_buffer_destroy(b->weights);
    hcq_buffer_destroy(b->arena);
    bell_error_release(&hold);
    host_free(b->programs);
    host_free(b->slots);
    if (b->map)
        munmap(b->map, b->map_bytes);
    if (b->code.fd >= 0)
        close(b->code.fd);
    host_free(b);
}

/* ---- what it is ---- */

void
hcq_bundle_get_info(const struct hcq_bundle *b,
                    struct hcq_bundle_info *out_info)
{
    const struct bundle_target *t = b->target;
    const struct hcq_bundle_info info = {
        .arch = b->file.names + t->arch,
        .tools = b->file.names + t->tools,
        .n_values = b->file.n_values,
        .n_kernels = t->n_kernels,
        .n_commands = t->n_commands,
        .weight_bytes = b->file.weight_bytes,
        .arena_bytes = t->arena_bytes,
        .weights_in_place = b->weights_in_place,
    };

    hcq_give_info(out_info, &info, sizeof(info));
}

const struct hcq_bundle_value *
hcq_bundle_value(const struct hcq_bundle *b, uint32_t number)
{
    return number < b->file.n_values ? &b->slots[number].value : NULL;
}

uint32_t
hcq_bundle_find(const struct hcq_bundle *b, enum hcq_bundle_kind kind,
                const char *name)
{
    uint32_t i;

    for (i = 0; i < b->file.n_values; i++) {
        if (b->slots[i].value.kind == kind &&
            strcmp(b->slots[i].value.name, name) == 0)
            return i;
    }
    return HCQ_BUNDLE_NONE;
}

const char *
hcq_bundle_dtype_name(uint32_t dtype, uint32_t *out_size_bytes)
{
    return bundle_dtype(dtype, out_size_bytes);
}

/* ---- values ---- */

static bell_status
check_value(const struct hcq_bundle *b, uint32_t number, const char *what,
            unsigned kinds, uint64_t size_bytes)
{
    const struct hcq_bundle_value *value = hcq_bundle_value(b, number);

    if (!value)
        return bell_fail(BELL_BAD_INDEX, "bundle: no value %u; it has %u",
                         number, b->file.n_values);
    if (!(kinds & 1u << value->kind))
        return bell_fail(BELL_BAD_VALUE, "bundle: '%.60s' is not to be %s",
                         value->name, what);
    if (value->size_bytes != size_bytes)
        return bell_fail(BELL_BAD_SIZE,
                         "bundle: '%.60s' has %llu bytes, %llu are to be %s",
                         value->name, (unsigned long long)value->size_bytes,
                         (unsigned long long)size_bytes, what);
    return BELL_OK;
}

bell_status
hcq_bundle_wait(struct hcq_bundle *b, uint64_t timeout_ns)
{
    return hcq_signal_wait(hcq_queue_timeline(b->queue), b->last_value,
                           timeout_ns);
}

static bell_status
set_symbol(struct hcq_bundle *b, struct slot *slot, const void *data)
{
    const struct hcq_bundle_value *v = &slot->value;
    uint64_t now;

    assert(slot->value.kind == HCQ_BUNDLE_SYMBOL && !slot->own);
    memcpy(&now, data, sizeof(now));
    if (now < v->shape[0] || now > v->shape[1])
        return bell_fail(
            BELL_BAD_VALUE, "bundle: '%.60s' = %lld; it goes from %llu to %llu",
            v->name, (long long)now, (unsigned long long)v->shape[0],
            (unsigned long long)v->shape[1]);
    slot->va = now;
    settle_sizes(b);
    return BELL_OK;
}

/* Where a value is: of a weight with several names, where kernels read it. */
static struct slot *
slot_of(const struct hcq_bundle *b, uint32_t number)
{
    if (b->slots[number].value.kind == HCQ_BUNDLE_WEIGHT)
        number = bundle_first_name(&b->file, number);
    return &b->slots[number];
}

/* A weight that the device reads from the file's pages gets memory of its own
 * instead. */
static bell_status
write_weight(struct hcq_bundle *b, struct slot *slot, const void *data)
{
    uint64_t size_bytes = slot->value.size_bytes;

    if (!b->weights_in_place)
        return hcq_buffer_write(b->weights, slot->va - b->weights->va, data,
                                size_bytes);
    if (!slot->own) {
        BELL_TRY(
            hcq_buffer_create(b->dev, size_bytes, HCQ_MEM_DEVICE, &slot->own));
        slot->va = slot->own->va;
    }
    return hcq_buffer_write(slot->own, 0, data, size_bytes);
}

bell_status
hcq_bundle_write(struct hcq_bundle *b, uint32_t number, const void *data,
                 uint64_t size_bytes)
{
    struct slot *slot;

    BELL_TRY(check_value(b, number, "written",
                         1u << HCQ_BUNDLE_INPUT | 1u << HCQ_BUNDLE_STATE |
                             1u << HCQ_BUNDLE_WEIGHT | 1u << HCQ_BUNDLE_SYMBOL,
                         size_bytes));
    slot = slot_of(b, number);
    if (slot->value.kind == HCQ_BUNDLE_SYMBOL)
        return set_symbol(b, slot, data);
    if (slot->value.kind == HCQ_BUNDLE_WEIGHT)
        BELL_TRY(bundle_check_renewable(slot->value.name));
    BELL_TRY(hcq_bundle_wait(b, HCQ_WAIT_WHILE_MOVING));
    if (slot->value.kind == HCQ_BUNDLE_WEIGHT)
        return write_weight(b, slot, data);
    BELL_TRY(hcq_buffer_write(slot->own, 0, data, size_bytes));
    slot->va = slot->own->va;
    slot->bound = NULL;
    slot->is_set = slot->is_written = true;
    slot->written_bytes = size_bytes;
    return BELL_OK;
}

bell_status
hcq_bundle_load_weights(struct hcq_bundle *b, const char *path)
{
    struct bundle_weights w;
    bell_status status = BELL_OK;
    uint32_t i;

    if (!b || !path)
        return bell_fail(BELL_BAD_MISSING, "bundle weights: %s is NULL",
                         b ? "the path" : "the bundle");
    BELL_TRY(bundle_weights_open(&b->file, path, &b->check, &w));
    for (i = 0; status == BELL_OK && i < w.list.n_entries; i++)
        status = hcq_bundle_write(b, w.numbers[i],
                                  (uint8_t *)w.map + w.list.entries[i].offset,
                                  w.list.entries[i].size_bytes);
    bundle_weights_close(&w);
    return status;
}

bell_status
hcq_bundle_read(struct hcq_bundle *b, uint32_t number, void *data,
                uint64_t size_bytes)
{
    const struct slot *slot;

    BELL_TRY(check_value(b, number, "read",
                         ~(1u << HCQ_BUNDLE_SYMBOL | 1u << HCQ_BUNDLE_SIZE),
                         size_bytes));
    BELL_TRY(hcq_bundle_wait(b, HCQ_WAIT_WHILE_MOVING));
    slot = slot_of(b, number);
    if (slot->value.kind == HCQ_BUNDLE_WEIGHT && !slot->own)
        return hcq_buffer_read(b->weights, slot->va - b->weights->va, data,
                               size_bytes);
    if (!slot->bound)
        return hcq_buffer_read(slot->own, 0, data, size_bytes);
    return bell_fail(BELL_BAD_STATE,
                     "bundle: '%.60s' is in a buffer of the caller's",
                     slot->value.name);
}

bell_status
hcq_bundle_bind(struct hcq_bundle *b, uint32_t number,
                const struct hcq_buffer *buf, uint64_t offset_bytes)
{
    const struct hcq_bundle_value *value = hcq_bundle_value(b, number);
    struct slot *slot;

    BELL_TRY(check_value(b, number, "bound",
                         1u << HCQ_BUNDLE_INPUT | 1u << HCQ_BUNDLE_OUTPUT,
                         value ? value->size_bytes : 0));
    if (buf && buf->dev != b->dev)
        return bell_fail(BELL_BAD_CONTEXT,
                         "bundle: '%.60s' in a buffer of another device",
                         value->name);
    if (buf && (offset_bytes > buf->size_bytes ||
                b->slots[number].most_bytes > buf->size_bytes - offset_bytes ||
                (buf->va + offset_bytes) % BUNDLE_ALIGN))
        return bell_fail(BELL_BAD_SIZE,
                         "bundle: '%.60s', %llu bytes, from %llu of %llu, a "
                         "multiple of %u",
                         value->name,
                         (unsigned long long)b->slots[number].most_bytes,
                         (unsigned long long)offset_bytes,
                         (unsigned long long)buf->size_bytes, BUNDLE_ALIGN);
    slot = &b->slots[number];
    slot->bound = buf;
    slot->va = buf ? buf->va + offset_bytes : slot->own->va;
    slot->is_set = buf || slot->is_written || value->kind == HCQ_BUNDLE_OUTPUT;
    return BELL_OK;
}

struct hcq_queue *
hcq_bundle_queue(struct hcq_bundle *b)
{
    return b->queue;
}

/* ---- running ---- */

static uint64_t
word_of(const struct hcq_bundle *b, const struct bundle_arg *a)
{
    switch (a->place) {
    case BUNDLE_ARENA:
        return b->arena->va + a->offset;
    case BUNDLE_VALUE:
        return b->slots[a->value].va + a->offset;
    case BUNDLE_TIMES:
        return b->slots[a->value].va * (uint64_t)(int64_t)a->times + a->offset;
    default:
        return a->offset;
    }
}

static void
emit_bundled(const struct hcq_bundle *b, struct hcq_cs *cs,
             const struct bundle_command *c)
{
    const struct bundle_arg *a = b->file.args + c->first_arg;
    uint64_t words[HCQ_ARGS_MAX];
    uint32_t i;

    /* as many as the program takes, which the device has checked */
    for (i = 0; i < c->n_args; i++)
        words[i] = word_of(b, &a[i]);
    if (c->op == BUNDLE_EXEC)
        hcq_cs_exec(cs, b->programs[c->kernel], words, c->n_args, c->grid,
                    NULL);
    else if (c->op == BUNDLE_COPY)
        hcq_cs_copy(cs, words[0], words[1], a->size_bytes);
    else
        hcq_cs_fill(cs, words[0], c->pattern, a->size_bytes);
}

bell_status
hcq_bundle_run(struct hcq_bundle *b, uint64_t *out_value)
{
    const struct bundle_command *commands =
        b->file.commands + b->target->first_command;
    uint32_t n = b->target->n_commands, i;
    struct hcq_cs *cs = NULL;

    for (i = 0; i < b->file.n_values; i++) {
        if (!b->slots[i].is_set)
            return bell_fail(BELL_BAD_STATE,
                             "bundle: input '%.60s' was not set",
                             b->slots[i].value.name);
        if (b->slots[i].is_written && !b->slots[i].bound &&
            b->slots[i].value.kind == HCQ_BUNDLE_INPUT &&
            b->slots[i].written_bytes != b->slots[i].value.size_bytes)
            return bell_fail(BELL_BAD_STATE,
                             "bundle: input '%.60s' was written with %llu "
                             "bytes, before its sizes changed: %llu by now",
                             b->slots[i].value.name,
                             (unsigned long long)b->slots[i].written_bytes,
                             (unsigned long long)b->slots[i].value.size_bytes);
    }
    for (i = 0; i < n; i++) {
        if (i % PER_SUBMIT == 0)
            BELL_TRY(hcq_queue_begin(b->queue, &cs));
        emit_bundled(b, cs, &commands[i]);
        if ((i + 1) % PER_SUBMIT == 0 || i + 1 == n)
            BELL_TRY(hcq_cs_submit(cs, &b->last_value));
    }
    if (out_value)
        *out_value = b->last_value;
    return BELL_OK;
}
