// Benchmark of the simulator. It predicts the legal schedules of a recipe that fit the recipe's memory limit, and
// writes the predictions. Then it measures these schedules.
#pragma once

#include <string>

#include "parallel/comm/world.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

struct PredictionBench {
  std::string out = "predictions.json";
  int rounds = 3;     // number of timed steps of each schedule, in alternation; 0: no measurement
  bool json = false;  // true: prints one JSON object instead of the table
};

/// Predicts the times of one MoE layer's forward and backward without building the model, and writes the predictions to
/// the file `out`. Then trains a few steps, and prints predicted and measured times. Prints the predictions, measures
/// nothing and returns `resource` if the model does not fit. Throws Error(usage) if the model has no experts, or if the
/// recipe overlaps micro-batches. Collective.
base::ExitCode bench_predictions(const train::Recipe& recipe, const train::Extensions& extensions,
                                 const comm::World& world, const PredictionBench& bench);

}  // namespace hexad::plan
