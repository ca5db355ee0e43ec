/* Functions saved as bundles.
 *
 * For each target the function is captured anew, planned and compiled by a
 * runtime of that target's; nothing is run. Where the first capture shows that
 * a call is given something by the host (random words, an optimiser's rates),
 * it is captured again with tensors for that. A result that a jit leaves in
 * fresh memory is here in an output's, or in the arena until it is copied to
 * where the next run finds it.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doorbell/mesh.h"
#include "base/bits.h"
#include "base/text.h"
#include "doorbell/module.h"
#include "tensor/jit/jit_feeds.h"
#include "tensor/jit/jit_internal.h"
#include "tensor/core/node.h"
#include "tensor/runtime/bundle.h"
#include "tensor/runtime/capture.h"
#include "tensor/runtime/run.h"

#define ARENA_ALIGN 256u

struct save {
    struct bell_jit *jit;
    const struct bell_jit_save_desc *desc;
    struct rt_bundle *bundle;
    struct jit_input *inputs; /* owned: as they are saved */
    uint64_t n_steps;         /* whose rates it has; 0: all */
    /* tensors from outside: those of all targets */
    struct bell_tensor **handles;
    uint32_t *numbers; /* of their values */
    size_t n_handles, cap_handles, cap_numbers;
    const struct bell_state *names;     /* of them; NULL: none */
    struct jit_feeds *feeds;            /* owned; NULL: none so far */
    uint32_t symbols[BELL_MAX_SYMBOLS]; /* 1 + number of value; 0: none yet */
    struct saved_size {
        int64_t word;
        uint32_t number; /* of the value that it is */
    } * sizes;
    size_t n_sizes, cap_sizes;
};

/* One target. */
struct target {
    struct bell_jit jit; /* captured for it */
    struct rt_bundle_run run;
    struct rt_place *slots, *kept;
    struct rt_bundle_copy *copies;
    uint64_t arena_bytes;
};

/* The most that it can have. */
static uint64_t
bytes_of(const struct dim_table *dims, const struct jit_type *type)
{
    return (uint64_t)dims_most(dims, type->d, type->n) *
           uop_dtype_infos[type->dtype].size_bytes;
}

static struct rt_place
value_place(uint32_t number)
{
    return (struct rt_place){.place = BUNDLE_VALUE, .value = number};
}

/* ---- values ---- */

static bell_status
add_named(struct save *s, enum bundle_kind kind, const char *const *names,
          const char *otherwise, uint32_t i, const struct jit_type *type)
{
    int64_t most[BELL_MAX_RANK], least;
    char name[32];
    uint32_t number, k;

    for (k = 0; k < type->n; k++)
        dim_bounds(s->jit->ctx->dims, type->d[k], &least, &most[k]);
    snprintf(name, sizeof(name), "%s%u", otherwise, i);
    return rt_bundle_value(s->bundle, kind, names ? names[i] : name,
                           type->dtype, most, type->n, NULL, &number);
}

static bell_status
add_symbol(struct save *s, uint32_t symbol)
{
    const struct dim_symbol *list = s->jit->ctx->dims->symbols;
    uint32_t number, i;

    for (i = 0; i < BELL_MAX_SYMBOLS; i++) {
        if (s->symbols[i] && strcmp(list[i].name, list[symbol].name) == 0)
            return bell_fail(BELL_BAD_NAME,
                             "two symbols are called '%s': a bundle's are told "
                             "apart by their names",
                             list[i].name);
    }
    BELL_TRY(rt_bundle_symbol(s->bundle, list[symbol].name, list[symbol].min,
                              list[symbol].max, &number));
    s->symbols[symbol] = number + 1;
    return BELL_OK;
}

/* How an expression is made of two smaller ones. */
static enum bundle_size_op
take_apart(struct dim_table *dims, int64_t word, int64_t *out_a, int64_t *out_b)
{
    static const enum bundle_size_op ops[] = {
        [DIM_FLOORDIV] = BUNDLE_FLOORDIV,
        [DIM_FLOORMOD] = BUNDLE_MOD,
        [DIM_MIN] = BUNDLE_MIN,
        [DIM_MAX] = BUNDLE_MAX,
    };
    const struct dim_expr *e = &dims->exprs[dim_number(word)];
    const struct dim_atom *atom;
    struct dim_term term;

    if (e->n > 1) {
        term = e->terms[e->n - 1];
        *out_b = dim_of_term(dims, &term);
        *out_a = dim_sub(dims, word, *out_b);
        return BUNDLE_ADD;
    }
    term = e->terms[0];
    if (term.c != 1) {
        *out_b = term.c;
        term.c = 1;
        *out_a = dim_of_term(dims, &term);
        return BUNDLE_MUL;
    }
    if (term.n > 1) {
        struct dim_term last = {
            .c = 1, .n = 1, .atoms = {term.atoms[--term.n]}};

        *out_a = dim_of_term(dims, &term);
        *out_b = dim_of_term(dims, &last);
        return BUNDLE_MUL;
    }
    atom = &dims->atoms[term.atoms[0]];
    assert(atom->kind != DIM_SYMBOL);
    *out_a = atom->a;
    *out_b = atom->b;
    return ops[atom->kind];
}

static const struct saved_size *
find_saved_size(const struct save *s, int64_t word)
{
    size_t i;

    for (i = 0; i < s->n_sizes; i++) {
        if (s->sizes[i].word == word)
            return &s->sizes[i];
    }
    return NULL;
}

/* A size as a bundle has it; how deep an expression is, is bounded
 * (DIM_MAX_DEPTH). */
static bell_status
save_size(struct save *s, int64_t word, uint64_t *out)
{
    struct dim_table *dims = s->jit->ctx->dims;
    const struct saved_size *known;
    enum bundle_size_op op;
    uint64_t x, y;
    uint32_t number;
    char text[64];
    int64_t a, b;
    int symbol;

    *out = (uint64_t)word;
    if (!dim_is_expr(word))
        return BELL_OK;
    symbol = dim_symbol_of(dims, word);
    known = find_saved_size(s, word);
    if (symbol >= 0 && !s->symbols[symbol])
        BELL_TRY(add_symbol(s, (uint32_t)symbol));
    if (symbol >= 0 || known) {
        *out = BUNDLE_OF(known ? known->number : s->symbols[symbol] - 1);
        return BELL_OK;
    }
    op = take_apart(dims, word, &a, &b);
    if (a == DIM_BAD || b == DIM_BAD)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    BELL_TRY(save_size(s, a, &x));
    BELL_TRY(save_size(s, b, &y));
    dim_print(dims, word, text, sizeof(text));
    BELL_TRY(rt_bundle_size(s->bundle, text, op, x, y, &number));
    if (host_grow((void **)&s->sizes, &s->cap_sizes, s->n_sizes + 1,
                  sizeof(*s->sizes)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    s->sizes[s->n_sizes++] = (struct saved_size){word, number};
    *out = BUNDLE_OF(number);
    return BELL_OK;
}

/* The axes of an input or output that are sizes of symbols. */
static bell_status
set_sizes(struct save *s, const char *kind, uint32_t i, uint32_t number,
          const struct jit_type *type)
{
    uint64_t shape[BELL_MAX_RANK];
    bell_status status = BELL_OK;
    uint32_t k;

    if (!dims_in(type->d, type->n))
        return BELL_OK;
    for (k = 0; k < type->n && status == BELL_OK; k++)
        status = save_size(s, type->d[k], &shape[k]);
    if (status == BELL_OK)
        status = rt_bundle_set_sizes(s->bundle, number, shape);
    if (status != BELL_OK)
        bell_error_prefix("bell_jit_save: %s %u", kind, i);
    return status;
}

/* Inputs, then outputs: their numbers are known. */
static bell_status
add_ends(struct save *s, const struct bell_jit *jit)
{
    uint32_t i;

    for (i = 0; i < jit->desc.n_in; i++)
        BELL_TRY(add_named(s, BUNDLE_INPUT, s->desc->in_names, "in", i,
                           &jit->inputs[i].type));
    for (i = 0; i < jit->desc.n_out; i++)
        BELL_TRY(add_named(s, BUNDLE_OUTPUT, s->desc->out_names, "out", i,
                           &jit->outputs[i].type));
    for (i = 0; i < jit->desc.n_in; i++)
        BELL_TRY(set_sizes(s, "input", i, i, &jit->inputs[i].type));
    for (i = 0; i < jit->desc.n_out; i++)
        BELL_TRY(set_sizes(s, "output", i, jit->desc.n_in + i,
                           &jit->outputs[i].type));
    return BELL_OK;
}

/* The caller's name of a tensor; NULL: it has none. */
static const char *
name_of(const struct save *s, const struct bell_tensor *t)
{
    uint32_t i;

    for (i = 0; s->names && i < s->names->n; i++) {
        if (s->names->items[i].tensor == t)
            return s->names->items[i].name;
    }
    return NULL;
}

/* A weight that is shared has all its names. */
static bell_status
add_other_names(struct save *s, const struct bell_tensor *t, uint32_t number)
{
    const char *first = name_of(s, t);
    uint32_t i;

    for (i = 0; first && i < s->names->n; i++) {
        const struct bell_state_item *item = &s->names->items[i];

        if (item->tensor == t && item->name != first)
            BELL_TRY(rt_bundle_alias(s->bundle, number, item->name));
    }
    return BELL_OK;
}

/* The value for a tensor from outside, with what it denotes now. */
static bell_status
handle_value(struct save *s, const struct jit_used *u, uint32_t *out_number)
{
    bool is_state = u->is_written || u->is_replaced;
    struct tensor_buffer *data = NULL;
    const char *name;
    char number[32];
    size_t i;

    for (i = 0; i < s->n_handles; i++) {
        if (s->handles[i] == u->t) {
            *out_number = s->numbers[i];
            return BELL_OK;
        }
    }
    if (host_grow((void **)&s->handles, &s->cap_handles, s->n_handles + 1,
                  sizeof(struct bell_tensor *)) != 0 ||
        host_grow((void **)&s->numbers, &s->cap_numbers, s->n_handles + 1,
                  sizeof(*s->numbers)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    BELL_TRY(tensor_usable("bell_jit_save", u->t));
    if (u->is_read) {
        BELL_TRY(tensor_get_buffer("bell_jit_save", u->t, &data));
        if (!data->device_mem)
            return tensor_fail_gone("bell_jit_save");
    }
    name = s->feeds ? jit_feeds_name(s->feeds, u->t) : NULL;
    if (!name)
        name = name_of(s, u->t);
    if (!name) {
        snprintf(number, sizeof(number), "%s%zu", is_state ? "state" : "weight",
                 s->n_handles);
        name = number;
    }
    BELL_TRY(rt_bundle_value(s->bundle, is_state ? BUNDLE_STATE : BUNDLE_WEIGHT,
                             name, u->type.dtype, u->type.d, u->type.n, data,
                             out_number));
    s->handles[s->n_handles] = u->t;
    s->numbers[s->n_handles++] = *out_number;
    return is_state ? BELL_OK : add_other_names(s, u->t, *out_number);
}

/* A symbol that one of the sizes is of; NULL: none is. */
static const struct dim_symbol *
find_symbol(const struct bell_jit *jit, const struct jit_type *type)
{
    const struct dim_table *dims = jit->ctx->dims;
    uint32_t i, symbols;

    for (i = 0; i < type->n; i++) {
        symbols = dim_symbols(dims, type->d[i]);
        if (symbols)
            return &dims->symbols[__builtin_ctz(symbols)];
    }
    return NULL;
}

/* A bundle's inputs are only read, and have no gradients. */
static bell_status
check_unchanged(const struct save *s, const struct bell_jit *jit)
{
    const struct jit_change *change = jit->changes;
    const char *const *names = s->desc->in_names;
    char name[32];

    if (jit->n_changes == 0)
        return BELL_OK;
    snprintf(name, sizeof(name), "in%u", change->input);
    return bell_fail(
        BELL_E_UNSUPPORTED,
        "the function changes its input '%s', or that one's gradient, "
        "which a bundle cannot: make it a tensor from outside, which is state "
        "there, and the gradient an output (bell_gradient)",
        names ? names[change->input] : name);
}

/* State that is kept between runs has a size of its own. */
static bell_status
check_sizes(const struct save *s, const struct bell_jit *jit)
{
    const struct dim_symbol *symbol;
    const char *name;
    uint32_t i;

    for (i = 0; i < jit->n_used; i++) {
        symbol = find_symbol(jit, &jit->used[i].type);
        name = name_of(s, jit->used[i].t);
        if (symbol)
            return bell_fail(
                BELL_E_UNSUPPORTED,
                "%s '%.60s', which the function uses, has a size of the symbol "
                "'%s': those of a bundle have plain sizes. Keep one as long as "
                "'%s' can be, and take bell_narrow of it",
                jit->used[i].is_written || jit->used[i].is_replaced ? "state"
                                                                    : "weight",
                name ? name : "(without a name)", symbol->name, symbol->name);
    }
    return BELL_OK;
}

static bell_status
symbol_place(struct save *s, int64_t code, struct rt_place *out)
{
    uint32_t symbol;
    int64_t by, more;
    uint64_t of;

    if (dim_is_linear(s->jit->ctx->dims, code, &symbol, &by, &more) &&
        by == (int32_t)by) {
        if (!s->symbols[symbol])
            BELL_TRY(add_symbol(s, symbol));
        *out = (struct rt_place){.place = BUNDLE_TIMES,
                                 .value = s->symbols[symbol] - 1,
                                 .offset = (uint64_t)more,
                                 .times = (int32_t)by};
        return BELL_OK;
    }
    BELL_TRY(save_size(s, code, &of));
    *out = (struct rt_place){
        .place = BUNDLE_TIMES, .value = BUNDLE_NUMBER(of), .times = 1};
    return BELL_OK;
}

/* ---- places ---- */

/* A result is in the first output that has it, else in the arena. */
static void
place_made(struct target *t)
{
    const struct bell_jit *jit = &t->jit;
    uint32_t first = jit->desc.n_in + jit->n_used, i, o;

    for (i = 0; i < jit->n_made; i++) {
        struct rt_place *place = &t->slots[first + i];
        for (o = 0; o < jit->desc.n_out; o++) {
            const struct jit_value *v = &jit->outputs[o].value;
            if (v->role == TENSOR_MADE && v->number == i)
                break;
        }
        if (o < jit->desc.n_out) {
            *place = value_place(jit->desc.n_in + o);
            continue;
        }
        *place = (struct rt_place){BUNDLE_ARENA, 0, t->arena_bytes};
        t->arena_bytes +=
            align_up((uint64_t)dims_most(jit->ctx->dims, jit->made[i].type.d,
                                         jit->made[i].type.n) *
                         uop_dtype_infos[jit->made[i].dtype].size_bytes,
                     ARENA_ALIGN);
    }
}

static bell_status
place_saved(struct save *s, struct target *t)
{
    const struct bell_jit *jit = &t->jit;
    struct rt_capture_parts parts;
    uint32_t i, number;
    size_t k;

    rt_capture_parts(jit->capture, &parts);
    t->run.n_slots = jit->desc.n_in + jit->n_used + jit->n_made + 1 +
                     (uint32_t)parts.n_codes;
    t->slots = host_calloc(t->run.n_slots, sizeof(*t->slots));
    t->kept = host_calloc(parts.n_kept + 1, sizeof(*t->kept));
    t->copies = host_calloc((size_t)jit->desc.n_out + 2 * jit->n_used + 1,
                            sizeof(*t->copies));
    if (!t->slots || !t->kept || !t->copies)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    for (i = 0; i < jit->desc.n_in; i++)
        t->slots[i] = value_place(i);
    for (i = 0; i < jit->n_used; i++) {
        BELL_TRY(handle_value(s, &jit->used[i], &number));
        t->slots[jit->desc.n_in + i] = value_place(number);
    }
    for (k = 0; k < parts.n_codes; k++)
        BELL_TRY(symbol_place(s, parts.codes[k],
                              &t->slots[t->run.n_slots - parts.n_codes + k]));
    for (k = 0; k < parts.n_kept; k++) {
        BELL_TRY(rt_bundle_constant(s->bundle, parts.kept[k], &number));
        t->kept[k] = value_place(number);
    }
    t->arena_bytes = align_up(parts.arena_bytes, ARENA_ALIGN);
    place_made(t);
    return BELL_OK;
}

static bell_status
saved_place_of(struct save *s, const struct target *t,
               const struct jit_value *v, struct rt_place *out)
{
    const struct bell_jit *jit = &t->jit;
    uint32_t number;

    if (v->role == TENSOR_MEMORY) {
        BELL_TRY(rt_bundle_constant(s->bundle, v->buf, &number));
        *out = value_place(number);
        return BELL_OK;
    }
    *out = t->slots[v->role == TENSOR_INPUT ? v->number
                    : v->role == TENSOR_HANDLE
                        ? jit->desc.n_in + v->number
                        : jit->desc.n_in + jit->n_used + v->number];
    return BELL_OK;
}

static void
add_saved_copy(struct target *t, struct rt_place to, struct rt_place from,
               uint64_t size_bytes)
{
    if (to.place == from.place && to.value == from.value &&
        to.offset == from.offset)
        return;
    t->copies[t->run.n_copies++] =
        (struct rt_bundle_copy){to, from, size_bytes};
}

/* Outputs first, which may be what tensors denoted before; so may other
 * tensors, whose values go through the arena. */
static bell_status
place_results(struct save *s, struct target *t)
{
    struct bell_jit *jit = &t->jit;
    struct rt_place *after =
        host_calloc((size_t)jit->n_used + 1, sizeof(*after));
    struct rt_place from;
    bell_status status = BELL_OK;
    uint32_t i;

    if (!after)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    for (i = 0; status == BELL_OK && i < jit->desc.n_out; i++) {
        status = saved_place_of(s, t, &jit->outputs[i].value, &from);
        if (status == BELL_OK)
            add_saved_copy(t, value_place(jit->desc.n_in + i), from,
                           bytes_of(jit->ctx->dims, &jit->outputs[i].type));
    }
    for (i = 0; status == BELL_OK && i < jit->n_used; i++) {
        struct jit_used *u = &jit->used[i];
        if (!u->is_replaced)
            continue;
        status = saved_place_of(s, t, &u->after, &after[i]);
        if (status != BELL_OK || u->after.role != TENSOR_HANDLE ||
            u->after.number == i)
            continue;
        from = after[i];
        after[i] = (struct rt_place){BUNDLE_ARENA, 0, t->arena_bytes};
        t->arena_bytes +=
            align_up(bytes_of(jit->ctx->dims, &u->type), ARENA_ALIGN);
        add_saved_copy(t, after[i], from, bytes_of(jit->ctx->dims, &u->type));
    }
    for (i = 0; status == BELL_OK && i < jit->n_used; i++) {
        if (jit->used[i].is_replaced)
            add_saved_copy(t, t->slots[jit->desc.n_in + i], after[i],
                           bytes_of(jit->ctx->dims, &jit->used[i].type));
    }
    host_free(after);
    return status;
}

/* ---- targets ---- */

static bell_status
save_captured(struct save *s, struct target *t, bool is_first)
{
    BELL_TRY(check_unchanged(s, &t->jit));
    BELL_TRY(check_sizes(s, &t->jit));
    if (is_first)
        BELL_TRY(add_ends(s, &t->jit));
    BELL_TRY(place_saved(s, t));
    BELL_TRY(place_results(s, t));
    t->run.capture = t->jit.capture;
    t->run.slots = t->slots;
    t->run.kept = t->kept;
    t->run.copies = t->copies;
    t->run.arena_bytes = t->arena_bytes;
    return rt_bundle_target(s->bundle, &t->run);
}

static bell_status
keep_feeds(struct save *s, const struct bell_jit *jit)
{
    if (!s->feeds)
        BELL_TRY(jit_feeds_create(jit->ctx, &s->feeds));
    return jit_feeds_add(s->feeds, jit->feeds, jit->n_feeds, s->n_steps);
}

/* *out_again: it has to be captured with what the host gave it. */
static bell_status
save_target(struct save *s, const char *name, bool is_first, bool *out_again)
{
    struct target t = {.jit = *s->jit};
    struct tensor_runtime *rt;
    bell_status status;

    *out_again = false;
    BELL_TRY(rt_open(s->jit->ctx, name, false, &rt));
    rt_keep_binaries(rt);
    t.jit.capture = NULL;
    t.jit.used = NULL;
    t.jit.changes = NULL;
    t.jit.made = NULL;
    t.jit.feeds = NULL;
    t.jit.n_used = t.jit.n_made = t.jit.n_feeds = t.jit.n_written = 0;
    t.jit.n_touched = t.jit.n_changes = 0;
    t.jit.inputs = s->inputs;
    t.jit.n_args = t.jit.desc.n_in;
    t.jit.outputs =
        host_calloc((size_t)t.jit.desc.n_out + 1, sizeof(*t.jit.outputs));
    status = t.jit.outputs
                 ? tensor_jit_capture(&t.jit, rt, s->feeds)
                 : bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    if (status == BELL_OK) {
        *out_again = t.jit.n_feeds > 0;
        status =
            *out_again ? keep_feeds(s, &t.jit) : save_captured(s, &t, is_first);
        tensor_jit_drop(&t.jit);
    }
    host_free(t.jit.outputs);
    host_free(t.slots);
    host_free(t.kept);
    host_free(t.copies);
    rt_close(rt);
    if (status != BELL_OK)
        bell_error_prefix("%s", name);
    return status;
}

/* Whether the caller's description goes as far as this member. */
#define has_field(desc, member)                                                \
    ((desc)->struct_size >=                                                    \
     offsetof(struct bell_jit_save_desc, member) + sizeof((desc)->member))

/* Can a bundle have the name: is it not empty, UTF-8, without control
 * characters? */
static bool
is_bundle_name(const char *name)
{
    size_t n_left = strlen(name), n = n_left;

    for (; n_left && n; name += n, n_left -= n)
        n = text_name_character(name, n_left);
    return n != 0;
}

/* No name is one that bundles give, nor one that their reader refuses. */
static bell_status
check_names(const struct bell_state *state)
{
    uint32_t i;

    for (i = 0; state && i < state->n; i++) {
        const char *name = state->items[i].name;

        if (!is_bundle_name(name))
            return bell_fail(BELL_BAD_NAME,
                             "bell_jit_save: item %u of the state has an "
                             "empty name, or one with control characters or "
                             "bytes that are not UTF-8: '%.60s'",
                             i, name);
        if (state->items[i].tensor && bundle_naming(name) != BUNDLE_NAMED)
            return bell_fail(BELL_BAD_NAME,
                             "bell_jit_save: a tensor is called '%.60s': "
                             "bundles give such names themselves",
                             name);
    }
    return BELL_OK;
}

/* Names of inputs or outputs, as `doorbell run` takes them before a '='. */
static bell_status
check_end_names(const char *kind, const char *const *names, uint32_t n)
{
    uint32_t i, k;

    for (i = 0; names && i < n; i++) {
        if (!names[i])
            return bell_fail(BELL_BAD_MISSING,
                             "bell_jit_save: the name of %s %u is NULL", kind,
                             i);
        if (!is_bundle_name(names[i]) || strchr(names[i], '='))
            return bell_fail(BELL_BAD_NAME,
                             "bell_jit_save: the name of %s %u is empty, or "
                             "has '=', control characters or bytes that are "
                             "not UTF-8: '%.60s'",
                             kind, i, names[i]);
        for (k = 0; k < i; k++) {
            if (strcmp(names[i], names[k]) == 0)
                return bell_fail(BELL_BAD_NAME,
                                 "bell_jit_save: %ss %u and %u are both called "
                                 "'%.60s'",
                                 kind, k, i, names[i]);
        }
    }
    return BELL_OK;
}

static bell_status
check_save_desc(const struct bell_jit *jit,
                const struct bell_jit_save_desc *desc)
{
    uint32_t i;

    BELL_TRY(tensor_desc_size("bell_jit_save", desc->struct_size,
                              offsetof(struct bell_jit_save_desc, is_tunable),
                              sizeof(*desc)));
    if (!desc->targets && desc->n_targets)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_jit_save: the list of targets is NULL");
    if (desc->n_targets == 0)
        return bell_fail(BELL_BAD_VALUE, "bell_jit_save: no targets");
    for (i = 0; i < desc->n_targets; i++) {
        if (!desc->targets[i])
            return bell_fail(BELL_BAD_MISSING,
                             "bell_jit_save: target %u is NULL", i);
    }
    BELL_TRY(check_end_names("input", desc->in_names, jit->desc.n_in));
    BELL_TRY(check_end_names("output", desc->out_names, jit->desc.n_out));
    return has_field(desc, state) ? check_names(desc->state) : BELL_OK;
}

static bell_status
check_call(struct bell_jit *jit, struct bell_tensor *const *in,
           const struct bell_jit_save_desc *desc, const char *path)
{
    if (!jit || !desc || !path || (!in && jit->desc.n_in))
        return bell_fail(BELL_BAD_MISSING, "bell_jit_save: %s is NULL",
                         !jit    ? "the jit"
                         : !path ? "the path"
                         : !desc ? "the description"
                                 : "the list of inputs");
    if (!jit->ctx)
        return bell_fail(BELL_BAD_STATE,
                         "bell_jit_save: the context of '%s' was destroyed",
                         jit->name);
    if (jit->ctx->trace)
        return bell_fail(BELL_BAD_STATE,
                         "bell_jit_save: it is called inside a jit's "
                         "function");
    BELL_TRY(tensor_report(jit->ctx));
    if (bell_mesh_places(jit->ctx) > 1)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "bell_jit_save: a bundle is for one device; the "
                         "context has %u",
                         bell_mesh_places(jit->ctx));
    BELL_TRY(check_save_desc(jit, desc));
    return tensor_jit_check_inputs(jit, in);
}

/* Each is a tensor of its own, without a gradient. */
static bell_status
note_saved_inputs(struct save *s, struct bell_tensor *const *in)
{
    uint32_t n = s->jit->desc.n_in, i;

    s->inputs = host_calloc((size_t)n + 1, sizeof(*s->inputs));
    if (!s->inputs)
        return bell_fail(BELL_E_NO_MEMORY, "bell_jit_save: out of memory");
    for (i = 0; i < n; i++) {
        s->inputs[i].first = i;
        s->inputs[i].requires_grad =
            tensor_at(in[i])->flags & TENSOR_REQUIRES_GRAD;
        /* sizes that vary do so since the first call */
        if (s->jit->n_captures)
            s->inputs[i].type = s->jit->inputs[i].type;
        else
            tensor_jit_type(&s->inputs[i].type, in[i]);
    }
    return BELL_OK;
}

bell_status
bell_jit_save(struct bell_jit *jit, struct bell_tensor *const *in,
              const struct bell_jit_save_desc *desc, const char *path)
{
    struct save s = {.jit = jit, .desc = desc};
    bell_status status;
    bool tunable, again;
    uint32_t i;

    BELL_TRY(check_call(jit, in, desc, path));
    tunable = has_field(desc, is_tunable) && desc->is_tunable;
    if (has_field(desc, n_steps))
        s.n_steps = desc->n_steps;
    if (has_field(desc, state))
        s.names = desc->state;
    BELL_TRY(note_saved_inputs(&s, in));
    status = rt_bundle_create(tunable, &s.bundle);
    for (i = 0; status == BELL_OK && i < desc->n_targets; i++) {
        status = save_target(&s, desc->targets[i], i == 0, &again);
        if (status == BELL_OK && again)
            status = save_target(&s, desc->targets[i], i == 0, &again);
    }
    if (status == BELL_OK) {
        status = rt_bundle_check_names(s.bundle);
        if (status != BELL_OK)
            bell_error_prefix("bell_jit_save");
    }
    if (status == BELL_OK)
        status = rt_bundle_write(s.bundle, path);
    rt_bundle_destroy(s.bundle);
    host_free(s.inputs);
    host_free(s.handles);
    host_free(s.numbers);
    host_free(s.sizes);
    jit_feeds_destroy(s.feeds);
    tensor_collect(jit->ctx);
    return status;
}
