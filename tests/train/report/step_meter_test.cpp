// Metrics of a step: only the step itself counts, without work between steps.
#include "tools/train/report/step_meter.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
namespace {

using device::Category;

constexpr int64_t mib = 1 << 20;

// Allocates and frees `bytes` bytes.
void hold(device::Allocator& allocator, int64_t bytes, Category category) {
  allocator.deallocate(allocator.allocate(bytes, category), bytes, category);
}

TEST(StepMeter, MemoryPeaksAreThoseOfTheStepOnly) {
  const Recipe recipe = small_recipe({"offload.optimizer=file"});
  on_ranks(2, [&](const comm::ProcessGroup& threads) {
    const comm::World world(threads);
    TrainingState state(recipe, Extensions(), world.group(), {});
    device::DeviceContext& context = state.instance.context;
    StepMeter meter(recipe, state, world, std::make_unique<PeakMeter>(recipe, world.group()), 1,
                    [](const std::string&) {});
    const auto hold_both = [&](int64_t bytes) {
      hold(*context.allocator(), bytes, Category::communication);
      hold(*context.offload_allocator(), bytes, Category::offload);
    };
    for (const int64_t during : {2 * mib, mib}) {
      hold_both(8 * mib);  // as an evaluation does
      meter.begin_step();
      hold_both(during);
      meter.end_step();
      hold_both(8 * mib);  // as a replica check does
      const auto peaks = meter.metrics_of({}).memory_peak_bytes;
      for (const char* name : {"communication", "offload", "total"}) {
        EXPECT_GE(peaks.at(name), during) << name;
        EXPECT_LT(peaks.at(name), 8 * mib) << name;
      }
    }
  });
}

}  // namespace
}  // namespace hexad::tests
