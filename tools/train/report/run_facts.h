// Collects facts about a run directory for `hexad inspect`: the state of the run and its checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/train/report/run_history.h"

namespace hexad::train {

struct RunFacts {
  std::string folder;
  std::string recipe;  // path of the run's recipe; empty if the directory has none
  RunEnding ending;
  // Number of ranks in the newest start that trained a step, or in the newest start if no start did; 0: unknown.
  int64_t ranks = 0;
  std::string layout;  // layout of the start that determines `ranks`
  int64_t steps = 0;   // steps done, from metrics.jsonl
  int64_t total_steps = 0;
  int64_t tokens = 0;

  /// Last recorded value of a loss, and its step.
  struct Loss {
    int64_t step;
    double value;
  };
  std::optional<Loss> loss, heldout_loss;

  struct Saved {
    int64_t step;
    std::string folder;
    int64_t bytes;  // size of all files of the checkpoint
  };
  std::vector<Saved> checkpoints;  // in ascending order of steps; includes damaged checkpoints

  std::vector<std::string> problems;  // one message for each file of the directory that cannot be read
};

/// Collects the facts. Omits the facts of files that are missing or damaged.
RunFacts facts_of_run(const std::filesystem::path& dir);

/// Returns readable text with one line for each kind of fact.
std::string describe(const RunFacts& facts);
/// Returns one JSON object. Unknown values are null.
std::string describe_json(const RunFacts& facts);

}  // namespace hexad::train
