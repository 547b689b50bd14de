#include "parallel/comm/message_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/device/context.h"
#include "tests/comm/play_plans.h"

namespace hexad::comm {

using device::Category;
using namespace base;

namespace {

using device::DeviceContext;
using Kind = Operation::Kind;

int64_t sent_bytes(const MessagePlan& plan) {
  int64_t total = 0;
  for (const Round& r : plan.rounds)
    for (const Transfer& t : r.sends) total += t.bytes;
  return total;
}

class AllReducePlan : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AllReducePlan, testing::Values(2, 3, 4, 7, 8));

TEST_P(AllReducePlan, SumsAllRanksAndSendsTheLeastBytes) {
  const int ranks = GetParam();
  DeviceContext context;
  for (int64_t n : {0, 1, 2048, 2049, 50000, 100003}) {
    std::vector<Tensor> x;
    std::vector<MessagePlan> plans;
    for (int r = 0; r < ranks; ++r) {
      x.push_back(Tensor::empty({n}, Dtype::f32, context));
      for (int64_t i = 0; i < n; ++i) x.back().data<float>()[i] = static_cast<float>((i * 3 + r) % 17);
    }
    for (int r = 0; r < ranks; ++r)
      plans.push_back(make_message_plan({.kind = Kind::all_reduce, .out = x[r]}, r, ranks, 65536));
    play(plans, static_cast<uint64_t>(n));
    for (const Tensor& t : x)
      for (int64_t i = 0; i < n; ++i) {
        int64_t sum = 0;
        for (int r = 0; r < ranks; ++r) sum += (i * 3 + r) % 17;
        ASSERT_EQ(t.data<float>()[i], static_cast<float>(sum)) << "element " << i << " of " << n;
      }
    if (n <= 50000) continue;
    for (const MessagePlan& p : plans)
      EXPECT_NEAR(static_cast<double>(sent_bytes(p)), 2.0 * (ranks - 1) / ranks * static_cast<double>(n) * 4, 4096);
  }
}

class BroadcastPlan : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, BroadcastPlan, testing::Values(2, 3, 4, 7));

TEST_P(BroadcastPlan, ReachesEveryRankAndNoRankSendsALargeTensorMoreThanTwice) {
  const int ranks = GetParam();
  DeviceContext context;
  for (int64_t bytes : {0, 1, 8192, 8193, 100000, 1000003})
    for (int root : {0, ranks - 1}) {
      std::vector<Tensor> x;
      std::vector<MessagePlan> plans;
      for (int r = 0; r < ranks; ++r) {
        x.push_back(Tensor::zeros({bytes}, Dtype::u8, context));
        if (r == root)
          for (int64_t i = 0; i < bytes; ++i) x.back().data<uint8_t>()[i] = static_cast<uint8_t>(1 + i % 251);
      }
      for (int r = 0; r < ranks; ++r)
        plans.push_back(make_message_plan({.kind = Kind::broadcast, .out = x[r], .peer = root}, r, ranks, 65536));
      play(plans, static_cast<uint64_t>(bytes + root));
      for (const Tensor& t : x)
        for (int64_t i = 0; i < bytes; ++i)
          ASSERT_EQ(t.data<uint8_t>()[i], 1 + i % 251) << "element " << i << " of " << bytes;
      for (const MessagePlan& p : plans) EXPECT_LE(sent_bytes(p), bytes > 8192 ? 2 * bytes : (ranks - 1) * bytes);
    }
}

TEST(Plan, CutsMessagesAtRoundBytesDividedByPeers) {
  DeviceContext context;
  const Tensor in = Tensor::zeros({300000}, Dtype::f32, context), out = Tensor::zeros({900000}, Dtype::f32, context);
  const MessagePlan plan = make_message_plan({.kind = Kind::all_gather, .out = out, .in = in}, 1, 3, 399999);
  ASSERT_EQ(plan.rounds.size(), 7u);  // 1,200,000 bytes / 199,936 (half a round, rounded down to a multiple of 64)
  for (const Round& r : plan.rounds) {
    EXPECT_EQ(r.sends.size(), 2u);
    EXPECT_EQ(r.receives.size(), 2u);
    for (const Transfer& t : r.sends) EXPECT_LE(t.bytes, 199936);
  }
}

// Messages to another node share the only link of the receiving rank. Therefore, all ranks of a node would use the same
// link if they began with the same rank of the other node. The other links would then be idle at first.
TEST(Plan, MessagesToAnotherNodeReachDifferentRanksInEachStep) {
  DeviceContext context;
  constexpr int ranks = 8, of_a_node = 4;
  const std::vector<int64_t> rows(ranks, 10);
  const Tensor t = Tensor::zeros({80, 4}, Dtype::f32, context), u = Tensor::zeros({80, 4}, Dtype::f32, context);
  for (const auto& node_of : {+[](int r) { return r / of_a_node; }, +[](int r) { return r % 2; }}) {
    // Counts of messages, by receiver and by position among the sender's messages to the other node.
    std::map<std::pair<int, size_t>, int> received;
    for (int r = 0; r < ranks; ++r) {
      const MessagePlan plan =
          make_message_plan({.kind = Kind::all_to_all, .out = t, .in = u, .splits = {rows, rows}}, r, ranks, 1 << 20);
      ASSERT_EQ(plan.rounds.size(), 1u);
      size_t place = 0;
      for (const Transfer& sent : plan.rounds[0].sends)
        if (node_of(sent.peer) != node_of(r)) ++received[{sent.peer, place++}];
      EXPECT_EQ(place, size_t{of_a_node});
    }
    EXPECT_EQ(received.size(), size_t{ranks * of_a_node});
  }
}

TEST(Plan, ScratchIsBoundedByRoundsNotByTheTensor) {
  DeviceContext context;
  const Tensor x = Tensor::zeros({4 << 20}, Dtype::f32, context);
  const MessagePlan plan = make_message_plan({.kind = Kind::all_reduce, .out = x}, 0, 2, 1 << 19);
  EXPECT_EQ(context.allocator()->stats().used_in(Category::communication), 2 << 19);
}

TEST(Plan, EmptyExchangeHasOneEmptyRound) {
  DeviceContext context;
  const Tensor t = Tensor::zeros({0, 4}, Dtype::f32, context);
  const MessagePlan plan =
      make_message_plan({.kind = Kind::all_to_all, .out = t, .in = t, .splits = {{0, 0}, {0, 0}}}, 0, 2, 1 << 20);
  ASSERT_EQ(plan.rounds.size(), 1u);
  EXPECT_EQ(plan.rounds[0].volume().sent + plan.rounds[0].volume().received, 0);
}

}  // namespace
}  // namespace hexad::comm
