#include "tools/scale/room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "framework/base/error.h"
#include "parallel/comm/mpi_library.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

using Names = std::vector<std::string>;

LoadedPoint point(int64_t ranks, std::optional<int64_t> threads = 1, int64_t ranks_per_node = 0) {
  LoadedPoint loaded;
  loaded.point.name = base::cat("ranks-", ranks);
  loaded.point.ranks = ranks;
  loaded.point.ranks_per_node = ranks_per_node;
  loaded.recipe.train.threads = threads;
  return loaded;
}

// Experiment with two runs at once, in a room of 8 cores and 1000 bytes of memory.
struct Case {
  ExperimentConfig config{};
  std::vector<LoadedPoint> points{point(1), point(4)};
  std::vector<PointForecast> forecasts{{.memory_bytes = 100}, {.memory_bytes = 100}};
  Room room{.kind = Room::Kind::cores, .places = {"0", "1", "2", "3", "4", "5", "6", "7"}, .memory_bytes = 1000};

  Case() { config.at_once = 2; }
  std::string problem() const { return problem_of_room(config, points, forecasts, room); }
  void expect_problem(const std::string& part) const {
    EXPECT_NE(problem().find(part), std::string::npos) << part << "\nis not in\n" << problem();
  }
};

TEST(ScaleRoom, PointsWithSeparateCoresAreAccepted) {
  EXPECT_EQ(Case().problem(), "");
  EXPECT_EQ(places_of(point(4, 3), Room::Kind::cores), 12);
  EXPECT_EQ(places_of(point(5, 3, 2), Room::Kind::nodes), 3);
}

TEST(ScaleRoom, RunsThatCannotRunAtOnceAreRefusedWithTheReason) {
  Case launcher;
  launcher.config.launcher = "two_nodes.sh";
  launcher.expect_problem("cannot be more than 1 with a launcher of the experiment");
  Case threads;
  threads.points[1] = point(4, std::nullopt);
  threads.expect_problem(
      "(train.threads), because each run has separate cores; train.threads is auto in point ranks-4");
  Case cuda;
  cuda.points[0].recipe.device = device::DeviceKind::cuda;
  cuda.expect_problem("runs would share GPUs");
  Case links;
  links.points[1] = point(4, 1, 2);
  links.expect_problem("runs would share the links of the 2 nodes of point ranks-4");
  Case large;
  large.points[1] = point(4, 3);
  large.expect_problem("point ranks-4 needs 12 cores, but there are 8");
  Case pair;
  pair.points = {point(5), point(4)};
  pair.expect_problem("the smallest points need 4 and 5 cores, but there are only 8");
  Case alone;
  alone.points = {point(1)};
  alone.expect_problem("there is only one point");
  Case memory;
  memory.forecasts[1].memory_bytes = 300;
  memory.expect_problem("the tensors of the largest 2 points need ");
}

TEST(ScaleRoom, SeparateNodesNeedANumberOfRanksPerNode) {
  Case nodes;
  nodes.room = {.kind = Room::Kind::nodes, .places = {"a", "b", "c"}};
  nodes.expect_problem("needs ranks_per_node or a cluster file");
  nodes.points[0] = point(1, 1, 2);
  nodes.points[1] = point(4, std::nullopt, 2);  // threads matter only on shared nodes
  EXPECT_EQ(nodes.problem(), "");
  nodes.room.places.pop_back();
  nodes.expect_problem("the smallest points need 1 and 2 nodes, but there are only 2");
}

TEST(ScaleCores, AreSharedIfOneMachineHasMoreRanks) {
  EXPECT_EQ(shared_cores(point(2).point, 2), 0);
  EXPECT_EQ(shared_cores(point(4).point, 2), 2);
  EXPECT_EQ(shared_cores(point(4, 1, 2).point, 2), 0);
  Point other = point(4).point;
  other.launcher = "two_nodes.sh";
  EXPECT_EQ(shared_cores(other, 2), 0);
}

TEST(ScalePlaces, AreTakenByOneRunAtATime) {
  Places places({"a", "b", "c"});
  EXPECT_EQ(places.take(2), (Names{"a", "b"}));
  EXPECT_FALSE(places.take(2).has_value());
  EXPECT_EQ(places.take(1), (Names{"c"}));
  places.give_back({"b"});
  EXPECT_EQ(places.take(1), (Names{"b"}));
  EXPECT_EQ(places.take(0), Names());
  places.give_back({"c", "a", "b"});
  EXPECT_EQ(places.take(3), (Names{"a", "b", "c"}));
}

TEST(ScaleHosts, SlurmListIsExpanded) {
  EXPECT_EQ(hosts_of("n0"), (Names{"n0"}));
  EXPECT_EQ(hosts_of("n[0-2,07],login"), (Names{"n0", "n1", "n2", "n07", "login"}));
  EXPECT_EQ(hosts_of("n[08-11]"), (Names{"n08", "n09", "n10", "n11"}));
  EXPECT_EQ(hosts_of("r[1-2]n[3,5]x"), (Names{"r1n3x", "r1n5x", "r2n3x", "r2n5x"}));
  EXPECT_EQ(hosts_of(""), Names());
}

TEST(ScaleCores, HaveAllTheirProcessors) {
  const telemetry::TemporaryFolder folder;
  for (const auto& [processor, siblings] : {std::pair(0, "0,4"), std::pair(4, "0,4"), std::pair(1, "1,5")}) {
    const std::filesystem::path topology = folder / base::cat("cpu", processor, "/topology");
    std::filesystem::create_directories(topology);
    telemetry::write_text(topology / "thread_siblings_list", base::cat(siblings, "\n"));
  }
  EXPECT_EQ(cores_of({0, 1, 4, 6}, folder / ""), (Names{"0,4", "1", "6"}));
}

TEST(ScaleLauncher, DoesNotBindRanksToCores) {
  unsetenv("SLURM_JOB_ID");
  const Names words = launcher_alone(point(1, 2).point);
  if (comm::mpi_library().family == comm::MpiFamily::open_mpi) {
    EXPECT_EQ(Names(words.end() - 2, words.end()), (Names{"--bind-to", "none"}));
  }
  Point other = point(1).point;
  other.launcher = "sh start";
  EXPECT_EQ(launcher_alone(other), (Names{"sh", "start"}));
}

TEST(ScaleLauncher, TakesTheNodesThatThePointNeeds) {
  setenv("SLURM_JOB_ID", "7", 1);
  const Names words = launcher_alone(point(4, 1, 2).point);
  EXPECT_EQ(words.front(), "srun");
  EXPECT_EQ(Names(words.end() - 2, words.end()), (Names{"-N", "2"}));
  const Names unknown = launcher_alone(point(4).point);
  EXPECT_EQ(std::ranges::find(unknown, "-N"), unknown.end());
  unsetenv("SLURM_JOB_ID");
}

TEST(ScaleLauncher, StaysOnThePlacesOfTheRun) {
  unsetenv("SLURM_JOB_ID");
  const Names words = launcher_on(Room::Kind::cores, {"0,4", "1"}, 2);
  EXPECT_EQ(Names(words.begin(), words.begin() + 3), (Names{"taskset", "-c", "0,4,1"}));
  if (comm::mpi_library().family == comm::MpiFamily::open_mpi) {
    EXPECT_EQ(Names(words.end() - 2, words.end()), (Names{"--bind-to", "none"}));
  }
  setenv("SLURM_JOB_ID", "7", 1);
  const Names steps = launcher_on(Room::Kind::nodes, {"n1", "n3"}, 4);
  EXPECT_EQ(steps.front(), "srun");
  EXPECT_EQ(Names(steps.end() - 3, steps.end()), (Names{"-N", "2", "--nodelist=n1,n3"}));
  unsetenv("SLURM_JOB_ID");
}

}  // namespace
}  // namespace hexad::scale
