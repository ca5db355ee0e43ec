/* Runs a kernel: blocks one after the other, the warps of a block in turns. */
#include "sim/nv/ptx_exec.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MAX_THREADS      1024
#define MAX_SHARED_BYTES (228u * 1024)
#define MAX_STATE_BYTES  ((size_t)1 << 30)
#define TURN             256 /* instructions of a warp before the next one's */

/* ---- faults and operands ---- */

static void
thread_of(const struct px_run *r, uint32_t number, uint32_t out[3])
{
    const uint32_t *b = r->launch->block;

    out[0] = number % b[0];
    out[1] = number / b[0] % b[1];
    out[2] = number / b[0] / b[1];
}

static bell_status
px_fault_status(enum sim_ptx_fault fault)
{
    return fault == SIM_PTX_HUNG || fault == SIM_PTX_STOPPED
               ? BELL_E_TIMEOUT
               : BELL_E_DEVICE_LOST;
}

void
px_fault(struct px_run *r, const struct px_warp *w, uint32_t lane,
         const struct px_insn *in, enum sim_ptx_fault fault, uint64_t va,
         const char *what)
{
    struct sim_ptx_report *report = r->report;
    const uint32_t *t = report->thread, *b = report->block;
    bell_status status = px_fault_status(fault);

    if (r->failed)
        return;
    r->failed = true;
    report->fault = fault;
    report->line = in->line;
    report->va = va;
    memcpy(report->block, r->block, sizeof(report->block));
    thread_of(r, w->number * PX_LANES + lane, report->thread);
    (void)bell_fail(status,
                    "kernel %s, PTX line %u, %s.%s: %s (block %u,%u,%u, "
                    "thread %u,%u,%u, address 0x%llx)",
                    r->kernel->name, in->line, px_op_name(in->op),
                    px_types[in->type].name, what, b[0], b[1], b[2], t[0], t[1],
                    t[2], (unsigned long long)va);
}

const uint64_t *
px_read(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
        int32_t row, uint32_t mask)
{
    uint32_t missing;

    if (row < 0)
        return r->consts[~row];
    missing = mask & ~w->defined[row];
    if (missing) {
        px_fault(r, w, (uint32_t)__builtin_ctz(missing), in, SIM_PTX_UNDEFINED,
                 0, "reads a register before it is written");
        return NULL;
    }
    return w->rows[row];
}

uint64_t *
px_write(struct px_warp *w, int32_t row, uint32_t mask)
{
    w->defined[row] |= mask;
    return w->rows[row];
}

/* ---- instructions ---- */

static void
do_plain(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    const uint64_t *src[3] = {NULL, NULL, NULL};
    uint64_t *dst, *dst2 = NULL, v;
    uint32_t lane, i;

    for (i = 0; i < 3; i++) {
        src[i] = r->consts[0];
        if (in->src[i] != PX_NO_ROW)
            src[i] = px_read(r, w, in, in->src[i], mask);
        if (!src[i])
            return;
    }
    dst = px_write(w, in->dst, mask);
    if (in->dst2 != PX_NO_ROW)
        dst2 = px_write(w, in->dst2, mask);
    for (lane = 0; lane < PX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        v = px_eval(in, src[0][lane], src[1][lane], src[2][lane]);
        dst[lane] = in->op == PX_SETP ? v & 1 : v;
        if (dst2)
            dst2[lane] = v >> 1;
    }
}

static void
do_cvta(struct px_run *r, struct px_warp *w, const struct px_insn *in,
        uint32_t mask)
{
    const uint64_t *src = px_read(r, w, in, in->src[0], mask);
    uint64_t window = 0, *dst;
    uint32_t lane;

    if (!src)
        return;
    if (in->mod[PX_MOD_SPACE] == PX_SHARED)
        window = r->launch->shared_window_va;
    else if (in->mod[PX_MOD_SPACE] == PX_LOCAL)
        window = r->launch->local_window_va;
    dst = px_write(w, in->dst, mask);
    for (lane = 0; lane < PX_LANES; lane++) {
        if (mask >> lane & 1)
            dst[lane] =
                in->mod[PX_MOD_TO] ? src[lane] - window : src[lane] + window;
    }
}

/* mov between a register and its two halves. */
static void
do_halves(struct px_run *r, struct px_warp *w, const struct px_insn *in,
          uint32_t mask)
{
    unsigned bits = px_types[in->type].bits / 2u;
    const uint64_t *a, *b;
    uint64_t *lo, *hi, v;
    uint32_t lane;

    if (in->op == PX_PACK) {
        a = px_read(r, w, in, in->vec[0], mask);
        b = px_read(r, w, in, in->vec[1], mask);
        if (!a || !b)
            return;
        lo = px_write(w, in->dst, mask);
        for (lane = 0; lane < PX_LANES; lane++) {
            if (mask >> lane & 1)
                lo[lane] = (a[lane] & px_mask(bits)) | b[lane] << bits;
        }
        return;
    }
    a = px_read(r, w, in, in->src[0], mask);
    if (!a)
        return;
    lo = px_write(w, in->vec[0], mask);
    hi = px_write(w, in->vec[1], mask);
    for (lane = 0; lane < PX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        v = a[lane];
        lo[lane] = v & px_mask(bits);
        hi[lane] = v >> bits;
    }
}

/* The lane that a shuffle reads; *out_ok false where it keeps its own.
 * src: PTX ISA, shfl.sync: c holds the clamp (4:0) and the segment's mask
 * (12:8). */
static uint32_t
shuffle_source(unsigned mode, uint32_t lane, uint32_t b, uint32_t c,
               bool *out_ok)
{
    uint32_t segment = c >> 8 & 31, clamp = c & 31, j;
    uint32_t max = (lane & segment) | (clamp & ~segment);

    b &= 31;
    switch (mode) {
    case PX_SHFL_UP:
        j = lane - b;
        *out_ok = (int32_t)j >= (int32_t)max;
        break;
    case PX_SHFL_DOWN:
        j = lane + b;
        *out_ok = j <= max;
        break;
    case PX_SHFL_BFLY:
        j = lane ^ b;
        *out_ok = j <= max;
        break;
    default:
        j = (lane & segment) | (b & ~segment);
        *out_ok = j <= max;
        break;
    }
    return *out_ok ? j : lane;
}

static void
do_shuffle(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask)
{
    const uint64_t *a = px_read(r, w, in, in->src[0], mask);
    const uint64_t *b = px_read(r, w, in, in->src[1], mask);
    const uint64_t *c = px_read(r, w, in, in->src[2], mask);
    const uint64_t *member = px_read(r, w, in, in->vec[0], mask);
    uint32_t lane, j;
    px_row out, ok;

    if (!a || !b || !c || !member)
        return;
    for (lane = 0; lane < PX_LANES; lane++) {
        bool in_range;
        if (!(mask >> lane & 1))
            continue;
        if ((uint32_t)member[lane] != mask) {
            px_fault(r, w, lane, in, SIM_PTX_BARRIER, 0,
                     "not all lanes of the mask are here, or more");
            return;
        }
        j = shuffle_source(in->mod[PX_MOD_MODE], lane, (uint32_t)b[lane],
                           (uint32_t)c[lane], &in_range);
        out[lane] = a[mask >> j & 1 ? j : lane];
        ok[lane] = in_range;
    }
    for (lane = 0; lane < PX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        px_write(w, in->dst, 1u << lane)[lane] = out[lane];
        if (in->dst2 != PX_NO_ROW)
            px_write(w, in->dst2, 1u << lane)[lane] = ok[lane];
    }
}

/* Everything but control flow. */
static void
do_insn(struct px_run *r, struct px_warp *w, const struct px_insn *in,
        uint32_t mask)
{
    switch (in->op) {
    case PX_LD:
    case PX_ST:
    case PX_ATOM:
    case PX_RED:
        px_access(r, w, in, mask);
        break;
    case PX_SHFL:
        do_shuffle(r, w, in, mask);
        break;
    case PX_PACK:
    case PX_UNPACK:
        do_halves(r, w, in, mask);
        break;
    case PX_CVTA:
        do_cvta(r, w, in, mask);
        break;
    case PX_FENCE:
        break;
    default:
        do_plain(r, w, in, mask);
        break;
    }
}

/* ---- control flow ---- */

/* Lanes of the group for which the guard holds; false after a fault. */
static bool
guarded(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
        uint32_t mask, uint32_t *out_mask)
{
    const uint64_t *p;
    uint32_t lane, set = 0;

    if (in->guard == PX_NO_ROW) {
        *out_mask = mask;
        return true;
    }
    p = px_read(r, w, in, in->guard, mask);
    if (!p)
        return false;
    for (lane = 0; lane < PX_LANES; lane++)
        set |= (uint32_t)(p[lane] & 1) << lane;
    *out_mask = mask & (in->guard_negated ? ~set : set);
    return true;
}

/* Lanes `mask` leave group g for another place. */
static struct px_group *
split(struct px_warp *w, uint32_t g, uint32_t mask, uint32_t pc)
{
    struct px_group *group = &w->groups[g];

    if (mask == group->mask) {
        group->pc = pc;
        return group;
    }
    group->mask &= ~mask;
    group->pc++;
    w->groups[w->n_groups] = (struct px_group){.pc = pc, .mask = mask};
    return &w->groups[w->n_groups++];
}

static void
leave(struct px_run *r, struct px_warp *w, uint32_t g, uint32_t mask)
{
    struct px_group *group = &w->groups[g];

    group->mask &= ~mask;
    group->pc++;
    r->n_exited += (uint32_t)__builtin_popcount(mask);
    if (!group->mask)
        *group = w->groups[--w->n_groups];
}

/* Joins groups that are at the same place. */
static void
merge(struct px_warp *w)
{
    uint32_t i, j;

    for (i = 0; i < w->n_groups; i++) {
        for (j = i + 1; j < w->n_groups;) {
            if (w->groups[i].pc != w->groups[j].pc ||
                w->groups[i].waits != w->groups[j].waits) {
                j++;
                continue;
            }
            w->groups[i].mask |= w->groups[j].mask;
            w->groups[j] = w->groups[--w->n_groups];
        }
    }
}

/* The group that can run and is at the lowest place; n_groups: none. */
static uint32_t
choose(const struct px_warp *w)
{
    uint32_t best = w->n_groups, i;

    for (i = 0; i < w->n_groups; i++) {
        if (!w->groups[i].waits &&
            (best == w->n_groups || w->groups[i].pc < w->groups[best].pc))
            best = i;
    }
    return best;
}

/* One instruction of a group. */
static void
step(struct px_run *r, struct px_warp *w, uint32_t g)
{
    struct px_group *group = &w->groups[g];
    const struct px_insn *in = &r->kernel->code[group->pc];
    uint32_t mask;

    if (!guarded(r, w, in, group->mask, &mask))
        return;
    r->report->n_lane_ops += (uint32_t)__builtin_popcount(mask);
    switch (in->op) {
    case PX_BRA:
        if (mask)
            split(w, g, mask, in->target);
        else
            group->pc++;
        break;
    case PX_RET:
    case PX_EXIT:
        leave(r, w, g, mask);
        break;
    case PX_TRAP:
        if (mask)
            px_fault(r, w, (uint32_t)__builtin_ctz(mask), in, SIM_PTX_TRAP, 0,
                     "a trap");
        group->pc++;
        break;
    case PX_BAR:
        if (mask)
            split(w, g, mask, group->pc)->waits = true;
        else
            group->pc++;
        break;
    default:
        if (mask)
            do_insn(r, w, in, mask);
        group->pc++;
        break;
    }
    if (w->n_groups > 1)
        merge(w);
}

/* Runs a warp for a turn; true if it did something. */
static bool
run_warp(struct px_run *r, struct px_warp *w)
{
    uint64_t limit = r->launch->max_warp_steps;
    const _Atomic uint32_t *stop = r->launch->stop;
    const struct sim_ptx_mem *mem = &r->launch->mem;
    uint32_t n, g;

    if (mem->pause)
        (void)mem->pause(mem->user); /* nothing of what `at` gave is kept */
    if (stop && atomic_load_explicit(stop, memory_order_relaxed) &&
        w->n_groups) {
        const struct px_insn *in = &r->kernel->code[w->groups[0].pc];
        px_fault(r, w, (uint32_t)__builtin_ctz(w->groups[0].mask), in,
                 SIM_PTX_STOPPED, 0, "told to stop");
        return true;
    }
    for (n = 0; n < TURN && !r->failed; n++) {
        g = choose(w);
        if (g == w->n_groups)
            break;
        if (limit && r->report->n_warp_steps >= limit) {
            const struct px_insn *in = &r->kernel->code[w->groups[g].pc];
            px_fault(r, w, (uint32_t)__builtin_ctz(w->groups[g].mask), in,
                     SIM_PTX_HUNG, 0, "still runs after so many instructions");
            break;
        }
        r->report->n_warp_steps++;
        step(r, w, g);
    }
    return n > 0;
}

/* ---- barriers ---- */

/* Lets go barrier `id` if enough wait there; true if it did. */
static bool
open_barrier(struct px_run *r, int64_t id, uint32_t want)
{
    uint32_t i, g, n = 0;

    for (i = 0; i < r->n_warps; i++) {
        const struct px_warp *w = &r->warps[i];
        for (g = 0; g < w->n_groups; g++) {
            if (w->groups[g].waits &&
                r->kernel->code[w->groups[g].pc].offset == id)
                n += (uint32_t)__builtin_popcount(w->groups[g].mask);
        }
    }
    if (n != want)
        return false;
    for (i = 0; i < r->n_warps; i++) {
        struct px_warp *w = &r->warps[i];
        for (g = 0; g < w->n_groups; g++) {
            struct px_group *group = &w->groups[g];
            if (!group->waits || r->kernel->code[group->pc].offset != id)
                continue;
            group->waits = false;
            group->pc++;
        }
        merge(w);
    }
    return true;
}

/* No warp can run: opens a barrier, or says that none can be. */
static void
meet(struct px_run *r)
{
    const struct px_insn *in = NULL;
    const struct px_warp *w = NULL;
    uint32_t i, g;

    for (i = 0; i < r->n_warps; i++) {
        w = &r->warps[i];
        for (g = 0; g < w->n_groups; g++) {
            in = &r->kernel->code[w->groups[g].pc];
            if (open_barrier(r, in->offset,
                             in->target ? in->target : r->n_threads))
                return;
        }
    }
    for (i = 0; i < r->n_warps; i++) {
        w = &r->warps[i];
        if (w->n_groups == 0)
            continue;
        in = &r->kernel->code[w->groups[0].pc];
        px_fault(r, w, (uint32_t)__builtin_ctz(w->groups[0].mask), in,
                 SIM_PTX_BARRIER, 0,
                 r->n_exited ? "waits for threads that have left"
                             : "waits for threads that wait elsewhere");
        return;
    }
}

/* ---- blocks ---- */

static void
start_warp(struct px_run *r, struct px_warp *w)
{
    const struct sim_ptx_launch *l = r->launch;
    uint32_t lane, n = r->n_threads - w->number * PX_LANES, t[3], i;

    memset(w->defined, 0, r->kernel->n_rows * sizeof(*w->defined));
    for (i = 0; i < PX_SPECIAL_COUNT; i++)
        w->defined[i] = UINT32_MAX;
    for (lane = 0; lane < PX_LANES; lane++) {
        thread_of(r, w->number * PX_LANES + lane, t);
        for (i = 0; i < 3; i++) {
            w->rows[PX_TID_X + i][lane] = t[i];
            w->rows[PX_NTID_X + i][lane] = l->block[i];
            w->rows[PX_CTAID_X + i][lane] = r->block[i];
            w->rows[PX_NCTAID_X + i][lane] = l->grid[i];
        }
        w->rows[PX_LANEID][lane] = lane;
        w->rows[PX_WARPID][lane] = w->number;
        w->rows[PX_NWARPID][lane] = r->n_warps;
    }
    w->n_groups = 1;
    w->groups[0] =
        (struct px_group){.mask = n >= PX_LANES ? UINT32_MAX : (1u << n) - 1};
}

static void
run_block(struct px_run *r)
{
    uint32_t i;
    bool busy;

    r->n_exited = 0;
    /* what a block finds in shared memory is not its own: make it ugly */
    memset(r->shared, 0xa5, r->shared_bytes);
    for (i = 0; i < r->n_warps; i++)
        start_warp(r, &r->warps[i]);
    while (r->n_exited < r->n_threads && !r->failed) {
        busy = false;
        for (i = 0; i < r->n_warps && !r->failed; i++)
            busy |= run_warp(r, &r->warps[i]);
        if (!busy)
            meet(r);
    }
}

/* ---- launches ---- */

static bell_status
bad_launch(struct px_run *r, const char *what)
{
    r->report->fault = SIM_PTX_BAD_LAUNCH;
    return bell_fail(BELL_E_INVALID, "launch of %s: %s", r->kernel->name, what);
}

static bell_status
check_launch(struct px_run *r)
{
    const struct sim_ptx_launch *l = r->launch;
    const struct px_kernel *k = r->kernel;
    uint64_t threads = 1;
    int i;

    for (i = 0; i < 3; i++) {
        if (l->grid[i] == 0 || l->block[i] == 0 || l->block[i] > MAX_THREADS ||
            l->grid[i] > (i ? 65535u : INT32_MAX))
            return bad_launch(r, "grid or block has a bad size");
        threads *= l->block[i];
        if (k->reqntid[0] && k->reqntid[i] != l->block[i])
            return bad_launch(r, "the kernel wants blocks of another size");
    }
    if (threads > MAX_THREADS)
        return bad_launch(r, "a block has 1024 threads at most");
    if (k->maxntid[0] &&
        threads > (uint64_t)k->maxntid[0] * k->maxntid[1] * k->maxntid[2])
        return bad_launch(r, "more threads than the kernel allows");
    if (l->args_bytes < k->param_bytes)
        return bad_launch(r, "too few bytes of arguments");
    if (l->dynamic_shared_bytes >
        MAX_SHARED_BYTES - align_up(k->shared_bytes, 16))
        return bad_launch(r, "too much shared memory");
    r->n_threads = (uint32_t)threads;
    r->n_warps = (uint32_t)div_up(threads, PX_LANES);
    r->shared_bytes =
        (uint32_t)align_up(k->shared_bytes, 16) + l->dynamic_shared_bytes;
    return BELL_OK;
}

static bool
alloc_warp(struct px_run *r, struct px_warp *w)
{
    const struct px_kernel *k = r->kernel;

    w->rows = host_alloc(k->n_rows * sizeof(*w->rows));
    w->defined = host_alloc(k->n_rows * sizeof(*w->defined));
    w->local = host_calloc(PX_LANES, (size_t)k->local_bytes + 1);
    return w->rows && w->defined && w->local;
}

static bell_status
alloc_run(struct px_run *r)
{
    const struct px_kernel *k = r->kernel;
    size_t per_warp =
               k->n_rows * sizeof(px_row) + (size_t)k->local_bytes * PX_LANES,
           i, lane;
    bool ok = per_warp * r->n_warps <= MAX_STATE_BYTES;

    r->warps = host_calloc(r->n_warps, sizeof(*r->warps));
    r->shared = host_alloc(r->shared_bytes + 16u);
    r->consts = host_alloc((k->n_consts + 1) * sizeof(*r->consts));
    ok = ok && r->warps && r->shared && r->consts;
    for (i = 0; i < r->n_warps && ok; i++) {
        r->warps[i].number = (uint32_t)i;
        ok = alloc_warp(r, &r->warps[i]);
    }
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY, "running %s: %u warps of %u rows",
                         k->name, r->n_warps, k->n_rows);
    memset(r->consts[0], 0, sizeof(px_row));
    for (i = 0; i < k->n_consts; i++) {
        uint64_t dynamic = align_up(k->shared_bytes, 16);
        for (lane = 0; lane < PX_LANES; lane++)
            r->consts[i][lane] = k->consts[i].bits +
                                 (k->consts[i].is_dynamic_shared ? dynamic : 0);
    }
    return BELL_OK;
}

static void
free_run(struct px_run *r)
{
    uint32_t i;

    for (i = 0; i < r->n_warps && r->warps; i++) {
        host_free(r->warps[i].rows);
        host_free(r->warps[i].defined);
        host_free(r->warps[i].local);
    }
    host_free(r->warps);
    host_free(r->shared);
    host_free(r->consts);
}

static const struct px_kernel *
find_kernel(const struct sim_ptx_module *module, const char *name)
{
    size_t i;

    for (i = 0; i < module->n_kernels; i++) {
        if (!name || strcmp(module->kernels[i].name, name) == 0)
            return &module->kernels[i];
    }
    return NULL;
}

static void
run_grid(struct px_run *r)
{
    const uint32_t *grid = r->launch->grid;
    uint32_t x, y, z;

    for (z = 0; z < grid[2]; z++) {
        for (y = 0; y < grid[1]; y++) {
            for (x = 0; x < grid[0] && !r->failed; x++) {
                r->block[0] = x;
                r->block[1] = y;
                r->block[2] = z;
                run_block(r);
            }
        }
    }
}

bell_status
sim_ptx_run(const struct sim_ptx_module *module,
            const struct sim_ptx_launch *launch,
            struct sim_ptx_report *out_report)
{
    struct px_run r = {.kernel = find_kernel(module, launch->kernel),
                       .launch = launch,
                       .report = out_report};
    bell_status status;

    memset(out_report, 0, sizeof(*out_report));
    if (!r.kernel) {
        out_report->fault = SIM_PTX_BAD_LAUNCH;
        return bell_fail(BELL_E_INVALID, "the module has no kernel %s",
                         launch->kernel ? launch->kernel : "");
    }
    BELL_TRY(check_launch(&r));
    status = alloc_run(&r);
    if (status == BELL_OK)
        run_grid(&r);
    free_run(&r);
    if (r.failed)
        return px_fault_status(out_report->fault);
    return status;
}
