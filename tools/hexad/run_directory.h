// Opening a finished or running run: for `generate`, `eval` and `inspect`.
#pragma once

#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"
#include "parallel/comm/world.h"
#include "tools/hexad/recipe.h"

namespace hexad::app {

struct RunDirectory {
  Recipe recipe;
  io::Checkpoint checkpoint;
};

/// Reads DIR/recipe.yaml with overrides and opens a checkpoint: the newest good one, or `step` ("auto" or a number).
/// Throws Error(usage) when DIR is no run directory, Error(data) when it has no good checkpoint. `work` is told
/// what is read.
RunDirectory open_run(const std::string& dir, const std::vector<std::string>& overrides, const std::string& step,
                      const layers::Registry& registry, const base::FileWork& work = {});

int64_t ranks_of_this_node(const comm::Topology& topology);

/// Fills what the recipe leaves to other keys, the data and the machine: heads and widths, the vocabulary, and the
/// number of threads of each of `local_ranks` ranks on this node.
void complete(Recipe& recipe, int64_t local_ranks);

}  // namespace hexad::app
