/* The kernel that copies and fills memory where the command processor has no
 * DMA, or where it would take thousands of packets: machine code for the chips
 * of amd_gen.c that name it, and its launches.
 *
 * The words are those of the texts in move/ (they explain arguments), assembled
 * by LLVM: tests/golden/test_amd_move.py compares them, and prints them anew.
 */
#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"

#define PAGE_BYTES  4096u
#define ENTRY       256u /* of the code, in its page */
#define GROUP       256u /* work-items */
#define PIECE_BYTES 16u
/* For a compute unit: as many waves as it holds, or nearly. */
#define GROUPS_PER_UNIT 8u

/* clang-format off */
static const uint32_t gfx942_words[] = {
    0xc00e0100, 0x00000000, 0xc00a0300, 0x00000020, 0x260000ff, 0x000003ff,
    0xd1fd0000, 0x04011002, 0x7e020280, 0xd28f0002, 0x00020084, 0xbf8cc07f,
    0xbe90000c, 0xbe910080, 0x8e928410, 0x7e08020d, 0x7e0a020d, 0x7e0c020d,
    0x7e0e020d, 0x7dd80408, 0x86fe6a7e, 0xbf88000e, 0xbf07800e, 0xbf850005,
    0xd2080008, 0x04090006, 0xdc5c8000, 0x047f0008, 0xbf8c0f70, 0xd2080008,
    0x04090004, 0xdc7c8000, 0x007f0408, 0xd2080002, 0x04090012, 0xbf82ffef,
    0xbefe01c1, 0xd2080002, 0x04010008, 0x7dd8040a, 0x86fe6a7e, 0xbf880013,
    0xbf07800e, 0xbf850006, 0xd2080008, 0x04090006, 0xdc408000, 0x047f0008,
    0xbf8c0f70, 0xbf820004, 0x26140483, 0x24141483, 0xd1100004, 0x00001b0a,
    0xd2080008, 0x04090004, 0xdc608000, 0x007f0408, 0xd2080002, 0x04090010,
    0xbf82ffea, 0xbf810000,
};

const struct amd_move_code amd_move_gfx942 = {
    .rsrc1 = 0x00ac00c1,
    .rsrc2 = 0x00000084,
    .rsrc3 = 0x00000002,
    .properties = 0x00000008,
    .n_words = ARRAY_LEN(gfx942_words),
    .words = gfx942_words,
};

static const uint32_t gfx1100_words[] = {
    0xf40c0100, 0xf8000000, 0xf4080400, 0xf8000020, 0x360000ff, 0x000003ff,
    0xd6460000, 0x0401100f, 0x7e020280, 0xd73c0002, 0x00020084, 0xbf89fc07,
    0xbe8c0010, 0xbe8d0080, 0x8482840c, 0x7e080211, 0x7e0a0211, 0x7e0c0211,
    0x7e0e0211, 0x7db80408, 0xbfa50011, 0xbf078012, 0xbfa20006, 0xd7006a08,
    0x00020406, 0x40120607, 0xdc5e0000, 0x047c0008, 0xbf8903f7, 0xd7006a08,
    0x00020404, 0x40120605, 0xdc760000, 0x007c0408, 0xd7006a02, 0x00020402,
    0x40060603, 0xbfa0ffed, 0xbefe00c1, 0xd7006a02, 0x00020008, 0x40060209,
    0x7db8040a, 0xbfa50016, 0xbf078012, 0xbfa20007, 0xd7006a08, 0x00020406,
    0x40120607, 0xdc420000, 0x047c0008, 0xbf8903f7, 0xbfa00004, 0x36140483,
    0x30141483, 0xd5190004, 0x0000230a, 0xd7006a08, 0x00020404, 0x40120605,
    0xdc620000, 0x007c0408, 0xd7006a02, 0x0002040c, 0x4006060d, 0xbfa0ffe8,
    0xbfb00000,
};

const struct amd_move_code amd_move_gfx1100 = {
    .rsrc1 = 0x60ac0001,
    .rsrc2 = 0x0000009e,
    .rsrc3 = 0x00000000,
    .properties = 0x00000408,
    .n_words = ARRAY_LEN(gfx1100_words),
    .words = gfx1100_words,
};

static const uint32_t gfx1201_words[] = {
    0xf4006100, 0xf8000000, 0xf4004400, 0xf8000020, 0x360000ff, 0x000003ff,
    0xd6460000, 0x04011075, 0x7e020280, 0x3e040084, 0xbfc70000, 0xbe8c0010,
    0xbe8d0080, 0x8482840c, 0x7e080211, 0x7e0a0211, 0x7e0c0211, 0x7e0e0211,
    0x7db80408, 0xbfa50016, 0xbf078012, 0xbfa20008, 0xd7006a08, 0x00020406,
    0xbf88fffd, 0x40120607, 0xee05c07c, 0x00000004, 0x00000008, 0xbfc00000,
    0xd7006a08, 0x00020404, 0xbf88fffd, 0x40120605, 0xee07407c, 0x02000000,
    0x00000008, 0xd7006a02, 0x00020402, 0xbf88fffd, 0x40060603, 0xbfa0ffe8,
    0xbefe00c1, 0xd7006a02, 0x00020008, 0xbf88fffd, 0x40060209, 0x7db8040a,
    0xbfa5001b, 0xbf078012, 0xbfa20009, 0xd7006a08, 0x00020406, 0xbf88fffd,
    0x40120607, 0xee04007c, 0x00000004, 0x00000008, 0xbfc00000, 0xbfa00004,
    0x36140483, 0x30141483, 0xd5190004, 0x0000230a, 0xd7006a08, 0x00020404,
    0xbf88fffd, 0x40120605, 0xee06007c, 0x02000000, 0x00000008, 0xd7006a02,
    0x0002040c, 0xbf88fffd, 0x4006060d, 0xbfa0ffe3, 0xbfb00000,
};

const struct amd_move_code amd_move_gfx1201 = {
    .rsrc1 = 0x600c0001,
    .rsrc2 = 0x00000084,
    .rsrc3 = 0x00000000,
    .properties = 0x00000408,
    .n_words = ARRAY_LEN(gfx1201_words),
    .words = gfx1201_words,
};
/* clang-format on */

/* ---- the program --------------------------------------------------------- */

/* src: docs/hardware/amd-code.md, "Kernel descriptor" */
struct descriptor {
    uint32_t group_bytes, private_bytes, kernarg_bytes, pad;
    int64_t entry;
    uint32_t pad2[5], rsrc3, rsrc1, rsrc2;
    uint16_t properties, pad3[3];
};

static_assert(sizeof(struct descriptor) == 64, "descriptor");

bell_status
amd_move_load(struct amd_device *dev)
{
    const struct amd_move_code *code = dev->gen->move;
    struct amd_program *prog = &dev->move;
    struct descriptor descriptor = {
        .kernarg_bytes = AMD_MOVE_ARGS * 8,
        .entry = ENTRY,
    };
    bell_status status;

    if (!code || prog->code.va)
        return BELL_OK;
    assert(code->n_words * sizeof(code->words[0]) <= PAGE_BYTES - ENTRY);
    BELL_TRY(amd_mem_alloc(dev, PAGE_BYTES, AMD_MEM_VISIBLE, &prog->code));
    descriptor.rsrc1 = prog->rsrc1 = code->rsrc1;
    descriptor.rsrc2 = prog->rsrc2 = code->rsrc2;
    descriptor.rsrc3 = prog->rsrc3 = code->rsrc3;
    prog->properties = code->properties;
    descriptor.properties = (uint16_t)code->properties;
    prog->base.pub.n_vals = AMD_MOVE_ARGS;
    prog->descriptor_va = prog->code.va;
    prog->entry_va = prog->code.va + ENTRY;
    amd_pm4_prepare(dev, prog);
    status = amd_buffer_write(&dev->base, prog->descriptor_va, &descriptor,
                              sizeof(descriptor));
    if (status == BELL_OK)
        status = amd_buffer_write(&dev->base, prog->entry_va, code->words,
                                  code->n_words * sizeof(code->words[0]));
    if (status != BELL_OK)
        amd_mem_free(dev, &prog->code);
    return status;
}

/* ---- launches ------------------------------------------------------------ */

const struct hcq_exec *
amd_move_exec(const struct amd_engine *engine, const struct hcq_packet *packet,
              uint64_t room[AMD_MOVE_WORDS])
{
    const struct amd_topology *t = &engine->dev->topology;
    bool is_fill = packet->head.op == HCQ_OP_FILL;
    uint64_t dst = packet->word[0], src = is_fill ? 0 : packet->word[1];
    uint64_t n = packet->word[2];
    uint64_t pieces = (dst | src) % 4 ? 0 : n & ~(uint64_t)(PIECE_BYTES - 1);
    uint64_t items = pieces / PIECE_BYTES, groups;
    uint64_t most = (uint64_t)t->n_cu * t->n_xcc * GROUPS_PER_UNIT;
    struct hcq_exec *exec = (struct hcq_exec *)(void *)room;

    assert(amd_is_transfer(packet) && engine->move);
    assert(pieces <= n && pieces % PIECE_BYTES == 0);
    if (items < n - pieces)
        items = n - pieces;
    groups = (items + GROUP - 1) / GROUP;
    groups = groups == 0 ? 1 : groups < most ? groups : most;
    *exec = (struct hcq_exec){
        .head = {.op = HCQ_OP_EXEC, .n_dw = 2 * AMD_MOVE_WORDS},
        .prog = &engine->move->base,
        .grid = {(uint32_t)groups, 1, 1},
        .local = {GROUP, 1, 1},
    };
    exec->args[0] = dst;
    exec->args[1] = src;
    exec->args[2] = pieces;
    exec->args[3] = n;
    exec->args[4] = groups * GROUP | (is_fill ? packet->word[1] << 32 : 0);
    exec->args[5] = is_fill;
    return exec;
}
