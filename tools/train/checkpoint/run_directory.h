// Opens a saved run, for `generate` and `eval`.
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

/// Opens a checkpoint and its recipe. `path` is the folder of a checkpoint, or a run directory: then it is the newest
/// good checkpoint or that of `step` ("auto" or a number). The recipe is the run directory's recipe.yaml. If there is
/// none (a program of a user's own writes none), or `path` is a checkpoint's folder, it is the one that the checkpoint
/// holds. Overrides are applied to it. Throws Error(usage) if `path` is neither, Error(data) if there is no good
/// checkpoint or a dataset is missing. `work` is told what is read.
SavedRun open_run(const std::string& path, const std::vector<std::string>& overrides, const std::string& step,
                  const Extensions& extensions, const base::FileWork& work = {});

/// True if `dir` holds a recipe.yaml.
bool is_run_directory(const std::filesystem::path& dir);
/// Throws Error(usage) unless `dir` holds a recipe.yaml that can be read.
void require_run_directory(const std::string& dir);

}  // namespace hexad::train
