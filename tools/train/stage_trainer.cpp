#include "tools/train/stage_trainer.h"

#include <filesystem>

#include <fmt/ranges.h>

#include "framework/base/atomic_file.h"
#include "framework/base/units.h"
#include "framework/data/data_use.h"
#include "framework/telemetry/progress_sink.h"
#include "layers/model_size.h"
#include "optim/lr_schedule.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/opening.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/signals.h"
#include "tools/train/recipe/due.h"
#include "tools/train/report/run_report.h"

namespace hexad::train {

using namespace base;

namespace {

// Returns a text that tells how the process may end before its save is complete; empty if no SIGINT or SIGTERM came.
std::string end_without_save() {
  if (!end_requested()) return {};
  const std::optional<double> patience = mpirun_patience();
  if (!patience) return "; another Ctrl-C or SIGTERM after 1 s ends the run immediately, saved or not";
  return fmt::format("; mpirun kills the ranks {} s after its SIGTERM, saved or not ({})", *patience,
                     patience_variable);
}

// Returns the decision of schedule.moe.fused in a checkpoint of the stage; empty in a checkpoint of an earlier stage.
std::string fused_in(const io::Checkpoint& checkpoint, const Recipe& recipe, int64_t stage) {
  return stage_at(recipe, checkpoint.step()) == stage ? saved_progress(checkpoint).fused : "";
}

telemetry::RunInfo run_info(const Recipe& recipe, const layers::ModelSize& size, int64_t first_step, int ranks) {
  return {.name = std::filesystem::path(recipe.run.dir).filename().string(),
          .first_step = first_step,
          .total_steps = recipe.train.steps,
          .parameters = size.parameters,
          .active_parameters = size.active_parameters,
          .ranks = ranks};
}

}  // namespace

StageTrainer::StageTrainer(const SharedRun& run, std::optional<io::Checkpoint> checkpoint)
    : world_(run.world),
      directory_(run.directory),
      patience_(run.patience),
      timelines_(run.timelines),
      stage_(stage_at(run.recipe, checkpoint ? checkpoint->step() + 1 : 1)),
      recipe_(with_stage(run.recipe, stage_)),
      last_step_(last_step(recipe_, stage_)),
      checkpoints_(recipe_, world_.group(), store_options(recipe_, world_, directory_)) {
  const Extensions& extensions = run.extensions;
  const std::string stage = stage_text(recipe_, stage_);
  if (!stage.empty()) directory_.info(stage);
  note_layout(recipe_, world_, directory_);
  recipe_.data.shuffle = checkpoint ? data_order(*checkpoint, recipe_) : recipe_.data.order();
  data_ = open_data(recipe_, extensions, world_, directory_,
                    checkpoint ? mixture_start(*checkpoint, recipe_) : data::MixtureStart());
  if (ExpertDuel::wanted(recipe_))
    expert_duel_ = std::make_unique<ExpertDuel>(recipe_, world_, directory_, run.prove_fused,
                                                checkpoint ? fused_in(*checkpoint, run.recipe, stage_) : "");
  auto peak = std::make_unique<PeakMeter>(recipe_, world_.group());
  state_ = std::make_unique<TrainingState>(recipe_, extensions, world_.group(), directory_.info_function());
  start_.changes = load_start(std::move(checkpoint), recipe_, data_, world_, directory_, *state_);
  if (expert_duel_) expert_duel_->enter(*state_);
  const int64_t remaining_steps = last_step_ - progress().step;
  note_data_use(data_, progress().next_sequence + remaining_steps * recipe_.batch.global, directory_);
  if (!stage.empty()) start_.changes.insert(start_.changes.begin(), stage);
  const layers::ModelSize size = layers::model_size(recipe_.model, extensions);
  start_.run = run_info(recipe_, size, progress().step, world_.size());
  auto meter = std::make_unique<StepMeter>(recipe_, *state_, world_, std::move(peak), size.flops_per_token,
                                           directory_.warn_function());
  observers_ = std::make_unique<StepObservers>(recipe_, *state_, world_, directory_, run.skipped, std::move(meter),
                                               run.make_adviser);
  if (leader()) sinks_ = open_sinks(recipe_, directory_);
}

ExitCode StageTrainer::run() {
  try {
    return train();
  } catch (const std::exception& e) {
    std::string reason = e.what();
    const std::string step = fmt::format("step {}: ", progress().step);
    if (reason.starts_with(step)) reason.erase(0, step.size());
    write_report(fmt::format("{} after step {}: {}", trouble_of_failure, progress().step, reason));
    throw;
  }
}

ExitCode StageTrainer::train() {
  sinks_.on_start(start_.run);
  bool preempted = any_rank_asked_to_stop();  // a signal may have arrived during loading
  if (progress().step < last_step_ && !preempted) begin_steps();
  while (progress().step < last_step_ && !preempted) {
    const int64_t step = progress().step + 1;
    const Due due = due_after(recipe_, stage_, step);
    const double lr = optim::learning_rate(recipe_.optim, step, recipe_.train.steps);
    observers_->begin_step(step);
    const StepResult result = state_->train_step.run(*data_.train, state_->progress, lr);
    if (due.weights) complete_weights();
    end_step(result);
    preempted = any_rank_asked_to_stop();
    if (due.evaluation && !preempted) {
      evaluate_heldout(recipe_.train.eval_sequences);
      preempted = any_rank_asked_to_stop();
    }
    if (preempted) prepare_to_stop();
    // No regular save follows a skipped step, because weights may be NaN or infinite, and a save would reject them.
    if (preempted || due.last_save)
      save(SaveFailure::stop);
    else if (due.save && !result.skipped)
      save(recipe_.checkpoint.on_failure);
  }
  observers_->end();
  if (trained()) record_data();
  return preempted ? end_preempted() : end_done();
}

// On rank 0, moves checkpoints of later steps aside, and records this start in the run directory. Called just before
// the first step. A start that fails during loading, or has no step to train, must not change the checkpoints or
// history.json.
void StageTrainer::begin_steps() {
  if (!leader()) return;
  directory_.require_held_now();
  const std::vector<std::string> abandoned = checkpoints_.abandon_after(progress().step);
  if (!abandoned.empty())
    directory_.info(fmt::format("retraining from step {}; later checkpoints were moved aside and can be removed: {}",
                                progress().step + 1, fmt::join(abandoned, ", ")));
  start_.date = utc_now();
  start_.layout = describe(recipe_.parallel, world_.size());
  start_.facts = facts_of_start(recipe_, world_.size());
  record_start(recipe_.run.dir, start_, config::write(recipe_));
}

void StageTrainer::end_step(const StepResult& result) {
  observers_->end_step(result, sinks_);
  if (expert_duel_) expert_duel_->end_step(*state_);
  const bool fills_caches = progress().step == start_.run.first_step + 1;
  if (!fills_caches) patience_.stepped(observers_->clock().seconds());
}

void StageTrainer::prepare_to_stop() {
  complete_weights();
  directory_.info(fmt::format("asked to stop: saving after step {}{}", progress().step, end_without_save()));
}

void StageTrainer::complete_weights() {
  ModelInstance& instance = state_->instance;
  const device::Span span(instance.context.spans(), "weights: gather");
  instance.weights.complete(instance.context.compute());
}

bool StageTrainer::any_rank_asked_to_stop() {
  const device::Span span(state_->instance.context.spans(), "agreement on stopping");
  return world_.group().any(preemption_requested(), state_->instance.context);
}

std::optional<telemetry::EvalMetrics> StageTrainer::evaluate_heldout(int64_t sequences) {
  if (!data_.heldout) return {};
  ModelInstance& instance = state_->instance;
  const device::Span span(instance.context.spans(), "held-out evaluation");
  const auto bytes_per_id = data_.tokenizer ? data::bytes_per_id(*data_.tokenizer) : std::vector<int32_t>();
  Evaluation e;
  const RankClock::Phase phase = observers_->clock().measure(
      instance.context, [&] { e = evaluate(instance, recipe_, *data_.heldout, sequences, bytes_per_id); });
  telemetry::EvalMetrics metrics = metrics_of(e, progress().step);
  metrics.comm = phase.comm;
  sinks_.on_eval(metrics);
  return metrics;
}

std::optional<telemetry::EvalMetrics> StageTrainer::evaluate_at_end() {
  const int64_t sample = recipe_.train.eval_sequences;
  const bool curve = recipe_.train.eval_every > 0 && sample > 0 && data_.heldout && sample < data_.heldout->size();
  if (curve) evaluate_heldout(sample);
  return evaluate_heldout(0);
}

void StageTrainer::save(SaveFailure on_failure) {
  device::DeviceContext& context = state_->instance.context;
  const device::Span span(context.spans(), "checkpoint");
  directory_.require_held_now();
  try {
    double mine = 0;
    const RankClock::Phase phase = observers_->clock().measure(context, [&] {
      mine = static_cast<double>(checkpoints_.save(progress(), state_->instance, state_->optimizer));
    });
    const double bytes = world_.group().all_reduce_value(mine, comm::Reduce::sum, context);
    directory_.note(fmt::format("saved step {} in {}: {}, {} of it by this rank", progress().step,
                                human_duration(phase.seconds), human_bytes(bytes), human_bytes(mine)));
    sinks_.on_save({.step = progress().step,
                    .bytes = static_cast<int64_t>(bytes),
                    .seconds = phase.seconds,
                    .comm = phase.comm,
                    .time = telemetry::utc_time()});
    patience_.saved(phase.seconds);
    record_data();
  } catch (const Error& e) {
    // The run can continue after a failed write (resource), or with a damaged file of the generation (data). Other
    // errors mean that a tensor is not finite (numeric), that another job has taken the directory (usage), or that a
    // rank has ended (communication, peer_lost).
    if (on_failure == SaveFailure::stop || (e.code() != ExitCode::resource && e.code() != ExitCode::data)) throw;
    directory_.warn(e.what());
  }
}

void StageTrainer::record_data() {
  if (!leader() || recipe_.data.registered()) return;
  try {
    directory_.require_held_now();
    write_file((std::filesystem::path(recipe_.run.dir) / "data.json").string(),
               data::data_manifest(data_, progress().next_sequence, progress().step));
  } catch (const Error& e) {
    directory_.warn(e.what());
  }
}

ExitCode StageTrainer::end_preempted() {
  sinks_.on_end();
  const std::string text =
      trained() ? fmt::format("after step {}; saved: start the run again to continue", progress().step)
                : fmt::format("before step {}; nothing to save: start the run again", progress().step + 1);
  directory_.info("preempted " + text);
  write_report(cat(trouble_of_preemption, " ", text, "."));
  return ExitCode::preempted;
}

ExitCode StageTrainer::end_done() {
  const auto heldout = evaluate_at_end();
  sinks_.on_end();
  if (const std::string text = observers_->clock().summary(); leader() && !text.empty()) directory_.info(text);
  if (leader() && heldout) directory_.note(telemetry::heldout_text(*heldout));
  if (!is_last()) {
    keep_timelines();
    return ExitCode::done;
  }
  write_report("", samples_of_run(recipe_, state_->instance, data_, progress().step, directory_.warn_function()));
  directory_.note(fmt::format("done after step {}", progress().step));
  return ExitCode::done;
}

telemetry::ReportInputs StageTrainer::advice() const {
  telemetry::ReportInputs advice;
  if (observers_->adviser() && trained())
    observers_->adviser()->add_to(advice, measured_memory(recipe_.run.dir, start_.run.first_step));
  advice.timelines.insert(advice.timelines.begin(), timelines_.begin(), timelines_.end());
  return advice;
}

void StageTrainer::keep_timelines() {
  if (!leader()) return;
  try {
    timelines_ = advice().timelines;
  } catch (const std::exception& e) {  // after any error, training continues without timelines
    directory_.warn(cat("the report will have no timelines of stage ", stage_ + 1, ": ", e.what()));
  }
}

void StageTrainer::write_report(const std::string& trouble, Samples samples) {
  if (!leader()) return;
  const std::filesystem::path dir = recipe_.run.dir;
  try {
    directory_.require_held_now();
    telemetry::ReportInputs advice = this->advice();
    record_end(dir, {.step = progress().step,
                     .date = utc_now(),
                     .trouble = trouble,
                     .facts = std::move(advice.environment),
                     .samples = std::move(samples),
                     .timelines = std::move(advice.timelines)});
    // If this start failed or was preempted before its first step, the report of the previous start remains. In a later
    // stage, earlier stages of this start may have trained steps, which need a report.
    if (trained() || trouble.empty() || stage_ > 0) write_run_report(dir);
  } catch (const std::exception& e) {  // any error: the reason why the run failed must still be reported
    directory_.warn(cat("no report: ", e.what()));
  }
}

}  // namespace hexad::train
