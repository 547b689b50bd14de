#include "tools/hexad/train_step.h"

#include <algorithm>
#include <cmath>

#include "optim/gradient_norm.h"

namespace hexad::app {
namespace {

std::unique_ptr<SavePolicy> make_policy(const Recipe& r) {
  return r.offload.activations ? offload_policy(r.offload.min_bytes) : keep_policy();
}

int64_t count_targets(const MicroBatch& b) {
  const int32_t* t = b.targets.data<int32_t>();
  return b.tokens() - std::count(t, t + b.tokens(), data::ignored);
}

Tensor scalar(double value, Dtype dtype, Device device) {
  Tensor t = Tensor::empty({1}, dtype, device);
  kernels::kernels(device).pointwise.fill(device.context().compute(), t, value);
  return t;
}

double value_of(const Tensor& t) {
  return t.dtype() == Dtype::f64 ? *t.data<double>() : static_cast<double>(*t.data<float>());
}

}  // namespace

TrainStep::TrainStep(const Recipe& recipe, ModelInstance& instance, optim::Optimizer& optimizer)
    : recipe_(recipe),
      instance_(instance),
      optimizer_(optimizer),
      buckets_(instance.parameters, instance.mesh, recipe.distributed.bucket_bytes),
      policy_(make_policy(recipe)) {
  RouterStatistics empty;
  empty.counts.assign(static_cast<size_t>(recipe.model.moe.experts), 0);
  statistics_.assign(instance.model.moe_layers().size(), empty);
}

// Micro-batch j of the global batch is sequences [j m, (j + 1) m): rank r computes a contiguous run of them.
std::vector<MicroBatch> TrainStep::load(const data::Source& source, int64_t first_sequence) const {
  const int64_t micro = recipe_.batch.micro, ranks = instance_.mesh.size(Axis::dp);
  const int64_t mine = recipe_.batch.global / micro / ranks;
  std::vector<MicroBatch> batches;
  for (int64_t i = 0; i < mine; ++i) {
    const int64_t begin = first_sequence + (instance_.mesh.coordinate(Axis::dp) * mine + i) * micro;
    batches.push_back(make_micro_batch(source.batch(begin, micro), begin, micro, instance_.context));
  }
  return batches;
}

double TrainStep::forward_backward(const MicroBatch& batch, int64_t step, double gradient_scale, bool last) {
  Stream& stream = instance_.context.compute();
  Tape tape(stream, *policy_, Tape::Mode::record, recipe_.recompute == Recompute::norms);
  const Pass pass{
      .batch = batch, .seed = recipe_.train.seed, .step = static_cast<uint64_t>(step), .statistics = &statistics_};
  CrossEntropyOptions options;
  options.gradient_scale = gradient_scale;
  auto losses = instance_.model.loss(tape, pass, {.recompute = recipe_.recompute, .loss = options});

  const Dtype acc = losses.total.data.dtype();
  const double micro_batches = static_cast<double>(recipe_.batch.global / recipe_.batch.micro);
  std::vector<Replay::Root> roots{{losses.total, scalar(gradient_scale, acc, instance_.context)}};
  for (const Value& penalty : losses.penalties)
    roots.push_back({penalty, scalar(1 / micro_batches, acc, instance_.context)});
  std::function<void(Parameter&)> ready;
  if (last) ready = [&](Parameter& p) { buckets_.ready(p, stream); };
  Replay(tape, roots, Replay::Weights::at_once, ready).run();
  return value_of(losses.total.data);
}

void TrainStep::reduce_statistics(std::vector<RouterStatistics>& routers) const {
  if (routers.empty()) return;
  const auto& world = instance_.mesh[Axis::dp];
  const int64_t experts = recipe_.model.moe.experts;
  std::vector<int64_t> counts;
  std::vector<double> losses;
  for (const RouterStatistics& r : routers) {
    counts.insert(counts.end(), r.counts.begin(), r.counts.end());
    counts.push_back(r.assignments), counts.push_back(r.dropped);
    losses.push_back(r.aux_loss), losses.push_back(r.z_loss);
  }
  const Device device = instance_.context;
  Stream& stream = instance_.context.compute();
  Tensor c = Tensor::from<int64_t>(counts, {static_cast<int64_t>(counts.size())}, device, Category::communication);
  Tensor l = Tensor::from<double>(losses, {static_cast<int64_t>(losses.size())}, device, Category::communication);
  world.all_reduce(c, comm::Reduce::sum, stream).wait();
  world.all_reduce(l, comm::Reduce::sum, stream).wait();
  const int64_t* n = c.data<int64_t>();
  const double* x = l.data<double>();
  for (RouterStatistics& r : routers) {
    std::copy_n(n, experts, r.counts.begin());
    r.assignments = n[experts], r.dropped = n[experts + 1];
    r.aux_loss = x[0], r.z_loss = x[1];
    n += experts + 2, x += 2;
  }
}

StepResult TrainStep::run(const data::Source& source, int64_t first_sequence, int64_t step, int64_t update, double lr) {
  Stream& stream = instance_.context.compute();
  const auto& world = instance_.mesh[Axis::dp];
  const std::vector<MicroBatch> batches = load(source, first_sequence);
  double valid = 0;
  for (const MicroBatch& b : batches) valid += static_cast<double>(count_targets(b));
  valid = world.all_reduce_value(valid, comm::Reduce::sum, instance_.context);
  // All labels masked: a loss of zero and zero gradients, not 0/0.
  const double gradient_scale = valid > 0 ? 1 / valid : 0.0;

  for (auto& s : statistics_) s.reset();
  for (const auto& p : instance_.parameters) p->clear_gradient();
  double loss_sum = 0;
  for (size_t i = 0; i < batches.size(); ++i)
    loss_sum += forward_backward(batches[i], step, gradient_scale, i + 1 == batches.size());
  buckets_.finish(stream);

  StepResult result;
  result.tokens = recipe_.batch.global * recipe_.model.context;
  result.loss = world.all_reduce_value(loss_sum, comm::Reduce::sum, instance_.context) * gradient_scale;
  result.grad_norm = optim::global_gradient_norm(instance_.parameters, instance_.mesh, stream);
  result.routers = statistics_;
  reduce_statistics(result.routers);
  // Both are equal on all ranks, so all skip or none does.
  result.skipped = !std::isfinite(result.loss) || !std::isfinite(result.grad_norm);
  if (result.skipped) return result;

  const double clip = recipe_.optim.clip;
  const double scale = clip > 0 && result.grad_norm > clip ? clip / result.grad_norm : 1.0;
  optimizer_.step(stream, lr, scale, update);
  const auto layers = instance_.model.moe_layers();
  for (size_t l = 0; l < layers.size(); ++l) layers[l]->finish_batch(result.routers[l].counts);
  return result;
}

}  // namespace hexad::app
