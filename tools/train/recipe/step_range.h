// Range of steps in a recipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hexad::train {

struct StepRange {
  int64_t first = 0, last = 0;  // both included

  bool contains(int64_t step) const { return first <= step && step <= last; }
};

/// Reads "5" or "3..5". Steps count from 1. Returns none for other texts.
std::optional<StepRange> parse_steps(std::string_view text);
std::string to_string(const StepRange& steps);

}  // namespace hexad::train
