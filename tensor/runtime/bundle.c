/* Writing bundles. */
#include "tensor/runtime/bundle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/growing_bytes.h"
#include "base/map.h"
#include "base/new_file.h"
#include "tensor/runtime/capture.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/tape.h"
#include "tensor/core/tensor_internal.h"

/* What a value has in DATA. */
struct datum {
    struct tensor_buffer *buf; /* a reference, or NULL */
    bool is_constant;
};

struct rt_bundle {
    struct bytes sections[BUNDLE_DATA];
    struct datum *data; /* by value */
    size_t n_values, cap_data;
    uint64_t data_bytes;
    struct map constant_of; /* hash of one's content -> number of value */
    struct bytes ir;
    bool keeps_ir, has_symbols, has_sizes, has_steps;
};

static bell_status
append(struct bytes *to, const void *data, size_t n)
{
    bytes_add(to, data, n);
    return to->failed
               ? bell_fail(BELL_E_NO_MEMORY, "out of memory for a bundle")
               : BELL_OK;
}

/* A name's place; the same for the same name. */
static bell_status
add_bundle_name(struct rt_bundle *b, const char *name, uint32_t *out)
{
    struct bytes *names = &b->sections[BUNDLE_NAMES];
    size_t at;

    for (at = 0; at < names->n;
         at += strlen((const char *)names->data + at) + 1) {
        if (strcmp((const char *)names->data + at, name) == 0) {
            *out = (uint32_t)at;
            return BELL_OK;
        }
    }
    *out = (uint32_t)at;
    return append(names, name, strlen(name) + 1);
}

static uint32_t
count(const struct rt_bundle *b, enum bundle_section_kind kind,
      size_t row_bytes)
{
    return (uint32_t)(b->sections[kind].n / row_bytes);
}

bell_status
rt_bundle_create(bool keeps_ir, struct rt_bundle **out)
{
    struct rt_bundle *b = host_calloc(1, sizeof(*b));
    bell_status status;
    uint32_t empty;

    if (!b)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a bundle");
    map_init(&b->constant_of);
    b->keeps_ir = keeps_ir;
    status = add_bundle_name(b, "", &empty);
    if (status == BELL_OK)
        status = append(&b->ir, "", 1);
    if (status != BELL_OK) {
        rt_bundle_destroy(b);
        return status;
    }
    *out = b;
    return BELL_OK;
}

void
rt_bundle_destroy(struct rt_bundle *b)
{
    size_t i;

    if (!b)
        return;
    for (i = 0; i < b->n_values; i++) {
        if (b->data[i].buf)
            tensor_buffer_release(b->data[i].buf);
    }
    for (i = 0; i < BUNDLE_DATA; i++)
        host_free(b->sections[i].data);
    host_free(b->data);
    host_free(b->ir.data);
    map_fini(&b->constant_of);
    host_free(b);
}

/* ---- values ---- */

static bell_status
add_value(struct rt_bundle *b, const struct bundle_value *v,
          struct tensor_buffer *data)
{
    if (host_grow((void **)&b->data, &b->cap_data, b->n_values + 1,
                  sizeof(*b->data)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a bundle");
    b->data[b->n_values++] = (struct datum){data, false};
    if (data)
        tensor_buffer_retain(data);
    return append(&b->sections[BUNDLE_VALUES], v, sizeof(*v));
}

bell_status
rt_bundle_value(struct rt_bundle *b, enum bundle_kind kind, const char *name,
                enum uop_dtype dtype, const int64_t *shape, uint32_t ndim,
                struct tensor_buffer *data, uint32_t *out_number)
{
    struct bundle_value v = {
        .kind = kind,
        .dtype = dtype,
        .ndim = ndim,
        .size_bytes = uop_dtype_infos[dtype].size_bytes,
        .data_offset = BUNDLE_NO_DATA,
    };
    uint32_t i;

    for (i = 0; i < ndim; i++) {
        v.shape[i] = (uint64_t)shape[i];
        v.size_bytes *= (uint64_t)shape[i];
    }
    BELL_TRY(add_bundle_name(b, name, &v.name));
    if (data) {
        v.data_offset = b->data_bytes;
        b->data_bytes += align_up(v.size_bytes, BUNDLE_ALIGN);
    }
    *out_number = (uint32_t)b->n_values;
    return add_value(b, &v, data);
}

bell_status
rt_bundle_alias(struct rt_bundle *b, uint32_t number, const char *name)
{
    struct bundle_value v;

    memcpy(&v, b->sections[BUNDLE_VALUES].data + number * sizeof(v), sizeof(v));
    BELL_TRY(add_bundle_name(b, name, &v.name));
    return add_value(b, &v, NULL);
}

/* Hash of a constant's content. */
static uint64_t
hash_of(const struct tensor_buffer *data, const uint8_t *bytes)
{
    return hash_bytes(bytes, data->size_bytes, data->dtype);
}

/* Has value number `i` these bytes, which are data's? */
static bell_status
is_same_code(const struct rt_bundle *b, size_t i,
             const struct tensor_buffer *data, const uint8_t *bytes,
             bool *out_same)
{
    struct tensor_buffer *other = b->data[i].buf;
    bell_status status;
    uint8_t *own;

    *out_same = false;
    if (other->size_bytes != data->size_bytes || other->dtype != data->dtype)
        return BELL_OK;
    own = host_alloc(data->size_bytes + 1);
    if (!own)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a bundle");
    status = tensor_buffer_read(other, own, data->size_bytes);
    *out_same = status == BELL_OK && memcmp(own, bytes, data->size_bytes) == 0;
    host_free(own);
    return status;
}

/* The constant with that content, which is added if there is none, or another
 * of the same hash. */
static bell_status
find_constant(struct rt_bundle *b, struct tensor_buffer *data,
              const uint8_t *bytes, uint32_t *out_number)
{
    uint64_t hash = hash_of(data, bytes);
    const uint64_t *found = map_get(&b->constant_of, hash);
    int64_t n = (int64_t)data->n_elems;
    char name[32];
    bool same;

    if (found) {
        BELL_TRY(is_same_code(b, (size_t)*found, data, bytes, &same));
        if (same) {
            *out_number = (uint32_t)*found;
            return BELL_OK;
        }
    }
    snprintf(name, sizeof(name), "data.%zu", b->n_values);
    BELL_TRY(rt_bundle_value(b, BUNDLE_WEIGHT, name, data->dtype, &n, 1, data,
                             out_number));
    b->data[*out_number].is_constant = true;
    if (map_put(&b->constant_of, hash, *out_number) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a bundle");
    return BELL_OK;
}

/* What the host reads of it (host_free). */
static bell_status
read_bytes(struct tensor_buffer *data, uint8_t **out)
{
    bell_status status;

    *out = host_alloc(data->size_bytes + 1);
    if (!*out)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a bundle");
    status = tensor_buffer_read(data, *out, data->size_bytes);
    if (status != BELL_OK)
        host_free(*out);
    return status;
}

bell_status
rt_bundle_constant(struct rt_bundle *b, struct tensor_buffer *data,
                   uint32_t *out_number)
{
    bell_status status;
    uint8_t *bytes;
    size_t i;

    for (i = 0; i < b->n_values; i++) {
        if (b->data[i].is_constant && b->data[i].buf == data) {
            *out_number = (uint32_t)i;
            return BELL_OK;
        }
    }
    BELL_TRY(read_bytes(data, &bytes));
    status = find_constant(b, data, bytes, out_number);
    host_free(bytes);
    return status;
}

bell_status
rt_bundle_symbol(struct rt_bundle *b, const char *name, int64_t min,
                 int64_t max, uint32_t *out_number)
{
    struct bundle_value *values;

    b->has_symbols = true;
    BELL_TRY(rt_bundle_value(b, BUNDLE_SYMBOL, name, UOP_I64, NULL, 0, NULL,
                             out_number));
    values = (void *)b->sections[BUNDLE_VALUES].data;
    values[*out_number].shape[0] = (uint64_t)min;
    values[*out_number].shape[1] = (uint64_t)max;
    return BELL_OK;
}

bell_status
rt_bundle_size(struct rt_bundle *b, const char *name, enum bundle_size_op op,
               uint64_t x, uint64_t y, uint32_t *out_number)
{
    struct bundle_file f = {.values =
                                (const void *)b->sections[BUNDLE_VALUES].data};
    struct bundle_value *v;
    int64_t of_x[2], of_y[2], bounds[2];

    bundle_bounds(&f, x, of_x);
    bundle_bounds(&f, y, of_y);
    if (!bundle_size_bounds(op, of_x, of_y, bounds))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "the size %.60s is too large, or a divisor in it may "
                         "be 0",
                         name);
    b->has_sizes = true;
    BELL_TRY(rt_bundle_value(b, BUNDLE_SIZE, name, UOP_I64, NULL, 0, NULL,
                             out_number));
    v = (struct bundle_value *)(void *)b->sections[BUNDLE_VALUES].data +
        *out_number;
    v->shape[0] = op;
    v->shape[1] = x;
    v->shape[2] = y;
    memcpy(v->shape + 3, bounds, sizeof(bounds));
    return BELL_OK;
}

bell_status
rt_bundle_set_sizes(struct rt_bundle *b, uint32_t value, const uint64_t *shape)
{
    struct bundle_value *values = (void *)b->sections[BUNDLE_VALUES].data;
    const struct bundle_file f = {.values = values};
    struct bundle_value *v = &values[value];
    int64_t bounds[2];
    uint32_t i;

    b->has_sizes = true;
    v->size_bytes = uop_dtype_infos[v->dtype].size_bytes;
    for (i = 0; i < v->ndim; i++) {
        bundle_bounds(&f, shape[i], bounds);
        v->shape[i] = shape[i];
        if (bounds[0] < (BUNDLE_IS_OF(shape[i]) ? 1 : 0) ||
            __builtin_mul_overflow(v->size_bytes, (uint64_t)bounds[1],
                                   &v->size_bytes))
            return bell_fail(BELL_E_UNSUPPORTED,
                             "axis %u goes from %lld to %lld", i,
                             (long long)bounds[0], (long long)bounds[1]);
    }
    return BELL_OK;
}

/* ---- targets ---- */

/* What a search needs of a kernel; of one that there is nothing to choose of,
 * nothing. */
static bell_status
add_ir(struct rt_bundle *b, const struct tensor_runtime *rt,
       const struct rt_kernel *kernel, uint32_t *out_ir)
{
    bell_status status;
    char *text;

    *out_ir = 0;
    if (!b->keeps_ir || kernel->sink->src[0]->op == UOP_SINK ||
        kernel->sink->src[0]->op == UOP_CUSTOM || b->ir.n > UINT32_MAX)
        return BELL_OK;
    BELL_TRY(uop_print(&rt->kernels, &kernel->sink, 1, &text));
    *out_ir = (uint32_t)b->ir.n;
    status = append(&b->ir, text, strlen(text) + 1);
    host_free(text);
    return status;
}

/* Steps that a processor asks about, as a bundle says them; 0: not known. */
static uint16_t
steps_of(const struct tensor_runtime *rt, uint32_t max_steps)
{
    return rt->target.lower.is_gpu || max_steps > UINT16_MAX
               ? 0
               : (uint16_t)max_steps;
}

static bell_status
add_kernel(struct rt_bundle *b, const struct tensor_runtime *rt,
           const struct rt_kernel *kernel)
{
    struct bytes *objects = &b->sections[BUNDLE_OBJECTS];
    const struct hcq_program *program = kernel->program;
    struct bundle_kernel k = {
        .n_bufs = program->n_bufs,
        .n_vals = (uint16_t)program->n_vals,
        .max_steps = steps_of(rt, kernel->facts.max_steps),
        .shared_bytes = program->shared_bytes,
        .object_offset = align_up(objects->n, BUNDLE_ALIGN),
        .object_bytes = kernel->binary.file.size_bytes,
    };

    assert(program->n_vals <= HCQ_ARGS_MAX);
    b->has_steps |= k.max_steps > 0;
    memcpy(k.local, program->local, sizeof(k.local));
    BELL_TRY(add_bundle_name(b, kernel->entry, &k.name));
    BELL_TRY(add_ir(b, rt, kernel, &k.ir));
    BELL_TRY(append(objects, NULL, k.object_offset - objects->n));
    BELL_TRY(append(objects, kernel->binary.file.data,
                    kernel->binary.file.size_bytes));
    return append(&b->sections[BUNDLE_KERNELS], &k, sizeof(k));
}

static bell_status
add_arg(struct rt_bundle *b, const struct rt_place *place, uint64_t offset,
        uint64_t size_bytes, uint32_t access)
{
    struct bundle_arg a = {
        .place = place->place,
        .value = place->value,
        .access = access,
        .times = place->times,
        .offset = place->offset + offset,
        .size_bytes = size_bytes,
    };

    return append(&b->sections[BUNDLE_ARGS], &a, sizeof(a));
}

static bell_status
add_launch_arg(struct rt_bundle *b, const struct rt_bundle_run *run,
               const struct rt_arg *arg)
{
    static const struct rt_place arena = {BUNDLE_ARENA, 0, 0};
    static const struct rt_place word = {BUNDLE_WORD, 0, 0};
    const struct bundle_value *values =
        (const void *)b->sections[BUNDLE_VALUES].data;
    const struct rt_place *place;
    uint32_t access = BUNDLE_READ;

    if (arg->slot == RT_SLOT_NONE) /* it has no address */
        return add_arg(b, &word, arg->value, 0, 0);
    if (arg->slot == RT_SLOT_ARENA)
        place = &arena;
    else if (arg->slot >= RT_SLOT_KEPT)
        place = &run->kept[arg->slot - RT_SLOT_KEPT];
    else
        place = &run->slots[arg->slot];
    if (place->place == BUNDLE_TIMES)
        return add_arg(b, place, 0, 0, 0);
    assert(place->place != BUNDLE_WORD); /* nothing is fed */
    if (arg->is_written) /* of what was there before, a part may stay */
        access =
            BUNDLE_WRITE | (place->place == BUNDLE_VALUE &&
                                    values[place->value].kind == BUNDLE_STATE
                                ? BUNDLE_READ
                                : 0);
    return add_arg(b, place, arg->value, arg->size_bytes, access);
}

static bell_status
add_launches(struct rt_bundle *b, const struct rt_bundle_run *run,
             const struct rt_tape *tape, const struct tensor_runtime *rt)
{
    const struct rt_arg *args;
    uint32_t kernel, n, i;
    size_t l;

    for (l = 0; rt_tape_launch(tape, l, &kernel, &args, &n); l++) {
        struct bundle_command c = {
            .op = BUNDLE_EXEC,
            .kernel = kernel,
            .first_arg = count(b, BUNDLE_ARGS, sizeof(struct bundle_arg)),
            .n_args = n,
        };
        memcpy(c.grid, rt->kernel_list[kernel].facts.grid, sizeof(c.grid));
        BELL_TRY(append(&b->sections[BUNDLE_COMMANDS], &c, sizeof(c)));
        for (i = 0; i < n; i++)
            BELL_TRY(add_launch_arg(b, run, &args[i]));
    }
    return BELL_OK;
}

static bell_status
add_copy(struct rt_bundle *b, const struct rt_bundle_copy *copy)
{
    struct bundle_command c = {
        .op = BUNDLE_COPY,
        .first_arg = count(b, BUNDLE_ARGS, sizeof(struct bundle_arg)),
        .n_args = 2,
    };

    BELL_TRY(append(&b->sections[BUNDLE_COMMANDS], &c, sizeof(c)));
    BELL_TRY(add_arg(b, &copy->to, 0, copy->size_bytes, BUNDLE_WRITE));
    return add_arg(b, &copy->from, 0, copy->size_bytes, BUNDLE_READ);
}

/* Code for this very processor runs on no other. */
static bell_status
describe(struct rt_bundle *b, const struct tensor_runtime *rt,
         struct bundle_target *t)
{
    bool is_own =
        !rt->target.lower.is_gpu && !(rt->info.flags & HCQ_DEVICE_NULL);

    t->form = rt->target.is_simulated && strcmp(rt->info.backend, "NV") == 0
                  ? BUNDLE_PTX
                  : BUNDLE_MACHINE_CODE;
    BELL_TRY(add_bundle_name(b, rt->info.backend, &t->backend));
    BELL_TRY(add_bundle_name(b, rt->info.arch, &t->arch));
    BELL_TRY(add_bundle_name(b, is_own ? rt->info.model : "", &t->model));
    return add_bundle_name(b, rt->target.lower.name, &t->tools);
}

bell_status
rt_bundle_target(struct rt_bundle *b, const struct rt_bundle_run *run)
{
    const struct tensor_runtime *rt = rt_capture_runtime(run->capture);
    struct bundle_target t = {
        .first_kernel = count(b, BUNDLE_KERNELS, sizeof(struct bundle_kernel)),
        .first_command =
            count(b, BUNDLE_COMMANDS, sizeof(struct bundle_command)),
        .math = b->keeps_ir ? rt->target.math : 0,
        .arena_bytes = run->arena_bytes,
    };
    struct rt_capture_parts parts;
    size_t k;
    uint32_t i;

    rt_capture_parts(run->capture, &parts);
    BELL_TRY(describe(b, rt, &t));
    for (k = 0; k < rt->n_kernels; k++)
        BELL_TRY(add_kernel(b, rt, &rt->kernel_list[k]));
    BELL_TRY(add_launches(b, run, parts.tape, rt));
    for (i = 0; i < run->n_copies; i++)
        BELL_TRY(add_copy(b, &run->copies[i]));
    t.n_kernels = (uint32_t)rt->n_kernels;
    t.n_commands = count(b, BUNDLE_COMMANDS, sizeof(struct bundle_command)) -
                   t.first_command;
    return append(&b->sections[BUNDLE_TARGETS], &t, sizeof(t));
}

/* ---- the file ---- */

/* What is written: sections, of which DATA is the values'. */
struct file {
    struct bytes sections[BUNDLE_SECTION_COUNT + 1];
    uint32_t version, n_sections;
    const struct rt_bundle *values; /* NULL: DATA is as in `sections` */
    const char *path;
    int fd;
};

static struct bundle_section *
section_of(struct bundle_header_2 *h, uint32_t kind)
{
    return kind == BUNDLE_IR ? &h->ir : &h->header.sections[kind];
}

/* Returns the header's bytes. */
static size_t
place_sections(const struct file *f, struct bundle_header_2 *h)
{
    size_t header_bytes =
        f->n_sections > BUNDLE_SECTION_COUNT ? sizeof(*h) : sizeof(h->header);
    uint64_t at = header_bytes;
    uint32_t i;

    memcpy(h->header.magic, BUNDLE_MAGIC, sizeof(h->header.magic));
    h->header.version = f->version;
    h->header.n_sections = f->n_sections;
    for (i = 0; i < f->n_sections; i++) {
        struct bundle_section *s = section_of(h, i);
        s->size_bytes = f->sections[i].n;
        s->offset = align_up(at, i == BUNDLE_OBJECTS || i == BUNDLE_DATA
                                     ? BUNDLE_PAGE
                                     : BUNDLE_ALIGN);
        at = s->offset + s->size_bytes;
    }
    h->header.file_bytes = at;
    return header_bytes;
}

static bell_status
fill(const struct file *f, struct bundle_header_2 *h, size_t header_bytes,
     uint8_t *map)
{
    const struct rt_bundle *b = f->values;
    const struct bundle_value *values =
        (const void *)f->sections[BUNDLE_VALUES].data;
    size_t i;

    for (i = 0; i < f->n_sections; i++) {
        if (f->sections[i].n && f->sections[i].data)
            memcpy(map + section_of(h, (uint32_t)i)->offset,
                   f->sections[i].data, f->sections[i].n);
    }
    for (i = 0; b && i < b->n_values; i++) {
        if (b->data[i].buf)
            BELL_TRY(tensor_buffer_read(
                b->data[i].buf,
                map + h->header.sections[BUNDLE_DATA].offset +
                    values[i].data_offset,
                b->data[i].buf->size_bytes));
    }
    bundle_link_objects(map, &h->header);
    for (i = 0; i < f->n_sections; i++) {
        struct bundle_section *s = section_of(h, (uint32_t)i);
        s->checksum = bundle_checksum(map + s->offset, s->size_bytes);
    }
    h->header.checksum = bundle_checksum(h, header_bytes);
    memcpy(map, h, header_bytes);
    return BELL_OK;
}

/* Room is there before anything is stored through the mapping. */
static bell_status
fill_file(const struct file *f)
{
    struct bundle_header_2 h;
    size_t header_bytes, file_bytes;
    bell_status status;
    uint8_t *map;
    int error;

    memset(&h, 0, sizeof(h));
    header_bytes = place_sections(f, &h);
    file_bytes = h.header.file_bytes;
    error = posix_fallocate(f->fd, 0, (off_t)file_bytes);
    if (error)
        return bell_fail_errno(BELL_E_IO, error, "%s: %zu bytes: %s", f->path,
                               file_bytes, strerror(error));
    map = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED)
        return bell_fail_errno(BELL_E_IO, errno, "%s: mmap: %s", f->path,
                               strerror(errno));
    status = fill(f, &h, header_bytes, map);
    munmap(map, file_bytes);
    return status;
}

static bell_status
write_file(struct file *f, const char *path)
{
    struct new_file file;
    bell_status status;

    BELL_TRY(new_file_create(path, &file));
    f->fd = file.fd;
    f->path = file.path;
    status = fill_file(f);
    if (status == BELL_OK)
        status = new_file_keep(&file);
    if (status != BELL_OK)
        new_file_drop(&file);
    close(file.fd);
    return status;
}

/* May two values not have one name? An output is not written and an input not
 * read, so these two are told apart; two weights are one of several names. */
static bool
is_clash(const struct bundle_value *a, const struct bundle_value *b)
{
    bool both_ends = a->kind <= BUNDLE_OUTPUT && b->kind <= BUNDLE_OUTPUT;

    if (a->name != b->name)
        return false;
    return both_ends ? a->kind == b->kind : true;
}

bell_status
rt_bundle_check_names(const struct rt_bundle *b)
{
    static const char *const kinds[BUNDLE_KIND_COUNT] = {
        [BUNDLE_INPUT] = "input",   [BUNDLE_OUTPUT] = "output",
        [BUNDLE_STATE] = "state",   [BUNDLE_WEIGHT] = "weight",
        [BUNDLE_SYMBOL] = "symbol", [BUNDLE_SIZE] = "size",
    };
    const struct bundle_value *values =
        (const void *)b->sections[BUNDLE_VALUES].data;
    const char *names = (const char *)b->sections[BUNDLE_NAMES].data;
    size_t i, k;

    for (i = 0; i < b->n_values; i++) {
        const char *name = names + values[i].name;

        if (values[i].kind == BUNDLE_WEIGHT || values[i].kind == BUNDLE_SIZE)
            continue;
        if (strchr(name, '='))
            return bell_fail(BELL_BAD_NAME, "%s '%.60s' has '=' in its name",
                             kinds[values[i].kind], name);
        for (k = 0; k < b->n_values; k++) {
            if (k != i && values[k].kind != BUNDLE_SIZE &&
                is_clash(&values[i], &values[k]))
                return bell_fail(
                    BELL_BAD_NAME, "%s and %s are both called '%.60s'",
                    kinds[values[i].kind], kinds[values[k].kind], name);
        }
    }
    return BELL_OK;
}

bell_status
rt_bundle_write(const struct rt_bundle *b, const char *path)
{
    struct file f = {.values = b,
                     .n_sections = BUNDLE_SECTION_COUNT,
                     .version = b->has_steps     ? BUNDLE_STEPS
                                : b->has_sizes   ? BUNDLE_SIZES
                                : b->has_symbols ? BUNDLE_SYMBOLS
                                : b->keeps_ir    ? BUNDLE_WITH_IR
                                                 : BUNDLE_VERSION};

    memcpy(f.sections, b->sections, sizeof(b->sections));
    f.sections[BUNDLE_DATA] = (struct bytes){.n = b->data_bytes};
    if (f.version >= BUNDLE_WITH_IR)
        f.sections[f.n_sections++] = b->ir;
    return write_file(&f, path);
}

/* ---- other kernels in a bundle ---- */

/* The kernels' objects one after the other, with the new ones. */
static bell_status
replace_objects(const struct bundle_file *from,
                const struct rt_bundle_new *list, struct rt_bundle *b)
{
    struct bytes *objects = &b->sections[BUNDLE_OBJECTS];
    struct bundle_kernel *kernels = (void *)b->sections[BUNDLE_KERNELS].data;
    uint32_t i;

    for (i = 0; i < from->n_kernels; i++) {
        struct bundle_kernel *k = &kernels[i];
        const void *object = from->objects + k->object_offset;

        if (list[i].binary) {
            object = list[i].binary->file.data;
            k->object_bytes = list[i].binary->file.size_bytes;
            k->shared_bytes = list[i].binary->shared_bytes;
            memcpy(k->local, list[i].binary->local, sizeof(k->local));
            k->max_steps = 0; /* nobody counted those of the other */
            BELL_TRY(add_bundle_name(b, list[i].entry, &k->name));
        }
        k->object_offset = align_up(objects->n, BUNDLE_ALIGN);
        BELL_TRY(append(objects, NULL, k->object_offset - objects->n));
        BELL_TRY(append(objects, object, k->object_bytes));
    }
    return BELL_OK;
}

static void
replace_grids(const struct bundle_file *from, const struct rt_bundle_new *list,
              struct rt_bundle *b)
{
    struct bundle_command *commands = (void *)b->sections[BUNDLE_COMMANDS].data;
    uint32_t t, i;

    for (t = 0; t < from->n_targets; t++) {
        const struct bundle_target *target = &from->targets[t];
        for (i = 0; i < target->n_commands; i++) {
            struct bundle_command *c = &commands[target->first_command + i];
            const struct rt_bundle_new *other;
            if (c->op != BUNDLE_EXEC)
                continue;
            other = &list[target->first_kernel + c->kernel];
            if (other->binary)
                memcpy(c->grid, other->grid, sizeof(c->grid));
        }
    }
}

bell_status
rt_bundle_rewrite(const struct bundle_file *from,
                  const struct rt_bundle_new *list, const char *path)
{
    struct file f = {.version = from->header->version,
                     .n_sections = from->header->n_sections};
    struct rt_bundle b = {.n_values = 0};
    bell_status status = BELL_OK;
    uint32_t i;

    for (i = 0; status == BELL_OK && i < BUNDLE_OBJECTS; i++) {
        const struct bundle_section *s = &from->header->sections[i];
        status = append(&b.sections[i], from->data + s->offset, s->size_bytes);
    }
    if (status == BELL_OK)
        status = replace_objects(from, list, &b);
    if (status == BELL_OK) {
        replace_grids(from, list, &b);
        memcpy(f.sections, b.sections, sizeof(b.sections));
        /* read only */
        f.sections[BUNDLE_DATA].data =
            (uint8_t *)(uintptr_t)from->data +
            from->header->sections[BUNDLE_DATA].offset;
        f.sections[BUNDLE_DATA].n =
            from->header->sections[BUNDLE_DATA].size_bytes;
        f.sections[BUNDLE_IR].data = (uint8_t *)(uintptr_t)from->ir;
        f.sections[BUNDLE_IR].n = from->ir_bytes;
        status = write_file(&f, path);
    }
    for (i = 0; i < BUNDLE_DATA; i++)
        host_free(b.sections[i].data);
    return status;
}
