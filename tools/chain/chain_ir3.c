/* Chains for Adreno, in the text of its shaders' assembler. Nothing stops an
 * instruction from reading what is not there yet: others stand between, or
 * nops. Halves of registers make pairs of float16.
 * src: docs/hardware/adreno-code.md, "Timing" */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "render/ir3/ir3.h"
#include "tools/chain/chain_internal.h"

#define N_INSTRS_MAX 512u
#define N_CHAINS     8u

_Static_assert(sizeof(struct ir3_object) % 8 == 0, "code follows at once");

/* Instructions of an object, of which the first that is wrong is told. */
struct code {
    enum ir3_gen gen;
    uint32_t n;
    bell_status status;
    struct {
        struct ir3_object head;
        uint64_t words[N_INSTRS_MAX];
    } object;
};

/* And, where it is asked for, time until its result can be read. */
static void
put_ir3(struct code *c, const char *text, bool waits)
{
    struct ir3_instr instr;

    if (c->status == BELL_OK)
        c->status = ir3_parse(c->gen, text, &instr);
    if (c->status != BELL_OK)
        return;
    assert(c->n < N_INSTRS_MAX);
    c->object.words[c->n++] = ir3_encode(&instr);
    if (waits)
        put_ir3(c, "(rpt5)nop", false);
}

static void putf(struct code *c, bool waits, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
putf(struct code *c, bool waits, const char *fmt, ...)
{
    char text[IR3_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    put_ir3(c, text, waits);
}

/* Arguments to r8.x on: two words of each, four. */
static void
put_args(struct code *c)
{
    bool is_loaded = c->gen == IR3_GEN_A7XX_3;

    put_ir3(c,
            is_loaded ? "ldc.offset0.4.imm r8.x, 0, 0"
                      : "(rpt3)mov.u32u32 r8.x, (r)c0.x",
            false);
    put_ir3(c,
            is_loaded ? "ldc.offset0.4.imm r9.x, 1, 0"
                      : "(rpt3)mov.u32u32 r9.x, (r)c1.x",
            false);
    put_ir3(c, "(sy)nop", true);
}

/* r1.y: the thread's share of words, which is the same in b as in what chains
 * begin with; r0.w: its number in the grid; a in r2.x, b in r2.y, rounds in
 * r2.z; chains in r4.x on. */
static void
put_ir3_start(struct code *c, const struct chain *chain)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    unsigned shift = form->type == CHAIN_F32   ? 20
                     : form->type == CHAIN_F16 ? 7
                                               : 0;
    uint32_t i;

    assert(form->b_thread == form->first_thread);
    put_args(c);
    put_ir3(c, "mov.u32u32 r0.w, r48.x", true);
    put_ir3(c, "shl.b r0.w, r0.w, 8", false); /* groups of 256 */
    putf(c, true, "and.b r1.x, r0.x, %u", CHAIN_RESULTS - 1);
    put_ir3(c, "add.u r0.w, r0.w, r0.x", false);
    putf(c, true, "shl.b r1.y, r1.x, %u", shift);
    if (form->n_numbers == 2) {
        put_ir3(c, "shl.b r1.x, r1.y, 16", true);
        put_ir3(c, "or.b r1.y, r1.y, r1.x", false);
    }
    put_ir3(c, "mov.u32u32 r2.x, r9.x", false);
    put_ir3(c, "mov.u32u32 r2.z, r8.z", false);
    put_ir3(c, "mov.u32u32 r2.y, r9.z", true);
    put_ir3(c, "add.u r2.y, r2.y, r1.y", false);
    for (i = 0; i < N_CHAINS; i++)
        putf(c, i + 1 == N_CHAINS, "mov.u32u32 r%u.%c, %u", 4 + i / 4,
             "xyzw"[i % 4], (unsigned)(form->first + i * form->first_chain));
    for (i = 0; i < N_CHAINS; i++)
        putf(c, i + 1 == N_CHAINS, "add.u r%u.%c, r%u.%c, r1.y", 4 + i / 4,
             "xyzw"[i % 4], 4 + i / 4, "xyzw"[i % 4]);
}

/* The product of 32 bits is made of three of 16; r6 and r7 hold its parts. */
static void
put_ir3_mads(struct code *c)
{
    uint32_t i, k;

    for (k = 0; k < 4; k++) {
        for (i = 0; i < N_CHAINS; i++) {
            unsigned x = 4 + i / 4, t = 6 + i / 4;
            char at = "xyzw"[i % 4];

            if (k == 0)
                putf(c, false, "mull.u r%u.%c, r%u.%c, r2.x", t, at, x, at);
            else if (k == 1)
                putf(c, false, "madsh.m16 r%u.%c, r%u.%c, r2.x, r%u.%c", t, at,
                     x, at, t, at);
            else if (k == 2)
                putf(c, false, "madsh.m16 r%u.%c, r2.x, r%u.%c, r%u.%c", t, at,
                     x, at, t, at);
            else
                putf(c, false, "add.u r%u.%c, r%u.%c, r2.y", x, at, t, at);
        }
    }
}

/* All chains once; both halves of each. */
static void
put_ir3_turn(struct code *c, enum chain_kind kind)
{
    uint32_t i, n = kind == CHAIN_FMA_F16 ? 2 * N_CHAINS : N_CHAINS;

    if (kind == CHAIN_MAD_I32) {
        put_ir3_mads(c);
        return;
    }
    for (i = 0; i < n; i++) {
        unsigned full = 4 + i / 4, half = 8 + i / 4;
        char at = "xyzw"[i % 4];

        if (kind == CHAIN_FMA_F32)
            putf(c, false, "mad.f32 r%u.%c, r2.x, r2.y, r%u.%c", full, at, full,
                 at);
        else
            putf(c, false, "mad.f16 hr%u.%c, hr4.%c, hr4.%c, hr%u.%c", half, at,
                 "xy"[i % 2], "zw"[i % 2], half, at);
    }
}

static void
put_round(struct code *c, const struct chain *chain)
{
    uint32_t first = c->n, i;

    for (i = 0; i < chain->n_insns / N_CHAINS; i++)
        put_ir3_turn(c, chain->kind);
    put_ir3(c, "sub.u r2.z, r2.z, 1", true);
    put_ir3(c, "cmps.u.ne p0.x, r2.z, 0", true);
    putf(c, false, "br p0.x, #%d", (int)first - (int)c->n);
}

/* Adds the chains up, and stores. */
static void
put_ir3_end(struct code *c)
{
    uint32_t end, i;

    put_ir3(c, "(jp)nop", true);
    for (i = 1; i < N_CHAINS; i++)
        putf(c, true, "add.u r4.x, r4.x, r%u.%c", 4 + i / 4, "xyzw"[i % 4]);
    put_ir3(c, "shl.b r1.x, r0.w, 2", false);
    put_ir3(c, "add.u r1.w, 0, r8.y", true);
    put_ir3(c, "add.u r2.x, r1.x, r8.x", true);
    put_ir3(c, "cmps.u.lt r1.y, r2.x, r1.x", true);
    put_ir3(c, "add.u r2.y, r1.w, r1.y", true);
    put_ir3(c, "stg.u32 g[r2.x], r4.x, 1", false);
    if (c->gen != IR3_GEN_A6XX) {
        put_ir3(c, "(sy)(ss)lock", false);
        put_ir3(c, "unlock", false);
    }
    put_ir3(c, c->gen != IR3_GEN_A6XX ? "end" : "(sy)(ss)end", false);
    end = c->n;
    do /* the chip fetches ahead */
        put_ir3(c, "nop", false);
    while (c->n % 16 || c->n < end + 4);
}

bell_status
chain_make_ir3(const struct hcq_device_info *info, struct chain *chain,
               struct chain_text *text, struct render_binary *out)
{
    struct code *code;
    bell_status status;
    enum ir3_gen gen;
    size_t size;

    (void)text;
    if (!render_ir3_gen(info->arch, &gen))
        return bell_fail(BELL_E_UNSUPPORTED, "%s: no shaders are made for it",
                         info->arch);
    if (chain->kind == CHAIN_FMA_F64 || chain->kind == CHAIN_FMA_F32X2 ||
        chain->kind == CHAIN_FMA_BF16)
        return chain_lacks(info);
    if (chain->kind != CHAIN_FMA_F32 && chain->kind != CHAIN_FMA_F16 &&
        chain->kind != CHAIN_MAD_I32)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "there is no kernel by hand for Adreno");
    code = host_calloc(1, sizeof(*code));
    if (!code)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a kernel");
    *code = (struct code){.gen = gen};
    put_ir3_start(code, chain);
    put_round(code, chain);
    put_ir3_end(code);
    status = code->status;
    if (status != BELL_OK) {
        host_free(code);
        return status;
    }
    code->object.head = (struct ir3_object){
        .magic = IR3_OBJECT_MAGIC,
        .version = IR3_OBJECT_VERSION,
        .gen = gen,
        .n_instrs = code->n,
        .n_full_vec4 = 10,
        .n_const_vec4 = gen == IR3_GEN_A7XX_3 ? 0 : 2,
        .branch_depth = 1,
        .n_params = 1,
        .n_vars = 3,
        .local = {chain->n_threads, 1, 1},
    };
    size = sizeof(code->object.head) + code->n * sizeof(uint64_t);
    memmove(code, &code->object, size);
    out->data = code;
    out->size_bytes = size;
    return BELL_OK;
}
