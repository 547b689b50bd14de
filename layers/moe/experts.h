// The experts of one layer that live on this rank.
#pragma once

#include <vector>

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "layers/moe/expert_weights.h"

namespace hexad::moe {

/// Of an expert's part on this rank.
struct ExpertShape {
  int64_t hidden, width;  // D, F
  bool gated;

  static constexpr int64_t block_rows = 256;  // whose gradient of the products exists in Experts::backward_weighted
  /// At most so many bytes does Experts::backward_weighted have at one time, arguments and results included.
  int64_t backward_bytes(int64_t rows, Dtype dtype) const;
};

/// E/P SwiGLU or GELU MLPs as grouped products. Parameters "gate_up" [E, 2, F, D], which one product reads (of GELU
/// experts "up" [E, F, D]), and "down" [E, D, F] (each ".weight", and ".bias" on request), sharded along ep in
/// dimension 0 and along etp in F: with etp > 1 the results of the etp ranks are addends. Forward and backward are
/// plain functions of tensors: the schedules decide what is kept, moved and computed again. What reads weights is a
/// function of those that are held; what is here only adds to gradients.
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

  /// All weights for one pass, in the order of parameters() or, backward, its reverse: what is used after what then
  /// tells the two apart, so that the right unit is brought ahead of need. Begins to bring weights that come and go,
  /// and is then collective: a pass calls it once, before anything that depends on its rows.
  ExpertWeights hold(Stream& s, kernels::Direction direction) const;

  /// Adds to the parameters' gradients; any time after ExpertWeights::input_gradients.
  void weight_gradients(Stream& s, const Tensor& rows, const ExpertMiddle& middle, const ExpertGradients& g,
                        const Tensor& doutput, const RowGroups& groups) const;
  /// Backward of rows whose results are weighted elsewhere, out[t] += weights[r] result[r], with as little memory as
  /// can be: beside what it is given, one tensor [R, F], a block of another, and the result. `doutput` is that of the
  /// weighted sum, weights [R] acc; `middle` is overwritten, its product not read. Adds the weight gradients.
  struct Weighted {
    Tensor rows;     // gradient of the rows, [R, D]
    Tensor weights;  // and of the weights, [R]; where etp ranks share the width, an addend
  };
  Weighted backward_weighted(Stream& s, const ExpertWeights& held, const Tensor& rows, ExpertMiddle middle,
                             const Tensor& doutput, const Tensor& weights, const RowGroups& groups) const;

  ExpertShape shape() const { return {config_.hidden, middle_width() / (gated() ? 2 : 1), gated()}; }

  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Elements that before_activation() leaves of a row.
  int64_t middle_width() const;
  /// Of forward, for each expert, with weights of D F elements each, as prices are for that size: gate and up count as
  /// two, though one call computes them. With gates 3, else 2.
  int64_t products() const;
  /// Of one product, per row: 2 D F.
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
  /// Of results with weights [R]: of the results' bias, and what that adds to the weights' gradient.
  void result_bias_gradients(Stream& s, const ExpertWeights& held, const Tensor& dy, const Tensor& weights,
                             const Tensor& own, const RowGroups& groups, const Tensor& dweights) const;

  Config config_;
  std::vector<Parameter*> parameters_;
  Product gate_up_, down_;
};

}  // namespace hexad::moe
