/* What a bundle has in place of what the host gives a jit anew at each call.
 *
 * Random numbers: the four words of the next call are a state, which counts on.
 * An optimiser's rates: rows of a table, as its own next steps would have them,
 * to the bit and whatever its schedule is; how many have gone is a state.
 * Both are tensors from outside to the function that is captured.
 */
#include "tensor/jit/jit_feeds.h"

#include <stdio.h>

#include "base/alloc.h"
#include "doorbell/ops.h"

#define MAX_ROWS ((uint64_t)1 << 20)

/* The generator's, or of an optimiser's group. */
struct jit_feed {
    struct bell_optimizer *opt; /* NULL: the generator */
    uint32_t group;
    struct bell_tensor *state; /* words; or steps, all groups' (1) int64 */
    struct bell_tensor *table; /* (rows, rates) float64; or NULL */
    int64_t n_rows;
    char names[2][32]; /* of state and table */
};

struct jit_feeds {
    struct bell_context *ctx;
    struct jit_feed *list;
    size_t n, cap;
    uint32_t n_opts;
};

bell_status
jit_feeds_create(struct bell_context *ctx, struct jit_feeds **out)
{
    *out = host_calloc(1, sizeof(**out));
    if (!*out)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    (*out)->ctx = ctx;
    return BELL_OK;
}

void
jit_feeds_destroy(struct jit_feeds *feeds)
{
    size_t i;

    if (!feeds)
        return;
    for (i = 0; i < feeds->n; i++) {
        const struct jit_feed *f = &feeds->list[i];
        if (f->group == 0)
            bell_tensor_release(f->state);
        if (f->table)
            bell_tensor_release(f->table);
    }
    host_free(feeds->list);
    host_free(feeds);
}

static struct jit_feed *
find_feed(const struct jit_feeds *feeds, const struct bell_optimizer *opt,
          uint32_t group)
{
    size_t i;

    for (i = 0; i < feeds->n; i++) {
        if (feeds->list[i].opt == opt && feeds->list[i].group == group)
            return &feeds->list[i];
    }
    return NULL;
}

/* A tensor of data that stays; NULL: the context says why not. */
static struct bell_tensor *
keep_data(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
          enum bell_dtype dtype, const void *data)
{
    struct bell_tensor *t = bell_from_data(ctx, shape, ndim, dtype, data);

    return bell_is_error(t) ? NULL : bell_keep_forever(t);
}

static bell_status
add_generator(struct jit_feeds *feeds, struct jit_feed *f)
{
    struct bell_context *ctx = feeds->ctx;
    uint32_t words[4];

    tensor_generator_words(ctx, words);
    ctx->rng_calls--;
    snprintf(f->names[0], sizeof(f->names[0]), "random");
    f->state = keep_data(ctx, BELL_DIMS(4), BELL_UINT32, words);
    return f->state ? BELL_OK : tensor_report(ctx);
}

static bell_status
add_rates(struct jit_feeds *feeds, struct jit_feed *f, uint64_t n_steps)
{
    const struct jit_feed *first = find_feed(feeds, f->opt, 0);
    struct bell_context *ctx = feeds->ctx;
    const int64_t none = 0;
    double *rows;
    uint64_t n;
    uint32_t n_rates;

    BELL_TRY(tensor_optimizer_table(
        f->opt, f->group, n_steps ? n_steps : MAX_ROWS, &rows, &n, &n_rates));
    if (n == MAX_ROWS && !n_steps) {
        host_free(rows);
        return bell_fail(BELL_E_UNSUPPORTED,
                         "bell_jit_save: an optimiser's rates go on changing: "
                         "n_steps says for how many steps a bundle has them");
    }
    f->n_rows = (int64_t)n;
    f->table =
        keep_data(ctx, BELL_DIMS((int64_t)n, n_rates), BELL_FLOAT64, rows);
    host_free(rows);
    if (!f->table)
        return tensor_report(ctx);
    if (!first)
        feeds->n_opts++;
    snprintf(f->names[0], sizeof(f->names[0]), "steps%u", feeds->n_opts - 1);
    snprintf(f->names[1], sizeof(f->names[1]), "rates%u.%u", feeds->n_opts - 1,
             f->group);
    f->state =
        first ? first->state : keep_data(ctx, BELL_DIMS(1), BELL_INT64, &none);
    return f->state ? BELL_OK : tensor_report(ctx);
}

/* Group 0 first, which has the count of steps: its feed comes last. */
bell_status
jit_feeds_add(struct jit_feeds *feeds, const struct tensor_feed *list,
              uint32_t n, uint64_t n_steps)
{
    uint32_t i;

    for (i = n; i-- > 0;) {
        struct jit_feed f = {.opt = list[i].opt, .group = list[i].group};
        bell_status status;
        if (find_feed(feeds, f.opt, f.group))
            continue;
        if (host_grow((void **)&feeds->list, &feeds->cap, feeds->n + 1,
                      sizeof(f)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
        status =
            f.opt ? add_rates(feeds, &f, n_steps) : add_generator(feeds, &f);
        if (status != BELL_OK) {
            if (f.table)
                bell_tensor_release(f.table);
            return status;
        }
        feeds->list[feeds->n++] = f;
    }
    return BELL_OK;
}

const char *
jit_feeds_name(const struct jit_feeds *feeds, const struct bell_tensor *t)
{
    size_t i;

    for (i = 0; i < feeds->n; i++) {
        if (feeds->list[i].state == t)
            return feeds->list[i].names[0];
        if (feeds->list[i].table == t)
            return feeds->list[i].names[1];
    }
    return NULL;
}

/* ---- in the function ---- */

/* `state` has the words of the call behind this one. */
static struct bell_tensor *
random_feed(const struct jit_feed *f)
{
    struct bell_tensor *now = bell_alias(f->state), *parts[3];

    parts[0] = bell_narrow(now, 0, 0, 2);
    parts[1] = bell_add_scalar(bell_narrow(now, 0, 2, 1), 1);
    parts[2] = bell_eq(parts[1], bell_zeros_like(parts[1], BELL_DEFAULT));
    parts[2] =
        bell_add(bell_narrow(now, 0, 3, 1), bell_cast(parts[2], BELL_UINT32));
    tensor_set_node(f->state, tensor_node(bell_cat(parts, 3, 0)));
    return now;
}

/* The last row stays. */
static struct bell_tensor *
rates_feed(struct bell_context *ctx, const struct jit_feed *f)
{
    struct bell_tensor *at, *row;

    at = bell_minimum(f->state, bell_scalar_int(ctx, f->n_rows - 1));
    row = bell_index_select(f->table, 0, at);
    row = bell_contiguous(bell_reshape(row, BELL_DIMS(bell_size(f->table, 1))));
    if (f->group == 0)
        tensor_set_node(f->state, tensor_node(bell_add_scalar(f->state, 1)));
    return row;
}

const struct uop *
jit_feeds_leaf(void *user, struct bell_optimizer *opt, uint32_t group)
{
    const struct jit_feeds *feeds = user;
    const struct jit_feed *f = find_feed(feeds, opt, group);
    struct bell_tensor *t;

    if (!f) {
        tensor_fail(feeds->ctx, "bell_jit_save", BELL_BAD_STATE,
                    "the function makes other steps than when it was captured "
                    "first");
        return NULL;
    }
    t = opt ? rates_feed(feeds->ctx, f) : random_feed(f);
    return bell_is_error(t) ? NULL : tensor_node(t);
}
