// Loops of RMSNorm, LayerNorm and column sums. The formulas are in
// framework/kernels/reference/{rms_norm,layer_norm,bias}.cpp.
#pragma once

#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

/// Number of columns that are summed at a time. It is small, so that the sums of one task fit in registers and the
/// first-level cache.
inline constexpr int64_t column_block = 128;

template <class T>
struct NormLoops {
  using A = base::accumulator_t<T>;

  /// Normalises one row of n elements. Returns 1 / sqrt(mean(x^2) + eps).
  A (*rms_forward)(T* out, const T* x, const A* gain, int64_t n, A eps);
  /// Computes dx of one row. Adds `residual` before rounding. `residual` may be null or dx.
  void (*rms_input_gradient)(T* dx, const T* dy, const T* x, const A* gain, A inverse_rms, const T* residual,
                             int64_t n);
  /// Computes out = x * inverse_rms * gain for one row.
  void (*rms_scale)(T* out, const T* x, const A* gain, A inverse_rms, int64_t n);
  /// Returns the sum of gain * dy * x over one row.
  A (*gain_dot)(const T* dy, const T* x, const A* gain, int64_t n);
  /// Computes dx = inverse_rms * (gain * dy - x * back) for one row.
  void (*rms_gradient)(T* dx, const T* dy, const T* x, const A* gain, A inverse_rms, A back, int64_t n);
  /// Adds the sums over `rows` rows, which are `stride` elements apart, to dgain[0, width); width <= column_block. The
  /// order of addition is fixed.
  void (*rms_weight_gradient)(A* dgain, const T* dy, const T* x, const A* inverse_rms, int64_t rows, int64_t stride,
                              int64_t width);

  /// Normalises one row; `stats` receives the mean and the inverse standard deviation. `bias` may be null.
  void (*layer_forward)(T* out, A* stats, const T* x, const A* gain, const A* bias, int64_t n, A eps);
  void (*layer_input_gradient)(T* dx, const T* dy, const T* x, const A* gain, const A* stats, int64_t n);
  void (*layer_weight_gradient)(A* dgain, const T* dy, const T* x, const A* stats, int64_t rows, int64_t stride,
                                int64_t width);

  /// Adds `bias` to one row: x += bias.
  void (*add_row)(T* x, const A* bias, int64_t n);
  /// Adds the sums over `rows` rows, which are `stride` elements apart, to sums[0, width).
  void (*column_sums)(A* sums, const T* dy, int64_t rows, int64_t stride, int64_t width);
};

namespace v3 {
extern const ByDtype<NormLoops> norm_loops;
}
namespace v4 {
extern const ByDtype<NormLoops> norm_loops;
}

}  // namespace hexad::kernels::cpu
