/* A program that links the driver half alone, as an appliance would: opens a
 * device, fills a buffer on its queue and reads it back.
 *
 * usage: driver_alone [DEVICE]     CPU if none is named
 */
#include <stdint.h>
#include <stdio.h>

#include "hcq/hcq.h"

static bell_status
fill_and_read(struct hcq_device *dev, uint32_t *out_word)
{
    struct hcq_buffer *buf = NULL;
    struct hcq_queue *queue = NULL;
    struct hcq_cs *cs;
    bell_status status;

    status = hcq_buffer_create(dev, 4096, 0, &buf);
    if (status == BELL_OK)
        status = hcq_queue_create(dev, HCQ_QUEUE_COPY, &queue);
    if (status == BELL_OK)
        status = hcq_queue_begin(queue, &cs);
    if (status == BELL_OK) {
        hcq_cs_fill(cs, buf->va, 0x600d, 4096);
        status = hcq_cs_submit(cs, NULL);
    }
    if (status == BELL_OK)
        status = hcq_queue_wait(queue, HCQ_TIMEOUT_NS);
    if (status == BELL_OK)
        status = hcq_buffer_read(buf, 4092, out_word, 4);
    hcq_queue_destroy(queue);
    hcq_buffer_destroy(buf);
    return status;
}

int
main(int argc, char **argv)
{
    struct hcq_device *dev = NULL;
    uint32_t word = 0;
    bell_status status = hcq_device_open(argc > 1 ? argv[1] : "CPU", &dev);

    if (status == BELL_OK)
        status = fill_and_read(dev, &word);
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    else
        printf("%s: 0x%x\n", hcq_device_name(dev), word);
    hcq_device_close(dev);
    return bell_status_exit_code(status);
}
