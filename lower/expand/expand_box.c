/* TMA_COPYs: a tile for WGMMA that lies in its buffer as rows of whole 16 bytes
 * is copied by one thread, a box of rows at a time. All of it must be there: a
 * TMA_COPY cannot leave out what a LOAD's gate or clamps do. */
#include "lower/expand/expand_internal.h"

#include "uops/wmma.h"

#define PART_BYTES 16

/* Elements of a row of the tile. */
static int64_t
row_elems(const struct expand_stage *s)
{
    return UOP_WGMMA_ROW_BYTES / uop_dtype_infos[s->dtype].size_bytes;
}

int64_t
expand_box_stride(const struct expand *e, const struct expand_stage *s)
{
    const struct kernel *k = e->k;
    int64_t size = uop_dtype_infos[s->dtype].size_bytes, stride = 0;
    uint32_t i;

    if (!k->matrix.wgmma || !k->target->has_boxes || s->load->n_src > 2 ||
        s->dtype != s->load->dtype)
        return 0;
    for (i = 0; i < s->n_dims; i++) {
        uint32_t r = s->dims[i].range;
        int64_t coef = kernel_coef(k, s->load->src[1], r);
        int64_t by = s->dims[i].weight;
        bool along = (k->reduce_ranges >> r & 1) == s->along;
        if (coef <= 0 || coef % by || (along && coef != by) ||
            (!along && stride && coef != stride * by))
            return 0;
        if (!along)
            stride = coef / by;
    }
    return stride >= row_elems(s) && stride * size % PART_BYTES == 0 ? stride
                                                                     : 0;
}

/* The LOAD's index where the tile begins. */
static bell_status
find_origin(struct expand *e, const struct expand_stage *s,
            const struct uop *tile, const struct uop **out)
{
    const struct uop *value[KERNEL_MAX_RANGES];
    uint32_t i;

    for (i = 0; i < e->k->n_ranges; i++)
        value[i] = e->base[i];
    for (i = 0; i < s->n_dims; i++)
        value[s->dims[i].range] = expand_num(e, 0);
    value[e->tile_loop] = tile;
    *out = s->load->src[1];
    return uop_substitute(e->g, out, 1, e->k->ranges, value, e->k->n_ranges);
}

bell_status
expand_add_boxes(struct expand *e, const struct expand_stage *s,
                 const struct uop *tile, const struct uop *gate,
                 const struct uop *half, struct expand_stores *stores)
{
    int64_t row = row_elems(s), n_rows = s->along ? s->size / row : row, i;
    const struct uop *src[6], *origin;

    BELL_TRY(find_origin(e, s, tile, &origin));
    src[0] = s->memory;
    src[2] = s->load->src[0];
    src[4] = expand_num(e, s->box_stride);
    src[5] = expand_op_num(e, UOP_CMPLT, e->tid, 1);
    if (gate)
        src[5] = uop_alu2(e->g, UOP_AND, src[5], gate);
    for (i = 0; i < s->size; i += n_rows * row) {
        struct expand_store *store = &stores->v[stores->n++];
        src[1] = expand_op_num(e, UOP_ADD, half, i);
        src[3] = expand_op_num(e, UOP_ADD, origin, i / n_rows);
        *store = (struct expand_store){
            .memory = s->memory, .index = src[1], .value = s->load};
        store->made = uop_new(e->g, UOP_TMA_COPY, UOP_VOID, 1,
                              (union uop_arg){.i = n_rows}, src, 6);
    }
    return uop_graph_status(e->g);
}
