// Costs of a layer under a layout, from which steps of many candidates are composed.
#pragma once

#include <map>
#include <string>

#include "tools/plan/plan_space.h"
#include "tools/plan/step_prices.h"

namespace hexad::plan {

/// Estimate of a step, composed from costs of layers.
struct ComposedStep {
  double seconds = 0;
  double memory = 0;  // bytes of the rank that needs most
};

/// Composes steps. Models of a few layers are recorded and simulated on the meta device for each combination of the
/// settings that a layer depends on (tp, cp, ep, etp, micro-batch, recomputation, ZeRO-3). Time and memory of a step
/// are linear in layers and micro-batches, so four such runs give the costs of a layer, of a micro-batch, and of the
/// step's rest (embedding, head, reductions, update). The pipeline adds its bubble.
class LayerCosts {
 public:
  LayerCosts(const train::Extensions& extensions, const Cluster& cluster, int64_t world);

  /// Returns the estimate for a candidate. The first call with new settings of a layer takes milliseconds.
  ComposedStep step(const PlanCandidate& candidate);
  size_t recorded() const { return costs_.size(); }

 private:
  // A number f(layers, micro-batches) = rest + layers * by_layer + micro_batches * (micro + layers * layer).
  struct Linear {
    double rest = 0, by_layer = 0, micro = 0, layer = 0;
    double at(double layers, double micro_batches) const {
      return rest + layers * by_layer + micro_batches * (micro + layers * layer);
    }
  };
  struct Costs {
    Linear seconds;
    Linear weights, gradients, optimizer;  // bytes, if the model had one stage
    Linear activations;                    // bytes kept for backward of one micro-batch
    double temporary = 0;
  };
  struct Run {
    double seconds, weights, gradients, optimizer, activations, temporary;
  };
  const Costs& costs(const PlanCandidate& candidate);
  Run run(const train::Recipe& recipe, int64_t micro_batches) const;

  const train::Extensions& extensions_;
  const Cluster& cluster_;
  const int64_t world_;
  std::map<std::string, Costs> costs_;
};

}  // namespace hexad::plan
