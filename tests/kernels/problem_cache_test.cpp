// Tests the cache of values by problem, and the rounding of row counts, which lets similar counts share a choice of
// kernel.
#include "framework/kernels/cuda/products/problem_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace hexad::kernels::cuda {
namespace {

TEST(RoundedRows, AreAtMostAnEighthLarger) {
  for (int64_t rows = 1; rows < 100'000; ++rows) {
    const int64_t rounded = rounded_rows(rows);
    ASSERT_GE(rounded, rows);
    ASSERT_LE(rounded - rows, rows / 8);
    ASSERT_EQ(rounded_rows(rounded), rounded) << rows;
  }
  EXPECT_GE(rounded_rows(int64_t{1} << 60), int64_t{1} << 60);
}

TEST(RoundedRows, AreFewAndDoNotChangeUsualNumbers) {
  std::set<int64_t> distinct;
  for (int64_t rows = 1; rows <= 65536; ++rows) distinct.insert(rounded_rows(rows));
  EXPECT_EQ(distinct.size(), 16u + 8 * 12);  // 1 to 16, then 8 for each of 12 doublings from 16 to 65536
  for (const int64_t rows : {1, 7, 16, 4096, 12288, 16384, 65536}) EXPECT_EQ(rounded_rows(rows), rows);
}

struct Counted {
  ProblemCache<int, int> cache{4};
  int made = 0;
  int get(int key) {
    return cache.get(key, [&] {
      ++made;
      return 10 * key;
    });
  }
};

TEST(ProblemCache, MakesAValueOnce) {
  Counted c;
  for (int round = 0; round < 3; ++round)
    for (const int key : {1, 2, 3, 4}) EXPECT_EQ(c.get(key), 10 * key);
  EXPECT_EQ(c.made, 4);
}

TEST(ProblemCache, EvictsTheLeastRecentlyUsedHalf) {
  Counted c;
  for (const int key : {1, 2, 3, 4, 1}) c.get(key);
  EXPECT_EQ(c.get(5), 50);  // evicts the keys 2 and 3
  EXPECT_EQ(c.made, 5);
  for (const int key : {1, 4, 5}) c.get(key);
  EXPECT_EQ(c.made, 5);
  c.get(2);
  EXPECT_EQ(c.made, 6);
}

TEST(ProblemCache, KeepsAFrequentlyUsedEntry) {
  Counted c;
  for (int other = 100; other < 200; ++other) {
    c.get(1);
    c.get(other);
  }
  EXPECT_EQ(c.made, 101);
}

TEST(ProblemCache, MayHoldOneValue) {
  ProblemCache<int, int> one(1);
  for (const int key : {1, 2, 1}) EXPECT_EQ(one.get(key, [&] { return key; }), key);
}

}  // namespace
}  // namespace hexad::kernels::cuda
