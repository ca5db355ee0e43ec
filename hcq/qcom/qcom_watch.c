/* What goes to the kernel, for those who record it: the indirect buffers, and
 * the pages of signals that the chip answers in. Arguments of launches lie in
 * the buffers; other memory is not among it.
 *
 * Off the launch path: called only where a form of kio listens. There every
 * submission is waited for, for a while: what the chip wrote is then seen at a
 * place that is the same in every run, which a replay needs.
 */
#include <assert.h>

#include "base/log.h"
#include "hcq/qcom/qcom.h"

#define MAX_REGIONS 256u

/* A submission that takes longer is left alone. */
#define SETTLE_MS 50u

struct qcom_regions {
    struct kio_region list[MAX_REGIONS];
    uint32_t n;
};

static void
add_region(struct qcom_regions *r, const void *cpu, uint64_t va,
           uint64_t size_bytes, enum kio_region_kind kind)
{
    if (r->n < MAX_REGIONS)
        r->list[r->n++] = (struct kio_region){cpu, va, size_bytes, kind};
}

static void
add_qcom_signals(void *user, const struct hcq_signal_page *page)
{
    add_region(user, page->host, page->va, HCQ_SIGNAL_PAGE_BYTES,
               KIO_REGION_SIGNAL);
}

static void
tell_qcom(struct qcom_device *dev, struct qcom_regions *r)
{
    struct kio_bell bell = {.regions = r->list};

    hcq_signal_pages_each(dev->signals, add_qcom_signals, r);
    bell.n_regions = r->n;
    kio_doorbell(dev->kio, &bell);
}

void
qcom_watch_submit(struct qcom_device *dev, const struct qcom_ib *ibs,
                  uint32_t n)
{
    struct qcom_regions r = {.n = 0};
    uint32_t i;

    assert(n > 0 && n <= QCOM_SUBMIT_IBS);
    for (i = 0; i < n; i++)
        add_region(&r, (const uint8_t *)ibs[i].mem->cpu + ibs[i].offset_bytes,
                   ibs[i].mem->va + ibs[i].offset_bytes, 4ull * ibs[i].n_dw,
                   KIO_REGION_PUSH);
    tell_qcom(dev, &r);
}

void
qcom_watch_settle(struct qcom_device *dev, struct qcom_context *context,
                  uint32_t stamp)
{
    struct qcom_regions r = {.n = 0};
    struct bell_error_hold hold;

    bell_error_hold(&hold);
    if (dev->kernel->wait(dev, context, stamp, SETTLE_MS) != BELL_OK)
        LOG(LOG_IOCTL, "goes on: %s", bell_error_last()->message);
    bell_error_release(&hold);
    tell_qcom(dev, &r);
}
