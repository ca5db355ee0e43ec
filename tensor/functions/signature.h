/* Functions of the tensor API as data: a typed pointer beside the code of its
 * signature, and the one place that calls by that code.
 *
 * The letters are those of struct bell_function_c, and
 *     x  index items, how many   o, p  options of convolution, of pooling
 * A caller does not list the context. The pointer's type is the code's: the
 * compiler refuses a row that lies.
 */
#ifndef BELL_TENSOR_FUNCTIONS_SIGNATURE_H
#define BELL_TENSOR_FUNCTIONS_SIGNATURE_H

#include "doorbell/functions.h"

#define FN_MAX_ARGS 8 /* letters of a code, and one for its end */

/* A value for an argument; which field holds it follows from the letter (in
 * a bound call, from the parameter's kind). */
struct fn_arg {
    bool given;  /* false: absent or None, and there is no other default */
    bool is_int; /* NUMBER: i holds it too */
    bool b;
    enum bell_dtype dtype; /* BELL_DEFAULT where absent */
    enum bell_reduction reduction;
    int64_t i;
    double f;
    const char *str;
    struct bell_tensor *t; /* NULL where absent */
    uint32_t n;            /* of a list; also n itself */
    struct bell_tensor *const *ts;
    const int64_t *ints;
    const double *floats;
    const struct bell_index_item *items;
    const struct bell_conv_options *conv;
    const struct bell_pool_options *pool;
    struct bell_value v; /* DATA */
};

#define CTX   struct bell_context *
#define T     struct bell_tensor *
#define LIST  const int64_t *, uint32_t
#define MANY  struct bell_tensor *const *, uint32_t
#define ITEMS const struct bell_index_item *, uint32_t
#define REDUC enum bell_reduction
#define DTYPE enum bell_dtype

/* clang-format off */
struct fn_signature {
    const char *name; /* the function's; NULL: there is none */
    const char *code;
    enum {
        FN_t, FN_tt, FN_ttt, FN_tttf, FN_tttff, FN_ttf, FN_ttffb, FN_ttfir, FN_ttfr,
        FN_ttr, FN_tttfir, FN_tttir, FN_tttr, FN_ttto, FN_ttttfbf, FN_tttttf, FN_tnttf,
        FN_tittf, FN_tf, FN_tff, FN_tfaf, FN_tflb, FN_tb, FN_ty, FN_tp, FN_tl,
        FN_tlb, FN_tlbf, FN_tlf, FN_ta, FN_taa, FN_tab, FN_tai, FN_taii, FN_tal,
        FN_tat, FN_tatt, FN_ti, FN_tia, FN_tiaa, FN_tiae, FN_tiab, FN_tx, FN_txt, FN_sa,
        FN_ttb, FN_ttbb, FN_tti, FN_tib, FN_tiff, FN_tatti, FN_es, FN_ci, FN_ciiy, FN_ciily, FN_cly, FN_clfy, FN_clffy, FN_cffiy,
        FN_cfffy
    } form;
    union {
        T (*t)(T);
        T (*tt)(T, T);
        T (*ttt)(T, T, T);
        T (*tttf)(T, T, T, double);
        T (*tttff)(T, T, T, double, double);
        T (*ttf)(T, T, double);
        T (*ttffb)(T, T, double, double, bool);
        T (*ttfir)(T, T, double, int64_t, REDUC);
        T (*ttfr)(T, T, double, REDUC);
        T (*ttr)(T, T, REDUC);
        T (*tttfir)(T, T, T, double, int64_t, REDUC);
        T (*tttir)(T, T, T, int64_t, REDUC);
        T (*tttr)(T, T, T, REDUC);
        T (*ttto)(T, T, T, const struct bell_conv_options *);
        T (*ttttfbf)(T, T, T, T, double, bool, double);
        T (*tttttf)(T, T, T, T, T, double);
        T (*tnttf)(T, uint32_t, T, T, double);
        T (*tittf)(T, int64_t, T, T, double);
        T (*tf)(T, double);
        T (*tff)(T, double, double);
        T (*tfaf)(T, double, int, double);
        T (*tflb)(T, double, LIST, bool);
        T (*ttb)(T, T, bool);
        T (*ttbb)(T, T, bool, bool);
        T (*tti)(T, T, int64_t);
        T (*tib)(T, int64_t, bool);
        T (*tatti)(T, int, T, T, int64_t);
        T (*tiff)(T, int64_t, double, double);
        T (*tb)(T, bool);
        T (*ty)(T, DTYPE);
        T (*tp)(T, const struct bell_pool_options *);
        T (*tl)(T, LIST);
        T (*tlb)(T, LIST, bool);
        T (*tlbf)(T, LIST, bool, double);
        T (*tlf)(T, LIST, double);
        T (*ta)(T, int);
        T (*taa)(T, int, int);
        T (*tab)(T, int, bool);
        T (*tai)(T, int, int64_t);
        T (*taii)(T, int, int64_t, int64_t);
        T (*tal)(T, int, LIST);
        T (*tat)(T, int, T);
        T (*tatt)(T, int, T, T);
        T (*ti)(T, int64_t);
        T (*tia)(T, int64_t, int);
        T (*tiae)(T, int64_t, int, const char *);
        T (*tiaa)(T, int64_t, int, int);
        T (*tiab)(T, int64_t, int, bool);
        T (*tx)(T, ITEMS);
        T (*txt)(T, ITEMS, T);
        T (*sa)(MANY, int);
        T (*es)(const char *, MANY);
        T (*ci)(CTX, int64_t);
        T (*ciiy)(CTX, int64_t, int64_t, DTYPE);
        T (*ciily)(CTX, int64_t, int64_t, LIST, DTYPE);
        T (*cly)(CTX, LIST, DTYPE);
        T (*clfy)(CTX, LIST, double, DTYPE);
        T (*clffy)(CTX, LIST, double, double, DTYPE);
        T (*cffiy)(CTX, double, double, int64_t, DTYPE);
        T (*cfffy)(CTX, double, double, double, DTYPE);
    };
};
/* clang-format on */

#undef CTX
#undef T
#undef LIST
#undef MANY
#undef ITEMS
#undef REDUC
#undef DTYPE

/* A function and its code: FN(ta, bell_softmax). A pointer of another type is
 * an error, whatever warnings are asked for. */
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#define FN(code, function)                                                     \
    {                                                                          \
#function, #code, FN_##code,                                           \
        {                                                                      \
            .code = function                                                   \
        }                                                                      \
    }

/* Calls f; a[k] is the argument of its k-th letter, "c" not counted. An axis
 * that is absent is BELL_FLAT. */
struct bell_tensor *fn_apply(const struct fn_signature *f,
                             struct bell_context *ctx,
                             const struct fn_arg *const *a);

/* The API's function behind one of the table; NULL: it is more than that. */
const char *fn_calls(const struct bell_function *function);

/* An axis as the API takes it; far out of range where the number is. */
int fn_axis(const struct fn_arg *arg);

#endif
