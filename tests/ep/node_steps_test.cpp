// An all-to-all in two steps delivers the same rows in the same order as one step, with fewer messages.
#include "parallel/ep/node_steps.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/ep/random_choices.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
namespace {

using ep::AllToAll;
using ep::Chunking;
using ep::EspExchange;
using ep::RoutingPlan;
using ep::RowOf;

struct Topology {
  std::string name;
  std::vector<int> node_of_rank;

  int ranks() const { return static_cast<int>(node_of_rank.size()); }
};
void PrintTo(const Topology& t, std::ostream* out) { *out << t.name; }

const Topology topologies[] = {{"2x2", {0, 0, 1, 1}},          {"2x3", {0, 0, 0, 1, 1, 1}},
                               {"3x2", {0, 0, 1, 1, 2, 2}},    {"4x2", {0, 0, 1, 1, 2, 2, 3, 3}},
                               {"InTurn", {0, 1, 2, 0, 1, 2}}, {"Mixed", {1, 0, 0, 1, 1, 0}}};

Tensor chosen(Lab& lab, int rank, Load load, int64_t experts) {
  return random_choices(rank, load, rank % 3 != 0, experts, lab.context);
}

// Returns slot rows in the order of sending. Each row contains its rank, its index, and a small integer computed from
// both.
Tensor naming_rows(Lab& lab, const RoutingPlan& plan, int rank) {
  std::vector<double> names;
  for (int64_t r = 0; r < plan.counts.slots(); ++r)
    for (const int64_t name : {int64_t{rank}, r, (7 * rank + 3 * r) % 11 - 5})
      names.push_back(static_cast<double>(name));
  return lab.values(names, {plan.counts.slots(), 3});
}

Tensor as_sent(Lab& lab, const RoutingPlan& plan, const Tensor& rows) {
  if (!plan.indices.wire_slots.defined()) return rows;
  const Tensor wire = Tensor::empty({plan.indices.wire_slots.dim(0), rows.dim(1)}, rows.dtype(), lab.context);
  kernels::kernels(rows.device()).permute.gather(lab.stream(), wire, rows, plan.indices.wire_slots, {});
  return wire;
}

Tensor there(const ep::ChunkCounts& chunk, const Tensor& wire, const comm::NodeGroups& nodes, device::Stream& stream) {
  const auto inside = ep::send_inside_node(chunk, wire.slice(0, chunk.wire_begin, chunk.wire_end), nodes, stream);
  inside.arrived.wait();
  const auto arrived = ep::send_between_nodes(chunk, inside.data, nodes, stream);
  arrived.arrived.wait();
  return arrived.data;
}

Tensor back(const ep::ChunkCounts& chunk, const Tensor& rows, const comm::NodeGroups& nodes, device::Stream& stream) {
  const auto between = ep::return_between_nodes(chunk, rows, nodes, stream);
  between.arrived.wait();
  const auto arrived = ep::return_inside_node(chunk, between.data, nodes, stream);
  arrived.arrived.wait();
  return arrived.data;
}

double dot(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

class TwoStepExchange : public testing::TestWithParam<Topology> {
 protected:
  template <class F>
  void on_ranks(const F& body) {
    comm::with_ranks(GetParam().ranks(), body, {.node_of_rank = GetParam().node_of_rank});
  }
};

TEST_P(TwoStepExchange, DeliversAndReturnsTheSameRowsInTheSameOrder) {
  const Chunking chunkings[] = {{}, {Chunking::By::tokens, 3}, {Chunking::By::peers, 3}, {Chunking::By::experts, 2}};
  on_ranks([&](const comm::ProcessGroup& world) {
    Lab lab;
    const comm::SelfGroup self;
    const auto nodes = comm::split_by_node(world);
    const ep::ExpertGroups groups{&world, &self, &world, nodes.get(), nodes.get()};
    for (Load load : {Load::random, Load::one_expert, Load::some_ranks_empty})
      for (const Chunking& chunking : chunkings)
        for (RowOf row_of : {RowOf::slot, RowOf::token}) {
          const Tensor ids = chosen(lab, world.rank(), load, 2 * world.size());
          ep::RoutingOptions options{.chunking = chunking, .row_of = row_of};
          const RoutingPlan one = plan_for_ids(ids, 2 * world.size(), groups, options, lab.stream());
          options.all_to_all = AllToAll::hierarchical;
          const RoutingPlan two = plan_for_ids(ids, 2 * world.size(), groups, options, lab.stream());
          const Tensor rows = naming_rows(lab, one, world.rank());
          const Tensor wire_of_one = as_sent(lab, one, rows), wire = as_sent(lab, two, rows);
          ASSERT_EQ(one.counts.chunks.size(), two.counts.chunks.size());
          for (size_t c = 0; c < one.counts.chunks.size(); ++c) {
            const ep::ChunkCounts &plain = one.counts.chunks[c], &chunk = two.counts.chunks[c];
            const Tensor sent = wire_of_one.slice(0, plain.wire_begin, plain.wire_end);
            const auto expected = ep::send_to_experts(plain, sent, world, lab.stream());
            expected.arrived.wait();
            const Tensor got = there(chunk, wire, *nodes, lab.stream());
            expect_bitwise(expected.data, got, Zeros::expected);
            expect_bitwise(wire.slice(0, chunk.wire_begin, chunk.wire_end), back(chunk, got, *nodes, lab.stream()),
                           Zeros::expected);
          }
        }
  });
}

// Checks <there(x), y> = <x, back(y)> with integers.
TEST_P(TwoStepExchange, ReturnIsTheAdjointOfSending) {
  on_ranks([](const comm::ProcessGroup& world) {
    Lab lab;
    const comm::SelfGroup self;
    const auto nodes = comm::split_by_node(world);
    const ep::ExpertGroups groups{&world, &self, &world, nodes.get(), nodes.get()};
    const Tensor ids = chosen(lab, world.rank(), Load::random, world.size());
    const RoutingPlan plan =
        plan_for_ids(ids, world.size(), groups, {.all_to_all = AllToAll::hierarchical}, lab.stream());
    const ep::ChunkCounts& chunk = plan.counts.chunks.front();
    const Tensor x = naming_rows(lab, plan, world.rank());
    const Tensor y = lab.integers({chunk.rows_received(), 3}, -9, 9);
    const double there_y = dot(there(chunk, x, *nodes, lab.stream()), y);
    const double x_back = dot(x, back(chunk, y, *nodes, lab.stream()));
    EXPECT_EQ(world.all_reduce_value(there_y, comm::Reduce::sum, lab.context),
              world.all_reduce_value(x_back, comm::Reduce::sum, lab.context));
  });
}

// Each row is sent to all etp ranks that share its expert, by one exchange over all ranks.
TEST_P(TwoStepExchange, DirectEspRowsEqualThoseOfOneStep) {
  on_ranks([](const comm::ProcessGroup& world) {
    Lab lab;
    const auto ep_group = world.split(world.rank() % 2, 0, comm::TrafficClass::ep, "ep");
    const auto etp = world.split(world.rank() / 2, 0, comm::TrafficClass::tp, "etp");
    const auto nodes = comm::split_by_node(world);
    const ep::ExpertGroups groups{ep_group.get(), etp.get(), &world, nullptr, nodes.get()};
    const int64_t experts = 2 * ep_group->size();
    const Tensor ids = chosen(lab, world.rank(), Load::random, experts);
    ep::RoutingOptions options{.chunking = {Chunking::By::tokens, 2}, .esp_exchange = EspExchange::direct};
    const RoutingPlan one = plan_for_ids(ids, experts, groups, options, lab.stream());
    options.all_to_all = AllToAll::hierarchical;
    const RoutingPlan two = plan_for_ids(ids, experts, groups, options, lab.stream());
    const Tensor rows = naming_rows(lab, one, world.rank());
    const Tensor wire_one = as_sent(lab, one, rows), wire_two = as_sent(lab, two, rows);
    for (size_t c = 0; c < one.counts.chunks.size(); ++c) {
      const ep::ChunkCounts& plain = one.counts.chunks[c];
      const auto expected =
          ep::send_to_experts(plain, wire_one.slice(0, plain.wire_begin, plain.wire_end), world, lab.stream());
      expected.arrived.wait();
      expect_bitwise(expected.data, there(two.counts.chunks[c], wire_two, *nodes, lab.stream()), Zeros::expected);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, TwoStepExchange, testing::ValuesIn(topologies), [](const auto& i) { return i.param.name; });

TEST(NodeSteps, SendOneMessageToEachOtherNode) {
  const std::vector<int> node_of_rank{0, 0, 0, 1, 1, 1};
  const comm::NodeGrid grid(node_of_rank);
  // Rank s sends 10 s + d rows to rank d.
  const ep::NodeSteps steps = ep::node_steps(grid, 1, [](int s, int d) { return 10 * s + d; });
  EXPECT_EQ(steps.inside.send, (std::vector<int64_t>{10 + 13, 11 + 14, 12 + 15}));
  EXPECT_EQ(steps.inside.receive, (std::vector<int64_t>{1 + 4, 11 + 14, 21 + 24}));
  EXPECT_EQ(steps.between.rows, (std::vector<int64_t>{1, 4, 11, 14, 21, 24}));
  EXPECT_EQ(steps.between.order, (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(steps.across.send, (std::vector<int64_t>{1 + 11 + 21, 4 + 14 + 24}));
  EXPECT_EQ(steps.across.receive, (std::vector<int64_t>{1 + 11 + 21, 31 + 41 + 51}));
  EXPECT_TRUE(steps.arrival.order.empty()) << "rows arrive in rank order, because the ranks of a node are consecutive";
  EXPECT_EQ(ep::destinations_by_place(grid), (std::vector<int>{0, 3, 1, 4, 2, 5}));
}

TEST(NodeSteps, AreAbsentOnOneNodeOrWithOneRankPerNode) {
  for (const auto& node_of_rank : {std::vector{0, 0}, std::vector{0, 1}})
    comm::with_ranks(2,
                     [](const comm::ProcessGroup& world) {
                       Lab lab;
                       const comm::SelfGroup self;
                       const auto nodes = comm::split_by_node(world);
                       const RoutingPlan plan = plan_for_ids(chosen(lab, world.rank(), Load::random, 2), 2,
                                                             {&world, &self, &world, nodes.get(), nodes.get()},
                                                             {.all_to_all = AllToAll::hierarchical}, lab.stream());
                       EXPECT_FALSE(plan.counts.chunks.front().steps);
                       EXPECT_FALSE(plan.indices.wire_slots.defined()) << "a one-step exchange does not reorder rows";
                     },
                     {.node_of_rank = node_of_rank});
}

}  // namespace
}  // namespace hexad::tests
