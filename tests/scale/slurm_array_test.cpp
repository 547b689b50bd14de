#include "tools/scale/slurm_array.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tools/scale/point_forecast.h"

namespace hexad::scale {
namespace {

Point point_of(int64_t ranks, int64_t ranks_per_node) {
  return {.name = base::cat("ranks-", ranks), .ranks = ranks, .ranks_per_node = ranks_per_node};
}

// Returns points with these numbers of ranks.
std::vector<LoadedPoint> points_of(const std::vector<int64_t>& ranks, int64_t ranks_per_node) {
  std::vector<LoadedPoint> points;
  for (const int64_t r : ranks) points.push_back({.point = point_of(r, ranks_per_node), .recipe = {}});
  return points;
}

TEST(ScaleSlurm, PointsAreGroupedByNodes) {
  const std::vector<SlurmArray> arrays = arrays_of(points_of({1, 8, 16, 2, 32, 3}, 8), {0, 1, 2, 3, 4});
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays[0].points, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(arrays[0].ranks_per_node, 8);
  EXPECT_EQ(arrays[1].nodes, 2);
  EXPECT_EQ(arrays[2].nodes, 4);
  EXPECT_EQ(arrays[2].ranks_per_node, 8);
}

TEST(ScaleSlurm, IndicesAreWrittenAsRanges) {
  EXPECT_EQ(ranges_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(ranges_text({3}), "3");
}

TEST(ScaleSlurm, ScriptRunsOnePointOfTheArray) {
  const Experiment e = parse_experiment("recipe: a.yaml\ndir: /runs/x\nranks: [4]\nrepeats: 2\nminutes: 5\n", "e.yaml");
  const std::string script =
      slurm_script(arrays_of(points_of({4}, 2), {0}).front(), e, "/bin/hexad", {"repeats=2"}, "/home/me");
  for (const char* line :
       {"#!/bin/bash\n", "#SBATCH --array=0\n", "#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=2\n",
        "#SBATCH --exclusive\n", "#SBATCH --time=14\n", "#SBATCH --signal=USR1@60\n",
        "#SBATCH --output=/runs/x/slurm-%A_%a.txt\n", "cd /home/me || exit 4\n",
        "\n/bin/hexad scale e.yaml repeats=2 --point \"$SLURM_ARRAY_TASK_ID\"\n", "scontrol requeue \"$SLURM_JOB_ID\""})
    EXPECT_NE(script.find(line), std::string::npos) << line << "\nis not in\n" << script;
  for (const char* option : {"--cpus-per-task", "--gpus-per-node"}) EXPECT_EQ(script.find(option), std::string::npos);
}

TEST(ScaleSlurm, ScriptHasTheThreadsAndGpusOfItsPoints) {
  const Experiment e = parse_experiment("recipe: a.yaml\ndir: /runs/x\nranks: [4]\n", "e.yaml");
  std::vector<LoadedPoint> points = points_of({4, 8}, 8);
  points[0].recipe.train.threads = 3;
  points[1].recipe.train.threads = 2;
  points[1].recipe.device = device::DeviceKind::cuda;
  const std::string script = slurm_script(arrays_of(points, {0, 1}).front(), e, "/bin/hexad", {}, "/home/me");
  for (const char* line : {"#SBATCH --cpus-per-task=3\n", "#SBATCH --gpus-per-node=8\n"})
    EXPECT_NE(script.find(line), std::string::npos) << line << "\nis not in\n" << script;
}

TEST(ScaleCost, NodeHoursCountWholeNodes) {
  const Experiment e =
      parse_experiment("recipe: a.yaml\ndir: x\nranks: [4]\nrepeats: 2\nminutes: 9.5\nsteps: 35\n", "e.yaml");
  EXPECT_EQ(nodes_of(point_of(9, 8)), 2);
  EXPECT_EQ(nodes_of(point_of(9, 0)), 1);
  EXPECT_DOUBLE_EQ(most_node_hours(e.config, point_of(9, 8)), 46.0 / 60);
  EXPECT_DOUBLE_EQ(*predicted_node_hours(e.config, {.step_seconds = 45}, point_of(9, 8)), 2);
  EXPECT_FALSE(predicted_node_hours(e.config, {}, point_of(9, 8)).has_value());
}

}  // namespace
}  // namespace hexad::scale
