// Shrinks a recipe whose model is too big to verify.
#pragma once

#include <string>
#include <vector>

#include "layers/registry.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::verify {

struct Shrunk {
  train::Recipe recipe;
  std::vector<std::string> changes;  // such as "model.hidden: 4096 -> 32"
};

/// Reduces the sizes of the model and the batch; never increases them.
/// - A layout of `world` ranks that can divide the recipe can also divide the result. Enough layers remain for all
///   stages, and enough heads, experts and sequences for all ranks. The context is shortened to at least two tokens per
///   rank.
/// - The structure remains: query heads per key/value head, experts per token, groups, shared experts, dense layers,
///   capacity, losses.
/// - Patterns of optim.freeze and optim.muon_except remain if they match a parameter of the smaller model. If the
///   remaining patterns of optim.freeze match all parameters, they are removed.
/// - The layout (`parallel`) and schedule.pipeline.split get their defaults.
/// - The data are replaced by synthetic data.
///
/// Throws Error(usage) if the result is not a legal recipe.
Shrunk shrink(const train::Recipe& recipe, int world, const train::Extensions& extensions);

}  // namespace hexad::verify
