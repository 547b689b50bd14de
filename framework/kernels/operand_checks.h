// Checks of operands, used by the kernels of several backends. All checks throw std::logic_error.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/tensor_checks.h"

namespace hexad::kernels {

/// Checks that `rule` can choose among `experts` experts.
inline void check_rule(const RouterRule& rule, int64_t experts) {
  base::require(rule.top_k >= 1 && rule.groups >= 1 && experts % rule.groups == 0 && rule.top_groups >= 1 &&
                    rule.top_groups <= rule.groups && rule.top_k <= experts / rule.groups * rule.top_groups,
                "[router] cannot choose ", rule.top_k, " of ", experts, " experts from ", rule.top_groups, " of ",
                rule.groups, " groups; expected at least 1 chosen expert, from 1 to ", rule.groups,
                " chosen groups, groups of equal size, and enough "
                "experts in the chosen groups");
}

/// Sizes of the operands of ExpertChoiceKernels::forward and backward.
struct ChoiceSizes {
  int64_t tokens, experts, slots;
};
/// Checks the scores [T, E], and the weights and ids [T, K] of the chosen slots, and returns their sizes. In backward,
/// scores and weights are gradients.
inline ChoiceSizes choice_sizes(std::string_view scores_name, const Tensor& scores, std::string_view weights_name,
                                const Tensor& weights, const Tensor& ids) {
  const ChoiceSizes n{scores.dim(0), scores.dim(1), ids.dim(1)};
  require_flat("expert_choice", scores_name, scores, n.tokens * n.experts);
  require_flat("expert_choice", weights_name, weights, n.tokens * n.slots);
  require_flat("expert_choice", "ids", ids, n.tokens * n.slots);
  return n;
}

/// Checks the shapes of the results [T, H, C] of attention, the log-sum-exps [T, H] and the sinks [H].
inline void check_sinks(const Tensor& out, const Tensor& log_sum_exp, const Tensor& sinks) {
  base::require(out.rank() == 3, "[sink] out has shape ", out.shape(), "; expected [tokens, heads, size]");
  require_flat("sink", "log_sum_exp", log_sum_exp, out.dim(0) * out.dim(1));
  require_flat("sink", "sinks", sinks, out.dim(1));
}

/// Checks that `t`, which is `first` or `last` of an attention call, is undefined or contiguous i32 [B, S].
inline void check_bounds(std::string_view name, const Tensor& t, const AttentionShape& shape) {
  if (!t.defined()) return;
  base::require(t.dtype() == base::Dtype::i32 && t.numel() == shape.sequences * shape.queries && t.contiguous(),
                "[attention] ", name, " is ", t.dtype(), " ", t.shape(), " with strides ", t.strides(),
                "; expected contiguous i32 ", base::Shape({shape.sequences, shape.queries}));
}

/// A tensor as a matrix: leading dimensions are flattened, and rows are `stride` elements apart.
struct MatrixShape {
  int64_t rows, columns, stride;
};
/// Checks that `t` is floating and has equally spaced, contiguous rows, and returns its shape as a matrix.
inline MatrixShape matrix_shape(std::string_view op, std::string_view name, const Tensor& t) {
  const int inner = t.rank() - 1;
  base::require(inner >= 1 && base::is_floating(t.dtype()), "[", op, "] ", name, " is ", t.dtype(), " ", t.shape(),
                "; expected a floating dtype and at least two dimensions");
  const int64_t columns = t.dim(inner);
  int64_t rows = 1, stride = columns;
  for (int d = inner - 1; d >= 0; --d) {
    if (t.dim(d) == 1) continue;
    if (rows == 1) stride = t.strides()[d];
    base::require(t.strides()[d] == rows * stride, "[", op, "] ", name, " of shape ", t.shape(), " has strides ",
                  t.strides(), "; expected equally spaced rows");
    rows *= t.dim(d);
  }
  base::require((columns <= 1 || t.strides()[inner] == 1) && (rows <= 1 || stride >= columns), "[", op, "] ", name,
                " of shape ", t.shape(), " has strides ", t.strides(),
                "; expected contiguous rows that do not overlap");
  return {rows, columns, stride};
}

}  // namespace hexad::kernels
