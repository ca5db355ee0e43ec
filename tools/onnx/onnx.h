/* `doorbell run MODEL.onnx`. */
#ifndef BELL_TOOLS_ONNX_ONNX_H
#define BELL_TOOLS_ONNX_ONNX_H

#include <stdbool.h>

#include "doorbell/jit.h"
#include "doorbell/onnx.h"
#include "tools/tools.h"

#define ONNX_RUN_VALUES  64
#define ONNX_RUN_SYMBOLS 16

/* Options of `run` that are of models alone. */
struct onnx_model_options {
    struct tool_list targets;
    struct tool_list shapes;  /* "batch=1,seq=128", "x=1x3x224x224" */
    struct tool_list symbols; /* "seq=1:512" */
    const char *check;        /* a file of outputs; NULL: none */
    double rtol, atol;
    const char *scale, *mean, *std; /* of images and sounds; NULL: usual ones */
    bool resize;                    /* images may be stretched */
};

/* Options of `run`, as they were given. */
struct onnx_run_options {
    const char *path, *device, *save; /* save: a bundle; NULL: run it */
    const struct tool_list *in, *out;
    const struct onnx_model_options *model;
    int64_t times;
    bool json;
};

struct json;

struct onnx_symbol {
    struct bell_dim dim;
    int64_t min, max;
    char name[64];
};

/* A model that is being run. */
struct model_run {
    const struct onnx_run_options *opts;
    struct bell_context *ctx;
    struct bell_onnx *model;
    struct bell_jit *jit; /* NULL where it runs once */
    uint32_t n_in, n_out;
    struct onnx_symbol symbols[ONNX_RUN_SYMBOLS];
    uint32_t n_symbols;
    struct bell_tensor *in[ONNX_RUN_VALUES], *out[ONNX_RUN_VALUES];
    double first_us, best_us;
};

/* Whether the path ends in ".onnx". */
bool onnx_is_model(const char *path);
/* The verb's exit code. */
int onnx_run(const struct onnx_run_options *options);

/* ---- inputs (onnx_inputs.c) ---- */

/* Gives the model the sizes of --shape and --symbol; the symbols that it made
 * are noted. */
BELL_MUST_CHECK bell_status onnx_apply_shapes(struct bell_context *ctx,
                                              struct bell_onnx *model,
                                              const struct tool_list *shapes,
                                              const struct tool_list *symbols,
                                              struct onnx_symbol *made,
                                              uint32_t *out_n_made);
/* Reads --in, and makes what else the sizes say, where only they matter. */
BELL_MUST_CHECK bell_status onnx_load_inputs(struct model_run *run);
/* The number of the value that "name=FILE" means. */
BELL_MUST_CHECK bell_status onnx_find_value(const struct bell_onnx *model,
                                            const char *item, bool is_input,
                                            uint32_t *out_number,
                                            const char **out_path);

/* ---- cost (onnx_cost.c) ---- */

/* What a call takes on a device. */
struct onnx_cost {
    uint32_t n_kernels;
    uint64_t weight_bytes, input_bytes, output_bytes;
    uint64_t held_bytes; /* between kernels, at the peak */
    bool has_time;
    double us; /* at least */
};
/* Captures the model, whose sizes are known, with inputs of zeros. */
BELL_MUST_CHECK bell_status onnx_measure_cost(struct bell_context *ctx,
                                              struct bell_onnx *model,
                                              struct onnx_cost *cost);
void onnx_print_cost(const struct bell_context *ctx,
                     const struct onnx_cost *cost);
void onnx_put_cost(const struct bell_context *ctx, const struct onnx_cost *cost,
                   struct json *json);

/* ---- outputs (onnx_check.c) ---- */

struct host_array;

/* The elements; the array is the caller's. */
BELL_MUST_CHECK bell_status onnx_read_output(struct bell_tensor *t,
                                             struct host_array *out);
/* Compares the outputs with --check's file and prints, or puts into `json`, the
 * largest difference of each. *out_same: all are within the tolerances. */
BELL_MUST_CHECK bell_status onnx_check_outputs(const struct model_run *run,
                                               struct json *json,
                                               bool *out_same);

#endif
