// The parts of a training run's start, in the order in which Trainer calls them. All but open_sinks() are collective.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/data/training_data.h"
#include "framework/io/checkpoint.h"
#include "framework/telemetry/metrics.h"
#include "tools/train/report/training_directory.h"
#include "tools/train/training_state.h"

namespace hexad::train {

/// Sets this process up as the recipe says, and warns of what is hardly meant: settings, threads, placement of ranks.
/// Throws Error(usage) if offload.folder cannot be used.
void prepare_rank(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory);

/// Opens the training data in the order of `recipe.data.shuffle`. Throws Error(data) if they cannot be used.
data::TrainingData open_data(const Recipe& recipe, const Extensions& extensions, const comm::World& world,
                             const TrainingDirectory& directory);

/// Gives `state` the weights to start from: those of `checkpoint` with its progress, of train.init_from, or the initial
/// ones. Returns the changes of the recipe since the checkpoint.
std::vector<std::string> load_start(std::optional<io::Checkpoint> checkpoint, const Recipe& recipe,
                                    const data::TrainingData& data, const comm::World& world,
                                    const TrainingDirectory& directory, TrainingState& state);

/// On rank 0: writes recipe.yaml and opens metrics.jsonl, tensorboard/ and the progress line.
telemetry::MetricsHub open_sinks(const Recipe& recipe, const TrainingDirectory& directory);

}  // namespace hexad::train
