// Expert weights held for the duration of one pass.
#pragma once

#include "layers/base/builder.h"
#include "layers/base/moe_config.h"

namespace hexad::moe {

using autograd::HeldWeight;
using device::Stream;
using kernels::GeluKind;
using tensor::Tensor;

/// Rows of each local expert, and the number of kernel calls for their products. Results are bitwise identical.
struct RowGroups {
  kernels::GroupOffsets rows{};  // by local expert
  bool dense = false;            // a call for each expert that has rows; else one for all. The host must know the rows
  int64_t computations = 1;      // per pass, over all its rows: the number of contributions to each weight gradient

  /// f(expert, begin, end) for each that has rows.
  template <class F>
  void for_each_busy(const F& f) const {
    for (size_t e = 0; e + 1 < rows.host.size(); ++e)
      if (rows.host[e] < rows.host[e + 1]) f(static_cast<int64_t>(e), rows.host[e], rows.host[e + 1]);
  }
};

/// Activations of an expert's first product, for backward (MPMoE's T_M).
struct ExpertActivations {
  Tensor gate_up;  // before the activation: gate and up side by side [R, 2 F]; of GELU experts up alone [R, F]
  Tensor product;  // after it [R, F]; undefined: to be computed again

  bool defined() const { return gate_up.defined(); }
};

/// Gradients on the way back.
struct ExpertGradients {
  Tensor gate_up;  // as in ExpertActivations
  Tensor rows;     // [R, D]: what goes on to the inputs
};

/// Gates and ups [E, 2, F, ...] as the kernels see them, [E, 2 F, ...]; others as they are. `rank`: of the result.
Tensor joined(const Tensor& gates_and_ups, int rank);

/// The weights of all experts of a layer on this rank, in memory as long as this exists. All ranks take them once a
/// pass (Experts::hold), so what ranks gather does not depend on which experts have rows or how rows are cut into
/// chunks. Rows [R, D] are grouped by local expert; an expert may have none.
class ExpertWeights {
 public:
  /// Holds nothing: for passes that are only looked at.
  ExpertWeights() = default;

  /// Without the product.
  ExpertActivations before_activation(Stream& s, const Tensor& rows, const RowGroups& groups) const;
  ExpertActivations activations(Stream& s, const Tensor& rows, const RowGroups& groups) const;
  /// Memory for the activations' product, [R, F].
  Tensor product_like(const ExpertActivations& activations) const;
  /// The activations' product, into `out`.
  void activate(Stream& s, const Tensor& out, const ExpertActivations& activations) const;
  /// Results [R, D] from activations whose product is defined.
  Tensor output(Stream& s, const ExpertActivations& activations, const RowGroups& groups) const;

  ExpertGradients input_gradients(Stream& s, const ExpertActivations& activations, const Tensor& doutput,
                                  const RowGroups& groups) const;
  /// Its steps: the gradient of the product [R, F]; that of gate and up, which may take their place; the rows'.
  Tensor product_gradient(Stream& s, const Tensor& doutput, const RowGroups& groups) const;
  void activation_gradient(Stream& s, const Tensor& dgate_up, const Tensor& dproduct,
                           const ExpertActivations& activations) const;
  Tensor row_gradient(Stream& s, const Tensor& dgate_up, const RowGroups& groups) const;

  /// Adds the bias of the results, if this rank is the one to add it.
  void add_result_bias(Stream& s, const Tensor& results, const RowGroups& groups) const;

 private:
  friend class Experts;
  struct Product {
    HeldWeight weight, bias;
    bool adds_bias = false;  // there is a bias, and it is not for another rank to add
    Tensor forward(Stream& s, const Tensor& x, const RowGroups& groups) const;
    void add_bias(Stream& s, const Tensor& out, const RowGroups& groups) const;
    Tensor input_gradient(Stream& s, const Tensor& dy, const RowGroups& groups) const;

   private:
    Tensor matrices(Stream& s) const;
  };

  Product gate_up_, down_;
  ExpertKind kind_{};
  GeluKind gelu_{};
};

}  // namespace hexad::moe
