/* What the chips do not wait for by themselves: which results an instruction
 * may read already, which registers it may overwrite.
 *
 * src: docs/hardware/adreno-code.md, "Timing"; kernels of Mesa 25.0's compiler,
 * which are right by construction
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "sim/qcom/isa/shader_internal.h"

static bool
is_alu(const struct shader_insn *in)
{
    return in->cat >= 1 && in->cat <= 3;
}

static bool
is_store(const struct shader_insn *in)
{
    return in->layout == SHADER_AS_STG || in->layout == SHADER_AS_STG_A6 ||
           in->layout == SHADER_AS_STG_A7 || in->layout == SHADER_AS_STL ||
           in->op == SHADER_STIB_B;
}

/* Does its result come with (ss); else with (sy). */
static bool
comes_with_ss(const struct shader_insn *in)
{
    if (in->cat == 4 || in->op == SHADER_LDL || in->layout == SHADER_AS_INFO)
        return true;
    /* a bit of the word tells local atomics from others */
    return in->layout == SHADER_AS_ATOMIC_AT && !(in->word >> 52 & 1);
}

static void
touch(struct shader_insn *in, uint32_t reg, uint32_t n, bool is_half,
      struct shader_touch t)
{
    uint32_t at;

    if (reg < SHADER_FULLS) {
        at = is_half ? reg : 2 * reg;
        n *= is_half ? 1 : 2;
    } else if (reg < SHADER_FULLS + SHADER_SHAREDS) {
        at = SHADER_AT_SHARED + reg - SHADER_FULLS;
    } else if (reg == SHADER_A0 || reg == SHADER_A1) {
        at = SHADER_AT_A0 + reg - SHADER_A0;
    } else if (reg >= SHADER_P0 && reg < SHADER_P0 + 4) {
        at = SHADER_AT_P0 + reg - SHADER_P0;
    } else {
        return;
    }
    if (at + n > SHADER_PLACES)
        n = SHADER_PLACES - at;
    assert(in->n_touches < ARRAY_LEN(in->touches));
    t.at = (uint16_t)at;
    t.n = (uint16_t)n;
    t.is_half = is_half;
    in->touches[in->n_touches++] = t;
}

static void
touch_sources(struct shader_insn *in)
{
    bool is_memory = in->cat == 6, two;
    uint32_t i, n;

    for (i = 0; i < 3; i++) {
        const struct shader_operand *o = &in->src[i];
        if (o->kind == SHADER_REL_GPR || o->kind == SHADER_REL_CONST)
            touch(in, SHADER_A0, 1, false, (struct shader_touch){0});
        if (o->kind != SHADER_GPR)
            continue;
        two = is_memory && i == 0 &&
              (in->layout <= SHADER_AS_STG_A7 ||
               (in->layout == SHADER_AS_ATOMIC_AT && (in->word >> 52 & 1)));
        n = two ? 2 : 1;
        if (is_memory && i == 2)
            n = in->layout == SHADER_AS_BY_SLOT && in->op != SHADER_STIB_B ? 2
                : in->op == SHADER_ATOMIC_CMPXCHG ||
                        in->op == SHADER_ATOMIC_G_CMPXCHG
                    ? 2
                    : in->n;
        touch(in, o->v, n, o->is_half,
              (struct shader_touch){.is_late = in->cat >= 4 && in->cat <= 6,
                                    .is_third = i == 2,
                                    .advances = o->advances});
    }
    if (in->slot_mode)
        touch(in, in->slot, 1, false, (struct shader_touch){.is_late = true});
}

void
shader_list_touches(struct shader_insn *in)
{
    bool has_result =
        in->layout != SHADER_AS_FLOW && in->layout != SHADER_AS_SYNC;
    uint32_t n = in->cat == 6 ? in->n : 1;

    touch_sources(in);
    if (in->op == SHADER_BR || in->op == SHADER_BRAO || in->op == SHADER_BRAA ||
        in->op == SHADER_BANY || in->op == SHADER_BALL)
        touch(in, SHADER_P0 + in->comp1, 1, false, (struct shader_touch){0});
    if (in->op == SHADER_BRAO || in->op == SHADER_BRAA)
        touch(in, SHADER_P0 + in->comp2, 1, false, (struct shader_touch){0});
    if (in->op == SHADER_PREDT || in->op == SHADER_PREDF)
        touch(in, SHADER_P0, 1, false, (struct shader_touch){0});
    if (in->layout == SHADER_AS_BY_SLOT && in->op != SHADER_LDIB_B)
        n = 1;
    if (has_result)
        touch(in, in->dst, n, in->dst_half,
              (struct shader_touch){.is_write = true, .advances = true});
}

void
shader_pipe_init(struct shader_pipe *pipe)
{
    uint32_t i;

    memset(pipe, 0, sizeof(*pipe));
    for (i = 0; i < SHADER_PLACES; i++)
        pipe->done[i] = -64;
    pipe->quiet_until = -1;
}

void
shader_pipe_merge(struct shader_pipe *pipe, const struct shader_pipe *other)
{
    uint32_t i;

    for (i = 0; i < SHADER_PLACES; i++) {
        pipe->pending[i] |= other->pending[i];
        if (other->done[i] > pipe->done[i]) {
            pipe->done[i] = other->done[i];
            pipe->was_half[i] = other->was_half[i];
        }
        pipe->was_scalar[i] &= other->was_scalar[i];
    }
    pipe->any_ss |= other->any_ss;
    pipe->any_sy |= other->any_sy;
    pipe->local_open |= other->local_open;
    pipe->global_open |= other->global_open;
    pipe->local_stored |= other->local_stored;
    if (other->now > pipe->now)
        pipe->now = other->now;
}

static void
clear_pending(struct shader_pipe *pipe, unsigned kinds)
{
    uint32_t i;

    for (i = 0; i < SHADER_PLACES; i++)
        pipe->pending[i] &= (uint8_t)~kinds;
}

static void
take_flags(struct shader_pipe *pipe, const struct shader_insn *in)
{
    if (in->ss) {
        if (pipe->any_ss)
            clear_pending(pipe,
                          SHADER_WAIT_SS | SHADER_READ_SS | SHADER_READ_SY);
        pipe->any_ss = pipe->local_open = false;
    }
    if (in->sy) {
        if (pipe->any_sy)
            clear_pending(pipe, SHADER_WAIT_SY | SHADER_READ_SY);
        pipe->any_sy = pipe->global_open = false;
    }
}

/* A place's name, for people. */
static const char *
place_name(uint32_t at, char text[16])
{
    const char *file = "hr";

    if (at >= SHADER_AT_P0) {
        file = "p";
        at -= SHADER_AT_P0;
    } else if (at >= SHADER_AT_A0) {
        file = "a";
        at = (at - SHADER_AT_A0) * 4;
    } else if (at >= SHADER_AT_SHARED) {
        file = "r";
        at = at - SHADER_AT_SHARED + SHADER_FULLS;
    }
    snprintf(text, 16, "%s%u.%c", file, at / 4 & 255, "xyzw"[at & 3]);
    return text;
}

static int32_t
least_distance(const struct shader_pipe *pipe, const struct shader_insn *in,
               const struct shader_touch *t, uint32_t at, bool is_a6xx)
{
    int32_t least;

    if (at >= SHADER_AT_A0 || !is_alu(in))
        return is_a6xx ? 6 : 5;
    least = is_a6xx ? 3 : 2;
    if (pipe->was_half[at] != t->is_half)
        return least + 3;
    if (!t->is_third)
        return least;
    if (!is_a6xx)
        return 1;
    return in->op <= SHADER_MAD_F32 ? 1 : least;
}

static bool
check_read(struct shader_wave *w, const struct shader_insn *in,
           const struct shader_touch *t, uint32_t at, bool is_a6xx)
{
    const struct shader_pipe *pipe = &w->pipe;
    bool is_shared = at >= SHADER_AT_SHARED && at < SHADER_AT_A0;
    bool to_shared =
        in->dst >= SHADER_FULLS && in->dst < SHADER_FULLS + SHADER_SHAREDS;
    int32_t least, between;
    char name[16];

    /* the scalar unit waits for itself */
    if (is_shared && pipe->was_scalar[at] && is_alu(in) && to_shared)
        return true;
    if (pipe->pending[at] & (SHADER_WAIT_SS | SHADER_WAIT_SY))
        return shader_fail(w, in, "%s is read without (%s)",
                           place_name(at, name),
                           pipe->pending[at] & SHADER_WAIT_SS ? "ss" : "sy");
    if (is_shared)
        return true;
    least = least_distance(pipe, in, t, at, is_a6xx);
    between = pipe->now - pipe->done[at] - 1;
    if (between < least)
        return shader_fail(w, in,
                           "%s is read %d cycles after it is set, not %d",
                           place_name(at, name), between, least);
    return true;
}

static bool
check_write(struct shader_wave *w, const struct shader_insn *in, uint32_t at)
{
    const struct shader_pipe *pipe = &w->pipe;
    bool is_shared = at >= SHADER_AT_SHARED && at < SHADER_AT_A0;
    uint8_t pending = pipe->pending[at];
    char name[16];

    if (is_shared && pipe->was_scalar[at])
        pending &= (uint8_t)~SHADER_WAIT_SS;
    if (!pending)
        return true;
    return shader_fail(
        w, in, "%s is overwritten before %s (no (%s))", place_name(at, name),
        pending & (SHADER_WAIT_SS | SHADER_WAIT_SY) ? "its last result is there"
                                                    : "it was read",
        pending & (SHADER_WAIT_SS | SHADER_READ_SS) ? "ss" : "sy");
}

static void
leave(struct shader_pipe *pipe, const struct shader_insn *in,
      const struct shader_touch *t, uint32_t at)
{
    bool is_shared = at >= SHADER_AT_SHARED && at < SHADER_AT_A0;

    if (t->is_late) {
        pipe->pending[at] |=
            is_store(in) || comes_with_ss(in) ? SHADER_READ_SS : SHADER_READ_SY;
        pipe->any_ss = true;
        pipe->any_sy = true;
    }
    if (!t->is_write)
        return;
    pipe->was_scalar[at] = is_shared && is_alu(in);
    if (is_alu(in) && !is_shared) {
        pipe->done[at] = pipe->now;
        pipe->was_half[at] = t->is_half;
    } else if (is_alu(in) || comes_with_ss(in)) {
        pipe->pending[at] |= SHADER_WAIT_SS;
        pipe->any_ss = true;
    } else {
        pipe->pending[at] |= SHADER_WAIT_SY;
        pipe->any_sy = true;
    }
}

/* Loads, stores and what orders them. */
static bool
order_memory(struct shader_wave *w, const struct shader_insn *in)
{
    struct shader_pipe *pipe = &w->pipe;

    if (in->cat == 6 && in->layout != SHADER_AS_INFO) {
        if (is_store(in) || comes_with_ss(in))
            pipe->local_open = true;
        else
            pipe->global_open = true;
        if (in->op == SHADER_STL ||
            (in->layout == SHADER_AS_ATOMIC_AT && comes_with_ss(in)))
            pipe->local_stored = true;
    }
    if (in->op == SHADER_FENCE && (in->mode & 3) == 3)
        pipe->local_stored = false;
    if (in->op != SHADER_BAR)
        return true;
    if (pipe->local_open || pipe->global_open)
        return shader_fail(w, in, "memory is under way: no (%s) before it",
                           pipe->local_open ? "ss" : "sy");
    if (pipe->local_stored)
        return shader_fail(w, in, "stores without a fence before it");
    return true;
}

/* nops that must follow on some chips. */
static bool
check_quiet(struct shader_wave *w, const struct shader_insn *in)
{
    struct shader_pipe *pipe = &w->pipe;

    if (!w->group->launch->needs_predication_gaps)
        return true;
    if (pipe->now < pipe->quiet_until && in->op != SHADER_NOP)
        return shader_fail(w, in, "too soon behind a predication");
    if (in->op == SHADER_PREDE)
        pipe->quiet_until = pipe->now + 7;
    else if (w->is_predicated &&
             (in->op == SHADER_PREDF || in->op == SHADER_PREDT))
        pipe->quiet_until = pipe->now + 5;
    return true;
}

/* How far from what the instruction names a touch of one of its steps is. */
static uint32_t
beyond(const struct shader_wave *w, const struct shader_touch *t, uint32_t step)
{
    uint32_t by = t->advances ? step * (t->is_half ? 1 : 2) : 0;

    if (t->is_half && t->at < SHADER_AT_SHARED)
        by += shader_half_at(w->group->launch, 0);
    return by;
}

bool
shader_issue(struct shader_wave *w, const struct shader_insn *in)
{
    bool is_a6xx = w->group->launch->code->gen == SHADER_A6XX;
    struct shader_pipe *pipe = &w->pipe;
    uint32_t step, i, at, by;
    uint32_t steps = is_alu(in) || in->cat == 4 ? in->repeat : 0;

    take_flags(pipe, in);
    if (!check_quiet(w, in) || !order_memory(w, in))
        return false;
    for (step = 0; step <= steps; step++) {
        for (i = 0; i < in->n_touches; i++) {
            const struct shader_touch *t = &in->touches[i];
            by = beyond(w, t, step);
            for (at = t->at + by; at < t->at + by + t->n; at++) {
                if (at >= SHADER_PLACES)
                    return shader_fail(w, in, "repeated beyond the registers");
                if (!t->is_write && !check_read(w, in, t, at, is_a6xx))
                    return false;
                if (t->is_write && !check_write(w, in, at))
                    return false;
            }
        }
        for (i = 0; i < in->n_touches; i++) {
            const struct shader_touch *t = &in->touches[i];
            by = beyond(w, t, step);
            for (at = t->at + by; at < t->at + by + t->n; at++)
                leave(pipe, in, t, at);
        }
        pipe->now++;
    }
    pipe->now += in->nops;
    if (in->op == SHADER_NOP)
        pipe->now += in->repeat;
    return true;
}
