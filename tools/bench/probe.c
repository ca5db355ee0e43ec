/* Probes: the kinds, what comes out of them, and their launch. */
#include "tools/bench/probe.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

const char *const probe_names[PROBE_KIND_COUNT] = {
    [PROBE_ATOMIC_OWN] = "atomic_own",
    [PROBE_ATOMIC_SAME] = "atomic_same",
    [PROBE_ATOMIC_SHARED] = "atomic_shared",
    [PROBE_BARRIER] = "barrier",
    [PROBE_BRANCH_SAME] = "branch_same",
    [PROBE_BRANCH_SPLIT] = "branch_split",
    [PROBE_WAIT_MAD_I32] = "wait_mad_i32",
    [PROBE_WAIT_FMA_F32] = "wait_fma_f32",
    [PROBE_WAIT_FMA_F64] = "wait_fma_f64",
    [PROBE_WAIT_SHARED] = "wait_shared",
    [PROBE_READ_L1] = "read_l1",
    [PROBE_READ_L2_4] = "read_l2_4",
    [PROBE_READ_L2_8] = "read_l2_8",
    [PROBE_READ_L2_16] = "read_l2_16",
    [PROBE_CONSTANT] = "read_constant",
    [PROBE_MAD_I16] = "mad_i16",
    [PROBE_MAD_I64] = "mad_i64",
};

#define L1_BYTES (16u << 10)
#define L2_BYTES (512u << 10) /* more than an L1 has */

unsigned
probe_width(enum probe_kind kind)
{
    if (kind == PROBE_READ_L1 || kind == PROBE_READ_L2_16)
        return 16;
    return kind == PROBE_READ_L2_4 ? 4 : kind == PROBE_READ_L2_8 ? 8 : 0;
}

uint32_t
probe_place_bytes(enum probe_kind kind)
{
    if (!probe_width(kind))
        return 0;
    return kind == PROBE_READ_L1 ? L1_BYTES : L2_BYTES;
}

bell_status
probe_check_text(const struct text *text)
{
    return text->failed ? bell_fail(BELL_E_NO_MEMORY,
                                    "out of memory for a kernel's text")
                        : BELL_OK;
}

/* ---- what comes out ------------------------------------------------------ */

/* Sums of the words that a thread reads: `width` bytes at a time, each step a
 * group's width further, round the place. */
static uint32_t
sum_reads(const struct probe *probe, uint32_t thread, uint64_t n)
{
    uint32_t width = probe_width(probe->kind), sum = 0, i;
    uint32_t mask = probe_place_bytes(probe->kind) - 1;
    uint32_t at = thread * width & mask;

    while (n-- > 0) {
        for (i = 0; i < width / 4; i++)
            sum += at / 4 + i;
        at = (at + probe->n_threads * width) & mask;
    }
    return sum;
}

static uint64_t
run_mads(uint64_t x, uint64_t a, uint64_t b, uint64_t n)
{
    while (n-- > 0)
        x = x * a + b;
    return x;
}

uint32_t
probe_result(const struct probe *probe, uint32_t group, uint32_t thread,
             uint64_t n_rounds)
{
    uint64_t n = n_rounds * probe->turns, sum = 0, i;
    uint32_t at = group * probe->n_threads + thread;
    bool is_odd = probe->kind == PROBE_BRANCH_SPLIT && thread % 2;

    switch (probe->kind) {
    case PROBE_ATOMIC_OWN:
    case PROBE_ATOMIC_SAME:
        return at;
    case PROBE_ATOMIC_SHARED:
        return (uint32_t)n * probe->a;
    case PROBE_BARRIER:
        return at - thread + (uint32_t)((thread + n_rounds) % probe->n_threads);
    case PROBE_BRANCH_SAME:
    case PROBE_BRANCH_SPLIT:
        return (uint32_t)run_mads(at, is_odd ? probe->b : probe->a,
                                  is_odd ? probe->a : probe->b, n);
    case PROBE_WAIT_MAD_I32:
        return (uint32_t)run_mads(at, probe->a, probe->b, n);
    case PROBE_WAIT_FMA_F32:
    case PROBE_WAIT_FMA_F64:
        return at % 8 + (uint32_t)n;
    case PROBE_WAIT_SHARED:
        return (uint32_t)((thread + n) % probe->n_threads * 4);
    case PROBE_READ_L1:
    case PROBE_READ_L2_4:
    case PROBE_READ_L2_8:
    case PROBE_READ_L2_16:
        return sum_reads(probe, thread, n);
    case PROBE_CONSTANT:
        for (i = 0; i < n; i++)
            sum += (i + 1) % PROBE_CONSTANTS;
        return (uint32_t)sum;
    case PROBE_MAD_I16:
    case PROBE_MAD_I64:
        for (i = 0; i < PROBE_CHAINS; i++)
            sum += run_mads(at + i, probe->a, probe->b, n / PROBE_CHAINS);
        return (uint32_t)(probe->kind == PROBE_MAD_I16 ? sum & 0xffff : sum);
    case PROBE_KIND_COUNT:
        break;
    }
    return 0;
}

uint32_t
probe_word(const struct probe *probe, uint32_t i, uint64_t n_rounds,
           uint32_t n_groups)
{
    uint32_t n = (uint32_t)n_rounds * probe->turns * probe->a;

    if (probe->kind == PROBE_ATOMIC_OWN)
        return n;
    if (probe->kind == PROBE_ATOMIC_SAME)
        return i ? 0 : n * n_groups * probe->n_threads;
    return i;
}

/* ---- kernels ------------------------------------------------------------- */

static struct probe
describe_probe(enum probe_kind kind)
{
    struct probe probe = {.kind = kind,
                          .n_threads = PROBE_THREADS,
                          .turns = 16,
                          .words = PROBE_CONSTANTS,
                          .a = 214013,
                          .b = 2531011};

    if (kind <= PROBE_ATOMIC_SHARED) {
        probe.turns = 4;
        probe.a = 3;
    } else if (kind == PROBE_BARRIER) {
        probe.turns = 2;
    } else if (kind == PROBE_BRANCH_SAME || kind == PROBE_BRANCH_SPLIT) {
        probe.turns = 8;
    } else if (probe_width(kind)) {
        probe.turns = 4;
        probe.words = probe_place_bytes(kind) / 4;
    }
    if (kind == PROBE_WAIT_FMA_F32 || kind == PROBE_WAIT_FMA_F64)
        probe.a = probe.b = 0x3f800000; /* 1 */
    return probe;
}

static bell_status
make_binary(const struct hcq_device_info *info, const struct probe *probe,
            struct render_binary *out)
{
    static const struct {
        const char *backend;
        bell_status (*make)(const struct hcq_device_info *info,
                            const struct probe *probe, struct text *text,
                            struct render_binary *out);
    } makers[] = {
        {"NV", probe_make_ptx},
        {"AMD", probe_make_amd},
        {"CPU", probe_make_host},
    };
    struct text text = {NULL, 0, 0, false};
    bell_status status;
    size_t i;

    for (i = 0; i < ARRAY_LEN(makers); i++) {
        if (strcmp(makers[i].backend, info->backend) == 0)
            break;
    }
    if (i == ARRAY_LEN(makers))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "there is no kernel by hand for %s", info->arch);
    status = makers[i].make(info, probe, &text, out);
    host_free(text.buf);
    return status;
}

bell_status
probe_load(struct hcq_device *dev, enum probe_kind kind,
           struct probe *out_probe)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc), .n_bufs = 1, .n_vals = 3};
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct probe probe = describe_probe(kind);
    struct render_binary binary;
    bell_status status;

    hcq_device_info(dev, &info);
    if (info.flags & HCQ_DEVICE_HOST_CPU)
        probe.n_threads = 1;
    BELL_TRY(make_binary(&info, &probe, &binary));
    desc.name = probe_names[kind];
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    desc.local[0] = probe.n_threads;
    desc.local[1] = desc.local[2] = 1;
    status = hcq_program_create(dev, &desc, &probe.prog);
    host_free(binary.data);
    BELL_TRY(status);
    *out_probe = probe;
    return BELL_OK;
}

void
probe_launch(const struct probe *probe, struct hcq_cs *cs, uint64_t results_va,
             uint64_t n_rounds, uint64_t words_va, uint32_t n_groups)
{
    const uint64_t args[4] = {results_va, n_rounds, words_va,
                              probe->a | (uint64_t)probe->b << 32};
    const uint32_t grid[3] = {n_groups, 1, 1};
    const uint32_t local[3] = {probe->n_threads, 1, 1};

    hcq_cs_exec(cs, probe->prog, args, 4, grid, local);
}
