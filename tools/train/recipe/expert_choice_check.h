// Checks the keys of a model in which experts choose tokens.
#pragma once

#include "framework/config/problems.h"
#include "layers/base/model_config.h"

namespace hexad::train {

/// Adds a problem for each key of `model` that contradicts model.moe.router: expert_choice. Does nothing for other
/// routers.
void check_expert_choice(const layers::ModelConfig& model, config::Problems& problems);

}  // namespace hexad::train
