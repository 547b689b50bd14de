// Compares the estimate of NCCL's memory with the memory that the NCCL test double takes. The training runs have
// several layouts, on one node and on two nodes. The memory is compared before and after a step. The double counts
// connections. The estimate comes from a formula, on the meta device.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/device/kernel_loading.h"
#include "framework/kernels/cpu/parallel.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/cuda_double/nccl.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::tests {

using namespace base;
using namespace verify;
namespace {

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ConnectionEstimate : public testing::TestWithParam<Case> {};

TEST_P(ConnectionEstimate, IsWithinOnePercentOfTheMemoryCountedByTheDouble) {
  constexpr int ranks = 4;
  std::vector<std::string> overrides = GetParam().overrides;
  overrides.insert(overrides.end(), {"device=cuda", "distributed.device_collectives=nccl"});
  const Recipe recipe = small_recipe(overrides);
  const mesh::Layout layout(recipe.parallel.sizes(), ranks);
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe, world);
    const int rank = world.rank();  // also the number of the rank's device
    const int64_t taken = cuda_double::nccl_bytes(rank);
    const double estimate = plan::estimate_memory(recipe, {}, layout, rank).connections;
    ASSERT_GT(taken, 0);
    EXPECT_NEAR(estimate / static_cast<double>(taken), 1, 0.01) << "estimate " << estimate << ", taken " << taken;
    EXPECT_EQ(run.instance.context.allocator()->stats().used_in(device::Category::connection), taken);
    EXPECT_TRUE(run.instance.connection_text().starts_with("NCCL has connected ")) << run.instance.connection_text();
    const auto all = cuda_double::nccl_communicators();
    EXPECT_TRUE(std::none_of(all.begin(), all.end(), [&](const auto& c) {
      return layout.size(Axis::etp) == 1 && c.name == "ep x etp";
    })) << "with etp 1, group ep x etp must have no communicator besides the communicator of ep";
    world.any(false, run.instance.context);  // waits until all ranks have read the count
    run.step(verify::documents_of(recipe));
    EXPECT_EQ(cuda_double::nccl_bytes(rank), taken) << "a step must not connect ranks";
    world.any(false, run.instance.context);
  });
}

// Layouts whose groups span both nodes, and layouts whose groups are inside one of the two nodes.
class ConnectionEstimateOfNodes : public testing::TestWithParam<Case> {};

TEST_P(ConnectionEstimateOfNodes, IsWithinOnePercentBeforeAndAfterAStep) {
  const std::vector<int> nodes{0, 0, 1, 1};
  std::vector<std::string> overrides = GetParam().overrides;
  overrides.insert(overrides.end(), {"device=cuda", "distributed.device_collectives=nccl"});
  const Recipe recipe = small_recipe(overrides);
  const mesh::Layout layout(recipe.parallel.sizes(), 4);
  const train::Extensions none;
  std::vector<int64_t> estimates;
  for (int rank = 0; rank < 4; ++rank) {
    plan::RunOnMeta meta(recipe, none, layout, rank, plan::RoutingLoad::even, plan::RunOnMeta::Record::nothing, nodes);
    estimates.push_back(meta.instance().context.allocator()->stats().used_in(device::Category::connection));
  }
  device::load_kernels_at_start();
  const auto change = cuda_double::NcclChange::cards_per_node(2);
  const auto on_rank = [&](const comm::ProcessGroup& world) {
    kernels::cpu::set_thread_count(1);
    TrainingRun run(recipe, world);
    const int rank = world.rank();  // also the number of the rank's device
    const auto expect_estimate = [&](const char* when) {
      const int64_t taken = cuda_double::nccl_bytes(rank);
      EXPECT_NEAR(static_cast<double>(estimates[rank]) / static_cast<double>(taken), 1, 0.01)
          << when << ": rank " << rank << ", estimate " << estimates[rank] << ", taken " << taken;
      EXPECT_EQ(run.instance.context.allocator()->stats().used_in(device::Category::connection), taken) << when;
      world.any(false, run.instance.context);  // waits until all ranks have read the count
    };
    expect_estimate("before the first step");
    run.step(verify::documents_of(recipe));
    expect_estimate("after a step");
  };
  comm::with_ranks(4, on_rank, {.node_of_rank = nodes});
}

INSTANTIATE_TEST_SUITE_P(
    , ConnectionEstimateOfNodes,
    testing::Values(Case{"Experts", {"parallel.ep=4"}}, Case{"Replicas", {}}, Case{"ExpertsOfANode", {"parallel.ep=2"}},
                    Case{"StagesOfExperts", {"parallel.pp=2", "parallel.ep=2"}}, Case{"Tensors", {"parallel.tp=2"}},
                    Case{"Ring", {"parallel.cp=2"}}, Case{"ZeroTwo", {"parallel.zero=2", "parallel.ep=2"}},
                    Case{"ZeroThree", {"parallel.zero=3", "parallel.ep=2"}},
                    Case{"Hierarchical", {"parallel.ep=4", "schedule.moe.all_to_all=hierarchical"}},
                    Case{"InRankOrder", {"train.deterministic=true", "parallel.ep=2"}}),
    [](const auto& c) { return c.param.name; });

INSTANTIATE_TEST_SUITE_P(, ConnectionEstimate,
                         testing::Values(Case{"Experts", {"parallel.ep=4"}}, Case{"Replicas", {}},
                                         Case{"StagesOfExperts", {"parallel.pp=2", "parallel.ep=2"}},
                                         Case{"Tensors", {"parallel.tp=2"}},
                                         Case{"Sequences", {"parallel.tp=2", "parallel.sp=true"}},
                                         Case{"Ring", {"parallel.cp=2"}},
                                         Case{"RingOfExperts", {"parallel.cp=2", "parallel.ep=2"}},
                                         Case{"Gathered", {"parallel.cp=2", "parallel.cp_kind=all_gather"}},
                                         Case{"Ulysses", {"parallel.cp=2", "parallel.cp_kind=ulysses"}},
                                         Case{"Windows", {"parallel.ep=4", "schedule.moe.all_to_all=window"}},
                                         Case{"ZeroTwo", {"parallel.zero=2", "parallel.ep=2"}},
                                         Case{"ZeroThree", {"parallel.zero=3", "parallel.ep=2"}},
                                         Case{"ZeroThreeOfReplicas", {"parallel.zero=3"}},
                                         Case{"InRankOrder", {"train.deterministic=true", "parallel.ep=2"}}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace hexad::tests
