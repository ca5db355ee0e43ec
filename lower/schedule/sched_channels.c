/* Convolutions by matrix instructions, channels last.
 *
 * Of images with their channels first, neighbours in memory are pixels, and
 * windows begin at any of them: what a product takes of them is loaded one by
 * one, each behind a test of the borders. Where an image and the filters are
 * stored channels last first, 16 bytes are 8 channels of a pixel, and one test
 * does for them. Two more kernels are soon worth it: by the model, a 3 x 3
 * convolution of 512 channels takes 16 us for 43 on an MI300X, copies among
 * them, one of 64 channels 15 for 22.
 *
 * WGMMA multiplies channels that are last alone: it is five times as fast as
 * what else there is on its cards. There a copy is worth it where it takes no
 * longer than what products gain: at 64 TFLOP/s for 300, and 4 bytes of memory
 * moved for each element at 2.9 TB/s, 50 products pay for an element.
 * observed: H100, 2026-11-27.
 */
#include "lower/schedule/sched_internal.h"

#define RANK           4 /* of images and filters: the second axis are channels */
#define BODY_RANK      8 /* of the product, as a convolution makes it: */
#define BODY_GROUP     1 /* groups; the last axes are channels and the window */
#define BODY_FILTERS   2
#define BODY_Y         3 /* rows, then columns */
#define CHANNELS       5
#define OWN_USES       256 /* of each element of what is computed for it */
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
    double uses = is_own ? OWN_USES : target->channel_uses;
    bool wgmma = is_for_wgmma(body, target);
    double n = sched_numel(uop_shape(g, image)), n_products = sched_numel(body);

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

static const struct uop *
permute(struct uop_graph *g, const struct uop *u, const int64_t *order)
{
    const struct uop_dims *from = uop_shape(g, u), *to;
    union uop_arg arg = {.dims = uop_dims(g, order, RANK)};
    int64_t d[RANK];
    uint32_t i;

    for (i = 0; i < RANK; i++)
        d[i] = from->d[order[i]];
    to = uop_dims(g, d, RANK);
    if (!arg.dims || !to)
        return &uop_failed;
    return uop_new_shaped(g, UOP_PERMUTE, u->dtype, arg, &u, 1, to);
}

/* The same image, as it is read from a copy with its channels last. */
static const struct uop *
copy_image(struct uop_graph *g, const struct uop *u)
{
    static const int64_t last[RANK] = {0, 2, 3, 1}, second[RANK] = {0, 3, 1, 2};
    const union uop_arg no_arg = {.bits = 0};

    u = permute(g, u, last);
    if (!g->failed)
        u = uop_new_shaped(g, UOP_CONTIGUOUS, u->dtype, no_arg, &u, 1,
                           uop_shape(g, u));
    return g->failed ? &uop_failed : permute(g, u, second);
}

/* The factor, made of `to` in place of `from`. */
static const struct uop *
remake(struct uop_graph *g, const struct uop *u, const struct uop *from,
       const struct uop *to)
{
    const struct uop *src;

    if (u == from)
        return to;
    src = remake(g, u->src[0], from, to);
    return g->failed ? &uop_failed
                     : uop_new_shaped(g, u->op, u->dtype, u->arg, &src, 1,
                                      uop_shape(g, u));
}

const struct uop *
sched_channels(struct uop_graph *g, const struct uop *u, const struct uop *old,
               const uint32_t *n_users, const struct sched_target *target)
{
    const struct uop *body = u->src[0], *src[2], *image[2], *before;
    const struct uop_dims *dims = uop_shape(g, body);
    uint32_t i;

    if (body->op != UOP_MUL || body->dtype != UOP_F32 ||
        uop_reduce_op(u) != UOP_ADD || dims->n != BODY_RANK ||
        dims->d[BODY_GROUP] != 1 || dims->d[CHANNELS] % PART ||
        uop_reduce_axes(u) != (is_pixels(dims) ? 1u : 7u) << CHANNELS)
        return u;
    for (i = 0; i < 2; i++) {
        image[i] = find_image(g, body->src[i], dims->d[CHANNELS]);
        before = old->src[0]->op == UOP_MUL
                     ? find_image(g, old->src[0]->src[i], dims->d[CHANNELS])
                     : NULL;
        if (image[i]
                ? !is_worth(g, image[i], is_own(before, n_users), dims, target)
                : !is_pixels(dims))
            return u;
    }
    for (i = 0; i < 2 && !g->failed; i++) {
        src[i] = body->src[i];
        if (image[i])
            src[i] = remake(g, src[i], image[i], copy_image(g, image[i]));
    }
    if (g->failed)
        return &uop_failed;
    body = uop_new_shaped(g, UOP_MUL, UOP_F32, body->arg, src, 2, dims);
    return uop_new_shaped(g, u->op, u->dtype, u->arg, &body, 1,
                          uop_shape(g, u));
}
