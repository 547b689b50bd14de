#include "tools/train/opening.h"

#include <filesystem>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/data/data_use.h"
#include "framework/data/mixture_source.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/telemetry/jsonl_sink.h"
#include "framework/telemetry/progress_sink.h"
#include "framework/telemetry/tensorboard_sink.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/imported_start.h"
#include "tools/train/checkpoint/initial_weights.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/checkpoint/start_check.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/planted_fault.h"
#include "tools/train/process/process_placement.h"
#include "tools/train/recipe/cautions.h"
#include "tools/train/recipe/data_on_ranks.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

using base::cat;

namespace {

// Returns the position of the rank: "rank 1 of 2 at pp 0, dp 1, cp 0, tp 0, edp 0, ep 1, etp 0 of pp 1 x ...".
std::string describe_place(const mesh::Layout& layout, const Recipe& recipe, const comm::World& world) {
  std::string place;
  for (int a = 0; a < mesh::axis_count; ++a) {
    const auto axis = static_cast<mesh::Axis>(a);
    place +=
        fmt::format("{}{} {}", place.empty() ? "" : ", ", mesh::name_of(axis), layout.coordinate(axis, world.rank()));
  }
  return fmt::format("rank {} of {} at {} of {}", world.rank(), world.size(), place,
                     describe(recipe.parallel, world.size()));
}

// Adapts progress that was saved with the recipe `before` to the recipe `now`. If a new stage begins, discards two
// choices of the previous stage: the schedule, chosen for that stage's layout, and the decision of schedule.moe.fused.
void enter_stage(Progress& progress, const Recipe& before, const Recipe& now) {
  progress.next_sequence = continued_sequence(progress.next_sequence, before.model.context, now.model.context);
  if (stage_at(now, progress.step) == stage_at(now, progress.step + 1)) return;
  progress.schedule.clear(), progress.schedule_choice.clear(), progress.fused.clear();
}

}  // namespace

void prepare_rank(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory) {
  kernels::cpu::set_thread_count(static_cast<int>(*recipe.train.threads));
  inject_file_fault(world.rank(), world.file_work());
  require_offload_folder(recipe);
  const Cores cores = find_cores(world.group());
  directory.note(fmt::format("kernel threads: {}; cores: {} for this rank, {} for the {} of the node",
                             *recipe.train.threads, cores.rank_cores, cores.node_cores,
                             base::counted(cores.ranks, "rank")));
  const std::string crowd = warn_of_threads(cores, *recipe.train.threads);
  if (!crowd.empty() && world.local_rank() == 0) directory.warn(crowd);
  for (const std::string& caution : cautions(recipe)) directory.warn(caution);
}

io::StoreOptions store_options(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory) {
  return {.keep = static_cast<int>(recipe.checkpoint.keep),
          .warn = directory.warn_function(),
          .fault = save_fault_from_environment(world.rank()),
          .work = world.file_work(),
          .generation = directory.generation()};
}

void note_layout(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory) {
  const mesh::Layout layout(recipe.parallel.sizes(), world.size());
  directory.note(describe_place(layout, recipe, world));
  if (const std::string text = warn_of_placement(layout, world.group().node_of_rank()); !text.empty())
    directory.warn(text);
  if (const std::string text = warn_of_order(recipe.parallel.sizes(), world.group().node_of_rank()); !text.empty())
    directory.warn(text);
}

data::TrainingData open_data(const Recipe& recipe, const Extensions& extensions, const comm::World& world,
                             const TrainingDirectory& directory, const data::MixtureStart& mixture_start) {
  const auto phase = world.file_work().announce("opening the data");
  data::TrainingData data = open_data_on_ranks(recipe, extensions, world.group(), world.file_work(), mixture_start);
  for (const std::string& path : data.missing_heldout) directory.warn(missing_heldout_text(path));
  return data;
}

void note_data_use(const data::TrainingData& data, int64_t sequences, const TrainingDirectory& directory) {
  for (const std::string& line : data::lines_of(data::dataset_uses(data, sequences)))
    if (data.mixture) {
      directory.info(cat("data: ", line));
    } else {
      directory.note(cat("data: ", line));
    }
}

std::vector<std::string> load_start(std::optional<io::Checkpoint> checkpoint, const Recipe& recipe,
                                    const data::TrainingData& data, const comm::World& world,
                                    const TrainingDirectory& directory, TrainingState& state) {
  const base::FileWork& work = world.file_work();
  if (checkpoint) {
    const auto phase = work.announce("reading " + checkpoint->folder());
    require_same_data(*checkpoint, recipe, data.fingerprints);
    state.progress = Checkpointer::load(*checkpoint, recipe, state.instance, state.optimizer);
    enter_stage(state.progress, saved_recipe(*checkpoint), recipe);
    state.progress.mixture_start = data.mixture ? data.mixture->start() : data::MixtureStart();
    const int64_t step = state.progress.step;
    directory.info(
        fmt::format("resumed from {} (step {}){}", checkpoint->folder(), step,
                    recipe.data.registered() ? "" : cat(", data.shuffle: ", base::enum_name(recipe.data.order()))));
    const std::vector<std::string> changes = changes_since(*checkpoint, recipe, world.size());
    for (const std::string& change : changes) directory.info(fmt::format("changed since step {}: {}", step, change));
    for (const std::string& caution : cautions_of_resume(*checkpoint, recipe)) directory.warn(caution);
    return changes;
  }
  state.progress.fingerprints = data.fingerprints;
  if (!recipe.train.init_from.empty()) {
    const auto phase = work.announce("reading " + recipe.train.init_from);
    if (!starts_from_foreign_model(recipe)) require_checkpoint(recipe.train.init_from);
    auto weights = open_verified(start_folder(recipe, world.group(), work), world.group(), work);
    // All ranks have opened the checkpoint, so reading its manifest does not fail on a single rank.
    for (const std::string& caution : cautions_of_start(recipe)) directory.warn(caution);
    InitialWeights(weights, recipe).load(state.instance, state.optimizer);
    directory.info(fmt::format("weights from {}", recipe.train.init_from));
  } else {
    directory.note(
        fmt::format("a new run, which resumes from no checkpoint (checkpoint.resume: {})", recipe.checkpoint.resume));
  }
  return {};
}

telemetry::MetricsHub open_sinks(const Recipe& recipe, const TrainingDirectory& directory) {
  telemetry::MetricsHub sinks;
  const std::filesystem::path dir = recipe.run.dir;
  directory.generation().require_not_superseded();
  base::write_file((dir / "recipe.yaml").string(), config::write(recipe));
  const auto tolerant = [&](std::unique_ptr<telemetry::MetricsSink> sink) {
    sinks.add(telemetry::checked(telemetry::tolerate_failures(std::move(sink), directory.warn_function()),
                                 [generation = directory.generation()] { generation.require_not_superseded(); }));
  };
  tolerant(std::make_unique<telemetry::JsonlSink>(dir / "metrics.jsonl"));
  tolerant(std::make_unique<telemetry::TensorboardSink>(dir / "tensorboard"));
  sinks.add(std::make_unique<telemetry::ProgressSink>(telemetry::TextOutput(1, telemetry::BlockedReader::drop),
                                                      recipe.train.log_every));
  return sinks;
}

}  // namespace hexad::train
