// Process groups on engines of ranks that are threads.
#include "parallel/comm/engine_ranks.h"

#include <gtest/gtest.h>

#include <atomic>

#include "collectives_check.h"
#include "framework/base/block_sizes.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::InlineStream;

const CommEngine::Options small_rounds{.limits = {.round_bytes = 1 << 18, .window_bytes = 1 << 20}};

void check_all(const ProcessGroup& world) {
  check_collectives(world);
  check_uneven_splits(world);
  check_ring(world);
  check_groups_in_flight_together(world);
  check_split(world);
}

class EngineRanksOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(N, EngineRanksOf, testing::Values(1, 2, 3, 4));

TEST_P(EngineRanksOf, PassTheChecksOfEveryGroup) { with_engine_ranks(GetParam(), check_all, {.engine = small_rounds}); }

TEST_P(EngineRanksOf, PassTheChecksOfEveryGroupUnderAnAdversarialNetwork) {
  for (uint64_t seed : {1, 2}) with_engine_ranks(GetParam(), check_all, {.adversary = seed, .engine = small_rounds});
}

// All groups of at least two ranks use the plans of large groups if direct_ranks is 1.
TEST(EngineRanks, PassTheChecksOfEveryGroupWithoutDirectMessages) {
  const BlockSizes no_direct_messages{.direct_ranks = 1, .scratch_bytes = 1 << 16};
  const WithBlockSizes sizes(no_direct_messages);
  for (const int ranks : {2, 3, 5}) {
    with_engine_ranks(ranks, check_all, {.engine = small_rounds});
    with_engine_ranks(ranks, check_all, {.adversary = 4, .engine = small_rounds});
  }
}

TEST(EngineRanks, SameOnAllFindsADifferenceOnOneRank) {
  const BlockSizes no_direct_messages{.direct_ranks = 1};
  const WithBlockSizes sizes(no_direct_messages);
  with_engine_ranks(5, [](const ProcessGroup& world) {
    DeviceContext context;
    const int64_t mine[] = {-3, world.rank() / 4, INT64_MIN}, common[] = {-3, INT64_MAX, INT64_MIN};
    EXPECT_FALSE(world.same_on_all(mine, context));
    EXPECT_TRUE(world.same_on_all(common, context));
  });
}

TEST(EngineRanks, GatherValuesGivesOnlyRank0TheValuesOfAllRanksInOrder) {
  for (const int ranks : {1, 2, 3, 7, 8})
    with_engine_ranks(ranks, [](const ProcessGroup& world) {
      DeviceContext context;
      std::vector<int64_t> expected;
      for (int64_t r = 0; world.rank() == 0 && r < world.size(); ++r) expected.insert(expected.end(), {r, -10 * r});
      const int64_t mine[] = {world.rank(), -10 * world.rank()};
      EXPECT_EQ(world.gather_values(mine, context), expected);
      EXPECT_EQ(world.gather_values({}, context), std::vector<int64_t>());
    });
}

TEST(EngineRanks, SubgroupsHaveTheOrderOfTheirLists) {
  with_engine_ranks(5, [](const ProcessGroup& world) {
    DeviceContext context;
    const std::vector<int> even{4, 0, 2}, odd{1, 3};
    const auto group = world.subgroup(world.rank() % 2 ? odd : even, TrafficClass::ep, "parity");
    const int64_t mine[] = {world.rank()};
    EXPECT_EQ(group->all_gather_values(mine, context),
              world.rank() % 2 ? (std::vector<int64_t>{1, 3}) : (std::vector<int64_t>{4, 0, 2}));
    EXPECT_EQ(group->duplicate("twin")->all_gather_values(mine, context), group->all_gather_values(mine, context));
    EXPECT_THROW(world.subgroup({(world.rank() + 1) % 5}, TrafficClass::ep, "others"), std::logic_error);
  });
}

TEST(EngineRanks, PassTheChecksOfEveryGroupWithComparedCallsAndLateMessages) {
  CommEngine::Options options = small_rounds;
  options.guards.check_collectives = true;
  options.jitter = {.seed = 5, .max_delay = std::chrono::microseconds(100)};
  with_engine_ranks(3, check_all, {.node_of_rank = {0, 0, 1}, .adversary = 3, .engine = options});
}

TEST(EngineRanks, OperationsOfWorkerLanesComplete) {
  with_engine_ranks(3,
                    [](const ProcessGroup& world) {
                      DeviceContext context{{.worker_lanes = true}};
                      Stream &inter = context.stream(device::Lane::inter), &intra = context.stream(device::Lane::intra);
                      const auto other = world.split(0, -world.rank(), TrafficClass::ep, "other");
                      const Tensor a = Tensor::zeros({50000}, Dtype::i64, context), b = Tensor::like(a);
                      for (int i = 0; i < 5; ++i) {
                        std::fill_n(a.data<int64_t>(), a.numel(), 1), std::fill_n(b.data<int64_t>(), b.numel(), i);
                        inter.wait(world.all_reduce(a, Reduce::sum, inter));
                        intra.wait(other->all_reduce(b, Reduce::sum, intra));
                        intra.synchronize(), inter.synchronize();
                        EXPECT_EQ(a.data<int64_t>()[49999], 3);
                        EXPECT_EQ(b.data<int64_t>()[49999], 3 * i);
                      }
                    },
                    {.adversary = 1});
}

TEST(EngineRanks, FailingRankMakesItsPeersThrow) {
  for (const std::optional<uint64_t> adversary : {std::optional<uint64_t>(), std::optional<uint64_t>(1)}) {
    std::atomic<int> peers = 0;
    const auto work = [](const ProcessGroup& world) {
      const auto pairs = world.split(world.rank() / 2, 0, TrafficClass::ep, "pairs");
      if (world.rank() == 1) fail(ExitCode::numeric, "loss is NaN");
      DeviceContext context;
      pairs->any(false, context);  // rank 0 waits for the failing rank here
      world.any(false, context);   // ranks 2 and 3 wait here
    };
    const auto body = [&](const ProcessGroup& world) {
      if (world.rank() == 1) return work(world);
      try {
        work(world);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::peer_lost);
        EXPECT_NE(std::string(e.what()).find("[world] rank 1 ended with an error"), std::string::npos) << e.what();
        ++peers;
        throw;
      }
    };
    try {
      with_engine_ranks(4, body, {.adversary = adversary});
      FAIL();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "loss is NaN");  // the error of the failing rank, not an error of its peers
    }
    EXPECT_EQ(peers, 3);
  }
}

TEST(EngineRanks, EarlyEndOfARankMakesItsPeersThrow) {
  for (const std::optional<uint64_t> adversary : {std::optional<uint64_t>(), std::optional<uint64_t>(1)}) {
    try {
      with_engine_ranks(3,
                        [](const ProcessGroup& world) {
                          DeviceContext context;
                          if (world.rank() != 2) world.any(false, context);
                        },
                        {.adversary = adversary});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::peer_lost);
      EXPECT_NE(std::string(e.what()).find("all_reduce of f64 [1] on rank "), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("rank 2 has ended"), std::string::npos) << e.what();
    }
  }
}

TEST(EngineRanks, DifferentSizesAreReported) {
  try {
    with_engine_ranks(2, [](const ProcessGroup& world) {
      DeviceContext context;
      InlineStream stream;
      world.all_reduce(Tensor::zeros({4 + world.rank()}, Dtype::f32, context), Reduce::sum, stream).wait();
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    EXPECT_NE(std::string(e.what()).find(" bytes arrived, "), std::string::npos) << e.what();
  }
}

TEST(EngineRanks, WatchdogNamesTheOperationAndTheMissingRank) {
  std::atomic<bool> over = false;
  const auto body = [&](const ProcessGroup& world) {
    const auto half = world.split(world.rank() % 2, 0, TrafficClass::dp, "dp");
    if (world.rank() == 3) return over.wait(false);  // this rank never calls the collective
    DeviceContext context;
    try {
      half->any(false, context);
    } catch (...) {
      over = true;
      over.notify_all();
      throw;
    }
  };
  try {
    with_engine_ranks(4, body, {.engine = {.guards = {.watchdog_seconds = 0.1}}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    const std::string text = e.what();
    EXPECT_NE(text.find("group dp (2 ranks), all_reduce of f64 [1]"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 3"), std::string::npos) << text;
  }
}

TEST(EngineRanks, UnawaitedOperationsAreDoneAtTheEnd) {
  DeviceContext context;
  std::vector<Tensor> sums;
  for (int r = 0; r < 3; ++r) sums.push_back(Tensor::zeros({100000}, Dtype::f32, context));
  with_engine_ranks(3,
                    [&](const ProcessGroup& world) {
                      InlineStream stream;
                      const Tensor& x = sums[world.rank()];
                      x.data<float>()[99999] = 1;
                      world.all_reduce(x, Reduce::sum, stream);
                    },
                    {.adversary = 1});
  for (const Tensor& x : sums) EXPECT_EQ(x.data<float>()[99999], 3);
}

}  // namespace
}  // namespace hexad::comm
