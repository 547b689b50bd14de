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

// Returns the arrays of all runs of one repeat, in the order of the points.
std::vector<SlurmArray> arrays_in_order(const std::vector<LoadedPoint>& points) {
  std::vector<Execution> order;
  std::vector<int64_t> indices;
  for (int64_t p = 0; p < std::ssize(points); ++p) {
    order.push_back({.point = p, .repeat = 1});
    indices.push_back(p);
  }
  return arrays_of(points, order, indices);
}

TEST(ScaleSlurm, RunsAreGroupedByNodes) {
  const std::vector<SlurmArray> arrays = arrays_in_order(points_of({1, 8, 16, 2, 32}, 8));
  ASSERT_EQ(arrays.size(), 3u);
  EXPECT_EQ(arrays[0].tasks, (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(arrays[0].ranks_per_node, 8);
  EXPECT_EQ(arrays[1].nodes, 2);
  EXPECT_EQ(arrays[2].nodes, 4);
  EXPECT_EQ(arrays[2].ranks_per_node, 8);
}

TEST(ScaleSlurm, TasksFollowTheShuffledOrderAndRepeatsFollowEachOther) {
  const std::vector<LoadedPoint> points = points_of({1, 2, 16}, 8);
  const std::vector<Execution> order{{.point = 2, .repeat = 1}, {.point = 1, .repeat = 1}, {.point = 0, .repeat = 1},
                                     {.point = 0, .repeat = 2}, {.point = 2, .repeat = 2}, {.point = 1, .repeat = 2}};
  const std::vector<SlurmArray> arrays = arrays_of(points, order, {0, 1, 2, 4, 5});  // run 3 is finished
  ASSERT_EQ(arrays.size(), 4u);
  std::vector<std::vector<int64_t>> repeats_nodes_and_first_runs, tasks;
  for (const SlurmArray& a : arrays) {
    repeats_nodes_and_first_runs.push_back({a.repeat, a.nodes, a.first_run});
    tasks.push_back(a.tasks);
  }
  EXPECT_EQ(repeats_nodes_and_first_runs,
            (std::vector<std::vector<int64_t>>{{1, 1, 0}, {1, 2, 0}, {2, 1, 3}, {2, 2, 3}}));
  EXPECT_EQ(tasks, (std::vector<std::vector<int64_t>>{{1, 2}, {0}, {2}, {1}}));
}

TEST(ScaleSlurm, IndicesAreWrittenAsRanges) {
  EXPECT_EQ(ranges_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(ranges_text({3}), "3");
}

TEST(ScaleSlurm, ScriptExecutesOneRunOfTheArray) {
  const Experiment e = parse_experiment("recipe: a.yaml\ndir: /runs/x\nranks: [4]\nrepeats: 2\nminutes: 5\n", "e.yaml");
  const std::vector<Execution> order{{.point = 0, .repeat = 1}, {.point = 0, .repeat = 2}};
  const std::string script =
      slurm_script(arrays_of(points_of({4}, 2), order, {1}).front(), e, "/bin/hexad", {"repeats=2"}, "/home/me");
  for (const char* line :
       {"#!/bin/bash\n", "#SBATCH --array=0\n", "#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=2\n",
        "#SBATCH --exclusive\n", "#SBATCH --time=9\n", "#SBATCH --signal=USR1@60\n",
        "#SBATCH --output=/runs/x/slurm-%A_%a.txt\n", "cd /home/me || exit 4\n",
        "\n/bin/hexad scale e.yaml repeats=2 --run \"$((SLURM_ARRAY_TASK_ID + 1))\"\n",
        "scontrol requeue \"$SLURM_JOB_ID\""})
    EXPECT_NE(script.find(line), std::string::npos) << line << "\nis not in\n" << script;
  for (const char* option : {"--cpus-per-task", "--gpus-per-node"}) EXPECT_EQ(script.find(option), std::string::npos);
}

TEST(ScaleSlurm, ScriptHasTheThreadsAndGpusOfItsPoints) {
  const Experiment e = parse_experiment("recipe: a.yaml\ndir: /runs/x\nranks: [4]\n", "e.yaml");
  std::vector<LoadedPoint> points = points_of({4, 8}, 8);
  points[0].recipe.train.threads = 3;
  points[1].recipe.train.threads = 2;
  points[1].recipe.device = device::DeviceKind::cuda;
  const std::string script = slurm_script(arrays_in_order(points).front(), e, "/bin/hexad", {}, "/home/me");
  for (const char* line : {"#SBATCH --cpus-per-task=3\n", "#SBATCH --gpus-per-node=8\n"})
    EXPECT_NE(script.find(line), std::string::npos) << line << "\nis not in\n" << script;
}

TEST(ScaleCost, NodeHoursCountWholeNodes) {
  const Experiment e =
      parse_experiment("recipe: a.yaml\ndir: x\nranks: [4]\nrepeats: 2\nminutes: 9.5\nsteps: 35\n", "e.yaml");
  EXPECT_EQ(nodes_of(point_of(9, 8)), 2);
  EXPECT_EQ(nodes_of(point_of(9, 0)), 1);
  EXPECT_DOUBLE_EQ(max_node_hours(e.config, point_of(9, 8)), 52.0 / 60);
  EXPECT_DOUBLE_EQ(*predicted_node_hours(e.config, {.step_seconds = 45}, point_of(9, 8)), 2);
  EXPECT_FALSE(predicted_node_hours(e.config, {}, point_of(9, 8)).has_value());
}

}  // namespace
}  // namespace hexad::scale
