// The schedule of an MoE layer as data.
#include <gtest/gtest.h>

#include "framework/schedule/executor.h"
#include "layers/moe/expert_exchange.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/moe_lab.h"

namespace hexad::tests {
namespace {

TEST(ExpertGraph, SendsComputesReturns) {
  MoeLab lab;
  const comm::SelfGroup self;
  const Tensor ids = lab.values(std::vector<int32_t>{0, 1, 3, 2}, {2, 2});
  const auto plan = std::make_shared<const ep::RoutingPlan>(ep::make_routing_plan(ids, 4, self, self));
  moe::ExpertPass pass{.plan = plan, .groups = {&self, &self}, .send = lab.randn({4, 8})};
  const auto graph = moe::make_expert_graph(pass);
  EXPECT_EQ(graph.to_string(), "inter: S R(C) | compute: C(S)");
  EXPECT_EQ(graph.tasks()[0].spec.cost.wire_bytes, 4 * 8 * 8);
}

TEST(ExpertGraph, RanksThatShareExpertsGatherBeforeAndAddAfter) {
  comm::with_ranks(2, [](const comm::ProcessGroup& etp) {
    MoeLab lab;
    const comm::SelfGroup self;
    const Tensor ids = lab.values(std::vector<int32_t>{0, 1, 3, 2}, {2, 2});
    const auto plan = std::make_shared<const ep::RoutingPlan>(ep::make_routing_plan(ids, 4, self, etp));
    EXPECT_EQ(plan->rows_received(), 4);
    EXPECT_EQ(plan->rows_computed(), 8);
    const Tensor rows = lab.integers({4, 8}, 1, 9);
    moe::ExpertPass pass{.plan = plan, .groups = {&self, &etp}, .send = rows};
    pass.compute = [](Stream&, const Tensor& grouped) { return grouped; };  // of every rank: an addend
    const auto graph = moe::make_expert_graph(pass);
    EXPECT_EQ(graph.to_string(), "inter: S R(A) | intra: G(S) A(C) | compute: C(G)");
    schedule::execute(graph, lab.context);
    const Tensor twice = copy_of(rows);
    for (int64_t i = 0; i < twice.numel(); ++i) twice.data<double>()[i] *= 2;
    expect_bitwise(twice, pass.returned);
  });
}

// A forgotten edge would let a task read what is not there yet.
TEST(ExpertGraph, AnyOrderThatItsEdgesAllowGivesTheSame) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    MoeLab lab;
    const comm::SelfGroup self;
    const Tensor ids = lab.values(std::vector<int32_t>{0, 1, 3, 2}, {2, 2});
    const auto plan = std::make_shared<const ep::RoutingPlan>(ep::make_routing_plan(ids, 4, self, self));
    const Tensor rows = lab.randn({4, 8});
    moe::ExpertPass pass{.plan = plan, .groups = {&self, &self}, .send = rows};
    pass.compute = [](Stream&, const Tensor& grouped) { return grouped; };
    schedule::execute_shuffled(moe::make_expert_graph(pass), lab.context, seed);
    expect_bitwise(rows, pass.returned);
  }
}

}  // namespace
}  // namespace hexad::tests
