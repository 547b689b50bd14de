// Opening what a run has saved: for `generate` and `eval`.
#pragma once

#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"
#include "tools/train/recipe.h"

namespace hexad::train {

struct SavedRun {
  Recipe recipe;
  io::Checkpoint checkpoint;
};

/// `path` is a run directory, of which a checkpoint is opened, the newest good one or `step` ("auto" or a number), or
/// the folder of a checkpoint. The recipe is the directory's recipe.yaml; without one (a program of a user's own writes
/// none), or with a checkpoint's folder, it is the one that the checkpoint holds. Overrides are applied to it. Throws
/// Error(usage) when `path` is neither, Error(data) when there is no good checkpoint or a dataset is not there. `work`
/// is told what is read.
SavedRun open_run(const std::string& path, const std::vector<std::string>& overrides, const std::string& step,
                  const Extensions& extensions, const base::FileWork& work = {});

/// Throws Error(usage) unless `dir` holds a recipe.yaml that can be read.
void require_run_directory(const std::string& dir);

/// Throws Error(data) for a dataset that is not there, saying where it was looked for: relative paths are relative to
/// the working directory. `recipe_path`: beside it, too, people put them.
void require_datasets(const Recipe& recipe, const std::string& recipe_path);

/// Fills what the recipe leaves to other keys, the data and the machine: heads and widths, the vocabulary, and a thread
/// for each of this rank's `cores`.
void complete(Recipe& recipe, int64_t cores);

}  // namespace hexad::train
