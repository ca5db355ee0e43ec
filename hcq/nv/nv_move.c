/* The kernel that copies and fills the card's own memory: machine code for the
 * generations, and its launches.
 *
 * A compute queue's copy engine moves 92 GB/s within an H100, the fastest one
 * of copy queues 550; threads 1,460, as much as the memory takes (observed:
 * H100, 2026-11-22; so was from where on the kernel is faster). The words are
 * those of move/move.ptx (it explains arguments), assembled by ptxas:
 * tests/golden/test_nv_move.py compares them, and prints them anew.
 */
#include <assert.h>

#include "base/bits.h"
#include "hcq/nv/nv_command.h"
#include "hcq/nv/nv_cubin.h"
#include "hcq/nv/nv_qmd.h"

#define PIECE_BYTES 16u
#define GROUP       256u /* threads */
#define CODE_ALIGN  128u
/* From here on the kernel is faster; it counts pieces in 32 bits. */
#define MIN_BYTES (128u << 10)
#define MAX_BYTES (1ull << 36)

/* clang-format off */
static const uint64_t sm80_words[] = {
    0x00000a00ff017624, 0x000fe400078e00ff,
    0x0000000000007919, 0x000e280000002500,
    0x0000000000037919, 0x000e240000002100,
    0x0000010000007824, 0x001fca00078e0203,
    0x00005c0000007a0c, 0x000fda0003f06070,
    0x000000000000094d, 0x000fea0003800000,
    0x00005d00ff007a0c, 0x000fe20003f05070,
    0x0000460000047ab9, 0x000fe20000000a00,
    0x0000580000087a11, 0x040fe200078220ff,
    0x00005e00ff047624, 0x000fe400078e00ff,
    0x00005e00ff057624, 0x000fe200078e00ff,
    0x0000590000097a11, 0x000fe200008f24ff,
    0x00005e00ff067624, 0x000fe400078e00ff,
    0x00005e00ff077624, 0x000fc800078e00ff,
    0x0000010000000947, 0x000fea0003800000,
    0x00005a00ff077624, 0x000fe200078e00ff,
    0x00005a0000027a11, 0x000fe200078220ff,
    0x000000ffff0b7224, 0x000fe400078e00ff,
    0x0000000807077824, 0x000fe200078e00ff,
    0xfffffffc02027812, 0x000fe400078ec0ff,
    0x00005b0000037a11, 0x000fe400008f24ff,
    0x0000001807ff7812, 0x000fc6000780c0ff,
    0x0000040402007981, 0x000ea8000c1e1900,
    0x0000080402067981, 0x000ea8000c1e1900,
    0x0000000402047981, 0x000ee8000c1e1900,
    0x00000c04020a7981, 0x000f28000c1e1900,
    0x00001004020b0981, 0x000f62000c1e1900,
    0x0000000700057219, 0x004fc40000001e06,
    0x0000000704047219, 0x088fe40000001e00,
    0x0000000706067219, 0x090fe40000001e0a,
    0x000000070a077219, 0x020fca0000001e0b,
    0x0000000408007986, 0x000fe2000c101d04,
    0x000000000000794d, 0x000fea0003800000,
};
static const uint64_t sm90_words[] = {
    0x00000a00ff017b82, 0x000fe20000000800,
    0x0000000000007919, 0x000e220000002500,
    0x0000880000047ab9, 0x000fe20000000800,
    0x0000000000037919, 0x000e240000002100,
    0x0000010000007824, 0x001fca00078e0203,
    0x0000000400007c0c, 0x000fda000bf06070,
    0x000000000000094d, 0x000fea0003800000,
    0x0000890000047ab9, 0x000fe20000000800,
    0x00008a0000067ab9, 0x000fe20000000800,
    0x00000004ff007c0c, 0x000fe2000bf05070,
    0x0000820000047ab9, 0x000fe20000000a00,
    0x00000006ff047e24, 0x000fe4000f8e00ff,
    0x00000006ff057e24, 0x000fe4000f8e00ff,
    0x00000006ff067e24, 0x000fe4000f8e00ff,
    0x00000006ff077e24, 0x000fca000f8e00ff,
    0x0000000000400947, 0x000fea0003800000,
    0x00008600ff027b82, 0x000e220000000a00,
    0x000000ffff097224, 0x000fe400078e00ff,
    0x0000000802077824, 0x001fe200078e00ff,
    0x0000000200027211, 0x000fc800078220ff,
    0x0000001807ff7812, 0x000fe4000780c0ff,
    0x0000000300037211, 0x000fe400008f24ff,
    0xfffffffc02027812, 0x000fca00078ec0ff,
    0x0000000402047981, 0x000ea8000c1e1900,
    0x0000040402067981, 0x000ea8000c1e1900,
    0x0000080402087981, 0x000ee8000c1e1900,
    0x00000c04020a7981, 0x000f28000c1e1900,
    0x0000100402090981, 0x000f62000c1e1900,
    0x0000000704047219, 0x004fc40000001e06,
    0x0000000706057219, 0x088fe40000001e08,
    0x0000000708067219, 0x090fe40000001e0a,
    0x000000070a077219, 0x020fce0000001e09,
    0x0000840000067ab9, 0x000fe40000000a00,
    0x0000000600027c11, 0x000fc8000f8020ff,
    0x0000000700037c11, 0x000fca00080f24ff,
    0x0000000402007986, 0x000fe2000c101d04,
    0x000000000000794d, 0x000fea0003800000,
};
static const uint64_t sm100_words[] = {
    0x0000df00ff017b82, 0x000fe20000000800,
    0x0000000000007919, 0x000e220000002500,
    0x00007200ff0477ac, 0x000e620008000800,
    0x0000000000037919, 0x000e240000002100,
    0x0000010000007824, 0x001fca00078e0203,
    0x0000000400007c0c, 0x002fda000bf06070,
    0x000000000000094d, 0x000fea0003800000,
    0x00007280ff0677ac, 0x000e220008000800,
    0x00007300ff0777ac, 0x000e620008000800,
    0x00006b00ff0477ac, 0x000ea20008000a00,
    0x000000ff0600728c, 0x001fe2000bf05070,
    0x00000007ff047e24, 0x002fe4000f8e00ff,
    0x00000007ff057e24, 0x000fe4000f8e00ff,
    0x00000007ff067e24, 0x000fe4000f8e00ff,
    0x00000007ff077e24, 0x000fc4000f8e00ff,
    0x0000000100407547, 0x004fea000b800000,
    0x0000e200ff027b82, 0x000e220000000a00,
    0x000000ffff097224, 0x000fe400078e00ff,
    0x0000000802077824, 0x001fe200078e00ff,
    0x0000000200027211, 0x000fc800078220ff,
    0x0000001807ff7812, 0x000fe4000780c0ff,
    0x0000000300037211, 0x000fe400008f24ff,
    0xfffffffc02027812, 0x000fca00078ec0ff,
    0x0000000402047981, 0x000ea8000c1e1900,
    0x0000040402067981, 0x000ea8000c1e1900,
    0x0000080402087981, 0x000ee8000c1e1900,
    0x00000c04020a7981, 0x000f28000c1e1900,
    0x0000100402090981, 0x000f62000c1e1900,
    0x0000000704047219, 0x004fc40000001e06,
    0x0000000706057219, 0x088fe40000001e08,
    0x0000000708067219, 0x090fe40000001e0a,
    0x000000070a077219, 0x020fce0000001e09,
    0x00007000ff0677ac, 0x000e240008000a00,
    0x0000000600027c11, 0x001fc8000f8020ff,
    0x0000000700037c11, 0x000fca00080f24ff,
    0x0000000402007986, 0x000fe2000c101d04,
    0x000000000000794d, 0x000fea0003800000,
};
static const uint64_t sm120_words[] = {
    0x0000df00ff017b82, 0x000fe20000000800,
    0x0000000000007919, 0x000e220000002500,
    0x00007200ff0477ac, 0x000e620008000800,
    0x0000000000037919, 0x000e240000002100,
    0x0000010000007824, 0x001fca00078e0203,
    0x0000000400007c0c, 0x002fda000bf06070,
    0x000000000000094d, 0x000fea0003800000,
    0x00007280ff0677ac, 0x000e220008000800,
    0x00007300ff0777ac, 0x000e620008000800,
    0x00006b00ff0477ac, 0x000ea20008000a00,
    0x000000ff0600728c, 0x001fe2000bf05070,
    0x0000000700047c02, 0x002fe20008000f00,
    0x0000000700057c02, 0x000fe20008000f00,
    0x0000000700067c02, 0x000fe20008000f00,
    0x0000000700077c02, 0x000fca0008000f00,
    0x0000000100487547, 0x004fea000b800000,
    0x0000e200ff077b82, 0x000e220000000800,
    0x00007100ff0677ac, 0x000e620008000a00,
    0x0000001000027824, 0x040fe400078e00ff,
    0x00000000ff097431, 0x000fe400000001ff,
    0x0000001000037827, 0x000fca00078e00ff,
    0x0000000602027c35, 0x002fe4000f8e0200,
    0x0000000807077824, 0x001fc600078e00ff,
    0xfffffffc02027812, 0x000fe400078ec0ff,
    0x0000001807ff7812, 0x000fc6000780c0ff,
    0x0000000402047981, 0x000ea8000c1e1900,
    0x0000040402067981, 0x000ea8000c1e1900,
    0x0000080402087981, 0x000ee8000c1e1900,
    0x00000c04020a7981, 0x000f28000c1e1900,
    0x0000100402090981, 0x000f62000c1e1900,
    0x0000000704047219, 0x004fc40000001e06,
    0x0000000706057219, 0x088fe40000001e08,
    0x0000000708067219, 0x090fe40000001e0a,
    0x000000070a077219, 0x020fce0000001e09,
    0x00007000ff0677ac, 0x000e220008000a00,
    0x0000001000027824, 0x040fe400078e00ff,
    0x0000001000037827, 0x000fca00078e00ff,
    0x0000000602027c35, 0x001fcc000f8e0200,
    0x0000000402007986, 0x000fe2000c101d04,
    0x000000000000794d, 0x000fea0003800000,
};
/* clang-format on */

static const struct {
    uint32_t sm, n_regs, n_words;
    const uint64_t *words;
} codes[] = {
    {80, 14, ARRAY_LEN(sm80_words), sm80_words},
    {90, 13, ARRAY_LEN(sm90_words), sm90_words},
    {100, 13, ARRAY_LEN(sm100_words), sm100_words},
    {120, 13, ARRAY_LEN(sm120_words), sm120_words},
};

/* ---- the program --------------------------------------------------------- */

/* Two queues may be made at once: the first program stays. */
static void
keep_first_move(struct nv_device *dev, struct nv_program *prog)
{
    pthread_mutex_lock(&dev->base.lock);
    if (!dev->move) {
        dev->move = prog;
        prog = NULL;
    }
    pthread_mutex_unlock(&dev->base.lock);
    if (prog)
        nv_program_destroy(&prog->base);
}

static bool
is_there(struct nv_device *dev)
{
    bool there;

    pthread_mutex_lock(&dev->base.lock);
    there = dev->move != NULL;
    pthread_mutex_unlock(&dev->base.lock);
    return there;
}

bell_status
nv_move_load(struct nv_device *dev)
{
    const struct hcq_program_desc desc = {
        .name = "copy or fill",
        .n_vals = NV_MOVE_ARGS,
        .local = {GROUP, 1, 1},
    };
    struct nv_cubin cubin = {.name = desc.name, .n_params = NV_MOVE_ARGS};
    struct nv_program *prog;
    size_t i;

    if (is_there(dev))
        return BELL_OK;
    for (i = 0; i < NV_MOVE_ARGS; i++)
        cubin.params[i] = (struct nv_cubin_part){(uint32_t)i * 8, 8};
    for (i = 0; i < ARRAY_LEN(codes); i++) {
        if (!nv_gen_runs(codes[i].sm, dev->chip.sm))
            continue;
        cubin.sm = codes[i].sm;
        cubin.n_regs = codes[i].n_regs;
        cubin.param_offset = dev->chip.compute->launch->bank_bytes;
        cubin.param_bytes = NV_MOVE_ARGS * 8;
        cubin.data = (const uint8_t *)codes[i].words;
        cubin.image_bytes = codes[i].n_words * 8ull;
        cubin.total_bytes = align_up(cubin.image_bytes, CODE_ALIGN);
        BELL_TRY(nv_program_load(dev, &desc, &cubin, &prog));
        keep_first_move(dev, prog);
        break;
    }
    return BELL_OK;
}

/* ---- launches ------------------------------------------------------------ */

static bool
is_on_card(const struct nv_engine *engine, uint64_t va)
{
    return (va >= engine->card_va && va < engine->card_va_end) ||
           (va >= engine->far_va && va < engine->far_va_end);
}

struct nv_move
nv_move_split(const struct nv_engine *engine, const struct hcq_packet *packet)
{
    uint64_t dst = packet->word[0], size_bytes = packet->word[2];
    struct nv_move move = {0};

    if (!engine->move ||
        (packet->head.op != HCQ_OP_FILL &&
         (packet->head.op != HCQ_OP_COPY ||
          !is_on_card(engine, packet->word[1]))) ||
        !is_on_card(engine, dst) || size_bytes < MIN_BYTES ||
        size_bytes >= MAX_BYTES)
        return move;
    move.head_bytes = -dst % PIECE_BYTES;
    move.tail_bytes = (dst + size_bytes) % PIECE_BYTES;
    move.body_bytes = size_bytes - move.head_bytes - move.tail_bytes;
    return move;
}

const struct hcq_exec *
nv_move_exec(const struct nv_engine *engine, const struct hcq_packet *packet,
             const struct nv_move *move, uint64_t room[NV_MOVE_DW])
{
    struct hcq_exec *exec = (struct hcq_exec *)(void *)room;
    bool is_fill = packet->head.op == HCQ_OP_FILL;
    uint64_t pieces = move->body_bytes / PIECE_BYTES;

    assert(move->body_bytes > 0 && move->body_bytes % PIECE_BYTES == 0);
    *exec = (struct hcq_exec){
        .head = {.op = HCQ_OP_EXEC, .n_dw = 2 * NV_MOVE_DW},
        .prog = &engine->move->base,
        .grid = {(uint32_t)((pieces + GROUP - 1) / GROUP), 1, 1},
        .local = {GROUP, 1, 1},
    };
    exec->args[0] = packet->word[0] + move->head_bytes;
    exec->args[1] = is_fill ? 0 : packet->word[1] + move->head_bytes;
    exec->args[2] = pieces | (uint64_t)is_fill << 32;
    exec->args[3] = is_fill ? packet->word[1] : 0;
    assert(exec->args[0] % PIECE_BYTES == 0 && pieces <= UINT32_MAX);
    return exec;
}
