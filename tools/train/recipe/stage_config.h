// An element of the recipe's list `stages`.
#pragma once

#include <cstdint>

#include "framework/config/constraints.h"
#include "layers/base/model_config.h"
#include "layers/recompute_config.h"
#include "optim/optim_config.h"
#include "tools/train/recipe/batch_config.h"
#include "tools/train/recipe/parallel_config.h"
#include "tools/train/recipe/schedule_config.h"

namespace hexad::train {

/// A stage of training. In a loaded recipe, all members are set. Keys that a stage does not set have the values of the
/// recipe's other sections.
struct StageConfig {
  int64_t steps = 0;
  int64_t context = layers::ModelConfig{}.context;
  double rotary_theta = layers::ModelConfig{}.rotary_theta;
  layers::YarnConfig yarn;
  layers::RotaryScalingConfig rotary_scaling;
  double lr = optim::OptimConfig{}.lr;
  layers::Recompute recompute = layers::Recompute::none;
  BatchConfig batch;
  ParallelConfig parallel;
  StageSchedule schedule;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::at_most, config::greater_than;
    v("steps", steps, "optimizer steps of the stage", at_least(1), at_most(1 << 30));
    v("context", context, "tokens in a training sequence; default: model.context", at_least(1), at_most(1 << 30));
    v("rotary_theta", rotary_theta, "base of the rotary frequencies; default: model.rotary_theta", greater_than(1));
    v("yarn", yarn,
      "extension of rotary positions to longer contexts (YaRN); unset keys have the values of model.yarn");
    v("rotary_scaling", rotary_scaling,
      "other extensions of rotary positions to longer contexts; unset keys have the values of model.rotary_scaling");
    v("lr", lr, "peak learning rate; default: optim.lr", at_least(0));
    v("recompute", recompute,
      "activations that backward recomputes instead of keeping them; default: the recipe's recompute");
    v("batch", batch, "sequences in a step; unset keys have the values of the recipe's batch");
    v("parallel", parallel,
      "distribution of the model over ranks; unset keys have the values of the recipe's parallel");
    v("schedule", schedule,
      "order of computation and communication; unset keys have the values of the recipe's schedule");
  }
};

}  // namespace hexad::train
