/* Element types of ONNX, and those of tensors. */
#include "tensor/onnx/graph.h"

#include "base/bits.h"

static const struct {
    const char *name;
    enum bell_dtype dtype;
} types[ONNX_TYPE_COUNT] = {
    [ONNX_UNDEFINED] = {"undefined", BELL_DEFAULT},
    [ONNX_FLOAT] = {"float", BELL_FLOAT32},
    [ONNX_UINT8] = {"uint8", BELL_UINT8},
    [ONNX_INT8] = {"int8", BELL_INT8},
    [ONNX_UINT16] = {"uint16", BELL_UINT16},
    [ONNX_INT16] = {"int16", BELL_INT16},
    [ONNX_INT32] = {"int32", BELL_INT32},
    [ONNX_INT64] = {"int64", BELL_INT64},
    [ONNX_STRING] = {"string", BELL_DEFAULT},
    [ONNX_BOOL] = {"bool", BELL_BOOL},
    [ONNX_FLOAT16] = {"float16", BELL_FLOAT16},
    [ONNX_DOUBLE] = {"double", BELL_FLOAT64},
    [ONNX_UINT32] = {"uint32", BELL_UINT32},
    [ONNX_UINT64] = {"uint64", BELL_UINT64},
    [ONNX_COMPLEX64] = {"complex64", BELL_DEFAULT},
    [ONNX_COMPLEX128] = {"complex128", BELL_DEFAULT},
    [ONNX_BFLOAT16] = {"bfloat16", BELL_BFLOAT16},
    [ONNX_FLOAT8E4M3FN] = {"float8e4m3fn", BELL_FLOAT8_E4M3FN},
    [ONNX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", BELL_FLOAT8_E4M3FNUZ},
    [ONNX_FLOAT8E5M2] = {"float8e5m2", BELL_FLOAT8_E5M2},
    [ONNX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", BELL_FLOAT8_E5M2FNUZ},
    [ONNX_UINT4] = {"uint4", BELL_DEFAULT},
    [ONNX_INT4] = {"int4", BELL_DEFAULT},
    [ONNX_FLOAT4E2M1] = {"float4e2m1", BELL_DEFAULT},
    [ONNX_FLOAT8E8M0] = {"float8e8m0", BELL_DEFAULT},
    [ONNX_UINT2] = {"uint2", BELL_DEFAULT},
    [ONNX_INT2] = {"int2", BELL_DEFAULT},
};

bell_status
onnx_no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory for a model");
}

enum bell_dtype
onnx_dtype(uint32_t type)
{
    return type < ONNX_TYPE_COUNT ? types[type].dtype : BELL_DEFAULT;
}

const char *
onnx_type_name(uint32_t type)
{
    return type < ONNX_TYPE_COUNT ? types[type].name : "unknown";
}

enum onnx_type
onnx_type_of(enum bell_dtype dtype)
{
    uint32_t i;

    for (i = 1; i < ONNX_TYPE_COUNT; i++) {
        if (types[i].dtype == dtype && dtype != BELL_DEFAULT)
            return (enum onnx_type)i;
    }
    return ONNX_UNDEFINED;
}
