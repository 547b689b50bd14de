#include "framework/base/global_index.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/base/error.h"

namespace hexad::base {
namespace {

// Returns the indices of a region's elements in the whole tensor, in row-major order.
std::vector<int64_t> indices_of(const Shape& global, const Placement::Region& region) {
  const Shape strides = global.row_major_strides();
  std::vector<int64_t> all;
  for (int64_t i = 0; i < region.size.numel(); ++i) {
    int64_t index = 0, rest = i;
    for (int d = global.rank() - 1; d >= 0; --d) {
      index += (region.begin[d] + rest % region.size[d]) * strides[d];
      rest /= region.size[d];
    }
    all.push_back(index);
  }
  return all;
}

Placement::Region cut(const Shape& global, std::vector<Shard> shards) {
  return Placement{.view = MeshView::dense, .shards = std::move(shards)}.region(global);
}

void expect_map(const Shape& global, const Placement::Region& region) {
  const std::vector<int64_t> want = indices_of(global, region);
  const auto n = static_cast<int64_t>(want.size());
  for (const int64_t begin : {int64_t{0}, n / 3, n - 1}) {
    const GlobalIndex map = global_index(global, region, begin);
    GlobalIndex::Position walk = map.at(0);
    for (int64_t i = 0; i < n - begin; ++i, map.advance(walk)) {
      const GlobalIndex::Position here = map.at(i);
      ASSERT_EQ(here.index, want[begin + i]) << global << " from " << begin << ", element " << i;
      ASSERT_EQ(walk.index, here.index);
      ASSERT_EQ(walk.left, here.left);
      ASSERT_EQ(map.from(i).at(0).index, here.index);
      for (int64_t k = 1; k < here.left && begin + i + k < n; ++k) ASSERT_EQ(want[begin + i + k], here.index + k);
    }
  }
}

TEST(GlobalIndex, MatchesEveryElementOfAPiece) {
  expect_map({5, 7}, cut({5, 7}, {}));
  expect_map({7}, cut({7}, {{Axis::tp, 0, 2, 1}}));
  for (const int index : {0, 1, 2}) {
    expect_map({5, 7}, cut({5, 7}, {{Axis::tp, 0, 3, index}}));
    expect_map({5, 7}, cut({5, 7}, {{Axis::tp, 1, 3, index}}));
    expect_map({4, 2, 7, 3}, cut({4, 2, 7, 3}, {{Axis::ep, 0, 2, 1}, {Axis::etp, 2, 3, index}}));
    expect_map({4, 3, 7}, cut({4, 3, 7}, {{Axis::ep, 0, 4, 3}, {Axis::etp, 2, 3, index}}));
    expect_map({1, 4, 7}, cut({1, 4, 7}, {{Axis::ep, 1, 2, 1}, {Axis::etp, 2, 3, index}}));
  }
}

TEST(GlobalIndex, UnevenlySpacedRunsAreRefused) {
  const Shape global{2, 4, 6};
  EXPECT_THROW(global_index(global, cut(global, {{Axis::ep, 1, 2, 0}, {Axis::etp, 2, 2, 0}}), 0), std::logic_error);
}

}  // namespace
}  // namespace hexad::base
