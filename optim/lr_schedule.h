// The learning rate of a step.
#pragma once

#include "optim/optim_config.h"

namespace hexad::optim {

/// For step 1 .. total: linear from lr / warmup to lr over the warm-up, then by schedule to min_lr_ratio lr at `total`.
/// Steps past the end keep the last value.
double learning_rate(const OptimConfig& c, int64_t step, int64_t total);

}  // namespace hexad::optim
