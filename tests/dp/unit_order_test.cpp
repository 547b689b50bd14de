// Prediction of the next unit from the order of uses.
#include "parallel/dp/unit_order.h"

#include <gtest/gtest.h>

namespace hexad::tests {
namespace {

using dp::UnitOrder;
using Units = std::vector<size_t>;

// Uses the units. Returns the number of uses that were expected. A repeated unit counts as one use.
int expected_uses(UnitOrder& order, const Units& units) {
  int expected = 0;
  size_t next = UnitOrder::none;
  for (const size_t unit : units) {
    if (unit == order.current()) continue;
    expected += unit == next;
    next = order.use(unit);
  }
  return expected;
}

// Returns the units of a step with `layers` layers, recomputation and `micro_batches` micro-batches. Layer l has the
// units 2 * l (attention) and 2 * l + 1 (experts).
Units recomputed_step(size_t layers, int micro_batches) {
  Units units;
  for (int m = 0; m < micro_batches; ++m) {
    for (size_t u = 0; u < 2 * layers; ++u) units.push_back(u);
    for (size_t l = layers; l-- > 0;)
      for (const size_t u : {2 * l, 2 * l + 1, 2 * l}) units.push_back(u);
  }
  return units;
}

// Returns the number of times that the unit changes from one use to the next.
int changes(const Units& units) {
  int n = -1;
  for (size_t i = 0; i < units.size(); ++i) n += i == 0 || units[i] != units[i - 1];
  return n;
}

TEST(UnitOrder, NothingIsExpectedBeforeTheFirstRepetition) {
  UnitOrder order;
  EXPECT_EQ(order.current(), UnitOrder::none);
  EXPECT_EQ(order.use(3), UnitOrder::none);
  EXPECT_EQ(order.use(5), UnitOrder::none);
  EXPECT_EQ(order.current(), 5u);
}

TEST(UnitOrder, ASingleUnitIsNeverExpected) {
  UnitOrder order;
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(order.use(0), UnitOrder::none);
    order.end_step();
    EXPECT_EQ(order.current(), UnitOrder::none);
  }
}

TEST(UnitOrder, StepsWithoutUsesAreLegal) {
  UnitOrder order;
  for (int step = 0; step < 3; ++step) order.end_step();
  EXPECT_EQ(order.use(1), UnitOrder::none);
  order.end_step();
  order.end_step();
  EXPECT_EQ(order.use(1), UnitOrder::none);
}

// After the attention and the experts of a layer, forward uses the attention of the next layer. Backward then uses the
// attention of the layer itself.
TEST(UnitOrder, EveryUnitOfAStepWithRecomputationIsExpectedAfterOneStep) {
  for (const size_t layers : {1, 2, 7})
    for (const int micro_batches : {1, 2, 5}) {
      const Units step = recomputed_step(layers, micro_batches);
      UnitOrder order;
      expected_uses(order, step);
      for (int i = 0; i < 3; ++i) {
        order.end_step();
        EXPECT_EQ(expected_uses(order, step), changes(step))
            << layers << " layers, " << micro_batches << " micro-batches";
      }
    }
}

TEST(UnitOrder, LaterMicroBatchesOfTheFirstStepAreExpected) {
  const Units one = recomputed_step(4, 1), three = recomputed_step(4, 3);
  UnitOrder order;
  EXPECT_GE(expected_uses(order, three), 2 * changes(one) - 4);
}

TEST(UnitOrder, NothingIsExpectedAfterTheLastUseOfAStep) {
  UnitOrder order;
  for (const size_t u : {0, 1, 0}) order.use(u);
  order.end_step();
  EXPECT_EQ(order.use(0), 1u);
  EXPECT_EQ(order.use(1), 0u);
  EXPECT_EQ(order.use(0), UnitOrder::none);
}

// Forwards of an evaluation between two steps end where backward would begin.
TEST(UnitOrder, EvaluationsDisturbFewExpectations) {
  const Units step = recomputed_step(6, 3);
  Units evaluation;
  for (int i = 0; i < 4; ++i)
    for (size_t u = 0; u < 12; ++u) evaluation.push_back(u);
  UnitOrder order;
  for (int i = 0; i < 2; ++i) expected_uses(order, step), order.end_step();
  EXPECT_GE(expected_uses(order, evaluation), changes(evaluation) - 4);
  EXPECT_GE(expected_uses(order, step), changes(step) - 4);
  order.end_step();
  EXPECT_GE(expected_uses(order, step), changes(step) - 4);
  order.end_step();
  EXPECT_EQ(expected_uses(order, step), changes(step));
}

// Generation uses the units of a forward again and again, without an update.
TEST(UnitOrder, PartOfALongStepIsForgotten) {
  UnitOrder order;
  for (const size_t u : {0, 1, 2, 3}) order.use(u);
  int wrong = 0;
  size_t next = order.use(0);
  for (size_t i = 1; i < 3 * UnitOrder::most; ++i) {
    wrong += next != i % 4;
    next = order.use(i % 4);
  }
  EXPECT_EQ(wrong, 0);
  order.end_step();
  EXPECT_EQ(order.current(), UnitOrder::none);
  EXPECT_GE(expected_uses(order, recomputed_step(2, 1)), 3) << "the order of a forward must still be known";
}

TEST(UnitOrder, AnotherNumberOfMicroBatchesDisturbsFewExpectations) {
  const Units four = recomputed_step(5, 4), two = recomputed_step(5, 2);
  UnitOrder order;
  expected_uses(order, four);
  order.end_step();
  EXPECT_GE(expected_uses(order, two), changes(two) - 2);
  order.end_step();
  EXPECT_GE(expected_uses(order, four), changes(four) - 4);
}

}  // namespace
}  // namespace hexad::tests
