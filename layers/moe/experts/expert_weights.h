// Expert weights held for the duration of one pass.
#pragma once

#include <optional>

#include "layers/base/builder.h"
#include "layers/base/moe_config.h"
#include "layers/base/moe_names.h"
#include "layers/moe/experts/fused_duels.h"
#include "parallel/ep/hot_experts.h"

namespace hexad::moe {

/// Rows of each local expert, and the choice of kernel calls for their matrix products. On CPUs, results are bitwise
/// identical for both choices. The rows of shadows (copies of hot experts) follow the rows of the rank's own experts.
struct RowGroups {
  kernels::GroupOffsets rows{};  // offsets of each own expert's rows
  bool dense = false;            // true: one kernel call per expert, which requires `rows` on the host; false: one call
  int64_t computations = 1;      // number of contributions to each weight gradient in a pass (Routes::computations)
  kernels::GroupOffsets shadows{};  // offsets of shadow rows, counted from the first shadow row; no groups: no shadows

  FusedChoice forward{};   // for the experts' first product and their activation
  FusedChoice backward{};  // for the gradients of the last product and of the activation

  bool has_shadows() const { return shadows.groups > 0; }
  /// Returns the part of a tensor [R, ...] that belongs to the rank's own experts; without shadows, the whole tensor.
  Tensor own_part(const Tensor& t) const { return has_shadows() ? t.slice(0, 0, rows.host.back()) : t; }
  /// Returns the shadows' part of a tensor [R, ...].
  Tensor shadow_part(const Tensor& t) const { return t.slice(0, rows.host.back(), t.dim(0)); }
};

/// Activations of the experts, for backward (T_M in the MPMoE paper). R: number of rows. D: hidden size. F: width of an
/// expert on this rank. acc: the accumulator dtype.
struct ExpertActivations {
  Tensor gate_up;    // input of the activation: gate and up side by side [R, 2 F], or up [R, F] for GELU
  Tensor activated;  // [R, F]: output of the activation, times `weights` if these exist; undefined: must be recomputed
  Tensor weights;    // [R] acc: routing weights by which `activated` is multiplied; undefined: none

  bool defined() const { return gate_up.defined(); }
};

/// Gradients of the experts' activations and rows.
struct ExpertGradients {
  Tensor gate_up;  // shape of ExpertActivations::gate_up
  Tensor rows;     // [R, D]: gradient of the inputs; if etp > 1, only this etp rank's addend of the gradient
};

/// Returns gates and ups [E, 2, F, ...] as [E, 2 F, ...], the shape that kernels expect. `rank` is the number of
/// dimensions of the result. A tensor that already has `rank` dimensions is returned unchanged.
Tensor joined(const Tensor& gates_and_ups, int rank);

/// Weights of all experts of a layer on this rank. They remain in memory as long as this object exists. Each rank
/// obtains them once per pass (Experts::hold). Under ZeRO-3, all ranks therefore gather the same weights, regardless of
/// chunks and of which experts have rows. Rows [R, D] are grouped by local expert. An expert may have no rows.
class ExpertWeights {
 public:
  /// Returns the activations of `rows` [R, D], but leaves `activated` undefined.
  ExpertActivations before_activation(Stream& s, const Tensor& rows, const RowGroups& groups) const;
  /// Returns the activations of `rows` [R, D], including `activated`. Multiplies `activated` by `weights` [R] acc if
  /// they are defined. Weights are allowed only if Experts::can_weight() is true.
  ExpertActivations activations(Stream& s, const Tensor& rows, const RowGroups& groups, const Tensor& weights) const;
  /// Returns a buffer for ExpertActivations::activated, [R, F].
  Tensor activated_like(const ExpertActivations& activations) const;
  /// Writes `activated`, computed from the other members of `activations`, to `out`.
  void activate(Stream& s, const Tensor& out, const ExpertActivations& activations) const;
  /// Returns the results [R, D] for activations whose `activated` is defined.
  Tensor output(Stream& s, const ExpertActivations& activations, const RowGroups& groups) const;

  /// Returns the gradients of the activations and rows, from the gradient `doutput` [R, D] of the results. Does not
  /// compute weight gradients; see Experts::weight_gradients. Also recomputes `activated`, and writes the gradient of
  /// the routing weights to `dweights` [R] acc, if `activations` has routing weights. Otherwise, `dweights` must be
  /// undefined.
  ExpertGradients input_gradients(Stream& s, ExpertActivations& activations, const Tensor& doutput,
                                  const RowGroups& groups, const Tensor& dweights) const;
  /// The three steps of input_gradients() for activations without weights:
  ///   - activated_gradient() returns the gradient of ExpertActivations::activated, [R, F].
  ///   - gate_up_gradient() writes the gradient of ExpertActivations::gate_up to `dgate_up`. `dgate_up` may be the
  ///     tensor gate_up itself.
  ///   - row_gradient() returns the gradient of the rows, [R, D].
  Tensor activated_gradient(Stream& s, const Tensor& doutput, const RowGroups& groups) const;
  void gate_up_gradient(Stream& s, const Tensor& dgate_up, const Tensor& dactivated,
                        const ExpertActivations& activations) const;
  Tensor row_gradient(Stream& s, const Tensor& dgate_up, const RowGroups& groups) const;

  /// Adds the bias of `down` to the results if this rank is responsible for the bias (Experts::Projection::adds_bias).
  void add_result_bias(Stream& s, const Tensor& results, const RowGroups& groups) const;

  /// Broadcasts the weights of the hot experts in the ep group `ranks`, so that each rank has a shadow of each hot
  /// expert. Must be called before any use with RowGroups that have shadows. Collective. `s` waits for the weights.
  void receive_shadows(Stream& s, const ep::HotExperts& hot, const comm::ProcessGroup& ranks);

 private:
  friend class Experts;
  /// Implementations of activations(): with separate kernel calls, with one kernel call, and with both in a duel.
  ExpertActivations plain_activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                      const Tensor& weights) const;
  ExpertActivations fused_activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                      const Tensor& weights) const;
  ExpertActivations contested_activations(Stream& s, const Tensor& rows, const RowGroups& groups,
                                          const Tensor& weights) const;
  /// Gradient of ExpertActivations::gate_up, and the recomputed `activated` if the activations have routing weights.
  struct ActivationGradients {
    Tensor gate_up, activated{};
  };
  /// Implementations of input_gradients() up to the gradient of gate_up. `dweights` is as in input_gradients().
  ActivationGradients plain_gradients(Stream& s, const ExpertActivations& activations, const Tensor& doutput,
                                      const RowGroups& groups, const Tensor& dweights) const;
  ActivationGradients fused_gradients(Stream& s, const ExpertActivations& activations, const Tensor& doutput,
                                      const RowGroups& groups, const Tensor& dweights) const;
  ActivationGradients contested_gradients(Stream& s, const ExpertActivations& activations, const Tensor& doutput,
                                          const RowGroups& groups, const Tensor& dweights) const;
  /// Throws std::logic_error if one kernel call cannot compute a product and the activation of these groups.
  void require_fusible(const RowGroups& groups) const;
  void swiglu_gradients(Stream& s, const kernels::SwigluGradients& gradients, const Tensor& dactivated,
                        const kernels::SwigluSaved& saved) const;
  struct HeldProjection {
    HeldWeight weight, bias;
    bool adds_bias = false;                 // true if there is a bias and this rank adds it
    Tensor shadow_weight{}, shadow_bias{};  // weights and biases of the shadows, [H, ...]; undefined: none
    Tensor forward(Stream& s, const Tensor& x, const RowGroups& groups) const;
    void add_bias(Stream& s, const Tensor& out, const RowGroups& groups) const;
    Tensor input_gradient(Stream& s, const Tensor& dy, const RowGroups& groups) const;
    Tensor matrices(Stream& s) const;
  };

  ExpertWeights() = default;  // Experts::hold sets all members

  HeldProjection gate_up_, down_;
  ExpertKind kind_{};
  GeluKind gelu_{};
  std::optional<double> swiglu_limit_;
};

}  // namespace hexad::moe
