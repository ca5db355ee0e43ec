/* `doorbell run MODEL --check FILE`: compares outputs with those of another
 * program. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "doorbell/files.h"
#include "tensor/files/array.h"
#include "tools/onnx/onnx.h"

/* What a comparison found. */
struct difference {
    double absolute, relative; /* the largest */
    uint64_t n_beyond; /* elements that differ by more than is allowed */
    uint64_t worst;    /* where |got - want| is the largest */
    double got, want;
};

bell_status
onnx_read_output(struct bell_tensor *t, struct host_array *array)
{
    struct bell_context *ctx = bell_context_of(t);
    uint32_t i;

    memset(array, 0, sizeof(*array));
    BELL_TRY(bell_context_status(ctx));
    array->dtype = bell_dtype_of(t);
    array->ndim = bell_ndim(t);
    for (i = 0; i < array->ndim; i++)
        BELL_TRY(bell_dim_now(ctx, bell_dim_at(t, (int)i), &array->shape[i]));
    array->n_elems = bell_numel(t);
    array->size_bytes = bell_nbytes(t);
    array->data = host_alloc(array->size_bytes + 1);
    if (!array->data)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for an output");
    return bell_read(t, array->data, array->size_bytes);
}

/* The elements as float64. */
static bell_status
read_as_doubles(struct bell_tensor *t, double **out, struct host_array *array)
{
    bell_status status = onnx_read_output(bell_cast(t, BELL_FLOAT64), array);

    *out = array->data;
    return status;
}

static struct difference
compare_values(const double *got, const double *want, uint64_t n, double rtol,
               double atol)
{
    struct difference d = {0};
    uint64_t i;

    for (i = 0; i < n; i++) {
        double diff = fabs(got[i] - want[i]), size = fabs(want[i]);
        bool same = (isnan(got[i]) && isnan(want[i])) ||
                    (isinf(want[i]) && got[i] == want[i]);

        if (same)
            continue;
        if (isnan(diff))
            diff = (double)INFINITY;
        if (!(diff <= atol + rtol * size))
            d.n_beyond++;
        if (diff > d.absolute || d.n_beyond == 1) {
            d.absolute = diff > d.absolute ? diff : d.absolute;
            d.worst = i;
            d.got = got[i];
            d.want = want[i];
        }
        if (size > 0 && diff / size > d.relative)
            d.relative = diff / size;
    }
    return d;
}

static void
tell_difference(const struct bell_onnx_value *v, const struct difference *d,
                struct json *json)
{
    if (json) {
        json_object(json, NULL);
        json_str(json, "name", v->name);
        json_num(json, "largest_difference", d->absolute);
        json_num(json, "largest_relative", d->relative);
        json_uint(json, "beyond", d->n_beyond);
        json_end(json);
        return;
    }
    tool_printf("%s: largest difference %.3g, relative %.3g", v->name,
                d->absolute, d->relative);
    if (d->n_beyond)
        tool_printf("; %" PRIu64 " elements differ by more than is allowed, "
                    "element %" PRIu64 " is %.9g, expected %.9g",
                    d->n_beyond, d->worst, d->got, d->want);
    tool_printf("\n");
}

/* One output beside the file's tensor of its name. */
static bell_status
check_one_output(const struct model_run *run, struct bell_file *file,
                 uint32_t i, struct json *json, bool *same)
{
    const struct onnx_model_options *o = run->opts->model;
    const struct bell_onnx_value *v = bell_onnx_output(run->model, i);
    struct host_array got = {0}, want = {0};
    struct difference d;
    double *a, *b;
    bell_status status;

    status = read_as_doubles(run->out[i], &a, &got);
    if (status == BELL_OK)
        status = read_as_doubles(bell_file_tensor(run->ctx, file, v->name), &b,
                                 &want);
    if (status == BELL_OK &&
        (got.ndim != want.ndim ||
         memcmp(got.shape, want.shape, got.ndim * sizeof(int64_t)) != 0))
        status = bell_fail(BELL_BAD_SHAPE,
                           "output '%.80s' has %" PRIu64
                           " elements of %u axes; %.80s has %" PRIu64 " of %u",
                           v->name, got.n_elems, got.ndim, o->check,
                           want.n_elems, want.ndim);
    if (status == BELL_OK) {
        d = compare_values(a, b, got.n_elems, o->rtol, o->atol);
        *same &= d.n_beyond == 0;
        tell_difference(v, &d, json);
    }
    host_array_fini(&got);
    host_array_fini(&want);
    return status;
}

bell_status
onnx_check_outputs(const struct model_run *run, struct json *json,
                   bool *out_same)
{
    const char *path = run->opts->model->check;
    bell_status status = BELL_OK;
    struct bell_file *file;
    uint32_t i, n = 0;

    *out_same = true;
    BELL_TRY(bell_file_open(path, &file));
    for (i = 0; i < run->n_out && status == BELL_OK; i++) {
        if (!bell_file_find(file, bell_onnx_output(run->model, i)->name))
            continue;
        status = check_one_output(run, file, i, json, out_same);
        n++;
    }
    bell_file_close(file);
    if (status == BELL_OK && n == 0)
        status = bell_fail(
            BELL_BAD_NAME,
            "%s: has no tensor of an output's name; the first "
            "output is '%.80s'",
            path, run->n_out ? bell_onnx_output(run->model, 0)->name : "");
    return status;
}
