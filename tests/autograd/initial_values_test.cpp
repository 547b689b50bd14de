// Initial values of parameters do not depend on the layout.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "framework/autograd/parameter.h"
#include "tests/autograd/made_parameter.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/support/stack.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

TEST(Parameter, InitialValuesOfAShardAreTheSliceOfTheWhole) {
  Lab lab;
  const auto whole = made(lab, "w");
  for (int dim = 0; dim < 3; ++dim) {
    const int parts = 2;
    for (int index = 0; index < parts; ++index) {
      const auto part = made(lab, "w", Dtype::f32, {{Axis::tp, dim, parts, index}});
      const int64_t size = whole->local().dim(dim) / parts;
      expect_bitwise(whole->local().slice(dim, index * size, (index + 1) * size), part->local());
    }
  }
}

// Initial values must be the same whether gate and up projections are two parameters or one stacked parameter.
TEST(Parameter, InitialValuesOfAStackMatchItsNamedTensors) {
  Lab lab;
  constexpr int64_t experts = 3, width = 50, hidden = 100;  // large enough that values are drawn in several pieces
  const auto alone = [&](const std::string& name) {
    auto p = std::make_unique<Parameter>(spec(name, {experts, width, hidden}), lab.context);
    p->initialize(seed);
    return p;
  };
  const Tensor expected = stack_of({alone("gate")->local(), alone("up")->local()}, 1);
  const auto piece = [&](std::vector<Shard> shards) {
    Parameter::Spec s = spec("gate_up", {experts, 2, width, hidden});
    s.stack = {1, {"gate", "up"}};
    s.placement.shards = std::move(shards);
    Parameter p(s, lab.context);
    p.initialize(seed);
    return p.local();
  };
  expect_bitwise(expected, piece({}));
  for (int e = 0; e < 3; ++e)
    for (int t = 0; t < 2; ++t)
      expect_bitwise(expected.slice(0, e, e + 1).slice(2, 25 * t, 25 * (t + 1)),
                     piece({{Axis::ep, 0, 3, e}, {Axis::etp, 2, 2, t}}));
}

TEST(Parameter, ThrowsWhenAStackHasMoreEntriesThanNames) {
  Lab lab;
  Parameter::Spec s = spec("w", {4, 3, 8});
  s.stack = {1, {"gate", "up"}};
  EXPECT_THROW(Parameter(s, lab.context), std::logic_error);
}

TEST(Parameter, InitialValuesOfADoublyCutShardAreTheSliceOfTheWhole) {
  Lab lab;
  const auto whole = made(lab, "w");
  for (int e = 0; e < 4; ++e)
    for (int t = 0; t < 3; ++t) {
      const auto part = made(lab, "w", Dtype::f32, {{Axis::ep, 0, 4, e}, {Axis::etp, 1, 3, t}});
      expect_bitwise(whole->local().slice(0, e, e + 1).slice(1, 2 * t, 2 * t + 2), part->local());
    }
}

TEST(Parameter, InitialValuesOfADimensionCutTwiceAreTheSliceOfTheWhole) {
  Lab lab;
  const auto whole = made(lab, "w");
  const auto part = made(lab, "w", Dtype::f32, {{Axis::tp, 2, 2, 1}, {Axis::dp, 2, 2, 0}});
  expect_bitwise(whole->local().slice(2, 4, 6), part->local());
}

// The weights are drawn in several pieces. In a shard, pieces begin at other elements than in the whole parameter.
TEST(Parameter, InitialValuesOfALargeShardAreTheSliceOfTheWhole) {
  Lab lab;
  const Shape shape{3, 150, 100};
  const auto drawn = [&](std::vector<Shard> shards) {
    Parameter::Spec s = spec("w", shape);
    s.placement.shards = std::move(shards);
    auto p = std::make_unique<Parameter>(s, lab.context);
    p->initialize(seed);
    return p;
  };
  const auto whole = drawn({});
  for (int dim = 0; dim < 3; ++dim) {
    const int parts = dim == 0 ? 3 : 2, index = parts - 1;
    const int64_t size = shape[dim] / parts;
    expect_bitwise(whole->local().slice(dim, index * size, shape[dim]),
                   drawn({{Axis::tp, dim, parts, index}})->local());
  }
}

TEST(Parameter, InitialValuesDependOnTheName) {
  Lab lab;
  const auto a = values_of(made(lab, "layers.0.w")->local()), b = values_of(made(lab, "layers.1.w")->local());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]) << "element " << i;
}

TEST(Parameter, InitialValuesDependOnTheSeed) {
  Lab lab;
  const auto p = made(lab, "w"), q = made(lab, "w");
  expect_bitwise(p->local(), q->local());
  q->initialize(seed + 1);
  EXPECT_NE(bitwise_difference(p->local(), q->local()), "");
}

TEST(Parameter, ExpertsOfOneParameterDiffer) {
  Lab lab;
  const auto p = made(lab, "experts");
  EXPECT_NE(values_of(p->local().slice(0, 0, 1)), values_of(p->local().slice(0, 1, 2)));
}

TEST(Parameter, InitialValuesInF64EqualThoseInF32) {
  Lab lab;
  EXPECT_EQ(values_of(made(lab, "w", Dtype::f64)->local()), values_of(made(lab, "w", Dtype::f32)->local()));
}

TEST(Parameter, InitialValuesInBf16AreTheRoundedF32Values) {
  Lab lab;
  const auto single = values_of(made(lab, "w")->local()), half = values_of(made(lab, "w", Dtype::bf16)->local());
  for (size_t i = 0; i < single.size(); ++i)
    EXPECT_EQ(half[i], static_cast<double>(bf16(static_cast<float>(single[i])))) << "element " << i;
}

TEST(Parameter, InitialValuesHaveTheRequestedStandardDeviation) {
  Lab lab;
  Parameter::Spec s = spec("w", {100, 100});
  s.init = {Init::Kind::normal, 0.5};
  Parameter p(s, lab.context);
  p.initialize(seed);
  double sum = 0, squares = 0;
  for (double v : values_of(p.local())) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 10000, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.5, 0.02);
}

TEST(Parameter, ConstantFillsEveryElement) {
  Lab lab;
  Parameter::Spec s = spec("gain", {3});
  s.init = {Init::Kind::constant, 1};
  Parameter p(s, lab.context);
  p.initialize(seed);
  EXPECT_EQ(values_of(p.local()), (std::vector<double>{1, 1, 1}));
}

TEST(Parameter, ConstantsOfF64AreThoseOfF32) {
  Lab lab;
  Parameter::Spec s = spec("gain", {2});
  s.init = {Init::Kind::constant, 0.1};
  s.dtype = Dtype::f64;
  Parameter p(s, lab.context);
  p.initialize(seed);
  EXPECT_EQ(values_of(p.local()), std::vector<double>(2, static_cast<double>(0.1F)));
}

}  // namespace
}  // namespace hexad::tests
