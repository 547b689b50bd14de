// Reuse of the MoE schedule that a training run chose, when its model is evaluated or generates text.
#pragma once

#include <string>

#include "tools/train/checkpoint/run_directory.h"

namespace hexad::train {

/// Replaces `auto` settings of schedule.moe with the values that the run had chosen when it saved the checkpoint.
/// Returns the chosen schedule's name. Returns an empty text and changes nothing in these cases:
/// - The model has no experts, or no setting is `auto`.
/// - The run had not chosen yet.
/// - The layout differs in pp, tp, sp, cp, ep or etp, so the run's measurements do not apply.
/// - The chosen schedule is illegal in the changed recipe.
std::string take_chosen_schedule(SavedRun& run);

}  // namespace hexad::train
