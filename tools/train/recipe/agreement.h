// All ranks of a job run the same program with the same recipe, or none does.
#pragma once

#include <functional>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Collective. Calls `load` on every rank and compares what comes out, and the programs themselves. Throws, with the
/// same message on all ranks: what one rank finds wrong with its recipe and another does not, under its exit code;
/// otherwise Error(usage) that names the first rank whose program or recipe is not that of rank 0, with the keys that
/// differ. A mistake that all ranks find is thrown as it is. The number of threads may differ, because nodes do.
Recipe load_on_all_ranks(const comm::World& world, const std::function<Recipe()>& load);

}  // namespace hexad::train
