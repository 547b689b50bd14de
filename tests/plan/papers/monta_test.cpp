#include "tools/plan/papers/monta.h"

#include <gtest/gtest.h>

#include "framework/base/tolerance.h"

namespace hexad::plan::monta {
namespace {

const double rounding = base::tolerance(base::Dtype::f64, 16);
using Points = std::vector<config::Curve::Point>;

/// Volume and network of table 8: two nodes of eight A800. B3 follows from the table's copy: 64 MB in 0.05 ms at 80%.
const double table_8_volume = 256e6;
Network table_8() {
  return {.t = 8,
          .e = 2,
          .all_to_all = {25e9, Points{{8e6, 0.427}, {32e6, 0.632}, {256e6, 0.741}}},
          .all_gather = {200e9, Points{{64e6, 0.726}, {256e6, 0.776}}},
          .copy = {1.6e12, 0.8}};
}

/// Expects a latency that the table prints. The table truncates digits. Therefore, a sum of `terms` printed latencies
/// may be too small by one unit of the last digit for each term.
void expect_printed(double milliseconds, double seconds, int terms = 1) {
  const double cut = 0.001 * terms;
  EXPECT_NEAR(seconds * 1e3, milliseconds + cut / 2, cut / 2 + rounding) << "printed: " << milliseconds;
}

TEST(Monta, LatenciesMatchTable8) {
  const Network network = table_8();
  expect_printed(6.909, baseline(table_8_volume, network).seconds);
  const Chunk whole = chunk(table_8_volume, network, 1), quarter = chunk(table_8_volume, network, 4);
  expect_printed(1.012, whole.all_to_all.seconds);
  expect_printed(1.443, whole.all_gather.seconds);
  expect_printed(0.374, quarter.all_to_all.seconds);
  expect_printed(0.385, quarter.all_gather.seconds);
  expect_printed(0.050, quarter.copy.seconds);
  EXPECT_EQ(whole.all_to_all.volume, 32e6);
  EXPECT_EQ(whole.all_gather.volume, 256e6);
  EXPECT_EQ(quarter.all_to_all.volume, 8e6);
  EXPECT_EQ(quarter.copy.volume, 64e6);
}

TEST(Monta, StrategiesMatchTable8) {
  const Network network = table_8();
  const Chunk whole = chunk(table_8_volume, network, 1), quarter = chunk(table_8_volume, network, 4);
  const double base = baseline(table_8_volume, network).seconds;
  const auto check = [&](Strategy strategy, const Chunk& one, int64_t n, double milliseconds, double ratio) {
    expect_printed(milliseconds, seconds(strategy, one, n), 5);
    EXPECT_NEAR(seconds(strategy, one, n) / base, ratio, 0.001) << name_of(strategy);
  };
  check(Strategy::o1, whole, 1, 1.012 + 1.443, 0.355);
  check(Strategy::o2, quarter, 4, 2.114, 0.306);
  check(Strategy::o3, quarter, 4, 1.964, 0.284);
}

TEST(Monta, LimitsMatchSection5) {
  const Network network = table_8();
  EXPECT_NEAR(limits(network).o1, 0.34375, rounding);   // 1/8 + 7/8 x 2 / 8
  EXPECT_NEAR(limits(network).o3, 7.0 / 32, rounding);  // equation 13
  EXPECT_NEAR(limits(network).o2, 7.0 / 32 + 2 * 25e9 / 1.6e12, rounding);
  // Tests equation 12 with equal efficiencies.
  Network equal = network;
  equal.all_to_all.efficiency = equal.all_gather.efficiency = 1;
  const Chunk one = chunk(table_8_volume, equal, 4);
  EXPECT_NEAR(one.all_to_all.seconds / one.all_gather.seconds, 4.0 / 7, rounding);
}

TEST(Monta, ManyChunksApproachTheLimits) {
  Network network = table_8();
  network.all_to_all.efficiency = network.all_gather.efficiency = network.copy.efficiency = 1;
  const double base = baseline(1, network).seconds;
  const auto ratio = [&](Strategy strategy, int64_t n) { return seconds(strategy, chunk(1, network, n), n) / base; };
  for (const auto& [strategy, limit] :
       {std::pair{Strategy::o2, limits(network).o2}, std::pair{Strategy::o3, limits(network).o3}}) {
    EXPECT_GT(ratio(strategy, 1000), limit);
    EXPECT_NEAR(ratio(strategy, 1000), limit, 1e-3);
  }
  EXPECT_NEAR(ratio(Strategy::o1, 1), limits(network).o1, rounding);
}

TEST(Monta, O3IsNeverSlowerThanO2WithOneCurve) {
  const Network network = table_8();
  for (double volume = 1e5; volume < 1e10; volume *= 1.7)
    for (int64_t n : {1, 2, 3, 4, 16}) {
      const Chunk one = chunk(volume, network, n);
      EXPECT_LE(seconds(Strategy::o3, one, n), seconds(Strategy::o2, one, n)) << volume << " in " << n;
    }
}

TEST(Monta, LongestOfThreeStagesDeterminesTheTimeOfO3) {
  Network network = table_8();
  network.copy = {25e9, 1};  // slower than both transfers
  const Chunk one = chunk(table_8_volume, network, 4);
  const double aa = one.all_to_all.seconds, ag = one.all_gather.seconds, copy = one.copy.seconds;
  ASSERT_GT(copy, std::max(aa, ag));
  EXPECT_DOUBLE_EQ(seconds(Strategy::o3, one, 4), aa + ag + 4 * copy);
}

TEST(Monta, SearchReturnsTheBestNotTheLast) {
  // Small chunks pay latency: 4 chunks are better than 1, and better than 32.
  Network network = table_8();
  network.all_to_all.efficiency = Points{{1e6, 0.03}, {8e6, 0.427}, {32e6, 0.632}, {256e6, 0.741}};
  ASSERT_EQ(max_chunks(table_8_volume, network, 1e6), 32);
  for (const Strategy strategy : {Strategy::o2, Strategy::o3}) {
    const auto tried = all_pipelined(strategy, table_8_volume, network, 32);
    ASSERT_EQ(tried.size(), 32u);
    const Pipelined best = *best_pipelined(tried);
    EXPECT_GT(best.chunks, 1);
    EXPECT_LT(best.chunks, 32);
    for (const Pipelined& p : tried) EXPECT_GE(p.seconds, best.seconds);
    EXPECT_EQ(best.seconds, seconds(strategy, chunk(table_8_volume, network, best.chunks), best.chunks));
  }
}

TEST(Monta, OnlyO1RemainsWithoutALegalChunk) {
  const Network network = table_8();
  EXPECT_EQ(max_chunks(table_8_volume, network, 33e6), 0);
  const auto none = best_pipelined(all_pipelined(Strategy::o2, table_8_volume, network, 0));
  EXPECT_FALSE(none);
  EXPECT_EQ(choose(2.456e-3, none, none).strategy, Strategy::o1);
}

TEST(Monta, Algorithm3ChoosesTheFastest) {
  EXPECT_EQ(choose(3, Pipelined{2, 2}, Pipelined{2, 4}).strategy, Strategy::o2);
  EXPECT_EQ(choose(3, Pipelined{2, 2}, Pipelined{2, 1}).strategy, Strategy::o3);
  EXPECT_EQ(choose(3, Pipelined{2, 3}, Pipelined{2, 3}).strategy, Strategy::o1);
}

// Returns the choice for `tokens` tokens in 4 chunks (Fig. 14). `more_of_o2` and `more_of_o3` are seconds that are
// added to the times of Table 8 for each chunk.
Strategy choice_at(int64_t tokens, double more_of_o2, double more_of_o3) {
  const double volume = table_8_volume * static_cast<double>(tokens) / 8192;
  const Network network = table_8();
  const Chunk whole = chunk(volume, network, 1), quarter = chunk(volume, network, 4);
  return choose(seconds(Strategy::o1, whole, 1), Pipelined{4, seconds(Strategy::o2, quarter, 4) + 4 * more_of_o2},
                Pipelined{4, seconds(Strategy::o3, quarter, 4) + 4 * more_of_o3})
      .strategy;
}

// True if the choices agree with section 4: O1 up to 16K tokens, O2 from 32K to 128K, O3 at 256K.
bool chooses_as_the_paper(double more_of_o2, double more_of_o3) {
  for (int64_t tokens = 4096; tokens <= 262144; tokens *= 2) {
    const Strategy paper = tokens <= 16384 ? Strategy::o1 : tokens <= 131072 ? Strategy::o2 : Strategy::o3;
    if (choice_at(tokens, more_of_o2, more_of_o3) != paper) return false;
  }
  return true;
}

TEST(Monta, PrintedEfficienciesDoNotGiveThePapersChoice) {
  EXPECT_EQ(choice_at(4096, 0, 0), Strategy::o1);
  for (int64_t tokens = 8192; tokens <= 262144; tokens *= 2)  // the paper chose O1 at 8K, where Table 8 is exact
    EXPECT_EQ(choice_at(tokens, 0, 0), Strategy::o3) << tokens;
}

// docs/reports/monta.md states these bounds.
TEST(Monta, FixedCostOfAChunkGivesThePapersChoice) {
  EXPECT_TRUE(chooses_as_the_paper(0.201e-3, 0.9e-3));
  EXPECT_FALSE(chooses_as_the_paper(0.199e-3, 0.9e-3));
  EXPECT_TRUE(chooses_as_the_paper(0.43e-3, 1.2e-3));
  EXPECT_FALSE(chooses_as_the_paper(0.434e-3, 1.2e-3));
  EXPECT_TRUE(chooses_as_the_paper(0.3e-3, 0.901e-3));
  EXPECT_FALSE(chooses_as_the_paper(0.3e-3, 0.899e-3));
  EXPECT_TRUE(chooses_as_the_paper(0.3e-3, 1.499e-3));
  EXPECT_FALSE(chooses_as_the_paper(0.3e-3, 1.501e-3));
}

TEST(Monta, Equation3NeedsTopK) {
  // "256 M" at 8K x 8192 in bf16 means two assignments per token. M is 2^20 here, but 1e6 in the latencies.
  EXPECT_EQ(all_to_all_volume(1, 8192, 8192, 2, 2), 256.0 * (1 << 20));
}

TEST(Monta, EffectiveBandwidthMatchesTheBaseline) {
  // The baseline's effective bandwidth is B1 times its efficiency.
  EXPECT_NEAR(effective_bandwidth(256e6, 16, 8, baseline(256e6, table_8()).seconds), 25e9 * 0.741, 25e9 * rounding);
}

TEST(Monta, AllToAllFrom22To10PercentShortensTheStepBy13) {
  // Section 4: the share falls from 22% to 10%, and the step gets 13% shorter.
  const Step step{.seconds = 1, .count = 10, .tokens = 1000, .flops = 4e9, .peak_flops = 1e10};
  const StepEstimate before = estimate(step, 0.022, 0.022), after = estimate(step, 0.022, 0.022 * 0.394);
  EXPECT_NEAR(before.all_to_all_share, 0.22, rounding);
  EXPECT_NEAR(after.all_to_all_share, 0.10, 0.001);
  EXPECT_NEAR(after.seconds, 0.87, 0.005);
  EXPECT_NEAR(after.tokens_per_second, 1000 / after.seconds, 1e4 * rounding);
  EXPECT_NEAR(before.mfu, 0.4, rounding);
}

TEST(Monta, StateBytesMatchTable3) {
  const Shards shards{.p = 2, .t = 4, .e = 8, .d = 16, .d_experts = 2};
  const double rest[] = {16, 4 + 12.0 / 16, 2 + 14.0 / 16, 16.0 / 16};
  const double experts[] = {16, 4 + 12.0 / 2, 2 + 14.0 / 2, 16.0 / 2};
  for (int zero = 0; zero <= 3; ++zero) {
    const StateBytes bytes = state_bytes(7, 40, shards, zero);
    EXPECT_DOUBLE_EQ(bytes.non_moe, rest[zero] * 7 / (2 * 4)) << zero;
    EXPECT_DOUBLE_EQ(bytes.moe, experts[zero] * 40 / (2 * 4 * 8)) << zero;
  }
}

TEST(Monta, F32GradientsMake18BytesPerParameter) {
  const double kept[] = {18, 6 + 12.0 / 4, 2 + 16.0 / 4, 18.0 / 4};
  for (int zero = 0; zero <= 3; ++zero)
    EXPECT_DOUBLE_EQ(state_bytes(1, 0, {.d = 4}, zero, f32_gradients).non_moe, kept[zero]) << zero;
}

TEST(Monta, ActivationBytesMatchTable4) {
  const Activations m{.b = 2, .s = 1024, .h = 512, .l = 6, .a = 8, .k = 2, .t = 4, .e = 8};
  const double one = 2.0 * 1024 * 512 * 6, scores = 5.0 * 8 * 1024 / 512;
  const ActivationBytes a = activation_bytes(m);
  EXPECT_DOUBLE_EQ(a.none, one * (13 + 42 + scores));
  EXPECT_DOUBLE_EQ(a.pp_tp_ep, one * (5 + 10.0 / 8 + (8 + 32.0 / 8) / 4 + scores));
  EXPECT_DOUBLE_EQ(a.with_sp, one * ((13 + 42.0 / 8) / 4 + scores));
  EXPECT_DOUBLE_EQ(a.selective, one * (13 + 42.0 / 8) / 4);
  EXPECT_DOUBLE_EQ(a.full, 2 * one / 4);
}

TEST(Monta, CorrectedActivationBytesCountOwnTokensOfEveryRank) {
  const Activations m{.b = 2, .s = 1024, .h = 512, .l = 6, .a = 8, .k = 2, .t = 4, .e = 8};
  const double one = 2.0 * 1024 * 512 * 6, scores = 5.0 * 8 * 1024 / 512;
  // Every rank of an expert group has its own tokens. A rank gets k assignments per token on average, and the busiest
  // rank gets 1.5 * k.
  const ActivationBytes a = corrected_activation_bytes(m, 1.5);
  EXPECT_DOUBLE_EQ(a.with_sp, one * ((13 + 21 * 3.0) / 4 + scores / 4));
  EXPECT_DOUBLE_EQ(a.selective, one * (13 + 21 * 3.0) / 4);
  Activations blockwise = m;
  blockwise.a = 0;
  EXPECT_DOUBLE_EQ(corrected_activation_bytes(blockwise, 1.5).with_sp, a.selective);
}

}  // namespace
}  // namespace hexad::plan::monta
