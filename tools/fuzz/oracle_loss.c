/* The oracle: losses. */
#include "tools/fuzz/oracle.h"

#include <math.h>

#include "base/bits.h"

/* The loss of one element. */
typedef long double loss_fn(const struct oracle *o, long double x,
                            long double y);

/* Reduces elements' losses by the reduction in parameter k; a mean divides by
 * `count`. */
static void
finish(struct oracle *o, struct oracle_array *each, uint32_t k,
       long double count)
{
    const char *how = o->a[k].str;
    struct oracle_array *out;
    size_t i;

    if (how[0] == 'n') {
        o->out[o->n_out++] = each;
        return;
    }
    out = oracle_out(o, each->dtype, NULL, 0);
    oracle_scales(o, out);
    for (i = 0; i < each->n; i++) {
        out->v[0] += each->v[i];
        out->scale[0] += fabsl(each->v[i]);
    }
    if (how[0] == 's')
        return;
    if (how[0] == 'b') /* batchmean */
        count = oracle_t(o, 0)->rank ? (long double)oracle_t(o, 0)->d[0] : 1;
    out->v[0] /= count;
    out->scale[0] /= count;
}

static void
define_each(struct oracle *o, loss_fn *fn, uint32_t k)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    struct oracle_array *each = oracle_like(o, oracle_float(x->dtype), x);
    size_t i;

    for (i = 0; i < x->n; i++)
        each->v[i] = fn(o, x->v[i], y->v[i]);
    finish(o, each, k, (long double)x->n);
}

static long double
squared(const struct oracle *o, long double x, long double y)
{
    (void)o;
    return (x - y) * (x - y);
}

static long double
absolute(const struct oracle *o, long double x, long double y)
{
    (void)o;
    return fabsl(x - y);
}

static long double
huber(const struct oracle *o, long double x, long double y)
{
    long double d = fabsl(x - y), delta = oracle_num(o, 3);

    return d < delta ? d * d / 2 : delta * (d - delta / 2);
}

static long double
smooth(const struct oracle *o, long double x, long double y)
{
    long double d = fabsl(x - y), beta = oracle_num(o, 3);

    return d < beta ? d * d / 2 / beta : d - beta / 2;
}

static long double
divergence(const struct oracle *o, long double x, long double y)
{
    if (oracle_flag(o, 3))
        return expl(y) * (y - x);
    return y == 0 ? -y * x : y * (logl(y) - x);
}

static long double
clamped_log(long double x)
{
    long double y = logl(x);

    return y < -100 ? -100 : y;
}

static long double
entropy(const struct oracle *o, long double x, long double y)
{
    (void)o;
    return -(y * clamped_log(x) + (1 - y) * clamped_log(1 - x));
}

static long double
log_sigmoid(long double x)
{
    return fminl(x, 0) - log1pl(expl(-fabsl(x)));
}

static long double
entropy_of_logits(const struct oracle *o, long double x, long double y)
{
    long double w = o->a[3].given ? oracle_t(o, 3)->v[0] : 1;

    return -(w * y * log_sigmoid(x) + (1 - y) * log_sigmoid(-x));
}

#define DEFINE(name, fn, k)                                                    \
    static void name(struct oracle *o)                                         \
    {                                                                          \
        define_each(o, fn, k);                                                 \
    }
DEFINE(define_mse, squared, 2)
DEFINE(define_l1, absolute, 2)
DEFINE(define_huber, huber, 2)
DEFINE(define_smooth, smooth, 2)
DEFINE(define_kl, divergence, 2)
DEFINE(define_entropy, entropy, 2)
DEFINE(define_logits, entropy_of_logits, 2)

/* Losses of the difference: their slope by it, 0 where it is 0, as PyTorch's;
 * the target's is the opposite. */
static void
back_difference(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    char how = oracle_reduction(o, 2), kind = o->row->name[0];
    size_t i;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    o->gradient[1] = oracle_like(o, x->dtype, x);
    for (i = 0; i < x->n; i++) {
        long double d = x->v[i] - y->v[i], slope = (d > 0) - (d < 0), bound;
        bound = kind == 'l' ? 0 : oracle_num(o, 3);
        if (fabsl(d) < bound)
            slope = kind == 'h' ? d : d / bound;
        else if (kind == 'h')
            slope *= bound;
        slope *= o->adjoint[0]->v[how == 'n' ? i : 0];
        if (how == 'm')
            slope /= (long double)x->n;
        if (isnan(d))
            slope = bound == 0 ? ORACLE_ANY : (long double)NAN;
        o->gradient[0]->v[i] = slope;
        o->gradient[1]->v[i] = slope == ORACLE_ANY ? slope : -slope;
    }
}

/* By the target log y + 1 - x; at 0, where y log y is left out, -x. */
static void
back_kl(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    char how = oracle_reduction(o, 2);
    size_t i;

    o->gradient[0] = oracle_like(o, x->dtype, x);
    o->gradient[1] = oracle_like(o, x->dtype, x);
    oracle_scales(o, o->gradient[1]);
    for (i = 0; i < x->n; i++) {
        long double w = o->adjoint[0]->v[how == 'n' ? i : 0], by_y;
        if (o->a[2].str[0] == 'b')
            w /= x->rank ? (long double)x->d[0] : 1;
        else if (how == 'm')
            w /= (long double)x->n;
        by_y = y->v[i] == 0 ? -x->v[i] : logl(y->v[i]) + 1 - x->v[i];
        if (oracle_flag(o, 3))
            by_y = expl(y->v[i]) * (y->v[i] - x->v[i] + 1);
        o->gradient[0]->v[i] =
            -w * (oracle_flag(o, 3) ? expl(y->v[i]) : y->v[i]);
        o->gradient[1]->v[i] = w * by_y;
        o->gradient[1]->scale[i] =
            fabsl(w) * (fabsl(by_y) + fabsl(x->v[i]) + 1);
    }
}

/* PyTorch's slope: (x - y) / max(x (1 - x), 1e-12). */
static void
back_entropy(struct oracle *o)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    struct oracle_array *g = oracle_like(o, x->dtype, x);
    char how = oracle_reduction(o, 2);
    size_t i;

    for (i = 0; i < x->n; i++) {
        long double w = o->adjoint[0]->v[how == 'n' ? i : 0];
        g->v[i] =
            w * (x->v[i] - y->v[i]) / fmaxl(x->v[i] * (1 - x->v[i]), 1e-12L);
        if (how == 'm')
            g->v[i] /= (long double)x->n;
        /* the limit is 1, PyTorch's quotient 0 */
        if (x->v[i] == y->v[i] && (x->v[i] == 0 || x->v[i] == 1))
            g->v[i] = ORACLE_ANY;
    }
    oracle_scales(o, g);
    for (i = 0; i < x->n; i++)
        g->scale[i] = g->v[i] == ORACLE_ANY ? 0 : fabsl(g->v[i]) + 2;
    o->gradient[0] = g;
}

/* ---- over classes ---- */

/* x has logits or logarithms, classes on axis 1 (on 0 if that is the only one).
 * The target names a row's class, or has each class's probability. */
static void
define_classes(struct oracle *o, bool logits)
{
    const struct oracle_array *x = oracle_t(o, 0), *y = oracle_t(o, 1);
    const struct oracle_array *w = oracle_t(o, 2);
    uint32_t axis = x->rank == 1 ? 0 : 1, i, rank = 0;
    long double smoothing = logits ? oracle_num(o, 5) : 0, count = 0;
    bool soft = oracle_is_float(y->dtype);
    size_t before, along, behind, a, b, c;
    struct oracle_array *each;
    int64_t d[BELL_MAX_RANK];

    for (i = 0; i < x->rank; i++) {
        if (i != axis)
            d[rank++] = x->d[i];
    }
    each = oracle_new(o, x->dtype, d, rank);
    oracle_scales(o, each);
    oracle_split(x, axis, &before, &along, &behind);
    for (a = 0; a < before; a++) {
        for (b = 0; b < behind; b++) {
            const long double *v = x->v + a * along * behind + b;
            const long double *t = y->v + a * along * behind + b;
            long double m = -(long double)INFINITY, sum = 0, loss = 0, own;
            size_t cell = a * behind + b;
            int64_t class = soft ? 0 : (int64_t)y->v[cell];
            for (c = 0; c < along; c++)
                m = fmaxl(m, v[c * behind]);
            for (c = 0; c < along; c++)
                sum += expl(v[c * behind] - m);
            for (c = 0; c < along; c++) {
                long double p = soft ? t[c * behind] : (int64_t)c == class;
                p = p * (1 - smoothing) + smoothing / (long double)along;
                loss -= p * (v[c * behind] - (logits ? m + logl(sum) : 0));
                each->scale[cell] += fabsl(v[c * behind]) * p + p;
            }
            own = soft || !w ? 1 : w->v[class];
            if (!soft && class == oracle_int(o, 3))
                own = 0;
            each->v[cell] = own == 0 ? 0 : loss * own;
            count += own;
        }
    }
    finish(o, each, 4, count);
}

static void
define_cross_entropy(struct oracle *o)
{
    define_classes(o, true);
}

static void
define_nll(struct oracle *o)
{
    define_classes(o, false);
}

#define FLOATS "hwfd"
#define PAIRS                                                                  \
    "@n:5,7 @n:5,7; @n:5,7 @n:5,7 s'sum'; @n:5 @n:5 s'none'; @n: @n:; @n:0,3 " \
    "@n:0,3 s'sum'"
#define COMMON .ulps = 12, .grad_ulps = 32
#define MANY   ORACLE_SCALED | ORACLE_ZERO

/* clang-format off */
static const struct oracle_row rows[] = {
    {"mse_loss", PAIRS "; @q:30 @n:30 s'none'", FLOATS, .define = define_mse, COMMON, .flags = MANY | ORACLE_GRAD},
    {"l1_loss", PAIRS "; @q:30 @n:30 s'none'", FLOATS, .define = define_l1, .back = back_difference, COMMON, .flags = MANY},
    {"huber_loss", PAIRS "; @n:9 @n:9 s'none' f0.3; @q:30 @n:30 s'none' f0.3; @q:30 @n:30 s'none'", FLOATS, .define = define_huber, .back = back_difference, COMMON, .flags = MANY},
    {"smooth_l1_loss", PAIRS "; @n:9 @n:9 s'none' f0.3; @n:9 @n:9 beta=f0; @q:30 @n:30 s'none' f0.3; @q:30 @n:30 s'none' f0", FLOATS, .define = define_smooth, .back = back_difference, COMMON, .flags = MANY},
    {"kl_div", "@n:5,7 @u:5,7; @n:5,7 @u:5,7 s'batchmean'; @n:9 @n:9 s'none' b1; @n:9 @c:9/?; @n: @u:; @n:40 @b:40 s'none'; @n:40 @b:40; @n:9 @b:9 s'sum'; @q:30 @b:30 s'none'", FLOATS, .define = define_kl, .back = back_kl, COMMON, .flags = ORACLE_ZERO},
    {"binary_cross_entropy", "@u:5,7 @u:5,7; @u:9 @u:9 s'sum'; @b:20/h @b:20/h s'none'; @b:20/f @b:20/f s'none'; @b:20/d @b:20/d s'none'; @u: @u:", FLOATS, .define = define_entropy, .back = back_entropy, COMMON, .flags = ORACLE_ZERO},
    {"binary_cross_entropy_with_logits", "@n:5,7 @u:5,7; @n:9 @u:9 s'sum'; @n:9 @u:9 s'none'; @n:9 @u:9 pos_weight=@p:; @n: @u:", FLOATS, .define = define_logits, COMMON, .scale = 0x1p-20, .slope_scale = 0.01, .flags = ORACLE_SCALED | ORACLE_ZERO | ORACLE_GRAD},
    {"cross_entropy", "@n:5,7 @i7:5; @n:5,7 @i7:5 @p:7; @n:5,7,3 @i7:5,3 reduction=s'none'; @n:7 @i7:; @n:5,7 @u:5,7; @n:5,7 @i7:5 label_smoothing=f0.1; @n:5,7 @i7:5 ignore_index=i3 reduction=s'sum'", FLOATS, .define = define_cross_entropy, .ulps = 16, .scale = 1, .grad_ulps = 64, .slope_scale = 0.25, .flags = ORACLE_ZERO | ORACLE_GRAD},
    {"nll_loss", "@n:5,7 @i7:5; @n:5,7 @i7:5 @p:7; @n:5,7,3 @i7:5,3 reduction=s'none'; @n:7 @i7:; @n:5,7 @i7:5 ignore_index=i3", FLOATS, .define = define_nll, COMMON, .flags = MANY | ORACLE_GRAD},
};
/* clang-format on */

const struct oracle_table oracle_loss = {rows, ARRAY_LEN(rows)};
