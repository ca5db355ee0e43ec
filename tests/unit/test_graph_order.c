/* hcq/hcq_graph_order.c beside every pair of commands: which queue does what,
 * what waits for what, and which fixed memory is read and written. The model
 * knows sets of commands where the module counts moments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq_graph_internal.h"
#include "tests/unit/expect.h"

#define N_DEVS   3u
#define N_MAX    48u
#define N_ROUNDS 3000u
#define WORTH_IT 16384u /* bytes that a copy queue takes */

/* Where ranges begin and end: beside one another, and of lengths beside those
 * that a copy queue is worth. */
static const uint64_t places[] = {0,     1,     4096,  16383, 16384, 16385,
                                  20480, 32768, 36864, 49152, 65535, 65536};
#define N_PLACES ARRAY_LEN(places)

static struct hcq_device *devs[N_DEVS];
#define N_QUEUES 3u /* of a device: compute, copy, copy */
static struct hcq_queue *queues[N_DEVS][N_QUEUES];
static struct hcq_program progs[N_DEVS];

/* Memory of a device that is known: its own in four places, and pages of the
 * host, half of which the next device has as well. */
#define N_HOMES    5u
#define HOME_HOST  2u /* the one that is the host's */
#define HOME_BYTES 65536u
static struct hcq_buffer *homes[N_DEVS][N_HOMES]; /* NULL: none is known */
static uint8_t *pages;

/* Bit i: command i. */
typedef uint64_t set;

struct model {
    uint32_t n, n_queues;
    const struct hcq_queue *queues[N_QUEUES * N_DEVS];
    uint32_t queue[N_MAX];
    set needs[N_MAX];              /* what has to be over, of those before it */
    set knows[N_QUEUES * N_DEVS];  /* what each queue knows to be over */
    bool begun[N_QUEUES * N_DEVS]; /* and that the submission has begun */
    set then[N_MAX];
    bool begun_then[N_MAX], signals[N_MAX], begin_signals;
    set on[N_QUEUES * N_DEVS]; /* what each queue has got by now */
    struct graph_wait waits[N_MAX * N_QUEUES * N_DEVS];
    uint32_t n_waits;
};

/* The order of ranges. */
static int
by_address(const void *a, const void *b)
{
    const struct hcq_device *const *x = a, *const *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void
open_named(const char *name)
{
    uint32_t i;

    for (i = 0; i < N_DEVS; i++)
        expect_ok(hcq_device_open(name, &devs[i]));
    qsort(devs, N_DEVS, sizeof(devs[0]), by_address);
    for (i = 0; i < N_DEVS; i++) {
        expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COMPUTE, &queues[i][0]));
        expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COPY, &queues[i][1]));
        expect_ok(hcq_queue_create(devs[i], HCQ_QUEUE_COPY, &queues[i][2]));
        progs[i].dev = devs[i];
    }
}

static int
open_devices(void **state)
{
    (void)state;
    open_named("CPU");
    return 0;
}

/* Small builds have none. */
static bool
has_null_devices(void)
{
    struct hcq_device *dev;

    if (hcq_device_open("NV@null:h100", &dev) != BELL_OK)
        return false;
    hcq_device_close(dev);
    return true;
}

/* Whose own memory the host does not see. */
static int
open_with_homes(void **state)
{
    uint32_t i, k;

    (void)state;
    open_named("NV@null:h100");
    pages = aligned_alloc(4096, (N_DEVS + 1) * HOME_BYTES / 2);
    assert_non_null(pages);
    for (i = 0; i < N_DEVS; i++) {
        expect_ok(hcq_buffer_create_pinned(devs[i], pages + i * HOME_BYTES / 2,
                                           HOME_BYTES, &homes[i][HOME_HOST]));
        for (k = 0; k < N_HOMES; k++) {
            if (k != HOME_HOST)
                expect_ok(
                    hcq_buffer_create(devs[i], HOME_BYTES, 0, &homes[i][k]));
        }
    }
    assert_null(homes[0][0]->host);
    assert_true(homes[0][0]->va == homes[1][0]->va);
    assert_true(homes[0][1]->va >= homes[0][0]->va + HOME_BYTES);
    return 0;
}

static int
close_devices(void **state)
{
    uint32_t i, k;

    (void)state;
    for (i = 0; i < N_DEVS; i++) {
        for (k = 0; k < N_HOMES; k++)
            hcq_buffer_destroy(homes[i][k]);
        memset(homes[i], 0, sizeof(homes[i]));
    }
    free(pages);
    pages = NULL;
    for (i = 0; i < N_DEVS; i++)
        hcq_device_close(devs[i]);
    return 0;
}

static uint32_t
draw(uint32_t *x, uint32_t n)
{
    *x = *x * 1664525u + 1013904223u;
    return (*x >> 8) % n;
}

/* ---- random graphs ---- */

/* Two slots with homes, as each device sees them. */
#define N_HOMED 2u
static uint32_t homed[N_HOMED][N_DEVS];

/* Slot 2 * d and the one behind it are memory of device d. */
static struct hcq_graph_arg
draw_memory(uint32_t *x, uint32_t dev, uint64_t min_bytes)
{
    struct hcq_graph_arg arg = {.slot = HCQ_SLOT_NONE};
    uint32_t from, to;

    do {
        from = draw(x, N_PLACES), to = draw(x, N_PLACES);
    } while (from > to || places[to] - places[from] < min_bytes);
    arg.value = places[from];
    arg.size_bytes = places[to] - places[from];
    if (draw(x, homes[dev][0] ? 9 : 3) == 0)
        arg.slot = 2 * dev + draw(x, 2);
    else if (draw(x, 3) == 0)
        arg.slot = homed[draw(x, N_HOMED)][dev];
    else if (homes[dev][0])
        arg.value += homes[dev][draw(x, 2) ? HOME_HOST : draw(x, N_HOMES)]->va +
                     (draw(x, 128) == 0) - (draw(x, 256) == 0);
    else
        arg.value += 1u << 20;
    return arg;
}

static void
add_exec(struct hcq_graph *graph, uint32_t *x, uint32_t dev)
{
    static const uint32_t grid[3] = {1, 1, 1};
    struct hcq_graph_arg args[4];
    uint32_t n = draw(x, 5), i;

    for (i = 0; i < n; i++) {
        args[i] = draw_memory(x, dev, 0);
        args[i].access = draw(x, 4);
        if (!args[i].access)
            args[i] = hcq_graph_word(i);
    }
    hcq_graph_exec(graph, &progs[dev], args, n, grid, NULL);
}

static void
add_transfer(struct hcq_graph *graph, uint32_t *x, uint32_t dev)
{
    static const uint64_t sizes[] = {0, 1, 4096, 16383, 16384, 16385, 32768};
    uint64_t size = sizes[draw(x, ARRAY_LEN(sizes))];
    struct hcq_graph_arg to = draw_memory(x, dev, size);
    struct hcq_graph_arg from = draw_memory(x, dev, size);

    if (draw(x, 2))
        hcq_graph_copy(graph, devs[dev], &to, &from, size);
    else
        hcq_graph_fill(graph, devs[dev], &to, 7, size);
}

/* The one has its home on the first device, the other on the last. */
static void
add_homed(struct hcq_graph *graph, uint32_t n_devs)
{
    uint32_t i, d, home;
    char name[16];

    for (i = 0; i < N_HOMED; i++) {
        home = i ? n_devs - 1 : 0;
        snprintf(name, sizeof(name), "homed %u", i);
        homed[i][home] = hcq_graph_slot_on(graph, name, 65536, devs[home]);
        for (d = 0; d < n_devs; d++) {
            homed[i][d] = hcq_graph_view(graph, homed[i][home], devs[d]);
            assert_int_equal(hcq_graph_view(graph, homed[i][d], devs[d]),
                             homed[i][d]);
        }
        assert_int_equal(graph->slots[homed[i][n_devs - 1]].first,
                         homed[i][home]);
    }
}

static struct hcq_graph *
build(uint32_t *x)
{
    struct hcq_queue *list[N_QUEUES * N_DEVS];
    struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "random",
        .queues = list,
    };
    uint32_t n_devs = 1 + draw(x, N_DEVS), kinds = draw(x, 4), i;
    uint32_t n = 1 + draw(x, N_MAX);
    struct hcq_graph *graph;
    char name[16];

    if (homes[0][0] && draw(x, 4) == 0)
        desc.flags = HCQ_GRAPH_TRUSTED;

    for (i = 0; i < n_devs; i++) {
        list[desc.n_queues++] = queues[i][0];
        if (kinds == 0 || kinds == 3 || (kinds == 1 && i == 0))
            list[desc.n_queues++] = queues[i][1];
        if (kinds == 3)
            list[desc.n_queues++] = queues[i][2];
    }
    expect_ok(hcq_graph_create(&desc, &graph));
    for (i = 0; i < 2 * N_DEVS; i++) {
        snprintf(name, sizeof(name), "slot %u", i);
        assert_int_equal(hcq_graph_slot(graph, name, 65536), i);
    }
    add_homed(graph, n_devs);
    for (i = 0; i < n; i++) {
        uint32_t dev = draw(x, n_devs);
        if (draw(x, 3))
            add_transfer(graph, x, dev);
        else
            add_exec(graph, x, dev);
    }
    assert_int_equal(graph->status, BELL_OK);
    assert_int_equal(graph->n_commands, n);
    return graph;
}

/* ---- the model ---- */

static uint32_t
number_of(const struct hcq_device *dev)
{
    uint32_t i = 0;

    while (devs[i] != dev)
        i++;
    return i;
}

/* The home of fixed memory, by number; N_HOMES: of none. */
static uint32_t
home_of(uint32_t dev, const struct hcq_graph_arg *arg)
{
    uint32_t h;

    for (h = 0; h < N_HOMES && homes[dev][h]; h++) {
        if (arg->value >= homes[dev][h]->va &&
            arg->value + arg->size_bytes <= homes[dev][h]->va + HOME_BYTES)
            return h;
    }
    return N_HOMES;
}

/* Whether all fixed memory of the device's commands is known, or all memory of
 * this command. */
static bool
is_known(const struct hcq_graph *graph, const struct graph_command *command)
{
    uint32_t dev = number_of(command->dev), i, k;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *c = &graph->commands[i];
        for (k = 0; k < c->n_args && c->dev == command->dev; k++) {
            const struct hcq_graph_arg *arg = &graph->args[c->first_arg + k];
            if (arg->access && arg->slot != HCQ_SLOT_NONE && c == command &&
                !graph->slots[arg->slot].has_home)
                return false;
            if (arg->access && arg->size_bytes && arg->slot == HCQ_SLOT_NONE &&
                home_of(dev, arg) == N_HOMES)
                return false;
        }
    }
    return true;
}

/* Whether both are fixed, or have memory of one slot. */
static bool
is_one_slot(const struct hcq_graph *graph, uint32_t a, uint32_t b)
{
    if (a == HCQ_SLOT_NONE || b == HCQ_SLOT_NONE)
        return a == b;
    return graph->slots[a].first == graph->slots[b].first;
}

/* Addresses are those of one memory if they are of one device's, or of slots,
 * which are one device's, or of pages of the host that are known. */
static bool
conflict(const struct hcq_graph *graph, const struct graph_command *x,
         const struct graph_command *y)
{
    uint32_t i, k;

    for (i = 0; i < x->n_args; i++) {
        const struct hcq_graph_arg *a = &graph->args[x->first_arg + i];
        for (k = 0; k < y->n_args; k++) {
            const struct hcq_graph_arg *b = &graph->args[y->first_arg + k];
            if (x->dev != y->dev && a->slot == HCQ_SLOT_NONE &&
                (home_of(number_of(x->dev), a) != HOME_HOST ||
                 home_of(number_of(y->dev), b) != HOME_HOST))
                continue;
            if (a->access && b->access && a->size_bytes && b->size_bytes &&
                is_one_slot(graph, a->slot, b->slot) &&
                ((a->access | b->access) & HCQ_ACCESS_WRITE) &&
                a->value < b->value + b->size_bytes &&
                b->value < a->value + a->size_bytes)
                return true;
        }
    }
    return false;
}

static uint32_t
queue_at(const struct model *m, const struct hcq_device *dev,
         enum hcq_queue_kind kind)
{
    uint32_t q, found = UINT32_MAX;

    for (q = 0; q < m->n_queues; q++) {
        if (m->queues[q]->dev == dev &&
            (found == UINT32_MAX ||
             (m->queues[q]->kind == kind && m->queues[found]->kind != kind)))
            found = q;
    }
    return found;
}

/* The device whose memory a transfer takes or gives, if it is another one. */
static uint32_t
partner_of(const struct hcq_graph *graph, const struct graph_command *c)
{
    uint32_t dev = number_of(c->dev), k;

    for (k = 0; k < c->n_args; k++) {
        uint32_t slot = graph->args[c->first_arg + k].slot;
        if (slot != HCQ_SLOT_NONE && graph->slots[slot].has_home &&
            graph->slots[graph->slots[slot].first].dev != c->dev)
            return number_of(graph->slots[graph->slots[slot].first].dev);
    }
    return dev;
}

/* The copy queue of a large transfer: of two each neighbour has one. */
static uint32_t
route_of(const struct model *m, const struct hcq_graph *graph, uint32_t i)
{
    const struct graph_command *c = &graph->commands[i];
    uint32_t dev = number_of(c->dev), other = partner_of(graph, c), n = 1, q;
    uint32_t first = queue_at(m, c->dev, HCQ_QUEUE_COPY);

    for (q = 1; q < m->n_queues; q++)
        n += m->queues[q]->dev != m->queues[q - 1]->dev;
    if (other == dev || first + 1 == m->n_queues ||
        m->queues[first + 1]->dev != c->dev ||
        m->queues[first]->kind == HCQ_QUEUE_COMPUTE)
        return first;
    return first + (other + n - dev - 1) % n % 2;
}

static bool
is_large(const struct graph_command *c)
{
    return c->kind != GRAPH_EXEC && c->size_bytes >= WORTH_IT;
}

/* The first command that i may run beside, all behind it as well. */
static uint32_t
first_beside(const struct hcq_graph *graph, uint32_t i)
{
    const struct graph_command *c = graph->commands;
    uint32_t first;

    for (first = i; first > 0; first--) {
        if (c[first - 1].dev == c[i].dev &&
            conflict(graph, &c[first - 1], &c[i]))
            break;
    }
    return first;
}

/* Does a kernel lie between what command i has to come behind, and what has
 * to come behind it, or has its device none? */
static bool
has_kernel_beside(const struct hcq_graph *graph, uint32_t i)
{
    const struct graph_command *c = graph->commands;
    uint32_t last, k;
    bool has_none = true;

    for (last = i + 1; last < graph->n_commands; last++) {
        if (c[last].dev == c[i].dev && conflict(graph, &c[last], &c[i]))
            break;
    }
    for (k = first_beside(graph, i); k < last; k++) {
        if (c[k].kind == GRAPH_EXEC)
            return true;
    }
    for (k = 0; k < graph->n_commands; k++)
        has_none =
            has_none && !(c[k].kind == GRAPH_EXEC && c[k].dev == c[i].dev);
    return has_none;
}

static void
choose(struct model *m, const struct hcq_graph *graph)
{
    const struct graph_command *c = graph->commands;
    uint32_t i, k;

    for (i = 0; i < m->n; i++)
        m->queue[i] = is_large(&c[i]) && has_kernel_beside(graph, i)
                          ? route_of(m, graph, i)
                          : queue_at(m, c[i].dev, HCQ_QUEUE_COMPUTE);
    for (i = 0; i < m->n; i++) {
        uint32_t first = first_beside(graph, i);
        for (k = i; k-- > 0 && is_large(&c[i]);) {
            if (c[k].dev != c[i].dev || !is_large(&c[k]) ||
                route_of(m, graph, k) == route_of(m, graph, i))
                continue;
            if (k >= first) {
                m->queue[k] = route_of(m, graph, k);
                m->queue[i] = route_of(m, graph, i);
            }
            break;
        }
    }
}

/* `queue` comes to know of command k of another queue, by a wait. */
static void
wait_for(struct model *m, uint32_t queue, uint32_t k)
{
    if (m->knows[queue] >> k & 1)
        return;
    m->waits[m->n_waits++] =
        (struct graph_wait){m->queue[k], k + GRAPH_BEGIN + 1};
    m->signals[k] = true;
    m->knows[queue] |= m->then[k];
    m->begun[queue] |= m->begun_then[k];
}

/* Waits for the last command of each queue in `wanted`, the latest first. */
static void
wait_for_all(struct model *m, uint32_t queue, set wanted)
{
    uint32_t k;

    for (k = m->n; k-- > 0;) {
        if (!(wanted >> k & 1))
            continue;
        wanted &= ~m->on[m->queue[k]];
        if (m->queue[k] != queue)
            wait_for(m, queue, k);
    }
}

static void
model_command(struct model *m, uint32_t i)
{
    uint32_t queue = m->queue[i];

    wait_for_all(m, queue, m->needs[i]);
    if (!m->begun[queue]) {
        m->begun[queue] = m->begin_signals = true;
        m->waits[m->n_waits++] = (struct graph_wait){0, GRAPH_BEGIN};
    }
    m->on[queue] |= 1ull << i;
    m->knows[queue] |= 1ull << i;
    m->then[i] = m->knows[queue];
    m->begun_then[i] = true;
}

static void
make_model(const struct hcq_graph *graph, struct model *m)
{
    const struct graph_command *c = graph->commands;
    bool known[N_MAX];
    uint32_t i, k;

    memset(m, 0, sizeof(*m));
    m->n = (uint32_t)graph->n_commands;
    m->n_queues = graph->n_queues;
    for (i = 0; i < m->n_queues; i++)
        m->queues[i] = graph->queues[i];
    m->begun[0] = true;
    choose(m, graph);
    for (i = 0; i < m->n; i++) {
        known[i] = is_known(graph, &c[i]);
        for (k = 0; k < i; k++) {
            if ((c[k].dev != c[i].dev && !(known[k] && known[i])) ||
                conflict(graph, &c[k], &c[i]))
                m->needs[i] |= 1ull << k;
        }
    }
}

/* ---- both ---- */

static void
check_waits(const struct hcq_graph *graph, struct model *m)
{
    uint32_t i, n_used = 0, q;

    for (i = 0; i < m->n; i++) {
        const struct graph_command *command = &graph->commands[i];
        assert_int_equal(command->queue, m->queue[i]);
        assert_int_equal(command->first_wait, m->n_waits);
        model_command(m, i);
        assert_int_equal(command->n_waits, m->n_waits - command->first_wait);
    }
    i = m->n_waits;
    wait_for_all(m, 0, (1ull << m->n) - 1);
    assert_int_equal(graph->n_last_waits, m->n_waits - i);
    assert_int_equal(graph->n_waits, m->n_waits);
    for (i = 0; i < m->n_waits; i++) {
        assert_int_equal(graph->waits[i].queue, m->waits[i].queue);
        assert_int_equal(graph->waits[i].moment, m->waits[i].moment);
    }
    for (i = 0; i < m->n; i++)
        assert_int_equal(graph->commands[i].waiters != 0, m->signals[i]);
    assert_int_equal(graph->begin_waiters != 0, m->begin_signals);
    for (q = 0; q < m->n_queues; q++) {
        assert_int_equal(graph->is_used[q], q == 0 || m->on[q] != 0);
        n_used += graph->is_used[q];
    }
    assert_int_equal(graph->n_used, n_used);
}

/* Fixed memory of a device between two places: accessed so? */
static bool
is_accessed(const struct hcq_graph *graph, const struct hcq_device *dev,
            uint64_t at, uint32_t access)
{
    uint32_t i, k;

    for (i = 0; i < graph->n_commands; i++) {
        const struct graph_command *command = &graph->commands[i];
        for (k = 0; k < command->n_args && command->dev == dev; k++) {
            const struct hcq_graph_arg *arg =
                &graph->args[command->first_arg + k];
            if (arg->access & access && arg->slot == HCQ_SLOT_NONE &&
                arg->value <= at && at < arg->value + arg->size_bytes)
                return true;
        }
    }
    return false;
}

static void
check_ranges(const struct hcq_graph *graph, const struct graph_range *ranges,
             size_t n_ranges, uint32_t access)
{
    size_t n = 0, i;
    uint32_t d;

    for (d = 0; d < N_DEVS; d++) {
        const struct hcq_device *dev = devs[d];
        bool inside = false;
        for (i = 0; i <= N_PLACES; i++) {
            uint64_t at = (1u << 20) + places[i % N_PLACES];
            bool now = i < N_PLACES && is_accessed(graph, dev, at, access);
            if (now == inside)
                continue;
            assert_true(n < n_ranges);
            assert_ptr_equal(ranges[n].dev, dev);
            assert_int_equal(now ? ranges[n].begin : ranges[n].end, at);
            n += !now;
            inside = now;
        }
    }
    assert_int_equal(n, n_ranges);
}

static void
test_random_graphs(void **state)
{
    static struct model m;
    uint32_t x = 1, i, k, n_moved = 0, n_waits = 0, n_last = 0;

    (void)state;
    for (i = 0; i < N_ROUNDS; i++) {
        struct hcq_graph *graph = build(&x);

        make_model(graph, &m);
        expect_ok(hcq_graph_order(graph));
        check_waits(graph, &m);
        if (!homes[0][0]) {
            check_ranges(graph, graph->written.list, graph->written.n,
                         HCQ_ACCESS_WRITE);
            check_ranges(graph, graph->read.list, graph->read.n,
                         HCQ_ACCESS_READ);
        }
        for (k = 0; k < m.n; k++)
            n_moved += m.queues[m.queue[k]]->kind == HCQ_QUEUE_COPY;
        n_waits += m.n_waits;
        n_last += graph->n_last_waits;
        hcq_graph_destroy(graph);
    }
    assert_true(n_moved > N_ROUNDS && n_waits > 4 * N_ROUNDS &&
                n_last > N_ROUNDS / 4);
}

/* Memory of a slot is one device's, and written if anything writes it. */
static void
test_users(void **state)
{
    struct hcq_queue *const list[2] = {queues[0][0], queues[1][0]};
    const struct hcq_graph_desc desc = {
        .struct_size = sizeof(desc),
        .name = "users",
        .queues = list,
        .n_queues = 2,
    };
    struct hcq_graph *graph;
    struct hcq_graph_arg a, b;
    uint32_t is_bad;

    (void)state;
    for (is_bad = 0; is_bad < 2; is_bad++) {
        expect_ok(hcq_graph_create(&desc, &graph));
        assert_int_equal(hcq_graph_slot(graph, "a", 64), 0);
        assert_int_equal(hcq_graph_slot(graph, "b", 64), 1);
        assert_int_equal(hcq_graph_slot(graph, "none", 64), 2);
        a = hcq_graph_in_slot(0, 0, 64, 0);
        b = hcq_graph_in_slot(1, 0, 64, 0);
        hcq_graph_copy(graph, devs[1], &b, &a, 64);
        hcq_graph_fill(graph, devs[!is_bad], &a, 0, 1);
        if (is_bad) {
            expect_fails(hcq_graph_order(graph), BELL_E_INVALID,
                         "slot 'a' is used on");
        } else {
            expect_ok(hcq_graph_order(graph));
            assert_true(graph->slots[0].is_written);
            assert_ptr_equal(graph->slots[0].dev, devs[1]);
            assert_true(graph->slots[1].is_written);
            assert_null(graph->slots[2].dev);
        }
        hcq_graph_destroy(graph);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_users),
    };
    const struct CMUnitTest with_homes[] = {
        cmocka_unit_test(test_random_graphs),
    };

    int n_failed = cmocka_run_group_tests(tests, open_devices, close_devices);

    if (has_null_devices())
        n_failed +=
            cmocka_run_group_tests(with_homes, open_with_homes, close_devices);
    return n_failed;
}
