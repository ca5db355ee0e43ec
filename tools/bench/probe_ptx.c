/* Probes in PTX; assembled by ptxas for cards, packed for simulated ones. */

#include "base/bits.h"
#include "render/ptx/nv_container.h"
#include "tools/bench/probe.h"

/* %r10: number of this thread in its group; %r13: in the grid; %r14: rounds;
 * %r15, %r16: factor and summand; %rd1: the words. %r20 is stored. */
static const char head[] =
    ".visible .entry %s(.param .u64 p0, .param .u64 p1, .param .u64 p2, "
    ".param .u64 p3)\n{\n"
    ".reg .pred %%p<4>; .reg .b16 %%h<8>; .reg .b32 %%r<40>;\n"
    ".reg .b64 %%rd<16>; .reg .f32 %%f<4>; .reg .f64 %%d<4>;\n%s"
    "ld.param.u64 %%rd0, [p0]; cvta.to.global.u64 %%rd0, %%rd0;\n"
    "ld.param.u32 %%r14, [p1];\n"
    "ld.param.u64 %%rd1, [p2]; cvta.to.global.u64 %%rd1, %%rd1;\n"
    "ld.param.u64 %%rd2, [p3]; cvt.u32.u64 %%r15, %%rd2;\n"
    "shr.u64 %%rd2, %%rd2, 32; cvt.u32.u64 %%r16, %%rd2;\n"
    "mov.u32 %%r10, %%tid.x; mov.u32 %%r11, %%ntid.x; mov.u32 %%r12, "
    "%%ctaid.x;\n"
    "mad.lo.u32 %%r13, %%r12, %%r11, %%r10;\n";

static const char foot[] =
    "sub.u32 %r14, %r14, 1; setp.ne.u32 %p0, %r14, 0; @%p0 bra $round;\n";

static const char pool[] = ".shared .align 16 .b8 pool[1024];\n";

#define OWN                                                                    \
    "mul.wide.u32 %rd3, %r13, 4; add.u64 %rd3, %rd1, %rd3; "                   \
    "mov.u32 %r20, %r13;\n"
/* %r21: this thread's word of the pool, %r22: the next one's. */
#define SHARED                                                                 \
    "mov.u32 %r23, pool; shl.b32 %r21, %r10, 2; add.u32 %r21, %r23, %r21;\n"   \
    "add.u32 %r22, %r10, 1; rem.u32 %r22, %r22, %r11;\n"                       \
    "shl.b32 %r24, %r22, 2; add.u32 %r22, %r23, %r24;\n"
#define READ_NEXT "cvt.u64.u32 %rd3, %r21; add.u64 %rd3, %rd1, %rd3;\n"
#define READ_STEP "add.u32 %r21, %r21, %r22; and.b32 %r21, %r21, %r23;\n"

/* What is done before the rounds, in each turn, and after them. */
static const struct {
    const char *outside, *init, *turn, *end;
    unsigned n_barriers, shared_bytes;
} kinds[PROBE_KIND_COUNT] = {
    [PROBE_ATOMIC_OWN] = {"", OWN, "red.global.add.u32 [%rd3], %r15;\n", "", 0,
                          0},
    [PROBE_ATOMIC_SAME] = {"", OWN, "red.global.add.u32 [%rd1], %r15;\n", "", 0,
                           0},
    [PROBE_ATOMIC_SHARED] = {pool,
                             SHARED
                             "mov.u32 %r25, 0; st.shared.u32 [%r21], %r25;\n",
                             "red.shared.add.u32 [%r21], %r15;\n",
                             "ld.shared.u32 %r20, [%r21];\n", 0, 1024},
    [PROBE_BARRIER] = {pool, SHARED "mov.u32 %r20, %r13;\n",
                       "st.shared.u32 [%r21], %r20; bar.sync 0;\n"
                       "ld.shared.u32 %r20, [%r22]; bar.sync 0;\n",
                       "", 1, 1024},
    [PROBE_WAIT_MAD_I32] = {"", "mov.u32 %r20, %r13;\n",
                            "mad.lo.u32 %r20, %r20, %r15, %r16;\n", "", 0, 0},
    [PROBE_WAIT_FMA_F32] = {"",
                            "and.b32 %r20, %r13, 7; cvt.rn.f32.u32 %f0, %r20;\n"
                            "mov.b32 %f1, %r15; mov.b32 %f2, %r16;\n",
                            "fma.rn.f32 %f0, %f0, %f1, %f2;\n",
                            "cvt.rzi.u32.f32 %r20, %f0;\n", 0, 0},
    [PROBE_WAIT_FMA_F64] = {"",
                            "and.b32 %r20, %r13, 7; cvt.rn.f64.u32 %d0, %r20;\n"
                            "mov.b32 %f1, %r15; mov.b32 %f2, %r16;\n"
                            "cvt.f64.f32 %d1, %f1; cvt.f64.f32 %d2, %f2;\n",
                            "fma.rn.f64 %d0, %d0, %d1, %d2;\n",
                            "cvt.rzi.u32.f64 %r20, %d0;\n", 0, 0},
    [PROBE_WAIT_SHARED] =
        {pool,
         SHARED "st.shared.u32 [%r21], %r24; bar.sync 0;\n"
                "shl.b32 %r20, %r10, 2;\n",
         "add.u32 %r25, %r23, %r20; ld.shared.u32 %r20, [%r25];\n", "", 1,
         1024},
    [PROBE_READ_L2_4] = {"", "",
                         READ_NEXT "ld.global.u32 %r24, [%rd3];\n"
                                   "add.u32 %r20, %r20, %r24;\n" READ_STEP,
                         "", 0, 0},
    [PROBE_READ_L2_8] = {"", "",
                         READ_NEXT "ld.global.v2.u32 {%r24, %r25}, [%rd3];\n"
                                   "add.u32 %r24, %r24, %r25; "
                                   "add.u32 %r20, %r20, %r24;\n" READ_STEP,
                         "", 0, 0},
    [PROBE_READ_L2_16] = {"", "",
                          READ_NEXT
                          "ld.global.v4.u32 {%r24, %r25, %r26, %r27}, "
                          "[%rd3];\n"
                          "add.u32 %r24, %r24, %r25; add.u32 %r26, %r26, "
                          "%r27;\nadd.u32 %r24, %r24, %r26; "
                          "add.u32 %r20, %r20, %r24;\n" READ_STEP,
                          "", 0, 0},
    [PROBE_MAD_I16] =
        {"",
         "cvt.u16.u32 %h0, %r13; add.u16 %h1, %h0, 1; add.u16 %h2, %h0, 2;\n"
         "add.u16 %h3, %h0, 3; cvt.u16.u32 %h4, %r15; cvt.u16.u32 %h5, "
         "%r16;\n",
         "mad.lo.u16 %h$, %h$, %h4, %h5;\n",
         "add.u16 %h0, %h0, %h1; add.u16 %h2, %h2, %h3;\n"
         "add.u16 %h0, %h0, %h2; cvt.u32.u16 %r20, %h0;\n",
         0, 0},
    [PROBE_MAD_I64] =
        {"",
         "cvt.u64.u32 %rd4, %r13; add.u64 %rd5, %rd4, 1; add.u64 %rd6, %rd4, "
         "2;\n"
         "add.u64 %rd7, %rd4, 3; cvt.u64.u32 %rd8, %r15; cvt.u64.u32 %rd9, "
         "%r16;\n",
         "mad.lo.u64 %rd@, %rd@, %rd8, %rd9;\n",
         "add.u64 %rd4, %rd4, %rd5; add.u64 %rd6, %rd6, %rd7;\n"
         "add.u64 %rd4, %rd4, %rd6; cvt.u32.u64 %r20, %rd4;\n",
         0, 0},
};

/* '$': number of a chain; '@': that of its register from 4 on. */
static void
put_ptx_turn(struct text *text, const char *turn, unsigned i)
{
    for (; *turn; turn++) {
        if (*turn == '$')
            text_add(text, "%u", i % PROBE_CHAINS);
        else if (*turn == '@')
            text_add(text, "%u", 4 + i % PROBE_CHAINS);
        else
            text_add(text, "%c", *turn);
    }
}

/* Two ways of as many multiply-adds, whose factor and summand are exchanged. */
static void
put_branches(struct text *text, const struct probe *probe)
{
    unsigned i;

    text_add(text,
             "mov.u32 %%r20, %%r13; and.b32 %%r21, %s, 1;\n"
             "setp.eq.u32 %%p1, %%r21, 1;\n",
             probe->kind == PROBE_BRANCH_SPLIT ? "%r10" : "%r14");
    if (probe->kind == PROBE_BRANCH_SAME) /* all the first way */
        text_add(text, "setp.eq.u32 %%p1, %%r15, 0;\n");
    text_add(text, "$round: @%%p1 bra $other;\n");
    for (i = 0; i < probe->turns; i++)
        text_add(text, "mad.lo.u32 %%r20, %%r20, %%r15, %%r16;\n");
    text_add(text, "bra.uni $joined;\n$other:\n");
    for (i = 0; i < probe->turns; i++)
        text_add(text, "mad.lo.u32 %%r20, %%r20, %%r16, %%r15;\n");
    text_add(text, "$joined:\n%s", foot);
}

static void
put_ptx_text(struct text *text, const struct probe *probe,
             const struct ptx_target *target)
{
    enum probe_kind kind =
        probe->kind == PROBE_READ_L1 ? PROBE_READ_L2_16 : probe->kind;
    unsigned version = render_ptx_version(target);
    unsigned width = probe_width(probe->kind), i;

    text_add(text, ".version %u.%u\n.target sm_%u\n.address_size 64\n",
             version / 10, version % 10, target->sm);
    text_add(text, head, probe_names[probe->kind],
             kinds[kind].outside ? kinds[kind].outside : "");
    if (kind == PROBE_BRANCH_SAME || kind == PROBE_BRANCH_SPLIT) {
        put_branches(text, probe);
    } else {
        if (width)
            text_add(text,
                     "mov.u32 %%r20, 0; mul.lo.u32 %%r21, %%r10, %u;\n"
                     "mov.u32 %%r22, %u; mov.u32 %%r23, %u;\n",
                     width, probe->n_threads * width,
                     probe_place_bytes(probe->kind) - 1);
        text_add(text, "%s$round:\n", kinds[kind].init);
        for (i = 0; i < (kind == PROBE_BARRIER ? 1 : probe->turns); i++)
            put_ptx_turn(text, kinds[kind].turn, i);
        text_add(text, "%s%s", foot, kinds[kind].end);
    }
    text_add(text, "mul.wide.u32 %%rd3, %%r13, 4; add.u64 %%rd3, %%rd0, "
                   "%%rd3;\nst.global.u32 [%%rd3], %%r20;\nret;\n}\n");
}

bell_status
probe_make_ptx(const struct hcq_device_info *info, const struct probe *probe,
               struct text *text, struct render_binary *out)
{
    struct nv_container_desc desc = {
        .entry = probe_names[probe->kind],
        .n_params = 4,
        .n_regs = 48,
        .n_barriers = kinds[probe->kind].n_barriers,
        .shared_bytes = kinds[probe->kind].shared_bytes,
    };
    struct ptx_target target;

    if (!render_ptx_target(info->arch, &target) || !render_ptx_version(&target))
        return bell_fail(BELL_E_UNSUPPORTED, "%s: no PTX is made for it",
                         info->arch);
    if (probe->kind == PROBE_CONSTANT)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "the driver loads no constants beside a kernel's "
                         "arguments");
    target.is_arch_specific = false;
    put_ptx_text(text, probe, &target);
    BELL_TRY(probe_check_text(text));
    desc.text = text->buf;
    desc.sm = target.sm;
    return info->flags & HCQ_DEVICE_SIMULATED
               ? render_nv_container(&desc, out)
               : render_ptxas(text->buf, &target, out);
}
