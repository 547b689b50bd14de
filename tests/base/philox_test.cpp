#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "framework/base/philox.h"

namespace hexad::base {
namespace {

using Block = std::array<uint32_t, 4>;

// Checks the known-answer vectors (kat_vectors) of Random123 (Salmon et al. 2011) for philox 4x32 with ten rounds.
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Checks 64-bit FNV-1a of the empty text, "a" and "foobar" against its authors' vectors. Initial weights depend on this
// hash.
TEST(StableHash, GivesTheKnownAnswersOfFnv) {
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(stable_hash("foobar"), 0x85944171f73967e8ull);
}

TEST(Philox, IsAFunctionOfSeedPurposeNameStepAndIndex) {
  const Philox a(1, Purpose::init, "w"), same(1, Purpose::init, "w");
  std::set<uint32_t> seen;
  for (const Philox& p : {a, Philox(2, Purpose::init, "w"), Philox(1, Purpose::mask, "w"),
                          Philox(1, Purpose::init, "v"), Philox(1, Purpose::init, "w", 1), Philox(1, Purpose::init)})
    for (uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63}) seen.insert(p.bits(index));
  EXPECT_EQ(seen.size(), 24u);
  for (uint64_t index = 0; index < 100; ++index) EXPECT_EQ(a.bits(index), same.bits(index));
}

TEST(Philox, UniformNumbersLieInTheHalfOpenIntervalAndHaveMeanOneHalf) {
  const Philox random(3, Purpose::dropout);
  double sum = 0, sum_double = 0;
  constexpr int count = 20000;
  for (uint64_t i = 0; i < count; ++i) {
    const float u = random.uniform(i);
    const double v = random.uniform_double(i);
    ASSERT_TRUE(u >= 0 && u < 1) << i;
    ASSERT_TRUE(v >= 0 && v < 1) << i;
    sum += static_cast<double>(u);
    sum_double += v;
  }
  // Four standard deviations of the mean of uniform numbers.
  const double deviation = 4 * std::sqrt(1.0 / 12 / count);
  EXPECT_NEAR(sum / count, 0.5, deviation);
  EXPECT_NEAR(sum_double / count, 0.5, deviation);
}

TEST(Philox, NormalNumbersHaveTheMomentsOfANormal) {
  const Philox random(3, Purpose::init, "w");
  constexpr int count = 20000;
  double sum = 0, squares = 0, fourths = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(random.normal(i));
    ASSERT_TRUE(std::isfinite(x)) << i;
    sum += x, squares += x * x, fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 4 * std::sqrt(2.0 / count));
  EXPECT_NEAR(fourths / count, 3, 4 * std::sqrt(96.0 / count));
}

TEST(Philox, FilledNormalNumbersEqualSingleNumbers) {
  const Philox random(3, Purpose::init, "w");
  for (uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{63}, (uint64_t{1} << 34) - 5}) {
    for (size_t count : {size_t{1}, size_t{3}, size_t{64}, size_t{200}}) {
      std::vector<float> row(count, -100.0f);
      random.normals(row, first);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(row[i], random.normal(first + i)) << first << " + " << i;
    }
  }
}

// Several numbers come from one block of bits, but neighbours must be independent.
TEST(Philox, NeighbouringNormalNumbersAreUncorrelated) {
  const Philox random(3, Purpose::init, "w");
  constexpr int count = 20000;
  for (uint64_t distance : {1, 2, 3, 4}) {
    double product = 0, squares = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(random.normal(i)), y = static_cast<double>(random.normal(i + distance));
      product += x * y, squares += (x * x - 1) * (y * y - 1);
    }
    EXPECT_NEAR(product / count, 0, 4 / std::sqrt(count)) << distance;
    EXPECT_NEAR(squares / count, 0, 4 * 2 / std::sqrt(count)) << distance;
  }
}

TEST(Philox, BelowIsInRangeAndReachesEveryValueOfSmallRanges) {
  const Philox random(3, Purpose::shuffle);
  for (uint64_t bound : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{256}}) {
    std::vector<int> counts(bound);
    for (uint64_t i = 0; i < 64 * bound; ++i) {
      const uint64_t v = random.below(i, bound);
      ASSERT_LT(v, bound);
      ++counts[v];
    }
    for (uint64_t v = 0; v < bound; ++v) EXPECT_GT(counts[v], 0) << v << " of " << bound;
  }
  const uint64_t huge = ~uint64_t{0};
  for (uint64_t i = 0; i < 100; ++i) EXPECT_LT(random.below(i, huge), huge);
}

}  // namespace
}  // namespace hexad::base
