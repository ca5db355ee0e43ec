/* Packets: patchable fields, bound streams, text. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq_packet.h"

#define EXEC_GRID_DW  ((uint32_t)(offsetof(struct hcq_exec, grid) / 4))
#define EXEC_LOCAL_DW ((uint32_t)(offsetof(struct hcq_exec, local) / 4))

/* No buffer has 2^48 bytes or more. */
#define SIZE_MAX_BYTES ((1ull << 48) - 1)

/* Words of 64 bits that follow the head of each packet but an exec. */
static const uint8_t op_words[HCQ_OP_COUNT] = {
    [HCQ_OP_WAIT] = 2,    [HCQ_OP_SIGNAL] = 2,  [HCQ_OP_TIMESTAMP] = 1,
    [HCQ_OP_BARRIER] = 0, [HCQ_OP_COPY] = 3,    [HCQ_OP_FILL] = 3,
    [HCQ_OP_WRITE32] = 2, [HCQ_OP_WRITE64] = 2, [HCQ_OP_POLL] = 3,
    [HCQ_OP_CALL] = 2,    [HCQ_OP_WORDS] = 1, /* at least */
};

static const char *const op_names[HCQ_OP_COUNT] = {
    [HCQ_OP_WAIT] = "wait",           [HCQ_OP_SIGNAL] = "signal",
    [HCQ_OP_TIMESTAMP] = "timestamp", [HCQ_OP_BARRIER] = "barrier",
    [HCQ_OP_EXEC] = "exec",           [HCQ_OP_COPY] = "copy",
    [HCQ_OP_FILL] = "fill",           [HCQ_OP_WRITE32] = "write32",
    [HCQ_OP_WRITE64] = "write64",     [HCQ_OP_POLL] = "poll",
    [HCQ_OP_CALL] = "call",           [HCQ_OP_WORDS] = "words",
};

/* ---- fields -------------------------------------------------------------- */

enum reach {
    REACH_ANY, /* not an address */
    REACH_SYNC,
    REACH_COPY,
};

/* A field of a command: which 64-bit word holds it, what it may be. */
struct field_row {
    uint8_t op, field, word, align;
    enum reach reach;
    uint64_t max; /* of fields that are not an address */
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

bool
hcq_packet_locate(const struct hcq_cs *cs, unsigned field,
                  struct hcq_place *place)
{
    struct hcq_packet *packet =
        (struct hcq_packet *)(void *)(cs->words + cs->last_dw);
    const struct hcq_queue *queue = cs->queue;
    size_t i;

    assert(cs->has_last && cs->last_dw < cs->n_dw);
    place->n_dw = 2;
    place->min = 0;
    place->max = UINT64_MAX;
    place->align = 1;
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
        if (queue->dev->ops->packet_fix)
            queue->dev->ops->packet_fix(cs, packet, field, place);
        return true;
    }
    return false;
}

/* ---- bound streams ------------------------------------------------------- */

struct hcq_extent
hcq_stream_extent(struct hcq_stream *stream, uint32_t *out_n_packets)
{
    struct hcq_extent sum = {0}, extent;
    struct hcq_packet *packet;
    uint32_t pos = 0, n = 0;

    while (pos < stream->cs.n_dw) {
        packet = (void *)(stream->cs.words + pos);
        assert(hcq_packet_ok(packet, stream->cs.n_dw - pos));
        extent = hcq_packet_measure(&stream->cs, packet);
        sum.n_dw += extent.n_dw;
        sum.n_units += extent.n_units;
        sum.n_slots += extent.n_slots;
        pos += packet->head.n_dw;
        n++;
    }
    *out_n_packets = n;
    return sum;
}

bell_status
hcq_exec_refuse(const struct hcq_stream *stream)
{
    const struct hcq_packet *packet;
    const struct hcq_exec *exec;
    uint32_t pos = 0;

    assert(stream->form && stream->form->n_too_large > 0);
    do {
        assert(pos < stream->cs.n_dw);
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

/* ---- text ---------------------------------------------------------------- */

const char *
hcq_op_name(unsigned op)
{
    return op < HCQ_OP_COUNT && op_names[op] ? op_names[op] : "?";
}

bool
hcq_packet_ok(const struct hcq_packet *packet, uint64_t n_left_dw)
{
    if (n_left_dw < HCQ_HEAD_DW || packet->head.op == 0 ||
        packet->head.op >= HCQ_OP_COUNT || packet->head.n_dw > n_left_dw)
        return false;
    if (packet->head.op == HCQ_OP_EXEC)
        return packet->head.n_dw >= HCQ_EXEC_DW && packet->head.n_dw % 2 == 0;
    if (packet->head.op == HCQ_OP_WORDS)
        return packet->head.n_dw >= HCQ_HEAD_DW + 2 &&
               packet->word[0] <= HCQ_WORDS_MAX &&
               packet->head.n_dw == hcq_words_dw((uint32_t)packet->word[0]);
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

    assert(packet->head.op < HCQ_OP_COUNT);
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
        snprintf(text, size_bytes, "%s 0x%llx at 0x%llx",
                 hcq_op_name(packet->head.op), w[1], w[0]);
        break;
    case HCQ_OP_POLL:
        snprintf(text, size_bytes, "poll 0x%llx & 0x%llx == 0x%llx", w[0], w[1],
                 w[2]);
        break;
    case HCQ_OP_WORDS:
        snprintf(text, size_bytes, "%llu words of the card's own", w[0]);
        break;
    case HCQ_OP_BARRIER:
    case HCQ_OP_CALL:
    case HCQ_OP_COUNT:
    default:
        snprintf(text, size_bytes, "%s", hcq_op_name(packet->head.op));
        break;
    }
}
