/* Shared by the files of the function table: a row, bound arguments. */
#ifndef BELL_TENSOR_FUNCTIONS_FUNCTIONS_INTERNAL_H
#define BELL_TENSOR_FUNCTIONS_FUNCTIONS_INTERNAL_H

#include "base/arena.h"
#include "doorbell/functions.h"

/* A bound argument; which field holds it follows from the parameter's kind.
 * What it points to lives in the call's arena. */
struct fn_arg {
    bool given;  /* false: absent or None, and there is no other default */
    bool is_int; /* NUMBER: i holds it too */
    bool b;
    enum bell_dtype dtype; /* BELL_DEFAULT where absent */
    int64_t i;
    double f;
    const char *str;
    struct bell_tensor *t;   /* NULL where absent */
    struct bell_tensor **ts; /* n of them */
    const int64_t *ints;     /* n of them */
    uint32_t n;
    struct bell_value v; /* DATA */
};

struct fn_row;

/* A call on its way. */
struct fn_args {
    struct bell_context *ctx;
    const struct fn_row *row;
    struct arena *arena;
    struct bell_call *call; /* for functions that return lists */
    struct fn_arg a[BELL_MAX_PARAMS];
};

/* Calls the API function. Returns the result, or the error tensor; a function
 * that returns a list fills call->results and returns NULL. */
typedef struct bell_tensor *fn_call(struct fn_args *args);

typedef struct bell_tensor *fn_unary(struct bell_tensor *x);
typedef struct bell_tensor *fn_binary(struct bell_tensor *x,
                                      struct bell_tensor *y);
typedef struct bell_tensor *fn_reduce(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim);

struct fn_row {
    struct bell_function fn;
    const char *aliases; /* separated by single blanks; or NULL */
    fn_call *call;
    union { /* for the calls that many rows share */
        fn_unary *unary;
        fn_binary *binary;
        fn_reduce *reduce;
        enum bell_dtype dtype;
    };
};

/* One table per source file, in the order of the documentation. */
struct fn_table {
    const struct fn_row *rows;
    size_t n_rows;
};
extern const struct fn_table fn_table_elementwise, fn_table_shape,
    fn_table_reduce, fn_table_nn, fn_table_create;

fn_call fn_call_unary, fn_call_binary, fn_call_unary_axis;

/* Records a failure in the context, "name: text"; returns its error tensor. */
struct bell_tensor *fn_fail(const struct fn_args *args, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* An axis as the API takes it; far out of range where the number is. */
int fn_axis(const struct fn_arg *arg);
/* Whether f is the number that was given: not so for most integers whose
 * magnitude is above 2^53. */
bool fn_is_exact(const struct fn_arg *arg);
/* x cast to args[k]'s dtype where that is given. */
struct bell_tensor *fn_cast(struct fn_args *args, struct bell_tensor *x,
                            uint32_t k);

/* Binds call->args to the row's parameters. */
BELL_MUST_CHECK bell_status fn_bind(struct fn_args *args,
                                    const struct fn_row *row,
                                    struct bell_call *call);

/* The name in a list that `name` most likely means, or NULL. `best` and
 * `distance` carry the search on over several lists. */
void fn_nearest(const char *name, const char *candidate, const char **best,
                unsigned *distance);
/* Distance that a candidate must be below. */
unsigned fn_nearest_limit(const char *name);

#endif
