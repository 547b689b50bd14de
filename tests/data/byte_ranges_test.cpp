// Sets of byte ranges of a text.
#include "framework/data/byte_ranges.h"

#include <gtest/gtest.h>

namespace hexad::data {
namespace {

ByteRanges two_ranges() {
  ByteRanges ranges;
  ranges.add(2, 4), ranges.add(4, 6), ranges.add(7, 7), ranges.add(8, 10);
  return ranges;
}

TEST(ByteRanges, TouchingRangesAreJoined) {
  const std::vector<ByteRange> wanted{{2, 6}, {8, 10}};
  const ByteRanges ranges = two_ranges();
  EXPECT_EQ(std::vector<ByteRange>(ranges.ranges().begin(), ranges.ranges().end()), wanted);
}

TEST(ByteRanges, KnowWhichBytesTheyContain) {
  const ByteRanges ranges = two_ranges();
  EXPECT_TRUE(ranges.contains(2, 6) && ranges.contains(3, 5) && ranges.contains(8, 10));
  EXPECT_FALSE(ranges.contains(1, 3) || ranges.contains(5, 9) || ranges.contains(6, 8) || ranges.contains(9, 11));
  EXPECT_TRUE(ranges.overlaps(1, 3) && ranges.overlaps(5, 7) && ranges.overlaps(0, 20));
  EXPECT_FALSE(ranges.overlaps(0, 2) || ranges.overlaps(6, 8) || ranges.overlaps(10, 12) || ranges.overlaps(3, 3));
  EXPECT_FALSE(ByteRanges().contains(0, 1) || ByteRanges().overlaps(0, 1));
  EXPECT_TRUE(ByteRanges::everything().contains(5, 1000));
}

TEST(ByteRanges, SliceIsRelativeToItsBegin) {
  const ByteRanges slice = two_ranges().slice(3, 9);
  const std::vector<ByteRange> wanted{{0, 3}, {5, 6}};
  EXPECT_EQ(std::vector<ByteRange>(slice.ranges().begin(), slice.ranges().end()), wanted);
  EXPECT_TRUE(two_ranges().slice(6, 8).empty());
  EXPECT_TRUE(ByteRanges::everything().slice(3, 9).contains(0, 6));
}

}  // namespace
}  // namespace hexad::data
