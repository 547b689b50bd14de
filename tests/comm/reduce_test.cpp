#include "parallel/comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace hexad::comm {

using namespace base;
namespace {

template <class T>
std::vector<T> reduced(std::vector<std::vector<T>> ranks, Reduce op) {
  std::vector<const void*> sources;
  for (const auto& r : ranks) sources.push_back(r.data());
  // The first source is also the result.
  reduce(ranks[0].data(), sources, static_cast<int64_t>(ranks[0].size()), dtype_of<T>, op);
  return ranks[0];
}

TEST(Reduce, ReducesFloatsAndIntegersBySumMaxAndMin) {
  EXPECT_EQ(reduced<float>({{1, -2}, {3, 5}, {-9, 1}}, Reduce::sum), (std::vector<float>{-5, 4}));
  EXPECT_EQ(reduced<double>({{1, -2}, {3, 5}, {-9, 1}}, Reduce::max), (std::vector<double>{3, 5}));
  EXPECT_EQ(reduced<int32_t>({{1, -2}, {3, 5}, {-9, 1}}, Reduce::min), (std::vector<int32_t>{-9, -2}));
  EXPECT_EQ(reduced<uint8_t>({{1, 2}, {3, 5}}, Reduce::sum), (std::vector<uint8_t>{4, 7}));
  constexpr int64_t big = int64_t{1} << 53;  // f64 cannot represent big + 1
  EXPECT_EQ(reduced<int64_t>({{big}, {1}}, Reduce::sum), (std::vector<int64_t>{big + 1}));
}

TEST(Reduce, BlocksJoinWithoutAGap) {
  std::vector<double> a(5000), b(5000);
  std::iota(a.begin(), a.end(), 0);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i * i);
  const auto sum = reduced<double>({a, b}, Reduce::sum);
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], static_cast<double>(i + i * i));
}

TEST(Reduce, KeepsANanOfAnyRank) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Reduce op : {Reduce::sum, Reduce::max, Reduce::min})
    for (int at = 0; at < 3; ++at) {
      std::vector<std::vector<float>> ranks{{1}, {2}, {3}};
      ranks[at][0] = nan;
      EXPECT_TRUE(std::isnan(reduced<float>(ranks, op)[0])) << "rank " << at;
    }
}

TEST(Reduce, SumsInRankOrder) {
  EXPECT_EQ(reduced<float>({{1e8f}, {1}, {-1e8f}}, Reduce::sum)[0], 0);
  EXPECT_EQ(reduced<float>({{1e8f}, {-1e8f}, {1}}, Reduce::sum)[0], 1);
}

}  // namespace
}  // namespace hexad::comm
