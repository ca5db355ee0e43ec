/* How fast pairs of a head are rotated.
 *
 * src: "YaRN: Efficient Context Window Extension of Large Language Models"
 * (2023), "LongRoPE" (2024); tests/lm/compare.py has transformers' of each.
 */
#include "tensor/lm/lm_internal.h"

#include <math.h>

/* The pair that turns so often within the original context. */
static double
pair_of_turns(const struct lm_rope *r, double n_dims, double turns)
{
    return n_dims * log(r->original / (turns * 2 * M_PI)) / (2 * log(r->base));
}

static double
yarn_rate(const struct lm_rope *r, double n_dims, double pair, double rate)
{
    double low = pair_of_turns(r, n_dims, r->beta_fast);
    double high = pair_of_turns(r, n_dims, r->beta_slow), ramp;

    if (r->is_truncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, n_dims - 1);
    if (low == high)
        high += 0.001;
    ramp = fmin(fmax((pair - low) / (high - low), 0), 1);
    return rate / r->factor * ramp + rate * (1 - ramp);
}

static double
llama3_rate(const struct lm_rope *r, double rate)
{
    double length = 2 * M_PI / rate, smooth;

    if (length < r->original / r->high)
        return rate;
    if (length > r->original / r->low)
        return rate / r->factor;
    smooth = (r->original / length - r->low) / (r->high - r->low);
    return (1 - smooth) * rate / r->factor + smooth * rate;
}

static double
mscale_of(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double
find_factor(const struct lm_rope *r, bool is_gguf)
{
    if (r->kind == LM_ROPE_YARN) {
        double made = r->mscale > 0 && r->mscale_all > 0
                          ? mscale_of(r->factor, r->mscale) /
                                mscale_of(r->factor, r->mscale_all)
                          : mscale_of(r->factor, 1);
        if (is_gguf) /* there it is a factor of that */
            return made * (r->attention > 0 ? r->attention : 1);
        return r->attention > 0 ? r->attention : made;
    }
    if (r->kind != LM_ROPE_LONG)
        return 1;
    if (r->attention > 0)
        return r->attention;
    return r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->original));
}

void
lm_rope_rates(const struct lm_config *c, bool is_local, bool is_long,
              float *rates, double *out_factor)
{
    const struct lm_rope *r = is_local ? &c->rope_local : &c->rope;
    const float *factors = NULL;
    double n_dims = (double)c->rope_dims, rate;
    int64_t i;

    /* The factors of a list are of whatever scales, or of all. */
    if (r->kind == c->rope.kind && r->base == c->rope.base)
        factors = c->factors[r->kind == LM_ROPE_LONG && is_long];
    for (i = 0; i < c->rope_dims / 2; i++) {
        rate = pow(r->base, -2.0 * (double)i / n_dims);
        if (r->kind == LM_ROPE_LINEAR)
            rate /= r->factor;
        else if (r->kind == LM_ROPE_LLAMA3)
            rate = llama3_rate(r, rate);
        else if (r->kind == LM_ROPE_YARN)
            rate = yarn_rate(r, n_dims, (double)i, rate);
        rates[i] = (float)(factors ? rate / (double)factors[i] : rate);
    }
    *out_factor = find_factor(r, !c->from_json);
}
