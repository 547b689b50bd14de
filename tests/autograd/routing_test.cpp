// Router op: choice of experts and their weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

using Inputs = const std::vector<Value>&;

struct Case {
  std::string name;
  RouterRule rule;
  int64_t experts;
  bool bias = false, forced = false;
  Zeros zeros = Zeros::mistrusted;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ChooseExperts : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t tokens = 4;

  // Returns logits with well separated scores, so that no finite difference changes the choice.
  static Tensor logits(Lab& lab) {
    const int64_t experts = GetParam().experts;
    std::vector<double> values;
    for (int64_t i = 0; i < tokens * experts; ++i) {
      const int64_t token = i / experts, expert = i % experts;
      values.push_back(0.3 * static_cast<double>((expert * 11 + token * 3) % experts) - 1);
    }
    return lab.values(values, {tokens, experts});
  }
  static Tensor bias(Lab& lab) {
    if (!GetParam().bias) return {};
    std::vector<double> values(GetParam().experts);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 0.4 : -0.01 * static_cast<double>(i);
    return lab.values(values);
  }
  static Tensor forced(Lab& lab) {
    if (!GetParam().forced) return {};
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t k = 0; k < GetParam().rule.top_k; ++k)
        ids.push_back(static_cast<int32_t>((t + 2 * k + 1) % GetParam().experts));
    return lab.values(ids, {tokens, GetParam().rule.top_k});
  }
};

TEST_P(ChooseExperts, GradientsOfScoresAndWeightsMatchFiniteDifferences) {
  Lab lab;
  const Tensor b = bias(lab), f = forced(lab);
  gradcheck(lab, {logits(lab)}, [&](Tape& t, Inputs x) {
    const RouterChoice c = choose_experts(t, x[0], b, GetParam().rule, f);
    return std::vector<Value>{c.scores, c.weights};
  });
}

TEST_P(ChooseExperts, GradientsOfWeightsAloneMatchFiniteDifferences) {
  Lab lab;
  const Tensor b = bias(lab), f = forced(lab);
  gradcheck(lab, {logits(lab)},
            [&](Tape& t, Inputs x) { return choose_experts(t, x[0], b, GetParam().rule, f).weights; },
            {.zeros = GetParam().zeros});
}

TEST_P(ChooseExperts, GradientsOfScoresAloneMatchFiniteDifferences) {
  Lab lab;
  const Tensor b = bias(lab), f = forced(lab);
  gradcheck(lab, {logits(lab)},
            [&](Tape& t, Inputs x) { return choose_experts(t, x[0], b, GetParam().rule, f).scores; });
}

// The bias changes only the choice.
TEST_P(ChooseExperts, WeightsAreTheChosenScoresWithoutTheBias) {
  Lab lab;
  const RouterRule& rule = GetParam().rule;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const RouterChoice c = choose_experts(tape, tape.leaf(logits(lab)), bias(lab), rule, forced(lab));
  if (GetParam().forced) expect_bitwise(forced(lab), c.ids);
  const auto ids = c.ids.to_vector<int32_t>();
  const auto scores = values_of(c.scores.data), weights = values_of(c.weights.data);
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t t = 0; t < tokens; ++t) {
    double sum = 0;
    std::set<int32_t> distinct;
    for (int64_t k = 0; k < rule.top_k; ++k) {
      const int32_t id = ids[at(t * rule.top_k + k)];
      ASSERT_TRUE(id >= 0 && id < GetParam().experts) << "token " << t << " slot " << k << ": expert " << id;
      distinct.insert(id);
      sum += scores[at(t * GetParam().experts + id)];
    }
    EXPECT_EQ(static_cast<int64_t>(distinct.size()), rule.top_k) << "token " << t;
    for (int64_t k = 0; k < rule.top_k; ++k) {
      const int32_t id = ids[at(t * rule.top_k + k)];
      const double score = scores[at(t * GetParam().experts + id)];
      EXPECT_NEAR(weights[at(t * rule.top_k + k)],
                  score * rule.scale / (rule.normalize ? std::max(sum, rule.normalize_floor) : 1),
                  tolerance(Dtype::f64, GetParam().experts))
          << "token " << t << " slot " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ChooseExperts,
    testing::Values(Case{"softmax", {}, 6}, Case{"softmax_raw", {.top_k = 3, .normalize = false, .scale = 2.5}, 6},
                    // The weights are not normalised, because a weight that is normalised over one expert is one for
                    // all logits.
                    Case{"softmax_top_1_raw", {.top_k = 1, .normalize = false}, 5},
                    Case{"softmax_above_the_floor", {.top_k = 2, .normalize_floor = 0.4}, 6},
                    Case{"softmax_below_the_floor", {.top_k = 2, .normalize_floor = 0.7, .scale = 2.5}, 6},
                    Case{"forced_floor", {.top_k = 2, .normalize_floor = 0.37}, 6, false, true},
                    Case{"softmax_all", {.top_k = 4}, 4},
                    Case{"sigmoid", {.score = RouterScore::sigmoid, .scale = 2.5}, 5, false, false, Zeros::expected},
                    Case{"sigmoid_raw",
                         {.score = RouterScore::sigmoid, .top_k = 2, .normalize = false},
                         5,
                         false,
                         false,
                         Zeros::expected},
                    Case{"bias", {.score = RouterScore::sigmoid, .top_k = 2}, 7, true, false, Zeros::expected},
                    Case{"softmax_bias", {.top_k = 2}, 7, true},
                    Case{"groups_by_best",
                         {.score = RouterScore::sigmoid,
                          .top_k = 2,
                          .groups = 4,
                          .top_groups = 2,
                          .group_score = RouterGroupScore::best},
                         8,
                         true,
                         false,
                         Zeros::expected},
                    Case{"groups",
                         {.score = RouterScore::sigmoid, .top_k = 2, .groups = 4, .top_groups = 2},
                         8,
                         true,
                         false,
                         Zeros::expected},
                    Case{"forced", {.top_k = 2}, 6, false, true},
                    Case{"forced_raw_sigmoid",
                         {.score = RouterScore::sigmoid, .top_k = 2, .normalize = false},
                         6,
                         true,
                         true,
                         Zeros::expected}),
    [](const auto& test) { return test.param.name; });

RouterChoice choose(Lab& lab, const Tensor& logits, const RouterRule& rule, const Tensor& forced = {}) {
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  return choose_experts(tape, {logits, -1}, {}, rule, forced);
}

// Equal scores have a defined order.
TEST(Router, TiesGoToTheLowerIndex) {
  Lab lab;
  for (RouterScore score : {RouterScore::softmax, RouterScore::sigmoid}) {
    const Tensor logits = lab.values<double>({1, 1, 1, 1, 0, 2, 2, 0}, {2, 4});
    EXPECT_EQ(choose(lab, logits, {.score = score, .top_k = 3}).ids.to_vector<int32_t>(),
              (std::vector<int32_t>{0, 1, 2, 1, 2, 0}));
  }
}

TEST(Router, TiedGroupsGoToTheLowerIndex) {
  Lab lab;
  const Tensor logits = lab.values<double>(std::vector<double>(6, 0.5), {1, 6});
  EXPECT_EQ(choose(lab, logits, {.top_k = 2, .groups = 3, .top_groups = 2}).ids.to_vector<int32_t>(),
            (std::vector<int32_t>{0, 1}));
}

TEST(Router, NaNLogitsAreChosenLastAndIndicesStayInRange) {
  Lab lab;
  const double nan = std::nan("");
  const Tensor one = lab.values<double>({nan, 1, 0.5, nan}, {1, 4});
  EXPECT_EQ(choose(lab, one, {.score = RouterScore::sigmoid, .top_k = 3}).ids.to_vector<int32_t>(),
            (std::vector<int32_t>{1, 2, 0}));
  const Tensor all = lab.values<double>(std::vector<double>(8, nan), {2, 4});
  for (RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    for (int64_t groups : {1, 2}) {
      const RouterRule rule{.score = score, .top_k = 2, .groups = groups, .top_groups = 1};
      EXPECT_EQ(choose(lab, all, rule).ids.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 0, 1}));
    }
}

TEST(Router, InfiniteLogitsAreChosenFirst) {
  Lab lab;
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor logits = lab.values<double>({-inf, 0, inf, 1}, {1, 4});
  const auto ids = choose(lab, logits, {.score = RouterScore::sigmoid, .top_k = 4}).ids.to_vector<int32_t>();
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 3, 1, 0}));
}

// The true gradient of x / x is zero. Only rounding remains.
TEST(Router, NormalisedOverOneExpertPassesNoGradient) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value logits = tape.leaf(lab.randn({3, 4}));
  const Value weights = choose_experts(tape, logits, {}, {.top_k = 1}, {}).weights;
  Replay replay(tape, std::vector<Replay::Root>{{weights, lab.randn(weights.shape())}});
  replay.run();
  for (double g : values_of(replay.take_gradient(logits))) EXPECT_NEAR(g, 0, 16 * tolerance(Dtype::f64, 4));
}

// Returns logits of four tokens. The comments name the logits that are near a token's largest logit at the threshold
// 0.24. The first comment also names the logit near the second largest logit. The steps of the finite differences do
// not change which logits are near.
Tensor mixer_logits(Lab& lab) {
  return lab.values<double>({1,   0.9,  0.5,  -0.2, 0.7,    // near 1: 0.9; then near 0.9: 0.7
                             -1,  -1.1, -3,   -1.4, -1.2,   // below zero: near -1: -1.1 and -1.2
                             0.1, 2,    -2,   1.9,  1.7,    // near 2: 1.9 and 1.7
                             0.5, -0.6, 0.42, 3,    0.47},  // nothing is near 3
                            {4, 5});
}

TEST(SparseMixer, WeightsAreSharesOfTheExpertsNearTheBest) {
  Lab lab;
  const Tensor logits = mixer_logits(lab);
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  const Tensor ids = lab.values<int32_t>({0, 1, 0, 1, 1, 3, 3, 0}, {4, 2});
  const std::vector<double> weights = values_of(sparse_mixer_weights(tape, {logits}, ids, 0.24).data);
  const auto share = [](double own, std::initializer_list<double> others) {
    double sum = std::exp(own);
    for (const double x : others) sum += std::exp(x);
    return std::exp(own) / sum;
  };
  const std::vector<double> expected{share(1, {0.9}),
                                     share(0.9, {0.7}),
                                     share(-1, {-1.1, -1.2}),
                                     share(-1.1, {-1.2, -1.4}),
                                     share(2, {1.9, 1.7}),
                                     share(1.9, {1.7}),
                                     1,
                                     share(0.5, {0.42, 0.47})};
  ASSERT_EQ(weights.size(), expected.size());
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[i], tolerance(Dtype::f64, 5)) << i;
}

TEST(SparseMixer, GradientsMatchFiniteDifferences) {
  Lab lab;
  for (const std::vector<int32_t>& ids :
       {std::vector<int32_t>{0, 1, 0, 1, 1, 3, 3, 0}, std::vector<int32_t>{2, 0, 3, 1, 4, 1, 0, 2}}) {
    const Tensor chosen = lab.values<int32_t>(ids, {4, 2});
    gradcheck(lab, {mixer_logits(lab)}, [&](Tape& t, Inputs x) { return sparse_mixer_weights(t, x[0], chosen, 0.24); },
              {.zeros = Zeros::expected});
  }
}

TEST(ExpertChoice, WeightsAreTheScoresOfTheChosenExperts) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy, Tape::Mode::forget);
  const Tensor scores = lab.values<double>({0.1, 0.2, 0.7, 0.5, 0.3, 0.2}, {2, 3});
  const Tensor ids = lab.values<int32_t>({2, 0, 1, -1}, {2, 2});
  EXPECT_EQ(values_of(chosen_scores(tape, {scores}, ids).data), (std::vector<double>{0.7, 0.1, 0.3, 0}));
}

TEST(ExpertChoice, GradientsMatchFiniteDifferences) {
  Lab lab;
  // The tokens have two experts, one expert and no expert.
  const Tensor ids = lab.values<int32_t>({3, 0, 2, -1, -1, -1}, {3, 2});
  gradcheck(lab, {lab.randn({3, 5})},
            [&](Tape& t, Inputs x) {
              const RouterChoice choice = choose_experts(t, x[0], {}, {.top_k = 2, .normalize = false}, {});
              return chosen_scores(t, choice.scores, ids);
            },
            {.zeros = Zeros::expected});
}

TEST(Router, ErrorsNameTheRule) {
  Lab lab;
  if (!lab.context.on_host()) GTEST_SKIP() << "kernels of a device report errors later";
  const auto message = [&](Tensor logits, const RouterRule& rule, const Tensor& forced = {}) -> std::string {
    try {
      choose(lab, logits, rule, forced);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  const Tensor logits = lab.randn({2, 6});
  EXPECT_EQ(message(logits, {.top_k = 7}), "[router] top_k is 7; expected 1 to 6");
  EXPECT_EQ(message(logits, {.top_k = 0}), "[router] top_k is 0; expected 1 to 6");
  EXPECT_EQ(message(lab.randn({2, 6}, Dtype::bf16), {}),
            "[router] logits are bf16; expected the accumulator dtype, f32");
  EXPECT_EQ(message(logits, {.top_k = 3, .groups = 3, .top_groups = 1}),
            "[router] cannot choose 3 of 6 experts from 1 of 3 groups; expected at least 1 chosen expert, from 1 "
            "to 3 chosen groups, groups of equal size, and enough experts in the chosen groups");
  EXPECT_EQ(message(logits, {.top_k = 2}, lab.values<int32_t>({1, 2})), "[router] forced ids are [2]; expected [2, 2]");
}

}  // namespace
}  // namespace hexad::tests
