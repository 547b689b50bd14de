// A recipe on a job's ranks: read alike by all of them, and obeyed by what moves their traffic.
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
