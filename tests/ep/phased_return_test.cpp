// Tests that a return of rows in phases (Parm's SAA) returns the same rows as one all-to-all.
#include "parallel/ep/phased_return.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/base/philox.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/exchange.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
namespace {

using ep::AllToAll;
using ep::EspExchange;
using ep::ReturnOrder;
using ep::RoutingPlan;

// Returns the order of `ep` ranks on one node.
ReturnOrder on_one_node(int ep, int fan, int phases) { return {std::vector<int>(ep, 0), fan, phases}; }

TEST(ReturnOrder, HasAtMostOnePhaseForEachRank) {
  EXPECT_EQ(on_one_node(4, 2, 1).phases(), 1);
  EXPECT_EQ(on_one_node(4, 2, 3).phases(), 3);
  EXPECT_EQ(on_one_node(4, 2, 4).phases(), 4);
  EXPECT_EQ(on_one_node(4, 2, 7).phases(), 4) << "a number between ep and ep x fan is lowered to ep";
  EXPECT_EQ(on_one_node(4, 2, 8).phases(), 8);
  EXPECT_EQ(on_one_node(4, 2, 100).phases(), 8);
  EXPECT_EQ(on_one_node(4, 2, 8).sets(), 4);
  EXPECT_EQ(on_one_node(1, 4, 4).phases(), 1) << "an ep group of one rank returns all rows at once";
}

// Parm, Fig. 5: in each phase, a rank receives rows from one rank and sends rows to one rank.
TEST(ReturnOrder, HasOneRankPerPhaseWithTheMaximumNumberOfPhases) {
  for (const std::vector<int>& nodes :
       {std::vector{0, 0, 0}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 1, 1, 2, 2}, {0, 0, 1}}) {
    const int fan = 2, ranks = static_cast<int>(nodes.size()) * fan;
    const ReturnOrder order(nodes, fan, ranks);
    for (int self = 0; self < ranks; ++self) {
      std::set<int> from, to;
      for (int q = 0; q < ranks; ++q) from.insert(order.phase(self, q)), to.insert(order.phase(q, self));
      EXPECT_EQ(from.size(), static_cast<size_t>(ranks)) << "rank " << self;
      EXPECT_EQ(to.size(), static_cast<size_t>(ranks)) << "rank " << self;
    }
  }
}

TEST(ReturnOrder, CompletesASetInConsecutivePhases) {
  for (const int phases : {2, 3, 6}) {
    const ReturnOrder order = on_one_node(3, 2, phases);
    for (int self = 0; self < 6; ++self)
      for (int q = 0; q < 6; ++q) {
        const int set = order.set(self / 2, q / 2), phase = order.phase(self, q);
        EXPECT_GE(phase, order.first_phase(set));
        EXPECT_LT(phase, order.first_phase(set) + order.phases_of_set());
      }
    EXPECT_EQ(order.sets() * order.phases_of_set(), order.phases());
  }
}

// Eight ranks on two nodes have one expert each. The phases would have unequal numbers of rows for the other node if
// they were ranges of distances. Rank 0 would have its rows for all four ranks of the other node in the second phase.
// Rank 3 would have its rows for three of these ranks in the first phase.
TEST(ReturnOrder, HasTheSameNumberOfRanksOfTheOtherNodeInEachPhase) {
  const ReturnOrder order(std::vector{0, 0, 0, 0, 1, 1, 1, 1}, 1, 2);
  for (int self = 0; self < 8; ++self) {
    int others[2] = {0, 0};
    for (int q = 0; q < 8; ++q) others[order.phase(self, q)] += self / 4 != q / 4 ? 1 : 0;
    EXPECT_EQ(others[0], 2) << "rank " << self;
    EXPECT_EQ(others[1], 2) << "rank " << self;
  }
}

// With one rank per phase, all ranks send either inside their nodes or to another node. In a single ring of all ranks,
// a rank would send rows to another node while it receives rows from its own node. Half of its link would be idle.
TEST(ReturnOrder, HasPhasesInsideNodesBeforePhasesBetweenNodes) {
  const std::vector<int> nodes{0, 0, 0, 1, 1, 1, 2, 2, 2}, dealt{0, 1, 2, 0, 1, 2, 0, 1, 2};
  for (const std::vector<int>& node : {nodes, dealt}) {
    const ReturnOrder order(node, 2, 18);
    for (int self = 0; self < 18; ++self)
      for (int q = 0; q < 18; ++q)
        EXPECT_EQ(order.phase(self, q) < 6, node[self / 2] == node[q / 2]) << "rank " << self << ", rank " << q;
  }
}

TEST(RowRanges, AreCopiedOnlyIfTheyAreNotAdjacent) {
  Lab lab;
  const Tensor all = lab.integers({6, 3}, 1, 9);
  ep::RowRanges joined, apart;
  joined.add(1, 3), joined.add(3, 3), joined.add(3, 4);
  apart.add(0, 2), apart.add(4, 5);
  EXPECT_EQ(joined.list(), (std::vector<ep::RowRange>{{1, 4}}));
  EXPECT_EQ(joined.taken_from(all, lab.stream()).storage(), all.storage()) << "neighbours are not copied";
  EXPECT_EQ(apart.rows(), 3);
  const Tensor taken = apart.taken_from(all, lab.stream());
  expect_bitwise(all.slice(0, 0, 2), taken.slice(0, 0, 2));
  expect_bitwise(all.slice(0, 4, 5), taken.slice(0, 2, 3));
  const Tensor copy = copy_of(all);
  change<double>(copy, [](std::span<double> values) { std::fill(values.begin(), values.end(), 0.0); });
  apart.scatter_into(copy, taken, lab.stream());
  expect_bitwise(taken, apart.taken_from(copy, lab.stream()));
  EXPECT_EQ(ep::RowRanges().taken_from(all, lab.stream()).dim(0), 0);
}

// Returns the ids of six tokens with two slots each. On average, one first slot in five is dropped. Rank 1 has no
// tokens.
Tensor ids_of(Lab& lab, int rank, int64_t experts) {
  const Philox random(1, Purpose::route, cat("rank ", rank));
  const int64_t tokens = rank == 1 ? 0 : 6;
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<int32_t>(random.below(static_cast<uint64_t>(3 * t), static_cast<uint64_t>(experts)));
    ids.push_back(random.below(static_cast<uint64_t>(3 * t + 1), 5) == 0 ? -1 : first);
    ids.push_back((first + 1) % static_cast<int32_t>(experts));
  }
  return Tensor::from<int32_t>(ids, {tokens, 2}, lab.context);
}

// Returns the rows that return to this rank in all phases, in the order in which this rank sent them. `arrived` are the
// rows to return.
Tensor returned(const RoutingPlan& plan, const ep::ExpertGroups& groups, const Tensor& arrived, Stream& stream) {
  const comm::NodeGroups* nodes = plan.counts.node_groups(groups);
  const int64_t sent = plan.counts.chunks.front().rows_to_send();
  const Tensor out = Tensor::empty({sent, arrived.dim(1)}, arrived.dtype(), arrived.device());
  int64_t rows = 0;
  for (const ep::ReturnPhase& phase : plan.counts.phased.phases) {
    ep::InFlight back;
    const Tensor leaving = phase.leaving.taken_from(arrived, stream);
    if (nodes) {
      const ep::InFlight between = ep::return_between_nodes(phase, leaving, *nodes, stream);
      between.arrived.wait();
      back = ep::return_inside_node(phase, between.data, *nodes, stream);
    } else {
      back = ep::send_to_tokens(phase, leaving, plan.counts.all_to_all_group(groups), stream);
    }
    back.arrived.wait();
    EXPECT_EQ(back.data.dim(0), phase.landing.rows());
    phase.landing.scatter_into(out, back.data, stream);
    rows += phase.landing.rows();
  }
  EXPECT_EQ(rows, sent);
  return out;
}

// Returns the rows that return to this rank in one all-to-all, in the order in which this rank sent them.
Tensor returned_at_once(const RoutingPlan& plan, const ep::ExpertGroups& groups, const Tensor& arrived,
                        Stream& stream) {
  const ep::ChunkCounts& chunk = plan.counts.chunks.front();
  ep::InFlight back;
  if (const comm::NodeGroups* nodes = plan.counts.node_groups(groups)) {
    const ep::InFlight between = ep::return_between_nodes(chunk, arrived, *nodes, stream);
    between.arrived.wait();
    back = ep::return_inside_node(chunk, between.data, *nodes, stream);
  } else {
    back = ep::send_to_tokens(chunk, arrived, plan.counts.all_to_all_group(groups), stream);
  }
  back.arrived.wait();
  return back.data;
}

TEST(PhasedReturn, ReturnsTheRowsOfOneAllToAll) {
  const std::vector<int> topologies[] = {{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1}};
  for (const std::vector<int>& nodes : topologies)
    comm::with_ranks(
        8,
        [&](const comm::ProcessGroup& world) {
          Lab lab;
          const auto ep_group = world.split(world.rank() % 2, 0, comm::TrafficClass::ep, "ep");
          const auto etp = world.split(world.rank() / 2, 0, comm::TrafficClass::tp, "etp");
          const auto ep_nodes = comm::split_by_node(*ep_group), all_nodes = comm::split_by_node(world);
          const ep::ExpertGroups groups{ep_group.get(), etp.get(), &world, ep_nodes.get(), all_nodes.get()};
          for (const EspExchange esp_exchange : {EspExchange::gather, EspExchange::direct})
            for (const AllToAll all_to_all : {AllToAll::direct, AllToAll::hierarchical})
              for (const int phases : {2, 3, 4, 8}) {
                SCOPED_TRACE(cat(phases, " phases, ", enum_name(esp_exchange), ", ", enum_name(all_to_all)));
                const RoutingPlan plan = plan_for_ids(
                    ids_of(lab, world.rank(), 8), 8, groups,
                    {.esp_exchange = esp_exchange, .all_to_all = all_to_all, .return_phases = phases}, lab.stream());
                const ep::ChunkCounts& chunk = plan.counts.chunks.front();
                const Tensor arrived = lab.integers({chunk.rows_received(), 3}, -9, 9);
                expect_bitwise(returned_at_once(plan, groups, arrived, lab.stream()),
                               returned(plan, groups, arrived, lab.stream()), Zeros::expected);
                int64_t slots = 0;
                for (const ep::ReturnSet& set : plan.counts.phased.sets) slots += set.slots.rows();
                EXPECT_EQ(slots, plan.counts.slots()) << "every slot row is complete after one set";
              }
        },
        {.node_of_rank = nodes});
}

TEST(PhasedReturn, NeedsOneChunk) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    Lab lab;
    const comm::SelfGroup self;
    EXPECT_THROW(plan_for_ids(ids_of(lab, world.rank(), 4), 4, {&world, &self, &world},
                              {.chunking = {ep::Chunking::By::tokens, 2}, .return_phases = 2}, lab.stream()),
                 std::logic_error);
  });
}

}  // namespace
}  // namespace hexad::tests
