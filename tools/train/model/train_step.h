// One optimizer step: forward and backward of this rank's micro-batches, reductions over ranks, update of the weights.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/data/source.h"
#include "layers/moe/router/router_statistics.h"
#include "optim/optimizer.h"
#include "parallel/dp/gradient_buckets.h"
#include "tools/train/model/equal_micro_batches.h"
#include "tools/train/model/model_pipeline.h"
#include "tools/train/model/progress.h"

namespace hexad::train {

using layers::ModelStatistics;

/// Results of a step, equal on all ranks.
struct StepResult {
  double loss = 0;  // nats per target of the global batch; NaN without targets
  /// Mean loss of the prediction blocks. The loss of a block is its summed cross-entropy divided by the number of
  /// targets of the global batch. The block itself has fewer targets. NaN without targets; nullopt without prediction
  /// blocks.
  std::optional<double> prediction_loss{};
  double grad_norm = 0;                   // norm before clipping
  bool skipped = false;                   // true if loss or gradient was not finite; weights are then unchanged
  double lr = 0;                          // learning rate of the update
  int64_t tokens = 0;                     // tokens of the global batch
  int64_t targets = 0;                    // number of target tokens in the global batch; 0: weights are unchanged
  std::vector<RouterStatistics> routers;  // for each MoE layer: counts and losses of the whole global batch

  /// True if the step updated weights, optimizer states and router biases.
  bool updated() const { return !skipped && targets > 0; }
};

class TrainStep {
 public:
  /// Prepares steps of a run. Each step calls `observe_gradients` (may be empty) after the gradients are reduced and
  /// before they are used.
  TrainStep(const Recipe& recipe, ModelInstance& instance, optim::Optimizer& optimizer,
            std::function<void()> observe_gradients = {});

  /// Runs one step. The global batch consists of sequences [first_sequence, first_sequence + batch.global) of `source`.
  /// `update` is the number of this optimizer update, counted from 1. Collective. Gathers of the new weights may be in
  /// flight on return: all gathers under ZeRO-1 and 2, and under ZeRO-3 the gather of an embedding that two pipeline
  /// stages share. With optim.overlap on a GPU, the update itself may be in flight. The next pass waits for each weight
  /// before it uses the weight. Call ModelInstance::weights.complete() before anything else reads weights
  /// (Parameter::local()), optimizer states or gradients, and after the last step.
  StepResult run(const data::Source& source, int64_t first_sequence, int64_t step, int64_t update, double lr);
  /// Runs the step that follows `progress`, and updates `progress`.
  StepResult run(const data::Source& source, Progress& progress, double lr);
  /// Runs the step like the previous function, with the learning rate of the recipe's schedule.
  StepResult run(const data::Source& source, Progress& progress);
  /// See dp::GradientBuckets::bound_two_stage_reductions().
  void bound_two_stage_reductions(int64_t most) { buckets_.bound_two_stage_reductions(most); }

  /// Loads this rank's micro-batches of the global batch that begins at `first_sequence`, for the next step. Replaces
  /// micro-batches that were loaded in advance.
  void load_ahead(const data::Source& source, int64_t first_sequence);

 private:
  std::vector<MicroBatch> load(const data::Source& source, int64_t first_sequence);
  /// Returns this rank's micro-batches of the global batch that begins at `first_sequence`. Loads these micro-batches
  /// if they were not loaded in advance.
  std::vector<MicroBatch> take(const data::Source& source, int64_t first_sequence);
  /// Returns the number of this rank's micro-batches in a step.
  int64_t micro_batches() const;
  void reduce_statistics(std::vector<RouterStatistics>& routers) const;
  /// True if updates run on a separate queue (optim.overlap).
  bool updates_beside() const { return &instance_.context.updates() != &instance_.context.compute(); }
  void update_weights(const optim::UpdateStep& step);

  const Recipe& recipe_;
  ModelInstance& instance_;
  optim::Optimizer& optimizer_;
  dp::GradientBuckets buckets_;
  std::unique_ptr<SavePolicy> policy_;
  ModelPipeline pipeline_;
  ModelStatistics statistics_;

  struct Loaded {
    const data::Source* source;
    int64_t first_sequence;
    std::vector<MicroBatch> batches;
  };
  std::optional<Loaded> ahead_;  // micro-batches of the next step; none: not loaded in advance
  // On a meta device, micro-batches of the most recent source that has equal sequences.
  struct Equal {
    const data::Source* source;
    EqualMicroBatches batches;
  };
  std::optional<Equal> equal_;
  Tensor factor_;  // factor of the most recent update that runs on a separate queue; see update_weights()
  const std::function<void()> observe_gradients_;
};

}  // namespace hexad::train
