/* Links between devices: how one reaches another's memory. Devices with the
 * same operations answer themselves; between others there is host memory alone.
 */
#include "hcq/hcq_backend.h"

#include <assert.h>
#include <stdio.h>

#include "ioctl/kio.h"

const char *
hcq_link_kind_name(enum hcq_link_kind kind)
{
    static const char *const names[HCQ_LINK_KIND_COUNT] = {
        "none", "host", "self", "pcie", "bar1", "nvlink", "xgmi",
    };

    return kind < HCQ_LINK_KIND_COUNT ? names[kind] : "unknown";
}

static void
set_self(struct hcq_device_link *link, const char *reason)
{
    link->kind = HCQ_LINK_SELF;
    link->reads = link->writes = link->atomics = true;
    snprintf(link->reason, sizeof(link->reason), "%s", reason);
}

/* Nobody else knows more. */
static void
set_common(const struct hcq_device *dev, const struct hcq_device *other,
           struct hcq_device_link *link)
{
    const struct hcq_device *null =
        dev->info.flags & HCQ_DEVICE_NULL ? dev : other;

    if (null->info.flags & HCQ_DEVICE_NULL) {
        snprintf(link->reason, sizeof(link->reason),
                 "%s compiles kernels and runs none", null->info.name);
        return;
    }
    link->kind = HCQ_LINK_HOST;
    link->hops = 2;
    if (dev->ops == other->ops)
        snprintf(link->reason, sizeof(link->reason),
                 "%s devices do not reach each other's memory",
                 dev->info.backend);
    else
        snprintf(link->reason, sizeof(link->reason),
                 "%s and %s have different drivers", dev->info.name,
                 other->info.name);
}

bell_status
hcq_device_get_link(struct hcq_device *dev, struct hcq_device *other,
                    struct hcq_device_link *out_link)
{
    struct hcq_device_link link = {.kind = HCQ_LINK_NONE};

    if (!dev || !other || !out_link)
        return bell_fail(BELL_BAD_MISSING, "device link: %s is NULL",
                         !dev     ? "the device"
                         : !other ? "the other device"
                                  : "the result");
    BELL_TRY(hcq_check_process(dev));
    BELL_TRY(hcq_check_process(other));
    if (dev == other)
        set_self(&link, "one device");
    else if (dev->ops == other->ops && dev->ops->get_link)
        BELL_TRY(dev->ops->get_link(dev, other, &link));
    else
        set_common(dev, other, &link);
    assert(link.kind < HCQ_LINK_KIND_COUNT && link.reason[0]);
    assert(link.kind > HCQ_LINK_HOST ||
           !(link.reads || link.writes || link.atomics));
    hcq_give_info(out_link, &link, sizeof(link));
    return BELL_OK;
}

static bell_status
fail_uncounted(const struct hcq_device *dev, const struct hcq_device *other)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "nobody counts what %s and %s move between them",
                     dev->info.name, other->info.name);
}

bell_status
hcq_read_link_bytes(const struct hcq_device *dev,
                    const struct hcq_device *other, struct kio *kio,
                    uint32_t place, uint32_t other_place,
                    struct hcq_link_bytes *out_bytes)
{
    struct kio_link_bytes bytes;

    if (!kio || !kio_link_bytes(kio, place, other_place, &bytes))
        return fail_uncounted(dev, other);
    out_bytes->copy_read = bytes.copy_read;
    out_bytes->copy_written = bytes.copy_written;
    out_bytes->kernel_read = bytes.kernel_read;
    out_bytes->kernel_written = bytes.kernel_written;
    return BELL_OK;
}

bell_status
hcq_device_link_bytes(struct hcq_device *dev, struct hcq_device *other,
                      struct hcq_link_bytes *out_bytes)
{
    struct hcq_link_bytes bytes = {0};

    if (!dev || !other || !out_bytes)
        return bell_fail(BELL_BAD_MISSING, "device link: %s is NULL",
                         !dev     ? "the device"
                         : !other ? "the other device"
                                  : "the result");
    BELL_TRY(hcq_check_process(dev));
    BELL_TRY(hcq_check_process(other));
    if (dev->ops != other->ops || !dev->ops->link_bytes)
        return fail_uncounted(dev, other);
    BELL_TRY(dev->ops->link_bytes(dev, other, &bytes));
    hcq_give_info(out_bytes, &bytes, sizeof(bytes));
    return BELL_OK;
}
