// Forward and backward passes of micro-batches over the pipeline ranks.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parallel/pp/checked_schedules.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

using autograd::Parameter;
using autograd::SavePolicy;
using layers::RouterStatistics;
using tensor::Tensor;

class ModelPipeline {
 public:
  ModelPipeline(const Recipe& recipe, ModelInstance& instance, SavePolicy& policy)
      : recipe_(recipe), instance_(instance), policy_(policy) {}

  struct Training {
    int64_t step;
    double loss_gradient;  // derivative of the loss with respect to the summed cross-entropy
    // Derivative of the loss with respect to the auxiliary losses of one MoE layer in one micro-batch.
    double aux_losses_gradient;
    std::vector<RouterStatistics>* statistics;  // one entry for each MoE layer of the whole model
    // The next two functions are as in pp::TapeStages::Functions.
    std::function<void(Parameter&, bool last)> contributed;
    std::function<void()> before_backward{};
  };
  /// Runs forward and backward of `batches`, the micro-batches of this rank's dp coordinate, in the order of
  /// schedule.pipeline. Returns this rank's part of the summed cross-entropy, [1] f64. If the model has prediction
  /// blocks, the result is [2]: the second element is this rank's part of the sum of their losses.
  Tensor train(std::span<const MicroBatch> batches, const Training& training);
  /// Runs only forward and keeps no activations. Returns this rank's part of the summed cross-entropy, [1] f64.
  Tensor evaluate(std::span<const MicroBatch> batches);
  /// Runs forward like evaluate(). Returns the cross-entropy of every row: a tensor [rows] for each micro-batch, in the
  /// accumulator dtype. The tensors are undefined on ranks that lack the last part of the model. The tensors of all tp
  /// ranks are equal.
  std::vector<Tensor> row_losses(std::span<const MicroBatch> batches);

 private:
  Tensor run(const pp::CheckedSchedule& program, std::span<const MicroBatch> batches, const Training* training,
             std::vector<Tensor>* row_losses = nullptr);

  const Recipe& recipe_;
  ModelInstance& instance_;
  SavePolicy& policy_;
};

}  // namespace hexad::train
