// Loops over contiguous elements: conversion, sums, clamping, weighted rows.
#pragma once

#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

/// One loop for each floating dtype of the last array that the loop reads.
template <class F32, class Bf16, class F64>
struct FromAny {
  F32 f32;
  Bf16 bf16;
  F64 f64;

  template <class X>
  auto from() const {
    if constexpr (std::is_same_v<X, float>)
      return f32;
    else if constexpr (std::is_same_v<X, base::bf16>)
      return bf16;
    else
      return f64;
  }
};

template <class T>
struct PointwiseLoops {
  using A = base::accumulator_t<T>;

  /// Computes out = x.
  FromAny<void (*)(T*, const float*, int64_t), void (*)(T*, const base::bf16*, int64_t),
          void (*)(T*, const double*, int64_t)>
      convert;
  /// Computes out += alpha x.
  FromAny<void (*)(T*, double, const float*, int64_t), void (*)(T*, double, const base::bf16*, int64_t),
          void (*)(T*, double, const double*, int64_t)>
      axpy;
  void (*add)(T* out, const T* a, const T* b, int64_t n);
  void (*scale)(T* out, A alpha, int64_t n);
  void (*clamp)(T* out, const T* x, A limit, int64_t n);
  void (*clamp_backward)(T* dx, const T* dout, const T* x, A limit, int64_t n);

  /// Computes out = sum over k < count of weights[k] rows[k], in order. If `weights` is null, all weights are 1.
  void (*weighted_sum)(T* out, const T* const* rows, const A* weights, int64_t count, int64_t n);
  /// Computes out = alpha x.
  void (*scaled)(T* out, A alpha, const T* x, int64_t n);
  A (*dot)(const T* a, const T* b, int64_t n);
  /// Computes dy = weight dout. Returns the dot product <dout, y>.
  A (*scale_and_dot)(T* dy, A weight, const T* dout, const T* y, int64_t n);
  double (*squared_sum)(const T* x, int64_t n);
};

namespace v3 {
extern const ByDtype<PointwiseLoops> pointwise_loops;
}
namespace v4 {
extern const ByDtype<PointwiseLoops> pointwise_loops;
}

}  // namespace hexad::kernels::cpu
