// Elementwise kernels, reductions, and updates of weights. The legend of shapes is in kernel_operands.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <tuple>

#include "framework/base/global_index.h"
#include "framework/kernels/kernel.h"
#include "framework/kernels/kernel_operands.h"

namespace hexad::kernels {

/// Elementwise kernels and reductions.
struct PointwiseKernels {
  Kernel<void(Stream&, Out<Tensor> out, double value)> fill;
  /// Computes out = x. Both may have strided rows. The dtypes must be equal or both floating.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x)> copy;
  /// Computes out = a + b. out may be a or b.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& a, const Tensor& b)> add;
  /// Computes out += alpha * x. If x is bf16, out may be acc.
  Kernel<void(Stream&, Out<Tensor> out, double alpha, const Tensor& x)> axpy;
  Kernel<void(Stream&, Out<Tensor> out, double alpha)> scale;
  /// Computes out = min(max(x, -limit), limit). In backward, dx is dout if |x| <= limit, otherwise zero.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, double limit)> clamp;
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dout, const Tensor& x, double limit)> clamp_backward;
  /// Computes out[1] (acc or f64) = the sum of all elements, in double. On one machine, the order of addition depends
  /// only on the dtype and the number of elements.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, Write write)> sum;
  /// Computes out = addends[0] + addends[1] + ..., in this order in acc. The result is bitwise identical to the sum
  /// over ranks of comm::reduce. There must be at least one addend, and on CUDA at most 64. All addends have the same
  /// dtype. out may be an addend.
  Kernel<void(Stream&, Out<Tensor> out, std::span<const Tensor> addends)> sum_of;

  static constexpr auto entries() {
    return std::tuple{Named{"fill", &PointwiseKernels::fill},
                      Named{"copy", &PointwiseKernels::copy},
                      Named{"add", &PointwiseKernels::add},
                      Named{"axpy", &PointwiseKernels::axpy},
                      Named{"scale", &PointwiseKernels::scale},
                      Named{"clamp", &PointwiseKernels::clamp},
                      Named{"clamp_backward", &PointwiseKernels::clamp_backward},
                      Named{"sum", &PointwiseKernels::sum},
                      Named{"sum_of", &PointwiseKernels::sum_of}};
  }
  static const PointwiseKernels of_reference, of_cpu, of_cuda;
};

/// Parameters of a step of AdamW (Loshchilov & Hutter 2019) with decoupled weight decay. Here, m^ and v^ are the
/// moments after bias correction.
///
///     w -= lr * (m^ / (sqrt(v^) + eps) + decay * w)
struct AdamwStep {
  double lr, beta1, beta2, eps;
  int64_t step;  // number of the step; the first is 1
};

/// Part of a parameter that one launch updates. The tensors are flat and have the same length. main is acc; the
/// gradient is acc or bf16. m and v are both acc, or both bf16 if acc is f32. `weights` is the model's copy of the
/// weights. It has any floating dtype, receives the rounded result, and may be main.
///
/// If `weights` is bf16, `main` may instead be a bf16 tensor whose bits are the 16-bit remainders ("rests") of the main
/// weights. Weights, rests and the signs of v then encode f32 main weights without loss (framework/base/main_weight.h).
/// Except for the signs of v, all results are bitwise identical to the results with f32 main weights.
///
/// All arithmetic is in acc, and the update of main uses m and v before they are rounded. bf16 moments are rounded
/// stochastically (base::bf16_bits_at_random). The random bits of an element are base::random_bits(rounding_key, i). i
/// is the index of the element in the whole parameter, modulo 2^32. The lower 16 bits are for m, and the upper 16 bits
/// are for v.
struct AdamwSlice {
  Tensor main, m, v, weights, gradient;
  double weight_decay;
  base::GlobalIndex place{};  // indices of the elements in the whole parameter
  uint32_t rounding_key = 0;
};

/// True if main contains the rests of f32 main weights. Throws std::logic_error if main contains rests and the weights
/// are not a separate bf16 tensor.
bool has_rests(const AdamwSlice& slice);
/// True if the moments are bf16. Both moments must have the dtype of main, or both must be bf16 and main must be f32;
/// otherwise, throws std::logic_error. Rests count as f32.
bool has_bf16_moments(const AdamwSlice& slice);

/// Updates of weights by optimizers. The gradients are multiplied by factor[1] (f64; 1 if undefined) when they are
/// read. A negative factor skips the step: nothing is written.
struct OptimizerKernels {
  Kernel<void(Stream&, Out<std::span<const AdamwSlice>> slices, const AdamwStep& step, const Tensor& factor)> adamw;
  /// Updates main -= lr * factor * gradient (plain SGD), and writes the rounded result to `weights`.
  Kernel<void(Stream&, Out<Tensor> main, Out<Tensor> weights, const Tensor& gradient, double lr, const Tensor& factor)>
      sgd;
  /// Computes out[1] (f64) = the sum of squares. On one machine, the order of addition depends only on the dtype and
  /// the number of elements.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, Write write)> squared_norm;
  /// Computes factor[1] (f64) = min(1, limit / sqrt(sums[0])), or 1 if limit is 0. sums[n] (f64) contains the squared
  /// norm of all gradients, followed by other values that must be finite. If any element of sums is not finite, the
  /// factor is -1, which skips the step.
  Kernel<void(Stream&, Out<Tensor> factor, const Tensor& sums, double limit)> clip;

  static constexpr auto entries() {
    return std::tuple{Named{"adamw", &OptimizerKernels::adamw}, Named{"sgd", &OptimizerKernels::sgd},
                      Named{"squared_norm", &OptimizerKernels::squared_norm}, Named{"clip", &OptimizerKernels::clip}};
  }
  static const OptimizerKernels of_reference, of_cpu, of_cuda;
};

/// Families of this header.
struct UpdateFamilies {
  PointwiseKernels pointwise;
  OptimizerKernels optimizer;

  static constexpr auto families() {
    return std::tuple{Named{"pointwise", &UpdateFamilies::pointwise}, Named{"optimizer", &UpdateFamilies::optimizer}};
  }
};

}  // namespace hexad::kernels
