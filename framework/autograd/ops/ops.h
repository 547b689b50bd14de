// Every differentiable op; each is implemented in the file of its name. Shapes follow the legend of kernel_table.h.
#pragma once

#include <optional>

#include "framework/autograd/tape.h"

namespace hexad::autograd {

using kernels::AttentionShape;
using kernels::GeluKind;
using kernels::RouterRule;

/// Returns how a kernel that can add to its result `out` makes it include `so_far` (Backward::accumulate). Copies
/// `so_far` to `out` first if it lies elsewhere.
Write add_to(Stream& stream, const Tensor& out, const Tensor& so_far);

// --- products (linear.cpp)

/// y[T, N] = x[T, D] w[N, D]^T + bias[N]; `bias` may be null. Weight gradients are a separate task. Of stacked weights
/// [n, N, D] and biases [n, N] y is [T, n N].
Value linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias = nullptr);

// --- norms (rms_norm.cpp, layer_norm.cpp)

Value rms_norm(Tape& tape, const Value& x, Parameter& gain, double eps);
/// `bias` may be null.
Value layer_norm(Tape& tape, const Value& x, Parameter& gain, Parameter* bias, double eps);

// --- attention (rotary.cpp, attention.cpp)

/// x[T, H, C] rotated; see RotaryKernels.
Value rotary(Tape& tape, const Value& x, const Tensor& positions, const Tensor& cosine, const Tensor& sine);
/// q[T, H, C], k and v[T, G, C]; `first` and `last` may be undefined.
Value attention(Tape& tape, const Value& q, const Value& k, const Value& v, const Tensor& first, const Tensor& last,
                const AttentionShape& shape);

// --- activations (swiglu.cpp, gelu.cpp)

/// SwiGLU of gate and up side by side, [T, 2 F].
Value swiglu(Tape& tape, const Value& gate_up);
Value gelu(Tape& tape, const Value& x, GeluKind kind);

// --- pointwise (pointwise.cpp)

Value add(Tape& tape, const Value& a, const Value& b);
/// alpha x.
Value scale(Tape& tape, const Value& x, double alpha);
Value clamp(Tape& tape, const Value& x, double limit);
/// The same elements in another shape.
Value reshape(Tape& tape, const Value& x, const Shape& shape);

// --- tables and losses (embedding.cpp, cross_entropy.cpp)

/// Rows of table[V, D] for ids[T] (i32, in range).
Value embedding(Tape& tape, Parameter& table, const Tensor& ids);

struct CrossEntropyOptions {
  /// The gradient that the loss will be given in backward, known beforehand (1 / global count of valid tokens).
  double gradient_scale = 1;
  /// Rows of logits that exist at a time: logits of a micro-batch are never kept whole. Default: as the device likes.
  std::optional<int64_t> chunk_rows{};
};
/// Sum over valid tokens of -log softmax(x w^T)[target], a scalar [1] in acc. x[T, D], w[V, D], targets[T] i32, -1 is
/// ignored. The head's product, softmax and both gradients are computed chunk by chunk in the forward pass (as in Liger
/// Kernel, Hsu et al. 2024), which is why the gradient must be known; backward throws when given another.
/// `row_losses` (may be null) receives the losses [T].
Value linear_cross_entropy(Tape& tape, const Value& x, Parameter& w, const Tensor& targets,
                           const CrossEntropyOptions& options, Tensor* row_losses = nullptr);

// --- mixture of experts (router.cpp, router_losses.cpp)

struct RouterChoice {
  Value scores;   // [T, E] acc
  Value weights;  // [T, K] acc
  Tensor ids;     // [T, K] i32
};
/// Chooses experts from logits[T, E] (acc). `bias` [E] (acc, may be undefined) takes part in the selection only.
/// `forced_ids` (may be undefined) replaces the choice; weights and their gradients then belong to the forced experts.
RouterChoice choose_experts(Tape& tape, const Value& logits, const Tensor& bias, const RouterRule& rule,
                            const Tensor& forced_ids);
/// Load-balancing loss of one scope (Shazeer 2017; Fedus 2021, eq. 4): E sum_e f_e P_e, with f_e the given fraction of
/// assignments (constant) and P_e the mean over valid tokens of the scores, normalised to sum to one per token.
/// segment[T] (i32) assigns tokens to scopes, -1: excluded; undefined: all are of scope 0. fractions[S, E] in acc.
/// Result: mean over scopes, [1] in acc. Where ranks hold other tokens of the same scopes, `tokens_in_scope` [S] says
/// how many there are in all, and the ranks' results add up to the loss; empty: those of `segment`, which the host then
/// reads.
Value load_balancing_loss(Tape& tape, const Value& scores, const Tensor& segment, const Tensor& fractions,
                          const std::vector<int64_t>& tokens_in_scope = {});
/// Mean over valid tokens of logsumexp(logits)^2 (Zoph et al. 2022, eq. 5). segment as above. [1] in acc.
/// `valid_tokens` is their number over all ranks that share the mean (default: those of `segment`).
Value router_z_loss(Tape& tape, const Value& logits, const Tensor& segment, std::optional<int64_t> valid_tokens = {});

}  // namespace hexad::autograd
