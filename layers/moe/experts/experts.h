// The experts of one layer that live on this rank.
#pragma once

#include <vector>

#include "layers/base/builder.h"
#include "layers/base/micro_batch.h"
#include "layers/moe/experts/expert_weights.h"

namespace hexad::moe {

using autograd::Parameter;
using base::Dtype;
using layers::Builder;

/// Shape of an expert's part on this rank.
struct ExpertShape {
  int64_t hidden, width;  // D, F
  bool gated;

  /// The most bytes that Experts::backward_weighted has in use at one time, arguments and results included.
  int64_t backward_bytes(int64_t rows, Dtype dtype) const;
};

/// E/P SwiGLU or GELU MLPs as grouped products. Parameters "gate_up" [E, 2, F, D], which one product reads (of GELU
/// experts "up" [E, F, D]), and "down" [E, D, F] (each ".weight", and ".bias" on request), sharded along ep in
/// dimension 0 and along etp in F: with etp > 1 the results of the etp ranks are addends. Forward and backward are
/// plain functions of tensors: the schedules decide what is kept, moved and recomputed. Functions that read weights are
/// members of ExpertWeights; those here only add to gradients.
class Experts {
 public:
  struct Config {
    ExpertKind kind;
    int64_t experts, hidden, expert_hidden;
    double init_std, output_init_std;
    bool bias;
    GeluKind gelu;
  };
  Experts(const Config& c, const Builder& b);

  /// All weights for one pass, taken in the order of parameters(), in backward in reverse. The order tells ZeRO-3 which
  /// weights are needed next, so that it gathers them ahead of need. Collective where weights are gathered: a pass
  /// calls it once, before anything that depends on its rows.
  ExpertWeights hold(Stream& s, kernels::Direction direction) const;

  /// Adds to the parameters' gradients; any time after ExpertWeights::input_gradients.
  void weight_gradients(Stream& s, const Tensor& rows, const ExpertActivations& activations, const ExpertGradients& g,
                        const Tensor& doutput, const RowGroups& groups) const;
  /// Backward of rows whose results are weighted afterwards, out[t] += weights[r] result[r], with as little memory as
  /// possible: beside its arguments one tensor [R, F], a block of another, and the result. `doutput` is the gradient of
  /// the weighted sum; weights [R] acc; `activations` is overwritten, its product is not read. Adds the weight
  /// gradients.
  struct Weighted {
    Tensor rows;     // gradient of the rows, [R, D]
    Tensor weights;  // and of the weights, [R]; where etp ranks share the width, an addend
  };
  Weighted backward_weighted(Stream& s, const ExpertWeights& held, const Tensor& rows, ExpertActivations activations,
                             const Tensor& doutput, const Tensor& weights, const RowGroups& groups) const;

  ExpertShape shape() const { return {config_.hidden, activation_width() / (gated() ? 2 : 1), gated()}; }

  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Elements that before_activation() leaves of a row.
  int64_t activation_width() const;
  /// Matrix products of forward for each expert: with gates 3, else 2. Prices are for weights of D F elements, so gate
  /// and up count as two although one call computes both.
  int64_t products() const;
  /// Floating-point operations of one product per row: 2 D F.
  double flops_per_row() const;

 private:
  struct Product {
    Parameter *weight = nullptr, *bias = nullptr;
    bool adds_bias = false;  // a bias of the outputs belongs to the sum over etp ranks: the first one adds it
    void weight_gradient(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups) const;
    void weight_gradient_of_product(Stream& s, const Tensor& dy, const Tensor& x, const RowGroups& groups) const;
  };
  Product make_first(const Config& c, const Builder& b) const;
  Product make_down(const Config& c, const Builder& b) const;
  bool gated() const { return config_.kind == ExpertKind::swiglu; }
  /// Adds to the gradient of the results' bias, and the bias's part to `dweights`; `weights` [R] weigh the results.
  void result_bias_gradients(Stream& s, const ExpertWeights& held, const Tensor& dy, const Tensor& weights,
                             const Tensor& own, const RowGroups& groups, const Tensor& dweights) const;

  Config config_;
  std::vector<Parameter*> parameters_;
  Product gate_up_, down_;
};

}  // namespace hexad::moe
