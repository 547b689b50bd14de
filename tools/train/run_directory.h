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
/// Throws Error(usage) when DIR is no run directory, Error(data) when it has no good checkpoint. `work` is told
/// what is read.
RunDirectory open_run(const std::string& dir, const std::vector<std::string>& overrides, const std::string& step,
                      const layers::Registry& registry, const base::FileWork& work = {});

/// Fills what the recipe leaves to other keys, the data and the machine: heads and widths, the vocabulary, and a thread
/// for each of this rank's `cores`.
void complete(Recipe& recipe, int64_t cores);

}  // namespace hexad::train
