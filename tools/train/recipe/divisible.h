// The most common rule between two keys of a recipe.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/config/constraints.h"
#include "framework/config/problems.h"

namespace hexad::train {

/// Adds "model.heads (5) must be divisible by parallel.tp (2); nearest: 4, 6", unless one of the two values is itself
/// illegal.
inline void check_divisible(config::Problems& problems, std::string_view path, int64_t value, std::string_view by,
                            int64_t divisor) {
  if (problems.good({path, by}) && value % divisor != 0)
    problems.add(path, base::cat("must be divisible by ", by, " (", divisor,
                                 "); nearest: ", config::nearest_multiples(value, divisor)));
}

}  // namespace hexad::train
