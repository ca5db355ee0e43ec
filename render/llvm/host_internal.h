/* Shared by the files that make code through LLVM: a program becomes one LLVM
 * function. What is particular to this machine and to GPUs is in a dialect.
 *
 * How values are held: BOOL is i1 in registers and a byte 0 or 1 in memory;
 * floats of 8 and 16 bits are i8 and i16 everywhere and only CAST gives them
 * meaning; pointers are opaque. An I64 that is known to fit is an i32 where the
 * dialect says so.
 * Register variables (ACC) are SSA values with phis at the loops that set
 * them, made directly, so that no pass has to find them.
 */
#ifndef BELL_RENDER_LLVM_HOST_INTERNAL_H
#define BELL_RENDER_LLVM_HOST_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "render/llvm/llvm_api.h"
#include "render/ptx/ptx_internal.h"
#include "render/render.h"

struct host_emit;

/* The code generator for a processor. This machine's is kept, one per
 * thread. */
struct host_machine {
    LLVMTargetMachineRef tm;
    char *triple, *cpu, *features; /* LLVM's strings */
    bool has_round;                /* TRUNC is an instruction */
};

/* How a program meets its processor: a constant table. */
struct host_dialect {
    const char *name; /* in messages: "the host" */
    bool is_gpu;      /* below: what the other functions are for */
    /* Makes e->fn and calls host_emit_ops at the right place. */
    bell_status (*emit)(struct host_emit *e);
    /* An argument that is used for the first time, at the entry. */
    LLVMValueRef (*arg)(struct host_emit *e, const struct uop *u);
    /* A coordinate: I64, or i32 on a GPU. NULL: there is no such thing. */
    LLVMValueRef (*special)(struct host_emit *e, const struct uop *u);
    /* GPUs only. Address of LOCAL memory, at its first use; NULL: out of
     * memory. And a BARRIER. */
    LLVMValueRef (*local)(struct host_emit *e, const struct uop *u);
    bell_status (*barrier)(struct host_emit *e);
    /* An op on these values in the processor's own way, or NULL: as usual. */
    LLVMValueRef (*approximate)(struct host_emit *e, const struct uop *u,
                                LLVMValueRef *v);
    /* A WMMA of these values; NULL: there is no such instruction. */
    LLVMValueRef (*matrix)(struct host_emit *e, const struct uop *u,
                           LLVMValueRef *v);
    /* A LANES in a better way than element by element; *out_value stays where
     * there is none. */
    bell_status (*lanes)(struct host_emit *e, const struct uop *u,
                         LLVMValueRef *out_value);
};

extern const struct host_dialect host_dialect;

/* What an op became. */
struct host_value {
    LLVMValueRef v;      /* NULL where only the narrow form was made */
    LLVMValueRef narrow; /* of an I64: as i32; or NULL */
    uint32_t loop;       /* serial of the loop it was made in, 0: none */
};

/* A register variable. */
struct host_acc {
    const struct uop *u;
    LLVMValueRef value; /* now */
    uint32_t depth;     /* open loops at its place */
};

/* A variable that a loop sets, and its phi there; of conditional code: its
 * value before. */
struct host_carry {
    uint32_t loop, acc;
    LLVMValueRef phi;
};

/* A loop, or conditional code; those that are open form a stack. */
struct host_loop {
    const struct uop *range; /* RANGE or IF */
    uint32_t serial;
    bool counted; /* runs at least once, tested at its end */
    LLVMBasicBlockRef head, exit;
    LLVMValueRef index, extent;
    uint32_t carry_begin, carry_end; /* part of host_emit.carries */
};

/* State of one rendering. Owned by the caller of host_emit_program; arena
 * and maps are freed by host_emit_fini. */
struct host_emit {
    const struct llvm_api *ll;
    const struct host_dialect *dialect;
    const void *target; /* the dialect's own */
    const struct lower_program *prog;
    const struct uop *const *ops; /* prog's, in the order that we use */
    const struct host_machine *machine;
    uint32_t vector_bytes;

    LLVMContextRef ctx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMTypeRef t_void, t_i1, t_i8, t_i16, t_i32, t_i64, t_f16, t_f32, t_f64;
    LLVMTypeRef t_ptr, t_local; /* pointers to arguments, to LOCALs */

    struct arena arena;
    struct map index; /* uop id -> position in values */
    struct host_value *values;
    struct ptx_fact *facts; /* of values; of a GPU */
    uint32_t n_values;
    struct map addresses; /* slot, index's id -> position in addrs */
    struct host_value *addrs;
    size_t n_addrs, cap_addrs;
    struct map acc_index; /* uop id -> position in accs */
    struct host_acc *accs;
    uint32_t n_accs;
    struct host_carry *carries; /* grouped by loop */
    uint32_t n_carries;
    uint32_t *carry_begin;   /* by loop serial; one more than loops */
    struct host_loop *loops; /* stack */
    uint32_t n_loops;
    uint32_t next_serial;

    LLVMValueRef *args;       /* by slot; NULL until used */
    struct map locals;        /* LOCAL's id -> its address */
    LLVMModuleRef helper;     /* holds the next two; or NULL */
    LLVMValueRef fences[2];   /* release, acquire: to be cloned */
    uint32_t arg_align_bytes; /* what arguments are aligned to; 0: elements */
    LLVMValueRef *scopes;     /* !alias.scope list of a slot; or NULL */
    LLVMValueRef *noalias;    /* !noalias list of a slot */
    unsigned md_scope, md_noalias;
    LLVMValueRef group[3];   /* coordinates, set where used */
    LLVMBasicBlockRef entry; /* open until the end: variables go there */
    struct map consts;       /* constant -> memory that holds it */
    LLVMValueRef scratch;    /* where gated-off stores go */
    uint32_t scratch_bytes;

    bell_status status; /* of host_emit_program, for the trap */
};

/* Types of a value in registers and in memory. */
LLVMTypeRef host_type(const struct host_emit *e, unsigned dtype,
                      unsigned lanes);
LLVMTypeRef host_mem_type(const struct host_emit *e, unsigned dtype,
                          unsigned lanes);

/* `lanes` of a scalar type. */
LLVMTypeRef host_vector(const struct host_emit *e, LLVMTypeRef type,
                        unsigned lanes);

/* The scalar constant of a dtype with these value bits; see uop_arg. */
LLVMValueRef host_const(const struct host_emit *e, unsigned dtype,
                        union uop_arg arg);
/* An i32, for lane numbers and the like. */
LLVMValueRef host_i32(const struct host_emit *e, uint32_t value);
/* `v`, a scalar, in every lane; itself for one lane. */
LLVMValueRef host_splat(struct host_emit *e, LLVMValueRef v, unsigned lanes);
/* Calls an intrinsic overloaded on `types`. */
LLVMValueRef host_intrinsic(struct host_emit *e, const char *name,
                            LLVMTypeRef *types, size_t n_types,
                            LLVMValueRef *args, unsigned n_args);

/* Serial of the innermost open loop, 0: none; whether a loop is open. What was
 * made in an open loop is available. */
uint32_t host_loop_serial(const struct host_emit *e);
bool host_loop_is_open(const struct host_emit *e, uint32_t serial);

/* The value of a source; BELL_E_INTERNAL where it is not available here. */
BELL_MUST_CHECK bell_status host_value_of(struct host_emit *e,
                                          const struct uop *u,
                                          LLVMValueRef *out_value);

/* The constant as an I64. */
LLVMValueRef host_i64(const struct host_emit *e, int64_t value);
/* A block at the end of the function. */
LLVMBasicBlockRef host_new_block(struct host_emit *e);
void host_add_incoming(struct host_emit *e, LLVMValueRef phi, LLVMValueRef v,
                       LLVMBasicBlockRef from);

/* A kernel argument: a PARAM's address or a VAR's value. */
LLVMValueRef host_arg(struct host_emit *e, const struct uop *u);

/* Arithmetic, conversions, lanes (host_ops.c). */
BELL_MUST_CHECK bell_status host_emit_op(struct host_emit *e,
                                         const struct uop *u,
                                         LLVMValueRef *out_value);
/* The same for ops of up to three sources, whose values are v[]. */
BELL_MUST_CHECK bell_status host_emit_op_on(struct host_emit *e,
                                            const struct uop *u,
                                            LLVMValueRef *v,
                                            LLVMValueRef *out_value);

/* Narrow integers, for GPUs (host_narrow.c). What is known of an I64. */
struct ptx_fact host_fact_of(const struct host_emit *e, const struct uop *u);
/* An I64 as i32; NULL: it is not held so, or not available. */
LLVMValueRef host_narrow_of(const struct host_emit *e, const struct uop *u);
/* The op in 32 bits where that is the same; else *out_narrow is NULL.
 * *out_fact: what is known of the result. */
BELL_MUST_CHECK bell_status host_emit_narrow(struct host_emit *e,
                                             const struct uop *u,
                                             LLVMValueRef *out_narrow,
                                             struct ptx_fact *out_fact);

/* Memory (host_mem.c). */
BELL_MUST_CHECK bell_status host_emit_load(struct host_emit *e,
                                           const struct uop *u,
                                           LLVMValueRef *out_value);
BELL_MUST_CHECK bell_status host_emit_store(struct host_emit *e,
                                            const struct uop *u);

/* Builds the function in e->mod (host_emit.c), whose ops host_emit_ops
 * writes. */
BELL_MUST_CHECK bell_status host_emit_program(struct host_emit *e);
BELL_MUST_CHECK bell_status host_emit_ops(struct host_emit *e);
void host_emit_init(struct host_emit *e);
void host_emit_fini(struct host_emit *e);
/* An attribute of e->fn, with and without a name of LLVM's own. */
void host_fn_attr(struct host_emit *e, const char *key, const char *value);
void host_enum_attr(struct host_emit *e, LLVMAttributeIndex where,
                    const char *name, uint64_t value);

/* One rendering (host_llvm.c): exactly one of the outputs is wanted. */
struct host_job {
    struct host_emit e; /* prog, dialect, target, vector_bytes are set */
    /* Makes or finds the code generator; done releases it. `made` is for those
     * that make one for each rendering. */
    bell_status (*machine)(struct host_job *job);
    void (*done)(struct host_job *job);
    struct host_machine made;
    const char *passes; /* over the IR of a program; or NULL */
    const char *ir;     /* LLVM IR to take in place of a program; or NULL */
    char **out_text;    /* the IR */
    char **out_asm;     /* the assembler's language */
    struct render_binary *out_binary; /* the object */
    char diagnostic[256];             /* LLVM's first error, or empty */
    bell_status status;
};
BELL_MUST_CHECK bell_status host_job_run(struct host_job *job);

/* "cannot render <op>": for what a program must not contain. */
BELL_MUST_CHECK bell_status host_refuse(const struct host_emit *e,
                                        const struct uop *u, const char *why);

#endif
