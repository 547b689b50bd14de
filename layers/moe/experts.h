// The experts of one layer that live on this rank.
#pragma once

#include <span>
#include <vector>

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "layers/moe/moe_config.h"

namespace hexad::moe {

using namespace layers;

/// What an expert's first products leave for its backward (MPMoE's T_M), [R, F] each.
struct ExpertMiddle {
  Tensor gate;     // before the activation; undefined for GELU experts
  Tensor up;       // before the activation
  Tensor product;  // after it; undefined: to be computed again from the others

  bool defined() const { return up.defined(); }
};

/// Of an expert's part on this rank.
struct ExpertShape {
  int64_t hidden, width;  // D, F
  bool gated;

  static constexpr int64_t block_rows = 256;  // whose gradient of the products exists in Experts::backward_weighted
  /// At most so many bytes does Experts::backward_weighted have at one time, arguments and results included.
  int64_t backward_bytes(int64_t rows, Dtype dtype) const;
};

/// E/P SwiGLU or GELU MLPs as grouped products. Parameters "gate", "up" [E, F, D] and "down" [E, D, F] (each ".weight",
/// and ".bias" on request), sharded along ep in dimension 0 and along etp in F: with etp > 1 the results of the etp
/// ranks are addends. Forward and backward are plain functions of tensors: the schedules decide what is kept, moved and
/// computed again. Rows [R, D] are grouped by local expert as `groups` says; an expert without rows is fine.
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

  /// Which rows are whose, and as how many kernel calls their products are computed; results are the same bits.
  struct Groups {
    kernels::GroupOffsets rows;  // by local expert
    bool dense = false;          // a call for each expert that has rows; else one for all. The host must know the rows
  };

  /// Without the product.
  ExpertMiddle before_activation(Stream& s, const Tensor& rows, const Groups& groups) const;
  ExpertMiddle middle(Stream& s, const Tensor& rows, const Groups& groups) const;
  /// Results [R, D] from a middle whose product is defined.
  Tensor output(Stream& s, const ExpertMiddle& middle, const Groups& groups) const;

  /// Gradients on the way back; `middle` is consumed (its product is computed first where it is missing).
  struct Gradients {
    Tensor gate, up;  // [R, F]; gate as in ExpertMiddle
    Tensor rows;      // [R, D]: what goes on to the inputs
  };
  Gradients input_gradients(Stream& s, const ExpertMiddle& middle, const Tensor& doutput, const Groups& groups) const;
  /// Adds to the parameters' gradients; any time after input_gradients.
  void weight_gradients(Stream& s, const Tensor& rows, const ExpertMiddle& middle, const Gradients& g,
                        const Tensor& doutput, const Groups& groups) const;
  /// Backward of rows whose results are weighted elsewhere, out[t] += weights[r] result[r], with as little memory as
  /// can be: beside what it is given, one tensor [R, F], a block of another, and the result. `doutput` is that of the
  /// weighted sum, weights [R] acc; `middle` is overwritten, its product not read. Adds the weight gradients.
  struct Weighted {
    Tensor rows;     // gradient of the rows, [R, D]
    Tensor weights;  // and of the weights, [R]; where etp ranks share the width, an addend
  };
  Weighted backward_weighted(Stream& s, const Tensor& rows, ExpertMiddle middle, const Tensor& doutput,
                             const Tensor& weights, const Groups& groups) const;

  ExpertShape shape() const { return {config_.hidden, middle_width() / (gated() ? 2 : 1), gated()}; }

  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Elements that before_activation() leaves of a row.
  int64_t middle_width() const;
  /// Of forward, for each expert: with gates 3, else 2.
  int64_t products() const;
  /// Of one product, per row: 2 D F.
  double flops_per_row() const;

 private:
  struct Product {
    Parameter *weight = nullptr, *bias = nullptr;
    bool adds_bias = false;  // a bias of the outputs belongs to the sum over etp ranks: the first one adds it
    Tensor forward(Stream& s, const Tensor& x, const Groups& groups) const;
    Tensor input_gradient(Stream& s, const Tensor& dy, const Groups& groups) const;
    void add_input_gradient(Stream& s, const Tensor& dx, const Tensor& dy, const Groups& groups, Write write) const;
    void weight_gradient(Stream& s, const Tensor& dy, const Tensor& x, const Groups& groups) const;
    void weight_gradient_of_product(Stream& s, const Tensor& dy, const Tensor& x, const Groups& groups) const;
    /// Of results with weights [R]: of the bias, and what the bias adds to the weights' gradient.
    void bias_gradients(Stream& s, const Tensor& dy, const Tensor& weights, const Tensor& own, const Groups& groups,
                        const Tensor& dweights) const;
  };
  /// `width_dim`: dimension of the weight that is the expert's width.
  Product make(const Config& c, const Builder& b, Shape weight, int width_dim, double std);
  bool gated() const { return config_.kind == ExpertKind::swiglu; }
  void activate(Stream& s, const Tensor& out, const ExpertMiddle& middle) const;
  /// The rows' gradient from those of gate (where there is one) and up.
  Tensor of_first_products(Stream& s, const Tensor& dgate, const Tensor& dup, const Groups& groups) const;

  Config config_;
  std::vector<Parameter*> parameters_;
  Product gate_, up_, down_;
};

}  // namespace hexad::moe
