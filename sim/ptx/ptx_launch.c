/* Launches: sizes are checked, the state of a block's warps is made once and
 * used for one block after the other. */
#include "ioctl/sim_step.h"
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MAX_THREADS      1024
#define MAX_SHARED_BYTES (228u * 1024)
#define MAX_STATE_BYTES  ((size_t)1 << 30)

/* ---- faults ---- */

static bell_status
fault_status(enum sim_ptx_fault fault)
{
    return fault == SIM_PTX_HUNG || fault == SIM_PTX_STOPPED
               ? BELL_E_TIMEOUT
               : BELL_E_DEVICE_LOST;
}

static void
thread_of(const struct px_run *r, uint32_t number, uint32_t out[3])
{
    const uint32_t *b = r->launch->block;

    out[0] = number % b[0];
    out[1] = number / b[0] % b[1];
    out[2] = number / b[0] / b[1];
}

void
px_fault(struct px_run *r, const struct px_warp *w, uint32_t lane,
         const struct px_insn *in, enum sim_ptx_fault fault, uint64_t va,
         const char *what)
{
    struct sim_ptx_report *report = r->report;
    const uint32_t *t = report->thread, *b = report->block;
    const char *type = px_types[in->type].name;

    assert(!r->failed || r->report->fault);
    assert(lane < PX_LANES);
    if (r->failed)
        return;
    r->failed = true;
    report->fault = fault;
    report->line = in->line;
    report->va = va;
    memcpy(report->block, r->block, sizeof(report->block));
    thread_of(r, w->number * PX_LANES + lane, report->thread);
    r->status = bell_fail(
        fault_status(fault),
        "kernel %s, PTX line %u, %s%s%s: %s (block %u,%u,%u, thread "
        "%u,%u,%u, address 0x%llx)",
        r->kernel->name, in->line, px_op_name(in->op), *type ? "." : "", type,
        what, b[0], b[1], b[2], t[0], t[1], t[2], (unsigned long long)va);
}

void
px_exhausted(struct px_run *r)
{
    r->failed = true;
    r->status = bell_fail(BELL_E_NO_MEMORY, "running %s: out of memory",
                          r->kernel->name);
}

void
px_undefined(struct px_run *r, const struct px_warp *w,
             const struct px_insn *in, uint32_t missing)
{
    assert(missing);
    px_fault(r, w, px_first(missing), in, SIM_PTX_UNDEFINED, 0,
             "reads a register before it is written");
}

/* ---- the state of a block ---- */

static uint32_t
special_value(const struct px_run *r, unsigned which, uint32_t warp,
              uint32_t lane)
{
    const struct sim_ptx_launch *l = r->launch;
    uint32_t t[3], bit = 1u << lane, n_sm = l->n_sm ? l->n_sm : 1;

    assert(which < PX_SPECIAL_COUNT && lane < PX_LANES);
    assert(lane < PX_LANES && warp < r->n_warps);
    thread_of(r, warp * PX_LANES + lane, t);
    if (which <= PX_TID_Z)
        return t[which - PX_TID_X];
    if (which <= PX_NTID_Z)
        return l->block[which - PX_NTID_X];
    if (which <= PX_CTAID_Z)
        return r->block[which - PX_CTAID_X];
    if (which <= PX_NCTAID_Z)
        return l->grid[which - PX_NCTAID_X];
    switch (which) {
    case PX_LANEID:
        return lane;
    case PX_WARPID:
        return warp;
    case PX_NWARPID:
        return r->n_warps;
    case PX_SMID:
        return (
            uint32_t)((l->sm_id + r->block[0] +
                       (uint64_t)l->grid[0] *
                           (r->block[1] + (uint64_t)l->grid[1] * r->block[2])) %
                      n_sm);
    case PX_NSMID:
        return l->told_n_sm ? *l->told_n_sm : n_sm;
    case PX_LANEMASK_EQ:
        return bit;
    case PX_LANEMASK_LT:
        return bit - 1;
    case PX_LANEMASK_LE:
        return bit | (bit - 1);
    case PX_LANEMASK_GT:
        return ~(bit | (bit - 1));
    case PX_LANEMASK_GE:
        return ~(bit - 1);
    case PX_DYNAMIC_SMEM:
        return l->dynamic_shared_bytes;
    default:
        return l->told_total_shared ? *l->told_total_shared : r->shared_bytes;
    }
}

/* Those that are another block's, or all of them. */
static void
fill_specials(const struct px_run *r, struct px_warp *w, bool all)
{
    const int32_t *rows = r->kernel->specials;
    uint32_t i, lane;

    for (i = 0; i < PX_CLOCK_FIRST; i++) {
        if (rows[i] == PX_NO_ROW)
            continue;
        w->defined[rows[i]] = PX_FULL;
        if (!all && (i < PX_CTAID_X || i > PX_CTAID_Z) && i != PX_SMID)
            continue;
        for (lane = 0; lane < PX_LANES; lane++) {
            if (i == PX_GRIDID)
                px_set(w->rows[rows[i]], 64, lane, r->launch->grid_id);
            else
                w->rows[rows[i]][lane] = special_value(r, i, w->number, lane);
        }
    }
}

static void
start_warp(const struct px_run *r, struct px_warp *w)
{
    uint32_t n = r->n_threads - w->number * PX_LANES;

    assert(n > 0 && w->number < r->n_warps);
    memset(w->defined, 0, r->kernel->n_rows * sizeof(*w->defined));
    memset(w->n_committed, 0, sizeof(w->n_committed));
    fill_specials(r, w, !w->is_filled);
    w->is_filled = true;
    w->live = n >= PX_LANES ? PX_FULL : (1u << n) - 1;
    w->n_groups = 1;
    w->groups[0] = (struct px_group){.mask = w->live};
    w->n_turns = 0;
    w->n_copies = 0;
}

static void
start_block(struct px_run *r)
{
    uint32_t i;

    r->n_exited = 0;
    memset(r->n_arrived, 0, sizeof(r->n_arrived));
    px_shared_begin(r);
    px_wgmma_begin(r);
    px_bulk_begin(r);
    for (i = 0; i < r->n_warps; i++)
        start_warp(r, &r->warps[i]);
}

/* ---- launches ---- */

static bell_status
bad_ptx_launch(struct px_run *r, const char *what)
{
    r->report->fault = SIM_PTX_BAD_LAUNCH;
    return bell_fail(BELL_E_INVALID, "launch of %s: %s", r->kernel->name, what);
}

static bell_status
check_launch_memory(struct px_run *r)
{
    const struct sim_ptx_launch *l = r->launch;
    const struct px_kernel *k = r->kernel;
    uint32_t page = l->mem.page_bytes;

    assert(r->launch && r->kernel);
    if (l->args_bytes < k->param_bytes)
        return bad_ptx_launch(r, "too few bytes of arguments");
    if (l->dynamic_shared_bytes >
        MAX_SHARED_BYTES - align_up(k->shared_bytes, 16))
        return bad_ptx_launch(r, "too much shared memory");
    if (k->uses_const &&
        (!l->const_bank || l->const_bytes < r->module->consts.n_bytes))
        return bad_ptx_launch(r, "too few bytes of constants");
    if (k->uses_global && !l->global_base)
        return bad_ptx_launch(r, "the module's variables are nowhere");
    if (page && (!is_pow2(page) || page < 16))
        return bad_ptx_launch(r, "pages of a bad size");
    r->page_log2 = page ? log2_floor(page) : 0;
    return BELL_OK;
}

static bell_status
check_ptx_launch(struct px_run *r)
{
    const struct sim_ptx_launch *l = r->launch;
    const struct px_kernel *k = r->kernel;
    uint64_t threads = 1;
    int i;

    for (i = 0; i < 3; i++) {
        if (l->grid[i] == 0 || l->block[i] == 0 || l->block[i] > MAX_THREADS ||
            l->grid[i] > (i ? 65535u : INT32_MAX))
            return bad_ptx_launch(r, "grid or block has a bad size");
        threads *= l->block[i];
        if (k->reqntid[0] && k->reqntid[i] != l->block[i])
            return bad_ptx_launch(r, "the kernel wants blocks of another size");
    }
    if (threads > MAX_THREADS)
        return bad_ptx_launch(r, "a block has 1024 threads at most");
    if (k->maxntid[0] &&
        threads > (uint64_t)k->maxntid[0] * k->maxntid[1] * k->maxntid[2])
        return bad_ptx_launch(r, "more threads than the kernel allows");
    BELL_TRY(check_launch_memory(r));
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
    size_t n = k->n_rows + 1;

    w->rows = host_aligned(64, n * sizeof(*w->rows));
    w->defined = host_alloc(n * sizeof(*w->defined));
    w->local = host_calloc(PX_LANES, (size_t)k->local_bytes + 1);
    if (w->rows)
        memset(w->rows, 0, n * sizeof(*w->rows));
    return w->rows && w->defined && w->local;
}

/* Constants, of which some are known only now, in all lanes. */
static void
fill_consts(struct px_run *r)
{
    const struct px_kernel *k = r->kernel;
    size_t i;
    uint32_t lane;

    for (i = 0; i < k->n_consts; i++) {
        const struct px_const *c = &k->consts[i];
        uint64_t bits = c->bits;
        uint32_t *row = r->consts[2 * i];
        if (c->base == PX_BASE_DYNAMIC)
            bits += align_up(k->shared_bytes, 16);
        else if (c->base == PX_BASE_GLOBAL)
            bits += r->launch->global_base;
        if (c->width == 1)
            row[0] = bits ? PX_FULL : 0;
        for (lane = 0; lane < PX_LANES && c->width != 1; lane++)
            px_set(row, c->width, lane, bits);
    }
}

static bell_status
alloc_run(struct px_run *r)
{
    const struct px_kernel *k = r->kernel;
    size_t per_warp =
        k->n_rows * sizeof(px_row) + (size_t)k->local_bytes * PX_LANES;
    bool ok = per_warp * r->n_warps <= MAX_STATE_BYTES;
    uint32_t i;

    r->warps = host_calloc(r->n_warps, sizeof(*r->warps));
    r->shared = host_alloc(r->shared_bytes + 16u);
    r->writer = host_alloc(r->shared_bytes + 16u);
    r->reader = host_alloc(r->shared_bytes + 16u);
    r->consts = host_aligned(64, (k->n_consts + 1) * 2 * sizeof(*r->consts));
    ok = ok && r->warps && r->shared && r->writer && r->reader && r->consts;
    for (i = 0; i < r->n_warps && ok; i++) {
        r->warps[i].number = i;
        ok = alloc_warp(r, &r->warps[i]);
    }
    map_init(&r->nc);
    ok = ok && px_wgmma_alloc(r) && px_bulk_alloc(r);
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY,
                         "running %s: %u warps of %u rows: out of memory",
                         k->name, r->n_warps, k->n_rows);
    fill_consts(r);
    return BELL_OK;
}

static void
free_run(struct px_run *r)
{
    uint32_t i;

    px_wgmma_free(r);
    map_fini(&r->nc);
    px_bulk_free(r);
    for (i = 0; i < r->n_warps && r->warps; i++) {
        host_free(r->warps[i].rows);
        host_free(r->warps[i].defined);
        host_free(r->warps[i].local);
        host_free(r->warps[i].copies);
    }
    host_free(r->warps);
    host_free(r->shared);
    host_free(r->writer);
    host_free(r->reader);
    host_free(r->consts);
}

static const struct px_kernel *
find_ptx_kernel(const struct sim_ptx_module *module, const char *name)
{
    size_t i;

    for (i = 0; i < module->n_kernels; i++) {
        if (!name || strcmp(module->kernels[i].name, name) == 0)
            return &module->kernels[i];
    }
    return NULL;
}

static void
run_grid(struct px_run *r, uint64_t n_blocks, uint64_t n_run, uint64_t step)
{
    const struct sim_ptx_mem *mem = &r->launch->mem;
    const uint32_t *grid = r->launch->grid;
    uint64_t i = 0;

    assert(step > 0 && n_run <= n_blocks);
    for (; n_run && !r->failed; n_run--, i = (i + step) % n_blocks) {
        r->block[0] = (uint32_t)(i % grid[0]);
        r->block[1] = (uint32_t)(i / grid[0] % grid[1]);
        r->block[2] = (uint32_t)(i / grid[0] / grid[1]);
        if (mem->next_block && mem->next_block(mem->user))
            memset(r->tlb, 0, sizeof(r->tlb));
        start_block(r);
        px_run_block(r);
    }
}

/* All blocks, or those that who counts wants to be run. */
static void
run_counted(struct px_run *r)
{
    const uint32_t *grid = r->launch->grid;
    uint64_t n = (uint64_t)grid[0] * grid[1] * grid[2], n_run = n, most,
             step = 1;
    struct sim_counts counts = {0};

    if (sim_count_on(&most)) {
        r->counts = &counts;
        step = sim_count_step(n, most, &n_run);
        counts.n_groups = n;
        counts.n_groups_run = n_run;
    }
    run_grid(r, n, n_run, step);
    if (r->counts)
        sim_count_add(&counts);
}

bell_status
sim_ptx_run(const struct sim_ptx_module *module,
            const struct sim_ptx_launch *launch,
            struct sim_ptx_report *out_report)
{
    struct px_run r = {.module = module,
                       .kernel = find_ptx_kernel(module, launch->kernel),
                       .launch = launch,
                       .report = out_report};
    bell_status status;

    memset(out_report, 0, sizeof(*out_report));
    if (!r.kernel) {
        out_report->fault = SIM_PTX_BAD_LAUNCH;
        return bell_fail(BELL_E_INVALID, "the module has no kernel %s",
                         launch->kernel ? launch->kernel : "");
    }
    BELL_TRY(check_ptx_launch(&r));
    r.is_stepped = launch->mem.peek && (sim_step_wants(SIM_STOP_WAVE) ||
                                        sim_step_wants(SIM_STOP_INSN));
    status = alloc_run(&r);
    if (status == BELL_OK)
        run_counted(&r);
    free_run(&r);
    return r.failed ? r.status : status;
}
