// Simulation of several ranks with common collectives.
#include <gtest/gtest.h>

#include "tests/schedule/sample_graphs.h"

namespace hexad::schedule {
namespace {

std::vector<Timeline> simulate_all(const std::vector<TaskGraph>& graphs, const RankGroups& groups,
                                   const Rates& rates = unit_rates()) {
  std::vector<const TaskGraph*> pointers;
  for (const TaskGraph& g : graphs) pointers.push_back(&g);
  return simulate(pointers, rates, groups);
}

void expect_span(const Timeline& timeline, TaskId task, double begin, double end) {
  const auto& span = timeline.spans.at(task);
  EXPECT_NEAR(span.begin, begin, rounding(end)) << span.task.name;
  EXPECT_NEAR(span.end, end, rounding(end)) << span.task.name;
}

const RankGroups pair{{"ep", {0, 0}}};

TEST(SimulatedRanks, EqualRanksBehaveLikeOne) {
  Rates rates = unit_rates();
  rates.slowdowns = {{Lane::inter, {Lane::compute}, 0.7}, {Lane::compute, {Lane::inter}, 0.9}};
  for (int chunks : {1, 2, 4}) {
    const TaskGraph g = pipeline(chunks, 3, 4);
    const Timeline one = simulate(g, rates);
    for (const Timeline& rank : simulate_all({g, g, g, g}, {{"ep", {0, 1, 1, 0}}}, rates)) {
      ASSERT_EQ(rank.spans.size(), one.spans.size());
      for (size_t i = 0; i < one.spans.size(); ++i) {
        EXPECT_EQ(rank.spans[i].begin, one.spans[i].begin);
        EXPECT_EQ(rank.spans[i].end, one.spans[i].end);
      }
    }
  }
}

TEST(SimulatedRanks, MemberWithMostBytesDeterminesTheEndOfACollective) {
  std::vector<TaskGraph> graphs(2);
  for (int rank : {0, 1}) {
    TaskGraph& g = graphs[rank];
    const TaskId d = sends(g, Lane::inter, "D", rank == 0 ? 1 : 5);
    computes(g, "E", 2, {d});
  }
  for (const Timeline& rank : simulate_all(graphs, pair)) {
    expect_span(rank, 0, 0, 5);
    expect_span(rank, 1, 5, 7);
  }
}

TEST(SimulatedRanks, LateMemberDelaysItsPeers) {
  std::vector<TaskGraph> graphs(2);
  for (int rank : {0, 1}) {
    TaskGraph& g = graphs[rank];
    const TaskId e = computes(g, "E", rank == 0 ? 1 : 6);
    sends(g, Lane::inter, "C", 2, {e});
  }
  const auto ranks = simulate_all(graphs, pair);
  expect_span(ranks[0], 1, 1, 8);
  expect_span(ranks[1], 1, 6, 8);
}

TEST(SimulatedRanks, RankWithoutTokensStillTakesPart) {
  std::vector<TaskGraph> graphs(2);
  for (int rank : {0, 1}) {
    TaskGraph& g = graphs[rank];
    const TaskId d = sends(g, Lane::inter, "D", rank == 0 ? 0 : 4);
    const TaskId e = computes(g, "E", rank == 0 ? 0 : 3, {d});
    sends(g, Lane::inter, "C", rank == 0 ? 0 : 4, {e});
  }
  const auto ranks = simulate_all(graphs, pair);
  expect_span(ranks[0], 0, 0, 4);
  expect_span(ranks[0], 1, 4, 4);
  expect_span(ranks[0], 2, 4, 11);
  expect_span(ranks[1], 2, 7, 11);
}

TEST(SimulatedRanks, WaitingForPeersDoesNotSlowComputation) {
  std::vector<TaskGraph> graphs(2);
  for (int rank : {0, 1}) {
    TaskGraph& g = graphs[rank];
    sends(g, Lane::inter, "D", rank == 0 ? 1 : 10);
    computes(g, "E", rank == 0 ? 4 : 0);
  }
  Rates rates = unit_rates();
  rates.slowdowns = {{Lane::inter, {Lane::compute}, 0.5}, {Lane::compute, {Lane::inter}, 0.5}};
  const auto ranks = simulate_all(graphs, pair, rates);
  // Both tasks run at half speed until the byte is sent at 2 s. Then E runs at full speed for 3 s.
  expect_span(ranks[0], 1, 0, 5);
  expect_span(ranks[0], 0, 0, 10);
}

TEST(SimulatedRanks, OnlyMembersOfOneGroupMeet) {
  std::vector<TaskGraph> graphs(4);
  for (int rank = 0; rank < 4; ++rank) {
    TaskGraph& g = graphs[rank];
    // Ranks 0 and 2 form a pair, and ranks 1 and 3 form another pair.
    const TaskId d = sends(g, Lane::inter, "D", rank + 1);
    // Ranks 0 and 1 form a pair, and ranks 2 and 3 form another pair.
    sends(g, Lane::intra, "G", 10 * (rank + 1), {d}, TaskKind::all_gather);
  }
  const auto ranks = simulate_all(graphs, {{"ep", {0, 1, 0, 1}}, {"tp", {0, 0, 1, 1}}});
  for (int rank : {0, 2}) expect_span(ranks[rank], 0, 0, 3);
  for (int rank : {1, 3}) expect_span(ranks[rank], 0, 0, 4);
  expect_span(ranks[0], 1, 3, 24);
  expect_span(ranks[1], 1, 4, 24);
  expect_span(ranks[2], 1, 3, 44);
  expect_span(ranks[3], 1, 4, 44);
}

TEST(SimulatedRanks, GroupOfOneNeedsNoPeers) {
  TaskGraph g;
  g.add({Lane::inter, "D", {.wire_bytes = 2, .group = "ep", .group_size = 1}, TaskKind::all_to_all}, {}, nothing);
  expect_span(simulate_all({g}, {})[0], 0, 0, 2);
}

std::string error_of(const std::vector<TaskGraph>& graphs, const RankGroups& groups) {
  try {
    simulate_all(graphs, groups);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(SimulatedRanks, ErrorsNameDisagreeingRanks) {
  TaskGraph once, twice, gathers;
  sends(once, Lane::inter, "D0", 1);
  sends(twice, Lane::inter, "D0", 1);
  sends(twice, Lane::inter, "D1", 1);
  sends(gathers, Lane::inter, "G0", 1, {}, TaskKind::all_gather);
  EXPECT_EQ(error_of({once, twice}, pair),
            "[schedule] group 'ep': the number of collectives is 1 on rank 0 and 2 on rank 1; expected equal numbers");
  EXPECT_EQ(error_of({once, gathers}, pair),
            "[schedule] group 'ep', collective 0: 'D0' of rank 0 is all_to_all, and 'G0' of rank 1 is all_gather; "
            "expected equal kinds");
  EXPECT_EQ(error_of({once, once}, {}),
            "[schedule] task 'D0' of rank 0 communicates in group 'ep', whose members are not given; expected a group "
            "of the argument `groups`");
  EXPECT_EQ(error_of({once, once}, {{"ep", {0, 1}}}),
            "[schedule] task 'D0' of rank 0 communicates among 2 ranks, but its group 'ep' has 1 rank; expected equal "
            "numbers");
  EXPECT_EQ(error_of({once, once}, {{"ep", {0}}}),
            "[schedule] group 'ep': the number of entries is 1; expected 2, one for each rank");
}

TEST(SimulatedRanks, AreNamedWhenTheyDeadlock) {
  std::vector<TaskGraph> graphs(2);
  // Rank 0 exchanges on ep before tp. Rank 1 exchanges on tp before ep.
  const TaskId d = sends(graphs[0], Lane::inter, "D", 1);
  sends(graphs[0], Lane::intra, "G", 1, {d});
  const TaskId gather = sends(graphs[1], Lane::intra, "G", 1);
  sends(graphs[1], Lane::inter, "D", 1, {gather});
  EXPECT_EQ(error_of(graphs, {{"ep", {0, 0}}, {"tp", {0, 0}}}),
            "[schedule] ranks wait for each other forever: rank 0 at 'D' (inter), rank 0 at 'G' (intra), rank 1 at 'D' "
            "(inter), rank 1 at 'G' (intra); expected all ranks of a group to issue its collectives in the same order");
}

}  // namespace
}  // namespace hexad::schedule
