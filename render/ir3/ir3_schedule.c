/* The order of instructions between labels, branches and barriers: what others
 * wait for comes early, and what need not wait stands where cycles would pass
 * with nothing done.
 *
 * Registers are given already, so an order needs no more of them; what is in
 * its way are values that share one. A list schedule: of those whose sources
 * are there, the one that most cycles depend on goes next. Only time is at
 * stake: ir3_finish.c looks at the order as it is, and adds what must be waited
 * for.
 *
 * src: docs/hardware/adreno-code.md, "Timing"; guess: what the SFU and memory
 * take
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>
#include <string.h>

#define SFU_CYCLES    12
#define LOCAL_CYCLES  24
#define GLOBAL_CYCLES 120
#define READ_CYCLES   8 /* until a source that is read late was read */

enum space {
    SPACE_GLOBAL,
    SPACE_LOCAL,
    SPACE_PRIVATE,
    SPACE_COUNT
};
/* Spaces of memory are places behind those of registers. */
#define N_PLACES (IR3_PLACES + SPACE_COUNT)
#define NONE     UINT32_MAX

/* `to` begins so many cycles behind. */
struct edge {
    uint32_t to, next;
    int32_t cycles;
};

struct node {
    uint32_t edges; /* first of the list, or NONE */
    uint32_t n_before;
    int32_t height; /* cycles from its beginning to the stretch's end */
    int32_t at;     /* the first cycle that it may begin in */
};

struct reader {
    uint32_t node, next;
};

/* A binary heap of nodes. */
struct heap {
    uint32_t *list, n;
    bool by_time; /* the earliest first; else what most depends on */
};

struct schedule {
    struct ir3_emit *e;
    int32_t alu, other; /* cycles: see ir3_finish.c */
    struct node *nodes; /* by place in the stretch */
    struct edge *edges;
    uint32_t n_edges, cap_edges;
    struct reader *readers;
    uint32_t n_readers, cap_readers;
    uint32_t writer[N_PLACES]; /* the last one, or NONE */
    uint32_t reads[N_PLACES];  /* readers since then, or NONE */
    struct heap ready, waiting;
    struct ir3_insn *sorted; /* the stretch, in its new order */
};

/* Instructions that may be moved: they do nothing but with registers and
 * memory. */
static bool
can_move(const struct ir3_insn *in)
{
    return ir3_is_alu(in->op) || ir3_is_sfu(in->op) || ir3_is_load(in->op) ||
           ir3_is_store(in->op);
}

static enum space
space_of(enum ir3_op op)
{
    assert(ir3_is_load(op) || ir3_is_store(op));
    return op == IR3_LDG || op == IR3_STG   ? SPACE_GLOBAL
           : op == IR3_LDL || op == IR3_STL ? SPACE_LOCAL
                                            : SPACE_PRIVATE;
}

/* ---- what comes before what ---- */

static void
add_edge(struct schedule *s, uint32_t from, uint32_t to, int32_t cycles)
{
    struct edge *edges, *first;

    if (from == NONE || from == to)
        return;
    first =
        s->nodes[from].edges == NONE ? NULL : &s->edges[s->nodes[from].edges];
    if (first && first->to == to) { /* another register of the same value */
        first->cycles = first->cycles > cycles ? first->cycles : cycles;
        return;
    }
    edges = ir3_grow(s->e, s->edges, s->n_edges, &s->cap_edges, sizeof(*edges));
    if (!edges)
        return;
    s->edges = edges;
    edges[s->n_edges] = (struct edge){to, s->nodes[from].edges, cycles};
    s->nodes[from].edges = s->n_edges++;
    s->nodes[to].n_before++;
}

static void
add_reader(struct schedule *s, uint32_t place, uint32_t node)
{
    struct reader *readers = ir3_grow(s->e, s->readers, s->n_readers,
                                      &s->cap_readers, sizeof(*readers));

    assert(place < N_PLACES);
    if (!readers)
        return;
    s->readers = readers;
    readers[s->n_readers] = (struct reader){node, s->reads[place]};
    s->reads[place] = s->n_readers++;
}

/* Cycles from the one instruction to another that reads its result. */
static int32_t
result_cycles(const struct schedule *s, const struct ir3_insn *from,
              const struct ir3_insn *to)
{
    if (ir3_is_sfu(from->op))
        return SFU_CYCLES;
    if (ir3_is_load(from->op))
        return from->op == IR3_LDG || from->op == IR3_LDC ? GLOBAL_CYCLES
                                                          : LOCAL_CYCLES;
    if (!ir3_is_alu(to->op))
        return s->other + 1;
    return s->alu + 1;
}

/* Cycles until a register that an instruction reads may be overwritten. */
static int32_t
read_cycles(const struct ir3_insn *from)
{
    return ir3_is_alu(from->op) ? 1 : READ_CYCLES;
}

static void
note_reads(struct schedule *s, const struct ir3_insn *insns, uint32_t number,
           struct ir3_span span)
{
    uint32_t i, from;

    assert(span.at + span.n <= IR3_PLACES);
    for (i = span.at; i < span.at + span.n; i++) {
        from = s->writer[i];
        if (from != NONE)
            add_edge(s, from, number,
                     result_cycles(s, &insns[from], &insns[number]));
        add_reader(s, i, number);
    }
}

static void
note_writes(struct schedule *s, const struct ir3_insn *insns, uint32_t number,
            struct ir3_span span)
{
    uint32_t i, k, from;

    assert(span.at + span.n <= IR3_PLACES);
    for (i = span.at; i < span.at + span.n; i++) {
        from = s->writer[i];
        if (from != NONE)
            add_edge(s, from, number,
                     ir3_is_alu(insns[from].op)
                         ? 1
                         : result_cycles(s, &insns[from], &insns[number]));
        for (k = s->reads[i]; k != NONE; k = s->readers[k].next)
            add_edge(s, s->readers[k].node, number,
                     read_cycles(&insns[s->readers[k].node]));
        s->writer[i] = number;
        s->reads[i] = NONE;
    }
}

/* Loads of a space may change places, stores not. */
static void
note_memory(struct schedule *s, uint32_t number, enum ir3_op op)
{
    uint32_t place = IR3_PLACES + space_of(op), k;

    if (op == IR3_LDC) /* nothing stores there */
        return;
    assert(s->writer[place] == NONE || s->writer[place] < number);
    add_edge(s, s->writer[place], number, 1);
    if (ir3_is_load(op)) {
        add_reader(s, place, number);
        return;
    }
    for (k = s->reads[place]; k != NONE; k = s->readers[k].next)
        add_edge(s, s->readers[k].node, number, 1);
    s->writer[place] = number;
    s->reads[place] = NONE;
}

static void
find_edges(struct schedule *s, const struct ir3_insn *insns, uint32_t n)
{
    uint32_t i, k;

    s->n_edges = s->n_readers = 0;
    memset(s->writer, 0xff, sizeof(s->writer));
    memset(s->reads, 0xff, sizeof(s->reads));
    for (i = 0; i < n && !s->e->failed; i++) {
        const struct ir3_insn *in = &insns[i];
        s->nodes[i] = (struct node){.edges = NONE};
        for (k = 0; k < 3; k++)
            note_reads(s, insns, i,
                       ir3_span_of(s->e, in->src[k], ir3_source_width(in, k)));
        if (ir3_is_load(in->op) || ir3_is_store(in->op))
            note_memory(s, i, in->op);
        note_writes(
            s, insns, i,
            ir3_span_of(s->e, in->dst, ir3_is_load(in->op) ? in->n : 1));
    }
}

/* Edges go to later ones. */
static void
find_heights(struct schedule *s, uint32_t n)
{
    uint32_t i, k;

    for (i = n; i-- > 0;) {
        struct node *node = &s->nodes[i];
        node->height = 1;
        for (k = node->edges; k != NONE; k = s->edges[k].next) {
            const struct edge *edge = &s->edges[k];
            int32_t height = s->nodes[edge->to].height + edge->cycles;
            assert(edge->to > i);
            if (height > node->height)
                node->height = height;
        }
    }
}

/* ---- the order ---- */

static bool
goes_before(const struct schedule *s, const struct heap *heap, uint32_t a,
            uint32_t b)
{
    const struct node *x = &s->nodes[a], *y = &s->nodes[b];

    if (heap->by_time && x->at != y->at)
        return x->at < y->at;
    if (!heap->by_time && x->height != y->height)
        return x->height > y->height;
    return a < b;
}

static void
push(const struct schedule *s, struct heap *heap, uint32_t number)
{
    uint32_t at = heap->n++;

    while (at && goes_before(s, heap, number, heap->list[(at - 1) / 2])) {
        heap->list[at] = heap->list[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->list[at] = number;
}

static uint32_t
pop(const struct schedule *s, struct heap *heap)
{
    uint32_t first = heap->list[0], last = heap->list[--heap->n], at = 0, next;

    while ((next = 2 * at + 1) < heap->n) {
        if (next + 1 < heap->n &&
            goes_before(s, heap, heap->list[next + 1], heap->list[next]))
            next++;
        if (!goes_before(s, heap, heap->list[next], last))
            break;
        heap->list[at] = heap->list[next];
        at = next;
    }
    heap->list[at] = last;
    return first;
}

static void
sort(struct schedule *s, struct ir3_insn *insns, uint32_t n)
{
    uint32_t i, k, number;
    int32_t now = 0;

    s->ready = (struct heap){s->ready.list, 0, false};
    s->waiting = (struct heap){s->waiting.list, 0, true};
    for (i = 0; i < n; i++) {
        if (s->nodes[i].n_before == 0)
            push(s, &s->ready, i);
    }
    for (i = 0; i < n; i++) {
        assert(s->ready.n || s->waiting.n);
        if (!s->ready.n && now < s->nodes[s->waiting.list[0]].at)
            now = s->nodes[s->waiting.list[0]].at;
        while (s->waiting.n && s->nodes[s->waiting.list[0]].at <= now)
            push(s, &s->ready, pop(s, &s->waiting));
        number = pop(s, &s->ready);
        s->sorted[i] = insns[number];
        for (k = s->nodes[number].edges; k != NONE; k = s->edges[k].next) {
            struct node *to = &s->nodes[s->edges[k].to];
            assert(to->n_before > 0);
            if (to->at < now + s->edges[k].cycles)
                to->at = now + s->edges[k].cycles;
            if (--to->n_before == 0)
                push(s, &s->waiting, s->edges[k].to);
        }
        now++;
    }
    assert(!s->ready.n && !s->waiting.n);
    memcpy(insns, s->sorted, n * sizeof(*insns));
}

bell_status
ir3_schedule(struct ir3_emit *e)
{
    const struct ir3_latency *latency = ir3_latency_of(e->gen);
    struct schedule s = {.e = e, .alu = latency->alu, .other = latency->other};
    uint32_t i, n, room = e->n_insns + 1;

    s.nodes = arena_alloc(&e->arena, room * sizeof(*s.nodes));
    s.ready.list = arena_alloc(&e->arena, room * sizeof(uint32_t));
    s.waiting.list = arena_alloc(&e->arena, room * sizeof(uint32_t));
    s.sorted = arena_alloc(&e->arena, room * sizeof(*s.sorted));
    e->failed |= !s.nodes || !s.ready.list || !s.waiting.list || !s.sorted;
    for (i = 0; i < e->n_insns && !e->failed; i += n + 1) {
        for (n = 0; i + n < e->n_insns && can_move(&e->insns[i + n]); n++)
            continue;
        if (n < 2)
            continue;
        find_edges(&s, &e->insns[i], n);
        if (e->failed)
            break;
        find_heights(&s, n);
        sort(&s, &e->insns[i], n);
    }
    if (e->failed)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
    return BELL_OK;
}
