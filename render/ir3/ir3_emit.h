/* Shared by the files that compile for Adreno.
 *
 * ir3.c walks the program, ir3_math.c and ir3_mem.c append instructions on
 * virtual registers, ir3_alloc.c gives these registers of the chip,
 * ir3_schedule.c orders them, ir3_finish.c adds what the chip does not wait for
 * by itself.
 *
 * Every node's value is a list of pairs of operands, one pair a lane. How a
 * dtype lies in registers of 32 bits:
 *   BOOL                  0 or 1
 *   I8 U8 I16 U16 I32 U32 sign- or zero-extended as the dtype is
 *   I64 U64               two, the low one first
 *   F32                   its bits
 *   F64                   its bits, two, the low one first: they are loaded and
 *                         cast to F32, only
 *   F16 BF16, 8-bit ones  their bits, zero-extended: they are stored, only
 * Half registers hold what passes through memory in 8 and 16 bits.
 */
#ifndef BELL_RENDER_IR3_IR3_EMIT_H
#define BELL_RENDER_IR3_IR3_EMIT_H

#include "base/arena.h"
#include "base/map.h"
#include "render/ir3/ir3.h"

/* An operand. */
struct ir3_opnd {
    enum ir3_opnd_kind {
        IR3_NONE,
        IR3_REG,   /* virtual register `v`, component `comp` */
        IR3_CONST, /* constant number v */
        IR3_FIXED, /* the chip's register v */
        IR3_IMM,   /* the number v */
    } kind : 8;
    uint8_t comp;
    bool neg, abs; /* of floats */
    uint32_t v;
};

/* One lane of a value; hi is for 64 bits. */
struct ir3_lane {
    struct ir3_opnd lo, hi;
};

/* A virtual register: 1 to 4 neighbours, whole ones or halves. */
struct ir3_vreg {
    uint8_t n;
    bool is_half, is_spilled, is_scratch; /* scratch: made to spill others */
    bool is_arg;   /* words of an argument: what is spilled is loaded anew */
    int32_t reg;   /* number of the chip's first, of its width; -1: none yet */
    uint32_t hint; /* virtual register + 1 that it would do well to share */
    uint32_t first, last; /* places where it lives */
    uint32_t slot;        /* where it is spilled, or the argument is: words */
};

/* An instruction, or where a branch goes to: op is IR3_OP_COUNT then. */
struct ir3_insn {
    enum ir3_op op;
    uint8_t type, src_type; /* of memory; of conversions: to and from */
    uint8_t cond, n;        /* n: components of memory */
    bool is_half;           /* sources of categories 2 and 4 */
    bool sat, round_even, is_not;
    int32_t off; /* bytes of memory; word of an LDC; value of a mov; a branch's
                  * label */
    uint32_t predicate; /* component of p0 that a branch goes by */
    struct ir3_opnd dst, src[3];
};

struct ir3_loop {
    const struct uop *range;
    struct ir3_lane index, extent;
    uint32_t top, done; /* labels */
    bool counted;       /* runs at least once */
};

struct ir3_value {
    const struct ir3_lane *lanes; /* NULL: not made */
};

struct ir3_emit {
    const struct lower_program *prog;
    enum ir3_gen gen;
    struct arena arena;
    struct ir3_insn *insns;
    uint32_t n_insns, cap_insns;
    struct ir3_vreg *vregs; /* [0] is none */
    uint32_t n_vregs, cap_vregs;
    uint32_t n_labels;
    struct map index; /* uop id -> place in values */
    struct map sums;  /* ids of what is computed in a variable's registers ->
                       * its ACC's place in `accs` */
    const struct uop **accs;
    uint32_t n_accs;
    struct ir3_value *values;
    uint32_t n_values;
    struct ir3_loop *loops;
    uint32_t n_loops, depth, max_depth;
    struct map locals; /* LOCAL's id -> byte offset */
    uint32_t shared_bytes, private_bytes;
    struct ir3_opnd tid, zero; /* thread's place, three; 0 for addresses */
    struct ir3_opnd *args;   /* those in memory, by slot; NULL: in constants */
    uint32_t n_const;        /* constants that are used */
    struct ir3_insn nothing; /* written to when memory is out, never read */
    bool is_narrow; /* element by element: what is single can be spilled */
    bool failed;
};

/* ---- building (ir3_build.c) ---- */

/* Room for one more of n items in an array in the arena; what it held stays
 * there until the end. NULL: memory is out. */
void *ir3_grow(struct ir3_emit *e, void *old, uint32_t n, uint32_t *cap,
               size_t size);

struct ir3_opnd ir3_vreg_new(struct ir3_emit *e, unsigned n, bool is_half);
/* Component i of a register. */
struct ir3_opnd ir3_part(struct ir3_opnd o, unsigned i);
struct ir3_opnd ir3_imm(uint32_t value);
/* A word of an argument: its low one, or its high one. */
struct ir3_opnd ir3_arg_word(const struct ir3_emit *e, uint32_t slot,
                             unsigned word);
/* Loads n words of arguments that lie in memory. */
void ir3_load_args(struct ir3_emit *e, struct ir3_opnd to, uint32_t word,
                   unsigned n);
struct ir3_insn *ir3_add(struct ir3_emit *e, enum ir3_op op);
uint32_t ir3_label(struct ir3_emit *e);
void ir3_place(struct ir3_emit *e, uint32_t label);

/* To a register that is there. */
void ir3_move(struct ir3_emit *e, struct ir3_opnd to, struct ir3_opnd from);
/* As a whole register. */
struct ir3_opnd ir3_in_reg(struct ir3_emit *e, struct ir3_opnd o);
/* One and two sources into a new register; category 2 and 4. */
struct ir3_opnd ir3_op1(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd a);
struct ir3_opnd ir3_op2(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd a,
                        struct ir3_opnd b);
struct ir3_opnd ir3_op3(struct ir3_emit *e, enum ir3_op op, struct ir3_opnd a,
                        struct ir3_opnd b, struct ir3_opnd c);
/* 0 or 1. */
struct ir3_opnd ir3_compare(struct ir3_emit *e, enum ir3_op op, unsigned cond,
                            struct ir3_opnd a, struct ir3_opnd b);
struct ir3_opnd ir3_select(struct ir3_emit *e, struct ir3_opnd cond,
                           struct ir3_opnd a, struct ir3_opnd b);
/* cov; the type of either says its width. */
struct ir3_opnd ir3_convert(struct ir3_emit *e, enum ir3_type from,
                            enum ir3_type to, struct ir3_opnd a);
/* Goes to the label where `cond` is 0, or is not. */
void ir3_branch(struct ir3_emit *e, struct ir3_opnd cond, bool where_set,
                uint32_t label);

#define IR3_LT 0u
#define IR3_LE 1u
#define IR3_GT 2u
#define IR3_GE 3u
#define IR3_EQ 4u
#define IR3_NE 5u

/* ---- arithmetic (ir3_math.c, ir3_float.c, ir3_cast.c) ---- */

/* `op` on data of `dtype`; `u` is for messages. */
BELL_MUST_CHECK bell_status ir3_emit_alu(struct ir3_emit *e,
                                         const struct uop *u, enum uop_op op,
                                         unsigned dtype,
                                         const struct ir3_lane *src[3],
                                         struct ir3_lane *out);
/* The same of float32. */
BELL_MUST_CHECK bell_status ir3_emit_float(struct ir3_emit *e,
                                           const struct uop *u, enum uop_op op,
                                           const struct ir3_lane **src,
                                           struct ir3_lane *out);
/* The positive float nearest to m * 2^(field - 127 - 25), ties to even, of any
 * size: m has 26 digits, of which the last is also set where more follow. */
struct ir3_opnd ir3_round_float(struct ir3_emit *e, struct ir3_opnd m,
                                struct ir3_opnd field);
/* Cuts a result to a dtype of 8 or 16 bits. */
struct ir3_opnd ir3_wrap(struct ir3_emit *e, unsigned dtype, struct ir3_opnd a);
struct ir3_lane ir3_cast(struct ir3_emit *e, unsigned from, unsigned to,
                         struct ir3_lane a);
struct ir3_opnd ir3_mul32(struct ir3_emit *e, struct ir3_opnd a,
                          struct ir3_opnd b);
struct ir3_lane ir3_add64(struct ir3_emit *e, struct ir3_lane a,
                          struct ir3_lane b);
struct ir3_lane ir3_sub64(struct ir3_emit *e, struct ir3_lane a,
                          struct ir3_lane b);
struct ir3_lane ir3_shift64(struct ir3_emit *e, enum uop_op op, bool is_signed,
                            struct ir3_lane a, struct ir3_opnd by);
struct ir3_opnd ir3_less64(struct ir3_emit *e, bool is_signed,
                           struct ir3_lane a, struct ir3_lane b);

/* ---- memory (ir3_mem.c) ---- */

BELL_MUST_CHECK bell_status ir3_place_locals(struct ir3_emit *e);
BELL_MUST_CHECK bell_status ir3_emit_index(struct ir3_emit *e,
                                           const struct uop *u,
                                           struct ir3_lane *out);
BELL_MUST_CHECK bell_status ir3_emit_load(struct ir3_emit *e,
                                          const struct uop *u,
                                          struct ir3_lane *out);
BELL_MUST_CHECK bell_status ir3_emit_store(struct ir3_emit *e,
                                           const struct uop *u);

/* ---- the walk (ir3.c) ---- */

BELL_MUST_CHECK bell_status ir3_value_of(struct ir3_emit *e,
                                         const struct uop *u,
                                         const struct ir3_lane **out_lanes);
BELL_MUST_CHECK bell_status ir3_refuse(const struct ir3_emit *e,
                                       const struct uop *u, const char *why);

/* The program's ops in an order with shorter lives (ir3_order.c); what are sums
 * must be known. */
BELL_MUST_CHECK bell_status ir3_order(struct ir3_emit *e,
                                      const struct uop *const **ops);

/* ---- registers, order, waits (ir3_alloc, ir3_schedule, ir3_finish.c) ----- */

BELL_MUST_CHECK bell_status ir3_alloc(struct ir3_emit *e);
/* Instructions with registers, in an order in which they wait less. */
BELL_MUST_CHECK bell_status ir3_schedule(struct ir3_emit *e);
/* The instructions' words, in e->arena; a multiple of 16 of them. */
BELL_MUST_CHECK bell_status ir3_finish(struct ir3_emit *e, uint64_t **out_words,
                                       uint32_t *out_n);

/* Registers by halves, two to a whole one; then p0. */
#define IR3_PLACES 388u

/* What an instruction reads or writes: n places from `at`. */
struct ir3_span {
    uint32_t at, n;
    bool is_half;
};

/* Cycles between an ALU instruction and one that reads its result: of the ALU,
 * another one; more of them where their widths differ. */
struct ir3_latency {
    int alu, other, width;
};
const struct ir3_latency *ir3_latency_of(enum ir3_gen gen);

/* n registers from the operand's on; none where it is not a register of the
 * thread's. */
struct ir3_span ir3_span_of(const struct ir3_emit *e, struct ir3_opnd o,
                            unsigned n);
/* Neighbours that a source is: of an address two, of what is stored all. */
unsigned ir3_source_width(const struct ir3_insn *in, unsigned i);
bool ir3_is_alu(enum ir3_op op);
bool ir3_is_sfu(enum ir3_op op);
bool ir3_is_load(enum ir3_op op);
bool ir3_is_store(enum ir3_op op);

static inline bool
ir3_is_64(unsigned dtype)
{
    return dtype == UOP_I64 || dtype == UOP_U64 || dtype == UOP_F64;
}

#endif
