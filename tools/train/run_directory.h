// Opening a finished or running run: for `generate`, `eval` and `inspect`.
#pragma once

#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"
#include "tools/train/recipe.h"

namespace hexad::train {

struct RunDirectory {
  Recipe recipe;
  io::Checkpoint checkpoint;
};

/// Reads DIR/recipe.yaml with overrides and opens a checkpoint: the newest good one, or `step` ("auto" or a number).
/// Throws Error(usage) when DIR is no run directory, Error(data) when it has no good checkpoint or its datasets are not
/// there. `work` is told what is read.
RunDirectory open_run(const std::string& dir, const std::vector<std::string>& overrides, const std::string& step,
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
