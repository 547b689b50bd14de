// Layouts that the user selected for verification.
#pragma once

#include <string>
#include <vector>

#include "tools/verify/covering.h"

namespace hexad::verify {

struct Selection {
  std::vector<Variant> runs;
  std::string text;  // description of the selected runs in a few lines, with counts
};

/// Selects layouts. `layouts` has one of these forms:
/// - "all": every legal mesh, with options that cover all pairs
/// - a number: the size of a random sample of these layouts, drawn with `seed`
/// - a list of layouts, as for parse_layouts()
///
/// Throws Error(usage), with the reason, if `layouts` has another form, if a listed layout is illegal, or if no layout
/// is legal.
Selection select(const std::string& layouts, int world, const Illegal& illegal, uint64_t seed);

}  // namespace hexad::verify
