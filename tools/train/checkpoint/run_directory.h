// Opens saved runs and their checkpoints, for `generate`, `eval` and `export`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

struct SavedRun {
  Recipe recipe;
  io::Checkpoint checkpoint;
};

/// Opens a checkpoint and its recipe.
/// - `path` is the folder of a checkpoint, or a run directory.
/// - `step` selects a checkpoint of a run directory: a number, or "auto" for the newest undamaged checkpoint. If `path`
///   is a checkpoint, `step` must be its step or "auto".
/// - The recipe is the run directory's recipe.yaml or, if there is no such file, the recipe in the checkpoint. (A
///   user's own program writes no recipe.yaml.)
/// - `overrides` change the recipe.
/// - `work` receives the progress of reading.
///
/// If the run has stages, returns the recipe of the stage that trained the checkpoint's last step. Throws Error(usage)
/// if `path` is neither kind of folder, or if the recipe or `step` is wrong. Throws Error(data) if there is no good
/// checkpoint or a dataset is missing.
SavedRun open_run(const std::string& path, const std::vector<std::string>& overrides, const std::string& step,
                  const Extensions& extensions, const base::FileWork& work = {});

/// Opens a checkpoint like open_run(), but without its recipe and data. Throws Error(usage) if `path` is neither a
/// checkpoint nor a run directory. Throws Error(data) if there is no good checkpoint.
io::Checkpoint open_saved_checkpoint(const std::string& path, const std::string& step, const base::FileWork& work = {});

/// True if `dir` holds a recipe.yaml.
bool is_run_directory(const std::filesystem::path& dir);
/// Throws Error(usage) if `dir` has no readable recipe.yaml. If `dir` does not exist, the message names similar
/// folders.
void require_run_directory(const std::string& dir);

/// Result of take_chosen_schedule(). Both texts are empty if the model has no experts, or if no setting is `auto`.
struct ChosenSchedule {
  std::string used{};    // name of the schedule that replaces the `auto` settings
  std::string unused{};  // reason why the `auto` settings keep their defaults
};

/// Replaces `auto` settings of schedule.moe with the values that the run had chosen when it saved the checkpoint.
/// Changes nothing in these cases:
/// - The model has no experts, or no setting is `auto`.
/// - The run had not chosen yet, or this program does not know the schedule.
/// - The layout differs in pp, tp, sp, cp, ep or etp, so the run's measurements do not apply.
/// - The chosen schedule is illegal in the changed recipe.
ChosenSchedule take_chosen_schedule(SavedRun& run);

}  // namespace hexad::train
