// The kernels behind tiled_attention().
#pragma once

#include "framework/kernels/cuda/attention/visibility.cuh"

namespace hexad::kernels::cuda {

template <class D>
struct ForwardOperands {
  HeadRows<D> out, q, k, v;
  sum_t<D>* log_sum_exp;  // [B S, H]
  Visible visible;
  AttentionSizes sizes;
  sum_t<D> scale;
};
template <class D>
struct BackwardOperands {
  HeadRows<D> dq, dk, dv, dout, q, k, v;
  const sum_t<D>*log_sum_exp, *mean;  // [B S, H]; mean = <dout, out>, the probabilities' mean of their gradients
  Visible visible;
  AttentionSizes sizes;
  sum_t<D> scale;
};

/// One i32 per tile: not zero if the plain kernel must repeat the tile. Tensor cores multiply hidden rows by zero,
/// which gives NaN if the row has an infinity or a NaN. Therefore the plain kernel, which skips hidden rows, repeats
/// every tile whose result has a NaN.
using Suspects = const int*;

/// Kernels for any type and head size. `only` selects tiles of 64 queries [B, H, tiles], or of keys [B, G, tiles];
/// nullptr: all.
template <class D>
void plain_forward(Stream& stream, const ForwardOperands<D>& operands, Suspects only);
template <class D>
void plain_backward_queries(Stream& stream, const BackwardOperands<D>& operands, Suspects only);
template <class D>
void plain_backward_keys(Stream& stream, const BackwardOperands<D>& operands, Suspects only);
/// Computes mean[B S, H] = <dout, out>.
template <class D>
void gradient_means(Stream& stream, sum_t<D>* mean, const HeadRows<D>& dout, const HeadRows<D>& out, int64_t tokens,
                    int heads, int size);

/// Kernels on tensor cores: bf16, head sizes in multiples of 8 up to 128, all rows on multiples of 16 bytes, scale > 0.
/// Each kernel writes its suspects.
inline constexpr int largest_tensor_head = 128;
void tensor_forward(Stream& stream, const ForwardOperands<__nv_bfloat16>& operands, int* suspects);
void tensor_backward_queries(Stream& stream, const BackwardOperands<__nv_bfloat16>& operands, int* suspects);
void tensor_backward_keys(Stream& stream, const BackwardOperands<__nv_bfloat16>& operands, int* suspects);

}  // namespace hexad::kernels::cuda
