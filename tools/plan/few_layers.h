// Costs of training steps of models with a few layers. LayerCosts composes the steps of whole models from these costs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tools/plan/shared_by_runs.h"
#include "tools/plan/step_prices.h"

namespace hexad::plan {

/// Peak memory of one rank's step with two micro-batches, in bytes, by category.
struct FewLayersMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
};

/// Times of one rank's step with two micro-batches, in seconds.
struct FewLayersTimes {
  double micro_batch = 0;  // from the start of the first micro-batch to the start of the second
  // The step without its micro-batches: optimizer and exposed reductions. Under ZeRO-1 and 2, `rest` includes all
  // gathers of weights, although a whole step hides some of these gathers (see record_step()).
  double rest = 0;
  double dp_traffic = 0;  // communication of weights and gradients in a micro-batch, both hidden and exposed
};

/// Returns prices for the ranks of the first pipeline stage, in ascending order. The job has `world` ranks and `stages`
/// stages. The prices depend on the sizes and the order of the recipe's axes. Takes time linear in `world`.
std::shared_ptr<const StepPrices> prices_of_stage(const train::Recipe& recipe, const Prices& prices, int64_t world,
                                                  int64_t stages);

/// A step of all layers of a recipe in one pipeline stage, recorded on the meta device for two sequence lengths. The
/// sizes of operations are linear in the number of tokens. The sizes of attention are also linear in the sequence
/// length. Therefore, a step with any number of tokens can be priced without running it. Simpler rules apply if the
/// steps of the two lengths issue different operations. In this case, the time of a micro-batch, activations and
/// temporary memory are proportional to the number of tokens. All other costs are constant.
class FewLayers {
 public:
  /// Records the steps, which takes milliseconds. `prices` are the prices of the stage (prices_of_stage()). `contexts`
  /// has the two sequence lengths, ascending. Records the rank whose experts have the largest total load if `load`
  /// gives the loads of the experts. `extensions` must outlive the object. `shared` holds results of other runs. The
  /// runs of this object use these results and add their own. If `shared` is null, the runs of this object share
  /// results only with each other.
  FewLayers(train::Recipe recipe, const train::Extensions& extensions, std::shared_ptr<const StepPrices> prices,
            const std::array<int64_t, 2>& contexts, RoutingLoad load = RoutingLoad::even,
            std::shared_ptr<SharedByRuns> shared = nullptr);

  /// These functions return the costs of a step with `sequences` sequences of `context` tokens in each micro-batch.
  /// Times are simulated, which takes longer than the extrapolation of memory. The times are valid for a job with
  /// `stages` stages for each recorded stage. In this job, the groups that exchange weights and gradients have 1 /
  /// `stages` as many ranks. Under ZeRO, each rank updates `stages` times as many weights.
  FewLayersMemory memory(int64_t sequences, int64_t context) const;
  FewLayersTimes times(int64_t sequences, int64_t context, int64_t stages = 1);

  /// Frees the memory that times() keeps for later calls.
  void free_simulation() { simulation_.reset(); }

  /// True if the steps of the two lengths issue different operations. The costs of a micro-batch are then proportional
  /// to its number of tokens.
  bool is_proportional() const { return contexts_[0] == contexts_[1]; }

  /// Returns the bytes of temporary memory of a micro-batch of `tokens` tokens, including NCCL's buffers. Assumes that
  /// all temporary memory grows with the number of tokens (but see tokens_of_loss_block()).
  double temporary(double tokens) const;
  /// Returns the bytes by which the temporary memory of the layers grows for each token of a micro-batch. Runs a model
  /// with a tiny vocabulary for both sequence lengths, so that the loss takes almost no memory.
  double growth_of_layers() const;

 private:
  // Operation of the record that is attention, or whose work has other sizes in the step with the shorter sequences.
  struct Shorter {
    size_t operation;   // index in StepRecord::issues
    device::Work work;  // work in the step with the shorter sequences
  };
  device::MemoryStats run_recorded(StepRecord& record);
  device::Work resized(size_t operation, double sequences, double context) const;
  void find_equal_operations();
  mesh::Layout layout() const;
  int rank_in(const mesh::Layout& layout) const;

  train::Recipe recipe_;  // recipe with one pipeline stage, and with one longer sequence as micro-batch
  const train::Extensions& extensions_;
  RoutingLoad load_;
  std::shared_ptr<SharedByRuns> shared_;
  std::shared_ptr<const StepPrices> prices_;
  // Step with the longer sequences. Its address must not change, because `priced_` refers to it. It has no spans,
  // because spans would take much memory in a search.
  std::unique_ptr<StepRecord> record_;
  std::optional<RecordPrices> priced_;
  std::vector<bool> of_update_;   // by operation: true if the operation belongs to the update
  std::vector<Shorter> shorter_;  // ascending; the work of all other operations is equal in both steps
  // By operation: the first operation that has the same price with any number of tokens.
  std::vector<int32_t> same_price_;
  StepContention contention_;
  // Simulation of the record; null before times() and after free_simulation().
  std::unique_ptr<StepSimulation> simulation_;
  // Shorter and longer sequence length. contexts_ holds the longer length twice if the shorter length is ignored.
  std::array<int64_t, 2> contexts_, recorded_contexts_;
  size_t first_ = 0, second_ = 0;  // indices of the first operations of the two micro-batches
  std::array<FewLayersMemory, 2> memory_;
  std::array<double, 2> temporary_{};
};

/// Returns two sequence lengths, ascending, with which FewLayers can record the recipe's layers. Both lengths satisfy
/// every layout rule, and are short, because recording takes longer with more tokens. Both may exceed a very short
/// context of the recipe.
std::array<int64_t, 2> recorded_contexts(const train::Recipe& recipe);

/// Returns the seconds of the recipe's micro-batch in a smaller model. This model has the dense first layers
/// (model.moe.dense_layers) and one period of layers. Simulates a rank of the recipe's first pipeline stage in a job of
/// `world` ranks. Each layer has the mean load of all layers if `load` gives the loads of the experts. Returns none if
/// optim.freeze is set, because layers then differ. Also returns none if schedule.moe.memory_limit is set, or if the
/// steps of the two recorded lengths issue different operations. Takes milliseconds.
std::optional<double> micro_batch_of_few_layers(train::Recipe recipe, const train::Extensions& extensions,
                                                const Prices& prices, int64_t world, RoutingLoad load,
                                                std::shared_ptr<SharedByRuns> shared);

/// Returns the number of tokens whose logits a rank keeps at the same time in a micro-batch of `tokens` tokens. A GPU
/// computes the loss in blocks of rows. With tp, two blocks have logits at the same time, but only one block has a
/// gradient. The result is then the number of tokens whose logits and gradients would take as much memory as these two
/// blocks.
///
/// Returns none if `recorded_tokens` tokens already have several blocks, for example on a CPU. Above this number of
/// tokens, the logits then take no additional memory.
std::optional<double> tokens_of_loss_block(const train::Recipe& recipe, int64_t recorded_tokens, double tokens);

}  // namespace hexad::plan
