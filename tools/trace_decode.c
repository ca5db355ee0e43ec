/* What a cassette's submissions say, as text. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "tools/decode_nv.h"
#include "tools/trace.h"

void
trace_decoder_init(struct trace_decoder *d, uint32_t branch, regs_line_fn *line,
                   void *user)
{
    d->branch = branch;
    decode_nv_init(&d->nv, line, user);
}

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

static void
decode_region(struct trace_decoder *d, const struct cas_blob *blob)
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
    if (blob->extra == KIO_REGION_RING)
        d->n_unknown += decode_nv_ring(&d->nv, words, n_dw, blob->addr);
    else if (blob->extra == KIO_REGION_PUSH)
        d->n_unknown += decode_nv_push(&d->nv, words, n_dw);
    else
        d->n_unknown += decode_nv_qmd(&d->nv, words, n_dw, 0);
    host_free(words);
}

void
trace_decode(struct trace_decoder *d, const struct cas_record *record)
{
    uint32_t i;

    if (record->kind == CAS_IOCTL && record->dev == KIO_DEV_NV_CTL)
        learn_class(d, record);
    if (record->kind != CAS_DOORBELL && record->kind != CAS_SAMPLE)
        return;
    for (i = 0; i < record->n_blobs; i++) {
        if (record->blobs[i].role == CAS_REGION)
            decode_region(d, &record->blobs[i]);
    }
}
