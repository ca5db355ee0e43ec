/* Chains: the kinds, what comes out of them, and their launch. */
#include "tools/chain/chain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tools/chain/chain_internal.h"

const char *const chain_names[CHAIN_KIND_COUNT] = {
    "fma_f32", "fma_f32x2", "fma_f64", "fma_f16",  "fma_bf16",
    "mad_i32", "dot_i8",    "dot_f16", "dot_bf16",
};

const char *const chain_texts[CHAIN_KIND_COUNT] = {
    "multiply-adds of registers, float32",
    "multiply-adds of pairs of float32",
    "multiply-adds of registers, float64",
    "multiply-adds of registers, float16",
    "multiply-adds of registers, bfloat16",
    "multiply-adds of registers, int32",
    "dot products of 4 int8 into int32",
    "dot products of 2 float16 into float32",
    "dot products of 2 bfloat16 into float32",
};

/* Floats begin with 1 + t/8, times a power of 2 by chain or a little more; a is
 * 1/4, b 4 + t/2. The second product of a dot is 1/4. */
const struct chain_form chain_forms[CHAIN_KIND_COUNT] = {
    [CHAIN_FMA_F32] = {CHAIN_F32, 32, 1, 1, CHAIN_F32, 0x3f800000, 0x00100000,
                       0x00800000, 0x3e800000, 0x40800000, 0x00100000},
    [CHAIN_FMA_F32X2] = {CHAIN_F32, 64, 2, 1, CHAIN_F32, 0x400000003f800000,
                         0x0010000000100000, 0x0080000000800000,
                         0x3e8000003e800000, 0x4080000040800000,
                         0x0010000000100000},
    [CHAIN_FMA_F64] = {CHAIN_F64, 64, 1, 1, CHAIN_F64, 0x3ff0000000000000,
                       0x0002000000000000, 0x0010000000000000,
                       0x3fd0000000000000, 0x4010000000000000,
                       0x0002000000000000},
    [CHAIN_FMA_F16] = {CHAIN_F16, 32, 2, 1, CHAIN_F16, 0x3c083c00, 0x00800080,
                       0x00100010, 0x34003400, 0x44004400, 0x00800080},
    [CHAIN_FMA_BF16] = {CHAIN_BF16, 32, 2, 1, CHAIN_BF16, 0x3f813f80,
                        0x00100010, 0x00020002, 0x3e803e80, 0x40804080,
                        0x00100010},
    [CHAIN_MAD_I32] = {CHAIN_I32, 32, 1, 1, CHAIN_I32, 1, 1, 8, 214013, 2531011,
                       1},
    /* 5 (3 + t) - 7 * 2 + 4 - 2 * 2: factors of one side are not negative */
    [CHAIN_DOT_I8] = {CHAIN_I32, 32, 1, 4, CHAIN_I32, 1, 1, 8, 0x02010705,
                      0xfe04fe03, 1},
    [CHAIN_DOT_F16] = {CHAIN_F32, 32, 1, 2, CHAIN_F16, 0x3f800000, 0x00100000,
                       0x00800000, 0x38003400, 0x38004400, 0x00000080},
    [CHAIN_DOT_BF16] = {CHAIN_F32, 32, 1, 2, CHAIN_BF16, 0x3f800000, 0x00100000,
                        0x00800000, 0x3f003e80, 0x3f004080, 0x00000010},
};

/* ---- texts --------------------------------------------------------------- */

void
chain_put(struct chain_text *text, const char *fmt, ...)
{
    size_t room = sizeof(text->bytes) - text->used;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text->bytes + text->used, room, fmt, args);
    va_end(args);
    text->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

void
chain_put_insn(struct chain_text *text, const char *insn,
               const struct chain_insn_names *names)
{
    for (; *insn; insn++) {
        if (*insn != '$') {
            chain_put(text, "%c", *insn);
            continue;
        }
        insn++;
        chain_put(text, "%s",
                  *insn == 'd'   ? names->d
                  : *insn == 'c' ? names->c
                  : *insn == 'a' ? names->a
                  : *insn == 'b' ? names->b
                                 : names->t);
    }
}

bool
chain_is_listed(const char *list, const char *arch)
{
    size_t n = strlen(arch);
    const char *at = list;

    while (n && (at = strstr(at, arch)) != NULL) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
        at += n;
    }
    return false;
}

bell_status
chain_lacks(const struct hcq_device_info *info)
{
    return bell_fail(BELL_E_UNSUPPORTED, "%s (%s) has no such instruction",
                     info->model, info->arch);
}

/* ---- what comes out ------------------------------------------------------ */

struct float_layout {
    int n_exponent, n_fraction;
};

static const struct float_layout layouts[] = {
    [CHAIN_F32] = {8, 23},
    [CHAIN_F64] = {11, 52},
    [CHAIN_F16] = {5, 10},
    [CHAIN_BF16] = {8, 7},
};

/* The value of a float that is neither 0 nor small nor infinite: nothing here
 * is. */
static double
value_of(enum chain_type type, uint64_t bits)
{
    const struct float_layout *l = &layouts[type];
    int bias = (1 << (l->n_exponent - 1)) - 1;
    int exponent = (int)(bits >> l->n_fraction & ((1u << l->n_exponent) - 1));
    uint64_t one = (uint64_t)1 << l->n_fraction;

    return ldexp((double)(one | (bits & (one - 1))),
                 exponent - bias - l->n_fraction);
}

static uint64_t
bits_of(enum chain_type type, double value)
{
    const struct float_layout *l = &layouts[type];
    int bias = (1 << (l->n_exponent - 1)) - 1, exponent;
    uint64_t one = (uint64_t)1 << l->n_fraction;
    double part = frexp(value, &exponent); /* 0.5 to 1 */

    return ((uint64_t)(exponent - 1 + bias) << l->n_fraction) |
           ((uint64_t)ldexp(part, l->n_fraction + 1) & (one - 1));
}

static double
round_to(enum chain_type type, double value)
{
    int exponent, n = layouts[type].n_fraction + 1;

    if (type == CHAIN_F64)
        return value;
    if (type == CHAIN_F32)
        return (float)value;
    value = frexp(value, &exponent);
    return ldexp(rint(ldexp(value, n)), exponent - n);
}

/* The sum x + n times `step`, each rounded: an instruction rounds it once, of
 * numbers that a double holds. */
static uint64_t
add_floats(enum chain_type type, uint64_t bits, double step, uint64_t n)
{
    double x = value_of(type, bits);

    while (n-- > 0) {
        double next = round_to(type, x + step);

        if (next == x)
            break;
        x = next;
    }
    return bits_of(type, x);
}

static uint64_t
add_ints(uint32_t x, uint32_t a, uint32_t b, unsigned n_products, uint64_t n)
{
    uint32_t dot = 0;
    unsigned i;

    if (n_products == 1) {
        while (n-- > 0)
            x = x * a + b;
        return x;
    }
    for (i = 0; i < 4; i++)
        dot += (uint32_t)((int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i));
    return x + dot * (uint32_t)n;
}

/* Number i of a word. */
static uint64_t
part_of(uint64_t word, unsigned i, unsigned bits)
{
    return word >> (i * bits) & (UINT64_MAX >> (64 - bits));
}

static unsigned
bits_in(enum chain_type type)
{
    return type == CHAIN_I32 ? 32
                             : (unsigned)(1 + layouts[type].n_exponent +
                                          layouts[type].n_fraction);
}

/* A word after n times the instruction. */
static uint64_t
run_word(const struct chain_form *form, uint64_t word, uint64_t a, uint64_t b,
         uint64_t n)
{
    unsigned bits = bits_in(form->type), in = bits_in(form->factor), i, k;
    uint64_t out = 0;

    if (form->type == CHAIN_I32)
        return add_ints((uint32_t)word, (uint32_t)a, (uint32_t)b,
                        form->n_products, n);
    for (i = 0; i < form->n_numbers; i++) {
        double step = 0;

        for (k = 0; k < form->n_products; k++) {
            unsigned at = i * form->n_products + k;

            step += value_of(form->factor, part_of(a, at, in)) *
                    value_of(form->factor, part_of(b, at, in));
        }
        out |= add_floats(form->type, part_of(word, i, bits), step, n)
               << (i * bits);
    }
    return out;
}

uint64_t
chain_result(const struct chain *chain, uint32_t thread, uint64_t n_rounds)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    uint64_t n = n_rounds * (chain->n_insns / chain->n_chains), sum = 0;
    uint64_t t = thread % CHAIN_RESULTS;
    uint32_t i;

    for (i = 0; i < chain->n_chains; i++)
        sum += run_word(
            form, form->first + t * form->first_thread + i * form->first_chain,
            form->a, form->b + t * form->b_thread, n);
    sum *= chain->n_lanes;
    return form->word_bits == 64 ? sum : (uint32_t)sum;
}

/* ---- kernels ------------------------------------------------------------- */

bell_status
chain_binary(const struct hcq_device_info *info, enum chain_kind kind,
             struct chain *out_chain, void **out_data, size_t *out_size_bytes)
{
    static const struct {
        const char *backend;
        bell_status (*make)(const struct hcq_device_info *info,
                            struct chain *chain, struct chain_text *text,
                            struct render_binary *out);
    } makers[] = {
        {"NV", chain_make_ptx},   {"AMD", chain_make_amd},
        {"CPU", chain_make_host}, {"CL", chain_make_cl},
        {"QCOM", chain_make_ir3},
    };
    const struct chain_form *form = &chain_forms[kind];
    struct chain chain = {.kind = kind,
                          .n_threads = 256,
                          .n_insns = 32,
                          .n_chains = 8,
                          .result_bytes = form->word_bits / 8,
                          .n_lanes = 1,
                          .factors = {form->a, form->b}};
    struct render_binary binary;
    struct chain_text *text;
    bell_status status;
    size_t i;

    for (i = 0; i < ARRAY_LEN(makers); i++) {
        if (strcmp(makers[i].backend, info->backend) == 0)
            break;
    }
    if (i == ARRAY_LEN(makers))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "there is no kernel by hand for "
                         "%s",
                         info->arch);
    snprintf(chain.name, sizeof(chain.name), "chain_%s", chain_names[kind]);
    text = host_alloc(sizeof(*text));
    if (!text)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a kernel's text");
    text->used = 0;
    status = makers[i].make(info, &chain, text, &binary);
    host_free(text);
    BELL_TRY(status);
    chain.ops = 2.0 * form->n_products * form->n_numbers * chain.n_lanes *
                chain.n_insns;
    *out_chain = chain;
    *out_data = binary.data;
    *out_size_bytes = binary.size_bytes;
    return BELL_OK;
}

bell_status
chain_load(struct hcq_device *dev, enum chain_kind kind,
           struct chain *out_chain)
{
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc), .n_bufs = 1, .n_vals = 3};
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_program *prog;
    struct chain chain;
    bell_status status;
    size_t size_bytes;
    void *data;

    hcq_device_info(dev, &info);
    BELL_TRY(chain_binary(&info, kind, &chain, &data, &size_bytes));
    desc.name = chain.name;
    desc.binary = data;
    desc.binary_size_bytes = size_bytes;
    desc.local[0] = chain.n_threads;
    desc.local[1] = desc.local[2] = 1;
    status = hcq_program_create(dev, &desc, &prog);
    host_free(data);
    BELL_TRY(status);
    chain.prog = prog;
    *out_chain = chain;
    return BELL_OK;
}

void
chain_launch(const struct chain *chain, struct hcq_cs *cs, uint64_t results_va,
             uint64_t n_rounds, uint32_t n_groups)
{
    const uint64_t args[4] = {results_va, n_rounds, chain->factors[0],
                              chain->factors[1]};
    const uint32_t grid[3] = {n_groups, 1, 1},
                   local[3] = {chain->n_threads, 1, 1};

    hcq_cs_exec(cs, chain->prog, args, 4, grid, local);
}
