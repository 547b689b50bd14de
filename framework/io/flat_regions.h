// Flat ranges as rectangles: what a rank owns under ZeRO is a run of elements, what files hold are rectangles.
#pragma once

#include <vector>

#include "framework/base/flat_range.h"
#include "framework/io/region.h"

namespace hexad::io {

using base::FlatRange;

/// The rectangles that elements [range.begin, range.end) of `region` are made of, in order; each is a run of them: its
/// own elements in row-major order. At most 2 rank - 1. Throws std::logic_error for a range outside the region.
std::vector<Region> regions_of_flat_range(const Region& region, FlatRange range);

}  // namespace hexad::io
