// Experts of one layer on one rank.
#pragma once

#include <optional>
#include <vector>

#include "layers/base/builder.h"
#include "layers/base/micro_batch.h"
#include "layers/base/moe_names.h"
#include "layers/moe/experts/expert_weights.h"
#include "layers/moe/experts/shadow_gradients.h"

namespace hexad::moe {

/// Shape of the part of an expert that this rank holds.
struct ExpertShape {
  int64_t hidden, width;  // hidden size D; width F of an expert on this rank
  bool gated;

  /// Returns the peak memory in bytes of Experts::backward_weighted, including its arguments and results.
  int64_t backward_bytes(int64_t rows, Dtype dtype) const;
};

/// Experts of one rank: E / P SwiGLU or GELU MLPs (E experts, P ep ranks). The parameters are "gate_up" [E, 2, F, D],
/// which is read by a single matrix product, and "down" [E, D, F]. GELU experts have "up" [E, F, D] instead of
/// "gate_up". Each of them consists of a weight (suffix ".weight") and, if Config::bias is true, a bias (suffix
/// ".bias"). Parameters are sharded over ep ranks in dimension 0 and, except the bias of "down", over etp ranks in F.
/// With etp > 1, the results of each etp rank are therefore addends of the complete results. Forward and backward are
/// plain functions of tensors: the schedule decides which tensors are kept, moved and recomputed. Functions that read
/// weights are members of ExpertWeights. Functions that add to the gradients of parameters are members of this class.
class Experts {
 public:
  struct Config {
    ExpertKind kind;
    int64_t experts, hidden, expert_hidden;
    double init_std, output_init_std;
    bool bias;
    GeluKind gelu;
    std::optional<double> swiglu_limit{};  // limit of ClampedSwigluKernels; none: SwigluKernels without limit
  };
  Experts(const Config& c, const Builder& b);

  /// Returns all weights for one pass. Requests them in the order of parameters(), or in reverse order in backward.
  /// ZeRO-3 relies on this order to gather weights ahead of their use. Collective if weights are gathered: a pass calls
  /// this function once, before any work that depends on the number of rows.
  ExpertWeights hold(Stream& s, kernels::Direction direction) const;

  /// Adds the contributions of the rows of the rank's own experts to the parameters' gradients. `g` is the result of
  /// ExpertWeights::input_gradients.
  void weight_gradients(Stream& s, const Tensor& rows, const ExpertActivations& activations, const ExpertGradients& g,
                        const Tensor& doutput, const RowGroups& groups) const;
  /// Adds to `out` the gradients of the shadows' weights, for the rows of shadows. The other arguments are the same as
  /// in weight_gradients().
  void shadow_gradients(Stream& s, const Tensor& rows, const ExpertActivations& activations, const ExpertGradients& g,
                        const Tensor& doutput, const RowGroups& groups, ShadowGradients& out) const;
  /// Gradients for rows whose results are multiplied by routing weights: out[t] += weights[r] result[r], where t is the
  /// token of row r. Both tensors are only this etp rank's addends of the gradients if etp > 1.
  struct Weighted {
    Tensor rows;     // gradient of the rows, [R, D]
    Tensor weights;  // gradient of the routing weights, [R]
  };
  /// Returns the gradients of the rows and of their routing weights, and adds to the parameters' gradients. `doutput`
  /// is the gradient of the weighted sum. `weights` [R] are the routing weights, in the accumulator dtype.
  /// `activations` is overwritten; its `activated` is not read. Adds the gradients of the shadows' weights to `shadows`
  /// if `groups` has shadows and `shadows` is not null. In addition to the arguments and the result, needs memory for a
  /// tensor [R, F] and one block of rows of width F.
  Weighted backward_weighted(Stream& s, const ExpertWeights& held, const Tensor& rows, ExpertActivations activations,
                             const Tensor& doutput, const Tensor& weights, const RowGroups& groups,
                             ShadowGradients* shadows = nullptr) const;

  /// True if routing weights can multiply the activations before the product `down`: SwiGLU experts without biases.
  bool can_weight() const { return gated() && !config_.bias; }

  /// True if a product and the activation can be one kernel call (FusedChoice): SwiGLU experts without biases and
  /// limits.
  bool can_fuse() const { return can_weight() && !config_.swiglu_limit; }

  ExpertShape shape() const { return {config_.hidden, activation_width() / (gated() ? 2 : 1), gated()}; }

  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Returns the number of elements in a row of ExpertActivations::gate_up.
  int64_t activation_width() const;
  /// Returns the number of matrix products per expert in forward: 3 with gates, otherwise 2. Cost estimates assume
  /// products with D * F weights each. Gate and up therefore count as two products, although one call computes both.
  int64_t products() const;
  /// Returns the bytes of one expert's weights on this rank.
  int64_t weight_bytes() const;
  /// Returns the number of floating-point operations of one product per row: 2 D F.
  double flops_per_row() const;

 private:
  struct Projection {
    Parameter *weight = nullptr, *bias = nullptr;
    bool adds_bias = false;  // true if this rank adds the bias; only the first etp rank adds the bias of `down`
    void weight_gradient(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups) const;
    void weight_gradient_without_bias(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups) const;
    void shadow_gradient(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups,
                         ShadowGradients& out) const;
    void shadow_gradient_without_bias(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups,
                                      ShadowGradients& out) const;
  };
  Projection make_first(const Config& c, const Builder& b) const;
  Projection make_down(const Config& c, const Builder& b) const;
  bool gated() const { return config_.kind == ExpertKind::swiglu; }
  /// Adds to the gradient of the bias of `down`, and adds the contribution of this bias to `dweights`. `dy` is the
  /// gradient of the weighted sum. `weights` [R] are the routing weights that multiply the results. `own` [R] contains
  /// the row numbers 0 .. R - 1. Does nothing if the experts have no biases.
  void result_bias_gradients(Stream& s, const ExpertWeights& held, const Tensor& dy, const Tensor& weights,
                             const Tensor& own, const RowGroups& groups, const Tensor& dweights,
                             ShadowGradients* shadows) const;

  Config config_;
  std::vector<Parameter*> parameters_;
  Projection gate_up_, down_;
};

}  // namespace hexad::moe
