#include "tests/training/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "framework/base/philox.h"
#include "framework/kernels/cpu/parallel.h"
#include "optim/lr_schedule.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"

namespace hexad::tests {
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

Tensor copy_of(const Tensor& t) {
  Tensor copy = Tensor::like(t);
  if (t.bytes() > 0) std::memcpy(copy.raw(), t.raw(), static_cast<size_t>(t.bytes()));
  return copy;
}

// How the two say where they differ, or nothing.
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
    EXPECT_TRUE(near(a.loss, b.loss)) << "loss " << a.loss << " and " << b.loss << ", apart by " << a.loss - b.loss;
    EXPECT_TRUE(near(a.grad_norm, b.grad_norm)) << "norm " << a.grad_norm << " and " << b.grad_norm;
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

// An embedding's gradient, or that of an idle expert, is rightly zero in many rows.
Difference within(double allowed) {
  return [allowed](const Tensor& a, const Tensor& b) { return difference(a, b, allowed, Zeros::expected); };
}
std::string bits(const Tensor& a, const Tensor& b) { return bitwise_difference(a, b, Zeros::expected); }

}  // namespace

Recipe recipe_of(const std::string& yaml, const std::vector<std::string>& overrides, int64_t world) {
  return load_recipe(config::parse(yaml, "test.yaml", overrides), Registry(), world);
}

Recipe small_recipe(const std::vector<std::string>& overrides) { return recipe_of(small_yaml, overrides); }

void FixedSource::fill(int64_t index, const data::Row& row) const {
  const int64_t begin = index % rows_.count * rows_.context;
  const auto copy = [&](const std::vector<int32_t>& from, std::span<int32_t> to) {
    std::copy_n(from.begin() + begin, rows_.context, to.begin());
  };
  copy(rows_.ids, row.ids), copy(rows_.targets, row.targets);
  copy(rows_.first, row.first), copy(rows_.last, row.last);
}

FixedSource documents(int64_t sequences, int64_t context, int64_t vocab, uint64_t seed) {
  const Philox random(seed, Purpose::synthetic, "documents");
  uint64_t drawn = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int32_t>(random.below(drawn++, static_cast<uint64_t>(bound)));
  };
  std::vector<int32_t> left;  // of the vocabulary
  const auto next_id = [&] {
    const auto at = left.begin() + below(static_cast<int64_t>(left.size()));
    const int32_t id = *at;
    left.erase(at);
    return id;
  };
  data::Batch batch(sequences, context);
  for (int64_t s = 0; s < sequences; ++s) {
    const data::Row row = batch.row(s);
    if (s % 2 == 0 || static_cast<int64_t>(left.size()) < context) {
      left.resize(static_cast<size_t>(vocab));
      std::iota(left.begin(), left.end(), 0);
    }
    for (int64_t begin = 0; begin < context;) {
      const int64_t end = begin + 1 + below(context - begin);
      for (int64_t t = begin; t < end; ++t) {
        const auto i = static_cast<size_t>(t);
        row.ids[i] = next_id();
        row.first[i] = static_cast<int32_t>(begin), row.last[i] = static_cast<int32_t>(end);
        row.targets[i] = data::ignored;
        if (t > begin && s % 5 != 1) row.targets[i - 1] = row.ids[i];
      }
      begin = end;
    }
  }
  return FixedSource(std::move(batch));
}

FixedSource documents_of(const Recipe& recipe) {
  return documents(3 * recipe.batch.global, recipe.model.context, recipe.model.vocab);
}

TrainingRun::TrainingRun(const Recipe& r, const comm::ProcessGroup& world)
    : recipe(r),
      instance(recipe, Registry(), world),
      optimizer(recipe.optim, instance.parameters),
      train(recipe, instance, optimizer),
      world_(world) {}

StepResult TrainingRun::step(const data::Source& source) {
  const int64_t step = progress.step + 1;
  const double lr = optim::learning_rate(recipe.optim, step, recipe.train.steps);
  StepResult result = train.run(source, progress.next_sequence, step, step - progress.skipped, lr);
  progress.step = step;
  progress.tokens += result.tokens;
  progress.next_sequence += recipe.batch.global;
  progress.skipped += result.skipped;
  return result;
}

Tensor TrainingRun::whole(const Parameter& p, const Tensor& local) const {
  Tensor all = copy_of(local);
  for (const Shard& shard : p.placement().shards) {
    require(shard.dim == 0, "[test] ", p.name(), " is cut along dimension ", shard.dim);
    Shape shape = all.shape();
    shape[0] *= shard.parts;
    const Tensor gathered = Tensor::empty(shape, all.dtype(), all.device());
    instance.mesh[shard.axis].all_gather(gathered, all, all.device().context().compute()).wait();
    all = gathered;
  }
  return all;
}

TensorMap TrainingRun::weights() const {
  TensorMap out;
  for (const auto& p : instance.parameters) out[p->name()] = whole(*p, p->local());
  return out;
}

TensorMap TrainingRun::gradients() const {
  TensorMap out;
  for (const auto& p : instance.parameters) out[p->name()] = whole(*p, p->gradient());
  return out;
}

TensorMap TrainingRun::states() const {
  TensorMap out;
  for (const auto& s : optimizer.states()) out[cat(s.parameter->name(), "/", s.kind)] = whole(*s.parameter, s.tensor);
  for (const auto& s : instance.states) out[s.name + "/state"] = copy_of(s.tensor);
  return out;
}

void TrainingRun::save() { Checkpointer(recipe, world_, {}, {}).save(progress, instance, optimizer); }

void TrainingRun::load(const std::string& checkpoint_folder) {
  auto checkpoint = io::Checkpoint::open(checkpoint_folder, io::Check::full);
  progress = Checkpointer::load(checkpoint, recipe, instance, optimizer);
}

Trajectory trajectory(TrainingRun& run, const data::Source& source, int steps) {
  Trajectory t;
  for (int s = 0; s < steps; ++s) {
    StepResult result = run.step(source);
    t.steps.push_back({std::move(result), run.gradients()});
  }
  t.weights = run.weights();
  t.states = run.states();
  return t;
}

Trajectory trajectory_alone(const Recipe& recipe, const data::Source& source, int steps) {
  const comm::SelfGroup self;
  TrainingRun run(recipe, self);
  return trajectory(run, source, steps);
}

void on_ranks(int n, const std::function<void(const comm::ProcessGroup& world)>& body) {
  comm::with_ranks(n, [&](const comm::ProcessGroup& world) {
    kernels::cpu::set_thread_count(1);
    SCOPED_TRACE(cat("rank ", world.rank(), " of ", n));
    body(world);
  });
}

void expect_close(const TensorMap& expected, const TensorMap& actual, double allowed) {
  expect_same(expected, actual, within(allowed));
}
void expect_bitwise(const TensorMap& expected, const TensorMap& actual) { expect_same(expected, actual, bits); }
void expect_close(const Trajectory& expected, const Trajectory& actual, double allowed) {
  expect_same(expected, actual, within(allowed), allowed);
}
void expect_bitwise(const Trajectory& expected, const Trajectory& actual) { expect_same(expected, actual, bits, 0); }

std::string message_of(ExitCode code, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace hexad::tests
