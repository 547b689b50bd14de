// Kernels of layers whose rows do not depend on each other: products, biases, norms and activations. The legend of
// shapes is in kernel_operands.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "framework/kernels/kernel.h"
#include "framework/kernels/kernel_operands.h"

namespace hexad::kernels {

/// Products y = x w^T. Schedules run the two gradients at different times, so each has an entry. T may be zero; in mode
/// `replace`, the weight gradient is then zero.
struct MatmulKernels {
  /// Computes out[T, N] = x[T, D] w[N, D]^T. x and out may have strided rows. If x and w are bf16, out may be acc. If w
  /// is acc (a router's weight), out is acc, and the kernel converts the elements of x to acc.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& w, Write write)> forward;
  /// Computes dx[T, D] = dy[T, N] w[N, D]. dx and dy may have strided rows. If dy and w are bf16, dx may be acc. If w
  /// is acc and dx is bf16, dy is acc.
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& w, Write write)> input_gradient;
  /// Computes dw[N, D] = dy[T, N]^T x[T, D]. dy and x may have strided rows. dw is acc or has the dtype of x. If x is
  /// bf16, dy may be acc.
  Kernel<void(Stream&, Out<Tensor> dw, const Tensor& dy, const Tensor& x, Write write)> weight_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &MatmulKernels::forward},
                      Named{"input_gradient", &MatmulKernels::input_gradient},
                      Named{"weight_gradient", &MatmulKernels::weight_gradient}};
  }
  static const MatmulKernels of_reference, of_cpu, of_cuda;
};

/// The products of MatmulKernels, for E experts in one call. The weights are [E, N, D], and each expert has one group
/// of rows. All operands have the same dtype, except that dw may be acc. The kernels do not access rows that belong to
/// no group. The weight gradient of an expert without rows is set to zero in mode `replace`, and does not change in
/// mode `add`.
struct GroupedMatmulKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& w, const GroupOffsets&, Write write)> forward;
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& w, const GroupOffsets&, Write write)>
      input_gradient;
  Kernel<void(Stream&, Out<Tensor> dw, const Tensor& dy, const Tensor& x, const GroupOffsets&, Write write)>
      weight_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &GroupedMatmulKernels::forward},
                      Named{"input_gradient", &GroupedMatmulKernels::input_gradient},
                      Named{"weight_gradient", &GroupedMatmulKernels::weight_gradient}};
  }
  static const GroupedMatmulKernels of_reference, of_cpu, of_cuda;
};

struct BiasKernels {
  /// Computes x[T, N] += bias[N].
  Kernel<void(Stream&, Out<Tensor> x, const Tensor& bias)> forward;
  /// Adds the column sums of dy[T, N] to dbias[N] (acc).
  Kernel<void(Stream&, Out<Tensor> dbias, const Tensor& dy)> backward;
  /// Adds bias[e, :] of bias[E, N] to each row of x[R, N] that belongs to expert e.
  Kernel<void(Stream&, Out<Tensor> x, const Tensor& bias, const GroupOffsets&)> grouped_forward;
  /// Adds the column sums of the rows of each expert e to dbias[e, :] of dbias[E, N] (acc).
  Kernel<void(Stream&, Out<Tensor> dbias, const Tensor& dy, const GroupOffsets&)> grouped_backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &BiasKernels::forward}, Named{"backward", &BiasKernels::backward},
                      Named{"grouped_forward", &BiasKernels::grouped_forward},
                      Named{"grouped_backward", &BiasKernels::grouped_backward}};
  }
  static const BiasKernels of_reference, of_cpu, of_cuda;
};

/// RMS norm y = x / sqrt(mean(x^2) + eps) * gain over the last dimension (Zhang & Sennrich 2019). If an addend is
/// given, forward first adds it to the residual stream x. Backward adds the residual stream's gradient to dx.
struct RmsNormKernels {
  /// Computes sum = x + addend (rounded to the dtype of x) and writes the norm of the sum to `out`. If `sum` and
  /// `addend` are undefined, `out` is the norm of x. Also computes inverse_rms[rows] (acc), which backward needs. sum
  /// may be x or addend.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> sum, Out<Tensor> inverse_rms, const Tensor& x, const Tensor& addend,
              const Tensor& gain, double eps)>
      forward;
  /// Computes dx = dresidual + the gradient through the norm of x. dresidual may be dx. An undefined dresidual counts
  /// as zero. dgain_partials[P, D] (acc), with P = partials(rows), receives partial sums of the gain's gradient. An
  /// undefined dx or dgain_partials is not computed.
  Kernel<void(Stream&, Out<Tensor> dx, Out<Tensor> dgain_partials, const Tensor& dy, const Tensor& x,
              const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual)>
      backward;
  /// Returns P, the number of partial sums that this backend prefers for `rows` rows, at least one. Callers add the
  /// partial sums with BiasKernels::backward.
  Kernel<int64_t(int64_t rows)> partials;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &RmsNormKernels::forward}, Named{"backward", &RmsNormKernels::backward},
                      Named{"partials", &RmsNormKernels::partials}};
  }
  static const RmsNormKernels of_reference, of_cpu, of_cuda;
};

/// RMS norm of rows whose columns are divided among ranks. Forward and backward have two steps each, with a sum over
/// the ranks between them. All ranks together have `width` columns, of which this rank has D. RmsNormKernels::backward
/// without dx computes the gradient of the gain.
struct SplitNormKernels {
  /// Computes inverse_rms[T] (acc) = 1 / sqrt(squares / width + eps) and out[T, D] = x * inverse_rms * gain. squares[T]
  /// (acc) is the sum of the squares of all ranks' columns (PermuteKernels::row_dots). out may be x.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> inverse_rms, const Tensor& x, const Tensor& squares,
              const Tensor& gain, int64_t width, double eps)>
      forward;
  /// Computes out[T] (acc) = the sum over this rank's columns of gain * dy * x.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& dy, const Tensor& x, const Tensor& gain)> dots;
  /// Computes dx = inverse_rms * (gain * dy - x * inverse_rms^2 * dots / width). dots[T] (acc) is the sum of all ranks'
  /// results of the entry `dots`. dx may be dy.
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& inverse_rms,
              const Tensor& dots, int64_t width)>
      input_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SplitNormKernels::forward}, Named{"dots", &SplitNormKernels::dots},
                      Named{"input_gradient", &SplitNormKernels::input_gradient}};
  }
  static const SplitNormKernels of_reference, of_cpu, of_cuda;
};

/// Layer norm y = (x - mean) / sqrt(variance + eps) * gain + bias (Ba et al. 2016).
struct LayerNormKernels {
  /// Computes out and stats[rows, 2] (acc), the mean and the inverse standard deviation of each row. `bias` may be
  /// undefined.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
              double eps)>
      forward;
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats)>
      input_gradient;
  /// Adds the gradients to dgain[D] and dbias[D] (acc). dbias may be undefined.
  Kernel<void(Stream&, Out<Tensor> dgain, Out<Tensor> dbias, const Tensor& dy, const Tensor& x, const Tensor& stats)>
      weight_gradient;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &LayerNormKernels::forward},
                      Named{"input_gradient", &LayerNormKernels::input_gradient},
                      Named{"weight_gradient", &LayerNormKernels::weight_gradient}};
  }
  static const LayerNormKernels of_reference, of_cpu, of_cuda;
};

/// Gradients of the operands of SwigluKernels::forward, and the recomputed product. An undefined `product` or
/// `dweights` is not computed.
struct SwigluGradients {
  Tensor dgate, dup;
  Tensor product{}, dweights{};
  static constexpr auto tensors() {
    return std::array{&SwigluGradients::dgate, &SwigluGradients::dup, &SwigluGradients::product,
                      &SwigluGradients::dweights};
  }
};

/// Operands of SwigluKernels::forward that backward needs.
struct SwigluSaved {
  Tensor gate, up;
  Tensor weights{};
  static constexpr auto tensors() { return std::array{&SwigluSaved::gate, &SwigluSaved::up, &SwigluSaved::weights}; }
};

/// Computes out = gate * sigmoid(gate) * up * weights (Shazeer 2020), with one weight per row: weights[R] (acc; all 1
/// if undefined). In an expert, a linear map follows. Applying the weights after this map would be equivalent, but
/// backward would then need the result of the map. gate, up and their gradients may have strided rows.
struct SwigluKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& gate, const Tensor& up, const Tensor& weights)> forward;
  /// Computes the gradients of the weighted product: dgate, dup and dweights[R] (acc). Also recomputes the product.
  /// dgate may be gate or dout, and dup may be up. product may be dout if dgate is not dout.
  Kernel<void(Stream&, Out<SwigluGradients> gradients, const Tensor& dout, const SwigluSaved& saved)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SwigluKernels::forward}, Named{"backward", &SwigluKernels::backward}};
  }
  static const SwigluKernels of_reference, of_cpu, of_cuda;
};

/// Results of GroupedSwigluKernels::backward: the gradient of gate and up [R, 2 F], the recomputed activation [R, F]
/// and the gradient of the weights [R] (acc). An undefined `dweights` is not computed. The values of `product` are then
/// unspecified, because backends may use its memory for the gradient of the activation.
struct GroupedSwigluGradients {
  Tensor dgate_up, product;
  Tensor dweights{};
  static constexpr auto tensors() {
    return std::array{&GroupedSwigluGradients::dgate_up, &GroupedSwigluGradients::product,
                      &GroupedSwigluGradients::dweights};
  }
};

/// A product of SwiGLU experts together with their activation. A backend may compute both in one launch, so that the
/// activation does not read the result of the product again. The results equal the results of GroupedMatmulKernels and
/// SwigluKernels up to rounding. On a CPU, they are bitwise identical.
struct GroupedSwigluKernels {
  /// Computes gate_up[R, 2 F] = x[R, D] w^T like GroupedMatmulKernels::forward, with w[E, 2 F, D]. The first F columns
  /// are gate, and the last F columns are up. From these rounded values, computes activated[R, F] = gate *
  /// sigmoid(gate) * up * weights like SwigluKernels::forward, with weights[R] (acc; all 1 if undefined). For rows that
  /// belong to no group, `gate_up` is not written, and the values of `activated` are unspecified.
  Kernel<void(Stream&, Out<Tensor> gate_up, Out<Tensor> activated, const Tensor& x, const Tensor& w,
              const GroupOffsets&, const Tensor& weights)>
      forward;
  /// Computes the gradient dactivated[R, F] = dout[R, D] w like GroupedMatmulKernels::input_gradient. w[E, D, F] are
  /// the weights of the product that follows the activation. From the rounded values of dactivated, computes the
  /// gradients like SwigluKernels::backward. gate_up[R, 2 F] and `weights` are as in forward. For rows that belong to
  /// no group, the values of all results are unspecified. Results must not share memory with operands or with each
  /// other.
  Kernel<void(Stream&, Out<GroupedSwigluGradients> gradients, const Tensor& dout, const Tensor& w, const GroupOffsets&,
              const Tensor& gate_up, const Tensor& weights)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &GroupedSwigluKernels::forward},
                      Named{"backward", &GroupedSwigluKernels::backward}};
  }
  static const GroupedSwigluKernels of_reference, of_cpu, of_cuda;
};

/// Factor of the gate in the sigmoid of ClampedSwigluKernels.
inline constexpr double clamped_swiglu_slope = 1.702;

/// SwiGLU with clamped operands (gpt-oss). Operands, weights and results are as in SwigluKernels.
struct ClampedSwigluKernels {
  /// Computes out = g * sigmoid(clamped_swiglu_slope * g) * (u + 1) * weights. g is min(gate, limit), and u is up
  /// clamped to [-limit, limit].
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& gate, const Tensor& up, const Tensor& weights, double limit)>
      forward;
  /// Computes the gradients like SwigluKernels::backward. The gradient of a gate or up beyond its limit is zero.
  Kernel<void(Stream&, Out<SwigluGradients> gradients, const Tensor& dout, const SwigluSaved& saved, double limit)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &ClampedSwigluKernels::forward},
                      Named{"backward", &ClampedSwigluKernels::backward}};
  }
  static const ClampedSwigluKernels of_reference, of_cpu, of_cuda;
};

/// Kind of GELU: exact, out = x/2 (1 + erf(x / sqrt 2)), or its tanh approximation (Hendrycks & Gimpel 2016).
enum class GeluKind : uint8_t { exact, tanh };
constexpr auto enum_names(GeluKind) {
  return std::to_array<std::pair<GeluKind, std::string_view>>({{GeluKind::exact, "exact"}, {GeluKind::tanh, "tanh"}});
}
struct GeluKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, GeluKind kind)> forward;
  /// Computes dx. dx may be x or dout.
  Kernel<void(Stream&, Out<Tensor> dx, const Tensor& dout, const Tensor& x, GeluKind kind)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &GeluKernels::forward}, Named{"backward", &GeluKernels::backward}};
  }
  static const GeluKernels of_reference, of_cpu, of_cuda;
};

/// Multiplication of each row by a gate: the sigmoid of the row's logit (shared experts of Qwen2-MoE).
struct RowGateKernels {
  /// Computes out[T, D] = x * sigmoid(logits[T]) (logits acc). out may be x.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& logits)> forward;
  /// Computes dx[T, D] = dout * sigmoid(logits) and dlogits[T] (acc) = sigmoid(logits) sigmoid(-logits) <dout, x>.
  Kernel<void(Stream&, Out<Tensor> dx, Out<Tensor> dlogits, const Tensor& dout, const Tensor& x, const Tensor& logits)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &RowGateKernels::forward}, Named{"backward", &RowGateKernels::backward}};
  }
  static const RowGateKernels of_reference, of_cpu, of_cuda;
};

/// Families of this header.
struct DenseFamilies {
  MatmulKernels matmul;
  GroupedMatmulKernels grouped_matmul;
  BiasKernels bias;
  RmsNormKernels rms_norm;
  SplitNormKernels split_norm;
  LayerNormKernels layer_norm;
  SwigluKernels swiglu;
  GroupedSwigluKernels grouped_swiglu;
  ClampedSwigluKernels clamped_swiglu;
  GeluKernels gelu;
  RowGateKernels row_gate;

  static constexpr auto families() {
    return std::tuple{Named{"matmul", &DenseFamilies::matmul},
                      Named{"grouped_matmul", &DenseFamilies::grouped_matmul},
                      Named{"bias", &DenseFamilies::bias},
                      Named{"rms_norm", &DenseFamilies::rms_norm},
                      Named{"split_norm", &DenseFamilies::split_norm},
                      Named{"layer_norm", &DenseFamilies::layer_norm},
                      Named{"swiglu", &DenseFamilies::swiglu},
                      Named{"grouped_swiglu", &DenseFamilies::grouped_swiglu},
                      Named{"clamped_swiglu", &DenseFamilies::clamped_swiglu},
                      Named{"gelu", &DenseFamilies::gelu},
                      Named{"row_gate", &DenseFamilies::row_gate}};
  }
};

}  // namespace hexad::kernels
