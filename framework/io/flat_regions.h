// Division of flat ranges into rectangles. With ZeRO, a rank owns a flat range of elements, but files contain
// rectangles.
#pragma once

#include <vector>

#include "framework/base/flat_range.h"
#include "framework/io/region.h"

namespace hexad::io {

using base::FlatRange;

/// Returns the rectangles that make up elements [range.begin, range.end) of `region`, in order. For a region of r > 0
/// dimensions, the result has at most 2 * r - 1 rectangles. For a region without dimensions, it has at most one. The
/// elements of each rectangle, in row-major order, are a contiguous part of the range. Throws std::logic_error if the
/// range is not inside the region.
std::vector<Region> regions_of_flat_range(const Region& region, FlatRange range);

}  // namespace hexad::io
