// Update rules that a program registers.
#include "optim/update_rule.h"

#include <gtest/gtest.h>

#include "framework/base/block_sizes.h"
#include "optim/elementwise.h"
#include "optim/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using namespace optim;

// Rule with two states. The results would change if the states were exchanged.
class Averaged final : public UpdateRule {
 public:
  std::vector<std::string> states() const override { return {"sum", "steps"}; }
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const override {
    elementwise<2>(stream, slices, step, [lr = step.lr](double& w, double g, auto& states, double decay) {
      states[0] += g, states[1] += 1;
      w -= lr * (states[0] / states[1] + decay * w);
    });
  }
};

// Rule that sets all elements of matrices to 2, and all other weights to 3.
class TwosAndThrees final : public MatrixRule {
 public:
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep&) const override {
    for (const Slice& s : slices) kernels::kernels(s.main.device()).pointwise.fill(stream, s.main, 3);
  }
  bool takes_matrices(const Parameter::Spec& spec) const override { return spec.global_shape.rank() == 2; }
  void update_matrices(Stream& stream, const Slice& slice, const MatrixStep&, const dp::WholeMatrices&) const override {
    kernels::kernels(slice.main.device()).pointwise.fill(stream, slice.main, 2);
  }
};

UpdateRules with_averaged() {
  UpdateRules rules;
  rules.add("averaged", {.make = [](const RuleSpec&) { return std::make_unique<Averaged>(); }});
  return rules;
}

OptimConfig averaged() {
  OptimConfig config;
  config.name = "averaged", config.weight_decay = 0.25;
  return config;
}

Parameter& add(Lab& lab, Dtype dtype, const Shape& shape = {5, 7}) {
  Parameter& p = lab.parameters.add(
      {.name = "p", .global_shape = shape, .placement = {}, .dtype = dtype, .init = {Init::Kind::normal, 1.0}});
  p.initialize(Lab::default_seed);
  return p;
}

void give(Lab& lab, Parameter& p) {
  p.clear_gradient();
  const Tensor g = lab.randn(p.local().shape(), accumulator_dtype(p.local().dtype()));
  kernels::kernels(lab.context).pointwise.copy(lab.stream(), p.gradient_to_add(lab.stream()), g);
}

Tensor state(const Optimizer& optimizer, std::string_view kind) {
  for (const auto& s : optimizer.states())
    if (s.kind == kind) return s.tensor;
  ADD_FAILURE() << "the optimizer has no state " << kind;
  return {};
}

class ElementwiseRule : public testing::TestWithParam<Dtype> {};

TEST_P(ElementwiseRule, EqualsItsFormulaAndKeepsItsStates) {
  Lab lab;
  Parameter& p = add(lab, GetParam());
  Optimizer optimizer(averaged(), lab.parameters, StateOffload::none, with_averaged());
  std::vector<double> w = values_of(p.local()), sum(w.size(), 0);
  const double factor = 0.5, lr = 0.1;
  for (int64_t t = 1; t <= 3; ++t) {
    give(lab, p);
    const auto g = values_of(p.gradient());
    for (size_t e = 0; e < w.size(); ++e) {
      sum[e] += factor * g[e];
      w[e] -= lr * (sum[e] / static_cast<double>(t) + 0.25 * w[e]);
    }
    optimizer.step(lab.stream(), lr, lab.values<double>({factor}), t);
  }
  const Dtype acc = accumulator_dtype(GetParam());
  const auto near = [&](const std::vector<double>& want, const Tensor& got, Dtype rounded) {
    const auto values = values_of(got);
    for (size_t e = 0; e < want.size(); ++e)
      EXPECT_NEAR(values[e], want[e], 8 * tolerance(rounded, 3) * std::max(1.0, std::abs(want[e])));
  };
  near(w, state(optimizer, "main"), acc);
  near(sum, state(optimizer, "sum"), acc);
  near(std::vector<double>(w.size(), 3), state(optimizer, "steps"), acc);
  near(w, p.local(), GetParam());
}
INSTANTIATE_TEST_SUITE_P(, ElementwiseRule, testing::Values(Dtype::f64, Dtype::f32, Dtype::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(UpdateRules, SkippedStepWritesNothing) {
  Lab lab;
  Parameter& p = add(lab, Dtype::bf16);
  Optimizer optimizer(averaged(), lab.parameters, StateOffload::none, with_averaged());
  const Tensor weights = copy_of(p.local()), main = copy_of(state(optimizer, "main"));
  give(lab, p);
  optimizer.step(lab.stream(), 0.1, lab.values<double>({-1}), 1);
  expect_bitwise(weights, p.local());
  expect_bitwise(main, state(optimizer, "main"));
  expect_zeros(state(optimizer, "sum"));
}

// The states have more elements than are in memory at a time.
TEST(UpdateRules, OffloadedStatesAreBitwiseIdentical) {
  EXPECT_GT(1100 * 1000, base::BlockSizes{}.optimizer_elements);
  const auto trained = [](StateOffload offload) {
    Lab lab;
    Parameter& p = add(lab, Dtype::bf16, {1100, 1000});
    Optimizer optimizer(averaged(), lab.parameters, offload, with_averaged());
    for (int64_t t = 1; t <= 2; ++t) {
      give(lab, p);
      optimizer.step(lab.stream(), 0.1, {}, t);
    }
    return std::pair(values_of(p.local()), values_of(state(optimizer, "sum")));
  };
  EXPECT_EQ(trained(StateOffload::file), trained(StateOffload::none));
}

TEST(UpdateRules, IllegalStateNamesAreRefused) {
  class Named final : public UpdateRule {
   public:
    explicit Named(std::vector<std::string> names) : names_(std::move(names)) {}
    std::vector<std::string> states() const override { return names_; }
    void update(Stream&, std::span<const Slice>, const UpdateStep&) const override {}

   private:
    std::vector<std::string> names_;
  };
  const auto refusal = [](std::vector<std::string> names) -> std::string {
    UpdateRules rules;
    rules.add("named", {.make = [=](const RuleSpec&) { return std::make_unique<Named>(names); }});
    OptimConfig config;
    config.name = "named";
    try {
      rules.make(config);
    } catch (const base::Error& e) {
      return e.what();
    }
    return {};
  };
  EXPECT_EQ(refusal({"velocity", "v2"}), "");
  EXPECT_EQ(refusal({"main"}),
            "optim.name (named): 'main' is not a legal name of a state: expected letters, digits and underscores, but "
            "not main, "
            "parameter or state");
  EXPECT_NE(refusal({"a/b"}).find("'a/b' is not a legal name of a state"), std::string::npos);
  EXPECT_EQ(refusal({"v", "m", "v"}), "optim.name (named): two states have the name v; expected unique names");
}

TEST(UpdateRules, Bf16StatesAreRefusedForRulesThatIgnoreTheDtype) {
  for (const std::string name : {"averaged", "sgd"}) {
    OptimConfig config = averaged();
    config.name = name, config.moment_dtype = MomentDtype::bf16;
    try {
      with_averaged().make(config);
      ADD_FAILURE() << "moments in bf16 were accepted for the optimizer " << name << "; expected an error";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.what(), cat("optim.moment_dtype (bf16) must be f32 for the optimizer ", name,
                              ", whose states are never in bf16"));
    }
  }
}

// The registration promises support for bf16, but the rule calls elementwise().
TEST(UpdateRules, ElementwiseRefusesStatesAndMainWeightsInBf16) {
  const auto refusal = [](MomentDtype moments, MainWeights main) -> std::string {
    Lab lab;
    Parameter& p = add(lab, Dtype::bf16);
    UpdateRules rules;
    rules.add("averaged", {.reads_moment_dtype = true, .marked_state = "steps", .make = [](const RuleSpec&) {
                             return std::make_unique<Averaged>();
                           }});
    OptimConfig config = averaged();
    config.moment_dtype = moments, config.main_weights = main;
    Optimizer optimizer(config, lab.parameters, StateOffload::none, rules);
    give(lab, p);
    try {
      optimizer.step(lab.stream(), 0.1, {}, 1);
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return e.what();
    }
    return {};
  };
  EXPECT_EQ(refusal(MomentDtype::f32, MainWeights::f32), "");
  EXPECT_EQ(refusal(MomentDtype::bf16, MainWeights::f32),
            "optim.moment_dtype (bf16) must be f32 for a rule that calls elementwise(), which does not read states in "
            "bf16; remove reads_moment_dtype from the registration of the rule");
  EXPECT_EQ(refusal(MomentDtype::f32, MainWeights::rest),
            "optim.main_weights (rest) must be f32 for a rule that calls elementwise(), which does not read rests; "
            "remove marked_state from the registration of the rule");
}

TEST(UpdateRules, RegisteredMatrixRuleUpdatesTheMatricesThatItTakes) {
  Lab lab;
  Parameter& matrix = add(lab, Dtype::f32);
  Parameter& vector =
      lab.parameters.add({.name = "v", .global_shape = {4}, .placement = {}, .init = {Init::Kind::constant, 1.0}});
  vector.initialize(Lab::default_seed);
  UpdateRules rules;
  rules.add("averaged", {.make = [](const RuleSpec&) { return std::make_unique<TwosAndThrees>(); }});
  Optimizer optimizer(averaged(), lab.parameters, StateOffload::none, rules);
  give(lab, matrix), give(lab, vector);
  optimizer.step(lab.stream(), 0.1, {}, 1);
  EXPECT_EQ(values_of(matrix.local()), std::vector<double>(35, 2));
  EXPECT_EQ(values_of(vector.local()), std::vector<double>(4, 3));
}

TEST(UpdateRules, ElementwiseRefusesASliceWithTooFewStates) {
  class Partial final : public UpdateRule {
   public:
    std::vector<std::string> states() const override { return {"sum", "steps"}; }
    std::vector<std::string> states_of(const Parameter::Spec&) const override { return {"sum"}; }
    void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const override {
      elementwise<2>(stream, slices, step, [](double&, double g, auto& states, double) { states[1] += g; });
    }
  };
  Lab lab;
  Parameter& p = add(lab, Dtype::f32);
  UpdateRules rules;
  rules.add("averaged", {.make = [](const RuleSpec&) { return std::make_unique<Partial>(); }});
  Optimizer optimizer(averaged(), lab.parameters, StateOffload::none, rules);
  give(lab, p);
  try {
    optimizer.step(lab.stream(), 0.1, {}, 1);
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[optimizer] elementwise() updates 2 states, but a slice has 1; expected at least 2 "
                 "(UpdateRule::states_of)");
  }
}

TEST(UpdateRules, OverlapIsRefusedForRulesThatDoNotOnlyLaunchKernels) {
  const auto refusal = [](const std::string& name) -> std::string {
    OptimConfig config = averaged();
    config.name = name, config.overlap = true;
    try {
      with_averaged().make(config);
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return e.what();
    }
    return {};
  };
  EXPECT_EQ(refusal("averaged"),
            "optim.overlap (true) must be false for the optimizer averaged, whose updates do not only launch kernels "
            "(UpdateRule::only_launches_kernels)");
  EXPECT_EQ(refusal("muon"),
            "optim.overlap (true) must be false for the optimizer muon, whose updates of matrices need the host and "
            "other ranks");
  EXPECT_EQ(refusal("adamw"), "");
  EXPECT_EQ(refusal("sgd"), "");
}

TEST(UpdateRules, RestsAreRefusedForRulesWithoutAMarkedState) {
  const auto refusal = [](const UpdateRules& rules, const std::string& name) -> std::string {
    OptimConfig config = averaged();
    config.name = name, config.main_weights = MainWeights::rest;
    try {
      rules.make(config);
    } catch (const base::Error& e) {
      return e.what();
    }
    return {};
  };
  for (const std::string name : {"averaged", "sgd"})
    EXPECT_EQ(refusal(with_averaged(), name), cat("optim.main_weights (rest) must be f32 for the optimizer ", name,
                                                  ", which cannot update main weights stored as rests"));
  UpdateRules rules;
  rules.add("wrong", {.marked_state = "step", .make = [](const RuleSpec&) { return std::make_unique<Averaged>(); }});
  EXPECT_EQ(refusal(rules, "wrong"),
            "optim.name (wrong): marked_state is 'step', which is not a state of the rule; expected one of its states: "
            "steps, sum");
  EXPECT_EQ(refusal(rules, "adamw"), "");
}

}  // namespace
}  // namespace hexad::tests
