// A recipe too big to be verified, made small: fewer and narrower of everything, related as before.
#pragma once

#include <string>
#include <vector>

#include "layers/registry.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::verify {

struct Shrunk {
  train::Recipe recipe;
  std::vector<std::string> changes;  // "model.hidden: 4096 -> 32"
};

/// Sizes are lowered, never raised, to what `world` ranks can still be cut into in every way: as many layers as stages,
/// heads, experts and sequences for every rank, contexts of two pieces for each. What a model consists of stays: query
/// heads a key/value head, experts a token visits, groups, shared experts, dense layers, capacity, losses. Data become
/// synthetic. Throws Error(usage) when what comes out is no legal recipe.
Shrunk shrink(const train::Recipe& recipe, int world, const train::Extensions& extensions);

}  // namespace hexad::verify
