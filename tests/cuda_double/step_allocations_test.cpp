// Calls of cudaMalloc and cudaHostAlloc in steps of training. Such a call may wait for the device, and the device may
// wait for a peer, so the call could wait forever. Therefore, steps must not make such calls.
#include <gtest/gtest.h>

#include <map>

#include "parallel/comm/self_group.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/training/training.h"

namespace hexad::tests {
namespace {

using verify::TrainingRun;

using Allocations = std::map<std::string, int64_t>;

// Returns the allocations of the first two steps of all ranks. The limit of page-locked memory allows the whole stock
// of staging buffers, whatever memory the machine has.
Allocations allocations_of_steps(int ranks, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"batch.global=2", "batch.micro=1", "memory.pinned_bytes=1073741824"});
  if (ranks > 1) overrides.emplace_back("distributed.device_collectives=nccl");
  Allocations all;
  const auto on_rank = [&](const comm::ProcessGroup& world) {
    const auto meet = [&] {
      device::InlineStream here;
      world.barrier(here).wait();
    };
    TrainingRun run(small_recipe(overrides), world);
    ASSERT_EQ(run.instance.context.kind(), device::DeviceKind::cuda);
    const auto source = verify::documents_of(run.recipe);
    run.instance.context.compute().synchronize();
    meet();
    if (world.rank() == 0) cuda_double::take_allocations();
    meet();
    for (int step = 0; step < 2; ++step) run.step(source);
    meet();
    if (world.rank() == 0) all = cuda_double::take_allocations();
    meet();
  };
  if (ranks == 1)
    on_rank(comm::SelfGroup());
  else
    on_ranks(ranks, on_rank);
  return all;
}

TEST(StepAllocations, AreNoneOnOneRank) { EXPECT_EQ(allocations_of_steps(1, {}), Allocations{}); }

TEST(StepAllocations, AreNoneOnSeveralRanks) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.ep=2"}, {"parallel.pp=2"}, {"parallel.cp=2"}, {"parallel.zero=3"}})
    EXPECT_EQ(allocations_of_steps(2, layout), Allocations{}) << layout[0];
}

}  // namespace
}  // namespace hexad::tests
