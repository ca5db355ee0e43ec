/* Chains in LLVM's IR, for AMD's cards and for the CPU, where words are vectors
 * of words. */
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/bits.h"
#include "base/chip.h"
#include "render/llvm/amdgpu.h"
#include "tools/chain/chain_internal.h"

/* An instruction: its text, of words of the types given. */
struct llvm_insn {
    const char *declare, *text;
    const char *type;   /* of accumulators */
    const char *factor; /* NULL: the same */
};

/* ---- what is the same ---------------------------------------------------- */

static void
put_chain_start(struct chain_text *text, const struct chain *chain,
                const char *words, const char *first)
{
    uint32_t i;

    for (i = 0; i < chain->n_chains; i++)
        chain_put(text,
                  "%%w%u_0 = phi %s [ %%s%u, %%%s ], [ %%w%u_%u, %%round ]\n",
                  i, words, i, first, i, chain->n_insns / chain->n_chains);
}

/* The round's instructions: words to numbers and back, which is nothing. Every
 * second chain takes its factor from `odd`, "%e". */
static void
put_insns(struct chain_text *text, const struct chain *chain, const char *words,
          const struct llvm_insn *insn, const char *odd)
{
    struct chain_insn_names names = {.a = "%a", .t = insn->type};
    uint32_t i, n = chain->n_chains;

    for (i = 0; i < chain->n_insns; i++) {
        uint32_t c = i % n, turn = i / n;

        names.b = c % 2 ? odd : "%b";
        snprintf(names.c, sizeof(names.c), "%%c%u_%u", c, turn);
        snprintf(names.d, sizeof(names.d), "%%d%u_%u", c, turn);
        chain_put(text, "%s = bitcast %s %%w%u_%u to %s\n", names.c, words, c,
                  turn, insn->type);
        chain_put_insn(text, insn->text, &names);
        chain_put(text, "%%w%u_%u = bitcast %s %s to %s\n", c, turn + 1,
                  insn->type, names.d, words);
    }
}

/* %sum is that of all chains. */
static void
put_chain_sum(struct chain_text *text, const struct chain *chain,
              const char *words)
{
    uint32_t turns = chain->n_insns / chain->n_chains, i;

    chain_put(text, "%%z0 = add %s %%w0_%u, zeroinitializer\n", words, turns);
    for (i = 1; i < chain->n_chains; i++)
        chain_put(text, "%%z%u = add %s %%z%u, %%w%u_%u\n", i, words, i - 1, i,
                  turns);
}

/* ---- AMD ----------------------------------------------------------------- */

#define FMA(t, s)                                                              \
    {                                                                          \
        "declare " t " @llvm.fma." s "(" t ", " t ", " t ")\n",                \
            "$d = call $t @llvm.fma." s "($t $a, $t $b, $t $c)\n", t, NULL     \
    }

static const struct {
    const char *families; /* NULL: all */
    enum chain_kind kind;
    struct llvm_insn insn;
} amd_insns[] = {
    /* src: LLVM 19, "User Guide for AMDGPU Backend" */
    {NULL, CHAIN_FMA_F32, FMA("float", "f32")},
    {"gfx90a gfx942", CHAIN_FMA_F32X2, FMA("<2 x float>", "v2f32")},
    {NULL, CHAIN_FMA_F64, FMA("double", "f64")},
    {NULL, CHAIN_FMA_F16, FMA("<2 x half>", "v2f16")},
    {NULL,
     CHAIN_MAD_I32,
     {"", "$d.0 = mul $t $c, $a\n$d = add $t $d.0, $b\n", "i32", NULL}},
    {"gfx906 gfx90a gfx942 gfx1010 gfx1030",
     CHAIN_DOT_I8,
     {"declare i32 @llvm.amdgcn.sdot4(i32, i32, i32, i1)\n",
      "$d = call i32 @llvm.amdgcn.sdot4(i32 $a, i32 $b, i32 $c, i1 false)\n",
      "i32", NULL}},
    {"gfx1100 gfx1201",
     CHAIN_DOT_I8,
     {"declare i32 @llvm.amdgcn.sudot4(i1, i32, i1, i32, i32, i1)\n",
      "$d = call i32 @llvm.amdgcn.sudot4(i1 true, i32 $a, i1 true, i32 $b, "
      "i32 $c, i1 false)\n",
      "i32", NULL}},
    {NULL,
     CHAIN_DOT_F16,
     {"declare float @llvm.amdgcn.fdot2(<2 x half>, <2 x half>, float, i1)\n",
      "$d = call float @llvm.amdgcn.fdot2(<2 x half> $a, <2 x half> $b, "
      "float $c, i1 false)\n",
      "float", "<2 x half>"}},
    {"gfx1100 gfx1201",
     CHAIN_DOT_BF16,
     {"declare float @llvm.amdgcn.fdot2.f32.bf16(<2 x bfloat>, <2 x bfloat>, "
      "float, i1)\n",
      "$d = call float @llvm.amdgcn.fdot2.f32.bf16(<2 x bfloat> $a, "
      "<2 x bfloat> $b, float $c, i1 false)\n",
      "float", "<2 x bfloat>"}},
};

/* %e is %b in another register, by adding what nobody knows to be 0 before it
 * runs: two accumulators by one instruction take factors of different banks.
 * src: LLVM, "User Guide for AMDGPU Backend", VOPD. */
static const char amd_head[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "%sdefine amdgpu_kernel void @%s(ptr addrspace(1) %%p0, i64 %%p1, "
    "i64 %%p2, i64 %%p3) #0 {\n"
    "%%x = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "%%g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "%%at0 = mul i32 %%g, %u\n%%at1 = add i32 %%at0, %%x\n"
    "%%at = zext i32 %%at1 to i64\n"
    "%%t0 = and i32 %%x, %u\n%%t1 = zext i32 %%t0 to i64\n"
    "%%b0 = mul i64 %%t1, %llu\n%%b1 = add i64 %%b0, %%p3\n"
    "%%none = lshr i64 %%p1, 62\n%%e1 = add i64 %%b1, %%none\n";

/* A machine word may not be cut to its own size. */
static void
put_word(struct chain_text *text, const char *name, const char *from,
         unsigned bits)
{
    if (bits == 64)
        chain_put(text, "%%%s = add i64 %%%s, 0\n", name, from);
    else
        chain_put(text, "%%%s = trunc i64 %%%s to i32\n", name, from);
}

static void
put_amd(struct chain_text *text, const struct chain *chain,
        const struct llvm_insn *insn)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    const char *factor = insn->factor ? insn->factor : insn->type;
    const char *words = form->word_bits == 64 ? "i64" : "i32";
    unsigned bits = form->word_bits;
    uint32_t i;

    chain_put(text, amd_head, insn->declare, chain->name, chain->n_threads,
              CHAIN_RESULTS - 1, (unsigned long long)form->b_thread);
    put_word(text, "t", "t1", bits);
    put_word(text, "aw", "p2", bits);
    put_word(text, "bw", "b1", bits);
    put_word(text, "ew", "e1", bits);
    chain_put(text,
              "%%a = bitcast %s %%aw to %s\n%%b = bitcast %s %%bw to %s\n"
              "%%e = bitcast %s %%ew to %s\n",
              words, factor, words, factor, words, factor);
    for (i = 0; i < chain->n_chains; i++)
        chain_put(text,
                  "%%m%u = mul %s %%t, %llu\n%%s%u = add %s %%m%u, %llu\n", i,
                  words, (unsigned long long)form->first_thread, i, words, i,
                  (unsigned long long)(form->first + i * form->first_chain));
    chain_put(text, "br label %%round\nround:\n"
                    "%%left = phi i64 [ %%p1, %%0 ], [ %%left1, %%round ]\n");
    put_chain_start(text, chain, words, "0");
    put_insns(text, chain, words, insn, "%e");
    chain_put(text, "%%left1 = sub i64 %%left, 1\n"
                    "%%more = icmp ne i64 %%left1, 0\n"
                    "br i1 %%more, label %%round, label %%end\nend:\n");
    put_chain_sum(text, chain, words);
    chain_put(text,
              "%%to = getelementptr %s, ptr addrspace(1) %%p0, i64 %%at\n"
              "store %s %%z%u, ptr addrspace(1) %%to\nret void\n}\n",
              words, words, chain->n_chains - 1);
    chain_put(text,
              "attributes #0 = { "
              "\"amdgpu-flat-work-group-size\"=\"%u,%u\" " CHAIN_AMD_ATTRIBUTES
              " }\n",
              chain->n_threads, chain->n_threads);
}

bell_status
chain_make_amd(const struct hcq_device_info *info, struct chain *chain,
               struct chain_text *text, struct render_binary *out)
{
    const struct chip_arch *chip = chip_arch_find(info->arch);
    struct amdgpu_target target = {.arg_align_bytes = 0};
    bool is_dot = chain->kind == CHAIN_DOT_I8 || chain->kind == CHAIN_DOT_F16;
    size_t i;

    if (!chip || !chip->amd.family || (is_dot && chip->amd.lacks_dot))
        return chain_lacks(info);

    for (i = 0; i < ARRAY_LEN(amd_insns); i++) {
        if (amd_insns[i].kind == chain->kind &&
            (!amd_insns[i].families ||
             chain_is_listed(amd_insns[i].families, chip->amd.family)))
            break;
    }
    if (i == ARRAY_LEN(amd_insns))
        return chain_lacks(info);
    /* of 8, registers do not make pairs for two by one instruction */
    chain->n_chains = 10;
    chain->n_insns = 40;
    snprintf(target.gfx, sizeof(target.gfx), "%.15s", info->arch);
    put_amd(text, chain, &amd_insns[i].insn);
    return render_amdgpu_ir(text->bytes, chain->name, &target, out);
}

/* ---- the CPU ------------------------------------------------------------- */

/* src: Intel 64 and IA-32 Software Developer's Manual, CPUID leaf 7 */
#define EDX_AVX512_FP16 (1u << 23)
#define EAX_AVX_VNNI    (1u << 4) /* of subleaf 1 */

/* One of these bits of a subleaf of leaf 7. */
static bool
has_feature(unsigned subleaf, unsigned in_eax, unsigned in_edx)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid_count(7, subleaf, &a, &b, &c, &d) &&
           ((a & in_eax) | (d & in_edx)) != 0;
#else
    (void)subleaf, (void)in_eax, (void)in_edx;
    return false;
#endif
}

/* Texts for vectors of n bytes. */
struct host_insn {
    struct llvm_insn insn;
    char declare[160], text[160], type[24], factor[24];
};

static void
host_call(struct host_insn *h, const char *type, const char *factor,
          const char *name)
{
    snprintf(h->type, sizeof(h->type), "%s", type);
    snprintf(h->factor, sizeof(h->factor), "%s", factor);
    snprintf(h->declare, sizeof(h->declare), "declare %s @%s(%s, %s, %s)\n",
             type, name, type, factor, factor);
    snprintf(h->text, sizeof(h->text),
             "$d = call %s @%s(%s $c, %s $a, %s $b)\n", type, name, type,
             factor, factor);
    h->insn = (struct llvm_insn){h->declare, h->text, h->type, h->factor};
}

/* A chain of floats, "half" or "f16". Without one instruction for it, products
 * are by 1, which nobody knows before it runs. */
static void
host_fma(struct host_insn *h, struct chain *chain, const char *name,
         const char *suffix, unsigned n, bool is_fused)
{
    snprintf(h->type, sizeof(h->type), "<%u x %s>", n, name);
    if (!is_fused) {
        h->insn = (struct llvm_insn){
            "", "$d.0 = fmul $t $c, $a\n$d = fadd $t $d.0, $b\n", h->type,
            NULL};
        chain->factors[0] = chain->factors[1] =
            chain->kind == CHAIN_FMA_F64 ? 0x3ff0000000000000u : 0x3f800000u;
        return;
    }
    snprintf(h->declare, sizeof(h->declare),
             "declare %s @llvm.fma.v%u%s(%s, %s, %s)\n", h->type, n, suffix,
             h->type, h->type, h->type);
    snprintf(h->text, sizeof(h->text),
             "$d = call $t @llvm.fma.v%u%s($t $a, $t $b, $t $c)\n", n, suffix);
    h->insn = (struct llvm_insn){h->declare, h->text, h->type, NULL};
}

/* False: this processor has none. *bytes: of a vector. */
static bool
find_host_insn(const struct lower_target *target, struct chain *chain,
               unsigned *bytes, struct host_insn *h)
{
    switch (chain->kind) {
    case CHAIN_FMA_F32:
        host_fma(h, chain, "float", "f32", *bytes / 4, target->has_fma);
        return true;
    case CHAIN_FMA_F64:
        host_fma(h, chain, "double", "f64", *bytes / 8, target->has_fma);
        return true;
    case CHAIN_FMA_F16:
        if (*bytes < 64 || !has_feature(0, 0, EDX_AVX512_FP16))
            return false;
        host_fma(h, chain, "half", "f16", *bytes / 2, true);
        return true;
    case CHAIN_MAD_I32:
        snprintf(h->type, sizeof(h->type), "<%u x i32>", *bytes / 4);
        h->insn = (struct llvm_insn){
            "", "$d.0 = mul $t $c, $a\n$d = add $t $d.0, $b\n", h->type, NULL};
        return true;
    case CHAIN_DOT_I8:
        if (target->has_byte_dots)
            host_call(h, "<16 x i32>", "<16 x i32>",
                      "llvm.x86.avx512.vpdpbusd.512");
        else if (*bytes >= 32 && has_feature(1, EAX_AVX_VNNI, 0))
            host_call(h, "<8 x i32>", "<8 x i32>",
                      "llvm.x86.avx512.vpdpbusd.256");
        else
            return false;
        *bytes = target->has_byte_dots ? 64 : 32;
        return true;
    case CHAIN_DOT_BF16:
        /* steps of a word are these; who has tiles of bfloat16 has them, too */
        if (*bytes < 64 || !target->tiles_k[UOP_BF16])
            return false;
        host_call(h, "<16 x float>", "<32 x bfloat>",
                  "llvm.x86.avx512bf16.dpbf16ps.512");
        return true;
    case CHAIN_FMA_F32X2:
    case CHAIN_FMA_BF16:
    case CHAIN_DOT_F16:
    case CHAIN_KIND_COUNT:
        break;
    }
    return false;
}

static const char host_head[] =
    "%sdefine void @%s(ptr %%args, ptr %%grid, i64 %%first, i64 %%last) {\n"
    "%%q0 = load i64, ptr %%args\n%%p0 = inttoptr i64 %%q0 to ptr\n"
    "%%q1 = getelementptr i64, ptr %%args, i64 1\n%%p1 = load i64, ptr %%q1\n"
    "%%q2 = getelementptr i64, ptr %%args, i64 2\n%%p2 = load i64, ptr %%q2\n"
    "%%q3 = getelementptr i64, ptr %%args, i64 3\n%%p3 = load i64, ptr %%q3\n";

/* A vector of words, the factor `from`. */
static void
put_factor(struct chain_text *text, const char *name, const char *from,
           unsigned bits, unsigned n, const char *type)
{
    char word[8];

    snprintf(word, sizeof(word), "%sw", name);
    put_word(text, word, from, bits);
    chain_put(text,
              "%%%s0 = insertelement <%u x i%u> poison, i%u %%%sw, i32 0\n"
              "%%%s1 = shufflevector <%u x i%u> %%%s0, <%u x i%u> poison, "
              "<%u x i32> zeroinitializer\n"
              "%%%s = bitcast <%u x i%u> %%%s1 to %s\n",
              name, n, bits, bits, name, name, n, bits, name, n, bits, n, name,
              n, bits, name, type);
}

static void
put_host(struct chain_text *text, const struct chain *chain,
         const struct llvm_insn *insn)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    const char *factor = insn->factor ? insn->factor : insn->type;
    unsigned bits = form->word_bits, n = chain->n_lanes;
    char words[24];
    uint32_t i;

    snprintf(words, sizeof(words), "<%u x i%u>", n, bits);
    chain_put(text, "declare i%u @llvm.vector.reduce.add.v%ui%u(%s)\n", bits, n,
              bits, words);
    chain_put(text, host_head, insn->declare, chain->name);
    put_factor(text, "a", "p2", bits, n, factor);
    put_factor(text, "b", "p3", bits, n, factor);
    for (i = 0; i < chain->n_chains; i++)
        chain_put(text, "%%s%u = add %s zeroinitializer, splat (i%u %llu)\n", i,
                  words, bits,
                  (unsigned long long)(form->first + i * form->first_chain));
    chain_put(text,
              "br label %%group\ngroup:\n"
              "%%g = phi i64 [ %%first, %%0 ], [ %%g1, %%done ]\n"
              "%%is_one = icmp ult i64 %%g, %%last\n"
              "br i1 %%is_one, label %%enter, label %%end\n"
              "enter:\nbr label %%round\nround:\n"
              "%%left = phi i64 [ %%p1, %%enter ], [ %%left1, %%round ]\n");
    put_chain_start(text, chain, words, "enter");
    put_insns(text, chain, words, insn, "%b");
    chain_put(text, "%%left1 = sub i64 %%left, 1\n"
                    "%%more = icmp ne i64 %%left1, 0\n"
                    "br i1 %%more, label %%round, label %%done\ndone:\n");
    put_chain_sum(text, chain, words);
    chain_put(text,
              "%%sum = call i%u @llvm.vector.reduce.add.v%ui%u(%s %%z%u)\n"
              "%%to = getelementptr i%u, ptr %%p0, i64 %%g\n"
              "store i%u %%sum, ptr %%to\n%%g1 = add i64 %%g, 1\n"
              "br label %%group\nend:\nret void\n}\n",
              bits, n, bits, words, chain->n_chains - 1, bits, bits);
}

bell_status
chain_make_host(const struct hcq_device_info *info, struct chain *chain,
                struct chain_text *text, struct render_binary *out)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    struct lower_target target;
    struct host_insn insn;
    unsigned bytes;

    BELL_TRY(render_host_target(&target));
    bytes = target.vector_bytes ? target.vector_bytes : 16;
    if (!find_host_insn(&target, chain, &bytes, &insn))
        return chain_lacks(info);
    chain->n_threads = 1;
    chain->n_lanes = bytes * 8 / form->word_bits;
    chain->n_chains = 12; /* more than two units begin until one ends */
    chain->n_insns = 12;
    put_host(text, chain, &insn.insn);
    return render_host_ir(text->bytes, chain->name, &target, out);
}
