// Shrinks a recipe that is too big to verify. The result has fewer and narrower parts in the same proportions.
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

/// Reduces sizes; never increases them. Any layout of `world` ranks can still divide the result: it has enough layers
/// for the stages, enough heads, experts and sequences for every rank, and contexts of two pieces for each rank. The
/// structure of the model is kept: query heads per key/value head, experts per token, groups, shared experts, dense
/// layers, capacity, losses. Patterns of optim.freeze remain if they match one of its parameters. Data become
/// synthetic. Throws Error(usage) if the result is not a legal recipe.
Shrunk shrink(const train::Recipe& recipe, int world, const train::Extensions& extensions);

}  // namespace hexad::verify
