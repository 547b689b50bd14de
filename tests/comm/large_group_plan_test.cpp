// Plans of large groups. The tests compare their reductions with the reductions of plans of small groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "framework/base/block_sizes.h"
#include "framework/device/context.h"
#include "parallel/comm/tree.h"
#include "tests/comm/play_plans.h"

namespace hexad::comm {

using namespace base;

namespace {

using device::DeviceContext;
using Kind = Operation::Kind;

constexpr int64_t round_bytes = 1 << 15;
const BlockSizes no_direct_messages{.direct_ranks = 1};

// Returns the tensors of all ranks after an all-reduce of n elements. Most values of floating types are not integers.
template <class T>
std::vector<std::vector<T>> reduced(int ranks, int64_t n, Reduce op, DeviceContext& context) {
  std::vector<Tensor> x;
  std::vector<MessagePlan> plans;
  for (int r = 0; r < ranks; ++r) {
    std::vector<T> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>(static_cast<double>((i * 31 + r * 17) % 101) / 3));
    x.push_back(Tensor::from<T>(values, {n}, context));
  }
  for (int r = 0; r < ranks; ++r)
    plans.push_back(make_message_plan({.kind = Kind::all_reduce, .out = x[r], .reduce = op}, r, ranks, round_bytes));
  play(plans, static_cast<uint64_t>(n + ranks));
  std::vector<std::vector<T>> results;
  for (const Tensor& t : x) results.push_back(t.to_vector<T>());
  return results;
}

template <class T>
void expect_like_direct(int ranks, int64_t n, Reduce op) {
  DeviceContext context;
  const auto direct = reduced<T>(ranks, n, op, context);
  const WithBlockSizes sizes(no_direct_messages);
  EXPECT_EQ(reduced<T>(ranks, n, op, context), direct) << n << " elements on " << ranks << " ranks";
}

class LargeGroupPlan : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LargeGroupPlan, testing::Values(2, 3, 4, 5, 8, 13));

TEST_P(LargeGroupPlan, ReducesToTheSameBitsAsDirectMessages) {
  for (const int64_t n : {0, 1, 7, 1000, 3000, 20000}) {
    expect_like_direct<float>(GetParam(), n, Reduce::sum);
    expect_like_direct<double>(GetParam(), n, Reduce::max);
    expect_like_direct<int64_t>(GetParam(), n, Reduce::sum);
    expect_like_direct<int32_t>(GetParam(), n, Reduce::min);
  }
}

TEST_P(LargeGroupPlan, ReducesToTheSameBitsWithLittleScratch) {
  DeviceContext context;
  const auto direct = reduced<float>(GetParam(), 2000, Reduce::sum, context);
  BlockSizes little = no_direct_messages;
  little.scratch_bytes = 256;
  const WithBlockSizes sizes(little);
  EXPECT_EQ(reduced<float>(GetParam(), 2000, Reduce::sum, context), direct);
}

TEST_P(LargeGroupPlan, GathersTheBlocksOfAllRanks) {
  const int ranks = GetParam();
  DeviceContext context;
  const WithBlockSizes sizes(no_direct_messages);
  for (const int64_t n : {0, 1, 3, 1024}) {
    std::vector<Tensor> in, out;
    std::vector<MessagePlan> plans;
    for (int r = 0; r < ranks; ++r) {
      in.push_back(Tensor::from<int64_t>(std::vector<int64_t>(n, r), {n}, context));
      out.push_back(Tensor::zeros({ranks, n}, Dtype::i64, context));
    }
    for (int r = 0; r < ranks; ++r)
      plans.push_back(make_message_plan({.kind = Kind::all_gather, .out = out[r], .in = in[r]}, r, ranks, round_bytes));
    play(plans, static_cast<uint64_t>(n));
    for (const Tensor& t : out)
      for (int64_t i = 0; i < ranks * n; ++i) ASSERT_EQ(t.data<int64_t>()[i], i / n);
  }
}

TEST_P(LargeGroupPlan, BroadcastsFromEveryRoot) {
  const int ranks = GetParam();
  DeviceContext context;
  const WithBlockSizes sizes(no_direct_messages);
  for (const int64_t n : {0, 1, 8192, 8193, 100003})
    for (int root = 0; root < ranks; ++root) {
      std::vector<Tensor> x;
      std::vector<MessagePlan> plans;
      for (int r = 0; r < ranks; ++r) {
        x.push_back(Tensor::zeros({n}, Dtype::u8, context));
        if (r == root)
          for (int64_t i = 0; i < n; ++i) x.back().data<uint8_t>()[i] = static_cast<uint8_t>(1 + i % 251);
      }
      for (int r = 0; r < ranks; ++r)
        plans.push_back(make_message_plan({.kind = Kind::broadcast, .out = x[r], .peer = root}, r, ranks, round_bytes));
      play(plans, static_cast<uint64_t>(n + root));
      for (const Tensor& t : x)
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(t.data<uint8_t>()[i], 1 + i % 251) << "element " << i << " of " << n;
    }
}

// No rank may pass the barrier before all ranks have called it.
TEST_P(LargeGroupPlan, BarrierHearsFromAllRanks) {
  const int ranks = GetParam();
  const WithBlockSizes sizes(no_direct_messages);
  std::vector<std::vector<bool>> knows;  // knows[r][s] is true if rank r knows that rank s has called the barrier
  std::vector<MessagePlan> plans;
  for (int r = 0; r < ranks; ++r) {
    plans.push_back(make_message_plan({.kind = Kind::barrier}, r, ranks, round_bytes));
    knows.emplace_back(ranks);
    knows[r][r] = true;
  }
  for (size_t step = 0; step < plans[0].rounds.size(); ++step) {
    const std::vector<std::vector<bool>> before = knows;
    for (int r = 0; r < ranks; ++r) {
      ASSERT_EQ(plans[r].rounds[step].after, static_cast<int>(step) - 1);
      for (const Transfer& t : plans[r].rounds[step].receives)
        for (int s = 0; s < ranks; ++s)
          if (before[t.peer][s]) knows[r][s] = true;
    }
  }
  for (int r = 0; r < ranks; ++r)
    for (int s = 0; s < ranks; ++s)
      EXPECT_TRUE(knows[r][s]) << "rank " << r << " may pass the barrier before rank " << s << " calls it";
}

TEST(LargeGroupPlan, RoundsOfAnAllToAllHaveMessagesToFewRanks) {
  constexpr int ranks = 64;
  DeviceContext context;
  const std::vector<int64_t> rows(ranks, 10);
  const Tensor in = Tensor::zeros({640, 4}, Dtype::f32, context), out = Tensor::like(in);
  const MessagePlan plan =
      make_message_plan({.kind = Kind::all_to_all, .out = out, .in = in, .splits = {rows, rows}}, 3, ranks, 1 << 17);
  ASSERT_EQ(plan.rounds.size(), 4u);
  size_t sends = 0;
  for (const Round& r : plan.rounds) {
    EXPECT_LE(r.sends.size(), 16u);
    EXPECT_EQ(r.sends.size(), r.receives.size());
    sends += r.sends.size();
  }
  EXPECT_EQ(sends, 63u);
}

TEST(LargeGroupPlan, FewRoundsOfTinyMessagesAreInFlight) {
  constexpr int ranks = 1024;
  DeviceContext context;
  const std::vector<int64_t> rows(ranks, 1);
  const Tensor in = Tensor::zeros({ranks, 1}, Dtype::u8, context), out = Tensor::like(in);
  const MessagePlan plan =
      make_message_plan({.kind = Kind::all_to_all, .out = out, .in = in, .splits = {rows, rows}}, 0, ranks, 1 << 17);
  ASSERT_EQ(plan.rounds.size(), 64u);
  for (size_t r = 0; r < plan.rounds.size(); ++r)
    EXPECT_EQ(plan.rounds[r].after, std::max(-1, static_cast<int>(r) - 16));
}

TEST(Tree, SubtreesOfTheChildrenFollowTheirParentWithoutAGap) {
  for (int size = 1; size <= 40; ++size)
    for (int root : {0, size / 2, size - 1})
      for (int r = 0; r < size; ++r) {
        const TreePlace place = tree_place(r, root, size);
        EXPECT_EQ(place.own.begin, (r - root + size) % size);
        EXPECT_EQ(place.parent < 0, r == root);
        int next = place.own.begin + 1;
        for (const Subtree& child : place.children) {
          EXPECT_EQ(child.begin, next);
          next = child.end;
          const TreePlace its = tree_place(child.rank, root, size);
          EXPECT_EQ(its.parent, r);
          EXPECT_EQ(its.own.begin, child.begin);
          EXPECT_EQ(its.own.end, child.end);
        }
        EXPECT_EQ(next, place.own.end);
        EXPECT_LE(place.children.size(), static_cast<size_t>(std::bit_width(static_cast<unsigned>(size))));
      }
}

}  // namespace
}  // namespace hexad::comm
