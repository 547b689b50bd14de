// The learning rate of a step.
#pragma once

#include "optim/optim_config.h"

namespace hexad::optim {

/// Returns the learning rate for step 1 .. total. It rises linearly from lr / warmup to lr over the warm-up, then
/// follows the schedule to min_lr_ratio lr at `total`. Steps past the end keep the last value.
double learning_rate(const OptimConfig& c, int64_t step, int64_t total);

}  // namespace hexad::optim
