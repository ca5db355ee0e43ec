/* Arrays as text and as JSON. */
#include "tools/eval/eval_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"
#include "base/json.h"

#define EDGE_ITEMS  3
#define SUMMARISE   1000 /* elements */
#define LINE_CHARS  75
#define MAX_DIGITS  8 /* after the point */
#define NUMBER_SIZE 400

/* ---- elements --------------------------------------------------------- */

static bool
is_float(enum bell_dtype dtype)
{
    return dtype >= BELL_FLOAT16;
}

/* Element k into *out, an int64_t or double. */
static void
load(const struct host_array *array, size_t k, void *out)
{
    struct ref_array one = {
        .dtype = (enum uop_dtype)array->dtype, .n = 1, .data = out};

    ref_from_bytes(&one, (const char *)array->data +
                             k * bell_dtype_size(array->dtype));
}

static double
float_at(const struct host_array *array, size_t k)
{
    double value;

    load(array, k, &value);
    return value;
}

/* An integer or bool; of uint64 its bits. */
static int64_t
int_at(const struct host_array *array, size_t k)
{
    int64_t value;

    load(array, k, &value);
    return value;
}

/* ---- format ----------------------------------------------------------- */

/* How the numbers of one array are written. */
struct shown_format {
    const struct host_array *array;
    bool scientific;
    int digits; /* after the point */
    int width;
};

/* Fewest significant digits that denote the value in its dtype. */
static int
needed_digits(const struct host_array *array, double value)
{
    double slack =
        fabs(value) *
        ldexp(1.0, -2 - (int)uop_dtype_infos[array->dtype].fraction_bits);
    char buf[64];
    int p;

    for (p = 1; p < 17; p++) {
        snprintf(buf, sizeof(buf), "%.*e", p - 1, value);
        if (fabs(strtod(buf, NULL) - value) <= slack)
            break;
    }
    return p;
}

/* Exponent of ten of the value written with p digits. */
static int
decimal_exponent(double value, int p)
{
    char buf[64];

    snprintf(buf, sizeof(buf), "%.*e", p - 1, value);
    return atoi(strchr(buf, 'e') + 1);
}

/* Whether a summary leaves out this place of an axis. */
static bool
is_skipped(const struct host_array *array, uint32_t axis, int64_t i,
           bool summary)
{
    int64_t size = array->shape[axis];

    return summary && size > 2 * EDGE_ITEMS && i >= EDGE_ITEMS &&
           i < size - EDGE_ITEMS;
}

/* Calls `visit` for each element that is shown: all, or the edges of each
 * axis. */
static void
for_shown(const struct host_array *array, bool summary,
          struct shown_format *format,
          void (*visit)(struct shown_format *format, size_t k))
{
    int64_t idx[BELL_MAX_RANK] = {0};
    uint32_t i = 1;

    if (array->n_elems == 0)
        return;
    while (i > 0) {
        size_t k = 0;
        for (i = 0; i < array->ndim; i++)
            k = k * (size_t)array->shape[i] + (size_t)idx[i];
        visit(format, k);
        for (i = array->ndim; i > 0; i--) {
            do {
                idx[i - 1]++;
            } while (is_skipped(array, i - 1, idx[i - 1], summary));
            if (idx[i - 1] < array->shape[i - 1])
                break;
            idx[i - 1] = 0;
        }
    }
}

/* Greatest and smallest magnitudes, and digits, of the finite numbers. */
struct range {
    struct shown_format format; /* first: visit functions cast */
    double max, min;
    int sig, decimals;
};

static void
widen_range(struct shown_format *format, size_t k)
{
    struct range *r = (struct range *)format;
    double value = fabs(float_at(format->array, k));
    int p, decimals;

    if (!isfinite(value) || value == 0)
        return;
    p = needed_digits(format->array, value);
    decimals = p - 1 - decimal_exponent(value, p);
    r->max = fmax(r->max, value);
    r->min = r->min == 0 ? value : fmin(r->min, value);
    r->sig = p > r->sig ? p : r->sig;
    r->decimals = decimals > r->decimals ? decimals : r->decimals;
}

static void
write_number(const struct shown_format *f, size_t k, char *buf)
{
    double value;

    if (f->array->dtype == BELL_BOOL) {
        snprintf(buf, NUMBER_SIZE, "%s",
                 int_at(f->array, k) ? "True" : "False");
    } else if (f->array->dtype == BELL_UINT64) {
        snprintf(buf, NUMBER_SIZE, "%" PRIu64, (uint64_t)int_at(f->array, k));
    } else if (!is_float(f->array->dtype)) {
        snprintf(buf, NUMBER_SIZE, "%" PRId64, int_at(f->array, k));
    } else {
        value = float_at(f->array, k);
        if (isnan(value))
            snprintf(buf, NUMBER_SIZE, "nan");
        else if (isinf(value))
            snprintf(buf, NUMBER_SIZE, value < 0 ? "-inf" : "inf");
        else if (f->scientific)
            snprintf(buf, NUMBER_SIZE, "%#.*e", f->digits, value);
        else
            snprintf(buf, NUMBER_SIZE, "%#.*f", f->digits, value);
    }
}

/* Zeros at the end of the fraction become blanks, so that points align. */
static void
blank_zeros(const struct shown_format *f, char *buf)
{
    size_t n = strlen(buf);

    if (!is_float(f->array->dtype) || f->scientific || !strchr(buf, '.'))
        return;
    while (n > 0 && buf[n - 1] == '0')
        buf[--n] = ' ';
}

static void
widen_column(struct shown_format *format, size_t k)
{
    char buf[NUMBER_SIZE];
    int width;

    write_number(format, k, buf);
    width = (int)strlen(buf);
    if (width > format->width)
        format->width = width;
}

static struct shown_format
choose_format(const struct host_array *array, bool summary)
{
    struct range r = {.format = {.array = array}};

    if (is_float(array->dtype)) {
        for_shown(array, summary, &r.format, widen_range);
        r.format.scientific =
            r.max >= 1e8 || (r.min > 0 && r.min < 1e-4) ||
            (r.min > 0 && r.max / r.min > 1000 && r.max >= 1e5);
        r.format.digits = r.format.scientific ? r.sig - 1 : r.decimals;
        if (r.format.digits > MAX_DIGITS)
            r.format.digits = MAX_DIGITS;
        if (r.format.digits < 0)
            r.format.digits = 0;
    }
    for_shown(array, summary, &r.format, widen_column);
    return r.format;
}

/* ---- text ------------------------------------------------------------- */

/* The innermost axis, folded. `indent` brackets are open. */
static void
print_shown_row(FILE *out, const struct shown_format *f, size_t k,
                uint32_t indent, bool summary)
{
    uint32_t axis = f->array->ndim - 1;
    int64_t size = f->array->shape[axis], i;
    int column = (int)indent;
    char buf[NUMBER_SIZE];

    for (i = 0; i < size; i++) {
        int need = f->width + (i > 0);
        if (is_skipped(f->array, axis, i, summary)) {
            fprintf(out, " ...");
            column += 4;
            i = size - EDGE_ITEMS - 1;
            continue;
        }
        if (i > 0 && column + need > LINE_CHARS - (int)indent) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = (int)indent;
            need = f->width;
        }
        write_number(f, k + (size_t)i, buf);
        blank_zeros(f, buf);
        fprintf(out, "%*s", need, buf);
        column += need;
    }
}

/* Elements of one step of an axis. */
static size_t
step_of(const struct host_array *array, uint32_t axis)
{
    size_t step = 1;

    while (++axis < array->ndim)
        step *= (size_t)array->shape[axis];
    return step;
}

/* As deep as the array has axes. */
static void
print_axis(FILE *out, const struct shown_format *f, uint32_t axis, size_t k,
           bool summary)
{
    const struct host_array *array = f->array;
    int64_t i;

    fputc('[', out);
    if (axis + 1 == array->ndim) {
        print_shown_row(out, f, k, axis + 1, summary);
        fputc(']', out);
        return;
    }
    for (i = 0; i < array->shape[axis]; i++) {
        uint32_t blank;
        if (i > 0) {
            for (blank = axis + 1; blank < array->ndim; blank++)
                fputc('\n', out);
            fprintf(out, "%*s", (int)axis + 1, "");
        }
        if (is_skipped(array, axis, i, summary)) {
            fprintf(out, "...");
            i = array->shape[axis] - EDGE_ITEMS - 1;
            continue;
        }
        print_axis(out, f, axis + 1, k + (size_t)i * step_of(array, axis),
                   summary);
    }
    fputc(']', out);
}

bell_status
eval_print(FILE *out, const struct host_array *array)
{
    bool summary = array->n_elems > SUMMARISE;
    struct shown_format f = choose_format(array, summary);
    char buf[NUMBER_SIZE];
    uint32_t i;

    if (array->ndim == 0) {
        write_number(&f, 0, buf);
        blank_zeros(&f, buf);
        buf[strcspn(buf, " ")] = 0;
        fprintf(out, "%s%s\n", buf, buf[strlen(buf) - 1] == '.' ? "0" : "");
    } else if (array->n_elems == 0) {
        fprintf(out, "[] (shape ");
        for (i = 0; i < array->ndim; i++)
            fprintf(out, "%s%lld", i ? ", " : "(", (long long)array->shape[i]);
        fprintf(out, array->ndim == 1 ? ",))\n" : "))\n");
    } else {
        print_axis(out, &f, 0, 0, summary);
        fputc('\n', out);
    }
    if (ferror(out))
        return bell_fail(BELL_E_IO, "cannot write the result");
    return BELL_OK;
}

/* ---- JSON ------------------------------------------------------------- */

static void
json_element(struct json *json, const char *key, const struct host_array *array,
             size_t k)
{
    if (array->dtype == BELL_BOOL)
        json_bool(json, key, int_at(array, k) != 0);
    else if (array->dtype == BELL_UINT64)
        json_uint(json, key, (uint64_t)int_at(array, k));
    else if (is_float(array->dtype) && isnan(float_at(array, k)))
        json_str(json, key, "nan");
    else if (is_float(array->dtype) && isinf(float_at(array, k)))
        json_str(json, key, float_at(array, k) > 0 ? "inf" : "-inf");
    else if (is_float(array->dtype))
        json_num(json, key, float_at(array, k));
    else
        json_int(json, key, int_at(array, k));
}

static void
json_axis(struct json *json, const char *key, const struct host_array *array,
          uint32_t axis, size_t k)
{
    int64_t i;

    if (axis == array->ndim) {
        json_element(json, key, array, k);
        return;
    }
    json_array(json, key);
    for (i = 0; i < array->shape[axis]; i++)
        json_axis(json, NULL, array, axis + 1,
                  k + (size_t)i * step_of(array, axis));
    json_end(json);
}

void
eval_print_json(struct json *json, const char *key,
                const struct host_array *array)
{
    json_axis(json, key, array, 0, 0);
}
