// Steps with optim.overlap equal steps without it, although updates run on a separate queue.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "framework/device/emulated/emulated_queue.h"
#include "parallel/comm/self_group.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

using device::DeviceKind;
using device::Event;
using optim::Slice;
using optim::UpdateStep;

constexpr int steps = 3;

// AdamW that first calls `before`, with the stream of the update.
class Hooked final : public optim::UpdateRule {
 public:
  using Before = std::function<void(Stream&, std::span<const Slice>)>;
  Hooked(optim::OptimConfig config, Before before) : before_(std::move(before)) {
    config.name = "adamw";
    adamw_ = optim::UpdateRules().make(config);
  }
  std::vector<std::string> states() const override { return adamw_->states(); }
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& step) const override {
    before_(stream, slices);
    adamw_->update(stream, slices, step);
  }
  bool only_launches_kernels() const override { return true; }

 private:
  const Before before_;
  std::unique_ptr<optim::UpdateRule> adamw_;
};

// Extensions with the optimizer "hooked". `before` makes a function for each rank.
Extensions hooked(const std::function<Hooked::Before()>& before) {
  Extensions extensions;
  extensions.optimizers.add(
      "hooked", {.reads_moment_dtype = true, .marked_state = "moment2", .make = [before](const optim::RuleSpec& s) {
                   return std::make_unique<Hooked>(s.config, before());
                 }});
  return extensions;
}

// Makes updates slow, so that a forward that fails to wait for an update overtakes the update. Kernels of the CUDA
// double are slow, so a small tensor suffices there.
Hooked::Before slow() {
  return [memory = Tensor()](Stream& stream, std::span<const Slice> slices) mutable {
    const Device device = slices.front().main.device();
    if (!memory.defined())
      memory = Tensor::empty({int64_t{1} << (device.kind() == DeviceKind::cuda ? 12 : 20)}, Dtype::f32, device);
    for (int i = 0; i < 4; ++i) kernels::kernels(device).pointwise.fill(stream, memory, i);
  };
}

Recipe recipe_with(std::vector<std::string> overrides, bool overlap) {
  overrides.insert(overrides.begin(), {"distributed.bucket_bytes=8192", "optim.clip=0.1"});
  Recipe r = small_recipe(overrides);
  r.optim.overlap = overlap;
  r.optim.name = "hooked";
  return r;
}

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Overlap : public testing::TestWithParam<Case> {};

// A step with overlap begins while the update of the previous step runs. The steps without overlap run first, because
// work between two steps with overlap would give the update time to end.
TEST_P(Overlap, EqualsUpdatesInOrderBitwiseAtEveryLevelOfZero) {
  const Case& c = GetParam();
  const Extensions extensions = hooked(slow);
  for (const int zero : {0, 1, 2, 3}) {
    if (zero > 0 && c.ranks == 1) break;
    SCOPED_TRACE(cat("zero ", zero));
    const auto recipe = [&](bool overlap) {
      std::vector<std::string> overrides = c.overrides;
      overrides.push_back(cat("parallel.zero=", zero));
      return recipe_with(overrides, overlap);
    };
    on_ranks(c.ranks, [&](const comm::ProcessGroup& world) {
      TrainingRun in_order(recipe(false), world, extensions), ahead(recipe(true), world, extensions);
      const FixedSource source = documents_of(in_order.recipe);
      EXPECT_EQ(&ahead.instance.context.updates() != &ahead.instance.context.compute(),
                !ahead.instance.context.on_host());
      std::vector<StepResult> expected, actual;
      for (int s = 0; s < steps; ++s) expected.push_back(in_order.step(source));
      for (int s = 0; s < steps; ++s) actual.push_back(ahead.step_ahead(source));
      for (int s = 0; s < steps; ++s) {
        EXPECT_EQ(expected[s].loss, actual[s].loss) << "step " << s;
        EXPECT_EQ(expected[s].grad_norm, actual[s].grad_norm) << "step " << s;
      }
      ahead.instance.weights.complete(ahead.instance.context.compute());
      expect_bitwise(in_order.weights(), ahead.weights());
      expect_bitwise(in_order.states(), ahead.states());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Overlap,
    testing::Values(Case{"OneRank", 1, {}}, Case{"Two", 2, {}}, Case{"Experts", 2, {"parallel.ep=2"}},
                    Case{"ExpertsOverTwoOfFour", 4, {"parallel.ep=2"}},
                    Case{"Tensors", 4, {"parallel.tp=2", "parallel.sp=true"}},
                    Case{"Stages", 4, {"parallel.pp=2", "model.tied_embedding=true"}},
                    Case{"VirtualStages", 2, {"parallel.pp=2", "model.layers=4", "schedule.pipeline.kind=zb_v"}},
                    Case{"Tied", 2, {"model.tied_embedding=true", "model.prediction_blocks=1"}},
                    Case{"Blocks", 2, {"recompute=block"}},
                    Case{"Bf16", 2, {"train.precision=bf16", "optim.main_weights=rest"}},
                    Case{"Bf16Gradients", 2, {"train.precision=bf16", "optim.grad_dtype=bf16"}},
                    Case{"Offloaded", 2, {"offload.optimizer=file"}},
                    Case{"Frozen", 2, {"optim.freeze=[embedding.weight, layers.0.*]"}},
                    Case{"Reuse",
                         2,
                         {"parallel.ep=2", "schedule.moe.memory_reuse=s1", "schedule.moe.chunk_by=tokens",
                          "schedule.moe.chunks=2"}},
                    Case{"Pairs", 2, {"parallel.ep=2", "schedule.pipeline.overlap=micro_batches"}},
                    Case{"AUnitForEveryParameter", 2, {"distributed.bucket_bytes=1"}}),
    [](const auto& i) { return i.param.name; });

// Gate at which launched work waits until let_go().
struct Gate {
  std::atomic<bool> open = false;
  void wait() { open.wait(false); }
  void let_go() { open = true, open.notify_all(); }
};

// True if `event` is done after at most ten seconds.
bool ends(const Event& event) {
  for (int i = 0; i < 10'000 && !event.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return event.done();
}

// The test stops the second update before it reaches the bucket of the head, which is updated last. The bucket of the
// first parameter is updated first, so a use of this parameter does not wait. The second step frees the clipping factor
// of the first step before it issues its own update. Otherwise, the next owner of the factor's memory would wait for
// the stopped update. After the second step, the test makes so many small tensors that one of them gets this memory.
TEST(UpdateQueue, NextForwardBeginsBeforeTheUpdateEnds) {
  if (test_device() != DeviceKind::emulated) GTEST_SKIP() << "needs a queue that the test can stop";
  const comm::SelfGroup self;
  Gate gate;
  TrainingRun* run = nullptr;
  const auto last = [&run](std::span<const Slice> slices) {
    const Tensor head = run->instance.parameters.find("head.weight").owned_weights();
    return std::ranges::any_of(slices, [&](const Slice& s) { return s.weights.storage() == head.storage(); });
  };
  bool stops = false, gated = false;
  const Extensions extensions = hooked([&] {
    return [&](Stream& stream, std::span<const Slice> slices) {
      if (!stops || gated || !last(slices)) return;
      gated = true;
      device::emulated::emulated_stream(stream).launch({}, [&gate] { gate.wait(); });
    };
  });
  TrainingRun ahead(recipe_with({}, true), self, extensions);
  run = &ahead;
  const FixedSource source = documents_of(ahead.recipe);
  std::vector<double> losses{ahead.step_ahead(source).loss};
  stops = true;
  losses.push_back(ahead.step_ahead(source).loss);
  ASSERT_TRUE(gated);
  device::DeviceContext& context = ahead.instance.context;
  const Event updated = context.updates().record();
  (*ahead.instance.parameters.begin())->use(context.compute());
  std::vector<Tensor> small;
  for (int i = 0; i < 1000; ++i) {
    small.push_back(Tensor::empty({1}, Dtype::f64, context));
    kernels::kernels(context).pointwise.fill(context.compute(), small.back(), i);
  }
  EXPECT_TRUE(ends(context.compute().record())) << "the compute lane waits for the whole update";
  EXPECT_FALSE(updated.done());
  ahead.instance.parameters.find("head.weight").use(context.compute());
  const Event used = context.compute().record();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(used.done()) << "a use of the head must wait for the update of its bucket";
  gate.let_go();
  losses.push_back(ahead.step(source).loss);

  TrainingRun in_order(recipe_with({}, false), self, hooked(slow));
  for (const double loss : losses) EXPECT_EQ(in_order.step(source).loss, loss);
  expect_bitwise(in_order.weights(), ahead.weights());
}

}  // namespace
}  // namespace hexad::tests
