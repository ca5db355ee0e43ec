/* Adreno: what tools may know of programs. */
#include "hcq/hcq_facts_internal.h"

#include "base/bits.h"
#include "hcq/qcom/qcom.h"

static bell_status
tell_qcom_program(const struct hcq_program_base *base, hcq_fact_fn *tell,
                  void *user)
{
    const struct qcom_program *p =
        HCQ_CONTAINER(base, const struct qcom_program, base);
    const struct hcq_fact facts[] = {
        {"instructions", .value = p->n_instrs},
        {"full_vec4", .value = p->n_full_vec4},
        {"const_vec4", .value = p->n_const_vec4},
        {"branch_depth", .value = p->branch_depth},
        {"shared_bytes", .value = p->shared_bytes},
        {"fiber_bytes", .value = p->fiber_bytes},
        {"is_wide", .value = p->is_wide},
    };

    return hcq_tell_facts(facts, ARRAY_LEN(facts), tell, user);
}

const struct hcq_facts_ops qcom_facts = {
    .backend = "QCOM",
    .program = tell_qcom_program,
};
