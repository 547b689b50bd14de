#include "tools/check_cluster/check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "framework/device/context.h"
#include "parallel/comm/thread_group.h"
#include "tests/telemetry/temporary_folder.h"
#include "tools/check_cluster/measurements.h"

namespace hexad::check_cluster {
namespace {

using telemetry::TemporaryFolder;

comm::ThreadOptions on_nodes(std::vector<int> node_of_rank) {
  comm::ThreadOptions options;
  options.node_of_rank = std::move(node_of_rank);
  return options;
}

// Runs a short check. Returns the reports that rank 0 gets.
std::vector<RankReport> checked(const std::vector<int>& node_of_rank, const std::string& folder) {
  std::vector<RankReport> reports;
  comm::with_ranks(
      static_cast<int>(node_of_rank.size()),
      [&](const comm::ProcessGroup& world) {
        CheckOptions options;
        options.seconds = 0.5;
        options.folder = folder;
        options.host = base::cat("n", node_of_rank[world.rank()]);
        auto measured = measure_cluster(world, options);
        if (world.rank() == 0) {
          reports = std::move(measured);
        } else {
          EXPECT_TRUE(measured.empty());
        }
      },
      on_nodes(node_of_rank));
  return reports;
}

TEST(MeasureCluster, EveryRankMeasuresItsSpeedLinksAndGroups) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "shared");
  const auto reports = checked({0, 0, 1, 1}, (folder / "shared").string());
  ASSERT_EQ(reports.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const RankReport& r = reports[rank];
    EXPECT_EQ(r.rank, rank);
    EXPECT_EQ(r.facts.host, base::cat("n", rank / 2));
    EXPECT_GT(r.product_rate, 0);
    EXPECT_GT(r.copy_rate, 0);
    EXPECT_FALSE(r.facts.binary.empty());
    EXPECT_FALSE(r.facts.cores.empty());
    ASSERT_EQ(r.links.size(), 2u);  // the other rank of the node, and the rank with the same index on the other node
    for (const LinkFigure& link : r.links) {
      EXPECT_GT(link.seconds, 0);
      EXPECT_GT(link.latency, 0);
      EXPECT_GE(link.bytes, 256 << 10);
    }
    EXPECT_TRUE(r.damaged_from.empty());
    EXPECT_EQ(r.collectives.size(), 12u);  // four collectives in each of the groups intra, inter and all
    EXPECT_EQ(r.folder.has_value(), rank % 2 == 0);
    EXPECT_EQ(r.clock_offset.has_value(), rank % 2 == 0);
  }
  EXPECT_LT(std::abs(*reports[2].clock_offset), 1);  // threads share a clock
}

TEST(MeasureCluster, UnequalNodesAndSingleRanksAreMeasured) {
  const auto reports = checked({0, 0, 1}, "");
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[1].links.size(), 1u);
  EXPECT_EQ(reports[2].links.size(), 1u);
  EXPECT_FALSE(reports[0].folder);
  // The node of rank 2 has no other rank, and unequal nodes have no inter groups. Only the group of all ranks remains.
  EXPECT_EQ(reports[2].collectives.size(), 4u);
  const auto alone = checked({0}, "");
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(alone[0].links.empty());
  EXPECT_TRUE(alone[0].collectives.empty());
}

TEST(MeasureCardRate, RanksWithoutACardWaitForTheOthers) {
  std::vector<RankReport> reports(2);
  reports[0].facts.card = "a card";
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    device::ContextOptions options;
    options.kind = device::DeviceKind::emulated;
    measure_card_rate(reports[world.rank()], world, context, options);
  });
  EXPECT_GT(reports[0].card_product_rate, 0);
  EXPECT_EQ(reports[0].facts.card, "a card");
  EXPECT_EQ(reports[1].card_product_rate, 0);
  EXPECT_EQ(reports[1].facts.card_error, "");
}

// Checks a folder with one rank on each node. Returns the figures of the ranks.
std::vector<std::optional<FolderFigure>> folder_checked(int nodes, const std::string& folder) {
  std::vector<std::optional<FolderFigure>> figures(nodes);
  std::vector<int> node_of_rank;
  for (int node = 0; node < nodes; ++node) node_of_rank.push_back(node);
  comm::with_ranks(
      nodes,
      [&](const comm::ProcessGroup& world) {
        device::DeviceContext context;
        RankReport report;
        check_folder(report, world, context, folder, 5);
        figures[world.rank()] = report.folder;
      },
      on_nodes(node_of_rank));
  return figures;
}

TEST(CheckFolder, LocalFolderPassesAndIsLeftEmpty) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "shared");
  for (const auto& figure : folder_checked(3, (folder / "shared").string())) {
    const FolderFigure& f = figure.value();
    EXPECT_EQ(f.error, "");
    EXPECT_TRUE(f.missing.empty());
    EXPECT_TRUE(f.stale.empty());
    EXPECT_TRUE(f.torn.empty());
    EXPECT_FALSE(f.lock_ignored);
    EXPECT_EQ(f.lock_error, "");
    EXPECT_GT(f.write_seconds, 0);
    EXPECT_GT(f.free_bytes, 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "shared"));
}

TEST(CheckFolder, MissingFolderIsAnErrorOfRankZeroOnly) {
  const TemporaryFolder folder;
  const auto figures = folder_checked(2, (folder / "nowhere").string());
  ASSERT_TRUE(figures[0]);
  EXPECT_NE(figures[0]->error.find("nowhere"), std::string::npos) << figures[0]->error;
  EXPECT_FALSE(figures[1]);
}

TEST(CheckFolder, FolderOfAnInterruptedCheckIsNoObstacle) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "shared");
  std::filesystem::create_directory(folder / base::cat("shared/.hexad-check-", ::getpid()));
  for (const auto& figure : folder_checked(2, (folder / "shared").string())) EXPECT_EQ(figure.value().error, "");
}

}  // namespace
}  // namespace hexad::check_cluster
