// Calls of cudaMalloc and cudaHostAlloc in steps of training. Such a call may wait for the device, and the device may
// wait for a peer, so the call could wait forever. Therefore, steps must not make such calls. The only exception is the
// first step with offloaded activations.
#include <gtest/gtest.h>

#include <map>

#include "parallel/comm/self_group.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

using verify::TrainingRun;

using Allocations = std::map<std::string, int64_t>;

struct TwoSteps {
  Allocations first, second;
};

// Returns the allocations of all ranks in the first two steps. The limit of page-locked memory allows the whole stock
// of staging buffers, whatever memory the machine has.
TwoSteps allocations_of_steps(int ranks, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"batch.global=2", "batch.micro=1", "memory.pinned_bytes=1073741824"});
  if (ranks > 1) overrides.emplace_back("distributed.device_collectives=nccl");
  TwoSteps all;
  const auto on_rank = [&](const comm::ProcessGroup& world) {
    const auto meet = [&] {
      device::InlineStream here;
      world.barrier(here).wait();
    };
    TrainingRun run(small_recipe(overrides), world);
    ASSERT_EQ(run.instance.context.kind(), device::DeviceKind::cuda);
    const auto source = verify::documents_of(run.recipe);
    run.instance.context.compute().synchronize();
    const auto take = [&](Allocations& taken) {
      meet();
      if (world.rank() == 0) taken = cuda_double::take_allocations();
      meet();
    };
    Allocations before;
    take(before);
    for (Allocations* of_step : {&all.first, &all.second}) {
      run.step(source);
      take(*of_step);
    }
  };
  if (ranks == 1)
    on_rank(comm::SelfGroup());
  else
    on_ranks(ranks, on_rank);
  return all;
}

void expect_none(const TwoSteps& allocations, const std::string& layout) {
  EXPECT_EQ(allocations.first, Allocations{}) << layout;
  EXPECT_EQ(allocations.second, Allocations{}) << layout;
}

TEST(StepAllocations, AreNoneOnOneRank) { expect_none(allocations_of_steps(1, {}), "one rank"); }

TEST(StepAllocations, AreNoneOnSeveralRanks) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.ep=2"}, {"parallel.pp=2"}, {"parallel.cp=2"}, {"parallel.zero=3"}})
    expect_none(allocations_of_steps(2, layout), layout[0]);
}

TEST(StepAllocations, AreNoneWithOffloadedStates) {
  expect_none(allocations_of_steps(1, {"offload.optimizer=file"}), "one rank");
  expect_none(allocations_of_steps(2, {"offload.optimizer=file", "parallel.zero=1"}), "two ranks");
}

// Offloaded tensors are in page-locked memory, which a rank takes when it first offloads a tensor of a size. In
// pipelines, the peer's messages are in flight at this time.
TEST(StepAllocations, AreOfTheFirstStepWithOffloadedActivations) {
  const std::vector<std::string> offloaded{"offload.activations=true", "offload.min_bytes=0",
                                           "model.moe.routing=balanced"};
  for (const std::string layout : {"", "parallel.ep=2", "parallel.pp=2", "parallel.zero=3"}) {
    std::vector<std::string> overrides = offloaded;
    if (!layout.empty()) overrides.push_back(layout);
    const TwoSteps allocations = allocations_of_steps(layout.empty() ? 1 : 2, overrides);
    EXPECT_FALSE(allocations.first.empty()) << layout << ": nothing was offloaded";
    for (const auto& [call, count] : allocations.first) EXPECT_TRUE(call.starts_with("cudaHostAlloc")) << call;
    EXPECT_EQ(allocations.second, Allocations{}) << layout;
  }
}

}  // namespace
}  // namespace hexad::tests
