// Steps of models of a few layers, from which LayerCosts composes those of whole models.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tools/plan/step_prices.h"

namespace hexad::plan {

/// Costs of a step of a rank with two micro-batches. Times are in seconds, bytes are the peaks of their category.
struct FewLayersStep {
  double micro_batch = 0;  // the first micro-batch
  double rest = 0;         // the step without its micro-batches: optimizer, and reductions that nothing hides
  double dp_traffic = 0;   // communication of weights and gradients in a micro-batch, hidden or not
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double temporary = 0;  // the rest of the peak, and connections
};

/// A step of all layers of a recipe in one pipeline stage, recorded on the meta device with sequences of two lengths.
/// Sizes of its operations are linear in tokens, those of attention also in the length of a sequence. So a step with
/// any number of tokens can be priced without running it. If a layer issues other operations for the other length, its
/// costs are taken to be in proportion to tokens.
class FewLayers {
 public:
  /// Records the steps: milliseconds. The ranks are on the nodes on which the first of `stages` stages of `world` ranks
  /// has them. `contexts`: lengths of the sequences, ascending.
  FewLayers(train::Recipe recipe, const train::Extensions& extensions, const Prices& prices, int64_t world,
            int64_t stages, const std::array<int64_t, 2>& contexts);

  /// Returns the costs with `sequences` sequences of `context` tokens in a micro-batch.
  FewLayersStep step(int64_t sequences, int64_t context) const;

 private:
  StepRecord with_tokens(double sequences, double context) const;

  StepPrices prices_;
  StepContention contention_;
  std::array<int64_t, 2> contexts_;
  StepRecord longer_;                  // of the longer sequence
  std::vector<device::Work> shorter_;  // of the shorter one, by operation
  std::array<FewLayersStep, 2> memory_;
};

}  // namespace hexad::plan
