/* Facts of drivers: which driver is asked, and what none of them has to do. */
#include "hcq/hcq_facts_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

/* By a backend's name; the last row is of those that have no facts. */
static const struct hcq_facts_ops no_facts = {.backend = NULL};
static const struct hcq_facts_ops *const known[] = {
#if BELL_HAVE_NV
    &nv_facts,
#endif
#if BELL_HAVE_AMD
    &amd_facts,
#endif
#if BELL_HAVE_QCOM
    &qcom_facts,
#endif
    &no_facts,
};

static const struct hcq_facts_ops *
find_facts(const char *backend)
{
    size_t i = 0;

    while (known[i]->backend && strcmp(known[i]->backend, backend) != 0)
        i++;
    return known[i];
}

/* A device that runs nothing has no driver behind it. */
static const struct hcq_facts_ops *
facts_of(const struct hcq_device *dev)
{
    return dev->info.flags & HCQ_DEVICE_NULL ? &no_facts
                                             : find_facts(dev->info.backend);
}

bell_status
hcq_card_list(const char *backend, struct hcq_card out_list[HCQ_CARDS_MAX],
              size_t *out_n)
{
    const struct hcq_facts_ops *ops = find_facts(backend);

    if (!ops->cards)
        return bell_fail(BELL_E_UNSUPPORTED, "%s has no list of cards",
                         backend);
    return ops->cards(out_list, out_n);
}

bell_status
hcq_tell_facts(const struct hcq_fact *facts, size_t n, hcq_fact_fn *tell,
               void *user)
{
    size_t i;

    for (i = 0; i < n; i++)
        BELL_TRY(tell(user, &facts[i]));
    return BELL_OK;
}

bell_status
hcq_device_facts(struct hcq_device *dev, hcq_fact_fn *tell, void *user)
{
    const struct hcq_facts_ops *ops = facts_of(dev);

    return ops->device ? ops->device(dev, tell, user) : BELL_OK;
}

bell_status
hcq_program_facts(const struct hcq_program *prog, hcq_fact_fn *tell, void *user)
{
    const struct hcq_facts_ops *ops = facts_of(prog->dev);
    const struct hcq_fact facts[] = {
        {"code", .value = prog->code_va},
        {"code_bytes", .value = prog->code_size_bytes},
        {"local_x", .value = prog->local[0]},
        {"local_y", .value = prog->local[1]},
        {"local_z", .value = prog->local[2]},
    };

    BELL_TRY(hcq_tell_facts(facts, ARRAY_LEN(facts), tell, user));
    return ops->program
               ? ops->program(
                     HCQ_CONTAINER(prog, const struct hcq_program_base, pub),
                     tell, user)
               : BELL_OK;
}

const char *
hcq_device_unproven(struct hcq_device *dev)
{
    const struct hcq_facts_ops *ops = facts_of(dev);

    return ops->unproven ? ops->unproven(dev) : "";
}

void
hcq_device_assumed(struct hcq_device *dev, char *text, size_t size_bytes)
{
    const struct hcq_facts_ops *ops = facts_of(dev);

    assert(size_bytes > 0);
    text[0] = '\0';
    if (ops->assumed)
        ops->assumed(dev, text, size_bytes);
}

void
hcq_device_wait_forever(struct hcq_device *dev)
{
    dev->waits_forever = true;
}

bool
hcq_queue_has_words(const struct hcq_queue *queue)
{
    return queue->words != HCQ_WORDS_NONE;
}

uint64_t
hcq_queue_submitted(const struct hcq_queue *queue)
{
    return queue->n_submitted;
}

/* ---- gauges -------------------------------------------------------------- */

struct hcq_gauge {
    const struct hcq_facts_ops *ops;
    struct hcq_device *dev; /* NULL: a client of its own */
    void *state;            /* the backend's; NULL: it has none */
};

static bell_status
create_gauge(const struct hcq_facts_ops *ops, struct hcq_device *dev,
             struct hcq_gauge **out_gauge)
{
    struct hcq_gauge *gauge = host_calloc(1, sizeof(*gauge));

    if (!gauge)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a gauge");
    gauge->ops = ops;
    gauge->dev = dev;
    *out_gauge = gauge;
    return BELL_OK;
}

/* As open as it can be, or gone. */
static bell_status
finish_gauge(struct hcq_gauge *gauge, bell_status status,
             struct hcq_gauge **out_gauge)
{
    if (status == BELL_OK)
        *out_gauge = gauge;
    else
        host_free(gauge);
    return status;
}

bell_status
hcq_gauge_open(const char *backend, uint32_t idx, struct hcq_gauge **out_gauge)
{
    const struct hcq_facts_ops *ops = find_facts(backend);
    struct hcq_gauge *gauge;

    if (!ops->gauge_open)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: cards that are not open tell nothing", backend);
    BELL_TRY(create_gauge(ops, NULL, &gauge));
    return finish_gauge(gauge, ops->gauge_open(idx, &gauge->state), out_gauge);
}

bell_status
hcq_gauge_of(struct hcq_device *dev, struct hcq_gauge **out_gauge)
{
    const struct hcq_facts_ops *ops = facts_of(dev);
    bell_status status = BELL_OK;
    struct hcq_gauge *gauge;

    BELL_TRY(create_gauge(ops, dev, &gauge));
    if (ops->gauge_of)
        status = ops->gauge_of(dev, &gauge->state);
    return finish_gauge(gauge, status, out_gauge);
}

bell_status
hcq_gauge_read(struct hcq_gauge *gauge, struct hcq_reading *out_reading)
{
    struct hcq_reading reading = {.memory_bytes = 0};
    struct hcq_device *dev = gauge->dev;
    uint64_t live, cached;

    if (dev) {
        BELL_TRY(hcq_device_status(dev));
        reading.memory_bytes = dev->info.memory_bytes;
        hcq_memory_usage(dev, &live, &cached);
        reading.used_bytes = live + cached;
    }
    if (gauge->state)
        BELL_TRY(gauge->ops->gauge_read(gauge->state, &reading));
    hcq_give_info(out_reading, &reading, sizeof(reading));
    return BELL_OK;
}

void
hcq_gauge_close(struct hcq_gauge *gauge)
{
    if (!gauge)
        return;
    if (gauge->state)
        gauge->ops->gauge_close(gauge->state);
    host_free(gauge);
}
