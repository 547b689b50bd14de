#include "tools/train/report/step_observers.h"

#include <utility>

#include <fmt/format.h>

#include "framework/base/units.h"
#include "tools/train/model/replica_check.h"
#include "tools/train/model/weight_fault.h"
#include "tools/train/process/crash_report.h"
#include "tools/train/process/planted_fault.h"

namespace hexad::train {

void SkippedSteps::note(int64_t step, const StepResult& result, const TrainingDirectory& directory) {
  consecutive_skips_ = result.skipped ? consecutive_skips_ + 1 : 0;
  if (result.skipped)
    directory.warn(fmt::format("step {} skipped: loss {}, gradient norm {}; expected finite numbers", step,
                               base::with_digits(result.loss, 6), base::with_digits(result.grad_norm, 6)));
  if (result.targets == 0 && !std::exchange(warned_of_no_targets_, true))
    directory.warn(fmt::format(
        "step {} has no targets: every token of the global batch is the last of its document, or all targets are "
        "masked; such a step has no loss and changes no weights",
        step));
}

void SkippedSteps::require_fewer(int64_t most, int64_t step) const {
  if (consecutive_skips_ >= most)
    base::fail(base::ExitCode::numeric, "step ", step, ": ", consecutive_skips_,
               consecutive_skips_ == 1 ? " step" : " steps in a row",
               " without a finite loss and gradient; expected fewer than ", most,
               " (train.max_skipped): a lower optim.lr may help");
}

StepObservers::StepObservers(const Recipe& recipe, TrainingState& state, const comm::World& world,
                             const TrainingDirectory& directory, SkippedSteps& skipped,
                             std::unique_ptr<StepMeter> meter, const MakeAdviser& make_adviser)
    : recipe_(recipe),
      state_(state),
      world_(world),
      directory_(directory),
      skipped_(skipped),
      meter_(std::move(meter)),
      trace_(recipe, state.instance, world.group(), directory.info_function(), directory.warn_function()) {
  if (make_adviser)
    adviser_ = make_adviser({recipe, state.instance, world, state.progress, trace_, directory.logger()});
}

void StepObservers::begin_step(int64_t step) {
  report_crashes_in_step(step);
  directory_.require_held();
  inject_fault(world_.rank(), step);
  inject_weight_fault(world_.rank(), step, state_.instance);
  trace_.begin_step(step);
  if (adviser_) adviser_->begin_step(step);
  meter_->begin_step();
  inject_slowness(world_.rank(), step, state_.instance.context.spans());
}

void StepObservers::end_step(const StepResult& result, telemetry::MetricsSink& sinks) {
  const int64_t step = state_.progress.step;
  meter_->end_step();
  check_replicas(step);
  note_refused_windows(step);
  skipped_.note(step, result, directory_);
  {
    const device::Span span(state_.instance.context.spans(), "metrics");
    telemetry::StepMetrics metrics = meter_->metrics_of(result);
    if (adviser_) adviser_->end_step(result, metrics);
    sinks.on_step(metrics);
    meter_->update_peak(result, metrics);
  }
  skipped_.require_fewer(recipe_.train.max_skipped, step);
}

void StepObservers::note_refused_windows(int64_t step) const {
  comm::Windows& windows = state_.instance.mesh.ep_windows();
  const auto refused = windows.take_refused_bytes();
  if (!refused) return;
  const auto shown = [](int64_t bytes) { return base::human_bytes(static_cast<double>(bytes)); };
  const std::string kept = windows.bytes() == 0 ? "rows are sent as with all_to_all: direct"
                                                : base::cat("windows keep ", shown(windows.bytes()),
                                                            ", and rows that exceed them are sent "
                                                            "as with all_to_all: direct");
  directory_.warn(fmt::format(
      "step {}: a rank of group {} lacks memory for windows of {} (schedule.moe.all_to_all: window). Until the "
      "end of the run, {}. For windows, set a smaller batch.micro or a larger memory.limit_bytes",
      step, windows.group().name(), shown(*refused), kept));
}

void StepObservers::check_replicas(int64_t step) {
  const int64_t every = recipe_.distributed.replica_check_every;
  if (every == 0 || step % every != 0) return;
  const device::Span span(state_.instance.context.spans(), "replica check");
  train::check_replicas(state_.instance.parameters, state_.instance.mesh);
}

}  // namespace hexad::train
