/* `doorbell run`, and the appliance's doorbell-run: a bundle over .npy files.
 * Nothing here needs more than libdoorbell-hcq. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_file.h"
#include "base/file.h"
#include "tensor/files/npy.h"
#include "base/json.h"
#ifdef TOOL_HELP_DOCUMENT
#include "tools/onnx/onnx.h"
#endif
#include "tools/run/list.h"
#include "tools/run/made_up.h"
#include "tools/run/renew.h"
#include "tools/run/serve.h"
#include "tools/run/signature.h"
#include "tools/shape.h"
#include "tools/tools.h"

#define SHOWN 8 /* values of an output that are printed */

#ifdef TOOL_HELP_DOCUMENT
#define PROGRAM "doorbell run"
#else
#define PROGRAM "doorbell-run"
#endif

struct run_options {
    struct tool_list bundles;
    const char *bundle, *device, *weights, *save, *key, *serve;
    struct tool_list in, out;
#ifdef TOOL_HELP_DOCUMENT
    struct onnx_model_options model;
#endif
    int64_t times, timeout_s;
    bool list, json;
};

struct bundle_run {
    struct run_options opts;
    struct signature_key key;
    struct bundle_check check; /* by the key, if there is one */
    struct hcq_device *dev;
    struct hcq_bundle *bundle;
    double first_us, best_us; /* of a run, waited for */
};

/* ---- names ------------------------------------------------------------- */

/* "x", "y": the values of a kind. */
static void
list_bundle_names(const struct hcq_bundle *bundle, enum hcq_bundle_kind kind,
                  char *text, size_t size_bytes)
{
    const struct hcq_bundle_value *v;
    size_t n = 0;
    uint32_t i;

    snprintf(text, size_bytes, "none");
    for (i = 0; (v = hcq_bundle_value(bundle, i)) && n < size_bytes; i++) {
        if (v->kind == kind)
            n += (size_t)snprintf(text + n, size_bytes - n, "%s%.40s",
                                  n ? ", " : "", v->name);
    }
}

/* The value that "name=FILE" means, and the file. */
static bell_status
find_bundle_value(const struct bundle_run *run, const char *option,
                  const char *item, unsigned kinds, uint32_t *out_number,
                  const char **out_path)
{
    const char *equals = strchr(item, '=');
    char name[128], names[256];
    unsigned kind;

    if (!equals || equals == item || !equals[1] ||
        (size_t)(equals - item) >= sizeof(name))
        return bell_fail(BELL_BAD_NAME, "%s '%s' is not name=FILE", option,
                         item);
    memcpy(name, item, (size_t)(equals - item));
    name[equals - item] = 0;
    *out_path = equals + 1;
    for (kind = 0; kind < HCQ_BUNDLE_KIND_COUNT; kind++) {
        if (!(kinds & 1u << kind))
            continue;
        *out_number = hcq_bundle_find(run->bundle, kind, name);
        if (*out_number != HCQ_BUNDLE_NONE)
            return BELL_OK;
    }
    list_bundle_names(run->bundle,
                      kinds & 1u << HCQ_BUNDLE_INPUT ? HCQ_BUNDLE_INPUT
                                                     : HCQ_BUNDLE_OUTPUT,
                      names, sizeof(names));
    return bell_fail(BELL_BAD_NAME, "%s %s: the bundle has %s", option, name,
                     names);
}

static bool
is_npy(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".npy") == 0;
}

static const char *
dtype_name(const struct hcq_bundle_value *v)
{
    uint32_t size_bytes;

    return hcq_bundle_dtype_name(v->dtype, &size_bytes);
}

/* "float32 (4, 784)" */
static void
describe_bundle(const struct hcq_bundle_value *v, char *text, size_t size_bytes)
{
    size_t n = (size_t)snprintf(text, size_bytes, "%s (", dtype_name(v));
    uint32_t i;

    for (i = 0; i < v->ndim && n < size_bytes; i++)
        n += (size_t)snprintf(text + n, size_bytes - n, "%s%" PRIu64,
                              i ? ", " : "", v->shape[i]);
    if (n < size_bytes)
        snprintf(text + n, size_bytes - n, ")");
}

/* ---- inputs ------------------------------------------------------------ */

static bell_status
check_array(const struct hcq_bundle_value *v, const struct host_array *array)
{
    bool same =
        array->dtype == (enum bell_dtype)v->dtype && array->ndim == v->ndim;
    char wanted[256];
    uint32_t i;

    for (i = 0; same && i < v->ndim; i++)
        same = (uint64_t)array->shape[i] == v->shape[i];
    if (same)
        return BELL_OK;
    describe_bundle(v, wanted, sizeof(wanted));
    return bell_fail(BELL_BAD_SHAPE,
                     "it is %s of %u axes, %" PRIu64 " elements; '%.60s' is %s",
                     bell_dtype_name(array->dtype), array->ndim, array->n_elems,
                     v->name, wanted);
}

/* Sets a symbol: the text is a number, not a file. */
static bell_status
set_symbol(struct bundle_run *run, uint32_t number, const char *text)
{
    long long value;
    int64_t word;
    char *end;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (*end || errno)
        return bell_fail(BELL_BAD_NAME, "'%.40s' is not a number", text);
    word = value;
    return hcq_bundle_write(run->bundle, number, &word, sizeof(word));
}

/* Gives symbols the values by which an input of their sizes has the array's. */
static bell_status
fit_array(struct bundle_run *run, uint32_t number,
          const struct host_array *array)
{
    const struct hcq_bundle_value *v = hcq_bundle_value(run->bundle, number);
    uint64_t shape[HCQ_BUNDLE_RANK_MAX], min, max;
    bool varies = false;
    uint32_t i;

    for (i = 0; i < v->ndim; i++)
        varies |= hcq_bundle_axis(run->bundle, number, i, &min, &max) != NULL;
    if (!varies || array->ndim != v->ndim)
        return BELL_OK;
    for (i = 0; i < v->ndim; i++)
        shape[i] = (uint64_t)array->shape[i];
    return hcq_bundle_fit(run->bundle, number, shape, v->ndim);
}

/* A .npy file's values; those made up for a shape, once it is known to be the
 * bundle's. */
static bell_status
write_bundle_array(struct bundle_run *run, uint32_t number, const char *path)
{
    const struct hcq_bundle_value *v = hcq_bundle_value(run->bundle, number);
    bool is_shape = tool_is_shape(path);
    struct host_array array = {0};
    bell_status status = BELL_OK;

    if (is_shape) {
        BELL_TRY(
            tool_parse_shape(path, array.shape, &array.ndim, &array.dtype));
        status = host_array_size(&array);
    } else {
        BELL_TRY(npy_read(path, &array));
    }
    if (status == BELL_OK)
        status = fit_array(run, number, &array);
    if (status == BELL_OK)
        status = check_array(v, &array);
    if (status == BELL_OK && is_shape)
        status = made_up_fill(&array);
    if (status == BELL_OK)
        status =
            hcq_bundle_write(run->bundle, number, array.data, array.size_bytes);
    host_array_fini(&array);
    if (status != BELL_OK)
        bell_error_prefix("%s", path);
    return status;
}

/* The bytes as they are. */
static bell_status
write_bytes(struct bundle_run *run, uint32_t number, const char *path)
{
    struct file_bytes file;
    bell_status status;

    BELL_TRY(tool_check_file(path));
    BELL_TRY(file_read(path, &file));
    status = hcq_bundle_write(run->bundle, number, file.data, file.size_bytes);
    file_bytes_fini(&file);
    if (status != BELL_OK)
        bell_error_prefix("%s", path);
    return status;
}

/* Where the text could also mean a file that is there. */
static void
tell_meaning(const char *text)
{
    struct stat st;

    if (tool_is_shape(text) && stat(text, &st) == 0)
        tool_eprintf("doorbell: %s: random values of that shape; the file of "
                     "that name is ./%s\n",
                     text, text);
}

/* Symbols, or all else: sizes are known before what has them. */
static bell_status
load_bundle_input(struct bundle_run *run, size_t nth, bool symbols)
{
    const char *item = run->opts.in.items[nth], *path;
    uint32_t number;

    BELL_TRY(find_bundle_value(run, "--in", item,
                               1u << HCQ_BUNDLE_INPUT | 1u << HCQ_BUNDLE_STATE |
                                   1u << HCQ_BUNDLE_SYMBOL,
                               &number, &path));
    if ((hcq_bundle_value(run->bundle, number)->kind == HCQ_BUNDLE_SYMBOL) !=
        symbols)
        return BELL_OK;
    if (symbols)
        return set_symbol(run, number, path);
    tell_meaning(path);
    if (tool_is_shape(path) || is_npy(path))
        return write_bundle_array(run, number, path);
    return write_bytes(run, number, path);
}

/* ---- outputs ----------------------------------------------------------- */

static bell_status
read_bundle_value(struct bundle_run *run, uint32_t number,
                  struct host_array *out)
{
    const struct hcq_bundle_value *v = hcq_bundle_value(run->bundle, number);
    bell_status status;
    uint32_t i;

    memset(out, 0, sizeof(*out));
    out->dtype = (enum bell_dtype)v->dtype;
    out->ndim = v->ndim;
    for (i = 0; i < v->ndim; i++)
        out->shape[i] = (int64_t)v->shape[i];
    out->size_bytes = v->size_bytes;
    out->n_elems = v->size_bytes / bell_dtype_size(out->dtype);
    out->data = host_alloc(out->size_bytes + 1);
    if (!out->data)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for '%s'", v->name);
    status = hcq_bundle_read(run->bundle, number, out->data, out->size_bytes);
    if (status != BELL_OK)
        host_array_fini(out);
    return status;
}

static bell_status
store_output(struct bundle_run *run, const char *item)
{
    struct host_array array;
    struct file_part part;
    const char *path;
    bell_status status;
    uint32_t number;

    BELL_TRY(find_bundle_value(run, "--out", item,
                               1u << HCQ_BUNDLE_OUTPUT | 1u << HCQ_BUNDLE_STATE,
                               &number, &path));
    BELL_TRY(read_bundle_value(run, number, &array));
    part.data = array.data;
    part.size_bytes = array.size_bytes;
    status =
        is_npy(path) ? npy_write(path, &array) : file_write(path, &part, 1);
    host_array_fini(&array);
    return status;
}

/* One element as text; of what C has no type for, its bits. */
static void
print_element(const struct host_array *a, uint64_t i, char *text,
              size_t size_bytes)
{
    size_t n = bell_dtype_size(a->dtype);
    const uint8_t *at = (const uint8_t *)a->data + i * n;
    uint64_t bits = 0;
    int64_t whole;
    double d;
    float f;

    memcpy(&bits, at, n);
    memcpy(&f, at, n < sizeof(f) ? n : sizeof(f));
    memcpy(&d, &bits, sizeof(d));
    whole = (int64_t)(bits << (64 - 8 * n)) >> (64 - 8 * n);
    switch (a->dtype) {
    case BELL_FLOAT32:
        snprintf(text, size_bytes, "%.7g", (double)f);
        break;
    case BELL_FLOAT64:
        snprintf(text, size_bytes, "%.15g", d);
        break;
    case BELL_INT8:
    case BELL_INT16:
    case BELL_INT32:
    case BELL_INT64:
        snprintf(text, size_bytes, "%" PRId64, whole);
        break;
    case BELL_BOOL:
    case BELL_UINT8:
    case BELL_UINT16:
    case BELL_UINT32:
    case BELL_UINT64:
        snprintf(text, size_bytes, "%" PRIu64, bits);
        break;
    case BELL_DEFAULT:
    case BELL_FLOAT16:
    case BELL_BFLOAT16:
    case BELL_FLOAT8_E4M3FN:
    case BELL_FLOAT8_E5M2:
    case BELL_FLOAT8_E4M3FNUZ:
    case BELL_FLOAT8_E5M2FNUZ:
    case BELL_DTYPE_COUNT:
        snprintf(text, size_bytes, "0x%" PRIx64, bits);
        break;
    }
}

static int
print_bundle_text(struct bundle_run *run)
{
    const struct hcq_bundle_value *v;
    struct host_array array;
    char text[256];
    bell_status status;
    uint64_t k;
    uint32_t i;

    for (i = 0; (v = hcq_bundle_value(run->bundle, i)); i++) {
        if (v->kind != HCQ_BUNDLE_OUTPUT)
            continue;
        status = read_bundle_value(run, i, &array);
        if (status != BELL_OK)
            return tool_fail(false, status);
        describe_bundle(v, text, sizeof(text));
        tool_printf("%s %s:", v->name, text);
        for (k = 0; k < array.n_elems && k < SHOWN; k++) {
            print_element(&array, k, text, sizeof(text));
            tool_printf(" %s", text);
        }
        tool_printf(array.n_elems > SHOWN ? " ...\n" : "\n");
        host_array_fini(&array);
    }
    if (run->opts.times > 1)
        tool_printf("%" PRId64 " runs: first %.1f us, best %.1f us\n",
                    run->opts.times, run->first_us, run->best_us);
    return TOOL_OK;
}

static int
print_bundle_json(const struct bundle_run *run)
{
    static const char *const kinds[] = {"input", "output", "state", "weight",
                                        "symbol"};
    const struct hcq_bundle_value *v;
    struct hcq_bundle_info info = {.struct_size = sizeof(info)};
    struct json json;
    uint32_t i, d;

    hcq_bundle_get_info(run->bundle, &info);
    json_init(&json);
    json_str(&json, "device", hcq_device_name(run->dev));
    json_str(&json, "arch", info.arch);
    json_str(&json, "tools", info.tools);
    json_uint(&json, "kernels", info.n_kernels);
    json_uint(&json, "commands", info.n_commands);
    json_uint(&json, "weight_bytes", info.weight_bytes);
    json_uint(&json, "arena_bytes", info.arena_bytes);
    json_bool(&json, "weights_in_place", info.weights_in_place);
    json_int(&json, "runs", run->opts.times);
    json_num(&json, "first_us", run->first_us);
    json_num(&json, "best_us", run->best_us);
    json_array(&json, "values");
    for (i = 0; (v = hcq_bundle_value(run->bundle, i)); i++) {
        if (v->kind == HCQ_BUNDLE_WEIGHT || v->kind == HCQ_BUNDLE_SIZE)
            continue;
        json_object(&json, NULL);
        json_str(&json, "name", v->name);
        json_str(&json, "kind", kinds[v->kind]);
        json_str(&json, "dtype", dtype_name(v));
        json_array(&json, "shape");
        for (d = 0; d < v->ndim; d++)
            json_uint(&json, NULL, v->shape[d]);
        json_end(&json);
        if (v->kind == HCQ_BUNDLE_SYMBOL) {
            json_uint(&json, "min", v->shape[0]);
            json_uint(&json, "max", v->shape[1]);
        }
        json_end(&json);
    }
    json_end(&json);
    return tool_print_json(&json);
}

/* ---- running ----------------------------------------------------------- */

/* How long a run is waited for. */
static uint64_t
wait_ns(const struct run_options *o)
{
    return o->timeout_s ? (uint64_t)o->timeout_s * 1000000000u
                        : HCQ_WAIT_WHILE_MOVING;
}

static bell_status
run_bundle(struct bundle_run *run)
{
    int64_t i;

    for (i = 0; i < run->opts.times; i++) {
        uint64_t start = time_now_ns();
        double us;

        BELL_TRY(hcq_bundle_run(run->bundle, NULL));
        BELL_TRY(hcq_bundle_wait(run->bundle, wait_ns(&run->opts)));
        us = (double)(time_now_ns() - start) * 1e-3;
        if (i == 0)
            run->first_us = run->best_us = us;
        if (us < run->best_us)
            run->best_us = us;
    }
    return BELL_OK;
}

static bell_status
open_and_run(struct bundle_run *run)
{
    size_t i;

    BELL_TRY(hcq_device_open(run->opts.device, &run->dev));
    if (!run->opts.device)
        tool_tell_passed_over(run->dev);
    BELL_TRY(hcq_bundle_open_checked(run->dev, run->opts.bundle, run->check.fn,
                                     run->check.user, &run->bundle));
    if (run->opts.weights)
        BELL_TRY(hcq_bundle_load_weights(run->bundle, run->opts.weights));
    for (i = 0; i < run->opts.in.n_items; i++)
        BELL_TRY(load_bundle_input(run, i, true));
    for (i = 0; i < run->opts.in.n_items; i++)
        BELL_TRY(load_bundle_input(run, i, false));
    BELL_TRY(run_bundle(run));
    for (i = 0; i < run->opts.out.n_items; i++)
        BELL_TRY(store_output(run, run->opts.out.items[i]));
    return BELL_OK;
}

/* A file, and nothing that runs. */
static int
save_renewed(const struct bundle_run *run)
{
    const struct run_options *o = &run->opts;
    bell_status status = run_renew(o->bundle, o->weights, &run->check, o->save);

    if (status != BELL_OK)
        return tool_fail_input(o->json, status);
    return o->json ? tool_print_saved(o->save) : TOOL_OK;
}

#ifdef TOOL_HELP_DOCUMENT
/* A model in place of a bundle. */
static int
run_onnx_model(const struct run_options *o)
{
    const struct onnx_run_options options = {
        .path = o->bundle,
        .device = o->device,
        .save = o->save,
        .in = &o->in,
        .out = &o->out,
        .model = &o->model,
        .times = o->times,
        .json = o->json,
    };

    if (o->weights || o->key || o->list || o->timeout_s)
        return tool_usage(o->json, "run: a model takes no --weights, --key, "
                                   "--list, --timeout");
    if (o->save && (o->out.n_items || o->model.check))
        return tool_usage(o->json, "run: --save takes no --out, --check");
    if (o->model.targets.n_items && !o->save)
        return tool_usage(o->json, "run: --target is of --save FILE");
    return onnx_run(&options);
}
#endif

int
verb_run(int argc, char **argv)
{
    static const char about[] =
        "run BUNDLE [--in name=FILE]... [--out name=FILE]... [options]\n"
        "a bundle, which needs no compiler:\n\n"
        "  " PROGRAM " mnist.bundle --in x=x.npy --out y=y.npy\n\n"
        "A FILE that is not called .npy has the elements' bytes alone. "
        "A shape in its\nplace, 2x3:float32, gives random values."
#ifdef TOOL_HELP_DOCUMENT
        "\n\nA file that is called .onnx is compiled first:\n\n"
        "  doorbell run model.onnx --in x=x.npy --out y=y.npy\n"
        "  doorbell run model.onnx --in x=1x3x224x224:float32 --save "
        "m.bundle\n\n"
        "Its inputs may also be images and sounds: .png, .jpg, .wav."
#endif
        ;
    struct bundle_run run = {.opts = {.times = 1
#ifdef TOOL_HELP_DOCUMENT
                                      ,
                                      .model = {.rtol = 1e-4, .atol = 1e-5}
#endif
                             }};
    struct run_options *o = &run.opts;
    const struct tool_opt opts[] = {
        {"BUNDLE", NULL, TOOL_OPT_LIST, &o->bundles, 0, 0,
         "the file; with --serve name=FILE, one or more"},
        {"--in", "name=FILE", TOOL_OPT_LIST, &o->in, 0, 0,
         "an input, or state to begin with; or name=2x3:float32, random "
         "values of that shape; of a symbol, a number for FILE"},
        {"--out", "name=FILE", TOOL_OPT_LIST, &o->out, 0, 0,
         "an output, or state at the end"},
        {"--weights", "FILE", TOOL_OPT_STRING, &o->weights, 0, 0,
         "safetensors with all weights that have names, in place of the "
         "bundle's"},
        {"--save", "FILE", TOOL_OPT_STRING, &o->save, 0, 0,
         "with --weights: write a bundle that has these, and run nothing"
#ifdef TOOL_HELP_DOCUMENT
         "; of a model: its bundle"
#endif
        },
#ifdef TOOL_HELP_DOCUMENT
        {"--target", "DEVICE", TOOL_OPT_LIST, &o->model.targets, 0, 0,
         "with --save, of a model: a device that the bundle is for (default: "
         "the one it is compiled on)"},
        {"--shape", "NAME=SIZE,...", TOOL_OPT_LIST, &o->model.shapes, 0, 0,
         "of a model: sizes that it leaves open, batch=1,seq=128, or the shape "
         "of an input, x=1x3x224x224"},
        {"--symbol", "NAME=MIN:MAX", TOOL_OPT_LIST, &o->model.symbols, 0, 0,
         "of a model: a size that it leaves open is any of these; one plan, "
         "and one bundle, is for all"},
        {"--check", "FILE", TOOL_OPT_STRING, &o->model.check, 0, 0,
         "of a model: .npz or .safetensors with outputs by name; print the "
         "largest differences; exit code 1 if one is beyond |want| * RTOL + "
         "ATOL"},
        TOOL_NUMBER_OPT("--rtol", "RTOL", &o->model.rtol, -1, 1000000,
                        "of --check (default: 1e-4)"),
        TOOL_NUMBER_OPT("--atol", "ATOL", &o->model.atol, -1, 1000000,
                        "of --check (default: 1e-5)"),
        {"--scale", "NUMBER", TOOL_OPT_STRING, &o->model.scale, 0, 0,
         "divides pixels of 0..255 and samples of -1..1 that a model is given "
         "(default: 255, 1)"},
        {"--mean", "NUMBERS", TOOL_OPT_STRING, &o->model.mean, 0, 0,
         "then subtracted, one for all channels or 0.485,0.456,0.406"},
        {"--std", "NUMBERS", TOOL_OPT_STRING, &o->model.std, 0, 0,
         "then divides"},
        {"--resize", NULL, TOOL_OPT_FLAG, &o->model.resize, 0, 0,
         "stretch images to the sizes that the model takes"},
#endif
        {"--device", "DEVICE", TOOL_OPT_STRING, &o->device, 0, 0,
         "where (default: $BELL_DEVICE, or the first that works)"},
        {"--times", "N", TOOL_OPT_INT, &o->times, 1, 1000000000,
         "number of runs, one after the other (default: 1)"},
        {"--timeout", "SECONDS", TOOL_OPT_INT, &o->timeout_s, 1, 1000000,
         "that a run may take (default: as long as the device moves, "
         "$BELL_TIMEOUT)"},
        {"--key", "FILE", TOOL_OPT_STRING, &o->key, 0, 0,
         "a public key of Ed25519 in PEM: refuse what FILE.sig beside it does "
         "not sign, bundles and weights"},
        {"--serve", "SOCKET", TOOL_OPT_STRING, &o->serve, 0, 0,
         "keep them loaded and answer requests there, or with - on stdin and "
         "stdout"},
        {"--list", NULL, TOOL_OPT_FLAG, &o->list, 0, 0,
         "print what is in it, for which devices, and run nothing"},
        TOOL_JSON_OPT(&o->json),
    };
    bell_status status;
    int code = tool_parse(about, opts, ARRAY_LEN(opts), argc, argv);

    if (code != TOOL_GO_ON)
        return code;
    if (o->bundles.n_items == 0)
        return tool_usage(o->json, "run: no bundle");
    if (o->bundles.n_items > 1 && !o->serve)
        return tool_usage(o->json, "run: two bundles: --serve takes several");
    if (o->serve && (o->in.n_items || o->out.n_items || o->weights || o->save ||
                     o->list || o->json || o->times > 1))
        return tool_usage(o->json,
                          "run: --serve takes --device, --key, --timeout");
    o->bundle = o->bundles.items[0];
#ifdef TOOL_HELP_DOCUMENT
    if (!o->serve && onnx_is_model(o->bundle))
        return run_onnx_model(o);
    if (o->model.targets.n_items || o->model.shapes.n_items ||
        o->model.symbols.n_items || o->model.check || o->model.scale ||
        o->model.mean || o->model.std || o->model.resize)
        return tool_usage(o->json, "run: --target, --shape, --symbol, --check, "
                                   "--scale, --mean, --std and --resize are "
                                   "of a model");
#endif
    if ((o->list || o->save) && (o->in.n_items || o->out.n_items || o->device ||
                                 (o->list && o->weights)))
        return tool_usage(o->json, "run: --%s takes no --in, --out, --device%s",
                          o->list ? "list" : "save",
                          o->list ? ", --weights" : "");
    if (o->save && !*o->save)
        return tool_usage(o->json, "run: --save '' is not a file's name");
    if (o->save && (o->list || !o->weights))
        return tool_usage(o->json, "run: --save is of --weights FILE");
    if (o->key) {
        status = signature_read_key(o->key, &run.key);
        if (status != BELL_OK)
            return tool_fail_input(o->json, status);
        run.check = (struct bundle_check){signature_check, &run.key};
    }
    if (o->serve)
        return run_serve(&(struct serve_options){
            o->serve, o->device, &o->bundles, wait_ns(o), run.check});
    if (o->list)
        return run_list(o->bundle, &run.check, o->json);
    if (o->save)
        return save_renewed(&run);
    status = open_and_run(&run);
    if (status != BELL_OK)
        code = tool_fail_input(o->json, status);
    else if (o->json)
        code = print_bundle_json(&run);
    else
        code =
            o->out.n_items && o->times == 1 ? TOOL_OK : print_bundle_text(&run);
    /* what was given up is not waited for again */
    if (status == BELL_E_TIMEOUT && run.dev &&
        hcq_device_recover(run.dev) != BELL_OK)
        bell_error_clear();
    hcq_bundle_close(run.bundle);
    hcq_device_close(run.dev);
    return code;
}
