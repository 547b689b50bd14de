// Division of flat ranges into rectangles. Under ZeRO a rank owns a range of elements, but files contain rectangles.
#pragma once

#include <vector>

#include "framework/base/flat_range.h"
#include "framework/io/region.h"

namespace hexad::io {

using base::FlatRange;

/// Returns the rectangles that elements [range.begin, range.end) of `region` consist of, in order; at most 2 rank - 1.
/// The row-major elements of each rectangle are a contiguous part of the range. Throws std::logic_error if the range is
/// not inside the region.
std::vector<Region> regions_of_flat_range(const Region& region, FlatRange range);

}  // namespace hexad::io
