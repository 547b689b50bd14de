#include "tools/scale/point_forecast.h"

#include <gtest/gtest.h>

#include "framework/config/recipe_error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

const std::string recipe_text = R"(model:
  layers: 1
  hidden: 16
  heads: 2
  context: 16
  vocab: 64
  moe: {experts: 4, top_k: 2, expert_hidden: 16}
batch: {global: 8, micro: 2}
optim: {lr: 0.01, warmup: 0}
data: {synthetic: true}
)";

// Returns a cluster of one node with two ranks.
plan::Cluster one_node() {
  plan::Cluster cluster;
  plan::Machine& m = cluster.machine.emplace();
  m.nodes = 1, m.ranks_per_node = 2, m.sms = 132;
  m.memory = config::ByteSize(80'000'000'000);
  m.peak.f32 = 67e12;
  m.memory_bandwidth = 3.35e12;
  m.inside = plan::MachineLink{450e9, 3.4e-6, {}};
  return cluster;
}

class ScaleForecast : public testing::Test {
 protected:
  ScaleForecast() {
    telemetry::write_text(folder_ / "a.yaml", recipe_text);
    experiment_ = parse_experiment("recipe: a.yaml\ndir: runs/x\nranks: [1, 2]\n", (folder_ / "e.yaml").string());
    points_ = load_points(experiment_, points_of(experiment_), extensions_);
  }
  std::string refusal(const std::vector<PointForecast>& forecasts) {
    try {
      require_memory(experiment_, points_, forecasts, extensions_, false);
    } catch (const config::RecipeError& e) {
      return e.what();
    }
    return "accepted";
  }

  telemetry::TemporaryFolder folder_;
  const train::Extensions extensions_{};
  Experiment experiment_{};
  std::vector<LoadedPoint> points_;
};

TEST_F(ScaleForecast, HasMemoryButNoStepTimeWithoutAClusterFile) {
  const PointForecast forecast = forecast_point(points_[0], nullptr, extensions_);
  EXPECT_GT(forecast.memory_bytes, 0);
  EXPECT_FALSE(forecast.step_seconds.has_value());
  EXPECT_EQ(forecast.trouble, "the experiment has no cluster file");
  EXPECT_TRUE(forecast.fits());
}

TEST_F(ScaleForecast, HasAStepTimeWithItsIntervalAndSharesOnACluster) {
  const plan::Cluster cluster = one_node();
  const PointForecast forecast = forecast_point(points_[1], &cluster, extensions_);
  ASSERT_TRUE(forecast.step_seconds.has_value()) << forecast.trouble;
  EXPECT_LT(forecast.least, *forecast.step_seconds);
  EXPECT_GT(forecast.most, *forecast.step_seconds);
  double share = 0;
  for (const auto& [name, part] : forecast.exposed_share) share += part;
  EXPECT_GT(share, 0);  // the ranks of dp exchange gradients
  EXPECT_LT(share, 1);
  EXPECT_TRUE(forecast.fits());
}

TEST_F(ScaleForecast, EveryPointHasTheRanksOfItsOwnCluster) {
  for (const int64_t size : {1, 2}) {
    plan::Cluster cluster = one_node();
    cluster.machine->nodes = cluster.machine->ranks_per_node = size;
    cluster.machine->network = cluster.machine->inside;
    telemetry::write_text(folder_ / base::cat("c-", size, ".yaml"), plan::to_yaml(cluster));
  }
  experiment_.config.cluster = "c-$ranks.yaml";
  std::vector<Point> points = points_of(experiment_);
  const Clusters clusters(experiment_, points);
  experiment_.problems.throw_if_any();
  clusters.set_ranks(experiment_.config, points);
  EXPECT_EQ(points[0].max_ranks, 1);
  EXPECT_EQ(points[0].ranks_per_node, 1);
  EXPECT_EQ(points[1].max_ranks, 4);
  EXPECT_EQ(points[1].ranks_per_node, 2);
  EXPECT_EQ(load_points(experiment_, points, extensions_).size(), 2u);
  experiment_.config.max_ranks = 3;
  experiment_.config.ranks_per_node = 8;
  clusters.set_ranks(experiment_.config, points);
  EXPECT_EQ(points[1].max_ranks, 3);
  EXPECT_EQ(points[1].ranks_per_node, 8);
}

TEST_F(ScaleForecast, PointsBeyondTheMemoryAreRefusedTogether) {
  const PointForecast fits{.memory_bytes = 5, .memory_limit = 5}, lacks{.memory_bytes = 6, .memory_limit = 5};
  EXPECT_EQ(refusal({fits, fits}), "accepted");
  const std::string text = refusal({lacks, lacks});
  for (const char* part : {"e.yaml:3: ranks-1: needs 6 B", "e.yaml:3: ranks-2: needs 6 B for the tensors of a rank"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST_F(ScaleForecast, TableShowsUnknownStepsAndTheLimitOfTheCost) {
  for (LoadedPoint& point : points_) point.point.ranks_per_node = 1;
  const std::string text = dry_run_table(experiment_, points_, {PointForecast{.trouble = "why"}, PointForecast{}});
  // The limit of each of the 3 runs of a point is 14 min. The run gets 10 min and its end 0.5 min, rounded up to 11
  // min. The start and Slurm's signals get 3 min (PointForecast). The points run on one and on two nodes, so their
  // limits are 42 and 84 node-minutes.
  for (const char* part :
       {"ranks-1", "ranks-2", "unknown", "2 points, 3 runs each, 25 steps (5 of warm-up): unknown node-hours",
        "at most 2.1 with the limit of 10 min per run", "no prediction of step times: why"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST_F(ScaleForecast, TableShowsTheSumOfAvailablePredictions) {
  // 3 runs of 25 steps of 48 s take one hour.
  const PointForecast known{.step_seconds = 48};
  const std::string all = dry_run_table(experiment_, points_, {known, known});
  EXPECT_NE(all.find("(5 of warm-up): 2 node-hours predicted"), std::string::npos) << all;
  const std::string some = dry_run_table(experiment_, points_, {known, PointForecast{}});
  EXPECT_NE(some.find("(5 of warm-up): at least 1 node-hours predicted"), std::string::npos) << some;
}

}  // namespace
}  // namespace hexad::scale
