// The schedule of MoE layers that a run chose, for later uses of its model.
#pragma once

#include <string>

#include "tools/train/checkpoint/run_directory.h"

namespace hexad::train {

/// Sets the open choices of schedule.moe to those that the run had chosen when it saved the checkpoint, and returns the
/// chosen schedule's name. Returns an empty text and changes nothing if no choice is open, the run had not chosen yet,
/// the model is used in another layout (of any axis except dp), or the recipe has changed such that the schedule is
/// illegal. The run's measurements say nothing about other layouts.
std::string take_chosen_schedule(SavedRun& run);

}  // namespace hexad::train
