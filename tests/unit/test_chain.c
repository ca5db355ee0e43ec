/* tools/chain: that kernels are made of the instructions that they are named
 * for, as often as they say, and what is said to come out of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "render/ir3/ir3.h"
#include "render/ptx/nv_container.h"
#include "sim/amd/isa/isa.h"
#include "tools/chain/chain.h"

static struct hcq_device_info
info_of(const char *backend, const char *arch, uint32_t flags)
{
    struct hcq_device_info info = {.flags = flags};

    snprintf(info.backend, sizeof(info.backend), "%s", backend);
    snprintf(info.arch, sizeof(info.arch), "%s", arch);
    return info;
}

/* ---- what is counted ---- */

/* How often the bytes have that text. */
static uint32_t
count_text(const void *data, size_t size, const char *text)
{
    const char *bytes = data;
    size_t n = strlen(text), i;
    uint32_t count = 0;

    for (i = 0; i + n <= size; i++)
        count += memcmp(bytes + i, text, n) == 0;
    return count;
}

/* The part of an ELF64 object that has code. */
static const uint32_t *
code_of(const uint8_t *elf, uint32_t *out_n_dw)
{
    uint64_t at, offset, size, flags;
    uint16_t n, i;

    memcpy(&at, elf + 0x28, 8);
    memcpy(&n, elf + 0x3c, 2);
    for (i = 0; i < n; i++) {
        const uint8_t *section = elf + at + 64u * i;

        memcpy(&flags, section + 8, 8);
        memcpy(&offset, section + 0x18, 8);
        memcpy(&size, section + 0x20, 8);
        if (!(flags & 4)) /* SHF_EXECINSTR */
            continue;
        *out_n_dw = (uint32_t)(size / 4);
        return (const uint32_t *)(elf + offset);
    }
    fail_msg("no code");
    return NULL;
}

/* Instructions of that name; *out_n_duals are two of them. */
static uint32_t
count_amd(enum isa_gen gen, const void *elf, const char *name,
          uint32_t *out_n_duals)
{
    uint32_t n_dw = 0, at = 0, count = 0;
    const uint32_t *code = code_of(elf, &n_dw);
    const char *why = "the end";
    struct isa_insn in;

    *out_n_duals = 0;
    while (at < n_dw && isa_decode(gen, code + at, n_dw - at, &in, &why)) {
        bool is_one = strcmp(isa_op_name(in.op), name) == 0;
        bool is_other =
            in.format == ISA_VOPD && strcmp(isa_op_name(in.op_y), name) == 0;

        count += is_one + is_other;
        *out_n_duals += is_one && is_other;
        at += in.n_dw;
        if (strcmp(isa_op_name(in.op), "S_ENDPGM") == 0)
            return count;
    }
    fail_msg("an instruction that is not known: %s", why);
    return 0;
}

/* ---- the cards ---- */

static void
test_ptx(void **state)
{
    static const char *const archs[] = {"sm_80", "sm_89", "sm_90", "sm_120"};
    static const char *const names[CHAIN_KIND_COUNT] = {
        [CHAIN_FMA_F32] = "fma.rn.f32 ",   [CHAIN_FMA_F64] = "fma.rn.f64 ",
        [CHAIN_FMA_F16] = "fma.rn.f16x2 ", [CHAIN_FMA_BF16] = "fma.rn.bf16x2 ",
        [CHAIN_MAD_I32] = "mad.lo.s32 ",   [CHAIN_DOT_I8] = "dp4a.s32.s32 ",
    };
    size_t i, size;
    int k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct hcq_device_info info =
            info_of("NV", archs[i], HCQ_DEVICE_SIMULATED);

        for (k = 0; k < CHAIN_KIND_COUNT; k++) {
            bell_status status;
            struct chain chain;
            void *data;

            status =
                chain_binary(&info, (enum chain_kind)k, &chain, &data, &size);
            assert_int_equal(status, names[k] ? BELL_OK : BELL_E_UNSUPPORTED);
            if (!names[k])
                continue;
            assert_int_equal(count_text(data, size, names[k]), chain.n_insns);
            host_free(data);
        }
    }
}

/* What the real assembler takes, also for cards that none are simulated of. */
static void
test_ptxas(void **state)
{
    static const char *const archs[] = {"sm_80", "sm_86",  "sm_89",
                                        "sm_90", "sm_100", "sm_120"};
    size_t i, size, n = 0;
    char path[256];
    int k;

    (void)state;
    if (render_ptxas_find(path, sizeof(path)) != BELL_OK) {
        print_message("no ptxas: %s\n", bell_error_last()->message);
        skip();
    }
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct hcq_device_info info = info_of("NV", archs[i], 0);

        for (k = 0; k < CHAIN_KIND_COUNT; k++) {
            struct chain chain;
            void *data;

            if (chain_binary(&info, (enum chain_kind)k, &chain, &data, &size) !=
                BELL_OK) {
                assert_int_equal(bell_error_last()->status, BELL_E_UNSUPPORTED);
                continue;
            }
            assert_memory_equal(data, "\177ELF", 4);
            host_free(data);
            n++;
        }
    }
    /* dots of floats on none, pairs of float32 on sm_100 */
    assert_int_equal(n, ARRAY_LEN(archs) * (CHAIN_KIND_COUNT - 3) + 1);
}

static void
test_amd(void **state)
{
    static const struct {
        const char *arch;
        enum isa_gen gen;
        bool has_duals; /* of two accumulators by one instruction */
        const char *names[CHAIN_KIND_COUNT];
    } rows[] = {
        {"gfx90a",
         ISA_GFX90A,
         false,
         {"V_FMAC_F32", "V_PK_FMA_F32", "V_FMAC_F64", "V_PK_FMA_F16", NULL,
          "V_MAD_U64_U32", "V_DOT4C_I32_I8", "V_DOT2ACC_F32_F16", NULL}},
        {"gfx942",
         ISA_GFX942,
         false,
         {"V_FMAC_F32", "V_PK_FMA_F32", "V_FMAC_F64", "V_PK_FMA_F16", NULL,
          "V_MAD_U64_U32", "V_DOT4C_I32_I8", "V_DOT2ACC_F32_F16", NULL}},
        {"gfx1030",
         ISA_GFX10,
         false,
         {"V_FMAC_F32", NULL, "V_FMA_F64", "V_PK_FMA_F16", NULL,
          "V_MAD_U64_U32", "V_DOT4C_I32_I8", "V_DOT2ACC_F32_F16", NULL}},
        {"gfx1100",
         ISA_GFX11,
         true,
         {"V_FMAC_F32", NULL, "V_FMA_F64", "V_PK_FMA_F16", NULL,
          "V_MAD_U64_U32", "V_DOT4_I32_IU8", "V_DOT2ACC_F32_F16",
          "V_DOT2_F32_BF16"}},
        {"gfx1201",
         ISA_GFX12,
         true,
         {"V_FMAC_F32", NULL, "V_FMA_F64", "V_PK_FMA_F16", NULL,
          "V_MAD_U64_U32", "V_DOT4_I32_IU8", "V_DOT2_F32_F16",
          "V_DOT2_F32_BF16"}},
    };
    size_t i, size;
    int k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_device_info info = info_of("AMD", rows[i].arch, 0);

        for (k = 0; k < CHAIN_KIND_COUNT; k++) {
            const char *name = rows[i].names[k];
            uint32_t n_duals = 0;
            struct chain chain;
            bell_status status;
            void *data;

            status =
                chain_binary(&info, (enum chain_kind)k, &chain, &data, &size);
            assert_int_equal(status, name ? BELL_OK : BELL_E_UNSUPPORTED);
            if (!name)
                continue;
            assert_int_equal(count_amd(rows[i].gen, data, name, &n_duals),
                             chain.n_insns);
            if (k == CHAIN_FMA_F32 && rows[i].has_duals)
                assert_int_equal(n_duals, chain.n_insns / 2);
            host_free(data);
        }
    }
}

static void
test_ir3(void **state)
{
    static const struct {
        enum chain_kind kind;
        enum ir3_op op;
        uint32_t n; /* for each time that a chain is added to */
    } rows[] = {
        {CHAIN_FMA_F32, IR3_MAD_F32, 1},
        {CHAIN_FMA_F16, IR3_MAD_F16, 2},
        {CHAIN_MAD_I32, IR3_MULL_U, 1},
        {CHAIN_MAD_I32, IR3_MADSH_M16, 2},
    };
    static const struct {
        const char *arch;
        enum ir3_gen gen;
    } archs[] = {{"a630", IR3_GEN_A6XX},
                 {"a740", IR3_GEN_A7XX},
                 {"a750", IR3_GEN_A7XX_3}};
    size_t i, k, size;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(archs); i++) {
        struct hcq_device_info info =
            info_of("QCOM", archs[i % ARRAY_LEN(archs)].arch, 0);
        uint32_t count = 0;
        struct chain chain;
        uint64_t *words;
        void *data;

        assert_int_equal(chain_binary(&info, rows[i / ARRAY_LEN(archs)].kind,
                                      &chain, &data, &size),
                         BELL_OK);
        words = (uint64_t *)((struct ir3_object *)data + 1);
        for (k = 0; k < ((struct ir3_object *)data)->n_instrs; k++) {
            struct ir3_instr instr;
            uint64_t unused;

            assert_true(ir3_decode(archs[i % ARRAY_LEN(archs)].gen, words[k],
                                   &instr, &unused));
            count += instr.op == rows[i / ARRAY_LEN(archs)].op;
        }
        assert_int_equal(count, rows[i / ARRAY_LEN(archs)].n * chain.n_insns);
        host_free(data);
        assert_int_equal(
            chain_binary(&info, CHAIN_FMA_F64, &chain, &data, &size),
            BELL_E_UNSUPPORTED);
        assert_int_equal(
            chain_binary(&info, CHAIN_DOT_I8, &chain, &data, &size),
            BELL_E_UNSUPPORTED);
    }
}

/* ---- others ---- */

static void
test_cl(void **state)
{
    struct hcq_device_info info = info_of("CL", "cl12+fma+fp64", 0);
    struct chain chain;
    size_t size;
    void *data;

    (void)state;
    assert_int_equal(chain_binary(&info, CHAIN_FMA_F64, &chain, &data, &size),
                     BELL_OK);
    assert_int_equal(count_text(data, size, " = fma("), chain.n_insns);
    host_free(data);
    info = info_of("CL", "cl12", 0);
    assert_int_equal(chain_binary(&info, CHAIN_FMA_F32, &chain, &data, &size),
                     BELL_E_UNSUPPORTED);
    assert_int_equal(chain_binary(&info, CHAIN_DOT_I8, &chain, &data, &size),
                     BELL_E_UNSUPPORTED);
    info = info_of("NONE", "none", 0);
    assert_int_equal(chain_binary(&info, CHAIN_FMA_F32, &chain, &data, &size),
                     BELL_E_UNSUPPORTED);
}

#if defined(__x86_64__)
/* What objdump says of an object, which has one function. */
static void
disassemble(const void *data, size_t size, char *text, size_t cap)
{
    char path[] = "/tmp/test-chain-XXXXXX", command[96];
    int fd = mkstemp(path);
    FILE *file;

    assert_true(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    snprintf(command, sizeof(command), "objdump -d %s 2>/dev/null", path);
    file = popen(command, "r");
    assert_non_null(file);
    text[fread(text, 1, cap - 1, file)] = '\0';
    pclose(file);
    unlink(path);
}

static void
test_host(void **state)
{
    static const char *const names[CHAIN_KIND_COUNT] = {
        [CHAIN_FMA_F32] = "fmadd231ps", [CHAIN_FMA_F64] = "fmadd231pd",
        [CHAIN_FMA_F16] = "fmadd231ph", [CHAIN_MAD_I32] = "pmulld",
        [CHAIN_DOT_I8] = "vpdpbusd",    [CHAIN_DOT_BF16] = "vdpbf16ps",
    };
    struct hcq_device_info info = info_of("CPU", "x86-64", 0);
    static char text[1 << 16];
    size_t size;
    int k;

    (void)state;
    if (!__builtin_cpu_supports("fma"))
        skip();
    for (k = 0; k < CHAIN_KIND_COUNT; k++) {
        struct chain chain;
        void *data;

        if (chain_binary(&info, (enum chain_kind)k, &chain, &data, &size) !=
            BELL_OK) {
            assert_int_equal(bell_error_last()->status, BELL_E_UNSUPPORTED);
            continue;
        }
        assert_non_null(names[k]);
        disassemble(data, size, text, sizeof(text));
        host_free(data);
        if (!strstr(text, "chain_"))
            skip(); /* no objdump, or one that cannot read it */
        assert_int_equal(count_text(text, strlen(text), names[k]),
                         chain.n_insns);
    }
}
#else
static void
test_host(void **state)
{
    (void)state;
    skip();
}
#endif

/* ---- what comes out ---- */

static uint32_t
f32_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* The sums by another way, of chains as chain.c says that they begin. */
static void
test_results(void **state)
{
    struct hcq_device_info info = info_of("NV", "sm_90", HCQ_DEVICE_SIMULATED);
    const uint64_t rounds[] = {1, 7, 1000};
    uint32_t t, i, n, k;
    struct chain f32, i32, i8;
    size_t size, r;
    void *data;

    (void)state;
    assert_int_equal(chain_binary(&info, CHAIN_FMA_F32, &f32, &data, &size),
                     BELL_OK);
    host_free(data);
    assert_int_equal(chain_binary(&info, CHAIN_MAD_I32, &i32, &data, &size),
                     BELL_OK);
    host_free(data);
    assert_int_equal(chain_binary(&info, CHAIN_DOT_I8, &i8, &data, &size),
                     BELL_OK);
    host_free(data);
    for (r = 0; r < ARRAY_LEN(rounds); r++) {
        n = (uint32_t)rounds[r] * 4;
        for (t = 0; t < CHAIN_RESULTS; t++) {
            uint32_t floats = 0, ints = 0, dots = 0;

            for (i = 0; i < 8; i++) {
                float x = ldexpf(1 + (float)t / 8, (int)i);
                uint32_t y = 1 + t + 8 * i, z = y;

                for (k = 0; k < n; k++) {
                    x = fmaf(0.25f, 4 + (float)t / 2, x);
                    y = y * 214013 + 2531011 + t;
                    z += 1 + 5 * t;
                }
                floats += f32_bits(x);
                ints += y;
                dots += z;
            }
            assert_int_equal(chain_result(&f32, t, rounds[r]), floats);
            assert_int_equal(chain_result(&i32, t + 8, rounds[r]), ints);
            assert_int_equal(chain_result(&i8, t + 16, rounds[r]), dots);
        }
    }
}

/* Every allocation that fails is an error and leaks nothing. */
static void
test_no_memory(void **state)
{
    struct hcq_device_info info = info_of("NV", "sm_90", HCQ_DEVICE_SIMULATED);
    struct chain chain;
    uint64_t nth;
    size_t size;
    void *data;

    (void)state;
    for (nth = 1;; nth++) {
        bell_status status;

        host_fail_after(nth, 1);
        status = chain_binary(&info, CHAIN_DOT_I8, &chain, &data, &size);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    host_free(data);
    assert_true(nth > 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ptx),     cmocka_unit_test(test_ptxas),
        cmocka_unit_test(test_amd),     cmocka_unit_test(test_ir3),
        cmocka_unit_test(test_cl),      cmocka_unit_test(test_host),
        cmocka_unit_test(test_results), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
