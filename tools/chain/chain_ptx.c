/* Chains in PTX; assembled by ptxas for cards, packed for simulated ones. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "render/ptx/nv_container.h"
#include "tools/chain/chain_internal.h"

/* src: PTX ISA, "fma", "mad", "dp4a" */
static const char *const insns[CHAIN_KIND_COUNT] = {
    [CHAIN_FMA_F32] = "fma.rn.f32 $d, $a, $b, $c;\n",
    [CHAIN_FMA_F32X2] = "fma.rn.f32x2 $d, $a, $b, $c;\n",
    [CHAIN_FMA_F64] = "fma.rn.f64 $d, $a, $b, $c;\n",
    [CHAIN_FMA_F16] = "fma.rn.f16x2 $d, $a, $b, $c;\n",
    [CHAIN_FMA_BF16] = "fma.rn.bf16x2 $d, $a, $b, $c;\n",
    [CHAIN_MAD_I32] = "mad.lo.s32 $d, $c, $a, $b;\n",
    [CHAIN_DOT_I8] = "dp4a.s32.s32 $d, $a, $b, $c;\n",
};
/* src: PTX ISA, "fma": .f32x2 from sm_100 on; observed: ptxas 13.0 makes FFMA2
 * of it there, and two FFMA on sm_120 */
static const char has_pairs[] = "sm_100";

/* %r3: number of this thread in the grid; %t: what of it chains begin with. */
static const char head[] =
    ".visible .entry %s(.param .u64 p0, .param .u64 p1, .param .u64 p2, "
    ".param .u64 p3)\n{\n"
    ".reg .pred %%p0; .reg .b32 %%r<5>; .reg .b64 %%rd<4>;\n"
    ".reg .b%u %%a, %%b, %%t, %%c<%u>;\n"
    "ld.param.u64 %%rd0, [p0]; cvta.to.global.u64 %%rd0, %%rd0;\n"
    "ld.param.u32 %%r4, [p1]; ld.param.u%u %%a, [p2]; "
    "ld.param.u%u %%b, [p3];\n"
    "mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ntid.x; mov.u32 %%r2, %%ctaid.x;\n"
    "mad.lo.u32 %%r3, %%r2, %%r1, %%r0; and.b32 %%r0, %%r0, %u;\n"
    "%s\n";

static const char foot[] =
    "sub.u32 %%r4, %%r4, 1; setp.ne.u32 %%p0, %%r4, 0; @%%p0 bra $round;\n";

static void
put_chain_text(const struct chain *chain, const struct ptx_target *target,
               struct chain_text *text)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    unsigned version = render_ptx_version(target), bits = form->word_bits;
    struct chain_insn_names names = {.a = "%a", .b = "%b", .t = ""};
    uint32_t i, n = chain->n_chains;

    chain_put(text, ".version %u.%u\n.target sm_%u\n.address_size 64\n",
              version / 10, version % 10, target->sm);
    chain_put(text, head, chain->name, bits, n, bits, bits, CHAIN_RESULTS - 1,
              bits == 64 ? "cvt.u64.u32 %t, %r0;" : "mov.u32 %t, %r0;");
    chain_put(text, "mad.lo.u%u %%b, %%t, 0x%llx, %%b;\n", bits,
              (unsigned long long)form->b_thread);
    for (i = 0; i < n; i++)
        chain_put(text, "mad.lo.u%u %%c%u, %%t, 0x%llx, 0x%llx;\n", bits, i,
                  (unsigned long long)form->first_thread,
                  (unsigned long long)(form->first + i * form->first_chain));
    chain_put(text, "$round:\n");
    for (i = 0; i < chain->n_insns; i++) {
        snprintf(names.d, sizeof(names.d), "%%c%u", i % n);
        memcpy(names.c, names.d, sizeof(names.c));
        chain_put_insn(text, insns[chain->kind], &names);
    }
    chain_put(text, foot);
    for (i = 1; i < n; i++)
        chain_put(text, "add.u%u %%c0, %%c0, %%c%u;\n", bits, i);
    chain_put(text,
              "mul.wide.u32 %%rd1, %%r3, %u; add.u64 %%rd1, %%rd0, %%rd1;\n"
              "st.global.u%u [%%rd1], %%c0;\nret;\n}\n",
              bits / 8, bits);
}

bell_status
chain_make_ptx(const struct hcq_device_info *info, struct chain *chain,
               struct chain_text *text, struct render_binary *out)
{
    bool is_simulated = (info->flags & HCQ_DEVICE_SIMULATED) != 0;
    struct nv_container_desc desc = {
        .text = text->bytes,
        .entry = chain->name,
        .n_params = 4,
        .n_regs = 40,
    };
    struct ptx_target target;

    if (!render_ptx_target(info->arch, &target) || !render_ptx_version(&target))
        return bell_fail(BELL_E_UNSUPPORTED, "%s: no PTX is made for it",
                         info->arch);
    if (!insns[chain->kind] || (chain->kind == CHAIN_FMA_F32X2 &&
                                !chain_is_listed(has_pairs, info->arch)))
        return chain_lacks(info);
    if (is_simulated && chain->kind == CHAIN_FMA_F32X2)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "simulated cards do not run fma.rn.f32x2");
    target.is_arch_specific = false;
    put_chain_text(chain, &target, text);
    desc.sm = target.sm;
    return is_simulated ? render_nv_container(&desc, out)
                        : render_ptxas(text->bytes, &target, out);
}
