// Statistics of the routers of MoE layers.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "framework/kernels/kernel_table.h"
#include "layers/base/layer_names.h"

namespace hexad::layers {

/// Statistics of one MoE layer over the micro-batches since the last reset. Each rank counts its share of the tokens,
/// so the totals of counts and losses are sums over the ranks.
struct RouterStatistics {
  // Number of tokens that chose each expert, before drops and without padding. If experts choose tokens, this is the
  // number of tokens that keep each expert.
  std::vector<int64_t> counts;
  // Numbers of token-expert pairs before drops, and of dropped pairs. If experts choose tokens, only the sums over the
  // ranks have this meaning.
  int64_t assignments = 0, dropped = 0;
  double aux_loss = 0, z_loss = 0;   // sums of the unweighted losses over the micro-batches
  int64_t passes = 0, shadowed = 0;  // number of forward passes, and total number of hot experts in them

  /// Sums on the model's device, to which kernels add. ModelStatistics zeroes them and reads them into counts,
  /// assignments, dropped, aux_loss and z_loss.
  struct Sums {
    Tensor chosen, kept;  // [E] i64: slots of each expert before and after drops; `kept` only if slots may be dropped
    Tensor aux_loss, z_loss;  // [1] f64
  };
  Sums sums{};
  bool may_drop = false;  // true if the layer adds to sums.kept
  /// Set only if experts choose tokens: number of token-expert pairs that the experts have chosen. One of the ranks
  /// that share a micro-batch counts the choices of all tokens in the micro-batch; all other ranks have 0.
  std::optional<int64_t> choices_of_experts{};
};

/// Statistics of all MoE layers of a model. Their sums are in memory of the model's device.
class ModelStatistics {
 public:
  ModelStatistics(int64_t moe_layers, int64_t experts, Device device);
  void reset(Stream& stream);
  /// Reads the sums that have accumulated since the last reset into other members of `layers` (RouterStatistics::Sums).
  void read(Stream& stream);

  std::vector<RouterStatistics> layers;

 private:
  Tensor counts_, losses_;  // [layers, 2, E] i64 and [layers, 2] f64; undefined without MoE layers
};

}  // namespace hexad::layers
