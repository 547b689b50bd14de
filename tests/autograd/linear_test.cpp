#include <gtest/gtest.h>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {
namespace {

using Inputs = const std::vector<Value>&;

TEST(Linear, GradientsMatchFiniteDifferences) {
  Lab lab;
  Parameter& w = lab.parameter({5, 3});
  gradcheck(lab, {lab.randn({4, 3})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w); });
}

TEST(Linear, GradientsWithABiasMatchFiniteDifferences) {
  Lab lab;
  Parameter &w = lab.parameter({5, 3}), &bias = lab.parameter({5});
  gradcheck(lab, {lab.randn({4, 3})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w, &bias); });
}

TEST(Linear, GradientsOfManyElementsMatchAlongRandomDirections) {
  Lab lab;
  Parameter &w = lab.parameter({24, 17}), &bias = lab.parameter({24});
  gradcheck(lab, {lab.randn({13, 17})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w, &bias); });
}

TEST(Linear, OfNoRowsGivesAZeroWeightGradient) {
  Lab lab;
  Parameter &w = lab.parameter({5, 3}), &bias = lab.parameter({5});
  gradcheck(lab, {lab.randn({0, 3})}, [&](Tape& t, Inputs x) { return linear(t, x[0], w, &bias); },
            {.zeros = Zeros::expected});
  expect_zeros(w.gradient());
  expect_zeros(bias.gradient());
}

TEST(Linear, UsedTwiceAddsBothContributions) {
  Lab lab;
  Parameter& w = lab.parameter({3, 3});
  gradcheck(lab, {lab.randn({4, 3})}, [&](Tape& t, Inputs x) { return linear(t, linear(t, x[0], w), w); });
}

// Small integers are exact in bf16, and their sums in single precision.
TEST(Linear, InBf16KeepsMainGradientsInSinglePrecision) {
  const auto run = [](Dtype dtype) {
    Lab same;  // the same draws every time
    Parameter &w = same.parameter({5, 30}, dtype), &bias = same.parameter({5}, dtype);
    const auto policy = keep_policy();
    Tape tape(same.stream(), *policy);
    const Value y = linear(tape, tape.leaf(same.integers({40, 30}, -8, 9, dtype)), w, &bias);
    backward(tape, y, same.integers({40, 5}, -8, 9, dtype));
    EXPECT_EQ(w.gradient().dtype(), accumulator_dtype(dtype));
    auto values = values_of(w.gradient());
    for (double v : values_of(bias.gradient())) values.push_back(v);
    return values;
  };
  const auto expected = run(Dtype::f64);
  EXPECT_EQ(run(Dtype::bf16), expected);
  EXPECT_EQ(run(Dtype::f32), expected);
}

TEST(Linear, ErrorNamesTheParameterAndBothShapes) {
  Lab lab;
  Parameter& w = lab.parameter({5, 3});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  try {
    linear(tape, tape.leaf(lab.randn({4, 2})), w);
    FAIL() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[linear] x is [4, 2] but p0 is [5, 3]");
  }
}

struct Experts {
  std::string name;
  std::vector<int64_t> offsets;
};
void PrintTo(const Experts& e, std::ostream* out) { *out << e.name; }

class GroupedLinear : public testing::TestWithParam<Experts> {};

TEST_P(GroupedLinear, GradientsMatchFiniteDifferences) {
  Lab lab;
  const auto& offsets = GetParam().offsets;
  const int64_t experts = static_cast<int64_t>(offsets.size()) - 1;
  Parameter &w = lab.parameter({experts, 4, 3}), &bias = lab.parameter({experts, 4});
  gradcheck(lab, {lab.randn({offsets.back(), 3})},
            [&](Tape& t, Inputs x) { return grouped_linear(t, x[0], w, &bias, offsets); }, {.zeros = Zeros::expected});
}

// R3: the gradient's memory holds NaN before, so garbage would show.
TEST_P(GroupedLinear, ExpertsWithoutTokensGetZeroGradients) {
  Lab lab;
  const auto& offsets = GetParam().offsets;
  const int64_t experts = static_cast<int64_t>(offsets.size()) - 1;
  Parameter &w = lab.parameter({experts, 4, 3}), &bias = lab.parameter({experts, 4});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value y = grouped_linear(tape, tape.leaf(lab.randn({offsets.back(), 3})), w, &bias, offsets);
  backward(tape, y, lab.randn(y.shape()));
  for (int64_t e = 0; e < experts; ++e) {
    const auto i = static_cast<size_t>(e);
    const bool empty = offsets[i] == offsets[i + 1];
    for (Parameter* p : {&w, &bias}) {
      const Tensor g = p->gradient().slice(0, e, e + 1);
      if (empty)
        expect_zeros(g);
      else
        for (double v : values_of(g)) EXPECT_TRUE(std::isfinite(v) && v != 0) << p->name() << " expert " << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, GroupedLinear,
                         testing::Values(Experts{"even", {0, 2, 4, 6}}, Experts{"empty_experts", {0, 0, 3, 3, 5, 5}},
                                         Experts{"one_expert", {0, 4}}, Experts{"all_rows_to_one", {0, 0, 6, 6}},
                                         Experts{"one_row", {0, 0, 1}}, Experts{"no_rows", {0, 0, 0}}),
                         [](const auto& test) { return test.param.name; });

TEST(GroupedLinearErrors, NameTheOffsetsThatDoNotFit) {
  Lab lab;
  Parameter& w = lab.parameter({2, 4, 3});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.randn({5, 3}));
  for (const auto& [offsets, message] : std::vector<std::pair<std::vector<int64_t>, std::string>>{
           {{0, 5}, "[grouped_linear] 2 offsets up to 5 for 2 experts and 5 rows"},
           {{0, 2, 4}, "[grouped_linear] 3 offsets up to 4 for 2 experts and 5 rows"},
           {{1, 2, 5}, "[grouped_linear] 3 offsets up to 5 for 2 experts and 5 rows"}}) {
    try {
      grouped_linear(tape, x, w, nullptr, offsets);
      ADD_FAILURE() << "no error for " << message;
    } catch (const std::logic_error& e) {
      EXPECT_EQ(e.what(), message);
    }
  }
}

TEST(GroupedLinear, ABiasThatAnotherRankAddsIsNotAddedAndHasAZeroGradient) {
  Lab lab;
  const std::vector<int64_t> offsets{0, 2, 5};
  Parameter &w = lab.parameter({2, 4, 3}), &bias = lab.parameter({2, 4});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Value x = tape.leaf(lab.randn({5, 3}));
  const Value y = grouped_linear(tape, x, w, &bias, offsets, BiasRole::held);
  expect_bitwise(grouped_linear(tape, x, w, nullptr, offsets).data, y.data);
  backward(tape, y, lab.randn(y.shape()));
  EXPECT_TRUE(bias.has_gradient());
  expect_zeros(bias.gradient());
}

TEST(GroupedLinear, EqualsOneLinearForEachExpert) {
  Lab lab;
  const std::vector<int64_t> offsets{0, 3, 3, 7};
  Parameter& w = lab.parameter({3, 4, 5});
  const Tensor x = lab.randn({7, 5});
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  const Tensor y = grouped_linear(tape, tape.leaf(x), w, nullptr, offsets).data;
  for (int64_t e : {0, 2}) {
    Parameter& one = lab.parameter({4, 5});
    std::copy_n(w.local().data<double>() + e * 20, 20, one.local().data<double>());
    one.changed();
    const int64_t begin = offsets[static_cast<size_t>(e)], end = offsets[static_cast<size_t>(e) + 1];
    const Value rows = linear(tape, tape.leaf(x.slice(0, begin, end)), one);
    expect_close(rows.data, y.slice(0, begin, end), tolerance(Dtype::f64, 5));
  }
}

}  // namespace
}  // namespace hexad::tests
