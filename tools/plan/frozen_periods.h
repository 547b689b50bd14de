// Frozen parameters (optim.freeze) of models with few layers that represent the layers of a whole model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Returns the number of layers after which the pattern of dense and MoE layers, and of their attention, repeats.
int64_t layers_of_period(const train::Recipe& recipe);

/// A kind of periods of layers: all periods in which the same parameters are frozen.
struct FrozenPeriods {
  /// Names of the frozen parameters of a small model. The small model has the recipe's first layers
  /// (model.moe.dense_layers), two periods of this kind, and the recipe's parameters outside the layers.
  std::vector<std::string> freeze;
  double share = 1;  // fraction of the recipe's periods that have this kind
};
/// Returns the kinds of periods of the recipe's model. The shares sum to one.
std::vector<FrozenPeriods> frozen_periods(const train::Recipe& recipe, const train::Extensions& extensions);

}  // namespace hexad::plan
