/* What each stage accepts and refuses. Graphs are given as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "uops/uop.h"

struct row {
    const char *text, *message; /* NULL: valid */
};

static void
check_rows(const char *prelude, const struct row *rows, size_t n_rows,
           enum uop_stage stage)
{
    char text[2000];
    size_t i, n;

    for (i = 0; i < n_rows; i++) {
        const struct uop **roots;
        bell_status status;
        struct uop_graph g;
        snprintf(text, sizeof(text), "%s%s", prelude, rows[i].text);
        uop_graph_init(&g);
        if (uop_parse(&g, text, &roots, &n) != BELL_OK)
            fail_msg("%s: %s", rows[i].text, bell_error_last()->message);
        status = uop_validate(&g, roots, n, stage);
        if (!rows[i].message && status != BELL_OK)
            fail_msg("%s\n  refused: %s", rows[i].text,
                     bell_error_last()->message);
        if (rows[i].message &&
            (status != BELL_E_INTERNAL ||
             !strstr(bell_error_last()->message, rows[i].message)))
            fail_msg("%s\n  gave: %s\n  not:  %s", rows[i].text,
                     status ? bell_error_last()->message : "valid",
                     rows[i].message);
        host_free(roots);
        uop_graph_fini(&g);
    }
}

static void
test_arithmetic(void **state)
{
    static const char prelude[] = "%0 = const.f32 1\n"
                                  "%1 = const.i32 1\n"
                                  "%2 = const.bool 1\n"
                                  "%3 = const.i64 2\n"
                                  "%4 = broadcast.f32x4 %0\n"
                                  "%5 = param.f32 #0\n";
    static const struct row rows[] = {
        {"%9 = add.f32 %0, %0\nroots %9", NULL},
        {"%9 = add.f32 %0, %1\nroots %9", "source 1 is i32"},
        {"%9 = add.f32 %0, %4\nroots %9", "source 1 has 4 lanes"},
        {"%9 = add.i32 %0, %0\nroots %9", "source 0 is f32"},
        {"%9 = add.void %0, %0\nroots %9", "has no dtype"},
        {"%9 = sqrt.i32 %1\nroots %9", "is for floats only"},
        {"%9 = and.f32 %0, %0\nroots %9", "is for integers only"},
        {"%9 = and.bool %2, %2\nroots %9", NULL},
        {"%9 = cmplt.bool %1, %1\nroots %9", NULL},
        {"%9 = cmplt.bool %1, %0\nroots %9", "source 1 is f32, not i32"},
        {"%9 = cmplt.i32 %1, %1\nroots %9", "a comparison is bool"},
        {"%9 = where.f32 %2, %0, %0\nroots %9", NULL},
        {"%9 = where.f32 %1, %0, %0\nroots %9", "source 0 is i32, not bool"},
        {"%9 = where.f32 %2, %0, %1\nroots %9", "source 2 is i32"},
        {"%9 = mulacc.f32 %0, %0, %0\nroots %9", NULL},
        {"%9 = cast.i8 %0\nroots %9", NULL},
        {"%9 = cast.void %0\nroots %9", "has no dtype"},
        {"%9 = bitcast.i32 %0\nroots %9", NULL},
        {"%9 = bitcast.i64 %0\nroots %9", "source 0 has another size"},
        {"%9 = cast.i8 %4\nroots %9", "source 0 has 4 lanes"},
        {"%9 = broadcast.f32x4 %4\nroots %9", "source 0 has 4 lanes"},
        {"%9 = broadcast.i32x4 %0\nroots %9", "source 0 is f32"},
        {"%9 = lanes.f32x2 %0, %0\nroots %9", NULL},
        {"%9 = lanes.f32x3 %0, %0\nroots %9", "2 sources for 3 lanes"},
        {"%9 = lanes.f32x2 %0, %4\nroots %9", "source 1 has 4 lanes"},
        {"%9 = lane.f32 #3 %4\nroots %9", NULL},
        {"%9 = lane.f32 #4 %4\nroots %9", "source 0 has 4 lanes"},
        {"%9 = lane.f32x2 #0 %4\nroots %9", "has 2 lanes"},
        {"%9 = lanes_reduce.f32 #max %4\nroots %9", NULL},
        {"%9 = lanes_reduce.f32 #sub %4\nroots %9", "arg is not a reduction"},
        {"%9 = lanes_repeat.f32x8 #2 %4\nroots %9",
         "must not occur in stage K"},
        {"%9 = ramp.i64x4\nroots %9", NULL},
        {"%9 = ramp.f32x4\nroots %9", "is an integer"},
        {"%9 = const.f32x2 1\nroots %9", "has 2 lanes"},
        {"%9 = buffer.f32 #0\nroots %9", "must not occur in stage K"},
        {"%9 = barrier.void\nroots %9", "must not occur in stage K"},
        {"%9 = var.i64 #1\nroots %9", NULL},
        {"%9 = var.f16 #1\nroots %9", NULL},
        {"%9 = var.void #1\nroots %9", "bad slot or type"},
        {"%9 = var.i64 #1 %3, %3\nroots %9", NULL},
        {"%9 = var.i64 #1 %3\nroots %9", "two CONSTs bound an integer"},
        {"%9 = var.f32 #1 %0, %0\nroots %9", "two CONSTs bound an integer"},
        {"%9 = var.i32 #1 %3, %3\nroots %9", "source 0 is i64"},
        {"%9 = param.f32 #-1\nroots %9", "bad slot or type"},
    };

    (void)state;
    check_rows(prelude, rows, ARRAY_LEN(rows), UOP_STAGE_K);
}

/* A store of integers in order: RANGEs of two sizes, the arg, the place. */
#define ORDER(from, to, arg, place)                                            \
    "%20 = const.i64 " from "\n%30 = const.i64 " to                            \
    "\n%21 = range.i64 #2:loop %30\n%22 = range.i64 #3:reduce %20\n"           \
    "%23 = param.i64 #2\n%24 = load.i64 %23, %22\n"                            \
    "%25 = sort.i64 #" arg " %24, %22, " place                                 \
    "\n%26 = store.void %23, %21, %25\n%27 = sink.void %26\nroots %27"

static void
test_kernels(void **state)
{
    static const char prelude[] = "%0 = const.i64 8\n"
                                  "%1 = range.i64 #0:loop %0\n"
                                  "%2 = range.i64 #1:reduce %0\n"
                                  "%3 = param.f32 #0\n"
                                  "%4 = param.f32 #1\n"
                                  "%5 = const.f32 0\n"
                                  "%6 = const.bool 1\n"
                                  "%7 = load.f32 %4, %2\n";
    static const struct row rows[] = {
        {"%9 = reduce.f32 #add %7, %2\n%10 = store.void %3, %1, %9\n"
         "%11 = sink.void %10\nroots %11",
         NULL},
        {"%10 = store.void %3, %1, %7\n%11 = sink.void %10\nroots %11",
         "RANGE 1 of a reduction is not bound"},
        {"%9 = reduce.f32 #add %7, %2\n%10 = store.void %3, %2, %9\n"
         "roots %10",
         "RANGE 1 of a reduction is not bound"},
        {"%9 = reduce.f32 #add %7, %0\nroots %9", "source 1 is not a RANGE"},
        {"%9 = reduce.f32 #sub %7, %2\nroots %9", "arg is not a reduction"},
        {ORDER("64", "64", "1", "%21"), NULL},
        {ORDER("64", "64", "2", "%21"), "arg 0 or 1"},
        {ORDER("48", "48", "0", "%21"), "integers by RANGEs of 32"},
        {ORDER("16", "16", "0", "%21"), "integers by RANGEs of 32"},
        {ORDER("64", "32", "0", "%21"), "integers by RANGEs of 32"},
        {ORDER("64", "64", "0", "%20"), "source 2 is not a RANGE"},
        {"%9 = reduce.f64 #add %7, %2\nroots %9", "source 0 is f32"},
        {"%9 = range.i64 #0:loop %1\nroots %1, %9", "has this id"},
        {"%9 = range.i32 #3:loop %0\nroots %9", "one lane of its extent"},
        {"%9 = range.i64 #3:loop %5\nroots %9", "source 0 is f32, not i64"},
        {"%8 = const.i64 -1\n%9 = range.i64 #3:loop %8\nroots %9",
         "negative extent"},
        {"%9 = load.f32 %4, %1, %5, %6\nroots %9", NULL},
        {"%9 = load.f32 %4, %1, %5\nroots %9", "and no gate"},
        {"%9 = load.f64 %4, %1\nroots %9", "source 0 is f32"},
        {"%9 = load.f32 %4, %5\nroots %9", "source 1 is f32, not i64"},
        {"%9 = load.f32 %5, %1\nroots %9", "source 0 is not memory"},
        {"%9 = load.f32 %4, %1, %5, %1\nroots %9", "source 3 is i64"},
        {"%9 = load.f32 %4, %1, %1, %6\nroots %9", "source 2 is i64"},
        {"%8 = ramp.i64x4\n%9 = load.f32x4 %4, %8\nroots %9", NULL},
        {"%8 = ramp.i64x4\n%9 = load.f32x8 %4, %8\nroots %9",
         "source 1 has 4 lanes"},
        {"%9 = store.void %3, %1, %5\nroots %9", NULL},
        {"%9 = store.f32 %3, %1, %5\nroots %9", "an effect has no value"},
        {"%9 = store.void %3, %1, %1\nroots %9", "source 2 is i64, not f32"},
        {"%9 = store.void %1, %1, %1\nroots %9", "source 0 is not memory"},
        {"%9 = sink.void %5\nroots %9", "source 0 is not an effect"},
        {"%8 = store.void %3, %1, %5\n%9 = after.f32 %3, %8\nroots %9", NULL},
        {"%9 = after.f32 %3, %5\nroots %9", "source 1 is not an effect"},
        {"%9 = acc.f32 #0 %5\nroots %9", "must not occur in stage K"},
    };

    (void)state;
    check_rows(prelude, rows, ARRAY_LEN(rows), UOP_STAGE_K);
}

static void
test_tensors(void **state)
{
    static const char prelude[] = "%0 = buffer.f32 #0 : [4, 6]\n"
                                  "%1 = buffer.i64 #1 : [4, 6]\n"
                                  "%2 = buffer.f32 #2 : [6, 4]\n"
                                  "%3 = const.f32 1 : []\n"
                                  "%4 = buffer.f32 #4 : [1, 6]\n";
    static const struct row rows[] = {
        {"%9 = add.f32 %0, %0 : [4, 6]\nroots %9", NULL},
        {"%9 = add.f32 %0, %3 : [4, 6]\nroots %9", NULL},
        {"%9 = add.f32 %0, %2 : [4, 6]\nroots %9", "has another shape"},
        {"%9 = add.f32 %0, %0\nroots %9", "has no shape"},
        {"%9 = reshape.f32 [24] %0 : [24]\nroots %9", NULL},
        {"%9 = reshape.f32 [25] %0 : [25]\nroots %9", "disagree"},
        {"%9 = reshape.f32 [24] %0 : [3, 8]\nroots %9", "disagree"},
        {"%9 = permute.f32 [1, 0] %0 : [6, 4]\nroots %9", NULL},
        {"%9 = permute.f32 [1, 1] %0 : [6, 6]\nroots %9", "disagree"},
        {"%9 = permute.f32 [1, 0] %0 : [4, 6]\nroots %9", "disagree"},
        {"%9 = permute.f32 [0, 2] %0 : [4, 6]\nroots %9", "disagree"},
        {"%9 = expand.f32 [5, 6] %4 : [5, 6]\nroots %9", NULL},
        {"%9 = expand.f32 [5, 6] %0 : [5, 6]\nroots %9", "disagree"},
        {"%9 = pad.f32 [1, 2, 0, 0] %0 : [7, 6]\nroots %9", NULL},
        {"%9 = pad.f32 [1, 2, 0, 0] %0 : [6, 6]\nroots %9", "disagree"},
        {"%9 = pad.f32 [-1, 2, 0, 0] %0 : [5, 6]\nroots %9", "disagree"},
        {"%9 = shrink.f32 [1, 3, 0, 6] %0 : [2, 6]\nroots %9", NULL},
        {"%9 = shrink.f32 [1, 5, 0, 6] %0 : [4, 6]\nroots %9", "disagree"},
        {"%9 = shrink.f32 [3, 1, 0, 6] %0 : [2, 6]\nroots %9", "disagree"},
        {"%9 = shrink.f32 [0, 2, 0, 6, 1, 2, 0, 0] %0 : [2, 6]\nroots %9",
         NULL},
        {"%9 = shrink.f32 [0, 2, 0, 6, 1, 0, 0, 0] %0 : [2, 6]\nroots %9",
         "disagree"},
        {"%9 = shrink.f32 [1, 3, 0, 6, 1, 1, 0, 0] %0 : [2, 6]\nroots %9",
         "disagree"},
        {"%9 = pad.f32 [0, 3, 0, 0, 4, 1, 0, 0] %0 : [7, 6]\nroots %9", NULL},
        {"%9 = pad.f32 [1, 2, 0, 0, 4, 1, 0, 0] %0 : [7, 6]\nroots %9",
         "disagree"},
        {"%8 = var.f32 #4 : []\n%9 = add.f32 %0, %8 : [4, 6]\nroots %9", NULL},
        {"%8 = var.f32 #4 : [6]\n%9 = add.f32 %0, %8 : [4, 6]\nroots %9",
         "is a scalar"},
        {"%9 = flip.f32 #3 %0 : [4, 6]\nroots %9", NULL},
        {"%9 = flip.f32 #4 %0 : [4, 6]\nroots %9", "disagree"},
        {"%9 = reduce_axis.f32 #add:1 %0 : [1, 6]\nroots %9", NULL},
        {"%9 = reduce_axis.f32 #add:1 %0 : [4, 1]\nroots %9", "dimension 0"},
        {"%9 = reduce_axis.f32 #add:4 %0 : [4, 6]\nroots %9", "disagree"},
        {"%9 = reduce_axis.f32 #sub:1 %0 : [1, 6]\nroots %9",
         "not a reduction"},
        {"%9 = gather.f32 #1 %0, %1 : [4, 6]\nroots %9", NULL},
        {"%9 = gather.f32 #2 %0, %1 : [4, 6]\nroots %9", "disagree"},
        {"%9 = gather.f32 #1 %0, %0 : [4, 6]\nroots %9", "not an integer"},
        {"%8 = iota.i64 #40 : [40]\n%9 = reshape.i64 [5, 4, 2] %8 : [5, 4, 2]\n"
         "%10 = sort_axis.i64 #1 %9 : [5, 4, 2]\nroots %10",
         NULL},
        {"%8 = iota.i64 #40 : [40]\n%9 = reshape.i64 [4, 5, 2] %8 : [4, 5, 2]\n"
         "%10 = sort_axis.i64 #1 %9 : [4, 5, 2]\nroots %10",
         "along 2, 4, .. 4096"},
        {"%9 = contiguous.f32 %0 : [4, 6]\nroots %9", NULL},
        {"%9 = contiguous.f32 %0 : [6, 4]\nroots %9", "another shape"},
        {"%9 = layout.f32 #10 %0 : [4, 6]\nroots %9", NULL},
        {"%9 = layout.f32 #12 %0 : [4, 6]\nroots %9", "one of its own"},
        {"%9 = layout.f32 #3 %0 : [4, 6]\nroots %9", "one of its own"},
        {"%9 = layout.f32 #4 %0 : [6, 4]\nroots %9", "another shape"},
        {"%9 = iota.i64 #5 : [5]\nroots %9", NULL},
        {"%9 = iota.f32 #5 : [5]\nroots %9", "is an integer"},
        {"%9 = sink.void %0, %1\nroots %9", NULL},
        {"%8 = const.i64 4\n%9 = range.i64 #0:loop %8\nroots %9",
         "must not occur in stage T"},
    };

    (void)state;
    check_rows(prelude, rows, ARRAY_LEN(rows), UOP_STAGE_T);
}

#define COPY(dtype, bytes, sources)                                            \
    "%9 = local." dtype " #0:64\n%11 = const.bool 1\n%10 = copy.void #" bytes  \
    " " sources "\nroots %10"
/* A of so many lanes, 16 steps an instruction. */
#define HELD(lanes, arg)                                                       \
    "%30 = broadcast.f32x32 %3\n%9 = acc.f32x32 #9 %30\n"                      \
    "%31 = const.bf16 0\n%32 = broadcast.bf16x" lanes " %31\n"                 \
    "%33 = local.bf16 #1:4096\n%10 = wgmma_held.void #" arg                    \
    " %9, %32, %33, %0\nroots %10"
#define ROWS(dtype, lanes, turned)                                             \
    "%9 = local." dtype " #0:64\n%10 = wmma_rows." dtype "x" lanes " #" turned \
    " %9, %0\nroots %10"

static void
test_programs(void **state)
{
    static const char prelude[] = "%0 = const.i64 8\n"
                                  "%1 = range.i64 #0:loop %0\n"
                                  "%2 = param.f32 #0\n"
                                  "%3 = const.f32 0\n"
                                  "%4 = acc.f32 #0 %3\n"
                                  "%5 = acc_get.f32 %4, %1\n"
                                  "%6 = add.f32 %5, %5\n"
                                  "%7 = acc_set.void %4, %6\n"
                                  "%8 = end.void %1, %7\n"
                                  "%20 = range.i64 #1:loop %0\n"
                                  "%21 = end.void %20, %8\n";
    static const struct row rows[] = {
        {"roots %0, %3, %4, %1, %5, %6, %7, %8", NULL},
        {"roots %0, %1, %3, %5, %4", "comes before its source 0"},
        {"roots %0, %3, %4, %1, %5, %6, %7", "is not closed"},
        {"roots %0, %0", "is listed twice"},
        {"roots %0, %3, %4, %1, %20, %5, %6, %7, %8", "not the innermost"},
        {"%9 = acc_get.f64 %4, %1\nroots %9", "source 0 is f32"},
        {"%9 = acc_get.f32 %3, %1\nroots %9", "source 0 is not an ACC"},
        {"%9 = acc_get.f32 %4, %0\nroots %9",
         "not a RANGE, END, ENDIF or WGMMA_WAIT"},
        {"%9 = acc_set.void %3, %3\nroots %9", "source 0 is not an ACC"},
        {"%9 = acc_set.void %4, %0\nroots %9", "differ in type"},
        {"%9 = acc.f64 #0 %3\nroots %9", "source 0 is f32"},
        {"%9 = acc.f32 #0 %3, %0\nroots %9", "source 1 is not a RANGE"},
        {"%9 = end.void %0, %7\nroots %9", "source 0 is not a RANGE"},
        {"%9 = end.void %1, %3\nroots %9", "source 1 is not an effect"},
        {"%9 = special.i64 #2 %0\nroots %9", NULL},
        {"%9 = special.i64 #3 %0\nroots %9", "arg 0..2 or 4..6"},
        {"%9 = barrier.void %7\nroots %9", NULL},
        {"%9 = barrier.void %3\nroots %9", "source 0 is not an effect"},
        {"%9 = local.f32 #0:64\nroots %9", NULL},
        {"%9 = local.void #0:64\nroots %9", "has no dtype"},
        {"%30 = const.bool 1\n%9 = if.void %30\n%10 = endif.void %9\n"
         "roots %10",
         NULL},
        {COPY("f32", "16", "%9, %0, %2, %0"), NULL},
        {COPY("f32", "16", "%9, %0, %2, %0, %11, %11"), NULL},
        {COPY("f32", "2", "%9, %0, %2, %0"), "2 bytes at once"},
        {COPY("f32", "16", "%2, %0, %9, %0"), "source 0 is not a LOCAL"},
        {COPY("f16", "16", "%9, %0, %2, %0"), "source 2 is f32, not f16"},
        {COPY("f32", "16", "%9, %3, %2, %0"), "source 1 is f32, not i64"},
        {COPY("f32", "16", "%9, %0, %2, %0, %0"), "source 4 is i64, not bool"},
        {ROWS("f16", "8", "1"), NULL},
        {ROWS("u8", "16", "0"), NULL},
        {ROWS("u8", "16", "1"), "of 2-byte elements"},
        {ROWS("f16", "6", "0"), "no 1, 2 or 4 registers"},
        {ROWS("f32", "4", "0"), "no 1, 2 or 4 registers"},
        {HELD("32", "68157504"), NULL}, /* 64 columns, 4 times */
        {HELD("16", "68157504"), "source 1 is not an A of 4 x 16 steps"},
        {HELD("16", "34603072"), NULL}, /* twice */
        {HELD("64", "135266368"), "no shape has 64 columns and 8 x 16 steps"},
        {HELD("64", "8725200960"), NULL}, /* B is turned */
        {HELD("16", "8624537664"), NULL}, /* B is turned */
        {"%9 = pingpong.void #1 %7\n%10 = pingpong_end.void %9\nroots %10",
         NULL},
        {"%9 = pingpong.void #1 %3\nroots %9", "source 0 is not an effect"},
        {"%9 = if.void %3\nroots %9", "source 0 is f32, not bool"},
        {"%9 = endif.void %7\nroots %9", "source 0 is not an IF"},
        {"%9 = reduce.f32 #add %3, %1\nroots %9", "must not occur in stage P"},
        {"%9 = pow.f32 %3, %3\nroots %9", "must not occur in stage P"},
        {"%9 = var.i64 #9\nroots %9", NULL},
        {"%9 = var.f32 #9\nroots %9", "bad slot or type"},
    };

    (void)state;
    check_rows(prelude, rows, ARRAY_LEN(rows), UOP_STAGE_P);
}

/* The message has the node as it is printed, and as an expression. */
static void
test_message(void **state)
{
    union uop_arg arg = {.f = 0.1};
    struct uop_graph g;
    const struct uop *u;

    (void)state;
    uop_graph_init(&g);
    u = uop_new(&g, UOP_CONST, UOP_F32, 1, arg, NULL, 0);
    assert_int_equal(uop_validate(&g, &u, 1, UOP_STAGE_K), BELL_E_INTERNAL);
    assert_string_equal(bell_error_last()->message,
                        "%0 = const.f32 (0.1): is not a value of its dtype");
    u = uop_const_float(&g, UOP_F32, 1);
    {
        const struct uop *src[2] = {u, uop_const_int(&g, UOP_I8, 2)};
        u = uop_new(&g, UOP_ADD, UOP_F32, 1, (union uop_arg){.i = 0}, src, 2);
    }
    assert_int_equal(uop_validate(&g, &u, 1, UOP_STAGE_K), BELL_E_INTERNAL);
    assert_string_equal(bell_error_last()->message,
                        "%3 = add.f32 %1, %2 (1.0 + 2): source 1 is i8");
    uop_graph_fini(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_tensors),    cmocka_unit_test(test_programs),
        cmocka_unit_test(test_message),
    };

    return cmocka_run_group_tests_name("validate", tests, NULL, NULL);
}
