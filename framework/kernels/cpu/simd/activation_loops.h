// Loops of SwiGLU, GELU, rotary embedding, exp, sigmoid and softmax cross-entropy. The formulas are in
// framework/kernels/reference/.
#pragma once

#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

/// Operands and results of one row of ClampedSwigluKernels::backward. `product` may be null. `slope` is
/// clamped_swiglu_slope.
template <class T>
struct ClampedSwigluRow {
  T *dgate, *dup, *product;
  const T *dout, *gate, *up;
  base::accumulator_t<T> weight, slope, limit;
};

template <class T>
struct ActivationLoops {
  using A = base::accumulator_t<T>;

  void (*swiglu_forward)(T* out, const T* gate, const T* up, int64_t n);
  void (*swiglu_backward)(T* dgate, T* dup, const T* dout, const T* gate, const T* up, int64_t n);
  /// Computes one row of the SwiGLU, multiplied by the row's weight.
  void (*weighted_swiglu_forward)(T* out, const T* gate, const T* up, A weight, int64_t n);
  /// Computes the gradients of one row with weight w. Returns the gradient of w, <dout, gate * sigmoid(gate) * up>.
  /// Writes the weighted product to `out` if `out` is not null.
  A (*weighted_swiglu_backward)(T* dgate, T* dup, T* out, const T* dout, const T* gate, const T* up, A w, int64_t n);
  /// Loops of ClampedSwigluKernels, with operands and results as in the weighted loops.
  void (*clamped_swiglu_forward)(T* out, const T* gate, const T* up, A weight, A slope, A limit, int64_t n);
  A (*clamped_swiglu_backward)(ClampedSwigluRow<T> row, int64_t n);
  void (*gelu_exact_forward)(T* out, const T* x, int64_t n);
  void (*gelu_exact_backward)(T* dx, const T* dout, const T* x, int64_t n);
  void (*gelu_tanh_forward)(T* out, const T* x, int64_t n);
  void (*gelu_tanh_backward)(T* dx, const T* dout, const T* x, int64_t n);
  /// Rotates the first 2 * half elements of one head, in pairs (i, i + half). With sign -1, computes the adjoint. `out`
  /// may be `x`.
  void (*rotate)(T* out, const T* x, const A* cosine, const A* sine, A sign, int64_t half);
  /// Computes p[i] = e^p[i] (`exp`), or p[i] = sigmoid(p[i]) (`sigmoid`), for n elements.
  void (*exp)(A* p, int64_t n);
  void (*sigmoid)(A* p, int64_t n);
  /// Returns the loss of one row of logits x with target `target`. Writes d = scale * (softmax - onehot) if d is not
  /// null. d may be x.
  A (*cross_entropy)(A* d, const A* x, int64_t n, int64_t target, A scale);
};

namespace v3 {
extern const ByDtype<ActivationLoops> activation_loops;
}
namespace v4 {
extern const ByDtype<ActivationLoops> activation_loops;
}

}  // namespace hexad::kernels::cpu
