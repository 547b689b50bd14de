// Division of flat ranges into rectangles. With ZeRO, a rank owns a flat range of elements, but files contain
// rectangles.
#pragma once

#include <vector>

#include "framework/base/flat_range.h"
#include "framework/io/region.h"

namespace hexad::io {

using base::FlatRange;

/// Returns the rectangles that make up elements [range.begin, range.end) of `region`, in order. The result has at most
/// 2 * r - 1 rectangles for a region of r > 0 dimensions, and at most one rectangle for a region without dimensions.
/// The elements of each rectangle, in row-major order, are a contiguous part of the range. Throws std::logic_error if
/// the range is not inside the region.
std::vector<Region> regions_of_flat_range(const Region& region, FlatRange range);

}  // namespace hexad::io
