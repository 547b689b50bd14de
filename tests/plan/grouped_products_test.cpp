// Times of grouped products by the number of experts in a group.
#include "tools/plan/grouped_products.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace hexad::plan {
namespace {

MeasuredProduct product(int64_t experts, double seconds, GemmPass pass = GemmPass::forward, int64_t outputs = 100) {
  const std::vector<config::Curve::Point> points{{8, seconds}, {16, 2 * seconds}};
  return {Element::f32, pass, experts, 10, outputs, points};
}

TEST(GroupedProducts, TakeTheNearestShapeAndScaleItsTimes) {
  Cluster c;
  c.products = {product(4, 9, GemmPass::forward, 10000), product(8, 3), product(2, 1),
                product(2, 50, GemmPass::input_gradient)};
  const GroupedProducts g(c, Element::f32, 2000);
  EXPECT_EQ(g.sizes(), 2u);
  EXPECT_DOUBLE_EQ(g.seconds(8, 8), 6) << "twice the weight takes twice the time";
  EXPECT_DOUBLE_EQ(g.seconds(8, 2), 2);
  EXPECT_EQ(GroupedProducts(c, Element::bf16, 2000).sizes(), 0u);
}

TEST(GroupedProducts, TakeAGroupOfOneExpertFromDenseProducts) {
  Cluster c;
  c.products = {product(8, 3)};
  c.dense_products = {product(8, 4)};
  const GroupedProducts g(c, Element::f32, 1000);
  EXPECT_EQ(g.sizes(), 2u);
  EXPECT_DOUBLE_EQ(g.seconds(1, 1), 0.5) << "eight calls with one row each take 4 s";
  EXPECT_DOUBLE_EQ(g.seconds(2, 1), 1);
}

TEST(GroupedProducts, AreLinearInTheNumberOfExpertsAtEqualRowsPerExpert) {
  GroupedProducts g;
  g.add(2, {{{1, 3}, {1000, 3}}});
  EXPECT_THROW(static_cast<void>(g.seconds(2, 2)), std::logic_error);
  g.add(4, {{{1, 5}, {1000, 5}}});
  EXPECT_DOUBLE_EQ(g.seconds(3, 3), 4);
  EXPECT_DOUBLE_EQ(g.seconds(8, 8), 9) << "the line continues above the largest group";
  EXPECT_DOUBLE_EQ(g.seconds(1, 1), 1.5) << "below the smallest group, the time is proportional";
  g.add(8, {{{1, 4}, {1000, 4}}});
  EXPECT_DOUBLE_EQ(g.seconds(16, 16), 4) << "the line never falls above the largest group";
}

}  // namespace
}  // namespace hexad::plan
