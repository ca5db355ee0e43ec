/* Launches of the simulated Adreno: from registers to a run of the shader.
 *
 * src: docs/hardware/adreno-queues.md, "Program state", "Private memory",
 * "Numbers of items", "Constants and descriptors", "Launch", "Occupancy"
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "sim/qcom/gpu/gpu_internal.h"

/* Shared, but where a pair says that 6xx and 7xx differ. */
#define SP_CS_CTRL_REG0   0xa9b0u
#define SP_CS_CTRL_REG1   0xa9b1u
#define SP_CS_FIRST_EXEC  0xa9b3u
#define SP_CS_OBJ_START   0xa9b4u
#define SP_CS_PVT_PARAM   0xa9b6u
#define SP_CS_PVT_ADDR    0xa9b7u
#define SP_CS_PVT_SIZE    0xa9b9u
#define SP_CS_CONFIG      0xa9bbu
#define SP_CS_INSTRLEN    0xa9bcu
#define SP_CS_PVT_STACK   0xa9bdu
#define SP_FS_INSTRLEN    0xab05u
#define SP_MODE_CONTROL   0xab00u
#define SP_PERFCTR_ENABLE 0xae0fu

#define MAX_INSNS (1ull << 25) /* of a work-group's waves: more is a hang */
#define MAX_UNITS 8192u        /* of code */

/* Ranges that streams may write. src: docs/hardware/adreno-queues.md,
 * "Program state"; docs/hardware/adreno.md, "Static registers" */
struct reg_range {
    uint32_t first, last, gens;
};

static const struct reg_range ranges[] = {
    {0x0ce2, 0x0ce7, SHADER_A7XX},
    {0x0e10, 0x0e11, SHADER_A7XX},
    {0x0e12, 0x0e12, SHADER_A6XX | SHADER_A7XX},
    {0x0e17, 0x0e17, SHADER_A7XX},
    {0x0e19, 0x0e19, SHADER_A6XX | SHADER_A7XX},
    {0xa9b0, 0xa9b1, SHADER_A6XX | SHADER_A7XX},
    {0xa9b3, 0xa9bd, SHADER_A6XX | SHADER_A7XX},
    {0xa9be, 0xa9be, SHADER_A7XX},
    {0xa9c2, 0xa9c3, SHADER_A7XX},
    {0xa9c5, 0xa9c6, SHADER_A7XX},
    {0xa9cd, 0xa9cd, SHADER_A7XX},
    {0xa9d4, 0xa9df, SHADER_A7XX},
    {0xa9e2, 0xa9e3, SHADER_A6XX | SHADER_A7XX},
    {0xa9e6, 0xa9e7, SHADER_A6XX | SHADER_A7XX},
    {0xa9f2, 0xa9f3, SHADER_A6XX | SHADER_A7XX},
    {0xa9f8, 0xa9f9, SHADER_A7XX},
    {0xaa00, 0xaa00, SHADER_A6XX | SHADER_A7XX},
    {0xab00, 0xab00, SHADER_A6XX | SHADER_A7XX},
    {0xab01, 0xab02, SHADER_A7XX},
    {0xab05, 0xab05, SHADER_A6XX | SHADER_A7XX},
    {0xab1f, 0xab1f, SHADER_A7XX},
    {0xab22, 0xab22, SHADER_A7XX},
    {0xae00, 0xae00, SHADER_A6XX | SHADER_A7XX},
    {0xae03, 0xae04, SHADER_A6XX | SHADER_A7XX},
    {0xae06, 0xae06, SHADER_A7XX},
    {0xae08, 0xae0a, SHADER_A7XX},
    {0xae0f, 0xae0f, SHADER_A6XX | SHADER_A7XX},
    {0xae6a, 0xae6c, SHADER_A7XX},
    {0xae73, 0xae73, SHADER_A7XX},
    {0xb302, 0xb303, SHADER_A6XX | SHADER_A7XX},
    {0xb309, 0xb309, SHADER_A6XX | SHADER_A7XX},
    {0xb310, 0xb310, SHADER_A7XX},
    {0xb600, 0xb600, SHADER_A6XX | SHADER_A7XX},
    {0xb602, 0xb602, SHADER_A7XX},
    {0xb605, 0xb605, SHADER_A6XX},
    {0xb980, 0xb980, SHADER_A6XX},
    {0xb987, 0xb987, SHADER_A6XX},
    {0xb990, 0xb99b, SHADER_A6XX},
    {0xbb08, 0xbb08, SHADER_A6XX},
    {0xbb11, 0xbb11, SHADER_A6XX},
    {0xbe00, 0xbe01, SHADER_A6XX},
    {0xbe04, 0xbe04, SHADER_A6XX},
};

bool
qsim_may_write(const struct qsim_chip *chip, uint32_t reg)
{
    size_t i;

    if ((chip->has_lpac && (reg == 0xb9d0 || reg == 0xa9c2 || reg == 0xa9c3)) ||
        (chip->has_aaf2 && reg == 0xaaf2))
        return true;
    for (i = 0; i < ARRAY_LEN(ranges); i++) {
        if (reg >= ranges[i].first && reg <= ranges[i].last)
            return (ranges[i].gens & chip->gen) != 0;
    }
    return false;
}

/* ---- reading the state ---- */

static bool
wrong(struct qsim *gpu, const char *what)
{
    return qsim_fail(gpu, QSIM_BAD_STREAM, "launch: %s", what);
}

/* A register that the launch depends on. */
static uint32_t
needed(struct qsim *gpu, uint32_t reg)
{
    if (!qsim_was_written(gpu->state, reg))
        (void)qsim_fail(gpu, QSIM_BAD_STREAM,
                        "launch: register 0x%04x was not written", reg);
    return gpu->state->regs[reg];
}

static uint32_t
field(uint32_t v, unsigned hi, unsigned lo)
{
    return v >> lo & (uint32_t)((2ull << (hi - lo)) - 1);
}

static bool
read_sizes(struct qsim *gpu, const uint32_t groups[3], struct shader_launch *l)
{
    bool a7 = gpu->chip->gen == SHADER_A7XX;
    uint32_t base = a7 ? 0xa9d4 : 0xb990, dim = needed(gpu, base), i;

    l->local[0] = field(dim, 11, 2) + 1;
    l->local[1] = field(dim, 21, 12) + 1;
    l->local[2] = field(dim, 31, 22) + 1;
    if (field(dim, 1, 0) == 0)
        return wrong(gpu, "KERNELDIM is 0");
    for (i = 0; i < 3; i++) {
        l->grid[i] = groups[i];
        if (groups[i] == 0 || groups[i] > 65535)
            return wrong(gpu, "no groups, or more than 65535");
        if (needed(gpu, base + 1 + 2 * i) != groups[i] * l->local[i])
            return wrong(gpu, "global size is not groups times local size");
        if (needed(gpu, base + 2 + 2 * i) != 0)
            return wrong(gpu, "a global offset is not known here");
        (void)needed(gpu, (a7 ? 0xa9dc : 0xb999) + i);
    }
    if (a7 && (needed(gpu, 0xa9df) ^ dim) & ~3u)
        return wrong(gpu, "LAST_LOCAL_SIZE is not the local size");
    return gpu->result.fault == QSIM_OK;
}

static bool
read_ids(struct qsim *gpu, struct shader_launch *l, bool is_128)
{
    bool a7 = gpu->chip->gen == SHADER_A7XX;
    uint32_t cntl0 = needed(gpu, a7 ? 0xa9c2 : 0xb997), more;
    uint32_t cntl1 = needed(gpu, a7 ? 0xa9db : 0xb998);

    /* These chips take the same values twice.
     * src: docs/hardware/adreno-queues.md, "Program state" */
    if (gpu->chip->has_lpac &&
        (needed(gpu, 0xa9c2) != cntl0 || needed(gpu, 0xa9c3) != cntl1 ||
         needed(gpu, 0xb9d0) != needed(gpu, SP_CS_CTRL_REG1)))
        return wrong(gpu, "LPAC registers differ from those beside them");
    l->group_id = (uint8_t)field(cntl0, 7, 0);
    l->group_size = (uint8_t)field(cntl0, 15, 8);
    l->group_offset = (uint8_t)field(cntl0, 23, 16);
    l->local_id = (uint8_t)field(cntl0, 31, 24);
    l->linear_id = (uint8_t)field(cntl1, 7, 0);
    if ((l->group_id < 192 || l->group_size < 192 || l->group_offset < 192) ||
        (l->local_id >= 192 && l->local_id != SHADER_NO_REG))
        return wrong(gpu, "ids of groups are in r48 and above, of threads "
                          "below");
    if (field(cntl1, 9, 9) != is_128)
        return wrong(gpu, "THREADSIZE differs between registers");
    if (cntl1 & (a7 ? 0x000ff500u : 0xfffffd00u))
        return wrong(gpu, "bits of CS_CNTL_1 that are not known");
    if (!a7)
        return gpu->result.fault == QSIM_OK;
    more = needed(gpu, 0xa9c3);
    if (field(more, 7, 0) != l->linear_id || field(more, 8, 8) != is_128 ||
        (more & ~0x1ffu))
        return wrong(gpu, "SP_CS_CNTL_1 does not agree");
    if (!field(cntl1, 11, 11) || needed(gpu, 0xa9c6) != 0 ||
        needed(gpu, 0xa9c5) != 0)
        return wrong(gpu, "ZFIRSTEN, FS_CNTL_0 or VGPR_CONFIG");
    return gpu->result.fault == QSIM_OK;
}

/* src: docs/hardware/adreno-queues.md, "Private memory" */
static bool
read_private(struct qsim *gpu, struct shader_launch *l)
{
    uint32_t param = needed(gpu, SP_CS_PVT_PARAM);
    uint32_t size = needed(gpu, SP_CS_PVT_SIZE);
    uint64_t va = needed(gpu, SP_CS_PVT_ADDR) |
                  (uint64_t)needed(gpu, SP_CS_PVT_ADDR + 1) << 32;
    uint32_t stack = needed(gpu, SP_CS_PVT_STACK);
    uint64_t least;
    uint8_t byte;

    if (param == 0)
        return (size & 0x3ffff) == 0 || wrong(gpu, "private memory of 0");
    l->private_bytes = field(param, 7, 0) << 9;
    l->private_sp_bytes = field(size, 17, 0) << 12;
    l->private_by_wave = size >> 31;
    l->private_va = va;
    l->n_sps = gpu->chip->n_sps;
    l->sp_threads = gpu->chip->sp_threads;
    least = (uint64_t)l->private_bytes * gpu->chip->sp_threads;
    if (param >> 8 || (l->private_bytes & (l->private_bytes - 1)) ||
        (size & 0x7ffc0000u))
        return wrong(gpu, "PVT_MEM_PARAM or _SIZE");
    if (l->private_sp_bytes < least || stack != l->private_sp_bytes >> 11)
        return wrong(gpu, "private memory is smaller than a processor needs, "
                          "or its stack's offset is wrong");
    if (va % 4096)
        return wrong(gpu, "private memory is not aligned");
    return qsim_read(gpu, va, &byte, 1) &&
           qsim_read(gpu, va + (uint64_t)l->private_sp_bytes * l->n_sps - 1,
                     &byte, 1);
}

static bool
read_program(struct qsim *gpu, struct shader_launch *l)
{
    struct qsim_state *s = gpu->state;
    bool a7 = gpu->chip->gen == SHADER_A7XX, is_128;
    uint32_t reg0 = needed(gpu, SP_CS_CTRL_REG0), regs, most;
    uint32_t reg1 = needed(gpu, SP_CS_CTRL_REG1);
    uint32_t consts = needed(gpu, a7 ? 0xa9cd : 0xb987);
    static const uint32_t ram[] = {128, 192, 256, 512};

    is_128 = field(reg0, 20, 20);
    l->lanes = is_128 ? 128 : 64;
    l->n_half_vec4 = field(reg0, 6, 1);
    l->n_full_vec4 = field(reg0, 12, 7);
    l->branch_depth = 2 * field(reg0, 19, 14);
    if ((reg0 & 0x7f6e2001u) || !(reg0 >> 31))
        return wrong(gpu, "bits of CTRL_REG0 that are not known, or no "
                          "MERGEDREGS");
    if (l->branch_depth > 64)
        return wrong(gpu, "BRANCHSTACK beyond 32");
    regs = l->n_full_vec4 + (l->n_half_vec4 + 1) / 2;
    if (regs == 0 || regs > 48)
        return wrong(gpu, "a footprint of none, or of more than 48");
    most = gpu->chip->n_vec4 / (regs * (is_128 ? 2 : 1)) * 2;
    l->n_waves_max = most < 16 ? most : 16;
    l->shared_bytes =
        field(reg1, 4, 0) ? (field(reg1, 4, 0) + 1) * 1024 : 32768;
    if (l->shared_bytes > 32768 || (reg1 & ~0x7fu))
        return wrong(gpu, "CTRL_REG1");
    l->n_consts = field(consts, 7, 0) * 4 * 4;
    if (!field(consts, 8, 8) || (consts & ~0x1ffu))
        return wrong(gpu, "CS_CNTL is not enabled");
    if (l->n_consts > 4 * gpu->chip->n_consts ||
        l->n_consts > 4 * ram[field(reg1, 6, 5)])
        return wrong(gpu, "more constants than CONSTANTRAMMODE has");
    l->consts = s->consts;
    l->consts_set = s->consts_set;
    l->ubos = s->ubos;
    l->n_ubos = QSIM_N_UBOS;
    l->demotes = needed(gpu, SP_MODE_CONTROL) & 1;
    if (needed(gpu, SP_MODE_CONTROL) & ~7u)
        return wrong(gpu, "SP_MODE_CONTROL");
    if (needed(gpu, SP_CS_CONFIG) != 0x100)
        return wrong(gpu, "CS_CONFIG is not ENABLED alone");
    if (!(needed(gpu, SP_PERFCTR_ENABLE) & 0x20))
        return wrong(gpu, "SP_PERFCTR_ENABLE has no CS");
    if (a7 && needed(gpu, 0xa9be) != 0)
        return wrong(gpu, "0xa9be is not 0");
    return read_ids(gpu, l, is_128) && read_private(gpu, l);
}

/* ---- code ---- */

/* Is there an end, with four words behind it? */
static bool
has_end(const uint64_t *words, uint32_t n)
{
    uint32_t i;

    for (i = n; i-- > 0;) {
        if ((words[i] & 0xe7f2e0e000000000u) == 0x0300000000000000u)
            return n - i > 4;
    }
    return false;
}

/* Decoded once as long as the words are the same. */
static const struct shader_code *
code_of(struct qsim *gpu, uint64_t va, const uint64_t *words, uint32_t n)
{
    struct qsim_code *slot = &gpu->codes[va / 128 % ARRAY_LEN(gpu->codes)];

    if (slot->code && slot->va == va && shader_code_is(slot->code, words, n))
        return slot->code;
    shader_code_destroy(slot->code);
    slot->code = NULL;
    slot->va = va;
    if (shader_code_create(gpu->chip->gen, words, n, &slot->code) != BELL_OK) {
        (void)qsim_fail(gpu, QSIM_BAD_STREAM, "launch: %s",
                        bell_error_last()->message);
        bell_error_clear();
        return NULL;
    }
    return slot->code;
}

static bool
read_code(struct qsim *gpu, struct shader_launch *l)
{
    struct qsim_state *s = gpu->state;
    uint32_t units = needed(gpu, SP_CS_INSTRLEN);
    uint64_t va = needed(gpu, SP_CS_OBJ_START) |
                  (uint64_t)needed(gpu, SP_CS_OBJ_START + 1) << 32;
    uint64_t *words;
    bool ok;

    if (units == 0 || units > MAX_UNITS || va % 128 ||
        needed(gpu, SP_CS_FIRST_EXEC))
        return wrong(gpu, "code of no length, not aligned to 128 bytes, or "
                          "with a first instruction");
    if (s->code_va && (s->code_va != va || s->code_units > units))
        return wrong(gpu, "the code that was loaded ahead is another");
    if (units > gpu->chip->n_icache &&
        (needed(gpu, SP_FS_INSTRLEN) != units || !s->has_label))
        return wrong(gpu, "long code without SP_FS_INSTRLEN or LABEL");
    words = host_alloc((size_t)units * 128);
    if (!words)
        return wrong(gpu, "no memory for code");
    ok = qsim_cached_read(gpu, va, words, units * 128);
    if (ok && !has_end(words, units * 16))
        ok = wrong(gpu, "no end, or fewer than four words behind it");
    if (ok)
        l->code = code_of(gpu, va, words, units * 16);
    host_free(words);
    return ok && l->code;
}

static void *
shader_at(void *user, uint64_t va, uint32_t n_bytes, enum shader_access access)
{
    return qsim_cached(user, va, n_bytes, access);
}

bool
qsim_launch(struct qsim *gpu, const uint32_t groups[3])
{
    struct shader_launch l = {
        .needs_predication_gaps = gpu->chip->gen == SHADER_A7XX,
        .ends_locked = gpu->chip->gen == SHADER_A7XX,
        .max_insns = MAX_INSNS,
        .stop = &gpu->stop,
        .seed = gpu->seed++,
        .memory = {shader_at, gpu},
    };
    struct shader_report report;
    enum qsim_fault fault = QSIM_BAD_STREAM;

    if (!gpu->state->has_state)
        return wrong(gpu, "the state of shaders was not invalidated");
    if (!read_program(gpu, &l) || !read_sizes(gpu, groups, &l) ||
        !read_code(gpu, &l) || gpu->result.fault != QSIM_OK)
        return false;
    gpu->state->has_label = false;
    switch (shader_run(&l, &report)) {
    case SHADER_OK:
        return true;
    case SHADER_MEMORY:
        fault = QSIM_PAGE_FAULT;
        break;
    case SHADER_HUNG:
    case SHADER_STOPPED:
        fault = QSIM_HANG;
        break;
    case SHADER_BAD:
    case SHADER_NO_ROOM:
        break;
    }
    /* the cache has said where; the shader knows which instruction it was */
    if (gpu->result.fault == QSIM_PAGE_FAULT) {
        size_t n = strlen(gpu->result.text);
        snprintf(gpu->result.text + n, sizeof(gpu->result.text) - n, ": %s",
                 report.text);
        return false;
    }
    gpu->result.va = report.va;
    gpu->result.is_write = report.is_write;
    return qsim_fail(gpu, fault, "%s", report.text);
}
