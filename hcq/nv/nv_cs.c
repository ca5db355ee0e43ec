/* Packets of a command stream: emitters, patchable fields, text. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/nv/nv_command.h"

/* A signal's timestamp record begins here in its memory: 16 bytes, of which
 * the first 8 are written along with the time. */
#define TIMESTAMP_RECORD 16

#define EXEC_GRID_DW  ((uint32_t)(offsetof(struct nv_exec, grid) / 4))
#define EXEC_LOCAL_DW ((uint32_t)(offsetof(struct nv_exec, local) / 4))

/* Sizes of 2^48 bytes and more are no buffer's. */
#define SIZE_MAX_BYTES ((1ull << 48) - 1)

/* ---- emitters --------------------------------------------------------------- */

/* Adds up what a fresh stream takes in the ring, and refuses too much. */
static void
count_fresh(struct hcq_cs *cs, const struct nv_head *head)
{
    struct nv_queue *queue = nv_queue_of(cs->queue);
    struct nv_queue_priv *priv = nv_priv_of(queue);
    uint64_t bytes;

    if (cs->n_dw == head->n_dw) { /* the first */
        priv->fresh_dw = NV_SETUP_DW + NV_FINISH_DW;
        priv->fresh_units = 0;
    }
    priv->fresh_dw += head->method_dw;
    priv->fresh_units += head->n_units;
    bytes = align_up(priv->fresh_dw * 4ull, NV_UNIT_BYTES) +
            (uint64_t)priv->fresh_units * NV_UNIT_BYTES;
    if (__builtin_expect(bytes <= queue->push_ring.size_bytes, 1))
        return;
    hcq_cs_fail(cs, bell_fail(BELL_E_INVALID,
                              "%s: the stream is larger than the ring, which "
                              "takes %llu bytes",
                              cs->queue->name,
                              (unsigned long long)queue->push_ring.size_bytes));
}

static void
finish_packet(struct hcq_cs *cs, struct nv_packet *packet)
{
    if (cs->status != BELL_OK)
        return;
    nv_packet_measure(&nv_priv_of(nv_queue_of(cs->queue))->engine, packet);
    if (!cs->stream)
        count_fresh(cs, &packet->head);
}

/* A packet of n_words 64-bit words. */
static void
emit(struct hcq_cs *cs, enum nv_op op, uint32_t n_words, uint64_t a, uint64_t b,
     uint64_t c)
{
    const uint64_t words[3] = {a, b, c};
    uint32_t n_dw = NV_HEAD_DW + n_words * 2;
    struct nv_packet *packet = (void *)hcq_cs_reserve(cs, n_dw);

    packet->head = (struct nv_head){.op = (uint8_t)op, .n_dw = (uint16_t)n_dw};
    memcpy(packet->word, words, n_words * sizeof(words[0]));
    finish_packet(cs, packet);
}

/* Whether the card can address [va, va + size_bytes). */
static bool
reaches(struct hcq_cs *cs, const char *what, uint64_t va, uint64_t size_bytes,
        uint64_t va_end)
{
    if (__builtin_expect(va < va_end && size_bytes <= va_end - va, 1))
        return true;
    hcq_cs_fail(
        cs, bell_fail(BELL_E_INVALID,
                      "%s: %s of %llu bytes at 0x%llx: %s addresses less "
                      "than 0x%llx",
                      cs->stream ? cs->stream->name : cs->queue->name, what,
                      (unsigned long long)size_bytes, (unsigned long long)va,
                      cs->queue->dev->info.name, (unsigned long long)va_end));
    return false;
}

static const struct nv_engine *
engine_of(const struct hcq_cs *cs)
{
    return &nv_priv_of(nv_queue_of(cs->queue))->engine;
}

static void
emit_wait(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    if (reaches(cs, "wait", va, 8, engine_of(cs)->host_va_end))
        emit(cs, NV_OP_WAIT, 2, va, value, 0);
}

static void
emit_signal(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    if (reaches(cs, "signal", va, 8, engine_of(cs)->host_va_end))
        emit(cs, NV_OP_SIGNAL, 2, va, value, 0);
}

static void
emit_timestamp(struct hcq_cs *cs, uint64_t va)
{
    va += TIMESTAMP_RECORD;
    if (reaches(cs, "timestamp", va, 16, engine_of(cs)->host_va_end))
        emit(cs, NV_OP_TIMESTAMP, 1, va, 0, 0);
}

static void
emit_barrier(struct hcq_cs *cs)
{
    emit(cs, NV_OP_BARRIER, 0, 0, 0, 0);
}

static void
emit_copy(struct hcq_cs *cs, uint64_t dst_va, uint64_t src_va,
          uint64_t size_bytes)
{
    uint64_t end = engine_of(cs)->copy_va_end;

    if (size_bytes == 0 && !cs->stream)
        return;
    if (reaches(cs, "copy to", dst_va, size_bytes, end) &&
        reaches(cs, "copy from", src_va, size_bytes, end))
        emit(cs, NV_OP_COPY, 3, dst_va, src_va, size_bytes);
}

static void
emit_fill(struct hcq_cs *cs, uint64_t dst_va, uint32_t pattern,
          uint64_t size_bytes)
{
    if (size_bytes == 0 && !cs->stream)
        return;
    if (reaches(cs, "fill", dst_va, size_bytes, engine_of(cs)->copy_va_end))
        emit(cs, NV_OP_FILL, 3, dst_va, pattern, size_bytes);
}

static void
emit_write(struct hcq_cs *cs, uint64_t dst_va, uint64_t value, unsigned n_bits)
{
    /* The copy engine writes where the host engine does not reach. */
    if (reaches(cs, "write", dst_va, n_bits / 8, engine_of(cs)->copy_va_end))
        emit(cs, n_bits == 32 ? NV_OP_WRITE32 : NV_OP_WRITE64, 2, dst_va, value,
             0);
}

static void
emit_poll(struct hcq_cs *cs, uint64_t va, uint32_t mask, uint32_t value)
{
    if (reaches(cs, "poll", va, 4, engine_of(cs)->host_va_end))
        emit(cs, NV_OP_POLL, 3, va, mask, value);
}

static void
emit_exec(struct hcq_cs *cs, const struct hcq_program *pub,
          const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
          const uint32_t local[3])
{
    const struct nv_program *prog =
        HCQ_CONTAINER(HCQ_CONTAINER(pub, struct hcq_program_base, pub),
                      const struct nv_program, base);
    uint32_t n_dw = NV_EXEC_DW + 2 * n_args, i;
    uint32_t threads = local[0] * local[1] * local[2];
    struct nv_exec *exec;

    if (__builtin_expect(threads > prog->max_threads, 0)) {
        hcq_cs_fail(cs,
                    bell_fail(BELL_E_INVALID,
                              "%s: '%s' with %ux%ux%u = %u threads in a "
                              "block; with %u registers it takes %u",
                              cs->stream ? cs->stream->name : cs->queue->name,
                              pub->name, local[0], local[1], local[2], threads,
                              prog->n_regs, prog->max_threads));
        return;
    }
    exec = (void *)hcq_cs_reserve(cs, n_dw);
    exec->head = (struct nv_head){.op = NV_OP_EXEC, .n_dw = (uint16_t)n_dw};
    exec->prog = prog;
    for (i = 0; i < 3; i++) {
        exec->grid[i] = grid[i];
        exec->local[i] = local[i];
    }
    if (n_args)
        memcpy(exec->args, args, n_args * sizeof(args[0]));
    finish_packet(cs, (struct nv_packet *)(void *)exec);
}

/* ---- fields ------------------------------------------------------------------- */

enum reach {
    REACH_ANY,  /* not an address */
    REACH_HOST, /* what the host engine addresses */
    REACH_COPY,
};

/* A field of a command: which 64-bit word holds it, what it may be. */
struct field_row {
    uint8_t op, field, word, align;
    uint8_t reach; /* enum reach */
    bool is_fixed; /* a new value may take more words */
    uint64_t max;
};

static const struct field_row field_rows[] = {
    {NV_OP_WAIT, HCQ_FIELD_ADDR, 0, 8, REACH_HOST, false, 0},
    {NV_OP_WAIT, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, false, UINT64_MAX},
    {NV_OP_SIGNAL, HCQ_FIELD_ADDR, 0, 8, REACH_HOST, false, 0},
    {NV_OP_SIGNAL, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, false, UINT64_MAX},
    {NV_OP_TIMESTAMP, HCQ_FIELD_ADDR, 0, 16, REACH_HOST, false, 0},
    {NV_OP_COPY, HCQ_FIELD_DST, 0, 1, REACH_COPY, true, 0},
    {NV_OP_COPY, HCQ_FIELD_SRC, 1, 1, REACH_COPY, true, 0},
    {NV_OP_COPY, HCQ_FIELD_SIZE, 2, 1, REACH_ANY, true, SIZE_MAX_BYTES},
    {NV_OP_FILL, HCQ_FIELD_ADDR, 0, 4, REACH_COPY, true, 0},
    {NV_OP_FILL, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, true, UINT32_MAX},
    {NV_OP_FILL, HCQ_FIELD_SIZE, 2, 1, REACH_ANY, true, SIZE_MAX_BYTES},
    {NV_OP_WRITE32, HCQ_FIELD_ADDR, 0, 4, REACH_COPY, true, 0},
    {NV_OP_WRITE32, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, true, UINT32_MAX},
    {NV_OP_WRITE64, HCQ_FIELD_ADDR, 0, 8, REACH_COPY, true, 0},
    {NV_OP_WRITE64, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, true, UINT64_MAX},
    {NV_OP_POLL, HCQ_FIELD_ADDR, 0, 4, REACH_HOST, true, 0},
    {NV_OP_POLL, HCQ_FIELD_MASK, 1, 1, REACH_ANY, true, UINT32_MAX},
    {NV_OP_POLL, HCQ_FIELD_VALUE, 2, 1, REACH_ANY, true, UINT32_MAX},
};

static bool
locate_exec(const struct hcq_cs *cs, unsigned field, struct hcq_place *place)
{
    const struct nv_exec *exec =
        nv_exec_of(nv_packet_at(cs->words, cs->last_dw));
    const struct hcq_device_info *info = &cs->queue->dev->info;
    uint32_t n_args = (exec->head.n_dw - NV_EXEC_DW) / 2u;
    uint32_t i = field - HCQ_FIELD_ARG;

    if (field >= HCQ_FIELD_ARG) {
        place->dw = cs->last_dw + NV_EXEC_DW + i * 2;
        return i < n_args;
    }
    place->n_dw = 1;
    place->min = 1;
    if (field >= HCQ_FIELD_LOCAL) {
        i = field - HCQ_FIELD_LOCAL;
        place->dw = cs->last_dw + EXEC_LOCAL_DW + i;
        place->max = info->max_local[i] < exec->prog->max_threads
                         ? info->max_local[i]
                         : exec->prog->max_threads;
        return exec->prog->base.pub.local[0] == 0;
    }
    if (field < HCQ_FIELD_GRID)
        return false;
    i = field - HCQ_FIELD_GRID;
    place->dw = cs->last_dw + EXEC_GRID_DW + i;
    place->max = info->max_grid[i];
    return true;
}

/* Every field is a word of its packet; the card's words follow by repack. */
static bool
locate_field(const struct hcq_cs *cs, unsigned field, struct hcq_place *place)
{
    struct nv_packet *packet =
        (struct nv_packet *)(void *)(cs->words + cs->last_dw);
    const struct nv_engine *engine = engine_of(cs);
    size_t i;

    place->n_dw = 2;
    place->min = 0;
    place->max = UINT64_MAX;
    place->align = 1;
    place->repack = true;
    if (packet->head.op == NV_OP_EXEC)
        return locate_exec(cs, field, place);
    for (i = 0; i < ARRAY_LEN(field_rows); i++) {
        const struct field_row *row = &field_rows[i];

        if (row->op != packet->head.op || row->field != field)
            continue;
        place->dw = cs->last_dw + NV_HEAD_DW + row->word * 2u;
        place->align = row->align;
        place->max = row->reach == REACH_HOST   ? engine->host_va_end - 1
                     : row->reach == REACH_COPY ? engine->copy_va_end - 1
                                                : row->max;
        if (packet->head.op == NV_OP_TIMESTAMP)
            place->addend += TIMESTAMP_RECORD;
        if (row->is_fixed && !(packet->head.flags & NV_HEAD_FIXED)) {
            packet->head.flags |= NV_HEAD_FIXED;
            nv_packet_measure(engine, packet);
        }
        return true;
    }
    return false;
}

/* ---- text ------------------------------------------------------------------------ */

/* Words of 64 bits that follow the head of each packet but an exec. */
static const uint8_t op_words[NV_OP_COUNT] = {
    [NV_OP_WAIT] = 2,    [NV_OP_SIGNAL] = 2,  [NV_OP_TIMESTAMP] = 1,
    [NV_OP_BARRIER] = 0, [NV_OP_COPY] = 3,    [NV_OP_FILL] = 3,
    [NV_OP_WRITE32] = 2, [NV_OP_WRITE64] = 2, [NV_OP_POLL] = 3,
};

bool
nv_packet_ok(const uint32_t *words, uint32_t n_left_dw)
{
    const struct nv_packet *packet = nv_packet_at(words, 0);

    if (n_left_dw < NV_HEAD_DW || packet->head.op == 0 ||
        packet->head.op >= NV_OP_COUNT || packet->head.n_dw > n_left_dw)
        return false;
    if (packet->head.op == NV_OP_EXEC)
        return packet->head.n_dw >= NV_EXEC_DW;
    return packet->head.n_dw == NV_HEAD_DW + 2u * op_words[packet->head.op];
}

static void
exec_text(const struct nv_exec *exec, const char *program, char *text,
          size_t size_bytes)
{
    snprintf(text, size_bytes, "exec %s %ux%ux%u of %ux%ux%u, %u args", program,
             exec->grid[0], exec->grid[1], exec->grid[2], exec->local[0],
             exec->local[1], exec->local[2],
             (exec->head.n_dw - NV_EXEC_DW) / 2u);
}

void
nv_packet_text(const struct nv_packet *packet, const char *program, char *text,
               size_t size_bytes)
{
    unsigned long long w[3] = {0, 0, 0};
    uint32_t i, n = op_words[packet->head.op];

    for (i = 0; i < n; i++)
        w[i] = packet->word[i];
    switch ((enum nv_op)packet->head.op) {
    case NV_OP_WAIT:
        snprintf(text, size_bytes, "wait for signal 0x%llx >= %llu", w[0],
                 w[1]);
        break;
    case NV_OP_SIGNAL:
        snprintf(text, size_bytes, "signal 0x%llx = %llu", w[0], w[1]);
        break;
    case NV_OP_TIMESTAMP:
        snprintf(text, size_bytes, "timestamp 0x%llx", w[0]);
        break;
    case NV_OP_BARRIER:
        snprintf(text, size_bytes, "barrier");
        break;
    case NV_OP_EXEC:
        exec_text(nv_exec_of(packet), program, text, size_bytes);
        break;
    case NV_OP_COPY:
        snprintf(text, size_bytes, "copy %llu bytes 0x%llx -> 0x%llx", w[2],
                 w[1], w[0]);
        break;
    case NV_OP_FILL:
        snprintf(text, size_bytes, "fill %llu bytes at 0x%llx with 0x%llx",
                 w[2], w[0], w[1]);
        break;
    case NV_OP_WRITE32:
    case NV_OP_WRITE64:
        snprintf(text, size_bytes, "write%u 0x%llx at 0x%llx",
                 packet->head.op == NV_OP_WRITE32 ? 32 : 64, w[1], w[0]);
        break;
    case NV_OP_POLL:
        snprintf(text, size_bytes, "poll 0x%llx & 0x%llx == 0x%llx", w[0], w[1],
                 w[2]);
        break;
    case NV_OP_COUNT:
    default:
        snprintf(text, size_bytes, "?");
        break;
    }
}

static void
decode(const uint32_t *words, uint32_t n_dw, uint32_t *pos, char *text,
       size_t size_bytes)
{
    const struct nv_packet *packet = nv_packet_at(words, *pos);

    if (!nv_packet_ok(words + *pos, n_dw - *pos)) {
        snprintf(text, size_bytes, "bad packet 0x%08x", words[*pos]);
        *pos = n_dw;
        return;
    }
    nv_packet_text(packet,
                   packet->head.op == NV_OP_EXEC
                       ? nv_exec_of(packet)->prog->base.pub.name
                       : "",
                   text, size_bytes);
    *pos += packet->head.n_dw;
}

const struct hcq_cs_ops nv_cs_ops = {
    .wait = emit_wait,
    .signal = emit_signal,
    .timestamp = emit_timestamp,
    .barrier = emit_barrier,
    .exec = emit_exec,
    .copy = emit_copy,
    .fill = emit_fill,
    .write = emit_write,
    .poll = emit_poll,
    .locate = locate_field,
    .repack = nv_stream_repack,
    .decode = decode,
};
