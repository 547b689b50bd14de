// The learning rate of a step.
#pragma once

#include "optim/optim_config.h"

namespace hexad::optim {

/// Returns the learning rate of step `step` (1 .. total). During the warm-up, it rises linearly from lr / warmup to lr.
/// After the warm-up, it follows c.schedule and reaches min_lr_ratio * lr at step `total`. In a constant schedule, and
/// in wsd with decay_fraction 0, it remains lr instead. Later steps have the rate of step `total`.
double learning_rate(const OptimConfig& c, int64_t step, int64_t total);

}  // namespace hexad::optim
