/* Memory of tensors at several places, and the host's way to it. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/runtime/mesh_places.h"

/* The axes of the mesh that split a buffer, the outermost first. */
struct mesh_parts {
    const struct tensor_mesh *mesh;
    uint32_t order[BELL_MESH_AXES], n;
    struct tensor_part list[BELL_MESH_AXES]; /* theirs, in that order */
};

static void
find_parts(const struct tensor_mesh *mesh, const struct tensor_buffer *buf,
           struct mesh_parts *out)
{
    uint32_t k, i;

    *out = (struct mesh_parts){.mesh = mesh};
    for (k = 0; k < mesh->n_axes; k++) {
        if (!buf->parts[k].chunk)
            continue;
        for (i = out->n; i > 0 && out->list[i - 1].chunk < buf->parts[k].chunk;
             i--) {
            out->list[i] = out->list[i - 1];
            out->order[i] = out->order[i - 1];
        }
        out->list[i] = buf->parts[k];
        out->order[i] = k;
        out->n++;
    }
}

uint64_t
mesh_place_bytes(const struct tensor_mesh *mesh,
                 const struct tensor_buffer *buf)
{
    uint64_t n = buf->size_bytes;
    struct mesh_parts parts;
    uint32_t i;

    find_parts(mesh, buf, &parts);
    for (i = 0; i < parts.n; i++) { /* blocks of the inner ones stay whole */
        assert(n % parts.list[i].block == 0);
        n = n / parts.list[i].block * parts.list[i].chunk;
    }
    return n;
}

/* Whether the place has element `at` of the whole, and in its part *out_at. */
static bool
has_element(const struct mesh_parts *parts, uint32_t place, uint64_t at,
            uint64_t *out_at)
{
    uint32_t i;

    for (i = 0; i < parts->n; i++) {
        const struct tensor_part *p = &parts->list[i];
        uint64_t in_block = at % p->block;

        if (in_block / p->chunk !=
            mesh_coord(parts->mesh, parts->order[i], place))
            return false;
        at = at / p->block * p->chunk + in_block % p->chunk;
    }
    *out_at = at;
    return true;
}

/* Between the whole and the part of a place, both on the host, by runs of
 * elements that lie together in both. */
static void
copy_part(const struct mesh_parts *parts, uint32_t place,
          const struct tensor_buffer *buf, uint8_t *whole, uint8_t *part,
          bool to_part)
{
    const struct tensor_part *last = &parts->list[parts->n - 1];
    size_t elem = uop_dtype_infos[buf->dtype].size_bytes;
    uint64_t run, at, there;

    assert(parts->n > 0);
    for (at = 0; at < buf->n_elems; at += run) {
        uint64_t in_block = at % last->block;

        run = last->chunk - in_block % last->chunk;
        if (run > last->block - in_block)
            run = last->block - in_block;
        if (!has_element(parts, place, at, &there))
            continue;
        if (to_part)
            memcpy(part + there * elem, whole + at * elem, run * elem);
        else
            memcpy(whole + at * elem, part + there * elem, run * elem);
    }
}

static struct hcq_buffer *
memory_at(const struct tensor_buffer *buf, uint32_t place)
{
    return place ? buf->others[place - 1] : buf->device_mem;
}

bell_status
mesh_memory_alloc(struct rt_places *places, struct tensor_buffer *buf)
{
    uint64_t n_bytes = mesh_place_bytes(buf->ctx->mesh, buf), busy;
    bell_status status = BELL_OK;
    uint32_t i;

    buf->others = host_calloc(places->n, sizeof(struct hcq_buffer *));
    if (!buf->others)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a buffer");
    for (i = 0; i < places->n && status == BELL_OK; i++)
        status =
            rt_memory_create(places->list[i], n_bytes,
                             i ? &buf->others[i - 1] : &buf->device_mem, &busy);
    if (status != BELL_OK)
        mesh_memory_free(places, buf);
    return status;
}

void
mesh_memory_free(struct rt_places *places, struct tensor_buffer *buf)
{
    uint32_t i;

    for (i = 0; i < places->n; i++)
        rt_bury(places->list[i], memory_at(buf, i));
    host_free(buf->others);
    buf->others = NULL;
    buf->device_mem = NULL;
}

/* Does the place have what an earlier one has? */
static bool
is_again(const struct tensor_mesh *mesh, const struct tensor_buffer *buf,
         uint32_t place)
{
    uint32_t k;

    for (k = 0; k < mesh->n_axes; k++) {
        if (!buf->parts[k].chunk && mesh_coord(mesh, k, place) &&
            !tensor_part_is_terms(&buf->parts[k]))
            return true;
    }
    return false;
}

/* Is the place the first of those that have terms of the same elements? */
static bool
is_first_term(const struct tensor_mesh *mesh, const struct tensor_buffer *buf,
              uint32_t place)
{
    uint32_t k;

    for (k = 0; k < mesh->n_axes; k++) {
        if (tensor_part_is_terms(&buf->parts[k]) && mesh_coord(mesh, k, place))
            return false;
    }
    return true;
}

/* Memory that was another's may still be used by what is queued: all of that is
 * waited for. */
bell_status
mesh_memory_write(struct rt_places *places, const struct tensor_mesh *mesh,
                  struct tensor_buffer *buf, const void *src)
{
    uint64_t n_bytes = mesh_place_bytes(mesh, buf);
    uint8_t *part = NULL;
    bell_status status = BELL_OK;
    struct mesh_parts parts;
    uint32_t i;

    find_parts(mesh, buf, &parts);
    if (parts.n) {
        part = host_calloc(1, n_bytes + 1); /* 0 beyond the last element */
        if (!part)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory writing");
    }
    for (i = 0; i < places->n && status == BELL_OK; i++) {
        if (parts.n)
            copy_part(&parts, i, buf, (uint8_t *)(uintptr_t)src, part, true);
        assert(is_first_term(mesh, buf, i)); /* nobody writes terms */
        status = rt_wait(places->list[i], places->list[i]->last_value);
        if (status == BELL_OK)
            status = hcq_buffer_write(memory_at(buf, i), 0,
                                      parts.n ? part : src, n_bytes);
        places->list[0]->stats.written_bytes += n_bytes;
    }
    host_free(part);
    return status;
}

bell_status
mesh_memory_settle(struct tensor_buffer *buf)
{
    struct rt_places *places = buf->ctx->runtime->places;
    const void *data = buf->held_by ? buf->held_by->held : buf->held;
    bell_status status;

    if (!data)
        return BELL_OK;
    BELL_TRY(mesh_memory_alloc(places, buf));
    status = mesh_memory_write(places, buf->ctx->mesh, buf, data);
    if (status != BELL_OK) {
        mesh_memory_free(places, buf);
        return status;
    }
    host_free(buf->held);
    buf->held = NULL;
    buf->held_by = NULL;
    return BELL_OK;
}

/* Adds the n elements at `from` to those at `sum`, which are of that dtype, or,
 * of a narrower float, float32; the first ones are copied. */
static void
add_terms(enum uop_dtype dtype, void *sum, const uint8_t *from, uint64_t n,
          bool is_first)
{
    size_t elem = uop_dtype_infos[dtype].size_bytes;
    uint64_t i, bits;
    double term;

    assert(uop_dtype_infos[dtype].is_float);
    for (i = 0; i < n; i++) {
        bits = 0;
        memcpy(&bits, from + i * elem, elem);
        term = uop_float_value(dtype, bits);
        if (is_first && dtype == UOP_F64)
            ((double *)sum)[i] = term;
        else if (is_first)
            ((float *)sum)[i] = (float)term;
        else if (dtype == UOP_F64)
            ((double *)sum)[i] += term;
        else
            ((float *)sum)[i] += (float)term;
    }
}

static void
round_terms(enum uop_dtype dtype, const void *sum, uint8_t *out, uint64_t n)
{
    size_t elem = uop_dtype_infos[dtype].size_bytes;
    uint64_t i, bits;

    for (i = 0; i < n; i++) {
        bits = uop_float_bits(dtype, dtype == UOP_F64
                                         ? ((const double *)sum)[i]
                                         : (double)((const float *)sum)[i]);
        memcpy(out + i * elem, &bits, elem);
    }
}

/* A place's part, added to that of all other places that have terms of it: in
 * the order of places, as collectives do. `part` and `sum` have room. */
static bell_status
read_part(struct rt_places *places, const struct tensor_mesh *mesh,
          struct tensor_buffer *buf, uint32_t place, uint64_t n_bytes,
          void *part, void *sum)
{
    uint64_t n = n_bytes / uop_dtype_infos[buf->dtype].size_bytes;
    uint32_t i, k;

    for (i = place; i < (sum ? places->n : place + 1); i++) {
        bool is_term = true;

        for (k = 0; k < mesh->n_axes; k++)
            is_term &= tensor_part_is_terms(&buf->parts[k]) ||
                       mesh_coord(mesh, k, i) == mesh_coord(mesh, k, place);
        if (!is_term)
            continue;
        BELL_TRY(rt_wait(places->list[i], places->list[i]->last_value));
        BELL_TRY(hcq_buffer_read(memory_at(buf, i), 0, part, n_bytes));
        if (sum)
            add_terms(buf->dtype, sum, part, n, i == place);
    }
    if (sum)
        round_terms(buf->dtype, sum, part, n);
    return BELL_OK;
}

/* Places that have the same part as an earlier one are not asked. */
bell_status
mesh_memory_read(struct rt_places *places, const struct tensor_mesh *mesh,
                 struct tensor_buffer *buf, void *dst)
{
    uint64_t n_bytes = mesh_place_bytes(mesh, buf);
    uint8_t *part = NULL;
    void *sum = NULL;
    bell_status status = BELL_OK;
    struct mesh_parts parts;
    bool has_terms = false;
    uint32_t i;

    find_parts(mesh, buf, &parts);
    for (i = 0; i < mesh->n_axes; i++)
        has_terms |= tensor_part_is_terms(&buf->parts[i]);
    if (parts.n)
        part = host_alloc(n_bytes + 1);
    if (has_terms)
        sum = host_alloc(n_bytes / uop_dtype_infos[buf->dtype].size_bytes *
                             sizeof(double) +
                         1);
    if ((parts.n && !part) || (has_terms && !sum))
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory reading");
    for (i = 0; i < places->n && status == BELL_OK; i++) {
        if (is_again(mesh, buf, i) || !is_first_term(mesh, buf, i))
            continue;
        status =
            read_part(places, mesh, buf, i, n_bytes, parts.n ? part : dst, sum);
        if (status == BELL_OK && parts.n)
            copy_part(&parts, i, buf, dst, part, false);
    }
    host_free(part);
    host_free(sum);
    return status;
}
