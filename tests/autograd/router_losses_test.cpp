#include <gtest/gtest.h>

#include <cmath>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

using Inputs = const std::vector<Value>&;

struct Segments {
  std::string name;
  std::vector<int32_t> segment;
  int64_t scopes;
  Zeros zeros = Zeros::mistrusted;
};
void PrintTo(const Segments& s, std::ostream* out) { *out << s.name; }

class RouterLosses : public testing::TestWithParam<Segments> {
 protected:
  static constexpr int64_t experts = 4;
  int64_t tokens() const { return static_cast<int64_t>(GetParam().segment.size()); }
  // Returns positive values, like real scores.
  Tensor scores() {
    Tensor t = lab.randn({tokens(), experts});
    change<double>(t, [](std::span<double> values) {
      for (double& v : values) v = std::exp(v);
    });
    return t;
  }
  Lab lab;
};

TEST_P(RouterLosses, LoadBalancingGradientsMatchFiniteDifferences) {
  const Tensor segment = lab.values(GetParam().segment), fractions = lab.randn({GetParam().scopes, experts});
  gradcheck(lab, {scores()}, [&](Tape& t, Inputs x) { return load_balancing_loss(t, x[0], segment, fractions); },
            {.zeros = GetParam().zeros});
}

TEST_P(RouterLosses, LoadBalancingThroughTheRouterMatchesFiniteDifferences) {
  const Tensor segment = lab.values(GetParam().segment), fractions = lab.randn({GetParam().scopes, experts});
  for (RouterScore score : {RouterScore::softmax, RouterScore::sigmoid})
    gradcheck(lab, {lab.randn({tokens(), experts})},
              [&](Tape& t, Inputs x) {
                return load_balancing_loss(t, choose_experts(t, x[0], {}, {.score = score}, {}).scores, segment,
                                           fractions);
              },
              {.zeros = GetParam().zeros});
}

TEST_P(RouterLosses, ZLossGradientsMatchFiniteDifferences) {
  const Tensor segment = lab.values(GetParam().segment);
  gradcheck(lab, {lab.randn({tokens(), experts})}, [&](Tape& t, Inputs x) { return router_z_loss(t, x[0], segment); },
            {.zeros = GetParam().zeros});
}

TEST_P(RouterLosses, GradientsOfWeightedLossesMatchFiniteDifferences) {
  const Tensor segment = lab.values(GetParam().segment), fractions = lab.randn({GetParam().scopes, experts});
  gradcheck(lab, {scores(), lab.randn({tokens(), experts})},
            [&](Tape& t, Inputs x) {
              return std::vector<Value>{load_balancing_loss(t, x[0], segment, fractions, {}, {.weight = -3}),
                                        router_z_loss(t, x[1], segment, {}, {.weight = 0.25})};
            },
            {.zeros = GetParam().zeros});
}

// Loss and gradients do not depend on the contents of padding rows, even if these are NaN.
TEST_P(RouterLosses, PaddingHasNoEffect) {
  const Tensor segment = lab.values(GetParam().segment), fractions = lab.randn({GetParam().scopes, experts});
  const Tensor clean = scores(), dirty = copy_of(clean);
  change<double>(dirty, [&](std::span<double> values) {
    for (size_t t = 0; t < GetParam().segment.size(); ++t)
      if (GetParam().segment[t] < 0) std::ranges::fill(values.subspan(t * experts, experts), std::nan(""));
  });
  const auto run = [&](const Tensor& in, auto&& loss) {
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    const Value x = tape.leaf(in), l = loss(tape, x);
    Replay replay(tape, std::vector<Replay::Root>{{l, lab.values<double>({1.5})}});
    replay.run();
    return std::pair(l.data, replay.take_gradient(x));
  };
  const auto balance = [&](Tape& t, const Value& x) { return load_balancing_loss(t, x, segment, fractions); };
  const auto z = [&](Tape& t, const Value& x) { return router_z_loss(t, x, segment); };
  expect_bitwise(run(clean, balance).first, run(dirty, balance).first);
  expect_bitwise(run(clean, balance).second, run(dirty, balance).second, Zeros::expected);
  expect_bitwise(run(clean, z).first, run(dirty, z).first);
  expect_bitwise(run(clean, z).second, run(dirty, z).second, Zeros::expected);
}

INSTANTIATE_TEST_SUITE_P(
    Segments, RouterLosses,
    testing::Values(Segments{"one_scope", {0, 0, 0}, 1}, Segments{"two_scopes", {0, 0, 1, 1, 1}, 2},
                    Segments{"mixed_scopes", {1, 0, 1, 2}, 3}, Segments{"padding", {0, -1, 0, 1, -1}, 2},
                    Segments{"an_empty_scope", {0, 0, 2}, 3}, Segments{"only_padding", {-1, -1}, 1, Zeros::expected},
                    Segments{"one_token", {0}, 1}),
    [](const auto& test) { return test.param.name; });

double value(const Value& v) { return values_of(v.data)[0]; }

TEST(LoadBalancingLoss, IsOneIfBalancedAndTheNumberOfExpertsIfCollapsed) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Tensor segment = lab.values<int32_t>({0, 0});
  const Value even = tape.leaf(lab.values<double>(std::vector<double>(8, 0.25), {2, 4}));
  EXPECT_DOUBLE_EQ(
      value(load_balancing_loss(tape, even, segment, lab.values<double>({0.25, 0.25, 0.25, 0.25}, {1, 4}))), 1);
  const Value all_to_one = tape.leaf(lab.values<double>({1, 0, 0, 0, 1, 0, 0, 0}, {2, 4}));
  EXPECT_DOUBLE_EQ(value(load_balancing_loss(tape, all_to_one, segment, lab.values<double>({1, 0, 0, 0}, {1, 4}))), 4);
}

TEST(LoadBalancingLoss, NormalisesSigmoidScoresByToken) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Tensor segment = lab.values<int32_t>({0}), fractions = lab.values<double>({0.7, 0.3}, {1, 2});
  const double once =
      value(load_balancing_loss(tape, tape.leaf(lab.values<double>({0.2, 0.6}, {1, 2})), segment, fractions));
  const double thrice =
      value(load_balancing_loss(tape, tape.leaf(lab.values<double>({0.3, 0.9}, {1, 2})), segment, fractions));
  EXPECT_NEAR(once, 2 * (0.7 * 0.25 + 0.3 * 0.75), tolerance(Dtype::f64, 2));
  EXPECT_NEAR(once, thrice, tolerance(Dtype::f64, 2));
}

TEST(LoadBalancingLoss, IsTheMeanOfTheLossesOfItsScopes) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Tensor fractions = lab.randn({2, 3});
  Tensor scores = lab.randn({5, 3});
  change<double>(scores, [](std::span<double> values) {
    for (double& v : values) v = std::abs(v);
  });
  const double both =
      value(load_balancing_loss(tape, tape.leaf(scores), lab.values<int32_t>({0, 0, 1, 1, 1}), fractions));
  const double first = value(load_balancing_loss(tape, tape.leaf(scores.slice(0, 0, 2)), lab.values<int32_t>({0, 0}),
                                                 fractions.slice(0, 0, 1)));
  const double second = value(load_balancing_loss(tape, tape.leaf(scores.slice(0, 2, 5)),
                                                  lab.values<int32_t>({0, 0, 0}), fractions.slice(0, 1, 2)));
  EXPECT_NEAR(both, (first + second) / 2, tolerance(Dtype::f64, 15) * 10);
}

TEST(ZLoss, IsTheMeanSquareOfLogSumExpAndDoesNotOverflow) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value logits = tape.leaf(lab.values<double>({1000, 1000, 0, 0, 5, 5}, {3, 2}));
  const double got = value(router_z_loss(tape, logits, lab.values<int32_t>({0, 0, -1})));
  const double a = 1000 + std::log(2), b = std::log(2);
  EXPECT_NEAR(got, (a * a + b * b) / 2, (a * a + b * b) * tolerance(Dtype::f64, 4));
}

// The loss is part of the graph: without it, the gradient of the logits differs.
TEST(LoadBalancingLoss, ChangesTheGradientOfTheLogits) {
  Lab lab;
  const Tensor logits = lab.randn({4, 3}), dweights = lab.randn({4, 2}), segment = lab.values<int32_t>({0, 0, 0, 0});
  const Tensor fractions = lab.values<double>({0.6, 0.3, 0.1}, {1, 3});
  const auto gradient = [&](bool with_loss) {
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    const Value x = tape.leaf(logits);
    const RouterChoice c = choose_experts(tape, x, {}, {}, {});
    std::vector<Replay::Root> roots{{c.weights, dweights}};
    if (with_loss)
      roots.push_back({load_balancing_loss(tape, c.scores, segment, fractions), lab.values<double>({0.01})});
    Replay replay(tape, roots);
    replay.run();
    return values_of(replay.take_gradient(x));
  };
  const auto with = gradient(true), without = gradient(false);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_NE(with[i], without[i]) << "logit " << i;
}

TEST(LoadBalancingLoss, NaNScoreGivesANaNLoss) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value scores = tape.leaf(lab.values<double>({0.5, std::nan("")}, {1, 2}));
  EXPECT_TRUE(std::isnan(
      value(load_balancing_loss(tape, scores, lab.values<int32_t>({0}), lab.values<double>({0.5, 0.5}, {1, 2})))));
}

TEST(LoadBalancingLoss, NamesATokenOutsideEveryScope) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const auto message = [&](int32_t scope) -> std::string {
    try {
      load_balancing_loss(tape, tape.leaf(lab.randn({2, 3})), lab.values<int32_t>({0, scope}), lab.randn({2, 3}));
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(2), "[load_balancing_loss] token 1 has scope 2; expected 0 to 1, or -1 if the token is not valid");
  EXPECT_EQ(message(-2),
            "[load_balancing_loss] token 1 has scope -2; expected 0 to 1, or -1 if the token is not valid");
  EXPECT_EQ(message(-1), "no error");
}

TEST(ZLoss, NamesATokenBelowEveryScope) {
  Lab lab;
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  try {
    router_z_loss(tape, tape.leaf(lab.randn({2, 3})), lab.values<int32_t>({0, -2}));
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[router_z_loss] token 1 has scope -2; expected at least 0, or -1 if the token is not valid");
  }
}

class RouterLossErrors : public testing::Test {
 protected:
  // Returns the message of the error that call(tape) throws.
  template <class Call>
  std::string message(const Call& call) {
    const auto policy = keep_policy();
    Tape tape(lab.stream(), *policy);
    try {
      call(tape);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  }
  Lab lab;
};

TEST_F(RouterLossErrors, BalancingNeedsAScope) {
  const auto of = [&](const Tensor& segment) {
    return message([&](Tape& t) { load_balancing_loss(t, t.leaf(lab.randn({2, 3})), segment, lab.randn({0, 3})); });
  };
  EXPECT_EQ(of({}),
            "[load_balancing_loss] scores [2, 3], segment [], fractions [0, 3]; expected [T, E], [T] and [S, E] with S "
            "> 0");
  EXPECT_EQ(of(lab.values<int32_t>({-1, -1})),
            "[load_balancing_loss] scores [2, 3], segment [2], fractions [0, 3]; expected [T, E], [T] and [S, E] with "
            "S > 0");
}

TEST_F(RouterLossErrors, BalancingNeedsAScopeForEachToken) {
  for (const Shape& segment : {Shape{3}, Shape{1}, Shape{2, 0}}) {
    const Tensor scopes = lab.values(std::vector<int32_t>(segment.numel(), 0), segment);
    EXPECT_EQ(message([&](Tape& t) {
                load_balancing_loss(t, t.leaf(lab.randn({2, 3})), scopes, lab.randn({1, 3}));
              }),
              cat("[load_balancing_loss] scores [2, 3], segment ", segment,
                  ", fractions [1, 3]; expected [T, E], [T] and [S, E] with S > 0"));
  }
}

TEST_F(RouterLossErrors, ZLossNeedsAScopeForEachToken) {
  for (const Shape& segment : {Shape{3}, Shape{1}, Shape{2, 0}}) {
    const Tensor scopes = lab.values(std::vector<int32_t>(segment.numel(), 0), segment);
    for (const std::optional<int64_t> valid : {std::optional<int64_t>(), std::optional<int64_t>(2)})
      EXPECT_EQ(message([&](Tape& t) {
                  router_z_loss(t, t.leaf(lab.randn({2, 3})), scopes, valid);
                }),
                cat("[router_z_loss] logits [2, 3], segment ", segment, "; expected [T, E] with E > 0, and [T]"));
  }
}

TEST_F(RouterLossErrors, ZLossNeedsAnExpert) {
  EXPECT_EQ(message([&](Tape& t) {
              router_z_loss(t, t.leaf(lab.randn({2, 0})), {});
            }),
            "[router_z_loss] logits [2, 0], segment []; expected [T, E] with E > 0, and [T]");
}

}  // namespace
}  // namespace hexad::tests
