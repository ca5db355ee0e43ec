/* What drivers know of a program that was loaded, as numbers and bytes. */
#include <string.h>

#include "base/bits.h"
#include "tools/send/send.h"
#if BELL_HAVE_AMD
#include "hcq/amd/amd.h"
#endif
#if BELL_HAVE_NV
#include "hcq/nv/nv.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/regs/nv_qmd.h"
#endif
#if BELL_HAVE_QCOM
#include "hcq/qcom/qcom.h"
#endif

struct known {
    const char *name;
    uint64_t value;
};

static bell_status
define_all(struct send *s, const char *name, const struct known *known,
           size_t n)
{
    char full[2 * HCQ_NAME_MAX];
    size_t i;

    for (i = 0; i < n; i++) {
        snprintf(full, sizeof(full), "%s.%s", name, known[i].name);
        BELL_TRY(send_define(s, full, known[i].value));
    }
    return BELL_OK;
}

#if BELL_HAVE_AMD
static bell_status
define_amd(struct send *s, const char *name, const struct hcq_program *pub)
{
    const struct amd_program *p =
        HCQ_CONTAINER(HCQ_CONTAINER(pub, const struct hcq_program_base, pub),
                      const struct amd_program, base);
    const struct known known[] = {
        {"entry", p->entry_va},      {"descriptor", p->descriptor_va},
        {"rsrc1", p->rsrc1},         {"rsrc2", p->rsrc2},
        {"rsrc3", p->rsrc3},         {"properties", p->properties},
        {"lds_bytes", p->lds_bytes}, {"scratch_bytes", p->scratch_bytes},
    };

    return define_all(s, name, known, ARRAY_LEN(known));
}
#endif

#if BELL_HAVE_NV
static bell_status
define_nv(struct send *s, const char *name, const struct hcq_program *pub)
{
    const struct nv_program *p =
        HCQ_CONTAINER(HCQ_CONTAINER(pub, const struct hcq_program_base, pub),
                      const struct nv_program, base);
    const struct known known[] = {
        {"registers", p->n_regs},          {"barriers", p->n_barriers},
        {"shared_bytes", p->shared_bytes}, {"stack_bytes", p->stack_bytes},
        {"bank_bytes", p->bank0_bytes},    {"params", p->param_offset},
        {"action", p->launch->action},
    };
    char full[2 * HCQ_NAME_MAX];

    snprintf(full, sizeof(full), "%s.qmd", name);
    BELL_TRY(send_define_part(
        s, full, p->qmd,
        4u * nv_size_qmd_launch((enum nv_qmd_gen)p->launch->gen)));
    snprintf(full, sizeof(full), "%s.bank", name);
    BELL_TRY(send_define_part(s, full, p->bank0, p->param_offset));
    return define_all(s, name, known, ARRAY_LEN(known));
}
#endif

#if BELL_HAVE_QCOM
static bell_status
define_qcom(struct send *s, const char *name, const struct hcq_program *pub)
{
    const struct qcom_program *p =
        HCQ_CONTAINER(HCQ_CONTAINER(pub, const struct hcq_program_base, pub),
                      const struct qcom_program, base);
    const struct known known[] = {
        {"instructions", p->n_instrs},     {"full_vec4", p->n_full_vec4},
        {"const_vec4", p->n_const_vec4},   {"branch_depth", p->branch_depth},
        {"shared_bytes", p->shared_bytes}, {"fiber_bytes", p->fiber_bytes},
        {"is_wide", p->is_wide},
    };

    return define_all(s, name, known, ARRAY_LEN(known));
}
#endif

bell_status
send_define_program(struct send *s, const char *name, struct hcq_program *prog)
{
    const struct known known[] = {
        {"code", prog->code_va},     {"code_bytes", prog->code_size_bytes},
        {"local_x", prog->local[0]}, {"local_y", prog->local[1]},
        {"local_z", prog->local[2]},
    };

    BELL_TRY(define_all(s, name, known, ARRAY_LEN(known)));
    if (s->dev->info.flags & HCQ_DEVICE_NULL)
        return BELL_OK;
    switch ((enum hcq_words)s->queues[HCQ_QUEUE_COMPUTE]->words) {
#if BELL_HAVE_AMD
    case HCQ_WORDS_PM4:
        return define_amd(s, name, prog);
#endif
#if BELL_HAVE_NV
    case HCQ_WORDS_NV:
        return define_nv(s, name, prog);
#endif
#if BELL_HAVE_QCOM
    case HCQ_WORDS_PKT7:
        return define_qcom(s, name, prog);
#endif
    case HCQ_WORDS_SDMA:
    case HCQ_WORDS_NONE:
    default:
        return BELL_OK;
    }
}
