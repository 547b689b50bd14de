// Experts that compute a product and their activation in one kernel call, and duels between fused and plain calls.
#include <gtest/gtest.h>

#include "framework/base/tolerance.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using kernels::Duel;

namespace {

const Words on{"schedule.moe.fused=on"}, open{"schedule.moe.fused=auto"};

// Expects bitwise identical values. On a GPU, only expects values that agree within rounding.
void expect_alike(const Tensor& a, const Tensor& b, Dtype dtype) {
  if (test_device() != device::DeviceKind::cuda) return expect_bitwise(a, b, Zeros::expected);
  expect_close(a, b, 4 * base::tolerance(dtype, 256), Zeros::expected);
}
void expect_alike(const ScheduledLayer::Result& a, const ScheduledLayer::Result& b, Dtype dtype) {
  expect_alike(a.y, b.y, dtype);
  expect_alike(a.dx, b.dx, dtype);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) expect_alike(a.gradients[i], b.gradients[i], dtype);
}

struct Layout {
  std::string name;
  int ranks;
  Words overrides;
};
const Layout layouts[] = {
    {"Alone", 1, {}},
    {"Ep2", 2, {"parallel.ep=2"}},
    {"Tp2Etp2", 2, {"parallel.tp=2"}},
    {"Chunks", 2, {"parallel.ep=2", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"}},
    {"RowsOfTokens", 2, {"parallel.ep=2", "schedule.moe.rows=token"}},
    {"ReuseS1",
     2,
     {"parallel.ep=2", "schedule.moe.memory_reuse=s1", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"}},
    {"ByLoad", 1, {"schedule.moe.gemms=by_load", "schedule.moe.dense_rows=4"}}};

TEST(FusedExperts, EqualPlainExpertsUnderSeveralLayouts) {
  for (const Layout& l : layouts) {
    SCOPED_TRACE(l.name);
    comm::with_ranks(l.ranks, [&](const comm::ProcessGroup& world) {
      expect_alike(ScheduledLayer(world, l.overrides).run(), ScheduledLayer(world, joined(l.overrides, on)).run(),
                   Dtype::f64);
    });
  }
}

// A GPU computes experts of width 128 in one launch.
TEST(FusedExperts, EqualPlainExpertsInBf16) {
  const Words wide{"model.moe.expert_hidden=128", "train.precision=bf16"};
  comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
    expect_alike(ScheduledLayer(world, wide, Dtype::bf16).run(),
                 ScheduledLayer(world, joined(wide, on), Dtype::bf16).run(), Dtype::bf16);
  });
}

TEST(FusedExperts, DuelUsesThePlainResultsAndFindsEqualFusedResults) {
  for (const Layout& l : layouts) {
    if (l.name == "ByLoad") continue;  // most of its products are not grouped
    SCOPED_TRACE(l.name);
    comm::with_ranks(l.ranks, [&](const comm::ProcessGroup& world) {
      const auto expected = ScheduledLayer(world, l.overrides).run();
      moe::FusedDuels duels;
      ScheduledLayer contested(world, joined(l.overrides, open));
      contested.layer.fuse_by(&duels);
      const auto result = contested.run();
      expect_bitwise(expected.y, result.y);
      expect_bitwise(expected.dx, result.dx);
      ASSERT_EQ(expected.gradients.size(), result.gradients.size());
      for (size_t i = 0; i < expected.gradients.size(); ++i)
        expect_bitwise(expected.gradients[i], result.gradients[i], Zeros::expected);
      const kernels::DuelScore &forward = duels.forward.score(), &backward = duels.backward.score();
      EXPECT_TRUE(forward.agrees()) << forward.failure << forward.error;
      if (l.name == "ReuseS1") {
        EXPECT_EQ(backward.contests, 0) << "the backward pass of memory reuse has no fused call";
        return;
      }
      EXPECT_TRUE(backward.agrees()) << backward.failure << backward.error;
    });
  }
}

TEST(FusedExperts, DecidedDuelHasNoMoreContests) {
  comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
    const auto expected = ScheduledLayer(world, {}).run();
    for (const Duel::Winner winner : {Duel::Winner::plain, Duel::Winner::candidate}) {
      moe::FusedDuels duels;
      const auto run = [&] {
        ScheduledLayer layer(world, open);
        layer.layer.fuse_by(&duels);
        return layer.run();
      };
      duels.forward.decide(winner);
      expect_alike(expected, run(), Dtype::f64);
      EXPECT_EQ(duels.forward.score().contests, 0);
      const int64_t contests = duels.backward.score().contests;
      EXPECT_GT(contests, 0) << "backward is not decided";
      duels.backward.decide(winner);
      expect_alike(expected, run(), Dtype::f64);
      EXPECT_EQ(duels.backward.score().contests, contests);
    }
  });
}

TEST(FusedExperts, AutoWithoutADuelIsPlain) {
  comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
    expect_alike(ScheduledLayer(world, {}).run(), ScheduledLayer(world, open).run(), Dtype::f64);
  });
}

TEST(FusedExperts, GeluExpertsHaveNoDuel) {
  comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
    moe::FusedDuels duels;
    ScheduledLayer gelu(world, {"model.moe.expert=gelu"});
    moe::MoeSchedule s;
    s.fused.reset();
    gelu.layer.reschedule(s, moe::alternating_order());
    gelu.layer.fuse_by(&duels);
    gelu.run();
    EXPECT_EQ(duels.forward.score().contests + duels.backward.score().contests, 0);
  });
}

}  // namespace
}  // namespace hexad::tests
