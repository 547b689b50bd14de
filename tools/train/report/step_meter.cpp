#include "tools/train/report/step_meter.h"

#include <algorithm>

#include <fmt/core.h>

#include "framework/base/ordinal.h"
#include "framework/base/units.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

using namespace base;
using namespace layers;
using device::Category;
using device::Device;

namespace {

// A warning reports a new peak that is more than this multiple of the previous peak.
constexpr double noticeable_rise = 1.1;

// Reduces all values in one collective, because a collective for each number would take longer.
std::vector<double> all_reduced(const std::vector<double>& mine, comm::Reduce op, const comm::ProcessGroup& group,
                                Device device) {
  const Device host = device.host();
  const Tensor all = Tensor::from<double>(mine, {static_cast<int64_t>(mine.size())}, host, Category::communication);
  group.all_reduce(all, op, host.context().compute()).wait();
  return all.to_vector<double>();
}

}  // namespace

StepMeter::StepMeter(const Recipe& recipe, TrainingState& state, const comm::World& world,
                     std::unique_ptr<PeakMeter> peak, double flops_per_token,
                     std::function<void(const std::string&)> warn)
    : recipe_(recipe),
      state_(state),
      world_(world),
      peak_(std::move(peak)),
      warn_(std::move(warn)),
      clock_(world.group(), world.topology(), state.instance.mesh),
      flops_per_token_(flops_per_token),
      started_after_(state.progress.step) {}

// Discards the reads and the peaks since the previous step.
void StepMeter::begin_step() {
  device::DeviceContext& context = state_.instance.context;
  context.take_host_reads();
  context.allocator()->reset_peaks();
  if (recipe_.offload.any()) context.offload_allocator()->reset_peaks();
  clock_.begin();
}

void StepMeter::end_step() {
  clock_.end();
  device::DeviceContext& context = state_.instance.context;
  host_reads_ = context.take_host_reads();
  memory_ = context.allocator()->stats();
  if (recipe_.offload.any())  // offloaded tensors have their own allocator
    memory_.peak[base::ordinal(Category::offload)] = context.offload_allocator()->stats().peak_in(Category::offload);
}

telemetry::StepMetrics StepMeter::metrics_of(const StepResult& result) {
  telemetry::StepMetrics m;
  m.step = state_.progress.step;
  m.tokens = state_.progress.tokens;
  if (result.targets > 0) m.loss = result.loss, m.prediction_loss = result.prediction_loss;
  m.lr = result.lr;
  m.grad_norm = result.grad_norm;
  m.tokens_per_second = static_cast<double>(result.tokens) / clock_.seconds();
  m.model_flops_per_second = m.tokens_per_second * flops_per_token_;
  m.peak_flops_per_second = peak_->peak_of_all_ranks();
  m.mfu = m.model_flops_per_second / m.peak_flops_per_second;
  if (reported_peak_ > 0 && m.peak_flops_per_second > noticeable_rise * reported_peak_)
    warn_(fmt::format(
        "the measured peak of the ranks is {}, but was {} before: the MFU shown up to step {} was {:.2f} times too "
        "high; for a constant peak of each rank, set train.peak_flops",
        human_quantity(m.peak_flops_per_second, "FLOP/s"), human_quantity(reported_peak_, "FLOP/s"), m.step - 1,
        m.peak_flops_per_second / reported_peak_));
  reported_peak_ = m.peak_flops_per_second;
  m.skipped_steps = state_.progress.skipped;
  m.started_after = started_after_;
  if (!recipe_.stages.empty()) m.stage = stage_at(recipe_, m.step) + 1;
  m.time = telemetry::utc_time();
  add_memory(m);
  m.host_reads.insert(host_reads_.begin(), host_reads_.end());
  for (const std::string& text : clock_.report(m, state_.instance.context)) warn_(text);
  add_routers(m, result);
  return m;
}

void StepMeter::add_memory(telemetry::StepMetrics& m) const {
  std::vector<double> peaks{memory_.peak.begin(), memory_.peak.end()};
  peaks.push_back(static_cast<double>(memory_.peak_total));
  peaks.push_back(static_cast<double>(memory_.peak_held));
  peaks = all_reduced(peaks, comm::Reduce::max, world_.group(), state_.instance.context);
  for (size_t c = 0; c < device::category_count; ++c)
    m.memory_peak_bytes[std::string(device::name_of(static_cast<Category>(c)))] = static_cast<int64_t>(peaks[c]);
  m.memory_peak_bytes["total"] = static_cast<int64_t>(peaks[device::category_count]);
  if (peaks.back() > 0) m.memory_peak_bytes["held"] = static_cast<int64_t>(peaks.back());
}

void StepMeter::add_routers(telemetry::StepMetrics& m, const StepResult& result) const {
  const double micro_batches = static_cast<double>(recipe_.batch.global / recipe_.batch.micro);
  int64_t assignments = 0, dropped = 0, passes = 0, shadowed = 0;
  for (const RouterStatistics& r : result.routers) {
    const double layers = static_cast<double>(result.routers.size());
    m.aux_loss += r.aux_loss / micro_batches / layers;
    m.z_loss += r.z_loss / micro_batches / layers;
    assignments += r.assignments, dropped += r.dropped;
    passes += r.passes, shadowed += r.shadowed;
  }
  std::vector<std::vector<double>> loads = expert_loads(recipe_.model, result.routers);
  for (const std::vector<double>& load : loads)
    if (!load.empty())
      m.router_max_load =
          std::max(m.router_max_load, *std::max_element(load.begin(), load.end()) * static_cast<double>(load.size()));
  if (shows_loads(m.step)) m.expert_load = std::move(loads);
  m.dropped_fraction = assignments > 0 ? static_cast<double>(dropped) / static_cast<double>(assignments) : 0;
  m.shadowed_experts = passes > 0 ? static_cast<double>(shadowed) / static_cast<double>(passes) : 0;
}

// True if the metrics of `step` contain the experts' loads. This is the case every train.router_every steps (0: in no
// step). If the key is above 0, the first step that this meter measures and the run's last step also have loads. Every
// report can then show loads.
bool StepMeter::shows_loads(int64_t step) const {
  const int64_t every = recipe_.train.router_every;
  return every > 0 && (step % every == 0 || step == started_after_ + 1 || step == recipe_.train.steps);
}

void StepMeter::update_peak(const StepResult& result, const telemetry::StepMetrics& metrics) {
  peak_->after_step(metrics.ranks ? metrics.ranks->step_seconds.most : metrics.step_seconds,
                    static_cast<double>(result.tokens) * flops_per_token_);
}

}  // namespace hexad::train
