// Memory and traffic of steps that run only a few of their micro-batches, compared with steps that run all
// micro-batches.
#include "tools/plan/step_on_meta.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_record.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int ranks = 4;

// Returns the memory and traffic of a step that runs all micro-batches.
StepOnMeta of_all_micro_batches(const Recipe& r, const mesh::Layout& layout, int rank) {
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, layout, rank, RoutingLoad::even);
  const int64_t all = micro_batches_of(r, layout);
  run.step(all);
  const auto& memory = run.instance().context.allocator();
  memory->reset_peaks();
  for (int c = 0; c < comm::traffic_class_count; ++c) run.world().take(static_cast<comm::TrafficClass>(c));
  run.step(all);
  StepOnMeta step{.memory = memory->stats()};
  for (int c = 0; c < comm::traffic_class_count; ++c)
    step.sent[c] = static_cast<double>(run.world().take(static_cast<comm::TrafficClass>(c)).bytes);
  return step;
}

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class FewMicroBatches : public testing::TestWithParam<Case> {};

TEST_P(FewMicroBatches, HaveTheMemoryAndTrafficOfAll) {
  std::vector<std::string> all{"model.hidden=64", "model.layers=5",  "train.precision=f32",
                               "batch.micro=1",   "batch.global=48", "parallel.pp=4"};
  all.insert(all.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  const Recipe r = small_recipe(all);
  const mesh::Layout layout(r.parallel.sizes(), ranks);
  ASSERT_TRUE(has_equal_passes(r, RoutingLoad::even));
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(rank);
    const StepOnMeta expected = of_all_micro_batches(r, layout, rank),
                     actual = step_on_meta(r, {}, layout, rank, RoutingLoad::even, Wanted::all);
    if (r.device == device::DeviceKind::cpu) {
      EXPECT_EQ(expected.memory.peak, actual.memory.peak);
      EXPECT_EQ(expected.memory.peak_total, actual.memory.peak_total);
      EXPECT_EQ(expected.memory.peak_held, actual.memory.peak_held);
    } else {  // a step with few micro-batches has a few small tensors at another time
      const auto near = [](int64_t whole, int64_t few) {
        EXPECT_LE(std::abs(few - whole), 2048) << few << ", " << whole;
      };
      near(expected.memory.peak_in(device::Category::activation), actual.memory.peak_in(device::Category::activation));
      near(expected.memory.peak_total, actual.memory.peak_total);
      near(expected.memory.peak_held, actual.memory.peak_held);
    }
    EXPECT_EQ(expected.sent, actual.sent);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , FewMicroBatches,
    testing::Values(
        Case{"OneFOneB", {}}, Case{"Bf16", {"train.precision=bf16"}}, Case{"Blocks", {"recompute=block"}},
        Case{"ZeroBubble", {"schedule.pipeline.kind=zb_h1"}},
        Case{"ZeroBubbleBlocks", {"schedule.pipeline.kind=zb_h1", "recompute=block"}},
        Case{"Interleaved", {"schedule.pipeline.kind=interleaved", "model.layers=8"}},
        Case{"ZeroBubbleV", {"schedule.pipeline.kind=zb_v", "model.layers=8"}},
        Case{"DualPipeV", {"schedule.pipeline.kind=dualpipe_v", "model.layers=8"}},
        Case{"ZeroBubbleVOnCards",
             {"device=cuda", "distributed.device_collectives=host", "schedule.pipeline.kind=zb_v", "model.layers=8"}},
        Case{"TwoStages", {"parallel.pp=2", "parallel.ep=2"}}, Case{"Zero1", {"parallel.pp=2", "parallel.zero=1"}},
        Case{"Offload", {"offload.activations=true", "offload.min_bytes=0"}},
        Case{"Tied", {"model.tied_embedding=true"}}, Case{"Prediction", {"model.prediction_blocks=1"}},
        Case{"OnCards", {"device=cuda", "distributed.device_collectives=host"}},
        // The tokens of two steps need more memory than the passes.
        Case{"TokensOfTwoStepsOnCards",
             {"device=cuda", "distributed.device_collectives=host", "parallel.pp=1", "model.layers=1",
              "model.hidden=16", "recompute=block", "batch.global=4096"}}),
    [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace hexad::tests
