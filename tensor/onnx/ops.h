/* The functions that rows.c names. Each runs its node in op->ctx and sets its
 * outputs. */
#ifndef BELL_TENSOR_ONNX_OPS_H
#define BELL_TENSOR_ONNX_OPS_H

#include "tensor/onnx/op.h"

onnx_fn onnx_op_affine_grid;
onnx_fn onnx_op_arg;
onnx_fn onnx_op_arithmetic;
onnx_fn onnx_op_attention;
onnx_fn onnx_op_average_pool;
onnx_fn onnx_op_batch_norm;
onnx_fn onnx_op_bernoulli;
onnx_fn onnx_op_bias_gelu;
onnx_fn onnx_op_bit_shift;
onnx_fn onnx_op_bitcast;
onnx_fn onnx_op_cast;
onnx_fn onnx_op_cast_like;
onnx_fn onnx_op_causal_conv;
onnx_fn onnx_op_center_crop_pad;
onnx_fn onnx_op_clip;
onnx_fn onnx_op_col2im;
onnx_fn onnx_op_compress;
onnx_fn onnx_op_concat;
onnx_fn onnx_op_concat_from_sequence;
onnx_fn onnx_op_constant;
onnx_fn onnx_op_constant_of_shape;
onnx_fn onnx_op_conv;
onnx_fn onnx_op_conv_integer;
onnx_fn onnx_op_conv_transpose;
onnx_fn onnx_op_cumulate;
onnx_fn onnx_op_deform_conv;
onnx_fn onnx_op_depth_to_space;
onnx_fn onnx_op_dequantize;
onnx_fn onnx_op_dft;
onnx_fn onnx_op_dropout;
onnx_fn onnx_op_dynamic_matmul;
onnx_fn onnx_op_dynamic_quantize;
onnx_fn onnx_op_einsum;
onnx_fn onnx_op_embed_layer_norm;
onnx_fn onnx_op_expand;
onnx_fn onnx_op_eye_like;
onnx_fn onnx_op_flatten;
onnx_fn onnx_op_flex_attention;
onnx_fn onnx_op_fused_conv;
onnx_fn onnx_op_fused_gemm;
onnx_fn onnx_op_fused_matmul;
onnx_fn onnx_op_gather;
onnx_fn onnx_op_gather_elements;
onnx_fn onnx_op_gather_nd;
onnx_fn onnx_op_gemm;
onnx_fn onnx_op_global_pool;
onnx_fn onnx_op_grid_sample;
onnx_fn onnx_op_group_norm;
onnx_fn onnx_op_group_query_attention;
onnx_fn onnx_op_hard_sigmoid;
onnx_fn onnx_op_identity;
onnx_fn onnx_op_if;
onnx_fn onnx_op_instance_norm;
onnx_fn onnx_op_isinf;
onnx_fn onnx_op_layer_norm;
onnx_fn onnx_op_linear_attention;
onnx_fn onnx_op_loop;
onnx_fn onnx_op_lp_normalization;
onnx_fn onnx_op_lp_pool;
onnx_fn onnx_op_lrn;
onnx_fn onnx_op_matmul_integer;
onnx_fn onnx_op_matmul_nbits;
onnx_fn onnx_op_matmul_to_float;
onnx_fn onnx_op_max_pool;
onnx_fn onnx_op_max_unpool;
onnx_fn onnx_op_mean_variance_norm;
onnx_fn onnx_op_mel_weights;
onnx_fn onnx_op_mod;
onnx_fn onnx_op_multi_head_attention;
onnx_fn onnx_op_nll_loss;
onnx_fn onnx_op_nms;
onnx_fn onnx_op_nonzero;
onnx_fn onnx_op_one_hot;
onnx_fn onnx_op_optional_get;
onnx_fn onnx_op_optional_has;
onnx_fn onnx_op_packed_attention;
onnx_fn onnx_op_pad;
onnx_fn onnx_op_pow;
onnx_fn onnx_op_prelu;
onnx_fn onnx_op_qgemm;
onnx_fn onnx_op_qlinear_binary;
onnx_fn onnx_op_qlinear_concat;
onnx_fn onnx_op_qlinear_conv;
onnx_fn onnx_op_qlinear_matmul;
onnx_fn onnx_op_qlinear_unary;
onnx_fn onnx_op_qlinear_where;
onnx_fn onnx_op_quantize;
onnx_fn onnx_op_quick_gelu;
onnx_fn onnx_op_random;
onnx_fn onnx_op_range;
onnx_fn onnx_op_recurrent;
onnx_fn onnx_op_reduce;
onnx_fn onnx_op_reshape;
onnx_fn onnx_op_resize;
onnx_fn onnx_op_reverse_sequence;
onnx_fn onnx_op_rms_norm;
onnx_fn onnx_op_roi_align;
onnx_fn onnx_op_rotary;
onnx_fn onnx_op_rotary_cached;
onnx_fn onnx_op_scan;
onnx_fn onnx_op_scatter_elements;
onnx_fn onnx_op_scatter_nd;
onnx_fn onnx_op_selu;
onnx_fn onnx_op_sequence_at;
onnx_fn onnx_op_sequence_construct;
onnx_fn onnx_op_sequence_empty;
onnx_fn onnx_op_sequence_erase;
onnx_fn onnx_op_sequence_insert;
onnx_fn onnx_op_sequence_length;
onnx_fn onnx_op_sequence_map;
onnx_fn onnx_op_shape;
onnx_fn onnx_op_shrink;
onnx_fn onnx_op_size;
onnx_fn onnx_op_skip_layer_norm;
onnx_fn onnx_op_slice;
onnx_fn onnx_op_softmax;
onnx_fn onnx_op_space_to_depth;
onnx_fn onnx_op_split;
onnx_fn onnx_op_split_to_sequence;
onnx_fn onnx_op_squeeze;
onnx_fn onnx_op_stft;
onnx_fn onnx_op_swiglu;
onnx_fn onnx_op_swish;
onnx_fn onnx_op_tensor_scatter;
onnx_fn onnx_op_thresholded_relu;
onnx_fn onnx_op_tile;
onnx_fn onnx_op_top_k;
onnx_fn onnx_op_transpose;
onnx_fn onnx_op_trilu;
onnx_fn onnx_op_unique;
onnx_fn onnx_op_unsqueeze;
onnx_fn onnx_op_variadic;
onnx_fn onnx_op_window;

/* The shape of input i, which is not read. */
BELL_MUST_CHECK bell_status op_shape(struct onnx_op *op, uint32_t i,
                                     const int64_t **out_shape,
                                     uint32_t *out_ndim);
/* x to an 8-bit float, as output 0; beyond its range as the node says. */
BELL_MUST_CHECK bell_status op_cast_float8(struct onnx_op *op,
                                           struct bell_tensor *x,
                                           enum bell_dtype dtype);
/* The convolution that the node's attributes say; NULL: the failure is in the
 * thread's record. */
struct bell_tensor *op_conv(struct onnx_op *op, struct bell_tensor *x,
                            struct bell_tensor *weight,
                            struct bell_tensor *bias);
/* The average pool that the node's attributes say. */
BELL_MUST_CHECK bell_status op_average_pool(struct onnx_op *op,
                                            struct bell_tensor *x,
                                            struct bell_tensor **out);
/* y by the activation of that name, of numbers a and b. */
BELL_MUST_CHECK bell_status op_activate(struct bell_tensor *y, const char *name,
                                        double a, double b,
                                        struct bell_tensor **out);

/* [batch, length, heads size] as [batch, heads, length, size]. */
struct bell_tensor *op_make_heads(struct bell_tensor *x, int64_t heads);
/* The first n elements of x's last axis, rotated in pairs by angles of cosines
 * c and sines s: pairs are neighbours, or are n / 2 apart. */
struct bell_tensor *op_rotate(struct bell_tensor *x, struct bell_tensor *c,
                              struct bell_tensor *s, int64_t n,
                              bool interleaved);

/* round(x) + zero, within the range of an integer type. `zero` may be NULL. */
struct bell_tensor *op_to_range(struct bell_tensor *x, struct bell_tensor *zero,
                                uint32_t type);
/* x - zero in int32; `i` is the zero's input, `axis` the one that several are
 * of. */
struct bell_tensor *op_centered(struct onnx_op *op, struct bell_tensor *x,
                                uint32_t i, int64_t axis);
/* x as uint8 by the range of its values and 0, with its scale and zero. */
void op_quantise_by_range(struct onnx_op *op, struct bell_tensor *x,
                          struct bell_tensor **out,
                          struct bell_tensor **out_scale,
                          struct bell_tensor **out_zero);

#endif
