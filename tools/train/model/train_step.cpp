#include "tools/train/model/train_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "framework/tensor/host_read.h"
#include "optim/gradient_norm.h"
#include "optim/lr_schedule.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

constexpr double skips_update = -1;  // clipping factor that makes the optimizer skip the update

std::unique_ptr<SavePolicy> make_policy(const Recipe& r) {
  return r.offload.activations ? offload_policy(r.offload.min_bytes) : keep_policy();
}

}  // namespace

TrainStep::TrainStep(const Recipe& recipe, ModelInstance& instance, optim::Optimizer& optimizer,
                     std::function<void()> observe_gradients)
    : recipe_(recipe),
      instance_(instance),
      optimizer_(optimizer),
      buckets_(instance.buckets,
               recipe.optim.grad_dtype == optim::GradientDtype::bf16 ? dp::Sums::rounded : dp::Sums::accumulator),
      policy_(make_policy(recipe)),
      pipeline_(recipe, instance, *policy_),
      statistics_(recipe.model.moe_layers(), recipe.model.moe.experts, instance.device()),
      observe_gradients_(std::move(observe_gradients)) {
  const auto& world = instance.mesh.world();
  if (world.size() > 1) world.connect(comm::Use::small_sums, instance.device());
}

std::vector<MicroBatch> TrainStep::take(const data::Source& source, int64_t first_sequence) {
  const auto ahead = std::exchange(ahead_, std::nullopt);
  const bool wanted = ahead && ahead->source == &source && ahead->first_sequence == first_sequence &&
                      std::ssize(ahead->batches) == micro_batches();
  return wanted ? ahead->batches : load(source, first_sequence);
}

void TrainStep::load_ahead(const data::Source& source, int64_t first_sequence) {
  ahead_ = Loaded{&source, first_sequence, load(source, first_sequence)};
}

int64_t TrainStep::micro_batches() const {
  return recipe_.batch.global / recipe_.batch.micro / instance_.mesh.size(Axis::dp);
}

// Makes this rank's micro-batches. With m = batch.micro, micro-batch j of the global batch consists of sequences [j *
// m, (j + 1) * m). Each dp coordinate has a contiguous range of micro-batches. Ranks that differ only in pp, cp and tp
// have the same micro-batches.
std::vector<MicroBatch> TrainStep::load(const data::Source& source, int64_t first_sequence) {
  const device::Span span(instance_.context.spans(), "data");
  const int64_t micro = recipe_.batch.micro, mine = micro_batches();
  const bool equal = instance_.context.meta() && source.has_equal_sequences();
  std::vector<MicroBatch> batches;
  for (int64_t i = 0; i < mine; ++i) {
    const int64_t begin = first_sequence + (instance_.mesh.coordinate(Axis::dp) * mine + i) * micro;
    if (equal && equal_ && equal_->source == &source) {
      batches.push_back(equal_->batches.make(begin, instance_.context));
      continue;
    }
    batches.push_back(make_micro_batch(source.batch(begin, micro), begin, micro, instance_.context,
                                       {instance_.mesh.size(Axis::cp), instance_.mesh.coordinate(Axis::cp)},
                                       recipe_.model.prediction_blocks, recipe_.model.attention_chunk));
    if (equal) equal_.emplace(Equal{&source, EqualMicroBatches(batches.back())});
  }
  return batches;
}

// Sums the statistics over all ranks. Each token is counted once per layer, because each rank has counted only its own
// rows.
void TrainStep::reduce_statistics(std::vector<RouterStatistics>& routers) const {
  if (routers.empty()) return;
  const auto& world = instance_.mesh.world();
  const int64_t experts = recipe_.model.moe.experts;
  std::vector<int64_t> counts;
  std::vector<double> losses;
  for (const RouterStatistics& r : routers) {
    counts.insert(counts.end(), r.counts.begin(), r.counts.end());
    for (const int64_t count : {r.assignments, r.dropped, r.passes, r.shadowed}) counts.push_back(count);
    losses.push_back(r.aux_loss), losses.push_back(r.z_loss);
  }
  const Device device = Device(instance_.context).host();
  Stream& stream = device.context().compute();
  Tensor c = Tensor::from<int64_t>(counts, {static_cast<int64_t>(counts.size())}, device, Category::communication);
  Tensor l = Tensor::from<double>(losses, {static_cast<int64_t>(losses.size())}, device, Category::communication);
  world.all_reduce(c, comm::Reduce::sum, stream).wait();
  world.all_reduce(l, comm::Reduce::sum, stream).wait();
  const int64_t* n = c.data<int64_t>();
  const double* x = l.data<double>();
  for (RouterStatistics& r : routers) {
    std::copy_n(n, experts, r.counts.begin());
    r.assignments = n[experts], r.dropped = n[experts + 1];
    r.passes = n[experts + 2], r.shadowed = n[experts + 3];
    r.aux_loss = x[0], r.z_loss = x[1];
    n += experts + 4, x += 2;
  }
}

void TrainStep::update_weights(const optim::UpdateStep& step) {
  Stream& stream = instance_.context.compute();
  if (!updates_beside())
    return instance_.weights.update(
        stream, [&] { optimizer_.step(stream, step.lr, step.factor, step.step); }, dp::Arrival::at_use);
  Stream& updates = instance_.context.updates();
  // Frees the factor of the previous update. If it were freed after this update is issued, its memory could be reused
  // only after this whole update. The next small tensor could get this memory, and the compute lane would wait for the
  // update.
  factor_ = {};
  instance_.weights.update_beside(stream, updates, [&](const dp::Bucket& bucket) {
    std::vector<Parameter*> parameters;
    for (const dp::Bucket::Entry& e : bucket.entries) parameters.push_back(e.parameter);
    optimizer_.update(updates, parameters, step);
  });
  factor_ = step.factor;  // freed before the next update is issued
}

StepResult TrainStep::run(const data::Source& source, Progress& progress) {
  return run(source, progress, optim::learning_rate(recipe_.optim, progress.step + 1, recipe_.train.steps));
}

StepResult TrainStep::run(const data::Source& source, Progress& progress, double lr) {
  const int64_t step = progress.step + 1;
  StepResult result = run(source, progress.next_sequence, step, step - progress.skipped, lr);
  progress.step = step;
  progress.tokens += result.tokens;
  progress.next_sequence += recipe_.batch.global;
  progress.skipped += !result.updated();
  return result;
}

StepResult TrainStep::run(const data::Source& source, int64_t first_sequence, int64_t step, int64_t update, double lr) {
  Stream& stream = instance_.context.compute();
  const auto& world = instance_.mesh.world();
  const std::vector<MicroBatch> batches = take(source, first_sequence);
  device::SpanLog& spans = instance_.context.spans();
  auto span = std::make_optional<device::Span>(spans, "number of targets");
  double valid = 0;
  // Only one rank of each pp and tp group counts targets, because all ranks of such a group have the same targets.
  if (instance_.mesh.coordinate(Axis::pp) == 0 && instance_.mesh.coordinate(Axis::tp) == 0)
    for (const MicroBatch& b : batches) valid += static_cast<double>(b.predicted);
  valid = world.all_reduce_value(valid, comm::Reduce::sum, instance_.context);
  // Without targets, the loss has no gradient.
  const double gradient_scale = valid > 0 ? 1 / valid : 0.0;

  span.emplace(spans, "start of gradients");
  statistics_.reset(stream);
  for (const auto& p : instance_.parameters) p->clear_gradient();
  const double micro_batches = static_cast<double>(recipe_.batch.global / recipe_.batch.micro);
  buckets_.begin(static_cast<int64_t>(batches.size()));
  const auto contributed = [&](Parameter& p, bool last) {
    buckets_.ready(p, stream, last ? dp::Contribution::last : dp::Contribution::more);
  };
  // Backward overwrites gradients that the previous update, on the separate queue, may still read. Backward therefore
  // waits for this update. The wait costs little, because a forward of all parts of the model on this rank comes first.
  // This forward already waits for the update of every weight that it uses. The loss writes gradients of the head in
  // forward, but first uses the head and thereby waits for the update of the head.
  const auto before_backward = [&] {
    if (updates_beside()) instance_.weights.complete(stream);
  };
  span.reset();
  const Tensor loss_sums = pipeline_.train(batches, {.step = step,
                                                     .loss_gradient = gradient_scale,
                                                     .aux_losses_gradient = 1 / micro_batches,
                                                     .statistics = &statistics_.layers,
                                                     .contributed = contributed,
                                                     .before_backward = before_backward});
  span.emplace(spans, "gradients: reduction");
  buckets_.finish(stream);
  span.reset();
  if (observe_gradients_) observe_gradients_();

  // The device computes the clipping factor, so the update does not wait until the host has read the norm and the loss.
  const auto& k = kernels::kernels(instance_.device());
  const int64_t count = 1 + loss_sums.numel();
  const Tensor sums = Tensor::empty({count}, Dtype::f64, instance_.device(), Category::communication),
               factor = Tensor::empty({1}, Dtype::f64, instance_.device());
  span.emplace(spans, "gradients: norm");
  optim::squared_gradient_norm(sums.slice(0, 0, 1), instance_.parameters, instance_.mesh, stream);
  k.pointwise.copy(stream, sums.slice(0, 1, count), loss_sums);
  stream.wait(world.all_reduce(sums, comm::Reduce::sum, stream));
  k.optimizer.clip(stream, factor, sums, recipe_.optim.clip);
  if (valid == 0)
    k.pointwise.fill(stream, factor, skips_update);  // without targets, neither decay nor momentum may change weights
  const HostRead read = read_to_host("step: norm and loss", sums, stream);
  // The factor is equal on all ranks, so either all ranks update their weights or none does.
  span.emplace(spans, "optimizer");
  update_weights({lr, update, factor});
  span.reset();

  // If the host runs ahead of the device, it loads the next batch while the device is busy.
  const int64_t next = first_sequence + recipe_.batch.global;
  if (instance_.context.runs_ahead() && next + recipe_.batch.global <= source.size()) load_ahead(source, next);

  span.emplace(spans, "loss and router statistics");
  StepResult result;
  result.lr = lr;
  result.tokens = recipe_.batch.global * recipe_.model.context;
  result.targets = static_cast<int64_t>(valid);
  statistics_.read(stream);
  result.routers = statistics_.layers;
  reduce_statistics(result.routers);
  const auto values = read.wait<double>();
  const auto per_target = [&](double sum) {
    return valid > 0 ? sum * gradient_scale : std::numeric_limits<double>::quiet_NaN();
  };
  result.loss = per_target(values[1]);
  if (count > 2) result.prediction_loss = per_target(values[2] / static_cast<double>(recipe_.model.prediction_blocks));
  result.grad_norm = std::sqrt(values[0]);
  result.skipped = !std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
  instance_.mesh.ep_windows().grow();  // safe here, because no exchange of this step is in flight
  if (!result.updated()) return result;
  for (const auto& [index, layer] : instance_.model.moe_layers()) layer->finish_batch(result.routers[index].counts);
  return result;
}

}  // namespace hexad::train
