/* The LLVM emitter for this machine; its code runs in this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "render_check.h"

/* The second is as little of it as there can be. */
static const char *const chips[] = {"this machine", "16-byte vectors"};

static bell_status
lower_target(unsigned chip, struct lower_target *out)
{
    BELL_TRY(render_host_target(out));
    out->n_threads = 3;
    if (chip == 1) {
        out->vector_bytes = 16;
        out->n_vector_regs = 16;
        out->has_fma = false;
    }
    return BELL_OK;
}

static struct lower_target
target_of(unsigned chip)
{
    struct lower_target target;

    if (lower_target(chip, &target) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    return target;
}

static bool
has_alu(enum uop_op op, enum uop_dtype dtype)
{
    if (uop_dtype_is_small(dtype))
        return op == UOP_WHERE;
    if (dtype == UOP_BOOL)
        return op != UOP_NEG && op != UOP_SUB && op != UOP_MULACC;
    return op != UOP_MULACC || !uop_dtype_infos[dtype].is_float ||
           target_of(0).has_fma;
}

/* BF16 and F64 to F16 are decomposed, and F16 where the machine lacks it. */
static bool
has_cast(enum uop_dtype from, enum uop_dtype to)
{
    if (from == UOP_BF16 || to == UOP_BF16 ||
        (from == UOP_F64 && to == UOP_F16))
        return false;
    return target_of(0).has_f16 || (from != UOP_F16 && to != UOP_F16);
}

static bell_status
render(const struct lower_program *p, unsigned chip, struct render_binary *out)
{
    struct lower_target target = target_of(chip);

    return render_host(p, &target, out);
}

static void
run(const struct lower_program *p, unsigned chip, const struct p_buf *bufs,
    uint32_t n_bufs, const int64_t *vars, const char *what)
{
    struct lower_target target = target_of(chip);
    uint64_t args[16], n_groups, first;
    struct host_code code;
    uint32_t i;

    (void)what;
    assert_true(p->n_params + p->n_vars <= 16 && p->n_params <= n_bufs);
    for (i = 0; i < p->n_params; i++)
        args[i] = (uint64_t)(uintptr_t)bufs[i].data;
    for (i = 0; i < p->n_vars; i++)
        args[p->n_params + i] = (uint64_t)vars[i];
    host_compile(p, &target, &code);
    n_groups = (uint64_t)p->grid[0] * p->grid[1] * p->grid[2];
    for (first = 0; first < n_groups; first += 5) { /* as threads take them */
        code.fn(args, p->grid, first, first);
        code.fn(args, p->grid, first,
                first + 5 < n_groups ? first + 5 : n_groups);
    }
    host_release(&code);
}

static void
keep(const struct lower_program *p, unsigned chip, const char *what)
{
    (void)p, (void)chip, (void)what; /* it runs on all there is */
}

static void
finish(void)
{
}

const struct backend backend_host = {
    .name = "llvm-host",
    .chips = chips,
    .n_chips = 1,
    .n_first = 1,
    .n_targets = 2,
    .thin = 2,
    .has_alu = has_alu,
    .has_cast = has_cast,
    .lower_target = lower_target,
    .render = render,
    .run = run,
    .keep = keep,
    .finish = finish,
};
