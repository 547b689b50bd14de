// Ranks that share the cores of their node, compared with hand counts and with a naive simulation.
#include "framework/schedule/shared_cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "framework/base/philox.h"
#include "tests/schedule/sample_graphs.h"

namespace hexad::schedule {
namespace {

std::vector<Timeline> simulate_all(const std::vector<TaskGraph>& graphs, const Rates& rates, const RankGroups& groups,
                                   Drive drive = Drive::threads) {
  std::vector<const TaskGraph*> pointers;
  for (const TaskGraph& g : graphs) pointers.push_back(&g);
  return simulate(pointers, rates, groups, drive);
}

Rates on(const SharedCores& cores) {
  Rates rates = unit_rates();
  rates.cores = cores;
  return rates;
}

TaskGraph one_computation(double seconds) {
  TaskGraph g;
  computes(g, "E", seconds);
  return g;
}

// Returns the end of the computation of each rank, in seconds. The ranks share a node. Rank r would compute for
// seconds[r] if it were alone.
std::vector<double> ends(const std::vector<double>& seconds, const SharedCores& cores) {
  std::vector<TaskGraph> graphs;
  for (const double s : seconds) graphs.push_back(one_computation(s));
  std::vector<double> out;
  for (const Timeline& t : simulate_all(graphs, on(cores), {{node_group, std::vector<int>(seconds.size(), 0)}}))
    out.push_back(t.total());
  return out;
}

void expect_ends(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t r = 0; r < found.size(); ++r) EXPECT_NEAR(found[r], expected[r], rounding(expected[r])) << "rank " << r;
}

TEST(SharedCores, TwoRanksOnOneCoreAreTwiceAsSlowWhileBothCompute) {
  const SharedCores one_core{.ranks = 2, .measured_ranks = 2, .by = MeasuredBy::one_rank};
  expect_ends(ends({2, 3}, one_core), {4, 5});
}

TEST(SharedCores, RatesOfAllRanksAreNotSlowedAgain) {
  const SharedCores one_core{.ranks = 2, .measured_ranks = 2};
  expect_ends(ends({2, 2}, one_core), {2, 2});
  // Rank 0 ends at 2 s. Rank 1 then has 1 s of work left, and has the core alone.
  expect_ends(ends({2, 3}, one_core), {2, 2.5});
}

TEST(SharedCores, WaitingRanksUseTheirPartOfACore) {
  const SharedCores spins{.ranks = 2, .measured_ranks = 2, .waiting = 1, .by = MeasuredBy::one_rank};
  expect_ends(ends({2, 3}, spins), {4, 6});
  const SharedCores rests{.ranks = 2, .measured_ranks = 2, .waiting = 0.25, .by = MeasuredBy::one_rank};
  expect_ends(ends({2, 3}, rests), {4, 5.25});
}

TEST(SharedCores, ThreeRanksOnTwoCoresGetTwoThirdsOfACore) {
  const SharedCores two_cores{.cores = 2, .ranks = 3, .measured_ranks = 3, .by = MeasuredBy::one_rank};
  expect_ends(ends({2, 4, 6}, two_cores), {3, 5, 7});
}

TEST(SharedCores, ThreadsShareInProportionToTheirNumber) {
  const SharedCores four_cores{.cores = 4, .ranks = 2, .measured_ranks = 2, .threads = 4, .by = MeasuredBy::one_rank};
  expect_ends(ends({2, 3}, four_cores), {4, 5});
  // Rank 1 copies with one thread beside the four threads of rank 0. Both ranks have 4 / 5 of their speed.
  TaskGraph copy;
  copies(copy, "M", 4);
  const std::vector<TaskGraph> graphs{one_computation(6), copy};
  const auto lanes = simulate_all(graphs, on(four_cores), {{node_group, {0, 0}}});
  EXPECT_NEAR(lanes[1].total(), 5, rounding(5));
  EXPECT_NEAR(lanes[0].total(), 7, rounding(7));
  // The copy uses all threads of the rank if the rank's own thread issues the copy (Drive::caller).
  const auto caller = simulate_all(graphs, on(four_cores), {{node_group, {0, 0}}}, Drive::caller);
  EXPECT_NEAR(caller[1].total(), 8, rounding(8));
  EXPECT_NEAR(caller[0].total(), 10, rounding(10));
}

TEST(SharedCores, CopiesNeedACoreBesideTheThreadsOfAllRanks) {
  const Rates two_cores = on({.cores = 2, .ranks = 2, .measured_ranks = 2, .by = MeasuredBy::one_rank});
  TaskGraph both = one_computation(4);
  copies(both, "M", 4);
  for (const Timeline& t : simulate_all({both, one_computation(4)}, two_cores, {{node_group, {0, 0}}}))
    EXPECT_NEAR(t.total(), 6, rounding(6)) << "the ranks need three cores";
}

TEST(SharedCores, RatesOfOneRankDoNotDependOnTheOtherMeasuredRanks) {
  EXPECT_TRUE((SharedCores{.measured_ranks = 4}.shared(1)));
  EXPECT_FALSE((SharedCores{.measured_ranks = 4, .by = MeasuredBy::one_rank}.shared(1)));
}

TEST(SharedCores, ComputationsThatLeaveThreadsNeedFewerCores) {
  Rates rates = on({.cores = 4, .ranks = 2, .measured_ranks = 2, .threads = 4, .by = MeasuredBy::one_rank});
  rates.speed_of_threads = {0.25, 0.5, 0.75, 1};
  TaskGraph half;
  half.add({Lane::compute, "E", {.flops = 2, .share = 0.5}}, {}, nothing);
  for (const Timeline& t : simulate_all({half, half}, rates, {{node_group, {0, 0}}}))
    EXPECT_NEAR(t.total(), 4, rounding(4)) << "two threads of each rank have a core each";
}

TEST(SharedCores, RanksOfOtherNodesDoNotCompete) {
  const Rates rates = on({.ranks = 1, .measured_ranks = 2, .by = MeasuredBy::one_rank});
  for (const Timeline& t : simulate_all({one_computation(2), one_computation(2)}, rates, {{node_group, {0, 1}}}))
    EXPECT_NEAR(t.total(), 2, rounding(2));
}

TEST(SharedCores, MissingRanksWorkLikeThePresentRanks) {
  const SharedCores cores{.ranks = 4, .measured_ranks = 4, .by = MeasuredBy::one_rank};
  EXPECT_NEAR(simulate(one_computation(2), on(cores)).total(), 8, rounding(8));
  expect_ends(ends({2, 2}, cores), {8, 8});
  // Rank 1 has no tasks, so it counts as a missing rank.
  const auto ranks = simulate_all({one_computation(2), TaskGraph()}, on(cores), {{node_group, {0, 0}}});
  EXPECT_NEAR(ranks[0].total(), 8, rounding(8));
}

TEST(SharedCores, FewerRanksThanInTheMeasurementAreFasterAndMoreAreSlower) {
  EXPECT_NEAR(simulate(one_computation(2), on({.ranks = 1, .measured_ranks = 4})).total(), 0.5, rounding(1));
  EXPECT_NEAR(simulate(one_computation(2), on({.ranks = 8, .measured_ranks = 4})).total(), 4, rounding(4));
}

TEST(SharedCores, BadNumbersAreRefused) {
  EXPECT_THROW(ends({1}, {.cores = 0}), base::Error);
  EXPECT_THROW(ends({1}, {.cores = std::numeric_limits<double>::infinity()}), base::Error);
  EXPECT_THROW(ends({1}, {.ranks = 0}), base::Error);
  EXPECT_THROW(ends({1}, {.measured_ranks = 0}), base::Error);
  EXPECT_THROW(ends({1}, {.threads = 0}), base::Error);
  EXPECT_THROW(ends({1}, {.waiting = 1.5}), base::Error);
}

// Returns graphs of ranks with the same tasks and edges, but with different costs.
std::vector<TaskGraph> random_graphs(uint64_t seed, int ranks) {
  const base::Philox random(seed, base::Purpose::shuffle, "shared cores");
  uint64_t draws = 0;
  const auto below = [&](uint64_t n) { return random.below(draws++, n); };
  std::vector<TaskGraph> graphs(ranks);
  for (int i = 0; i < 20; ++i) {
    std::vector<TaskId> after;
    for (TaskId id = 0; id < i; ++id)
      if (below(6) == 0) after.push_back(id);
    const uint64_t kind = below(5);
    for (TaskGraph& g : graphs) {
      const auto seconds = static_cast<int64_t>(below(7));
      if (kind == 0)
        sends(g, Lane::inter, base::cat("D", i), seconds, after);
      else if (kind == 1)
        sends(g, Lane::intra, base::cat("G", i), seconds, after, TaskKind::all_gather);
      else if (kind == 2)
        copies(g, base::cat("M", i), seconds, after);
      else
        computes(g, base::cat("E", i), static_cast<double>(seconds), after);
    }
  }
  return graphs;
}

// Simulation that examines all tasks of all ranks at each moment, instead of using event queues. Task i of a rank meets
// task i of the ranks in the same group.
class Naive {
 public:
  Naive(const std::vector<TaskGraph>& graphs, const SharedCores& cores, const RankGroups& groups)
      : graphs_(graphs), cores_(cores), groups_(groups), states_(graphs.size()) {
    for (size_t r = 0; r < graphs.size(); ++r)
      for (const Task& task : graphs[r].tasks()) states_[r].push_back({.left = unit_rates().seconds(task.spec)});
  }

  // Returns the end of each task, by rank.
  std::vector<std::vector<double>> run() {
    for (;;) {
      while (begin_and_end_tasks()) continue;
      double next = std::numeric_limits<double>::infinity();
      for_each_running([&](State& s, double rate) { next = std::min(next, s.left / rate); });
      if (next == std::numeric_limits<double>::infinity()) break;
      for_each_running([&](State& s, double rate) {
        const double left = s.left - next * rate;
        s.next_left = left < 1e-9 ? 0 : left;
      });
      for (auto& rank : states_)
        for (State& s : rank)
          if (s.next_left >= 0) s.left = std::exchange(s.next_left, -1);
      now_ += next;
    }
    std::vector<std::vector<double>> out;
    for (const auto& rank : states_) {
      out.emplace_back();
      for (const State& s : rank) out.back().push_back(s.end);
    }
    return out;
  }

 private:
  struct State {
    double left = 0, next_left = -1;  // work left now, and after the present interval; -1: unchanged
    bool begun = false, done = false;
    double end = -1;
  };

  const TaskSpec& spec(size_t rank, size_t task) const { return graphs_[rank].tasks()[task].spec; }

  bool may_begin(size_t rank, size_t task) const {
    for (size_t before = 0; before < task; ++before)
      if (spec(rank, before).lane == spec(rank, task).lane && !states_[rank][before].done) return false;
    return std::ranges::all_of(graphs_[rank].tasks()[task].after, [&](TaskId t) { return states_[rank][t].done; });
  }

  bool may_end(size_t rank, size_t task) const {
    if (!is_communication(spec(rank, task).kind)) return states_[rank][task].begun && states_[rank][task].left == 0;
    const std::vector<int>& numbers = groups_.at(spec(rank, task).cost.group);
    for (size_t r = 0; r < graphs_.size(); ++r)
      if (numbers[r] == numbers[rank] && !(states_[r][task].begun && states_[r][task].left == 0)) return false;
    return true;
  }

  bool begin_and_end_tasks() {
    bool changed = false;
    for (size_t r = 0; r < states_.size(); ++r)
      for (size_t i = 0; i < states_[r].size(); ++i) {
        State& s = states_[r][i];
        if (!s.begun && may_begin(r, i)) s.begun = changed = true;
        if (!s.done && may_end(r, i)) s.done = changed = true, s.end = now_;
      }
    return changed;
  }

  bool works(size_t rank, size_t task) const { return states_[rank][task].begun && states_[rank][task].left > 0; }

  double cores_needed(size_t rank) const {
    double needed = 0;
    for (size_t i = 0; i < states_[rank].size(); ++i)
      if (works(rank, i))
        needed += spec(rank, i).lane == Lane::compute ? cores_.threads : spec(rank, i).lane == Lane::copy ? 1 : 0;
    return needed > 0 ? needed : cores_.waiting;
  }

  double speed(size_t rank, size_t task) const {
    if (is_communication(spec(rank, task).kind)) return 1;
    const std::vector<int>& nodes = groups_.at(node_group);
    double all = 0;
    for (size_t r = 0; r < graphs_.size(); ++r)
      if (nodes[r] == nodes[rank]) all += cores_needed(r);
    const double own = cores_needed(rank);
    const double given = std::min(own, cores_.cores * own / all);
    const double during = cores_.by == MeasuredBy::one_rank ? own : cores_.measured_ranks * own;
    return given / std::min(own, cores_.cores * own / during);
  }

  template <class F>
  void for_each_running(const F& call) {
    for (size_t r = 0; r < states_.size(); ++r)
      for (size_t i = 0; i < states_[r].size(); ++i)
        if (works(r, i)) call(states_[r][i], speed(r, i));
  }

  const std::vector<TaskGraph>& graphs_;
  const SharedCores& cores_;
  const RankGroups& groups_;
  std::vector<std::vector<State>> states_;
  double now_ = 0;
};

const RankGroups three_on_a_node{
    {"ep", {0, 1, 0, 2, 1, 2}}, {"tp", {0, 0, 1, 1, 2, 2}}, {node_group, {0, 0, 0, 1, 1, 1}}};

TEST(SharedCores, AgreeWithANaiveSimulation) {
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const MeasuredBy by : {MeasuredBy::all_ranks, MeasuredBy::one_rank})
      for (const int threads : {1, 3})
        for (const double waiting : {0.0, 0.3}) {
          const SharedCores cores{
              .cores = 2, .ranks = 3, .measured_ranks = 3, .threads = threads, .waiting = waiting, .by = by};
          const std::vector<TaskGraph> graphs = random_graphs(seed, 6);
          const auto naive = Naive(graphs, cores, three_on_a_node).run();
          const auto simulated = simulate_all(graphs, on(cores), three_on_a_node);
          for (size_t r = 0; r < graphs.size(); ++r)
            for (size_t i = 0; i < naive[r].size(); ++i)
              ASSERT_NEAR(simulated[r].spans[i].end, naive[r][i], 1e-6)
                  << "seed " << seed << ", rank " << r << ", task " << i << ", " << threads << " threads";
        }
}

TEST(SharedCores, ACoreForEachThreadAndCopyChangesNothing) {
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const MeasuredBy by : {MeasuredBy::all_ranks, MeasuredBy::one_rank}) {
      const std::vector<TaskGraph> graphs = random_graphs(seed, 6);
      const SharedCores enough{.cores = 9, .ranks = 3, .measured_ranks = 3, .threads = 2, .waiting = 0.5, .by = by};
      const auto with = simulate_all(graphs, on(enough), three_on_a_node);
      const auto without = simulate_all(graphs, unit_rates(), three_on_a_node);
      for (size_t r = 0; r < graphs.size(); ++r)
        for (size_t i = 0; i < with[r].spans.size(); ++i) {
          EXPECT_EQ(with[r].spans[i].begin, without[r].spans[i].begin) << "seed " << seed;
          EXPECT_EQ(with[r].spans[i].end, without[r].spans[i].end) << "seed " << seed;
        }
    }
}

TEST(SharedCores, EqualRanksKeepTheirMeasuredTimes) {
  TaskGraph g = pipeline(4, 3, 4);
  copies(g, "M", 5);
  const Rates shared = on({.cores = 2, .ranks = 4, .measured_ranks = 4, .threads = 2, .waiting = 0.25});
  const Timeline alone = simulate(g, unit_rates());
  for (const Timeline& t : simulate_all({g, g, g, g}, shared, {{"ep", {0, 0, 1, 1}}, {node_group, {0, 0, 0, 0}}}))
    for (size_t i = 0; i < alone.spans.size(); ++i) EXPECT_EQ(t.spans[i].end, alone.spans[i].end) << "task " << i;
}

}  // namespace
}  // namespace hexad::schedule
