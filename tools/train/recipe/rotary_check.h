// Checks the keys of rotary positions in a model: the share of a head that they rotate, and the scaling of frequencies.
#pragma once

#include "framework/config/problems.h"
#include "layers/base/model_config.h"

namespace hexad::train {

/// Adds a problem if model.rotary_share does not select a whole number of pairs of dimensions. The share may be rounded
/// to a few digits, such as 0.666667.
void check_rotary_share(const layers::ModelConfig& m, config::Problems& problems);

/// Adds a problem for each key of model.rotary_scaling and model.yarn that contradicts another key. Does nothing if a
/// key that the rules read has an illegal value.
void check_rotary_scaling(const layers::ModelConfig& m, config::Problems& problems);

}  // namespace hexad::train
