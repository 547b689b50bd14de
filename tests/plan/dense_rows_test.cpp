// Threshold for schedule.moe.gemms=by_load, from a measured cluster.
#include "tools/plan/dense_rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace plan;
namespace {

// Returns a product of 8 experts, measured at 16, 64, 256 and 1024 rows. `times` are in milliseconds.
MeasuredProduct product(Element element, int64_t width, const std::vector<double>& times) {
  std::vector<Curve::Point> points;
  for (size_t i = 0; i < times.size(); ++i)
    points.push_back({16.0 * static_cast<double>(1 << (2 * i)), 1e-3 * times[i]});
  return {element, GemmPass::forward, 8, width, width, Curve(points)};
}

Cluster cluster_with(const std::vector<double>& dense, const std::vector<double>& grouped, int64_t width = 64) {
  Cluster cluster;
  cluster.products = {product(Element::f32, width, grouped)};
  cluster.dense_products = {product(Element::f32, width, dense)};
  return cluster;
}

TEST(DenseRows, BeginWhereDenseRemainsFaster) {
  EXPECT_EQ(measured_dense_rows(cluster_with({4, 4, 6, 20}, {2, 3, 8, 30}), Element::f32, 64, 64), 32);
  EXPECT_EQ(measured_dense_rows(cluster_with({1, 4, 6, 20}, {2, 3, 8, 30}), Element::f32, 64, 64), 32)
      << "a single small load that is faster by chance is ignored";
  EXPECT_EQ(measured_dense_rows(cluster_with({1, 1, 1, 1}, {2, 3, 8, 30}), Element::f32, 64, 64), 2);
}

TEST(DenseRows, AreNeverReachedIfBothAreEquallyFast) {
  EXPECT_EQ(measured_dense_rows(cluster_with({2, 3, 8, 30}, {2, 3, 8, 30}), Element::f32, 64, 64), never_dense);
  EXPECT_EQ(measured_dense_rows(cluster_with({2, 3, 8, 29.9}, {2, 3, 8, 30}), Element::f32, 64, 64), never_dense)
      << "a difference below 2% is ignored";
}

TEST(DenseRows, AreThoseOfTheNearestShapeOfTheElement) {
  Cluster both = cluster_with({1, 1, 1, 1}, {2, 2, 2, 2}, 64);
  const Cluster large = cluster_with({4, 4, 4, 1}, {2, 2, 2, 2}, 1024);
  both.products.push_back(large.products[0]), both.dense_products.push_back(large.dense_products[0]);
  EXPECT_EQ(measured_dense_rows(both, Element::f32, 80, 64), 2);
  EXPECT_EQ(measured_dense_rows(both, Element::f32, 2048, 512), 128);
  EXPECT_EQ(measured_dense_rows(both, Element::bf16, 64, 64), std::nullopt);
  both.products.clear();
  EXPECT_EQ(measured_dense_rows(both, Element::f32, 64, 64), std::nullopt)
      << "no grouped products were measured for comparison";
}

TEST(DenseRows, AreTakenFromTheProfileOfTheRecipe) {
  const Scratch folder;
  const std::string file = folder / "cluster.yaml";
  Cluster cluster = default_cluster(1, 2);
  const Cluster measured = cluster_with({4, 4, 6, 20}, {2, 3, 8, 30});
  cluster.products.push_back(measured.products[0]), cluster.dense_products = measured.dense_products;
  std::ofstream(file) << to_yaml(cluster);
  const auto taken = [&](std::vector<std::string> keys) {
    keys.emplace_back("train.precision=f32");
    train::Recipe recipe = small_recipe(keys);
    const std::string line = take_dense_rows(recipe);
    EXPECT_EQ(line.empty(), recipe.schedule.moe.dense_rows == small_recipe(keys).schedule.moe.dense_rows) << line;
    return recipe.schedule.moe.dense_rows;
  };
  const std::string profile = "schedule.profile=" + file;
  EXPECT_EQ(taken({profile, "schedule.moe.gemms=by_load"}), 32);
  EXPECT_EQ(taken({profile, "schedule.moe.gemms=by_load", "schedule.moe.dense_rows=7"}), 7);
  EXPECT_EQ(taken({profile}), std::nullopt);
  EXPECT_EQ(taken({"schedule.moe.gemms=by_load"}), std::nullopt);
  EXPECT_EQ(taken({profile, "schedule.moe.gemms=auto"}), 32);
  EXPECT_EQ(taken({profile, "schedule.moe.gemms=auto", "schedule.moe.dense_rows=7"}), 7);
}

TEST(DenseRows, OpenGemmsAreLeftOutIfNoLoadFavoursDense) {
  const Scratch folder;
  const std::string file = folder / "cluster.yaml";
  Cluster cluster = default_cluster(1, 2);
  const Cluster measured = cluster_with({2, 3, 8, 30}, {2, 3, 8, 30});
  cluster.products.push_back(measured.products[0]), cluster.dense_products = measured.dense_products;
  std::ofstream(file) << to_yaml(cluster);
  const auto taken = [&](const std::string& gemms) {
    train::Recipe recipe =
        small_recipe({"schedule.profile=" + file, "schedule.moe.gemms=" + gemms, "train.precision=f32"});
    EXPECT_NE(take_dense_rows(recipe).find("dense GEMMs are not faster at the largest measured load"),
              std::string::npos);
    return recipe.schedule.moe.dense_rows;
  };
  EXPECT_EQ(taken("auto"), std::nullopt);
  EXPECT_EQ(taken("by_load"), never_dense);
}

TEST(DenseRows, DenseProductsHaveTheirOwnRates) {
  Cluster cluster = default_cluster(1, 2);
  const auto rates = [&] {
    return rates_of(cluster, {.groups = {}, .element = Element::f32, .inputs = 64, .outputs = 64});
  };
  for (const schedule::TimeCurve& curve : rates().dense) EXPECT_TRUE(curve.points.empty()) << "nothing was measured";
  const Cluster measured = cluster_with({4, 4, 6, 15}, {2, 3, 8, 30});
  cluster.products.push_back(measured.products[0]), cluster.dense_products = measured.dense_products;
  const schedule::Rates with_dense = rates();
  const double flops = 2.0 * 128 * 64 * 64;  // FLOPs of one of 8 experts, which has 128 of the 1024 rows
  for (size_t pass = 0; pass < with_dense.dense.size(); ++pass)
    EXPECT_DOUBLE_EQ(with_dense.dense[pass].seconds(flops), with_dense.compute[pass].seconds(flops) / 2);
}

}  // namespace
}  // namespace hexad::tests
