// State of a training run that changes from step to step.
#pragma once

#include <functional>
#include <string>

#include "tools/train/train_step.h"

namespace hexad::train {

/// Model, optimizer, step and progress of a run on this rank.
struct TrainingState {
  /// Makes the state. On rank 0, `say` receives a line with the path of device tensors between ranks, and a line with
  /// the memory of the connections.
  TrainingState(const Recipe& recipe, const Extensions& extensions, const comm::ProcessGroup& world,
                const std::function<void(const std::string&)>& say)
      : instance(recipe, extensions, world, say),
        optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, extensions.optimizers, &instance.mesh),
        train_step(recipe, instance, optimizer) {
    if (say && world.rank() == 0)
      if (const std::string text = instance.connection_text(); !text.empty()) say(text);
  }

  ModelInstance instance;
  optim::Optimizer optimizer;
  TrainStep train_step;
  Progress progress;
};

}  // namespace hexad::train
