// Description of a rank at the head of its log file.
#pragma once

#include <string>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// "hexad 0.5.0 (x86-64-v3), rank 1 of 2, host a, pid 31, at pp 0, dp 1, cp 0, tp 0, edp 0, ep 1, etp 0 of pp 1 x ...".
std::string describe_rank(const Recipe& recipe, const comm::World& world);

}  // namespace hexad::train
