/* Running groups: decoded code, the waves' first state, taking turns.
 * src: docs/hardware/amd-code.md, "Kernel descriptor", "Start of a wave". */
#include "sim/amd/isa/wave.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "ioctl/sim_step.h"
#include "sim/amd/isa/wave_internal.h"

#define PAGE_BYTES 4096u
#define PAGE_INSNS (PAGE_BYTES / 4)
#define TURN_INSNS 200 /* of a wave before the next one's turn */
#define ACC_FIRST  256

/* ---- decoded code ---- */

/* 4 KiB of code; an instruction is decoded when it is first run. */
struct code_page {
    bool decoded[PAGE_INSNS];
    struct isa_insn insns[PAGE_INSNS];
};

struct amd_code {
    enum isa_gen gen;
    pthread_mutex_t lock;
    struct map pages;        /* va / 4096 -> struct code_page */
    struct code_page **list; /* owned */
    size_t n, cap;
    size_t n_old;    /* of the list: forgotten, but somebody may run them */
    uint32_t n_runs; /* launches under way */
};

bell_status
amd_code_create(enum isa_gen gen, struct amd_code **out_code)
{
    struct amd_code *code = host_calloc(1, sizeof(*code));

    assert(gen < ISA_GEN_COUNT);
    if (!code || pthread_mutex_init(&code->lock, NULL) != 0) {
        host_free(code);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for decoded code");
    }
    code->gen = gen;
    map_init(&code->pages);
    *out_code = code;
    return BELL_OK;
}

/* The lock is held. */
static void
forget_code(struct amd_code *code)
{
    map_fini(&code->pages);
    map_init(&code->pages);
    code->n_old = code->n;
}

/* Frees what is forgotten once nobody runs; the lock is held. */
static void
free_old(struct amd_code *code)
{
    size_t i;

    if (code->n_runs || !code->n_old)
        return;
    for (i = 0; i < code->n_old; i++)
        host_free(code->list[i]);
    code->n -= code->n_old;
    memmove(code->list, code->list + code->n_old,
            code->n * sizeof(*code->list));
    code->n_old = 0;
}

static void
count_run(struct amd_code *code, int change)
{
    pthread_mutex_lock(&code->lock);
    code->n_runs += (uint32_t)change;
    free_old(code);
    pthread_mutex_unlock(&code->lock);
}

void
amd_code_destroy(struct amd_code *code)
{
    if (!code)
        return;
    forget_code(code);
    free_old(code);
    map_fini(&code->pages);
    host_free(code->list);
    pthread_mutex_destroy(&code->lock);
    host_free(code);
}

void
amd_code_invalidate(struct amd_code *code)
{
    pthread_mutex_lock(&code->lock);
    forget_code(code);
    free_old(code);
    pthread_mutex_unlock(&code->lock);
}

static struct code_page *
find_page(struct amd_code *code, uint64_t number)
{
    uint64_t *found = map_get(&code->pages, number);
    struct code_page *page;

    if (found)
        return (struct code_page *)(uintptr_t)*found;
    page = host_calloc(1, sizeof(*page));
    if (!page || host_grow((void **)&code->list, &code->cap, code->n + 1,
                           sizeof(*code->list)) != 0) {
        host_free(page);
        return NULL;
    }
    if (map_put(&code->pages, number, (uintptr_t)page) != 0) {
        host_free(page);
        return NULL;
    }
    code->list[code->n++] = page;
    return page;
}

/* Reads up to three words of code, as far as it is mapped. */
static uint32_t
read_code(struct wave *w, uint64_t pc, uint32_t words[3])
{
    const struct amd_memory *memory = &w->group->launch->memory;
    uint32_t n;

    assert(pc % 4 == 0);
    for (n = 0; n < 3; n++) {
        const void *at =
            memory->at(memory->user, pc + 4 * n, 4, AMD_ACCESS_FETCH);
        if (!at)
            break;
        memcpy(&words[n], at, 4);
    }
    return n;
}

const struct isa_insn *
wave_fetch(struct wave *w)
{
    struct amd_code *code = w->group->code;
    uint32_t words[3], n, idx = (uint32_t)(w->pc % PAGE_BYTES / 4);
    struct code_page *page = w->page;
    const char *why = "";

    if (w->pc & 3) {
        wave_fail(w, AMD_WAVE_FETCH, "the program counter is not aligned");
        return NULL;
    }
    if (!page || w->page_number != w->pc / PAGE_BYTES) {
        pthread_mutex_lock(&code->lock);
        page = find_page(code, w->pc / PAGE_BYTES);
        pthread_mutex_unlock(&code->lock);
        w->page = page;
        w->page_number = w->pc / PAGE_BYTES;
    }
    if (!page) {
        wave_fail(w, AMD_WAVE_FETCH, "out of memory for decoded code");
        return NULL;
    }
    if (__atomic_load_n(&page->decoded[idx], __ATOMIC_ACQUIRE))
        return &page->insns[idx];
    n = read_code(w, w->pc, words);
    if (n == 0) {
        wave_fail(w, AMD_WAVE_FETCH, "code that is not mapped");
        return NULL;
    }
    pthread_mutex_lock(&code->lock);
    if (!page->decoded[idx] &&
        !isa_decode(code->gen, words, n, &page->insns[idx], &why)) {
        pthread_mutex_unlock(&code->lock);
        wave_fail(w, AMD_WAVE_ILLEGAL, "words 0x%08x 0x%08x 0x%08x: %s",
                  words[0], n > 1 ? words[1] : 0, n > 2 ? words[2] : 0, why);
        return NULL;
    }
    __atomic_store_n(&page->decoded[idx], true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&code->lock);
    return &page->insns[idx];
}

/* ---- faults ---- */

static bell_status
status_of(enum amd_wave_fault fault)
{
    if (fault == AMD_WAVE_HUNG || fault == AMD_WAVE_STOPPED)
        return BELL_E_TIMEOUT;
    return fault == AMD_WAVE_BAD_LAUNCH ? BELL_E_INVALID : BELL_E_DEVICE_LOST;
}

bool
wave_fail(struct wave *w, enum amd_wave_fault fault, const char *fmt, ...)
{
    struct wave_group *g = w->group;
    char text[200];
    va_list args;
    bell_status status;

    assert(fault != AMD_WAVE_OK);
    if (g->failed)
        return false;
    g->failed = true;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    g->report->fault = fault;
    g->report->pc = w->insn_pc;
    memcpy(g->report->group, g->id, sizeof(g->id));
    g->report->wave = w->number;
    status = bell_fail(status_of(fault),
                       "at 0x%llx, %lld bytes into the kernel, group "
                       "%u,%u,%u, wave %u, lane %u: %s",
                       (unsigned long long)w->insn_pc,
                       (long long)(w->insn_pc - g->launch->pc), g->id[0],
                       g->id[1], g->id[2], w->number, g->report->lane, text);
    (void)status;
    return false;
}

bool
wave_has_registers(struct wave *w, uint32_t reg, uint32_t n)
{
    const struct wave_group *g = w->group;

    assert(n > 0);
    if (reg >= ACC_FIRST ? reg - ACC_FIRST + n <= g->n_acc
                         : reg + n <= g->n_vgprs)
        return true;
    return wave_fail(w, AMD_WAVE_RANGE,
                     "vector register %u; the kernel was given %u and %u for "
                     "accumulation",
                     reg + n - 1, g->n_vgprs, g->n_acc);
}

const uint32_t *
wave_read(struct wave *w, const struct isa_insn *in, uint32_t code,
          wave_row buf)
{
    uint32_t value, l;

    if (code >= ISA_VGPR && code < 0x10000) {
        if (!wave_has_registers(w, code - ISA_VGPR, 1))
            return buf;
        return w->v[code - ISA_VGPR];
    }
    value = wave_read_scalar(w, in, code);
    for (l = 0; l < w->group->n_lanes; l++)
        buf[l] = value;
    return buf;
}

/* ---- first state ---- */

/* Registers of a wave and of AGPRs from the launch words. */
static void
count_registers(struct wave_group *g)
{
    uint32_t granules = (g->launch->rsrc1 & 63) + 1, total;

    if (isa_has_one_file(g->gen)) {
        total = granules * 8;
        g->n_vgprs = ((g->launch->rsrc3 & 63) + 1) * 4;
        if (g->n_vgprs > total)
            g->n_vgprs = total;
        g->n_acc = total - g->n_vgprs;
    } else {
        g->n_vgprs = granules * isa_register_granule(g->gen, g->n_lanes == 32);
        g->n_acc = g->gen == ISA_GFX908 ? g->n_vgprs : 0;
    }
    if (g->n_vgprs > 256)
        g->n_vgprs = 256;
    if (g->n_acc > 256)
        g->n_acc = 256;
}

static bell_status
bad_wave_launch(struct wave_group *g, const char *what)
{
    g->failed = true;
    g->report->fault = AMD_WAVE_BAD_LAUNCH;
    return bell_fail(BELL_E_INVALID, "dispatch at 0x%llx: %s",
                     (unsigned long long)g->launch->pc, what);
}

static bell_status
check_wave_launch(struct wave_group *g)
{
    const struct amd_launch *d = g->launch;
    uint64_t threads = 1;
    int i;

    for (i = 0; i < 3; i++) {
        if (d->grid[i] == 0 || d->local[i] == 0 || d->local[i] > 1024)
            return bad_wave_launch(g,
                                   "a size of 0, or a group of more than 1024");
        threads *= d->local[i];
    }
    if (threads > 1024)
        return bad_wave_launch(g, "a group of more than 1024 work-items");
    if (d->wave32 && isa_is_gfx9(g->gen))
        return bad_wave_launch(g, "waves of 32 on gfx9");
    if ((d->rsrc2 >> 1 & 31) > 16)
        return bad_wave_launch(g, "more than 16 user registers");
    return BELL_OK;
}

static bell_status
make_wave_group(struct wave_group *g)
{
    const struct amd_launch *d = g->launch;
    uint32_t threads = d->local[0] * d->local[1] * d->local[2], i;
    size_t scratch = (size_t)d->scratch_bytes * g->n_lanes + 1;

    g->n_waves = (threads + g->n_lanes - 1) / g->n_lanes;
    g->lds_bytes = (d->rsrc2 >> 15 & 0x1ff) * 512;
    g->lds = host_alloc(g->lds_bytes + 1);
    g->waves = host_calloc(g->n_waves, sizeof(*g->waves));
    if (!g->lds || !g->waves)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a work-group");
    for (i = 0; i < g->n_waves; i++) {
        struct wave *w = &g->waves[i];
        w->group = g;
        w->number = i;
        w->v = host_alloc((ACC_FIRST + g->n_acc) * sizeof(*w->v));
        if (isa_has_scratch_buffer(g->gen))
            scratch = 0;
        w->scratch = scratch ? host_alloc(scratch) : NULL;
        if (!w->v || (scratch && !w->scratch))
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for a wave");
    }
    return BELL_OK;
}

static void
free_group(struct wave_group *g)
{
    uint32_t i;

    for (i = 0; g->waves && i < g->n_waves; i++) {
        host_free(g->waves[i].v);
        host_free(g->waves[i].scratch);
    }
    host_free(g->waves);
    host_free(g->lds);
}

static void
poison_registers(wave_row *v, uint32_t n)
{
    uint32_t i;

    for (i = 0; n && i < WAVE_LANES_MAX; i++)
        v[0][i] = REGISTER_POISON;
    for (i = 1; i < n; i++)
        memcpy(v[i], v[0], sizeof(*v));
}

static void
start_vector(struct wave *w)
{
    const struct amd_launch *d = w->group->launch;
    uint32_t l, n_lanes = w->group->n_lanes;
    uint32_t threads = d->local[0] * d->local[1] * d->local[2];
    uint32_t components = d->rsrc2 >> 11 & 3;
    uint64_t exec = 0;

    poison_registers(w->v, w->group->n_vgprs);
    poison_registers(w->v + ACC_FIRST, w->group->n_acc);
    for (l = 0; l < n_lanes; l++) {
        uint32_t id = w->number * n_lanes + l;
        uint32_t x = id % d->local[0], y = id / d->local[0] % d->local[1];
        uint32_t z = id / d->local[0] / d->local[1];
        if (id >= threads)
            continue;
        exec |= 1ull << l;
        /* y and z are there only if the kernel asks for them */
        if (!isa_has_one_file(w->group->gen) && w->group->gen < ISA_GFX11) {
            w->v[0][l] = x;
            if (components >= 1 && w->group->n_vgprs > 1)
                w->v[1][l] = y;
            if (components >= 2 && w->group->n_vgprs > 2)
                w->v[2][l] = z;
            continue;
        }
        w->v[0][l] = x | (components >= 1 ? y << 10 : 0) |
                     (components >= 2 ? z << 20 : 0);
    }
    w->s[ISA_EXEC_LO] = (uint32_t)exec;
    w->s[ISA_EXEC_LO + 1] = (uint32_t)(exec >> 32);
}

/* Waves of a group that has a pair of units are on both of them. */
static uint32_t
unit_of(const struct wave *w)
{
    const struct wave_group *g = w->group;
    uint32_t n = g->launch->n_cus, pair, side;

    if (n < 2)
        return 0;
    if (isa_is_gfx9(g->gen))
        return g->turn % n;
    pair = g->turn % (n / 2);
    side = g->turn / (n / 2);
    if (g->launch->rsrc1 >> 29 & 1)
        side += w->number;
    return 2 * pair + side % 2;
}

/* The group's number: behind the user's registers, or from gfx12 on in trap
 * temporaries 9 and 7. Then where in the scratch buffer the wave's part is.
 * src: docs/hardware/amd-code.md, "Start of a wave" */
static void
start_scalar(struct wave *w)
{
    const struct wave_group *g = w->group;
    const struct amd_launch *d = g->launch;
    uint32_t i, n = d->rsrc2 >> 1 & 31, asked = d->rsrc2 >> 7 & 7, share;

    memcpy(w->s, d->user_data, n * sizeof(*w->s));
    if (g->gen == ISA_GFX12) {
        if (asked & 1)
            w->s[ISA_TTMP + 9] = g->id[0];
        if (asked & 6)
            w->s[ISA_TTMP + 7] =
                (asked & 2 ? g->id[1] & 0xffff : 0) | g->id[2] << 16;
        return;
    }
    for (i = 0; i < 3; i++) {
        if (asked >> i & 1)
            w->s[n++] = g->id[i];
    }
    if (d->rsrc2 >> 10 & 1)
        n++; /* what is said of the group is left undefined */
    if (isa_has_scratch_buffer(g->gen) && d->rsrc2 & 1 && d->scratch_waves) {
        share = (g->turn * g->n_waves + w->number) % d->scratch_waves;
        w->s[n] = share * d->scratch_wave_bytes;
    }
}

static void
start_wave(struct wave *w)
{
    const struct amd_launch *d = w->group->launch;
    uint32_t i;

    assert(w->number < w->group->n_waves);
    for (i = 0; i < 128; i++)
        w->s[i] = REGISTER_POISON;
    start_scalar(w);
    w->m0 = REGISTER_POISON;
    w->scc = 0;
    w->pc = d->pc;
    w->state = WAVE_RUNS;
    w->has_begun = false;
    w->barrier = WAVE_NOT_SIGNALLED;
    w->mode = d->rsrc1 >> 12 & 0xff;
    w->flat = 0;
    w->cu = unit_of(w);
    if (w->scratch)
        memset(w->scratch, 0xcb, (size_t)d->scratch_bytes * w->group->n_lanes);
    start_vector(w);
}

/* ---- turns ---- */

static bool
execute(struct wave *w, const struct isa_insn *in)
{
    switch ((enum isa_format)in->format) {
    case ISA_SOP1:
    case ISA_SOP2:
    case ISA_SOPC:
    case ISA_SOPK:
    case ISA_SOPP:
        return wave_salu(w, in);
    case ISA_SMEM:
        return wave_smem(w, in);
    case ISA_VOP1:
    case ISA_VOP2:
    case ISA_VOPC:
    case ISA_VOP3:
    case ISA_VOPD:
        if (in->op == ISA_S_NOP)
            return true;
        return wave_valu(w, in);
    case ISA_VOP3P:
        return wave_packed(w, in);
    case ISA_DS:
        return wave_ds(w, in);
    case ISA_FLAT:
        return wave_flat(w, in);
    case ISA_MUBUF:
        if (in->op == ISA_M_CACHE)
            return wave_cache(w, in);
        return wave_buffer(w, in);
    case ISA_FORMAT_COUNT:
        break;
    }
    return wave_fail(w, AMD_WAVE_ILLEGAL, "%s", isa_op_name(in->op));
}

static bool
may_wave_go_on(struct wave *w)
{
    const struct amd_launch *d = w->group->launch;

    if (d->stop && atomic_load_explicit(d->stop, memory_order_relaxed))
        return wave_fail(w, AMD_WAVE_STOPPED, "stopped");
    if (d->max_insns && w->group->report->n_insns >= d->max_insns)
        return wave_fail(w, AMD_WAVE_HUNG, "%llu instructions were run",
                         (unsigned long long)d->max_insns);
    return true;
}

/* Runs a wave until it ends, waits, or its turn is over. */
static bool
take_turn(struct wave *w)
{
    struct amd_wave_report *report = w->group->report;
    const struct amd_memory *memory = &w->group->launch->memory;
    int i;

    assert(w->state == WAVE_RUNS);
    w->page = NULL; /* it may have been forgotten since */
    if (!may_wave_go_on(w))
        return false;
    if (memory->turn)
        memory->turn(memory->user, w->cu);
    if (__builtin_expect(w->group->is_stepped, 0) && !w->has_begun)
        wave_step_begin(w);
    w->has_begun = true;
    for (i = 0; i < TURN_INSNS && w->state == WAVE_RUNS; i++) {
        const struct isa_insn *in;

        w->insn_pc = w->pc;
        in = wave_fetch(w);
        if (!in)
            return false;
        if (__builtin_expect(w->group->is_stepped, 0))
            wave_step_insn(w, in);
        w->pc += 4ull * in->n_dw;
        report->n_insns++;
        if (in->format >= ISA_VOP1)
            report->n_lane_ops += (uint64_t)__builtin_popcountll(wave_exec(w));
        if (!execute(w, in))
            return false;
        if (__builtin_expect(w->group->counts != NULL, 0))
            wave_count_insn(w, in);
    }
    return true;
}

static uint64_t
next_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15ull;
    return hash_mix(*seed);
}

/* All that have not ended wait, or have signalled: the barrier opens. */
static void
open_group_barrier(struct wave_group *g)
{
    bool split = g->gen == ISA_GFX12;
    uint32_t i;

    for (i = 0; i < g->n_waves; i++) {
        const struct wave *w = &g->waves[i];

        if (split ? w->state != WAVE_ENDED && w->barrier != WAVE_SIGNALLED
                  : w->state == WAVE_RUNS)
            return;
    }
    for (i = 0; i < g->n_waves; i++) {
        if (g->counts && g->waves[i].state == WAVE_AT_BARRIER) {
            g->counts->sum.n_barriers++;
            break;
        }
    }
    for (i = 0; i < g->n_waves; i++) {
        g->waves[i].barrier = split && g->waves[i].state == WAVE_RUNS
                                  ? WAVE_MAY_PASS
                                  : WAVE_NOT_SIGNALLED;
        if (g->waves[i].state == WAVE_AT_BARRIER)
            g->waves[i].state = WAVE_RUNS;
    }
}

static bool
run_group(struct wave_group *g, uint64_t *seed)
{
    uint32_t i, n_live = g->n_waves;

    assert(g->n_waves > 0);
    memset(g->lds, 0xcb, g->lds_bytes);
    for (i = 0; i < g->n_waves; i++)
        start_wave(&g->waves[i]);
    while (n_live) {
        uint32_t first = (uint32_t)(next_random(seed) % g->n_waves);
        n_live = 0;
        for (i = 0; i < g->n_waves; i++) {
            struct wave *w = &g->waves[(first + i) % g->n_waves];
            if (w->state == WAVE_RUNS && !take_turn(w))
                return false;
            n_live += w->state != WAVE_ENDED;
        }
        open_group_barrier(g);
    }
    return true;
}

static bool
run_dispatch_groups(struct wave_group *g)
{
    const struct amd_launch *d = g->launch;
    uint64_t n = (uint64_t)d->grid[0] * d->grid[1] * d->grid[2];
    uint64_t group_step = d->group_step ? d->group_step : 1, n_own, n_run, i;
    uint64_t seed = d->seed, step = 1, at = 0, most;
    struct wave_counts counts;

    n_own = n > d->first_group ? div_up(n - d->first_group, group_step) : 0;
    n_run = n_own;
    if (sim_count_on(&most)) {
        memset(&counts, 0, sizeof(counts));
        g->counts = &counts;
        counts.sum.n_groups = n_own;
        most = div_up(most, group_step); /* of each die's */
        step = sim_count_step(n_own, most, &n_run);
        at = n_run < n_own ? d->first_group * step % n_own : 0;
    }
    g->turn = (uint32_t)next_random(&seed);
    for (; n_run; n_run--, at = (at + step) % n_own) {
        i = d->first_group + at * group_step;
        g->id[0] = (uint32_t)(i % d->grid[0]);
        g->id[1] = (uint32_t)(i / d->grid[0] % d->grid[1]);
        g->id[2] = (uint32_t)(i / d->grid[0] / d->grid[1]);
        if (!run_group(g, &seed))
            return false;
        g->turn++;
        if (g->counts)
            counts.sum.n_groups_run++;
    }
    if (g->counts)
        sim_count_add(&counts.sum);
    return true;
}

bell_status
amd_wave_run(struct amd_code *code, const struct amd_launch *launch,
             struct amd_wave_report *out_report)
{
    struct wave_group g = {
        .launch = launch, .report = out_report, .code = code, .gen = code->gen};
    bell_status status;

    memset(out_report, 0, sizeof(*out_report));
    g.n_lanes = launch->wave32 ? 32 : 64;
    g.all_lanes = launch->wave32 ? UINT32_MAX : UINT64_MAX;
    count_registers(&g);
    g.is_stepped = launch->memory.peek && (sim_step_wants(SIM_STOP_WAVE) ||
                                           sim_step_wants(SIM_STOP_INSN));
    status = check_wave_launch(&g);
    if (status == BELL_OK)
        status = make_wave_group(&g);
    if (status == BELL_OK) {
        count_run(code, 1);
        if (!run_dispatch_groups(&g))
            status = bell_error_last()->status;
        count_run(code, -1);
    }
    free_group(&g);
    return status;
}
