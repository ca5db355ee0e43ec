/* The wire format of protocol buffers: fields of a message, one after the
 * other, in the caller's memory. Nothing is copied and nothing allocated.
 * src: protobuf.dev, "Encoding" (varints, wire types 0, 1, 2, 5). Groups, wire
 * types 3 and 4, are refused: ONNX has none.
 */
#ifndef BELL_TENSOR_ONNX_WIRE_H
#define BELL_TENSOR_ONNX_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum wire_kind {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
};

/* A message that is being read; zero-initialized, it is empty. */
struct wire {
    const uint8_t *at, *end;
    bool bad; /* sticky: it was damaged where reading ended */
};

/* A field of it. */
struct wire_field {
    uint32_t number;
    enum wire_kind kind;
    uint64_t value;      /* of VARINT, FIXED64 and FIXED32 */
    const uint8_t *data; /* of BYTES, in the message */
    uint64_t n_bytes;
};

/* The next field; false at the end of the message, and where it is damaged. */
bool wire_next(struct wire *wire, struct wire_field *out_field);
/* A varint; 0, and bad, where there is none. */
uint64_t wire_varint(struct wire *wire);

/* A field's bytes as a message; none where the field is not of bytes. */
static inline struct wire
wire_of(const struct wire_field *field)
{
    static const uint8_t none[1];
    const uint8_t *at = field->data ? field->data : none;
    struct wire wire = {at, at + (field->data ? field->n_bytes : 0), false};

    return wire;
}

/* How many fields of that number the message has; its reading is not moved. */
uint64_t wire_count(struct wire wire, uint32_t number);
/* The same of numbers, which may be packed; `kind` is how one lies alone. */
uint64_t wire_count_numbers(struct wire wire, uint32_t number,
                            enum wire_kind kind);
/* The numbers of a field, packed or one alone: up to n of them. Returns how
 * many, or UINT64_MAX where it is damaged. */
uint64_t wire_numbers(const struct wire_field *field, enum wire_kind kind,
                      uint64_t *out, uint64_t n);

static inline float
wire_float(uint64_t value)
{
    uint32_t bits = (uint32_t)value;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

#endif
