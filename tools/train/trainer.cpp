#include "tools/train/trainer.h"

#include <cmath>
#include <filesystem>

#include <fmt/ranges.h>

#include "framework/base/atomic_file.h"
#include "framework/base/path_problem.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/telemetry/jsonl_sink.h"
#include "framework/telemetry/logger.h"
#include "framework/telemetry/progress_sink.h"
#include "framework/telemetry/tensorboard_sink.h"
#include "framework/telemetry/units.h"
#include "layers/model_size.h"
#include "parallel/comm/self_group.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/checkpoint/start_check.h"
#include "tools/train/model/replica_check.h"
#include "tools/train/model/weight_fault.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/crash_report.h"
#include "tools/train/process/fault.h"
#include "tools/train/process/launch.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/machine_memory.h"
#include "tools/train/process/placement.h"
#include "tools/train/process/say.h"
#include "tools/train/process/signals.h"
#include "tools/train/recipe/cautions.h"
#include "tools/train/report/rank_log.h"
#include "tools/train/report/run_report.h"

namespace hexad::train {

using device::Category;
using namespace autograd;
using namespace base;
using namespace layers;

namespace {

std::filesystem::path log_path(const Recipe& r, int rank) {
  return std::filesystem::path(r.run.dir) / "log" / fmt::format("rank-{:04}.log", rank);
}

// Names what may end the process before it has saved.
std::string end_without_save() {
  if (!end_requested()) return {};
  const std::optional<double> patience = mpirun_patience();
  if (!patience) return "; asked once more (Ctrl-C, SIGTERM) after a second, the run ends at once";
  return fmt::format("; {} s after its SIGTERM mpirun kills the ranks, saved or not ({})", *patience,
                     patience_variable);
}

// In one collective, however many there are: a step has dozens of small numbers to report.
std::vector<double> all_reduced(const std::vector<double>& mine, comm::Reduce op, const comm::ProcessGroup& group,
                                Device device) {
  const Device host = device.host();
  const Tensor all = Tensor::from<double>(mine, {static_cast<int64_t>(mine.size())}, host, Category::communication);
  group.all_reduce(all, op, host.context().compute()).wait();
  return all.to_vector<double>();
}

}  // namespace

Trainer::Trainer(Recipe recipe, const Extensions& extensions, const comm::World& world, const MakeAdviser& make_adviser)
    : world_(world), extensions_(extensions), recipe_(std::move(recipe)) {
  // The directory and its lock come first: whatever fails afterwards can be logged there.
  if (leader()) {
    const auto phase = world.file_work().announce("taking the lock of " + recipe_.run.dir);
    lock_.emplace(io::RunLock::acquire(recipe_.run.dir, say, {}, world.file_work()));
  }
  log_ = telemetry::make_logger(log_path(recipe_, world.rank()), world.rank(), spdlog::level::info);
  log_file_ = telemetry::file_only(*log_);
  log_file_->info(describe_rank(recipe_, world));
  report_crashes_to(log_path(recipe_, world.rank()), world.rank());
  kernels::cpu::set_thread_count(static_cast<int>(*recipe_.train.threads));
  inject_file_fault(world.rank(), world.file_work());
  require_offload_folder(recipe_);
  const std::string crowd = warn_of_threads(find_cores(world), *recipe_.train.threads);
  if (!crowd.empty() && world.local_rank() == 0) warn(crowd);
  for (const std::string& caution : cautions(recipe_)) warn(caution);
  const mesh::Layout layout(recipe_.parallel.sizes(), world.size());
  if (const std::string text = warn_of_placement(layout, world.group().node_of_rank()); !text.empty()) warn(text);

  checkpoints_ =
      std::make_unique<Checkpointer>(recipe_, world.group(),
                                     io::StoreOptions{.keep = static_cast<int>(recipe_.checkpoint.keep),
                                                      .warn = [this](const std::string& text) { warn(text); },
                                                      .fault = save_fault_from_environment(world.rank()),
                                                      .work = world.file_work()});
  checkpoints_->clean();
  auto checkpoint = checkpoints_->find();
  open_data(checkpoint);
  peak_.emplace(recipe_, world.group());
  instance_ = std::make_unique<ModelInstance>(recipe_, extensions_, world.group(),
                                              [this](const std::string& text) { log_->info(text); });
  optimizer_ = std::make_unique<optim::Optimizer>(recipe_.optim, instance_->parameters, recipe_.offload.optimizer,
                                                  extensions_.optimizers);
  step_ = std::make_unique<TrainStep>(recipe_, *instance_, *optimizer_);
  clock_.emplace(world, instance_->mesh);
  resume(std::move(checkpoint));
  trace_.emplace(
      recipe_, *instance_, world.group(), [this](const std::string& text) { log_->info(text); },
      [this](const std::string& text) { warn(text); });
  if (make_adviser) adviser_ = make_adviser({recipe_, *instance_, world, progress_, *trace_, *log_});

  const ModelSize size = model_size(recipe_.model, extensions_);
  flops_per_token_ = size.flops_per_token;
  info_ = {.name = std::filesystem::path(recipe_.run.dir).filename().string(),
           .first_step = progress_.step,
           .total_steps = recipe_.train.steps,
           .parameters = size.parameters,
           .active_parameters = size.active_parameters,
           .ranks = world.size()};
  open_sinks();
}

bool Trainer::anyone(bool flag) {
  const device::Span span(instance_->context.spans(), "agreement on stopping");
  return world_.group().any(flag, instance_->context);
}

void Trainer::warn(const std::string& text) { log_->warn(text); }

void Trainer::expect_save(double seconds) {
  save_seconds_ = seconds;
  warn_of_short_patience();
}

void Trainer::warn_of_short_patience() {
  if (!save_seconds_) return;
  const std::string text = train::warn_of_short_patience(fastest_step_, *save_seconds_);
  if (text.empty()) return;
  warn(text);
  save_seconds_.reset();
}

void Trainer::open_data(const std::optional<io::Checkpoint>& checkpoint) {
  recipe_.data.shuffle = checkpoint ? data_order(*checkpoint, recipe_) : recipe_.data.order();
  const auto phase = world_.file_work().announce("opening the data");
  data_ = data::open_training_data(recipe_.data,
                                   {.context = recipe_.model.context,
                                    .vocab_size = recipe_.model.vocab,
                                    .seed = recipe_.train.seed,
                                    .work = world_.file_work()},
                                   extensions_.sources);
  if (data_.tokenizer) bytes_per_id_ = data::bytes_per_id(*data_.tokenizer);
  progress_.fingerprints = data_.fingerprints;
  for (const std::string& path : data_.missing_heldout) warn(missing_heldout_text(path));
}

void Trainer::resume(std::optional<io::Checkpoint> checkpoint) {
  const base::FileWork& work = world_.file_work();
  if (checkpoint) {
    const auto phase = work.announce("reading " + checkpoint->folder());
    require_same_data(*checkpoint, recipe_, data_.fingerprints);
    progress_ = Checkpointer::load(*checkpoint, recipe_, *instance_, *optimizer_);
    saved_step_ = progress_.step;
    log_->info("resumed from {} (step {}){}", checkpoint->folder(), progress_.step,
               recipe_.data.registered() ? "" : cat(", data.shuffle: ", data::name_of(recipe_.data.order())));
    changes_ = changes_since(*checkpoint, recipe_, world_.size());
    for (const std::string& change : changes_) log_->info("changed since step {}: {}", progress_.step, change);
    for (const std::string& caution : cautions_of_resume(*checkpoint, recipe_)) warn(caution);
  } else if (!recipe_.train.init_from.empty()) {
    const auto phase = work.announce("reading " + recipe_.train.init_from);
    require_checkpoint(recipe_.train.init_from);
    auto weights = open_verified(recipe_.train.init_from, world_.group(), work);
    Checkpointer::load_weights(weights, *instance_, *optimizer_);
    log_->info("weights from {}", recipe_.train.init_from);
  } else {
    log_file_->info("a new run: there is no checkpoint to resume from (checkpoint.resume: {})",
                    recipe_.checkpoint.resume);
  }
}

void Trainer::open_sinks() {
  if (!leader()) return;
  const std::filesystem::path dir = recipe_.run.dir;
  base::write_file((dir / "recipe.yaml").string(), config::write(recipe_));
  const auto tolerant = [&](std::unique_ptr<telemetry::MetricsSink> sink) {
    sinks_.add(telemetry::tolerate_failures(std::move(sink), [this](const std::string& text) { warn(text); }));
  };
  tolerant(std::make_unique<telemetry::JsonlSink>(dir / "metrics.jsonl"));
  tolerant(std::make_unique<telemetry::TensorboardSink>(dir / "tensorboard"));
  sinks_.add(std::make_unique<telemetry::ProgressSink>(telemetry::TextOutput(1, telemetry::Stuck::drop),
                                                       recipe_.train.log_every));
}

// Here and not earlier: a start that fails while it loads, or has no step to train, leaves all as it was.
void Trainer::begin_steps() {
  if (!leader()) return;
  if (lock_) lock_->require_held_now();
  const std::vector<std::string> abandoned = checkpoints_->abandon_after(progress_.step);
  if (!abandoned.empty())
    log_->info(
        "the steps after {} are trained anew: the checkpoints that there were are put aside, remove them when they are "
        "of no use: {}",
        progress_.step, fmt::join(abandoned, ", "));
  record_start(recipe_.run.dir,
               {.run = info_,
                .date = utc_now(),
                .layout = describe(recipe_.parallel, world_.size()),
                .facts = facts_of_start(recipe_, world_.size()),
                .changes = changes_},
               config::write(recipe_));
}

telemetry::StepMetrics Trainer::metrics_of(const StepResult& result) {
  telemetry::StepMetrics m;
  m.step = progress_.step;
  m.tokens = progress_.tokens;
  if (result.targets > 0) m.loss = result.loss;
  m.lr = result.lr;
  m.grad_norm = result.grad_norm;
  m.tokens_per_second = static_cast<double>(result.tokens) / clock_->seconds();
  m.model_flops_per_second = m.tokens_per_second * flops_per_token_;
  m.mfu = m.model_flops_per_second / peak_->of_all_ranks();
  m.peak_flops_per_second = peak_->of_all_ranks();
  m.skipped_steps = progress_.skipped;
  m.started_after = info_.first_step;
  m.time = telemetry::utc_time();

  device::MemoryStats memory = instance_->context.allocator()->stats();
  if (recipe_.offload.any()) {  // kept in a file, by an allocator of its own
    const auto& files = instance_->context.offload_allocator();
    memory.peak[static_cast<size_t>(device::Category::offload)] = files->stats().peak_in(device::Category::offload);
    files->reset_peaks();
  }
  std::vector<double> peaks{memory.peak.begin(), memory.peak.end()};
  peaks.push_back(static_cast<double>(memory.peak_total));
  peaks.push_back(static_cast<double>(memory.peak_held));
  peaks = all_reduced(peaks, comm::Reduce::max, world_.group(), instance_->context);
  for (size_t c = 0; c < device::category_count; ++c)
    m.memory_peak_bytes[std::string(device::name_of(static_cast<device::Category>(c)))] =
        static_cast<int64_t>(peaks[c]);
  m.memory_peak_bytes["total"] = static_cast<int64_t>(peaks[device::category_count]);
  if (peaks.back() > 0) m.memory_peak_bytes["held"] = static_cast<int64_t>(peaks.back());
  instance_->context.allocator()->reset_peaks();
  for (const auto& [name, count] : instance_->context.take_host_reads()) m.host_reads[name] = count;
  for (const std::string& text : clock_->report(m, instance_->context)) warn(text);

  const double micro_batches = static_cast<double>(recipe_.batch.global / recipe_.batch.micro);
  int64_t assignments = 0, dropped = 0;
  for (const RouterStatistics& r : result.routers) {
    const double layers = static_cast<double>(result.routers.size());
    m.aux_loss += r.aux_loss / micro_batches / layers;
    m.z_loss += r.z_loss / micro_batches / layers;
    assignments += r.assignments, dropped += r.dropped;
    std::vector<double> load;
    for (int64_t n : r.counts)
      load.push_back(static_cast<double>(n) / static_cast<double>(std::max<int64_t>(1, r.assignments)));
    m.router_max_load =
        std::max(m.router_max_load, *std::max_element(load.begin(), load.end()) * static_cast<double>(load.size()));
    if (shows_loads(progress_.step)) m.expert_load.push_back(std::move(load));
  }
  m.dropped_fraction = assignments > 0 ? static_cast<double>(dropped) / static_cast<double>(assignments) : 0;
  return m;
}

// The first and the last step of a start count as well, so that every report shows loads.
bool Trainer::shows_loads(int64_t step) const {
  const int64_t every = recipe_.train.router_every;
  return every > 0 && (step % every == 0 || step == info_.first_step + 1 || step == recipe_.train.steps);
}

std::optional<telemetry::EvalMetrics> Trainer::evaluate_heldout(int64_t sequences) {
  if (!data_.heldout) return {};
  const device::Span span(instance_->context.spans(), "held-out evaluation");
  Evaluation e;
  const RankClock::Phase phase = clock_->measure(
      instance_->context, [&] { e = evaluate(*instance_, recipe_, *data_.heldout, sequences, bytes_per_id_); });
  telemetry::EvalMetrics metrics = train::metrics_of(e, progress_.step);
  metrics.comm = phase.comm;
  sinks_.on_eval(metrics);
  return metrics;
}

std::optional<telemetry::EvalMetrics> Trainer::evaluate_at_end() {
  const int64_t sample = recipe_.train.eval_sequences;
  const bool curve = recipe_.train.eval_every > 0 && sample > 0 && data_.heldout && sample < data_.heldout->size();
  if (curve) evaluate_heldout(sample);
  return evaluate_heldout(0);
}

void Trainer::save(SaveFailure on_failure) {
  if (saved_step_ == progress_.step) return;
  const device::Span span(instance_->context.spans(), "checkpoint");
  if (lock_) lock_->require_held_now();
  try {
    double mine = 0;
    const RankClock::Phase phase = clock_->measure(instance_->context, [&] {
      mine = static_cast<double>(checkpoints_->save(progress_, *instance_, *optimizer_));
    });
    saved_step_ = progress_.step;
    const double bytes = world_.group().all_reduce_value(mine, comm::Reduce::sum, instance_->context);
    log_file_->info("saved step {} in {}: {}, {} of it by this rank", progress_.step,
                    telemetry::human_duration(phase.seconds), telemetry::human_bytes(bytes),
                    telemetry::human_bytes(mine));
    sinks_.on_save({.step = progress_.step,
                    .bytes = static_cast<int64_t>(bytes),
                    .seconds = phase.seconds,
                    .comm = phase.comm,
                    .time = telemetry::utc_time()});
    if (save_seconds_) save_seconds_ = phase.seconds;
  } catch (const Error& e) {
    if (on_failure == SaveFailure::stop) throw;
    warn(e.what());
  }
}

// Empty if the whole model has room beside what this run holds: its weights, and while they are read one tensor, as it
// was saved and rounded.
std::string Trainer::lacks_room_for(const Recipe& alone) const {
  const auto saved = static_cast<double>(size_of(accumulator_dtype(dtype_of(alone.train.precision))));
  double largest = 0;
  for (const auto& p : instance_->parameters)
    largest = std::max(largest, static_cast<double>(p->global_shape().numel()));
  const double needed =
      static_cast<double>(info_.parameters) * static_cast<double>(size_of(dtype_of(alone.train.precision))) +
      2 * saved * largest;
  const auto short_of = [&](double room, std::string_view what) {
    return fmt::format("the whole model takes about {}, and {} of {} is left", telemetry::human_bytes(needed),
                       telemetry::human_bytes(std::max(room, 0.0)), what);
  };
  const auto limit = static_cast<double>(alone.memory.limit());
  const double own_room = limit - static_cast<double>(instance_->context.allocator()->stats().total);
  if (limit > 0 && needed > own_room) return short_of(own_room, "memory.limit_bytes");
  const auto room = static_cast<double>(available_memory_bytes());
  if (alone.device == device::DeviceKind::cpu && needed > room) return short_of(room, "the machine's memory");
  return {};
}

// A model that is cut over ranks cannot generate: there the first rank loads what was saved, alone.
std::vector<telemetry::ReportInputs::Sample> Trainer::samples() {
  const ParallelConfig& p = recipe_.parallel;
  if (p.pp * p.tp * p.cp == 1 && p.zero < 3)
    return continue_prompts(recipe_, *instance_, data_, [this](const std::string& text) { warn(text); });
  if (!leader() || (recipe_.run.prompts.empty() && recipe_.run.heldout_prompts == 0)) return {};
  try {
    return samples_of_checkpoint();
  } catch (const Error& e) {  // the run is done and saved: no reason to fail it
    warn(cat("no samples in the report: ", e.what()));
    return {};
  }
}

std::vector<telemetry::ReportInputs::Sample> Trainer::samples_of_checkpoint() {
  auto checkpoint = io::CheckpointStore(recipe_.run.dir + "/checkpoints", {}).find(io::Resume{}, io::Check::quick);
  if (!checkpoint || checkpoint->step() != progress_.step) {
    warn(
        "no samples in the report: with pp, tp or cp above 1 or zero: 3 they come from the last step's checkpoint, "
        "and there is none (checkpoint.at_end)");
    return {};
  }
  Recipe alone = recipe_;
  alone.parallel = {};
  if (const std::string reason = lacks_room_for(alone); !reason.empty()) {
    warn("no samples in the report: " + reason + "; hexad generate makes them where there is room");
    return {};
  }
  const comm::SelfGroup self;
  ModelInstance whole(alone, extensions_, self);
  Checkpointer::load_weights(*checkpoint, whole);
  return continue_prompts(alone, whole, data_, [this](const std::string& text) { warn(text); });
}

void Trainer::write_report(const std::string& trouble, std::vector<telemetry::ReportInputs::Sample> continued) {
  if (!leader()) return;
  const std::filesystem::path dir = recipe_.run.dir;
  try {
    const bool trained = progress_.step > info_.first_step;
    telemetry::ReportInputs advice;
    if (adviser_ && trained) adviser_->add_to(advice, measured_memory(dir, info_.first_step));
    record_end(dir, {.step = progress_.step,
                     .date = utc_now(),
                     .trouble = trouble,
                     .facts = std::move(advice.environment),
                     .samples = std::move(continued),
                     .timelines = std::move(advice.timelines)});
    if (trained || trouble.empty()) write_run_report(dir);
  } catch (const std::exception& e) {  // whatever it is: why the run failed must still be told
    warn(cat("no report: ", e.what()));
  }
}

ExitCode Trainer::run() {
  try {
    return train();
  } catch (const std::exception& e) {
    std::string reason = e.what();
    const std::string step = fmt::format("step {}: ", progress_.step);
    if (reason.starts_with(step)) reason.erase(0, step.size());
    write_report(fmt::format("The run failed after step {}: {}", progress_.step, reason));
    throw;
  }
}

ExitCode Trainer::train() {
  sinks_.on_start(info_);
  int64_t skipped_in_a_row = 0;
  bool preempted = anyone(preemption_requested());  // while it was loading
  if (progress_.step < recipe_.train.steps && !preempted) begin_steps();
  while (progress_.step < recipe_.train.steps && !preempted) {
    const int64_t step = progress_.step + 1;
    report_crashes_in_step(step);
    if (lock_) lock_->require_held();
    inject_fault(world_.rank(), step);
    inject_weight_fault(world_.rank(), step, *instance_);
    trace_->begin_step(step);
    if (adviser_) adviser_->begin_step(step);
    clock_->begin();
    inject_slowness(world_.rank(), step, instance_->context.spans());
    const StepResult result = step_->run(*data_.train, progress_);
    clock_->end();
    if (recipe_.distributed.replica_check_every > 0 && step % recipe_.distributed.replica_check_every == 0) {
      const device::Span span(instance_->context.spans(), "replica check");
      check_replicas(instance_->parameters, world_.group());
    }

    skipped_in_a_row = result.skipped ? skipped_in_a_row + 1 : 0;
    if (result.skipped)
      warn(fmt::format("step {} skipped: loss {}, gradient norm {}", step, telemetry::with_digits(result.loss, 6),
                       telemetry::with_digits(result.grad_norm, 6)));
    if (result.targets == 0 && !std::exchange(told_of_no_targets_, true))
      warn(fmt::format(
          "step {} has no targets: no token of the global batch is followed by another one of its document, "
          "or all are masked; such a step has no loss and changes no weights",
          step));
    std::optional<device::Span> span(std::in_place, instance_->context.spans(), "metrics");
    telemetry::StepMetrics metrics = metrics_of(result);
    if (adviser_) adviser_->end_step(metrics);
    sinks_.on_step(metrics);
    peak_->after_step(metrics.ranks ? metrics.ranks->step_seconds.most : metrics.step_seconds,
                      static_cast<double>(result.tokens) * flops_per_token_);
    span.reset();
    if (skipped_in_a_row >= recipe_.train.max_skipped)
      fail(ExitCode::numeric, "step ", step, ": ", skipped_in_a_row,
           skipped_in_a_row == 1 ? " step" : " steps in a row",
           " without a finite loss and gradient (train.max_skipped)");

    if (step > info_.first_step + 1) {  // the first one fills caches, too
      fastest_step_ = fastest_step_ > 0 ? std::min(fastest_step_, clock_->seconds()) : clock_->seconds();
      warn_of_short_patience();
    }

    const bool last = step == recipe_.train.steps;
    preempted = anyone(preemption_requested());
    if (!preempted && !last && recipe_.train.eval_every > 0 && step % recipe_.train.eval_every == 0) {
      evaluate_heldout(recipe_.train.eval_sequences);
      preempted = anyone(preemption_requested());
    }
    if (preempted) log_->info("asked to stop: saves after step {}{}", step, end_without_save());
    // A save at the end has nothing to go on to: there it must succeed.
    const bool ends = preempted || (last && recipe_.checkpoint.at_end);
    // After a skipped step the weights may be what is broken, which a save would refuse.
    if (ends || (!result.skipped && recipe_.checkpoint.every > 0 && step % recipe_.checkpoint.every == 0))
      save(ends ? SaveFailure::stop : recipe_.checkpoint.on_failure);
  }
  trace_->end();
  if (preempted) {
    sinks_.on_end();
    const std::string text =
        progress_.step > info_.first_step
            ? fmt::format("preempted after step {}; saved, start me again", progress_.step)
            : fmt::format("preempted before step {}; nothing to save, start me again", progress_.step + 1);
    log_->info(text);
    write_report("The run was " + text + ".");
    return ExitCode::preempted;
  }
  const auto heldout = evaluate_at_end();
  sinks_.on_end();
  if (const std::string text = clock_->summary(); leader() && !text.empty()) log_->info(text);
  if (leader() && heldout) log_file_->info(telemetry::heldout_text(*heldout));
  write_report("", samples());
  log_file_->info("done after step {}", progress_.step);
  return ExitCode::done;
}

}  // namespace hexad::train
