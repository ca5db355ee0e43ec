/* Shared by the files of the function table: a row, bound arguments. */
#ifndef BELL_TENSOR_FUNCTIONS_FUNCTIONS_INTERNAL_H
#define BELL_TENSOR_FUNCTIONS_FUNCTIONS_INTERNAL_H

#include "base/arena.h"
#include "tensor/functions/signature.h"

struct fn_row;

/* The parameters of a row, parsed. */
struct fn_params {
    uint32_t n;
    int32_t cast; /* the dtype that fn_forward casts to; -1: none */
    struct bell_param list[BELL_MAX_PARAMS];
};

/* Bytes of a call's lists that need no allocation. */
#define FN_ROOM 512

/* A call on its way. */
struct fn_args {
    struct bell_context *ctx;
    const struct fn_row *row;
    const struct fn_params *params; /* the context's */
    struct arena *arena;
    struct bell_call *call; /* for functions that return lists */
    size_t n_room;          /* bytes of `room` that are used */
    _Alignas(16) uint8_t room[FN_ROOM];
    struct fn_arg a[BELL_MAX_PARAMS]; /* the first params->n */
};

/* Calls the API function. Returns the result, or the error tensor; a function
 * that returns a list fills call->results and returns NULL. */
typedef struct bell_tensor *fn_call(struct fn_args *args);

/* A row: what Python sees, and what is called. `order` says which parameter
 * each letter of the signature takes, or 'k': the constant; NULL: in order. A
 * parameter called dtype that the signature does not take is what the input
 * is cast to first, and the result at the end. Where more is to be done, `glue`
 * does it. */
struct fn_row {
    struct bell_function fn;
    struct fn_signature to;
    const char *order;
    const char *aliases; /* separated by single blanks; or NULL */
    int64_t constant;
    fn_call *glue;
    bool takes_names; /* the glue reads arguments that are not parameters */
};

/* One table per source file, in the order of the documentation. */
struct fn_table {
    const struct fn_row *rows;
    size_t n_rows;
};
extern const struct fn_table fn_table_elementwise, fn_table_shape,
    fn_table_reduce, fn_table_linalg, fn_table_select, fn_table_nn,
    fn_table_create;

/* Calls row->to with the bound arguments. */
fn_call fn_forward;

/* Records a failure in the context, "name: text"; returns its error tensor. */
struct bell_tensor *fn_fail(const struct fn_args *args, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Understands a reduction's name; false after telling. */
bool fn_take_reduction(struct fn_args *args, struct fn_arg *arg);
/* Whether f is the number that was given: not so for most integers whose
 * magnitude is above 2^53. */
bool fn_is_exact(const struct fn_arg *arg);
/* The number as bell_scalar or bell_scalar_int: exact. */
struct bell_tensor *fn_scalar(const struct fn_args *args,
                              const struct fn_arg *arg);
/* x cast to args[k]'s dtype where that is given. */
struct bell_tensor *fn_cast(struct fn_args *args, struct bell_tensor *x,
                            uint32_t k);

/* Memory that lives as long as the call; NULL when out of memory. */
void *fn_alloc(struct fn_args *args, size_t size_bytes);

/* Binds call->args to the row's parameters. */
BELL_MUST_CHECK bell_status fn_bind(struct fn_args *args);

#endif
