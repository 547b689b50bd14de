// The simulator put to the test: what it says of every legal schedule of a recipe, written down before anything is
// measured, and what the schedules then take.
#pragma once

#include <string>

#include "parallel/comm/world.h"
#include "tools/train/recipe.h"

namespace hexad::plan {

struct PredictionBench {
  std::string out = "predictions.json";
  int rounds = 3;     // steps of each schedule that count, in turn
  bool json = false;  // prints one JSON object instead of the table
};

/// Trains a few steps and prints what one MoE layer's forward and backward take. Collective.
void bench_predictions(const train::Recipe& recipe, const train::Extensions& extensions, const comm::World& world,
                       const PredictionBench& bench);

}  // namespace hexad::plan
