// Agreement of all ranks of a job on the program and the recipe.
#pragma once

#include <functional>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Collective. Calls `load` on every rank and compares the resulting recipes, and the programs themselves. The number
/// of threads may differ, because nodes do. Throws the same error on all ranks. An error in the recipe is thrown as it
/// is if all ranks find it. If only some ranks find one, that error is thrown under its exit code. Otherwise throws
/// Error(usage) with the first rank whose program or recipe differs from that of rank 0, and the keys that differ.
Recipe load_on_all_ranks(const comm::World& world, const std::function<Recipe()>& load);

}  // namespace hexad::train
