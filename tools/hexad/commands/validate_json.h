// JSON output of `hexad validate`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "layers/model_size.h"
#include "parallel/mesh/layout.h"
#include "parallel/pp/stage_split.h"
#include "tools/plan/checkpoint_estimate.h"
#include "tools/plan/memory_report.h"
#include "tools/plan/prediction_error.h"
#include "tools/plan/step_forecast.h"
#include "tools/train/checkpoint/start_check.h"
#include "tools/train/process/process_placement.h"

namespace hexad::app {

/// Prediction of a step on the cluster of --cluster.
struct StepOnCluster {
  std::string cluster;  // path of the cluster file
  double seconds;
  plan::PredictionError error;
  plan::Throughput rates;
  std::vector<std::string> assumed;
  std::vector<train::AxisSpread> spread;  // numbers of `places` that groups span
  std::string places;                     // "nodes", or "domains" if the fast link joins several nodes
};

/// Results for a valid recipe, or for one of its stages of training.
struct Validation {
  std::string recipe;  // path of the recipe
  std::string stage;   // result of train::stage_text(); empty if the recipe has no stages
  int64_t ranks = 0;
  bool fewest_ranks = false;  // true if the user gave no number of ranks
  std::string start_line;     // command that starts the run on this machine
  std::vector<std::string> warnings;
  train::StartCheck start;
  layers::ModelSize size;
  int64_t tokens_per_step = 0;
  mesh::Layout layout;
  pp::StageSplit stages;
  bool with_mesh = false;  // true to include the position of each rank on the mesh
  plan::MemoryReport::Estimates estimates;
  int64_t memory_limit_bytes = 0;  // limit of memory per rank; 0: none
  double checkpoint_bytes = 0;
  plan::WriteTime checkpoint_time;
  std::optional<StepOnCluster> step;
};

/// Returns the JSON object of a valid recipe. For a recipe with stages, its members are "recipe", "valid", "exit_code"
/// and "stages", a list with an object for each stage.
std::string json_of(const std::vector<Validation>& stages);

/// Runs `validate`. If it throws base::Error, prints an object with "recipe", "valid": false, "exit_code" and
/// "problems", and rethrows the error. Each problem has "file", "line", "override", "key" and "message".
base::ExitCode with_json_problems(const std::string& recipe, const std::vector<std::string>& overrides,
                                  const std::function<base::ExitCode()>& validate);

}  // namespace hexad::app
