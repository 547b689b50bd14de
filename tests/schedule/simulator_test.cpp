#include "framework/schedule/simulator.h"
#include "framework/base/ordinal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/philox.h"
#include "tests/schedule/sample_graphs.h"

namespace hexad::schedule {
namespace {

struct Expected {
  double begin, end;
};

void expect_spans(const Timeline& timeline, const std::vector<Expected>& expected) {
  ASSERT_EQ(timeline.spans.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [task, begin, end] = timeline.spans[i];
    EXPECT_NEAR(begin, expected[i].begin, rounding(expected[i].end)) << task.name;
    EXPECT_NEAR(end, expected[i].end, rounding(expected[i].end)) << task.name;
  }
}

Rates slowed(std::vector<Rates::Slowdown> slowdowns) {
  Rates rates = unit_rates();
  rates.slowdowns = std::move(slowdowns);
  return rates;
}

TEST(Simulate, EmptyGraphTakesNoTime) { EXPECT_EQ(simulate(TaskGraph{}, {}).total(), 0); }

TEST(Simulate, ChainAddsUp) {
  TaskGraph g;
  const TaskId d = sends(g, Lane::inter, "D", 2);
  const TaskId e = computes(g, "E", 3, {d});
  sends(g, Lane::inter, "C", 4, {e});
  expect_spans(simulate(g, unit_rates()), {{0, 2}, {2, 5}, {5, 9}});
}

TEST(Simulate, LanesRunAtTheSameTime) {
  TaskGraph g;
  sends(g, Lane::inter, "D", 2);
  sends(g, Lane::intra, "G", 3);
  copies(g, "M", 4);
  computes(g, "E", 5);
  expect_spans(simulate(g, unit_rates()), {{0, 2}, {0, 3}, {0, 4}, {0, 5}});
}

TEST(Simulate, LaneKeepsItsOrderEvenIfItsFirstTaskWaits) {
  TaskGraph g;
  const TaskId e = computes(g, "E", 5);
  sends(g, Lane::inter, "C0", 1, {e});
  sends(g, Lane::inter, "D1", 2);  // D1 could start before C0
  expect_spans(simulate(g, unit_rates()), {{0, 5}, {5, 6}, {6, 8}});
}

TEST(Simulate, LanesSlowEachOtherWhileTheyRunTogether) {
  TaskGraph g;
  sends(g, Lane::inter, "D", 2);
  computes(g, "E", 4);
  const Rates rates = slowed({{Lane::inter, {Lane::compute}, 0.5}, {Lane::compute, {Lane::inter}, 0.5}});
  // Both tasks run at half speed until D has sent its 2 bytes. Then E runs for 2 seconds without D.
  expect_spans(simulate(g, rates), {{0, 4}, {0, 6}});
}

TaskId computes_on_share(TaskGraph& g, std::string name, double seconds, double share) {
  return g.add({Lane::compute, std::move(name), {.flops = seconds, .share = share}}, {}, nothing);
}

TEST(Simulate, CappedComputationIsSlowerAndLeavesCommunicationAlone) {
  const auto spans = [](double share) {
    TaskGraph g;
    sends(g, Lane::inter, "D", 4);
    computes_on_share(g, "E", 3, share);
    Rates rates = slowed({{Lane::inter, {Lane::compute}, 0.5},
                          {Lane::compute, {Lane::inter}, 0.5},
                          {Lane::inter, {Lane::compute}, 1, true},
                          {Lane::compute, {Lane::inter}, 1, true}});
    rates.speed_of_threads = {0.5, 1};
    return simulate(g, rates);
  };
  expect_spans(spans(1), {{0, 7}, {0, 6}});  // both run at half speed until E ends at 6 s; then D has 1 s left
  expect_spans(spans(0.5), {{0, 4}, {0, 6}});
}

TEST(Simulate, CappedComputationKeepsItsPlaceInTheLane) {
  TaskGraph g;
  computes(g, "E0", 2);
  computes_on_share(g, "E1", 1, 0.5);
  computes_on_share(g, "E2", 1, 0.5);
  computes(g, "E3", 1);
  computes_on_share(g, "E4", 2, 0.5);
  Rates rates = unit_rates();
  rates.speed_of_threads = {0.5, 1};
  expect_spans(simulate(g, rates), {{0, 2}, {2, 4}, {4, 6}, {6, 7}, {7, 11}});
}

TEST(Simulate, SlowdownHasOneDirection) {
  TaskGraph g;
  sends(g, Lane::inter, "D", 2);
  computes(g, "E", 4);
  expect_spans(simulate(g, slowed({{Lane::inter, {Lane::compute}, 0.8}})), {{0, 2.5}, {0, 4}});
  expect_spans(simulate(g, slowed({{Lane::compute, {Lane::inter}, 0.8}})), {{0, 2}, {0, 4.4}});
}

TEST(Simulate, SpeedsChangeWhenALaneStartsOrEnds) {
  TaskGraph g;
  const TaskId a = copies(g, "M0", 1);
  computes(g, "E", 6);
  sends(g, Lane::inter, "D", 2, {a});
  const Rates rates = slowed({{Lane::compute, {Lane::copy}, 0.5},
                              {Lane::compute, {Lane::inter}, 0.75},
                              {Lane::compute, {Lane::inter, Lane::copy}, 0.25},
                              {Lane::inter, {Lane::compute}, 0.5},
                              {Lane::inter, {Lane::compute, Lane::copy}, 0.25}});
  // E completes 0.5 s of its work during M0 (until 1 s), 3 s during D (until 5 s), and 2.5 s without other tasks.
  expect_spans(simulate(g, rates), {{0, 1}, {0, 7.5}, {1, 5}});
  copies(g, "M1", 4, {a});
  // From 1 s to 5 s all three tasks run, and E and D complete 1 s of their work each. Then E and D run until 7 s and
  // complete 1.5 s and 1 s. Then E runs alone for 3 s.
  expect_spans(simulate(g, rates), {{0, 1}, {0, 10}, {1, 7}, {1, 5}});
}

TEST(Simulate, TasksWithoutWorkTakeNoTimeButKeepTheirPlace) {
  TaskGraph g;
  const TaskId d = sends(g, Lane::inter, "D", 3);
  const TaskId wait = computes(g, "join", 0, {d});
  sends(g, Lane::inter, "none", 0, {wait});
  computes(g, "E", 1);
  expect_spans(simulate(g, unit_rates()), {{0, 3}, {3, 3}, {3, 3}, {3, 4}});
}

TEST(Simulate, FollowsTheClosedFormOfThePipelineOfMicroBatches) {
  const auto closed_form = [](int n, double send, double experts) {
    if (n == 1) return 2 * send + experts;
    if (experts <= send) return 2 * n * send;  // the link is always busy
    // The link is idle only before the first R and before the last R.
    if (experts <= 2 * send) return (2 * n - 2) * send + 2 * experts;
    return 2 * send + n * experts;  // the experts are always busy
  };
  for (int chunks : {1, 2, 3, 4, 8})
    for (int experts = 1; experts <= 12; ++experts) {
      const double expected = closed_form(chunks, 4, experts);
      EXPECT_NEAR(simulate(pipeline(chunks, 4, experts), unit_rates()).total(), expected, rounding(expected))
          << chunks << " chunks, experts " << experts;
    }
}

TEST(Simulate, PaysLatencyForEveryChunk) {
  Rates rates = unit_rates();
  rates.links = {{TaskKind::all_to_all, "ep", 2, false, TimeCurve::linear(0.5, 1)}};
  // Each of n chunks sends 8 / n bytes each way, and its experts take 8 / n seconds. The link is always busy and pays 2
  // * n latencies if there are several chunks.
  for (int n : {1, 2, 4, 8}) {
    const double expected = n == 1 ? 2 * 8.5 + 8 : 2 * (8 + 0.5 * n);
    EXPECT_NEAR(simulate(pipeline(n, 8 / n, 8 / n), rates).total(), expected, rounding(expected)) << n << " chunks";
  }
}

// The smallest measured transfer takes 0.5 s. The links between nodes have a burst of 3 s.
TEST(Simulate, RestedLinksSendTheirBurstAtOnce) {
  Rates rates = unit_rates();
  rates.links = {{TaskKind::all_to_all, "ep", 2, true, {{{0.5, 0.5}, {100, 100}}}}};
  rates.bursts = {.between_nodes = 3, .within_node = 0};
  TaskGraph g;
  const auto sends_across = [&](std::string name, int64_t bytes, std::vector<TaskId> after) {
    const Cost cost{.wire_bytes = bytes, .group = "ep", .group_size = 2, .crosses_nodes = true};
    return g.add({Lane::inter, std::move(name), cost, TaskKind::all_to_all}, std::move(after), nothing);
  };
  const TaskId first = sends_across("D", 8, {});
  const TaskId e = computes(g, "E", 2, {first});
  sends_across("C", 8, {e});
  sends(g, Lane::intra, "G", 4);
  expect_spans(simulate(g, rates), {{0, 5}, {5, 7}, {7, 13}, {0, 4}});
  rates.bursts.between_nodes = 100;
  expect_spans(simulate(g, rates), {{0, 0.5}, {0.5, 2.5}, {2.5, 3}, {0, 4}});
}

TEST(Simulate, OnlyCommunicationRunsConcurrentlyWithTheCallerWithoutThreads) {
  TaskGraph g;
  sends(g, Lane::inter, "D0", 4);
  copies(g, "M", 2);
  const TaskId e = computes(g, "E", 3);
  sends(g, Lane::intra, "G", 1, {e});
  sends(g, Lane::inter, "D1", 1);
  // The caller copies, then computes, and only then reaches G and D1.
  expect_spans(simulate(g, unit_rates(), Drive::caller), {{0, 4}, {0, 2}, {2, 5}, {5, 6}, {5, 6}});
  expect_spans(simulate(g, unit_rates(), Drive::threads), {{0, 4}, {0, 2}, {0, 3}, {3, 4}, {4, 5}});
}

TEST(Simulate, CallerWaitsForPredecessorsWithoutThreads) {
  TaskGraph g;
  const TaskId d = sends(g, Lane::inter, "D0", 4);
  const TaskId second = sends(g, Lane::inter, "D1", 2);
  sends(g, Lane::intra, "G0", 1, {d});  // issued at 4 s; later tasks are issued after G0
  computes(g, "E", 2);
  computes(g, "F", 1, {second});
  expect_spans(simulate(g, unit_rates(), Drive::caller), {{0, 4}, {4, 6}, {4, 5}, {4, 6}, {6, 7}});
}

TEST(Simulate, RefusesUnmeasuredLinksAndIllegalRates) {
  Rates rates = unit_rates();
  rates.other_links.reset();
  EXPECT_THROW(simulate(pipeline(2, 1, 1), rates), base::Error);
  rates = unit_rates();
  rates.compute[0].points[0].size = -1;
  EXPECT_THROW(simulate(pipeline(2, 1, 1), rates), base::Error);
}

// Returns a random graph, for tests of properties that hold for every graph.
TaskGraph random_graph(uint64_t seed) {
  const base::Philox random(seed, base::Purpose::shuffle, "simulator");
  uint64_t draws = 0;
  const auto below = [&](uint64_t n) { return random.below(draws++, n); };
  TaskGraph g;
  for (int i = 0; i < 30; ++i) {
    std::vector<TaskId> after;
    for (TaskId id = 0; id < i; ++id)
      if (below(8) == 0) after.push_back(id);
    const int64_t seconds = static_cast<int64_t>(below(6));
    switch (below(4)) {
      case 0:
        sends(g, Lane::inter, base::cat("D", i), seconds, after);
        break;
      case 1:
        sends(g, Lane::intra, base::cat("G", i), seconds, after, TaskKind::all_gather);
        break;
      case 2:
        copies(g, base::cat("M", i), seconds, after);
        break;
      default:
        computes(g, base::cat("E", i), static_cast<double>(seconds), after);
    }
  }
  return g;
}

const std::vector<Rates::Slowdown> everybody_slows = {
    {Lane::inter, {Lane::compute}, 0.7}, {Lane::compute, {Lane::inter}, 0.9}, {Lane::inter, {Lane::intra}, 0.6},
    {Lane::intra, {Lane::inter}, 0.6},   {Lane::copy, {Lane::inter}, 0.5},    {Lane::compute, {Lane::copy}, 0.8},
};

TEST(SimulateRandomGraphs, DependenciesAndLanesHold) {
  for (uint64_t seed = 0; seed < 40; ++seed)
    for (Drive drive : {Drive::threads, Drive::caller}) {
      const TaskGraph g = random_graph(seed);
      const Timeline t = simulate(g, slowed(everybody_slows), drive);
      for (size_t i = 0; i < t.spans.size(); ++i) {
        for (TaskId before : g.tasks()[i].after)
          EXPECT_GE(t.spans[i].begin, t.spans[before].end) << "seed " << seed << ", task " << i;
        for (size_t j = 0; j < i; ++j)
          if (t.spans[j].task.lane == t.spans[i].task.lane) {
            EXPECT_GE(t.spans[i].begin, t.spans[j].end) << "seed " << seed << ", tasks " << j << ", " << i;
          }
      }
    }
}

TEST(SimulateRandomGraphs, TakeAtLeastTheBusiestLaneAndAtMostAllTasksInSequence) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const TaskGraph g = random_graph(seed);
    const Rates rates = unit_rates();
    double sum = 0, lanes[device::lane_count] = {};
    for (const Task& task : g.tasks()) {
      sum += rates.seconds(task.spec);
      lanes[base::ordinal(task.spec.lane)] += rates.seconds(task.spec);
    }
    const Timeline t = simulate(g, rates);
    for (int lane = 0; lane < device::lane_count; ++lane)
      EXPECT_NEAR(t.busy(static_cast<Lane>(lane)), lanes[lane], rounding(sum)) << "seed " << seed;
    EXPECT_GE(t.total(), *std::max_element(std::begin(lanes), std::end(lanes)) - rounding(sum)) << "seed " << seed;
    EXPECT_LE(t.total(), sum + rounding(sum)) << "seed " << seed;
    EXPECT_GE(simulate(g, rates, Drive::caller).total(), t.total() - rounding(sum)) << "seed " << seed;
  }
}

TEST(SimulateChains, AreFasterWithFasterLinks) {
  TaskGraph g;
  TaskId last = sends(g, Lane::inter, "D", 5);
  last = sends(g, Lane::intra, "G", 4, {last}, TaskKind::all_gather);
  last = computes(g, "E", 7, {last});
  last = copies(g, "M", 3, {last});
  sends(g, Lane::inter, "C", 5, {last});
  double before = simulate(g, unit_rates()).total();
  EXPECT_NEAR(before, 24, rounding(24));
  for (double faster : {1.5, 2.0, 8.0, 1e6}) {
    Rates rates = unit_rates();
    rates.other_links = {TimeCurve::linear(0, faster), TimeCurve::linear(0, faster)};
    const double total = simulate(g, rates).total();
    EXPECT_LT(total, before) << "links that are faster by " << faster;
    before = total;
  }
}

}  // namespace
}  // namespace hexad::schedule
