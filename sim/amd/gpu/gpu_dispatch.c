/* Launches: from registers, or an AQL packet and a kernel descriptor, to the
 * interpreter; and AQL queues. src: docs/hardware/amd-queues.md, "Launch",
 * "AQL", "Scratch"; docs/hardware/amd-kernel.md, "AQL queues", "Simulated
 * rules"; docs/hardware/amd-code.md, "Kernel descriptor", "Start of a wave". */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/sim_step.h"
#include "sim/amd/gpu/gpu_internal.h"

/* Absolute numbers. src: docs/hardware/amd-queues.md, "Launch" */
enum {
    REG_START = 0x2e04,
    REG_NUM_THREAD = 0x2e07,
    REG_PGM_LO = 0x2e0c,
    REG_PGM_HI = 0x2e0d,
    REG_SCRATCH_LO = 0x2e10,
    REG_RSRC1 = 0x2e12,
    REG_RSRC2 = 0x2e13,
    REG_TMPRING = 0x2e18,
    REG_RSRC3_GFX10 = 0x2e28,
    REG_RSRC3_GFX9 = 0x2e2d,
    REG_USER_DATA = 0x2e40
};

static uint32_t
reg(const struct amdsim_queue *q, uint32_t number)
{
    return q->sh[q->xcc][number - SH_FIRST];
}

/* Memory of kernels, without the card's own faults: the interpreter tells. */
static void *
kernel_at(void *user, uint64_t va, uint32_t n_bytes, enum amd_access access)
{
    struct amdsim_queue *q = user;
    uint64_t n;
    uint32_t flags;
    void *at;

    assert(n_bytes > 0 && n_bytes <= 64);
    if (q->dump.folder && !amdsim_dump_kernel_end(q))
        return NULL;
    (void)sim_walk_pause(&q->walk);
    at = sim_walk_span(&q->walk, va, &n, &flags);
    if (!at || n < n_bytes)
        return NULL;
    if (access == AMD_ACCESS_FETCH && !(flags & SIM_PAGE_EXECUTABLE))
        return NULL;
    if (amd_access_writes(access) && flags & SIM_PAGE_READ_ONLY)
        return NULL;
    if (SIM_PAGE_OWNER(flags) >= 0)
        amdsim_count(q, va, n_bytes, SIM_LINK_KERNEL,
                     amd_access_writes(access));
    if (q->cache[q->xcc])
        at = amdsim_cache_at(q->cache[q->xcc], &q->walk, va, at, n_bytes, flags,
                             access);
    if (q->dump.folder && amd_access_writes(access) &&
        !amdsim_dump_kernel(q, va, at, n_bytes))
        return NULL;
    if (amd_access_writes(access))
        q->last_va = va;
    return at;
}

static void
kernel_turn(void *user, uint32_t cu)
{
    struct amdsim_queue *q = user;

    if (q->cache[q->xcc])
        amdsim_cache_turn(q->cache[q->xcc], cu);
}

static void
kernel_fence(void *user, uint32_t ops)
{
    struct amdsim_queue *q = user;

    (void)amdsim_dump_kernel_end(q); /* a fault ends the next access */
    if (q->cache[q->xcc])
        amdsim_cache_do_own(q->cache[q->xcc], &q->walk, ops);
}

static bool
kernel_failed(struct amdsim_queue *q, const struct amd_wave_report *r)
{
    uint64_t n;
    uint32_t flags;
    uint64_t va = r->fault == AMD_WAVE_FETCH ? r->pc : r->va;
    void *at;

    if (r->fault == AMD_WAVE_STOPPED)
        return false;
    if (r->fault == AMD_WAVE_UNMAPPED || r->fault == AMD_WAVE_FETCH) {
        at = sim_walk_span(&q->walk, va, &n, &flags);
        return amdsim_fail_memory(q, va, r->is_write, flags, at != NULL,
                                  bell_error_last()->message);
    }
    return amdsim_fail(q, "%s", bell_error_last()->message);
}

/* Which groups of a launch are this die's: all, where none are dealt out.
 * src: docs/hardware/amd-queues.md, "Several dies" */
static bool
take_share(struct amdsim_queue *q, struct amd_launch *launch)
{
    uint32_t n_xcc = q->gpu->chip->n_xcc;
    uint32_t chunk = q->sh[q->xcc][SH_CHUNK];
    uint32_t number = q->sh[q->xcc][SH_LOGIC_XCC];

    assert(q->xcc < n_xcc);
    launch->first_group = 0;
    launch->group_step = 1;
    if (n_xcc == 1 || chunk == 0)
        return true;
    if (chunk > 1)
        return amdsim_fail(q, "TG_CHUNK_SIZE is %u: only 1 is simulated",
                           chunk);
    if (number >= n_xcc)
        return amdsim_fail(q, "die %u of %u", number, n_xcc);
    launch->first_group = number;
    launch->group_step = n_xcc;
    return true;
}

static bool
peek(void *user, uint64_t va, void *out, uint32_t n_bytes)
{
    return amdsim_peek(user, va, out, n_bytes);
}

/* Runs the share of q->xcc. */
static bool
run_dispatch(struct amdsim_queue *q, struct amd_launch *launch)
{
    struct amd_wave_report report;

    if (!take_share(q, launch))
        return false;
    q->last_va = 0;
    launch->stop = &q->stop;
    launch->seed = q->seed++;
    launch->n_cus = AMDSIM_CACHE_CUS;
    launch->memory = (struct amd_memory){.at = kernel_at,
                                         .turn = kernel_turn,
                                         .fence = kernel_fence,
                                         .peek = peek,
                                         .user = q};
    amdsim_step_kernel(q, launch);
    if (amd_wave_run(q->gpu->code, launch, &report) != BELL_OK)
        return kernel_failed(q, &report);
    return amdsim_dump_kernel_end(q) &&
           (!q->last_va || amdsim_decay(q, q->last_va));
}

/* ---- by registers ---- */

static bool
check_initiator(struct amdsim_queue *q, uint32_t initiator)
{
    uint32_t known = q->gpu->chip->gfx == 9 ? 0x7 : 0x8007;

    if (initiator & ~known)
        return amdsim_fail(q, "initiator 0x%x: bits 0x%x", initiator,
                           initiator & ~known);
    if (!(initiator & 1) || !(initiator & 4))
        return amdsim_fail(q, "initiator 0x%x: not enabled, or no forced start",
                           initiator);
    return true;
}

/* What TMPRING_SIZE says: the waves there is room for, the bytes of one; a
 * lane's are a part of 64 also in waves of 32.
 * src: docs/hardware/amd.md, "Generations"; docs/hardware/amd-queues.md,
 * "Scratch" */
static bool
take_scratch(struct amdsim_queue *q, uint32_t tmpring,
             struct amd_launch *launch)
{
    const struct amdsim_chip *chip = q->gpu->chip;
    uint32_t granule_bytes = chip->gfx >= 11 ? 256 : 1024;
    uint32_t bits = chip->gfx >= 12 ? 18 : chip->gfx >= 11 ? 15 : 13;
    uint32_t n_engines = chip->array_count / chip->simd_arrays_per_engine;

    if ((uint64_t)tmpring >> (12 + bits))
        return amdsim_fail(q, "TMPRING_SIZE 0x%08x: a size has %u bits",
                           tmpring, bits);
    launch->scratch_waves = tmpring & 0xfff;
    launch->scratch_wave_bytes = (tmpring >> 12) * granule_bytes;
    launch->scratch_bytes = launch->scratch_wave_bytes / 64;
    return chip->gfx != 10 || launch->scratch_waves % n_engines == 0 ||
           amdsim_fail(q, "scratch of %u waves for %u shader engines",
                       launch->scratch_waves, n_engines);
}

static bool
check_launch_scratch(struct amdsim_queue *q, const struct amd_launch *launch)
{
    uint64_t base = (uint64_t)reg(q, REG_SCRATCH_LO) << 8 |
                    (uint64_t)reg(q, REG_SCRATCH_LO + 1) << 40;
    uint64_t size =
        (uint64_t)launch->scratch_waves * launch->scratch_wave_bytes;
    uint64_t n;
    uint32_t flags, i;

    if (!(launch->rsrc2 & 1))
        return true;
    if (launch->scratch_bytes == 0 || launch->scratch_waves == 0)
        return amdsim_fail(q, "the kernel needs scratch, and TMPRING_SIZE "
                              "gives none");
    if (isa_has_scratch_buffer(q->gpu->chip->isa))
        return true; /* it has the address, in its registers */
    if (!sim_walk_span(&q->walk, base, &n, &flags))
        return amdsim_fail(q, "scratch at 0x%llx is not mapped",
                           (unsigned long long)base);
    for (i = 0; i < q->gpu->chip->n_xcc && q->sh[q->xcc][SH_CHUNK]; i++) {
        uint64_t other = (uint64_t)q->sh[i][REG_SCRATCH_LO - SH_FIRST] << 8 |
                         (uint64_t)q->sh[i][REG_SCRATCH_LO + 1 - SH_FIRST]
                             << 40;

        if (i != q->xcc && (other - base < size || base - other < size))
            return amdsim_fail(q, "scratch at 0x%llx: die %u has its own there",
                               (unsigned long long)base, i);
    }
    return true;
}

/* A group has to have room where it runs: on a compute unit, or from gfx10 on
 * two of them if the kernel says so (RSRC1.WGP_MODE). A card would never start
 * it, and hang. Granules of the allocation beyond those of RSRC1 are not
 * counted. src: docs/hardware/amd.md, "Generations";
 * docs/hardware/amd-kernel.md, "Topology"; docs/hardware/amd-code.md,
 * "Kernel descriptor". */
static bool
check_group(struct amdsim_queue *q, const struct amd_launch *launch)
{
    const struct amdsim_chip *chip = q->gpu->chip;
    uint32_t lanes = launch->wave32 ? 32 : 64, bytes, n_vgprs, n_simds, each;
    uint64_t threads = 1, waves;
    uint32_t i;

    for (i = 0; i < 3; i++)
        threads *= launch->local[i];
    waves = (threads + lanes - 1) / lanes;
    bytes = (launch->rsrc2 >> 15 & 0x1ff) * 512;
    if (bytes > chip->lds_kib * 1024)
        return amdsim_fail(q, "%u bytes of LDS; the chip has %u KiB", bytes,
                           chip->lds_kib);
    if (launch->rsrc2 & 1 && isa_has_scratch_buffer(chip->isa) &&
        waves > launch->scratch_waves)
        return amdsim_fail(q, "a group of %llu waves, and scratch for %u",
                           (unsigned long long)waves, launch->scratch_waves);
    n_vgprs = ((launch->rsrc1 & 63) + 1) *
              isa_register_granule(chip->isa, launch->wave32);
    each = chip->vgpr_bytes / chip->simd_per_cu / (lanes * 4) / n_vgprs;
    if (each > chip->max_waves_per_simd)
        each = chip->max_waves_per_simd;
    n_simds = chip->simd_per_cu;
    if (chip->gfx > 9 && launch->rsrc1 >> 29 & 1)
        n_simds *= 2;
    return waves <= (uint64_t)n_simds * each ||
           amdsim_fail(q,
                       "a group of %llu waves with %u vector registers each; "
                       "it may have %u SIMDs, which hold %u waves each",
                       (unsigned long long)waves, n_vgprs, n_simds, each);
}

bool
amdsim_dispatch(struct amdsim_queue *q, const uint32_t grid[3],
                uint32_t initiator)
{
    bool gfx9 = q->gpu->chip->gfx == 9;
    struct amd_launch launch = {
        .pc = (uint64_t)reg(q, REG_PGM_LO) << 8 | (uint64_t)reg(q, REG_PGM_HI)
                                                      << 40,
        .rsrc1 = reg(q, REG_RSRC1),
        .rsrc2 = reg(q, REG_RSRC2),
        .rsrc3 = reg(q, gfx9 ? REG_RSRC3_GFX9 : REG_RSRC3_GFX10),
        .wave32 = !gfx9 && initiator >> 15,
    };
    uint32_t i;

    assert(q->xcc < AMDSIM_MAX_XCC);
    if (!check_initiator(q, initiator) ||
        !take_scratch(q, reg(q, REG_TMPRING), &launch))
        return false;
    for (i = 0; i < 3; i++) {
        if (reg(q, REG_START + i))
            return amdsim_fail(q, "start %u is %u", i, reg(q, REG_START + i));
        launch.grid[i] = grid[i];
        launch.local[i] = reg(q, REG_NUM_THREAD + i) & 0xffff;
        if (reg(q, REG_NUM_THREAD + i) >> 16)
            return amdsim_fail(q, "a partial group of %u",
                               reg(q, REG_NUM_THREAD + i) >> 16);
    }
    if (launch.rsrc1 >> 20 & 1 && q->gpu->chip->gfx != 11)
        return amdsim_fail(q, "RSRC1.PRIV on a chip of gfx%u",
                           q->gpu->chip->gfx);
    for (i = 0; i < 16; i++)
        launch.user_data[i] = reg(q, REG_USER_DATA + i);
    return check_launch_scratch(q, &launch) && check_group(q, &launch) &&
           run_dispatch(q, &launch);
}

/* ---- AQL ---- */

/* What a queue's structure says of scratch: TMPRING_SIZE, a buffer's
 * descriptor, whose index stride the command processor fills in from gfx10 on,
 * and the address. src: docs/hardware/amd-kernel.md, "AQL queues";
 * docs/hardware/amd-queues.md, "Scratch" */
struct queue_scratch {
    uint32_t tmpring, buffer[4];
    uint64_t va;
};

static bool
read_queue_scratch(struct amdsim_queue *q, bool wave32,
                   struct queue_scratch *out)
{
    uint64_t va = (q->desc.rptr_va & ~0xfffull) + 140;
    uint32_t words[7];

    if (!amdsim_read(q, va, words, sizeof(words), "queue structure"))
        return false;
    out->tmpring = words[0];
    memcpy(out->buffer, words + 1, sizeof(out->buffer));
    out->va = words[5] | (uint64_t)words[6] << 32;
    if (q->gpu->chip->gfx >= 10)
        out->buffer[3] = (out->buffer[3] & ~(3u << 21)) | (wave32 ? 2u : 3u)
                                                              << 21;
    return true;
}

/* User registers as kernel_code_properties asks for them, in this order. */
static bool
fill_user_data(struct amdsim_queue *q, const struct amdsim_aql_launch *aql,
               uint32_t properties, struct amd_launch *launch)
{
    uint64_t queue_va = q->desc.rptr_va & ~0xfffull;
    struct queue_scratch scratch = {0};
    uint32_t n = 0, i;

    if (properties & ~0x47fu)
        return amdsim_fail(q, "code properties 0x%x", properties);
    if (properties & 0x21 || isa_has_scratch_buffer(q->gpu->chip->isa)) {
        uint32_t lane_bytes = launch->scratch_bytes;

        if (!read_queue_scratch(q, launch->wave32, &scratch) ||
            !take_scratch(q, scratch.tmpring, launch))
            return false;
        if (launch->scratch_bytes < lane_bytes)
            return amdsim_fail(q, "TMPRING_SIZE gives %u bytes of scratch",
                               launch->scratch_bytes);
        launch->scratch_bytes = lane_bytes;
    }
    const struct {
        uint32_t bit, n;
        uint64_t value[2];
    } parts[] = {
        {1u << 0,
         4,
         {scratch.buffer[0] | (uint64_t)scratch.buffer[1] << 32,
          scratch.buffer[2] | (uint64_t)scratch.buffer[3] << 32}},
        {1u << 1, 2, {aql->packet_va}},
        {1u << 2, 2, {queue_va}},
        {1u << 3, 2, {aql->kernarg_va}},
        {1u << 4, 2, {0}},
        {1u << 5, 2, {scratch.va}},
        {1u << 6, 1, {launch->scratch_bytes}},
    };
    for (i = 0; i < ARRAY_LEN(parts); i++) {
        if (!(properties & parts[i].bit))
            continue;
        memcpy(launch->user_data + n, parts[i].value, 4 * parts[i].n);
        n += parts[i].n;
    }
    if ((launch->rsrc2 >> 1 & 31) < n)
        return amdsim_fail(q, "%u user registers, %u are needed",
                           launch->rsrc2 >> 1 & 31, n);
    return true;
}

/* What a packet's launch leaves in the registers of launches is its own. No
 * sources tell which; the kernel driver's stay. */
static void
forget_registers(struct amdsim_queue *q)
{
    uint32_t i;

    for (i = REG_START - SH_FIRST; i < REG_USER_DATA + 16 - SH_FIRST; i++) {
        if (i != SH_LOGIC_XCC && i != SH_CHUNK)
            q->sh[q->xcc][i] = 0xa5a5a5a5;
    }
}

bool
amdsim_dispatch_aql(struct amdsim_queue *q, const struct amdsim_aql_launch *aql)
{
    uint32_t kd[16], group, private, i;
    struct amd_launch launch = {0};
    int64_t entry;

    assert(q->xcc < AMDSIM_MAX_XCC);
    if (aql->descriptor_va & 63)
        return amdsim_fail(q, "kernel object at 0x%llx",
                           (unsigned long long)aql->descriptor_va);
    if (!amdsim_read(q, aql->descriptor_va, kd, sizeof(kd), "descriptor"))
        return false;
    group = kd[0];
    private = kd[1];
    memcpy(&entry, &kd[4], 8);
    launch.pc = aql->descriptor_va + (uint64_t)entry;
    launch.rsrc3 = kd[11];
    launch.rsrc1 = kd[12];
    launch.rsrc2 = kd[13];
    if (aql->group_bytes < group || aql->private_bytes < private)
        return amdsim_fail(q,
                           "%u bytes of LDS and %u of scratch; the kernel "
                           "needs %u and %u",
                           aql->group_bytes, aql->private_bytes, group,
                           private);
    launch.rsrc2 |= (aql->group_bytes + 511) / 512 << 15;
    launch.scratch_bytes = aql->private_bytes;
    launch.wave32 = (kd[14] & 0xffff) >> 10 & 1;
    for (i = 0; i < 3; i++) {
        if (aql->local[i] == 0 || aql->grid[i] % aql->local[i])
            return amdsim_fail(q, "%u work-items in groups of %u", aql->grid[i],
                               aql->local[i]);
        launch.local[i] = aql->local[i];
        launch.grid[i] = aql->grid[i] / aql->local[i];
    }
    if (!fill_user_data(q, aql, kd[14] & 0xffff, &launch) ||
        !check_group(q, &launch))
        return false;
    if (q->gpu->chip->n_xcc > 1 && q->sh[q->xcc][SH_CHUNK] != 1)
        return amdsim_fail(q, "TG_CHUNK_SIZE is %u, not the kernel driver's",
                           q->sh[q->xcc][SH_CHUNK]);
    forget_registers(q);
    return run_dispatch(q, &launch);
}

static bool
kernel_packet(struct amdsim_queue *q, uint64_t va, const uint32_t w[16])
{
    struct amdsim_aql_launch aql = {
        .packet_va = va,
        .descriptor_va = w[8] | (uint64_t)w[9] << 32,
        .kernarg_va = w[10] | (uint64_t)w[11] << 32,
        .local = {w[1] & 0xffff, w[1] >> 16, w[2] & 0xffff},
        .grid = {w[3], w[4], w[5]},
        .private_bytes = w[6],
        .group_bytes = w[7],
    };
    uint32_t queue_lane, n_dims, i;

    q->place.name = "AQL kernel dispatch";
    n_dims = w[0] >> 16;
    if (n_dims == 0 || n_dims > 3 || w[2] >> 16 || w[12] || w[13])
        return amdsim_fail_packet(
            q, EXCEPTION_DIM, "setup 0x%x, or reserved words are set", n_dims);
    for (i = n_dims; i < 3; i++) {
        if (aql.grid[i] != 1 || aql.local[i] != 1)
            return amdsim_fail(q, "%u dimensions, the next has %u in %u",
                               n_dims, aql.grid[i], aql.local[i]);
    }
    /* scratch_wave64_lane_byte_size of the queue structure */
    if (!amdsim_read(q, (q->desc.rptr_va & ~0xfffull) + 176, &queue_lane, 4,
                     "queue structure"))
        return false;
    if (aql.private_bytes > queue_lane)
        return amdsim_fail(q, "%u bytes of scratch, the queue has %u",
                           aql.private_bytes, queue_lane);
    return amdsim_dispatch_aql(q, &aql);
}

/* The indirect buffer that it names. */
static bool
vendor_packet(struct amdsim_queue *q, const uint32_t w[16],
              struct amdsim_buffer *out_buffer)
{
    q->place.name = "AQL vendor packet";
    if (w[0] >> 16 != 1)
        return amdsim_fail_packet(q, EXCEPTION_VENDOR, "format %u", w[0] >> 16);
    if (w[1] != 0xC0023F00 || w[5] != 10)
        return amdsim_fail(q, "words 0x%08x and %u", w[1], w[5]);
    if (!(w[4] >> 23 & 1))
        return amdsim_fail(q, "the indirect buffer is not valid");
    *out_buffer = (struct amdsim_buffer){
        .va = w[2] | (uint64_t)w[3] << 32,
        .n_dw = w[4] & 0xfffff,
    };
    return true;
}

/* ---- signals. src: HSA runtime 1.2, 2.4 and amd_hsa_signal.h ---- */

#define SIGNAL_VALUE   8u
#define SIGNAL_MAILBOX 16u
#define SIGNAL_EVENT   24u
#define SIGNAL_START   32u
#define SIGNAL_END     40u

/* Whether all five signals of the packet are 0, or one is; a packet that has
 * none waits for nothing. */
static enum amdsim_step
barrier_packet(struct amdsim_queue *q, const uint32_t w[16], bool any)
{
    uint32_t i, n_done = 0, n_signals = 0, value[2];

    q->place.name = any ? "AQL barrier-or" : "AQL barrier-and";
    if (w[0] >> 16 || w[1] || w[12] || w[13]) {
        (void)amdsim_fail(q, "reserved words are set");
        return AMDSIM_STEP_FAILED;
    }
    for (i = 0; i < 5; i++) {
        uint64_t signal = w[2 + 2 * i] | (uint64_t)w[3 + 2 * i] << 32;

        if (!signal)
            continue;
        if (!amdsim_read(q, signal + SIGNAL_VALUE, value, 8, "signal"))
            return AMDSIM_STEP_FAILED;
        n_signals++;
        n_done += !value[0] && !value[1];
    }
    if (n_done == n_signals || (any && n_done))
        return AMDSIM_STEP_DONE;
    return AMDSIM_STEP_WAITS;
}

/* One less in the packet's completion signal; its event is told. */
static bool
complete_dispatch(struct amdsim_queue *q, uint64_t packet_va)
{
    uint64_t signal, mailbox, *value;
    uint32_t event;

    if (!amdsim_read(q, packet_va + 56, &signal, 8, "packet"))
        return false;
    if (!signal)
        return true;
    q->place = (struct amdsim_place){packet_va, "AQL packet"};
    if (signal & 63)
        return amdsim_fail(q, "completion signal at 0x%llx",
                           (unsigned long long)signal);
    if (!amdsim_store64(q, signal + SIGNAL_START, q->dies[0].start, "signal") ||
        !amdsim_store64(q, signal + SIGNAL_END, amdsim_clock(q->gpu),
                        "signal") ||
        !amdsim_read(q, signal + SIGNAL_MAILBOX, &mailbox, 8, "signal") ||
        !amdsim_read(q, signal + SIGNAL_EVENT, &event, 4, "signal"))
        return false;
    value = amdsim_at(q, signal + SIGNAL_VALUE, 8, true, "signal");
    if (!value)
        return false;
    __atomic_sub_fetch(value, 1, __ATOMIC_ACQ_REL);
    if (!mailbox)
        return true;
    if (!amdsim_store64(q, mailbox, event, "event mailbox"))
        return false;
    q->desc.interrupt(q->desc.user, event);
    return true;
}

/* Waits until the packet's header is written; false when the queue ends. */
static bool
wait_for_packet(struct amdsim_queue *q, uint64_t va, uint32_t *out_header)
{
    uint32_t turns = 0;

    for (;;) {
        if (!amdsim_load32(q, va, out_header, "packet header"))
            return false;
        if ((*out_header & 0xff) != 1)
            return true;
        if (!amdsim_pause(q, &turns))
            return false;
    }
}

/* A die begins the next packet, or goes on with it. */
static enum amdsim_step
run_aql_packet(struct amdsim_queue *q, struct amdsim_die *die)
{
    uint32_t w[16], header, n_xcc = q->gpu->chip->n_xcc;
    uint64_t va = q->desc.ring_va + die->get % (q->desc.ring_bytes / 64) * 64;
    enum amdsim_step step = AMDSIM_STEP_DONE;

    q->place = (struct amdsim_place){va, "AQL packet"};
    if (!wait_for_packet(q, va, &header) ||
        !amdsim_read(q, va, w, sizeof(w), "packet"))
        return AMDSIM_STEP_FAILED;
    if (!die->in_buffer)
        amdsim_step_packet(q, SIM_WORDS_AQL, header, w + 1, ARRAY_LEN(w));
    if (!die->in_buffer)
        amdsim_do_cache(q, amdsim_cache_aql_acquire(header, n_xcc));
    switch (header & 0xff) {
    case 0:
        if (!die->in_buffer && !vendor_packet(q, w, &die->buffer))
            return AMDSIM_STEP_FAILED;
        step = amdsim_pm4_buffer(q, &die->buffer);
        die->in_buffer = step == AMDSIM_STEP_WAITS;
        break;
    case 2:
        die->start = amdsim_clock(q->gpu);
        if (!kernel_packet(q, va, w))
            return AMDSIM_STEP_FAILED;
        die->n_launched = die->get + 1;
        break;
    case 3:
    case 5:
        step = barrier_packet(q, w, (header & 0xff) == 5);
        if (step == AMDSIM_STEP_DONE)
            die->n_launched = die->get + 1;
        break;
    default:
        (void)amdsim_fail_packet(q, EXCEPTION_UNSUPPORTED, "type %u",
                                 header & 0xff);
        return AMDSIM_STEP_FAILED;
    }
    if (step != AMDSIM_STEP_DONE)
        return step;
    amdsim_do_cache(q, amdsim_cache_aql_release(header, n_xcc));
    die->get++;
    return step;
}

/* A kernel dispatch is over when it is on all dies, and what is behind it waits
 * for that. A vendor packet is over on each die by itself. */
static bool
may_die_go_on(const struct amdsim_queue *q, const struct amdsim_die *die)
{
    uint32_t i;

    for (i = 0; i < q->gpu->chip->n_xcc; i++) {
        if (q->dies[i].get < die->n_launched)
            return false;
    }
    return true;
}

/* One packet of one die: of those that are farthest behind and do not wait any
 * of them. WAITS: all that may go on wait. */
static enum amdsim_step
run_a_die(struct amdsim_queue *q, uint64_t put)
{
    uint32_t n = q->gpu->chip->n_xcc, first = (uint32_t)(q->seed++ % n), i;
    uint64_t ahead, farthest = 0;

    for (i = 0; i < n; i++) {
        if (q->dies[i].get - q->get > farthest)
            farthest = q->dies[i].get - q->get;
    }
    for (ahead = 0; ahead <= farthest; ahead++) {
        for (i = 0; i < n; i++) { /* no die may count on an order */
            struct amdsim_die *die = &q->dies[(first + i) % n];
            enum amdsim_step step;

            if (die->get != q->get + ahead || die->get == put ||
                !may_die_go_on(q, die))
                continue;
            q->xcc = (first + i) % n;
            q->gives_way = true;
            step = run_aql_packet(q, die);
            q->gives_way = false;
            q->xcc = 0;
            if (step != AMDSIM_STEP_WAITS)
                return step;
        }
    }
    return AMDSIM_STEP_WAITS;
}

/* Packets that all dies are done with. */
static bool
retire_packets(struct amdsim_queue *q)
{
    uint64_t n = q->desc.ring_bytes / 64;
    uint32_t i;

    assert(q->desc.ring_bytes % 64 == 0);
    for (;;) {
        for (i = 0; i < q->gpu->chip->n_xcc; i++) {
            if (q->dies[i].get == q->get)
                return true;
        }
        if (!complete_dispatch(q, q->desc.ring_va + q->get % n * 64) ||
            !amdsim_store32(q, q->desc.ring_va + q->get % n * 64, 1,
                            "packet header"))
            return false;
        q->get++;
        if (!amdsim_store64(q, q->desc.rptr_va, q->get, "read index"))
            return false;
    }
}

bool
amdsim_aql_run(struct amdsim_queue *q, uint64_t put)
{
    uint32_t turns = 0, i;

    assert(q->desc.kind == AMDSIM_QUEUE_AQL);
    if (put < q->get || put - q->get > q->desc.ring_bytes / 64)
        return amdsim_fail(q, "write index %llu, read index %llu",
                           (unsigned long long)put, (unsigned long long)q->get);
    for (i = 0; i < q->gpu->chip->n_xcc; i++) /* where they ended */
        q->dies[i].get = q->get;
    while (q->get < put) {
        (void)sim_walk_pause(&q->walk);
        if (amdsim_ends(q))
            return false;
        switch (run_a_die(q, put)) {
        case AMDSIM_STEP_DONE:
            turns = 0;
            if (!retire_packets(q))
                return false;
            break;
        case AMDSIM_STEP_WAITS:
            if (!amdsim_pause(q, &turns))
                return false;
            break;
        case AMDSIM_STEP_FAILED:
        default:
            return false;
        }
    }
    return true;
}
