// Checks at the start of a run, beyond the recipe itself: data, folders, and checkpoints that it would go on from.
#pragma once

#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/io/checkpoint.h"
#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Findings about a start that is not refused.
struct StartCheck {
  std::vector<std::string> warnings;  // that the run would give
  std::string checkpoint;             // the folder that it would go on from; empty: a new run
  int64_t trained_steps = 0;          // by that checkpoint
};

/// Opens everything that a run opens at its start, and throws the same errors: data, the checkpoint of run.dir that
/// checkpoint.resume names, train.init_from with the shapes of its weights, offload.folder. Leaves no file behind, and
/// reads no weights. `recipe` is complete (see complete()).
StartCheck check_start(const Recipe& recipe, const Extensions& extensions);

/// Throws Error(data) unless `now`, the fingerprints of the recipe's data, are those that the checkpoint's run had.
void require_same_data(const io::Checkpoint& checkpoint, const Recipe& recipe, const std::vector<data::Digest>& now);

/// Returns warnings about a run that goes on from the checkpoint: the learning rate jumps, or its data are not those
/// that the checkpoint's run would have seen.
std::vector<std::string> cautions_of_resume(const io::Checkpoint& checkpoint, const Recipe& recipe);

/// Throws Error(data) unless train.init_from is a checkpoint; names the newest one of a run directory.
void require_checkpoint(const std::string& folder);

/// Throws Error(usage) if files cannot be made in offload.folder and the recipe needs some there.
void require_offload_folder(const Recipe& recipe);

/// "PATH is not there, so ..." for data without a held-out part.
std::string missing_heldout_text(const std::string& path);

}  // namespace hexad::train
