// Flat ranges of elements, represented as rectangles.
#include "framework/io/flat_regions.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hexad::tests {

using namespace base;
namespace {

using namespace io;

std::vector<std::string> texts(const std::vector<Region>& regions) {
  std::vector<std::string> out;
  for (const Region& r : regions) out.push_back(io::to_string(r));
  return out;
}
using Texts = std::vector<std::string>;

// Returns the global row-major indices of a region's elements, in the region's row-major order.
std::vector<int64_t> indices(const Region& region, const Shape& global) {
  const Shape strides = global.row_major_strides();
  std::vector<int64_t> out;
  for (int64_t i = 0; i < region.size.numel(); ++i) {
    int64_t rest = i, index = 0;
    for (int d = global.rank() - 1; d >= 0; --d) {
      index += (region.begin[d] + rest % region.size[d]) * strides[d];
      rest /= region.size[d];
    }
    out.push_back(index);
  }
  return out;
}

TEST(FlatRegions, WholeRowsAreOneRectangle) {
  const Region matrix{{0, 0}, {4, 5}};
  EXPECT_EQ(texts(regions_of_flat_range(matrix, {5, 15})), (Texts{"[1, 0]+[2, 5]"}));
  EXPECT_EQ(texts(regions_of_flat_range(matrix, {0, 20})), (Texts{"[0, 0]+[4, 5]"}));
}

TEST(FlatRegions, RangeSplitsIntoPartialRowsAroundWholeRows) {
  EXPECT_EQ(texts(regions_of_flat_range({{0, 0}, {4, 5}}, {3, 17})),
            (Texts{"[0, 3]+[1, 2]", "[1, 0]+[2, 5]", "[3, 0]+[1, 2]"}));
}

TEST(FlatRegions, RangeInsideARowIsOneRectangle) {
  EXPECT_EQ(texts(regions_of_flat_range({{0, 0}, {4, 5}}, {6, 9})), (Texts{"[1, 1]+[1, 3]"}));
}

TEST(FlatRegions, RangesCountFromTheStartOfTheRegion) {
  EXPECT_EQ(texts(regions_of_flat_range({{2, 10}, {2, 3}}, {2, 5})), (Texts{"[2, 12]+[1, 1]", "[3, 10]+[1, 2]"}));
}

TEST(FlatRegions, EmptyRangeHasNoRectangle) {
  EXPECT_TRUE(regions_of_flat_range({{0, 0}, {4, 5}}, {7, 7}).empty());
  EXPECT_TRUE(regions_of_flat_range({{0, 0}, {0, 5}}, {0, 0}).empty());
}

TEST(FlatRegions, ScalarIsOneRegion) { EXPECT_EQ(regions_of_flat_range({{}, {}}, {0, 1}).size(), 1u); }

TEST(FlatRegions, RangeOutsideTheRegionIsABug) {
  EXPECT_THROW(regions_of_flat_range({{0}, {4}}, {2, 5}), std::logic_error);
  EXPECT_THROW(regions_of_flat_range({{0}, {4}}, {3, 2}), std::logic_error);
}

// Compares every range of one region in each of four shapes with the definition.
TEST(FlatRegions, CoverTheRangeInOrderWithFewRectangles) {
  const std::pair<Shape, Region> cases[] = {{{7}, {{2}, {5}}},
                                            {{5, 6}, {{1, 2}, {3, 4}}},
                                            {{3, 4, 3}, {{1, 0, 1}, {2, 4, 2}}},
                                            {{2, 3, 1, 2}, {{0, 1, 0, 0}, {2, 2, 1, 2}}}};
  for (const auto& [global, region] : cases) {
    const std::vector<int64_t> all = indices(region, global);
    for (size_t begin = 0; begin <= all.size(); ++begin)
      for (size_t end = begin; end <= all.size(); ++end) {
        const auto parts = regions_of_flat_range(region, {static_cast<int64_t>(begin), static_cast<int64_t>(end)});
        std::vector<int64_t> got;
        for (const Region& r : parts)
          for (int64_t i : indices(r, global)) got.push_back(i);
        ASSERT_EQ(got, std::vector<int64_t>(all.begin() + static_cast<ptrdiff_t>(begin),
                                            all.begin() + static_cast<ptrdiff_t>(end)))
            << io::to_string(region) << " [" << begin << ", " << end << ")";
        ASSERT_LE(parts.size(), 2u * static_cast<size_t>(global.rank()) - 1);
      }
  }
}

}  // namespace
}  // namespace hexad::tests
