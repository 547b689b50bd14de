// State of a training run that changes from step to step.
#pragma once

#include <functional>
#include <string>

#include "tools/train/train_step.h"

namespace hexad::train {

/// Model, optimizer, step and progress of a run on this rank.
struct TrainingState {
  /// Makes the state. On rank 0, `say` receives the path of device tensors between ranks.
  TrainingState(const Recipe& recipe, const Extensions& extensions, const comm::ProcessGroup& world,
                std::function<void(const std::string&)> say)
      : instance(recipe, extensions, world, std::move(say)),
        optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, extensions.optimizers),
        train_step(recipe, instance, optimizer) {}

  ModelInstance instance;
  optim::Optimizer optimizer;
  TrainStep train_step;
  Progress progress;
};

}  // namespace hexad::train
