/* Adreno: the words run in an interpreter that waits for nothing by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir3_run.h"
#include "render_check.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static const char *const chips[] = {"a6xx", "a7xx"};
static const enum ir3_gen gens[] = {IR3_GEN_A6XX, IR3_GEN_A7XX};
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
    return from != UOP_F64 && to != UOP_F64 && !uop_dtype_is_small(from) &&
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

struct memory {
    const struct p_buf *bufs;
    uint32_t n_bufs;
};

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct memory *m = user;
    uint64_t i = (va >> 32) - 1, offset = (uint32_t)va, size;

    (void)is_write;
    if (i >= m->n_bufs)
        return NULL;
    size = m->bufs[i].n_elems * uop_dtype_infos[m->bufs[i].dtype].size_bytes;
    return offset + n_bytes > size ? NULL : (char *)m->bufs[i].data + offset;
}

static void
run(const struct lower_program *p, unsigned chip, const struct p_buf *bufs,
    uint32_t n_bufs, const int64_t *vars, const char *what)
{
    struct memory m = {bufs, n_bufs};
    uint64_t args[CHECK_MAX_BUFS + 8];
    struct ir3_run r = {.args = args, .at = at, .user = &m, .flush = true};
    struct render_binary binary;
    uint32_t i;
    char *text;

    for (i = 0; i < p->n_params; i++)
        args[i] = (uint64_t)(i + 1) << 32;
    for (i = 0; i < p->n_vars; i++)
        args[p->n_params + i] = (uint64_t)vars[i];
    memcpy(r.grid, p->grid, sizeof(r.grid));
    if (render_ir3(p, gens[chip], &binary) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    r.object = binary.data;
    if (!ir3_run(&r)) {
        if (render_ir3_text(p, gens[chip], &text) == BELL_OK) {
            fputs(text, stderr);
            host_free(text);
        }
        fail_msg("%s on %s: %s", what, chips[chip], r.error);
    }
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
    .n_chips = 2,
    .n_first = 1,
    .n_targets = 2,
    .is_gpu = true,
    .lacks_f64 = true,
    .flushes = true,
    .max_shared_bytes = 32768,
    .thin = 4,
    .has_alu = has_alu,
    .has_cast = has_cast,
    .lower_target = lower_target,
    .render = render,
    .run = run,
    .keep = keep,
    .finish = finish,
};
