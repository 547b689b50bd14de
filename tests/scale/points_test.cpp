#include "tools/scale/points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
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

class ScalePoints : public testing::Test {
 protected:
  ScalePoints() { telemetry::write_text(folder_ / "a.yaml", recipe_text); }

  Experiment experiment(const std::string& rest) const {
    return parse_experiment(base::cat("recipe: a.yaml\ndir: runs/x\nsteps: 2\nwarmup_steps: 1\n", rest), path());
  }
  std::string path() const { return (folder_ / "e.yaml").string(); }
  std::string refusal(const std::string& rest, int64_t max_ranks = 0) const {
    Experiment e = experiment(rest);
    std::vector<Point> points = points_of(e);
    for (Point& point : points) point.max_ranks = max_ranks;
    try {
      load_points(e, std::move(points), train::Extensions());
    } catch (const config::RecipeError& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  telemetry::TemporaryFolder folder_;
};

std::vector<std::string> names_of(const std::vector<Point>& points) {
  std::vector<std::string> names;
  for (const Point& p : points) names.push_back(p.name);
  return names;
}

TEST_F(ScalePoints, ContainEveryCombinationOfAvailableChoices) {
  Experiment e = experiment(R"(ranks: [1, 2]
vary:
  - name: ep
    choices: [{name: "1"}, {name: all, set: ["parallel.ep=$ranks"], from_ranks: 2}]
  - {name: lr, key: optim.lr, values: [0.1, 1e-2]}
)");
  const std::vector<Point> points = points_of(e);
  EXPECT_EQ(names_of(points),
            (std::vector<std::string>{"ranks-1_ep-1_lr-0.1", "ranks-1_ep-1_lr-1e-2", "ranks-2_ep-1_lr-0.1",
                                      "ranks-2_ep-1_lr-1e-2", "ranks-2_ep-all_lr-0.1", "ranks-2_ep-all_lr-1e-2"}));
  EXPECT_EQ(points.back().overrides, (std::vector<std::string>{"parallel.ep=2", "optim.lr=1e-2"}));
  EXPECT_EQ(load_points(e, points, train::Extensions()).back().recipe.parallel.ep, 2);
}

TEST_F(ScalePoints, VariablesReachLauncherAndClusterFile) {
  Experiment e = experiment(R"(ranks: [4]
launcher: two_nodes.sh --rate $rate --ranks $ranks
cluster: c-$rate.yaml
cluster_set: ["a=$rate"]
vary: [{name: rate, values: [50mbit]}]
)");
  const Point point = points_of(e).at(0);
  EXPECT_EQ(point.launcher, "two_nodes.sh --rate 50mbit --ranks 4");
  EXPECT_TRUE(point.cluster.ends_with("c-50mbit.yaml"));
  EXPECT_EQ(point.cluster_set, (std::vector<std::string>{"a=50mbit"}));
  EXPECT_TRUE(point.overrides.empty());
}

TEST(ScaleVariables, LongestMatchingNameIsReplaced) {
  const std::map<std::string, std::string> values{{"rate", "1"}, {"rates", "2"}};
  EXPECT_EQ(with_variables("$rates $rate $other 5$", values), "2 1 $other 5$");
}

TEST_F(ScalePoints, ProblemGrowsWithTheRanks) {
  Experiment e = experiment("ranks: [1, 2]\nscaling: weak\n");
  const std::vector<LoadedPoint> points = load_points(e, points_of(e), train::Extensions());
  EXPECT_EQ(points[0].recipe.batch.global, 8);
  EXPECT_EQ(points[1].recipe.batch.global, 16);
  EXPECT_EQ(points[1].recipe.train.steps, 3);
}

TEST_F(ScalePoints, IllegalDuplicateAndTooLargePointsAreReportedTogether) {
  const std::string text = refusal(R"(ranks: [2, 8, 2]
vary:
  - name: ep
    key: parallel.ep
    values:
      - 1
      - 1.0
      - 2
  - name: lr
    choices: [{name: a, set: [optim.lr=0.01]}, {name: b}]
)",
                                   4);
  EXPECT_NE(text.find(path() + ":5: ranks.1 (8) is more than the 4 available ranks; nearest: 4"), std::string::npos)
      << text;
  EXPECT_NE(text.find(path() + ":5: ranks.2 (2) is a number that occurs twice"), std::string::npos) << text;
  EXPECT_NE(text.find(path() + ":11: ranks-2_ep-1.0_lr-a: parallel.ep (1.0) must be an integer"), std::string::npos)
      << text;
  EXPECT_NE(text.find("ranks-2_ep-1_lr-b: gives the same run as ranks-2_ep-1_lr-a"), std::string::npos) << text;
}

TEST_F(ScalePoints, EachPointIsComparedWithItsOwnAvailableRanks) {
  Experiment e = experiment("ranks: [2, 4]\n");
  std::vector<Point> points = points_of(e);
  points[0].max_ranks = 2;
  points[1].max_ranks = 4;
  EXPECT_EQ(load_points(e, points, train::Extensions()).size(), 2u);
  points[1].max_ranks = 3;
  try {
    load_points(e, points, train::Extensions());
    FAIL() << "a point with 4 ranks was accepted, although 3 ranks are available; expected an error";
  } catch (const config::RecipeError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("ranks.1 (4) is more than the 3 available ranks; nearest: 3"), std::string::npos) << text;
    EXPECT_EQ(text.find("ranks.0"), std::string::npos) << text;
  }
}

TEST_F(ScalePoints, EqualNamesOfFoldersAreRefused) {
  EXPECT_NE(refusal("ranks: [1]\nvary: [{name: v, key: optim.lr, values: [0.1, 0.1]}]\n")
                .find("gives the same name to two points"),
            std::string::npos);
}

TEST_F(ScalePoints, ProblemsOfLegalPointsAreListedWithIllegalPoints) {
  Experiment e = experiment("ranks: [1]\nvary: [{name: ep, key: parallel.ep, values: [1, 3]}]\n");
  try {
    load_points(e, points_of(e), train::Extensions(), [&](const std::vector<LoadedPoint>& legal) {
      ASSERT_EQ(legal.size(), 1u);
      e.problems.add("ranks", "is not wanted");
    });
    FAIL() << "an experiment with problems was accepted; expected an error";
  } catch (const config::RecipeError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("is not wanted"), std::string::npos) << text;
    EXPECT_NE(text.find("ranks-1_ep-3"), std::string::npos) << text;
  }
}

TEST_F(ScalePoints, AnExperimentWithoutPointsIsRefused) {
  Experiment e = experiment("ranks: [1]\nvary: [{name: v, choices: [{name: a, from_ranks: 2}]}]\n");
  EXPECT_THROW(load_points(e, points_of(e), train::Extensions()), base::Error);
}

}  // namespace
}  // namespace hexad::scale
