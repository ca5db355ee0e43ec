/* Fields of protocol buffers. */
#include "tensor/onnx/wire.h"

static size_t
count_left(const struct wire *wire)
{
    return (size_t)(wire->end - wire->at);
}

uint64_t
wire_varint(struct wire *wire)
{
    uint64_t value = 0;
    unsigned shift;

    for (shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            if (shift == 63 && byte > 1)
                break;
            return value;
        }
    }
    wire->bad = true;
    wire->at = wire->end;
    return 0;
}

static bool
read_fixed(struct wire *wire, size_t n_bytes, uint64_t *out_value)
{
    if (count_left(wire) < n_bytes) {
        wire->bad = true;
        wire->at = wire->end;
        return false;
    }
    *out_value = 0;
    memcpy(out_value, wire->at, n_bytes);
    wire->at += n_bytes;
    return true;
}

bool
wire_next(struct wire *wire, struct wire_field *out_field)
{
    uint64_t key;

    if (wire->at >= wire->end)
        return false;
    memset(out_field, 0, sizeof(*out_field));
    key = wire_varint(wire);
    out_field->number = (uint32_t)(key >> 3);
    out_field->kind = (enum wire_kind)(key & 7);
    if (wire->bad || key >> 3 == 0 || key >> 3 >= 1u << 29) {
        wire->bad = true;
        return false;
    }
    switch (key & 7) {
    case WIRE_VARINT:
        out_field->value = wire_varint(wire);
        return !wire->bad;
    case WIRE_FIXED64:
        return read_fixed(wire, 8, &out_field->value);
    case WIRE_FIXED32:
        return read_fixed(wire, 4, &out_field->value);
    case WIRE_BYTES:
        out_field->n_bytes = wire_varint(wire);
        if (!wire->bad && out_field->n_bytes <= count_left(wire)) {
            out_field->data = wire->at;
            wire->at += out_field->n_bytes;
            return true;
        }
        break;
    default:
        break;
    }
    wire->bad = true;
    wire->at = wire->end;
    return false;
}

uint64_t
wire_count(struct wire wire, uint32_t number)
{
    struct wire_field field;
    uint64_t n = 0;

    while (wire_next(&wire, &field))
        n += field.number == number;
    return n;
}

uint64_t
wire_numbers(const struct wire_field *field, enum wire_kind kind, uint64_t *out,
             uint64_t n)
{
    struct wire wire = wire_of(field);
    uint64_t i = 0, value;

    if (field->kind != WIRE_BYTES) {
        if (field->kind != kind)
            return UINT64_MAX;
        if (out && n)
            out[0] = field->value;
        return 1;
    }
    for (; wire.at < wire.end && !wire.bad; i++) {
        value = 0;
        if (kind == WIRE_VARINT)
            value = wire_varint(&wire);
        else
            read_fixed(&wire, kind == WIRE_FIXED32 ? 4 : 8, &value);
        if (out && i < n)
            out[i] = value;
    }
    return wire.bad ? UINT64_MAX : i;
}

uint64_t
wire_count_numbers(struct wire wire, uint32_t number, enum wire_kind kind)
{
    struct wire_field field;
    uint64_t n = 0, here;

    while (wire_next(&wire, &field)) {
        here = field.number == number ? wire_numbers(&field, kind, NULL, 0) : 0;
        if (here == UINT64_MAX)
            return 0;
        n += here;
    }
    return n;
}
