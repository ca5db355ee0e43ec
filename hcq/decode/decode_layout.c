/* Which descriptors and layouts a card reads from memory: apart, because a
 * program that puts no words together has no use for their rows. */
#include "hcq/decode/decode_queue.h"

#include "hcq/hcq_backend.h"
#if BELL_DECODE_AMD
#include "hcq/amd/regs/amd_object.h"
#endif
#if BELL_DECODE_NV
#include "hcq/decode/decode_nv.h"
#include "hcq/nv/regs/nv_cbank.h"
#include "hcq/nv/regs/nv_qmd.h"
#endif

unsigned
decode_queue_layouts(const struct hcq_queue *queue,
                     const struct regs_unit *out_units[2], unsigned out_gens[2])
{
#if BELL_DECODE_NV
    const struct decode_nv_chip *chip =
        decode_nv_chip_find(queue->dev->info.arch);

    if (queue->words == HCQ_WORDS_NV && chip) {
        int gen = regs_gen_by_id(&nv_qmd_unit, chip->qmd_major);

        out_units[0] = &nv_qmd_unit;
        out_gens[0] = gen < 0 ? 0 : (unsigned)gen;
        out_units[1] = &nv_cbank_unit;
        out_gens[1] = 0;
        return 2;
    }
#endif
#if BELL_DECODE_AMD
    if (queue->words == HCQ_WORDS_PM4 || queue->words == HCQ_WORDS_SDMA) {
        out_units[0] = &amd_object_unit;
        out_gens[0] = 0;
        return 1;
    }
#endif
    (void)queue;
    (void)out_units;
    (void)out_gens;
    return 0;
}
