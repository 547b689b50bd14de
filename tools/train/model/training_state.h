// State of a training run that changes from step to step.
#pragma once

#include <functional>
#include <string>

#include "tools/train/model/train_step.h"

namespace hexad::train {

/// Model, optimizer, step and progress of a run on this rank.
struct TrainingState {
  /// Makes a model with initial weights and its optimizer. On rank 0, `info` (may be empty) receives up to two lines:
  /// how device tensors are sent between ranks, and the memory of NCCL communicators.
  TrainingState(const Recipe& recipe, const Extensions& extensions, const comm::ProcessGroup& world,
                const std::function<void(const std::string&)>& info)
      : instance(recipe, extensions, world, info),
        optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, extensions.optimizers, &instance.mesh),
        train_step(recipe, instance, optimizer) {
    if (info && world.rank() == 0)
      if (const std::string text = instance.connection_text(); !text.empty()) info(text);
  }

  ModelInstance instance;
  optim::Optimizer optimizer;
  TrainStep train_step;
  Progress progress;
};

}  // namespace hexad::train
