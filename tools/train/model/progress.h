// Position of a training run in its steps and data, as checkpoints store it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/data/mixture_division.h"

namespace hexad::train {

/// Progress of a run between two steps.
struct Progress {
  int64_t step = 0;           // steps done, including skipped ones
  int64_t skipped = 0;        // steps that changed no weights: loss or gradient not finite, or no targets
  int64_t tokens = 0;         // tokens of all steps done, including skipped ones
  int64_t next_sequence = 0;  // index of the next sequence in the training data
  std::vector<data::Digest> fingerprints{};  // one for each training dataset
  data::MixtureStart mixture_start{};        // point from which the weights of data.mixture apply
  std::string schedule{};                    // schedule that the program has chosen for the MoE layers; empty: none
  std::string schedule_choice{};  // ScheduleChoice::state(), also during trials; empty if the recipe names a schedule
  // Decision of ExpertDuel for schedule.moe.fused: auto, after the name of the device, such as "cuda forward fused,
  // backward plain". Empty if there is no decision.
  std::string fused{};
};

}  // namespace hexad::train
