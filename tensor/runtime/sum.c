/* Sum kernels, as linear programs: a kernel of the scheduler has its sizes in
 * its grid, these take any number of elements.
 *
 * On a GPU neighbouring threads take neighbouring elements, SUM_EACH of them in
 * steps of a work-group. On the host a work-group is a loop over vectors, and
 * one over what is left behind the last whole vector.
 */
#include "tensor/runtime/sum.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "lower/index.h"
#include "lower/linearize.h"
#include "render/ptx/nv_container.h"
#include "tensor/runtime/runtime.h"
#include "uops/validate.h"

#define SUM_THREADS    256u
#define SUM_EACH       4u
#define SUM_HOST_ELEMS 1024u

typedef const struct uop *node;

/* A program that is built. */
struct builder {
    struct uop_graph *g;
    const struct lower_target *target;
    struct hcq_sum_kernel kernel;
    enum uop_dtype dtype, sum_dtype; /* of elements, of what is added */
    node count;                      /* the number of elements */
};

static const union uop_arg no_arg = {.bits = 0};

static const enum uop_dtype dtypes[HCQ_DTYPE_COUNT] = {
    [HCQ_DTYPE_BOOL] = UOP_U8,   [HCQ_DTYPE_I8] = UOP_I8,
    [HCQ_DTYPE_U8] = UOP_U8,     [HCQ_DTYPE_I32] = UOP_I32,
    [HCQ_DTYPE_I64] = UOP_I64,   [HCQ_DTYPE_F16] = UOP_F16,
    [HCQ_DTYPE_BF16] = UOP_BF16, [HCQ_DTYPE_F32] = UOP_F32,
    [HCQ_DTYPE_F64] = UOP_F64,
};

/* ---- parts --------------------------------------------------------------- */

static node
number(const struct builder *b, int64_t value)
{
    return uop_const_int(b->g, UOP_I64, value);
}

static node
add(const struct builder *b, node x, node y)
{
    return uop_alu2(b->g, UOP_ADD, x, y);
}

static node
times(const struct builder *b, node x, int64_t by)
{
    return uop_alu2(b->g, UOP_MUL, x, number(b, by));
}

static int64_t
max_groups(const struct lower_target *target)
{
    return target->is_gpu ? target->max_grid[0] : UINT32_MAX;
}

/* The work-group's number, or the thread's in it. */
static node
special(const struct builder *b, int64_t which, int64_t extent)
{
    node size = number(b, extent);

    return uop_new(b->g, UOP_SPECIAL, UOP_I64, 1, (union uop_arg){.i = which},
                   &size, 1);
}

static node
parameter(const struct builder *b, uint32_t slot, enum uop_dtype dtype)
{
    return uop_new(b->g, UOP_PARAM, dtype, 1, (union uop_arg){.i = slot}, NULL,
                   0);
}

static node
zeros(const struct builder *b, enum uop_dtype dtype, uint16_t lanes)
{
    node zero = uop_dtype_infos[dtype].is_float
                    ? uop_const_float(b->g, dtype, 0)
                    : uop_const_int(b->g, dtype, 0);

    return lanes == 1
               ? zero
               : uop_make(b->g, UOP_BROADCAST, dtype, lanes, no_arg, &zero, 1);
}

/* Stores the sum of the elements `at` to at + lanes - 1, where `gate` is. */
static node
sum_at(const struct builder *b, node at, node gate, uint16_t lanes)
{
    const struct hcq_sum_kernel *k = &b->kernel;
    enum uop_op op = k->dtype == HCQ_DTYPE_BOOL ? UOP_OR : UOP_ADD;
    enum uop_dtype to = k->wide_result ? UOP_F32 : b->dtype;
    node terms[HCQ_COLLECTIVE_RANKS_MAX], sum, src[4];
    uint32_t i, n = k->n_terms;

    for (i = 0; i < k->n_terms; i++) {
        enum uop_dtype from = k->wide_first && i == 0 ? UOP_F32 : b->dtype;
        node term;

        src[0] = parameter(b, 1 + i, from);
        src[1] = at;
        src[2] = zeros(b, from, lanes);
        src[3] = gate;
        term = uop_make(b->g, UOP_LOAD, from, lanes, no_arg, src, 4);
        if (from != b->sum_dtype)
            term = uop_cast(b->g, term, b->sum_dtype);
        terms[i] = term;
    }
    for (; k->in_pairs && n > 1; n = (n + 1) / 2) {
        for (i = 0; i < n / 2; i++)
            terms[i] = uop_alu2(b->g, op, terms[2 * i], terms[2 * i + 1]);
        if (n % 2)
            terms[n / 2] = terms[n - 1];
    }
    for (i = 1, sum = terms[0]; i < n; i++)
        sum = uop_alu2(b->g, op, sum, terms[i]);
    if (to != b->sum_dtype)
        sum = uop_cast(b->g, sum, to);
    src[0] = parameter(b, 0, to);
    src[1] = at;
    src[2] = sum;
    src[3] = gate;
    return uop_make(b->g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
}

/* ---- programs ------------------------------------------------------------ */

static node
build_gpu(const struct builder *b, uint32_t n_threads)
{
    node group = special(b, 0, max_groups(b->target));
    node thread = special(b, 4, n_threads), stores[SUM_EACH];
    uint32_t i;

    for (i = 0; i < SUM_EACH; i++) {
        node at = add(b, times(b, group, (int64_t)n_threads * SUM_EACH),
                      add(b, thread, number(b, (int64_t)i * n_threads)));

        stores[i] = sum_at(b, at, uop_alu2(b->g, UOP_CMPLT, at, b->count), 1);
    }
    return uop_make(b->g, UOP_SINK, UOP_VOID, 1, no_arg, stores, SUM_EACH);
}

static node
close_loop(const struct builder *b, node range, node store)
{
    node src[2] = {range, store};

    return uop_make(b->g, UOP_END, UOP_VOID, 1, no_arg, src, 2);
}

static node
build_host(const struct builder *b)
{
    size_t wide = uop_dtype_infos[b->sum_dtype].size_bytes;
    int64_t lanes = (int64_t)(b->target->vector_bytes / wide);
    node group = special(b, 0, max_groups(b->target)), first, range, at,
         ends[2];

    if (lanes < 1)
        lanes = 1;
    first = times(b, group, SUM_HOST_ELEMS);
    range = uop_range(b->g, 0, UOP_AXIS_LOOP, SUM_HOST_ELEMS / lanes);
    at = add(b, first, times(b, range, lanes));
    ends[0] =
        close_loop(b, range,
                   sum_at(b, at,
                          uop_alu2(b->g, UOP_CMPLT,
                                   add(b, at, number(b, lanes - 1)), b->count),
                          (uint16_t)lanes));
    if (lanes == 1)
        return uop_make(b->g, UOP_SINK, UOP_VOID, 1, no_arg, ends, 1);
    /* count / lanes * lanes is not negative: shifts will do */
    range = uop_range(b->g, 1, UOP_AXIS_LOOP, lanes);
    at = add(
        b,
        times(b, uop_alu2(b->g, UOP_IDIV, b->count, number(b, lanes)), lanes),
        range);
    ends[1] = close_loop(
        b, range,
        sum_at(b, at,
               uop_alu2(b->g, UOP_AND, uop_alu2(b->g, UOP_CMPLT, at, b->count),
                        uop_alu2(b->g, UOP_AND,
                                 uop_alu2(b->g, UOP_CMPLT,
                                          add(b, first, number(b, -1)), at),
                                 uop_alu2(b->g, UOP_CMPLT, at,
                                          add(b, first,
                                              number(b, SUM_HOST_ELEMS))))),
               1));
    return uop_make(b->g, UOP_SINK, UOP_VOID, 1, no_arg, ends, 2);
}

static void
name_kernel(const struct hcq_sum_kernel *k, char name[48])
{
    snprintf(name, 48, "sum_%u_%s%s%s%s%s", k->n_terms,
             hcq_dtype_name(k->dtype), k->in_pairs ? "_pairs" : "",
             k->wide_first ? "_wide" : "", k->wide_result ? "_to_wide" : "",
             k->is_team ? "_team" : "");
}

/* A linear program in g's memory, and the elements of a work-group. */
static bell_status
build_program(struct uop_graph *g, const struct rt_target *target,
              const struct hcq_sum_kernel *kernel, const char *name,
              struct lower_program *program, uint32_t *out_group_elems)
{
    struct builder b = {.g = g, .target = &target->lower, .kernel = *kernel};
    uint32_t n_threads = SUM_THREADS;
    node root;

    b.dtype = b.sum_dtype = dtypes[kernel->dtype];
    if (b.dtype == UOP_F16 || b.dtype == UOP_BF16)
        b.sum_dtype = UOP_F32;
    b.count = uop_new(g, UOP_VAR, UOP_I64, 1,
                      (union uop_arg){.i = kernel->n_terms + 1}, NULL, 0);
    if (target->lower.is_gpu && target->lower.max_threads < n_threads)
        n_threads = target->lower.max_threads;
    root = target->lower.is_gpu ? build_gpu(&b, n_threads) : build_host(&b);
    *out_group_elems =
        target->lower.is_gpu ? n_threads * SUM_EACH : SUM_HOST_ELEMS;
    memset(program, 0, sizeof(*program));
    /* of any size: a launch says of which */
    program->grid[0] = (uint32_t)max_groups(&target->lower);
    program->grid[1] = program->grid[2] = 1;
    program->local[0] = target->lower.is_gpu ? n_threads : 1;
    program->local[1] = program->local[2] = 1;
    program->n_params = kernel->n_terms + 1;
    program->n_vars = 1;
    program->name = name;
    BELL_TRY(lower_decompose(g, &root, 1, &target->lower));
    BELL_TRY(lower_index(g, &root, 1, &target->lower));
    BELL_TRY(uop_validate_pass(g, &root, 1, UOP_STAGE_P, "a sum kernel"));
    return linearize(g, root, &program->ops, &program->n_ops);
}

/* ---- teams: PTX as it is ------------------------------------------------- */

/* A thread's instructions for 16 bytes or less. src:
 * docs/hardware/nvidia-code.md, "Multicast" */
static const struct {
    const char *add, *type, *registers;
    uint32_t bytes;
} team_rows[HCQ_DTYPE_COUNT] = {
    [HCQ_DTYPE_BOOL] = {"or", "b32", "%w0", 4},
    [HCQ_DTYPE_I32] = {"add", "u32", "%w0", 4},
    [HCQ_DTYPE_I64] = {"add", "u64", "%l", 8},
    [HCQ_DTYPE_F16] = {"add.acc::f32", "v4.f16x2", "{%w0, %w1, %w2, %w3}", 16},
    [HCQ_DTYPE_BF16] = {"add.acc::f32", "v4.bf16x2", "{%w0, %w1, %w2, %w3}",
                        16},
    [HCQ_DTYPE_F32] = {"add", "v4.f32", "{%f0, %f1, %f2, %f3}", 16},
    [HCQ_DTYPE_F64] = {"add", "f64", "%d", 8},
};

/* The parameters but for y and the count are there for who orders commands. */
static void
write_team(const struct hcq_sum_kernel *k, const struct ptx_target *target,
           const char *name, char *text, size_t size)
{
    unsigned version = render_ptx_multimem_version(target);
    uint32_t bytes = team_rows[k->dtype].bytes, i;
    size_t n;

    n = (size_t)snprintf(text, size,
                         ".version %u.%u\n.target sm_%u\n.address_size 64\n"
                         ".visible .entry %s(.param .u64 y",
                         version / 10, version % 10, target->sm, name);
    for (i = 0; i < k->n_terms; i++)
        n += (size_t)snprintf(text + n, size - n, ", .param .u64 x%u", i);
    snprintf(text + n, size - n,
             ", .param .u64 n)\n.reqntid %u, 1, 1\n{\n"
             ".reg .pred %%p; .reg .b32 %%i, %%t, %%w<4>; .reg .f32 %%f<4>;\n"
             ".reg .f64 %%d; .reg .b64 %%a, %%k, %%j, %%n, %%l;\n"
             "ld.param.u64 %%a, [y];\nld.param.u64 %%n, [n];\n"
             "mov.u32 %%i, %%ctaid.x;\nmov.u32 %%t, %%tid.x;\n"
             "cvt.u64.u32 %%k, %%t;\nmad.wide.u32 %%k, %%i, %u, %%k;\n"
             "mul.lo.u64 %%j, %%k, %u;\nsetp.ge.u64 %%p, %%j, %%n;\n"
             "@%%p exit;\nmad.lo.u64 %%a, %%k, %u, %%a;\n"
             "multimem.ld_reduce.relaxed.sys.global.%s.%s %s, [%%a];\n"
             "multimem.st.relaxed.sys.global.%s [%%a], %s;\nexit;\n}\n",
             SUM_THREADS, SUM_THREADS, bytes / hcq_dtype_bytes(k->dtype), bytes,
             team_rows[k->dtype].add, team_rows[k->dtype].type,
             team_rows[k->dtype].registers, team_rows[k->dtype].type,
             team_rows[k->dtype].registers);
}

static bell_status
assemble_team(const struct rt_target *target,
              const struct hcq_sum_kernel *kernel, const char *name,
              struct rt_binary *out, uint32_t *out_group_elems)
{
    char text[4096];

    if (!team_rows[kernel->dtype].add ||
        !render_ptx_multimem_version(&target->ptx))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s adds no %s of several devices at once",
                         target->arch, hcq_dtype_name(kernel->dtype));
    write_team(kernel, &target->ptx, name, text, sizeof(text));
    *out_group_elems = SUM_THREADS * (team_rows[kernel->dtype].bytes /
                                      hcq_dtype_bytes(kernel->dtype));
    out->local[0] = SUM_THREADS;
    out->local[1] = out->local[2] = 1;
    if (target->is_simulated)
        return render_nv_container_text(text, name, target->ptx.sm,
                                        kernel->n_terms + 2, &out->file);
    return render_ptxas(text, &target->ptx, &out->file);
}

static bell_status
load_kernel(struct hcq_device *dev, const struct hcq_sum_kernel *kernel,
            struct hcq_sum_program *out)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct rt_binary binary = {.shared_bytes = 0};
    struct lower_program program;
    struct rt_target target;
    struct uop_graph g;
    bell_status status;
    char name[48];

    hcq_device_info(dev, &info);
    BELL_TRY(rt_target_init(&info, 0, &target));
    if (kernel->dtype == HCQ_DTYPE_F64 && target.lower.lacks_f64)
        return bell_fail(BELL_E_UNSUPPORTED, "%s (%s) has no float64",
                         info.model, info.arch);
    name_kernel(kernel, name);
    memset(out, 0, sizeof(*out));
    if (kernel->is_team) {
        status =
            assemble_team(&target, kernel, name, &binary, &out->group_elems);
    } else {
        uop_graph_init(&g);
        status = build_program(&g, &target, kernel, name, &program,
                               &out->group_elems);
        if (status == BELL_OK)
            status = target.compiler->compile(&target, &program, &binary);
        uop_graph_fini(&g);
    }
    if (status == BELL_OK) {
        desc.name = desc.entry = name;
        desc.binary = binary.file.data;
        desc.binary_size_bytes = binary.file.size_bytes;
        desc.n_bufs = kernel->n_terms + 1;
        desc.n_vals = 1;
        memcpy(desc.local, binary.local, sizeof(desc.local));
        memcpy(out->local, binary.local, sizeof(out->local));
        status = hcq_program_create(dev, &desc, &out->prog);
    }
    render_binary_fini(&binary.file);
    return status;
}

/* ---- the cache ----------------------------------------------------------- */

struct entry {
    struct hcq_device *dev;
    struct hcq_sum_kernel kernel;
    struct hcq_sum_program program;
};

struct tensor_sums {
    struct entry *entries; /* owned, with their programs */
    size_t n, cap;
};

bell_status
tensor_sums_create(struct tensor_sums **out_sums)
{
    struct tensor_sums *sums = host_calloc(1, sizeof(*sums));

    if (!sums)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for sum kernels");
    *out_sums = sums;
    return BELL_OK;
}

void
tensor_sums_destroy(struct tensor_sums *sums)
{
    size_t i;

    if (!sums)
        return;
    for (i = 0; i < sums->n; i++)
        hcq_program_destroy(sums->entries[i].program.prog);
    host_free(sums->entries);
    host_free(sums);
}

static bool
is_same(const struct hcq_sum_kernel *a, const struct hcq_sum_kernel *b)
{
    return a->dtype == b->dtype && a->n_terms == b->n_terms &&
           a->wide_first == b->wide_first && a->wide_result == b->wide_result &&
           a->is_team == b->is_team && a->in_pairs == b->in_pairs;
}

bell_status
tensor_sums_get(void *user, struct hcq_device *dev,
                const struct hcq_sum_kernel *kernel,
                struct hcq_sum_program *out_program)
{
    struct tensor_sums *sums = user;
    struct hcq_sum_program program;
    size_t i;

    assert(kernel->dtype < HCQ_DTYPE_COUNT && kernel->n_terms >= 2 &&
           kernel->n_terms <= HCQ_COLLECTIVE_RANKS_MAX);
    for (i = 0; i < sums->n; i++) {
        if (sums->entries[i].dev == dev &&
            is_same(&sums->entries[i].kernel, kernel)) {
            *out_program = sums->entries[i].program;
            return BELL_OK;
        }
    }
    if (host_grow((void **)&sums->entries, &sums->cap, sums->n + 1,
                  sizeof(*sums->entries)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a sum kernel");
    BELL_TRY(load_kernel(dev, kernel, &program));
    sums->entries[sums->n++] = (struct entry){dev, *kernel, program};
    *out_program = program;
    return BELL_OK;
}
