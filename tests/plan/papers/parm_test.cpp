#include "tools/plan/papers/parm.h"

#include <gtest/gtest.h>

#include "framework/base/tolerance.h"

namespace hexad::plan::parm {
namespace {

const double rounding = base::tolerance(base::Dtype::f64, 16);

/// Costs of AllGather on the 8-GPU server and on the 32-GPU cluster (section VI-B). The paper does not print the costs
/// of AlltoAll.
constexpr AlphaBeta all_gather_a{6.64e-4, 5.38e-10}, all_gather_b{1.09e-4, 7.14e-10};
constexpr AlphaBeta all_to_all{3e-4, 1.3e-9};

/// Returns a layer of Table III.
Layer table_3_layer() {
  return {.B = 4, .L = 1024, .M = 2048, .E = 8, .k = 2, .f = 1.2, .N_MP = 4, .N_EP = 8, .N_ESP = 4};
}

TEST(Parm, TokensOfAnExpertDoNotIncludeTheEmbeddingSize) {
  // Algorithm 1 prints T = k * f * B * L * M / E and then y = E * T * M * N_ESP. This y would contain M twice.
  const Layer l = table_3_layer();
  EXPECT_DOUBLE_EQ(l.T(), 2 * 1.2 * 4 * 1024 / 8);
  EXPECT_DOUBLE_EQ(l.ETM(), 2 * 1.2 * l.BLM());
}

TEST(Parm, BaselineMatchesEquation1) {
  const Layer l = table_3_layer();
  const BaselineCosts costs{.AG_ESP = {1, 0.5}, .AR_ESP = {2, 0.25}, .A2A_EP = {4, 2}};
  const Baseline t = baseline(l, costs);
  EXPECT_DOUBLE_EQ(t.AG_ESP, 1 + 0.5 * l.BLM() * 4);
  EXPECT_DOUBLE_EQ(t.AR_ESP, 2 + 0.25 * l.ETM() * 4);
  EXPECT_DOUBLE_EQ(t.A2A_EP, 4 + 2 * l.ETM() * 4);
  EXPECT_DOUBLE_EQ(t.seconds(), t.AG_ESP + t.AR_ESP + 2 * t.A2A_EP);
}

TEST(Parm, SchedulesMatchEquations11And14) {
  const Layer l = table_3_layer();
  const Costs costs{.AG_MP = all_gather_b, .A2A = all_to_all, .overlap = AlphaBeta{3.5e-4, 1.4e-9}};
  const double y = l.ETM() * 4 / 4;  // N_ESP/N_MP: the second line of equation 13 omits N_ESP
  EXPECT_DOUBLE_EQ(s1_seconds(l, costs), 2 * (3e-4 + 1.3e-9 * y) + 1.09e-4 + 7.14e-10 * l.BLM());
  EXPECT_DOUBLE_EQ(s2_seconds(l, costs), 3e-4 + 1.3e-9 * y + 3.5e-4 + 1.4e-9 * y);
  EXPECT_DOUBLE_EQ(s2_sequential_seconds(l, costs), 2 * (3e-4 + 1.3e-9 * y) + 1.09e-4 + 7.14e-10 * l.ETM());
}

TEST(Parm, BothSchedulesAreEquation2WithoutModelParallelism) {
  Layer l = table_3_layer();
  l.N_MP = 1;
  const Costs costs{.AG_MP = {}, .A2A = all_to_all, .overlap = {}};
  EXPECT_DOUBLE_EQ(s1_seconds(l, costs), 2 * all_to_all(l.ETM() * l.N_ESP));
  EXPECT_DOUBLE_EQ(s2_seconds(l, costs), s1_seconds(l, costs));
  EXPECT_EQ(choose(l, costs), Schedule::s1);
}

TEST(Parm, Algorithm1ChoosesS2ForFewTokensPerExpertAndS1ForMany) {
  // Section IV-B: as T approaches zero, t_D2 also approaches zero, but t_D1 approaches AG_MP(BLM). AG_MP(BLM) does not
  // grow with T, but AG_MP(ETM) does.
  for (const AlphaBeta& gather : {all_gather_a, all_gather_b}) {
    const Costs costs{.AG_MP = gather, .A2A = all_to_all, .overlap = {}};
    Layer l = table_3_layer();
    l.N_ESP = 1;
    l.k = 1;
    l.f = 0.01;
    EXPECT_EQ(choose(l, costs), Schedule::s2);
    l.f = 100;
    EXPECT_EQ(choose(l, costs), Schedule::s1);
  }
}

TEST(Parm, PhasesHideAllButOneSliceOfTheShorterCollective) {
  EXPECT_DOUBLE_EQ(saa_seconds(8, 4, 4), 9);
  EXPECT_DOUBLE_EQ(saa_seconds(4, 8, 4), 9);
  EXPECT_DOUBLE_EQ(saa_seconds(8, 4, 1), 12);  // with one phase, nothing overlaps
  // The price of S2 is at most the price of its operations in sequence (equation 7) if alpha_o and beta_o were not
  // measured.
  const Layer l = table_3_layer();
  const Costs costs{.AG_MP = all_gather_b, .A2A = all_to_all, .overlap = {}};
  EXPECT_DOUBLE_EQ(s2_seconds(l, costs),
                   all_to_all(l.ETM()) + saa_seconds(all_to_all(l.ETM()), all_gather_b(l.ETM()), 32));
  EXPECT_LT(s2_seconds(l, costs), s2_sequential_seconds(l, costs));
}

TEST(Parm, ClaimsOfSection4HoldForPlausibleCosts) {
  const BaselineCosts base{.AG_ESP = all_gather_b, .AR_ESP = {2.18e-4, 1.428e-9}, .A2A_EP = {2.5e-4, 1.1e-9}};
  Layer l = table_3_layer();
  const Costs costs{.AG_MP = all_gather_b, .A2A = all_to_all, .overlap = {}};
  for (const double mp : {1.0, 2.0, 4.0}) {
    l.N_MP = mp;
    const auto list = claims(l, costs, base);
    EXPECT_EQ(list.size(), mp == 1 ? 3u : 5u);
    for (const Claim& claim : list) EXPECT_TRUE(claim.holds()) << claim.text << " with N_MP = " << mp;
  }
  // The first claim fails if a fused AlltoAll is slower than the operations that it replaces.
  Costs slow = costs;
  slow.A2A = {1e-2, 1e-8};
  EXPECT_FALSE(claims(l, slow, base)[0].holds());
}

TEST(Parm, PlacementHasTheCaseOfThePaper) {
  const auto where = [](int64_t ep, int64_t esp, int64_t per_node, Inner inner) {
    return placement_case({.N_EP = ep, .N_ESP = esp, .ranks_per_node = per_node, .inner = inner});
  };
  EXPECT_EQ(where(2, 4, 8, Inner::esp), 1);
  EXPECT_EQ(where(8, 4, 4, Inner::esp), 2);
  EXPECT_EQ(where(2, 2, 2, Inner::ep), 3);  // Fig. 2: EP groups {0, 1}, {2, 3}, two GPUs per node
  EXPECT_EQ(where(4, 8, 4, Inner::ep), 3);
  EXPECT_EQ(where(4, 4, 2, Inner::esp), 4);
  EXPECT_EQ(where(4, 3, 4, Inner::esp), 4);  // the second ESP group spans two nodes
  EXPECT_EQ(where(8, 1, 4, Inner::esp), 2);
}

TEST(Parm, CollectivesLoadTheLinksOfEachCase) {
  // Case 2: ESP-AllGather uses links inside the node, EP-AlltoAll uses links between nodes, and EP&ESP-AlltoAll uses
  // links of both kinds.
  const Loads two = loads({.N_EP = 8, .N_ESP = 4, .ranks_per_node = 4, .inner = Inner::esp}, 32);
  EXPECT_EQ(two.AG_ESP.link(), "intra");
  EXPECT_EQ(two.AR_ESP.link(), "intra");
  EXPECT_EQ(two.A2A_EP.link(), "inter");
  EXPECT_EQ(two.A2A.link(), "inter");
  EXPECT_EQ(two.AG_ESP.intra, 3 * 32 / 4);
  EXPECT_EQ(two.AR_ESP.intra, 2 * two.AG_ESP.intra);
  EXPECT_EQ(two.A2A_EP.inter, 7 * 32 / 8);
  EXPECT_EQ(two.A2A.intra, 3);
  // The tensors of each of the four groups are a quarter as large as in EP-AlltoAll. Therefore, as many bytes leave the
  // node as in EP-AlltoAll.
  EXPECT_EQ(two.A2A.inter, two.A2A_EP.inter);
  // Case 3 is the reverse of case 2.
  const Loads three = loads({.N_EP = 4, .N_ESP = 8, .ranks_per_node = 4, .inner = Inner::ep}, 32);
  EXPECT_EQ(three.AG_ESP.link(), "inter");
  EXPECT_EQ(three.A2A_EP.link(), "intra");
  EXPECT_EQ(three.A2A.inter, three.AG_ESP.inter);
  // Case 1, equation 4: EP&ESP-AlltoAll omits only the GPU's own share.
  const Loads one = loads({.N_EP = 2, .N_ESP = 4, .ranks_per_node = 8, .inner = Inner::esp}, 32);
  EXPECT_EQ(one.A2A.inter, 0);
  EXPECT_EQ(one.A2A.intra, 7 * 32 / 8);
}

}  // namespace
}  // namespace hexad::plan::parm
