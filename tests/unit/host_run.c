/* See host_run.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host_run.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "lower/index.h"

const struct uop *
mk(struct uop_graph *g, enum uop_op op, unsigned dtype, unsigned lanes,
   int64_t arg, uint32_t n_src, const struct uop *const *src)
{
    union uop_arg a = {.i = arg};

    return uop_new(g, op, dtype, (uint16_t)lanes, a, src, n_src);
}

const struct uop *
mk_int(struct uop_graph *g, int64_t value)
{
    return uop_const_int(g, UOP_I64, value);
}

const struct uop *
mk_splat(struct uop_graph *g, const struct uop *u, unsigned lanes)
{
    return lanes == 1 ? u : mk(g, UOP_BROADCAST, u->dtype, lanes, 0, 1, &u);
}

const struct uop *
mk_param(struct uop_graph *g, int64_t slot, unsigned dtype)
{
    return mk(g, UOP_PARAM, dtype, 1, slot, 0, NULL);
}

const struct uop *
mk_load(struct uop_graph *g, const struct uop *param, const struct uop *index,
        unsigned lanes, const struct uop *other, const struct uop *gate)
{
    const struct uop *src[4] = {param, index, other, gate};

    return mk(g, UOP_LOAD, param->dtype, lanes, 0, gate ? 4 : 2, src);
}

const struct uop *
mk_store(struct uop_graph *g, const struct uop *param, const struct uop *index,
         const struct uop *value, const struct uop *gate)
{
    const struct uop *src[4] = {param, index, value, gate};

    return mk(g, UOP_STORE, UOP_VOID, 1, 0, gate ? 4 : 3, src);
}

const struct uop *
mk_end(struct uop_graph *g, const struct uop *range, const struct uop *effect)
{
    const struct uop *src[2] = {range, effect};

    return mk(g, UOP_END, UOP_VOID, 1, 0, 2, src);
}

/* Constants, which the pass has made late, are to be there in every loop. */
static const struct uop **
constants_first(const struct uop **ops, size_t n)
{
    const struct uop **out = host_alloc((n + 1) * sizeof(*out));
    size_t at = 0, i;
    int others;

    assert_non_null(out);
    for (others = 0; others < 2; others++) {
        for (i = 0; i < n; i++) {
            if ((ops[i]->op != UOP_CONST) == others)
                out[at++] = ops[i];
        }
    }
    host_free(ops);
    return out;
}

void
program_of(struct uop_graph *g, const struct uop *const *roots,
           uint32_t n_roots, struct lower_program *out_program)
{
    const struct uop **ops;
    size_t n, i;

    memset(out_program, 0, sizeof(*out_program));
    assert_int_equal(uop_toposort(g, roots, n_roots, &ops, &n), BELL_OK);
    out_program->ops = constants_first(ops, n);
    out_program->n_ops = (uint32_t)n;
    out_program->name = "kernel";
    for (i = 0; i < 3; i++)
        out_program->grid[i] = out_program->local[i] = 1;
    ops = out_program->ops;
    for (i = 0; i < n; i++) {
        uint32_t end = (uint32_t)ops[i]->arg.i + 1;
        if (ops[i]->op == UOP_PARAM && end > out_program->n_params)
            out_program->n_params = end;
        if (ops[i]->op == UOP_SPECIAL && ops[i]->arg.i <= 2)
            out_program->grid[ops[i]->arg.i] = (uint32_t)ops[i]->src[0]->arg.i;
    }
    for (i = 0; i < n; i++)
        out_program->n_vars += ops[i]->op == UOP_VAR;
}

void
gpu_program_of(struct uop_graph *g, const struct uop *const *roots,
               uint32_t n_roots, struct lower_program *out_program)
{
    static const struct lower_target target = {.narrow_index = true};
    const struct uop **to = host_alloc((n_roots + 1) * sizeof(*to));

    assert_non_null(to);
    memcpy(to, roots, n_roots * sizeof(*to));
    assert_int_equal(lower_index(g, to, n_roots, &target), BELL_OK);
    program_of(g, to, n_roots, out_program);
    host_free(to);
}

void
program_free(struct lower_program *program)
{
    host_free(program->ops);
}

void
host_compile(const struct lower_program *program,
             const struct lower_target *target, struct host_code *out_code)
{
    struct render_binary binary;

    if (render_host(program, target, &binary) != BELL_OK)
        fail_msg("render: %s", bell_error_last()->message);
    if (cpu_object_load(binary.data, binary.size_bytes, program->name,
                        program->name, &out_code->object) != BELL_OK)
        fail_msg("load: %s", bell_error_last()->message);
    memcpy(&out_code->fn, &out_code->object.entry, sizeof(out_code->fn));
    render_binary_fini(&binary);
}

void
host_release(struct host_code *code)
{
    cpu_object_unload(&code->object);
}

void
host_call(const struct host_code *code, const struct lower_program *program,
          void *const *bufs)
{
    const uint32_t *grid = program->grid;
    uint64_t args[16];
    uint32_t i;

    assert_true(program->n_params <= 16);
    for (i = 0; i < program->n_params; i++)
        args[i] = (uint64_t)(uintptr_t)bufs[i];
    code->fn(args, grid, 0, (uint64_t)grid[0] * grid[1] * grid[2]);
}

static size_t
guarded_bytes(size_t size_bytes, size_t page)
{
    return (size_t)align_up(size_bytes, page) + page;
}

void *
guarded_alloc(size_t size_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t all = guarded_bytes(size_bytes, page);
    uint8_t *map = mmap(NULL, all, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + all - page, page, PROT_NONE), 0);
    return map + all - page - size_bytes;
}

void
guarded_free(void *ptr, size_t size_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t all = guarded_bytes(size_bytes, page);

    munmap((uint8_t *)ptr + size_bytes + page - all, all);
}

uint64_t
next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ull;
    return hash_mix(*state);
}

static double
random_float(uint64_t *state, enum uop_dtype dtype)
{
    static const double special[] = {
        0.0,          -0.0,      1.0,     -1.0,     0.5,       2.0,
        INFINITY,     -INFINITY, NAN,     0x1p-149, -0x1p-126, 0x1.fffffep127,
        65504,        65519.99,  65520,   0x1p-24,  0x1p-25,   2147483648.0,
        4294967295.0, 9.3e18,    -9.3e18, 1.9e19,   255.5,     -128.9};
    uint64_t r = next_random(state);
    double x;

    if (r % 8 == 0)
        x = special[(r >> 8) % ARRAY_LEN(special)];
    else if (r % 8 == 1)
        x = (double)(int64_t)(r >> 32) * ((r & 8) ? 1 : -1);
    else
        x = ldexp((double)(int64_t)next_random(state), (int)(r >> 8 & 63) - 90);
    return uop_round_float(dtype, x);
}

union uop_arg
random_value(uint64_t *state, enum uop_dtype dtype)
{
    union uop_arg a = {.bits = 0};
    uint64_t r;

    if (uop_dtype_infos[dtype].is_float) {
        a.f = random_float(state, dtype);
        return a;
    }
    r = next_random(state);
    switch (r % 4) {
    case 0: /* small */
        a.i = (int64_t)(r >> 8 & 15) - 4;
        break;
    case 1: /* around a power of two */
        a.i = (int64_t)(((uint64_t)1 << (r >> 8 & 63)) + (r >> 16 & 3) - 1);
        break;
    default:
        a.i = (int64_t)next_random(state);
        break;
    }
    a.i = uop_wrap_int(dtype, dtype == UOP_BOOL ? a.i & 1 : a.i);
    return a;
}

bool
same_value(enum uop_dtype dtype, union uop_arg a, union uop_arg b)
{
    if (!uop_dtype_infos[dtype].is_float)
        return a.i == b.i;
    if (isnan(a.f) || isnan(b.f))
        return isnan(a.f) && isnan(b.f);
    return a.bits == b.bits;
}
