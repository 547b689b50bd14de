// Agreement of all ranks of a job on the program and the recipe.
#pragma once

#include <functional>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Calls `load` on every rank and compares the resulting recipes, and the programs themselves. The number of threads
/// may differ, because nodes do. Throws the same error on all ranks. If all ranks find an error in the recipe, throws
/// that error unchanged. If only some ranks find one, throws it with its exit code. Otherwise throws Error(usage) with
/// the first rank whose program or recipe differs from that of rank 0, and the keys that differ. Collective.
Recipe load_on_all_ranks(const comm::World& world, const std::function<Recipe()>& load);

}  // namespace hexad::train
