/* The table of tensor functions by their PyTorch names.
 *
 * For whoever has a function's name and arguments as data: an expression
 * evaluator, a language binding, a model importer, a test over everything.
 * The table documents the functions (docs/reference/functions.md is printed
 * from it), binds positional and keyword arguments to parameters as Python
 * would, and calls.
 *
 *     struct bell_arg args[] = {{NULL, bell_of_tensor(x)},
 *                               {"axis", bell_of_int(-1)}};
 *     struct bell_call call = {.function = bell_function_find("softmax"),
 *                              .args = args, .n_args = 2};
 *     status = bell_function_call(ctx, &call);
 *     y = call.results[0];
 *
 * A function's parameters are a text in the form of Python's annotations,
 *     "input: tensor, dim: int = -1, dtype: dtype = None"
 * with these kinds:
 *     tensor    a tensor; a number or bool stands for bell_scalar's
 *     tensors   a list of them; tensors*: or each by itself
 *     int       float (an int will do)     bool     str
 *     number    an int or a float, told apart
 *     ints      a list of ints; one int stands for a list of one
 *     ints*     the same; further positional ints extend the list
 *     ints/str  ints or str
 *     floats    a list of numbers; one number stands for a list of one
 *     dtype     a dtype
 *     data      numbers and bools in lists, nested to any depth
 * A parameter with "= None" may be absent or None. Wherever a parameter is
 * called dim, the name axis means the same, and keepdims the same as keepdim.
 *
 * Everything here is read-only and thread safe, bell_function_call as far as
 * its context is.
 */
#ifndef BELL_DOORBELL_FUNCTIONS_H
#define BELL_DOORBELL_FUNCTIONS_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BELL_MAX_PARAMS  12
#define BELL_MAX_RESULTS 64

/* ---- values ---- */

enum bell_value_kind {
    BELL_VALUE_NONE, /* Python's None; also "absent" */
    BELL_VALUE_BOOL,
    BELL_VALUE_INT,
    BELL_VALUE_FLOAT,
    BELL_VALUE_DTYPE,
    BELL_VALUE_STR,
    BELL_VALUE_TENSOR,
    BELL_VALUE_LIST,
};

/* An argument as data. Plain data; what it points to is borrowed. */
struct bell_value {
    enum bell_value_kind kind;
    uint32_t n_items; /* of a LIST */
    union {
        bool b;
        int64_t i;
        double f;
        enum bell_dtype dtype;
        const char *str;
        struct bell_tensor *tensor;
        const struct bell_value *items; /* of a LIST; borrowed */
    };
};

static inline struct bell_value
bell_of_none(void)
{
    struct bell_value v = {BELL_VALUE_NONE, 0, {0}};
    return v;
}
static inline struct bell_value
bell_of_bool(bool b)
{
    struct bell_value v = {BELL_VALUE_BOOL, 0, {0}};
    v.b = b;
    return v;
}
static inline struct bell_value
bell_of_int(int64_t i)
{
    struct bell_value v = {BELL_VALUE_INT, 0, {0}};
    v.i = i;
    return v;
}
static inline struct bell_value
bell_of_float(double f)
{
    struct bell_value v = {BELL_VALUE_FLOAT, 0, {0}};
    v.f = f;
    return v;
}
static inline struct bell_value
bell_of_dtype(enum bell_dtype dtype)
{
    struct bell_value v = {BELL_VALUE_DTYPE, 0, {0}};
    v.dtype = dtype;
    return v;
}
static inline struct bell_value
bell_of_str(const char *str)
{
    struct bell_value v = {BELL_VALUE_STR, 0, {0}};
    v.str = str;
    return v;
}
static inline struct bell_value
bell_of_tensor(struct bell_tensor *tensor)
{
    struct bell_value v = {BELL_VALUE_TENSOR, 0, {0}};
    v.tensor = tensor;
    return v;
}
static inline struct bell_value
bell_of_list(const struct bell_value *items, uint32_t n_items)
{
    struct bell_value v = {BELL_VALUE_LIST, 0, {0}};
    v.n_items = n_items;
    v.items = items;
    return v;
}

/* A short name of a value's kind, for messages: "a list". */
BELL_API const char *bell_value_kind_name(const struct bell_value *value);

/* ---- the table ---- */

/* A row, `params` as described above. */
struct bell_function {
    const char *name;
    const char *params;
    const char *doc;     /* one line: what it computes */
    const char *section; /* heading in the documentation */
    bool returns_list;   /* a tuple in PyTorch, even if of one tensor; false
                          * where that depends on the arguments */
};

/* Number of rows of the table. */
BELL_API size_t bell_function_count(void);
/* Row i, in the order of the documentation; NULL out of range. */
BELL_API const struct bell_function *bell_function_at(size_t i);
/* The function of this name (any of PyTorch's synonyms), or NULL. */
BELL_API const struct bell_function *bell_function_find(const char *name);
/* The name in the table that a mistyped `name` most likely means, or NULL. */
BELL_API const char *bell_function_nearest(const char *name);
/* Writes a function's other names, separated by blanks, as snprintf would. */
BELL_API size_t bell_function_aliases(const struct bell_function *function,
                                      char *buf, size_t size_bytes);

/* The C function that a call of the row forwards to. `args` has a letter for
 * each of its arguments, of which lists are two (what they point to, and a
 * uint32_t, how many):
 *     c  the context, always first    t  a tensor or NULL
 *     s  a list of tensors            l  a list of int64_t
 *     i  int64_t    n  uint32_t       a  int: an axis, or BELL_FLAT
 *     f  double     b  bool           y  enum bell_dtype
 *     r  enum bell_reduction          e  a string
 * `params` has, for each letter but c, the number of the parameter it takes; a
 * parameter called dtype that none takes is what the first is cast to, and the
 * result. */
struct bell_function_c {
    const char *name, *args, *params;
};
/* False: there is more to it, call by bell_function_call. */
BELL_API bool bell_function_c(const struct bell_function *function,
                              struct bell_function_c *out);

/* What a dtype is called in PyTorch: "float32", "float", "half", ...;
 * BELL_DEFAULT if `name` is not a dtype. */
BELL_API enum bell_dtype bell_dtype_find(const char *name);

enum bell_param_kind {
    BELL_PARAM_TENSOR,
    BELL_PARAM_TENSORS,
    BELL_PARAM_TENSORS_SPREAD,
    BELL_PARAM_INT,
    BELL_PARAM_FLOAT,
    BELL_PARAM_NUMBER,
    BELL_PARAM_BOOL,
    BELL_PARAM_STR,
    BELL_PARAM_INTS,
    BELL_PARAM_INTS_SPREAD,
    BELL_PARAM_DTYPE,
    BELL_PARAM_DATA,
    BELL_PARAM_INTS_OR_STR,
    BELL_PARAM_FLOATS,
};

/* As in the text of parameters: "ints*". */
BELL_API const char *bell_param_kind_name(enum bell_param_kind kind);

struct bell_param {
    char name[24];
    enum bell_param_kind kind;
    bool required;
    struct bell_value fallback; /* the default; a STR is fallback_str's */
    char fallback_str[16];
};

/* The parsed parameters of a function: `out` holds BELL_MAX_PARAMS, and a
 * default that is a string points into it. Returns how many there are; 0 also
 * if the text is malformed (a test makes sure that no row's is). */
BELL_API uint32_t bell_function_params(const struct bell_function *function,
                                       struct bell_param *out);

/* ---- calling ---- */

/* An argument; positional if it has no name. Positional ones come first. */
struct bell_arg {
    const char *name;
    struct bell_value value;
};

struct bell_call {
    const struct bell_function *function;
    const struct bell_arg *args;
    uint32_t n_args;
    /* After the call: the tensors returned, of ctx's innermost scope. */
    struct bell_tensor *results[BELL_MAX_RESULTS];
    uint32_t n_results;
    /* After a failure: the number of the argument at fault, or -1. */
    int32_t bad_arg;
};

/* Binds the arguments and calls. On failure there are no results and the
 * message says what was wrong with which argument. A failure of ctx that is
 * still unreported is reported instead. */
BELL_API BELL_MUST_CHECK bell_status
bell_function_call(struct bell_context *ctx, struct bell_call *call);

#ifdef __cplusplus
}
#endif
#endif
