// Compares AdamW and SGD with formulas written in double, and tests moments in bf16 and main weights stored as rests.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "framework/base/block_sizes.h"
#include "optim/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

using optim::OptimConfig;
using optim::Optimizer;

// AdamW for one element: Loshchilov & Hutter 2019, algorithm 2.
struct Adamw {
  double w, m = 0, v = 0;
  void step(const OptimConfig& c, double lr, double gradient, double decay, int64_t t) {
    m = c.beta1 * m + (1 - c.beta1) * gradient;
    v = c.beta2 * v + (1 - c.beta2) * gradient * gradient;
    const double m_hat = m / (1 - std::pow(c.beta1, static_cast<double>(t)));
    const double v_hat = v / (1 - std::pow(c.beta2, static_cast<double>(t)));
    w -= lr * (m_hat / (std::sqrt(v_hat) + c.eps) + decay * w);
  }
};

Parameter& add(Lab& lab, const std::string& name, Dtype dtype, bool decay) {
  Parameter& p = lab.parameters.add({.name = name,
                                     .global_shape = {5, 7},
                                     .placement = {},
                                     .dtype = dtype,
                                     .init = {Init::Kind::normal, 1.0},
                                     .decay = decay});
  p.initialize(Lab::default_seed);
  return p;
}

void give(Lab& lab, Parameter& p) {
  p.clear_gradient();
  const Tensor g = lab.randn(p.local().shape(), accumulator_dtype(p.local().dtype()));
  kernels::kernels(lab.context).pointwise.copy(lab.stream(), p.gradient_to_add(lab.stream()), g);
}

Tensor state(const Optimizer& optimizer, const Parameter& p, std::string_view kind) {
  for (const auto& s : optimizer.states())
    if (s.parameter == &p && s.kind == kind) return s.tensor;
  ADD_FAILURE() << "the optimizer has no state " << kind << " of " << p.name();
  return {};
}

class AdamwIn : public testing::TestWithParam<Dtype> {};

TEST_P(AdamwIn, EqualsTheFormulaOverFiveStepsWithAndWithoutDecay) {
  Lab lab;
  OptimConfig config;
  config.weight_decay = 0.3, config.eps = 1e-3;
  Parameter &matrix = add(lab, "matrix", GetParam(), true), &gain = add(lab, "gain", GetParam(), false);
  Optimizer optimizer(config, lab.parameters);
  std::vector<std::vector<Adamw>> oracle;
  for (Parameter* p : {&matrix, &gain}) {
    oracle.emplace_back();
    for (double w : values_of(p->local())) oracle.back().push_back({w});
  }
  const double scale = 0.25;  // scale of clipped gradients
  for (int64_t t = 1; t <= 5; ++t) {
    const double lr = 0.1 / static_cast<double>(t);
    for (size_t i = 0; i < 2; ++i) {
      Parameter& p = i == 0 ? matrix : gain;
      give(lab, p);
      const auto gradient = values_of(p.gradient());
      for (size_t e = 0; e < gradient.size(); ++e)
        oracle[i][e].step(config, lr, scale * gradient[e], i == 0 ? config.weight_decay : 0.0, t);
    }
    optimizer.step(lab.stream(), lr, lab.values<double>({scale}), t);
  }
  for (size_t i = 0; i < 2; ++i) {
    Parameter& p = i == 0 ? matrix : gain;
    std::vector<double> main, m, v;
    for (const Adamw& a : oracle[i]) main.push_back(a.w), m.push_back(a.m), v.push_back(a.v);
    const auto expect = [&](const std::vector<double>& want, const Tensor& got, Dtype rounded) {
      const auto values = values_of(got);
      for (size_t e = 0; e < want.size(); ++e)
        EXPECT_NEAR(values[e], want[e], 8 * tolerance(rounded, 5) * std::max(1.0, std::abs(want[e]))) << p.name();
    };
    const Dtype acc = accumulator_dtype(GetParam());
    expect(main, state(optimizer, p, "main"), acc);
    expect(m, state(optimizer, p, "moment1"), acc);
    expect(v, state(optimizer, p, "moment2"), acc);
    expect(main, p.local(), GetParam());
  }
}
INSTANTIATE_TEST_SUITE_P(, AdamwIn, testing::Values(Dtype::f64, Dtype::f32, Dtype::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(Optimizer, KeepsMainWeightsOnlyIfTheModelIsRounded) {
  Lab lab;
  Parameter &rounded = add(lab, "rounded", Dtype::bf16, true), &exact = add(lab, "exact", Dtype::f32, true);
  const Optimizer optimizer({}, lab.parameters);
  EXPECT_NE(state(optimizer, rounded, "main").storage(), rounded.local().storage());
  EXPECT_EQ(state(optimizer, rounded, "main").dtype(), Dtype::f32);
  EXPECT_EQ(state(optimizer, exact, "main").storage(), exact.local().storage());
}

// Updates that are too small for bf16 weights still add up in the main weights.
TEST(Optimizer, SmallStepsAreNotLostInBf16) {
  Lab lab;
  Parameter& p = add(lab, "p", Dtype::bf16, false);
  OptimConfig config;
  config.name = "sgd";
  Optimizer optimizer(config, lab.parameters);
  const Tensor before = copy_of(state(optimizer, p, "main"));
  p.clear_gradient();
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), p.gradient_to_add(lab.stream()), 1.0);
  for (int64_t t = 1; t <= 1000; ++t) optimizer.step(lab.stream(), 1e-5, {}, t);
  const auto was = values_of(before), is = values_of(state(optimizer, p, "main"));
  for (size_t e = 0; e < was.size(); ++e) EXPECT_NEAR(is[e], was[e] - 0.01, 1000 * 0x1p-23 * (1 + std::abs(was[e])));
  const auto model = values_of(p.local());
  for (size_t e = 0; e < was.size(); ++e) EXPECT_EQ(model[e], static_cast<double>(bf16(static_cast<float>(is[e]))));
}

TEST(Optimizer, MissingGradientCountsAsZero) {
  Lab lab;
  Parameter& p = add(lab, "p", Dtype::f64, true);
  OptimConfig config;
  config.weight_decay = 0.5;
  Optimizer optimizer(config, lab.parameters);
  const auto before = values_of(p.local());
  optimizer.step(lab.stream(), 0.1, {}, 1);
  const auto after = values_of(p.local());
  for (size_t e = 0; e < before.size(); ++e) EXPECT_DOUBLE_EQ(after[e], before[e] * (1 - 0.1 * 0.5));
  expect_zeros(state(optimizer, p, "moment1"));
}

TEST(Optimizer, NegativeFactorSkipsTheStep) {
  for (const std::string kind : {"adamw", "sgd"}) {
    Lab lab;
    Parameter& p = add(lab, "p", Dtype::bf16, true);
    OptimConfig config;
    config.name = kind, config.weight_decay = 0.5;
    Optimizer optimizer(config, lab.parameters);
    give(lab, p);
    const Tensor weights = copy_of(p.local()), main = copy_of(state(optimizer, p, "main"));
    optimizer.step(lab.stream(), 0.5, lab.values<double>({-1}), 1);
    expect_bitwise(weights, p.local());
    expect_bitwise(main, state(optimizer, p, "main"));
    if (kind == "adamw") expect_zeros(state(optimizer, p, "moment1"));
  }
}

OptimConfig with_bf16_moments() {
  OptimConfig config;
  config.moment_dtype = optim::MomentDtype::bf16;
  return config;
}

// Main weights and moments of a rank's part of a parameter.
struct Trained {
  std::vector<double> main, m, v;
  bool operator==(const Trained&) const = default;
};
// Trains a parameter "p" of shape [6, 8] for three steps. Every call uses the same initial weights and gradients.
// `placement` and `share` determine which part of the parameter this rank owns. Returns the results of this part.
Trained trained(const OptimConfig& config, const Placement& placement = {}, FlatRange share = {}) {
  Lab lab;
  const Shape whole{6, 8};
  Parameter& p = lab.parameters.add({.name = "p",
                                     .global_shape = whole,
                                     .placement = placement,
                                     .dtype = Dtype::bf16,
                                     .init = {Init::Kind::normal, 1.0}});
  p.initialize(Lab::default_seed);
  if (!share.empty()) p.shard({.share = share, .owns_share_only = true});
  Optimizer optimizer(config, lab.parameters);
  const auto [begin, size] = p.region();
  for (int64_t t = 1; t <= 3; ++t) {
    const Tensor g = lab.randn(whole, Dtype::f32);
    p.clear_gradient();
    kernels::kernels(lab.context)
        .pointwise.copy(lab.stream(), p.gradient_to_add(lab.stream()),
                        g.slice(0, begin[0], begin[0] + size[0]).slice(1, begin[1], begin[1] + size[1]));
    optimizer.step(lab.stream(), 0.1, {}, t);
  }
  const auto values = [&](std::string_view kind) { return values_of(state(optimizer, p, kind)); };
  EXPECT_EQ(state(optimizer, p, "main").dtype(), Dtype::f32);
  EXPECT_EQ(state(optimizer, p, "moment1").dtype(), config.state_dtype(Dtype::f32));
  EXPECT_EQ(state(optimizer, p, "moment2").dtype(), config.state_dtype(Dtype::f32));
  return {values("main"), values("moment1"), values("moment2")};
}

TEST(Bf16Moments, EqualF32MomentsUpToRounding) {
  const Trained exact = trained({}), rounded = trained(with_bf16_moments());
  EXPECT_NE(rounded, exact);
  constexpr double step = 0x1p-7;  // largest relative distance of neighbouring bf16 numbers
  const auto near = [&](const std::vector<double>& want, const std::vector<double>& got, double allowed) {
    double largest = 0;
    for (const double w : want) largest = std::max(largest, std::abs(w));
    for (size_t e = 0; e < want.size(); ++e) EXPECT_NEAR(got[e], want[e], allowed * largest) << e;
  };
  near(exact.m, rounded.m, 3 * step);
  near(exact.v, rounded.v, 3 * step);
  for (size_t e = 0; e < exact.main.size(); ++e) EXPECT_NEAR(rounded.main[e], exact.main[e], 0.1 * 0.1) << e;
}

TEST(Bf16Moments, DependOnTheSeed) {
  OptimConfig config = with_bf16_moments();
  const Trained one = trained(config);
  EXPECT_EQ(trained(config), one);
  config.seed = 2;
  EXPECT_NE(trained(config), one);
}

// Elements of a rank's part are bitwise identical to the same elements of the whole parameter.
TEST(Bf16Moments, AreBitwiseIdenticalInPartsOfAParameter) {
  const Trained whole = trained(with_bf16_moments());
  const auto expect_part = [&](const Trained& part, const Placement& placement, FlatRange range) {
    const auto [begin, size] = placement.region({6, 8});
    Trained want;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t index = (begin[0] + i / size[1]) * 8 + begin[1] + i % size[1];
      want.main.push_back(whole.main[index]);
      want.m.push_back(whole.m[index]);
      want.v.push_back(whole.v[index]);
    }
    EXPECT_EQ(part, want);
  };
  for (const FlatRange share : {FlatRange{0, 17}, FlatRange{17, 48}}) {
    SCOPED_TRACE(share.begin);
    expect_part(trained(with_bf16_moments(), {}, share), {}, share);
  }
  for (const int dim : {0, 1})
    for (const int index : {0, 1}) {
      SCOPED_TRACE(cat("dimension ", dim, ", piece ", index));
      const Placement placement{.shards = {{Axis::tp, dim, 2, index}}};
      expect_part(trained(with_bf16_moments(), placement), placement, {0, 24});
      expect_part(trained(with_bf16_moments(), placement, {5, 18}), placement, {5, 18});
    }
}

// The states have more elements than are in memory at a time.
TEST(Bf16Moments, AreBitwiseIdenticalWhenOffloaded) {
  EXPECT_GT(1100 * 1000, base::BlockSizes{}.optimizer_elements);
  const auto result = [](optim::StateOffload offload) {
    Lab lab;
    Parameter& p = lab.parameters.add({.name = "p",
                                       .global_shape = {1100, 1000},
                                       .placement = {},
                                       .dtype = Dtype::bf16,
                                       .init = {Init::Kind::normal, 1.0}});
    p.initialize(Lab::default_seed);
    Optimizer optimizer(with_bf16_moments(), lab.parameters, offload);
    for (int64_t t = 1; t <= 2; ++t) {
      give(lab, p);
      optimizer.step(lab.stream(), 0.1, {}, t);
    }
    return std::pair(values_of(state(optimizer, p, "moment1")), values_of(state(optimizer, p, "moment2")));
  };
  EXPECT_TRUE(result(optim::StateOffload::file) == result(optim::StateOffload::none));
}

OptimConfig with_rests() {
  OptimConfig config;
  config.main_weights = optim::MainWeights::rest;
  return config;
}

std::vector<double> stored_values(const Optimizer& optimizer, const Parameter& p, std::string_view kind) {
  for (const auto& s : optimizer.states())
    if (s.parameter == &p && s.kind == kind) return values_of(s.values());
  ADD_FAILURE() << "the optimizer has no state " << kind << " of " << p.name();
  return {};
}

// The states have more elements than are in memory at a time.
TEST(RestsOfMainWeights, GiveBitwiseTheMainWeightsAndMomentsOfF32EvenWhenOffloaded) {
  EXPECT_GT(1100 * 1000, base::BlockSizes{}.optimizer_elements);
  const auto result = [](const OptimConfig& config, optim::StateOffload offload) {
    Lab lab;
    Parameter& p = lab.parameters.add({.name = "p",
                                       .global_shape = {1100, 1000},
                                       .placement = {},
                                       .dtype = Dtype::bf16,
                                       .init = {Init::Kind::normal, 1.0}});
    p.initialize(Lab::default_seed);
    Optimizer optimizer(config, lab.parameters, offload);
    for (int64_t t = 1; t <= 3; ++t) {
      give(lab, p);
      optimizer.step(lab.stream(), 0.001, {}, t);
    }
    std::vector<std::vector<double>> all{values_of(p.local())};
    for (const char* kind : {"main", "moment1", "moment2"}) all.push_back(stored_values(optimizer, p, kind));
    return all;
  };
  const auto exact = result({}, optim::StateOffload::none);
  EXPECT_TRUE(exact == result(with_rests(), optim::StateOffload::none));
  EXPECT_TRUE(exact == result(with_rests(), optim::StateOffload::file));
}

TEST(RestsOfMainWeights, LoadMainWeightsAndMomentsInAnyOrder) {
  const float tie_up = 1.01171875f, tie_down = 1.00390625f;  // halfway between bf16 numbers: 0x3f818000, 0x3f808000
  for (const bool main_first : {true, false}) {
    Lab lab;
    Parameter& p = add(lab, "p", Dtype::bf16, true);
    Optimizer optimizer(with_rests(), lab.parameters);
    const std::vector<float> mains{tie_up, tie_down, -tie_up, -tie_down, 1.2345f, 0.0f, 3.0f};
    const auto load = [&](std::string_view kind, const std::function<float(int64_t)>& value) {
      for (const auto& s : optimizer.states())
        if (s.kind == kind)
          s.load([&](const Tensor& target) {
            std::vector<float> values(target.numel());
            for (int64_t i = 0; i < target.numel(); ++i) values[i] = value(i);
            const Device device = target.device();
            kernels::kernels(device).pointwise.copy(device.context().compute(), target,
                                                    Tensor::from<float>(values, target.shape(), device));
          });
    };
    const auto main = [&](int64_t i) { return mains[i % 7]; };
    const auto moment = [](int64_t i) { return static_cast<float>(i % 5) / 4; };
    for (const bool of_main : {main_first, !main_first}) of_main ? load("main", main) : load("moment2", moment);
    const auto got_main = stored_values(optimizer, p, "main"), got_moment = stored_values(optimizer, p, "moment2"),
               weights = values_of(p.local());
    for (size_t i = 0; i < got_main.size(); ++i) {
      EXPECT_EQ(got_main[i], static_cast<double>(main(static_cast<int64_t>(i))));
      EXPECT_EQ(got_moment[i], static_cast<double>(moment(static_cast<int64_t>(i))));
      EXPECT_EQ(weights[i], static_cast<double>(bf16(main(static_cast<int64_t>(i)))));
    }
  }
}

// Initial weights from another model are read in part: new rows of a vocabulary keep their initial values.
TEST(RestsOfMainWeights, KeepElementsThatAreNotRead) {
  for (const std::string_view kind : {"main", "moment2"}) {
    SCOPED_TRACE(kind);
    Lab lab;
    Parameter& p = add(lab, "p", Dtype::bf16, true);
    Optimizer optimizer(with_rests(), lab.parameters);
    give(lab, p);
    optimizer.step(lab.stream(), 0.1, {}, 1);
    std::map<std::string, std::vector<double>> expected;
    for (const char* of : {"main", "moment1", "moment2"}) expected[of] = stored_values(optimizer, p, of);
    constexpr float tie_up = 1.01171875f;  // 0x3f818000
    for (const auto& s : optimizer.states())
      if (s.kind == kind)
        s.load([&](const Tensor& target) {
          const Device device = target.device();
          kernels::kernels(device).pointwise.fill(device.context().compute(), target.slice(0, 3, 4), tie_up);
        });
    expected[std::string(kind)][3] = static_cast<double>(tie_up);
    for (const auto& [of, values] : expected) EXPECT_EQ(stored_values(optimizer, p, of), values) << of;
  }
}

TEST(Optimizer, SgdMovesAgainstTheScaledGradientAndHasNoState) {
  Lab lab;
  Parameter& p = add(lab, "p", Dtype::f64, true);
  OptimConfig config;
  config.name = "sgd", config.weight_decay = 0.5;
  Optimizer optimizer(config, lab.parameters);
  EXPECT_EQ(optimizer.states().size(), 1u);
  give(lab, p);
  const auto before = values_of(p.local()), gradient = values_of(p.gradient());
  optimizer.step(lab.stream(), 0.5, lab.values<double>({0.25}), 1);
  const auto after = values_of(p.local());
  for (size_t e = 0; e < before.size(); ++e) EXPECT_DOUBLE_EQ(after[e], before[e] - 0.125 * gradient[e]);
}

TEST(Optimizer, LoadedMainWeightsAreRoundedIntoTheModel) {
  Lab lab;
  Parameter& p = add(lab, "p", Dtype::bf16, true);
  Optimizer optimizer({}, lab.parameters);
  kernels::kernels(lab.context).pointwise.fill(lab.stream(), state(optimizer, p, "main"), 1.2345);
  optimizer.main_changed(lab.stream());
  for (double w : values_of(p.local())) EXPECT_EQ(w, static_cast<double>(bf16(1.2345f)));
}

}  // namespace
}  // namespace hexad::tests
