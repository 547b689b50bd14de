// Passes of micro-batches through the parts of the model, over the ranks of the pipeline.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parallel/pp/schedule.h"
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
    double loss_gradient;  // gradient of the summed cross-entropy
    // Gradient of the auxiliary losses of one MoE layer in one micro-batch.
    double aux_losses_gradient;
    std::vector<RouterStatistics>* statistics;               // one entry for each MoE layer of the whole model
    std::function<void(Parameter&, bool last)> contributed;  // called by pp::TapeStages
  };
  /// Runs forward and backward of `batches`, the micro-batches of this rank's dp coordinate, in the order of
  /// schedule.pipeline. Returns this rank's addend of the summed cross-entropy, [1] f64. With prediction blocks, the
  /// result is [2]: the sum of the losses of these blocks follows.
  Tensor train(std::span<const MicroBatch> batches, const Training& training);
  /// Runs only forward and keeps no activation. Returns this rank's addend of the summed cross-entropy.
  double evaluate(std::span<const MicroBatch> batches);
  /// Like evaluate(), but returns the cross-entropy [rows] of each micro-batch's rows in acc. The tensors are undefined
  /// on ranks without the last part of the model. tp ranks have equal tensors.
  std::vector<Tensor> row_losses(std::span<const MicroBatch> batches);

 private:
  Tensor run(const pp::Schedule& schedule, std::span<const MicroBatch> batches, const Training* training,
             std::vector<Tensor>* row_losses = nullptr);

  const Recipe& recipe_;
  ModelInstance& instance_;
  SavePolicy& policy_;
};

}  // namespace hexad::train
