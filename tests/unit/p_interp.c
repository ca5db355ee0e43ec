#include "p_interp.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef union uop_arg lane_value;

/* ---- memory ---- */

static double
half_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double sign = bits >> 15 ? -1 : 1;

    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

/* Encodes a value that is exact in the format. */
static uint16_t
double_to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    double m;

    if (isnan(x))
        return 0x7e00;
    x = fabs(x);
    if (isinf(x))
        return sign | 0x7c00;
    if (x < ldexp(1, -14))
        return (uint16_t)(sign | (uint16_t)lrint(ldexp(x, 24)));
    m = frexp(x, &exponent);
    return (uint16_t)(sign | (exponent + 14) << 10 |
                      ((int)lrint(ldexp(m, 11)) & 1023));
}

static double
bfloat_to_double(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;

    memcpy(&f, &wide, 4);
    return (double)f;
}

static uint16_t
double_to_bfloat(double x)
{
    float f = (float)x;
    uint32_t wide;

    memcpy(&wide, &f, 4);
    return (uint16_t)(wide >> 16);
}

void
p_get(const struct p_buf *buf, size_t i, union uop_arg *out)
{
    out->bits = 0;
    switch ((int)buf->dtype) {
    case UOP_BOOL:
    case UOP_U8:
        out->i = ((const uint8_t *)buf->data)[i];
        break;
    case UOP_I8:
        out->i = ((const int8_t *)buf->data)[i];
        break;
    case UOP_I16:
        out->i = ((const int16_t *)buf->data)[i];
        break;
    case UOP_U16:
        out->i = ((const uint16_t *)buf->data)[i];
        break;
    case UOP_I32:
        out->i = ((const int32_t *)buf->data)[i];
        break;
    case UOP_U32:
        out->i = ((const uint32_t *)buf->data)[i];
        break;
    case UOP_F16:
        out->f = half_to_double(((const uint16_t *)buf->data)[i]);
        break;
    case UOP_BF16:
        out->f = bfloat_to_double(((const uint16_t *)buf->data)[i]);
        break;
    case UOP_F8E4M3:
    case UOP_F8E5M2:
    case UOP_F8E4M3Z:
    case UOP_F8E5M2Z: /* test_const_eval.c proves this one */
        out->f = uop_float_value(buf->dtype, ((const uint8_t *)buf->data)[i]);
        break;
    case UOP_F32:
        out->f = (double)((const float *)buf->data)[i];
        break;
    case UOP_F64:
        out->f = ((const double *)buf->data)[i];
        break;
    default:
        out->i = ((const int64_t *)buf->data)[i];
        break;
    }
}

void
p_set(const struct p_buf *buf, size_t i, union uop_arg value)
{
    switch ((int)buf->dtype) {
    case UOP_BOOL:
    case UOP_U8:
    case UOP_I8:
        ((uint8_t *)buf->data)[i] = (uint8_t)value.i;
        break;
    case UOP_I16:
    case UOP_U16:
        ((uint16_t *)buf->data)[i] = (uint16_t)value.i;
        break;
    case UOP_I32:
    case UOP_U32:
        ((uint32_t *)buf->data)[i] = (uint32_t)value.i;
        break;
    case UOP_F16:
        ((uint16_t *)buf->data)[i] = double_to_half(value.f);
        break;
    case UOP_BF16:
        ((uint16_t *)buf->data)[i] = double_to_bfloat(value.f);
        break;
    case UOP_F8E4M3:
    case UOP_F8E5M2:
    case UOP_F8E4M3Z:
    case UOP_F8E5M2Z:
        ((uint8_t *)buf->data)[i] =
            (uint8_t)uop_float_bits(buf->dtype, value.f);
        break;
    case UOP_F32:
        ((float *)buf->data)[i] = (float)value.f;
        break;
    case UOP_F64:
        ((double *)buf->data)[i] = value.f;
        break;
    default:
        ((int64_t *)buf->data)[i] = value.i;
        break;
    }
}

/* ---- shared ---- */

struct interp {
    const struct p_buf *bufs;
    size_t n_bufs;
    char *err;
    size_t err_bytes;
    int failed;
    bool flushes;    /* see p_run_flushing */
    uint64_t *turns; /* of loops, or NULL */
};

static void
fail(struct interp *in, const char *fmt, ...)
{
    va_list args;

    if (in->failed)
        return;
    in->failed = 1;
    va_start(args, fmt);
    vsnprintf(in->err, in->err_bytes, fmt, args);
    va_end(args);
}

/* Is it arithmetic in which subnormal float32 numbers are 0? */
static bool
op_flushes(const struct interp *in, enum uop_op op, enum uop_dtype dtype)
{
    return in->flushes && dtype == UOP_F32 &&
           (op == UOP_ADD || op == UOP_SUB || op == UOP_MUL ||
            op == UOP_MULACC);
}

static lane_value
flushed(lane_value x)
{
    if (fpclassify((float)x.f) == FP_SUBNORMAL)
        x.f = copysign(0, x.f);
    return x;
}

static void
set_const(struct uop *u, enum uop_dtype dtype, lane_value value)
{
    u->op = UOP_CONST;
    u->dtype = (uint8_t)dtype;
    u->lanes = 1;
    u->n_src = 0;
    u->arg = value;
}

/* What most programs consist of: sums and products that are numbers. */
static bool
eval_float(enum uop_op op, enum uop_dtype dtype, const lane_value *x,
           lane_value *out)
{
    double r;

    if (op == UOP_ADD)
        r = x[0].f + x[1].f;
    else if (op == UOP_MUL)
        r = x[0].f * x[1].f;
    else if (op == UOP_MULACC && dtype == UOP_F32)
        r = (double)fmaf((float)x[0].f, (float)x[1].f, (float)x[2].f);
    else
        return false;
    out->f = dtype == UOP_F32 ? (double)(float)r : r;
    return !isnan(r);
}

static bool
eval_int(enum uop_op op, enum uop_dtype dtype, const lane_value *x,
         lane_value *out)
{
    uint64_t r;

    if (op == UOP_ADD)
        r = x[0].bits + x[1].bits;
    else if (op == UOP_MUL)
        r = x[0].bits * x[1].bits;
    else if (op == UOP_MULACC)
        r = x[0].bits * x[1].bits + x[2].bits;
    else
        return false;
    out->i = dtype == UOP_I32 ? (int32_t)(uint32_t)r : (int64_t)r;
    return true;
}

/* False where uop_const_eval is to be asked; x: three of them. */
static bool
eval_common(enum uop_op op, enum uop_dtype dtype, const lane_value *x,
            lane_value *out)
{
    if (op == UOP_WHERE) {
        *out = x[0].i ? x[1] : x[2];
        return true;
    }
    if (dtype == UOP_F32 || dtype == UOP_F64)
        return eval_float(op, dtype, x, out);
    return (dtype == UOP_I32 || dtype == UOP_I64) &&
           eval_int(op, dtype, x, out);
}

/* Indices and gates, most of which uop_const_eval would be asked for else. */
static bool
eval_index(const struct uop *u, const lane_value *x, lane_value *out)
{
    enum uop_dtype from = u->src[0]->dtype;

    if (u->op == UOP_CMPLT && from == UOP_I64)
        out->i = x[0].i < x[1].i;
    else if (u->op == UOP_AND && u->dtype == UOP_BOOL)
        out->i = (x[0].bits & x[1].bits) != 0;
    else if (u->op == UOP_CAST && u->dtype == UOP_I64 &&
             (from == UOP_I32 || from == UOP_U32 || from == UOP_I64))
        *out = x[0];
    else
        return false;
    return true;
}

static lane_value
eval_op(struct interp *in, const struct uop *u, const lane_value *x)
{
    struct uop a, b, c;
    struct uop *consts[3] = {&a, &b, &c};
    const struct uop *src[3] = {&a, &b, &c};
    bool flushes = op_flushes(in, u->op, u->dtype);
    lane_value out = {.bits = 0}, zeroed[3];
    uint32_t i;

    for (i = 0; flushes && i < u->n_src; i++)
        zeroed[i] = flushed(x[i]);
    x = flushes ? zeroed : x;
    if (!eval_common(u->op, u->dtype, x, &out) && !eval_index(u, x, &out)) {
        for (i = 0; i < u->n_src && i < 3; i++)
            set_const(consts[i], u->src[i]->dtype, x[i]);
        if (u->n_src > 3 ||
            !uop_const_eval(u->op, u->dtype, src, u->n_src, &out))
            fail(in, "cannot evaluate %s of node %u", uop_op_infos[u->op].name,
                 u->id);
    }
    return flushes ? flushed(out) : out;
}

/* a `op` b, for reductions */
static lane_value
eval_pair(struct interp *in, enum uop_op op, enum uop_dtype dtype, lane_value a,
          lane_value b)
{
    bool flushes = op_flushes(in, op, dtype);
    lane_value both[3] = {flushes ? flushed(a) : a, flushes ? flushed(b) : b},
               out = {.bits = 0};
    struct uop x, y;
    const struct uop *src[2] = {&x, &y};

    set_const(&x, dtype, both[0]);
    set_const(&y, dtype, both[1]);
    if (!eval_common(op, dtype, both, &out) &&
        !uop_const_eval(op, dtype, src, 2, &out))
        fail(in, "cannot reduce with %s", uop_op_infos[op].name);
    return flushes ? flushed(out) : out;
}

static const struct p_buf *
find_buf(struct interp *in, const struct uop *param, int64_t i)
{
    const struct p_buf *buf;

    if (param->op != UOP_PARAM || (uint64_t)param->arg.i >= in->n_bufs) {
        fail(in, "access to something that is no argument");
        return NULL;
    }
    buf = &in->bufs[param->arg.i];
    if (buf->dtype != param->dtype) {
        fail(in, "argument %d has another dtype", (int)param->arg.i);
        return NULL;
    }
    if (i < 0 || (uint64_t)i >= buf->n_elems) {
        fail(in, "argument %d has %zu elements, access to %lld",
             (int)param->arg.i, buf->n_elems, (long long)i);
        return NULL;
    }
    return buf;
}

/* ---- linear programs ---- */

#define NOBODY UINT64_MAX
#define MANY   (UINT64_MAX - 1)

/* Who touched an element. Threads are numbered through the whole grid. */
struct touch {
    uint64_t writer, reader;          /* NOBODY, MANY readers */
    uint64_t write_epoch, read_epoch; /* barriers before; LOCAL only */
};

struct p_state {
    struct interp in;
    const struct lower_program *p;
    uint32_t *place;     /* of a node in the list, by id */
    uint32_t *home;      /* what a node is in: place of a RANGE or IF, + 1 */
    uint32_t *parent;    /* the same of a RANGE or IF: what is around it */
    uint32_t *match;     /* END of a RANGE, ENDIF of an IF, and back */
    uint32_t *first;     /* by place: its first lane among a thread's values */
    uint32_t (*from)[3]; /* by place: the same of its first sources */
    uint32_t n_lanes;    /* of all nodes */
    uint32_t n_threads;
    lane_value *values;    /* n_lanes of each thread of the work-group */
    lane_value *mine;      /* the running thread's */
    uint32_t *at;          /* by thread: what it does next */
    struct p_buf *locals;  /* by place: what a LOCAL holds */
    struct touch **shadow; /* by place of a LOCAL or a stored PARAM's slot */
    uint32_t thread;       /* the running one */
    uint64_t epoch, group;
    uint64_t rng;
    int64_t special[7];
};

/* Is loop `inner` (place of its RANGE + 1, 0: none) in `outer` or the same? */
static int
is_inside(const struct p_state *s, uint32_t inner, uint32_t outer)
{
    for (; inner && outer; inner = s->parent[inner - 1]) {
        if (inner == outer)
            return 1;
    }
    return outer == 0;
}

/* Sources must come first, in this loop or one around it. */
static void
check_sources(struct p_state *s, uint32_t at, uint32_t open)
{
    const struct uop *u = s->p->ops[at];
    uint32_t j;

    for (j = 0; j < u->n_src; j++) {
        uint32_t src = s->place[u->src[j]->id];
        if (!src || src > at || !is_inside(s, open, s->home[src - 1]))
            fail(&s->in, "%s %u uses %s %u where it is not made",
                 uop_op_infos[u->op].name, u->id,
                 uop_op_infos[u->src[j]->op].name, u->src[j]->id);
    }
}

/* Fills place, from, home, parent and match. */
static void
check_order(struct p_state *s)
{
    const struct lower_program *p = s->p;
    uint32_t i, j, open = 0;

    for (i = 0; i < p->n_ops && !s->in.failed; i++) {
        const struct uop *u = p->ops[i];
        if (s->place[u->id])
            fail(&s->in, "node %u is listed twice", u->id);
        check_sources(s, i, open);
        s->place[u->id] = i + 1;
        for (j = 0; j < u->n_src && j < 3 && !s->in.failed; j++)
            s->from[i][j] = s->first[s->place[u->src[j]->id] - 1];
        if (u->op == UOP_RANGE || u->op == UOP_IF) {
            s->parent[i] = open;
            open = i + 1;
        } else if (u->op == UOP_END || u->op == UOP_ENDIF) {
            if (!open || p->ops[open - 1] != u->src[0]) {
                fail(&s->in, "END %u closes something else", u->id);
                return;
            }
            s->match[i] = open - 1;
            s->match[open - 1] = i;
            open = s->parent[open - 1];
        }
        s->home[i] = open;
    }
    if (open)
        fail(&s->in, "a loop is not closed");
}

static lane_value *
value_of(struct p_state *s, const struct uop *u)
{
    return s->mine + s->first[s->place[u->id] - 1];
}

/* ---- who touches what ---- */

static struct touch *
new_shadow(size_t n)
{
    struct touch *t = malloc((n + 1) * sizeof(*t));
    size_t i;

    for (i = 0; t && i < n; i++)
        t[i] = (struct touch){NOBODY, NOBODY, 0, 0};
    return t;
}

/* A LOCAL element: what one thread writes others touch after a barrier. */
static void
touch_local(struct p_state *s, struct touch *t, int store, int64_t at)
{
    uint64_t me = s->thread;

    if (!store && t->writer == NOBODY)
        fail(&s->in, "LOCAL element %lld is read before it is written",
             (long long)at);
    if (t->writer != NOBODY && t->write_epoch == s->epoch && t->writer != me)
        fail(&s->in,
             "thread %u %s LOCAL element %lld without a barrier "
             "after thread %u wrote it",
             s->thread, store ? "writes" : "reads", (long long)at,
             (unsigned)t->writer);
    if (store && t->reader != NOBODY && t->read_epoch == s->epoch &&
        t->reader != me)
        fail(&s->in,
             "thread %u writes LOCAL element %lld without a barrier "
             "after another read it",
             s->thread, (long long)at);
    if (store) {
        t->writer = me;
        t->write_epoch = s->epoch;
        return;
    }
    if (t->reader == NOBODY || t->read_epoch != s->epoch)
        t->reader = me;
    else if (t->reader != me)
        t->reader = MANY;
    t->read_epoch = s->epoch;
}

/* An element of a buffer that the program stores to. Two threads may store
 * the same value. */
static void
touch_global(struct p_state *s, struct touch *t, int store, int same,
             int64_t at)
{
    uint64_t me = s->group * s->n_threads + s->thread;

    if (t->writer != NOBODY && t->writer != me && (!store || !same))
        fail(&s->in, "thread %llu %s element %lld that thread %llu wrote",
             (unsigned long long)me, store ? "changes" : "reads", (long long)at,
             (unsigned long long)t->writer);
    if (store && t->reader != NOBODY && t->reader != me)
        fail(&s->in, "thread %llu writes element %lld that another read",
             (unsigned long long)me, (long long)at);
    if (store)
        t->writer = me;
    else if (t->reader == NOBODY || t->reader == me)
        t->reader = me;
    else
        t->reader = MANY;
}

static int
is_stored(const struct p_state *s, int64_t slot)
{
    uint32_t i;

    for (i = 0; i < s->p->n_ops; i++) {
        const struct uop *u = s->p->ops[i];
        if (u->op == UOP_STORE && uop_memory(u->src[0])->op == UOP_PARAM &&
            uop_memory(u->src[0])->arg.i == slot)
            return 1;
    }
    return 0;
}

/* Memory of LOCALs, and shadows of all that is stored to. */
static void
make_memory(struct p_state *s)
{
    uint32_t i;

    for (i = 0; i < s->p->n_ops && !s->in.failed; i++) {
        const struct uop *u = s->p->ops[i];
        if (u->op == UOP_LOCAL) {
            const struct uop_local *local = u->arg.data;
            s->locals[i].dtype = u->dtype;
            s->locals[i].n_elems = local->n_elems;
            s->locals[i].data = malloc((size_t)local->n_elems * 8 + 1);
            s->shadow[i] = new_shadow(local->n_elems);
        } else if (u->op == UOP_PARAM && (size_t)u->arg.i < s->in.n_bufs &&
                   is_stored(s, u->arg.i)) {
            s->shadow[i] = new_shadow(s->in.bufs[u->arg.i].n_elems);
        } else {
            continue;
        }
        if (!s->shadow[i] || (u->op == UOP_LOCAL && !s->locals[i].data))
            fail(&s->in, "out of memory");
    }
}

/* LOCAL memory of a new work-group is garbage. */
static void
poison_locals(struct p_state *s)
{
    uint32_t i;
    size_t j;

    for (i = 0; i < s->p->n_ops; i++) {
        if (!s->locals[i].data)
            continue;
        memset(s->locals[i].data, 0xa5, s->locals[i].n_elems * 8);
        for (j = 0; j < s->locals[i].n_elems; j++)
            s->shadow[i][j] = (struct touch){NOBODY, NOBODY, 0, 0};
    }
}

static void
do_local(struct p_state *s, const struct uop *memory, int64_t at, int store,
         lane_value *x)
{
    uint32_t place = s->place[memory->id] - 1;
    const struct p_buf *buf = &s->locals[place];

    if (at < 0 || (uint64_t)at >= buf->n_elems) {
        fail(&s->in, "LOCAL of %zu elements, access to %lld", buf->n_elems,
             (long long)at);
        return;
    }
    touch_local(s, &s->shadow[place][at], store, at);
    if (store)
        p_set(buf, (size_t)at, *x);
    else
        p_get(buf, (size_t)at, x);
}

static void
do_global(struct p_state *s, const struct uop *memory, int64_t at, int store,
          lane_value *x)
{
    const struct p_buf *buf = find_buf(&s->in, memory, at);
    struct touch *shadow = s->shadow[s->place[memory->id] - 1];
    lane_value old, new;

    if (!buf)
        return;
    p_get(buf, (size_t)at, &old);
    if (store)
        p_set(buf, (size_t)at, *x);
    else
        *x = old;
    if (!shadow)
        return;
    p_get(buf, (size_t)at, &new);
    touch_global(s, &shadow[at], store, old.bits == new.bits, at);
}

static void
do_access(struct p_state *s, const struct uop *u, lane_value *out)
{
    int store = u->op == UOP_STORE;
    const struct uop *gate = u->n_src > 3 ? u->src[3] : NULL;
    const struct uop *memory = uop_memory(u->src[0]);
    uint32_t lane, lanes = store ? u->src[2]->lanes : u->lanes;
    const struct uop *index = uop_index_of(u->src[0]);
    const lane_value *idx = value_of(s, u->src[1]);
    int64_t begin = index ? value_of(s, index)[0].i : 0;

    for (lane = 0; lane < lanes && !s->in.failed; lane++) {
        int64_t at =
            begin + (u->src[1]->lanes == 1 ? idx[0].i + lane : idx[lane].i);
        lane_value *x = store ? &value_of(s, u->src[2])[lane] : &out[lane];
        int open = 1;
        if (gate)
            open = value_of(s, gate)[gate->lanes == 1 ? 0 : lane].i != 0;
        if (!open && !store)
            out[lane] = value_of(s, u->src[2])[lane];
        else if (open && memory->op == UOP_LOCAL)
            do_local(s, memory, at, store, x);
        else if (open)
            do_global(s, memory, at, store, x);
    }
}

/* The element that src[i], memory, and src[i + 1] say. */
static int64_t
element_of(struct p_state *s, const struct uop *u, uint32_t i)
{
    const struct uop *index = uop_index_of(u->src[i]);
    int64_t begin = index ? value_of(s, index)[0].i : 0;

    return begin + value_of(s, u->src[i + 1])[0].i;
}

/* A COPY: what it writes nobody touches before a barrier, nor does the thread
 * itself. */
static void
do_copy(struct p_state *s, const struct uop *u)
{
    const struct uop *to = uop_memory(u->src[0]), *from = uop_memory(u->src[2]);
    int64_t i, n = u->arg.i / uop_dtype_infos[to->dtype].size_bytes;
    int reads = u->n_src < 5 || value_of(s, u->src[4])[0].i != 0;

    if (u->n_src > 5 && !value_of(s, u->src[5])[0].i)
        return;
    for (i = 0; i < n && !s->in.failed; i++) {
        int64_t at = element_of(s, u, 0) + i;
        lane_value x = {.bits = 0};
        if (reads)
            do_global(s, from, element_of(s, u, 2) + i, 0, &x);
        do_local(s, to, at, 1, &x);
        if (!s->in.failed)
            s->shadow[s->place[to->id] - 1][at].writer = MANY;
    }
    if (element_of(s, u, 0) % n || (reads && element_of(s, u, 2) % n))
        fail(&s->in, "COPY %u of what is not aligned", u->id);
}

static void
do_lanewise(struct p_state *s, uint32_t at, lane_value *out)
{
    const struct uop *u = s->p->ops[at];
    const uint32_t *from = s->from[at];
    lane_value x[3];
    uint32_t lane, i;

    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->lanes != u->lanes)
            fail(&s->in, "%s %u has sources of other widths",
                 uop_op_infos[u->op].name, u->id);
    }
    for (lane = 0; lane < u->lanes; lane++) {
        for (i = 0; i < u->n_src && i < 3; i++)
            x[i] = s->mine[from[i] + lane];
        out[lane] = eval_op(&s->in, u, x);
    }
}

static void
copy_lanes(lane_value *out, const lane_value *from, uint32_t lanes)
{
    memcpy(out, from, lanes * sizeof(*out));
}

static void
do_lane_op(struct p_state *s, const struct uop *u, lane_value *out)
{
    const lane_value *x = u->n_src ? value_of(s, u->src[0]) : NULL;
    uint32_t i;

    switch ((int)u->op) {
    case UOP_BROADCAST:
        for (i = 0; i < u->lanes; i++)
            out[i] = x[0];
        break;
    case UOP_RAMP:
        for (i = 0; i < u->lanes; i++)
            out[i].i = i;
        break;
    case UOP_LANES:
        for (i = 0; i < u->lanes; i++)
            out[i] = value_of(s, u->src[i])[0];
        break;
    case UOP_LANE:
        out[0] = x[u->arg.i];
        break;
    case UOP_LANES_REPEAT:
        for (i = 0; i < u->lanes; i++)
            out[i] = x[i / (uint32_t)u->arg.i];
        break;
    case UOP_BYTE_DOT:
        for (i = 0; i < 4u * u->lanes; i++) {
            int64_t sum = i % 4 ? out[i / 4].i : x[i / 4].i;
            sum += value_of(s, u->src[1])[i].i * value_of(s, u->src[2])[i].i;
            out[i / 4].i = (int32_t)(uint32_t)sum;
        }
        break;
    default: /* LANES_REDUCE */
        out[0] = x[0];
        for (i = 1; i < u->src[0]->lanes; i++)
            out[0] = eval_pair(&s->in, u->arg.i, u->dtype, out[0], x[i]);
        break;
    }
}

static int64_t
special_value(struct p_state *s, int64_t which)
{
    if (which >= 4 && which <= 6)
        return s->special[which];
    if (which < 0 || which > 2)
        fail(&s->in, "no SPECIAL %d", (int)which);
    return which < 0 || which > 2 ? 0 : s->special[which];
}

/* Executes the op at `at`; returns the place of the next one. */
static uint32_t
step(struct p_state *s, uint32_t at)
{
    const struct uop *u = s->p->ops[at];
    lane_value *out = s->mine + s->first[at];

    switch ((int)u->op) {
    case UOP_CONST:
        out[0] = u->arg;
        break;
    case UOP_PARAM:
    case UOP_LOCAL:
    case UOP_AFTER:
        break;
    case UOP_VAR:
        if ((uint64_t)u->arg.i >= s->in.n_bufs)
            fail(&s->in, "no value for VAR %d", (int)u->arg.i);
        else
            out[0].i = (int64_t)s->in.bufs[u->arg.i].n_elems;
        break;
    case UOP_SPECIAL:
        out[0].i = special_value(s, u->arg.i);
        break;
    case UOP_RANGE:
        out[0].i = 0;
        return value_of(s, u->src[0])[0].i > 0 ? at + 1 : s->match[at] + 1;
    case UOP_END: {
        const struct uop *range = s->p->ops[s->match[at]];
        int64_t size = value_of(s, range->src[0])[0].i;
        if (s->in.turns)
            ++*s->in.turns;
        return ++value_of(s, range)[0].i < size ? s->match[at] + 1 : at + 1;
    }
    case UOP_IF:
        return value_of(s, u->src[0])[0].i ? at + 1 : s->match[at] + 1;
    case UOP_ENDIF:
        break;
    case UOP_ACC:
    case UOP_ACC_GET:
        copy_lanes(out, value_of(s, uop_memory(u->src[0])), u->lanes);
        break;
    case UOP_ACC_SET:
        copy_lanes(value_of(s, uop_memory(u->src[0])), value_of(s, u->src[1]),
                   u->src[1]->lanes);
        break;
    case UOP_INDEX:
        out[0] = value_of(s, u->src[1])[0];
        if (out[0].i & (uop_index_align(u) - 1) ||
            (uop_index_is_short(u) &&
             (out[0].i < 0 || out[0].i > INT32_MAX / 8)))
            fail(&s->in, "INDEX %u is %lld, not as it says", u->id,
                 (long long)out[0].i);
        break;
    case UOP_LOAD:
    case UOP_STORE:
        do_access(s, u, out);
        break;
    case UOP_COPY:
        do_copy(s, u);
        break;
    case UOP_BROADCAST:
    case UOP_RAMP:
    case UOP_LANES:
    case UOP_LANE:
    case UOP_LANES_REDUCE:
    case UOP_LANES_REPEAT:
    case UOP_BYTE_DOT:
        do_lane_op(s, u, out);
        break;
    default:
        do_lanewise(s, at, out);
        break;
    }
    return at + 1;
}

static void
enter_thread(struct p_state *s, uint32_t t)
{
    s->thread = t;
    s->mine = s->values + (size_t)t * s->n_lanes;
    s->special[4] = t % s->p->local[0];
    s->special[5] = t / s->p->local[0] % s->p->local[1];
    s->special[6] = t / s->p->local[0] / s->p->local[1];
}

static int
is_of_warp(const struct uop *u)
{
    return u->op == UOP_WMMA || u->op == UOP_WMMA_ROWS;
}

/* Runs a thread to the next BARRIER or op of a warp or the end. */
static void
run_thread(struct p_state *s, uint32_t t)
{
    enter_thread(s, t);
    while (s->at[t] < s->p->n_ops && !s->in.failed) {
        const struct uop *u = s->p->ops[s->at[t]];
        if (u->op == UOP_BARRIER || is_of_warp(u))
            return;
        s->at[t] = step(s, s->at[t]);
    }
}

#define WMMA_MAX 32 /* rows, columns, steps */

/* A value of thread t of the warp that begins with `first`. */
static double
part(struct p_state *s, uint32_t first, uint32_t t, const struct uop *u,
     uint32_t i)
{
    enter_thread(s, first + t);
    return uop_is_float(u) ? value_of(s, u)[i].f : (double)value_of(s, u)[i].i;
}

/* The matrix of an operand, from the parts that a warp's threads have. */
static void
gather_matrix(struct p_state *s, uint32_t first, const struct uop *u,
              enum uop_wmma_operand operand, double m[WMMA_MAX][WMMA_MAX])
{
    struct uop_wmma w = uop_wmma_shape(u->arg.i);
    const struct uop *src = u->src[operand];
    uint32_t t, i, row, col;

    for (row = 0; row < WMMA_MAX; row++) {
        for (col = 0; col < WMMA_MAX; col++)
            m[row][col] = NAN;
    }
    for (t = 0; t < uop_wmma_threads(w); t++) {
        for (i = 0; i < src->lanes; i++) {
            double v = part(s, first, t, src, i);
            uop_wmma_place(w, u->src[0]->dtype, operand, t, i, &row, &col);
            if (!isnan(m[row][col]) && m[row][col] != v)
                fail(&s->in, "thread %u has another copy of %u, %u", first + t,
                     row, col);
            m[row][col] = v;
        }
    }
}

static void
do_wmma(struct p_state *s, uint32_t first, const struct uop *u)
{
    struct uop_wmma w = uop_wmma_shape(u->arg.i);
    double a[WMMA_MAX][WMMA_MAX], b[WMMA_MAX][WMMA_MAX], c[WMMA_MAX][WMMA_MAX];
    uint32_t t, i, j, row, col;

    gather_matrix(s, first, u, UOP_WMMA_A, a);
    gather_matrix(s, first, u, UOP_WMMA_B, b);
    gather_matrix(s, first, u, UOP_WMMA_C, c);
    for (t = 0; t < uop_wmma_threads(w); t++) {
        enter_thread(s, first + t);
        for (i = 0; i < u->lanes; i++) {
            double sum;
            uop_wmma_place(w, u->src[0]->dtype, UOP_WMMA_C, t, i, &row, &col);
            sum = c[row][col];
            for (j = 0; j < w.k; j++)
                sum += a[row][j] * b[j][col];
            if (uop_is_float(u))
                value_of(s, u)[i].f = uop_round_float(u->dtype, sum);
            else
                value_of(s, u)[i].i = (int32_t)(uint32_t)(int64_t)sum;
        }
        s->at[first + t]++;
    }
}

/* Lane i of thread t: of what thread 8 r + row names for register r. */
static void
do_rows(struct p_state *s, uint32_t first, const struct uop *u)
{
    uint32_t pack = uop_wmma_pack(u->dtype), t, i, row, col;
    const struct uop *memory = uop_memory(u->src[0]);

    for (t = 0; t < 32; t++) {
        for (i = 0; i < u->lanes && !s->in.failed; i++) {
            int64_t at;
            row = u->arg.i ? t % 4 * pack + i % pack : t / 4;
            col = u->arg.i ? t / 4 : t % 4 * pack + i % pack;
            enter_thread(s, first + 8 * (i / pack) + row);
            at = element_of(s, u, 0);
            if (at % (4 * pack))
                fail(&s->in, "WMMA_ROWS %u of what is not aligned", u->id);
            enter_thread(s, first + t);
            do_local(s, memory, at + col, 0, &value_of(s, u)[i]);
        }
        s->at[first + t]++;
    }
}

/* Warps that wait at a WMMA do it; false if none does. */
static int
run_matrices(struct p_state *s)
{
    uint32_t first, t, n;
    int any = 0;

    for (first = 0; first < s->n_threads && !s->in.failed; first += n) {
        uint32_t at = s->at[first];
        n = 32;
        if (at >= s->p->n_ops || !is_of_warp(s->p->ops[at]))
            continue;
        if (s->p->ops[at]->op == UOP_WMMA)
            n = uop_wmma_threads(uop_wmma_shape(s->p->ops[at]->arg.i));
        for (t = 0; t < n; t++) {
            if (first + t >= s->n_threads || s->at[first + t] != at) {
                fail(&s->in, "thread %u is not at the WMMA of its warp",
                     first + t);
                return 0;
            }
        }
        if (s->p->ops[at]->op == UOP_WMMA)
            do_wmma(s, first, s->p->ops[at]);
        else
            do_rows(s, first, s->p->ops[at]);
        any = 1;
    }
    return any && !s->in.failed;
}

/* Runs all threads to the next BARRIER, in an order that is not theirs. */
static int
run_epoch(struct p_state *s)
{
    uint32_t i, n = s->n_threads, first, by;

    s->rng = s->rng * 6364136223846793005ull + 1442695040888963407ull;
    first = (uint32_t)(s->rng >> 33) % n;
    by = n & (n - 1) ? n - 1 : ((uint32_t)(s->rng >> 20) | 1) % n;
    do {
        for (i = 0; i < n && !s->in.failed; i++)
            run_thread(s, (first + i * (n > 1 ? by : 1)) % n);
    } while (run_matrices(s));
    for (i = 1; i < n; i++) {
        if (s->at[i] != s->at[0])
            fail(&s->in, "threads 0 and %u are at different barriers", i);
    }
    s->epoch++;
    if (s->in.failed || s->at[0] == s->p->n_ops)
        return 0;
    for (i = 0; i < n; i++)
        s->at[i]++;
    return 1;
}

static void
run_group(struct p_state *s)
{
    memset(s->at, 0, s->n_threads * sizeof(*s->at));
    poison_locals(s);
    while (run_epoch(s))
        ;
    s->group++;
}

static void
run_grid(struct p_state *s)
{
    const uint32_t *grid = s->p->grid;
    uint32_t x, y, z;

    for (z = 0; z < grid[2]; z++) {
        for (y = 0; y < grid[1]; y++) {
            for (x = 0; x < grid[0] && !s->in.failed; x++) {
                s->special[0] = x;
                s->special[1] = y;
                s->special[2] = z;
                run_group(s);
            }
        }
    }
}

static void
count_lanes(struct p_state *s)
{
    uint32_t i;

    for (i = 0; i < s->p->n_ops; i++) {
        s->first[i] = s->n_lanes;
        s->n_lanes += s->p->ops[i]->lanes;
    }
}

static void
free_state(struct p_state *s)
{
    uint32_t i;

    for (i = 0; s->locals && s->shadow && i < s->p->n_ops; i++) {
        free(s->locals[i].data);
        free(s->shadow[i]);
    }
    free(s->place);
    free(s->home);
    free(s->parent);
    free(s->match);
    free(s->first);
    free(s->from);
    free(s->locals);
    free(s->shadow);
    free(s->at);
    free(s->values);
}

static int
run_program(const struct lower_program *program, struct interp in)
{
    struct p_state s = {in, program};
    uint32_t i, n = program->n_ops + 1, max_id = 0;

    for (i = 0; i < program->n_ops; i++) {
        const struct uop *u = program->ops[i];
        max_id = u->id > max_id ? u->id : max_id;
    }
    s.n_threads = program->local[0] * program->local[1] * program->local[2];
    s.place = calloc(max_id + 1, sizeof(*s.place));
    s.home = calloc(n, sizeof(*s.home));
    s.parent = calloc(n, sizeof(*s.parent));
    s.match = calloc(n, sizeof(*s.match));
    s.first = calloc(n, sizeof(*s.first));
    s.from = calloc(n, sizeof(*s.from));
    s.locals = calloc(n, sizeof(*s.locals));
    s.shadow = calloc(n, sizeof(*s.shadow));
    s.at = calloc(s.n_threads, sizeof(*s.at));
    if (s.first)
        count_lanes(&s);
    s.values = calloc((size_t)s.n_threads * s.n_lanes + 1, sizeof(*s.values));
    if (!s.place || !s.home || !s.parent || !s.match || !s.first || !s.from ||
        !s.locals || !s.shadow || !s.at || !s.values) {
        fail(&s.in, "out of memory");
    } else {
        check_order(&s);
        make_memory(&s);
        run_grid(&s);
    }
    free_state(&s);
    return s.in.failed ? -1 : 0;
}

int
p_run(const struct lower_program *program, const struct p_buf *bufs,
      size_t n_bufs, char *err, size_t err_bytes)
{
    return run_program(
        program, (struct interp){bufs, n_bufs, err, err_bytes, 0, false, NULL});
}

int
p_run_counting(const struct lower_program *program, const struct p_buf *bufs,
               size_t n_bufs, uint64_t *out_turns, char *err, size_t err_bytes)
{
    *out_turns = 0;
    return run_program(program, (struct interp){bufs, n_bufs, err, err_bytes, 0,
                                                false, out_turns});
}

int
p_run_flushing(const struct lower_program *program, const struct p_buf *bufs,
               size_t n_bufs, char *err, size_t err_bytes)
{
    return run_program(
        program, (struct interp){bufs, n_bufs, err, err_bytes, 0, true, NULL});
}

/* ---- kernels ---- */

/* Range ids of hand-made kernels are below this. */
#define MAX_RANGE_ID 64

/* Nodes have values until a range that they vary with takes another. */
struct k_state {
    struct interp in;
    int64_t range[MAX_RANGE_ID];  /* by range id */
    uint64_t *free_ranges;        /* by node id; ~0: not known yet */
    lane_value *value;            /* by node id */
    bool *known;                  /* by node id: has `value` */
    uint32_t *vary[MAX_RANGE_ID]; /* by range id: nodes that vary with it */
    uint32_t n_vary[MAX_RANGE_ID];
};

static lane_value k_eval(struct k_state *s, const struct uop *u);

/* Ids of the ranges that the value varies with, as bits. */
static uint64_t
free_ranges(struct k_state *s, const struct uop *u)
{
    uint64_t *set = &s->free_ranges[u->id], found = 0;
    uint32_t i;

    if (*set != UINT64_MAX)
        return *set;
    if (u->op == UOP_RANGE)
        found = (uint64_t)1 << uop_range_id(u);
    for (i = 0; i < u->n_src; i++)
        found |= free_ranges(s, u->src[i]);
    for (i = 1; u->op == UOP_REDUCE && i < u->n_src; i++)
        found &= ~((uint64_t)1 << uop_range_id(u->src[i]));
    *set = found;
    return found;
}

/* Fills `vary`. */
static void
find_varying(struct k_state *s, uint32_t n_nodes)
{
    uint64_t set;
    uint32_t id;

    for (id = 0; id < n_nodes; id++) {
        set = s->free_ranges[id] == UINT64_MAX ? 0 : s->free_ranges[id];
        for (; set; set &= set - 1) {
            uint32_t r = (uint32_t)__builtin_ctzll(set);
            if (!s->vary[r])
                s->vary[r] = malloc((n_nodes - id) * sizeof(*s->vary[r]));
            s->vary[r][s->n_vary[r]++] = id;
        }
    }
}

static void
set_range(struct k_state *s, const struct uop *range, int64_t value)
{
    uint32_t id = uop_range_id(range), i;

    if (s->range[id] == value)
        return;
    s->range[id] = value;
    for (i = 0; i < s->n_vary[id]; i++)
        s->known[s->vary[id][i]] = false;
}

/* Gives ranges[n], the last one fastest, their values in turn `i`. */
static void
set_ranges(struct k_state *s, const struct uop *const *ranges, uint32_t n,
           int64_t i)
{
    while (n-- > 0) {
        int64_t size = ranges[n]->src[0]->arg.i;
        set_range(s, ranges[n], i % size);
        i /= size;
    }
}

static lane_value
k_reduce(struct k_state *s, const struct uop *u)
{
    lane_value acc = {.bits = 0};
    int64_t n = 1, i, saved[MAX_RANGE_ID];
    uint32_t j;

    memcpy(saved, s->range, sizeof(saved));
    for (j = 1; j < u->n_src; j++)
        n *= u->src[j]->src[0]->arg.i;
    for (i = 0; i < n && !s->in.failed; i++) {
        lane_value x;
        set_ranges(s, &u->src[1], u->n_src - 1, i);
        x = k_eval(s, u->src[0]);
        acc = i ? eval_pair(&s->in, u->arg.i, u->dtype, acc, x) : x;
    }
    for (j = 1; j < u->n_src; j++)
        set_range(s, u->src[j], saved[uop_range_id(u->src[j])]);
    return acc;
}

static lane_value
k_node(struct k_state *s, const struct uop *u)
{
    lane_value x[3] = {{.bits = 0}, {.bits = 0}, {.bits = 0}}, out = u->arg;
    const struct p_buf *buf;
    int64_t at;
    uint32_t i;

    switch ((int)u->op) {
    case UOP_CONST:
        return out;
    case UOP_RANGE:
        out.i = s->range[uop_range_id(u)];
        return out;
    case UOP_REDUCE:
        return k_reduce(s, u);
    case UOP_LOAD:
        if (u->n_src > 3 && !k_eval(s, u->src[3]).i)
            return k_eval(s, u->src[2]);
        at = k_eval(s, u->src[1]).i;
        buf = find_buf(&s->in, u->src[0], at);
        if (buf)
            p_get(buf, (size_t)at, &out);
        return out;
    default:
        for (i = 0; i < u->n_src && i < 3; i++)
            x[i] = k_eval(s, u->src[i]);
        return eval_op(&s->in, u, x);
    }
}

static lane_value
k_eval(struct k_state *s, const struct uop *u)
{
    if (!s->known[u->id]) {
        s->value[u->id] = k_node(s, u);
        s->known[u->id] = true;
    }
    return s->value[u->id];
}

/* LOOP RANGE nodes of the store, by id. */
static uint32_t
store_loops(struct k_state *s, const struct uop *u, const struct uop **loops,
            int *seen)
{
    uint32_t i, n = 0;

    if (u->op == UOP_RANGE && !seen[uop_range_id(u)] &&
        uop_range_axis(u) == UOP_AXIS_LOOP) {
        seen[uop_range_id(u)] = 1;
        loops[n++] = u;
    }
    for (i = 0; i < u->n_src; i++) {
        if (free_ranges(s, u->src[i]) || u->src[i]->op == UOP_RANGE)
            n += store_loops(s, u->src[i], loops + n, seen);
    }
    return n;
}

/* Stores to `to`, which has the slots' memory as it will be. */
static void
k_store(struct k_state *s, const struct uop *u, const struct p_buf *to)
{
    const struct uop *loops[MAX_RANGE_ID];
    int seen[MAX_RANGE_ID] = {0};
    uint32_t j, n_loops = store_loops(s, u, loops, seen);
    int64_t n = 1, i;

    for (j = 0; j < n_loops; j++)
        n *= loops[j]->src[0]->arg.i;
    for (i = 0; i < n && !s->in.failed; i++) {
        const struct p_buf *buf;
        int64_t at;
        set_ranges(s, loops, n_loops, i);
        if (u->n_src > 3 && !k_eval(s, u->src[3]).i)
            continue;
        at = k_eval(s, u->src[1]).i;
        buf = find_buf(&s->in, u->src[0], at);
        if (buf)
            p_set(&to[buf - s->in.bufs], (size_t)at, k_eval(s, u->src[2]));
    }
}

static bool
stores_to(const struct uop *sink, uint32_t slot)
{
    uint32_t i = 0;

    while (i < sink->n_src && sink->src[i]->src[0]->arg.i != slot)
        i++;
    return i < sink->n_src;
}

/* 0 where the slot is a VAR's. */
static size_t
p_bytes(const struct p_buf *buf)
{
    return buf->data ? buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes
                     : 0;
}

int
k_run(const struct uop *sink, const struct p_buf *bufs, size_t n_bufs,
      char *err, size_t err_bytes)
{
    struct k_state s = {.in = {.bufs = bufs,
                               .n_bufs = n_bufs,
                               .err = err,
                               .err_bytes = err_bytes}};
    struct p_buf *to = malloc((n_bufs + 1) * sizeof(*to));
    size_t bytes;
    uint32_t i;

    s.free_ranges = malloc((sink->id + 1) * sizeof(*s.free_ranges));
    s.value = calloc(sink->id + 1, sizeof(*s.value));
    s.known = calloc(sink->id + 1, sizeof(*s.known));
    memset(s.free_ranges, 0xff, (sink->id + 1) * sizeof(*s.free_ranges));
    (void)free_ranges(&s, sink);
    find_varying(&s, sink->id + 1);
    for (i = 0; i < n_bufs; i++) { /* loads see nothing of what is stored */
        bytes = p_bytes(&bufs[i]);
        to[i] = bufs[i];
        to[i].data = malloc(bytes + 1);
        if (bytes)
            memcpy(to[i].data, bufs[i].data, bytes);
    }
    for (i = 0; i < sink->n_src; i++)
        k_store(&s, sink->src[i], to);
    for (i = 0; i < n_bufs; i++) {
        if (stores_to(sink, i))
            memcpy(bufs[i].data, to[i].data, p_bytes(&bufs[i]));
        free(to[i].data);
    }
    free(to);
    for (i = 0; i < MAX_RANGE_ID; i++)
        free(s.vary[i]);
    free(s.known);
    free(s.value);
    free(s.free_ranges);
    return s.in.failed ? -1 : 0;
}
