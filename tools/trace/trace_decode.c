/* What a cassette's submissions say, as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "render/ir3/ir3_isa.h"
#include "tools/decode/decode_ir3.h"
#include "tools/trace/trace.h"

/* Types of CREATE_QUEUE; others are copy engines.
 * src: docs/hardware/amd-kernel.md, "Queues" */
#define KFD_QUEUE_TYPE_PM4 0u
#define KFD_QUEUE_TYPE_AQL 2u

/* The property of GETPROPERTY, the offset in its answer, and the parameter of
 * GET_PARAM. src: docs/hardware/adreno-kernel.md, "KGSL", "msm" */
#define KGSL_PROP_DEVICE_INFO 1u
#define KGSL_CHIP_ID_BYTE     4u
#define MSM_PARAM_CHIP_ID     3u

void
trace_decoder_init(struct trace_decoder *d, uint32_t branch, regs_line_fn *line,
                   void *user)
{
    memset(d, 0, sizeof(*d));
    d->branch = branch;
    decode_nv_init(&d->nv, line, user);
    d->amd = (struct decode_amd){.line = line, .user = user};
}

void
trace_decoder_say(struct trace_decoder *d, regs_line_fn *line)
{
    d->nv.stream.line = line;
    d->amd.line = line;
}

/* ---- NVIDIA ---- */

/* A channel says which card it is: where no object was seen yet, subchannels
 * are read as that card's. */
static void
assume_chip(struct trace_decoder *d, uint32_t gpfifo_class)
{
    const struct decode_nv_chip *chip;
    size_t i;

    for (i = 0; (chip = decode_nv_chip_at(i)) != NULL; i++) {
        if (chip->gpfifo_class != gpfifo_class || d->nv.compute_class)
            continue;
        (void)decode_nv_bind(&d->nv, chip->compute_class);
        (void)decode_nv_bind(&d->nv, chip->copy_class);
    }
}

/* An object that was made of a class with methods binds it, also where the
 * cassette lacks the SET_OBJECT. */
static void
learn_class(struct trace_decoder *d, const struct cas_record *record)
{
    const struct cas_blob *arg = cas_find(record, CAS_ARG_IN);
    struct kio_call_desc call;
    uint64_t nv_class;

    kio_describe((enum kio_dev)record->dev, d->branch,
                 (unsigned long)record->args[0], &call);
    if (!arg || !call.args || !kio_struct_field(call.args, "hClass"))
        return;
    nv_class = kio_struct_get(call.args, arg->data, arg->size_bytes, "hClass");
    (void)decode_nv_bind(&d->nv, (uint32_t)nv_class);
    assume_chip(d, (uint32_t)nv_class);
}

static unsigned
decode_nv_region(struct trace_decoder *d, const struct cas_blob *blob,
                 const uint32_t *words, uint32_t n_dw)
{
    if (blob->extra == KIO_REGION_RING)
        return decode_nv_ring(&d->nv, words, n_dw, blob->addr);
    if (blob->extra == KIO_REGION_PUSH)
        return decode_nv_push(&d->nv, words, n_dw);
    return decode_nv_qmd(&d->nv, words, n_dw, 0);
}

/* ---- AMD ---- */

/* A node of the topology says which chip it is: the first one that is known.
 * src: docs/hardware/amd-kernel.md, "Topology" */
static void
learn_chip(struct trace_decoder *d, const struct cas_record *record)
{
    static const char key[] = "gfx_target_version ";
    const struct cas_blob *blob = cas_find(record, CAS_CONTENTS);
    char text[4096], name[24];
    const char *at;
    unsigned long version;
    size_t n;

    if (!blob || d->amd.chip)
        return;
    n = blob->size_bytes < sizeof(text) ? blob->size_bytes : sizeof(text) - 1;
    memcpy(text, blob->data, n);
    text[n] = '\0';
    at = strstr(text, key);
    if (!at)
        return;
    version = strtoul(at + sizeof(key) - 1, NULL, 10);
    snprintf(name, sizeof(name), "gfx%lu%lx%lx", version / 10000,
             version / 100 % 100, version % 100);
    d->amd.chip = decode_amd_chip_find(name);
}

static void
learn_queue(struct trace_decoder *d, const struct cas_record *record)
{
    const struct cas_blob *arg = cas_find(record, CAS_ARG_IN);
    struct kio_call_desc call;
    struct trace_queue *queue;

    kio_describe((enum kio_dev)record->dev, d->branch,
                 (unsigned long)record->args[0], &call);
    if (!arg || !call.args || !kio_struct_field(call.args, "queue_type"))
        return;
    queue = &d->queues[d->n_queues++ % TRACE_QUEUES];
    queue->ring_va = kio_struct_get(call.args, arg->data, arg->size_bytes,
                                    "ring_base_address");
    queue->ring_bytes =
        kio_struct_get(call.args, arg->data, arg->size_bytes, "ring_size");
    queue->type = (uint32_t)kio_struct_get(call.args, arg->data,
                                           arg->size_bytes, "queue_type");
}

const struct trace_queue *
trace_queue_of(const struct trace_decoder *d, const struct cas_record *record)
{
    uint32_t i, k;

    if (!d->amd.chip)
        return NULL;
    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *blob = &record->blobs[i];

        if (blob->role != CAS_REGION || blob->extra != KIO_REGION_RING)
            continue;
        for (k = d->n_queues; k > 0 && d->n_queues - k < TRACE_QUEUES; k--) {
            const struct trace_queue *queue =
                &d->queues[(k - 1) % TRACE_QUEUES];

            if (blob->addr - queue->ring_va < queue->ring_bytes)
                return queue;
        }
    }
    return NULL;
}

static unsigned
decode_amd_region(struct trace_decoder *d, const struct trace_queue *queue,
                  const struct cas_blob *blob, const uint32_t *words,
                  uint32_t n_dw)
{
    if (queue->type == KFD_QUEUE_TYPE_AQL && blob->extra == KIO_REGION_RING)
        return decode_amd_aql(&d->amd, words, n_dw, blob->addr);
    if (queue->type == KFD_QUEUE_TYPE_PM4 || queue->type == KFD_QUEUE_TYPE_AQL)
        return decode_amd_pm4(&d->amd, words, n_dw);
    return decode_amd_sdma(&d->amd, words, n_dw);
}

/* ---- Adreno ---- */

/* An answer of the kernel names the chip. src: docs/hardware/adreno-kernel.md,
 * "KGSL", "msm" */
static void
learn_adreno(struct trace_decoder *d, const struct cas_record *record)
{
    const struct cas_blob *in = cas_find(record, CAS_ARG_IN);
    const struct cas_blob *out = cas_find(record, CAS_ARG_OUT);
    struct kio_call_desc call;
    uint64_t at, what;
    uint32_t i;

    kio_describe((enum kio_dev)record->dev, d->branch,
                 (unsigned long)record->args[0], &call);
    if (!in || !out || !call.args || record->result < 0)
        return;
    if (strcmp(call.name, "DRM_IOCTL_MSM_GET_PARAM") == 0) {
        what = kio_struct_get(call.args, in->data, in->size_bytes, "param");
        if (what == MSM_PARAM_CHIP_ID)
            d->adreno_id = (uint32_t)kio_struct_get(call.args, out->data,
                                                    out->size_bytes, "value");
    }
    if (strcmp(call.name, "IOCTL_KGSL_DEVICE_GETPROPERTY") != 0)
        return;
    what = kio_struct_get(call.args, in->data, in->size_bytes, "type");
    at = kio_struct_get(call.args, in->data, in->size_bytes, "value");
    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *blob = &record->blobs[i];

        if (what == KGSL_PROP_DEVICE_INFO && blob->role == CAS_ARG_OUT &&
            blob->addr == at && blob->size_bytes >= KGSL_CHIP_ID_BYTE + 4)
            memcpy(&d->adreno_id, blob->data + KGSL_CHIP_ID_BYTE, 4);
    }
}

static unsigned
decode_adreno_region(struct trace_decoder *d, const uint32_t *words,
                     uint32_t n_dw)
{
    return decode_pkt7(d->adreno_id >> 24 == 6 ? IR3_GEN_A6XX : IR3_GEN_A7XX,
                       words, n_dw, d->amd.line, d->amd.user);
}

/* ---- all ---- */

static void
decode_region(struct trace_decoder *d, const struct trace_queue *queue,
              const struct cas_blob *blob)
{
    uint32_t n_dw = blob->size_bytes / 4;
    uint32_t *words;

    if (blob->extra != KIO_REGION_RING && blob->extra != KIO_REGION_PUSH &&
        blob->extra != KIO_REGION_DESCRIPTOR)
        return;
    words = host_alloc(n_dw ? 4u * (size_t)n_dw : 1);
    if (!words) {
        d->nv.stream.line(d->nv.stream.user, "? no memory to decode it");
        return;
    }
    memcpy(words, blob->data, 4u * (size_t)n_dw);
    d->n_unknown += queue ? decode_amd_region(d, queue, blob, words, n_dw)
                    : d->adreno_id ? decode_adreno_region(d, words, n_dw)
                                   : decode_nv_region(d, blob, words, n_dw);
    host_free(words);
}

void
trace_decode(struct trace_decoder *d, const struct cas_record *record)
{
    const struct trace_queue *queue;
    uint32_t i;

    if (record->kind == CAS_READ)
        learn_chip(d, record);
    if (record->kind == CAS_IOCTL && record->dev == KIO_DEV_NV_CTL)
        learn_class(d, record);
    if (record->kind == CAS_IOCTL && record->dev == KIO_DEV_KFD)
        learn_queue(d, record);
    if (record->kind == CAS_IOCTL &&
        (record->dev == KIO_DEV_KGSL || record->dev == KIO_DEV_DRM))
        learn_adreno(d, record);
    if (record->kind != CAS_DOORBELL && record->kind != CAS_SAMPLE)
        return;
    queue = trace_queue_of(d, record);
    for (i = 0; i < record->n_blobs; i++) {
        if (record->blobs[i].role == CAS_REGION)
            decode_region(d, queue, &record->blobs[i]);
    }
}
