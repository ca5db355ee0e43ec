/* Shared by the files that render OpenCL C.
 *
 * Every node's value is a list of operands, one a lane: variables, constants
 * or arguments. Lane operations make no code, they pick operands. Variables
 * are declared where the kernel begins, so a value may be made in one block
 * and used in another. BF16 and F16 are held as ushort, 8-bit floats as uchar.
 */
#ifndef BELL_RENDER_CL_CL_INTERNAL_H
#define BELL_RENDER_CL_CL_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "render/cl/cl.h"
#include "render/text.h"

enum cl_kind {
    CL_VARIABLE, /* r3 */
    CL_IMMEDIATE,
    CL_ARGUMENT, /* a3: a VAR */
    CL_MEMORY,   /* p3_f32: a PARAM */
    CL_SHARED,   /* m3: a LOCAL */
};

/* What a variable points to, if it is a pointer. */
enum cl_space {
    CL_VALUE, /* it is none */
    CL_GLOBAL,
    CL_LOCAL,
};

struct cl_opnd {
    uint8_t kind, dtype, space;
    uint32_t number; /* of the variable, argument or memory */
    uint64_t bits;   /* of a constant */
};

struct cl_value {
    const struct cl_opnd *lanes; /* NULL: not made */
    uint32_t loop;               /* serial of the loop it was made in */
};

struct cl_loop {
    const struct uop *range;
    uint32_t serial;
};

/* A variable's type. */
struct cl_variable {
    uint8_t dtype, space;
};

struct cl_emit {
    const struct lower_program *prog;
    const struct cl_target *target;
    const struct uop *const *ops;
    struct arena arena;
    struct render_text header, body;
    struct cl_variable *variables; /* owned */
    size_t n_variables, cap_variables;
    struct map index; /* uop id -> place in values */
    struct cl_value *values;
    uint32_t n_values;
    struct cl_loop *loops; /* open ones */
    uint32_t n_loops, next_serial, depth;
    bool (*is_declared)[UOP_DTYPE_COUNT]; /* by slot: the PARAM's pointer */
    bool loads_halves, stores_halves;     /* from and to F32 */
    bool stores_doubles;                  /* F64 to F16 */
    bool failed;                          /* no memory for a variable */
};

/* ---- text ---- */

/* Appends one statement to the body, ended with ";". In `fmt`, % stands for the
 * next operand of `o`, %% for itself. */
void cl_op(struct cl_emit *e, const char *fmt, const struct cl_opnd *o);
#define CL_OP(e, fmt, ...)                                                     \
    cl_op((e), (fmt), (const struct cl_opnd[]){__VA_ARGS__})
void cl_put_opnd(struct render_text *t, struct cl_opnd o);
/* A line's indent. */
void cl_indent(struct cl_emit *e);
/* The end of a block, "}". */
void cl_close_block(struct cl_emit *e);

/* The type of a value, or of an element in memory: "float". */
const char *cl_type(unsigned dtype);
const char *cl_memory_type(unsigned dtype);

/* ---- values ---- */

struct cl_opnd cl_new(struct cl_emit *e, unsigned dtype, enum cl_space space);
struct cl_opnd cl_imm(unsigned dtype, uint64_t bits);
struct cl_opnd cl_const(unsigned dtype, union uop_arg arg);
BELL_MUST_CHECK bell_status cl_value_of(struct cl_emit *e, const struct uop *u,
                                        struct cl_value *out_value);
BELL_MUST_CHECK bell_status cl_refuse(const struct cl_emit *e,
                                      const struct uop *u, const char *why);
BELL_MUST_CHECK bell_status cl_no_memory(const struct cl_emit *e);

/* ---- parts ---- */

/* Arithmetic, conversions, lanes (cl_ops.c). */
BELL_MUST_CHECK bell_status cl_emit_op(struct cl_emit *e, const struct uop *u,
                                       struct cl_value *out_value);

/* Memory (cl_mem.c). */
BELL_MUST_CHECK bell_status cl_declare_locals(struct cl_emit *e);
BELL_MUST_CHECK bell_status cl_emit_index(struct cl_emit *e,
                                          const struct uop *u,
                                          struct cl_opnd *out);
BELL_MUST_CHECK bell_status cl_emit_load(struct cl_emit *e, const struct uop *u,
                                         struct cl_opnd *out_lanes);
BELL_MUST_CHECK bell_status cl_emit_store(struct cl_emit *e,
                                          const struct uop *u);

#endif
