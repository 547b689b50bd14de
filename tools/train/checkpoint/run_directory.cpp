#include "tools/train/checkpoint/run_directory.h"

#include <filesystem>

#include "framework/base/path_problem.h"
#include "framework/config/nearest_path.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

namespace {

namespace fs = std::filesystem;

bool has_file(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::is_regular_file(fs::path(folder) / name, error);
}

// True if open_saved_checkpoint() may find a checkpoint at `path`.
bool is_saved(const fs::path& path) {
  std::error_code error;
  return has_file(path.string(), "manifest.json") || has_file(path.string(), "recipe.yaml") ||
         fs::is_directory(path / "checkpoints", error);
}

io::Checkpoint checkpoint_of(const std::string& dir, const std::string& step, const base::FileWork& work) {
  io::StoreOptions options;
  options.warn = say;
  options.work = work;
  const io::CheckpointStore store(dir + "/checkpoints", options);
  auto checkpoint = store.find(io::Resume::parse(step), io::Check::quick);
  if (!checkpoint)
    base::fail(base::ExitCode::data, "'", dir,
               "' has no checkpoint yet; train until the first save (checkpoint.every, checkpoint.at_end)");
  return std::move(*checkpoint);
}

io::Checkpoint open_checkpoint(const std::string& folder, const std::string& step, const base::FileWork& work) {
  auto checkpoint = io::Checkpoint::open(folder, io::Check::quick, work);
  if (step != "auto" && step != base::cat(checkpoint.step()))
    base::fail(base::ExitCode::usage, "'", folder, "' is the checkpoint of step ", checkpoint.step(), ", not of step ",
               step, "; name its run directory to choose a step");
  return checkpoint;
}

config::Document document_of(const io::Checkpoint& checkpoint, const std::vector<std::string>& overrides) {
  config::Document document = saved_document(checkpoint);
  for (const std::string& text : overrides) config::override_key(document, text);
  return document;
}

// Returns the run with the recipe of the stage that trained the checkpoint's last step.
SavedRun in_its_stage(Recipe recipe, io::Checkpoint checkpoint) {
  const int64_t stage = stage_at(recipe, checkpoint.step());
  return {with_stage(std::move(recipe), stage), std::move(checkpoint)};
}

}  // namespace

SavedRun open_run(const std::string& path, const std::vector<std::string>& overrides, const std::string& step,
                  const Extensions& extensions, const base::FileWork& work) {
  const auto read = [&](config::Document document, const std::string& written_in) {
    Recipe recipe = load_recipe(std::move(document), extensions, 0, say);
    require_datasets(recipe, written_in);
    return recipe;
  };
  const std::string recipe_path = path + "/recipe.yaml";
  if (has_file(path, "recipe.yaml") && !has_file(path, "manifest.json")) {
    Recipe recipe = read(config::load(recipe_path, overrides), recipe_path);
    recipe.run.dir = path;
    return in_its_stage(std::move(recipe), checkpoint_of(path, step, work));
  }
  io::Checkpoint checkpoint = open_saved_checkpoint(path, step, work);
  Recipe recipe = read(document_of(checkpoint, overrides), checkpoint.folder() + "/manifest.json");
  return in_its_stage(std::move(recipe), std::move(checkpoint));
}

io::Checkpoint open_saved_checkpoint(const std::string& path, const std::string& step, const base::FileWork& work) {
  if (has_file(path, "manifest.json")) return open_checkpoint(path, step, work);
  std::error_code error;
  if (!has_file(path, "recipe.yaml") && !fs::is_directory(path + "/checkpoints", error)) {
    if (!base::folder_problem(path).empty()) require_run_directory(path);
    base::fail(base::ExitCode::usage, "'", path,
               "' is neither a run directory (no recipe.yaml, no checkpoints) nor a checkpoint (no manifest.json)",
               has_file(path, "config.json") ? "; `hexad import` converts a Hugging Face model to a checkpoint"
                                             : config::accepted_below(path, is_saved));
  }
  return checkpoint_of(path, step, work);
}

bool is_run_directory(const fs::path& dir) { return has_file(dir, "recipe.yaml"); }

void require_run_directory(const std::string& dir) {
  const std::string path = dir + "/recipe.yaml", problem = base::file_problem(path);
  if (problem.empty()) return;
  if (const std::string folder = base::folder_problem(dir); problem == "no such file" && !folder.empty())
    base::fail(base::ExitCode::usage, "'", dir, "' is not a run directory: ", folder, config::nearest_folders(dir));
  base::fail(base::ExitCode::usage, "'", dir,
             "' is not a run directory: ", problem == "no such file" ? "it has no recipe.yaml" : path + ": " + problem);
}

}  // namespace hexad::train
