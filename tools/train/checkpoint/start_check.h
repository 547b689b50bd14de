// Checks of the files that a run needs at its start: data, folders and checkpoints.
#pragma once

#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/io/checkpoint.h"
#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Result of check_start().
struct StartCheck {
  /// Warnings about this start that the run would print, and a warning if `hexad train` would refuse
  /// schedule.moe.all_to_all: window.
  std::vector<std::string> warnings;
  std::string checkpoint;     // folder of the checkpoint from which the run would continue; empty: a new run
  int64_t trained_steps = 0;  // steps done in that checkpoint
};

/// Opens the files that a run opens at its start, and throws the same errors as the run:
/// - the data
/// - the checkpoint in run.dir that checkpoint.resume selects
/// - without such a checkpoint: train.init_from. Also checks the shapes of its weights, except for a Hugging Face model
///   with train.init_experts or train.init_vocabulary
/// - offload.folder
///
/// Leaves no file behind and reads no weights. `recipe` must have been completed by complete().
StartCheck check_start(const Recipe& recipe, const Extensions& extensions);

/// Throws Error(data) if the fingerprints of the recipe's data, `now`, differ from the fingerprints in the checkpoint.
void require_same_data(const io::Checkpoint& checkpoint, const Recipe& recipe, const std::vector<data::Digest>& now);

/// Returns warnings about differences between the checkpoint's run and a run that continues from it. Compares the
/// learning rate of the next step, the trained parameters (optim.freeze), and the data of the next steps.
std::vector<std::string> cautions_of_resume(const io::Checkpoint& checkpoint, const Recipe& recipe);

/// Throws Error(data) if `folder` (train.init_from) is not a checkpoint. If `folder` is a run directory, the message
/// names its newest checkpoint.
void require_checkpoint(const std::string& folder);

/// Throws Error(usage) if the recipe needs files in offload.folder, but no file can be created there.
void require_offload_folder(const Recipe& recipe);

/// Returns the warning "PATH: no such file, so this dataset has no held-out loss; ...".
std::string missing_heldout_text(const std::string& path);

}  // namespace hexad::train
