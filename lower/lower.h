/* From a kernel (stage K) to a linear program (stage P).
 *
 * A kernel is a SINK of STOREs (lower/schedule/schedule.h makes them):
 *   - PARAM slots 0..n_params-1; slot 0.. are outputs, then inputs; VARs after.
 *   - Output RANGEs have axis LOOP and ids 0.. in nest order, outermost first;
 *     REDUCE ranges (axis REDUCE) have the ids after them. A REDUCE that does
 *     not depend on every output RANGE depends on a prefix of them: it is to
 *     be computed once for each value of that prefix, outside the inner loops.
 *   - Index expressions count elements, dtype I64, and are in range wherever
 *     the LOAD's or STORE's gate holds. A REDUCE's dtype is its accumulator's.
 *
 * A program (struct lower_program) is what the renderers take:
 *   - SPECIAL 0..2 are the work-group's coordinates in grid[], SPECIAL 4..6
 *     the thread's in local[]. Every thread of a work-group reaches every
 *     BARRIER, the same number of times.
 *   - LOCAL memory is undefined at first. What a thread has stored there the
 *     others read after a BARRIER that depends on the STORE, through an AFTER
 *     on that BARRIER; nobody stores there again before a BARRIER that
 *     depends on all that was read. On the host, where a work-group is one
 *     thread, an AFTER names the ENDs of the loops that store.
 *   - A COPY is a LOAD and a STORE that may be under way until a BARRIER that
 *     depends on it, also for the thread that does it.
 *   - WMMA_ROWS and WMMA are done by all threads of a warp together.
 *   - RANGE opens a loop that its END closes; loops nest properly.
 *   - An ACC is a register variable, set to its first value at its place in
 *     the list; ACC_GET reads and ACC_SET writes it at theirs.
 *   - A LOAD or STORE of W lanes whose index has 1 lane is W consecutive
 *     elements from there (aligned to one element only); whose index has W
 *     lanes is a gather or scatter. The gate has 1 lane or W. A LOAD with a
 *     gate gives src2 where it does not hold, and reads nothing there.
 *   - INDEX(memory, x) is the memory from element x on: all that differ by
 *     constants share one. Index arithmetic is I32 where the target wants it
 *     and it fits, else I64.
 *   - Only these remain for the host: CONST PARAM VAR SPECIAL RANGE END ACC
 *     ACC_GET ACC_SET IF ENDIF LOCAL AFTER INDEX LOAD STORE BROADCAST LANES
 *     LANE RAMP LANES_REDUCE LANES_REPEAT BYTE_DOT CAST BITCAST NEG SQRT TRUNC
 *     ADD SUB MUL FDIV IDIV IMOD MAX MIN SHL SHR AND OR
 *     XOR CMPLT CMPEQ CMPNE WHERE MULACC. The rest is decomposed
 *     (lower/decompose/decompose.c): EXP2 LOG2 SIN POW RECIP FLOORDIV FLOORMOD;
 *     arithmetic on floats of 8 and 16 bits is done in F32 and rounded after
 *     each op; CAST to and from them but F16 is integer arithmetic (all of
 *     that but where the target says that it need not be); IDIV and IMOD never
 *     see a 0 divisor or MIN / -1; SHL and SHR see only 0..bits-1.
 */
#ifndef BELL_LOWER_LOWER_H
#define BELL_LOWER_LOWER_H

#include "uops/wmma.h"

/* What code is made for. Plain data. */
struct lower_target {
    char name[64];   /* part of every cache key */
    const char *cpu; /* as LLVM calls it; static; NULL: the machine's own */
    const char *features;   /* beyond those of cpu, for LLVM; static; or NULL */
    uint32_t vector_bytes;  /* 64 for AVX-512, 32 for AVX2, 16; 0: scalar */
    uint32_t n_vector_regs; /* architectural vector registers */
    uint32_t n_threads;     /* work-groups that run at once */
    uint32_t l1_bytes, l2_bytes;
    uint64_t l3_bytes;         /* of all threads together; 0: nobody tells */
    uint32_t arg_align_bytes;  /* what the host's PARAMs are aligned to, a power
                               * of two; 0: elements */
    uint32_t max_packed_bytes; /* LOCAL memory of a work-group, on the stack of
                                * the thread that runs it; 0: none */
    uint8_t tiles_k
        [UOP_DTYPE_COUNT]; /* steps that TILE_MATMUL goes by, by the dtype
                                       * of A and B: of a register, or of 4
                                       * bytes where vectors do it; 0: it does
                                       * not multiply those */
    bool has_byte_dots;    /* BYTE_DOT is one instruction, of vector_bytes */
    bool has_fma;          /* MULACC on F32 and F64 is one instruction */
    bool joins_bits;       /* (x & y) | z is one instruction, of vectors too */
    bool lacks_f64;        /* there is no F64: integers are not divided in it */
    bool flushes_f32;      /* ADD, SUB and MUL of F32 take subnormal numbers for
                          * 0, and give 0 for them; all else is exact */
    bool has_f16;          /* CAST between F16 and F32 is native */
    bool has_bf16;         /* the same of BF16 */
    bool has_f8;           /* CAST from F8E4M3 and F8E5M2 is native */
    bool is_approx;        /* EXP2, LOG2, SIN and RECIP on F32 may remain */
    bool rounds_approx;    /* EXP2 and RECIP on F32 may remain where all that is
                          * made of them is rounded to halves; RECIP of normal
                          * numbers whose inverses are normal, too */
    bool is_tf32;          /* WMMA is less exact: on F32 as TF32, or the like */
    uint32_t small_math;   /* F16 and BF16, a bit each: ADD SUB MUL MAX MIN NEG
                          * and comparisons may remain */
    bool narrow_index;     /* 32-bit index arithmetic is cheaper than 64-bit */
    bool no_opts;          /* scalar loops as scheduled: for tests */

    /* A GPU: threads in work-groups that share memory. All 0 elsewhere. */
    bool is_gpu;
    uint32_t warp_lanes;       /* threads that run in step */
    uint32_t n_units;          /* processors; a work-group runs on one */
    uint32_t max_threads;      /* of a work-group; a power of two */
    uint32_t max_regs;         /* 32-bit registers of a thread */
    uint32_t max_shared_bytes; /* LOCAL memory of a work-group */
    uint32_t max_grid[3];
    uint8_t matrix_k[UOP_DTYPE_COUNT];  /* WMMA's steps, by the dtype of A and
                                         * B; 0: it does not multiply those */
    enum uop_wmma_layout matrix_layout; /* what a thread has of them */
    bool has_wmma_rows;                 /* WMMA_ROWS */
    uint8_t wgmma_k[UOP_DTYPE_COUNT]; /* WGMMA's, of an instruction; 0: none */
    uint32_t max_stage_bytes; /* LOCAL memory for tiles of products and of
                               * attention, taken when a kernel is launched */
    uint32_t copy_bytes;      /* the most that a COPY takes; 0: there is none */
    bool no_packs;  /* a kernel is a launch: no BARRIER stands in an IF */
    bool has_boxes; /* TMA_COPY */
};

/* Which attention is one kernel there (lower/attention/attention.h)? By what
 * its factors are. */
#define LOWER_ATTENDS_HALVES (1u << 0) /* F16 or BF16, widened */
#define LOWER_ATTENDS_WORDS  (1u << 1) /* F32 */
#define LOWER_ATTENDS_BACK   (1u << 2) /* gradients too */
#define LOWER_ATTENDS_FEW    (1u << 3) /* fewer than 16 queries too */
/* and of few queries that see few keys: the order of sums is then one for all
 * sizes */
#define LOWER_ATTENDS_SMALL (1u << 4)
uint32_t lower_attends(const struct lower_target *target);

/* Is the kernel under `sink` attention of these kinds? */
BELL_MUST_CHECK bell_status lower_is_attention(struct uop_graph *g,
                                               const struct uop *sink,
                                               uint32_t kinds, bool *out_is);

/* A linear program. `ops` and `name` live in the graph's arena. */
struct lower_program {
    const struct uop **ops;
    uint32_t n_ops;
    uint32_t grid[3];      /* work-groups; 1 where unused */
    uint32_t local[3];     /* threads of a work-group; 1 where unused */
    uint32_t shared_bytes; /* of all LOCALs, each rounded up to 16 */
    uint32_t n_params, n_vars;
    uint64_t streamed; /* PARAMs below 64, a bit each, aligned to 64 bytes, that
                        * are stored, never loaded, and larger than caches */
    bool is_approx;    /* as of a target that is: what is left is meant so */
    /* Registers of a thread that are well spent: on what is loaded at once,
     * which an assembler that saves registers would load one by one. 0: as it
     * likes. */
    uint32_t want_regs;
    const char *name;        /* C identifier: what it does and its sizes */
    double n_flops, n_bytes; /* estimates for one launch */
};

#define LOWER_MAX_SLOTS 128

/* Is what is under `sink` a kernel as above? BELL_E_INTERNAL says what is not,
 * and of which node. For IR from elsewhere: the scheduler's is. */
BELL_MUST_CHECK bell_status lower_check(const struct uop_graph *g,
                                        const struct uop *sink);

/* Optimises, expands, decomposes and linearises one kernel. Nodes are made in
 * `g`, the kernel's graph. A SINK of SINKs is kernels that are one launch:
 * none loads what another stores (lower/schedule/sched_pack.c). */
BELL_MUST_CHECK bell_status lower_kernel(struct uop_graph *g,
                                         const struct uop *sink,
                                         const struct lower_target *target,
                                         struct lower_program *out_program);

/* Rewrites stage K/P nodes to what `target` can do, as listed above
 * (lower/decompose/decompose.c). `roots` are replaced in place. */
BELL_MUST_CHECK bell_status lower_decompose(struct uop_graph *g,
                                            const struct uop **roots,
                                            size_t n_roots,
                                            const struct lower_target *target);

#endif
