// Costs of steps of models with a few layers. LayerCosts composes steps of whole models from these costs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tools/plan/step_prices.h"

namespace hexad::plan {

/// Costs of one rank's step with two micro-batches. Times are in seconds. Bytes are the peak of each category.
struct FewLayersStep {
  double micro_batch = 0;  // from the start of the first micro-batch to the start of the second
  double rest = 0;         // the step without its micro-batches: optimizer and exposed reductions
  double dp_traffic = 0;   // communication of weights and gradients in a micro-batch, hidden or not
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double temporary = 0;  // rest of the peak, including NCCL's buffers
};

/// A step of all layers of a recipe in one pipeline stage, recorded on the meta device for two sequence lengths. The
/// sizes of operations are linear in the number of tokens. The sizes of attention are also linear in the sequence
/// length. Therefore, a step with any number of tokens can be priced without running it. If the two lengths issue
/// different operations, costs are assumed to be proportional to the number of tokens.
class FewLayers {
 public:
  /// Records the steps, which takes milliseconds. Places the ranks on the nodes of the first stage, if `world` ranks
  /// form `stages` stages. `contexts` has the two sequence lengths, ascending.
  FewLayers(train::Recipe recipe, const train::Extensions& extensions, const Prices& prices, int64_t world,
            int64_t stages, const std::array<int64_t, 2>& contexts);

  /// Returns the costs with `sequences` sequences of `context` tokens in a micro-batch.
  FewLayersStep step(int64_t sequences, int64_t context) const;

 private:
  StepRecord with_tokens(double sequences, double context) const;

  StepPrices prices_;
  StepContention contention_;
  std::array<int64_t, 2> contexts_;
  StepRecord longer_;                  // step with the longer sequences
  std::vector<device::Work> shorter_;  // step with the shorter sequences, by operation
  std::array<FewLayersStep, 2> memory_;
};

}  // namespace hexad::plan
