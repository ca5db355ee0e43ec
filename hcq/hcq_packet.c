/* Packets: emission, patchable fields, bound streams, text. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq_packet.h"

#define EXEC_GRID_DW  ((uint32_t)(offsetof(struct hcq_exec, grid) / 4))
#define EXEC_LOCAL_DW ((uint32_t)(offsetof(struct hcq_exec, local) / 4))

/* Sizes of 2^48 bytes and more are no buffer's. */
#define SIZE_MAX_BYTES ((1ull << 48) - 1)

/* Words of 64 bits that follow the head of each packet but an exec. */
static const uint8_t op_words[HCQ_OP_COUNT] = {
    [HCQ_OP_WAIT] = 2,    [HCQ_OP_SIGNAL] = 2,  [HCQ_OP_TIMESTAMP] = 1,
    [HCQ_OP_BARRIER] = 0, [HCQ_OP_COPY] = 3,    [HCQ_OP_FILL] = 3,
    [HCQ_OP_WRITE32] = 2, [HCQ_OP_WRITE64] = 2, [HCQ_OP_POLL] = 3,
};

/* ---- emission --------------------------------------------------------------- */

static void
emit(struct hcq_cs *cs, enum hcq_op op, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t words[3] = {a, b, c};
    uint32_t n_dw = HCQ_HEAD_DW + op_words[op] * 2u;
    struct hcq_packet *packet = (void *)hcq_cs_reserve(cs, n_dw);

    packet->head = (struct hcq_head){.op = (uint8_t)op, .n_dw = (uint16_t)n_dw};
    memcpy(packet->word, words, op_words[op] * sizeof(words[0]));
    if (cs->status == BELL_OK)
        cs->queue->packets->finish(cs, packet);
}

/* Whether the card can address [va, va + size_bytes). */
static bool
reaches(struct hcq_cs *cs, const char *what, uint64_t va, uint64_t size_bytes,
        uint64_t va_end)
{
    if (__builtin_expect(va < va_end && size_bytes <= va_end - va, 1))
        return true;
    hcq_cs_fail(
        cs, bell_fail(BELL_BAD_VALUE,
                      "%s: %s of %llu bytes at 0x%llx: %s addresses less "
                      "than 0x%llx",
                      cs->stream ? cs->stream->name : cs->queue->name, what,
                      (unsigned long long)size_bytes, (unsigned long long)va,
                      cs->queue->dev->info.name, (unsigned long long)va_end));
    return false;
}

static void
emit_wait(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    if (reaches(cs, "wait", va, 8, cs->queue->sync_va_end))
        emit(cs, HCQ_OP_WAIT, va, value, 0);
}

static void
emit_signal(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    if (reaches(cs, "signal", va, 8, cs->queue->sync_va_end))
        emit(cs, HCQ_OP_SIGNAL, va, value, 0);
}

static void
emit_timestamp(struct hcq_cs *cs, uint64_t va)
{
    uint32_t n_words = cs->queue->dev->timestamp_word + 1;

    if (reaches(cs, "timestamp", va, n_words * 8ull, cs->queue->sync_va_end))
        emit(cs, HCQ_OP_TIMESTAMP, va, 0, 0);
}

static void
emit_barrier(struct hcq_cs *cs)
{
    emit(cs, HCQ_OP_BARRIER, 0, 0, 0);
}

static void
emit_copy(struct hcq_cs *cs, uint64_t dst_va, uint64_t src_va,
          uint64_t size_bytes)
{
    uint64_t end = cs->queue->copy_va_end;

    if (size_bytes == 0 && !cs->stream)
        return;
    if (reaches(cs, "copy to", dst_va, size_bytes, end) &&
        reaches(cs, "copy from", src_va, size_bytes, end))
        emit(cs, HCQ_OP_COPY, dst_va, src_va, size_bytes);
}

static void
emit_fill(struct hcq_cs *cs, uint64_t dst_va, uint32_t pattern,
          uint64_t size_bytes)
{
    if (size_bytes == 0 && !cs->stream)
        return;
    if (reaches(cs, "fill", dst_va, size_bytes, cs->queue->copy_va_end))
        emit(cs, HCQ_OP_FILL, dst_va, pattern, size_bytes);
}

static void
emit_write(struct hcq_cs *cs, uint64_t dst_va, uint64_t value, unsigned n_bits)
{
    if (reaches(cs, "write", dst_va, n_bits / 8, cs->queue->copy_va_end))
        emit(cs, n_bits == 32 ? HCQ_OP_WRITE32 : HCQ_OP_WRITE64, dst_va, value,
             0);
}

static void
emit_poll(struct hcq_cs *cs, uint64_t va, uint32_t mask, uint32_t value)
{
    const struct hcq_device_info *info = &cs->queue->dev->info;

    if (mask != UINT32_MAX && !(info->flags & HCQ_DEVICE_POLL_MASKS)) {
        hcq_cs_fail(cs,
                    bell_fail(BELL_E_UNSUPPORTED,
                              "%s: poll of the bits 0x%x: queues of %s "
                              "(%s) compare whole words, mask 0xffffffff",
                              cs->stream ? cs->stream->name : cs->queue->name,
                              mask, info->name, info->arch));
        return;
    }
    if (reaches(cs, "poll", va, 4, cs->queue->sync_va_end))
        emit(cs, HCQ_OP_POLL, va, mask, value);
}

static void
emit_exec(struct hcq_cs *cs, const struct hcq_program *prog,
          const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
          const uint32_t local[3])
{
    uint32_t n_dw = HCQ_EXEC_DW + 2 * n_args, i;
    struct hcq_exec *exec = (void *)hcq_cs_reserve(cs, n_dw);

    exec->head = (struct hcq_head){.op = HCQ_OP_EXEC, .n_dw = (uint16_t)n_dw};
    exec->prog = HCQ_CONTAINER(prog, const struct hcq_program_base, pub);
    for (i = 0; i < 3; i++) {
        exec->grid[i] = grid[i];
        exec->local[i] = local[i];
    }
    if (n_args)
        memcpy(exec->args, args, n_args * sizeof(args[0]));
    if (cs->status == BELL_OK)
        cs->queue->packets->finish(cs, (void *)exec);
}

/* ---- fields ------------------------------------------------------------------- */

enum reach {
    REACH_ANY, /* not an address */
    REACH_SYNC,
    REACH_COPY,
};

/* A field of a command: which 64-bit word holds it, what it may be. */
struct field_row {
    uint8_t op, field, word, align;
    enum reach reach;
    uint64_t max; /* of what is no address */
};

static const struct field_row field_rows[] = {
    {HCQ_OP_WAIT, HCQ_FIELD_ADDR, 0, 8, REACH_SYNC, 0},
    {HCQ_OP_WAIT, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, UINT64_MAX},
    {HCQ_OP_SIGNAL, HCQ_FIELD_ADDR, 0, 8, REACH_SYNC, 0},
    {HCQ_OP_SIGNAL, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, UINT64_MAX},
    {HCQ_OP_TIMESTAMP, HCQ_FIELD_ADDR, 0, 16, REACH_SYNC, 0},
    {HCQ_OP_COPY, HCQ_FIELD_DST, 0, 1, REACH_COPY, 0},
    {HCQ_OP_COPY, HCQ_FIELD_SRC, 1, 1, REACH_COPY, 0},
    {HCQ_OP_COPY, HCQ_FIELD_SIZE, 2, 1, REACH_ANY, SIZE_MAX_BYTES},
    {HCQ_OP_FILL, HCQ_FIELD_ADDR, 0, 4, REACH_COPY, 0},
    {HCQ_OP_FILL, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, UINT32_MAX},
    {HCQ_OP_FILL, HCQ_FIELD_SIZE, 2, 1, REACH_ANY, SIZE_MAX_BYTES},
    {HCQ_OP_WRITE32, HCQ_FIELD_ADDR, 0, 4, REACH_COPY, 0},
    {HCQ_OP_WRITE32, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, UINT32_MAX},
    {HCQ_OP_WRITE64, HCQ_FIELD_ADDR, 0, 8, REACH_COPY, 0},
    {HCQ_OP_WRITE64, HCQ_FIELD_VALUE, 1, 1, REACH_ANY, UINT64_MAX},
    {HCQ_OP_POLL, HCQ_FIELD_ADDR, 0, 4, REACH_SYNC, 0},
    {HCQ_OP_POLL, HCQ_FIELD_MASK, 1, 1, REACH_ANY, UINT32_MAX},
    {HCQ_OP_POLL, HCQ_FIELD_VALUE, 2, 1, REACH_ANY, UINT32_MAX},
};

static bool
locate_exec(const struct hcq_cs *cs, unsigned field, struct hcq_place *place)
{
    const struct hcq_exec *exec =
        hcq_exec_of(hcq_packet_at(cs->words, cs->last_dw));
    const struct hcq_device_info *info = &cs->queue->dev->info;
    uint32_t i = field - HCQ_FIELD_ARG;

    if (field >= HCQ_FIELD_ARG) {
        place->dw = cs->last_dw + HCQ_EXEC_DW + i * 2;
        return i < hcq_exec_args(exec);
    }
    place->n_dw = 1;
    place->min = 1;
    if (field >= HCQ_FIELD_LOCAL) {
        i = field - HCQ_FIELD_LOCAL;
        place->dw = cs->last_dw + EXEC_LOCAL_DW + i;
        place->max = info->max_local[i] < exec->prog->max_local_total
                         ? info->max_local[i]
                         : exec->prog->max_local_total;
        return exec->prog->pub.local[0] == 0;
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
    struct hcq_packet *packet =
        (struct hcq_packet *)(void *)(cs->words + cs->last_dw);
    const struct hcq_queue *queue = cs->queue;
    size_t i;

    place->n_dw = 2;
    place->min = 0;
    place->max = UINT64_MAX;
    place->align = 1;
    place->repack = true;
    if (packet->head.op == HCQ_OP_EXEC)
        return locate_exec(cs, field, place);
    for (i = 0; i < ARRAY_LEN(field_rows); i++) {
        const struct field_row *row = &field_rows[i];

        if (row->op != packet->head.op || row->field != field)
            continue;
        if (field == HCQ_FIELD_MASK &&
            !(queue->dev->info.flags & HCQ_DEVICE_POLL_MASKS))
            return false;
        place->dw = cs->last_dw + HCQ_HEAD_DW + row->word * 2u;
        place->align = row->align;
        place->max = row->reach == REACH_SYNC   ? queue->sync_va_end - 1
                     : row->reach == REACH_COPY ? queue->copy_va_end - 1
                                                : row->max;
        if (row->op == HCQ_OP_TIMESTAMP) /* it lies behind the value */
            place->max -= queue->dev->timestamp_word * 8;
        queue->packets->fix(cs, packet, field, place);
        return true;
    }
    return false;
}

/* ---- bound streams ------------------------------------------------------------- */

static void
repack_place(struct hcq_stream *stream, const struct hcq_place *place)
{
    stream->queue->packets->repack(stream, place);
}

bell_status
hcq_exec_refuse(const struct hcq_stream *stream)
{
    const struct hcq_packet *packet;
    const struct hcq_exec *exec;
    uint32_t pos = 0;

    do {
        packet = hcq_packet_at(stream->cs.words, pos);
        pos += packet->head.n_dw;
    } while (!(packet->head.flags & HCQ_HEAD_TOO_LARGE));
    exec = hcq_exec_of(packet);
    return bell_fail(BELL_BAD_VALUE,
                     "stream '%s': '%s' was patched to %ux%ux%u work-items in "
                     "a group; it takes %u",
                     stream->name, exec->prog->pub.name, exec->local[0],
                     exec->local[1], exec->local[2],
                     exec->prog->max_local_total);
}

/* ---- text ------------------------------------------------------------------------ */

bool
hcq_packet_ok(const uint32_t *words, uint32_t n_left_dw)
{
    const struct hcq_packet *packet = hcq_packet_at(words, 0);

    if (n_left_dw < HCQ_HEAD_DW || packet->head.op == 0 ||
        packet->head.op >= HCQ_OP_COUNT || packet->head.n_dw > n_left_dw)
        return false;
    if (packet->head.op == HCQ_OP_EXEC)
        return packet->head.n_dw >= HCQ_EXEC_DW;
    return packet->head.n_dw == HCQ_HEAD_DW + 2u * op_words[packet->head.op];
}

static void
exec_text(const struct hcq_exec *exec, const char *program, char *text,
          size_t size_bytes)
{
    snprintf(text, size_bytes, "exec %s %ux%ux%u of %ux%ux%u, %u args", program,
             exec->grid[0], exec->grid[1], exec->grid[2], exec->local[0],
             exec->local[1], exec->local[2], hcq_exec_args(exec));
}

void
hcq_packet_text(const struct hcq_packet *packet, const char *program,
                char *text, size_t size_bytes)
{
    unsigned long long w[3] = {0, 0, 0};
    uint32_t i, n = op_words[packet->head.op];

    for (i = 0; i < n; i++)
        w[i] = packet->word[i];
    switch ((enum hcq_op)packet->head.op) {
    case HCQ_OP_WAIT:
        snprintf(text, size_bytes, "wait for signal 0x%llx >= %llu", w[0],
                 w[1]);
        break;
    case HCQ_OP_SIGNAL:
        snprintf(text, size_bytes, "signal 0x%llx = %llu", w[0], w[1]);
        break;
    case HCQ_OP_TIMESTAMP:
        snprintf(text, size_bytes, "timestamp 0x%llx", w[0]);
        break;
    case HCQ_OP_BARRIER:
        snprintf(text, size_bytes, "barrier");
        break;
    case HCQ_OP_EXEC:
        exec_text(hcq_exec_of(packet), program, text, size_bytes);
        break;
    case HCQ_OP_COPY:
        snprintf(text, size_bytes, "copy %llu bytes 0x%llx -> 0x%llx", w[2],
                 w[1], w[0]);
        break;
    case HCQ_OP_FILL:
        snprintf(text, size_bytes, "fill %llu bytes at 0x%llx with 0x%llx",
                 w[2], w[0], w[1]);
        break;
    case HCQ_OP_WRITE32:
    case HCQ_OP_WRITE64:
        snprintf(text, size_bytes, "write%u 0x%llx at 0x%llx",
                 packet->head.op == HCQ_OP_WRITE32 ? 32 : 64, w[1], w[0]);
        break;
    case HCQ_OP_POLL:
        snprintf(text, size_bytes, "poll 0x%llx & 0x%llx == 0x%llx", w[0], w[1],
                 w[2]);
        break;
    case HCQ_OP_COUNT:
    default:
        snprintf(text, size_bytes, "?");
        break;
    }
}

static void
decode_packet(const uint32_t *words, uint32_t n_dw, uint32_t *pos, char *text,
              size_t size_bytes)
{
    const struct hcq_packet *packet = hcq_packet_at(words, *pos);

    if (!hcq_packet_ok(words + *pos, n_dw - *pos)) {
        snprintf(text, size_bytes, "bad packet 0x%08x", words[*pos]);
        *pos = n_dw;
        return;
    }
    hcq_packet_text(packet,
                    packet->head.op == HCQ_OP_EXEC
                        ? hcq_exec_of(packet)->prog->pub.name
                        : "",
                    text, size_bytes);
    *pos += packet->head.n_dw;
}

const struct hcq_cs_ops hcq_packet_cs_ops = {
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
    .repack = repack_place,
    .decode = decode_packet,
};
