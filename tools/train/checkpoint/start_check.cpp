#include "tools/train/checkpoint/start_check.h"

#include <algorithm>
#include <filesystem>

#include "framework/base/counted.h"
#include "framework/base/name_pattern.h"
#include "framework/base/path_problem.h"
#include "framework/config/nearest_path.h"
#include "framework/data/megatron_index.h"
#include "framework/data/training_data.h"
#include "framework/device/meta/meta_run.h"
#include "framework/device/offload_arena.h"
#include "framework/io/checkpoint_store.h"
#include "parallel/comm/imagined_group.h"
#include "tools/interop/foreign_model.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/imported_start.h"
#include "tools/train/checkpoint/initial_weights.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/model/model_instance.h"
#include "tools/train/recipe/recipe_comparison.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

using base::cat;
using base::ExitCode;
using base::fail;

namespace {

namespace fs = std::filesystem;

// Throws Error if stored weights do not fit the whole model. The model is made on a meta device, without memory.
void require_shapes(io::Checkpoint checkpoint, Recipe recipe, const Extensions& extensions) {
  recipe.parallel = {};
  const comm::ImaginedGroup alone(0, 1);
  const ModelInstance instance(recipe, extensions, alone, {}, std::make_shared<device::MetaRun>(recipe.device));
  InitialWeights(checkpoint, recipe).require_shapes(instance);
}

// Returns warnings about parameters that only one of the two runs trains: the checkpoint's run (recipe `before`), or a
// run that continues with the recipe `now`.
std::vector<std::string> changes_of_frozen(const io::Checkpoint& checkpoint, const Recipe& before, const Recipe& now) {
  if (before.optim.freeze == now.optim.freeze) return {};
  std::vector<std::string> released, frozen;
  for (const io::TensorRecord& t : checkpoint.manifest().tensors) {
    if (t.kind != io::Kind::main) continue;
    const bool was = base::matches_any(before.optim.freeze, t.name), is = base::matches_any(now.optim.freeze, t.name);
    if (was && !is) released.push_back(t.name);
    if (is && !was) frozen.push_back(t.name);
  }
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<std::string>& names, std::string_view what) {
    if (names.empty()) return;
    const std::string others = names.size() > 1 ? cat(" and ", names.size() - 1, " more") : "";
    lines.push_back(cat("optim.freeze has changed since ", checkpoint.folder(), ": ", what, names.front(), others));
  };
  add(released, "the optimizer's states start at zero for ");
  add(frozen, "the optimizer no longer trains these parameters, and drops their states: ");
  return lines;
}

// Throws Error if the parameters of a Hugging Face model do not fit the recipe's whole model. If train.init_experts or
// train.init_vocabulary allows other shapes, InitialWeights checks the shapes after the import.
void require_shapes(const interop::ForeignModel& foreign, Recipe recipe, const Extensions& extensions) {
  if (recipe.train.init_experts != InitExperts::none || recipe.train.init_vocabulary != InitVocabulary::none) return;
  recipe.parallel = {};
  const comm::ImaginedGroup alone(0, 1);
  const ModelInstance instance(recipe, extensions, alone, {}, std::make_shared<device::MetaRun>(recipe.device));
  for (const auto& parameter : instance.parameters) {
    const auto found = std::ranges::find(foreign.map().own, parameter->name(), &interop::OwnTensor::name);
    if (found == foreign.map().own.end())
      fail(ExitCode::data, foreign.folder(), ": contains no parameter '", parameter->name(),
           "' of the recipe's model; set keys of model as in config.json, or choose another train.init_from");
    if (!(found->shape == parameter->global_shape()))
      fail(ExitCode::usage, foreign.folder(), ": ", parameter->name(), " is ", found->shape,
           " but the recipe's model has ", parameter->global_shape(),
           "; set keys of model as in config.json, or choose another train.init_from");
  }
  for (const interop::OwnTensor& own : foreign.map().own)
    if (own.kind == io::Kind::main &&
        std::ranges::none_of(instance.parameters, [&](const auto& p) { return p->name() == own.name; }))
      fail(ExitCode::usage, foreign.folder(), ": contains ", own.name, ", which the recipe's model does not have",
           remedy_for_unused(own.name));
}

// Returns a warning if `hexad train`, whose ranks are processes, will refuse the windows of a stage.
std::string caution_of_windows(const Recipe& recipe) {
  if (recipe.device == device::DeviceKind::cuda) return {};
  for (int64_t s = 0; s < stage_count(recipe); ++s) {
    const Recipe stage = with_stage(recipe, s);
    if (stage.schedule.moe.all_to_all == ep::AllToAll::window && stage.parallel.ep > 1)
      return cat(stage_prefix(recipe, s),
                 "schedule.moe.all_to_all is window, which `hexad train` refuses with device: ",
                 device::name_of(recipe.device), " and parallel.ep (", stage.parallel.ep,
                 ") above 1, because its ranks are processes, which cannot access each other's memory; set direct for "
                 "`hexad train`");
  }
  return {};
}

data::TrainingData open_data(const Recipe& recipe, const Extensions& extensions) {
  return data::open_training_data(
      recipe.data, {.context = recipe.model.context, .vocab_size = recipe.model.vocab, .seed = recipe.train.seed},
      extensions.sources);
}

}  // namespace

StartCheck check_start(const Recipe& wanted, const Extensions& extensions) {
  StartCheck found;
  require_offload_folder(wanted);
  const auto warn = [&](const std::string& text) { found.warnings.push_back(text); };
  if (const std::string caution = caution_of_windows(wanted); !caution.empty()) warn(caution);
  io::StoreOptions options;
  options.warn = warn;
  const io::CheckpointStore store(wanted.run.dir + "/checkpoints", options);
  const auto checkpoint = store.find(io::Resume::parse(wanted.checkpoint.resume), io::Check::quick);
  const int64_t step = checkpoint ? checkpoint->step() : 0;
  Recipe recipe = with_stage(wanted, stage_at(wanted, step + 1));
  recipe.data.shuffle = checkpoint ? data_order(*checkpoint, recipe) : recipe.data.order();
  const data::TrainingData data = open_data(recipe, extensions);
  for (const std::string& path : data.missing_heldout) warn(missing_heldout_text(path));
  if (checkpoint) {
    found.checkpoint = checkpoint->folder(), found.trained_steps = step;
    require_same_data(*checkpoint, recipe, data.fingerprints);
    require_same_model(*checkpoint, recipe);
    for (const std::string& caution : cautions_of_resume(*checkpoint, recipe)) warn(caution);
  } else if (!recipe.train.init_from.empty()) {
    for (const std::string& caution : cautions_of_start(recipe)) warn(caution);
    if (starts_from_foreign_model(recipe)) {
      require_same_import(recipe);
      require_shapes(interop::ForeignModel(recipe.train.init_from), recipe, extensions);
    } else {
      require_checkpoint(recipe.train.init_from);
      require_shapes(io::Checkpoint::open(recipe.train.init_from, io::Check::quick), recipe, extensions);
    }
  }
  return found;
}

std::vector<std::string> cautions_of_resume(const io::Checkpoint& checkpoint, const Recipe& recipe) {
  const Recipe saved = saved_recipe(checkpoint);
  const Recipe before = with_stage(saved, stage_at(saved, checkpoint.step() + 1));
  std::vector<std::string> all;
  if (std::string jump = learning_rate_jump(before, recipe, checkpoint.step()); !jump.empty())
    all.push_back(std::move(jump));
  for (std::string& change : changes_of_frozen(checkpoint, before, recipe)) all.push_back(std::move(change));
  for (const std::string& change : changes_of_data(before, recipe)) {
    const bool weight = change.starts_with("data.mixture.") && change.find(".weight: ") != std::string::npos;
    all.push_back(cat(change, " since ", checkpoint.folder(),
                      ": the next steps read other data than without this change",
                      weight ? "; each dataset continues after the sequences already drawn from it" : "",
                      "; restore the value, or use another run.dir"));
  }
  return all;
}

// Compares fingerprints, because the data may have changed although all paths are the same.
void require_same_data(const io::Checkpoint& checkpoint, const Recipe& recipe, const std::vector<data::Digest>& now) {
  const data::DataConfig& config = recipe.data;
  const std::vector<data::Digest> before = saved_fingerprints(checkpoint);
  if (before.size() != now.size())
    fail(ExitCode::data, checkpoint.folder(), ": was trained on ", base::counted(before.size(), "dataset"),
         ", but the recipe names ", now.size(),
         "; use another run.dir, or set train.init_from to start from these weights");
  for (size_t i = 0; i < now.size(); ++i) {
    if (before[i] == now[i]) continue;
    const bool single = !config.dataset.empty();
    const std::string key = single ? "data.dataset" : cat("data.mixture.", i, ".dataset");
    std::string what = cat(key, " (", single ? config.dataset : config.mixture[i].dataset, ")");
    for (const std::string& change : changes_of_recipe(saved_recipe(checkpoint), recipe))
      if (change.starts_with(key + ": ")) what = change;
    fail(ExitCode::data, what, ": has changed since ", checkpoint.folder(), " was saved: fingerprint ", now[i],
         ", expected ", before[i], "; use another run.dir, or set train.init_from to start from these weights");
  }
}

void require_checkpoint(const std::string& folder) {
  const std::string problem = base::file_problem(folder + "/manifest.json");
  if (problem.empty()) return;
  if (base::folder_problem(folder) == "no such folder")
    fail(ExitCode::data, "train.init_from (", folder, ") is not a checkpoint: no such folder",
         config::nearest_folders(folder));
  std::error_code error;
  std::string newest;
  for (fs::directory_iterator entry(fs::path(folder) / "checkpoints", error), end; !error && entry != end;
       entry.increment(error))
    if (fs::exists(entry->path() / "manifest.json", error)) newest = std::max(newest, entry->path().string());
  fail(ExitCode::data, "train.init_from (", folder,
       ") is not a checkpoint: ", problem == "no such file" ? "it has no manifest.json" : "manifest.json: " + problem,
       newest.empty() ? "" : cat("; it is a run directory, whose newest checkpoint is ", newest));
}

void require_offload_folder(const Recipe& recipe) {
  if (!recipe.offload.any() || recipe.device != device::DeviceKind::cpu) return;
  try {
    device::OffloadArena file(recipe.offload.folder);
  } catch (const base::Error& e) {
    fail(ExitCode::usage, "offload.folder (", recipe.offload.folder, "): ", e.what());
  }
}

std::string missing_heldout_text(const std::string& path) {
  const std::string_view remedy = data::is_megatron_index(path)
                                      ? "expected an index of held-out documents"
                                      : "to make the file, run `hexad prepare --heldout 0.02`";
  return cat(path, ": no such file, so this dataset has no held-out loss; ", remedy);
}

}  // namespace hexad::train
