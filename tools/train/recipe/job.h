// The recipe of a job: read with the same result on all ranks, and applied to the job's traffic.
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Reads the recipe on all ranks of `world` and completes it for their machine. Sets the guards and priorities of
/// `world` from it. Included files are in the recipe's folder or in `include_root` (may be empty). Throws the same
/// Error(usage) on all ranks, with every problem and its file and line. Collective.
Recipe load_for_ranks(comm::World& world, const std::string& path, const std::vector<std::string>& overrides,
                      const Extensions& extensions, const std::string& include_root = "");

}  // namespace hexad::train
