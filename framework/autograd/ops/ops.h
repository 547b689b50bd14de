// Declares every differentiable op. Each op is implemented in the file of its name. Shapes follow the legend of
// kernel_table.h.
#pragma once

#include <optional>

#include "framework/autograd/tape.h"

namespace hexad::autograd {

using kernels::AttentionShape;
using kernels::GeluKind;
using kernels::RouterRule;

/// Prepares `out` for a kernel that can add to it, so that the result includes `so_far` (Backward::accumulate). Returns
/// the kernel's write mode. Copies `so_far` to `out` if they have different memory.
Write add_to(Stream& stream, const Tensor& out, const Tensor& so_far);

// --- products (linear.cpp)

/// Returns y[T, N] = x[T, D] w[N, D]^T + bias[N]. `bias` may be null. Weight gradients are a separate task. With
/// stacked weights [n, N, D] and biases [n, N], y is [T, n N].
Value linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias = nullptr);

// --- norms (rms_norm.cpp, layer_norm.cpp)

Value rms_norm(Tape& tape, const Value& x, Parameter& gain, double eps);
struct SumAndNorm {
  Value sum, normed;
};
/// Returns x + addend, rounded to its dtype, and the RMS norm of this sum, in one launch. x and addend have one shape
/// and dtype. Backward is also one launch; x and addend get the same gradient.
SumAndNorm add_rms_norm(Tape& tape, const Value& x, const Value& addend, Parameter& gain, double eps);
/// Returns the layer norm of x. `bias` may be null.
Value layer_norm(Tape& tape, const Value& x, Parameter& gain, Parameter* bias, double eps);

// --- attention (rotary.cpp, attention.cpp)

struct Rotated {
  Value q, k;
};
/// Returns q[T, H, C] and k[T, G, C] rotated; see RotaryKernels.
Rotated rotary(Tape& tape, const Value& q, const Value& k, const Tensor& positions, const Tensor& cosine,
               const Tensor& sine);
/// Returns the attention of q[T, H, C] to k and v[T, G, C]. `first` and `last` may be undefined.
Value attention(Tape& tape, const Value& q, const Value& k, const Value& v, const Tensor& first, const Tensor& last,
                const AttentionShape& shape);

// --- activations (swiglu.cpp, gelu.cpp)

/// Returns the SwiGLU of gate and up, which are side by side: [T, 2 F].
Value swiglu(Tape& tape, const Value& gate_up);
Value gelu(Tape& tape, const Value& x, GeluKind kind);

// --- pointwise (pointwise.cpp)

Value add(Tape& tape, const Value& a, const Value& b);
/// Returns alpha x.
Value scale(Tape& tape, const Value& x, double alpha);
Value clamp(Tape& tape, const Value& x, double limit);
/// Returns the elements of x in another shape.
Value reshape(Tape& tape, const Value& x, const Shape& shape);

// --- tables and losses (embedding.cpp, cross_entropy.cpp)

/// Returns the rows of table[V, D] that ids[T] name (i32, in range).
Value embedding(Tape& tape, Parameter& table, const Tensor& ids);

struct CrossEntropyOptions {
  /// Gradient of the loss that backward will receive: 1 / global count of valid tokens. It must be known in the forward
  /// pass.
  double gradient_scale = 1;
  /// Number of rows of logits in memory at a time. Logits of a micro-batch are never kept whole. Default: the device's
  /// preferred number.
  std::optional<int64_t> chunk_rows{};
};
/// Returns the sum over valid tokens of -log softmax(x w^T)[target], a scalar [1] in acc. x[T, D], w[V, D], targets[T]
/// i32; target -1 is ignored. The forward pass computes the head's product, the softmax and both gradients chunk by
/// chunk (as in Liger Kernel, Hsu et al. 2024). Therefore the gradient must be known beforehand; backward throws if it
/// receives another gradient. `row_losses` (may be null) receives the losses [T].
Value linear_cross_entropy(Tape& tape, const Value& x, Parameter& w, const Tensor& targets,
                           const CrossEntropyOptions& options, Tensor* row_losses = nullptr);

// --- mixture of experts (router.cpp, router_losses.cpp)

struct RouterChoice {
  Value scores;   // [T, E] acc
  Value weights;  // [T, K] acc
  Tensor ids;     // [T, K] i32
};
/// Chooses experts from logits[T, E] (acc). `bias` [E] (acc, may be undefined) affects the selection only. `forced_ids`
/// (may be undefined) replaces the choice; weights and their gradients then belong to the forced experts.
RouterChoice choose_experts(Tape& tape, const Value& logits, const Tensor& bias, const RouterRule& rule,
                            const Tensor& forced_ids);
/// Use of a router's loss: the op returns weight * share * loss, and adds share * loss to `total` ([1] f64; undefined:
/// nowhere). The gradient is that of weight * loss: several ranks may compute the same loss, each with a share of the
/// value and with the whole gradient.
struct LossUse {
  double weight = 1, share = 1;
  Tensor total{};
};
/// Returns the load-balancing loss (Shazeer 2017; Fedus 2021, eq. 4), the mean over scopes, [1] in acc. The loss of one
/// scope is E sum_e f_e P_e. f_e is the fraction of assignments to expert e, a given constant. P_e is the mean over
/// valid tokens of the scores, normalised to sum to one per token. segment[T] (i32) assigns tokens to scopes. -1
/// excludes a token; an undefined `segment` assigns all tokens to scope 0. fractions[S, E] is in acc. `tokens_in_scope`
/// [S] is needed if several ranks hold tokens of the same scopes: it counts the tokens of all ranks, and the sum of the
/// ranks' results is the loss. If it is empty, the host reads `segment` and counts its tokens.
Value load_balancing_loss(Tape& tape, const Value& scores, const Tensor& segment, const Tensor& fractions,
                          const std::vector<int64_t>& tokens_in_scope = {}, const LossUse& use = {});
/// Returns the mean over valid tokens of logsumexp(logits)^2 (Zoph et al. 2022, eq. 5), [1] in acc. `segment`
/// assigns tokens as in load_balancing_loss(). `valid_tokens` is the number of valid tokens of all ranks that share the
/// mean (default: the number in `segment`).
Value router_z_loss(Tape& tape, const Value& logits, const Tensor& segment, std::optional<int64_t> valid_tokens = {},
                    const LossUse& use = {});

}  // namespace hexad::autograd
