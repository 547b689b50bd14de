// Declarations of the differentiable ops of this folder. The heading of each section names the files that implement its
// ops. Shapes use the legend of kernel_operands.h.
#pragma once

#include <optional>

#include "framework/autograd/ops/sinks.h"
#include "framework/autograd/tape.h"

namespace hexad::autograd {

using kernels::AttentionShape;
using kernels::GeluKind;
using kernels::RouterRule;

/// Prepares `out` for a kernel that can add its result to the gradient `so_far` (see Backward::accumulate). Returns the
/// mode in which the kernel must write. Copies `so_far` to `out` if `so_far` is defined and does not share memory with
/// `out`.
Write add_to(Stream& stream, const Tensor& out, const Tensor& so_far);

// --- products (linear.cpp)

/// Returns y[T, N] = x[T, D] w[N, D]^T + bias[N]. `bias` may be null. The weight pullback computes the gradients of w
/// and bias. For stacked weights [n, N, D] and biases [n, N], y is [T, n N].
Value linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias = nullptr);

// --- norms (rms_norm.cpp, layer_norm.cpp)

/// Returns the RMS norm of x over the last dimension. The gains are `base` + the weights of `gain`, rounded to the
/// dtype of the weights.
Value rms_norm(Tape& tape, const Value& x, Parameter& gain, double eps, double base = 0);
struct SumAndNorm {
  Value sum, normed;
};
/// Returns sum = x + addend, rounded to the dtype of x, and the RMS norm of the sum. x and addend have the same shape
/// and dtype. One kernel computes both results. x and addend get the same gradient.
SumAndNorm add_rms_norm(Tape& tape, const Value& x, const Value& addend, Parameter& gain, double eps, double base = 0);
/// Returns the RMS norm of x over the last dimension, without a gain.
Value unit_rms_norm(Tape& tape, const Value& x, double eps);
/// Returns the layer norm of x over the last dimension. `bias` may be null.
Value layer_norm(Tape& tape, const Value& x, Parameter& gain, Parameter* bias, double eps);

// --- attention (rotary.cpp, attention.cpp)

struct Rotated {
  Value q, k;
};
/// Returns q[T, H, C] and k[T, G, C] after rotation. cosine and sine are [context, P]. The first 2 P elements of each
/// head are rotated by the angles of the token's position; see RotaryKernels.
Rotated rotary(Tape& tape, const Value& q, const Value& k, const Tensor& positions, const Tensor& cosine,
               const Tensor& sine);
/// Like rotary(q, k), for one tensor x[T, H, C].
Value rotary(Tape& tape, const Value& x, const Tensor& positions, const Tensor& cosine, const Tensor& sine);
/// Returns the attention of the queries q[T, H, C] to the keys k and values v, both [T, G, C]. The T of q differs from
/// the T of k and v if AttentionShape::queries differs from AttentionShape::keys. `first` and `last` bound the keys to
/// which each query attends, and may be undefined; see AttentionShape. `sinks` contains one sink per head, or no sinks;
/// see sinks.h.
Value attention(Tape& tape, const Value& q, const Value& k, const Value& v, const Tensor& first, const Tensor& last,
                const AttentionShape& shape, const AttentionSinks& sinks = {});

// --- parts of heads (heads.cpp)

/// Returns heads [T, H, P + N]. Each head begins with shared[T, P], which all heads share, and ends with its part of
/// own[T, H, N].
Value join_heads(Tape& tape, const Value& shared, const Value& own);
/// Returns the first `size` elements of each head of x[T, H, C]. If C is smaller, zeros follow the elements. If C
/// equals `size`, returns x.
Value resize_heads(Tape& tape, const Value& x, int64_t size);

// --- activations and gates (swiglu.cpp, gelu.cpp, row_gate.cpp)

/// Returns the SwiGLU of gate and up, the first and the second half of each row: [T, 2 F] -> [T, F]. If `limit` is set,
/// uses the clamped formula of ClampedSwigluKernels.
Value swiglu(Tape& tape, const Value& gate_up, std::optional<double> limit = {});
Value gelu(Tape& tape, const Value& x, GeluKind kind);
/// Returns the rows of x[T, D], each multiplied by the sigmoid of its logit. logits are [T, 1] in the accumulator
/// dtype.
Value gate_rows(Tape& tape, const Value& x, const Value& logits);
/// Returns the rows of x[T, D], each multiplied by its factor. factors are [T, 1] in the accumulator dtype.
Value scale_rows(Tape& tape, const Value& x, const Value& factors);
/// Returns x * sigmoid(logits), element by element. x and logits have the same shape and dtype.
Value gate_elements(Tape& tape, const Value& x, const Value& logits);
/// Returns silu(gate) * x, element by element. gate and x have the same shape and dtype.
Value silu_gate(Tape& tape, const Value& gate, const Value& x);

// --- gates of delta nets (delta_gates.cpp)

struct DeltaGates {
  Value log_decay, strength;  // [T, H] acc
};
/// Returns the gates of the delta rule for the logits decay[T, H] and write[T, H] (kernels::DeltaGateKernels). log_rate
/// and shift are [H] in the accumulator dtype.
DeltaGates delta_gates(Tape& tape, const Value& decay, const Value& write, Parameter& log_rate, Parameter& shift);

// --- pointwise (pointwise.cpp)

Value add(Tape& tape, const Value& a, const Value& b);
/// Returns alpha x.
Value scale(Tape& tape, const Value& x, double alpha);
/// Returns x, clamped to [-limit, limit].
Value clamp(Tape& tape, const Value& x, double limit);
/// Returns x with the shape `shape`, in the same memory; see Tensor::reshape().
Value reshape(Tape& tape, const Value& x, const Shape& shape);

// --- tables and losses (embedding.cpp, cross_entropy.cpp)

/// Returns the rows ids[T] (i32, in [0, V)) of table[V, D] as a tensor [T, D].
Value embedding(Tape& tape, Parameter& table, const Tensor& ids);

struct CrossEntropyOptions {
  /// Gradient that backward must receive for the returned loss. For the mean over tokens, the gradient is 1 / (number
  /// of valid tokens of all ranks). The forward pass needs this value, because it computes the gradients of x, w and
  /// bias.
  double gradient_scale = 1;
  /// Maximum number of tokens whose logits are in memory at a time; if empty, the device's preferred number.
  std::optional<int64_t> block_rows{};
  /// Bias of the logits, [V]; null: none. It must be in the accumulator dtype.
  Parameter* bias = nullptr;
  /// Dtype in which logits are stored: the accumulator dtype or the dtype of x. If empty, the accumulator dtype. With x
  /// in bf16, the dtype of x halves the memory of the logits. Losses and gradients are always computed in the
  /// accumulator dtype.
  std::optional<Dtype> logits_dtype{};

  /// Returns the dtype of the logits for x in `dtype`. Throws std::logic_error, with `op` in the message, if
  /// logits_dtype is neither of the two dtypes.
  Dtype dtype_of_logits(std::string_view op, Dtype dtype) const;
};
/// Returns the sum over valid tokens of -log softmax(x w^T + bias)[target], a scalar [1] in the accumulator dtype.
/// Shapes: x[T, D], w[V, D], targets[T] (i32). Tokens with target -1 are ignored. The forward pass computes the product
/// with w and the softmax for one block of tokens at a time. If the tape records, it also computes all gradients. This
/// is the method of Liger Kernel (Hsu et al. 2024). If `row_losses` is not null, it receives the losses [T]. Backward
/// throws std::logic_error if the host can read the gradient that backward receives and this gradient differs from
/// `options.gradient_scale`.
Value linear_cross_entropy(Tape& tape, const Value& x, Parameter& w, const Tensor& targets,
                           const CrossEntropyOptions& options, Tensor* row_losses = nullptr);

// --- mixture of experts (router.cpp, router_losses.cpp, sparse_mixer.cpp, expert_choice.cpp)

struct RouterChoice {
  Value scores;   // [T, E] acc
  Value weights;  // [T, K] acc
  Tensor ids;     // [T, K] i32
};
/// Chooses K = rule.top_k experts per token from logits[T, E] (accumulator dtype). `bias` [E] (accumulator dtype, may
/// be undefined) affects only which experts are chosen, not their weights. If `forced_ids` [T, K] is defined, it
/// replaces the choice, and the weights and gradients are those of the forced experts.
RouterChoice choose_experts(Tape& tape, const Value& logits, const Tensor& bias, const RouterRule& rule,
                            const Tensor& forced_ids);
/// Returns the weights [T, K] of the experts ids[T, K] by the rule of SparseMixerKernels, from logits[T, E]
/// (accumulator dtype). For the gradient, the sets of near candidates are constants.
Value sparse_mixer_weights(Tape& tape, const Value& logits, const Tensor& ids, double tolerance);
/// Returns the scores [T, K] of the experts ids[T, K] (i32) from scores[T, E] (accumulator dtype); 0 for an empty slot
/// (-1).
Value chosen_scores(Tape& tape, const Value& scores, const Tensor& ids);
/// Factors of a router's loss. The op returns weight * share * loss. It also adds share * loss to `total` ([1] f64) if
/// `total` is defined. Backward computes the gradient of weight * loss, without `share`. If several ranks compute the
/// same loss, each rank adds only its share of the value but computes the whole gradient.
struct LossUse {
  double weight = 1, share = 1;
  Tensor total{};
};
/// Returns the load-balancing loss (Shazeer 2017; Fedus 2021, eq. 4), the mean over S scopes, as a scalar [1] in the
/// accumulator dtype. `use` scales it. The loss of one scope is E * sum_e(f_e * P_e). f_e is the fraction of
/// assignments that go to expert e, a constant from `fractions`. P_e is the mean score of expert e over the valid
/// tokens of the scope. The scores of each token are first normalised so that they sum to one.
///
/// segment[T] (i32) is the scope of each token; -1: the token is not valid. If `segment` is undefined, all tokens are
/// in scope 0. fractions[S, E] is in the accumulator dtype. tokens_in_scope[S] is the number of valid tokens of all
/// ranks in each scope. It is required if several ranks hold tokens of the same scope. In this case, the loss is the
/// sum of the ranks' results. If tokens_in_scope is empty, the host counts this rank's valid tokens; `segment`, if
/// defined, must then be in host memory.
Value load_balancing_loss(Tape& tape, const Value& scores, const Tensor& segment, const Tensor& fractions,
                          const std::vector<int64_t>& tokens_in_scope = {}, const LossUse& use = {});
/// Returns the mean over valid tokens of logsumexp(logits)^2 (Zoph et al. 2022, eq. 5), a scalar [1] in the accumulator
/// dtype. `use` scales it. `segment` is as in load_balancing_loss(). `valid_tokens` is the number of valid tokens of
/// all ranks that share the mean. If `valid_tokens` is empty, the host counts this rank's valid tokens, as in
/// load_balancing_loss().
Value router_z_loss(Tape& tape, const Value& logits, const Tensor& segment, std::optional<int64_t> valid_tokens = {},
                    const LossUse& use = {});

}  // namespace hexad::autograd
