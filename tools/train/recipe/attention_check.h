// Checks the keys of a model's attention and of its delta nets.
#pragma once

#include "framework/config/problems.h"
#include "layers/base/model_config.h"

namespace hexad::train {

/// Adds a problem for each key of attention, windows, delta nets and rotary positions that contradicts another key of
/// `model`. A rule is checked only if all keys that it reads have legal values.
void check_attention(const layers::ModelConfig& model, config::Problems& problems);

}  // namespace hexad::train
