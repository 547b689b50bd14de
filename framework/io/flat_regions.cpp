#include "framework/io/flat_regions.h"

namespace hexad::io {

using namespace base;
namespace {

// Appends the rectangles that make up the elements `range` of `region`. The dimensions of `region` before `dim` have
// size 1. A row consists of all elements with the same index in dimension `dim`. The rectangles cover a part of the
// first row, then whole rows, then a part of the last row. Each of these three parts may be missing.
void append(std::vector<Region>& out, const Region& region, int dim, FlatRange range) {
  if (range.empty()) return;
  if (dim == region.size.rank()) return out.push_back(region);
  int64_t row = 1;  // number of elements in a row
  for (int d = dim + 1; d < region.size.rank(); ++d) row *= region.size[d];
  const auto rows = [&](int64_t begin, int64_t end) {
    Region r = region;
    r.begin[dim] += begin;
    r.size[dim] = end - begin;
    return r;
  };
  const auto part_of_row = [&](int64_t index, FlatRange part) {
    append(out, rows(index, index + 1), dim + 1, {part.begin - index * row, part.end - index * row});
  };
  const int64_t first = (range.begin + row - 1) / row, last = range.end / row;  // the whole rows are [first, last)
  if (first > last) return part_of_row(last, range);
  if (range.begin < first * row) part_of_row(first - 1, {range.begin, first * row});
  if (first < last) out.push_back(rows(first, last));
  if (last * row < range.end) part_of_row(last, {last * row, range.end});
}

}  // namespace

std::vector<Region> regions_of_flat_range(const Region& region, FlatRange range) {
  require(0 <= range.begin && range.begin <= range.end && range.end <= region.size.numel(), "[region] elements [",
          range.begin, ", ", range.end, ") are outside of ", to_string(region), "; expected 0 to ",
          region.size.numel());
  std::vector<Region> out;
  append(out, region, 0, range);
  return out;
}

}  // namespace hexad::io
