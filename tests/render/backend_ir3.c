/* Adreno: the words run as on the simulated card, which waits for nothing by
 * itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "render_check.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/hcq.h"
#include "render/ir3/ir3.h"
#include "sim/qcom/isa/shader.h"
#include "tests/unit/sanitized.h"

static const char *const chips[] = {"a6xx", "a7xx", "a7xx-3"};
static const enum ir3_gen gens[] = {IR3_GEN_A6XX, IR3_GEN_A7XX, IR3_GEN_A7XX_3};
static unsigned n_kept;

static bool
has_alu(enum uop_op op, enum uop_dtype dtype)
{
    if (dtype == UOP_F64 || (dtype == UOP_F32 && op == UOP_MULACC))
        return false;
    return !uop_dtype_is_small(dtype) || op == UOP_WHERE;
}

static bool
has_cast(enum uop_dtype from, enum uop_dtype to)
{
    if (from == UOP_F64)
        return to == UOP_F32;
    return to != UOP_F64 && !uop_dtype_is_small(from) &&
           !uop_dtype_is_small(to);
}

static bell_status
lower_target(unsigned chip, struct lower_target *out)
{
    render_ir3_lower_target(gens[chip], out);
    return BELL_OK;
}

static bell_status
render(const struct lower_program *p, unsigned chip, struct render_binary *out)
{
    return render_ir3(p, gens[chip], out);
}

#define PRIVATE_VA 0x7f00000000ull
#define ARGS_VA    0x7e00000000ull

struct memory {
    const struct p_buf *bufs;
    uint32_t n_bufs;
    char *private_;
    uint64_t private_bytes;
    uint64_t args[HCQ_ARGS_MAX];
};

static void *
at(void *user, uint64_t va, uint32_t n_bytes, enum shader_access access)
{
    struct memory *m = user;
    uint64_t i = (va >> 32) - 1, offset = (uint32_t)va, size;

    if (va >= ARGS_VA && va < PRIVATE_VA)
        return va + n_bytes - ARGS_VA > sizeof(m->args) || access != SHADER_LOAD
                   ? NULL
                   : (char *)m->args + (va - ARGS_VA);
    if (va >= PRIVATE_VA)
        return va + n_bytes - PRIVATE_VA > m->private_bytes
                   ? NULL
                   : m->private_ + (va - PRIVATE_VA);
    if (i >= m->n_bufs)
        return NULL;
    size = m->bufs[i].n_elems * uop_dtype_infos[m->bufs[i].dtype].size_bytes;
    return offset + n_bytes > size ? NULL : (char *)m->bufs[i].data + offset;
}

/* What a driver would tell the card of the object. */
static void
launch_of(const struct ir3_object *o, struct memory *m, struct shader_launch *l)
{
    static struct shader_ubo ubo;
    bool is_a6xx = o->gen == IR3_GEN_A6XX;
    uint32_t n_vec4 = is_a6xx ? 64 : 96, n = 1024;

    *l = (struct shader_launch){
        .lanes = 64,
        .n_full_vec4 = o->n_full_vec4,
        .n_waves_max = 2 * n_vec4 / o->n_full_vec4,
        .branch_depth = 2 * ((o->branch_depth + 1) / 2),
        .shared_bytes = o->shared_bytes,
        .private_va = PRIVATE_VA,
        .private_bytes = (o->private_bytes + 511) / 512 * 512,
        .n_sps = 2,
        .sp_threads = n,
        .consts = (const uint32_t *)m->args,
        .n_consts = 4 * o->n_const_vec4,
        .demotes = true,
        .local_id = 0,
        .group_id = 192,
        .group_size = SHADER_NO_REG,
        .group_offset = SHADER_NO_REG,
        .linear_id = SHADER_NO_REG,
        .needs_predication_gaps = !is_a6xx,
        .ends_locked = !is_a6xx,
        .max_insns = 100000000,
        .seed = 1,
        .memory = {at, m},
    };
    memcpy(l->local, o->local, sizeof(l->local));
    l->private_sp_bytes = l->private_bytes * n;
    m->private_bytes = (uint64_t)l->private_sp_bytes * l->n_sps;
    if (o->gen == IR3_GEN_A7XX_3) {
        ubo = (struct shader_ubo){ARGS_VA, (o->n_params + o->n_vars + 1) / 2};
        l->ubos = &ubo;
        l->n_ubos = 1;
    }
}

static void
run(const struct lower_program *p, unsigned chip, const struct p_buf *bufs,
    uint32_t n_bufs, const int64_t *vars, const char *what)
{
    struct memory m = {.bufs = bufs, .n_bufs = n_bufs};
    struct shader_report report;
    struct shader_launch l;
    struct shader_code *code;
    struct render_binary binary;
    const struct ir3_object *o;
    uint32_t i;
    char *text;

    for (i = 0; i < p->n_params; i++)
        m.args[i] = (uint64_t)(i + 1) << 32;
    for (i = 0; i < p->n_vars; i++)
        m.args[p->n_params + i] = (uint64_t)vars[i];
    if (render_ir3(p, gens[chip], &binary) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    o = binary.data;
    launch_of(o, &m, &l);
    memcpy(l.grid, p->grid, sizeof(l.grid));
    m.private_ = host_alloc(m.private_bytes + 1);
    assert_non_null(m.private_);
    if (shader_code_create(o->gen == IR3_GEN_A6XX ? SHADER_A6XX : SHADER_A7XX,
                           (const uint64_t *)(o + 1), o->n_instrs,
                           &code) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    l.code = code;
    if (shader_run(&l, &report) != SHADER_OK) {
        if (render_ir3_text(p, gens[chip], &text) == BELL_OK) {
            fputs(text, stderr);
            host_free(text);
        }
        fail_msg("%s on %s: %s", what, chips[chip], report.text);
    }
    shader_code_destroy(code);
    host_free(m.private_);
    render_binary_fini(&binary);
}

static void
keep(const struct lower_program *p, unsigned chip, const char *what)
{
    struct render_binary binary;

    if (render_ir3(p, gens[chip], &binary) != BELL_OK)
        fail_msg("%s on %s: %s", what, chips[chip], bell_error_last()->message);
    render_binary_fini(&binary);
    n_kept++;
}

static void
finish(void)
{
    print_message("%u kernels compiled\n", n_kept);
}

const struct backend backend_ir3 = {
    .name = "ir3",
    .chips = chips,
    .n_chips = 3,
    .n_first = 1,
    .n_targets = 3,
    .is_gpu = true,
    .lacks_f64 = true,
    .flushes = true,
    .max_shared_bytes = 32768,
    .thin = IS_SANITIZED ? 16 : 8,
    .has_alu = has_alu,
    .has_cast = has_cast,
    .lower_target = lower_target,
    .render = render,
    .run = run,
    .keep = keep,
    .finish = finish,
};
