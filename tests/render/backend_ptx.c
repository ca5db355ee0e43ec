/* PTX: the text runs in the interpreter of sim/, and ptxas sees it, where there
 * is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ptx_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

const struct ptx_target ptx_check_target = {.sm = 90, .arg_align_bytes = 16};

static const struct ptx_target targets[] = {
    {.sm = 80, .arg_align_bytes = 16},  {.sm = 86, .arg_align_bytes = 16},
    {.sm = 89, .arg_align_bytes = 16},  {.sm = 90, .arg_align_bytes = 16},
    {.sm = 100, .arg_align_bytes = 16}, {.sm = 120, .arg_align_bytes = 16},
};

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

/* ---- running ---- */

struct memory {
    const struct p_buf *bufs;
    uint32_t n_bufs;
};

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct memory *m = user;
    uint64_t i = (va >> 32) - 1, offset = (uint32_t)va;

    (void)is_write;
    if (i >= m->n_bufs || offset + n_bytes > buf_bytes(&m->bufs[i]))
        return NULL;
    return (char *)m->bufs[i].data + offset;
}

void
ptx_check_run(const struct lower_program *p, const char *text,
              const struct p_buf *bufs, uint32_t n_bufs, const int64_t *vars,
              const char *what)
{
    struct memory m = {bufs, n_bufs};
    uint64_t args[CHECK_MAX_BUFS + 8];
    struct sim_ptx_module *module = NULL;
    struct sim_ptx_report report;
    struct sim_ptx_launch launch = {
        .args = args,
        .args_bytes = (p->n_params + p->n_vars) * sizeof(*args),
        .dynamic_shared_bytes = render_ptx_dynamic_bytes(p),
        .max_warp_steps = 100000000,
        .mem = {at, &m},
    };
    uint32_t i;

    for (i = 0; i < p->n_params; i++)
        args[i] = (uint64_t)(i + 1) << 32;
    for (i = 0; i < p->n_vars; i++)
        args[p->n_params + i] = (uint64_t)vars[i];
    memcpy(launch.grid, p->grid, sizeof(launch.grid));
    memcpy(launch.block, p->local, sizeof(launch.block));
    if (sim_ptx_parse(text, &module) != BELL_OK)
        fail_msg("%s: %s\n%s", what, bell_error_last()->message, text);
    if (sim_ptx_run(module, &launch, &report) != BELL_OK)
        fail_msg("%s: %s\n%s", what, bell_error_last()->message, text);
    sim_ptx_destroy(module);
}

/* ---- assembling ---- */

static char *kept[ARRAY_LEN(targets)];
static size_t kept_bytes[ARRAY_LEN(targets)];
static uint32_t n_kept;

static void
append(size_t t, const char *text)
{
    size_t n = strlen(text);

    kept[t] = realloc(kept[t], kept_bytes[t] + n + 1);
    assert_non_null(kept[t]);
    memcpy(kept[t] + kept_bytes[t], text, n + 1);
    kept_bytes[t] += n;
}

void
ptx_check_keep(const struct lower_program *p, bool approx)
{
    struct lower_program named = *p;
    struct ptx_target target;
    char name[32], *text;
    size_t t;

    snprintf(name, sizeof(name), "kept_%u", n_kept);
    named.name = name;
    for (t = 0; t < ARRAY_LEN(targets); t++) {
        target = targets[t];
        target.approx = approx;
        if (render_ptx(&named, &target, &text) != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
        /* one header for all */
        append(t, n_kept ? strstr(text, ".visible") : text);
        host_free(text);
    }
    n_kept++;
}

uint32_t
ptx_check_assemble(void)
{
    char path[1024];
    bool there = render_ptxas_find(path, sizeof(path)) == BELL_OK;
    uint32_t n = there ? n_kept : 0;
    size_t t;

    for (t = 0; t < ARRAY_LEN(targets) && n_kept; t++) {
        struct render_binary cubin;
        if (there && render_ptxas(kept[t], &targets[t], &cubin) != BELL_OK)
            fail_msg("sm_%u: %s", targets[t].sm, bell_error_last()->message);
        if (there) {
            assert_true(cubin.size_bytes > 64);
            assert_memory_equal(cubin.data, "\177ELF", 4);
            render_binary_fini(&cubin);
        }
        free(kept[t]);
        kept[t] = NULL;
        kept_bytes[t] = 0;
    }
    n_kept = 0;
    return n;
}

/* ---- the backend ---- */

static const char *const chips[] = {"sm_90"};

static bool
has_alu(enum uop_op op, enum uop_dtype dtype)
{
    return !uop_dtype_is_small(dtype) || op == UOP_WHERE ||
           (op != UOP_FDIV && op != UOP_SQRT && op != UOP_TRUNC &&
            op != UOP_MULACC);
}

/* BF16 comes from what F32 holds; the rest is decomposed. */
static bool
has_cast(enum uop_dtype from, enum uop_dtype to)
{
    return to != UOP_BF16 || from == UOP_F32 || from == UOP_F16 ||
           from == UOP_I8 || from == UOP_U8 || from == UOP_BOOL;
}

static bell_status
lower_target(unsigned chip, struct lower_target *out)
{
    (void)chip;
    return render_ptx_lower_target(&ptx_check_target, out);
}

static bell_status
render(const struct lower_program *p, unsigned chip, struct render_binary *out)
{
    char *text;

    (void)chip;
    BELL_TRY(render_ptx(p, &ptx_check_target, &text));
    *out = (struct render_binary){text, strlen(text)};
    return BELL_OK;
}

static void
run(const struct lower_program *p, unsigned chip, const struct p_buf *bufs,
    uint32_t n_bufs, const int64_t *vars, const char *what)
{
    char *text;

    (void)chip;
    if (render_ptx(p, &ptx_check_target, &text) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    ptx_check_run(p, text, bufs, n_bufs, vars, what);
    host_free(text);
}

static void
keep(const struct lower_program *p, unsigned chip, const char *what)
{
    (void)chip, (void)what;
    ptx_check_keep(p, false);
}

static void
finish(void)
{
    uint32_t n = ptx_check_assemble();

    if (n)
        print_message("%u kernels assembled for %zu architectures\n", n,
                      ARRAY_LEN(targets));
    else
        print_message("not assembled: %s\n", bell_error_last()->message);
}

const struct backend backend_ptx = {
    .name = "ptx",
    .chips = chips,
    .n_chips = 1,
    .n_first = 1,
    .n_targets = 1,
    .is_gpu = true,
    .thin = 1,
    .has_alu = has_alu,
    .has_cast = has_cast,
    .lower_target = lower_target,
    .render = render,
    .run = run,
    .keep = keep,
    .finish = finish,
};
