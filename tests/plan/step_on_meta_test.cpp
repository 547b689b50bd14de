// Memory of steps of which only a few micro-batches are run, compared with steps that run all micro-batches.
#include "tools/plan/step_on_meta.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::tests {

using namespace plan;

namespace {

constexpr int ranks = 4;

// The device is a CPU. For a GPU, the tokens of the next step are added for all micro-batches that are not run.
device::MemoryStats of_all_micro_batches(const Recipe& r, const mesh::Layout& layout, int rank) {
  const train::Extensions extensions;
  RunOnMeta run(r, extensions, layout, rank, RoutingLoad::even);
  const int64_t all = micro_batches_of(r, layout);
  run.step(all);
  const auto& memory = run.instance().context.allocator();
  memory->reset_peaks();
  run.step(all);
  return memory->stats();
}

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class FewMicroBatches : public testing::TestWithParam<Case> {};

TEST_P(FewMicroBatches, NeedTheMemoryOfAll) {
  std::vector<std::string> all{"model.hidden=64", "model.layers=5",  "train.precision=f32",
                               "batch.micro=1",   "batch.global=48", "parallel.pp=4"};
  all.insert(all.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  const Recipe r = small_recipe(all);
  const mesh::Layout layout(r.parallel.sizes(), ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(rank);
    const device::MemoryStats expected = of_all_micro_batches(r, layout, rank),
                              actual = step_on_meta(r, {}, layout, rank, RoutingLoad::even, Wanted::memory).memory;
    EXPECT_EQ(expected.peak, actual.peak);
    EXPECT_EQ(expected.peak_total, actual.peak_total);
    EXPECT_EQ(expected.peak_held, actual.peak_held);
  }
}

INSTANTIATE_TEST_SUITE_P(, FewMicroBatches,
                         testing::Values(Case{"OneFOneB", {}}, Case{"Bf16", {"train.precision=bf16"}},
                                         Case{"Blocks", {"recompute=block"}},
                                         Case{"ZeroBubble", {"schedule.pipeline.kind=zb_h1"}},
                                         Case{"ZeroBubbleBlocks", {"schedule.pipeline.kind=zb_h1", "recompute=block"}},
                                         Case{"TwoStages", {"parallel.pp=2", "parallel.ep=2"}},
                                         Case{"Zero1", {"parallel.pp=2", "parallel.zero=1"}},
                                         Case{"Zero2", {"parallel.pp=2", "parallel.zero=2"}},
                                         Case{"Offload", {"offload.activations=true", "offload.min_bytes=0"}},
                                         Case{"Tied", {"model.tied_embedding=true"}},
                                         Case{"Prediction", {"model.prediction_blocks=1"}}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace hexad::tests
