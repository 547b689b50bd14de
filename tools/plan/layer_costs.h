// Costs of layers under a layout, from which the planner composes the steps of many candidates.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/plan/few_layers.h"
#include "tools/plan/frozen_periods.h"
#include "tools/plan/plan_space.h"

namespace hexad::plan {

/// Estimate of a step, composed from the costs of its layers.
struct ComposedStep {
  double seconds = 0;
  double memory = 0;  // bytes of the rank that needs the most
};

/// Composes steps from the costs of layers. The costs of a layer depend on tp, cp, cp_kind, ep, etp, recomputation,
/// ZeRO and placement. For each combination of these settings, models of one and two periods of layers are recorded on
/// the meta device. These models are priced with the candidate's tokens (FewLayers).
///
/// The time of a step is linear in the numbers of layers and micro-batches, plus the bubble of the pipeline. The memory
/// of a step is linear in the numbers of layers and of micro-batches in flight. The layers are divided among the stages
/// as in a run, where the division balances the FLOPs of layers and head. The groups that exchange weights and
/// gradients are smaller if the candidate has more stages than the recorded model (RecordPrices::shrink_groups()).
/// Temporary memory is linear in the tokens up to the tokens of one block of the loss (tokens_of_loss_block()), because
/// a GPU computes the loss in blocks of rows. Above this number, temporary memory is the larger of two sizes: the
/// memory of the loss of one block, and the memory of the layers.
///
/// Each layer has the mean load of all layers if the loads of the experts are given. Each layer has the mean costs of
/// all layers if optim.freeze freezes different parameters in different layers. The recipes of all candidates may
/// differ only in the settings that a plan changes (PlanCandidate), and in their sequence length.
class LayerCosts {
 public:
  /// Makes costs for `world` ranks and the load `load` of the experts. `extensions` must outlive the object.
  LayerCosts(const train::Extensions& extensions, const Cluster& cluster, int64_t world,
             RoutingLoad load = RoutingLoad::even);

  /// Returns the estimate for a candidate. The first call with new layer settings takes tens of milliseconds.
  ComposedStep step(const PlanCandidate& candidate) {
    return {.seconds = seconds(candidate), .memory = memory(candidate)};
  }
  /// These functions return only the time (seconds) or the memory (bytes) of step(). For a new number of tokens,
  /// memory() is faster than seconds().
  double seconds(const PlanCandidate& candidate);
  double memory(const PlanCandidate& candidate);

  /// Costs that are linear in the number of layers: costs of embedding plus head, and of one layer.
  struct Linear {
    double ends, layer;
    double at(double layers) const { return ends + layers * layer; }
  };

 private:
  struct Stage {
    int64_t layers = 0;
    bool has_head = false;
  };
  // Memory (bytes) and times of models with one and with two periods of layers. Memory::temporary is computed from the
  // models with two periods.
  struct Memory {
    std::array<FewLayersMemory, 2> models{};
    double temporary = 0;
  };
  using Times = std::array<FewLayersTimes, 2>;
  using Tokens = std::pair<int64_t, int64_t>;  // number of sequences, and context
  // Models with one and with two periods of layers, for each kind of periods, and their costs.
  struct Models {
    int64_t recorded_context;  // tokens in the longer of the two recorded sequences
    std::vector<std::array<FewLayers, 2>> kinds;
    std::map<Tokens, Memory> memory;
    std::map<std::pair<Tokens, int64_t>, Times> times;  // by tokens, and by stages for each recorded stage
  };
  std::shared_ptr<const StepPrices> prices_of(const train::Recipe& recipe, int64_t stages);
  Models& models(const train::Recipe& recipe);
  void free_other_simulations(const train::Recipe& recipe);
  const Memory& memory_of_models(const train::Recipe& recipe);
  const Times& times_of_models(const train::Recipe& recipe);
  double temporary(const FewLayers& layers, const train::Recipe& recipe, int64_t recorded_context);
  double in_flight(const train::Recipe& recipe, int64_t micro_batches);
  const std::vector<Stage>& stages_of(const train::Recipe& recipe);
  double slowest_stage(const Linear& costs, const train::Recipe& recipe);
  int64_t stages_that_count(const train::Recipe& recipe) const;

  const train::Extensions& extensions_;
  const Prices prices_;
  const int64_t world_;
  const RoutingLoad load_;
  const std::shared_ptr<SharedByRuns> shared_ = std::make_shared<SharedByRuns>();
  std::map<std::string, Models> models_;
  std::pair<int64_t, int64_t> simulated_{};  // tp and cp of the models that keep simulations
  // Prices by tp, cp, ep, etp and stages.
  std::map<std::array<int64_t, 5>, std::shared_ptr<const StepPrices>> prices_of_stages_;
  std::vector<FrozenPeriods> kinds_;  // empty before the first step
  // Growth of the layers' temporary memory, in bytes per token, by settings. The keys contain neither ZeRO nor
  // placement, because the growth does not depend on them.
  std::map<std::string, double> growth_;
  // Results of in_flight(), by kind of pipeline, virtual stages, stages and micro-batches.
  std::map<std::array<int64_t, 4>, double> in_flight_;
  // Results of stages_of(), by number of stages, kind of pipeline, virtual stages and context.
  std::map<std::array<int64_t, 4>, std::vector<Stage>> stages_;
};

/// Costs shared by several searches. All searches must have the same cluster, the same load of the experts and, apart
/// from the sequence length, the same recipe.
class SharedCosts {
 public:
  /// Returns the costs for `world` ranks. The first call for each number of ranks creates the costs.
  LayerCosts& of(const train::Extensions& extensions, const Cluster& cluster, int64_t world, const RoutingLoad& load) {
    return costs_.try_emplace(world, extensions, cluster, world, load).first->second;
  }

 private:
  std::map<int64_t, LayerCosts> costs_;  // by number of ranks
};

}  // namespace hexad::plan
