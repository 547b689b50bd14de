// A KernelTable contains pointers to the kernels of one backend. Each member is a family of kernels, which is declared
// in this file. The reference, CPU and CUDA backends define the families of kernels, for example `const SwigluKernels
// SwigluKernels::of_cpu{...}`. entries() lists the kernels of a family, and families() lists the families. Tests and
// tables that wrap other tables iterate over these lists (framework/kernels/entries.h).
//
// Legend of shapes:
//
//   T  tokens (rows)       E  experts                         B  sequences
//   D  hidden size         K  slots per token (top-k)         S  positions of a sequence
//   N  output features     R  rows of all experts together    H  query heads
//   V  vocabulary          C  size of a head                  G  key/value heads
//
// Floating tensors are f32, bf16 or f64. "acc" is the accumulator dtype: f64 for f64 operands, otherwise f32. Tensors
// are contiguous unless a comment allows "strided rows". In that case, only the last dimension must be contiguous. Rows
// whose address and stride are multiples of 16 bytes may be processed faster. Every kernel runs in the order of
// `stream`. Operands must not overlap unless a comment says that one operand "may be" another operand. These two may
// then be the same tensor, but not overlapping parts of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "framework/base/global_index.h"
#include "framework/device/stream.h"
#include "framework/kernels/clamped_swiglu.h"
#include "framework/kernels/kernel.h"
#include "framework/kernels/wire.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels {

using device::Device;
using device::Stream;
using tensor::Tensor;

/// Returns the matrix [N, D] of expert e in weights or gradients [E, N, D].
inline Tensor expert_matrix(const Tensor& stack, int64_t e) {
  return stack.slice(0, e, e + 1).reshape({stack.dim(1), stack.dim(2)});
}

/// Write mode of a result: replace the old values, or add to them. In this file, "Computes out = ..." also stands for
/// "out += ..." if the kernel has a parameter of this type.
enum class Write : uint8_t { replace, add };

/// Rows of each group. For offsets o with groups + 1 entries (i64), rows [o[e], o[e + 1]) of a tensor belong to group
/// e. Rows outside [o[0], o[groups]) belong to no group. The offsets are in host memory, in device memory, or in both.
/// A backend may use either copy. If there is only a device copy, the backend may copy it to the host.
struct GroupOffsets {
  int64_t groups = 0;
  int64_t max_rows = 0;             // upper bound of the rows of each group, for launches without offsets on the host
  std::span<const int64_t> host{};  // read before the kernel's call returns; empty: not available
  Tensor device{};                  // [groups + 1] i64; undefined: not available

  /// Returns GroupOffsets for `offsets` in pageable host memory. The caller may change or free `offsets` once the
  /// kernel's call has returned.
  static GroupOffsets on_host(std::span<const int64_t> offsets);
};

/// Products y = x w^T. Forward and the two gradients are separate entries, because schedules run them at different
/// times. T may be zero. The weight gradient is then zero in mode `replace`.
struct MatmulKernels {
  /// Computes out[T, N] = x[T, D] w[N, D]^T. x and out may have strided rows. If x and w are bf16, out may be acc. If w
  /// is acc (a router's weight), out is acc, and the elements of x count as acc.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& w, Write write)> forward;
  /// Computes dx[T, D] = dy[T, N] w[N, D]. dx and dy may have strided rows. If w is acc and dx is bf16, dy is acc.
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

/// Products like those of MatmulKernels, for E experts in one call. The weights are [E, N, D], and each expert has one
/// group of rows. All operands have the same dtype, except that dw may be acc. Rows that belong to no group are neither
/// read nor written. The weight gradient of an expert without rows becomes zero in mode `replace`, and does not change
/// in mode `add`.
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
  Kernel<void(Stream&, Out<Tensor> dbias, const Tensor& dy, const GroupOffsets&)> grouped_backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &BiasKernels::forward}, Named{"backward", &BiasKernels::backward},
                      Named{"grouped_forward", &BiasKernels::grouped_forward},
                      Named{"grouped_backward", &BiasKernels::grouped_backward}};
  }
  static const BiasKernels of_reference, of_cpu, of_cuda;
};

/// RMS norm y = x / sqrt(mean(x^2) + eps) * gain over the last dimension (Zhang & Sennrich 2019), fused with the
/// additions of the residual stream before and after it.
struct RmsNormKernels {
  /// Computes sum = x + addend (rounded to the dtype of x) and writes the norm of the sum to `out`. If `sum` and
  /// `addend` are undefined, `out` is the norm of x. Also computes inverse_rms[rows] (acc), which backward needs. sum
  /// may be x or addend.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> sum, Out<Tensor> inverse_rms, const Tensor& x, const Tensor& addend,
              const Tensor& gain, double eps)>
      forward;
  /// Computes dx = dresidual + the gradient through the norm of x. dresidual may be dx. An undefined dresidual counts
  /// as zero. dgain_partials[P, D] (acc), with P = partials(rows), receives partial sums of the gain's gradient. dx or
  /// dgain_partials is not computed if it is undefined.
  Kernel<void(Stream&, Out<Tensor> dx, Out<Tensor> dgain_partials, const Tensor& dy, const Tensor& x,
              const Tensor& gain, const Tensor& inverse_rms, const Tensor& dresidual)>
      backward;
  /// Returns the preferred number of partial sums on this backend, at least one. BiasKernels::backward adds the partial
  /// sums.
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
  /// Computes inverse_rms[T] (acc) = 1 / sqrt(squares / width + eps), where squares[T] (acc) is the sum of the squares
  /// of all ranks' columns (PermuteKernels::row_dots), and out[T, D] = x * inverse_rms * gain. out may be x.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> inverse_rms, const Tensor& x, const Tensor& squares,
              const Tensor& gain, int64_t width, double eps)>
      forward;
  /// Computes out[T] (acc) = the sum over this rank's columns of gain * dy * x.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& dy, const Tensor& x, const Tensor& gain)> dots;
  /// Computes dx = inverse_rms * (gain * dy - x * inverse_rms^2 * dots / width), where dots[T] (acc) is the sum of the
  /// results of `dots` of all ranks. dx may be dy.
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
  /// Computes out and stats[rows, 2] (acc), which are the mean and the inverse standard deviation of each row. `bias`
  /// may be undefined.
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

enum class Direction : uint8_t { forward, backward };

/// Queries [T, H, C] and keys [T, G, C] of the same tokens, or their gradients.
struct QueriesAndKeys {
  Tensor q, k;
  static constexpr auto tensors() { return std::array{&QueriesAndKeys::q, &QueriesAndKeys::k}; }
};

/// Rotary position embedding (Su et al. 2021) of the first 2 P dimensions of each head, with the convention of halves:
/// dimension i is paired with i + P. The other dimensions do not change.
struct RotaryKernels {
  /// Computes out = x rotated by the angles of positions[T] (i32). `cosine` and `sine` are [context, P] (acc), with
  /// 1 <= P <= C/2.
  /// `backward` rotates by the negative angle (the adjoint). x may have strided rows. out.q may be x.q, and out.k may
  /// be x.k. q or k may be undefined in both x and out.
  Kernel<void(Stream&, Out<QueriesAndKeys> out, const QueriesAndKeys& x, const Tensor& positions, const Tensor& cosine,
              const Tensor& sine, Direction direction)>
      apply;

  static constexpr auto entries() { return std::tuple{Named{"apply", &RotaryKernels::apply}}; }
  static const RotaryKernels of_reference, of_cpu, of_cuda;
};

/// Parameters of an attention call. The query in row i of a sequence is at position i + query_offset. The query sees
/// the keys j of its document, first[i] <= j < last[i]. If `causal` is true, the query sees only keys j <= i +
/// query_offset. If `window` is positive, the query sees only keys j > i + query_offset - window. `first` and `last`
/// are i32 [B, S]; if they are undefined, a document is the whole sequence.
struct AttentionShape {
  int64_t sequences, queries, keys;  // number of sequences B; positions of q, and of k and v, per sequence
  double scale;                      // usually 1 / sqrt(C)
  bool causal = true;
  int64_t query_offset = 0;    // number of keys before the first query (for generation with a cache)
  bool deterministic = false;  // true: backward is bitwise reproducible, which may take longer
  /// Number of documents in all sequences; 0 if the ranges are arbitrary or the documents were not counted. If
  /// `documents` is not 0, `first` and `last` must divide each sequence into documents without gaps, and all rows of a
  /// document must have the same range. Some backends are faster if the number is known.
  int64_t documents = 0;
  int64_t window = 0;  // a query sees no key that is `window` or more positions before it; 0: no window
};

/// Gradients of the operands of AttentionKernels::forward.
struct AttentionGradients {
  Tensor dq, dk, dv;
  static constexpr auto tensors() {
    return std::array{&AttentionGradients::dq, &AttentionGradients::dk, &AttentionGradients::dv};
  }
};

/// Operands and results of AttentionKernels::forward that backward needs.
struct AttentionSaved {
  Tensor out, log_sum_exp, q, k, v;
  Tensor first{}, last{};
  static constexpr auto tensors() {
    return std::array{&AttentionSaved::out, &AttentionSaved::log_sum_exp, &AttentionSaved::q,   &AttentionSaved::k,
                      &AttentionSaved::v,   &AttentionSaved::first,       &AttentionSaved::last};
  }
};

/// Blockwise softmax(scale q k^T) v (Dao et al. 2022). No S x S matrix is stored, except by some versions of cuDNN in a
/// deterministic backward pass. q and out are [B S, H, C]; k and v are [B S, G, C]. H must be a multiple of G (grouped
/// queries). q, k, v and their gradients may have strided rows.
struct AttentionKernels {
  /// Computes out and log_sum_exp [B S, H] (acc), which backward needs. A row that sees no key has an output of zero
  /// and a log-sum-exp of -inf.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> log_sum_exp, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& first, const Tensor& last, const AttentionShape& shape)>
      forward;
  Kernel<void(Stream&, Out<AttentionGradients> gradients, const Tensor& dout, const AttentionSaved& saved,
              const AttentionShape& shape)>
      backward;
  /// Merges the attention over one more block of keys into the attention over the previous keys. The previous attention
  /// is sum[T, H, C] and sum_log_sum_exp[T, H] (both acc). The attention over the block is block[T, H, C] and
  /// block_log_sum_exp[T, H] (acc). The weights of the two attentions follow from their log-sum-exps (Liu et al. 2023,
  /// section 3). If a row saw no key of the block (-inf), its sum does not change, even if `block` contains NaN in this
  /// row.
  Kernel<void(Stream&, Out<Tensor> sum, Out<Tensor> sum_log_sum_exp, const Tensor& block,
              const Tensor& block_log_sum_exp)>
      merge;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &AttentionKernels::forward}, Named{"backward", &AttentionKernels::backward},
                      Named{"merge", &AttentionKernels::merge}};
  }
  static const AttentionKernels of_reference, of_cpu, of_cuda;
};

/// Attention sinks. Each head has one additional logit, the sink, in the softmax of every query. The value vector of a
/// sink is zero. out and dout are [T, H, C], as in AttentionKernels::forward.
struct SinkKernels {
  /// Adds sinks[H] (acc) to attention that was computed without sinks. Multiplies out by the share of the keys in the
  /// softmax with the sink, and adds the sink to log_sum_exp[T, H] (acc), the log-sum-exp of the keys.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> log_sum_exp, const Tensor& sinks)> forward;
  /// Computes the gradient of each row's sink, dsinks[T, H] (acc) = -exp(sink - log_sum_exp) <dout, out>. out and
  /// log_sum_exp are results of forward. The gradient of the sinks is the sum over rows.
  Kernel<void(Stream&, Out<Tensor> dsinks, const Tensor& dout, const Tensor& out, const Tensor& log_sum_exp,
              const Tensor& sinks)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SinkKernels::forward}, Named{"backward", &SinkKernels::backward}};
  }
  static const SinkKernels of_reference, of_cpu, of_cuda;
};

/// Rows of sequences, for kernels that read earlier rows. All sequences have the same number of consecutive rows, at
/// least one. The first row of each sequence is at position `begin`.
struct SequenceRows {
  int64_t sequences = 1, begin = 0;
};

/// Operands of CausalConvKernels::forward. Tensors that are undefined count as described there.
struct CausalConvOperands {
  Tensor x, weight;
  Tensor before{}, first{};
  static constexpr auto tensors() {
    return std::array{&CausalConvOperands::x, &CausalConvOperands::weight, &CausalConvOperands::before,
                      &CausalConvOperands::first};
  }
};

struct CausalConvGradients {
  Tensor dx, dweight;
  Tensor dbefore{};
  static constexpr auto tensors() {
    return std::array{&CausalConvGradients::dx, &CausalConvGradients::dweight, &CausalConvGradients::dbefore};
  }
};

/// Causal convolution of each column with a filter of its own, followed by SiLU. x and out are [T, N], weight is
/// [N, W], all in one dtype.
struct CausalConvKernels {
  /// Computes out[t, n] = silu(sum over j < W of weight[n, W - 1 - j] x[t - j, n]). Only rows of the same document
  /// count: those from position first[t] on (i32 [T]; if it is undefined, all earlier rows). before[B, W - 1, N]
  /// contains the rows before the first row of each sequence; if it is undefined, they are zero.
  Kernel<void(Stream&, Out<Tensor> out, const CausalConvOperands& operands, const SequenceRows& rows)> forward;
  /// Computes dx and dbefore. Adds the gradient of the weight to dweight [N, W] (acc). dbefore is not computed if it is
  /// undefined.
  Kernel<void(Stream&, Out<CausalConvGradients> gradients, const Tensor& dout, const CausalConvOperands& operands,
              const SequenceRows& rows)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &CausalConvKernels::forward}, Named{"backward", &CausalConvKernels::backward}};
  }
  static const CausalConvKernels of_reference, of_cpu, of_cuda;
};

/// Operands of DeltaGateKernels::forward.
struct DeltaGateOperands {
  Tensor decay, write;     // [T, H]: logits of the decay and of the write strength
  Tensor log_rate, shift;  // [H] acc
  static constexpr auto tensors() {
    return std::array{&DeltaGateOperands::decay, &DeltaGateOperands::write, &DeltaGateOperands::log_rate,
                      &DeltaGateOperands::shift};
  }
};

/// Gradients of DeltaGateOperands. Those of log_rate and shift are the sums over the rows of `rates` and `shifts`.
struct DeltaGateGradients {
  Tensor ddecay, dwrite;  // [T, H]
  Tensor rates, shifts;   // [T, H] acc
  static constexpr auto tensors() {
    return std::array{&DeltaGateGradients::ddecay, &DeltaGateGradients::dwrite, &DeltaGateGradients::rates,
                      &DeltaGateGradients::shifts};
  }
};

/// Gates of the gated delta rule (Yang et al. 2024, with the decay of Mamba-2).
struct DeltaGateKernels {
  /// Computes log_decay[T, H] (acc) = -exp(log_rate) softplus(decay + shift) and strength[T, H] (acc) = sigmoid(write).
  Kernel<void(Stream&, Out<Tensor> log_decay, Out<Tensor> strength, const DeltaGateOperands& operands)> forward;
  /// Computes the gradients for dlog_decay and dstrength [T, H] (acc).
  Kernel<void(Stream&, Out<DeltaGateGradients> gradients, const Tensor& dlog_decay, const Tensor& dstrength,
              const DeltaGateOperands& operands)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &DeltaGateKernels::forward}, Named{"backward", &DeltaGateKernels::backward}};
  }
  static const DeltaGateKernels of_reference, of_cpu, of_cuda;
};

/// Operands of DeltaRuleKernels::forward. `state` and `first` may be undefined.
struct DeltaRuleOperands {
  Tensor q, k, v;              // [T, G, C], [T, G, C] and [T, H, U]
  Tensor log_decay, strength;  // [T, H] acc
  Tensor state{}, first{};     // [B, H, C, U] acc; i32 [T]
  static constexpr auto tensors() {
    return std::array{&DeltaRuleOperands::q,         &DeltaRuleOperands::k,        &DeltaRuleOperands::v,
                      &DeltaRuleOperands::log_decay, &DeltaRuleOperands::strength, &DeltaRuleOperands::state,
                      &DeltaRuleOperands::first};
  }
};

struct DeltaRuleGradients {
  Tensor dq, dk, dv;
  Tensor dlog_decay, dstrength;  // acc
  Tensor dstate{};               // acc; not computed if undefined
  static constexpr auto tensors() {
    return std::array{&DeltaRuleGradients::dq,         &DeltaRuleGradients::dk,        &DeltaRuleGradients::dv,
                      &DeltaRuleGradients::dlog_decay, &DeltaRuleGradients::dstrength, &DeltaRuleGradients::dstate};
  }
};

/// The gated delta rule (Yang et al. 2024, eq. 10). H must be a multiple of G: groups of H / G value heads share a
/// query and a key head. U is the size of a value head. Each value head of a sequence has a state, a matrix S[C, U],
/// which a token changes: S = exp(log_decay) S, then S += k^T (strength (v - k S)). The output of the token is q S.
/// Here, k is k / |k|, and q is q / |q| / sqrt(C), with |x|^2 = sum of x^2 + delta_norm_eps.
struct DeltaRuleKernels {
  /// Computes out[T, H, U] and last_state[B, H, C, U] (acc), the state after the last row of each sequence. `state` is
  /// the state before the first row; zero if undefined. If `first` is defined, the state is reset to zero before a row
  /// whose position is first[row], the first position of its document. last_state may be `state`.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> last_state, const DeltaRuleOperands& operands,
              const SequenceRows& rows)>
      forward;
  /// Computes the gradients for dout and dlast_state; the latter is zero if undefined. dstate may be dlast_state.
  Kernel<void(Stream&, Out<DeltaRuleGradients> gradients, const Tensor& dout, const Tensor& dlast_state,
              const DeltaRuleOperands& operands, const SequenceRows& rows)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &DeltaRuleKernels::forward}, Named{"backward", &DeltaRuleKernels::backward}};
  }
  static const DeltaRuleKernels of_reference, of_cpu, of_cuda;
};
/// Constant added to the squared norm of a query or key.
inline constexpr double delta_norm_eps = 1e-6;

/// Gradients of the operands of SwigluKernels::forward, and the recomputed product. `product` and `dweights` are not
/// computed if they are undefined.
struct SwigluGradients {
  Tensor dgate, dup;
  Tensor product{}, dweights{};
  static constexpr auto tensors() {
    return std::array{&SwigluGradients::dgate, &SwigluGradients::dup, &SwigluGradients::product,
                      &SwigluGradients::dweights};
  }
};

/// Operands of SwigluKernels::forward, which backward needs.
struct SwigluSaved {
  Tensor gate, up;
  Tensor weights{};
  static constexpr auto tensors() { return std::array{&SwigluSaved::gate, &SwigluSaved::up, &SwigluSaved::weights}; }
};

/// Computes out = gate * sigmoid(gate) * up * weights (Shazeer 2020), with one weight per row: weights[R] (acc; all 1
/// if undefined). A linear map usually follows. Multiplying the operand of this map by the weights is equivalent to
/// multiplying its result, but the result then need not be saved for the gradients of the weights. gate, up and their
/// gradients may have strided rows.
struct SwigluKernels {
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& gate, const Tensor& up, const Tensor& weights)> forward;
  /// Computes the gradients of the weighted product: dgate, dup and dweights[R] (acc). Also recomputes the product.
  /// dgate may be gate or dout, and dup may be up. product may be dout unless dgate is dout.
  Kernel<void(Stream&, Out<SwigluGradients> gradients, const Tensor& dout, const SwigluSaved& saved)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SwigluKernels::forward}, Named{"backward", &SwigluKernels::backward}};
  }
  static const SwigluKernels of_reference, of_cpu, of_cuda;
};

/// SwiGLU with clamped operands (gpt-oss). Operands, weights and results are as in SwigluKernels.
struct ClampedSwigluKernels {
  /// Computes out = g sigmoid(clamped_swiglu_slope g) (u + 1) weights, with g = min(gate, limit) and u = up, clamped to
  /// [-limit, limit].
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& gate, const Tensor& up, const Tensor& weights, double limit)>
      forward;
  /// Like SwigluKernels::backward. The gradient of a gate or up beyond its limit is zero.
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

enum class RouterScore : uint8_t { softmax, sigmoid };
constexpr auto enum_names(RouterScore) {
  return std::to_array<std::pair<RouterScore, std::string_view>>(
      {{RouterScore::softmax, "softmax"}, {RouterScore::sigmoid, "sigmoid"}});
}

/// Score of a group of experts, by which a group-limited router ranks groups.
enum class RouterGroupScore : uint8_t { best_two, best };
constexpr auto enum_names(RouterGroupScore) {
  return std::to_array<std::pair<RouterGroupScore, std::string_view>>(
      {{RouterGroupScore::best_two, "best_two"}, {RouterGroupScore::best, "best"}});
}

/// Rule by which a router chooses experts and computes their weights.
struct RouterRule {
  RouterScore score = RouterScore::softmax;
  int64_t top_k = 2;
  bool normalize = true;  // true: the weights of the chosen experts are divided by their sum, so that they sum to one
  double normalize_floor = 0;  // minimum divisor; no gradient flows through a smaller sum
  double scale = 1.0;  // factor that multiplies the weights after `normalize` (DeepSeek's routed scaling factor)
  /// Group-limited choice: the experts form `groups` equal groups. A token may use only experts of the top_groups
  /// groups with the largest scores. The score of a group is the sum of its two best selection scores (DeepSeek-V3), or
  /// its best selection score (device-limited routing of DeepSeek-V2).
  int64_t groups = 1;
  int64_t top_groups = 1;
  RouterGroupScore group_score = RouterGroupScore::best_two;
};

/// Scores of experts, chosen experts and their weights. All operands except ids are acc. Experts are chosen by score +
/// bias. bias[E] may be undefined and never affects the weights. The lower index wins a tie. An expert with a NaN score
/// is chosen last. The ids that forward computes are always in range.
struct RouterKernels {
  /// Computes from logits [T, E]: scores [T, E], ids [T, K] (i32, by descending score + bias), and weights [T, K].
  Kernel<void(Stream&, Out<Tensor> scores, Out<Tensor> ids, Out<Tensor> weights, const Tensor& logits,
              const Tensor& bias, const RouterRule& rule)>
      forward;
  /// Computes weights [T, K] for given ids (forced routing).
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& ids, const Tensor& scores, const RouterRule& rule)> weigh;
  /// Computes dlogits [T, E], the sum of the gradients through the weights (dweights [T, K]) and through the scores
  /// (dscores [T, E], may be undefined).
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweights, const Tensor& dscores, const Tensor& scores,
              const Tensor& ids, const RouterRule& rule)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &RouterKernels::forward}, Named{"weigh", &RouterKernels::weigh},
                      Named{"backward", &RouterKernels::backward}};
  }
  static const RouterKernels of_reference, of_cpu, of_cuda;
};

/// Weights of SparseMixer without its sampling (Liu et al. 2023, arXiv 2310.00811; Phi-3.5-MoE in evaluation). The
/// candidates of slot k are all experts but those of slots 0 .. k-1. Let `best` be the largest logit of the candidates.
/// A candidate with logit x is near if best - x <= tolerance * max(|x|, best). The weight of the slot is the softmax of
/// its expert's logit over the near candidates and this expert. The ids of a token are in [0, E) and distinct.
struct SparseMixerKernels {
  /// Computes weights [T, K] (acc) from logits [T, E] (acc) and ids [T, K] (i32).
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& logits, const Tensor& ids, double tolerance)> forward;
  /// Computes dlogits [T, E] (acc). The sets of near candidates are constants.
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweights, const Tensor& logits, const Tensor& ids,
              double tolerance)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &SparseMixerKernels::forward}, Named{"backward", &SparseMixerKernels::backward}};
  }
  static const SparseMixerKernels of_reference, of_cpu, of_cuda;
};

/// Choice of tokens by experts (Zhou et al. 2022, "Mixture-of-Experts with Expert Choice Routing"). A token keeps at
/// most K of the experts that choose it. Its other slots are empty.
struct ExpertChoiceKernels {
  /// Computes ids [T, K] (i32; -1: empty slot) from scores [T, E] (acc). In each scope of `scope_tokens` consecutive
  /// tokens (the last scope may be shorter), every expert chooses min(ceil(factor K n / E), n) of the n tokens of the
  /// scope: those with the highest scores (NaN counts as -infinity; the earlier token wins a tie). A token keeps the
  /// experts with its highest scores, in descending order (the lower index wins a tie). Token t is in row rows[t] (i64
  /// [T]) of ids and scores, or in row t if `rows` is undefined. A token with rows[t] = -1 is padding, which is not
  /// among the n tokens. Rows without a token have only empty slots.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens, double factor)>
      choose;
  /// Computes weights[t, k] = scores[t, ids[t, k]], or 0 for an empty slot.
  Kernel<void(Stream&, Out<Tensor> weights, const Tensor& scores, const Tensor& ids)> forward;
  /// Computes dscores [T, E] from dweights [T, K]. The ids of a token that are not -1 are distinct.
  Kernel<void(Stream&, Out<Tensor> dscores, const Tensor& dweights, const Tensor& ids)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"choose", &ExpertChoiceKernels::choose}, Named{"forward", &ExpertChoiceKernels::forward},
                      Named{"backward", &ExpertChoiceKernels::backward}};
  }
  static const ExpertChoiceKernels of_reference, of_cpu, of_cuda;
};

/// Factors of a router's loss on a rank.
struct LossFactors {
  double scale = 1;   // factor of the sum over tokens
  double share = 1;   // fraction of the loss that is this rank's value
  double weight = 1;  // weight of this value in the loss of the model
};

/// A router's loss. Each product is rounded to acc: loss = scale * sum, value = share * loss, weighted = weight *
/// value.
struct RouterLoss {
  Tensor weighted;  // [1] acc
  Tensor total{};   // [1] f64, to which the value is added; may be undefined
  static constexpr auto tensors() { return std::array{&RouterLoss::weighted, &RouterLoss::total}; }
};

/// Statistics of routing, and the losses computed from them. A scope is a set of tokens. segment[T] (i32) is the scope
/// of each token; -1 means no scope (padding). If `segment` is undefined, all tokens are in scope 0. The gradient of a
/// loss is that of weight * loss, without `share`, rounded to acc.
struct RouterLossKernels {
  /// Sets counts[S, E] (i64) to the number of slots in ids [T, K] (i32, -1: none) by scope and expert. S is the number
  /// of scopes. Adds the sums over scopes to totals[E] (i64). Either counts or totals may be undefined.
  Kernel<void(Stream&, Out<Tensor> counts, Out<Tensor> totals, const Tensor& ids, const Tensor& segment)> count;
  /// Sets fractions[S, E] (acc) to counts[S, E] (i64 or acc) divided by their sum in the scope, or to 1/E if this sum
  /// is zero.
  Kernel<void(Stream&, Out<Tensor> fractions, const Tensor& counts)> fractions;
  /// Computes the loss sum_t c_s <p_t, f_s> over all tokens t that are in a scope s (Shazeer 2017; Fedus 2021, eq. 4).
  /// p_t is scores[t, :] divided by its sum. A row whose sum is zero contributes nothing. f_s is fractions[s, :]. c_s
  /// is scale * coefficients[s] (f64; all 1 if undefined). The sum is in double, in an order that depends only on the
  /// shape.
  Kernel<void(Stream&, Out<RouterLoss> loss, const Tensor& scores, const Tensor& segment, const Tensor& fractions,
              const Tensor& coefficients, const LossFactors& factors)>
      balance;
  /// Computes dscores[T, E] (acc) = dweighted[1] times the gradient of `balance`. Rows of tokens in no scope are zero.
  Kernel<void(Stream&, Out<Tensor> dscores, const Tensor& dweighted, const Tensor& scores, const Tensor& segment,
              const Tensor& fractions, const Tensor& coefficients, const LossFactors& factors)>
      balance_backward;
  /// Computes the loss scale * sum of logsumexp(logits[t, :])^2 over all tokens t that are in a scope (Zoph et al.
  /// 2022, eq. 5), summed like `balance`. Also computes log_sum_exp[T] (acc; 0 for tokens in no scope), which
  /// z_backward needs.
  Kernel<void(Stream&, Out<RouterLoss> loss, Out<Tensor> log_sum_exp, const Tensor& logits, const Tensor& segment,
              const LossFactors& factors)>
      z;
  /// Computes dlogits[T, E] (acc) = dweighted[1] times the gradient of `z`.
  Kernel<void(Stream&, Out<Tensor> dlogits, const Tensor& dweighted, const Tensor& logits, const Tensor& log_sum_exp,
              const Tensor& segment, const LossFactors& factors)>
      z_backward;

  static constexpr auto entries() {
    return std::tuple{Named{"count", &RouterLossKernels::count},
                      Named{"fractions", &RouterLossKernels::fractions},
                      Named{"balance", &RouterLossKernels::balance},
                      Named{"balance_backward", &RouterLossKernels::balance_backward},
                      Named{"z", &RouterLossKernels::z},
                      Named{"z_backward", &RouterLossKernels::z_backward}};
  }
  static const RouterLossKernels of_reference, of_cpu, of_cuda;
};

/// Rule by which an expert above its capacity keeps slots: the most probable slots, or the first slots.
enum class DropRule : uint8_t { probability, position };
constexpr auto enum_names(DropRule) {
  return std::to_array<std::pair<DropRule, std::string_view>>(
      {{DropRule::probability, "probability"}, {DropRule::position, "position"}});
}

/// Capacity of experts. In each scope of `scope_tokens` consecutive tokens (the last scope may be shorter), an expert
/// keeps at most min(ceil(factor K n / E), n) slots (GShard). n is the number of tokens of the scope that have at least
/// one slot.
struct Capacity {
  int64_t scope_tokens;  // > 0
  double factor;         // >= 0
  DropRule rule;
};

struct CapacityKernels {
  /// Sets the elements of ids [T, K] (i32; each token selects an expert at most once) to -1 for slots that exceed the
  /// capacity. Depending on `rule`, keeps the slots with the highest scores [T, E] (acc; NaN counts as -infinity; the
  /// earlier token wins a tie), or the earliest slots. Token t is in row rows[t] (i64 [T]) of ids and scores, or in row
  /// t if `rows` is undefined. Elements that are not the id of an expert do not change.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity)> drop;

  static constexpr auto entries() { return std::tuple{Named{"drop", &CapacityKernels::drop}}; }
  static const CapacityKernels of_reference, of_cpu, of_cuda;
};

/// Masks slots of tokens, and sorts slots by expert.
struct SlotKernels {
  /// Sets ids[t, :] (i32 [T, K]) to -1 for each token t with valid[t] (u8) = 0.
  Kernel<void(Stream&, Out<Tensor> ids, const Tensor& valid)> mask;
  /// Sorts the slots of ids [T, K] (i32; -1: dropped, otherwise in [0, E)) by expert, then token, then slot. The
  /// results are i64:
  ///
  ///   offsets[E + 1]   offsets of the rows of each expert
  ///   rows[T, K]       row of each slot; -1: dropped
  ///   tokens[T K]      token of each row; -1 for rows from offsets[E] on, which belong to no expert
  Kernel<void(Stream&, Out<Tensor> tokens, Out<Tensor> rows, Out<Tensor> offsets, const Tensor& ids)> sort;
  /// Computes keys that sort slots first by chunk, then by expert: keys[t, k] (i32) = c experts + ids[t, k] for ids
  /// [T, K]. c is the chunk of the slot: chunk_of[ids[t, k]] (i32 [experts]) or, if chunk_of is undefined, t chunks / T
  /// rounded down. An id of -1 gives the key -1. Any other id that is not in [0, experts) becomes chunks * experts,
  /// which must fit in i32. keys may be ids.
  Kernel<void(Stream&, Out<Tensor> keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts, int64_t chunks)>
      keys;
  /// Computes out[i] (i64) = first + i.
  Kernel<void(Stream&, Out<Tensor> out, int64_t first)> iota;

  static constexpr auto entries() {
    return std::tuple{Named{"mask", &SlotKernels::mask}, Named{"sort", &SlotKernels::sort},
                      Named{"keys", &SlotKernels::keys}, Named{"iota", &SlotKernels::iota}};
  }
  static const SlotKernels of_reference, of_cpu, of_cuda;
};

/// Conversions of indices. out may be x if their dtypes are the same and the entry does not forbid it.
struct IndexKernels {
  /// Computes out[i] = x[i] + by (both i32 or both i64). A negative x[i] is not an index and does not change.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, int64_t by)> shift;
  /// Computes out[i] (i32 or i64) = x[i] - first if first <= x[i] < first + count, otherwise -1. x is i32.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, int64_t first, int64_t count)> within;
  /// Computes out[i] = x[i] + parts[1, p] for parts [2, P]. p is the first part whose end parts[0, p] exceeds x[i]. All
  /// tensors are i64. A negative x[i] does not change. Every other x[i] must be below the end of the last part.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& parts)> shift_parts;
  /// Computes out[i] = i + parts[1, p], the result of shift_parts for x = 0, 1, ... The last part must end at the
  /// number of elements of out, which may be zero.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& parts)> iota_parts;
  /// Computes out[i] = x[index[i]]. All tensors are i64. out may be index.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index)> take;
  /// Computes out[x[i]] = i for each x[i] >= 0. These x[i] must be distinct. Both tensors are i64. Other elements of
  /// out do not change. out must not be x.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x)> inverse;

  static constexpr auto entries() {
    return std::tuple{Named{"shift", &IndexKernels::shift},
                      Named{"within", &IndexKernels::within},
                      Named{"shift_parts", &IndexKernels::shift_parts},
                      Named{"iota_parts", &IndexKernels::iota_parts},
                      Named{"take", &IndexKernels::take},
                      Named{"inverse", &IndexKernels::inverse}};
  }
  static const IndexKernels of_reference, of_cpu, of_cuda;
};

/// Copies rows to experts and back. rows[t, k] (i64 [T, K]) is the row of the permuted tensor for slot k of token t, or
/// -1 if the slot was dropped. tokens[r] (i64 [R]) is the inverse: the token of row r, or -1 if the row has no token.
struct PermuteKernels {
  /// Computes out[r, :] = x[tokens[r], :]. Rows without a token do not change. `rows`, the inverse of `tokens`, may be
  /// undefined. A backend may use it to read x only once.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& tokens, const Tensor& rows)> gather;
  /// Computes out[t, :] = sum over k of weights[t, k] y[rows[t, k], :] in acc, in the order of the slots. Then adds the
  /// addends [T, D] in their order. If `weights` is undefined, all weights are 1. Without addends, this is the adjoint
  /// of `gather`. It is the combine of the MoE layer, with shared experts and the residual as addends. out may be an
  /// addend. On CUDA, at most 4 addends are allowed.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& y, const Tensor& rows, const Tensor& weights,
              std::span<const Tensor> addends)>
      combine;
  /// Computes dy[rows[t, k], :] = weights[t, k] dout[t, :] and dweights[t, k] = <dout[t, :], y[rows[t, k], :]> (0 if
  /// the slot was dropped). Rows of dy that belong to no slot become zero. `tokens`, the inverse of `rows`, may be
  /// undefined; a backend may use it to find these rows.
  Kernel<void(Stream&, Out<Tensor> dy, Out<Tensor> dweights, const Tensor& dout, const Tensor& y, const Tensor& rows,
              const Tensor& tokens, const Tensor& weights)>
      combine_backward;
  /// Computes out[index[r], :] = x[r, :] for distinct index[R] (i64; -1: row r is not copied). This is the inverse of
  /// `gather` for a part of the rows. Other rows of out do not change. In this entry and the two entries below, tensors
  /// may have strided rows.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index)> scatter;
  /// Computes out[r, :] = scale[r] x[index[r], :] with index[R] (i64) and scale[R] (acc; all 1 if undefined). This is
  /// the computation of dy in `combine_backward`, for any part of the rows. out may be x if index[r] = r for all r.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& x, const Tensor& index, const Tensor& scale)> gather_weighted;
  /// Computes out[r] (acc) = <a[r, :], b[r, :]>. The order of addition depends only on the width.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& a, const Tensor& b)> row_dots;

  static constexpr auto entries() {
    return std::tuple{Named{"gather", &PermuteKernels::gather},
                      Named{"combine", &PermuteKernels::combine},
                      Named{"combine_backward", &PermuteKernels::combine_backward},
                      Named{"scatter", &PermuteKernels::scatter},
                      Named{"gather_weighted", &PermuteKernels::gather_weighted},
                      Named{"row_dots", &PermuteKernels::row_dots}};
  }
  static const PermuteKernels of_reference, of_cpu, of_cuda;
};

/// Converts rows of tensors to bytes and back (framework/kernels/wire.h). x and out may have strided rows.
struct WireKernels {
  /// Computes bytes[R, wire_row_bytes(format, dtype of x, D, X)] (u8). Row r of bytes contains row index[r] of x[R', D]
  /// and row r of row_weights[R, X] (acc). `index` is i64 [R]. If it is undefined, row r of bytes contains row r of x,
  /// and R = R'. If index[r] is -1, row r of bytes becomes zero. If `row_weights` is undefined, X = 0.
  ///
  /// In format fp8, the codes are those of x / scale in f32. scale is max(max |row| / 448, 2^-126), or 0 for a row of
  /// zeros. f64 is first converted to f32. If an element of a row is not finite in f32, all elements of the row and its
  /// scale become NaN, which the receiver detects.
  Kernel<void(Stream&, Out<Tensor> bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
              WireFormat format)>
      pack;
  /// Computes out[index[r], :] = scale * value from row r of bytes, for distinct index[R] (-1: row r is not copied). If
  /// `index` is undefined, computes out[r, :], and out has R rows. Other rows of out do not change.
  /// row_weights_out[R, X] receives the row_weights of each row r. If row_weights_out is undefined, the row_weights are
  /// not read, and X may be any number.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> row_weights_out, const Tensor& bytes, const Tensor& index,
              WireFormat format)>
      unpack;

  static constexpr auto entries() {
    return std::tuple{Named{"pack", &WireKernels::pack}, Named{"unpack", &WireKernels::unpack}};
  }
  static const WireKernels of_reference, of_cpu, of_cuda;
};

struct EmbeddingKernels {
  /// Computes out[T, D] = table[ids[t], :]. ids are i32; the caller must check that they are in range.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& table, const Tensor& ids)> forward;
  /// Adds the rows of dout to rows ids[t] of dtable[V, D] (acc), in the order of the tokens. A token with id -1 is
  /// skipped, and its row is not read.
  Kernel<void(Stream&, Out<Tensor> dtable, const Tensor& dout, const Tensor& ids)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &EmbeddingKernels::forward}, Named{"backward", &EmbeddingKernels::backward}};
  }
  static const EmbeddingKernels of_reference, of_cpu, of_cuda;
};

/// Softmax cross-entropy over rows of logits [T, V] (acc). targets [T] are i32; tokens with target -1 are ignored.
struct CrossEntropyKernels {
  /// Computes losses[T] (acc; 0 for ignored tokens) and dlogits[T, V] = scale * (softmax - onehot). Rows of dlogits are
  /// zero for ignored tokens, and all rows are zero if scale is 0. dlogits has any floating dtype and may be logits. If
  /// dlogits is undefined, it is not computed.
  Kernel<void(Stream&, Out<Tensor> losses, Out<Tensor> dlogits, const Tensor& logits, const Tensor& targets,
              double scale)>
      forward;
  /// Returns the preferred number of rows per chunk, at least one, for callers that compute the logits in chunks.
  Kernel<int64_t(int64_t rows, int64_t vocabulary)> chunk_rows;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &CrossEntropyKernels::forward},
                      Named{"chunk_rows", &CrossEntropyKernels::chunk_rows}};
  }
  static const CrossEntropyKernels of_reference, of_cpu, of_cuda;
};

/// Softmax cross-entropy over columns that are divided among ranks. It consists of two steps with an exchange of
/// statistics between them. Each exponential is computed only once. targets[T] (i32; -1: ignored) refer to the whole
/// vocabulary, of which this rank holds columns [first, first + W).
struct SplitSoftmaxKernels {
  /// Statistics of each row of a rank's columns, which the rank sends to the other ranks. They are the rows of
  /// statistics [statistics_count, T].
  enum Statistic : int64_t {
    largest,    // m, the maximum of the logits
    total,      // the sum of e^(logit - m)
    at_target,  // logit of the target; 0 on ranks that do not hold its column
    statistics_count,
  };
  /// Computes statistics [3, T] from logits[T, W] (both acc), and replaces the logits by e^(logit - m).
  Kernel<void(Stream&, Out<Tensor> statistics, Out<Tensor> logits, const Tensor& targets, int64_t first)> start;
  /// Computes losses[T] (acc; 0 for ignored tokens) from the statistics [ranks, 3, T] of all ranks. `rank` is the index
  /// of this rank. Replaces the values that `start` has written to `logits` by scale * (softmax - onehot), or by zero
  /// for ignored tokens or if scale is 0.
  Kernel<void(Stream&, Out<Tensor> losses, Out<Tensor> logits, const Tensor& statistics, int64_t rank,
              const Tensor& targets, int64_t first, double scale)>
      finish;

  static constexpr auto entries() {
    return std::tuple{Named{"start", &SplitSoftmaxKernels::start}, Named{"finish", &SplitSoftmaxKernels::finish}};
  }
  static const SplitSoftmaxKernels of_reference, of_cpu, of_cuda;
};

/// Elementwise kernels and reductions.
struct PointwiseKernels {
  Kernel<void(Stream&, Out<Tensor> out, double value)> fill;
  /// Computes out = x, where dtypes and strides may differ (strided rows).
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
///     w -= lr (m^ / (sqrt(v^) + eps) + decay w)
struct AdamwStep {
  double lr, beta1, beta2, eps;
  int64_t step;  // number of the step; the first is 1
};

/// Part of a parameter that one launch updates. The tensors are flat and have the same length. main is acc; the
/// gradient is acc or bf16. m and v are both acc or, if acc is f32, both bf16. `weights` is the model's copy of the
/// weights. It has any floating dtype, receives the rounded result, and may be main.
///
/// If `weights` is bf16, main may instead be a bf16 tensor whose bits are the 16-bit remainders ("rests") of the main
/// weights. Weights, rests and the signs of v then encode f32 main weights without loss (framework/base/main_weight.h).
/// Except for the signs of v, all results are bitwise identical to those with f32 main weights.
///
/// All arithmetic is in acc, and the update of main uses m and v before they are rounded. bf16 moments are rounded
/// stochastically (base::bf16_bits_at_random). The random bits of an element are base::random_bits(rounding_key, i),
/// where i is the index of the element in the whole parameter, modulo 2^32. The lower half is for m, and the upper half
/// is for v.
struct AdamwSlice {
  Tensor main, m, v, weights, gradient;
  double weight_decay;
  base::GlobalIndex place{};  // indices of the elements in the whole parameter
  uint32_t rounding_key = 0;
};

/// True if main contains the rests of f32 main weights. If it does, throws std::logic_error unless the weights are a
/// separate bf16 tensor.
bool has_rests(const AdamwSlice& slice);
/// True if the moments are bf16. Throws std::logic_error unless both moments have the dtype of main, or both are bf16
/// and main is f32. Rests count as f32.
bool has_bf16_moments(const AdamwSlice& slice);

/// Updates of weights by optimizers. The gradients are multiplied by factor[1] (f64; 1 if undefined) when they are
/// read. A negative factor skips the step: nothing is written.
struct OptimizerKernels {
  Kernel<void(Stream&, Out<std::span<const AdamwSlice>> slices, const AdamwStep& step, const Tensor& factor)> adamw;
  /// Plain SGD: main -= lr * factor * gradient. Writes the rounded result to weights.
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

struct KernelTable {
  MatmulKernels matmul;
  GroupedMatmulKernels grouped_matmul;
  BiasKernels bias;
  RmsNormKernels rms_norm;
  SplitNormKernels split_norm;
  LayerNormKernels layer_norm;
  RotaryKernels rotary;
  AttentionKernels attention;
  SinkKernels sink;
  CausalConvKernels causal_conv;
  DeltaGateKernels delta_gate;
  DeltaRuleKernels delta_rule;
  SwigluKernels swiglu;
  ClampedSwigluKernels clamped_swiglu;
  GeluKernels gelu;
  RowGateKernels row_gate;
  RouterKernels router;
  SparseMixerKernels sparse_mixer;
  ExpertChoiceKernels expert_choice;
  RouterLossKernels router_loss;
  CapacityKernels capacity;
  SlotKernels slots;
  IndexKernels index;
  PermuteKernels permute;
  WireKernels wire;
  EmbeddingKernels embedding;
  CrossEntropyKernels cross_entropy;
  SplitSoftmaxKernels split_softmax;
  PointwiseKernels pointwise;
  OptimizerKernels optimizer;

  static constexpr auto families() {
    return std::tuple{Named{"matmul", &KernelTable::matmul},
                      Named{"grouped_matmul", &KernelTable::grouped_matmul},
                      Named{"bias", &KernelTable::bias},
                      Named{"rms_norm", &KernelTable::rms_norm},
                      Named{"split_norm", &KernelTable::split_norm},
                      Named{"layer_norm", &KernelTable::layer_norm},
                      Named{"rotary", &KernelTable::rotary},
                      Named{"attention", &KernelTable::attention},
                      Named{"sink", &KernelTable::sink},
                      Named{"causal_conv", &KernelTable::causal_conv},
                      Named{"delta_gate", &KernelTable::delta_gate},
                      Named{"delta_rule", &KernelTable::delta_rule},
                      Named{"swiglu", &KernelTable::swiglu},
                      Named{"clamped_swiglu", &KernelTable::clamped_swiglu},
                      Named{"gelu", &KernelTable::gelu},
                      Named{"row_gate", &KernelTable::row_gate},
                      Named{"router", &KernelTable::router},
                      Named{"sparse_mixer", &KernelTable::sparse_mixer},
                      Named{"expert_choice", &KernelTable::expert_choice},
                      Named{"router_loss", &KernelTable::router_loss},
                      Named{"capacity", &KernelTable::capacity},
                      Named{"slots", &KernelTable::slots},
                      Named{"index", &KernelTable::index},
                      Named{"permute", &KernelTable::permute},
                      Named{"wire", &KernelTable::wire},
                      Named{"embedding", &KernelTable::embedding},
                      Named{"cross_entropy", &KernelTable::cross_entropy},
                      Named{"split_softmax", &KernelTable::split_softmax},
                      Named{"pointwise", &KernelTable::pointwise},
                      Named{"optimizer", &KernelTable::optimizer}};
  }
};

extern const KernelTable reference_table;  // naive loops in double, which define each kernel
/// Fast multithreaded kernels. The results in a row depend neither on the number of threads nor on other rows.
extern const KernelTable cpu_table;
extern const KernelTable emulated_table;  // the CPU's kernels, queued on the emulated device
/// Returns the table of the CUDA backend. Throws Error(usage) in a program that was built without CUDA.
const KernelTable& cuda_kernels();
/// Returns the table of the backend of `device`.
const KernelTable& kernels(const Device& device);

}  // namespace hexad::kernels
