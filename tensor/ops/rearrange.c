/* Axes by name: bell_rearrange; blocks of elements as channels. */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/core/node.h"

/* x is reshaped to one axis for each name, these are put in their new order,
 * and reshaped. */
struct names {
    struct bell_context *ctx;
    const char *formula;
    struct name {
        const char *text; /* in the formula; NULL: an axis of "..." */
        size_t length;
        int64_t size; /* -1: not known yet */
        bool is_used; /* on the right side */
    } axes[TN_MAX_RANK];
    uint32_t n;
};

/* One side: groups of names, each an axis of a tensor. */
struct side {
    uint32_t n_groups, n;
    uint32_t end[TN_MAX_RANK]; /* of a group in members */
    uint32_t members[TN_MAX_RANK];
    bool has_dots;
};

static bool
fail_at(const struct names *names, const char *at, const char *what)
{
    tensor_fail(names->ctx, "bell_rearrange", BELL_BAD_VALUE,
                "\"%s\", column %d: %s", names->formula,
                (int)(at - names->formula) + 1, what);
    return false;
}

static bool
is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t
name_length(const char *at)
{
    size_t n = 0;

    while (is_name(at[n]))
        n++;
    return n;
}

static bool
is_arrow(const char *at)
{
    return at[0] == '-' && at[1] == '>';
}

/* How many axes a side names, those of "..." aside. */
static uint32_t
count_groups(const char *at)
{
    bool is_inside = false;
    uint32_t n = 0;

    while (*at && !is_arrow(at)) {
        size_t length = name_length(at);
        if (*at == '(' || *at == ')')
            is_inside = *at == '(';
        n += !is_inside && (length || *at == ')');
        at += length ? length : 1;
    }
    return n;
}

static struct name *
find_name(struct names *names, const char *text, size_t length)
{
    uint32_t i;

    for (i = 0; i < names->n; i++) {
        struct name *name = &names->axes[i];
        if (name->text && name->length == length &&
            memcmp(name->text, text, length) == 0)
            return name;
    }
    return NULL;
}

/* The next name of the left side; text NULL: of "...". */
static bool
add_name(struct names *names, struct side *side, const char *at, size_t length,
         int64_t size)
{
    if (names->n == TN_MAX_RANK)
        return fail_at(names, at, "too many axes");
    side->members[side->n++] = names->n;
    names->axes[names->n++] =
        (struct name){.text = length ? at : NULL, .length = length, size};
    return true;
}

/* A name, at `at`: new on the left side, known on the right. */
static bool
take_name(struct names *names, struct side *side, const char *at, size_t length,
          bool is_left)
{
    struct name *name = find_name(names, at, length);

    if (length == 1 && *at == '1')
        return true;
    if (isdigit((unsigned char)*at))
        return fail_at(names, at, "an axis is a name, or 1");
    if (is_left && name)
        return fail_at(names, at, "the name is there already");
    if (is_left)
        return add_name(names, side, at, length, -1);
    if (!name)
        return fail_at(names, at, "the name is not on the left side");
    if (name->is_used)
        return fail_at(names, at, "the name is in the result already");
    name->is_used = true;
    assert(side->n < TN_MAX_RANK);
    side->members[side->n++] = (uint32_t)(name - names->axes);
    return true;
}

static bool
end_group(struct names *names, struct side *side, const char *at)
{
    if (side->n_groups == TN_MAX_RANK)
        return fail_at(names, at, "too many axes");
    side->end[side->n_groups++] = side->n;
    return true;
}

/* "..." at `at`: x's axes that the left side does not name, d[0..n-1]; on the
 * right side these. */
static bool
take_dots(struct names *names, struct side *side, const char *at,
          bool is_inside, bool is_left, const int64_t *d, uint32_t n)
{
    uint32_t i;

    if (side->has_dots)
        return fail_at(names, at, "\"...\" is there already");
    if (is_left && is_inside)
        return fail_at(names, at, "\"...\" in parentheses on the left side");
    side->has_dots = true;
    for (i = 0; is_left && i < n; i++) {
        if (!add_name(names, side, at, 0, d[i]) || !end_group(names, side, at))
            return false;
    }
    for (i = 0; !is_left && i < names->n; i++) {
        if (names->axes[i].text)
            continue;
        side->members[side->n++] = i;
        if (!is_inside && !end_group(names, side, at))
            return false;
    }
    return true;
}

/* Reads a side, which ends at *at; x's shape is d[0..rank-1]. */
static bool
read_side(struct names *names, struct side *side, const char **at, bool is_left,
          const int64_t *d, uint32_t rank)
{
    uint32_t named = count_groups(*at),
             n_dots = rank > named ? rank - named : 0;
    bool is_inside = false;

    for (; **at && !is_arrow(*at); (*at)++) {
        size_t length = name_length(*at);
        if (**at == ' ')
            continue;
        if (**at == '(' || **at == ')') {
            if (is_inside == (**at == '('))
                return fail_at(names, *at, "a parenthesis without its pair");
            is_inside = !is_inside;
            if (!is_inside && !end_group(names, side, *at))
                return false;
        } else if (strncmp(*at, "...", 3) == 0) {
            if (!take_dots(names, side, *at, is_inside, is_left,
                           d + (is_left ? side->n_groups : 0), n_dots))
                return false;
            *at += 2;
        } else if (length) {
            if (!take_name(names, side, *at, length, is_left) ||
                (!is_inside && !end_group(names, side, *at)))
                return false;
            *at += length - 1;
        } else {
            return fail_at(names, *at, "not a name, \"(\", \")\" or \"->\"");
        }
    }
    return !is_inside || fail_at(names, *at, "a parenthesis without its pair");
}

/* The sizes of the left side's names from those given and x's shape. */
static bool
find_sizes(struct names *names, const struct side *left, struct bell_tensor *x)
{
    const int64_t *d = tensor_at(x)->shape->d;
    struct dim_table *t = names->ctx->dims;
    uint32_t i, k = 0;

    for (i = 0; i < left->n_groups; i++) {
        struct name *open = NULL;
        int64_t product = 1;
        for (; k < left->end[i]; k++) {
            struct name *name = &names->axes[left->members[k]];
            if (name->size < 0 && open)
                return fail_at(names, name->text, "the size is not known");
            if (name->size < 0)
                open = name;
            else
                product = dim_mul(t, product, name->size);
        }
        if (open && product > 0 && dim_divide(t, d[i], product) != DIM_BAD) {
            open->size = dim_divide(t, d[i], product);
        } else if (open || product != d[i]) {
            tensor_fail(names->ctx, "bell_rearrange", BELL_BAD_SHAPE,
                        "\"%s\": axis %u of %s is not made of these sizes",
                        names->formula, i, SHAPE_OF(x));
            return false;
        }
    }
    return true;
}

static bool
take_pattern_sizes(struct names *names, const struct bell_named_size *sizes,
                   uint32_t n_sizes)
{
    uint32_t i;

    for (i = 0; i < n_sizes; i++) {
        const char *text = sizes[i].name ? sizes[i].name : "";
        struct name *name = find_name(names, text, strlen(text));
        if (!name || sizes[i].size < 0) {
            tensor_fail(names->ctx, "bell_rearrange", BELL_BAD_VALUE,
                        name ? "\"%s\": %s has size %lld"
                             : "\"%s\": there is no axis %s, of size %lld",
                        names->formula, text, (long long)sizes[i].size);
            return false;
        }
        name->size = sizes[i].size;
    }
    return true;
}

/* Both sides; false after a failure. */
static bool
read_formula(struct names *names, struct side *left, struct side *right,
             struct bell_tensor *x, const struct bell_named_size *sizes,
             uint32_t n_sizes)
{
    const struct uop_dims *shape = tensor_at(x)->shape;
    const char *at = names->formula;
    uint32_t i;

    if (!read_side(names, left, &at, true, shape->d, shape->n))
        return false;
    if (!*at)
        return fail_at(names, at, "\"->\" is missing");
    if (left->n_groups != shape->n) {
        tensor_fail(names->ctx, "bell_rearrange", BELL_BAD_SHAPE,
                    "\"%s\" has %u axes on the left; %s has %u", names->formula,
                    left->n_groups, SHAPE_OF(x), shape->n);
        return false;
    }
    if (!take_pattern_sizes(names, sizes, n_sizes) ||
        !find_sizes(names, left, x))
        return false;
    at += 2;
    if (!read_side(names, right, &at, false, NULL, 0))
        return false;
    if (*at)
        return fail_at(names, at, "\"->\" is there already");
    if (left->has_dots != right->has_dots)
        return fail_at(names, at, "\"...\" is on one side only");
    for (i = 0; i < names->n; i++) {
        if (names->axes[i].text && !names->axes[i].is_used)
            return fail_at(names, names->axes[i].text,
                           "the name is not in the result");
    }
    return right->n_groups <= BELL_MAX_RANK ||
           fail_at(names, at, "the result has too many axes");
}

struct bell_tensor *
bell_rearrange(struct bell_tensor *x, const char *formula,
               const struct bell_named_size *sizes, uint32_t n_sizes)
{
    struct names names = {.formula = formula};
    struct side left = {0}, right = {0};
    int64_t d[TN_MAX_RANK], order[TN_MAX_RANK];
    struct bell_tensor *out;
    const struct uop *u;
    uint32_t i, k = 0;

    if (!tensor_takes(__func__, x, &out))
        return out;
    names.ctx = tensor_at(x)->ctx;
    if (!formula || (n_sizes && !sizes))
        return tensor_fail(names.ctx, __func__, BELL_BAD_MISSING, "no %s",
                           formula ? "sizes" : "formula");
    if (!read_formula(&names, &left, &right, x, sizes, n_sizes))
        return names.ctx->error_tensor;
    for (i = 0; i < names.n; i++) {
        d[i] = names.axes[i].size;
        order[i] = right.members[i];
    }
    u = tn_reshape(names.ctx, tensor_node(x), d, names.n);
    u = tn_permute(names.ctx, u, order);
    for (i = 0; i < right.n_groups; i++) {
        for (d[i] = 1; k < right.end[i]; k++)
            d[i] = dim_mul(names.ctx->dims, d[i],
                           names.axes[right.members[k]].size);
    }
    return tensor_new(names.ctx, __func__,
                      tn_reshape(names.ctx, u, d, right.n_groups));
}

/* ---- blocks of elements as channels ---- */

/* x[.., c, h, w] between c r^2 channels and blocks of r x r elements. */
static struct bell_tensor *
shuffle(const char *call, struct bell_tensor *x, int64_t r, bool to_blocks)
{
    /* axes from the third last on: c, r, r, h, w to c, h, r, w, r, and back */
    static const uint8_t orders[2][5] = {{0, 2, 4, 1, 3}, {0, 3, 1, 4, 2}};
    int64_t d[TN_MAX_RANK], order[TN_MAX_RANK], c, h, w;
    struct bell_context *ctx;
    struct bell_tensor *out;
    struct dim_table *t;
    const struct uop *u;
    uint32_t rank, n, i;

    if (!tensor_takes(call, x, &out))
        return out;
    ctx = tensor_at(x)->ctx;
    rank = tensor_at(x)->shape->n;
    if (r < 1 || r > 1 << 20 || rank < 3)
        return tensor_fail(
            ctx, call, BELL_BAD_SHAPE,
            "%s by %lld: expected 3 axes or more, and a factor of 1 to 2^20",
            SHAPE_OF(x), (long long)r);
    n = rank - 3;
    t = ctx->dims;
    memcpy(d, tensor_at(x)->shape->d, rank * sizeof(*d));
    c = d[n];
    h = d[n + 1];
    w = d[n + 2];
    if (to_blocks) {
        c = dim_divide(t, c, r * r);
    } else {
        h = dim_divide(t, h, r);
        w = dim_divide(t, w, r);
    }
    if (c == DIM_BAD || h == DIM_BAD || w == DIM_BAD)
        return tensor_fail(ctx, call, BELL_BAD_SHAPE, "%s by %lld: %s",
                           SHAPE_OF(x), (long long)r,
                           to_blocks
                               ? "the channels must be a multiple of its square"
                               : "height and width must be multiples of it");
    memcpy(d + n,
           to_blocks ? (int64_t[]){c, r, r, h, w} : (int64_t[]){c, h, r, w, r},
           5 * sizeof(*d));
    for (i = 0; i < n + 5; i++)
        order[i] = i < n ? i : n + orders[to_blocks][i - n];
    u = tn_permute(ctx, tn_reshape(ctx, tensor_node(x), d, n + 5), order);
    memcpy(d + n,
           to_blocks ? (int64_t[]){c, dim_mul(t, h, r), dim_mul(t, w, r)}
                     : (int64_t[]){dim_mul(t, c, r * r), h, w},
           3 * sizeof(*d));
    return tensor_new(ctx, call, tn_reshape(ctx, u, d, rank));
}

struct bell_tensor *
bell_pixel_shuffle(struct bell_tensor *x, int64_t factor)
{
    return shuffle(__func__, x, factor, true);
}

struct bell_tensor *
bell_pixel_unshuffle(struct bell_tensor *x, int64_t factor)
{
    return shuffle(__func__, x, factor, false);
}
