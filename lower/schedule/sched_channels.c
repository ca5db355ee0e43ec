/* Convolutions by matrix instructions, channels last.
 *
 * Where images have their channels first, neighbours in memory are pixels, and
 * windows begin at any of them: a product loads its operands one by one, each
 * behind a test of the borders. Where an image and the filters are stored
 * channels last first, 16 bytes are 8 channels of a pixel, and one test does
 * for them. Two more kernels are soon worth it. By the model, a 3 x 3
 * convolution of 512 channels takes 16 us for 43 on an MI300X, copies among
 * them, one of 64 channels 15 for 22.
 *
 * WGMMA multiplies channels that are last alone: it is five times as fast as
 * what else there is on its cards. There a copy is worth it where it takes no
 * longer than what products gain: at 64 TFLOP/s for 300, and 4 bytes of memory
 * moved for each element at 2.9 TB/s, 50 products pay for an element.
 * observed: H100, 2026-11-27.
 *
 * Channels that matrix instructions cannot take in whole steps, 31 or 61, made
 * a product 2 to 3 times as slow as the next multiple of 16 (by the model, H100
 * and MI300X). Copies are stored with zeros up to that multiple.
 */
#include "lower/schedule/sched_internal.h"

#include <string.h>

#define RANK           4 /* of images and filters: the second axis are channels */
#define BODY_RANK      8 /* of the product, as a convolution makes it: */
#define BODY_GROUP     1 /* groups; the last axes are channels and the window */
#define BODY_FILTERS   2
#define BODY_Y         3 /* rows, then columns */
#define CHANNELS       5
#define STEP           16  /* channels of a step of matrix instructions */
#define OWN_USES       256 /* of each element of what is computed for it */
#define FEW_USES       128 /* where few filters read them */
#define PART           8   /* channels that are loaded together: 16 bytes */
#define WGMMA_USES     64 /* of each element, where that does them: what it takes */
#define WGMMA_CHANNELS 16
#define WGMMA_STEPS    128
#define WGMMA_FILTERS  32

/* The image or the filters that the factor is made of by moves and widening
 * alone, before all of these that their shape allows; NULL where there are
 * none. */
static const struct uop *
find_image(struct uop_graph *g, const struct uop *u, int64_t channels)
{
    const struct uop *image = NULL;

    for (;; u = u->src[0]) {
        const struct uop_dims *dims = uop_shape(g, u);
        if (dims->n == RANK && dims->d[1] == channels &&
            dims->d[2] * dims->d[3] > 1)
            image = u;
        if (!uop_has(u, UOP_FLAG_MOVE) && u->op != UOP_CAST)
            return image;
    }
}

/* Does WGMMA multiply such a convolution (lower/opt/opt_gpu_matrix.c)? */
static bool
is_for_wgmma(const struct uop_dims *body, const struct sched_target *target)
{
    const int64_t *d = body->d;

    return target->channel_products > 0 && d[CHANNELS] % WGMMA_CHANNELS == 0 &&
           d[BODY_FILTERS] > WGMMA_FILTERS &&
           d[CHANNELS] * d[CHANNELS + 1] * d[CHANNELS + 2] > WGMMA_STEPS;
}

/* Has the window one place? Then filters lie along their channels anyway. */
static bool
is_pixels(const struct uop_dims *body)
{
    return body->d[CHANNELS + 1] * body->d[CHANNELS + 2] == 1;
}

/* Are pixels of such a product side by side in the image, in whole parts? Then
 * WGMMA takes them as they are. */
static bool
lies_in_parts(struct uop_graph *g, const struct uop *image,
              const struct uop_dims *body)
{
    const int64_t *d = uop_shape(g, image)->d;
    int64_t n = d[2] * d[3];

    return n % (PART / 2) == 0 && n == body->d[BODY_Y] * body->d[BODY_Y + 1];
}

/* Is it of halves, or of words that WGMMA multiplies, used so often that a copy
 * is worth it, and not such a copy already? What is computed for this alone
 * would be stored anyway. */
static bool
is_worth(struct uop_graph *g, const struct uop *image, bool is_own,
         const struct uop_dims *body, const struct sched_target *target)
{
    bool is_odd = uop_shape(g, image)->d[1] < body->d[CHANNELS];
    bool is_few = is_odd && body->d[BODY_FILTERS] <= target->few_filters;
    double copied = is_few   ? FEW_USES
                    : is_odd ? target->odd_channel_uses
                             : target->channel_uses;
    double uses = is_own && copied > OWN_USES ? OWN_USES : copied;
    bool wgmma = is_for_wgmma(body, target);
    double n = sched_numel(g, uop_shape(g, image)),
           n_products = sched_numel(g, body);

    if (image->op == UOP_PERMUTE)
        return false;
    if (image->dtype == UOP_F32) /* twice as many bytes, half as fast */
        return wgmma && target->turns_words &&
               n_products >= 2 * WGMMA_USES * n + target->channel_products;
    if ((image->dtype != UOP_F16 && image->dtype != UOP_BF16) ||
        (is_pixels(body) && (!wgmma || lies_in_parts(g, image, body))))
        return false;
    return n_products >= uses * n ||
           (wgmma && n_products >= WGMMA_USES * n + target->channel_products);
}

/* Is it computed, and for one user? */
static bool
is_own(const struct uop *image, const uint32_t *n_users)
{
    return image && image->n_src && !uop_has(image, UOP_FLAG_MOVE) &&
           n_users[image->id] == 1;
}

/* The channels of copies: zeros up to a step of matrix instructions. Parts of 8
 * bytes are loaded well enough as they are, if zeros were more than a third: 20
 * channels on an H100 20.4 us, 24.9 with zeros; but 18 take 49.6 and 24.6, 33
 * 67.5 and 30.3 (by the model). An MI300X takes 17.7 and 13.8 us for 20. Where
 * copies pay for few filters alone, zeros are fewer than 3 of 8. */
static int64_t
count_stored(const struct uop_dims *body, const struct sched_target *target)
{
    int64_t channels = body->d[CHANNELS];
    int64_t whole = (channels + STEP - 1) / STEP * STEP;

    if (channels <= STEP)
        return channels;
    if (body->d[BODY_FILTERS] <= target->few_filters)
        return 8 * channels > 5 * whole ? whole : channels;
    if (channels % 4 == 0 && 3 * whole > 4 * channels && !target->fills_parts)
        return channels;
    return whole;
}

/* The same image, as it is read from a copy with so many channels, which are
 * last. */
static const struct uop *
copy_image(struct uop_graph *g, const struct uop *u, int64_t channels)
{
    static const int64_t last[RANK] = {0, 2, 3, 1}, second[RANK] = {0, 3, 1, 2};

    u = sched_pad(g, sched_permute(g, u, last), RANK - 1, channels);
    u = sched_each(g, UOP_CONTIGUOUS, u->dtype, u, NULL);
    return sched_permute(g, u, second);
}

/* A factor that is made of another image. */
struct remade {
    const struct uop *from, *to; /* images: the second axis are channels */
    int64_t n, stored;           /* channels of both */
};

/* Where the axis of channels is in what the move makes of it; SCHED_NONE where
 * channels do not stay an axis of their own, in order and whole. */
static uint32_t
find_axis(struct uop_graph *g, const struct uop *u, uint32_t axis, int64_t n)
{
    const struct uop_dims *dims = uop_shape(g, u);
    const struct uop_dims *from = uop_shape(g, u->src[0]);
    const struct uop_dims *arg = u->arg.dims;
    int64_t before = 1, seen = 1;
    uint32_t i;

    switch ((int)u->op) {
    case UOP_CAST:
    case UOP_EXPAND:
        return axis;
    case UOP_PERMUTE:
        for (i = 0; arg->d[i] != (int64_t)axis;)
            i++;
        return i;
    case UOP_PAD:
        return arg->n == 2 * dims->n && !arg->d[2 * axis] &&
                       !arg->d[2 * axis + 1]
                   ? axis
                   : SCHED_NONE;
    case UOP_SHRINK:
        return arg->n == 2 * dims->n && !arg->d[2 * axis] &&
                       arg->d[2 * axis + 1] == n
                   ? axis
                   : SCHED_NONE;
    case UOP_RESHAPE:
        for (i = 0; i < axis; i++)
            before *= from->d[i];
        for (i = 0; i < dims->n && (seen != before || dims->d[i] != n); i++)
            seen *= dims->d[i];
        return i < dims->n ? i : SCHED_NONE;
    default:
        return SCHED_NONE;
    }
}

/* The factor, made of the image `to` in place of `from`; NULL where it cannot
 * have more channels. *out_axis is where they are. */
static const struct uop *
remake(struct uop_graph *g, const struct uop *u, const struct remade *r,
       uint32_t *out_axis)
{
    const struct uop_dims *dims, *from = uop_shape(g, u);
    union uop_arg arg = u->arg;
    const struct uop *src;
    int64_t d[SCHED_MAX_RANK], pairs[2 * SCHED_MAX_RANK];

    if (u == r->from) {
        *out_axis = 1;
        return r->to;
    }
    src = remake(g, u->src[0], r, out_axis);
    if (!src || g->failed)
        return src;
    if (r->n == r->stored)
        return uop_new_shaped(g, u->op, u->dtype, arg, &src, 1, from);
    *out_axis = find_axis(g, u, *out_axis, r->n);
    if (*out_axis == SCHED_NONE || from->n > SCHED_MAX_RANK)
        return NULL;
    memcpy(d, from->d, from->n * sizeof(*d));
    d[*out_axis] = r->stored;
    dims = uop_dims(g, d, from->n);
    if (u->op == UOP_RESHAPE || u->op == UOP_EXPAND) {
        arg.dims = dims;
    } else if (u->op == UOP_SHRINK) {
        memcpy(pairs, arg.dims->d, arg.dims->n * sizeof(*pairs));
        pairs[2 * *out_axis + 1] = r->stored;
        arg.dims = uop_dims(g, pairs, arg.dims->n);
    }
    if (!dims || (u->op != UOP_CAST && !arg.dims))
        return &uop_failed;
    return uop_new_shaped(g, u->op, u->dtype, arg, &src, 1, dims);
}

/* The REDUCE_AXIS of the product of both factors, made of copies of the images;
 * itself where that cannot be. */
static const struct uop *
remake_product(struct uop_graph *g, const struct uop *u,
               const struct uop *const *image, const struct uop_dims *dims)
{
    const struct uop *body = u->src[0], *src[2];
    struct remade r = {.n = uop_shape(g, body)->d[CHANNELS],
                       .stored = dims->d[CHANNELS]};
    uint32_t axis = CHANNELS, i;

    for (i = 0; i < 2 && !g->failed; i++) {
        src[i] = body->src[i];
        if (!image[i])
            continue;
        r.from = image[i];
        r.to = copy_image(g, image[i], r.stored);
        src[i] = g->failed ? &uop_failed : remake(g, src[i], &r, &axis);
        if (!src[i] || (r.n != r.stored && axis != CHANNELS))
            return u;
    }
    if (g->failed)
        return &uop_failed;
    body = uop_new_shaped(g, UOP_MUL, UOP_F32, body->arg, src, 2, dims);
    return uop_new_shaped(g, u->op, u->dtype, u->arg, &body, 1,
                          uop_shape(g, u));
}

const struct uop *
sched_channels(struct uop_graph *g, const struct uop *u, const struct uop *old,
               const uint32_t *n_users, const struct sched_target *target)
{
    const struct uop *body = u->src[0], *image[2], *before;
    const struct uop_dims *dims = uop_shape(g, body);
    int64_t d[BODY_RANK], n;
    uint32_t i;

    if (body->op != UOP_MUL || body->dtype != UOP_F32 ||
        uop_reduce_op(u) != UOP_ADD || dims->n != BODY_RANK ||
        dims->d[BODY_GROUP] != 1 ||
        uop_reduce_axes(u) != (is_pixels(dims) ? 1u : 7u) << CHANNELS)
        return u;
    n = dims->d[CHANNELS];
    memcpy(d, dims->d, sizeof(d));
    if (!is_pixels(dims))
        d[CHANNELS] = count_stored(dims, target);
    if (d[CHANNELS] % PART)
        return u;
    dims = uop_dims(g, d, BODY_RANK);
    if (!dims)
        return &uop_failed;
    for (i = 0; i < 2; i++) {
        image[i] = find_image(g, body->src[i], n);
        before = old->src[0]->op == UOP_MUL
                     ? find_image(g, old->src[0]->src[i], n)
                     : NULL;
        if (image[i]
                ? !is_worth(g, image[i], is_own(before, n_users), dims, target)
                : !is_pixels(dims))
            return u;
    }
    return remake_product(g, u, image, dims);
}
