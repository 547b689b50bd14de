// The recipe of a job: read with the same result on all ranks, and applied to the job's traffic.
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Reads the recipe on all ranks of `world`, completes it for their machine, and sets the world's guards and priorities
/// as it says. Collective. Throws Error(usage) with every problem, each with file and line, on all ranks alike. Files
/// that the recipe includes lie in its folder or in `include_root` (may be empty).
Recipe load_for_ranks(comm::World& world, const std::string& path, const std::vector<std::string>& overrides,
                      const Extensions& extensions, const std::string& include_root = "");

}  // namespace hexad::train
