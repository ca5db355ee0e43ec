/* Messages of onnx.proto, written field by field. */
#ifndef BELL_TESTS_UNIT_ONNX_WRITE_H
#define BELL_TESTS_UNIT_ONNX_WRITE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ROOM 8192

/* A message that is being written. */
struct msg {
    uint8_t bytes[ROOM];
    size_t n;
};

static inline void
put_varint(struct msg *m, uint64_t v)
{
    do {
        assert_true(m->n < ROOM);
        m->bytes[m->n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
}

static inline void
put_int(struct msg *m, unsigned field, int64_t v)
{
    put_varint(m, field << 3);
    put_varint(m, (uint64_t)v);
}

static inline void
put_raw(struct msg *m, const void *data, size_t n)
{
    assert_true(m->n + n <= ROOM);
    memcpy(m->bytes + m->n, data, n);
    m->n += n;
}

static inline void
put_bytes(struct msg *m, unsigned field, const void *data, size_t n)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, n);
    put_raw(m, data, n);
}

static inline void
put_text(struct msg *m, unsigned field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static inline void
put_msg(struct msg *m, unsigned field, const struct msg *part)
{
    put_bytes(m, field, part->bytes, part->n);
}

/* A ValueInfoProto of floats; a size of -1 is the name "n". UINT32_MAX axes: no
 * shape. */
static inline void
put_value(struct msg *graph, unsigned field, const char *name,
          const int64_t *dims, uint32_t ndim)
{
    struct msg shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0};
    struct msg info = {.n = 0};
    uint32_t i;

    for (i = 0; ndim != UINT32_MAX && i < ndim; i++) {
        struct msg dim = {.n = 0};

        if (dims[i] < 0)
            put_text(&dim, 2, "n");
        else
            put_int(&dim, 1, dims[i]);
        put_msg(&shape, 1, &dim);
    }
    put_int(&tensor, 1, 1);
    if (ndim != UINT32_MAX)
        put_msg(&tensor, 2, &shape);
    put_msg(&type, 1, &tensor);
    put_text(&info, 1, name);
    put_msg(&info, 2, &type);
    put_msg(graph, field, &info);
}

/* A TensorProto of n elements in one axis. */
static inline struct msg
make_tensor(const char *name, int64_t type, const void *data, size_t n_bytes,
            int64_t n)
{
    struct msg t = {.n = 0};

    if (n >= 0)
        put_int(&t, 1, n);
    put_int(&t, 2, type);
    put_text(&t, 8, name);
    put_bytes(&t, 9, data, n_bytes);
    return t;
}

/* A NodeProto: inputs and outputs are names between blanks. */
static inline struct msg
make_node(const char *op, const char *inputs, const char *outputs)
{
    struct msg node = {.n = 0};
    unsigned field;

    for (field = 1; field <= 2; field++) {
        const char *at = field == 1 ? inputs : outputs;

        for (; *at; at += strspn(at, " ")) {
            size_t n = strcspn(at, " ");

            put_bytes(&node, field, at, n);
            at += n;
        }
    }
    put_text(&node, 3, "here");
    put_text(&node, 4, op);
    return node;
}

static inline void
put_attr_int(struct msg *node, const char *name, int64_t v)
{
    struct msg attr = {.n = 0};

    put_text(&attr, 1, name);
    put_int(&attr, 3, v);
    put_int(&attr, 20, 2);
    put_msg(node, 5, &attr);
}

static inline void
put_attr_float(struct msg *node, const char *name, float v)
{
    struct msg attr = {.n = 0};
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    put_text(&attr, 1, name);
    put_varint(&attr, 2 << 3 | 5);
    put_raw(&attr, &bits, sizeof(bits));
    put_int(&attr, 20, 1);
    put_msg(node, 5, &attr);
}

#endif
