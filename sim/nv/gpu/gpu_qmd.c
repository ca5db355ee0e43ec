/* Launch descriptors: versions 3.0, 4.0 and 5.0, read by the class headers.
 *
 * A descriptor is refused where a bit is set that is neither of a field that
 * this card looks at nor of one that is only advice (prefetches, groups,
 * invalidations of caches that it does not have).
 *
 * src: open-gpu-doc, clc6c0qmd.h, clcbc0qmd.h, clcdc0qmd.h;
 * docs/hardware/nvidia-queues.md, "Launch descriptors";
 * docs/hardware/nvidia-code.md, "Shared memory".
 */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

enum field {
    F_TYPE,
    F_MAJOR,
    F_MINOR,
    F_GRID_X,
    F_GRID_Y,
    F_GRID_Z,
    F_BLOCK_X,
    F_BLOCK_Y,
    F_BLOCK_Z,
    F_REGISTERS,
    F_BARRIERS,
    F_SHARED,
    F_MIN_CONFIG,
    F_MAX_CONFIG,
    F_TARGET_CONFIG,
    F_LOCAL_LOW,
    F_LOCAL_HIGH,
    F_PROGRAM_LOWER,
    F_PROGRAM_UPPER,
    F_SASS,
    F_NO_CALL_LIMIT,
    F_SAMPLER_INDEX,
    F_INVALIDATE_CODE,
    F_INVALIDATE_CONSTANTS,
    F_MEMBAR,
    F_COUNTER,
    F_REQUIRE_PCAS,
    F_BANK_VALID,
    F_BANK_INVALIDATE,
    F_BANK_LOWER,
    F_BANK_UPPER,
    F_BANK_SIZE,
    F_COUNT
};
enum release_field {
    R_ENABLE,
    R_STRUCTURE,
    R_REDUCTION,
    R_OP,
    R_FORMAT,
    R_64,
    R_LOWER,
    R_UPPER,
    R_PAY_LOWER,
    R_PAY_UPPER,
    R_COUNT
};
enum dependent_field {
    D_ENABLE,
    D_ACTION,
    D_PREFETCH,
    D_POINTER,
    D_COUNT
};

/* Where a field begins, how many bits it has, and how many later the next of
 * its kind begins. */
struct place {
    uint16_t lo;
    uint8_t width, stride;
};
struct release_place {
    uint16_t lo[3];
    uint8_t width;
};
struct dependent_place {
    uint16_t lo[NVGPU_N_DEPENDENTS];
    uint8_t width;
};
/* First and last bit; the table ends with one that ends at 0. */
struct span {
    uint16_t lo, hi;
};

/* clang-format off */
static const struct place v3_places[F_COUNT] = {
    [F_MAJOR] = {580, 4, 0},
    [F_MINOR] = {576, 4, 0},
    [F_GRID_X] = {384, 32, 0},
    [F_GRID_Y] = {416, 16, 0},
    [F_GRID_Z] = {448, 16, 0},
    [F_BLOCK_X] = {592, 16, 0},
    [F_BLOCK_Y] = {608, 16, 0},
    [F_BLOCK_Z] = {624, 16, 0},
    [F_REGISTERS] = {648, 9, 0},
    [F_BARRIERS] = {763, 5, 0},
    [F_SHARED] = {544, 18, 0},
    [F_MIN_CONFIG] = {562, 6, 0},
    [F_MAX_CONFIG] = {569, 6, 0},
    [F_TARGET_CONFIG] = {657, 6, 0},
    [F_LOCAL_LOW] = {736, 24, 0},
    [F_LOCAL_HIGH] = {1600, 24, 0},
    [F_PROGRAM_LOWER] = {1536, 32, 0},
    [F_PROGRAM_UPPER] = {1568, 17, 0},
    [F_SASS] = {1656, 8, 0},
    [F_NO_CALL_LIMIT] = {378, 1, 0},
    [F_SAMPLER_INDEX] = {382, 1, 0},
    [F_INVALIDATE_CODE] = {190, 1, 0},
    [F_INVALIDATE_CONSTANTS] = {191, 1, 0},
    [F_MEMBAR] = {368, 2, 0},
    [F_COUNTER] = {142, 16, 0},
    [F_REQUIRE_PCAS] = {140, 1, 0},
    [F_BANK_VALID] = {640, 1, 1},
    [F_BANK_INVALIDATE] = {1074, 1, 64},
    [F_BANK_LOWER] = {1024, 32, 64},
    [F_BANK_UPPER] = {1056, 17, 64},
    [F_BANK_SIZE] = {1075, 13, 64},
};
static const struct release_place v3_releases[R_COUNT] = {
    [R_ENABLE] = {{823, 951, 1719}, 1},
    [R_STRUCTURE] = {{830, 958, 1726}, 2},
    [R_REDUCTION] = {{826, 954, 1722}, 1},
    [R_OP] = {{820, 948, 1716}, 3},
    [R_FORMAT] = {{824, 952, 1720}, 2},
    [R_64] = {{829, 957, 1725}, 1},
    [R_LOWER] = {{768, 896, 1664}, 32},
    [R_UPPER] = {{800, 928, 1696}, 8},
    [R_PAY_LOWER] = {{832, 960, 1728}, 32},
    [R_PAY_UPPER] = {{864, 992, 1760}, 32},
};
/* Where the second one's address is, the table does not say. */
static const struct dependent_place v3_dependents[D_COUNT] = {
    [D_ENABLE] = {{512, 517}, 1},
    [D_ACTION] = {{513, 518}, 3},
    [D_PREFETCH] = {{516, 521}, 1},
    [D_POINTER] = {{480, 480}, 32},
};
static const struct span v3_hints[] = {
    {128, 135}, {137, 137}, {185, 189}, {256, 287}, {370, 370}, {383, 383}, {664, 671}, {819, 819}, {947, 947}, {1073, 1073}, {1137, 1137}, {1201, 1201}, {1265, 1265}, {1329, 1329}, {1393, 1393}, {1457, 1457}, {1521, 1521}, {1632, 1651}, {1715, 1715}, {1984, 2047}, {0, 0},
};

static const struct place v4_places[F_COUNT] = {
    [F_TYPE] = {23, 3, 0},
    [F_MAJOR] = {580, 4, 0},
    [F_MINOR] = {576, 4, 0},
    [F_GRID_X] = {1024, 32, 0},
    [F_GRID_Y] = {1056, 16, 0},
    [F_GRID_Z] = {1088, 16, 0},
    [F_BLOCK_X] = {1152, 16, 0},
    [F_BLOCK_Y] = {1168, 16, 0},
    [F_BLOCK_Z] = {1184, 16, 0},
    [F_REGISTERS] = {1200, 9, 0},
    [F_BARRIERS] = {1211, 5, 0},
    [F_SHARED] = {584, 18, 0},
    [F_MIN_CONFIG] = {608, 6, 0},
    [F_MAX_CONFIG] = {614, 6, 0},
    [F_TARGET_CONFIG] = {620, 6, 0},
    [F_LOCAL_LOW] = {512, 24, 0},
    [F_LOCAL_HIGH] = {544, 24, 0},
    [F_PROGRAM_LOWER] = {1216, 32, 0},
    [F_PROGRAM_UPPER] = {1248, 25, 0},
    [F_SASS] = {536, 8, 0},
    [F_NO_CALL_LIMIT] = {568, 1, 0},
    [F_SAMPLER_INDEX] = {569, 1, 0},
    [F_INVALIDATE_CODE] = {606, 1, 0},
    [F_INVALIDATE_CONSTANTS] = {607, 1, 0},
    [F_MEMBAR] = {1136, 2, 0},
    [F_COUNTER] = {0, 16, 0},
    [F_REQUIRE_PCAS] = {30, 1, 0},
    [F_BANK_VALID] = {416, 1, 4},
    [F_BANK_INVALIDATE] = {419, 1, 4},
    [F_BANK_LOWER] = {1536, 32, 64},
    [F_BANK_UPPER] = {1568, 19, 64},
    [F_BANK_SIZE] = {1587, 13, 64},
};
static const struct release_place v4_releases[R_COUNT] = {
    [R_ENABLE] = {{320, 336, 352}, 1},
    [R_STRUCTURE] = {{321, 337, 353}, 2},
    [R_REDUCTION] = {{324, 340, 356}, 1},
    [R_OP] = {{325, 341, 357}, 3},
    [R_FORMAT] = {{328, 344, 360}, 2},
    [R_64] = {{332, 348, 364}, 1},
    [R_LOWER] = {{640, 768, 896}, 32},
    [R_UPPER] = {{672, 800, 928}, 25},
    [R_PAY_LOWER] = {{704, 832, 960}, 32},
    [R_PAY_UPPER] = {{736, 864, 992}, 32},
};
static const struct dependent_place v4_dependents[D_COUNT] = {
    [D_ENABLE] = {{368, 373}, 1},
    [D_ACTION] = {{369, 374}, 3},
    [D_PREFETCH] = {{372, 377}, 1},
    [D_POINTER] = {{448, 480}, 32},
};
static const struct span v4_hints[] = {
    {16, 22}, {323, 323}, {339, 339}, {355, 355}, {379, 380}, {382, 382}, {384, 415}, {417, 418}, {421, 422}, {425, 426}, {429, 430}, {433, 434}, {437, 438}, {441, 442}, {445, 446}, {570, 575}, {602, 605}, {1138, 1149}, {1280, 1327}, {1344, 1403}, {2368, 2431}, {0, 0},
};

static const struct place v5_places[F_COUNT] = {
    [F_TYPE] = {151, 3, 0},
    [F_MAJOR] = {468, 4, 0},
    [F_MINOR] = {464, 4, 0},
    [F_GRID_X] = {1248, 32, 0},
    [F_GRID_Y] = {1280, 16, 0},
    [F_GRID_Z] = {1312, 16, 0},
    [F_BLOCK_X] = {1088, 16, 0},
    [F_BLOCK_Y] = {1104, 16, 0},
    [F_BLOCK_Z] = {1120, 8, 0},
    [F_REGISTERS] = {1128, 9, 0},
    [F_BARRIERS] = {1137, 5, 0},
    [F_SHARED] = {1152, 11, 0},
    [F_MIN_CONFIG] = {1163, 6, 0},
    [F_MAX_CONFIG] = {1169, 6, 0},
    [F_TARGET_CONFIG] = {1175, 6, 0},
    [F_LOCAL_LOW] = {1184, 16, 0},
    [F_LOCAL_HIGH] = {1200, 16, 0},
    [F_PROGRAM_LOWER] = {1024, 32, 0},
    [F_PROGRAM_UPPER] = {1056, 21, 0},
    [F_SASS] = {448, 8, 0},
    [F_NO_CALL_LIMIT] = {456, 1, 0},
    [F_SAMPLER_INDEX] = {457, 1, 0},
    [F_INVALIDATE_CODE] = {476, 1, 0},
    [F_INVALIDATE_CONSTANTS] = {477, 1, 0},
    [F_MEMBAR] = {624, 2, 0},
    [F_COUNTER] = {128, 16, 0},
    [F_REQUIRE_PCAS] = {158, 1, 0},
    [F_BANK_VALID] = {1856, 1, 4},
    [F_BANK_INVALIDATE] = {1859, 1, 4},
    [F_BANK_LOWER] = {1344, 32, 64},
    [F_BANK_UPPER] = {1376, 19, 64},
    [F_BANK_SIZE] = {1395, 13, 64},
};
static const struct release_place v5_releases[R_COUNT] = {
    [R_ENABLE] = {{288, 304, 320}, 1},
    [R_STRUCTURE] = {{289, 305, 321}, 2},
    [R_REDUCTION] = {{292, 308, 324}, 1},
    [R_OP] = {{293, 309, 325}, 3},
    [R_FORMAT] = {{296, 312, 328}, 2},
    [R_64] = {{300, 316, 332}, 1},
    [R_LOWER] = {{480, 768, 896}, 32},
    [R_UPPER] = {{512, 800, 928}, 25},
    [R_PAY_LOWER] = {{544, 832, 960}, 32},
    [R_PAY_UPPER] = {{576, 864, 992}, 32},
};
static const struct dependent_place v5_dependents[D_COUNT] = {
    [D_ENABLE] = {{336, 344}, 1},
    [D_ACTION] = {{337, 345}, 3},
    [D_PREFETCH] = {{340, 348}, 1},
    [D_POINTER] = {{384, 416}, 32},
};
static const struct span v5_hints[] = {
    {144, 150}, {291, 291}, {307, 307}, {323, 323}, {342, 343}, {352, 383}, {458, 463}, {472, 475}, {627, 637}, {714, 729}, {736, 767}, {1077, 1087}, {1142, 1147}, {1857, 1858}, {1861, 1862}, {1865, 1866}, {1869, 1870}, {1873, 1874}, {1877, 1878}, {1881, 1882}, {1885, 1886}, {1888, 1936}, {2176, 2239}, {0, 0},
};

/* clang-format on */

/* A version; addresses and sizes are shifted right by so much. */
struct layout {
    uint32_t major, n_dw;
    const struct place *places;
    const struct release_place *releases;
    const struct dependent_place *dependents;
    const struct span *hints;
    uint8_t program_shift, shared_shift, local_shift, bank_shift;
};

static const struct layout layouts[] = {
    {3, 64, v3_places, v3_releases, v3_dependents, v3_hints, 0, 0, 0, 0},
    {4, 96, v4_places, v4_releases, v4_dependents, v4_hints, 0, 0, 0, 6},
    {5, 96, v5_places, v5_releases, v5_dependents, v5_hints, 4, 7, 4, 6},
};

static const struct layout *
layout_of(const struct nvgpu_chip *chip)
{
    return &layouts[chip->qmd_major - 3];
}

uint32_t
nvgpu_qmd_dw(const struct nvgpu_chip *chip)
{
    return layout_of(chip)->n_dw;
}

/* ---- bits ---- */

static uint32_t
bits(const uint32_t *dw, uint32_t lo, uint32_t width)
{
    uint64_t pair = dw[lo / 32];

    assert(width <= 32);
    if (width == 0)
        return 0;
    if (lo % 32 + width > 32)
        pair |= (uint64_t)dw[lo / 32 + 1] << 32;
    return (uint32_t)(pair >> lo % 32 & (((uint64_t)1 << width) - 1));
}

static uint32_t
get_at(const struct layout *l, const uint32_t *dw, enum field f, uint32_t i)
{
    const struct place *p = &l->places[f];

    assert(f < F_COUNT);
    return bits(dw, p->lo + i * p->stride, p->width);
}

static uint32_t
get(const struct layout *l, const uint32_t *dw, enum field f)
{
    return get_at(l, dw, f, 0);
}

static void
clear_bits(uint32_t *dw, uint32_t lo, uint32_t width)
{
    uint32_t i;

    assert(width <= 64);
    for (i = lo; i < lo + width; i++)
        dw[i / 32] &= ~(1u << i % 32);
}

static uint32_t
get_release(const struct layout *l, const uint32_t *dw, enum release_field f,
            uint32_t i)
{
    assert(f < R_COUNT);
    return bits(dw, l->releases[f].lo[i], l->releases[f].width);
}

static uint32_t
get_dependent(const struct layout *l, const uint32_t *dw,
              enum dependent_field f, uint32_t i)
{
    assert(f < D_COUNT);
    return bits(dw, l->dependents[f].lo[i], l->dependents[f].width);
}

/* Whatever is neither looked at nor advice is 0. */
static bool
check_rest(struct nvgpu_chan *chan, const struct layout *l, const uint32_t *dw)
{
    uint32_t rest[NVGPU_QMD_MAX_DW], f, i;
    const struct span *s;

    memcpy(rest, dw, l->n_dw * sizeof(*rest));
    for (f = 0; f < F_COUNT; f++) {
        uint32_t n = l->places[f].stride ? NVGPU_N_BANKS : 1;
        for (i = 0; i < n; i++)
            clear_bits(rest, l->places[f].lo + i * l->places[f].stride,
                       l->places[f].width);
    }
    for (f = 0; f < R_COUNT; f++) {
        for (i = 0; i < 3; i++)
            clear_bits(rest, l->releases[f].lo[i], l->releases[f].width);
    }
    for (f = 0; f < D_COUNT; f++) {
        for (i = 0; i < NVGPU_N_DEPENDENTS; i++)
            clear_bits(rest, l->dependents[f].lo[i], l->dependents[f].width);
    }
    for (s = l->hints; s->hi; s++)
        clear_bits(rest, s->lo, s->hi - s->lo + 1u);
    for (i = 0; i < l->n_dw; i++) {
        if (rest[i])
            return nvgpu_fail(
                chan, NVGPU_CODE_CLASS,
                "QMD %u.0: bit %u is set (word %u is 0x%08x), "
                "which is reserved or not of a plain grid",
                l->major, i * 32 + (uint32_t)__builtin_ctz(rest[i]), i, dw[i]);
    }
    return true;
}

/* ---- fields together ---- */

static bool
check_version(struct nvgpu_chan *chan, const struct layout *l,
              const uint32_t *dw)
{
    uint32_t major = get(l, dw, F_MAJOR), minor = get(l, dw, F_MINOR);
    uint32_t sass = get(l, dw, F_SASS), sm = chan->gpu->chip->sm;
    /* src: docs/hardware/nvidia-queues.md, "Launch descriptors": nothing says
     * which number Blackwell has */
    uint32_t want = sm < 100 ? sm / 10 << 4 | sm % 10 : 0;

    if (major != l->major || minor != 0)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD says version %u.%u, class 0x%x wants %u.0",
                          major, minor, chan->gpu->chip->compute_class,
                          l->major);
    /* a queue entry or a cluster is another thing; 3.0 has no such field */
    if (l->places[F_TYPE].width && get(l, dw, F_TYPE) != 2)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD_TYPE is %u, a grid's is 2", get(l, dw, F_TYPE));
    if (sass && want && sass != want)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: SASS_VERSION is 0x%x, this card's is 0x%x",
                          sass, want);
    /* SAMPLER_INDEX may be either: kernels here have no samplers */
    if (!get(l, dw, F_NO_CALL_LIMIT))
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: API_VISIBLE_CALL_LIMIT 0 is not 1 (no check)");
    return true;
}

static bool
check_qmd_sizes(struct nvgpu_chan *chan, const struct nvgpu_launch *a)
{
    const uint32_t *g = a->grid, *b = a->block;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];

    if (!g[0] || !g[1] || !g[2] || g[0] > INT32_MAX)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS, "QMD: grid of %ux%ux%u", g[0],
                          g[1], g[2]);
    if (!threads || threads > 1024 || b[2] > 64)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS, "QMD: block of %ux%ux%u",
                          b[0], b[1], b[2]);
    if (a->n_regs < 1 || a->n_regs > 255)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS, "QMD: %u registers",
                          a->n_regs);
    /* in units of 8 a thread, of 64 Ki a multiprocessor.
     * src: docs/hardware/nvidia-code.md, "Loading" */
    if (align_up(a->n_regs, 8) * align_up(threads, 128) > 65536)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: %u registers for %llu threads: an SM has 65536",
                          a->n_regs, (unsigned long long)threads);
    if (a->n_barriers > 16)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS, "QMD: %u barriers",
                          a->n_barriers);
    if ((a->program_va & 15) || a->program_va == 0)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS, "QMD: program at 0x%llx",
                          (unsigned long long)a->program_va);
    return true;
}

/* KiB that an SM's memory can be parted into. The largest a card has is its
 * limit, but MAX may say more. src: docs/hardware/nvidia-code.md,
 * "Shared memory" */
static bool
is_carve_out(uint32_t kib, uint32_t limit_kib)
{
    static const uint8_t sizes[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        if (sizes[i] == kib)
            return kib <= limit_kib;
    }
    return false;
}

static bool
check_shared(struct nvgpu_chan *chan, const struct nvgpu_launch *a,
             const uint32_t config[3])
{
    uint32_t max = chan->gpu->chip->max_shared_bytes;

    if (a->shared_bytes > max || a->shared_bytes % 128)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: shared memory of 0x%x bytes: in units of 128, "
                          "at most 0x%x",
                          a->shared_bytes, max);
    if (!config[0] || !config[1] || !config[2] ||
        !is_carve_out(a->min_kib, max / 1024) ||
        !is_carve_out(a->target_kib, max / 1024) ||
        !is_carve_out(a->max_kib, 228) || a->min_kib > a->target_kib ||
        a->target_kib > a->max_kib)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: SM_CONFIG min %u, target %u, max %u (KiB / 4 + "
                          "1) are not sizes of this card in order",
                          config[0], config[1], config[2]);
    if (a->shared_bytes > a->target_kib * 1024)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: 0x%x bytes of shared memory, but SM_CONFIG is "
                          "of %u KiB",
                          a->shared_bytes, a->target_kib);
    return true;
}

static bool
decode_shared(struct nvgpu_chan *chan, const struct layout *l,
              const uint32_t *dw, struct nvgpu_launch *out)
{
    uint32_t config[3] = {get(l, dw, F_MIN_CONFIG), get(l, dw, F_TARGET_CONFIG),
                          get(l, dw, F_MAX_CONFIG)};

    out->shared_bytes = get(l, dw, F_SHARED) << l->shared_shift;
    out->min_kib = (config[0] - 1) * 4;
    out->target_kib = (config[1] - 1) * 4;
    out->max_kib = (config[2] - 1) * 4;
    return check_shared(chan, out, config);
}

static bool
decode_banks(struct nvgpu_chan *chan, const struct layout *l,
             const uint32_t *dw, struct nvgpu_launch *out)
{
    uint32_t i;

    for (i = 0; i < NVGPU_N_BANKS; i++) {
        struct nvgpu_bank *b = &out->banks[i];
        b->valid = get_at(l, dw, F_BANK_VALID, i) != 0;
        b->va = ((uint64_t)get_at(l, dw, F_BANK_UPPER, i) << 32 |
                 get_at(l, dw, F_BANK_LOWER, i))
                << l->bank_shift;
        b->size_bytes = get_at(l, dw, F_BANK_SIZE, i) * 16;
        if (!b->valid && (b->va || b->size_bytes))
            return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                              "QMD: constant bank %u is not valid, but has an "
                              "address or a size",
                              i);
        if (b->valid &&
            (!b->va || (b->va & 63) || !b->size_bytes || b->size_bytes > 65536))
            return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                              "QMD: constant bank %u: 0x%x bytes at 0x%llx "
                              "(multiples of 64, up to 64 KiB)",
                              i, b->size_bytes, (unsigned long long)b->va);
        out->invalidates_constants |=
            b->valid && get_at(l, dw, F_BANK_INVALIDATE, i);
    }
    return true;
}

static void
decode_releases(const struct layout *l, const uint32_t *dw,
                struct nvgpu_launch *out)
{
    uint32_t i;

    for (i = 0; i < 3; i++) {
        struct nvgpu_release *r = &out->releases[i];
        r->enable = get_release(l, dw, R_ENABLE, i) != 0;
        r->structure = get_release(l, dw, R_STRUCTURE, i);
        r->reduction = get_release(l, dw, R_REDUCTION, i) != 0;
        r->op = get_release(l, dw, R_OP, i);
        r->is_signed = get_release(l, dw, R_FORMAT, i) != 0;
        r->payload64 = get_release(l, dw, R_64, i) != 0;
        r->va = (uint64_t)get_release(l, dw, R_UPPER, i) << 32 |
                get_release(l, dw, R_LOWER, i);
        r->payload = (uint64_t)get_release(l, dw, R_PAY_UPPER, i) << 32 |
                     get_release(l, dw, R_PAY_LOWER, i);
    }
}

/* What is scheduled when the grid is done. Stores of a grid without a membar
 * need not be visible to it. src: open-gpu-doc, clcbc0qmd.h;
 * docs/hardware/nvidia-queues.md, "Dependents" */
static bool
decode_dependents(struct nvgpu_chan *chan, const struct layout *l,
                  const uint32_t *dw, struct nvgpu_launch *out)
{
    uint32_t membar = get(l, dw, F_MEMBAR), i;

    out->counter = get(l, dw, F_COUNTER);
    out->requires_pcas = get(l, dw, F_REQUIRE_PCAS) != 0;
    if (membar == 2)
        return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                          "QMD: CWD_MEMBAR_TYPE 2 is reserved");
    for (i = 0; i < NVGPU_N_DEPENDENTS; i++) {
        struct nvgpu_dependent *d = &out->dependents[i];
        if (!get_dependent(l, dw, D_ENABLE, i))
            continue;
        d->enable = true;
        d->action = get_dependent(l, dw, D_ACTION, i);
        d->prefetch = get_dependent(l, dw, D_PREFETCH, i) != 0;
        d->qmd_va = (uint64_t)get_dependent(l, dw, D_POINTER, i) << 8;
        if (i == 1 && l->major == 3)
            return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                              "QMD 3.0: a second dependent descriptor, whose "
                              "address no table places");
        if (d->action != NVGPU_QMD_SCHEDULE &&
            d->action != NVGPU_QMD_INVALIDATE_COPY_SCHEDULE &&
            d->action != NVGPU_QMD_DECREMENT_DEPENDENCE)
            return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                              "QMD: dependent action %u is of queues or "
                              "reserved",
                              d->action);
        if (membar == 0)
            return nvgpu_fail(chan, NVGPU_CODE_CLASS,
                              "QMD: the descriptor at 0x%llx depends on this "
                              "one, which has no membar",
                              (unsigned long long)d->qmd_va);
    }
    return true;
}

bool
nvgpu_qmd_decode(struct nvgpu_chan *chan, const uint32_t *dw,
                 struct nvgpu_launch *out_launch)
{
    const struct layout *l = layout_of(chan->gpu->chip);
    struct nvgpu_launch *a = out_launch;
    uint32_t i;

    if (!check_version(chan, l, dw) || !check_rest(chan, l, dw))
        return false;
    for (i = 0; i < 3; i++) {
        a->grid[i] = get(l, dw, (enum field)(F_GRID_X + i));
        a->block[i] = get(l, dw, (enum field)(F_BLOCK_X + i));
    }
    a->n_regs = get(l, dw, F_REGISTERS);
    a->n_barriers = get(l, dw, F_BARRIERS);
    a->program_va = ((uint64_t)get(l, dw, F_PROGRAM_UPPER) << 32 |
                     get(l, dw, F_PROGRAM_LOWER))
                    << l->program_shift;
    a->local_low_bytes = get(l, dw, F_LOCAL_LOW) << l->local_shift;
    a->local_high_bytes = get(l, dw, F_LOCAL_HIGH) << l->local_shift;
    a->invalidates_code = get(l, dw, F_INVALIDATE_CODE) != 0;
    a->invalidates_constants = get(l, dw, F_INVALIDATE_CONSTANTS) != 0;
    decode_releases(l, dw, a);
    return check_qmd_sizes(chan, a) && decode_shared(chan, l, dw, a) &&
           decode_banks(chan, l, dw, a) && decode_dependents(chan, l, dw, a);
}
