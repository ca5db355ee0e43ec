/* A driver to start from: what its files share. It drives the accelerator of
 * ioctl/template_uapi.h, which has memory, rings and commands, and no kernels
 * yet: docs/how-to/new-accelerator.md says what to copy, change and add.
 *
 * template_device.c  the device: finding, opening, memory, signals, faults
 * template_queue.c   queues and bound streams
 */
#ifndef BELL_HCQ_TEMPLATE_TEMPLATE_H
#define BELL_HCQ_TEMPLATE_TEMPLATE_H

#include "hcq/hcq_ring.h"
#include "hcq/hcq_signal_pages.h"
#include "ioctl/kio.h"
#include "ioctl/template_uapi.h"

struct template_device {
    struct hcq_device base;
    struct kio *kio; /* owned; NULL: not opened */
    struct kio_file file;
    struct template_regs *regs; /* mapped */
    struct hcq_signal_pages *signals;
};

/* Memory that both sides see, of the driver's own. size_bytes 0: none. */
struct template_mem {
    uint64_t va, size_bytes;
    void *host;
};

struct template_queue {
    struct hcq_queue base;
    struct hcq_ring ring;
    struct template_mem push;    /* commands of fresh streams */
    struct template_mem entries; /* the ring itself */
    uint32_t id;
    bool is_made; /* the kernel has it */
};

/* What a bound stream is for the card. */
struct template_stream {
    struct hcq_bound base;
    struct template_mem words;
};

static inline struct template_device *
template_device_of(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct template_device, base);
}

static inline struct template_queue *
template_queue_of(struct hcq_queue *queue)
{
    return HCQ_CONTAINER(queue, struct template_queue, base);
}

/* New memory, mapped; whole pages. */
BELL_MUST_CHECK bell_status template_mem_new(struct template_device *dev,
                                             uint64_t size_bytes,
                                             struct template_mem *out_mem);
/* Does nothing where size_bytes is 0. */
void template_mem_end(struct template_device *dev,
                      const struct template_mem *mem);

/* hcq_device_ops' functions of queues and streams (hcq_backend.h). */
struct hcq_extent template_packet_measure(struct hcq_cs *cs,
                                          struct hcq_packet *packet);
BELL_MUST_CHECK bell_status template_queue_create(
    struct hcq_device *base, const struct hcq_queue_desc *desc,
    struct hcq_queue **out_queue);
void template_queue_destroy(struct hcq_queue *base);
BELL_MUST_CHECK bell_status template_queue_submit(struct hcq_queue *base,
                                                  uint64_t value);
BELL_MUST_CHECK bell_status template_stream_bind(struct hcq_stream *stream);
void template_stream_unbind(struct hcq_stream *stream);
void template_stream_repack(struct hcq_stream *stream,
                            const struct hcq_place *place);
BELL_MUST_CHECK bell_status template_stream_submit(struct hcq_stream *stream,
                                                   uint64_t value);

extern const struct hcq_backend hcq_template_backend;

#endif
