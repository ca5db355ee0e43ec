/* DLPack: tensors of other libraries, and ours for them, in host memory.
 *
 * The structures are those of the DLPack specification, in our words: a program
 * that has dlpack.h as well casts pointers. In Python they travel in capsules
 * called "dltensor" (struct bell_dl_managed) and "dltensor_versioned" (struct
 * bell_dl_managed_versioned, since version 1.0).
 *
 * Values are copied in both directions. Who takes a managed tensor calls its
 * deleter, once.
 *
 * src: the C API page of the DLPack project, versions 0.2 to 1.1.
 */
#ifndef BELL_DOORBELL_DLPACK_H
#define BELL_DOORBELL_DLPACK_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BELL_DL_MAJOR 1u
#define BELL_DL_MINOR 1u

/* Where the memory is: kinds that the host can read. */
#define BELL_DL_CPU       1
#define BELL_DL_CUDA_HOST 3
#define BELL_DL_ROCM_HOST 11

/* What elements are, with their bits. */
#define BELL_DL_INT        0
#define BELL_DL_UINT       1
#define BELL_DL_FLOAT      2
#define BELL_DL_BFLOAT     4
#define BELL_DL_BOOL       6
#define BELL_DL_E4M3FN     10
#define BELL_DL_E4M3FNUZ   11
#define BELL_DL_E5M2       12
#define BELL_DL_E5M2FNUZ   13
#define BELL_DL_READ_ONLY  1ull
#define BELL_DL_WAS_COPIED 2ull

/* A view of memory. */
struct bell_dl_tensor {
    void *data;
    struct {
        int32_t kind, number;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
};

/* With what owns it, until version 1.0. */
struct bell_dl_managed {
    struct bell_dl_tensor tensor;
    void *owner;
    void (*deleter)(struct bell_dl_managed *self); /* may be NULL */
};

/* The same since. */
struct bell_dl_managed_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *owner;
    void (*deleter)(struct bell_dl_managed_versioned *self); /* may be NULL */
    uint64_t flags;
    struct bell_dl_tensor tensor;
};

/* A tensor of those values, of any strides. Takes `managed`: its deleter was
 * called when this returns, after a failure too. BELL_E_UNSUPPORTED: memory of
 * a device, or elements that tensors lack. */
BELL_API struct bell_tensor *bell_from_dlpack(struct bell_context *ctx,
                                              struct bell_dl_managed *managed);
/* The same of a versioned one. */
BELL_API struct bell_tensor *
bell_from_dlpack_versioned(struct bell_context *ctx,
                           struct bell_dl_managed_versioned *managed);

/* Computes `t`, waits, and gives a copy, row-major and aligned to 256 bytes,
 * that lives until its deleter is called: also after the context. */
BELL_API BELL_MUST_CHECK bell_status
bell_to_dlpack(struct bell_tensor *t, struct bell_dl_managed **out_managed);
/* The same as a versioned one. */
BELL_API BELL_MUST_CHECK bell_status bell_to_dlpack_versioned(
    struct bell_tensor *t, struct bell_dl_managed_versioned **out_managed);

#ifdef __cplusplus
}
#endif
#endif
