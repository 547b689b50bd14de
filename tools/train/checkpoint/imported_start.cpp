#include "tools/train/checkpoint/imported_start.h"

#include <algorithm>
#include <filesystem>

#include "framework/base/absolute_path.h"
#include "framework/base/failure.h"
#include "framework/base/path_problem.h"
#include "framework/device/context.h"
#include "framework/io/checkpoint.h"
#include "framework/io/remove_folder.h"
#include "parallel/comm/text_collectives.h"
#include "tools/interop/config_json.h"
#include "tools/interop/import_model.h"
#include "tools/interop/new_folder.h"
#include "tools/interop/origin.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

using namespace base;

namespace {

namespace fs = std::filesystem;

constexpr const char* start_key = "train.init_from: ";  // beginning of messages about an import

// True if a file of the model in the folder `source` is newer than `manifest`, which the import wrote. Used for imports
// that lack file stamps.
bool is_newer(const std::string& source, const std::string& manifest) {
  std::error_code error;
  const fs::file_time_type imported = fs::last_write_time(manifest, error);
  for (fs::directory_iterator entry(source, error), end; !error && entry != end; entry.increment(error)) {
    const bool is_read = entry->path().extension() == ".safetensors" || entry->path().filename() == "config.json";
    std::error_code unknown;  // set for a broken link; the import rejects the link and names it
    if (is_read && fs::last_write_time(entry->path(), unknown) > imported && !unknown) return true;
  }
  return false;
}

// Removes temporary folders that killed imports into `folder` have left behind. The caller holds the lock of the run
// directory, so no other import is using these folders.
void remove_remains_of_imports(const std::string& folder, const FileWork& work) {
  const std::string start = fs::path(folder).filename().string() + ".";
  std::vector<std::string> remains;
  std::error_code error;
  for (fs::directory_iterator entry(fs::path(folder).parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(start) && name.ends_with(interop::temporary_suffix)) remains.push_back(entry->path().string());
  }
  for (const std::string& path : remains) io::remove_folder(path, work, error);
}

std::string folder_of_import(const Recipe& recipe) { return recipe.run.dir + "/imported"; }

bool has_import(const std::string& folder) {
  std::error_code error;
  return fs::exists(folder + "/manifest.json", error);
}

// Throws Error(data) if `folder` is not an import of the current files of train.init_from.
void require_import(const Recipe& recipe, const std::string& folder, const FileWork& work) {
  const std::string& source = recipe.train.init_from;
  const std::string found = saved_layout(io::Checkpoint::open(folder, io::Check::quick, work));
  if (found != cat(interop::imported_from, source) && found != cat(interop::imported_from, absolute_path(source)))
    fail(ExitCode::data, folder, ": is '", found, "', but train.init_from is ", source,
         "; remove this folder, or use another run.dir");
  const std::string beside = folder + "/" + std::string(interop::origin_folder_name);
  const interop::FileStamps files =
      interop::has_config(beside) ? interop::read_origin(beside).files : interop::FileStamps();
  if (const std::string changed = interop::changed_file(source, files); !changed.empty())
    fail(ExitCode::data, folder, ": was imported from ", source, ", whose file ", changed,
         " has been changed since; remove this folder, so that the model is imported again");
  if (files.empty() && is_newer(source, folder + "/manifest.json"))
    fail(ExitCode::data, folder, ": is older than a file of ", source,
         "; remove this folder, so that the model is imported again");
}

// Imports train.init_from into `folder` if `folder` has no import. Throws Error(data) if `folder` has an import of
// other files than the current ones.
void import_once(const Recipe& recipe, const std::string& folder, const FileWork& work) {
  if (has_import(folder)) return require_import(recipe, folder, work);
  remove_remains_of_imports(folder, work);
  interop::import_model(absolute_path(recipe.train.init_from), folder, {}, work);
}

// Returns the model keys of the stage that trained the checkpoint's last step.
interop::ModelKeys saved_keys(const io::Checkpoint& checkpoint, const std::string& where) {
  const config::Document document = saved_document(checkpoint);
  const config::Node* stages = document.root.find("stages");
  if (!stages || stages->children.empty()) return interop::ModelKeys::from_recipe(document, where);
  const Recipe saved = saved_recipe(checkpoint);
  const Recipe last = with_stage(saved, stage_at(saved, std::max<int64_t>(1, checkpoint.step())));
  return interop::ModelKeys::from_recipe(config::parse(config::write(last), where), where);
}

// True if this difference between the two models needs no warning: train.init_experts or train.init_vocabulary requests
// the difference, or the difference concerns prediction blocks. Prediction blocks do not change the function of the
// model, and InitialWeights rejects missing and additional prediction blocks.
bool needs_no_caution(const TrainConfig& train, std::string_view change) {
  if (change.starts_with("model.prediction_blocks: ") || change.starts_with("prediction blocks, ")) return true;
  constexpr std::string_view of_experts[] = {
      "blocks, dense or with experts: ", "model.moe.experts: ", "model.moe.top_k: "};
  if (change.starts_with("model.vocab: ")) return train.init_vocabulary != InitVocabulary::none;
  return train.init_experts != InitExperts::none &&
         std::ranges::any_of(of_experts, [&](std::string_view key) { return change.starts_with(key); });
}

}  // namespace

bool starts_from_foreign_model(const Recipe& recipe) {
  std::error_code error;
  return interop::has_config(recipe.train.init_from) && !fs::exists(recipe.train.init_from + "/manifest.json", error);
}

std::vector<std::string> cautions_of_start(const Recipe& recipe) {
  const std::string& start = recipe.train.init_from;
  const std::string beside = start + "/" + std::string(interop::origin_folder_name);
  const bool foreign = starts_from_foreign_model(recipe);
  std::string path;
  interop::ModelKeys before;
  if (foreign || interop::has_config(beside)) {
    const interop::Origin origin = interop::read_origin(foreign ? start : beside);
    path = origin.folder + "/config.json";
    before = interop::read_config(origin.config, path).keys;
  } else {
    if (!file_problem(start + "/manifest.json").empty()) return {};  // require_checkpoint() rejects the folder
    path = start + "/manifest.json: recipe";
    before = saved_keys(io::Checkpoint::open(start, io::Check::quick), path);
  }
  const interop::ModelKeys now =
      interop::ModelKeys::from_recipe(config::parse(config::write(recipe), "recipe"), "recipe");
  std::vector<std::string> cautions;
  for (const std::string& change : interop::ModelKeys::differences(before, now))
    if (!needs_no_caution(recipe.train, change))
      cautions.push_back(cat(path, ": ", change, ", so the recipe computes another function of the same weights"));
  return cautions;
}

void require_same_import(const Recipe& recipe) {
  const std::string folder = folder_of_import(recipe);
  if (!has_import(folder)) return;
  const Failure failure = attempted([&] { require_import(recipe, folder, {}); });
  if (!failure.text.empty()) fail(failure.code, start_key, failure.text);
}

std::string start_folder(const Recipe& recipe, const comm::ProcessGroup& world, const FileWork& work) {
  if (!starts_from_foreign_model(recipe)) return recipe.train.init_from;
  const std::string folder = folder_of_import(recipe);
  const auto phase = work.announce(cat("importing ", recipe.train.init_from));
  std::string problem;  // exit code, a blank, and the message; empty: no error
  if (world.rank() == 0) {
    const Failure failure = attempted([&] { import_once(recipe, folder, work); });
    if (!failure.text.empty()) problem = cat(static_cast<int>(failure.code), " ", failure.text);
  }
  device::DeviceContext host;
  problem = comm::broadcast_text(problem, 0, world, host);
  if (!problem.empty())
    fail(static_cast<ExitCode>(std::stoi(problem)), start_key, problem.substr(problem.find(' ') + 1));
  return folder;
}

}  // namespace hexad::train
