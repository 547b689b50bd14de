#include "tools/check_cluster/findings.h"

#include <gtest/gtest.h>

#include "tests/check_cluster/made_up.h"

namespace hexad::check_cluster {
namespace {

using base::ExitCode;

// Expects a single finding with this code and kind, whose message contains all `parts`. Also expects `code` as the exit
// code of the findings.
void expect_finding(const std::vector<RankReport>& ranks, ExitCode code, const std::string& kind,
                    const std::vector<std::string>& parts, const Expectations& expected = {}) {
  const std::vector<Finding> findings = judge(ranks, expected);
  ASSERT_EQ(findings.size(), 1u) << (findings.empty() ? "none" : findings.back().message);
  EXPECT_EQ(findings[0].code, code);
  EXPECT_EQ(findings[0].kind, kind);
  for (const std::string& part : parts)
    EXPECT_NE(findings[0].message.find(part), std::string::npos) << part << " is not in " << findings[0].message;
  EXPECT_EQ(exit_code_of(findings), code);
}

TEST(Judge, HealthyClustersHaveNoFindings) {
  for (const auto& [nodes, ranks] : {std::pair{1, 1}, {1, 4}, {2, 1}, {2, 2}, {4, 2}, {5, 3}}) {
    const auto findings = judge(healthy_cluster(nodes, ranks), {});
    EXPECT_TRUE(findings.empty()) << nodes << " x " << ranks << ": " << findings[0].message;
    EXPECT_EQ(exit_code_of(findings), ExitCode::done);
  }
}

TEST(Judge, SlowRankIsNamedWithItsRate) {
  auto ranks = healthy_cluster(2, 2);
  ranks[3].product_rate /= 2.5;
  expect_finding(ranks, ExitCode::done, "rank", {"rank 3 (node b) computes at 8", "2.5 times slower"});
}

TEST(Judge, SlowMemoryIsNamed) {
  auto ranks = healthy_cluster(1, 2);
  ranks[0].copy_rate = ranks[1].copy_rate / 4;
  expect_finding(ranks, ExitCode::done, "rank", {"rank 0 (node a) copies memory at 2.5", "4.0 times slower"});
}

TEST(Judge, SlowLinkOfOnePairIsNamedInItsDirection) {
  auto ranks = healthy_cluster(4, 1);
  for (LinkFigure& link : ranks[1].links)
    if (link.to == 3) link.seconds *= 10;
  expect_finding(ranks, ExitCode::done, "link", {"from rank 1 (node b) to rank 3 (node d): ", "times slower than"});
}

TEST(Judge, NodeWithOnlySlowLinksIsNamedOnce) {
  auto ranks = healthy_cluster(4, 2);
  for (RankReport& rank : ranks)
    for (LinkFigure& link : rank.links)
      if (rank.node == 2 && link.to / 2 != 2) link.seconds *= 8;
  expect_finding(ranks, ExitCode::done, "link", {"node c sends slowly to all 3 other nodes", "8.1 times slower"});
}

TEST(Judge, NodeThatIsSlowInBothDirectionsIsNamedAmongThree) {
  auto ranks = healthy_cluster(3, 1);  // four of the six messages are slow
  for (RankReport& rank : ranks)
    for (LinkFigure& link : rank.links)
      if (rank.rank == 2 || link.to == 2) link.seconds *= 8;
  const auto findings = judge(ranks, {});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_NE(findings[0].message.find("node c sends slowly to all 2 other nodes: at most 1"), std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[1].message.find("node c receives slowly from all 2 other nodes: at most 1"), std::string::npos)
      << findings[1].message;
}

TEST(Judge, SlowReceiverIsNamed) {
  auto ranks = healthy_cluster(3, 1);
  for (RankReport& rank : ranks)
    for (LinkFigure& link : rank.links)
      if (link.to == 2) link.seconds *= 8;
  expect_finding(ranks, ExitCode::done, "link", {"node c receives slowly from all 2 other nodes"});
}

TEST(Judge, SlowDirectionBetweenTwoNodesIsNamed) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].links[0].seconds *= 5;
  expect_finding(ranks, ExitCode::done, "link", {"from rank 1 (node b) to rank 0 (node a)"});
}

TEST(Judge, HighLatencyIsNamed) {
  auto ranks = healthy_cluster(4, 1);
  for (LinkFigure& link : ranks[0].links)
    if (link.to == 2) link.latency = 1e-3;
  expect_finding(ranks, ExitCode::done, "link",
                 {"from rank 0 (node a) to rank 2 (node c): latency 1", "times that of"});
}

TEST(Judge, MicrosecondsOfLatencyAreNoFinding) {
  auto ranks = healthy_cluster(4, 1);
  for (LinkFigure& link : ranks[0].links) link.latency = 24e-6;
  EXPECT_TRUE(judge(ranks, {}).empty());
}

TEST(Judge, DamagedMessageIsACommunicationFailure) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].damaged_from = {0};
  expect_finding(ranks, ExitCode::communication, "link", {"rank 1 (node b) received other bytes than rank 0 sent"});
}

TEST(Judge, SlowGroupIsNamed) {
  auto ranks = healthy_cluster(3, 2);
  ranks[5].collectives[0].seconds = 0.01;
  expect_finding(ranks, ExitCode::done, "collective",
                 {"all_reduce of the group intra of 2 ranks that begins with rank 4 (node c) takes "});
}

TEST(Judge, TwoRanksOnOneCoreAreNamed) {
  auto ranks = healthy_cluster(2, 2);
  for (RankReport& rank : ranks) rank.facts.threads = 1;
  ranks[2].facts.cores = ranks[3].facts.cores = {1};
  expect_finding(ranks, ExitCode::done, "cores", {"ranks 2 and 3 of node b must share core 1"});
}

TEST(Judge, TwoRanksOnHyperthreadsOfOneCoreAreNamed) {
  auto ranks = healthy_cluster(2, 2);
  for (RankReport& rank : ranks) rank.facts.threads = 1;
  ranks[2].facts.cores = {0}, ranks[3].facts.cores = {4}, ranks[3].facts.hyperthreads = {{4, 0}};
  expect_finding(ranks, ExitCode::done, "cores", {"ranks 2 and 3 of node b run on hyperthreads of core 0 and "});
}

TEST(Judge, RanksWithWholeCoresOfTwoHyperthreadsAreNoFinding) {
  auto ranks = healthy_cluster(1, 2);
  ranks[0].facts.cores = {0, 2}, ranks[0].facts.hyperthreads = {{2, 0}};
  ranks[1].facts.cores = {1, 3}, ranks[1].facts.hyperthreads = {{3, 1}};
  EXPECT_TRUE(judge(ranks, {}).empty());
  for (RankReport& rank : ranks)  // the ranks are not bound; there are as many physical cores as ranks
    rank.facts.cores = {0, 1, 2, 3}, rank.facts.hyperthreads = {{2, 0}, {3, 1}};
  EXPECT_TRUE(judge(ranks, {}).empty());
}

TEST(Judge, RanksThatShareEnoughCoresAreNoFinding) {
  auto ranks = healthy_cluster(1, 2);
  for (RankReport& rank : ranks) rank.facts.cores = {0, 1}, rank.facts.threads = 1;
  EXPECT_TRUE(judge(ranks, {}).empty());
}

TEST(Judge, MoreThreadsThanCoresAreNamed) {
  auto ranks = healthy_cluster(1, 2);
  ranks[1].facts.threads = 5;
  expect_finding(ranks, ExitCode::done, "cores", {"rank 1 (node a) has 5 kernel threads", "train.threads=2"});
}

TEST(Judge, SmallQuotaOfANodeIsNamed) {
  auto ranks = healthy_cluster(1, 4);
  for (RankReport& rank : ranks) rank.facts.core_quota = 1.5;
  expect_finding(ranks, ExitCode::done, "cores", {"node a has 4 ranks", "time of 1.5 cores"});
}

TEST(Judge, UnequalNodesAreNamed) {
  auto ranks = healthy_cluster(2, 2);
  for (RankReport& rank : ranks) {
    rank.collectives.clear();
    std::erase_if(rank.links, [](const LinkFigure& link) { return link.to == 3; });
  }
  ranks.pop_back();
  expect_finding(ranks, ExitCode::done, "cores", {"nodes have 1 to 2 ranks"});
}

TEST(Judge, OtherLibraryIsNamed) {
  auto ranks = healthy_cluster(3, 1);
  ranks[2].facts.libraries[0] = "libmpi.so.40.40.0";
  expect_finding(ranks, ExitCode::done, "version",
                 {"rank 2 loaded libmpi.so.40.40.0, but ranks 0 and 1 loaded libmpi.so.40.30.4"});
}

TEST(Judge, TooLittleMemoryIsAResourceFailure) {
  const auto ranks = healthy_cluster(1, 2);
  expect_finding(ranks, ExitCode::resource, "memory",
                 {"node a has 32.0 GiB of free memory for each of 2 ranks", "40.0 GiB"},
                 {.card = false, .memory_bytes = 40.0 * (1 << 30)});
  expect_finding(healthy_cluster(1, 1), ExitCode::resource, "memory",
                 {"node a has 64.0 GiB of free memory for its only rank", "80.0 GiB"},
                 {.card = false, .memory_bytes = 80.0 * (1 << 30)});
}

TEST(Judge, NodeWithLessMemoryThanOthersIsNamed) {
  auto ranks = healthy_cluster(4, 1);
  ranks[2].facts.memory_available /= 8;
  expect_finding(ranks, ExitCode::done, "memory", {"node c has 8.00 GiB of free memory, 8.0 times less"});
}

TEST(Judge, MissingCardIsAFailureOnlyWhereCardsAreExpected) {
  const auto ranks = healthy_cluster(1, 2);
  EXPECT_TRUE(judge(ranks, {}).empty());
  expect_finding(ranks, ExitCode::resource, "gpu", {"no GPU for ranks 0 and 1", "no driver"}, {.card = true});
}

TEST(Judge, ProgramWithoutCudaIsAUsageFailureWhereCardsAreExpected) {
  auto ranks = healthy_cluster(1, 1);
  ranks[0].facts.card_exit_code = 2;
  expect_finding(ranks, ExitCode::usage, "gpu", {"no GPU for rank 0"}, {.card = true});
}

TEST(Judge, CardOfTwoRanksIsNamed) {
  auto ranks = healthy_cluster(2, 2);
  for (RankReport& rank : ranks) rank.facts.card = "a card", rank.facts.card_id = base::cat("id ", rank.rank);
  EXPECT_TRUE(judge(ranks, {.card = true}).empty());
  ranks[3].facts.card_id = ranks[2].facts.card_id;
  expect_finding(ranks, ExitCode::done, "gpu", {"ranks 2 and 3 of node b share one GPU"}, {.card = true});
}

TEST(Judge, TooLittleMemoryOfACardIsAResourceFailure) {
  auto ranks = healthy_cluster(1, 2);
  for (RankReport& rank : ranks) {
    rank.facts.card = "a card", rank.facts.card_id = base::cat("id ", rank.rank);
    rank.facts.card_memory = int64_t{80} << 30;
  }
  const Expectations expected{.card = true, .memory_bytes = 40.0 * (1 << 30)};  // more than the host has for each rank
  EXPECT_TRUE(judge(ranks, expected).empty());
  ranks[1].facts.card_memory = int64_t{30} << 30;
  expect_finding(ranks, ExitCode::resource, "memory",
                 {"the GPU of rank 1 of node a has 30.0 GiB of free memory per rank, expected at least 40.0 GiB"},
                 expected);
}

TEST(Judge, CardOnSomeRanksOnlyIsNamed) {
  auto ranks = healthy_cluster(1, 2);
  ranks[0].facts.card = "a card";
  expect_finding(ranks, ExitCode::done, "gpu", {"no GPU for rank 1"});
}

TEST(Judge, DifferentCardsAreNamed) {
  auto ranks = healthy_cluster(1, 2);
  ranks[0].facts.card = "a card", ranks[1].facts.card = "a slower card";
  expect_finding(ranks, ExitCode::done, "gpu", {"a card for rank 0; a slower card for rank 1"});
}

// Returns a healthy cluster with one GPU per rank.
std::vector<RankReport> cluster_with_cards(int nodes, int ranks_of_node) {
  auto ranks = healthy_cluster(nodes, ranks_of_node);
  for (RankReport& rank : ranks) {
    rank.facts.card = "a card", rank.facts.card_id = base::cat("id ", rank.rank);
    rank.facts.card_state = {.driver = "580.65.06",
                             .uncorrected_errors = 0,
                             .throttle_reasons = 0x5,  // idle, and the software's power cap
                             .temperature = 60,
                             .clock = 1900,
                             .highest_clock = 1980};
    rank.card_product_rate = 6e14 * (1 + 0.01 * (rank.rank % 3));
  }
  return ranks;
}

TEST(Judge, HealthyCardsHaveNoFindings) {
  EXPECT_TRUE(judge(cluster_with_cards(2, 2), {.card = true}).empty());
  auto ranks = cluster_with_cards(2, 2);
  for (RankReport& rank : ranks) rank.facts.card_state = {};  // NVML is missing
  EXPECT_TRUE(judge(ranks, {.card = true}).empty());
}

TEST(Judge, EccErrorsOfACardAreAResourceFailureWhereCardsAreExpected) {
  auto ranks = cluster_with_cards(2, 2);
  ranks[2].facts.card_state.uncorrected_errors = 3;
  const std::vector<std::string> parts{"the GPU of rank 2 (node b) has had 3 uncorrected ECC errors"};
  expect_finding(ranks, ExitCode::resource, "gpu", parts, {.card = true});
  expect_finding(ranks, ExitCode::done, "gpu", parts);
}

TEST(Judge, HotCardIsNamed) {
  for (const int64_t reason : {0x20, 0x40}) {
    auto ranks = cluster_with_cards(2, 2);
    ranks[1].facts.card_state.throttle_reasons = reason;
    ranks[1].facts.card_state.clock.reset();
    expect_finding(ranks, ExitCode::done, "gpu",
                   {"the GPU of rank 1 (node a) reduces its clock because of its temperature (temperature 60 C, SM "
                    "clock unknown, at most 1980 MHz)"},
                   {.card = true});
  }
}

TEST(Judge, PowerBrakeOfACardIsNamed) {
  auto ranks = cluster_with_cards(2, 2);
  ranks[3].facts.card_state.throttle_reasons = 0x80;
  expect_finding(ranks, ExitCode::done, "gpu", {"the GPU of rank 3 (node b)", "power brake"}, {.card = true});
}

TEST(Judge, SlowCardIsNamedAmongItsPeers) {
  auto ranks = cluster_with_cards(2, 2);
  ranks[3].card_product_rate /= 1.5;
  expect_finding(ranks, ExitCode::done, "gpu",
                 {"the GPU of rank 3 (node b) computes at 400", "1.5 times slower than the other GPUs"},
                 {.card = true});
}

TEST(Judge, OtherDriverOfACardIsNamed) {
  auto ranks = cluster_with_cards(2, 1);
  ranks[1].facts.card_state.driver = "570.1";
  expect_finding(ranks, ExitCode::done, "version",
                 {"the driver of the GPU differs: ", "570.1 on rank 1", "580.65.06 on rank 0"}, {.card = true});
}

TEST(Judge, ClockThatIsBehindIsNamed) {
  auto ranks = healthy_cluster(2, 2);
  ranks[2].clock_offset = -75;
  expect_finding(ranks, ExitCode::done, "clock", {"the clock of node b is 1 min 15 s behind that of node a"});
}

TEST(Judge, UncertainClockIsNoFinding) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].clock_offset = 3, ranks[1].clock_error = 2.5;
  EXPECT_TRUE(judge(ranks, {}).empty());
}

TEST(Judge, FolderThatIsNotSharedIsAResourceFailure) {
  auto ranks = healthy_cluster(3, 1);
  ranks[1].folder->missing = {0, 2};
  expect_finding(ranks, ExitCode::resource, "folder", {"rank 1 (node b) did not see the new files of ranks 0 and 2"});
}

TEST(Judge, FolderThatCannotBeUsedIsAResourceFailure) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].folder->error = "/shared: read-only";
  expect_finding(ranks, ExitCode::resource, "folder", {"rank 1 (node b): /shared: read-only"});
}

TEST(Judge, WriteErrorOfOneRankIsNotBlamedOnSharing) {
  auto ranks = healthy_cluster(4, 1);
  ranks[1].folder->error = "/shared/rank-1.new: cannot be written and flushed: File too large";
  ranks[0].folder->missing = ranks[2].folder->missing = {1};
  ranks[3].folder->stale = {1};
  expect_finding(ranks, ExitCode::resource, "folder", {"rank 1 (node b): /shared/rank-1.new: cannot be written"});
  ranks[0].folder->missing = {1, 2};  // rank 2 has written its file, so the folder is not shared
  const auto findings = judge(ranks, {});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_NE(findings[0].message.find("rank 0 (node a) did not see the new file of rank 2 within "), std::string::npos)
      << findings[0].message;
}

TEST(Judge, OldAndTornContentsAreResourceFailures) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].folder->stale = {0};
  expect_finding(ranks, ExitCode::resource, "folder", {"rank 1 (node b) still sees the old contents"});
  ranks[1].folder->stale = {}, ranks[1].folder->torn = {0};
  expect_finding(ranks, ExitCode::resource, "folder", {"rename is not atomic"});
}

TEST(Judge, StaleFileSystemIsNamed) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].folder->stale_seconds = 2.5;
  expect_finding(ranks, ExitCode::done, "folder", {"stale on rank 1 (node b)", "replaced files after 2.5"});
}

TEST(Judge, LockWithoutEffectIsNamed) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].folder->lock_ignored = true;
  expect_finding(ranks, ExitCode::done, "folder", {"rank 1 (node b) got a lock (flock) that rank 0 (node a) holds"});
}

TEST(Judge, MissingLocksAreNamed) {
  auto ranks = healthy_cluster(2, 1);
  ranks[0].folder->lock_error = "No locks available";
  expect_finding(ranks, ExitCode::done, "folder", {"rank 0 (node a) cannot lock files (flock): No locks available"});
  ranks[1].folder->lock_ignored = true;  // no finding: rank 0 holds no lock that rank 1 could ignore
  EXPECT_EQ(judge(ranks, {}).size(), 1u);
}

TEST(Judge, SlowDiskIsNamed) {
  auto ranks = healthy_cluster(3, 1);
  ranks[2].folder->write_seconds = 0.5;
  expect_finding(ranks, ExitCode::done, "folder", {"rank 2 (node c) takes 500 ms", "as long as other nodes"});
}

TEST(Judge, FullDiskIsNamed) {
  auto ranks = healthy_cluster(1, 1);
  ranks[0].folder->free_bytes = 1 << 20;
  expect_finding(ranks, ExitCode::done, "folder", {"rank 0 (node a) sees only 1.00 MiB of free disk space"});
}

TEST(ExitCodeOf, LowestFailureDecides) {
  const auto finding = [](ExitCode code) {
    Finding f;
    f.code = code;
    return f;
  };
  EXPECT_EQ(exit_code_of({finding(ExitCode::done), finding(ExitCode::communication), finding(ExitCode::resource)}),
            ExitCode::resource);
}

TEST(NamesOf, LongListsAreShortened) {
  EXPECT_EQ(names_of({4}), "rank 4");
  EXPECT_EQ(names_of({4, 5}), "ranks 4 and 5");
  EXPECT_EQ(names_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace hexad::check_cluster
