// Times of handwritten steps, which can be checked by hand.
#include "tools/plan/step_simulation.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hexad::tests {

using namespace plan;

namespace {

using comm::TrafficClass;
using device::CommunicationWork;
using device::Issue;
using device::Lane;

// Returns the seconds of an issue. The number of seconds is the bytes of a kernel, or the bytes that a communication
// sends.
double price(const StepRecord&, const Issue& issue) {
  if (const auto* work = std::get_if<CommunicationWork>(&issue.work)) return static_cast<double>(work->sent);
  return static_cast<double>(std::get<device::MemoryWork>(issue.work).bytes);
}

class Step {
 public:
  explicit Step(int rank) { record_.rank = rank; }
  int32_t kernel(int64_t seconds, std::vector<int32_t> after = {}, Lane lane = Lane::compute) {
    return add({"pointwise", "add", lane, device::MemoryWork{seconds}, -1, std::move(after)});
  }
  int32_t collective(int group, int64_t seconds, std::vector<int32_t> after = {}) {
    return add({"comm", "all_to_all", Lane::compute, CommunicationWork{group, seconds, seconds}, -1, std::move(after)});
  }
  int32_t message(std::string_view kind, int group, int peer, int64_t seconds, std::vector<int32_t> after = {}) {
    const int64_t sent = kind == "send" ? seconds : 0;
    return add({"comm", kind, Lane::compute, CommunicationWork{group, sent, seconds, peer}, -1, std::move(after)});
  }
  int group(const std::string& name, TrafficClass traffic, std::vector<int> ranks) {
    const auto at = std::ranges::find(ranks, record_.rank) - ranks.begin();
    record_.groups.push_back({name, static_cast<int>(traffic), std::move(ranks), static_cast<int>(at)});
    return static_cast<int>(record_.groups.size()) - 1;
  }
  const StepRecord& record() const { return record_; }

 private:
  int32_t add(Issue issue) {
    record_.issues.push_back(std::move(issue));
    return static_cast<int32_t>(record_.issues.size()) - 1;
  }
  StepRecord record_{};
};

constexpr std::array<int, comm::traffic_class_count> in_order{0, 1, 2, 3, 4, 5};

SimulatedStep simulated(const std::vector<Step>& steps, const std::vector<int>& nodes, const StepContention& c = {}) {
  std::vector<StepRecord> records;
  for (const Step& s : steps) records.push_back(s.record());
  return simulate_step(records, nodes, price, c);
}

double exposed(const SimulatedRank& rank, TrafficClass traffic) { return rank.exposed[base::ordinal(traffic)]; }

TEST(StepSimulation, ShortKernelsWaitUntilTheHostHasIssuedThem) {
  Step step(0);
  for (int i = 0; i < 4; ++i) step.kernel(1);
  EXPECT_DOUBLE_EQ(simulated({step}, {0}, {.issuing = 3}).seconds, 4 * 3 + 1) << "the last kernel is issued at 12";
  EXPECT_DOUBLE_EQ(simulated({step}, {0}, {.issuing = 0.5}).seconds, 0.5 + 4) << "only the first kernel waits";
  EXPECT_DOUBLE_EQ(simulated({step}, {0}).seconds, 4);
}

TEST(StepSimulation, RunsAgainWithOtherPrices) {
  Step stages[]{Step(0), Step(1)};
  for (Step& s : stages) {
    const int group = s.group("dp", TrafficClass::dp, {0, 1});
    const int32_t sum = s.collective(group, 4, {s.kernel(2)});
    s.kernel(3), s.kernel(1, {sum});
  }
  const std::vector<StepRecord> records{stages[0].record(), stages[1].record()};
  const std::vector<int> nodes{0, 0};
  const StepContention contention{.issuing = 0.5};
  StepSimulation simulation(records, nodes, contention);
  for (const double factor : {1.0, 3.0, 0.1, 1.0}) {
    SCOPED_TRACE(factor);
    const auto scaled = [&](const StepRecord& r, const Issue& issue) { return factor * price(r, issue); };
    const SimulatedStep expected = simulate_step(records, nodes, scaled, contention), again = simulation.run(scaled);
    EXPECT_EQ(again.seconds, expected.seconds);
    for (size_t r = 0; r < records.size(); ++r)
      for (size_t i = 0; i < records[r].issues.size(); ++i) {
        EXPECT_EQ(again.ranks[r].times[i].begin, expected.ranks[r].times[i].begin);
        EXPECT_EQ(again.ranks[r].times[i].end, expected.ranks[r].times[i].end);
      }
  }
}

TEST(StepSimulation, TheHostIssuesShortKernelsDuringALongOne) {
  Step step(0);
  step.kernel(10);
  for (int i = 0; i < 3; ++i) step.kernel(1);
  EXPECT_DOUBLE_EQ(simulated({step}, {0}, {.issuing = 3}).seconds, 3 + 10 + 3);
}

TEST(StepSimulation, HostIssuesTheNextKernelAfterItHasWaitedForItsDevice) {
  Step step(0);
  const int32_t read = step.kernel(10);
  step.kernel(1, {read});  // the host has waited for the first kernel
  step.kernel(1);
  EXPECT_DOUBLE_EQ(simulated({step}, {0}, {.issuing = 3}).seconds, 3 + 10 + 3 + 3 + 1);
}

TEST(StepSimulation, CommunicationBeginsOnceTheHostHasIssuedIt) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1});
  s.kernel(1);
  const int32_t made = s.kernel(1);
  const int32_t rows = s.collective(ep, 5, {made});
  s.kernel(1, {rows});
  const SimulatedStep step = simulated({s}, {0, 0}, {.issuing = 3});
  EXPECT_DOUBLE_EQ(step.ranks[0].times[2].begin, 9) << "the rows are ready at 7, but the host issues three operations";
  EXPECT_DOUBLE_EQ(step.seconds, 9 + 5 + 1);
  EXPECT_DOUBLE_EQ(step.ranks[0].idle, 2) << "nothing is in flight before the host has issued it";
  EXPECT_DOUBLE_EQ(exposed(step.ranks[0], TrafficClass::ep), 5);
}

TEST(StepSimulation, TheHostIssuesCommunicationDuringEarlierCommunication) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1});
  const int32_t made = s.kernel(1);
  s.collective(ep, 5, {made});
  s.collective(ep, 1, {made});
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0}, {.issuing = 3}).seconds, 6 + 5 + 1);
}

TEST(StepSimulation, CollectiveWaitsForTheRankWhoseHostIsLate) {
  Step first(0), second(1);
  const int of_first = first.group("ep", TrafficClass::ep, {0, 1});
  const int of_second = second.group("ep", TrafficClass::ep, {0, 1});
  for (int i = 0; i < 3; ++i) first.kernel(1);
  first.collective(of_first, 5, {2});
  second.collective(of_second, 5);
  const SimulatedStep step = simulated({first, second}, {0, 0}, {.issuing = 3});
  EXPECT_DOUBLE_EQ(step.ranks[0].times[3].begin, 12);
  EXPECT_DOUBLE_EQ(step.ranks[1].times[0].begin, 3);
  EXPECT_DOUBLE_EQ(step.seconds, 12 + 5);
}

TEST(StepSimulation, RunsCommunicationConcurrentlyWithKernels) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1});
  const int32_t made = s.kernel(2);
  const int32_t rows = s.collective(ep, 5, {made});
  s.kernel(3);
  s.kernel(1, {rows});
  const SimulatedStep step = simulated({s}, {0, 0});
  EXPECT_DOUBLE_EQ(step.seconds, 8);
  EXPECT_DOUBLE_EQ(step.ranks[0].busy, 6);
  EXPECT_DOUBLE_EQ(exposed(step.ranks[0], TrafficClass::ep), 2);
  EXPECT_DOUBLE_EQ(step.ranks[0].idle, 0);
  EXPECT_DOUBLE_EQ(step.ranks[0].times[3].begin, 7);
}

TEST(StepSimulation, DividesTheTimeOfConcurrentOperations) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1});
  s.collective(ep, 4);
  s.kernel(1);
  s.kernel(3);
  const SimulatedStep step = simulated({s}, {0, 0}, {.compute_beside_intra = 0.5});
  ASSERT_EQ(step.ranks[0].times.size(), 3U);
  EXPECT_DOUBLE_EQ(step.ranks[0].times[0].end, 4);
  EXPECT_DOUBLE_EQ(step.ranks[0].times[1].begin, 0);
  EXPECT_DOUBLE_EQ(step.ranks[0].times[1].end, 1.5) << "a quarter of 6 s, although the slow time comes first";
  EXPECT_DOUBLE_EQ(step.ranks[0].times[2].begin, 1.5);
  EXPECT_DOUBLE_EQ(step.ranks[0].times[2].end, 6);
}

TEST(StepSimulation, StagesOfANodeShareItsCores) {
  Step first(0), second(1);
  first.kernel(2);
  second.kernel(3);
  const auto ends = [&](const std::vector<int>& nodes, const schedule::SharedCores& cores) {
    const SimulatedStep step = simulated({first, second}, nodes, {.cores = cores});
    return std::vector{step.ranks[0].times[0].end, step.ranks[1].times[0].end};
  };
  schedule::SharedCores cores{.cores = 1, .ranks = 2, .measured_ranks = 2};
  EXPECT_EQ(ends({0, 0}, cores), (std::vector{2.0, 2.5})) << "after 2 s, the second stage has the core alone";
  EXPECT_EQ(ends({0, 1}, cores), (std::vector{2.0, 3.0}))
      << "each stage shares the core with a rank that is not simulated";
  cores.by = schedule::MeasuredBy::one_rank;
  EXPECT_EQ(ends({0, 0}, cores), (std::vector{4.0, 5.0}));
  cores.waiting = 1;
  EXPECT_EQ(ends({0, 0}, cores), (std::vector{4.0, 6.0}));
  cores.cores = 2;
  EXPECT_EQ(ends({0, 0}, cores), (std::vector{2.0, 3.0})) << "a core for each rank";
}

TEST(StepSimulation, CopiesNeedOneCoreBesideTheThreadsOfKernels) {
  Step s(0);
  s.kernel(4);
  s.kernel(4, {}, Lane::copy);
  schedule::SharedCores cores{
      .cores = 3, .ranks = 2, .measured_ranks = 2, .threads = 2, .by = schedule::MeasuredBy::one_rank};
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0}, {.cores = cores}).seconds, 8)
      << "each of the two ranks needs 3 cores, but the node has 3";
  cores.cores = 4;
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0}, {.cores = cores}).seconds, 6)
      << "a core for each thread leaves none to copies";
}

TEST(StepSimulation, SlowsKernelsDuringCommunication) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1});
  s.collective(ep, 4);
  s.kernel(4);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0}, {.compute_beside_intra = 0.5}).seconds, 6);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1}, {.compute_beside_intra = 0.5}).seconds, 4);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1}, {.inter_beside_compute = 0.5}).seconds, 6);
}

TEST(StepSimulation, RunsHigherClassesFirst) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1}), dp = s.group("dp", TrafficClass::dp, {0, 1});
  s.collective(dp, 4);
  const int32_t rows = s.collective(ep, 4);
  s.kernel(4, {rows});
  EXPECT_NEAR(simulated({s}, {0, 0}, {.priority = in_order}).seconds, 8, 0.02);
  // Both collectives end after eight seconds if they share the network evenly. The kernel follows.
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0}).seconds, 12);
}

TEST(StepSimulation, RunsClassesOnDifferentNetworksTogether) {
  Step s(0);
  const int tp = s.group("tp", TrafficClass::tp, {0, 1}), dp = s.group("dp", TrafficClass::dp, {0, 2});
  s.collective(dp, 4);
  s.collective(tp, 4);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0, 1}).seconds, 4);
}

TEST(StepSimulation, CountsNodesOfOneDomainAsOneNetwork) {
  Step s(0);
  const int ep = s.group("ep", TrafficClass::ep, {0, 1}), dp = s.group("dp", TrafficClass::dp, {0, 2});
  s.collective(ep, 4);
  s.kernel(2);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1, 2}, {.inter_beside_compute = 0.5, .nodes_of_domain = 2}).seconds, 4);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1, 2}, {.inter_beside_compute = 0.5}).seconds, 5) << "each node is a domain";
  s.collective(dp, 4);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1, 2}, {.nodes_of_domain = 2}).seconds, 4)
      << "the classes use different networks";
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1, 2}, {.nodes_of_domain = 3}).seconds, 8) << "the classes share a network";
}

TEST(StepSimulation, PassesMessagesBetweenStages) {
  std::vector<Step> stages{Step(0), Step(1)};
  for (Step& s : stages) s.group("pp", TrafficClass::pp, {0, 1});
  // Stage 0: forward, send, wait for the gradient, backward. Its receive is posted first.
  const int32_t gradient = stages[0].message("receive", 0, 1, 1);
  const int32_t forward = stages[0].kernel(2);
  stages[0].message("send", 0, 1, 1, {forward});
  stages[0].kernel(3, {gradient});
  const int32_t input = stages[1].message("receive", 0, 0, 1);
  const int32_t both = stages[1].kernel(5, {input});
  stages[1].message("send", 0, 0, 1, {both});
  const SimulatedStep step = simulated(stages, {0, 1});
  EXPECT_DOUBLE_EQ(step.seconds, 2 + 1 + 5 + 1 + 3);
  EXPECT_DOUBLE_EQ(step.ranks[0].busy, 5);
  EXPECT_DOUBLE_EQ(step.ranks[1].times[1].begin, 3);
}

TEST(StepSimulation, EndsCollectivesOfSeveralRanksTogether) {
  std::vector<Step> ranks{Step(0), Step(1)};
  for (Step& s : ranks) s.group("ep", TrafficClass::ep, {0, 1});
  for (int r = 0; r < 2; ++r) {
    const int32_t made = ranks[r].kernel(r == 0 ? 1 : 4);
    ranks[r].kernel(1, {ranks[r].collective(0, 2, {made})});
  }
  const SimulatedStep step = simulated(ranks, {0, 0});
  EXPECT_DOUBLE_EQ(step.seconds, 7);
  EXPECT_DOUBLE_EQ(step.ranks[0].times[2].begin, 6);
}

// Rank 0 of 4 receives from rank 3 while it sends to rank 1, as all ranks of a ring do.
TEST(StepSimulation, UnsimulatedMessagesTakeTheTimeOfTheRanksOwnMessages) {
  Step s(0);
  s.group("tp", TrafficClass::tp, {0, 1, 2, 3});
  const int32_t rows = s.message("receive", 0, 3, 4);
  s.message("send", 0, 1, 4);
  s.kernel(1, {rows});
  const SimulatedStep step = simulated({s}, {0, 0, 0, 0});
  EXPECT_DOUBLE_EQ(step.seconds, 5);
  EXPECT_DOUBLE_EQ(exposed(step.ranks[0], TrafficClass::tp), 4);
}

TEST(StepSimulation, MakesSendsWaitForReceivedMessages) {
  Step s(0);
  const int cp = s.group("cp", TrafficClass::cp, {0, 1});
  const int32_t received = s.message("receive", cp, 1, 3);
  const int32_t sent = s.message("send", cp, 1, 3, {received});
  s.kernel(1, {sent});
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 1}).seconds, 4);
}

TEST(StepSimulation, ExchangesMessagesWithSevenRanks) {
  Step s(0);
  s.group("tp", TrafficClass::tp, {0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<int32_t> all;
  for (int peer = 1; peer < 8; ++peer) s.message("send", 0, peer, 1), all.push_back(s.message("receive", 0, peer, 1));
  s.kernel(1, all);
  EXPECT_DOUBLE_EQ(simulated({s}, std::vector<int>(8, 0)).seconds, 8);
}

TEST(StepSimulation, PassesMessagesAlongManyStages) {
  constexpr int count = 80;  // more stages than the 64 queues of a rank
  std::vector<int> stages(count), nodes(count, 0);
  std::iota(stages.begin(), stages.end(), 0);
  std::vector<Step> steps;
  for (int rank = 0; rank < count; ++rank) {
    Step s(rank);
    const int pp = s.group("pp", TrafficClass::pp, stages);
    const std::vector<int32_t> arrived =
        rank > 0 ? std::vector{s.message("receive", pp, rank - 1, 1)} : std::vector<int32_t>{};
    const int32_t made = s.kernel(2, arrived);
    if (rank + 1 < count) s.message("send", pp, rank + 1, 1, {made});
    steps.push_back(s);
  }
  EXPECT_DOUBLE_EQ(simulated(steps, nodes).seconds, 2 * count + count - 1);
}

TEST(StepSimulation, CountsTheWaitForALateRankAsIdle) {
  std::vector<Step> ranks{Step(0), Step(1)};
  for (Step& s : ranks) s.group("ep", TrafficClass::ep, {0, 1});
  ranks[0].kernel(1, {ranks[0].collective(0, 2)});
  ranks[1].kernel(1, {ranks[1].collective(0, 2, {ranks[1].kernel(5)})});
  const SimulatedStep step = simulated(ranks, {0, 0});
  EXPECT_DOUBLE_EQ(step.seconds, 8);
  EXPECT_DOUBLE_EQ(step.ranks[0].idle, 5);
  EXPECT_DOUBLE_EQ(exposed(step.ranks[0], TrafficClass::ep), 2);
}

TEST(StepSimulation, SlowsKernelsDuringCopies) {
  Step s(0);
  s.kernel(4, {}, Lane::copy);
  s.kernel(4);
  EXPECT_DOUBLE_EQ(simulated({s}, {0, 0}, {.compute_beside_copy = 0.5}).seconds, 6);
}

TEST(StepSimulation, CollectiveThatOneRankLacksThrows) {
  std::vector<Step> ranks{Step(0), Step(1)};
  for (Step& s : ranks) s.group("ep", TrafficClass::ep, {0, 1});
  ranks[0].collective(0, 2);
  try {
    simulated(ranks, {0, 0});
    FAIL() << "no error was thrown";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[plan] group 'ep': operation 0 is all_to_all on rank 0 and missing on rank 1; expected the same "
                 "operation on both ranks");
  }
}

TEST(StepSimulation, NamesRanksThatWaitForEachOther) {
  std::vector<Step> ranks{Step(0), Step(1)};
  for (Step& s : ranks) s.group("ep", TrafficClass::ep, {0, 1}), s.group("tp", TrafficClass::tp, {0, 1});
  ranks[0].collective(1, 2, {ranks[0].collective(0, 2)});
  ranks[1].collective(0, 2, {ranks[1].collective(1, 2)});
  try {
    simulated(ranks, {0, 0});
    FAIL() << "no error was thrown";
  } catch (const std::logic_error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("[plan] ranks of the simulated step wait for each other forever: rank 0 at comm."))
        << text;
    EXPECT_NE(text.find("rank 1 at comm.all_to_all"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hexad::tests
