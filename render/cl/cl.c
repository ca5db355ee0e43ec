/* Walks a program and writes its kernel: declarations, loops, register
 * variables. The body is written first, so that variables and what the device
 * has to have are known when the header is. */
#include "render/cl/cl_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "render/render_internal.h"

/* ---- targets ---- */

bool
render_cl_target(const char *arch, struct cl_target *out_target)
{
    struct cl_target t = {.has_f64 = false};
    const char *at;

    if (strncmp(arch, "cl12", 4) != 0)
        return false;
    at = arch + 4;
    if (strncmp(at, "+fma", 4) == 0) {
        t.has_fma = true;
        at += 4;
    }
    if (strncmp(at, "+fp64", 5) == 0) {
        t.has_f64 = true;
        at += 5;
    }
    if (*at)
        return false;
    *out_target = t;
    return true;
}

void
render_cl_lower_target(const struct cl_target *target,
                       struct lower_target *out_target)
{
    struct lower_target t = {
        .vector_bytes = 16,
        .n_vector_regs = 32,
        .n_threads = 1024,
        .l1_bytes = 32 * 1024,
        .l2_bytes = 1024 * 1024,
        .has_fma = target->has_fma,
        .lacks_f64 = !target->has_f64,
        .has_f16 = true,
        .narrow_index = true,
        .is_gpu = true,
        /* Nobody says how many work-items run in step: as many as AVX-512 and
         * the smallest subgroups of GPUs have. Nothing may depend on it. */
        .warp_lanes = 16,
        .n_units = 16,
        .max_threads = 256, /* guess: what every GPU runs well */
        .max_regs = 128,
        .max_shared_bytes = 32 * 1024, /* what OpenCL 1.2 promises */
        .max_grid = {INT32_MAX, 65535, 65535},
        /* Compilers may be wrong about a barrier in a branch, though all of
         * the work-group take it. observed: PoCL 3.1, 2026-11-26: NaN from two
         * kernels in one launch that alone are right */
        .no_packs = true,
    };

    strcpy(t.name, target->has_fma ? "cl12+fma" : "cl12");
    *out_target = t;
}

/* ---- text ---- */

const char *
cl_type(unsigned dtype)
{
    static const char *const types[UOP_DTYPE_COUNT] = {
        [UOP_BOOL] = "bool",     [UOP_I8] = "char",
        [UOP_U8] = "uchar",      [UOP_I16] = "short",
        [UOP_U16] = "ushort",    [UOP_I32] = "int",
        [UOP_U32] = "uint",      [UOP_I64] = "long",
        [UOP_U64] = "ulong",     [UOP_F16] = "ushort",
        [UOP_BF16] = "ushort",   [UOP_F32] = "float",
        [UOP_F64] = "double",    [UOP_F8E4M3] = "uchar",
        [UOP_F8E5M2] = "uchar",  [UOP_F8E4M3Z] = "uchar",
        [UOP_F8E5M2Z] = "uchar",
    };

    assert(dtype < UOP_DTYPE_COUNT && types[dtype]);
    return types[dtype];
}

const char *
cl_memory_type(unsigned dtype)
{
    return dtype == UOP_BOOL ? "uchar" : cl_type(dtype);
}

/* Floats are written as their bits, so that nothing is rounded twice. The
 * lowest integers have no decimal form: the minus is an operator. */
static void
put_imm(struct render_text *t, struct cl_opnd o)
{
    switch (o.dtype) {
    case UOP_BOOL:
        render_put(t, "%d", o.bits != 0);
        break;
    case UOP_F32:
        render_put(t, "as_float(0x%08" PRIX32 "u)", (uint32_t)o.bits);
        break;
    case UOP_F64:
        render_put(t, "as_double(0x%016" PRIX64 "UL)", o.bits);
        break;
    case UOP_I32:
        if ((int32_t)o.bits == INT32_MIN)
            render_put(t, "((int)0x80000000u)");
        else
            render_put(t, (int32_t)o.bits < 0 ? "(%" PRId32 ")" : "%" PRId32,
                       (int32_t)o.bits);
        break;
    case UOP_U32:
        render_put(t, "%" PRIu32 "u", (uint32_t)o.bits);
        break;
    case UOP_I64:
        if ((int64_t)o.bits == INT64_MIN)
            render_put(t, "((long)0x8000000000000000UL)");
        else
            render_put(t,
                       (int64_t)o.bits < 0 ? "(%" PRId64 "L)" : "%" PRId64 "L",
                       (int64_t)o.bits);
        break;
    case UOP_U64:
        render_put(t, "%" PRIu64 "UL", o.bits);
        break;
    case UOP_I8:
    case UOP_I16:
        render_put(t, "((%s)%d)", cl_type(o.dtype), (int16_t)o.bits);
        break;
    default:
        render_put(t, "((%s)0x%04x)", cl_type(o.dtype),
                   (unsigned)(o.bits & 0xffff));
    }
}

void
cl_put_opnd(struct render_text *t, struct cl_opnd o)
{
    switch (o.kind) {
    case CL_IMMEDIATE:
        put_imm(t, o);
        break;
    case CL_ARGUMENT:
        render_put(t, "a%u", o.number);
        break;
    case CL_MEMORY:
        render_put(t, "p%u_%s", o.number, uop_dtype_infos[o.dtype].short_name);
        break;
    case CL_SHARED:
        render_put(t, "m%u", o.number);
        break;
    default:
        render_put(t, "r%u", o.number);
    }
}

void
cl_indent(struct cl_emit *e)
{
    uint32_t i;

    for (i = 0; i <= e->depth; i++)
        render_put_bytes(&e->body, "    ", 4);
}

void
cl_op(struct cl_emit *e, const char *fmt, const struct cl_opnd *o)
{
    cl_indent(e);
    for (; *fmt; fmt++) {
        if (*fmt != '%') {
            render_put_bytes(&e->body, fmt, 1);
        } else if (fmt[1] == '%') {
            render_put_bytes(&e->body, fmt++, 1);
        } else {
            assert(o->kind != CL_VARIABLE || o->number < e->n_variables ||
                   e->failed);
            cl_put_opnd(&e->body, *o++);
        }
    }
    render_put_bytes(&e->body, ";\n", 2);
}

bell_status
cl_no_memory(const struct cl_emit *e)
{
    return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                     e->prog->name);
}

bell_status
cl_refuse(const struct cl_emit *e, const struct uop *u, const char *why)
{
    char text[120];

    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: cannot render %s as OpenCL C: %s: %s", e->prog->name,
                     uop_op_infos[u->op].name, why,
                     uop_expr_str(u, text, sizeof(text)));
}

/* ---- values ---- */

struct cl_opnd
cl_new(struct cl_emit *e, unsigned dtype, enum cl_space space)
{
    struct cl_opnd o = {.kind = CL_VARIABLE,
                        .dtype = (uint8_t)dtype,
                        .space = (uint8_t)space,
                        .number = (uint32_t)e->n_variables};

    if (host_grow((void **)&e->variables, &e->cap_variables, e->n_variables + 1,
                  sizeof(*e->variables)) != 0) {
        e->failed = true;
        return o;
    }
    e->variables[e->n_variables++] =
        (struct cl_variable){(uint8_t)dtype, (uint8_t)space};
    return o;
}

struct cl_opnd
cl_imm(unsigned dtype, uint64_t bits)
{
    return (struct cl_opnd){
        .kind = CL_IMMEDIATE, .dtype = (uint8_t)dtype, .bits = bits};
}

struct cl_opnd
cl_const(unsigned dtype, union uop_arg arg)
{
    return cl_imm(dtype, uop_dtype_infos[dtype].is_float && dtype != UOP_F64
                             ? uop_float_bits(dtype, arg.f)
                             : arg.bits);
}

static bool
is_loop_open(const struct cl_emit *e, uint32_t serial)
{
    uint32_t i;

    for (i = e->n_loops; i > 0; i--) {
        if (e->loops[i - 1].serial == serial)
            return true;
    }
    return serial == 0;
}

/* The PARAM's pointer, which is made at the kernel's entry. */
static struct cl_opnd
param_of(struct cl_emit *e, const struct uop *u)
{
    unsigned slot = (unsigned)u->arg.i;
    struct cl_opnd o = {.kind = CL_MEMORY,
                        .dtype = u->dtype,
                        .space = CL_GLOBAL,
                        .number = slot};

    assert(slot < e->prog->n_params && u->dtype < UOP_DTYPE_COUNT);
    if (!e->is_declared[slot][u->dtype]) {
        e->is_declared[slot][u->dtype] = true;
        render_put(&e->header,
                   "    global %s *p%u_%s = (global %s *)(b%u + "
                   "o%u);\n",
                   cl_memory_type(u->dtype), slot,
                   uop_dtype_infos[u->dtype].short_name,
                   cl_memory_type(u->dtype), slot, slot);
    }
    return o;
}

bell_status
cl_value_of(struct cl_emit *e, const struct uop *u, struct cl_value *out)
{
    const uint64_t *at;

    if (u->op == UOP_CONST || u->op == UOP_PARAM || u->op == UOP_VAR) {
        struct cl_opnd *o = arena_alloc(&e->arena, sizeof(*o));

        if (!o)
            return cl_no_memory(e);
        if (u->op == UOP_CONST)
            *o = cl_const(u->dtype, u->arg);
        else if (u->op == UOP_PARAM)
            *o = param_of(e, u);
        else
            *o = (struct cl_opnd){.kind = CL_ARGUMENT,
                                  .dtype = UOP_I64,
                                  .number = (uint32_t)u->arg.i};
        *out = (struct cl_value){.lanes = o};
        return BELL_OK;
    }
    at = map_get(&e->index, u->id);
    if (!at || !e->values[*at].lanes || !is_loop_open(e, e->values[*at].loop))
        return cl_refuse(e, u, "it is used where it has no value");
    *out = e->values[*at];
    return BELL_OK;
}

static bell_status
set_cl_value(struct cl_emit *e, const struct uop *u, const struct cl_value *v)
{
    assert(e->n_values < e->prog->n_ops && !map_get(&e->index, u->id));
    e->values[e->n_values] = *v;
    e->values[e->n_values].loop =
        e->n_loops ? e->loops[e->n_loops - 1].serial : 0;
    if (map_put(&e->index, u->id, e->n_values) < 0)
        return cl_no_memory(e);
    e->n_values++;
    return BELL_OK;
}

/* ---- loops and conditions ---- */

static bell_status
begin_cl_loop(struct cl_emit *e, const struct uop *u)
{
    struct cl_loop *loop = &e->loops[e->n_loops];
    struct cl_opnd *index = arena_alloc(&e->arena, sizeof(*index));
    struct cl_value extent, v = {.lanes = index};

    assert(u->op == UOP_RANGE && u->src[0]->lanes == 1);
    if (!index)
        return cl_no_memory(e);
    BELL_TRY(cl_value_of(e, u->src[0], &extent));
    *loop = (struct cl_loop){.range = u, .serial = ++e->next_serial};
    *index = cl_new(e, u->dtype, CL_VALUE);
    cl_indent(e);
    render_put(&e->body, "for (r%u = 0; r%u < ", index->number, index->number);
    cl_put_opnd(&e->body, extent.lanes[0]);
    render_put(&e->body, "; r%u++) {\n", index->number);
    e->depth++;
    e->n_loops++;
    return set_cl_value(e, u, &v);
}

void
cl_close_block(struct cl_emit *e)
{
    assert(e->depth > 0);
    e->depth--;
    cl_indent(e);
    render_put(&e->body, "}\n");
}

static bell_status
end_cl_loop(struct cl_emit *e, const struct uop *u)
{
    if (e->n_loops == 0 || e->loops[e->n_loops - 1].range != u->src[0])
        return cl_refuse(e, u, "loops do not nest");
    cl_close_block(e);
    e->n_loops--;
    return BELL_OK;
}

static bell_status
begin_cl_if(struct cl_emit *e, const struct uop *u)
{
    struct cl_value gate;

    BELL_TRY(cl_value_of(e, u->src[0], &gate));
    cl_indent(e);
    render_put(&e->body, "if (");
    cl_put_opnd(&e->body, gate.lanes[0]);
    render_put(&e->body, ") {\n");
    e->depth++;
    return BELL_OK;
}

/* ---- register variables ---- */

/* A copy in new variables. */
static bell_status
copy_cl_value(struct cl_emit *e, const struct uop *u, const struct uop *from)
{
    struct cl_opnd *o = arena_alloc(&e->arena, u->lanes * sizeof(*o));
    struct cl_value src, v = {.lanes = o};
    uint32_t i;

    assert(from->dtype == u->dtype && from->lanes == u->lanes);
    if (!o)
        return cl_no_memory(e);
    BELL_TRY(cl_value_of(e, from, &src));
    for (i = 0; i < u->lanes; i++) {
        o[i] = cl_new(e, u->dtype, CL_VALUE);
        CL_OP(e, "% = %", o[i], src.lanes[i]);
    }
    return set_cl_value(e, u, &v);
}

/* All lanes are read before one is written: they may be the variable's own. */
static bell_status
set_cl_acc(struct cl_emit *e, const struct uop *u)
{
    struct cl_value acc, v;
    uint32_t i;

    assert(uop_memory(u->src[0])->op == UOP_ACC);
    BELL_TRY(cl_value_of(e, uop_memory(u->src[0]), &acc));
    BELL_TRY(cl_value_of(e, u->src[1], &v));
    for (i = 0; i < u->src[1]->lanes; i++)
        CL_OP(e, "% = %", acc.lanes[i], v.lanes[i]);
    return BELL_OK;
}

/* ---- ops ---- */

/* A coordinate of size 1 is 0, without a variable. */
static bell_status
emit_cl_special(struct cl_emit *e, const struct uop *u)
{
    struct cl_opnd *o = arena_alloc(&e->arena, sizeof(*o));
    struct cl_value v = {.lanes = o};

    if (!o)
        return cl_no_memory(e);
    if (u->arg.i < 0 || u->arg.i > 6 || u->arg.i == 3)
        return cl_refuse(e, u, "no such coordinate");
    if (u->src[0]->op == UOP_CONST && u->src[0]->arg.i == 1) {
        *o = cl_imm(u->dtype, 0);
        return set_cl_value(e, u, &v);
    }
    *o = cl_new(e, u->dtype, CL_VALUE);
    cl_indent(e);
    render_put(&e->body, "r%u = (%s)get_%s_id(%d);\n", o->number,
               cl_type(u->dtype), u->arg.i < 3 ? "group" : "local",
               (int)u->arg.i & 3);
    return set_cl_value(e, u, &v);
}

static bell_status
emit_memory(struct cl_emit *e, const struct uop *u)
{
    struct cl_opnd *o = arena_alloc(&e->arena, u->lanes * sizeof(*o));
    struct cl_value v = {.lanes = o};

    if (!o)
        return cl_no_memory(e);
    if (u->op == UOP_INDEX)
        BELL_TRY(cl_emit_index(e, u, o));
    else
        BELL_TRY(cl_emit_load(e, u, o));
    return set_cl_value(e, u, &v);
}

static bell_status
emit_cl_one(struct cl_emit *e, const struct uop *u)
{
    struct cl_value v = {.lanes = NULL};

    switch (u->op) {
    case UOP_CONST:
    case UOP_PARAM:
    case UOP_VAR:
    case UOP_AFTER:
    case UOP_SINK:
    case UOP_LOCAL:
        return BELL_OK;
    case UOP_SPECIAL:
        return emit_cl_special(e, u);
    case UOP_RANGE:
        return begin_cl_loop(e, u);
    case UOP_END:
        return end_cl_loop(e, u);
    case UOP_IF:
        return begin_cl_if(e, u);
    case UOP_ENDIF:
        if (e->depth == e->n_loops)
            return cl_refuse(e, u, "nothing is open");
        cl_close_block(e);
        return BELL_OK;
    case UOP_BARRIER:
        cl_indent(e);
        render_put(&e->body, "barrier(CLK_LOCAL_MEM_FENCE);\n");
        return BELL_OK;
    case UOP_ACC:
        return copy_cl_value(e, u, u->src[0]);
    case UOP_ACC_GET:
        return copy_cl_value(e, u, uop_memory(u->src[0]));
    case UOP_ACC_SET:
        return set_cl_acc(e, u);
    case UOP_STORE:
        return cl_emit_store(e, u);
    case UOP_INDEX:
    case UOP_LOAD:
        return emit_memory(e, u);
    default:
        BELL_TRY(cl_emit_op(e, u, &v));
        return set_cl_value(e, u, &v);
    }
}

/* ---- the kernel ---- */

static bell_status
emit_cl_body(struct cl_emit *e)
{
    const struct lower_program *p = e->prog;
    const struct uop *bad;
    uint32_t i, n_ranges = 0;

    if ((bad = render_bad_slot(p)) != NULL)
        return cl_refuse(e, bad, "no such argument");
    for (i = 0; i < p->n_ops; i++) {
        n_ranges += p->ops[i]->op == UOP_RANGE;
        if (p->ops[i]->dtype == UOP_F64 && !e->target->has_f64)
            return cl_refuse(e, p->ops[i],
                             "the device has no float64 (cl_khr_fp64)");
    }
    BELL_TRY(render_order(p, false, &e->arena, &e->ops));
    e->values = arena_calloc(&e->arena, p->n_ops + 1, sizeof(*e->values));
    e->loops = arena_calloc(&e->arena, n_ranges + 1, sizeof(*e->loops));
    e->is_declared =
        arena_calloc(&e->arena, p->n_params + 1, sizeof(*e->is_declared));
    if (e->arena.failed)
        return cl_no_memory(e);
    BELL_TRY(cl_declare_locals(e));
    for (i = 0; i < p->n_ops; i++)
        BELL_TRY(emit_cl_one(e, e->ops[i]));
    if (e->depth)
        return bell_fail(BELL_E_INTERNAL, "%s: %u blocks are not closed",
                         p->name, e->depth);
    return BELL_OK;
}

static void
put_cl_head(const struct cl_emit *e, struct render_text *t)
{
    const struct lower_program *p = e->prog;
    uint32_t i;

    render_put(t, "#pragma OPENCL FP_CONTRACT OFF\n");
    if (e->target->has_f64)
        render_put(t, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
    if (e->loads_halves)
        render_put(t, "\nfloat from_half(ushort h)\n{\n"
                      "    return vload_half(0, (const half *)&h);\n}\n");
    if (e->stores_halves)
        render_put(t, "\nushort to_half(float x)\n{\n    ushort h;\n\n"
                      "    vstore_half_rte(x, 0, (half *)&h);\n"
                      "    return h;\n}\n");
    if (e->stores_doubles)
        render_put(t, "\nushort to_half_from_double(double x)\n{\n"
                      "    ushort h;\n\n"
                      "    vstore_half_rte(x, 0, (half *)&h);\n"
                      "    return h;\n}\n");
    render_put(t,
               "\nkernel __attribute__((reqd_work_group_size(%u, %u, %u)))\n"
               "void ",
               p->local[0], p->local[1], p->local[2]);
    render_put_bytes(t, p->name, strlen(p->name));
    render_put(t, "(");
    for (i = 0; i < p->n_params; i++)
        render_put(t, "%sglobal uchar *b%u, ulong o%u", i ? ", " : "", i, i);
    for (; i < p->n_params + p->n_vars; i++)
        render_put(t, "%slong a%u", i ? ", " : "", i);
    render_put(t, ")\n{\n");
}

static void
put_variables(const struct cl_emit *e, struct render_text *t)
{
    static const char *const spaces[] = {
        [CL_VALUE] = "", [CL_GLOBAL] = "global ", [CL_LOCAL] = "local "};
    size_t i;

    for (i = 0; i < e->n_variables; i++) {
        const struct cl_variable *v = &e->variables[i];

        render_put(t, "    %s%s %sr%zu;\n", spaces[v->space],
                   v->space ? cl_memory_type(v->dtype) : cl_type(v->dtype),
                   v->space ? "*" : "", i);
    }
}

static bell_status
cl_finish(struct cl_emit *e, char **out_text)
{
    struct render_text t = {NULL, 0, 0, false};

    assert(e->depth == 0 && e->n_loops == 0);
    put_cl_head(e, &t);
    if (e->header.n)
        render_put_bytes(&t, e->header.data, e->header.n);
    put_variables(e, &t);
    render_put(&t, "\n");
    if (e->body.n)
        render_put_bytes(&t, e->body.data, e->body.n);
    render_put(&t, "}\n");
    if (t.failed || e->header.failed || e->body.failed || e->failed ||
        e->arena.failed) {
        host_free(t.data);
        return cl_no_memory(e);
    }
    *out_text = t.data;
    return BELL_OK;
}

bell_status
render_cl(const struct lower_program *program, const struct cl_target *target,
          char **out_text)
{
    struct cl_emit e = {.prog = program, .target = target};
    bell_status status;

    arena_init(&e.arena);
    map_init(&e.index);
    status = emit_cl_body(&e);
    if (status == BELL_OK)
        status = cl_finish(&e, out_text);
    host_free(e.header.data);
    host_free(e.body.data);
    host_free(e.variables);
    map_fini(&e.index);
    arena_fini(&e.arena);
    return status;
}
