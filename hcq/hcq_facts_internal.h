/* A driver's half of hcq_facts.h: apart from struct hcq_device_ops, so that a
 * program without tools has nothing of it. */
#ifndef BELL_HCQ_HCQ_FACTS_INTERNAL_H
#define BELL_HCQ_HCQ_FACTS_INTERNAL_H

#include "hcq/hcq_backend.h"
#include "hcq/hcq_facts.h"

/* A backend's functions; those that it lacks are NULL. */
struct hcq_facts_ops {
    const char *backend; /* "NV" */
    bell_status (*cards)(struct hcq_card out_list[HCQ_CARDS_MAX],
                         size_t *out_n);
    bell_status (*device)(struct hcq_device *dev, hcq_fact_fn *tell,
                          void *user);
    bell_status (*program)(const struct hcq_program_base *prog,
                           hcq_fact_fn *tell, void *user);
    const char *(*unproven)(struct hcq_device *dev);
    void (*assumed)(struct hcq_device *dev, char *text, size_t size_bytes);
    /* The backend's own part of a gauge. */
    bell_status (*gauge_open)(uint32_t idx, void **out_state);
    bell_status (*gauge_of)(struct hcq_device *dev, void **out_state);
    bell_status (*gauge_read)(void *state, struct hcq_reading *out);
    void (*gauge_close)(void *state);
};

extern const struct hcq_facts_ops nv_facts, amd_facts, qcom_facts;

/* Tells rows that hold numbers alone. */
BELL_MUST_CHECK bell_status hcq_tell_facts(const struct hcq_fact *facts,
                                           size_t n, hcq_fact_fn *tell,
                                           void *user);

#endif
