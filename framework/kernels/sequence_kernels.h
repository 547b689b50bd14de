// Kernels that relate the tokens of a sequence: rotary positions, attention, and the layers of delta nets. The legend
// of shapes is in kernel_operands.h.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

#include "framework/kernels/kernel.h"
#include "framework/kernels/kernel_operands.h"

namespace hexad::kernels {

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
  /// 1 <= P <= C/2. Direction::backward rotates by the negative angle (the adjoint). x may have strided rows. out.q may
  /// be x.q, and out.k may be x.k. q or k may be undefined in both x and out.
  Kernel<void(Stream&, Out<QueriesAndKeys> out, const QueriesAndKeys& x, const Tensor& positions, const Tensor& cosine,
              const Tensor& sine, Direction direction)>
      apply;

  static constexpr auto entries() { return std::tuple{Named{"apply", &RotaryKernels::apply}}; }
  static const RotaryKernels of_reference, of_cpu, of_cuda;
};

/// Parameters of an attention call. The query in row i of a sequence is at position i + query_offset. The query sees
/// (attends to) the keys j of its document, first[i] <= j < last[i]. If `causal` is true, the query sees only keys j <=
/// i + query_offset. If `window` is positive, the query sees only keys j > i + query_offset - window. `first` and
/// `last` are i32 [B, S]; if they are undefined, a document is the whole sequence.
struct AttentionShape {
  int64_t sequences, queries, keys;  // B; numbers of positions of q, and of k and v, per sequence
  double scale;                      // usually 1 / sqrt(C)
  bool causal = true;
  int64_t query_offset = 0;    // position of the first query, counted from the first key
  bool deterministic = false;  // true: backward is bitwise reproducible, which may take longer
  /// Number of documents in all sequences; 0 if `first` and `last` define arbitrary ranges, or if the documents were
  /// not counted. If `documents` is not 0, `first` and `last` must divide each sequence into documents without gaps.
  /// All rows of a document must then have the same range. Some backends are faster if the number is known.
  int64_t documents = 0;
  int64_t window = 0;  // a query sees no key that is `window` or more positions before the query; 0: no window
  /// Number of elements at the start of each head of v and dout that may differ from zero; 0: all elements. The
  /// remaining elements of out and dv are zero. Some backends do not compute the remaining elements.
  int64_t value_size = 0;
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
  /// section 3). A row that saw no key of the block (log-sum-exp -inf) does not change, even if `block` contains NaN in
  /// this row.
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
  /// Adds sinks[H] (acc) to attention that was computed without sinks. Multiplies out by the total probability of the
  /// keys in the softmax with the sink. Includes the sink in log_sum_exp[T, H] (acc).
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

/// Operands of CausalConvKernels::forward. The comment of forward defines the meaning of undefined tensors.
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

/// Causal depthwise convolution (one filter per column), followed by SiLU. x and out are [T, N], and weight is [N, W].
/// All three tensors have the same dtype.
struct CausalConvKernels {
  /// Computes out[t, n] = silu(sum over j < W of weight[n, W - 1 - j] * x[t - j, n]). The sum includes only rows of the
  /// document of row t, which begins at position first[t] (i32 [T]). If `first` is undefined, the sum includes all
  /// earlier rows. before[B, W - 1, N] contains the rows before the first row of each sequence. If `before` is
  /// undefined, these rows are zero.
  Kernel<void(Stream&, Out<Tensor> out, const CausalConvOperands& operands, const SequenceRows& rows)> forward;
  /// Computes dx, and also dbefore if it is defined. Adds the gradient of the weight to dweight [N, W] (acc).
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

/// Gradients of DeltaGateOperands. The gradients of log_rate and shift are the column sums of `rates` and `shifts`.
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
  /// Computes the gradients from dlog_decay and dstrength [T, H] (acc).
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
/// query and a key head. U is the size of a value head. Each value head of a sequence has a state, a matrix S[C, U].
/// Each token changes the state in two steps and then computes its output:
///
///     S = exp(log_decay) * S
///     S += k^T * (strength * (v - k * S))
///     output = q * S
///
/// Before these steps, k is divided by |k|, and q is divided by |q| * sqrt(C). Here, |x|^2 is the sum of x^2 plus
/// delta_norm_eps.
struct DeltaRuleKernels {
  /// Computes out[T, H, U] and last_state[B, H, C, U] (acc), the state after the last row of each sequence. `state` is
  /// the state before the first row; zero if undefined. If `first` is defined, the state is reset to zero before the
  /// first row of a document. The position of this row is first[row]. last_state may be `state`.
  Kernel<void(Stream&, Out<Tensor> out, Out<Tensor> last_state, const DeltaRuleOperands& operands,
              const SequenceRows& rows)>
      forward;
  /// Computes the gradients from dout and dlast_state. An undefined dlast_state counts as zero. dstate may be
  /// dlast_state.
  Kernel<void(Stream&, Out<DeltaRuleGradients> gradients, const Tensor& dout, const Tensor& dlast_state,
              const DeltaRuleOperands& operands, const SequenceRows& rows)>
      backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &DeltaRuleKernels::forward}, Named{"backward", &DeltaRuleKernels::backward}};
  }
  static const DeltaRuleKernels of_reference, of_cpu, of_cuda;
};
/// Constant that DeltaRuleKernels adds to the squared norm of a query or key.
inline constexpr double delta_norm_eps = 1e-6;

/// Families of this header.
struct SequenceFamilies {
  RotaryKernels rotary;
  AttentionKernels attention;
  SinkKernels sink;
  CausalConvKernels causal_conv;
  DeltaGateKernels delta_gate;
  DeltaRuleKernels delta_rule;

  static constexpr auto families() {
    return std::tuple{Named{"rotary", &SequenceFamilies::rotary},
                      Named{"attention", &SequenceFamilies::attention},
                      Named{"sink", &SequenceFamilies::sink},
                      Named{"causal_conv", &SequenceFamilies::causal_conv},
                      Named{"delta_gate", &SequenceFamilies::delta_gate},
                      Named{"delta_rule", &SequenceFamilies::delta_rule}};
  }
};

}  // namespace hexad::kernels
