// Lower bounds of the memory that a rank needs for weights, gradients and the optimizer's state. No step has to be
// recorded for these bounds.
#pragma once

#include <optional>
#include <string>

#include "layers/model_size.h"
#include "tools/plan/cluster.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Returns the bytes of a rank's memory that are available to tensors. The rest is for the runtime's context, libraries
/// and communication buffers. Returns infinity if the cluster has no description.
double tensor_memory(const Cluster& cluster);
/// Returns the smaller of tensor_memory(cluster) and the recipe's memory.limit_bytes.
double tensor_memory(const Cluster& cluster, const train::Recipe& recipe);
/// Returns the bytes of host memory for a rank's offloaded tensors. Returns 0, which rules out offload, if the
/// description does not give these bytes. Returns infinity if the cluster has no description.
double offload_memory(const Cluster& cluster);
/// Returns a text that names the limit offload_memory() of a described cluster.
std::string limit_of_offload(const Cluster& cluster);

/// Lower bounds of the memory of a rank's state: weights, gradients, and the optimizer's main weights and states. The
/// optimizer's part counts only if it must be in the rank's memory: the recipe does not offload the optimizer, and the
/// cluster rules out offload. Only weights count if any parameters are frozen (optim.freeze).
class StateBound {
 public:
  StateBound(const train::Recipe& recipe, const layers::ModelSize& size, const Cluster& cluster);

  /// Returns a lower bound of the bytes of a rank under the recipe's layout on `world` ranks.
  double layout_bytes(const train::Recipe& recipe, int64_t world) const;
  /// Returns a lower bound, for all layouts on `world` ranks, of the bytes of the rank that needs the most. Together,
  /// the ranks hold the whole state at least once.
  double lower_bound_bytes(int64_t world) const;
  /// Returns the fewest ranks for which lower_bound_bytes() is at most `bytes`.
  int64_t fewest_ranks(double bytes) const;
  /// True if the bounds include gradients.
  bool has_gradients() const { return gradients_ > 0; }
  /// True if the bounds include the optimizer's part.
  bool has_optimizer() const { return states_ + main_weights_ > 0; }

 private:
  // Returns the bytes of the whole state.
  double whole() const {
    return (weights_ + gradients_ + states_ + main_weights_) * (dense_ + experts_) - main_weights_ * accumulators_;
  }

  double dense_, experts_;  // numbers of parameters
  double accumulators_;     // number of the dense parameters that need no main weights
  // Bytes of a parameter; 0 for parts that do not count.
  double weights_, gradients_, states_ = 0, main_weights_ = 0;
};

/// Reason why no layout can fit.
struct StateShortfall {
  double bytes, memory;  // least bytes of a rank's state; limit of a rank's tensors
  bool has_gradients;    // true if `bytes` include the gradients
  bool has_optimizer;    // true if `bytes` include the optimizer's main weights and states
  int64_t fewest_ranks;  // fewest ranks on which the state fits if it is divided evenly
};
/// Returns the reason why no layout of the recipe can fit on `world` ranks of the cluster, even with the shortest
/// sequences. Returns none if the state alone fits, or if the cluster has no description.
std::optional<StateShortfall> state_shortfall(const train::Recipe& recipe, const train::Extensions& extensions,
                                              const Cluster& cluster, int64_t world);

}  // namespace hexad::plan
