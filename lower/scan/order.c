/* Keys in order in one kernel (lower/scan/order.h).
 *
 * A thread has EACH keys of a row at a time whose places differ in
 * neighbouring bits, and exchanges them in registers: by the bitonic network,
 * from the highest of these bits down. In between all lie in LOCAL memory, so
 * that each thread gets others: ceil(b / EACH_LOG2) rounds put bitonic blocks
 * of 2^b keys in order. Where every second block is to descend, its keys'
 * complements ascend.
 *
 * GPU: in LOCAL memory an element is left out behind every EACH, so that
 * whichever bits a thread's places differ in, neighbouring threads use
 * different banks, and elements of a thread lie at constant distances. Where
 * that leaves room for fewer work-groups, or keys of 4 bytes would meet, places
 * have their lowest bits exchanged by those above. Host: each round is a loop
 * over what threads would do.
 */
#include "base/log.h"
#include "lower/attention/attention_code.h"
#include "lower/scan/order.h"

#define EACH_LOG2   4
#define EACH        (1u << EACH_LOG2)
#define THREADS     128 /* of a work-group, where rows are short */
#define MANY_GROUPS 2   /* of a unit: no matter whether there is one more */
#define KEY_REGS    80  /* of a thread: two for each key, and as many again */

static const union uop_arg no_arg = {.bits = 0};

struct sort_work {
    struct attend_code c;
    const struct order *o;
    bool is_gpu, is_spaced;
    uint32_t row_elements;  /* of w->keys */
    uint32_t bits, threads; /* of a place in a row; of a row */
    uint32_t rows;          /* of a work-group */
    const struct uop *thread, *row;
    const struct uop *range; /* of the host's loop that is open */
    const struct uop *gate;  /* is there such a row? NULL: always */
    const struct uop *keys;  /* LOCAL memory */
};

bool
order_find(const struct kernel *k, struct order *out)
{
    const struct uop *store = k->sink->src[0], *u;

    if (k->sink->n_src != 1 || store->op != UOP_STORE ||
        store->src[2]->op != UOP_SORT)
        return false;
    u = store->src[2];
    *out = (struct order){
        .store = store,
        .value = u->src[0],
        .from = kernel_range_no(k, u->src[1]),
        .at = kernel_range_no(k, u->src[2]),
        .bitonic = u->arg.i != 0,
    };
    return true;
}

/* ---- threads ---- */

/* Lets all ranges but i and j be the work-group's: `rows` values of the first
 * of them at a time. */
static bell_status
map_rows(struct sort_work *w, struct lower_program *p)
{
    const struct kernel *k = w->c.e->k;
    int64_t all = 1, n[KERNEL_MAX_RANGES];
    const struct uop *left, *at;
    uint32_t r, first = KERNEL_MAX_RANGES;

    for (r = k->n_ranges; r-- > 0;) {
        if (r == w->o->at || r == w->o->from)
            continue;
        n[r] = k->sizes[r] >= 0 ? k->sizes[r]
                                : uop_bounds(k->g, k->ranges[r]->src[0]).max;
        first = r;
    }
    if (first == KERNEL_MAX_RANGES)
        w->rows = 1;
    else
        n[first] = (n[first] + w->rows - 1) / w->rows;
    for (r = first; r < k->n_ranges; r++) {
        if (r != w->o->at && r != w->o->from &&
            __builtin_mul_overflow(all, n[r], &all))
            all = INT64_MAX;
    }
    BELL_TRY(attend_grid(&w->c, all, p, &left));
    for (r = k->n_ranges; r-- > 0 && first < KERNEL_MAX_RANGES;) {
        if (r == w->o->at || r == w->o->from)
            continue;
        at = r == first ? left : op2(&w->c, UOP_FLOORMOD, left, n[r]);
        left = op2(&w->c, UOP_FLOORDIV, left, n[r]);
        if (r == first && w->rows > 1)
            at = step(&w->c, w->row, at, w->rows);
        if (k->sizes[r] < 0 || (r == first && k->sizes[r] % w->rows)) {
            const struct uop *ok =
                uop_alu2(w->c.g, UOP_CMPLT, at, k->ranges[r]->src[0]);
            at = uop_alu3(w->c.g, UOP_WHERE, ok, at, num(&w->c, 0));
            w->gate = w->gate ? uop_alu2(w->c.g, UOP_AND, w->gate, ok) : ok;
        }
        attend_let_range(&w->c, r, at);
    }
    return BELL_OK;
}

/* All threads do the work with w->thread from here on, up to end_round. */
static void
begin_round(struct sort_work *w)
{
    union uop_arg arg = {
        .i = uop_range_arg(w->c.e->k->n_ranges + w->c.e->n_accs++,
                           UOP_AXIS_REDUCE)};
    const struct uop *size = num(&w->c, w->threads);

    if (w->is_gpu)
        return;
    w->range = uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
    w->thread = w->range;
}

/* LOCAL memory, when all have stored what they do. */
static const struct uop *
end_round(struct sort_work *w, const struct uop *const *stores)
{
    const struct uop *src[1 + EACH] = {w->range}, *u;
    uint32_t i;

    for (i = 0; i < EACH; i++)
        src[1 + i] = stores[i];
    u = w->is_gpu
            ? uop_new(w->c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, stores, EACH)
            : uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, 1 + EACH);
    return attend_after(&w->c, w->keys, &u, 1);
}

/* ---- places ---- */

/* The first of a thread's places that differ in the bits from `low` on. */
static const struct uop *
first_place(const struct sort_work *w, uint32_t low)
{
    const struct uop *high = op2(&w->c, UOP_FLOORDIV, w->thread, 1 << low);

    return step(&w->c, op2(&w->c, UOP_FLOORMOD, w->thread, 1 << low), high,
                (int64_t)EACH << low);
}

/* The element of w->keys for a place. */
static const struct uop *
element_of(const struct sort_work *w, const struct uop *place)
{
    const struct uop *above = op2(&w->c, UOP_FLOORDIV, place, EACH);

    if (w->is_spaced)
        place = uop_alu2(w->c.g, UOP_ADD, place, above);
    else if (w->is_gpu)
        place = uop_alu2(w->c.g, UOP_XOR, place,
                         op2(&w->c, UOP_FLOORMOD, above, EACH));
    return w->rows == 1 ? place : step(&w->c, place, w->row, w->row_elements);
}

/* The element for a place that is greater by `bits`, of which the first
 * element's has none. */
static const struct uop *
element_beyond(const struct sort_work *w, const struct uop *first,
               uint32_t bits)
{
    if (w->is_gpu && !w->is_spaced)
        return op2(&w->c, UOP_XOR, first, bits ^ bits / EACH % EACH);
    return op2(&w->c, UOP_ADD, first, w->is_spaced ? bits + bits / EACH : bits);
}

static const struct uop *
load_key(const struct sort_work *w, const struct uop *memory,
         const struct uop *element)
{
    const struct uop *src[2] = {memory, element};

    return uop_make(w->c.g, UOP_LOAD, w->o->value->dtype, 1, no_arg, src, 2);
}

static const struct uop *
store_key(const struct sort_work *w, const struct uop *element,
          const struct uop *key)
{
    const struct uop *src[3] = {w->keys, element, key};

    return uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 3);
}

/* ---- exchanges ---- */

/* Exchanges keys that are `span` apart, in blocks that ascend and descend by
 * turns. */
static void
exchange_keys(const struct sort_work *w, const struct uop **v, uint32_t span,
              uint32_t block)
{
    uint32_t i;

    for (i = 0; i < EACH; i++) {
        const struct uop *a = v[i], *b = v[i ^ span];
        uint32_t less = i & block ? i ^ span : i;
        if (i & span)
            continue;
        v[less] = uop_alu2(w->c.g, UOP_MIN, a, b);
        v[less ^ span] = uop_alu2(w->c.g, UOP_MAX, a, b);
    }
}

/* The complements of the keys where this thread's block descends; so back. */
static void
turn_keys(const struct sort_work *w, const struct uop **v, uint32_t block_log2)
{
    uint32_t bit = block_log2 - EACH_LOG2, i;
    const struct uop *odd;

    if (block_log2 == w->bits)
        return;
    odd = op2(&w->c, UOP_FLOORDIV, w->thread, 1 << bit);
    odd = uop_alu1(w->c.g, UOP_NEG, op2(&w->c, UOP_FLOORMOD, odd, 2));
    for (i = 0; i < EACH; i++)
        v[i] =
            uop_alu2(w->c.g, UOP_XOR, v[i], uop_cast(w->c.g, odd, v[i]->dtype));
}

/* Blocks of 2^block_log2 keys: the `count` bits from `low` on of what puts
 * bitonic ones in order; with `sorts` of any keys, which are as many as a
 * thread has. */
static const struct uop *
run_sort_round(struct sort_work *w, const struct uop *memory,
               uint32_t block_log2, uint32_t low, uint32_t count, bool sorts)
{
    const struct uop *v[EACH], *element[EACH], *stores[EACH], *first;
    uint32_t i, span, b;

    begin_round(w);
    first = element_of(w, first_place(w, low));
    for (i = 0; i < EACH; i++) {
        element[i] = element_beyond(w, first, i << low);
        v[i] = load_key(w, memory, element[i]);
    }
    turn_keys(w, v, block_log2);
    for (b = sorts ? 1 : count; b <= count; b++) {
        for (span = 1u << (b - 1); span > 0; span /= 2)
            exchange_keys(w, v, span, sorts ? 1u << b : EACH);
    }
    turn_keys(w, v, block_log2);
    for (i = 0; i < EACH; i++)
        stores[i] = store_key(w, element[i], v[i]);
    return end_round(w, stores);
}

/* Place `i` of this thread where neighbouring threads have neighbours; its
 * element. */
static const struct uop *
spread_place(const struct sort_work *w, uint32_t i,
             const struct uop **out_element)
{
    *out_element = element_beyond(w, element_of(w, w->thread), i * w->threads);
    return op2(&w->c, UOP_ADD, w->thread, (int64_t)i * w->threads);
}

static const struct uop *
load_sort_keys(struct sort_work *w)
{
    const struct uop *stores[EACH], *place, *element;
    uint32_t i, n_pairs = w->c.n_pairs;

    begin_round(w);
    for (i = 0; i < EACH; i++) {
        place = spread_place(w, i, &element);
        attend_let_range(&w->c, w->o->from, place);
        stores[i] =
            store_key(w, element, attend_value(&w->c, w->o->value, n_pairs));
    }
    return end_round(w, stores);
}

static const struct uop *
store_keys(struct sort_work *w, const struct uop *memory)
{
    const struct uop *stores[1 + EACH], *src[4], *place, *element;
    uint32_t i, n_pairs = w->c.n_pairs;

    begin_round(w);
    stores[0] = w->range;
    for (i = 0; i < EACH; i++) {
        place = spread_place(w, i, &element);
        attend_let_range(&w->c, w->o->at, place);
        src[0] = w->o->store->src[0];
        src[1] = attend_value(&w->c, w->o->store->src[1], n_pairs);
        src[2] = load_key(w, memory, element);
        src[3] = w->gate;
        stores[1 + i] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src,
                                 w->gate ? 4 : 3);
    }
    if (w->is_gpu)
        return uop_new(w->c.g, UOP_SINK, UOP_VOID, 1, no_arg, stores + 1, EACH);
    stores[0] = uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, stores, 1 + EACH);
    return uop_new(w->c.g, UOP_SINK, UOP_VOID, 1, no_arg, stores, 1);
}

/* ---- the kernel ---- */

/* Whether elements are left out, and so the size of a row. */
static void
space_keys(struct sort_work *w, int64_t n, uint32_t bytes)
{
    const struct lower_target *t = w->c.e->k->target;
    int64_t all = n * w->rows * bytes, spaced = all + all / EACH;
    int64_t unit = t->max_stage_bytes > t->max_shared_bytes
                       ? t->max_stage_bytes
                       : t->max_shared_bytes;

    w->is_spaced =
        w->is_gpu && bytes == 8 && spaced <= t->max_shared_bytes &&
        (unit / spaced >= MANY_GROUPS || unit / spaced == unit / all);
    w->row_elements = (uint32_t)(w->is_spaced ? n + n / EACH : n);
}

static bell_status
choose_sort_sizes(struct sort_work *w, struct lower_program *p)
{
    const struct lower_target *t = w->c.e->k->target;
    int64_t n = w->c.e->k->sizes[w->o->at];
    uint32_t bytes = uop_dtype_infos[w->o->value->dtype].size_bytes;
    const struct uop *tid;

    while ((int64_t)1 << w->bits < n)
        w->bits++;
    w->is_gpu = t->is_gpu;
    w->threads = (uint32_t)n / EACH;
    w->rows = 1;
    while (w->is_gpu && w->rows * w->threads < THREADS &&
           2 * w->rows * w->threads <= t->max_threads &&
           2 * w->rows * n * bytes <= t->max_shared_bytes)
        w->rows *= 2;
    if (w->is_gpu &&
        (w->threads > t->max_threads || n * bytes > t->max_shared_bytes))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%lld keys of %u bytes in LOCAL memory", (long long)n,
                         bytes);
    if (w->is_gpu) {
        tid = attend_special(&w->c, 4, (int64_t)w->threads * w->rows);
        w->thread = op2(&w->c, UOP_FLOORMOD, tid, w->threads);
        w->row = op2(&w->c, UOP_FLOORDIV, tid, w->threads);
    }
    space_keys(w, n, bytes);
    BELL_TRY(map_rows(w, p));
    if (w->is_gpu)
        p->local[0] = w->threads * w->rows;
    if (w->is_spaced)
        p->want_regs = KEY_REGS;
    w->keys = expand_local(w->c.e, w->o->value->dtype,
                           (uint64_t)w->row_elements * w->rows);
    LOG(LOG_OPT, "order: %u rows of %u threads", w->rows, w->threads);
    return BELL_OK;
}

bell_status
expand_order(struct kernel *k, const struct order *o,
             const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct sort_work *w = arena_calloc(&k->mem, 1, sizeof(*w));
    const struct uop *memory;
    uint32_t b, left, count;

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of an order: out of memory");
    w->c = (struct attend_code){.e = &e, .g = k->g};
    w->o = o;
    BELL_TRY(choose_sort_sizes(w, program));
    memory = load_sort_keys(w);
    if (!o->bitonic)
        memory = run_sort_round(w, memory, EACH_LOG2, 0, EACH_LOG2, true);
    for (b = o->bitonic ? w->bits : EACH_LOG2 + 1; b <= w->bits; b++) {
        for (left = b; left > 0; left -= count) {
            count = left < EACH_LOG2 ? left : EACH_LOG2;
            memory = run_sort_round(w, memory, b, left - count, count, false);
        }
    }
    *out_sink = store_keys(w, memory);
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(k->g);
}
