/* Shared by the files that render PTX.
 *
 * Every node's value is a list of operands, one a lane: registers or
 * constants. Lane operations make no code, they pick operands. How a dtype
 * lies in registers:
 *   BOOL                  .pred
 *   I8 U8 I16 U16 I32 U32 .b32, sign- or zero-extended as the dtype is
 *   8-bit floats          .b32, as U8
 *   I64 U64               .b64
 *   F16 BF16              .b16
 *   F32, F64              .f32, .f64
 * Two of 16 bits, four of 8 (but BOOLs) pass through memory and matrix
 * instructions in one .b32.
 */
#ifndef BELL_RENDER_PTX_PTX_INTERNAL_H
#define BELL_RENDER_PTX_PTX_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "render/ptx/ptx.h"
#include "render/text.h"

enum ptx_class {
    PTX_PRED,
    PTX_B16,
    PTX_B32,
    PTX_B64,
    PTX_F32,
    PTX_F64,
    PTX_CLASS_COUNT
};

/* A register, or a constant as its bits. An element of 8 or 16 bits may also
 * be known as part of a register of 32: `word` is that one's number plus 1,
 * part 0 its lowest bits. */
struct ptx_opnd {
    uint8_t cls; /* enum ptx_class */
    bool is_imm;
    uint8_t part;
    uint32_t reg, word;
    uint64_t bits;
};

struct ptx_value {
    const struct ptx_opnd *lanes; /* NULL: not made */
    uint32_t loop;                /* serial of the loop it was made in */
};

struct ptx_loop {
    const struct uop *range;
    uint32_t serial;
    bool counted; /* runs at least once: tested at its end only */
    struct ptx_opnd index, extent;
};

/* What not every chip has (ptx_target.c). */
enum ptx_feature {
    PTX_HAS_F8 = 1u << 0,        /* conversions, and products by mma.sync */
    PTX_HAS_F8_SUMS = 1u << 1,   /* summed as those of halves are */
    PTX_HAS_BF16_MATH = 1u << 2, /* sums and products of bfloats */
    PTX_HAS_F64_ROWS = 1u << 3,  /* products of 16 rows of doubles */
    PTX_HAS_WGMMA = 1u << 4,
    PTX_HAS_MULTIMEM = 1u << 5, /* memory of several GPUs at once */
};

/* Their mask; 0 where the chip is not known. */
unsigned ptx_features(const struct ptx_target *target);

#define PTX_MAP_WORDS      32
#define PTX_MBARRIER_BYTES 64u /* in shared memory, behind all LOCALs */

/* A tensor map. */
struct ptx_map {
    uint32_t words[PTX_MAP_WORDS];
};

#define PTX_MAX_GROUPS 8 /* of 128 threads, in a work-group */

struct ptx_emit {
    const struct lower_program *prog;
    const struct ptx_target *target;
    unsigned features; /* of it: PTX_HAS_ */
    const struct uop *const *ops;
    struct arena arena;
    struct render_text body;
    uint32_t n_regs[PTX_CLASS_COUNT];
    struct map index; /* uop id -> place in values */
    struct ptx_value *values;
    uint32_t n_values;
    struct ptx_loop *loops; /* open ones */
    uint32_t n_loops, next_serial, n_ifs;
    struct ptx_opnd *args; /* by slot */
    bool *is_arg_loaded;
    uint32_t n_dynamic_bytes;
    bool has_copies, has_commits, has_wgmma, has_turns;
    bool is_shared_stored; /* by threads: there is a STORE to a LOCAL */
    const struct ptx_map *maps;
    uint32_t n_maps, n_boxes, n_box_waits;
    /* TMA_COPYs (ptx_box.c): where the mbarriers lie, turns that COMMITs have
     * ended, the one that the next WGMMA awaits; is it thread 0? */
    struct ptx_opnd mbarriers, turn, awaited, is_first;
    bool is_box_awaited;
    /* PINGPONGs (ptx_turn.c): is the thread of that group? */
    struct ptx_opnd of_group[PTX_MAX_GROUPS];
    unsigned min_version;       /* of PTX, times ten, for what was used */
    struct map locals;          /* LOCAL's id -> offset << 32 | register */
    struct map in_place, split; /* ids, of ptx_uses.c */
    struct render_text header;  /* .shared declarations, argument loads */
};

/* ---- text ---- */

/* Appends one instruction to the body, ended with ";". In `fmt`, % stands
 * for the next operand of `o`, printed as its class wants it. */
void ptx_op(struct ptx_emit *e, const char *fmt, const struct ptx_opnd *o);
/* ptx_op with the operands as arguments: fmt holds as many % as they are. */
#define PTX_OP(e, fmt, ...)                                                    \
    ptx_op((e), (fmt), (const struct ptx_opnd[]){__VA_ARGS__})

/* ---- values ---- */

struct ptx_opnd ptx_reg(struct ptx_emit *e, enum ptx_class cls);
struct ptx_opnd ptx_imm(enum ptx_class cls, uint64_t bits);
struct ptx_opnd ptx_const(unsigned dtype, union uop_arg arg);
enum ptx_class ptx_class_of(unsigned dtype);
const char *ptx_class_type(enum ptx_class cls); /* "b32", of moves */
/* An operand as a register. */
struct ptx_opnd ptx_in_reg(struct ptx_emit *e, struct ptx_opnd o);
void ptx_mov(struct ptx_emit *e, struct ptx_opnd to, struct ptx_opnd from);

/* The value of a node, constants and arguments too. */
BELL_MUST_CHECK bell_status ptx_value_of(struct ptx_emit *e,
                                         const struct uop *u,
                                         struct ptx_value *out_value);
BELL_MUST_CHECK bell_status ptx_refuse(const struct ptx_emit *e,
                                       const struct uop *u, const char *why);
BELL_MUST_CHECK bell_status ptx_no_memory(const struct ptx_emit *e);

uint32_t ptx_loop_serial(const struct ptx_emit *e);
bool ptx_loop_is_open(const struct ptx_emit *e, uint32_t serial);

/* ---- what becomes of values (ptx_uses.c) ---- */

/* For the ops in their order. */
BELL_MUST_CHECK bell_status ptx_find_uses(struct ptx_emit *e);
/* May an ACC_GET be the variable's own registers? */
bool ptx_is_in_place(const struct ptx_emit *e, const struct uop *get);
/* Is it a CAST of pairs to words of halves, whose lanes nobody reads? */
bool ptx_is_packed(const struct ptx_emit *e, const struct uop *u);

/* ---- parts ---- */

/* Arithmetic, conversions, lanes (ptx_ops.c, ptx_cast.c). */
BELL_MUST_CHECK bell_status ptx_emit_op(struct ptx_emit *e, const struct uop *u,
                                        struct ptx_value *out_value);
struct ptx_opnd ptx_cast(struct ptx_emit *e, unsigned from, unsigned to,
                         struct ptx_opnd a);
bool ptx_can_cast(unsigned from, unsigned to);
/* From 8-bit floats to F16. */
void ptx_cast_f8(struct ptx_emit *e, unsigned from,
                 const struct ptx_opnd *lanes, uint32_t n,
                 struct ptx_opnd *out_lanes);
/* From F32 to halves, two in a word; they have no other register. */
void ptx_cast_pairs(struct ptx_emit *e, unsigned to,
                    const struct ptx_opnd *lanes, uint32_t n,
                    struct ptx_opnd *out_lanes);
/* WMMA, whose sources are v[0..2] (ptx_mma.c). */
BELL_MUST_CHECK bell_status ptx_emit_wmma(struct ptx_emit *e,
                                          const struct uop *u,
                                          const struct ptx_value *v,
                                          struct ptx_opnd *out_lanes);
/* WGMMA (ptx_wgmma.c). */
BELL_MUST_CHECK bell_status ptx_emit_wgmma(struct ptx_emit *e,
                                           const struct uop *u);
/* QUAD_TRANSPOSE, whose sources are v[0..3]. */
void ptx_emit_quad_turn(struct ptx_emit *e, const struct uop *u,
                        const struct ptx_value *v, struct ptx_opnd *out_lanes);
/* Cuts a result in .b32 to an 8- or 16-bit dtype, in place. */
void ptx_wrap(struct ptx_emit *e, unsigned dtype, struct ptx_opnd r);

/* ptx_mem.c */
/* Elements of memory, from an index on. */
struct ptx_place {
    const struct uop *memory; /* PARAM or LOCAL */
    struct ptx_opnd base;     /* a register; element 0 is there */
    uint32_t align;           /* of it, in elements */
    int64_t first, step;      /* lane i is element first + i * step, */
    struct ptx_value indices; /* or, where its lanes are set, what they say */
    uint32_t elem_bytes;
};

/* One access, taken apart. */
struct ptx_access {
    const struct uop *u;
    struct ptx_place at;
    const struct uop *gate_node; /* or NULL */
    struct ptx_value gate;
    uint32_t lanes;
    unsigned dtype;
};

/* The memory src[i] of `u` from element src[i + 1] on. */
BELL_MUST_CHECK bell_status ptx_find_place(struct ptx_emit *e,
                                           const struct uop *u, uint32_t i,
                                           struct ptx_place *out_place);
/* INDEX: an address. */
BELL_MUST_CHECK bell_status ptx_emit_index(struct ptx_emit *e,
                                           const struct uop *u,
                                           struct ptx_opnd *out);
BELL_MUST_CHECK bell_status ptx_emit_load(struct ptx_emit *e,
                                          const struct uop *u,
                                          struct ptx_opnd *out_lanes);
BELL_MUST_CHECK bell_status ptx_emit_store(struct ptx_emit *e,
                                           const struct uop *u);
BELL_MUST_CHECK bell_status ptx_declare_locals(struct ptx_emit *e);
/* A COPY (ptx_copy.c). */
BELL_MUST_CHECK bell_status ptx_emit_copy(struct ptx_emit *e,
                                          const struct uop *u);
/* TMA_COPYs (ptx_box.c). The maps that a program has, in the arena; variables
 * of the module, map0, map1 and so on. */
BELL_MUST_CHECK bell_status ptx_box_maps(const struct lower_program *p,
                                         struct arena *arena,
                                         struct ptx_map **out_maps,
                                         uint32_t *out_n);
void ptx_put_maps(const struct ptx_emit *e, struct render_text *t);
BELL_MUST_CHECK bell_status ptx_emit_box(struct ptx_emit *e,
                                         const struct uop *u);
/* Where the kernel begins, at COMMIT, at BARRIER, before WGMMA. */
void ptx_begin_boxes(struct ptx_emit *e);
void ptx_commit_boxes(struct ptx_emit *e);
void ptx_note_boxes(struct ptx_emit *e, const struct uop *barrier);
void ptx_await_boxes(struct ptx_emit *e);
/* PINGPONGs (ptx_turn.c): where the kernel begins, at a PINGPONG, at a
 * PINGPONG_END, where the kernel ends. */
void ptx_begin_turns(struct ptx_emit *e);
void ptx_take_turn(struct ptx_emit *e);
void ptx_end_turn(struct ptx_emit *e);
void ptx_close_turns(struct ptx_emit *e);
/* Barriers of a program with PINGPONGs. */
uint32_t ptx_n_barriers(const struct lower_program *p);
/* WMMA_ROWS (ptx_mma.c). */
BELL_MUST_CHECK bell_status ptx_emit_rows(struct ptx_emit *e,
                                          const struct uop *u,
                                          struct ptx_value *out_value);

/* ADD SUB MUL MAX MIN NEG and comparisons of F16 and BF16 (ptx_half.c). */
bool ptx_has_half(const struct ptx_emit *e, unsigned op, unsigned dtype);
void ptx_emit_half(struct ptx_emit *e, const struct uop *u,
                   const struct ptx_value *v, struct ptx_opnd *out_lanes);

/* Elements of that dtype that pass in a register of 32 bits: 4, 2 or 1. */
uint32_t ptx_packed(unsigned dtype);
/* So many of them (2 or 4) in a register of 32 bits. */
struct ptx_opnd ptx_pack(struct ptx_emit *e, const struct ptx_opnd *lanes,
                         uint32_t n);
/* The parts of a word into registers of their own; they know their word. */
void ptx_unpack(struct ptx_emit *e, unsigned dtype, struct ptx_opnd word,
                struct ptx_opnd *out_lanes);

#endif
