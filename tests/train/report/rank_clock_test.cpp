// Times and traffic of the ranks in a step.
#include "tools/train/report/rank_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "parallel/comm/world.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
namespace {

constexpr int ranks = 4;

// Reports of one rank: metrics, the warnings of all steps, and a summary.
struct Reported {
  telemetry::StepMetrics metrics;  // metrics of the last step
  std::vector<std::string> warnings;
  std::string summary;
};

// Runs `steps` steps on four ranks. Calls `work` in each step with a group of class dp. Returns the reports of each
// rank.
std::vector<Reported> report_of(int steps, const std::function<void(const comm::ProcessGroup& dp)>& work) {
  std::vector<Reported> reports(ranks);
  on_ranks(ranks, [&](const comm::ProcessGroup& threads) {
    const comm::World world(threads);
    const mesh::Mesh mesh(world.group(), {.dp = ranks});
    const auto dp = world.group().split(0, world.rank(), comm::TrafficClass::dp, "dp of the test");
    device::DeviceContext host;
    RankClock clock(world.group(), world.topology(), mesh);
    Reported& mine = reports[world.rank()];
    for (int step = 0; step < steps; ++step) {
      clock.begin();
      work(*dp);
      clock.end();
      mine.metrics = {};
      for (const std::string& text : clock.report(mine.metrics, host)) mine.warnings.push_back(text);
    }
    mine.summary = clock.summary();
  });
  return reports;
}

TEST(RankClock, EveryRankGetsTheTimesAndTheTrafficOfAllRanks) {
  const std::vector<Reported> reports = report_of(1, [](const comm::ProcessGroup& dp) {
    device::DeviceContext host;
    dp.all_reduce_value(1, comm::Reduce::sum, host);
  });
  const telemetry::StepMetrics& first = reports.front().metrics;
  ASSERT_TRUE(first.ranks);
  ASSERT_EQ(first.ranks->slowest.size(), static_cast<size_t>(ranks));
  EXPECT_EQ(first.ranks->slowest.front().own_seconds, first.ranks->own_seconds.most);
  EXPECT_GT(first.comm.at("dp").bytes, 0);
  for (const Reported& report : reports) {
    EXPECT_EQ(report.metrics.ranks, first.ranks);
    EXPECT_EQ(report.metrics.comm.at("dp").bytes, first.comm.at("dp").bytes);
    EXPECT_LE(report.metrics.step_seconds, first.ranks->step_seconds.most + 1e-8);
    EXPECT_GE(report.metrics.step_seconds, first.ranks->step_seconds.least);
    EXPECT_EQ(report.summary.empty(), &report != &reports.front()) << "only rank 0 has the times of all ranks";
  }
}

TEST(RankClock, EveryRankWarnsOfTheSameSlowRanksAtTheEndOfAWindow) {
  const auto slow = [](const comm::ProcessGroup& dp) {
    if (dp.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const std::vector<Reported> reports = report_of(telemetry::SlowRanks::window, slow);
  for (const Reported& report : reports) EXPECT_EQ(report.warnings, reports.front().warnings);
  EXPECT_TRUE(std::ranges::any_of(reports.front().warnings, [](const std::string& text) {
    return text.starts_with("rank 1") && text.find(" is slow: ") != std::string::npos;
  }));
  for (const Reported& report : report_of(telemetry::SlowRanks::window - 1, slow)) EXPECT_TRUE(report.warnings.empty());
}

}  // namespace
}  // namespace hexad::tests
