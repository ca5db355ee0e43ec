/* Shared by the files that make code through LLVM: a program becomes one LLVM
 * function. A dialect has the particulars of this machine and of GPUs.
 *
 * How values are held: BOOL is i1 in registers and a byte 0 or 1 in memory;
 * floats of 8 and 16 bits are i8 and i16 everywhere and only CAST gives them
 * meaning; pointers are opaque.
 * Register variables (ACC) are SSA values with phis at the loops that set
 * them, made directly, so that no pass has to find them.
 */
#ifndef BELL_RENDER_LLVM_LLVM_INTERNAL_H
#define BELL_RENDER_LLVM_LLVM_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "render/llvm/llvm_api.h"
#include "render/render.h"

struct llvm_emit;

/* The code generator for a processor. This machine's is kept, one per
 * thread. */
struct llvm_machine {
    LLVMTargetMachineRef tm;
    const char *triple;
    char *own_triple, *cpu, *features; /* LLVM's strings, or NULL */
    bool has_round;                    /* TRUNC is an instruction */
};

/* How a program meets its processor: a constant table. */
struct llvm_dialect {
    const char *name; /* in messages: "the host" */
    bool is_gpu;      /* below: what the other functions are for */
    /* Makes e->fn and calls llvm_emit_ops at the right place. */
    bell_status (*emit)(struct llvm_emit *e);
    /* An argument that is used for the first time, at the entry. */
    LLVMValueRef (*arg)(struct llvm_emit *e, const struct uop *u);
    /* A coordinate: I64, or i32 on a GPU. NULL: there is no such thing. */
    LLVMValueRef (*special)(struct llvm_emit *e, const struct uop *u);
    /* Address of LOCAL memory, at its first use; NULL: out of memory. */
    LLVMValueRef (*local)(struct llvm_emit *e, const struct uop *u);
    /* GPUs only. A BARRIER. */
    bell_status (*barrier)(struct llvm_emit *e);
    /* Also GPUs only: the code generator shall not exchange what is before and
     * what is behind this. */
    void (*order)(struct llvm_emit *e);
    /* An op on these values in the processor's own way, or NULL: as usual. */
    LLVMValueRef (*approximate)(struct llvm_emit *e, const struct uop *u,
                                LLVMValueRef *v);
    /* A TILE_MATMUL at these addresses: results, A, B. NULL: there is none. */
    void (*tiles)(struct llvm_emit *e, const struct uop *u,
                  const LLVMValueRef *at);
    /* A BYTE_DOT of these values; NULL: there is none. */
    LLVMValueRef (*byte_dot)(struct llvm_emit *e, const struct uop *u,
                             LLVMValueRef *v);
    /* The STORE of a whole line is to go past the caches; NULL: all go through
     * them. */
    void (*stream)(struct llvm_emit *e, LLVMValueRef store);
    /* A WMMA of these values; NULL: there is no such instruction. */
    LLVMValueRef (*matrix)(struct llvm_emit *e, const struct uop *u,
                           LLVMValueRef *v);
    /* The same value, whose making stays where it stands. GPUs only: what is
     * made of WMMAs in a loop, or without one, passes through it. */
    LLVMValueRef (*pin)(struct llvm_emit *e, LLVMValueRef v);
    /* A LANES in a better way than element by element; *out_value stays where
     * there is none. */
    bell_status (*lanes)(struct llvm_emit *e, const struct uop *u,
                         LLVMValueRef *out_value);
};

/* What an op became. */
struct llvm_value {
    LLVMValueRef v;
    uint32_t loop; /* serial of the loop it was made in, 0: none */
};

/* A register variable. */
struct llvm_acc {
    const struct uop *u;
    LLVMValueRef value; /* now */
    uint32_t depth;     /* open loops at its place */
    bool of_matrix;     /* a WMMA sets it */
};

/* A variable that a loop sets, its phi there, and its value before. */
struct llvm_carry {
    uint32_t loop, acc;
    LLVMValueRef phi; /* conditional code has none */
    LLVMValueRef before;
};

/* A loop, or conditional code; those that are open form a stack. */
struct llvm_loop {
    const struct uop *range; /* RANGE or IF */
    uint32_t serial;
    bool counted; /* runs at least once */
    LLVMBasicBlockRef before, head, exit;
    LLVMValueRef index, extent;
    uint32_t carry_begin, carry_end; /* part of llvm_emit.carries */
};

/* State of one rendering. Owned by the caller of llvm_emit_program; arena
 * and maps are freed by llvm_emit_fini. */
struct llvm_emit {
    const struct llvm_api *ll;
    const struct llvm_dialect *dialect;
    const void *target; /* the dialect's own */
    const struct lower_program *prog;
    const struct uop *const *ops; /* prog's, in the order that we use */
    uint32_t at;                  /* place of the op that is being emitted */
    const struct llvm_machine *machine;
    uint32_t vector_bytes;

    LLVMContextRef ctx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMTypeRef t_void, t_i1, t_i8, t_i16, t_i32, t_i64, t_f16, t_f32, t_f64;
    LLVMTypeRef t_ptr, t_local; /* pointers to arguments, to LOCALs */

    struct arena arena;
    struct map index; /* uop id -> position in values */
    struct llvm_value *values;
    uint32_t n_values;
    struct map acc_index; /* uop id -> position in accs */
    struct map results;   /* WMMAs that others than WMMAs use, by id */
    struct llvm_acc *accs;
    uint32_t n_accs;
    struct llvm_carry *carries; /* grouped by loop */
    uint32_t n_carries;
    uint32_t *carry_begin;   /* by loop serial; one more than loops */
    struct llvm_loop *loops; /* stack */
    uint32_t n_loops;
    uint32_t next_serial;

    LLVMValueRef *args;       /* by slot; NULL until used */
    bool has_tiles;           /* registers are configured at the entry */
    struct map locals;        /* LOCAL's id -> its address */
    LLVMModuleRef helper;     /* holds the next two; or NULL */
    LLVMValueRef fences[2];   /* release, acquire: to be cloned */
    uint32_t arg_align_bytes; /* what arguments are aligned to; 0: elements */
    LLVMValueRef *scopes;     /* !alias.scope list of a slot; or NULL */
    LLVMValueRef *noalias;    /* !noalias list of a slot */
    unsigned md_scope, md_noalias;
    bool has_streams;        /* stores past the caches, to be fenced */
    bool has_runs;           /* masks that are to be moved out of loops */
    LLVMValueRef group[3];   /* coordinates, set where used */
    LLVMBasicBlockRef entry; /* open until the end: variables go there */
    struct map consts;       /* constant -> memory that holds it */
    LLVMValueRef scratch;    /* where gated-off stores go */
    uint32_t scratch_bytes;

    bool is_ordered;    /* no variable was set since dialect->order */
    bell_status status; /* of llvm_emit_program, for the trap */
};

/* Types of a value in registers and in memory. */
LLVMTypeRef llvm_type(const struct llvm_emit *e, unsigned dtype,
                      unsigned lanes);
LLVMTypeRef llvm_mem_type(const struct llvm_emit *e, unsigned dtype,
                          unsigned lanes);

/* `lanes` of a scalar type. */
LLVMTypeRef llvm_vector(const struct llvm_emit *e, LLVMTypeRef type,
                        unsigned lanes);

/* The scalar constant of a dtype with these value bits; see uop_arg. */
LLVMValueRef llvm_const(const struct llvm_emit *e, unsigned dtype,
                        union uop_arg arg);
/* An i32, for lane numbers and the like. */
LLVMValueRef llvm_i32(const struct llvm_emit *e, uint32_t value);
/* `v`, a scalar, in every lane; itself for one lane. */
LLVMValueRef llvm_splat(struct llvm_emit *e, LLVMValueRef v, unsigned lanes);
/* Calls an intrinsic overloaded on `types`. */
LLVMValueRef llvm_intrinsic(struct llvm_emit *e, const char *name,
                            LLVMTypeRef *types, size_t n_types,
                            LLVMValueRef *args, unsigned n_args);

/* Serial of the innermost open loop, 0: none; whether a loop is open. A value
 * that was made in an open loop is available. */
uint32_t llvm_loop_serial(const struct llvm_emit *e);
bool llvm_loop_is_open(const struct llvm_emit *e, uint32_t serial);

/* The value of a source; BELL_E_INTERNAL where it is not available here. */
BELL_MUST_CHECK bell_status llvm_value_of(struct llvm_emit *e,
                                          const struct uop *u,
                                          LLVMValueRef *out_value);

/* What an op became. */
BELL_MUST_CHECK bell_status llvm_set_value(struct llvm_emit *e,
                                           const struct uop *u, LLVMValueRef v);

/* The quotient of floats; mark (or NULL) is done to each instruction of it.
 * Lane by lane where lanes of both may be known to be 0.
 * observed: LLVM 19.1 takes lanes of a vector's quotient for 0 where it knows
 * both operands to be 0 there, and so leaves the NaN that they are where a
 * constant mask makes 0 of it: x86-64 and AMDGPU, R of a 1 x 2 matrix. */
LLVMValueRef llvm_divide(struct llvm_emit *e, const struct uop *u,
                         LLVMValueRef a, LLVMValueRef b,
                         LLVMValueRef (*mark)(struct llvm_emit *e,
                                              LLVMValueRef v));

/* The value, of which LLVM no longer knows what it is: nothing is done, to the
 * kind of register that the constraint "=KIND,0" tells. Where it `stays`, it is
 * done even where nobody uses it, at this place. */
LLVMValueRef llvm_opaque(const struct llvm_emit *e, LLVMValueRef v,
                         const char *same_place, bool stays);

/* The constant as an I64. */
LLVMValueRef llvm_i64(const struct llvm_emit *e, int64_t value);
/* 0 < x, where x is u's value, a signed integer. On a GPU it is x != 0 where x
 * is known not to be negative: of two comparisons of "x & bit", one of which is
 * a signed "> 0" and the other "== 0", AMD's back end makes one instruction,
 * and so answers the first with the opposite. Comparisons for equality are
 * right. observed: LLVM 14.0.6 and 19.1.7 (docs/hardware/amd-code.md,
 * "Compiling"). */
LLVMValueRef llvm_is_positive(struct llvm_emit *e, const struct uop *u,
                              LLVMValueRef x);
/* A block at the end of the function. */
LLVMBasicBlockRef llvm_new_block(struct llvm_emit *e);
void llvm_add_incoming(struct llvm_emit *e, LLVMValueRef phi, LLVMValueRef v,
                       LLVMBasicBlockRef from);

/* A kernel argument: a PARAM's address or a VAR's value. */
LLVMValueRef llvm_arg(struct llvm_emit *e, const struct uop *u);

/* Arithmetic, conversions, lanes (llvm_ops.c). */
BELL_MUST_CHECK bell_status llvm_emit_op(struct llvm_emit *e,
                                         const struct uop *u,
                                         LLVMValueRef *out_value);

/* Memory (llvm_mem.c). */
BELL_MUST_CHECK bell_status llvm_emit_index(struct llvm_emit *e,
                                            const struct uop *u,
                                            LLVMValueRef *out_value);
BELL_MUST_CHECK bell_status llvm_emit_load(struct llvm_emit *e,
                                           const struct uop *u,
                                           LLVMValueRef *out_value);
BELL_MUST_CHECK bell_status llvm_emit_tiles(struct llvm_emit *e,
                                            const struct uop *u);
BELL_MUST_CHECK bell_status llvm_emit_store(struct llvm_emit *e,
                                            const struct uop *u);

/* The most LOADs that llvm_turn_loads makes of wide ones. */
#define LLVM_MAX_TURNED 16

/* LOADs of far lanes that lie side by side: columns of a block whose rows are
 * wide loads (llvm_turn.c). Fills loads[] with u and those behind it that are
 * such, the first in memory first; 0: none. */
uint32_t llvm_find_columns(const struct llvm_emit *e, const struct uop *u,
                           const struct uop **loads);
/* rows[0..lanes-1] of n elements each, a power of two of 4 at least, become
 * columns[0..n-1] of so many lanes. */
void llvm_turn(struct llvm_emit *e, LLVMValueRef *rows, uint32_t lanes,
               uint32_t n, LLVMValueRef *columns);

/* Builds the function in e->mod (llvm_emit.c), whose ops llvm_emit_ops
 * writes. */
BELL_MUST_CHECK bell_status llvm_emit_program(struct llvm_emit *e);
BELL_MUST_CHECK bell_status llvm_emit_ops(struct llvm_emit *e);
void llvm_emit_init(struct llvm_emit *e);
void llvm_emit_fini(struct llvm_emit *e);
/* An attribute of e->fn, with and without a name of LLVM's own. */
void llvm_fn_attr(struct llvm_emit *e, const char *key, const char *value);
void llvm_enum_attr(struct llvm_emit *e, LLVMAttributeIndex where,
                    const char *name, uint64_t value);

/* One rendering (llvm_job.c): exactly one of the outputs is wanted. */
struct llvm_job {
    struct llvm_emit e; /* prog, dialect, target, vector_bytes are set */
    /* Makes or finds the code generator; done releases it. `made` is for those
     * that make one for each rendering. */
    bell_status (*machine)(struct llvm_job *job);
    void (*done)(struct llvm_job *job);
    struct llvm_machine made;
    const char *passes; /* over the IR; or NULL */
    const char *ir;     /* LLVM IR to take in place of a program; or NULL */
    char **out_text;    /* the IR */
    char **out_asm;     /* the assembler's language */
    struct render_binary *out_binary; /* the object */
    char diagnostic[256];             /* LLVM's first error, or empty */
    bell_status status;
};
BELL_MUST_CHECK bell_status llvm_job_run(struct llvm_job *job);

/* "cannot render <op>": for what a program must not contain. */
BELL_MUST_CHECK bell_status llvm_refuse(const struct llvm_emit *e,
                                        const struct uop *u, const char *why);

/* TILE_MATMUL on the host (host_tiles.c); at[]: where results, rows and columns
 * begin. */
void llvm_host_tiles(struct llvm_emit *e, const struct uop *u,
                     const LLVMValueRef *at);
LLVMValueRef llvm_host_byte_dot(struct llvm_emit *e, const struct uop *u,
                                LLVMValueRef *v);

#endif
