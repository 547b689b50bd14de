// Measurement of differences, and outcomes as text.
#include "tools/verify/tensor_comparison.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/comm/self_group.h"
#include "tests/training/training.h"
#include "tools/verify/outcome_text.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

constexpr double allowed = 1e-10;

class Comparing : public testing::Test {
 protected:
  Tensor tensor(const std::vector<double>& values, Shape shape) { return Tensor::from<double>(values, shape, context); }
  Piece whole(const std::string& name, const std::vector<double>& values, Shape shape) {
    Shape zero = shape;
    for (int d = 0; d < zero.rank(); ++d) zero[d] = 0;
    return {name, shape, {zero, shape}, 0, tensor(values, shape), true};
  }
  WholeMap expected(const std::vector<double>& values, Shape shape) {
    return whole_tensors({{"w", tensor(values, shape)}});
  }
  Comparison merged(const Comparer& comparer) { return comparer.merged(self, context); }

  device::DeviceContext context;
  comm::SelfGroup self;
};

TEST_F(Comparing, MatchingTensorShowsItsWorstElement) {
  Comparer c(allowed);
  c.tensors(2, "weight", expected({1, 2, 3, 4}, {2, 2}), {whole("w", {1, 2, 3 + 3e-12, 4}, {2, 2})});
  const Comparison result = merged(c);
  EXPECT_TRUE(result.mismatches.empty());
  EXPECT_EQ(result.worst.what, "weight w");
  EXPECT_EQ(result.worst.step, 2);
  EXPECT_NEAR(result.worst.relative, 1e-12, 1e-14);
}

TEST_F(Comparing, MismatchNamesTheElementAndBothValues) {
  Comparer c(allowed);
  c.tensors(1, "gradient", expected({1, 2, 3, 4}, {2, 2}), {whole("w", {1, 2, 3.5, 4}, {2, 2})});
  const Comparison result = merged(c);
  ASSERT_EQ(result.mismatches.size(), 1u);
  EXPECT_EQ(result.mismatches[0].what, "gradient w");
  EXPECT_EQ(result.mismatches[0].detail, "at [1, 0]: expected 3, got 3.5");
}

TEST_F(Comparing, SmallElementsAreMeasuredByTheTensorsMean) {
  Comparer c(allowed);
  c.tensors(1, "gradient", expected({100, 1e-12, 100, 100}, {4}), {whole("w", {100, -1e-12, 100, 100}, {4})});
  EXPECT_TRUE(merged(c).mismatches.empty());
}

TEST_F(Comparing, TensorOfRoundingErrorsIsScaledByOtherTensors) {
  Comparer c(allowed);
  const WholeMap want = whole_tensors({{"big", tensor({1, 1}, {2})}, {"noise", tensor({1e-17, -1e-17}, {2})}});
  c.tensors(1, "gradient", want, {whole("big", {1, 1}, {2}), whole("noise", {-1e-17, 1e-17}, {2})});
  EXPECT_TRUE(merged(c).mismatches.empty());
}

TEST_F(Comparing, NaNIsInfinitelyFar) {
  Comparer c(allowed);
  c.tensors(1, "gradient", expected({1, 1}, {2}), {whole("w", {1, std::nan("")}, {2})});
  const Comparison result = merged(c);
  ASSERT_EQ(result.mismatches.size(), 1u);
  EXPECT_TRUE(std::isinf(result.mismatches[0].relative));
}

TEST_F(Comparing, NonFiniteValuesOnBothSidesAgree) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const Measure measure : {Measure::largest, Measure::root_mean_square}) {
    Comparer c(allowed, measure);
    c.tensors(1, "gradient", expected({1, nan, 1}, {3}), {whole("w", {1, nan, 1}, {3})});
    StepResult skipped;
    skipped.grad_norm = nan, skipped.loss = inf;
    c.result(1, skipped, skipped);
    EXPECT_TRUE(merged(c).mismatches.empty());
    c.tensors(2, "gradient", expected({1, nan, 1}, {3}), {whole("w", {1, nan, 2}, {3})});
    EXPECT_EQ(merged(c).mismatches.size(), 1u) << "other elements are still compared";
  }
}

// Backward computes the gradient of the last layer first.
TEST_F(Comparing, LastLayersGradientComesFirstIfAllIsNaN) {
  const std::vector<std::string> order{"embedding.weight", "layers.2.w", "layers.10.w", "head.weight"};
  TensorMap tensors;
  for (const std::string& name : order) tensors[name] = tensor({1}, {1});
  const WholeMap want = whole_tensors(tensors, order),
                 states = whole_tensors({{"layers.2.w/main", tensor({1}, {1})}}, order);
  EXPECT_EQ(states.at("layers.2.w/main").place, 1);
  Comparer c(allowed);
  std::vector<Piece> nan;
  for (const auto& [name, t] : tensors) nan.push_back(whole(name, {std::nan("")}, {1}));
  c.tensors(1, "weight", want, nan);
  c.tensors(1, "gradient", want, nan);
  StepResult a, b;
  a.loss = 1, b.loss = std::nan("");
  c.result(1, a, b);
  std::vector<std::string> listed;
  for (const Finding& f : merged(c).mismatches) listed.push_back(f.what);
  EXPECT_EQ(listed, (std::vector<std::string>{"gradient head.weight", "gradient layers.10.w", "gradient layers.2.w",
                                              "gradient embedding.weight", "weight head.weight", "weight layers.10.w",
                                              "weight layers.2.w", "weight embedding.weight", "loss"}));
}

TEST_F(Comparing, PiecesAreComparedAtTheirPlace) {
  Comparer c(allowed);
  const WholeMap want = expected({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  // Columns 1 and 2 of rows 1 and 2 are 5, 6, 9 and 10. Elements 1 and 2 of these are 6 and 9.
  c.tensors(1, "weight", want,
            {{"w", {3, 4}, {{1, 1}, {2, 2}}, 1, tensor({6, 9}, {2}), false},
             {"w", {3, 4}, {{0, 0}, {3, 4}}, 0, tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12}), true}});
  EXPECT_TRUE(merged(c).mismatches.empty());
}

TEST_F(Comparing, UnownedTensorIsAMismatch) {
  Comparer c(allowed);
  Piece first = whole("w", {1, 2}, {2});
  first.owned = false;
  c.tensors(1, "weight", expected({1, 2}, {2}), {first});
  c.tensors(2, "weight", expected({1, 2}, {2}), {});
  const Comparison result = merged(c);
  ASSERT_EQ(result.mismatches.size(), 2u);
  EXPECT_EQ(result.mismatches[1].detail,
            "element 0 is owned by no rank; expected one owner for each of its 2 elements");
}

TEST_F(Comparing, OverlapDoesNotHideAGap) {
  for (const Measure measure : {Measure::largest, Measure::root_mean_square}) {
    Comparer c(allowed, measure);
    const WholeMap want = expected({1, 2, 3, 4}, {4});
    const auto piece = [&](int64_t begin, const std::vector<double>& values) {
      return Piece{"w", {4}, {{0}, {4}}, begin, tensor(values, {static_cast<int64_t>(values.size())}), true};
    };
    c.tensors(1, "weight", want, {piece(0, {1, 2}), piece(1, {2, 3})});  // four elements, as many as w has
    c.tensors(2, "weight", want, {piece(2, {3, 4}), piece(0, {1, 2})});
    const Comparison result = merged(c);
    ASSERT_EQ(result.mismatches.size(), 1u);
    EXPECT_EQ(result.mismatches[0].what, "weight w");
    EXPECT_EQ(result.mismatches[0].detail,
              "element 1 is owned by rank 0 twice; expected one owner for each of its 4 elements");
  }
}

TEST_F(Comparing, NamesTheRanksThatOwnAnElementOfAColumnShard) {
  on_ranks(3, [&](const comm::ProcessGroup& world) {
    device::DeviceContext here;
    Comparer c(allowed);
    const WholeMap want = whole_tensors({{"w", Tensor::from<double>(std::vector<double>{1, 2, 3, 4}, {2, 2}, here)}});
    // Ranks 0 and 2 own the first column; rank 1 owns nothing.
    std::vector<Piece> held;
    if (world.rank() != 1)
      held.push_back(
          {"w", {2, 2}, {{0, 0}, {2, 1}}, 0, Tensor::from<double>(std::vector<double>{1, 3}, {2}, here), true});
    c.tensors(1, "weight", want, held);
    const Comparison result = c.merged(world, here);
    ASSERT_EQ(result.mismatches.size(), 1u);
    EXPECT_EQ(result.mismatches[0].detail,
              "element 0 is owned by ranks 0 and 2; expected one owner for each of its 4 elements");
    EXPECT_EQ(result.compared.elements, 4);
  });
}

TEST_F(Comparing, CountsMustBeEqualAndNumbersClose) {
  StepResult a;
  a.loss = 3.5, a.grad_norm = 2;
  a.routers.resize(1);
  a.routers[0].counts = {3, 5};
  a.routers[0].aux_loss = 1.25;
  StepResult b = a;
  b.loss += 1e-12;
  b.routers[0].counts = {4, 4};
  b.routers[0].aux_loss = 1.5;
  b.grad_norm = 2.5;
  Comparer c(allowed);
  c.result(1, a, b);
  const Comparison result = merged(c);
  ASSERT_EQ(result.mismatches.size(), 3u);
  EXPECT_EQ(result.mismatches[0].what, "router of MoE layer 0: tokens by expert");
  EXPECT_EQ(result.mismatches[0].detail, "expected 3 5, got 4 4");
  EXPECT_EQ(result.mismatches[1].what, "router of MoE layer 0: auxiliary loss");
  EXPECT_EQ(result.mismatches[2].what, "norm of all gradients");
}

TEST_F(Comparing, CausesComeBeforeEffects) {
  Comparer c(allowed);
  c.tensors(2, "gradient", expected({1}, {1}), {whole("w", {2}, {1})});
  c.tensors(1, "weight", expected({1}, {1}), {whole("w", {2}, {1})});
  c.tensors(1, "gradient", expected({1}, {1}), {whole("w", {2}, {1})});
  std::vector<std::string> order;
  for (const Finding& f : merged(c).mismatches) order.push_back(cat(f.step, " ", f.what));
  EXPECT_EQ(order, (std::vector<std::string>{"1 gradient w", "1 weight w", "2 gradient w"}));
}

TEST_F(Comparing, EarlierCausesComeFirstAndTheLossLast) {
  StepResult a;
  a.routers.resize(2);
  a.loss = 1, a.routers[0].aux_loss = 1, a.routers[1].aux_loss = 1;
  StepResult b = a;
  b.loss = 2, b.routers[0].aux_loss = 2, b.routers[1].aux_loss = 100;
  Comparer c(allowed);
  c.result(1, a, b);
  c.tensors(1, "gradient", expected({1}, {1}), {whole("w", {2}, {1})});
  std::vector<std::string> order;
  for (const Finding& f : merged(c).mismatches) order.push_back(f.what);
  EXPECT_EQ(order, (std::vector<std::string>{"router of MoE layer 0: auxiliary loss",
                                             "router of MoE layer 1: auxiliary loss", "gradient w", "loss"}));
}

TEST_F(Comparing, ComparedStepsTensorsAndElementsAreCounted) {
  Comparer c(allowed);
  EXPECT_FALSE(merged(c).compared.something());
  c.tensors(0, "initial weight", expected({1, 2}, {2}), {whole("w", {1, 2}, {2})});
  EXPECT_FALSE(merged(c).compared.something()) << "no step was compared";
  c.result(1, {}, {});
  c.tensors(1, "weight", expected({1, 2}, {2}), {whole("w", {1, 2}, {2}), whole("w", {1, 2}, {2})});
  c.tensors(1, "weight", expected({}, {0}), {whole("w", {}, {0})});
  EXPECT_EQ(to_string(merged(c).compared), "1 step, 2 tensors, 6 elements");
  EXPECT_TRUE(merged(c).compared.something());
}

// One element may differ strongly if the root mean square of the differences of all elements is small.
TEST_F(Comparing, RoundedTensorsAreMeasuredAsAWhole) {
  const auto compare = [&](double wrong) {
    Comparer c(0.2, Measure::root_mean_square);
    c.tensors(1, "gradient", expected({1, 1, 1, 1}, {4}), {whole("w", {1, 1, 1, wrong}, {4})});
    return merged(c);
  };
  EXPECT_TRUE(compare(1.3).mismatches.empty());
  EXPECT_DOUBLE_EQ(compare(1.3).worst.relative, 0.15);
  ASSERT_EQ(compare(1.5).mismatches.size(), 1u);
  EXPECT_DOUBLE_EQ(compare(1.5).mismatches[0].relative, 0.25);
  EXPECT_TRUE(std::isinf(compare(std::nan("")).worst.relative));
}

// The root mean square of the elements 1 and 0.01 is 0.71.
TEST_F(Comparing, SmallRoundedTensorIsMeasuredByAShareOfOtherTensors) {
  const WholeMap want = whole_tensors({{"big", tensor({1}, {1})}, {"small", tensor({0.01}, {1})}});
  const auto off = [&](double least_unit) {
    Comparer c(0.2, Measure::root_mean_square, least_unit);
    c.tensors(1, "gradient", want, {whole("big", {1}, {1}), whole("small", {0.02}, {1})});
    return merged(c).worst.relative;
  };
  EXPECT_NEAR(off(0), 1, 1e-9);
  EXPECT_NEAR(off(0.1), 0.01 / (0.1 * std::sqrt((1 + 1e-4) / 2)), 1e-9);
}

TEST_F(Comparing, HeldOutLossAndGeneratedTokensAreCompared) {
  Comparer c(allowed);
  c.evaluation(2, {.tokens = 10, .processed = 16, .loss = 1.5, .bits_per_byte = 2},
               {.tokens = 8, .processed = 12, .loss = 1.25, .bits_per_byte = 1});
  c.generated(2, {1, 2}, {1, 3});
  const Comparison result = merged(c);
  ASSERT_EQ(result.mismatches.size(), 5u);
  EXPECT_EQ(result.mismatches[0].what, "generated tokens");
  EXPECT_EQ(result.mismatches[0].detail, "expected 1 2, got 1 3");
  EXPECT_EQ(result.mismatches[1].what, "loss of held-out text: tokens");
  EXPECT_EQ(result.mismatches[2].what, "loss of held-out text: tokens processed");
  EXPECT_EQ(result.mismatches[3].what, "loss of held-out text: bits per byte");
  EXPECT_EQ(result.mismatches[4].what, "loss of held-out text");
}

TEST_F(Comparing, RanksFindingsAreMerged) {
  on_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext mine;
    const auto tensor = [&](double a, double b) { return Tensor::from<double>(std::vector{a, b}, {2}, mine); };
    const WholeMap want = whole_tensors({{"w", Tensor::from<double>(std::vector{1., 2., 3., 4.}, {4}, mine)}});
    Comparer c(allowed);
    const bool second = world.rank() == 1;
    c.tensors(1, "weight", want, {{"w", {4}, {{second ? 2 : 0}, {2}}, 0, second ? tensor(3, 5) : tensor(1, 2), true}});
    const Comparison result = c.merged(world, mine);
    ASSERT_EQ(result.mismatches.size(), 1u);
    EXPECT_EQ(result.mismatches[0].detail, "at [3]: expected 4, got 5");
  });
}

Outcome outcome() {
  Outcome o{.variant = parse_layouts("tp=2,ep=2,sp=true", 4)[0]};
  o.seconds = 0.5;
  o.comparison.compared = {.steps = 2, .tensors = 30, .elements = 400};
  return o;
}

TEST(OutcomeText, IsReadBack) {
  Outcome o = outcome();
  o.comparison.worst = {2, "weight w", 3e-12, "at [0]: expected 1, got 2"};
  o.comparison.mismatches = {{1, "loss", std::numeric_limits<double>::infinity(), "expected 1, got nan", 7}};
  o.error = "no \"such\" layer\xff";
  const Outcome read = outcome_from_json(text_of(o), o.variant);
  EXPECT_EQ(read.comparison.worst.what, "weight w");
  EXPECT_EQ(read.comparison.worst.relative, 3e-12);
  EXPECT_TRUE(std::isinf(read.comparison.mismatches.at(0).relative));
  EXPECT_EQ(read.comparison.mismatches[0].detail, "expected 1, got nan");
  EXPECT_EQ(read.comparison.mismatches[0].place, 7);
  EXPECT_EQ(read.seconds, 0.5);
  EXPECT_EQ(to_string(read.comparison.compared), "2 steps, 30 tensors, 400 elements");
  EXPECT_TRUE(read.error.starts_with("no \"such\" layer"));
}

TEST(OutcomeText, RowShowsTheLayoutTheWorstDifferenceAndItsPlace) {
  const auto squeezed = [](std::string row) {
    std::string out;
    for (char c : row)
      if (c != ' ' || !out.ends_with(' ')) out += c;
    return out;
  };
  Outcome o = outcome();
  EXPECT_EQ(squeezed(table_row(o)), "dp=2,tp=2,ep=2 sp=true 2 30 400 0.0e+00 bit for bit");
  o.comparison.worst = {2, "weight w", 3e-12, ""};
  EXPECT_EQ(squeezed(table_row(o)), "dp=2,tp=2,ep=2 sp=true 2 30 400 3.0e-12 weight w, step 2");
  o.comparison.mismatches = {{1, "gradient w", 0.5, "at [0]: expected 2, got 3"}, {1, "weight w", 0.1, ""}};
  EXPECT_EQ(squeezed(table_row(o)), "dp=2,tp=2,ep=2 sp=true 2 30 400 5.0e-01 WRONG: gradient w, step 1 (and 1 more)");
  EXPECT_EQ(explanation(o),
            "dp=2,tp=2,ep=2,sp=true: step 1: gradient w: off by 5.0e-01; at [0]: expected 2, got 3\n"
            "dp=2,tp=2,ep=2,sp=true: step 1: weight w: off by 1.0e-01; \n");
  o.comparison.mismatches = {{1, "gradient w", std::numeric_limits<double>::infinity(), "at [0]: expected 2, got nan"}};
  EXPECT_EQ(explanation(o), "dp=2,tp=2,ep=2,sp=true: step 1: gradient w: at [0]: expected 2, got nan\n");
  o.error = "rank 1 was lost\nmore";
  EXPECT_EQ(squeezed(table_row(o)), "dp=2,tp=2,ep=2 sp=true FAILED rank 1 was lost");
}

TEST(OutcomeText, RunWithoutComparisonsHasFailed) {
  Outcome o = outcome();
  o.comparison.compared.steps = 0;
  EXPECT_FALSE(o.agrees());
  EXPECT_NE(table_row(o).find("0 30 400   FAILED  nothing was compared"), std::string::npos) << table_row(o);
  EXPECT_EQ(explanation(o), "dp=2,tp=2,ep=2,sp=true: nothing was compared: 0 steps, 30 tensors, 400 elements\n");
}

}  // namespace
}  // namespace hexad::tests
