// Number of cores of a rank, and the warning if the ranks of a node have more threads than cores.
#include "tools/train/process/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "parallel/comm/thread_group.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::train {
namespace {

CoreMask cores(std::initializer_list<size_t> list) {
  CoreMask mask;
  for (size_t core : list) mask.set(core);
  return mask;
}

TEST(Cores, AreDividedAmongTheirRanks) {
  const CoreMask four = cores({0, 1, 2, 3});
  EXPECT_EQ(share_cores({four}, 0, {}), (Cores{1, 4, 4}));
  EXPECT_EQ(share_cores({four, four}, 1, {}), (Cores{2, 4, 2}));
  EXPECT_EQ(share_cores({four, four, four}, 2, {}), (Cores{3, 4, 1}));
  EXPECT_EQ(share_cores({four, four, four, four, four}, 0, {}), (Cores{5, 4, 1})) << "each rank gets at least one core";
}

TEST(Cores, HaveTheNumberOfTheirFirstProcessor) {
  const telemetry::TemporaryFolder folder;
  for (const auto& [processor, siblings] : {std::pair(4, "0,4"), std::pair(3, "2-3"), std::pair(2, "2-3")}) {
    const std::filesystem::path topology = folder / base::cat("cpu", processor, "/topology");
    std::filesystem::create_directories(topology);
    std::ofstream(topology / "thread_siblings_list") << siblings << '\n';
  }
  EXPECT_EQ(core_of(4, folder / ""), 0);
  EXPECT_EQ(core_of(3, folder / ""), 2);
  EXPECT_EQ(core_of(2, folder / ""), 2);
  EXPECT_EQ(core_of(7, folder / ""), 7) << "there is no file for this processor";
}

TEST(Cores, BelongToTheRanksBoundToThem) {
  EXPECT_EQ(share_cores({cores({0, 1}), cores({2, 3})}, 0, {}), (Cores{2, 4, 2}));
  const CoreMask left = cores({0, 1, 2, 3}), right = cores({64, 65, 66, 67, 1023});
  EXPECT_EQ(share_cores({left, left, right, right}, 1, {}), (Cores{4, 9, 2}));
  EXPECT_EQ(share_cores({left, left, right}, 2, {}), (Cores{3, 9, 5}));
  EXPECT_EQ(share_cores({cores({0, 1, 2}), cores({2})}, 0, {}), (Cores{2, 3, 2})) << "2.5 cores are rounded down";
}

TEST(Cores, AreAtMostTheQuotaOfTheControlGroup) {
  const CoreMask four = cores({0, 1, 2, 3});
  EXPECT_EQ(share_cores({four}, 0, 2.5), (Cores{1, 2, 2}));
  EXPECT_EQ(share_cores({four, four}, 0, 2.5), (Cores{2, 2, 1}));
  EXPECT_EQ(share_cores({four}, 0, 0.5), (Cores{1, 1, 1}));
  EXPECT_EQ(share_cores({four}, 0, 9), (Cores{1, 4, 4}));
}

TEST(Cores, AreSharedByTheRanksOfANode) {
  comm::with_ranks(4,
                   [](const comm::ProcessGroup& world) {
                     const Cores here = find_cores(world);
                     EXPECT_EQ(here.ranks, world.rank() == 2 ? 1 : 3);
                     EXPECT_LE(here.rank_cores, here.node_cores);
                   },
                   {.node_of_rank = {0, 0, 1, 0}});
}

class ControlGroups : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hexad-cores-XXXXXX";
    root_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  std::optional<double> quota(const std::string& membership) const {
    write("membership", membership);
    return control_group_quota(root_ / "membership", root_);
  }

  std::filesystem::path root_;
};

TEST_F(ControlGroups, GrantTheTightestQuota) {
  EXPECT_EQ(quota("0::/job/step"), std::nullopt) << "no control group is mounted";
  write("job/step/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/job/step"), std::nullopt);
  write("job/cpu.max", "150000 100000");
  EXPECT_EQ(quota("0::/job/step"), 1.5);
  write("job/step/cpu.max", "300000 100000");
  EXPECT_EQ(quota("0::/job/step"), 1.5);
  EXPECT_EQ(quota("0::/other"), std::nullopt);
}

TEST_F(ControlGroups, ContainersMountThemWithoutTheirPath) {
  write("cpu.max", "200000 100000");
  EXPECT_EQ(quota("0::/system.slice/docker-1234"), 2);
}

TEST_F(ControlGroups, MayBeOfVersionOne) {
  write("cpu/job/cpu.cfs_quota_us", "-1");
  write("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("4:memory:/job\n1:cpu,cpuacct:/job\n0::/"), std::nullopt);
  write("cpu/job/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(quota("4:memory:/job\n1:cpu,cpuacct:/job\n0::/"), 0.5);
  EXPECT_EQ(quota("2:cpuacct:/job"), std::nullopt);
}

TEST(Threads, CauseNoWarningIfThereAreEnoughCores) {
  EXPECT_EQ(warn_of_threads({.ranks = 1, .node_cores = 4, .rank_cores = 4}, 4), "");
  EXPECT_EQ(warn_of_threads({.ranks = 2, .node_cores = 4, .rank_cores = 2}, 2), "");
}

TEST(Threads, AreReportedWithNumbersAndKeyIfCoresAreTooFew) {
  EXPECT_EQ(warn_of_threads({.ranks = 2, .node_cores = 4, .rank_cores = 2}, 4),
            "2 ranks x 4 kernel threads share 4 cores of this node and will wait for each other: set "
            "train.threads=2");
  EXPECT_EQ(warn_of_threads({.ranks = 4, .node_cores = 2, .rank_cores = 1}, 1),
            "4 ranks x 1 kernel thread share 2 cores of this node and will wait for each other: start at most 2 "
            "ranks on this node");
  EXPECT_EQ(warn_of_threads({.ranks = 1, .node_cores = 1, .rank_cores = 1}, 2),
            "1 rank x 2 kernel threads share 1 core of this node and will wait for each other: set "
            "train.threads=1");
}

}  // namespace
}  // namespace hexad::train
