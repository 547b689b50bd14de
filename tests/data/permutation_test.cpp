#include "framework/data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

namespace hexad::data {
namespace {

using base::Philox;
using base::Purpose;

Permutation permutation(int64_t count, uint64_t seed = 1, uint64_t step = 0) {
  return {count, Philox(seed, Purpose::shuffle, "test", step)};
}

std::vector<int64_t> values(const Permutation& order, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(order(i));
  return out;
}

TEST(Permutation, HasEveryNumberOnce) {
  std::vector<int64_t> counts(300);
  std::iota(counts.begin(), counts.end(), 1);
  for (int64_t n : {4095, 4096, 4097, 10000, 65537}) counts.push_back(n);
  for (int64_t n : counts) {
    const auto order = values(permutation(n), n);
    const std::set<int64_t> seen(order.begin(), order.end());
    EXPECT_EQ(static_cast<int64_t>(seen.size()), n);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

TEST(Permutation, IsComputedNotStoredForHugeCounts) {
  for (int64_t n : {int64_t{1'000'000'007} * 1'000'003, std::numeric_limits<int64_t>::max()}) {
    const Permutation order = permutation(n);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < 1000; ++i) {
      seen.insert(order(i));
      seen.insert(order(n - 1 - i));
    }
    EXPECT_EQ(seen.size(), 2000u);
    EXPECT_GE(*seen.begin(), 0);
    EXPECT_LT(*seen.rbegin(), n);
    EXPECT_LT(*seen.begin(), n / 100) << "positions must be spread over the whole range";
    EXPECT_GT(*seen.rbegin(), n - n / 100);
  }
}

TEST(Permutation, DrawsAllOrdersOfFewNumbersAboutEquallyOften) {
  for (int64_t n : {2, 3, 4}) {
    std::map<std::vector<int64_t>, int> drawn;
    const int trials = 24000;
    for (int k = 0; k < trials; ++k) ++drawn[values(permutation(n, 1, static_cast<uint64_t>(k)), n)];
    const double orders = std::tgamma(static_cast<double>(n + 1));
    EXPECT_EQ(drawn.size(), static_cast<size_t>(orders));
    for (const auto& [order, count] : drawn) EXPECT_NEAR(count, trials / orders, 0.15 * trials / orders) << n;
  }
}

// The tolerances are 5 standard deviations. The seed is fixed, so that the test does not depend on chance.
TEST(Permutation, NeighboursMoveToUnrelatedPlaces) {
  const int64_t n = 10007;
  const auto order = values(permutation(n), n);
  double covariance = 0, fixed = 0, adjacent = 0;
  const double middle = static_cast<double>(n - 1) / 2, variance = static_cast<double>(n * n - 1) / 12;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    covariance += (static_cast<double>(order[i]) - middle) * (static_cast<double>(order[i + 1]) - middle);
    fixed += order[i] == static_cast<int64_t>(i);
    adjacent += std::abs(order[i] - order[i + 1]) == 1;
  }
  EXPECT_NEAR(covariance / static_cast<double>(n) / variance, 0, 5 / std::sqrt(static_cast<double>(n)));
  EXPECT_LE(fixed, 1 + 5) << "a random order has one fixed point on average";
  EXPECT_LE(adjacent, 2 + 5 * std::sqrt(2)) << "a random order has two adjacent pairs on average";
}

TEST(Permutation, DependsOnItsKey) {
  EXPECT_EQ(values(permutation(100, 1, 2), 100), values(permutation(100, 1, 2), 100));
  EXPECT_NE(values(permutation(100, 1, 2), 100), values(permutation(100, 1, 3), 100));
  EXPECT_NE(values(permutation(100, 1, 2), 100), values(permutation(100, 2, 2), 100));
}

// Resumed runs rely on these values.
TEST(Permutation, NeverChanges) {
  EXPECT_EQ(values(permutation(10), 10), (std::vector<int64_t>{4, 9, 5, 7, 8, 0, 2, 6, 1, 3}));
  EXPECT_EQ(values(permutation(1'000'000), 5), (std::vector<int64_t>{841499, 937615, 936110, 264981, 159320}));
  EXPECT_EQ(values(permutation(int64_t{1} << 45, 7, 3), 3),
            (std::vector<int64_t>{20960164544681, 6140224941227, 29070248272214}));
}

TEST(Permutation, OutOfRangeNumbersAreABug) {
  EXPECT_THROW(permutation(3)(3), std::logic_error);
  EXPECT_THROW(permutation(3)(-1), std::logic_error);
  EXPECT_THROW(permutation(0)(0), std::logic_error);
  EXPECT_THROW(permutation(-1), std::logic_error);
}

}  // namespace
}  // namespace hexad::data
