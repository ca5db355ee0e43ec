/* Kernels that copy and fill memory: the chips' copy engines are for images.
 *
 * A thread moves one unit: 16 bytes where both addresses are multiples of four,
 * or one. Arguments: destination; source, or the pattern in 32 bits; how many
 * units. They are brought to r2.z to r3.z, from where the generation has them.
 * Work-groups have 256 threads and are numbered x + 32768 y. The words are the
 * texts in move/, behind which the generation's end comes:
 * tests/golden/qcom_move.c assembles them, and runs them.
 */
#include "hcq/qcom/qcom_move.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

#define GROUP  256u
#define ROW    32768u /* groups */
#define N_ARGS 3u
/* The most bytes of one launch: bytes are counted in 32 bits. */
#define CHUNK_BYTES (1u << 31)

/* clang-format off */
static const uint64_t args_constants[] = {
    0x202ccb0a00000000, 0x202cc00e00000004,
};
static const uint64_t args_memory[] = {
    0xc026000a00c7b000, 0xc026000e01c78000,
};
static const uint64_t copy16[] = {
    0x200cc003000000c0, 0x200cc004000000c1, 0x0000050000000000,
    0x46d00004200f0004, 0x0000050000000000, 0x4210000300040003,
    0x0000050000000000, 0x46d0000320080003, 0x0000050000000000,
    0x4210000000000003, 0x1000050000000000, 0x429300f8000e0000,
    0x0000050000000000, 0x008000000000000f, 0x46d0000120040000,
    0x0000050000000000, 0x42100002000c0001, 0x42100008000a0001,
    0x0000050000000000, 0x4290000300010002, 0x4290000900010008,
    0x0000050000000000, 0x42100003000d0003, 0x42100009000b0009,
    0x0000050000000000, 0xc006000404808001, 0x1000050000000000,
    0xc0c6110004800008,
};
static const uint64_t copy1[] = {
    0x200cc003000000c0, 0x200cc004000000c1, 0x0000050000000000,
    0x46d00004200f0004, 0x0000050000000000, 0x4210000300040003,
    0x0000050000000000, 0x46d0000320080003, 0x0000050000000000,
    0x4210000000000003, 0x1000050000000000, 0x429300f8000e0000,
    0x0000050000000000, 0x008000000000000f, 0x200cc00100000000,
    0x0000050000000000, 0x42100002000c0001, 0x42100008000a0001,
    0x0000050000000000, 0x4290000300010002, 0x4290000900010008,
    0x0000050000000000, 0x42100003000d0003, 0x42100009000b0009,
    0x0000050000000000, 0xc00c000801808001, 0x1000050000000000,
    0xc0cc110001800010,
};
static const uint64_t fill16[] = {
    0x200cc003000000c0, 0x200cc004000000c1, 0x0000050000000000,
    0x46d00004200f0004, 0x0000050000000000, 0x4210000300040003,
    0x0000050000000000, 0x46d0000320080003, 0x0000050000000000,
    0x4210000000000003, 0x1000050000000000, 0x429300f8000e0000,
    0x0000050000000000, 0x008000000000000e, 0x46d0000120040000,
    0x0000050000000000, 0x42100008000a0001, 0x0000050000000000,
    0x4290000900010008, 0x0000050000000000, 0x42100009000b0009,
    0x200cc0040000000c, 0x200cc0050000000c, 0x200cc0060000000c,
    0x200cc0070000000c, 0x0000050000000000, 0xc0c6110004800008,
};
static const uint64_t fill1[] = {
    0x200cc003000000c0, 0x200cc004000000c1, 0x0000050000000000,
    0x46d00004200f0004, 0x0000050000000000, 0x4210000300040003,
    0x0000050000000000, 0x46d0000320080003, 0x0000050000000000,
    0x4210000000000003, 0x1000050000000000, 0x429300f8000e0000,
    0x0000050000000000, 0x0080000000000012, 0x200cc00100000000,
    0x0000050000000000, 0x42100008000a0001, 0x0000050000000000,
    0x4290000900010008, 0x0000050000000000, 0x42100009000b0009,
    0x4390000520030000, 0x200cc0060000000c, 0x0000050000000000,
    0x46d0000520030005, 0x0000050000000000, 0x46f0000500050006,
    0x0000050000000000, 0x200c800800000005, 0x0000050000000000,
    0xc0cc110001800010,
};
/* clang-format on */

#define N_FULL_VEC4 4u

static const struct {
    const uint64_t *words;
    uint32_t n;
} kernels[QCOM_MOVE_COUNT] = {
    [QCOM_MOVE_COPY16] = {copy16, ARRAY_LEN(copy16)},
    [QCOM_MOVE_COPY1] = {copy1, ARRAY_LEN(copy1)},
    [QCOM_MOVE_FILL16] = {fill16, ARRAY_LEN(fill16)},
    [QCOM_MOVE_FILL1] = {fill1, ARRAY_LEN(fill1)},
};

uint32_t
qcom_move_code(const struct qcom_gen *gen, unsigned kind,
               uint64_t out_words[QCOM_MOVE_INSTRS])
{
    uint32_t n = kernels[kind].n, at = ARRAY_LEN(args_memory);

    assert(kind < QCOM_MOVE_COUNT);
    static_assert(ARRAY_LEN(args_memory) == ARRAY_LEN(args_constants), "");
    static_assert(ARRAY_LEN(args_memory) + ARRAY_LEN(fill1) + QCOM_END_INSTRS +
                          4 <=
                      QCOM_MOVE_INSTRS,
                  "");
    memset(out_words, 0, QCOM_MOVE_INSTRS * sizeof(out_words[0]));
    memcpy(out_words, gen->args_in_memory ? args_memory : args_constants,
           sizeof(args_memory));
    memcpy(out_words + at, kernels[kind].words, n * sizeof(out_words[0]));
    memcpy(out_words + at + n, gen->end, gen->n_end * sizeof(out_words[0]));
    return at + n + gen->n_end;
}

bell_status
qcom_move_make(const struct chip_arch *chip, uint64_t code_va,
               struct qcom_program *prog)
{
    prog->base.pub.code_va = code_va;
    prog->base.pub.n_vals = N_ARGS;
    prog->n_instrs = QCOM_MOVE_INSTRS;
    prog->n_full_vec4 = N_FULL_VEC4;
    prog->n_const_vec4 = qcom_gen_of(chip)->args_in_memory ? 0 : 2;
    prog->branch_depth = 1;
    prog->is_wide = true;
    return qcom_launch_make(chip, prog, N_ARGS);
}

/* ---- launches ------------------------------------------------------------ */

static uint64_t
n_chunks(uint64_t n_bytes)
{
    return (n_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

/* One for what is left of 16 bytes. */
uint64_t
qcom_move_dw(const struct qcom_engine *engine, const struct hcq_packet *packet)
{
    uint64_t n = n_chunks(packet->word[2]);

    return ((n ? n : 1) + 1) * engine->moves[0].launch.n_dw;
}

uint64_t
qcom_move_max(const struct hcq_packet *packet)
{
    uint64_t n = n_chunks(packet->word[2]);

    return (n ? n : 1) * CHUNK_BYTES;
}

static void
put_launch(struct qcom_push *push, unsigned kind, uint64_t dst, uint64_t src,
           uint32_t n_units)
{
    uint64_t room[HCQ_EXEC_DW / 2 + N_ARGS] = {0};
    struct hcq_exec *exec = (struct hcq_exec *)(void *)room;
    uint32_t n_groups = n_units / GROUP + (n_units % GROUP != 0);

    assert(kind < QCOM_MOVE_COUNT && n_units > 0);
    exec->head.op = HCQ_OP_EXEC;
    exec->head.n_dw = HCQ_EXEC_DW + 2 * N_ARGS;
    exec->prog = &push->engine->moves[kind].base;
    exec->grid[0] = n_groups < ROW ? n_groups : ROW;
    exec->grid[1] = (n_groups + ROW - 1) / ROW;
    exec->grid[2] = 1;
    exec->local[0] = GROUP;
    exec->local[1] = exec->local[2] = 1;
    exec->args[0] = dst;
    exec->args[1] = src;
    exec->args[2] = n_units;
    qcom_put_exec(push, exec);
}

void
qcom_put_move(struct qcom_push *push, const struct hcq_packet *packet)
{
    bool is_fill = packet->head.op == HCQ_OP_FILL;
    unsigned by_16 = is_fill ? QCOM_MOVE_FILL16 : QCOM_MOVE_COPY16;
    unsigned by_1 = is_fill ? QCOM_MOVE_FILL1 : QCOM_MOVE_COPY1;
    uint64_t dst = packet->word[0], src = packet->word[1];
    uint64_t left = packet->word[2];
    bool is_aligned = (dst | (is_fill ? 0 : src)) % 4 == 0;

    assert(is_fill || packet->head.op == HCQ_OP_COPY);
    while (left) {
        uint32_t n = left < CHUNK_BYTES ? (uint32_t)left : CHUNK_BYTES;
        bool in_units = is_aligned && n >= 16;

        n = in_units ? n & ~15u : n;
        put_launch(push, in_units ? by_16 : by_1, dst, src,
                   in_units ? n / 16 : n);
        dst += n;
        src += is_fill ? 0 : n;
        left -= n;
    }
}
