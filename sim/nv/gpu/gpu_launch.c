/* Launches: a descriptor is read and checked when it is sent; its kernel runs
 * when something orders it, the latest first where several wait: grids that
 * nothing orders may overlap on a card.
 *
 * src: docs/hardware/nvidia-queues.md, "Local memory", "Launch descriptors";
 * docs/hardware/nvidia-code.md, "Shared memory", "Stacks", "Constant bank 0",
 * "Constant banks".
 */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/map.h"
#include "doorbell/status.h"
#include "sim/ptx/ptx.h"

/* Method state. */
#define SHARED_WINDOW (0x2a0 / 4)
#define LOCAL_SIZE    (0x2e4 / 4)
#define LOCAL_BASE    (0x790 / 4)
#define LOCAL_WINDOW  (0x7b0 / 4)

#define RESERVED_SHARED 0x400u
#define STACK_RESERVE   0x240u
#define INITIAL_STACK   0xfffdc0u
#define WINDOW_BYTES    ((uint64_t)1 << 24)

/* hwwWarpEsr. src: docs/hardware/nvidia-queues.md, "Errors" (address space).
 * guess: the others, from kernel logs of cards. */
enum {
    ESR_STACK = 0x1,
    ESR_TRAP = 0x7,
    ESR_OUT_OF_RANGE = 0xe,
    ESR_MISALIGNED = 0xf,
    ESR_ADDRESS_SPACE = 0x10,
    /* what only a simulated card notices */
    ESR_SIMULATED = 0x3f,
};

#define NO_WORD 0xffffffffu

/* Offsets of the driver's words in bank 0.
 * src: docs/hardware/nvidia-code.md, "Constant bank 0" */
struct bank_words {
    uint32_t ntid, nctaid, shared_window, local_window, stack, dynamic_shared,
        total_shared, n_sm, grid_id, param_address, descriptor, params;
    bool reads_shared_window;
};

static const struct bank_words words[] = {
    {0x0, 0xc, 0x18, 0x20, 0x28, 0x2c, 0x114, 0x10c, 0x30, NO_WORD, 0x118,
     0x160, true},
    {0x0, 0xc, 0x18, 0x20, 0x28, 0x2c, 0x114, 0x10c, 0x30, 0x198, 0x208, 0x210,
     false},
    {0x360, 0x370, 0x2f0, 0x2f8, 0x37c, 0x2ac, 0x16c, 0x2d0, 0x140, 0x348,
     0x358, 0x380, false},
};

/* One launch that runs. */
struct run {
    struct nvgpu_chan *chan;
    const struct nvgpu_launch *launch;
    const struct bank_words *words;
    struct nvgpu_module *module;
    struct sim_ptx_kernel_info kernel;
    struct sim_ptx_module_info info;
    uint64_t shared_window, shared_window_bytes, local_window;
    bool crosses; /* it uses memory of another card */
    struct sim_ptx_launch ptx;
};

static uint64_t
pair(const struct nvgpu_chan *chan, uint32_t index)
{
    assert(index + 1 < NVGPU_N_STATE);
    return (uint64_t)chan->compute[index] << 32 | chan->compute[index + 1];
}

static uint32_t
word(const struct run *r, uint32_t offset)
{
    uint32_t v;

    assert(offset + sizeof(v) <= sizeof(r->chan->bank[0]));
    memcpy(&v, r->chan->bank[0] + offset, sizeof(v));
    return v;
}

static uint64_t
word64(const struct run *r, uint32_t offset)
{
    return (uint64_t)word(r, offset + 4) << 32 | word(r, offset);
}

/* ---- constant banks ---- */

/* The constant cache may still have what another kernel read there. */
static bool
check_constants(struct run *r, uint32_t bank, const uint8_t *data,
                uint32_t n_bytes)
{
    const struct nvgpu_bank *b = &r->launch->banks[bank];
    struct nvgpu_chan *chan = r->chan;
    struct nvgpu_constants *c =
        &chan->constants[(b->va >> 6) % ARRAY_LEN(chan->constants)];
    uint64_t hash = hash_bytes(data, n_bytes, n_bytes);

    assert(bank < 8);
    if (c->va == b->va && c->epoch == chan->n_constant_invalidates &&
        c->hash != hash)
        return nvgpu_fail(chan, NVGPU_CODE_SM,
                          "kernel %s: stale constants: bank %u at 0x%llx "
                          "changed, but no cache of them was invalidated",
                          r->kernel.name, bank, (unsigned long long)b->va);
    *c = (struct nvgpu_constants){b->va, hash, chan->n_constant_invalidates};
    return true;
}

/* As far as the kernel may load from it. A bank's size may go beyond what is
 * mapped: cards load what is asked for. lead: tinygrad's descriptors have 16
 * times the size */
static bool
read_bank(struct run *r, uint32_t bank, uint8_t *to, uint32_t n_bytes)
{
    const struct nvgpu_bank *b = &r->launch->banks[bank];
    char who[32];

    assert(bank < NVGPU_N_BANKS);
    snprintf(who, sizeof(who), "a read of bank %u", bank);
    assert(n_bytes <= b->size_bytes);
    return nvgpu_read(r->chan, b->va, to, n_bytes, who) &&
           check_constants(r, bank, to, n_bytes);
}

static bool
read_bank0(struct run *r)
{
    const struct nvgpu_bank *b = &r->launch->banks[0];

    if (!b->valid)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: constant bank 0 is not valid",
                          r->kernel.name);
    if (b->size_bytes < r->words->params + r->kernel.param_bytes)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: constant bank 0 has 0x%x bytes, its "
                          "parameters end at 0x%x",
                          r->kernel.name, b->size_bytes,
                          r->words->params + r->kernel.param_bytes);
    return read_bank(r, 0, r->chan->bank[0],
                     r->words->params + r->kernel.param_bytes);
}

static bool
wrong_word(struct run *r, const char *name, uint32_t offset, uint64_t is,
           uint64_t want)
{
    return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                      "kernel %s: bank 0 has %s (0x%x) = 0x%llx, but it is "
                      "0x%llx",
                      r->kernel.name, name, offset, (unsigned long long)is,
                      (unsigned long long)want);
}

/* A word that no instruction reads may be 0. */
static bool
check_dims(struct run *r)
{
    static const char *const names[] = {"ntid.x",   "ntid.y",   "ntid.z",
                                        "nctaid.x", "nctaid.y", "nctaid.z"};
    const struct nvgpu_launch *a = r->launch;
    uint32_t i;

    for (i = 0; i < 6; i++) {
        uint32_t want = i < 3 ? a->block[i] : a->grid[i - 3],
                 at = i < 3 ? r->words->ntid + 4 * i
                            : r->words->nctaid + 4 * (i - 3);
        bool is_read = r->kernel.reads_dims >> i & 1;

        if (word(r, at) != want && (word(r, at) || is_read))
            return wrong_word(r, names[i], at, word(r, at), want);
    }
    return true;
}

static bool
check_qmd_words(struct run *r)
{
    const struct bank_words *w = r->words;
    uint64_t shared = word64(r, w->shared_window);
    uint32_t stack = word(r, w->stack);

    if (!check_dims(r))
        return false;
    if (shared != r->shared_window && (shared || w->reads_shared_window))
        return wrong_word(r, "the shared window", w->shared_window, shared,
                          r->shared_window);
    if (word64(r, w->local_window) != r->local_window)
        return wrong_word(r, "the local window", w->local_window,
                          word64(r, w->local_window), r->local_window);
    if (stack != INITIAL_STACK && (stack || r->launch->local_high_bytes))
        return wrong_word(r, "the initial stack pointer", w->stack, stack,
                          INITIAL_STACK);
    /* no PTX that is simulated takes the address of a parameter: tinygrad has
     * 0 there */
    if (w->param_address != NO_WORD && word64(r, w->param_address) &&
        word64(r, w->param_address) != r->launch->banks[0].va + w->params)
        return wrong_word(r, "the address of the parameters", w->param_address,
                          word64(r, w->param_address),
                          r->launch->banks[0].va + w->params);
    if (word64(r, w->descriptor) != 0)
        return wrong_word(r, "the global memory descriptor", w->descriptor,
                          word64(r, w->descriptor), 0);
    return true;
}

/* Constants of the module are bank 3; bank 4 begins with the address of its
 * other variables. src: docs/hardware/nvidia-code.md, "Sections of a cubin",
 * "Constant banks" */
static bool
read_variables(struct run *r)
{
    const struct nvgpu_bank *b = r->launch->banks;

    if (r->info.const_bytes) {
        if (!b[3].valid || b[3].size_bytes < r->info.const_bytes)
            return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                              "kernel %s: 0x%x bytes of constants, bank 3 has "
                              "0x%x",
                              r->kernel.name, r->info.const_bytes,
                              b[3].valid ? b[3].size_bytes : 0);
        if (!read_bank(r, 3, r->chan->bank[1], b[3].size_bytes))
            return false;
        r->ptx.const_bank = r->chan->bank[1];
        r->ptx.const_bytes = b[3].size_bytes;
    }
    if (!r->info.global_bytes)
        return true;
    if (!b[4].valid || b[4].size_bytes < 8)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: bank 4 with the address of the module's "
                          "variables is not valid",
                          r->kernel.name);
    return nvgpu_read(r->chan, b[4].va, &r->ptx.global_base, 8,
                      "a read of bank 4");
}

/* ---- memory of blocks and threads ---- */

static bool
check_windows(struct run *r)
{
    bool is_hopper = r->chan->gpu->chip->sm >= 90;

    r->shared_window = pair(r->chan, SHARED_WINDOW);
    r->local_window = pair(r->chan, LOCAL_WINDOW);
    r->shared_window_bytes = is_hopper ? WINDOW_BYTES << 8 : WINDOW_BYTES;
    if (r->shared_window & (r->shared_window_bytes - 1))
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "the shared window 0x%llx is not a multiple of its "
                          "0x%llx bytes",
                          (unsigned long long)r->shared_window,
                          (unsigned long long)r->shared_window_bytes);
    if (r->local_window & (WINDOW_BYTES - 1))
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "the local window 0x%llx is not a multiple of 16 MiB",
                          (unsigned long long)r->local_window);
    return true;
}

static bool
check_kernel_shared(struct run *r)
{
    uint32_t dynamic = word(r, r->words->dynamic_shared);
    uint64_t need = align_up(r->kernel.shared_bytes, 16) + (uint64_t)dynamic;

    if (need && need + RESERVED_SHARED > r->launch->shared_bytes)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: 0x%x reserved, 0x%x static and 0x%x "
                          "dynamic bytes of shared memory, the QMD has 0x%x",
                          r->kernel.name, RESERVED_SHARED,
                          r->kernel.shared_bytes, dynamic,
                          r->launch->shared_bytes);
    r->ptx.dynamic_shared_bytes = dynamic;
    return true;
}

/* The whole range is mapped for writing. */
static bool
check_mapped(struct nvgpu_chan *chan, uint64_t va, uint64_t bytes)
{
    uint64_t n, end = va + bytes;

    while (va < end) {
        if (!nvgpu_span(chan, va, true, &n))
            return nvgpu_fail_mmu(chan, va, NVGPU_WRITE,
                                  "the local memory of threads");
        va += n;
    }
    return true;
}

/* src: docs/hardware/nvidia-queues.md, "Local memory" */
static bool
check_local(struct run *r)
{
    const struct nvgpu_chip *chip = r->chan->gpu->chip;
    uint32_t low = r->launch->local_low_bytes,
             thread = r->launch->local_high_bytes;
    uint64_t have = pair(r->chan, LOCAL_SIZE), need;

    if (low || thread % 16 || thread > INITIAL_STACK)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "QMD: local memory of 0x%x low and 0x%x high bytes: "
                          "only high ones, in units of 16",
                          low, thread);
    if (r->kernel.local_bytes && thread < r->kernel.local_bytes + STACK_RESERVE)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: 0x%x bytes of stack and the reserve of "
                          "0x%x, the QMD has 0x%x (ESR 0x%x)",
                          r->kernel.name, r->kernel.local_bytes, STACK_RESERVE,
                          thread, ESR_STACK);
    if (thread == 0)
        return true;
    need = align_up(align_up((uint64_t)32 * thread, 0x200) *
                        chip->max_warps_per_sm * chip->n_sm_per_tpc,
                    0x8000);
    if (have < need || have % 0x8000)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: 0x%x bytes of local memory a thread are "
                          "0x%llx a TPC, the channel was given 0x%llx",
                          r->kernel.name, thread, (unsigned long long)need,
                          (unsigned long long)have);
    if (!r->local_window)
        return nvgpu_fail(r->chan, NVGPU_CODE_SM,
                          "kernel %s: local memory without its window",
                          r->kernel.name);
    return check_mapped(r->chan, pair(r->chan, LOCAL_BASE),
                        have * chip->n_gpc * chip->n_tpc_per_gpc);
}

/* ---- running ---- */

static bool
in_launch_window(const struct run *r, uint64_t va)
{
    return (r->shared_window &&
            va - r->shared_window < r->shared_window_bytes) ||
           (r->local_window && va - r->local_window < WINDOW_BYTES);
}

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    struct run *r = user;
    uint64_t n;
    void *host;

    assert(n_bytes > 0);
    if (in_launch_window(r, va))
        return NULL;
    host = nvgpu_span(r->chan, va, is_write, &n);
    if (host && is_write && n >= n_bytes)
        r->chan->last_written = host;
    r->crosses |= r->chan->span_owner >= 0;
    return host && n >= n_bytes ? host : NULL;
}

static void
count(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    struct run *r = user;

    nvgpu_count_data(r->chan, va, n_bytes, is_write, true);
}

static uint32_t
team(void *user, uint64_t va, uint32_t n_bytes, bool is_write,
     uint8_t *out[SIM_PTX_TEAM_MAX])
{
    struct run *r = user;

    static_assert(SIM_PTX_TEAM_MAX == NVGPU_TEAM_MAX, "one list");
    return in_launch_window(r, va)
               ? 0
               : nvgpu_team_at(r->chan, va, n_bytes, is_write, out);
}

static bool
pause_kernel(void *user)
{
    struct run *r = user;

    return sim_walk_pause(&r->chan->walk);
}

static bool
next_block(void *user)
{
    struct run *r = user;

    return nvgpu_turn_pass(r->chan);
}

static uint64_t
kernel_time(void *user)
{
    struct run *r = user;

    return nvgpu_time_ns(r->chan->gpu);
}

/* Robust-channel code and ESR of what the interpreter met. */
static uint32_t
classify_fault(const struct run *r, const struct sim_ptx_report *report,
               uint32_t *out_esr)
{
    *out_esr = ESR_SIMULATED;
    switch (report->fault) {
    case SIM_PTX_UNMAPPED:
        *out_esr = in_launch_window(r, report->va) ? ESR_ADDRESS_SPACE : 0;
        return *out_esr ? NVGPU_CODE_SM : NVGPU_CODE_MMU;
    case SIM_PTX_MISALIGNED:
        *out_esr = ESR_MISALIGNED;
        break;
    case SIM_PTX_OUT_OF_RANGE:
        *out_esr = ESR_OUT_OF_RANGE;
        break;
    case SIM_PTX_TRAP:
        *out_esr = ESR_TRAP;
        break;
    case SIM_PTX_OK:
    case SIM_PTX_BAD_LAUNCH:
    case SIM_PTX_UNDEFINED:
    case SIM_PTX_BARRIER:
    case SIM_PTX_HUNG:
    case SIM_PTX_STOPPED:
    case SIM_PTX_RACE:
        break;
    }
    return NVGPU_CODE_SM;
}

static bool
kernel_fault(struct run *r, const struct sim_ptx_report *report)
{
    struct nvgpu_fault fault = {.va = report->va,
                                .access = report->is_write ? NVGPU_WRITE
                                                           : NVGPU_READ};

    if (report->fault == SIM_PTX_STOPPED && !atomic_load(&r->chan->evicted))
        return false;
    if (report->fault == SIM_PTX_STOPPED)
        return nvgpu_fail(r->chan, NVGPU_CODE_SWITCH,
                          "kernel %s: context switch timed out",
                          r->kernel.name);
    fault.code = classify_fault(r, report, &fault.esr);
    /* an error before any block ran has no place in the code */
    fault.is_sm = report->line != 0;
    if (fault.is_sm)
        fault.pc =
            nvgpu_code_line_va(r->module, r->launch->program_va, report->line);
    memcpy(fault.block, report->block, sizeof(fault.block));
    memcpy(fault.thread, report->thread, sizeof(fault.thread));
    snprintf(fault.text, sizeof(fault.text), "%s%.240s",
             fault.code == NVGPU_CODE_MMU ? "MMU fault: " : "",
             bell_error_last()->message);
    nvgpu_chan_end(r->chan, &fault);
    return false;
}

static bool
release_all(struct nvgpu_chan *chan, const struct nvgpu_launch *a)
{
    uint32_t i;

    for (i = 0; i < 3; i++) {
        const struct nvgpu_release *r = &a->releases[i];
        struct nvgpu_sem sem = {
            .va = r->va,
            .payload = r->payload,
            .n_bytes = r->payload64 ? 8 : 4,
            .timestamp = r->structure == 0,
            .reduction = r->reduction,
            .is_signed = r->is_signed,
            .op = nvgpu_class_reduction(r->op),
        };
        if (r->enable && !nvgpu_sem_write(chan, &sem, NVGPU_CODE_CLASS,
                                          "a release of the QMD"))
            return false;
    }
    return true;
}

static bool
peek(void *user, uint64_t va, void *out, uint32_t n_bytes)
{
    const struct run *r = user;

    return nvgpu_peek(r->chan, va, out, n_bytes);
}

static bool
run_ptx_kernel(struct run *r)
{
    const struct nvgpu_chip *chip = r->chan->gpu->chip;
    /* Compiled code takes the word off what the hardware says, all of the
     * descriptor's size with its 1 KiB. src: ptxas 13.0's code for
     * %total_smem_size; observed: H100, 2026-11-22, where the word that the
     * driver writes gives what CUDA gives */
    uint32_t total = r->launch->shared_bytes - word(r, r->words->total_shared);
    uint32_t n_sm = word(r, r->words->n_sm);
    struct sim_ptx_report report = {0};
    bell_status status;

    memcpy(r->ptx.grid, r->launch->grid, sizeof(r->ptx.grid));
    memcpy(r->ptx.block, r->launch->block, sizeof(r->ptx.block));
    r->ptx.kernel = r->kernel.name;
    r->ptx.args = r->chan->bank[0] + r->words->params;
    r->ptx.args_bytes = r->launch->banks[0].size_bytes - r->words->params;
    r->ptx.shared_window_va = r->shared_window;
    r->ptx.local_window_va = r->local_window;
    r->ptx.stop = &r->chan->stop;
    r->ptx.n_sm = nvgpu_n_sm(chip);
    r->ptx.told_n_sm = &n_sm;
    r->ptx.told_total_shared = &total;
    r->ptx.grid_id = word64(r, r->words->grid_id);
    r->ptx.time_ns = kernel_time;
    r->ptx.mem = (struct sim_ptx_mem){.at = at,
                                      .user = r,
                                      .page_bytes = NVGPU_PAGE_BYTES,
                                      .count = count,
                                      .crosses = &r->crosses,
                                      .team = team,
                                      .pause = pause_kernel,
                                      .next_block = next_block,
                                      .peek = peek};
    r->ptx.text = r->module->text;
    nvgpu_step_kernel(r->chan, r->launch, r->kernel.name);
    if (!nvgpu_turn_begin(r->chan))
        return false;
    r->chan->last_written = NULL;
    status = sim_ptx_run(r->module->ptx, &r->ptx, &report);
    if (status == BELL_OK)
        nvgpu_decay(r->chan);
    nvgpu_turn_end(r->chan);
    if (status != BELL_OK)
        return kernel_fault(r, &report);
    return release_all(r->chan, r->launch);
}

static bool
run_launch(struct nvgpu_chan *chan, const struct nvgpu_launch *a)
{
    struct run r = {.chan = chan,
                    .launch = a,
                    .words = &words[chan->gpu->chip->qmd_major - 3]};

    chan->n_code_invalidates += a->invalidates_code;
    chan->n_constant_invalidates += a->invalidates_constants;
    r.module = nvgpu_code_find(chan, a->program_va);
    if (!r.module)
        return false;
    if (!sim_ptx_kernel(r.module->ptx, NULL, 0, &r.kernel))
        return nvgpu_fail(chan, NVGPU_CODE_SM,
                          "the code at 0x%llx has no "
                          "kernel",
                          (unsigned long long)a->program_va);
    sim_ptx_module_info(r.module->ptx, &r.info);
    return check_windows(&r) && read_bank0(&r) && check_qmd_words(&r) &&
           check_kernel_shared(&r) && check_local(&r) && read_variables(&r) &&
           run_ptx_kernel(&r);
}

/* The descriptor's words, as they are now. */
static bool
hash_qmd(struct nvgpu_chan *chan, uint64_t qmd_va, uint64_t *out_hash)
{
    uint32_t dw[NVGPU_QMD_MAX_DW], n_dw = nvgpu_qmd_dw(chan->gpu->chip);

    if (!nvgpu_read(chan, qmd_va, dw, n_dw * sizeof(*dw), "the scheduler"))
        return false;
    *out_hash = hash_bytes(dw, n_dw * sizeof(*dw), 0);
    return true;
}

static bool
check_unchanged(struct nvgpu_chan *chan, uint64_t qmd_va, uint64_t hash)
{
    uint64_t now;

    if (!hash_qmd(chan, qmd_va, &now))
        return false;
    return now == hash ||
           nvgpu_fail(chan, NVGPU_CODE_CLASS,
                      "the QMD at 0x%llx was written anew while it was "
                      "pending",
                      (unsigned long long)qmd_va);
}

/* The grid is done: what depends on it. */
static bool
finish_launch(struct nvgpu_chan *chan, const struct nvgpu_launch *a)
{
    uint32_t i;

    for (i = 0; i < NVGPU_N_DEPENDENTS; i++) {
        const struct nvgpu_dependent *d = &a->dependents[i];
        bool copies = d->action == NVGPU_QMD_INVALIDATE_COPY_SCHEDULE;

        if (!d->enable)
            continue;
        if (!check_unchanged(chan, d->qmd_va, d->hash))
            return false;
        if (d->action == NVGPU_QMD_DECREMENT_DEPENDENCE) {
            if (!nvgpu_qmd_decrement(chan, d->qmd_va))
                return false;
            continue;
        }
        if (copies && !nvgpu_qmd_cache(chan, d->qmd_va, true))
            return false;
        if (!nvgpu_launch_qmd(chan, d->qmd_va, copies))
            return false;
    }
    return !nvgpu_stopped(chan);
}

bool
nvgpu_drain_kernels(struct nvgpu_chan *chan)
{
    struct nvgpu_place place = chan->at;
    struct nvgpu_launch launch;
    bool ok = true;

    while (chan->n_pending > 0 && ok) {
        launch = chan->pending[--chan->n_pending];
        chan->at = launch.place;
        chan->is_draining = true;
        ok = check_unchanged(chan, launch.qmd_va, launch.hash) &&
             run_launch(chan, &launch) && finish_launch(chan, &launch);
        chan->is_draining = false;
    }
    chan->at = place;
    return ok;
}

bool
nvgpu_drain(struct nvgpu_chan *chan)
{
    return nvgpu_drain_copies(chan) && nvgpu_drain_kernels(chan);
}

/* ---- sending ---- */

bool
nvgpu_qmd_cache(struct nvgpu_chan *chan, uint64_t qmd_va, bool drop)
{
    struct nvgpu_seen *seen =
        &chan->seen[(qmd_va >> 8) % ARRAY_LEN(chan->seen)];

    if (drop && qmd_va == UINT64_MAX)
        memset(chan->seen, 0, sizeof(chan->seen));
    else if (drop && seen->qmd_va == qmd_va)
        memset(seen, 0, sizeof(*seen));
    return true;
}

/* A descriptor that was sent before without being invalidated since is the one
 * that the scheduler still has. */
static bool
check_seen(struct nvgpu_chan *chan, uint64_t qmd_va, const uint32_t *dw,
           uint32_t n_dw)
{
    struct nvgpu_seen *seen =
        &chan->seen[(qmd_va >> 8) % ARRAY_LEN(chan->seen)];
    uint64_t hash = hash_bytes(dw, n_dw * sizeof(*dw), 0);

    if (seen->qmd_va == qmd_va && seen->hash != hash &&
        !chan->gpu->chip->is_lenient)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "the QMD at 0x%llx was written anew and scheduled "
                          "without an invalidating action (3 or 0xA)",
                          (unsigned long long)qmd_va);
    *seen = (struct nvgpu_seen){qmd_va, hash};
    return true;
}

/* Its place in a list, or the list's end. */
static uint32_t
find_launch(const struct nvgpu_launch *list, uint32_t n, uint64_t qmd_va)
{
    uint32_t i;

    assert(n <= 4 * NVGPU_MAX_PENDING || n <= NVGPU_MAX_WAITING);
    for (i = 0; i < n && list[i].qmd_va != qmd_va; i++)
        continue;
    return i;
}

static bool
list_launch(struct nvgpu_chan *chan, const struct nvgpu_launch *launch)
{
    assert(chan->n_pending <= NVGPU_MAX_PENDING);
    if (!chan->is_draining && chan->n_pending >= NVGPU_MAX_PENDING &&
        !nvgpu_drain_kernels(chan))
        return false;
    if (chan->n_pending == ARRAY_LEN(chan->pending))
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "more than %u launches are pending", chan->n_pending);
    chan->pending[chan->n_pending++] = *launch;
    return true;
}

/* Lists one that waits if there is nothing left to wait for. */
static bool
list_waiting(struct nvgpu_chan *chan, uint32_t i)
{
    struct nvgpu_launch launch = chan->waiting[i];

    assert(i < chan->n_waiting);
    if (launch.counter || launch.requires_pcas)
        return true;
    chan->waiting[i] = chan->waiting[--chan->n_waiting];
    return check_unchanged(chan, launch.qmd_va, launch.hash) &&
           list_launch(chan, &launch);
}

/* guess: only decrements count, not what schedules it */
bool
nvgpu_qmd_decrement(struct nvgpu_chan *chan, uint64_t qmd_va)
{
    uint32_t i = find_launch(chan->waiting, chan->n_waiting, qmd_va);

    if (i == chan->n_waiting || chan->waiting[i].counter == 0)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "the QMD at 0x%llx %s: its DEPENDENCE_COUNTER "
                          "cannot be decremented",
                          (unsigned long long)qmd_va,
                          i == chan->n_waiting ? "does not wait" : "has 0");
    chan->waiting[i].counter--;
    return list_waiting(chan, i);
}

/* A second time for one that is not done: only one that waits for it. */
static bool
schedule_again(struct nvgpu_chan *chan, uint32_t i, bool copied)
{
    struct nvgpu_launch *a = &chan->waiting[i];

    assert(i < chan->n_waiting);
    if (copied || !a->requires_pcas)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "the QMD at 0x%llx is scheduled anew while it waits",
                          (unsigned long long)a->qmd_va);
    a->requires_pcas = false;
    return list_waiting(chan, i);
}

/* As dependents are when the one before them is listed. */
static bool
note_dependents(struct nvgpu_chan *chan, struct nvgpu_launch *a)
{
    uint32_t i;

    for (i = 0; i < NVGPU_N_DEPENDENTS; i++) {
        if (a->dependents[i].enable &&
            !hash_qmd(chan, a->dependents[i].qmd_va, &a->dependents[i].hash))
            return false;
    }
    return true;
}

bool
nvgpu_launch_qmd(struct nvgpu_chan *chan, uint64_t qmd_va, bool copied)
{
    uint32_t dw[NVGPU_QMD_MAX_DW], n_dw = nvgpu_qmd_dw(chan->gpu->chip);
    uint32_t i = find_launch(chan->waiting, chan->n_waiting, qmd_va);
    struct nvgpu_launch launch = {.place = chan->at, .qmd_va = qmd_va};

    assert(qmd_va % 256 == 0);
    if (i < chan->n_waiting)
        return schedule_again(chan, i, copied);
    if (!nvgpu_read(chan, qmd_va, dw, n_dw * sizeof(*dw), "the scheduler") ||
        !check_seen(chan, qmd_va, dw, n_dw) ||
        !nvgpu_qmd_decode(chan, dw, &launch) || !note_dependents(chan, &launch))
        return false;
    launch.hash = hash_bytes(dw, n_dw * sizeof(*dw), 0);
    if (!launch.counter && !launch.requires_pcas)
        return list_launch(chan, &launch);
    if (!copied || chan->n_waiting == NVGPU_MAX_WAITING)
        return nvgpu_fail(
            chan, NVGPU_CODE_CLASS, "the QMD at 0x%llx depends on others: %s",
            (unsigned long long)qmd_va,
            copied ? "too many wait" : "its counter was never copied");
    chan->waiting[chan->n_waiting++] = launch;
    return true;
}
