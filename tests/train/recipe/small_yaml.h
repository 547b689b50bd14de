// Short recipe of a mixture-of-experts model, and a function that returns the error message for illegal overrides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/training/training.h"

namespace hexad::tests {

inline constexpr const char* yaml = R"(model:
  hidden: 32
  heads: 4
  vocab: 97
  moe:
    experts: 8
batch:
  global: 8
  micro: 2
parallel:
  ep: 1
data:
  synthetic: true
)";

/// Returns the message with which load_recipe() refuses the recipe with overrides.
inline std::string problem(const std::vector<std::string>& overrides, int64_t world = 0) {
  return message_of(ExitCode::usage, [&] { recipe_of(yaml, overrides, world); });
}

}  // namespace hexad::tests
