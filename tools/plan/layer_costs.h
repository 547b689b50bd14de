// Costs of a layer under a layout, from which steps of many candidates are composed.
#pragma once

#include <array>
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

/// Composes steps. Models of one and two layers are recorded and simulated on the meta device for each combination of
/// the settings that a layer depends on (tp, cp, ep, etp, recomputation, ZeRO), with one and two micro-batches of two
/// lengths. Time and memory of a step are linear in layers, micro-batches and tokens, except for attention, which is
/// priced at the length of the recipe. The pipeline adds its bubble.
class LayerCosts {
 public:
  LayerCosts(const train::Extensions& extensions, const Cluster& cluster, int64_t world);

  /// Returns the estimate for a candidate. The first call with new settings of a layer takes tens of milliseconds.
  ComposedStep step(const PlanCandidate& candidate);

 private:
  // Results of a step of few layers. Seconds are without attention.
  struct Run {
    double seconds, attention_seconds, weights, gradients, optimizer, activations, temporary;
  };
  // Runs with (1, 1), (1, 2), (2, 1) and (2, 2) periods of layers and micro-batches.
  using Runs = std::array<Run, 4>;
  struct Probe {
    std::array<int64_t, 2> context;  // tokens of the sequence in each of the runs
    std::array<Runs, 2> runs;
  };
  const Probe& probe(const PlanCandidate& candidate);
  Runs at(const PlanCandidate& candidate);
  Run run(const train::Recipe& recipe, int64_t stages, int64_t micro_batches, int64_t context) const;
  double in_flight(const train::Recipe& recipe, int64_t micro_batches);
  int64_t stages_that_count(const train::Recipe& recipe) const;

  const train::Extensions& extensions_;
  const Prices prices_;
  const int64_t world_;
  std::map<std::string, Probe> probes_;
  std::map<std::array<int64_t, 4>, double> in_flight_;  // by kind, chunks, stages and micro-batches
};

}  // namespace hexad::plan
