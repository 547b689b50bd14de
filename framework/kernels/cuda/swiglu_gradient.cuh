// Gradient of SwiGLU for a few adjacent elements, in registers.
#pragma once

#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

/// Computes the gradients of N adjacent elements. Results may overwrite operands, because all N elements are read
/// before any result is written.
template <class D, int N>
struct SwigluGradientItem {
  using A = sum_t<D>;
  Words<D, N> dout, gate, up;

  __device__ __forceinline__ void read(const D* dout_at, const D* gate_at, const D* up_at) {
    dout = load_words<N>(dout_at);
    gate = load_words<N>(gate_at);
    up = load_words<N>(up_at);
  }
  /// Writes the results. Returns <dout, silu(gate) up> over the N elements.
  __device__ __forceinline__ A write(D* dgate_at, D* dup_at, D* product_at, A weight) const {
    const Vector<D, N> dy = elements(dout), gates = elements(gate), ups = elements(up);
    Vector<D, N> dgate, dup, product;
    A dot = 0;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A d = to<A>(dy.at[e]), g = to<A>(gates.at[e]), u = to<A>(ups.at[e]);
      const A s = sigmoid<D>(g), y = g * s * u, weighted = d * weight;
      dot += d * y;
      dgate.at[e] = to<D>(weighted * u * s * (1 + g * (1 - s)));
      dup.at[e] = to<D>(weighted * g * s);
      product.at[e] = to<D>(y * weight);
    }
    store(dgate_at, dgate);
    store(dup_at, dup);
    if (product_at) store(product_at, product);
    return dot;
  }
};

}  // namespace hexad::kernels::cuda
