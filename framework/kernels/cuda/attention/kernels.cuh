// Kernels that tiled_attention() launches.
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
  const sum_t<D>*log_sum_exp, *mean;  // [B S, H]; mean = <dout, out>: sum over keys of probability * its gradient
  Visible visible;
  AttentionSizes sizes;
  sum_t<D> scale;
};

/// One i32 per tile; nonzero if the plain kernel must recompute the tile. Tensor cores multiply masked rows by zero.
/// The products are NaN if a masked row contains an infinity or a NaN. Therefore the plain kernel, which skips masked
/// rows, recomputes every tile whose result contains a NaN.
using Suspects = const int*;

/// Kernels for every element type and head size. `only` marks the tiles to compute: tiles of 64 queries [B, H, tiles]
/// or of 64 keys [B, G, tiles]. If `only` is null, all tiles are computed.
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

/// Kernels on tensor cores. They require bf16, a head size that is a multiple of 8 and at most 128, rows at multiples
/// of 16 bytes, and scale > 0. Each kernel writes `suspects` for its tiles.
inline constexpr int largest_tensor_head = 128;
void tensor_forward(Stream& stream, const ForwardOperands<__nv_bfloat16>& operands, int* suspects);
void tensor_backward_queries(Stream& stream, const BackwardOperands<__nv_bfloat16>& operands, int* suspects);
void tensor_backward_keys(Stream& stream, const BackwardOperands<__nv_bfloat16>& operands, int* suspects);

}  // namespace hexad::kernels::cuda
