/* Packing and decoding the CPU's commands. Formats: cpu_internal.h. */
#include "hcq/cpu/cpu_internal.h"

#include <stdio.h>
#include <string.h>

static uint64_t *
begin_packet(struct hcq_cs *cs, enum cpu_op op, uint32_t n_words)
{
    uint64_t *words = (uint64_t *)(void *)hcq_cs_reserve(cs, n_words * 2);

    words[0] = cpu_header(op, n_words);
    return words;
}

static void
emit_wait(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    uint64_t *words = begin_packet(cs, CPU_OP_WAIT, 3);

    words[1] = va;
    words[2] = value;
}

static void
emit_signal(struct hcq_cs *cs, uint64_t va, uint64_t value)
{
    uint64_t *words = begin_packet(cs, CPU_OP_SIGNAL, 3);

    words[1] = va;
    words[2] = value;
}

static void
emit_timestamp(struct hcq_cs *cs, uint64_t va)
{
    begin_packet(cs, CPU_OP_TIMESTAMP, 2)[1] = va;
}

static void
emit_barrier(struct hcq_cs *cs)
{
    begin_packet(cs, CPU_OP_BARRIER, 1);
}

static void
emit_exec(struct hcq_cs *cs, const struct hcq_program *prog,
          const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
          const uint32_t local[3])
{
    uint64_t *words = begin_packet(cs, CPU_OP_EXEC, CPU_EXEC_WORDS + n_args);

    (void)local; /* always 1,1,1 here */
    words[1] = (uint64_t)(uintptr_t)prog;
    words[2] = grid[0];
    words[3] = grid[1];
    words[4] = grid[2];
    if (n_args)
        memcpy(words + CPU_EXEC_WORDS, args, (size_t)n_args * 8);
}

static void
emit_copy(struct hcq_cs *cs, uint64_t dst_va, uint64_t src_va,
          uint64_t size_bytes)
{
    uint64_t *words = begin_packet(cs, CPU_OP_COPY, 4);

    words[1] = dst_va;
    words[2] = src_va;
    words[3] = size_bytes;
}

static void
emit_fill(struct hcq_cs *cs, uint64_t dst_va, uint32_t pattern,
          uint64_t size_bytes)
{
    uint64_t *words = begin_packet(cs, CPU_OP_FILL, 4);

    words[1] = dst_va;
    words[2] = pattern;
    words[3] = size_bytes;
}

static void
emit_write(struct hcq_cs *cs, uint64_t dst_va, uint64_t value, unsigned n_bits)
{
    uint64_t *words =
        begin_packet(cs, n_bits == 32 ? CPU_OP_WRITE32 : CPU_OP_WRITE64, 3);

    words[1] = dst_va;
    words[2] = value;
}

static void
emit_poll(struct hcq_cs *cs, uint64_t va, uint32_t mask, uint32_t value)
{
    uint64_t *words = begin_packet(cs, CPU_OP_POLL, 4);

    words[1] = va;
    words[2] = mask;
    words[3] = value;
}

/* A field of a command: which word holds it and what may be put there. */
struct field_row {
    uint8_t op, field, word;
    uint32_t max_lo; /* UINT32_MAX: 32 bits; 0: all 64 */
    uint8_t align;
};

static const struct field_row field_rows[] = {
    {CPU_OP_WAIT, HCQ_FIELD_ADDR, 1, 0, 8},
    {CPU_OP_WAIT, HCQ_FIELD_VALUE, 2, 0, 1},
    {CPU_OP_SIGNAL, HCQ_FIELD_ADDR, 1, 0, 8},
    {CPU_OP_SIGNAL, HCQ_FIELD_VALUE, 2, 0, 1},
    {CPU_OP_TIMESTAMP, HCQ_FIELD_ADDR, 1, 0, 8},
    {CPU_OP_COPY, HCQ_FIELD_DST, 1, 0, 1},
    {CPU_OP_COPY, HCQ_FIELD_SRC, 2, 0, 1},
    {CPU_OP_COPY, HCQ_FIELD_SIZE, 3, 0, 1},
    {CPU_OP_FILL, HCQ_FIELD_ADDR, 1, 0, 4},
    {CPU_OP_FILL, HCQ_FIELD_VALUE, 2, UINT32_MAX, 1},
    {CPU_OP_FILL, HCQ_FIELD_SIZE, 3, 0, 1},
    {CPU_OP_WRITE32, HCQ_FIELD_ADDR, 1, 0, 4},
    {CPU_OP_WRITE32, HCQ_FIELD_VALUE, 2, UINT32_MAX, 1},
    {CPU_OP_WRITE64, HCQ_FIELD_ADDR, 1, 0, 8},
    {CPU_OP_WRITE64, HCQ_FIELD_VALUE, 2, 0, 1},
    {CPU_OP_POLL, HCQ_FIELD_ADDR, 1, 0, 4},
    {CPU_OP_POLL, HCQ_FIELD_MASK, 2, UINT32_MAX, 1},
    {CPU_OP_POLL, HCQ_FIELD_VALUE, 3, UINT32_MAX, 1},
};

static bool
locate_exec(const struct hcq_cs *cs, unsigned field, uint32_t n_words,
            struct hcq_place *place)
{
    const struct hcq_device_info *info = &cs->queue->dev->info;
    uint32_t axis = field - HCQ_FIELD_GRID;

    place->min = 1;
    if (field >= HCQ_FIELD_ARG) {
        uint32_t word = CPU_EXEC_WORDS + (field - HCQ_FIELD_ARG);

        place->dw = cs->last_dw + word * 2;
        place->min = 0;
        return word < n_words;
    }
    if (field >= HCQ_FIELD_LOCAL || field < HCQ_FIELD_GRID)
        return false; /* a local size is always 1 here */
    place->dw = cs->last_dw + (2 + axis) * 2;
    place->max = info->max_grid[axis];
    return true;
}

static bool
locate_field(const struct hcq_cs *cs, unsigned field, struct hcq_place *place)
{
    uint64_t header;
    size_t i;

    memcpy(&header, cs->words + cs->last_dw, sizeof(header));
    place->n_dw = 2;
    place->min = 0;
    place->max = UINT64_MAX;
    place->align = 1;
    if (cpu_header_op(header) == CPU_OP_EXEC)
        return locate_exec(cs, field, cpu_header_words(header), place);
    for (i = 0; i < sizeof(field_rows) / sizeof(field_rows[0]); i++) {
        const struct field_row *row = &field_rows[i];

        if (row->op != cpu_header_op(header) || row->field != field)
            continue;
        place->dw = cs->last_dw + row->word * 2u;
        if (row->max_lo)
            place->max = row->max_lo;
        place->align = row->align;
        return true;
    }
    return false;
}

static const char *const op_names[CPU_OP_COUNT] = {
    [CPU_OP_WAIT] = "wait",           [CPU_OP_SIGNAL] = "signal",
    [CPU_OP_TIMESTAMP] = "timestamp", [CPU_OP_BARRIER] = "barrier",
    [CPU_OP_EXEC] = "exec",           [CPU_OP_COPY] = "copy",
    [CPU_OP_FILL] = "fill",           [CPU_OP_WRITE32] = "write32",
    [CPU_OP_WRITE64] = "write64",     [CPU_OP_POLL] = "poll",
    [CPU_OP_CALL] = "call",
};

const char *
cpu_op_name(unsigned op)
{
    return op < CPU_OP_COUNT && op_names[op] ? op_names[op] : "?";
}

static void
decode(const uint32_t *dwords, uint32_t n_dw, uint32_t *pos, char *text,
       size_t size_bytes)
{
    const uint64_t *words = (const uint64_t *)(const void *)(dwords + *pos);
    uint32_t n_left = (n_dw - *pos) / 2, n_words, i;
    unsigned op;
    size_t used;

    if (n_left == 0) {
        snprintf(text, size_bytes, "half a word");
        *pos = n_dw;
        return;
    }
    op = cpu_header_op(words[0]);
    n_words = cpu_header_words(words[0]);
    if (op == 0 || op >= CPU_OP_COUNT || n_words == 0 || n_words > n_left) {
        snprintf(text, size_bytes, "bad header 0x%llx",
                 (unsigned long long)words[0]);
        *pos = n_dw;
        return;
    }
    *pos += n_words * 2;
    used = (size_t)snprintf(text, size_bytes, "%s", op_names[op]);
    i = 1;
    if (op == CPU_OP_EXEC && n_words >= CPU_EXEC_WORDS) {
        const struct hcq_program *prog =
            (const struct hcq_program *)(uintptr_t)words[1];

        used += (size_t)snprintf(
            text + used, used < size_bytes ? size_bytes - used : 0,
            " '%s' grid %llux%llux%llu args", prog->name,
            (unsigned long long)words[2], (unsigned long long)words[3],
            (unsigned long long)words[4]);
        i = CPU_EXEC_WORDS;
    }
    for (; i < n_words && used < size_bytes; i++)
        used += (size_t)snprintf(text + used, size_bytes - used, " 0x%llx",
                                 (unsigned long long)words[i]);
}

const struct hcq_cs_ops cpu_cs_ops = {
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
    .decode = decode,
};
