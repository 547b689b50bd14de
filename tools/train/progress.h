// Where a run stands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::train {

/// Where a run stands between two steps.
struct Progress {
  int64_t step = 0;                          // steps done, skipped ones included
  int64_t skipped = 0;                       // steps that changed no weights: not finite, or without targets
  int64_t tokens = 0;                        // seen
  int64_t next_sequence = 0;                 // of the training data
  std::vector<data::Digest> fingerprints{};  // of the training data's files
  // Of the MoE layers, where the run chooses it itself: the chosen one, and ScheduleChoice::state().
  std::string schedule{}, schedule_choice{};
};

}  // namespace hexad::train
