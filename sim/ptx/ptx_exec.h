/* Shared by the files that run PTX: the state of one launch. */
#ifndef BELL_SIM_PTX_PTX_EXEC_H
#define BELL_SIM_PTX_PTX_EXEC_H

#include "ioctl/sim_count.h"
#include "sim/ptx/ptx_internal.h"

#define PX_FULL       UINT32_MAX
#define PX_N_BARRIERS 16
#define PX_TLB_SIZE   64u

#define PX_MAX_MBARRIERS 64

/* A register in all lanes, or the half of one of 64 bits. */
typedef uint32_t px_row[PX_LANES];

enum px_wait {
    PX_RUNS,
    PX_AT_BARRIER, /* which is the instruction at pc */
    PX_FOR_LANES,  /* for other lanes to come to pc */
};

/* Lanes of a warp at one instruction. */
struct px_group {
    uint32_t pc, mask;
    uint8_t waits; /* enum px_wait */
};

/* What cp.async has read for one lane and not yet written. */
struct px_copy {
    uint8_t data[16];
    uint32_t at; /* in shared memory */
    uint32_t group;
    uint8_t lane, n_bytes;
};

/* A wgmma under way. */
struct px_wgmma {
    const struct px_insn *in;
    uint64_t descriptor[2];
    px_row held[4]; /* A, where threads hold it */
    uint32_t group; /* commits before it */
};

#define PX_WGMMA_KEYS 256

/* What the warps of a group do, in order. */
struct px_wgmma_group {
    uint64_t keys[PX_WGMMA_KEYS];
    uint32_t n;
};

struct px_warp {
    px_row *rows;      /* registers */
    uint32_t *defined; /* lanes that have written each */
    uint8_t *local;    /* local_bytes of every lane */
    struct px_group groups[PX_LANES];
    uint32_t n_groups, number;
    uint32_t live; /* lanes that are there and have not left */
    uint32_t n_turns;
    bool is_filled; /* special registers that are the same in all blocks */
    struct px_copy *copies; /* owned; in the order of their issue */
    size_t n_copies, cap_copies;
    uint32_t n_committed[PX_LANES]; /* groups of copies, of each lane */
    bool *under_way;                /* owned; by row: an accumulator that is */
    struct px_wgmma *wgmmas;        /* owned; under way */
    size_t n_wgmmas, cap_wgmmas;
    uint32_t n_wgmma, n_wgmma_commits; /* since the block began */
    bool is_wgmma_fenced;
};

struct px_tlb {
    uint64_t page; /* its address; host NULL: none */
    uint8_t *host;
    bool is_writable;
};

struct px_run {
    const struct sim_ptx_module *module;
    const struct px_kernel *kernel;
    const struct sim_ptx_launch *launch;
    struct sim_ptx_report *report;
    px_row *consts; /* each constant in all lanes, two rows */
    uint8_t *shared;
    /* For each byte of shared memory: the warp that wrote it and the one that
     * read it since the last barrier (ptx_shared.c). */
    uint8_t *writer, *reader;
    uint32_t touched_begin, touched_end;
    /* For kernels with wgmma (ptx_wgmma.c): bytes written by threads and not
     * fenced; wgmmas that read each 16 bytes. NULL for others. */
    uint8_t *unfenced;
    uint16_t *async_reads;
    uint32_t unfenced_begin, unfenced_end;
    struct px_wgmma_group *wgmma_groups;
    /* For kernels with bulk copies (ptx_bulk.c): mbarriers of the block, copies
     * under way, and by which of them each 16 bytes were written. */
    struct px_mbarrier *mbarriers;
    struct px_box *boxes;
    size_t n_boxes, cap_boxes;
    uint32_t *written_by, n_mbarriers;
    bool judges_races;
    uint32_t shared_bytes, n_threads, n_warps, n_exited;
    uint32_t n_arrived[PX_N_BARRIERS]; /* bar.arrive */
    uint32_t block[3];
    struct px_warp *warps;
    struct px_tlb tlb[PX_TLB_SIZE];
    unsigned page_log2;
    /* For kernels with ld.global.nc: by 16 bytes of global memory, a bit for
     * each byte that it read, and above these for each that was written. */
    struct map nc;
    struct sim_counts *counts; /* NULL: nobody asks */
    bool is_stepped;           /* somebody looks at waves or instructions */
    bool failed;
    bell_status status; /* of failures that are not a fault */
};

/* Writes report and error once. */
void px_fault(struct px_run *r, const struct px_warp *w, uint32_t lane,
              const struct px_insn *in, enum sim_ptx_fault fault, uint64_t va,
              const char *what);
/* The host has no memory left. */
void px_exhausted(struct px_run *r);
/* A register read before it was written. */
void px_undefined(struct px_run *r, const struct px_warp *w,
                  const struct px_insn *in, uint32_t missing);

/* An operand's row or rows; NULL, after a fault, where a lane of `mask` has
 * not written it. */
static inline const void *
px_read(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
        struct px_ref ref, uint32_t mask)
{
    uint32_t missing;

    if (ref.row < 0)
        return r->consts[2 * (size_t)~ref.row];
    missing = mask & ~w->defined[ref.row];
    if (missing) {
        px_undefined(r, w, in, missing);
        return NULL;
    }
    return w->rows[ref.row];
}

/* The place for results of these lanes. */
static inline void *
px_write(struct px_warp *w, struct px_ref ref, uint32_t mask)
{
    w->defined[ref.row] |= mask;
    return w->rows[ref.row];
}

/* One lane of a row that px_read or px_write gave. */
static inline uint64_t
px_get(const void *row, unsigned bits, uint32_t lane)
{
    if (bits == 64)
        return ((const uint64_t *)row)[lane];
    if (bits == 1)
        return *(const uint32_t *)row >> lane & 1;
    return ((const uint32_t *)row)[lane];
}

static inline void
px_set(void *row, unsigned bits, uint32_t lane, uint64_t v)
{
    if (bits == 64)
        ((uint64_t *)row)[lane] = v;
    else
        ((uint32_t *)row)[lane] = (uint32_t)v;
}

/* Bits of the lanes in `mask` become a predicate's. */
static inline void
px_set_pred(struct px_warp *w, struct px_ref ref, uint32_t mask, uint32_t bits)
{
    uint32_t *p = px_write(w, ref, mask);

    *p = (*p & ~mask) | (bits & mask);
}

static inline uint32_t
px_first(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}

static inline const struct px_ref *
px_operands(const struct px_run *r, const struct px_insn *in)
{
    return r->kernel->pool + in->vec_at;
}

/* Runs the block that r->block says, from a fresh state (ptx_exec.c). */
void px_run_block(struct px_run *r);

/* Who steps through the launch is told of a warp that begins, and of an
 * instruction of its group `g` (ptx_look.c). */
void px_step_warp(struct px_run *r, const struct px_warp *w);
void px_step_insn(struct px_run *r, const struct px_warp *w, uint32_t g);

/* One instruction that is not control flow (ptx_step.c). */
void px_do_rows(struct px_run *r, struct px_warp *w, const struct px_insn *in,
                uint32_t mask);
void px_do(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask);

/* What lanes do together (ptx_warp.c). May they, or are lanes missing? *out is
 * false then, and after a fault. */
bool px_members_here(struct px_run *r, const struct px_warp *w,
                     const struct px_insn *in, uint32_t mask);
void px_do_collective(struct px_run *r, struct px_warp *w,
                      const struct px_insn *in, uint32_t mask);

/* ld, st, atom, red (ptx_mem.c). */
void px_access(struct px_run *r, struct px_warp *w, const struct px_insn *in,
               uint32_t mask);

/* multimem (ptx_team.c). */
void px_do_team(struct px_run *r, struct px_warp *w, const struct px_insn *in,
                uint32_t mask);

/* An access of lanes of a warp: n_bytes at the address of each. */
struct px_span {
    struct px_warp *w;
    const struct px_insn *in;
    uint32_t mask, n_bytes;
    uint8_t space; /* enum px_space */
    bool is_write;
    /* Told how memory is used: false for what is ordered otherwise. */
    bool is_judged;
};
/* An atomic operation of that many bytes at p; what was there. */
uint64_t px_exchange(uint8_t *p, unsigned n_bytes, const struct px_insn *in,
                     uint64_t b, uint64_t c);
/* Addresses of an operand plus a constant; false after a fault. */
bool px_addresses(struct px_run *r, const struct px_span *s, struct px_ref ref,
                  int64_t offset, uint64_t out[PX_LANES]);
/* Host addresses for them; lanes outside of the mask get that of one inside.
 * `addr` is changed in those lanes. False after a fault. */
bool px_resolve(struct px_run *r, const struct px_span *s,
                uint64_t addr[PX_LANES], uint8_t *out[PX_LANES]);

/* Shared memory's use (ptx_shared.c). False after a fault. */
void px_shared_begin(struct px_run *r);
void px_shared_barrier(struct px_run *r);
bool px_shared_read(struct px_run *r, const struct px_span *s,
                    const uint64_t at[PX_LANES]);
/* Before the bytes are written. */
bool px_shared_write(struct px_run *r, const struct px_span *s,
                     const uint64_t at[PX_LANES]);
/* The warp has written the bytes. */
void px_shared_land(struct px_run *r, const struct px_warp *w, uint32_t at,
                    uint32_t n_bytes);
/* Bytes that a copy will write, cp.async (by_threads) or a bulk one: not to be
 * read or written before. */
bool px_shared_promise(struct px_run *r, const struct px_span *s, uint32_t lane,
                       uint32_t at, bool by_threads);
/* A bulk copy has written them. */
void px_shared_settle(struct px_run *r, uint32_t at, uint32_t n_bytes);

/* Counting (ptx_count.c): an instruction of `mask`, of the lanes of `group`; a
 * matrix instruction of a warp; an access. */
void px_count_step(struct sim_counts *c, const struct px_insn *in,
                   uint32_t mask, uint32_t group);
void px_count_matrix(struct sim_counts *c, unsigned type, double flops);
void px_count_access(struct sim_counts *c, const struct px_span *s,
                     const uint64_t addr[PX_LANES], bool is_shared);

/* cp.async (ptx_async.c). */
void px_do_async(struct px_run *r, struct px_warp *w, const struct px_insn *in,
                 uint32_t mask);

/* wgmma (ptx_wgmma.c); the whole warp. */
void px_do_wgmma(struct px_run *r, struct px_warp *w, const struct px_insn *in);
void px_proxy_fence(struct px_run *r, const struct px_warp *w);
bool px_wgmma_alloc(struct px_run *r);
void px_wgmma_begin(struct px_run *r);
void px_wgmma_free(struct px_run *r);
/* Threads write there; false: a wgmma may still read it. */
bool px_wgmma_write(struct px_run *r, uint32_t at, uint32_t n_bytes);

/* A bulk copy writes there; false: a wgmma may still read it, or what threads
 * wrote is not fenced. */
bool px_wgmma_bulk_write(struct px_run *r, uint32_t at, uint32_t n_bytes);

/* mbarriers and bulk copies (ptx_bulk.c). */
void px_do_bulk(struct px_run *r, struct px_warp *w, const struct px_insn *in,
                uint32_t mask);
bool px_bulk_alloc(struct px_run *r);
void px_bulk_begin(struct px_run *r);
void px_bulk_free(struct px_run *r);
void px_bulk_barrier(struct px_run *r);
/* For kernels that have them: may the warp see what lies there? False after a
 * fault. */
bool px_bulk_read(struct px_run *r, const struct px_span *s, uint32_t lane,
                  uint32_t at);
/* Threads write there. */
void px_bulk_write(struct px_run *r, uint32_t at, uint32_t n_bytes);

/* mma, ldmatrix, stmatrix (ptx_mma.c); the whole warp. */
void px_do_matrix(struct px_run *r, struct px_warp *w,
                  const struct px_insn *in);

#endif
