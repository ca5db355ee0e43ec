/* Queues of an OpenCL device: their places, their threads. hcq_feed.c has the
 * ring, ocl_feed.c what packets do.
 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "hcq/cl/ocl.h"

#define THREAD_STACK (2u << 20) /* compilers may run on it */

static bool
take_place(struct ocl_device *dev, unsigned *out_place)
{
    bool found;

    pthread_mutex_lock(&dev->base.lock);
    found = dev->queues_used != UINT32_MAX;
    if (found) {
        *out_place = (unsigned)__builtin_ctz(~dev->queues_used);
        dev->queues_used |= 1u << *out_place;
    }
    pthread_mutex_unlock(&dev->base.lock);
    return found;
}

static void
give_place(struct ocl_device *dev, unsigned place)
{
    pthread_mutex_lock(&dev->base.lock);
    assert(dev->queues_used >> place & 1);
    dev->queues_used &= ~(1u << place);
    pthread_mutex_unlock(&dev->base.lock);
}

static void *
thread_body(void *arg)
{
    hcq_feed_run(arg);
    return NULL;
}

static bell_status
start_thread(struct ocl_queue *queue)
{
    pthread_attr_t attr;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    err = pthread_create(&queue->thread, &attr, thread_body, &queue->feed);
    pthread_attr_destroy(&attr);
    if (err != 0)
        return thread_fail(queue->feed.base.name, err);
    return BELL_OK;
}

bell_status
ocl_queue_create(struct hcq_device *base_dev, const struct hcq_queue_desc *desc,
                 struct hcq_queue **out_queue)
{
    struct ocl_device *dev = ocl_device(base_dev);
    struct ocl_queue *queue = host_aligned(64, sizeof(*queue));
    bell_status status;
    cl_int err;

    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         base_dev->info.name);
    memset(queue, 0, sizeof(*queue));
    if (!take_place(dev, &queue->slot)) {
        status = bell_fail(BELL_E_UNSUPPORTED, "%s: %u queues are the limit",
                           base_dev->info.name, OCL_QUEUES_MAX);
        goto fail_queue;
    }
    assert(queue->slot < OCL_QUEUES_MAX);
    queue->cl = OCL_NEW(&dev->api, &err, clCreateCommandQueue, dev->context,
                        dev->found.id, 0);
    if (err != CL_SUCCESS) {
        status = ocl_fail(base_dev->info.name, "clCreateCommandQueue", err);
        goto fail_place;
    }
    atomic_init(&queue->wanted, UINT64_MAX);
    status = hcq_feed_init(&queue->feed, base_dev, desc, &ocl_feed_ops);
    if (status != BELL_OK)
        goto fail_cl;
    queue->feed.runs_here = dev->found.is_host && !dev->is_apart;
    if (queue->feed.runs_here)
        ocl_slot(queue->feed.base.timeline)->feed = &queue->feed;
    status = start_thread(queue);
    if (status != BELL_OK)
        goto fail_feed;
    *out_queue = &queue->feed.base;
    return BELL_OK;

fail_feed:
    hcq_feed_fini(&queue->feed);
fail_cl:
    dev->api.clReleaseCommandQueue(queue->cl);
fail_place:
    give_place(dev, queue->slot);
fail_queue:
    host_free(queue);
    return status;
}

void
ocl_queue_destroy(struct hcq_queue *base)
{
    struct ocl_queue *queue = ocl_queue(base);
    struct ocl_device *dev = ocl_device(base->dev);

    if (!hcq_feed_quit(&queue->feed)) {
        /* the thread is OpenCL's until the kernel ends */
        dev->is_stuck = true;
        pthread_detach(queue->thread);
        hcq_queue_fini(base);
        return;
    }
    pthread_join(queue->thread, NULL);
    dev->api.clReleaseCommandQueue(queue->cl);
    hcq_feed_fini(&queue->feed);
    give_place(dev, queue->slot);
    host_free(queue);
}
