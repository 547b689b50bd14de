// Advice of the papers' algorithms at given rates.
#include "tools/plan/advisers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace hexad::plan {
namespace {

using moe::ChunkBy;
using moe::Duplicates;
using moe::MoeSchedule;
using moe::Overlap;
using schedule::Rates;
using schedule::TaskKind;
using schedule::TimeCurve;

// Returns a curve with a point for each power of four from 1 KiB to 1 GiB.
TimeCurve sampled(double latency, double per_second) {
  TimeCurve curve;
  for (double size = 1024; size <= 1 << 30; size *= 4) curve.points.push_back({size, latency + size / per_second});
  return curve;
}

// Returns products of groups of 1, 2 and 4 experts with `flops` FLOP/s. Each kernel call takes `call` seconds more.
GroupedProducts grouped(double call, double flops = 1e11) {
  GroupedProducts products;
  for (const int64_t experts : {1, 2, 4}) {
    TimeCurve curve;
    for (double rows = 16; rows <= 65536; rows *= 4)
      curve.points.push_back({rows, call + 2 * rows * 512 * 1024 / flops});
    products.add(experts, std::move(curve));
  }
  return products;
}

// Returns a layer with groups of 4 ep ranks and of 2 tp ranks. The layer's experts are not split.
AdvisedLayer layer() {
  return {.sequences = 4,
          .tokens = 1024,
          .hidden = 512,
          .expert_hidden = 1024,
          .experts = 16,
          .top_k = 2,
          .local_experts = 4,
          .ep = {"ep", 4, true},
          .tp = {"tp", 2, false},
          .ep_etp = {"experts", 4, true},
          .grouped = grouped(1e-6)};
}

// Returns rates of products, copies and links. The links of ep and experts are between nodes, and the link of tp is
// inside a node.
Rates rates(const TimeCurve& between_nodes, const TimeCurve& inside, double flops = 1e11) {
  Rates r;
  r.compute.fill(sampled(1e-6, flops));
  r.copy = sampled(1e-6, 1e10);
  r.links = {{TaskKind::all_to_all, "ep", 4, true, between_nodes},
             {TaskKind::all_to_all, "experts", 4, true, between_nodes},
             {TaskKind::all_gather, "tp", 2, false, inside}};
  return r;
}

MoeSchedule advised(const AdvisedLayer& l, const Rates& r, std::string_view adviser, const MoeSchedule& usual = {}) {
  for (const Advice& a : advice(l, r, usual, {moe::ReuseStrategy::none}))
    if (a.adviser == adviser) {
      EXPECT_TRUE(a.schedule) << adviser << ": " << a.silence;
      return a.schedule.value_or(MoeSchedule{});
    }
  ADD_FAILURE() << "there is no adviser " << adviser;
  return {};
}

TEST(Advisers, AreAskedInAFixedOrder) {
  std::vector<std::string_view> names;
  for (const Advice& a : advice(layer(), rates(sampled(1e-5, 1e9), sampled(1e-6, 1e10)), {}, {}))
    names.push_back(a.adviser);
  EXPECT_EQ(names, (std::vector<std::string_view>{"MoNTA", "Parm", "EPS-MoE", "MPMoE"}));
}

TEST(Advisers, MontaPipelinesLargeExchangesAndNotSmallOnes) {
  const MoeSchedule large = advised(layer(), rates(sampled(1e-6, 1e9), sampled(1e-6, 2e9)), "MoNTA");
  EXPECT_EQ(large.duplicates, Duplicates::drop);
  EXPECT_EQ(large.overlap, Overlap::a2a_allgather) << "the all-to-all takes longer than all-gather and copy together";
  EXPECT_GT(large.chunks, 2);
  const MoeSchedule even = advised(layer(), rates(sampled(1e-6, 1e9), sampled(1e-6, 1.4e9)), "MoNTA");
  EXPECT_EQ(even.overlap, Overlap::a2a_allgather_copy) << "all-gather and copy together would take longest";
  const MoeSchedule costly = advised(layer(), rates(sampled(1, 1e9), sampled(1e-6, 2e9)), "MoNTA");
  EXPECT_EQ(costly.overlap, Overlap::sequential) << "a latency of 1 s costs more than a second chunk gains";
  EXPECT_EQ(costly.chunks, 1);
}

TEST(Advisers, MontaChoosesTheChunksOfItsOwnAlgorithm) {
  const TimeCurve exchange = sampled(1e-4, 1e9), gather = sampled(1e-4, 2e9);
  const MoeSchedule s = advised(layer(), rates(exchange, gather), "MoNTA");
  // Computes MoNTA's times without efficiencies: a collective takes its latency plus its sent bytes divided by the
  // rate.
  const double volume = 4.0 * 1024 * 512 * 2 * 4;
  const auto seconds = [&](int64_t n) {
    const double x = volume / static_cast<double>(n);
    const double aa = exchange.seconds(x / 2 * 3 / 4), ag = gather.seconds(x / 2),
                 copy = sampled(1e-6, 1e10).seconds(x);
    return aa + ag + copy + static_cast<double>(n - 1) * std::max({aa, ag, copy});
  };
  int64_t best = 1;
  for (int64_t n = 2; n <= 16; ++n)
    if (seconds(n) < seconds(best)) best = n;
  ASSERT_GT(best, 1);
  EXPECT_EQ(s.chunks, best);
}

// Under `rows: token`, a rank gets one row of a token, even if several of the token's experts are on this rank. Some
// advisers price only all-to-alls. Their advice equals the advice for rows of slots on a link that is proportionally
// faster.
TEST(Advisers, CountTheRowsThatAreSent) {
  AdvisedLayer l = layer();
  l.top_k = 8;
  const double rows = 4 * (1 - (8.0 * 7 * 6 * 5) / (16.0 * 15 * 14 * 13));  // ranks with an expert of the token
  MoeSchedule token;
  token.rows = ep::RowOf::token;
  const auto advised_chunks = [&](const char* adviser, double latency, const MoeSchedule& usual, double faster) {
    TimeCurve exchange = sampled(latency, 2e8);
    for (TimeCurve::Point& p : exchange.points) p.size *= faster;
    return advised(l, rates(exchange, sampled(1e-6, 1e10)), adviser, usual).chunks;
  };
  for (const char* adviser : {"EPS-MoE", "MPMoE"}) {
    bool differs = false;
    for (double latency = 1e-6; latency < 1; latency *= 2) {
      const int64_t of_token = advised_chunks(adviser, latency, token, 1);
      EXPECT_EQ(of_token, advised_chunks(adviser, latency, {}, l.top_k / rows)) << adviser << ", latency " << latency;
      differs |= of_token != advised_chunks(adviser, latency, {}, 1);
    }
    EXPECT_TRUE(differs) << adviser << " must count fewer rows";
  }
}

TEST(Advisers, ParmChoosesByTheGatheredVolume) {
  // S1 gathers a token once. S2 gathers each of its top_k results, but concurrently with the all-to-all.
  const MoeSchedule fast_gather = advised(layer(), rates(sampled(1e-5, 1e8), sampled(1e-6, 1e11)), "Parm");
  const MoeSchedule slow_gather = advised(layer(), rates(sampled(1e-6, 1e11), sampled(1e-5, 1e8)), "Parm");
  EXPECT_EQ(slow_gather.duplicates, Duplicates::pause_before_gate);
  EXPECT_EQ(slow_gather.chunks, 1);
  EXPECT_EQ(fast_gather.duplicates, Duplicates::pause_after_gate);
  EXPECT_EQ(fast_gather.overlap, Overlap::a2a_allgather);
  EXPECT_EQ(fast_gather.chunks, 4) << "a phase for each rank of the all-to-all";
}

TEST(Advisers, ParmCountsACapacityAboveOneOnlyWithPadding) {
  // Both collectives send 1 GB/s. A rank's rows take the time A in the all-to-all. The rank's tokens take G = 2/3 * A
  // in the gather. For f = 1 (no padding), S1 takes 2 * A + G, and S2 takes A + 2 * G + A / 4. For f = 2, all of these
  // times double, except the time G of S1.
  AdvisedLayer l = layer();
  l.capacity_factor = 2;
  const Rates even = rates(sampled(1e-6, 1e9), sampled(1e-6, 1e9));
  EXPECT_EQ(advised(l, even, "Parm").duplicates, Duplicates::pause_after_gate);
  MoeSchedule padded;
  padded.capacity_padding = moe::CapacityPadding::full;
  EXPECT_EQ(advised(l, even, "Parm", padded).duplicates, Duplicates::pause_before_gate);
}

TEST(Advisers, EpsDividesExpertsOnlyWithinItsConditions) {
  const MoeSchedule cheap = advised(layer(), rates(sampled(1e-6, 1e9), sampled(1e-6, 1e10)), "EPS-MoE");
  EXPECT_EQ(cheap.chunk_by, ChunkBy::experts);
  EXPECT_EQ(cheap.chunks, 4) << "with hardly any overhead, every expert is a group";
  const MoeSchedule costly = advised(layer(), rates(sampled(0.1, 1e9), sampled(1e-6, 1e10)), "EPS-MoE");
  EXPECT_EQ(costly.chunk_by, ChunkBy::none);
}

// The products take 2 * 4096 * 512 * 1024 / 1e11 s = 43 ms in all. A call of 0.5 ms makes two groups 1% slower, and
// four groups 3.4%, which is above the paper's limit e1. A call of 2 ms also makes two groups too slow.
TEST(Advisers, EpsKeepsExpertsTogetherWhereProductsOfSmallGroupsAreSlow) {
  AdvisedLayer l = layer();
  const Rates r = rates(sampled(1e-6, 1e9), sampled(1e-6, 1e10));
  l.grouped = grouped(5e-4);
  EXPECT_EQ(advised(l, r, "EPS-MoE").chunks, 2);
  l.grouped = grouped(2e-3);
  EXPECT_EQ(advised(l, r, "EPS-MoE").chunk_by, ChunkBy::none);
}

// The share of the latency in the all-to-all, L / (L + X), is 0.115. Four groups would gain most. However, their
// communication would take longer by a fraction of 3 * 0.115, which is above the paper's limit e0. For two groups, the
// fraction is 0.115.
TEST(Advisers, EpsChoosesAmongTheGroupsThatMeetItsConditions) {
  const double sent = 4.0 * 1024 * 512 * 2 * 4 / 2 * 3 / 4, X = sent / 1e9, L = 0.115 / (1 - 0.115) * X;
  const MoeSchedule s = advised(layer(), rates(sampled(L, 1e9), sampled(1e-6, 1e10)), "EPS-MoE");
  EXPECT_EQ(s.chunk_by, ChunkBy::experts);
  EXPECT_EQ(s.chunks, 2);
}

TEST(Advisers, MpmoePipelinesIfCommunicationAndProductsAreBalanced) {
  const MoeSchedule s = advised(layer(), rates(sampled(1e-5, 1e9), sampled(1e-6, 1e10)), "MPMoE");
  EXPECT_EQ(s.chunk_by, ChunkBy::tokens);
  EXPECT_GE(s.chunks, 2);
  const MoeSchedule latency = advised(layer(), rates(sampled(1, 1e9), sampled(1e-6, 1e10)), "MPMoE");
  EXPECT_EQ(latency.chunk_by, ChunkBy::none);
  EXPECT_EQ(latency.chunks, 1);
}

TEST(Advisers, AreSilentWithoutTheirCurvesOrTheirParallelism) {
  Rates r = rates(sampled(1e-5, 1e9), sampled(1e-6, 1e10));
  r.links.pop_back();
  r.other_links = {sampled(1e-5, 1e9), sampled(1e-5, 1e9)};  // assumed links are ignored
  const auto without_gather = advice(layer(), r, {}, {moe::ReuseStrategy::none});
  EXPECT_EQ(without_gather[0].silence,
            "the profile has no all_gather of group tp (2 ranks); hexad profile measures it");
  EXPECT_EQ(without_gather[1].silence, without_gather[0].silence);
  EXPECT_TRUE(without_gather[2].schedule && without_gather[3].schedule) << "they need only the all-to-all";
  AdvisedLayer unmeasured = layer();
  unmeasured.grouped = {};
  EXPECT_EQ(advice(unmeasured, r, {}, {moe::ReuseStrategy::none})[2].silence,
            "numbers of experts with products in the profile: 0, where dense_products count as one expert; expected at "
            "least 2; hexad profile measures both");
  AdvisedLayer alone = layer();
  alone.ep.ranks = alone.tp.ranks = alone.ep_etp.ranks = 1;
  for (const Advice& a : advice(alone, r, {}, {moe::ReuseStrategy::none})) {
    EXPECT_FALSE(a.schedule) << a.adviser;
    EXPECT_NE(a.silence.find("needs "), std::string::npos) << a.adviser << ": " << a.silence;
    EXPECT_FALSE(a.keys.empty()) << a.adviser << " must list its keys, which are the same on ranks with other rates";
  }
}

TEST(Advice, AgreesIfTheKeysOfItsPaperAreEqual) {
  Advice advice{.adviser = "Parm", .keys = {"duplicates"}, .schedule = MoeSchedule{}};
  MoeSchedule chosen;
  chosen.chunk_by = ChunkBy::tokens, chosen.chunks = 4;
  EXPECT_TRUE(advice.agrees_with(chosen)) << "the advice decides only duplicates";
  chosen.duplicates = Duplicates::drop;
  EXPECT_FALSE(advice.agrees_with(chosen));
  advice.schedule.reset();
  EXPECT_FALSE(advice.agrees_with(chosen));
}

}  // namespace
}  // namespace hexad::plan
