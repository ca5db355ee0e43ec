/* In which order kernels run, for little memory.
 *
 * Several of the orders that kernels can run in are tried: the one at hand, and
 * ones in which a kernel runs as soon as it takes no more memory than it gives
 * back (weights are updated as soon as there are gradients), or as late as that
 * can be (a value that is cheap to make waits until it is read). Each step also
 * goes from the end of time: there the memory that was given is taken.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"

#define WORTH 32 /* one part in this many: less does not count. guess */

/* ---- who waits for whom ---- */

/* Kernels that touched a buffer since it was last stored to. */
struct touched {
    uint32_t by, next; /* next: of an older one; SCHED_NONE: none */
};

/* Pairs of items that are to stay in this order. */
struct pairs {
    struct sched_waits *waits;
    bool counts; /* else lists */
};

static void
see_pair(struct pairs *p, uint32_t before, uint32_t after)
{
    if (p->counts) {
        p->waits->first_user[before + 2]++;
        p->waits->n_before[after]++;
    } else {
        p->waits->users[p->waits->first_user[before + 1]++] = after;
    }
}

/* Sees items of the same buffer of which one stores, and the other one loads or
 * stores. Items are in an order in which they can run. */
static bell_status
see_pairs(struct sched *s, const struct sched_plan *plan, struct pairs *p)
{
    uint32_t *writer = sched_numbers(s, plan->n_bufs);
    uint32_t *last = sched_numbers(s, plan->n_bufs), n = 0, i, k, b;
    struct touched *list;

    for (i = 0; i < plan->n_items; i++)
        n += plan->items[i].n_bufs;
    list = arena_alloc(&s->scratch, (n + 1) * sizeof(*list));
    if (!writer || !last || !list)
        return sched_no_memory(s);
    for (i = n = 0; i < plan->n_items; i++) {
        const struct sched_item *item = &plan->items[i];
        for (k = 0; k < item->n_bufs; k++) {
            b = item->bufs[k];
            if (writer[b] != SCHED_NONE)
                see_pair(p, writer[b], i);
            if (k >= item->n_outs) {
                list[n] = (struct touched){i, last[b]};
                last[b] = n++;
                continue;
            }
            for (; last[b] != SCHED_NONE; last[b] = list[last[b]].next) {
                if (list[last[b]].by != i)
                    see_pair(p, list[last[b]].by, i);
            }
        }
        for (k = 0; k < item->n_outs; k++)
            writer[item->bufs[k]] = i;
    }
    return BELL_OK;
}

/* Arrays of n items. */
static bell_status
make_waits(struct sched *s, uint32_t n, struct sched_waits *out)
{
    out->n_before = arena_calloc(&s->scratch, n + 1, sizeof(*out->n_before));
    out->first_user =
        arena_calloc(&s->scratch, n + 2, sizeof(*out->first_user));
    return out->n_before && out->first_user ? BELL_OK : sched_no_memory(s);
}

bell_status
sched_waits_find(struct sched *s, const struct sched_plan *plan,
                 struct sched_waits *out)
{
    struct pairs p = {.waits = out, .counts = true};
    uint32_t i, n = 0;

    BELL_TRY(make_waits(s, plan->n_items, out));
    BELL_TRY(see_pairs(s, plan, &p));
    for (i = 0; i < plan->n_items + 2; i++)
        out->first_user[i] = n += out->first_user[i];
    out->users = sched_numbers(s, n);
    if (!out->users)
        return sched_no_memory(s);
    p.counts = false;
    return see_pairs(s, plan, &p);
}

/* ---- orders ---- */

/* Memory that is neither a leaf's nor a root's. */
struct value {
    uint64_t n_bytes;
    uint32_t first, n; /* of touches[]: the items that touch it */
};

/* A search for an order. Arrays of n items, but for those that say more. */
struct item_order {
    const struct sched_plan *plan;
    struct sched_waits ahead, back; /* through time, and back through it */
    struct value *values;           /* by buffer; n 0: no such memory */
    uint32_t *touches;
    uint64_t alive_bytes; /* ---- of one walk ---- */
    uint32_t *n_left;     /* by buffer: items to come */
    uint32_t *which_left; /* by buffer: those, XORed */
    uint32_t *n_before;
    int64_t *net; /* bytes taken less those given back */
    uint8_t *state;
    uint32_t *eager; /* ready, and nothing is taken */
};

enum {
    WAITING,
    READY,
    QUEUED,
    DONE
};

static bell_status
turn_waits(struct sched *s, const struct sched_waits *w, uint32_t n,
           struct sched_waits *out)
{
    uint32_t i, k, n_users = w->first_user[n];

    BELL_TRY(make_waits(s, n, out));
    out->users = sched_numbers(s, n_users);
    if (!out->users)
        return sched_no_memory(s);
    for (i = 0; i < n; i++)
        out->n_before[i] = w->first_user[i + 1] - w->first_user[i];
    for (k = 0; k < n_users; k++)
        out->first_user[w->users[k] + 2]++;
    for (i = 2; i < n + 2; i++)
        out->first_user[i] += out->first_user[i - 1];
    for (i = 0; i < n; i++) {
        for (k = w->first_user[i]; k < w->first_user[i + 1]; k++)
            out->users[out->first_user[w->users[k] + 1]++] = i;
    }
    return BELL_OK;
}

static bell_status
find_values(struct sched *s, struct item_order *o)
{
    const struct sched_plan *plan = o->plan;
    uint32_t i, k, n = 0;

    for (i = 0; i < plan->n_items; i++) {
        for (k = 0; k < plan->items[i].n_bufs; k++)
            o->values[plan->items[i].bufs[k]].n++;
    }
    for (i = 0; i < plan->n_bufs; i++) {
        const struct sched_buf *buf = &plan->bufs[i];
        if (buf->leaf >= 0 || buf->root >= 0)
            o->values[i].n = 0;
        o->values[i].n_bytes =
            buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
        o->values[i].first = n;
        n += o->values[i].n;
        o->values[i].n = o->values[i].n ? 1u << 31 : 0;
    }
    o->touches = sched_numbers(s, n);
    if (!o->touches)
        return sched_no_memory(s);
    for (i = 0; i < plan->n_items; i++) {
        for (k = 0; k < plan->items[i].n_bufs; k++) {
            struct value *v = &o->values[plan->items[i].bufs[k]];
            if (v->n)
                o->touches[v->first + (v->n++ & 0x7fffffff)] = i;
        }
    }
    for (i = 0; i < plan->n_bufs; i++)
        o->values[i].n &= 0x7fffffff;
    return BELL_OK;
}

static bell_status
init_order(struct sched *s, struct item_order *o)
{
    uint32_t n = o->plan->n_items, n_bufs = o->plan->n_bufs;

    BELL_TRY(sched_waits_find(s, o->plan, &o->ahead));
    BELL_TRY(turn_waits(s, &o->ahead, n, &o->back));
    o->values = arena_calloc(&s->scratch, n_bufs + 1, sizeof(*o->values));
    o->n_left = sched_numbers(s, n_bufs);
    o->which_left = sched_numbers(s, n_bufs);
    o->n_before = sched_numbers(s, n);
    o->net = arena_alloc(&s->scratch, n * sizeof(*o->net) + 1);
    o->state = arena_alloc(&s->scratch, n + 1);
    o->eager = sched_numbers(s, n);
    if (!o->values || !o->n_left || !o->which_left || !o->n_before || !o->net ||
        !o->state || !o->eager)
        return sched_no_memory(s);
    return find_values(s, o);
}

static void
begin_walk(struct item_order *o)
{
    uint32_t b, i, n = o->plan->n_items;

    o->alive_bytes = 0;
    memset(o->net, 0, n * sizeof(*o->net));
    memset(o->state, WAITING, n);
    for (b = 0; b < o->plan->n_bufs; b++) {
        const struct value *v = &o->values[b];
        o->n_left[b] = v->n;
        o->which_left[b] = 0;
        for (i = v->first; i < v->first + v->n; i++) {
            o->which_left[b] ^= o->touches[i];
            o->net[o->touches[i]] += (int64_t)v->n_bytes;
        }
        if (v->n == 1)
            o->net[o->touches[v->first]] -= (int64_t)v->n_bytes;
    }
}

/* Runs the item: memory that it is the first to touch is taken, what it is the
 * last to touch given back. Returns the bytes alive meanwhile. */
static uint64_t
run_item(struct item_order *o, uint32_t at)
{
    const struct sched_item *item = &o->plan->items[at];
    uint64_t meanwhile;
    uint32_t k, i;

    assert(at < o->plan->n_items);
    for (k = 0; k < item->n_bufs; k++) {
        uint32_t b = item->bufs[k];
        const struct value *v = &o->values[b];
        if (!v->n || o->n_left[b] != v->n)
            continue;
        o->alive_bytes += v->n_bytes;
        for (i = v->first; i < v->first + v->n; i++)
            o->net[o->touches[i]] -= (int64_t)v->n_bytes;
    }
    meanwhile = o->alive_bytes;
    for (k = 0; k < item->n_bufs; k++) {
        uint32_t b = item->bufs[k];
        const struct value *v = &o->values[b];
        if (!v->n)
            continue;
        o->n_left[b]--;
        o->which_left[b] ^= at;
        if (o->n_left[b] == 0)
            o->alive_bytes -= v->n_bytes;
        else if (o->n_left[b] == 1)
            o->net[o->which_left[b]] -= (int64_t)v->n_bytes;
    }
    o->state[at] = DONE;
    return meanwhile;
}

static uint64_t
most_alive(struct item_order *o, const uint32_t *list)
{
    uint64_t most = 0, now;
    uint32_t i;

    begin_walk(o);
    for (i = 0; i < o->plan->n_items; i++) {
        now = run_item(o, list[i]);
        most = now > most ? now : most;
    }
    return most;
}

static uint32_t
add_eager(struct item_order *o, uint32_t at, uint32_t n)
{
    if (o->state[at] != READY || o->net[at] > 0)
        return n;
    o->state[at] = QUEUED;
    o->eager[n] = at;
    return n + 1;
}

/* The order of `from`, but for items that take nothing: these run as soon as
 * they can. `back`: the same from the end of time. */
static void
run_eager(struct item_order *o, const uint32_t *from, bool back, uint32_t *out)
{
    const struct sched_waits *w = back ? &o->back : &o->ahead;
    uint32_t n = o->plan->n_items, n_done = 0, n_eager = 0, next = 0, at, i, k;

    begin_walk(o);
    memcpy(o->n_before, w->n_before, n * sizeof(*o->n_before));
    for (i = 0; i < n; i++)
        o->state[i] = o->n_before[i] ? WAITING : READY;
    for (i = 0; i < n; i++)
        n_eager = add_eager(o, back ? n - 1 - i : i, n_eager);
    for (k = 0; n_done < n;) {
        if (k < n_eager) {
            at = o->eager[k++];
        } else {
            at = from[back ? n - 1 - next : next];
            next++;
            if (o->state[at] == DONE)
                continue;
        }
        assert(o->state[at] == READY || o->state[at] == QUEUED);
        run_item(o, at);
        out[back ? n - 1 - n_done : n_done] = at;
        n_done++;
        for (i = w->first_user[at]; i < w->first_user[at + 1]; i++) {
            if (--o->n_before[w->users[i]] == 0)
                o->state[w->users[i]] = READY;
        }
        for (i = w->first_user[at]; i < w->first_user[at + 1]; i++)
            n_eager = add_eager(o, w->users[i], n_eager);
        for (i = 0; i < o->plan->items[at].n_bufs; i++) {
            uint32_t b = o->plan->items[at].bufs[i];
            if (o->values[b].n && o->n_left[b] == 1)
                n_eager = add_eager(o, o->which_left[b], n_eager);
        }
    }
}

static bell_status
apply_order(struct sched *s, struct sched_plan *plan, const uint32_t *list)
{
    struct sched_item *items =
        arena_alloc(&s->k->arena, (plan->n_items + 1) * sizeof(*items));
    uint32_t i;

    if (!items)
        return sched_no_memory(s);
    for (i = 0; i < plan->n_items; i++)
        items[i] = plan->items[list[i]];
    plan->items = items;
    return BELL_OK;
}

/* Steps are ahead, back, ahead and so on, as long as that helps; or begin with
 * the one back. */
bell_status
sched_order(struct sched *s, struct sched_plan *plan, uint64_t *out_bytes)
{
    struct item_order order = {.plan = plan}, *o = &order;
    uint32_t n = plan->n_items, *best = sched_numbers(s, n), *swap, i, way;
    uint32_t *now = sched_numbers(s, n), *next = sched_numbers(s, n);
    uint64_t was, least, most;

    if (!best || !now || !next)
        return sched_no_memory(s);
    BELL_TRY(init_order(s, o));
    for (i = 0; i < n; i++)
        best[i] = i;
    was = least = most_alive(o, best);
    for (way = 0; way < 2; way++) {
        for (i = 0; i < n; i++)
            now[i] = i;
        for (i = 0; i < 4; i++) {
            run_eager(o, now, (i + way) & 1, next);
            swap = now;
            now = next;
            next = swap;
            most = most_alive(o, now);
            if (most < least) {
                least = most;
                memcpy(best, now, n * sizeof(*best));
            }
        }
    }
    LOG(LOG_SCHED, "order: at most %llu bytes alive, %llu before",
        (unsigned long long)least, (unsigned long long)was);
    if (least + least / WORTH >= was) {
        *out_bytes = was;
        return BELL_OK;
    }
    *out_bytes = least;
    return apply_order(s, plan, best);
}
