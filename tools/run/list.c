/* `doorbell run BUNDLE --list`: what is in a bundle, without a device. */
#include "tools/run/list.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/regular_file.h"
#include "hcq/hcq_bundle_file.h"
#include "base/json.h"
#include "tools/tools.h"

static const char *const kind_names[] = {"input",  "output", "state",
                                         "weight", "symbol", "size"};
static const char *const form_names[] = {"machine code", "PTX"};

static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == BUNDLE_KIND_COUNT,
              "kinds");
static_assert(sizeof(form_names) / sizeof(form_names[0]) == BUNDLE_FORM_COUNT,
              "forms");

static const char *
dtype_of(const struct bundle_value *v)
{
    uint32_t size_bytes;
    const char *name = bundle_dtype(v->dtype, &size_bytes);

    return name ? name : "?";
}

static void
print_targets(const struct bundle_file *f)
{
    uint32_t i;

    for (i = 0; i < f->n_targets; i++) {
        const struct bundle_target *t = &f->targets[i];
        const char *model = f->names + t->model;

        tool_printf("target  %s %s%s%s%s: %u kernels, %u commands, %" PRIu64
                    " bytes between kernels; %s, %s\n",
                    f->names + t->backend, f->names + t->arch,
                    model[0] ? ", only " : "", model,
                    t->math ? ", fast math" : "", t->n_kernels, t->n_commands,
                    t->arena_bytes, form_names[t->form], f->names + t->tools);
    }
}

/* The size of an axis that varies: a symbol's name or an expression; NULL: it
 * is a number. */
static const char *
name_of_axis(const struct bundle_file *f, const struct bundle_value *v,
             uint32_t axis)
{
    uint64_t d = v->shape[axis];

    if (f->header->version < BUNDLE_SIZES || !BUNDLE_IS_OF(d))
        return NULL;
    return f->names + f->values[BUNDLE_NUMBER(d)].name;
}

static void
print_value(const struct bundle_file *f, const struct bundle_value *v)
{
    static const char *const notes[] = {
        [BUNDLE_NAMED] = "",
        [BUNDLE_UNNAMED] = ", saved without a name",
        [BUNDLE_CONSTANT] = ", constant",
    };
    bool varies = false;
    uint32_t i;

    tool_printf("%-7s %s", kind_names[v->kind], f->names + v->name);
    if (v->kind >= BUNDLE_SYMBOL) {
        const uint64_t *bounds = v->shape + (v->kind == BUNDLE_SIZE ? 3 : 0);

        tool_printf(" %s, %" PRId64 " to %" PRId64 "\n", dtype_of(v),
                    (int64_t)bounds[0], (int64_t)bounds[1]);
        return;
    }
    tool_printf(" %s (", dtype_of(v));
    for (i = 0; i < v->ndim; i++) {
        const char *name = name_of_axis(f, v, i);

        varies |= name != NULL;
        if (name)
            tool_printf("%s%s", i ? ", " : "", name);
        else
            tool_printf("%s%" PRIu64, i ? ", " : "", v->shape[i]);
    }
    tool_printf(
        "), %s%" PRIu64 " bytes%s\n", varies ? "up to " : "", v->size_bytes,
        v->kind == BUNDLE_WEIGHT ? notes[bundle_naming(f->names + v->name)]
                                 : "");
}

static void
print_list(const struct bundle_file *f)
{
    uint32_t i;

    tool_printf("version %u, %" PRIu64 " bytes, %" PRIu64 " of weights%s\n",
                f->header->version, f->size_bytes, f->weight_bytes,
                f->ir_bytes > 1 ? "; kernels can be tuned" : "");
    print_targets(f);
    for (i = 0; i < f->n_values; i++)
        print_value(f, &f->values[i]);
}

static void
put_targets(const struct bundle_file *f, struct json *json)
{
    uint32_t i, k;

    json_array(json, "targets");
    for (i = 0; i < f->n_targets; i++) {
        const struct bundle_target *t = &f->targets[i];

        json_object(json, NULL);
        json_str(json, "backend", f->names + t->backend);
        json_str(json, "arch", f->names + t->arch);
        json_str(json, "model", f->names + t->model);
        json_str(json, "tools", f->names + t->tools);
        json_str(json, "form", form_names[t->form]);
        json_uint(json, "commands", t->n_commands);
        json_uint(json, "arena_bytes", t->arena_bytes);
        json_array(json, "kernels");
        for (k = 0; k < t->n_kernels; k++)
            json_str(json, NULL,
                     f->names + f->kernels[t->first_kernel + k].name);
        json_end(json);
        json_end(json);
    }
    json_end(json);
}

static void
put_values(const struct bundle_file *f, struct json *json)
{
    uint32_t i, k;

    json_array(json, "values");
    for (i = 0; i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];

        json_object(json, NULL);
        json_str(json, "name", f->names + v->name);
        json_str(json, "kind", kind_names[v->kind]);
        json_str(json, "dtype", dtype_of(v));
        json_array(json, "shape");
        for (k = 0; k < v->ndim; k++) {
            const char *name = name_of_axis(f, v, k);
            if (name)
                json_str(json, NULL, name);
            else
                json_uint(json, NULL, v->shape[k]);
        }
        json_end(json);
        if (v->kind >= BUNDLE_SYMBOL) {
            k = v->kind == BUNDLE_SIZE ? 3 : 0;
            json_int(json, "min", (int64_t)v->shape[k]);
            json_int(json, "max", (int64_t)v->shape[k + 1]);
        } else {
            json_uint(json, "bytes", v->size_bytes);
        }
        if (v->kind == BUNDLE_WEIGHT)
            json_bool(json, "renewable",
                      bundle_naming(f->names + v->name) == BUNDLE_NAMED);
        json_end(json);
    }
    json_end(json);
}

static int
print_document(const struct bundle_file *f)
{
    struct json json;

    json_init(&json);
    json_uint(&json, "version", f->header->version);
    json_uint(&json, "file_bytes", f->size_bytes);
    json_uint(&json, "weight_bytes", f->weight_bytes);
    json_bool(&json, "tunable", f->ir_bytes > 1);
    put_targets(f, &json);
    put_values(f, &json);
    return tool_print_json(&json);
}

static bell_status
read_whole(const char *path, const struct regular_file *file, uint8_t *data)
{
    uint64_t at = 0;
    ssize_t got;

    while (at < file->size_bytes) {
        got = read(file->fd, data + at, file->size_bytes - at);
        if (got == 0)
            return bell_fail(BELL_E_IO, "%s: it became shorter", path);
        if (got > 0)
            at += (uint64_t)got;
        else if (errno != EINTR)
            return bell_fail_file(path, "cannot read");
    }
    return BELL_OK;
}

/* The file's bytes where tables may lie; owned. */
static bell_status
read_aligned(const char *path, void **out_data, uint64_t *out_bytes)
{
    struct regular_file file;
    bell_status status;
    void *data;

    BELL_TRY(regular_file_open(path, &file));
    data = host_aligned(BUNDLE_ALIGN,
                        (file.size_bytes / BUNDLE_ALIGN + 1) * BUNDLE_ALIGN);
    status = data ? read_whole(path, &file, data)
                  : bell_fail(BELL_E_NO_MEMORY, "%s: out of memory to read it",
                              path);
    close(file.fd);
    if (status != BELL_OK) {
        host_free(data);
        return status;
    }
    *out_data = data;
    *out_bytes = file.size_bytes;
    return BELL_OK;
}

int
run_list(const char *path, const struct bundle_check *check, bool as_json)
{
    struct bundle_file f;
    uint64_t size_bytes;
    bell_status status;
    void *data;
    int code = TOOL_OK;

    status = read_aligned(path, &data, &size_bytes);
    if (status != BELL_OK)
        return tool_fail_input(as_json, status);
    if (check->fn)
        status = check->fn(check->user, path, data, size_bytes);
    if (status == BELL_OK) {
        status = bundle_file_open(data, size_bytes, &f);
        if (status != BELL_OK)
            bell_error_prefix("%s", path);
    }
    if (status != BELL_OK) {
        code = tool_fail_input(as_json, status);
    } else if (as_json) {
        code = print_document(&f);
    } else {
        print_list(&f);
    }
    host_free(data);
    return code;
}
