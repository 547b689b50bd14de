// Checks that the keys of a recipe's section `model` agree with each other.
#pragma once

#include "framework/config/problems.h"
#include "layers/base/model_config.h"

namespace hexad::train {

/// Adds a problem for each key of `model` that contradicts another key. A rule is checked only if all keys that it
/// reads have legal values. Names of registered parts are checked by check_names().
void check_model(const layers::ModelConfig& model, config::Problems& problems);

}  // namespace hexad::train
