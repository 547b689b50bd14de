#include "tests/training/training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/device/kernel_loading.h"
#include "framework/kernels/cpu/parallel.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/text_collectives.h"
#include "tests/training/test_folder.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

constexpr const char* small_yaml = R"(
model:
  layers: 2
  hidden: 16
  heads: 4
  kv_heads: 2
  context: 8
  vocab: 31
  init_std: 0.3
  moe: {experts: 4, top_k: 2, expert_hidden: 12, aux_loss: {coefficient: 0.05}}
batch: {global: 8, micro: 2}
train: {steps: 10, precision: f64, seed: 3, threads: 1, peak_flops: 1.0e9}
optim: {lr: 0.01, schedule: constant, clip: 1.0}
data: {synthetic: true}
)";

// Function that returns a description of the difference of two tensors; empty if there is none.
using Difference = std::function<std::string(const Tensor&, const Tensor&)>;

void expect_same(const TensorMap& expected, const TensorMap& actual, const Difference& difference) {
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(actual.contains(name));
    report(difference(tensor, actual.at(name)), std::source_location::current());
  }
}

void expect_same(const Trajectory& expected, const Trajectory& actual, const Difference& difference, double allowed) {
  const auto near = [&](double a, double b) { return std::abs(a - b) <= allowed * std::max(1.0, std::abs(a)); };
  ASSERT_EQ(expected.steps.size(), actual.steps.size());
  for (size_t s = 0; s < expected.steps.size(); ++s) {
    SCOPED_TRACE(cat("step ", s + 1));
    const StepResult &a = expected.steps[s].result, &b = actual.steps[s].result;
    EXPECT_TRUE(near(a.loss, b.loss)) << "loss " << a.loss << " and " << b.loss << ", difference " << a.loss - b.loss;
    EXPECT_TRUE(near(a.prediction_loss.value_or(-1), b.prediction_loss.value_or(-1)))
        << "loss of prediction blocks " << a.prediction_loss.value_or(-1) << " and " << b.prediction_loss.value_or(-1);
    EXPECT_TRUE(near(a.grad_norm, b.grad_norm)) << "gradient norm " << a.grad_norm << " and " << b.grad_norm;
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.skipped, b.skipped);
    ASSERT_EQ(a.routers.size(), b.routers.size());
    for (size_t l = 0; l < a.routers.size(); ++l) {
      const RouterStatistics &x = a.routers[l], &y = b.routers[l];
      EXPECT_EQ(x.counts, y.counts) << "MoE layer " << l;
      EXPECT_EQ(x.assignments, y.assignments) << "MoE layer " << l;
      EXPECT_EQ(x.dropped, y.dropped) << "MoE layer " << l;
      EXPECT_TRUE(near(x.aux_loss, y.aux_loss)) << "MoE layer " << l << ": " << x.aux_loss << " and " << y.aux_loss;
      EXPECT_TRUE(near(x.z_loss, y.z_loss)) << "MoE layer " << l << ": " << x.z_loss << " and " << y.z_loss;
    }
    expect_same(expected.steps[s].gradients, actual.steps[s].gradients, difference);
  }
  expect_same(expected.weights, actual.weights, difference);
  expect_same(expected.states, actual.states, difference);
}

// Returns a comparison with the tolerance `allowed`. The comparison accepts tensors that are mostly zero. Many rows of
// an embedding's gradient are correctly zero, and so are the gradients of idle experts.
Difference within(double allowed) {
  return [allowed](const Tensor& a, const Tensor& b) { return difference(a, b, allowed, Zeros::expected); };
}
std::string bits(const Tensor& a, const Tensor& b) { return bitwise_difference(a, b, Zeros::expected); }

}  // namespace

Recipe recipe_of(const std::string& yaml, const std::vector<std::string>& overrides, int64_t world) {
  std::vector<std::string> possible = overrides;
  // A device's lanes are queues, so they have no worker threads.
  if (test_device() != device::DeviceKind::cpu) std::erase(possible, "schedule.worker_lanes=true");
  return load_recipe(config::parse(yaml, "test.yaml", possible), Registry(), world);
}

Recipe small_recipe(const std::vector<std::string>& overrides, int64_t world) {
  return recipe_of(small_yaml, overrides, world);
}

void on_ranks(int n, const std::function<void(const comm::ProcessGroup& world)>& body,
              const comm::ThreadOptions& options) {
  device::load_kernels_at_start();
  const auto on_rank = [&](const comm::ProcessGroup& world) {
    kernels::cpu::set_thread_count(1);
    SCOPED_TRACE(cat("rank ", world.rank(), " of ", n));
    body(world);
  };
  comm::with_ranks(n, on_rank, options);
}

Trajectory one_rank_trajectory(const Recipe& recipe, const data::Source& source, int steps) {
  const comm::SelfGroup self;
  TrainingRun run(recipe, self);
  return trajectory(run, source, steps);
}

void expect_close(const TensorMap& expected, const TensorMap& actual, double allowed) {
  expect_same(expected, actual, within(allowed));
}
void expect_bitwise(const TensorMap& expected, const TensorMap& actual) { expect_same(expected, actual, bits); }
void expect_close(const Trajectory& expected, const Trajectory& actual, double allowed) {
  expect_same(expected, actual, within(allowed), allowed);
}
void expect_bitwise(const Trajectory& expected, const Trajectory& actual) { expect_same(expected, actual, bits, 0); }

void expect_resumed_bitwise(Recipe first, Recipe second, const comm::ProcessGroup& world) {
  const Scratch scratch;  // every rank makes a folder, but all use rank 0's folder
  device::DeviceContext context;
  first.run.dir = second.run.dir = broadcast_text(scratch.path(), 0, world, context);
  const FixedSource source = documents_of(second);
  TrainingRun whole(second, world), saved(first, world), resumed(second, world);
  for (int s = 0; s < 4; ++s) whole.step(source);
  for (int s = 0; s < 2; ++s) saved.step(source);
  saved.save();
  resumed.load(first.run.dir + "/checkpoints/step-00000002");
  for (int s = 0; s < 2; ++s) resumed.step(source);
  expect_bitwise(whole.states(), resumed.states());
  expect_bitwise(whole.weights(), resumed.weights());
}

std::string message_of(ExitCode code, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no Error was thrown; expected an Error with exit code " << static_cast<int>(code);
  return {};
}

}  // namespace hexad::tests
