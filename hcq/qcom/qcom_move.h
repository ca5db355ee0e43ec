/* Kernels of the driver's own that copy and fill (qcom_move.c). Private to
 * hcq/qcom/. */
#ifndef BELL_HCQ_QCOM_QCOM_MOVE_H
#define BELL_HCQ_QCOM_QCOM_MOVE_H

#include "hcq/qcom/qcom.h"

enum {
    QCOM_MOVE_COPY16,
    QCOM_MOVE_COPY1,
    QCOM_MOVE_FILL16,
    QCOM_MOVE_FILL1,
    QCOM_MOVE_COUNT
};

/* Instructions of each kernel, at most; those after its end do nothing. */
#define QCOM_MOVE_INSTRS 48u

/* The kernel's instructions, and how many of them there are. */
uint32_t qcom_move_code(const struct qcom_gen *gen, unsigned kind,
                        uint64_t out_words[QCOM_MOVE_INSTRS]);
/* A zeroed program over its code, of any kind. */
BELL_MUST_CHECK bell_status qcom_move_make(const struct chip_arch *chip,
                                           uint64_t code_va,
                                           struct qcom_program *prog);

/* Most words of a copy or fill, and the most bytes that so many serve. */
uint64_t qcom_move_dw(const struct qcom_engine *engine,
                      const struct hcq_packet *packet);
uint64_t qcom_move_max(const struct hcq_packet *packet);
void qcom_put_move(struct qcom_push *push, const struct hcq_packet *packet);

#endif
