// Layouts that a user selects.
#pragma once

#include <string>
#include <vector>

#include "tools/verify/covering.h"

namespace hexad::verify {

struct Selection {
  std::vector<Variant> runs;
  std::string text;  // description of the selected runs in a few lines, with counts
};

/// Selects layouts. `layouts` is "all" (every legal mesh, options pairwise), a number (the size of a sample of these,
/// drawn by `seed`) or a list for parse_layouts(). Throws Error(usage) if a listed layout is illegal, with the reason,
/// or if no layout is legal.
Selection select(const std::string& layouts, int world, const Illegal& illegal, uint64_t seed);

}  // namespace hexad::verify
