// Edge cases of inputs of routers and their losses, for each kernel table of the test program.
#include "tests/kernels/edge.h"

namespace hexad::tests {

using namespace kernels;
namespace {

class RouterEdge : public EdgeTest {
 protected:
  struct Routed {
    std::vector<int32_t> ids;
    std::vector<float> weights, scores;
  };
  Routed route(const std::vector<float>& logits, const RouterRule& rule, const std::vector<float>& bias = {}) {
    const auto experts = static_cast<int64_t>(logits.size());
    const Tensor scores = empty({1, experts}), ids = empty({1, rule.top_k}, Dtype::i32),
                 weights = empty({1, rule.top_k});
    k.router.forward(stream, scores, ids, weights, tensor(logits, {1, experts}),
                     bias.empty() ? Tensor() : tensor(bias, {experts}), rule);
    return {ids.to_vector<int32_t>(), weights.to_vector<float>(), scores.to_vector<float>()};
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, RouterEdge, ::testing::ValuesIn(backends_under_test()),
                         [](const auto& p) { return p.param.name; });

TEST_P(RouterEdge, TiesGoToTheLowerIndex) {
  EXPECT_EQ(route({1, 3, 3, 3}, {.top_k = 2}).ids, (Ids{1, 2}));
  EXPECT_EQ(route({5, 5, 5, 5}, {.top_k = 4}).ids, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(route({5, 5, 5, 5, 5, 5}, {.top_k = 2, .groups = 3, .top_groups = 1}).ids, (Ids{0, 1}));
}

TEST_P(RouterEdge, NanOrInfiniteLogitsGiveIdsInRange) {
  EXPECT_EQ(route({nan, nan, nan}, {.top_k = 2}).ids, (Ids{0, 1}));
  EXPECT_EQ(route({1, nan, 2}, {.top_k = 2}).ids, (Ids{0, 1}));  // with softmax, the whole row is NaN
  EXPECT_EQ(route({-inf, -inf}, {.top_k = 1}).ids, (Ids{0}));
  EXPECT_EQ(route({inf, 1}, {.top_k = 1}).ids.front(), 0);
}

TEST_P(RouterEdge, ChoosesNanLast) {
  const RouterRule rule{.score = RouterScore::sigmoid, .top_k = 3};
  EXPECT_EQ(route({nan, -50, 1, nan}, rule).ids, (Ids{2, 1, 0}));
  const RouterRule groups{.score = RouterScore::sigmoid, .top_k = 2, .groups = 2, .top_groups = 1};
  EXPECT_EQ(route({nan, nan, -9, -8}, groups).ids, (Ids{3, 2}));
}

TEST_P(RouterEdge, BiasSelectsButDoesNotWeigh) {
  const Routed r = route({0, 0, 1}, {.score = RouterScore::sigmoid, .top_k = 1, .normalize = false}, {0, 9, 0});
  EXPECT_EQ(r.ids, (Ids{1}));
  EXPECT_FLOAT_EQ(r.weights[0], 0.5f);
}

TEST_P(RouterEdge, GroupsAreRankedByTheirTwoBest) {
  // Group {0, 1} has the best expert (0), but group {2, 3} has the largest sum of two scores.
  const RouterRule rule{.score = RouterScore::sigmoid, .top_k = 2, .groups = 3, .top_groups = 1};
  EXPECT_EQ(route({2, -9, 1, 1.5, 0, 1}, rule).ids, (Ids{3, 2}));
}

TEST_P(RouterEdge, GroupsAreRankedByTheirBestInDeviceLimitedRouting) {
  RouterRule rule{
      .score = RouterScore::sigmoid, .top_k = 2, .groups = 3, .top_groups = 1, .group_score = RouterGroupScore::best};
  EXPECT_EQ(route({2, -9, 1, 1.5, 0, 1}, rule).ids, (Ids{0, 1}));
  EXPECT_EQ(route({2, -9, 1, 1.5, 0, 1}, rule, {0, 0, 0, 1, 0, 0}).ids, (Ids{3, 2}))
      << "the bias influences the choice of the group";
  EXPECT_EQ(route({5, 1, 5, 4, 5, 4}, rule).ids, (Ids{0, 1})) << "the lower group wins a tie";
  EXPECT_EQ(route({nan, -8, nan, nan, -9, nan}, rule).ids, (Ids{1, 0}));
  rule.top_groups = 2;
  EXPECT_EQ(route({2, -9, 1, 1.5, 0, 1}, rule).ids, (Ids{0, 3}));
}

TEST_P(RouterEdge, UnderflowedScoresGiveNoNan) {
  for (float w : route({-300, -300, -300}, {.score = RouterScore::sigmoid, .top_k = 2}).weights) {
    EXPECT_GE(w, 0);
    EXPECT_LE(w, 1);
  }
}

TEST_P(RouterEdge, RefusesMoreExpertsThanItMayChooseFrom) {
  try {
    route({1, 2, 3, 4}, {.top_k = 3, .groups = 2, .top_groups = 1});
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[router] cannot choose 3 of 4 experts from 1 of 2 groups; expected at least 1 chosen expert, from 1 "
                 "to 2 chosen groups, groups of equal size, and enough experts in the chosen groups");
  }
}

TEST_P(RouterEdge, FractionsAreEqualWhenNoExpertIsChosen) {
  const Tensor f = filled({2, 4}, nan);
  k.router_loss.fractions(stream, f, tensor<int64_t>({0, 0, 0, 0, 1, 0, 3, 0}, {2, 4}));
  EXPECT_EQ(f.to_vector<float>(), (Floats{0.25, 0.25, 0.25, 0.25, 0.25, 0, 0.75, 0}));
}

TEST_P(RouterEdge, TokensWithoutScopeOrScoreHaveNoRouterLoss) {
  const Tensor scores = tensor<float>({nan, nan, 0, 0, 1, 3}, {3, 2}), fractions = tensor<float>({0.5, 0.25}, {1, 2});
  const Tensor segment = tensor<int32_t>({-1, 0, 0}, {3}), loss = filled({1}, nan), one = filled({1}, 1);
  k.router_loss.balance(stream, {loss}, scores, segment, fractions, doubles({4}), {});
  EXPECT_EQ(loss.to_vector<float>(), (Floats{1.25}));  // 4 x (1/4 x 1/2 + 3/4 x 1/4)
  const Tensor dscores = filled({3, 2}, nan);
  k.router_loss.balance_backward(stream, dscores, one, scores, segment, fractions, doubles({4}), {});
  EXPECT_EQ(dscores.to_vector<float>(), (Floats{0, 0, 0, 0, 0.1875, -0.0625}));
  const Tensor log_sum_exp = filled({3}, nan), dlogits = filled({3, 2}, nan);
  k.router_loss.z(stream, {loss}, log_sum_exp, scores, tensor<int32_t>({-1, -1, -1}, {3}), {});
  EXPECT_EQ(loss.to_vector<float>(), (Floats{0}));
  EXPECT_EQ(log_sum_exp.to_vector<float>(), (Floats{0, 0, 0}));
  k.router_loss.z_backward(stream, dlogits, one, scores, log_sum_exp, tensor<int32_t>({-1, -1, -1}, {3}), {});
  EXPECT_EQ(dlogits.to_vector<float>(), (Floats{0, 0, 0, 0, 0, 0}));
}

TEST_P(RouterEdge, LossOfNanIsNan) {
  const Tensor scores = tensor<float>({nan, 1}, {1, 2}), loss = filled({1}, 0), log_sum_exp = filled({1}, 0);
  k.router_loss.balance(stream, {loss}, scores, {}, filled({1, 2}, 1), doubles({1}), {});
  EXPECT_TRUE(std::isnan(loss.to_vector<float>()[0]));
  k.router_loss.z(stream, {loss}, log_sum_exp, scores, {}, {});
  EXPECT_TRUE(std::isnan(loss.to_vector<float>()[0]));
}

TEST_P(RouterEdge, TotalsContainTheSharesOfUnweightedLosses) {
  const Tensor scores = tensor<float>({1, 3}, {1, 2}), fractions = tensor<float>({0.5, 0.25}, {1, 2});
  const Tensor weighted = filled({1}, nan), total = doubles({100}), log_sum_exp = filled({1}, nan);
  const LossFactors factors{.scale = 8, .share = 0.25, .weight = 0.5};
  k.router_loss.balance(stream, {weighted, total}, scores, {}, fractions, {}, factors);
  EXPECT_EQ(weighted.to_vector<float>(), (Floats{0.3125}));  // 1/2 x 1/4 x 8 x (1/4 x 1/2 + 3/4 x 1/4)
  EXPECT_EQ(total.to_vector<double>(), (Doubles{100.625}));
  k.router_loss.z(stream, {weighted, total}, log_sum_exp, tensor<float>({2}, {1, 1}), {}, factors);
  EXPECT_EQ(weighted.to_vector<float>(), (Floats{4}));  // 1/2 x 1/4 x 8 x 2^2
  EXPECT_EQ(total.to_vector<double>(), (Doubles{108.625}));
}

TEST_P(RouterEdge, ShareDoesNotChangeTheGradient) {
  const Tensor scores = tensor<float>({1, 3}, {1, 2}), fractions = tensor<float>({0.5, 0.25}, {1, 2});
  const Tensor dscores = filled({1, 2}, nan), dlogits = filled({1, 1}, nan), one = filled({1}, 1);
  const LossFactors factors{.scale = 8, .share = 0.25, .weight = 0.5};
  k.router_loss.balance_backward(stream, dscores, one, scores, {}, fractions, {}, factors);
  EXPECT_EQ(dscores.to_vector<float>(), (Floats{0.1875, -0.0625}));
  k.router_loss.z_backward(stream, dlogits, one, filled({1, 1}, 2), filled({1}, 2), {}, factors);
  EXPECT_EQ(dlogits.to_vector<float>(), (Floats{16}));  // 1/2 x 8 x 2 x 2
}

}  // namespace
}  // namespace hexad::tests
