#include "tools/plan/papers/eps.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "framework/base/tolerance.h"

namespace hexad::plan::eps {
namespace {

const double rounding = base::tolerance(base::Dtype::f64, 16);

using Points = std::vector<config::Curve::Point>;

TEST(Eps, ExpectedActivatedExpertsMatchKnownCases) {
  EXPECT_DOUBLE_EQ(expected_activated_experts(2, 8, 1), 2);
  EXPECT_DOUBLE_EQ(expected_activated_experts(8, 8, 1), 8);
  EXPECT_NEAR(expected_activated_experts(2, 8, 2), 2 + 2 * (1 - 2.0 / 8), rounding * 8);
  EXPECT_NEAR(expected_activated_experts(6, 160, 4096), 160, 160 * rounding);  // prefill activates all experts
}

TEST(Eps, ExpectedDevicesAreTheMeanOverEverySubset) {
  // Enumerates the choices of experts on two and on four devices, with two experts per device.
  for (const int64_t D : {2, 4})
    for (const int64_t k : {1, 2, 3}) {
      const int64_t E = D * 2;
      double devices = 0, subsets = 0;
      for (unsigned chosen = 0; chosen < 1u << E; ++chosen) {
        if (std::popcount(chosen) != k) continue;
        ++subsets;
        for (int64_t d = 0; d < D; ++d) devices += ((chosen >> (2 * d)) & 3u) != 0;
      }
      EXPECT_NEAR(expected_devices(k, E, D), devices / subsets, rounding * static_cast<double>(D)) << k << " of " << E;
    }
  EXPECT_EQ(expected_devices(4, 4, 4), 4);
}

/// Returns the number of bytes that device 0 sends to other devices. Device 0 has `tokens` tokens of one byte. Each
/// token goes to `copies` devices. The copies are spread evenly over all D devices, including device 0.
double counted_all_to_all(int64_t D, int64_t tokens, int64_t copies) {
  double sent = 0;
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t c = 0; c < copies; ++c) sent += (token + c) % D != 0;
  return sent;
}

TEST(Eps, VolumesOfSection42EqualCountedBytes) {
  for (const int64_t D : {2, 4, 8})
    for (int64_t g = 1; g <= D; ++g) {
      const int64_t tokens = 8 * D;
      const auto P = static_cast<double>(tokens * D), devices = static_cast<double>(D), copies = static_cast<double>(g);
      const double exchange = counted_all_to_all(D, tokens, g);
      // A ring's reduce-scatter and all-gather take D - 1 steps of P/D each.
      const double ring = (devices - 1) * P / devices;
      EXPECT_DOUBLE_EQ(volume(Mode::dp_ep, P, devices, copies), exchange);
      EXPECT_DOUBLE_EQ(volume(Mode::tp_tp, P, devices, copies), 2 * ring);
      EXPECT_DOUBLE_EQ(volume(Mode::tp_ep, P, devices, copies), ring + exchange);
    }
}

TEST(Eps, TpEpSendsLessThanTpTpUnlessTokensVisitAllDevices) {
  for (double g = 1; g < 8; ++g) {
    EXPECT_LT(volume(Mode::dp_ep, 1, 8, g), volume(Mode::tp_ep, 1, 8, g));
    EXPECT_LT(volume(Mode::tp_ep, 1, 8, g), volume(Mode::tp_tp, 1, 8, g));
  }
  // In this case, the paper's strict inequality is an equality.
  EXPECT_DOUBLE_EQ(volume(Mode::tp_ep, 1, 8, 8), volume(Mode::tp_tp, 1, 8, 8));
  EXPECT_THROW(volume(Mode::dp_ep, 1, 8, 9), std::logic_error);
}

TEST(Eps, LocalReduceReturnsGRowsInsteadOfK) {
  const double g = 3, k = 6, D = 8;
  EXPECT_DOUBLE_EQ(combine_volume_without_reduce(Mode::dp_ep, 1, D, k) / volume(Mode::dp_ep, 1, D, g), k / g);
  EXPECT_GT(combine_volume_without_reduce(Mode::tp_ep, 1, D, k), volume(Mode::tp_ep, 1, D, g));
}

TEST(Eps, MemoryTrafficMatchesSection42) {
  const Block b{.M_in = 8, .M_out = 16, .M_weight = 32};
  EXPECT_EQ(attention_io(Mode::tp_tp, b, 64, 4), 8 + 16 + 16 + 8);
  EXPECT_EQ(attention_io(Mode::tp_ep, b, 64, 4), attention_io(Mode::tp_tp, b, 64, 4));
  EXPECT_EQ(attention_io(Mode::dp_ep, b, 64, 4), (8 + 16 + 64) / 4 + 32);
  EXPECT_EQ(moe_io(Mode::tp_tp, b, 2, 4), 24 * 2 + 8);
  EXPECT_EQ(moe_io(Mode::dp_ep, b, 2, 4), 24 * 2 / 4 + 8);
  EXPECT_EQ(moe_io(Mode::tp_ep, b, 2, 4), moe_io(Mode::dp_ep, b, 2, 4));
  EXPECT_LT(moe_io(Mode::tp_ep, b, 2, 4), moe_io(Mode::tp_tp, b, 2, 4));
}

TEST(Eps, BlockTakesTheLongerOfComputationAndMemory) {
  const Machine m{.FP = 10, .BW = 5, .NW = 2, .V_O = 3};
  EXPECT_EQ(block_seconds(80, 5, 4, m), 2);
  EXPECT_EQ(block_seconds(80, 50, 4, m), 10);
  EXPECT_EQ(comm_seconds(10, m), 5);
  EXPECT_EQ(comm_seconds(1, m), 3);
}

TEST(Eps, SplittingByExpertsWritesTheOutputOnce) {
  const SplitIo io = split_io(10, 2, 3, 4, 5, 4);
  EXPECT_EQ(io.by_experts, 20 + 20 + 30);
  EXPECT_EQ(io.by_columns, 20 + 20 + 4 * 30);
  EXPECT_EQ(split_seconds(4, 6, 3), 8);
}

TEST(Eps, ProductsSwitchWithTheRowsOfAnExpert) {
  // Fig. 5(a) has 16 experts: m rows are m/16 rows of each expert.
  EXPECT_EQ(product(2047.0 / 16), Product::grouped);
  EXPECT_EQ(product(2048.0 / 16), Product::either);
  EXPECT_EQ(product(4095.0 / 16), Product::either);
  EXPECT_EQ(product(4096.0 / 16), Product::dense);  // 256, the default of schedule.moe.dense_rows
}

TEST(Eps, BestGroupsAreNearTheSquareRoot) {
  // DeepSeek-V2 on 8 GPUs has 20 experts per device. The paper finds that 5 groups are best.
  const double comm = 2.5e-3, comp = 4e-3;
  const Overhead overhead{.k = 1e-4, .b = 2e-5};
  EXPECT_NEAR(unrestricted_groups(comm, comp, overhead), 5, 5 * rounding);
  const auto tried = all_groups(comm, comp, 20, overhead);
  ASSERT_EQ(tried.size(), 6u);  // 1, 2, 4, 5, 10, 20
  EXPECT_EQ(best_groups(tried).N, 5);
  EXPECT_NEAR(best_groups(tried).gain, largest_gain(comm, comp, overhead), rounding * comm);
  for (const Groups& g : tried) EXPECT_LE(g.gain, largest_gain(comm, comp, overhead) + rounding * comm) << g.N;
}

TEST(Eps, BetterNeighbourWinsBetweenDivisors) {
  // sqrt(C/k) = 3.16 with 8 experts, so 2 or 4 groups are best.
  const Overhead overhead{.k = 0.1, .b = 0};
  EXPECT_EQ(best_groups(all_groups(1, 9, 8, overhead)).N, gain(1, 9, 2, overhead) > gain(1, 9, 4, overhead) ? 2 : 4);
}

TEST(Eps, ChoosesOneGroupIfOverheadExceedsTheOverlap) {
  // Dividing the experts into groups does not help if loads are small.
  const auto tried = all_groups(1e-4, 2e-4, 20, {.k = 4e-5, .b = 2e-5});
  EXPECT_EQ(best_groups(tried).N, 1);
  EXPECT_EQ(best_groups(tried).gain, 0);
}

TEST(Eps, GroupsAreWorthwhileWithinBothBounds) {
  // Table 7 at m = 1700, in units of the undivided times. The table prints e0 and e1 with two digits.
  const config::Curve S = Points{{850, 0.6595}, {1700, 1}}, G = Points{{850, 0.6}, {1700, 1}},
                      half = Points{{850, 0.51}, {1700, 0.9}};
  const Extra found = extra(1700, 2, S, half, G);
  EXPECT_NEAR(found.e0, 0.32, 0.005);
  EXPECT_NEAR(found.e1, 0.02, 0.005);
  EXPECT_TRUE(pays(found, 0.32, 0.03));
  EXPECT_FALSE(pays(found, 0.31, 0.03));
  EXPECT_FALSE(pays(found, 0.32, 0.01));
}

}  // namespace
}  // namespace hexad::plan::eps
